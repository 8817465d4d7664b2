/* kernels/cuda/gemm_x8_few.cuh - products of integer activations for up to 32 tokens: 32 rows for
 * each block of threads, whose warps share out the columns.
 *
 * A warp takes 64 columns after 64 columns. Their weights go from the memory to registers, their
 * inputs into shared memory of the warp; those of the next ones, AHEAD in all, are under way while
 * 64 are multiplied. Integer sums go to shared memory, a slot per chunk of 128 columns, or per atom
 * where a group may end inside a chunk. When a piece of the columns is done, a thread per row and
 * token adds the slots of each group and takes its step. */
#ifndef PARE_KERNELS_CUDA_GEMM_X8_FEW
#define PARE_KERNELS_CUDA_GEMM_X8_FEW

#include "kernels/cuda/gemm_x8_tile.cuh"

/* What a block of threads shares: EACH atoms have a slot. */
template <class CODES, int TILES, int EACH> struct shared_few {
    static constexpr uint32_t SLOTS = PARE_CUDA_X8_SLOTS(TILES, EACH);
    static constexpr uint32_t AHEAD = PARE_CUDA_X8_AHEAD(TILES, EACH, CODES::WIDTH);

    alignas(16) uint8_t x[PARE_CUDA_X8_WARPS][AHEAD][TILES * 8][64];
    int sums[SLOTS][TILES * 8][PARE_CUDA_X8_LD];
    uint16_t scales[SLOTS][32]; /* of the groups of a piece: a slot each, or fewer groups */
    uint8_t zeros[SLOTS][32];
    float x_scales[SLOTS][TILES * 8];
    int x_sums[SLOTS][TILES * 8];
    float y[TILES * 8][32]; /* so far; and the sums of a group that goes on in the next piece */
    int rest[TILES * 8][32];
};

/* The warp's part of the sums. */
template <class CODES, int TILES, int EACH, class ARGUMENT> struct work {
    const ARGUMENT &a;
    shared_few<CODES, TILES, EACH> &s;
    const uint32_t warp, lane;
    const uint8_t *codes, *indices; /* what the lane reads of its row block */
    const int8_t *x;                /* of its part of 64 columns of the first token */
    const uint32_t tokens;          /* from the first one on */
    static constexpr int AHEAD = PARE_CUDA_X8_AHEAD(TILES, EACH, CODES::WIDTH);
    typename CODES::words w[AHEAD];
    int sum[TILES][8];

    __device__ work(const ARGUMENT &a, shared_few<CODES, TILES, EACH> &s, uint32_t first,
                    uint64_t t0)
        : a(a), s(s), warp(threadIdx.x / 32), lane(threadIdx.x % 32),
          x(a.x.codes + t0 * a.x.k + lane % 4 * 16), tokens((uint32_t)(a.x.m - t0))
    {
        const uint64_t block = min(first + lane / 8, (uint32_t)((a.n - 1) / 8));
        codes = a.w.codes + block * CODES::row(k()) + CODES::place(lane);
        indices =
            a.w.indices + block * ((k() + 63) / 64) * CODES::INDICES + CODES::index_place(lane);
        clear();
    }

    __device__ uint32_t k() const { return (uint32_t)a.x.k; }

    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < TILES * 8; i++)
            sum[i / 8][i % 8] = 0;
    }

    /* The 64 columns of the warp at step i, half h. */
    __device__ uint32_t unit(uint32_t i, uint32_t h) const
    {
        const uint32_t w = PARE_CUDA_X8_WARPS;
        return EACH == 4 ? (i * w + warp) * 2 + h : (i * 2 + h) * w + warp;
    }

    /* Asks for the weights and inputs of a unit, into place h. */
    __device__ void fetch(uint32_t h, uint32_t unit)
    {
        if (unit * 64 < k()) {
            const uint8_t *const at = codes + (uint64_t)unit * CODES::ROW;
            const uint8_t *const names = indices + (uint64_t)unit * CODES::INDICES;
#pragma unroll
            for (int i = 0; i < TILES; i++)
                copy16(shared_at(&s.x[warp][h][i * 8 + lane / 4][(lane % 4 ^ lane / 8) * 16]),
                       x + (min(i * 8 + lane / 4, tokens - 1) * k() + unit * 64),
                       unit * 64 + lane % 4 * 16 < k() ? 16 : 0);
            if (unit * 64 + 32 < k())
                w[h].template read<from_memory>(at, names);
            else
                w[h].template read<from_memory, FIRST>(at, names);
        }
        commit_copies();
    }

    template <int WHICH> __device__ void multiply(uint32_t h)
    {
        const typename CODES::template operands<WHICH> of_w(w[h], lane % 4);
        const uint32_t from = shared_at(&s.x[warp][h][lane % 8][(lane / 8 ^ lane % 8 / 2) * 16]);
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            uint32_t b[4];
            load_matrices(b, from + i * 512);
            of_w.multiply(sum[i], b);
        }
    }

    /* The sums of this warp become those of a slot. */
    __device__ void put(uint32_t slot)
    {
#pragma unroll
        for (int i = 0; i < TILES * 2; i++) {
            const int *const c = &sum[i / 2][i % 2];
            const int4 rows = {c[0], c[4], c[2], c[6]};
            *(int4 *)&s.sums[slot][i / 2 * 8 + lane % 4 * 2 + i % 2][lane / 4 * 4] = rows;
        }
        clear();
    }

    /* Half h % 2 of step i, in place h; `first`: the first 64 columns of the piece. */
    __device__ void multiply_half(uint32_t h, uint32_t i, uint32_t first)
    {
        const uint32_t now = unit(i, h % 2);
        wait_copies<AHEAD - 1>();
        __syncwarp();
        if (now * 64 < k() && EACH == 4) {
            multiply<BOTH>(h);
        } else if (now * 64 < k()) {
            multiply<FIRST>(h);
            put((now - first) * 2);
            multiply<SECOND>(h);
            put((now - first) * 2 + 1);
        }
        __syncwarp();
        fetch(h, unit(i + AHEAD / 2, h % 2));
    }
};

