/* Products of F16 inputs and packed codes, uniform or floats of 4 and 8 bits, on tensor cores, for
 * up to 64 tokens: codes become F16 in registers, which is exact, and scales meet sums of F32.
 *
 * A block of threads has 32 rows and 8, 16 or 32 tokens. Its 8 warps take chunks of 128 columns in
 * turn; weights go from the memory to registers, 16 bytes a lane, as they lie in R8K32: lane 4 g +
 * t has rows 4 g .. 4 g + 3 of the 32 and, of an atom, columns 4 t .. 4 t + 3 and 16 + 4 t .. .
 * Slots g and g + 8 of the first product are rows 4 g and 4 g + 1, those of the second one rows 4 g
 * + 2 and 4 g + 3. Sums of a chunk, or of an atom or half of one where groups are narrower, are
 * scaled and added; those of the warps follow in order. So an output depends on its row and its
 * token alone.
 *
 * Error: (2 k + 8) 2^-24 sum |x w|, and a rounding for each scale and each warp.
 * Bound: bytes of the weights over the bandwidth of the memory; above about 16 tokens those of x,
 * which every 32 rows read again, over that of L2. Measured on an H200
 * at 8192 x 8192: 4 bits take 19.7 us at one token, 42 % of a copy, and 33 % at 16; 8 bits 66 and
 * 57 %. With 4 bits the rate of instructions counts, too. */
#include "kernels/cuda/f16_codes.cuh"
#include "kernels/cuda/gemm_f16_few.cuh"

/* One warp; EACH: atoms whose sums are scaled together, 0: each half of one. */
template <class CODE, int TILES, int EACH> struct work {
    static constexpr uint32_t BITS = CODE::BITS;
    /* Atoms whose loads are under way together; registers bound them. */
    static constexpr int AT_ONCE = TILES == 4 ? 1 : (BITS == 3 ? 2 : 4) / TILES;

    /* Whether registers hold a chunk twice, so that one is loaded while the other is multiplied. */
    static constexpr bool TWICE = AT_ONCE == 4 && words<BITS>::PARTS == 1;
    static constexpr bool HELD = TWICE && EACH == 4; /* the scales of a chunk, too */

    const pare_cuda_gemm_f16_q4 &a;
    const uint8_t *codes; /* of the row block of this lane */
    uint64_t planes;      /* where the scales of its four rows begin */
    uint32_t g, t;
    uint32_t per;         /* atoms of a group */
    uint32_t of_x[TILES]; /* numbers to what this lane has of its token in each tile */
    float sum[TILES][8], total[TILES][8];

    /* One atom: products of four rows by the halves FIRST .. LAST of it. */
    template <int FIRST, int LAST>
    __device__ void multiply(const words<BITS> &w, const uint2 (*b)[2], uint32_t zeros)
    {
#pragma unroll
        for (int pair = 0; pair < 4; pair += 2) {
            uint32_t of_w[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint32_t z = zeros >> 8 * (pair + i) & 0xffu;
                uint32_t low, high;
                w.split(pair + i, t, &low, &high);
                of_w[0][i] = CODE::halves(low, 0, z);
                of_w[0][i + 2] = CODE::halves(low, 1, z);
                of_w[1][i] = CODE::halves(high, 0, z);
                of_w[1][i + 2] = CODE::halves(high, 1, z);
            }
#pragma unroll
            for (int i = 0; i < TILES; i++)
#pragma unroll
                for (int half = FIRST; half <= LAST; half++)
                    mma_f16(sum[i] + 2 * pair, of_w[half], &b[i][half].x);
        }
    }

    /* The sums so far become part of the totals, times the scales of a group. */
    __device__ uint2 scales(uint64_t plane) const
    {
        return __ldg((const uint2 *)(a.w.scales + plane));
    }

    __device__ void scale(uint2 scales)
    {
        const float of_row[4] = {
            float_of_f16((uint16_t)scales.x), float_of_f16((uint16_t)(scales.x >> 16)),
            float_of_f16((uint16_t)scales.y), float_of_f16((uint16_t)(scales.y >> 16))};
#pragma unroll
        for (int i = 0; i < TILES * 8; i++) {
            total[i / 8][i % 8] = fmaf(of_row[i % 8 / 2], sum[i / 8][i % 8], total[i / 8][i % 8]);
            sum[i / 8][i % 8] = 0;
        }
    }

    /* What ATOMS atoms from one on are multiplied with. */
    template <int ATOMS> struct loads {
        words<BITS> w[ATOMS];
        uint2 b[ATOMS][TILES][2];
        uint2 scales; /* HELD: of the group that the atoms lie in */
        uint32_t zeros;
    };

    template <int ATOMS> __device__ void load(loads<ATOMS> *to, uint32_t atom) const
    {
#pragma unroll
        for (int i = 0; i < ATOMS; i++)
            to->w[i].template load<from_memory>(codes + (uint64_t)(atom + i) * (BITS * 32), g, t);
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int i = 0; i < 2 * ATOMS; i++)
                to->b[i / 2][j][i % 2] =
                    __ldg((const uint2 *)(a.x + (of_x[j] + atom * 32 + i * 16)));
        if (HELD) {
            to->scales = scales(planes + atom / per * 8);
            to->zeros = zeros(planes + atom / per * 8);
        }
    }

    __device__ uint32_t zeros(uint64_t plane) const
    {
        return a.w.zeros ? __ldg((const uint32_t *)(a.w.zeros + plane)) : CODE::ZERO * 0x01010101u;
    }

    /* EACH == 4: the atoms lie in one group. */
    template <int ATOMS> __device__ void add(const loads<ATOMS> &l, uint32_t atom)
    {
        uint32_t z = 0;
#pragma unroll
        for (int i = 0; i < ATOMS; i++) {
            if (EACH == 0) {
                const uint64_t first = planes + (atom + i) * 16;
                multiply<0, 0>(l.w[i], l.b[i], 0);
                scale(scales(first));
                multiply<1, 1>(l.w[i], l.b[i], 0);
                scale(scales(first + 8));
                continue;
            }
            const uint64_t plane = planes + (atom + i) / per * 8;
            if (EACH == 1 || (i == 0 && !(HELD && ATOMS == 4)))
                z = zeros(plane);
            multiply<0, 1>(l.w[i], l.b[i], HELD && ATOMS == 4 ? l.zeros : z);
            if (EACH == 1)
                scale(scales(plane));
        }
    }

    template <int ATOMS> __device__ void add(uint32_t atom)
    {
        loads<ATOMS> l;
        load(&l, atom);
        add(l, atom);
    }

    __device__ void add_chunk(uint32_t atom, uint32_t end)
    {
#pragma unroll 1
        for (; atom + AT_ONCE <= end; atom += AT_ONCE)
            add<AT_ONCE>(atom);
#pragma unroll 1
        for (; atom < end; atom++)
            add<1>(atom);
        if (EACH == 4)
            scale(scales(planes + (end - 1) / per * 8));
    }

    /* The chunks of a warp. Where loads of a whole chunk fit into registers twice, those of the
     * next one are under way while one is multiplied. */
    __device__ void add_all(uint32_t atom, uint32_t atoms)
    {
        constexpr uint32_t STEP = WARPS * 4;
        if (TWICE && atom + 4 <= atoms) {
            loads<4> now, next;
            load(&now, atom);
#pragma unroll 1
            for (; atom + 4 <= atoms; atom += STEP) {
                if (atom + STEP + 4 <= atoms)
                    load(&next, atom + STEP);
                add(now, atom);
                if (HELD)
                    scale(now.scales);
                now = next;
            }
        }
#pragma unroll 1
        for (; atom < atoms; atom += STEP)
            add_chunk(atom, min(atom + 4, atoms));
    }
};

