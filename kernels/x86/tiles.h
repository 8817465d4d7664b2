/* kernels/x86/tiles.h - tile registers, all of one shape. */
#ifndef PARE_KERNELS_X86_TILES_H
#define PARE_KERNELS_X86_TILES_H

#include "kernels/x86/avx2_internal.h"

#if defined(__AMX_TILE__) || defined(PARE_INTRINSICS)

enum {
    TILE = 16, /* tokens, rows, or pairs of columns of a tile */
    LINE = 64, /* bytes of a row of a tile */
};

/* Eight tiles of 16 rows of 64 bytes. _tile_release at the end. */
PARE_INLINE void begin_tiles(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } all = {.palette = 1};
    for (size_t i = 0; i < 8; i++) {
        all.row_bytes[i] = LINE;
        all.rows[i] = TILE;
    }
    _tile_loadconfig(&all);
}

#endif

#endif
