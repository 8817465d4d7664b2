/* compress/plan/plan.h - everything that can be known, and can fail, before a weight is read.
 *
 * The planner parses the recipe, checks the checkpoint, resolves patterns to linears, checks facts,
 * shapes, memory, disk, calibration sizes, and lays out the packed files to the byte. */
#ifndef PARE_COMPRESS_PLAN_PLAN_H
#define PARE_COMPRESS_PLAN_PLAN_H

#include "compress/export/export.h"
#include "compress/output/output_swap.h"
#include "compress/passes/pass.h"
#include "compress/plan/plan_job.h"
#include "compress/plan/plan_kept.h"
#include "compress/plan/plan_tables.h"
#include "compress/plan/settled.h"
#include "formats/checkpoint.h"
#include "quant/rotate.h"
#include "recipes/recipe.h"

/* One site that a step transforms. */
typedef struct pare_plan_transform {
    size_t block, step; /* step: index into recipe.step */
    pare_site site;
    unsigned roles; /* a bit for each linear that it works on: all, where their input changes */
} pare_plan_transform;

typedef enum pare_changed_kind {
    PARE_CHANGED_NORM,      /* index: 0 attention, 1 MLP; F32 */
    PARE_CHANGED_NORM_BIAS, /* the same */
    PARE_CHANGED_WEIGHT,    /* index: role; a linear that nobody quantizes, in its own type */
    PARE_CHANGED_BIAS       /* of such a linear; F32 */
} pare_changed_kind;

/* A tensor that folds change or add, and that its block stores. */
typedef struct pare_plan_changed {
    pare_changed_kind kind;
    size_t block, index;
    pare_tensor tensor; /* name, dtype, shape */
} pare_plan_changed;

/* What becomes of the finished artifact. */
typedef struct pare_plan_export {
    const pare_export_target *target;
    char *path; /* as the program opens it */
    pare_export_result result;
} pare_plan_export;

/* A multiple-choice file of the recipe, a task or a needle. */
typedef struct pare_plan_choice {
    size_t items;
    uint64_t bytes; /* of all of them, as they run; tokens of a needle */
    size_t longest; /* most bytes of an item: its context, and each choice as long as the longest */
} pare_plan_choice;

/* Sizes of the data that the recipe names. */
typedef struct pare_plan_data {
    uint64_t tokenizer_bytes;  /* of the model's tokenizer while its files are read */
    uint64_t text_bytes;       /* calibration texts that are read at once */
    uint64_t token_bytes;      /* calibration tokens of a file */
    uint64_t *evaluated_bytes; /* [recipe.evaluations] files of the evaluations */
    pare_plan_choice *choice;  /* [recipe.evaluations] what lies in those of multiple choice */
} pare_plan_data;

