/* What the job tells once all is done: figures gathered into the report, and its files. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compress/artifact/inspect.h"
#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_reap.h"
#include "compress/plan/plan_walks.h"
#include "compress/plan/recipe_home.h"
#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_original.h"
#include "compress/run/run_reap.h"
#include "compress/run/run_team.h"
#include "compress/text/version.h"
#include "runtime/energy.h"
#include "runtime/linalg.h"
#include "runtime/machine.h"
#include "runtime/threads.h"

/* As pare eval and pare inspect tell it of the finished files. */
static pare_status take_model_bits(pare_run *run, pare_report *r)
{
    pare_inspection in;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    PARE_TRY(pare_inspect(run->cx, &run->scratch, run->plan->place.partial, &in));
    r->model_bits_per_weight = in.bits_per_weight;
    pare_arena_rewind(&run->scratch, mark);
    return PARE_OK;
}

static uint64_t dense_bytes(const pare_linear *l, size_t n, size_t k)
{
    return (uint64_t)n * k * (l->bits ? l->bits : pare_dtype_bits(l->dtype)) / 8;
}

static pare_report_part part_of(size_t part, pare_role role)
{
    if (part > 0)
        return PARE_REPORT_EXPERTS;
    return role <= PARE_ROLE_O || role >= PARE_ROLE_Q_A ? PARE_REPORT_ATTENTION : PARE_REPORT_MLP;
}

/* Bytes of a linear of the original, in blocks where it was quantized before. */
static uint64_t stored_bytes(const pare_checkpoint *ck, const pare_linear *l)
{
    const pare_stored *const stored = l->name ? pare_checkpoint_stored(ck, l->name) : NULL;
    return stored ? stored->bytes : dense_bytes(l, l->n, l->k);
}

/* Linears of the original. */
static void add_stored(const pare_run *run, uint64_t *bytes)
{
    const pare_model *const m = pare__run_original(run);
    const pare_checkpoint *const ck = pare__run_original_files(run);
    for (size_t b = 0; b < m->config.blocks; b++)
        for (size_t i = 0; i < pare_block_parts(&m->config) * PARE_ROLES; i++) {
            const size_t part = i / PARE_ROLES;
            const pare_role role = (pare_role)(i % PARE_ROLES);
            bytes[part_of(part, role)] +=
                stored_bytes(ck, pare_block_linear(&m->block[b], part, role));
        }
    bytes[PARE_REPORT_EMBEDDING] = stored_bytes(ck, &m->embed);
    if (!m->config.tied)
        bytes[PARE_REPORT_HEAD] = stored_bytes(ck, &m->head);
}

/* Bytes of a linear that stays: codes of another program stay codes, all else gets [n, k]. */
static uint64_t kept_bytes(const pare_run *run, const pare_linear *l, bool code, size_t n, size_t k)
{
    return code ? stored_bytes(&run->checkpoint, l) : dense_bytes(l, n, k);
}

/* Linears of the blocks in the type of the original, with the shapes of `c`. */
static void add_blocks(const pare_run *run, const pare_config *c, uint64_t *bytes)
{
    const pare_model *const m = &run->model;
    const bool codes = pare_plan_reaps(run->plan) && pare_plan_copies_codes(run->plan);
    for (size_t b = 0; b < c->blocks; b++)
        for (size_t i = 0; i < pare_block_parts(c) * PARE_ROLES; i++) {
            const size_t part = i / PARE_ROLES;
            const pare_role role = (pare_role)(i % PARE_ROLES);
            size_t n, k;
            pare_block_shape(c, b, part, role, &n, &k);
            bytes[part_of(part, role)] +=
                kept_bytes(run, pare_block_linear(&m->block[b], part, role), codes && part, n, k);
        }
}

/* What no part has claimed of all bytes. */
static void add_rest(uint64_t all, uint64_t *bytes)
{
    const uint64_t claimed = pare_report_total(bytes);
    bytes[PARE_REPORT_OTHER] += all > claimed ? all - claimed : 0;
}

