/* A lot of windows: its tokens, both models forward, and the way back. */
#include <string.h>

#include "distill/loop_internal.h"
#include "runtime/ops.h"
#include "runtime/random.h"
#include "runtime/sample.h"
#include "runtime/small.h"
#include "runtime/world.h"

/* --- data --------------------------------------------------------------------------------------
 */

/* Where the teacher's words of window `of`, i of the lot, are kept. */
static void find_kept(pare__trainer *r, size_t i, size_t of)
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
static void load_lot(pare__trainer *r, uint64_t first, size_t count)
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
static pare_status draw_lot(pare__trainer *r, uint64_t first)
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

static pare_batch lot_batch(const pare__trainer *r)
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

static kept kept_of(pare__trainer *r, bool teacher, size_t block)
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
static pare_status run_waiting(pare__trainer *r, pare__waiting *w, size_t block, const float *x,
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

void pare__lot_tell(const pare__trainer *r, double share)
{
    const double lots = (double)pare__lots(r->data, r->o);
    const char *const what = r->begun ? "training the rest" : "training";
    if (pare_world_rank(r->cx) == 0)
        pare_ctx_progress(r->cx, r->o->what ? r->o->what : what,
                          (double)(r->step - r->begun) + ((double)r->lot + share) / lots,
                          (double)(r->o->schedule.steps - r->begun));
}

/* Of the time of a lot; the way back takes twice as long, and runs blocks again that it has not
 * kept. */
static double forward_share(const pare__trainer *r)
{
    return r->o->keep ? 1 / 3. : 1 / 4.;
}

/* A model on the lot. `apart`: the inputs of each block stay, x [blocks + 1, rows, hidden]; else x
 * [rows, hidden] is what is behind the last. `wait` [blocks]: the way back begins with them; NULL:
 * there is none. */
static pare_status run_forward(pare__trainer *r, const pare_forward *f, bool apart,
                               pare__waiting *wait, pare_kv *kv, float *x)
{
    const pare_config *const c = &f->model->config;
    const size_t floats = r->rows * c->hidden;
    PARE_TRY(pare_embed_batch(r->cx, f->model, r->token, lot_batch(r), x));
    for (size_t b = 0; b < c->blocks; b++) {
        kept k = kept_of(r, f == &r->teacher, b);
        const pare_tap taken = {.self = &k, .last = PARE_SITES, .see_qkv = keep};
        const pare_tap *const tap = k.qk || k.qkv ? &taken : NULL;
        PARE_TRY(pare_ctx_interrupted(r->cx));
        if (f == &r->student)
            pare__lot_tell(r, forward_share(r) * (double)b / (double)c->blocks);
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
static pare_status add_kept(pare__trainer *r, pare_arena *scratch, const float *u, size_t first,
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
static pare_status run_chunk(pare__trainer *r, pare_tape *tape, const float *x, const float *u,
                             size_t first, size_t rows, double scale)
{
    const pare_ops o = pare_tape_ops(tape);
    const pare_forward *const f = &r->student;
    const size_t hidden = r->c->hidden, vocab = f->model->head.n;
    const bool compare = pare_losses_compare(&r->losses);
    const pare_gradients wanted = {.leaf = r->sum.gradient, .leaves = r->sum.count};
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
static pare_status run_head(pare__trainer *r, const float *x, const float *u, double scale)
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

static pare_status undo_block(pare__trainer *r, pare__waiting *w, size_t block)
{
    pare_gradients wanted = {.leaf = r->sum.gradient, .leaves = r->sum.count};
    if (r->qk || (r->o->losses.relations > 0 && block + 1 == r->c->blocks))
        memcpy(wanted.qkv, r->dqkv.at, sizeof wanted.qkv);
    PARE_TRY(pare_tape_back(&w->tape, w->out, r->dx, &wanted));
    if (block > 0 || r->t->tables)
        memcpy(r->dx, pare_tape_gradient(w->in), r->rows * r->c->hidden * sizeof *r->dx);
    pare_tape_end(&w->tape);
    pare__lot_sum_add(r->cx, &r->sum, block);
    return PARE_OK;
}

/* The tables of embeddings and positions, from dx in front of the first block. */
static pare_status undo_embedding(pare__trainer *r, pare_tape *tape)
{
    const pare_ops o = pare_tape_ops(tape);
    const pare_gradients wanted = {.leaf = r->sum.gradient, .leaves = r->sum.count};
    pare_array x;
    PARE_TRY(o.op->take(&o, r->rows, r->c->hidden, &x));
    PARE_TRY(pare_embed_run(&o, r->t->student->model, r->token, lot_batch(r), x));
    return pare_tape_back(tape, x, r->dx, &wanted);
}

/* The stream of the teacher that stands beside that behind block `b` of the student. */
static const float *teacher_stream(const pare__trainer *r, size_t b)
{
    return r->u + pare__beside(r->c, r->tc, b) * r->rows * r->tc->hidden;
}

/* The losses `relations` and `attention` of block `b`, and their gradients in dqkv. `share`: of the
 * rows of the step. */
static pare_status compare_attention(pare__trainer *r, size_t b, double share)
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
static pare_status compare_streams(pare__trainer *r, size_t b, const float *x, double weight)
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
static pare_status run_backward(pare__trainer *r, double share)
{
    const size_t floats = r->rows * r->c->hidden;
    const double weight = r->o->losses.hidden * share / (double)r->c->blocks;
    for (size_t b = r->c->blocks; b-- > 0;) {
        const float *const x = r->x + b * floats;
        pare__waiting *const w = &r->block[r->o->keep ? b : 0];
        PARE_TRY(pare_ctx_interrupted(r->cx));
        pare__lot_tell(r, 1 - (1 - forward_share(r)) * (double)(b + 1) / (double)r->c->blocks);
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

/* --- a lot -------------------------------------------------------------------------------------
 */

static pare_status run_loaded(pare__trainer *r)
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
    PARE_TRY(run_backward(r, (double)r->rows / (double)all));
    pare__lot_sum_add(r->cx, &r->sum, PARE_OUTSIDE);
    return PARE_OK;
}

pare_status pare__run_lot(pare__trainer *r, size_t step, bool drawn, size_t lot)
{
    const size_t most = pare__lot_windows(r->data, r->o), at = lot * most;
    const uint64_t first = (uint64_t)step * r->o->batch + at;
    r->loss = 0;
    load_lot(r, first, pare_smaller(r->o->batch - at, most));
    if (drawn)
        PARE_TRY(draw_lot(r, first));
    pare__lot_sum_begin(&r->sum, lot == 0 || pare_world_rank(r->cx) > 0);
    return run_loaded(r);
}
