#define PARE_VNNI_BITS 512
#include "kernels/peaks.h"
#include "kernels/x86/peaks_vnni.h"

#ifdef PARE_VNNI

enum {
    AHEAD = 4096,
    FMA_VECTORS = PARE_PEAK_FMA_FLOP / 32, /* of a step */
    FMA_CHAINS = 12,
};

static uint64_t read_bytes(const void *p, size_t bytes)
{
    const char *const at = p;
    __m512i sum[4];
    for (size_t j = 0; j < 4; j++)
        sum[j] = _mm512_setzero_si512();
    for (size_t i = 0; i < bytes; i += 256)
        for (size_t j = 0; j < 4; j++) {
            _mm_prefetch(at + i + AHEAD + 64 * j, _MM_HINT_T0);
            sum[j] = _mm512_add_epi64(sum[j], _mm512_loadu_si512(at + i + 64 * j));
        }
    for (size_t j = 1; j < 4; j++)
        sum[0] = _mm512_add_epi64(sum[0], sum[j]);
    uint64_t lane[8], all = 0;
    _mm512_storeu_si512(lane, sum[0]);
    for (size_t j = 0; j < 8; j++)
        all += lane[j];
    return all;
}

static float fma_f32(size_t steps)
{
    __m512 acc[FMA_CHAINS], x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(1.0f);
    for (size_t j = 0; j < FMA_CHAINS; j++)
        acc[j] = _mm512_setzero_ps();
    for (size_t i = 0; i < steps * FMA_VECTORS; i += FMA_CHAINS) {
        __asm__ volatile("" : "+v"(x), "+v"(y));
        for (size_t j = 0; j < FMA_CHAINS; j++)
            acc[j] = _mm512_fmadd_ps(acc[j], x, y);
    }
    for (size_t j = 1; j < FMA_CHAINS; j++)
        acc[0] = _mm512_add_ps(acc[0], acc[j]);
    return _mm512_cvtss_f32(acc[0]);
}

void pare_peaks_init_avx512(pare_peaks *p)
{
    *p = (pare_peaks){read_bytes, fma_f32, dot_int8, NULL, NULL};
}

#endif
