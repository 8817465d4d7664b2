/* What is in the tensors of a GGUF file: the codes of an artifact in blocks, its values as floats.
 */
#include <math.h>
#include <string.h>

#include "formats/export_gguf.h"
#include "formats/export_internal.h"
#include "kernels/e4m3.h"
#include "kernels/half.h"
#include "kernels/layout.h"
#include "runtime/linear.h"
#include "runtime/threads.h"
#include "solve/super.h"

enum { ROWS_AT_ONCE = 8 };

static uint64_t width_of(const pare_gguf_item *t)
{
    return t->shape[t->rank - 1];
}

static float half(uint16_t h)
{
    return pare_f16_to_f32(h);
}

/* Row of the original that is row r of the file. */
static uint64_t source_of(const pare_gguf_item *t, uint64_t r)
{
    if (t->heads == 0)
        return r;
    const uint64_t head = t->shape[0] / t->heads, i = r % head;
    return r - i + i % 2 * (head / 2) + i / 2;
}

/* A piece of an item on its way into blocks. */
typedef struct encoding {
    const pare_gguf_item *t;
    uint64_t width, row_bytes;
    pare__export_codes codes; /* CODES, NEAR */
    const float *values;      /* AGAIN */
    bool powers;              /* CODES of MXFP4 */
    float factor;             /* CODES of NVFP4, else 0 */
    const pare_panel *super;  /* CODES of super-blocks, and: */
    const uint8_t *code;      /* [rows, width] */
    unsigned char *out;
    unsigned char *bad; /* [rows] */
} encoding;

/* False when a minimum is beyond F16. */
static bool encode_codes(const encoding *e, uint64_t row, unsigned char *to)
{
    const pare_ggml_type *const type = e->t->type;
    const pare__gguf_span *const span = pare__gguf_span_of(type);
    const bool k = span->offset && type->elements > 32;
    const int bias = span->offset || strcmp(type->name, "Q8_0") == 0 ? 0 : -span->least;
    const uint64_t from = source_of(e->t, row);
    bool fits = true;
    pare_ggml_block b;
    for (uint64_t at = 0; at < e->width; at += type->elements, to += type->bytes) {
        const uint64_t g = from * e->codes.groups + at / e->codes.group;
        const uint8_t zero = e->codes.zero[g], *const code = e->codes.code + from * e->width + at;
        b.d = e->codes.scale[g];
        b.m = k ? b.d : pare_f32_to_f16(-((float)zero * half(b.d)));
        fits &= !span->offset || isfinite(half(b.m));
        memset(b.scale, 1, sizeof b.scale);
        memset(b.offset, zero, sizeof b.offset);
        for (uint32_t i = 0; i < type->elements; i++)
            b.code[i] = (uint8_t)(span->offset ? code[i] : code[i] - zero + bias);
        pare_ggml_join(type, &b, to);
    }
    return fits;
}

/* Codes of MXFP4, and exponents of their scales. */
static bool encode_powers(const encoding *e, uint64_t row, unsigned char *to)
{
    const uint64_t from = source_of(e->t, row);
    for (uint64_t g = 0; g < e->codes.groups; g++, to += e->t->type->bytes) {
        pare_ggml_block b = {.d =
                                 pare__export_exponent(e->codes.scale[from * e->codes.groups + g])};
        memcpy(b.code, e->codes.code + from * e->width + g * e->codes.group, e->codes.group);
        pare_ggml_join(e->t->type, &b, to);
    }
    return true;
}

/* Codes of NVFP4, and those of their scales. */
static bool encode_nvfp4(const encoding *e, uint64_t row, unsigned char *to)
{
    const pare_ggml_type *const type = e->t->type;
    const uint64_t from = source_of(e->t, row), own = type->elements / e->codes.group;
    for (uint64_t at = 0; at < e->width; at += type->elements, to += type->bytes) {
        const uint16_t *const scale = e->codes.scale + from * e->codes.groups + at / e->codes.group;
        pare_ggml_block b = {0};
        for (uint64_t i = 0; i < own; i++)
            b.scale[i] = (int8_t)pare_f32_to_e4m3(half(scale[i]) / e->factor);
        memcpy(b.code, e->codes.code + from * e->width + at, type->elements);
        pare_ggml_join(type, &b, to);
    }
    return true;
}

/* Scales, minima and bytes of sub-blocks go over as they lie in the planes of eight rows. */
static bool encode_super(const encoding *e, uint64_t row, unsigned char *to)
{
    const pare_panel *const p = e->super;
    const uint64_t from = source_of(e->t, row), groups = e->width / PARE_SUPER;
    for (uint64_t g = 0; g < groups; g++, to += e->t->type->bytes) {
        const uint64_t at = (from / 8 * groups + g) * 8, r = from % 8;
        const uint8_t *const sub = p->sub + at * PARE_SUPER_BYTES + r;
        pare_ggml_block b = {.d = p->scales[at + r], .m = p->minima ? p->minima[at + r] : 0};
        for (size_t i = 0; i < PARE_SUPER_BYTES; i++) {
            const uint8_t byte = sub[8 * i];
            if (p->minima && i % 2)
                b.offset[i / 2] = byte;
            else
                b.scale[p->minima ? i / 2 : i] = (int8_t)byte;
        }
        memcpy(b.code, e->code + from * e->width + g * PARE_SUPER, PARE_SUPER);
        pare_ggml_join(e->t->type, &b, to);
    }
    return true;
}

