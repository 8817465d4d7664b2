#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calib/shares.h"
#include "calib/token_weights.h"
#include "calib/wave.h"
#include "compress/output/output_disk.h"
#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_room.h"
#include "compress/plan/plan_walks.h"
#include "compress/text/units.h"
#include "runtime/file.h"
#include "runtime/world.h"

/* Manifest, tables, pages and the journal: themselves, and what each linear adds. */
static const uint64_t report_bytes = (uint64_t)1 << 20, linear_report_bytes = 1536;

/* What the job takes with the activations where they are. */
static uint64_t peak_anonymous(const pare_plan_memory *m)
{
    return m->spill ? m->spilled_bytes : m->resident_bytes;
}

/* No step but those that take a linear as it is and store it: what runs the block in between is
 * what is stored. */
bool pare__plan_can_spare(const pare_ctx *cx, const pare_plan *plan)
{
    return plan->calibrated && !plan->kept.path && !plan->reference && !plan->rotation &&
           !plan->structured && !plan->ratios && !plan->job->variants &&
           plan->recipe.kv.method == PARE_KV_FLOAT && pare_world_size(cx) == 1;
}

uint64_t pare_plan_drift_file(const pare_plan *plan)
{
    uint64_t most = 0;
    for (unsigned s = 0; s < PARE_SITES; s++) {
        const uint64_t k = plan->kinds[s] & PARE_STATS_DRIFT
                               ? pare_site_width(&plan->model.config, 0, (pare_site)s)
                               : 0;
        most = k > most ? k : most;
    }
    return most * most * sizeof(float);
}

/* The least that the job can do with; what takes most, for a message. */
static const char *least_memory(const pare_ctx *cx, const pare_plan *plan, pare_settled *settled,
                                uint64_t *need)
{
    const char *const largest = pare__plan_memory(cx, plan, settled);
    *need = settled->memory.spilled_bytes < settled->memory.resident_bytes
                ? settled->memory.spilled_bytes
                : settled->memory.resident_bytes;
    return largest;
}

/* A sparing job, where it needs less. */
static const char *spare(const pare_ctx *cx, const pare_plan *plan, pare_settled *settled,
                         uint64_t *need)
{
    uint64_t other;
    settled->memory.sparing = true;
    const char *const spared = least_memory(cx, plan, settled, &other);
    if (other < *need) {
        *need = other;
        return spared;
    }
    settled->memory.sparing = false;
    return least_memory(cx, plan, settled, need);
}

/* As many experts at once as the limit allows: a pass of the wave more for each other chunk. */
static void choose_chunk(const pare_ctx *cx, const pare_plan *plan, pare_settled *settled)
{
    size_t most = plan->model.config.experts;
    while (plan->experts && settled->memory.chunk < most) {
        const size_t fits = settled->memory.chunk;
        settled->memory.chunk += (most - settled->memory.chunk + 1) / 2;
        (void)pare__plan_memory(cx, plan, settled);
        if (peak_anonymous(&settled->memory) <= settled->memory.limit_bytes)
            continue;
        most = settled->memory.chunk - 1;
        settled->memory.chunk = fits;
    }
    (void)pare__plan_memory(cx, plan, settled);
}

/* The training keeps what blocks computed where that fits. */
static void choose_keep(const pare_ctx *cx, const pare_plan *plan, pare_settled *settled)
{
    settled->memory.keep = plan->training != NULL;
    (void)pare__plan_memory(cx, plan, settled);
    settled->memory.keep &= peak_anonymous(&settled->memory) <= settled->memory.limit_bytes;
}

/* What a job on a smaller model takes at most: what this model cannot keep within the limit, a
 * smaller one may, and so come up to it. */
static uint64_t most_of_smaller(const pare_ctx *cx, const pare_plan *plan,
                                const pare_settled *settled)
{
    const uint64_t need = settled->memory.anonymous_bytes, limit = settled->memory.limit_bytes;
    pare_settled free = *settled;
    free.memory.spill = free.memory.sparing = false;
    free.memory.keep = plan->training != NULL;
    free.memory.chunk = plan->experts ? plan->model.config.experts : free.memory.chunk;
    (void)pare__plan_memory(cx, plan, &free);
    const uint64_t most = peak_anonymous(&free.memory);
    return need > limit ? need : most > limit ? limit : most;
}

