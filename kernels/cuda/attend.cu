/* Attention as runtime/attention.c defines it: a row is a query of a head and goes through blocks
 * of 64 positions in order. A block of threads has up to 16 rows that share a KV head, a warp every
 * fourth of them; keys and values of a block of positions lie decoded in shared memory, from up to
 * three sources: the sink, what is held (codes, or all of an F32 cache), recent tokens.
 * Bound: bytes of the cache, once for each 16 rows, over the bandwidth of the memory; of many
 * positions and few rows the chains of sums, which have one order. */
#include "kernels/cuda/coded.cuh"

enum { SINK, HELD, RECENT, SOURCES };

static constexpr int ROWS_OF_WARP = PARE_CUDA_ROWS / PARE_CUDA_WARPS;
static constexpr uint32_t LD = PARE_CUDA_KV + 1; /* between channels of keys */

extern __shared__ float shared_floats[];

/* Positions [begin, end). */
struct span {
    uint64_t begin, end;
};

/* The rows of a block, and what it reads. */
struct work {
    const pare_cuda_attend &a;
    uint64_t plane, first; /* position of the first query */
    uint32_t rows, heads, queries;
    float *tile, *q, *out, *scores;

    __device__ uint64_t position(uint32_t row) const { return first + row / heads; }

    /* First position that a query sees. */
    __device__ uint64_t low(uint64_t position) const
    {
        return a.window && position + 1 > a.window ? position + 1 - a.window : 0;
    }

    /* What the query at `position` reads of [c0, c1) from a source (pare__kv_columns). */
    __device__ span columns(int source, bool key, uint64_t position, uint64_t c0, uint64_t c1) const
    {
        const pare_cuda_side &s = key ? a.kv.key : a.kv.value;
        const uint64_t all = ~(uint64_t)0;
        const uint64_t coded = a.kv.window ? pare_cuda_coded(&a.kv, &s, position + 1) : all;
        const uint64_t recent = max((uint64_t)a.kv.sink, coded);
        const uint64_t from = source == SINK ? 0 : source == HELD ? (uint64_t)a.kv.sink : recent;
        const uint64_t to = source == SINK ? (uint64_t)a.kv.sink : source == HELD ? recent : all;
        const uint64_t begin = min(max(c0, from), c1), end = max(begin, min(c1, to));
        return {min(max(begin, low(position)), end), end};
    }

    /* What any of the queries from `query` on reads. */
    __device__ span all_columns(int source, bool key, uint32_t query, uint64_t c0,
                                uint64_t c1) const
    {
        return {columns(source, key, first + query, c0, c1).begin,
                columns(source, key, first + queries - 1, c0, c1).end};
    }

    __device__ float value(int source, const plane_of &p, uint64_t token, uint64_t c) const
    {
        if (source == SINK)
            return float_of_f16(p.side.sink[(p.at * a.kv.sink + token) * a.b.head_dim + c]);
        return source == HELD ? p.held(token, c) : p.recent(token, c);
    }

    /* Keys of the tokens into the tile, channel by channel. */
    __device__ void fetch_keys(int source, uint64_t c0, span s) const
    {
        const uint64_t d = a.b.head_dim;
        const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (a.kv.keys) {
            const uint64_t room = (a.kv.capacity + PARE_CUDA_KV - 1) / PARE_CUDA_KV * PARE_CUDA_KV;
            const float *const from = a.kv.keys + (plane * room + c0) * d;
            for (uint64_t c = warp; c < d; c += PARE_CUDA_WARPS)
                for (uint64_t t = s.begin - c0 + lane; t < s.end - c0; t += 32)
                    tile[c * LD + t] = from[c * PARE_CUDA_KV + t];
            return;
        }
        const plane_of p = {a.kv.key, a.b, a.kv, a.b.k, plane};
        for (uint64_t t = s.begin + warp; t < s.end; t += PARE_CUDA_WARPS)
            for (uint64_t c = lane; c < d; c += 32)
                tile[c * LD + t - c0] = value(source, p, t, c);
    }

    __device__ void fetch_values(int source, uint64_t c0, span s) const
    {
        const uint64_t d = a.b.head_dim;
        const plane_of p = {a.kv.value, a.b, a.kv, a.b.v, plane};
        const float *const from = a.kv.values + plane * a.kv.capacity * d;
        for (uint64_t t = s.begin + threadIdx.x / 32; t < s.end; t += PARE_CUDA_WARPS)
            for (uint64_t c = threadIdx.x % 32; c < d; c += 32)
                tile[(t - c0) * d + c] = a.kv.values ? from[t * d + c] : value(source, p, t, c);
    }

