/* Attention of few queries to many positions, spread over the device without another order of sums:
 * every score is a sum of its own, and so is every channel of an output; only the largest score and
 * the sum of weights go along a row. So scores of 64 positions are a block of threads
 * (attend_scores), a row becomes weights in one (attend_weigh), and 8 channels of up to 8 rows go
 * through all positions in one (attend_values), where 8 warps fetch and decode 256 positions ahead
 * of the 2 that add.
 * Bound: bytes of the cache over the bandwidth of the memory, and 4 cycles for each position. 8 KV
 * heads of 128, 32 heads, F32, measured on an H200: 4096 positions 69 us, of which attend_values
 * takes two thirds, 12 % of a copy; 32768 positions 469 us. Attend_values waits: 128 blocks of
 * threads have one stage each under way. */
#include "kernels/cuda/attend.cuh"

static constexpr uint32_t FEW = PARE_CUDA_FEW, STEP = 256 /* positions of a stage */;
static constexpr uint32_t BLOCKS = STEP / KV, LD = FEW + 1, ADDING = FEW * FEW;

/* A thread has a position and all rows. PLAIN: of an F32 cache, which is one source. */
template <bool PLAIN>
static __device__ void scores(const pare_cuda_attention &call, float *k, float *q)
{
    const uint32_t blocks = (uint32_t)(call.ld / KV), d = (uint32_t)call.b.head_dim;
    const uint32_t tiles = (pare_cuda_attend_rows(&call) + FEW - 1) / FEW;
    const uint32_t index = blockIdx.x / blocks / tiles;
    const rows_of<FEW> r(call, index, blockIdx.x / blocks % tiles);
    const uint32_t offset = blockIdx.x % blocks * KV, c0 = (uint32_t)call.base + offset;
    float *const to = call.scores +
                      ((uint64_t)index * pare_cuda_attend_rows(&call) + r.row) * call.ld + offset +
                      threadIdx.x;
#pragma unroll 1
    for (int source = PLAIN ? RECENT : SINK; source < SOURCES; source++) {
        const span s =
            PLAIN ? span{r.seen(max(r.first, c0), c0, KV).begin, r.seen(r.last, c0, KV).end}
                  : r.all_read<true>(source, c0, KV);
        if (s.begin >= s.end)
            continue;
        float sum[FEW] = {};
#pragma unroll 1
        for (uint32_t c = 0; c < d; c += CHUNK) {
            __syncthreads();
            r.fetch_keys<PARE_CUDA_KV, PLAIN>(k, source, c0, s, c);
            r.fetch_queries(q, c);
            __syncthreads();
            const uint32_t n = min(d - c, CHUNK);
#pragma unroll 8
            for (uint32_t e = 0; e < n; e++) {
                const float x = k[e * KV + threadIdx.x];
#pragma unroll
                for (uint32_t i = 0; i < FEW; i++)
                    sum[i] = fmaf(q[e * FEW + i], x, sum[i]);
            }
        }
        const bool same = PLAIN ? r.first == r.last : r.alike<true>(source, c0, KV);
#pragma unroll
        for (uint32_t i = 0; i < FEW; i++) {
            const uint32_t position = r.position(min(i, r.rows - 1));
            const span own = same    ? s
                             : PLAIN ? r.seen(position, c0, KV)
                                     : r.reads<true>(source, position, c0, KV);
            if (i < r.rows && threadIdx.x >= own.begin && threadIdx.x < own.end)
                to[i * call.ld] = sum[i];
        }
    }
}

PARE_CUDA_KERNEL(attend_scores, PARE_CUDA_KV, 8)
{
    __shared__ __align__(16) float k[CHUNK * KV], q[CHUNK * FEW];
    if (a.call.kv.keys)
        scores<true>(a.call, k, q);
    else
        scores<false>(a.call, k, q);
}

