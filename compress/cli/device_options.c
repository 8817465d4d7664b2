/* --device and --device-limit: where a command runs its models. */
#include <string.h>

#include "compress/cli/cli.h"
#include "recipes/pattern.h"
#include "runtime/cuda.h"

/* What --device auto does where a GPU cannot be used. */
static void stay_on_cpu(pare_cli *cli)
{
    pare_screen_say(&cli->screen, "pare: computing on the CPU: %s", cli->cx.what);
    pare_ctx_clear(&cli->cx);
}

pare_status pare_cli_device(pare_cli *cli, const pare_args *args)
{
    static const char *const words[] = {"cpu", "cuda", "auto"};
    const char *const name = pare_args_text(args, "device");
    PARE_TRY(pare_args_bytes(&cli->cx, args, "device-limit", &cli->device_limit));
    if (!name || strcmp(name, "cpu") == 0)
        return cli->device_limit
                   ? pare_fail(&cli->cx, PARE_EUSAGE, "--device-limit is for --device cuda or auto")
                   : PARE_OK;
    cli->device_or_cpu = strcmp(name, "auto") == 0;
    if (strcmp(name, "cuda") != 0 && !cli->device_or_cpu) {
        const char *const near = pare_nearest_word(name, words, sizeof words / sizeof *words);
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "--device \"%.64s\": expected cpu, cuda or auto%s%s%s", name,
                         near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    const pare_status s = pare_device_open(&cli->cx, &cli->device);
    if (s == PARE_OK || !cli->device_or_cpu)
        return s == PARE_OK ? s : pare_fail_context(&cli->cx, s, "--device cuda");
    stay_on_cpu(cli);
    return PARE_OK;
}

pare_status pare_loaded_device(pare_cli *cli, pare_loaded *l)
{
    if (!cli->device)
        return PARE_OK;
    const pare_status s =
        pare_cuda_open(&cli->cx, cli->device, (size_t)cli->device_limit, &l->forward, &l->cuda);
    if (!cli->device_or_cpu || !pare_cuda_cannot(s))
        return s;
    stay_on_cpu(cli);
    return PARE_OK;
}

bool pare_loaded_leave_device(pare_cli *cli, pare_status s, pare_loaded *l, pare_loaded *other)
{
    pare_loaded *const both[] = {l, other};
    bool was_there = false;
    if (!cli->device_or_cpu || !pare_cuda_cannot(s))
        return false;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        if (!both[i] || !both[i]->cuda)
            continue;
        pare_cuda_close(both[i]->cuda);
        both[i]->cuda = NULL;
        was_there = true;
    }
    if (!was_there)
        return false;
    stay_on_cpu(cli);
    return true;
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
        return (pare_ran_on){0};
    return (pare_ran_on){cli->device->name, pare_cuda_model_bytes(l->cuda),
                         pare_cuda_peak_bytes(l->cuda)};
}