/* The outputs of a thread: its lane is a row, its warp a token of each tile. */
template <class CODES, int TILES, int EACH, class ARGUMENT> struct outputs {
    const ARGUMENT &a;
    shared_few<CODES, TILES, EACH> &s;
    const uint32_t first, t0;        /* row block, token */
    const uint32_t each, per, slots; /* atoms of a group, its slots, those of all columns */
    uint32_t left;                   /* slots of the group that are to come */

    __device__ outputs(const ARGUMENT &a, shared_few<CODES, TILES, EACH> &s, uint32_t first,
                       uint32_t t0)
        : a(a), s(s), first(first), t0(t0), each((uint32_t)(a.x.group / 32)),
          per((each + EACH - 1) / EACH), slots((uint32_t)((a.x.k / 32 + EACH - 1) / EACH)),
          left(per)
    {
#pragma unroll
        for (int i = 0; i < TILES; i++)
            here(s.y, i) = 0, here(s.rest, i) = 0;
    }

    __device__ bool own() const
    {
        return CODES::OWN && a.w.zeros;
    }

    /* The thread's own place. */
    template <class T> __device__ T &here(T (*all)[32], int tile) const
    {
        return all[tile * 8 + threadIdx.x / 32][threadIdx.x % 32];
    }

    /* Asks for the steps of the groups of slots from .. to - 1. */
    __device__ void fetch(uint32_t from, uint32_t to) const
    {
        const uint32_t b = from / per, count = (to - 1) / per + 1 - b;
        const uint32_t w_each = (uint32_t)(a.w.group / 32), atoms = (uint32_t)(a.x.k / 32);
        const uint32_t groups = (atoms + each - 1) / each, w_groups = (atoms + w_each - 1) / w_each;
        const uint32_t last = (uint32_t)((a.n - 1) / 8);
        for (uint32_t i = threadIdx.x; i < 4 * count; i += PARE_CUDA_X8_WARPS * 32) {
            const uint32_t g = b + i / 4, of_w = w_each == each ? g : g * each / w_each;
            const uint64_t at = ((uint64_t)min(first + i % 4, last) * w_groups + of_w) * 8;
            copy16(shared_at(&s.scales[i / 4][i % 4 * 8]), a.w.scales + at, 16);
            if (own())
                copy_bytes<8>(shared_at(&s.zeros[i / 4][i % 4 * 8]), a.w.zeros + at);
        }
        for (uint32_t i = threadIdx.x; i < TILES * 8 * count; i += PARE_CUDA_X8_WARPS * 32) {
            const uint32_t token = i % (TILES * 8), g = i / (TILES * 8);
            const uint64_t at = min(t0 + token, (uint32_t)a.x.m - 1) * (uint64_t)groups + b + g;
            copy_bytes<4>(shared_at(&s.x_scales[g][token]), a.x.scales + at);
            if (CODES::SUMS)
                copy_bytes<4>(shared_at(&s.x_sums[g][token]), a.x.sums + at);
        }
    }

    /* The step of a group of the piece, whose sums are `of`. */
    __device__ void step(uint32_t group, const int *of, float *y) const
    {
        const uint32_t row = threadIdx.x % 32, warp = threadIdx.x / 32;
        const float scale = float_of_f16(s.scales[group][row]);
        const int z = own() ? s.zeros[group][row] - CODES::OFFSET : CODES::ZERO;
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            const uint32_t token = i * 8 + warp;
            const int less = CODES::SUMS ? z * s.x_sums[group][token] : 0;
            y[i] = fmaf((float)((of[i] >> CODES::SHIFT) - less), scale * s.x_scales[group][token],
                        y[i]);
        }
    }

    __device__ int sum_of(uint32_t slot, int tile) const
    {
        return s.sums[slot][tile * 8 + threadIdx.x / 32][threadIdx.x % 32];
    }

    /* `count` slots, those from `from` on. */
    __device__ void take(uint32_t from, uint32_t count)
    {
        float y[TILES];
        int sum[TILES];
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            y[i] = here(s.y, i);
            sum[i] = here(s.rest, i);
        }
        if (per == 1) {
#pragma unroll(4 / TILES)
            for (uint32_t i = 0; i < count; i++) {
                int of[TILES];
#pragma unroll
                for (int j = 0; j < TILES; j++)
                    of[j] = sum_of(i, j);
                step(i, of, y);
            }
        }
        for (uint32_t i = 0, group = 0; per > 1 && i < count;) {
            const uint32_t end = i + min(left, count - i);
            left -= end - i;
#pragma unroll(4 / TILES)
            for (; i < end; i++)
#pragma unroll
                for (int j = 0; j < TILES; j++)
                    sum[j] += sum_of(i, j);
            if (left > 0 && from + i < slots)
                break;
            step(group++, sum, y);
            left = per;
#pragma unroll
            for (int j = 0; j < TILES; j++)
                sum[j] = 0;
        }
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            here(s.y, i) = y[i];
            here(s.rest, i) = sum[i];
        }
    }

    __device__ bool has_some() const
    {
        return first * 8 + threadIdx.x % 32 < a.n && t0 + threadIdx.x / 32 < a.x.m;
    }

    __device__ void write() const
    {
        const uint32_t token = t0 + threadIdx.x / 32;
#pragma unroll
        for (int i = 0; i < TILES; i++)
            if (token + 8 * i < a.x.m) {
                float *const to =
                    a.y + (uint64_t)(token + 8 * i) * a.ldy + first * 8 + threadIdx.x % 32;
                *to = a.add ? *to + here(s.y, i) : here(s.y, i);
            }
    }
};

