/* kernels/cuda/coded.cuh - where tokens of a coded cache lie (runtime/kv.h). */
#ifndef PARE_KERNELS_CUDA_CODED
#define PARE_KERNELS_CUDA_CODED

#include "kernels/cuda/device.cuh"

/* One plane of keys or values: a head of a sequence. */
struct plane_of {
    const pare_cuda_side &side;
    const pare_cuda_batch &b;
    const pare_cuda_kv &kv;
    const float *x; /* keys or values of the batch */
    uint64_t at;

    /* Where a token of the batch begins. */
    __device__ const float *batch_row(uint64_t token) const
    {
        const uint64_t row = at / b.kv_heads * b.length + token - b.start;
        return x + (row * b.kv_heads + at % b.kv_heads) * b.head_dim;
    }

    /* Channel c of a token that is not coded, or not yet. */
    __device__ float recent(uint64_t token, uint64_t c) const
    {
        if (token >= b.start)
            return batch_row(token)[c];
        return float_of_f16(side.recent[(at * kv.slots + token % kv.slots) * b.head_dim + c]);
    }

    __device__ uint8_t *codes(uint64_t token) const
    {
        return side.codes + (at * side.room + token) * ((b.head_dim + 7) / 8 * side.bits);
    }

    /* Where the scale of a channel lies: in the calibrated ones, or in those of the plane. */
    __device__ uint64_t scale_at(uint64_t token, uint64_t c) const
    {
        if (side.tokens == 0)
            return at % b.kv_heads * b.head_dim + c;
        return (at * side.lines + token / side.tokens) * side.entries + c / side.group;
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
};

#endif