static void encode_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const encoding *const e = arg;
    (void)worker;
    for (size_t r = begin; r < end; r++) {
        unsigned char *const to = e->out + r * e->row_bytes;
        bool done;
        if (e->values)
            done = pare_ggml_encode(e->t->type, e->values + r * e->width,
                                    e->width / e->t->type->elements, to);
        else if (e->super)
            done = encode_super(e, r, to);
        else if (e->factor != 0)
            done = encode_nvfp4(e, r, to);
        else
            done = e->powers ? encode_powers(e, r, to) : encode_codes(e, r, to);
        e->bad[r] = !done;
    }
}

/* The rows of the file, also of vectors that belong to outputs. */
static void reorder(const pare_gguf_item *t, const float *from, float *to)
{
    const uint64_t rows = t->shape[0], width = t->rank > 1 ? t->shape[1] : 1;
    for (uint64_t r = 0; r < rows; r++)
        memcpy(to + r * width, from + source_of(t, r) * width, (size_t)width * sizeof *to);
}

pare_status pare_gguf_wanted(pare_ctx *cx, pare_arena *scratch, const pare_gguf_item *t,
                             size_t piece, float *out)
{
    const pare_gguf_piece *const p = &t->piece[piece];
    if (p->way == PARE_GGUF_FACTOR) {
        *out = pare__export_own_factor(p->linear->weights);
        return PARE_OK;
    }
    float *const plain =
        t->heads ? pare_arena_take_raw(scratch, (size_t)p->elements, sizeof *plain) : out;
    if (!plain)
        return PARE_ENOMEM;
    if (p->linear)
        pare_linear_to_f32(cx, p->linear->weights, plain);
    else if (p->tensor)
        PARE_TRY(pare_tensor_to_f32(cx, p->tensor, 0, p->elements, plain));
    else
        memcpy(plain, p->values, (size_t)p->elements * sizeof *plain);
    for (uint64_t i = 0; t->plus_one && i < p->elements; i++)
        plain[i] += 1;
    if (t->heads) /* such an item has one piece */
        reorder(t, plain, out);
    return PARE_OK;
}

static pare_status beyond(pare_ctx *cx, const pare_gguf_item *t)
{
    return pare_fail(cx, PARE_ENUMERIC, "gguf: tensor %s has values that %s does not reach",
                     t->name, t->type->name);
}

static pare_status take_values(pare_ctx *cx, pare_arena *scratch, const pare_gguf_item *t,
                               size_t piece, const float **out)
{
    float *const values =
        pare_arena_take_raw(scratch, (size_t)t->piece[piece].elements, sizeof *values);
    *out = values;
    return values ? pare_gguf_wanted(cx, scratch, t, piece, values) : PARE_ENOMEM;
}

static pare_status encode_floats(pare_ctx *cx, pare_arena *scratch, const pare_gguf_item *t,
                                 size_t piece, void *out)
{
    const uint64_t count = t->piece[piece].elements;
    const float *values;
    PARE_TRY(take_values(cx, scratch, t, piece, &values));
    for (uint64_t i = 0; t->type->dtype == PARE_F16 && i < count; i++)
        if (!(fabsf(values[i]) < 65520))
            return beyond(cx, t);
    return pare_f32_to_dtype(cx, t->type->dtype, values, count, out);
}

static pare_status take_super(pare_arena *scratch, const pare_gguf_piece *p, encoding *e)
{
    const size_t rows = (size_t)(p->elements / e->width), width = (size_t)e->width;
    uint8_t *const code = pare_arena_take_raw(scratch, rows, width);
    if (!code)
        return PARE_ENOMEM;
    e->super = &p->linear->weights->panel;
    e->code = code;
    pare_unpack_codes(code, width, e->super->codes, rows, width, p->linear->packed.bits);
    return PARE_OK;
}

static pare_status encode_blocks(pare_ctx *cx, pare_arena *scratch, const pare_gguf_item *t,
                                 size_t piece, void *out)
{
    const pare_gguf_piece *const p = &t->piece[piece];
    encoding e = {.t = t, .width = width_of(t), .out = out};
    const size_t rows = (size_t)(p->elements / e.width);
    e.row_bytes = e.width / t->type->elements * t->type->bytes;
    if (p->way == PARE_GGUF_AGAIN)
        PARE_TRY(take_values(cx, scratch, t, piece, &e.values));
    else if (pare_encoding_is_super(p->linear->packed.encoding))
        PARE_TRY(take_super(scratch, p, &e));
    else
        PARE_TRY(pare__export_unpack(scratch, &p->linear->packed, p->linear->weights, &e.codes));
    if (p->way == PARE_GGUF_CODES && strcmp(t->type->name, "NVFP4") == 0)
        e.factor = pare__export_own_factor(p->linear->weights);
    e.powers = p->linear && pare_encodings[p->linear->packed.encoding].scales == PARE_SCALES_POWERS;
    e.bad = PARE_NEW(scratch, unsigned char, rows);
    if (!e.bad)
        return PARE_ENOMEM;
    pare_parallel(cx, rows, ROWS_AT_ONCE, encode_rows, &e);
    return memchr(e.bad, 1, rows) ? beyond(cx, t) : PARE_OK;
}

pare_status pare_gguf_encode(pare_ctx *cx, pare_arena *scratch, const pare_gguf_item *t,
                             size_t piece, void *out)
{
    const pare_gguf_piece *const p = &t->piece[piece];
    const pare_mark m = pare_arena_mark(scratch);
    pare_status s = PARE_OK;
    if (p->way == PARE_GGUF_BYTES)
        memcpy(out, p->tensor->data, (size_t)p->bytes);
    else if (p->way == PARE_GGUF_FLOATS || p->way == PARE_GGUF_FACTOR)
        s = encode_floats(cx, scratch, t, piece, out);
    else
        s = encode_blocks(cx, scratch, t, piece, out);
    pare_arena_rewind(scratch, m);
    return s;
}
