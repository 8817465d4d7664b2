#include <math.h>
#include <stdio.h>

#include "compress/cli/compare_forms.h"

/* Columns on a terminal: bytes of UTF-8 that begin a character. */
static size_t columns_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0u) != 0x80;
    return n;
}

static void put_spaces(pare_text_out *t, size_t count)
{
    pare__text_put(t, "%*s", (int)count, "");
}

/* The first cell stands on the left, in a line of its own where it is wider than its column; the
 * others on the right of theirs. */
static void put_row(pare_text_out *t, const pare_row *row, const size_t *width)
{
    const bool apart = columns_of(row->cell[0]) > width[0];
    if (apart)
        pare__text_put(t, "%s\n", row->cell[0]);
    for (size_t i = 0; i < row->cells; i++) {
        const char *const text = !i && apart ? "" : row->cell[i];
        const size_t space = width[i] - columns_of(text);
        if (i)
            put_spaces(t, 2 + space);
        pare__text_put(t, "%s", text);
        if (!i)
            put_spaces(t, space);
    }
    pare__text_put(t, "\n");
}

static void widen(const pare_row *row, size_t *width)
{
    for (size_t i = 0; i < row->cells; i++) {
        const size_t n = columns_of(row->cell[i]);
        width[i] = n > width[i] ? n : width[i];
    }
}

/* A block for each model, a figure a line. */
static void put_blocks(pare_text_out *t, const pare_comparison *c, const pare_row *titles)
{
    pare_row row;
    size_t width = 0;
    for (size_t i = 1; i < titles->cells; i++) {
        const size_t n = columns_of(titles->cell[i]);
        width = n > width ? n : width;
    }
    for (size_t m = 0; m < c->models; m++) {
        pare_compare_cells(c, &c->model[m], &row);
        pare__text_put(t, "%s\n", c->model[m].model);
        for (size_t i = 1; i < row.cells; i++) {
            pare__text_put(t, "  %s", titles->cell[i]);
            put_spaces(t, width - columns_of(titles->cell[i]) + 2);
            pare__text_put(t, "%s\n", row.cell[i]);
        }
    }
}

static void put_line(pare_text_out *t, const char *line)
{
    pare__text_put(t, "%s\n", line);
}

void pare_compare_text(pare_text_out *t, const pare_comparison *c, size_t width)
{
    pare_row titles, row;
    size_t columns[PARE_CELLS] = {0}, total = 0;
    pare_compare_titles(c, &titles);
    widen(&titles, columns);
    for (size_t i = 0; i < c->models; i++) {
        pare_compare_cells(c, &c->model[i], &row);
        widen(&row, columns);
    }
    for (size_t i = 0; i < titles.cells; i++)
        total += columns[i] + (i ? 2 : 0);
    const size_t figures = total - columns[0];
    if (width && total > width && figures <= width)
        columns[0] = width - figures; /* longer names stand above their figures */
    if (width && figures > width) {
        put_blocks(t, c, &titles);
    } else {
        put_row(t, &titles, columns);
        for (size_t i = 0; i < c->models; i++) {
            pare_compare_cells(c, &c->model[i], &row);
            put_row(t, &row, columns);
        }
    }
    pare__text_put(t, "\n");
    pare_compare_notes(c, t, put_line);
}

/* A comma, and the number unless it is none. */
static void put_number(pare_text_out *t, double value)
{
    pare__text_put(t, ",");
    if (isfinite(value))
        pare__text_put(t, "%.10g", value);
}

static void put_title(pare_text_out *t, const char *file, const char *key)
{
    char title[512];
    (void)snprintf(title, sizeof title, "%.400s %s", file, key);
    pare__text_put(t, ",");
    pare__text_put_csv(t, title);
}

static void put_task_titles(pare_text_out *t, const pare_task_figures *task,
                            const pare_task_metric *m)
{
    static const char *const part[] = {"", "_stderr", "_gained", "_lost", "_p"};
    char name[64];
    for (size_t k = 0; k < sizeof part / sizeof *part; k++) {
        (void)snprintf(name, sizeof name, "%.32s%s", m->name, part[k]);
        put_title(t, task->asked.name, name);
    }
}

