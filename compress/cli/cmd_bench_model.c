/* pare bench model: a model of the user or a synthetic one, alone or in turns with another. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/bench/bench_model.h"
#include "compress/cli/cmd_bench.h"
#include "compress/evaluate/figures.h"
#include "compress/text/units.h"
#include "runtime/cuda.h"
#include "runtime/machine.h"
#include "runtime/threads.h"

enum { PROMPT = 512, OUTPUT = 64, RUNS = 3, QUICK_PROMPT = 32, QUICK_OUTPUT = 4, QUICK_RUNS = 2 };

static const uint64_t RAM_LEAST = (uint64_t)1 << 20;

static const double busy_below = 0.8; /* of the CPUs; below, the user is told */

/* What is measured: one model, or two. */
typedef struct subject {
    pare_bench_spec spec[2]; /* shape NULL: from a path */
    const char *name[2];     /* shape or path */
    pare_loaded loaded[2];
    size_t count;
    pare_bench_model_opts opts;
} subject;

static pare_status read_batches(pare_cli *cli, const pare_args *args, pare_bench_model_opts *o)
{
    o->batch[0] = 1;
    o->batch[1] = 8;
    o->batches = 2;
    return pare_args_counts(&cli->cx, args, "batch", "1,8",
                            (pare_counts){1, PARE_BENCH_BATCH_MAX, PARE_BENCH_BATCHES}, o->batch,
                            &o->batches);
}

/* Lengths against the context; those that were not given are cut to it. */
static pare_status read_lengths(pare_cli *cli, const pare_args *args, size_t context,
                                pare_bench_model_opts *o)
{
    uint64_t prompt = o->quick ? QUICK_PROMPT : PROMPT, output = o->quick ? QUICK_OUTPUT : OUTPUT;
    if (prompt + output - 1 > context) {
        prompt = context / 2 ? context / 2 : 1;
        output = output < context - prompt + 1 ? output : context - prompt + 1;
    }
    PARE_TRY(pare_args_count(&cli->cx, args, "prompt", 1, UINT32_MAX, &prompt));
    PARE_TRY(pare_args_count(&cli->cx, args, "output", 2, UINT32_MAX, &output));
    if (output < 2 || prompt + output - 1 > context) /* a context of 1 cuts the usual output to 1 */
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "a prompt of %llu and an output of %llu token%s do not fit the context of "
                         "%zu token%s; see --prompt and --output",
                         (unsigned long long)prompt, (unsigned long long)output,
                         pare_plural(output), context, pare_plural(context));
    o->prompt = (size_t)prompt;
    o->output = (size_t)output;
    return PARE_OK;
}

static pare_status read_group(pare_cli *cli, const pare_args *args, pare_bench_spec *spec)
{
    const char *const text = pare_args_text(args, "group");
    uint64_t group = 0;
    if (text && strcmp(text, "row") == 0)
        spec->group = PARE_BENCH_ROW;
    else if (text) {
        PARE_TRY(pare_args_count(&cli->cx, args, "group", 32, UINT32_MAX, &group));
        spec->group = (size_t)group;
    }
    return PARE_OK;
}

/* The models that were asked for. */
static pare_status read_subject(pare_cli *cli, const pare_args *args, subject *s)
{
    pare_ctx *const cx = &cli->cx;
    const char *const shape = pare_args_text(args, "shape");
    const char *const against = pare_args_text(args, "against");
    const char *const weights = pare_args_text(args, "weights");
    if (!shape == (args->operands < 2))
        return pare_fail(cx, PARE_EUSAGE,
                         shape ? "bench: MODEL and --shape exclude each other"
                               : "bench: MODEL is missing; give one, or --shape 1b");
    if (!shape && (weights || pare_args_given(args, "group")))
        return pare_fail(
            cx, PARE_EUSAGE,
            "bench: --weights and --group are of random matrices and go with --shape; leave "
            "them out for a model");
    if (shape && against && !pare_args_given(args, "group") &&
        strcmp(weights ? weights : "int4", against) == 0)
        return pare_fail(cx, PARE_EUSAGE, "bench: --against %s: these are the weights already",
                         against);
    s->count = against ? 2 : 1;
    s->spec[0] = (pare_bench_spec){shape, weights ? weights : "int4", 0};
    s->spec[1] = (pare_bench_spec){shape, against, 0};
    s->name[0] = shape ? shape : args->operand[1];
    s->name[1] = shape ? shape : against;
    return read_group(cli, args, &s->spec[0]);
}

