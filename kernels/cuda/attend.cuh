/* kernels/cuda/attend.cuh - what a block of attention has and sees (runtime/attention.c): rows are
 * queries of heads that share a KV head, query after query. */
#ifndef PARE_KERNELS_CUDA_ATTEND
#define PARE_KERNELS_CUDA_ATTEND

#include "kernels/cuda/coded.cuh"

static constexpr uint32_t KV = PARE_CUDA_KV, CHUNK = 32 /* channels of keys at a time */;

/* Positions begin .. end - 1 behind the first one of those in question. */
struct span {
    uint32_t begin, end;
};

/* Rows of a KV head, from `row` on; at most MOST. */
template <uint32_t MOST> struct rows_of {
    const pare_cuda_attention &a;
    uint32_t first, last; /* positions of the first and last query */
    uint32_t plane, row, group, rows;

    __device__ rows_of(const pare_cuda_attention &call, uint32_t index, uint32_t tile)
        : a(call), plane((uint32_t)call.plane + index), row(tile * MOST),
          group((uint32_t)call.heads / (uint32_t)call.b.kv_heads)
    {
        rows = min(MOST, pare_cuda_attend_rows(&a) - row);
        first = position(0);
        last = position(rows - 1);
    }

    __device__ uint32_t position(uint32_t i) const
    {
        return (uint32_t)a.b.start + (row + i) / group;
    }

    /* Where the row begins in q and y. */
    __device__ uint64_t at(uint32_t i) const
    {
        const uint32_t heads = (uint32_t)a.b.kv_heads;
        const uint64_t query = plane / heads * a.b.length + (row + i) / group;
        return (query * a.heads + plane % heads * group + (row + i) % group) * a.b.head_dim;
    }

    /* First position that a query sees. */
    __device__ uint32_t low(uint32_t position) const
    {
        return a.window && position + 1 > a.window ? position + 1 - (uint32_t)a.window : 0;
    }

    /* Of the n positions from c0 on, what the query at `position` sees. */
    __device__ span seen(uint32_t position, uint32_t c0, uint32_t n) const
    {
        const uint32_t end = max(min(position + 1, c0 + n), c0);
        return {min(max(low(position), c0), end) - c0, end - c0};
    }

    /* And reads from a source (pare__kv_columns). */
    template <bool KEY>
    __device__ span reads(int source, uint32_t position, uint32_t c0, uint32_t n) const
    {
        const pare_cuda_side &s = KEY ? a.kv.key : a.kv.value;
        const uint32_t all = ~0u, sink = (uint32_t)a.kv.sink;
        const uint32_t coded =
            a.kv.window ? (uint32_t)pare_cuda_coded(&a.kv, &s, position + 1) : all;
        const uint32_t recent = max(sink, coded);
        const uint32_t from = source == SINK ? 0 : source == HELD ? sink : recent;
        const uint32_t to = source == SINK ? sink : source == HELD ? recent : all;
        const uint32_t c1 = max(min(position + 1, c0 + n), c0), begin = min(max(c0, from), c1);
        const uint32_t end = max(begin, min(c1, to));
        return {min(max(begin, low(position)), end) - c0, end - c0};
    }

    /* And what any of the rows reads: both ends grow with the position. */
    template <bool KEY> __device__ span all_read(int source, uint32_t c0, uint32_t n) const
    {
        return {reads<KEY>(source, max(first, c0), c0, n).begin,
                reads<KEY>(source, last, c0, n).end};
    }

    /* True when all rows read the same. */
    template <bool KEY> __device__ bool alike(int source, uint32_t c0, uint32_t n) const
    {
        const span one = reads<KEY>(source, first, c0, n), other = reads<KEY>(source, last, c0, n);
        return one.begin == other.begin && one.end == other.end;
    }

    /* Channels c .. c + 7 of a token's key or value, c a multiple of 8. */
    template <bool KEY>
    __device__ void eight(int source, uint64_t token, uint32_t c, float x[8]) const
    {
        const plane_of p = {KEY ? a.kv.key : a.kv.value, a.b, a.kv, KEY ? a.b.k : a.b.v, plane};
        const uint32_t d = (uint32_t)a.b.head_dim, n = min(d - c, 8u);
        if (!KEY && a.kv.values)
            eight_floats(a.kv.values + (a.kv.capacity * plane + token) * d + c, n, d % 8 == 0, x);
        else
            p.eight(source, token, c, x);
        if (KEY && a.cosine)
            rotate(p, source, token, c, x);
    }

    /* Keys that are kept as they are before RoPE. */
    __device__ void rotate(const plane_of &p, int source, uint64_t token, uint32_t c,
                           float x[8]) const
    {
        const uint32_t half = (uint32_t)a.half;
        const float *const cosine = a.cosine + token * half, *const sine = a.sine + token * half;
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) {
            const uint32_t j = c + i;
            if (j >= 2 * half)
                continue;
            const uint32_t pair = j < half ? j : j - half;
            const float other = p.value(source, token, j < half ? j + half : pair);
            const float turned = other * (j < half ? -sine[pair] : sine[pair]);
            x[i] = x[i] * cosine[pair] + turned;
        }
    }

    /* Channels c .. of queries into q[channel][MOST]; rows that there are not are 0. */
    __device__ void fetch_queries(float *q, uint32_t c) const
    {
        const uint32_t d = (uint32_t)a.b.head_dim;
        for (uint32_t u = threadIdx.x; u < CHUNK / 8 * MOST; u += blockDim.x) {
            const uint32_t i = u % MOST, from = c + u / MOST * 8;
            float x[8] = {};
            if (i < rows && from < d)
                eight_floats(a.q + at(i) + from, min(d - from, 8u), d % 8 == 0, x);
#pragma unroll
            for (uint32_t j = 0; j < 8; j++)
                q[(u / MOST * 8 + j) * MOST + i] = x[j];
        }
    }

    /* Channels c .. of the keys of tokens c0 + s into k[channel][KV], by THREADS threads. PLAIN:
     * the cache is known to have F32. */
    template <uint32_t THREADS, bool PLAIN = false>
    __device__ void fetch_keys(float *k, int source, uint32_t c0, span s, uint32_t c) const
    {
        const uint32_t d = (uint32_t)a.b.head_dim;
        if (a.kv.keys) {
            const uint64_t room = (a.kv.capacity + KV - 1) / KV * KV; /* of a plane */
            const float4 *const from =
                (const float4 *)(a.kv.keys + (room * plane + c0) * d) + (uint64_t)c * (KV / 4);
            const uint32_t count = min(d - c, CHUNK) * (KV / 4);
            constexpr uint32_t EACH = CHUNK * (KV / 4) / THREADS;
            float4 x[EACH]; /* all loads first */
#pragma unroll
            for (uint32_t i = 0; i < EACH; i++)
                if (threadIdx.x + i * THREADS < count)
                    x[i] = from[threadIdx.x + i * THREADS];
#pragma unroll
            for (uint32_t i = 0; i < EACH; i++)
                if (threadIdx.x + i * THREADS < count)
                    ((float4 *)k)[threadIdx.x + i * THREADS] = x[i];
            return;
        }
        for (uint32_t u = threadIdx.x; !PLAIN && u < CHUNK / 8 * KV; u += blockDim.x) {
            const uint32_t t = u % KV, from = c + u / KV * 8;
            float x[8];
            if (t < s.begin || t >= s.end || from >= d)
                continue;
            eight<true>(source, (uint64_t)c0 + t, from, x);
#pragma unroll
            for (uint32_t j = 0; j < 8; j++)
                k[(u / KV * 8 + j) * KV + t] = x[j];
        }
    }
};

