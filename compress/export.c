#include "compress/export_run.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/output.h"
#include "compress/version.h"
#include "formats/dense.h"
#include "runtime/file.h"

enum { NAME = 4096 };
static const uint64_t shard_bytes = 5000000000;

/* A bias that a pass made takes the place of the model's own where there is one, and only there do
 * engines have a place for it. */
static pare_export_linear linear_of(const char *name, const pare_linear *w, bool biased,
                                    const pare_packed_linear *packed, size_t count)
{
    pare_export_linear l = {
        .name = name, .weights = w, .packed = {.name = name, .n = w->n, .k = w->k}};
    for (size_t i = 0; i < count; i++)
        if (strcmp(packed[i].name, name) == 0) {
            l.is_packed = true;
            l.packed = packed[i];
            l.packed.name = name;
            l.packed.activation.scale = w->activation.scale;
            l.packed.bias &= !biased;
        }
    return l;
}

/* The tensor of several linears that begins with this role; NULL: it has one of its own. */
static const pare_fused *fused_at(const pare_arch *arch, pare_role r)
{
    for (size_t i = 0; i < PARE_FUSED_MAX && arch->fused[i].name; i++)
        if (arch->fused[i].first == r)
            return &arch->fused[i];
    return NULL;
}

/* "h.0.attn.c_attn" of "h.0.attn.c_attn.q". */
static const char *fused_name(pare_arena *a, const char *piece)
{
    const char *const dot = strrchr(piece, '.');
    return dot ? pare_arena_text(a, piece, (size_t)(dot - piece)) : piece;
}

static pare_status describe_block(pare_arena *a, const pare_model *model, const pare_json *config,
                                  size_t block, pare_export_linear single[PARE_ROLES],
                                  pare_export_model *out)
{
    const pare_arch *const arch = model->config.arch;
    pare_export_linear *const linear = (pare_export_linear *)(uintptr_t)out->linear;
    for (pare_role r = 0; r < PARE_ROLES;) {
        const pare_fused *const f = fused_at(arch, r);
        pare_export_linear *const l = &linear[out->linears];
        const pare_linear *const w =
            model->block[block].linear[r].name ? &model->block[block].linear[r] : NULL;
        if (w && w->bias && !single[r].is_packed && !pare_linear_has_bias(config, &arch->linear[r]))
            out->biased = w->name;
        if (f) {
            const char *const name = fused_name(a, single[r].name);
            if (!name)
                return PARE_ENOMEM;
            pare_export_join(l, name, &single[r], f->count, f->fusion);
        } else if (w) {
            *l = single[r];
        }
        out->linears += w != NULL;
        r += (pare_role)(f ? f->count : 1);
    }
    return PARE_OK;
}

pare_status pare_export_describe(pare_arena *a, const pare_model *model, const pare_json *config,
                                 const pare_packed_linear *packed, size_t count,
                                 pare_export_model *out)
{
    const pare_config *const c = &model->config;
    const size_t most = c->blocks * PARE_ROLES;
    pare_export_linear *const single = PARE_NEW(a, pare_export_linear, most);
    pare_export_linear *const linear = PARE_NEW(a, pare_export_linear, most + 1);
    *out = (pare_export_model){.config = c, .linear = linear, .floats = model->embed.dtype};
    if (!single || !linear)
        return PARE_ENOMEM;
    for (size_t i = 0; i < c->blocks; i++) {
        const pare_block *const b = &model->block[i];
        out->shifts_norms |=
            c->arch->norm_kind != PARE_NORM_LAYER && (b->attention_norm_bias || b->mlp_norm_bias);
        for (pare_role r = 0; r < PARE_ROLES; r++) {
            const pare_linear *const w = &b->linear[r];
            pare_export_linear *const l = &single[i * PARE_ROLES + r];
            if (!w->name)
                continue;
            *l = linear_of(w->name, w, pare_linear_has_bias(config, &c->arch->linear[r]), packed,
                           count);
            l->block = i;
            l->role = r;
            l->transposed = c->arch->transposed;
        }
        PARE_TRY(describe_block(a, model, config, i, &single[i * PARE_ROLES], out));
    }
    linear[out->linears] =
        linear_of(c->arch->head, &model->head, c->arch->head_bias, packed, count);
    linear[out->linears].block = c->blocks;
    linear[out->linears++].role = PARE_ROLES;
    return PARE_OK;
}

