/* The output: weights as a plain checkpoint, its config.json, tokenizer, manifest and report. */
#include <stdio.h>
#include <string.h>

#include "compress/artifact/manifest.h"
#include "compress/output/inventory.h"
#include "compress/output/output.h"
#include "compress/text/version.h"
#include "compress/train/train_internal.h"
#include "formats/checksums.h"
#include "formats/config_copy.h"
#include "formats/dense.h"
#include "formats/hash.h"
#include "runtime/file.h"

static const uint64_t shard_bytes = (uint64_t)4 << 30;

/* What the file has for a norm of the family: less than what is multiplied with. */
static float offset_of(const pare_training *t, const pare_leaf *leaf)
{
    const bool norm = leaf->kind == PARE_LEAF_NORM || leaf->kind == PARE_LEAF_INNER_NORM;
    return norm ? t->student.config.arch->norm_offset : 0;
}

/* The weights of a leaf as they are stored; in scratch. */
static pare_status store(pare_training *t, const pare_leaf *leaf, const pare_trained *from,
                         void **out)
{
    const float offset = offset_of(t, leaf);
    float *const value = PARE_NEW(&t->scratch, float, from->count);
    void *const stored = pare_arena_take(&t->scratch, from->count, pare_dtype_bits(t->dtype) / 8);
    if (!value || !stored)
        return PARE_ENOMEM;
    for (size_t i = 0; i < from->count; i++)
        value[i] = from->value[i] - offset;
    *out = stored;
    return pare_f32_to_dtype(t->cx, t->dtype, value, from->count, stored);
}

pare_status pare__train_round(pare_training *t)
{
    char name[PARE_TRAIN_NAME];
    pare_leaf leaf;
    size_t at = 0;
    for (size_t i = 0; pare__train_leaf(t, &at, &leaf, name); i++) {
        pare_trained *const w = &t->trainee.leaf[i];
        const float offset = offset_of(t, &leaf);
        const pare_mark mark = pare_arena_mark(&t->scratch);
        void *stored = NULL;
        pare_status s = store(t, &leaf, w, &stored);
        if (s == PARE_OK)
            s = pare_tensor_to_f32(
                t->cx,
                &(pare_tensor){.name = name,
                               .dtype = t->dtype,
                               .rank = 1,
                               .shape = {w->count},
                               .data = stored,
                               .bytes = (uint64_t)w->count * pare_dtype_bits(t->dtype) / 8},
                0, w->count, w->value);
        for (size_t j = 0; s == PARE_OK && offset != 0 && j < w->count; j++)
            w->value[j] += offset;
        pare_arena_rewind(&t->scratch, mark);
        PARE_TRY(s);
    }
    return PARE_OK;
}

static pare_status lay_out(pare_training *t)
{
    char name[PARE_TRAIN_NAME];
    pare_leaf leaf;
    const size_t leaves = t->trainee.leaves;
    pare_tensor *const tensor = PARE_NEW(t->a, pare_tensor, leaves);
    size_t *const unit = PARE_NEW(t->a, size_t, leaves);
    if (!tensor || !unit)
        return PARE_ENOMEM;
    size_t at = 0;
    for (size_t i = 0; pare__train_leaf(t, &at, &leaf, name); i++) {
        char *const own = pare_arena_text(t->a, name, strlen(name));
        if (!own)
            return PARE_ENOMEM;
        tensor[i] =
            (pare_tensor){.name = own,
                          .dtype = t->dtype,
                          .rank = leaf.linear ? 2 : 1,
                          .shape = {leaf.n, leaf.k},
                          .bytes = (uint64_t)leaf.n * leaf.k * pare_dtype_bits(t->dtype) / 8};
        if (!leaf.linear)
            tensor[i].shape[1] = 0;
        unit[i] = t->student.config.blocks;
    }
    return pare_packed_layout_dense(t->cx, t->a, tensor, unit, leaves, shard_bytes, &t->layout);
}

/* All weights; kept [leaves] are their hashes. */
static pare_status write_weights(pare_training *t, pare_packed_writer *w, pare_kept_hash *kept)
{
    char name[PARE_TRAIN_NAME];
    pare_leaf leaf;
    size_t at = 0;
    for (size_t i = 0; pare__train_leaf(t, &at, &leaf, name); i++) {
        const pare_packed_entry *const e = pare_packed_find(&t->layout, name);
        const pare_mark mark = pare_arena_mark(&t->scratch);
        void *stored = NULL;
        if (!e)
            return pare_fail(t->cx, PARE_EINVAL, "%s: the layout has no such tensor", name);
        pare_ctx_progress(t->cx, "writing weights", (double)i, (double)t->trainee.leaves);
        pare_status s = store(t, &leaf, &t->trainee.leaf[i], &stored);
        if (s == PARE_OK)
            s = pare_packed_put(t->cx, w, e, stored);
        if (s == PARE_OK)
            pare_xxh3(stored, (size_t)e->tensor.bytes, kept[i].hash);
        kept[i].name = e->tensor.name;
        pare_arena_rewind(&t->scratch, mark);
        PARE_TRY(s);
    }
    return pare_packed_sync(t->cx, w);
}

static const char *dtype_name(pare_dtype dtype)
{
    return dtype == PARE_F16 ? "float16" : dtype == PARE_BF16 ? "bfloat16" : "float32";
}