    /* Keys that are kept as they are before RoPE. */
    __device__ void rotate(uint64_t c0, span s) const
    {
        for (uint64_t t = s.begin + threadIdx.x / 32; t < s.end; t += PARE_CUDA_WARPS)
            for (uint64_t i = threadIdx.x % 32; i < a.half; i += 32) {
                const float cosine = a.cosine[t * a.half + i], sine = a.sine[t * a.half + i];
                float *const x = tile + i * LD + t - c0, *const y = x + a.half * LD;
                const float one = *x, other = *y;
                *x = one * cosine - other * sine;
                *y = other * cosine + one * sine;
            }
    }

    /* Scores of the rows of the warp with columns [begin, end) of the tile. */
    __device__ void score(int source, uint32_t query, uint64_t c0, uint64_t c1) const
    {
        const uint64_t d = a.b.head_dim;
        for (uint32_t row = threadIdx.x / 32; row < rows; row += PARE_CUDA_WARPS) {
            if (row / heads < query)
                continue;
            const span s = columns(source, true, position(row), c0, min(c1, position(row) + 1));
            for (uint64_t t = s.begin - c0 + threadIdx.x % 32; t < s.end - c0; t += 32) {
                float sum = 0;
                for (uint64_t c = 0; c < d; c++)
                    sum = fmaf(q[row * d + c], tile[c * LD + t], sum);
                scores[row * PARE_CUDA_KV + t] = sum;
            }
        }
    }

    /* Scores of a row become weights; what was gathered before shrinks. */
    __device__ void weigh(uint32_t row, uint64_t c0, float *most, double *total) const
    {
        const uint32_t lane = threadIdx.x % 32;
        const uint64_t at = position(row), least = low(at), d = a.b.head_dim;
        if (at < c0)
            return;
        const uint32_t from = least > c0 ? (uint32_t)min(least - c0, (uint64_t)PARE_CUDA_KV) : 0;
        const uint32_t end = (uint32_t)min(at + 1 - c0, (uint64_t)PARE_CUDA_KV);
        if (from >= end)
            return;
        float *const p = scores + row * PARE_CUDA_KV;
        const float scale = a.cap > 0 ? 1.0f : (float)a.scale;
        const double twice = 2.0 * a.scale / a.cap;
        float largest = *most;
        for (uint32_t i = from + lane; i < end; i += 32) {
            if (a.cap > 0)
                p[i] = (float)(a.cap - 2.0 * a.cap / (exp_double((double)p[i] * twice) + 1.0));
            largest = p[i] > largest ? p[i] : largest;
        }
        largest = warp_largest(largest);
        for (uint32_t i = from + lane; i < end; i += 32)
            p[i] = exp_float((p[i] - largest) * scale);
        __syncwarp();
        const float shrink = *most == largest ? 1.0f : exp_float((*most - largest) * scale);
        float sum = 0;
        for (uint32_t i = from + lane % 8; i < end; i += 8)
            sum += p[i];
        *total = fma(*total, (double)shrink, (double)lane_sum(sum));
        *most = largest;
        for (uint64_t c = lane; shrink != 1.0f && c < d; c += 32)
            out[row * d + c] *= shrink;
    }

    /* Adds the values of the tile to the rows of the warp. */
    __device__ void gather(int source, uint32_t query, uint64_t c0, uint64_t c1) const
    {
        const uint64_t d = a.b.head_dim;
        for (uint32_t row = threadIdx.x / 32; row < rows; row += PARE_CUDA_WARPS) {
            if (row / heads < query)
                continue;
            const span s = columns(source, false, position(row), c0, min(c1, position(row) + 1));
            for (uint64_t c = threadIdx.x % 32; c < d; c += 32) {
                float sum = out[row * d + c];
                for (uint64_t t = s.begin - c0; t < s.end - c0; t++)
                    sum = fmaf(scores[row * PARE_CUDA_KV + t], tile[t * d + c], sum);
                out[row * d + c] = sum;
            }
        }
    }

