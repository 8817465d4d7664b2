/* Codes times floats for up to 8 tokens: weights are decoded in registers and multiplied in the
 * order of gemm_f32, so the result is that of dequant_* and gemm_f32, to the bit.
 *
 * A warp has a row block of 8 rows, a thread two of the eight lanes of a row: the lanes 2 c and
 * 2 c + 1 of row g, g = thread % 8, c = thread / 8. What the warps of a block need of COLUMNS
 * columns, codes as they lie in R8K32, planes and inputs, comes into a ring in shared memory by
 * copies of 16 bytes (inputs by 4), several parts ahead; the inputs are put there in the order in
 * which a thread takes them.
 *
 * Bound: bytes of the weights over the bandwidth of the memory, or the rate of instructions. An
 * H100 (132 processors of 128 lanes, 1.7 GHz, 3.35 TB/s) starts 2.9e13 instructions of a lane in a
 * second. tests/ptx/counters.csv has those of PTX: for a weight at one token 11 of 4 bits, 12 of 2
 * and of 8, so the rate of instructions rules. Measured on an H200 at 8192 x 8192, in
 * shares of a copy: 25 % with 4 bits and groups of 128, 46 % with 8 bits, 13 % with 2. At 8 tokens
 * 25 instructions a weight, 8 of them the multiply-adds that the order of the sums asks for: 11 %
 * with 4 bits. */
#include "kernels/cuda/copies.cuh"
#include "kernels/cuda/decoders.cuh"
#include "kernels/cuda/exl3_tile.cuh"

enum {
    ATOMS = 8, /* of a row block in a part of the ring */
    COLUMNS = 32 * ATOMS,
    WARPS = PARE_CUDA_WARPS,
    RING = 40960 /* bytes: three blocks fit into a processor of compute capability 8.0 */
};

/* Shared memory of a block. */
struct room {
    uint8_t ring[RING];
    float level[256];
    uint16_t book[WARPS][8 << 4];
};

/* By the warp: MOST bytes at most. */
template <int BYTES, uint32_t MOST>
static __device__ inline void copy_by_warp(uint8_t *to, const void *from, uint32_t bytes)
{
#pragma unroll
    for (uint32_t first = 0; first < MOST; first += 32 * BYTES) {
        const uint32_t i = first + threadIdx.x % 32 * BYTES;
        if (i < bytes)
            copy_bytes<BYTES>(shared_at(to + i), (const uint8_t *)from + i);
    }
}

/* Where things lie in a part of the ring: inputs and salient columns for all warps, then the rest
 * for each. */
template <class DECODER, uint32_t BITS, int TOKENS> struct part {
    static constexpr uint32_t has = DECODER::planes;
    static constexpr uint32_t salient = TOKENS * COLUMNS * 4;
    static constexpr uint32_t warps = salient + (has & MAGNITUDES ? COLUMNS : 0);
    static constexpr uint32_t atom = has & TILES ? 64 * BITS : 32 * BITS; /* of two warps, or one */
    static constexpr uint32_t codes = ATOMS * 32 * BITS;
    static constexpr uint32_t scales = has & HALVES ? 32 : 16; /* of 8 rows; of two groups */
    static constexpr uint32_t minima = codes + (has & SCALES ? ATOMS * scales : 0);
    static constexpr uint32_t sub = minima + (has & SUB ? ATOMS * 16 : 0);
    static constexpr uint32_t zeros = sub + (has & SUB ? ATOMS * 16 : 0);
    static constexpr uint32_t magnitudes = zeros + (has & ZEROS ? ATOMS * 8 : 0);
    static constexpr uint32_t warp = magnitudes + (has & MAGNITUDES ? ATOMS * 64 : 0);
    static constexpr uint32_t bytes = warps + WARPS * warp;
    static constexpr uint32_t count = RING / bytes;
};

/* Two bytes of word l of row g: codes of the thread. */
static __device__ inline uint32_t pair(const uint8_t *atom, uint32_t l)
{
    const uint32_t g = threadIdx.x % 8, c = threadIdx.x % 32 / 8;
    return *(const uint16_t *)(atom + l * 32 + g * 4 + c % 2 * 2);
}

/* The 8 codes of a thread in an atom, a byte each: of columns 8 j + 2 c + b in byte 2 (j % 2) + b
 * of four[j / 2]. */
