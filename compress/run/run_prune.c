/* Pruning steps of a block, the zeros they leave, and the storage of what nobody quantizes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/artifact/sparsity_text.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_owner.h"
#include "quant/matrix_error.h"
#include "runtime/machine.h"

static const char *pass_name(const pare_run *run, size_t step)
{
    return pare_passes[run->plan->recipe.step[step].pass]->name;
}

pare_status pare__run_prune_take(pare_run *run, pare_run_part *to, size_t part)
{
    const pare_config *const c = &run->model.config;
    for (size_t role = 0; run->plan->pruned && role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, part, (pare_role)role, &n, &k);
        to->zero[role] = PARE_NEW(&run->stage, uint8_t, n * k / 8 + 1);
        if (!to->zero[role])
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

/* First group of N:M columns that keeps more than it may; false: none does. */
static bool overfull(const pare_sparsity *s, const float *w, size_t n, size_t k, size_t *at)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j += s->of) {
            const size_t width = k - j < s->of ? k - j : s->of;
            const size_t most = (s->keep * width + s->of - 1) / s->of;
            size_t kept = 0;
            for (size_t c = 0; c < width; c++)
                kept += w[i * k + j + c] != 0;
            *at = i * k + j;
            if (kept > most)
                return true;
        }
    return false;
}

uint64_t pare__run_nonzero(const float *w, size_t count)
{
    uint64_t kept = 0;
    for (size_t i = 0; i < count; i++)
        kept += w[i] != 0;
    return kept;
}

pare_status pare__run_freeze(pare_run *run, const pare_plan_linear *l, const float *w)
{
    const pare_sparsity *const s = &l->sparsity;
    const size_t n = l->packed.n, k = l->packed.k;
    const char *const pass = pass_name(run, l->prune_step);
    const uint64_t kept = pare__run_nonzero(w, n * k), most = pare_sparsity_kept(s, n, k);
    size_t at = 0;
    if (kept > most)
        return pare_fail(run->cx, PARE_EINVAL,
                         "%s: %s: %llu weights are not 0 and the plan keeps %llu; this is a fault "
                         "of the pass",
                         pass, l->packed.name, (unsigned long long)kept, (unsigned long long)most);
    if (s->of && overfull(s, w, n, k, &at))
        return pare_fail(run->cx, PARE_EINVAL,
                         "%s: %s: row %zu keeps more than %u of %u weights from column %zu on; "
                         "this is a fault of the pass",
                         pass, l->packed.name, at / k, s->keep, s->of, at % k);
    uint8_t *const zero = pare__run_part(run, l)->zero[l->role];
    memset(zero, 0, n * k / 8 + 1);
    for (size_t i = 0; i < n * k; i++)
        zero[i / 8] |= (uint8_t)((w[i] == 0) << i % 8);
    pare__run_part(run, l)->frozen[l->role] = true;
    return PARE_OK;
}

pare_status pare__run_check_zeros(pare_run *run, const pare_plan_linear *l, const float *w,
                                  size_t step)
{
    const pare_run_part *const part = pare__run_part(run, l);
    const uint8_t *const zero = part->zero[l->role];
    if (!l->pruned || !part->frozen[l->role])
        return PARE_OK;
    for (size_t i = 0; i < l->packed.n * l->packed.k; i++)
        if ((zero[i / 8] >> i % 8 & 1) && w[i] != 0)
            return pare_fail(run->cx, PARE_EINVAL,
                             "%s: %s: weight [%zu, %zu] was pruned by %s and is %g now; this is a "
                             "fault of the pass: pruned weights stay 0",
                             pass_name(run, step), l->packed.name, i / l->packed.k, i % l->packed.k,
                             pass_name(run, l->prune_step), (double)w[i]);
    return PARE_OK;
}

pare_status pare__run_check_block(pare_run *run, size_t block, size_t step)
{
    size_t i, end;
    for (pare_plan_range(run->plan, block, 0, &i, &end); i < end; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        PARE_TRY(pare__run_check_zeros(run, l, run->current.linear[l->role].floats, step));
    }
    return PARE_OK;
}

/* What the step cost: of the weights it found, and all steps so far against the float model. */
static pare_status account(pare_run *run, const pare_plan_linear *l, const float *before,
                           const float *h, const char note[PARE_NOTE])
{
    const size_t n = l->packed.n, k = l->packed.k, role = l->role;
    pare_run_part *const part = pare__run_part(run, l);
    const float *const w = part->linear[role].floats;
    const float *const reference = part->reference[role].floats;
    double own[2];
    pare_matrix_errors(run->cx, before, w, reference, h, n, k, own);
    if (part->done_count[role])
        pare_matrix_errors(run->cx, reference, w, reference, h, n, k, part->done_error[role]);
    else
        memcpy(part->done_error[role], own, sizeof own);
    pare_step_result *const to = &part->done[role][part->done_count[role]++];
    *to = (pare_step_result){.step = (unsigned)l->prune_step,
                             .pass = pass_name(run, l->prune_step),
                             .weight_error = own[0],
                             .output_error = own[1]};
    char pattern[PARE_SPARSITY_TEXT];
    const pare_pass_ratios ratios = pare_plan_ratios(run->plan, l->prune_step);
    (void)snprintf(to->note, sizeof to->note, "%.*s%s%s", PARE_NOTE - 12,
                   note[0] ? note : pare_sparsity_text(&l->sparsity, pattern),
                   ratios.rule == PARE_RATIOS_UNIFORM ? "" : " by ",
                   ratios.rule == PARE_RATIOS_UNIFORM ? "" : pare_ratio_rule_name(ratios.rule));
    return PARE_OK;
}

