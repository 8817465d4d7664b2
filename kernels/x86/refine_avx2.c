/* Rows in order, each of which waits for the one before: two strips at a time hide that. What has
 * just changed stays in a register, since a vector that is read after one of its floats was written
 * has to wait for memory. */
#include "kernels/refine_steps.h"
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

enum { LANES = 8, PIECES = PARE_COUPLED / LANES };

/* Lanes in order, from 0. */
PARE_INLINE float in_order(__m256 v)
{
    const __m128 low = _mm256_castps256_ps128(v), high = _mm256_extractf128_ps(v, 1);
    __m128 sum = _mm_add_ss(_mm_setzero_ps(), low);
    sum = _mm_add_ss(sum, _mm_movehdup_ps(low));
    sum = _mm_add_ss(sum, _mm_permute_ps(low, 2));
    sum = _mm_add_ss(sum, _mm_permute_ps(low, 3));
    sum = _mm_add_ss(sum, high);
    sum = _mm_add_ss(sum, _mm_movehdup_ps(high));
    sum = _mm_add_ss(sum, _mm_permute_ps(high, 2));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_permute_ps(high, 3)));
}

/* A column of a strip: its G as it becomes, its codes, its steps. */
typedef struct couple_column {
    float *code;
    const float *free;
    float x[PARE_COUPLED], step[PARE_COUPLED];
} couple_column;

/* Row r, in the piece of x that `fresh` holds. */
PARE_INLINE __m256 couple_row(const pare_couple *s, couple_column *at, __m256 fresh, size_t piece,
                              size_t r, float h, float top)
{
    const float *const o = s->o + r * PARE_COUPLED;
    __m256 part = _mm256_setzero_ps();
#pragma GCC unroll 8
    for (size_t l = 0; l < PIECES; l++)
        part = _mm256_add_ps(
            part, _mm256_mul_ps(_mm256_loadu_ps(o + l * LANES),
                                l == piece ? fresh : _mm256_loadu_ps(at->x + l * LANES)));
    const float slope = in_order(part), bend = o[r] * h, scale = s->scale[r], old = at->code[r];
    const float t = pare_next_code(old, slope / (bend * scale), top), d = (t - old) * scale;
    s->gain[r] -= (double)d * (2 * (double)slope + (double)d * (double)bend);
    at->code[r] = t;
    at->step[r] = d;
    const __m256i lane = _mm256_cmpeq_epi32(_mm256_set1_epi32((int)(r % LANES)),
                                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm256_blendv_ps(fresh, _mm256_add_ps(fresh, _mm256_set1_ps(d * h)),
                            _mm256_castsi256_ps(lane));
}

PARE_INLINE void couple_piece(const pare_couple *strip, size_t strips, couple_column *at,
                              size_t piece, float h, float top)
{
    __m256 fresh[2];
    for (size_t i = 0; i < strips; i++)
        fresh[i] = _mm256_loadu_ps(at[i].x + piece * LANES);
    for (size_t r = piece * LANES; r < (piece + 1) * LANES; r++)
        for (size_t i = 0; i < strips; i++)
            if (at[i].free[r] != 0)
                fresh[i] = couple_row(&strip[i], &at[i], fresh[i], piece, r, h, top);
    for (size_t i = 0; i < strips; i++)
        _mm256_storeu_ps(at[i].x + piece * LANES, fresh[i]);
}

/* G of all columns follows the steps of one, half of the rows at a time. */
PARE_INLINE void follow(float *g, const float *step, const float *h, size_t n)
{
    enum { HALF = PIECES / 2 };
    for (size_t from = 0; from < PARE_COUPLED; from += HALF * LANES) {
        __m256 by[HALF];
        for (size_t l = 0; l < HALF; l++)
            by[l] = _mm256_loadu_ps(step + from + l * LANES);
        for (size_t i = 0; i < n; i++)
            for (size_t l = 0; l < HALF; l++) {
                float *const at = g + i * PARE_COUPLED + from + l * LANES;
                _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at),
                                                   _mm256_mul_ps(by[l], _mm256_set1_ps(h[i]))));
            }
    }
}

PARE_INLINE bool any_step(const float *step)
{
    __m256 any = _mm256_setzero_ps();
    for (size_t r = 0; r < PARE_COUPLED; r += LANES)
        any = _mm256_or_ps(
            any, _mm256_cmp_ps(_mm256_loadu_ps(step + r), _mm256_setzero_ps(), _CMP_NEQ_UQ));
    return _mm256_movemask_ps(any) != 0;
}

PARE_INLINE void couple(const pare_couple *strip, size_t strips, size_t column, const float *h,
                        size_t n, float top)
{
    couple_column at[2];
    for (size_t i = 0; i < strips; i++) {
        at[i].code = strip[i].code + column * PARE_COUPLED;
        at[i].free = strip[i].free + column * PARE_COUPLED;
        memcpy(at[i].x, strip[i].g + column * PARE_COUPLED, sizeof at[i].x);
        memset(at[i].step, 0, sizeof at[i].step);
    }
#pragma GCC unroll 8
    for (size_t piece = 0; piece < PIECES; piece++)
        couple_piece(strip, strips, at, piece, h[column], top);
    for (size_t i = 0; i < strips; i++)
        if (any_step(at[i].step))
            follow(strip[i].g, at[i].step, h, n);
}

void pare_couple_codes_avx2(const pare_couple *strip, size_t strips, size_t column, const float *h,
                            size_t n, float top)
{
    if (strips == 2)
        couple(strip, 2, column, h, n, top);
    else
        couple(strip, 1, column, h, n, top);
}

/* Products are exact, so that adding them in one step changes nothing. A half of the rows at a
 * time, whose sums fill eight registers. */
pare_slope pare_scale_slope_avx2(const double *g, const float *c, const float *p, const float *o,
                                 size_t r, size_t n)
{
    enum { STEP = 4, SUMS = 8, HALF = STEP * SUMS };
    double term[PARE_COUPLED];
    pare_slope sum = {0};
    const __m256d diagonal = _mm256_set1_pd((double)o[r]);
    for (size_t l = 0; l < PARE_COUPLED; l += HALF) {
        __m256d dot[SUMS];
        for (size_t i = 0; i < SUMS; i++)
            dot[i] = _mm256_setzero_pd();
        for (size_t j = 0; j < n; j++) {
            const __m256d by = _mm256_set1_pd((double)c[j]);
            for (size_t i = 0; i < SUMS; i++)
                dot[i] = _mm256_fmadd_pd(_mm256_loadu_pd(g + j * PARE_COUPLED + l + i * STEP), by,
                                         dot[i]);
            sum.bend -= l == 0 ? (double)p[j] * (double)c[j] : 0;
        }
        for (size_t i = 0; i < SUMS; i++) {
            const __m256d w = _mm256_cvtps_pd(_mm_loadu_ps(o + l + i * STEP));
            const __m256d t = _mm256_mul_pd(_mm256_div_pd(w, diagonal), dot[i]);
            const __m256d set = _mm256_cmp_pd(w, _mm256_setzero_pd(), _CMP_NEQ_UQ);
            _mm256_storeu_pd(term + l + i * STEP, _mm256_and_pd(t, set));
        }
    }
    for (size_t l = 0; l < PARE_COUPLED; l++)
        sum.slope += term[l];
    return sum;
}

#endif
