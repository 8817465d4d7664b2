#include <string.h>

#include "compress/plan/plan_internal.h"
#include "compress/run/run_internal.h"
#include "runtime/file.h"
#include "runtime/random.h"

char *pare__run_data_path(pare_run *run, const pare_text *t)
{
    char *const directory = pare_path_directory(run->a, run->plan.job->recipe);
    return directory ? pare_path_join(run->a, directory, t->text) : NULL;
}

void pare__run_tell_text(pare_run *run, const pare_tokens *tokens)
{
    char text[PARE_TOKENS_NOTE];
    if (pare_tokens_note(tokens, text))
        pare__notify(run, PARE_EVENT_NOTICE, "warning: %s", text);
}

/* Texts, one behind the other, in the scratch arena. */
static pare_status from_text(pare_run *run, const pare_text *text, size_t texts, pare_tokens *out)
{
    const char **const path = PARE_NEW(run->a, const char *, texts);
    if (!path)
        return PARE_ENOMEM;
    for (size_t i = 0; i < texts; i++)
        if (!(path[i] = pare__run_data_path(run, &text[i])))
            return PARE_ENOMEM;
    pare_tokenizer *t = NULL;
    pare_status s = pare_checkpoint_tokenizer(&run->plan.checkpoint, &t);
    if (s == PARE_OK)
        s = pare_tokens_encode(run->cx, &run->scratch, t, path, texts, -1,
                               run->plan.model.config.vocab, out);
    pare_tokenizer_free(t);
    pare_memory_trim();
    if (s == PARE_OK)
        pare__run_tell_text(run, out);
    return s;
}

static pare_status from_model(pare_run *run, pare_tokens *out)
{
    pare_plan *const plan = &run->plan;
    const pare_calibration *const c = &plan->recipe.calibration;
    pare_forward f;
    PARE_TRY(pare_forward_init(run->cx, run->a, &plan->model, plan->window, false, &f));
    return pare_tokens_generate(run->cx, &run->scratch, &run->scratch, &f, c->temperature,
                                plan->recipe.seed, plan->samples + plan->held_out, plan->window,
                                out);
}

