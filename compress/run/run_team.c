#include "compress/run/run_team.h"

#include <string.h>

#include "calib/shares.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_mixture.h"
#include "compress/run/run_original.h"
#include "compress/run/run_owner.h"
#include "compress/text/version.h"
#include "formats/hash.h"
#include "runtime/machine.h"
#include "runtime/world.h"

void pare__team_windows(const pare_run *run, size_t *first, size_t *end)
{
    pare_share_range(pare_world_size(run->cx), pare_world_rank(run->cx), first, end);
    *first = pare_share_begin(run->settled.samples, *first);
    *end = pare_share_begin(run->settled.samples, *end);
}

static bool leads(const pare_run *run)
{
    return pare_world_size(run->cx) > 1 && pare_world_rank(run->cx) == 0;
}

/* --- what is refused ---------------------------------------------------------------------------
 */

static const char *refused_step(const pare_plan *plan)
{
    for (size_t i = 0; i < plan->recipe.steps; i++) {
        const pare_pass *const pass = pare_passes[plan->recipe.step[i].pass];
        if (pass->transform && pass->transform->block)
            return pass->name;
        if (pare_plan_draws(plan, i) > 1)
            return "stability";
    }
    return NULL;
}

static bool trains_experts(const pare_plan *plan)
{
    bool any = false;
    for (size_t i = 0; plan->training && i < plan->linears; i++)
        any |= plan->linear[i].part > 0 && pare_plan_trains(plan, &plan->linear[i]);
    return any;
}

static const char *refused(const pare_plan *plan)
{
    return plan->structured         ? "structured pruning"
           : plan->ratios           ? "a choice that the float model makes first (ratios, columns)"
           : plan->job->variants    ? "a budget"
           : plan->job->share       ? "--share"
           : plan->recipe.fallbacks ? "fallback"
           : trains_experts(plan)   ? "training experts"
           : pare_plan_looks_at_head(plan)             ? "a head that is quantized by its inputs"
           : plan->recipe.nan != PARE_NAN_ERROR        ? "nan"
           : plan->recipe.kv.method == PARE_KV_KVQUANT ? "kv_cache: kvquant"
                                                       : refused_step(plan);
}

/* --- what is the same in all --------------------------------------------------------------------
 */

enum { PROGRAM, RECIPE, MODEL, STATISTICS, PARTS, HASH = 16 };

/* What a file of statistics says that messages depend on; nothing of one that the job makes. */
static void identify_statistics(const pare_plan *plan, uint8_t hash[HASH])
{
    const pare_calibration *const c = &plan->recipe.calibration;
    const bool given = plan->kept.used && !plan->kept.made;
    const uint64_t about[] = {plan->kept.about.samples, plan->window,
                              plan->token_weights,      plan->bf16,
                              (uint64_t)c->cold,        c->min_tokens};
    pare_xxh3(about, given ? sizeof about : 0, hash);
}

/* Files of a model by config.json and by their sizes: their bytes take too long. */
static void add_model(pare_xxh3_state *hash, const pare_checkpoint *ck)
{
    pare_xxh3_add(hash, ck->config_file.data, (size_t)ck->config_file.bytes);
    for (size_t i = 0; i < ck->files; i++)
        pare_xxh3_add(hash, &ck->file[i].bytes, sizeof ck->file[i].bytes);
}

/* Data of the recipe is left out, because process 0 sends it. */
static pare_status identify(pare_run *run, uint8_t hash[PARTS][HASH])
{
    pare_xxh3_state model;
    PARE_TRY(pare__run_identify(run));
    pare_xxh3(PARE_VERSION, strlen(PARE_VERSION), hash[PROGRAM]);
    pare_xxh3(run->recipe_portable, strlen(run->recipe_portable), hash[RECIPE]);
    pare_xxh3_begin(&model);
    add_model(&model, &run->plan->checkpoint);
    add_model(&model, pare__run_original_files(run));
    pare_xxh3_end(&model, hash[MODEL]);
    identify_statistics(run->plan, hash[STATISTICS]);
    return PARE_OK;
}

static pare_status compare(pare_run *run, uint8_t own[PARTS][HASH])
{
    static const struct {
        const char *name, *hint;
    } part[PARTS] = {
        [PROGRAM] = {"program", "start the same version of pare on all machines"},
        [RECIPE] = {"recipe", "give all machines the same recipe and options"},
        [MODEL] = {"model", "give all machines the same files of the model"},
        [STATISTICS] = {"file of statistics", "give all machines the same file for \"from\""}};
    uint8_t first[PARTS][HASH];
    memcpy(first, own, sizeof first);
    pare_world_broadcast(run->cx, first, sizeof first);
    for (size_t i = 0; i < PARTS; i++)
        if (memcmp(first[i], own[i], HASH) != 0)
            return pare_fail(run->cx, PARE_EUSAGE, "the %s here is not that of rank 0: %s",
                             part[i].name, part[i].hint);
    return PARE_OK;
}

