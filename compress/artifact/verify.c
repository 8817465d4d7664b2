#include "compress/artifact/verify.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compress/artifact/adapter.h"
#include "compress/artifact/verify_internal.h"
#include "compress/export/export.h"
#include "compress/output/inventory.h"
#include "compress/output/journal.h"
#include "formats/format_version.h"
#include "formats/sha256.h"
#include "formats/tokenizer.h"

enum { OUTPUTS_MAX = 200000, FINDING = 1024 };
static const char index_name[] = "packed.index.json";

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
    /* a damaged file may ask for what this program does not have; a whole one asks in earnest */
    const bool asks = s == PARE_ENOTSUP && v->out->findings > 0;
    if (s != PARE_EFORMAT && s != PARE_ENOTFOUND && s != PARE_ESHAPE && !asks)
        return s;
    pare__verify_found(v, "%s", v->cx->what);
    pare_ctx_clear(v->cx);
    return PARE_OK;
}

bool pare__verify_listed(pare_verify_run *v, size_t i, pare_listed_file *out)
{
    const bool good = pare_manifest_file_at(v->manifest, i, out);
    if (!good)
        pare__verify_found(v, "%s: outputs: item %zu is malformed", PARE_MANIFEST_NAME, i);
    return good;
}

/* A file of the manifest's list against SHA256SUMS, which everything was held against before. */
static void match_sums(pare_verify_run *v, const pare_listed_file *e)
{
    const pare_sum *const sum = pare_sums_find(&v->sums, e->name);
    if (sum && strcmp(sum->sha256, e->sha256) != 0)
        pare__verify_found(v, "%s: " PARE_SUMS_NAME " has SHA-256 %s, the manifest says %s",
                           e->name, sum->sha256, e->sha256);
    else if (!sum)
        pare__verify_found(v, "%s: in the manifest, but not in " PARE_SUMS_NAME, e->name);
}

/* Maps what can be mapped and has its size; those whose digest is not known yet, `count` of them,
 * end up in `file` and `expect`. */
static pare_status map_listed(pare_verify_run *v, pare_file *file, pare_listed_file *expect,
                              size_t *count)
{
    for (size_t i = 0; i < pare_manifest_files(v->manifest); i++) {
        pare_listed_file e;
        if (!pare__verify_listed(v, i, &e))
            continue;
        if (v->summed)
            match_sums(v, &e);
        char *const path = pare_path_join(&v->arena, v->path, e.name);
        if (!path)
            return PARE_ENOMEM;
        pare_file *const f = &file[*count];
        const pare_status s = pare_file_map(v->cx, &v->arena, path, f);
        PARE_TRY(pare__verify_absorb(v, s));
        if (s != PARE_OK)
            continue;
        if (f->bytes != e.bytes)
            pare__verify_found(v, "%s: %llu byte%s, the manifest says %llu", e.name,
                               (unsigned long long)f->bytes, pare_plural(f->bytes),
                               (unsigned long long)e.bytes);
        if (v->summed)
            pare_file_unmap(f);
        else
            expect[(*count)++] = e;
    }
    return PARE_OK;
}

