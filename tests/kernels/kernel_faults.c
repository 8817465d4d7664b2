/* Wrong kernels, each wrong in one way that kernels have been wrong before. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/kernels_internal.h"
#include "kernels/layout.h"
#include "tests/kernels/kernel_test.h"

static void f16_without_subnormals(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = src[i] & 0x7c00u ? pare_f16_to_f32(src[i]) : 0.0f;
}

static void f16_quiet_nan_lost(float *dst, const uint16_t *src, size_t n)
{
    pare_cvt_f16_f32_ref(dst, src, n);
    for (size_t i = 0; i < n; i++)
        if (isnan(dst[i]))
            dst[i] = (float)NAN;
}

static void bf16_last_dropped(float *dst, const uint16_t *src, size_t n)
{
    pare_cvt_bf16_f32_ref(dst, src, n ? n - 1 : 0);
}

static void f16_truncated(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint16_t h = pare_f32_to_f16(src[i]);
        const int up = fabsf(pare_f16_to_f32(h)) > fabsf(src[i]);
        dst[i] = (uint16_t)(h - (up ? 1 : 0));
    }
}

static void f16_half_away(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = pare_f32_to_f16(pare_f32_from_bits(pare_f32_bits(src[i]) | 1u));
}

static void gemm_tail_dropped(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                              size_t ldw, size_t m, size_t n, size_t k)
{
    pare_gemm_f32_f32_ref(y, ldy, x, ldx, w, ldw, m, n, k % 8 == 1 ? k - 1 : k);
}

static void gemm_unfused(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                         size_t ldw, size_t m, size_t n, size_t k)
{
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++) {
            float l[8] = {0};
            for (size_t j = 0; j < k; j++)
                l[j % 8] += x[t * ldx + j] * pare_f16_to_f32(w[r * ldw + j]);
            y[t * ldy + r] = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
        }
}

static void gemm_other_order(float *y, size_t ldy, const float *x, size_t ldx, const uint16_t *w,
                             size_t ldw, size_t m, size_t n, size_t k)
{
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++) {
            float l[8] = {0};
            for (size_t j = 0; j < k; j++)
                l[j % 8] = fmaf(x[t * ldx + j], pare_bf16_to_f32(w[r * ldw + j]), l[j % 8]);
            y[t * ldy + r] = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
        }
}

static void gemm_writes_behind(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                               size_t ldw, size_t m, size_t n, size_t k)
{
    pare_gemm_f32_f32_ref(y, ldy, x, ldx, w, ldw, m, n, k);
    y[(m - 1) * ldy + n] = 0.0f;
}

/* Lanes behind the tail add 0, which turns -0 into +0. */
static void gemm_zero_sign_lost(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                                size_t ldw, size_t m, size_t n, size_t k)
{
    pare_gemm_f32_f32_ref(y, ldy, x, ldx, w, ldw, m, n, k);
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++)
            y[t * ldy + r] += 0.0f;
}

static void quant_half_away(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                            size_t group, size_t span, int32_t top)
{
    pare_quant_x8_ref(codes, scales, sums, x, k, group, span, top);
    for (size_t i = 0; i < k; i++) {
        const float inv = 1.0f / scales[i / group], q = roundf(x[i] * inv);
        if (scales[i / group] == 1.0f && fabsf(q) <= 127.0f)
            codes[i] = (int8_t)q;
    }
}

/* A NaN that a comparison passes over becomes a number. */
static void quant_nan_lost(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                           size_t group, size_t span, int32_t top)
{
    pare_quant_x8_ref(codes, scales, sums, x, k, group, span, top);
    for (size_t b = 0; b * group < k; b++)
        scales[b] = isnan(scales[b]) ? 1.0f : scales[b];
}

static void quant_padding_kept(int8_t *codes, float *scales, int32_t *sums, const float *x,
                               size_t k, size_t group, size_t span, int32_t top)
{
    int8_t kept[PARE_ATOM_K];
    const size_t tail = pare_round_up(k, PARE_ATOM_K) - k;
    memcpy(kept, codes + k, tail);
    pare_quant_x8_ref(codes, scales, sums, x, k, group, span, top);
    memcpy(codes + k, kept, tail);
}