static void take_sizes(const pare_run *run, pare_report_sizes *s)
{
    const pare_plan *const plan = run->plan;
    const pare_checkpoint *const ck = pare__run_original_files(run);
    const pare_linear *const embed = &run->model.embed, *const head = &run->model.head;
    uint64_t was = 0, is = 0;
    for (size_t i = 0; i < ck->tensors; i++)
        if (pare__run_original(run)->used[i])
            was += ck->stored ? ck->stored[i].bytes : ck->tensor[i].bytes;
    for (uint32_t i = 0; i < run->settled.layout.shards; i++)
        is += run->settled.layout.file_bytes[i] - run->settled.layout.header_bytes[i];
    add_stored(run, s->before);
    add_blocks(run, &plan->out, s->after);
    for (size_t i = 0; i < run->rows; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        uint64_t *const part = &s->after[part_of(l->part, l->role)];
        *part -= dense_bytes(pare_block_linear(&run->model.block[l->block], l->part, l->role),
                             l->packed.n, l->packed.k);
        *part += pare_packed_linear_bytes(&run->row[i].linear).total;
    }
    s->after[PARE_REPORT_EMBEDDING] = dense_bytes(embed, embed->n, plan->out.hidden);
    if (!run->model.config.tied || plan->unties)
        s->after[PARE_REPORT_HEAD] = dense_bytes(head, head->n, plan->out.hidden);
    for (size_t i = 0; i < plan->tables.count; i++) {
        const pare_plan_table *const t = &plan->tables.of[i];
        s->after[t->which == PARE_TABLE_HEAD ? PARE_REPORT_HEAD : PARE_REPORT_EMBEDDING] =
            pare_packed_linear_bytes(&t->packed).total;
    }
    add_rest(was, s->before);
    add_rest(is, s->after);
}

/* Without those that count_thin counts. */
static size_t count_fallbacks(const pare_run *run)
{
    size_t count = 0;
    for (size_t i = 0; i < run->rows + run->plan->tables.count; i++)
        count += !run->row[i].thin &&
                 (run->row[i].fallback || run->row[i].f64 || run->row[i].raises ||
                  run->row[i].coarse || run->row[i].lost || run->row[i].cold == PARE_COLD_RTN);
    return count;
}

/* Linears, or steps that take parts out of the model, that got too little calibration. */
static size_t count_thin(const pare_run *run)
{
    size_t count = 0;
    pare_shortage unused;
    for (size_t i = 0; i < run->rows + run->plan->tables.count; i++)
        count += run->row[i].thin;
    for (size_t step = 0; run->plan->structured && step < run->plan->recipe.steps; step++)
        count += pare_plan_short(run->plan, &run->settled, step, &unused) || pare__reap_few(run);
    return count;
}

static pare_status texts_of_run(pare_run *run, pare_report *r)
{
    char host[256] = "unknown", started[32] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        (void)snprintf(host, sizeof host, "unknown");
    const time_t then = time(NULL) - (time_t)(pare_seconds() - run->started);
    struct tm utc;
    if (gmtime_r(&then, &utc))
        (void)strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &utc);
    r->host = pare_arena_text(run->a, host, strlen(host));
    r->started = pare_arena_text(run->a, started, strlen(started));
    r->recipe_text = pare_arena_text(run->a, run->plan->recipe_text, run->plan->recipe_len);
    char *const home = pare_path_directory(run->a, run->plan->job->recipe);
    r->recipe_directory = home ? pare_recipe_way(run->a, run->plan->place.output, home) : NULL;
    return r->host && r->started && r->recipe_text && home ? PARE_OK : PARE_ENOMEM;
}

/* The most that the allocator gave out, and what the process has beside that: stacks, buffers of
 * BLAS, data of libraries, which stay once they are there. What was given back to malloc is part of
 * the first already, and malloc may keep up to 64 MiB of it. */
