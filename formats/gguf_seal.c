#include "formats/gguf_seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/hash.h"

enum { DIGITS = PARE_XXH3_HEX - 1, TEXT_LENGTH = 8 };

static const char tensors_key[] = "pare.tensors.xxh3", head_key[] = "pare.head.xxh3";
static const char zeros[] = "00000000000000000000000000000000";
static const char hashing[] = "comparing checksums";

void pare_gguf_put_seal(pare_gguf_writer *w)
{
    pare_gguf_put_array(w, tensors_key, PARE_GGUF_TEXT, w->most);
    w->sealed_tensors = w->len + TEXT_LENGTH;
    for (size_t i = 0; i < w->most; i++)
        pare_gguf_add_text(w, zeros, DIGITS);
    pare_gguf_put_text(w, head_key, zeros, DIGITS);
    w->sealed_head = w->len - DIGITS;
}

static pare_status hash_tensors(pare_gguf_writer *w, const pare_file *f, uint8_t (*xxh3)[16])
{
    pare_span *const span = PARE_NEW(w->arena, pare_span, w->slots);
    if (!span)
        return PARE_ENOMEM;
    for (size_t i = 0; i < w->slots; i++) {
        const uint64_t from = w->data + w->slot[i].offset;
        const uint64_t to = i + 1 < w->slots ? w->data + w->slot[i + 1].offset : f->bytes;
        span[i] = (pare_span){(const unsigned char *)f->data + from, to - from};
    }
    return pare_xxh3_spans(w->cx, "making checksums", span, w->slots, xxh3);
}

pare_status pare_gguf_seal(pare_gguf_writer *w)
{
    char hex[PARE_XXH3_HEX];
    uint8_t(*const xxh3)[16] = pare_arena_take(w->arena, w->slots, sizeof *xxh3);
    pare_file f;
    if (!xxh3)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_map(w->cx, w->arena, w->path, &f));
    const pare_status s = hash_tensors(w, &f, xxh3);
    pare_file_unmap(&f);
    PARE_TRY(s);
    for (size_t i = 0; i < w->slots; i++) {
        pare_xxh3_text(xxh3[i], hex);
        memcpy(w->head + w->sealed_tensors + i * (TEXT_LENGTH + DIGITS), hex, DIGITS);
    }
    pare_xxh3_hex(w->head, w->len, hex);
    memcpy(w->head + w->sealed_head, hex, DIGITS);
    PARE_TRY(pare_file_put(w->cx, w->fd, w->path, w->head, w->len, 0));
    return pare_gguf_sync(w);
}

bool pare_gguf_is_ours(const pare_gguf *g)
{
    const char *text;
    size_t len;
    return pare_gguf_text(pare_gguf_find(g, "general.quantized_by"), &text, &len) && len >= 5 &&
           memcmp(text, "pare ", 5) == 0;
}

/* The checksum of the head as the file has it, or NULL. */
static const char *find_head(const pare_gguf *g)
{
    const char *text;
    size_t len;
    return pare_gguf_text(pare_gguf_find(g, head_key), &text, &len) && len == DIGITS ? text : NULL;
}

static bool head_is_whole(const pare_file *f, const pare_gguf *g, const char *text)
{
    const unsigned char *const bytes = f->data, *const value = (const unsigned char *)text;
    pare_xxh3_state state;
    uint8_t xxh3[16];
    char hex[PARE_XXH3_HEX];
    pare_xxh3_begin(&state);
    pare_xxh3_add(&state, bytes, (size_t)(value - bytes));
    pare_xxh3_add(&state, zeros, DIGITS);
    pare_xxh3_add(&state, value + DIGITS,
                  (size_t)(g->data_offset - (uint64_t)(value - bytes) - DIGITS));
    pare_xxh3_end(&state, xxh3);
    pare_xxh3_text(xxh3, hex);
    return memcmp(hex, text, DIGITS) == 0;
}

static int by_place(const void *a, const void *b)
{
    const pare_gguf_tensor *const x = *(const pare_gguf_tensor *const *)a;
    const pare_gguf_tensor *const y = *(const pare_gguf_tensor *const *)b;
    return (x->data > y->data) - (x->data < y->data);
}

static pare_status fail(pare_ctx *cx, const pare_file *f, const char *what, const char *how)
{
    return pare_fail(cx, PARE_EFORMAT,
                     "%s: %s is damaged, or was changed after pare wrote it: it %s; export it "
                     "again (eval and generate use it as it is with --unchecked)",
                     f->path, what, how);
}

/* Tensors of a file and their checksums, in the order of the file. */
typedef struct sums {
    const pare_gguf_tensor **tensor;
    pare_span *span;
    uint8_t (*xxh3)[16];
} sums;

