#include "kernels/layout.h"

#include <string.h>

size_t pare_x8_group(size_t group)
{
    for (size_t size = 128; size > PARE_ATOM_K; size -= PARE_ATOM_K)
        if (group % size == 0)
            return size;
    return PARE_ATOM_K;
}

/* Where the low bits of column j of row g lie: byte and shift. 3-bit atoms start as 2-bit atoms. */
typedef struct place {
    size_t byte;
    unsigned shift;
} place;

static inline place place_of(size_t g, size_t j, unsigned bits)
{
    const size_t i = j % 4;
    if (bits == 8)
        return (place){j / 4 * 32 + 4 * g + i, 0};
    if (bits == 4)
        return (place){j % 16 / 4 * 32 + 4 * g + i, j < 16 ? 0 : 4};
    return (place){j / 16 * 32 + 4 * g + i, (unsigned)(j % 16 / 4 * 2)};
}

/* Where bit 2 of a 3-bit code lies. */
static inline place high_place_of(size_t g, size_t j)
{
    return (place){64 + 4 * g + j % 4, (unsigned)(j / 4)};
}

/* Codes of 6 bits are two atoms of 4 and 2. */
static void pack_six(uint8_t *atom, const uint8_t u[PARE_ATOM_N][PARE_ATOM_K])
{
    memset(atom, 0, pare_atom_bytes(6));
    for (size_t g = 0; g < PARE_ATOM_N; g++)
        for (size_t j = 0; j < PARE_ATOM_K; j++) {
            const place low = place_of(g, j, 4), high = place_of(g, j, 2);
            uint8_t *const a = atom + low.byte, *const b = atom + pare_atom_bytes(4) + high.byte;
            *a = (uint8_t)(*a | (u[g][j] & 15u) << low.shift);
            *b = (uint8_t)(*b | (u[g][j] >> 4 & 3u) << high.shift);
        }
}

static void unpack_six(uint8_t u[PARE_ATOM_N][PARE_ATOM_K], const uint8_t *atom)
{
    uint8_t high[PARE_ATOM_N][PARE_ATOM_K];
    pare_unpack_atom(u, atom, 4);
    pare_unpack_atom(high, atom + pare_atom_bytes(4), 2);
    for (size_t g = 0; g < PARE_ATOM_N; g++)
        for (size_t j = 0; j < PARE_ATOM_K; j++)
            u[g][j] = (uint8_t)(u[g][j] | high[g][j] << 4);
}

/* The most common width, four codes at a time: byte by byte the same as below. */
static void pack_four(uint8_t *atom, const uint8_t u[PARE_ATOM_N][PARE_ATOM_K])
{
    for (size_t g = 0; g < PARE_ATOM_N; g++)
        for (size_t j = 0; j < PARE_ATOM_K / 2; j += 4) {
            uint32_t low, high;
            memcpy(&low, &u[g][j], sizeof low);
            memcpy(&high, &u[g][j + PARE_ATOM_K / 2], sizeof high);
            low = (low & 0x0f0f0f0fu) | (high & 0x0f0f0f0fu) << 4;
            memcpy(atom + place_of(g, j, 4).byte, &low, sizeof low);
        }
}

static void pack_atom(uint8_t *atom, const uint8_t u[PARE_ATOM_N][PARE_ATOM_K], unsigned bits)
{
    if (bits == 4) {
        pack_four(atom, u);
        return;
    }
    if (bits == 6) {
        pack_six(atom, u);
        return;
    }
    const unsigned flip = bits == 8 ? 0x80 : 0, mask = bits == 3 ? 3 : (1u << bits) - 1;
    memset(atom, 0, pare_atom_bytes(bits));
    for (size_t g = 0; g < PARE_ATOM_N; g++)
        for (size_t j = 0; j < PARE_ATOM_K; j++) {
            const place p = place_of(g, j, bits);
            atom[p.byte] = (uint8_t)(atom[p.byte] | ((u[g][j] ^ flip) & mask) << p.shift);
            if (bits == 3) {
                const place h = high_place_of(g, j);
                atom[h.byte] = (uint8_t)(atom[h.byte] | (u[g][j] >> 2 & 1u) << h.shift);
            }
        }
}

