/* Products of integer activations and 2:4 weights on sparse tensor cores: 32 rows and up to 8
 * tokens a block. The columns are cut into pieces, each within one group of activations; warps take
 * them in turn and leave their integer sums in shared memory, where a thread per row and token adds
 * those of a group and takes a step per group in order. So the result is that of the reference, to
 * the bit.
 *
 * Weights are read as they lie in R8K32, 16 bytes a lane: of the 32 rows, lane 4 g + t has places
 * of the four from row 4 g on. The first product takes of each lane the first two of them, the
 * second the others. So every sector is read once, whole, and there is no second copy.
 *
 * Bound, for each 8 tokens: bytes of the weights over the bandwidth of the memory. 4096 x 14336 at
 * one token on an H200: 4.8 us of 4 bits with groups of 128, 7.8 of 8. Not
 * measured yet. A piece takes twice the instructions of a dense one (tests/ptx/counters.csv), so
 * issue, not memory, is expected to bound 4 bits, and dense weights of 4 bits may be as fast. */
#include "kernels/cuda/device.cuh"

enum {
    ROWS = 32,
    TOKENS = PARE_CUDA_TOKENS,
    WARPS = PARE_CUDA_24_WARPS,
    PIECES = 32, /* whose sums fit into shared memory */
    STRIDE = 36  /* of a token: lanes that store four rows each meet no bank twice */
};

/* c += a b: 16 rows, 64 columns, 8 tokens. A row has two of each four columns: 32 places. Registers
 * 0, 1 of a are places 4 t .. of rows g and g + 8, the others 16 + 4 t ..; b is columns 4 t + 16 r
 * .. of token g; c is rows g, g, g + 8, g + 8 of tokens 2 t and 2 t + 1. `pairs` of lane 4 g + t
 * names the columns of 16 places from 16 (t / 2) of row g + 8 (t % 2), four bits for two places. */
static __device__ inline void mma_24(int c[4], const uint32_t a[4], const uint32_t b[4],
                                     uint32_t pairs)
{
    asm("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0;"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
          "r"(pairs));
}

/* 16 bytes of weights, which no other block reads. */
static __device__ inline uint4 read_once(const uint8_t *at)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
}

/* What the lane reads of. */
struct lane_weights {
    const uint8_t *codes, *indices; /* of its row block */
    uint32_t g, t;

    __device__ lane_weights(const pare_panel &w, uint32_t first, uint32_t last, uint32_t bits)
        : g(threadIdx.x % 32 / 4), t(threadIdx.x % 4)
    {
        const uint64_t block = first + g / 2 < last ? first + g / 2 : last;
        const uint64_t atoms = (w.k + 63) / 64;
        codes = w.codes + block * atoms * bits * 32;
        indices = w.indices + block * atoms * 64;
    }
};

/* Codes of the columns from .. to - 1 of a token; others are 0. */
struct lane_inputs {
    const int8_t *x;
    uint32_t from, to;

    __device__ uint32_t four(uint32_t column) const
    {
        return column - from < to - from ? *(const uint32_t *)(x + column) : 0;
    }
};

