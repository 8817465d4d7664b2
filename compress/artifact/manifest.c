#include "compress/artifact/manifest.h"

#include <stdio.h>
#include <string.h>

#include "formats/config_copy.h"
#include "formats/format_version.h"
#include "formats/packed_kv.h"

static void put_size(pare_json_writer *w, const char *key, uint64_t value)
{
    pare_json_put_integer(w, key, (int64_t)value);
}

static void put_hash(pare_json_writer *w, const char *key, const uint8_t hash[16])
{
    char hex[PARE_XXH3_HEX];
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    pare_json_put_text(w, key, hex);
}

static void put_shape(pare_json_writer *w, const uint64_t *shape, size_t rank)
{
    pare_json_open_array(w, "shape");
    for (size_t i = 0; i < rank; i++)
        put_size(w, NULL, shape[i]);
    pare_json_close(w);
}

static void put_files(pare_json_writer *w, const char *key, const pare_file_digest *file,
                      size_t count)
{
    pare_json_open_array(w, key);
    for (size_t i = 0; i < count; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "file", file[i].file);
        put_size(w, "bytes", file[i].bytes);
        pare_json_put_text(w, "sha256", file[i].sha256);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_windows(pare_json_writer *w, const pare_manifest *m)
{
    put_size(w, "windows", m->windows);
    put_size(w, "window", m->window);
}

static void put_work(pare_json_writer *w, const pare_manifest *m,
                     const char recipe_sha256[PARE_SHA256_HEX])
{
    pare_json_put_text(w, "pare", m->version);
    put_size(w, "format", PARE_MANIFEST_FORMAT);
    pare_json_put_text(w, "recipe_sha256", recipe_sha256);
    pare_json_put_text(w, "recipe", m->recipe);
    put_size(w, "seed", m->seed);
    if (m->tokens_sha256) {
        pare_json_open_object(w, "calibration");
        if (m->tokens_sha256[0])
            pare_json_put_text(w, "tokens_sha256", m->tokens_sha256);
        put_windows(w, m);
        put_size(w, "new_tokens", m->fresh);
        pare_json_put_text(w, "token_weights", m->token_weights ? "loss" : "even");
        pare_json_put_text(w, "precision", m->precision);
        if (m->statistics) {
            char hex[PARE_XXH3_HEX];
            pare_xxh3_text(m->statistics, hex);
            pare_json_put_text(w, "statistics_xxh3", hex);
        }
        if (m->share) {
            pare_json_open_array(w, "windows_of_texts");
            for (size_t i = 0; i < m->shares; i++)
                put_size(w, NULL, m->share[i]);
            pare_json_close(w);
        }
        pare_json_close(w);
    } else {
        pare_json_put_null(w, "calibration");
    }
    if (m->held_out_sha256)
        pare_json_put_text(w, "held_out_sha256", m->held_out_sha256);
    if (m->training_sha256)
        pare_json_put_text(w, "training_sha256", m->training_sha256);
    if (m->trained) {
        pare_json_open_object(w, "training");
        put_windows(w, m);
        pare_json_put_text(w, "precision", m->precision);
        pare_json_close(w);
    }
    put_files(w, "inputs", m->input, m->inputs);
    if (m->evaluated_count) { /* wherever the files lie, as for calibration */
        pare_json_open_array(w, "evaluated_sha256");
        for (size_t i = 0; i < m->evaluated_count; i++)
            pare_json_put_text(w, NULL, m->evaluated[i].sha256);
        pare_json_close(w);
    }
    if (m->blas)
        pare_json_put_text(w, "blas", m->blas);
}

static void put_model(pare_json_writer *w, const pare_config *c)
{
    pare_json_open_object(w, "model");
    pare_json_put_text(w, "model_type", c->arch->model_type);
    put_size(w, "hidden", c->hidden);
    put_size(w, "intermediate", c->intermediate);
    if (c->uneven)
        pare_config_put_widths(w, "intermediates", c);
    put_size(w, "blocks", c->blocks);
    put_size(w, "heads", c->heads);
    put_size(w, "kv_heads", c->kv_heads);
    put_size(w, "head_dim", c->head_dim);
    put_size(w, "vocab", c->vocab);
    put_size(w, "context", c->context);
    if (c->experts) {
        put_size(w, "experts", c->experts);
        put_size(w, "experts_used", c->experts_used);
        put_size(w, "expert_width", c->expert_width);
    }
    pare_json_put_bool(w, "tied", c->tied);
    pare_json_close(w);
}

/* NULL for an error that was not measured. */
static void put_error(pare_json_writer *w, double error)
{
    if (error < 0)
        pare_json_put_null(w, "output_error");
    else
        pare_json_put_number(w, "output_error", error);
}

/* A single step is what the row says already. */
static void put_steps(pare_json_writer *w, const pare_linear_result *r)
{
    if (r->steps < 2 && !(r->steps && r->step[0].note[0]))
        return;
    pare_json_open_array(w, "steps");
    for (size_t i = 0; i < r->steps; i++) {
        const pare_step_result *const s = &r->step[i];
        pare_json_open_object(w, NULL);
        put_size(w, "step", s->step);
        pare_json_put_text(w, "pass", s->pass);
        pare_json_put_number(w, "weight_error", s->weight_error);
        put_error(w, s->output_error);
        if (s->note[0])
            pare_json_put_text(w, "note", s->note);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_row(pare_json_writer *w, const pare_linear_result *r)
{
    const pare_packed_linear *const l = &r->linear;
    pare_json_open_object(w, l->name);
    pare_json_put_text(w, "encoding", pare_encoding_is_float(l->encoding) ? "F16" : "R8K32");
    put_size(w, "bits", l->bits);
    put_size(w, "group", l->group);
    pare_json_put_bool(w, "symmetric", l->symmetric);
    if (!pare_encodings[l->encoding].uniform && !pare_encoding_is_float(l->encoding))
        pare_json_put_text(w, "values", pare_encodings[l->encoding].name);
    pare_packed_extras_put(w, l);
    put_shape(w, (const uint64_t[]){l->n, l->k}, 2);
    pare_json_put_number(w, "bits_per_weight", r->bits_per_weight);
    if (r->pruned)
        pare_json_put_number(w, "zeros", r->zeros);
    if (r->stability > 0)
        pare_json_put_number(w, "stability", r->stability);
    pare_json_put_text(w, "method", r->method);
    pare_json_put_number(w, "weight_error", r->weight_error);
    put_error(w, r->output_error);
    pare_json_put_number(w, "damp", r->damp);
    put_size(w, "damp_raises", r->raises);
    pare_json_put_bool(w, "double_precision", r->f64);
    pare_json_put_bool(w, "fallback", r->fallback);
    put_size(w, "dead_columns", r->dead);
    if (r->coarse || r->lost) {
        put_size(w, "coarse_groups", r->coarse);
        put_size(w, "lost_weights", r->lost);
    }
    if (r->support.known) {
        put_size(w, "rank", r->support.rank);
        pare_json_put_number(w, "effective_samples", r->support.effective);
    }
    if (r->thin)
        pare_json_put_bool(w, "thin", true);
    if (r->part)
        put_size(w, "expert", r->part - 1);
    if (r->tokens >= 0)
        pare_json_put_integer(w, "tokens", r->tokens);
    if (r->cold != PARE_COLD_NOT)
        pare_json_put_text(w, "cold", pare_cold_policy_name(r->cold));
    put_steps(w, r);
    pare_json_open_object(w, "xxh3");
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        pare_tensor t;
        if (pare_packed_plane_shape(l, p, &t))
            put_hash(w, pare_packed_plane_name(p), r->hash[p]);
    }
    pare_json_close(w);
    pare_json_close(w);
}

static void put_kept(pare_json_writer *w, const pare_tensor *t, const uint8_t hash[16])
{
    pare_json_open_object(w, t->name);
    pare_json_put_text(w, "dtype", pare_dtype_name(t->dtype));
    put_shape(w, t->shape, t->rank);
    put_hash(w, "xxh3", hash);
    pare_json_close(w);
}

static void put_blocks(pare_json_writer *w, const pare_structure_result *s)
{
    if (!s->influence)
        return;
    pare_json_open_array(w, "influence");
    for (size_t i = 0; i < s->before->blocks; i++)
        pare_json_put_number(w, NULL, s->influence[i]);
    pare_json_close(w);
    pare_json_open_array(w, "blocks");
    for (size_t i = 0; i < s->sources; i++)
        put_size(w, NULL, s->source[i]);
    pare_json_close(w);
}

/* Of each block with experts: the numbers of those that went, and of all of them their scores and
 * the tokens that they got. */
static void put_experts(pare_json_writer *w, const pare_structure_result *s)
{
    if (!s->expert)
        return;
    put_size(w, "least_tokens", s->least_tokens);
    pare_json_open_array(w, "experts");
    for (size_t b = 0; b < s->before->blocks; b++) {
        const pare_expert_choice *const c = &s->expert[b];
        if (!c->keep)
            continue;
        pare_json_open_object(w, NULL);
        put_size(w, "block", b);
        pare_json_open_array(w, "gone");
        for (size_t e = 0; e < s->before->experts; e++)
            if (!c->keep[e])
                put_size(w, NULL, e);
        pare_json_close(w);
        pare_json_open_array(w, "score");
        for (size_t e = 0; e < s->before->experts; e++)
            pare_json_put_number(w, NULL, c->score[e]);
        pare_json_close(w);
        pare_json_open_array(w, "tokens");
        for (size_t e = 0; e < s->before->experts; e++)
            put_size(w, NULL, c->tokens[e]);
        pare_json_close(w);
        pare_json_close(w);
    }
    pare_json_close(w);
}

/* What structured steps took out. */
static void put_structure(pare_json_writer *w, const pare_structure_result *s)
{
    if (!s)
        return;
    pare_json_open_object(w, "structure");
    put_blocks(w, s);
    put_experts(w, s);
    if (s->captured > 0)
        pare_json_put_number(w, "captured", s->captured);
    pare_json_open_array(w, "cuts");
    for (size_t i = 0; i < s->cuts; i++) {
        const pare_cut_result *const c = &s->cut[i];
        pare_json_open_object(w, NULL);
        put_size(w, "block", s->cut_block[i]);
        put_size(w, "step", c->step);
        pare_json_put_text(w, "pass", c->pass);
        pare_json_put_text(w, "part", pare_part_name(c->part));
        put_size(w, "before", c->before);
        put_size(w, "after", c->after);
        pare_json_put_number(w, "score_lost", c->lost);
        put_error(w, c->output_error);
        pare_json_close(w);
    }
    pare_json_close(w);
    pare_json_close(w);
}

static pare_status put_tensors(pare_ctx *cx, pare_json_writer *w, const pare_manifest *m)
{
    pare_json_open_object(w, "tensors");
    for (size_t i = 0; i < m->rows; i++)
        put_row(w, &m->row[i]);
    pare_json_close(w);
    pare_json_open_object(w, "kept");
    for (size_t i = 0; i < m->kept_count; i++) {
        const pare_packed_entry *const e = pare_packed_find(m->layout, m->kept[i].name);
        if (!e)
            return pare_fail(cx, PARE_EINVAL, "%s: the layout has no such tensor", m->kept[i].name);
        put_kept(w, &e->tensor, m->kept[i].hash);
    }
    pare_json_close(w);
    return PARE_OK;
}

/* "repaired": {TENSOR: weights}, when there were such. */
static void put_repairs(pare_json_writer *w, const pare_manifest *m)
{
    if (!m->repairs)
        return;
    pare_json_open_object(w, "repaired");
    for (size_t i = 0; i < m->repairs; i++)
        pare_json_put_integer(w, m->repair[i].tensor, (int64_t)m->repair[i].weights);
    pare_json_close(w);
}

/* Takes the finished text into the arena. */
static pare_status take_text(pare_json_writer *w, pare_arena *a, char **text, size_t *len)
{
    const char *from = NULL;
    PARE_TRY(pare_json_writer_finish(w, &from, len));
    *text = pare_arena_text(a, from, *len);
    return *text ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_manifest_text(pare_ctx *cx, pare_arena *a, const pare_manifest *m, char **text,
                               size_t *len)
{
    pare_json_writer *w = NULL;
    char recipe[PARE_SHA256_HEX];
    PARE_TRY(pare_sha256_hex(cx, m->recipe, strlen(m->recipe), recipe));
    PARE_TRY(pare_json_writer_new(cx, &w));
    pare_json_open_object(w, NULL);
    put_work(w, m, recipe);
    put_model(w, m->config);
    pare_packed_kv_put(w, &m->layout->kv);
    put_structure(w, m->structure);
    if (m->adapter)
        pare_adapter_put(w, m->adapter);
    put_repairs(w, m);
    pare_status s = put_tensors(cx, w, m);
    pare_json_put_number(w, "bits_per_weight", m->bits_per_weight);
    put_files(w, "outputs", m->output, m->outputs);
    pare_json_close(w);
    if (s == PARE_OK)
        s = take_text(w, a, text, len);
    pare_json_writer_free(w);
    return s == PARE_OK ? s : pare_fail_context(cx, s, "manifest.json");
}

static const char quantization[] = "quantization_config";

pare_status pare_manifest_config(pare_ctx *cx, pare_arena *a, const pare_json *config,
                                 const pare_config *c, char **text, size_t *len)
{
    pare_json_writer *w = NULL;
    PARE_TRY(pare_json_writer_new(cx, &w));
    pare_json_open_object(w, NULL);
    const char *key;
    const pare_json *value;
    for (pare_json_iter it = {0}; pare_json_next(config, &it, &key, &value);)
        if (strcmp(key, quantization) != 0)
            pare_config_put_member(w, c, key, value);
    pare_config_put_tied(w, c, config);
    pare_json_open_object(w, quantization);
    pare_json_put_text(w, "quant_method", "pare");
    put_size(w, "format", PARE_CONFIG_FORMAT);
    pare_json_put_text(w, "layout", "R8K32");
    pare_json_put_text(w, "index", "packed.index.json");
    pare_json_close(w);
    pare_json_close(w);
    const pare_status s = take_text(w, a, text, len);
    pare_json_writer_free(w);
    return s == PARE_OK ? s : pare_fail_context(cx, s, "config.json");
}

/* A member of config.json that a smaller model changes. */
typedef struct member {
    const char *key;
    bool flag;
    size_t value;
} member;

static void put_member(pare_json_writer *w, const member *m)
{
    if (m->flag)
        pare_json_put_bool(w, m->key, m->value != 0);
    else
        put_size(w, m->key, m->value);
}

/* A list with one item for each block. Lists of numbers of blocks have other names. */
static bool is_block_list(const char *key, const pare_json *v, size_t blocks)
{
    static const char *const words[] = {"layer_types", "mlp_layer_types", "layers_block_type",
                                        "no_rope_layers"};
    bool is = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is |= strcmp(key, words[i]) == 0;
    return is && pare_json_type_of(v) == PARE_JSON_ARRAY && pare_json_count(v) == blocks;
}

/* The items of the blocks that stay. */
static void put_block_list(pare_json_writer *w, const char *key, const pare_json *v,
                           const pare_structure_result *r)
{
    pare_json_open_array(w, key);
    for (size_t i = 0; i < r->sources; i++)
        pare_json_put_copy(w, NULL, pare_json_at(v, r->source[i]));
    pare_json_close(w);
}

pare_status pare_manifest_dense_config(pare_ctx *cx, pare_arena *a, const pare_json *config,
                                       const pare_config *c, const pare_structure_result *r,
                                       bool attention_bias, bool mlp_bias, char **text, size_t *len)
{
    const member ours[] = {
        {"hidden_size", false, c->hidden},           {"intermediate_size", false, c->intermediate},
        {"num_hidden_layers", false, c->blocks},     {"num_attention_heads", false, c->heads},
        {"num_key_value_heads", false, c->kv_heads}, {"head_dim", false, c->head_dim},
        {"attention_bias", true, attention_bias},    {"mlp_bias", true, mlp_bias},
        {"tie_word_embeddings", true, c->tied}};
    enum { OURS = sizeof ours / sizeof *ours, MLP = 1 };
    pare_json_writer *w = NULL;
    const char *key;
    const pare_json *value;
    PARE_TRY(pare_json_writer_new(cx, &w));
    pare_json_open_object(w, NULL);
    for (pare_json_iter it = {0}; pare_json_next(config, &it, &key, &value);) {
        size_t i = 0;
        if (strcmp(key, quantization) == 0) /* its weights are floats now */
            continue;
        while (i < OURS && strcmp(key, ours[i].key) != 0)
            i++;
        if (c->uneven && strcmp(key, ours[MLP].key) == 0)
            pare_config_put_widths(w, key, c);
        else if (i < OURS)
            put_member(w, &ours[i]);
        else if (r->sources && is_block_list(key, value, r->before->blocks))
            put_block_list(w, key, value, r);
        else
            pare_config_put_member(w, c, key, value);
    }
    for (size_t i = 0; i < OURS; i++)
        if (pare_json_type_of(pare_json_get(config, ours[i].key)) == PARE_JSON_ABSENT)
            put_member(w, &ours[i]);
    pare_json_close(w);
    const pare_status s = take_text(w, a, text, len);
    pare_json_writer_free(w);
    return s == PARE_OK ? s : pare_fail_context(cx, s, "config.json");
}

/* Words of some family: one that this family does not read, and other programs may. */
static bool is_count(const char *key)
{
    return strcmp(key, "num_experts") == 0 || strcmp(key, "num_local_experts") == 0 ||
           strcmp(key, "n_routed_experts") == 0;
}

pare_status pare_manifest_experts_config(pare_ctx *cx, pare_arena *a, const pare_json *config,
                                         const pare_config *c, size_t before, bool quantized,
                                         char **text, size_t *len)
{
    const char *const *const word = c->arch->experts->count;
    pare_json_writer *w = NULL;
    const char *key;
    const pare_json *value;
    bool said = false;
    PARE_TRY(pare_json_writer_new(cx, &w));
    pare_json_open_object(w, NULL);
    for (pare_json_iter it = {0}; pare_json_next(config, &it, &key, &value);) {
        const bool counts = strcmp(key, word[0]) == 0 || (word[1] && strcmp(key, word[1]) == 0) ||
                            (is_count(key) && pare_json_integer(value, -1) == (int64_t)before);
        said |= counts;
        if (counts)
            put_size(w, key, c->experts);
        else if (quantized || strcmp(key, quantization) != 0)
            pare_config_put_member(w, c, key, value);
    }
    if (!said)
        put_size(w, word[0], c->experts);
    pare_config_put_tied(w, c, config);
    pare_json_close(w);
    const pare_status s = take_text(w, a, text, len);
    pare_json_writer_free(w);
    return s == PARE_OK ? s : pare_fail_context(cx, s, "config.json");
}

double pare_manifest_bits_per_weight(const pare_packed_linear *linear, size_t count)
{
    double bits = 0, weights = 0;
    for (size_t i = 0; i < count; i++) {
        bits += 8.0 * (double)pare_packed_linear_bytes(&linear[i]).total;
        weights += (double)linear[i].n * (double)linear[i].k;
    }
    return weights > 0 ? bits / weights : 0;
}
