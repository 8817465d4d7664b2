#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/tokens.h"
#include "compress/init/init_internal.h"
#include "compress/output/inputs.h"
#include "compress/plan/calibration_need.h"
#include "runtime/file.h"

enum {
    WINDOW = 512,       /* tokens; the figures of the docs are of such windows */
    TIMES_NEEDED = 4,   /* tokens of calibration, times what the neediest pass needs */
    SAMPLES_LEAST = 32, /* windows */
    SAMPLES_STEP = 8
};

pare_status pare__draft_begin(pare_ctx *cx, pare_arena *a, const pare_init *init, pare__draft *d)
{
    *d = (pare__draft){.cx = cx,
                       .a = a,
                       .init = init,
                       .head = {.cx = cx},
                       .passes = {.cx = cx},
                       .tail = {.cx = cx}};
    PARE_TRY(pare_inputs_no_work(cx, a, init->model_path));
    PARE_TRY(pare_checkpoint_open(cx, a, init->model_path, &d->checkpoint));
    if (d->checkpoint.packed)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: is compressed already; give the checkpoint it was made from",
                         init->model_path);
    return pare_model_load(cx, a, &d->checkpoint, &d->model);
}

static void text_free(pare_text_out *t)
{
    if (t->text)
        (void)t->cx->alloc.resize(t->cx->alloc.self, t->text, t->size, 0);
}

void pare__draft_end(pare__draft *d)
{
    text_free(&d->head);
    text_free(&d->passes);
    text_free(&d->tail);
    if (d->checkpoint.cx)
        pare_checkpoint_close(&d->checkpoint);
}

/* Parts with linears of their own: a block with attention, one with a recurrent state, an expert.
 */
enum { STATE = 1, EXPERT = 2, PARTS = 3 };

/* Inputs of `role` in a part; 0: there is none such. */
static size_t width(const pare__draft *d, size_t part, size_t role)
{
    pare_config c = d->model.config;
    size_t n, k;
    if ((part == STATE && !c.mixed) || (part == EXPERT && !c.experts))
        return 0;
    c.mixed = false;
    if (part == STATE)
        c.arch = c.arch->recurrent;
    pare_linear_shape(&c, part == EXPERT, (pare_role)role, &n, &k);
    return k;
}

bool pare__draft_divides(const pare__draft *d, size_t divisor)
{
    bool all = true;
    for (size_t part = 0; part < PARTS; part++)
        for (size_t role = 0; role < PARE_ROLES; role++)
            all = all && width(d, part, role) % divisor == 0;
    return all;
}

size_t pare__draft_group(const pare__draft *d)
{
    size_t group = 128;
    while (group >= 32 && !pare__draft_divides(d, group))
        group /= 2;
    return group >= 32 ? group : 0;
}

void pare__draft_put_widths(pare__draft *d, size_t divisor, pare_text_out *t)
{
    size_t seen[PARTS * PARE_ROLES], count = 0;
    for (size_t part = 0; part < PARTS; part++)
        for (size_t role = 0; role < PARE_ROLES; role++) {
            const size_t k = width(d, part, role);
            bool known = k == 0 || (divisor && k % divisor == 0);
            for (size_t i = 0; i < count; i++)
                known = known || seen[i] == k;
            if (!known)
                seen[count++] = k;
        }
    for (size_t i = 0; i < count; i++)
        pare__text_put(t, "%s%zu", i == 0 ? "" : i + 1 == count ? " and " : ", ", seen[i]);
}

size_t pare__draft_slots(const pare__draft *d)
{
    return d->model.config.blocks * pare_block_parts(&d->model.config) * PARE_ROLES;
}

const pare_linear *pare__draft_linear(const pare__draft *d, size_t slot)
{
    const size_t count = pare_block_parts(&d->model.config), part = slot / PARE_ROLES;
    return pare_block_linear(&d->model.block[part / count], part % count,
                             (pare_role)(slot % PARE_ROLES));
}

