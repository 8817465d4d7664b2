/* kernels/cuda/coded.cuh - where tokens of a coded cache lie (runtime/kv.h). Tokens and planes are
 * fewer than 2^32: a division of 64 bits is a call, and its registers go to memory. The compiler
 * may divide before it knows whether it has to, so no divisor is 0. */
#ifndef PARE_KERNELS_CUDA_CODED
#define PARE_KERNELS_CUDA_CODED

#include "kernels/cuda/device.cuh"

/* In the order of positions; a query takes each position from one of them (pare__kv_source). */
enum { SINK, HELD, RECENT, SOURCES };

/* x[i] = p[i], i below n; `wide`: n is 8 and p lies at a multiple of 16 bytes. */
static __device__ inline void eight_floats(const float *p, uint32_t n, bool wide, float x[8])
{
    if (wide) {
        const float4 a = ((const float4 *)p)[0], b = ((const float4 *)p)[1];
        x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
        x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 8; i++)
        x[i] = i < n ? p[i] : 0;
}

static __device__ inline void eight_halves(const uint16_t *p, uint32_t n, bool wide, float x[8])
{
    uint4 all = {0, 0, 0, 0};
    if (wide)
        all = *(const uint4 *)p;
    const uint32_t word[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        uint16_t h = (uint16_t)(word[i / 2] >> i % 2 * 16);
        if (!wide && i < n)
            h = p[i];
        x[i] = float_of_f16(h);
    }
}

/* One plane of keys or values: a head of a sequence. */
struct plane_of {
    const pare_cuda_side &side;
    const pare_cuda_batch &b;
    const pare_cuda_kv &kv;
    const float *x; /* keys or values of the batch */
    uint32_t at;

    /* Where a token of the batch begins. */
    __device__ const float *batch_row(uint64_t token) const
    {
        const uint32_t heads = (uint32_t)b.kv_heads;
        const uint64_t row = at / heads * b.length + token - b.start;
        return x + (row * heads + at % heads) * b.head_dim;
    }

    /* Where a token lies that is not coded yet. */
    __device__ uint64_t slot_at(uint64_t token) const
    {
        const uint32_t slots = max((uint32_t)kv.slots, 1u);
        return ((uint64_t)at * slots + (uint32_t)token % slots) * b.head_dim;
    }

    /* Channel c of a token that is not coded, or not yet. */
    __device__ float recent(uint64_t token, uint64_t c) const
    {
        if (token >= b.start)
            return batch_row(token)[c];
        return float_of_f16(side.recent[slot_at(token) + c]);
    }

    __device__ uint8_t *codes(uint64_t token) const
    {
        return side.codes + (at * side.room + token) * ((b.head_dim + 7) / 8 * side.bits);
    }

    /* Where the scale of a channel lies: in the calibrated ones, or in those of the plane. */
    __device__ uint64_t scale_at(uint64_t token, uint64_t c) const
    {
        if (side.tokens == 0)
            return at % (uint32_t)b.kv_heads * b.head_dim + c;
        const uint64_t line = at * side.lines + (uint32_t)token / max(side.tokens, 1u);
        return line * side.entries + (uint32_t)c / max(side.group, 1u);
    }

    /* Channel c of a token as its code says. */
    __device__ float held(uint64_t token, uint64_t c) const
    {
        const uint32_t bit = (uint32_t)(c % 8) * side.bits, shift = bit % 8;
        const uint8_t *const p = codes(token) + c / 8 * side.bits + bit / 8;
        const uint32_t high = shift + side.bits > 8 ? p[1] : 0;
        const uint32_t code = (p[0] | high << 8) >> shift & ((1u << side.bits) - 1);
        const float level = side.levels      ? side.levels[code]
                            : side.bits == 8 ? (float)code - 128.0f
                                             : (float)code;
        const uint64_t i = scale_at(token, c);
        const uint16_t *const scales = side.tokens ? side.scales : side.fixed_scale;
        const uint16_t *const lows = side.tokens ? side.lows : side.fixed_low;
        return fmaf(level, float_of_f16(scales[i]), lows ? float_of_f16(lows[i]) : 0.0f);
    }

    __device__ float value(int source, uint64_t token, uint64_t c) const
    {
        if (source == SINK)
            return float_of_f16(side.sink[(at * kv.sink + token) * b.head_dim + c]);
        return source == HELD ? held(token, c) : recent(token, c);
    }

    /* Codes of channels c .. c + 7, c a multiple of 8. */
    __device__ uint64_t word(uint64_t token, uint32_t c) const
    {
        const uint8_t *const p = codes(token) + c / 8 * side.bits;
        if (side.bits == 8)
            return *(const uint64_t *)p;
        if (side.bits == 4)
            return *(const uint32_t *)p;
        return side.bits == 2 ? *(const uint16_t *)p
                              : p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    }

    /* held() of channels c .. c + n - 1. They share a scale, or each has its own. */
    __device__ void eight_held(uint64_t token, uint32_t c, uint32_t n, float x[8]) const
    {
        const uint64_t codes = word(token, c), first = scale_at(token, c);
        const bool each = side.tokens == 0 || side.group < 8;
        const uint16_t *const scales = side.tokens ? side.scales : side.fixed_scale;
        const uint16_t *const lows = side.tokens ? side.lows : side.fixed_low;
        float scale = float_of_f16(scales[first]), low = lows ? float_of_f16(lows[first]) : 0.0f;
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) {
            const uint32_t code = (uint32_t)(codes >> i * side.bits) & ((1u << side.bits) - 1);
            if (each && i < n) {
                scale = float_of_f16(scales[first + i]);
                low = lows ? float_of_f16(lows[first + i]) : 0.0f;
            }
            const float level = side.levels      ? side.levels[code]
                                : side.bits == 8 ? (float)code - 128.0f
                                                 : (float)code;
            x[i] = fmaf(level, scale, low);
        }
    }

    /* value() of channels c .. c + 7, c a multiple of 8; behind the last channel anything. */
    __device__ void eight(int source, uint64_t token, uint32_t c, float x[8]) const
    {
        const uint64_t d = b.head_dim;
        const uint32_t n = d - c < 8 ? (uint32_t)(d - c) : 8;
        const bool wide = d % 8 == 0;
        if (source == HELD)
            eight_held(token, c, n, x);
        else if (source == RECENT && token >= b.start)
            eight_floats(batch_row(token) + c, n, wide, x);
        else
            eight_halves(source == SINK ? side.sink + (at * kv.sink + token) * d + c
                                        : side.recent + slot_at(token) + c,
                         n, wide, x);
    }
};

#endif
