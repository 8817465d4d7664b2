/* The canonical text of a recipe. It is a recipe again, and normalizing that gives the same text.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "recipes/recipe_internal.h"
#include "recipes/train_recipe.h"

/* Counts on the first walk (text NULL), writes on the second. */
typedef struct sink {
    char *text;
    size_t len;
} sink;

static void put(sink *s, const char *text, size_t len)
{
    if (s->text)
        memcpy(s->text + s->len, text, len);
    s->len += len;
}

static void put_text(sink *s, const char *text)
{
    put(s, text, strlen(text));
}

/* For short pieces only: numbers and names. */
static void put_format(sink *s, const char *fmt, ...) PARE_PRINTF(2, 3);
static void put_format(sink *s, const char *fmt, ...)
{
    char piece[128];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(piece, sizeof piece, fmt, ap);
    va_end(ap);
    put_text(s, piece);
}

/* Characters that YAML would not take, or would fold, inside double quotes: the C0 and C1 controls,
 * the line separators, the byte order mark and the two that are no characters. */
static size_t special(const unsigned char *p, unsigned *c)
{
    *c = p[0];
    if (p[0] < 0x20 || p[0] == 0x7f || p[0] == '"' || p[0] == '\\')
        return 1;
    if (p[0] == 0xc2 && p[1] < 0xa0) {
        *c = p[1];
        return 2;
    }
    if ((p[0] & 0xf0) != 0xe0)
        return 0;
    *c = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    return *c == 0x2028 || *c == 0x2029 || *c == 0xfeff || *c >= 0xfffe ? 3 : 0;
}

static void put_quoted(sink *s, const char *text)
{
    put(s, "\"", 1);
    for (const char *p = text; *p;) {
        unsigned c;
        const size_t n = special((const unsigned char *)p, &c);
        if (n == 0)
            put(s, p, 1);
        else if (c == '"' || c == '\\')
            put_format(s, "\\%c", (int)c);
        else
            put_format(s, "\\u%04X", c);
        p += n ? n : 1;
    }
    put(s, "\"", 1);
}

pare_status pare_recipe_quote(pare_arena *a, const char *text, char **out)
{
    sink s = {0};
    put_quoted(&s, text);
    s = (sink){.text = *out = PARE_NEW(a, char, s.len + 1)}; /* zeros: ends in NUL */
    if (!s.text)
        return PARE_ENOMEM;
    put_quoted(&s, text);
    return PARE_OK;
}

static void put_texts(sink *s, const char *key, const pare_texts *texts)
{
    if (texts->count == 0)
        return;
    put_format(s, "%s: [", key);
    for (size_t i = 0; i < texts->count; i++) {
        put_text(s, i ? ", " : "");
        put_quoted(s, texts->item[i].text);
    }
    put_text(s, "]\n");
}

/* A data path; in the portable form only its kind counts. */
static void put_path(sink *s, const char *key, const char *path, bool portable)
{
    put_format(s, "%s: ", key);
    put_quoted(s, portable ? "data" : path);
    put_text(s, "\n");
}

static void put_task_path(sink *s, const char *indent, const char *task, const char *path,
                          bool portable)
{
    put_text(s, indent);
    put_path(s, task, path, portable);
}

static void put_parts(sink *s, const pare_calibration *c, bool portable)
{
    put_text(s, "  text: [");
    for (size_t i = 0; i < c->text.count; i++) {
        char number[PARE__NUMBER];
        pare__number_print(c->weight[i], number);
        put_text(s, i ? ", {path: " : "{path: ");
        put_quoted(s, portable ? "data" : c->text.item[i].text);
        put_format(s, ", weight: %s}", number);
    }
    put_text(s, "]\n");
}

