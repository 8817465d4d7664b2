/* The output: weights as a plain checkpoint, its config.json, tokenizer, manifest and report. */
#include <math.h>
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

/* A leaf as it is written: floats that were trained, which are rounded, or a tensor as the model
 * has it. */
typedef struct written {
    char name[PARE_TRAIN_NAME];
    pare_tensor tensor;        /* without data; its name is `name` */
    float *value;              /* [count], or NULL */
    const pare_tensor *source; /* with adapters: in the model's checkpoint */
    float offset, factor;      /* of a norm: the model holds (file + offset) factor */
    size_t count;
} written;

/* Of the leaf in front of `at`. With adapters all else keeps its type, unless it is to be F32. */
static pare_status describe_leaf(const pare_training *t, size_t at, const pare_leaf *leaf,
                                 written *w)
{
    const pare_config *const c = &t->student.config;
    const size_t each = pare_block_leaves(c), i = at - 1, inside = c->blocks * each;
    char name[PARE_TRAIN_NAME];
    w->count = leaf->n * leaf->k;
    w->tensor = (pare_tensor){.name = w->name,
                              .dtype = t->dtype,
                              .rank = leaf->linear ? 2 : 1,
                              .shape = {leaf->n, leaf->linear ? leaf->k : 0}};
    if (leaf->kind == PARE_LEAF_STATE_VECTOR && leaf->index == PARE_STATE_CONV) {
        w->tensor.rank = 3; /* [channels, 1, taps] */
        w->tensor.shape[0] = leaf->n / c->recurrence.taps;
        w->tensor.shape[1] = 1;
        w->tensor.shape[2] = c->recurrence.taps;
    }
    w->offset = offset_of(t, leaf);
    w->factor = pare_norm_factor(c, leaf->name == c->arch->norm);
    if (!t->adapter) {
        w->value = pare_leaf_floats(leaf);
    } else {
        (void)snprintf(name, sizeof name, "%s", w->name);
        if (i < inside)
            (void)snprintf(name + pare_arch_name_in(c->arch, t->kept[i / each], leaf->part,
                                                    leaf->name, name, sizeof name - 16),
                           16, "%s", pare_leaf_suffix(leaf));
        w->source = pare_checkpoint_find(&t->model, name);
        if (!w->source ||
            w->source->bytes != (uint64_t)w->count * pare_dtype_bits(w->source->dtype) / 8)
            return pare_fail(t->cx, PARE_EINVAL, "%s: the model has no such tensor of this size",
                             name);
        w->value =
            i < inside && pare__train_adapted(t, i / each, leaf) ? leaf->linear->floats : NULL;
        w->tensor.dtype = t->recipe.store == PARE_STORE_AUTO ? w->source->dtype : PARE_F32;
    }
    w->tensor.bytes = (uint64_t)w->count * pare_dtype_bits(w->tensor.dtype) / 8;
    return PARE_OK;
}

/* Leaf `at` and what follows; *more false behind the last. */
static pare_status next_written(const pare_training *t, size_t *at, written *w, bool *more)
{
    pare_leaf leaf;
    *more = pare__train_leaf(t, at, &leaf, w->name);
    return *more ? describe_leaf(t, *at, &leaf, w) : PARE_OK;
}

static size_t count_leaves(const pare_training *t)
{
    char name[PARE_TRAIN_NAME];
    pare_leaf leaf;
    size_t count = 0;
    for (size_t at = 0; pare__train_leaf(t, &at, &leaf, name);)
        count++;
    return count;
}

/* The bytes of a leaf; in scratch, where they are not those of the model. */
static pare_status store(pare_training *t, const written *w, const void **out)
{
    if (!w->value && w->source->dtype == w->tensor.dtype) {
        *out = w->source->data;
        return PARE_OK;
    }
    float *const value = PARE_NEW(&t->scratch, float, w->count);
    void *const stored =
        pare_arena_take(&t->scratch, w->count, pare_dtype_bits(w->tensor.dtype) / 8);
    if (!value || !stored)
        return PARE_ENOMEM;
    if (!w->value)
        PARE_TRY(pare_tensor_to_f32(t->cx, w->source, 0, w->count, value));
    for (size_t i = 0; w->value && i < w->count; i++)
        value[i] = w->value[i] / w->factor - w->offset;
    *out = stored;
    return pare_f32_to_dtype(t->cx, w->tensor.dtype, value, w->count, stored);
}

/* The largest magnitude of what is written of a leaf. */
static double largest(const written *w)
{
    double most = 0;
    for (size_t i = 0; i < w->count; i++)
        most = fmax(most, fabs((double)w->value[i] / (double)w->factor - w->offset));
    return most;
}

static pare_status round_leaf(pare_training *t, const written *w)
{
    pare_tensor stored = w->tensor;
    const double most = largest(w);
    bool fits = true;
    PARE_TRY(store(t, w, &stored.data));
    PARE_TRY(pare_tensor_to_f32(t->cx, &stored, 0, w->count, w->value));
    for (size_t j = 0; j < w->count; j++) {
        fits = fits && isfinite(w->value[j]);
        w->value[j] =
            w->factor * (w->offset != 0 ? w->value[j] + w->offset : w->value[j]); /* -0 stays */
    }
    return fits ? PARE_OK
                : pare_fail(t->cx, PARE_ENUMERIC,
                            "%s: its largest weight is %.4g, which %s cannot hold; the training is "
                            "saved, and the same command with \"dtype: f32\"%s ends it",
                            w->name, most, pare_dtype_name(w->tensor.dtype),
                            t->adapter ? "" : " (or bf16)");
}

