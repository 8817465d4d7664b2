#include "kernels/peaks.h"
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

/* More chains than latency times units; few enough for 16 registers to hold them. */
enum { AHEAD = 2048, CHAINS = 12, INT8_CHAINS = 8 };

static uint64_t read_bytes(const void *p, size_t bytes)
{
    const char *const at = p;
    __m256i sum[8];
    for (size_t j = 0; j < 8; j++)
        sum[j] = _mm256_setzero_si256();
    for (size_t i = 0; i < bytes; i += 256) {
        for (size_t line = 0; line < 256; line += 64)
            _mm_prefetch(at + i + AHEAD + line, _MM_HINT_T0);
        for (size_t j = 0; j < 8; j++)
            sum[j] = _mm256_add_epi64(sum[j], load_32(at + i + 32 * j));
    }
    for (size_t j = 1; j < 8; j++)
        sum[0] = _mm256_add_epi64(sum[0], sum[j]);
    uint64_t lane[4];
    _mm256_storeu_si256((__m256i *)(void *)lane, sum[0]);
    return lane[0] + lane[1] + lane[2] + lane[3];
}

/* The empty asm statements hide the operands, so that the loop is neither shortened nor changed. */
static float fma_f32(size_t steps)
{
    __m256 acc[CHAINS], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(1.0f);
    for (size_t j = 0; j < CHAINS; j++)
        acc[j] = _mm256_setzero_ps();
    for (size_t i = 0; i < steps; i++) {
        __asm__ volatile("" : "+x"(x), "+x"(y));
        for (size_t j = 0; j < CHAINS; j++)
            acc[j] = _mm256_fmadd_ps(acc[j], x, y);
    }
    for (size_t j = 1; j < CHAINS; j++)
        acc[0] = _mm256_add_ps(acc[0], acc[j]);
    return _mm256_cvtss_f32(acc[0]);
}

static uint32_t dot_int8(size_t steps)
{
    __m256i acc[INT8_CHAINS], u = _mm256_set1_epi8(3), x = _mm256_set1_epi8(1);
    for (size_t j = 0; j < INT8_CHAINS; j++)
        acc[j] = _mm256_setzero_si256();
    for (size_t i = 0; i < steps; i++)
        for (size_t j = 0; j < INT8_CHAINS; j++) {
            __asm__ volatile("" : "+x"(u));
            acc[j] = _mm256_add_epi16(acc[j], _mm256_maddubs_epi16(u, x));
        }
    for (size_t j = 1; j < INT8_CHAINS; j++)
        acc[0] = _mm256_add_epi16(acc[0], acc[j]);
    return (uint32_t)_mm256_extract_epi32(acc[0], 0);
}

void pare_peaks_init_avx2(pare_peaks *p)
{
    *p = (pare_peaks){read_bytes, fma_f32, dot_int8, NULL, NULL};
}

#endif
