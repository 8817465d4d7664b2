/* kernels/x86/gemm_x8_one_vnni.h - packed weights by int8 activations of one token: what
 * gemm_x8_avxvnni.c and gemm_x8_avx512.c share. Each of them first defines FIELDS, add_atom and
 * sum_fields, how a token meets an atom.
 *
 * Memory is the limit. Codes are masked, but not shifted: fields of one place have sums of their
 * own, multiples of a power of two, shifted once per group. The largest are 240 * 127 * 32768 and
 * 192 * 127 * 16384, below 2^31. */
#ifndef PARE_KERNELS_X86_GEMM_X8_ONE_VNNI_H
#define PARE_KERNELS_X86_GEMM_X8_ONE_VNNI_H

#include "kernels/layout.h"
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI

enum { AHEAD = 4096 /* bytes of prefetch distance */ };

/* Eight rows by one token. z: zero point of all weights, or -1. */
PARE_INLINE void one_token(float *y, const pare_x8 *x, const pare_panel *w, size_t row,
                           unsigned bits, int z)
{
    const size_t size = pare_atom_bytes(bits), groups = (w->k + w->group - 1) / w->group;
    const uint8_t *atom = w->codes + row / 8 * (w->k / PARE_ATOM_K) * size;
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = 0, k = 0; k < x->k; b++) {
        const size_t g = row * groups + k / w->group * 8;
        const size_t end = x->k - k < x->group ? x->k : k + x->group;
        vec d[FIELDS];
        for (size_t i = 0; i < FIELDS; i++)
            d[i] = VS(setzero)();
        for (; k < end; k += PARE_ATOM_K, atom += size) {
            for (size_t line = 0; line < size; line += 64)
                prefetch_stream(atom + line, AHEAD);
            add_atom(d, atom, x->codes + k, bits);
        }
        const __m256i zero = z >= 0 ? _mm256_set1_epi32(z)
                                    : _mm256_cvtepu8_epi32(_mm_loadl_epi64(
                                          (const __m128i *)(const void *)(w->zeros + g)));
        const __m256i sum = _mm256_sub_epi32(
            sum_fields(d, bits), _mm256_mullo_epi32(zero, _mm256_set1_epi32(x->sums[b])));
        const __m256 s = _mm256_mul_ps(load_scales(w->scales + g), _mm256_set1_ps(x->scales[b]));
        acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), s, acc);
    }
    _mm256_storeu_ps(y + row, acc);
}

#endif

#endif
