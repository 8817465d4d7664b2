/* A linear that process 0 gives away (compress/run/run_owner.h), where it goes to. */
#include <stdio.h>
#include <string.h>

#include "compress/run/run_internal.h"
#include "compress/run/run_owner.h"
#include "compress/run/run_serve.h"
#include "runtime/world.h"

static void get(const pare_ctx *cx, size_t from, void *bytes, size_t count)
{
    pare_world_receive(cx, from, bytes, count);
}

static pare_status quantize(pare_run *run, const pare_plan_linear *l, pare_site_stats *s,
                            pare_codes *codes, pare_solved *out)
{
    const pare_step *const step = &run->plan->recipe.step[l->step];
    const pare_pass *const pass = pare_passes[step->pass];
    pare_linear_result r = {.linear = l->packed, .block = l->block, .method = pass->name};
    pare_pass_linear linear = {.w = run->current.linear[l->role].floats,
                               .n = l->packed.n,
                               .k = l->packed.k,
                               .role = l->role,
                               .stats = s,
                               .h = s->h,
                               .outputs = pare__run_outputs(run, l),
                               .pruned = l->pruned,
                               .columns = l->packed.outliers,
                               .codes = codes,
                               .result = &r};
    r.support = s->support;
    if (pass->site) {
        const pare_status made =
            pass->site(run->cx, step->value, s, &run->scratch, &linear.site_state);
        if (made != PARE_OK)
            return pare_fail_context(run->cx, made, "statistics of the input of %s",
                                     l->packed.name);
    }
    const pare_status s2 = pare_pass_run(run->cx, pass, step->value, &linear, &run->scratch);
    if (s2 != PARE_OK)
        return pare_fail_context(run->cx, s2, "%s", l->packed.name);
    *out = (pare_solved){
        .damp = r.damp, .dead = r.dead, .raises = r.raises, .f64 = r.f64, .fallback = r.fallback};
    memcpy(out->note, linear.note, sizeof out->note);
    return PARE_OK;
}

static void send_codes(const pare_run *run, const pare_codes *codes)
{
    const size_t scales = codes->n * codes->groups;
    pare_world_send(run->cx, 0, codes->codes, codes->n * codes->k);
    pare_world_send(run->cx, 0, codes->scales, scales * sizeof *codes->scales);
    pare_world_send(run->cx, 0, codes->zeros, scales);
}

static void tell(const pare_run *run, pare_status s, pare_solved *o)
{
    o->status = (int32_t)s;
    if (s != PARE_OK)
        (void)snprintf(o->what, sizeof o->what, "%s",
                       run->cx->what[0] ? run->cx->what : pare_strstatus(s));
    pare_world_send(run->cx, 0, o, sizeof *o);
}

static void solve(pare_run *run, size_t i)
{
    const pare_plan_linear *const l = &run->settled.linear[i];
    const pare_site site = pare_plan_site(run->plan, l);
    pare_stats stats;
    pare_codes codes;
    pare_solved o = {0};
    unsigned char wanted = 0;
    pare_status s = pare__run_take_sites(run, 1u << site, &stats);
    tell(run, s, &o);
    if (s != PARE_OK)
        return;
    pare_world_receive(run->cx, 0, run->current.linear[l->role].floats,
                       l->packed.n * l->packed.k * sizeof(float));
    pare__owner_move_site(run->cx, get, 0, &stats.site[site]);
    pare__owner_move_outputs(run, get, 0, l->role);
    s = quantize(run, l, &stats.site[site], &codes, &o);
    tell(run, s, &o);
    if (s == PARE_OK)
        pare_world_receive(run->cx, 0, &wanted, sizeof wanted);
    if (wanted)
        send_codes(run, &codes);
    run->team.linears++;
}

void pare__run_solve(pare_run *run, size_t i)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    solve(run, i);
    pare_arena_rewind(&run->scratch, mark);
}
