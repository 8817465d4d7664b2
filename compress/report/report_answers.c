/* What both models answer: numbers hidden in a text, and how they continue it. */
#include <math.h>

#include "compress/report/report_internal.h"

/* A figure of a continuation, as a table has it; blank where nothing was measured. */
typedef struct figure {
    const char *name, *unit;
    double before, after, scale;
} figure;
enum { FIGURES = 3 };

static void figures_of(const pare_report_eval *e, figure out[FIGURES])
{
    const pare_continue_means is = pare_continue_means_of(&e->continued[0]),
                              was = pare_continue_means_of(&e->continued[1]);
    out[0] = (figure){"mean length, tokens", "", was.length, is.length, 1};
    out[1] = (figure){"never ended", "%", was.endless, is.endless, 100};
    out[2] = (figure){"4-grams repeated", "%", was.repeated, is.repeated, 100};
}

/* How the continuations differ: of those after alone. */
static void apart_of(const pare_report_eval *e, figure out[FIGURES])
{
    const pare_continue_means m = pare_continue_means_of(&e->continued[0]);
    out[0] = (figure){"the same as before", "%", NAN, m.same, 100};
    out[1] = (figure){"the others agree for, tokens", "", NAN, m.first_apart, 1};
    out[2] = (figure){"lengths differ by, tokens", "", NAN, m.length_apart, 1};
}

static void put_number(pare_text_out *t, double value, double scale, const char *unit)
{
    if (isfinite(value))
        pare__text_put(t, "%.1f%s", value * scale, unit);
    else
        pare__text_put(t, "-");
}

static void put_shares(pare_text_out *t, pare_needle_cell was, pare_needle_cell is,
                       const char *sign, const char *between)
{
    pare__text_put_share(t, pare_needle_share(was), sign, pare_needle_error(was));
    pare__text_put(t, "%s", between);
    pare__text_put_share(t, pare_needle_share(is), sign, pare_needle_error(is));
}

static void put_prompts(pare_text_out *t, const pare_report_eval *e)
{
    char notes[PARE_REPORT_NOTES];
    const pare_continue_figures *const f = &e->continued[0];
    const size_t n = e->kind == PARE_EVALUATE_NEEDLE ? e->needle_after.all.n : f->prompts;
    pare__text_put_html(t, e->data);
    pare__text_put(t, ", %zu prompt%s", n, pare_plural(n));
    if (e->kind == PARE_EVALUATE_CONTINUATIONS)
        pare__text_put(t, " of %zu tokens, at most %zu more, temperature %g",
                       pare_continue_prompt(f->opts.window), f->opts.most, f->opts.temperature);
    pare__text_put(t, "%s", pare_report_notes(e, ", ", notes));
}

/* How the continuations differ. */
static void put_apart(pare_text_out *t, const pare_report_eval *e)
{
    const pare_continue_means m = pare_continue_means_of(&e->continued[0]);
    put_number(t, m.same, 100, "%");
    pare__text_put(t, " are the same, the others agree for ");
    put_number(t, m.first_apart, 1, "");
    pare__text_put(t, " tokens; lengths differ by ");
    put_number(t, m.length_apart, 1, "");
}

void pare__report_answers_badge(pare_text_out *t, const pare_report_eval *e)
{
    pare__text_put(t, "<div class=\"card\">");
    if (e->kind == PARE_EVALUATE_NEEDLE) {
        const pare_paired *const p = &e->needle_after.paired;
        pare__text_put(t, "needle: numbers found<b>");
        put_shares(t, e->needle_before.all, e->needle_after.all, "&plusmn;", " &rarr; ");
        pare__text_put(t, "</b><i>%zu gained, %zu lost, p %.3f; ", p->gained, p->lost, p->p);
    } else {
        figure f[FIGURES];
        figures_of(e, f);
        pare__text_put(t, "continuations: 4-grams repeated<b>");
        put_number(t, f[2].before, f[2].scale, f[2].unit);
        pare__text_put(t, " &rarr; ");
        put_number(t, f[2].after, f[2].scale, f[2].unit);
        pare__text_put(t, "</b><i>");
        put_apart(t, e);
        pare__text_put(t, "; ");
    }
    put_prompts(t, e);
    pare__text_put(t, "</i></div>\n");
}

/* "80%", or "-" for what was not asked. */
static void put_cell(pare_text_out *t, pare_needle_cell c)
{
    if (c.n)
        pare__text_put(t, "%.0f%%", pare_needle_share(c) * 100);
    else
        pare__text_put(t, "-");
}

