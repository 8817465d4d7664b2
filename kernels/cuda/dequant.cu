/* Packed weights as F32: a block for the atoms of 32 columns of some row blocks, a thread per
 * weight; what lies apart is put into its place afterwards. Bound: 4 bytes out per weight over the
 * bandwidth of the memory. */
#include "kernels/cuda/decoders.cuh"
#include "kernels/cuda/exl3_tile.cuh"

template <class DECODER> static __device__ void decode(const pare_cuda_dequant_f32 &a)
{
    const uint32_t g = threadIdx.x / 32, j = threadIdx.x % 32;
    const uint32_t k = blockIdx.x * 32 + j, group = (uint32_t)min(a.w.group, a.w.k);
    const uint64_t groups = ((uint32_t)a.w.k + group - 1) / group, of_k = k / group;
    const bool salient = a.w.salient && a.w.salient[k] & 1;
    for (uint64_t block = blockIdx.y; block < a.w.n / 8; block += gridDim.y) {
        const uint64_t atom = block * (a.w.k / 32) + blockIdx.x, row = block * 8 + g;
        const uint64_t at = (block * groups + of_k) * 8 + g; /* in planes of groups */
        const uint16_t *const book =
            a.w.book + (DECODER::planes & MAGNITUDES ? 4 * at : row << a.bits);
        const uint32_t zero =
            DECODER::planes & ZEROS && a.w.zeros ? a.w.zeros[at] : 1u << (a.bits - 1);
        const DECODER of_row({a.w.scales + at, a.w.minima + at, book, a.w.sub + atom * 16 + g,
                              a.level, a.bits, zero});
        const uint32_t u = code_at(a.w.codes + atom * a.bits * 32, a.bits, g, j);
        a.dst[row * a.ldd + k] = of_row.of({u, 0, (int)j / 16, salient});
    }
}

PARE_CUDA_KERNEL(dequant_f32, 256)
{
    decode<uniform>(a);
}

/* The arguments of all these kernels have the same members. */
template <class ARGUMENT> static __device__ pare_cuda_dequant_f32 plain(const ARGUMENT &a)
{
    return {a.dst, a.ldd, a.w, a.level, a.bits};
}

PARE_CUDA_KERNEL(dequant_table, 256)
{
    decode<of_table>(plain(a));
}

PARE_CUDA_KERNEL(dequant_book, 256)
{
    decode<of_book>(plain(a));
}

PARE_CUDA_KERNEL(dequant_binary, 256)
{
    decode<binary>(plain(a));
}

PARE_CUDA_KERNEL(dequant_super, 256)
{
    decode<of_super_block>(plain(a));
}

/* Two neighbours, given as F16. */
static __device__ inline void put_two(float *to, uint32_t two)
{
    to[0] = float_of_f16((uint16_t)two);
    to[1] = float_of_f16((uint16_t)(two >> 16));
}

static __device__ inline void put_two(uint16_t *to, uint32_t two)
{
    *(uint32_t *)to = two;
}

/* A warp per tile: a block has two of them across, and as many down as its atoms have rows. */
template <uint32_t BITS, class ARGUMENT> static __device__ void decode_tiles(const ARGUMENT &a)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint64_t across = a.w.k / 16, column = blockIdx.x * 2 + warp % 2;
    const uint64_t step = (uint64_t)gridDim.y * (PARE_CUDA_DECODED / 2);
    if (column >= across)
        return;
    for (uint64_t i = blockIdx.y * (PARE_CUDA_DECODED / 2) + warp / 2; i < a.w.n / 16; i += step) {
        const uint8_t *const tile = a.w.codes + (i * across + column) * BITS * 32;
        auto *const to = a.dst + (i * 16 + lane / 4) * a.ldd + column * 16 + lane % 4 * 2;
        const exl3_weights<BITS, 8> w((const uint32_t *)tile, 8 * lane);
#pragma unroll
        for (uint32_t p = 0; p < 8; p += 2)
            put_two(to + p / 4 * 8 * a.ldd + p / 2 % 2 * 8, w.two(p));
    }
}

template <class ARGUMENT> static __device__ void decode_all_tiles(const ARGUMENT &a)
{
    switch (a.bits) {
    case 1: decode_tiles<1>(a); break;
    case 2: decode_tiles<2>(a); break;
    case 3: decode_tiles<3>(a); break;
    case 4: decode_tiles<4>(a); break;
    case 5: decode_tiles<5>(a); break;
    case 6: decode_tiles<6>(a); break;
    case 7: decode_tiles<7>(a); break;
    default: decode_tiles<8>(a);
    }
}

