/* Memory of a job: of the things that are done one after the other, what the largest takes beside
 * what is there all the time. Everything is counted from shapes and sizes of files. What the system
 * maps from files is not in it: such pages can be dropped and read again. */
#include "calib/shares.h"
#include "calib/stats.h"
#include "calib/support.h"
#include "calib/token_weights.h"
#include "calib/wave.h"
#include "compress/artifact/manifest.h"
#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_room.h"
#include "compress/plan/plan_walks.h"
#include "kernels/layout.h"
#include "quant/correct.h"
#include "quant/kv_cache.h"
#include "runtime/file.h"
#include "runtime/threads.h"
#include "runtime/world.h"

/* Names, paths, tables and arenas of the job that do not grow with it. */
static const uint64_t job_bytes = (uint64_t)384 << 10;

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t pare__plan_part_weights(const pare_config *c, size_t part)
{
    uint64_t weights = 0;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, part, (pare_role)role, &n, &k);
        weights += (uint64_t)n * k;
    }
    return weights;
}

/* Rows or columns of the widest matrix of a pass that learns on blocks; 0: there is none. */
static size_t learned_widest(const pare_plan *plan)
{
    bool learns = false;
    size_t most = 0;
    for (size_t i = 0; i < plan->transforms; i++)
        learns |= pare__plan_pass(plan, plan->transform[i].step)->transform->block != NULL;
    for (size_t role = 0; learns && role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(&plan->model.config, 0, (pare_role)role, &n, &k);
        most = larger(most, larger(n, k));
    }
    return most;
}

pare_job_left pare_plan_leaves(const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    size_t widest = larger(larger(pare__plan_structure_widest(plan), learned_widest(plan)),
                           plan->job->left.widest);
    for (unsigned s = 0; s < PARE_SITES; s++)
        widest = larger(
            widest,
            larger(plan->kinds[s] || plan->rotation ? pare_site_width(c, 0, (pare_site)s) : 0,
                   plan->expert_kinds[s] ? pare_site_width(c, 1, (pare_site)s) : 0));
    return (pare_job_left){pare__plan_structure_outside(plan) + plan->job->left.bytes, widest};
}

/* Beside the allocator; products: statistics, learning on blocks, and the check of a rotation. */
uint64_t pare__plan_outside_bytes(const pare_ctx *cx, const pare_plan *plan)
{
    const pare_job_left left = pare_plan_leaves(plan);
    /* A parsed tokenizer is given back but for pages that hold some other small piece, too. */
    return pare_process_bytes(cx, left.widest) + plan->data.tokenizer_bytes / 5 + left.bytes;
}

/* Planes of a linear, at most: a rule may leave more of it than the mean. */
static uint64_t plane_bytes(const pare_plan *plan, const pare_plan_linear *l)
{
    const uint64_t bytes = pare_packed_linear_bytes(&l->packed).total;
    if (!l->pruned || l->packed.sparsity != PARE_SPARSITY_BITMASK)
        return bytes;
    const pare_pass_ratios r = pare_plan_ratios(plan, l->prune_step);
    const double count = (double)l->packed.n * (double)l->packed.k;
    return r.rule == PARE_RATIOS_UNIFORM
               ? bytes
               : bytes + (uint64_t)(r.spread * count + (double)l->packed.n) * sizeof(uint16_t) +
                     128;
}

static pare_pass_cost pass_cost(const pare_ctx *cx, const pare_plan *plan,
                                const pare_plan_linear *l, size_t which)
{
    const pare_step *const step = &plan->recipe.step[which];
    return pare_passes[step->pass]->cost(step->value, l->packed.n, l->packed.k, pare_threads(cx));
}

/* A linear in floats, to work on. */
static uint64_t matrix_bytes(const pare_plan_linear *l)
{
    return (uint64_t)l->packed.n * l->packed.k * sizeof(float);
}

/* A copy of the drift, where other steps need it, too. */
static uint64_t shared_bytes(const pare_plan *plan, const pare_plan_linear *l)
{
    const pare_site site = pare_plan_site(plan, l);
    const bool drifts = l->part == 0 && (plan->kinds[site] & PARE_STATS_DRIFT);
    return drifts && pare_plan_step_follows(plan, l->block, site, l->step)
               ? pare_drift_bytes(l->packed.k)
               : 0;
}

/* Codes as a quantizer gives them, a byte each, with scales in floats and zero points; of what
 * nobody quantizes, halves. */
