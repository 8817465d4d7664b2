#include "compress/report/gate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 512 };

const char pare_gate_needle[] = "needle";

const char *pare_gate_name(pare_gate_kind v)
{
    static const char *const name[] = {"ACCEPT", "REGRESSION", "ANOMALOUS", "INFEASIBLE"};
    return name[v];
}

static pare_status add(pare_arena *a, const pare_requirement *r, const char *data, double figure,
                       double original, pare_gate *v)
{
    char text[TEXT];
    const double bound = r->relative ? r->bound * original : r->bound;
    (void)snprintf(text, sizeof text, "%s %s", r->name, r->text.text);
    v->check[v->checks] = (pare_check){
        .text = pare_arena_text(a, text, strlen(text)),
        .data = data,
        .figure = figure,
        .bound = bound,
        .kept = pare_requirement_words[r->kind].most ? figure <= bound : figure >= bound};
    return v->check[v->checks++].text ? PARE_OK : PARE_ENOMEM;
}

/* The share that is required, of choice, of a needle or of the task; NULL: it is not in f. */
static const pare_gate_share *share_of(const pare_requirement *r, const pare_gate_figures *f)
{
    const bool of_share = r->kind == PARE_REQUIRE_CHOICE || r->kind == PARE_REQUIRE_TASK ||
                          r->kind == PARE_REQUIRE_NEEDLE;
    const char *const task = r->kind == PARE_REQUIRE_NEEDLE ? pare_gate_needle : r->task;
    const bool same = task && f->task ? strcmp(task, f->task) == 0 : task == f->task;
    for (size_t i = 0; of_share && same && i < f->shares; i++)
        if (!r->metric || strcmp(r->metric, f->share[i].name) == 0)
            return &f->share[i];
    return NULL;
}

static pare_status check(pare_arena *a, const pare_requirement *r, const pare_gate_figures *f,
                         pare_gate *v)
{
    const pare_gate_share *const share = share_of(r, f);
    switch (r->kind) {
    case PARE_REQUIRE_PERPLEXITY:
        return f->has_perplexity ? add(a, r, f->data, f->perplexity, f->perplexity_before, v)
                                 : PARE_OK;
    case PARE_REQUIRE_KL: return f->has_kl ? add(a, r, f->data, f->kl, 0, v) : PARE_OK;
    case PARE_REQUIRE_TOP1: return f->has_kl ? add(a, r, f->data, f->top1, 1, v) : PARE_OK;
    case PARE_REQUIRE_CHOICE:
    case PARE_REQUIRE_TASK:
    case PARE_REQUIRE_NEEDLE:
        return share ? add(a, r, f->data, share->after, share->before, v) : PARE_OK;
    case PARE_REQUIRE_BYTES: break;
    }
    return PARE_OK;
}

/* Items that were gained beyond chance. */
static bool has_luck(const pare_gate_figures *f, char text[TEXT])
{
    for (size_t i = 0; i < f->shares; i++) {
        const pare_gate_share *const s = &f->share[i];
        if (!(s->gained > s->lost && s->p < 0.05))
            continue;
        (void)snprintf(text, TEXT,
                       "%.0f items were gained and %.0f lost (%s, p %.4f) on %s: more than chance",
                       s->gained, s->lost, s->name, s->p, f->data);
        return true;
    }
    return false;
}

/* A part of nothing, which every model has: the evaluation tells nothing of this one. */
static bool is_of_nothing(const pare_recipe *r, const pare_gate_figures *f, char text[TEXT])
{
    for (size_t i = 0; i < r->requirements; i++) {
        const pare_requirement *const q = &r->requirement[i];
        const pare_gate_share *const s = share_of(q, f);
        if (!s || !q->relative || s->before > 0)
            continue;
        (void)snprintf(
            text, TEXT,
            "%s %s asks for a part of what the original has, which is 0 on %s: measure what the "
            "original can do, or require a share such as \">= 0.5\"",
            q->name, q->text.text, f->data);
        return true;
    }
    return false;
}

/* Says what is anomalous; false: nothing. */
static bool is_anomalous(const pare_gate_figures *f, char text[TEXT])
{
    const double error = sqrt(f->error * f->error + f->error_before * f->error_before);
    if (f->has_perplexity && !(isfinite(f->perplexity) && isfinite(f->perplexity_before)))
        (void)snprintf(text, TEXT, "perplexity is not finite on %s", f->data);
    else if (f->has_kl && !(f->kl >= 0 && isfinite(f->kl) && f->top1 >= 0 && f->top1 <= 1))
        (void)snprintf(text, TEXT, "KL %g with top1 %g cannot be, on %s", f->kl, f->top1, f->data);
    else if (f->has_perplexity && f->perplexity < f->perplexity_before - 2 * error)
        (void)snprintf(text, TEXT,
                       "perplexity %.4f is lower than the %.4f of the original by more than twice "
                       "the standard error (%.4f) on %s",
                       f->perplexity, f->perplexity_before, error, f->data);
    else
        return has_luck(f, text);
    return true;
}