/* A block of threads has a row; eight lanes take a block of positions, all of them one wave. */
PARE_CUDA_KERNEL(attend_weigh, PARE_CUDA_BLOCK)
{
    const pare_cuda_attention &call = a.call;
    __shared__ float top[32], sum[32], factor[32];
    const uint32_t rows = pare_cuda_attend_rows(&call);
    const rows_of<1> r(call, blockIdx.x / rows, blockIdx.x % rows);
    const uint32_t octet = threadIdx.x / 8, octets = blockDim.x / 8, lane = threadIdx.x % 32;
    float *const scores = call.scores + blockIdx.x * call.ld;
    float *const shrink = call.shrink + blockIdx.x * (call.ld / KV);
    float most = __uint_as_float(0xff800000u);
    double total = 0;
    for (uint32_t c = r.low(r.first) / KV * KV; c <= r.last; c += octets * KV) {
        const uint32_t c0 = c + octet * KV;
        const span s = r.seen(r.last, c0, KV);
        const uint32_t n = s.end > s.begin ? s.end - s.begin : 0;
        float *const p = scores + (c0 - call.base) + s.begin;
        float x[8];
        const float here = octet_scores(call, p, n, x);
        if (lane % 8 == 0)
            top[octet] = here;
        __syncthreads();
        float m = lane < octets && top[lane] > most ? top[lane] : most;
        for (uint32_t h = 1; h < 32;
             h *= 2) { /* the largest of all blocks up to that of the lane */
            const float other = __shfl_up_sync(PARE_CUDA_ALL, m, h);
            m = lane >= h && other > m ? other : m;
        }
        const float largest = __shfl_sync(PARE_CUDA_ALL, m, octet);
        const float earlier = __shfl_sync(PARE_CUDA_ALL, m, octet ? octet - 1 : 0);
        const float part = octet_weights(call, p, n, x, largest);
        const float by = shrink_of(call, octet ? earlier : most, largest);
        if (lane % 8 == 0 && n) {
            sum[octet] = part;
            factor[octet] = by;
            shrink[(c0 - call.base) / KV] = by;
        }
        __syncthreads();
        for (uint32_t i = 0; i < octets && c + i * KV <= r.last; i++)
            total = fma(total, (double)factor[i], (double)sum[i]);
        most = __shfl_sync(PARE_CUDA_ALL, m, 31);
    }
    if (threadIdx.x == 0)
        call.inverse[blockIdx.x] = (float)(1.0 / total);
}

/* Positions that are added while others are fetched. */
struct stage {
    float v[STEP * FEW], p[STEP * LD];
    float shrink[BLOCKS * FEW];
    span reads[BLOCKS * FEW]; /* of a row in a block of positions */
};

/* STEP positions of one source. */
struct place {
    uint32_t c0;
    int source;
};

struct values : rows_of<FEW> {
    uint64_t index;   /* of the first row in what attend_weigh left */
    uint32_t channel; /* the first */

    __device__ values(const pare_cuda_attention &call, uint32_t plane, uint32_t tile, uint32_t c)
        : rows_of<FEW>(call, plane, tile),
          index((uint64_t)plane * pare_cuda_attend_rows(&call) + this->row), channel(c)
    {
    }

    /* The first place from `at` on where there is something to read; behind all: c0 above last. */
    __device__ place find(place at) const
    {
        for (; at.c0 <= last;
             at = at.source == RECENT ? place{at.c0 + STEP, SINK} : place{at.c0, at.source + 1}) {
            const span s = all_read<false>(at.source, at.c0, STEP);
            if (s.begin < s.end)
                break;
        }
        return at;
    }

    __device__ place next(place at) const
    {
        return find(at.source == RECENT ? place{at.c0 + STEP, SINK} : place{at.c0, at.source + 1});
    }

