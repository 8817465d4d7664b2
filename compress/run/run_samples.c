/* What both models write behind the same words: the most likely token each time, so that a reader
 * sees what the figures mean. As many weights are read as for TOKENS tokens of one sequence. */
#include <string.h>

#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_original.h"
#include "runtime/machine.h"
#include "runtime/sample.h"

enum { SEQUENCES = 3, PROMPT = 16, TOKENS = 48 };

pare_status pare__run_sample_prompts(pare_run *run, const char *data, const pare_tokens *tokens)
{
    const size_t context = run->plan->out.context;
    if (run->prompts.tokens.id || tokens->count < SEQUENCES * PROMPT || context < PROMPT + TOKENS)
        return PARE_OK;
    int32_t *const id = PARE_NEW(run->a, int32_t, SEQUENCES * PROMPT);
    if (!id)
        return PARE_ENOMEM;
    for (size_t i = 0; i < SEQUENCES; i++)
        memcpy(id + i * PROMPT, tokens->id + i * (tokens->count / SEQUENCES), PROMPT * sizeof *id);
    run->prompts = (pare_run_prompts){{.id = id, .count = SEQUENCES * PROMPT}, data};
    return PARE_OK;
}

/* Decoding alone is timed: from the first drawn tokens, which the prefill gives, to the last. */
typedef struct timing {
    pare_ctx *cx;
    double first, last;
} timing;

static pare_status drawn(void *self, size_t position)
{
    timing *const t = self;
    t->last = pare_seconds();
    if (position == PROMPT)
        t->first = t->last;
    pare_ctx_progress(t->cx, "sampling", (double)(position + 1 - PROMPT), TOKENS);
    return PARE_OK;
}

/* Continues the prompts: tokens [SEQUENCES, PROMPT + TOKENS] in the scratch arena. Beyond an end
 * token, too, so that both models are timed over the same work. */
static pare_status draw(pare_run *run, const pare_model *m, int32_t **tokens, double *tok_s)
{
    const pare_generate_opts opts = {.sequences = SEQUENCES, .length = PROMPT + TOKENS};
    timing t = {.cx = run->cx};
    pare_forward f;
    *tokens = PARE_NEW(&run->scratch, int32_t, SEQUENCES * opts.length);
    if (!*tokens)
        return PARE_ENOMEM;
    for (size_t i = 0; i < SEQUENCES; i++)
        memcpy(*tokens + i * opts.length, run->prompts.tokens.id + i * PROMPT,
               PROMPT * sizeof **tokens);
    PARE_TRY(pare_forward_init(run->cx, &run->scratch, m, opts.length, false, &f));
    PARE_TRY(pare_generate(run->cx, &run->scratch, &f, &opts, PROMPT, *tokens, drawn, &t));
    *tok_s = SEQUENCES * (TOKENS - 1) / (t.last - t.first);
    return PARE_OK;
}

/* Tokens of a continuation in front of the first end token. */
static size_t length_of(const pare_config *c, const int32_t *id)
{
    for (size_t i = 0; i < TOKENS; i++)
        if (pare_is_end(c, id[i]))
            return i;
    return TOKENS;
}

static pare_status decode(pare_run *run, const pare_tokenizer *t, const int32_t *id, size_t count,
                          const char **out)
{
    char *text;
    size_t len;
    PARE_TRY(pare_tokenizer_decode(run->cx, t, run->a, id, count, &text, &len));
    *out = text;
    return PARE_OK;
}

static pare_status put_sample(pare_run *run, const pare_tokenizer *t, const int32_t *before,
                              const int32_t *after, pare_report_sample *out)
{
    const size_t was = length_of(&run->model.config, before + PROMPT);
    const size_t is = length_of(&run->plan->out, after + PROMPT);
    size_t same = 0;
    while (same < was && same < is && before[PROMPT + same] == after[PROMPT + same])
        same++;
    PARE_TRY(decode(run, t, before, PROMPT, &out->prompt));
    PARE_TRY(decode(run, t, before + PROMPT, same, &out->same));
    PARE_TRY(decode(run, t, before + PROMPT + same, was - same, &out->before));
    return decode(run, t, after + PROMPT + same, is - same, &out->after);
}

static pare_status put_samples(pare_run *run, const pare_tokenizer *t, const int32_t *before,
                               const int32_t *after, pare_report_samples *out)
{
    pare_report_sample *const sample = PARE_NEW(run->a, pare_report_sample, SEQUENCES);
    if (!sample)
        return PARE_ENOMEM;
    for (size_t i = 0; i < SEQUENCES; i++)
        PARE_TRY(put_sample(run, t, before + i * (PROMPT + TOKENS), after + i * (PROMPT + TOKENS),
                            &sample[i]));
    out->sample = sample;
    out->count = SEQUENCES;
    out->tokens = TOKENS;
    out->data = run->prompts.data;
    return PARE_OK;
}

/* The tokenizer, or NULL. One that cannot be read costs the samples and no more: the job did not
 * need it. */
static pare_status open_tokenizer(pare_run *run, pare_tokenizer **out)
{
    pare_ctx *const cx = run->cx;
    bool has;
    *out = NULL;
    PARE_TRY(pare_checkpoint_has_tokenizer(&run->checkpoint, &has));
    if (!has)
        return PARE_OK;
    const pare_status s = pare_checkpoint_tokenizer(&run->checkpoint, out);
    if (s != PARE_EFORMAT && s != PARE_ENOTSUP)
        return s;
    pare__notify(run, PARE_EVENT_NOTICE, "no samples of the models: %s", cx->what);
    pare_ctx_clear(cx);
    return PARE_OK;
}

pare_status pare__run_samples(pare_run *run, const pare_model *after, pare_report_samples *out)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    int32_t *was, *is;
    pare_tokenizer *t;
    if (!run->prompts.tokens.id)
        return PARE_OK;
    PARE_TRY(open_tokenizer(run, &t));
    if (!t)
        return PARE_OK;
    pare_ctx_step(run->cx, PARE__PHASE_SAMPLES, run->phase[PARE__PHASE_SAMPLES].name);
    pare_status s = draw(run, pare__run_original(run), &was, &out->before_tok_s);
    if (s == PARE_OK)
        s = draw(run, after, &is, &out->after_tok_s);
    if (s == PARE_OK)
        s = put_samples(run, t, was, is, out);
    pare_tokenizer_free(t);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}
