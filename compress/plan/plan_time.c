/* The time of a job: amounts that shapes, sizes of files and the recipe give, over the rates of
 * this machine. The numbers beside them were fitted to jobs on three models; README says how far
 * the sum is off. */
#include "compress/plan/plan_time.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "calib/shares.h"
#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_time_internal.h"
#include "compress/plan/plan_walks.h"
#include "prune/ratio_search.h"
#include "runtime/count.h"
#include "runtime/machine.h"
#include "runtime/threads.h"

/* Output errors that a search of ratios takes of each linear. */
enum { SEARCH_ERRORS = PARE_RATIO_POINTS + 1 };

/* Attention does so many of its operations while a product does one. */
static const double attention_speed = 0.8;

/* And the step of a recurrent state, with its convolution and what is read for it, so many. */
static const double scan_speed = 0.12;

/* Masks of a pruned linear, the looks that its zeros stay, and their storage: in weights rounded to
 * nearest. */
static const double pruned_rounds = 20;

/* A weight of an export is decoded, rounded to the blocks of the engine, packed, read back, decoded
 * by the engine's rules and compared: so many roundings and packings of ours. */
enum { EXPORT_ROUNDS = 3, EXPORT_STORES = 5 };

/* Syncs of a block, its weights and the journal; of the files at the end. */
enum { BLOCK_SYNCS = 2, END_SYNCS = 24 };

/* Widths: tokens of prompts that are timed, and passes through all weights; and how much slower
 * than a product of matrices the sweep is. */
enum { TIMED_PROMPTS = 4608, TIMED_TOKENS = 2048, SWEEP_SLOWER = 12 };

const char *pare_plan_phase_name(pare_plan_phase phase)
{
    static const char *const name[PARE_PLAN_PHASES] = {
        [PARE_PHASE_CHECK] = "reading and checking",
        [PARE_PHASE_HASH] = "hashing",
        [PARE_PHASE_TOKENS] = "texts",
        [PARE_PHASE_WEIGH] = "token weights",
        [PARE_PHASE_WAVE] = "calibration",
        [PARE_PHASE_STATS] = "statistics",
        [PARE_PHASE_PASSES] = "passes",
        [PARE_PHASE_STORE] = "packing",
        [PARE_PHASE_TRAIN] = "training",
        [PARE_PHASE_SCORE] = "quality of the training",
        [PARE_PHASE_WRITE] = "writing",
        [PARE_PHASE_EVALUATE] = "evaluation",
        [PARE_PHASE_EXPORT] = "exports",
    };
    return name[phase];
}

double pare__tokens_in(const pare__estimate *e, uint64_t bytes, bool text)
{
    return text ? (double)bytes * e->rate.tokens : (double)bytes / sizeof(int32_t);
}

/* Tokens of the calibration, all of them when the recipe asks for all. */
static double calibration_tokens(const pare__estimate *e)
{
    const pare_plan *const p = e->plan;
    if (!p->calibrated)
        return 0;
    return e->settled->samples ? (double)e->settled->samples * (double)p->window
                               : pare__tokens_in(e, p->data.text_bytes, true) +
                                     pare__tokens_in(e, p->data.token_bytes, false);
}

pare_status pare__work_of(const pare__estimate *e, const pare_config *c, size_t window,
                          pare_site last, pare_work *w)
{
    const pare_model m = {.config = *c};
    const size_t tokens = window ? window : 1; /* choice files have no windows */
    PARE_TRY(pare_work_of(e->cx, &m, (pare_batch){1, tokens, 0}, last, NULL, w));
    for (size_t i = 0; i < PARE_WORK_PARTS; i++)
        w->products[i] /= (double)tokens;
    w->attend /= attention_speed * (double)tokens;
    w->scan /= scan_speed * (double)tokens;
    return PARE_OK;
}

/* Weight files hashed by XXH3 from where they lie, at the end again, from memory if they fit; and
 * looked at for NaN in between. */
