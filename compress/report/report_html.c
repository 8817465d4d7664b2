/* report.html: what came of the job first, then why, then how it was made. */
#include "compress/passes/pass.h"
#include "compress/report/report_internal.h"
#include "compress/text/units.h"
#include "runtime/kv.h"

static void put_size(pare_text_out *t, const pare_report *r)
{
    char a[PARE_UNIT_TEXT], b[PARE_UNIT_TEXT];
    const uint64_t was = pare_report_total(r->sizes.before), is = pare_report_total(r->sizes.after);
    pare__text_put(t, "<div class=\"card\">Size<b>%s &rarr; %s</b><i>", pare_units_bytes(was, a),
                   pare_units_bytes(is, b));
    if (was)
        pare__text_put(t, "%.1f%% of the original", 100.0 * (double)is / (double)was);
    if (!r->structure)
        pare__text_put(t, "; %.3f bits per weight in %zu linear%s, %.3f in the whole model%s",
                       r->bits_per_weight, r->rows, pare_plural(r->rows), r->model_bits_per_weight,
                       pare__report_untied(r));
    pare__text_put(t, "</i></div>\n");
}

static void put_data(pare_text_out *t, const pare_report_eval *e)
{
    char notes[PARE_REPORT_NOTES];
    pare__text_put_html(t, e->data);
    pare__text_put(t, "%s", pare_report_notes(e, ", ", notes));
}

static void put_accuracy(pare_text_out *t, const pare_report_eval *e)
{
    const pare_choice_result *const was = &e->choice_before.result;
    const pare_choice_result *const is = &e->choice_after.result;
    const pare_paired *const p = &e->choice_after.paired;
    pare__text_put(t, "<div class=\"card\">Accuracy<b>");
    pare__text_put_share(t, was->accuracy, "&plusmn;", was->accuracy_stderr);
    pare__text_put(t, " &rarr; ");
    pare__text_put_share(t, is->accuracy, "&plusmn;", is->accuracy_stderr);
    pare__text_put(t, "</b><i>%zu gained, %zu lost, p %.3f; on ", p->gained, p->lost, p->p);
    put_data(t, e);
    pare__text_put(t, "</i></div>\n");
}

static void put_perplexity(pare_text_out *t, const pare_report_eval *e)
{
    pare__text_put(t, "<div class=\"card\">Perplexity<b>%.3f &rarr; %.3f</b><i>%+.2f%%",
                   e->before.ppl, e->after.ppl, 100 * (e->after.ppl / e->before.ppl - 1));
    if (e->after.has_kl)
        pare__text_put(t, "; KL %.5f, flips %.2f%%", e->after.kl_mean, 100 * (1 - e->after.top1));
    pare__text_put(t, "; on ");
    put_data(t, e);
    pare__text_put(t, "</i></div>\n");
}

static void put_unknown(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, "<div class=\"card warn\">Quality<b>not measured</b><i>" PARE_REPORT_UNKNOWN
                      " <code>pare eval ");
    pare__text_put_html(t, r->output);
    pare__text_put(t, " --text FILE --baseline ");
    pare__text_put_html(t, r->model);
    pare__text_put(t, "</code> tells.</i></div>\n");
}

static void put_speed(pare_text_out *t, const pare_report *r)
{
    const pare_report_samples *const s = &r->samples;
    pare__text_put(t, "<div class=\"card\">Speed<b>");
    if (s->count)
        pare__text_put(t,
                       "%.*f &rarr; %.*f tokens/s</b><i>seen once, while %zu sample%s written "
                       "together, on %zu thread%s; ",
                       s->before_tok_s < 10, s->before_tok_s, s->after_tok_s < 10, s->after_tok_s,
                       s->count, s->count == 1 ? " was" : "s were", r->threads,
                       pare_plural(r->threads));
    else
        pare__text_put(t, "not measured</b><i>");
    pare__text_put(t, "<code>pare bench model ");
    pare__text_put_html(t, r->output);
    pare__text_put(t, " --against ");
    pare__text_put_html(t, r->model);
    pare__text_put(t, "</code> measures it.</i></div>\n");
}

