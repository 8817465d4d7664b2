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

/* Kind of the linears of the blocks; embedding and head are F32, F16 or BF16 likewise (F16 for the
 * packed ones). */
typedef struct tiny_kind {
    pare_dtype dtype;
    unsigned bits; /* 0: dense of dtype */
    size_t group;  /* packed: 0 is per row */
    bool zeros;
} tiny_kind;

static const tiny_kind tiny_kinds[] = {
    {PARE_F32, 0, 0, false},  {PARE_F16, 0, 0, false},  {PARE_BF16, 0, 0, false},
    {PARE_F16, 4, 32, true},  {PARE_F16, 8, 64, false}, {PARE_F16, 3, 0, true},
    {PARE_F16, 2, 32, false},
};
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

static inline pare_linear tiny_packed(pare_arena *a, tiny_kind kind, uint64_t stream, size_t n,
                                      size_t k)
{
    const size_t n16 = pare_round_up(n, PARE_PAD_N), k32 = pare_round_up(k, PARE_ATOM_K);
    const size_t group = kind.group ? kind.group : k32, groups = (k32 + group - 1) / group;
    const unsigned most = (1u << kind.bits) - 1, middle = 1u << (kind.bits - 1);
    uint8_t *const codes = tiny_take(a, n * k, 1);
    uint8_t *const packed = tiny_take(a, n16 / 8 * (k32 / 32), pare_atom_bytes(kind.bits));
    uint8_t *const row_zeros = tiny_take(a, n * groups, 1);
    uint16_t *const scales = tiny_take(a, n16 * groups, sizeof *scales);
    uint8_t *const zeros = tiny_take(a, n16 * groups, 1);
    for (size_t i = 0; i < n * k; i++)
        codes[i] = (uint8_t)(pare_random_u64(8, stream, i) % (most + 1));
    for (size_t r = 0; r < n; r++)
        for (size_t g = 0; g < groups; g++) {
            const size_t at = (r / 8 * groups + g) * 8 + r % 8;
            const float scale =
                (float)((1 + pare_random_unit(9, stream, at)) * 2 / most / sqrt((double)k));
            const unsigned shift = kind.zeros ? (unsigned)(at % 2) : 0;
            a->cx->kernels.cvt_f32_f16(&scales[at], &scale, 1);
            zeros[at] = row_zeros[r * groups + g] = (uint8_t)(middle - shift);
        }
    pare_pack_codes(packed, codes, k, n, k, kind.bits, row_zeros, groups, (uint8_t)middle);
    return (pare_linear){.name = "tiny",
                         .n = n,
                         .k = k,
                         .bits = kind.bits,
                         .activation = {.bits = 8},
                         .panel = {.codes = packed,
                                   .scales = scales,
                                   .zeros = kind.zeros ? zeros : NULL,
                                   .n = n16,
                                   .k = k32,
                                   .group = group}};
}

static inline float *tiny_ones(pare_arena *a, uint64_t stream, size_t n)
{
    float *const w = tiny_take(a, n, sizeof *w);
    for (size_t i = 0; i < n; i++)
        w[i] = (float)(0.5 + pare_random_unit(10, stream, i));
    return w;
}

/* The model, in the arena; the same weights for the same kind. */
static inline pare_model tiny_model(pare_arena *a, tiny_kind kind)
{
    pare_model m = {.config = {.hidden = 44,
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
    const size_t shape[PARE_ROLES][2] = {{q, c->hidden},
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
        for (size_t r = 0; r < PARE_ROLES; r++) {
            const uint64_t stream = b * 20 + r;
            m.block[b].linear[r] =
                kind.bits ? tiny_packed(a, kind, stream, shape[r][0], shape[r][1])
                          : tiny_dense(a, kind.dtype, stream, shape[r][0], shape[r][1]);
        }
        m.block[b].linear[PARE_ROLE_Q].bias = tiny_ones(a, b * 20 + 10, q);
        m.block[b].attention_norm = tiny_ones(a, b * 20 + 11, c->hidden);
        m.block[b].mlp_norm = tiny_ones(a, b * 20 + 12, c->hidden);
    }
    return m;
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
