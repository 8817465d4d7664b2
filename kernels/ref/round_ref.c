#include <float.h>
#include <math.h>

#include "kernels/grid_code.h"
#include "kernels/kernels_internal.h"

bool pare_range_f32_ref(const float *x, size_t n, float *lo, float *hi)
{
    float least = 0, most = 0;
    *lo = *hi = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(fabsf(x[i]) <= FLT_MAX))
            return false;
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    *lo = least;
    *hi = most;
    return true;
}

/* Nothing in the loop may change the rest, so that it is done in vectors. */
void pare_round_codes_ref(uint8_t *restrict codes, const float *restrict x, size_t n, float scale,
                          uint8_t zero, unsigned bits)
{
    for (size_t i = 0; i < n; i++)
        codes[i] = pare_grid_code(bits, x[i], scale, zero);
}

double pare_clip_cost_ref(const float *w, const float *weight, size_t n, float scale, uint8_t zero,
                          unsigned bits, float range, double enough)
{
    enum { PIECE = 64, LANES = 8 };
    double sum = 0;
    for (size_t at = 0; at < n && sum < enough; at += PIECE) {
        float lane[LANES] = {0};
        for (size_t i = at; i < n && i < at + PIECE; i++) {
            const int steps = (int)pare_grid_code(bits, w[i], scale, zero) - (int)zero;
            const float e = (w[i] - (float)steps * scale) / range;
            lane[i % LANES] += weight ? weight[i] * (e * e) : pare_power_2_4(e);
        }
        for (size_t l = 0; l < LANES; l++)
            sum += (double)lane[l];
    }
    return sum < enough ? sum : enough;
}

pare_error_sum pare_error_sums_ref(const float *w, const float *q, const float *whole, size_t n)
{
    enum { LANES = 8 };
    double wrong[LANES] = {0}, all[LANES] = {0};
    pare_error_sum sum = {0};
    for (size_t i = 0; i < n; i++) {
        const double e = (double)w[i] - (double)q[i];
        wrong[i % LANES] += e * e;
        all[i % LANES] += (double)whole[i] * (double)whole[i];
        sum.nonzero += q[i] != 0;
    }
    for (size_t l = 0; l < LANES; l++) {
        sum.wrong += wrong[l];
        sum.all += all[l];
    }
    return sum;
}
