/* Products of integer activations and 2:4 weights, by sums of four products: a warp takes a row
 * block of 8 rows and up to 8 tokens, lane 8 s + g of it row g and a quarter of the columns. Sums
 * of a group are integers; a step per group follows in order. So the result is that of the
 * reference, to the bit. Bound: bytes of the weights over the bandwidth of the memory, for each 8
 * tokens. */
#include "kernels/cuda/device.cuh"

/* 2:4 weights: of 32 columns a row has 16 places, which are half an atom. Codes of 4 bits come as
 * 16 (code - 8), which `shift` takes back. */
template <uint32_t BITS> struct sparse {
    static constexpr uint32_t shift = BITS == 4 ? 4 : 0;

    template <int TOKENS>
    static __device__ void add(int *d, const pare_panel &w, uint64_t block, uint64_t atom,
                               const int8_t *const *x)
    {
        const uint32_t s = threadIdx.x % 32 / 8, g = threadIdx.x % 8, half = (uint32_t)atom % 2;
        const uint64_t at = block * ((w.k + 63) / 64) + atom / 2;
        const uint32_t *const word = (const uint32_t *)(w.codes + at * BITS * 32);
        const uint32_t index = ((const uint32_t *)(w.indices + at * 64))[8 * half + g] >> 2 * s;
        const uint32_t pick = (index & 3u) | (index >> 4 & 0x30u) | ((index >> 16 & 3u) | 4u) << 8 |
                              ((index >> 24 & 3u) | 4u) << 12;
        const uint32_t codes = BITS == 8 ? word[32 * half + 8 * s + g] : word[8 * s + g];
        const uint32_t sixteen = (half ? codes : codes << 4) & 0xf0f0f0f0u;
        const int quad = (int)(BITS == 8 ? codes : sixteen ^ 0x80808080u);
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            const uint32_t *const eight = (const uint32_t *)(x[t] + atom * 32) + 2 * s;
            d[t] = __dp4a(quad, (int)__byte_perm(eight[0], eight[1], pick), d[t]);
        }
    }
};

/* The sums over all lanes that have a row, in each of them. */
static __device__ int row_sum(int d)
{
    d += __shfl_xor_sync(PARE_CUDA_ALL, d, 8);
    return d + __shfl_xor_sync(PARE_CUDA_ALL, d, 16);
}

/* Tokens t0 .. t0 + TOKENS - 1 of m, the last one standing in for those behind it. What codes are
 * less is `offset`; zero: of all weights, or -1: those of w. */
template <class CODES, int TOKENS, class ARGUMENT>
static __device__ void run(const ARGUMENT &a, uint64_t block, uint64_t t0, int offset, int zero)
{
    const uint64_t xgroups = (a.x.k + a.x.group - 1) / a.x.group;
    const uint64_t groups = (a.w.k + a.w.group - 1) / a.w.group;
    const uint32_t g = threadIdx.x % 8;
    const int8_t *x[TOKENS];
    uint64_t token[TOKENS];
    float sum[TOKENS];
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        token[t] = t0 + t < a.x.m ? t0 + t : a.x.m - 1;
        x[t] = a.x.codes + token[t] * a.x.k;
        sum[t] = 0;
    }
    for (uint64_t b = 0; b < xgroups; b++) {
        const uint64_t first = b * a.x.group / 32;
        const uint64_t end =
            (a.x.k / 32 < first + a.x.group / 32) ? a.x.k / 32 : first + a.x.group / 32;
        const uint64_t plane = (block * groups + first * 32 / a.w.group) * 8 + g;
        const float scale = float_of_f16(a.w.scales[plane]);
        const int z = (zero < 0 ? a.w.zeros[plane] : zero) - offset;
        int d[TOKENS] = {0};
        for (uint64_t atom = first; atom < end; atom++)
            CODES::template add<TOKENS>(d, a.w, block, atom, x);
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            const uint64_t at = token[t] * xgroups + b;
            const int whole = (row_sum(d[t]) >> CODES::shift) - (z ? z * a.x.sums[at] : 0);
            sum[t] = fmaf((float)whole, scale * a.x.scales[at], sum[t]);
        }
    }
    const uint64_t row = block * 8 + g;
#pragma unroll
    for (int t = 0; t < TOKENS; t++)
        if (t0 + t < a.x.m && row < a.n && threadIdx.x % 32 / 8 == t % 4) {
            float *const y = a.y + (t0 + t) * a.ldy + row;
            *y = a.add ? *y + sum[t] : sum[t];
        }
}

template <class CODES, class ARGUMENT>
static __device__ void run_all(const ARGUMENT &a, int offset, int zero)
{
    const uint64_t block = warp_index();
    if (block * 8 >= a.n)
        return;
    for (uint64_t t = (uint64_t)blockIdx.y * PARE_CUDA_TOKENS; t < a.x.m;
         t += (uint64_t)gridDim.y * PARE_CUDA_TOKENS) {
        const uint64_t left = a.x.m - t;
        if (left == 1)
            run<CODES, 1>(a, block, t, offset, zero);
        else if (left == 2)
            run<CODES, 2>(a, block, t, offset, zero);
        else if (left <= 4)
            run<CODES, 4>(a, block, t, offset, zero);
        else
            run<CODES, PARE_CUDA_TOKENS>(a, block, t, offset, zero);
    }
}

PARE_CUDA_KERNEL(gemm_x8_s4, PARE_CUDA_WARPS * 32)
{
    run_all<sparse<4>>(a, 0, 0);
}

PARE_CUDA_KERNEL(gemm_x8_s8, PARE_CUDA_WARPS * 32)
{
    run_all<sparse<8>>(a, 0, 0);
}
