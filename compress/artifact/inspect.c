#include "compress/artifact/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint.h"
#include "formats/json.h"
#include "formats/packed.h"
#include "formats/packed_kv.h"
#include "runtime/file.h"

enum { NAME = 4096 };

typedef struct inspector {
    pare_ctx *cx;
    pare_arena *arena;
    const pare_checkpoint *ck;
    bool *shown; /* [ck->tensors] is a plane of a row */
    pare_inspection *out;
} inspector;

static const char *base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether a name, of a tensor or of a packed linear, lies neither inside a block that the model has
 * nor in what stands outside of blocks. */
static bool is_unused(const pare_inspection *out, const char *name)
{
    const pare_arch *const a = out->config.arch;
    if (!out->has_config)
        return false;
    const char *const outside[] = {a->embed, a->positions, a->norm, a->head};
    const size_t before = strcspn(a->block_prefix, "%");
    if (strncmp(name, a->block_prefix, before) == 0)
        return strtoull(name + before, NULL, 10) >= out->config.blocks;
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        const size_t len = outside[i] ? strlen(outside[i]) : 0;
        if (len && strncmp(name, outside[i], len) == 0 && (!name[len] || name[len] == '.'))
            return false;
    }
    return true;
}

static void add_sizes(pare_inspection *out, pare_inspect_row *row)
{
    row->bits_per_weight = row->weights ? 8 * (double)row->bytes / (double)row->weights : 0;
    row->unused = is_unused(out, row->name);
    *(row->unused ? &out->unused_bytes : &out->tensor_bytes) += row->bytes;
    *(row->unused ? &out->unused_weights : &out->weights) += row->weights;
    out->unused += row->unused;
    out->rows++;
}

/* Bits of the codes that files of other engines pack into words; 0: they do not. */
static unsigned code_bits(const pare_json *config)
{
    const pare_json *const q = pare_json_get(config, "quantization_config");
    const pare_json *bits = pare_json_get(q, "bits"), *group;
    const char *name;
    for (pare_json_iter it = {0};
         !bits && pare_json_next(pare_json_get(q, "config_groups"), &it, &name, &group);)
        bits = pare_json_get(pare_json_get(group, "weights"), "num_bits");
    const int64_t n = pare_json_integer(bits, 0);
    return n > 0 && n <= 8 ? (unsigned)n : 0;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* A tensor of such files: words hold several weights each, what belongs to them none. */
static pare_status count_words(inspector *in, const pare_tensor *t, pare_inspect_row *row)
{
    static const char *const words[] = {".qweight", ".weight_packed"};
    static const char *const others[] = {
        ".qzeros",       ".scales",     ".g_idx", ".weight_scale", ".weight_zero_point",
        ".weight_shape", ".input_scale"};
    const unsigned bits = in->ck->packed ? 0 : code_bits(in->ck->config);
    char text[32];
    for (size_t i = 0; bits && i < sizeof others / sizeof *others; i++)
        if (ends_with(t->name, others[i]))
            row->weights = 0;
    for (size_t i = 0; bits && i < sizeof words / sizeof *words; i++) {
        if (!ends_with(t->name, words[i]) || t->dtype != PARE_I32)
            continue;
        row->weights = row->weights * 32 / bits;
        (void)snprintf(text, sizeof text, "int%u in I32", bits);
        row->encoding = pare_arena_text(in->arena, text, strlen(text));
    }
    return row->encoding ? PARE_OK : PARE_ENOMEM;
}

/* "fp8, x fp8 per token" */
static pare_status describe_stored(inspector *in, const pare_stored *s, pare_inspect_row *row)
{
    char text[NAME];
    row->encoding = s->type;
    if (!s->inputs)
        return PARE_OK;
    (void)snprintf(text, sizeof text, "%s, %s", s->type, s->inputs);
    row->encoding = pare_arena_text(in->arena, text, strlen(text));
    return row->encoding ? PARE_OK : PARE_ENOMEM;
}

/* Elements of a tensor that the reader accepted: bytes * 8 / bits is exact. */
static pare_status add_tensor(inspector *in, size_t i)
{
    const pare_tensor *const t = &in->ck->tensor[i];
    pare_inspect_row *const row = &in->out->row[in->out->rows];
    *row = (pare_inspect_row){.name = t->name,
                              .encoding = pare_dtype_name(t->dtype),
                              .file = in->out->file[in->ck->tensor_file[i]].name,
                              .rank = t->rank,
                              .bytes = t->bytes};
    memcpy(row->shape, t->shape, sizeof row->shape);
    const unsigned bits = pare_dtype_bits(t->dtype);
    row->weights = t->bytes / bits * 8 + t->bytes % bits * 8 / bits;
    if (in->ck->stored) {
        PARE_TRY(describe_stored(in, &in->ck->stored[i], row));
        row->bytes = in->ck->stored[i].bytes;
        row->weights = 1;
        for (uint32_t d = 0; d < t->rank; d++)
            row->weights *= t->shape[d];
    }
    PARE_TRY(count_words(in, t, row));
    add_sizes(in->out, row);
    return PARE_OK;
}

static pare_status add_plane(inspector *in, const char *linear, pare_plane plane,
                             pare_inspect_row *row)
{
    char name[NAME];
    const char *const suffix = pare_packed_plane_name(plane);
    const int n = snprintf(name, sizeof name, "%s.%s", linear, suffix);
    const pare_tensor *const t =
        n > 0 && (size_t)n < sizeof name ? pare_checkpoint_find(in->ck, name) : NULL;
    if (!t)
        return pare_fail(in->cx, PARE_EFORMAT, "%s: tensor %.1024s.%s is missing", in->ck->path,
                         linear, suffix);
    const size_t i = (size_t)(t - in->ck->tensor);
    in->shown[i] = true;
    row->bytes += t->bytes;
    if (!row->file)
        row->file = in->out->file[in->ck->tensor_file[i]].name;
    return PARE_OK;
}

static pare_status add_linear(inspector *in, const char *name, const pare_json *v)
{
    pare_packed_linear l;
    if (pare_packed_linear_read(in->cx, name, v, &l) != PARE_OK)
        return pare_fail_context(in->cx, PARE_EFORMAT, "%s: packed.index.json", in->ck->path);
    char text[PARE_PACKED_TEXT];
    (void)pare_packed_linear_text(&l, text);
    pare_inspect_row *const row = &in->out->row[in->out->rows];
    *row = (pare_inspect_row){.name = pare_arena_text(in->arena, name, strlen(name)),
                              .encoding = pare_arena_text(in->arena, text, strlen(text)),
                              .packed = true,
                              .rank = 2,
                              .shape = {l.n, l.k},
                              .weights = (uint64_t)l.n * l.k};
    if (!row->name || !row->encoding)
        return PARE_ENOMEM;
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        pare_tensor t;
        if (pare_packed_plane_shape(&l, p, &t))
            PARE_TRY(add_plane(in, name, p, row));
    }
    add_sizes(in->out, row);
    return PARE_OK;
}

