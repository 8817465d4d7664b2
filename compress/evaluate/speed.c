#include "compress/evaluate/evaluate.h"
#include "runtime/block_ops.h"
#include "runtime/machine.h"
#include "runtime/ops.h"
#include "runtime/random.h"
#include "runtime/threads.h"

enum { PROMPT_MAX = 512, DECODED_MAX = 64, RUNS = 3 };

typedef struct stopwatch {
    pare_ctx *cx;
    pare_arena arena, work;
    pare_ops state, run; /* the backend over the arena, and over the scratch of passes */
    const pare_forward *f;
    pare_kv *kv; /* [blocks] */
    pare_array x;
    float *logits;
    int32_t *prompt;
    size_t prompt_count, decoded;
} stopwatch;

static pare_status take_state(stopwatch *s)
{
    const pare_config *const c = &s->f->model->config;
    const size_t context = s->f->positions < c->context ? s->f->positions : c->context;
    s->prompt_count = context / 2 < PROMPT_MAX ? context / 2 : PROMPT_MAX;
    s->prompt_count += s->prompt_count == 0;
    s->decoded = context - s->prompt_count < DECODED_MAX ? context - s->prompt_count : DECODED_MAX;
    s->kv = PARE_NEW(&s->arena, pare_kv, c->blocks);
    s->logits = PARE_NEW(&s->arena, float, s->f->model->head.n);
    s->prompt = PARE_NEW(&s->arena, int32_t, s->prompt_count);
    if (!s->kv || !s->logits || !s->prompt)
        return PARE_ENOMEM;
    PARE_TRY(s->state.op->take(&s->state, s->prompt_count, c->hidden, &s->x));
    for (size_t i = 0; i < c->blocks; i++)
        PARE_TRY(pare_block_kv_take(&s->state, s->f->model, i, 1, s->prompt_count + s->decoded,
                                    &s->kv[i]));
    for (size_t i = 0; i < s->prompt_count; i++)
        s->prompt[i] = (int32_t)(pare_random_u64(0, 0, i) % s->f->model->embed.n);
    const pare_batch widest = {1, s->prompt_count, s->decoded};
    return pare_arena_init(s->cx, &s->work, pare_block_forward_scratch(s->cx, c, widest));
}

/* Runs `length` tokens at `start`; *next becomes the greedy continuation. */
static pare_status step(stopwatch *s, const int32_t *tokens, size_t start, size_t length,
                        int32_t *next)
{
    const pare_model *const m = s->f->model;
    const size_t last = length - 1;
    const pare_batch batch = {1, length, start};
    const pare_array x = pare_array_rows(s->x, 0, length);
    PARE_TRY(pare_embed_run(&s->run, m, tokens, batch, x));
    PARE_TRY(pare_model_run(&s->run, s->f, batch, x, s->kv, m->config.blocks));
    PARE_TRY(pare_greedy_get(&s->run, s->f, x, &last, 1, s->logits, next));
    return *next >= 0 ? PARE_OK
                      : pare_fail(s->cx, PARE_ENUMERIC, "the logits of this model are not finite");
}

static pare_status run(stopwatch *s, double *prefill_ms, double *decode_ms)
{
    int32_t token;
    const double begin = 1e3 * pare_seconds();
    PARE_TRY(step(s, s->prompt, 0, s->prompt_count, &token));
    const double first = 1e3 * pare_seconds();
    for (size_t i = 0; i < s->decoded; i++)
        PARE_TRY(step(s, &token, s->prompt_count + i, 1, &token));
    *prefill_ms = first - begin;
    *decode_ms = 1e3 * pare_seconds() - first;
    return PARE_OK;
}

static double median(const double *t)
{
    const double low = t[0] < t[1] ? t[0] : t[1], high = t[0] < t[1] ? t[1] : t[0];
    return t[2] < low ? low : t[2] > high ? high : t[2];
}

static pare_status measure(stopwatch *s, pare_speed_result *out)
{
    static const char what[] = "measuring speed";
    double prefill[RUNS], decode[RUNS];
    PARE_TRY(take_state(s));
    for (size_t i = 0; i <= RUNS; i++) { /* the first only warms up: the next takes its place */
        const size_t at = i ? i - 1 : 0;
        pare_ctx_progress(s->cx, what, (double)i, RUNS + 1);
        PARE_TRY(run(s, &prefill[at], &decode[at]));
    }
    pare_ctx_progress(s->cx, what, RUNS + 1, RUNS + 1);
    const double p = median(prefill), d = median(decode);
    out->prompt = s->prompt_count;
    out->decoded = s->decoded;
    out->threads = pare_threads(s->cx);
    out->ttft_ms = p;
    out->prefill_tok_s = (double)s->prompt_count * 1e3 / p;
    if (s->decoded) {
        out->tpot_ms = d / (double)s->decoded;
        out->decode_tok_s = (double)s->decoded * 1e3 / d;
    }
    return PARE_OK;
}

pare_status pare_evaluate_speed(pare_ctx *cx, const pare_forward *f, pare_speed_result *out)
{
    *out = (pare_speed_result){0};
    stopwatch s = {.cx = cx, .arena = {.cx = cx}, .work = {.cx = cx}, .f = f};
    pare_mark mark;
    s.state = pare_ops_of(cx, &s.arena, f);
    s.run = pare_ops_of(cx, &s.work, f);
    PARE_TRY(s.state.op->mark(&s.state, &mark));
    pare_status status = measure(&s, out);
    const pare_status back = s.state.op->rewind(&s.state, mark);
    status = status == PARE_OK ? back : status;
    pare_arena_release(&s.work);
    pare_arena_release(&s.arena);
    return status;
}