/* Tokens t0 .. t0 + 8 TILES - 1, the last one standing in for those behind it. */
template <class CODE, int TILES, int EACH>
static __device__ void run(const pare_cuda_gemm_f16_q4 &a, uint64_t row, uint64_t t0)
{
    const uint32_t lane = threadIdx.x % 32, atoms = (uint32_t)(a.w.k / 32);
    const uint64_t block = min(row / 8 + lane / 8, (a.n - 1) / 8);
    const uint64_t groups = (a.w.k + a.w.group - 1) / a.w.group;
    work<CODE, TILES, EACH> w = {a,
                                 a.w.codes + block * atoms * (CODE::BITS * 32),
                                 block * groups * 8 + lane / 4 % 2 * 4,
                                 lane / 4,
                                 lane % 4,
                                 (uint32_t)min(a.w.group / 32, a.w.k)};
#pragma unroll
    for (int i = 0; i < TILES; i++)
        w.of_x[i] = (uint32_t)(min(t0 + 8 * i + w.g, a.m - 1) * a.ldx) + 4 * w.t;
    w.add_all(threadIdx.x / 32 * 4, atoms);
    put_totals<TILES>(w.total);
    __syncthreads();
    write_totals<TILES>(a, row, t0);
}

template <class CODE, int TILES>
static __device__ void run_groups(const pare_cuda_gemm_f16_q4 &a, const few_block &f)
{
    if (CODE::HALVES && has_halves(a.w))
        run<CODE, TILES, CODE::HALVES ? 0 : 1>(a, f.row, f.token);
    else if (a.w.group % 128 == 0 || a.w.group >= a.w.k)
        run<CODE, TILES, 4>(a, f.row, f.token);
    else
        run<CODE, TILES, 1>(a, f.row, f.token);
}

/* The kernels have the same arguments. */
template <class CODE, class ARGUMENT> static __device__ void run_all(const ARGUMENT &argument)
{
    const pare_cuda_gemm_f16_q4 a = {argument.x,   argument.x_scale, argument.w, argument.y,
                                     argument.ldx, argument.ldy,     argument.m, argument.n};
    const few_block f(a.m);
    if (f.tiles == 1)
        run_groups<CODE, 1>(a, f);
    else if (f.tiles == 2)
        run_groups<CODE, 2>(a, f);
    else
        run_groups<CODE, 4>(a, f);
}

PARE_CUDA_KERNEL(gemm_f16_q2, WARPS * 32, 2)
{
    run_all<uniform<2>>(a);
}

PARE_CUDA_KERNEL(gemm_f16_t2, WARPS * 32, 2)
{
    run_all<uniform<2, 1>>(a);
}

PARE_CUDA_KERNEL(gemm_f16_q3, WARPS * 32, 2)
{
    run_all<uniform<3>>(a);
}

PARE_CUDA_KERNEL(gemm_f16_q4, WARPS * 32, 2)
{
    run_all<uniform<4>>(a);
}

PARE_CUDA_KERNEL(gemm_f16_q8, WARPS * 32, 2)
{
    run_all<uniform<8>>(a);
}

PARE_CUDA_KERNEL(gemm_f16_e2m1, WARPS * 32, 2)
{
    run_all<e2m1>(a);
}

PARE_CUDA_KERNEL(gemm_f16_e4m3, WARPS * 32, 2)
{
    run_all<e4m3>(a);
}
