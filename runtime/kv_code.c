/* From F16 keys and values to codes. Loops run over planes, a plane being one head of a sequence.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "runtime/kv_internal.h"
#include "runtime/threads.h"

enum { ROUND = 64, NAN_F16 = 0x7e00 };

void pare__kv_round(const pare_kernels *kernels, float *x, size_t n)
{
    uint16_t half[ROUND];
    for (size_t i = 0; i < n; i += ROUND) {
        const size_t count = n - i < ROUND ? n - i : ROUND;
        kernels->cvt_f32_f16(half, x + i, count);
        kernels->cvt_f16_f32(x + i, half, count);
    }
}

/* False when a value is not finite. */
static bool range(const float *x, size_t step, size_t n, float *min, float *max)
{
    bool finite = true;
    *min = *max = x[0];
    for (size_t i = 0; i < n; i++) {
        const float v = x[i * step];
        finite = finite && isfinite(v);
        *min = v < *min ? v : *min;
        *max = v > *max ? v : *max;
    }
    return finite;
}

void pare__kv_code_group(const float *x, size_t step, size_t n, unsigned bits, uint8_t *code,
                         uint16_t *scale, uint16_t *low)
{
    const float top = (float)((1u << bits) - 1);
    float min, max;
    const bool finite = range(x, step, n, &min, &max);
    *low = pare_f32_to_f16(min);
    *scale = finite ? pare_f16_of_scale((max - min) / top) : NAN_F16;
    const float s = pare_f16_to_f32(*scale), base = pare_f16_to_f32(*low);
    for (size_t i = 0; i < n; i++) {
        float q = s > 0 ? rintf((x[i * step] - base) / s) : 0;
        q = q > top ? top : q;
        code[i * step] = (uint8_t)(q > 0 ? q : 0);
    }
}

void pare__kv_code_int8(const float *x, size_t n, uint8_t *code, uint16_t *scale)
{
    float min, max;
    const bool finite = range(x, 1, n, &min, &max);
    const float most = -min > max ? -min : max;
    *scale = finite ? pare_f16_of_scale(most / 127.0f) : NAN_F16;
    const float s = pare_f16_to_f32(*scale);
    for (size_t i = 0; i < n; i++) {
        float q = s > 0 ? rintf(x[i] / s) : 0;
        q = q > 127.0f ? 127.0f : q;
        code[i] = (uint8_t)((q < -127.0f ? -127.0f : q) + 128.0f);
    }
}

unsigned pare__kv_nearest(const float *levels, float x, float scale, float low)
{
    const float v = scale > 0 ? (x - low) / scale : 0;
    unsigned code = 0;
    for (size_t i = 0; i + 1 < PARE_KV_LEVELS; i++)
        code += v > 0.5f * (levels[i] + levels[i + 1]);
    return code;
}

void pare__kv_code_levels(const float *x, size_t n, const float *levels, uint8_t *code,
                          uint16_t *scale, uint16_t *low)
{
    float min, max;
    const bool finite = range(x, 1, n, &min, &max);
    *low = pare_f32_to_f16(0.5f * (max + min));
    *scale = finite ? pare_f16_of_scale(0.5f * (max - min)) : NAN_F16;
    const float s = pare_f16_to_f32(*scale), middle = pare_f16_to_f32(*low);
    for (size_t i = 0; i < n; i++)
        code[i] = (uint8_t)pare__kv_nearest(levels, x[i], s, middle);
}

void pare__kv_pack(uint8_t *row, const uint8_t *code, size_t n, unsigned bits)
{
    for (size_t c = 0; c < n; c += 8) {
        uint64_t word = 0;
        for (size_t i = 0; i < 8 && c + i < n; i++)
            word |= (uint64_t)code[c + i] << i * bits;
        for (size_t i = 0; i < bits; i++)
            *row++ = (uint8_t)(word >> 8 * i);
    }
}

/* One plane of one side while its tokens are coded. */
typedef struct plane {
    const pare__kv_batch *b;
    const pare_config *c;
    const pare_kv_side *side;
    bool key;
    size_t at;          /* number of the plane */
    size_t coded, rows; /* tokens and rows of scales that a plane has room for */
    float *x;           /* [tokens][head_dim] the tokens that are coded together */
    uint8_t *code;      /* likewise */
} plane;

