/* Codes of other programs as floats, or in the order of our kernels. */
#include <math.h>
#include <string.h>

#include "formats/quantized_internal.h"
#include "kernels/e4m3.h"
#include "kernels/half.h"
#include "kernels/layout.h"
#include "kernels/levels.h"
#include "runtime/threads.h"
#include "solve/nvfp4.h"
#include "solve/scales.h"

enum { CHUNK = 16, WORD = 32, E4M3_NAN = 0x7f, E8M0_NAN = 0xff, E8M0_BIAS = 127 };

static uint32_t word_at(const void *data, size_t i)
{
    uint32_t w;
    memcpy(&w, (const char *)data + i * sizeof w, sizeof w);
    return w;
}

/* Where field i of a line of words begins. */
static inline size_t bit_of(const pare__fields *f, size_t i)
{
    if (f->order)
        return i / 8 * WORD + f->order[i % 8] * f->bits;
    return f->per ? i / f->per * WORD + i % f->per * f->bits : i * f->bits;
}

static inline int field(const pare__fields *f, size_t line, size_t i)
{
    if (f->bytes)
        return (((const uint8_t *)f->data)[line * f->line + i * f->step] ^ f->flip) + f->add;
    const size_t bit = bit_of(f, i);
    const size_t word = line * f->line + bit / WORD * f->step;
    const unsigned shift = bit % WORD;
    uint64_t w = word_at(f->data, word);
    if (shift + f->bits > WORD)
        w |= (uint64_t)word_at(f->data, word + f->step) << WORD;
    return (int)(w >> shift & ((1U << f->bits) - 1)) + f->add;
}

static inline int code_at(const pare__coded *c, size_t r, size_t j)
{
    return c->down ? field(&c->code, j, r) : field(&c->code, r, j);
}

static inline int zero_at(const pare__coded *c, size_t r, size_t g)
{
    return c->zero.data ? field(&c->zero, g, r) : 1 << (c->bits - 1);
}

static inline size_t group_of(const pare__coded *c, size_t j)
{
    if (c->index)
        return word_at(c->index->data, j);
    return c->group ? j / c->group : 0;
}

static inline size_t scale_of(const pare__coded *c, size_t r, size_t g)
{
    return r / c->scale_rows * c->scale_line + g * c->scale_step;
}

static size_t scale_count(const pare__coded *c)
{
    return (size_t)(8 * c->scales->bytes / pare_dtype_bits(c->scales->dtype));
}

static float small_scale(const pare__coded *c, uint8_t code)
{
    if (c->scales->dtype == PARE_F8_E4M3)
        return c->divisor != 0 ? pare_levels_e4m3[code] / c->divisor
                               : pare_levels_e4m3[code] * c->factor;
    return code == E8M0_NAN ? NAN : ldexpf(1, code - E8M0_BIAS);
}

/* All scales as floats. */
static pare_status take_scales(const pare__quantized *q, const pare__coded *c, float **out)
{
    const size_t count = scale_count(c);
    float *const scale = *out = PARE_NEW(q->scratch, float, count);
    if (!scale)
        return PARE_ENOMEM;
    if (pare_dtype_bits(c->scales->dtype) > 8)
        return pare_tensor_to_f32(q->cx, c->scales, 0, count, scale);
    for (size_t i = 0; i < count; i++)
        scale[i] = small_scale(c, ((const uint8_t *)c->scales->data)[i]);
    return PARE_OK;
}

/* --- what the file may hold --------------------------------------------------------------------
 */

static pare_status fail_value(const pare__quantized *q, const pare_tensor *t, size_t i,
                              const char *what)
{
    return pare_fail(q->cx, PARE_EFORMAT, "%s: tensor %s: value %zu is %s", q->ck->path, t->name, i,
                     what);
}

pare_encoding pare__coded_encoding(const pare__coded *c)
{
    if (c->codebook)
        return PARE_ENCODING_EXL3;
    if (!c->level)
        return PARE_ENCODING_UNIFORM;
    if (c->bits == 8)
        return PARE_ENCODING_FP8;
    return c->scales->dtype == PARE_F8_E4M3 ? PARE_ENCODING_NVFP4 : PARE_ENCODING_MXFP4;
}

/* Scales in E4M3 are finite: the number beside them takes the weights out of what F32 holds. */
static pare_status fail_beside(const pare__quantized *q, const pare__coded *c, size_t i)
{
    const bool divides = c->divisor != 0;
    return pare_fail(
        q->cx, PARE_EFORMAT,
        "%s: tensor %s.%s: %g is too %s: value %zu of weight_scale %s it gives weights "
        "that do not fit F32",
        q->ck->path, c->name, divides ? "weight_global_scale" : "weight_scale_2",
        (double)(divides ? c->divisor : c->factor), divides ? "small" : "large", i,
        divides ? "divided by" : "times");
}