/* Each group of a span by its own largest value. */
static void quant_span_ignored(int8_t *codes, float *scales, int32_t *sums, const float *x,
                               size_t k, size_t group, size_t span, int32_t top)
{
    (void)span;
    pare_quant_x8_ref(codes, scales, sums, x, k, group, group, top);
}

static void fixed_wide(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                       size_t group, float step, int32_t top)
{
    (void)top;
    pare_quant_x8_fixed_ref(codes, scales, sums, x, k, group, step, 127);
}

/* As code = rint(x / step): off where the rounded inverse decides a tie. */
static void fixed_divides(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                          size_t group, float step, int32_t top)
{
    pare_quant_x8_fixed_ref(codes, scales, sums, x, k, group, step, top);
    for (size_t i = 0; i < k; i++) {
        const float q = rintf(x[i] / step), most = (float)top;
        if (scales[i / group] == step && step > 0.0f && isfinite(1.0f / step) && fabsf(q) <= most)
            codes[i] = (int8_t)q;
    }
}

static void q2_one_scale(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    pare_panel one = *w;
    one.group = pare_round_up(w->k, x->group);
    if (w->n == PARE_ATOM_N)
        pare_gemm_x8_q2_ref(y, ldy, x, &one);
    else
        pare_gemm_x8_q2_ref(y, ldy, x, w);
}

static void q3_zero_points_left_out(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    pare_panel symmetric = *w;
    symmetric.zeros = NULL;
    pare_gemm_x8_q3_ref(y, ldy, x, &symmetric);
}

static void q4_last_token_dropped(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    pare_x8 fewer = *x;
    fewer.m = x->m % 4 == 3 ? x->m - 1 : x->m;
    pare_gemm_x8_q4_ref(y, ldy, &fewer, w);
}

static int32_t saturate(int32_t v)
{
    return v > 32767 ? 32767 : v < -32768 ? -32768 : v;
}

/* As if pairs of products of unsigned 8-bit codes were added in 16 bits. */
static void q8_saturating(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    const size_t groups = (w->k + w->group - 1) / w->group,
                 xgroups = (x->k + x->group - 1) / x->group;
    for (size_t t = 0; t < x->m; t++)
        for (size_t r = 0; r < w->n; r++) {
            float acc = 0.0f;
            for (size_t b = 0, k = 0; b < xgroups; b++) {
                const size_t g = r / 8 * 8 * groups + k / w->group * 8 + r % 8;
                int32_t d = -(w->zeros ? w->zeros[g] : 128) * x->sums[t * xgroups + b];
                for (const size_t end = k + x->group; k < end && k < x->k; k += 2) {
                    const size_t at = r / 8 * 8 * w->k + k / 4 * 32 + r % 8 * 4 + k % 4;
                    const int8_t *const q = x->codes + t * x->k + k;
                    d += saturate((w->codes[at] ^ 0x80) * q[0] + (w->codes[at + 1] ^ 0x80) * q[1]);
                }
                acc =
                    fmaf((float)d, pare_f16_to_f32(w->scales[g]) * x->scales[t * xgroups + b], acc);
            }
            y[t * ldy + r] = acc;
        }
}

/* 64 products of a row added in 16 bits: too many for the code 3. */
static void t2_wraps(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    pare_gemm_x8_t2_ref(y, ldy, x, w);
    const size_t groups = (w->k + w->group - 1) / w->group,
                 xgroups = (x->k + x->group - 1) / x->group;
    for (size_t t = 0; t < x->m && xgroups == 1; t++)
        for (size_t r = 0; r < w->n; r++) {
            int32_t d = -x->sums[t];
            for (size_t l = 0; l < 2; l++) {
                int16_t s = 0;
                for (size_t k = 0; k < w->k; k++) {
                    const size_t atom = (r / 8 * (w->k / 32) + k / 32) * 64;
                    const size_t at = atom + k % 32 / 16 * 32 + r % 8 * 4 + k % 4;
                    if (k % 4 / 2 == l)
                        s = (int16_t)(s + (w->codes[at] >> k % 16 / 4 * 2 & 3) *
                                              x->codes[t * x->k + k]);
                }
                d += s;
            }
            const float scale = pare_f16_to_f32(w->scales[r / 8 * 8 * groups + r % 8]);
            y[t * ldy + r] = fmaf((float)d, scale * x->scales[t], 0.0f);
        }
}