static pare_status refuse(pare_run *run)
{
    const char *const what = refused(run->plan);
    return !what
               ? PARE_OK
               : pare_fail(run->cx, PARE_ENOTSUP, "%s: %zu processes cannot share this; start one",
                           what, pare_world_size(run->cx));
}

pare_status pare__team_check(pare_run *run, pare_status s)
{
    uint8_t hash[PARTS][HASH];
    if (pare_world_size(run->cx) == 1)
        return s;
    PARE_TRY(pare_world_agree(run->cx, s == PARE_OK ? refuse(run) : s));
    PARE_TRY(pare_world_agree(run->cx, identify(run, hash)));
    return pare_world_agree(run->cx, compare(run, hash));
}

/* --- orders ------------------------------------------------------------------------------------
 */

static void give(const pare_run *run, const pare_team_order *o)
{
    for (size_t r = 1; r < pare_world_size(run->cx); r++)
        pare_world_send(run->cx, r, o, sizeof *o);
}

void pare__team_stop(const pare_run *run, pare_status s)
{
    if (leads(run) && !run->cx->world->ended)
        give(run, &(pare_team_order){.op = PARE_TEAM_STOP, .status = (uint64_t) - (int64_t)s});
}

pare_status pare__team_begin(pare_run *run)
{
    const size_t samples = run->settled.samples;
    if (!leads(run))
        return PARE_OK;
    const size_t tokens = run->walk.calibrated ? samples * run->plan->window : 0;
    if (tokens && samples < PARE_SHARES)
        return pare_fail(run->cx, PARE_ENOTSUP,
                         "a calibration of %zu windows cannot be shared by processes: give %d "
                         "samples or more, or start one process",
                         samples, PARE_SHARES);
    give(run, &(pare_team_order){.op = PARE_TEAM_BEGIN,
                                 .keeps = run->walk.keeps,
                                 .front = run->walk.front,
                                 .trained = !run->walk.front && run->trained.map.data,
                                 .samples = samples,
                                 .fresh = run->settled.fresh,
                                 .tokens = tokens,
                                 .found = run->units.found});
    PARE_TRY(pare_world_agree(run->cx, PARE_OK)); /* there is room */
    if (tokens)
        pare_world_broadcast(run->cx, run->data.tokens.id, tokens * sizeof *run->data.tokens.id);
    for (size_t r = 1; r < pare_world_size(run->cx); r++) { /* experts that all have room for */
        uint64_t chunk;
        pare_world_receive(run->cx, r, &chunk, sizeof chunk);
        if (chunk < run->settled.memory.chunk)
            run->settled.memory.chunk = (size_t)chunk;
    }
    return PARE_OK;
}

/* The weights of the current block, and how much tokens count in it. */
void pare__team_spread(pare_run *run)
{
    const pare_config *const c = &run->model.config;
    for (size_t i = 0; i < PARE_OWN_LEAVES; i++) {
        const pare_leaf leaf = pare_block_leaf(c, &run->current, i);
        float *const x = leaf.name ? pare_leaf_floats(&leaf) : NULL;
        if (x)
            pare_world_broadcast(run->cx, x, leaf.n * leaf.k * sizeof *x);
    }
    if (run->weights.weight)
        pare_world_broadcast(run->cx, run->weights.weight,
                             PARE_SITES * run->weights.tokens * sizeof *run->weights.weight);
}

static pare_status give_block(pare_run *run, pare_team_order o)
{
    if (!leads(run))
        return PARE_OK;
    o.stored = run->experts.fresh_count;
    give(run, &o);
    pare__team_spread(run);
    return pare__mixture_spread(run, (size_t)o.stored, PARE_OK);
}

pare_status pare__team_block(pare_run *run, pare_team_op op, size_t block, unsigned active)
{
    return give_block(run, (pare_team_order){.op = op, .block = block, .active = active});
}

pare_status pare__team_experts(pare_run *run, size_t block, size_t first, size_t count,
                               unsigned active)
{
    return give_block(run, (pare_team_order){.op = PARE_TEAM_EXPERTS,
                                             .block = block,
                                             .first = first,
                                             .count = count,
                                             .active = active});
}

/* An order and the tokens that it is about. */
static pare_status give_tokens(const pare_run *run, const pare_tokens *tokens, pare_team_order o)
{
    if (!leads(run))
        return PARE_OK;
    o.tokens = tokens->count;
    give(run, &o);
    PARE_TRY(pare_world_agree(run->cx, PARE_OK)); /* there is room */
    pare_world_broadcast(run->cx, tokens->id, tokens->count * sizeof *tokens->id);
    return PARE_OK;
}

pare_status pare__team_text(const pare_run *run, const pare_tokens *tokens, size_t window, bool kl)
{
    return give_tokens(run, tokens,
                       (pare_team_order){.op = PARE_TEAM_EVALUATE, .window = window, .kl = kl});
}

pare_status pare__team_train(const pare_run *run)
{
    return give_tokens(run, &run->data.training, (pare_team_order){.op = PARE_TEAM_TRAIN});
}

void pare__team_linears(const pare_run *run, size_t to, size_t block, const pare_held *list)
{
    const pare_team_order o = {.op = PARE_TEAM_SOLVE, .block = block};
    pare_world_send(run->cx, to, &o, sizeof o);
    pare_world_send(run->cx, to, list, sizeof *list);
}