static uint64_t code_bytes(const pare_plan_linear *l)
{
    const uint64_t count = (uint64_t)l->packed.n * l->packed.k;
    const uint64_t groups = (uint64_t)l->packed.n * pare_packed_linear_groups(&l->packed);
    if (pare_encoding_is_float(l->packed.encoding))
        return count * sizeof(uint16_t);
    return count + groups * (sizeof(float) + 2) + l->packed.n * sizeof(float) * 4;
}

/* What is stored of a linear, while it is made. */
uint64_t pare__plan_linear_stored(const pare_plan *plan, const pare_plan_linear *l)
{
    return code_bytes(l) + plane_bytes(plan, l) + pare__plan_view_bytes(&l->packed);
}

uint64_t pare_plan_stored_bytes(const pare_plan *plan)
{
    uint64_t most = 0;
    for (size_t i = 0; i < plan->linears; i++)
        most = larger(most, pare__plan_linear_stored(plan, &plan->linear[i]));
    return most;
}

/* Beside the state of a site, while a linear of a sparing job runs: it in floats, twice once it is
 * quantized, or what the step takes, rows of the drift included. */
static uint64_t spared_bytes(const pare_plan *plan, const pare_plan_linear *l,
                             const pare_pass_cost *own)
{
    const uint64_t matrices = matrix_bytes(l),
                   rows = plan->drift ? pare_correction_scratch(l->packed.k) : 0;
    return matrices + pare__plan_linear_stored(plan, l) +
           larger(matrices + PARE_ALIGN, own->linear_bytes + rows);
}

/* What one linear needs while its steps run, each for itself: the state of its site while it is
 * made, or the state, what the step takes, the linear and what is stored of it. */
static uint64_t linear_bytes(const pare_ctx *cx, const pare_plan *plan, const pare_plan_linear *l,
                             bool sparing)
{
    pare_pass_cost own = pass_cost(cx, plan, l, l->step);
    const uint64_t above = pare_plan_is_alone(plan, l) ? own.above_bytes : 0;
    own.site_bytes -= above;
    own.start_bytes -= above;
    if (sparing && l->part == 0)
        return larger(own.start_bytes, own.site_bytes + spared_bytes(plan, l, &own));
    const uint64_t matrices = matrix_bytes(l),
                   stored = matrices + pare__plan_linear_stored(plan, l);
    const uint64_t most =
        shared_bytes(plan, l) + larger(own.start_bytes, own.site_bytes + own.linear_bytes + stored);
    if (!l->pruned || l->prune_step == l->step)
        return most;
    const pare_pass_cost prune = pass_cost(cx, plan, l, l->prune_step);
    return larger(most,
                  larger(prune.start_bytes, prune.site_bytes + prune.linear_bytes + matrices));
}

/* How steps on a linear came out, in words. */
static const uint64_t outcome_bytes = 4096;

/* What one process sends of a list of linears, or gets of it: codes, and what a pruner left; at
 * most all linears of a part. */
static uint64_t list_bytes(const pare_ctx *cx, const pare_plan *plan)
{
    uint64_t most = 0, bytes = 0;
    for (size_t i = 0; pare_world_size(cx) > 1 && plan->calibrated && i < plan->linears; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        if (i == 0 || l->part != l[-1].part || l->block != l[-1].block)
            bytes = 0;
        bytes += code_bytes(l) + (l->pruned ? matrix_bytes(l) : 0) + outcome_bytes;
        most = larger(most, bytes);
    }
    return most;
}

static uint64_t step_bytes(const pare_ctx *cx, const pare_plan *plan, bool sparing)
{
    uint64_t most = 0;
    for (size_t i = 0; i < plan->linears; i++)
        most = larger(most, linear_bytes(cx, plan, &plan->linear[i], sparing));
    return most + list_bytes(cx, plan);
}

/* What repeating the choice of weights needs beside that: statistics of a part, a copy of the
 * weights, and a bit per weight and part. */
static uint64_t stability_bytes(const pare_plan *plan, uint64_t weights)
{
    uint64_t most = 0;
    for (size_t step = 0; step < plan->recipe.steps; step++) {
        const size_t draws = pare_plan_draws(plan, step);
        if (draws > 1)
            most = larger(most, draws * (weights / 8 + PARE_ROLES) + weights * sizeof(float) +
                                    pare_stats_bytes(&plan->model.config, 0, plan->kinds));
    }
    return most;
}