static __device__ inline uint32_t word_of(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* 2:4: an atom of places, which is 64 columns. Codes of 4 bits become 16 (code - 8), which `shift`
 * takes back. */
template <uint32_t BITS> struct sparse {
    static constexpr uint32_t step = 64, span = BITS == 8 ? 64 : 128, bits = BITS;
    static constexpr uint32_t shift = BITS == 4 ? 4 : 0;
    uint4 low, high, index;

    __device__ void read(const lane_weights &w, uint32_t column)
    {
        const uint8_t *const at = w.codes + column / 2 * BITS + w.t * 32 + w.g % 2 * 16;
        low = read_once(at);
        if (BITS == 8)
            high = read_once(at + 128);
        index = read_once(w.indices + column + w.t / 2 * 32 + w.g % 2 * 16);
    }

    /* Field f of byte i becomes field i of byte f. */
    static __device__ uint32_t turned(uint32_t v)
    {
        const uint32_t one = (v ^ v >> 6) & 0x00cc00ccu;
        v ^= one ^ one << 6;
        const uint32_t two = (v ^ v >> 12) & 0x0000f0f0u;
        return v ^ two ^ two << 12;
    }

    __device__ void add(int c[2][4], const lane_weights &w, const lane_inputs &x,
                        uint32_t column) const
    {
        uint32_t a[2][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t one = word_of(low, i), m = 0xf0f0f0f0u, eight = 0x80808080u;
            a[i / 2][i % 2] = BITS == 8 ? one : (one << 4 & m) ^ eight;
            a[i / 2][i % 2 + 2] = BITS == 8 ? word_of(high, i) : (one & m) ^ eight;
        }
        const uint32_t pairs[2] = {turned(w.t % 2 ? index.y : index.x),
                                   turned(w.t % 2 ? index.w : index.z)};
        const uint32_t at = column + 4 * w.t;
        const uint32_t b[4] = {x.four(at), x.four(at + 16), x.four(at + 32), x.four(at + 48)};
        mma_24(c[0], a[0], b, pairs[0]);
        mma_24(c[1], a[1], b, pairs[1]);
    }
};

/* How the columns are cut: `per` pieces for each group, of at most `span` columns. A piece begins
 * where reading can, so that of the columns that it reads those below `from` may count as 0. */
struct cut {
    uint32_t k, group, per, count, step, span;

    __device__ cut(const pare_x8 &x, uint32_t step, uint32_t span)
        : k((uint32_t)x.k), group((uint32_t)x.group), step(step), span(span)
    {
        per = (group + (group % step ? 32 : 0) + span - 1) / span;
        count = (k + group - 1) / group * per;
    }
};

/* Piece `part` of group b; behind the last one it is empty. */
struct piece {
    uint32_t b, part, origin, from, to;

    __device__ piece(const cut &c, uint32_t i) : b(i / c.per), part(i % c.per) { measure(c); }

    __device__ void measure(const cut &c)
    {
        from = b * c.group;
        origin = from / c.step * c.step + part * c.span;
        const uint32_t end = from >= c.k ? 0 : c.k - from < c.group ? c.k : from + c.group;
        to = end < origin ? origin : end - origin < c.span ? end : origin + c.span;
    }

    /* groups per + parts further, parts below per */
    __device__ void advance(const cut &c, uint32_t groups, uint32_t parts)
    {
        b += groups;
        part += parts;
        if (part >= c.per) {
            part -= c.per;
            b++;
        }
        measure(c);
    }
};

/* Sums and scales of some pieces. */
struct shared {
    alignas(16) int sums[PIECES * TOKENS][STRIDE]; /* [piece][token] */
    float scales[PIECES][ROWS], x_scales[PIECES * TOKENS];
};

/* Tokens t0 .. t0 + 7, the last one standing in for those behind it, of rows 8 first .. */
template <class CODES> class product
{
    static constexpr uint32_t READS = CODES::span / CODES::step;
    const pare_x8 &x;
    const pare_panel &w;
    const cut all;
    const uint32_t first, last, t0;
    shared &s;

    __device__ uint64_t token(uint32_t i) const { return t0 + i < x.m ? t0 + i : x.m - 1; }

    /* What the pieces from p on need: the scales. */
    __device__ void stage(uint32_t p, uint32_t count)
    {
        const uint32_t group = (uint32_t)w.group, groups = (all.k + group - 1) / group;
        const uint32_t x_groups = all.count / all.per;
        for (uint32_t i = threadIdx.x; i < count * ROWS; i += WARPS * 32) {
            const uint32_t b = (p + i / ROWS) / all.per, row = i % ROWS;
            const uint32_t block = first + row / 8 < last ? first + row / 8 : last;
            const uint64_t at = ((uint64_t)block * groups + b * all.group / group) * 8 + row % 8;
            s.scales[0][i] = float_of_f16(w.scales[at]);
        }
        for (uint32_t i = threadIdx.x; i < count * TOKENS; i += WARPS * 32) {
            const uint32_t b = (p + i / TOKENS) / all.per;
            const uint64_t at = token(i % TOKENS) * x_groups + b;
            s.x_scales[i] = x.scales[at];
        }
    }

    /* Multiplies the piece `now`, whose codes are there, and reads those of `next`. */
    __device__ void multiply(CODES *codes, const lane_weights &lane, lane_inputs &in,
                             const piece &now, const piece &next, int (*sums)[STRIDE]) const
    {
        int c[2][4] = {};
        in.from = now.from;
        in.to = now.to;
#pragma unroll
        for (uint32_t j = 0; j < READS * CODES::step; j += CODES::step) {
            if (now.origin + j < now.to)
                codes[j / CODES::step].add(c, lane, in, now.origin + j);
            if (next.origin + j < next.to)
                codes[j / CODES::step].read(lane, next.origin + j);
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
            *(int4 *)&sums[2 * lane.t + i][4 * lane.g] =
                make_int4(c[0][i] >> CODES::shift, c[0][2 + i] >> CODES::shift,
                          c[1][i] >> CODES::shift, c[1][2 + i] >> CODES::shift);
    }

  public:
    __device__ product(const pare_x8 &x, const pare_panel &w, uint32_t first, uint32_t last,
                       uint32_t t0, shared &s)
        : x(x), w(w), all(x, CODES::step, CODES::span), first(first), last(last), t0(t0), s(s)
    {
    }

    /* That of row threadIdx.x % 32 and token threadIdx.x / 32, below 8. */
    __device__ float run()
    {
        const lane_weights lane(w, first, last, CODES::bits);
        const uint32_t warp = threadIdx.x / 32, row = threadIdx.x % 32;
        lane_inputs in;
        CODES codes[READS];
        const bool has_token = warp < TOKENS && t0 + warp < x.m;
        float sum = 0;
        int whole = 0;
        uint32_t left = all.per;
        in.x = x.codes + token(lane.g) * x.k;
        const uint32_t groups = WARPS / all.per, parts = WARPS % all.per;
        piece now(all, warp), next = now;
#pragma unroll
        for (uint32_t j = 0; j < READS; j++)
            if (now.origin + j * CODES::step < now.to)
                codes[j].read(lane, now.origin + j * CODES::step);
#pragma unroll 1
        for (uint32_t p = 0; p < all.count; p += PIECES) {
            const uint32_t count = all.count - p < PIECES ? all.count - p : PIECES;
            stage(p, count);
#pragma unroll 1
            for (uint32_t i = warp; i < count; i += WARPS) {
                next.advance(all, groups, parts);
                multiply(codes, lane, in, now, next, s.sums + i * TOKENS);
                now = next;
            }
            __syncthreads();
            for (uint32_t i = 0; has_token && i < count; i++) {
                const uint32_t at = i * TOKENS + warp;
                whole += s.sums[at][row];
                if (--left)
                    continue;
                sum = fmaf((float)whole, s.scales[i][row] * s.x_scales[at], sum);
                whole = 0;
                left = all.per;
            }
            __syncthreads();
        }
        return sum;
    }
};

template <class CODES, class ARGUMENT> static __device__ void run(const ARGUMENT &a)
{
    __shared__ shared s;
    const uint32_t first = blockIdx.x * (ROWS / 8), last = (uint32_t)((a.n + 7) / 8 - 1);
    const uint32_t row = first * 8 + threadIdx.x % 32, warp = threadIdx.x / 32;
    for (uint32_t t0 = blockIdx.y * TOKENS; t0 < a.x.m; t0 += gridDim.y * TOKENS) {
        const float sum = product<CODES>(a.x, a.w, first, last, t0, s).run();
        if (warp < TOKENS && t0 + warp < a.x.m && row < a.n) {
            float *const y = a.y + (uint64_t)(t0 + warp) * a.ldy + row;
            *y = a.add ? *y + sum : sum;
        }
    }
}

PARE_CUDA_KERNEL(gemm_x8_s4, WARPS * 32, 2)
{
    run<sparse<4>>(a);
}

PARE_CUDA_KERNEL(gemm_x8_s8, WARPS * 32, 2)
{
    run<sparse<8>>(a);
}
