/* compress/plan/plan_internal.h - the parts of the planner. */
#ifndef PARE_COMPRESS_PLAN_PLAN_INTERNAL_H
#define PARE_COMPRESS_PLAN_PLAN_INTERNAL_H

#include "compress/plan/plan.h"
#include "compress/plan/plan_limits.h"
#include "compress/plan/plan_rotate.h"
#include "recipes/pattern.h"

/* A step of the recipe, and its pass. */
static inline const pare_step *pare__plan_step(const pare_plan *plan, size_t step)
{
    return &plan->recipe.step[step];
}

static inline const pare_pass *pare__plan_pass(const pare_plan *plan, size_t step)
{
    return pare_passes[pare__plan_step(plan, step)->pass];
}

/* Where statistics are kept, and what a file of them says: it fills the calibration of the recipe.
 * PARE_EUSAGE (with place), PARE_EFORMAT, and what reading HDF5 returns. */
PARE_CHECKED pare_status pare__plan_kept_open(pare_ctx *cx, pare_arena *a, pare_plan *plan);

/* Once outputs and exports are known: a file that the job makes lies in none of them, nor in the
 * model. PARE_EUSAGE with place. */
PARE_CHECKED pare_status pare__plan_kept_place(pare_ctx *cx, pare_arena *a, const pare_plan *plan);

/* Whether one that is there was kept with the settings of this job. PARE_EEXISTS, PARE_EFORMAT,
 * and what reading HDF5 returns. */
PARE_CHECKED pare_status pare__plan_kept_look(pare_ctx *cx, pare_arena *a, const pare_plan *plan);

/* Once the steps are resolved: plan->kept.used; PARE_EUSAGE (with place) for steps that need more
 * than statistics; what pare_imatrix_find returns for linears that are calibrated. */
PARE_CHECKED pare_status pare__plan_kept_check(pare_ctx *cx, pare_arena *a, pare_plan *plan);

/* Whether tokens count by the loss in a file of statistics, whatever the steps. */
bool pare__plan_kept_weighs(const pare_plan *plan);

/* Which step prunes and quantizes which linear; facts and storage checked. Fills linear, linears,
 * sites, calibrated, sequential. */
PARE_CHECKED pare_status pare__plan_resolve(pare_ctx *cx, pare_arena *a, pare_plan *plan);

/* PARE_EUSAGE (with place) for windows, once their number is known, that are too few to hold some
 * out. */
PARE_CHECKED pare_status pare__plan_check_held(pare_ctx *cx, const pare_plan *plan, size_t samples);

/* A step that prunes: pruner[slot] = step for what it selects. PARE_EUSAGE
 * (with place) for a linear that is pruned or quantized already, and for a sparsity that cannot be.
 */
PARE_CHECKED pare_status pare__plan_prune(pare_ctx *cx, const pare_plan *plan, size_t step,
                                          const bool *selected, const int64_t *owner,
                                          int64_t *pruner);

/* Sparsity of a pruned linear, and how its zeros are stored; packed is that of the quantizer or
 * empty. PARE_EUSAGE for a quantizer that has no 0. */
PARE_CHECKED pare_status pare__plan_sparse(pare_ctx *cx, const pare_plan *plan,
                                           pare_plan_linear *l);

/* How a pruned linear that nobody quantizes leaves its zeros out, by its sparsity: half of the
 * weights take as many bytes in places of 2:4 as behind a mask, fewer only behind a mask, and
 * nearly all of them as they are. Nothing changes for other linears. */
void pare__plan_store(pare_plan_linear *l);

/* That something measures what is required (PARE_EUSAGE with place); and that the recipe is one
 * with the settings of each fallback. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__plan_require(pare_ctx *cx, const pare_plan *plan);
PARE_CHECKED pare_status pare__plan_fallbacks(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                              const pare_pass_words *words);

/* Opens the device that evaluations ask for and fills device* of the plan. PARE_ENOMEM,
 * PARE_ENOTSUP and PARE_EDEVICE (with place) for what it cannot run, saying what else the recipe
 * may say. What `auto` comes to is looked up only if the job says `plan_only`. */
PARE_CHECKED pare_status pare__plan_device(pare_ctx *cx, pare_arena *a, pare_plan *plan);

/* Opens `original` of the recipe, once windows are known; PARE_EUSAGE (with place) for another
 * vocabulary, and for windows above its context. Behind the data files: PARE_EUSAGE where texts of
 * the recipe have other tokens there than in the model. */
PARE_CHECKED pare_status pare__plan_original(pare_ctx *cx, pare_arena *a, pare_plan *plan);
PARE_CHECKED pare_status pare__plan_original_tokens(pare_ctx *cx, pare_arena *a,
                                                    const pare_plan *plan);

/* What is evaluated when the recipe says held_out, or nothing and something is pruned:
 * plan->held_out.
 * PARE_EUSAGE (with place) when nothing can be held out. */
