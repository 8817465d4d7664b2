/* A GGUF file read back and compared. */
#include <math.h>
#include <string.h>

#include "compress/export/export_run.h"
#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "runtime/file.h"

static pare_status differs(const pare__export *e, const char *name, const char *what)
{
    return pare_fail(e->cx, PARE_ENUMERIC,
                     "%s: tensor %s: %s read back otherwise than written; this is a mistake of "
                     "pare, nothing was kept",
                     e->target->name, name, what);
}

/* Values of a piece that begins at element `at` of the tensor. */
static pare_status decode(const pare__export *e, const pare_gguf_tensor *t, uint64_t at,
                          uint64_t count, float *out)
{
    const pare_tensor view = {.name = t->name,
                              .dtype = t->type->dtype,
                              .rank = 1,
                              .shape = {t->elements},
                              .data = t->data,
                              .bytes = t->bytes};
    if (!t->type->codec)
        return pare_tensor_to_f32(e->cx, &view, at, count, out);
    pare_ggml_decode(t->type, t->data + at / t->type->elements * t->type->bytes,
                     count / t->type->elements, out);
    for (uint64_t i = 0; i < count; i++)
        out[i] *= t->factor;
    return PARE_OK;
}

/* A piece that has to be the same bytes: as it was, or with codes that are chosen the same way a
 * second time. */
static pare_status check_bytes(pare__export *e, const pare_gguf_item *t, size_t piece,
                               const unsigned char *is)
{
    const uint64_t bytes = t->piece[piece].bytes;
    void *const again = pare_arena_take_raw(&e->scratch, 1, (size_t)bytes);
    if (!again)
        return PARE_ENOMEM;
    PARE_TRY(pare_gguf_encode(e->cx, &e->scratch, t, piece, again));
    return memcmp(again, is, (size_t)bytes) == 0 ? PARE_OK : differs(e, t->name, "its bytes");
}

/* Largest error of rounding to a float type: relative, and below its normal range. */
static float allowed(const pare_gguf_item *t, pare_gguf_way way, float value)
{
    if (way != PARE_GGUF_FLOATS || t->type->dtype == PARE_F32)
        return 0;
    return t->type->dtype == PARE_F16 ? fabsf(value) * 0x1p-11f + 0x1p-25f : fabsf(value) * 0x1p-8f;
}

/* Sums of squares of weights and of what they lost. */
typedef struct lost {
    double square, difference;
} lost;

static pare_status compare_values(pare__export *e, const pare_gguf_item *t, size_t piece,
                                  const pare_gguf_tensor *is, uint64_t at, lost *sum)
{
    const pare_gguf_piece *const p = &t->piece[piece];
    const bool again = p->way == PARE_GGUF_AGAIN || p->way == PARE_GGUF_NEAR;
    float *const has = pare_arena_take_raw(&e->scratch, (size_t)p->elements, sizeof *has);
    float *const wanted = pare_arena_take_raw(&e->scratch, (size_t)p->elements, sizeof *wanted);
    if (!has || !wanted)
        return PARE_ENOMEM;
    PARE_TRY(decode(e, is, at, p->elements, has));
    PARE_TRY(pare_gguf_wanted(e->cx, &e->scratch, t, piece, wanted));
    for (uint64_t j = 0; j < p->elements; j++) {
        const float d = has[j] - wanted[j];
        if (!isfinite(d) || (!again && !(fabsf(d) <= allowed(t, p->way, wanted[j]))))
            return differs(e, t->name, "a value");
        sum->square += (double)wanted[j] * (double)wanted[j];
        sum->difference += (double)d * (double)d;
    }
    return PARE_OK;
}

static pare_status compare_piece(pare__export *e, const pare_gguf_item *t, size_t piece,
                                 const pare_gguf_tensor *is, uint64_t at, lost *sum)
{
    const pare_gguf_way way = t->piece[piece].way;
    const unsigned char *const bytes = is->data + at / t->type->elements * t->type->bytes;
    if (way == PARE_GGUF_BYTES)
        return memcmp(t->piece[piece].tensor->data, bytes, (size_t)t->piece[piece].bytes) == 0
                   ? PARE_OK
                   : differs(e, t->name, "its bytes");
    PARE_TRY(compare_values(e, t, piece, is, at, sum));
    return way == PARE_GGUF_AGAIN || way == PARE_GGUF_NEAR ? check_bytes(e, t, piece, bytes)
                                                           : PARE_OK;
}

static void take_row(pare__export *e, pare_export_row *row, const lost *sum)
{
    if (row->fate == PARE_EXPORT_FLOAT)
        return;
    row->error = sum->square > 0 ? sqrt(sum->difference / sum->square) : 0;
    if (row->fate == PARE_EXPORT_ROUNDED && sum->difference == 0)
        row->fate = PARE_EXPORT_LOSSLESS;
    e->square += sum->square;
    e->difference += sum->difference;
}