static void put_needle(pare_text_out *t, const pare_report_eval *e)
{
    const pare_needle_figures *const was = &e->needle_before, *const is = &e->needle_after;
    pare__text_put(t, "<table><thead><tr><th>tokens, depth</th>");
    for (size_t d = 0; d < PARE_NEEDLE_DEPTHS; d++)
        pare__text_put(t, "<th>%zu%%</th>", pare_needle_depth(d));
    pare__text_put(t, "</tr></thead><tbody>\n");
    for (size_t l = 0; l < is->opts.lengths; l++) {
        pare__text_put(t, "<tr><td>%zu</td>", is->opts.length[l]);
        for (size_t d = 0; d < PARE_NEEDLE_DEPTHS; d++) {
            pare__text_put(t, "<td>");
            put_cell(t, was->cell[l * PARE_NEEDLE_DEPTHS + d]);
            pare__text_put(t, " &rarr; ");
            put_cell(t, is->cell[l * PARE_NEEDLE_DEPTHS + d]);
            pare__text_put(t, "</td>");
        }
        pare__text_put(t, "</tr>\n");
    }
    pare__text_put(t, "</tbody></table>\n<p class=\"dim\">" PARE_REPORT_PAIRED "</p>\n");
}

static void put_continued(pare_text_out *t, const pare_report_eval *e)
{
    figure f[FIGURES];
    figures_of(e, f);
    pare__text_put(t, "<table><thead><tr><th></th><th>before</th><th>after</th></tr></thead>"
                      "<tbody>\n");
    for (size_t i = 0; i < FIGURES; i++) {
        pare__text_put(t, "<tr><td>%s</td><td>", f[i].name);
        put_number(t, f[i].before, f[i].scale, f[i].unit);
        pare__text_put(t, "</td><td>");
        put_number(t, f[i].after, f[i].scale, f[i].unit);
        pare__text_put(t, "</td></tr>\n");
    }
    pare__text_put(t, "</tbody></table>\n<p class=\"dim\">Of the continuations ");
    put_apart(t, e);
    pare__text_put(t, " tokens.</p>\n");
}

void pare__report_answers_html(pare_text_out *t, const pare_report_eval *e)
{
    const bool needle = e->kind == PARE_EVALUATE_NEEDLE;
    pare__text_put(t, "<h3>%s</h3>\n<p class=\"dim\">", pare_evaluation_kind_name(e->kind));
    put_prompts(t, e);
    pare__text_put(t, "</p>\n");
    if (needle)
        put_needle(t, e);
    else
        put_continued(t, e);
}

static void put_needles_card(pare_text_out *t, const pare_report *r)
{
    size_t told = 0;
    for (size_t i = 0; i < r->evaluations; i++) {
        const pare_report_eval *const e = &r->evaluation[i];
        const pare_paired *const p = &e->needle_after.paired;
        if (e->kind != PARE_EVALUATE_NEEDLE)
            continue;
        if (told++ == 0)
            pare__text_put(t, "\n| numbers found in | prompts | before | after | gained | lost | p "
                              "|\n|---|---|---|---|---|---|---|\n");
        char notes[PARE_REPORT_NOTES];
        pare__text_put(t, "| ");
        pare__text_put_cell(t, e->data);
        pare__text_put(t, "%s | %zu | ", pare_report_notes(e, ", ", notes), e->needle_after.all.n);
        put_shares(t, e->needle_before.all, e->needle_after.all, "+-", " | ");
        pare__text_put(t, " | %zu | %zu | %.3f |\n", p->gained, p->lost, p->p);
    }
    if (told)
        pare__text_put(t, "\n" PARE_REPORT_PAIRED "\n");
}

static void put_continuations_card(pare_text_out *t, const pare_report *r)
{
    size_t told = 0;
    for (size_t i = 0; i < r->evaluations; i++) {
        const pare_report_eval *const e = &r->evaluation[i];
        figure f[2 * FIGURES];
        if (e->kind != PARE_EVALUATE_CONTINUATIONS)
            continue;
        figures_of(e, f);
        apart_of(e, f + FIGURES);
        if (told++ == 0)
            pare__text_put(t, "\n| continuations of | prompts | figure | before | after |\n"
                              "|---|---|---|---|---|\n");
        for (size_t k = 0; k < 2 * FIGURES; k++) {
            pare__text_put(t, "| ");
            pare__text_put_cell(t, e->data);
            pare__text_put(t, " | %zu | %s | ", e->continued[0].prompts, f[k].name);
            put_number(t, f[k].before, f[k].scale, f[k].unit);
            pare__text_put(t, " | ");
            put_number(t, f[k].after, f[k].scale, f[k].unit);
            pare__text_put(t, " |\n");
        }
    }
}

void pare__report_answers_card(pare_text_out *t, const pare_report *r)
{
    put_needles_card(t, r);
    put_continuations_card(t, r);
}
