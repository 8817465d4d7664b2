/* Fitting scales. */
#include "solve/grid.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/e4m3.h"
#include "kernels/layout.h"
#include "kernels/levels.h"
#include "solve/nvfp4.h"
#include "solve/super.h"

enum { CLIPS = 80, USUAL = 88, WIDTHS_TEXT = 32, BELOW = 3, ABOVE = 1, E4M3_LAST = 126 };

#define F16_NORMAL_MIN 0x1p-14F
#define F16_MAX        65504.0F
#define MXFP4_MIN      0x1p-24F
#define MXFP4_MAX      0x1p15F

size_t pare_grid_groups(const pare_grid *g, size_t k)
{
    const size_t groups = g->group == 0 ? 1 : k / g->group + (k % g->group != 0);
    return g->group && g->group < PARE_ATOM_K ? groups + groups % 2 : groups;
}

/* Planes that only some encodings have. */
static pare_status take_more(pare_arena *a, const pare_grid *g, pare_codes *out)
{
    const size_t n = out->n, scales = n * out->groups;
    const pare_encoding_row *const row = &pare_encodings[g->encoding];
    const bool steps = row->scales == PARE_SCALES_STEPS,
               super = pare_encoding_is_super(g->encoding),
               coded = pare_encoding_codes_scales(g->encoding),
               turned = pare_encoding_turns(g->encoding),
               binary = row->decoding == PARE_DECODE_BINARY,
               book = binary || row->decoding == PARE_DECODE_BOOK;
    if (steps)
        out->scale_steps =
            PARE_NEW(a, float, (pare_round_up(n, PARE_PAD_N) * out->groups + 255) / 256);
    if (coded)
        out->scale_codes = PARE_NEW(a, uint8_t, scales);
    if (book)
        out->book = PARE_NEW(a, float, binary ? 4 * scales : n << g->bits);
    if (binary)
        out->salient = PARE_NEW(a, uint8_t, out->k);
    if (turned) {
        out->row_scales = PARE_NEW(a, float, n);
        out->column_scales = PARE_NEW(a, float, out->k);
    }
    if (super) {
        out->minima = PARE_NEW(a, float, scales);
        out->sub = PARE_NEW(a, uint8_t, scales * PARE_SUPER_BYTES);
    }
    return (steps && !out->scale_steps) || (coded && !out->scale_codes) || (book && !out->book) ||
                   (binary && !out->salient) ||
                   (turned && (!out->row_scales || !out->column_scales)) ||
                   (super && (!out->minima || !out->sub))
               ? PARE_ENOMEM
               : PARE_OK;
}

pare_status pare_codes_take(pare_arena *a, const pare_grid *g, size_t n, size_t k, pare_codes *out)
{
    const size_t groups = pare_grid_groups(g, k);
    size_t codes, scales, most;
    if (__builtin_mul_overflow(n, k, &codes) || __builtin_mul_overflow(n, groups, &scales) ||
        __builtin_mul_overflow(scales, 4096, &most))
        return pare_fail(a->cx, PARE_ENOMEM, "codes of a matrix [%zu, %zu]", n, k);
    *out = (pare_codes){.n = n, .k = k, .groups = groups};
    if (pare_encoding_is_float(g->encoding)) {
        out->values = PARE_NEW(a, float, codes);
        return out->values ? PARE_OK : PARE_ENOMEM;
    }
    out->codes = PARE_NEW(a, uint8_t, codes);
    out->scales = out->codes ? PARE_NEW(a, float, scales) : NULL;
    out->zeros = out->scales ? PARE_NEW(a, uint8_t, scales) : NULL;
    return out->zeros ? take_more(a, g, out) : PARE_ENOMEM;
}

/* Widths of the codes of an encoding, for a person: "2, 3, 4 and 8". */
static const char *widths(pare_encoding e, char text[WIDTHS_TEXT])
{
    const unsigned all = pare_encoding_is_float(e) ? 0 : pare_encodings[e].widths;
    size_t used = 0;
    (void)snprintf(text, WIDTHS_TEXT, "no");
    for (unsigned b = 1; all >> b; b++)
        if (all >> b & 1)
            used += (size_t)snprintf(text + used, WIDTHS_TEXT - used, "%s%u",
                                     !used            ? ""
                                     : all >> (b + 1) ? ", "
                                                      : " and ",
                                     b);
    return text;
}