static void put_calibration(sink *s, const pare_calibration *c, bool portable)
{
    if (c->kind == PARE_CALIBRATION_NONE)
        return;
    put_text(s, "calibration:\n");
    if (c->kind == PARE_CALIBRATION_FROM) {
        put_path(s, "  from", c->from.text, portable);
        return;
    }
    char number[PARE__NUMBER];
    pare__number_print(c->temperature, number);
    if (c->kind == PARE_CALIBRATION_GENERATE)
        put_format(s, "  generate: {temperature: %s}\n", number);
    else if (c->kind == PARE_CALIBRATION_TOKENS)
        put_path(s, "  tokens", c->tokens.text, portable);
    else if (c->weight)
        put_parts(s, c, portable);
    else if (portable)
        put_path(s, "  text", NULL, true);
    else
        put_texts(s, "  text", &c->text);
    if (c->samples)
        put_format(s, "  samples: %zu\n", c->samples);
    else
        put_text(s, "  samples: all\n");
    if (portable || c->window_given)
        put_format(s, "  window: %zu\n", c->window);
    if (c->token_weights_given)
        put_format(s, "  token_weights: %s\n", pare_token_weighing_name(c->token_weights));
    if (c->precision != PARE_PRECISION_AUTO)
        put_format(s, "  precision: %s\n", pare_precision_name(c->precision));
    if (c->keep.text)
        put_path(s, "  keep", c->keep.text, portable);
    if (c->experts_given) {
        char tokens[64];
        pare_param_print(&pare_experts_params[0], (double)c->min_tokens, tokens, sizeof tokens);
        put_format(s, "  experts: {min_tokens: %s, cold: %s}\n", tokens,
                   pare_cold_policy_name(c->cold));
    }
}

static void put_value(sink *s, const pare_param *p, double value)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    char text[64];
    pare_param_print(p, value, text, sizeof text);
    put_format(s, "      %s: ", p->name);
    if (text[strspn(text, safe)])
        put_quoted(s, text);
    else
        put_text(s, text);
    put_text(s, "\n");
}

/* before: of its name, as wide as "  - ". */
static void put_step(sink *s, const char *before, const pare_step *step,
                     const pare_pass_words *pass)
{
    put_format(s, "%s%s:\n", before, pass->name);
    char by[PARE__WORD];
    for (size_t i = 0; pass->params[i].name; i++)
        if (!pare__param_idle(pass->params, step->value, i, by))
            put_value(s, &pass->params[i], step->value[i]);
    put_texts(s, "      targets", &step->targets);
    put_texts(s, "      skip", &step->skip);
}

/* What the planner has chosen is not what was given. */
static void put_answers(sink *s, const pare_evaluation *e, bool portable)
{
    if (e->kind == PARE_EVALUATE_NEEDLE) {
        for (size_t i = 0; i < e->lengths && (portable || e->lengths_given); i++)
            put_format(s, "%s%zu%s", i ? ", " : "      lengths: [", e->length[i],
                       i + 1 < e->lengths ? "" : "]\n");
        put_format(s, "      keys: %zu\n", e->keys);
    } else if (e->kind == PARE_EVALUATE_CONTINUATIONS) {
        char temperature[PARE__NUMBER];
        pare__number_print(e->temperature, temperature);
        put_format(s, "      prompts: %zu\n", e->prompts);
        if (portable || e->most_given)
            put_format(s, "      continue_tokens: %zu\n", e->most);
        put_format(s, "      temperature: %s\n", temperature);
    } else {
        return;
    }
    put_format(s, "      seed: %llu\n", (unsigned long long)e->seed);
}

