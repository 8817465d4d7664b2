/* runtime/forward.h - the forward pass: one code path for evaluation, calibration, generation.
 *
 * A batch is `sequences` equally long pieces of tokens, all at positions start .. start+length-1.
 * Every batch attends through a key/value cache; prefill is a batch with start 0, decode a batch
 * with length 1. Activations are f32 [sequences * length, hidden], sequence after sequence.
 *
 * One output row depends on its own sequence only and not on the size of the batch, the split into
 * prefill and decode, or the number of threads: the same bytes always. */
#ifndef PARE_RUNTIME_FORWARD_H
#define PARE_RUNTIME_FORWARD_H

#include "runtime/kv.h"
#include "runtime/model.h"

typedef struct pare_batch {
    size_t sequences, length, start;
} pare_batch;

/* What of a block runs. A half, where residuals are serial: x is the stream in front of it, and
 * what comes out the stream behind it. */
typedef enum pare_half { PARE_HALF_BOTH, PARE_HALF_ATTENTION, PARE_HALF_MLP } pare_half;

/* A row that an expert runs, and its weight in what that adds to. */
typedef struct pare_visit {
    uint32_t row;
    float weight;
} pare_visit;

/* Rows that an expert is shown beside those that the router sends it: `want` of the `of` others,
 * evenly spread. The j-th of them (from 0) is shown where
 *     (j + 1) want / of > j want / of        in whole numbers, want <= of, want * of below 2^64
 * so that of the first n others n want / of are shown. */
typedef struct pare_fill {
    uint64_t want, of;
    uint64_t seen; /* others that came so far */
} pare_fill;

static inline uint64_t pare_fill_among(const pare_fill *f, uint64_t others)
{
    return f->want ? others * f->want / f->of : 0;
}

/* Looks at inputs of linears while a block runs, and says how much of it runs.
 *
 * Sites come in the order of pare_site in part 0, then part by part MLP and ACTIVATED of the
 * experts, ascending. The rows of an expert are those routed to it and those that `fill` adds, in
 * their order in the batch; a part that has no linears at a site, or an expert that gets no rows,
 * is not shown. */
typedef struct pare_tap {
    /* Called before the linears of a site run, with their input x [rows, k] f32, dense rows; or
     * NULL. An error ends the forward pass. */
    pare_status (*see)(void *self, size_t part, pare_site site, const float *x, size_t rows,
                       size_t k);
    void *self;
    pare_half half;
    pare_site last; /* stop after this site of every part; PARE_SITES: run all that `half` says */
    /* NULL, or called with queries and keys before RoPE, [rows, heads * head_dim] and [rows,
     * kv_heads * head_dim], and values, as wide as keys. With it, a block that stops after the
     * attention site has made q, k and v. */
    pare_status (*see_qkv)(void *self, const float *q, const float *k, const float *v, size_t rows);
    /* Parts that are shown, first_part .. first_part + parts - 1; parts 0: all. The MLPs of others
     * do not run where the block stops anyway. */
    size_t first_part, parts;
    /* [pare_block_parts] or NULL: experts that are shown rows beside those that the router sends
     * them. Only with last < PARE_SITES. */
    pare_fill *fill;
    /* NULL, or changes the input of a site in place before it is shown: rounding of activations. A
     * gradient passes it as if nothing had changed (straight-through). Beta and decay of a
     * recurrent state read what was there before. Not together with fill. */
    void (*change)(void *self, pare_site site, float *x, size_t rows, size_t k);
    /* NULL, or called with what an expert gives for the rows that the router sends it, y [rows,
     * hidden], row i for visit[i], before its weight. Experts come in ascending order. Only with
     * last == PARE_SITES. */
    pare_status (*see_expert)(void *self, size_t expert, const pare_visit *visit, const float *y,
                              size_t rows, size_t hidden);
    /* NULL, or called by a wave behind each share of its windows (calib/shares.h) that is not
     * empty; not by the block. */
    void (*share)(void *self, bool last);
} pare_tap;

/* Tables and switches shared by all blocks of a model. */
typedef struct pare_forward {
    const pare_model *model;
    bool exact;                       /* packed weights: dequantize and multiply in F32 */
    const float *rope_cos, *rope_sin; /* [pare_rope_table_rows][pare_rope_pairs], scaling and factor
                                         of attention included */
    size_t positions;
    const struct pare_backend *backend; /* runtime/block_ops.h; NULL: the CPU */
} pare_forward;