template <uint32_t BITS> static __device__ inline void read(uint32_t four[2], const uint8_t *atom)
{
    const uint32_t h = threadIdx.x % 32 / 16;
    if (BITS == 8) {
        four[0] = (pair(atom, h) | pair(atom, h + 2) << 16) ^ 0x80808080u;
        four[1] = (pair(atom, h + 4) | pair(atom, h + 6) << 16) ^ 0x80808080u;
    } else if (BITS == 4 || BITS == 6) {
        const uint32_t both = pair(atom, h) | pair(atom, h + 2) << 16;
        four[0] = both & 0x0f0f0f0fu;
        four[1] = both >> 4 & 0x0f0f0f0fu;
    } else {
#pragma unroll
        for (uint32_t l = 0; l < 2; l++) {
            const uint32_t two = pair(atom, l) >> 2 * h;
            four[l] = (two | two << 12) & 0x03030303u;
        }
    }
    if (BITS == 3) {
        const uint32_t high = pair(atom, 2) >> h;
        four[0] |= (high << 2 | high << 16) & 0x04040404u;
        four[1] |= (high >> 2 | high << 12) & 0x04040404u;
    }
    if (BITS == 6) {
        uint32_t high[2];
        read<2>(high, atom + 128);
        four[0] |= high[0] << 4;
        four[1] |= high[1] << 4;
    }
}

/* Where the next part begins: its group, and how many columns of that lie before it. */
struct front {
    uint32_t column, group, past;
};

/* One product: a block of row blocks. Where atoms have two groups, they count as one. */
template <class DECODER, uint32_t BITS, int TOKENS, class ARGUMENT> struct product {
    using at = part<DECODER, BITS, TOKENS>;
    const ARGUMENT &a;
    room &shared;
    uint32_t warp, g, c, k, group;
    uint64_t block, unit; /* row block, and the first group of it */
    float sum[TOKENS][2];

    __device__ product(const ARGUMENT &argument, room &r)
        : a(argument), shared(r), warp(threadIdx.x / 32), g(threadIdx.x % 8),
          c(threadIdx.x % 32 / 8), k((uint32_t)argument.k),
          group(at::has & HALVES  ? 32
                : at::has & TILES ? 1u << 31 /* of a row */
                                  : (uint32_t)argument.w.group)
    {
        const uint64_t last = a.w.n / 8 - 1;
        block = warp_index() < last ? warp_index() : last;
        unit = block * ((a.w.k + group - 1) / group);
#pragma unroll
        for (int t = 0; t < TOKENS; t++)
            sum[t][0] = sum[t][1] = 0;
    }

    /* Tokens behind the last one are its copies; columns behind the last one of an atom are -0. */
    __device__ void copy_inputs(uint8_t *to, uint32_t first) const
    {
#pragma unroll 1
        for (uint32_t t = 0; t < TOKENS; t++) {
            const float *const x = a.x + (t < a.m ? t : a.m - 1) * a.ldx + first;
#pragma unroll
            for (uint32_t j = 0; j < COLUMNS; j += WARPS * 32) {
                const uint32_t i = j + threadIdx.x, lane = i % 8;
                const uint32_t place = lane / 2 * 8 + i % 32 / 8 * 2 + lane % 2;
                float *const there = (float *)to + t * COLUMNS + i / 32 * 32 + place;
                if (first + i < k)
                    copy_bytes<4>(shared_at(there), x + i);
                else
                    *there = -0.0f;
            }
        }
    }

    /* A row block is the upper or the lower half of the rows of its tiles: the two warps that have
     * them copy half of the bytes each, one behind the other. */
    __device__ void copy_tiles(uint8_t *to, const front &f, uint32_t columns) const
    {
        const uint64_t tile = block / 2 * (a.w.k / 16) + f.column / 16;
        const uint32_t second = warp % 2 * columns * BITS;
        copy_by_warp<16, at::codes>(to - warp % 2 * at::codes + second,
                                    a.w.codes + tile * BITS * 32 + second, columns * BITS);
    }

    /* Copies `columns` columns from f on, of `count` groups. */
    __device__ void copy_weights(uint8_t *to, const front &f, uint32_t columns,
                                 uint32_t count) const
    {
        const uint64_t atom = block * (a.w.k / 32) + f.column / 32, from = (unit + f.group) * 8;
        if (at::has & TILES) {
            copy_tiles(to, f, columns);
            return;
        }
        copy_by_warp<16, at::codes>(to, a.w.codes + atom * BITS * 32, columns * BITS);
        if (at::has & SCALES)
            copy_by_warp<16, ATOMS * at::scales>(
                to + at::codes, a.w.scales + from * (at::scales / 16), count * at::scales);
        if (at::has & SUB && BITS == 4)
            copy_by_warp<16, ATOMS * 16>(to + at::minima, a.w.minima + from, count * 16);
        if (at::has & SUB)
            copy_by_warp<16, ATOMS * 16>(to + at::sub, a.w.sub + atom * 16, columns / 2);
        if (at::has & ZEROS && a.w.zeros)
            copy_by_warp<8, ATOMS * 8>(to + at::zeros, a.w.zeros + from, count * 8);
        if (at::has & MAGNITUDES)
            copy_by_warp<16, ATOMS * 64>(to + at::magnitudes, a.w.book + 4 * from, count * 64);
    }

    /* Asks for the columns from f on. */
    __device__ void fill(uint32_t slot, front &f) const
    {
        uint8_t *const to = shared.ring + slot * at::bytes;
        if (f.column < k) {
            const uint32_t left = (uint32_t)a.w.k - f.column;
            const uint32_t columns = left < COLUMNS ? left : COLUMNS;
            uint32_t count = 1, rest = f.past + columns;
            for (; rest > group; rest -= group)
                count++;
            copy_inputs(to, f.column);
            copy_weights(to + at::warps + warp * at::warp, f, columns, count);
            if (at::has & MAGNITUDES && a.w.salient && warp == 0)
                copy_by_warp<16, COLUMNS>(to + at::salient, a.w.salient + f.column, columns);
            f.group += rest == group ? count : count - 1;
            f.past = rest == group ? 0 : rest;
        }
        f.column += COLUMNS;
        commit_copies();
    }

    /* Group i of those in a part of the ring. */
    __device__ DECODER decoder(const uint8_t *mine, uint32_t i, uint32_t atom) const
    {
        const uint32_t row = i * 8 + g;
        const uint16_t *const book = at::has & MAGNITUDES
                                         ? (const uint16_t *)(mine + at::magnitudes) + 4 * row
                                         : shared.book[warp] + (g << BITS);
        const uint32_t zero =
            at::has & ZEROS && a.w.zeros ? mine[at::zeros + row] : 1u << (BITS - 1);
        return DECODER(
            {(const uint16_t *)(mine + at::codes) + (at::has & HALVES ? i * 16 + g : row),
             (const uint16_t *)(mine + at::minima) + row, book, mine + at::sub + atom * 16 + g,
             shared.level, BITS, zero});
    }

    /* Two tiles, the second of which may lie behind the last column. */
    __device__ void decode_tiles(float w[8], const uint8_t *atom, uint32_t left) const
    {
        const uint32_t position = 8 * (4 * g + c) + 4 * (uint32_t)(block % 2);
        const uint32_t *const tile = (const uint32_t *)atom;
        exl3_weights<BITS, 4>(tile, position).floats(w);
        if (left > 16)
            exl3_weights<BITS, 4>(tile + 8 * BITS, position).floats(w + 4);
    }

    __device__ void decode(float w[8], const DECODER &of_row, const uint8_t *atom,
                           const uint8_t *salient) const
    {
        uint32_t four[2];
        read<BITS>(four, atom);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const bool is = at::has & MAGNITUDES && a.w.salient && salient[i / 2 * 8 + i % 2] & 1;
            w[i] = of_row.of({four[i / 4], i % 4, i / 4, is});
        }
    }

    /* Columns first .. of an atom. x: inputs of the thread in this atom. */
    __device__ void add(const DECODER &of_row, const uint8_t *atom, const float *x,
                        const uint8_t *salient, uint32_t left)
    {
        float w[8];
        if constexpr (at::has & TILES)
            decode_tiles(w, atom, left);
        else
            decode(w, of_row, atom, salient);
        if (left < 32) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                w[i] = i / 2 * 8 + 2 * c + i % 2 < left ? w[i] : 0.0f; /* times -0 */
        }
