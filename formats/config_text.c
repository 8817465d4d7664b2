/* The text part of a model of texts and images: its configuration as that of a model of its own.
 * What is written of it, an artifact or an export, is the text model alone.
 *
 * Source  transformers 5, models/gemma3/configuration_gemma3.py, models/qwen3_5/
 *         configuration_qwen3_5.py, models/qwen3_5_moe/configuration_qwen3_5_moe.py,
 *         models/llama4/configuration_llama4.py: the sizes that text_config may leave out. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "formats/config_internal.h"

enum { USUAL = 16 };

/* A model of texts and images, its text part, and sizes of a text_config that does not say them. */
typedef struct whole {
    const char *type, *text, *architecture;
    struct {
        const char *key;
        int64_t value;
    } usual[USUAL];
    double eps; /* rms_norm_eps likewise */
} whole;

static const whole wholes[] = {
    {"gemma3",
     "gemma3_text",
     "Gemma3ForCausalLM",
     {{"vocab_size", 262208},
      {"hidden_size", 2304},
      {"intermediate_size", 9216},
      {"num_hidden_layers", 26},
      {"num_attention_heads", 8},
      {"num_key_value_heads", 4},
      {"head_dim", 256},
      {"max_position_embeddings", 131072}},
     1e-6},
    {"qwen3_5",
     "qwen3_5_text",
     "Qwen3_5ForCausalLM",
     {{"vocab_size", 248320},
      {"hidden_size", 4096},
      {"intermediate_size", 12288},
      {"num_hidden_layers", 32},
      {"num_attention_heads", 16},
      {"num_key_value_heads", 4},
      {"head_dim", 256},
      {"max_position_embeddings", 32768},
      {"linear_num_key_heads", 16},
      {"linear_num_value_heads", 32},
      {"linear_key_head_dim", 128},
      {"linear_value_head_dim", 128},
      {"linear_conv_kernel_dim", 4}},
     1e-6},
    {"qwen3_5_moe",
     "qwen3_5_moe_text",
     "Qwen3_5MoeForCausalLM",
     {{"vocab_size", 248320},
      {"hidden_size", 2048},
      {"num_hidden_layers", 40},
      {"num_attention_heads", 16},
      {"num_key_value_heads", 2},
      {"head_dim", 256},
      {"max_position_embeddings", 32768},
      {"linear_num_key_heads", 16},
      {"linear_num_value_heads", 32},
      {"linear_key_head_dim", 128},
      {"linear_value_head_dim", 128},
      {"linear_conv_kernel_dim", 4},
      {"moe_intermediate_size", 512},
      {"shared_expert_intermediate_size", 512},
      {"num_experts_per_tok", 8},
      {"num_experts", 256}},
     1e-6},
    {"llama4",
     "llama4_text",
     "Llama4ForCausalLM",
     {{"vocab_size", 202048},
      {"hidden_size", 5120},
      {"intermediate_size", 8192},
      {"intermediate_size_mlp", 16384},
      {"num_hidden_layers", 48},
      {"num_attention_heads", 40},
      {"num_key_value_heads", 8},
      {"head_dim", 128},
      {"max_position_embeddings", 131072},
      {"num_local_experts", 16},
      {"num_experts_per_tok", 1}},
     1e-5},
};

/* What the whole says for its text part, too. */
static const char *const shared[] = {"bos_token_id",        "eos_token_id",        "pad_token_id",
                                     "tie_word_embeddings", "torch_dtype",         "dtype",
                                     "quantization_config", "transformers_version"};

static bool is_shared(const char *key)
{
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (strcmp(key, shared[i]) == 0)
            return true;
    return false;
}

