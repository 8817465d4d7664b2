/* What rows of logits come to: the experts of a row, the logarithm of its sum, how far two rows are
 * apart. A warp per row of a router, blocks for parts of a row of a vocabulary, which
 * they read twice.
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

/* The largest of a part of a row and its first index, NONE of NaN alone. */
PARE_CUDA_KERNEL(score_parts, PARE_CUDA_BLOCK)
{
    __shared__ float value[PARE_CUDA_BLOCK / 32];
    __shared__ uint32_t index[PARE_CUDA_BLOCK / 32];
    const uint32_t width = (uint32_t)a.width, parts = pare_cuda_parts_of(width);
    const float *const x = a.logit + (uint64_t)(blockIdx.x / parts) * width;
    const uint32_t first = blockIdx.x % parts * PARE_CUDA_PART;
    const uint32_t end = min(width - first, (uint32_t)PARE_CUDA_PART) + first;
    float most = __uint_as_float(0xff800000u);
    uint32_t at = NONE;
#pragma unroll 8
    for (uint32_t i = first + threadIdx.x; i < end; i += PARE_CUDA_BLOCK) {
        const float v = x[i];
        if (v > most || (v == most && at == NONE)) {
            most = v;
            at = i;
        }
    }
    warp_best(&most, &at);
    if (threadIdx.x % 32 == 0) {
        value[threadIdx.x / 32] = most;
        index[threadIdx.x / 32] = at;
    }
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    most = value[threadIdx.x % (PARE_CUDA_BLOCK / 32)];
    at = index[threadIdx.x % (PARE_CUDA_BLOCK / 32)];
    warp_best(&most, &at);
    if (threadIdx.x == 0)
        a.part[blockIdx.x] = {most, at};
}

/* The largest of a row and its first index, in all lanes of a warp. */
static __device__ pare_cuda_part row_best(const pare_cuda_part *part, uint32_t parts)
{
    float most = __uint_as_float(0xff800000u);
    uint32_t at = NONE;
    for (uint32_t i = threadIdx.x % 32; i < parts; i += 32)
        if (part[i].most > most || (part[i].most == most && part[i].at < at)) {
            most = part[i].most;
            at = part[i].at;
        }
    warp_best(&most, &at);
    return {most, at};
}

/* Of each 64 values of a part of a row the sum of e(x - most), in eight lanes of F32
 * (pare_logsumexp): eight threads each. */
PARE_CUDA_KERNEL(score_sums, PARE_CUDA_BLOCK)
{
    const uint32_t width = (uint32_t)a.width, parts = pare_cuda_parts_of(width);
    const uint64_t row = blockIdx.x / parts;
    const float *const x = a.logit + row * width;
    const uint32_t blocks = (width + 63) / 64, first = blockIdx.x % parts * (PARE_CUDA_PART / 64);
    const uint32_t end = min(first + PARE_CUDA_PART / 64, blocks);
    const float most = row_best(a.part + row * parts, parts).most;
    for (uint32_t block = first + threadIdx.x / 8; block - threadIdx.x / 8 < end;
         block += PARE_CUDA_BLOCK / 8) {
        const uint32_t at = block * 64 + threadIdx.x % 8;
        float value[8], sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            value[i] = at + 8 * i < width ? x[at + 8 * i] : 0;
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            if (at + 8 * i < width)
                sum += exp_float(value[i] - most);
        sum = lane_sum(sum);
        if (threadIdx.x % 8 == 0 && block < end)
            a.sums[row * blocks + block] = sum;
    }
}

/* The sums in order, in double: thread 0 adds those of a chunk while the others fetch the next. */
PARE_CUDA_KERNEL(score, PARE_CUDA_BLOCK)
{
    enum { CHUNK = 1024 };
    __shared__ float sums[2][CHUNK];
    const uint64_t row = blockIdx.x;
    const uint32_t width = (uint32_t)a.width, parts = pare_cuda_parts_of(width);
    const uint32_t blocks = (width + 63) / 64;
    const float *const from = a.sums + row * blocks;
    double total = 0;
    for (uint32_t first = 0, turn = 0; first < blocks; first += CHUNK, turn ^= 1) {
        const uint32_t count = min(blocks - first, (uint32_t)CHUNK);
#pragma unroll
        for (uint32_t i = 0; i < CHUNK / PARE_CUDA_BLOCK; i++)
            if (threadIdx.x + i * PARE_CUDA_BLOCK < count)
                sums[turn][threadIdx.x + i * PARE_CUDA_BLOCK] =
                    from[first + threadIdx.x + i * PARE_CUDA_BLOCK];
        __syncthreads();
        if (threadIdx.x)
            continue;
#pragma unroll 16
        for (uint32_t i = 0; i < count; i++)
            total += (double)sums[turn][i];
    }
    if (threadIdx.x >= 32)
        return;
    const pare_cuda_part best = row_best(a.part + row * parts, parts);
    if (threadIdx.x == 0) {
        const double at = a.target ? (double)a.logit[row * width + a.target[row]] : 0;
        a.score[row] = {(double)best.most, total, at, best.at == NONE ? 0 : best.at};
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
