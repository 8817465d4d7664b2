#include "distill/train.h"

#include <math.h>

#include "distill/loop_internal.h"
#include "runtime/random.h"
#include "runtime/small.h"
#include "runtime/world.h"

static const double exploded = 1e4, lost = 10;

/* What a step learns from: the text, or its beginnings and what the student makes of them. */
static bool choose(pare__trainer *r, size_t step)
{
    const size_t window = r->data->window;
    const bool drawn =
        pare_random_unit(r->o->seed, pare_random_stream("steps of samples"), step) < r->o->lambda;
    r->prompt = drawn ? window / 2 : window;
    r->losses = r->o->losses;
    r->losses.ce = drawn ? 0 : r->losses.ce;
    r->losses.kl = r->top.k ? 0 : r->losses.kl; /* add_kept has it */
    return drawn;
}

/* Lots from `first` on, one of each process that has one: their losses and gradients go to process
 * 0, which adds them in the order of lots. */
static void join_lots(pare__trainer *r, size_t first, double *loss)
{
    const size_t rank = pare_world_rank(r->cx), size = pare_world_size(r->cx);
    const size_t left = pare__lots(r->data, r->o) - first;
    const size_t piece = (r->c->blocks + 1) * pare__lot_windows(r->data, r->o) * r->data->window *
                         r->c->hidden; /* floats of x, which nobody reads now */
    if (rank > 0 && rank < left) {
        pare_world_send(r->cx, 0, &r->loss, sizeof r->loss);
        pare__lot_sum_send(r->cx, &r->sum, piece);
    }
    *loss += r->loss;
    for (size_t from = 1; rank == 0 && from < pare_smaller(size, left); from++) {
        pare_world_receive(r->cx, from, &r->loss, sizeof r->loss);
        pare__lot_sum_receive(r->cx, &r->sum, from, piece, r->x);
        *loss += r->loss;
    }
}

/* All of a step, whose loss is the sum of theirs in their order: dealt to the processes in turn. */
static pare_status run_lots(pare__trainer *r, size_t step, bool drawn, double *loss)
{
    const size_t rank = pare_world_rank(r->cx), lots = pare__lots(r->data, r->o);
    *loss = 0;
    for (size_t first = 0; first < lots; first += pare_world_size(r->cx)) {
        const bool one = first + rank < lots;
        r->lot = first;
        const pare_status s = one ? pare__run_lot(r, step, drawn, first + rank) : PARE_OK;
        PARE_TRY(lots > 1 ? pare_world_agree(r->cx, s) : s);
        join_lots(r, first, loss);
    }
    return PARE_OK;
}

static pare_status check_step(pare_ctx *cx, const pare_train_step *s, const pare_train_state *past)
{
    if (!isfinite(s->loss) || !isfinite(s->norm))
        return pare_fail(cx, PARE_ENUMERIC,
                         "step %zu: the %s is not finite; train with a smaller rate", s->step,
                         isfinite(s->loss) ? "gradient" : "loss");
    if (s->norm > exploded * past->least || (s->loss > lost * past->first && s->loss > 1))
        return pare_fail(cx, PARE_ENUMERIC,
                         "step %zu: training diverges: the loss is %.3g and was %.3g at first, the "
                         "norm of its gradient is %.3g and was %.3g; train with a smaller rate or "
                         "a longer warm-up",
                         s->step, s->loss, past->first, s->norm, past->least);
    return PARE_OK;
}

/* Of all gradients. */
static double norm_of(const pare__trainer *r)
{
    const double norm = pare_trained_norm(r->cx, r->t->leaf, r->t->leaves);
    const double of = r->projection ? pare_trained_norm(r->cx, &r->projection->w, 1) : 0;
    return of > 0 ? sqrt(norm * norm + of * of) : norm;
}

/* What process 0 has the others do: the lots of a step, with its values; or no more. Of a step of
 * one lot they have nothing to do. */
typedef struct order {
    uint64_t step, over;
} order;

static void order_step(pare__trainer *r, size_t step, bool over)
{
    order o = {.step = step, .over = over};
    if (pare_world_size(r->cx) == 1 || r->cx->world->ended ||
        (!over && pare__lots(r->data, r->o) == 1))
        return;
    for (size_t to = 1; to < pare_world_size(r->cx); to++)
        pare_world_send(r->cx, to, &o, sizeof o);
    if (!over)
        pare__lot_sum_spread(r->cx, &r->sum);
}