/* The members of config.json, but for the type of the weights. */
static pare_status put_config(pare_training *t, const pare_json *config, char **text, size_t *len)
{
    pare_json_writer *w;
    const char *key, *from = NULL;
    const pare_json *value;
    bool said = false;
    PARE_TRY(pare_json_writer_new(t->cx, &w));
    pare_json_open_object(w, NULL);
    for (pare_json_iter it = {0}; pare_json_next(config, &it, &key, &value);) {
        const bool is = strcmp(key, "torch_dtype") == 0 || strcmp(key, "dtype") == 0;
        said |= is;
        if (is)
            pare_json_put_text(w, key, dtype_name(t->dtype));
        else
            pare_config_put_member(w, &t->student.config, key, value);
    }
    if (!said)
        pare_json_put_text(w, "torch_dtype", dtype_name(t->dtype));
    pare_config_put_tied(w, &t->student.config, config);
    pare_json_close(w);
    pare_status s = pare_json_writer_finish(w, &from, len);
    if (s == PARE_OK)
        s = (*text = pare_arena_text(t->a, from, *len)) ? PARE_OK : PARE_ENOMEM;
    pare_json_writer_free(w);
    return s;
}

/* config.json, as the model has it but for what changed. */
static pare_status make_config(pare_training *t, char **text, size_t *len)
{
    const pare_config *const c = &t->student.config;
    const pare_biases has = pare_block_biases(&t->student.block[0]);
    const pare_structure_result r = {
        .before = &t->source.config, .source = t->kept, .sources = c->blocks};
    char *cut;
    size_t cut_len;
    pare_json *doc;
    if (c->blocks == t->source.config.blocks)
        return put_config(t, t->model.config, text, len);
    PARE_TRY(pare_manifest_dense_config(t->cx, t->a, t->model.config, c, &r,
                                        has.linear >> PARE_ROLE_O & 1,
                                        has.linear >> PARE_ROLE_DOWN & 1, &cut, &cut_len));
    PARE_TRY(pare_json_parse(t->cx, "config.json", cut, cut_len, cut_len, &doc));
    const pare_status s = put_config(t, doc, text, len);
    pare_json_free(doc);
    return s;
}

static pare_status write_file(pare_training *t, const char *name, const char *text, size_t len)
{
    char *const path = pare_path_join(t->a, t->place.partial, name);
    return path ? pare_file_write(t->cx, path, text, len) : PARE_ENOMEM;
}

/* The tokenizer that was trained, or copies of the one that was given; names of both. */
static pare_status write_tokenizer(pare_training *t, const char *const **name, size_t *count)
{
    static const char *const made[] = {"tokenizer.json", "tokenizer_config.json"};
    if (!t->tokenizer)
        return pare_output_copy_all(t->a, &t->model, t->place.partial, name, count);
    PARE_TRY(write_file(t, made[0], t->tokenizer, t->tokenizer_len));
    PARE_TRY(write_file(t, made[1], t->tokenizer_config, t->tokenizer_config_len));
    *name = made;
    *count = 2;
    return PARE_OK;
}

static pare_status write_manifest(pare_training *t, const pare_kept_hash *kept, const char **name,
                                  size_t names)
{
    char *text;
    size_t len;
    pare_file_digest *const output = PARE_NEW(t->a, pare_file_digest, names);
    if (!output)
        return PARE_ENOMEM;
    PARE_TRY(pare_inventory_digest(t->cx, t->a, t->place.partial, name, names, output));
    const pare_structure_result structure = {
        .before = &t->source.config, .source = t->kept, .sources = t->student.config.blocks};
    const pare_manifest m = {.version = PARE_VERSION,
                             .recipe = t->portable,
                             .seed = t->recipe.common.seed,
                             .tokens_sha256 = t->windows_sha256,
                             .held_out_sha256 = t->held_out_sha256,
                             .windows = t->windows.count / t->window,
                             .window = t->window,
                             .fresh = t->windows.count,
                             .precision = t->opts.bf16 ? "bf16" : "f32",
                             .config = &t->student.config,
                             .layout = &t->layout,
                             .kept = kept,
                             .kept_count = t->trainee.leaves,
                             .structure = &structure,
                             .input = t->input,
                             .inputs = t->inputs,
                             .output = output,
                             .outputs = names};
    PARE_TRY(pare_manifest_text(t->cx, t->a, &m, &text, &len));
    return write_file(t, PARE_MANIFEST_NAME, text, len);
}

static pare_status describe(pare_training *t, const pare_kept_hash *kept)
{
    const char *const *copied = NULL;
    char *config;
    size_t len, copies, count = 0;
    PARE_TRY(write_tokenizer(t, &copied, &copies));
    const char **const name = PARE_NEW(t->a, const char *, copies + t->layout.shards + 2);
    if (!name)
        return PARE_ENOMEM;
    for (uint32_t i = 0; i < t->layout.shards; i++)
        name[count++] = t->layout.shard_name[i];
    if (pare_packed_index_name(&t->layout))
        name[count++] = pare_packed_index_name(&t->layout);
    PARE_TRY(make_config(t, &config, &len));
    PARE_TRY(write_file(t, "config.json", config, len));
    name[count++] = "config.json";
    for (size_t i = 0; i < copies; i++)
        name[count++] = copied[i];
    PARE_TRY(write_file(t, "recipe.yaml", t->written, t->written_len));
    return write_manifest(t, kept, name, count);
}

pare_status pare__train_write(pare_training *t, pare_train_done *done)
{
    pare_packed_writer *w = NULL;
    pare_kept_hash *const kept = PARE_NEW(t->a, pare_kept_hash, t->trainee.leaves);
    PARE_TRY(kept ? lay_out(t) : PARE_ENOMEM);
    pare_status s = pare_packed_create(t->cx, t->place.partial, &t->layout, &w);
    if (s == PARE_OK)
        s = write_weights(t, w, kept);
    pare_packed_close(t->cx, w);
    PARE_TRY(s);
    for (uint32_t i = 0; i < t->layout.shards; i++)
        done->bytes += t->layout.file_bytes[i];
    PARE_TRY(describe(t, kept));
    return pare__train_report(t, done);
}
