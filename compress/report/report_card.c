#include <string.h>

#include "compress/passes/pass.h"
#include "compress/report/report_internal.h"
#include "compress/text/units.h"
#include "runtime/kv.h"

bool pare__report_has_cache(const pare_report *r)
{
    return r->kv && r->kv->method != PARE_KV_FLOAT;
}

const char *pare__report_untied(const pare_report *r)
{
    return r->untied ? ", with the head that the rotation unties" : "";
}

static void put_head(pare_text_out *t, const pare_report *r)
{
    char before[PARE_UNIT_TEXT], after[PARE_UNIT_TEXT];
    pare__text_put(t, "# ");
    pare__text_put_cell(t, r->output);
    pare__text_put(t, "\n\nA compressed ");
    pare__text_put_cell(t, r->config->arch->model_type);
    pare__text_put(t, " model, made by %s from ", r->program);
    pare__text_put_cell(t, r->model);
    if (r->original) {
        pare__text_put(t, " and compared with ");
        pare__text_put_cell(t, r->original);
    }
    pare__text_put(t,
                   ".\n\n"
                   "| | before | after |\n|---|---|---|\n"
                   "| weights | %s | %s |\n",
                   pare_units_bytes(pare_report_total(r->sizes.before), before),
                   pare_units_bytes(pare_report_total(r->sizes.after), after));
    if (r->structure) {
        pare__report_structure_sizes(t, r);
        return;
    }
    pare__text_put(t,
                   "| bits per weight of the %zu compressed linear%s | | %.3f |\n"
                   "| bits per weight of the whole model%s | | %.3f |\n",
                   r->rows, pare_plural(r->rows), r->bits_per_weight, pare__report_untied(r),
                   r->model_bits_per_weight);
    if (pare__report_has_cache(r))
        pare__text_put(t, "| bytes of a token in the key/value cache (%s) | %.6g | %.6g |\n",
                       pare_kv_method_name(r->kv->method),
                       pare_kv_token_bytes(r->config, &(pare_kv_format){0}),
                       pare_kv_token_bytes(r->config, r->kv));
}

/* What was evaluated on, and how much of it. */
static void put_data(pare_text_out *t, const pare_report_eval *e)
{
    char notes[PARE_REPORT_NOTES];
    pare__text_put_cell(t, e->data);
    pare__text_put(t, "%s", pare_report_notes(e, ", ", notes));
}

static void put_repaired(pare_text_out *t, const pare_report *r)
{
    if (!r->repairs)
        return;
    pare__text_put(t,
                   "\n## Repaired weights\n\nNaN or infinite in the original; each was set to "
                   "%s.\n\n| tensor | weights |\n|---|---|\n",
                   pare_repair_text(r->nan));
    for (size_t i = 0; i < r->repairs; i++) {
        pare__text_put(t, "| ");
        pare__text_put_cell(t, r->repair[i].tensor);
        pare__text_put(t, " | %llu |\n", (unsigned long long)r->repair[i].weights);
    }
}

static void put_perplexities(pare_text_out *t, const pare_report *r)
{
    size_t told = 0;
    for (size_t i = 0; i < r->evaluations; i++) {
        const pare_report_eval *const e = &r->evaluation[i];
        if (!pare_evaluation_scores(e->kind))
            continue;
        if (told++ == 0)
            pare__text_put(t,
                           "\n| data | window | tokens | perplexity before | after | change | KL "
                           "mean | KL p99 | flips |\n|---|---|---|---|---|---|---|---|---|\n");
        pare__text_put(t, "| ");
        put_data(t, e);
        pare__text_put(t, " | %zu | %zu | %.4f | %.4f | %+.2f%% |", e->window, e->after.scored,
                       e->before.ppl, e->after.ppl, 100 * (e->after.ppl / e->before.ppl - 1));
        if (e->after.has_kl)
            pare__text_put(t, " %.6f | %.6f | %.2f%% |\n", e->after.kl_mean, e->after.kl_p99,
                           100 * (1 - e->after.top1));
        else
            pare__text_put(t, " | | |\n");
    }
}