/* Size and SHA-256 of every file of the manifest's list. */
static pare_status check_listed(pare_verify_run *v)
{
    const size_t most = pare_manifest_files(v->manifest);
    if (most > OUTPUTS_MAX)
        return pare_fail(v->cx, PARE_EFORMAT, "%s: %zu outputs", PARE_MANIFEST_NAME, most);
    pare_file *const file = PARE_NEW(&v->arena, pare_file, most + 1);
    pare_listed_file *const expect = PARE_NEW(&v->arena, pare_listed_file, most + 1);
    char(*const hex)[PARE_SHA256_HEX] = pare_arena_take(&v->arena, most + 1, sizeof *hex);
    if (!file || !expect || !hex)
        return PARE_ENOMEM;
    size_t count = 0;
    pare_status s = map_listed(v, file, expect, &count);
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

/* Adapters alone, which belong to a model that lies elsewhere. */
static bool is_adapter(const pare_verify_run *v)
{
    return !pare_json_bool(pare_json_get(pare_json_get(v->manifest, "adapter"), "merged"), true);
}

/* The list is complete: what the artifact needs stands in it, and so does every weight file. */
static pare_status check_complete(pare_verify_run *v)
{
    const pare_json *const m = v->manifest;
    const bool plain = pare_manifest_lists(m, "model.safetensors") ||
                       pare_manifest_lists(m, "model.safetensors.index.json");
    static const char *const packed[] = {"config.json", index_name, NULL},
                             *const dense[] = {"config.json", NULL},
                             *const adapter[] = {PARE_ADAPTER_CONFIG, PARE_ADAPTER_MODEL, NULL};
    for (const char *const *needed = is_adapter(v) ? adapter
                                     : plain       ? dense
                                                   : packed;
         *needed; needed++)
        if (!pare_manifest_lists(m, *needed))
            pare__verify_found(v, "%s: %s is not among the outputs", PARE_MANIFEST_NAME, *needed);
    DIR *const d = opendir(v->path);
    if (!d)
        return pare_file_fail_input(v->cx, v->path, "list");
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (fnmatch("*.safetensors", e->d_name, 0) == 0 && !pare_manifest_lists(m, e->d_name))
            pare__verify_found(v, "%s: a weight file that the manifest does not list", e->d_name);
    (void)closedir(d);
    return PARE_OK;
}

pare_status pare__verify_recipe(pare_verify_run *v)
{
    const char *const recipe = pare_json_text(pare_json_get(v->manifest, "recipe"), NULL);
    const char *const want = pare_json_text(pare_json_get(v->manifest, "recipe_sha256"), NULL);
    char hex[PARE_SHA256_HEX] = "absent";
    if (recipe)
        PARE_TRY(pare_sha256_hex(v->cx, recipe, strlen(recipe), hex));
    if (!want || strcmp(hex, want) != 0)
        pare__verify_found(v, "%s: SHA-256 of the recipe is %s, recipe_sha256 says %s",
                           PARE_MANIFEST_NAME, hex, want ? want : "nothing");
    return PARE_OK;
}

static pare_status parse_manifest(pare_verify_run *v, const char *text, size_t len)
{
    return pare_json_parse(v->cx, PARE_MANIFEST_NAME, text, len, PARE_MANIFEST_CAP, &v->manifest);
}

static pare_status read_manifest(pare_verify_run *v, char **text, size_t *len)
{
    char *const path = pare_path_join(&v->arena, v->path, PARE_MANIFEST_NAME);
    if (!path)
        return PARE_ENOMEM;
    return pare_file_read(v->cx, &v->arena, path, PARE_MANIFEST_CAP, text, len);
}

static pare_status check_manifest(pare_verify_run *v, const char *text, size_t len)
{
    PARE_TRY(pare__verify_absorb(v, parse_manifest(v, text, len)));
    if (!v->manifest)
        return PARE_OK;
    PARE_TRY(pare__verify_absorb(v, pare_version_check(v->cx, PARE_MANIFEST_NAME, "format",
                                                       pare_json_get(v->manifest, "format"),
                                                       PARE_MANIFEST_FORMAT)));
    v->out->files += !v->summed;
    PARE_TRY(pare__verify_recipe(v));
    PARE_TRY(pare__verify_absorb(v, check_listed(v)));
    return check_complete(v);
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
    if (m.embed.bits)
        PARE_TRY(pare__verify_packed(v, &m.embed));
    return m.head.bits && !m.config.tied ? pare__verify_packed(v, &m.head) : PARE_OK;
}

static pare_status has(pare_verify_run *v, const char *name, bool *out)
{
    const pare_mark mark = pare_arena_mark(&v->arena);
    char *const path = pare_path_join(&v->arena, v->path, name);
    pare_path_kind kind = PARE_PATH_ABSENT;
    const pare_status s = path ? pare_path_look(v->cx, path, &kind) : PARE_ENOMEM;
    pare_arena_rewind(&v->arena, mark);
    *out = kind == PARE_PATH_FILE;
    return s;
}

/* The journal of a run that was killed when it exchanged outputs, in the new one or, saying that it
 * is replaced, in the old one, is no fault of the files; nor is the state of a training beside its
 * journal. The next run of the job removes them. */
static bool is_left_of_run(pare_verify_run *v, const char *name)
{
    pare_journal_kind kind;
    const bool state = strcmp(name, PARE_TRAINING_STATE) == 0;
    if (!state && strcmp(name, PARE_JOURNAL_NAME) != 0)
        return false;
    if (pare_journal_look(v->cx, &v->arena, v->path, &kind) == PARE_OK)
        return kind == PARE_JOURNAL_TRAIN ||
               (!state && (kind == PARE_JOURNAL_COMPRESS || kind == PARE_JOURNAL_EXPORT ||
                           kind == PARE_JOURNAL_REPLACED));
    pare_ctx_clear(v->cx);
    return false;
}

static void found_in_sums(void *self, const char *name, const char *what)
{
    if (!is_left_of_run(self, name))
        pare__verify_found(self, "%s: %s", name, what);
}

static pare_status read_sums(pare_verify_run *v)
{
    char *const path = pare_path_join(&v->arena, v->path, PARE_SUMS_NAME), *text;
    size_t len;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_read(v->cx, &v->arena, path, PARE_SUMS_CAP, &text, &len));
    return pare_sums_parse(v->cx, &v->arena, path, text, len, &v->sums);
}

/* Every file of the directory against SHA256SUMS. That of others may have another form than ours:
 * then it is not looked at. */
