#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/cli/job_options.h"
#include "compress/need.h"
#include "compress/report/units.h"
#include "compress/sparsity_text.h"
#include "formats/dense.h"

pare_status pare_job_read(pare_cli *cli, const pare_args *args, pare_job *out)
{
    pare_ctx *const cx = &cli->cx;
    const char *const device = pare_args_text(args, "device");
    const char **const sets = PARE_NEW(&cli->arena, const char *, PARE_ARGS_MAX);
    if (!sets)
        return PARE_ENOMEM;
    *out = (pare_job){
        .recipe = args->operand[0],
        .model = pare_args_text(args, "model"),
        .output = pare_args_text(args, "output"),
        .sets = sets,
        .set_count = pare_args_texts(args, "set", sets),
        .restart = pare_args_given(args, "restart"),
        .strict = pare_args_given(args, "strict"),
    };
    if (device && strcmp(device, "cuda") == 0)
        return pare_fail(cx, PARE_EUSAGE, "--device cuda: this version computes on the CPU only");
    if (device && strcmp(device, "cpu") != 0)
        return pare_fail(cx, PARE_EUSAGE, "--device \"%s\": expected cpu", device);
    if (pare_path_is_directory(out->recipe))
        return pare_fail(cx, PARE_EUSAGE, "%s: is a directory, expected a recipe", out->recipe);
    if (!pare_path_is_file(out->recipe))
        return pare_fail(cx, PARE_EUSAGE, "%s: there is no such recipe", out->recipe);
    return pare_args_bytes(cx, args, "ram-limit", &out->ram_limit);
}

static const char *pass_name(const pare_plan *p, size_t step)
{
    return pare_passes[p->recipe.step[step].pass]->name;
}

enum { PASSES = 64 };

/* "gptq", "wanda + gptq", "wanda". */
static const char *pass_names(const pare_plan *p, const pare_plan_linear *l, char text[PASSES])
{
    const bool two = l->pruned && l->prune_step != l->step;
    (void)snprintf(text, PASSES, "%s%s%s", two ? pass_name(p, l->prune_step) : "", two ? " + " : "",
                   pass_name(p, l->step));
    return text;
}

/* "2:4", "50%", and nothing for a linear that is not pruned. */
static const char *zeros_of(const pare_plan_linear *l, char text[PARE_SPARSITY_TEXT])
{
    text[0] = '\0';
    return l->pruned ? pare_sparsity_text(&l->sparsity, text) : text;
}

typedef struct widths {
    size_t name, pass, encoding, zeros; /* zeros 0: nothing is pruned */
} widths;

static size_t wider(size_t width, const char *text)
{
    const size_t len = strlen(text);
    return len > width ? len : width;
}

static widths measure_table(const pare_plan *p)
{
    char encoding[PARE_PACKED_TEXT], passes[PASSES], zeros[PARE_SPARSITY_TEXT];
    widths w = {6, 11, 8, p->pruned ? 6 : 0};
    for (size_t i = 0; i < p->linears; i++) {
        const pare_plan_linear *const l = &p->linear[i];
        w.name = wider(w.name, l->packed.name);
        w.pass = wider(w.pass, pass_names(p, l, passes));
        w.encoding = wider(w.encoding, pare_packed_linear_text(&l->packed, encoding));
        w.zeros = wider(w.zeros, zeros_of(l, zeros));
    }
    return w;
}

static void print_linears(const pare_plan *p)
{
    const widths w = measure_table(p);
    const int pad = w.zeros ? 2 : 0;
    (void)printf("%-*s  %13s  %-*s  %*s%*s%-*s %12s\n", (int)w.name, "linear", "shape", (int)w.pass,
                 "pass", (int)w.zeros, w.zeros ? "pruned" : "", pad, "", (int)w.encoding,
                 "encoding", "bytes");
    for (size_t i = 0; i < p->linears; i++) {
        const pare_packed_linear *const l = &p->linear[i].packed;
        char shape[48], encoding[PARE_PACKED_TEXT], passes[PASSES], zeros[PARE_SPARSITY_TEXT];
        (void)snprintf(shape, sizeof shape, "%zu x %zu", l->n, l->k);
        (void)printf("%-*s  %13s  %-*s  %*s%*s%-*s %12llu\n", (int)w.name, l->name, shape,
                     (int)w.pass, pass_names(p, &p->linear[i], passes), (int)w.zeros,
                     zeros_of(&p->linear[i], zeros), pad, "", (int)w.encoding,
                     pare_packed_linear_text(l, encoding),
                     (unsigned long long)pare_packed_linear_bytes(l).total);
    }
}

