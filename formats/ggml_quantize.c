/* Plain quantizers of the blocks: what the engine does when it knows nothing but the weights.
 *
 * The simple types spread their codes evenly over the range of a block. The K types choose, per
 * sub-block, x ~ a q - o with o >= 0 (or x ~ a q): for a few trial steps they round, then set a and
 * o (or a) to the least squares fit with weights v for these codes,
 *
 *     minimize sum v (a q - o - x)^2,
 *
 * and keep the trial of least error. The steps and offsets of a block are then rounded to multiples
 * of two F16 numbers, and the codes are chosen anew on what is left. All steps in F32 and in one
 * order, so the bytes are the same everywhere. */
#include <math.h>
#include <string.h>

#include "formats/ggml_internal.h"
#include "kernels/half.h"
#include "kernels/levels.h"

/* The smaller of code and most, with what lies below zero, or is no number, at zero. */
static uint8_t clamp_code(float code, int most)
{
    return (uint8_t)(!(code > 0) ? 0 : code > (float)most ? most : (int)code);
}

bool pare__ggml_store_f16(float x, uint16_t *h)
{
    *h = pare_f32_to_f16(x);
    return (*h & 0x7c00u) != 0x7c00u;
}

static float inverse(float x)
{
    return x != 0 ? 1 / x : 0;
}

float pare__ggml_extreme(const float *x, size_t n)
{
    float best = x[0];
    for (size_t j = 1; j < n; j++)
        best = fabsf(x[j]) > fabsf(best) ? x[j] : best;
    return best;
}

bool pare__ggml_finite(const float *x, size_t n)
{
    float sum = 0; /* of zeros, unless one is not finite */
    for (size_t j = 0; j < n; j++)
        sum += x[j] * 0;
    return sum == 0;
}

/* Codes 0 .. 2 half - 1 around `half`; the extreme element gets code 0. */
static bool quantize_around(const float *x, int half, pare_ggml_block *b)
{
    const float step = pare__ggml_extreme(x, 32) / (float)-half, id = inverse(step);
    if (!pare__ggml_finite(x, 32) || !pare__ggml_store_f16(step, &b->d))
        return false;
    for (size_t j = 0; j < 32; j++)
        b->code[j] = clamp_code(x[j] * id + ((float)half + 0.5f), 2 * half - 1);
    return true;
}

bool pare__ggml_quantize_q4_0(const float *x, pare_ggml_block *b)
{
    return quantize_around(x, 8, b);
}

bool pare__ggml_quantize_q5_0(const float *x, pare_ggml_block *b)
{
    return quantize_around(x, 16, b);
}

/* Codes 0 .. most from the least element on. */
static bool quantize_from_least(const float *x, int most, pare_ggml_block *b)
{
    float least = x[0], largest = x[0];
    for (size_t j = 1; j < 32; j++) {
        least = x[j] < least ? x[j] : least;
        largest = x[j] > largest ? x[j] : largest;
    }
    const float step = (largest - least) / (float)most, id = inverse(step);
    if (!pare__ggml_finite(x, 32) || !pare__ggml_store_f16(step, &b->d) ||
        !pare__ggml_store_f16(least, &b->m))
        return false;
    for (size_t j = 0; j < 32; j++)
        b->code[j] = clamp_code((x[j] - least) * id + 0.5f, most);
    return true;
}

bool pare__ggml_quantize_q4_1(const float *x, pare_ggml_block *b)
{
    return quantize_from_least(x, 15, b);
}

bool pare__ggml_quantize_q5_1(const float *x, pare_ggml_block *b)
{
    return quantize_from_least(x, 31, b);
}

bool pare__ggml_quantize_q8_0(const float *x, pare_ggml_block *b)
{
    const float step = fabsf(pare__ggml_extreme(x, 32)) / 127, id = inverse(step);
    if (!pare__ggml_finite(x, 32) || !pare__ggml_store_f16(step, &b->d))
        return false;
    for (size_t j = 0; j < 32; j++) /* a subnormal step may have an inverse that is too large */
        b->code[j] = (uint8_t)(int8_t)fmaxf(-128, fminf(127, roundf(x[j] * id)));
    return true;
}

bool pare__ggml_quantize_ternary(const float *x, pare_ggml_block *b)
{
    const float d = fabsf(pare__ggml_extreme(x, 256)), id = inverse(d);
    if (!pare__ggml_finite(x, 256) || !pare__ggml_store_f16(d, &b->d))
        return false;
    for (size_t j = 0; j < 256; j++)
        b->code[j] = (uint8_t)(int)(fmaxf(-1, fminf(1, roundf(x[j] * id))) + 1);
    return true;
}

