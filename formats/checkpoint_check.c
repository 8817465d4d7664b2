/* A checkpoint that pare wrote, held against its manifest before it is used. */
#include <fnmatch.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "formats/checksums.h"
#include "formats/hash.h"
#include "formats/sums.h"

enum { FILES_MAX = 200000 };

typedef struct check {
    const pare_checkpoint *ck;
    pare_ctx *cx;
    pare_arena a;
    char *path;          /* of the manifest */
    bool whole;          /* a directory; else one file of it */
    bool absent;         /* something is, and a message says so */
    bool files_only;     /* the weights are not read */
    pare_json *manifest; /* NULL: none of ours */
} check;

/* What people can do about a difference. */
static const char *advice(const check *c)
{
    return c->ck->packed ? "copy the artifact again, or use it as it is with --unchecked"
                         : "copy the checkpoint again, or take manifest.json and SHA256SUMS out of "
                           "it to use it as it is";
}

static const char *name_of(const pare_file *f)
{
    const char *const slash = strrchr(f->path, '/');
    return slash ? slash + 1 : f->path;
}

/* The SHA-256 of the manifest in a SHA256SUMS as we write it, which lists the weights, too; NULL:
 * there is none, or it has another form. */
static pare_status find_sum(check *c, const char **sha256)
{
    char *const path = pare_path_join(&c->a, c->ck->directory, PARE_SUMS_NAME), *text;
    pare_path_kind is;
    pare_sums sums;
    size_t len;
    *sha256 = NULL;
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_path_look(c->cx, path, &is));
    if (is != PARE_PATH_FILE)
        return PARE_OK;
    pare_status s = pare_file_read(c->cx, &c->a, path, PARE_SUMS_CAP, &text, &len);
    if (s == PARE_OK)
        s = pare_sums_parse(c->cx, &c->a, path, text, len, &sums);
    if (s == PARE_EFORMAT) {
        pare_ctx_clear(c->cx);
        return PARE_OK;
    }
    PARE_TRY(s);
    const pare_sum *const sum = pare_sums_find(&sums, PARE_MANIFEST_NAME);
    if (sum && c->ck->files > 0 && pare_sums_find(&sums, name_of(&c->ck->file[0])))
        *sha256 = sum->sha256;
    return PARE_OK;
}

/* A manifest that is missing, or is none of ours. */
static pare_status check_foreign(check *c, const char *text, size_t len)
{
    char hex[PARE_SHA256_HEX] = "";
    const char *sha256 = NULL;
    if (!c->ck->packed)
        PARE_TRY(find_sum(c, &sha256));
    if (!c->ck->packed && !sha256)
        return PARE_OK;
    if (!text)
        return pare_fail(c->cx, PARE_EFORMAT,
                         "%s: missing, so nothing says what the weights should be; %s", c->path,
                         advice(c));
    PARE_TRY(pare_sha256_hex(c->cx, text, len, hex));
    return strcmp(hex, sha256) == 0
               ? PARE_OK /* as somebody else wrote it */
               : pare_fail(c->cx, PARE_EFORMAT, "%s: SHA-256 is %s, " PARE_SUMS_NAME " says %s; %s",
                           c->path, hex, sha256, advice(c));
}

static pare_status read_manifest(check *c)
{
    char *text;
    size_t len;
    pare_path_kind is;
    PARE_TRY(pare_path_look(c->cx, c->path, &is));
    if (is != PARE_PATH_FILE)
        return check_foreign(c, NULL, 0);
    PARE_TRY(pare_file_read(c->cx, &c->a, c->path, PARE_MANIFEST_CAP, &text, &len));
    if (!c->ck->packed && !pare_manifest_is_ours(text, len))
        return check_foreign(c, text, len);
    PARE_TRY(pare_json_parse(c->cx, c->path, text, len, PARE_MANIFEST_CAP, &c->manifest));
    if (pare_manifest_files(c->manifest) <= FILES_MAX)
        return PARE_OK;
    return pare_fail(c->cx, PARE_EFORMAT, "%s: %zu outputs", c->path,
                     pare_manifest_files(c->manifest));
}

static const pare_file *weight_file(const pare_checkpoint *ck, const char *name)
{
    for (size_t i = 0; i < ck->files; i++)
        if (strcmp(name_of(&ck->file[i]), name) == 0)
            return &ck->file[i];
    return NULL;
}

static pare_status fail_unlisted(const check *c, const char *name)
{
    return pare_fail(c->cx, PARE_EFORMAT, "%s: %s is not among the outputs; %s", c->path, name,
                     advice(c));
}

