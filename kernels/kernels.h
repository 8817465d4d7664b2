/* kernels/kernels.h - the table of inner loops, filled for one set of CPU features.
 *
 * A kernel takes raw pointers and element counts, never allocates, never fails and never logs.
 * The reference in kernels/ref/ defines what each kernel computes; README.md has the name grammar.
 *
 * Formulas (all indices from 0, matrices row-major); those of a step of training in optimizer.h:
 *
 *   cvt_*        element-wise; f32 to f16, bf16: half to even, overflow is infinity, NaN stays one.
 *
 *   gemm_f32_T   y[t, r] = sum over j of x[t, j] w[r, j],  x [m, k], w [n, k] of type T, y [m, n].
 *                The sum has eight lanes: lane l takes j = l, l + 8, l + 16, ... in this order,
 *                each step lane = fma(x, w, lane) from 0; then
 *                ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)).
 *                So one output does not depend on m, n or on the tiling.
 *
 *   gemm_bf16_bf16  y[t, r] = sum over j of x[t, j] w[r, j], all BF16 but y, as tiles of AMX do it:
 *                k is filled with zeros to a multiple of 32, y = 0; for each 32 columns even =
 *                fma(x, w, even) over columns 0, 2, .. 30 from 0, odd over 1, 3, .. 31, y = y +
 *                (even + odd). What is below 2^-126, results as rounded to 24 bits, counts as 0.
 *
 *   gemm_panels_T  c[i, j] = c[i, j] + s, s = 0, s = fma(a[i, p], b[p, j], s) for p = 0 .. k - 1 in
 *                order, c [m, n]. a lies in panels of PARE_PANEL_ROWS rows, b of PARE_PANEL_BYTES
 *                of columns, p by p; the last ones are whole.
 *
 *   quant_x8     integer activations of one token, codes -top .. top: top 127 or 7. Each `span` of
 *                consecutive values has a scale: a = max |x|, scale = a / top,
 *                code = clamp(rint(x * (top / a)), -top, top). Scale and sum of the codes are
 *                written per `group` of values (multiple of 32; span is a multiple of group or
 *                covers k; the last group may be shorter). a = 0 or top / a infinite: scale 0,
 *                codes 0. codes has k rounded up to 32 entries, the tail 0. A NaN makes the scale
 *                NaN and the codes 0, so that every output becomes NaN; an infinity makes the scale
 *                infinite and is the code top.
 *   quant_x8_fixed  the same with scale = step for all: code = clamp(rint(x * (1 / step))). A value
 *                that is not finite makes all scales NaN and the codes 0; 1 / step infinite: scale
 *                0, codes 0.
 *
 *   gemm_x8_qB   y[t, r] for B-bit weights: acc = 0; for each activation group b in order:
 *                d = sum over k in b of (u[r, k] - z[r, g]) * x[t, k]  in int32,
 *                acc = fma((float)d, scale[r, g] * xscale[t, b], acc),  g = weight group of b;
 *                y = acc. Weight groups are multiples of activation groups, or one covers k. An
 *                activation group is at most PARE_X8_GROUP_MAX: 255 * 127 * 65536 < 2^31.
 *   gemm_x8_t2   the same for ternary weights: 2-bit codes, z = 1 whatever w->zeros says.
 *
 *   gemm_x8_s4, gemm_x8_s8   the same as gemm_x8_q4 and gemm_x8_q8 without zeros, of 2:4 weights:
 *                pare_panel says how they lie. The codes of x lie in tiles (pare_x24_at), for s4
 *                with their highest bit flipped: code + 128, unsigned. sums are not read.
 *
 *   gemm_sparse_f32  y[t, r] = fma(x[t, column[i]], value[i], y[t, r]) for i = start[r] ..
 *                start[r + 1] - 1 in this order. value is f16.
 *
 *   kv_decode    dst[t, c] = fma(level(code[t, c]), scale, low), scale and low of token t and
 *                channel c: scales[t ld + c / group]; level(code) = levels[code], or without
 *                levels the code itself, less 128 when it has 8 bits.
 *   kv_mix       y[t, c] = fma(p[t, j], v[j, c], y[t, c]) for j = 0, 1, .. in this order.
 *   dequant_f32  dst[r, k] = (float)(u - z) * scale, r below w->n, k below w->k; ldd >= w->k.
 *   dequant_table   dst[r, k] = level[u] * scale, level [2^bits], 2 bits, or 4: group may be 16.
 *   dequant_fp8     dst[r, k] = pare_levels_e4m3[u] * scale, 8 bits; finite scales.
 *   dequant_book    dst[r, k] = book[r][u], 3 or 4 bits; no scales.
 *   dequant_binary  with bit 0 and bit 1 of the 2-bit code u, + for 1 and - for 0, and the
 *                magnitudes small, large, first, second of row and group: columns that are not
 *                salient are (bit 0) (bit 1 ? large : small), salient ones (bit 0) first +
 *                (bit 1) second.
 *
 *   dequant_super   a group is cut into sub-blocks, each with bytes of its own. 4 bits, 32 columns:
 *                dst[r, k] = (scale s) u - (minimum o); 6 bits, 16 columns: (scale s) (u - 32), s
 *                in two's complement. Every product is exact in F32.
 *   dequant_exl3    dst[r, k] = the value of the state of the weight (exl3.h), w->n a multiple of
 *                16.
 *   dequant_24   dst[r, k] of 2:4 weights, 0 where there is none: of 4 or 8 bits as dequant_f32
 *                without zeros, of 16 bits the value of the place.
 *   dequant_mask dst[r, j] = (bit j of row r) ? the next value of row r : 0, r < w->n, j < w->k.
 *
 *   exl3_step    a step of the search of a path through the trellis of exl3.h, i < 2^(16 - bits):
 *                after[i] = the least of fma(d, d, before[t 2^(16 - 2 bits) + i / 2^bits]), where
 *                d = x - value[t 2^(16 - bits) + i], t < 2^bits; from[i] = the first t with it.
 *
 *   gemv_packed  y[r] = sum over j < k of x[j] w[r, j] as gemm_f32_f32 of one token, r below w->n,
 *                w[r, j] as the dequant kernel that `how` names decodes it; k at most w->k.
 *   gemv_24      the same for 2:4 weights of 16 bits, w[r, j] as dequant_24 decodes it.
 *   gemv_mask    the same for weights with a mask, j below w->k.
 *
 *   hadamard_f32 n a power of two; for h = 1, 2, 4, ... n / 2 every pair (x[i], x[i + h]) whose i
 *                has bit h clear becomes (x[i] + x[i + h], x[i] - x[i + h]); then x = x * scale.
 *   mix_f32      x [m, n] = c [m, m] x in place, m at most 63: acc = 0; for d = 0, 1, ... in order
 *                acc = fma(c[b, d], x[d, j], acc); new x[b, j] = acc.
 *   e(x)         e^x in F32: x is clamped to -87 .. 87, k = rint(x / ln 2), r = x - k ln 2 in two
 *                fused steps, 2^k times the Taylor polynomial of degree 7 of e^r, by fused steps;
 *                relative error below 4e-7. A NaN stays one.
 *
 *   softmax_f32  the next block of a row, n at least 1: m = max(*max, x[0], ..., x[n - 1]) (a NaN
 *                is never largest); x[i] = e((x[i] - m) * scale); returns c, by which what was
 *                gathered before shrinks: 1 when *max == m, else e((*max - m) * scale);
 *                *total = fma(*total, c, sum of x) in double, the sum itself in F32 in the lanes
 *                of gemm_f32; *max = m. Before the first block *max is -infinity and *total 0.
 *   silu_f32     y[i] = y[i] / (1 + e(-y[i])) * up[i].
 *   silu_back_f32  s = 1 / (1 + e(-gate[i])): dup[i] += d[i] (gate[i] s),
 *                dgate[i] += d[i] up[i] (s (1 + gate[i] (1 - s))).
 *   transpose_f32  dst[j, i] = src[i, j],  src [m, n].
 *
 *   range_f32    *lo = min(0, x[0], ..), *hi = max(0, x[0], ..), a zero being +0; true. When one is
 *                NaN or infinite, both are 0; false.
 *   round_codes  codes[i] = pare_grid_code(bits, x[i], scale, zero) of kernels/grid_code.h, bits at
 *                most 8.
 *   clip_cost    sum of weight[i] * e^2, or of |e|^2.4 where weight is NULL, with
 *                e = (w[i] - value) / range, value = (code - zero) * scale and the code of
 *                round_codes: 64 weights at a time in eight F32 lanes (i mod 8), the lanes in
 *                order in double; or `enough` where the sum is not below it. Finite; weight >= 0.
 *   error_sums   wrong = sum of (w[i] - q[i])^2, all = sum of whole[i]^2, in double: lane l of
 *                eight takes i = l, l + 8, ... in this order, each step lane = lane + square,
 *                rounded apart; then the lanes in order, from 0. nonzero counts q[i] that are not
 *                0. whole may be w, which is then read once. */