    /* What a row reads of a block of the place, and by what its sum shrinks before: where it enters
     * the block. */
    __device__ void fetch_row(stage *to, place at, uint32_t u) const
    {
        const uint32_t i = u % FEW;
        const uint32_t c0 = at.c0 + u / FEW * KV, position = this->position(min(i, rows - 1));
        const span s = reads<false>(at.source, position, c0, KV);
        const bool enters = i < rows && s.begin < s.end && s.begin == seen(position, c0, KV).begin;
        to->reads[u] = i < rows ? s : span{0, 0};
        to->shrink[u] = enters ? a.shrink[(index + i) * (a.ld / KV) + (c0 - a.base) / KV] : 1.0f;
    }

    /* By the threads behind those that add: each has the values of one position and the weights of
     * one row at eight positions. Nothing is put before all was asked for. */
    __device__ void fetch(stage *to, place at) const
    {
        static_assert(PARE_CUDA_VALUES - ADDING == STEP, "a thread per position");
        const uint32_t thread = threadIdx.x - ADDING;
        const span s = all_read<false>(at.source, at.c0, STEP);
        const uint32_t i = thread % FEW, t = s.begin / 8 * 8 + thread / FEW * 8;
        const bool reads_v = thread >= s.begin && thread < s.end, reads_p = i < rows && t < s.end;
        float x[8], p[8];
        if (reads_v)
            eight<false>(at.source, (uint64_t)at.c0 + thread, channel, x);
        if (reads_p) {
            const float *const from = a.scores + (index + i) * a.ld + (at.c0 - a.base) + t;
            const span own = seen(position(i), at.c0, STEP);
            eight_floats(from, own.end > t ? own.end - t : 0, t >= own.begin && t + 8 <= own.end,
                         p);
        }
        if (thread < BLOCKS * FEW)
            fetch_row(to, at, thread);
        if (reads_v) {
            float4 *const v = (float4 *)(to->v + thread * FEW);
            v[0] = {x[0], x[1], x[2], x[3]};
            v[1] = {x[4], x[5], x[6], x[7]};
        }
        if (reads_p)
#pragma unroll
            for (uint32_t j = 0; j < 8; j++)
                to->p[(t + j) * LD + i] = p[j];
    }

    __device__ float add(const stage *from, float sum) const
    {
        const uint32_t i = threadIdx.x / FEW, c = threadIdx.x % FEW;
        for (uint32_t b = 0; b < BLOCKS; b++) {
            const span s = from->reads[b * FEW + i];
            sum *= from->shrink[b * FEW + i];
#pragma unroll 16
            for (uint32_t t = b * KV + s.begin; t < b * KV + s.end; t++)
                sum = fmaf(from->p[t * LD + i], from->v[t * FEW + c], sum);
        }
        return sum;
    }
};

PARE_CUDA_KERNEL(attend_values, PARE_CUDA_VALUES)
{
    const pare_cuda_attention &call = a.call;
    __shared__ __align__(16) stage stages[2];
    const uint32_t slices = ((uint32_t)call.b.head_dim + FEW - 1) / FEW;
    const uint32_t tiles = (pare_cuda_attend_rows(&call) + FEW - 1) / FEW;
    const values w(call, blockIdx.x / slices / tiles, blockIdx.x / slices % tiles,
                   blockIdx.x % slices * FEW);
    const bool adds = threadIdx.x < ADDING;
    place now = w.find({w.low(w.first) / KV * KV, SINK});
    float sum = 0;
    if (!adds)
        w.fetch(&stages[0], now);
    __syncthreads();
    for (uint32_t turn = 0; now.c0 <= w.last; turn++) {
        const place next = w.next(now);
        if (adds)
            sum = w.add(&stages[turn % 2], sum);
        else if (next.c0 <= w.last)
            w.fetch(&stages[(turn + 1) % 2], next);
        __syncthreads();
        now = next;
    }
    const uint32_t i = threadIdx.x / FEW, c = w.channel + threadIdx.x % FEW;
    if (adds && i < w.rows && c < call.b.head_dim)
        call.y[w.at(i) + c] = sum * call.inverse[w.index + i];
}
