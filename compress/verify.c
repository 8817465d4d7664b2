#include "compress/verify.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compress/verify_internal.h"
#include "formats/hash.h"

enum { MANIFEST_CAP = 1 << 30, OUTPUTS_MAX = 200000, FINDING = 1024 };
static const char manifest_name[] = "manifest.json", index_name[] = "packed.index.json";

void pare__verify_found(pare_verify_run *v, const char *fmt, ...)
{
    char text[FINDING];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    v->out->findings++;
    if (v->found)
        v->found(v->self, text);
}

pare_status pare__verify_absorb(pare_verify_run *v, pare_status s)
{
    if (s != PARE_EFORMAT && s != PARE_ENOTFOUND && s != PARE_ESHAPE)
        return s;
    pare__verify_found(v, "%s", v->cx->what);
    pare_ctx_clear(v->cx);
    return PARE_OK;
}

/* A name that stays inside the directory. */
static bool plain_name(const char *name)
{
    return name && name[0] != '\0' && name[0] != '.' && !strchr(name, '/');
}

bool pare__verify_listed(pare_verify_run *v, const pare_json *list, size_t i, pare_verify_file *out)
{
    const pare_json *const item = pare_json_at(list, i);
    *out = (pare_verify_file){pare_json_text(pare_json_get(item, "file"), NULL),
                              pare_json_text(pare_json_get(item, "sha256"), NULL),
                              pare_json_integer(pare_json_get(item, "bytes"), -1)};
    if (plain_name(out->name) && out->sha256 && out->bytes >= 0)
        return true;
    pare__verify_found(v, "%s: outputs: item %zu is malformed", manifest_name, i);
    return false;
}

/* Maps what can be mapped and has its size; `count` of them end up in `file` and `expect`. */
static pare_status map_listed(pare_verify_run *v, const pare_json *list, pare_file *file,
                              pare_verify_file *expect, size_t *count)
{
    for (size_t i = 0; i < pare_json_count(list); i++) {
        pare_verify_file e;
        if (!pare__verify_listed(v, list, i, &e))
            continue;
        char *const path = pare_path_join(&v->arena, v->path, e.name);
        if (!path)
            return PARE_ENOMEM;
        pare_file *const f = &file[*count];
        const pare_status s = pare_file_map(v->cx, &v->arena, path, f);
        PARE_TRY(pare__verify_absorb(v, s));
        if (s != PARE_OK)
            continue;
        if (f->bytes != (uint64_t)e.bytes)
            pare__verify_found(v, "%s: %llu bytes, the manifest says %lld", e.name,
                               (unsigned long long)f->bytes, (long long)e.bytes);
        expect[(*count)++] = e;
    }
    return PARE_OK;
}

/* SHA-256 of every file of the list. */
static pare_status check_listed(pare_verify_run *v, const pare_json *list)
{
    const size_t most = pare_json_count(list);
    if (most > OUTPUTS_MAX)
        return pare_fail(v->cx, PARE_EFORMAT, "%s: %zu outputs", manifest_name, most);
    pare_file *const file = PARE_NEW(&v->arena, pare_file, most);
    pare_verify_file *const expect = PARE_NEW(&v->arena, pare_verify_file, most);
    char(*const hex)[PARE_SHA256_HEX] = pare_arena_take(&v->arena, most, sizeof *hex);
    if (!file || !expect || !hex)
        return PARE_ENOMEM;
    size_t count = 0;
    pare_status s = map_listed(v, list, file, expect, &count);
    if (s == PARE_OK)
        s = pare_sha256_files(v->cx, file, count, hex);
    for (size_t i = 0; i < count; i++) {
        if (s == PARE_OK && strcmp(hex[i], expect[i].sha256) != 0)
            pare__verify_found(v, "%s: SHA-256 is %s, the manifest says %s", expect[i].name, hex[i],
                               expect[i].sha256);
        v->out->files++;
        v->out->bytes += file[i].bytes;
        pare_file_unmap(&file[i]);
    }
    return s;
}

static bool is_listed(const pare_json *list, const char *name)
{
    for (size_t i = 0; i < pare_json_count(list); i++) {
        const char *const file = pare_json_text(pare_json_get(pare_json_at(list, i), "file"), NULL);
        if (file && strcmp(file, name) == 0)
            return true;
    }
    return false;
}

/* The list is complete: what the artifact needs stands in it, and so does every weight file. */
static pare_status check_complete(pare_verify_run *v, const pare_json *list)
{
    const bool plain =
        is_listed(list, "model.safetensors") || is_listed(list, "model.safetensors.index.json");
    static const char *const needed[] = {"config.json", index_name};
    for (size_t i = 0; i < (plain ? 1 : 2); i++)
        if (!is_listed(list, needed[i]))
            pare__verify_found(v, "%s: %s is not among the outputs", manifest_name, needed[i]);
    DIR *const d = opendir(v->path);
    if (!d)
        return pare_file_fail_input(v->cx, v->path, "list");
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (fnmatch("*.safetensors", e->d_name, 0) == 0 && !is_listed(list, e->d_name))
            pare__verify_found(v, "%s: a weight file that the manifest does not list", e->d_name);
    (void)closedir(d);
    return PARE_OK;
}