#pragma unroll
        for (int t = 0; t < TOKENS; t++)
#pragma unroll
            for (int q = 0; q < 2; q++) {
                const float4 v = ((const float4 *)(x + t * COLUMNS))[q];
                sum[t][0] = fmaf(v.x, w[4 * q], sum[t][0]);
                sum[t][1] = fmaf(v.y, w[4 * q + 1], sum[t][1]);
                sum[t][0] = fmaf(v.z, w[4 * q + 2], sum[t][0]);
                sum[t][1] = fmaf(v.w, w[4 * q + 3], sum[t][1]);
            }
    }

    /* The part of the ring from column `first` on; `left`: columns to the end of the group. */
    __device__ void add_part(uint32_t slot, uint32_t first, uint32_t &left)
    {
        const uint8_t *const from = shared.ring + slot * at::bytes;
        const uint8_t *const mine = from + at::warps + warp * at::warp;
        const uint8_t *const codes = at::has & TILES ? mine - warp % 2 * at::codes : mine;
        const uint32_t most = k - first < COLUMNS ? (k - first + 31) / 32 : ATOMS;
        for (uint32_t atom = 0, i = 0; atom < most;) {
            const uint32_t whole = at::has & SUB ? 1 : left / 32;
            const uint32_t end = atom + whole < most ? atom + whole : most;
            const DECODER of_row = decoder(mine, i, atom);
            left -= (end - atom) * 32;
#pragma unroll(TOKENS == 1 ? 2 : 1)
            for (; atom < end; atom++)
                add(of_row, codes + atom * at::atom, (const float *)from + atom * 32 + c * 8,
                    from + at::salient + atom * 32 + 2 * c, k - first - atom * 32);
            if (left == 0) {
                left = group;
                i++;
            }
        }
    }

    __device__ void run()
    {
        constexpr uint32_t AHEAD = at::count - 1;
        static_assert(AHEAD > 0, "a part is copied while another is used");
        front f = {0, 0, 0};
        uint32_t left = group, slot = 0;
        if (at::has & BOOK)
            copy_by_warp<16, (16 << BITS)>((uint8_t *)shared.book[warp],
                                           a.w.book + (block << (BITS + 3)), 16 << BITS);
        if (a.level)
            for (uint32_t i = threadIdx.x; i < 1u << BITS; i += WARPS * 32)
                shared.level[i] = a.level[i];
        while (f.column < k + AHEAD * COLUMNS) {
            const bool filled = f.column >= AHEAD * COLUMNS;
            if (filled) {
                wait_copies<AHEAD - 1>();
                __syncthreads();
            }
            fill(slot, f);
            slot = slot == AHEAD ? 0 : slot + 1;
            if (filled)
                add_part(slot, f.column - at::count * COLUMNS, left);
        }
        write();
    }

    /* Lanes 2 c and 2 c + 1 meet those of c + 2, then of c + 1. */
    __device__ void write() const
    {
        const uint64_t row = warp_index() * 8 + g;
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            float lane[2];
            for (int i = 0; i < 2; i++) {
                lane[i] = sum[t][i] + __shfl_xor_sync(PARE_CUDA_ALL, sum[t][i], 16);
                lane[i] += __shfl_xor_sync(PARE_CUDA_ALL, lane[i], 8);
            }
            if (t < a.m && row < a.n && c == t % 4)
                a.y[t * a.ldy + row] = lane[0] + lane[1];
        }
    }
};