static pare_status check_scales(const pare__quantized *q, const pare__coded *c)
{
    const float most =
        c->level ? pare_encodings[pare__coded_encoding(c)].most : (float)(1 << c->bits);
    float *scale;
    PARE_TRY(take_scales(q, c, &scale));
    for (size_t i = 0; i < scale_count(c); i++) {
        if (isfinite(scale[i] * most))
            continue;
        if (c->scales->dtype == PARE_F8_E4M3 && !isnan(scale[i]))
            return fail_beside(q, c, i);
        return fail_value(q, c->scales, i,
                          isnan(scale[i])   ? "NaN"
                          : isinf(scale[i]) ? "infinite"
                                            : "so large that a weight may not be finite");
    }
    return PARE_OK;
}

static pare_status check_floats(const pare__quantized *q, const pare__coded *c)
{
    const uint8_t *const code = c->codes->data;
    for (size_t i = 0; i < c->n * c->k; i++)
        if ((code[i] & E4M3_NAN) == E4M3_NAN)
            return fail_value(q, c->codes, i, "NaN");
    return PARE_OK;
}

/* Words are filled to the last field of a line and have no bits behind it. */
static pare_status check_ends(const pare__quantized *q, const pare_tensor *t, const pare__fields *f,
                              size_t lines, size_t fields)
{
    const size_t end = f->bytes ? 0 : bit_of(f, fields - 1) + f->bits;
    const unsigned used = end % WORD;
    for (size_t i = 0; used && i < lines; i++) {
        const size_t last = i * f->line + end / WORD * f->step;
        if (word_at(f->data, last) >> used)
            return pare_fail(q->cx, PARE_EFORMAT,
                             "%s: tensor %s: word %zu has bits behind the last of %zu weights",
                             q->ck->path, t->name, last, fields);
    }
    return PARE_OK;
}

static pare_status check_zeros(const pare__quantized *q, const pare__coded *c)
{
    const int top = (1 << c->bits) - 1;
    for (size_t g = 0; g < c->groups; g++)
        for (size_t r = 0; r < c->n; r++) {
            const int zero = field(&c->zero, g, r);
            if (zero < 0 || zero > top)
                return pare_fail(q->cx, PARE_EFORMAT,
                                 "%s: tensor %s: the zero point of row %zu, group %zu is %d, not "
                                 "one of 0 to %d; engines differ in what they make of that",
                                 q->ck->path, c->zeros->name, r, g, zero, top);
        }
    return check_ends(q, c->zeros, &c->zero, c->groups, c->n);
}

/* Whether zero points say no more than a grid without them. */
static bool is_symmetric(const pare__coded *c)
{
    for (size_t g = 0; c->zero.data && g < c->groups; g++)
        for (size_t r = 0; r < c->n; r++)
            if (field(&c->zero, g, r) != 1 << (c->bits - 1))
                return false;
    return true;
}

pare_status pare__coded_check(const pare__quantized *q, const pare__coded *c)
{
    if (c->codebook)
        return pare__trellis_check(q, c);
    if (!c->codes->data || !c->scales->data || (c->zero.bits && !c->zero.data))
        return PARE_OK;
    PARE_TRY(check_scales(q, c));
    if (c->level)
        return c->bits == 8 ? check_floats(q, c) : PARE_OK;
    if (c->zero.data)
        PARE_TRY(check_zeros(q, c));
    if (c->symmetric && !is_symmetric(c))
        return pare__quantized_wrong(q, c->zeros->name, "",
                                     "has zero points, but "
                                     "quantization_config says that the weights are symmetric");
    return check_ends(q, c->codes, &c->code, c->down ? c->k : c->n, c->down ? c->n : c->k);
}

/* --- floats ------------------------------------------------------------------------------------
 */

typedef struct decoding {
    const pare__coded *c;
    const float *scale;
    bool turned;
    float *w;
} decoding;

static void decode_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const decoding *const d = arg;
    const pare__coded *const c = d->c;
    (void)worker;
    for (size_t r = begin; r < end; r++) {
        size_t last = SIZE_MAX;
        float scale = 0;
        int zero = 0;
        for (size_t j = 0; j < c->k; j++) {
            const size_t g = group_of(c, j);
            if (g != last) {
                scale = d->scale[scale_of(c, r, g)];
                zero = c->level ? 0 : zero_at(c, r, g);
                last = g;
            }
            const int code = code_at(c, r, j);
            const float value = c->level ? c->level[code] : (float)(code - zero);
            d->w[d->turned ? j * c->n + r : r * c->k + j] = value * scale;
        }
    }
}

pare_status pare__coded_floats(const pare__quantized *q, const pare__coded *c, bool turned,
                               float *w)
{
    float *scale;
    if (c->codebook)
        return pare__trellis_floats(q, c, turned, w);
    PARE_TRY(take_scales(q, c, &scale));
    decoding d = {.c = c, .scale = scale, .turned = turned, .w = w};
    pare_parallel(q->cx, c->n, CHUNK, decode_rows, &d);
    return PARE_OK;
}

/* --- the order of the kernels ------------------------------------------------------------------
 */

static bool all_in_f16(const float *scale, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pare_f16_to_f32(pare_f32_to_f16(scale[i])) != scale[i])
            return false;
    return true;
}

