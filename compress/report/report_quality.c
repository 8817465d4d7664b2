/* What the model lost: figures before and after on each data, the distribution of KL, multiple
 * choice, and what both models write. */
#include <math.h>

#include "compress/report/report_internal.h"

static void put_title(pare_text_out *t, const char *data)
{
    pare__text_put(t, "<h3>");
    pare__text_put_html(t, data);
    pare__text_put(t, "</h3>\n");
}

/* Where a value lies on the axis of the histogram, 0 .. 1: bins are octaves. */
static double place(double kl)
{
    return (log2(kl) - PARE_KL_LEAST + 1) / PARE_KL_BINS;
}

static void put_axis(pare_text_out *t)
{
    static const struct {
        double kl;
        const char *text;
    } tick[] = {{1e-6, "0.000001"}, {1e-4, "0.0001"}, {1e-2, "0.01"}, {1, "1"}};
    pare__text_put(t, "<div class=\"axis\">");
    for (size_t i = 0; i < sizeof tick / sizeof *tick; i++)
        pare__text_put(t, "<span style=\"left:%.2f%%\">%s</span>", 100 * place(tick[i].kl),
                       tick[i].text);
    pare__text_put(t, "</div>\n");
}

static void put_histogram(pare_text_out *t, const pare_eval_result *e)
{
    size_t most = 1;
    for (size_t i = 0; i < PARE_KL_BINS; i++)
        most = e->kl_histogram[i] > most ? e->kl_histogram[i] : most;
    pare__text_put(t,
                   "<p>Positions by their KL divergence to the original, in nats; each bar spans "
                   "twice the range of the one before.</p>\n<div class=\"hist\" role=\"img\" "
                   "aria-label=\"distribution of KL: mean %.3g, 99 of 100 positions below "
                   "%.3g\">",
                   e->kl_mean, e->kl_p99);
    for (int i = 0; i < PARE_KL_BINS; i++) {
        const size_t count = e->kl_histogram[i];
        const double from = i ? ldexp(1, PARE_KL_LEAST + i - 1) : 0;
        pare__text_put(t, "<i style=\"height:%.2f%%\" title=\"",
                       100.0 * (double)count / (double)most);
        if (i < PARE_KL_BINS - 1)
            pare__text_put(t, "%.2g to %.2g", from, ldexp(1, PARE_KL_LEAST + i));
        else
            pare__text_put(t, "%.2g and more", from);
        pare__text_put(t, ": %zu of %zu positions, %.2f%%\"></i>", count, e->scored,
                       100.0 * (double)count / (double)e->scored);
    }
    pare__text_put(t, "</div>\n");
    put_axis(t);
}

static void put_perplexity(pare_text_out *t, const pare_report_eval *e)
{
    char notes[PARE_REPORT_NOTES];
    put_title(t, e->data);
    pare__text_put(t,
                   "<p class=\"dim\">%zu token%s scored in windows of %zu%s</p>\n<table><tbody>"
                   "<tr><td>perplexity before</td><td>%.4f &plusmn; %.4f</td></tr>\n"
                   "<tr><td>perplexity after</td><td>%.4f &plusmn; %.4f</td></tr>\n"
                   "<tr><td>change</td><td>%+.2f%%</td></tr>\n",
                   e->after.scored, pare_plural(e->after.scored), e->window,
                   pare_report_notes(e, "; ", notes), e->before.ppl, e->before.ppl_stderr,
                   e->after.ppl, e->after.ppl_stderr, 100 * (e->after.ppl / e->before.ppl - 1));
    if (e->after.has_kl)
        pare__text_put(t,
                       "<tr><td>KL, mean</td><td>%.6f</td></tr>\n"
                       "<tr><td>KL of 99 in 100 positions is below</td><td>%.6f</td></tr>\n"
                       "<tr><td>flips (another most likely token)</td><td>%.2f%%</td></tr>\n",
                       e->after.kl_mean, e->after.kl_p99, 100 * (1 - e->after.top1));
    pare__text_put(t, "</tbody></table>\n");
    if (e->after.has_kl)
        put_histogram(t, &e->after);
}