template <class DECODER, uint32_t BITS, class ARGUMENT>
static __device__ void run(const ARGUMENT &a, room &shared)
{
    if (a.m == 1)
        product<DECODER, BITS, 1, ARGUMENT>(a, shared).run();
    else if (a.m <= 4)
        product<DECODER, BITS, 4, ARGUMENT>(a, shared).run();
    else
        product<DECODER, BITS, PARE_CUDA_TOKENS, ARGUMENT>(a, shared).run();
}

PARE_CUDA_KERNEL(gemm_f32_uniform, WARPS * 32, 4)
{
    __shared__ alignas(16) room shared;
    if (a.bits == 2)
        run<uniform, 2>(a, shared);
    else if (a.bits == 3)
        run<uniform, 3>(a, shared);
    else if (a.bits == 4)
        run<uniform, 4>(a, shared);
    else
        run<uniform, 8>(a, shared);
}

PARE_CUDA_KERNEL(gemm_f32_table, WARPS * 32, 4)
{
    __shared__ alignas(16) room shared;
    if (a.bits == 2)
        run<of_table, 2>(a, shared);
    else if (a.bits == 8)
        run<of_table, 8>(a, shared);
    else if (has_halves(a.w))
        run<of_table_halves, 4>(a, shared);
    else
        run<of_table, 4>(a, shared);
}

PARE_CUDA_KERNEL(gemm_f32_book, WARPS * 32, 4)
{
    __shared__ alignas(16) room shared;
    if (a.bits == 3)
        run<of_book, 3>(a, shared);
    else
        run<of_book, 4>(a, shared);
}

PARE_CUDA_KERNEL(gemm_f32_binary, WARPS * 32, 4)
{
    __shared__ alignas(16) room shared;
    run<binary, 2>(a, shared);
}

PARE_CUDA_KERNEL(gemm_f32_exl3, WARPS * 32, 4)
{
    __shared__ alignas(16) room shared;
    switch (a.bits) {
    case 1: run<of_trellis, 1>(a, shared); break;
    case 2: run<of_trellis, 2>(a, shared); break;
    case 3: run<of_trellis, 3>(a, shared); break;
    case 4: run<of_trellis, 4>(a, shared); break;
    case 5: run<of_trellis, 5>(a, shared); break;
    case 6: run<of_trellis, 6>(a, shared); break;
    case 7: run<of_trellis, 7>(a, shared); break;
    default: run<of_trellis, 8>(a, shared);
    }
}

PARE_CUDA_KERNEL(gemm_f32_super, WARPS * 32, 4)
{
    __shared__ alignas(16) room shared;
    if (a.bits == 4)
        run<of_super_block, 4>(a, shared);
    else
        run<of_super_block, 6>(a, shared);
}
