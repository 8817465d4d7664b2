/* Products of integer activations and packed weights on tensor cores, to the bit of the reference:
 * sums of columns are integers, a step per group follows in order.
 *
 * A block of threads has 32 rows and 8, 16 or 32 tokens. Its warps take chunks of 128 columns in
 * turn; weights go from the memory to registers, 16 bytes a lane, as they lie in R8K32: lane 4 g +
 * t has rows 4 g .. 4 g + 3 of the 32 and, of an atom, columns 4 t .. 4 t + 3 and 16 + 4 t ..,
 * which is what mma m16n8k32 asks of it when slot g of the first product is row 4 g, slot g + 8 row
 * 4 g + 1, and of the second one rows 4 g + 2 and 4 g + 3. Sums go to shared memory, a slot per
 * chunk, or per atom where a group may end inside a chunk; then a thread per row and token adds the
 * slots of a group and takes its step.
 *
 * Bound: bytes of the weights over the bandwidth of the memory; above about 50 tokens those of x,
 * which every 32 rows read again, over that of L2. Expected of it: 60 % for up to 16 tokens at
 * 8192 x 8192; not measured yet. */
#include "kernels/cuda/device.cuh"

extern __shared__ int4 shared_sums[];

static constexpr uint32_t LD = PARE_CUDA_X8_LD;

/* What a lane has of one atom. */
template <uint32_t BITS> struct words {
    static constexpr int PARTS = BITS == 8 ? 2 : BITS == 4 ? 1 : BITS;
    uint4 part[PARTS];

    __device__ void load(const uint8_t *atom, uint32_t g, uint32_t t)
    {
        const uint8_t *const at = atom + g % 2 * 16 + (BITS >= 4 ? 32 * t : 0);
#pragma unroll
        for (int i = 0; i < PARTS; i++) {
            const uint8_t *const from = at + i * (BITS == 8 ? 128 : 32);
            asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                : "=r"(part[i].x), "=r"(part[i].y), "=r"(part[i].z), "=r"(part[i].w)
                : "l"(from));
        }
    }

    /* Of word i: the codes of its row at columns 4 t .. and at 16 + 4 t .., those of 8 bits less
     * 128. */
    __device__ void split(const uint32_t *word, uint32_t t, uint32_t *low, uint32_t *high) const
    {
        if (BITS == 8) {
            *low = word[0];
            *high = word[4];
        } else if (BITS == 4) {
            *low = word[0] & 0x0f0f0f0fu;
            *high = word[0] >> 4 & 0x0f0f0f0fu;
        } else {
            *low = word[0] >> 2 * t & 0x03030303u;
            *high = word[4] >> 2 * t & 0x03030303u;
        }
        if (BITS == 3) {
            *low |= (word[8] >> t & 0x01010101u) << 2;
            *high |= (word[8] >> (4 + t) & 0x01010101u) << 2;
        }
    }
};

