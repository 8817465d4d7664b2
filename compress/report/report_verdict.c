/* What the recipe requires of the result, and whether the result keeps to it. */
#include "compress/report/report_internal.h"

static const char *said(const pare_gate *v)
{
    static const char *const text[] = {
        [PARE_GATE_ACCEPT] = "The model keeps to every requirement of its recipe.",
        [PARE_GATE_REGRESSION] =
            "The model does not keep to a requirement of its recipe: do not ship it as it is.",
        [PARE_GATE_ANOMALOUS] =
            "A figure is better than it can be by chance, cannot be, or tells nothing: look at the "
            "evaluation before you trust this model.",
        [PARE_GATE_INFEASIBLE] = "No model of this recipe can keep to it."};
    return text[v->kind];
}

static void put_card(pare_text_out *t, const pare_gate *v)
{
    pare__text_put(t, "\n## Verdict: %s\n\n%s", pare_gate_name(v->kind), said(v));
    if (v->anomaly) {
        pare__text_put(t, " ");
        pare__text_put_cell(t, v->anomaly);
        pare__text_put(t, ".");
    }
    pare__text_put(t, "\n\n| requirement | figure | bound | on | kept |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < v->checks; i++) {
        const pare_check *const c = &v->check[i];
        pare__text_put(t, "| ");
        pare__text_put_cell(t, c->text);
        pare__text_put(t, " | %.10g | %.10g | ", c->figure, c->bound);
        pare__text_put_cell(t, c->data ? c->data : "the packed files");
        pare__text_put(t, " | %s |\n", c->kept ? "yes" : "no");
    }
}

void pare__report_verdict_card(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, PARE__VERDICT_BEGIN);
    if (r->verdict)
        put_card(t, r->verdict);
    pare__text_put(t, "\n" PARE__VERDICT_END);
}

static void put_html(pare_text_out *t, const pare_gate *v)
{
    pare__text_put(t, "<h2>Verdict: %s</h2>\n<p>%s", pare_gate_name(v->kind), said(v));
    if (v->anomaly) {
        pare__text_put(t, " ");
        pare__text_put_html(t, v->anomaly);
        pare__text_put(t, ".");
    }
    pare__text_put(t, "</p>\n<table><thead><tr><th>requirement</th><th>figure</th>"
                      "<th>bound</th><th>on</th><th>kept</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < v->checks; i++) {
        const pare_check *const c = &v->check[i];
        pare__text_put(t, "<tr><td>");
        pare__text_put_html(t, c->text);
        pare__text_put(t, "</td><td>%.10g</td><td>%.10g</td><td>", c->figure, c->bound);
        pare__text_put_html(t, c->data ? c->data : "the packed files");
        pare__text_put(t, "</td><td>%s</td></tr>\n", c->kept ? "yes" : "no");
    }
    pare__text_put(t, "</tbody></table>\n");
}

void pare__report_verdict_html(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, PARE__VERDICT_BEGIN);
    if (r->verdict)
        put_html(t, r->verdict);
    pare__text_put(t, PARE__VERDICT_END);
}
