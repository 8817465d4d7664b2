/* tests/unit/tiny.h - a llama of a few thousand weights, made in memory, with every awkward size:
 * widths that are no multiple of 8 or 32, head_dim that is not hidden / heads, grouped heads. */
#ifndef PARE_TESTS_TINY_H
#define PARE_TESTS_TINY_H

#include <math.h>
#include <string.h>

#include "kernels/layout.h"
#include "runtime/forward.h"
#include "runtime/linear.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

enum { TINY_CONTEXT = 96, TINY_VOCAB = 53 };

/* The sites that it has. */
static const pare_site tiny_sites[] = {PARE_SITE_ATTENTION, PARE_SITE_ATTENDED, PARE_SITE_MLP,
                                       PARE_SITE_ACTIVATED};
enum { TINY_SITES = sizeof tiny_sites / sizeof *tiny_sites };

/* Kind of the linears of the blocks; embedding and head are F32, F16 or BF16 likewise (F16 for the
 * packed ones). */
typedef struct tiny_kind {
    pare_dtype dtype;
    unsigned bits; /* 0: dense of dtype */
    size_t group;  /* packed: 0 is per row */
    bool zeros;
    pare_encoding encoding;
    pare_activation activation; /* bits 0: 8 */
    enum { TINY_PLAIN, TINY_F16_OUTLIERS, TINY_INT8_OUTLIERS } outliers;
    bool sparse;
} tiny_kind;

#define TINY_FLOAT .activation = {PARE_ACTIVATION_FLOAT, 0, 0}

// clang-format off
static const tiny_kind tiny_kinds[] = {
    {.dtype = PARE_F32},
    {.dtype = PARE_F16},
    {.dtype = PARE_BF16},
    {.dtype = PARE_F16, .bits = 4, .group = 32, .zeros = true},
    {.dtype = PARE_F16, .bits = 8, .group = 64},
    {.dtype = PARE_F16, .bits = 3, .zeros = true},
    {.dtype = PARE_F16, .bits = 2, .group = 32},
    {.dtype = PARE_F16, .bits = 4, .group = 32, .zeros = true, .activation = {PARE_ACTIVATION_TOKEN, 4, 0}},
    {.dtype = PARE_F16, .bits = 8, .activation = {PARE_ACTIVATION_TOKEN, 8, 0}},
    {.dtype = PARE_F16, .bits = 8, .group = 64, .zeros = true, .activation = {PARE_ACTIVATION_TENSOR, 8, 0.04F}},
    {.dtype = PARE_F16, .bits = 3, .group = 32, .zeros = true, TINY_FLOAT},
    {.dtype = PARE_F16, .bits = 2, .encoding = PARE_ENCODING_TERNARY},
    {.dtype = PARE_F16, .bits = 4, .group = 64, .encoding = PARE_ENCODING_NF4, TINY_FLOAT},
    {.dtype = PARE_F16, .bits = 8, .encoding = PARE_ENCODING_FP8, TINY_FLOAT},
    {.dtype = PARE_F16, .bits = 4, .group = 32, .encoding = PARE_ENCODING_MXFP4, TINY_FLOAT},
    {.dtype = PARE_F16, .bits = 4, .group = 16, .encoding = PARE_ENCODING_NVFP4, TINY_FLOAT},
    {.dtype = PARE_F16, .bits = 3, .encoding = PARE_ENCODING_CODEBOOK, TINY_FLOAT, .sparse = true},
    {.dtype = PARE_F16, .bits = 2, .group = 32, .encoding = PARE_ENCODING_BINARY, TINY_FLOAT},
    {.dtype = PARE_F16, .bits = 8, .group = 32, .activation = {PARE_ACTIVATION_TOKEN, 8, 0}, .outliers = TINY_F16_OUTLIERS},
    {.dtype = PARE_F16, .bits = 4, .group = 64, .zeros = true, .activation = {PARE_ACTIVATION_GROUP, 4, 0},
     .outliers = TINY_INT8_OUTLIERS, .sparse = true},
};
// clang-format on
enum { TINY_KINDS = sizeof tiny_kinds / sizeof *tiny_kinds };

static inline void *tiny_take(pare_arena *a, size_t count, size_t size)
{
    void *const p = pare_arena_take(a, count, size);
    ck_assert_ptr_nonnull(p);
    return p;
}

static inline pare_linear tiny_dense(pare_arena *a, pare_dtype dtype, uint64_t stream, size_t n,
                                     size_t k)
{
    float *const w = tiny_take(a, n * k, sizeof *w);
    for (size_t i = 0; i < n * k; i++)
        w[i] = (float)(pare_random_normal(7, stream, i) / sqrt((double)k));
    pare_linear out = {.name = "tiny", .n = n, .k = k, .dtype = dtype, .data = w};
    if (dtype == PARE_F32)
        return out;
    uint16_t *const half = tiny_take(a, n * k, sizeof *half);
    if (dtype == PARE_F16)
        a->cx->kernels.cvt_f32_f16(half, w, n * k);
    for (size_t i = 0; dtype == PARE_BF16 && i < n * k; i++) {
        uint32_t bits;
        memcpy(&bits, &w[i], sizeof bits);
        half[i] = (uint16_t)(bits >> 16);
    }
    out.data = half;
    return out;
}

