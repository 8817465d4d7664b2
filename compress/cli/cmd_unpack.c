#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/storage/pack.h"
#include "compress/text/units.h"

static uint64_t stored_bytes(const pare_archive_file *f)
{
    uint64_t stored = 0;
    for (size_t i = 0; i < f->frames; i++)
        stored += f->frame[i].stored;
    return stored;
}

static pare_status print_json(const char *path, const char *state, const char *output,
                              const pare_archive *x, pare_json_writer *w)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "archive", path);
    pare_json_put_text(w, "state", state);
    if (output)
        pare_json_put_text(w, "output", output);
    pare_json_put_text(w, "program", x->program);
    pare_json_put_text(w, "zstd", x->zstd);
    pare_json_put_integer(w, "level", x->level);
    pare_json_put_integer(w, "bytes", (int64_t)x->bytes);
    pare_json_put_integer(w, "stored_bytes", (int64_t)x->stored);
    pare_json_put_bool(w, "needs_base", x->based);
    pare_json_open_array(w, "files");
    for (size_t i = 0; i < x->files; i++) {
        const pare_archive_file *const f = &x->file[i];
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "name", f->name);
        pare_json_put_integer(w, "bytes", (int64_t)f->bytes);
        pare_json_put_integer(w, "stored_bytes", (int64_t)stored_bytes(f));
        pare_json_put_text(w, "sha256", f->sha256);
        if (f->based)
            pare_json_put_text(w, "base_sha256", f->base_sha256);
        pare_json_close(w);
    }
    pare_json_close(w);
    pare_json_close(w);
    return pare_cli_print(w);
}

static pare_status print_list(pare_cli *cli, const pare_archive *x)
{
    char bytes[PARE_UNIT_TEXT], stored[PARE_UNIT_TEXT];
    (void)printf("%12s %12s %7s %6s  %s\n", "bytes", "stored", "ratio", "frames", "file");
    for (size_t i = 0; i < x->files; i++) {
        const pare_archive_file *const f = &x->file[i];
        const uint64_t n = stored_bytes(f);
        char *const name = pare_arena_text(&cli->arena, f->name, strlen(f->name));
        if (!name)
            return PARE_ENOMEM;
        (void)printf("%12llu %12llu %7.3f %6zu  %s%s\n", (unsigned long long)f->bytes,
                     (unsigned long long)n, n ? (double)f->bytes / (double)n : 1.0, f->frames,
                     pare_text_printable(name), f->based ? " (from a base)" : "");
    }
    (void)printf("\n%zu file%s, %s in %s; pare %s, zstd %s, level %d\n", x->files,
                 pare_plural(x->files), pare_units_bytes(x->bytes, bytes),
                 pare_units_bytes(x->stored, stored), x->program, x->zstd, x->level);
    return PARE_OK;
}

static void print_text(const char *path, const char *output, const pare_archive *x)
{
    char bytes[PARE_UNIT_TEXT];
    if (output)
        (void)printf("output    %s\n", output);
    (void)printf("files     %zu, %s\n", x->files, pare_units_bytes(x->bytes, bytes));
    (void)printf("checked   every file has the SHA-256 that %s says\n", path);
}

static pare_status print(pare_cli *cli, const char *path, const char *state, const char *output,
                         const pare_archive *x)
{
    if (cli->json) {
        pare_json_writer *w;
        PARE_TRY(pare_json_writer_new(&cli->cx, &w));
        return print_json(path, state, output, x, w);
    }
    if (strcmp(state, "listed") == 0)
        return print_list(cli, x);
    print_text(path, output, x);
    return PARE_OK;
}

pare_status pare_unpack_run(pare_cli *cli, const pare_args *args)
{
    const bool list = pare_args_given(args, "list"), check = pare_args_given(args, "check");
    const pare_unpack_opts opts = {.path = args->operand[0],
                                   .output = pare_args_text(args, "output"),
                                   .base = pare_args_text(args, "base"),
                                   .check = check,
                                   .teller = {pare_cli_tell, cli}};
    pare_unpack_result r;
    if ((list && (check || opts.base)) || ((list || check) && opts.output))
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "unpack: give one of --list, --check and --output; --base to the latter "
                         "two");
    if (list) {
        PARE_TRY(pare_unpack_list(&cli->cx, &cli->arena, opts.path, &r.archive));
        return print(cli, opts.path, "listed", NULL, &r.archive);
    }
    PARE_TRY(pare_cli_threads(cli));
    PARE_TRY(pare_unpack(&cli->cx, &cli->arena, &opts, &r));
    return print(cli, opts.path, check ? "checked" : "unpacked", r.output, &r.archive);
}
