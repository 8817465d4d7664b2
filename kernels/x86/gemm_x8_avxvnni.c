#define PARE_VNNI_BITS 256
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI
enum { FIELDS = 8 /* sums of one token */ };

/* Adds to d 32 columns, each field of a byte to sums of its own, of 3 bits each word. */
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
    for (size_t i = 0; bits == 2 && i < 8; i++) {
        const __m256i mask = _mm256_set1_epi8((char)(3 << i % 4 * 2));
        d[i] = dot(d[i], _mm256_and_si256(load_32(atom + i / 4 * 32), mask), broadcast4(x + 4 * i));
    }
    if (bits == 3) {
        __m256i v[8];
        unpack_atom(v, atom, bits);
        for (size_t i = 0; i < 8; i++)
            d[i] = dot(d[i], v[i], broadcast4(x + 4 * i));
    }
}

/* Sums of 8 rows. */
PARE_INLINE __m256i sum_fields(const __m256i d[FIELDS], unsigned bits)
{
    __m256i s[4];
    for (size_t i = 0; i < 4; i++)
        s[i] = bits < 4 ? _mm256_add_epi32(d[i], d[4 + i]) : d[i];
    if (bits == 4)
        return _mm256_add_epi32(_mm256_add_epi32(s[0], s[1]),
                                _mm256_srai_epi32(_mm256_add_epi32(s[2], s[3]), 4));
    __m256i sum = s[0];
    for (int f = 1; f < 4; f++)
        sum = _mm256_add_epi32(sum, bits == 2 ? _mm256_srai_epi32(s[f], 2 * f) : s[f]);
    return sum;
}

#include "kernels/x86/gemm_x8_vnni.h"
#endif
