/* Memory of the device: what of the model lies there, found by where the host has it, and the
 * scratch of a forward pass. */
#include <string.h>

#include "kernels/layout.h"
#include "runtime/cuda_internal.h"
#include "runtime/leaves.h"
#include "runtime/linear.h"

enum { ALIGN = 256, BLOCK_LEAST = 1 << 20, BLOCK_MOST = 1 << 28, COPIES_LEAST = 1024 };

static pare_status within_limit(pare_ctx *cx, pare_device *d, size_t limit, const char *what,
                                size_t bytes)
{
    size_t free = 0, total = 0;
    if (!limit || bytes <= limit - (d->live < limit ? d->live : limit))
        return PARE_OK;
    PARE_TRY(d->op->memory(cx, d, &free, &total));
    return pare_fail(cx, PARE_ENOMEM,
                     "%s: %zu bytes are asked for; %zu of the limit of %zu are taken, and %zu of "
                     "the device are free (%s)",
                     d->name, bytes, d->live, limit, free, what);
}

pare_status pare_cuda_room(pare_ctx *cx, pare_device *d, size_t limit, const char *what,
                           size_t bytes)
{
    size_t free = 0, total = 0;
    PARE_TRY(within_limit(cx, d, limit, what, bytes));
    PARE_TRY(d->op->memory(cx, d, &free, &total));
    return bytes <= free ? PARE_OK
                         : pare_fail(cx, PARE_ENOMEM,
                                     "%s: out of memory: %zu bytes are asked for, %zu of %zu are "
                                     "free (%s)",
                                     d->name, bytes, free, total, what);
}

pare_status pare__cuda_take(pare_cuda *c, size_t bytes, pare_address *at)
{
    *at = 0;
    pare_device *const d = c->d;
    PARE_TRY(
        within_limit(c->cx, d, c->limit, c->model ? "activations and caches" : "weights", bytes));
    PARE_TRY(d->op->take(c->cx, d, bytes, at));
    d->live += bytes;
    d->peak = d->live > d->peak ? d->live : d->peak;
    return PARE_OK;
}

void pare__cuda_give(pare_cuda *c, pare_address at, size_t bytes)
{
    if (!at)
        return;
    c->d->op->give(c->cx, c->d, at);
    c->d->live -= bytes;
}

/* A block of `want` bytes at an empty place; where they are not free, the half of them and so on
 * down to `bytes`. */
static pare_status take_block(pare_cuda *c, size_t want, size_t bytes, size_t place)
{
    pare__cuda_scratch *const s = &c->scratch;
    pare_status status;
    while ((status = pare__cuda_take(c, want, &s->block[place].at)) == PARE_ENOMEM &&
           want > bytes) {
        pare_ctx_clear(c->cx);
        want = want / 2 > bytes ? want / 2 : bytes;
    }
    s->block[place].bytes = status == PARE_OK ? want : 0;
    return status;
}

/* A block of at least `bytes` at the place of the next one. Where more is free it is twice as long
 * as the one before, but by itself no longer than BLOCK_MOST. */
static pare_status add_block(pare_cuda *c, size_t bytes)
{
    pare__cuda_scratch *const s = &c->scratch;
    const size_t next = s->block[s->current].at ? s->current + 1 : s->current;
    size_t want = next ? 2 * s->block[next - 1].bytes : BLOCK_LEAST;
    want = want < BLOCK_MOST ? want : BLOCK_MOST;
    if (next == PARE__CUDA_BLOCKS)
        return pare_fail(c->cx, PARE_ENOMEM, "%s: the scratch has too many pieces", c->d->name);
    if (s->block[next].bytes < bytes) {
        pare__cuda_give(c, s->block[next].at, s->block[next].bytes);
        s->block[next].at = 0;
        s->block[next].bytes = 0;
        PARE_TRY(take_block(c, want > bytes ? want : bytes, bytes, next));
    }
    s->current = next;
    s->used = 0;
    return PARE_OK;
}

