/* The time of a decoded token on this machine: of each linear with each setting, by its kernel at
 * one row, and of all the rest. Kept in STORE/times.json, so that the next search has the same.
 *
 *   time of a token = T(base) - sum of t(base, i) + sum of t(setting of i, i)
 *
 * T(base) is that of the model with every linear in the setting of the base, as pare eval --speed
 * measures it: attention, norms, head and what lies between the kernels are in it once. */
#include <stdio.h>
#include <string.h>

#include "compress/budget/budget_internal.h"
#include "compress/evaluate/token_time.h"
#include "compress/passes/budget_step.h"
#include "compress/text/text_out.h"
#include "compress/text/units.h"
#include "compress/text/version.h"
#include "runtime/file.h"
#include "runtime/threads.h"

#define TIMES "times.json"

enum { TIMES_BYTES = 1 << 20 };

static const double picoseconds = 1e12;

/* Linears of one shape take the same time. */
typedef struct shape {
    size_t n, k;
    uint64_t *ps; /* [settings] of one of them */
} shape;

typedef struct times {
    shape *shape;
    size_t shapes;
    uint64_t token_ps; /* of the base */
} times;

/* That of the probe where the setting that carries the activations is not one to choose from. */
static size_t base_setting(const pare_budget *b)
{
    size_t s = 0;
    char label[32];
    (void)snprintf(label, sizeof label, "int%d-g%d", PARE_BUDGET_BASE_BITS, PARE_BUDGET_BASE_GROUP);
    while (s < b->settings && strcmp(b->setting[s].label, label) != 0)
        s++;
    return s < b->settings ? s : b->probe;
}

static bool has_shape(const pare_budget *b, size_t linear, const shape *s)
{
    const pare_packed_linear *const l = &b->linear[linear].packed;
    return l->n == s->n && l->k == s->k;
}