static uint64_t peak_anonymous(const pare_ctx *cx)
{
    pare_memory_trim();
    const uint64_t kib = pare_machine_number("/proc/self/status", "RssAnon:");
    const uint64_t now = kib == UINT64_MAX ? 0 : kib * 1024;
    return cx->peak_bytes + (now > cx->live_bytes ? now - cx->live_bytes : 0);
}

/* Evaluations that device: auto left to the CPU. */
static size_t count_on_cpu(const pare_report *r)
{
    size_t count = 0;
    for (size_t i = 0; i < r->evaluations; i++)
        count += r->evaluation[i].device_fallback != NULL;
    return count;
}

/* Blocks that an earlier run finished, or, where all are still to be packed, at least pruned. */
static size_t count_found(const pare_run *run)
{
    const size_t blocks = run->plan->out.blocks;
    const size_t pruned = pare_plan_front(run->plan) > 0 ? run->front.found : 0;
    const size_t found = run->units.found ? run->units.found : pruned;
    if (pare_plan_reaps(run->plan)) /* all is scored and copied again */
        return 0;
    return found < blocks ? found : blocks;
}

pare_status pare__run_report(pare_run *run, pare_compress_result *out)
{
    const pare_plan *const plan = run->plan;
    const pare_calibration *const c = &plan->recipe.calibration;
    const double start = pare_seconds();
    pare_report *const r = &out->report;
    if (run->training) {
        run->training->aware = pare_plan_aware_linears(plan);
        run->training->embeddings = plan->train.embeddings;
    }
    *r = (pare_report){
        .model = plan->model_path,
        .original = plan->original_path,
        .output = plan->place.output,
        .recipe_file = pare_job_file(plan->job),
        .set = plan->job->sets,
        .sets = plan->job->set_count,
        .program = "pare " PARE_VERSION,
        .cpu = pare_cpu_name(run->cx->cpu),
        .blas = pare__run_blas(run),
        .threads = pare_threads(run->cx),
        .config = &plan->out,
        .structure = plan->structured ? &run->structure : NULL,
        .speed = plan->job->speed,
        .training = run->training,
        .kv = &plan->recipe.kv,
        .row = run->row,
        .rows = run->rows,
        .tables = plan->tables.count,
        .experts = {.min_tokens = pare_plan_min_tokens(plan, &run->settled), .policy = c->cold},
        .repair = run->repair,
        .repairs = run->repairs,
        .nan = plan->recipe.nan,
        .export = plan->recipe.export,
        .exports = plan->recipe.exports,
        .bits_per_weight = run->settled.bits_per_weight,
        .untied = plan->unties,
        .untokenized = plan->untokenized,
        .calibration_seconds = run->calibration_seconds,
        .calibration_windows = plan->calibrated ? run->settled.samples : 0,
        .calibration_window = plan->calibrated ? plan->window : 0,
        .precision = plan->calibrated ? pare_plan_precision(plan) : NULL,
        .calibration_text = c->text.item,
        .calibration_share = run->data.share,
        .calibration_texts = c->text.count,
        .resumed_blocks = count_found(run)};
    PARE_TRY(pare__run_evaluate(run, r));
    PARE_TRY(pare__team_figures(run, &r->rank, &r->ranks));
    PARE_TRY(pare__run_verdict(run, r));
    take_sizes(run, &r->sizes);
    PARE_TRY(take_model_bits(run, r));
    r->evaluation_seconds = pare_seconds() - start;
    r->seconds = pare_seconds() - run->started;
    r->joules = pare_energy_since(run->cx->energy, run->joules);
    r->peak_rss_bytes = pare_machine_peak_resident();
    r->peak_anonymous_bytes = peak_anonymous(run->cx);
    PARE_TRY(pare_report_experts_take(run->a, run->row, run->rows, &r->experts));
    PARE_TRY(pare__run_take_warnings(run, r));
    PARE_TRY(texts_of_run(run, r));
    r->thin = count_thin(run);
    r->fallbacks =
        count_fallbacks(run) + r->thin + count_on_cpu(r) + pare__run_harmed(run->training);
    return pare_report_write(run->cx, r, plan->place.partial);
}