PARE_CHECKED pare_status pare__plan_hold_out(pare_ctx *cx, pare_arena *a, pare_plan *plan);

/* Says that nothing can be held out, and why. Returns PARE_EUSAGE. */
pare_status pare__plan_refuse_held_out(pare_ctx *cx, const pare_plan *plan, const char *why);
/* The same of data of which calibration takes all windows. */
pare_status pare__plan_refuse_no_rest(pare_ctx *cx, const pare_plan *plan, size_t windows);

/* A step that transforms: the sites it works on, from what it selects and what is quantized already
 * or pruned already (owner[slot]: a step, or below 0; pruner likewise). Adds
 * to plan->transform, which has room. PARE_EUSAGE (with place) for what the facts refuse. */
PARE_CHECKED pare_status pare__plan_transform(pare_ctx *cx, pare_plan *plan, size_t step,
                                              const bool *selected, const int64_t *owner,
                                              const int64_t *pruner);

/* Once every step has its linears: what transforms need behind them, and the tensors that change.
 * Fills changed, changes, room; sets packed.bias. */
PARE_CHECKED pare_status pare__plan_changes(pare_ctx *cx, pare_arena *a, pare_plan *plan,
                                            const int64_t *owner);

/* Targets and paths of what the recipe exports, and whether they can hold the model. Needs the
 * layout. PARE_EUSAGE, PARE_EEXISTS with place. */
PARE_CHECKED pare_status pare__plan_exports(pare_ctx *cx, pare_arena *a, pare_plan *plan);

/* What lies where they go, into settled->export. PARE_EEXISTS with place. */
PARE_CHECKED pare_status pare__plan_export_places(pare_ctx *cx, pare_arena *a,
                                                  const pare_plan *plan, pare_settled *settled);

/* selected [pare_plan_slots], zeroed: what targets and skip of a step leave. PARE_EUSAGE (with
 * place) for patterns that match nothing, or leave nothing. */
PARE_CHECKED pare_status pare__plan_select(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                           size_t step, bool *selected);

/* What cannot be done to experts, once the linears are resolved. PARE_EUSAGE with place. */
PARE_CHECKED pare_status pare__plan_experts(pare_ctx *cx, const pare_plan *plan);

/* Refuses a pattern of `targets` that means a router or the gate of a shared expert; PARE_OK when
 * it means neither. */
PARE_CHECKED pare_status pare__plan_refuse_router(pare_ctx *cx, const pare_plan *plan,
                                                  const pare_pattern *pattern,
                                                  const pare_text *text);

/* The embeddings and the head, once the rest is resolved; PARE_EUSAGE (with place). And whether a
 * tensor is one of them. */
PARE_CHECKED pare_status pare__plan_tables(pare_ctx *cx, pare_plan *plan);
bool pare__plan_replaces_table(const pare_plan *plan, const char *tensor);

/* Memory while they are quantized: in floats twice, and what is stored. And of a linear what is
 * stored, while it is made. */
uint64_t pare__plan_table_bytes(const pare_ctx *cx, const pare_plan *plan);
uint64_t pare__plan_linear_stored(const pare_plan *plan, const pare_plan_linear *l);

/* Facts that a step needs before it runs (pass.h). */
unsigned pare__plan_facts(const pare_step *step);

/* True for a tensor of the checkpoint that is not stored as it is. */
bool pare__plan_replaces(const pare_plan *plan, const char *tensor);

/* Float weights of a part of a block, all linears. */
uint64_t pare__plan_part_weights(const pare_config *c, size_t part);

/* What transform `i` needs for its whole block; counted once, at the first of its sites. */
pare_pass_cost pare__plan_block_cost(const pare_ctx *cx, const pare_plan *plan,
                                     const pare_settled *settled, size_t i);

/* Anonymous memory that the allocator does not see. */
uint64_t pare__plan_outside_bytes(const pare_ctx *cx, const pare_plan *plan);

/* Once pare__plan_cost has refused a plan for its memory: adds to the recorded failure the first
 * setting with which a plan of the job fits, and what it needs then; several together where no
 * single one is enough; or that none is. Returns PARE_ENOMEM. */
pare_status pare__plan_relief(pare_ctx *cx, const pare_plan *plan);

/* Fills memory.spilled_bytes and resident_bytes, at most that: what the plan holds now, and what
 * the job takes on top. Needs activation_bytes and chunk. Returns what takes most, for a message.
 */
const char *pare__plan_memory(const pare_ctx *cx, const pare_plan *plan, pare_settled *settled);

/* Whether what takes most are linears that are worked on, and windows of the calibration. */
bool pare__plan_linears_take_most(const pare_ctx *cx, const pare_plan *plan);

/* Of it: an evaluation at most; the artifact once it is open, and a view of one linear of it;
 * tables of positions that a forward pass keeps; a text that becomes tokens (one for a byte at
 * most, once more when several texts are joined), with the tokenizer and a copy of the text as its
 * rules rewrite it. */
