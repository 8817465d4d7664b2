/* What a training needs: settings that teach, a teacher that goes with the student, memory. */
#include "distill/loop_internal.h"
#include "runtime/block_set.h"

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
    if (o->lambda > 0 && !pare__needs_teacher(o))
        return pare_fail(cx, PARE_EINVAL,
                         "with lambda the student's own samples are compared with what a teacher "
                         "says of them; give weight to a loss that compares, such as jsd");
    if (o->teacher_share > 0 && !(o->lambda > 0))
        return pare_fail(cx, PARE_EINVAL,
                         "teacher_share is the teacher's part in what the student draws, and "
                         "without lambda it draws nothing; give lambda, or leave it out");
    pare_losses other = o->losses;
    other.kl = 0;
    if (o->teacher_top > 0 && (!(o->losses.kl > 0) || o->lambda > 0 || pare_losses_taught(&other)))
        return pare_fail(cx, PARE_EINVAL,
                         "teacher_top keeps of the teacher what the loss kl needs; give weight to "
                         "kl, none to other losses that compare with the teacher, and no lambda; "
                         "or take teacher_top: 0");
    return pare__needs_teacher(o) || o->losses.ce > 0
               ? PARE_OK
               : pare_fail(cx, PARE_EINVAL, "all losses have weight 0, so nothing can be learned");
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

/* Blocks with a recurrent state have no queries and keys to compare. */
static pare_status check_queries(pare_ctx *cx, const pare_config *c, const pare_config *tc,
                                 const pare_train_opts *o)
{
    for (size_t b = 0; b < c->blocks; b++) {
        const bool last = b + 1 == c->blocks;
        if (!(o->losses.attention > 0 || (last && o->losses.relations > 0)))
            continue;
        const size_t beside = (last ? tc->blocks : pare__beside(c, tc, b)) - 1;
        const bool teacher = tc->mixed && pare_blocks_have(tc->recurrent, beside);
        const bool student = c->mixed && pare_blocks_have(c->recurrent, b);
        if (teacher || student)
            return pare_fail(cx, PARE_EINVAL,
                             "block %zu of the %s has a recurrent state and no queries and keys "
                             "for the loss %s; take hidden instead",
                             teacher ? beside : b, teacher ? "teacher" : "student",
                             o->losses.attention > 0 ? "attention" : "relations");
    }
    return PARE_OK;
}

pare_status pare_train_check_pair(pare_ctx *cx, const pare_config *c, const pare_config *tc,
                                  const pare_train_opts *o)
{
    if (!pare__needs_teacher(o))
        return PARE_OK;
    if (tc->vocab != c->vocab)
        return pare_fail(cx, PARE_EINVAL,
                         "the teacher has a vocabulary of %zu tokens and the student one of %zu; "
                         "both see the same ones; take a teacher of the same tokenizer",
                         tc->vocab, c->vocab);
    if (o->losses.attention > 0 && tc->heads != c->heads)
        return pare_fail(cx, PARE_EINVAL,
                         "the teacher has %zu heads of attention and the student %zu; the loss "
                         "attention compares head with head; take relations instead",
                         tc->heads, c->heads);
    if (o->losses.attention > 0 && tc->blocks < c->blocks)
        return pare_fail(cx, PARE_EINVAL,
                         "the teacher has %zu blocks and the student %zu; the loss attention needs "
                         "a block of the teacher for each of the student",
                         tc->blocks, c->blocks);
    PARE_TRY(check_queries(cx, c, tc, o));
    return o->losses.relations > 0 ? check_pieces(cx, c, tc, pare__pieces_of(c, o)) : PARE_OK;
}

pare_status pare__check_teacher(pare_ctx *cx, const pare_trainee *t, const pare_train_opts *o)
{
    const pare_config *const c = &t->student->model->config;
    const pare_config *const tc = t->teacher ? &t->teacher->model->config : NULL;
    if (!pare__needs_teacher(o))
        return PARE_OK;
    if (!tc)
        return pare_fail(cx, PARE_EINVAL, "a loss compares with a teacher, and there is none");
    if (pare_train_projects(&o->losses, c, tc) &&
        !(t->projection && t->projection->width == c->hidden && t->projection->wide == tc->hidden))
        return pare_fail(cx, PARE_EINVAL,
                         "the teacher is %zu channels wide and the student %zu; the loss hidden "
                         "needs a projection between them",
                         tc->hidden, c->hidden);
    return pare_train_check_pair(cx, c, tc, o);
}

/* --- memory ------------------------------------------------------------------------------------
 */