static void put_cost(pare_text_out *t, const pare_report *r)
{
    char a[PARE_UNIT_TEXT], b[PARE_UNIT_TEXT];
    pare__text_put(t, "<div class=\"card\">The job<b>%s</b>", pare_units_seconds(r->seconds, a));
    if (r->resumed_blocks)
        pare__text_put(t, "<i>of its last run; %zu of %zu blocks were done before</i>",
                       r->resumed_blocks, r->config->blocks);
    if (r->joules > 0)
        pare__text_put(t, "<i>energy of the processors, of the whole machine, %s</i>",
                       pare_units_joules(r->joules, a));
    pare__text_put(t, "<i>allocated memory %s", pare_units_bytes(r->peak_anonymous_bytes, a));
    if (r->peak_rss_bytes)
        pare__text_put(t, ", in memory at once %s (mapped files included)",
                       pare_units_bytes(r->peak_rss_bytes, b));
    pare__text_put(t, "</i></div>\n");
}

static void put_result(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, "<h1>");
    pare__text_put_html(t, r->output);
    pare__text_put(t, "</h1>\n<p class=\"dim\">%s, made by %s from ", r->config->arch->model_type,
                   r->program);
    pare__text_put_html(t, r->model);
    pare__text_put(t, "</p>\n<div class=\"cards\">\n");
    put_size(t, r);
    for (size_t i = 0; i < r->evaluations; i++)
        if (r->evaluation[i].kind == PARE_EVALUATE_CHOICE)
            put_accuracy(t, &r->evaluation[i]);
        else if (r->evaluation[i].kind == PARE_EVALUATE_TASK)
            pare__report_task_badge(t, &r->evaluation[i]);
        else if (!pare_evaluation_scores(r->evaluation[i].kind))
            pare__report_answers_badge(t, &r->evaluation[i]);
        else
            put_perplexity(t, &r->evaluation[i]);
    if (!r->evaluations)
        put_unknown(t, r);
    put_speed(t, r);
    put_cost(t, r);
    pare__text_put(t, "</div>\n");
}

static void put_repaired(pare_text_out *t, const pare_report *r)
{
    if (!r->repairs)
        return;
    pare__text_put(t,
                   "<div class=\"card warn\">Repaired weights: NaN or infinite in the original, "
                   "each set to %s\n<table><tr><th>tensor</th><th>weights</th></tr>\n",
                   pare_repair_text(r->nan));
    for (size_t i = 0; i < r->repairs; i++) {
        pare__text_put(t, "<tr><td>");
        pare__text_put_html(t, r->repair[i].tensor);
        pare__text_put(t, "</td><td>%llu</td></tr>\n", (unsigned long long)r->repair[i].weights);
    }
    pare__text_put(t, "</table></div>\n");
}

static void put_warnings(pare_text_out *t, const pare_report *r)
{
    put_repaired(t, r);
    for (size_t i = 0; i < r->warnings; i++) {
        pare__text_put(t, "<p class=\"card warn\">Warning: ");
        pare__text_put_html(t, r->warning[i]);
        pare__text_put(t, "</p>\n");
    }
    for (size_t p = 0; pare_passes[p]; p++) {
        const char *const caution = pare__report_caution(r, p);
        if (caution)
            pare__text_put(t, "<p class=\"card warn\">Note on %s: %s.</p>\n", pare_passes[p]->name,
                           caution);
    }
}

static void put_sparse(pare_text_out *t, const pare_report *r)
{
    if (!pare__report_pruned(r))
        return;
    pare__text_put(t, "<h2>Pruning</h2>\n<div "
                      "class=\"scroll\"><table><tr><th>storage</th><th>linears</th><th>zeros</th>"
                      "<th>bytes</th><th>bytes with zeros stored</th><th>saves</th></tr>\n");
    for (unsigned i = 0; i < 2 * (PARE_SPARSITY_BITMASK + 1); i++) {
        double zeros;
        const pare_sparsity_store store = (pare_sparsity_store)(i / 2);
        const pare_sparsity_total s = pare__report_sparse(r, store, i % 2, &zeros);
        if (s.linears)
            pare__text_put(t,
                           "<tr><td>%s%s</td><td>%zu</td><td>%.2f%%</td><td>%llu</td><td>%llu</td>"
                           "<td>%s</td></tr>\n",
                           i % 2 ? "f16 " : "", pare_sparsity_store_text(store, i % 2), s.linears,
                           100 * zeros, (unsigned long long)s.bytes,
                           (unsigned long long)s.dense_bytes, s.saves);
    }
    pare__text_put(t, "</table></div>\n");
    const double stability = pare_report_stability(r);
    if (stability > 0)
        pare__text_put(t, "<p>" PARE_REPORT_STABILITY "</p>\n", 100 * stability);
}

