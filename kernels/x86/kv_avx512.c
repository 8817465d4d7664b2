/* Mixing with vectors of 16 channels: a tile of 4 tokens by 64 channels stays in registers. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI

enum { TOKENS = 4, LINES = 4, WIDTH = 16, AHEAD = 4096 /* bytes of prefetch distance */ };

/* `tokens` x `lines` x 16 outputs; `mask` for the last line. Asks for `fetch` bytes of what lies
 * behind each row of v. */
PARE_INLINE void mix(float *y, size_t ldy, const float *p, size_t ldp, const float *v, size_t ldv,
                     size_t n, size_t tokens, size_t lines, __mmask16 mask, size_t fetch)
{
    __m512 acc[TOKENS][LINES], w[LINES];
    for (size_t t = 0; t < tokens; t++)
        for (size_t l = 0; l < lines; l++)
            acc[t][l] =
                _mm512_maskz_loadu_ps(l + 1 < lines ? 0xffff : mask, y + t * ldy + WIDTH * l);
    for (size_t j = 0; j < n; j++, v += ldv) {
        for (size_t i = 0; i < fetch; i += 64)
            _mm_prefetch((const char *)v + AHEAD + i, _MM_HINT_T0);
        for (size_t l = 0; l < lines; l++)
            w[l] = _mm512_maskz_loadu_ps(l + 1 < lines ? 0xffff : mask, v + WIDTH * l);
        for (size_t t = 0; t < tokens; t++) {
            const __m512 weight = _mm512_set1_ps(p[t * ldp + j]);
            for (size_t l = 0; l < lines; l++)
                acc[t][l] = _mm512_fmadd_ps(weight, w[l], acc[t][l]);
        }
    }
    for (size_t t = 0; t < tokens; t++)
        for (size_t l = 0; l < lines; l++)
            _mm512_mask_storeu_ps(y + t * ldy + WIDTH * l, l + 1 < lines ? 0xffff : mask,
                                  acc[t][l]);
}

PARE_INLINE void mix_all(float *y, size_t ldy, const float *p, size_t ldp, const float *v,
                         size_t ldv, size_t m, size_t n, size_t lines, __mmask16 mask, size_t fetch)
{
    size_t t = 0;
    for (; t + TOKENS <= m; t += TOKENS)
        mix(y + t * ldy, ldy, p + t * ldp, ldp, v, ldv, n, TOKENS, lines, mask, t ? 0 : fetch);
    for (; t < m; t++)
        mix(y + t * ldy, ldy, p + t * ldp, ldp, v, ldv, n, 1, lines, mask, t ? 0 : fetch);
}

void pare_kv_mix_avx512(float *y, size_t ldy, const float *p, size_t ldp, const float *v,
                        size_t ldv, size_t m, size_t n, size_t d)
{
    for (size_t c = 0; c < d; c += WIDTH * LINES, y += WIDTH * LINES, v += WIDTH * LINES) {
        const size_t left = d - c < WIDTH * LINES ? d - c : WIDTH * LINES;
        const size_t lines = (left + WIDTH - 1) / WIDTH, fetch = left * sizeof *v;
        const __mmask16 mask = (__mmask16)(0xffffu >> (lines * WIDTH - left));
        switch (lines) {
        case 1: mix_all(y, ldy, p, ldp, v, ldv, m, n, 1, mask, fetch); break;
        case 2: mix_all(y, ldy, p, ldp, v, ldv, m, n, 2, mask, fetch); break;
        case 3: mix_all(y, ldy, p, ldp, v, ldv, m, n, 3, mask, fetch); break;
        default: mix_all(y, ldy, p, ldp, v, ldv, m, n, LINES, mask, fetch);
        }
    }
}

#endif
