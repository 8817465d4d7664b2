#include "kernels/kernels_internal.h"
#include "kernels/x86/tiles.h"

#ifdef PARE_AMX

/* Four tiles of sums, as products of matrices have them, from 0 times 0. */
#define TILES(name, product)                                                                       \
    static float name(size_t steps)                                                                \
    {                                                                                              \
        float sum[TILE][TILE];                                                                     \
        begin_tiles(LINE);                                                                         \
        _tile_zero(0);                                                                             \
        _tile_zero(1);                                                                             \
        _tile_zero(2);                                                                             \
        _tile_zero(3);                                                                             \
        _tile_zero(4);                                                                             \
        _tile_zero(5);                                                                             \
        _tile_zero(6);                                                                             \
        _tile_zero(7);                                                                             \
        for (size_t i = 0; i < steps; i++) {                                                       \
            product(0, 4, 6);                                                                      \
            product(1, 4, 7);                                                                      \
            product(2, 5, 6);                                                                      \
            product(3, 5, 7);                                                                      \
        }                                                                                          \
        _tile_stored(0, sum, LINE);                                                                \
        _tile_release();                                                                           \
        return 1.0f + sum[0][0];                                                                   \
    }

TILES(tiles_bf16, _tile_dpbf16ps)
TILES(tiles_int8, _tile_dpbssd)

void pare_peaks_init_amx(pare_peaks *p)
{
    p->tiles_bf16 = tiles_bf16;
    p->tiles_int8 = tiles_int8;
}

#endif
