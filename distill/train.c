#include "distill/train.h"

#include <math.h>
#include <string.h>

#include "distill/loop_internal.h"
#include "runtime/ops.h"
#include "runtime/random.h"
#include "runtime/sample.h"
#include "runtime/small.h"

static const double exploded = 1e4, lost = 10;

typedef struct trainer {
    pare_ctx *cx;
    pare_arena *scratch;
    pare_arena work; /* of passes through a block or the head, kept from one to the next; a stack:
                        blocks that wait lie at its bottom */
    pare_trainee *t;
    const pare_train_data *data;
    const pare_train_opts *o;
    const pare_config *c, *tc; /* of the student, of the teacher */
    pare_forward student, teacher;
    size_t begun;           /* steps of an earlier run */
    size_t rows;            /* of the current lot */
    size_t prompt;          /* of the current step: tokens of the text in a window */
    pare_losses losses;     /* of the current step */
    uint64_t round;         /* that `order` is of, from 1 on; 0: none yet */
    size_t *order;          /* [windows] */
    int32_t *token, *label; /* [rows of a lot] */
    float *x, *u;           /* inputs of all blocks and what is behind the last: of the
                               student; of the teacher, with `hidden`, else only the latter */
    float *dx;              /* of the stream */
    float *logits;          /* [PARE__CHUNK, vocab] of the teacher */
    pare_kv kv, teacher_kv;
    pare_qkv qkv, teacher_qkv;    /* of the last blocks, with `relations` */
    pare_qk *qk, *teacher_qk;     /* [blocks of the student], with `attention`; else NULL */
    pare_qkv dqkv;                /* what these two add to the gradient of a block */
    pare_leaf_gradient *gradient; /* [gradients] */
    size_t gradients;             /* what the tape finds one for: leaves, adapted matrices */
    pare__waiting *block;         /* [blocks]; without `keep` [1] */
    pare_teacher_top top;         /* of all tokens of the data, with teacher_top */
    bool *has;                    /* [windows] whether it has them */
    size_t *at, *new_at;          /* [rows of a lot] rows of top; SIZE_MAX: it is not new */
    bool asks;                    /* the teacher runs on the current lot */
    pare_projection *projection;  /* of t, where it is needed; else NULL */
    double loss;                  /* of the step so far */
} trainer;

/* --- data --------------------------------------------------------------------------------------
 */

/* Where the teacher's words of window `of`, i of the lot, are kept. */
static void find_kept(trainer *r, size_t i, size_t of)
{
    const size_t window = r->data->window;
    for (size_t j = 0; j < window; j++) {
        r->at[i * window + j] = of * window + j;
        r->new_at[i * window + j] = r->has[of] ? SIZE_MAX : of * window + j;
    }
    r->asks |= !r->has[of];
    r->has[of] = true;
}

/* Windows first .. first + count - 1 of all that are trained on, and what follows each token. */
static void load_lot(trainer *r, uint64_t first, size_t count)
{
    const size_t window = r->data->window, windows = r->data->windows;
    r->asks = r->tc && !r->top.k;
    for (size_t i = 0; i < count; i++) {
        const uint64_t round = (first + i) / windows + 1;
        if (round != r->round)
            pare_schedule_order(r->o->seed, round, windows, r->order);
        r->round = round;
        const size_t of = r->order[(first + i) % windows];
        const int32_t *const from = r->data->token + of * window;
        int32_t *const token = r->token + i * window, *const label = r->label + i * window;
        memcpy(token, from, window * sizeof *token);
        memcpy(label, from + 1, (window - 1) * sizeof *label);
        label[window - 1] = PARE_NO_LABEL;
        if (r->top.k)
            find_kept(r, i, of);
    }
    r->rows = count * window;
}

/* Lets the student go on behind the prompts of the lot that begins with window `first` of all. */
static pare_status draw_lot(trainer *r, uint64_t first)
{
    const size_t window = r->data->window;
    const pare_generate_opts o = {.temperature = r->o->temperature,
                                  .seed = r->o->seed,
                                  .first = pare_random_stream("samples of a student") + first,
                                  .sequences = r->rows / window,
                                  .length = window,
                                  .other = r->o->teacher_share > 0 ? r->t->teacher : NULL,
                                  .share = r->o->teacher_share};
    PARE_TRY(pare_generate(r->cx, r->scratch, r->t->student, &o, r->prompt, r->token, NULL, NULL));
    for (size_t i = 0; i < r->rows; i++) {
        const size_t next = i % window + 1;
        r->label[i] = next < r->prompt || next == window ? PARE_NO_LABEL : r->token[i + 1];
    }
    return PARE_OK;
}

