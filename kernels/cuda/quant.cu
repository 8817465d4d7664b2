/* Integer activations: a warp per span of values that share a scale, which it reads twice. What the
 * order of a sum or of a maximum is does not matter: sums are integers, bits of absolute values are
 * in the order of the values, those of a NaN above all.
 * Bound: the row once from the memory and once from L1, a quarter of it out. */
#include "kernels/cuda/device.cuh"

/* Absolute bits of value i of a token, 0 where it is skipped. */
static __device__ float value_at(const float *x, const uint8_t *skip, uint64_t i)
{
    return skip && skip[i] ? 0.0f : x[i];
}

static __device__ float warp_most(const float *x, const uint8_t *skip, uint64_t n)
{
    uint32_t most = 0;
    for (uint64_t i = threadIdx.x % 32; i < n; i += 32)
        most = max(most, __float_as_uint(value_at(x, skip, i)) & 0x7fffffffu);
    for (int h = 16; h > 0; h /= 2)
        most = max(most, __shfl_xor_sync(PARE_CUDA_ALL, most, h));
    return __uint_as_float(most);
}

static __device__ int8_t code_of(float x, float inverse, float top)
{
    float q = rintf(x * inverse);
    q = q < top ? q : top;
    q = q > -top ? q : -top;
    return is_finite(inverse) ? (int8_t)q : 0;
}

PARE_CUDA_KERNEL(quant_x8, PARE_CUDA_WARPS * 32)
{
    const bool fixed = a.fixed > 0;
    const uint64_t span = fixed ? a.k : a.span, spans = (a.k + span - 1) / span;
    const uint64_t wide = (a.k + 31) / 32 * 32, groups = (a.k + a.group - 1) / a.group;
    const uint64_t t = warp_index() / spans, first = warp_index() % spans * span;
    if (t >= a.m)
        return;
    const float *const x = a.x + t * a.ldx + first;
    const uint8_t *const skip = a.skip ? a.skip + first : nullptr;
    const uint64_t n = a.k - first < span ? a.k - first : span;
    const uint64_t end = first + n == a.k ? wide - first : n; /* with the codes behind the row */
    const float most = warp_most(x, skip, n), top = (float)a.top;
    const float nan = __uint_as_float(0x7fc00000u);
    const float step = fixed ? (is_finite(most) ? a.fixed : nan) : most / top;
    const float inverse = fixed ? 1.0f / step : top / most;
    const bool vanishes = (__float_as_uint(inverse) & 0x7fffffffu) == 0x7f800000u;
    for (uint64_t begin = 0; begin < n; begin += a.group) {
        const uint64_t to = end - begin < a.group ? end : begin + a.group;
        int32_t sum = 0;
        for (uint64_t i = begin + threadIdx.x % 32; i < to; i += 32) {
            const int8_t code = i < n ? code_of(value_at(x, skip, i), inverse, top) : 0;
            a.codes[t * wide + first + i] = code;
            sum += code;
        }
        for (int h = 16; h > 0; h /= 2)
            sum += __shfl_xor_sync(PARE_CUDA_ALL, sum, h);
        if (threadIdx.x % 32 == 0) {
            a.scales[t * groups + (first + begin) / a.group] = vanishes ? 0.0f : step;
            a.sums[t * groups + (first + begin) / a.group] = sum;
        }
    }
}
