#include "compress/cli/compare_answers.h"

#include <string.h>

#include "compress/cli/measure_steps.h"

pare_status pare_compare_answers_options(pare_cli *cli, const pare_args *args,
                                         const pare_measure *m, size_t models,
                                         pare_compare_answers *a)
{
    *a = (pare_compare_answers){.needle = PARE_NEW(&cli->arena, pare_eval_needle, models),
                                .continued = PARE_NEW(&cli->arena, pare_eval_continue, models),
                                .models = models};
    if (!a->needle || !a->continued)
        return PARE_ENOMEM;
    PARE_TRY(pare_eval_needle_options(cli, args, "compare", &a->needle[0]));
    return pare_eval_continue_options(cli, args, "compare", m, &a->continued[0]);
}

void pare_compare_answers_expect(pare_measure *m, const pare_compare_answers *a, size_t i)
{
    const pare_continue_opts *const c = &a->continued[0].opts;
    if (a->needle[0].opts.file)
        pare_measure_expect_needle(m, &a->needle[0].opts);
    if (c->prompts)
        pare_measure_expect_continue(m, (i ? 2 : 1) * c->prompts, c->most);
}

pare_status pare_compare_answers_check(pare_cli *cli, const pare_measure *m, const pare_loaded *l,
                                       pare_compare_answers *a)
{
    PARE_TRY(pare_eval_needle_check(cli, l, NULL, &a->needle[0]));
    return pare_eval_continue_check(cli, m, l, NULL, &a->continued[0]);
}

pare_status pare_compare_answers_take(pare_cli *cli, pare_compare_answers *a)
{
    const pare_needle_opts *const o = &a->needle[0].opts;
    a->cells = o->lengths * PARE_NEEDLE_DEPTHS;
    a->cell = PARE_NEW(&cli->arena, pare_needle_cell, a->models * a->cells);
    for (size_t i = 1; i < a->models; i++) {
        a->needle[i] = a->needle[0];
        a->continued[i] = a->continued[0];
    }
    return a->cell ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_compare_answers_needle(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                                        size_t i, pare_compare_answers *a, pare_figures *f)
{
    pare_eval_needle *const n = &a->needle[i];
    pare_figures none = {0};
    const pare_status s = pare_eval_needle_measure(cli, m, l, NULL, n, f, &none);
    if (!f->needle)
        return s;
    if (i && a->needle[0].f.verdict)
        pare_needle_pair(&a->needle[0].f, &n->f);
    if (i) {
        memcpy(a->cell + i * a->cells, n->f.cell, a->cells * sizeof *a->cell);
        n->f.cell = a->cell + i * a->cells;
        n->f.verdict = NULL;
    }
    return s;
}

pare_status pare_compare_answers_continue(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                                          pare_loaded *original, size_t i, pare_compare_answers *a,
                                          pare_figures *f)
{
    pare_figures none = {0};
    return pare_eval_continue_measure(cli, m, l, i ? original : NULL, &a->continued[i], f, &none);
}
