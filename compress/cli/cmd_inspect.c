#include <stdio.h>

#include "compress/cli/cli.h"
#include "compress/report/units.h"

/* What the tensors add up to. */
typedef struct totals {
    uint64_t bytes;
    double weights, bits; /* of the packed linears: true weights, bits of all planes */
} totals;

static void shape_text(const pare_tensor *t, char *text, size_t size)
{
    size_t used = 0;
    (void)snprintf(text, size, "scalar");
    for (uint32_t i = 0; i < t->rank && used < size; i++) {
        const int n = snprintf(text + used, size - used, "%s%llu", i ? " x " : "",
                               (unsigned long long)t->shape[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

static uint64_t plane_bytes(const pare_checkpoint *ck, const char *linear, const char *plane)
{
    char name[1024];
    const int n = snprintf(name, sizeof name, "%s.%s", linear, plane);
    const bool fits = n > 0 && (size_t)n < sizeof name;
    const pare_tensor *const t = fits ? pare_checkpoint_find(ck, name) : NULL;
    return t ? t->bytes : 0;
}

static double linear_bytes(const pare_checkpoint *ck, const char *name)
{
    return (double)plane_bytes(ck, name, "codes") + (double)plane_bytes(ck, name, "scales") +
           (double)plane_bytes(ck, name, "zeros");
}

static totals add_up(const pare_checkpoint *ck)
{
    totals sum = {0};
    const char *name;
    const pare_json *l;
    for (size_t i = 0; i < ck->tensors; i++)
        sum.bytes += ck->tensor[i].bytes;
    pare_json_iter it = {0};
    const pare_json *const linears = ck->packed ? pare_json_get(ck->index, "linears") : NULL;
    while (linears && pare_json_next(linears, &it, &name, &l)) {
        const pare_json *const shape = pare_json_get(l, "shape");
        sum.weights += pare_json_number(pare_json_at(shape, 0), 0) *
                       pare_json_number(pare_json_at(shape, 1), 0);
        sum.bits += 8 * linear_bytes(ck, name);
    }
    return sum;
}

static void print_linears(const pare_checkpoint *ck)
{
    const char *name;
    const pare_json *l;
    pare_json_iter it = {0};
    const pare_json *const linears = ck->packed ? pare_json_get(ck->index, "linears") : NULL;
    if (!linears)
        return;
    (void)printf("\n%-52s %14s %5s %6s %9s %9s\n", "packed linear", "shape", "bits", "group",
                 "grid", "bits/w");
    while (pare_json_next(linears, &it, &name, &l)) {
        const pare_json *const shape = pare_json_get(l, "shape");
        const long long n = pare_json_integer(pare_json_at(shape, 0), 0),
                        k = pare_json_integer(pare_json_at(shape, 1), 0),
                        group = pare_json_integer(pare_json_get(l, "group"), 0);
        char dims[48], groups[24] = "row";
        (void)snprintf(dims, sizeof dims, "%lld x %lld", n, k);
        if (group)
            (void)snprintf(groups, sizeof groups, "%lld", group);
        (void)printf("%-52s %14s %5lld %6s %9s %9.3f\n", name, dims,
                     (long long)pare_json_integer(pare_json_get(l, "bits"), 0), groups,
                     pare_json_bool(pare_json_get(l, "symmetric"), true) ? "symmetric" : "zeros",
                     n && k ? 8 * linear_bytes(ck, name) / ((double)n * (double)k) : 0);
    }
}

static void print_text(const pare_checkpoint *ck, const totals *sum)
{
    char text[96];
    (void)printf("%s\n", ck->path);
    if (ck->config) {
        const char *const type = pare_json_text(pare_json_get(ck->config, "model_type"), NULL);
        (void)printf("family            %s\n", type ? type : "not named in config.json");
    }
    (void)printf("%-52s %-8s %14s %12s\n", "tensor", "type", "shape", "bytes");
    for (size_t i = 0; i < ck->tensors; i++) {
        const pare_tensor *const t = &ck->tensor[i];
        shape_text(t, text, sizeof text);
        (void)printf("%-52s %-8s %14s %12llu\n", t->name, pare_dtype_name(t->dtype), text,
                     (unsigned long long)t->bytes);
    }
    print_linears(ck);
    (void)printf("\n%zu files, %zu tensors, %s", ck->files, ck->tensors,
                 pare_units_bytes(sum->bytes, text));
    if (sum->weights > 0)
        (void)printf("; %.3f bits per weight in the packed linears", sum->bits / sum->weights);
    (void)printf("\n");
}

static void put_tensor(pare_json_writer *w, const pare_checkpoint *ck, size_t i)
{
    const pare_tensor *const t = &ck->tensor[i];
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "name", t->name);
    pare_json_put_text(w, "dtype", pare_dtype_name(t->dtype));
    pare_json_open_array(w, "shape");
    for (uint32_t d = 0; d < t->rank; d++)
        pare_json_put_integer(w, NULL, (int64_t)t->shape[d]);
    pare_json_close(w);
    pare_json_put_integer(w, "bytes", (int64_t)t->bytes);
    pare_json_put_text(w, "file", ck->file[ck->tensor_file[i]].path);
    pare_json_close(w);
}

static pare_status print_json(pare_cli *cli, const pare_checkpoint *ck, const totals *sum)
{
    pare_json_writer *w;
    PARE_TRY(pare_json_writer_new(&cli->cx, &w));
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "path", ck->path);
    pare_json_put_bool(w, "packed", ck->packed);
    pare_json_put_integer(w, "bytes", (int64_t)sum->bytes);
    if (sum->weights > 0)
        pare_json_put_finite(w, "bits_per_weight", sum->bits / sum->weights);
    pare_json_open_array(w, "tensors");
    for (size_t i = 0; i < ck->tensors; i++)
        put_tensor(w, ck, i);
    pare_json_close(w);
    if (ck->packed && pare_json_get(ck->index, "linears"))
        pare_json_put_copy(w, "linears", pare_json_get(ck->index, "linears"));
    if (ck->config)
        pare_json_put_copy(w, "config", ck->config);
    pare_json_close(w);
    return pare_cli_print(w);
}

pare_status pare_inspect_run(pare_cli *cli, const pare_args *args)
{
    pare_checkpoint ck = {0};
    pare_status s = pare_checkpoint_open(&cli->cx, &cli->arena, args->operand[0], &ck);
    if (s == PARE_OK) {
        const totals sum = add_up(&ck);
        if (cli->json)
            s = print_json(cli, &ck, &sum);
        else
            print_text(&ck, &sum);
    }
    if (ck.cx)
        pare_checkpoint_close(&ck);
    return s;
}
