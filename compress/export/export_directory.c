/* An artifact as a directory of safetensors. */
#include <stdio.h>
#include <string.h>

#include "compress/export/export_run.h"
#include "compress/output/inventory.h"
#include "compress/output/output.h"
#include "compress/text/version.h"
#include "formats/config_copy.h"
#include "runtime/file.h"

enum { NAME = 4096 };

static const char *part_name(pare_arena *a, const char *linear, const char *suffix)
{
    char name[NAME];
    const int len = snprintf(name, sizeof name, "%s%s", linear, suffix);
    return pare_arena_text(a, name, (size_t)len);
}

static pare_status fill_bias(pare__export *e, const pare_export_linear *l, void *data)
{
    float *const value = PARE_NEW(&e->scratch, float, l->packed.n);
    if (!value)
        return PARE_ENOMEM;
    pare_export_bias(&e->source.shape, l, value);
    return pare_f32_to_dtype(e->cx, pare__export_bias_type(e, l), value, l->packed.n, data);
}

static pare_status put_linear(pare__export *e, size_t i)
{
    const pare_export_linear *const l = &e->source.shape.linear[i];
    const pare_export_target *const t = pare__export_writer(e, l);
    const pare_export_model m = pare__export_shape_for(e, l);
    const pare_packed_entry *entry[PARE_EXPORT_PARTS];
    void *data[PARE_EXPORT_PARTS];
    pare_export_part part[PARE_EXPORT_PARTS];
    pare_linear w;
    const size_t parts = pare__export_parts(e, l, part);
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
    for (size_t i = 0; i < e->source.shape.linears + e->source.shape.tables; i++) {
        PARE_TRY(pare_ctx_interrupted(e->cx));
        pare_ctx_progress(e->cx, "writing the export", (double)i, (double)e->source.shape.linears);
        if (!pare__export_writes(&e->source.shape.linear[i]))
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
    char *const path = pare_path_join(e->a, e->place.at.partial, name);
    pare_status s = path ? pare_json_writer_finish(w, &text, &len) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = pare_file_write(e->cx, path, text, len);
    pare_json_writer_free(w);
    return s;
}

/* The name of torch. */
static const char *torch_name(pare_dtype t)
{
    switch (t) {
    case PARE_I16: return "int16";
    case PARE_I32: return "int32";
    case PARE_F16: return "float16";
    case PARE_BF16: return "bfloat16";
    default: return "float32";
    }
}

/* What a tensor of a linear is; nothing where there is none. */
static void put_stored(const pare__export *e, pare_json_writer *w, const char *linear,
                       const char *suffix)
{
    char name[NAME];
    (void)snprintf(name, sizeof name, "%s%s", linear, suffix);
    const pare_packed_entry *const entry = pare_packed_find(&e->layout, name);
    if (!entry)
        return;
    pare_json_open_object(w, name);
    pare_json_open_array(w, "shape");
    for (uint32_t i = 0; i < entry->tensor.rank; i++)
        pare_json_put_integer(w, NULL, (int64_t)entry->tensor.shape[i]);
    pare_json_close(w);
    pare_json_put_text(w, "torch_dtype", torch_name(entry->tensor.dtype));
    pare_json_close(w);
}

static void put_storage(const pare__export *e, pare_json_writer *w)
{
    pare_export_part part[PARE_EXPORT_PARTS];
    pare_json_open_object(w, "tensor_storage");
    for (size_t i = 0; i < e->source.shape.linears; i++) {
        const pare_export_linear *const l = &e->source.shape.linear[i];
        if (!l->is_packed)
            continue;
        pare_json_open_object(w, l->name);
        pare_json_open_object(w, "stored_tensors");
        const size_t parts = pare__export_parts(e, l, part);
        for (size_t p = 0; p < parts; p++)
            put_stored(e, w, l->name, part[p].suffix);
        put_stored(e, w, l->name, ".bias");
        pare_json_close(w);
        e->target->storage(w, l);
        pare_json_close(w);
    }
    pare_json_close(w);
}

/* Members of quantization_config. */
static void put_target(const pare__export *e, pare_json_writer *w)
{
    e->target->config(w, &e->source.shape);
    if (e->target->storage)
        put_storage(e, w);
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
            pare_config_put_member(w, &e->model.config, key, v);
    pare_config_put_tied(w, &e->model.config, e->ck.config);
    if (e->target->config) {
        pare_json_open_object(w, "quantization_config");
        put_target(e, w);
        pare_json_close(w);
    }
    pare_json_close(w);
    return write_json(e, "config.json", w);
}

static pare_status write_extra(pare__export *e)
{
    pare_json_writer *w;
    if (!e->target->extra)
        return PARE_OK;
    PARE_TRY(pare_json_writer_new(e->cx, &w));
    pare_json_open_object(w, NULL);
    put_target(e, w);
    pare_json_close(w);
    return write_json(e, e->target->extra, w);
}

static pare_status write_all(pare__export *e)
{
    PARE_TRY(pare_output_make(e->cx, e->a, e->place.at.partial));
    PARE_TRY(pare_owned_mark_unfinished(e->cx, e->place.at.partial));
    PARE_TRY(pare_packed_create(e->cx, e->place.at.partial, &e->layout, &e->writer));
    pare_status s = put_linears(e);
    if (s == PARE_OK)
        s = put_rest(e);
    pare_packed_close(e->cx, e->writer);
    PARE_TRY(s);
    PARE_TRY(write_config(e));
    PARE_TRY(write_extra(e));
    const char *const *names;
    size_t count;
    return pare_output_copy_all(e->a, &e->ck, e->place.at.partial, &names, &count);
}

/* What it is, and what became of each linear. */
static pare_status write_record(pare__export *e)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(e->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "format", e->target->name);
    pare_export_put(w, e->out, true);
    pare_json_close(w);
    return write_json(e, PARE_EXPORT_RECORD, w);
}

pare_status pare__export_directory(pare__export *e)
{
    PARE_TRY(write_all(e));
    PARE_TRY(pare__export_read_back(e));
    pare__export_count(e->out);
    PARE_TRY(write_record(e));
    return pare_inventory_write(e->cx, e->a, e->place.at.partial, NULL, 0);
}
