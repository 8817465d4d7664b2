
#include "compress/pass.h"
#include "compress/report/report_internal.h"
#include "compress/report/units.h"
#include "runtime/kv.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<title>pare report</title>\n<style>\n"
    ":root{color-scheme:light dark;--fg:#1b1b1b;--bg:#fff;--line:#ccc;--dim:#666}\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e6e6e6;--bg:#16181c;--line:#444;--dim:#9a9a9a}}"
    "\n"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);"
    "max-width:70em;margin:2em auto;padding:0 1em}\n"
    "table{border-collapse:collapse;margin:1em 0}th,td{border:1px solid var(--line);"
    "padding:.25em .7em;text-align:right}th:first-child,td:first-child{text-align:left}\n"
    "pre{border:1px solid var(--line);padding:1em;overflow:auto}svg text{fill:var(--fg)}"
    ".dim{color:var(--dim)}\n"
    "</style></head><body>\n";

static void put_row(pare_text_out *t, const char *what, const char *value)
{
    pare__text_put(t, "<tr><td>%s</td><td>", what);
    pare__text_put_html(t, value);
    pare__text_put(t, "</td></tr>\n");
}

static void put_calibration(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, "<tr><td>calibration</td><td>%zu windows of %zu tokens",
                   r->calibration_windows, r->calibration_window);
    for (size_t i = 0; r->calibration_share && i < r->calibration_texts; i++) {
        pare__text_put(t, "%s %zu of ", i ? "," : ":", r->calibration_share[i]);
        pare__text_put_html(t, r->calibration_text[i].text);
    }
    pare__text_put(t, "</td></tr>\n");
}

static void put_summary(pare_text_out *t, const pare_report *r)
{
    char a[PARE_UNIT_TEXT], b[PARE_UNIT_TEXT];
    pare__text_put(t, "<h1>");
    pare__text_put_html(t, r->output);
    pare__text_put(t, "</h1>\n<table>\n");
    put_row(t, "model", r->model);
    pare__text_put(t, "<tr><td>weight files</td><td>%s &rarr; %s (%.1f%%)</td></tr>\n",
                   pare_units_bytes(r->bytes_before, a), pare_units_bytes(r->bytes_after, b),
                   r->bytes_before ? 100.0 * (double)r->bytes_after / (double)r->bytes_before : 0);
    if (!r->structure)
        pare__text_put(t,
                       "<tr><td>bits per weight</td><td>%.3f in %zu linears, %.3f of all tensors "
                       "per weight of the original model%s</td></tr>\n",
                       r->bits_per_weight, r->rows, r->model_bits_per_weight,
                       pare__report_untied(r));
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
        pare__text_put(t, "<tr><td>export</td><td>%s to ", r->export[i].format.text);
        pare__text_put_html(t, r->export[i].path.text);
        pare__text_put(t, "</td></tr>\n");
    }
    put_row(t, "time", pare_units_seconds(r->seconds, a));
    put_row(t, "peak memory", pare_units_bytes(r->peak_rss_bytes, a));
    pare__text_put(t, "<tr><td>threads</td><td>%zu</td></tr>\n", r->threads);
    put_row(t, "program", r->program);
    put_row(t, "kernels", r->cpu);
    put_row(t, "BLAS", r->blas);
    put_row(t, "host", r->host);
    put_row(t, "started", r->started);
    pare__text_put(t, "</table>\n");
}

static void put_evaluations(pare_text_out *t, const pare_report *r)
{
    if (!r->evaluations)
        return;
    pare__text_put(t, "<h2>Evaluation</h2>\n<table><tr><th>data</th><th>window</th><th>tokens</th>"
                      "<th>perplexity before</th><th>after</th><th>change</th><th>KL mean</th>"
                      "<th>KL p99</th><th>same first choice</th></tr>\n");
    for (size_t i = 0; i < r->evaluations; i++) {
        const pare_report_eval *const e = &r->evaluation[i];
        pare__text_put(t, "<tr><td>");
        pare__text_put_html(t, e->data);
        pare__text_put(t, "</td><td>%zu</td><td>%zu</td><td>%.4f</td><td>%.4f</td><td>%+.2f%%</td>",
                       e->window, e->after.scored, e->before.ppl, e->after.ppl,
                       100 * (e->after.ppl / e->before.ppl - 1));
        if (e->after.has_kl)
            pare__text_put(t, "<td>%.6f</td><td>%.6f</td><td>%.2f%%</td></tr>\n", e->after.kl_mean,
                           e->after.kl_p99, e->after.top1 * 100);
        else
            pare__text_put(t, "<td></td><td></td><td></td></tr>\n");
    }
    pare__text_put(t, "</table>\n");
}

