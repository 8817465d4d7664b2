#include "compress/cli/cmd_bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/threads.h"

const char *pare_bench_cpu(char text[PARE_CPU_TEXT])
{
    static const char key[] = "model name";
    FILE *const f = fopen("/proc/cpuinfo", "r");
    char line[256];
    (void)snprintf(text, PARE_CPU_TEXT, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        const char *const colon = strchr(line, ':');
        if (strncmp(line, key, sizeof key - 1) != 0 || !colon)
            continue;
        const char *const name = colon + strspn(colon, ": \t");
        (void)snprintf(text, PARE_CPU_TEXT, "%.*s", (int)strcspn(name, "\n"), name);
        break;
    }
    if (f)
        (void)fclose(f);
    return text;
}

void pare_bench_put_head(pare_cli *cli, pare_json_writer *w, const char *kind)
{
    char cpu[PARE_CPU_TEXT];
    pare_json_put_text(w, "program", "pare " PARE_VERSION);
    pare_json_put_text(w, "kind", kind);
    pare_json_put_text(w, "cpu", pare_bench_cpu(cpu));
    pare_json_put_text(w, "cpu_level", pare_cpu_name(cli->cx.cpu));
    pare_json_put_integer(w, "threads", (int64_t)pare_threads(&cli->cx));
}

void pare_bench_print_head(const pare_cli *cli)
{
    char cpu[PARE_CPU_TEXT];
    const size_t threads = pare_threads(&cli->cx);
    (void)printf("pare " PARE_VERSION ", kernels of level %s, %zu thread%s, %s\n",
                 pare_cpu_name(cli->cx.cpu), threads, pare_plural(threads), pare_bench_cpu(cpu));
}

void pare_bench_put_limits(pare_json_writer *w, const char *key, const pare_bench_limits *l)
{
    pare_json_open_object(w, key);
    pare_json_put_finite(w, "dram_read_gb_s", l->dram_read_gb_s);
    pare_json_put_finite(w, "fma_gflop_s", l->fma_gflop_s);
    pare_json_put_finite(w, "int8_gop_s", l->int8_gop_s);
    pare_json_put_finite(w, "bf16_gflop_s", l->bf16_gflop_s);
    pare_json_put_finite(w, "int8_tiles_gop_s", l->int8_tiles_gop_s);
    pare_json_close(w);
}

static void put_row(pare_json_writer *w, const pare_bench_row *r)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "kernel", r->kernel);
    pare_json_put_integer(w, "group", (int64_t)r->group);
    pare_json_put_integer(w, "n", (int64_t)r->n);
    pare_json_put_integer(w, "k", (int64_t)r->k);
    pare_json_put_integer(w, "m", (int64_t)r->m);
    pare_json_put_integer(w, "threads", (int64_t)r->threads);
    pare_json_put_finite(w, "us", r->us);
    pare_json_put_finite(w, "gb_s", r->gb_s);
    pare_json_put_finite(w, "gop_s", r->gop_s);
    pare_json_put_finite(w, "share", r->share);
    pare_json_put_text(w, "bound", r->bound);
    pare_json_put_bool(w, "cached", r->cached);
    pare_json_put_finite(w, "sgemm_ratio", r->sgemm_ratio);
    if (isfinite(r->dense_ratio))
        pare_json_put_finite(w, "dense_ratio", r->dense_ratio);
    pare_json_close(w);
}

static void put_gptq(pare_json_writer *w, const pare_bench_gptq *g)
{
    pare_json_open_object(w, "gptq");
    pare_json_put_integer(w, "n", (int64_t)g->n);
    pare_json_put_integer(w, "k", (int64_t)g->k);
    pare_json_put_integer(w, "group", (int64_t)g->group);
    pare_json_put_integer(w, "threads", (int64_t)g->threads);
    pare_json_put_finite(w, "seconds", g->seconds);
    pare_json_put_finite(w, "baseline_seconds", g->baseline_seconds);
    pare_json_put_finite(w, "time_ratio", g->time_ratio);
    pare_json_close(w);
}

static pare_status print_json(pare_cli *cli, const pare_bench_result *r)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_bench_put_head(cli, w, "kernels");
    pare_bench_put_limits(w, "limits", &r->limits);
    pare_bench_put_limits(w, "limits_one_thread", &r->limits_one);
    pare_json_put_finite(w, "sgemm_gflop_s", r->sgemm_gflop_s);
    pare_json_put_text(w, "blas", r->blas);
    pare_json_open_array(w, "rows");
    for (size_t i = 0; i < r->rows; i++)
        put_row(w, &r->row[i]);
    pare_json_close(w);
    if (r->gptq.measured)
        put_gptq(w, &r->gptq);
    pare_json_close(w);
    return pare_cli_print(w);
}