/* Where the angles of a block begin in rope_cos and rope_sin, apart: those of rope_local, for
 * sequences that may come to have `room` positions (the capacity of their cache). The room counts
 * and not the length so far, so that keys that lie in a cache need not turn again when their
 * sequence grows. */
static inline size_t pare_rope_table(const pare_forward *f, bool apart, size_t room)
{
    const pare_config *const c = &f->model->config;
    const size_t rows = pare_rope_rows(&c->rope, f->positions), near = rows - f->positions;
    if (apart)
        return rows * pare_rope_pairs(c);
    return near && room > near ? near * pare_rope_pairs(c) : 0;
}

/* Builds the RoPE tables for `positions` positions in the arena. With DYNAMIC scaling the sequences
 * beyond its context turn as those of `positions` do. PARE_ENOMEM. positions may exceed the
 * context; the caller decides whether that makes sense. PARE_EINVAL where positions are learned and
 * there are fewer. */
PARE_CHECKED pare_status pare_forward_init(pare_ctx *cx, pare_arena *a, const pare_model *model,
                                           size_t positions, bool exact, pare_forward *f);

/* x[i] = row tokens[i] of the embedding, f32, times its scale, plus the learned position of token i
 * where there are such: batch.start + i % batch.length. tokens and x [sequences * length], x
 * [.., hidden]. PARE_EINVAL for a token out of range (the message names index and token). */
PARE_CHECKED pare_status pare_embed_batch(pare_ctx *cx, const pare_model *m, const int32_t *tokens,
                                          pare_batch batch, float *x);

/* The same for one sequence of `count` tokens from position 0 on. */
PARE_CHECKED pare_status pare_embed(pare_ctx *cx, const pare_model *m, const int32_t *tokens,
                                    size_t count, float *x);

/* Runs one block in place on x, [sequences * length, hidden].
 *   weights  the block to run (need not be model->block[i]: calibration passes its own copy)
 *   kv       this block's cache; positions [0, start) filled, start + length <= capacity
 *   tap      NULL or what wants to see the inputs of the linears; with tap->last < PARE_SITES x is
 *            unchanged on return
 * Returns PARE_OK, PARE_ENOMEM, or what the tap returned. Scratch is rewound. */
PARE_CHECKED pare_status pare_block_forward(pare_ctx *cx, pare_arena *scratch,
                                            const pare_forward *f, const pare_block *weights,
                                            pare_batch batch, float *x, pare_kv *kv,
                                            const pare_tap *tap);

/* Runs all blocks of the model in place on x.
 *   kv [kvs]  one cache per block, or a single one (kvs = 1) that each block fills anew: enough for
 *             a batch with start 0 that nothing continues
 * Returns PARE_OK, PARE_ENOMEM or PARE_EINTERRUPTED (asked before each block). */
PARE_CHECKED pare_status pare_model_forward(pare_ctx *cx, pare_arena *scratch,
                                            const pare_forward *f, pare_batch batch, float *x,
                                            pare_kv *kv, size_t kvs);

/* Forms of its inputs that a linear, or the linears that read the same, make for themselves: none
 * when weights are dense, one when all packed linears quantize their inputs alike to integers
 * and keep no outliers, else as many as there can be. */
typedef enum pare_inputs {
    PARE_INPUTS_NONE = 0,
    PARE_INPUTS_ALIKE = 1,
    PARE_INPUTS_ANY = 6,
    PARE_INPUTS_BF16 /* of pare_cpu_bf16 */
} pare_inputs;

/* The forms that linears of this model need. */
pare_inputs pare_model_inputs(const pare_model *m);

/* Bytes of scratch that pare_block_forward takes for a batch, upper bound: of weights that need at
 * most these forms of their inputs, and of any. */
size_t pare_block_forward_bytes(const pare_ctx *cx, const pare_config *c, pare_batch batch,
                                pare_inputs inputs);
size_t pare_block_forward_scratch(const pare_ctx *cx, const pare_config *c, pare_batch batch);

/* logits[i] = head(norm(x[rows[i]])) for `count` rows of x; logits [count, vocab]. Callers form
 * large vocabularies in chunks of rows. PARE_ENOMEM. rows NULL: rows 0 .. count-1. */
PARE_CHECKED pare_status pare_logits(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                                     const float *x, const size_t *rows, size_t count,
                                     float *logits);

#endif