pare_status pare__team_end(const pare_run *run, pare_status s)
{
    return leads(run) ? pare_world_agree(run->cx, s) : s;
}

/* --- statistics --------------------------------------------------------------------------------
 */

/* Tokens that a part sees in front of a share. */
static uint64_t tokens_before(const pare_run *run, size_t part, size_t share)
{
    const uint64_t tokens =
        (uint64_t)pare_share_begin(run->settled.samples, share) * run->plan->window;
    if (part == 0)
        return tokens;
    const uint64_t others = pare__mixture_others(run, part, share);
    return tokens - others + pare_fill_among(&run->experts.fill[part], others);
}

static uint64_t tokens_of(const pare_run *run, size_t part, size_t share)
{
    return tokens_before(run, part, share + 1) - tokens_before(run, part, share);
}

pare_status pare__team_room(pare_run *run, const pare_stats_parts *parts, unsigned char **room)
{
    const size_t size = pare_world_size(run->cx), rank = pare_world_rank(run->cx);
    size_t first, end, bytes = 0;
    *room = NULL;
    if (size == 1)
        return PARE_OK;
    pare_share_range(size, rank, &first, &end);
    for (size_t p = 0; p < parts->parts; p++) {
        const size_t own = pare_stats_share_bytes(&parts->of[p]);
        bytes = rank > 0 ? bytes + own * (end - first) : own > bytes ? own : bytes;
    }
    *room = pare_arena_take_raw(&run->scratch, bytes, 1);
    if (!*room)
        return PARE_ENOMEM;
    unsigned char *at = *room;
    for (size_t p = 0; rank > 0 && p < parts->parts; p++) {
        pare_stats *const stats = &parts->of[p];
        pare_stats_share_begin(stats, tokens_before(run, parts->first + p, first));
        stats->kept = at;
        at += pare_stats_share_bytes(stats) * (end - first);
    }
    return PARE_OK;
}

/* The shares of a process, in order. */
static pare_status receive_shares(pare_run *run, size_t rank, pare_stats_parts *parts,
                                  unsigned char *room)
{
    const pare_tap tap = pare_stats_tap_parts(parts);
    size_t share, end;
    pare_status s = PARE_OK;
    pare_share_range(pare_world_size(run->cx), rank, &share, &end);
    for (; share < end; share++) {
        for (size_t p = 0; p < parts->parts; p++) {
            pare_stats *const stats = &parts->of[p];
            pare_world_receive(run->cx, rank, room, pare_stats_share_bytes(stats));
            if (s == PARE_OK)
                s = pare_stats_share_put(stats, room, tokens_of(run, parts->first + p, share));
        }
        tap.share(tap.self, share + 1 == PARE_SHARES);
    }
    return s;
}

static void send_shares(const pare_run *run, const pare_stats_parts *parts, size_t shares,
                        const unsigned char *room)
{
    for (size_t share = 0; share < shares; share++) {
        const unsigned char *at = room;
        for (size_t p = 0; p < parts->parts; p++) {
            const size_t bytes = pare_stats_share_bytes(&parts->of[p]);
            pare_world_send(run->cx, 0, at + share * bytes, bytes);
            at += shares * bytes;
        }
    }
}

pare_status pare__team_join(pare_run *run, pare_stats_parts *parts, unsigned char *room,
                            pare_status s)
{
    const size_t size = pare_world_size(run->cx), rank = pare_world_rank(run->cx);
    size_t share, end;
    PARE_TRY(pare_world_agree(run->cx, s));
    if (size == 1)
        return PARE_OK;
    pare_share_range(size, rank, &share, &end);
    if (rank > 0)
        send_shares(run, parts, end - share, room);
    for (size_t r = 1; rank == 0 && r < size; r++) {
        const pare_status part = receive_shares(run, r, parts, room);
        s = s == PARE_OK ? part : s;
    }
    return s;
}

/* --- figures -----------------------------------------------------------------------------------
 */

pare_report_rank pare__team_own_figures(const pare_run *run)
{
    return (pare_report_rank){.windows = run->team.windows,
                              .linears = run->team.linears,
                              .seconds =
                                  run->team.seconds + (leads(run) ? run->calibration_seconds : 0),
                              .peak_bytes = pare_machine_peak_resident()};
}

pare_status pare__team_figures(pare_run *run, const pare_report_rank **rank, size_t *count)
{
    *count = 0;
    if (!leads(run))
        return PARE_OK;
    pare_report_rank *const all = PARE_NEW(run->a, pare_report_rank, pare_world_size(run->cx));
    if (!all)
        return PARE_ENOMEM;
    give(run, &(pare_team_order){.op = PARE_TEAM_FIGURES});
    all[0] = pare__team_own_figures(run);
    for (size_t r = 1; r < pare_world_size(run->cx); r++)
        pare_world_receive(run->cx, r, &all[r], sizeof *all);
    *rank = all;
    *count = pare_world_size(run->cx);
    return PARE_OK;
}