static pare_status check_sums(pare_verify_run *v, bool ours)
{
    const pare_status s = read_sums(v);
    if (s == PARE_EFORMAT && !ours) {
        pare_ctx_clear(v->cx);
        return PARE_OK;
    }
    if (s == PARE_ENOTFOUND) {
        pare__verify_found(v, PARE_SUMS_NAME ": missing, so nothing says what the files should be");
        pare_ctx_clear(v->cx);
        return PARE_OK;
    }
    PARE_TRY(pare__verify_absorb(v, s));
    v->summed = s == PARE_OK;
    if (!v->summed)
        return PARE_OK;
    pare_inventory_result r;
    PARE_TRY(pare__verify_absorb(
        v, pare_inventory_check(v->cx, &v->arena, v->path, found_in_sums, v, &r)));
    v->out->files = r.files;
    v->out->bytes = r.bytes;
    return PARE_OK;
}

/* A directory of ours: its files as a whole, then what the manifest says of them. */
static pare_status check_directory(pare_verify_run *v, bool *ours)
{
    char *text = NULL;
    size_t len = 0;
    bool manifest, sums, export;
    PARE_TRY(has(v, index_name, ours));
    PARE_TRY(has(v, PARE_MANIFEST_NAME, &manifest));
    PARE_TRY(has(v, PARE_SUMS_NAME, &sums));
    PARE_TRY(has(v, PARE_EXPORT_RECORD, &export));
    if (*ours || manifest)
        PARE_TRY(pare__verify_absorb(v, read_manifest(v, &text, &len)));
    *ours |= text && pare_manifest_is_ours(text, len);
    if (*ours || sums)
        PARE_TRY(check_sums(v, *ours || export));
    return *ours && text ? check_manifest(v, text, len) : PARE_OK;
}

/* Weights of a directory that is not ours, against what they say of themselves. */
static pare_status check_weights(pare_verify_run *v)
{
    bool checked;
    v->out->files += v->summed ? 0 : v->checkpoint.files;
    for (size_t i = 0; !v->summed && i < v->checkpoint.files; i++)
        v->out->bytes += v->checkpoint.file[i].bytes;
    PARE_TRY(pare__verify_absorb(v, pare_checkpoint_check(&v->checkpoint, &checked)));
    v->out->checked = v->summed || checked;
    return PARE_OK;
}

/* A tokenizer that cannot be read is damaged; one of a kind that pare does not know is none. */
static pare_status check_tokenizer(pare_verify_run *v)
{
    pare_tokenizer *t = NULL;
    bool is_there;
    PARE_TRY(pare_checkpoint_has_tokenizer(&v->checkpoint, &is_there));
    pare_status s = is_there ? pare_checkpoint_tokenizer(&v->checkpoint, &t) : PARE_OK;
    v->out->tokenizer = t != NULL;
    pare_tokenizer_free(t);
    if (s == PARE_ENOTSUP) {
        pare_ctx_clear(v->cx);
        s = PARE_OK;
    }
    return pare__verify_absorb(v, s);
}

static pare_status check_all(pare_verify_run *v, bool directory)
{
    bool ours = false;
    if (directory)
        PARE_TRY(check_directory(v, &ours));
    else
        PARE_TRY(pare__verify_importance(v));
    if (v->out->importance)
        return PARE_OK;
    const char *const weights =
        is_adapter(v) ? pare_path_join(&v->arena, v->path, PARE_ADAPTER_MODEL) : v->path;
    if (!weights)
        return PARE_ENOMEM;
    const pare_status s = pare_checkpoint_open(v->cx, &v->arena, weights, &v->checkpoint);
    PARE_TRY(pare__verify_absorb(v, s));
    if (s != PARE_OK)
        return PARE_OK;
    v->out->checked = ours;
    if (!ours)
        PARE_TRY(check_weights(v));
    v->out->adapter = is_adapter(v);
    if (!v->out->adapter)
        PARE_TRY(check_tokenizer(v));
    v->out->tensors = v->checkpoint.tensors;
    if (v->manifest)
        PARE_TRY(pare__verify_hashes(v));
    pare__verify_finite(v);
    PARE_TRY(directory ? PARE_OK : pare__verify_statistics(v));
    return check_model(v);
}

pare_status pare_verify(pare_ctx *cx, const char *path, void (*found)(void *self, const char *what),
                        void *self, pare_verify_result *out)
{
    *out = (pare_verify_result){0};
    pare_path_kind kind;
    PARE_TRY(pare_path_look(cx, path, &kind));
    if (kind == PARE_PATH_OTHER)
        return pare_fail(cx, PARE_EFORMAT, "%s: is neither a regular file nor a directory", path);
    if (kind == PARE_PATH_ABSENT) {
        errno = ENOENT;
        return pare_file_fail(cx, path, "verify");
    }
    pare_verify_run v = {.cx = cx, .found = found, .self = self, .out = out, .path = path};
    pare_status s = pare_arena_init(cx, &v.arena, 0);
    if (s == PARE_OK)
        s = check_all(&v, kind == PARE_PATH_DIRECTORY);
    pare_checkpoint_close(&v.checkpoint);
    pare_json_free(v.manifest);
    pare_arena_release(&v.arena);
    return s;
}