static void put_evaluation(sink *s, const pare_evaluation *e, bool portable)
{
    put_format(s, "  - %s:\n", pare_evaluation_kind_name(e->kind));
    if (e->text.text)
        put_path(s, "      text", e->text.text, portable);
    else if (e->tokens.text)
        put_path(s, "      tokens", e->tokens.text, portable);
    else if (e->task.text)
        put_task_path(s, "      ", e->task.text, e->file.text, portable);
    else
        put_path(s, "      file", e->file.text, portable);
    if (!pare_evaluation_asks(e->kind) && (portable || e->window_given))
        put_format(s, "      window: %zu\n", e->window);
    if (e->limit)
        put_format(s, "      limit: %zu\n", e->limit);
    put_answers(s, e, portable);
    if (e->shots)
        put_format(s, "      shots: %zu\n", e->shots);
    if (e->shots_file.text) {
        put_text(s, "      shots_from:\n");
        put_task_path(s, "        ", e->task.text, e->shots_file.text, portable);
    }
    if (e->by.text)
        put_path(s, "      by", e->by.text, false);
    if (e->device != PARE_RUN_ON_CPU && !portable) /* the figures are the same */
        put_format(s, "      device: %s\n", pare_run_on_words[e->device].text);
    if (e->products != PARE_PRODUCTS_EXACT && !portable) /* run.json says what was taken */
        put_format(s, "      device_products: %s\n", pare_products_words[e->products].text);
}

static void put_kv(sink *s, const pare_kv_format *kv)
{
    pare_kv_format f = *kv;
    if (f.method == PARE_KV_FLOAT)
        return;
    put_format(s, "kv_cache:\n  method: %s\n", pare_kv_method_name(f.method));
    for (const pare_param *p = pare_kv_params(f.method); p->name; p++) {
        char text[64];
        pare_param_print(p, (double)*pare_kv_field(&f, p->name), text, sizeof text);
        put_format(s, "  %s: %s\n", p->name, text);
    }
}

static void put_exports(sink *s, const pare_recipe *r)
{
    put_text(s, "export:\n");
    for (size_t i = 0; i < r->exports; i++) {
        put_text(s, "  - {format: ");
        put_quoted(s, r->export[i].format.text);
        put_text(s, ", path: ");
        put_quoted(s, r->export[i].path.text);
        if (r->export[i].ranks > 1)
            put_format(s, ", tensor_parallel: %zu", r->export[i].ranks);
        put_text(s, "}\n");
    }
}

static void put_requirements(sink *s, const pare_recipe *r)
{
    if (r->requirements)
        put_text(s, "require:\n");
    for (size_t i = 0; i < r->requirements; i++) {
        put_text(s, "  ");
        put_text(s, r->requirement[i].name);
        put_text(s, ": ");
        put_quoted(s, r->requirement[i].text.text);
        put_text(s, "\n");
    }
    if (r->fallbacks)
        put_text(s, "fallback:\n");
    for (size_t i = 0; i < r->fallbacks; i++)
        for (size_t j = 0; j < r->fallback[i].count; j++) {
            const char *const set = r->fallback[i].item[j].text, *const is = strchr(set, '=');
            put_text(s, j ? "    " : "  - ");
            put(s, set, (size_t)(is - set));
            put_text(s, ": ");
            put_quoted(s, is + 1);
            put_text(s, "\n");
        }
}

static void put_recipe(sink *s, const pare_recipe *r, const pare_pass_words *passes, bool portable)
{
    char nan[32];
    put_text(s, "pare: 1\n");
    if (r->model.text && !portable)
        put_path(s, "model", r->model.text, false);
    if (r->output.text && !portable)
        put_path(s, "output", r->output.text, false);
    if (r->tokenizer.text && !portable)
        put_path(s, "tokenizer", r->tokenizer.text, false);
    if (r->original.text)
        put_path(s, "original", r->original.text, portable);
    put_format(s, "seed: %llu\n", (unsigned long long)r->seed);
    put_calibration(s, &r->calibration, portable);
    put_text(s, "passes:\n");
    for (size_t i = 0; i < r->steps; i++)
        put_step(s, "  - ", &r->step[i], &passes[r->step[i].pass]);
    for (size_t i = 0; i < PARE_TABLES; i++)
        if (r->table[i]) {
            put_format(s, "%s:\n", pare_table_names[i]);
            put_step(s, "    ", r->table[i], &passes[r->table[i]->pass]);
        }
    put_kv(s, &r->kv);
    if (r->held_out)
        put_text(s, "evaluate: held_out\n");
    if (r->evaluations)
        put_text(s, "evaluate:\n");
    for (size_t i = 0; i < r->evaluations; i++)
        put_evaluation(s, &r->evaluation[i], portable);
    if (r->exports && !portable)
        put_exports(s, r);
    if (!portable)
        put_requirements(s, r);
    if (r->ram_limit && !portable)
        put_format(s, "limits: {ram: %llu}\n", (unsigned long long)r->ram_limit);
    pare_param_print(&pare__nan, r->nan, nan, sizeof nan);
    put_format(s, "nan: %s\n", nan);
}