static pare_status read_options(pare_cli *cli, const pare_args *args, subject *s)
{
    pare_ctx *const cx = &cli->cx;
    PARE_TRY(read_subject(cli, args, s));
    s->opts =
        (pare_bench_model_opts){.quick = pare_args_given(args, "quick"), .powercap = PARE_POWERCAP};
    PARE_TRY(read_batches(cli, args, &s->opts));
    uint64_t runs = s->opts.quick ? QUICK_RUNS : RUNS, limit = cx->limit_bytes;
    PARE_TRY(pare_args_count(cx, args, "runs", 1, PARE_BENCH_RUNS_MAX, &runs));
    PARE_TRY(pare_args_bytes(cx, args, "ram-limit", &limit));
    if (limit && limit < RAM_LEAST)
        return pare_fail(
            cx, PARE_EUSAGE,
            "--ram-limit \"%.32s\": the program alone needs more; expected 1MiB or more",
            pare_args_text(args, "ram-limit"));
    s->opts.runs = (size_t)runs;
    cx->limit_bytes = (size_t)limit;
    return PARE_OK;
}

/* Opens or plans the models, without weights that would have to be made. */
static pare_status open_models(pare_cli *cli, const pare_args *args, subject *s)
{
    size_t context = SIZE_MAX;
    for (size_t i = 0; i < s->count; i++) {
        pare_loaded *const l = &s->loaded[i];
        if (s->spec[i].shape)
            PARE_TRY(pare_bench_synthetic_plan(&cli->cx, &cli->arena, &s->spec[i], &l->model));
        else
            PARE_TRY(pare_loaded_open(cli, args, s->name[i], false, false, l));
        PARE_TRY(pare_loaded_kv(cli, args, l));
        if (l->model.config.context < context)
            context = l->model.config.context;
    }
    return read_lengths(cli, args, context, &s->opts);
}

static pare_status check_memory(pare_cli *cli, const subject *s)
{
    char what[160];
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->count; i++) {
        const pare_model *const m = &s->loaded[i].model;
        uint64_t one = pare_bench_model_bytes(&cli->cx, &m->config, &m->kv, &s->opts);
        if (s->spec[i].shape && one < UINT64_MAX / 4)
            one += pare_bench_synthetic_bytes(m, &s->spec[i]);
        bytes = one > UINT64_MAX - bytes ? UINT64_MAX : bytes + one;
    }
    if (s->spec[0].shape)
        (void)snprintf(what, sizeof what, "shape %s with %s weights%s%s", s->name[0],
                       s->spec[0].weights, s->count > 1 ? " beside " : "",
                       s->count > 1 ? s->spec[1].weights : "");
    else
        (void)snprintf(what, sizeof what, "%.100s, weights apart,", s->name[0]);
    return pare_bench_memory(&cli->cx, bytes, what);
}

static pare_status make_weights(pare_cli *cli, subject *s)
{
    for (size_t i = 0; i < s->count; i++) {
        pare_loaded *const l = &s->loaded[i];
        if (!s->spec[i].shape)
            continue;
        PARE_TRY(pare_bench_synthetic_fill(&cli->cx, &cli->arena, &s->spec[i], &l->model));
        PARE_TRY(pare_forward_init(&cli->cx, &cli->arena, &l->model,
                                   s->opts.prompt + s->opts.output - 1, false, &l->forward));
    }
    for (size_t i = 0; i < s->count; i++)
        PARE_TRY(pare_loaded_device(cli, &s->loaded[i]));
    return PARE_OK;
}

static void put_phase(pare_json_writer *w, const pare_bench_phase *p, bool prefill)
{
    static const char *const key[2][8] = {
        {"tpot_ms", "tpot_spread", "decode_tok_s", "decode_bound_ms", "decode_bound",
         "decode_share", "decode_ratio", "decode_joules_per_token"},
        {"ttft_ms", "ttft_spread", "prefill_tok_s", "prefill_bound_ms", "prefill_bound",
         "prefill_share", "prefill_ratio", "prefill_joules_per_token"}};
    const char *const *const k = key[prefill];
    pare_json_put_finite(w, k[0], p->time.ms);
    pare_json_put_finite(w, k[1], p->time.spread);
    pare_json_put_finite(w, k[2], p->tok_s);
    pare_json_put_finite(w, k[3], p->bound_ms);
    pare_json_put_text(w, k[4], p->bound);
    pare_json_put_finite(w, k[5], p->share);
    pare_json_put_finite(w, k[6], p->ratio);
    pare_json_put_finite(w, k[7], p->joules);
}