static void count_checks(pare__estimate *e)
{
    const double bytes = (double)e->plan->input_bytes;
    const bool slow = e->rate.read < e->rate.copy / 4; /* from a disk: threads do not help */
    const bool stays = bytes < 0.9 * (double)e->settled->memory.limit_bytes;
    const double once = pare__over(bytes, slow ? e->rate.read : pare__parallel(e, e->rate.read));
    const double again = slow && stays ? pare__over(bytes, pare__parallel(e, e->rate.copy)) : once;
    e->phase[PARE_PHASE_CHECK] = once + again + (slow && !stays ? once : 0) +
                                 pare__over(bytes, pare__parallel(e, e->rate.scan));
}

/* A thread of its own hashes beside everything else: on a CPU that would be idle only what is left
 * when the rest is done is waited for, else it takes its share of the CPUs. Behind all others. */
static void count_hashing(pare__estimate *e)
{
    const double bytes = (double)e->plan->input_bytes + (double)e->settled->packed_bytes;
    const double all = pare__over(bytes, e->rate.sha256);
    double rest = 0;
    for (size_t i = 0; i < PARE_PLAN_PHASES; i++)
        rest += i == PARE_PHASE_EVALUATE || i == PARE_PHASE_EXPORT ? 0 : e->phase[i];
    if ((double)pare_cpu_count() > e->threads)
        e->phase[PARE_PHASE_HASH] = all > rest ? all - rest : 0;
    else
        e->phase[PARE_PHASE_HASH] = pare__over(all, (double)pare_cpu_count());
}

/* Texts are read before the work, those of evaluations once more when their turn comes. */
static void count_tokens(pare__estimate *e)
{
    const pare_plan *const p = e->plan;
    const pare_calibration *const c = &p->recipe.calibration;
    double bytes = (double)p->data.text_bytes, loads = p->data.text_bytes ? 1 : 0;
    if (c->weight && p->data.text_bytes) {
        bytes *= (double)c->text.count;
        loads = (double)c->text.count;
    }
    for (size_t i = 0; i < p->recipe.evaluations; i++)
        if (!p->recipe.evaluation[i].tokens.text) {
            bytes += 2.0 * (double)p->data.evaluated_bytes[i];
            loads += 2;
        }
    double *const phase = &e->phase[PARE_PHASE_TOKENS];
    *phase = loads * e->rate.tokenizer + pare__over(bytes, e->rate.encode);
    if ((p->calibrated || p->held_out) && c->kind == PARE_CALIBRATION_GENERATE)
        /* token by token of 16 windows */
        *phase += (double)p->window * (double)((e->settled->samples + p->held_out + 15) / 16) *
                  pare__over((double)p->input_bytes, pare__parallel(e, e->rate.copy));
}

/* Operations in F32 that take as long as one in BF16 with what goes beside it, which stays as it
 * is. */
static double bf16_operations(const pare__estimate *e)
{
    return (pare__over(e->rate.gemm, e->rate.gemm_bf16) + PARE_BESIDE_PRODUCTS - 1) /
           PARE_BESIDE_PRODUCTS;
}

/* The same of the calibration, whose products may be in BF16: as operations in F32. */
static pare_status calibration_work(const pare__estimate *e, pare_site last, pare_work *w)
{
    const pare_plan *const p = e->plan;
    const double each = p->bf16 ? bf16_operations(e) : 1;
    PARE_TRY(pare__work_of(e, &p->model.config, p->window, last, w));
    for (size_t i = 0; i < PARE_WORK_PARTS; i++)
        w->products[i] *= each;
    return PARE_OK;
}

/* Forward passes of a token through the blocks, sites one by one: of the compressed model up to
 * each site with statistics, from the middle of the block where waves halt there, and to its end;
 * the same of the float model beside, which goes through each half once where waves halt. */