typedef struct pare_plan {
    const pare_job *job;
    pare_output_place place; /* of the output */
    const char *refused; /* why a job does not go on with work that lies there, once looked at */
    char *model_path, *tokenizer_path; /* the latter NULL: the model's own */
    char *original_path;               /* of what results are compared with; NULL: the model */
    char *recipe_text;
    size_t recipe_len;
    pare_recipe recipe;
    pare_checkpoint checkpoint;
    pare_model model, original; /* views; small vectors copied; with original_path */
    pare_checkpoint original_checkpoint;
    size_t parts;             /* of a block (runtime/arch.h) */
    pare_plan_linear *linear; /* by block, then part, then role */
    size_t *first;            /* [blocks * parts + 1] into linear, by part; NULL when structured */
    size_t linears, pruned;   /* of them pruned */
    pare_plan_tables tables;  /* matrices outside the blocks */
    pare_plan_transform *transform; /* by step, then block, then site */
    size_t transforms;
    pare_plan_changed *changed;
    size_t changes;
    pare_biases biases;            /* that some block has or gets */
    pare_settled settled;          /* as far as the planner knows */
    bool ratios;                   /* what some linears lose or keep is known while running */
    uint64_t input_bytes;          /* weight files of the checkpoint */
    bool reference;                /* each block is kept as the float model has it, too */
    size_t held_out;               /* most calibration windows to evaluate on */
    const pare_rotation *rotation; /* of the whole model, or NULL */
    const pare_step *training;     /* the step of the recipe that trains, or NULL */
    pare_train_opts train;         /* what it asks for */
    bool structured;               /* parts go: what is written is a smaller plain checkpoint */
    pare_config out;               /* of what is written */
    size_t *mlp_step;              /* [blocks] the step that cuts the MLP, SIZE_MAX: none */
    bool attention_bias, mlp_bias; /* structured: linears of the blocks have biases, */
    bool watched;                  /* some step looks at the inputs inside blocks */
    bool untokenized;              /* the model has no tokenizer, so the artifact has none */
    bool unties; /* a rotation, or a smaller model in its place, gives a tied head its own tensor */
    pare_plan_kept kept;                /* statistics in a file */
    bool calibrated, drift, sequential; /* statistics; of both models; sites one by one */
    bool floats_beside; /* the float model runs beside the compressed one; drift implies it */
    bool token_weights, bf16, halves; /* tokens by the loss; products; waves in halves */
    size_t window;                    /* of the calibration */
    size_t batch;                     /* windows per forward batch, at most */
    unsigned kinds[PARE_SITES];       /* PARE_STATS_* that some step needs, of part 0 */
    unsigned later[PARE_SITES];       /* those of them that steps behind the training need */
    unsigned expert_kinds[PARE_SITES], later_experts[PARE_SITES]; /* both of experts */
    size_t experts; /* linears of experts in the plan */
    size_t *left;   /* [recipe.steps] inputs of MLPs that a transform leaves alone: with routers */
    pare_plan_data data;
    const char *device;          /* the name of the GPU that evaluations are to run on, or NULL */
    const char *device_fallback; /* why some that say auto are to run on the CPU, or NULL */
    uint64_t device_bytes;       /* that evaluations take of the GPU at most; 0: not known */
    size_t device_free;          /* bytes of it */
    pare_plan_export *export;
    size_t exports;
    uint64_t export_ram_bytes;
} pare_plan;

/* Exports that are still to be made. */
static inline size_t pare_plan_missing(const pare_plan *plan, const pare_settled *settled)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->exports; i++)
        count += !settled->export[i].taken;
    return count;
}

/* Places for linears in all blocks of the model, taken or not: by block, then part, then role. */
static inline size_t pare_plan_slots(const pare_plan *plan)
{
    return plan->model.config.blocks * plan->parts * PARE_ROLES;
}

/* The place of a linear. */
static inline size_t pare_plan_slot(const pare_plan *plan, size_t block, size_t part, size_t role)
{
    return (block * plan->parts + part) * PARE_ROLES + role;
}

/* The linear of the model at a place; name NULL: there is none such. */
static inline const pare_linear *pare_plan_at(const pare_plan *plan, size_t slot)
{
    const size_t part = slot / PARE_ROLES;
    return pare_block_linear(&plan->model.block[part / plan->parts], part % plan->parts,
                             (pare_role)(slot % PARE_ROLES));
}

/* Linears of a part of a block: plan->linear[*begin .. *end - 1]; none of a structured plan. */
static inline void pare_plan_range(const pare_plan *plan, size_t block, size_t part, size_t *begin,
                                   size_t *end)
{
    *begin = plan->first ? plan->first[block * plan->parts + part] : 0;
    *end = plan->first ? plan->first[block * plan->parts + part + 1] : 0;
}

/* Linears of the plan in a block, from first[block * parts]; a structured plan has none. */
static inline size_t pare_plan_linears(const pare_plan *plan, size_t block)
{
    return plan->first ? plan->first[(block + 1) * plan->parts] - plan->first[block * plan->parts]
                       : 0;
}

/* The site whose input a linear reads. */
static inline pare_site pare_plan_site(const pare_plan *plan, const pare_plan_linear *l)
{
    return pare_arch_linear(plan->model.config.arch, l->part, l->role)->site;
}

