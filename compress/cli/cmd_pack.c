#include <stdio.h>

#include "compress/cli/cli.h"
#include "compress/output/inputs.h"
#include "compress/storage/pack.h"
#include "compress/text/units.h"
#include "formats/archive_stretch.h"

enum { LEVEL = 3 };

/* 0 of nothing. */
static double ratio(uint64_t bytes, uint64_t stored)
{
    return stored ? (double)bytes / (double)stored : 0;
}

static pare_status print_json(const pare_pack_opts *opts, const pare_pack_result *r,
                              pare_json_writer *w)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "input", opts->path);
    pare_json_put_text(w, "output", r->output);
    if (opts->base)
        pare_json_put_text(w, "base", opts->base);
    pare_json_put_integer(w, "files", (int64_t)r->files);
    pare_json_put_integer(w, "bytes", (int64_t)r->bytes);
    pare_json_put_integer(w, "stored_bytes", (int64_t)r->stored);
    pare_json_put_number(w, "ratio", ratio(r->bytes, r->stored));
    pare_json_put_integer(w, "base_bytes", (int64_t)r->base_bytes);
    pare_json_put_integer(w, "level", opts->level);
    pare_json_put_text(w, "zstd", pare_stretch_library());
    pare_json_open_object(w, "frames");
    for (int i = 0; i < PARE_FORMS; i++)
        pare_json_put_integer(w, pare_archive_form_word((pare_archive_form)i), (int64_t)r->form[i]);
    pare_json_close(w);
    pare_json_close(w);
    return pare_cli_print(w);
}

static void print_text(const pare_pack_opts *opts, const pare_pack_result *r)
{
    char bytes[PARE_UNIT_TEXT], stored[PARE_UNIT_TEXT], base[PARE_UNIT_TEXT];
    (void)printf("output    %s\n", r->output);
    (void)printf("files     %zu, %s in %s: ratio %.3f\n", r->files,
                 pare_units_bytes(r->bytes, bytes), pare_units_bytes(r->stored, stored),
                 ratio(r->bytes, r->stored));
    (void)printf("frames    %zu", r->frames);
    for (int i = 0; i < PARE_FORMS; i++)
        if (r->form[i])
            (void)printf(", %zu %s", r->form[i], pare_archive_form_word((pare_archive_form)i));
    (void)printf("\n");
    if (opts->base && r->base_bytes)
        (void)printf("base      %s: %s that unpacking needs, too\n", opts->base,
                     pare_units_bytes(r->base_bytes, base));
    else if (opts->base)
        (void)printf("base      %s: nothing of it was of use, and nothing is needed\n", opts->base);
    (void)printf("checked   every frame was decoded again and compared\n");
}

pare_status pare_pack_run(pare_cli *cli, const pare_args *args)
{
    uint64_t level = LEVEL;
    pare_pack_result r;
    pare_pack_opts opts = {.path = args->operand[0],
                           .output = pare_args_text(args, "output"),
                           .base = pare_args_text(args, "base"),
                           .replace = pare_args_given(args, "restart"),
                           .teller = {pare_cli_tell, cli}};
    PARE_TRY(pare_args_count(&cli->cx, args, "level", 1, PARE_STRETCH_LEVEL_MOST, &level));
    opts.level = (int)level;
    PARE_TRY(pare_inputs_no_work(&cli->cx, &cli->arena, opts.path));
    PARE_TRY(pare_cli_threads(cli));
    PARE_TRY(pare_pack(&cli->cx, &cli->arena, &opts, &r));
    if (!cli->json) {
        print_text(&opts, &r);
        return PARE_OK;
    }
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    return print_json(&opts, &r, w);
}