/* c += a b: 16 rows, 32 columns, 8 tokens. */
static __device__ void mma(int *c, const uint32_t *a, const uint32_t *b)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* One block of threads; EACH: atoms of a slot. */
template <uint32_t BITS, int TILES, int EACH, class ARGUMENT> struct work {
    /* Atoms whose loads are under way together; registers bound them. */
    static constexpr uint32_t AT_ONCE = TILES < 4 ? 4 : BITS == 3 ? 1 : 2;

    const ARGUMENT &a;
    const uint8_t *codes; /* of the row block of this lane */
    const int8_t *x;      /* of the first token */
    uint32_t of_x[TILES]; /* bytes to the token of this lane in each tile */
    uint32_t g, t;
    int sum[TILES][8];

    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < TILES * 8; i++)
            sum[i / 8][i % 8] = 0;
    }

    /* The sums of this warp become those of a slot. */
    __device__ void put(uint32_t slot)
    {
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const int4 rows = {sum[i][j], sum[i][j + 2], sum[i][j + 4], sum[i][j + 6]};
                const uint32_t token = (slot * TILES + i) * 8 + 2 * t + j;
                shared_sums[token * (LD / 4) + g] = rows;
            }
        clear();
    }

    __device__ void multiply(const words<BITS> &w, const uint32_t (*b)[2])
    {
        uint32_t low[4], high[4];
        const uint32_t *const word = (const uint32_t *)w.part;
#pragma unroll
        for (int i = 0; i < 4; i++)
            w.split(word + i, t, &low[i], &high[i]);
        const uint32_t one[4] = {low[0], low[1], high[0], high[1]};
        const uint32_t two[4] = {low[2], low[3], high[2], high[3]};
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            mma(sum[i], one, b[i]);
            mma(sum[i] + 4, two, b[i]);
        }
    }

    /* ATOMS atoms from one on, all loads first; the slots are those of a piece that begins at atom
     * `first`. */
    template <int ATOMS> __device__ void add(uint32_t atom, uint32_t first)
    {
        words<BITS> w[ATOMS];
        uint32_t b[ATOMS][TILES][2];
#pragma unroll
        for (int i = 0; i < ATOMS; i++)
            w[i].load(codes + (uint64_t)atom * BITS * 32 + i * BITS * 32, g, t);
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            const uint32_t *const from = (const uint32_t *)(x + (of_x[j] + atom * 32)) + t;
#pragma unroll
            for (int i = 0; i < ATOMS; i++) {
                b[i][j][0] = __ldg(from + 8 * i);
                b[i][j][1] = __ldg(from + 8 * i + 4);
            }
        }
#pragma unroll
        for (int i = 0; i < ATOMS; i++) {
            multiply(w[i], b[i]);
            if (EACH == 1)
                put(atom + i - first);
        }
    }

    /* Chunks of a piece. */
    __device__ void add_piece(uint32_t first, uint32_t end)
    {
        for (uint32_t atom = first + threadIdx.x / 32 * 4; atom < end;
             atom += PARE_CUDA_X8_WARPS * 4) {
            const uint32_t to = min(atom + 4, end);
            uint32_t i = atom;
#pragma unroll 1
            for (; i + AT_ONCE <= to; i += AT_ONCE)
                add<AT_ONCE>(i, first);
#pragma unroll 1
            for (; i < to; i++)
                add<1>(i, first);
            if (EACH == 4)
                put((atom - first) / 4);
        }
    }
};

/* The outputs of a thread: its lane is a row, its warp a token of each tile. */
template <int TILES, int EACH, class ARGUMENT> struct outputs {
    const ARGUMENT &a;
    uint64_t row, t0;
    int offset, zero;    /* what codes are less; the zero point, or -1: those of w */
    uint32_t group, end; /* the next group, and the atom behind it */
    float y[TILES];
    int sum[TILES];

    /* The step of the group that ends. */
    __device__ void step()
    {
        const uint64_t groups = (a.w.k + a.w.group - 1) / a.w.group;
        const uint64_t xgroups = (a.x.k + a.x.group - 1) / a.x.group;
        const uint32_t of_w = group * (uint32_t)(a.x.group / 32) / (uint32_t)(a.w.group / 32);
        const uint64_t plane = (row / 8 * groups + of_w) * 8 + row % 8;
        const float scale = float_of_f16(a.w.scales[plane]);
        const int z = (zero < 0 ? a.w.zeros[plane] : zero) - offset;
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            const uint64_t at = (t0 + 8 * i) * xgroups + group;
            if (t0 + 8 * i < a.x.m)
                y[i] = fmaf((float)(sum[i] - z * a.x.sums[at]), scale * a.x.scales[at], y[i]);
            sum[i] = 0;
        }
        group++;
    }

    /* The slots of a piece. */
    __device__ void take(uint32_t first, uint32_t to, uint32_t atoms)
    {
        const int *from = (const int *)shared_sums + threadIdx.x / 32 * LD + threadIdx.x % 32;
        for (uint32_t atom = first; atom < to; atom += EACH, from += TILES * 8 * LD) {
#pragma unroll
            for (int i = 0; i < TILES; i++)
                sum[i] += from[i * 8 * LD];
            if (atom + EACH >= end || atom + EACH >= atoms) {
                step();
                end += (uint32_t)(a.x.group / 32);
            }
        }
    }

    __device__ void write() const
    {
#pragma unroll
        for (int i = 0; i < TILES; i++)
            if (t0 + 8 * i < a.x.m) {
                float *const to = a.y + (t0 + 8 * i) * a.ldy + row;
                *to = a.add ? *to + y[i] : y[i];
            }
    }
};