/* Another process than 0, until that has no more for it. */
static pare_status follow(pare__trainer *r)
{
    order o;
    double loss;
    for (;;) {
        pare_world_receive(r->cx, 0, &o, sizeof o);
        if (o.over)
            return PARE_OK;
        pare__lot_sum_spread(r->cx, &r->sum);
        const bool drawn = choose(r, (size_t)o.step);
        PARE_TRY(run_lots(r, (size_t)o.step, drawn, &loss));
    }
}

static pare_status run_step(pare__trainer *r, pare_train_state *state,
                            const pare_train_watch *watch)
{
    const pare_schedule *const schedule = &r->o->schedule;
    const pare_train_state none = {0, INFINITY, INFINITY};
    if (state->steps == 0)
        *state = none;
    r->step = state->steps;
    r->lot = 0;
    pare__lot_tell(r, 0);
    order_step(r, state->steps, false);
    const bool drawn = choose(r, state->steps);
    const bool alike = r->losses.ce == r->o->losses.ce; /* comparable with the other steps */
    double loss;
    PARE_TRY(run_lots(r, state->steps, drawn, &loss));
    for (size_t i = 0; i < r->t->awares; i++)
        pare_aware_gradient(r->cx, &r->t->aware[i]);
    for (size_t i = 0; i < r->t->loras; i++)
        pare_lora_gradient(r->cx, &r->t->lora[i]);
    const pare_train_step s = {.step = state->steps + 1,
                               .loss = loss,
                               .norm = norm_of(r),
                               .rate = pare_schedule_rate(schedule, state->steps)};
    PARE_TRY(check_step(r->cx, &s, alike ? state : &none));
    pare_adamw_step(r->cx, &r->o->adamw, r->t->leaf, r->t->leaves, s.step, s.rate, s.norm);
    if (r->projection)
        pare_adamw_step(r->cx, &r->o->adamw, &r->projection->w, 1, s.step, s.rate, s.norm);
    for (size_t i = 0; i < r->t->awares; i++)
        PARE_TRY(pare_aware_follow(r->cx, &r->t->aware[i]));
    for (size_t i = 0; i < r->t->loras; i++)
        pare_lora_merge(r->cx, &r->t->lora[i]);
    if (alike && !isfinite(state->first))
        state->first = s.loss;
    state->least = alike && s.norm > 0 && s.norm < state->least ? s.norm : state->least;
    state->steps = s.step;
    return watch->see ? watch->see(watch->self, &s) : PARE_OK;
}

/* For the losses that compare queries and keys. */
static pare_status take_attention(pare__trainer *r, size_t rows)
{
    const pare_losses *const l = &r->o->losses;
    const size_t blocks = r->c->blocks, window = r->data->window;
    if (l->relations > 0) {
        PARE_TRY(pare_qkv_take(r->scratch, r->c, rows, &r->qkv));
        PARE_TRY(pare_qkv_take(r->scratch, r->tc, rows, &r->teacher_qkv));
    }
    if (l->relations > 0 || l->attention > 0)
        PARE_TRY(pare_qkv_take(r->scratch, r->c, rows, &r->dqkv));
    if (!(l->attention > 0))
        return PARE_OK;
    r->qk = PARE_NEW(r->scratch, pare_qk, blocks);
    r->teacher_qk = PARE_NEW(r->scratch, pare_qk, blocks);
    if (!r->qk || !r->teacher_qk)
        return PARE_ENOMEM;
    for (size_t b = 0; b < blocks; b++) {
        PARE_TRY(pare_qk_take(r->scratch, &r->student, b, window, rows, &r->qk[b]));
        PARE_TRY(pare_qk_take(r->scratch, &r->teacher, pare__beside(r->c, r->tc, b) - 1, window,
                              rows, &r->teacher_qk[b]));
    }
    return PARE_OK;
}

static pare_status take_kept(pare__trainer *r, size_t rows)
{
    const size_t windows = r->data->windows;
    if (!r->tc || !r->o->teacher_top)
        return PARE_OK;
    r->has = PARE_NEW(r->scratch, bool, windows);
    r->at = PARE_NEW(r->scratch, size_t, rows);
    r->new_at = PARE_NEW(r->scratch, size_t, rows);
    if (!r->has || !r->at || !r->new_at)
        return PARE_ENOMEM;
    return pare_teacher_top_take(r->scratch, windows * r->data->window, r->c->vocab,
                                 r->o->teacher_top, r->o->losses.temperature, &r->top);
}

