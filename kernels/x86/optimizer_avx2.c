/* The way back through codes, four groups at a time: their sums are the lanes of a vector. And
 * searches of eight numbers at a time: up to 8 nodes lie in a register. */
#include "kernels/optimizer.h"
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

typedef struct group {
    __m256 scale, low, high;
    __m256i zero;
} group;

static group group_of(const pare_aware_groups *of, size_t i)
{
    const float low = -(float)of->zero[i];
    return (group){.scale = _mm256_set1_ps(of->scale[i]),
                   .low = _mm256_set1_ps(low),
                   .high = _mm256_set1_ps(low + (float)((1u << of->bits) - 1)),
                   .zero = _mm256_set1_epi32(of->zero[i])};
}

/* What eight weights of a group add to its sum; `moving`: all bits where x counts. */
PARE_INLINE void terms_8(__m256d term[2], float *g, const float *w, const uint8_t *codes,
                         const group *of, __m256 moving)
{
    const __m256 x = _mm256_div_ps(_mm256_loadu_ps(w), of->scale), d = _mm256_loadu_ps(g);
    const __m256 inside = _mm256_and_ps(_mm256_cmp_ps(of->low, x, _CMP_LE_OQ),
                                        _mm256_cmp_ps(x, of->high, _CMP_LE_OQ));
    const __m256 moves = _mm256_and_ps(x, _mm256_and_ps(inside, moving));
    const __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)codes);
    const __m256i level = _mm256_sub_epi32(_mm256_cvtepu8_epi32(eight), of->zero);
    term[0] = _mm256_mul_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(d)),
                            _mm256_sub_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(level)),
                                          _mm256_cvtps_pd(_mm256_castps256_ps128(moves))));
    term[1] = _mm256_mul_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(d, 1)),
                            _mm256_sub_pd(_mm256_cvtepi32_pd(_mm256_extracti128_si256(level, 1)),
                                          _mm256_cvtps_pd(_mm256_extractf128_ps(moves, 1))));
    _mm256_storeu_ps(g, _mm256_and_ps(d, inside));
}

/* Four columns of four groups, column by column. */
PARE_INLINE __m256d add_columns(__m256d sum, __m256d a, __m256d b, __m256d c, __m256d d)
{
    const __m256d ab0 = _mm256_unpacklo_pd(a, b), ab1 = _mm256_unpackhi_pd(a, b);
    const __m256d cd0 = _mm256_unpacklo_pd(c, d), cd1 = _mm256_unpackhi_pd(c, d);
    sum = _mm256_add_pd(sum, _mm256_permute2f128_pd(ab0, cd0, 0x20));
    sum = _mm256_add_pd(sum, _mm256_permute2f128_pd(ab1, cd1, 0x20));
    sum = _mm256_add_pd(sum, _mm256_permute2f128_pd(ab0, cd0, 0x31));
    return _mm256_add_pd(sum, _mm256_permute2f128_pd(ab1, cd1, 0x31));
}

/* Four groups from number `at`, none with a scale of 0. */
static void back_4(float *step, float *g, const pare_aware_groups *of, size_t at, size_t width)
{
    const group c[4] = {group_of(of, at), group_of(of, at + 1), group_of(of, at + 2),
                        group_of(of, at + 3)};
    const __m256 moving = _mm256_castsi256_ps(_mm256_set1_epi32(of->compensated ? 0 : -1));
    const size_t whole = width / 8 * 8;
    __m256d sum = _mm256_setzero_pd();
    double last[4];
    for (size_t j = at * width; j < at * width + whole; j += 8) {
        __m256d t[4][2];
        for (size_t i = 0; i < 4; i++) {
            const size_t to = i * width + j;
            terms_8(t[i], g + to, of->w + to, of->codes + to, &c[i], moving);
        }
        for (size_t h = 0; h < 2; h++)
            sum = add_columns(sum, t[0][h], t[1][h], t[2][h], t[3][h]);
    }
    _mm256_storeu_pd(last, sum);
    for (size_t i = at; i < at + 4; i++) {
        const float low = -(float)of->zero[i], high = low + (float)((1u << of->bits) - 1);
        for (size_t j = i * width + whole; j < (i + 1) * width; j++)
            last[i - at] +=
                pare_aware_term(&g[j], of->w[j], of->scale[i], (int)of->codes[j] - (int)of->zero[i],
                                low, high, of->compensated);
        step[i] = (float)(last[i - at] / of->over);
    }
}

void pare_aware_back_avx2(float *step, float *g, const pare_aware_groups *of, size_t groups,
                          size_t width)
{
    size_t i = 0;
    while (i < groups) {
        const float *const s = of->scale + i;
        if (groups - i >= 4 && s[0] != 0 && s[1] != 0 && s[2] != 0 && s[3] != 0) {
            back_4(step, g, of, i, width);
            i += 4;
            continue;
        }
        pare_aware_groups one = *of;
        one.w += i * width;
        one.codes += i * width;
        one.scale += i;
        one.zero += i;
        pare_aware_back_ref(step + i, g + i * width, &one, 1, width);
        i++;
    }
}

/* Eight searches. */
PARE_INLINE __m256i leaves_8(__m256 x, const __m256 top[4], const float *tree)
{
    __m256i at = _mm256_setzero_si256(); /* of the nodes of a level */
    for (int level = 0; level < 8; level++) {
        const __m256 node = level < 4 ? _mm256_permutevar8x32_ps(top[level], at)
                                      : _mm256_i32gather_ps(tree + ((size_t)1 << level), at, 4);
        const __m256 below = _mm256_cmp_ps(node, x, _CMP_LT_OQ);
        at = _mm256_sub_epi32(_mm256_add_epi32(at, at), _mm256_castps_si256(below));
    }
    return at;
}

PARE_INLINE void search_8(uint8_t *codes, __m256 x, const __m256 top[4], const float *tree)
{
    const __m256i at = leaves_8(x, top, tree);
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(at), _mm256_extracti128_si256(at, 1));
    _mm_storel_epi64((__m128i *)(void *)codes, _mm_packus_epi16(words, words));
}

void pare_tree_codes_avx2(uint8_t *codes, const float *x, size_t n, float scale, const float *tree)
{
    const __m256 s = _mm256_set1_ps(scale > 0 ? scale : 1), none = _mm256_setzero_ps();
    const __m256 top[4] = {_mm256_loadu_ps(tree + 1), _mm256_loadu_ps(tree + 2),
                           _mm256_loadu_ps(tree + 4), _mm256_loadu_ps(tree + 8)};
    const bool some = scale > 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        search_8(codes + i, some ? _mm256_div_ps(_mm256_loadu_ps(x + i), s) : none, top, tree);
    if (i < n) {
        float tail[8] = {0};
        uint8_t code[8];
        memcpy(tail, x + i, (n - i) * sizeof *x);
        search_8(code, some ? _mm256_div_ps(_mm256_loadu_ps(tail), s) : none, top, tree);
        memcpy(codes + i, code, n - i);
    }
}

#endif
