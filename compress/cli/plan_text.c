#include <stdio.h>
#include <string.h>

#include "compress/artifact/sparsity_text.h"
#include "compress/cli/plan_print.h"
#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_walks.h"
#include "compress/text/units.h"
#include "formats/dense.h"

bool pare__plan_is_taken(const pare_plan *p)
{
    return !p->settled.replaces && pare_path_is_directory(p->place.output);
}

static void print_bytes(const char *what, uint64_t bytes, const char *note)
{
    char text[PARE_UNIT_TEXT];
    (void)printf("%-17s %s%s\n", what, pare_units_bytes(bytes, text), note);
}

static const char *taken_note(const pare_plan *p)
{
    if (!pare__plan_is_taken(p))
        return "";
    return pare_plan_missing(p, &p->settled)
               ? "   (exists; compress makes the exports that are missing if it is of this "
                 "recipe, model and texts, and will ask for --restart if not)"
               : "   (exists; compress has nothing to do if it is of this recipe, model and "
                 "texts, and will ask for --restart if not)";
}

/* Of each pass, once. */
static void print_cautions(const pare_plan *p)
{
    for (size_t i = 0; i < p->recipe.steps; i++) {
        const pare_step *const step = &p->recipe.step[i];
        const pare_pass *const pass = pare_passes[step->pass];
        const bool idle = pass->structure && /* a ratio is as planned */
                          pass->structure(step->value).hessian &&
                          !pass->structure(step->value).search;
        size_t first = 0;
        while (p->recipe.step[first].pass != step->pass)
            first++;
        if (pass->caution && !idle && first == i)
            (void)printf("%-17s %s\n", pass->name, pass->caution);
    }
}

/* Pruned linears whose zeros are stored in one way. */
static void print_store(const pare_plan *p, pare_sparsity_store store, bool floats)
{
    pare_sparsity_total t = {0};
    for (size_t i = 0; i < p->linears; i++) {
        const pare_packed_linear *const l = &p->linear[i].packed;
        if (p->linear[i].pruned && l->sparsity == store &&
            pare_encoding_is_float(l->encoding) == floats)
            pare_sparsity_add(&t, l);
    }
    if (t.linears && store == PARE_SPARSITY_NONE && floats)
        (void)printf("%-17s stored in %zu linear%s (f16 dense%s): too few%s for a mask to take "
                     "fewer bytes\n",
                     "zeros", t.linears, pare_plural(t.linears),
                     p->ratios ? ", or behind a mask" : "",
                     p->ratios ? ", where the rule takes least," : "");
    else if (t.linears && store == PARE_SPARSITY_NONE)
        (void)printf(
            "%-17s stored like other weights in %zu linear%s: saves no bytes and no time\n",
            "zeros", t.linears, pare_plural(t.linears));
    else if (t.linears)
        (void)printf("%-17s left out of %zu linear%s (%s%s): %.1f%% of the bytes with them, saves "
                     "%s\n",
                     "zeros", t.linears, pare_plural(t.linears), floats ? "f16 " : "",
                     pare_sparsity_store_name(store),
                     100.0 * (double)t.bytes / (double)t.dense_bytes, t.saves);
}

static void print_zeros(const pare_plan *p)
{
    for (pare_sparsity_store s = PARE_SPARSITY_NONE; s <= PARE_SPARSITY_BITMASK; s++) {
        print_store(p, s, false);
        print_store(p, s, true);
    }
}

/* What the listed sizes of pruned linears do not show yet. */
static void print_ratios(const pare_plan *p)
{
    for (size_t i = 0; i < p->recipe.steps; i++) {
        const pare_pass_ratios r = pare_plan_ratios(p, i);
        if (r.rule != PARE_RATIOS_UNIFORM)
            (void)printf("%-17s %s by %s: the share above is the mean, and each linear's own, up "
                         "to %g%%\n%-17s away from it, is known when the calibration has run\n",
                         "ratios", pare_passes[p->recipe.step[i].pass]->name,
                         pare_ratio_rule_name(r.rule), 100 * r.spread, "");
    }
}