static pare_status sites_of(const pare__estimate *e, double whole, double *common)
{
    const pare_plan *const p = e->plan;
    pare_work before;
    double middle = 0, sites = 0;
    if (p->halves) {
        PARE_TRY(calibration_work(e, PARE_SITE_MLP, &before));
        middle = pare__common_of(&before);
    }
    for (pare_site s = 0; s < PARE_SITES; s++) {
        if (!p->kinds[s])
            continue;
        PARE_TRY(calibration_work(e, s, &before));
        sites += pare__common_of(&before) - (s >= PARE_SITE_MLP ? middle : 0);
    }
    *common = whole + sites;
    if (p->drift)
        *common += p->halves ? whole : whole + sites;
    return PARE_OK;
}

/* Tokens of the calibration that an expert sees: its share of them, and what fills them up. */
static double expert_tokens(const pare__estimate *e)
{
    const pare_config *const c = &e->plan->model.config;
    const double all = calibration_tokens(e);
    const double share = all * (double)c->experts_used / (double)c->experts;
    const double least = fmin((double)pare_plan_min_tokens(e->plan, e->settled), all);
    return e->plan->recipe.calibration.cold == PARE_COLD_RTN ? share : fmax(share, least);
}

/* The first block with experts in the recipe; 0: there is none. */
static size_t block_of_experts(const pare_plan *p)
{
    size_t i = 0;
    while (i < p->linears && !p->linear[i].part)
        i++;
    return i < p->linears ? p->linear[i].block : 0;
}

/* Passes of the wave for statistics of the experts of a block. `chunk` experts share one when all
 * their linears have statistics, more of them when some get too few tokens. */
static double expert_passes(const pare__estimate *e)
{
    const pare_plan *const p = e->plan;
    const pare_config *const c = &p->model.config;
    const uint64_t tokens = (uint64_t)expert_tokens(e);
    const size_t block = block_of_experts(p);
    unsigned kinds[PARE_SITES];
    for (unsigned s = 0; s < PARE_SITES; s++)
        kinds[s] = pare_need_is_hopeless(p, e->settled, block, 1, (pare_site)s, tokens)
                       ? 0
                       : p->expert_kinds[s];
    const double room =
        (double)e->settled->memory.chunk * (double)pare_stats_bytes(c, 1, p->expert_kinds);
    return room > 0 ? ceil((double)c->experts * (double)pare_stats_bytes(c, 1, kinds) / room) : 0;
}

/* Forward passes of a token: through part 0 of the blocks (statistics, outputs) and through the
 * experts; where they have statistics, a pass counts tokens and each chunk has its own. */
static pare_status passes_of(const pare__estimate *e, const pare_work *all, double *operations)
{
    const pare_plan *const p = e->plan;
    const double looks = p->ratios ? 1.0 : 0.0; /* at the float model, statistics included */
    const double each = p->sequential ? 2.0 : 1.0;
    const double whole = pare__common_of(all);
    double common = (p->drift ? 4.0 : p->floats_beside ? 3.0 : 2.0) * whole;
    bool counts = false;
    for (pare_site s = 0; s < PARE_SITES; s++)
        counts |= p->expert_kinds[s] != 0;
    if (p->sequential)
        PARE_TRY(sites_of(e, whole, &common));
    common += 2.0 * looks * whole;
    const double gathers = counts ? expert_passes(e) : 0;
    common += counts ? (1.0 + each * gathers) * whole : 0.0;
    *operations = common + (1.0 + (gathers > 0 ? each : 0.0)) * all->products[PARE_WORK_EXPERTS];
    return PARE_OK;
}

/* The file of drift of a sparing job is written behind each share of the windows, and once more; it
 * is read from memory where there is some left. */
static double spared_seconds(const pare__estimate *e)
{
    const double blocks = (double)e->plan->model.config.blocks, passes = PARE_SHARES + 1;
    return e->settled->memory.sparing
               ? pare__over(blocks * passes * (double)pare_plan_drift_file(e->plan), e->rate.write)
               : 0;
}

