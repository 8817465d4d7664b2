#include "compress/evaluate/figures.h"

#include <math.h>

pare_status pare_choice_ask(pare_ctx *cx, pare_arena *a, const pare_forward *f,
                            pare_choice_item *item, size_t items, pare_choice_figures *out)
{
    out->items = items;
    out->verdict = PARE_NEW(a, unsigned char, items);
    if (!out->verdict)
        return PARE_ENOMEM;
    for (size_t i = 0; i < items; i++)
        item[i].verdict = &out->verdict[i];
    const pare_status s = pare_evaluate_choice(cx, f, item, items, &out->result);
    out->complete = s == PARE_OK;
    return s;
}

pare_status pare_choice_part(pare_arena *a, const pare_choice_texts *texts,
                             pare_choice_figures *out)
{
    if (!out->by)
        return PARE_OK;
    const char **const name = PARE_NEW(a, const char *, texts->count);
    if (!name)
        return PARE_ENOMEM;
    for (size_t i = 0; i < texts->count; i++)
        name[i] = texts->item[i].by;
    return pare_task_part(a, name, texts->count, out->verdict, "accuracy", true, &out->parts);
}

void pare_choice_pair(const pare_choice_figures *baseline, pare_choice_figures *out)
{
    const unsigned char *const now = out->verdict, *const then = baseline->verdict;
    out->has_paired = true;
    out->paired = pare_choice_paired(now, then, out->items, PARE_CHOICE_RIGHT);
    out->paired_norm = pare_choice_paired(now, then, out->items, PARE_CHOICE_RIGHT_NORM);
    pare_task_pair_parts(&out->parts, out->items, now, then);
}

bool pare_figures_complete(const pare_figures *f, bool text, size_t choices, size_t tasks,
                           bool speed)
{
    bool complete = (!text || f->text_complete) && f->choices == choices && f->tasks == tasks &&
                    f->has_speed == speed;
    for (size_t i = 0; i < f->tasks; i++)
        complete &= f->task[i].complete;
    for (size_t i = 0; i < f->choices; i++)
        complete &= f->choice[i].complete;
    return complete;
}

pare_eval_result pare_figures_baseline(const pare_eval_result *r)
{
    return (pare_eval_result){.scored = r->scored,
                              .nll = r->baseline_nll,
                              .ppl = r->baseline_ppl,
                              .ppl_stderr = r->baseline_ppl_stderr};
}

static void put_complete(pare_json_writer *w, bool complete)
{
    if (!complete)
        pare_json_put_bool(w, "complete", false);
}

void pare_figures_put_text(pare_json_writer *w, const pare_eval_result *r, bool complete)
{
    pare_json_put_integer(w, "tokens", (int64_t)r->scored);
    pare_json_open_object(w, "perplexity");
    pare_json_put_finite(w, "nll", r->nll);
    pare_json_put_finite(w, "ppl", r->ppl);
    pare_json_put_finite(w, "stderr", r->ppl_stderr);
    put_complete(w, complete);
    pare_json_close(w);
    if (!r->has_kl)
        return;
    pare_json_open_object(w, "kl");
    pare_json_put_finite(w, "mean", r->kl_mean);
    pare_json_put_finite(w, "p99", r->kl_p99);
    pare_json_put_finite(w, "top1_agreement", r->top1);
    pare_json_put_finite(w, "flips", 1 - r->top1);
    put_complete(w, complete);
    pare_json_close(w);
}