/* What a step learns from: the text, or its beginnings and what the student makes of them. */
static bool choose(trainer *r, size_t step)
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

static pare_batch lot_batch(const trainer *r)
{
    return (pare_batch){.sequences = r->rows / r->data->window, .length = r->data->window};
}

/* --- forward -----------------------------------------------------------------------------------
 */

/* Where queries, keys and values of a block go; NULL: not there. */
typedef struct kept {
    pare_qkv *qkv;
    pare_qk *qk;
} kept;

static kept kept_of(trainer *r, bool teacher, size_t block)
{
    kept k = {0};
    if (r->o->losses.relations > 0 && block + 1 == (teacher ? r->tc : r->c)->blocks)
        k.qkv = teacher ? &r->teacher_qkv : &r->qkv;
    for (size_t b = 0; r->qk && b < r->c->blocks; b++)
        if (block + 1 == (teacher ? pare__beside(r->c, r->tc, b) : b + 1))
            k.qk = teacher ? &r->teacher_qk[b] : &r->qk[b];
    return k;
}

static pare_status keep(void *self, const float *q, const float *k, const float *v, size_t rows)
{
    const kept *const to = self;
    if (to->qk)
        pare_qk_keep(to->qk, q, k, rows);
    return to->qkv ? pare_qkv_keep(to->qkv, q, k, v, rows) : PARE_OK;
}

/* A block on a tape that waits for the way back. x: in front of it; NULL out: nobody reads what is
 * behind it. */
static pare_status run_waiting(trainer *r, pare__waiting *w, size_t block, const float *x,
                               const pare_tap *tap, float *out)
{
    const pare_forward *const f = &r->student;
    const pare_block *const weights = &f->model->block[block];
    pare_tape_begin(r->cx, &r->work, f->backend, &w->tape);
    PARE_TRY(
        pare_tape_input(&w->tape, x, r->rows, r->c->hidden, block > 0 || r->t->tables, &w->in));
    if (!out)
        return pare_tape_block_for_gradients(&w->tape, f, weights, lot_batch(r), w->in, &w->out);
    PARE_TRY(pare_tape_block(&w->tape, f, weights, lot_batch(r), w->in, tap, &w->out));
    memcpy(out, w->out.at, r->rows * r->c->hidden * sizeof *out);
    return PARE_OK;
}

/* A model on the lot. `apart`: the inputs of each block stay, x [blocks + 1, rows, hidden]; else x
 * [rows, hidden] is what is behind the last. `wait` [blocks]: the way back begins with them; NULL:
 * there is none. */
static pare_status run_forward(trainer *r, const pare_forward *f, bool apart, pare__waiting *wait,
                               pare_kv *kv, float *x)
{
    const pare_config *const c = &f->model->config;
    const size_t floats = r->rows * c->hidden;
    PARE_TRY(pare_embed_batch(r->cx, f->model, r->token, lot_batch(r), x));
    for (size_t b = 0; b < c->blocks; b++) {
        kept k = kept_of(r, f == &r->teacher, b);
        const pare_tap taken = {.self = &k, .last = PARE_SITES, .see_qkv = keep};
        const pare_tap *const tap = k.qk || k.qkv ? &taken : NULL;
        PARE_TRY(pare_ctx_interrupted(r->cx));
        if (wait) {
            PARE_TRY(run_waiting(r, &wait[b], b, x, tap, x + floats));
            x += floats;
            continue;
        }
        if (apart) {
            memcpy(x + floats, x, floats * sizeof *x);
            x += floats;
        }
        PARE_TRY(
            pare_block_forward(r->cx, &r->work, f, &f->model->block[b], lot_batch(r), x, kv, tap));
    }
    return PARE_OK;
}

/* --- backward ----------------------------------------------------------------------------------
 */

/* The loss kl of logits z against what is kept of the teacher, and its gradient, added to dz. u:
 * what is behind the teacher's last block; NULL: it did not run. */