/* Passes of the wave, and statistics: half of k^2 per token and site, all of it for drift. For
 * token weights a block runs forward, and again on its way back, which takes as much as two; the
 * head forward and back. */
static pare_status count_passes(pare__estimate *e)
{
    const pare_plan *const p = e->plan;
    const double tokens = calibration_tokens(e);
    double forward;
    pare_work all;
    if (!p->calibrated)
        return PARE_OK;
    PARE_TRY(calibration_work(e, PARE_SITES, &all));
    PARE_TRY(passes_of(e, &all, &forward));
    const double weigh = 4.0 * (pare__common_of(&all) + all.products[PARE_WORK_EXPERTS]) +
                         2.0 * all.products[PARE_WORK_HEAD];
    if (p->token_weights)
        e->phase[PARE_PHASE_WEIGH] =
            PARE_BESIDE_PRODUCTS * pare__over(tokens * weigh, e->rate.gemm);
    const double walks = !p->training ? 1.0 : pare_plan_looks_first(p) + pare_plan_looks_later(p);
    e->phase[PARE_PHASE_WAVE] =
        walks * PARE_BESIDE_PRODUCTS * pare__over(tokens * forward, e->rate.gemm);
    e->phase[PARE_PHASE_STATS] = walks * pare__over(tokens * pare__plan_stats_flops(p),
                                                    p->bf16 ? e->rate.gram_bf16 : e->rate.gram) +
                                 spared_seconds(e);
    return PARE_OK;
}

/* Statistics out of a file: only what makes it. */
static pare_status count_calibration(pare__estimate *e)
{
    static const pare_plan_phase phase[] = {PARE_PHASE_WEIGH, PARE_PHASE_WAVE, PARE_PHASE_STATS};
    const pare_plan_kept *const kept = &e->plan->kept;
    if (!kept->used)
        return count_passes(e);
    if (!kept->made || pare_path_is_file(kept->path))
        return PARE_OK;
    pare_plan plan;
    pare__estimate stage = *e;
    pare_plan_stage(e->plan, &plan);
    stage.plan = &plan;
    PARE_TRY(count_passes(&stage));
    for (size_t i = 0; i < sizeof phase / sizeof *phase; i++)
        e->phase[phase[i]] = stage.phase[phase[i]];
    return PARE_OK;
}

static pare_pass_cost cost_of(const pare__estimate *e, size_t step, size_t n, size_t k)
{
    const pare_variants *const v = e->plan->job->variants;
    const pare_step *const s = v ? v->step : &e->plan->recipe.step[step];
    return pare_passes[s->pass]->cost(s->value, n, k, pare_threads(e->cx));
}

static double seconds_of(const pare__estimate *e, const pare_pass_cost *c, bool first)
{
    return pare__over(c->flops + c->search_flops + (first ? c->site_flops : 0), e->rate.gram) +
           pare__over(c->rounds, e->rate.round);
}

static void add_cost(pare__estimate *e, const pare_pass_cost *c, bool first)
{
    e->phase[PARE_PHASE_PASSES] += seconds_of(e, c, first);
}

/* Whether no linear before `i` of the same step reads the same input. */
static bool is_first(const pare_plan *p, size_t i)
{
    const pare_plan_linear *const l = &p->linear[i];
    for (size_t j = i; j-- > 0;) {
        const pare_plan_linear *const other = &p->linear[j];
        if (other->block != l->block || other->part != l->part)
            return true;
        if (other->step == l->step && pare_plan_site(p, other) == pare_plan_site(p, l))
            return false;
    }
    return true;
}

/* ZipLM: a sweep, which waits for memory rather than for products; H of the inputs of down; where
 * widths are chosen, a walk more, and tokens that are timed. */