static void put_row(pare_json_writer *w, const pare_cli *cli, const subject *s,
                    const pare_bench_model_result *r, const pare_bench_model_row *row)
{
    const pare_model *const m = &s->loaded[row->model].model;
    const pare_ran_on on = pare_loaded_ran_on(cli, &s->loaded[row->model]);
    size_t group;
    const char *const weights = pare_bench_weights_name(m, &group);
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "model", s->name[row->model]);
    pare_json_put_text(w, "weights", weights);
    pare_json_put_integer(w, "group", group == PARE_BENCH_ROW ? 0 : (int64_t)group);
    pare_json_put_text(w, "kv_method", pare_kv_method_name(m->kv.method));
    pare_json_put_integer(w, "batch", (int64_t)row->batch);
    pare_json_put_integer(w, "prompt", (int64_t)r->prompt);
    pare_json_put_integer(w, "output", (int64_t)r->output);
    pare_json_put_integer(w, "threads", (int64_t)r->threads);
    pare_json_put_integer(w, "runs", (int64_t)r->runs);
    pare_json_put_integer(w, "weight_bytes", (int64_t)r->weight_bytes[row->model]);
    pare_json_put_integer(w, "stored_bytes", (int64_t)r->stored_bytes[row->model]);
    pare_json_put_finite(w, "kv_bytes_per_token", r->kv_token_bytes[row->model]);
    put_phase(w, &row->prefill, true);
    put_phase(w, &row->decode, false);
    pare_json_put_finite(w, "weight_share", row->weight_share);
    pare_json_put_ran_on(w, &on);
    pare_json_close(w);
}

static pare_status print_json(pare_cli *cli, const subject *s, const pare_bench_model_result *r)
{
    pare_json_writer *w;
    bool checked = true;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_bench_put_head(cli, w, "model");
    for (size_t i = 0; i < s->count; i++)
        checked &= s->spec[i].shape || s->loaded[i].checked;
    if (!s->spec[0].shape)
        pare_json_put_bool(w, "checked", checked);
    pare_bench_put_limits(w, "limits", &r->limits);
    if (cli->device)
        pare_json_put_finite(w, "device_copy_gb_s", s->opts.copy_gb_s);
    pare_json_open_array(w, "rows");
    for (size_t i = 0; i < r->rows; i++)
        put_row(w, cli, s, r, &r->row[i]);
    pare_json_close(w);
    pare_json_put_finite(w, "cpu_share", r->cpu_share);
    if (r->energy)
        pare_json_put_null(w, "energy_note");
    else
        pare_json_put_text(w, "energy_note", r->energy_note);
    pare_figures_put_peaks(w, pare_machine_peak_resident(), 0);
    pare_json_close(w);
    return pare_cli_print(w);
}

/* "int4 g128", "ternary row", "f16". Returns text. */
static const char *kind_text(const pare_model *m, char text[48])
{
    size_t group;
    const char *const weights = pare_bench_weights_name(m, &group);
    if (group == PARE_BENCH_ROW)
        (void)snprintf(text, 48, "%s row", weights);
    else if (group)
        (void)snprintf(text, 48, "%s g%zu", weights, group);
    else
        (void)snprintf(text, 48, "%s", weights);
    return text;
}

static void print_models(const subject *s, const pare_bench_model_result *r)
{
    for (size_t i = 0; i < s->count; i++) {
        const pare_model *const m = &s->loaded[i].model;
        char kind[48], bytes[PARE_UNIT_TEXT], all[PARE_UNIT_TEXT + 4] = "", kv[PARE_KV_TEXT];
        pare_kv_text(&m->config, &m->kv, kv);
        if (m->config.experts)
            (void)snprintf(all, sizeof all, " of %s", pare_units_bytes(r->stored_bytes[i], bytes));
        (void)printf("%-8s %s, %s: %s%s read per step%s, cache %s\n", i ? "against" : "model",
                     s->name[i], kind_text(m, kind), pare_units_bytes(r->weight_bytes[i], bytes),
                     all, m->config.experts ? " of one token" : "", kv);
    }
}

static void print_phase(const pare_bench_phase *p)
{
    char spread[16] = "-", share[24] = "-"; /* of one run; on a device */
    if (isfinite(p->time.spread))
        (void)snprintf(spread, sizeof spread, "%.1f%%", p->time.spread * 100);
    if (isfinite(p->share))
        (void)snprintf(share, sizeof share, "%6.1f%% of %-4s", p->share * 100, p->bound);
    (void)printf(" %10.2f %6s %9.2f %15s", p->time.ms, spread, p->tok_s, share);
}

