/* Every linear, folded by block. Rows carry the number of their block, which shows when the script
 * has put all of them into one table. */
#include "compress/report/report_internal.h"

static const char headings[] =
    "<thead><tr><th>block</th><th>linear</th><th>output error</th><th>weight error</th>"
    "<th>bits per weight</th><th>method</th><th>encoding</th><th>shape</th><th>zeros</th>"
    "<th>damping</th><th>notes</th></tr></thead><tbody>\n";

/* Between two notes of a linear; nothing in front of the first. */
static const char *next_note(size_t *notes)
{
    return (*notes)++ ? "; " : "";
}

static void put_notes(pare_text_out *t, const pare_linear_result *l)
{
    size_t notes = 0;
    if (l->fallback)
        pare__text_put(t, "%srounded to nearest", next_note(&notes));
    if (l->f64)
        pare__text_put(t, "%sdouble precision", next_note(&notes));
    if (l->raises)
        pare__text_put(t, "%sdamping raised", next_note(&notes));
    if (l->coarse || l->lost)
        pare__text_put(t, "%s%zu group%s too small to be stored well, %llu weight%s lost",
                       next_note(&notes), l->coarse, pare_plural(l->coarse),
                       (unsigned long long)l->lost, pare_plural(l->lost));
    if (l->dead)
        pare__text_put(t, "%s%zu dead input%s", next_note(&notes), l->dead, pare_plural(l->dead));
    if (l->thin && l->support.known)
        pare__text_put(t, "%stoo little calibration: rank %zu, %.3g effective samples",
                       next_note(&notes), l->support.rank, l->support.effective);
    else if (l->thin)
        pare__text_put(t, "%stoo little calibration", next_note(&notes));
    if (l->cold != PARE_COLD_NOT)
        pare__text_put(t, "%s%lld token%s: %s", next_note(&notes), (long long)l->tokens,
                       pare_plural((unsigned long long)l->tokens), pare_cold_policy_name(l->cold));
    if (l->stability > 0)
        pare__text_put(t, "%s%.1f%% of the choice is stable", next_note(&notes),
                       100 * l->stability);
    for (size_t i = 0; i < l->steps; i++) {
        if (!l->step[i].note[0])
            continue;
        pare__text_put(t, "%s%s: ", next_note(&notes), l->step[i].pass);
        pare__text_put_html(t, l->step[i].note);
    }
}

static void put_linear(pare_text_out *t, const pare_config *c, const pare_linear_result *l)
{
    char encoding[PARE_PACKED_TEXT];
    pare__text_put(t, "<tr><td>");
    if (l->block < c->blocks)
        pare__text_put(t, "%zu", l->block);
    pare__text_put(t, "</td><td class=\"name\" title=\"");
    pare__text_put_html(t, l->linear.name);
    pare__text_put(t, "\">");
    pare__text_put_html(t, pare__report_projection(l->linear.name));
    if (l->output_error >= 0)
        pare__text_put(t, "</td><td>%.3g</td>", l->output_error);
    else
        pare__text_put(t, "</td><td></td>");
    pare__text_put(t, "<td>%.3g</td><td>%.3f</td><td>%s</td><td>%s</td><td>%zu &times; %zu</td>",
                   l->weight_error, l->bits_per_weight, l->method,
                   pare_packed_linear_text(&l->linear, encoding), l->linear.n, l->linear.k);
    if (l->pruned)
        pare__text_put(t, "<td>%.2f%%</td>", 100 * l->zeros);
    else
        pare__text_put(t, "<td></td>");
    if (l->output_error >= 0)
        pare__text_put(t, "<td>%g</td>", l->damp);
    else
        pare__text_put(t, "<td></td>");
    pare__text_put(t, "<td class=\"left\">");
    put_notes(t, l);
    pare__text_put(t, "</td></tr>\n");
}

/* One line of what a block came to: rows [first, end). */
static void put_summary(pare_text_out *t, const pare_report *r, size_t first, size_t end)
{
    const pare_linear_result *worst = &r->row[first];
    double bits = 0, weights = 0;
    for (size_t i = first; i < end; i++) {
        const pare_linear_result *const l = &r->row[i];
        const double count = (double)l->linear.n * (double)l->linear.k;
        bits += count * l->bits_per_weight;
        weights += count;
        if (pare__report_error(l) > pare__report_error(worst))
            worst = l;
    }
    if (worst->block < r->config->blocks)
        pare__text_put(t, "<summary>block %zu", worst->block);
    else
        pare__text_put(t, "<summary>outside the blocks");
    pare__text_put(t,
                   " <span class=\"dim\">%zu linear%s, %.3f bits per weight, "
                   "largest error %.2g in ",
                   end - first, pare_plural(end - first), bits / weights,
                   pare__report_error(worst));
    pare__text_put_html(t, pare__report_projection(worst->linear.name));
    pare__text_put(t, "</span></summary>\n");
}

void pare__report_linears(pare_text_out *t, const pare_report *r)
{
    if (r->rows == 0)
        return;
    pare__text_put(t,
                   "<h2>Linears</h2>\n<p id=\"bar\" hidden><button>All in one table</button> "
                   "<span class=\"dim\">a heading sorts</span></p>\n<div class=\"scroll\">"
                   "<table id=\"all\" class=\"sort all\" hidden>%s</tbody></table></div>\n"
                   "<div id=\"fold\">\n",
                   headings);
    const size_t rows = r->rows + r->tables;
    for (size_t i = 0, end = 0; i < rows; i = end) {
        while (end < rows && r->row[end].block == r->row[i].block)
            end++;
        pare__text_put(t, "<details>");
        put_summary(t, r, i, end);
        pare__text_put(t, "<div class=\"scroll\"><table class=\"sort fold\">%s", headings);
        for (size_t l = i; l < end; l++)
            put_linear(t, r->config, &r->row[l]);
        pare__text_put(t, "</tbody></table></div></details>\n");
    }
    pare__text_put(t, "</div>\n");
}