/* All of them in their order: a linear names only those that prune and quantize it. */
static void print_passes(const pare_plan *p)
{
    char word[32];
    for (size_t i = 0; i < p->recipe.steps; i++) {
        const char *const correct = pare__plan_correct(p, i, word, sizeof word);
        (void)printf("%s%s%s%s%s", i ? ", " : "passes            ", pare__plan_pass(p, i),
                     correct ? " (correct: " : "", correct ? correct : "", correct ? ")" : "");
    }
    (void)printf("\n");
}

/* What experts add to the calibration, and what transforms leave alone because of them. */
static void print_experts(const pare_plan *p)
{
    const pare_calibration *const c = &p->recipe.calibration;
    const uint64_t tokens = pare_plan_min_tokens(p, &p->settled);
    if (pare_plan_sees_experts(p))
        (void)printf(
            "%-17s %zu in a block; statistics of %zu in each pass; below %llu %stoken%s%s: %s\n",
            "experts", p->model.config.experts, p->settled.memory.chunk, (unsigned long long)tokens,
            c->min_tokens ? "" : "new ", pare_plural(tokens),
            p->settled.samples ? "" : ", or fewer if all windows have fewer",
            pare_cold_policy_name(c->cold));
    for (size_t i = 0; i < p->recipe.steps; i++)
        if (p->left && p->left[i])
            (void)printf("%-17s works on attention only; the inputs of %zu linear%s of MLPs, which "
                         "the\n%-17s router reads or which differ by expert, stay as they are\n",
                         pare__plan_pass(p, i), p->left[i], pare_plural(p->left[i]), "");
}

/* Whether the job gathers statistics, for lack of a file that has them. */
static bool is_gathering(const pare_plan *p)
{
    return pare_plan_gathers(p) && !(p->kept.made && pare_path_is_file(p->kept.path));
}

/* Statistics in a file, and what that spares. */
static void print_statistics(const pare_plan *p)
{
    char text[PARE_UNIT_TEXT];
    if (pare_plan_kept_idle(p))
        (void)printf("%-17s %s\n", "note", pare_plan_kept_idle(p));
    if (pare_plan_experts_idle(p))
        (void)printf("%-17s %s\n", "warning", pare_plan_experts_idle(p));
    if (!p->kept.used)
        return;
    if (is_gathering(p))
        (void)printf("%-17s at most %s, kept in %s before the first block\n", "statistics",
                     pare_units_bytes(pare_plan_stage_bytes(p, &p->settled), text), p->kept.path);
    else
        (void)printf("%-17s from %s: no activations of the calibration pass\n", "statistics",
                     p->kept.path);
}

static void print_shortages(const pare_plan *p)
{
    if (p->untokenized)
        (void)printf("%-17s " PARE_CLI_UNTOKENIZED "\n", "note");
    char text[PARE_SHORTAGE_TEXT];
    pare_shortage s;
    if (pare_checkpoint_quantized_text(&p->checkpoint, text, sizeof text))
        (void)printf("%-17s %s\n", "warning", text);
    for (size_t i = 0; i < p->recipe.steps; i++)
        if (pare_plan_short(p, &p->settled, i, &s))
            (void)printf("%-17s %s\n", "warning", pare_shortage_text(p, &p->settled, i, &s, text));
    if (pare_plan_few_held(p, &p->settled, text))
        (void)printf("%-17s %s\n", "warning", text);
    for (size_t i = 0; i < p->recipe.steps; i++)
        if (pare_plan_tail_text(p, i, text, sizeof text))
            (void)printf("%-17s %s\n", "note", text);
}

static void print_asked(const pare_recipe *r)
{
    for (size_t i = 0; i < r->evaluations; i++) {
        const pare_evaluation *const e = &r->evaluation[i];
        (void)printf("%-17s %s%s%s on %s", i ? "" : "evaluation",
                     pare_evaluation_kind_name(e->kind), e->task.text ? " " : "",
                     e->task.text ? e->task.text : "", pare_evaluation_data(e)->text);
        if (!pare_evaluation_asks(e->kind))
            (void)printf(", windows of %zu tokens", e->window);
        if (e->limit)
            (void)printf(", the first %zu", e->limit);
        (void)printf("\n");
    }
}

