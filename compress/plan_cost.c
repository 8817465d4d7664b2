#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "calib/stats.h"
#include "calib/wave.h"
#include "compress/evaluate/evaluate.h"
#include "compress/plan_internal.h"
#include "compress/report/units.h"
#include "kernels/layout.h"
#include "prune/ratio_search.h"
#include "quant/kv_cache.h"
#include "runtime/file.h"
#include "runtime/linalg.h"
#include "runtime/threads.h"

/* Counted for tables, texts and tokens, and for what the program holds outside its allocator: BLAS
 * buffers, stacks, parsed JSON. */
static const uint64_t inside_bytes = (uint64_t)48 << 20, outside_bytes = (uint64_t)48 << 20;
/* Output errors that a search of ratios takes of each linear. */
enum { SEARCH_ERRORS = PARE_RATIO_POINTS + 1 };
/* Manifest, tables, pages and the journal: themselves, and what each linear adds. */
static const uint64_t report_bytes = (uint64_t)1 << 20, linear_report_bytes = 1536;

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Float weights of a part of a block, all linears. */
static uint64_t part_weights(const pare_config *c, size_t part)
{
    uint64_t weights = 0;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, part, (pare_role)role, &n, &k);
        weights += (uint64_t)n * k;
    }
    return weights;
}