static pare_status count_widths(pare__estimate *e)
{
    const pare_plan *const p = e->plan;
    const double k = (double)p->model.config.intermediate, flops = pare__plan_ziplm_flops(p);
    const double walks = pare_plan_searches(p) ? 2 : 1;
    pare_work all;
    if (flops <= 0)
        return PARE_OK;
    e->phase[PARE_PHASE_PASSES] += pare__over(SWEEP_SLOWER * flops, e->rate.gram);
    e->phase[PARE_PHASE_STATS] +=
        walks *
        pare__over(calibration_tokens(e) * (double)p->model.config.blocks * k * k, e->rate.gram);
    if (walks < 2)
        return PARE_OK;
    PARE_TRY(calibration_work(e, PARE_SITES, &all));
    const double forward = pare__common_of(&all), bytes = (double)p->input_bytes;
    e->phase[PARE_PHASE_WAVE] +=
        PARE_BESIDE_PRODUCTS *
        pare__over((2 * calibration_tokens(e) + TIMED_PROMPTS) * forward, e->rate.gemm);
    e->phase[PARE_PHASE_PASSES] +=
        TIMED_TOKENS * pare__over(bytes, pare__parallel(e, 2 * e->rate.read));
    return PARE_OK;
}

static void count_transforms(pare__estimate *e)
{
    const pare_plan *const p = e->plan;
    const pare_config *const c = &p->model.config;
    pare_settled settled = *e->settled;
    if (settled.samples == 0 && p->calibrated) /* all there are */
        settled.samples = (size_t)(calibration_tokens(e) / (double)p->window);
    for (size_t i = 0; i < p->transforms; i++) {
        const pare_pass_cost block = pare__plan_block_cost(e->cx, p, &settled, i);
        add_cost(e, &block, true);
        for (size_t role = 0; role < PARE_ROLES; role++) {
            size_t n, k;
            pare_block_shape(c, p->transform[i].block, 0, (pare_role)role, &n, &k);
            if (!(p->transform[i].roles & 1u << role))
                continue;
            const pare_pass_cost cost = cost_of(e, p->transform[i].step, n, k);
            add_cost(e, &cost, true);
        }
    }
}

/* Whether a step gives the linear its plain form, because too few tokens of the calibration reach
 * it. */
static bool is_thin(const pare__estimate *e, size_t step, const pare_plan_linear *l)
{
    const pare_plan *const p = e->plan;
    const pare_config *const c = &p->model.config;
    const size_t k = l->packed.k;
    const pare_step *const s = &p->recipe.step[step];
    if (!p->calibrated || p->kept.used || !pare_need_trusts(s))
        return false;
    const double tokens = l->part ? expert_tokens(e) : calibration_tokens(e);
    return pare_need_fresh(p, e->settled, (uint64_t)tokens) <
           pare_need_of(s, k, k, c->vocab).tokens;
}

/* What a step does to a linear: its plain form is rounding alone. */
static void add_step(pare__estimate *e, size_t step, const pare_plan_linear *l, bool first)
{
    pare_pass_cost cost = cost_of(e, step, l->packed.n, l->packed.k);
    if (is_thin(e, step, l))
        cost.flops = cost.site_flops = 0;
    add_cost(e, &cost, first);
}

/* Measuring what a step did to the outputs: two products of W and H. */
static double error_flops(const pare__estimate *e, const pare_plan_linear *l)
{
    const pare_plan *const p = e->plan;
    const unsigned *const kinds = l->part ? p->expert_kinds : p->kinds;
    const double n = (double)l->packed.n, k = (double)l->packed.k;
    const bool has = kinds[pare_plan_site(p, l)] & PARE_STATS_HESSIAN && !is_thin(e, l->step, l);
    return has ? 4.0 * n * k * k : 0;
}

