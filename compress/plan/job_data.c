#include "compress/plan/job_data.h"

#include <stdio.h>
#include <string.h>

#include "compress/plan/plan_internal.h"
#include "formats/checksums.h"
#include "runtime/file.h"
#include "runtime/random.h"

char *pare_data_path(pare_arena *a, const pare_plan *plan, const pare_text *t)
{
    char *const directory = pare_path_directory(a, plan->job->recipe);
    return directory ? pare_path_join(a, directory, t->text) : NULL;
}

static void tell_text(const pare_data_reader *r, const pare_tokens *tokens)
{
    char text[PARE_TOKENS_NOTE];
    if (pare_tokens_note(tokens, text))
        pare_teller_say(&r->teller, "warning: %s", text);
}

/* Texts, one behind the other, in the scratch arena. */
static pare_status read_texts(const pare_data_reader *r, const pare_text *text, size_t texts,
                              pare_tokens *out)
{
    const char **const path = PARE_NEW(r->a, const char *, texts);
    if (!path)
        return PARE_ENOMEM;
    for (size_t i = 0; i < texts; i++)
        if (!(path[i] = pare_data_path(r->a, r->plan, &text[i])))
            return PARE_ENOMEM;
    pare_tokenizer *t = NULL;
    pare_status s = pare_checkpoint_tokenizer(r->checkpoint, &t);
    if (s == PARE_OK)
        s = pare_tokens_encode(r->cx, r->scratch, t, path, texts, -1, r->plan->model.config.vocab,
                               out);
    pare_tokenizer_free(t);
    pare_memory_trim();
    if (s == PARE_OK)
        tell_text(r, out);
    return s;
}

/* What the model writes, in the scratch arena. */
static pare_status generate(const pare_data_reader *r, size_t samples, pare_tokens *out)
{
    const pare_plan *const plan = r->plan;
    pare_forward f;
    PARE_TRY(pare_forward_init(r->cx, r->a, r->model, plan->window, false, &f));
    return pare_tokens_generate(r->cx, r->scratch, r->scratch, &f,
                                plan->recipe.calibration.temperature, plan->recipe.seed,
                                samples + plan->held_out, plan->window, out);
}

/* All tokens there are, in the scratch arena. */
static pare_status read_stream(const pare_data_reader *r, size_t samples, pare_tokens *out)
{
    const pare_calibration *const c = &r->plan->recipe.calibration;
    switch (c->kind) {
    case PARE_CALIBRATION_TEXT: return read_texts(r, c->text.item, c->text.count, out);
    case PARE_CALIBRATION_TOKENS: {
        const char *const path = pare_data_path(r->a, r->plan, &c->tokens);
        return path ? pare_tokens_read(r->cx, r->scratch, path, r->plan->model.config.vocab, out)
                    : PARE_ENOMEM;
    }
    case PARE_CALIBRATION_GENERATE: return generate(r, samples, out);
    case PARE_CALIBRATION_FROM:
    case PARE_CALIBRATION_NONE: break;
    }
    return pare_fail(r->cx, PARE_EINVAL, "no calibration data");
}

/* Windows to train on beside those of calibration. */
static size_t more_windows(const pare_plan *plan)
{
    const size_t samples = plan->settled.samples;
    return plan->train.windows > samples ? plan->train.windows - samples : 0;
}

/* What of a stream calibration does not see. */
typedef struct rest {
    const int32_t **window;
    size_t count;
} rest;

/* Drawn windows stand in the order of the stream. */
static pare_status find_rest(const pare_data_reader *r, const pare_tokens *stream,
                             const pare_tokens *drawn, rest *out)
{
    const size_t window = r->plan->window, windows = stream->count / window;
    *out = (rest){.window = PARE_NEW(r->scratch, const int32_t *, windows)};
    if (!out->window)
        return PARE_ENOMEM;
    size_t next = 0;
    for (size_t i = 0; i < windows; i++) {
        const int32_t *const at = stream->id + i * window;
        if (next < drawn->count && memcmp(at, drawn->id + next, window * sizeof *at) == 0)
            next += window;
        else
            out->window[out->count++] = at;
    }
    return PARE_OK;
}

