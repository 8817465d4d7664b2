#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/kernels_internal.h"
#include "kernels/layout.h"

/* 32 columns of the row block `row` from k on. */
static void codes_24(float *dst, size_t ldd, const pare_panel *w, size_t row, size_t k,
                     unsigned bits)
{
    const size_t at = row / PARE_ATOM_N * (pare_24_kept(w->k) / PARE_ATOM_K) + k / 64;
    const size_t groups = (w->k + w->group - 1) / w->group;
    const int zero = 1 << (bits - 1);
    uint8_t u[PARE_ATOM_N][PARE_ATOM_K];
    pare_unpack_24(u, w->codes + at * pare_atom_bytes(bits), w->indices + at * 64,
                   k % 64 / PARE_ATOM_K, bits, (uint8_t)zero);
    for (size_t r = 0; r < PARE_ATOM_N; r++) {
        const uint16_t scale = w->scales[row * groups + k / w->group * PARE_ATOM_N + r];
        for (size_t j = 0; j < PARE_ATOM_K; j++)
            dst[r * ldd + j] = (float)(u[r][j] - zero) * pare_f16_to_f32(scale);
    }
}

static void values_24(float *dst, size_t ldd, const pare_panel *w, size_t row, size_t k)
{
    const size_t at = row / PARE_ATOM_N * (pare_24_kept(w->k) / PARE_ATOM_K) + k / 64;
    uint8_t index[PARE_ATOM_N][PARE_ATOM_K];
    pare_unpack_atom(index, w->indices + at * 64, 2);
    for (size_t r = 0; r < PARE_ATOM_N; r++) {
        memset(dst + r * ldd, 0, PARE_ATOM_K * sizeof *dst);
        for (size_t j = 0; j < PARE_ATOM_K / 2; j++)
            dst[r * ldd + j / 2 * 4 + index[r][k % 64 / 2 + j]] =
                pare_f16_to_f32(w->values[(row + r) * w->ldv + k / 2 + j]);
    }
}

void pare_dequant_24_ref(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N)
        for (size_t k = 0; k < w->k; k += PARE_ATOM_K) {
            if (bits == 16)
                values_24(dst + row * ldd + k, ldd, w, row, k);
            else
                codes_24(dst + row * ldd + k, ldd, w, row, k, bits);
        }
}

void pare_dequant_mask_ref(float *dst, size_t ldd, const pare_mask *w)
{
    for (size_t r = 0; r < w->n; r++) {
        const uint8_t *const bits = w->bits + r * ((w->k + 7) / 8);
        const uint16_t *value = w->value + w->start[r];
        for (size_t j = 0; j < w->k; j++)
            dst[r * ldd + j] = bits[j / 8] >> j % 8 & 1 ? pare_f16_to_f32(*value++) : 0.0F;
    }
}

void pare_gemv_24_ref(float *y, const float *x, size_t k, const pare_panel *w)
{
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        float lane[PARE_ATOM_N][8] = {{0}}, v[PARE_ATOM_N][PARE_ATOM_K];
        for (size_t c = 0; c < k; c += PARE_ATOM_K) {
            values_24(v[0], PARE_ATOM_K, w, row, c);
            for (size_t r = 0; r < PARE_ATOM_N; r++)
                for (size_t j = 0; j < PARE_ATOM_K && c + j < k; j++)
                    lane[r][j % 8] = fmaf(x[c + j], v[r][j], lane[r][j % 8]);
        }
        for (size_t r = 0; r < PARE_ATOM_N; r++)
            y[row + r] = pare_lane_sum(lane[r]);
    }
}

void pare_gemv_mask_ref(float *y, const float *x, const pare_mask *w)
{
    for (size_t r = 0; r < w->n; r++) {
        const uint8_t *const bits = w->bits + r * ((w->k + 7) / 8);
        const uint16_t *value = w->value + w->start[r];
        float lane[8] = {0};
        for (size_t j = 0; j < w->k; j++) {
            const float v = bits[j / 8] >> j % 8 & 1 ? pare_f16_to_f32(*value++) : 0.0F;
            lane[j % 8] = fmaf(x[j], v, lane[j % 8]);
        }
        y[r] = pare_lane_sum(lane);
    }
}
