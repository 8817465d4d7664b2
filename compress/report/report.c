#include "compress/report/report.h"

#include <math.h>
#include <stdio.h>

#include "compress/report/report_internal.h"
#include "formats/config_copy.h"
#include "formats/json.h"

double pare__report_error(const pare_linear_result *row)
{
    return row->output_error >= 0 ? row->output_error : row->weight_error;
}

/* What a row and the rows of its steps share, up to the errors. */
static void put_linear(pare_text_out *t, const pare_config *c, const pare_linear_result *l,
                       const char *method)
{
    if (l->block < c->blocks)
        pare__text_put(t, "%zu", l->block);
    pare__text_put(t, ",");
    pare__text_put_csv(t, l->linear.name);
    pare__text_put(t, ",%s,%zu,%zu,%u,%zu,%d,%.6g,", method, l->linear.n, l->linear.k,
                   l->linear.bits, l->linear.group, l->linear.symmetric, l->bits_per_weight);
}

static void put_errors(pare_text_out *t, double weight, double output)
{
    pare__text_put(t, "%.9g,", weight);
    if (output >= 0)
        pare__text_put(t, "%.9g", output);
}

/* A row of what became of each linear, then one of each step's share when there is more to tell. */
void pare__report_csv(pare_text_out *t, const pare_report *r)
{
    if (r->structure) {
        pare__report_structure_csv(t, r);
        return;
    }
    pare__text_put(t,
                   "block,name,method,rows,columns,bits,group,symmetric,bits_per_weight,"
                   "weight_error,output_error,damp,raises,f64,fallback,dead,seconds,encoding,"
                   "step,note,pruned,zeros,stability,tokens_seen,rank,effective_samples,"
                   "effective_rank,loudest_token,thin,coarse,lost%s\n",
                   r->config->experts ? ",expert,tokens,cold" : "");
    for (size_t i = 0; i < r->rows + r->tables; i++) {
        const pare_linear_result *const l = &r->row[i];
        char encoding[PARE_PACKED_TEXT];
        put_linear(t, r->config, l, l->method);
        put_errors(t, l->weight_error, l->output_error);
        pare__text_put(t, ",%.6g,%u,%d,%d,%zu,%.6g,", l->damp, l->raises, l->f64, l->fallback,
                       l->dead, l->seconds);
        pare__text_put_csv(t, pare_packed_linear_text(&l->linear, encoding));
        pare__text_put(t, ",,,%d,%.9g,", l->pruned, l->zeros);
        if (l->stability > 0)
            pare__text_put(t, "%.6g", l->stability);
        if (l->support.known)
            pare__text_put(t, ",%llu,%zu,%.6g,%.6g,", (unsigned long long)l->support.tokens,
                           l->support.rank, l->support.effective, l->support.effective_rank);
        else if (l->support.tokens)
            pare__text_put(t, ",%llu,,,,", (unsigned long long)l->support.tokens);
        else
            pare__text_put(t, ",,,,,");
        if (l->support.loudest > 0)
            pare__text_put(t, "%.6g", l->support.loudest);
        pare__text_put(t, ",%d,%zu,%llu", l->thin, l->coarse, (unsigned long long)l->lost);
        if (r->config->experts)
            pare__report_experts_csv(t, l);
        pare__text_put(t, "\n");
        const bool tell = l->steps > 1 || (l->steps && l->step[0].note[0]);
        for (size_t s = 0; tell && s < l->steps; s++) {
            const pare_step_result *const step = &l->step[s];
            put_linear(t, r->config, l, step->pass);
            put_errors(t, step->weight_error, step->output_error);
            pare__text_put(t, ",,,,,,,,%u,", step->step);
            pare__text_put_csv(t, step->note);
            pare__text_put(t, ",,,,,,,,,,,%s\n", r->config->experts ? ",,," : "");
        }
    }
}

uint64_t pare_report_repaired(const pare_report *r)
{
    uint64_t weights = 0;
    for (size_t i = 0; i < r->repairs; i++)
        weights += r->repair[i].weights;
    return weights;
}

const char *pare_report_notes(const pare_report_eval *e, const char *separator,
                              char text[PARE_REPORT_NOTES])
{
    int length = 0;
    text[0] = '\0';
    if (e->limit)
        length = snprintf(text, PARE_REPORT_NOTES, "%sfirst %zu of %zu %s%s", separator, e->limit,
                          e->all,
                          e->kind == PARE_EVALUATE_CHOICE ? "item"
                          : e->kind == PARE_EVALUATE_TASK ? "document"
                                                          : "window",
                          pare_plural(e->all));
    if (e->device || e->device_fallback)
        (void)snprintf(text + length, PARE_REPORT_NOTES - (size_t)length, "%s%s%s", separator,
                       e->device ? "on a GPU" : "on the CPU, because no GPU could be used",
                       e->f16 ? ", products of floats in F16" : "");
    return text;
}

