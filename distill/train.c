#include "distill/train.h"

#include <math.h>
#include <string.h>

#include "calib/wave.h"
#include "distill/sinkhorn.h"
#include "runtime/random.h"
#include "runtime/sample.h"
#include "runtime/small.h"
#include "runtime/tape.h"

enum { CHUNK = 256 }; /* rows of logits that are there at once */
_Static_assert(CHUNK % PARE_SINKHORN_ROWS == 0, "groups of sinkhorn do not depend on chunks");
static const double exploded = 1e4, lost = 10;

/* A block of the student that ran and waits for the way back. */
typedef struct waiting {
    pare_tape tape;
    pare_array in, out;
} waiting;

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
    size_t rows;            /* of the current lot */
    size_t prompt;          /* of the current step: tokens of the text in a window */
    pare_losses losses;     /* of the current step */
    uint64_t round;         /* that `order` is of, from 1 on; 0: none yet */
    size_t *order;          /* [windows] */
    int32_t *token, *label; /* [rows of a lot] */
    float *x, *u;           /* inputs of all blocks and what is behind the last: of the
                               student; of the teacher, with `hidden`, else only the latter */
    float *dx;              /* of the stream */
    float *logits;          /* [CHUNK, vocab] of the teacher */
    pare_kv kv, teacher_kv;
    pare_qkv qkv, teacher_qkv, dqkv; /* of the last blocks, with `relations` */
    pare_leaf_gradient *gradient;    /* [leaves] */
    waiting *block;                  /* [blocks]; without `keep` [1] */
    pare_projection *projection;     /* of t, where it is needed; else NULL */
    double loss;                     /* of the step so far */
} trainer;

static size_t lot_windows(const pare_train_data *data, const pare_train_opts *o)
{
    return pare_smaller(pare_wave_batch(data->window), o->batch);
}

static bool needs_teacher(const pare_train_opts *o)
{
    return pare_losses_taught(&o->losses);
}

static size_t pieces_of(const pare_config *c, const pare_train_opts *o)
{
    return o->losses.pieces ? o->losses.pieces : c->kv_heads;
}

/* How many streams the teacher keeps: in front of all blocks and behind the last, or that alone. */
static size_t teacher_streams(const pare_config *teacher, const pare_train_opts *o)
{
    return o->losses.hidden > 0 ? teacher->blocks + 1 : needs_teacher(o) ? 1 : 0;
}

pare_status pare_train_check(pare_ctx *cx, const pare_train_data *data, const pare_train_opts *o)
{
    if (data->window < 2)
        return pare_fail(
            cx, PARE_EINVAL,
            "it learns from tokens that have one behind them, and windows of %zu token "
            "hold none; take windows of at least 2",
            data->window);
    if (data->windows == 0)
        return pare_fail(cx, PARE_EINVAL, "there are no windows to train on");
    if (o->batch == 0)
        return pare_fail(cx, PARE_EINVAL, "a step of 0 windows learns nothing; take at least 1");
    if (o->lambda > 0 && !needs_teacher(o))
        return pare_fail(cx, PARE_EINVAL,
                         "with lambda the student's own samples are compared with what a teacher "
                         "says of them; give weight to a loss that compares, such as jsd");
    return needs_teacher(o) || o->losses.ce > 0
               ? PARE_OK
               : pare_fail(cx, PARE_EINVAL, "all losses have weight 0, so nothing can be learned");
}

/* --- data --------------------------------------------------------------------------------------
 */

/* Windows first .. first + count - 1 of all that are trained on, and what follows each token. */
static void load_lot(trainer *r, uint64_t first, size_t count)
{
    const size_t window = r->data->window, windows = r->data->windows;
    for (size_t i = 0; i < count; i++) {
        const uint64_t round = (first + i) / windows + 1;
        if (round != r->round)
            pare_schedule_order(r->o->seed, round, windows, r->order);
        r->round = round;
        const int32_t *const from = r->data->token + r->order[(first + i) % windows] * window;
        int32_t *const token = r->token + i * window, *const label = r->label + i * window;
        memcpy(token, from, window * sizeof *token);
        memcpy(label, from + 1, (window - 1) * sizeof *label);
        label[window - 1] = PARE_NO_LABEL;
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
                                  .length = window};
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
    return drawn;
}

static pare_batch lot_batch(const trainer *r)
{
    return (pare_batch){.sequences = r->rows / r->data->window, .length = r->data->window};
}

/* --- forward -----------------------------------------------------------------------------------
 */

static pare_tap keeps(pare_qkv *qkv)
{
    return (pare_tap){.self = qkv, .last = PARE_SITES, .see_qkv = pare_qkv_keep};
}