/* What only some encodings ask for; NULL when all is well. */
static const char *mismatch(const pare_grid *g)
{
    const pare_encoding_row *const row = &pare_encodings[g->encoding];
    if (g->clip != PARE_CLIP_NONE && !pare_grid_clips(g->encoding))
        return "clip goes with the uniform grid, MXFP4 and NVFP4 only: say clip: none";
    if (row->scales == PARE_SCALES_POWERS && g->group != row->group)
        return "MXFP4 has groups of 32: leave group out";
    if (row->scales == PARE_SCALES_E4M3 && g->group != row->group)
        return "NVFP4 has groups of 16: leave group out";
    if (pare_encoding_is_super(g->encoding) && g->group != PARE_SUPER)
        return "a super-block has 256 weights";
    if (row->decoding == PARE_DECODE_BOOK && (!g->book || g->group))
        return "a codebook belongs to a row and has to be given";
    if (g->tensor && (g->encoding != PARE_ENCODING_TERNARY || g->group))
        return "one scale for the matrix goes with ternary codes and no group";
    return NULL;
}

pare_status pare_grid_check(pare_ctx *cx, const pare_grid *g, size_t n, size_t k,
                            const pare_codes *out)
{
    const char *const wrong = mismatch(g);
    char text[WIDTHS_TEXT];
    if (pare_encoding_is_float(g->encoding) || !pare_encoding_fits(g->encoding, g->bits))
        return pare_fail(cx, PARE_EINVAL, "%u bits per weight: codes of this grid have %s bits",
                         g->bits, widths(g->encoding, text));
    if (wrong)
        return pare_fail(cx, PARE_EINVAL, "%s", wrong);
    if (g->group % 32 != 0 && g->group != pare_encodings[g->encoding].group)
        return pare_fail(cx, PARE_ESHAPE, "group %zu is not a multiple of 32 (0 is the whole row)",
                         g->group);
    if (pare_encoding_is_super(g->encoding) && k % PARE_SUPER != 0)
        return pare_fail(cx, PARE_ESHAPE, "super-blocks of 256 weights do not divide rows of %zu",
                         k);
    if (pare_encodings[g->encoding].scales == PARE_SCALES_E4M3 && k % g->group != 0)
        return pare_fail(cx, PARE_ESHAPE,
                         "NVFP4 needs rows of a multiple of 16 weights, this one has %zu: take "
                         "mxfp4",
                         k);
    if (out->n != n || out->k != k || out->groups != pare_grid_groups(g, k))
        return pare_fail(cx, PARE_ESHAPE,
                         "planes of [%zu, %zu] in %zu groups given for [%zu, %zu] in %zu groups",
                         out->n, out->k, out->groups, n, k, pare_grid_groups(g, k));
    return PARE_OK;
}

/* The scale that is stored for s, which is > 0 unless it left F32. */
static pare_grid_fault store_scale(const pare_grid *g, float s, float *scale)
{
    *scale = s;
    if (s > (g->f16_scales ? F16_MAX : FLT_MAX))
        return PARE_GRID_OVERFLOW;
    if (g->f16_scales)
        *scale = pare_f16_scale(s > FLT_MIN ? s : FLT_MIN);
    return *scale > 0 ? PARE_GRID_OK : PARE_GRID_UNDERFLOW;
}

/* Grid of the range lo <= 0 <= hi, not both 0. */
static pare_grid_fault fit_range(const pare_grid *g, float lo, float hi, float *scale,
                                 uint8_t *zero)
{
    const float top = (float)((1u << g->bits) - 1), half = (float)(1u << (g->bits - 1));
    float s = (hi - lo) / top;
    if (g->symmetric) {
        const float up = hi / (half - 1), down = -lo / half;
        s = up > down ? up : down;
    }
    *zero = 0;
    const pare_grid_fault fault = store_scale(g, s, scale);
    if (fault == PARE_GRID_OK)
        *zero = g->symmetric ? (uint8_t)half : pare_grid_code(g->bits, -lo, *scale, 0);
    return fault;
}

