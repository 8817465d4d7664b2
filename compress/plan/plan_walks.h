/* compress/plan/plan_walks.h - a job with a step that trains walks over the blocks twice: the steps
 * in front of it and those behind. */
#ifndef PARE_COMPRESS_PLAN_PLAN_WALKS_H
#define PARE_COMPRESS_PLAN_PLAN_WALKS_H

#include "compress/plan/plan.h"

/* True for a step that prunes this linear and leaves quantizing to others or nobody. */
static inline bool pare_plan_prunes(const pare_plan_linear *l, size_t step)
{
    return l->pruned && l->prune_step == step && !(l->quantized && l->step == step);
}

/* The configuration of what results are compared with. */
static inline const pare_config *pare_plan_original(const pare_plan *plan)
{
    return plan->original_path ? &plan->original.config : &plan->model.config;
}

/* Steps in front of the training; all of them where there is none. */
static inline size_t pare_plan_front(const pare_plan *plan)
{
    return plan->training ? (size_t)(plan->training - plan->recipe.step) : plan->recipe.steps;
}

/* Whether the training trains codes of a linear, which a step in front of it chose. */
static inline bool pare_plan_aware(const pare_plan *plan, const pare_plan_linear *l)
{
    return plan->training && l->quantized && l->step < pare_plan_front(plan);
}

/* Whether a linear is trained: all that are quantized later where no step comes in front. */
static inline bool pare_plan_trains(const pare_plan *plan, const pare_plan_linear *l)
{
    return plan->training && (l->pruned || pare_plan_aware(plan, l) || pare_plan_front(plan) == 0);
}

/* Matrix i of pare_model_leaf where the training trains it, of a model of that shape; else {0}. */
pare_leaf pare_plan_outside(const pare_plan *plan, const pare_model *m, size_t i);

/* The grid of such codes. */
static inline pare_grid pare_plan_grid(const pare_plan *plan, const pare_plan_linear *l)
{
    const pare_step *const step = &plan->recipe.step[l->step];
    const pare_pass *const pass = pare_passes[step->pass];
    return (pare_grid){.bits = l->packed.bits,
                       .group = l->packed.group,
                       .symmetric = l->packed.symmetric,
                       .encoding = l->packed.encoding,
                       .f16_scales = true,
                       .tensor = pass->grid && pass->grid(step->value).tensor};
}

/* Whether a transform in front of the training learned how to round a linear. */
static inline bool pare_plan_learned(const pare_plan *plan, const pare_plan_linear *l)
{
    for (size_t i = 0; i < plan->transforms; i++)
        if (plan->transform[i].block == l->block && !l->part &&
            plan->transform[i].roles & 1u << l->role &&
            !pare_passes[plan->recipe.step[plan->transform[i].step].pass]->transform->restores)
            return true;
    return false;
}

/* Whether such codes make up for each other's errors: those of steps by H, and learned ones. */
static inline bool pare_plan_compensated(const pare_plan *plan, const pare_plan_linear *l)
{
    return (pare_passes[plan->recipe.step[l->step].pass]->needs & PARE_FACT_HESSIAN) != 0 ||
           pare_plan_learned(plan, l);
}

/* Of a linear whose codes are in place while it is trained, a scale and a zero point of each group,
 * or what EXL3 has instead: a scale of each row and each column. */
static inline size_t pare_plan_steps(const pare_plan *plan, const pare_plan_linear *l)
{
    const size_t n = l->packed.n, k = l->packed.k;
    const pare_grid grid = pare_plan_grid(plan, l);
    if (!pare_plan_aware(plan, l))
        return 0;
    return pare_aware_fixed(grid.encoding) ? n + k : 2 * n * pare_grid_groups(&grid, k);
}

/* Floats that are kept of it, beside its weights: these, and of codes that stay the codes. */
static inline size_t pare_plan_beside(const pare_plan *plan, const pare_plan_linear *l)
{
    const size_t steps = pare_plan_steps(plan, l), count = l->packed.n * l->packed.k;
    return steps && pare_aware_fixed(l->packed.encoding)
               ? steps + (count + sizeof(float) - 1) / sizeof(float)
               : steps;
}

/* Whether a step chooses widths by their times: until it has, all channels are in the plan. */
bool pare_plan_searches(const pare_plan *plan);

/* Whether this is the base of a search for settings (compress/budget): the bytes, the bits and the
 * memory of a plan are those of one job in 4 bits, without the search. */