static void t2_zero_points_read(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    pare_gemm_x8_q2_ref(y, ldy, x, w);
}

static void sparse_backwards(float *y, size_t ldy, const float *x, size_t ldx,
                             const uint32_t *start, const uint32_t *column, const uint16_t *value,
                             size_t m, size_t n)
{
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++)
            for (size_t i = start[r + 1]; i-- > start[r];)
                y[t * ldy + r] =
                    fmaf(x[t * ldx + column[i]], pare_f16_to_f32(value[i]), y[t * ldy + r]);
}

/* As if the sum were made first and added then. */
static void sparse_sum_first(float *y, size_t ldy, const float *x, size_t ldx,
                             const uint32_t *start, const uint32_t *column, const uint16_t *value,
                             size_t m, size_t n)
{
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++) {
            float sum = 0.0f;
            pare_gemm_sparse_f32_ref(&sum, 1, x + t * ldx, ldx, start + r, column, value, 1, 1);
            y[t * ldy + r] += sum;
        }
}

/* The levels of 16 read as if they were 8. */
static void table_high_half(float *dst, size_t ldd, const pare_panel *w, unsigned bits,
                            const float *level)
{
    float folded[16];
    for (size_t i = 0; i < 16 && i < (size_t)1 << bits; i++)
        folded[i] = level[i % 8];
    pare_dequant_table_ref(dst, ldd, w, bits, folded);
}

/* The scales of the first half of each atom for both; free what it returns. */
static uint16_t *first_halves(const pare_panel *w)
{
    const size_t groups = w->k / 16, bytes = w->n * groups * sizeof *w->scales;
    uint16_t *const scales = malloc(bytes);
    if (!scales)
        abort();
    memcpy(scales, w->scales, bytes);
    for (size_t i = 0; i < w->n * groups; i++)
        scales[i] = w->scales[i / 8 % 2 ? i - 8 : i];
    return scales;
}

static void table_first_half(float *dst, size_t ldd, const pare_panel *w, unsigned bits,
                             const float *level)
{
    pare_panel p = *w;
    uint16_t *const scales = pare_panel_has_halves(w) ? first_halves(w) : NULL;
    p.scales = scales ? scales : w->scales;
    pare_dequant_table_ref(dst, ldd, &p, bits, level);
    free(scales);
}

static void fp8_subnormals_lost(float *dst, size_t ldd, const pare_panel *w)
{
    pare_dequant_fp8_ref(dst, ldd, w);
    for (size_t r = 0; r < w->n; r++)
        for (size_t k = 0; k < w->k; k++) {
            const size_t at = r / 8 * 8 * w->k + k / 4 * 32 + r % 8 * 4 + k % 4;
            if (((w->codes[at] ^ 0x80) & 0x78) == 0)
                dst[r * ldd + k] = 0.0f;
        }
}

static void fp8_nan_is_480(float *dst, size_t ldd, const pare_panel *w)
{
    pare_dequant_fp8_ref(dst, ldd, w);
    for (size_t r = 0; r < w->n; r++)
        for (size_t k = 0; k < w->k; k++)
            if (isnan(dst[r * ldd + k]))
                dst[r * ldd + k] = 480.0f;
}

/* Every row by the book of the first. */
static void book_of_first_row(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    for (size_t r = 0; r < w->n; r += PARE_ATOM_N) {
        pare_panel block = *w;
        block.n = PARE_ATOM_N;
        block.codes += r / 8 * (w->k / 32) * pare_atom_bytes(bits);
        pare_dequant_book_ref(dst + r * ldd, ldd, &block, bits);
    }
}

