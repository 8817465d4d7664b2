/* A GGUF file as a checkpoint: tensors under the names of the original, blocks as floats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf_internal.h"
#include "formats/gguf_seal.h"
#include "runtime/threads.h"

enum { ROWS_AT_ONCE = 16, PARTS = 3, SIZE_LIMIT = 1 << 24 };

typedef unsigned long long ull;

/* One file while it is read. */
typedef struct loading {
    pare_checkpoint *ck;
    pare_arena *arena;
    const char *path;
    pare_gguf g;
    const pare_gguf *head;           /* of all files, when there are several, else g */
    const pare__gguf_family *family; /* or NULL */
    int64_t heads, kv_heads, width;  /* width: of a head */
    int64_t experts;                 /* 0: none */
} loading;

/* A tensor and what the file says of it, while all are sorted. */
typedef struct entry {
    pare_tensor tensor;
    pare_stored stored;
} entry;

/* A tensor that is not viewed in place. */
typedef struct copying {
    const pare_gguf_tensor *t;
    bool pairs;
    uint64_t rows, width, heads; /* width: elements of a row */
    uint64_t row_bytes;          /* in the file */
    size_t element;              /* bytes of one in the copy */
    unsigned char *to;
} copying;

/* Where row r of the file lies in the original. */
static uint64_t place_of(const copying *c, uint64_t r)
{
    const uint64_t head = c->rows / c->heads, i = r % head;
    return c->pairs ? r - i + i % 2 * (head / 2) + i / 2 : r;
}

static void copy_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const copying *const c = arg;
    const pare_ggml_type *const type = c->t->type;
    (void)worker;
    for (uint64_t r = begin; r < end; r++) {
        const unsigned char *const from = c->t->data + r * c->row_bytes;
        void *const to = c->to + place_of(c, r) * c->width * c->element;
        if (type->codec)
            pare_ggml_decode(type, from, c->width / type->elements, to);
        else
            memcpy(to, from, (size_t)c->row_bytes);
        for (uint64_t j = 0; c->t->factor != 1 && j < c->width; j++)
            ((float *)to)[j] *= c->t->factor;
    }
}

/* Plain floats that the original has otherwise: norms, of which it holds one less (in F32 exact
 * between 1/2 and 2), and matrices with a number beside them. */
static pare_status copy_floats(const loading *l, const copying *c, float less)
{
    const pare_gguf_tensor *const t = c->t;
    const pare_tensor view = {
        .name = t->name, .dtype = t->type->dtype, .data = t->data, .bytes = t->bytes};
    for (uint64_t r = 0; r < c->rows; r++) {
        float *const row = (float *)(void *)c->to + place_of(c, r) * c->width;
        PARE_TRY(pare_tensor_to_f32(l->ck->cx, &view, r * c->width, c->width, row));
        for (uint64_t j = 0; j < c->width; j++)
            row[j] = row[j] * t->factor - less;
    }
    return PARE_OK;
}

static pare_status check_form(const loading *l, const pare_gguf_tensor *t, pare__gguf_form form,
                              const copying *c)
{
    if (c->pairs && (c->heads == 0 || c->rows % c->heads != 0 || c->rows / c->heads % 2 != 0))
        return pare_fail(l->ck->cx, PARE_EFORMAT, "%s: tensor %s: %llu rows do not fit %llu heads",
                         l->path, t->name, (ull)c->rows, (ull)c->heads);
    if (form == PARE__GGUF_PLUS_ONE && (t->rank != 1 || t->type->dtype == PARE_DTYPES))
        return pare_fail(l->ck->cx, PARE_EFORMAT, "%s: tensor %s is not a vector of floats",
                         l->path, t->name);
    return PARE_OK;
}

/* Whether kernels multiply it as it lies, or look its rows up: the embedding, the head, a matrix of
 * a block, but for those that are read as floats (routers, gates of one row). */
static bool is_packed(const loading *l, const pare_gguf_tensor *t)
{
    const bool outer =
        strcmp(t->name, "token_embd.weight") == 0 || strcmp(t->name, "output.weight") == 0;
    char base[PARE__GGUF_NAME];
    const char *suffix;
    pare__gguf_form form;
    return pare__gguf_packed_bytes(t) && l->family && (outer || strncmp(t->name, "blk.", 4) == 0) &&
           pare__gguf_rename(l->family, t->name, base, &suffix, &form) && form != PARE__GGUF_F32 &&
           form != PARE__GGUF_ROW;
}

