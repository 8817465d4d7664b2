/* What rows of logits come to: the experts of a row, the logarithm of its sum, how far two rows are
 * apart. A warp per row of a router, a block per row of a vocabulary, which it reads two or three
 * times.
 * Bound: bytes of the rows over the bandwidth of the memory, of L2 while they stay there; e^x in
 * double on chips that have few units for it. */
#include "kernels/cuda/device.cuh"

static constexpr uint32_t NONE = 0xffffffffu;

/* The largest of a row and the first index of it among lanes. */
static __device__ void warp_best(float *value, uint32_t *index)
{
    for (int h = 16; h > 0; h /= 2) {
        const float v = __shfl_xor_sync(PARE_CUDA_ALL, *value, h);
        const uint32_t i = __shfl_xor_sync(PARE_CUDA_ALL, *index, h);
        if (v > *value || (v == *value && i < *index)) {
            *value = v;
            *index = i;
        }
    }
}

/* p of a row in place; whether all are numbers. */
static __device__ bool softmax(float *r, uint32_t n)
{
    const uint32_t lane = threadIdx.x % 32;
    float most = r[0];
    double total = 0;
    for (uint32_t i = lane; i < n; i += 32)
        most = r[i] > most ? r[i] : most;
    most = warp_largest(most);
    for (uint32_t i = lane; i < n; i += 32)
        r[i] = (float)exp_double((double)(r[i] - most));
    __syncwarp();
    for (uint32_t i = 0; i < n; i++)
        total += (double)r[i];
    __syncwarp();
    for (uint32_t i = lane; i < n; i += 32)
        r[i] = (float)((double)r[i] / total);
    return total > 0;
}

PARE_CUDA_KERNEL(route, PARE_CUDA_WARPS * 32)
{
    const uint64_t row = warp_index();
    if (row >= a.rows)
        return;
    const uint32_t lane = threadIdx.x % 32, n = (uint32_t)a.experts, used = (uint32_t)a.used;
    float *const r = a.logit + row * n, *const weight = a.weight + row * used;
    const bool numbers = softmax(r, n);
    double total = 0;
    for (uint32_t i = 0; i < used; i++) {
        __syncwarp();
        float best = __uint_as_float(0xff800000u);
        uint32_t at = NONE;
        for (uint32_t j = lane; j < n; j += 32)
            if (r[j] > best) {
                best = r[j];
                at = j;
            }
        warp_best(&best, &at);
        if (!numbers) {
            best = __uint_as_float(0x7fc00000u);
            at = i;
        }
        total += (double)best;
        __syncwarp();
        if (lane == 0) {
            a.picked[row * used + i] = at;
            weight[i] = best;
            r[at] = -1; /* below every p */
        }
    }
    for (uint32_t i = 0; lane == 0 && a.norm && i < used; i++)
        weight[i] = (float)((double)weight[i] / total);
}

/* The largest of a row, in all threads; a NaN is never largest. Between two calls all must meet. */
static __device__ float block_largest(const float *x, uint32_t n)
{
    __shared__ float of_warp[32];
    const uint32_t warps = blockDim.x / 32;
    float most = __uint_as_float(0xff800000u);
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
        most = x[i] > most ? x[i] : most;
    most = warp_largest(most);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = most;
    __syncthreads();
    return warp_largest(of_warp[threadIdx.x % 32 % warps]);
}

/* First index whose value is `most`, else 0; the result is that of thread 0. */
static __device__ uint64_t block_first(const float *x, uint32_t n, float most)
{
    __shared__ uint32_t of_warp[32];
    uint32_t at = NONE;
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
        at = x[i] == most ? min(at, i) : at;
    for (int h = 16; h > 0; h /= 2)
        at = min(at, __shfl_xor_sync(PARE_CUDA_ALL, at, h));
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = at;
    __syncthreads();
    for (uint32_t i = 0; i < blockDim.x / 32; i++)
        at = min(at, of_warp[i]);
    return at == NONE ? 0 : at;
}

/* Sum of e(x - most): blocks of 64 in eight lanes of F32, the blocks in order in double
 * (pare_logsumexp). The result is that of thread 0, which adds the blocks of a chunk while the next
 * one is summed. */
static __device__ double block_total(const float *x, uint32_t n, float most)
{
    enum { BLOCKS = PARE_CUDA_WIDE / 8 }; /* at once, eight threads each */
    __shared__ float of_block[2][BLOCKS];
    double total = 0;
    for (uint32_t chunk = 0, turn = 0; chunk < n; chunk += BLOCKS * 64, turn ^= 1) {
        const uint32_t first = chunk + threadIdx.x / 8 * 64, at = first + threadIdx.x % 8;
        float value[8], sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            value[i] = at + 8 * i < n ? x[at + 8 * i] : 0;
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            if (at + 8 * i < n)
                sum += exp_float(value[i] - most);
        sum = lane_sum(sum);
        if (threadIdx.x % 8 == 0)
            of_block[turn][threadIdx.x / 8] = sum;
        __syncthreads();
        if (threadIdx.x)
            continue;
        const uint32_t count = min((uint32_t)BLOCKS, (n - chunk + 63) / 64);
#pragma unroll 16
        for (uint32_t b = 0; b < count; b++)
            total += (double)of_block[turn][b];
    }
    return total;
}

PARE_CUDA_KERNEL(score, PARE_CUDA_WIDE)
{
    const uint64_t row = blockIdx.x;
    const float *const x = a.logit + row * a.width;
    const uint32_t width = (uint32_t)a.width;
    const float most = block_largest(x, width);
    const uint64_t best = block_first(x, width, most);
    const double total = block_total(x, width, most);
    if (threadIdx.x == 0) {
        const double at = a.target ? (double)x[a.target[row]] : 0;
        a.score[row] = {(double)most, total, at, best};
    }
}

/* Sums in eight lanes of double each; threads 0 .. 23 are the lanes. */
PARE_CUDA_KERNEL(divergence, PARE_CUDA_BLOCK)
{
    __shared__ double term[3][PARE_CUDA_BLOCK];
    const uint64_t row = blockIdx.x * a.width;
    const float *const base = a.base + row, *const logit = a.logit + row;
    const double most0 = (double)block_largest(base, (uint32_t)a.width);
    __syncthreads();
    const double most = (double)block_largest(logit, (uint32_t)a.width);
    const uint32_t kind = threadIdx.x / 8, lane = threadIdx.x % 8;
    double sum = 0;
    for (uint64_t first = 0; first < a.width; first += PARE_CUDA_BLOCK) {
        const uint64_t i = first + threadIdx.x;
        if (i < a.width) {
            const double e0 = exp_double((double)base[i] - most0);
            term[0][threadIdx.x] = e0;
            term[1][threadIdx.x] = exp_double((double)logit[i] - most);
            term[2][threadIdx.x] = e0 * ((double)base[i] - (double)logit[i]);
        }
        __syncthreads();
        for (uint32_t j = lane; kind < 3 && j < PARE_CUDA_BLOCK && first + j < a.width; j += 8)
            sum += term[kind][j];
        __syncthreads();
    }
    if (threadIdx.x >= 32)
        return;
    sum = lane_sum(sum);
    const double total0 = __shfl_sync(PARE_CUDA_ALL, sum, 0);
    const double total = __shfl_sync(PARE_CUDA_ALL, sum, 8);
    const double part = __shfl_sync(PARE_CUDA_ALL, sum, 16);
    if (threadIdx.x == 0)
        a.sums[blockIdx.x] = {most0, total0, most, total, part};
}
