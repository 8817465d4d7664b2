#include <math.h>

#include "compress/report/report_internal.h"

static void put_value(pare_text_out *t, const pare_task_metric *m, const char *sign)
{
    if (m->share) {
        pare__text_put_share(t, m->value, sign, m->error);
        return;
    }
    pare__text_put(t, "%.4f", m->value);
    if (isfinite(m->error))
        pare__text_put(t, " %s %.4f", sign, m->error);
}

static void put_change(pare_text_out *t, const pare_report_eval *e, size_t metric)
{
    put_value(t, &e->task_before.metric[metric], "&plusmn;");
    pare__text_put(t, " &rarr; ");
    put_value(t, &e->task_after.metric[metric], "&plusmn;");
}

static void put_source(pare_text_out *t, const pare_report_eval *e)
{
    char notes[PARE_REPORT_NOTES];
    const pare_task_asked *const asked = &e->task_after.asked;
    pare__text_put_html(t, e->data);
    pare__text_put(t, ", %zu document%s", e->task_after.n, pare_plural(e->task_after.n));
    if (asked->shots)
        pare__text_put(t, ", %zu shot%s", asked->shots, pare_plural(asked->shots));
    pare__text_put(t, "%s", pare_report_notes(e, ", ", notes));
}

void pare__report_task_badge(pare_text_out *t, const pare_report_eval *e)
{
    const pare_task_metric *const m = &e->task_after.metric[0];
    pare__text_put(t, "<div class=\"card\">%s: %s<b>", e->task_after.asked.name, m->name);
    put_change(t, e, 0);
    pare__text_put(t, "</b><i>");
    if (m->right)
        pare__text_put(t, "%zu gained, %zu lost, p %.3f; ", m->paired.gained, m->paired.lost,
                       m->paired.p);
    put_source(t, e);
    pare__text_put(t, "</i></div>\n");
}

static void put_row(pare_text_out *t, const char *name, size_t n, const pare_task_metric *was,
                    const pare_task_metric *is)
{
    pare__text_put(t, "<tr><td>");
    pare__text_put_html(t, name);
    pare__text_put(t, "</td><td>%zu</td><td>", n);
    put_value(t, was, "&plusmn;");
    pare__text_put(t, "</td><td>");
    put_value(t, is, "&plusmn;");
    pare__text_put(t, "</td>");
    if (is->right)
        pare__text_put(t, "<td>%zu</td><td>%zu</td><td>%.3f</td></tr>\n", is->paired.gained,
                       is->paired.lost, is->paired.p);
    else
        pare__text_put(t, "<td></td><td></td><td></td></tr>\n");
}

void pare__report_task_html(pare_text_out *t, const pare_report_eval *e)
{
    const pare_task_figures *const was = &e->task_before, *const is = &e->task_after;
    pare__text_put(t, "<h3>%s</h3>\n<p class=\"dim\">", is->asked.name);
    put_source(t, e);
    pare__text_put(t, "</p>\n<table><thead><tr><th></th><th>documents</th><th>before</th>"
                      "<th>after</th><th>gained</th><th>lost</th><th>p</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < is->metrics; i++)
        put_row(t, is->metric[i].name, is->n, &was->metric[i], &is->metric[i]);
    for (size_t i = 0; i < is->groups; i++)
        put_row(t, is->group[i].name, is->group[i].n, &was->group[i].acc, &is->group[i].acc);
    pare__text_put(t, "</tbody></table>\n<p class=\"dim\">" PARE_REPORT_PAIRED "</p>\n");
}

void pare__report_tasks_card(pare_text_out *t, const pare_report *r)
{
    size_t told = 0;
    for (size_t i = 0; i < r->evaluations; i++) {
        const pare_report_eval *const e = &r->evaluation[i];
        const pare_task_figures *const was = &e->task_before, *const is = &e->task_after;
        char notes[PARE_REPORT_NOTES];
        for (size_t k = 0; e->kind == PARE_EVALUATE_TASK && k < is->metrics; k++) {
            const pare_task_metric *const m = &is->metric[k];
            if (told++ == 0)
                pare__text_put(t, "\n| task | documents | shots | figure | before | after | gained "
                                  "| lost | p |\n|---|---|---|---|---|---|---|---|---|\n");
            pare__text_put(t, "| %s: ", is->asked.name);
            pare__text_put_cell(t, e->data);
            pare__text_put(t, "%s | %zu | %zu | %s | ", pare_report_notes(e, ", ", notes), is->n,
                           is->asked.shots, m->name);
            put_value(t, &was->metric[k], "+-");
            pare__text_put(t, " | ");
            put_value(t, m, "+-");
            if (m->right)
                pare__text_put(t, " | %zu | %zu | %.3f |\n", m->paired.gained, m->paired.lost,
                               m->paired.p);
            else
                pare__text_put(t, " | | | |\n");
        }
    }
    if (told)
        pare__text_put(t, "\n" PARE_REPORT_PAIRED "\n");
}