static void count_linears(pare__estimate *e)
{
    const pare_plan *const p = e->plan;
    double *const store = &e->phase[PARE_PHASE_STORE];
    for (size_t i = 0; i < p->linears; i++) {
        const pare_plan_linear *const l = &p->linear[i];
        const size_t n = l->packed.n, k = l->packed.k;
        const double weights = (double)n * (double)k;
        const bool first = is_first(p, i), twice = l->pruned && l->prune_step != l->step;
        add_step(e, l->step, l, first);
        if (twice)
            add_step(e, l->prune_step, l, first);
        if (l->pruned && pare_plan_ratios(p, l->prune_step).rule == PARE_RATIOS_SEARCH)
            e->phase[PARE_PHASE_PASSES] +=
                pare__over(SEARCH_ERRORS * weights * (double)k, e->rate.gram);
        *store += pare__over(weights, e->rate.store) +
                  pare__over(l->pruned ? pruned_rounds * weights : 0, e->rate.round) +
                  pare__over((twice ? 2.0 : 1.0) * error_flops(e, l), e->rate.gram);
    }
    *store += pare__over((double)e->settled->packed_bytes,
                         e->rate.copy); /* tensors that stay as they are */
}

/* The embeddings and the head, quantized whole behind the blocks. */
static double tables_of(const pare__estimate *e)
{
    const pare_plan_tables *const tables = &e->plan->tables;
    double seconds = 0;
    for (size_t i = 0; i < tables->count; i++) {
        const pare_plan_table *const t = &tables->of[i];
        const pare_pass_cost cost = pare_passes[t->step->pass]->cost(
            t->step->value, t->packed.n, t->packed.k, pare_threads(e->cx));
        seconds += seconds_of(e, &cost, true);
    }
    return seconds;
}

/* What is held out is scored by both models in floats, before the training and behind it. */
static double training_scores(const pare__estimate *e, const pare_work *w)
{
    const pare_plan *const p = e->plan;
    const double tokens = 2.0 * (double)p->held_out * (double)p->window;
    const double products = 2 * (pare__common_of(w) + w->products[PARE_WORK_HEAD]);
    return PARE_BESIDE_PRODUCTS * pare__over(tokens * products, e->rate.gemm) +
           pare__over(tokens * (double)p->model.config.vocab, pare__parallel(e, e->rate.compare));
}

/* Of each token: both models forward, each block of one once more unless it was kept, and back to
 * its inputs and to its weights, which takes as much as two; the head forward twice and back once,
 * and once more to its weights where they are trained;
 * probabilities. Each step moves all weights; codes in place are chosen, decoded and undone. */
static pare_status count_training(pare__estimate *e)
{
    const pare_plan *const p = e->plan;
    const pare_config *const c = &p->model.config;
    const double steps = (double)p->train.schedule.steps;
    const double tokens = steps * (double)p->train.batch * (double)p->window;
    double weights = 0;
    pare_work w;
    if (!p->training)
        return PARE_OK;
    PARE_TRY(pare__work_of(e, c, p->window, PARE_SITES, &w));
    w.products[PARE_WORK_COMMON] += w.products[PARE_WORK_EXPERTS];
    for (size_t i = 0; i < p->linears; i++)
        weights += (pare_plan_aware(p, &p->linear[i]) ? 2.5 : 1.0) * (double)p->linear[i].packed.n *
                   (double)p->linear[i].packed.k;
    for (size_t i = 0; i < PARE_MODEL_LEAVES; i++) {
        const pare_leaf leaf = pare_plan_outside(p, &p->model, i);
        weights += (double)leaf.n * (double)leaf.k;
    }
    e->phase[PARE_PHASE_SCORE] = training_scores(e, &w);
    for (size_t i = 0; p->train.bf16 && i < PARE_WORK_PARTS; i++)
        w.products[i] *= bf16_operations(e);
    const double passes = e->settled->memory.keep ? 5 : 6;
    const double head = p->train.embeddings ? 4.0 : 3.0;
    const double products = passes * pare__common_of(&w) + head * w.products[PARE_WORK_HEAD];
    e->phase[PARE_PHASE_TRAIN] =
        PARE_BESIDE_PRODUCTS * pare__over(tokens * products, e->rate.gemm) +
        pare__over(2.0 * tokens * (double)c->vocab, pare__parallel(e, e->rate.compare)) +
        pare__over(2.0 * steps * weights, e->rate.round);
    return PARE_OK;
}

