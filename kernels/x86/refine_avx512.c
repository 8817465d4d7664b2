/* Slopes of scales, eight rows in a vector. */
#include "kernels/refine_steps.h"
#define PARE_VNNI_BITS 512
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI

/* Products are exact, so that adding them in one step changes nothing. */
pare_slope pare_scale_slope_avx512(const double *g, const float *c, const float *p, const float *o,
                                   size_t r, size_t n)
{
    enum { STEP = 8, SUMS = PARE_COUPLED / STEP };
    double term[PARE_COUPLED];
    pare_slope sum = {0};
    __m512d dot[SUMS];
    for (size_t i = 0; i < SUMS; i++)
        dot[i] = _mm512_setzero_pd();
    for (size_t j = 0; j < n; j++, g += PARE_COUPLED) {
        const __m512d by = _mm512_set1_pd((double)c[j]);
        for (size_t i = 0; i < SUMS; i++)
            dot[i] = _mm512_fmadd_pd(_mm512_loadu_pd(g + i * STEP), by, dot[i]);
        sum.bend -= (double)p[j] * (double)c[j];
    }
    const __m512d diagonal = _mm512_set1_pd((double)o[r]);
    for (size_t i = 0; i < SUMS; i++) {
        const __m512d w = _mm512_cvtps_pd(_mm256_loadu_ps(o + i * STEP));
        const __mmask8 set = _mm512_cmp_pd_mask(w, _mm512_setzero_pd(), _CMP_NEQ_UQ);
        _mm512_storeu_pd(term + i * STEP,
                         _mm512_maskz_mul_pd(set, _mm512_div_pd(w, diagonal), dot[i]));
    }
    for (size_t l = 0; l < PARE_COUPLED; l++)
        sum.slope += term[l];
    return sum;
}

#endif