static const float *batch_row(const plane *p, size_t token)
{
    const size_t sequence = p->at / p->c->kv_heads, head = p->at % p->c->kv_heads;
    const size_t row = sequence * p->b->batch.length + token - p->b->batch.start;
    return (p->key ? p->b->k : p->b->v) + (row * p->c->kv_heads + head) * p->c->head_dim;
}

/* A token of the batch, or of the tokens kept before it. */
static void fetch(const plane *p, size_t token, float *x)
{
    const size_t d = p->c->head_dim, slots = p->b->kv->slots;
    if (token >= p->b->batch.start)
        memcpy(x, batch_row(p, token), d * sizeof *x);
    else
        p->b->cx->kernels.cvt_f16_f32(x, p->side->recent + (p->at * slots + token % slots) * d, d);
}

static uint8_t *code_row(const plane *p, size_t token)
{
    return p->side->codes +
           (p->at * p->coded + token) * pare_kv_row_bytes(p->c->head_dim, p->side->bits);
}

/* `tokens` keys, channel by channel. */
static void code_channels(const plane *p, size_t first)
{
    const pare_kv_side *const s = p->side;
    const size_t d = p->c->head_dim, row = (p->at * p->rows + first / s->tokens) * s->entries;
    for (size_t i = 0; i < s->tokens; i++)
        fetch(p, first + i, p->x + i * d);
    for (size_t c = 0; c < d; c++)
        pare__kv_code_group(p->x + c, d, s->tokens, s->bits, p->code + c, s->scales + row + c,
                            s->lows + row + c);
    for (size_t i = 0; i < s->tokens; i++)
        pare__kv_pack(code_row(p, first + i), p->code + i * d, d, s->bits);
}

/* A key by the scales and levels that calibration fixed. */
static void code_fixed(const plane *p, size_t token)
{
    const pare_kv_levels *const l = p->b->levels;
    const size_t d = p->c->head_dim, first = p->at % p->c->kv_heads * d;
    fetch(p, token, p->x);
    for (size_t c = 0; c < d; c++)
        p->code[c] =
            (uint8_t)pare__kv_nearest(l->key, p->x[c], pare_f16_to_f32(l->key_scale[first + c]),
                                      pare_f16_to_f32(l->key_low[first + c]));
    pare__kv_pack(code_row(p, token), p->code, d, p->side->bits);
}

/* Fixed scales cannot say that a key is not finite, so its value does. */
static bool key_is_finite(const plane *p, size_t token)
{
    plane keys = *p;
    keys.key = true;
    keys.side = &p->b->kv->key;
    fetch(&keys, token, p->x);
    float min, max;
    return range(p->x, 1, p->c->head_dim, &min, &max);
}

static void code_token(const plane *p, size_t token)
{
    const pare_kv_side *const s = p->side;
    const size_t d = p->c->head_dim, row = (p->at * p->rows + token) * s->entries;
    const pare_kv_method method = p->b->kv->format.method;
    const bool spoilt = method == PARE_KV_KVQUANT && !key_is_finite(p, token);
    fetch(p, token, p->x);
    for (size_t c = 0, i = row; c < d; c += s->group, i++) {
        const size_t n = d - c < s->group ? d - c : s->group;
        if (method == PARE_KV_INT8)
            pare__kv_code_int8(p->x + c, n, p->code + c, s->scales + i);
        else if (method == PARE_KV_KVQUANT)
            pare__kv_code_levels(p->x + c, n, p->b->levels->value, p->code + c, s->scales + i,
                                 s->lows + i);
        else
            pare__kv_code_group(p->x + c, 1, n, s->bits, p->code + c, s->scales + i, s->lows + i);
        if (spoilt)
            s->scales[i] = NAN_F16;
    }
    pare__kv_pack(code_row(p, token), p->code, d, s->bits);
}

