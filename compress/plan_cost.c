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

/* Output errors that a search of ratios takes of each linear. */
enum { SEARCH_ERRORS = PARE_RATIO_POINTS + 1 };
/* Manifest, tables, pages and the journal: themselves, and what each linear adds. */
static const uint64_t report_bytes = (uint64_t)1 << 20, linear_report_bytes = 1536;

/* What the job takes with the activations where they are. */
static uint64_t peak_ram(const pare_plan *plan)
{
    return plan->spill ? plan->spilled_ram_bytes : plan->whole_ram_bytes;
}

/* As many experts at once as the limit allows: a pass of the wave more for each other chunk. */
static void choose_chunk(const pare_ctx *cx, pare_plan *plan)
{
    size_t most = plan->model.config.experts;
    while (plan->experts && plan->chunk < most) {
        const size_t fits = plan->chunk;
        plan->chunk += (most - plan->chunk + 1) / 2;
        (void)pare__plan_memory(cx, plan);
        if (peak_ram(plan) <= plan->ram_limit)
            continue;
        most = plan->chunk - 1;
        plan->chunk = fits;
    }
    (void)pare__plan_memory(cx, plan);
}

static pare_status check_ram(pare_ctx *cx, pare_plan *plan)
{
    plan->chunk = 1;
    if (!plan->held_ram_bytes) /* later the tokens are there, too, which are counted */
        plan->held_ram_bytes = cx->live_bytes;
    plan->activation_bytes =
        plan->calibrated ? pare_wave_bytes(plan->samples, plan->window, plan->model.config.hidden)
                         : 0;
    const char *const largest = pare__plan_memory(cx, plan);
    const uint64_t need = plan->spilled_ram_bytes < plan->whole_ram_bytes ? plan->spilled_ram_bytes
                                                                          : plan->whole_ram_bytes;
    const pare_memory_limit limit = pare__plan_limit(plan, pare__plan_outside_bytes(cx, plan));
    plan->ram_limit = limit.bytes;
    plan->ram_limit_name = limit.name;
    char text[PARE_UNIT_TEXT], most[PARE_UNIT_TEXT];
    if (need > plan->ram_limit)
        return pare_fail(cx, PARE_ENOMEM,
                         "%s needs %s of memory and the limit of %s leaves %s; raise the limit, or "
                         "use a shorter window",
                         largest, pare_units_bytes(need, text), limit.name,
                         pare_units_bytes(plan->ram_limit, most));
    plan->allocator_bytes = plan->ram_limit - pare__plan_outside_bytes(cx, plan);
    plan->spill = plan->whole_ram_bytes > plan->ram_limit;
    choose_chunk(cx, plan);
    plan->peak_ram_bytes = peak_ram(plan);
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

pare_status pare__plan_disk(pare_ctx *cx, pare_arena *a, pare_plan *plan)
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
    const bool may_stay = plan->finished && plan->job->look; /* compress tells whose it is */
    if (!may_stay && plan->disk_bytes > plan->disk_free_bytes + held)
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
        plan->pass_flops += pare__plan_block_cost(cx, plan, i).flops;
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
    plan->forward_flops =
        tokens * blocks * common * (2.0 * (double)pare__plan_part_weights(c, 0) + attention);
    if (c->experts)
        plan->forward_flops +=
            tokens * blocks * expert * used * 2.0 * (double)pare__plan_part_weights(c, 1);
    for (unsigned s = 0; s < PARE_SITES; s++) {
        const double k = (double)pare_site_width(c, 0, (pare_site)s);
        if (plan->kinds[s] & PARE_STATS_HESSIAN)
            plan->pass_flops += (1.0 + looks) * blocks * tokens * k * k;
        const double e = (double)pare_site_width(c, 1, (pare_site)s);
        if (plan->expert_kinds[s] & PARE_STATS_HESSIAN)
            plan->pass_flops += blocks * tokens * used * e * e;
    }
}

pare_status pare__plan_cost(pare_ctx *cx, pare_plan *plan)
{
    PARE_TRY(check_ram(cx, plan));
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