/* What the model was read from stands in the list. */
static pare_status check_listed(const check *c)
{
    const pare_checkpoint *const ck = c->ck;
    const char *const index = ck->packed ? "packed.index.json" : ck->kind->index;
    if (!pare_manifest_lists(c->manifest, "config.json"))
        return fail_unlisted(c, "config.json");
    if (ck->index && !pare_manifest_lists(c->manifest, index))
        return fail_unlisted(c, index);
    for (size_t i = 0; i < ck->files; i++)
        if (!pare_manifest_lists(c->manifest, name_of(&ck->file[i])))
            return fail_unlisted(c, name_of(&ck->file[i]));
    return PARE_OK;
}

/* Nor does a tokenizer lie there that nobody listed. */
static pare_status check_companions(check *c)
{
    for (size_t i = 0; pare_companions[i]; i++) {
        char *const path = pare_path_join(&c->a, c->ck->directory, pare_companions[i]);
        pare_path_kind is;
        if (!path)
            return PARE_ENOMEM;
        PARE_TRY(pare_path_look(c->cx, path, &is));
        if (is != PARE_PATH_ABSENT && !pare_manifest_lists(c->manifest, pare_companions[i]))
            return fail_unlisted(c, pare_companions[i]);
    }
    return PARE_OK;
}

static pare_status check_size(const check *c, const pare_listed_file *want, uint64_t bytes)
{
    if (bytes == want->bytes)
        return PARE_OK;
    return pare_fail(c->cx, PARE_EFORMAT, "%s/%s: %llu byte%s, manifest.json says %llu; %s",
                     c->ck->directory, want->name, (unsigned long long)bytes, pare_plural(bytes),
                     (unsigned long long)want->bytes, advice(c));
}

/* Maps what lies beside the weights; `count` of them end up in `file` and `want`. */
static pare_status map_texts(check *c, pare_file *file, pare_listed_file *want, size_t *count)
{
    for (size_t i = 0; i < pare_manifest_files(c->manifest); i++) {
        pare_listed_file *const w = &want[*count];
        if (!pare_manifest_file_at(c->manifest, i, w))
            return pare_fail(c->cx, PARE_EFORMAT, "%s: outputs: item %zu is malformed; %s", c->path,
                             i, advice(c));
        const pare_file *const weights = weight_file(c->ck, w->name);
        if (weights) {
            PARE_TRY(check_size(c, w, weights->bytes));
            continue;
        }
        if (fnmatch("*.safetensors", w->name, 0) ==
            0) { /* another one: weights are not hashed here */
            if (c->whole)
                return pare_fail(c->cx, PARE_EFORMAT,
                                 "%s: %s is listed, but no tensor is read from "
                                 "it; %s",
                                 c->path, w->name, advice(c));
            continue;
        }
        char *const path = pare_path_join(&c->a, c->ck->directory, w->name);
        if (!path)
            return PARE_ENOMEM;
        PARE_TRY(pare_file_map(c->cx, &c->a, path, &file[*count]));
        (*count)++;
        PARE_TRY(check_size(c, w, file[*count - 1].bytes));
    }
    return PARE_OK;
}

static pare_status check_texts(check *c)
{
    const size_t most = pare_manifest_files(c->manifest) + 1;
    pare_file *const file = PARE_NEW(&c->a, pare_file, most);
    pare_listed_file *const want = PARE_NEW(&c->a, pare_listed_file, most);
    char(*const hex)[PARE_SHA256_HEX] = pare_arena_take(&c->a, most, sizeof *hex);
    size_t count = 0;
    if (!file || !want || !hex)
        return PARE_ENOMEM;
    pare_status s = map_texts(c, file, want, &count);
    if (s == PARE_OK)
        s = pare_sha256_files(c->cx, file, count, hex);
    for (size_t i = 0; i < count; i++) {
        if (s == PARE_OK && strcmp(hex[i], want[i].sha256) != 0)
            s = pare_fail(c->cx, PARE_EFORMAT, "%s: SHA-256 is %s, manifest.json says %s; %s",
                          file[i].path, hex[i], want[i].sha256, advice(c));
        pare_file_unmap(&file[i]);
    }
    return s;
}

/* A tensor that was kept has the type and shape that it had; planes have theirs from the index. */
static bool same_form(const check *c, const pare_tensor *t)
{
    const pare_json *const kept = pare_json_get(pare_json_get(c->manifest, "kept"), t->name);
    const pare_json *const shape = pare_json_get(kept, "shape");
    const char *const dtype = pare_json_text(pare_json_get(kept, "dtype"), NULL);
    if (!kept)
        return true;
    bool same =
        dtype && strcmp(dtype, pare_dtype_name(t->dtype)) == 0 && pare_json_count(shape) == t->rank;
    for (size_t i = 0; same && i < t->rank; i++)
        same = (uint64_t)pare_json_integer(pare_json_at(shape, i), -1) == t->shape[i];
    return same;
}