/* The smallest scale that covers the range, of either sign on a symmetric grid. */
static pare_grid_fault fit_whole(const pare_grid *g, float lo, float hi, float *scale,
                                 uint8_t *zero)
{
    const bool minus = g->symmetric && hi > -lo;
    const pare_grid_fault fault =
        minus ? fit_range(g, -hi, -lo, scale, zero) : fit_range(g, lo, hi, scale, zero);
    if (minus && fault == PARE_GRID_OK)
        *scale = -*scale;
    return fault;
}

/* Whether the grid of a scale falls short of an end of the range by more than `most` says, from
 * below: the error there is at least that. An asymmetric one may lie anywhere, so that half of what
 * is missing in all counts. */
static bool too_short(const pare_grid *g, float lo, float hi, float s, const float most[2])
{
    const float top = (float)((1u << g->bits) - 1), half = (float)(1u << (g->bits - 1));
    if (!g->symmetric)
        return (hi - lo - top * s) / 2 > most[0];
    return -lo - half * s > most[0] || hi - (half - 1) * s > most[1];
}

/* What errors at both ends cost, from below. On an asymmetric grid the errors x and y there are
 * together at least twice its shortfall s, so that a x^2 + b y^2 >= 4 s^2 a b / (a + b), which
 * stands for both. 0: not known, also where costs may be no normal numbers. */
static void costs_of_ends(const pare_grid *g, const float *w, const float *own, size_t count,
                          float lo, float hi, double ends[2])
{
    const double tiny = 1e-20;
    float low = 0, high = 0;
    for (size_t j = 0; own && j < count; j++) {
        low = w[j] == lo && own[j] > low ? own[j] : low;
        high = w[j] == hi && own[j] > high ? own[j] : high;
    }
    const double a = (double)low, b = (double)high;
    ends[0] = a > tiny ? a : 0;
    ends[1] = b > tiny ? b : 0;
    if (!g->symmetric)
        ends[0] = ends[1] = ends[0] > 0 && ends[1] > 0 ? 4 * a * b / (a + b) : 0;
}

/* A shortfall that costs as much as all errors together, and a thousandth; with costs of its own it
 * may be so small that it is rounded. */
static float largest_error(float range, double cost, const float *own, double end)
{
    const float rounded = 1e-6F;
    if (!own)
        return 1.001F * range * powf((float)cost, 1 / 2.4F);
    return end > 0 ? 1.001F * range * ((float)sqrt(cost / end) + rounded) : INFINITY;
}

static void largest_errors(float range, double cost, const float *own, const double ends[2],
                           float most[2])
{
    most[0] = largest_error(range, cost, own, ends[0]);
    most[1] = ends[1] == ends[0] ? most[0] : largest_error(range, cost, own, ends[1]);
}

/* Whether a trial of the clip search has a grid. Scales below the normal numbers of F16 are none: a
 * group that small keeps its range. */
static bool try_range(const pare_grid *g, float lo, float hi, float *scale, uint8_t *zero)
{
    return fit_range(g, lo, hi, scale, zero) == PARE_GRID_OK &&
           (!g->f16_scales || *scale >= F16_NORMAL_MIN);
}

/* Just above what the range of USUAL percent costs, which is often near the least: ranges that cost
 * more need not be told apart. */
static double usual_cost(const pare_kernels *kernels, const pare_grid *g, const float *w,
                         const float *own, size_t count, float lo, float hi)
{
    const float p = USUAL / 100.0F;
    float s;
    uint8_t z;
    if (!try_range(g, p * lo, p * hi, &s, &z))
        return INFINITY;
    return 1.000001 * kernels->clip_cost(w, own, count, s, z, g->bits, hi - lo, INFINITY);
}

/* The range and the sign whose errors cost least. Scales fall from one range to the next, so that
 * the largest error grows: where it alone costs more than the best so far, no range behind can be
 * better. A thousandth covers what this is rounded by, so that it never decides anything. */
