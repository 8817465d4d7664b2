/* Products of F16 inputs and 2:4 weights of F16 or of packed codes on sparse tensor cores, for some
 * tokens.
 *
 * A block of threads has 32 rows and 8, 16 or 32 tokens. Its 8 warps take 64 columns, which are 32
 * places, in turn; weights go from the memory to registers as they lie: lane 4 g + t has rows 4 g
 * .. 4 g + 3 of the 32 and of each places 8 t .. 8 t + 7. So step s of two gets pairs of places 4 t
 * + 2 s + h as its pairs t + 4 h, and lane t names the columns of pairs t, 4 + t, 8 + t, 12 + t for
 * step t / 2. Slots g and g + 8 of the first product are rows 4 g and 4 g + 1, those of the second
 * one rows 4 g + 2 and 4 g + 3. Sums of the warps follow in order, so an output depends on its row
 * and its token alone.
 *
 * Error: (2 k + 8) 2^-24 sum |x w|, and a rounding for each warp.
 * Bound: bytes of the weights, 1.125 for a column, over the bandwidth of the memory; above about 32
 * tokens those of x, which every 32 rows read again, over that of L2. Measured on an H200 at
 * 8192 x 8192: 68 % of a copy at one token, 53 % at 16; codes of 4 bits 25 and 19 %. */
#include "kernels/cuda/f16_codes.cuh"
#include "kernels/cuda/gemm_f16_few.cuh"

/* c += a b: 16 rows, 32 columns, 8 tokens; `pairs` of the lanes that STEP names have the columns.
 */
template <int STEP>
static __device__ void mma_24(float *c, const uint32_t *a, const uint32_t *b, uint32_t pairs)
{
    asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
          "r"(pairs), "n"(STEP));
}

/* The columns of pairs t, 4 + t, 8 + t, 12 + t of a row, four bits each, twice: in bytes 0 and 2.
 * `low` and `high` are its words of the indices: field q of byte b is place 4 q + b of 16. */
static __device__ uint32_t pairs_of(uint32_t low, uint32_t high, uint32_t t)
{
    const uint32_t shift = t % 2 * 16 + t / 2 * 2;
    const uint32_t both = __byte_perm(low >> shift, high >> shift, 0x5410);
    return (both & 0x00330033u) | (both >> 6 & 0x00cc00ccu);
}

/* One warp. */
template <int TILES> struct work {
    const pare_cuda_gemm_f16_s16 &a;
    const uint8_t *indices; /* of the row block of this lane */
    uint64_t rows[4];       /* where its rows begin */
    uint32_t g, t;
    uint32_t of_x[TILES]; /* numbers to what this lane has of its token in each tile */
    float total[TILES][8];

    __device__ void add(uint32_t atom)
    {
        uint4 w[4];
        uint32_t b[TILES][2][4];
        const uint4 low = read_once(indices + atom * 64);
        const uint4 high = read_once(indices + atom * 64 + 32);
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[i] = read_once(a.w.values + rows[i] + atom * 32);
#pragma unroll
        for (int j = 0; j < TILES * 8; j++) /* step, h, and which half of the columns */
            b[j / 8][j / 4 % 2][j % 4] =
                __ldg((const uint32_t *)(a.x + (of_x[j / 8] + atom * 64 + j / 4 % 2 * 8 +
                                                j % 4 / 2 * 4 + j % 2 * 32)));
        const uint32_t one =
            __byte_perm(pairs_of(low.x, high.x, t), pairs_of(low.y, high.y, t), 0x6420);
        const uint32_t two =
            __byte_perm(pairs_of(low.z, high.z, t), pairs_of(low.w, high.w, t), 0x6420);
        const uint32_t first[2][4] = {{w[0].x, w[1].x, w[0].y, w[1].y},
                                      {w[0].z, w[1].z, w[0].w, w[1].w}};
        const uint32_t second[2][4] = {{w[2].x, w[3].x, w[2].y, w[3].y},
                                       {w[2].z, w[3].z, w[2].w, w[3].w}};
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            mma_24<0>(total[i], first[0], b[i][0], one);
            mma_24<0>(total[i] + 4, second[0], b[i][0], two);
            mma_24<1>(total[i], first[1], b[i][1], one);
            mma_24<1>(total[i] + 4, second[1], b[i][1], two);
        }
    }
};

