#include <stdio.h>
#include <string.h>

#include "calib/imatrix.h"
#include "calib/stats_file.h"
#include "compress/artifact/inspect.h"
#include "compress/cli/cli.h"
#include "compress/cli/stats_print.h"
#include "compress/output/inputs.h"
#include "compress/text/units.h"

enum { SHAPE = 160 };

static void shape_text(const pare_inspect_row *row, char *text, size_t size)
{
    size_t used = 0;
    (void)snprintf(text, size, "scalar");
    for (uint32_t i = 0; i < row->rank && used < size; i++) {
        const int n = snprintf(text + used, size - used, "%s%llu", i ? " x " : "",
                               (unsigned long long)row->shape[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

static void print_config(const pare_inspection *in)
{
    const pare_config *const c = &in->config;
    if (!in->has_config) {
        (void)printf("configuration     %s\n", in->config_problem);
        return;
    }
    (void)printf("family            %s: %zu block%s, hidden %zu, ", c->arch->model_type, c->blocks,
                 pare_plural(c->blocks), c->hidden);
    if (c->intermediate)
        (void)printf("intermediate %s%zu, ", c->uneven ? "up to " : "", c->intermediate);
    (void)printf("%zu head%s (%zu key/value) of %zu\n", c->heads, pare_plural(c->heads),
                 c->kv_heads, c->head_dim);
    (void)printf("                  vocabulary %zu, context %zu, %s head\n", c->vocab, c->context,
                 c->tied ? "tied" : "separate");
    if (c->experts)
        (void)printf("experts           %zu of width %zu in %zu of %zu blocks, a token uses %zu\n",
                     c->experts, c->expert_width, c->blocks - c->dense_blocks, c->blocks,
                     c->experts_used);
    char cache[PARE_KV_TEXT];
    pare_kv_text(c, &in->kv, cache);
    (void)printf("KV cache          %s\n", cache);
}

/* Widths of the columns that texts fill. Of a longer name, the row alone is longer. */
typedef struct columns {
    int name, encoding, shape;
} columns;

enum { NAME_MOST = 100 };

static int wider(int width, const char *text, size_t most)
{
    const size_t len = strnlen(text, most);
    return len > (size_t)width ? (int)len : width;
}

static columns columns_of(const pare_inspection *in)
{
    columns c = {52, 16, 14};
    char text[SHAPE];
    for (size_t i = 0; i < in->rows; i++) {
        c.name = wider(c.name, in->row[i].name, NAME_MOST);
        c.encoding = wider(c.encoding, in->row[i].encoding, NAME_MOST);
        shape_text(&in->row[i], text, sizeof text);
        c.shape = wider(c.shape, text, sizeof text);
    }
    return c;
}

static pare_status print_rows(pare_cli *cli, const pare_inspection *in, const columns *c)
{
    char text[SHAPE];
    (void)printf("\n%-*s %-*s %*s %8s %12s\n", c->name, "tensor", c->encoding, "encoding", c->shape,
                 "shape", "bits/w", "bytes");
    for (size_t i = 0; i < in->rows; i++) {
        const pare_inspect_row *const row = &in->row[i];
        char *const name = pare_arena_text(&cli->arena, row->name, strlen(row->name));
        if (!name)
            return PARE_ENOMEM;
        if (i == in->rows - in->unused)
            (void)printf("left out, outside the blocks and tables of a model of type %s:\n",
                         in->config.arch->model_type);
        shape_text(row, text, sizeof text);
        (void)printf("%-*s %-*s %*s %8.3f %12llu\n", c->name, pare_text_printable(name),
                     c->encoding, row->encoding, c->shape, text, row->bits_per_weight,
                     (unsigned long long)row->bytes);
    }
    return PARE_OK;
}

static pare_status print_text(pare_cli *cli, const pare_inspection *in, const char *verdict)
{
    char text[PARE_UNIT_TEXT], mapped[PARE_UNIT_TEXT];
    const columns c = columns_of(in);
    (void)printf("%s\n", in->path);
    print_config(in);
    if (verdict)
        (void)printf("verdict           %s (pare help require)\n", verdict);
    PARE_TRY(print_rows(cli, in, &c));
    (void)printf("\n");
    for (size_t i = 0; i < in->files; i++)
        (void)printf("%-*s %zu tensor%s, %s\n", c.name, in->file[i].name, in->file[i].tensors,
                     pare_plural(in->file[i].tensors), pare_units_bytes(in->file[i].bytes, text));
    (void)printf("%llu weights, %s, %.3f bits per weight over all of them",
                 (unsigned long long)in->weights, pare_units_bytes(in->tensor_bytes, text),
                 in->bits_per_weight);
    (void)pare_units_bytes(in->mapped_bytes, mapped);
    if (strcmp(text, mapped) != 0)
        (void)printf("; %s in memory when it runs", mapped);
    (void)printf("\n");
    if (in->idle_weights)
        (void)printf("%llu of them are used by a token\n",
                     (unsigned long long)(in->weights - in->idle_weights));
    if (in->unused)
        (void)printf("left out: %zu tensor%s, %llu weights, %s\n", in->unused,
                     pare_plural(in->unused), (unsigned long long)in->unused_weights,
                     pare_units_bytes(in->unused_bytes, text));
    return PARE_OK;
}

static void put_row(pare_json_writer *w, const pare_inspect_row *row)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "name", row->name);
    pare_json_put_text(w, "encoding", row->encoding);
    pare_json_put_bool(w, "packed", row->packed);
    pare_json_put_bool(w, "used", !row->unused);
    pare_json_open_array(w, "shape");
    for (uint32_t d = 0; d < row->rank; d++)
        pare_json_put_integer(w, NULL, (int64_t)row->shape[d]);
    pare_json_close(w);
    pare_json_put_integer(w, "bytes", (int64_t)row->bytes);
    pare_json_put_finite(w, "bits_per_weight", row->bits_per_weight);
    pare_json_put_text(w, "file", row->file);
    pare_json_close(w);
}

static void put_config(pare_json_writer *w, const pare_inspection *in)
{
    const pare_config *const c = &in->config;
    if (!in->has_config) {
        pare_json_put_text(w, "config_problem", in->config_problem);
        return;
    }
    pare_json_open_object(w, "config");
    pare_json_put_text(w, "model_type", c->arch->model_type);
    pare_json_put_integer(w, "blocks", (int64_t)c->blocks);
    pare_json_put_integer(w, "hidden", (int64_t)c->hidden);
    if (c->intermediate)
        pare_json_put_integer(w, "intermediate", (int64_t)c->intermediate);
    pare_json_put_integer(w, "heads", (int64_t)c->heads);
    pare_json_put_integer(w, "kv_heads", (int64_t)c->kv_heads);
    pare_json_put_integer(w, "head_dim", (int64_t)c->head_dim);
    if (c->experts) {
        pare_json_put_integer(w, "experts", (int64_t)c->experts);
        pare_json_put_integer(w, "expert_blocks", (int64_t)(c->blocks - c->dense_blocks));
        pare_json_put_integer(w, "experts_used", (int64_t)c->experts_used);
        pare_json_put_integer(w, "expert_width", (int64_t)c->expert_width);
    }
    pare_json_put_integer(w, "vocab", (int64_t)c->vocab);
    pare_json_put_integer(w, "context", (int64_t)c->context);
    pare_json_put_bool(w, "tied", c->tied);
    pare_json_close(w);
    pare_json_put_kv(w, c, &in->kv);
}

static pare_status print_json(pare_cli *cli, const pare_inspection *in, const char *verdict)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "model", in->path);
    pare_json_put_bool(w, "packed", in->packed);
    pare_json_put_integer(w, "file_bytes", (int64_t)in->file_bytes);
    pare_json_put_integer(w, "tensor_bytes", (int64_t)in->tensor_bytes);
    pare_json_put_integer(w, "mapped_bytes", (int64_t)in->mapped_bytes);
    pare_json_put_integer(w, "weights", (int64_t)in->weights);
    pare_json_put_integer(w, "active_weights", (int64_t)(in->weights - in->idle_weights));
    pare_json_put_finite(w, "model_bits_per_weight", in->bits_per_weight);
    pare_json_put_integer(w, "unused_weights", (int64_t)in->unused_weights);
    pare_json_put_integer(w, "unused_bytes", (int64_t)in->unused_bytes);
    put_config(w, in);
    if (verdict)
        pare_json_put_text(w, "verdict", verdict);
    pare_json_open_array(w, "tensors");
    for (size_t i = 0; i < in->rows; i++)
        put_row(w, &in->row[i]);
    pare_json_close(w);
    pare_json_close(w);
    return pare_cli_print(w);
}

pare_status pare_inspect_run(pare_cli *cli, const pare_args *args)
{
    pare_inspection in;
    PARE_TRY(pare_inputs_no_work(&cli->cx, &cli->arena, args->operand[0]));
    const char *verdict;
    bool kept;
    PARE_TRY(pare_stats_file_is_one(&cli->cx, &cli->arena, args->operand[0], &kept));
    if (kept)
        return pare__stats_inspect(cli, args->operand[0]);
    PARE_TRY(pare_imatrix_is_none_else(&cli->cx, args->operand[0], &kept));
    if (kept)
        return pare__importance_inspect(cli, args->operand[0]);
    PARE_TRY(pare_inspect(&cli->cx, &cli->arena, args->operand[0], &in));
    PARE_TRY(pare_inspect_verdict(&cli->cx, &cli->arena, args->operand[0], &verdict));
    PARE_TRY(cli->json ? print_json(cli, &in, verdict) : print_text(cli, &in, verdict));
    return in.config_broken ? pare_fail(&cli->cx, PARE_EFORMAT, "%s", in.config_problem) : PARE_OK;
}