static void put_csv_titles(pare_text_out *t, const pare_comparison *c)
{
    static const char *const choice[] = {
        "n",           "accuracy",  "accuracy_stderr", "gained",
        "lost",        "p",         "accuracy_norm",   "accuracy_norm_stderr",
        "norm_gained", "norm_lost", "norm_p"};
    pare__text_put(t, "model,disk_bytes,weight_bytes,mapped_bytes,bits_per_weight,"
                      "model_bits_per_weight,peak_anonymous_bytes");
    if (c->asked->data.count)
        pare__text_put(t, ",tokens,nll,ppl,stderr,kl_mean,kl_p99,top1_agreement,flips");
    for (size_t i = 0; i < c->asked->choices; i++)
        for (size_t k = 0; k < sizeof choice / sizeof *choice; k++)
            put_title(t, c->asked->choice[i], choice[k]);
    for (size_t i = 0; i < c->model->tasks; i++)
        for (size_t m = 0; m < c->model->task[i].metrics; m++)
            put_task_titles(t, &c->model->task[i], &c->model->task[i].metric[m]);
    if (c->needle)
        pare__text_put(t, ",needle_n,needle_accuracy,needle_stderr,needle_gained,needle_lost,"
                          "needle_p");
    if (c->continuations)
        pare__text_put(t, ",continued,mean_length,never_ended,repeated_4grams,length_difference,"
                          "same,first_difference");
    if (c->asked->speed)
        pare__text_put(t, ",prefill_tok_s,decode_tok_s,ttft_ms,tpot_ms,threads");
    pare__text_put(t, ",complete\n");
}

static void put_csv_text(pare_text_out *t, const pare_figures *f)
{
    const pare_eval_result *const r = &f->text;
    put_number(t, (double)r->scored);
    put_number(t, f->window ? r->nll : NAN);
    put_number(t, f->window ? r->ppl : NAN);
    put_number(t, f->window ? r->ppl_stderr : NAN);
    put_number(t, r->has_kl ? r->kl_mean : NAN);
    put_number(t, r->has_kl ? r->kl_p99 : NAN);
    put_number(t, r->has_kl ? r->top1 : NAN);
    put_number(t, r->has_kl ? 1 - r->top1 : NAN);
}

static void put_csv_accuracy(pare_text_out *t, double accuracy, double error, bool has_paired,
                             const pare_paired *p)
{
    put_number(t, accuracy);
    put_number(t, error);
    put_number(t, has_paired ? (double)p->gained : NAN);
    put_number(t, has_paired ? (double)p->lost : NAN);
    put_number(t, has_paired ? p->p : NAN);
}

static void put_csv_choice(pare_text_out *t, const pare_figures *f, size_t i)
{
    static const pare_choice_figures none = {.result = {.accuracy = NAN,
                                                        .accuracy_stderr = NAN,
                                                        .accuracy_norm = NAN,
                                                        .accuracy_norm_stderr = NAN}};
    const pare_choice_figures *const x = i < f->choices ? &f->choice[i] : &none;
    const pare_choice_result *const r = &x->result;
    put_number(t, (double)r->n);
    put_csv_accuracy(t, r->accuracy, r->accuracy_stderr, x->has_paired, &x->paired);
    put_csv_accuracy(t, r->accuracy_norm, r->accuracy_norm_stderr, x->has_paired, &x->paired_norm);
}

static void put_csv_task(pare_text_out *t, const pare_task_figures *first,
                         const pare_task_figures *task)
{
    for (size_t m = 0; m < first->metrics; m++) {
        const pare_task_metric *const x = task && m < task->metrics ? &task->metric[m] : NULL;
        const bool paired = x && task->has_paired && x->right;
        put_csv_accuracy(t, x ? x->value : NAN, x ? x->error : NAN, paired,
                         paired ? &x->paired : NULL);
    }
}

static void put_csv_needle(pare_text_out *t, const pare_needle_figures *f)
{
    put_number(t, f ? (double)f->all.n : 0);
    put_csv_accuracy(t, f ? pare_needle_share(f->all) : NAN, f ? pare_needle_error(f->all) : NAN,
                     f && f->has_paired, f ? &f->paired : NULL);
}

