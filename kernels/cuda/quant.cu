/* Integer activations: a warp, or a block of threads where it is long, per span of values that
 * share a scale, which they read twice. What the order of a sum or of a maximum is does not matter:
 * sums are integers, bits of absolute values are in the order of the values, those of a NaN above
 * all. Bound: the row once from the memory and once from L1, a quarter of it out. */
#include "kernels/cuda/device.cuh"

/* Absolute bits of value i of a token, 0 where it is skipped. */
static __device__ float value_at(const float *x, const uint8_t *skip, uint32_t i)
{
    return skip && skip[i] ? 0.0f : x[i];
}

/* Of a warp; of the block where it is one team. */
template <class OP> static __device__ uint32_t team(uint32_t x, bool block, OP op)
{
    __shared__ uint32_t of_warp[PARE_CUDA_WIDE / 32];
    for (int h = 16; h > 0; h /= 2)
        x = op(x, __shfl_xor_sync(PARE_CUDA_ALL, x, h));
    if (!block)
        return x;
    __syncthreads(); /* nobody reads the one before */
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = of_warp[0];
    for (uint32_t i = 1; i < blockDim.x / 32; i++)
        x = op(x, of_warp[i]);
    return x;
}

static __device__ float team_most(const float *x, const uint8_t *skip, uint32_t n, bool block)
{
    uint32_t most = 0;
    for (uint32_t i = block ? threadIdx.x : threadIdx.x % 32; i < n; i += block ? blockDim.x : 32)
        most = max(most, __float_as_uint(value_at(x, skip, i)) & 0x7fffffffu);
    return __uint_as_float(team(most, block, [](uint32_t a, uint32_t b) { return max(a, b); }));
}

static __device__ int8_t code_of(float x, float inverse, float top)
{
    float q = rintf(x * inverse);
    q = q < top ? q : top;
    q = q > -top ? q : -top;
    return is_finite(inverse) ? (int8_t)q : 0;
}

PARE_CUDA_KERNEL(quant_x8, PARE_CUDA_WIDE)
{
    const bool fixed = a.fixed > 0, wide = pare_cuda_wide_span(&a);
    const uint32_t k = (uint32_t)a.k, wide_k = (k + 31) / 32 * 32;
    const uint32_t group = (uint32_t)min(a.group, (uint64_t)wide_k);
    const uint32_t span = fixed ? k : (uint32_t)min(a.span, a.k), spans = (k + span - 1) / span;
    const uint32_t groups = (k + group - 1) / group;
    const uint32_t index = wide ? blockIdx.x : (uint32_t)warp_index();
    const uint64_t t = index / spans;
    const uint32_t first = index % spans * span;
    if (t >= a.m)
        return;
    const float *const x = a.x + t * a.ldx + first;
    const uint8_t *const skip = a.skip ? a.skip + first : nullptr;
    const uint32_t n = min(k - first, span),
                   end = first + n == k ? wide_k - first : n; /* with the codes behind the row */
    const float most = team_most(x, skip, n, wide), top = (float)a.top;
    const float nan = __uint_as_float(0x7fc00000u);
    const float step = fixed ? (is_finite(most) ? a.fixed : nan) : most / top;
    const float inverse = fixed ? 1.0f / step : top / most;
    const bool vanishes = (__float_as_uint(inverse) & 0x7fffffffu) == 0x7f800000u;
    /* Of a block, all threads take one group, or its warps take groups in turn. */
    const bool one = wide && group >= n;
    const uint32_t lane = one ? threadIdx.x : threadIdx.x % 32, lanes = one ? blockDim.x : 32;
    const uint32_t warp = wide && !one ? threadIdx.x / 32 : 0,
                   warps = wide && !one ? blockDim.x / 32 : 1;
    for (uint32_t begin = warp * group; begin < n; begin += warps * group) {
        const uint32_t to = end - begin < group ? end : begin + group;
        uint32_t sum = 0;
        for (uint32_t i = begin + lane; i < to; i += lanes) {
            const int8_t code = i < n ? code_of(value_at(x, skip, i), inverse, top) : 0;
            a.codes[t * wide_k + first + i] = code;
            sum += (uint32_t)(int32_t)code;
        }
        sum = team(sum, one, [](uint32_t a, uint32_t b) { return a + b; });
        if (lane == 0) {
            a.scales[t * groups + (first + begin) / group] = vanishes ? 0.0f : step;
            a.sums[t * groups + (first + begin) / group] = (int32_t)sum;
        }
    }
}
