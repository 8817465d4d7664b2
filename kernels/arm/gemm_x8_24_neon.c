/* A lane of 16 bits takes one place of each word: products of 4-bit codes and activations are at
 * most 8 * 127, of which it holds 32, a whole span. Those of 8 bits, at most 128 * 127, are widened
 * after two. */
#include "kernels/arm/gemm_x8_24_internal.h"

#ifdef __aarch64__

/* s[i] has two rows: products of their 4 places with the codes of 8 columns. */
PARE_INLINE void add_word(int16x8_t s[4], const word *w, int8x16_t codes)
{
    for (size_t h = 0; h < 2; h++) {
        const int8x16_t q = vqtbl1q_s8(codes, w->pick[h]);
        s[2 * h] = vmlal_s8(s[2 * h], vget_low_s8(w->w[h]), vget_low_s8(q));
        s[2 * h + 1] = vmlal_high_s8(s[2 * h + 1], w->w[h], q);
    }
}

/* d[h] plus sums of pairs of places. */
PARE_INLINE void widen(int32x4_t d[2], int16x8_t const s[4])
{
    for (size_t h = 0; h < 2; h++)
        d[h] = vaddq_s32(d[h], vpaddq_s32(vpaddlq_s16(s[2 * h]), vpaddlq_s16(s[2 * h + 1])));
}

PARE_INLINE void add_words(int32x4_t d[MT][2], const int8_t *x, size_t stride, const word *w,
                           size_t words, unsigned bits, size_t mt)
{
    const size_t most = bits == 4 ? words : 2;
    for (size_t i = 0; i < words; i += most) {
        int16x8_t s[MT][4];
        for (size_t t = 0; t < mt; t++)
            s[t][0] = s[t][1] = s[t][2] = s[t][3] = vdupq_n_s16(0);
        for (size_t j = i; j < i + most; j++)
            for (size_t t = 0; t < mt; t++)
                add_word(s[t], w + j, codes_8(x + j * stride + t * WORD, bits));
        for (size_t t = 0; t < mt; t++)
            widen(d[t], s[t]);
    }
}

// clang-format off
PARE_X24_KERNEL(4, neon)
PARE_X24_KERNEL(8, neon)
// clang-format on

#endif