static pare_status add_kept(trainer *r, pare_arena *scratch, const float *u, size_t first,
                            size_t rows, double scale, const float *z, float *dz)
{
    const size_t vocab = r->c->vocab;
    double value;
    if (u) {
        PARE_TRY(pare_logits(r->cx, scratch, &r->teacher, u + first * r->tc->hidden, NULL, rows,
                             r->logits));
        PARE_TRY(pare_teacher_top_keep(r->cx, scratch, &r->top, r->logits, r->new_at + first, rows,
                                       vocab));
    }
    PARE_TRY(pare_teacher_top_kl(r->cx, scratch, &r->top, z, r->at + first, r->label + first, rows,
                                 vocab, scale, r->logits, &value));
    pare_add(dz, r->logits, rows * vocab);
    r->loss += scale * value;
    return PARE_OK;
}

/* Rows first .. first + rows - 1 of the lot through the head and back. */
static pare_status run_chunk(trainer *r, pare_tape *tape, const float *x, const float *u,
                             size_t first, size_t rows, double scale)
{
    const pare_ops o = pare_tape_ops(tape);
    const pare_forward *const f = &r->student;
    const size_t hidden = r->c->hidden, vocab = f->model->head.n;
    const bool compare = pare_losses_compare(&r->losses);
    const pare_gradients wanted = {.leaf = r->gradient, .leaves = r->gradients};
    pare_array in, logits, dl;
    double value;
    PARE_TRY(pare_tape_input(tape, x + first * hidden, rows, hidden, true, &in));
    PARE_TRY(o.op->take(&o, rows, vocab, &logits));
    PARE_TRY(pare_logits_run(&o, f, in, NULL, logits));
    PARE_TRY(o.op->take(&o, rows, vocab, &dl)); /* the way back through a cap reads the others */
    memcpy(dl.at, logits.at, rows * vocab * sizeof *dl.at);
    if (compare)
        PARE_TRY(pare_logits(r->cx, o.scratch, &r->teacher, u + first * r->tc->hidden, NULL, rows,
                             r->logits));
    PARE_TRY(pare_losses_rows(r->cx, o.scratch, &r->losses, dl.at, compare ? r->logits : NULL,
                              r->label + first, rows, vocab, scale, &value));
    r->loss += scale * value;
    if (r->top.k)
        PARE_TRY(add_kept(r, o.scratch, u, first, rows, scale * r->o->losses.kl, logits.at, dl.at));
    PARE_TRY(pare_tape_back(tape, logits, dl.at, &wanted));
    memcpy(r->dx + first * hidden, pare_tape_gradient(in), rows * hidden * sizeof *r->dx);
    return PARE_OK;
}

/* dx: of what is behind the last block. */
static pare_status run_head(trainer *r, const float *x, const float *u, double scale)
{
    for (size_t i = 0; i < r->rows; i += PARE__CHUNK) {
        pare_tape tape;
        pare_tape_begin(r->cx, &r->work, r->student.backend, &tape);
        const pare_status s =
            run_chunk(r, &tape, x, u, i, pare_smaller(r->rows - i, PARE__CHUNK), scale);
        pare_tape_end(&tape);
        PARE_TRY(s);
    }
    return PARE_OK;
}

static pare_status undo_block(trainer *r, pare__waiting *w, size_t block)
{
    pare_gradients wanted = {.leaf = r->gradient, .leaves = r->gradients};
    if (r->qk || (r->o->losses.relations > 0 && block + 1 == r->c->blocks))
        memcpy(wanted.qkv, r->dqkv.at, sizeof wanted.qkv);
    PARE_TRY(pare_tape_back(&w->tape, w->out, r->dx, &wanted));
    if (block > 0 || r->t->tables)
        memcpy(r->dx, pare_tape_gradient(w->in), r->rows * r->c->hidden * sizeof *r->dx);
    pare_tape_end(&w->tape);
    return PARE_OK;
}

/* The tables of embeddings and positions, from dx in front of the first block. */
static pare_status undo_embedding(trainer *r, pare_tape *tape)
{
    const pare_ops o = pare_tape_ops(tape);
    const pare_gradients wanted = {.leaf = r->gradient, .leaves = r->gradients};
    pare_array x;
    PARE_TRY(o.op->take(&o, r->rows, r->c->hidden, &x));
    PARE_TRY(pare_embed_run(&o, r->t->student->model, r->token, lot_batch(r), x));
    return pare_tape_back(tape, x, r->dx, &wanted);
}