/* Moves `most` windows of the rest, or all, to the end of `out`, spread evenly; those that stay
 * keep their order. */
static void move_windows(rest *left, size_t most, size_t window, pare_tokens *out)
{
    const size_t taken = left->count < most ? left->count : most;
    size_t next = 0, stay = 0;
    for (size_t i = 0; i < left->count; i++) {
        if (next == taken || i != next * left->count / taken) {
            left->window[stay++] = left->window[i];
            continue;
        }
        memcpy(out->id + out->count, left->window[i], window * sizeof *out->id);
        out->count += window;
        next++;
    }
    left->count = stay;
}

/* Whose share of `more` windows to train on is not there. */
static pare_status fail_rest(const pare_data_reader *r, const pare_text *text, size_t more,
                             size_t has)
{
    const pare_plan *const plan = r->plan;
    char share[300] = "the data have", most[64] = "fewer windows";
    if (!text && plan->settled.samples + has > 1)
        (void)snprintf(most, sizeof most, "at most windows: %zu", plan->settled.samples + has - 1);
    if (text)
        (void)snprintf(share, sizeof share, "%zu of them are of %.200s by its weight, which has",
                       more, text->text);
    return pare_recipe_fail(
        r->cx, plan->training->place,
        "%s: windows: %zu are %zu more than it calibrates on; %s %zu more, and one is held out; "
        "give more text, or %s",
        pare_passes[plan->training->pass]->name, plan->train.windows, more_windows(plan), share,
        has, most);
}

/* Holds windows of the stream out, at most `most` of them, and takes `more` to train on.
 *   text   one with a weight; NULL: the stream is all there is */
static pare_status take_rest(const pare_data_reader *r, const pare_text *text,
                             const pare_tokens *stream, const pare_tokens *drawn, size_t most,
                             size_t more, pare_calibration_data *out)
{
    const pare_plan *const plan = r->plan;
    const size_t window = plan->window, room = plan->held_out - out->held_out.count / window;
    rest left;
    PARE_TRY(find_rest(r, stream, drawn, &left));
    if (more && left.count <= more)
        return fail_rest(r, text, more, left.count);
    const size_t spare = left.count - more, held = most < room ? most : room;
    move_windows(&left, held < spare ? held : spare, window, &out->held_out);
    move_windows(&left, more, window, &out->training);
    return PARE_OK;
}

/* int32 as little-endian bytes, whatever the machine: x86-64 and aarch64 store them so. */
static pare_status hash_tokens(pare_ctx *cx, const pare_tokens *t, char hex[PARE_SHA256_HEX])
{
    return pare_sha256_hex(cx, t->id, t->count * sizeof *t->id, hex);
}

/* Keeps the windows that the recipe asks for. */
static pare_status pick_windows(const pare_data_reader *r, const pare_tokens *stream,
                                size_t samples, pare_tokens *out)
{
    const pare_plan *const plan = r->plan;
    const pare_calibration *const c = &plan->recipe.calibration;
    const pare_pick pick = c->kind == PARE_CALIBRATION_TEXT ? PARE_PICK_DRAW : PARE_PICK_FIRST;
    const pare_status s = pare_tokens_windows(r->cx, r->a, stream, plan->window, samples, pick,
                                              plan->recipe.seed, out);
    if (s != PARE_EUSAGE)
        return s;
    const pare_place at = c->samples_place; /* of no line where it is not given, or by --set */
    const bool given = at.line || strcmp(at.file, c->place.file) != 0;
    char reason[sizeof r->cx->what];
    memcpy(reason, r->cx->what, sizeof reason);
    pare_ctx_clear(r->cx);
    return pare_recipe_fail(r->cx, given ? at : c->place, "%s", reason);
}

