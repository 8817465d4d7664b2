#include "compress/cli/stats_print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/artifact/diff_stats.h"
#include "compress/text/units.h"
#include "runtime/file.h"

static const char *const side_key[2] = {"a", "b"};
static const char *const measure_key[2] = {"hessian", "channels"};

static void put_about(pare_json_writer *w, const char *key, const pare_stats_about *about)
{
    pare_json_open_object(w, key);
    pare_json_put_text(w, "program", about->program);
    pare_json_open_array(w, "model");
    for (size_t i = 0; i < about->files; i++)
        pare_json_put_text(w, NULL, about->file[i]);
    pare_json_close(w);
    pare_json_put_text(w, "family", about->family);
    pare_json_put_integer(w, "blocks", (int64_t)about->blocks);
    pare_json_put_integer(w, "hidden", (int64_t)about->hidden);
    pare_json_put_integer(w, "experts", (int64_t)about->experts);
    pare_json_put_integer(w, "samples", (int64_t)about->samples);
    pare_json_put_integer(w, "window", (int64_t)about->window);
    pare_json_put_integer(w, "held_out", (int64_t)about->held_out);
    pare_json_put_integer(w, "new_tokens", (int64_t)about->fresh);
    pare_json_put_text(w, "tokens_sha256", about->tokens_sha256);
    pare_json_put_text(w, "seed", about->seed);
    pare_json_put_text(w, "precision", about->precision);
    pare_json_put_text(w, "token_weights", about->token_weights);
    if (about->experts) {
        pare_json_put_integer(w, "min_tokens", (int64_t)about->min_tokens);
        pare_json_put_text(w, "cold", about->cold);
    }
    pare_json_close(w);
}

/* A copy of a text out of a file that a terminal may have. */
static pare_status show(pare_arena *a, const char **text)
{
    char *const own = pare_arena_text(a, *text, strlen(*text));
    if (!own)
        return PARE_ENOMEM;
    *text = pare_text_printable(own);
    return PARE_OK;
}

static pare_status make_printable(pare_arena *a, pare_stats_about *about)
{
    const char **const text[] = {&about->program, &about->family,    &about->tokens_sha256,
                                 &about->seed,    &about->precision, &about->token_weights,
                                 &about->cold};
    const char **const file = PARE_NEW(a, const char *, about->files);
    if (!file)
        return PARE_ENOMEM;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        PARE_TRY(show(a, text[i]));
    for (size_t i = 0; i < about->files; i++) {
        file[i] = about->file[i];
        PARE_TRY(show(a, &file[i]));
    }
    about->file = file;
    return PARE_OK;
}

static void print_about(const pare_stats_about *about)
{
    (void)printf("statistics        of %s with %zu block%s, width %zu", about->family,
                 about->blocks, pare_plural(about->blocks), about->hidden);
    if (about->experts)
        (void)printf(", %zu experts", about->experts);
    (void)printf(", kept by %s\n", about->program);
    for (size_t i = 0; i < about->files; i++)
        (void)printf("%-17s %s\n", i ? "" : "model", about->file[i]);
    (void)printf("calibration       %zu window%s of %zu tokens, sha256 %s\n", about->samples,
                 pare_plural(about->samples), about->window, about->tokens_sha256);
    if (about->held_out)
        (void)printf("held out          %zu window%s\n", about->held_out,
                     pare_plural(about->held_out));
    (void)printf("settings          seed %s, precision %s, token_weights %s\n", about->seed,
                 about->precision, about->token_weights);
    if (about->experts)
        (void)printf("experts           below %zu tokens: %s\n", about->min_tokens, about->cold);
}

static const char *name_of(const pare_stats_drift *r, char text[64])
{
    if (r->part)
        (void)snprintf(text, 64, "block %zu expert %zu %s", r->block, r->part - 1, r->site);
    else
        (void)snprintf(text, 64, "block %zu %s", r->block, r->site);
    return text;
}