static pare_status copy(const loading *l, const pare_gguf_tensor *t, pare__gguf_form form,
                        entry *to_entry)
{
    pare_tensor *const out = &to_entry->tensor;
    copying c = {.t = t,
                 .pairs = form == PARE__GGUF_PAIRS_Q || form == PARE__GGUF_PAIRS_K,
                 .heads = 1,
                 .element = t->type->codec ? sizeof(float) : t->type->bytes};
    if (c.pairs)
        c.heads = (uint64_t)(form == PARE__GGUF_PAIRS_K ? l->kv_heads : l->heads);
    c.width = t->rank > 1 ? t->shape[t->rank - 1] : t->type->codec ? t->elements : 1;
    c.rows = t->elements / c.width;
    c.row_bytes = c.width / t->type->elements * t->type->bytes;
    PARE_TRY(check_form(l, t, form, &c));
    if (l->ck->listed) {
        pare_scratch_count(&l->ck->scratch, out->bytes);
        return PARE_OK;
    }
    PARE_TRY(pare_gguf_check_scales(l->ck->cx, l->path, t));
    if (l->ck->runs && is_packed(l, t))
        return pare__gguf_pack(l->ck, l->arena, t, c.pairs ? c.heads : 0, out,
                               &to_entry->stored.packed);
    void *to;
    PARE_TRY(pare_scratch_take(&l->ck->scratch, out->bytes, &to));
    c.to = to;
    out->data = to;
    if (form == PARE__GGUF_PLUS_ONE || (!t->type->codec && t->factor != 1))
        return copy_floats(l, &c, form == PARE__GGUF_PLUS_ONE);
    pare_parallel(l->ck->cx, (size_t)c.rows, ROWS_AT_ONCE, copy_rows, &c);
    return PARE_OK;
}

/* One tensor under the name it has in memory. */
static pare_status load_tensor(const loading *l, const pare_gguf_tensor *t, const char *name,
                               pare__gguf_form form, entry *out)
{
    pare_tensor *const to = &out->tensor;
    *out = (entry){.stored = {t->type->name, t->bytes, t->bytes, NULL}};
    to->name = pare_arena_text(l->arena, name, strlen(name));
    if (!to->name)
        return PARE_ENOMEM;
    to->rank = t->rank;
    memcpy(to->shape, t->shape, t->rank * sizeof *t->shape);
    const bool plain = !t->type->codec && t->factor == 1 && form != PARE__GGUF_PLUS_ONE;
    to->dtype = plain ? t->type->dtype : PARE_F32;
    if (pare_tensor_bytes(to->dtype, to->rank, to->shape, &to->bytes) != PARE_OK)
        return pare_fail(l->ck->cx, PARE_EFORMAT, "%s: tensor %s: its values overflow", l->path,
                         t->name);
    out->stored.run_bytes = is_packed(l, t) ? pare__gguf_packed_bytes(t) : to->bytes;
    to->data = t->data;
    if (plain && form == PARE__GGUF_SAME)
        return PARE_OK;
    to->data = NULL;
    return copy(l, t, form, out);
}

/* Rows of the linears that a tensor holds one after the other. */
static size_t parts_of(const loading *l, const pare_gguf_tensor *t, pare__gguf_form form,
                       uint64_t rows[PARTS], const char *name[PARTS])
{
    static const char *const qkv[] = {"q", "k", "v"}, *const mlp[] = {"gate", "up"};
    const bool heads = form == PARE__GGUF_QKV;
    const size_t count = heads ? 3 : 2;
    for (size_t i = 0; i < count; i++) {
        name[i] = heads ? qkv[i] : mlp[i];
        rows[i] = heads ? (uint64_t)(i == 0 ? l->heads : l->kv_heads) * (uint64_t)l->width
                        : t->shape[0] / 2;
    }
    return count;
}

