#include <stdio.h>

#include "compress/artifact/sign.h"
#include "compress/artifact/verify.h"
#include "compress/cli/cli.h"
#include "compress/output/inputs.h"
#include "compress/text/units.h"

enum { FINDINGS_SHOWN = 100 };

typedef struct findings {
    pare_cli *cli;
    pare_json_writer *json; /* NULL: text on stdout */
    size_t count;
    const char *key;    /* --key */
    pare_signed signer; /* with it */
} findings;

static void found(void *self, const char *what)
{
    findings *const f = self;
    if (f->count++ >= FINDINGS_SHOWN)
        return;
    pare_screen_wipe(&f->cli->screen);
    if (f->json)
        pare_json_put_text(f->json, NULL, what);
    else
        (void)printf("%s\n", what);
}

/* All that verify looks at; with --key the signature first. */
static pare_status verify(findings *f, const char *path, pare_verify_result *r)
{
    const char *why = NULL;
    if (f->key)
        PARE_TRY(pare_sign_check(&f->cli->cx, &f->cli->arena, path, f->key, &why, &f->signer));
    if (why)
        found(f, why);
    PARE_TRY(pare_verify(&f->cli->cx, path, found, f, r));
    r->findings += why != NULL;
    return PARE_OK;
}

static pare_status verify_json(pare_cli *cli, const char *path, const char *key,
                               pare_verify_result *r)
{
    findings f = {.cli = cli, .key = key};
    PARE_TRY(pare_json_writer_new(&cli->cx, &f.json));
    pare_json_open_object(f.json, NULL);
    pare_json_put_text(f.json, "model", path);
    pare_json_open_array(f.json, "findings");
    const pare_status s = verify(&f, path, r);
    if (s != PARE_OK) {
        pare_json_writer_free(f.json);
        return s;
    }
    pare_json_close(f.json);
    pare_json_put_integer(f.json, "finding_count", (int64_t)r->findings);
    pare_json_put_integer(f.json, "files", (int64_t)r->files);
    pare_json_put_integer(f.json, "tensors", (int64_t)r->tensors);
    pare_json_put_integer(f.json, "bytes", (int64_t)r->bytes);
    pare_json_put_bool(f.json, "checked", r->checked);
    pare_json_put_bool(f.json, "tokenizer", r->tokenizer);
    if (key)
        pare_json_put_text(f.json, "key_sha256", f.signer.id);
    pare_json_put_bool(f.json, "ok", r->findings == 0);
    pare_json_close(f.json);
    return pare_cli_print(f.json);
}

/* What was checked, and the end of it. Weights that cannot be opened leave nothing to count. */
static void print_checked(const char *path, const pare_verify_result *r, const char *end)
{
    char bytes[PARE_UNIT_TEXT];
    if (!r->files)
        (void)printf("%s: nothing else could be checked\n", path);
    else if (!r->tensors && r->findings && !r->importance)
        (void)printf("%s: %zu file%s, %s: %s; no weights could be opened, so no tensor was "
                     "checked\n",
                     path, r->files, pare_plural(r->files), pare_units_bytes(r->bytes, bytes), end);
    else
        (void)printf("%s: %zu file%s, %zu tensor%s, %s: %s\n", path, r->files,
                     pare_plural(r->files), r->tensors, pare_plural(r->tensors),
                     pare_units_bytes(r->bytes, bytes), end);
}

static pare_status verify_text(pare_cli *cli, const char *path, const char *key,
                               pare_verify_result *r)
{
    findings f = {.cli = cli, .key = key};
    PARE_TRY(verify(&f, path, r));
    if (f.count > FINDINGS_SHOWN)
        (void)printf("... and %zu more\n", f.count - FINDINGS_SHOWN);
    print_checked(path, r, !r->findings ? "all good" : key ? "not what the key signed" : "damaged");
    if (key && !r->findings)
        (void)printf("signed    by the key with SHA-256 %s\n", f.signer.id);
    if (r->statistics)
        (void)printf("note  statistics of a calibration, held against what a job that takes them "
                     "asks for\n");
    if (r->importance)
        (void)printf("note  an importance matrix of llama.cpp: it has no checksums; every count "
                     "and sum was looked at\n");
    if (r->importance)
        return PARE_OK;
    if (r->tensors && !r->checked && !r->statistics)
        (void)printf("note  there are no checksums: structure was looked at, and that values are "
                     "finite\n");
    if (r->tensors && !r->tokenizer && !r->adapter && !r->statistics)
        (void)printf(
            "note  there is no tokenizer that pare reads: texts need one, tokens do not\n");
    return PARE_OK;
}

pare_status pare_verify_run(pare_cli *cli, const pare_args *args)
{
    const char *const path = args->operand[0];
    pare_verify_result r;
    pare_phase phase[] = {{.name = "hashing", .amount = 1, .steps = 1},
                          {.name = "hashing tensors", .amount = 0.2, .steps = 1},
                          {.name = "looking for NaN", .amount = 1, .steps = 1}};
    PARE_TRY(pare_inputs_no_work(&cli->cx, &cli->arena, path));
    PARE_TRY(pare_cli_threads(cli));
    pare_ctx_job(&cli->cx, phase, sizeof phase / sizeof *phase, 0);
    const pare_status s =
        (cli->json ? verify_json : verify_text)(cli, path, pare_args_text(args, "key"), &r);
    pare_ctx_job(&cli->cx, NULL, 0, 0);
    PARE_TRY(s);
    if (r.findings)
        return pare_fail(&cli->cx, PARE_EFORMAT, "%s: %zu finding%s", path, r.findings,
                         pare_plural(r.findings));
    return PARE_OK;
}