static void print_evaluation(const pare_plan *p)
{
    const size_t windows = p->settled.held_out ? p->settled.held_out : p->held_out;
    print_asked(&p->recipe);
    if (p->held_out)
        (void)printf("%-17s perplexity and KL on %s%zu calibration window%s held out",
                     p->recipe.evaluations ? "" : "evaluation", p->settled.held_out ? "" : "up to ",
                     windows, pare_plural(windows));
    if (p->held_out && !p->recipe.held_out && !p->recipe.evaluations &&
        p->job->part == PARE_JOB_WHOLE)
        (void)printf(": what is\n%-17s %s is always evaluated, and \"evaluate:\" names nothing", "",
                     p->training ? "trained" : "pruned");
    if (p->held_out)
        (void)printf("\n");
    if (p->device)
        (void)printf("%-17s %s, for evaluations\n", "device", p->device);
    if (p->device_fallback)
        (void)printf("%-17s the CPU, for evaluations with device: auto: %s\n",
                     p->device ? "" : "device", p->device_fallback);
}

static void print_training(const pare_plan *p)
{
    const pare_train_opts *const t = &p->train;
    if (p->training)
        (void)printf("%-17s %zu step%s of %zu window%s, %llu tokens", "training", t->schedule.steps,
                     pare_plural(t->schedule.steps), t->batch, pare_plural(t->batch),
                     (unsigned long long)t->schedule.steps * t->batch * p->window);
    if (p->training && t->aware)
        (void)printf(", with the codes of %zu linears in place", pare_plan_aware_linears(p));
    if (p->training && t->embeddings)
        (void)printf(", embeddings and head, too");
    if (p->training)
        (void)printf("%s\n", t->bf16 ? ", products in BF16" : "");
}

bool pare__plan_exports_exact(const pare_plan *p)
{
    return !p->job->stand_in && !pare_plan_searches(p) && !pare_plan_is_base(p);
}

static void print_exports(const pare_plan *p)
{
    for (size_t i = 0; i < p->exports; i++) {
        const pare_plan_export *const x = &p->export[i];
        const pare_export_result *const r = &x->result;
        const char *before = "";
        char bytes[PARE_UNIT_TEXT], types[PARE_EXPORT_TEXT];
        (void)printf("%-17s %s to %s, %s%llu bytes (%s)%s%s\n", "export", x->target->name, x->path,
                     p->job->stand_in || pare_plan_is_base(p) ? "about "
                     : pare_plan_searches(p)                  ? "at most "
                                                              : "",
                     (unsigned long long)r->bytes, pare_units_bytes(r->bytes, bytes),
                     pare__plan_exports_exact(p) ? ", exact" : "",
                     !p->settled.export[i].taken ? ""
                     : p->settled.finished || p->job->restart
                         ? "   (exists)"
                         : "   (exists; compress will ask for --restart)");
        (void)printf("%-17s linears: ", "");
        for (pare_export_fate f = 0; f < PARE_EXPORT_FATES; f++) {
            if (r->count[f])
                (void)printf("%s%zu %s%s", before, r->count[f], pare_export_fate_text(f),
                             f == PARE_EXPORT_ROUNDED ? " or with the same weights" : "");
            before = r->count[f] ? ", " : before;
        }
        (void)printf("\n");
        if (r->ranks > 1)
            (void)printf("%-17s %zu ranks get whole heads, groups, blocks and words\n", "",
                         r->ranks);
        if (r->fallbacks > r->beside_floats)
            (void)printf("%-17s %zu fall back to other types: %s\n", "",
                         r->fallbacks - r->beside_floats, pare_export_fallback_text(r, types));
        if (r->no_factor)
            (void)printf("%-17s %zu in NVFP4 are quantized again: llama.cpp has no place for their "
                         "factors\n",
                         "", r->no_factor);
        if (r->no_tokenizer)
            (void)printf("%-17s %s\n", "", pare_export_no_tokenizer);
        if (r->beside_floats)
            (void)printf("%-17s %zu become F16: others in the same tensor are not quantized\n", "",
                         r->beside_floats);
    }
}