/* What a step needs on a linear: its site's state and its own scratch. */
static uint64_t pass_bytes(const pare_ctx *cx, const pare_plan *plan, const pare_plan_linear *l,
                           size_t which)
{
    const pare_step *const step = &plan->recipe.step[which];
    const pare_pass_cost cost =
        pare_passes[step->pass]->cost(step->value, l->packed.n, l->packed.k, pare_threads(cx));
    return cost.site_bytes + cost.linear_bytes;
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

/* The most that one linear needs while its steps run, each for itself: what the step needs, a
 * working copy and the result in floats, codes and planes. */
static uint64_t step_bytes(const pare_ctx *cx, const pare_plan *plan, uint64_t *codes)
{
    uint64_t most = 0;
    *codes = 0;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        const size_t n = l->packed.n, k = l->packed.k;
        const uint64_t planes = plane_bytes(plan, l);
        uint64_t pass = pass_bytes(cx, plan, l, l->step);
        if (l->pruned)
            pass = larger(pass, pass_bytes(cx, plan, l, l->prune_step));
        most = larger(most, pass + (uint64_t)n * k * 9 + 2 * planes);
        if (l->block == plan->linear[0].block && l->part == 0)
            *codes += planes;
    }
    return most;
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

/* What transform `i` needs for its whole block; counted once, at the first of its sites. */
static pare_pass_cost block_cost(const pare_ctx *cx, const pare_plan *plan, size_t i)
{
    const pare_plan_transform *const t = &plan->transform[i];
    const pare_step *const step = &plan->recipe.step[t->step];
    const pare_pass *const pass = pare_passes[step->pass];
    if (!pass->block_cost || (i > 0 && t[-1].step == t->step && t[-1].block == t->block))
        return (pare_pass_cost){0};
    return pass->block_cost(cx, step->value, &plan->model.config, plan->samples, plan->window);
}

/* Beyond that, the most that a transform needs on one site: what its pass takes, and a matrix to
 * measure by. */
static uint64_t transform_bytes(const pare_ctx *cx, const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    uint64_t most = 0;
    for (size_t i = 0; i < plan->transforms; i++) {
        const pare_step *const step = &plan->recipe.step[plan->transform[i].step];
        most = larger(most, block_cost(cx, plan, i).linear_bytes);
        for (size_t role = 0; role < PARE_ROLES; role++) {
            size_t n, k;
            pare_linear_shape(c, 0, (pare_role)role, &n, &k);
            if (c->arch->linear[role].site != plan->transform[i].site)
                continue;
            const pare_pass_cost cost =
                pare_passes[step->pass]->cost(step->value, n, k, pare_threads(cx));
            const uint64_t own = cost.site_bytes + cost.linear_bytes;
            most = larger(most, larger(own, (uint64_t)n * k * 4) + 4 * k * sizeof(float));
        }
    }
    return most;
}

/* What views of the stored experts of a block take beside the file: scales and starts of rows that
 * are made anew. */
static uint64_t view_bytes(const pare_plan *plan)
{
    uint64_t most = 0;
    for (size_t i = 0, bytes = 0; i < plan->linears; i++) {
        const pare_packed_linear *const l = &plan->linear[i].packed;
        if (i == 0 || plan->linear[i].block != plan->linear[i - 1].block)
            bytes = 0;
        if (plan->linear[i].part == 0)
            continue;
        if (l->encoding == PARE_ENCODING_NF4 || l->encoding == PARE_ENCODING_MXFP4)
            bytes += pare_round_up(l->n, PARE_PAD_N) * pare_packed_linear_groups(l) * 2;
        if (l->sparsity == PARE_SPARSITY_BITMASK)
            bytes += (l->n + 1) * sizeof(uint64_t);
        bytes += (uint64_t)2 * PARE_ALIGN;
        most = larger(most, bytes);
    }
    return most;
}

/* One expert in floats beside that, and what is told of all. */
static uint64_t expert_bytes(const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    const uint64_t weights = part_weights(c, 1);
    if (!c->experts)
        return 0;
    return c->experts * (PARE_ROLES * sizeof(pare_linear) + 32) +
           (plan->experts ? weights * sizeof(float) * (plan->reference ? 2 : 1) : 0) +
           (plan->experts && plan->pruned ? weights / 8 + PARE_ROLES : 0) + view_bytes(plan);
}

/* What the job keeps of every linear, its share of layout, index, manifest and report among it, and
 * of the places for them. */
static uint64_t row_bytes(const pare_plan *plan)
{
    enum { TEXTS = 4096 };
    return plan->linears * (2 * sizeof(pare_linear_result) + sizeof(pare_plan_linear) + TEXTS) +
           (plan->experts ? pare_plan_slots(plan) * (sizeof(pare_linear) + 64) : 0);
}

/* Statistics that are in memory at once. */
static uint64_t stats_bytes(const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    const uint64_t common = pare_stats_bytes(c, 0, plan->kinds);
    return !plan->experts
               ? common
               : larger(common, plan->chunk * (pare_stats_bytes(c, 1, plan->expert_kinds) +
                                               sizeof(pare_stats)));
}

/* Of the things that are done one after the other, the one that needs most; its name. */
static const char *count_ram(const pare_ctx *cx, pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    uint64_t planes;
    const uint64_t masks = plan->pruned ? part_weights(c, 0) / 8 + PARE_ROLES : 0;
    const uint64_t floats = pare_float_block_bytes(c) * (plan->reference ? 2 : 1) + masks;
    const uint64_t window =
        plan->transforms ? (uint64_t)plan->window * c->hidden * sizeof(float) : 0; /* fold check */
    const uint64_t step = larger(step_bytes(cx, plan, &planes), transform_bytes(cx, plan));
    const uint64_t wave = plan->calibrated ? pare_wave_scratch(cx, c, plan->window) + window : 0;
    const uint64_t generate =
        plan->calibrated && plan->recipe.calibration.kind == PARE_CALIBRATION_GENERATE
            ? pare_tokens_generate_bytes(cx, c, plan->window)
            : 0;
    const uint64_t turn =
        plan->rotation ? larger(pare_rotation_scratch(cx, c), pare__rotate_check_bytes(cx, c)) : 0;
    const uint64_t kv = plan->recipe.kv.method == PARE_KV_KVQUANT ? pare_kv_calibrate_bytes(c) : 0;
    const uint64_t structure = pare__plan_structure_bytes(cx, plan);
    const uint64_t draws = stability_bytes(plan, part_weights(c, 0));
    const uint64_t block = kv + draws + structure + floats + turn + window + planes +
                           expert_bytes(plan) + stats_bytes(plan) + larger(step, wave);
    uint64_t evaluate = 0;
    for (size_t i = 0; i < plan->recipe.evaluations; i++) {
        const pare_evaluation *const e = &plan->recipe.evaluation[i];
        evaluate = larger(evaluate, pare_evaluate_bytes(cx, c, e->window, e->kl ? 2 : 1));
    }
    if (plan->held_out)
        evaluate = pare_evaluate_bytes(cx, c, plan->window, 2);
    const uint64_t export = plan->export_ram_bytes;
    const uint64_t most = larger(larger(block, export), larger(generate, evaluate));
    plan->fixed_ram_bytes = inside_bytes + outside_bytes + row_bytes(plan) + most;
    return most == block      ? "one block"
           : most == generate ? "sampling the text"
           : most == export   ? "an export"
                              : "an evaluation";
}

/* As many experts at once as the limit allows: a pass of the wave more for each other chunk. */
static void choose_chunk(const pare_ctx *cx, pare_plan *plan)
{
    const uint64_t room = plan->ram_limit - (plan->spill ? 0 : plan->activation_bytes);
    size_t most = plan->model.config.experts;
    while (plan->experts && plan->chunk < most) {
        const size_t fits = plan->chunk;
        plan->chunk += (most - plan->chunk + 1) / 2;
        (void)count_ram(cx, plan);
        if (plan->fixed_ram_bytes <= room)
            continue;
        most = plan->chunk - 1;
        plan->chunk = fits;
    }
    (void)count_ram(cx, plan);
}

static pare_status check_ram(pare_ctx *cx, pare_plan *plan)
{
    plan->chunk = 1;
    const char *const largest = count_ram(cx, plan);
    const pare_memory_limit limit = pare__plan_limit(plan, outside_bytes);
    plan->ram_limit = limit.bytes;
    plan->ram_limit_name = limit.name;
    char need[PARE_UNIT_TEXT], most[PARE_UNIT_TEXT];
    if (plan->fixed_ram_bytes > plan->ram_limit)
        return pare_fail(cx, PARE_ENOMEM,
                         "%s needs %s of memory and the limit of %s leaves %s; raise the limit, or "
                         "use a shorter window",
                         largest, pare_units_bytes(plan->fixed_ram_bytes, need), limit.name,
                         pare_units_bytes(plan->ram_limit, most));
    plan->allocator_bytes = plan->ram_limit - outside_bytes;
    plan->activation_bytes =
        plan->calibrated ? pare_wave_bytes(plan->samples, plan->window, plan->model.config.hidden)
                         : 0;
    plan->spill = plan->activation_bytes > plan->ram_limit - plan->fixed_ram_bytes;
    choose_chunk(cx, plan);
    plan->peak_ram_bytes = plan->fixed_ram_bytes + (plan->spill ? 0 : plan->activation_bytes);
    return PARE_OK;
}

/* Bytes that files of an unfinished run already hold. */
static pare_status held_bytes(pare_arena *a, const pare_plan *plan, uint64_t *held)
{
    *held = 0;
    for (uint32_t i = 0; i < plan->layout.shards; i++) {
        char *const path = pare_path_join(a, plan->partial_path, plan->layout.shard_name[i]);
        struct stat st;
        if (!path)
            return PARE_ENOMEM;
        if (stat(path, &st) == 0)
            *held += (uint64_t)st.st_blocks * 512;
    }
    return PARE_OK;
}

static pare_status check_disk(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    plan->other_bytes = report_bytes + plan->linears * linear_report_bytes;
    const bool exports_only = plan->finished && !plan->job->look;
    plan->disk_bytes = exports_only ? 0 : plan->packed_bytes + plan->other_bytes;
    if (plan->spill && !exports_only)
        plan->disk_bytes += plan->activation_bytes;
    for (size_t i = 0; i < plan->exports; i++)
        plan->disk_bytes +=
            exports_only && plan->export[i].taken ? 0 : plan->export[i].result.bytes;
    char *place = pare_path_directory(a, plan->output_path);
    struct statvfs fs = {0};
    while (place && statvfs(place, &fs) != 0) {
        char *const parent = pare_path_directory(a, place);
        if (parent && strcmp(parent, place) == 0) /* "." or "/" */
            return pare_file_fail(cx, place, "tell the free space");
        place = parent;
    }
    if (!place)
        return PARE_ENOMEM;
    uint64_t held;
    PARE_TRY(held_bytes(a, plan, &held));
    held = exports_only ? 0 : held;
    plan->disk_free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (plan->disk_bytes > plan->disk_free_bytes + held)
        return pare_fail(cx, PARE_ENOSPC, "%s: needs %.1f MiB of disk and %.1f MiB are free", place,
                         (double)(plan->disk_bytes - held) / 0x1p20,
                         (double)plan->disk_free_bytes / 0x1p20);
    return PARE_OK;
}

static double pass_flops(const pare_ctx *cx, const pare_plan *plan, const pare_plan_linear *l,
                         size_t which)
{
    const pare_step *const step = &plan->recipe.step[which];
    return pare_passes[step->pass]
        ->cost(step->value, l->packed.n, l->packed.k, pare_threads(cx))
        .flops;
}

/* Forward passes of a token through part 0 of a block (statistics, outputs; five when sequential)
 * and through one expert; where experts have statistics, a pass counts tokens and each chunk has
 * its own.
 */
static void count_passes(const pare_plan *plan, double *common, double *expert)
{
    const double looks = plan->ratios ? 1.0 : 0.0; /* at the float model, statistics included */
    bool counts = false;
    for (size_t s = 0; s < PARE_SITES; s++)
        counts |= plan->expert_kinds[s] != 0;
    const size_t experts = plan->model.config.experts, chunk = plan->chunk;
    const double each = plan->sequential ? 2.0 : 1.0;
    *common = (plan->sequential ? 5.0 : 2.0) + 2.0 * looks;
    *common += counts ? 1.0 + each * (double)((experts + chunk - 1) / chunk) : 0.0;
    *expert = 1.0 + (counts ? each : 0.0);
}

/* Statistics take half of k^2 per token and site. */
static void count_flops(const pare_ctx *cx, pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    plan->forward_flops = plan->pass_flops = 0.0;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        plan->pass_flops += pass_flops(cx, plan, l, l->step);
        if (l->pruned && pare_plan_ratios(plan, l->prune_step).rule == PARE_RATIOS_SEARCH)
            plan->pass_flops +=
                SEARCH_ERRORS * (double)l->packed.n * (double)l->packed.k * (double)l->packed.k;
        if (l->pruned && l->prune_step != l->step)
            plan->pass_flops += pass_flops(cx, plan, l, l->prune_step);
    }
    for (size_t i = 0; i < plan->transforms; i++) {
        const pare_step *const step = &plan->recipe.step[plan->transform[i].step];
        plan->pass_flops += block_cost(cx, plan, i).flops;
        for (size_t role = 0; role < PARE_ROLES; role++) {
            size_t n, k;
            pare_linear_shape(c, 0, (pare_role)role, &n, &k);
            if (c->arch->linear[role].site == plan->transform[i].site)
                plan->pass_flops +=
                    pare_passes[step->pass]->cost(step->value, n, k, pare_threads(cx)).flops;
        }
    }
    if (!plan->calibrated)
        return;
    const double tokens = (double)plan->samples * (double)plan->window;
    const double blocks = (double)c->blocks, width = (double)(c->heads * c->head_dim);
    const double looks = plan->ratios ? 1.0 : 0.0;
    const double attention = 2.0 * (double)plan->window * width, used = (double)c->experts_used;
    double common, expert;
    count_passes(plan, &common, &expert);
    plan->forward_flops = tokens * blocks * common * (2.0 * (double)part_weights(c, 0) + attention);
    if (c->experts)
        plan->forward_flops += tokens * blocks * expert * used * 2.0 * (double)part_weights(c, 1);
    for (unsigned s = 0; s < PARE_SITES; s++) {
        const double k = (double)pare_site_width(c, 0, (pare_site)s);
        if (plan->kinds[s] & PARE_STATS_HESSIAN)
            plan->pass_flops += (1.0 + looks) * blocks * tokens * k * k;
        const double e = (double)pare_site_width(c, 1, (pare_site)s);
        if (plan->expert_kinds[s] & PARE_STATS_HESSIAN)
            plan->pass_flops += blocks * tokens * used * e * e;
    }
}