static pare_status check_tensor(const check *c, const pare_tensor *t, const uint8_t xxh3[16])
{
    char hex[PARE_XXH3_HEX];
    const char *const want = pare_manifest_tensor(c->manifest, t->name);
    pare_xxh3_text(xxh3, hex);
    if (!want)
        return pare_fail(c->cx, PARE_EFORMAT, "%s: tensor %s is not in manifest.json; %s",
                         c->ck->directory, t->name, advice(c));
    if (strcmp(hex, want) != 0)
        return pare_fail(c->cx, PARE_EFORMAT,
                         "%s: tensor %s is damaged or of another artifact: XXH3 is %s, "
                         "manifest.json says %s; %s",
                         c->ck->directory, t->name, hex, want, advice(c));
    if (!same_form(c, t))
        return pare_fail(c->cx, PARE_EFORMAT,
                         "%s: tensor %s has another type or shape than manifest.json says; %s",
                         c->ck->directory, t->name, advice(c));
    return PARE_OK;
}

static void refuse_absent(void *self, const char *name, const char *what)
{
    check *const c = self;
    c->absent = true;
    (void)pare_fail(c->cx, PARE_EFORMAT, "%s: %s: %s; %s", c->ck->directory, name, what, advice(c));
}

static pare_status check_tensors(check *c, const pare_checkpoint *ck)
{
    pare_span *const span = PARE_NEW(&c->a, pare_span, ck->tensors + 1);
    uint8_t(*const xxh3)[16] = pare_arena_take(&c->a, ck->tensors + 1, sizeof *xxh3);
    if (!span || !xxh3)
        return PARE_ENOMEM;
    for (size_t i = 0; i < ck->tensors; i++)
        span[i] = (pare_span){ck->tensor[i].data, ck->tensor[i].bytes};
    PARE_TRY(pare_xxh3_spans(c->cx, "comparing checksums", span, ck->tensors, xxh3));
    for (size_t i = 0; i < ck->tensors; i++)
        PARE_TRY(check_tensor(c, &ck->tensor[i], xxh3[i]));
    return PARE_OK;
}

/* Tensors as the files have them, which may hold all experts of a block. */
static pare_status check_names(check *c)
{
    pare_checkpoint plain = {0};
    const pare_checkpoint *const ck = c->ck->stacks ? &plain : c->ck;
    pare_status s =
        c->ck->stacks ? pare_checkpoint_open_plain(c->cx, &c->a, c->ck->path, &plain) : PARE_OK;
    if (s == PARE_OK && !c->files_only)
        s = check_tensors(c, ck);
    if (s == PARE_OK && c->whole)
        pare_manifest_absent(c->manifest, ck, refuse_absent, c);
    if (ck == &plain)
        pare_checkpoint_close(&plain);
    return s == PARE_OK && c->absent ? PARE_EFORMAT : s;
}

static pare_status run(check *c)
{
    c->path = pare_path_join(&c->a, c->ck->directory, PARE_MANIFEST_NAME);
    if (!c->path)
        return PARE_ENOMEM;
    PARE_TRY(read_manifest(c));
    /* one file of a directory is ours when its manifest says so */
    if (c->manifest && !c->whole && !pare_manifest_lists(c->manifest, name_of(&c->ck->file[0]))) {
        pare_json_free(c->manifest);
        c->manifest = NULL;
    }
    if (!c->manifest)
        return PARE_OK;
    PARE_TRY(check_listed(c));
    PARE_TRY(check_texts(c));
    PARE_TRY(check_companions(c));
    return check_names(c);
}

pare_status pare_checkpoint_check(const pare_checkpoint *ck, bool *checked)
{
    check c = {.ck = ck, .cx = ck->cx, .whole = pare_path_is_directory(ck->path)};
    pare_status s = pare_arena_init(c.cx, &c.a, 0);
    *checked = false;
    if (s == PARE_OK && ck->kind && ck->kind->check)
        s = ck->kind->check(ck, &c.a, checked);
    if (s == PARE_OK && !*checked) {
        s = run(&c);
        *checked = s == PARE_OK && c.manifest;
    }
    pare_json_free(c.manifest);
    pare_arena_release(&c.a);
    return s;
}

pare_status pare_checkpoint_check_files(const pare_checkpoint *ck)
{
    check c = {
        .ck = ck, .cx = ck->cx, .whole = pare_path_is_directory(ck->path), .files_only = true};
    pare_status s = pare_arena_init(c.cx, &c.a, 0);
    if (s == PARE_OK && !(ck->kind && ck->kind->check)) /* else its checksums are in the weights */
        s = run(&c);
    pare_json_free(c.manifest);
    pare_arena_release(&c.a);
    return s;
}
