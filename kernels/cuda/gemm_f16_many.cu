/* Products of F16 inputs and packed codes, uniform or floats of 4 and 8 bits, on tensor cores, for
 * many tokens: codes become F16 in registers, which is exact, and scales meet sums of F32.
 *
 * A block of threads has 128 rows and 64 tokens, two of them a processor; each of its 8 warps has
 * 32 rows and half of the tokens. Codes, as they lie in R8K32, and inputs of 64 columns go through
 * shared memory in stages, copies of the next ones being under way. Of inputs a row has 128 bytes
 * there, its chunks of 16 bytes permuted by the token; lane 4 g + t reads columns 4 t .. 4 t + 3 of
 * token g, as the codes have them. An output adds 16 columns at a time in ascending order, and the
 * sum of each group times its scale, whatever the tile; so it depends on its row and its token
 * alone.
 *
 * Error: (2 g + 8) 2^-24 sum |x w| for groups of g columns, and a rounding for each group.
 * Bound: the rate of mma.sync, 56 us at 8192 x 8192 and 256 tokens on an H200; bytes of x, which
 * every 128 rows read again, over the bandwidth of L2. Measured there: 217 us with 4 bits, a
 * quarter of the speed of cuBLAS in F16, and 137 us at 128 tokens. Decoding and products of a warp
 * do not overlap. A tile of 128 by 128, one a processor, took 166 us for either. */
#include "kernels/cuda/f16_codes.cuh"

extern __shared__ __align__(128) uint8_t shared_stages[];

static constexpr uint32_t WARPS = PARE_CUDA_CODES_WARPS, THREADS = WARPS * 32;

/* 64 columns: inputs, codes, scales and zero points of the rows by the groups of both atoms; with
 * HALVES, of the halves of both, without zero points. */
