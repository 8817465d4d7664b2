/* What the log-likelihoods of a task's requests say: one or two values a document, and their means.
 * Sums in double, in the order of the file. */
#include <math.h>
#include <string.h>

#include "compress/evaluate/task_internal.h"

static const char strict[] = "exact_match,strict-match";

typedef struct scoring {
    pare_arena *a;
    const pare_task_data *data;
    double *score; /* [values] */
    bool *greedy;  /* [values] */
    unsigned char *asked;
    double *value; /* [docs] of the first metric, or the log-likelihood */
    pare_task_figures *out;
    double log_sum;
    size_t words, bytes;
} scoring;

static size_t best_of(const double *sum, const size_t *length, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (length ? sum[i] / (double)length[i] > sum[best] / (double)length[best]
                   : sum[i] > sum[best])
            best = i;
    return best;
}

/* sum of exp(ll) over right choices by that over all; the largest is taken out first, so that it
 * never is 0 by 0. */
static double mass_of(const double *sum, uint64_t right, size_t count)
{
    const double most = sum[best_of(sum, NULL, count)];
    double all = 0, of_right = 0;
    for (size_t i = 0; i < count; i++) {
        all += exp(sum[i] - most);
        of_right += right >> i & 1 ? exp(sum[i] - most) : 0;
    }
    return of_right / all;
}

static void judge(scoring *s, size_t doc)
{
    const pare_task_doc *const d = &s->data->texts.doc[doc];
    const double *const sum = s->score + d->value;
    unsigned char verdict = PARE_CHOICE_ASKED;
    const pare__task_kind kind = s->data->texts.task->kind;
    double value = kind == PARE__TASK_ANSWER ? 0 : sum[0];
    switch (kind) {
    case PARE__TASK_ACC:
    case PARE__TASK_NORM:
        value = best_of(sum, NULL, d->choices) == d->answer;
        verdict |= value > 0 ? PARE_CHOICE_RIGHT : 0;
        if (kind == PARE__TASK_NORM && best_of(sum, d->length, d->choices) == d->answer)
            verdict |= PARE_CHOICE_RIGHT_NORM;
        break;
    case PARE__TASK_MASS: value = mass_of(sum, d->right, d->choices); break;
    case PARE__TASK_WORD: verdict |= s->greedy[d->value] ? PARE_CHOICE_RIGHT : 0; break;
    case PARE__TASK_ANSWER: verdict = s->asked[d->first]; break;
    case PARE__TASK_PAGE:
        for (size_t i = 1; i < d->count; i++)
            value += sum[i];
        break;
    }
    s->value[s->out->n++] = value;
    s->log_sum += value;
    s->words += d->words;
    s->bytes += d->bytes;
    s->out->verdict[doc] = verdict;
}

static double mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* Sample deviation over sqrt(n). */
static double error_of(const double *x, size_t n, double mean)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : NAN;
}

/* The share of the documents asked whose verdict has a bit. */
static pare_task_metric share_of(const pare_task_figures *f, const char *name, unsigned bit)
{
    size_t right = 0, n = 0;
    for (size_t i = 0; i < f->docs; i++) {
        const bool asked = (f->verdict[i] & PARE_CHOICE_ASKED) != 0;
        n += asked;
        right += asked && (f->verdict[i] & bit) != 0;
    }
    return pare__task_share(name, bit, right, n);
}

static void add(pare_task_figures *f, pare_task_metric m)
{
    f->metric[f->metrics++] = m;
}

static void sum_up(scoring *s)
{
    pare_task_figures *const f = s->out;
    const double mean = mean_of(s->value, f->n), error = error_of(s->value, f->n, mean);
    switch (s->data->texts.task->kind) {
    case PARE__TASK_ACC:
    case PARE__TASK_NORM:
        add(f, share_of(f, "acc", PARE_CHOICE_RIGHT));
        if (s->data->texts.task->kind == PARE__TASK_NORM)
            add(f, share_of(f, "acc_norm", PARE_CHOICE_RIGHT_NORM));
        break;
    case PARE__TASK_MASS:
        add(f, (pare_task_metric){.name = "acc", .value = mean, .error = error, .share = true});
        break;
    case PARE__TASK_WORD:
        add(f, (pare_task_metric){
                   .name = "perplexity", .value = exp(-mean), .error = exp(-mean) * error});
        add(f, share_of(f, "acc", PARE_CHOICE_RIGHT));
        break;
    case PARE__TASK_ANSWER:
        add(f, share_of(f, strict, PARE_CHOICE_RIGHT));
        add(f, share_of(f, "exact_match,flexible-extract", PARE_CHOICE_RIGHT_NORM));
        break;
    case PARE__TASK_PAGE: {
        const double by_word = s->log_sum / (double)s->words, bytes = (double)s->bytes;
        add(f, (pare_task_metric){.name = "word_perplexity", .value = exp(-by_word), .error = NAN});
        add(f, (pare_task_metric){
                   .name = "byte_perplexity", .value = exp(-s->log_sum / bytes), .error = NAN});
        add(f, (pare_task_metric){
                   .name = "bits_per_byte", .value = -s->log_sum / bytes / log(2), .error = NAN});
        break;
    }
    }
}