/* Tokens t0 .. t0 + 8 TILES - 1, the last one standing in for those behind it. */
template <uint32_t BITS, int TILES, int EACH, class ARGUMENT>
static __device__ void run(const ARGUMENT &a, uint64_t row, uint64_t t0, int offset, int zero)
{
    const uint32_t lane = threadIdx.x % 32, atoms = (uint32_t)(a.x.k / 32);
    const uint32_t piece = PARE_CUDA_X8_SLOTS / TILES * EACH;
    const uint64_t block = min(row / 8 + lane / 8, (a.n - 1) / 8);
    work<BITS, TILES, EACH, ARGUMENT> w = {a, a.w.codes + block * atoms * BITS * 32,
                                           a.x.codes + t0 * a.x.k};
    outputs<TILES, EACH, ARGUMENT> o = {a, row + lane, t0 + threadIdx.x / 32, offset, zero};
    o.end = (uint32_t)(a.x.group / 32);
    w.g = lane / 4;
    w.t = lane % 4;
    w.clear();
#pragma unroll
    for (int i = 0; i < TILES; i++)
        w.of_x[i] = (uint32_t)((min(t0 + 8 * i + w.g, (uint64_t)a.x.m - 1) - t0) * a.x.k);
    const bool has_row = o.row < a.n && o.t0 < a.x.m;
    for (uint32_t first = 0; first < atoms; first += piece) {
        const uint32_t end = min(first + piece, atoms);
        w.add_piece(first, end);
        __syncthreads();
        if (has_row)
            o.take(first, end, atoms);
        __syncthreads();
    }
    if (has_row)
        o.write();
}

/* Blocks that share rows follow each other, so that weights come from the memory once. */
template <uint32_t BITS, class ARGUMENT>
static __device__ void run_all(const ARGUMENT &a, int offset, int zero)
{
    const uint32_t tiles = pare_cuda_x8_tiles(&a.x), tokens = tiles * 8;
    const uint32_t across = (uint32_t)((a.x.m + tokens - 1) / tokens);
    const uint32_t row = blockIdx.x / across * 32;
    const uint64_t t = (uint64_t)(blockIdx.x % across) * tokens;
    const bool chunks = pare_cuda_x8_slot_atoms(&a.x) == 4;
    if (tiles == 4)
        run<BITS, 4, 4>(a, row, t, offset, zero);
    else if (tiles == 2 && chunks)
        run<BITS, 2, 4>(a, row, t, offset, zero);
    else if (tiles == 2)
        run<BITS, 2, 1>(a, row, t, offset, zero);
    else if (chunks)
        run<BITS, 1, 4>(a, row, t, offset, zero);
    else
        run<BITS, 1, 1>(a, row, t, offset, zero);
}

PARE_CUDA_KERNEL(gemm_x8_q2, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_all<2>(a, 0, a.w.zeros ? -1 : 2);
}

PARE_CUDA_KERNEL(gemm_x8_q3, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_all<3>(a, 0, a.w.zeros ? -1 : 4);
}

PARE_CUDA_KERNEL(gemm_x8_q4, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_all<4>(a, 0, a.w.zeros ? -1 : 8);
}

PARE_CUDA_KERNEL(gemm_x8_q8, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_all<8>(a, 128, a.w.zeros ? -1 : 128);
}

PARE_CUDA_KERNEL(gemm_x8_t2, PARE_CUDA_X8_WARPS * 32, 2)
{
    run_all<2>(a, 0, 1);
}