/* Figures that look alike are told in bytes. */
static pare_status check_fits(pare_ctx *cx, const pare_plan_memory *m, const char *what,
                              uint64_t need)
{
    char needs[PARE_UNIT_TEXT], has[PARE_UNIT_TEXT];
    if (need <= m->limit_bytes)
        return PARE_OK;
    if (strcmp(pare_units_bytes(need, needs), pare_units_bytes(m->limit_bytes, has)) == 0) {
        (void)snprintf(needs, sizeof needs, "%llu bytes", (unsigned long long)need);
        (void)snprintf(has, sizeof has, "%llu", (unsigned long long)m->limit_bytes);
    }
    return pare_fail(cx, PARE_ENOMEM,
                     "%s needs %s of memory and the limit of %s leaves %s; raise the limit", what,
                     needs, m->limit, has);
}

pare_status pare__plan_cost(pare_ctx *cx, const pare_plan *plan, pare_settled *settled)
{
    settled->memory.chunk = 1;
    settled->memory.keep = false;
    if (!settled->memory.held_bytes) /* later the tokens are there, too, which are counted */
        settled->memory.held_bytes = cx->live_bytes - plan->job->beside_bytes;
    settled->memory.activation_bytes =
        pare_plan_gathers(plan)
            ? pare_wave_bytes(pare_share_windows(settled->samples, pare_world_size(cx)),
                              plan->window, plan->model.config.hidden)
            : 0;
    if (plan->floats_beside && __builtin_mul_overflow(settled->memory.activation_bytes, 2,
                                                      &settled->memory.activation_bytes))
        settled->memory.activation_bytes = UINT64_MAX;
    uint64_t need;
    settled->memory.sparing = false;
    const char *largest = least_memory(cx, plan, settled, &need);
    const pare_memory_limit limit =
        pare__plan_limit(plan, settled->packed_bytes, pare__plan_outside_bytes(cx, plan));
    if (need > limit.bytes && pare__plan_can_spare(cx, plan))
        largest = spare(cx, plan, settled, &need);
    settled->memory.limit_bytes = limit.bytes;
    settled->memory.limit = limit.name;
    if (plan->job->stand_in) { /* the smaller model may do with less */
        PARE_TRY(check_fits(cx, &settled->memory, "a job on the smallest model",
                            pare__plan_certain_bytes(cx, plan, settled)));
    } else if (!plan->job->unlimited) {
        PARE_TRY(check_fits(cx, &settled->memory, largest, need));
        settled->memory.allocator_bytes = limit.bytes - pare__plan_outside_bytes(cx, plan);
    }
    if (plan->job->unlimited)
        return PARE_OK;
    settled->memory.spill = settled->memory.resident_bytes > settled->memory.limit_bytes;
    choose_keep(cx, plan, settled);
    choose_chunk(cx, plan, settled);
    settled->memory.anonymous_bytes = peak_anonymous(&settled->memory);
    if (plan->job->stand_in)
        settled->memory.anonymous_bytes = most_of_smaller(cx, plan, settled);
    settled->memory.mapped_bytes =
        plan->input_bytes + settled->packed_bytes + pare__plan_largest_export(plan);
    return PARE_OK;
}

/* Bytes that a file of statistics takes where the output goes; those that it takes on another file
 * system must be free there. */
