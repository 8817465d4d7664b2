#include "runtime/kv.h"

#include <assert.h>
#include <string.h>

#include "kernels/layout.h"

enum { F16_BYTES = 2 };

static const struct {
    const char *name;
    unsigned bits;
    pare_kv_format usual;
} methods[PARE_KV_METHODS] = {
    [PARE_KV_FLOAT] = {"none", 32, {.method = PARE_KV_FLOAT}},
    [PARE_KV_INT8] = {"int8", 8, {.method = PARE_KV_INT8}},
    [PARE_KV_INT4] = {"int4", 4, {.method = PARE_KV_INT4, .group = 32}},
    [PARE_KV_KIVI] = {"kivi", 2, {.method = PARE_KV_KIVI, .group = 32, .window = 128}},
    [PARE_KV_KVQUANT] = {"kvquant", 3, {.method = PARE_KV_KVQUANT, .sink = 1}},
};

const char *pare_kv_method_name(pare_kv_method method)
{
    return methods[method].name;
}

unsigned pare_kv_bits(const pare_kv_format *f)
{
    return methods[f->method].bits;
}

pare_kv_format pare_kv_default(pare_kv_method method)
{
    return methods[method].usual;
}

size_t pare_kv_coded(const pare_kv_format *f, bool key, size_t length)
{
    if (f->method == PARE_KV_FLOAT)
        return 0;
    if (f->window == 0)
        return length;
    const size_t old = length > f->window ? length - f->window : 0;
    return key && f->method == PARE_KV_KIVI ? old / f->group * f->group : old;
}

/* How one side of the cache shares its scales. */
static pare_kv_side side_of(const pare_config *c, const pare_kv_format *f, bool key)
{
    const size_t d = c->head_dim;
    pare_kv_side s = {.bits = pare_kv_bits(f), .group = pare_round_up(d, 8), .tokens = 1};
    if (key && f->method == PARE_KV_KIVI)
        s.group = 1, s.tokens = f->group;
    else if (key && f->method == PARE_KV_KVQUANT)
        s.group = 1, s.tokens = 0;
    else if (f->group)
        s.group = f->group;
    s.entries = s.tokens ? (d + s.group - 1) / s.group : 0;
    return s;
}

static bool has_lows(const pare_kv_format *f)
{
    return f->method != PARE_KV_INT8;
}

/* Bytes of the scales and lows of one row of them. */
static size_t row_bytes(const pare_kv_format *f, const pare_kv_side *s)
{
    return s->entries * F16_BYTES * (has_lows(f) ? 2 : 1);
}

double pare_kv_token_bytes(const pare_config *c, const pare_kv_format *f)
{
    const double planes = (double)c->blocks * (double)c->kv_heads;
    double bytes = 0;
    if (f->method == PARE_KV_FLOAT)
        return planes * 2 * (double)c->head_dim * sizeof(float);
    for (int key = 0; key < 2; key++) {
        const pare_kv_side s = side_of(c, f, key);
        bytes += (double)pare_kv_row_bytes(c->head_dim, s.bits);
        if (s.tokens)
            bytes += (double)row_bytes(f, &s) / (double)s.tokens;
    }
    return planes * bytes;
}

/* Room for tokens that are not coded yet: the window and an unfinished group of keys. */
static size_t slots_of(const pare_kv_format *f, size_t capacity)
{
    const size_t most = f->window ? f->window + f->group : 0;
    return most < capacity ? most : capacity;
}

uint64_t pare_kv_float_bytes(const pare_config *c, const pare_kv_format *f)
{
    return (uint64_t)c->blocks * c->kv_heads * c->head_dim * 2 * F16_BYTES *
           (slots_of(f, SIZE_MAX) + f->sink);
}

/* Adds up what is taken; takes nothing without an arena. */
typedef struct taker {
    pare_arena *a;
    size_t bytes;
    bool failed;
} taker;

static void *take(taker *t, size_t count, size_t each, size_t size)
{
    size_t n, bytes;
    if (__builtin_mul_overflow(count, each, &n) || __builtin_mul_overflow(n, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)4 * PARE_ALIGN, &bytes) ||
        __builtin_add_overflow(t->bytes, bytes, &t->bytes)) {
        t->bytes = SIZE_MAX;
        t->failed = true;
        return NULL;
    }
    void *const p = t->a && !t->failed && n ? pare_arena_take(t->a, n, size) : NULL;
    t->failed = t->failed || (t->a && n && !p);
    return p;
}

