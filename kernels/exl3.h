/* kernels/exl3.h - the trellis codes of EXL3.
 *
 * A tile of 16 rows and 16 columns is a circular stream of 256 symbols of `bits` bits, 1 .. 8, the
 * highest bit first. The state at a position is the 16 bits of the stream that end with its symbol:
 * state = (state before << bits | symbol) mod 2^16. It stands for the value of its weight:
 *
 *   r = state * 0x83DCD12D mod 2^32,  S = the sum of the four bytes of r,
 *   value = f16(a (1024 + S) + b),  a = 0x1EEE, b = 0xC931 in F16: about (S - 510) / 147.8
 *
 * The exact sum is rounded once; in F32 it is exact.
 *
 * In a file and in memory the bytes of a tile are `bits` * 8 little-endian words of 32 bits; bit 31
 * of the first one is the first bit of the stream. Tiles of 16 rows follow each other by columns,
 * whose number is a multiple of 32; then come the next 16 rows. So 8 rows take as many bytes as
 * those of R8K32 (layout.h).
 *
 *   Source  turboderp, ExLlamaV3, exllamav3_ext/quant/codebook.cuh (mul1), pack.cu; Tseng et al.,
 *           QTIP, NeurIPS 2024. */
#ifndef PARE_KERNELS_EXL3_H
#define PARE_KERNELS_EXL3_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/half.h"

#define PARE_EXL3_MULTIPLIER 0x83DCD12DU

enum { PARE_EXL3_TILE = 16, PARE_EXL3_WEIGHTS = 256, PARE_EXL3_STATES = 1 << 16 };

static inline size_t pare_exl3_tile_bytes(unsigned bits)
{
    return (size_t)bits * (PARE_EXL3_WEIGHTS / 8);
}

static inline float pare_exl3_value(uint32_t state)
{
    const uint32_t r = state * PARE_EXL3_MULTIPLIER;
    const uint32_t sum = (r & 0xFF) + (r >> 8 & 0xFF) + (r >> 16 & 0xFF) + (r >> 24);
    const float a = 0x1.bb8p-8F, b = -0x1.4c4p3F; /* 0x1EEE, 0xC931 */
    const float value = a * (float)(1024 + sum);
    return pare_f16_to_f32(pare_f32_to_f16(value + b));
}

/* Row and column in the tile of the weight at a position of the stream. */
static inline unsigned pare_exl3_row(unsigned position)
{
    return (position >> 5) + 8 * (position >> 2 & 1);
}

static inline unsigned pare_exl3_column(unsigned position)
{
    return (position >> 3 & 3) * 2 + (position & 1) + 8 * (position >> 1 & 1);
}

/* Rows or columns that a Hadamard matrix mixes in a matrix that has `count` of them, a multiple of
 * 16: the largest power of two that divides count, at most 128. */
static inline size_t pare_exl3_span(size_t count)
{
    const size_t power = count & -count;
    return power < 128 ? power : 128;
}

/* Symbols of a tile, in the order of the stream, from its bytes and back. */
void pare_exl3_unpack(uint8_t symbol[PARE_EXL3_WEIGHTS], const uint8_t *bytes, unsigned bits);
void pare_exl3_pack(uint8_t *bytes, const uint8_t symbol[PARE_EXL3_WEIGHTS], unsigned bits);

/* Values of a tile, in the order of the stream, from its symbols. */
void pare_exl3_values(float value[PARE_EXL3_WEIGHTS], const uint8_t symbol[PARE_EXL3_WEIGHTS],
                      unsigned bits);

#endif
