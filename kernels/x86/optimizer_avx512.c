/* Searches of 16 numbers at a time in a tree that lies in registers. And a step of AdamW without
 * divisions and square roots of doubles, which take longest: an interval in which the exact step
 * lies. Where both its ends give the same float, that is the new weight. */
#include "kernels/optimizer.h"
#define PARE_VNNI_BITS 512
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI

typedef struct move {
    __m512d b1, rest1, b2, rest2, eps, clip, shrink, rate, over_root;
    __m256 zeros; /* all bits where weights that are 0 move, too */
} move;

static move move_of(const pare_adamw_move *by)
{
    const __m256i all = _mm256_set1_epi32(by->keeps_zeros ? 0 : -1);
    return (move){.b1 = _mm512_set1_pd(by->beta1),
                  .rest1 = _mm512_set1_pd(1 - by->beta1),
                  .b2 = _mm512_set1_pd(by->beta2),
                  .rest2 = _mm512_set1_pd(1 - by->beta2),
                  .eps = _mm512_set1_pd(by->eps),
                  .clip = _mm512_set1_pd(by->clip),
                  .shrink = _mm512_set1_pd(by->shrink),
                  .rate = _mm512_set1_pd(by->rate),
                  .over_root = _mm512_set1_pd(1 / by->root),
                  .zeros = _mm256_castsi256_ps(all)};
}

/* 1 / (sqrt(v) / root + eps), and 0 where `still`; right up to 2^-40 of itself. Instructions give
 * both powers up to 2^-14; with what is missing, h, each takes the terms up to h^2 of its series:
 * 5/16 h^3 < 2^-40.6 is left of one, |h| < 2^-12.99, and h^3 < 2^-41.9 of the other. */
PARE_INLINE __m512d inverse_of(__m512d v, __mmask8 still, const move *c)
{
    const __m512d one = _mm512_set1_pd(1), r = _mm512_rsqrt14_pd(v), s = _mm512_mul_pd(v, r);
    const __m512d h = _mm512_fnmadd_pd(s, r, one);
    const __m512d series = _mm512_fmadd_pd(h, _mm512_set1_pd(0.375), _mm512_set1_pd(0.5));
    const __m512d root = _mm512_fmadd_pd(_mm512_mul_pd(s, h), series, s);
    const __m512d size = _mm512_fmadd_pd(root, c->over_root, c->eps), q = _mm512_rcp14_pd(size);
    const __m512d missing = _mm512_fnmadd_pd(size, q, one);
    return _mm512_maskz_fmadd_pd((__mmask8)~still, q, _mm512_fmadd_pd(missing, missing, missing),
                                 q);
}

/* Weights, first and second moments x of eight, whose gradients are g. False: both ends of the
 * interval differ, or what bounds it does not hold. */
PARE_INLINE bool step_8(__m256 x[3], __m256 g, const move *c)
{
    const __m256 set = _mm256_cmp_ps(x[0], _mm256_setzero_ps(), _CMP_NEQ_UQ);
    const __m256 counts = _mm256_and_ps(g, _mm256_or_ps(set, c->zeros));
    const __m512d d = _mm512_mul_pd(c->clip, _mm512_cvtps_pd(counts));
    const __m512d m =
        _mm512_add_pd(_mm512_mul_pd(c->b1, _mm512_cvtps_pd(x[1])), _mm512_mul_pd(c->rest1, d));
    const __m512d v = _mm512_add_pd(_mm512_mul_pd(c->b2, _mm512_cvtps_pd(x[2])),
                                    _mm512_mul_pd(_mm512_mul_pd(c->rest2, d), d));
    const __mmask8 still = _mm512_cmp_pd_mask(_mm512_or_pd(m, v), _mm512_setzero_pd(), _CMP_EQ_OQ);
    const __mmask8 bounded = _mm512_cmp_pd_mask(v, _mm512_set1_pd(0x1p-300), _CMP_GE_OQ) &
                             _mm512_cmp_pd_mask(v, _mm512_set1_pd(0x1p300), _CMP_LE_OQ);
    const __m512d far = _mm512_mul_pd(_mm512_mul_pd(c->rate, m), inverse_of(v, still, c));
    const __m512d kept = _mm512_mul_pd(_mm512_cvtps_pd(x[0]), c->shrink);
    const __m512d low = _mm512_fnmadd_pd(far, _mm512_set1_pd(1 - 0x1p-39), kept);
    const __m512d high = _mm512_fnmadd_pd(far, _mm512_set1_pd(1 + 0x1p-39), kept);
    x[0] = _mm512_cvtpd_ps(low);
    x[1] = _mm512_cvtpd_ps(m);
    x[2] = _mm512_cvtpd_ps(v);
    const __m256i same =
        _mm256_cmpeq_epi32(_mm256_castps_si256(x[0]), _mm256_castps_si256(_mm512_cvtpd_ps(high)));
    return (_mm256_movemask_ps(_mm256_castsi256_ps(same)) & (bounded | still)) == 0xff;
}

