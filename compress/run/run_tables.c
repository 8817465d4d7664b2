/* The embeddings and the head, where the recipe quantizes them: whole, behind the blocks. */
#include <stdio.h>

#include "compress/run/run_internal.h"
#include "quant/matrix_error.h"
#include "runtime/linear.h"
#include "runtime/machine.h"

static const pare_linear *original_of(const pare_run *run, const pare_plan_table *t)
{
    return t->which == PARE_TABLE_HEAD ? &run->model.head : &run->model.embed;
}

static pare_status pack(pare_run *run, const pare_plan_table *t, float *w, pare_codes *codes,
                        pare_packed_planes *planes, pare_linear_result *r)
{
    const pare_pass *const pass = pare_passes[t->step->pass];
    pare_pass_linear linear = {.w = w,
                               .n = t->packed.n,
                               .k = t->packed.k,
                               .role = PARE_ROLES,
                               .codes = codes,
                               .result = r};
    pare_status s = pare_pass_run(run->cx, pass, t->step->value, &linear, &run->scratch);
    if (s == PARE_OK)
        s = pare_packed_pack(run->cx, &run->scratch, &t->packed, codes, planes);
    if (s != PARE_OK)
        return pare_fail_context(run->cx, s, "%s", t->packed.name);
    (void)snprintf(r->step[0].note, PARE_NOTE, "%s", linear.note);
    return PARE_OK;
}

static pare_status quantize(pare_run *run, const pare_plan_table *t, pare_linear_result *r)
{
    const double start = pare_seconds();
    const size_t n = t->packed.n, k = t->packed.k;
    const char *const pass = pare_passes[t->step->pass]->name;
    float *const w = pare_arena_take_raw(&run->scratch, n * k, sizeof *w);
    float *const q = pare_arena_take_raw(&run->scratch, n * k, sizeof *q);
    pare_codes codes = {0};
    pare_packed_planes planes;
    pare_linear view;
    double error[2];
    if (!w || !q)
        return PARE_ENOMEM;
    *r = (pare_linear_result){
        .linear = t->packed, .block = run->plan->out.blocks, .tokens = -1, .method = pass};
    pare_ctx_progress(run->cx, "quantizing", 0, 1);
    pare_linear_to_f32(run->cx, original_of(run, t), w);
    PARE_TRY(pack(run, t, w, &codes, &planes, r));
    PARE_TRY(pare_packed_view(run->cx, &run->scratch, &t->packed, planes.plane, &view));
    pare_linear_to_f32(run->cx, &view, q);
    pare_linear_to_f32(run->cx, original_of(run, t), w); /* the pass may have changed it */
    PARE_TRY(pare__run_coarse(run, &t->packed, &codes, w, q, NULL, r));
    pare_matrix_errors(run->cx, w, q, w, NULL, n, k, error);
    PARE_TRY(pare__run_planes_put(run, &planes, t->packed.name, r->hash));
    r->weight_error = error[0];
    r->output_error = error[1];
    r->zeros = 1 - (double)pare__run_nonzero(q, n * k) / ((double)n * (double)k);
    r->step[0].step = (unsigned)run->plan->recipe.steps;
    r->step[0].pass = pass;
    r->step[0].weight_error = error[0];
    r->step[0].output_error = error[1];
    r->steps = 1;
    r->bits_per_weight = 8.0 * (double)planes.bytes.total / ((double)n * (double)k);
    r->seconds = pare_seconds() - start;
    return PARE_OK;
}

pare_status pare__run_tables(pare_run *run, pare_unit_result *unit)
{
    const pare_plan_tables *const tables = &run->plan->tables;
    unit->row = PARE_NEW(run->a, pare_linear_result, tables->count);
    if (!unit->row)
        return PARE_ENOMEM;
    for (size_t i = 0; i < tables->count; i++) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = quantize(run, &tables->of[i], &unit->row[i]);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
        unit->rows++;
    }
    return PARE_OK;
}
