#include "kernels/peaks.h"

#include <string.h>

#include "kernels/kernels_internal.h"

static uint64_t read_bytes(const void *p, size_t bytes)
{
    uint64_t sum[4] = {0};
    for (size_t i = 0; i + 32 <= bytes; i += 32) {
        uint64_t word[4];
        memcpy(word, (const char *)p + i, sizeof word);
        for (size_t j = 0; j < 4; j++)
            sum[j] += word[j];
    }
    return sum[0] + sum[1] + sum[2] + sum[3];
}

static float fma_f32(size_t steps)
{
    float acc[PARE_PEAK_FMA_FLOP / 2], sum = 0.0f;
    for (size_t j = 0; j < PARE_PEAK_FMA_FLOP / 2; j++)
        acc[j] = (float)j;
    for (size_t i = 0; i < steps; i++)
        for (size_t j = 0; j < PARE_PEAK_FMA_FLOP / 2; j++)
            acc[j] = acc[j] * 0.5f + 1.0f;
    for (size_t j = 0; j < PARE_PEAK_FMA_FLOP / 2; j++)
        sum += acc[j];
    return sum;
}

static uint32_t dot_int8(size_t steps)
{
    uint32_t acc[PARE_PEAK_INT8_OP / 2] = {0}, sum = 0;
    for (size_t i = 0; i < steps; i++)
        for (size_t j = 0; j < PARE_PEAK_INT8_OP / 2; j++)
            acc[j] += (uint32_t)((uint8_t)i * (int8_t)j);
    for (size_t j = 0; j < PARE_PEAK_INT8_OP / 2; j++)
        sum += acc[j];
    return sum;
}

void pare_peaks_init(pare_peaks *p, unsigned cpu)
{
    *p = (pare_peaks){read_bytes, fma_f32, dot_int8, NULL, NULL};
#if defined(__x86_64__)
    if (cpu & PARE_CPU_AVX2)
        pare_peaks_init_avx2(p);
    if (cpu & PARE_CPU_AVXVNNI)
        pare_peaks_init_avxvnni(p);
    if (cpu & PARE_CPU_AVX512)
        pare_peaks_init_avx512(p);
    if (cpu & PARE_CPU_AMX)
        pare_peaks_init_amx(p);
#elif defined(__aarch64__)
    pare_peaks_init_arm(p, cpu);
#else
    (void)cpu;
#endif
}