/* Draws the share of one text; out->tokens has room for it. */
static pare_status draw_share(const pare_data_reader *r, size_t text, size_t samples,
                              pare_calibration_data *out)
{
    const pare_plan *const plan = r->plan;
    const pare_text *const file = &plan->recipe.calibration.text.item[text];
    const size_t share = out->share[text], window = plan->window;
    pare_tokens stream, drawn;
    PARE_TRY(read_texts(r, file, 1, &stream));
    if (stream.count / window < share)
        return pare_recipe_fail(r->cx, file->place,
                                "the share of %s by weight is %zu window%s of %zu tokens, and it "
                                "has %zu token%s (%zu window%s); give more text, less weight or "
                                "fewer samples",
                                file->text, share, pare_plural(share), window, stream.count,
                                pare_plural(stream.count), stream.count / window,
                                pare_plural(stream.count / window));
    const uint64_t seed =
        pare_random_u64(plan->recipe.seed, pare_random_stream("calibration texts"), text);
    PARE_TRY(pare_tokens_windows(r->cx, r->scratch, &stream, window, share, PARE_PICK_DRAW, seed,
                                 &drawn));
    memcpy(out->tokens.id + out->tokens.count, drawn.id, drawn.count * sizeof *drawn.id);
    const size_t part = plan->held_out * share / samples, more = more_windows(plan);
    const size_t before = out->tokens.count / window;
    return plan->held_out
               ? take_rest(r, file, &stream, &drawn, part ? part : 1,
                           more * (before + share) / samples - more * before / samples, out)
               : PARE_OK;
}

/* Texts with weights: windows of each are cut and drawn for themselves, text behind text. */
static pare_status mix_texts(const pare_data_reader *r, size_t samples, pare_calibration_data *out)
{
    const pare_plan *const plan = r->plan;
    const pare_calibration *const c = &plan->recipe.calibration;
    out->share = PARE_NEW(r->a, size_t, c->text.count);
    out->tokens = (pare_tokens){.id = PARE_NEW(r->a, int32_t, samples * plan->window)};
    if (!out->share || !out->tokens.id)
        return PARE_ENOMEM;
    pare_tokens_share(c->weight, c->text.count, samples, out->share);
    for (size_t i = 0; i < c->text.count; i++) {
        const pare_mark mark = pare_arena_mark(r->scratch);
        const pare_status s = draw_share(r, i, samples, out);
        pare_arena_rewind(r->scratch, mark);
        PARE_TRY(s);
        out->tokens.count += out->share[i] * plan->window;
    }
    return PARE_OK;
}

static pare_status one_stream(const pare_data_reader *r, pare_calibration_data *out,
                              pare_settled *settled)
{
    const pare_plan *const plan = r->plan;
    pare_tokens stream;
    const pare_mark mark = pare_arena_mark(r->scratch);
    pare_status s = read_stream(r, settled->samples, &stream);
    if (s == PARE_OK && plan->recipe.calibration.kind != PARE_CALIBRATION_GENERATE)
        settled->windows = stream.count / plan->window;
    if (s == PARE_OK)
        s = pick_windows(r, &stream, settled->samples, &out->tokens);
    if (s == PARE_OK && plan->held_out)
        s = take_rest(r, NULL, &stream, &out->tokens, plan->held_out, more_windows(plan), out);
    pare_arena_rewind(r->scratch, mark);
    return s;
}

/* Windows to train on, once all are there. */
static pare_status settle_training(const pare_data_reader *r, pare_calibration_data *out)
{
    if (!r->plan->training)
        return PARE_OK;
    if (out->training.id)
        memcpy(out->training.id, out->tokens.id, out->tokens.count * sizeof *out->tokens.id);
    else
        out->training = out->tokens;
    return hash_tokens(r->cx, &out->training, out->training_sha256);
}

/* Out of the file that has the statistics. */
static pare_status take_kept(const pare_data_reader *r, pare_calibration_data *out,
                             pare_settled *settled)
{
    const pare_plan_kept *const kept = &r->plan->kept;
    if (!kept->imatrix)
        PARE_TRY(pare_stats_file_tokens(r->cx, r->a, kept->path, &kept->about,
                                        r->plan->model.config.vocab, &out->tokens, &out->held_out));
    (void)snprintf(out->sha256, sizeof out->sha256, "%s", kept->about.tokens_sha256);
    if (kept->about.held_out)
        memcpy(out->held_out_sha256, kept->about.held_out_sha256, sizeof out->held_out_sha256);
    settled->windows = kept->about.samples;
    settled->fresh = kept->about.fresh;
    settled->held_out = r->plan->held_out;
    return PARE_OK;
}