static void tell_ladder(pare_run *run, const pare_plan_linear *l, const pare_linear_result *r)
{
    if (r->fallback)
        pare__notify(run, PARE_EVENT_NOTICE,
                     "%s: no factor of the Hessian at any damping; %s pruned without compensation",
                     l->packed.name, pass_name(run, l->prune_step));
    else if (r->f64 || r->raises)
        pare__notify(run, PARE_EVENT_NOTICE, "%s: the Hessian needed damping %g (%u raises%s)",
                     l->packed.name, r->damp, r->raises, r->f64 ? ", double precision" : "");
}

pare_status pare__run_prune(pare_run *run, const pare_plan_linear *l, void *site_state,
                            const pare_site_stats *stats)
{
    const double start = pare_seconds();
    const pare_step *const step = &run->plan->recipe.step[l->prune_step];
    const pare_pass *const pass = pare_passes[step->pass];
    const size_t n = l->packed.n, k = l->packed.k;
    pare_run_part *const part = pare__run_part(run, l);
    pare_linear_result *const r = &part->pruning[l->role];
    float *const w = part->linear[l->role].floats;
    float *const before = PARE_NEW(&run->scratch, float, n *k);
    if (!before)
        return PARE_ENOMEM;
    memcpy(before, w, n * k * sizeof *w);
    *r = (pare_linear_result){.linear = l->packed, .block = l->block, .method = pass->name};
    pare_pass_linear linear = {.w = w,
                               .n = n,
                               .k = k,
                               .role = l->role,
                               .stats = stats,
                               .h = stats->h,
                               .site_state = site_state,
                               .sparsity = &l->sparsity,
                               .result = r};
    const pare_hand *const hand = pare__owner_hand(run, l);
    if (hand) {
        pare__owner_pruned(hand, &linear);
    } else {
        const pare_status s = pass->pruner->prune(run->cx, step->value, &linear, &run->scratch);
        if (s != PARE_OK)
            return pare_fail_context(run->cx, s, "%s", l->packed.name);
        run->team.linears++;
    }
    PARE_TRY(pare__run_freeze(run, l, w));
    PARE_TRY(account(run, l, before, stats->identity ? NULL : stats->h, linear.note));
    tell_ladder(run, l, r);
    r->seconds = pare_seconds() - start;
    return PARE_OK;
}

void pare__run_add_pruning(const pare_run_part *part, const pare_plan_linear *l,
                           pare_linear_result *r)
{
    const pare_linear_result *const p = &part->pruning[l->role];
    r->pruned = l->pruned;
    r->stability = part->stability[l->role];
    r->fallback |= p->fallback;
    r->f64 |= p->f64;
    r->raises = p->raises > r->raises ? p->raises : r->raises;
    r->damp = r->damp > 0 ? r->damp : p->damp;
    r->dead = p->dead > r->dead ? p->dead : r->dead;
    r->seconds += p->seconds;
}

pare_status pare__run_round_f16(pare_run *run, const pare_plan_linear *l, float *w)
{
    const size_t count = l->packed.n * l->packed.k;
    pare_tensor t = {.name = l->packed.name, .dtype = PARE_F16, .rank = 1, .shape = {count}};
    PARE_TRY(pare_tensor_bytes(t.dtype, t.rank, t.shape, &t.bytes));
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(w[i]) < 65520.0F)) /* the first that rounds to infinity */
            return pare_fail(run->cx, PARE_ENUMERIC,
                             "%s: weight [%zu, %zu] is %g after pruning, and F16 ends at 65504; "
                             "quantize this linear, or leave it out with skip",
                             l->packed.name, i / l->packed.k, i % l->packed.k, (double)w[i]);
    const pare_mark mark = pare_arena_mark(&run->scratch);
    uint16_t *const half = PARE_NEW(&run->scratch, uint16_t, count);
    pare_status s = half ? pare_f32_to_dtype(run->cx, PARE_F16, w, count, half) : PARE_ENOMEM;
    t.data = half;
    if (s == PARE_OK)
        s = pare_tensor_to_f32(run->cx, &t, 0, count, w);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}
