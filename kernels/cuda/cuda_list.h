// clang-format off
/* kernels/cuda/cuda_list.h - the kernels for NVIDIA GPUs and what each is given: one row per
 * kernel, X(name, members of its argument). Kernel NAME is the entry pare_NAME_cuda and has one
 * parameter, the struct pare_cuda_NAME by value, so that host and device read one definition.
 *
 * Pointers are addresses of the device, which the host never follows. Matrices are row-major f32.
 * What a kernel computes is what the reference of its name does (kernels.h, runtime/ops.h,
 * runtime/attention.c, runtime/route.c), to the bit; a NaN may be another NaN. Sizes may be 0.
 *
 * embed      y[i] = row tokens[i] of w [.., width] times scale (0: none), plus row
 *            first + i % length of `positions` where there are such
 * norm       y[i] = norm(x[i]) (+ bias), [rows, width], rows being pieces; y may be x
 * add        y = a + b; y may be a or b
 * activate   y = act(gate) up, or act(gate) where up is NULL; y may be gate; act as pare_act
 * round      rows of x rounded to int8 each
 * rows       y[i] = x[row[i step]]
 * scatter    y[visit[i].row] += visit[i].weight x[i]; rows of visits differ
 * share      y[i] = sigmoid(gate[i]) x[i]; y may be x
 * cap        x = cap tanh(x / cap)
 * hadamard   `runs` runs of n values, n a power of two
 * mix        rows of m n values, c [m, m]
 * rope       rotates `heads` heads of each row of x by the tables [positions][half]; row i has
 *            the position start + i % length
 * kv_put     rotated keys and values of a batch into an F32 cache
 * kv_round   x[i] = the F16 number nearest to it
 * kv_store   codes of the tokens of a batch that leave the window: of keys, of values
 * kv_keep    tokens first .. first + count - 1 of a batch become F16: that of token t in slot
 *            t % slots of a plane
 * attend_64, attend_128  attention over a cache of any kind (runtime/attention.c); channels of a
 *            block of threads
 * attend_scores, attend_weigh, attend_values  the same one behind the other, for few queries
 * quant_x8   integer activations of m tokens in rows of k rounded up to 32 codes; skip [k]:
 *            columns that count as 0, or NULL. fixed > 0: the step of quant_x8_fixed
 * columns    y[t, c] = x[t, column[c]]
 * gemm_x8_*  y[t, r], r below n; y += where `add`. Codes of x lie in rows for 2:4 weights, too.
 *            For up to PARE_CUDA_X8_FEW tokens the products of mates, too, without `add`.
 *            gemm_x8_many_* the same where pare_cuda_x8_many
 * gemm_f32_* the same of floats. uniform, table, book, binary, super: of codes as dequant_* of that
 *            name decode them (uniform: dequant_f32), for 1 to 8 tokens; k as in x
 * f16_rows   rows of k values as F16 times a power of two, behind them zeros up to ldy, a multiple of
 *            8: x = scale[row] y, |y| < 2^15
 * gemm_f16   y[t, r] = x_scale[t] w_scale[r] sum of x[t, j] w[r, j], j below k; w_scale NULL: 1.
 *            k, ldx and ldw are multiples of 8, x and w of 16 bytes. Sums of F32 in an order that
 *            the tensor cores choose within 16 columns
 * gemm_f16_q2 .. q8, t2, e2m1, e4m3, s4, s8, s16
 *            the same of uniform and ternary codes, of floats of 4 and 8 bits, of 2:4 weights of codes
 *            and of F16 (w.ldv a multiple of 8); x has w.k columns rounded up to 64, 0 behind the last.
 *            gemm_f16_many_* the same for many tokens
 * gemm_sparse_f32 y += single weights times x
 * bias       y[t] += bias
 * dequant_*  rows of a panel; level on the device. fp8 is dequant_table with the levels of E4M3;
 *            dequant_24 has 4, 8 or 16 bits
 * outliers_f16, outliers_q8, singles
 *            what lies apart from the codes, into its places of dst [rows, ldd] (`singles` adds);
 *            value [rows, count] or a panel of 8 bits, CSR
 * route      p of each row, the `used` largest, their weights (runtime/route.c); logit is
 *            overwritten
 * score      of each row the largest value, sum of e^(x - largest), x[target], index of the
 *            largest
 * divergence of each row what pare_divergence takes its logarithms of. exl3: cuda_exl3.h */
