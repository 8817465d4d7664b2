/* A GGUF file read back and compared. */
#include <math.h>
#include <string.h>

#include "compress/export_run.h"
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

static pare_status decode(const pare__export *e, const pare_gguf_tensor *t, float *out)
{
    const pare_tensor view = {.name = t->name,
                              .dtype = t->type->dtype,
                              .rank = t->rank,
                              .shape = {t->shape[0], t->shape[1]},
                              .data = t->data,
                              .bytes = t->bytes};
    if (!t->type->codec)
        return pare_tensor_to_f32(e->cx, &view, 0, t->elements, out);
    pare_ggml_decode(t->type, t->data, t->elements / t->type->elements, out);
    return PARE_OK;
}

/* Codes that were chosen anew must be the same a second time. */
static pare_status check_again(pare__export *e, const pare_gguf_item *t, const pare_gguf_tensor *is)
{
    pare_arena *const scratch = &e->scratch;
    void *const bytes = pare_arena_take_raw(scratch, 1, (size_t)is->bytes);
    if (!bytes)
        return PARE_ENOMEM;
    PARE_TRY(pare_gguf_encode(e->cx, scratch, t, is->bytes, bytes));
    return memcmp(bytes, is->data, (size_t)is->bytes) == 0 ? PARE_OK
                                                           : differs(e, t->name, "its codes");
}

/* Largest error of rounding to a float type: relative, and below its normal range. */
static float allowed(const pare_gguf_item *t, pare_gguf_way way, float value)
{
    if (way != PARE_GGUF_FLOATS || t->type->dtype == PARE_F32)
        return 0;
    return t->type->dtype == PARE_F16 ? fabsf(value) * 0x1p-11f + 0x1p-25f : fabsf(value) * 0x1p-8f;
}

/* Values [count] of a piece, or of an item without pieces. */
static pare_status compare_values(pare__export *e, const pare_gguf_item *t, pare_gguf_way way,
                                  const float *has, const float *wanted, uint64_t count,
                                  double *square, double *difference)
{
    const bool again = way == PARE_GGUF_AGAIN || way == PARE_GGUF_NEAR;
    for (uint64_t j = 0; j < count; j++) {
        const float d = has[j] - wanted[j];
        if (!isfinite(d) || (!again && !(fabsf(d) <= allowed(t, way, wanted[j]))))
            return differs(e, t->name, "a value");
        *square += (double)wanted[j] * (double)wanted[j];
        *difference += (double)d * (double)d;
    }
    return PARE_OK;
}

static pare_status compare(pare__export *e, const pare_gguf_item *t, const pare_gguf_tensor *is)
{
    double square = 0, difference = 0;
    bool again = false;
    if (t->pieces && t->piece[0].way == PARE_GGUF_BYTES)
        return memcmp(t->piece[0].tensor->data, is->data, (size_t)is->bytes) == 0
                   ? PARE_OK
                   : differs(e, t->name, "a value");
    float *const has = pare_arena_take_raw(&e->scratch, (size_t)is->elements, sizeof *has);
    float *const wanted = pare_arena_take_raw(&e->scratch, (size_t)is->elements, sizeof *wanted);
    if (!has || !wanted)
        return PARE_ENOMEM;
    PARE_TRY(decode(e, is, has));
    PARE_TRY(pare_gguf_wanted(e->cx, &e->scratch, t, wanted));
    if (!t->pieces)
        PARE_TRY(compare_values(e, t, PARE_GGUF_FLOATS, has, wanted, is->elements, &square,
                                &difference));
    for (size_t i = 0, at = 0; i < t->pieces; at += t->piece[i++].elements) {
        const pare_gguf_piece *const p = &t->piece[i];
        PARE_TRY(
            compare_values(e, t, p->way, has + at, wanted + at, p->elements, &square, &difference));
        again |= p->way == PARE_GGUF_AGAIN || p->way == PARE_GGUF_NEAR;
    }
    if (again)
        PARE_TRY(check_again(e, t, is));
    pare_export_row *const row = t->linear >= 0 ? &e->out->row[t->linear] : NULL;
    if (!row || row->fate == PARE_EXPORT_FLOAT)
        return PARE_OK;
    row->error = square > 0 ? sqrt(difference / square) : 0;
    if (row->fate == PARE_EXPORT_ROUNDED && difference == 0)
        row->fate = PARE_EXPORT_LOSSLESS;
    e->square += square;
    e->difference += difference;
    return PARE_OK;
}

static pare_status check_tensors(pare__export *e, const pare_gguf *g)
{
    if (g->tensors != e->items)
        return differs(e, "(all)", "their number");
    for (size_t i = 0; i < e->items; i++) {
        const pare_gguf_item *const t = &e->item[i];
        const pare_gguf_tensor *const is = pare_gguf_tensor_find(g, t->name);
        PARE_TRY(pare_ctx_interrupted(e->cx));
        pare_ctx_progress(e->cx, "reading back", (double)i, (double)e->items);
        if (!is || is->type != t->type || is->rank != t->rank ||
            memcmp(is->shape, t->shape, t->rank * sizeof *t->shape) != 0)
            return differs(e, t->name, "type or shape");
        const pare_mark m = pare_arena_mark(&e->scratch);
        const pare_status s = compare(e, t, is);
        pare_arena_rewind(&e->scratch, m);
        PARE_TRY(s);
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
    if (pare_tokenizer_decode(e->cx, was, &e->scratch, &id, 1, &text, &len) != PARE_OK) {
        pare_ctx_clear(e->cx);
        return PARE_OK;
    }
    PARE_TRY(pare_tokenizer_encode(e->cx, was, &e->scratch, text, len, &before, &n));
    PARE_TRY(pare_tokenizer_encode(e->cx, is, &e->scratch, text, len, &after, &m));
    if (n != m || (n && memcmp(before, after, n * sizeof *before) != 0))
        return pare_fail(e->cx, PARE_ENOTSUP,
                         "%s: the tokenizer cuts the text of token %d otherwise than the one in "
                         "the file would",
                         e->target->name, (int)id);
    return PARE_OK;
}

static pare_status check_tokens(pare__export *e, const pare_tokenizer *was,
                                const pare_tokenizer *is)
{
    const int32_t bos = pare_tokenizer_bos(was); /* without one the file has that of config.json */
    if (pare_tokenizer_add_bos(was) != pare_tokenizer_add_bos(is) ||
        (bos >= 0 && bos != pare_tokenizer_bos(is)))
        return pare_fail(e->cx, PARE_ENOTSUP, "%s: the file starts texts with another token",
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
    pare_status s = pare_checkpoint_list(e->cx, e->a, e->place.partial, &written);
    if (s == PARE_OK)
        s = pare_config_parse(e->cx, e->place.partial, written.config, &is);
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
    pare_status s = pare_file_map(e->cx, e->a, e->place.partial, &f);
    if (s == PARE_OK)
        s = pare_gguf_parse(e->cx, e->a, e->place.partial, f.data, f.bytes, &g);
    if (s == PARE_OK)
        s = check_tensors(e, &g);
    pare_file_unmap(&f);
    return s == PARE_OK ? check_model(e) : s;
}