pare_status pare_data_calibration(const pare_data_reader *r, pare_calibration_data *out,
                                  pare_settled *settled)
{
    const pare_plan *const plan = r->plan;
    if (!plan->calibrated && !plan->held_out)
        return PARE_OK;
    if (plan->recipe.calibration.kind == PARE_CALIBRATION_FROM)
        return take_kept(r, out, settled);
    if (plan->held_out &&
        !(out->held_out.id = PARE_NEW(r->a, int32_t, plan->held_out * plan->window)))
        return PARE_ENOMEM;
    if (more_windows(plan) &&
        !(out->training.id = PARE_NEW(r->a, int32_t, plan->train.windows * plan->window)))
        return PARE_ENOMEM;
    out->training.count = more_windows(plan) ? settled->samples * plan->window : 0;
    PARE_TRY(plan->recipe.calibration.weight ? mix_texts(r, settled->samples, out)
                                             : one_stream(r, out, settled));
    if (plan->held_out && out->held_out.count == 0)
        return pare__plan_refuse_no_rest(r->cx, plan, out->tokens.count / plan->window);
    PARE_TRY(hash_tokens(r->cx, &out->tokens, out->sha256));
    if (plan->held_out)
        PARE_TRY(hash_tokens(r->cx, &out->held_out, out->held_out_sha256));
    settled->held_out = out->held_out.count / plan->window;
    PARE_TRY(settle_training(r, out));
    if (plan->calibrated)
        PARE_TRY(pare_tokens_fresh(r->scratch, &out->tokens, plan->window, &settled->fresh));
    if (settled->samples)
        return PARE_OK;
    settled->samples = out->tokens.count / plan->window;
    PARE_TRY(pare__plan_check_held(r->cx, plan, settled->samples));
    PARE_TRY(pare__plan_cost(r->cx, plan, settled));
    return pare__plan_disk(r->cx, r->a, plan, settled);
}

/* Tokens of one evaluation's data file, in the scratch arena; *windows that the file has. */
pare_status pare_data_evaluation(const pare_data_reader *r, const pare_evaluation *e,
                                 pare_tokens *out, size_t *windows)
{
    const char *const path = pare_data_path(r->a, r->plan, pare_evaluation_data(e));
    const size_t vocab = r->plan->model.config.vocab, most = e->limit * e->window;
    if (!path)
        return PARE_ENOMEM;
    pare_tokenizer *t = NULL;
    pare_status s = e->text.text ? pare_checkpoint_tokenizer(r->checkpoint, &t) : PARE_OK;
    if (s == PARE_OK && t)
        s = pare_tokens_encode(r->cx, r->scratch, t, &path, 1, -1, vocab, out);
    else if (s == PARE_OK)
        s = pare_tokens_read(r->cx, r->scratch, path, vocab, out);
    pare_tokenizer_free(t);
    pare_memory_trim();
    *windows = s == PARE_OK ? out->count / e->window : 0;
    if (s == PARE_OK && most && most < out->count)
        out->count = most;
    return s;
}

pare_status pare_data_choice(const pare_data_reader *r, const pare_evaluation *e,
                             pare_choice_data *out)
{
    const char *const path = pare_data_path(r->a, r->plan, pare_evaluation_data(e));
    pare_choice_texts texts;
    *out = (pare_choice_data){0};
    if (!path)
        return PARE_ENOMEM;
    PARE_TRY(pare_choice_load(r->cx, r->scratch, r->checkpoint, r->plan->model.config.context, path,
                              e->limit, NULL, &texts, &out->item));
    out->items = texts.count;
    out->all = texts.all;
    for (size_t i = 0; i < texts.count; i++)
        for (size_t c = 0; c < out->item[i].choices; c++) {
            const size_t tokens = out->item[i].context_count + out->item[i].choice_count[c];
            out->longest = tokens > out->longest ? tokens : out->longest;
        }
    return PARE_OK;
}