/* Sites whose inputs a transform with its defaults scales; of a model with experts those of
 * attention. */
static unsigned sites_of(const pare_config *c, const pare_pass *pass)
{
    double value[PARE_PARAMS_MAX];
    for (size_t i = 0; pass->params[i].name; i++)
        value[i] = pass->params[i].fallback;
    const unsigned sites = pass->transform->sites(value);
    return c->experts ? sites & (1u << PARE_SITE_ATTENTION | 1u << PARE_SITE_ATTENDED) : sites;
}

bool pare__draft_transforms(const pare__draft *d, const pare_pass *pass, size_t slot)
{
    const pare_config *const c = &d->model.config;
    const size_t part = slot / PARE_ROLES % pare_block_parts(c);
    const pare_linear_desc *const l = pare_arch_linear(c->arch, part, slot % PARE_ROLES);
    return part == 0 && (sites_of(c, pass) & 1u << l->site);
}

size_t pare__draft_fixed(const pare__draft *d, const char *pass_name,
                         const char *name[PARE__DRAFT_FIXED], bool *none)
{
    const pare_config *const c = &d->model.config;
    const unsigned sites = sites_of(c, pare_pass_find(pass_name));
    size_t count = 0;
    *none = true;
    for (const pare_arch *a = c->arch; a; a = a->recurrent)
        for (size_t role = 0; role < PARE_ROLES; role++) {
            const pare_linear_desc *const l = &a->linear[role];
            if (!l->name || !(sites & 1u << l->site))
                continue;
            if (pare_fold_channels(c, l->site))
                *none = false;
            else
                name[count++] = l->name;
        }
    return count;
}

/* Moves a text into the arena. Fails when it, or one of the draft, has failed. */
static pare_status keep(pare__draft *d, pare_text_out *t, char **text, size_t *len)
{
    const pare_text_out *const all[] = {t, &d->head, &d->passes, &d->tail};
    pare_status s = PARE_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && s == PARE_OK; i++)
        s = all[i]->status;
    *text = s == PARE_OK ? pare_arena_text(d->a, t->text ? t->text : "", t->len) : NULL;
    *len = t->len;
    text_free(t);
    return s == PARE_OK && !*text ? PARE_ENOMEM : s;
}

static void append(pare_text_out *t, const pare_text_out *part)
{
    if (part->len)
        pare__text_add(t, part->text, part->len);
}

/* The recipe with `data`, which are its sections on data, and with the export if `format` is not
 * NULL. */
static pare_status compose(pare__draft *d, const char *data, const char *format, char **text,
                           size_t *len)
{
    char *model = NULL, *output = NULL, *export = NULL, name[512];
    const bool gguf = format && strncmp(format, "gguf:", 5) == 0;
    PARE_TRY(pare_recipe_quote(d->a, d->init->model, &model));
    (void)snprintf(name, sizeof name, "%.400s-%s", d->init->name, d->suffix);
    PARE_TRY(pare_recipe_quote(d->a, name, &output));
    (void)snprintf(name, sizeof name, "%.400s-%s%s%s", d->init->name, d->suffix, gguf ? "" : "-",
                   !format ? ""
                   : gguf  ? ".gguf"
                           : format);
    PARE_TRY(pare_recipe_quote(d->a, name, &export));
    pare_text_out t = {.cx = d->cx};
    append(&t, &d->head);
    pare__text_put(&t, "# Paths are relative to the folder of this file%s.\n",
                   d->init->printed ? ": save it in the folder in which \"pare init\" was run"
                                    : "");
    pare__text_put(&t, "pare: 1\nmodel: %s\noutput: %s\n%spasses:\n", model, output, data);
    append(&t, &d->passes);
    if (format && d->engines)
        pare__text_put(&t, "# The export is for %s.\n", d->engines);
    if (format)
        pare__text_put(&t, "export:\n  - {format: \"%s\", path: %s}\n", format, export);
    append(&t, &d->tail);
    return keep(d, &t, text, len);
}

