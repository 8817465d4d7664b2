#include "formats/export_gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/export_internal.h"
#include "formats/gguf_internal.h"
#include "kernels/half.h"
#include "runtime/linear.h"
#include "runtime/threads.h"

enum { ROWS_AT_ONCE = 8 };

/* Codes minus zero points that a type holds, or codes beside zero points. */
typedef struct span {
    const char *type;
    int least, most;
    bool offset;
} span;

static const span spans[] = {
    {"Q4_0", -8, 7, false},   {"Q8_0", -128, 127, false}, {"Q5_0", -16, 15, false},
    {"Q6_K", -32, 31, false}, {"TQ1_0", -1, 1, false},    {"TQ2_0", -1, 1, false},
    {"Q4_1", 0, 15, true},    {"Q4_K", 0, 15, true},
};

static const span *span_of(const pare_ggml_type *t)
{
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        if (strcmp(spans[i].type, t->name) == 0)
            return &spans[i];
    return NULL;
}

/* Whether the codes of a linear are codes of the type. */
static bool holds(const pare_ggml_type *t, const pare_packed_linear *l)
{
    const span *const s = span_of(t);
    const size_t columns = l->group && l->group < l->k ? l->group : l->k;
    const bool ternary = l->encoding == PARE_ENCODING_TERNARY;
    if (!s || (!ternary && l->encoding != PARE_ENCODING_UNIFORM) || l->outliers || l->sparse ||
        l->sparsity == PARE_SPARSITY_BITMASK || columns % t->elements != 0 ||
        l->k % t->elements != 0)
        return false;
    const int most = (1 << l->bits) - 1, zero = ternary ? 1 : 1 << (l->bits - 1);
    if (s->offset)
        return most <= s->most;
    if (ternary)
        return true;
    return l->symmetric ? -zero >= s->least && most - zero <= s->most
                        : -most >= s->least && most <= s->most;
}

static float half(uint16_t h)
{
    return pare_f16_to_f32(h);
}

/* Whether every minimum -zero scale is a number of F16. */
static bool minima_fit(const pare_packed_linear *l, const pare_linear *w)
{
    const size_t groups = pare_packed_linear_groups(l), n = (l->n + 7) / 8 * 8;
    for (size_t i = 0; i < n * groups; i++) {
        const uint8_t zero = w->panel.zeros ? w->panel.zeros[i] : pare__export_zero(l);
        const float m = (float)zero * half(w->panel.scales[i]);
        if (half(pare_f32_to_f16(m)) != m)
            return false;
    }
    return true;
}

static const pare_ggml_type *type_for(const char *block, uint64_t width, bool *fallback)
{
    static const char *const next[][2] = {
        {"Q4_K", "Q5_0"}, {"Q6_K", "Q8_0"}, {"TQ1_0", "Q4_0"}, {"TQ2_0", "Q4_0"}};
    const pare_ggml_type *t = pare_ggml_type_named(block);
    *fallback = width % t->elements != 0;
    for (size_t i = 0; i < sizeof next / sizeof *next && width % t->elements != 0; i++)
        if (strcmp(next[i][0], block) == 0)
            t = pare_ggml_type_named(next[i][1]);
    return width % t->elements == 0 ? t : pare_ggml_type_named("F16");
}

static void choose_linear(const char *block, pare_gguf_item *t)
{
    const pare_packed_linear *const l = &t->linear->packed;
    t->rank = 2;
    t->shape[0] = l->n;
    t->shape[1] = l->k;
    t->type = type_for(block, l->k, &t->fallback);
    if (t->type->elements == 1)
        t->way = PARE_GGUF_FLOATS;
    else if (!holds(t->type, l))
        t->way = PARE_GGUF_AGAIN;
    else if (strcmp(t->type->name, "Q4_1") == 0 && !minima_fit(l, t->linear->weights))
        t->way = PARE_GGUF_NEAR;
    else
        t->way = PARE_GGUF_CODES;
}

static pare_status choose_tensor(pare_ctx *cx, const char *block, pare_gguf_item *t)
{
    const pare_tensor *const from = t->tensor;
    if (from->rank < 1 || from->rank > 2 || from->bytes == 0 ||
        (from->dtype != PARE_F16 && from->dtype != PARE_BF16 && from->dtype != PARE_F32))
        return pare_fail(cx, PARE_ENOTSUP, "gguf: tensor %s is no vector or matrix of floats",
                         from->name);
    const bool wide = from->rank == 1 || strcmp(t->name, "position_embd.weight") == 0;
    const pare_dtype as = strcmp(block, "F16") == 0 ? PARE_F16 : from->dtype;
    t->rank = from->rank;
    memcpy(t->shape, from->shape, from->rank * sizeof *t->shape);
    t->way = PARE_GGUF_FLOATS;
    t->type = pare_ggml_type_named(wide ? "F32" : pare_dtype_name(as));
    return PARE_OK;
}

static int by_order(const void *a, const void *b)
{
    const pare_gguf_item *const x = a, *const y = b;
    return x->order != y->order ? (x->order < y->order ? -1 : 1) : strcmp(x->name, y->name);
}

