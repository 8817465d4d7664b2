/* Reading a cache block by block. Floats lie as attention wants them. A block of a coded cache
 * comes from up to three sources, in the order of positions: the sink (F16), codes, recent tokens
 * (F16). A query takes a column from the one source that its own position allows. */
#include <assert.h>
#include <string.h>

#include "runtime/kv_internal.h"
#include "runtime/ops.h"
#include "runtime/small.h"

void pare__kv_columns(const pare__kv_reader *r, pare__kv_source s, bool key, size_t t, size_t c0,
                      size_t c1, size_t *begin, size_t *end)
{
    const pare_kv_format *const f = &r->b->kv->format;
    const size_t coded = f->window ? pare_kv_coded(f, key, r->first + t + 1) : SIZE_MAX;
    const size_t edge[] = {0, f->sink, pare_larger(f->sink, coded), SIZE_MAX};
    const size_t first = pare_smaller(pare_larger(c0, edge[s]), c1);
    *end = pare_larger(first, pare_smaller(c1, edge[s + 1]));
    *begin = pare_smaller(pare_larger(first, pare__kv_low(r, t)), *end);
}

/* Tokens that lie in F16: of the sink, or recent ones, of which those of the batch itself are still
 * floats. */
static void fetch_halves(const pare__kv_reader *r, pare__kv_source s, bool key, size_t begin,
                         size_t end, float *to)
{
    const pare__kv_batch *const b = r->b;
    const pare_kv *const kv = b->kv;
    const pare_config *const c = &b->f->model->config;
    const pare_kv_side *const side = key ? &kv->key : &kv->value;
    const size_t d = c->head_dim, at = r->sequence * c->kv_heads + r->head;
    if (s == PARE__KV_SINK) {
        b->cx->kernels.cvt_f16_f32(to, side->sink + (at * kv->format.sink + begin) * d,
                                   (end - begin) * d);
        return;
    }
    for (size_t t = begin; t < end; t++, to += d) {
        const size_t row = r->sequence * b->batch.length + t - b->batch.start;
        if (t < b->batch.start)
            b->cx->kernels.cvt_f16_f32(to, side->recent + (at * kv->slots + t % kv->slots) * d, d);
        else
            memcpy(to, (key ? b->k : b->v) + (row * c->kv_heads + r->head) * d, d * sizeof *to);
    }
}

static void fetch_codes(const pare__kv_reader *r, bool key, size_t begin, size_t end, float *to)
{
    const pare__kv_batch *const b = r->b;
    const pare_kv *const kv = b->kv;
    const pare_config *const c = &b->f->model->config;
    const pare_kv_side *const side = key ? &kv->key : &kv->value;
    const size_t d = c->head_dim, at = r->sequence * c->kv_heads + r->head;
    const size_t room = pare_kv_coded(&kv->format, key, kv->capacity);
    pare_kv_tile tile = {.group = side->group, .bits = side->bits};
    if (kv->format.method == PARE_KV_KVQUANT)
        tile.levels = key ? b->levels->key : b->levels->value;
    for (size_t t = begin, next; t < end; t = next) {
        next = side->tokens > 1 ? pare_smaller(end, (t / side->tokens + 1) * side->tokens) : end;
        tile.codes = side->codes + (at * room + t) * pare_kv_row_bytes(d, side->bits);
        if (side->tokens == 0) {
            tile.scales = b->levels->key_scale + r->head * d;
            tile.lows = b->levels->key_low + r->head * d;
        } else {
            const size_t rows = (room + side->tokens - 1) / side->tokens;
            const size_t row = (at * rows + t / side->tokens) * side->entries;
            tile.scales = side->scales + row;
            tile.lows = side->lows ? side->lows + row : NULL;
            tile.ld = side->tokens == 1 ? side->entries : 0;
        }
        b->cx->kernels.kv_decode(to + (t - begin) * d, d, &tile, next - t, d);
    }
}

