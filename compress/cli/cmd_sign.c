#include <stdio.h>

#include "compress/artifact/sign.h"
#include "compress/cli/cli.h"
#include "compress/output/inputs.h"

static pare_status print_json(const char *path, const pare_signed *r, pare_json_writer *w)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "model", path);
    pare_json_put_text(w, "signature", PARE_SIGNATURE_NAME);
    pare_json_put_integer(w, "files", (int64_t)r->files);
    pare_json_put_text(w, "key_sha256", r->id);
    pare_json_close(w);
    return pare_cli_print(w);
}

pare_status pare_sign_run(pare_cli *cli, const pare_args *args)
{
    const char *const path = args->operand[0], *const key = pare_args_text(args, "key");
    const pare_teller teller = {pare_cli_tell, cli};
    pare_signed r;
    if (!key)
        return pare_fail(&cli->cx, PARE_EUSAGE, "sign: --key is missing");
    PARE_TRY(pare_inputs_no_work(&cli->cx, &cli->arena, path));
    PARE_TRY(pare_cli_threads(cli));
    PARE_TRY(pare_sign_folder(&cli->cx, &cli->arena, path, key, &teller, &r));
    if (cli->json) {
        pare_json_writer *w;
        PARE_TRY(pare_json_writer_new(&cli->cx, &w));
        return print_json(path, &r, w);
    }
    (void)printf("signed    %zu file%s of %s, in " PARE_SIGNATURE_NAME "\n", r.files,
                 pare_plural(r.files), path);
    (void)printf("key       %s (SHA-256 of the public key)\n", r.id);
    return PARE_OK;
}