/* Whether a step behind `step` works on linears that read a site of part 0 of a block. */
static inline bool pare_plan_step_follows(const pare_plan *plan, size_t block, pare_site site,
                                          size_t step)
{
    size_t i, end;
    for (pare_plan_range(plan, block, 0, &i, &end); i < end; i++)
        if (plan->linear[i].step > step && pare_plan_site(plan, &plan->linear[i]) == site)
            return true;
    return false;
}

/* Whether the step that quantizes a linear works on no other that reads the same inputs, and no
 * other settings are tried on it meanwhile. */
static inline bool pare_plan_is_alone(const pare_plan *plan, const pare_plan_linear *l)
{
    size_t i, end, count = 0;
    for (pare_plan_range(plan, l->block, l->part, &i, &end); i < end; i++)
        count += plan->linear[i].step == l->step &&
                 pare_plan_site(plan, &plan->linear[i]) == pare_plan_site(plan, l);
    return count == 1 && !plan->job->variants;
}

/* Parts of the calibration that a step's choice is repeated on. */
static inline size_t pare_plan_draws(const pare_plan *plan, size_t step)
{
    const pare_step *const s = &plan->recipe.step[step];
    const pare_pass *const pass = pare_passes[s->pass];
    return pass->pruner && pass->pruner->draws ? pass->pruner->draws(s->value) : 0;
}

/* How a step shares out what goes. */
static inline pare_pass_ratios pare_plan_ratios(const pare_plan *plan, size_t step)
{
    const pare_step *const s = &plan->recipe.step[step];
    const pare_pass *const pass = pare_passes[s->pass];
    return pass->pruner && pass->pruner->ratios ? pass->pruner->ratios(s->value)
                                                : (pare_pass_ratios){0};
}

/* The quantizer of a linear when it says how many columns are kept apart; else NULL. */
static inline const pare_pass *pare_plan_chooses_columns(const pare_plan *plan,
                                                         const pare_plan_linear *l)
{
    const pare_pass *const pass = pare_passes[plan->recipe.step[l->step].pass];
    return l->quantized && pass->columns ? pass : NULL;
}

/* A shorter last group that a step leaves, and exports that cannot hold it; NULL: none. */
const char *pare_plan_tail_text(const pare_plan *plan, size_t step, char *text, size_t size);
/* What a job without calibration stores of its largest linear. */
uint64_t pare_plan_stored_bytes(const pare_plan *plan);
/* Of the file that drift of inputs lies in when the job is sparing; 0: none. */
uint64_t pare_plan_drift_file(const pare_plan *plan);

/* Fills *plan, reads no weights; memory from the arena. Close it in any case. Only with `plan_only`
 * what lies where outputs go, the disk and the data are looked at here. PARE_EUSAGE (with place or
 * option), PARE_EEXISTS (the output is the input or a file), PARE_EFORMAT, PARE_ENOTFOUND,
 * PARE_ENOTSUP, PARE_ENOMEM (also: limit), PARE_ENOSPC, PARE_EIO. */
PARE_CHECKED pare_status pare_plan_make(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                        pare_plan *plan);

/* What lies where outputs go, under the lock of the output and once its place is mended
 * (compress/output/output_swap.h), into settled: replaces, finished, export; and the disk that is
 * free for the rest. `unfinished` work goes on. PARE_EEXISTS for what must not be replaced, before
 * anything is touched; PARE_ENOSPC, PARE_EIO, PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_plan_places(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                          bool unfinished, pare_settled *settled);

typedef struct pare_plan_found { /* that the float model showed of linears, with `ratios` */
    double *ratio;               /* of what a rule prunes */
    size_t *columns;             /* kept apart, where pare_plan_chooses_columns */
} pare_plan_found;

/* Linears and layout by it, into settled; packed_bytes and bits_per_weight are exact then.
 * PARE_EFORMAT, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_plan_settle(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                          const pare_plan_found *found, pare_settled *settled);
void pare_plan_close(pare_plan *plan);

#endif