static inline uint16_t *tiny_halves(pare_arena *a, uint64_t stream, size_t count, double size)
{
    uint16_t *const half = tiny_take(a, count, sizeof *half);
    for (size_t i = 0; i < count; i++) {
        const float value = (float)(pare_random_normal(14, stream, i) * size);
        a->cx->kernels.cvt_f32_f16(&half[i], &value, 1);
    }
    return half;
}

/* Every fifth column from the second on. */
static inline void tiny_outliers(pare_arena *a, bool int8, uint64_t stream, pare_linear *w)
{
    pare_outliers *const o = &w->outliers;
    const size_t n16 = pare_round_up(w->n, PARE_PAD_N), size = (w->k + 3) / 5;
    if (size == 0)
        return;
    uint32_t *const column = tiny_take(a, size, sizeof *column);
    for (size_t c = 0; c < size; c++)
        column[c] = (uint32_t)(1 + 5 * c);
    *o = (pare_outliers){.count = size, .column = column};
    if (!int8) {
        o->f16 = tiny_halves(a, stream, w->n * size, 1 / sqrt((double)w->k));
        return;
    }
    const size_t c32 = pare_round_up(size, PARE_ATOM_K);
    uint8_t *const codes = tiny_take(a, w->n * size, 1);
    uint8_t *const packed = tiny_take(a, n16 * c32, 1);
    uint16_t *const scales = tiny_halves(a, stream, n16, 0.002 / sqrt((double)w->k));
    for (size_t i = 0; i < w->n * size; i++)
        codes[i] = (uint8_t)(1 + pare_random_u64(15, stream, i) % 255);
    pare_pack_codes(packed, codes, size, w->n, size, 8, NULL, 0, 128);
    o->panel = (pare_panel){.codes = packed, .scales = scales, .n = n16, .k = c32, .group = c32};
}

/* A row in two has none, the others one in seven columns. */
static inline void tiny_sparse(pare_arena *a, uint64_t stream, pare_linear *w)
{
    const size_t size = (w->k + 6) / 7, count = (w->n + 1) / 2 * size;
    uint32_t *const start = tiny_take(a, w->n + 1, sizeof *start);
    uint32_t *const column = tiny_take(a, count, sizeof *column);
    for (size_t r = 0; r < w->n; r++) {
        start[r + 1] = start[r] + (uint32_t)(r % 2 ? 0 : size);
        for (size_t i = start[r]; i < start[r + 1]; i++)
            column[i] = (uint32_t)(7 * (i - start[r]));
    }
    w->sparse = (pare_sparse){start, column, tiny_halves(a, stream, count, 1 / sqrt((double)w->k))};
}

/* Normal numbers. */
static inline float *tiny_rows(pare_arena *a, uint64_t stream, size_t count)
{
    float *const x = tiny_take(a, count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)pare_random_normal(12, stream, i);
    return x;
}

static inline pare_linear tiny_packed(pare_arena *a, tiny_kind kind, uint64_t stream, size_t n,
                                      size_t k)
{
    const size_t n16 = pare_round_up(n, PARE_PAD_N), k32 = pare_round_up(k, PARE_ATOM_K);
    const size_t group = kind.group ? kind.group : k32, groups = (k32 + group - 1) / group;
    const bool fp8 = kind.encoding == PARE_ENCODING_FP8;
    const unsigned most = kind.encoding == PARE_ENCODING_TERNARY ? 2
                          : fp8                                  ? 0x7e
                                                                 : (1u << kind.bits) - 1;
    const unsigned middle = 1u << (kind.bits - 1);
    uint8_t *const codes = tiny_take(a, n * k, 1);
    uint8_t *const packed = tiny_take(a, n16 / 8 * (k32 / 32), pare_atom_bytes(kind.bits));
    uint8_t *const row_zeros = tiny_take(a, n * groups, 1);
    uint16_t *const scales = tiny_take(a, n16 * groups, sizeof *scales);
    uint8_t *const zeros = tiny_take(a, n16 * groups, 1);
    uint8_t *const salient = tiny_take(a, k32, 1);
    for (size_t i = 0; i < n * k; i++)
        codes[i] = (uint8_t)(pare_random_u64(8, stream, i) % (most + 1) ^
                             (fp8 ? pare_random_u64(13, stream, i) << 7 & 0x80u : 0));
    for (size_t r = 0; r < n; r++)
        for (size_t g = 0; g < groups; g++) {
            const size_t at = (r / 8 * groups + g) * 8 + r % 8;
            const float scale = (float)((1 + pare_random_unit(9, stream, at)) * 2 / most /
                                        sqrt((double)k) / (fp8 ? 30 : 1));
            const unsigned shift = kind.zeros ? (unsigned)(at % 2) : 0;
            a->cx->kernels.cvt_f32_f16(&scales[at], &scale, 1);
            zeros[at] = row_zeros[r * groups + g] = (uint8_t)(middle - shift);
        }
    for (size_t j = 0; j < k; j++)
        salient[j] = j % 11 == 3;
    pare_pack_codes(packed, codes, k, n, k, kind.bits, row_zeros, groups, (uint8_t)middle);
    pare_linear w = {.name = "tiny",
                     .n = n,
                     .k = k,
                     .bits = kind.bits,
                     .encoding = kind.encoding,
                     .activation = kind.activation,
                     .panel = {.codes = packed,
                               .scales = scales,
                               .zeros = kind.zeros ? zeros : NULL,
                               .n = n16,
                               .k = k32,
                               .group = group}};
    if (w.activation.mode != PARE_ACTIVATION_FLOAT && w.activation.bits == 0)
        w.activation.bits = 8;
    const double size = 1 / sqrt((double)k);
    if (kind.encoding == PARE_ENCODING_CODEBOOK)
        w.panel.book = tiny_halves(a, stream, n16 << kind.bits, size);
    if (kind.encoding == PARE_ENCODING_BINARY) {
        w.panel.book = tiny_halves(a, stream, n16 * groups * 4, size);
        w.panel.salient = salient;
    }
    if (kind.encoding == PARE_ENCODING_CODEBOOK || kind.encoding == PARE_ENCODING_BINARY)
        w.panel.scales = NULL;
    if (kind.outliers)
        tiny_outliers(a, kind.outliers == TINY_INT8_OUTLIERS, stream, &w);
    if (kind.sparse)
        tiny_sparse(a, stream, &w);
    return w;
}

