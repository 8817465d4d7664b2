#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/export.h"
#include "compress/output.h"
#include "formats/gguf.h"
#include "runtime/file.h"

enum { OTHER = 64 };

/* Files that exports leave, finished or not. */
static bool writes(const char *name)
{
    static const char *const ours[] = {"config.json",       "quantize_config.json",
                                       "model.safetensors", "model-*-of-*.safetensors",
                                       PARE_EXPORT_RECORD,  "model.safetensors.index.json"};
    char base[256];
    const size_t len = strlen(name), cut = len > 4 && strcmp(name + len - 4, ".tmp") == 0 ? 4 : 0;
    (void)snprintf(base, sizeof base, "%.*s", (int)(len - cut), name);
    bool found = false;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        found |= fnmatch(ours[i], base, 0) == 0;
    for (size_t i = 0; pare_companions[i]; i++)
        found |= strcmp(pare_companions[i], base) == 0;
    return found;
}

/* Something in a directory that no export would write; false when there is nothing such, or no
 * directory. */
static bool holds_other(const char *path, char other[OTHER])
{
    DIR *const d = opendir(path);
    other[0] = '\0';
    if (!d)
        return false;
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !writes(e->d_name))
            (void)snprintf(other, OTHER, "%.60s", e->d_name);
    (void)closedir(d);
    return other[0] != '\0';
}

/* Whether a file is one that an export wrote; or one that it did not finish: empty, torn inside its
 * head, or with a head of ours, whatever of the tensors is there. */
static bool is_gguf_of_ours(pare_ctx *cx, pare_arena *a, const char *path, bool unfinished)
{
    const pare_mark m = pare_arena_mark(a);
    pare_file f = {0};
    pare_gguf g;
    const char *text = NULL;
    size_t len = 0;
    pare_status s = pare_file_map(cx, a, path, &f);
    bool ours = s == PARE_OK && unfinished && f.bytes == 0;
    if (s == PARE_OK && !ours) {
        s = pare_gguf_parse_head(cx, a, path, f.data, f.bytes,
                                 unfinished ? PARE_GGUF_ANY_SIZE : f.bytes, &g);
        ours = s == PARE_OK
                   ? pare_gguf_text(pare_gguf_find(&g, "general.quantized_by"), &text, &len) &&
                         len >= 5 && memcmp(text, "pare ", 5) == 0
                   : unfinished && f.bytes >= 4 && memcmp(f.data, "GGUF", 4) == 0;
    }
    pare_ctx_clear(cx);
    pare_file_unmap(&f);
    pare_arena_rewind(a, m);
    return ours;
}

/* What lies there is an export of the kind, and nothing else. */
static pare_status check_ours(pare_ctx *cx, pare_arena *a, const char *output, mode_t mode,
                              pare_export_kind kind)
{
    static const char no_export[] =
        "%s: is no export of pare%s, so --restart does not replace it; choose another path";
    char other[OTHER];
    if (kind == PARE_EXPORT_FILE)
        return S_ISREG(mode) && is_gguf_of_ours(cx, a, output, false)
                   ? PARE_OK
                   : pare_fail(cx, PARE_EEXISTS, no_export, output, " in GGUF");
    char *const record = pare_path_join(a, output, PARE_EXPORT_RECORD);
    if (!record)
        return PARE_ENOMEM;
    if (!pare_path_is_file(record))
        return pare_fail(cx, PARE_EEXISTS, no_export, output, " (no " PARE_EXPORT_RECORD ")");
    if (holds_other(output, other))
        return pare_fail(cx, PARE_EEXISTS,
                         "%s: holds \"%s\" beside an export, which --restart would remove; move it "
                         "away or choose another path",
                         output, other);
    return PARE_OK;
}

/* What --restart may put another export in place of. */
static pare_status check_output(pare_ctx *cx, pare_arena *a, const char *artifact,
                                pare_export_kind kind, bool restart, pare_export_place *p)
{
    struct stat st;
    if (lstat(p->output, &st) != 0)
        return PARE_OK;
    if (S_ISLNK(st.st_mode))
        return pare_fail(cx, PARE_EEXISTS, "%s: is a symbolic link; give the %s itself", p->output,
                         kind == PARE_EXPORT_FILE ? "file" : "directory");
    if (pare_output_lies_in(artifact, p->output))
        return pare_fail(cx, PARE_EEXISTS, "%s: the output would replace the model at %s",
                         p->output, artifact);
    if (!restart)
        return pare_fail(cx, PARE_EEXISTS, "%s: exists; --restart replaces it", p->output);
    PARE_TRY(check_ours(cx, a, p->output, st.st_mode, kind));
    p->replaces = true;
    return PARE_OK;
}

static pare_status check_partial(pare_ctx *cx, pare_arena *a, pare_export_kind kind,
                                 const char *partial)
{
    char other[OTHER] = "";
    struct stat st;
    if (lstat(partial, &st) != 0)
        return PARE_OK;
    if (kind == PARE_EXPORT_FILE ? !S_ISREG(st.st_mode) || !is_gguf_of_ours(cx, a, partial, true)
                                 : !S_ISDIR(st.st_mode) || holds_other(partial, other))
        return pare_fail(cx, PARE_EEXISTS,
                         "%s: is where the work would go, and %s%s%s no unfinished export; move it "
                         "away or choose another path",
                         partial, other[0] ? "holds \"" : "is", other, other[0] ? "\", of" : "");
    return PARE_OK;
}

pare_status pare_export_place_find(pare_ctx *cx, pare_arena *a, const char *artifact,
                                   const char *output, pare_export_kind kind, bool restart,
                                   pare_export_place *out)
{
    static const char suffix[] = ".partial";
    size_t len = strlen(output);
    *out = (pare_export_place){0};
    if (len == 0)
        return pare_fail(cx, PARE_EUSAGE, "the path of the output is empty");
    if (kind == PARE_EXPORT_FILE && output[len - 1] == '/')
        return pare_fail(cx, PARE_EUSAGE, "\"%s\": this format writes a file, not a directory",
                         output);
    while (len > 1 && output[len - 1] == '/')
        len--;
    out->output = pare_arena_text(a, output, len);
    out->partial = PARE_NEW(a, char, len + sizeof suffix);
    if (!out->output || !out->partial)
        return PARE_ENOMEM;
    memcpy(out->partial, output, len);
    memcpy(out->partial + len, suffix, sizeof suffix);
    PARE_TRY(check_output(cx, a, artifact, kind, restart, out));
    if (pare_output_lies_in(out->output, artifact))
        return pare_fail(cx, PARE_EUSAGE,
                         "%s: lies inside %s, where only files of that model belong; choose "
                         "another path",
                         out->output, artifact);
    return check_partial(cx, a, kind, out->partial);
}