// clang-format on
#ifndef PARE_KERNELS_CUDA_LIST_H
#define PARE_KERNELS_CUDA_LIST_H

#include "kernels/cuda/cuda_exl3.h"
#include "kernels/kernels.h"

#ifdef __CUDACC__
#define PARE__CUDA_BOTH __host__ __device__
#else
#define PARE__CUDA_BOTH
#endif

enum { PARE_CUDA_F32, PARE_CUDA_F16, PARE_CUDA_BF16 }; /* types of dense weights */

/* A row that an expert runs. */
typedef struct pare_cuda_visit {
    uint32_t row;
    float weight;
} pare_cuda_visit;

/* Keys or values of a coded cache (pare_kv_side). */
typedef struct pare_cuda_side {
    uint8_t *codes;          /* [planes][room] rows of pare_kv_row_bytes */
    uint16_t *scales, *lows; /* [planes][lines][entries]; lows NULL: symmetric, 8 bits */
    uint16_t *sink, *recent; /* [planes][sink or slots][head_dim] */
    const float *levels;     /* [8], or NULL */
    const uint16_t *fixed_scale, *fixed_low; /* [kv_heads][head_dim] where tokens is 0 */
    uint64_t room, lines, entries;
    uint32_t bits, group, tokens; /* tokens that share scales; 0: all, the fixed ones */
    uint32_t step;                /* tokens leave the window so many at a time */
} pare_cuda_side;

/* The cache of one block (pare_kv); FLOAT: keys and values, else they are NULL. */
typedef struct pare_cuda_kv {
    float *keys, *values;
    pare_cuda_side key, value;
    uint64_t capacity, slots, window, sink;
} pare_cuda_kv;

/* Of the first `length` tokens, how many are coded (pare_kv_coded). */
PARE__CUDA_BOTH static inline uint64_t pare_cuda_coded(const pare_cuda_kv *kv,
                                                       const pare_cuda_side *side, uint64_t length)
{
    const uint32_t step = side->step ? side->step : 1;
    if (!kv->window)
        return length;
    return length > kv->window ? (uint32_t)(length - kv->window) / step * step : 0;
}

/* A batch and its heads. k, v [sequences length, kv_heads head_dim]. */
typedef struct pare_cuda_batch {
    const float *k, *v;
    uint64_t sequences, length, start, kv_heads, head_dim;
} pare_cuda_batch;

/* Attention of the KV heads plane .. plane + planes - 1 of all sequences. q, y [sequences length,
 * heads head_dim]; cosine, sine: tables for keys that lie as they are before RoPE, else NULL.
 * For few queries: positions base .. base + ld - 1, both multiples of PARE_CUDA_KV, are all that
 * any of them sees; what a kernel leaves for the next, a row being a query of a head. */
typedef struct pare_cuda_attention {
    pare_cuda_kv kv;
    pare_cuda_batch b;
    const float *q, *cosine, *sine;
    float *y;
    uint64_t heads, half, window, plane, planes, base, ld;
    double cap, scale;
    float *scores;  /* [planes][rows][ld], then weights */
    float *shrink;  /* [planes][rows][ld / PARE_CUDA_KV] */
    float *inverse; /* [planes][rows] of the sum of weights */
} pare_cuda_attention;

/* Of a part of a row: its largest value and the first index of it in the row. */
typedef struct pare_cuda_part {
    float most;
    uint32_t at;
} pare_cuda_part;

/* Of one row: the largest of its values, the sum of e^(x - largest), the value at `target`. */
typedef struct pare_cuda_row_score {
    double largest, total, at;
    uint64_t best; /* index of the first largest */
} pare_cuda_row_score;

/* largest0, total0: of base; part: sum of e^(base - largest0) (base - logit). */
typedef struct pare_cuda_row_divergence {
    double largest0, total0, largest, total, part;
} pare_cuda_row_divergence;