void pare__verify_recipe(pare_verify_run *v)
{
    const char *const recipe = pare_json_text(pare_json_get(v->manifest, "recipe"), NULL);
    const char *const want = pare_json_text(pare_json_get(v->manifest, "recipe_sha256"), NULL);
    char hex[PARE_SHA256_HEX] = "absent";
    if (recipe)
        pare_sha256_hex(recipe, strlen(recipe), hex);
    if (!want || strcmp(hex, want) != 0)
        pare__verify_found(v, "%s: SHA-256 of the recipe is %s, recipe_sha256 says %s",
                           manifest_name, hex, want ? want : "nothing");
}

static pare_status read_manifest(pare_verify_run *v)
{
    char *const path = pare_path_join(&v->arena, v->path, manifest_name);
    if (!path)
        return PARE_ENOMEM;
    char *text;
    size_t len;
    PARE_TRY(pare_file_read(v->cx, &v->arena, path, MANIFEST_CAP, &text, &len));
    return pare_json_parse(v->cx, manifest_name, text, len, MANIFEST_CAP, &v->manifest);
}

static pare_status check_manifest(pare_verify_run *v)
{
    PARE_TRY(pare__verify_absorb(v, read_manifest(v)));
    if (!v->manifest)
        return PARE_OK;
    v->out->files++;
    pare__verify_recipe(v);
    const pare_json *const list = pare_json_get(v->manifest, "outputs");
    PARE_TRY(pare__verify_absorb(v, check_listed(v, list)));
    return check_complete(v, list);
}

/* A family that the runtime does not know can still be verified as far as files go. */
static pare_status check_model(pare_verify_run *v)
{
    pare_model m;
    if (!v->checkpoint.config)
        return PARE_OK;
    const pare_status s = pare_model_load(v->cx, &v->arena, &v->checkpoint, &m);
    if (s == PARE_ENOTSUP && !v->checkpoint.packed) {
        pare_ctx_clear(v->cx);
        return PARE_OK;
    }
    if (s != PARE_OK)
        return pare__verify_absorb(v, s);
    const pare_json *const linears = pare_json_get(v->checkpoint.index, "linears");
    for (size_t b = 0; b < m.config.blocks; b++)
        for (size_t i = 0; i < pare_block_parts(&m.config) * PARE_ROLES; i++) {
            const pare_linear *const l =
                pare_block_linear(&m.block[b], i / PARE_ROLES, (pare_role)(i % PARE_ROLES));
            if (l->name && pare_json_get(linears, l->name))
                PARE_TRY(pare__verify_packed(v, l));
        }
    return m.head.bits ? pare__verify_packed(v, &m.head) : PARE_OK;
}

static pare_status check_all(pare_verify_run *v)
{
    char *const index = pare_path_join(&v->arena, v->path, index_name);
    char *const manifest = pare_path_join(&v->arena, v->path, manifest_name);
    if (!index || !manifest)
        return PARE_ENOMEM;
    const bool ours = pare_path_is_directory(v->path) &&
                      (pare_path_is_file(index) || pare_path_is_file(manifest));
    if (ours)
        PARE_TRY(check_manifest(v));
    const pare_status s = pare_checkpoint_open(v->cx, &v->arena, v->path, &v->checkpoint);
    PARE_TRY(pare__verify_absorb(v, s));
    if (s != PARE_OK)
        return PARE_OK;
    if (!ours)
        v->out->files += v->checkpoint.files;
    for (size_t i = 0; !ours && i < v->checkpoint.files; i++)
        v->out->bytes += v->checkpoint.file[i].bytes;
    v->out->tensors = v->checkpoint.tensors;
    if (v->manifest)
        pare__verify_hashes(v);
    pare__verify_finite(v);
    return check_model(v);
}

pare_status pare_verify(pare_ctx *cx, const char *path, void (*found)(void *self, const char *what),
                        void *self, pare_verify_result *out)
{
    *out = (pare_verify_result){0};
    if (!pare_path_is_directory(path) && !pare_path_is_file(path)) {
        errno = ENOENT;
        return pare_file_fail(cx, path, "verify");
    }
    pare_verify_run v = {.cx = cx, .found = found, .self = self, .out = out, .path = path};
    pare_status s = pare_arena_init(cx, &v.arena, 0);
    if (s == PARE_OK)
        s = check_all(&v);
    pare_checkpoint_close(&v.checkpoint);
    pare_json_free(v.manifest);
    pare_arena_release(&v.arena);
    return s;
}