static void put_csv_continuations(pare_text_out *t, const pare_continue_figures *f)
{
    static const pare_continue_figures none;
    const pare_continue_means m = pare_continue_means_of(f ? f : &none);
    const bool both = f && f->has_baseline;
    put_number(t, f ? (double)f->prompts : 0);
    put_number(t, m.length);
    put_number(t, m.endless);
    put_number(t, m.repeated);
    put_number(t, both ? m.length_apart : NAN);
    put_number(t, both ? m.same : NAN);
    put_number(t, both ? m.first_apart : NAN);
}

void pare_compare_csv(pare_text_out *t, const pare_comparison *c)
{
    put_csv_titles(t, c);
    for (size_t m = 0; m < c->models; m++) {
        const pare_figures *const f = &c->model[m];
        const pare_speed_result *const s = &f->speed;
        pare__text_put_csv(t, f->model);
        put_number(t, (double)f->disk_bytes);
        put_number(t, (double)f->memory.weight_bytes);
        put_number(t, (double)f->memory.mapped_bytes);
        put_number(t, f->memory.bits_per_weight);
        put_number(t, f->memory.model_bits_per_weight);
        put_number(t, (double)f->memory.peak_anonymous_bytes);
        if (c->asked->data.count)
            put_csv_text(t, f);
        for (size_t i = 0; i < c->asked->choices; i++)
            put_csv_choice(t, f, i);
        for (size_t i = 0; i < c->model->tasks; i++)
            put_csv_task(t, &c->model->task[i], i < f->tasks ? &f->task[i] : NULL);
        if (c->needle)
            put_csv_needle(t, f->needle);
        if (c->continuations)
            put_csv_continuations(t, f->continuations);
        if (c->asked->speed) {
            put_number(t, f->has_speed ? s->prefill_tok_s : NAN);
            put_number(t, f->has_speed ? s->decode_tok_s : NAN);
            put_number(t, f->has_speed ? s->ttft_ms : NAN);
            put_number(t, f->has_speed ? s->tpot_ms : NAN);
            put_number(t, f->has_speed ? (double)s->threads : NAN);
        }
        const bool complete =
            pare_figures_complete(f, c->asked->data.count > 0, c->asked->choices, c->asked->tasks,
                                  c->asked->speed) &&
            (!c->needle || (f->needle && f->needle->complete)) &&
            (!c->continuations || (f->continuations && f->continuations->complete));
        pare__text_put(t, ",%s\n", complete ? "true" : "false");
    }
}

static void put_json(pare_json_writer *w, const pare_comparison *c)
{
    const pare_measure *const m = c->asked;
    pare_json_open_object(w, NULL);
    if (m->text || m->tokens)
        pare_json_put_text(w, "data", m->text ? m->text : m->tokens);
    if (m->limit)
        pare_json_put_integer(w, "limit", (int64_t)m->limit);
    pare_json_put_bool(w, "exact", m->exact);
    pare_json_open_object(w, "original");
    pare_figures_put(w, &c->model[0]);
    pare_json_put_ran_on(w, &c->on[0]);
    pare_json_close(w);
    pare_json_open_array(w, "models");
    for (size_t i = 1; i < c->models; i++) {
        pare_json_open_object(w, NULL);
        pare_figures_put(w, &c->model[i]);
        pare_json_put_ran_on(w, &c->on[i]);
        pare_json_close(w);
    }
    pare_json_close(w);
    pare_json_open_object(w, "memory");
    pare_figures_put_peaks(w, c->peak_rss_bytes, c->peak_anonymous_bytes);
    pare_json_close(w);
    pare_json_put_bool(w, "checked", c->checked);
    pare_json_put_bool(w, "complete", c->complete);
    pare_json_close(w);
}

pare_status pare_compare_json(pare_text_out *t, const pare_comparison *c)
{
    pare_json_writer *w;
    const char *text;
    size_t len;
    PARE_TRY(pare_json_writer_new(t->cx, &w));
    put_json(w, c);
    const pare_status s = pare_json_writer_finish(w, &text, &len);
    if (s == PARE_OK)
        pare__text_add(t, text, len);
    pare_json_writer_free(w);
    return s;
}