pare_status pare_gate_of_bytes(pare_arena *a, const pare_recipe *r, uint64_t bytes, pare_gate *out)
{
    *out = (pare_gate){.check = PARE_NEW(a, pare_check, r->requirements)};
    if (!out->check)
        return PARE_ENOMEM;
    for (size_t i = 0; i < r->requirements; i++)
        if (r->requirement[i].kind == PARE_REQUIRE_BYTES)
            PARE_TRY(add(a, &r->requirement[i], NULL, (double)bytes, 0, out));
    for (size_t i = 0; i < out->checks; i++)
        if (!out->check[i].kept)
            out->kind = PARE_GATE_INFEASIBLE;
    return PARE_OK;
}

/* Records what is anomalous. */
static pare_status set_anomaly(pare_arena *a, const char *text, pare_gate *out)
{
    out->kind = PARE_GATE_ANOMALOUS;
    out->anomaly = pare_arena_text(a, text, strlen(text));
    return out->anomaly ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_gate_take(pare_arena *a, const pare_recipe *r, const pare_gate_figures *found,
                           size_t count, uint64_t bytes, pare_gate *out)
{
    char text[TEXT];
    const pare_requirement *open = NULL;
    *out = (pare_gate){.check = PARE_NEW(a, pare_check, r->requirements * (count + 1))};
    if (!out->check)
        return PARE_ENOMEM;
    for (size_t i = 0; i < r->requirements; i++) {
        const pare_requirement *const q = &r->requirement[i];
        const size_t before = out->checks;
        if (q->kind == PARE_REQUIRE_BYTES)
            PARE_TRY(add(a, q, NULL, (double)bytes, 0, out));
        for (size_t j = 0; j < count; j++)
            PARE_TRY(check(a, q, &found[j], out));
        open = out->checks == before ? q : open;
    }
    for (size_t i = 0; i < out->checks; i++)
        if (!out->check[i].kept)
            out->kind = PARE_GATE_REGRESSION;
    for (size_t j = 0; j < count; j++)
        if (is_anomalous(&found[j], text) || is_of_nothing(r, &found[j], text))
            return set_anomaly(a, text, out);
    if (!open)
        return PARE_OK;
    (void)snprintf(
        text, sizeof text,
        "there is no figure of %s: the output has no such evaluation; --restart makes it "
        "anew",
        open->name);
    return set_anomaly(a, text, out);
}

pare_status pare_gate_why(pare_arena *a, const pare_gate *v, const char **out)
{
    char text[TEXT] = "every requirement is kept";
    const pare_check *first = NULL;
    for (size_t i = 0; !first && i < v->checks; i++)
        first = v->check[i].kept ? NULL : &v->check[i];
    if (v->anomaly)
        (void)snprintf(text, sizeof text, "%s%s%s%s", v->anomaly, first ? "; and " : "",
                       first ? first->text : "", first ? " is not kept" : "");
    else if (first && first->data)
        (void)snprintf(text, sizeof text, "%s is not kept: %.6g on %s", first->text, first->figure,
                       first->data);
    else if (first)
        (void)snprintf(text, sizeof text, "%s is not kept: %.0f bytes", first->text, first->figure);
    *out = pare_arena_text(a, text, strlen(text));
    return *out ? PARE_OK : PARE_ENOMEM;
}

void pare_gate_put(pare_json_writer *w, const pare_gate *v)
{
    pare_json_open_object(w, "verdict");
    pare_json_put_text(w, "verdict", pare_gate_name(v->kind));
    if (v->anomaly)
        pare_json_put_text(w, "anomaly", v->anomaly);
    pare_json_open_array(w, "checks");
    for (size_t i = 0; i < v->checks; i++) {
        const pare_check *const c = &v->check[i];
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "requirement", c->text);
        if (c->data)
            pare_json_put_text(w, "data", c->data);
        pare_json_put_finite(w, "figure", c->figure);
        pare_json_put_finite(w, "bound", c->bound);
        pare_json_put_bool(w, "kept", c->kept);
        pare_json_close(w);
    }
    pare_json_close(w);
    pare_json_close(w);
}