enum { SUB_MAX = 32, SUBS_MAX = 16 };

/* A step and what is subtracted from its multiples. */
typedef struct fit {
    float step, offset;
} fit;

/* Least squares for given codes, offset >= 0. False when the codes leave it open. */
static bool solve(const float *x, const float *v, size_t n, const uint8_t *q, fit *f)
{
    float sum_v = 0, sum_x = 0, sum_q = 0, sum_qq = 0, sum_xq = 0;
    for (size_t j = 0; j < n; j++) {
        const float vq = v[j] * (float)q[j];
        sum_v += v[j];
        sum_x += v[j] * x[j];
        sum_q += vq;
        sum_qq += vq * (float)q[j];
        sum_xq += vq * x[j];
    }
    const float det = sum_v * sum_qq - sum_q * sum_q;
    if (!(det > 0))
        return false;
    f->step = (sum_v * sum_xq - sum_x * sum_q) / det;
    f->offset = -((sum_qq * sum_x - sum_q * sum_xq) / det);
    if (f->offset < 0) {
        f->offset = 0;
        f->step = sum_xq / sum_qq;
    }
    return true;
}

static float error_of(const float *x, const float *v, const pare__ggml_search *how,
                      const uint8_t *q, const fit *f)
{
    float error = 0;
    for (size_t j = 0; j < how->n; j++) {
        const float diff = f->step * (float)q[j] - f->offset - x[j];
        error += v[j] * (how->magnitudes ? fabsf(diff) : diff * diff);
    }
    return error;
}

static void round_codes(const float *x, float offset, float id, const pare__ggml_search *how,
                        uint8_t *q)
{
    for (size_t j = 0; j < how->n; j++)
        q[j] = clamp_code(rintf(id * (x[j] + offset)), how->most);
}

/* Every trial starts at the offset of the best one so far. */
static fit try_steps(const float *x, const float *v, float largest, const pare__ggml_search *how,
                     fit best, uint8_t *code)
{
    uint8_t q[SUB_MAX];
    round_codes(x, best.offset, 1 / best.step, how, code);
    float least_error = error_of(x, v, how, code, &best);
    for (int i = 0; i <= how->trials; i++) {
        fit f;
        const float id = (how->from + 0.1f * (float)i + (float)how->most) / (largest + best.offset);
        round_codes(x, best.offset, id, how, q);
        if (!solve(x, v, how->n, q, &f))
            continue;
        const float error = error_of(x, v, how, q, &f);
        if (error < least_error) {
            least_error = error;
            best = f;
            memcpy(code, q, how->n);
        }
    }
    return best;
}

static fit fit_offset(const float *x, const pare__ggml_search *how, uint8_t *code)
{
    float v[SUB_MAX], power = 0, least = 0, largest = x[0];
    for (size_t j = 0; j < how->n; j++) {
        power += x[j] * x[j];
        least = x[j] < least ? x[j] : least;
        largest = x[j] > largest ? x[j] : largest;
    }
    const float mean = how->magnitudes ? 0 : sqrtf(power / (float)how->n), range = largest - least;
    if (!(range > 0))
        return (fit){0, -least};
    for (size_t j = 0; j < how->n; j++)
        v[j] = mean + fabsf(x[j]);
    const float id = (float)how->most / range;
    return try_steps(x, v, largest, how, (fit){1 / id, -least}, code);
}

/* Puts x onto a grid of steps of largest / steps. */
static uint8_t grid_code(float x, float largest, int steps)
{
    return largest > 0 ? clamp_code(rintf((float)steps / largest * x), steps) : 0;
}

bool pare__ggml_quantize_offset(const float *x, const pare__ggml_search *how, pare_ggml_block *b)
{
    fit f[SUBS_MAX];
    float step = 0, offset = 0;
    const size_t n = how->n;
    if (!pare__ggml_finite(x, 256))
        return false;
    for (size_t s = 0; s < 256 / n; s++) {
        f[s] = fit_offset(x + n * s, how, b->code + n * s);
        step = f[s].step > step ? f[s].step : step;
        offset = f[s].offset > offset ? f[s].offset : offset;
    }
    if (!pare__ggml_store_f16(step / (float)how->steps, &b->d) ||
        !pare__ggml_store_f16(offset / (float)how->steps, &b->m))
        return false;
    const float d = pare_f16_to_f32(b->d), m = pare_f16_to_f32(b->m);
    for (size_t s = 0; s < 256 / n; s++) {
        b->scale[s] = (int8_t)grid_code(f[s].step, step, how->steps);
        b->offset[s] = grid_code(f[s].offset, offset, how->steps);
        const float now = d * (float)b->scale[s], least = m * (float)b->offset[s];
        for (size_t j = n * s; now != 0 && j < n * s + n; j++)
            b->code[j] = clamp_code(rintf((x[j] + least) / now), how->most);
    }
    return true;
}