pare_status pare__cuda_scratch_take(pare_cuda *c, size_t bytes, void **at)
{
    pare__cuda_scratch *const s = &c->scratch;
    if (bytes > SIZE_MAX / 4)
        return pare_fail(c->cx, PARE_ENOMEM, "%s: %zu bytes of scratch", c->d->name, bytes);
    bytes = pare_round_up(bytes ? bytes : 1, ALIGN);
    if (bytes > s->block[s->current].bytes - s->used)
        PARE_TRY(add_block(c, bytes));
    *at = (void *)(uintptr_t)(s->block[s->current].at + s->used);
    s->used += bytes;
    return PARE_OK;
}

pare_status pare__cuda_scratch_put(pare_cuda *c, const void *from, size_t bytes, void **at)
{
    PARE_TRY(pare__cuda_scratch_take(c, bytes, at));
    return bytes ? c->d->op->put(c->cx, c->d, (pare_address)(uintptr_t)*at, from, bytes) : PARE_OK;
}

/* The place of a key in a table of 2^n entries, or the free one where it belongs. */
static pare__cuda_copy *slot_of(pare__cuda_copy *table, size_t count, const void *host)
{
    size_t i = (size_t)((uint64_t)(uintptr_t)host * 0x9e3779b97f4a7c15u >> 20) & (count - 1);
    while (table[i].host && table[i].host != host)
        i = (i + 1) & (count - 1);
    return &table[i];
}

/* Room for one more, at most half of the table being taken. */
static pare_status make_room(pare_cuda *c)
{
    if (c->taken < c->copies / 2)
        return PARE_OK;
    const size_t count = c->copies ? 2 * c->copies : COPIES_LEAST;
    pare__cuda_copy *const table = PARE_NEW(&c->arena, pare__cuda_copy, count);
    if (!table)
        return PARE_ENOMEM;
    for (size_t i = 0; i < c->copies; i++)
        if (c->copy[i].host)
            *slot_of(table, count, c->copy[i].host) = c->copy[i];
    c->copy = table;
    c->copies = count;
    return PARE_OK;
}

/* Copies `bytes` bytes at `from`, which are found by `host`. Of planes that begin at one place the
 * longest counts: one without bytes may begin where another does. */
static pare_status upload(pare_cuda *c, const void *host, const void *from, size_t bytes,
                          const void **there)
{
    PARE_TRY(make_room(c));
    pare__cuda_copy *const entry = slot_of(c->copy, c->copies, host);
    if (!entry->host || entry->bytes < bytes) {
        if (c->model)
            return pare_fail(c->cx, PARE_EINVAL,
                             "%s: memory of the host that is not the model's, %zu bytes",
                             c->d->name, bytes);
        pare__cuda_give(c, entry->at, entry->bytes);
        c->taken += !entry->host;
        *entry = (pare__cuda_copy){.host = host};
        PARE_TRY(pare__cuda_take(c, bytes ? bytes : 1, &entry->at));
        entry->bytes = bytes ? bytes : 1;
        if (bytes)
            PARE_TRY(c->d->op->put(c->cx, c->d, entry->at, from, bytes));
    }
    *there = (const void *)(uintptr_t)entry->at;
    return PARE_OK;
}

pare_status pare__cuda_upload(pare_cuda *c, const void **pointer, size_t bytes)
{
    return *pointer ? upload(c, *pointer, *pointer, bytes, pointer) : PARE_OK;
}

pare_status pare__cuda_find(const pare_cuda *c, const void *host, const void **there)
{
    const pare__cuda_copy *const entry = host ? slot_of(c->copy, c->copies, host) : NULL;
    *there = entry ? (const void *)(uintptr_t)entry->at : NULL;
    if (entry && !entry->host)
        return pare_fail(c->cx, PARE_EINVAL, "%s: memory of the host that is not the model's",
                         c->d->name);
    return PARE_OK;
}

/* `plane` becomes its copy. */
#define UPLOAD(plane, size)                                                                        \
    do {                                                                                           \
        const void *plane_ = (plane);                                                              \
        PARE_TRY(pare__cuda_upload(c, &plane_, (size)));                                           \
        (plane) = (void *)(uintptr_t)plane_;                                                       \
    } while (0)