/* What the job allocates, and the files that it maps beside that. */
static void print_memory(const pare_plan *p)
{
    const bool unsure =
        p->job->stand_in && p->settled.memory.anonymous_bytes > p->settled.memory.limit_bytes;
    char bytes[PARE_UNIT_TEXT], free[PARE_UNIT_TEXT];
    if (pare_plan_is_base(p))
        print_bytes("allocated memory", p->settled.memory.anonymous_bytes,
                    " at most for the base of the search, which takes more");
    else if (p->settled.samples || !p->calibrated)
        print_bytes("allocated memory", p->settled.memory.anonymous_bytes,
                    p->settled.memory.spill && !unsure
                        ? " at most; activations go to a file to stay within the limit"
                        : " at most");
    else
        print_bytes("allocated memory", p->settled.memory.spilled_bytes,
                    " at most, and the activations of all windows");
    if (p->settled.memory.sparing)
        (void)printf("%-17s one linear in floats at a time, drift of inputs in a file: slower, the "
                     "same bytes\n",
                     "");
    print_bytes("mapped files", p->settled.memory.mapped_bytes,
                " on top, which the system can drop");
    (void)printf("%-17s %s of allocated memory, of %s\n", "memory limit",
                 pare_units_bytes(p->settled.memory.limit_bytes, bytes), p->settled.memory.limit);
    if (unsure)
        (void)printf("%-17s which is less: whether the job runs shows once the smaller checkpoint "
                     "is there\n",
                     "");
    if (p->device_bytes)
        (void)printf("%-17s %s for evaluations, or more where it is free; %s are free\n",
                     "device memory", pare_units_bytes(p->device_bytes, bytes),
                     pare_units_bytes(p->device_free, free));
}

/* From the least to the most, and on a second line the shares of the phases that take most. */
static void print_time(const pare_plan_estimate *t, const pare_fallback_size *size, size_t count)
{
    enum { MOST = 5 };
    char least[PARE_UNIT_TEXT], text[PARE_UNIT_TEXT];
    bool named[PARE_PLAN_PHASES] = {false};
    (void)printf("%-17s about %s to %s on this machine%s", "time",
                 pare_units_seconds(t->least, least), pare_units_seconds(t->most, text),
                 t->disk[0] ? " and what the disk takes" : "");
    if (t->load)
        (void)printf("\n%-17s it is busy: %llu task%s of others on %llu CPU%s; the smaller time is "
                     "without them",
                     "", (unsigned long long)t->load, pare_plural(t->load),
                     (unsigned long long)t->cpus, pare_plural(t->cpus));
    for (size_t n = 0; n < MOST; n++) {
        size_t most = PARE_PLAN_PHASES;
        for (size_t i = 0; i < PARE_PLAN_PHASES; i++)
            if (!named[i] && t->phase[i] > 0.01 * t->seconds &&
                (most == PARE_PLAN_PHASES || t->phase[i] > t->phase[most]))
                most = i;
        if (most == PARE_PLAN_PHASES)
            break;
        named[most] = true;
        if (n == 0)
            (void)printf("\n%-17s ", "");
        (void)printf("%s%s %.0f %%", n ? ", " : "", pare_plan_phase_name(most),
                     t->phase[most] / t->seconds * 100);
    }
    (void)printf("\n");
    for (size_t i = 0; i < count; i++)
        if (size[i].first)
            (void)printf("%-17s fallback %zu takes this time: it runs in place of the recipe\n", "",
                         i + 1);
    if (t->disk[0])
        (void)printf("%-17s " PARE__PLAN_DISK "\n", "warning", t->disk);
}

bool pare__plan_larger(const pare_plan *p, const pare_requirement *r)
{
    return r->kind == PARE_REQUIRE_BYTES && (double)p->settled.packed_bytes > r->bound;
}

/* What is said behind files that may be larger than is required. */
static void print_larger(bool larger, const char *known_once)
{
    if (larger && known_once)
        (void)printf("   may be INFEASIBLE: known once %s", known_once);
    else if (larger)
        (void)printf("   INFEASIBLE: the files are larger");
    (void)printf("\n");
}

/* Which settings, and what they come to. */
static void print_fallback(const pare_texts *fallback, const pare_fallback_size *x)
{
    char text[PARE_UNIT_TEXT];
    (void)printf("%-17s ", "");
    for (size_t i = 0; i < fallback->count; i++)
        (void)printf("%s%s", i ? ", " : "", fallback->item[i].text);
    (void)printf(": %s%s, %s%.3f bits per weight", x->known_once ? "at most " : "",
                 pare_units_bytes(x->bytes, text), x->known_once ? "about " : "",
                 x->bits_per_weight);
    print_larger(x->larger, x->known_once);
}

