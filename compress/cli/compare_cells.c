#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/cli/compare_forms.h"
#include "compress/cli/output_file.h"
#include "compress/text/units.h"

enum { NAME_MOST = 40 };

static char *next(pare_row *row)
{
    return row->cell[row->cells++];
}

static void add(pare_row *row, const char *text)
{
    (void)snprintf(next(row), PARE_CELL, "%s", text);
}

/* The end of a path of any length. */
static void add_name(pare_row *row, const char *path)
{
    const size_t len = strlen(path);
    (void)snprintf(next(row), PARE_CELL, "%s%s", len > NAME_MOST ? "..." : "",
                   path + (len > NAME_MOST ? len - NAME_MOST + 3 : 0));
}

static void add_bytes(pare_row *row, uint64_t bytes)
{
    (void)pare_units_bytes(bytes, next(row));
}

static bool has_text(const pare_comparison *c)
{
    return c->asked->data.count;
}

enum { CONTINUED = 3 };
static const char *const continued[CONTINUED] = {"tokens written", "repeated", "same"};

void pare_compare_titles(const pare_comparison *c, pare_row *row)
{
    row->cells = 0;
    static const char *const sizes[] = {"model", "on disk", "weights", "bits"};
    static const char *const text[] = {"perplexity", "KL", "flips"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add(row, sizes[i]);
    for (size_t i = 0; has_text(c) && i < sizeof text / sizeof *text; i++)
        add(row, text[i]);
    for (size_t i = 0; i < c->asked->choices; i++) {
        add(row, pare_last_name(c->asked->choice[i]));
        add(row, "per byte");
    }
    for (size_t i = 0; i < c->model->tasks; i++)
        for (size_t m = 0; m < c->model->task[i].metrics; m++)
            (void)snprintf(next(row), PARE_CELL, "%.32s %.24s", c->model->task[i].asked.name,
                           c->model->task[i].metric[m].name);
    if (c->needle)
        add(row, "needle");
    for (size_t i = 0; c->continuations && i < CONTINUED; i++)
        add(row, continued[i]);
    if (c->asked->speed) {
        add(row, "prefill tok/s");
        add(row, "decode tok/s");
    }
    add(row, "memory");
}

static void add_text(pare_row *row, const pare_figures *f)
{
    const pare_eval_result *const r = &f->text;
    const char *const mark = f->text_complete ? "" : "*";
    if (!f->window) {
        for (size_t i = 0; i < 3; i++)
            add(row, "");
        return;
    }
    (void)snprintf(next(row), PARE_CELL, "%.4f +- %.4f%s", r->ppl, r->ppl_stderr, mark);
    if (!r->has_kl) {
        add(row, "-");
        add(row, "-");
        return;
    }
    (void)snprintf(next(row), PARE_CELL, "%.6f%s", r->kl_mean, mark);
    (void)snprintf(next(row), PARE_CELL, "%.2f%%%s", (1 - r->top1) * 100, mark);
}

static void add_accuracy(pare_row *row, double accuracy, double error, const pare_paired *p,
                         bool complete)
{
    char deviation[24] = "", paired[24] = "";
    if (error > 0 && isfinite(error)) /* none where all answers are alike */
        (void)snprintf(deviation, sizeof deviation, " +- %.2f", error * 100);
    if (p)
        (void)snprintf(paired, sizeof paired, ", p %.3f", p->p);
    (void)snprintf(next(row), PARE_CELL, "%.2f%s%%%s%s", accuracy * 100, deviation, paired,
                   complete ? "" : "*");
}

static void add_choice(pare_row *row, const pare_figures *f, size_t i)
{
    const pare_choice_figures *const x = &f->choice[i];
    if (i >= f->choices) {
        add(row, "");
        add(row, "");
        return;
    }
    add_accuracy(row, x->result.accuracy, x->result.accuracy_stderr,
                 x->has_paired ? &x->paired : NULL, x->complete);
    add_accuracy(row, x->result.accuracy_norm, x->result.accuracy_norm_stderr,
                 x->has_paired ? &x->paired_norm : NULL, x->complete);
}

/* As many cells as the original has. */
static void add_task(pare_row *row, const pare_comparison *c, const pare_figures *f, size_t i)
{
    const pare_task_figures *const t = i < f->tasks ? &f->task[i] : NULL;
    for (size_t m = 0; m < c->model->task[i].metrics; m++) {
        const pare_task_metric *const x = t && m < t->metrics ? &t->metric[m] : NULL;
        if (!x)
            add(row, "");
        else if (x->share)
            add_accuracy(row, x->value, x->error, t->has_paired && x->right ? &x->paired : NULL,
                         t->complete);
        else
            (void)snprintf(next(row), PARE_CELL, "%.4f%s", x->value, t->complete ? "" : "*");
    }
}

static void add_needle(pare_row *row, const pare_needle_figures *f)
{
    if (f)
        add_accuracy(row, pare_needle_share(f->all), pare_needle_error(f->all),
                     f->has_paired ? &f->paired : NULL, f->complete);
    else
        add(row, "");
}

/* "-": there is nothing to measure, as of the original beside itself. */
static void add_figure(pare_row *row, double value, const char *unit, bool complete)
{
    if (isfinite(value))
        (void)snprintf(next(row), PARE_CELL, "%.1f%s%s", value, unit, complete ? "" : "*");
    else
        add(row, "-");
}

static void add_continuations(pare_row *row, const pare_continue_figures *f)
{
    for (size_t i = 0; !f && i < CONTINUED; i++)
        add(row, "");
    if (!f)
        return;
    const pare_continue_means m = pare_continue_means_of(f);
    add_figure(row, m.length, "", f->complete);
    add_figure(row, m.repeated * 100, "%", f->complete);
    add_figure(row, f->has_baseline ? m.same * 100 : NAN, "%", f->complete);
}

static void add_rate(pare_row *row, bool there, double tok_s)
{
    char *const text = next(row);
    text[0] = '\0';
    if (there)
        (void)snprintf(text, PARE_CELL, "%.1f", tok_s);
}

void pare_compare_cells(const pare_comparison *c, const pare_figures *f, pare_row *row)
{
    const pare_memory_figures *const m = &f->memory;
    row->cells = 0;
    add_name(row, f->model);
    add_bytes(row, f->disk_bytes);
    add_bytes(row, m->weight_bytes);
    (void)snprintf(next(row), PARE_CELL, "%.3f", m->model_bits_per_weight);
    if (has_text(c))
        add_text(row, f);
    for (size_t i = 0; i < c->asked->choices; i++)
        add_choice(row, f, i);
    for (size_t i = 0; i < c->model->tasks; i++)
        add_task(row, c, f, i);
    if (c->needle)
        add_needle(row, f->needle);
    if (c->continuations)
        add_continuations(row, f->continuations);
    if (c->asked->speed) {
        add_rate(row, f->has_speed, f->speed.prefill_tok_s);
        add_rate(row, f->has_speed, f->speed.decode_tok_s);
    }
    add_bytes(row, m->mapped_bytes + m->peak_anonymous_bytes);
}

static size_t least_of(const pare_needle_opts *o)
{
    size_t least = o->length[0];
    for (size_t i = 1; i < o->lengths; i++)
        least = o->length[i] < least ? o->length[i] : least;
    return least;
}

static size_t most_of(const pare_needle_opts *o)
{
    size_t most = 0;
    for (size_t i = 0; i < o->lengths; i++)
        most = o->length[i] > most ? o->length[i] : most;
    return most;
}

static void note_prompts(const pare_figures *f, pare_text_out *t, const char *what, size_t done,
                         void (*put)(pare_text_out *t, const char *line))
{
    char line[512];
    (void)snprintf(line, sizeof line, "* %.300s: interrupted after %zu prompt%s of %s", f->model,
                   done, pare_plural(done), what);
    put(t, line);
}

/* What was done of a model that an interrupt cut short. */
static void note_part(const pare_figures *f, pare_text_out *t,
                      void (*put)(pare_text_out *t, const char *line))
{
    char line[512];
    if (f->window && !f->text_complete) {
        (void)snprintf(line, sizeof line, "* %.300s: interrupted after %zu token%s", f->model,
                       f->text.scored, pare_plural(f->text.scored));
        put(t, line);
    }
    for (size_t i = 0; i < f->choices; i++)
        if (!f->choice[i].complete) {
            (void)snprintf(line, sizeof line, "* %.200s: interrupted after %zu item%s of %.200s",
                           f->model, f->choice[i].result.n, pare_plural(f->choice[i].result.n),
                           f->choice[i].file);
            put(t, line);
        }
    for (size_t i = 0; i < f->tasks; i++)
        if (!f->task[i].complete) {
            (void)snprintf(line, sizeof line,
                           "* %.200s: interrupted after %zu document%s of %.200s", f->model,
                           f->task[i].n, pare_plural(f->task[i].n), f->task[i].asked.file);
            put(t, line);
        }
    if (f->needle && !f->needle->complete)
        note_prompts(f, t, "the needle", f->needle->all.n, put);
    if (f->continuations && !f->continuations->complete)
        note_prompts(f, t, "the continuations", f->continuations->prompts, put);
}

/* How prompts came about, by what the original was asked. */
static void note_answers(const pare_comparison *c, pare_text_out *t,
                         void (*put)(pare_text_out *t, const char *line))
{
    char line[512];
    const pare_needle_figures *const n = c->model->needle;
    const pare_continue_figures *const f = c->model->continuations;
    if (n) {
        char lengths[64];
        const size_t least = least_of(&n->opts), most = most_of(&n->opts);
        (void)snprintf(lengths, sizeof lengths, least < most ? "%zu to %zu" : "%zu", least, most);
        (void)snprintf(line, sizeof line,
                       "needle: numbers found in %zu prompt%s of %.300s, %s tokens", n->all.n,
                       pare_plural(n->all.n), n->opts.file, lengths);
        put(t, line);
    }
    if (f) {
        (void)snprintf(
            line, sizeof line,
            "tokens written: behind %zu prompt%s of %zu tokens, at most %zu, temperature "
            "%g; repeated: 4-grams; same: as the original; their memory does not count",
            f->prompts, pare_plural(f->prompts), pare_continue_prompt(f->opts.window), f->opts.most,
            f->opts.temperature);
        put(t, line);
    }
}

static void note_text(const pare_comparison *c, pare_text_out *t,
                      void (*put)(pare_text_out *t, const char *line))
{
    char line[512], stride[64] = "";
    const pare_figures *const f = c->model;
    if (!f->window)
        return;
    if (f->stride)
        (void)snprintf(stride, sizeof stride, ", stride %zu", f->stride);
    (void)snprintf(line, sizeof line, "perplexity: %zu token%s of %.300s scored, window %zu%s",
                   f->text.scored, pare_plural(f->text.scored),
                   c->asked->text ? c->asked->text : c->asked->tokens, f->window, stride);
    put(t, line);
    put(t, "KL: nats, to the original; flips: tokens for which another one comes first");
}

void pare_compare_notes(const pare_comparison *c, pare_text_out *t,
                        void (*put)(pare_text_out *t, const char *line))
{
    char line[520], limit[PARE_MEASURE_TEXT];
    put(t, "bits: of all tensors, per weight");
    note_text(c, t, put);
    for (size_t i = 0; i < c->model->choices; i++) {
        (void)snprintf(line, sizeof line, "%.300s: accuracy in %zu item%s",
                       c->model->choice[i].file, c->model->choice[i].result.n,
                       pare_plural(c->model->choice[i].result.n));
        put(t, line);
    }
    for (size_t i = 0; i < c->model->tasks; i++) {
        const pare_task_figures *const x = &c->model->task[i];
        (void)snprintf(line, sizeof line, "%.64s: %zu document%s of %.300s, %zu shot%s",
                       x->asked.name, x->n, pare_plural(x->n), x->asked.file, x->asked.shots,
                       pare_plural(x->asked.shots));
        put(t, line);
    }
    note_answers(c, t, put);
    if (c->asked->choices || c->asked->tasks || c->needle)
        put(t, "p: of McNemar's exact test against the answers of the original");
    put(t, "memory: the weights, and the most that was in use beside them to measure the model");
    if (c->device)
        put(t, "memory is that of the host, without what models take of a device");
    if (c->asked->limit) {
        (void)snprintf(line, sizeof line, "limited to the %s",
                       pare_measure_limit_text(c->asked, limit));
        put(t, line);
    }
    for (size_t i = 0; c->on && i < c->models; i++) {
        char on[PARE_DEVICE_TEXT];
        if (!c->on[i].device && !c->on[i].fallback)
            continue;
        (void)snprintf(line, sizeof line, "device of %.100s: %.400s", c->model[i].model,
                       pare_ran_on_text(&c->on[i], on));
        put(t, line);
    }
    for (size_t i = 0; i < c->models; i++)
        note_part(&c->model[i], t, put);
    if (c->models < c->given) {
        (void)snprintf(line, sizeof line, "%zu of %zu models were measured", c->models, c->given);
        put(t, line);
    }
}
