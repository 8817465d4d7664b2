#include "distill/state8.h"

#include <math.h>
#include <stdlib.h>

enum { DECADES = 7 };

static int rises(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void make_map(bool with_sign, pare_state8_map *out)
{
    static const double power[DECADES] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    size_t at = 0;
    for (size_t i = 0; i < DECADES; i++) {
        const size_t cells = (size_t)1 << (with_sign ? i : i + 1);
        for (size_t c = 0; c < cells; c++) {
            const double middle = 0.1 + 0.9 * ((double)c + 0.5) / (double)cells;
            out->value[at++] = (float)(middle * power[i]);
            if (with_sign)
                out->value[at++] = -(float)(middle * power[i]);
        }
    }
    out->value[at++] = 0;
    out->value[at] = 1;
    qsort(out->value, 256, sizeof *out->value, rises);
    for (size_t i = 0; i < 255; i++)
        out->boundary[i] = (float)(((double)out->value[i] + (double)out->value[i + 1]) / 2);
}

void pare_state8_maps_make(pare_state8_maps *out)
{
    make_map(true, &out->with_sign);
    make_map(false, &out->without);
}

size_t pare_state8_blocks(size_t count)
{
    return count / PARE_STATE8_BLOCK + (count % PARE_STATE8_BLOCK != 0);
}

void pare_state8_read(const pare_state8_map *map, const uint8_t *code, float scale, size_t count,
                      float *x)
{
    for (size_t i = 0; i < count; i++)
        x[i] = map->value[code[i]] * scale;
}

/* Boundaries below x: the code of the nearest value. */
static uint8_t nearest(const pare_state8_map *map, float x)
{
    size_t code = 0;
    for (size_t step = 128; step; step /= 2)
        if (map->boundary[code + step - 1] < x)
            code += step;
    return (uint8_t)code;
}

void pare_state8_write(const pare_state8_map *map, const float *x, size_t count, uint8_t *code,
                       float *scale)
{
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(x[i]));
    *scale = most;
    for (size_t i = 0; i < count; i++)
        code[i] = nearest(map, most > 0 ? x[i] / most : 0);
}