static pare_status describe(pare__export *e)
{
    const pare_json *const linears = pare_json_get(e->ck.index, "linears");
    const size_t most = pare_json_count(linears);
    pare_packed_linear *const packed = PARE_NEW(e->a, pare_packed_linear, most + 1);
    if (!packed)
        return PARE_ENOMEM;
    size_t count = 0;
    const char *name;
    const pare_json *v;
    for (pare_json_iter it = {0}; count < most && pare_json_next(linears, &it, &name, &v);)
        PARE_TRY(pare_packed_linear_read(e->cx, name, v, &packed[count++]));
    return pare_export_describe(e->a, &e->model, e->ck.config, packed, count, &e->shape);
}

static pare_status open_artifact(pare__export *e)
{
    PARE_TRY(pare_checkpoint_open(e->cx, e->a, e->job->artifact, &e->ck));
    if (!e->ck.packed)
        return pare_fail(e->cx, PARE_ENOTSUP,
                         "%s: not a packed artifact; export writes what pare compress has made",
                         e->job->artifact);
    PARE_TRY(pare_model_load(e->cx, e->a, &e->ck, &e->model));
    PARE_TRY(describe(e));
    return pare_export_check(e->cx, e->job->target, &e->shape);
}

static void mark(pare__export *e, const char *linear, const char *suffix)
{
    char name[NAME];
    (void)snprintf(name, sizeof name, "%s%s", linear, suffix);
    const pare_tensor *const t = pare_checkpoint_find(&e->ck, name);
    if (t)
        e->plane[t - e->ck.tensor] = true;
}

/* Planes of packed linears do not go out as they are, but for biases. */
static void mark_linear(pare__export *e, const pare_export_linear *l, bool moved)
{
    char suffix[64];
    for (pare_plane p = 0; l->is_packed && p < PARE_PLANE_BIAS; p++) {
        (void)snprintf(suffix, sizeof suffix, ".%s", pare_packed_plane_name(p));
        mark(e, l->name, suffix);
    }
    if (moved && !l->is_packed)
        mark(e, l->name, ".weight");
}

/* Nor what lies elsewhere in the files of the family, nor tables of caches. */
static pare_status mark_planes(pare__export *e)
{
    e->plane = PARE_NEW(e->a, bool, e->ck.tensors);
    if (!e->plane)
        return PARE_ENOMEM;
    for (size_t i = 0; i < e->shape.linears; i++) {
        const pare_export_linear *const l = &e->shape.linear[i];
        if (!l->pieces)
            mark_linear(e, l, l->transposed);
        for (size_t p = 0; p < l->pieces; p++) {
            mark_linear(e, &l->piece[p], true);
            mark(e, l->piece[p].name, ".bias");
        }
    }
    for (size_t i = 0; e->model.kv.method == PARE_KV_KVQUANT && i < e->model.config.blocks; i++)
        for (pare_kv_table t = 0; t < PARE_KV_TABLES; t++) {
            pare_tensor table;
            PARE_TRY(pare_packed_kv_tensor(e->a, &e->model.config, i, t, &table));
            mark(e, table.name, "");
        }
    return PARE_OK;
}

static const char *part_name(pare_arena *a, const char *linear, const char *suffix)
{
    char name[NAME];
    const int len = snprintf(name, sizeof name, "%s%s", linear, suffix);
    return pare_arena_text(a, name, (size_t)len);
}

bool pare__export_writes(const pare_export_linear *l)
{
    return l->is_packed || l->pieces || l->transposed;
}

const pare_export_target *pare__export_writer(const pare__export *e, const pare_export_linear *l)
{
    return l->is_packed ? e->job->target : pare_export_find("safetensors");
}

/* The type of float matrices that are joined: theirs, or one that holds all. */
static pare_dtype type_of(const pare_export_linear *l)
{
    if (!l->pieces)
        return l->weights->dtype;
    for (size_t i = 1; i < l->pieces; i++)
        if (l->piece[i].weights->dtype != l->piece[0].weights->dtype)
            return PARE_F32;
    return l->piece[0].weights->dtype;
}

