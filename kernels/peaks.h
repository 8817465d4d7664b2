/* kernels/peaks.h - loops that do nothing but reach a limit of one core, to measure it against.
 *
 * Each returns a value that depends on all its work, so that no compiler can leave it out. On CPUs
 * without a version of their own they are plain C and then measure what plain C reaches. */
#ifndef PARE_KERNELS_PEAKS_H
#define PARE_KERNELS_PEAKS_H

#include <stddef.h>
#include <stdint.h>

enum {
    PARE_PEAK_FMA_FLOP = 192, /* per step: 12 vectors of 8 multiply-adds */
    PARE_PEAK_INT8_OP = 512,  /* per step: 8 vectors of 32 products, each with its addition */
    /* per step: 4 products of tiles, 16 x 16 sums of 32 each, of 64 bytes each */
    PARE_PEAK_BF16_FLOP = 65536,
    PARE_PEAK_TILES_INT8_OP = 131072,
};

typedef struct pare_peaks {
    /* Reads `bytes` (multiple of 256) from p (aligned to 64) once, front to back. */
    uint64_t (*read_bytes)(const void *p, size_t bytes);
    /* F32 fused multiply-adds, in registers. */
    float (*fma_f32)(size_t steps);
    /* Products of bytes, added, in registers: the densest instruction for it that the level has, of
     * AVX2 u8 x s8 product pairs in 16 bits. */
    uint32_t (*dot_int8)(size_t steps);
    /* Products of tiles of BF16, of bytes, in registers; NULL where the level has no tiles. */
    float (*tiles_bf16)(size_t steps);
    float (*tiles_int8)(size_t steps);
} pare_peaks;

/* Fills *p for a CPU level, as pare_kernels_init. */
void pare_peaks_init(pare_peaks *p, unsigned cpu);

#endif