static void put_sparse(pare_text_out *t, const pare_report *r)
{
    if (!pare__report_pruned(r))
        return;
    pare__text_put(t, "<h2>Pruning</h2>\n<table><tr><th>storage</th><th>linears</th><th>zeros</th>"
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
    pare__text_put(t, "</table>\n");
    const double stability = pare_report_stability(r);
    if (stability > 0)
        pare__text_put(t, "<p>" PARE_REPORT_STABILITY "</p>\n", 100 * stability);
}

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
    if (l->dead)
        pare__text_put(t, "%s%zu dead inputs", next_note(&notes), l->dead);
    if (l->thin && l->support.known)
        pare__text_put(t, "%stoo little calibration: rank %zu, %.3g effective samples",
                       next_note(&notes), l->support.rank, l->support.effective);
    else if (l->thin)
        pare__text_put(t, "%stoo little calibration", next_note(&notes));
    if (l->cold != PARE_COLD_NOT)
        pare__text_put(t, "%s%lld tokens: %s", next_note(&notes), (long long)l->tokens,
                       pare_cold_policy_name(l->cold));
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

static void put_layers(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, "<h2>Linears</h2>\n<table><tr><th>linear</th><th>method</th><th>shape</th>"
                      "<th>encoding</th><th>zeros</th><th>bits per weight</th><th>weight error</th>"
                      "<th>output error</th><th>damping</th><th>notes</th></tr>\n");
    for (size_t i = 0; i < r->rows; i++) {
        const pare_linear_result *const l = &r->row[i];
        char encoding[PARE_PACKED_TEXT];
        pare__text_put(t, "<tr><td>");
        pare__text_put_html(t, l->linear.name);
        pare__text_put(t, "</td><td>%s</td><td>%zu &times; %zu</td><td>%s</td>", l->method,
                       l->linear.n, l->linear.k, pare_packed_linear_text(&l->linear, encoding));
        if (l->pruned)
            pare__text_put(t, "<td>%.2f%%</td>", 100 * l->zeros);
        else
            pare__text_put(t, "<td></td>");
        pare__text_put(t, "<td>%.3f</td><td>%.3g</td>", l->bits_per_weight, l->weight_error);
        if (l->output_error >= 0)
            pare__text_put(t, "<td>%.3g</td><td>%g</td>", l->output_error, l->damp);
        else
            pare__text_put(t, "<td></td><td></td>");
        pare__text_put(t, "<td>");
        put_notes(t, l);
        pare__text_put(t, "</td></tr>\n");
    }
    pare__text_put(t, "</table>\n");
}

static void put_cautions(pare_text_out *t, const pare_report *r)
{
    for (size_t p = 0; pare_passes[p]; p++) {
        const char *const caution = pare__report_caution(r, p);
        if (caution)
            pare__text_put(t, "<p>Note on %s: %s.</p>\n", pare_passes[p]->name, caution);
    }
}

void pare__report_html(pare_text_out *t, const pare_report *r)
{
    pare__text_add(t, head, sizeof head - 1);
    put_summary(t, r);
    put_evaluations(t, r);
    put_cautions(t, r);
    pare__report_map(t, r);
    put_sparse(t, r);
    pare__report_structure_html(t, r);
    if (!r->structure)
        put_layers(t, r);
    pare__text_put(t, "<h2>Recipe</h2>\n<pre>");
    pare__text_put_html(t, r->recipe_text);
    pare__text_put(t, "</pre>\n</body></html>\n");
}
