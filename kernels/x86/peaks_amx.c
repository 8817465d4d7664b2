#include "kernels/kernels_internal.h"
#include "kernels/x86/tiles.h"

#if defined(__AMX_BF16__) && defined(__AMX_TILE__)

/* Four tiles of sums, as gemm_bf16_amx.c has them, from 0 times 0. */
static float tiles_bf16(size_t steps)
{
    float sum[TILE][TILE];
    begin_tiles();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (size_t i = 0; i < steps; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sum, LINE);
    _tile_release();
    return 1.0f + sum[0][0];
}

void pare_peaks_init_amx(pare_peaks *p)
{
    p->tiles_bf16 = tiles_bf16;
}

#endif
