#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calib/stats_file.h"
#include "compress/artifact/diff.h"
#include "compress/cli/cli.h"
#include "compress/cli/stats_print.h"
#include "compress/output/inputs.h"
#include "compress/text/units.h"

static const char *const side_key[2] = {"a", "b"};

static void put_pair(pare_json_writer *w, const char *key, const double x[2])
{
    if (isnan(x[0]) && isnan(x[1]))
        return;
    pare_json_open_object(w, key);
    for (size_t i = 0; i < 2; i++)
        pare_json_put_finite(w, side_key[i], x[i]);
    pare_json_close(w);
}

static void put_row(pare_json_writer *w, const pare_diff_row *r)
{
    const pare_inspect_row *const of[2] = {r->a, r->b};
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "name", r->name);
    pare_json_put_text(w, "difference", pare_diff_kind_word(r->kind));
    for (size_t i = 0; i < 2; i++) {
        if (!of[i])
            continue;
        pare_json_open_object(w, side_key[i]);
        pare_json_put_text(w, "encoding", of[i]->encoding);
        pare_json_open_array(w, "shape");
        for (uint32_t d = 0; d < of[i]->rank; d++)
            pare_json_put_integer(w, NULL, (int64_t)of[i]->shape[d]);
        pare_json_close(w);
        pare_json_put_integer(w, "bytes", (int64_t)of[i]->bytes);
        pare_json_close(w);
    }
    if (!isnan(r->codes))
        pare_json_put_number(w, "codes_differing", r->codes);
    if (!isnan(r->weights))
        pare_json_put_number(w, "weights_differing", r->weights);
    if (!isnan(r->error))
        pare_json_put_finite(w, "relative_error", r->error);
    put_pair(w, "weight_error", r->weight_error);
    put_pair(w, "output_error", r->output_error);
    pare_json_close(w);
}

static void put_figures(pare_json_writer *w, const pare_diff *d, bool settings)
{
    pare_json_open_array(w, settings ? "evaluation_settings" : "quality");
    for (size_t i = 0; i < d->figures; i++) {
        if (d->figure[i].setting != settings)
            continue;
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "figure", d->figure[i].name);
        for (size_t k = 0; k < 2; k++)
            pare_json_put_finite(w, side_key[k], d->figure[i].value[k]);
        pare_json_close(w);
    }
    pare_json_close(w);
}

/* Where both have a manifest. */
static void put_recipes(pare_json_writer *w, const pare_diff *d)
{
    for (size_t i = 0; i < 2; i++) {
        pare_json_open_array(w, i ? "recipe_only_b" : "recipe_only_a");
        for (size_t k = 0; k < d->lines; k++)
            if (d->line[k].of_b == (i == 1))
                pare_json_put_text(w, NULL, d->line[k].text);
        pare_json_close(w);
    }
    pare_json_open_array(w, "sources_differing");
    for (size_t i = 0; i < PARE_DIFF_SOURCES; i++)
        if (d->source[i])
            pare_json_put_text(w, NULL, pare_diff_source_word((pare_diff_source)i));
    pare_json_close(w);
}

static pare_status print_json(const pare_diff *d, pare_json_writer *w)
{
    pare_json_open_object(w, NULL);
    for (size_t i = 0; i < 2; i++)
        pare_json_put_text(w, side_key[i], d->path[i]);
    pare_json_put_bool(w, "same", d->same);
    pare_json_open_object(w, "tensors");
    for (int k = 0; k < PARE_DIFF_KINDS; k++)
        pare_json_put_integer(w, pare_diff_kind_word((pare_diff_kind)k), (int64_t)d->count[k]);
    pare_json_close(w);
    if (d->recipes)
        put_recipes(w, d);
    pare_json_open_array(w, "differing");
    for (size_t i = 0; i < d->rows; i++)
        if (d->row[i].kind != PARE_DIFF_SAME)
            put_row(w, &d->row[i]);
    pare_json_close(w);
    put_figures(w, d, false);
    put_figures(w, d, true);
    pare_json_close(w);
    return pare_cli_print(w);
}

static const char *number(double x, char text[32])
{
    (void)snprintf(text, 32, isnan(x) ? "-" : "%.4g", x);
    return text;
}

static const char *share(double x, char text[32])
{
    (void)snprintf(text, 32, isnan(x) ? "-" : "%.3f%%", 100 * x);
    return text;
}