bool pare__ggml_quantize_q4_k(const float *x, pare_ggml_block *b)
{
    static const pare__ggml_search how = {32, 15, 63, 20, -1, false};
    return pare__ggml_quantize_offset(x, &how, b);
}

bool pare__ggml_quantize_q5_k(const float *x, pare_ggml_block *b)
{
    static const pare__ggml_search how = {32, 31, 63, 15, -0.5f, false};
    return pare__ggml_quantize_offset(x, &how, b);
}

float pare__ggml_clamp(float code, float least, float most)
{
    return fmaxf(least, fminf(most, code));
}

static float clamp_signed(float code)
{
    return pare__ggml_clamp(code, -32, 31);
}

void pare__ggml_sum_codes(const float *x, float id, float most, float q[16], float *sum_xq,
                          float *sum_qq)
{
    *sum_xq = *sum_qq = 0;
    for (size_t j = 0; j < 16; j++) {
        const float v = x[j] * x[j];
        q[j] = pare__ggml_clamp(rintf(id * x[j]), -most, most - 1);
        *sum_xq += v * x[j] * q[j];
        *sum_qq += v * q[j] * q[j];
    }
}

/* The step for 16 elements, negative where the extreme one is positive: it gets code -32. */
static float fit_step(const float *x, uint8_t *code)
{
    const float most = pare__ggml_extreme(x, 16);
    if (fabsf(most) < 1e-15f)
        return 0;
    float id = -32 / most, q[16], sum_xq, sum_qq;
    pare__ggml_sum_codes(x, id, 32, q, &sum_xq, &sum_qq);
    float step = sum_qq != 0 ? sum_xq / sum_qq : 0, gain = step * sum_xq;
    for (int i = -9; i <= 9; i++) {
        const float other = -(32 + 0.1f * (float)i) / most;
        pare__ggml_sum_codes(x, other, 32, q, &sum_xq, &sum_qq);
        if (i == 0 || !(sum_qq > 0) || !(sum_xq * sum_xq > gain * sum_qq))
            continue;
        id = other;
        step = sum_xq / sum_qq;
        gain = step * sum_xq;
    }
    for (size_t j = 0; j < 16; j++)
        code[j] = (uint8_t)(int)(clamp_signed(rintf(id * x[j])) + 32);
    return step;
}

bool pare__ggml_quantize_q6_k(const float *x, pare_ggml_block *b)
{
    float step[16];
    if (!pare__ggml_finite(x, 256))
        return false;
    for (size_t s = 0; s < 16; s++)
        step[s] = fit_step(x + 16 * s, b->code + 16 * s);
    if (!pare__ggml_finite(step, 16)) /* squares overflow long before the elements do */
        return false;
    const float most = pare__ggml_extreme(step, 16);
    if (fabsf(most) < 1e-15f) {
        memset(b, 0, sizeof *b);
        return true;
    }
    const float id = -128 / most;
    if (!pare__ggml_store_f16(1 / id, &b->d))
        return false;
    const float d = pare_f16_to_f32(b->d);
    for (size_t s = 0; s < 16; s++) {
        b->scale[s] = (int8_t)fminf(127, rintf(id * step[s]));
        const float now = d * (float)b->scale[s];
        for (size_t j = 16 * s; now != 0 && j < 16 * s + 16; j++)
            b->code[j] = (uint8_t)(int)(clamp_signed(rintf(x[j] / now)) + 32);
    }
    return true;
}

/* The nearest of the levels, the smaller one of two. */
static uint8_t nearest_e2m1(float t)
{
    const float a = fabsf(t);
    unsigned code = 0;
    for (size_t i = 0; i < 7; i++)
        code += a > (pare_levels_e2m1[i] + pare_levels_e2m1[i + 1]) * 0.5f;
    return (uint8_t)(code && t < 0 ? code | 8 : code);
}

bool pare__ggml_quantize_mxfp4(const float *x, pare_ggml_block *b)
{
    const float most = fabsf(pare__ggml_extreme(x, 32));
    const uint32_t exponent = pare_f32_bits(most) >> 23; /* floor(log2) + 127 of normal numbers */
    if (!pare__ggml_finite(x, 32))
        return false;
    b->d = exponent > 2 ? (uint16_t)(exponent - 2) : 0;
    const float d = pare_f32_from_bits(b->d ? (uint32_t)b->d << 23 : 0x00400000u);
    for (size_t j = 0; j < 32; j++)
        b->code[j] = nearest_e2m1(x[j] / d);
    return true;
}
