/* What a pass that trains did: quality before and after, and the curve of its loss. */
#include <math.h>

#include "compress/report/report_internal.h"

void pare_report_training(pare_json_writer *w, const pare_training_result *t)
{
    pare_json_open_object(w, "training");
    pare_json_put_integer(w, "steps", (int64_t)t->steps);
    pare_json_put_integer(w, "tokens", (int64_t)t->tokens);
    pare_json_put_integer(w, "aware_linears", (int64_t)t->aware);
    if (t->embeddings)
        pare_json_put_bool(w, "embeddings", true);
    pare_json_put_finite(w, "seconds", t->seconds);
    if (t->kl_after >= 0) {
        pare_json_put_finite(w, "kl_before", t->kl_before);
        pare_json_put_finite(w, "kl_after", t->kl_after);
    }
    pare_json_put_finite(w, "perplexity_before", exp(t->nll_before));
    pare_json_put_finite(w, "perplexity_after", exp(t->nll_after));
    pare_json_open_array(w, "curve");
    for (size_t i = 0; i < t->points; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_integer(w, "step", (int64_t)t->point[i].step);
        pare_json_put_finite(w, "loss", t->point[i].loss);
        pare_json_put_finite(w, "norm", t->point[i].norm);
        pare_json_put_finite(w, "rate", t->point[i].rate);
        pare_json_close(w);
    }
    pare_json_close(w);
    pare_json_close(w);
}

void pare__report_training_put(pare_json_writer *w, const pare_report *r)
{
    if (r->training)
        pare_report_training(w, r->training);
    if (!r->stages)
        return;
    pare_json_open_array(w, "stages");
    for (size_t i = 0; i < r->stages; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "passes", r->stage[i].passes);
        pare_json_put_finite(w, "kl", r->stage[i].kl);
        pare_json_put_finite(w, "perplexity", exp(r->stage[i].nll));
        pare_json_close(w);
    }
    pare_json_close(w);
}

#define STAGES_TOLD                                                                                \
    "The model behind each part of the recipe, on the calibration windows held out; the last one " \
    "is the packed model, run by its kernels."

/* "98 steps, 200704 tokens in 96 s": the same in both. */
static void put_summary(pare_text_out *t, const pare_training_result *r)
{
    pare__text_put(
        t,
        "%zu step%s of training on %llu tokens in %.0f s (%.0f tokens/s). KL from the "
        "original on windows held out: %.4f before, %.4f after; perplexity: %.4f before, "
        "%.4f after. Loss: %.4f at first, %.4f at the end.",
        r->steps, pare_plural(r->steps), (unsigned long long)r->tokens, r->seconds,
        r->seconds > 0 ? (double)r->tokens / r->seconds : 0, r->kl_before, r->kl_after,
        exp(r->nll_before), exp(r->nll_after), r->point[0].loss, r->point[r->points - 1].loss);
    if (r->aware)
        pare__text_put(t,
                       " %zu linear%s had %s codes in place: what was trained is what is stored.",
                       r->aware, pare_plural(r->aware), r->aware == 1 ? "its" : "their");
    if (r->embeddings)
        pare__text_put(t, " Embeddings and head were trained, too.");
}

void pare__report_training_card(pare_text_out *t, const pare_report *r)
{
    if (r->training) {
        pare__text_put(t, "\n## Training\n\n");
        put_summary(t, r->training);
        pare__text_put(t, "\n");
    }
    if (!r->stages)
        return;
    pare__text_put(t, "\n## What each part cost\n\n" STAGES_TOLD
                      "\n\n| behind | KL | perplexity |\n|---|---|---|\n");
    for (size_t i = 0; i < r->stages; i++)
        pare__text_put(t, "| %s | %.4f | %.4f |\n", r->stage[i].passes, r->stage[i].kl,
                       exp(r->stage[i].nll));
}

void pare_report_curve(pare_text_out *t, const pare_training_result *s)
{
    double most = 0;
    for (size_t i = 0; i < s->points; i++)
        most = s->point[i].loss > most ? s->point[i].loss : most;
    pare__text_put(t, "<svg viewBox=\"0 0 640 160\" width=\"100%%\" role=\"img\" "
                      "aria-label=\"loss over steps\"><polyline fill=\"none\" "
                      "stroke=\"currentColor\" stroke-width=\"2\" points=\"");
    for (size_t i = 0; i < s->points; i++)
        pare__text_put(t, "%.1f,%.1f ", 640.0 * (double)s->point[i].step / (double)s->steps,
                       most > 0 ? 155 - 150 * s->point[i].loss / most : 155);
    pare__text_put(t,
                   "\"/></svg>\n<p class=\"dim\">The loss, from 0 to %.4f, over %zu step%s.</p>\n",
                   most, s->steps, pare_plural(s->steps));
}

void pare__report_training_html(pare_text_out *t, const pare_report *r)
{
    if (r->training) {
        pare__text_put(t, "<h2>Training</h2>\n<p>");
        put_summary(t, r->training);
        pare__text_put(t, "</p>\n");
        pare_report_curve(t, r->training);
    }
    if (!r->stages)
        return;
    pare__text_put(t, "<h2>What each part cost</h2>\n<p>" STAGES_TOLD
                      "</p>\n<table><thead><tr><th>behind</th><th>KL</th>"
                      "<th>perplexity</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < r->stages; i++)
        pare__text_put(t, "<tr><td>%s</td><td>%.4f</td><td>%.4f</td></tr>\n", r->stage[i].passes,
                       r->stage[i].kl, exp(r->stage[i].nll));
    pare__text_put(t, "</tbody></table>\n");
}