static pare_status take(pare__trainer *r)
{
    const size_t sequences = pare__lot_windows(r->data, r->o), window = r->data->window;
    const size_t rows = sequences * window, hidden = r->c->hidden;
    const size_t vocab = pare_losses_compare(&r->o->losses) ? r->c->vocab : 0;
    const size_t stream = r->tc ? pare__teacher_streams(r->tc, r->o) * r->tc->hidden : 0;
    r->order = PARE_NEW(r->scratch, size_t, r->data->windows);
    r->token = PARE_NEW(r->scratch, int32_t, rows);
    r->label = PARE_NEW(r->scratch, int32_t, rows);
    r->x = PARE_NEW(r->scratch, float, (r->c->blocks + 1) * rows * hidden);
    r->u = PARE_NEW(r->scratch, float, stream *rows);
    r->dx = PARE_NEW(r->scratch, float, rows *hidden);
    r->logits = PARE_NEW(r->scratch, float, PARE__CHUNK *vocab);
    r->block = PARE_NEW(r->scratch, pare__waiting, r->o->keep ? r->c->blocks : 1);
    if (!r->order || !r->token || !r->label || !r->x || !r->u || !r->dx || !r->logits || !r->block)
        return PARE_ENOMEM;
    const size_t lots = pare__lots(r->data, r->o);
    const bool apart = pare_world_rank(r->cx) == 0 && lots > pare_world_size(r->cx);
    PARE_TRY(pare__lot_sum_take(r->scratch, r->t, apart, &r->sum));
    const pare_batch widest = {.sequences = sequences, .length = window};
    PARE_TRY(pare_arena_init(r->cx, &r->work, pare__work_bytes(r->cx, r->c, r->tc, widest, r->o)));
    PARE_TRY(take_attention(r, rows));
    PARE_TRY(take_kept(r, rows));
    if (r->tc)
        PARE_TRY(pare_kv_take(r->scratch, r->tc, sequences, window, &r->teacher_kv));
    return pare_kv_take(r->scratch, r->c, sequences, window, &r->kv);
}

static pare_status check(const pare__trainer *r)
{
    PARE_TRY(pare_train_check(r->cx, r->data, r->o));
    PARE_TRY(pare__check_teacher(r->cx, r->t, r->o));
    return r->projection && pare_world_size(r->cx) > 1
               ? pare_fail(r->cx, PARE_ENOTSUP,
                           "the loss hidden of models of two widths: %zu processes cannot share "
                           "this; start one",
                           pare_world_size(r->cx))
               : PARE_OK;
}

static pare_status run_steps(pare__trainer *r, pare_train_state *state,
                             const pare_train_watch *watch)
{
    pare_status s = PARE_OK;
    if (pare_world_rank(r->cx) > 0)
        return follow(r);
    while (s == PARE_OK && state->steps < r->o->schedule.steps)
        s = run_step(r, state, watch);
    order_step(r, state->steps, true);
    return s;
}

pare_status pare_train(pare_ctx *cx, pare_arena *scratch, pare_trainee *t,
                       const pare_train_data *data, const pare_train_opts *o,
                       pare_train_state *state, const pare_train_watch *watch)
{
    pare__trainer r = {.cx = cx,
                       .scratch = scratch,
                       .work = {.cx = cx},
                       .t = t,
                       .data = data,
                       .o = o,
                       .begun = state->steps,
                       .c = &t->student->model->config,
                       .tc = pare__needs_teacher(o) && t->teacher ? &t->teacher->model->config
                                                                  : NULL};
    r.student = *t->student;
    if (r.tc)
        r.teacher = *t->teacher;
    r.projection = r.tc && pare_train_projects(&o->losses, r.c, r.tc) ? t->projection : NULL;
    if (o->bf16)
        r.student.backend = r.teacher.backend = &pare_cpu_bf16;
    const pare_mark mark = pare_arena_mark(scratch);
    pare_status s = check(&r);
    if (s == PARE_OK)
        s = take(&r);
    if (s == PARE_OK)
        s = pare_trainee_round(cx, t);
    s = pare_world_agree(cx, s);
    if (s == PARE_OK)
        s = run_steps(&r, state, watch);
    pare_arena_release(&r.work);
    pare_arena_rewind(scratch, mark);
    return s;
}