static void put_row(pare_json_writer *w, const char *key, const pare_stats_drift *r)
{
    pare_json_open_object(w, key);
    pare_json_put_integer(w, "block", (int64_t)r->block);
    if (r->part)
        pare_json_put_integer(w, "expert", (int64_t)r->part - 1);
    pare_json_put_text(w, "site", r->site);
    pare_json_open_object(w, "tokens");
    for (size_t i = 0; i < 2; i++)
        pare_json_put_integer(w, side_key[i], (int64_t)r->tokens[i]);
    pare_json_close(w);
    pare_json_put_finite(w, measure_key[0], r->hessian);
    pare_json_put_finite(w, measure_key[1], r->channels);
    pare_json_close(w);
}

static void put_diff(pare_json_writer *w, const pare_stats_diff *d)
{
    for (size_t i = 0; i < 2; i++)
        put_about(w, side_key[i], &d->of[i]);
    pare_json_open_object(w, "median");
    for (size_t i = 0; i < 2; i++)
        pare_json_put_finite(w, measure_key[i], d->median[i]);
    pare_json_close(w);
    pare_json_open_object(w, "worst");
    for (size_t i = 0; i < 2; i++)
        if (d->worst[i])
            put_row(w, measure_key[i], d->worst[i]);
    pare_json_close(w);
    pare_json_open_array(w, "sites");
    for (size_t i = 0; i < d->rows; i++)
        put_row(w, NULL, &d->row[i]);
    pare_json_close(w);
}

static void print_diff(const char *const path[2], const pare_stats_diff *d)
{
    char text[64];
    for (size_t i = 0; i < 2; i++) {
        (void)printf("%s%s  %s\n", i ? "\n" : "", side_key[i], path[i]);
        print_about(&d->of[i]);
    }
    (void)printf("\n%-36s %12s %12s %12s %12s\n", "inputs", "hessian", "channels", "tokens of a",
                 "tokens of b");
    for (size_t i = 0; i < d->rows; i++) {
        const pare_stats_drift *const r = &d->row[i];
        (void)printf("%-36s %12.4g %12.4g %12llu %12llu\n", name_of(r, text), r->hessian,
                     r->channels, (unsigned long long)r->tokens[0],
                     (unsigned long long)r->tokens[1]);
    }
    (void)printf("%-36s %12.4g %12.4g\n", "median", d->median[0], d->median[1]);
    for (size_t i = 0; i < 2; i++)
        if (d->worst[i])
            (void)printf("%-17s %.4g, %s\n", i ? "worst channels" : "worst hessian",
                         i ? d->worst[i]->channels : d->worst[i]->hessian,
                         name_of(d->worst[i], text));
}

pare_status pare__stats_diff(pare_cli *cli, const char *first, const char *second)
{
    const char *const path[2] = {first, second};
    pare_stats_diff d;
    pare_json_writer *w;
    PARE_TRY(pare_diff_stats(&cli->cx, &cli->arena, first, second, &d));
    for (size_t i = 0; !cli->json && i < 2; i++)
        PARE_TRY(make_printable(&cli->arena, &d.of[i]));
    if (!cli->json) {
        print_diff(path, &d);
        return PARE_OK;
    }
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    put_diff(w, &d);
    pare_json_close(w);
    return pare_cli_print(w);
}

pare_status pare__stats_inspect(pare_cli *cli, const char *path)
{
    pare_stats_about about;
    char size[PARE_UNIT_TEXT];
    uint64_t bytes = 0;
    pare_json_writer *w;
    PARE_TRY(pare_stats_file_about(&cli->cx, &cli->arena, path, &about));
    (void)pare_path_bytes(path, &bytes);
    if (!cli->json) {
        PARE_TRY(make_printable(&cli->arena, &about));
        (void)printf("%s\n", path);
        print_about(&about);
        (void)printf("file              %s\n", pare_units_bytes(bytes, size));
        return PARE_OK;
    }
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "file", path);
    pare_json_put_integer(w, "file_bytes", (int64_t)bytes);
    put_about(w, "statistics", &about);
    pare_json_close(w);
    return pare_cli_print(w);
}
