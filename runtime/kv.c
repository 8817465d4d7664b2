#include "runtime/kv.h"

#include <assert.h>
#include <string.h>

#include "kernels/layout.h"
#include "runtime/kv_internal.h"

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
    const double planes = (double)pare_config_attentions(c) * (double)c->kv_heads;
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
    return (uint64_t)pare_config_attentions(c) * c->kv_heads * c->head_dim * 2 * F16_BYTES *
           (slots_of(f, SIZE_MAX) + f->sink);
}

/* Values of a state, and of the inputs in front of its convolution. */
static size_t state_values(const pare_config *c)
{
    return c->recurrence.value_heads * c->recurrence.key_width * c->recurrence.value_width;
}

static size_t past_values(const pare_config *c)
{
    return (c->recurrence.taps - 1) * pare_mixed_width(c);
}

uint64_t pare_kv_state_bytes(const pare_config *c)
{
    const uint64_t blocks = c->blocks - pare_config_attentions(c);
    return blocks ? blocks * (state_values(c) + past_values(c)) * sizeof(float) : 0;
}

/* Adds up what is taken; takes nothing without a place to take it from. */
typedef struct taker {
    pare__kv_taker *take;
    void *place;
    size_t bytes;
    pare_status status;
} taker;

static void *take(taker *t, size_t count, size_t each, size_t size)
{
    size_t n, bytes, all;
    if (__builtin_mul_overflow(count, each, &n) || __builtin_mul_overflow(n, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)4 * PARE_ALIGN, &all) ||
        __builtin_add_overflow(t->bytes, all, &t->bytes)) {
        t->bytes = SIZE_MAX;
        t->status = PARE_ENOMEM;
        return NULL;
    }
    void *p = NULL;
    if (t->take && t->status == PARE_OK && n)
        t->status = t->take(t->place, bytes, &p);
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

/* Who copies, and the sequences from which and to which. */
typedef struct copier {
    pare__kv_copier *copy;
    void *place;
    size_t from, to;
} copier;

static pare_status copy_bytes(const copier *c, void *to, const void *from, size_t bytes)
{
    return bytes ? c->copy(c->place, (char *)to + c->to * bytes,
                           (const char *)from + c->from * bytes, bytes)
                 : PARE_OK;
}

static pare_status copy_side(const copier *by, const pare_config *c, bool key, const pare_kv *from,
                             pare_kv *to)
{
    const pare_kv_side *const a = key ? &from->key : &from->value;
    pare_kv_side *const b = key ? &to->key : &to->value;
    const size_t d = c->head_dim, coded = pare_kv_coded(&from->format, key, from->capacity);
    const size_t rows = a->tokens ? (coded + a->tokens - 1) / a->tokens : 0;
    const size_t scales = c->kv_heads * rows * a->entries * F16_BYTES;
    PARE_TRY(
        copy_bytes(by, b->codes, a->codes, c->kv_heads * coded * pare_kv_row_bytes(d, a->bits)));
    PARE_TRY(copy_bytes(by, b->scales, a->scales, scales));
    PARE_TRY(copy_bytes(by, b->lows, a->lows, has_lows(&from->format) ? scales : 0));
    PARE_TRY(copy_bytes(by, b->sink, a->sink, c->kv_heads * from->format.sink * d * F16_BYTES));
    return copy_bytes(by, b->recent, a->recent, c->kv_heads * from->slots * d * F16_BYTES);
}

pare_status pare__kv_copy_by(pare__kv_copier *copy, void *place, const pare_config *c,
                             const pare_kv *from, size_t f, pare_kv *to, size_t t)
{
    const copier by = {copy, place, f, t};
    assert(from->capacity == to->capacity && from->format.method == to->format.method);
    assert(f < from->sequences && t < to->sequences);
    if (from->state) {
        to->seen = from->seen;
        PARE_TRY(copy_bytes(&by, to->state, from->state, state_values(c) * sizeof(float)));
        PARE_TRY(copy_bytes(&by, to->past, from->past, past_values(c) * sizeof(float)));
    }
    if (!from->keys && !from->value.codes && !from->value.recent)
        return PARE_OK; /* a state alone */
    if (from->format.method == PARE_KV_FLOAT) {
        const size_t token = c->kv_heads * c->head_dim * sizeof(float);
        PARE_TRY(copy_bytes(&by, to->keys, from->keys, pare_kv_key_room(from->capacity) * token));
        return copy_bytes(&by, to->values, from->values, from->capacity * token);
    }
    PARE_TRY(copy_side(&by, c, true, from, to));
    return copy_side(&by, c, false, from, to);
}

static pare_status copy_here(void *place, void *to, const void *from, size_t bytes)
{
    (void)place;
    memcpy(to, from, bytes);
    return PARE_OK;
}

void pare_kv_copy(const pare_config *c, const pare_kv *from, size_t f, pare_kv *to, size_t t)
{
    (void)pare__kv_copy_by(copy_here, NULL, c, from, f, to, t);
}

static void take_all(taker *t, const pare_config *c, const pare_kv_format *f, pare_kv *kv)
{
    size_t planes;
    if (c->mixed || (c->arch && c->arch->recurrence)) {
        kv->state = take(t, kv->sequences, state_values(c), sizeof(float));
        kv->past = take(t, kv->sequences, past_values(c), sizeof(float));
    }
    if (c->arch && c->arch->recurrence)
        return;
    if (__builtin_mul_overflow(kv->sequences, c->kv_heads, &planes)) {
        t->bytes = SIZE_MAX;
        t->status = PARE_ENOMEM;
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

pare_status pare__kv_take_by(pare_ctx *cx, pare__kv_taker *how, void *place, const pare_config *c,
                             const pare_kv_format *f, size_t sequences, size_t capacity,
                             pare_kv *kv)
{
    taker t = {.take = how, .place = place};
    *kv = (pare_kv){.sequences = sequences, .capacity = capacity, .format = *f};
    take_all(&t, c, f, kv);
    if (t.bytes == SIZE_MAX)
        return pare_fail(cx, PARE_ENOMEM, "cache of %zu sequences of %zu tokens", sequences,
                         capacity);
    return t.status;
}

static pare_status take_here(void *arena, size_t bytes, void **at)
{
    *at = pare_arena_take(arena, bytes, 1);
    return *at ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_kv_take_format(pare_arena *a, const pare_config *c, const pare_kv_format *f,
                                size_t sequences, size_t capacity, pare_kv *kv)
{
    return pare__kv_take_by(a->cx, take_here, a, c, f, sequences, capacity, kv);
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
    taker t = {0};
    pare_kv kv = {.sequences = sequences, .capacity = capacity};
    take_all(&t, c, f, &kv);
    return t.bytes;
}
