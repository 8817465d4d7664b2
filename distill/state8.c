#include "distill/state8.h"

#include <math.h>
#include <stdlib.h>

enum { DECADES = 7 };
static const float fades = 1e-2F;

static int rises(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Halfway, but where a moment is far below its scale. */
static float boundary(bool with_sign, float low, float high)
{
    if (!with_sign && low == 0)
        return 0;
    if (with_sign && high <= fades && low >= 0)
        return nextafterf(high, 0);
    if (with_sign && low >= -fades && high <= 0)
        return low;
    return (float)(((double)low + (double)high) / 2);
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
    out->tree[0] = 0;                               /* no node */
    for (size_t first = 1; first < 256; first *= 2) /* of a level: a node is in the middle */
        for (size_t i = 0; i < first; i++) {
            const size_t below = (2 * i + 1) * (128 / first) - 1;
            out->tree[first + i] = boundary(with_sign, out->value[below], out->value[below + 1]);
        }
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

/* The largest size; a NaN has none. */
static float largest(const pare_kernels *kernels, const float *x, size_t count)
{
    float low, high, most = 0;
    if (kernels->range_f32(x, count, &low, &high))
        return -low > high ? -low : high;
    for (size_t i = 0; i < count; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

void pare_state8_write(const pare_kernels *kernels, const pare_state8_map *map, const float *x,
                       size_t count, uint8_t *code, float *scale)
{
    *scale = largest(kernels, x, count);
    kernels->tree_codes(code, x, count, *scale, map->tree);
}