template <class CODE, bool HALVES> struct tile {
    static constexpr uint32_t BITS = CODE::BITS, BLOCK = BITS * 64, LINE = 128, STRIPS = 4;
    static constexpr uint32_t ROWS = PARE_CUDA_CODES_ROWS, TOKENS = PARE_CUDA_CODES_TOKENS;
    static constexpr uint32_t STAGE = PARE_CUDA_CODES_STAGE(BITS), STAGES = PARE_CUDA_CODES_STAGES;
    static constexpr int TILES = TOKENS * STRIPS / WARPS / 8;
    static constexpr uint32_t CODES = TOKENS * LINE, SCALES = CODES + ROWS / 8 * BLOCK;
    static constexpr uint32_t ZEROS = SCALES + ROWS * 4, GROUPS = HALVES ? 2 : 1; /* of an atom */
    static_assert(ROWS == 32 * STRIPS && STAGE == TOKENS * LINE + ROWS / 8 * BLOCK + ROWS * 8, "");

    const pare_cuda_gemm_f16_q4 &a;
    const uint32_t first, last, atoms, per, groups; /* row blocks; atoms of a group, or of two */
    const uint64_t t0;
    const uint32_t strip, across, g, t;
    uint32_t x_at[TOKENS * 8 / THREADS]; /* what the thread copies of the inputs */
    float sum[TILES][8], total[TILES][8];

    __device__ tile(const pare_cuda_gemm_f16_q4 &a, uint32_t row_tile, uint32_t token_tile)
        : a(a), first(row_tile * (ROWS / 8)), last((uint32_t)((a.n - 1) / 8)),
          atoms((uint32_t)(a.w.k / 32)), per(HALVES ? 1 : (uint32_t)min(a.w.group / 32, a.w.k)),
          groups((atoms + per - 1) / per * GROUPS), t0((uint64_t)token_tile * TOKENS),
          strip(threadIdx.x / 32 % STRIPS), across(threadIdx.x / 32 / STRIPS),
          g(threadIdx.x % 32 / 4), t(threadIdx.x % 4)
    {
#pragma unroll
        for (uint32_t i = 0; i < TOKENS * 8 / THREADS; i++) {
            const uint64_t token = min(t0 + threadIdx.x / 8 + i * (THREADS / 8), a.m - 1);
            x_at[i] = (uint32_t)(token * a.ldx) + threadIdx.x % 8 * 8;
        }
    }

    /* Where a chunk of 16 bytes of a token lies: pairs of them that eight tokens have at the same
     * columns are in different banks. */
    static __device__ uint32_t place(uint32_t token, uint32_t chunk)
    {
        return token * LINE + (chunk ^ (token * 2 % 8 | token / 4 % 2)) * 16;
    }

    static __device__ uint32_t stage(uint32_t i)
    {
        return shared_at(shared_stages) + i * STAGE;
    }

    __device__ void fetch(uint32_t to, uint32_t step) const
    {
#pragma unroll
        for (uint32_t i = 0; i < TOKENS * 8 / THREADS; i++)
            copy_bytes<16>(to + place(threadIdx.x / 8 + i * (THREADS / 8), threadIdx.x % 8),
                           a.x + (x_at[i] + step * 64));
        constexpr uint32_t PIECES = BLOCK / 16;
        const uint64_t row = (uint64_t)atoms * (BITS * 32);
#pragma unroll
        for (uint32_t i = threadIdx.x; i < (ROWS / 8 * PIECES + THREADS - 1) / THREADS * THREADS;
             i += THREADS) {
            const uint32_t block = i / PIECES, byte = step * BLOCK + i % PIECES * 16;
            if ((ROWS / 8 * PIECES % THREADS == 0 || i < ROWS / 8 * PIECES) && byte < row)
                copy_bytes<16>(to + CODES + block * BLOCK + i % PIECES * 16,
                               a.w.codes + min(first + block, last) * row + byte);
        }
        const uint32_t block = threadIdx.x % (ROWS / 8);
        const uint32_t part = 2 * GROUPS * step + threadIdx.x / (ROWS / 8); /* an atom, or a half */
        if (threadIdx.x >= ROWS / 4 * GROUPS || part >= atoms * GROUPS)
            return;
        const uint64_t from = ((uint64_t)min(first + block, last) * groups + part / per) * 8;
        copy_bytes<16>(to + SCALES + threadIdx.x * 16, a.w.scales + from);
        if (!HALVES && a.w.zeros)
            copy_bytes<8>(to + ZEROS + threadIdx.x * 8, a.w.zeros + from);
    }

    /* The halves FIRST .. LAST of one atom, half i of a stage. */
    template <int FIRST, int LAST> __device__ void multiply(uint32_t slot, uint32_t i)
    {
        const uint8_t *const from = shared_stages + slot * STAGE;
        const uint8_t *const x = from + across * TILES * 8 * LINE + t % 2 * 8;
        const uint32_t zeros =
            !HALVES && a.w.zeros ? *(const uint32_t *)(from + ZEROS + i * ROWS + strip * 32 + 4 * g)
                                 : CODE::ZERO * 0x01010101u;
        words<BITS> w;
        uint32_t of_w[2][2][4];
        w.template load<from_shared>(from + CODES + (strip * 4 + g / 2) * BLOCK + i * (BITS * 32),
                                     g, t);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const uint32_t z = zeros >> 8 * r & 0xffu;
            uint32_t low, high;
            w.split(r, t, &low, &high);
            of_w[0][r / 2][r % 2] = CODE::halves(low, 0, z);
            of_w[0][r / 2][r % 2 + 2] = CODE::halves(low, 1, z);
            of_w[1][r / 2][r % 2] = CODE::halves(high, 0, z);
            of_w[1][r / 2][r % 2 + 2] = CODE::halves(high, 1, z);
        }
#pragma unroll
        for (int half = FIRST; half <= LAST; half++)
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                const uint2 b = *(const uint2 *)(x + place(j * 8 + g, i * 4 + half * 2 + t / 2));
                mma_f16(sum[j], of_w[half][0], &b.x);
                mma_f16(sum[j] + 4, of_w[half][1], &b.x);
            }
    }

    /* The sums so far become part of the totals, times the scales of part i of the stage. */
    __device__ void scale(uint32_t slot, uint32_t i)
    {
        const uint2 scales = *(const uint2 *)(shared_stages + slot * STAGE + SCALES +
                                              (i * ROWS + strip * 32 + 4 * g) * 2);
        const float of_row[4] = {
            float_of_f16((uint16_t)scales.x), float_of_f16((uint16_t)(scales.x >> 16)),
            float_of_f16((uint16_t)scales.y), float_of_f16((uint16_t)(scales.y >> 16))};
#pragma unroll
        for (int i = 0; i < TILES * 8; i++) {
            total[i / 8][i % 8] = fmaf(of_row[i % 8 / 2], sum[i / 8][i % 8], total[i / 8][i % 8]);
            sum[i / 8][i % 8] = 0;
        }
    }

    __device__ void write() const
    {
        const uint64_t row = (uint64_t)first * 8 + strip * 32 + 4 * g;
#pragma unroll
        for (int i = 0; i < TILES * 2; i++) {
            const uint64_t token = t0 + (across * TILES + i / 2) * 8 + 2 * t + i % 2;
            if (token >= a.m)
                continue;
            const float *const of = &total[i / 2][i % 2], by = a.x_scale[token];
            float *const to = a.y + token * a.ldy + row;
            const float4 four = {of[0] * by, of[2] * by, of[4] * by, of[6] * by};
            if (row + 4 <= a.n && (uintptr_t)to % 16 == 0) {
                *(float4 *)to = four;
                continue;
            }
            const float each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (uint32_t r = 0; r < 4; r++)
                if (row + r < a.n)
                    to[r] = each[r];
        }
    }

    __device__ void run()
    {
        const uint32_t count = (atoms + 1) / 2;
        uint32_t into = STAGES - 1, at = 0, end = per;
#pragma unroll
        for (int i = 0; i < TILES * 8; i++)
            sum[i / 8][i % 8] = total[i / 8][i % 8] = 0;
#pragma unroll
        for (uint32_t i = 0; i + 1 < STAGES; i++) {
            if (i < count)
                fetch(stage(i), i);
            commit_copies();
        }
#pragma unroll 1
        for (uint32_t step = 0; step < count; step++) {
            wait_copies<STAGES - 2>();
            __syncthreads(); /* the copies of all are here, and nobody reads what is overwritten */
            if (step + STAGES - 1 < count)
                fetch(stage(into), step + STAGES - 1);
            commit_copies();
#pragma unroll 1
            for (uint32_t i = 0; i < 2 && 2 * step + i < atoms; i++) {
                if (HALVES) {
                    multiply<0, 0>(at, i);
                    scale(at, 2 * i);
                    multiply<1, 1>(at, i);
                    scale(at, 2 * i + 1);
                    continue;
                }
                multiply<0, 1>(at, i);
                if (2 * step + i + 1 < end && 2 * step + i + 1 < atoms)
                    continue;
                scale(at, i);
                end += per;
            }
            into = into + 1 < STAGES ? into + 1 : 0;
            at = at + 1 < STAGES ? at + 1 : 0;
        }
        write();
    }
};