static int compare_digits(const char **x, const char **y)
{
    while (**x == '0')
        ++*x;
    while (**y == '0')
        ++*y;
    const size_t m = strspn(*x, "0123456789"), n = strspn(*y, "0123456789");
    const int order = m != n ? (m < n ? -1 : 1) : strncmp(*x, *y, m);
    *x += m;
    *y += n;
    return order;
}

/* What is used comes first. Numbers inside names count by value; equal ones fall back to the plain
 * order. */
static int by_use_and_name(const void *a, const void *b)
{
    const pare_inspect_row *const p = a, *const q = b;
    const char *const first = p->name, *const second = q->name;
    const char *x = first, *y = second;
    if (p->unused != q->unused)
        return p->unused ? 1 : -1;
    while (*x && *y) {
        const bool digits = *x >= '0' && *x <= '9' && *y >= '0' && *y <= '9';
        const int order = digits ? compare_digits(&x, &y) : (unsigned char)*x - (unsigned char)*y;
        if (order != 0)
            return order;
        x += !digits;
        y += !digits;
    }
    return *x || *y ? (*x ? 1 : -1) : strcmp(first, second);
}

static pare_status list_files(inspector *in)
{
    const pare_checkpoint *const ck = in->ck;
    pare_inspection *const out = in->out;
    out->file = PARE_NEW(in->arena, pare_inspect_file, ck->files);
    if (!out->file)
        return PARE_ENOMEM;
    for (; out->files < ck->files; out->files++) {
        const pare_file *const f = &ck->file[out->files];
        out->file[out->files] = (pare_inspect_file){base_name(f->path), f->bytes, 0};
        out->file_bytes += f->bytes;
    }
    for (size_t i = 0; i < ck->tensors; i++)
        out->file[ck->tensor_file[i]].tensors++;
    return PARE_OK;
}