pare_pass_cost pare__plan_block_cost(const pare_ctx *cx, const pare_plan *plan,
                                     const pare_settled *settled, size_t i)
{
    const pare_plan_transform *const t = &plan->transform[i];
    const pare_step *const step = &plan->recipe.step[t->step];
    const pare_pass *const pass = pare_passes[step->pass];
    if (!pass->transform->block_cost || (i > 0 && t[-1].step == t->step && t[-1].block == t->block))
        return (pare_pass_cost){0};
    return pass->transform->block_cost(cx, step->value, &plan->model.config, settled->samples,
                                       plan->window);
}

/* Beyond that, the most that a transform needs on one site: what its pass takes, and a matrix to
 * measure by. */
static uint64_t transform_bytes(const pare_ctx *cx, const pare_plan *plan,
                                const pare_settled *settled)
{
    const pare_config *const c = &plan->model.config;
    uint64_t most = 0;
    for (size_t i = 0; i < plan->transforms; i++) {
        const pare_step *const step = &plan->recipe.step[plan->transform[i].step];
        most = larger(most, pare__plan_block_cost(cx, plan, settled, i).linear_bytes);
        for (size_t role = 0; role < PARE_ROLES; role++) {
            size_t n, k;
            pare_linear_shape(c, 0, (pare_role)role, &n, &k);
            if (!(plan->transform[i].roles & 1u << role))
                continue;
            const pare_pass_cost cost =
                pare_passes[step->pass]->cost(step->value, n, k, pare_threads(cx));
            const uint64_t own = cost.site_bytes + cost.linear_bytes;
            most = larger(most, larger(own, (uint64_t)n * k * 4) + 4 * k * sizeof(float));
        }
    }
    return most;
}

/* What views of the stored experts of a block take beside the file; other processes than 0 have
 * their planes in memory, and in front of a training they are floats. */
static uint64_t view_bytes(const pare_ctx *cx, const pare_plan *plan)
{
    const bool sent = pare_world_size(cx) > 1,
               walks = plan->training && pare_plan_looks_first(plan);
    uint64_t most = 0;
    for (size_t i = 0, bytes = 0; i < plan->linears; i++) {
        if (i == 0 || plan->linear[i].block != plan->linear[i - 1].block)
            bytes = 0;
        if (plan->linear[i].part)
            bytes += pare__plan_view_bytes(&plan->linear[i].packed) +
                     (sent ? plane_bytes(plan, &plan->linear[i]) + PARE_PLANES * PARE_ALIGN : 0) +
                     (walks ? matrix_bytes(&plan->linear[i]) + PARE_ALIGN : 0);
        most = larger(most, bytes);
    }
    return most;
}

/* One expert in floats beside that, and what is told of all. */
static uint64_t expert_bytes(const pare_ctx *cx, const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    const uint64_t weights = pare__plan_part_weights(c, 1);
    if (!c->experts)
        return 0;
    return c->experts * (PARE_ROLES * (sizeof(pare_linear) + sizeof(size_t)) +
                         PARE_SHARES * sizeof(uint64_t) + 32) +
           (plan->experts ? weights * sizeof(float) * (plan->reference ? 2 : 1) : 0) +
           (plan->experts && plan->pruned ? weights / 8 + PARE_ROLES : 0) + view_bytes(cx, plan);
}

/* Kinds of statistics of one site, or of all that are in memory at once. */
typedef struct site_kinds {
    unsigned of[PARE_SITES];
} site_kinds;

static site_kinds kinds_of(const pare_plan *plan, unsigned site)
{
    site_kinds kinds = {{0}};
    for (unsigned s = 0; s < PARE_SITES; s++)
        kinds.of[s] = !plan->sequential || s == site ? plan->kinds[s] : 0;
    return kinds;
}

/* Shares of the windows that a process has at most, where it sends what they come to. */
static size_t shares_of(const pare_ctx *cx)
{
    return pare_world_size(cx) > 1 ? pare_share_most(pare_world_size(cx)) : 0;
}

/* While they are gathered also a batch of inputs in the float model, and what shares are sent in
 * where processes have some each. */
static uint64_t common_stats_bytes(const pare_ctx *cx, const pare_plan *plan, bool sparing,
                                   bool gathered)
{
    const pare_config *const c = &plan->model.config;
    const size_t shares = shares_of(cx);
    uint64_t most = 0;
    for (unsigned site = 0; site < PARE_SITES; site++) {
        const site_kinds kinds = kinds_of(plan, site);
        const uint64_t room =
            gathered ? pare_stats_drift_room_bytes(c, kinds.of, plan->batch * plan->window) : 0;
        const uint64_t kept = pare_stats_bytes(c, 0, kinds.of) +
                              (sparing ? 0 : pare_stats_drift_bytes(c, kinds.of)); /* in a file */
        most = larger(most, room + kept + (gathered ? shares * kept : 0));
    }
    return most;
}