/* Whether they are values of E4M3 times a factor of NVFP4, as they are where the number beside the
 * scales is a power of two. */
static bool all_in_e4m3(const float *scale, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, scale[i]);
    const float factor = pare_nvfp4_factor_for(most);
    for (size_t i = 0; i < count; i++)
        if (!(scale[i] >= 0) ||
            pare_levels_e4m3[pare_f32_to_e4m3(scale[i] / factor)] * factor != scale[i])
            return false;
    return true;
}

/* Whether its groups are some of the encoding. */
static bool group_suits(const pare__coded *c, pare_encoding e)
{
    if (e == PARE_ENCODING_NVFP4)
        return c->group == pare_encodings[e].group && c->k % PARE_ATOM_K == 0;
    return c->group % PARE_ATOM_K == 0;
}

pare_status pare__coded_packs(const pare__quantized *q, const pare__coded *c, bool *packs,
                              pare_packed_linear *out)
{
    const pare_encoding encoding = pare__coded_encoding(c);
    float *scale;
    if (c->codebook) {
        *packs = pare__trellis_packs(q, c, out);
        return PARE_OK;
    }
    *packs = q->packs && c->codes->data && c->scales->data && !c->index &&
             group_suits(c, encoding) && pare_encoding_fits(encoding, c->bits);
    if (!*packs)
        return PARE_OK;
    PARE_TRY(take_scales(q, c, &scale));
    *packs = encoding == PARE_ENCODING_NVFP4 ? all_in_e4m3(scale, scale_count(c))
                                             : all_in_f16(scale, scale_count(c));
    *out = (pare_packed_linear){
        .name = c->name,
        .n = c->n,
        .k = c->k,
        .bits = c->bits,
        .group = c->group,
        .symmetric = c->level || is_symmetric(c),
        .encoding = encoding,
        .activation = {.mode = c->level ? PARE_ACTIVATION_FLOAT : PARE_ACTIVATION_GROUP,
                       .bits = c->level ? 0 : 8}};
    if (c->activation.bits)
        out->activation = c->activation;
    return PARE_OK;
}

typedef struct filling {
    const pare__coded *c;
    const float *scale;
    pare_codes *to;
} filling;

static void fill_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const filling *const f = arg;
    const pare__coded *const c = f->c;
    (void)worker;
    for (size_t r = begin; r < end; r++) {
        for (size_t j = 0; j < c->k; j++)
            f->to->codes[r * c->k + j] = (uint8_t)code_at(c, r, j);
        for (size_t g = 0; g < c->groups; g++) {
            f->to->scales[r * c->groups + g] = f->scale[scale_of(c, r, g)];
            f->to->zeros[r * c->groups + g] = c->level ? 0 : (uint8_t)zero_at(c, r, g);
        }
    }
}

/* Planes one behind the other. */
static pare_status keep_planes(const pare__quantized *q, const pare_packed_planes *from,
                               pare_tensor *t, void *plane[PARE_PLANES])
{
    void *room;
    PARE_TRY(pare_scratch_take(&q->ck->scratch, from->bytes.total, &room));
    uint8_t *next = room;
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        plane[p] = from->plane[p] ? next : NULL;
        if (from->plane[p])
            memcpy(next, from->plane[p], (size_t)from->bytes.plane[p]);
        next += from->bytes.plane[p];
    }
    t->dtype = PARE_U8;
    t->data = room;
    t->bytes = from->bytes.total;
    return PARE_OK;
}

static pare_status make_planes(const pare__quantized *q, const pare__coded *c,
                               const pare_packed_linear *l, pare_packed_planes *out)
{
    const pare_grid grid = {.bits = c->bits, .group = c->group, .encoding = l->encoding};
    pare_codes codes;
    float *scale;
    if (c->codebook) {
        PARE_TRY(pare_packed_take(q->scratch, l, out));
        pare__trellis_fill(c, out);
        return PARE_OK;
    }
    PARE_TRY(pare_codes_take(q->scratch, &grid, c->n, c->k, &codes));
    PARE_TRY(take_scales(q, c, &scale));
    filling f = {.c = c, .scale = scale, .to = &codes};
    pare_parallel(q->cx, c->n, CHUNK, fill_rows, &f);
    pare_scales_finish(&grid, &codes);
    codes.input_scale = l->activation.scale;
    return pare_packed_pack(q->cx, q->scratch, l, &codes, out);
}

pare_status pare__coded_pack(const pare__quantized *q, const pare__coded *c,
                             const pare_packed_linear *l, pare_tensor *t,
                             const pare_linear **packed)
{
    pare_packed_planes planes;
    void *plane[PARE_PLANES];
    pare_linear *const w = PARE_NEW(q->arena, pare_linear, 1);
    if (!w)
        return PARE_ENOMEM;
    PARE_TRY(make_planes(q, c, l, &planes));
    PARE_TRY(keep_planes(q, &planes, t, plane));
    PARE_TRY(pare_packed_view(q->cx, q->arena, l, plane, w));
    *packed = w;
    return PARE_OK;
}