static pare_dtype bias_type(const pare__export *e, const pare_export_linear *l)
{
    char name[NAME];
    pare_dtype type = PARE_F32;
    for (size_t i = 0; i < l->pieces; i++) {
        (void)snprintf(name, sizeof name, "%s.bias", l->piece[i].name);
        const pare_tensor *const t = pare_checkpoint_find(&e->ck, name);
        if (!t || (i > 0 && t->dtype != type))
            return PARE_F32;
        type = t->dtype;
    }
    return type;
}

/* What it is written with: the model, but for the type of matrices that stay floats. */
static pare_export_model shape_for(const pare__export *e, const pare_export_linear *l)
{
    pare_export_model m = e->shape;
    if (!l->is_packed)
        m.floats = type_of(l);
    return m;
}

/* Tensors of a linear, with the bias of one that is joined behind them. */
static size_t parts_of(const pare__export *e, const pare_export_linear *l,
                       pare_export_part part[PARE_EXPORT_PARTS])
{
    const pare_export_model m = shape_for(e, l);
    if (!pare__export_writes(l))
        return 0;
    size_t parts = pare__export_writer(e, l)->parts(&m, l, part);
    if (pare__export_joins_bias(l))
        part[parts++] = (pare_export_part){".bias", bias_type(e, l), 1, {l->packed.n}};
    return parts;
}

bool pare__export_joins_bias(const pare_export_linear *l)
{
    return l->pieces && l->piece[0].weights->bias;
}

static pare_status lay_out(pare__export *e)
{
    const size_t most = e->ck.tensors + e->shape.linears * PARE_EXPORT_PARTS;
    pare_tensor *const tensor = PARE_NEW(e->a, pare_tensor, most);
    size_t *const unit = PARE_NEW(e->a, size_t, most);
    if (!tensor || !unit)
        return PARE_ENOMEM;
    size_t count = 0;
    for (size_t i = 0; i < e->shape.linears; i++) {
        const pare_export_linear *const l = &e->shape.linear[i];
        pare_export_part part[PARE_EXPORT_PARTS];
        const size_t parts = parts_of(e, l, part);
        for (size_t p = 0; p < parts; p++) {
            pare_tensor *const t = &tensor[count];
            unit[count++] = i;
            *t = (pare_tensor){.name = part_name(e->a, l->name, part[p].suffix),
                               .dtype = part[p].dtype,
                               .rank = part[p].rank};
            if (!t->name)
                return PARE_ENOMEM;
            memcpy(t->shape, part[p].shape, sizeof part[p].shape);
            PARE_TRY(pare_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes));
        }
    }
    for (size_t i = 0; i < e->ck.tensors; i++) {
        if (e->plane[i])
            continue;
        unit[count] = e->shape.linears;
        tensor[count++] = e->ck.tensor[i];
    }
    return pare_packed_layout_dense(e->cx, e->a, tensor, unit, count, shard_bytes, &e->layout);
}

static pare_status fill_bias(pare__export *e, const pare_export_linear *l, void *data)
{
    float *const value = PARE_NEW(&e->scratch, float, l->packed.n);
    if (!value)
        return PARE_ENOMEM;
    pare_export_bias(&e->shape, l, value);
    return pare_f32_to_dtype(e->cx, bias_type(e, l), value, l->packed.n, data);
}

static pare_status put_linear(pare__export *e, size_t i)
{
    const pare_export_linear *const l = &e->shape.linear[i];
    const pare_export_target *const t = pare__export_writer(e, l);
    const pare_export_model m = shape_for(e, l);
    const pare_packed_entry *entry[PARE_EXPORT_PARTS];
    void *data[PARE_EXPORT_PARTS];
    pare_export_part part[PARE_EXPORT_PARTS];
    pare_linear w;
    const size_t parts = parts_of(e, l, part);
    for (size_t p = 0; p < parts; p++) {
        const char *const name = part_name(&e->scratch, l->name, part[p].suffix);
        entry[p] = name ? pare_packed_find(&e->layout, name) : NULL;
        data[p] = entry[p] ? pare_arena_take(&e->scratch, 1, (size_t)entry[p]->tensor.bytes) : NULL;
        if (!data[p])
            return PARE_ENOMEM;
    }
    PARE_TRY(pare_export_weights(e->cx, &e->scratch, &m, l, t->fate == PARE_EXPORT_ROUNDED, &w));
    PARE_TRY(t->fill(e->cx, &e->scratch, &m, l, &w, data));
    if (pare__export_joins_bias(l))
        PARE_TRY(fill_bias(e, l, data[parts - 1]));
    for (size_t p = 0; p < parts; p++)
        PARE_TRY(pare_packed_put(e->cx, e->writer, entry[p], data[p]));
    return PARE_OK;
}