pare_status pare__plan_cost(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    PARE_TRY(check_ram(cx, plan));
    PARE_TRY(check_disk(cx, a, plan));
    count_flops(cx, plan);
    return PARE_OK;
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { PROBE = 768, PROBE_TILE = 64 };

typedef struct probe {
    const pare_ctx *cx;
    float *x, *w, *y;
} probe;

static void probe_tile(void *arg, size_t begin, size_t end, size_t worker)
{
    const probe *const p = arg;
    (void)worker;
    p->cx->kernels.gemm_f32_f32(p->y + begin, PROBE, p->x, PROBE, p->w + begin * PROBE, PROBE,
                                PROBE, end - begin, PROBE);
}

pare_status pare_plan_time(pare_ctx *cx, const pare_plan *plan, double *seconds)
{
    pare_arena scratch;
    pare_status s = pare_arena_init(cx, &scratch, 0);
    if (s == PARE_OK)
        s = pare_linalg_init(cx);
    const size_t count = (size_t)PROBE * PROBE;
    const probe p = {cx, PARE_NEW(&scratch, float, count), PARE_NEW(&scratch, float, count),
                     PARE_NEW(&scratch, float, count)};
    if (s == PARE_OK && (!p.x || !p.w || !p.y))
        s = PARE_ENOMEM;
    const double flops = 2.0 * PROBE * (double)count;
    double forward = 0.0, algebra = 0.0;
    for (int run = 0; s == PARE_OK && run < 4; run++) { /* the first one warms up */
        const double t0 = now();
        pare_parallel(cx, PROBE, PROBE_TILE, probe_tile, (void *)&p);
        const double t1 = now();
        pare_gram_add(cx, p.y, p.x, PROBE, PROBE);
        const double t2 = now();
        if (run > 0) {
            forward += flops / (t1 - t0) / 3.0;
            algebra += flops / 2.0 / (t2 - t1) / 3.0;
        }
    }
    if (s == PARE_OK)
        *seconds = plan->forward_flops / forward + plan->pass_flops / algebra;
    pare_arena_release(&scratch);
    return s;
}