static void keep_sink(const plane *p)
{
    const pare_kv_format *const f = &p->b->kv->format;
    const size_t d = p->c->head_dim, start = p->b->batch.start;
    const size_t end = start + p->b->batch.length < f->sink ? start + p->b->batch.length : f->sink;
    for (size_t t = start; t < end; t++)
        p->b->cx->kernels.cvt_f32_f16(p->side->sink + (p->at * f->sink + t) * d, batch_row(p, t),
                                      d);
}

static void store_plane(const plane *p)
{
    const pare_kv_format *const f = &p->b->kv->format;
    const pare_batch batch = p->b->batch;
    const size_t begin = pare_kv_coded(f, p->key, batch.start),
                 end = pare_kv_coded(f, p->key, batch.start + batch.length);
    for (size_t t = begin; t<end; t += p->side->tokens> 1 ? p->side->tokens : 1) {
        if (p->side->tokens == 0)
            code_fixed(p, t);
        else if (p->side->tokens > 1)
            code_channels(p, t);
        else
            code_token(p, t);
    }
    keep_sink(p);
}

/* Planes of keys, then planes of values. */
typedef struct plane_call {
    const pare__kv_batch *b;
    const pare_config *c;
    size_t planes;
    size_t each;   /* values that one plane works on at a time */
    float *x;      /* [workers][each] */
    uint8_t *code; /* [workers][each] */
} plane_call;

static plane plane_at(const plane_call *call, size_t i, size_t worker)
{
    const pare_kv *const kv = call->b->kv;
    plane p = {.b = call->b, .c = call->c, .key = i < call->planes, .at = i % call->planes};
    p.side = p.key ? &kv->key : &kv->value;
    p.coded = pare_kv_coded(&kv->format, p.key, kv->capacity);
    p.rows = p.side->tokens ? (p.coded + p.side->tokens - 1) / p.side->tokens : 0;
    p.x = call->x + worker * call->each;
    p.code = call->code + worker * call->each;
    return p;
}

static void store_planes(void *arg, size_t begin, size_t end, size_t worker)
{
    for (size_t i = begin; i < end; i++) {
        const plane p = plane_at(arg, i, worker);
        store_plane(&p);
    }
}

static void keep_planes(void *arg, size_t begin, size_t end, size_t worker)
{
    for (size_t i = begin; i < end; i++) {
        const plane p = plane_at(arg, i, worker);
        const size_t d = p.c->head_dim, slots = p.b->kv->slots;
        const size_t all = p.b->batch.start + p.b->batch.length;
        size_t t = all > slots ? all - slots : 0;
        t = t > p.b->batch.start ? t : p.b->batch.start;
        for (; t < all; t++)
            p.b->cx->kernels.cvt_f32_f16(p.side->recent + (p.at * slots + t % slots) * d,
                                         batch_row(&p, t), d);
    }
}

static void for_planes(const plane_call *call, pare_task *task)
{
    const size_t work = call->b->batch.length * call->c->head_dim * 8;
    pare_parallel(call->b->cx, 2 * call->planes, pare__chunk(work), task, (void *)(uintptr_t)call);
}

static size_t group_values(const pare_config *c)
{
    return PARE_KV_GROUP_MAX * c->head_dim;
}

size_t pare__kv_store_bytes(const pare_config *c)
{
    return group_values(c) * (sizeof(float) + 1);
}

pare_status pare__kv_store(pare_arena *scratch, const pare__kv_batch *b)
{
    const pare_config *const c = &b->f->model->config;
    const size_t workers = pare_threads(b->cx);
    const pare_mark mark = pare_arena_mark(scratch);
    plane_call call = {.b = b, .c = c, .planes = b->batch.sequences * c->kv_heads};
    call.each = group_values(c);
    call.x = pare_arena_take(scratch, workers * call.each, sizeof(float));
    call.code = pare_arena_take(scratch, workers * call.each, 1);
    if (!call.x || !call.code)
        return PARE_ENOMEM;
    for_planes(&call, store_planes);
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

void pare__kv_keep(const pare__kv_batch *b)
{
    const pare_config *const c = &b->f->model->config;
    const plane_call call = {.b = b, .c = c, .planes = b->batch.sequences * c->kv_heads};
    if (b->kv->slots)
        for_planes(&call, keep_planes);
}