/* Another product of the same inputs and the same kind of weights; n 0: there is none. */
typedef struct pare_cuda_mate {
    pare_panel w;
    float *y;
    uint64_t ldy, n;
} pare_cuda_mate;

// clang-format off
#define PARE__CUDA_GEMM_X8                                                                         \
    pare_x8 x; pare_panel w; float *y; uint64_t ldy, n; uint32_t add; pare_cuda_mate mate[2];
#define PARE__CUDA_GEMM(type)                                                                      \
    const float *x; const type *w; float *y; uint64_t ldx, ldw, ldy, m, n, k; uint32_t add;
#define PARE__CUDA_GEMM_F16                                                                        \
    const uint16_t *x; const float *x_scale; pare_panel w; float *y; uint64_t ldx, ldy, m, n;
#define PARE__CUDA_CODES                                                                           \
    const float *x; float *y; pare_panel w; const float *level; uint64_t ldx, ldy, m, n, k; uint32_t bits;
#define PARE__CUDA_DEQUANT float *dst; uint64_t ldd; pare_panel w; const float *level; uint32_t bits;

#define PARE__CUDA_X8(X, name)                                                                     \
    X(name##q2, PARE__CUDA_GEMM_X8) X(name##q3, PARE__CUDA_GEMM_X8) X(name##q4, PARE__CUDA_GEMM_X8)\
    X(name##q8, PARE__CUDA_GEMM_X8) X(name##t2, PARE__CUDA_GEMM_X8) X(name##s4, PARE__CUDA_GEMM_X8)\
    X(name##s8, PARE__CUDA_GEMM_X8)
#define PARE__CUDA_F16_CODES(X, name)                                                              \
    X(name##q2, PARE__CUDA_GEMM_F16) X(name##t2, PARE__CUDA_GEMM_F16)                              \
    X(name##q3, PARE__CUDA_GEMM_F16) X(name##q4, PARE__CUDA_GEMM_F16)                              \
    X(name##q8, PARE__CUDA_GEMM_F16) X(name##e2m1, PARE__CUDA_GEMM_F16)                            \
    X(name##e4m3, PARE__CUDA_GEMM_F16)

#define PARE_CUDA_KERNELS(X)                                                                       \
    X(embed, const int32_t *tokens; const void *w, *positions; float *y;                           \
             uint64_t rows, width, length, first; uint32_t type, positions_type; float scale;)     \
    X(norm, const float *x, *w, *bias; float *y; uint64_t rows, width; double eps; uint32_t layer;)\
    X(add, const float *a, *b; float *y; uint64_t n;)                                              \
    X(activate, const float *gate, *up; float *y; uint64_t n; uint32_t act;)                       \
    X(round, float *x; uint64_t rows, width;)                                                      \
    X(rows, const float *x; const uint32_t *row; float *y; uint64_t rows, width, step;)            \
    X(scatter, const float *x; const pare_cuda_visit *visit; float *y; uint64_t rows, width;)      \
    X(share, const float *gate, *x; float *y; uint64_t rows, width;)                               \
    X(cap, float *x; uint64_t n; double cap;)                                                      \
    X(hadamard, float *x; uint64_t runs, n; float scale;)                                          \
    X(mix, float *x; const float *c; uint64_t rows, n, m;)                                         \
    X(rope, float *x; const float *cosine, *sine;                                                  \
            uint64_t rows, heads, head_dim, half, length, start;)                                  \
    X(kv_put, pare_cuda_kv kv; pare_cuda_batch b;)                                                 \
    X(kv_round, float *x; uint64_t n;)                                                             \
    X(kv_store, pare_cuda_kv kv; pare_cuda_batch b;)                                               \
    X(kv_keep, const float *x; uint16_t *dst;                                                      \
               uint64_t slots, first, count, sequences, length, start, kv_heads, head_dim;)        \
    X(attend_64, pare_cuda_attention call;) X(attend_128, pare_cuda_attention call;)               \
    X(attend_scores, pare_cuda_attention call;) X(attend_weigh, pare_cuda_attention call;)         \
    X(attend_values, pare_cuda_attention call;)                                                    \
    X(quant_x8, const float *x; const uint8_t *skip; int8_t *codes; float *scales; int32_t *sums;  \
                uint64_t ldx, m, k, group, span; float fixed; int32_t top;)                        \
    X(columns, const float *x; const uint32_t *column; float *y; uint64_t ldx, rows, count;)       \
    PARE__CUDA_X8(X, gemm_x8_)                                                                     \
    PARE__CUDA_X8(X, gemm_x8_many_)                                                                \
    X(gemm_f32_f32, PARE__CUDA_GEMM(float))                                                        \
    X(gemm_f32_f16, PARE__CUDA_GEMM(uint16_t))                                                     \
    X(gemm_f32_bf16, PARE__CUDA_GEMM(uint16_t))                                                    \
    X(gemm_f32_uniform, PARE__CUDA_CODES) X(gemm_f32_table, PARE__CUDA_CODES)                      \
    X(gemm_f32_book, PARE__CUDA_CODES) X(gemm_f32_binary, PARE__CUDA_CODES)                        \
    X(gemm_f32_super, PARE__CUDA_CODES)                                                            \
    X(f16_rows, const void *x; uint16_t *y; float *scale; uint64_t ldx, ldy, rows, k; uint32_t type;)\
    X(gemm_f16, const uint16_t *x, *w; const float *x_scale, *w_scale; float *y;                   \
                uint64_t ldx, ldw, ldy, m, n, k;)                                                  \
    PARE__CUDA_F16_CODES(X, gemm_f16_)                                                             \
    PARE__CUDA_F16_CODES(X, gemm_f16_many_)                                                        \
    X(gemm_f16_s4, PARE__CUDA_GEMM_F16) X(gemm_f16_s8, PARE__CUDA_GEMM_F16)                        \
    X(gemm_f16_s16, PARE__CUDA_GEMM_F16)                                                           \
    X(gemm_sparse_f32, const float *x; const uint32_t *start, *column; const uint16_t *value;      \
                       float *y; uint64_t ldx, ldy, m, n;)                                         \
    X(bias, float *y; const float *bias; uint64_t rows, width;)                                    \
    X(dequant_f32, PARE__CUDA_DEQUANT) X(dequant_table, PARE__CUDA_DEQUANT)                        \
    X(dequant_book, PARE__CUDA_DEQUANT) X(dequant_binary, PARE__CUDA_DEQUANT)                      \
    X(dequant_super, PARE__CUDA_DEQUANT)                                                           \
    X(dequant_24, PARE__CUDA_DEQUANT)                                                              \
    X(dequant_mask, float *dst; uint64_t ldd; pare_mask w;)                                        \
    X(outliers_f16, float *dst; const uint32_t *column; const uint16_t *value;                     \
                    uint64_t ldd, rows, count;)                                                    \
    X(outliers_q8, float *dst; const uint32_t *column; pare_panel w; uint64_t ldd, rows, count;)   \
    X(singles, float *dst; const uint32_t *start, *column; const uint16_t *value;                  \
               uint64_t ldd, rows;)                                                                \
    X(route, float *logit; uint32_t *picked; float *weight;                                        \
             uint64_t rows, experts, used; uint32_t norm;)                                         \
    X(score_parts, const float *logit; pare_cuda_part *part; uint64_t rows, width;)                \
    X(score_sums, const float *logit; const pare_cuda_part *part; float *sums;                     \
                  uint64_t rows, width;)                                                           \
    X(score, const float *logit; const int32_t *target; const pare_cuda_part *part;                \
             const float *sums; pare_cuda_row_score *score; uint64_t rows, width;)                 \
    X(divergence, const float *base, *logit; pare_cuda_row_divergence *sums;                      \
                  uint64_t rows, width;)                                                           \
    PARE__CUDA_EXL3(X)
// clang-format on

#define PARE__CUDA_ARGUMENT(name, ...)                                                             \
    typedef struct pare_cuda_##name {                                                              \
        __VA_ARGS__                                                                                \
    } pare_cuda_##name;
PARE_CUDA_KERNELS(PARE__CUDA_ARGUMENT)

#endif