/* Columns that any of the queries t0 .. t1 - 1 reads from a source, in F32 in r->decoded, where
 * that of position p has row p - c0. False when there are none. */
static bool fetch(const pare__kv_reader *r, pare__kv_source s, bool key, size_t t0, size_t t1,
                  size_t c0, size_t c1, size_t *begin, size_t *end)
{
    const size_t d = r->b->f->model->config.head_dim;
    size_t other;
    pare__kv_columns(r, s, key, t0, c0, c1, begin, &other);
    pare__kv_columns(r, s, key, t1 - 1, c0, c1, &other, end);
    if (*begin >= *end)
        return false;
    float *const to = r->decoded + (*begin - c0) * d;
    if (s == PARE__KV_HELD)
        fetch_codes(r, key, *begin, *end, to);
    else
        fetch_halves(r, s, key, *begin, *end, to);
    return true;
}

/* The plane of an F32 cache; both sides of a block of positions lie in BLOCK * head_dim floats. */
static const float *plane_of(const pare__kv_reader *r, const float *side, size_t capacity)
{
    const pare_config *const c = &r->b->f->model->config;
    return side + (r->sequence * c->kv_heads + r->head) * capacity * c->head_dim;
}

const float *pare__kv_keys(const pare__kv_reader *r, pare__kv_source s, size_t t0, size_t t1,
                           size_t c0, size_t c1)
{
    const pare__kv_batch *const b = r->b;
    const size_t d = b->f->model->config.head_dim, half = pare_rope_pairs(&b->f->model->config);
    const size_t table = pare_rope_table(b->f, b->apart, b->kv->capacity);
    size_t begin, end;
    if (b->kv->format.method == PARE_KV_FLOAT)
        return s == PARE__KV_HELD
                   ? plane_of(r, b->kv->keys, pare_kv_key_room(b->kv->capacity)) + c0 * d
                   : NULL;
    if (!fetch(r, s, true, t0, t1, c0, c1, &begin, &end))
        return NULL;
    float *const from = r->decoded + (begin - c0) * d;
    for (size_t p = begin; half && pare__kv_before_rope(&b->kv->format) && p < end; p++)
        pare_rope_apply(from + (p - begin) * d, b->f->rope_cos + table + p * half,
                        b->f->rope_sin + table + p * half, half,
                        b->f->model->config.turns_neighbours);
    b->cx->kernels.transpose_f32(r->keys + begin - c0, PARE_KV_BLOCK, from, d, end - begin, d);
    return r->keys;
}

const float *pare__kv_values(const pare__kv_reader *r, pare__kv_source s, size_t t0, size_t t1,
                             size_t c0, size_t c1)
{
    const pare_kv *const kv = r->b->kv;
    size_t begin, end;
    if (kv->format.method == PARE_KV_FLOAT)
        return s == PARE__KV_HELD
                   ? plane_of(r, kv->values, kv->capacity) + c0 * r->b->f->model->config.head_dim
                   : NULL;
    return fetch(r, s, false, t0, t1, c0, c1, &begin, &end) ? r->decoded : NULL;
}

void pare__kv_put(const pare_config *c, const pare_kv *kv, size_t sequence, size_t position,
                  const float *k, const float *v)
{
    const size_t d = c->head_dim, room = pare_kv_key_room(kv->capacity);
    const size_t block = position / PARE_KV_BLOCK * PARE_KV_BLOCK;
    assert(kv->format.method == PARE_KV_FLOAT && position < kv->capacity);
    for (size_t h = 0; h < c->kv_heads; h++) {
        const size_t plane = sequence * c->kv_heads + h;
        float *const keys = kv->keys + (plane * room + block) * d + position - block;
        memcpy(kv->values + (plane * kv->capacity + position) * d, v + h * d, d * sizeof *v);
        for (size_t j = 0; j < d; j++)
            keys[j * PARE_KV_BLOCK] = k[h * d + j];
    }
}