/* What a structured plan stores of each block, and the sizes of the model. */
static void print_tensors(const pare_plan *p)
{
    const pare_config *const b = &p->model.config, *const a = &p->out;
    const struct {
        const char *what;
        size_t before, after;
    } size[] = {{"blocks", b->blocks, a->blocks},
                {"hidden size", b->hidden, a->hidden},
                {"query heads", b->heads, a->heads},
                {"key/value heads", b->kv_heads, a->kv_heads},
                {"MLP channels", b->intermediate, a->intermediate}};
    size_t width = 6;
    for (size_t i = 0; i < p->changes; i++)
        width = wider(width, p->changed[i].tensor.name);
    (void)printf("%-*s  %13s  %s\n", (int)width, "tensor", "shape", "dtype");
    for (size_t i = 0; i < p->changes; i++) {
        const pare_tensor *const t = &p->changed[i].tensor;
        char shape[48];
        (void)snprintf(shape, sizeof shape, t->rank == 1 ? "%llu" : "%llu x %llu",
                       (unsigned long long)t->shape[0], (unsigned long long)t->shape[1]);
        (void)printf("%-*s  %13s  %s\n", (int)width, t->name, shape, pare_dtype_name(t->dtype));
    }
    (void)printf("\n");
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        (void)printf("%-17s %zu of %zu stay (%.1f%% less)\n", size[i].what, size[i].after,
                     size[i].before,
                     100.0 * (1.0 - (double)size[i].after / (double)size[i].before));
}

static void print_bytes(const char *what, uint64_t bytes, const char *note)
{
    char text[PARE_UNIT_TEXT];
    (void)printf("%-17s %s%s\n", what, pare_units_bytes(bytes, text), note);
}

/* True when compress would refuse to replace what lies there. */
static bool is_taken(const pare_plan *p)
{
    return !p->replaces && pare_path_is_directory(p->output_path);
}

static const char *taken_note(const pare_plan *p)
{
    if (!is_taken(p))
        return "";
    return pare_plan_missing(p)
               ? "   (exists; compress makes the exports that are missing if it is of this recipe "
                 "and model, and will ask for --restart if not)"
               : "   (exists; compress has nothing to do if it is of this recipe and model, and "
                 "will ask for --restart if not)";
}

static void print_cautions(const pare_plan *p)
{
    for (size_t i = 0; i < p->recipe.steps; i++) {
        const pare_pass *const pass = pare_passes[p->recipe.step[i].pass];
        if (pass->caution)
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
            (l->encoding == PARE_ENCODING_F16) == floats)
            pare_sparsity_add(&t, l);
    }
    if (t.linears && store == PARE_SPARSITY_NONE && floats)
        (void)printf("%-17s stored in %zu linears (f16 dense%s): too few%s for a mask to take "
                     "fewer bytes\n",
                     "zeros", t.linears, p->ratios ? ", or behind a mask" : "",
                     p->ratios ? ", where the rule takes least," : "");
    else if (t.linears && store == PARE_SPARSITY_NONE)
        (void)printf("%-17s stored like other weights in %zu linears: saves no bytes and no time\n",
                     "zeros", t.linears);
    else if (t.linears)
        (void)printf("%-17s left out of %zu linears (%s%s): %.1f%% of the bytes with them, saves "
                     "%s\n",
                     "zeros", t.linears, floats ? "f16 " : "", pare_sparsity_store_name(store),
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
    for (size_t i = 0; i < p->recipe.steps; i++)
        (void)printf("%s%s", i ? ", " : "passes            ",
                     pare_passes[p->recipe.step[i].pass]->name);
    (void)printf("\n");
}

