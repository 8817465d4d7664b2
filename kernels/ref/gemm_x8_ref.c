#include <assert.h>
#include <math.h>

#include "kernels/half.h"
#include "kernels/kernels_internal.h"
#include "kernels/layout.h"

enum { MT = 16 }; /* tokens that share one unpacked atom */

/* Codes of the columns from k on. */
static void unpack(uint8_t u[PARE_ATOM_N][PARE_ATOM_K], const pare_panel *w, size_t row, size_t k,
                   unsigned bits)
{
    const size_t dense = row / PARE_ATOM_N * (w->k / PARE_ATOM_K) + k / PARE_ATOM_K;
    const size_t half = row / PARE_ATOM_N * (pare_24_kept(w->k) / PARE_ATOM_K) + k / 64;
    if (!w->indices)
        pare_unpack_atom(u, w->codes + dense * pare_atom_bytes(bits), bits);
    else
        pare_unpack_24(u, w->codes + half * pare_atom_bytes(bits), w->indices + half * 64,
                       k % 64 / PARE_ATOM_K, bits, (uint8_t)(1u << (bits - 1)));
}

static int32_t x_at(const pare_x8 *x, const pare_panel *w, size_t t, size_t k, unsigned bits)
{
    if (!w->indices)
        return x->codes[t * x->k + k];
    const int8_t q = x->codes[pare_x24_at(x->m, x->k, t, k)];
    return bits == 4 ? (uint8_t)q - 128 : q;
}

/* d[t][r] = sum over the columns [k0, k1) of (u - z) x, for the tokens from t0 on. */
static void group_dot(int32_t d[MT][8], const pare_panel *w, size_t row, const int32_t *z,
                      const pare_x8 *x, size_t t0, size_t nt, size_t k0, size_t k1, unsigned bits)
{
    memset(d, 0, MT * sizeof *d);
    for (size_t k = k0; k < k1; k += PARE_ATOM_K) {
        uint8_t u[PARE_ATOM_N][PARE_ATOM_K];
        unpack(u, w, row, k, bits);
        for (size_t t = 0; t < nt; t++) {
            int32_t q[PARE_ATOM_K];
            for (size_t j = 0; j < PARE_ATOM_K; j++)
                q[j] = x_at(x, w, t0 + t, k + j, bits);
            for (size_t r = 0; r < PARE_ATOM_N; r++) {
                int32_t sum = 0;
                for (size_t j = 0; j < PARE_ATOM_K; j++)
                    sum += (u[r][j] - z[r]) * q[j];
                d[t][r] += sum;
            }
        }
    }
}

static void block_tokens(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, size_t row,
                         size_t t0, size_t nt, unsigned bits, int32_t zero)
{
    const size_t xgroups = (x->k + x->group - 1) / x->group;
    const size_t groups = (w->k + w->group - 1) / w->group;
    float acc[MT][8] = {{0}};
    for (size_t b = 0; b < xgroups; b++) {
        const size_t k0 = b * x->group, k1 = k0 + x->group < x->k ? k0 + x->group : x->k;
        const size_t g = row * groups + k0 / w->group * 8; /* first of 8 rows in the planes */
        int32_t z[8], d[MT][8];
        for (size_t r = 0; r < 8; r++)
            z[r] = zero >= 0 ? zero : w->zeros[g + r];
        group_dot(d, w, row, z, x, t0, nt, k0, k1, bits);
        for (size_t t = 0; t < nt; t++)
            for (size_t r = 0; r < 8; r++)
                acc[t][r] =
                    fmaf((float)d[t][r],
                         pare_f16_to_f32(w->scales[g + r]) * x->scales[(t0 + t) * xgroups + b],
                         acc[t][r]);
    }
    for (size_t t = 0; t < nt; t++)
        memcpy(y + (t0 + t) * ldy + row, acc[t], sizeof acc[t]);
}

/* zero: of all weights, or -1: those of w. */
static void gemm_x8(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, unsigned bits,
                    int32_t zero)
{
    assert(x->k == w->k && w->n % PARE_ATOM_N == 0);
    assert(w->group % x->group == 0 || w->group >= w->k);
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N)
        for (size_t t = 0; t < x->m; t += MT)
            block_tokens(y, ldy, x, w, row, t, x->m - t < MT ? x->m - t : MT, bits, zero);
}

void pare_gemm_x8_q2_ref(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    gemm_x8(y, ldy, x, w, 2, w->zeros ? -1 : 2);
}

void pare_gemm_x8_q3_ref(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    gemm_x8(y, ldy, x, w, 3, w->zeros ? -1 : 4);
}

void pare_gemm_x8_q4_ref(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    gemm_x8(y, ldy, x, w, 4, w->zeros ? -1 : 8);
}

void pare_gemm_x8_q8_ref(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    gemm_x8(y, ldy, x, w, 8, w->zeros ? -1 : 128);
}

void pare_gemm_x8_s4_ref(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    gemm_x8(y, ldy, x, w, 4, 8);
}

void pare_gemm_x8_s8_ref(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    gemm_x8(y, ldy, x, w, 8, 128);
}

void pare_gemm_x8_t2_ref(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    gemm_x8(y, ldy, x, w, 2, 1);
}