/* By a field, or subjects in the order in which the file has them. */
static pare_status part(scoring *s)
{
    pare_task_figures *const f = s->out;
    const pare_task_doc *const doc = s->data->texts.doc;
    const bool writes = s->data->texts.task->kind == PARE__TASK_ANSWER;
    pare_task_parts p;
    if (!doc[0].group)
        return PARE_OK;
    const char **const name = PARE_NEW(s->a, const char *, f->docs);
    if (!name)
        return PARE_ENOMEM;
    for (size_t i = 0; i < f->docs; i++)
        name[i] = doc[i].group;
    PARE_TRY(pare_task_part(s->a, name, f->docs, f->verdict, writes ? strict : "acc",
                            f->asked.by != NULL, &p));
    f->group = p.group;
    f->groups = p.groups > 1 || f->asked.by ? p.groups : 0;
    f->part = p.part;
    return PARE_OK;
}

static pare_status summarize(scoring *s)
{
    const pare_task_data *const d = s->data;
    for (size_t i = 0; i < d->texts.docs; i++) {
        bool whole = true;
        for (size_t k = 0; k < d->texts.doc[i].count; k++)
            whole &= s->asked[d->texts.doc[i].first + k] != 0;
        if (whole)
            judge(s, i);
    }
    if (!s->out->n)
        return PARE_OK;
    sum_up(s);
    return part(s);
}

pare_status pare_task_ask(pare_ctx *cx, pare_arena *a, const pare_forward *f,
                          const pare_task_data *data, const pare_task_asked *asked,
                          pare_task_figures *out)
{
    const size_t docs = data->texts.docs;
    scoring s = {.a = a, .data = data, .out = out};
    pare_choice_result result;
    *out = (pare_task_figures){
        .asked = *asked, .docs = docs, .all = data->texts.all, .cut = data->cut};
    s.score = PARE_NEW(a, double, data->values);
    s.greedy = PARE_NEW(a, bool, data->values);
    s.asked = PARE_NEW(a, unsigned char, data->items);
    s.value = PARE_NEW(a, double, docs);
    out->verdict = PARE_NEW(a, unsigned char, docs);
    if (!s.score || !s.greedy || !s.asked || !s.value || !out->verdict)
        return PARE_ENOMEM;
    for (size_t i = 0, at = 0; i < data->items; at += data->item[i++].choices) {
        data->item[i].score = s.score + at;
        data->item[i].greedy = s.greedy + at;
        data->item[i].verdict = s.asked + i;
    }
    const pare_status status = data->texts.task->kind == PARE__TASK_ANSWER
                                   ? pare__task_write(cx, f, data)
                                   : pare_evaluate_choice(cx, f, data->item, data->items, &result);
    out->complete = status == PARE_OK;
    if (status == PARE_OK || status == PARE_EINTERRUPTED)
        PARE_TRY(summarize(&s));
    return status;
}

static void count_pair(pare_paired *p, unsigned now, unsigned then, unsigned bit)
{
    p->gained += (now & bit) > (then & bit);
    p->lost += (now & bit) < (then & bit);
}

void pare_task_pair(const pare_task_figures *baseline, pare_task_figures *out)
{
    out->has_paired = true;
    for (size_t i = 0; i < out->docs; i++) {
        const unsigned now = out->verdict[i], then = baseline->verdict[i];
        if (!(now & then & PARE_CHOICE_ASKED))
            continue;
        for (size_t m = 0; m < out->metrics; m++)
            count_pair(&out->metric[m].paired, now, then, out->metric[m].right);
    }
    for (size_t m = 0; m < out->metrics; m++)
        out->metric[m].paired.p =
            pare_mcnemar(out->metric[m].paired.gained, out->metric[m].paired.lost);
    const pare_task_parts parts = {out->group, out->groups, out->part};
    pare_task_pair_parts(&parts, out->docs, out->verdict, baseline->verdict);
}

static void put_lists(pare_json_writer *w, const pare_task_figures *f)
{
    pare_json_open_array(w, "metrics");
    for (size_t i = 0; i < f->metrics; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "name", f->metric[i].name);
        pare__task_put_metric(w, &f->metric[i], f->has_paired);
        pare_json_close(w);
    }
    pare_json_close(w);
    pare_task_put_groups(w, f->group, f->groups, f->has_paired);
}

void pare_task_put(pare_json_writer *w, const pare_task_figures *f, size_t tasks)
{
    pare_json_open_array(w, "tasks");
    for (size_t i = 0; i < tasks; i++, f++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "task", f->asked.name);
        pare_json_put_text(w, "file", f->asked.file);
        pare_json_put_integer(w, "n", (int64_t)f->n);
        if (!f->complete)
            pare_json_put_bool(w, "complete", false);
        pare_json_put_integer(w, "shots", (int64_t)f->asked.shots);
        if (f->asked.shots)
            pare_json_put_text(w, "shots_file", f->asked.shots_file);
        if (f->cut)
            pare_json_put_integer(w, "truncated", (int64_t)f->cut);
        if (f->asked.by)
            pare_json_put_text(w, "by", f->asked.by);
        put_lists(w, f);
        pare_json_close(w);
    }
    pare_json_close(w);
}