static void put_row(pare_text_out *t, const char *what, const char *value)
{
    pare__text_put(t, "<tr><td>%s</td><td>", what);
    pare__text_put_html(t, value);
    pare__text_put(t, "</td></tr>\n");
}

static void put_calibration(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, "<tr><td>calibration</td><td>%zu window%s of %zu tokens",
                   r->calibration_windows, pare_plural(r->calibration_windows),
                   r->calibration_window);
    for (size_t i = 0; r->calibration_share && i < r->calibration_texts; i++) {
        pare__text_put(t, "%s %zu of ", i ? "," : ":", r->calibration_share[i]);
        pare__text_put_html(t, r->calibration_text[i].text);
    }
    if (r->precision)
        pare__text_put(t, "; products in %s", r->precision);
    pare__text_put(t, "</td></tr>\n");
}

static void put_making(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, "<h2>How it was made</h2>\n<table class=\"made\">\n");
    put_row(t, "model", r->model);
    if (r->original)
        put_row(t, "compared with", r->original);
    if (pare__report_has_cache(r))
        pare__text_put(t,
                       "<tr><td>key/value cache</td><td>%s, %.6g &rarr; %.6g bytes per "
                       "token</td></tr>\n",
                       pare_kv_method_name(r->kv->method),
                       pare_kv_token_bytes(r->config, &(pare_kv_format){0}),
                       pare_kv_token_bytes(r->config, r->kv));
    if (r->calibration_windows)
        put_calibration(t, r);
    pare__report_experts_html(t, r);
    for (size_t i = 0; i < r->exports; i++) {
        pare__text_put(t, "<tr><td>export%s</td><td>", r->verdict ? ", once ACCEPT" : "");
        pare__text_put_html(t, r->export[i].format.text);
        pare__text_put(t, " to ");
        pare__text_put_html(t, r->export[i].path.text);
        pare__text_put(t, "</td></tr>\n");
    }
    pare__text_put(t, "<tr><td>threads</td><td>%zu</td></tr>\n", r->threads);
    put_row(t, "program", r->program);
    put_row(t, "kernels", r->cpu);
    if (r->blas)
        put_row(t, "BLAS", r->blas);
    put_row(t, "host", r->host);
    put_row(t, "started", r->started);
    pare__text_put(t, "</table>\n<h3>Recipe</h3>\n<pre>");
    pare__text_put_html(t, r->recipe_text);
    pare__text_put(t, "</pre>\n");
    for (size_t i = 0; i < r->sets; i++) {
        pare__text_put(t, i ? ", " : "<p>Changed by --set or a fallback: ");
        pare__text_put_html(t, r->set[i]);
        pare__text_put(t, i + 1 < r->sets ? "" : ".</p>\n");
    }
}

void pare__report_html(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    pare__report_style(t);
    pare__text_put(t, "<title>pare: ");
    pare__text_put_html(t, r->output);
    pare__text_put(t, "</title></head><body>\n");
    put_result(t, r);
    pare__report_verdict_html(t, r);
    put_warnings(t, r);
    pare__report_sizes(t, r);
    pare__report_quality(t, r);
    pare__report_samples(t, r);
    pare__report_training_html(t, r);
    pare__report_map(t, r);
    put_sparse(t, r);
    pare__report_structure_html(t, r);
    if (!r->structure)
        pare__report_linears(t, r);
    put_making(t, r);
    pare__report_script(t);
    pare__text_put(t, "</body></html>\n");
}