/* What the neediest pass needs. */
typedef struct demand {
    uint64_t tokens; /* 0: nothing is calibrated */
    size_t k;
    const char *pass;
} demand;

static void look_at_needs(const pare_plan *plan, demand *need)
{
    for (size_t step = 0; step < plan->recipe.steps; step++) {
        pare_shortage s;
        if (!pare_plan_short(plan, &plan->settled, step, &s) || s.need.tokens <= need->tokens)
            continue;
        *need = (demand){s.need.tokens, s.k, pare_passes[plan->recipe.step[step].pass]->name};
    }
}

/* A machine that is too small for the job says nothing against the recipe. What a plan warns of in
 * the model was told when the draft began. */
static pare_status try_plan(pare__draft *d, const char *text, demand *need)
{
    const pare_job job = {
        .recipe = d->init->recipe, .text = text, .plan_only = true, .unlimited = true};
    pare_arena arena;
    pare_plan plan = {0};
    PARE_TRY(pare_arena_init(d->cx, &arena, 0));
    void (*const warn_of)(void *self, const char *text) = d->cx->progress.warn;
    d->cx->progress.warn = NULL;
    const pare_status s = pare_plan_make(d->cx, &arena, &job, &plan);
    d->cx->progress.warn = warn_of;
    if (s == PARE_OK && need)
        look_at_needs(&plan, need);
    pare_plan_close(&plan);
    pare_arena_release(&arena);
    return s;
}

/* Tokens of the calibration data, or SIZE_MAX for a text so large that nobody need count them: it
 * is looked through, as by a plan. */
static pare_status count_tokens(pare__draft *d, uint64_t wanted, size_t *count)
{
    const char *const path = d->init->data_path;
    uint64_t bytes = 0;
    pare_tokenizer *t;
    pare_tokens tokens = {0};
    *count = SIZE_MAX;
    if (!d->init->tokens && pare_path_bytes(path, &bytes) && pare_text_has(bytes, wanted))
        return pare_text_check(d->cx, d->a, path);
    const size_t vocab = d->model.config.vocab;
    if (d->init->tokens) {
        PARE_TRY(pare_tokens_read(d->cx, d->a, path, vocab, &tokens));
    } else {
        PARE_TRY(pare_checkpoint_tokenizer(&d->checkpoint, &t));
        const pare_status s = pare_tokens_encode(d->cx, d->a, t, &path, 1, -1, vocab, &tokens);
        pare_tokenizer_free(t);
        PARE_TRY(s);
    }
    *count = tokens.count;
    return PARE_OK;
}

/* As many windows as the data have of those wanted, but for a quarter, which is held out; *held:
 * there is some. */
static pare_status count_samples(pare__draft *d, size_t window, uint64_t *samples, bool *held)
{
    size_t tokens;
    PARE_TRY(count_tokens(d, (*samples + 1) * window, &tokens));
    const size_t windows = tokens / window, least = d->prunes ? 2 : 1;
    *held = windows > 1;
    const uint64_t most = *held ? windows - windows / 4 - (windows < 4) : windows;
    if (windows < least)
        return pare_fail(d->cx, PARE_EUSAGE,
                         "%s: the data have %zu token%s, less than %zu window%s of %zu; give more",
                         d->init->data_path, tokens, pare_plural(tokens), least, pare_plural(least),
                         window);
    *samples = *samples < most ? *samples : most;
    return PARE_OK;
}

static const char *source_word(const pare__draft *d)
{
    return !d->init->data_path ? "generate: {}" : d->init->tokens ? "tokens: " : "text: ";
}

