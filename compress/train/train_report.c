/* What a training tells its reader: README.md, report.html, run.json. */
#include <math.h>
#include <stdio.h>

#include "compress/plan/recipe_home.h"
#include "compress/report/report.h"
#include "compress/text/text_out.h"
#include "compress/text/units.h"
#include "compress/text/version.h"
#include "compress/train/train_internal.h"
#include "distill/losses.h"

/* Whether it went away from a teacher whose predictions it learned. One that began as its teacher
 * (`same`, in nats) cannot but go. */
static bool is_astray(const pare_training *t)
{
    static const double same = 1e-6;
    const pare_training_result *const r = &t->state.result;
    return t->taught && pare_losses_compare(&t->opts.losses) && r->kl_before > same &&
           r->kl_after > r->kl_before;
}

static bool is_worse(const pare_training *t)
{
    const pare_training_result *const r = &t->state.result;
    return r->nll_after > r->nll_before && (!t->taught || r->kl_after > r->kl_before);
}

bool pare__train_harmed(const pare_training *t)
{
    return is_worse(t) || is_astray(t);
}

void pare__train_tell_harm(const pare_training *t)
{
    const pare_training_result *const r = &t->state.result;
    if (is_worse(t))
        pare__train_tell(t, "warning: training made it worse on the windows held out; take a "
                            "smaller rate or more text");
    else if (is_astray(t))
        pare__train_tell(t,
                         "warning: training took it away from its teacher: KL %.4f on the windows "
                         "held out before it, %.4f after it; take a smaller rate or more text",
                         r->kl_before, r->kl_after);
}

static void put_quality(pare_text_out *o, const pare_train_done *d)
{
    const pare_training_result *const r = &d->training;
    pare__text_put(o, "On %zu window%s held out, the perplexity was %.4f before and is %.4f after.",
                   d->held_out, pare_plural(d->held_out), exp(r->nll_before), exp(r->nll_after));
    if (r->kl_after >= 0)
        pare__text_put(o, " The KL divergence from the teacher was %.4f before and is %.4f after.",
                       r->kl_before, r->kl_after);
}

static void put_work(pare_text_out *o, const pare_train_done *d)
{
    const pare_training_result *const r = &d->training;
    pare__text_put(o,
                   "%zu step%s on %llu tokens in %.0f s (%.0f tokens/s). The loss was %.4f at "
                   "first and %.4f at the end.",
                   r->steps, pare_plural(r->steps), (unsigned long long)r->tokens, r->seconds,
                   r->seconds > 0 ? (double)r->tokens / r->seconds : 0, r->point[0].loss,
                   r->point[r->points - 1].loss);
}

/* Which weights were trained, where that is not all. */
static void put_adapter(pare_text_out *o, const pare_train_done *d)
{
    const pare_adapter_result *const r = d->adapter;
    if (!r)
        return;
    pare__text_put(o,
                   " Of these only adapters (LoRA) of rank %zu, alpha %g%s, were trained: %llu "
                   "weights beside %zu linear%s (",
                   r->rank, r->alpha, r->rslora ? " over the root of the rank" : "",
                   (unsigned long long)r->trained, r->linears, pare_plural(r->linears));
    for (size_t i = 0; i < r->targets; i++)
        pare__text_put(o, "%s%s", i ? ", " : "", r->target[i]);
    pare__text_put(o, r->merged ? "), which are merged into them." : "). These lie here, alone.");
}

static void put_warnings(pare_text_out *o, const pare_train_done *d, bool html)
{
    for (size_t i = 0; i < d->warnings; i++) {
        pare__text_put(o, html ? "<p>Warning: " : "\n\nWarning: ");
        if (html)
            pare__text_put_html(o, d->warning[i]);
        else
            pare__text_put_cell(o, d->warning[i]);
        pare__text_put(o, html ? "</p>\n" : "");
    }
}

static void put_recipe(pare_text_out *o, const pare_training *t, bool html)
{
    pare__text_put(o, html ? "<h2>Recipe</h2>\n<pre>" : "\n## Recipe\n\n```yaml\n");
    if (html)
        pare__text_put_html(o, t->portable);
    else
        pare__text_put(o, "%s", t->portable);
    pare__text_put(o, html ? "</pre>\n" : "```\n");
}

