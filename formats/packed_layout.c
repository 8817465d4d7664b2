/* Where each plane of an artifact lies, known before a weight is read. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/dense.h"
#include "formats/format_version.h"
#include "formats/packed_kv.h"
#include "formats/safetensors.h"
#include "kernels/layout.h"

enum { DATA_ALIGN = 64, SHARD_NAME = 48, SHARDS_MAX = 99999 };

/* One tensor while it looks for its place. */
typedef struct draft {
    pare_packed_entry entry;
    size_t turn;    /* order given: planes of linears first, then the rest */
    unsigned class; /* 0: codes, indices; then by falling width */
    uint64_t begin; /* in the data of its shard */
} draft;

typedef struct drafts {
    pare_ctx *cx;
    pare_arena *a; /* of the layout */
    draft *item;   /* gone once it is made */
    size_t count;
} drafts;

static unsigned width_class(pare_dtype t)
{
    switch (pare_dtype_bits(t)) {
    case 64: return 1;
    case 32: return 2;
    case 16: return 3;
    case 8: return 4;
    default: return 5;
    }
}

static pare_status add(drafts *d, const pare_tensor *t, size_t unit, unsigned class)
{
    uint64_t bytes;
    if (t->rank > PARE_RANK_MAX ||
        pare_tensor_bytes(t->dtype, t->rank, t->shape, &bytes) != PARE_OK)
        return pare_fail(d->cx, PARE_EFORMAT, "%s: the shape overflows", t->name);
    draft *const to = &d->item[d->count];
    *to = (draft){.entry = {.tensor = *t, .unit = unit}, .turn = d->count, .class = class};
    to->entry.tensor.bytes = bytes;
    to->entry.tensor.data = NULL;
    d->count++;
    return PARE_OK;
}

static pare_status add_linear(drafts *d, const pare_packed_linear *l, size_t unit)
{
    PARE_TRY(pare_packed_linear_check(d->cx, l));
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        pare_tensor t;
        if (!pare_packed_plane_shape(l, p, &t))
            continue;
        const char *const plane = pare_packed_plane_name(p);
        const size_t len = strlen(l->name) + strlen(plane) + 2;
        char *const name = PARE_NEW(d->a, char, len);
        if (!name)
            return PARE_ENOMEM;
        (void)snprintf(name, len, "%s.%s", l->name, plane);
        t.name = name;
        const bool codes =
            p == PARE_PLANE_CODES || p == PARE_PLANE_OUTLIER_CODES || p == PARE_PLANE_INDICES;
        PARE_TRY(add(d, &t, unit, codes ? 0 : width_class(t.dtype)));
        d->item[d->count - 1].entry.plane = true;
    }
    return PARE_OK;
}

static int compare(uint64_t x, uint64_t y)
{
    return (x > y) - (x < y);
}

static int by_unit(const void *x, const void *y)
{
    const draft *const p = x, *const q = y;
    const int c = compare(p->entry.unit, q->entry.unit);
    return c ? c : compare(p->turn, q->turn);
}

static int by_place(const void *x, const void *y)
{
    const draft *const p = x, *const q = y;
    int c = compare(p->entry.shard, q->entry.shard);
    c = c ? c : compare(p->class, q->class);
    c = c ? c : compare(p->entry.unit, q->entry.unit);
    return c ? c : compare(p->turn, q->turn);
}

/* Fills shards in the order of units; sets shard of each draft and the number of shards. */
static pare_status assign_shards(drafts *d, uint64_t shard_bytes, uint32_t *shards)
{
    qsort(d->item, d->count, sizeof *d->item, by_unit);
    uint64_t used = 0;
    uint32_t shard = 0;
    for (size_t i = 0; i < d->count; i++) {
        const uint64_t bytes = d->item[i].entry.tensor.bytes;
        if (used && (bytes > shard_bytes || used > shard_bytes - bytes)) {
            shard++;
            used = 0;
        }
        if (__builtin_add_overflow(used, bytes, &used) || used > INT64_MAX / 8)
            return pare_fail(d->cx, PARE_EFORMAT, "%s: the sum of the sizes overflows",
                             d->item[i].entry.tensor.name);
        d->item[i].entry.shard = shard;
    }
    if (shard >= SHARDS_MAX)
        return pare_fail(d->cx, PARE_EFORMAT,
                         "more than %d packed files of %" PRIu64 " bytes; use larger ones",
                         SHARDS_MAX, shard_bytes);
    *shards = shard + 1;
    return PARE_OK;
}

