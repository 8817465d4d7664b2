/* kernels/x86/peaks_vnni.h - the loop that reaches the limit of sums of four u8 x s8 products. */
#ifndef PARE_KERNELS_X86_PEAKS_VNNI_H
#define PARE_KERNELS_X86_PEAKS_VNNI_H

#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI

enum {
    INT8_VECTORS = PARE_PEAK_INT8_OP / (8 * WIDE * 4 * 2), /* of a step */
    INT8_CHAINS = 12,                                      /* more than latency times units */
};

static uint32_t dot_int8(size_t steps)
{
    vec acc[INT8_CHAINS], u = V(set1_epi8)(3), x = V(set1_epi8)(1);
    for (size_t j = 0; j < INT8_CHAINS; j++)
        acc[j] = VS(setzero)();
    for (size_t i = 0; i < steps * INT8_VECTORS; i += INT8_CHAINS) {
        __asm__ volatile("" : "+x"(u), "+x"(x));
        for (size_t j = 0; j < INT8_CHAINS; j++)
            acc[j] = dot(acc[j], u, x);
    }
    for (size_t j = 1; j < INT8_CHAINS; j++)
        acc[0] = V(add_epi32)(acc[0], acc[j]);
    uint32_t lane[8 * WIDE];
    store_vec(lane, acc[0]);
    return lane[0];
}
#endif

#endif