/* The kernels have the same arguments. Blocks that share rows follow each other, so that weights
 * come from the memory once. */
template <class CODE, class ARGUMENT> static __device__ void run_all(const ARGUMENT &argument)
{
    const pare_cuda_gemm_f16_q4 a = {argument.x,   argument.x_scale, argument.w, argument.y,
                                     argument.ldx, argument.ldy,     argument.m, argument.n};
    const uint32_t across = (uint32_t)((a.m + PARE_CUDA_CODES_TOKENS - 1) / PARE_CUDA_CODES_TOKENS);
    const uint32_t row = blockIdx.x / across, token = blockIdx.x % across;
    if (CODE::HALVES && has_halves(a.w))
        tile<CODE, CODE::HALVES>(a, row, token).run();
    else
        tile<CODE, false>(a, row, token).run();
}

PARE_CUDA_KERNEL(gemm_f16_many_q2, THREADS, 2)
{
    run_all<uniform<2>>(a);
}

PARE_CUDA_KERNEL(gemm_f16_many_t2, THREADS, 2)
{
    run_all<uniform<2, 1>>(a);
}

PARE_CUDA_KERNEL(gemm_f16_many_q3, THREADS, 2)
{
    run_all<uniform<3>>(a);
}

PARE_CUDA_KERNEL(gemm_f16_many_q4, THREADS, 2)
{
    run_all<uniform<4>>(a);
}

PARE_CUDA_KERNEL(gemm_f16_many_q8, THREADS, 2)
{
    run_all<uniform<8>>(a);
}

PARE_CUDA_KERNEL(gemm_f16_many_e2m1, THREADS, 2)
{
    run_all<e2m1>(a);
}

PARE_CUDA_KERNEL(gemm_f16_many_e4m3, THREADS, 2)
{
    run_all<e4m3>(a);
}
