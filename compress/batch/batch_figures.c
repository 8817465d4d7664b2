/* Figures of finished jobs, as their run.json has them, and which jobs no other one beats. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/batch/batch_internal.h"
#include "formats/json.h"
#include "runtime/file.h"

enum { RUN_CAP = 1 << 26 };

/* A file of JSON that may be there; *out NULL otherwise. PARE_ENOMEM. */
static pare_status read_json(const pare_jobs *b, const char *path, pare_json **out)
{
    char *text;
    size_t len;
    *out = NULL;
    if (!path)
        return PARE_ENOMEM;
    if (!pare_path_is_file(path))
        return PARE_OK;
    pare_status s = pare_file_read(b->cx, b->a, path, RUN_CAP, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse(b->cx, path, text, len, RUN_CAP, out);
    if (s == PARE_ENOMEM)
        return s;
    if (s != PARE_OK)
        pare_ctx_clear(b->cx);
    return PARE_OK;
}

static double number(const pare_json *object, const char *first, const char *second)
{
    const pare_json *const inner = pare_json_get(object, first);
    const double v = pare_json_number(second ? pare_json_get(inner, second) : inner, -1);
    return isfinite(v) ? v : -1;
}

/* A figure of a task of the batch, which has a place for so many; the first of a name counts. */
static void take_figure(pare_jobs *b, pare_batch_row *r, const char *task, const char *metric,
                        double value)
{
    char name[PARE_BATCH_TASK];
    size_t at = 0;
    (void)snprintf(name, sizeof name, "%s%s%s", task, metric ? "." : "", metric ? metric : "");
    (void)pare_text_printable(name);
    while (at < b->tasks && strcmp(b->task[at], name) != 0)
        at++;
    if (at == PARE_BATCH_TASKS)
        return;
    if (at == b->tasks)
        memcpy(b->task[b->tasks++], name, sizeof name);
    if (r->task[at] < 0)
        r->task[at] = value;
}

/* What a model answers, too: numbers hidden in a text, and how it continues one. */
static void take_answers(pare_jobs *b, pare_batch_row *r, const pare_json *e)
{
    static const char *const figure[] = {"repeated_4grams", "same"};
    const pare_json *const needle = pare_json_get(e, "needle");
    const pare_json *const continued = pare_json_get(e, "continuations");
    if (needle)
        take_figure(b, r, "needle", NULL, number(needle, "accuracy", NULL));
    for (size_t i = 0; continued && i < sizeof figure / sizeof *figure; i++)
        take_figure(b, r, "continuations", figure[i], number(continued, figure[i], NULL));
}

static void take_tasks(pare_jobs *b, pare_batch_row *r, const pare_json *e)
{
    const pare_json *const task = pare_json_at(pare_json_get(e, "tasks"), 0);
    const pare_json *const choice = pare_json_at(pare_json_get(e, "choice"), 0);
    const pare_json *const metrics = pare_json_get(task, "metrics");
    const char *const name = pare_json_text(pare_json_get(task, "task"), NULL);
    if (choice)
        take_figure(b, r, "choice", NULL, number(choice, "accuracy", NULL));
    for (size_t i = 0; name && i < pare_json_count(metrics); i++) {
        const pare_json *const m = pare_json_at(metrics, i);
        const char *const metric = pare_json_text(pare_json_get(m, "name"), NULL);
        if (metric)
            take_figure(b, r, name, metric, number(m, "value", NULL));
    }
}

/* The first evaluation that has each figure. */
static void take_evaluations(pare_jobs *b, pare_batch_row *r, const pare_json *run)
{
    const pare_json *const all = pare_json_get(run, "evaluations");
    for (size_t i = 0; i < pare_json_count(all); i++) {
        const pare_json *const e = pare_json_at(all, i);
        take_tasks(b, r, e);
        take_answers(b, r, e);
        if (r->perplexity < 0 && pare_json_get(e, "perplexity")) {
            r->perplexity = number(e, "perplexity", "ppl");
            r->before_perplexity = number(pare_json_get(e, "baseline"), "perplexity", "ppl");
        }
        if (r->kl < 0 && pare_json_get(e, "kl")) {
            r->kl = number(e, "kl", "mean");
            r->top1 = number(e, "kl", "top1_agreement");
        }
    }
}

static void take_warnings(pare_batch_row *r, const pare_json *all)
{
    const char *const first = pare_json_text(pare_json_at(all, 0), NULL);
    r->warnings = pare_json_count(all);
    (void)snprintf(r->warning, sizeof r->warning, "%s", first ? first : "");
    (void)pare_text_printable(r->warning);
}

/* A batch gives its jobs no --set, so that what changed a recipe is a fallback. */
static void take_fallback(pare_batch_row *r, const pare_json *sets)
{
    size_t used = 0;
    r->fallback_of[0] = '\0';
    for (size_t i = 0; i < pare_json_count(sets) && used < sizeof r->fallback_of; i++) {
        const char *const set = pare_json_text(pare_json_at(sets, i), NULL);
        used += (size_t)snprintf(r->fallback_of + used, sizeof r->fallback_of - used, "%s%s",
                                 i ? ", " : "", set ? set : "");
    }
}

static void take_run(pare_jobs *b, pare_batch_row *r, const pare_json *run)
{
    const pare_json *const memory = pare_json_get(run, "memory");
    r->bytes = number(memory, "weight_bytes", NULL);
    r->bits = number(memory, "bits_per_weight", NULL);
    r->model_bits = number(memory, "model_bits_per_weight", NULL);
    r->seconds = number(run, "seconds", NULL);
    r->resumed = number(run, "resumed_blocks", NULL);
    r->before_bytes = number(pare_json_get(run, "baseline"), "memory", "weight_bytes");
    const char *const verdict =
        pare_json_text(pare_json_get(pare_json_get(run, "verdict"), "verdict"), NULL);
    if (!r->ran) /* else it said so itself */
        (void)snprintf(r->verdict, sizeof r->verdict, "%s", verdict ? verdict : "");
    take_evaluations(b, r, run);
    take_warnings(r, pare_json_get(run, "warnings"));
    take_fallback(r, pare_json_get(run, "sets"));
}

pare_status pare__batch_figures(pare_jobs *b, pare_batch_row *r)
{
    const pare_mark mark = pare_arena_mark(b->a);
    pare_json *run = NULL, *speed = NULL;
    r->bytes = r->bits = r->model_bits = r->perplexity = r->kl = r->top1 = r->seconds = -1;
    r->tokens_s = r->before_bytes = r->before_perplexity = r->resumed = -1;
    for (size_t i = 0; i < PARE_BATCH_TASKS; i++)
        r->task[i] = -1;
    pare_status s = read_json(b, pare_path_join(b->a, r->output, "run.json"), &run);
    if (s == PARE_OK)
        s = read_json(b, r->speed_file, &speed);
    if (s == PARE_OK) {
        take_run(b, r, run);
        r->tokens_s = number(speed, "speed", "decode_tok_s");
    }
    pare_json_free(run);
    pare_json_free(speed);
    pare_arena_rewind(b->a, mark);
    return s;
}

/* Whether x is at least as good as y in both, and better in one; less is better. */
static bool beats(double x, double x_quality, double y, double y_quality)
{
    return x <= y && x_quality <= y_quality && (x < y || x_quality < y_quality);
}

/* A result that does not keep to what is required of it is none to choose, nor one that beats. */
static bool is_good(const pare_batch_row *r)
{
    return r->state == PARE_BATCH_DONE && (!r->verdict[0] || strcmp(r->verdict, "ACCEPT") == 0);
}

static bool has_size(const pare_jobs *b, const pare_batch_row *r)
{
    return is_good(r) && r->bytes >= 0 && pare__batch_quality(b, r) >= 0 &&
           !(b->by_kl && r->beside);
}

const char *pare__batch_original(const pare_batch_row *r)
{
    const pare_recipe *const recipe = &r->job->recipe;
    return recipe->original.text ? recipe->original.text : recipe->model.text;
}

/* Whether a row is compared with what another job wrote. */
static bool is_beside(const pare_jobs *b, const pare_batch_row *r)
{
    const char *const before = b->row[r->job->after].job->name, *const original =
                                                                    pare__batch_original(r);
    bool found = b->row[r->job->after].job != r->job && !r->job->recipe.original.text &&
                 strcmp(original, before) == 0;
    for (size_t i = 0; i < b->rows; i++)
        found |= strcmp(original, b->row[i].output) == 0;
    return found;
}

/* KL is from the original: one for all jobs, but for those whose model another job wrote. */
static void find_quality(pare_jobs *b)
{
    const pare_batch_row *first = NULL;
    bool beside = false;
    b->by_kl = true;
    for (size_t i = 0; i < b->rows; i++) {
        pare_batch_row *const r = &b->row[i];
        r->beside = r->state == PARE_BATCH_DONE && is_beside(b, r);
        beside |= r->beside;
        if (r->state != PARE_BATCH_DONE || r->beside)
            continue;
        first = first ? first : r;
        b->by_kl &= r->kl >= 0 && strcmp(pare__batch_original(r), pare__batch_original(first)) == 0;
    }
    b->by_kl &= first != NULL || !beside;
}

void pare__batch_fronts(pare_jobs *b)
{
    find_quality(b);
    for (size_t i = 0; i < b->rows; i++) {
        pare_batch_row *const r = &b->row[i];
        const double q = pare__batch_quality(b, r);
        r->front = has_size(b, r);
        r->fast_front = r->front && r->tokens_s > 0;
        for (size_t j = 0; j < b->rows; j++) {
            const pare_batch_row *const o = &b->row[j];
            if (!has_size(b, o))
                continue;
            r->front &= !beats(o->bytes, pare__batch_quality(b, o), r->bytes, q);
            r->fast_front &= o->tokens_s <= 0 ||
                             !beats(-o->tokens_s, pare__batch_quality(b, o), -r->tokens_s, q);
        }
    }
}
