#include "compress/cli/eval_needle.h"

#include <stdio.h>
#include <string.h>

#include "compress/cli/measure_steps.h"
#include "recipes/recipe.h"

enum { KEYS = 5 };

pare_status pare_eval_needle_options(pare_cli *cli, const pare_args *args, const char *command,
                                     pare_eval_needle *n)
{
    static const char *const needs[] = {"lengths", "keys"};
    pare_ctx *const cx = &cli->cx;
    uint64_t keys = KEYS;
    *n = (pare_eval_needle){.opts = {.file = pare_args_text(args, "needle")}};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (!n->opts.file && pare_args_given(args, needs[i]))
            return pare_fail(cx, PARE_EUSAGE, "%s: --%s needs --needle", command, needs[i]);
    PARE_TRY(pare_args_counts(
        cx, args, "lengths", "512,1024",
        (pare_counts){PARE_NEEDLE_LEAST, PARE_EVALUATION_LENGTH_MOST, PARE_NEEDLE_LENGTHS},
        n->opts.length, &n->opts.lengths));
    PARE_TRY(pare_args_count(cx, args, "keys", 1, PARE_NEEDLE_KEYS, &keys));
    PARE_TRY(pare_args_count(cx, args, "seed", 0, PARE_EVALUATION_SEED_MOST, &n->opts.seed));
    n->opts.keys = (size_t)keys;
    return PARE_OK;
}

static pare_status check_lengths(pare_cli *cli, const pare_loaded *l, const pare_needle_opts *o)
{
    const size_t context = l->model.config.context;
    for (size_t i = 0; i < o->lengths; i++)
        if (o->length[i] > context)
            return pare_fail(&cli->cx, PARE_EUSAGE,
                             "--lengths: the context of %s is %zu tokens, and a prompt of %zu is "
                             "asked for; give %zu or less",
                             l->checkpoint.path, context, o->length[i], context);
    return PARE_OK;
}

static pare_status choose_lengths(pare_cli *cli, const pare_loaded *l, pare_needle_opts *o)
{
    const size_t context = l->model.config.context;
    return pare_needle_choose(o, context)
               ? PARE_OK
               : pare_fail(&cli->cx, PARE_EUSAGE,
                           "--needle: its prompts have %d tokens at least, and the context of %s "
                           "is %zu",
                           PARE_NEEDLE_LEAST, l->checkpoint.path, context);
}

static pare_status load(pare_cli *cli, const pare_loaded *l, const pare_needle_opts *o,
                        pare_choice_item **item)
{
    pare_tokenizer *t;
    PARE_TRY(pare_checkpoint_tokenizer(&l->checkpoint, &t));
    const pare_status s = pare_needle_load(&cli->cx, &cli->arena, t, o, item);
    pare_tokenizer_free(t);
    pare_memory_trim();
    return s;
}

pare_status pare_eval_needle_check(pare_cli *cli, const pare_loaded *l, const pare_loaded *baseline,
                                   pare_eval_needle *n)
{
    const pare_loaded *const side[] = {l, baseline};
    if (!n->opts.file)
        return PARE_OK;
    const pare_loaded *least = l;
    if (baseline && baseline->model.config.context < l->model.config.context)
        least = baseline;
    if (!n->opts.lengths)
        PARE_TRY(choose_lengths(cli, least, &n->opts));
    for (size_t i = 0; i < 2 && side[i]; i++) {
        const pare_mark mark = pare_arena_mark(&cli->arena);
        pare_choice_item *item;
        PARE_TRY(check_lengths(cli, side[i], &n->opts));
        PARE_TRY(load(cli, side[i], &n->opts, &item));
        pare_arena_rewind(&cli->arena, mark);
    }
    return PARE_OK;
}

static pare_status ask(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                       const pare_needle_opts *o, pare_needle_figures *out, pare_figures *f)
{
    pare_choice_item *item;
    pare_status s;
    PARE_TRY(load(cli, l, o, &item));
    pare_measure_step(cli, m, l->checkpoint.path, "numbers hidden in ", o->file);
    do
        s = pare_needle_ask(&cli->cx, &cli->arena, &l->forward, item, o, out);
    while (pare_loaded_leave_device(cli, s, l, NULL));
    f->needle = out->all.n ? out : NULL;
    return s == PARE_OK || s == PARE_EINTERRUPTED
               ? s
               : pare_fail_context(&cli->cx, s, "%s: --needle", l->checkpoint.path);
}

pare_status pare_eval_needle_measure(pare_cli *cli, const pare_measure *m, pare_loaded *l,
                                     pare_loaded *baseline, pare_eval_needle *n, pare_figures *f,
                                     pare_figures *base)
{
    if (!n->opts.file)
        return PARE_OK;
    PARE_TRY(ask(cli, m, l, &n->opts, &n->f, f));
    const pare_status s = baseline ? ask(cli, m, baseline, &n->opts, &n->base, base) : PARE_OK;
    if (base->needle)
        pare_needle_pair(&n->base, &n->f);
    return s;
}

static void print_all(const char *name, const pare_needle_figures *f)
{
    (void)printf("%-17s ", name);
    pare_measure_print_share(pare_needle_share(f->all), pare_needle_error(f->all));
    (void)printf("   (%s, %zu prompt%s%s)\n", f->opts.file, f->all.n, pare_plural(f->all.n),
                 f->complete ? "" : ", interrupted");
}

/* "80%", or "-" for what was not asked. */
static void print_share(pare_needle_cell c)
{
    if (c.n)
        (void)printf(" %5.0f%%", pare_needle_share(c) * 100);
    else
        (void)printf("      -");
}

static void print_row(const char *title, const pare_needle_cell *cell)
{
    pare_needle_cell all = {0};
    (void)printf("  %-15s ", title);
    for (size_t d = 0; d < PARE_NEEDLE_DEPTHS; d++) {
        print_share(cell[d]);
        all.n += cell[d].n;
        all.right += cell[d].right;
    }
    print_share(all);
    (void)printf("\n");
}

void pare_eval_needle_print(const pare_eval_needle *n)
{
    const bool both = n->base.all.n > 0;
    if (!n->f.all.n)
        return;
    print_all("needle", &n->f);
    if (both)
        print_all("  baseline", &n->base);
    if (n->f.has_paired)
        (void)printf("  paired          %zu gained, %zu lost, p %.3f\n", n->f.paired.gained,
                     n->f.paired.lost, n->f.paired.p);
    (void)printf("  tokens, depth  ");
    for (size_t d = 0; d < PARE_NEEDLE_DEPTHS; d++)
        (void)printf(" %5zu%%", pare_needle_depth(d));
    (void)printf("    all\n");
    for (size_t i = 0; i < n->opts.lengths; i++) {
        char length[24];
        (void)snprintf(length, sizeof length, "%zu", n->opts.length[i]);
        print_row(length, n->f.cell + i * PARE_NEEDLE_DEPTHS);
        if (both)
            print_row("  baseline", n->base.cell + i * PARE_NEEDLE_DEPTHS);
    }
}