/* Row blocks from `first` on and tokens from t0 on, the last one standing in for those behind it.
 */
template <class CODES, int TILES, int EACH, class ARGUMENT>
static __device__ void run_few(const ARGUMENT &a, uint32_t first, uint32_t t0)
{
    constexpr uint32_t SLOTS = PARE_CUDA_X8_SLOTS(TILES, EACH);
    constexpr uint32_t STEPS = SLOTS * EACH / 4 / PARE_CUDA_X8_WARPS; /* of a warp, in a piece */
    static_assert(sizeof(shared_few<CODES, TILES, EACH>) ==
                      PARE_CUDA_X8_FEW_BYTES(TILES, EACH, CODES::WIDTH),
                  "the launch shape takes as much");
    shared_few<CODES, TILES, EACH> &s = *(shared_few<CODES, TILES, EACH> *)shared_block;
    work<CODES, TILES, EACH, ARGUMENT> w(a, s, first, t0);
    outputs<CODES, TILES, EACH, ARGUMENT> o(a, s, first, t0);
    const bool has_some = o.has_some();
    constexpr uint32_t AHEAD = PARE_CUDA_X8_AHEAD(TILES, EACH, CODES::WIDTH);
    static_assert(STEPS % (AHEAD / 2) == 0, "a piece ends where the places do");
#pragma unroll
    for (uint32_t h = 0; h < AHEAD; h++)
        w.fetch(h, w.unit(h / 2, h % 2));
#pragma unroll 1
    for (uint32_t from = 0, i = 0; from < o.slots; from += SLOTS) {
        const uint32_t to = min(from + SLOTS, o.slots);
        o.fetch(from, to);
#pragma unroll 1
        for (const uint32_t end = i + STEPS; i < end; i += AHEAD / 2) {
#pragma unroll
            for (uint32_t h = 0; h < AHEAD; h += 2) {
                w.multiply_half(h, i + h / 2, from / 2);
                w.multiply_half(h + 1, i + h / 2, from / 2);
                if (EACH == 4 && w.unit(i + h / 2, 0) * 64 < w.k())
                    w.put(w.unit(i + h / 2, 0) / 2 - from);
            }
        }
        wait_copies<AHEAD - 1>(); /* all but inputs of the next piece */
        __syncthreads();
        if (has_some)
            o.take(from, to - from);
        __syncthreads();
    }
    if (has_some)
        o.write();
}