static pare_status write_card(pare_training *t, const pare_train_done *d)
{
    pare_text_out o = {.cx = t->cx};
    const bool alone = d->adapter && !d->adapter->merged;
    pare__text_put(&o, "# %s trained by pare\n\nIt began with ", alone ? "Adapters" : "A model");
    pare__text_put_cell(&o, d->begun_with);
    pare__text_put(&o, ". It has %llu weights%s%s, %zu block%s.", (unsigned long long)d->weights,
                   alone ? "" : " in ", alone ? "" : d->dtype, d->config->blocks,
                   pare_plural(d->config->blocks));
    put_adapter(&o, d);
    pare__text_put(&o, "\n\n");
    put_quality(&o, d);
    pare__text_put(&o, "\n\n");
    put_work(&o, d);
    put_warnings(&o, d, false);
    pare__text_put(&o, alone
                           ? "\n\nPEFT loads them: PeftModel.from_pretrained(model, FOLDER), with "
                             "the model they began with. "
                           : "\n\nAny program that reads Hugging Face checkpoints loads it. ");
    pare__text_put(&o, "report.html has the curve of the loss, run.json its numbers.\n");
    put_recipe(&o, t, false);
    return pare__text_save(&o, t->place.partial, "README.md");
}

static pare_status write_page(pare_training *t, const pare_train_done *d)
{
    pare_text_out o = {.cx = t->cx};
    pare__text_put(&o, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width\">\n"
                       "<title>A training by pare</title>\n<style>body{font:16px/1.5 "
                       "system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem}"
                       "pre{overflow:auto}.dim{opacity:.7}@media(prefers-color-scheme:dark){body{"
                       "background:#111;color:#eee}}</style></head><body>\n<h1>Training</h1>\n"
                       "<p>It began with ");
    pare__text_put_html(&o, d->begun_with);
    pare__text_put(&o, ", %llu weights.", (unsigned long long)d->weights);
    put_adapter(&o, d);
    pare__text_put(&o, "</p>\n<p>");
    put_quality(&o, d);
    pare__text_put(&o, "</p>\n<p>");
    put_work(&o, d);
    pare__text_put(&o, "</p>\n");
    put_warnings(&o, d, true);
    pare_report_curve(&o, &d->training);
    put_recipe(&o, t, true);
    pare__text_put(&o, "</body></html>\n");
    return pare__text_save(&o, t->place.partial, "report.html");
}

static pare_status write_run(pare_training *t, const pare_train_done *d)
{
    pare_json_writer *w;
    const char *text;
    size_t len;
    pare_text_out o = {.cx = t->cx};
    char *const home = pare_path_directory(t->a, t->job->recipe);
    if (!home)
        return PARE_ENOMEM;
    const char *const way = pare_recipe_way(t->a, t->place.output, home);
    PARE_TRY(pare_json_writer_new(t->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "recipe", pare_job_file(t->job));
    if (way)
        pare_json_put_text(w, "recipe_directory", way);
    pare_train_put(w, d);
    pare_json_close(w);
    pare_status s = pare_json_writer_finish(w, &text, &len);
    if (s == PARE_OK)
        pare__text_add(&o, text, len);
    pare_json_writer_free(w);
    return s == PARE_OK ? pare__text_save(&o, t->place.partial, "run.json") : s;
}

void pare_train_put_begin(pare_json_writer *w, const pare_train_done *d)
{
    pare_json_put_text(w, "output", d->output);
    pare_json_put_text(w, "begun_with", d->begun_with);
    pare_json_put_integer(w, "weights", (int64_t)d->weights);
    pare_json_put_text(w, "dtype", d->dtype);
    pare_json_put_integer(w, "windows", (int64_t)d->windows);
    pare_json_put_integer(w, "window", (int64_t)d->window);
    pare_json_put_integer(w, "held_out", (int64_t)d->held_out);
    if (d->vocabulary)
        pare_json_put_integer(w, "vocabulary", (int64_t)d->vocabulary);
    if (d->adapter)
        pare_adapter_put(w, d->adapter);
    pare_json_open_array(w, "warnings");
    for (size_t i = 0; i < d->warnings; i++)
        pare_json_put_text(w, NULL, d->warning[i]);
    pare_json_close(w);
}

void pare_train_put(pare_json_writer *w, const pare_train_done *d)
{
    pare_train_put_begin(w, d);
    pare_json_put_integer(w, "bytes", (int64_t)d->bytes);
    pare_json_put_integer(w, "resumed_steps", (int64_t)d->resumed);
    if (d->joules > 0)
        pare_json_put_finite(w, "energy_joules", d->joules);
    pare_report_training(w, &d->training);
}

pare_status pare__train_report(pare_training *t, const pare_train_done *done)
{
    PARE_TRY(write_card(t, done));
    PARE_TRY(write_page(t, done));
    return write_run(t, done);
}
