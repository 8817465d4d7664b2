#include "compress/export.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/output.h"
#include "formats/dense.h"
#include "runtime/file.h"
#include "runtime/linear.h"

enum { NAME = 4096 };
static const uint64_t shard_bytes = 5000000000;

typedef struct export
{
    pare_ctx *cx;
    pare_arena *a;
    pare_arena scratch;
    const pare_export_job *job;
    char *partial;
    pare_checkpoint ck;
    pare_model model;
    pare_export_model shape;
    bool *plane; /* [ck.tensors] belongs to a linear or a cache */
    pare_packed_layout layout;
    pare_packed_writer *writer;
    double square, difference;
    pare_export_result *out;
}
export;

static pare_export_linear linear_of(const char *name, const pare_linear *w, size_t block,
                                    pare_role role, const pare_packed_linear *packed, size_t count)
{
    pare_export_linear l = {.name = name, .block = block, .role = role, .weights = w};
    for (size_t i = 0; i < count; i++)
        if (strcmp(packed[i].name, name) == 0) {
            l.is_packed = true;
            l.packed = packed[i];
        }
    return l;
}

pare_status pare_export_describe(pare_arena *a, const pare_model *model,
                                 const pare_packed_linear *packed, size_t count,
                                 pare_export_model *out)
{
    const pare_config *const c = &model->config;
    pare_export_linear *const linear = PARE_NEW(a, pare_export_linear, c->blocks * PARE_ROLES + 1);
    *out = (pare_export_model){.config = c, .linear = linear, .floats = model->embed.dtype};
    if (!linear)
        return PARE_ENOMEM;
    for (size_t i = 0; i < c->blocks; i++)
        for (pare_role r = 0; r < PARE_ROLES; r++) {
            const pare_linear *const w = &model->block[i].linear[r];
            if (w->name)
                linear[out->linears++] = linear_of(w->name, w, i, r, packed, count);
        }
    linear[out->linears++] =
        linear_of(c->arch->head, &model->head, c->blocks, PARE_ROLES, packed, count);
    return PARE_OK;
}

static pare_status describe(export *e)
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
    return pare_export_describe(e->a, &e->model, packed, count, &e->shape);
}

/* Vectors that a pass put behind norms have no place in other programs. */
static pare_status check_norms(export *e)
{
    for (size_t i = 0; i < e->model.config.blocks; i++)
        if (e->model.block[i].attention_norm_bias || e->model.block[i].mlp_norm_bias)
            return pare_fail(e->cx, PARE_ENOTSUP,
                             "%s: block %zu: a pass made a bias behind a norm, and engines have no "
                             "place for one in this model",
                             e->job->target->name, i);
    return PARE_OK;
}

static pare_status open_artifact(export *e)
{
    PARE_TRY(pare_checkpoint_open(e->cx, e->a, e->job->artifact, &e->ck));
    if (!e->ck.packed)
        return pare_fail(e->cx, PARE_ENOTSUP,
                         "%s: not a packed artifact; other engines read it as it is",
                         e->job->artifact);
    PARE_TRY(pare_model_load(e->cx, e->a, &e->ck, &e->model));
    PARE_TRY(describe(e));
    PARE_TRY(check_norms(e));
    return pare_export_check(e->cx, e->job->target, &e->shape);
}

static void mark(export *e, const char *name)
{
    const pare_tensor *const t = pare_checkpoint_find(&e->ck, name);
    if (t)
        e->plane[t - e->ck.tensor] = true;
}

/* Planes of packed linears and tables of caches do not go out as they are. */
static pare_status mark_planes(export *e)
{
    char name[NAME];
    e->plane = PARE_NEW(e->a, bool, e->ck.tensors);
    if (!e->plane)
        return PARE_ENOMEM;
    for (size_t i = 0; i < e->shape.linears; i++)
        for (pare_plane p = 0; e->shape.linear[i].is_packed && p < PARE_PLANES; p++) {
            (void)snprintf(name, sizeof name, "%s.%s", e->shape.linear[i].name,
                           pare_packed_plane_name(p));
            mark(e, name);
        }
    for (size_t i = 0; e->model.kv.method == PARE_KV_KVQUANT && i < e->model.config.blocks; i++)
        for (pare_kv_table t = 0; t < PARE_KV_TABLES; t++) {
            pare_tensor table;
            PARE_TRY(pare_packed_kv_tensor(e->a, &e->model.config, i, t, &table));
            mark(e, table.name);
        }
    return PARE_OK;
}

