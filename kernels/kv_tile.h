/* kernels/kv_tile.h - how coded keys and values lie. */
#ifndef PARE_KERNELS_KV_TILE_H
#define PARE_KERNELS_KV_TILE_H

#include <stddef.h>
#include <stdint.h>

/* Coded keys or values of consecutive tokens of one head. The code of channel c of token t are the
 * bits `bits` (c % 8) and up of the little-endian number in bytes [c / 8 * bits, + bits) of row t;
 * rows are pare_kv_row_bytes apart. */
typedef struct pare_kv_tile {
    const uint8_t *codes;
    const uint16_t *scales, *lows; /* F16; lows NULL: 0 */
    const float *levels;           /* [2^bits] for 2 or 3 bits, or NULL */
    size_t ld;                     /* scales from one token to the next; 0: all have the same */
    size_t group;                  /* channels that share a scale: 1, or a multiple of 8 */
    unsigned bits;                 /* 2, 3, 4, 8 */
} pare_kv_tile;

/* Bytes of the codes of `d` channels, rounded up to 8. */
static inline size_t pare_kv_row_bytes(size_t d, unsigned bits)
{
    return (d + 7) / 8 * bits;
}

#endif