static pare_status upload_panel(pare_cuda *c, unsigned bits, bool pruned, pare_decoding how,
                                pare_panel *p)
{
    const size_t half = sizeof(uint16_t), kept = pare_24_kept(p->k), rows = p->n;
    const size_t groups = p->group ? (p->k + p->group - 1) / p->group : 0;
    UPLOAD(p->codes,
           rows / PARE_ATOM_N * ((pruned ? kept : p->k) / PARE_ATOM_K) * pare_atom_bytes(bits));
    UPLOAD(p->scales, rows * groups * half);
    UPLOAD(p->zeros, rows * groups);
    UPLOAD(p->minima, rows * groups * half);
    UPLOAD(p->sub, rows * p->k / 16);
    UPLOAD(p->book, how == PARE_DECODE_BINARY ? rows * groups * 4 * half : half * rows << bits);
    UPLOAD(p->salient, p->k);
    UPLOAD(p->indices, rows * kept / 4);
    UPLOAD(p->values, rows * p->ldv * half);
    return PARE_OK;
}

static pare_status make_skip(pare_cuda *c, pare_arena *a, const pare_linear *w, const void *key,
                             const void **skip)
{
    uint8_t *const byte = PARE_NEW(a, uint8_t, w->k);
    if (!byte)
        return PARE_ENOMEM;
    for (size_t i = 0; i < w->outliers.count; i++)
        byte[w->outliers.column[i]] = 1;
    return upload(c, key, byte, w->k, skip);
}

/* The columns of outliers as a byte for each column, found by an address inside of them. */
static pare_status upload_skip(pare_cuda *c, const pare_linear *w, const uint8_t **skip)
{
    const void *const key = (const char *)w->outliers.column + 1, *there;
    if (slot_of(c->copy, c->copies, key)->host) {
        PARE_TRY(pare__cuda_find(c, key, &there));
    } else {
        pare_arena a = {.cx = c->cx};
        const pare_status s = make_skip(c, &a, w, key, &there);
        pare_arena_release(&a);
        PARE_TRY(s);
    }
    *skip = there;
    return PARE_OK;
}

static pare_status upload_outliers(pare_cuda *c, size_t n, pare_outliers *o)
{
    UPLOAD(o->column, o->count * sizeof *o->column);
    if (!o->f16)
        return upload_panel(c, 8, false, PARE_DECODE_F32, &o->panel);
    UPLOAD(o->f16, n * o->count * sizeof *o->f16);
    return PARE_OK;
}

static pare_status upload_sparse(pare_cuda *c, size_t n, pare_sparse *s)
{
    const size_t count = s->start[n];
    UPLOAD(s->start, (n + 1) * sizeof *s->start);
    UPLOAD(s->column, count * sizeof *s->column);
    UPLOAD(s->value, count * sizeof *s->value);
    return PARE_OK;
}

static pare_status upload_mask(pare_cuda *c, pare_mask *m)
{
    const size_t count = m->start[m->n];
    UPLOAD(m->bits, m->n * ((m->k + 7) / 8));
    UPLOAD(m->start, (m->n + 1) * sizeof *m->start);
    UPLOAD(m->value, count * sizeof *m->value);
    return PARE_OK;
}

pare_status pare__cuda_linear_of(pare_cuda *c, const pare_linear *host, pare__cuda_linear *out)
{
    const pare_encoding_row *const how = &pare_encodings[host->encoding];
    pare_linear *const w = &out->w;
    *out = (pare__cuda_linear){.w = *host};
    UPLOAD(w->bias, w->n * sizeof *w->bias);
    UPLOAD(w->row_scales, w->n * sizeof *w->row_scales);
    UPLOAD(w->column_scales, w->k * sizeof *w->column_scales);
    if (!w->bits) {
        UPLOAD(w->data, w->n * w->k * (pare_dtype_bits(w->dtype) / 8));
        return PARE_OK;
    }
    out->level = how->level;
    UPLOAD(out->level, sizeof *out->level << w->bits);
    if (w->sparsity == PARE_SPARSITY_BITMASK)
        return upload_mask(c, &w->mask);
    PARE_TRY(upload_panel(c, w->bits, w->sparsity != PARE_SPARSITY_NONE, how->decoding, &w->panel));
    if (w->outliers.count) {
        PARE_TRY(upload_skip(c, host, &out->skip));
        PARE_TRY(upload_outliers(c, w->n, &w->outliers));
    }
    return w->sparse.start ? upload_sparse(c, w->n, &w->sparse) : PARE_OK;
}