static void count_writing(pare__estimate *e)
{
    const pare_plan *const p = e->plan;
    e->phase[PARE_PHASE_WRITE] =
        pare__over((double)(e->settled->packed_bytes + e->settled->other_bytes), e->rate.write) +
        (BLOCK_SYNCS * (double)(p->out.blocks + 1) + END_SYNCS) * e->rate.sync;
}

/* Decoded and rounded anew, written, read back, decoded and compared. */
static void count_exports(pare__estimate *e)
{
    const pare_plan *const p = e->plan;
    double weights = 0;
    for (size_t i = 0; i < p->linears; i++)
        weights += (double)p->linear[i].packed.n * (double)p->linear[i].packed.k;
    for (size_t i = 0; i < p->exports; i++) {
        const double bytes = (double)p->export[i].result.bytes;
        e->phase[PARE_PHASE_EXPORT] +=
            pare__over(EXPORT_ROUNDS * weights, e->rate.round) +
            pare__over(EXPORT_STORES * weights, e->rate.store) + pare__over(bytes, e->rate.write) +
            pare__over(bytes, e->rate.sha256) +
            pare__over((double)e->settled->packed_bytes, e->rate.copy) + END_SYNCS * e->rate.sync;
    }
}

pare_status pare_plan_time_at(pare_ctx *cx, const pare_plan *plan, const pare_settled *settled,
                              const pare_plan_rates *rate, pare_plan_estimate *out)
{
    *out = (pare_plan_estimate){.seconds = 0};
    pare__estimate e = {.cx = cx,
                        .plan = plan,
                        .settled = settled,
                        .rate = *rate,
                        .threads = (double)pare_threads(cx),
                        .phase = out->phase,
                        .samples = &out->samples};
    count_checks(&e);
    count_tokens(&e);
    PARE_TRY(count_calibration(&e));
    count_linears(&e);
    count_transforms(&e);
    out->tables = tables_of(&e);
    out->phase[PARE_PHASE_PASSES] += out->tables;
    PARE_TRY(count_widths(&e));
    PARE_TRY(count_training(&e));
    count_writing(&e);
    PARE_TRY(pare__estimate_evaluations(&e));
    count_exports(&e);
    count_hashing(&e);
    for (size_t i = 0; i < PARE_PLAN_PHASES; i++)
        out->seconds += out->phase[i];
    memcpy(out->disk, rate->disk, sizeof out->disk);
    return PARE_OK;
}

void pare_plan_time_range(pare_plan_estimate *e, uint64_t load, uint64_t cpus, size_t threads)
{
    const double wanted = ((double)load + (double)threads) / (double)cpus;
    const double slowdown = wanted > 1 ? wanted : 1;
    e->least = 0.65 * e->seconds / slowdown;
    e->most = 1.6 * e->seconds;
    e->load = slowdown > 1.2 && load ? load : 0;
    e->cpus = cpus;
}

pare_status pare_plan_time(pare_ctx *cx, const pare_plan *plan, pare_plan_estimate *out)
{
    pare_plan_rates rate;
    const uint64_t load = pare_machine_number("/proc/loadavg", ""); /* of the last minute */
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    PARE_TRY(pare_plan_rates_measure(cx, plan, &rate));
    PARE_TRY(pare_plan_time_at(cx, plan, &plan->settled, &rate, out));
    pare_plan_time_range(out, load == UINT64_MAX ? 0 : load, cpus > 0 ? (uint64_t)cpus : 1,
                         pare_threads(cx));
    return PARE_OK;
}