static void put_accuracies(pare_text_out *t, const char *who, const pare_choice_result *c)
{
    pare__text_put(t, "<tr><td>%s</td><td>", who);
    pare__text_put_share(t, c->accuracy, "&plusmn;", c->accuracy_stderr);
    pare__text_put(t, "</td><td>");
    pare__text_put_share(t, c->accuracy_norm, "&plusmn;", c->accuracy_norm_stderr);
    pare__text_put(t, "</td></tr>\n");
}

static void put_choice(pare_text_out *t, const pare_report_eval *e)
{
    const pare_paired *const p = &e->choice_after.paired;
    const pare_paired *const norm = &e->choice_after.paired_norm;
    char notes[PARE_REPORT_NOTES];
    put_title(t, e->data);
    pare__text_put(
        t,
        "<p class=\"dim\">%zu item%s of multiple choice%s</p>\n<table><thead><tr><th></th>"
        "<th>accuracy</th><th>per byte</th></tr></thead><tbody>\n",
        e->choice_after.result.n, pare_plural(e->choice_after.result.n),
        pare_report_notes(e, "; ", notes));
    put_accuracies(t, "before", &e->choice_before.result);
    put_accuracies(t, "after", &e->choice_after.result);
    pare__text_put(t,
                   "<tr><td>gained</td><td>%zu</td><td>%zu</td></tr>\n"
                   "<tr><td>lost</td><td>%zu</td><td>%zu</td></tr>\n"
                   "<tr><td>p</td><td>%.3f</td><td>%.3f</td></tr>\n</tbody></table>\n"
                   "<p class=\"dim\">" PARE_REPORT_PAIRED "</p>\n",
                   p->gained, norm->gained, p->lost, norm->lost, p->p, norm->p);
}

void pare__report_quality(pare_text_out *t, const pare_report *r)
{
    if (!r->evaluations)
        return;
    pare__text_put(t, "<h2>Quality</h2>\n<p>%s</p>\n",
                   r->structure ? "The smaller model, run as it was written."
                                : "The packed model, run by the low-bit kernels.");
    for (size_t i = 0; i < r->evaluations; i++)
        if (r->evaluation[i].kind == PARE_EVALUATE_CHOICE)
            put_choice(t, &r->evaluation[i]);
        else if (r->evaluation[i].kind == PARE_EVALUATE_TASK)
            pare__report_task_html(t, &r->evaluation[i]);
        else if (!pare_evaluation_scores(r->evaluation[i].kind))
            pare__report_answers_html(t, &r->evaluation[i]);
        else
            put_perplexity(t, &r->evaluation[i]);
}

static void put_text(pare_text_out *t, const pare_report_sample *s, const char *who,
                     const char *parted)
{
    pare__text_put(t, "<div class=\"sample\"><small>%s</small><span class=\"prompt\">", who);
    pare__text_put_html(t, s->prompt);
    pare__text_put(t, "</span>");
    pare__text_put_html(t, s->same);
    if (*parted) {
        pare__text_put(t, "<mark>");
        pare__text_put_html(t, parted);
        pare__text_put(t, "</mark>");
    }
    pare__text_put(t, "</div>\n");
}

void pare__report_samples(pare_text_out *t, const pare_report *r)
{
    if (!r->samples.count)
        return;
    pare__text_put(t,
                   "<h2>What both models write</h2>\n<p>Up to %zu tokens behind the first words "
                   "(dim) of pieces of ",
                   r->samples.tokens);
    pare__text_put_html(t, r->samples.data);
    pare__text_put(t, ", the most likely token each time. What follows where the two part is "
                      "marked.</p>\n");
    for (size_t i = 0; i < r->samples.count; i++) {
        const pare_report_sample *const s = &r->samples.sample[i];
        const bool same = !*s->before && !*s->after;
        pare__text_put(t, "<h3>Sample %zu</h3>\n<div class=\"pair\">\n", i + 1);
        put_text(t, s, same ? "both models" : "before", s->before);
        if (!same)
            put_text(t, s, "after", s->after);
        pare__text_put(t, "</div>\n");
    }
}
