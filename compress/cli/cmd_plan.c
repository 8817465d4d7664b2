#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/cli/job_options.h"
#include "compress/report/units.h"

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

static const char *pass_name(const pare_plan *p, const pare_plan_linear *l)
{
    return pare_passes[p->recipe.step[l->step].pass]->name;
}

static void print_linears(const pare_plan *p)
{
    char encoding[PARE_PACKED_TEXT];
    size_t width = 6, second = 8;
    for (size_t i = 0; i < p->linears; i++) {
        const pare_packed_linear *const l = &p->linear[i].packed;
        const size_t len = strlen(l->name), words = strlen(pare_packed_linear_text(l, encoding));
        width = len > width ? len : width;
        second = words > second ? words : second;
    }
    (void)printf("%-*s  %13s  %-11s  %-*s %12s\n", (int)width, "linear", "shape", "pass",
                 (int)second, "encoding", "bytes");
    for (size_t i = 0; i < p->linears; i++) {
        const pare_packed_linear *const l = &p->linear[i].packed;
        char shape[48];
        (void)snprintf(shape, sizeof shape, "%zu x %zu", l->n, l->k);
        (void)printf("%-*s  %13s  %-11s  %-*s %12llu\n", (int)width, l->name, shape,
                     pass_name(p, &p->linear[i]), (int)second, pare_packed_linear_text(l, encoding),
                     (unsigned long long)pare_packed_linear_bytes(l).total);
    }
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

static void print_cautions(const pare_plan *p)
{
    for (size_t i = 0; i < p->recipe.steps; i++) {
        const pare_pass *const pass = pare_passes[p->recipe.step[i].pass];
        if (pass->caution)
            (void)printf("%-17s %s\n", pass->name, pass->caution);
    }
}

static void print_text(const pare_plan *p, double seconds)
{
    char text[PARE_UNIT_TEXT], cache[PARE_KV_TEXT];
    print_linears(p);
    (void)printf("\n%-17s %s\n%-17s %s%s\n", "model", p->model_path, "output", p->output_path,
                 is_taken(p) ? "   (exists; compress will ask for --restart)" : "");
    (void)printf("%-17s %llu bytes (%s), exact: %u packed file%s and the index\n", "packed",
                 (unsigned long long)p->packed_bytes, pare_units_bytes(p->packed_bytes, text),
                 p->layout.shards, p->layout.shards == 1 ? "" : "s");
    print_bytes("other files", p->other_bytes, ", estimate");
    print_bytes("input", p->input_bytes, "");
    (void)printf("%-17s %.3f in the listed linears\n", "bits per weight", p->bits_per_weight);
    pare_kv_text(&p->model.config, &p->recipe.kv, cache);
    (void)printf("%-17s %s\n", "KV cache", cache);
    if (p->calibrated && p->samples)
        (void)printf("%-17s %zu windows of %zu tokens\n", "calibration", p->samples, p->window);
    else if (p->calibrated)
        (void)printf("%-17s all windows of %zu tokens\n", "calibration", p->window);
    if (p->samples || !p->calibrated)
        print_bytes("peak memory", p->peak_ram_bytes,
                    p->spill ? "; activations go to a file to stay within the limit" : "");
    else
        print_bytes("peak memory", p->fixed_ram_bytes, " and the activations of all windows");
    print_bytes("disk", p->disk_bytes, " while running");
    print_bytes("free disk", p->disk_free_bytes, "");
    (void)printf("%-17s about %s on this machine%s\n", "time", pare_units_seconds(seconds, text),
                 p->recipe.evaluations ? "; the evaluation comes on top" : "");
    print_cautions(p);
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
    pare_json_put_text(w, "pass", pass_name(p, l));
    pare_json_put_integer(w, "bits", (int64_t)l->packed.bits);
    pare_json_put_integer(w, "group", (int64_t)l->packed.group);
    pare_json_put_bool(w, "symmetric", l->packed.symmetric);
    pare_json_put_text(w, "encoding", pare_packed_linear_text(&l->packed, encoding));
    pare_json_put_integer(w, "bytes", (int64_t)pare_packed_linear_bytes(&l->packed).total);
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
    pare_json_put_integer(w, "other_bytes", (int64_t)p->other_bytes);
    pare_json_put_integer(w, "input_bytes", (int64_t)p->input_bytes);
    pare_json_put_finite(w, "bits_per_weight", p->bits_per_weight);
    pare_json_put_kv(w, &p->model.config, &p->recipe.kv);
    pare_json_put_integer(w, "samples", (int64_t)p->samples);
    pare_json_put_integer(w, "window", (int64_t)p->window);
    pare_json_put_bool(w, "spill", p->spill);
    pare_json_put_integer(w, "peak_ram_bytes", (int64_t)p->peak_ram_bytes);
    pare_json_put_integer(w, "disk_bytes", (int64_t)p->disk_bytes);
    pare_json_put_integer(w, "disk_free_bytes", (int64_t)p->disk_free_bytes);
    pare_json_put_finite(w, "seconds", seconds);
    pare_json_open_array(w, "linears");
    for (size_t i = 0; i < p->linears; i++)
        put_linear(w, p, &p->linear[i]);
    pare_json_close(w);
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
    PARE_TRY(pare_cli_threads(cli, args));
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