static pare_status take_shapes(pare_budget *b, times *t)
{
    t->shape = PARE_NEW(b->a, shape, b->linears);
    if (!t->shape)
        return PARE_ENOMEM;
    for (size_t i = 0; i < b->linears; i++) {
        size_t j = 0;
        while (j < t->shapes && !has_shape(b, i, &t->shape[j]))
            j++;
        if (j < t->shapes)
            continue;
        t->shape[j] = (shape){b->linear[i].packed.n, b->linear[i].packed.k,
                              PARE_NEW(b->a, uint64_t, b->settings)};
        t->shapes++;
        if (!t->shape[j].ps)
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

static pare_status time_shape(pare_budget *b, pare_arena *a, const shape *s, size_t setting)
{
    pare_linear *const w = PARE_NEW(a, pare_linear, b->linears);
    size_t count = 0;
    if (!w)
        return PARE_ENOMEM;
    for (size_t i = 0; i < b->linears; i++)
        if (has_shape(b, i, s))
            PARE_TRY(pare_packed_map_linear(b->cx, a, b->writer[setting], &b->layout[setting],
                                            pare__budget_packed(b, setting, i), &w[count++]));
    return pare_time_linears(b->cx, a, w, count, &s->ps[setting]);
}

static pare_status time_base(pare_budget *b, pare_arena *a, uint64_t *ps)
{
    pare_model model;
    size_t *const choice = PARE_NEW(a, size_t, b->linears);
    if (!choice)
        return PARE_ENOMEM;
    for (size_t i = 0; i < b->linears; i++)
        choice[i] = base_setting(b);
    PARE_TRY(pare__budget_model(b, a, choice, &model));
    const pare_status s = pare_time_token(b->cx, a, &model, ps);
    return s == PARE_ENOTSUP ? pare_fail_context(b->cx, s, "budget: ask for bits") : s;
}

static pare_status measure(pare_budget *b, pare_arena *a, times *t)
{
    const size_t all = t->shapes * b->settings;
    for (size_t i = 0; i < all; i++) {
        PARE_TRY(pare_ctx_interrupted(b->cx));
        pare_ctx_progress(b->cx, "timing the kernels", (double)i, (double)all);
        const pare_mark mark = pare_arena_mark(a);
        const pare_status s = time_shape(b, a, &t->shape[i / b->settings], i % b->settings);
        pare_arena_rewind(a, mark);
        PARE_TRY(s);
    }
    pare_ctx_progress(b->cx, "timing the kernels", 1, 1);
    return time_base(b, a, &t->token_ps);
}

/* What times depend on, but for the processor itself. */
static pare_status write_times(pare_budget *b, const times *t)
{
    pare_text_out o = {.cx = b->cx};
    pare__text_put(&o,
                   "{\"program\": \"pare " PARE_VERSION "\", \"kernels\": \"%s\", "
                   "\"threads\": %zu,\n \"token_ps\": %llu, \"shapes\": [",
                   pare_cpu_name(b->cx->cpu), pare_threads(b->cx), (unsigned long long)t->token_ps);
    for (size_t i = 0; i < t->shapes; i++) {
        pare__text_put(&o, "%s\n  {\"n\": %zu, \"k\": %zu, \"ps\": {", i ? "," : "", t->shape[i].n,
                       t->shape[i].k);
        for (size_t s = 0; s < b->settings; s++)
            pare__text_put(&o, "%s\"%s\": %llu", s ? ", " : "", b->setting[s].label,
                           (unsigned long long)t->shape[i].ps[s]);
        pare__text_put(&o, "}}");
    }
    pare__text_put(&o, "]}\n");
    return pare__text_save(&o, b->store, TIMES);
}

static bool is_text(const pare_json *object, const char *key, const char *want)
{
    const char *const text = pare_json_text(pare_json_get(object, key), NULL);
    return text && strcmp(text, want) == 0;
}

/* A number of picoseconds below a minute; false: none. */
static bool read_ps(const pare_json *object, const char *key, uint64_t *out)
{
    const int64_t v = pare_json_integer(pare_json_get(object, key), 0);
    *out = (uint64_t)v;
    return v > 0 && v < 60 * (int64_t)picoseconds;
}

/* Whether the file has all there is to know, measured by this program with as many threads. */
static bool understand(const pare_budget *b, const pare_json *doc, times *t)
{
    const pare_json *const shapes = pare_json_get(doc, "shapes");
    bool all =
        is_text(doc, "program", "pare " PARE_VERSION) &&
        is_text(doc, "kernels", pare_cpu_name(b->cx->cpu)) &&
        pare_json_integer(pare_json_get(doc, "threads"), 0) == (int64_t)pare_threads(b->cx) &&
        read_ps(doc, "token_ps", &t->token_ps) && pare_json_count(shapes) == t->shapes;
    for (size_t i = 0; all && i < t->shapes; i++) {
        const pare_json *const s = pare_json_at(shapes, i), *const ps = pare_json_get(s, "ps");
        all = pare_json_integer(pare_json_get(s, "n"), 0) == (int64_t)t->shape[i].n &&
              pare_json_integer(pare_json_get(s, "k"), 0) == (int64_t)t->shape[i].k;
        for (size_t j = 0; all && j < b->settings; j++)
            all = read_ps(ps, b->setting[j].label, &t->shape[i].ps[j]);
    }
    return all;
}

/* False when there are none that count here; memory that ran out is found again by who goes on. */
static bool read_times(pare_budget *b, times *t)
{
    char *text;
    size_t len;
    pare_json *doc = NULL;
    char *const path = pare_path_join(b->a, b->store, TIMES);
    bool known = false;
    if (!path || !pare_path_is_file(path))
        return false;
    if (pare_file_read(b->cx, b->a, path, TIMES_BYTES, &text, &len) == PARE_OK &&
        pare_json_parse(b->cx, path, text, len, TIMES_BYTES, &doc) == PARE_OK)
        known = understand(b, doc, t);
    pare_json_free(doc);
    pare_ctx_clear(b->cx);
    if (!known)
        pare__budget_tell(b, "%s: of other kernels or threads; times are measured anew", path);
    return known;
}

/* Of one token: an expert runs for some tokens only. */
static uint64_t share(const pare_budget *b, size_t linear, uint64_t ps)
{
    const pare_config *const c = &b->plan.model.config;
    return b->linear[linear].part && c->experts ? ps * c->experts_used / c->experts : ps;
}

static pare_status spread(pare_budget *b, const times *t)
{
    uint64_t base = 0;
    b->time = PARE_NEW(b->a, uint64_t, b->linears * b->settings);
    if (!b->time)
        return PARE_ENOMEM;
    for (size_t i = 0; i < b->linears; i++) {
        size_t j = 0;
        while (!has_shape(b, i, &t->shape[j]))
            j++;
        for (size_t s = 0; s < b->settings; s++)
            b->time[s * b->linears + i] = share(b, i, t->shape[j].ps[s]);
        base += b->time[base_setting(b) * b->linears + i];
    }
    b->rest_time = t->token_ps > base ? t->token_ps - base : 0;
    return PARE_OK;
}

pare_status pare__budget_times(pare_budget *b)
{
    times t = {0};
    pare_arena a;
    PARE_TRY(take_shapes(b, &t));
    if (read_times(b, &t))
        return spread(b, &t);
    PARE_TRY(pare_arena_init(b->cx, &a, 0));
    pare_status s = measure(b, &a, &t);
    pare_arena_release(&a);
    if (s == PARE_OK)
        s = write_times(b, &t);
    return s == PARE_OK ? spread(b, &t) : s;
}

double pare__budget_rate(const pare_budget *b, const size_t *choice)
{
    uint64_t time = b->rest_time;
    for (size_t i = 0; i < b->linears; i++)
        time += b->time[choice[i] * b->linears + i];
    return picoseconds / (double)time;
}

uint64_t pare__budget_time_left(const pare_budget *b)
{
    const uint64_t all = pare_time_at(b->value[PARE_BUDGET_SPEED]);
    return all > b->rest_time ? all - b->rest_time : 0;
}

pare_status pare__budget_fail_speed(const pare_budget *b, pare_place place, const size_t *fastest)
{
    size_t best = 0, most = 0;
    char text[PARE_UNIT_TEXT];
    for (size_t s = 0; s < b->settings; s++) {
        size_t count = 0;
        for (size_t i = 0; i < b->linears; i++)
            count += fastest[i] == s;
        best = count > most ? s : best;
        most = count > most ? count : most;
    }
    return pare_recipe_fail(
        b->cx, place,
        "budget: %s tokens/s are too many for this machine as it is now: with "
        "the fastest settings (%s for %zu of %zu linears) a model decodes about "
        "%.1f; without these linears a token takes %.2f ms (%s/" TIMES
        " has the times, and without it they are measured anew)",
        pare_units_rate(b->value[PARE_BUDGET_SPEED], text), b->setting[best].label, most,
        b->linears, pare__budget_rate(b, fastest), 1e-9 * (double)b->rest_time, b->store);
}

static pare_status time_artifact(pare_ctx *cx, pare_arena *a, const char *path, uint64_t *ps)
{
    pare_checkpoint ck;
    pare_model model;
    PARE_TRY(pare_checkpoint_open(cx, a, path, &ck));
    pare_status s = pare_model_load(cx, a, &ck, &model);
    if (s == PARE_OK)
        s = pare_time_token(cx, a, &model, ps);
    pare_checkpoint_close(&ck);
    return s;
}

pare_status pare__budget_verify(pare_budget *b, const char *path, double predicted)
{
    pare_arena a;
    uint64_t ps = 0;
    PARE_TRY(pare_arena_init(b->cx, &a, 0));
    const pare_status s = time_artifact(b->cx, &a, path, &ps);
    pare_arena_release(&a);
    PARE_TRY(s);
    const double asked = b->value[PARE_BUDGET_SPEED], is = picoseconds / (double)ps;
    pare__budget_tell(b, "%sbudget: %g tokens/s asked, %.2f predicted, %.2f measured%s",
                      is < asked ? "warning: " : "", asked, predicted, is,
                      is < asked ? ": the machine is busier now, or was then" : "");
    return PARE_OK;
}