/* Places tensors inside one shard, makes its header, and turns offsets into those of the file. */
static pare_status finish_shard(drafts *d, pare_packed_layout *out, uint32_t shard, size_t first,
                                size_t count)
{
    pare_tensor *const tensor = PARE_NEW(d->a, pare_tensor, count);
    uint64_t *const begin = PARE_NEW(d->a, uint64_t, count);
    char *const name = PARE_NEW(d->a, char, SHARD_NAME);
    if (!tensor || !begin || !name)
        return PARE_ENOMEM;
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        tensor[i] = d->item[first + i].entry.tensor;
        begin[i] = at;
        at += tensor[i].bytes;
    }
    size_t len = 0;
    PARE_TRY(pare_safetensors_header(d->cx, d->a, tensor, begin, count, DATA_ALIGN,
                                     &out->header[shard], &len));
    if (out->dense && out->shards == 1)
        (void)snprintf(name, SHARD_NAME, "model.safetensors");
    else
        (void)snprintf(name, SHARD_NAME, "%s-%05" PRIu32 "-of-%05" PRIu32 ".safetensors",
                       out->dense ? "model" : "packed", shard + 1, out->shards);
    out->shard_name[shard] = name;
    out->header_bytes[shard] = len;
    out->file_bytes[shard] = len + at;
    for (size_t i = 0; i < count; i++) {
        out->entry[first + i] = d->item[first + i].entry;
        out->entry[first + i].offset = len + begin[i];
    }
    return PARE_OK;
}

static int name_order(const void *x, const void *y)
{
    const pare_packed_entry *const *const p = x, *const *const q = y;
    return strcmp((*p)->tensor.name, (*q)->tensor.name);
}

static pare_status sort_names(pare_ctx *cx, pare_packed_layout *out)
{
    for (size_t i = 0; i < out->entries; i++)
        out->by_name[i] = &out->entry[i];
    qsort(out->by_name, out->entries, sizeof *out->by_name, name_order);
    for (size_t i = 1; i < out->entries; i++)
        if (name_order(&out->by_name[i - 1], &out->by_name[i]) == 0)
            return pare_fail(cx, PARE_EFORMAT, "two tensors of the artifact would be named %s",
                             out->by_name[i]->tensor.name);
    return PARE_OK;
}

const char *pare_packed_index_name(const pare_packed_layout *l)
{
    if (l->dense) /* a single file needs none */
        return l->shards == 1 ? NULL : "model.safetensors.index.json";
    return "packed.index.json";
}

/* What only an index of packed files has. */
static void put_linears(pare_json_writer *w, const pare_packed_layout *out)
{
    pare_json_open_object(w, "linears");
    for (size_t i = 0; i < out->linears; i++)
        pare_packed_linear_put(w, &out->linear[i]);
    pare_json_close(w);
    pare_packed_kv_put(w, &out->kv);
}

static void put_index(pare_json_writer *w, const pare_packed_layout *out)
{
    uint64_t total = 0;
    for (size_t i = 0; i < out->entries; i++)
        total += out->entry[i].tensor.bytes;
    pare_json_open_object(w, NULL);
    pare_json_open_object(w, "metadata");
    if (!out->dense) {
        pare_json_put_text(w, "format", "pare");
        pare_json_put_integer(w, "version", PARE_INDEX_VERSION);
        pare_json_put_text(w, "layout", "R8K32");
    }
    pare_json_put_integer(w, "total_size", (int64_t)total);
    pare_json_close(w);
    if (!out->dense)
        put_linears(w, out);
    pare_json_open_object(w, "weight_map");
    for (size_t i = 0; i < out->entries; i++)
        pare_json_put_text(w, out->by_name[i]->tensor.name,
                           out->shard_name[out->by_name[i]->shard]);
    pare_json_close(w);
    pare_json_close(w);
}

static pare_status make_index(pare_ctx *cx, pare_arena *a, pare_packed_layout *out)
{
    pare_json_writer *w = NULL;
    if (!pare_packed_index_name(out))
        return PARE_OK;
    PARE_TRY(pare_json_writer_new(cx, &w));
    put_index(w, out);
    const char *text = NULL;
    size_t len = 0;
    pare_status s = pare_json_writer_finish(w, &text, &len);
    if (s == PARE_OK) {
        out->index = pare_arena_text(a, text, len);
        out->index_bytes = len;
        s = out->index ? PARE_OK : PARE_ENOMEM;
    }
    pare_json_writer_free(w);
    return s;
}