/* What experts add to the calibration, and what transforms leave alone because of them. */
static void print_experts(const pare_plan *p)
{
    const pare_calibration *const c = &p->recipe.calibration;
    bool calibrated = false;
    for (size_t s = 0; s < PARE_SITES; s++)
        calibrated |= p->expert_kinds[s] != 0;
    if (p->experts && calibrated)
        (void)printf("%-17s %zu in a block; statistics of %zu in each pass; below %zu tokens: %s\n",
                     "experts", p->model.config.experts, p->chunk, c->min_tokens,
                     pare_cold_policy_name(c->cold));
    for (size_t i = 0; i < p->recipe.steps; i++)
        if (p->left && p->left[i])
            (void)printf("%-17s works on attention only; the inputs of %zu linears of MLPs, which "
                         "the\n%-17s router reads or which differ by expert, stay as they are\n",
                         pass_name(p, i), p->left[i], "");
}

static void print_shortages(const pare_plan *p)
{
    char text[PARE_SHORTAGE_TEXT];
    pare_shortage s;
    for (size_t i = 0; i < p->recipe.steps; i++)
        if (pare_plan_short(p, i, &s))
            (void)printf("%-17s %s\n", "warning", pare_shortage_text(p, i, &s, text));
    for (size_t i = 0; i < p->recipe.steps; i++)
        if (pare_plan_tail_text(p, i, text, sizeof text))
            (void)printf("%-17s %s\n", "note", text);
}

static void put_shortages(pare_json_writer *w, const pare_plan *p)
{
    char text[PARE_SHORTAGE_TEXT];
    pare_shortage s;
    pare_json_open_array(w, "warnings");
    for (size_t i = 0; i < p->recipe.steps; i++)
        if (pare_plan_short(p, i, &s))
            pare_json_put_text(w, NULL, pare_shortage_text(p, i, &s, text));
    for (size_t i = 0; i < p->recipe.steps; i++)
        if (pare_plan_tail_text(p, i, text, sizeof text))
            pare_json_put_text(w, NULL, text);
    pare_json_close(w);
}

static void print_evaluation(const pare_plan *p)
{
    if (p->held_out)
        (void)printf("%-17s perplexity and KL on up to %zu calibration windows held out: pruning "
                     "is\n%-17s always evaluated, and the recipe has no evaluate:\n",
                     "evaluation", p->held_out, "");
}

static void print_exports(const pare_plan *p)
{
    for (size_t i = 0; i < p->exports; i++) {
        const pare_plan_export *const x = &p->export[i];
        const pare_export_result *const r = &x->result;
        const char *before = "";
        char bytes[PARE_UNIT_TEXT], types[PARE_EXPORT_TEXT];
        (void)printf("%-17s %s to %s, %llu bytes (%s), exact%s\n", "export", x->target->name,
                     x->path, (unsigned long long)r->bytes, pare_units_bytes(r->bytes, bytes),
                     !x->taken     ? ""
                     : p->finished ? "   (exists)"
                                   : "   (exists; compress will ask for --restart)");
        (void)printf("%-17s linears: ", "");
        for (pare_export_fate f = 0; f < PARE_EXPORT_FATES; f++) {
            if (r->count[f])
                (void)printf("%s%zu %s%s", before, r->count[f], pare_export_fate_name(f),
                             f == PARE_EXPORT_ROUNDED ? " or lossless, as the values are" : "");
            before = r->count[f] ? ", " : before;
        }
        (void)printf("\n");
        if (r->fallbacks > r->beside_floats)
            (void)printf("%-17s %zu fall back to other types: %s\n", "",
                         r->fallbacks - r->beside_floats, pare_export_fallback_text(r, types));
        if (r->beside_floats)
            (void)printf("%-17s %zu become F16: others in the same tensor are not quantized\n", "",
                         r->beside_floats);
    }
}

