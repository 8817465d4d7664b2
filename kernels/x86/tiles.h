/* kernels/x86/tiles.h - tile registers, all of one shape. */
#ifndef PARE_KERNELS_X86_TILES_H
#define PARE_KERNELS_X86_TILES_H

#include "kernels/x86/avx2_internal.h"

/* Tiles, and their products of BF16 and int8; clang before 16 leaves an underscore out. */
#if defined(__AMX_TILE__) || defined(__AMXTILE__)
#define PARE_AMX
#endif

#if defined(PARE_AMX) || defined(PARE_INTRINSICS)

enum {
    TILE = 16, /* tokens, rows, or pairs of columns of a tile */
    LINE = 64, /* bytes of a row of a tile */
};

/* Before tiles are loaded from what was stored: compilers do not know that loading them reads. */
PARE_INLINE void see_stores(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Tiles 0 to 3 are sums: 16 rows of 64 bytes. 4 and 5 have `width` bytes of 16 tokens, 6 and 7 the
 * weights that these meet. _tile_release at the end. */
PARE_INLINE void begin_tiles(size_t width)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } all = {.palette = 1};
    for (size_t i = 0; i < 8; i++) {
        all.row_bytes[i] = (uint16_t)(i / 2 == 2 ? width : LINE);
        all.rows[i] = (uint8_t)(i / 2 == 3 ? width / 4 : TILE);
    }
    see_stores();
    _tile_loadconfig(&all);
}

#endif

#endif