pare_status pare_recipe_normalize(pare_ctx *cx, pare_arena *a, const pare_recipe *r,
                                  const pare_pass_words *passes, bool portable, char **text,
                                  size_t *len)
{
    (void)cx;
    sink s = {0};
    put_recipe(&s, r, passes, portable);
    const size_t bytes = s.len;
    s = (sink){pare_arena_take(a, bytes + 1, 1), 0};
    if (!s.text)
        return PARE_ENOMEM;
    put_recipe(&s, r, passes, portable);
    *text = s.text;
    *len = bytes;
    return PARE_OK;
}

static void put_paths(sink *s, const pare_train_recipe *r)
{
    const struct {
        const char *key, *path;
    } paths[] = {{"model", r->common.model.text},
                 {"config", r->config.text},
                 {"teacher", r->teacher.text},
                 {"output", r->common.output.text},
                 {"tokenizer", r->common.tokenizer.text}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i].path)
            put_path(s, paths[i].key, paths[i].path, false);
}

static void put_data(sink *s, const pare_train_recipe *r, bool portable)
{
    put_text(s, "data:\n");
    if (r->tokens.text)
        put_path(s, "  tokens", r->tokens.text, portable);
    else if (portable)
        put_path(s, "  text", NULL, true);
    else
        put_texts(s, "  text", &r->text);
    if (portable || r->window_given)
        put_format(s, "  window: %zu\n", r->window);
    put_format(s, "  held_out: %zu\n", r->held_out);
}

static void put_lora(sink *s, const pare_lora_recipe *l)
{
    const double value[] = {(double)l->rank, l->alpha, l->rslora, l->merge};
    if (!l->given)
        return;
    put_text(s, "lora:\n");
    for (size_t i = 0; pare_lora_params[i].name; i++)
        put_value(s, &pare_lora_params[i], value[i]);
    put_texts(s, "      targets", &l->targets);
}

static void put_training(sink *s, const pare_train_recipe *r, const pare_param *params,
                         bool portable)
{
    static const char *const stores[] = {"auto", "f32", "f16", "bf16"};
    put_text(s, "pare: 1\n");
    if (!portable)
        put_paths(s, r);
    put_format(s, "seed: %llu\n", (unsigned long long)r->common.seed);
    if (r->vocabulary)
        put_format(s, "vocabulary: %zu\n", r->vocabulary);
    if (r->blocks)
        put_format(s, "blocks: %zu\n", r->blocks);
    put_format(s, "keep_zeros: %s\ndtype: %s\n", r->keep_zeros ? "true" : "false",
               stores[r->store]);
    put_lora(s, &r->lora);
    put_data(s, r, portable);
    put_text(s, "train:\n");
    for (size_t i = 0; params[i].name; i++)
        put_value(s, &params[i], r->value[i]);
    if (r->common.ram_limit && !portable)
        put_format(s, "limits: {ram: %llu}\n", (unsigned long long)r->common.ram_limit);
}

pare_status pare_train_recipe_normalize(pare_ctx *cx, pare_arena *a, const pare_train_recipe *r,
                                        const pare_param *params, bool portable, char **text,
                                        size_t *len)
{
    (void)cx;
    sink s = {0};
    put_training(&s, r, params, portable);
    const size_t bytes = s.len;
    s = (sink){pare_arena_take(a, bytes + 1, 1), 0};
    if (!s.text)
        return PARE_ENOMEM;
    put_training(&s, r, params, portable);
    *text = s.text;
    *len = bytes;
    return PARE_OK;
}