static void print_row(const pare_diff_row *r)
{
    char codes[32], weights[32], error[32], was[32], is[32];
    (void)printf("%-48s %8s %8s %10s %10s %10s  ", r->name, share(r->codes, codes),
                 share(r->weights, weights), number(r->error, error),
                 number(r->weight_error[0], was), number(r->weight_error[1], is));
    if (r->kind == PARE_DIFF_SHAPE)
        (void)printf("another shape\n");
    else if (r->a && r->b && strcmp(r->a->encoding, r->b->encoding) == 0)
        (void)printf("%s\n", r->a->encoding);
    else
        (void)printf("%s -> %s\n", r->a ? r->a->encoding : "absent",
                     r->b ? r->b->encoding : "absent");
}

static void print_figures(const pare_diff *d, bool settings)
{
    bool head = false;
    for (size_t i = 0; i < d->figures; i++) {
        const double *const x = d->figure[i].value;
        char was[32], is[32];
        if (d->figure[i].setting != settings || memcmp(&x[0], &x[1], sizeof x[0]) == 0)
            continue;
        if (!head)
            (void)printf("\n%-60s %12s %12s\n", settings ? "evaluated with" : "quality", "a", "b");
        head = true;
        (void)printf("%-60s %12s %12s\n", d->figure[i].name, number(x[0], was), number(x[1], is));
    }
}

static void print_recipes(const pare_diff *d)
{
    static const char *const text[PARE_DIFF_SOURCES] = {"the models that they were made of differ",
                                                        "the teachers differ",
                                                        "the calibration data differ",
                                                        "the windows held out differ",
                                                        "the training data differ",
                                                        "the evaluation data differ"};
    if (d->recipes && !d->lines)
        (void)printf("\nthe recipes are the same\n");
    else if (d->recipes)
        (void)printf("\nlines of the recipe that only a (-) or b (+) has\n");
    for (size_t i = 0; i < d->lines; i++)
        (void)printf("%c %s\n", d->line[i].of_b ? '+' : '-', d->line[i].text);
    for (size_t i = 0; i < PARE_DIFF_SOURCES; i++)
        if (d->source[i])
            (void)printf("%s\n", text[i]);
}

static void print_text(const pare_diff *d)
{
    (void)printf("a  %s\nb  %s\n", d->path[0], d->path[1]);
    print_recipes(d);
    (void)printf(
        "\ntensors %zu the same, %zu only in a, %zu only in b, %zu with another shape, %zu "
        "stored\nin another way, %zu with other values; a packed linear counts as one tensor\n",
        d->count[PARE_DIFF_SAME], d->count[PARE_DIFF_ONLY_A], d->count[PARE_DIFF_ONLY_B],
        d->count[PARE_DIFF_SHAPE], d->count[PARE_DIFF_ENCODING], d->count[PARE_DIFF_VALUES]);
    if (d->count[PARE_DIFF_SAME] < d->rows)
        (void)printf("\n%-48s %8s %8s %10s %10s %10s  %s\n", "tensor", "codes", "weights",
                     "difference", "error (a)", "error (b)", "stored");
    for (size_t i = 0; i < d->rows; i++)
        if (d->row[i].kind != PARE_DIFF_SAME)
            print_row(&d->row[i]);
    print_figures(d, false);
    print_figures(d, true);
    const char *verdict = "the models differ";
    if (d->same)
        verdict = "the models are the same";
    else if (d->count[PARE_DIFF_SAME] == d->rows)
        verdict = "the tensors are the same, the recipes differ";
    (void)printf("\n%s\n", verdict);
}

pare_status pare_diff_run(pare_cli *cli, const pare_args *args)
{
    pare_diff d;
    for (size_t i = 0; i < 2; i++)
        PARE_TRY(pare_inputs_no_work(&cli->cx, &cli->arena, args->operand[i]));
    PARE_TRY(pare_cli_threads(cli));
    bool kept[2];
    for (size_t i = 0; i < 2; i++)
        PARE_TRY(pare_stats_file_is_one(&cli->cx, &cli->arena, args->operand[i], &kept[i]));
    if (kept[0] && kept[1])
        return pare__stats_diff(cli, args->operand[0], args->operand[1]);
    if (kept[0] || kept[1])
        return pare_fail(&cli->cx, PARE_EUSAGE, "%s holds statistics and %s does not: both or none",
                         args->operand[kept[0] ? 0 : 1], args->operand[kept[0] ? 1 : 0]);
    PARE_TRY(pare_diff_models(&cli->cx, &cli->arena, args->operand[0], args->operand[1], &d));
    if (!cli->json) {
        print_text(&d);
        return PARE_OK;
    }
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    return print_json(&d, w);
}