static uint64_t stats_bytes(const pare_ctx *cx, const pare_plan *plan, const pare_settled *settled,
                            bool gathered)
{
    const pare_config *const c = &plan->model.config;
    const uint64_t common = common_stats_bytes(cx, plan, settled->memory.sparing, gathered);
    const uint64_t sets = gathered ? 1 + shares_of(cx) : 1, dealt = 64; /* who gets it */
    return !plan->experts ? common
                          : larger(common, settled->memory.chunk *
                                               (sets * pare_stats_bytes(c, 1, plan->expert_kinds) +
                                                sizeof(pare_stats) + dealt));
}

/* To see what a Hessian rests on, one site after the other. */
static uint64_t support_bytes(const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    uint64_t most = 0;
    for (unsigned s = 0; s < PARE_SITES; s++) {
        if (plan->kinds[s] & PARE_STATS_HESSIAN)
            most = larger(most, pare_support_bytes(pare_site_width(c, 0, (pare_site)s)));
        if (plan->expert_kinds[s] & PARE_STATS_HESSIAN)
            most = larger(most, pare_support_bytes(pare_site_width(c, 1, (pare_site)s)));
    }
    return most;
}

/* What keeping statistics takes: while tokens are weighed; in blocks, by where activations are. */
typedef struct stage_room {
    uint64_t weigh, apart, inside;
} stage_room;

/* A window through a block in floats, to see whether folds changed its outputs. */
static uint64_t fold_check_bytes(const pare_ctx *cx, const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    const pare_batch window = {.sequences = 1, .length = plan->window};
    return (uint64_t)plan->window * c->hidden * sizeof(float) +
           pare_kv_bytes(c, &floats, 1, plan->window) +
           pare_block_forward_bytes(cx, c, window, c->experts ? PARE_INPUTS_ANY : PARE_INPUTS_NONE);
}

/* What the weights of tokens take until the job ends. */
static uint64_t weights_bytes(const pare_plan *plan, const pare_settled *settled)
{
    const pare_config *const c = &plan->model.config;
    if (!plan->token_weights)
        return 0;
    return plan->kept.used ? pare_output_curvature_bytes(c)
                           : pare_token_weights_bytes(c, (uint64_t)settled->samples * plan->window);
}

/* What pruners took of the linears of a block that every token runs. */
static uint64_t mask_bytes(const pare_plan *plan)
{
    return plan->pruned
               ? pare__plan_part_weights(&plan->model.config, 0) / 8 + PARE_ROLES * PARE_ALIGN
               : 0;
}

/* Floats of a block: as it is stored, and as the float model has it; none of a sparing job. */
static uint64_t floats_bytes(const pare_plan *plan, bool sparing)
{
    if (sparing)
        return 0;
    return pare_block_float_bytes(&plan->model.config) * (plan->reference ? 2 : 1) +
           mask_bytes(plan);
}

/* While they are found. */
static uint64_t weigh_bytes(const pare_ctx *cx, const pare_plan *plan, const pare_settled *settled)
{
    const pare_config *const c = &plan->model.config;
    if (!plan->token_weights || plan->kept.used)
        return 0;
    return weights_bytes(plan, settled) +
           pare_token_weights_scratch(cx, c, plan->batch * PARE_SHARES, plan->window, plan->bf16) +
           floats_bytes(plan, false) + pare__plan_rope_bytes(c, plan->window);
}

/* A pass of the wave; the float model beside passes, too, and its block is loaded for it. */
static uint64_t pass_bytes(const pare_ctx *cx, const pare_plan *plan, bool sparing, bool spilled)
{
    const pare_config *const c = &plan->model.config;
    if (!plan->calibrated || plan->kept.used)
        return 0;
    const pare_wave_kind kind = {plan->bf16, sparing, spilled};
    const uint64_t wave = pare_wave_scratch(cx, c, plan->batch, plan->window, kind);
    if (!plan->floats_beside || sparing)
        return wave;
    return (pare_plan_reference_is_whole(plan) ? 0 : pare_block_float_bytes(c)) +
           larger(wave, plan->rotation ? pare_rotation_scratch(cx, c) : 0);
}