static void binary_without_salient(float *dst, size_t ldd, const pare_panel *w)
{
    pare_panel plain = *w;
    plain.salient = NULL;
    pare_dequant_binary_ref(dst, ldd, &plain);
}

/* The minimum of 4 bits is added. */
static void super_minimum_added(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    pare_dequant_super_ref(dst, ldd, w, bits);
    const size_t groups = (w->k + w->group - 1) / w->group;
    for (size_t r = 0; bits == 4 && r < w->n; r++)
        for (size_t j = 0; j < w->k; j++) {
            const size_t g = (r / 8 * groups + j / w->group) * 8 + r % 8;
            const uint8_t o = w->sub[(r / 8 * (w->k / 32) + j / 32) * 16 + 8 + r % 8];
            dst[r * ldd + j] += 2 * (pare_f16_to_f32(w->minima[g]) * (float)o);
        }
}

/* The second 16 columns by the step of the first. */
static void super_first_half(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    pare_dequant_super_ref(dst, ldd, w, bits);
    const size_t groups = (w->k + w->group - 1) / w->group;
    uint8_t code[PARE_ATOM_N][PARE_ATOM_K];
    for (size_t r = 0; bits == 6 && r < w->n; r++)
        for (size_t j = 16; j < w->k; j += 32) {
            const size_t atom = r / 8 * (w->k / 32) + j / 32;
            const size_t g = (r / 8 * groups + j / w->group) * 8 + r % 8;
            const float step = pare_f16_to_f32(w->scales[g]) * (int8_t)w->sub[atom * 16 + r % 8];
            pare_unpack_atom(code, w->codes + atom * pare_atom_bytes(6), 6);
            for (size_t i = 0; i < 16; i++)
                dst[r * ldd + j + i] = step * (float)(code[r % 8][16 + i] - 32);
        }
}

static void dequant_last_column(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    pare_dequant_f32_ref(dst, ldd, w, bits);
    for (size_t r = 0; r < w->n; r++)
        dst[r * ldd + w->k - 1] = dst[r * ldd];
}

static void gemv_whole_atoms(float *y, const float *x, size_t k, const pare_panel *w,
                             pare_decoding how, unsigned bits, const float *level)
{
    pare_gemv_packed_ref(y, x, k / PARE_ATOM_K * PARE_ATOM_K, w, how, bits, level);
}

static void gemv_first_group(float *y, const float *x, size_t k, const pare_panel *w,
                             pare_decoding how, unsigned bits, const float *level)
{
    pare_panel p = *w;
    p.group = p.k;
    pare_gemv_packed_ref(y, x, k, &p, how, bits, level);
}

static void gemv_first_half(float *y, const float *x, size_t k, const pare_panel *w,
                            pare_decoding how, unsigned bits, const float *level)
{
    pare_panel p = *w;
    uint16_t *const scales = pare_panel_has_halves(w) ? first_halves(w) : NULL;
    p.scales = scales ? scales : w->scales;
    pare_gemv_packed_ref(y, x, k, &p, how, bits, level);
    free(scales);
}

/* Bytes of a plane of 2:4 weights, each atom of `atom` bytes, for a fault to change. */
static uint8_t *copy_of(const uint8_t *from, const pare_panel *w, size_t atom, size_t *bytes)
{
    *bytes = w->n / 8 * (pare_24_kept(w->k) / 32) * atom;
    uint8_t *const to = malloc(*bytes);
    if (!to)
        abort();
    return memcpy(to, from, *bytes);
}

/* As if every pair were the first two columns. */
static void s4_indices_ignored(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    size_t bytes;
    uint8_t *const indices = copy_of(w->indices, w, 64, &bytes);
    pare_panel p = *w;
    for (size_t i = 0; i < bytes; i++)
        indices[i] = i % 2 ? 0x55 : 0;
    p.indices = indices;
    pare_gemm_x8_s4_ref(y, ldy, x, &p);
    free(indices);
}