/* Tells of data that are too few for what stands in the recipe. */
static pare_status warn(pare__draft *d, const demand *need, uint64_t tokens, bool held)
{
    const size_t size = strlen(d->init->data_path) + 256;
    char *const text = pare_arena_take(d->a, size, 1);
    if (!text)
        return PARE_ENOMEM;
    if (tokens >= need->tokens && held)
        return PARE_OK;
    if (tokens < need->tokens)
        (void)snprintf(text, size,
                       "%s: %llu tokens are taken for the calibration, and %s needs %llu for the "
                       "%zu inputs of a linear, %.2g times that: give more text",
                       d->init->data_path, (unsigned long long)tokens, need->pass,
                       (unsigned long long)need->tokens, need->k,
                       (double)need->tokens / (double)tokens);
    else
        (void)snprintf(text, size, "%s: no window is left to evaluate on: give more text",
                       d->init->data_path);
    d->warning = text;
    return PARE_OK;
}

/* What is lost, on windows that nothing is calibrated on. */
static void put_held_out(pare_text_out *t, size_t window, bool held)
{
    if (held)
        pare__text_put(t,
                       "# What is lost is measured on windows that the calibration leaves out. "
                       "Another text says more:\n"
                       "# evaluate: [kl: {text: FILE, window: %zu}]\n"
                       "evaluate: held_out\n",
                       window);
    else
        pare__text_put(t,
                       "# To see what is lost, on a text that is not in the calibration:\n"
                       "# evaluate: [kl: {text: FILE, window: %zu}]\n",
                       window);
}

/* Passes that look at weights alone: the data, if there are some, say what is lost. */
static pare_status evaluate_data(pare__draft *d, size_t window, const char *data, pare_text_out *t)
{
    size_t tokens = 0;
    pare__text_put(t, "# No calibration: these passes look at weights alone.\n");
    if (data)
        PARE_TRY(count_tokens(d, window, &tokens));
    if (tokens >= window)
        pare__text_put(t, "evaluate: [kl: {%s%s, window: %zu}]\n", source_word(d), data, window);
    else
        put_held_out(t, window, false);
    return PARE_OK;
}

/* The sections calibration and evaluate. */
static pare_status choose_data(pare__draft *d, const demand *need, char **out)
{
    const size_t context = d->model.config.context, window = context < WINDOW ? context : WINDOW;
    const uint64_t wanted =
        (need->tokens * TIMES_NEEDED / window + SAMPLES_STEP) / SAMPLES_STEP * SAMPLES_STEP;
    uint64_t samples = wanted < SAMPLES_LEAST ? SAMPLES_LEAST : wanted;
    char *data = NULL;
    bool held = true;
    pare_text_out t = {.cx = d->cx};
    if (d->init->data_path)
        PARE_TRY(pare_recipe_quote(d->a, d->init->data, &data));
    if (need->tokens == 0) {
        PARE_TRY(evaluate_data(d, window, data, &t));
        return keep(d, &t, out, &(size_t){0});
    }
    if (data)
        PARE_TRY(count_samples(d, window, &samples, &held));
    pare__text_put(&t,
                   "# %s needs %llu tokens for the %zu inputs of a linear: this is %.3g times "
                   "that.\n",
                   need->pass, (unsigned long long)need->tokens, need->k,
                   (double)(samples * window) / (double)need->tokens);
    if (data)
        PARE_TRY(warn(d, need, samples * window, held));
    else
        pare__text_put(&t, "# The model writes the text itself, so that no data is needed. Text "
                           "like that which the\n# model will see is better, and saves the time of "
                           "writing: text: [FILE] in place of generate: {}.\n");
    pare__text_put(&t, "calibration: {%s%s, samples: %llu, window: %zu%s}\n", source_word(d),
                   data ? data : "", (unsigned long long)samples, window,
                   d->file ? ", token_weights: even" : ""); /* as the other program does */
    put_held_out(&t, window, held);
    return keep(d, &t, out, &(size_t){0});
}

/* The message of a failed plan without the place in a recipe that is not written; *line is that
 * place, or 0. */
static const char *reason(const pare__draft *d, size_t *line)
{
    const char *what = d->cx->what;
    const size_t len = strlen(d->init->recipe);
    *line = 0;
    if (strncmp(what, d->init->recipe, len) == 0 && what[len] == ':') {
        what += len + 1;
        *line = (size_t)strtoul(what, NULL, 10);
        what += strspn(what, "0123456789:");
        what += *what == ' ';
    }
    return what;
}

