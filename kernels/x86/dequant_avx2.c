#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include "kernels/layout.h"

/* Four vectors of 8 words (word g: row g) become rows of four words: out[i] holds row i in its low
 * half and row i + 4 in its high half. */
PARE_INLINE void transpose_words(__m256i out[4], const uint8_t *p)
{
    const __m256i a = load_32(p), b = load_32(p + 32), c = load_32(p + 64), d = load_32(p + 96);
    const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
    out[0] = _mm256_unpacklo_epi64(ab0, cd0);
    out[1] = _mm256_unpackhi_epi64(ab0, cd0);
    out[2] = _mm256_unpacklo_epi64(ab1, cd1);
    out[3] = _mm256_unpackhi_epi64(ab1, cd1);
}

/* dst[j] = (u[j] - z) * scale for the 16 unsigned codes of u. */
PARE_INLINE void store_16(float *dst, __m128i u, int32_t z, float scale)
{
    const __m256 s = _mm256_set1_ps(scale);
    const __m256i zero = _mm256_set1_epi32(z);
    for (size_t h = 0; h < 2; h++) {
        const __m256i d = _mm256_sub_epi32(_mm256_cvtepu8_epi32(u), zero);
        _mm256_storeu_ps(dst + 8 * h, _mm256_mul_ps(_mm256_cvtepi32_ps(d), s));
        u = _mm_srli_si128(u, 8);
    }
}

/* The two halves of 16 columns of an atom, as unsigned bytes by rows. */
PARE_INLINE void atom_halves(__m256i half[2][4], const uint8_t *atom, unsigned bits)
{
    transpose_words(half[0], atom);
    if (bits == 8)
        transpose_words(half[1], atom + 128);
    for (size_t i = 0; i < 4; i++) {
        if (bits == 8) {
            half[0][i] = _mm256_xor_si256(half[0][i], _mm256_set1_epi8(-128));
            half[1][i] = _mm256_xor_si256(half[1][i], _mm256_set1_epi8(-128));
        } else {
            const __m256i low = _mm256_set1_epi8(15);
            half[1][i] = _mm256_and_si256(_mm256_srli_epi16(half[0][i], 4), low);
            half[0][i] = _mm256_and_si256(half[0][i], low);
        }
    }
}

PARE_INLINE void dequant(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    const size_t groups = (w->k + w->group - 1) / w->group;
    const uint8_t *atom = w->codes;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N)
        for (size_t k = 0; k < w->k; k += PARE_ATOM_K, atom += pare_atom_bytes(bits)) {
            const size_t g = row * groups + k / w->group * PARE_ATOM_N;
            float s[8];
            _mm256_storeu_ps(s, load_scales(w->scales + g));
            __m256i half[2][4];
            atom_halves(half, atom, bits);
            for (size_t r = 0; r < PARE_ATOM_N; r++) {
                const int32_t z = w->zeros ? w->zeros[g + r] : 1 << (bits - 1);
                for (size_t h = 0; h < 2; h++) {
                    const __m256i v = half[h][r % 4];
                    const __m128i u =
                        r < 4 ? _mm256_castsi256_si128(v) : _mm256_extracti128_si256(v, 1);
                    store_16(dst + (row + r) * ldd + k + 16 * h, u, z, s[r]);
                }
            }
        }
}

void pare_dequant_f32_avx2(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    if (bits == 4)
        dequant(dst, ldd, w, 4);
    else if (bits == 8)
        dequant(dst, ldd, w, 8);
    else
        pare_dequant_f32_ref(dst, ldd, w, bits);
}

#endif