/* A tile of three tokens behind whole ones loses its last. */
static void s4_last_token_dropped(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    pare_gemm_x8_s4_ref(y, ldy, x, w);
    if (x->m % PARE_X24_TILE == 3)
        memset(y + (x->m - 1) * ldy, 0, w->n * sizeof *y);
}

/* The absolute value of -128 as a signed byte. */
static void s8_least_weight(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    size_t bytes;
    uint8_t *const codes = copy_of(w->codes, w, 256, &bytes);
    pare_panel p = *w;
    for (size_t i = 0; i < bytes; i++)
        codes[i] = (uint8_t)(codes[i] == 0x80 ? 0x81 : codes[i]);
    p.codes = codes;
    pare_gemm_x8_s8_ref(y, ldy, x, &p);
    free(codes);
}

/* What is behind the last whole atom left out. */
static void s8_half_atom_dropped(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    size_t bytes;
    uint8_t *const codes = copy_of(w->codes, w, 256, &bytes);
    pare_panel p = *w;
    for (size_t i = 0; i < bytes && w->k % 64; i++)
        if (i / 256 % (pare_24_kept(w->k) / 32) == w->k / 64)
            codes[i] = 0;
    p.codes = codes;
    pare_gemm_x8_s8_ref(y, ldy, x, &p);
    free(codes);
}

static void places_in_order(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    size_t bytes;
    uint8_t *const indices = copy_of(w->indices, w, 64, &bytes);
    pare_panel p = *w;
    for (size_t i = 0; i + 1 < bytes; i += 2)
        indices[i + 1] |= 0x01; /* the first of four pairs: column 2 becomes 3 */
    p.indices = indices;
    pare_dequant_24_ref(dst, ldd, &p, bits);
    free(indices);
}

static void mask_from_the_top(float *dst, size_t ldd, const pare_mask *w)
{
    for (size_t r = 0; r < w->n; r++) {
        const uint16_t *value = w->value + w->start[r];
        for (size_t j = 0; j < w->k; j++)
            dst[r * ldd + j] = w->bits[r * ((w->k + 7) / 8) + j / 8] >> (7 - j % 8) & 1 &&
                                       value < w->value + w->start[r + 1]
                                   ? pare_f16_to_f32(*value++)
                                   : 0.0f;
    }
}

static void gemv_24_whole_atoms(float *y, const float *x, size_t k, const pare_panel *w)
{
    pare_gemv_24_ref(y, x, k / 64 * 64, w);
}

static void gemv_mask_whole_bytes(float *y, const float *x, const pare_mask *w)
{
    pare_mask m = *w;
    m.k = w->k / 8 * 8;
    if (m.k / 8 == (w->k + 7) / 8 || w->n == 1)
        pare_gemv_mask_ref(y, x, &m);
}

/* Distance 8 left out. */
static void hadamard_stage_missed(float *x, size_t n, float scale)
{
    pare_hadamard_f32_ref(x, n, scale);
    for (size_t i = 0; i < n && n >= 16; i++)
        if (!(i & 8)) {
            const float a = x[i], b = x[i + 8];
            x[i] = 0.5f * (a + b);
            x[i + 8] = 0.5f * (a - b);
        }
}

/* Scaled before the sums: rounds otherwise. */
static void hadamard_scaled_first(float *x, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
    pare_hadamard_f32_ref(x, n, 1.0f);
}

/* Rows that are already new are read as if they were old. */
static void mix_in_place(float *x, size_t n, const float *c, size_t m)
{
    for (size_t j = 0; j < n; j++)
        for (size_t b = 0; b < m; b++) {
            float acc = 0.0f;
            for (size_t d = 0; d < m; d++)
                acc = fmaf(c[b * m + d], x[d * n + j], acc);
            x[b * n + j] = acc;
        }
}

