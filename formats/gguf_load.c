/* A GGUF file as a checkpoint: tensors under the names of the original, blocks as floats. */
#include <stdlib.h>
#include <string.h>

#include "formats/gguf_internal.h"
#include "runtime/threads.h"

enum { ROWS_AT_ONCE = 16 };

/* One file while it is read. */
typedef struct loading {
    pare_checkpoint *ck;
    pare_arena *arena;
    const char *path;
    pare_gguf g;
    const pare__gguf_family *family; /* or NULL */
    int64_t heads, kv_heads;
} loading;

/* A tensor and what the file says of it, while all are sorted. */
typedef struct entry {
    pare_tensor tensor;
    pare_stored stored;
} entry;

/* A tensor whose copy differs: rows of the file go to other rows, or to columns. */
typedef struct copying {
    const pare_gguf_tensor *t;
    pare__gguf_form form;
    uint64_t rows, width, heads; /* width: elements of a row */
    uint64_t row_bytes;          /* in the file */
    size_t element;              /* bytes of one in the copy */
    unsigned char *to;
} copying;

/* Where row r of the file lies in the original. */
static uint64_t place_of(const copying *c, uint64_t r)
{
    if (c->form == PARE__GGUF_PAIRS_Q || c->form == PARE__GGUF_PAIRS_K) {
        const uint64_t head = c->rows / c->heads, i = r % head;
        return r - i + i % 2 * (head / 2) + i / 2;
    }
    if (c->form == PARE__GGUF_HEADS) {
        const uint64_t part = c->rows / 3, head = part / c->heads, i = r % part;
        return (i / head * 3 + r / part) * head + i % head;
    }
    return r;
}

/* `from` is whole blocks, or elements that are copied as they are. */
static void convert(const copying *c, const unsigned char *from, uint64_t n, void *to)
{
    if (c->t->type->codec)
        pare_ggml_decode(c->t->type, from, n / c->t->type->elements, to);
    else
        memcpy(to, from, (size_t)n * c->element);
}

static void copy_column(const copying *c, const unsigned char *from, uint64_t column)
{
    float block[PARE_GGML_BLOCK_MAX];
    const pare_ggml_type *const type = c->t->type;
    for (uint64_t i = 0; i < c->width; i += type->elements, from += type->bytes) {
        convert(c, from, type->elements, block);
        for (uint64_t j = 0; j < type->elements; j++)
            memcpy(c->to + ((i + j) * c->rows + column) * c->element,
                   (unsigned char *)block + j * c->element, c->element);
    }
}

static void copy_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const copying *const c = arg;
    (void)worker;
    for (uint64_t r = begin; r < end; r++) {
        const unsigned char *const from = c->t->data + r * c->row_bytes;
        if (c->form == PARE__GGUF_TRANSPOSED)
            copy_column(c, from, r);
        else
            convert(c, from, c->width, c->to + place_of(c, r) * c->width * c->element);
    }
}

/* Norms of which the original holds one less; in F32 exact between 1/2 and 2. */
static pare_status copy_norm(const loading *l, const pare_gguf_tensor *t, float *to)
{
    const pare_tensor view = {.name = t->name,
                              .dtype = t->type->dtype,
                              .rank = t->rank,
                              .shape = {t->shape[0]},
                              .data = t->data,
                              .bytes = t->bytes};
    if (t->rank != 1 || t->type->dtype == PARE_DTYPES)
        return pare_fail(l->ck->cx, PARE_EFORMAT, "%s: tensor %s is not a vector of floats",
                         l->path, t->name);
    PARE_TRY(pare_tensor_to_f32(l->ck->cx, &view, 0, t->elements, to));
    for (uint64_t i = 0; i < t->elements; i++)
        to[i] -= 1;
    return PARE_OK;
}

static pare_status check_rows(const loading *l, const copying *c)
{
    const bool pairs = c->form == PARE__GGUF_PAIRS_Q || c->form == PARE__GGUF_PAIRS_K;
    const uint64_t heads = c->heads, parts = c->form == PARE__GGUF_HEADS ? 3 : 2;
    if ((pairs || c->form == PARE__GGUF_HEADS) &&
        (heads == 0 || c->rows % heads != 0 || c->rows / heads % parts != 0))
        return pare_fail(l->ck->cx, PARE_EFORMAT, "%s: tensor %s: %llu rows do not fit %llu heads",
                         l->path, c->t->name, (unsigned long long)c->rows,
                         (unsigned long long)heads);
    if (c->form == PARE__GGUF_TRANSPOSED && c->t->rank != 2)
        return pare_fail(l->ck->cx, PARE_EFORMAT, "%s: tensor %s is not a matrix", l->path,
                         c->t->name);
    return PARE_OK;
}

static pare_status copy(const loading *l, const pare_gguf_tensor *t, pare__gguf_form form,
                        pare_tensor *out)
{
    copying c = {.t = t, .form = form, .element = t->type->codec ? sizeof(float) : t->type->bytes};
    c.width = t->rank > 1 ? t->shape[t->rank - 1] : 1;
    if (t->rank <= 1 && t->type->codec) /* blocks of a vector cannot be split into rows of one */
        c.width = t->elements;
    c.rows = t->elements / c.width;
    c.row_bytes = c.width / t->type->elements * t->type->bytes;
    c.heads = (uint64_t)(form == PARE__GGUF_PAIRS_K ? l->kv_heads : l->heads);
    PARE_TRY(check_rows(l, &c));
    if (l->ck->listed)
        return PARE_OK;
    void *to;
    PARE_TRY(pare_scratch_take(&l->ck->scratch, out->bytes, &to));
    c.to = to;
    out->data = to;
    if (form == PARE__GGUF_PLUS_ONE)
        return copy_norm(l, t, to);
    pare_parallel(l->ck->cx, (size_t)c.rows, ROWS_AT_ONCE, copy_rows, &c);
    return PARE_OK;
}