static void fit_clip(const pare_kernels *kernels, const pare_grid *g, const float *w,
                     const float *own, size_t count, float lo, float hi, float *scale,
                     uint8_t *zero)
{
    const float range = hi - lo;
    double best = usual_cost(kernels, g, w, own, count, lo, hi);
    double ends[2];
    float most[2];                         /* errors that cost as much as the best */
    bool over[2] = {false, !g->symmetric}; /* scales above 0, below 0 */
    costs_of_ends(g, w, own, count, lo, hi, ends);
    largest_errors(range, best, own, ends, most);
    for (int i = 0; i < 2 * CLIPS && !(over[0] && over[1]); i++) {
        const float p = (float)(1 - i / 2 / 100.0);
        const bool minus = i % 2;
        const float from = minus ? -hi : lo, to = minus ? -lo : hi;
        float s;
        uint8_t z;
        if (over[minus] || !try_range(g, p * from, p * to, &s, &z))
            continue;
        if (too_short(g, from, to, s, (const float[2]){most[minus], most[!minus]})) {
            over[minus] = true;
            continue;
        }
        s = minus ? -s : s;
        const double cost = kernels->clip_cost(w, own, count, s, z, g->bits, range, best);
        if (cost < best) {
            best = cost;
            largest_errors(range, best, own, ends, most);
            *scale = s;
            *zero = z;
        }
    }
}

/* The mean magnitude; of weights that are 0 or one magnitude, a, the latter: they are ternary. */
static float mean_magnitude(const float *w, size_t count, float a)
{
    double sum = 0;
    bool ternary = true;
    for (size_t j = 0; j < count; j++) {
        sum += (double)fabsf(w[j]);
        ternary &= w[j] == 0 || fabsf(w[j]) == a;
    }
    return ternary ? a : (float)(sum / (double)count);
}

/* What errors on a grid with levels cost: sum of own_j (w_j - value_j)^2. */
static double levels_cost(const pare_grid *g, const float *w, const float *own, size_t count,
                          float scale)
{
    double sum = 0;
    for (size_t j = 0; j < count; j++) {
        const uint8_t code = pare_grid_encode(g, 0, w[j], scale, 0);
        const double d = (double)w[j] - (double)pare_grid_decode(g, 0, code, scale, 0);
        sum += own ? (double)own[j] * d * d : d * d;
    }
    return sum;
}

/* 2^(floor(log2 a) - 2): the exponent field is the logarithm of a normal number. Weights above 6 of
 * these are clipped; the next power clips none, and its steps are twice as wide. */
static pare_grid_fault fit_power(const pare_grid *g, const float *w, const float *own, size_t count,
                                 float a, float *scale)
{
    const float p = pare_f32_from_bits(pare_f32_bits(a) & 0x7F800000u) * 0.25F;
    *scale = p > MXFP4_MIN ? p : MXFP4_MIN;
    if (p > MXFP4_MAX)
        return PARE_GRID_OVERFLOW;
    if (g->clip != PARE_CLIP_NONE && a > 6 * *scale && *scale < MXFP4_MAX &&
        levels_cost(g, w, own, count, 2 * *scale) < levels_cost(g, w, own, count, *scale))
        *scale *= 2;
    return PARE_GRID_OK;
}

/* Of the E4M3 values times the factor, the one nearest to a / 6; with a search the one that costs
 * least, of three below it up to one above a / 4, where the 4 of E2M1 stands for a: between 4 and 6
 * it has nothing. First of equals, from below.
 *   Source  4 or 6: Cook et al., "Four Over Six", 2025; there these two are compared. */
static float fit_e4m3_scale(const pare_grid *g, const float *w, const float *own, size_t count,
                            float a)
{
    const int nearest = pare_f32_to_e4m3(a / 6 / g->factor),
              wide = pare_f32_to_e4m3(a / 4 / g->factor) + ABOVE;
    const bool search = g->clip != PARE_CLIP_NONE;
    const int first = search ? nearest - BELOW : nearest, end = search ? wide : nearest;
    float best = 0;
    double least = INFINITY;
    for (int code = first < 1 ? 1 : first; code <= (end < 1 ? 1 : end) && code <= E4M3_LAST;
         code++) {
        const float scale = pare_levels_e4m3[code] * g->factor;
        const double cost = search ? levels_cost(g, w, own, count, scale) : 0;
        if (cost < least) {
            least = cost;
            best = scale;
        }
    }
    return best;
}

/* Without a factor, which the whole matrix decides, a plain F16 scale. */
static pare_grid_fault fit_e4m3(const pare_grid *g, const float *w, const float *own, size_t count,
                                float a, float *scale)
{
    *scale = a / 6;
    if (*scale > PARE_NVFP4_MOST)
        return PARE_GRID_OVERFLOW;
    if (g->factor == 0)
        return store_scale(g, *scale, scale);
    *scale = fit_e4m3_scale(g, w, own, count, a);
    return PARE_GRID_OK;
}