static const char *part_name(pare_arena *a, const char *linear, const char *suffix)
{
    char name[NAME];
    const int len = snprintf(name, sizeof name, "%s%s", linear, suffix);
    return pare_arena_text(a, name, (size_t)len);
}

static pare_status lay_out(export *e)
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
        const size_t parts = l->is_packed ? e->job->target->parts(&e->shape, &l->packed, part) : 0;
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

static pare_status put_linear(export *e, size_t i)
{
    const pare_export_linear *const l = &e->shape.linear[i];
    const pare_packed_entry *entry[PARE_EXPORT_PARTS];
    void *data[PARE_EXPORT_PARTS];
    pare_export_part part[PARE_EXPORT_PARTS];
    const size_t parts = e->job->target->parts(&e->shape, &l->packed, part);
    for (size_t p = 0; p < parts; p++) {
        const char *const name = part_name(&e->scratch, l->name, part[p].suffix);
        entry[p] = name ? pare_packed_find(&e->layout, name) : NULL;
        data[p] = entry[p] ? pare_arena_take(&e->scratch, 1, (size_t)entry[p]->tensor.bytes) : NULL;
        if (!data[p])
            return PARE_ENOMEM;
    }
    PARE_TRY(e->job->target->fill(e->cx, &e->scratch, &e->shape, &l->packed, l->weights, data));
    for (size_t p = 0; p < parts; p++)
        PARE_TRY(pare_packed_put(e->cx, e->writer, entry[p], data[p]));
    return PARE_OK;
}

static pare_status put_linears(export *e)
{
    for (size_t i = 0; i < e->shape.linears; i++) {
        PARE_TRY(pare_ctx_interrupted(e->cx));
        pare_ctx_progress(e->cx, "writing", (double)i, (double)e->shape.linears);
        if (!e->shape.linear[i].is_packed)
            continue;
        const pare_mark m = pare_arena_mark(&e->scratch);
        const pare_status s = put_linear(e, i);
        pare_arena_rewind(&e->scratch, m);
        PARE_TRY(s);
    }
    return PARE_OK;
}

static pare_status put_rest(export *e)
{
    for (size_t i = 0; i < e->ck.tensors; i++) {
        const pare_tensor *const t = &e->ck.tensor[i];
        if (!e->plane[i])
            PARE_TRY(
                pare_packed_put(e->cx, e->writer, pare_packed_find(&e->layout, t->name), t->data));
    }
    return pare_packed_sync(e->cx, e->writer);
}

static pare_status write_json(export *e, const char *name, pare_json_writer *w)
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
static pare_status write_config(export *e)
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

static pare_status write_extra(export *e)
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

static pare_status write_all(export *e)
{
    if (!pare_output_remove(e->partial) || mkdir(e->partial, 0777) != 0)
        return pare_file_fail(e->cx, e->partial, "create");
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
        PARE_TRY(pare_output_copy(e->cx, e->a, e->ck.directory, e->partial, pare_companions[i],
                                  &copied));
    }
    return PARE_OK;
}

/* Largest relative error of rounding to a float type, and what is lost below its normal range. */
static float rounding(pare_dtype t, float value)
{
    if (t == PARE_F32)
        return 0;
    return t == PARE_F16 ? fabsf(value) * 0x1p-11f + 0x1p-25f : fabsf(value) * 0x1p-8f;
}

static pare_status compare(export *e, size_t i, const float *is, const float *wanted)
{
    const pare_export_linear *const l = &e->shape.linear[i];
    const size_t count = l->packed.n * l->packed.k;
    double square = 0, difference = 0;
    for (size_t j = 0; j < count; j++) {
        const float d = is[j] - wanted[j];
        const float most = e->job->target->rounds ? rounding(e->shape.floats, wanted[j]) : 0;
        if (!(fabsf(d) <= most))
            return pare_fail(e->cx, PARE_ENUMERIC,
                             "%s: linear %s: weight [%zu, %zu] reads back as %.9g instead of %.9g; "
                             "this is a mistake of pare, nothing was kept",
                             e->job->target->name, l->name, j / l->packed.k, j % l->packed.k,
                             (double)is[j], (double)wanted[j]);
        square += (double)wanted[j] * (double)wanted[j];
        difference += (double)d * (double)d;
    }
    e->square += square;
    e->difference += difference;
    e->out->rounded += difference > 0;
    return PARE_OK;
}