bool pare_plan_is_base(const pare_plan *plan);

/* When the bytes of the packed files are known, as in "known once ...": until then the plan has the
 * most that they can be, or those of the base of a search. NULL: they are known. */
const char *pare_plan_known_once(const pare_plan *plan);

/* Refuses what lies in the place of an export that a plan, which is only looked at, is to make, or
 * of the work on it: PARE_EEXISTS with its place, as compress does. */
PARE_CHECKED pare_status pare_plan_export_taken(pare_ctx *cx, pare_arena *a, const pare_plan *plan);

/* How many there are. */
size_t pare_plan_aware_linears(const pare_plan *plan);

/* Whether activations go along with a walk: some step of kinds [PARE_SITES] looks at statistics. */
static inline bool pare_plan_looks(const unsigned *kinds)
{
    unsigned all = 0;
    for (size_t s = 0; s < PARE_SITES; s++)
        all |= kinds[s];
    return all != 0;
}

/* Whether activations go through the last block, too: a table is quantized by what the head reads.
 */
static inline bool pare_plan_looks_at_head(const pare_plan *plan)
{
    bool looks = false;
    for (size_t i = 0; i < plan->tables.count; i++)
        looks |= plan->tables.of[i].inputs;
    return looks;
}

/* Likewise with the walk in front of the training; of ratios the rule looks, and transforms that
 * can stand there learn on activations. */
static inline bool pare_plan_looks_first(const pare_plan *plan)
{
    return pare_plan_front(plan) > 0 &&
           (pare_plan_looks(plan->kinds) || pare_plan_looks(plan->expert_kinds) || plan->ratios ||
            plan->transforms);
}

/* And with the walk behind it. */
static inline bool pare_plan_looks_later(const pare_plan *plan)
{
    return pare_plan_looks(plan->later) || pare_plan_looks(plan->later_experts);
}

/* Whether the reference is what the float model beside runs; behind a training that is the trained
 * block, and the reference the one before it. */
static inline bool pare_plan_reference_is_whole(const pare_plan *plan)
{
    return plan->reference && !plan->training;
}

/* Whether activations of the calibration pass through blocks, compressed or not. */
static inline bool pare_plan_gathers(const pare_plan *plan)
{
    return plan->calibrated && (!plan->kept.used || plan->kept.made);
}

/* What an attempt leaves in memory when a fallback comes after it. */
uint64_t pare_plan_left_bytes(const pare_plan *plan);

/* What the job leaves beside the allocator, what a job before it left included. */
pare_job_left pare_plan_leaves(const pare_plan *plan);

/* What to tell of a file of statistics that the recipe names and the job does not need, or NULL. */
const char *pare_plan_kept_idle(const pare_plan *plan);

/* Whether the calibration looks at the inputs of experts. */
static inline bool pare_plan_sees_experts(const pare_plan *plan)
{
    bool sees = false;
    for (size_t s = 0; s < PARE_SITES; s++)
        sees |= plan->expert_kinds[s] != 0;
    return plan->experts && sees;
}

/* What to tell of "experts" of a calibration that looks at none, or NULL. */
const char *pare_plan_experts_idle(const pare_plan *plan);

/* What becomes of weights that are not finite, as files of statistics write it. */
const char *pare_plan_nan(const pare_plan *plan);

/* Settings that statistics of the job depend on, beside its model and its tokens; others stay. */
void pare_plan_kept_asks(const pare_plan *plan, const pare_settled *settled, char seed[24],
                         pare_stats_about *out);

/* Reads what the file that is there is of (pare_stats_file_about); of one that the job would make,
 * a failure says what to do. */
PARE_CHECKED pare_status pare_plan_kept_read(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                             pare_stats_about *found);

/* Records how a file that is there differs (pare_stats_about_differ). PARE_EEXISTS. */
pare_status pare_plan_kept_fail(pare_ctx *cx, const pare_plan *plan, const char *what,
                                char values[2][128]);

/* The job in which statistics are kept: all kinds of them, in one walk over the model in floats. */
void pare_plan_stage(const pare_plan *plan, pare_plan *stage);

/* Bytes of the file, at most. */
uint64_t pare_plan_stage_bytes(const pare_plan *plan, const pare_settled *settled);

/* Of the products of the calibration, as recipes write it. */
static inline const char *pare_plan_precision(const pare_plan *plan)
{
    return pare_precision_name(plan->bf16 ? PARE_PRECISION_BF16 : PARE_PRECISION_F32);
}

#endif