/* stderr is of nll, over windows. */
static void put_positions(pare_json_writer *w, const pare_eval_result *r, size_t window)
{
    pare_json_open_array(w, "by_position");
    for (size_t b = 0; b < r->bins; b++) {
        const pare_eval_bin *const x = &r->bin[b];
        if (!x->scored)
            continue;
        pare_json_open_object(w, NULL);
        pare_json_put_integer(w, "from", (int64_t)1 << b);
        pare_json_put_integer(w, "to",
                              (int64_t)((size_t)2 << b < window ? (size_t)2 << b : window) - 1);
        pare_json_put_integer(w, "tokens", (int64_t)x->scored);
        pare_json_put_finite(w, "nll", x->nll);
        pare_json_put_finite(w, "ppl", exp(x->nll));
        if (isfinite(x->nll_stderr))
            pare_json_put_finite(w, "stderr", x->nll_stderr);
        if (r->has_kl) {
            pare_json_put_finite(w, "baseline_nll", x->baseline_nll);
            pare_json_put_finite(w, "kl", x->kl);
        }
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_paired(pare_json_writer *w, const char *key, const pare_paired *p)
{
    pare_json_open_object(w, key);
    pare_json_put_integer(w, "gained", (int64_t)p->gained);
    pare_json_put_integer(w, "lost", (int64_t)p->lost);
    pare_json_put_finite(w, "p", p->p);
    pare_json_close(w);
}

void pare_figures_put_choice(pare_json_writer *w, const pare_choice_figures *c, size_t choices)
{
    pare_json_open_array(w, "choice");
    for (size_t i = 0; i < choices; i++, c++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "file", c->file);
        pare_json_put_integer(w, "n", (int64_t)c->result.n);
        put_complete(w, c->complete);
        pare_json_put_finite(w, "accuracy", c->result.accuracy);
        pare_json_put_finite(w, "accuracy_stderr", c->result.accuracy_stderr);
        pare_json_put_finite(w, "accuracy_norm", c->result.accuracy_norm);
        pare_json_put_finite(w, "accuracy_norm_stderr", c->result.accuracy_norm_stderr);
        if (c->has_paired) {
            put_paired(w, "paired", &c->paired);
            put_paired(w, "paired_norm", &c->paired_norm);
        }
        if (c->by)
            pare_json_put_text(w, "by", c->by);
        pare_task_put_groups(w, c->parts.group, c->parts.groups, c->has_paired);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void put_speed(pare_json_writer *w, const pare_speed_result *s)
{
    pare_json_open_object(w, "speed");
    pare_json_put_finite(w, "prefill_tok_s", s->prefill_tok_s);
    pare_json_put_finite(w, "decode_tok_s", s->decode_tok_s);
    pare_json_put_finite(w, "ttft_ms", s->ttft_ms);
    pare_json_put_finite(w, "tpot_ms", s->tpot_ms);
    pare_json_put_integer(w, "threads", (int64_t)s->threads);
    pare_json_close(w);
}

void pare_figures_put_peaks(pare_json_writer *w, uint64_t resident, uint64_t anonymous)
{
    if (resident)
        pare_json_put_integer(w, "peak_rss_bytes", (int64_t)resident);
    if (anonymous)
        pare_json_put_integer(w, "peak_anonymous_bytes", (int64_t)anonymous);
}

void pare_figures_put_memory(pare_json_writer *w, const pare_memory_figures *m)
{
    pare_json_open_object(w, "memory");
    pare_json_put_integer(w, "weight_bytes", (int64_t)m->weight_bytes);
    pare_json_put_finite(w, "bits_per_weight", m->bits_per_weight);
    pare_json_put_finite(w, "model_bits_per_weight", m->model_bits_per_weight);
    if (m->mapped_bytes)
        pare_json_put_integer(w, "mapped_bytes", (int64_t)m->mapped_bytes);
    pare_figures_put_peaks(w, m->peak_rss_bytes, m->peak_anonymous_bytes);
    pare_json_close(w);
}

void pare_figures_put(pare_json_writer *w, const pare_figures *f)
{
    pare_json_put_text(w, "model", f->model);
    pare_json_put_integer(w, "disk_bytes", (int64_t)f->disk_bytes);
    if (f->window) {
        pare_json_put_integer(w, "window", (int64_t)f->window);
        if (f->stride)
            pare_json_put_integer(w, "stride", (int64_t)f->stride);
        pare_figures_put_text(w, &f->text, f->text_complete);
        if (f->by_position)
            put_positions(w, &f->text, f->window);
    }
    if (f->choices)
        pare_figures_put_choice(w, f->choice, f->choices);
    if (f->tasks)
        pare_task_put(w, f->task, f->tasks);
    if (f->needle)
        pare_needle_put(w, f->needle);
    if (f->continuations)
        pare_continue_put(w, f->continuations);
    if (f->has_speed)
        put_speed(w, &f->speed);
    pare_figures_put_memory(w, &f->memory);
}