/* Eight lanes have the scores of a block of positions: x[i] = p[lane + 8 i], n of them; capped
 * where the family has a cap. Returns the largest of them, of none -infinity; a NaN is never
 * largest. */
static __device__ inline float octet_scores(const pare_cuda_attention &a, float *p, uint32_t n,
                                            float x[8])
{
    const uint32_t lane = threadIdx.x % 8;
    float largest = __uint_as_float(0xff800000u);
    if (a.cap > 0)
#pragma unroll 1
        for (uint32_t i = lane; i < n; i += 8)
            p[i] = (float)(a.cap - 2.0 * a.cap /
                                       (exp_double((double)p[i] * (2.0 * a.scale / a.cap)) + 1.0));
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        x[i] = lane + 8 * i < n ? p[lane + 8 * i] : largest;
        largest = x[i] > largest ? x[i] : largest;
    }
    for (int h = 4; h > 0; h /= 2) {
        const float other = __shfl_xor_sync(PARE_CUDA_ALL, largest, h);
        largest = other > largest ? other : largest;
    }
    return largest;
}

/* What the scores are multiplied with: those under a cap have been. */
static __device__ inline float scale_of(const pare_cuda_attention &a)
{
    return a.cap > 0 ? 1.0f : (float)a.scale;
}

/* By which what was gathered shrinks when `largest` becomes the largest score. */
static __device__ inline float shrink_of(const pare_cuda_attention &a, float most, float largest)
{
    return most == largest ? 1.0f : exp_float((most - largest) * scale_of(a));
}

/* Scores become weights; their sum. */
static __device__ inline float octet_weights(const pare_cuda_attention &a, float *p, uint32_t n,
                                             const float x[8], float largest)
{
    const uint32_t lane = threadIdx.x % 8;
    float sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < 8; i++)
        if (lane + 8 * i < n) {
            const float weight = exp_float((x[i] - largest) * scale_of(a));
            p[lane + 8 * i] = weight;
            sum += weight;
        }
    return lane_sum(sum);
}

#endif