static void put(pare_json_writer *w, const whole *kind, const pare_json *all, const pare_json *text)
{
    const char *key;
    const pare_json *value;
    pare_json_open_object(w, NULL);
    pare_json_open_array(w, "architectures");
    pare_json_put_text(w, NULL, kind->architecture);
    pare_json_close(w);
    pare_json_put_text(w, "model_type", kind->text);
    for (pare_json_iter it = {0}; pare_json_next(text, &it, &key, &value);)
        if (strcmp(key, "architectures") != 0 && strcmp(key, "model_type") != 0 &&
            !(is_shared(key) && !pare__config_absent(pare_json_get(all, key))))
            pare_json_put_copy(w, key, value);
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (!pare__config_absent(pare_json_get(all, shared[i])))
            pare_json_put_copy(w, shared[i], pare_json_get(all, shared[i]));
    for (size_t i = 0; i < USUAL && kind->usual[i].key; i++)
        if (pare_json_type_of(pare_json_get(text, kind->usual[i].key)) == PARE_JSON_ABSENT)
            pare_json_put_integer(w, kind->usual[i].key, kind->usual[i].value);
    if (pare_json_type_of(pare_json_get(text, "rms_norm_eps")) == PARE_JSON_ABSENT)
        pare_json_put_number(w, "rms_norm_eps", kind->eps);
    pare_json_close(w);
}

static const whole *find(const char *type)
{
    for (size_t i = 0; type && i < sizeof wholes / sizeof *wholes; i++)
        if (strcmp(type, wholes[i].type) == 0)
            return &wholes[i];
    return NULL;
}

pare_status pare_config_take_text(pare_ctx *cx, const char *name, pare_json **config, bool *part)
{
    const whole *const kind = find(pare_json_text(pare_json_get(*config, "model_type"), NULL));
    const pare_json *const text = pare_json_get(*config, "text_config");
    const pare_json *const type = pare_json_get(text, "model_type");
    const char *const is = pare_json_text(type, NULL);
    pare_json_writer *w = NULL;
    pare_json *doc = NULL;
    const char *words;
    size_t len;
    *part = kind;
    if (!*part)
        return PARE_OK;
    if (pare_json_type_of(text) != PARE_JSON_OBJECT)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: model_type is %s, but text_config is missing or not an object", name,
                         kind->type);
    if (!is && !pare__config_absent(type))
        return pare_fail(cx, PARE_EFORMAT, "%s: text_config: model_type is not a text", name);
    if (is && strcmp(is, kind->text) != 0)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: text_config: model_type %.64s is not supported (%s is)", name, is,
                         kind->text);
    PARE_TRY(pare_json_writer_new(cx, &w));
    put(w, kind, *config, text);
    pare_status s = pare_json_writer_finish(w, &words, &len);
    if (s == PARE_OK)
        s = pare_json_parse(cx, name, words, len, len, &doc);
    pare_json_writer_free(w);
    if (s != PARE_OK)
        return s;
    pare_json_free(*config);
    *config = doc;
    return PARE_OK;
}

pare_status pare__config_fail_usual(const pare_checkpoint *ck, pare_status s)
{
    char names[512] = "";
    pare_json *all = NULL;
    const pare_file *const f = &ck->config_file;
    if (!ck->is_part || s == PARE_ENOMEM || s == PARE_ENOTSUP)
        return s;
    PARE_TRY(pare_json_parse(ck->cx, f->path, (const char *)f->data, f->bytes, f->bytes, &all));
    const whole *const kind = find(pare_json_text(pare_json_get(all, "model_type"), NULL));
    const pare_json *const text = pare_json_get(all, "text_config");
    for (size_t i = 0, at = 0; kind && i < USUAL && kind->usual[i].key; i++)
        if (pare_json_type_of(pare_json_get(text, kind->usual[i].key)) == PARE_JSON_ABSENT &&
            at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s %" PRId64, at ? ", " : "",
                                   kind->usual[i].key, kind->usual[i].value);
    pare_json_free(all);
    return names[0] ? pare_fail_after(ck->cx, s,
                                      "text_config does not say all sizes, and these are defaults: "
                                      "%s",
                                      names)
                    : s;
}

const char *pare__text_tensor(pare_arena *a, const char *name)
{
    static const char *const prefix[][2] = {{"language_model.", ""},
                                            {"model.language_model.", "model."}};
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++) {
        const size_t len = strlen(prefix[i][0]), front = strlen(prefix[i][1]);
        const size_t rest = strlen(name) - (strlen(name) < len ? 0 : len);
        if (strncmp(name, prefix[i][0], len) != 0)
            continue;
        char *const text = PARE_NEW(a, char, front + rest + 1);
        if (text) {
            memcpy(text, prefix[i][1], front);
            memcpy(text + front, name + len, rest + 1);
        }
        return text;
    }
    return name;
}