PARE_CUDA_KERNEL(dequant_exl3, 256)
{
    decode_all_tiles(a);
}

PARE_CUDA_KERNEL(dequant_exl3_f16, 256)
{
    decode_all_tiles(a);
}

/* Which of the two places of its 4 columns a column has: 0 or 1, or 2: none. */
static __device__ uint32_t place_of(const uint8_t *indices, uint32_t g, uint32_t first, uint32_t c)
{
    if (code_in_atom(indices, 2, g, first + 1) == c)
        return 1;
    return code_in_atom(indices, 2, g, first) == c ? 0 : 2;
}

PARE_CUDA_KERNEL(dequant_24, 256)
{
    const uint32_t g = threadIdx.x / 32, j = threadIdx.x % 32;
    const uint32_t k = blockIdx.x * 32 + j;
    const uint32_t group = a.bits == 16 ? 1 : (uint32_t)min(a.w.group, a.w.k);
    const uint64_t groups = ((uint32_t)a.w.k + group - 1) / group, of_k = k / group;
    const uint32_t first = k % 64 / 4 * 2; /* place in the atom */
    for (uint64_t block = blockIdx.y; block < a.w.n / 8; block += gridDim.y) {
        const uint64_t atom = block * ((a.w.k + 63) / 64) + k / 64, row = block * 8 + g;
        const uint32_t place = place_of(a.w.indices + atom * 64, g, first, j % 4);
        float value = 0;
        if (a.bits == 16 && place < 2) {
            value = float_of_f16(a.w.values[row * a.w.ldv + k / 4 * 2 + place]);
        } else if (a.bits != 16) {
            const int zero = 1 << (a.bits - 1);
            const uint8_t *const codes = a.w.codes + atom * a.bits * 32;
            const int u = place < 2 ? (int)code_in_atom(codes, a.bits, g, first + place) : zero;
            value = (float)(u - zero) * float_of_f16(a.w.scales[(block * groups + of_k) * 8 + g]);
        }
        a.dst[row * a.ldd + k] = value;
    }
}

/* A warp per row, 32 columns at a time. */
PARE_CUDA_KERNEL(dequant_mask, PARE_CUDA_WARPS * 32)
{
    const uint64_t row = warp_index();
    if (row >= a.w.n)
        return;
    const uint32_t lane = threadIdx.x % 32;
    const uint8_t *const bits = a.w.bits + row * ((a.w.k + 7) / 8);
    const uint16_t *value = a.w.value + a.w.start[row];
    for (uint64_t first = 0; first < a.w.k; first += 32) {
        const uint64_t k = first + lane;
        const bool has = k < a.w.k && bits[k / 8] >> k % 8 & 1;
        const uint32_t all = __ballot_sync(PARE_CUDA_ALL, has);
        if (k < a.w.k)
            a.dst[row * a.ldd + k] =
                has ? float_of_f16(value[__popc(all & ((1u << lane) - 1))]) : 0.0f;
        value += __popc(all);
    }
}

PARE_CUDA_KERNEL(outliers_f16, PARE_CUDA_BLOCK)
{
    const uint64_t row = blockIdx.x;
    for (uint64_t c = threadIdx.x; c < a.count; c += blockDim.x)
        a.dst[row * a.ldd + a.column[c]] = float_of_f16(a.value[row * a.count + c]);
}

PARE_CUDA_KERNEL(outliers_q8, PARE_CUDA_BLOCK)
{
    const uint64_t row = blockIdx.x, block = row / 8, groups = (a.w.k + a.w.group - 1) / a.w.group;
    const uint32_t g = (uint32_t)row % 8;
    for (uint64_t c = threadIdx.x; c < a.count; c += blockDim.x) {
        const uint8_t *const atom = a.w.codes + (block * (a.w.k / 32) + c / 32) * 256;
        const int u = (int)code_in_atom(atom, 8, g, (uint32_t)c % 32) - 128;
        const uint16_t scale = a.w.scales[(block * groups + c / a.w.group) * 8 + g];
        a.dst[row * a.ldd + a.column[c]] = (float)u * float_of_f16(scale);
    }
}

/* The columns of a row differ. */
PARE_CUDA_KERNEL(singles, PARE_CUDA_WARPS * 32)
{
    const uint64_t row = warp_index();
    if (row >= a.rows)
        return;
    for (uint32_t i = a.start[row] + threadIdx.x % 32; i < a.start[row + 1]; i += 32)
        a.dst[row * a.ldd + a.column[i]] += float_of_f16(a.value[i]);
}