/* Scale of a group with levels, `a` being its largest magnitude. */
static pare_grid_fault fit_levels(const pare_grid *g, const float *w, const float *own,
                                  size_t count, float a, float *scale, uint8_t *zero)
{
    const pare_encoding_row *const row = &pare_encodings[g->encoding];
    const bool ternary = g->encoding == PARE_ENCODING_TERNARY;
    *zero = ternary;
    *scale = row->scales == PARE_SCALES_NONE ? 1 : 0;
    if (row->scales == PARE_SCALES_POWERS)
        return fit_power(g, w, own, count, a, scale);
    if (a == 0 || row->scales == PARE_SCALES_NONE)
        return PARE_GRID_OK;
    if (row->scales == PARE_SCALES_E4M3)
        return fit_e4m3(g, w, own, count, a, scale);
    return store_scale(g, ternary ? mean_magnitude(w, count, a) : a / row->most, scale);
}

/* The first weight that is not finite: there is one. */
static float first_not_finite(const float *w)
{
    while (fabsf(*w) <= FLT_MAX)
        w++;
    return *w;
}

pare_grid_fault pare_grid_fit_by(const pare_kernels *kernels, const pare_grid *g, const float *w,
                                 const float *cost, size_t count, float *scale, uint8_t *zero)
{
    float lo, hi;
    if (pare_encoding_is_super(g->encoding)) {
        uint8_t sub[PARE_SUPER_BYTES];
        float minimum;
        *zero = 0;
        return pare_super_fit(g->encoding, w, NULL, scale, &minimum, sub);
    }
    if (!kernels->range_f32(w, count, &lo, &hi)) {
        *scale = first_not_finite(w);
        *zero = 0;
        return PARE_GRID_NOT_FINITE;
    }
    const float *const own = g->clip == PARE_CLIP_WEIGHTED ? cost : NULL;
    if (!pare_encodings[g->encoding].uniform)
        return fit_levels(g, w, own, count, hi > -lo ? hi : -lo, scale, zero);
    if (!(lo < hi)) {
        *scale = 0;
        *zero = (uint8_t)(g->symmetric ? 1u << (g->bits - 1) : 0);
        return PARE_GRID_OK;
    }
    const pare_grid_fault fault = fit_whole(g, lo, hi, scale, zero);
    if (fault == PARE_GRID_OK && g->clip != PARE_CLIP_NONE)
        fit_clip(kernels, g, w, own, count, lo, hi, scale, zero);
    return fault;
}

pare_grid_fault pare_grid_fit(const pare_kernels *kernels, const pare_grid *g, const float *w,
                              size_t count, float *scale, uint8_t *zero)
{
    return pare_grid_fit_by(kernels, g, w, NULL, count, scale, zero);
}

pare_status pare_grid_fail(pare_ctx *cx, pare_grid_fault fault, size_t row, size_t group,
                           float value)
{
    switch (fault) {
    case PARE_GRID_NOT_FINITE:
        return pare_fail(cx, PARE_ENUMERIC,
                         "row %zu, group %zu: weight %g is not finite: repair the checkpoint, or "
                         "leave this linear out",
                         row, group, (double)value);
    case PARE_GRID_UNDERFLOW:
        return pare_fail(cx, PARE_ENUMERIC,
                         "row %zu, group %zu: scale %g: the weights are too small for F32, leave "
                         "this linear out",
                         row, group, (double)value);
    case PARE_GRID_OVERFLOW:
        return pare_fail(cx, PARE_ENUMERIC,
                         "row %zu, group %zu: scale %g is above what the scales of this format "
                         "hold: the weights are too large for it, leave this linear out",
                         row, group, (double)value);
    case PARE_GRID_OK: break;
    }
    return PARE_OK;
}

const char *pare_grid_groups_text(size_t k, size_t most, char text[PARE_GROUPS_TEXT])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t group = 32; group <= most && group < k && used < PARE_GROUPS_TEXT; group *= 2)
        if (k % group == 0)
            used += (size_t)snprintf(text + used, PARE_GROUPS_TEXT - used, "%s%zu",
                                     used ? ", " : "", group);
    if (used < PARE_GROUPS_TEXT)
        (void)snprintf(text + used, PARE_GROUPS_TEXT - used, "%srow", used ? " or " : "");
    return text;
}