static pare_status put_linears(pare__export *e)
{
    for (size_t i = 0; i < e->shape.linears; i++) {
        PARE_TRY(pare_ctx_interrupted(e->cx));
        pare_ctx_progress(e->cx, "writing", (double)i, (double)e->shape.linears);
        if (!pare__export_writes(&e->shape.linear[i]))
            continue;
        const pare_mark m = pare_arena_mark(&e->scratch);
        const pare_status s = put_linear(e, i);
        pare_arena_rewind(&e->scratch, m);
        PARE_TRY(s);
    }
    return PARE_OK;
}

static pare_status put_rest(pare__export *e)
{
    for (size_t i = 0; i < e->ck.tensors; i++) {
        const pare_tensor *const t = &e->ck.tensor[i];
        if (!e->plane[i])
            PARE_TRY(
                pare_packed_put(e->cx, e->writer, pare_packed_find(&e->layout, t->name), t->data));
    }
    return pare_packed_sync(e->cx, e->writer);
}

static pare_status write_json(pare__export *e, const char *name, pare_json_writer *w)
{
    const char *text;
    size_t len;
    char *const path = pare_path_join(e->a, e->partial, name);
    pare_status s = path ? pare_json_writer_finish(w, &text, &len) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = pare_file_write(e->cx, path, text, len);
    pare_json_writer_free(w);
    return s;
}

/* The artifact's own, with what the target says about itself in place of what we say. */
static pare_status write_config(pare__export *e)
{
    pare_json_writer *w;
    const char *key;
    const pare_json *v;
    PARE_TRY(pare_json_writer_new(e->cx, &w));
    pare_json_open_object(w, NULL);
    for (pare_json_iter it = {0}; pare_json_next(e->ck.config, &it, &key, &v);)
        if (strcmp(key, "quantization_config") != 0)
            pare_json_put_copy(w, key, v);
    if (e->job->target->config) {
        pare_json_open_object(w, "quantization_config");
        e->job->target->config(w, &e->shape);
        pare_json_close(w);
    }
    pare_json_close(w);
    return write_json(e, "config.json", w);
}

static pare_status write_extra(pare__export *e)
{
    pare_json_writer *w;
    if (!e->job->target->extra)
        return PARE_OK;
    PARE_TRY(pare_json_writer_new(e->cx, &w));
    pare_json_open_object(w, NULL);
    e->job->target->config(w, &e->shape);
    pare_json_close(w);
    return write_json(e, e->job->target->extra, w);
}

static pare_status write_all(pare__export *e)
{
    if (!pare_output_remove(e->partial))
        return pare_file_fail(e->cx, e->partial, "remove what an earlier run left");
    PARE_TRY(pare_output_make(e->cx, e->a, e->partial));
    PARE_TRY(pare_packed_create(e->cx, e->partial, &e->layout, &e->writer));
    pare_status s = put_linears(e);
    if (s == PARE_OK)
        s = put_rest(e);
    pare_packed_close(e->cx, e->writer);
    PARE_TRY(s);
    PARE_TRY(write_config(e));
    PARE_TRY(write_extra(e));
    for (size_t i = 0; pare_companions[i]; i++) {
        bool copied;
        PARE_TRY(pare_output_copy(e->a, &e->ck, e->partial, pare_companions[i], &copied));
    }
    return PARE_OK;
}

/* What it is, and what became of each linear. */
static pare_status write_record(pare__export *e)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(e->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "format", e->job->target->name);
    pare_export_put(w, e->out, true);
    pare_json_close(w);
    return write_json(e, PARE_EXPORT_RECORD, w);
}

