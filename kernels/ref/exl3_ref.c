#include "kernels/exl3.h"

#include <math.h>

#include "kernels/kernels_internal.h"

enum { TILE = PARE_EXL3_TILE, STATE_BITS = 16 };

static void decode_tile(float *dst, size_t ldd, const uint8_t *bytes, unsigned bits)
{
    uint8_t symbol[PARE_EXL3_WEIGHTS];
    float value[PARE_EXL3_WEIGHTS];
    pare_exl3_unpack(symbol, bytes, bits);
    pare_exl3_values(value, symbol, bits);
    for (unsigned p = 0; p < PARE_EXL3_WEIGHTS; p++)
        dst[pare_exl3_row(p) * ldd + pare_exl3_column(p)] = value[p];
}

void pare_dequant_exl3_ref(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    const uint8_t *tile = w->codes;
    for (size_t row = 0; row < w->n; row += TILE)
        for (size_t k = 0; k < w->k; k += TILE, tile += pare_exl3_tile_bytes(bits))
            decode_tile(dst + row * ldd + k, ldd, tile, bits);
}

void pare_gemv_exl3_ref(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits)
{
    const size_t bytes = pare_exl3_tile_bytes(bits), across = w->k / TILE;
    for (size_t row = 0; row < w->n; row += TILE) {
        float lane[TILE][8] = {{0}};
        for (size_t j = 0; j < k; j += TILE) {
            float tile[TILE * TILE];
            decode_tile(tile, TILE, w->codes + (row / TILE * across + j / TILE) * bytes, bits);
            for (size_t r = 0; r < TILE; r++)
                for (size_t c = 0; c < TILE && j + c < k; c++)
                    lane[r][c % 8] = fmaf(x[j + c], tile[r * TILE + c], lane[r][c % 8]);
        }
        for (size_t r = 0; r < TILE; r++)
            y[row + r] = pare_lane_sum(lane[r]);
    }
}

void pare_exl3_step_ref(float *after, uint8_t *from, const float *before, const float *value,
                        float x, unsigned bits)
{
    const size_t nodes = (size_t)1 << (STATE_BITS - bits), edges = (size_t)1 << bits;
    for (size_t i = 0; i < nodes; i++) {
        float least = INFINITY;
        size_t best = 0;
        for (size_t t = 0; t < edges; t++) {
            const float d = x - value[t * nodes + i];
            const float cost = fmaf(d, d, before[(t * nodes + i) >> bits]);
            if (cost < least) {
                least = cost;
                best = t;
            }
        }
        after[i] = least;
        from[i] = (uint8_t)best;
    }
}