static void put_exports(pare_json_writer *w, const pare_plan *p)
{
    pare_json_open_array(w, "exports");
    for (size_t i = 0; i < p->exports; i++) {
        const pare_plan_export *const x = &p->export[i];
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "format", x->target->name);
        pare_json_put_text(w, "output", x->path);
        pare_json_put_bool(w, "needs_restart", x->taken);
        pare_export_put(w, &x->result, false);
        pare_json_close(w);
    }
    pare_json_close(w);
}

static void print_text(const pare_plan *p, double seconds)
{
    char text[PARE_UNIT_TEXT], cache[PARE_KV_TEXT];
    if (p->structured)
        print_tensors(p);
    else
        print_linears(p);
    (void)printf("\n%-17s %s\n%-17s %s%s\n", "model", p->model_path, "output", p->output_path,
                 taken_note(p));
    (void)printf("%-17s %s%llu bytes (%s), %s: %u %sfile%s%s\n",
                 p->structured ? "checkpoint" : "packed", p->ratios ? "at most " : "",
                 (unsigned long long)p->packed_bytes, pare_units_bytes(p->packed_bytes, text),
                 p->ratios ? "exact once the calibration has run" : "exact", p->layout.shards,
                 p->structured ? "" : "packed ", p->layout.shards == 1 ? "" : "s",
                 pare_packed_index_name(&p->layout) ? " and the index" : "");
    print_bytes("other files", p->other_bytes, ", estimate");
    print_bytes("input", p->input_bytes, "");
    print_passes(p);
    if (!p->structured)
        (void)printf("%-17s %s%.3f in the listed linears\n", "bits per weight",
                     p->ratios ? "about " : "", p->bits_per_weight);
    print_ratios(p);
    print_zeros(p);
    pare_kv_text(&p->out, &p->recipe.kv, cache);
    (void)printf("%-17s %s\n", "KV cache", cache);
    if (p->calibrated && p->samples)
        (void)printf("%-17s %zu windows of %zu tokens\n", "calibration", p->samples, p->window);
    else if (p->calibrated)
        (void)printf("%-17s all windows of %zu tokens\n", "calibration", p->window);
    print_shortages(p);
    print_experts(p);
    print_evaluation(p);
    print_exports(p);
    if (p->samples || !p->calibrated)
        print_bytes("peak memory", p->peak_ram_bytes,
                    p->spill ? " anonymous; activations go to a file to stay within the limit"
                             : " anonymous; mapped files come on top and can be dropped");
    else
        print_bytes("peak memory", p->spilled_ram_bytes,
                    " anonymous, and the activations of all windows");
    (void)printf("%-17s %s, of %s\n", "memory limit", pare_units_bytes(p->ram_limit, text),
                 p->ram_limit_name);
    print_bytes("disk", p->disk_bytes, " while running");
    print_bytes("free disk", p->disk_free_bytes, "");
    (void)printf("%-17s about %s on this machine%s\n", "time", pare_units_seconds(seconds, text),
                 p->recipe.evaluations || p->held_out ? "; the evaluation comes on top" : "");
    print_cautions(p);
}

static void put_zeros(pare_json_writer *w, const pare_plan *p, const pare_plan_linear *l)
{
    char text[PARE_SPARSITY_TEXT];
    const pare_packed_linear *const q = &l->packed;
    pare_json_open_object(w, "pruned");
    pare_json_put_text(w, "pass", pass_name(p, l->prune_step));
    pare_json_put_text(w, "pattern", pare_sparsity_text(&l->sparsity, text));
    pare_json_put_finite(w, "zeros",
                         1.0 - (double)pare_sparsity_kept(&l->sparsity, q->n, q->k) /
                                   ((double)q->n * (double)q->k));
    pare_json_put_text(w, "storage", pare_sparsity_store_name(q->sparsity));
    pare_json_put_integer(w, "dense_bytes", (int64_t)pare_sparsity_dense_bytes(q));
    pare_json_put_text(w, "saves", pare_sparsity_saves(q));
    pare_json_close(w);
}