#ifndef PARE_KERNELS_KERNELS_H
#define PARE_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernel_list.h"
#include "kernels/kv_tile.h"
#include "kernels/optimizer.h"
#include "kernels/refine_steps.h"

enum {
    PARE_PANEL_ROWS = 6,
    PARE_PANEL_BYTES = 64, /* 16 floats or 8 doubles */
    PARE_X8_GROUP_MAX = 65536,
    PARE_X24_TILE = 8, /* tokens whose codes lie side by side for 2:4 weights */
    PARE_MIX_MAX = 63  /* rows of mix_f32 */
};

enum {
    PARE_CPU_AVX2 = 1u << 0,    /* AVX2 + FMA + F16C, always together */
    PARE_CPU_AVXVNNI = 1u << 1, /* sums of 4 products of u8 x s8, 256 bits */
    PARE_CPU_AVX512 = 1u << 2,  /* AVX-512 F + BW + DQ + VL + VNNI, always together */
    PARE_CPU_NEON = 1u << 3,    /* of AArch64 */
    PARE_CPU_DOTPROD = 1u << 4,
    PARE_CPU_I8MM = 1u << 5,
    PARE_CPU_AMX = 1u << 6, /* AMX tiles of BF16 and int8, always together */
};

/* What can be asked for by name. */
typedef struct pare_cpu_level {
    const char *name;
    unsigned cpu; /* PARE_CPU_* bits that it needs and uses */
} pare_cpu_level;