/* A block on a tape that waits for the way back. x: in front of it; NULL out: nobody reads what is
 * behind it. */
static pare_status run_waiting(trainer *r, waiting *w, size_t block, const float *x,
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
 * there is none. `qkv`: of the last block; NULL: nobody asks. */
static pare_status run_forward(trainer *r, const pare_forward *f, bool apart, waiting *wait,
                               pare_kv *kv, float *x, pare_qkv *qkv)
{
    const pare_config *const c = &f->model->config;
    const size_t floats = r->rows * c->hidden;
    const pare_tap taken = keeps(qkv);
    PARE_TRY(pare_embed_batch(r->cx, f->model, r->token, lot_batch(r), x));
    for (size_t b = 0; b < c->blocks; b++) {
        const pare_tap *const tap = qkv && b + 1 == c->blocks ? &taken : NULL;
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

/* Rows first .. first + rows - 1 of the lot through the head and back. */
static pare_status run_chunk(trainer *r, pare_tape *tape, const float *x, const float *u,
                             size_t first, size_t rows, double scale)
{
    const pare_ops o = pare_tape_ops(tape);
    const pare_forward *const f = &r->student;
    const size_t hidden = r->c->hidden, vocab = f->model->head.n;
    const bool compare = pare_losses_compare(&r->losses);
    const pare_gradients wanted = {.leaf = r->gradient, .leaves = r->t->leaves};
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
    PARE_TRY(pare_tape_back(tape, logits, dl.at, &wanted));
    memcpy(r->dx + first * hidden, pare_tape_gradient(in), rows * hidden * sizeof *r->dx);
    return PARE_OK;
}

/* dx: of what is behind the last block. */
static pare_status run_head(trainer *r, const float *x, const float *u, double scale)
{
    for (size_t i = 0; i < r->rows; i += CHUNK) {
        pare_tape tape;
        pare_tape_begin(r->cx, &r->work, r->student.backend, &tape);
        const pare_status s = run_chunk(r, &tape, x, u, i, pare_smaller(r->rows - i, CHUNK), scale);
        pare_tape_end(&tape);
        PARE_TRY(s);
    }
    return PARE_OK;
}

static pare_status undo_block(trainer *r, waiting *w, size_t block)
{
    pare_gradients wanted = {.leaf = r->gradient, .leaves = r->t->leaves};
    if (r->o->losses.relations > 0 && block + 1 == r->c->blocks)
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
    const pare_gradients wanted = {.leaf = r->gradient, .leaves = r->t->leaves};
    pare_array x;
    PARE_TRY(o.op->take(&o, r->rows, r->c->hidden, &x));
    PARE_TRY(pare_embed_run(&o, r->t->student->model, r->token, lot_batch(r), x));
    return pare_tape_back(tape, x, r->dx, &wanted);
}

/* The stream of the teacher that is behind as much of it as block `b` has of the student in front
 * of its end. */
static const float *teacher_stream(const trainer *r, size_t b)
{
    return r->u + (b + 1) * r->tc->blocks / r->c->blocks * r->rows * r->tc->hidden;
}

/* The loss `relations` and its gradient. */
static pare_status relate(trainer *r, double weight)
{
    double value;
    if (!(weight > 0))
        return PARE_OK;
    PARE_TRY(pare_relations(r->cx, &r->work, lot_batch(r), pieces_of(r->c, r->o), &r->qkv,
                            &r->teacher_qkv, weight, &r->dqkv, &value));
    r->loss += weight * value;
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
    PARE_TRY(relate(r, r->o->losses.relations * share));
    for (size_t b = r->c->blocks; b-- > 0;) {
        const float *const x = r->x + b * floats;
        waiting *const w = &r->block[r->o->keep ? b : 0];
        PARE_TRY(pare_ctx_interrupted(r->cx));
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
    const size_t streams = r->tc ? teacher_streams(r->tc, r->o) : 0;
    const float *last = NULL;
    if (streams > 0) {
        PARE_TRY(run_forward(r, &r->teacher, streams > 1, NULL, &r->teacher_kv, r->u,
                             r->o->losses.relations > 0 ? &r->teacher_qkv : NULL));
        last = r->u + (streams - 1) * r->rows * r->tc->hidden;
    }
    PARE_TRY(run_forward(r, &r->student, true, r->o->keep ? r->block : NULL, &r->kv, r->x,
                         r->o->losses.relations > 0 ? &r->qkv : NULL));
    PARE_TRY(run_head(r, r->x + r->c->blocks * floats, last, 1 / (double)counted));
    return run_backward(r, (double)r->rows / (double)all);
}

static pare_status run_lots(trainer *r, size_t step, bool drawn)
{
    const size_t most = lot_windows(r->data, r->o);
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
    pare_ctx_progress(r->cx, "training", (double)state->steps, (double)schedule->steps);
    const bool drawn = choose(r, state->steps);
    const bool alike = r->losses.ce == r->o->losses.ce; /* comparable with the other steps */
    PARE_TRY(run_lots(r, state->steps, drawn));
    for (size_t i = 0; i < r->t->awares; i++)
        pare_aware_gradient(r->cx, &r->t->aware[i]);
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
    if (alike && !isfinite(state->first))
        state->first = s.loss;
    state->least = alike && s.norm > 0 && s.norm < state->least ? s.norm : state->least;
    state->steps = s.step;
    return watch->see ? watch->see(watch->self, &s) : PARE_OK;
}

/* --- memory ------------------------------------------------------------------------------------
 */

static uint64_t chunk_bytes(const pare_ctx *cx, const pare_config *c, const pare_train_opts *o)
{
    const uint64_t row = 4 * (uint64_t)c->vocab + 8 * (uint64_t)c->hidden;
    return (CHUNK * row + 1024 * (uint64_t)c->hidden) * sizeof(float) +
           (o->bf16 ? pare_tape_bf16_bytes(cx, CHUNK, c->vocab, c->hidden) : 0) +
           pare_losses_bytes(cx, &o->losses, CHUNK, c->vocab) + (uint64_t)256 * PARE_ALIGN;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t forward_bytes(const pare_ctx *cx, const pare_config *c, pare_batch b, bool bf16)
{
    return larger(pare_block_forward_scratch(cx, c, b),
                  bf16 ? pare_block_forward_bytes(cx, c, b, PARE_INPUTS_BF16) : 0);
}

/* The most of a pass through a block, there and back, and through the head. `teacher` may be NULL.
 */
static uint64_t work_bytes(const pare_ctx *cx, const pare_config *c, const pare_config *teacher,
                           pare_batch b, const pare_train_opts *o)
{
    const uint64_t relations =
        o->losses.relations > 0 ? pare_relations_bytes(cx, b, pieces_of(c, o)) : 0;
    const uint64_t projection =
        teacher && pare_train_projects(&o->losses, c, teacher)
            ? pare_projection_scratch(b.sequences * b.length, teacher->hidden)
            : 0;
    const uint64_t there = larger(forward_bytes(cx, c, b, o->bf16),
                                  teacher ? forward_bytes(cx, teacher, b, o->bf16) : 0),
                   embedding = 2 * (uint64_t)b.sequences * b.length * c->hidden * sizeof(float),
                   back = larger(pare_tape_block_bytes(cx, c, b, o->bf16), embedding);
    return (o->keep ? c->blocks * (uint64_t)back : 0) +
           larger(larger(larger(there, back), larger(relations, projection)),
                  larger(chunk_bytes(cx, c, o), teacher ? chunk_bytes(cx, teacher, o) : 0));
}

static uint64_t cache_bytes(const pare_config *c, pare_batch b)
{
    return pare_kv_bytes(c, &(pare_kv_format){0}, b.sequences, b.length);
}

/* What draw_lot takes: caches of all blocks, a stream of the longest prefill, logits, a block. */
static uint64_t draw_bytes(const pare_ctx *cx, const pare_config *c, pare_batch b)
{
    const uint64_t sequences = b.sequences, rows = sequences * b.length;
    return c->blocks * (cache_bytes(c, b) + sizeof(pare_kv) + (uint64_t)4 * PARE_ALIGN) +
           rows * (c->hidden * sizeof(float) + sizeof(int32_t) + sizeof(size_t)) +
           sequences * c->vocab * sizeof(float) + pare_block_forward_scratch(cx, c, b) +
           (uint64_t)16 * PARE_ALIGN;
}

uint64_t pare_train_bytes(const pare_ctx *cx, const pare_config *c, const pare_config *teacher,
                          const pare_train_data *data, const pare_train_opts *o, size_t leaves)
{
    const pare_batch b = {.sequences = lot_windows(data, o), .length = data->window};
    const uint64_t rows = (uint64_t)b.sequences * b.length;
    const pare_config *const t = needs_teacher(o) ? teacher : NULL;
    const uint64_t streams =
        (uint64_t)(c->blocks + 2) * c->hidden +
        (t ? (uint64_t)teacher_streams(t, o) * t->hidden : 0) +
        (t && o->losses.relations > 0 ? 2 * (uint64_t)pare_qkv_floats(c) + pare_qkv_floats(t) : 0);
    return rows * (streams * sizeof(float) + 2 * sizeof(int32_t)) +
           (pare_losses_compare(&o->losses) ? (uint64_t)CHUNK * c->vocab * sizeof(float) : 0) +
           data->windows * sizeof(size_t) + cache_bytes(c, b) + (t ? cache_bytes(t, b) : 0) +
           (o->lambda > 0 ? draw_bytes(cx, c, b) : 0) + work_bytes(cx, c, t, b, o) +
           leaves * sizeof(pare_leaf_gradient) + c->blocks * sizeof(waiting) +
           (uint64_t)1024 * PARE_ALIGN;
}

/* Whether queries, keys and values of both can be cut into so many pieces. */
static pare_status check_pieces(pare_ctx *cx, const pare_config *c, const pare_config *teacher,
                                size_t pieces)
{
    const pare_config *const of[] = {c, teacher};
    for (size_t i = 0; i < 2; i++) {
        const size_t q = of[i]->heads * of[i]->head_dim, k = of[i]->kv_heads * of[i]->head_dim;
        if (q % pieces || k % pieces)
            return pare_fail(cx, PARE_EINVAL,
                             "the %s has queries of %zu channels and keys of %zu; they cannot be "
                             "cut into %zu equal pieces for the loss relations; take other pieces",
                             i ? "teacher" : "student", q, k, pieces);
    }
    return PARE_OK;
}

/* What a teacher must have in common with its student. */
static pare_status check_teacher(pare_ctx *cx, const pare_trainee *t, const pare_train_opts *o)
{
    const pare_config *const c = &t->student->model->config;
    const pare_config *const tc = t->teacher ? &t->teacher->model->config : NULL;
    if (!needs_teacher(o))
        return PARE_OK;
    if (!tc)
        return pare_fail(cx, PARE_EINVAL, "a loss compares with a teacher, and there is none");
    if (pare_losses_compare(&o->losses) && tc->vocab != c->vocab)
        return pare_fail(cx, PARE_EINVAL,
                         "the teacher has a vocabulary of %zu tokens and the student one of %zu; "
                         "their predictions cannot be compared",
                         tc->vocab, c->vocab);
    if (pare_train_projects(&o->losses, c, tc) &&
        !(t->projection && t->projection->width == c->hidden && t->projection->wide == tc->hidden))
        return pare_fail(cx, PARE_EINVAL,
                         "the teacher is %zu channels wide and the student %zu; the loss hidden "
                         "needs a projection between them",
                         tc->hidden, c->hidden);
    return o->losses.relations > 0 ? check_pieces(cx, c, tc, pieces_of(c, o)) : PARE_OK;
}

static pare_status take(trainer *r)
{
    const size_t sequences = lot_windows(r->data, r->o), window = r->data->window;
    const size_t rows = sequences * window, hidden = r->c->hidden;
    const size_t vocab = pare_losses_compare(&r->o->losses) ? r->c->vocab : 0;
    const size_t stream = r->tc ? teacher_streams(r->tc, r->o) * r->tc->hidden : 0;
    r->order = PARE_NEW(r->scratch, size_t, r->data->windows);
    r->token = PARE_NEW(r->scratch, int32_t, rows);
    r->label = PARE_NEW(r->scratch, int32_t, rows);
    r->x = PARE_NEW(r->scratch, float, (r->c->blocks + 1) * rows * hidden);
    r->u = PARE_NEW(r->scratch, float, stream *rows);
    r->dx = PARE_NEW(r->scratch, float, rows *hidden);
    r->logits = PARE_NEW(r->scratch, float, CHUNK *vocab);
    r->gradient = PARE_NEW(r->scratch, pare_leaf_gradient, r->t->leaves);
    r->block = PARE_NEW(r->scratch, waiting, r->o->keep ? r->c->blocks : 1);
    if (!r->order || !r->token || !r->label || !r->x || !r->u || !r->dx || !r->logits ||
        !r->gradient || !r->block)
        return PARE_ENOMEM;
    for (size_t i = 0; i < r->t->leaves; i++)
        r->gradient[i] = (pare_leaf_gradient){r->t->leaf[i].read, r->t->leaf[i].gradient};
    const pare_batch widest = {.sequences = sequences, .length = window};
    PARE_TRY(pare_arena_init(r->cx, &r->work, work_bytes(r->cx, r->c, r->tc, widest, r->o)));
    if (r->o->losses.relations > 0) {
        PARE_TRY(pare_qkv_take(r->scratch, r->c, rows, &r->qkv));
        PARE_TRY(pare_qkv_take(r->scratch, r->c, rows, &r->dqkv));
        PARE_TRY(pare_qkv_take(r->scratch, r->tc, rows, &r->teacher_qkv));
    }
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
                 .c = &t->student->model->config,
                 .tc = needs_teacher(o) && t->teacher ? &t->teacher->model->config : NULL};
    PARE_TRY(pare_train_check(cx, data, o));
    PARE_TRY(check_teacher(cx, t, o));
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