static pare_status load_parts(const loading *l, const pare_gguf_tensor *t, const char *base,
                              const char *suffix, pare__gguf_form form, entry *out, size_t *count)
{
    char name[PARE__GGUF_NAME + 16];
    const char *role[PARTS];
    uint64_t rows[PARTS], all = 0;
    const size_t parts = parts_of(l, t, form, rows, role);
    for (size_t i = 0; i < parts; i++)
        all += rows[i];
    if (t->rank == 0 || t->shape[0] != all || (t->rank == 1 && t->type->elements > 1))
        return pare_fail(l->ck->cx, PARE_EFORMAT,
                         "%s: tensor %s: %llu rows of %s are not those of %zu linears, %llu",
                         l->path, t->name, (ull)(t->rank ? t->shape[0] : 0), t->type->name, parts,
                         (ull)all);
    const uint64_t row = t->elements / all, row_bytes = t->bytes / all;
    pare_gguf_tensor part = *t;
    for (size_t i = 0; i < parts; i++) {
        part.shape[0] = rows[i];
        part.elements = rows[i] * row;
        part.bytes = rows[i] * row_bytes;
        (void)snprintf(name, sizeof name, "%s.%s%s", base, role[i], suffix);
        PARE_TRY(load_tensor(l, &part, name, PARE__GGUF_SAME, &out[(*count)++]));
        part.data += part.bytes;
    }
    return PARE_OK;
}

/* One matrix of each expert; `pattern` has a place for the number. */
static pare_status load_experts(const loading *l, const pare_gguf_tensor *t, const char *pattern,
                                const char *suffix, entry *out, size_t *count)
{
    char base[PARE__GGUF_NAME + 16], name[PARE__GGUF_NAME + 32];
    const bool bias = strcmp(suffix, ".bias") == 0;
    if (t->rank != (bias ? 2 : 3) || t->shape[0] != (uint64_t)l->experts)
        return pare_fail(l->ck->cx, PARE_EFORMAT,
                         "%s: tensor %s of rank %u is not a matrix for each of %lld experts",
                         l->path, t->name, t->rank, (long long)l->experts);
    pare_gguf_tensor part = *t;
    part.rank = t->rank - 1;
    part.shape[0] = t->shape[1];
    part.shape[1] = bias ? 0 : t->shape[2];
    part.elements = t->elements / t->shape[0];
    part.bytes = t->bytes / t->shape[0];
    for (size_t i = 0; i < (size_t)l->experts; i++) {
        (void)snprintf(base, sizeof base, pattern, i);
        (void)snprintf(name, sizeof name, "%s%s", base, suffix);
        PARE_TRY(pare_gguf_factor(l->ck->cx, l->path, l->head, t, i, &part.factor));
        PARE_TRY(load_tensor(l, &part, name, PARE__GGUF_SAME, &out[(*count)++]));
        part.data += part.bytes;
    }
    return PARE_OK;
}

/* A vector that is a matrix of one row. */
static pare_status load_row(const loading *l, const pare_gguf_tensor *t, const char *name,
                            entry *out)
{
    pare_gguf_tensor row = *t;
    if (t->rank == 1) {
        row.rank = 2;
        row.shape[0] = 1;
        row.shape[1] = t->shape[0];
    }
    return load_tensor(l, &row, name, PARE__GGUF_SAME, out);
}

/* Entries that a tensor may become. */
static size_t entries_of(const loading *l, const pare_gguf_tensor *t)
{
    const bool each = t->rank >= 2 && t->shape[0] == (uint64_t)l->experts;
    return each && l->experts > PARTS ? (size_t)l->experts : PARTS;
}

/* A tensor of the file; at most entries_of it. */
static pare_status load_any(const loading *l, const pare_gguf_tensor *from, entry *out,
                            size_t *count)
{
    char base[PARE__GGUF_NAME], name[PARE__GGUF_NAME + 16];
    const char *suffix;
    pare__gguf_form form;
    const bool known = l->family && pare__gguf_rename(l->family, from->name, base, &suffix, &form);
    if (known && form == PARE__GGUF_EXPERTS)
        return load_experts(l, from, base, suffix, out, count);
    pare_gguf_tensor own = *from;
    const pare_gguf_tensor *const t = &own;
    own.factor = 1;
    if (known)
        PARE_TRY(pare_gguf_factor(l->ck->cx, l->path, l->head, from, 0, &own.factor));
    else
        return load_tensor(l, t, t->name, PARE__GGUF_SAME, &out[(*count)++]);
    if (form == PARE__GGUF_QKV || form == PARE__GGUF_GATE_UP)
        return load_parts(l, t, base, suffix, form, out, count);
    (void)snprintf(name, sizeof name, "%s%s", base, form == PARE__GGUF_BARE ? "" : suffix);
    if (form == PARE__GGUF_ROW)
        return load_row(l, t, name, &out[(*count)++]);
    if (form == PARE__GGUF_F32 || form == PARE__GGUF_BARE)
        form = PARE__GGUF_SAME;
    return load_tensor(l, t, name, form, &out[(*count)++]);
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
    *out = (pare__shard){tensor, stored, count};
    return PARE_OK;
}