/* The same of packed codes: of an atom of places lane 4 g + t has 4 t .. 4 t + 3, which are pairs 2
 * t and 2 t + 1, and those behind 16 of them: one step each, of 32 columns. So a step gets pair 2 t
 * + h as its pair t + 4 h. Sums of a step, or of two of the same group, are scaled and added. */
template <uint32_t BITS, int TILES> struct coded_work {
    using code = uniform<BITS>;
    const pare_cuda_gemm_f16_s4 &a;
    const uint8_t *codes, *indices; /* of the row block of this lane */
    uint64_t plane;                 /* where the scales of its four rows begin */
    uint32_t g, t, per, groups;     /* per: steps of a group */
    uint32_t of_x[TILES];
    float sum[TILES][8], total[TILES][8];

    /* Two bits of each byte at the same place become one behind the other: the columns of the four
     * pairs whose first and second places are in the bytes of `two`. */
    static __device__ uint32_t columns_of(uint32_t two)
    {
        uint32_t v = __byte_perm(two, 0, 0x4140);
        v = (v | v << 4) & 0x0f0f0f0fu;
        v = (v | v << 2) & 0x33333333u;
        return (v | v >> 14) & 0xffffu;
    }

    __device__ uint32_t columns_of(uint32_t one, uint32_t other) const
    {
        return columns_of(one >> t % 2 * 16) | columns_of(other >> t % 2 * 16) << 16;
    }

    __device__ void scale(uint32_t step)
    {
        const uint64_t at = plane + (uint64_t)min(step / per, groups - 1) * 8;
        const uint2 scales = __ldg((const uint2 *)(a.w.scales + at));
        const float of_row[4] = {
            float_of_f16((uint16_t)scales.x), float_of_f16((uint16_t)(scales.x >> 16)),
            float_of_f16((uint16_t)scales.y), float_of_f16((uint16_t)(scales.y >> 16))};
#pragma unroll
        for (int i = 0; i < TILES * 8; i++) {
            total[i / 8][i % 8] = fmaf(of_row[i % 8 / 2], sum[i / 8][i % 8], total[i / 8][i % 8]);
            sum[i / 8][i % 8] = 0;
        }
    }

    __device__ void add(uint32_t atom)
    {
        words<BITS> w;
        uint32_t b[TILES][2][4], of_w[2][2][4]; /* step, rows */
        const uint4 at = read_once(indices + atom * 64 + t / 2 * 32);
        w.template load<from_memory>(codes + (uint64_t)atom * (BITS * 32), g, t);
#pragma unroll
        for (int j = 0; j < TILES * 8; j++) /* step, h, and which half of its columns */
            b[j / 8][j / 4 % 2][j % 4] =
                __ldg((const uint32_t *)(a.x + (of_x[j / 8] + atom * 64 + j / 4 % 2 * 32 +
                                                j % 4 / 2 * 4 + j % 2 * 16)));
        const uint32_t one = columns_of(at.x, at.y), two = columns_of(at.z, at.w);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            uint32_t low, high;
            w.split(r, t, &low, &high);
            of_w[0][r / 2][r % 2] = code::halves(low, 0, code::ZERO);
            of_w[0][r / 2][r % 2 + 2] = code::halves(low, 1, code::ZERO);
            of_w[1][r / 2][r % 2] = code::halves(high, 0, code::ZERO);
            of_w[1][r / 2][r % 2 + 2] = code::halves(high, 1, code::ZERO);
        }
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            mma_24<0>(sum[i], of_w[0][0], b[i][0], one);
            mma_24<0>(sum[i] + 4, of_w[0][1], b[i][0], two);
        }
        if ((2 * atom + 1) % per == 0)
            scale(2 * atom);
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            mma_24<1>(sum[i], of_w[1][0], b[i][1], one);
            mma_24<1>(sum[i] + 4, of_w[1][1], b[i][1], two);
        }
        scale(2 * atom + 1);
    }
};

