/* The vector of one token holds two groups of 4 consecutive k of 8 rows, 64 bytes as they lie, so
 * that memory is read as one stream; codes of activations come by permutation. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI
enum { FIELDS = 8 /* sums of one token */ };

/* The i-th pair of words of 4 codes, one in the low half, one in the high half. */
PARE_INLINE __m512i pair(__m512i words, int i)
{
    switch (i) {
    case 0: return _mm512_shuffle_epi32(words, 0x00);
    case 1: return _mm512_shuffle_epi32(words, 0x55);
    case 2: return _mm512_shuffle_epi32(words, 0xaa);
    default: return _mm512_shuffle_epi32(words, 0xff);
    }
}

/* Words of 32 codes: in the low half those that meet low halves of weights. */
PARE_INLINE __m512i arrange(const int8_t *x, unsigned bits)
{
    const __m512i v = _mm512_castsi256_si512(load_32(x));
    const __m512i next = _mm512_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6, 1, 3, 5, 7, 1, 3, 5, 7);
    const __m512i apart = _mm512_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7);
    return _mm512_permutexvar_epi32(bits >= 4 ? next : apart, v);
}

/* Bit f of bytes of the low half, bit f + 4 of the high half. */
PARE_INLINE __m512i bit_mask(int f)
{
    return _mm512_inserti64x4(_mm512_set1_epi8((char)(1 << f)), _mm256_set1_epi8((char)(16 << f)),
                              1);
}

/* Adds to d 32 columns, each field of a byte to sums of its own. */
PARE_INLINE void add_atom(__m512i d[FIELDS], const uint8_t *atom, const int8_t *x, unsigned bits)
{
    const __m512i words = arrange(x, bits);
    for (int j = 0; bits == 8 && j < 4; j++) {
        const __m512i w = load_vec(atom + 64 * j);
        d[j] = dot(d[j], _mm512_xor_si512(w, _mm512_set1_epi8((char)0x80)), pair(words, j));
    }
    for (int j = 0; bits == 4 && j < 2; j++) {
        const __m512i w = load_vec(atom + 64 * j);
        const __m512i low = _mm512_set1_epi8(15), high = _mm512_set1_epi8((char)0xf0);
        d[j] = dot(d[j], _mm512_and_si512(w, low), pair(words, j));
        d[2 + j] = dot(d[2 + j], _mm512_and_si512(w, high), pair(words, 2 + j));
    }
    for (int f = 0; bits < 4 && f < 4; f++) {
        const __m512i w = load_vec(atom), mask = _mm512_set1_epi8((char)(3 << 2 * f));
        d[f] = dot(d[f], _mm512_and_si512(w, mask), pair(words, f));
    }
    for (int f = 0; bits == 3 && f < 4; f++) {
        const __m512i w = _mm512_broadcast_i64x4(load_32(atom + 64));
        d[4 + f] = dot(d[4 + f], _mm512_and_si512(w, bit_mask(f)), pair(words, f));
    }
}

/* Sums of 8 rows. */
PARE_INLINE __m256i sum_fields(const __m512i d[FIELDS], unsigned bits)
{
    __m512i sum = d[0];
    if (bits == 8)
        sum = _mm512_add_epi32(_mm512_add_epi32(sum, d[1]), _mm512_add_epi32(d[2], d[3]));
    if (bits == 4)
        sum = _mm512_add_epi32(_mm512_add_epi32(sum, d[1]),
                               _mm512_srai_epi32(_mm512_add_epi32(d[2], d[3]), 4));
    for (unsigned f = 1; bits < 4 && f < 4; f++)
        sum = _mm512_add_epi32(sum, _mm512_srai_epi32(d[f], 2 * f));
    for (int f = 0; bits == 3 && f < 4; f++) {
        const __m512i by = _mm512_inserti64x4(_mm512_set1_epi32(f), _mm256_set1_epi32(4 + f), 1);
        sum = _mm512_add_epi32(sum, _mm512_slli_epi32(_mm512_srav_epi32(d[4 + f], by), 2));
    }
    return _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
}

#include "kernels/x86/gemm_x8_vnni.h"
#endif
