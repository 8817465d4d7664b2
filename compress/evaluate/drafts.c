#include "compress/evaluate/drafts.h"

#include <math.h>
#include <string.h>

#include "runtime/machine.h"
#include "runtime/sample.h"

/* When tokens of the model alone came. They are the first half of the work of a prompt. */
typedef struct watch {
    pare_ctx *cx;
    double begun, prompts; /* prompts done, and all of them */
    size_t seen, expected;
    double first, last; /* seconds */
} watch;

static void tell(pare_ctx *cx, double done, double prompts)
{
    pare_ctx_progress(cx, "drafting", done, prompts);
}

static pare_status note_time(void *self, size_t position)
{
    watch *const w = self;
    (void)position;
    w->last = pare_seconds();
    if (w->seen++ == 0)
        w->first = w->last;
    tell(w->cx, w->begun + 0.5 * (double)w->seen / (double)w->expected, w->prompts);
    return PARE_OK;
}

static pare_status compare(pare_ctx *cx, const pare_draft_result *r, size_t index,
                           const int32_t *alone, const int32_t *both)
{
    for (size_t i = r->prompt; i < r->prompt + r->continued; i++)
        if (alone[i] != both[i])
            return pare_fail(cx, PARE_ENUMERIC,
                             "prompt %zu: token %zu is %d with the draft and %d without; they must "
                             "be equal at temperature 0",
                             index, i, (int)both[i], (int)alone[i]);
    return PARE_OK;
}

/* Prompt `index`, in alone and in both [prompt + continued]. */
static pare_status run_prompt(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                              const pare_forward *draft, size_t index, size_t prompts,
                              int32_t *alone, int32_t *both, pare_draft_result *r)
{
    const pare_draft_opts *const o = &r->opts;
    const size_t length = r->prompt + r->continued;
    const pare_generate_opts plain = {.temperature = o->temperature,
                                      .seed = o->seed,
                                      .first = index,
                                      .sequences = 1,
                                      .length = length};
    const pare_speculate_opts with = {o->temperature, {o->seed, index}, o->drafted, length};
    watch w = {cx, (double)index, (double)prompts, 0, r->continued, 0, 0};
    pare_speculate_counts counts = r->both;
    PARE_TRY(pare_generate(cx, scratch, f, &plain, r->prompt, alone, note_time, &w));
    PARE_TRY(pare_speculate_run(cx, scratch, f, draft, &with, r->prompt, both, &counts));
    if (o->temperature <= 0)
        PARE_TRY(compare(cx, r, index, alone, both));
    r->both = counts;
    r->alone_steps += w.seen - 1;
    r->alone_seconds += w.last - w.first;
    r->prompts++;
    return PARE_OK;
}

static pare_status run(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                       const pare_forward *draft, const int32_t *tokens, size_t count,
                       pare_draft_result *r)
{
    const size_t step = r->opts.stride ? r->opts.stride : r->opts.window;
    const size_t windows = (count - r->opts.window) / step + 1;
    const size_t prompts = windows < PARE_DRAFT_PROMPTS ? windows : PARE_DRAFT_PROMPTS;
    const size_t length = r->prompt + r->continued;
    int32_t *const alone = PARE_NEW(scratch, int32_t, length);
    int32_t *const both = PARE_NEW(scratch, int32_t, length);
    if (!alone || !both)
        return PARE_ENOMEM;
    for (size_t i = 0; i < prompts; i++) {
        const int32_t *const from = tokens + i * windows / prompts * step;
        tell(cx, (double)i, (double)prompts);
        memcpy(alone, from, r->prompt * sizeof *alone);
        memcpy(both, from, r->prompt * sizeof *both);
        PARE_TRY(run_prompt(cx, scratch, f, draft, i, prompts, alone, both, r));
    }
    tell(cx, (double)prompts, (double)prompts);
    r->complete = true;
    return PARE_OK;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

pare_status pare_evaluate_draft(pare_ctx *cx, const pare_forward *f, const pare_forward *draft,
                                const pare_draft_opts *opts, const int32_t *tokens, size_t count,
                                pare_draft_result *out)
{
    const size_t window = opts->window;
    *out = (pare_draft_result){.draft = out->draft, .opts = *opts};
    if (window < 2 || count < window)
        return pare_fail(cx, PARE_EINVAL, "%zu tokens for prompts of windows of %zu", count,
                         window);
    out->prompt = least(window / 2, PARE_DRAFT_TOKENS);
    out->continued = least(window - out->prompt, PARE_DRAFT_TOKENS);
    pare_arena scratch = {.cx = cx};
    const pare_status s = run(cx, &scratch, f, draft, tokens, count, out);
    pare_arena_release(&scratch);
    return s;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

pare_draft_figures pare_draft_figures_of(const pare_draft_result *r)
{
    const pare_speculate_counts *const c = &r->both;
    const double alone = ratio(r->alone_seconds, (double)r->alone_steps);
    const double with = ratio(c->seconds, (double)c->tokens);
    return (pare_draft_figures){
        .acceptance = ratio((double)c->accepted, (double)c->examined),
        .overlap = ratio(c->overlap, (double)c->examined),
        .tokens_per_pass = ratio((double)c->tokens, (double)c->passes),
        .tpot_ms = 1e3 * with,
        .alone_tpot_ms = 1e3 * alone,
        .speedup = ratio(alone, with),
        .draft_cost = ratio(ratio(c->draft_seconds, (double)c->draft_steps), alone),
        .pass_cost = ratio(ratio(c->full_seconds, (double)c->full_passes), alone)};
}

void pare_draft_put(pare_json_writer *w, const pare_draft_result *r)
{
    const pare_draft_figures f = pare_draft_figures_of(r);
    pare_json_open_object(w, "draft");
    pare_json_put_text(w, "model", r->draft);
    pare_json_put_integer(w, "draft_tokens", (int64_t)r->opts.drafted);
    pare_json_put_number(w, "temperature", r->opts.temperature);
    pare_json_put_integer(w, "seed", (int64_t)r->opts.seed);
    pare_json_put_integer(w, "prompts", (int64_t)r->prompts);
    pare_json_put_integer(w, "prompt_tokens", (int64_t)r->prompt);
    pare_json_put_integer(w, "tokens", (int64_t)r->both.tokens);
    pare_json_put_integer(w, "passes", (int64_t)r->both.passes);
    pare_json_put_finite(w, "acceptance", f.acceptance);
    pare_json_put_finite(w, "overlap", f.overlap);
    pare_json_put_finite(w, "tokens_per_pass", f.tokens_per_pass);
    pare_json_put_finite(w, "tpot_ms", f.tpot_ms);
    pare_json_put_finite(w, "alone_tpot_ms", f.alone_tpot_ms);
    pare_json_put_finite(w, "speedup", f.speedup);
    pare_json_put_finite(w, "draft_cost", f.draft_cost);
    pare_json_put_finite(w, "pass_cost", f.pass_cost);
    if (!r->complete)
        pare_json_put_bool(w, "complete", false);
    pare_json_close(w);
}
