/* Products of F16 inputs and trellis codes on tensor cores, for up to 64 tokens: values of the
 * codes are F16, and a lane decodes what the instruction wants of it.
 *
 * A block of threads has two tiles of rows and 8, 16 or 32 tokens. Its 8 warps take four tiles of
 * columns in turn; the codes of the next ones are under way while these are multiplied. A warp adds
 * 16 columns at a time, and the sums of the warps follow in order. So an output depends on its row
 * and its token alone.
 *
 * Error: (2 k + 8) 2^-24 sum |x w|.
 * Bound: bytes of the weights over the bandwidth of the memory, or the rate of instructions. It has
 * not run on a GPU. */
#include "kernels/cuda/exl3_tile.cuh"
#include "kernels/cuda/gemm_f16_few.cuh"

template <uint32_t BITS, int TILES> struct work {
    static constexpr uint32_t TURN = 4, STEP = WARPS * TURN; /* tiles of columns */
    static constexpr int AT_ONCE = TURN / TILES;             /* registers bound it */
    using weights = exl3_weights<BITS, 8>;

    struct loads {
        weights w[AT_ONCE][2];
        uint32_t b[AT_ONCE][TILES][2];
    };

    const uint32_t *row[2]; /* tiles of 16 rows */
    const uint16_t *x;
    uint32_t of_x[TILES]; /* numbers to the token of this lane in each tile of tokens */
    uint32_t tiles;       /* of columns */
    float sum[TILES][8];

    /* Behind the last tile: codes of any value times 0. */
    __device__ void load(loads *to, uint32_t tile) const
    {
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const bool within = tile + i < tiles;
            const uint32_t at = within ? tile + i : tiles - 1;
#pragma unroll
            for (uint32_t r = 0; r < 2; r++)
                to->w[i][r] = weights(row[r] + (uint64_t)at * weights::WORDS, threadIdx.x % 32 * 8);
#pragma unroll
            for (uint32_t j = 0; j < 2 * TILES; j++)
                to->b[i][j / 2][j % 2] =
                    within ? *(const uint32_t *)(x + of_x[j / 2] + at * 16 + j % 2 * 8) : 0;
        }
    }

    __device__ void add(const loads &l)
    {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const weights &w = l.w[i][r];
                const uint32_t of_w[4] = {w.two(0), w.two(4), w.two(2), w.two(6)};
#pragma unroll
                for (int j = 0; j < TILES; j++)
                    mma_f16(sum[j] + 4 * r, of_w, l.b[i][j]);
            }
    }

    /* The tile behind `tile` that this warp takes. */
    static __device__ uint32_t behind(uint32_t tile)
    {
        tile += AT_ONCE;
        return tile % TURN ? tile : tile + STEP - TURN;
    }

    __device__ void run()
    {
        loads now, next;
        uint32_t tile = threadIdx.x / 32 * TURN;
        if (tile >= tiles)
            return;
        load(&now, tile);
#pragma unroll 1
        while (tile < tiles) {
            tile = behind(tile);
            if (tile < tiles)
                load(&next, tile);
            add(now);
            now = next;
        }
    }

    /* Sums of a lane belong to rows g, g + 8, .. and two tokens of each tile. */
    __device__ void put() const
    {
        const uint32_t g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < 8 * TILES; i++) {
            const uint32_t token = (threadIdx.x / 32 * TILES + i / 8) * 8 + 2 * t + i % 2;
            ((float *)shared_sums)[token * LD + g + i % 8 / 2 * 8] = sum[i / 8][i % 8];
        }
    }
};

/* Tokens behind the last one are its copies, and so are tiles of rows. */
template <uint32_t BITS, int TILES>
static __device__ void run(const pare_cuda_gemm_f16_exl3 &a, const few_block &f)
{
    work<BITS, TILES> w = {};
    const uint64_t first = f.row / 16, last = a.w.n / 16 - 1;
    w.tiles = (uint32_t)(a.w.k / 16);
    w.x = a.x + threadIdx.x % 4 * 2;
#pragma unroll
    for (int r = 0; r < 2; r++)
        w.row[r] = (const uint32_t *)a.w.codes + min(first + r, last) * w.tiles * (8 * BITS);
#pragma unroll
    for (int i = 0; i < TILES; i++)
        w.of_x[i] = (uint32_t)(min(f.token + 8 * i + threadIdx.x % 32 / 4, a.m - 1) * a.ldx);
    w.run();
    w.put();
    __syncthreads();
    write_totals<TILES>(a, f.row, f.token);
}

template <uint32_t BITS> static __device__ void run_tokens(const pare_cuda_gemm_f16_exl3 &a)
{
    const few_block f(a.m);
    if (f.tiles == 1)
        run<BITS, 1>(a, f);
    else if (f.tiles == 2)
        run<BITS, 2>(a, f);
    else
        run<BITS, 4>(a, f);
}

PARE_CUDA_KERNEL(gemm_f16_exl3, WARPS * 32, 2)
{
    switch (a.bits) {
    case 1: run_tokens<1>(a); break;
    case 2: run_tokens<2>(a); break;
    case 3: run_tokens<3>(a); break;
    case 4: run_tokens<4>(a); break;
    case 5: run_tokens<5>(a); break;
    case 6: run_tokens<6>(a); break;
    case 7: run_tokens<7>(a); break;
    default: run_tokens<8>(a);
    }
}
