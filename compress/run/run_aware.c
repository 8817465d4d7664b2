#include "compress/run/run_aware.h"

#include <string.h>

#include "compress/run/run_internal.h"
#include "quant/rtn.h"

pare_status pare__aware_steps_take(pare_run *run, const pare_plan_linear *l, float **steps)
{
    const size_t count = pare_plan_beside(run->plan, l);
    *steps = count ? PARE_NEW(&run->scratch, float, count) : NULL;
    return count && !*steps ? PARE_ENOMEM : PARE_OK;
}

void pare__aware_steps_of(const pare_codes *c, float *steps)
{
    const size_t count = c->n * c->groups;
    if (c->row_scales) {
        memcpy(steps, c->row_scales, c->n * sizeof *steps);
        memcpy(steps + c->n, c->column_scales, c->k * sizeof *steps);
        memcpy(steps + c->n + c->k, c->codes, c->n * c->k);
        return;
    }
    memcpy(steps, c->scales, count * sizeof *steps);
    for (size_t i = 0; i < count; i++)
        steps[count + i] = (float)c->zeros[i];
}

void pare__aware_steps_to(const float *steps, pare_codes *c)
{
    const size_t count = c->n * c->groups;
    if (c->row_scales) {
        memcpy(c->row_scales, steps, c->n * sizeof *steps);
        memcpy(c->column_scales, steps + c->n, c->k * sizeof *steps);
        memcpy(c->codes, steps + c->n + c->k, c->n * c->k);
        return;
    }
    memcpy(c->scales, steps, count * sizeof *steps);
    for (size_t i = 0; i < count; i++)
        c->zeros[i] = (uint8_t)steps[count + i];
}

pare_status pare__aware_codes(pare_run *run, const pare_plan_linear *l, const float *w,
                              const float *steps, pare_codes *out)
{
    const pare_grid grid = pare_plan_grid(run->plan, l);
    PARE_TRY(pare_codes_take(&run->scratch, &grid, l->packed.n, l->packed.k, out));
    pare__aware_steps_to(steps, out);
    if (!pare_aware_fixed(grid.encoding)) /* else the codes are among the steps */
        pare_rtn_codes(run->cx, &grid, w, out);
    return PARE_OK;
}

pare_status pare__aware_values(pare_run *run, const pare_plan_linear *l, const float *steps,
                               float *w)
{
    const pare_grid grid = pare_plan_grid(run->plan, l);
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_codes codes;
    const pare_status s = pare__aware_codes(run, l, w, steps, &codes);
    if (s == PARE_OK)
        pare_codes_values(&grid, &codes, w);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

void pare__aware_masters(pare_run *run, const pare_plan_linear *l, const pare_codes *c, float *w)
{
    const pare_grid grid = pare_plan_grid(run->plan, l);
    const uint8_t *const zero = l->pruned ? pare__run_part(run, l)->zero[l->role] : NULL;
    if (pare_aware_fixed(grid.encoding)) {
        pare_codes_values(&grid, c, w);
        return;
    }
    for (size_t i = 0; i < c->n * c->k; i++) {
        const size_t row = i / c->k, column = i % c->k;
        const size_t at = row * c->groups + (grid.group ? column / grid.group : 0);
        w[i] = zero && (zero[i / 8] >> i % 8 & 1)
                   ? 0
                   : pare_aware_master(&grid, w[i], c->codes[i], c->scales[at], c->zeros[at]);
    }
}

pare_status pare__aware_check(pare_run *run, const pare_plan_linear *l, const float *trained,
                              const float *q)
{
    const size_t k = l->packed.k;
    for (size_t i = 0; i < l->packed.n * k; i++)
        if (trained[i] != q[i])
            return pare_fail(run->cx, PARE_EINVAL,
                             "%s: weight [%zu, %zu] was trained as %.9g and is stored as %.9g; "
                             "this is a fault of pare",
                             l->packed.name, i / k, i % k, (double)trained[i], (double)q[i]);
    return PARE_OK;
}