static void print_requirements(const pare_plan *p, const pare_fallback_size *size)
{
    const pare_recipe *const r = &p->recipe;
    for (size_t i = 0; i < r->requirements; i++) {
        const pare_requirement *const q = &r->requirement[i];
        (void)printf("%-17s %s %s", i ? "" : "requires", q->name, q->text.text);
        print_larger(pare__plan_larger(p, q), pare_plan_known_once(p));
    }
    if (r->fallbacks)
        (void)printf("%-17s %zu, tried in turn where one is not kept\n", "fallbacks", r->fallbacks);
    for (size_t i = 0; i < r->fallbacks; i++)
        print_fallback(&r->fallback[i], &size[i]);
}

static void print_disk(const pare_plan *p)
{
    char text[PARE_UNIT_TEXT];
    print_bytes("disk", p->settled.disk_bytes, " while running");
    print_bytes("free disk", p->settled.disk_free_bytes, "");
    if (pare__plan_temporary(p) > 0)
        (void)printf("%-17s %s in %s ($TMPDIR): the weights, decoded\n", "temporary disk",
                     pare_units_bytes(pare__plan_temporary(p), text), pare_scratch_directory());
}

pare_status pare__plan_print_text(pare_arena *a, const pare_plan *p, const pare_plan_estimate *time,
                                  const pare_fallback_size *size, bool all)
{
    const char *const once = pare_plan_known_once(p);
    char text[PARE_UNIT_TEXT], cache[PARE_KV_TEXT];
    PARE_TRY(pare__plan_print_list(a, p, all));
    (void)printf("\n%-17s %s\n", "model", p->model_path);
    if (p->original_path)
        (void)printf("%-17s %s\n", "compared with", p->original_path);
    (void)printf("%-17s %s%s\n", "output", p->place.output, taken_note(p));
    if (p->refused)
        (void)printf("%-17s compress would refuse: %s\n", "warning", p->refused);
    (void)printf("%-17s %s%llu bytes (%s), %s%s: %u %sfile%s%s\n",
                 p->structured ? "checkpoint" : "packed",
                 pare_plan_is_base(p) ? "about "
                 : once               ? "at most "
                                      : "",
                 (unsigned long long)p->settled.packed_bytes,
                 pare_units_bytes(p->settled.packed_bytes, text), once ? "exact once " : "exact",
                 once ? once : "", p->settled.layout.shards, p->structured ? "" : "packed ",
                 pare_plural(p->settled.layout.shards),
                 pare_packed_index_name(&p->settled.layout) ? " and the index" : "");
    print_bytes("other files", p->settled.other_bytes, ", estimate");
    print_bytes("input", p->input_bytes, "");
    print_passes(p);
    if (!p->structured)
        (void)printf("%-17s %s%.3f in the linears of the blocks\n", "bits per weight",
                     once ? "about " : "", p->settled.bits_per_weight);
    print_ratios(p);
    print_zeros(p);
    pare_kv_text(&p->out, &p->recipe.kv, cache);
    (void)printf("%-17s %s\n", "KV cache", cache);
    if (p->calibrated && p->settled.samples)
        (void)printf("%-17s %zu window%s of %zu tokens\n", "calibration", p->settled.samples,
                     pare_plural(p->settled.samples), p->window);
    else if (p->calibrated)
        (void)printf("%-17s all windows of %zu tokens\n", "calibration", p->window);
    if (p->calibrated)
        (void)printf("%-17s %s: products of the calibration\n", "precision",
                     p->bf16 ? "BF16" : "F32");
    print_statistics(p);
    if (p->token_weights && is_gathering(p))
        (void)printf("%-17s by the loss: the float model runs forward and backward first\n",
                     "token weights");
    if (p->drift)
        (void)printf("%-17s runs beside, for correct; the sites of a block one by one\n",
                     "float model");
    else if (p->floats_beside)
        (void)printf("%-17s runs beside, for what the outputs of blocks should be\n",
                     "float model");
    print_shortages(p);
    print_experts(p);
    print_training(p);
    print_evaluation(p);
    print_requirements(p, size);
    print_exports(p);
    print_memory(p);
    print_disk(p);
    print_time(time, size, p->recipe.fallbacks);
    print_cautions(p);
    return PARE_OK;
}