/* Of what is done to a block beside its floats, one after the other, the most. */
static uint64_t parts_bytes(const pare_ctx *cx, const pare_plan *plan, const pare_settled *settled,
                            bool spilled)
{
    const pare_config *const c = &plan->model.config;
    const uint64_t wave = pass_bytes(cx, plan, settled->memory.sparing, spilled);
    uint64_t step =
        larger(step_bytes(cx, plan, settled->memory.sparing), transform_bytes(cx, plan, settled));
    step = larger(step, support_bytes(plan));
    if (plan->transforms)
        step = larger(step, fold_check_bytes(cx, plan));
    const uint64_t draws = stability_bytes(plan, pare__plan_part_weights(c, 0));
    uint64_t most = stats_bytes(cx, plan, settled, false) + draws + larger(step, draws ? wave : 0);
    most = larger(most, stats_bytes(cx, plan, settled, true) + wave);
    if (plan->ratios)
        most = larger(most, pare_stats_bytes(c, 0, plan->kinds) + larger(wave, step));
    if (plan->recipe.kv.method == PARE_KV_KVQUANT)
        most = larger(most, pare_kv_calibrate_bytes(c) + wave);
    if (plan->rotation)
        most = larger(most,
                      larger(pare_rotation_scratch(cx, c), pare__plan_rotate_check_bytes(cx, c)));
    return most;
}

/* Blocks while they are compressed. */
static uint64_t block_bytes(const pare_ctx *cx, const pare_plan *plan, const pare_settled *settled,
                            bool spilled)
{
    const pare_config *const c = &plan->model.config;
    const uint64_t folded =
        plan->transforms ? (uint64_t)plan->window * c->hidden * sizeof(float) : 0;
    return floats_bytes(plan, settled->memory.sparing) + pare__plan_rope_bytes(c, plan->window) +
           expert_bytes(cx, plan) + folded + weights_bytes(plan, settled) +
           parts_bytes(cx, plan, settled, spilled) + pare__plan_structure_bytes(cx, plan) +
           (spilled || plan->kept.used ? 0 : settled->memory.activation_bytes);
}

/* While statistics are kept: a walk of its own, in front of the others. */
static stage_room stage_room_of(const pare_ctx *cx, const pare_plan *plan,
                                const pare_settled *settled)
{
    pare_plan stage;
    if (!plan->kept.used || !plan->kept.made)
        return (stage_room){0};
    pare_plan_stage(plan, &stage);
    const pare_config *const c = &plan->model.config;
    uint64_t most = 0;
    for (unsigned s = 0; s < PARE_SITES; s++)
        most = larger(most, larger(pare_site_width(c, 0, s), pare_site_width(c, 1, s)));
    const uint64_t out =
        (most * (most + 1) / 2 + (uint64_t)plan->window * c->hidden) * sizeof(float);
    return (stage_room){.weigh = weigh_bytes(cx, &stage, settled),
                        .apart = out + block_bytes(cx, &stage, settled, true),
                        .inside = out + block_bytes(cx, &stage, settled, false)};
}

/* The embedding and the head in a changed basis, when the blocks are done. A narrower one is kept
 * to the end. */
static uint64_t changed_bytes(const pare_plan *plan, const pare_settled *settled)
{
    const size_t hidden = plan->model.config.hidden, narrow = plan->out.hidden;
    return pare__plan_rotate_put_bytes(plan, &settled->layout) +
           (narrow < hidden ? (uint64_t)narrow * hidden * sizeof(float) : 0);
}

/* Calibration and evaluations as tokens, before the first block. */
static uint64_t tokens_bytes(const pare_ctx *cx, const pare_plan *plan, const pare_settled *settled)
{
    const pare_calibration *const c = &plan->recipe.calibration;
    uint64_t most = 0;
    if (plan->kept.imatrix) /* which has none */
        return 0;
    if (plan->data.text_bytes)
        most = pare__plan_encode_bytes(plan, plan->data.text_bytes, c->weight ? 1 : c->text.count);
    if ((plan->calibrated || plan->held_out) && c->kind == PARE_CALIBRATION_GENERATE)
        most = pare_tokens_generate_bytes(cx, &plan->model.config, plan->window);
    const uint64_t ids = larger(plan->data.text_bytes * sizeof(int32_t), plan->data.token_bytes);
    most = larger(larger(most, plan->data.token_bytes),
                  pare_tokens_fresh_bytes((uint64_t)settled->samples * plan->window));
    return most + (settled->samples ? 0 : ids); /* all windows are kept */
}