static void print_row(const pare_bench_row *r)
{
    char group[24] = "-", ratio[24] = "-", dense[24] = "";
    if (r->group)
        (void)snprintf(group, sizeof group, "%zu", r->group);
    if (isfinite(r->sgemm_ratio))
        (void)snprintf(ratio, sizeof ratio, "%.2f", r->sgemm_ratio);
    if (isfinite(r->dense_ratio))
        (void)snprintf(dense, sizeof dense, "%11.2f", r->dense_ratio);
    (void)printf("%-12s %5s %6zu %6zu %5zu %7zu %11.2f %8.2f %9.1f %6.1f%% of %-4s%-8s %9s%s\n",
                 r->kernel, group, r->n, r->k, r->m, r->threads, r->us, r->gb_s, r->gop_s,
                 r->share * 100, r->bound, r->cached ? ", cached" : "", ratio, dense);
}

static void print_limits(const char *of, const pare_bench_limits *l)
{
    (void)printf("%-20s DRAM read %.1f GB/s, FMA %.1f GFLOP/s, int8 %.1f GOP/s", of,
                 l->dram_read_gb_s, l->fma_gflop_s, l->int8_gop_s);
    if (isfinite(l->bf16_gflop_s))
        (void)printf(", tiles: BF16 %.1f GFLOP/s, int8 %.1f GOP/s", l->bf16_gflop_s,
                     l->int8_tiles_gop_s);
    (void)printf("\n");
}

static void print_text(const pare_cli *cli, const pare_bench_result *r)
{
    pare_bench_print_head(cli);
    print_limits("limits measured now:", &r->limits);
    print_limits("of one thread:", &r->limits_one);
    if (isfinite(r->sgemm_gflop_s))
        (void)printf("sgemm, all cores:    %.1f GFLOP/s (%s)\n", r->sgemm_gflop_s, r->blas);
    (void)printf("\n%-12s %5s %6s %6s %5s %7s %11s %8s %9s %23s %9s%11s\n", "kernel", "group", "n",
                 "k", "m", "threads", "us", "GB/s", "GOP/s", "share of limit", "vs sgemm",
                 "time/dense");
    for (size_t i = 0; i < r->rows; i++)
        print_row(&r->row[i]);
    const pare_bench_gptq *const g = &r->gptq;
    if (!g->measured)
        return;
    (void)printf("\nGPTQ %zu x %zu, group %zu, %zu thread%s: %.2f s", g->n, g->k, g->group,
                 g->threads, pare_plural(g->threads), g->seconds);
    if (isfinite(g->time_ratio))
        (void)printf(", %.2f x the %.2f s of spotrf + spotri + spotrf + sgemm", g->time_ratio,
                     g->baseline_seconds);
    (void)printf("\n");
}

/* Options that only one form of the command understands. */
static const struct {
    const char *option, *form;
} belongs[] = {
    {"gptq", "kernels"},
    {"no-baseline", "kernels"},
    {"shape", "model"},
    {"weights", "model"},
    {"group", "model"},
    {"against", "model"},
    {"prompt", "model"},
    {"output", "model"},
    {"batch", "model"},
    {"runs", "model"},
    {"kv", "model"},
    {"kv-window", "model"},
    {"ram-limit", "model"},
    {"tolerance", "--compare"},
    {"device", "model"},
    {"device-limit", "model"},
    {"device-products", "model"},
};

static pare_status check_options(pare_cli *cli, const pare_args *args, const char *form)
{
    for (size_t i = 0; i < sizeof belongs / sizeof *belongs; i++)
        if (pare_args_given(args, belongs[i].option) && strcmp(belongs[i].form, form) != 0)
            return pare_fail(&cli->cx, PARE_EUSAGE, "bench: --%s is for \"pare bench %s\"",
                             belongs[i].option, belongs[i].form);
    return PARE_OK;
}

static pare_status run_kernels(pare_cli *cli, const pare_args *args)
{
    static pare_bench_result result; /* large */
    const pare_bench_opts opts = {.quick = pare_args_given(args, "quick"),
                                  .baseline = !pare_args_given(args, "no-baseline"),
                                  .gptq = pare_args_given(args, "gptq")};
    if (args->operands > 1)
        return pare_fail(&cli->cx, PARE_EUSAGE, "bench: \"%s\" is one word too many",
                         args->operand[1]);
    PARE_TRY(pare_cli_threads(cli));
    PARE_TRY(pare_bench_kernels(&cli->cx, &opts, &result));
    if (cli->json)
        return print_json(cli, &result);
    print_text(cli, &result);
    return PARE_OK;
}

pare_status pare_bench_run(pare_cli *cli, const pare_args *args)
{
    const char *const subject = args->operands ? args->operand[0] : "kernels";
    if (pare_args_given(args, "compare")) {
        PARE_TRY(check_options(cli, args, "--compare"));
        return pare_bench_compare_run(cli, args);
    }
    if (strcmp(subject, "model") == 0) {
        PARE_TRY(check_options(cli, args, "model"));
        return pare_bench_model_run(cli, args);
    }
    if (strcmp(subject, "kernels") != 0)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "bench: unknown subject \"%s\"; expected kernels or model", subject);
    PARE_TRY(check_options(cli, args, "kernels"));
    return run_kernels(cli, args);
}