static pare_status compare(pare__export *e, const pare_gguf_item *t, const pare_gguf *g,
                           const pare_gguf_tensor *from)
{
    pare_gguf_tensor is = *from;
    uint64_t at = 0;
    lost sum = {0, 0};
    for (size_t i = 0; i < t->pieces; i++) {
        const pare_mark m = pare_arena_mark(&e->scratch);
        pare_status s =
            pare_gguf_factor(e->cx, e->place.at.work, g, from, t->apart ? i : 0, &is.factor);
        if (s == PARE_OK)
            s = compare_piece(e, t, i, &is, at, &sum);
        pare_arena_rewind(&e->scratch, m);
        PARE_TRY(s);
        PARE_TRY(pare_ctx_interrupted(e->cx));
        at += t->piece[i].elements;
        if (!t->apart && i + 1 < t->pieces)
            continue;
        PARE_TRY(pare__export_check_lost(e, t->name, t->type->name, sum.difference, sum.square));
        if (t->linear >= 0)
            take_row(e, &e->out->row[t->linear + (t->apart ? (ptrdiff_t)i : 0)], &sum);
        sum = (lost){0, 0};
    }
    return PARE_OK;
}

static pare_status check_tensors(pare__export *e, const pare_gguf *g)
{
    if (g->tensors != e->items)
        return differs(e, "(all)", "their number");
    for (size_t i = 0; i < e->items; i++) {
        const pare_gguf_item *const t = &e->item[i];
        const pare_gguf_tensor *const is = pare_gguf_tensor_find(g, t->name);
        pare_ctx_progress(e->cx, "reading the export back", (double)i, (double)e->items);
        if (!is || is->type != t->type || is->rank != t->rank ||
            memcmp(is->shape, t->shape, t->rank * sizeof *t->shape) != 0)
            return differs(e, t->name, "type or shape");
        PARE_TRY(compare(e, t, g, is));
    }
    e->out->error = e->square > 0 ? sqrt(e->difference / e->square) : 0;
    return PARE_OK;
}

/* The text of a token must be cut into the same tokens. */
static pare_status check_token(pare__export *e, const pare_tokenizer *was, const pare_tokenizer *is,
                               int32_t id)
{
    int32_t *before, *after;
    size_t n, m, len;
    char *text;
    PARE_TRY(pare_tokenizer_decode(e->cx, was, &e->scratch, &id, 1, &text, &len));
    PARE_TRY(pare_tokenizer_encode(e->cx, was, &e->scratch, text, len, &before, &n));
    PARE_TRY(pare_tokenizer_encode(e->cx, is, &e->scratch, text, len, &after, &m));
    if (n != m || (n && memcmp(before, after, n * sizeof *before) != 0))
        return pare_fail(e->cx, PARE_ENOTSUP,
                         "%s: the tokenizer cuts the text of token %d otherwise than the one in "
                         "the file would",
                         e->target->name, (int)id);
    return PARE_OK;
}

static bool same_around(const pare_tok_around *a, const pare_tok_around *b)
{
    return a->fronts == b->fronts && a->behinds == b->behinds &&
           memcmp(a->front, b->front, a->fronts * sizeof *a->front) == 0 &&
           memcmp(a->behind, b->behind, a->behinds * sizeof *a->behind) == 0;
}

static pare_status check_tokens(pare__export *e, const pare_tokenizer *was,
                                const pare_tokenizer *is)
{
    if (!same_around(pare_tokenizer_around(was), pare_tokenizer_around(is)))
        return pare_fail(e->cx, PARE_ENOTSUP, "%s: the file puts other tokens around texts",
                         e->target->name);
    for (size_t id = 0; id < pare_tokenizer_vocab(was); id++) {
        const pare_mark m = pare_arena_mark(&e->scratch);
        const pare_status s = check_token(e, was, is, (int32_t)id);
        pare_arena_rewind(&e->scratch, m);
        PARE_TRY(s);
    }
    return PARE_OK;
}

static pare_status check_tokenizer(pare__export *e, const pare_checkpoint *written)
{
    pare_tokenizer *was, *is;
    bool has;
    PARE_TRY(pare_checkpoint_has_tokenizer(&e->ck, &has));
    if (!has)
        return PARE_OK;
    PARE_TRY(pare_checkpoint_tokenizer(&e->ck, &was));
    pare_status s = pare_checkpoint_tokenizer(written, &is);
    if (s == PARE_OK) {
        s = check_tokens(e, was, is);
        pare_tokenizer_free(is);
    }
    pare_tokenizer_free(was);
    return s;
}

static pare_status check_model(pare__export *e)
{
    pare_checkpoint written;
    pare_config is;
    pare_status s = pare_checkpoint_list(e->cx, e->a, e->place.at.work, &written);
    if (s == PARE_OK)
        s = pare_config_parse(e->cx, e->place.at.work, written.config, &is);
    if (s == PARE_OK)
        s = pare_gguf_check_config(e->cx, &e->model.config, &is);
    if (s == PARE_OK)
        s = check_tokenizer(e, &written);
    pare_checkpoint_close(&written);
    return s;
}

pare_status pare__export_file_check(pare__export *e)
{
    pare_file f = {0};
    pare_gguf g;
    pare_status s = pare_file_map(e->cx, e->a, e->place.at.work, &f);
    if (s == PARE_OK)
        s = pare_gguf_parse(e->cx, e->a, e->place.at.work, f.data, f.bytes, &g);
    if (s == PARE_OK)
        s = check_tensors(e, &g);
    pare_file_unmap(&f);
    return s == PARE_OK ? check_model(e) : s;
}
