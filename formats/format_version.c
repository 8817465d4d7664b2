#include "formats/format_version.h"

#include <string.h>

#include "formats/checksums.h"

pare_status pare_version_check(pare_ctx *cx, const char *file, const char *key,
                               const pare_json *version, int64_t known)
{
    const long long is = pare_json_integer(version, 0);
    if (pare_json_type_of(version) != PARE_JSON_INTEGER)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: %s is missing or not a whole number, so nothing says how to read the "
                         "files; this program reads %lld; copy the model again",
                         file, key, (long long)known);
    if (is == known)
        return PARE_OK;
    return pare_fail(cx, PARE_ENOTSUP, "%s: %s is %lld, and this program reads %lld; %s", file, key,
                     is, (long long)known,
                     is > known ? "a newer pare is needed"
                                : "compress the original model again with this one");
}

pare_status pare_index_version_check(pare_ctx *cx, const char *file, const pare_json *index)
{
    const pare_json *const metadata = pare_json_get(index, "metadata");
    const char *const format = pare_json_text(pare_json_get(metadata, "format"), NULL);
    const char *const layout = pare_json_text(pare_json_get(metadata, "layout"), NULL);
    if (!format || strcmp(format, "pare") != 0 || !layout)
        return pare_fail(cx, PARE_EFORMAT, "%s: metadata does not describe a model of pare", file);
    PARE_TRY(pare_version_check(cx, file, "metadata.version", pare_json_get(metadata, "version"),
                                PARE_INDEX_VERSION));
    if (strcmp(layout, "R8K32") != 0)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: metadata.layout is \"%.32s\", and this program reads \"R8K32\"; a "
                         "newer pare is needed",
                         file, layout);
    return PARE_OK;
}

static pare_status check_config(const pare_checkpoint *ck)
{
    const pare_json *const q = pare_json_get(ck->config, "quantization_config");
    const char *const method = pare_json_text(pare_json_get(q, "quant_method"), NULL);
    if (!method || strcmp(method, "pare") != 0)
        return PARE_OK;
    return pare_version_check(ck->cx, ck->config_file.path, "quantization_config.format",
                              pare_json_get(q, "format"), PARE_CONFIG_FORMAT);
}

/* One file of a directory belongs to the manifest beside it when that lists it. */
static bool belongs(const pare_checkpoint *ck, const pare_json *manifest)
{
    const char *const slash = strrchr(ck->path, '/');
    return ck->directory == ck->path || pare_manifest_lists(manifest, slash ? slash + 1 : ck->path);
}

static pare_status check_text(const pare_checkpoint *ck, const char *path, const char *text,
                              size_t len)
{
    pare_json *manifest;
    pare_status s = pare_json_parse(ck->cx, path, text, len, PARE_MANIFEST_CAP, &manifest);
    if (s == PARE_EFORMAT) {
        pare_ctx_clear(ck->cx);
        return PARE_OK;
    }
    PARE_TRY(s);
    if (belongs(ck, manifest))
        s = pare_version_check(ck->cx, path, "format", pare_json_get(manifest, "format"),
                               PARE_MANIFEST_FORMAT);
    pare_json_free(manifest);
    return s;
}

/* Whether the beginning of a file looks like a manifest of ours: others can be of any size. */
static pare_status look_whose(pare_ctx *cx, pare_arena *a, const char *path, bool *ours)
{
    enum { START = 1 << 16 };
    pare_file f;
    PARE_TRY(pare_file_map(cx, a, path, &f));
    *ours = f.bytes > 0 &&
            pare_manifest_is_ours((const char *)f.data, f.bytes < START ? (size_t)f.bytes : START);
    pare_file_unmap(&f);
    return PARE_OK;
}

static pare_status check_manifest(const pare_checkpoint *ck, pare_arena *a)
{
    char *const path = pare_path_join(a, ck->directory, PARE_MANIFEST_NAME), *text;
    pare_path_kind is;
    bool ours = true;
    size_t len;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_path_look(ck->cx, path, &is));
    if (is != PARE_PATH_FILE)
        return PARE_OK;
    if (!ck->packed)
        PARE_TRY(look_whose(ck->cx, a, path, &ours));
    if (!ours)
        return PARE_OK;
    PARE_TRY(pare_file_read(ck->cx, a, path, PARE_MANIFEST_CAP, &text, &len));
    return check_text(ck, path, text, len);
}

pare_status pare_checkpoint_version_check(const pare_checkpoint *ck)
{
    pare_arena a;
    PARE_TRY(check_config(ck));
    pare_status s = pare_arena_init(ck->cx, &a, 0);
    if (s == PARE_OK)
        s = check_manifest(ck, &a);
    pare_arena_release(&a);
    return s;
}