static void print_rows(const subject *s, const pare_bench_model_result *r)
{
    (void)printf("\n%-14s %5s %10s %6s %9s %15s %10s %6s %9s %15s %13s\n", "weights", "batch",
                 "TTFT ms", "spread", "prefill/s", "bound/TTFT", "TPOT ms", "spread", "decode/s",
                 "bound/TPOT", "weights/DRAM");
    for (size_t i = 0; i < r->rows; i++) {
        const pare_bench_model_row *const row = &r->row[i];
        char kind[48];
        (void)printf("%-14s %5zu", kind_text(&s->loaded[row->model].model, kind), row->batch);
        print_phase(&row->prefill);
        print_phase(&row->decode);
        if (isfinite(row->weight_share))
            (void)printf(" %13.2f\n", row->weight_share);
        else
            (void)printf(" %13s\n", "-");
    }
    for (size_t i = 0; i < r->rows; i++)
        if (isfinite(r->row[i].prefill.ratio))
            (void)printf("batch %zu: prefill %.2f x, decoding %.2f x the speed of the second\n",
                         r->row[i].batch, r->row[i].prefill.ratio, r->row[i].decode.ratio);
}

static void print_energy(const subject *s, const pare_bench_model_result *r)
{
    if (!r->energy) {
        (void)printf("energy   not measured: %s\n", r->energy_note);
        return;
    }
    for (size_t i = 0; i < r->rows; i++) {
        const pare_bench_model_row *const row = &r->row[i];
        char kind[48];
        (void)printf("energy   %s, batch %zu: %.4f J per token of a prompt, %.4f J per token "
                     "generated\n",
                     kind_text(&s->loaded[row->model].model, kind), row->batch, row->prefill.joules,
                     row->decode.joules);
    }
}

static void print_text(const pare_cli *cli, const subject *s, const pare_bench_model_result *r)
{
    char rss[PARE_UNIT_TEXT], device[PARE_DEVICE_TEXT];
    pare_bench_print_head(cli);
    (void)printf("limits measured now: reading the weights %.1f GB/s, FMA %.1f GFLOP/s, int8 %.1f "
                 "GOP/s",
                 r->limits.dram_read_gb_s, r->limits.fma_gflop_s, r->limits.int8_gop_s);
    if (isfinite(r->limits.int8_tiles_gop_s))
        (void)printf(", int8 tiles %.1f GOP/s", r->limits.int8_tiles_gop_s);
    (void)printf("\n");
    if (cli->device)
        (void)printf("limit of the device: a copy within its memory, %.1f GB/s read and written\n",
                     s->opts.copy_gb_s);
    print_models(s, r);
    for (size_t i = 0; i < s->count; i++) {
        const pare_ran_on on = pare_loaded_ran_on(cli, &s->loaded[i]);
        if (on.device || on.fallback)
            (void)printf("device   %s\n", pare_ran_on_text(&on, device));
    }
    (void)printf("lengths  prompt %zu, output %zu tokens; median of %zu run%s\n", r->prompt,
                 r->output, r->runs, pare_plural(r->runs));
    print_rows(s, r);
    if (r->cpu_share < busy_below)
        (void)printf(
            "busy     this process had %.0f%% of its CPUs, others the rest: times say little\n",
            r->cpu_share * 100);
    print_energy(s, r);
    const uint64_t resident = pare_machine_peak_resident();
    if (resident)
        (void)printf("memory   peak %s\n", pare_units_bytes(resident, rss));
}

/* With `auto` a device that cannot even copy is left when a model comes to it. */
static pare_status measure_copy(pare_cli *cli, pare_bench_model_opts *o)
{
    if (!cli->device)
        return PARE_OK;
    const pare_status s = pare_bench_device_copy(&cli->cx, cli->device, (size_t)cli->device_limit,
                                                 o->quick, &o->copy_gb_s);
    if (!cli->device_or_cpu || !pare_cuda_cannot(s))
        return s;
    pare_ctx_clear(&cli->cx);
    return PARE_OK;
}

static pare_status run(pare_cli *cli, const pare_args *args, subject *s,
                       pare_bench_model_result *result)
{
    const pare_forward *const f[2] = {&s->loaded[0].forward,
                                      s->count > 1 ? &s->loaded[1].forward : NULL};
    PARE_TRY(measure_copy(cli, &s->opts));
    PARE_TRY(open_models(cli, args, s));
    PARE_TRY(check_memory(cli, s));
    PARE_TRY(make_weights(cli, s));
    pare_status done;
    do
        done = pare_bench_model(&cli->cx, f, &s->opts, result);
    while (pare_loaded_leave_device(cli, done, &s->loaded[0], &s->loaded[1]));
    PARE_TRY(done);
    if (cli->json)
        return print_json(cli, s, result);
    print_text(cli, s, result);
    return PARE_OK;
}

pare_status pare_bench_model_run(pare_cli *cli, const pare_args *args)
{
    static subject s;
    static pare_bench_model_result result;
    PARE_TRY(read_options(cli, args, &s));
    PARE_TRY(pare_cli_threads(cli));
    PARE_TRY(pare_cli_device(cli, args));
    const pare_status status = run(cli, args, &s, &result);
    for (size_t i = 0; i < s.count; i++)
        pare_loaded_close(&s.loaded[i]);
    return status;
}
