#include "compress/evaluate/needle.h"

#include <math.h>

bool pare_needle_choose(pare_needle_opts *opts, size_t context)
{
    enum { FIRST = 512, LAST = 4096 };
    for (size_t length = FIRST; length <= LAST && length <= context; length *= 2)
        opts->length[opts->lengths++] = length;
    if (!opts->lengths && context >= PARE_NEEDLE_LEAST)
        opts->length[opts->lengths++] = context;
    return opts->lengths > 0;
}

size_t pare_needle_depth(size_t depth)
{
    return depth * 100 / (PARE_NEEDLE_DEPTHS - 1);
}

size_t pare_needle_items(const pare_needle_opts *opts)
{
    return opts->lengths * PARE_NEEDLE_DEPTHS * opts->keys;
}

double pare_needle_share(pare_needle_cell c)
{
    return c.n ? (double)c.right / (double)c.n : NAN;
}

double pare_needle_error(pare_needle_cell c)
{
    const double share = pare_needle_share(c);
    return c.n > 1 ? sqrt(share * (1 - share) / (double)(c.n - 1)) : NAN;
}

/* The only choice of an item always is the best one: what counts is whether its tokens are. */
static void count(pare_needle_figures *f, const bool *greedy)
{
    for (size_t i = 0; i < pare_needle_items(&f->opts); i++) {
        pare_needle_cell *const c = &f->cell[i / f->opts.keys];
        const bool was = (f->verdict[i] & PARE_CHOICE_ASKED) != 0, right = was && greedy[i];
        f->verdict[i] = was ? PARE_CHOICE_ASKED | (right ? PARE_CHOICE_RIGHT : 0) : 0;
        c->n += was;
        c->right += right;
        f->all.n += was;
        f->all.right += right;
    }
}

pare_status pare_needle_ask(pare_ctx *cx, pare_arena *a, const pare_forward *f,
                            pare_choice_item *item, const pare_needle_opts *opts,
                            pare_needle_figures *out)
{
    const size_t items = pare_needle_items(opts);
    bool *const greedy = PARE_NEW(a, bool, items);
    pare_choice_result result;
    *out = (pare_needle_figures){.opts = *opts};
    out->verdict = PARE_NEW(a, unsigned char, items);
    out->cell = PARE_NEW(a, pare_needle_cell, opts->lengths * PARE_NEEDLE_DEPTHS);
    if (!greedy || !out->verdict || !out->cell)
        return PARE_ENOMEM;
    for (size_t i = 0; i < items; i++) {
        item[i].greedy = &greedy[i];
        item[i].verdict = &out->verdict[i];
    }
    const pare_status s = pare_evaluate_choice(cx, f, item, items, &result);
    out->complete = s == PARE_OK;
    if (s == PARE_OK || s == PARE_EINTERRUPTED)
        count(out, greedy);
    return s;
}

void pare_needle_pair(const pare_needle_figures *baseline, pare_needle_figures *out)
{
    out->has_paired = true;
    out->paired = pare_choice_paired(out->verdict, baseline->verdict, pare_needle_items(&out->opts),
                                     PARE_CHOICE_RIGHT);
}

static void put_cells(pare_json_writer *w, const pare_needle_figures *f)
{
    pare_json_open_array(w, "cells");
    for (size_t i = 0; i < f->opts.lengths * PARE_NEEDLE_DEPTHS; i++) {
        if (!f->cell[i].n)
            continue;
        pare_json_open_object(w, NULL);
        pare_json_put_integer(w, "length", (int64_t)f->opts.length[i / PARE_NEEDLE_DEPTHS]);
        pare_json_put_integer(w, "depth", (int64_t)pare_needle_depth(i % PARE_NEEDLE_DEPTHS));
        pare_json_put_integer(w, "n", (int64_t)f->cell[i].n);
        pare_json_put_finite(w, "accuracy", pare_needle_share(f->cell[i]));
        pare_json_close(w);
    }
    pare_json_close(w);
}

void pare_needle_put(pare_json_writer *w, const pare_needle_figures *f)
{
    const double error = pare_needle_error(f->all);
    pare_json_open_object(w, "needle");
    pare_json_put_text(w, "file", f->opts.file);
    pare_json_put_integer(w, "keys", (int64_t)f->opts.keys);
    pare_json_put_integer(w, "seed", (int64_t)f->opts.seed);
    pare_json_put_integer(w, "n", (int64_t)f->all.n);
    if (!f->complete)
        pare_json_put_bool(w, "complete", false);
    pare_json_put_finite(w, "accuracy", pare_needle_share(f->all));
    if (isfinite(error))
        pare_json_put_finite(w, "stderr", error);
    if (f->has_paired) {
        pare_json_open_object(w, "paired");
        pare_json_put_integer(w, "gained", (int64_t)f->paired.gained);
        pare_json_put_integer(w, "lost", (int64_t)f->paired.lost);
        pare_json_put_finite(w, "p", f->paired.p);
        pare_json_close(w);
    }
    put_cells(w, f);
    pare_json_close(w);
}