pare_status pare__cuda_mix(pare_cuda *c, const pare_hadamard *h, const float **mix)
{
    static const char key[PARE_HADAMARD_ODD_MAX + 1]; /* a place for each factor */
    const void *there;
    PARE_TRY(upload(c, &key[h->odd], h->mix, h->odd * h->odd * sizeof *h->mix, &there));
    *mix = there;
    return PARE_OK;
}

static pare_status upload_linear(pare_cuda *c, const pare_linear *w)
{
    pare__cuda_linear there;
    pare_hadamard h;
    const float *mix;
    if (!w->n)
        return PARE_OK;
    PARE_TRY(pare_linear_check(c->cx, w));
    PARE_TRY(pare__cuda_linear_of(c, w, &there));
    if (!w->rotated)
        return PARE_OK;
    PARE_TRY(pare_hadamard_make(c->cx, w->k, &h));
    return pare__cuda_mix(c, &h, &mix);
}

static pare_status upload_floats(pare_cuda *c, const void *x, size_t count)
{
    return pare__cuda_upload(c, &x, count * sizeof(float));
}

/* Angles from `at` on, `count` of them. */
static pare_status upload_table(pare_cuda *c, size_t at, size_t count)
{
    PARE_TRY(upload_floats(c, c->f->rope_cos ? c->f->rope_cos + at : NULL, count));
    return upload_floats(c, c->f->rope_sin ? c->f->rope_sin + at : NULL, count);
}

static pare_status upload_levels(pare_cuda *c, const pare_config *config, const pare_kv_levels *l)
{
    const size_t width = config->kv_heads * config->head_dim;
    const void *scale = l->key_scale, *low = l->key_low;
    PARE_TRY(upload_floats(c, l->key, PARE_KV_LEVELS));
    PARE_TRY(upload_floats(c, l->value, PARE_KV_LEVELS));
    PARE_TRY(pare__cuda_upload(c, &scale, width * sizeof(uint16_t)));
    return pare__cuda_upload(c, &low, width * sizeof(uint16_t));
}

static pare_status upload_leaf(pare_cuda *c, pare_leaf leaf)
{
    if (leaf.linear)
        return upload_linear(c, leaf.linear);
    return leaf.vector ? upload_floats(c, *leaf.vector, leaf.n) : PARE_OK;
}

static pare_status upload_block(pare_cuda *c, const pare_config *config, const pare_block *b)
{
    for (size_t i = 0; i < pare_block_leaves(config); i++)
        PARE_TRY(upload_leaf(c, pare_block_leaf(config, b, i)));
    return upload_levels(c, config, &b->kv);
}

pare_status pare__cuda_upload_model(pare_cuda *c)
{
    const pare_model *const m = c->f->model;
    const pare_config *const config = &m->config;
    const size_t half = pare_rope_pairs(config), far = pare_rope_table(c->f, false, SIZE_MAX);
    const size_t size = c->f->positions * half;
    for (size_t i = 0; i < config->blocks; i++) {
        pare_ctx_progress(c->cx, "copying the model to the device", (double)i,
                          (double)config->blocks);
        PARE_TRY(pare_ctx_interrupted(c->cx));
        PARE_TRY(upload_block(c, config, &m->block[i]));
    }
    for (size_t i = 0; i < PARE_MODEL_LEAVES; i++)
        PARE_TRY(upload_leaf(c, pare_model_leaf(m, i)));
    if (far) /* that of shorter sequences lies in front */
        PARE_TRY(upload_table(c, 0, far));
    PARE_TRY(upload_table(c, far, size));
    return config->rope_local.theta > 0 ? upload_table(c, pare_rope_table(c->f, true, 0), size)
                                        : PARE_OK;
}

void pare__cuda_give_all(pare_cuda *c)
{
    for (size_t i = 0; i < c->copies; i++)
        pare__cuda_give(c, c->copy[i].at, c->copy[i].bytes);
    for (size_t i = 0; i < PARE__CUDA_BLOCKS; i++)
        pare__cuda_give(c, c->scratch.block[i].at, c->scratch.block[i].bytes);
}