static const char ORIGIN[] = "# line ";

void pare__draft_put_origin(pare_text_out *t, const char *indent, size_t line, const char *modifier)
{
    pare__text_put(t, "%s%s%zu, %s\n", indent, ORIGIN, line, modifier);
}

/* "LINE, MODIFIER" in the comment above a line of the recipe, or NULL. */
static const char *origin(const char *text, size_t line)
{
    const char *found = NULL;
    for (size_t i = 1; text && i < line; i++) {
        const char *const words = text + strspn(text, " ");
        if (strncmp(words, ORIGIN, strlen(ORIGIN)) == 0)
            found = words + strlen(ORIGIN);
        else if (*words != '#')
            found = NULL;
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return found;
}

/* A calibration that is as good as none: a plan tells what passes need instead. */
static pare_status probe(pare__draft *d, char **out)
{
    char *data = NULL;
    pare_text_out t = {.cx = d->cx};
    if (d->init->data_path)
        PARE_TRY(pare_recipe_quote(d->a, d->init->data, &data));
    pare__text_put(&t, "calibration: {%s%s, samples: 1, window: 2}\n", source_word(d),
                   data ? data : "");
    return keep(d, &t, out, &(size_t){0});
}

/* `text` is the recipe that could not be planned. Of a translation the message has the place in the
 * other recipe, which is the one that the user knows. */
static pare_status fail_plan(pare__draft *d, pare_status s, const char *text, const char *what)
{
    char why[sizeof d->cx->what];
    size_t line;
    (void)snprintf(why, sizeof why, "%s", reason(d, &line));
    const char *const from = d->file ? origin(text, line) : NULL;
    pare_ctx_clear(d->cx);
    if (!from)
        return pare_fail(d->cx, s, "%s%s", what, why);
    const size_t digits = strspn(from, "0123456789"), len = strcspn(from, "\n");
    return pare_fail(d->cx, s, "%s:%.*s: %.*s, translated: %s", d->file, (int)digits, from,
                     (int)(len - digits - 2), from + digits + 2, why);
}

pare_status pare__draft_finish(pare__draft *d, char **text, size_t *len)
{
    demand need = {0};
    char *data = NULL;
    if (d->prunes && !d->init->data_path)
        return pare_fail(d->cx, PARE_EUSAGE,
                         "init: a pruned model is always evaluated, on data that are held out from "
                         "the calibration; give --text FILE or --tokens FILE");
    PARE_TRY(probe(d, &data));
    PARE_TRY(compose(d, data, NULL, text, len));
    pare_status s = try_plan(d, *text, &need);
    if (s != PARE_OK)
        return fail_plan(d, s, *text, "");
    PARE_TRY(choose_data(d, &need, &data));
    PARE_TRY(compose(d, data, d->format, text, len));
    s = try_plan(d, *text, NULL);
    if (s == PARE_OK)
        return s;
    if (!d->format)
        return fail_plan(d, s, *text, "");
    if (d->instead) {
        s = fail_plan(d, PARE_EUSAGE, *text, "the preset does not fit this model: ");
        return pare_fail_after(d->cx, s, "presets without an export: %s", d->instead);
    }
    size_t line;
    const char *why = reason(d, &line);
    const size_t named = strlen(d->format);
    if (strncmp(why, d->format, named) == 0 && strncmp(why + named, ": ", 2) == 0)
        why += named + 2;
    pare__text_put(&d->tail, "# No export to %s: %s.\n", d->format, why);
    const size_t size = strlen(why) + strlen(d->format) + 64;
    char *const told = pare_arena_take(d->a, size, 1);
    if (!told)
        return PARE_ENOMEM;
    (void)snprintf(told, size, "the recipe has no export to %s: %s", d->format, why);
    d->no_export = told;
    pare_ctx_clear(d->cx);
    PARE_TRY(compose(d, data, NULL, text, len));
    return try_plan(d, *text, NULL);
}
