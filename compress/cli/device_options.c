/* --device and the options that go with it: where a command runs its models. */
#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "recipes/pattern.h"
#include "runtime/cuda.h"

/* What --device auto does where a GPU cannot be used; options that are for a GPU are named. */
static void stay_on_cpu(pare_cli *cli)
{
    const char *const f16 = cli->device_f16 ? "--device-products f16" : "";
    const char *const limit = cli->device_limit ? "--device-limit" : "";
    pare_screen_say(&cli->screen, "pare: computing on the CPU%s%s%s%s: %s",
                    *f16 || *limit ? ", without " : "", f16, *f16 && *limit ? " and " : "", limit,
                    cli->cx.what);
    (void)snprintf(cli->device_fallback, sizeof cli->device_fallback, "%s", cli->cx.what);
    pare_ctx_clear(&cli->cx);
}

/* A device that cannot do what it was asked for: with `auto` the CPU does it; with `cuda` the
 * message says what else to give. */
static pare_status settle(pare_cli *cli, pare_status s)
{
    if (!pare_cuda_cannot(s))
        return s;
    if (!cli->device_or_cpu)
        return pare_fail_after(&cli->cx, s,
                               "give --device cpu, or --device auto, which takes the CPU where the "
                               "GPU cannot be used");
    stay_on_cpu(cli);
    return PARE_OK;
}

/* The number of the word that an option has; 0 without the option. */
static pare_status read_word(pare_cli *cli, const pare_args *args, const char *option,
                             const char *const *word, size_t count, size_t *out)
{
    char all[64] = "";
    const char *const text = pare_args_text(args, option);
    for (*out = 0; text && *out < count; ++*out)
        if (strcmp(text, word[*out]) == 0)
            return PARE_OK;
    *out = 0;
    if (!text)
        return PARE_OK;
    for (size_t i = 0, at = 0; i < count; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s",
                               i == 0          ? ""
                               : i + 1 < count ? ", "
                                               : " or ",
                               word[i]);
    const char *const near = pare_nearest_word(text, word, count);
    return pare_fail(&cli->cx, PARE_EUSAGE, "--%s \"%.64s\": expected %s%s%s%s", option, text, all,
                     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* What is of no use without a device. */
static pare_status refuse_options(pare_cli *cli, const pare_args *args)
{
    static const char *const needs[] = {"device-limit", "device-products"};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (pare_args_given(args, needs[i]))
            return pare_fail(&cli->cx, PARE_EUSAGE, "--%s is for --device cuda or auto", needs[i]);
    return PARE_OK;
}

pare_status pare_cli_device(pare_cli *cli, const pare_args *args)
{
    static const char *const devices[] = {"cpu", "cuda", "auto"}, *const products[] = {"exact",
                                                                                       "f16"};
    size_t device, f16;
    PARE_TRY(pare_args_bytes(&cli->cx, args, "device-limit", &cli->device_limit));
    PARE_TRY(read_word(cli, args, "device", devices, 3, &device));
    PARE_TRY(read_word(cli, args, "device-products", products, 2, &f16));
    cli->device_or_cpu = device == 2;
    cli->device_f16 = f16 == 1;
    if (device == 0)
        return refuse_options(cli, args);
    const pare_status s = pare_device_open_queued(&cli->cx, &cli->device);
    return settle(cli, s == PARE_OK || cli->device_or_cpu
                           ? s
                           : pare_fail_context(&cli->cx, s, "--device cuda"));
}

static pare_status go(pare_cli *cli, pare_loaded *l)
{
    PARE_TRY(
        pare_cuda_open(&cli->cx, cli->device, (size_t)cli->device_limit, &l->forward, &l->cuda));
    if (cli->device_f16)
        pare_cuda_use_f16(l->cuda);
    return PARE_OK;
}

pare_status pare_loaded_device(pare_cli *cli, pare_loaded *l)
{
    return cli->device ? settle(cli, go(cli, l)) : PARE_OK;
}

static pare_status go_to_evaluate(pare_cli *cli, pare_loaded *l, pare_loaded *baseline,
                                  const pare_eval_opts *opts, size_t count)
{
    size_t bytes = 0;
    if (count)
        PARE_TRY(pare_evaluate_device_bytes(&cli->cx, cli->device, &l->forward,
                                            baseline ? &baseline->forward : NULL, cli->device_f16,
                                            opts, count, &bytes));
    PARE_TRY(pare_cuda_room(&cli->cx, cli->device, (size_t)cli->device_limit,
                            "weights, activations and caches", bytes));
    PARE_TRY(go(cli, l));
    return baseline ? go(cli, baseline) : PARE_OK;
}

pare_status pare_loaded_evaluate_on_device(pare_cli *cli, pare_loaded *l, pare_loaded *baseline,
                                           const pare_eval_opts *opts, size_t count)
{
    const pare_status s = cli->device ? go_to_evaluate(cli, l, baseline, opts, count) : PARE_OK;
    return cli->device_or_cpu && pare_loaded_leave_device(cli, s, l, baseline) ? PARE_OK
                                                                               : settle(cli, s);
}

bool pare_loaded_leave_device(pare_cli *cli, pare_status s, pare_loaded *l, pare_loaded *other)
{
    pare_loaded *const both[] = {l, other};
    bool was_there = false;
    if (!pare_cuda_cannot(s))
        return false;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        if (!both[i] || !both[i]->cuda)
            continue;
        was_there = true;
        if (!cli->device_or_cpu)
            continue;
        pare_cuda_close(both[i]->cuda);
        both[i]->cuda = NULL;
    }
    return was_there && settle(cli, s) == PARE_OK;
}

void pare_cli_device_close(pare_cli *cli)
{
    if (cli->device)
        cli->device->op->close(&cli->cx, cli->device);
    cli->device = NULL;
}

pare_ran_on pare_loaded_ran_on(const pare_cli *cli, const pare_loaded *l)
{
    if (!l->cuda)
        return (pare_ran_on){.fallback = *cli->device_fallback ? cli->device_fallback : NULL};
    return (pare_ran_on){.device = cli->device->name,
                         .model_bytes = pare_cuda_model_bytes(l->cuda),
                         .peak_bytes = pare_cuda_peak_bytes(l->cuda),
                         .f16 = cli->device_f16};
}