static pare_status kept_disk(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                             const pare_settled *settled, const char *directory, uint64_t *bytes)
{
    char *const path = plan->kept.path;
    const uint64_t need = pare_plan_stage_bytes(plan, settled);
    const pare_output_place place = {.output = path, .partial = path};
    char needed[PARE_UNIT_TEXT], left[PARE_UNIT_TEXT];
    pare_output_disk disk;
    struct stat here, there;
    PARE_TRY(pare_output_disk_find(cx, a, &place, &disk));
    if (stat(directory, &here) != 0 || stat(disk.directory, &there) != 0)
        return pare_file_fail(cx, disk.directory, "look at");
    const bool together = here.st_dev == there.st_dev;
    *bytes = together ? need : 0;
    if (!together && !settled->finished && !plan->job->unlimited && need > disk.free_bytes)
        return pare_fail(cx, PARE_ENOSPC, "%s: needs %s of disk and %s are free there", path,
                         pare_units_bytes(need, needed), pare_units_bytes(disk.free_bytes, left));
    return PARE_OK;
}

pare_status pare__plan_disk(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                            pare_settled *settled)
{
    settled->other_bytes = report_bytes + plan->linears * linear_report_bytes;
    const bool exports_only = settled->finished && !plan->job->plan_only;
    settled->disk_bytes = exports_only ? 0 : settled->packed_bytes + settled->other_bytes;
    if (settled->memory.spill && !exports_only)
        settled->disk_bytes += settled->memory.activation_bytes * pare_world_size(cx);
    if (settled->memory.sparing && !exports_only)
        settled->disk_bytes += pare_plan_drift_file(plan);
    if (plan->token_weights && pare_plan_gathers(plan) && !exports_only)
        settled->disk_bytes += pare_token_weights_disk(&plan->model.config, settled->samples,
                                                       plan->window, pare_world_size(cx));
    if (!exports_only)
        settled->disk_bytes += pare__plan_train_disk(plan);
    for (size_t i = 0; i < plan->exports; i++)
        settled->disk_bytes +=
            exports_only && settled->export[i].taken ? 0 : plan->export[i].result.bytes;
    char needed[PARE_UNIT_TEXT], left[PARE_UNIT_TEXT];
    pare_output_disk disk;
    uint64_t kept = 0;
    PARE_TRY(pare_output_disk_find(cx, a, &plan->place, &disk));
    if (plan->kept.used && plan->kept.made && !exports_only && !pare_path_is_file(plan->kept.path))
        PARE_TRY(kept_disk(cx, a, plan, settled, disk.directory, &kept));
    settled->disk_bytes += kept;
    const uint64_t held = exports_only ? 0 : disk.held_bytes;
    if (!settled->finished && access(disk.directory, W_OK | X_OK) != 0)
        return pare_fail_after(cx, pare_file_fail(cx, disk.directory, "write into this folder"),
                               "give another --output");
    settled->disk_free_bytes = disk.free_bytes;
    const bool may_stay =
        settled->finished && plan->job->plan_only; /* compress tells whose it is */
    if (!may_stay && !plan->job->unlimited && settled->disk_bytes > settled->disk_free_bytes + held)
        return pare_fail(cx, PARE_ENOSPC, "%s: needs %s of disk and %s are free there",
                         plan->place.output, pare_units_bytes(settled->disk_bytes - held, needed),
                         pare_units_bytes(settled->disk_free_bytes, left));
    return PARE_OK;
}

double pare__plan_stats_flops(const pare_plan *p)
{
    const pare_config *const c = &p->model.config;
    const double looks = p->ratios ? 1.0 : 0.0;
    double flops = 0;
    for (size_t b = 0; b < c->blocks; b++) {
        pare_config own;
        pare_block_config(c, b, &own);
        for (unsigned s = 0; s < PARE_SITES; s++) {
            const double k = (double)pare_site_width(&own, 0, (pare_site)s);
            const double w = (double)pare_site_width(&own, 1, (pare_site)s);
            flops += p->kinds[s] & PARE_STATS_HESSIAN ? (1.0 + looks) * k * k : 0;
            flops += p->kinds[s] & PARE_STATS_DRIFT ? 2.0 * k * k : 0;
            flops += p->kinds[s] & PARE_STATS_HELD ? k * k / PARE_HELD_PART : 0;
            flops += p->expert_kinds[s] & PARE_STATS_HESSIAN ? (double)c->experts_used * w * w : 0;
        }
    }
    return flops;
}
