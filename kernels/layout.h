/* kernels/layout.h - R8K32, the order in which packed codes lie in a file and in memory.
 *
 * A matrix [n, k] is padded to n16 = n rounded up to 16 and k32 = k rounded up to 32. It is a list
 * of row blocks of 8 rows; a row block is a list of atoms of 32 columns; an atom is 32-bit words in
 * which 4 consecutive k of one row share a word (byte i of a word belongs to k = 4 l + i).
 *
 *   8 bit  256 B  word[l][g], l = 0..7: bytes are codes - 128 (two's complement) of k = 4l+i, row g
 *   4 bit  128 B  word[l][g], l = 0..3: low nibble of byte i is k = 4l+i, high nibble k = 16+4l+i
 *   2 bit   64 B  word[l][g], l = 0..1: bits 2f, 2f+1 of byte i are k = 16l+4f+i, f = 0..3
 *   3 bit   96 B  a 2-bit atom of the low bits, then word[g]: bit f of byte i is bit 2 of k = 4f+i
 *   6 bit  192 B  a 4-bit atom of the low bits, then a 2-bit atom of the high ones
 *
 * Codes are unsigned, 0 .. 2^bits - 1. Scales and zero points lie in planes of their own:
 * [row block][group][8 rows]. The same order serves AVX2, VNNI, NEON and CUDA (dp4a, mma). */
#ifndef PARE_KERNELS_LAYOUT_H
#define PARE_KERNELS_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum { PARE_ATOM_N = 8, PARE_ATOM_K = 32, PARE_PAD_N = 16 };

/* x rounded up to a multiple of `to`. The caller has checked that x is far below SIZE_MAX. */
static inline size_t pare_round_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

/* Bytes of one atom: 256, 192, 128, 96, 64 for 8, 6, 4, 3, 2 bits. */
static inline size_t pare_atom_bytes(unsigned bits)
{
    return (size_t)bits * 32;
}

/* Activation group that goes with a weight group: the largest multiple of 32 that divides `group`
 * and is at most 128. */
size_t pare_x8_group(size_t group);

/* Codes of one atom, row by row. */
void pare_unpack_atom(uint8_t u[PARE_ATOM_N][PARE_ATOM_K], const uint8_t *atom, unsigned bits);

/* Dense codes of 32 columns, from one half of an atom of 2:4 places (kernels.h) of 4 or 8 bits and
 * its 64 bytes of indices; columns without a place get `zero`. Half 1: the last 32 of 64 columns.
 */
void pare_unpack_24(uint8_t u[PARE_ATOM_N][PARE_ATOM_K], const uint8_t *atom,
                    const uint8_t *indices, size_t half, unsigned bits, uint8_t zero);

/* Packs codes [n, k] (ldc apart, one per byte) into R8K32.
 *   zeros  [n, groups] zero point of each row and group: padding columns get the one of the last
 *          group, padding rows `row_pad`. NULL: padding columns get row_pad too.
 *   dst    pare_round_up(n, 16) / 8 * pare_round_up(k, 32) / 32 * pare_atom_bytes(bits) bytes */
void pare_pack_codes(uint8_t *dst, const uint8_t *codes, size_t ldc, size_t n, size_t k,
                     unsigned bits, const uint8_t *zeros, size_t groups, uint8_t row_pad);

/* The inverse for `n` rows (any) and `k` columns (any) from the start of the packed matrix, whose
 * padded width is pare_round_up(k, 32). */
void pare_unpack_codes(uint8_t *codes, size_t ldc, const uint8_t *src, size_t n, size_t k,
                       unsigned bits);

#endif