static pare_status take_tables(pare_arena *a, pare_packed_layout *out)
{
    out->entry = PARE_NEW(a, pare_packed_entry, out->entries);
    out->by_name = PARE_NEW(a, const pare_packed_entry *, out->entries);
    out->shard_name = PARE_NEW(a, char *, out->shards);
    out->header = PARE_NEW(a, char *, out->shards);
    out->header_bytes = PARE_NEW(a, size_t, out->shards);
    out->file_bytes = PARE_NEW(a, uint64_t, out->shards);
    return out->entry && out->by_name && out->shard_name && out->header && out->header_bytes &&
                   out->file_bytes
               ? PARE_OK
               : PARE_ENOMEM;
}

static pare_status place_all(drafts *d, pare_packed_layout *out)
{
    qsort(d->item, d->count, sizeof *d->item, by_place);
    for (size_t first = 0, shard = 0; shard < out->shards; shard++) {
        size_t end = first;
        while (end < d->count && d->item[end].entry.shard == shard)
            end++;
        PARE_TRY(finish_shard(d, out, (uint32_t)shard, first, end - first));
        first = end;
    }
    return PARE_OK;
}

/* Places drafts in shards and files. */
static pare_status lay_out(drafts *d, uint64_t shard_bytes, pare_packed_layout *out)
{
    PARE_TRY(assign_shards(d, shard_bytes, &out->shards));
    out->entries = d->count;
    PARE_TRY(take_tables(d->a, out));
    PARE_TRY(place_all(d, out));
    PARE_TRY(sort_names(d->cx, out));
    return make_index(d->cx, d->a, out);
}

/* Plain tensors behind what is drafted, then all in their places. */
static pare_status lay_out_with(drafts *d, const pare_tensor *tensors, const size_t *unit,
                                size_t count, uint64_t shard_bytes, pare_packed_layout *out)
{
    for (size_t i = 0; i < count; i++)
        PARE_TRY(add(d, &tensors[i], unit[i], width_class(tensors[i].dtype)));
    return lay_out(d, shard_bytes, out);
}

pare_status pare_packed_layout_make(pare_ctx *cx, pare_arena *a, const pare_tensor *tensors,
                                    const size_t *unit, size_t count,
                                    const pare_packed_linear *linears, const size_t *linear_unit,
                                    size_t linear_count, uint64_t shard_bytes,
                                    pare_packed_layout *out)
{
    *out = (pare_packed_layout){.linear = linears, .linears = linear_count};
    pare_arena room = {.cx = cx};
    drafts d = {.cx = cx, .a = a};
    size_t most;
    if (__builtin_mul_overflow(linear_count, (size_t)PARE_PLANES, &most) ||
        __builtin_add_overflow(most, count, &most))
        return pare_fail(cx, PARE_EFORMAT, "%zu linears overflow", linear_count);
    d.item = PARE_NEW(&room, draft, most);
    pare_status s = d.item ? PARE_OK : PARE_ENOMEM;
    for (size_t i = 0; s == PARE_OK && i < linear_count; i++)
        s = add_linear(&d, &linears[i], linear_unit[i]);
    if (s == PARE_OK)
        s = lay_out_with(&d, tensors, unit, count, shard_bytes, out);
    pare_arena_release(&room);
    return s;
}

pare_status pare_packed_layout_dense(pare_ctx *cx, pare_arena *a, const pare_tensor *tensors,
                                     const size_t *unit, size_t count, uint64_t shard_bytes,
                                     pare_packed_layout *out)
{
    *out = (pare_packed_layout){.dense = true};
    pare_arena room = {.cx = cx};
    drafts d = {.cx = cx, .a = a, .item = PARE_NEW(&room, draft, count)};
    const pare_status s =
        d.item ? lay_out_with(&d, tensors, unit, count, shard_bytes, out) : PARE_ENOMEM;
    pare_arena_release(&room);
    return s;
}

pare_status pare_packed_layout_kv(pare_ctx *cx, pare_arena *a, const pare_kv_format *f,
                                  pare_packed_layout *l)
{
    if (f->method == PARE_KV_FLOAT)
        return PARE_OK;
    l->kv = *f;
    return make_index(cx, a, l);
}

static int name_against(const void *key, const void *item)
{
    const pare_packed_entry *const *const e = item;
    return strcmp(key, (*e)->tensor.name);
}

const pare_packed_entry *pare_packed_find(const pare_packed_layout *l, const char *tensor)
{
    const pare_packed_entry *const *const found =
        l->entries ? bsearch(tensor, l->by_name, l->entries, sizeof(const pare_packed_entry *),
                             name_against)
                   : NULL;
    return found ? *found : NULL;
}