/* What nothing decodes can be listed, as the bytes it is. */
static pare_status list_bytes(const loading *l, const pare_gguf_tensor *t, pare_tensor *out)
{
    if (!l->ck->listed)
        return pare_fail(l->ck->cx, PARE_ENOTSUP,
                         "%s: tensor %s: weights of type %s cannot be read", l->path, t->name,
                         t->type->name);
    out->dtype = PARE_U8;
    out->data = t->data;
    out->bytes = t->bytes;
    return PARE_OK;
}

static pare_status load_tensor(const loading *l, const pare_gguf_tensor *t, entry *out)
{
    char name[PARE__GGUF_NAME];
    pare__gguf_form form = PARE__GGUF_SAME;
    const bool known = l->family && pare__gguf_rename(l->family, t->name, name, &form);
    pare_tensor *const to = &out->tensor;
    *out = (entry){.stored = {t->type->name, t->bytes}};
    to->name = known ? pare_arena_text(l->arena, name, strlen(name)) : t->name;
    if (!to->name)
        return PARE_ENOMEM;
    to->rank = t->rank;
    memcpy(to->shape, t->shape, t->rank * sizeof *t->shape);
    if (form == PARE__GGUF_TRANSPOSED && t->rank == 2) {
        to->shape[0] = t->shape[1];
        to->shape[1] = t->shape[0];
    }
    if (t->type->dtype == PARE_DTYPES && !t->type->codec)
        return list_bytes(l, t, to);
    to->dtype = t->type->codec || form == PARE__GGUF_PLUS_ONE ? PARE_F32 : t->type->dtype;
    if (pare_tensor_bytes(to->dtype, to->rank, to->shape, &to->bytes) != PARE_OK)
        return pare_fail(l->ck->cx, PARE_EFORMAT, "%s: tensor %s: its values overflow", l->path,
                         t->name);
    to->data = t->data;
    if (!t->type->codec && form == PARE__GGUF_SAME)
        return PARE_OK;
    to->data = NULL;
    return copy(l, t, form, to);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->tensor.name, ((const entry *)b)->tensor.name);
}

static pare_status hand_over(const loading *l, entry *all, size_t count, pare__shard *out)
{
    pare_tensor *const tensor = PARE_NEW(l->arena, pare_tensor, count);
    pare_stored *const stored = PARE_NEW(l->arena, pare_stored, count);
    if (!tensor || !stored)
        return PARE_ENOMEM;
    if (count > 1)
        qsort(all, count, sizeof *all, by_name);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && by_name(&all[i - 1], &all[i]) == 0)
            return pare_fail(l->ck->cx, PARE_EFORMAT, "%s: two tensors stand for %s", l->path,
                             all[i].tensor.name);
        tensor[i] = all[i].tensor;
        stored[i] = all[i].stored;
    }
    *out = (pare__shard){tensor, count};
    l->ck->stored = stored; /* the only file, in the same order */
    return PARE_OK;
}

static pare_status load_tensors(const loading *l, pare__shard *out)
{
    entry *const all = PARE_NEW(l->arena, entry, l->g.tensors);
    size_t count = 0;
    if (!all)
        return PARE_ENOMEM;
    for (size_t i = 0; i < l->g.tensors; i++) {
        if (l->family && strcmp(l->g.tensor[i].name, "rope_freqs.weight") == 0)
            continue; /* stands in the configuration */
        PARE_TRY(load_tensor(l, &l->g.tensor[i], &all[count++]));
    }
    return hand_over(l, all, count, out);
}

/* The metadata take the place of a config.json beside the file. */
static pare_status load_config(loading *l)
{
    pare_checkpoint *const ck = l->ck;
    int64_t parts = 0;
    if (pare_gguf_integer(pare_gguf_find(&l->g, "split.count"), 0, &parts) && parts > 1)
        return pare_fail(ck->cx, PARE_ENOTSUP,
                         "%s: one of %lld parts; they must be merged into one file first", l->path,
                         (long long)parts);
    pare_json_free(ck->config);
    pare_file_unmap(&ck->config_file);
    ck->config = NULL;
    ck->config_file = (pare_file){.path = (char *)l->path};
    PARE_TRY(pare__gguf_config(ck->cx, l->path, &l->g, &ck->config));
    l->family = pare__gguf_family_of(&l->g);
    (void)pare__gguf_integer(&l->g, "attention.head_count", &l->heads);
    l->kv_heads = l->heads;
    (void)pare__gguf_integer(&l->g, "attention.head_count_kv", &l->kv_heads);
    return PARE_OK;
}

pare_status pare__gguf_read(pare_checkpoint *ck, pare_arena *a, const pare_file *file,
                            pare__shard *out)
{
    loading l = {.ck = ck, .arena = a, .path = file->path};
    PARE_TRY(pare_gguf_parse(ck->cx, a, file->path, file->data, file->bytes, &l.g));
    PARE_TRY(load_config(&l));
    return load_tensors(&l, out);
}