static pare_status take_sums(pare_ctx *cx, pare_arena *a, const pare_file *f, const pare_gguf *g,
                             sums *out)
{
    out->tensor = PARE_NEW(a, const pare_gguf_tensor *, g->tensors);
    out->span = PARE_NEW(a, pare_span, g->tensors);
    out->xxh3 = pare_arena_take(a, g->tensors, sizeof *out->xxh3);
    if (!out->tensor || !out->span || !out->xxh3)
        return PARE_ENOMEM;
    for (size_t i = 0; i < g->tensors; i++)
        out->tensor[i] = &g->tensor[i];
    if (g->tensors > 1)
        qsort(out->tensor, g->tensors, sizeof *out->tensor, by_place);
    for (size_t i = 0; i < g->tensors; i++) {
        const unsigned char *const from = out->tensor[i]->data;
        const unsigned char *const end = i + 1 < g->tensors
                                             ? out->tensor[i + 1]->data
                                             : (const unsigned char *)f->data + f->bytes;
        out->span[i] = (pare_span){from, (uint64_t)(end - from)};
    }
    return pare_xxh3_spans(cx, hashing, out->span, g->tensors, out->xxh3);
}

static pare_status check_tensors(pare_ctx *cx, pare_arena *a, const pare_file *f,
                                 const pare_gguf *g)
{
    const pare_gguf_value *const list = pare_gguf_find(g, tensors_key);
    pare_gguf_texts it = {0};
    sums is;
    PARE_TRY(take_sums(cx, a, f, g, &is));
    for (size_t i = 0; i < g->tensors; i++) {
        const char *text;
        size_t len;
        char hex[PARE_XXH3_HEX];
        pare_xxh3_text(is.xxh3[i], hex);
        if (!list || !pare_gguf_next(list, &it, &text, &len) || len != DIGITS ||
            memcmp(hex, text, DIGITS) != 0) {
            char what[256];
            (void)snprintf(what, sizeof what, "tensor %.200s", is.tensor[i]->name);
            return fail(cx, f, what, "differs from its checksum in the head");
        }
    }
    return PARE_OK;
}

static int by_text(const void *a, const void *b)
{
    return memcmp(a, b, DIGITS);
}

/* The last tensor of a part, which need not be padded as one in the middle is. */
static void hash_last(const pare_gguf_tensor *t, uint8_t xxh3[16])
{
    enum { PAD = 32 };
    pare_xxh3_state state;
    pare_xxh3_begin(&state);
    pare_xxh3_add(&state, t->data, (size_t)t->bytes);
    pare_xxh3_add(&state, (const char[PAD]){0}, (size_t)((PAD - t->bytes % PAD) % PAD));
    pare_xxh3_end(&state, xxh3);
}

static pare_status check_part(pare_ctx *cx, pare_arena *a, const pare_file *f, const pare_gguf *g,
                              const char *known, size_t count)
{
    sums is;
    PARE_TRY(take_sums(cx, a, f, g, &is));
    for (size_t i = 0; i < g->tensors; i++) {
        char hex[PARE_XXH3_HEX];
        if (i + 1 == g->tensors && is.span[i].bytes % 32 != 0)
            hash_last(is.tensor[i], is.xxh3[i]);
        pare_xxh3_text(is.xxh3[i], hex);
        if (!bsearch(hex, known, count, DIGITS, by_text))
            return pare_fail(cx, PARE_EFORMAT,
                             "%s: tensor %.200s has none of the checksums in the head of the first "
                             "part: it is damaged, or of another model; bring the parts of one "
                             "model together (eval and generate use them as they are with "
                             "--unchecked)",
                             f->path, is.tensor[i]->name);
    }
    return PARE_OK;
}

pare_status pare_gguf_check_parts(pare_ctx *cx, pare_arena *a, const pare_file *file,
                                  const pare_gguf *g, size_t files, bool *sealed)
{
    pare_gguf_texts it = {0};
    const char *text;
    size_t len, count = 0;
    const pare_gguf_value *const list = pare_gguf_find(&g[0], tensors_key);
    *sealed = list && list->array && list->kind == PARE_GGUF_TEXT;
    if (!*sealed)
        return PARE_OK;
    char *const known = pare_arena_take(a, (size_t)list->count, DIGITS);
    if (!known)
        return PARE_ENOMEM;
    while (pare_gguf_next(list, &it, &text, &len))
        if (len == DIGITS)
            memcpy(known + DIGITS * count++, text, DIGITS);
    if (count > 1)
        qsort(known, count, DIGITS, by_text);
    for (size_t i = 0; i < files; i++)
        PARE_TRY(check_part(cx, a, &file[i], &g[i], known, count));
    return PARE_OK;
}

pare_status pare_gguf_check_seal(pare_ctx *cx, pare_arena *a, const pare_file *file,
                                 const pare_gguf *g, bool *sealed)
{
    const char *const head = find_head(g);
    *sealed = head || pare_gguf_find(g, head_key) || pare_gguf_is_ours(g);
    if (!*sealed)
        return PARE_OK;
    if (!head)
        return fail(cx, file, "its head", "has no checksum, or is of an earlier version");
    if (g->data_offset > file->bytes) /* a file without tensors may end in its head */
        return fail(cx, file, "its head", "is cut");
    if (!head_is_whole(file, g, head))
        return fail(cx, file, "its head", "differs from its checksum");
    return check_tensors(cx, a, file, g);
}