void pare_unpack_atom(uint8_t u[PARE_ATOM_N][PARE_ATOM_K], const uint8_t *atom, unsigned bits)
{
    if (bits == 6) {
        unpack_six(u, atom);
        return;
    }
    const unsigned flip = bits == 8 ? 0x80 : 0, mask = bits == 3 ? 3 : (1u << bits) - 1;
    for (size_t g = 0; g < PARE_ATOM_N; g++)
        for (size_t j = 0; j < PARE_ATOM_K; j++) {
            const place p = place_of(g, j, bits);
            unsigned code = ((unsigned)atom[p.byte] >> p.shift & mask) ^ flip;
            if (bits == 3) {
                const place h = high_place_of(g, j);
                code |= ((unsigned)atom[h.byte] >> h.shift & 1u) << 2;
            }
            u[g][j] = (uint8_t)code;
        }
}

void pare_unpack_24(uint8_t u[PARE_ATOM_N][PARE_ATOM_K], const uint8_t *atom,
                    const uint8_t *indices, size_t half, unsigned bits, uint8_t zero)
{
    uint8_t code[PARE_ATOM_N][PARE_ATOM_K], index[PARE_ATOM_N][PARE_ATOM_K];
    pare_unpack_atom(code, atom, bits);
    pare_unpack_atom(index, indices, 2);
    memset(u, zero, (size_t)PARE_ATOM_N * PARE_ATOM_K);
    for (size_t g = 0; g < PARE_ATOM_N; g++)
        for (size_t j = 0; j < PARE_ATOM_K / 2; j++) {
            const size_t at = half * PARE_ATOM_K / 2 + j;
            u[g][j / 2 * 4 + index[g][at]] = code[g][at];
        }
}

void pare_pack_codes(uint8_t *dst, const uint8_t *codes, size_t ldc, size_t n, size_t k,
                     unsigned bits, const uint8_t *zeros, size_t groups, uint8_t row_pad)
{
    const size_t rows = pare_round_up(n, PARE_PAD_N), cols = pare_round_up(k, PARE_ATOM_K);
    for (size_t row = 0; row < rows; row += PARE_ATOM_N)
        for (size_t k0 = 0; k0 < cols; k0 += PARE_ATOM_K, dst += pare_atom_bytes(bits)) {
            uint8_t u[PARE_ATOM_N][PARE_ATOM_K];
            memset(u, row_pad, sizeof u);
            for (size_t g = 0; g < PARE_ATOM_N && row + g < n; g++) {
                const size_t r = row + g, have = k - k0 < PARE_ATOM_K ? k - k0 : PARE_ATOM_K;
                memcpy(u[g], codes + r * ldc + k0, have);
                if (zeros)
                    memset(u[g] + have, zeros[r * groups + groups - 1], PARE_ATOM_K - have);
            }
            pack_atom(dst, (const uint8_t(*)[PARE_ATOM_K])u, bits);
        }
}

void pare_unpack_codes(uint8_t *codes, size_t ldc, const uint8_t *src, size_t n, size_t k,
                       unsigned bits)
{
    for (size_t row = 0; row < n; row += PARE_ATOM_N)
        for (size_t k0 = 0; k0 < k; k0 += PARE_ATOM_K, src += pare_atom_bytes(bits)) {
            uint8_t u[PARE_ATOM_N][PARE_ATOM_K];
            pare_unpack_atom(u, src, bits);
            const size_t have = k - k0 < PARE_ATOM_K ? k - k0 : PARE_ATOM_K;
            for (size_t g = 0; g < PARE_ATOM_N && row + g < n; g++)
                memcpy(codes + (row + g) * ldc + k0, u[g], have);
        }
}