static void put_side(pare_json_writer *w, const pare_report_eval *e, bool after)
{
    switch (e->kind) {
    case PARE_EVALUATE_PERPLEXITY:
    case PARE_EVALUATE_KL: pare_figures_put_text(w, after ? &e->after : &e->before, true); break;
    case PARE_EVALUATE_CHOICE:
        pare_figures_put_choice(w, after ? &e->choice_after : &e->choice_before, 1);
        break;
    case PARE_EVALUATE_TASK: pare_task_put(w, after ? &e->task_after : &e->task_before, 1); break;
    case PARE_EVALUATE_NEEDLE:
        pare_needle_put(w, after ? &e->needle_after : &e->needle_before);
        break;
    case PARE_EVALUATE_CONTINUATIONS: pare_continue_put(w, &e->continued[after ? 0 : 1]); break;
    }
}

static void put_evaluation(pare_json_writer *w, const pare_report_eval *e)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "kind", pare_evaluation_kind_name(e->kind));
    pare_json_put_text(w, "data", e->data);
    if (e->limit) {
        pare_json_put_integer(w, "limit", (int64_t)e->limit);
        pare_json_put_integer(w, "available", (int64_t)e->all);
    }
    if (e->device)
        pare_json_put_text(w, "device", e->device);
    if (e->device_fallback)
        pare_json_put_text(w, "device_fallback", e->device_fallback);
    if (e->f16)
        pare_json_put_text(w, "device_products", "f16");
    if (e->window)
        pare_json_put_integer(w, "window", (int64_t)e->window);
    put_side(w, e, true);
    pare_json_open_object(w, "baseline");
    put_side(w, e, false);
    pare_json_close(w);
    pare_json_close(w);
}

uint64_t pare_report_total(const uint64_t bytes[PARE_REPORT_PARTS])
{
    uint64_t all = 0;
    for (size_t i = 0; i < PARE_REPORT_PARTS; i++)
        all += bytes[i];
    return all;
}

static void put_memory(pare_json_writer *w, const pare_report *r)
{
    const pare_memory_figures m = {.weight_bytes = pare_report_total(r->sizes.after),
                                   .bits_per_weight = r->bits_per_weight,
                                   .model_bits_per_weight = r->model_bits_per_weight,
                                   .peak_rss_bytes = r->peak_rss_bytes,
                                   .peak_anonymous_bytes = r->peak_anonymous_bytes};
    pare_figures_put_memory(w, &m);
    pare_json_open_object(w, "baseline");
    pare_json_put_text(w, "model", r->original ? r->original : r->model);
    pare_json_open_object(w, "memory");
    pare_json_put_integer(w, "weight_bytes", (int64_t)pare_report_total(r->sizes.before));
    pare_json_close(w);
    pare_json_close(w);
}

static void put_repaired(pare_json_writer *w, const pare_report *r)
{
    if (!r->repairs)
        return;
    pare_json_open_object(w, "repaired");
    pare_json_put_text(w, "nan", r->nan == PARE_NAN_CLAMP ? "clamp" : "zero");
    pare_json_open_object(w, "tensors");
    for (size_t i = 0; i < r->repairs; i++)
        pare_json_put_integer(w, r->repair[i].tensor, (int64_t)r->repair[i].weights);
    pare_json_close(w);
    pare_json_close(w);
}

void pare_report_put(pare_json_writer *w, const pare_report *r)
{
    put_memory(w, r);
    pare_json_put_finite(w, "seconds", r->seconds);
    pare_json_put_finite(w, "calibration_seconds", r->calibration_seconds);
    pare_json_put_finite(w, "evaluation_seconds", r->evaluation_seconds);
    if (r->joules > 0)
        pare_json_put_finite(w, "energy_joules", r->joules);
    pare_json_put_integer(w, "resumed_blocks", (int64_t)r->resumed_blocks);
    pare_json_put_integer(w, "fallbacks", (int64_t)r->fallbacks);
    pare_json_put_integer(w, "thin", (int64_t)r->thin);
    pare_json_open_array(w, "evaluations");
    for (size_t i = 0; i < r->evaluations; i++)
        put_evaluation(w, &r->evaluation[i]);
    pare_json_close(w);
    pare_json_open_array(w, "warnings");
    for (size_t i = 0; i < r->warnings; i++)
        pare_json_put_text(w, NULL, r->warning[i]);
    pare_json_close(w);
    put_repaired(w, r);
    if (r->verdict)
        pare_gate_put(w, r->verdict);
    pare__report_training_put(w, r);
}