void pare_adamw_step_avx512(float *w, float *g, float *m, float *v, size_t n,
                            const pare_adamw_move *by)
{
    /* a step of less than 2^-1022 has an error of its own */
    const bool usual =
        by->root >= 0x1p-20 && by->root <= 1 && by->eps > 0 && by->eps < 1 && by->rate >= 0x1p-500;
    const move c = move_of(by);
    const size_t whole = usual ? n / 8 * 8 : 0;
    for (size_t i = 0; i < whole; i += 8) {
        __m256 x[3] = {_mm256_loadu_ps(w + i), _mm256_loadu_ps(m + i), _mm256_loadu_ps(v + i)};
        if (!step_8(x, _mm256_loadu_ps(g + i), &c)) {
            pare_adamw_step_ref(w + i, g + i, m + i, v + i, 8, by);
            continue;
        }
        _mm256_storeu_ps(w + i, x[0]);
        _mm256_storeu_ps(m + i, x[1]);
        _mm256_storeu_ps(v + i, x[2]);
        _mm256_storeu_ps(g + i, _mm256_setzero_ps());
    }
    pare_adamw_step_ref(w + whole, g + whole, m + whole, v + whole, n - whole, by);
}

/* One of the 64 nodes in four registers. */
PARE_INLINE __m512 pick_64(const __m512 node[4], __m512i at)
{
    return _mm512_mask_blend_ps(_mm512_test_epi32_mask(at, _mm512_set1_epi32(32)),
                                _mm512_permutex2var_ps(node[0], at, node[1]),
                                _mm512_permutex2var_ps(node[2], at, node[3]));
}

/* One of a level: of up to 16 nodes from node[level], of more from node[2^level / 16 + 3]. */
PARE_INLINE __m512 pick(const __m512 node[19], int level, __m512i at)
{
    if (level < 5)
        return _mm512_permutexvar_ps(at, node[level]);
    if (level == 5)
        return _mm512_permutex2var_ps(node[5], at, node[6]);
    if (level == 6)
        return pick_64(node + 7, at);
    return _mm512_mask_blend_ps(_mm512_test_epi32_mask(at, _mm512_set1_epi32(64)),
                                pick_64(node + 11, at), pick_64(node + 15, at));
}

void pare_tree_codes_avx512(uint8_t *codes, const float *x, size_t n, float scale,
                            const float *tree)
{
    const __m512i one = _mm512_set1_epi32(1);
    const __m512 s = _mm512_set1_ps(scale);
    __m512 node[19];
    for (size_t level = 0; level < 4; level++)
        node[level] = _mm512_loadu_ps(tree + ((size_t)1 << level));
    for (size_t i = 4; i < 19; i++)
        node[i] = _mm512_loadu_ps(tree + 16 * (i - 3));
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 there = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffff);
        const __m512 v =
            scale > 0 ? _mm512_div_ps(_mm512_maskz_loadu_ps(there, x + i), s) : _mm512_setzero_ps();
        __m512i at = _mm512_setzero_si512();
        for (int level = 0; level < 8; level++) {
            const __mmask16 below = _mm512_cmp_ps_mask(pick(node, level, at), v, _CMP_LT_OQ);
            at = _mm512_add_epi32(at, at);
            at = _mm512_mask_add_epi32(at, below, at, one);
        }
        uint8_t code[16];
        _mm_storeu_si128((__m128i *)(void *)code, _mm512_cvtepi32_epi8(at));
        memcpy(codes + i, code, n - i < 16 ? n - i : 16);
    }
}

#endif