/* ".weight" or ".bias" behind `name`, whose length without it is *len. */
static const char *suffix_of(const char *name, size_t *len)
{
    const char *const dot = strrchr(name, '.');
    if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
        return NULL;
    *len = (size_t)(dot - name);
    return dot;
}

static bool is_ignored(const pare_arch *arch, const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < 2; i++) {
        const size_t n = arch->ignored[i] ? strlen(arch->ignored[i]) : 0;
        if (n && len > n && strcmp(name + len - n, arch->ignored[i]) == 0)
            return true;
    }
    return false;
}

/* Where a tensor goes: its name, and how its rows lie. */
static pare_status find_place(pare_ctx *cx, pare_arena *a, const pare_config *c, const char *name,
                              const char *suffix, pare_gguf_item *t)
{
    const pare__gguf_family *const f = pare__gguf_family_for(c->arch->model_type);
    pare__gguf_place place;
    if (!f || !pare__gguf_unname(f, name, suffix, &place))
        return pare_fail(cx, PARE_ENOTSUP, "gguf: tensor %s%s has no place in files of %s", name,
                         suffix, c->arch->model_type);
    t->name = pare_arena_text(a, place.name, strlen(place.name));
    t->order = place.order;
    t->heads = place.form == PARE__GGUF_PAIRS_Q   ? c->heads
               : place.form == PARE__GGUF_PAIRS_K ? c->kv_heads
                                                  : 0;
    return t->name ? PARE_OK : PARE_ENOMEM;
}

static pare_status add_tensor(pare_ctx *cx, pare_arena *a, const pare_config *c, const char *block,
                              const pare_tensor *from, pare_gguf_item *t)
{
    size_t len = 0;
    const char *const suffix = suffix_of(from->name, &len);
    const char *const base = pare_arena_text(a, from->name, suffix ? len : strlen(from->name));
    if (!base)
        return PARE_ENOMEM;
    *t = (pare_gguf_item){.tensor = from};
    PARE_TRY(find_place(cx, a, c, base, suffix ? suffix : "", t));
    return choose_tensor(cx, block, t);
}

/* The divisors of the frequencies of Llama 3. */
static pare_status add_divisors(pare_arena *a, const pare_config *c, pare_gguf_item *t,
                                size_t *count)
{
    const pare_rope *const r = &c->rope;
    const size_t pairs = r->llama3 ? pare_rope_pairs(c) : 0;
    float *const values = PARE_NEW(a, float, pairs);
    if (!values)
        return PARE_ENOMEM;
    for (size_t i = 0; i < pairs; i++) {
        const double wave = 2 * 3.14159265358979323846 * pow(r->theta, (double)i / (double)pairs);
        const double turns = (double)r->original_context / wave;
        const double smooth =
            (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
        values[i] = (float)(turns > r->high_freq_factor  ? 1
                            : turns < r->low_freq_factor ? r->factor
                                                         : 1 / ((1 - smooth) / r->factor + smooth));
    }
    if (pairs)
        t[(*count)++] = (pare_gguf_item){.name = "rope_freqs.weight",
                                         .type = pare_ggml_type_named("F32"),
                                         .rank = 1,
                                         .shape = {pairs},
                                         .values = values};
    return PARE_OK;
}

pare_status pare_gguf_items(pare_ctx *cx, pare_arena *a, const pare_checkpoint *ck,
                            const pare_export_model *m, const bool *plane, const char *block,
                            pare_gguf_item **out, size_t *count)
{
    pare_gguf_item *const t = PARE_NEW(a, pare_gguf_item, m->linears + ck->tensors + 1);
    if (!t)
        return PARE_ENOMEM;
    *out = t;
    *count = 0;
    for (size_t i = 0; i < m->linears; i++) {
        const pare_export_linear *const l = &m->linear[i];
        if (!l->is_packed)
            continue;
        t[*count] = (pare_gguf_item){.linear = l};
        PARE_TRY(find_place(cx, a, m->config, l->name, ".weight", &t[*count]));
        choose_linear(block, &t[(*count)++]);
    }
    for (size_t i = 0; i < ck->tensors; i++) {
        if (plane[i] || is_ignored(m->config->arch, ck->tensor[i].name))
            continue;
        PARE_TRY(add_tensor(cx, a, m->config, block, &ck->tensor[i], &t[(*count)++]));
    }
    PARE_TRY(add_divisors(a, m->config, t, count));
    if (*count > 1)
        qsort(t, *count, sizeof *t, by_order);
    return PARE_OK;
}

/* Row of the original that is row r of the file. */
static uint64_t source_of(const pare_gguf_item *t, uint64_t r)
{
    if (t->heads == 0)
        return r;
    const uint64_t head = t->shape[0] / t->heads, i = r % head;
    return r - i + i % 2 * (head / 2) + i / 2;
}

/* One item on its way into bytes. */
typedef struct encoding {
    pare_ctx *cx;
    const pare_gguf_item *t;
    uint64_t rows, width, row_bytes;
    pare__export_codes codes; /* CODES, NEAR */
    const float *values;      /* AGAIN */
    unsigned char *out;
    unsigned char *bad; /* [rows] */
} encoding;

static void encode_codes(const encoding *e, uint64_t row, unsigned char *to)
{
    const pare_ggml_type *const type = e->t->type;
    const bool offset = span_of(type)->offset, k = strcmp(type->name, "Q4_K") == 0;
    const int bias = offset || strcmp(type->name, "Q8_0") == 0 ? 0 : -span_of(type)->least;
    const uint64_t from = source_of(e->t, row);
    pare_ggml_block b;
    for (uint64_t at = 0; at < e->width; at += type->elements, to += type->bytes) {
        const uint64_t g = from * e->codes.groups + at / e->codes.group;
        const uint8_t zero = e->codes.zero[g], *const code = e->codes.code + from * e->width + at;
        b.d = e->codes.scale[g];
        b.m = k ? b.d : pare_f32_to_f16(-((float)zero * half(b.d)));
        memset(b.scale, 1, sizeof b.scale);
        memset(b.offset, zero, sizeof b.offset);
        for (uint32_t i = 0; i < type->elements; i++)
            b.code[i] = (uint8_t)(offset ? code[i] : code[i] - zero + bias);
        pare_ggml_join(type, &b, to);
    }
}

static void encode_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const encoding *const e = arg;
    (void)worker;
    for (size_t r = begin; r < end; r++) {
        unsigned char *const to = e->out + r * e->row_bytes;
        if (e->values)
            e->bad[r] = !pare_ggml_encode(e->t->type, e->values + r * e->width,
                                          e->width / e->t->type->elements, to);
        else
            encode_codes(e, r, to);
    }
}