static pare_status check_linear(export *e, const pare_checkpoint *written, size_t i)
{
    const pare_packed_linear *const l = &e->shape.linear[i].packed;
    float *const is = pare_arena_take_raw(&e->scratch, l->n * l->k, sizeof *is);
    float *const wanted = pare_arena_take_raw(&e->scratch, l->n * l->k, sizeof *wanted);
    if (!is || !wanted)
        return PARE_ENOMEM;
    PARE_TRY(e->job->target->read(e->cx, written, l, is));
    pare_linear_to_f32(e->cx, e->shape.linear[i].weights, wanted);
    return compare(e, i, is, wanted);
}

static pare_status check_rest(export *e, const pare_checkpoint *written)
{
    for (size_t i = 0; i < e->ck.tensors; i++) {
        const pare_tensor *const was = &e->ck.tensor[i];
        const pare_tensor *const is = pare_checkpoint_find(written, was->name);
        if (e->plane[i])
            continue;
        if (!is || is->bytes != was->bytes || memcmp(is->data, was->data, (size_t)was->bytes) != 0)
            return pare_fail(e->cx, PARE_ENUMERIC,
                             "%s: tensor %s does not read back as it was; nothing was kept",
                             e->job->target->name, was->name);
    }
    return PARE_OK;
}

static pare_status check_written(export *e)
{
    pare_checkpoint written;
    pare_status s = pare_checkpoint_open(e->cx, e->a, e->partial, &written);
    for (size_t i = 0; s == PARE_OK && i < e->shape.linears; i++) {
        pare_ctx_progress(e->cx, "reading back", (double)i, (double)e->shape.linears);
        const pare_mark m = pare_arena_mark(&e->scratch);
        if (e->shape.linear[i].is_packed)
            s = check_linear(e, &written, i);
        pare_arena_rewind(&e->scratch, m);
        if (s == PARE_OK)
            s = pare_ctx_interrupted(e->cx);
    }
    if (s == PARE_OK)
        s = check_rest(e, &written);
    pare_checkpoint_close(&written);
    return s;
}

static void sum_up(export *e)
{
    for (size_t i = 0; i < e->shape.linears; i++)
        e->out->packed += e->shape.linear[i].is_packed;
    e->out->linears = e->shape.linears;
    e->out->error = e->square > 0 ? e->difference / e->square : 0;
    for (uint32_t i = 0; i < e->layout.shards; i++)
        e->out->bytes += e->layout.file_bytes[i];
    if (e->model.kv.method != PARE_KV_FLOAT)
        e->out->notice = "the format of the key/value cache is not part of it: engines choose "
                         "their own";
}

static pare_status check_output(export *e)
{
    const char *const to = e->job->output;
    const size_t len = strlen(to);
    char *const path = pare_arena_text(e->a, to, len);
    if (!path)
        return PARE_ENOMEM;
    for (size_t i = len; i > 1 && path[i - 1] == '/'; i--)
        path[i - 1] = '\0';
    e->partial = (char *)(uintptr_t)part_name(e->a, path, ".partial");
    struct stat st;
    if (!e->partial)
        return PARE_ENOMEM;
    if (stat(path, &st) == 0 && !e->job->restart)
        return pare_fail(e->cx, PARE_EEXISTS, "%s: exists; --restart replaces it", to);
    return PARE_OK;
}

static pare_status run(export *e)
{
    PARE_TRY(check_output(e));
    PARE_TRY(open_artifact(e));
    PARE_TRY(mark_planes(e));
    PARE_TRY(lay_out(e));
    pare_status s = write_all(e);
    if (s == PARE_OK)
        s = check_written(e);
    const bool replace = e->job->restart && pare_path_is_directory(e->job->output);
    if (s == PARE_OK)
        s = pare_output_publish(e->cx, e->partial, e->job->output, replace);
    if (s != PARE_OK || replace)
        (void)pare_output_remove(e->partial);
    sum_up(e);
    return s;
}

pare_status pare_export_run(pare_ctx *cx, pare_arena *a, const pare_export_job *job,
                            pare_export_result *out)
{
    export e = {.cx = cx, .a = a, .job = job, .out = out};
    *out = (pare_export_result){0};
    pare_status s = pare_arena_init(cx, &e.scratch, 0);
    if (s == PARE_OK)
        s = run(&e);
    if (e.ck.cx)
        pare_checkpoint_close(&e.ck);
    pare_arena_release(&e.scratch);
    return s;
}