enum { PARE_CPU_LEVELS = 8 };

/* ref, avx2, avxvnni, avx512, amx, neon, dotprod, i8mm: better ones of a processor last. */
extern const pare_cpu_level pare_cpu_levels[PARE_CPU_LEVELS];

/* Quantized activations of m tokens. `k` is the padded width (multiple of 32), `group` the
 * activation group; there are ceil(k / group) groups. sums[t, b] = sum of the codes of the group.
 */
typedef struct pare_x8 {
    const int8_t *codes; /* [m, k] */
    const float *scales; /* [m, ceil(k / group)] */
    const int32_t *sums; /* [m, ceil(k / group)] */
    size_t m, k, group;
} pare_x8;

/* Where code j of token t of m lies for 2:4 weights: 8 codes of each token of a tile follow each
 * other, then the next 8. The last tile may have fewer tokens; tile i begins at byte
 * PARE_X24_TILE i k. */
static inline size_t pare_x24_at(size_t m, size_t k, size_t t, size_t j)
{
    const size_t first = t / PARE_X24_TILE * PARE_X24_TILE;
    const size_t tile = m - first < PARE_X24_TILE ? m - first : PARE_X24_TILE;
    return first * k + (j / 8 * tile + t - first) * 8 + j % 8;
}

/* Packed weights of `n` rows (multiple of 8), `k` padded columns (multiple of 32), in the R8K32
 * layout of kernels/layout.h. `group` weights of a row share a scale (multiple of 32; k: per row;
 * 16: two an atom, tables of 4 bits). zeros NULL is symmetric: each zero point is 2^(bits - 1). */
typedef struct pare_panel {
    const uint8_t *codes;
    const uint16_t *scales; /* f16, [n / 8][groups][8] */
    const uint8_t *zeros;   /* [n / 8][groups][8], or NULL */
    const uint16_t *book;   /* f16: codebooks [n][2^bits], or magnitudes [n / 8][groups][8][4] */
    const uint8_t *salient; /* [k] 0 or 1: columns with the second pair of magnitudes, or NULL */
    size_t n, k, group;
    const uint16_t *minima; /* f16, as scales: of super-blocks of 4 bits, or NULL */
    const uint8_t *sub;     /* [n / 8][k / 32][2][8]: s and o, or s of both halves, or NULL */
    const uint8_t *indices; /* 2:4 (below), or NULL */
    const uint16_t *values; /* 2:4 of 16 bits: f16 [n][kept], rows ldv apart; codes NULL */
    size_t ldv;
} pare_panel;

/* 2:4: of each 4 columns of a row two have a place, so a row has kept = k rounded up to 64, halved,
 * places: 2 g and 2 g + 1 belong to columns 4 g .. 4 g + 3. codes are those of the places, R8K32
 * over kept; indices says which column it is: 0 .. 3, ascending in a pair, as 2-bit R8K32 over
 * kept. `group` counts columns. Places behind k are 0. */
static inline size_t pare_24_kept(size_t k)
{
    return (k + 63) / 64 * 32;
}

/* Weights of which only some are stored: bit j % 8 of byte j / 8 of a row of `bits` tells that
 * column j is; values follow each other, those of row r are start[r] .. start[r + 1] - 1, as many
 * as its bits. */
typedef struct pare_mask {
    const uint8_t *bits; /* [n][(k + 7) / 8] */
    const size_t *start; /* [n + 1] */
    const uint16_t *value;
    size_t n, k; /* any; no padding */
} pare_mask;

/* What packed codes stand for: the dequant kernel of that name. */
typedef enum pare_decoding {
    PARE_DECODE_F32,
    PARE_DECODE_TABLE,
    PARE_DECODE_FP8,
    PARE_DECODE_BOOK,
    PARE_DECODE_BINARY,
    PARE_DECODE_SUPER,
    PARE_DECODE_EXL3
} pare_decoding;

/* What rounding w to q costs (error_sums). */
typedef struct pare_error_sum {
    double wrong, all;
    uint64_t nonzero;
} pare_error_sum;

typedef struct pare_kernels {
#define X(name, ret, params, cls) ret(*name) params;
    PARE_KERNEL_LIST(X)
#undef X
} pare_kernels;

/* Features of the running CPU, as PARE_CPU_* bits. */
unsigned pare_cpu_detect(void);

/* Name of the best level whose bits are all in `cpu`, for messages and reports. Static storage. */
const char *pare_cpu_name(unsigned cpu);

/* Fills *k: reference first, then every faster version that `cpu` allows. Pure: no globals. */
void pare_kernels_init(pare_kernels *k, unsigned cpu);

#endif