/* What a product needs, of the argument or of a mate. */
struct product {
    const pare_x8 &x;
    struct {
        const uint8_t *codes, *indices, *zeros;
        const uint16_t *scales;
        uint64_t group;
    } w;
    float *y;
    uint64_t ldy, n;
    uint32_t add;

    template <class PRODUCT>
    __device__ product(const pare_x8 &x, const PRODUCT &of, uint32_t add)
        : x(x), w{of.w.codes, of.w.indices, of.w.zeros, of.w.scales, of.w.group}, y(of.y),
          ldy(of.ldy), n(of.n), add(add)
    {
    }

    /* Another one. */
    template <class PRODUCT> __device__ void become(const PRODUCT &of)
    {
        w = {of.w.codes, of.w.indices, of.w.zeros, of.w.scales, of.w.group};
        y = of.y;
        ldy = of.ldy;
        n = of.n;
        add = 0;
    }

    __device__ uint32_t blocks() const { return (uint32_t)((n + 31) / 32); }
};

/* Blocks that share rows follow each other, so that weights come from the memory once. */
template <class CODES, class ARGUMENT> static __device__ void run_few(const ARGUMENT &argument)
{
    const uint32_t tiles = pare_cuda_x8_tiles(&argument.x, CODES::WIDTH), tokens = tiles * 8;
    const uint32_t across = ((uint32_t)argument.x.m + tokens - 1) / tokens;
    const uint32_t t0 = blockIdx.x % across * tokens;
    uint32_t index = blockIdx.x / across;
    product a(argument.x, argument, argument.add);
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (index >= a.blocks()) {
            index -= a.blocks();
            a.become(argument.mate[i]);
        }
    const uint32_t first = index * 4;
    const bool chunks = pare_cuda_x8_slot_atoms(&a.x) == 4;
    if (CODES::WIDTH >= 4 && tiles == 4)
        run_few < CODES, CODES::WIDTH<4 ? 2 : 4, 4>(a, first, t0);
    else if (tiles == 2 && chunks)
        run_few<CODES, 2, 4>(a, first, t0);
    else if (tiles == 2)
        run_few<CODES, 2, 1>(a, first, t0);
    else if (chunks)
        run_few<CODES, 1, 4>(a, first, t0);
    else
        run_few<CODES, 1, 1>(a, first, t0);
}

/* Up to 32 tokens, or more of them in tiles of 64. */
template <class CODES, class ARGUMENT> static __device__ void run_x8(const ARGUMENT &a)
{
    if (a.x.m > PARE_CUDA_X8_FEW)
        run_tile<CODES, 2, 2>(a);
    else
        run_few<CODES>(a);
}

#endif