static uint64_t width_of(const pare_gguf_item *t)
{
    return t->shape[t->rank - 1];
}

static uint64_t rows_of(const pare_gguf_item *t)
{
    return t->rank > 1 ? t->shape[0] : 1;
}

/* The rows of the file, also of vectors that belong to outputs. */
static void reorder(const pare_gguf_item *t, const float *from, float *to)
{
    const uint64_t rows = t->shape[0], width = t->rank > 1 ? t->shape[1] : 1;
    for (uint64_t r = 0; r < rows; r++)
        memcpy(to + r * width, from + source_of(t, r) * width, (size_t)width * sizeof *to);
}

pare_status pare_gguf_wanted(pare_ctx *cx, pare_arena *scratch, const pare_gguf_item *t, float *out)
{
    const uint64_t count = rows_of(t) * width_of(t);
    float *const plain =
        t->heads ? pare_arena_take_raw(scratch, (size_t)count, sizeof *plain) : out;
    if (!plain)
        return PARE_ENOMEM;
    if (t->values)
        memcpy(plain, t->values, (size_t)count * sizeof *plain);
    else if (t->linear)
        pare_linear_to_f32(cx, t->linear->weights, plain);
    else
        PARE_TRY(pare_tensor_to_f32(cx, t->tensor, 0, count, plain));
    if (t->heads)
        reorder(t, plain, out);
    return PARE_OK;
}

static pare_status beyond(pare_ctx *cx, const pare_gguf_item *t)
{
    return pare_fail(cx, PARE_ENUMERIC, "gguf: tensor %s has values that %s does not reach",
                     t->name, t->type->name);
}

static pare_status encode_floats(pare_ctx *cx, pare_arena *scratch, const pare_gguf_item *t,
                                 void *out)
{
    const uint64_t count = rows_of(t) * width_of(t);
    float *const values = pare_arena_take_raw(scratch, (size_t)count, sizeof *values);
    if (!values)
        return PARE_ENOMEM;
    PARE_TRY(pare_gguf_wanted(cx, scratch, t, values));
    for (uint64_t i = 0; t->type->dtype == PARE_F16 && i < count; i++)
        if (!(fabsf(values[i]) < 65520))
            return beyond(cx, t);
    return pare_f32_to_dtype(cx, t->type->dtype, values, count, out);
}

pare_status pare_gguf_encode(pare_ctx *cx, pare_arena *scratch, const pare_gguf_item *t,
                             uint64_t bytes, void *out)
{
    encoding e = {.cx = cx, .t = t, .rows = rows_of(t), .width = width_of(t), .out = out};
    e.row_bytes = bytes / e.rows;
    if (t->way == PARE_GGUF_FLOATS)
        return encode_floats(cx, scratch, t, out);
    if (t->way == PARE_GGUF_AGAIN) {
        float *const values =
            pare_arena_take_raw(scratch, (size_t)(e.rows * e.width), sizeof *values);
        if (!values)
            return PARE_ENOMEM;
        PARE_TRY(pare_gguf_wanted(cx, scratch, t, values));
        e.values = values;
    } else {
        PARE_TRY(pare__export_unpack(scratch, &t->linear->packed, t->linear->weights, &e.codes));
    }
    e.bad = PARE_NEW(scratch, unsigned char, (size_t)e.rows);
    if (!e.bad)
        return PARE_ENOMEM;
    pare_parallel(cx, (size_t)e.rows, ROWS_AT_ONCE, encode_rows, &e);
    return memchr(e.bad, 1, (size_t)e.rows) ? beyond(cx, t) : PARE_OK;
}