static void mix_last_column(float *x, size_t n, const float *c, size_t m)
{
    float last[PARE_MIX_MAX];
    for (size_t b = 0; b < m && n % 8 == 1; b++)
        last[b] = x[b * n + n - 1];
    pare_mix_f32_ref(x, n, c, m);
    for (size_t b = 0; b < m && n % 8 == 1; b++)
        x[b * n + n - 1] = last[b];
}

/* As if a code never lay in two bytes. */
static void kv_decode_one_byte(float *dst, size_t ldd, const pare_kv_tile *src, size_t n, size_t d)
{
    pare_kv_decode_ref(dst, ldd, src, n, d);
    if (src->bits == 3 && d > 2)
        dst[2] = dst[0];
}

static void kv_mix_last_dropped(float *y, size_t ldy, const float *p, size_t ldp, const float *v,
                                size_t ldv, size_t m, size_t n, size_t d)
{
    pare_kv_mix_ref(y, ldy, p, ldp, v, ldv, m, n ? n - 1 : 0, d);
}

static float softmax_total_kept(float *x, size_t n, float scale, float *max, double *total)
{
    const double before = *total;
    const float shrink = pare_softmax_f32_ref(x, n, scale, max, total);
    *total += before - before * (double)shrink;
    return shrink;
}

/* As if lanes behind a tail of one held the largest value. */
static float softmax_tail_counted(float *x, size_t n, float scale, float *max, double *total)
{
    const float shrink = pare_softmax_f32_ref(x, n, scale, max, total);
    *total += n % 8 == 1 ? 7 : 0;
    return shrink;
}

/* As if a NaN were clamped to the least exponent. */
static float softmax_nan_lost(float *x, size_t n, float scale, float *max, double *total)
{
    for (size_t i = 0; i < n; i++)
        x[i] = isnan(x[i]) ? -0x1p+100f : x[i];
    return pare_softmax_f32_ref(x, n, scale, max, total);
}

static void silu_back_without_slope(float *dgate, float *dup, const float *d, const float *gate,
                                    const float *up, size_t n)
{
    const size_t tail = n & ~(size_t)7;
    pare_silu_back_f32_ref(dgate, dup, d, gate, up, tail);
    for (size_t i = tail; i < n; i++) {
        const float before = dup[i];
        pare_silu_back_f32_ref(dgate + i, dup + i, d + i, gate + i, up + i, 1);
        dgate[i] = (dup[i] - before) * up[i];
    }
}

static void silu_of_minus(float *y, const float *up, size_t n)
{
    pare_silu_f32_ref(y, up, n);
    for (size_t i = n & ~(size_t)7; i < n; i++)
        y[i] = -y[i];
}

static void transpose_tail_left(float *dst, size_t ldd, const float *src, size_t lds, size_t m,
                                size_t n)
{
    pare_transpose_f32_ref(dst, ldd, src, lds, m % 8 == 1 ? m - 1 : m, n);
}

