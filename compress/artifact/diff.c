#include "compress/artifact/diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/artifact/diff_internal.h"
#include "formats/checksums.h"
#include "runtime/small.h"

static const char *const words[PARE_DIFF_KINDS] = {"same",  "only_a",   "only_b",
                                                   "shape", "encoding", "values"};

const char *pare_diff_kind_word(pare_diff_kind k)
{
    return words[k];
}

const char *pare_diff_source_word(pare_diff_source s)
{
    static const char *const source[PARE_DIFF_SOURCES] = {"original", "teacher",  "calibration",
                                                          "held_out", "training", "evaluation"};
    return source[s];
}

/* Tensors and linears by what they are called in both: without ".weight". */
typedef struct named {
    const char *name;
    const pare_inspect_row *row;
} named;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static pare_status names_of(pare_arena *a, const pare_inspection *in, named **out)
{
    static const char end[] = ".weight";
    named *const list = PARE_NEW(a, named, in->rows);
    if (!list)
        return PARE_ENOMEM;
    for (size_t i = 0; i < in->rows; i++) {
        const pare_inspect_row *const row = &in->row[i];
        const bool cut = !row->packed && pare_ends_with(row->name, end);
        const size_t len = strlen(row->name) - (cut ? strlen(end) : 0);
        list[i] = (named){pare_arena_text(a, row->name, len), row};
        if (!list[i].name)
            return PARE_ENOMEM;
    }
    *out = list;
    return PARE_OK;
}

static const pare_inspect_row *find(const named *sorted, size_t count, const char *name)
{
    const named key = {name, NULL};
    const named *const at = count ? bsearch(&key, sorted, count, sizeof key, by_name) : NULL;
    return at ? at->row : NULL;
}

static bool same_shape(const pare_inspect_row *a, const pare_inspect_row *b)
{
    return a->rank == b->rank && a->weights == b->weights &&
           memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

static void put_errors(const pare_diff_side *side, const char *name, size_t i, pare_diff_row *row)
{
    const pare_json *const t = pare_json_get(pare_json_get(side->manifest, "tensors"), name);
    row->weight_error[i] = pare_json_number(pare_json_get(t, "weight_error"), (double)NAN);
    row->output_error[i] = pare_json_number(pare_json_get(t, "output_error"), (double)NAN);
}

static pare_status fill_row(pare_ctx *cx, pare_arena *scratch, const pare_diff_side side[2],
                            const char *name, pare_diff_row *row)
{
    row->name = name;
    row->codes = row->weights = row->error = (double)NAN;
    for (size_t i = 0; i < 2; i++)
        put_errors(&side[i], name, i, row);
    if (!row->a || !row->b) {
        row->kind = row->a ? PARE_DIFF_ONLY_A : PARE_DIFF_ONLY_B;
        return PARE_OK;
    }
    row->kind = PARE_DIFF_SHAPE;
    return same_shape(row->a, row->b) ? pare__diff_values(cx, scratch, side, row) : PARE_OK;
}

static pare_status compare_rows(pare_ctx *cx, pare_arena *a, pare_arena *scratch,
                                const pare_diff_side side[2], pare_diff *out)
{
    static const char what[] = "comparing tensors";
    named *name[2], *sorted[2];
    const size_t count[2] = {out->of[0].rows, out->of[1].rows};
    for (size_t i = 0; i < 2; i++) {
        PARE_TRY(names_of(a, &out->of[i], &name[i]));
        sorted[i] = PARE_NEW(a, named, count[i]);
        if (!sorted[i])
            return PARE_ENOMEM;
        memcpy(sorted[i], name[i], count[i] * sizeof *name[i]);
        qsort(sorted[i], count[i], sizeof **sorted, by_name);
    }
    out->row = PARE_NEW(a, pare_diff_row, count[0] + count[1]);
    if (!out->row)
        return PARE_ENOMEM;
    double done = 0;
    for (size_t i = 0; i < count[0]; i++) {
        pare_diff_row *const row = &out->row[out->rows++];
        row->a = name[0][i].row;
        row->b = find(sorted[1], count[1], name[0][i].name);
        pare_ctx_progress(cx, what, done, (double)out->of[0].tensor_bytes);
        PARE_TRY(fill_row(cx, scratch, side, name[0][i].name, row));
        done += (double)row->a->bytes;
    }
    for (size_t i = 0; i < count[1]; i++) {
        if (find(sorted[0], count[0], name[1][i].name))
            continue;
        pare_diff_row *const row = &out->row[out->rows++];
        row->b = name[1][i].row;
        PARE_TRY(fill_row(cx, scratch, side, name[1][i].name, row));
    }
    pare_ctx_progress(cx, what, 1, 1);
    return PARE_OK;
}

/* A document beside a model; what is no JSON counts as absent. */
static pare_status read_document(pare_ctx *cx, pare_arena *a, const char *path, const char *name,
                                 pare_json **out)
{
    const char *const file = pare_path_join(a, path, name);
    char *text;
    size_t len;
    *out = NULL;
    if (!file)
        return PARE_ENOMEM;
    if (!pare_path_is_file(file))
        return PARE_OK;
    pare_status s = pare_file_read(cx, a, file, PARE_MANIFEST_CAP, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse(cx, file, text, len, PARE_MANIFEST_CAP, out);
    if (s != PARE_EFORMAT)
        return s;
    pare_ctx_clear(cx);
    return PARE_OK;
}

static pare_status open_side(pare_ctx *cx, pare_arena *a, const char *path, pare_inspection *in,
                             pare_diff_side *side)
{
    PARE_TRY(pare_inspect(cx, a, path, in));
    PARE_TRY(pare_checkpoint_open(cx, a, path, &side->checkpoint));
    PARE_TRY(read_document(cx, a, path, PARE_MANIFEST_NAME, &side->manifest));
    return read_document(cx, a, path, "run.json", &side->run);
}

static pare_status compare_all(pare_ctx *cx, pare_arena *a, pare_arena *scratch,
                               pare_diff_side side[2], pare_diff *out)
{
    for (size_t i = 0; i < 2; i++)
        PARE_TRY(open_side(cx, a, out->path[i], &out->of[i], &side[i]));
    PARE_TRY(compare_rows(cx, a, scratch, side, out));
    PARE_TRY(pare__diff_recipes(a, side, out));
    pare__diff_sources(side, out);
    PARE_TRY(pare__diff_figures(a, side, out));
    for (size_t i = 0; i < out->rows; i++)
        out->count[out->row[i].kind]++;
    out->same = out->count[PARE_DIFF_SAME] == out->rows && out->lines == 0;
    return PARE_OK;
}

pare_status pare_diff_models(pare_ctx *cx, pare_arena *a, const char *first, const char *second,
                             pare_diff *out)
{
    pare_diff_side side[2] = {{.manifest = NULL}, {.manifest = NULL}};
    pare_arena scratch;
    *out = (pare_diff){.path = {first, second}};
    PARE_TRY(pare_arena_init(cx, &scratch, 0));
    const pare_status s = compare_all(cx, a, &scratch, side, out);
    for (size_t i = 0; i < 2; i++) {
        pare_checkpoint_close(&side[i].checkpoint);
        pare_json_free(side[i].manifest);
        pare_json_free(side[i].run);
    }
    pare_arena_release(&scratch);
    return s;
}
