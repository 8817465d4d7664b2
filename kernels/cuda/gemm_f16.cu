/* Products of F16 on tensor cores with sums in F32, for weights that are F16 or were decoded to it.
 *
 * A block of threads has a tile of rows of w and tokens (pare_cuda_f16_tile_of), each warp a part
 * of it. Pieces of 64 columns go through shared memory in stages, copies of the next ones being
 * under way; rows have 128 bytes there, and their chunks of 16 bytes are permuted by the row, so
 * that ldmatrix meets no conflict. An output adds 16 columns at a time in ascending order, whatever
 * the tile, so its bits depend on its row and its token alone.
 *
 * Error: (2 k + 8) 2^-24 sum |x w| of the F16 numbers; scales are powers of two.
 * Bound: for few tokens bytes of the weights over the bandwidth of the memory; for many the rate of
 * the tensor cores. Measured on an H200 at 8192 x 8192: 57 % of a copy for up
 * to 16 tokens; 256 tokens take 142 us, a third of the speed of cuBLAS. */
#include "kernels/cuda/f16.cuh"

extern __shared__ uint4 shared_tiles[];

static constexpr uint32_t COLUMNS = PARE_CUDA_F16_COLUMNS, CHUNKS = COLUMNS / 8, LINE = COLUMNS * 2;

/* Where a chunk of a row lies in a tile. */
static __device__ uint32_t place(uint32_t row, uint32_t chunk)
{
    return row * LINE + (chunk ^ row % CHUNKS) * 16;
}

/* Copies columns of ROWS rows from one of `count` rows on; others, and columns behind k, are 0. */
template <int ROWS, int THREADS>
static __device__ void copy_rows(uint32_t to, const uint16_t *from, uint64_t ld, uint64_t count,
                                 uint64_t column, uint64_t k)
{
    static_assert(ROWS * CHUNKS % THREADS == 0, "");
#pragma unroll
    for (uint32_t i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
        const uint32_t row = i / CHUNKS, chunk = i % CHUNKS;
        const bool there = row < count && column + chunk * 8 < k;
        copy16(to + place(row, chunk), there ? from + row * ld + column + chunk * 8 : from,
               there ? 16 : 0);
    }
}

/* DOWN x ACROSS warps have ROWS x TOKENS outputs. */
template <int ROWS, int TOKENS, int DOWN, int ACROSS, int STAGES>
static __device__ void run(const pare_cuda_gemm_f16 &a)
{
    constexpr int THREADS = DOWN * ACROSS * 32, STAGE = (ROWS + TOKENS) * LINE;
    constexpr int M = ROWS / DOWN / 16, N = TOKENS / ACROSS / 8; /* tiles of a warp */
    static_assert(N % 2 == 0, "ldmatrix takes two tiles of tokens");
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint64_t across = (a.m + TOKENS - 1) / TOKENS;
    const uint64_t row0 = blockIdx.x / across * ROWS, token0 = blockIdx.x % across * TOKENS;
    const uint32_t row1 = warp / ACROSS * (M * 16), token1 = warp % ACROSS * (N * 8);
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(shared_tiles);
    const uint32_t steps = (uint32_t)((a.k + COLUMNS - 1) / COLUMNS);
    float sum[M][N][4] = {};

    const auto copy = [&](uint32_t step) {
        const uint32_t to = shared + step % STAGES * STAGE;
        const uint64_t column = (uint64_t)step * COLUMNS;
        if (step < steps) {
            copy_rows<ROWS, THREADS>(to, a.w + row0 * a.ldw, a.ldw, a.n - row0, column, a.k);
            copy_rows<TOKENS, THREADS>(to + ROWS * LINE, a.x + token0 * a.ldx, a.ldx, a.m - token0,
                                       column, a.k);
        }
        commit_copies();
    };
    const auto multiply = [&](uint32_t step) {
        const uint32_t w = shared + step % STAGES * STAGE, x = w + ROWS * LINE;
#pragma unroll
        for (uint32_t i = 0; i < COLUMNS / 16; i++) {
            uint32_t b[N][2], rows[4];
#pragma unroll
            for (int n = 0; n < N; n += 2)
                load_matrices(b[n], x + place(token1 + n * 8 + lane % 8 + lane / 16 * 8,
                                              2 * i + lane / 8 % 2));
#pragma unroll
            for (int m = 0; m < M; m++) {
                load_matrices(rows, w + place(row1 + m * 16 + lane % 16, 2 * i + lane / 16));
#pragma unroll
                for (int n = 0; n < N; n++)
                    mma_f16(sum[m][n], rows, b[n]);
            }
        }
    };

#pragma unroll 1
    for (uint32_t step = 0; step < STAGES - 1; step++)
        copy(step);
#pragma unroll 1
    for (uint32_t step = 0; step < steps; step++) {
        wait_copies<STAGES - 2>();
        __syncthreads(); /* the copies of all are here, and nobody reads what is overwritten next */
        copy(step + STAGES - 1);
        multiply(step);
    }

    float of_token[N][2];
#pragma unroll
    for (int i = 0; i < 2 * N; i++) {
        const uint64_t token = token0 + token1 + i / 2 * 8 + lane % 4 * 2 + i % 2;
        of_token[i / 2][i % 2] = token < a.m ? a.x_scale[token] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        const uint64_t row = row0 + row1 + lane / 4 + i * 8;
        const float of_row = a.w_scale && row < a.n ? a.w_scale[row] : 1.0f;
#pragma unroll
        for (int j = 0; j < 2 * N; j++) {
            const uint64_t token = token0 + token1 + j / 2 * 8 + lane % 4 * 2 + j % 2;
            if (row < a.n && token < a.m)
                a.y[token * a.ldy + row] =
                    sum[i / 2][j / 2][i % 2 * 2 + j % 2] * of_row * of_token[j / 2][j % 2];
        }
    }
}

PARE_CUDA_KERNEL(gemm_f16, 256, 1)
{
    const pare_cuda_f16_tile t = pare_cuda_f16_tile_of(a.m);
    if (t.rows == 32)
        run<32, 16, 2, 1, 8>(a);
    else if (t.rows == 64)
        run<64, 64, 2, 2, 4>(a);
    else
        run<128, 128, 4, 2, 3>(a);
}
