/* Attention as runtime/attention.c defines it, in tiles of 64 rows by 64 positions; a row is a
 * query of a head, and rows share a KV head. Keys come decoded into shared memory 32 channels at a
 * time, values as many positions as 16 KB hold, once for all rows; 32 sums of a thread stay in
 * registers. A warp has 8 rows from their scores to their outputs: between those it meets nobody. A
 * block has 64 or 128 channels of outputs; of wider heads each block computes the scores anew.
 * Bound: 2 head_dim fused steps per row and position (3 of 256 channels), which have one order: on
 * an H100 at 33 T steps per second 2048 queries of 32 heads of 128 take 0.52 ms with what lies
 * above the diagonal left out. Not timed by itself yet. */
#include "kernels/cuda/attend.cuh"

static constexpr uint32_t ROWS = PARE_CUDA_ROWS, LD = KV + 4 /* from row to row of weights */;

/* A thread has 4 rows; with scores 4 positions, with outputs WIDE / 16 channels, 4 by 4. */
template <uint32_t WIDE> struct tile : rows_of<ROWS> {
    static constexpr uint32_t POSITIONS = 4096 / WIDE, COLUMNS = WIDE / 16;
    uint32_t channel, row0, column; /* of the thread: first row, 4 times its place beside others */
    float *stage, *p, *shrink;
    float sum[4][COLUMNS];
    float most[2]; /* of the rows that the lane weighs */
    double total[2];

    __device__ tile(const pare_cuda_attention &a, uint32_t plane, uint32_t index, uint32_t slice,
                    float *s, float *w, float *f)
        : rows_of<ROWS>(a, plane, index), channel(slice * WIDE), row0(threadIdx.x / 16 * 4),
          column(threadIdx.x % 16 * 4), stage(s), p(w), shrink(f)
    {
#pragma unroll
        for (uint32_t i = 0; i < 4 * COLUMNS; i++)
            sum[i / COLUMNS][i % COLUMNS] = 0;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            most[i] = __uint_as_float(0xff800000u);
            total[i] = 0;
        }
        for (uint32_t i = threadIdx.x; i < ROWS * LD; i += blockDim.x)
            p[i] = 0;
    }

    __device__ span row_reads(bool key, bool same, int source, uint32_t i, uint32_t c0) const
    {
        const uint32_t at = same ? last : position(min(i, rows - 1));
        return key ? reads<true>(source, at, c0, KV) : reads<false>(source, at, c0, KV);
    }

    __device__ void put_scores(int source, uint32_t c0, const float score[4][4])
    {
        const bool same = alike<true>(source, c0, KV);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const span s = row_reads(true, same, source, row0 + i, c0);
            float *const to = p + (row0 + i) * LD + column;
            if (row0 + i >= rows)
                continue;
            if (s.begin <= column && column + 4 <= s.end)
                *(float4 *)to = {score[i][0], score[i][1], score[i][2], score[i][3]};
            else
#pragma unroll
                for (uint32_t j = 0; j < 4; j++)
                    if (column + j >= s.begin && column + j < s.end)
                        to[j] = score[i][j];
        }
    }

    __device__ void score(uint32_t c0)
    {
        const uint32_t d = (uint32_t)a.b.head_dim;
        for (int source = SINK; source < SOURCES; source++) {
            const span s = all_read<true>(source, c0, KV);
            if (s.begin >= s.end)
                continue;
            float score[4][4] = {};
            float *const k = stage, *const q = stage + CHUNK * KV;
            for (uint32_t c = 0; c < d; c += CHUNK) {
                __syncthreads();
                this->template fetch_keys<PARE_CUDA_BLOCK>(k, source, c0, s, c);
                fetch_queries(q, c);
                __syncthreads();
                const uint32_t n = min(d - c, CHUNK);
#pragma unroll 8
                for (uint32_t e = 0; e < n; e++) {
                    const float4 x = *(const float4 *)(k + e * KV + column);
                    const float4 y = *(const float4 *)(q + e * ROWS + row0);
                    const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
                    for (uint32_t i = 0; i < 16; i++)
                        score[i / 4][i % 4] = fmaf(ys[i / 4], xs[i % 4], score[i / 4][i % 4]);
                }
            }
            put_scores(source, c0, score);
        }
    }

    /* Of the 8 rows of the warp, 4 at a time. */
    __device__ void weigh(uint32_t c0)
    {
#pragma unroll
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t i = threadIdx.x / 32 * 8 + k * 4 + threadIdx.x % 32 / 8;
            const span s = i < rows ? seen(position(i), c0, KV) : span{0, 0};
            const uint32_t n = s.end > s.begin ? s.end - s.begin : 0;
            float *const from = p + i * LD + s.begin;
            float x[8];
            const float here = octet_scores(a, from, n, x);
            const float largest = here > most[k] ? here : most[k];
            const float part = octet_weights(a, from, n, x, largest);
            const float factor = n ? shrink_of(a, most[k], largest) : 1.0f;
            if (n) {
                total[k] = fma(total[k], (double)factor, (double)part);
                most[k] = largest;
            }
            if (threadIdx.x % 8 == 0)
                shrink[i] = factor;
        }
    }

    __device__ void fetch_values(int source, uint32_t c0, span s) const
    {
        const uint32_t d = (uint32_t)a.b.head_dim;
        for (uint32_t u = threadIdx.x; u < POSITIONS * (WIDE / 8); u += blockDim.x) {
            const uint32_t t = u / (WIDE / 8), c = channel + u % (WIDE / 8) * 8;
            float x[8] = {};
            if (t < s.begin || t >= s.end)
                continue;
            if (c < d)
                eight<false>(source, c0 + t, c, x);
            float4 *const to = (float4 *)(stage + u * 8);
            to[0] = {x[0], x[1], x[2], x[3]};
            to[1] = {x[4], x[5], x[6], x[7]};
        }
    }

    __device__ void values_at(uint32_t t, float v[COLUMNS]) const
    {
#pragma unroll
        for (uint32_t j = 0; j < COLUMNS; j += 4) {
            const float4 x = *(const float4 *)(stage + t * WIDE + j * 16 + column);
            v[j] = x.x, v[j + 1] = x.y, v[j + 2] = x.z, v[j + 3] = x.w;
        }
    }

    /* Positions of the stage that all rows read, in whole fours: the first one is c of the block.
     */
    __device__ void gather_all(uint32_t c, span s)
    {
        for (uint32_t t = s.begin; t < s.end; t += 4) {
            float w[4][4];
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                const float4 x = *(const float4 *)(p + (row0 + i) * LD + c + t);
                w[i][0] = x.x, w[i][1] = x.y, w[i][2] = x.z, w[i][3] = x.w;
            }
#pragma unroll
            for (uint32_t u = 0; u < 4; u++) {
                float v[COLUMNS];
                values_at(t + u, v);
#pragma unroll
                for (uint32_t i = 0; i < 4 * COLUMNS; i++)
                    sum[i / COLUMNS][i % COLUMNS] =
                        fmaf(w[i / COLUMNS][u], v[i % COLUMNS], sum[i / COLUMNS][i % COLUMNS]);
            }
        }
    }

    /* Each row what it reads. */
    __device__ void gather_each(int source, uint32_t c0, uint32_t c, bool same, span s)
    {
        span each[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            each[i] = row_reads(false, same, source, row0 + i, c0);
#pragma unroll 1
        for (uint32_t t = s.begin; t < s.end; t++) {
            float v[COLUMNS];
            values_at(t, v);
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                const bool in = c + t >= each[i].begin && c + t < each[i].end;
                const float w = p[(row0 + i) * LD + c + t];
#pragma unroll
                for (uint32_t j = 0; j < COLUMNS; j++)
                    sum[i][j] = in ? fmaf(w, v[j], sum[i][j]) : sum[i][j];
            }
        }
    }

    __device__ void gather(uint32_t c0)
    {
#pragma unroll
        for (uint32_t i = 0; i < 4 * COLUMNS; i++)
            sum[i / COLUMNS][i % COLUMNS] *= shrink[row0 + i / COLUMNS];
        for (int source = SINK; source < SOURCES; source++) {
            const span all = all_read<false>(source, c0, KV);
            const bool same = alike<false>(source, c0, KV);
            for (uint32_t c = 0; c < KV; c += POSITIONS) {
                const span s = {max(all.begin, c) - c,
                                min(all.end, c + POSITIONS) - min(all.end, c)};
                if (s.begin >= s.end)
                    continue;
                __syncthreads();
                fetch_values(source, c0 + c, s);
                __syncthreads();
                if (same && s.begin % 4 == 0 && s.end % 4 == 0)
                    gather_all(c, s);
                else
                    gather_each(source, c0, c, same, s);
            }
        }
    }

    __device__ void put()
    {
        const uint32_t lane = threadIdx.x % 32, d = (uint32_t)a.b.head_dim;
#pragma unroll
        for (uint32_t k = 0; k < 2; k++)
            if (lane % 8 == 0)
                shrink[threadIdx.x / 32 * 8 + k * 4 + lane / 8] = (float)(1.0 / total[k]);
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            if (row0 + i >= rows)
                continue;
            float *const y = a.y + at(row0 + i);
#pragma unroll
            for (uint32_t j = 0; j < COLUMNS; j++) {
                const uint32_t c = channel + j / 4 * 64 + column + j % 4;
                if (c < d)
                    y[c] = sum[i][j] * shrink[row0 + i];
            }
        }
    }
};

template <uint32_t WIDE> static __device__ void attend(const pare_cuda_attention &a)
{
    __shared__ __align__(16) float stage[2 * CHUNK * KV], p[ROWS * LD];
    __shared__ float shrink[ROWS];
    const uint32_t slices = ((uint32_t)a.b.head_dim + WIDE - 1) / WIDE;
    const uint32_t tiles = (pare_cuda_attend_rows(&a) + ROWS - 1) / ROWS;
    tile<WIDE> w(a, blockIdx.x / slices / tiles, blockIdx.x / slices % tiles, blockIdx.x % slices,
                 stage, p, shrink);
    for (uint32_t c0 = w.low(w.first) / KV * KV; c0 <= w.last; c0 += KV) {
        w.score(c0);
        __syncwarp();
        w.weigh(c0);
        __syncwarp();
        w.gather(c0); /* all have met in it, and what it reads of others they may write now */
    }
    w.put();
}

PARE_CUDA_KERNEL(attend_64, PARE_CUDA_BLOCK, 2)
{
    attend<64>(a.call);
}

PARE_CUDA_KERNEL(attend_128, PARE_CUDA_BLOCK, 2)
{
    attend<128>(a.call);
}