    __device__ void block_scores(uint32_t query, uint64_t c0, uint64_t c1) const
    {
        for (int source = SINK; source < SOURCES; source++) {
            const span s = all_columns(source, true, query, c0, c1);
            if (s.begin >= s.end)
                continue;
            fetch_keys(source, c0, s);
            __syncthreads();
            if (a.cosine) {
                rotate(c0, s);
                __syncthreads();
            }
            score(source, query, c0, c1);
            __syncthreads();
        }
    }

    __device__ void block_values(uint32_t query, uint64_t c0, uint64_t c1) const
    {
        for (int source = SINK; source < SOURCES; source++) {
            const span s = all_columns(source, false, query, c0, c1);
            if (s.begin >= s.end)
                continue;
            fetch_values(source, c0, s);
            __syncthreads();
            gather(source, query, c0, c1);
            __syncthreads();
        }
    }
};

/* Queries come in, outputs begin at 0. */
static __device__ void begin_rows(const work &w, const float *q, uint64_t ld)
{
    const uint64_t d = w.a.b.head_dim;
    for (uint64_t i = threadIdx.x; i < w.rows * d; i += blockDim.x) {
        const uint64_t row = i / d;
        w.q[i] = q[row / w.heads * ld + row % w.heads * d + i % d];
        w.out[i] = 0;
    }
    __syncthreads();
}

static __device__ void attend(const work &w, const float *q, float *y, uint64_t ld)
{
    const uint64_t d = w.a.b.head_dim, visible = w.first + w.queries;
    float most[ROWS_OF_WARP];
    double total[ROWS_OF_WARP];
#pragma unroll
    for (int i = 0; i < ROWS_OF_WARP; i++) {
        most[i] = __uint_as_float(0xff800000u);
        total[i] = 0;
    }
    begin_rows(w, q, ld);
    for (uint64_t c0 = w.low(w.first) / PARE_CUDA_KV * PARE_CUDA_KV; c0 < visible;
         c0 += PARE_CUDA_KV) {
        const uint32_t query = c0 > w.first ? (uint32_t)(c0 - w.first) : 0;
        const uint64_t c1 = min(c0 + PARE_CUDA_KV, visible);
        w.block_scores(query, c0, c1);
#pragma unroll
        for (uint32_t i = 0; i < ROWS_OF_WARP; i++)
            if (threadIdx.x / 32 + i * PARE_CUDA_WARPS < w.rows)
                w.weigh(threadIdx.x / 32 + i * PARE_CUDA_WARPS, c0, &most[i], &total[i]);
        __syncwarp();
        w.block_values(query, c0, c1);
    }
#pragma unroll
    for (uint32_t i = 0; i < ROWS_OF_WARP; i++) {
        const uint32_t row = threadIdx.x / 32 + i * PARE_CUDA_WARPS;
        const float inverse = (float)(1.0 / total[i]);
        for (uint64_t c = threadIdx.x % 32; row < w.rows && c < d; c += 32)
            y[row / w.heads * ld + row % w.heads * d + c] = w.out[row * d + c] * inverse;
    }
}

PARE_CUDA_KERNEL(attend, PARE_CUDA_WARPS * 32)
{
    const uint64_t d = a.b.head_dim, group = a.heads / a.b.kv_heads;
    const pare_cuda_tiles t = pare_cuda_tiles_of(group, a.b.length);
    const uint64_t tile = blockIdx.x % t.tiles, part = blockIdx.x / t.tiles % t.parts;
    const uint64_t plane = blockIdx.x / t.tiles / t.parts, t0 = tile * t.queries;
    const uint64_t queries = min(t.queries, a.b.length - t0);
    const uint64_t heads = min(t.heads, group - part * t.heads);
    float *const q = shared_floats + d * LD, *const out = q + PARE_CUDA_ROWS * d;
    const work w = {a,
                    plane,
                    a.b.start + t0,
                    (uint32_t)(queries * heads),
                    (uint32_t)heads,
                    (uint32_t)queries,
                    shared_floats,
                    q,
                    out,
                    out + PARE_CUDA_ROWS * d};
    const uint64_t ld = a.heads * d;
    const uint64_t head = plane % a.b.kv_heads * group + part * t.heads;
    const uint64_t at = (plane / a.b.kv_heads * a.b.length + t0) * ld + head * d;
    attend(w, a.q + at, a.y + at, ld);
}