static void put_linear(pare_json_writer *w, const pare_plan *p, const pare_plan_linear *l)
{
    char encoding[PARE_PACKED_TEXT];
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "name", l->packed.name);
    pare_json_open_array(w, "shape");
    pare_json_put_integer(w, NULL, (int64_t)l->packed.n);
    pare_json_put_integer(w, NULL, (int64_t)l->packed.k);
    pare_json_close(w);
    if (l->part)
        pare_json_put_integer(w, "expert", (int64_t)l->part - 1);
    pare_json_put_text(w, "pass", pass_name(p, l->step));
    pare_json_put_integer(w, "bits", (int64_t)l->packed.bits);
    pare_json_put_integer(w, "group", (int64_t)l->packed.group);
    pare_json_put_bool(w, "symmetric", l->packed.symmetric);
    pare_json_put_text(w, "encoding", pare_packed_linear_text(&l->packed, encoding));
    pare_json_put_integer(w, "bytes", (int64_t)pare_packed_linear_bytes(&l->packed).total);
    if (l->pruned)
        put_zeros(w, p, l);
    pare_json_close(w);
}

static pare_status print_json(pare_cli *cli, const pare_plan *p, double seconds)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "model", p->model_path);
    pare_json_put_text(w, "output", p->output_path);
    pare_json_put_bool(w, "needs_restart", is_taken(p));
    pare_json_put_integer(w, "packed_bytes", (int64_t)p->packed_bytes);
    pare_json_put_bool(w, "packed_bytes_exact", !p->ratios);
    pare_json_put_integer(w, "other_bytes", (int64_t)p->other_bytes);
    pare_json_put_integer(w, "input_bytes", (int64_t)p->input_bytes);
    pare_json_put_finite(w, "bits_per_weight", p->bits_per_weight);
    pare_json_put_kv(w, &p->model.config, &p->recipe.kv);
    pare_json_put_bool(w, "plain_checkpoint", p->structured);
    pare_json_put_integer(w, "samples", (int64_t)p->samples);
    pare_json_put_integer(w, "window", (int64_t)p->window);
    pare_json_put_integer(w, "held_out_windows", (int64_t)p->held_out);
    if (p->experts)
        pare_json_put_integer(w, "experts_in_a_pass", (int64_t)p->chunk);
    pare_json_put_bool(w, "spill", p->spill);
    pare_json_put_integer(w, "peak_ram_bytes", (int64_t)p->peak_ram_bytes);
    pare_json_put_text(w, "peak_ram_kind", "anonymous");
    pare_json_put_integer(w, "ram_limit_bytes", (int64_t)p->ram_limit);
    pare_json_put_text(w, "ram_limit", p->ram_limit_name);
    pare_json_put_integer(w, "disk_bytes", (int64_t)p->disk_bytes);
    pare_json_put_integer(w, "disk_free_bytes", (int64_t)p->disk_free_bytes);
    pare_json_put_finite(w, "seconds", seconds);
    pare_json_open_array(w, "linears");
    for (size_t i = 0; i < p->linears; i++)
        put_linear(w, p, &p->linear[i]);
    pare_json_close(w);
    put_shortages(w, p);
    put_exports(w, p);
    pare_json_close(w);
    return pare_cli_print(w);
}

pare_status pare_plan_run(pare_cli *cli, const pare_args *args)
{
    pare_job job;
    pare_plan plan = {0};
    double seconds = 0;
    PARE_TRY(pare_job_read(cli, args, &job));
    job.look = true;
    PARE_TRY(pare_cli_blas(cli, args));
    pare_status s = pare_plan_make(&cli->cx, &cli->arena, &job, &plan);
    if (s == PARE_OK)
        s = pare_plan_time(&cli->cx, &plan, &seconds);
    if (s == PARE_OK && cli->json)
        s = print_json(cli, &plan, seconds);
    else if (s == PARE_OK)
        print_text(&plan, seconds);
    pare_plan_close(&plan);
    return s;
}