/* The stream of the teacher that stands beside that behind block `b` of the student. */
static const float *teacher_stream(const trainer *r, size_t b)
{
    return r->u + pare__beside(r->c, r->tc, b) * r->rows * r->tc->hidden;
}

/* The losses `relations` and `attention` of block `b`, and their gradients in dqkv. `share`: of the
 * rows of the step. */
static pare_status compare_attention(trainer *r, size_t b, double share)
{
    const double scores = r->o->losses.attention * share / (double)r->c->blocks,
                 related = b + 1 == r->c->blocks ? r->o->losses.relations * share : 0;
    double value;
    for (size_t i = 0; scores > 0 && i < PARE_RELATIONS; i++)
        memset(r->dqkv.at[i], 0, r->rows * r->dqkv.width[i] * sizeof(float));
    if (related > 0) {
        PARE_TRY(pare_relations(r->cx, &r->work, lot_batch(r), pare__pieces_of(r->c, r->o), &r->qkv,
                                &r->teacher_qkv, related, &r->dqkv, &value));
        r->loss += related * value;
    }
    if (scores > 0) {
        PARE_TRY(pare_scores(r->cx, &r->work, lot_batch(r), &r->qk[b], &r->teacher_qk[b], scores,
                             r->dqkv.at[0], r->dqkv.at[1], &value));
        r->loss += scores * value;
    }
    return PARE_OK;
}

/* The loss `hidden` of what is behind block `b`, x, and its gradient. */
static pare_status compare_streams(trainer *r, size_t b, const float *x, double weight)
{
    double value;
    if (!(weight > 0))
        return PARE_OK;
    const float *const u = teacher_stream(r, b);
    if (r->projection)
        PARE_TRY(pare_projection_hidden(r->cx, &r->work, r->projection, x, u, r->rows, weight,
                                        r->dx, &value));
    else
        value = pare_losses_hidden(r->cx, x, u, r->rows * r->c->hidden, weight, r->dx);
    r->loss += weight * value;
    return PARE_OK;
}

/* From dx of what is behind the last block to the gradients of all leaves. `share`: of the rows of
 * the step. */
static pare_status run_backward(trainer *r, double share)
{
    const size_t floats = r->rows * r->c->hidden;
    const double weight = r->o->losses.hidden * share / (double)r->c->blocks;
    for (size_t b = r->c->blocks; b-- > 0;) {
        const float *const x = r->x + b * floats;
        pare__waiting *const w = &r->block[r->o->keep ? b : 0];
        PARE_TRY(pare_ctx_interrupted(r->cx));
        PARE_TRY(compare_attention(r, b, share));
        PARE_TRY(compare_streams(r, b, x + floats, weight));
        if (!r->o->keep)
            PARE_TRY(run_waiting(r, w, b, x, NULL, NULL));
        PARE_TRY(undo_block(r, w, b));
    }
    if (!r->t->tables)
        return PARE_OK;
    pare_tape tape;
    pare_tape_begin(r->cx, &r->work, NULL, &tape);
    const pare_status s = undo_embedding(r, &tape);
    pare_tape_end(&tape);
    return s;
}

/* --- steps -------------------------------------------------------------------------------------
 */

static pare_status run_lot(trainer *r)
{
    const size_t floats = r->rows * r->c->hidden, all = r->o->batch * r->data->window;
    const size_t window = r->data->window;
    const size_t counted = r->o->batch * (r->prompt < window ? window - r->prompt : window - 1);
    const size_t streams = r->tc ? pare__teacher_streams(r->tc, r->o) : 0;
    const float *last = NULL;
    if (r->asks) {
        PARE_TRY(run_forward(r, &r->teacher, streams > 1, NULL, &r->teacher_kv, r->u));
        last = r->u + (streams - 1) * r->rows * r->tc->hidden;
    }
    PARE_TRY(run_forward(r, &r->student, true, r->o->keep ? r->block : NULL, &r->kv, r->x));
    PARE_TRY(run_head(r, r->x + r->c->blocks * floats, last, 1 / (double)counted));
    return run_backward(r, (double)r->rows / (double)all);
}