/* A configuration that cannot be read is a fact to show, not a reason to show nothing. */
static pare_status describe_config(inspector *in)
{
    pare_inspection *const out = in->out;
    const pare_checkpoint *const ck = in->ck;
    static const char none[] = "there is no config.json";
    if (!ck->config) {
        out->config_problem = none;
        return PARE_OK;
    }
    const pare_status s = pare_config_parse(in->cx, ck->config_file.path, ck->config, &out->config);
    out->has_config = s == PARE_OK;
    if (s == PARE_OK || s == PARE_ENOMEM)
        return s;
    out->config = (pare_config){0};
    out->config_broken = s == PARE_EFORMAT;
    out->config_problem = pare_arena_text(in->arena, in->cx->what, strlen(in->cx->what));
    if (!out->config_problem)
        return PARE_ENOMEM;
    pare_ctx_clear(in->cx);
    return PARE_OK;
}

static pare_status list_rows(inspector *in)
{
    const pare_checkpoint *const ck = in->ck;
    pare_inspection *const out = in->out;
    const pare_json *const linears = ck->packed ? pare_json_get(ck->index, "linears") : NULL;
    out->row = PARE_NEW(in->arena, pare_inspect_row, ck->tensors + pare_json_count(linears));
    if (!out->row)
        return PARE_ENOMEM;
    const char *name;
    const pare_json *value;
    for (pare_json_iter it = {0}; pare_json_next(linears, &it, &name, &value);)
        PARE_TRY(add_linear(in, name, value));
    for (size_t i = 0; i < ck->tensors; i++) {
        if (!in->shown[i])
            PARE_TRY(add_tensor(in, i));
    }
    if (out->rows > 1)
        qsort(out->row, out->rows, sizeof *out->row, by_use_and_name);
    for (size_t i = 0; i < ck->tensors; i++)
        if (!is_unused(out, ck->tensor[i].name))
            out->mapped_bytes += ck->stored ? ck->stored[i].run_bytes : ck->tensor[i].bytes;
    out->bits_per_weight = out->weights ? 8 * (double)out->tensor_bytes / (double)out->weights : 0;
    return PARE_OK;
}

static pare_status describe(inspector *in)
{
    in->out->path = in->ck->path;
    in->out->packed = in->ck->packed;
    in->shown = PARE_NEW(in->arena, bool, in->ck->tensors);
    if (!in->shown)
        return PARE_ENOMEM;
    PARE_TRY(list_files(in));
    PARE_TRY(describe_config(in));
    PARE_TRY(list_rows(in));
    if (in->ck->packed && pare_packed_kv_read(in->cx, in->ck->index, &in->out->kv) != PARE_OK)
        return pare_fail_context(in->cx, PARE_EFORMAT, "%s: packed.index.json", in->ck->path);
    const uint64_t idle = in->out->has_config ? pare_config_idle_weights(&in->out->config) : 0;
    in->out->idle_weights = idle < in->out->weights ? idle : 0; /* files may hold less */
    return PARE_OK;
}

pare_status pare_inspect_verdict(pare_ctx *cx, pare_arena *a, const char *path, const char **out)
{
    enum { CAP = 64 << 20 };
    char *const file = pare_path_join(a, path, "run.json"), *text;
    size_t len;
    pare_json *run = NULL;
    *out = NULL;
    if (!file)
        return PARE_ENOMEM;
    pare_status s = pare_file_read(cx, a, file, CAP, &text, &len);
    if (s == PARE_OK)
        s = pare_json_parse(cx, file, text, len, CAP, &run);
    if (s == PARE_ENOMEM)
        return s;
    const pare_json *const verdict = s == PARE_OK ? pare_json_get(run, "verdict") : NULL;
    const char *const is = pare_json_text(pare_json_get(verdict, "verdict"), NULL);
    char *const shown =
        verdict ? pare_arena_text(a, is ? is : "unknown", strlen(is ? is : "unknown")) : NULL;
    *out = shown ? pare_text_printable(shown) : NULL;
    pare_json_free(run);
    pare_ctx_clear(cx); /* a model without such a file has no verdict */
    return verdict && !shown ? PARE_ENOMEM : PARE_OK;
}

pare_status pare_inspect(pare_ctx *cx, pare_arena *a, const char *path, pare_inspection *out)
{
    *out = (pare_inspection){0};
    pare_checkpoint ck;
    pare_status s = pare_checkpoint_list(cx, a, path, &ck);
    if (s == PARE_OK) {
        if (ck.unread)
            pare_warn(cx,
                      "%s; its tensors are shown as the files have them, and their words and "
                      "scales count as weights",
                      ck.unread);
        inspector in = {.cx = cx, .arena = a, .ck = &ck, .out = out};
        s = describe(&in);
    }
    pare_checkpoint_close(&ck);
    return s;
}