static inline float *tiny_ones(pare_arena *a, uint64_t stream, size_t n)
{
    float *const w = tiny_take(a, n, sizeof *w);
    for (size_t i = 0; i < n; i++)
        w[i] = (float)(0.5 + pare_random_unit(10, stream, i));
    return w;
}

/* The model, `hidden` wide, in the arena; the same weights for the same kind. */
static inline pare_model tiny_model_of(pare_arena *a, tiny_kind kind, size_t hidden)
{
    pare_model m = {.config = {.arch = pare_archs[0],
                               .hidden = hidden,
                               .intermediate = 70,
                               .blocks = 2,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 10,
                               .vocab = TINY_VOCAB,
                               .context = TINY_CONTEXT,
                               .norm_eps = 1e-5,
                               .rope = {.theta = 10000},
                               .bos_id = 1,
                               .eos_id = {2},
                               .eos_ids = 1}};
    const pare_config *const c = &m.config;
    const size_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const size_t shape[PARE_COMMON_ROLES][2] = {{q, c->hidden},
                                                {kv, c->hidden},
                                                {kv, c->hidden},
                                                {c->hidden, q},
                                                {c->intermediate, c->hidden},
                                                {c->intermediate, c->hidden},
                                                {c->hidden, c->intermediate}};
    m.embed = tiny_dense(a, kind.dtype, 1000, c->vocab, c->hidden);
    m.head = tiny_dense(a, kind.dtype, 1001, c->vocab, c->hidden);
    m.norm = tiny_ones(a, 1002, c->hidden);
    m.block = tiny_take(a, c->blocks, sizeof *m.block);
    for (size_t b = 0; b < c->blocks; b++) {
        for (size_t r = 0; r < PARE_COMMON_ROLES; r++) {
            const uint64_t stream = b * 20 + r;
            m.block[b].linear[r] =
                kind.bits ? tiny_packed(a, kind, stream, shape[r][0], shape[r][1])
                          : tiny_dense(a, kind.dtype, stream, shape[r][0], shape[r][1]);
        }
        m.block[b].linear[PARE_ROLE_Q].bias = tiny_ones(a, b * 20 + 10, q);
        m.block[b].norm[0] = tiny_ones(a, b * 20 + 11, c->hidden);
        m.block[b].norm[1] = tiny_ones(a, b * 20 + 12, c->hidden);
    }
    return m;
}

static inline pare_model tiny_model(pare_arena *a, tiny_kind kind)
{
    return tiny_model_of(a, kind, 44);
}

static inline int32_t *tiny_tokens(pare_arena *a, uint64_t stream, size_t count)
{
    int32_t *const t = tiny_take(a, count, sizeof *t);
    for (size_t i = 0; i < count; i++)
        t[i] = (int32_t)(pare_random_u64(11, stream, i) % TINY_VOCAB);
    return t;
}

/* A context with `threads` workers and an arena; end with tiny_end. */
typedef struct tiny_home {
    pare_ctx cx;
    pare_arena arena;
} tiny_home;

static inline void tiny_begin(tiny_home *h, size_t threads)
{
    pare_ctx_init(&h->cx);
    h->arena = (pare_arena){.cx = &h->cx};
    ck_assert_int_eq(pare_pool_new(&h->cx, threads, &h->cx.pool), PARE_OK);
}

static inline void tiny_end(tiny_home *h)
{
    pare_arena_release(&h->arena);
    pare_pool_free(&h->cx, h->cx.pool);
    ck_assert_uint_eq(h->cx.live_bytes, 0);
}

#endif