pare_status pare_data_asked(pare_arena *a, const pare_plan *plan, const pare_evaluation *e,
                            pare_task_asked *out)
{
    const char *const file = pare_data_path(a, plan, &e->file);
    const char *const from = e->shots_file.text ? pare_data_path(a, plan, &e->shots_file) : NULL;
    *out = (pare_task_asked){.name = e->task.text,
                             .file = file,
                             .limit = e->limit,
                             .shots = e->shots,
                             .shots_file = from,
                             .by = e->by.text};
    return file && (from || !e->shots_file.text) ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_data_task(const pare_data_reader *r, const pare_evaluation *e,
                           const pare_task_asked *asked, pare_task_data *out)
{
    const pare_status s =
        pare_task_load(r->cx, r->scratch, r->checkpoint, r->plan->model.config.context, asked, out);
    return s == PARE_EUSAGE ? pare_recipe_fail_at(r->cx, s, e->task.place) : s;
}

void pare_data_needle_opts(const pare_evaluation *e, const char *file, pare_needle_opts *out)
{
    *out =
        (pare_needle_opts){.file = file, .lengths = e->lengths, .keys = e->keys, .seed = e->seed};
    memcpy(out->length, e->length, sizeof out->length);
}

pare_status pare_data_needle(const pare_data_reader *r, const pare_evaluation *e,
                             pare_needle_opts *opts, pare_choice_item **item)
{
    const char *const path = pare_data_path(r->a, r->plan, &e->text);
    pare_tokenizer *t;
    if (!path)
        return PARE_ENOMEM;
    pare_data_needle_opts(e, path, opts);
    PARE_TRY(pare_checkpoint_tokenizer(r->checkpoint, &t));
    const pare_status s = pare_needle_load(r->cx, r->scratch, t, opts, item);
    pare_tokenizer_free(t);
    pare_memory_trim();
    return s == PARE_EUSAGE ? pare_recipe_fail_at(r->cx, s, e->place) : s;
}

static pare_status check_tokens(const pare_data_reader *r, const pare_evaluation *e)
{
    pare_tokens tokens;
    size_t windows;
    PARE_TRY(pare_data_evaluation(r, e, &tokens, &windows));
    tell_text(r, &tokens);
    if (tokens.count >= e->window)
        return PARE_OK;
    return pare_recipe_fail(
        r->cx, e->place,
        "%s has %zu token%s, fewer than one window of %zu; give a longer text or a smaller window",
        pare_evaluation_data(e)->text, tokens.count, pare_plural(tokens.count), e->window);
}

static pare_status check_items(const pare_data_reader *r, const pare_evaluation *e)
{
    pare_choice_data q;
    return pare_data_choice(r, e, &q);
}

static pare_status check_task(const pare_data_reader *r, const pare_evaluation *e)
{
    pare_task_asked asked;
    pare_task_data data;
    PARE_TRY(pare_data_asked(r->scratch, r->plan, e, &asked));
    return pare_data_task(r, e, &asked, &data);
}

static pare_status check_needle(const pare_data_reader *r, const pare_evaluation *e)
{
    pare_needle_opts opts;
    pare_choice_item *item;
    return pare_data_needle(r, e, &opts, &item);
}

pare_status pare_data_check(const pare_data_reader *r, const pare_evaluation *e)
{
    const pare_mark mark = pare_arena_mark(r->scratch);
    const pare_status s = e->kind == PARE_EVALUATE_CHOICE   ? check_items(r, e)
                          : e->kind == PARE_EVALUATE_TASK   ? check_task(r, e)
                          : e->kind == PARE_EVALUATE_NEEDLE ? check_needle(r, e)
                                                            : check_tokens(r, e);
    pare_arena_rewind(r->scratch, mark);
    return s;
}