static void put_choices(pare_text_out *t, const pare_report *r)
{
    size_t told = 0;
    for (size_t i = 0; i < r->evaluations; i++) {
        const pare_report_eval *const e = &r->evaluation[i];
        const pare_choice_result *const was = &e->choice_before.result;
        const pare_choice_result *const is = &e->choice_after.result;
        if (e->kind != PARE_EVALUATE_CHOICE)
            continue;
        if (told++ == 0)
            pare__text_put(t, "\n| multiple choice | items | accuracy before | after | per byte "
                              "before | after | gained | lost | p |\n"
                              "|---|---|---|---|---|---|---|---|---|\n");
        pare__text_put(t, "| ");
        put_data(t, e);
        pare__text_put(t, " | %zu | ", is->n);
        pare__text_put_share(t, was->accuracy, "+-", was->accuracy_stderr);
        pare__text_put(t, " | ");
        pare__text_put_share(t, is->accuracy, "+-", is->accuracy_stderr);
        pare__text_put(t, " | ");
        pare__text_put_share(t, was->accuracy_norm, "+-", was->accuracy_norm_stderr);
        pare__text_put(t, " | ");
        pare__text_put_share(t, is->accuracy_norm, "+-", is->accuracy_norm_stderr);
        pare__text_put(t, " | %zu | %zu | %.3f |\n", e->choice_after.paired.gained,
                       e->choice_after.paired.lost, e->choice_after.paired.p);
    }
    if (told)
        pare__text_put(t, "\n" PARE_REPORT_PAIRED "\n");
}

static void put_evaluations(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, "\n## Evaluation\n\n%s\n",
                   !r->evaluations ? PARE_REPORT_UNKNOWN
                   : r->structure  ? "The smaller model, run as it was written."
                                   : "The packed model, run by the low-bit kernels.");
    put_perplexities(t, r);
    put_choices(t, r);
    pare__report_tasks_card(t, r);
    pare__report_answers_card(t, r);
}

const char *pare__report_caution(const pare_report *r, size_t pass)
{
    const pare_pass *const p = pare_passes[pass];
    for (size_t i = 0; p->caution && i < r->rows; i++) {
        const pare_linear_result *const l = &r->row[i];
        if (strcmp(l->method, p->name) == 0)
            return p->caution;
        for (size_t s = 0; s < l->steps; s++)
            if (strcmp(l->step[s].pass, p->name) == 0)
                return p->caution;
    }
    return NULL;
}

static void put_cautions(pare_text_out *t, const pare_report *r)
{
    for (size_t p = 0; pare_passes[p]; p++) {
        const char *const caution = pare__report_caution(r, p);
        if (caution)
            pare__text_put(t, "\nNote on %s: %s.\n", pare_passes[p]->name, caution);
    }
}

bool pare__report_pruned(const pare_report *r)
{
    bool pruned = false;
    for (size_t i = 0; i < r->rows; i++)
        pruned |= r->row[i].pruned;
    return pruned;
}

pare_sparsity_total pare__report_sparse(const pare_report *r, pare_sparsity_store store,
                                        bool floats, double *zeros)
{
    pare_sparsity_total t = {0};
    double zero = 0, weights = 0;
    for (size_t i = 0; i < r->rows; i++) {
        const pare_packed_linear *const l = &r->row[i].linear;
        if (!r->row[i].pruned || l->sparsity != store ||
            pare_encoding_is_float(l->encoding) != floats)
            continue;
        const double count = (double)l->n * (double)l->k;
        pare_sparsity_add(&t, l);
        zero += r->row[i].zeros * count;
        weights += count;
    }
    *zeros = weights > 0 ? zero / weights : 0;
    return t;
}

double pare_report_stability(const pare_report *r)
{
    double sum = 0, weights = 0;
    for (size_t i = 0; i < r->rows; i++) {
        const pare_linear_result *const l = &r->row[i];
        const double count = l->stability > 0 ? (double)l->linear.n * (double)l->linear.k : 0;
        sum += count * l->stability;
        weights += count;
    }
    return weights > 0 ? sum / weights : 0;
}

static void put_sparse(pare_text_out *t, const pare_report *r)
{
    if (!pare__report_pruned(r))
        return;
    pare__text_put(t, "\n## Pruning\n\nZeros in the pruned linears, and what leaving them out "
                      "saves.\n\n| storage | linears | zeros | bytes | bytes with zeros stored | "
                      "saves |\n|---|---|---|---|---|---|\n");
    for (unsigned i = 0; i < 2 * (PARE_SPARSITY_BITMASK + 1); i++) {
        double zeros;
        const pare_sparsity_store store = (pare_sparsity_store)(i / 2);
        const pare_sparsity_total s = pare__report_sparse(r, store, i % 2, &zeros);
        if (s.linears)
            pare__text_put(t, "| %s%s | %zu | %.2f%% | %llu | %llu | %s |\n", i % 2 ? "f16 " : "",
                           pare_sparsity_store_text(store, i % 2), s.linears, 100 * zeros,
                           (unsigned long long)s.bytes, (unsigned long long)s.dense_bytes, s.saves);
    }
    const double stability = pare_report_stability(r);
    if (stability > 0)
        pare__text_put(t, "\n" PARE_REPORT_STABILITY "\n", 100 * stability);
}