static void put_shares(pare_json_writer *w, const pare_report *r)
{
    if (!r->calibration_share)
        return;
    pare_json_open_array(w, "calibration_texts");
    for (size_t i = 0; i < r->calibration_texts; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "text", r->calibration_text[i].text);
        pare_json_put_integer(w, "windows", (int64_t)r->calibration_share[i]);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_ranks(pare_json_writer *w, const pare_report *r)
{
    if (!r->ranks)
        return;
    pare_json_open_array(w, "ranks");
    for (size_t i = 0; i < r->ranks; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_integer(w, "windows", (int64_t)r->rank[i].windows);
        pare_json_put_integer(w, "linears", (int64_t)r->rank[i].linears);
        pare_json_put_finite(w, "seconds", r->rank[i].seconds);
        pare_json_put_integer(w, "peak_rss_bytes", (int64_t)r->rank[i].peak_bytes);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_speed(pare_json_writer *w, const pare_speed *s)
{
    if (!s)
        return;
    pare_json_open_object(w, "speed");
    pare_json_put_number(w, "asked_tokens_s", s->asked);
    pare_json_put_number(w, "original_tokens_s", s->original);
    pare_json_put_number(w, "predicted_tokens_s", s->predicted);
    pare_json_put_number(w, "reached_tokens_s", s->reached);
    pare_json_close(w);
}

void pare__report_run(pare_json_writer *w, const pare_report *r)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "program", r->program);
    pare_json_put_text(w, "started", r->started);
    pare_json_put_text(w, "host", r->host);
    pare_json_put_text(w, "cpu", r->cpu);
    if (r->blas)
        pare_json_put_text(w, "blas", r->blas);
    pare_json_put_integer(w, "threads", (int64_t)r->threads);
    pare_json_put_text(w, "model", r->model);
    if (r->original)
        pare_json_put_text(w, "original", r->original);
    pare_json_put_text(w, "recipe", r->recipe_file);
    if (r->recipe_directory)
        pare_json_put_text(w, "recipe_directory", r->recipe_directory);
    if (r->sets)
        pare_json_open_array(w, "sets");
    for (size_t i = 0; i < r->sets; i++)
        pare_json_put_text(w, NULL, r->set[i]);
    if (r->sets)
        pare_json_close(w);
    pare_json_put_text(w, "output", r->output);
    pare_json_put_bool(w, "head_untied", r->untied);
    pare_json_put_integer(w, "calibration_windows", (int64_t)r->calibration_windows);
    pare_json_put_integer(w, "calibration_window", (int64_t)r->calibration_window);
    if (r->precision)
        pare_json_put_text(w, "precision", r->precision);
    put_shares(w, r);
    put_ranks(w, r);
    put_speed(w, r->speed);
    if (r->config->uneven)
        pare_config_put_widths(w, "mlp_channels", r->config);
    pare__report_experts_run(w, r);
    pare__report_structure_run(w, r);
    pare_report_put(w, r);
    pare_json_open_array(w, "exports");
    for (size_t i = 0; i < r->exports; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "format", r->export[i].format.text);
        pare_json_put_text(w, "output", r->export[i].path.text);
        pare_json_close(w);
    }
    pare_json_close(w);
    pare_json_close(w);
}

static pare_status write_run(pare_ctx *cx, const pare_report *r, const char *directory)
{
    pare_text_out t = {.cx = cx};
    pare_json_writer *w;
    const char *text;
    size_t len;
    PARE_TRY(pare_json_writer_new(cx, &w));
    pare__report_run(w, r);
    t.status = pare_json_writer_finish(w, &text, &len);
    if (t.status == PARE_OK)
        pare__text_add(&t, text, len);
    pare_json_writer_free(w);
    return pare__text_save(&t, directory, "run.json");
}

pare_status pare_report_write(pare_ctx *cx, const pare_report *r, const char *directory)
{
    static const struct {
        const char *name;
        void (*fill)(pare_text_out *t, const pare_report *r);
    } file[] = {{"README.md", pare__report_card},
                {"report.html", pare__report_html},
                {"layers.csv", pare__report_csv}};
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        pare_text_out t = {.cx = cx};
        file[i].fill(&t, r);
        PARE_TRY(pare__text_save(&t, directory, file[i].name));
    }
    return write_run(cx, r, directory);
}