#define FAULTS(X)                                                                                  \
    X(cvt_f16_f32, f16_without_subnormals, "subnormals flushed to zero")                           \
    X(cvt_f16_f32, f16_quiet_nan_lost, "payload of a NaN lost")                                    \
    X(cvt_bf16_f32, bf16_last_dropped, "last tail element dropped")                                \
    X(cvt_f32_f16, f16_truncated, "rounds towards zero")                                           \
    X(cvt_f32_f16, f16_half_away, "rounds ties away from zero")                                    \
    X(gemm_f32_f32, gemm_tail_dropped, "last tail element dropped")                                \
    X(gemm_f32_f32, gemm_writes_behind, "writes one element behind the output")                    \
    X(gemm_f32_f32, gemm_zero_sign_lost, "-0 becomes +0")                                          \
    X(gemm_f32_f16, gemm_unfused, "multiply and add rounded apart")                                \
    X(gemm_f32_bf16, gemm_other_order, "lanes added in another order")                             \
    X(quant_x8, quant_half_away, "roundf for rintf")                                               \
    X(quant_x8, quant_nan_lost, "a NaN becomes a number")                                          \
    X(quant_x8, quant_padding_kept, "padding not cleared")                                         \
    X(quant_x8, quant_span_ignored, "a scale for each group of a span")                            \
    X(quant_x8_fixed, fixed_wide, "4-bit codes clamped at 127")                                    \
    X(quant_x8_fixed, fixed_divides, "divides by the step")                                        \
    X(gemm_x8_q2, q2_one_scale, "scale of the first group for all, 8 rows")                        \
    X(gemm_x8_q3, q3_zero_points_left_out, "zero points left out")                                 \
    X(gemm_x8_q4, q4_last_token_dropped, "third token of a tail dropped")                          \
    X(gemm_x8_q8, q8_saturating, "16-bit pair sums saturate")                                      \
    X(gemm_x8_t2, t2_wraps, "too many products added in 16 bits")                                  \
    X(gemm_x8_t2, t2_zero_points_read, "zero points of the panel read")                            \
    X(gemm_x8_s4, s4_indices_ignored, "every pair read as the first two columns")                  \
    X(gemm_x8_s4, s4_last_token_dropped, "third token of a cut tile dropped")                      \
    X(gemm_x8_s8, s8_least_weight, "-128 read as -127")                                            \
    X(gemm_x8_s8, s8_half_atom_dropped, "last 32 columns of an odd number dropped")                \
    X(dequant_24, places_in_order, "an index wrong")                                               \
    X(gemv_24, gemv_24_whole_atoms, "columns behind the last whole atom left out")                 \
    X(gemv_mask, gemv_mask_whole_bytes, "columns behind the last whole byte left out")             \
    X(dequant_mask, mask_from_the_top, "bits read from the highest")                               \
    X(gemm_sparse_f32, sparse_backwards, "weights of a row in another order")                      \
    X(gemm_sparse_f32, sparse_sum_first, "sum made apart, then added")                             \
    X(dequant_table, table_high_half, "levels 8 to 15 read as 0 to 7")                             \
    X(dequant_table, table_first_half, "scale of the first 16 columns for 32")                     \
    X(dequant_fp8, fp8_subnormals_lost, "subnormals flushed to zero")                              \
    X(dequant_fp8, fp8_nan_is_480, "the codes of NaN become numbers")                              \
    X(dequant_book, book_of_first_row, "codebook of another row block")                            \
    X(dequant_binary, binary_without_salient, "salient columns read as others")                    \
    X(dequant_super, super_minimum_added, "minimum added instead of taken away")                   \
    X(dequant_super, super_first_half, "step of the first 16 columns for 32")                      \
    X(dequant_f32, dequant_last_column, "last column wrong")                                       \
    X(hadamard_f32, hadamard_stage_missed, "butterflies at distance 8 missed")                     \
    X(hadamard_f32, hadamard_scaled_first, "scaled before the sums")                               \
    X(mix_f32, mix_in_place, "new rows read as old ones")                                          \
    X(mix_f32, mix_last_column, "last column of a tail left")                                      \
    X(kv_decode, kv_decode_one_byte, "third code of 3 bits wrong")                                 \
    X(kv_mix, kv_mix_last_dropped, "last token dropped")                                           \
    X(gemv_packed, gemv_whole_atoms, "columns behind the last whole atom left out")                \
    X(gemv_packed, gemv_first_group, "scales of the first group for all")                          \
    X(gemv_packed, gemv_first_half, "scale of the first 16 columns for 32")                        \
    X(softmax_f32, softmax_total_kept, "earlier total not shrunk")                                 \
    X(softmax_f32, softmax_tail_counted, "lanes behind the tail counted")                          \
    X(softmax_f32, softmax_nan_lost, "a NaN becomes a number")                                     \
    X(silu_f32, silu_of_minus, "sign of the tail turned")                                          \
    X(silu_back_f32, silu_back_without_slope, "the slope of the sigmoid left out")                 \
    X(transpose_f32, transpose_tail_left, "last row of a tail left")

const char *kt_plant(size_t i, pare_kernels *k, const char **what)
{
    size_t at = 0;
    FAULTS(KT_PLANT)
    return kt_plant_round(i - at, k, what);
}
