#include <string.h>

#include "compress/compress_internal.h"
#include "compress/plan_internal.h"
#include "runtime/file.h"

char *pare__run_data_path(pare_run *run, const pare_text *t)
{
    char *const directory = pare_path_directory(run->a, run->plan.job->recipe);
    return directory ? pare_path_join(run->a, directory, t->text) : NULL;
}

static pare_status from_text(pare_run *run, const pare_texts *texts, pare_tokens *out)
{
    const char **const path = PARE_NEW(run->a, const char *, texts->count);
    if (!path)
        return PARE_ENOMEM;
    for (size_t i = 0; i < texts->count; i++)
        if (!(path[i] = pare__run_data_path(run, &texts->item[i])))
            return PARE_ENOMEM;
    pare_tokenizer *t = NULL;
    pare_status s = pare_tokenizer_open(run->cx, run->plan.checkpoint.directory, &t);
    if (s == PARE_OK)
        s = pare_tokens_encode(run->cx, &run->scratch, t, path, texts->count, -1,
                               run->plan.model.config.vocab, out);
    pare_tokenizer_free(t);
    return s;
}

static pare_status from_model(pare_run *run, pare_tokens *out)
{
    pare_plan *const plan = &run->plan;
    const pare_calibration *const c = &plan->recipe.calibration;
    pare_forward f;
    PARE_TRY(pare_forward_init(run->cx, run->a, &plan->model, plan->window, false, &f));
    return pare_tokens_generate(run->cx, &run->scratch, &run->scratch, &f, c->temperature,
                                plan->recipe.seed, plan->samples, plan->window, out);
}

/* All tokens there are, in the scratch arena. */
static pare_status read_stream(pare_run *run, pare_tokens *out)
{
    const pare_calibration *const c = &run->plan.recipe.calibration;
    switch (c->kind) {
    case PARE_CALIBRATION_TEXT: return from_text(run, &c->text, out);
    case PARE_CALIBRATION_TOKENS: {
        const char *const path = pare__run_data_path(run, &c->tokens);
        return path ? pare_tokens_read(run->cx, &run->scratch, path, run->plan.model.config.vocab,
                                       out)
                    : PARE_ENOMEM;
    }
    case PARE_CALIBRATION_GENERATE: return from_model(run, out);
    case PARE_CALIBRATION_NONE: break;
    }
    return pare_fail(run->cx, PARE_EINVAL, "no calibration data");
}

static void hash_tokens(pare_run *run)
{
    /* int32 as little-endian bytes, whatever the machine: x86-64 and aarch64 store them so */
    pare_sha256_hex(run->tokens.id, run->tokens.count * sizeof *run->tokens.id, run->tokens_sha256);
}

/* Keeps the windows that the recipe asks for. */
static pare_status pick_windows(pare_run *run, const pare_tokens *stream)
{
    const pare_plan *const plan = &run->plan;
    const pare_calibration *const c = &plan->recipe.calibration;
    const pare_pick pick = c->kind == PARE_CALIBRATION_TEXT ? PARE_PICK_DRAW : PARE_PICK_FIRST;
    const pare_status s = pare_tokens_windows(run->cx, run->a, stream, plan->window, plan->samples,
                                              pick, plan->recipe.seed, &run->tokens);
    if (s != PARE_EUSAGE)
        return s;
    char reason[sizeof run->cx->what];
    memcpy(reason, run->cx->what, sizeof reason);
    pare_ctx_clear(run->cx);
    return pare_recipe_fail(run->cx, c->samples_place.file ? c->samples_place : c->place, "%s",
                            reason);
}

pare_status pare__run_tokens(pare_run *run)
{
    pare_plan *const plan = &run->plan;
    if (!plan->calibrated)
        return PARE_OK;
    pare_tokens stream;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_status s = read_stream(run, &stream);
    if (s == PARE_OK)
        s = pick_windows(run, &stream);
    pare_arena_rewind(&run->scratch, mark);
    PARE_TRY(s);
    hash_tokens(run);
    if (plan->samples)
        return PARE_OK;
    plan->samples = run->tokens.count / plan->window;
    return pare__plan_cost(run->cx, run->a, plan);
}