static uint64_t chunk_bytes(const pare_ctx *cx, const pare_config *c, const pare_train_opts *o)
{
    const uint64_t row = 4 * (uint64_t)c->vocab + 8 * (uint64_t)c->hidden;
    return (PARE__CHUNK * row + 1024 * (uint64_t)c->hidden) * sizeof(float) +
           (o->bf16 ? pare_tape_bf16_bytes(cx, PARE__CHUNK, c->vocab, c->hidden) : 0) +
           pare_losses_bytes(cx, &o->losses, PARE__CHUNK, c->vocab) +
           (o->teacher_top ? pare_teacher_top_scratch(cx, PARE__CHUNK, c->vocab) : 0) +
           (uint64_t)256 * PARE_ALIGN;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Rows of a linear that are F32 at once on the way back, where it is not. */
static uint64_t panel_bytes(const pare_config *c)
{
    const uint64_t widest = larger(larger(c->hidden, (uint64_t)c->heads * c->head_dim),
                                   larger(c->intermediate, c->expert_width));
    const uint64_t state = (uint64_t)c->recurrence.value_heads * c->recurrence.value_width;
    return 1024 * larger(widest, state) * sizeof(float) + PARE_ALIGN;
}

static uint64_t forward_bytes(const pare_ctx *cx, const pare_config *c, pare_batch b, bool bf16)
{
    return larger(pare_block_forward_scratch(cx, c, b),
                  bf16 ? pare_block_forward_bytes(cx, c, b, PARE_INPUTS_BF16) : 0);
}

uint64_t pare__work_bytes(const pare_ctx *cx, const pare_config *c, const pare_config *teacher,
                          pare_batch b, const pare_train_opts *o)
{
    const uint64_t relations =
        o->losses.relations > 0 ? pare_relations_bytes(cx, b, pare__pieces_of(c, o)) : 0;
    const uint64_t scores = o->losses.attention > 0 ? pare_scores_bytes(cx, c, b) : 0;
    const uint64_t projection =
        teacher && pare_train_projects(&o->losses, c, teacher)
            ? pare_projection_scratch(b.sequences * b.length, teacher->hidden)
            : 0;
    const uint64_t there = larger(forward_bytes(cx, c, b, o->bf16),
                                  teacher ? forward_bytes(cx, teacher, b, o->bf16) : 0),
                   embedding = 2 * (uint64_t)b.sequences * b.length * c->hidden * sizeof(float),
                   back = pare_tape_block_bytes(cx, c, b, o->bf16),
                   held = o->keep ? pare_tape_held_bytes(cx, c, b, o->bf16) : 0,
                   chunk = larger(chunk_bytes(cx, c, o), teacher ? chunk_bytes(cx, teacher, o) : 0),
                   beside = larger(larger(chunk, scores), larger(relations, projection));
    return (o->adapters ? panel_bytes(c) : 0) +
           larger(larger(there, embedding),
                  c->blocks * held + larger(back - held, beside)); /* the last goes back first */
}

static uint64_t cache_bytes(const pare_config *c, pare_batch b)
{
    return pare_kv_bytes(c, &(pare_kv_format){0}, b.sequences, b.length);
}

/* What draw_lot takes of one model: caches of all blocks, a stream of the longest prefill, logits,
 * a block. */
static uint64_t draw_bytes(const pare_ctx *cx, const pare_config *c, pare_batch b)
{
    const uint64_t sequences = b.sequences, rows = sequences * b.length;
    return c->blocks * (cache_bytes(c, b) + sizeof(pare_kv) + (uint64_t)4 * PARE_ALIGN) +
           rows * (c->hidden * sizeof(float) + sizeof(int32_t) + sizeof(size_t)) +
           sequences * c->vocab * sizeof(float) + pare_block_forward_scratch(cx, c, b) +
           (uint64_t)16 * PARE_ALIGN;
}

/* Of a token, for the losses that compare queries and keys. */
static uint64_t attention_floats(const pare_config *c, const pare_config *t, const pare_losses *l)
{
    const uint64_t own = pare_qkv_floats(c);
    return (l->relations > 0 ? own + pare_qkv_floats(t) : 0) +
           (l->relations > 0 || l->attention > 0 ? own : 0) +
           (l->attention > 0 ? c->blocks * (uint64_t)(pare_qk_floats(c) + pare_qk_floats(t)) : 0);
}

/* What is kept of the teacher's words on all windows, and where those of a lot lie. */
static uint64_t kept_bytes(const pare_config *c, const pare_train_data *data, size_t k,
                           uint64_t rows)
{
    return pare_teacher_top_bytes((uint64_t)data->windows * data->window, c->vocab, k) +
           data->windows * sizeof(bool) + rows * 2 * sizeof(size_t);
}

uint64_t pare_train_bytes(const pare_ctx *cx, const pare_config *c, const pare_config *teacher,
                          const pare_train_data *data, const pare_train_opts *o, size_t leaves,
                          uint64_t apart)
{
    const pare_batch b = {.sequences = pare__lot_windows(data, o), .length = data->window};
    const uint64_t rows = (uint64_t)b.sequences * b.length;
    const pare_config *const t = pare__needs_teacher(o) ? teacher : NULL;
    const uint64_t streams = (uint64_t)(c->blocks + 2) * c->hidden +
                             (t ? (uint64_t)pare__teacher_streams(t, o) * t->hidden : 0) +
                             (t ? attention_floats(c, t, &o->losses) : 0);
    return rows * (streams * sizeof(float) + 2 * sizeof(int32_t)) +
           (pare_losses_compare(&o->losses) ? (uint64_t)PARE__CHUNK * c->vocab * sizeof(float)
                                            : 0) +
           data->windows * sizeof(size_t) + cache_bytes(c, b) + (t ? cache_bytes(t, b) : 0) +
           (t && o->teacher_top ? kept_bytes(c, data, o->teacher_top, rows) : 0) +
           (o->lambda > 0 ? draw_bytes(cx, c, b) : 0) +
           (o->lambda > 0 && t && o->teacher_share > 0 ? draw_bytes(cx, t, b) : 0) +
           pare__work_bytes(cx, c, t, b, o) +
           leaves * (sizeof(pare_leaf_gradient) + sizeof(pare__lot_part)) +
           (pare__lots(data, o) > 1 ? apart * sizeof(float) + leaves * (uint64_t)PARE_ALIGN : 0) +
           c->blocks * (sizeof(pare__waiting) + 2 * sizeof(pare_qk) + (uint64_t)4 * PARE_ALIGN) +
           (uint64_t)1024 * PARE_ALIGN;
}