static void put_fallbacks(pare_text_out *t, const pare_report *r)
{
    size_t count = 0;
    for (size_t i = 0; i < r->rows; i++) {
        const pare_linear_result *const l = &r->row[i];
        if (!l->fallback && !l->f64 && l->raises == 0)
            continue;
        if (count++ == 0)
            pare__text_put(t, "\n## Numeric steps\n\n| linear | damping | raised | double "
                              "precision | rounded to nearest |\n|---|---|---|---|---|\n");
        pare__text_put(t, "| ");
        pare__text_put_cell(t, l->linear.name);
        pare__text_put(t, " | %g | %u | %s | %s |\n", l->damp, l->raises, l->f64 ? "yes" : "no",
                       l->fallback ? "yes" : "no");
    }
}

static void put_coarse(pare_text_out *t, const pare_report *r)
{
    size_t count = 0;
    for (size_t i = 0; i < r->rows; i++) {
        const pare_linear_result *const l = &r->row[i];
        if (!l->coarse && !l->lost)
            continue;
        if (count++ == 0)
            pare__text_put(t,
                           "\n## Weights too small for their storage\n\n| linear | groups stored "
                           "coarsely | weights stored as 0 |\n|---|---|---|\n");
        pare__text_put(t, "| ");
        pare__text_put_cell(t, l->linear.name);
        pare__text_put(t, " | %zu | %llu |\n", l->coarse, (unsigned long long)l->lost);
    }
}

/* Whether two linears are stored alike, by the same method, which had enough calibration or not. */
static bool same_encoding(const pare_report *r, size_t i, size_t j)
{
    char a[PARE_PACKED_TEXT], b[PARE_PACKED_TEXT];
    return strcmp(pare_packed_linear_text(&r->row[i].linear, a),
                  pare_packed_linear_text(&r->row[j].linear, b)) == 0 &&
           strcmp(r->row[i].method, r->row[j].method) == 0 && r->row[i].thin == r->row[j].thin;
}

/* One row for each way in which linears of the blocks are stored, in the order in which they come
 * up, and one for the embeddings and the head each. */
static void put_encodings(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, "\n## Encodings\n\n| encoding | method | linears | bits per weight |\n"
                      "|---|---|---|---|\n");
    for (size_t i = 0; i < r->rows; i++) {
        size_t first = 0, count = 0;
        double bits = 0, weights = 0;
        while (!same_encoding(r, first, i))
            first++;
        for (size_t j = i; first == i && j < r->rows; j++) {
            const pare_packed_linear *const l = &r->row[j].linear;
            if (!same_encoding(r, i, j))
                continue;
            bits += 8 * (double)pare_packed_linear_bytes(l).total;
            weights += (double)l->n * (double)l->k;
            count++;
        }
        char text[PARE_PACKED_TEXT];
        if (count)
            pare__text_put(t, "| %s | %s%s | %zu | %.3f |\n",
                           pare_packed_linear_text(&r->row[i].linear, text), r->row[i].method,
                           r->row[i].thin ? ", with too little calibration" : "", count,
                           bits / weights);
    }
    for (size_t i = r->rows; i < r->rows + r->tables; i++) {
        const pare_linear_result *const table = &r->row[i];
        char text[PARE_PACKED_TEXT];
        pare__text_put(t, "| %s | %s, ", pare_packed_linear_text(&table->linear, text),
                       table->method);
        pare__text_put_cell(t, table->linear.name);
        pare__text_put(t, "%s | 1 | %.3f |\n", table->thin ? ", with too little calibration" : "",
                       8 * (double)pare_packed_linear_bytes(&table->linear).total /
                           ((double)table->linear.n * (double)table->linear.k));
    }
}

