/* kernels/x86/gemm_x8_24_few_vnni.h - 2:4 weights by int8 activations of a few tokens: what
 * gemm_x8_24_avxvnni.c and gemm_x8_24_avx512.c share. The products are those of gemm_x8_24_vnni.h.
 */
#ifndef PARE_KERNELS_X86_GEMM_X8_24_FEW_VNNI_H
#define PARE_KERNELS_X86_GEMM_X8_24_FEW_VNNI_H

#include "kernels/x86/gemm_x8_few_vnni.h"

#ifdef PARE_VNNI

enum {
    WORD = 8,     /* columns of a lane */
    HALF = 32,    /* columns of half an atom */
    INDICES = 64, /* bytes of the indices of an atom */
};

/* A few tokens: half an atom of each block, unpacked in registers, 4-bit weights as multiples of
 * 16; codes of the next 8 columns are `step` bytes away. */
PARE_INLINE void meet_half(vec d[FT][VT], vec sum[VT], const few *f, size_t k, const int8_t *x,
                           size_t step, size_t half, unsigned bits, size_t mt)
{
    const vec keep = V(set1_epi8)(0x33), second = V(set1_epi32)(0x44440000);
    const vec high = V(set1_epi8)((char)0xf0), flip = V(set1_epi8)((char)0x80);
    const size_t size = pare_atom_bytes(bits), atoms = pare_24_kept(f->w->k) / PARE_ATOM_K;
    const uint8_t *codes[VT];
    vec pick[2][VT];
    for (size_t v = 0; v < VT; v++) {
        const size_t atom = f->at[v].block * atoms + k / 64;
        const vec e = load_blocks(f->w->indices + atom * INDICES + HALF * half,
                                  f->at[v].next * atoms * INDICES);
        pick[0][v] = VS(or)(VS(and)(e, keep), second);
        pick[1][v] = VS(or)(VS(and)(V(srli_epi16)(e, 2), keep), second);
        codes[v] = f->w->codes + atom * size + (bits == 8 ? 128 * half : 0);
    }
#pragma GCC unroll 4
    for (size_t l = 0; l < 4; l++, x += step) {
        vec w[VT];
        for (size_t v = 0; v < VT; v++) {
            w[v] = load_blocks(codes[v] + 32 * l, f->at[v].next * atoms * size);
            if (bits == 4)
                w[v] = VS(xor)(VS(and)(half ? w[v] : V(slli_epi16)(w[v], 4), high), flip);
            if (l >= 2)
                pick[l - 2][v] = V(srli_epi16)(pick[l - 2][v], 4);
            sum[v] = dot(sum[v], V(set1_epi8)(1), w[v]);
        }
        for (size_t t = 0; t < mt; t++) {
            int64_t word;
            memcpy(&word, x + t * WORD, sizeof word);
            const vec q = bits == 8 ? VS(xor)(broadcast_word(word), flip) : broadcast_word(word);
            for (size_t v = 0; v < VT; v++) {
                d[t][v] = dot(d[t][v], V(shuffle_epi8)(q, pick[l % 2][v]), w[v]);
                hold(&d[t][v]);
            }
        }
    }
}

/* Columns [k, end): products with codes + 128, less 128 times the weights. Sums are at most
 * 128 * 255 * 32768, below 2^31. */
PARE_INLINE void sparse_dot(vec d[FT][VT], const few *f, size_t b, size_t k, size_t end,
                            unsigned bits, size_t mt)
{
    const size_t size = pare_atom_bytes(bits), atoms = pare_24_kept(f->w->k) / PARE_ATOM_K;
    const size_t left = f->x->m - f->t0 / PARE_X24_TILE * PARE_X24_TILE;
    const size_t step = WORD * (left < PARE_X24_TILE ? left : PARE_X24_TILE);
    const int8_t *x = f->x->codes + pare_x24_at(f->x->m, f->x->k, f->t0, k);
    vec sum[VT];
    (void)b;
    for (size_t v = 0; v < VT; v++) {
        sum[v] = VS(setzero)();
        for (size_t t = 0; t < mt; t++)
            d[t][v] = VS(setzero)();
    }
    for (; k < end; k += HALF, x += 4 * step) {
        if (k % 64) {
            meet_half(d, sum, f, k, x, step, 1, bits, mt);
            continue;
        }
        for (size_t line = 0; line < size; line += 64)
            prefetch_blocks(f->w->codes + f->row / 8 * atoms * size, k / 64 * size + line,
                            atoms * size);
        prefetch_blocks(f->w->indices + f->row / 8 * atoms * INDICES, k / 64 * INDICES,
                        atoms * INDICES);
        meet_half(d, sum, f, k, x, step, 0, bits, mt);
    }
    for (size_t i = 0; i < mt * VT; i++) {
        const vec all = V(sub_epi32)(d[i / VT][i % VT], V(slli_epi32)(sum[i % VT], 7));
        d[i / VT][i % VT] = bits == 4 ? V(srai_epi32)(all, 4) : all;
    }
}

// clang-format off
FEW_TILES(s4, sparse_dot, 4)
FEW_TILES(s8, sparse_dot, 8)
// clang-format on
#endif

#endif
