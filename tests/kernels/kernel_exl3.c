/* Bodies and planted faults of the kernels of EXL3. */
#include <math.h>
#include <string.h>

#include "kernels/exl3.h"
#include "kernels/kernels_internal.h"
#include "tests/kernels/kernel_test.h"

enum { TILE = PARE_EXL3_TILE };

/* --- the search ------------------------------------------------------------------------------- */

static void run_step(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    float *const after = (float *)(void *)out;
    k->exl3_step(after, out + c->n * sizeof *after, c->x, c->w, c->step, c->bits);
}

/* Costs of nodes: 0, as at the start; 0 of one and infinite ones; a few that are equal; any, NaN
 * among them. */
static const float *costs(kt *t, size_t nodes, size_t kind)
{
    float *const cost = kt_floats(t, nodes);
    for (size_t i = 0; i < nodes; i++)
        cost[i] = kind == 0   ? 0.0f
                  : kind == 1 ? INFINITY
                  : kind == 2 ? (float)kt_below(t, 3)
                  : i % 97    ? fabsf(cost[i])
                              : (float)NAN;
    if (kind == 1)
        cost[kt_below(t, nodes)] = 0;
    return cost;
}

/* Values of the states, or any, many of them equal. */
static const float *values(kt *t, bool any)
{
    float *const value = kt_floats(t, PARE_EXL3_STATES);
    for (uint32_t s = 0; s < PARE_EXL3_STATES && !any; s++)
        value[s] = pare_exl3_value(s);
    return value;
}

void kt_exl3_step(kt *t)
{
    for (size_t i = 0; i < (t->bench ? 8 : 64); i++) {
        const unsigned bits = 1 + i % 8;
        const size_t nodes = (size_t)PARE_EXL3_STATES >> bits;
        kt_case c = {.n = nodes, .bits = bits, .step = (float)kt_below(t, 4001) * 1e-3f - 2.0f};
        c.x = costs(t, nodes, i / 8 % 4);
        c.w = values(t, i >= 32);
        c.whole_bytes = nodes;
        c.out_bytes = nodes * (sizeof(float) + 1);
        c.work_bytes = (PARE_EXL3_STATES + nodes) * sizeof(float) + c.out_bytes;
        kt_check(t, &c, run_step);
    }
}

/* --- weights ---------------------------------------------------------------------------------- */

static void run_dequant(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->dequant_exl3((float *)(void *)out, c->ldy, &c->panel, c->bits);
}

static void run_gemv(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemv_packed((float *)(void *)out, c->x, c->k, &c->panel, PARE_DECODE_EXL3, c->bits, NULL);
}

static pare_panel panel(kt *t, size_t n, size_t k, unsigned bits)
{
    uint8_t *const codes = kt_input(t, n / TILE * (k / TILE) * pare_exl3_tile_bytes(bits), 1);
    return (pare_panel){.codes = codes, .n = n, .k = k};
}

static size_t rows_of(kt *t)
{
    return t->bench ? 512 : TILE * (1 + kt_below(t, 3));
}

void kt_dequant_exl3(kt *t)
{
    for (size_t i = 0; i < (t->bench ? 8 : 160); i++) {
        const unsigned bits = 1 + i % 8;
        const size_t n = rows_of(t), k = t->bench ? 4096 : TILE * (1 + i / 8);
        kt_case c = {.n = n, .k = k, .bits = bits, .ldy = k + kt_below(t, 9)};
        c.panel = panel(t, n, k, bits);
        c.out_bytes = ((n - 1) * c.ldy + k) * sizeof(float);
        c.work_bytes = n * k * bits / 8 + c.out_bytes;
        kt_check(t, &c, run_dequant);
    }
}

/* All that can be left of the last tile; now and then whole tiles are left out. */
void kt_gemv_exl3(kt *t)
{
    for (size_t i = 0; i < (t->bench ? 8 : 320); i++) {
        const unsigned bits = 1 + i % 8;
        const size_t n = rows_of(t), width = t->bench ? 4096 : TILE * (1 + kt_below(t, 12));
        const size_t tiles = kt_below(t, 4) ? width / TILE : 1 + kt_below(t, width / TILE);
        kt_case c = {.n = n, .bits = bits};
        c.k = t->bench ? width : tiles * TILE - i / 8 % TILE;
        c.panel = panel(t, n, width, bits);
        c.x = kt_floats(t, c.k);
        c.out_bytes = n * sizeof(float);
        c.work_bytes = n * width * bits / 8;
        kt_check(t, &c, run_gemv);
    }
}

/* --- faults ----------------------------------------------------------------------------------- */

static void search(float *after, uint8_t *from, const float *before, const float *value, float x,
                   unsigned bits, bool fused)
{
    const size_t nodes = (size_t)PARE_EXL3_STATES >> bits;
    for (size_t i = 0; i < nodes; i++) {
        after[i] = INFINITY;
        from[i] = 0;
        for (size_t t = 0; t < (size_t)1 << bits; t++) {
            const float d = x - value[t * nodes + i], last = before[(t * nodes + i) >> bits];
            const float square = d * d;
            const float cost = fused ? fmaf(d, d, last) : square + last;
            if (fused ? cost <= after[i] : cost < after[i]) {
                after[i] = cost;
                from[i] = (uint8_t)t;
            }
        }
    }
}

static void step_last_edge(float *after, uint8_t *from, const float *before, const float *value,
                           float x, unsigned bits)
{
    search(after, from, before, value, x, bits, true);
}

static void step_unfused(float *after, uint8_t *from, const float *before, const float *value,
                         float x, unsigned bits)
{
    search(after, from, before, value, x, bits, false);
}

static void exl3_open_circle(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    pare_dequant_exl3_ref(dst, ldd, w, bits);
    dst[0] = pare_exl3_value(w->codes[3] >> (8 - bits));
}

static void exl3_by_rows(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    for (size_t row = 0; row < w->n; row += TILE)
        for (size_t k = 0; k < w->k; k += TILE) {
            const size_t tile = k / TILE * (w->n / TILE) + row / TILE;
            const pare_panel one = {
                .codes = w->codes + tile * pare_exl3_tile_bytes(bits), .n = TILE, .k = TILE};
            pare_dequant_exl3_ref(dst + row * ldd + k, ldd, &one, bits);
        }
}

static void gemv_whole_tiles(float *y, const float *x, size_t k, const pare_panel *w,
                             pare_decoding how, unsigned bits, const float *level)
{
    pare_gemv_packed_ref(y, x, how == PARE_DECODE_EXL3 ? k / TILE * TILE : k, w, how, bits, level);
}

#define FAULTS(X)                                                                                  \
    X(exl3_step, step_last_edge, "the last of equal edges")                                        \
    X(exl3_step, step_unfused, "square and sum rounded apart")                                     \
    X(dequant_exl3, exl3_open_circle, "first state without the end of the circle")                 \
    X(dequant_exl3, exl3_by_rows, "tiles follow each other by rows")                               \
    X(gemv_packed, gemv_whole_tiles, "columns behind the last whole tile left out")

const char *kt_plant_exl3(size_t i, pare_kernels *k, const char **what)
{
    size_t at = 0;
    FAULTS(KT_PLANT)
    return NULL;
}