/* What stands in the configuration. */
static bool is_setting(const char *name)
{
    return strcmp(name, "rope_freqs.weight") == 0 || strcmp(name, pare__gguf_factors[0]) == 0 ||
           strcmp(name, pare__gguf_factors[1]) == 0;
}

static pare_status load_tensors(const loading *l, pare__shard *out)
{
    size_t most = 0, count = 0;
    for (size_t i = 0; i < l->g.tensors; i++)
        most += entries_of(l, &l->g.tensor[i]);
    entry *const all = PARE_NEW(l->arena, entry, most);
    if (!all)
        return PARE_ENOMEM;
    for (size_t i = 0; i < l->g.tensors; i++) {
        pare_ctx_progress(l->ck->cx, "unpacking weights", (double)i, (double)l->g.tensors);
        const char *const name = l->g.tensor[i].name;
        if (l->family && (is_setting(name) || pare_gguf_is_factor(l->head, name)))
            continue;
        PARE_TRY(load_any(l, &l->g.tensor[i], all, &count));
    }
    pare_ctx_progress(l->ck->cx, "unpacking weights", 1, 1);
    return hand_over(l, all, count, out);
}

/* What no model has counts as 0, so that products stay small. */
static void read_size(const pare_gguf *g, const char *key, int64_t *out)
{
    if (pare__gguf_integer(g, key, out) && (*out < 0 || *out > SIZE_LIMIT))
        *out = 0;
}

/* The metadata take the place of a config.json beside the file. */
static pare_status load_config(const loading *l)
{
    pare_checkpoint *const ck = l->ck;
    pare_json_free(ck->config);
    pare_file_unmap(&ck->config_file);
    ck->config = NULL;
    ck->config_file = (pare_file){.path = (char *)l->path};
    PARE_TRY(pare__gguf_config(ck->cx, l->path, l->head, &ck->config));
    ck->arranged = true;
    return PARE_OK;
}

static void read_sizes(loading *l)
{
    const pare_gguf *const g = l->head;
    l->family = pare__gguf_family_of(g);
    int64_t hidden = 0;
    read_size(g, "attention.head_count", &l->heads);
    l->kv_heads = l->heads;
    read_size(g, "attention.head_count_kv", &l->kv_heads);
    read_size(g, "embedding_length", &hidden);
    read_size(g, "expert_count", &l->experts);
    if (l->experts > PARE_EXPERTS_MAX)
        l->experts = 0;
    l->width = l->heads > 0 ? hidden / l->heads : 0;
    read_size(g, "attention.key_length", &l->width);
}

/* Parts were held against each other when they were found by their names. */
static pare_status refuse_part(const loading *l)
{
    int64_t parts = 0;
    if (!pare_gguf_integer(pare_gguf_find(&l->g, "split.count"), 0, &parts) || parts <= 1 ||
        pare__gguf_is_part(l->path))
        return PARE_OK;
    return pare_fail(l->ck->cx, PARE_ENOTSUP,
                     "%s: one of %lld parts, which are found by their names, "
                     "NAME-00001-of-%05lld.gguf and so on: give it its name back",
                     l->path, (long long)parts, (long long)parts);
}

pare_status pare__gguf_read(pare_checkpoint *ck, pare_arena *a, const pare_file *file,
                            pare__shard *out)
{
    const bool several = ck->files > 1, first = !several || file == ck->file;
    loading l = {.ck = ck, .arena = a, .path = file->path};
    if (first && several)
        PARE_TRY(pare__gguf_heads(ck->cx, a, ck->file, ck->files, &ck->head));
    if (several)
        l.g = ck->head[file - ck->file];
    else
        PARE_TRY(pare_gguf_parse(ck->cx, a, file->path, file->data, file->bytes, &l.g));
    l.head = several ? &ck->head[ck->files] : &l.g;
    PARE_TRY(refuse_part(&l));
    if (first)
        PARE_TRY(load_config(&l));
    read_sizes(&l);
    return load_tensors(&l, out);
}

pare_status pare__gguf_check(const pare_checkpoint *ck, pare_arena *a, bool *checked)
{
    const pare_file *const f = &ck->file[0];
    pare_gguf g;
    *checked = false;
    if (ck->files > 1)
        return pare_gguf_check_parts(ck->cx, a, f, ck->head, ck->files, checked);
    PARE_TRY(pare_gguf_parse(ck->cx, a, f->path, f->data, f->bytes, &g));
    return pare_gguf_check_seal(ck->cx, a, f, &g, checked);
}