static void take_side(taker *t, const pare_config *c, const pare_kv_format *f, bool key,
                      size_t planes, pare_kv *kv)
{
    pare_kv_side *const s = key ? &kv->key : &kv->value;
    const size_t d = c->head_dim, coded = pare_kv_coded(f, key, kv->capacity);
    *s = side_of(c, f, key);
    const size_t rows = s->tokens ? (coded + s->tokens - 1) / s->tokens : 0;
    s->codes = take(t, planes, coded, pare_kv_row_bytes(d, s->bits));
    s->scales = take(t, planes, rows, s->entries * F16_BYTES);
    if (has_lows(f))
        s->lows = take(t, planes, rows, s->entries * F16_BYTES);
    s->sink = take(t, planes, f->sink, d * F16_BYTES);
    s->recent = take(t, planes, kv->slots, d * F16_BYTES);
}

static void copy_bytes(void *to, size_t t, const void *from, size_t f, size_t bytes)
{
    if (bytes)
        memcpy((char *)to + t * bytes, (const char *)from + f * bytes, bytes);
}

static void copy_side(const pare_config *c, bool key, const pare_kv *from, size_t f, pare_kv *to,
                      size_t t)
{
    const pare_kv_side *const a = key ? &from->key : &from->value;
    pare_kv_side *const b = key ? &to->key : &to->value;
    const size_t d = c->head_dim, coded = pare_kv_coded(&from->format, key, from->capacity);
    const size_t rows = a->tokens ? (coded + a->tokens - 1) / a->tokens : 0;
    const size_t scales = c->kv_heads * rows * a->entries * F16_BYTES;
    copy_bytes(b->codes, t, a->codes, f, c->kv_heads * coded * pare_kv_row_bytes(d, a->bits));
    copy_bytes(b->scales, t, a->scales, f, scales);
    copy_bytes(b->lows, t, a->lows, f, has_lows(&from->format) ? scales : 0);
    copy_bytes(b->sink, t, a->sink, f, c->kv_heads * from->format.sink * d * F16_BYTES);
    copy_bytes(b->recent, t, a->recent, f, c->kv_heads * from->slots * d * F16_BYTES);
}

void pare_kv_copy(const pare_config *c, const pare_kv *from, size_t f, pare_kv *to, size_t t)
{
    assert(from->capacity == to->capacity && from->format.method == to->format.method);
    assert(f < from->sequences && t < to->sequences);
    if (from->format.method == PARE_KV_FLOAT) {
        const size_t token = c->kv_heads * c->head_dim * sizeof(float);
        copy_bytes(to->keys, t, from->keys, f, pare_kv_key_room(from->capacity) * token);
        copy_bytes(to->values, t, from->values, f, from->capacity * token);
        return;
    }
    copy_side(c, true, from, f, to, t);
    copy_side(c, false, from, f, to, t);
}

static void take_all(taker *t, const pare_config *c, const pare_kv_format *f, pare_kv *kv)
{
    size_t planes;
    if (__builtin_mul_overflow(kv->sequences, c->kv_heads, &planes)) {
        t->bytes = SIZE_MAX;
        t->failed = true;
        return;
    }
    if (f->method == PARE_KV_FLOAT) {
        kv->keys = take(t, planes, pare_kv_key_room(kv->capacity), c->head_dim * sizeof(float));
        kv->values = take(t, planes, kv->capacity, c->head_dim * sizeof(float));
        return;
    }
    kv->slots = slots_of(f, kv->capacity);
    take_side(t, c, f, true, planes, kv);
    take_side(t, c, f, false, planes, kv);
}

pare_status pare_kv_take_format(pare_arena *a, const pare_config *c, const pare_kv_format *f,
                                size_t sequences, size_t capacity, pare_kv *kv)
{
    taker t = {.a = a};
    *kv = (pare_kv){.sequences = sequences, .capacity = capacity, .format = *f};
    take_all(&t, c, f, kv);
    if (t.bytes == SIZE_MAX)
        return pare_fail(a->cx, PARE_ENOMEM, "cache of %zu sequences of %zu tokens", sequences,
                         capacity);
    return t.failed ? PARE_ENOMEM : PARE_OK;
}

pare_status pare_kv_take(pare_arena *a, const pare_config *c, size_t sequences, size_t capacity,
                         pare_kv *kv)
{
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    return pare_kv_take_format(a, c, &floats, sequences, capacity, kv);
}

size_t pare_kv_bytes(const pare_config *c, const pare_kv_format *f, size_t sequences,
                     size_t capacity)
{
    taker t = {.a = NULL};
    pare_kv kv = {.sequences = sequences, .capacity = capacity};
    take_all(&t, c, f, &kv);
    return t.bytes;
}