/* All tokens there are, in the scratch arena. */
static pare_status read_stream(pare_run *run, pare_tokens *out)
{
    const pare_calibration *const c = &run->plan.recipe.calibration;
    switch (c->kind) {
    case PARE_CALIBRATION_TEXT: return from_text(run, c->text.item, c->text.count, out);
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

/* Adds to run->held_out at most `most` windows of the stream that are not among the drawn ones,
 * spread evenly. Drawn windows stand in the order of the stream. */
static pare_status hold_out(pare_run *run, const pare_tokens *stream, const pare_tokens *drawn,
                            size_t most)
{
    const size_t window = run->plan.window, bytes = window * sizeof(int32_t);
    const size_t windows = stream->count / window;
    const int32_t **const left = PARE_NEW(&run->scratch, const int32_t *, windows);
    if (!left)
        return PARE_ENOMEM;
    size_t count = 0, next = 0;
    for (size_t i = 0; i < windows; i++) {
        const int32_t *const at = stream->id + i * window;
        if (next < drawn->count && memcmp(at, drawn->id + next, bytes) == 0)
            next += window;
        else
            left[count++] = at;
    }
    const size_t room = run->plan.held_out - run->held_out.count / window;
    const size_t wanted = most < room ? most : room, taken = count < wanted ? count : wanted;
    for (size_t i = 0; i < taken; i++) {
        memcpy(run->held_out.id + run->held_out.count, left[i * count / taken], bytes);
        run->held_out.count += window;
    }
    return PARE_OK;
}

/* Room for what is held out; some of it must have been found once all texts are read. */
static pare_status begin_held_out(pare_run *run)
{
    const size_t most = run->plan.held_out;
    run->held_out = (pare_tokens){.id = PARE_NEW(run->a, int32_t, most * run->plan.window)};
    return run->held_out.id ? PARE_OK : PARE_ENOMEM;
}

/* int32 as little-endian bytes, whatever the machine: x86-64 and aarch64 store them so. */
static pare_status hash_tokens(pare_run *run, const pare_tokens *t, char hex[PARE_SHA256_HEX])
{
    return pare_sha256_hex(run->cx, t->id, t->count * sizeof *t->id, hex);
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

/* Draws the share of one text; `out` has room for it. */
static pare_status draw_share(pare_run *run, size_t text, int32_t *out)
{
    const pare_plan *const plan = &run->plan;
    const pare_text *const file = &plan->recipe.calibration.text.item[text];
    const size_t share = run->share[text], window = plan->window;
    pare_tokens stream, drawn;
    PARE_TRY(from_text(run, file, 1, &stream));
    if (stream.count / window < share)
        return pare_recipe_fail(run->cx, file->place,
                                "the share of %s by weight is %zu window%s of %zu tokens, and it "
                                "has %zu token%s (%zu window%s); give more text, less weight or "
                                "fewer samples",
                                file->text, share, pare_plural(share), window, stream.count,
                                pare_plural(stream.count), stream.count / window,
                                pare_plural(stream.count / window));
    const uint64_t seed =
        pare_random_u64(plan->recipe.seed, pare_random_stream("calibration texts"), text);
    PARE_TRY(pare_tokens_windows(run->cx, &run->scratch, &stream, window, share, PARE_PICK_DRAW,
                                 seed, &drawn));
    memcpy(out, drawn.id, drawn.count * sizeof *out);
    const size_t part = plan->held_out * share / plan->samples;
    return plan->held_out ? hold_out(run, &stream, &drawn, part ? part : 1) : PARE_OK;
}

/* Texts with weights: windows of each are cut and drawn for themselves, text behind text. */
static pare_status mix_texts(pare_run *run)
{
    const pare_plan *const plan = &run->plan;
    const pare_calibration *const c = &plan->recipe.calibration;
    run->share = PARE_NEW(run->a, size_t, c->text.count);
    run->tokens = (pare_tokens){.id = PARE_NEW(run->a, int32_t, plan->samples * plan->window)};
    if (!run->share || !run->tokens.id)
        return PARE_ENOMEM;
    pare_tokens_share(c->weight, c->text.count, plan->samples, run->share);
    for (size_t i = 0; i < c->text.count; i++) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = draw_share(run, i, run->tokens.id + run->tokens.count);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
        run->tokens.count += run->share[i] * plan->window;
    }
    return PARE_OK;
}

static pare_status one_stream(pare_run *run)
{
    pare_tokens stream;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_status s = read_stream(run, &stream);
    if (s == PARE_OK && run->plan.recipe.calibration.kind != PARE_CALIBRATION_GENERATE)
        run->plan.windows = stream.count / run->plan.window;
    if (s == PARE_OK)
        s = pick_windows(run, &stream);
    if (s == PARE_OK && run->plan.held_out)
        s = hold_out(run, &stream, &run->tokens, run->plan.held_out);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

pare_status pare__run_tokens(pare_run *run)
{
    pare_plan *const plan = &run->plan;
    if (!plan->calibrated && !plan->held_out)
        return PARE_OK;
    if (plan->held_out)
        PARE_TRY(begin_held_out(run));
    PARE_TRY(plan->recipe.calibration.weight ? mix_texts(run) : one_stream(run));
    if (plan->held_out && run->held_out.count == 0)
        return pare__plan_refuse_held_out(run->cx, plan, "calibration takes every window");
    PARE_TRY(hash_tokens(run, &run->tokens, run->tokens_sha256));
    if (plan->held_out)
        PARE_TRY(hash_tokens(run, &run->held_out, run->held_out_sha256));
    if (plan->calibrated)
        PARE_TRY(pare_tokens_fresh(&run->scratch, &run->tokens, plan->window, &plan->fresh));
    if (plan->samples)
        return PARE_OK;
    plan->samples = run->tokens.count / plan->window;
    PARE_TRY(pare__plan_check_held(run->cx, plan));
    PARE_TRY(pare__plan_cost(run->cx, plan));
    return pare__plan_disk(run->cx, run->a, plan);
}

pare_status pare__run_weigh(pare_run *run)
{
    const pare_plan *const plan = &run->plan;
    if (!plan->token_weights || run->units_found >= plan->out.blocks)
        return PARE_OK;
    const double start = pare__seconds();
    pare_ctx_step(run->cx, PARE__PHASE_WEIGH, "weighing tokens by the loss");
    const pare_status s = pare_token_weights_find(
        run->cx, &run->stage, &run->scratch, &run->forward, run->tokens.id, plan->samples,
        plan->window, plan->recipe.seed, &run->current, plan->partial_path, &run->weights);
    run->calibration_seconds += pare__seconds() - start;
    return s;
}