static pare_status run_lots(trainer *r, size_t step, bool drawn)
{
    const size_t most = pare__lot_windows(r->data, r->o);
    r->loss = 0;
    for (size_t i = 0; i < r->o->batch; i += most) {
        const uint64_t first = (uint64_t)step * r->o->batch + i;
        load_lot(r, first, pare_smaller(r->o->batch - i, most));
        if (drawn)
            PARE_TRY(draw_lot(r, first));
        PARE_TRY(run_lot(r));
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
static double norm_of(const trainer *r)
{
    const double norm = pare_trained_norm(r->cx, r->t->leaf, r->t->leaves);
    const double of = r->projection ? pare_trained_norm(r->cx, &r->projection->w, 1) : 0;
    return of > 0 ? sqrt(norm * norm + of * of) : norm;
}

static pare_status run_step(trainer *r, pare_train_state *state, const pare_train_watch *watch)
{
    const pare_schedule *const schedule = &r->o->schedule;
    const pare_train_state none = {0, INFINITY, INFINITY};
    if (state->steps == 0)
        *state = none;
    pare_ctx_progress(r->cx, r->begun ? "training the rest" : "training",
                      (double)(state->steps - r->begun), (double)(schedule->steps - r->begun));
    const bool drawn = choose(r, state->steps);
    const bool alike = r->losses.ce == r->o->losses.ce; /* comparable with the other steps */
    PARE_TRY(run_lots(r, state->steps, drawn));
    for (size_t i = 0; i < r->t->awares; i++)
        pare_aware_gradient(r->cx, &r->t->aware[i]);
    for (size_t i = 0; i < r->t->loras; i++)
        pare_lora_gradient(r->cx, &r->t->lora[i]);
    const pare_train_step s = {.step = state->steps + 1,
                               .loss = r->loss,
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
static pare_status take_attention(trainer *r, size_t rows)
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

static pare_status take_kept(trainer *r, size_t rows)
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

static pare_status take(trainer *r)
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
    r->gradients = r->t->leaves + r->t->loras;
    r->gradient = PARE_NEW(r->scratch, pare_leaf_gradient, r->gradients);
    r->block = PARE_NEW(r->scratch, pare__waiting, r->o->keep ? r->c->blocks : 1);
    if (!r->order || !r->token || !r->label || !r->x || !r->u || !r->dx || !r->logits ||
        !r->gradient || !r->block)
        return PARE_ENOMEM;
    for (size_t i = 0; i < r->t->leaves; i++)
        r->gradient[i] = (pare_leaf_gradient){r->t->leaf[i].read, r->t->leaf[i].gradient};
    for (size_t i = 0; i < r->t->loras; i++)
        r->gradient[r->t->leaves + i] =
            (pare_leaf_gradient){r->t->lora[i].seen, r->t->lora[i].gradient};
    const pare_batch widest = {.sequences = sequences, .length = window};
    PARE_TRY(pare_arena_init(r->cx, &r->work, pare__work_bytes(r->cx, r->c, r->tc, widest, r->o)));
    PARE_TRY(take_attention(r, rows));
    PARE_TRY(take_kept(r, rows));
    if (r->tc)
        PARE_TRY(pare_kv_take(r->scratch, r->tc, sequences, window, &r->teacher_kv));
    return pare_kv_take(r->scratch, r->c, sequences, window, &r->kv);
}

pare_status pare_train(pare_ctx *cx, pare_arena *scratch, pare_trainee *t,
                       const pare_train_data *data, const pare_train_opts *o,
                       pare_train_state *state, const pare_train_watch *watch)
{
    trainer r = {.cx = cx,
                 .scratch = scratch,
                 .work = {.cx = cx},
                 .t = t,
                 .data = data,
                 .o = o,
                 .begun = state->steps,
                 .c = &t->student->model->config,
                 .tc = pare__needs_teacher(o) && t->teacher ? &t->teacher->model->config : NULL};
    PARE_TRY(pare_train_check(cx, data, o));
    PARE_TRY(pare__check_teacher(cx, t, o));
    r.student = *t->student;
    if (r.tc)
        r.teacher = *t->teacher;
    r.projection = r.tc && pare_train_projects(&o->losses, r.c, r.tc) ? t->projection : NULL;
    if (o->bf16)
        r.student.backend = r.teacher.backend = &pare_cpu_bf16;
    const pare_mark mark = pare_arena_mark(scratch);
    pare_status s = take(&r);
    if (s == PARE_OK)
        s = pare_trainee_round(cx, t);
    while (s == PARE_OK && state->steps < o->schedule.steps)
        s = run_step(&r, state, watch);
    pare_arena_release(&r.work);
    pare_arena_rewind(scratch, mark);
    return s;
}