uint64_t pare__plan_evaluate_bytes(const pare_ctx *cx, const pare_plan *plan,
                                   const pare_settled *settled);
uint64_t pare__plan_opened_bytes(const pare_plan *plan, const pare_settled *settled);
uint64_t pare__plan_view_bytes(const pare_packed_linear *l);
uint64_t pare__plan_rope_bytes(const pare_config *c, size_t window);
uint64_t pare__plan_encode_bytes(const pare_plan *plan, uint64_t text, size_t texts);

/* Whether the job can be sparing (settled.h). */
bool pare__plan_can_spare(const pare_ctx *cx, const pare_plan *plan);

/* Memory and flops; the check against the limit. Needs the layout. Once more when the number of
 * samples becomes known (samples: all). PARE_ENOMEM. */
PARE_CHECKED pare_status pare__plan_cost(pare_ctx *cx, const pare_plan *plan,
                                         pare_settled *settled);

/* Disk, and the check that it is free, once the places are known: of a finished output that stays
 * only missing exports are made. Behind pare__plan_cost. PARE_ENOSPC, PARE_ENOMEM, PARE_EIO. */
PARE_CHECKED pare_status pare__plan_disk(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                         pare_settled *settled);

/* Bytes of the largest export. */
uint64_t pare__plan_largest_export(const pare_plan *plan);

/* What bounds the memory of the job, of which `held` bytes are in use outside the allocator. */
pare_memory_limit pare__plan_limit(const pare_plan *plan, uint64_t packed_bytes, uint64_t held);

/* Says what a step cannot do with models of this family, and why. Returns PARE_EUSAGE. */
pare_status pare__plan_refuse_family(pare_ctx *cx, const pare_plan *plan, const pare_step *step,
                                     const char *what, const char *why);

/* The rotation that the recipe asks for, into plan->rotation and plan->unties. Refused with its
 * place: behind another pass, with targets, for a width without a rotation. */
PARE_CHECKED pare_status pare__plan_rotate(pare_ctx *cx, pare_arena *a, pare_plan *plan);

/* The same once the steps are resolved: something must be quantized, and what the runtime rotates
 * must be, since only a packed linear can say so; no transform folds through such an input. */
PARE_CHECKED pare_status pare__plan_rotate_check(pare_ctx *cx, const pare_plan *plan);

/* The step that trains, into plan->training. PARE_EUSAGE (with place) when it takes targets, has no
 * calibration, or something else than quantizers stands behind it; once windows are known, into
 * plan->train, for what else it cannot do. */
PARE_CHECKED pare_status pare__plan_training(pare_ctx *cx, pare_plan *plan);
PARE_CHECKED pare_status pare__plan_train(pare_ctx *cx, pare_plan *plan);

/* Disk and memory of the training; 0 without. */
uint64_t pare__plan_train_disk(const pare_plan *plan);
uint64_t pare__plan_train_bytes(const pare_ctx *cx, const pare_plan *plan,
                                const pare_settled *settled);

/* Structured passes: sets out, and when there are some structured, changed, room, calibrated.
 * Nothing else may stand in the recipe then. PARE_EUSAGE with place. */
PARE_CHECKED pare_status pare__plan_structure(pare_ctx *cx, pare_arena *a, pare_plan *plan);

/* Memory that structured steps and the storage of cut tensors need beside the block. */
/* Memory while widths are timed (compress/budget/widths.c), where a step chooses them. */
uint64_t pare__plan_widths_bytes(const pare_ctx *cx, const pare_plan *plan);
/* Work of taking channels out by H (prune/ziplm.h), both times where widths are chosen. */
double pare__plan_ziplm_flops(const pare_plan *plan);
/* Operations that the statistics of all blocks take for a token. */
double pare__plan_stats_flops(const pare_plan *plan);
uint64_t pare__plan_structure_bytes(const pare_ctx *cx, const pare_plan *plan);

/* The shape of a tensor outside the blocks when the residual stream gets narrower. */
void pare__plan_cut_global(const pare_plan *plan, pare_tensor *t);

/* True for a tensor of a block: a structured plan stores those anew. */
bool pare__plan_in_block(const pare_plan *plan, const char *tensor);

/* Lengths of needles and continuations where the recipe has none; PARE_EUSAGE (with place) for
 * prompts that do not fit both models. Behind the windows and the original. And what a needle
 * comes to: tokens instead of bytes, of its file only what is read. */
PARE_CHECKED pare_status pare__plan_answers(pare_ctx *cx, pare_plan *plan);
void pare__plan_needle(const pare_evaluation *e, uint64_t *file_bytes, pare_plan_choice *out);

/* Reads the data of a plan as the job will; texts that have more than enough are not tokenized.
 * What pare_data_calibration, pare_data_check (compress/plan/job_data.h) and pare_text_check
 * return. */
PARE_CHECKED pare_status pare__plan_data(pare_ctx *cx, pare_plan *plan);

#endif