static void put_exports(pare_text_out *t, const pare_report *r)
{
    if (!r->exports)
        return;
    pare__text_put(t,
                   "\n## Exports\n\nThe recipe exports the model to these files%s.\n\n"
                   "| format | path in the recipe |\n|---|---|\n",
                   r->verdict ? " once its verdict is ACCEPT" : "");
    for (size_t i = 0; i < r->exports; i++) {
        pare__text_put(t, "| ");
        pare__text_put_cell(t, r->export[i].format.text);
        pare__text_put(t, " | ");
        pare__text_put_cell(t, r->export[i].path.text);
        pare__text_put(t, " |\n");
    }
}

void pare__report_recipe_card(pare_text_out *t, const char *recipe)
{
    size_t run = 0, longest = 2;
    for (const char *p = recipe; *p; p++) {
        run = *p == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    pare__text_put(t, "\n## Recipe\n\n");
    for (size_t i = 0; i <= longest; i++)
        pare__text_add(t, "`", 1);
    pare__text_put(t, "yaml\n");
    const size_t len = strlen(recipe);
    pare__text_add(t, recipe, len);
    if (len == 0 || recipe[len - 1] != '\n')
        pare__text_add(t, "\n", 1);
    for (size_t i = 0; i <= longest; i++)
        pare__text_add(t, "`", 1);
    pare__text_add(t, "\n", 1);
}

static void put_calibration(pare_text_out *t, const pare_report *r)
{
    pare__text_put(t, "\nCalibrated on %zu window%s of %zu tokens", r->calibration_windows,
                   pare_plural(r->calibration_windows), r->calibration_window);
    for (size_t i = 0; r->calibration_share && i < r->calibration_texts; i++) {
        pare__text_put(t, "%s %zu of ", i ? "," : ":", r->calibration_share[i]);
        pare__text_put_cell(t, r->calibration_text[i].text);
    }
    pare__text_put(t, ".\n");
    if (r->precision)
        pare__text_put(t, "Products of the calibration: %s.\n", r->precision);
    size_t thin = 0;
    for (size_t i = 0; i < r->rows; i++)
        thin += r->row[i].thin;
    if (thin)
        pare__text_put(t, "That is too little for %zu of %zu linears, which `layers.csv` lists.\n",
                       thin, r->rows);
}

static void put_warnings(pare_text_out *t, const pare_report *r)
{
    for (size_t i = 0; i < r->warnings; i++) {
        pare__text_put(t, "%sWarning: ", r->calibration_windows || i ? "" : "\n");
        pare__text_put_cell(t, r->warning[i]);
        pare__text_put(t, ".\n");
    }
}

void pare__report_card(pare_text_out *t, const pare_report *r)
{
    const pare_config *const c = r->config;
    put_head(t, r);
    pare__text_put(t, "\n");
    pare__report_verdict_card(t, r);
    put_evaluations(t, r);
    put_cautions(t, r);
    put_repaired(t, r);
    if (!r->structure)
        put_encodings(t, r);
    pare__report_training_card(t, r);
    pare__report_structure_card(t, r);
    pare__report_experts_card(t, r);
    put_sparse(t, r);
    put_fallbacks(t, r);
    put_coarse(t, r);
    pare__text_put(t, "\n## Shape\n\n%zu block%s, hidden %zu, ", c->blocks, pare_plural(c->blocks),
                   c->hidden);
    if (c->intermediate)
        pare__text_put(t, "intermediate %s%zu, ", c->uneven ? "up to " : "", c->intermediate);
    pare__text_put(t, "%zu head%s (%zu key/value), head size %zu, vocabulary %zu, context %zu.\n",
                   c->heads, pare_plural(c->heads), c->kv_heads, c->head_dim, c->vocab, c->context);
    if (c->experts)
        pare__text_put(
            t, "%zu experts of width %zu in %zu of %zu blocks, of which a token runs %zu.\n",
            c->experts, c->expert_width, c->blocks - c->dense_blocks, c->blocks, c->experts_used);
    if (r->calibration_windows)
        put_calibration(t, r);
    put_warnings(t, r);
    put_exports(t, r);
    pare__report_recipe_card(t, r->recipe_text);
    for (size_t i = 0; i < r->sets; i++) {
        pare__text_put(t, i ? ", " : "\nChanged by --set or a fallback: ");
        pare__text_put_cell(t, r->set[i]);
        pare__text_put(t, i + 1 < r->sets ? "" : ".\n");
    }
    pare__text_put(t, "\n`manifest.json` has versions, hashes and the error of every tensor; "
                      "`report.html` shows them.\n`pare verify` checks all of it; `pare eval` and "
                      "`pare generate` run the model.\n");
}