pare_status pare__train_round(pare_training *t)
{
    written w = {0};
    size_t at = 0;
    if (t->adapter && !t->adapter->merged)
        return PARE_OK;
    for (bool more;;) {
        const pare_mark mark = pare_arena_mark(&t->scratch);
        PARE_TRY(next_written(t, &at, &w, &more));
        const pare_status s = more && w.value ? round_leaf(t, &w) : PARE_OK;
        pare_arena_rewind(&t->scratch, mark);
        if (s != PARE_OK || !more)
            return s;
    }
}

static pare_status lay_out(pare_training *t, size_t leaves)
{
    pare_tensor *const tensor = PARE_NEW(t->a, pare_tensor, leaves);
    size_t *const unit = PARE_NEW(t->a, size_t, leaves);
    written w = {0};
    bool more;
    if (!tensor || !unit)
        return PARE_ENOMEM;
    size_t at = 0;
    for (size_t i = 0; i < leaves; i++) {
        PARE_TRY(next_written(t, &at, &w, &more));
        tensor[i] = w.tensor;
        tensor[i].name = pare_arena_text(t->a, w.name, strlen(w.name));
        unit[i] = t->student.config.blocks;
        if (!tensor[i].name)
            return PARE_ENOMEM;
    }
    return pare_packed_layout_dense(t->cx, t->a, tensor, unit, leaves, shard_bytes, &t->layout);
}

/* All weights; kept [leaves] are their hashes. */
static pare_status write_weights(pare_training *t, pare_packed_writer *w, pare_kept_hash *kept,
                                 size_t leaves)
{
    written leaf = {0};
    bool more;
    size_t at = 0;
    for (size_t i = 0; i < leaves; i++) {
        PARE_TRY(next_written(t, &at, &leaf, &more));
        const pare_packed_entry *const e = pare_packed_find(&t->layout, leaf.name);
        const pare_mark mark = pare_arena_mark(&t->scratch);
        const void *stored = NULL;
        if (!e)
            return pare_fail(t->cx, PARE_EINVAL, "%s: the layout has no such tensor", leaf.name);
        pare_ctx_progress(t->cx, "writing weights", (double)i, (double)leaves);
        pare_status s = store(t, &leaf, &stored);
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

/* Names a token of the tokenizer that the config.json was written for ("pad_token_id"). */
static bool names_token(const char *key)
{
    const char *const at = strstr(key, "_token_id");
    return at && strcmp(at, "_token_id") == 0;
}

/* The members of config.json, but for the type of the weights, and tokens of a tokenizer that was
 * trained: those that it has. */
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
        else if (!t->tokenizer || !names_token(key))
            pare_config_put_member(w, &t->student.config, key, value);
    }
    if (!said)
        pare_json_put_text(w, "torch_dtype", dtype_name(t->dtype));
    if (t->tokenizer) {
        pare_json_put_integer(w, "bos_token_id", t->bos);
        pare_json_put_integer(w, "eos_token_id", t->eos);
    }
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

pare_status pare__train_file(pare_training *t, const char *name, const char *text, size_t len)
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
    PARE_TRY(pare__train_file(t, made[0], t->tokenizer, t->tokenizer_len));
    PARE_TRY(pare__train_file(t, made[1], t->tokenizer_config, t->tokenizer_config_len));
    *name = made;
    *count = 2;
    return PARE_OK;
}

pare_status pare__train_manifest(pare_training *t, const pare_kept_hash *kept, size_t count,
                                 const char *const *name, size_t names)
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
                             .held_out_sha256 = t->held_out_sha256,
                             .training_sha256 = t->windows_sha256,
                             .trained = true,
                             .windows = t->windows.count / t->window,
                             .window = t->window,
                             .precision = t->opts.bf16 ? "bf16" : "f32",
                             .config = &t->student.config,
                             .layout = &t->layout,
                             .kept = kept,
                             .kept_count = count,
                             .structure = &structure,
                             .adapter = t->adapter,
                             .input = t->input,
                             .inputs = t->inputs,
                             .output = output,
                             .outputs = names};
    PARE_TRY(pare_manifest_text(t->cx, t->a, &m, &text, &len));
    return pare__train_file(t, PARE_MANIFEST_NAME, text, len);
}

static pare_status describe(pare_training *t, const pare_kept_hash *kept, size_t leaves)
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
    PARE_TRY(pare__train_file(t, "config.json", config, len));
    name[count++] = "config.json";
    for (size_t i = 0; i < copies; i++)
        name[count++] = copied[i];
    PARE_TRY(pare__train_file(t, "recipe.yaml", t->written, t->written_len));
    return pare__train_manifest(t, kept, leaves, name, count);
}

pare_status pare__train_write(pare_training *t, pare_train_done *done)
{
    pare_packed_writer *w = NULL;
    const size_t leaves = count_leaves(t);
    pare_kept_hash *const kept = PARE_NEW(t->a, pare_kept_hash, leaves);
    PARE_TRY(kept ? lay_out(t, leaves) : PARE_ENOMEM);
    pare_status s = pare_packed_create(t->cx, t->place.partial, &t->layout, &w);
    if (s == PARE_OK)
        s = write_weights(t, w, kept, leaves);
    pare_packed_close(t->cx, w);
    PARE_TRY(s);
    for (uint32_t i = 0; i < t->layout.shards; i++)
        done->bytes += t->layout.file_bytes[i];
    return describe(t, kept, leaves);
}