void pare_export_put(pare_json_writer *w, const pare_export_result *r, bool rows)
{
    pare_json_put_number(w, "relative_error", r->error);
    pare_json_put_integer(w, "bytes", (int64_t)r->bytes);
    if (r->notice)
        pare_json_put_text(w, "notice", r->notice);
    pare_json_open_object(w, "fates");
    for (pare_export_fate f = 0; f < PARE_EXPORT_FATES; f++)
        pare_json_put_integer(w, pare_export_fate_name(f), (int64_t)r->count[f]);
    pare_json_close(w);
    if (!rows)
        return;
    pare_json_open_array(w, "linears");
    for (size_t i = 0; i < r->rows; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "name", r->row[i].name);
        if (r->row[i].was)
            pare_json_put_text(w, "artifact", r->row[i].was);
        pare_json_put_text(w, "fate", pare_export_fate_name(r->row[i].fate));
        if (r->row[i].type)
            pare_json_put_text(w, "type", r->row[i].type);
        pare_json_put_number(w, "relative_error", r->row[i].error);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static pare_status take_rows(pare__export *e)
{
    pare_export_result *const out = e->out;
    out->row = PARE_NEW(e->a, pare_export_row, e->shape.linears);
    if (!out->row)
        return PARE_ENOMEM;
    for (size_t i = 0; i < e->shape.linears; i++) {
        const pare_export_linear *const l = &e->shape.linear[i];
        char text[PARE_PACKED_TEXT];
        out->row[i] =
            (pare_export_row){.name = l->name, .fate = pare_export_fate_of(e->job->target, l)};
        if (!l->is_packed)
            continue;
        (void)pare_packed_linear_text(&l->packed, text);
        out->row[i].was = pare_arena_text(e->a, text, strlen(text));
        if (!out->row[i].was)
            return PARE_ENOMEM;
        if (e->job->strict && out->row[i].fate == PARE_EXPORT_REQUANTIZED)
            return pare_fail(
                e->cx, PARE_ENOTSUP,
                "%s: linear %s (%s) has no codes of this format and would be quantized "
                "again, which --strict refuses",
                e->job->target->name, l->name, text);
    }
    return PARE_OK;
}

static void sum_up(pare__export *e)
{
    e->out->rows = e->shape.linears;
    for (size_t i = 0; i < e->out->rows; i++)
        e->out->count[e->out->row[i].fate]++;
    for (uint32_t i = 0; i < e->layout.shards; i++)
        e->out->bytes += e->layout.file_bytes[i];
    if (e->model.kv.method != PARE_KV_FLOAT)
        e->out->notice = "the format of the key/value cache is not part of it: engines choose "
                         "their own";
}

static pare_status finish(pare__export *e)
{
    PARE_TRY(write_all(e));
    PARE_TRY(pare__export_read_back(e));
    sum_up(e);
    return write_record(e);
}

static pare_status place(pare__export *e)
{
    const char *const to = e->job->output;
    size_t len = strlen(to);
    while (len > 1 && to[len - 1] == '/')
        len--;
    e->output = pare_arena_text(e->a, to, len);
    if (!e->output)
        return PARE_ENOMEM;
    return pare_export_place(e->cx, e->a, e->job->artifact, e->output, e->job->restart,
                             &e->partial);
}

static pare_status run(pare__export *e)
{
    PARE_TRY(e->job->target->block ? pare__export_gguf_place(e) : place(e));
    PARE_TRY(open_artifact(e));
    PARE_TRY(mark_planes(e));
    if (e->job->target->block)
        return pare__export_gguf(e);
    PARE_TRY(lay_out(e));
    PARE_TRY(take_rows(e));
    pare_status s = finish(e);
    const bool replace = e->job->restart && pare_path_is_directory(e->output);
    if (s == PARE_OK)
        s = pare_output_publish(e->cx, e->partial, e->output, replace);
    if (s != PARE_OK || replace)
        (void)pare_output_remove(e->partial);
    return s;
}

pare_status pare_export_run(pare_ctx *cx, pare_arena *a, const pare_export_job *job,
                            pare_export_result *out)
{
    pare__export e = {.cx = cx, .a = a, .job = job, .out = out};
    *out = (pare_export_result){0};
    pare_status s = pare_arena_init(cx, &e.scratch, 0);
    if (s == PARE_OK)
        s = run(&e);
    if (e.ck.cx)
        pare_checkpoint_close(&e.ck);
    pare_arena_release(&e.scratch);
    return s;
}
