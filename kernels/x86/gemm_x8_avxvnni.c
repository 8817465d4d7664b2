#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI
enum { FIELDS = 12 /* sums of one token */ };

/* Adds to d 32 columns, each field of a byte to sums of its own. */
PARE_INLINE void add_atom(__m256i d[FIELDS], const uint8_t *atom, const int8_t *x, unsigned bits)
{
    for (size_t l = 0; bits == 8 && l < 8; l++) {
        const __m256i w = load_32(atom + 32 * l);
        d[l % 4] =
            dot(d[l % 4], _mm256_xor_si256(w, _mm256_set1_epi8((char)0x80)), broadcast4(x + 4 * l));
    }
    for (size_t l = 0; bits == 4 && l < 4; l++) {
        const __m256i w = load_32(atom + 32 * l), low = _mm256_set1_epi8(15),
                      high = _mm256_set1_epi8((char)0xf0);
        d[l % 2] = dot(d[l % 2], _mm256_and_si256(w, low), broadcast4(x + 4 * l));
        d[2 + l % 2] = dot(d[2 + l % 2], _mm256_and_si256(w, high), broadcast4(x + 16 + 4 * l));
    }
    for (size_t i = 0; bits < 4 && i < 8; i++) {
        const size_t sum = bits == 2 ? i : i % 4;
        const __m256i mask = _mm256_set1_epi8((char)(3 << i % 4 * 2));
        d[sum] =
            dot(d[sum], _mm256_and_si256(load_32(atom + i / 4 * 32), mask), broadcast4(x + 4 * i));
    }
    for (size_t f = 0; bits == 3 && f < 8; f++) {
        const __m256i mask = _mm256_set1_epi8((char)(1 << f));
        d[4 + f] = dot(d[4 + f], _mm256_and_si256(load_32(atom + 64), mask), broadcast4(x + 4 * f));
    }
}

/* Sums of 8 rows. */
PARE_INLINE __m256i sum_fields(const __m256i d[FIELDS], unsigned bits)
{
    __m256i sum = d[0];
    if (bits == 8)
        sum = _mm256_add_epi32(_mm256_add_epi32(sum, d[1]), _mm256_add_epi32(d[2], d[3]));
    if (bits == 4)
        sum = _mm256_add_epi32(_mm256_add_epi32(sum, d[1]),
                               _mm256_srai_epi32(_mm256_add_epi32(d[2], d[3]), 4));
    if (bits == 2)
        sum = _mm256_add_epi32(sum, d[4]);
    for (int f = 1; bits < 4 && f < 4; f++)
        sum = _mm256_add_epi32(
            sum, _mm256_srai_epi32(bits == 2 ? _mm256_add_epi32(d[f], d[4 + f]) : d[f], 2 * f));
    for (int f = 0; bits == 3 && f < 8; f++)
        sum = _mm256_add_epi32(sum, _mm256_slli_epi32(_mm256_srai_epi32(d[4 + f], f), 2));
    return sum;
}

#include "kernels/x86/gemm_x8_vnni.h"
#endif