/* The kernels have the same arguments. */
template <uint32_t BITS, int TILES, class ARGUMENT>
static __device__ void run_coded(const ARGUMENT &argument, uint64_t row, uint64_t t0)
{
    const pare_cuda_gemm_f16_s4 a = {argument.x,   argument.x_scale, argument.w, argument.y,
                                     argument.ldx, argument.ldy,     argument.m, argument.n};
    const uint32_t lane = threadIdx.x % 32, atoms = (uint32_t)((a.w.k + 63) / 64);
    const uint64_t block = min(row / 8 + lane / 8, (a.n - 1) / 8);
    const uint32_t groups = (uint32_t)((a.w.k + a.w.group - 1) / a.w.group);
    coded_work<BITS, TILES> w = {a,
                                 a.w.codes + block * atoms * (BITS * 32),
                                 a.w.indices + block * atoms * 64 + lane / 4 % 2 * 16,
                                 block * groups * 8 + lane / 4 % 2 * 4,
                                 lane / 4,
                                 lane % 4,
                                 (uint32_t)min(a.w.group / 32, a.w.k),
                                 groups};
#pragma unroll
    for (int i = 0; i < TILES; i++)
        w.of_x[i] = (uint32_t)(min(t0 + 8 * i + w.g, a.m - 1) * a.ldx) + w.t / 2 * 8 + w.t % 2 * 2;
#pragma unroll 1
    for (uint32_t atom = threadIdx.x / 32; atom < atoms; atom += WARPS)
        w.add(atom);
    put_totals<TILES>(w.total);
    __syncthreads();
    write_totals<TILES>(a, row, t0);
}

template <int TILES>
static __device__ void run(const pare_cuda_gemm_f16_s16 &a, uint64_t row, uint64_t t0)
{
    const uint32_t lane = threadIdx.x % 32, atoms = (uint32_t)((a.w.k + 63) / 64);
    const uint64_t block = min(row / 8 + lane / 8, (a.n - 1) / 8);
    work<TILES> w = {a, a.w.indices + block * atoms * 64 + lane / 4 % 2 * 16};
    w.g = lane / 4;
    w.t = lane % 4;
#pragma unroll
    for (int i = 0; i < 4; i++)
        w.rows[i] = min(row + 4 * w.g + i, a.n - 1) * a.w.ldv + 8 * w.t;
#pragma unroll
    for (int i = 0; i < TILES; i++)
        w.of_x[i] = (uint32_t)(min(t0 + 8 * i + w.g, a.m - 1) * a.ldx) + w.t / 2 * 16 + w.t % 2 * 2;
#pragma unroll 1
    for (uint32_t atom = threadIdx.x / 32; atom < atoms; atom += WARPS)
        w.add(atom);
    put_totals<TILES>(w.total);
    __syncthreads();
    write_totals<TILES>(a, row, t0);
}

PARE_CUDA_KERNEL(gemm_f16_s16, WARPS * 32, 2)
{
    const few_block f(a.m);
    if (f.tiles == 1)
        run<1>(a, f.row, f.token);
    else if (f.tiles == 2)
        run<2>(a, f.row, f.token);
    else
        run<4>(a, f.row, f.token);
}

template <uint32_t BITS, class ARGUMENT> static __device__ void run_coded(const ARGUMENT &a)
{
    const few_block f(a.m);
    if (f.tiles == 1)
        run_coded<BITS, 1>(a, f.row, f.token);
    else if (f.tiles == 2)
        run_coded<BITS, 2>(a, f.row, f.token);
    else
        run_coded<BITS, 4>(a, f.row, f.token);
}

PARE_CUDA_KERNEL(gemm_f16_s4, WARPS * 32, 2)
{
    run_coded<4>(a);
}

PARE_CUDA_KERNEL(gemm_f16_s8, WARPS * 32, 2)
{
    run_coded<8>(a);
}