/* Of what the head reads: as wide as what attention reads. */
static const unsigned head_kinds[PARE_SITES] = {[PARE_SITE_ATTENTION] = PARE_STATS_HESSIAN};

/* Of a training: results of the walk in front, and the blocks with what was trained. */
static uint64_t walk_bytes(const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    return plan->training ? plan->linears * (sizeof(pare_linear_result) + sizeof(pare_kept_hash)) +
                                c->blocks * (sizeof(pare_block) +
                                             c->experts * PARE_ROLES * sizeof(pare_linear))
                          : 0;
}

/* What the job keeps to its end: the plan, tokens of the calibration, a result of each linear. */
static uint64_t kept_bytes(const pare_plan *plan, const pare_settled *settled)
{
    const uint64_t windows = plan->kept.imatrix ? 0 : settled->samples;
    return settled->memory.held_bytes + job_bytes + plan->linears * sizeof(pare_linear_result) +
           (windows + plan->held_out + plan->train.windows) * plan->window * sizeof(int32_t) +
           (plan->experts ? pare_plan_slots(plan) * (sizeof(pare_linear) + 64) : 0) +
           (plan->ratios ? plan->linears * sizeof *plan->linear : 0) + walk_bytes(plan) +
           (pare_plan_looks_at_head(plan) ? pare_stats_bytes(&plan->model.config, 0, head_kinds)
                                          : 0);
}

uint64_t pare__plan_certain_bytes(const pare_ctx *cx, const pare_plan *plan,
                                  const pare_settled *settled)
{
    return PARE_PROGRAM_BYTES + plan->data.tokenizer_bytes / 5 + tokens_bytes(cx, plan, settled);
}

uint64_t pare_plan_left_bytes(const pare_plan *plan)
{
    return kept_bytes(plan, &plan->settled) - plan->settled.memory.held_bytes;
}

/* Manifest, tables and pages in the making. */
static uint64_t text_bytes(const pare_plan *plan)
{
    enum { TEXTS = 8192 };
    return plan->linears * (sizeof(pare_linear_result) + TEXTS);
}

static uint64_t export_bytes(const pare_plan *plan, const pare_settled *settled)
{
    return plan->export_ram_bytes ? plan->export_ram_bytes + pare__plan_opened_bytes(plan, settled)
                                  : 0;
}

/* What is smaller with fewer linears, or shorter windows of the calibration. */
static const char one_block[] = "one block", weighing[] = "the gradient of token_weights",
                  training[] = "the training";

const char *pare__plan_memory(const pare_ctx *cx, const pare_plan *plan, pare_settled *settled)
{
    const uint64_t always = pare__plan_outside_bytes(cx, plan) + kept_bytes(plan, settled);
    const struct {
        const char *name;
        uint64_t bytes;
    } other[] = {{"the text of the calibration", tokens_bytes(cx, plan, settled)},
                 {"the embedding and the head",
                  larger(pare__plan_table_bytes(cx, plan), changed_bytes(plan, settled))},
                 {"an evaluation", pare__plan_evaluate_bytes(cx, plan, settled)},
                 {"an export", export_bytes(plan, settled)},
                 {training, pare__plan_train_bytes(cx, plan, settled)},
                 {"the times of widths", pare__plan_widths_bytes(cx, plan)},
                 {"the report", text_bytes(plan)}};
    const stage_room stage = stage_room_of(cx, plan, settled);
    const uint64_t weigh = larger(stage.weigh, weigh_bytes(cx, plan, settled)),
                   block = larger(stage.apart, block_bytes(cx, plan, settled, true));
    const uint64_t inside =
        larger(larger(stage.inside, block_bytes(cx, plan, settled, false)), weigh);
    const uint64_t apart = plan->calibrated ? larger(block, weigh) : inside;
    const char *largest = weigh > block ? weighing : one_block;
    uint64_t most = apart < inside ? apart : inside, least = 0;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        least = larger(least, other[i].bytes);
        largest = other[i].bytes > most ? other[i].name : largest;
        most = larger(most, other[i].bytes);
    }
    settled->memory.spilled_bytes = always + larger(apart, least);
    settled->memory.resident_bytes = always + larger(inside, least);
    return largest;
}

bool pare__plan_linears_take_most(const pare_ctx *cx, const pare_plan *plan)
{
    pare_settled settled = plan->settled;
    const char *const most = pare__plan_memory(cx, plan, &settled);
    return most == one_block || most == weighing || most == training;
}
