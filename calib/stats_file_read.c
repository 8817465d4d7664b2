/* Files of statistics read back; nothing in them is believed. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calib/stats_file.h"
#include "calib/stats_file_names.h"
#include "formats/json.h"
#include "runtime/file.h"

enum { SETTINGS_CAP = 1 << 20, COUNT_MAX = 1 << 30, COLUMNS_MAX = 1 << 20, FILES_MAX = 1 << 16 };

typedef unsigned long long ull;

/* --- what a file is of -------------------------------------------------------------------------
 */

/* Members of the settings; what is missing or of another type is told once. */
typedef struct settings {
    pare_ctx *cx;
    pare_arena *a;
    const char *path;
    const pare_json *json;
    pare_status status;
} settings;

static void fault(settings *s, const char *key, const char *expected)
{
    if (s->status == PARE_OK)
        s->status =
            pare_fail(s->cx, PARE_EFORMAT, "%s: settings: \"%s\" is no %s", s->path, key, expected);
}

static const char *copy(settings *s, const char *key, const pare_json *v)
{
    size_t len;
    const char *const text = pare_json_text(v, &len);
    if (!text) {
        fault(s, key, "text");
        return "";
    }
    const char *const own = pare_arena_text(s->a, text, len);
    if (!own && s->status == PARE_OK)
        s->status = PARE_ENOMEM;
    return own ? own : "";
}

static const char *text_of(settings *s, const char *key)
{
    return copy(s, key, pare_json_get(s->json, key));
}

static size_t count_of(settings *s, const char *key, int64_t least)
{
    const int64_t value = pare_json_integer(pare_json_get(s->json, key), -1);
    if (value < least || value > COUNT_MAX)
        fault(s, key, "whole number in its range");
    return value < least || value > COUNT_MAX ? 0 : (size_t)value;
}

static uint64_t digits_of(settings *s, const char *key)
{
    const char *const text = text_of(s, key);
    char *end;
    const ull value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end)
        fault(s, key, "whole number in digits");
    return value;
}

static void read_model(settings *s, pare_stats_about *out)
{
    const pare_json *const list = pare_json_get(s->json, "model");
    const size_t files = pare_json_count(list);
    const char **const file =
        files && files <= FILES_MAX ? PARE_NEW(s->a, const char *, files) : NULL;
    if (pare_json_type_of(list) != PARE_JSON_ARRAY || !files || files > FILES_MAX) {
        fault(s, "model", "list of files");
        return;
    }
    if (!file) {
        s->status = s->status == PARE_OK ? PARE_ENOMEM : s->status;
        return;
    }
    for (size_t i = 0; i < files; i++)
        file[i] = copy(s, "model", pare_json_at(list, i));
    out->file = file;
    out->files = files;
}

static void read_members(settings *s, pare_stats_about *out)
{
    *out = (pare_stats_about){.program = text_of(s, "program"),
                              .nan = text_of(s, "nan"),
                              .family = text_of(s, "family"),
                              .blocks = count_of(s, "blocks", 1),
                              .hidden = count_of(s, "hidden", 1),
                              .experts = count_of(s, "experts", 0),
                              .samples = count_of(s, "samples", 1),
                              .window = count_of(s, "window", 2),
                              .held_out = count_of(s, "held_out", 0),
                              .fresh = digits_of(s, "fresh"),
                              .tokens_sha256 = text_of(s, "tokens_sha256"),
                              .held_out_sha256 = text_of(s, "held_out_sha256"),
                              .seed = text_of(s, "seed"),
                              .precision = text_of(s, "precision"),
                              .token_weights = text_of(s, "token_weights"),
                              .cold = text_of(s, "cold"),
                              .min_tokens = count_of(s, "min_tokens", 1)};
    read_model(s, out);
}

static pare_status read_settings(settings *s, pare_stats_about *out)
{
    size_t len;
    const char *const format = pare_json_text(pare_json_get(s->json, "format"), &len);
    const int64_t version = pare_json_integer(pare_json_get(s->json, "version"), 0);
    if (!format || strcmp(format, PARE_STATS_FILE_FORMAT) != 0 || version < 1)
        return pare_fail(s->cx, PARE_EFORMAT,
                         "%s: its settings are not those of statistics that pare keeps", s->path);
    if (version > PARE_STATS_FILE_VERSION)
        return pare_fail(
            s->cx, PARE_EFORMAT,
            "%s: statistics of version %lld; this pare reads up to %d: keep them anew, "
            "or take a newer pare",
            s->path, (long long)version, PARE_STATS_FILE_VERSION);
    read_members(s, out);
    if (s->status == PARE_OK && out->fresh > (uint64_t)out->samples * out->window)
        fault(s, "fresh", "number of tokens that there are");
    return s->status;
}

static pare_status parse_about(pare_ctx *cx, pare_arena *a, const char *path, const pare_hdf5 *file,
                               pare_stats_about *out)
{
    const pare_tensor *const t = &file->tensor[0];
    pare_json *json = NULL;
    if (file->tensors != 1 || t->dtype != PARE_U8 || t->rank != 1 || t->bytes > SETTINGS_CAP)
        return pare_fail(cx, PARE_EFORMAT, "%s: settings is no text", path);
    PARE_TRY(pare_json_parse(cx, path, t->data, (size_t)t->bytes, SETTINGS_CAP, &json));
    settings s = {cx, a, path, json, PARE_OK};
    const pare_status status = read_settings(&s, out);
    pare_json_free(json);
    return status;
}

bool pare_stats_file_begins(const char *path)
{
    unsigned char first[PARE_HDF5_SIGNATURE_BYTES];
    if (!pare_path_is_file(path))
        return false;
    FILE *const f = fopen(path, "rb");
    const bool is = f && fread(first, sizeof first, 1, f) == 1 &&
                    memcmp(first, PARE_HDF5_SIGNATURE, sizeof first) == 0;
    if (f)
        (void)fclose(f);
    return is;
}

/* One member of the root; scratch is opened here. */
static pare_status read_member(pare_ctx *cx, pare_arena *a, const char *path, const char *name,
                               pare_scratch *scratch, pare_hdf5 *out)
{
    uint64_t bytes;
    pare_scratch_init(cx, scratch);
    if (access(path, R_OK) != 0)
        return pare_file_fail_input(cx, path, "open");
    if (!pare_path_bytes(path, &bytes))
        return pare_fail(cx, PARE_EFORMAT, "%s: is no regular file", path);
    if (!pare_stats_file_begins(path))
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: is %s, and no statistics that pare kept (an HDF5 file)", path,
                         bytes ? "another kind of file" : "empty");
    return pare_hdf5_read_only(cx, a, scratch, path, bytes, name, out);
}

pare_status pare_stats_file_about(pare_ctx *cx, pare_arena *a, const char *path,
                                  pare_stats_about *out)
{
    pare_scratch scratch;
    pare_hdf5 file;
    pare_status s = read_member(cx, a, path, PARE__STATS_SETTINGS, &scratch, &file);
    if (s == PARE_OK)
        s = parse_about(cx, a, path, &file, out);
    pare_scratch_close(&scratch);
    return s;
}

static bool lists_statistics(const pare_tensor *tensor, size_t tensors)
{
    bool head = false, block = false;
    for (size_t i = 0; i < tensors; i++) {
        head |= strcmp(tensor[i].name, PARE__STATS_SETTINGS) == 0 && tensor[i].dtype == PARE_U8;
        block |= strncmp(tensor[i].name, "block00000.", 11) == 0;
    }
    return head && block;
}

pare_status pare_stats_file_is_one(pare_ctx *cx, pare_arena *a, const char *path, bool *is)
{
    pare_scratch scratch;
    pare_hdf5 file;
    uint64_t bytes;
    *is = false;
    if (!pare_stats_file_begins(path) || !pare_path_bytes(path, &bytes))
        return PARE_OK;
    pare_scratch_init(cx, &scratch);
    const pare_status s = pare_hdf5_read(cx, a, &scratch, path, bytes, true, &file);
    pare_scratch_close(&scratch);
    if (s == PARE_ENOMEM || s == PARE_EINTERRUPTED)
        return s;
    if (s != PARE_OK)
        pare_ctx_clear(cx);
    *is = s == PARE_OK && lists_statistics(file.tensor, file.tensors);
    return PARE_OK;
}

/* --- datasets ----------------------------------------------------------------------------------
 */

static const pare_tensor *find(const pare_hdf5 *file, const char *name)
{
    for (size_t i = 0; i < file->tensors; i++)
        if (strcmp(file->tensor[i].name, name) == 0)
            return &file->tensor[i];
    return NULL;
}

/* A dataset of that type and shape, or a message; k 0: of one dimension. */
static pare_status dataset(pare_ctx *cx, const char *path, const pare_hdf5 *file, const char *name,
                           pare_dtype dtype, uint64_t n, uint64_t k, const pare_tensor **out)
{
    const pare_tensor *const t = find(file, name);
    const uint32_t rank = k ? 2 : 1;
    if (!t)
        return pare_fail(cx, PARE_EFORMAT, "%s: %s is missing", path, name);
    if (t->dtype != dtype || t->rank != rank || t->shape[0] != n || (k && t->shape[1] != k))
        return pare_fail(cx, PARE_EFORMAT, "%s: %s is %s [%llu%s%.0llu], not %s [%llu%s%.0llu]",
                         path, name, pare_dtype_name(t->dtype), t->rank ? (ull)t->shape[0] : 0,
                         t->rank > 1 ? ", " : "", t->rank > 1 ? (ull)t->shape[1] : 0,
                         pare_dtype_name(dtype), (ull)n, k ? ", " : "", (ull)k);
    *out = t;
    return PARE_OK;
}

static pare_status fail_at(pare_ctx *cx, const char *path, const char *name, uint64_t at,
                           const char *what)
{
    return pare_fail(cx, PARE_EFORMAT, "%s: %s: element %llu %s", path, name, (ull)at, what);
}

/* Finite floats, copied. */
static pare_status floats(pare_ctx *cx, const char *path, const pare_tensor *t, float *out)
{
    const size_t count = (size_t)(t->bytes / sizeof *out);
    memcpy(out, t->data, (size_t)t->bytes);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return fail_at(cx, path, t->name, i, "is not finite");
    return PARE_OK;
}

static pare_status doubles(pare_ctx *cx, const char *path, const pare_tensor *t, double *out)
{
    const size_t count = (size_t)(t->bytes / sizeof *out);
    memcpy(out, t->data, (size_t)t->bytes);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return fail_at(cx, path, t->name, i, "is not finite");
    return PARE_OK;
}

/* --- tokens ------------------------------------------------------------------------------------
 */

static pare_status take_ids(pare_ctx *cx, pare_arena *a, const char *path, const pare_tensor *t,
                            size_t vocab, const char *sha256, pare_tokens *out)
{
    char hex[PARE_SHA256_HEX];
    *out = (pare_tokens){.count = (size_t)(t->bytes / sizeof *out->id)};
    out->id = PARE_NEW(a, int32_t, out->count);
    if (!out->id)
        return PARE_ENOMEM;
    memcpy(out->id, t->data, (size_t)t->bytes);
    for (size_t i = 0; i < out->count; i++)
        if (out->id[i] < 0 || (size_t)out->id[i] >= vocab)
            return fail_at(cx, path, t->name, i, "is no token of the model");
    PARE_TRY(pare_sha256_hex(cx, out->id, (size_t)t->bytes, hex));
    return strcmp(hex, sha256) == 0
               ? PARE_OK
               : pare_fail(cx, PARE_EFORMAT, "%s: %s are not those that its settings name", path,
                           t->name);
}

static pare_status read_ids(pare_ctx *cx, pare_arena *a, const char *path, const char *name,
                            size_t windows, size_t window, size_t vocab, const char *sha256,
                            pare_tokens *out)
{
    pare_scratch scratch;
    pare_hdf5 file;
    const pare_tensor *t;
    pare_status s = read_member(cx, a, path, name, &scratch, &file);
    if (s == PARE_OK)
        s = dataset(cx, path, &file, name, PARE_I32, windows, window, &t);
    if (s == PARE_OK)
        s = take_ids(cx, a, path, t, vocab, sha256, out);
    pare_scratch_close(&scratch);
    return s;
}

pare_status pare_stats_file_tokens(pare_ctx *cx, pare_arena *a, const char *path,
                                   const pare_stats_about *about, size_t vocab, pare_tokens *tokens,
                                   pare_tokens *held_out)
{
    PARE_TRY(read_ids(cx, a, path, PARE__STATS_TOKENS, about->samples, about->window, vocab,
                      about->tokens_sha256, tokens));
    *held_out = (pare_tokens){0};
    return about->held_out ? read_ids(cx, a, path, PARE__STATS_HELD_OUT, about->held_out,
                                      about->window, vocab, about->held_out_sha256, held_out)
                           : PARE_OK;
}

/* --- groups ------------------------------------------------------------------------------------
 */

pare_status pare_stats_group_open(pare_ctx *cx, pare_arena *a, const char *path, size_t block,
                                  size_t part, pare_stats_group *g)
{
    *g = (pare_stats_group){.cx = cx, .path = path};
    (void)pare_stats_group_name(block, part, g->name);
    return read_member(cx, a, path, g->name, &g->scratch, &g->file);
}

void pare_stats_group_close(pare_stats_group *g)
{
    if (g->cx)
        pare_scratch_close(&g->scratch);
    *g = (pare_stats_group){0};
}

/* A dataset of the group, or of one of its sites. */
static pare_status member(const pare_stats_group *g, const char *site, const char *name,
                          pare_dtype dtype, uint64_t n, uint64_t k, const pare_tensor **out)
{
    char text[2 * PARE_STATS_GROUP + 16];
    (void)snprintf(text, sizeof text, "%s.%s%s%s", g->name, site, *site ? "." : "", name);
    return dataset(g->cx, g->path, &g->file, text, dtype, n, k, out);
}

pare_status pare_stats_group_shape(const pare_stats_group *g, size_t width[PARE_SITES],
                                   uint64_t *tokens)
{
    char text[2 * PARE_STATS_GROUP + 16];
    const pare_tensor *t;
    bool any = false;
    for (unsigned i = 0; i < PARE_SITES; i++) {
        const char *const site = pare_stats_site_names[i];
        (void)snprintf(text, sizeof text, "%s.%s.min", g->name, site);
        t = find(&g->file, text);
        width[i] = t && t->rank == 1 && t->shape[0] <= COLUMNS_MAX ? (size_t)t->shape[0] : 0;
        if (!width[i])
            continue;
        uint64_t seen;
        PARE_TRY(member(g, site, "tokens", PARE_U64, 1, 0, &t));
        memcpy(&seen, t->data, sizeof seen);
        if (any && seen != *tokens)
            return pare_fail(g->cx, PARE_EFORMAT, "%s: %s is not that of the other sites", g->path,
                             t->name);
        *tokens = seen;
        any = true;
    }
    return any ? PARE_OK : pare_fail(g->cx, PARE_EFORMAT, "%s: %s has no site", g->path, g->name);
}

/* A sum of squares over `tokens`: no entry is larger than what its row and column allow, but for
 * rounding and for squares that were too small to be seen on the diagonal. */
static pare_status unpack(const pare_stats_group *g, const pare_tensor *t, size_t k,
                          uint64_t tokens, float *h)
{
    const double slack = 1.01, lost = (double)tokens * (double)FLT_MIN;
    const float *from = t->data;
    for (size_t i = 0; i < k; i++) {
        const uint64_t row = (uint64_t)i * (i + 1) / 2;
        memcpy(h + i * k, from + row, (i + 1) * sizeof *h);
        const double own = (double)h[i * k + i];
        if (!isfinite(own) || own < 0)
            return fail_at(g->cx, g->path, t->name, row + i,
                           "is on the diagonal and no finite "
                           "number from 0 on");
        for (size_t j = 0; j < i; j++) {
            const double v = (double)h[i * k + j];
            const double most = (own + lost) * ((double)h[j * k + j] + lost);
            if (!(v * v <= slack * most))
                return fail_at(g->cx, g->path, t->name, row + j,
                               "is not finite, or larger than its row and column allow");
        }
    }
    return PARE_OK;
}

static pare_status fill_hessian(const pare_stats_group *g, const char *site, pare_site_stats *s)
{
    const size_t k = s->k;
    const pare_tensor *t;
    PARE_TRY(member(g, site, "h", PARE_F32, (uint64_t)k * (k + 1) / 2, 0, &t));
    PARE_TRY(unpack(g, t, k, s->tokens, s->h));
    PARE_TRY(member(g, site, "fourth", PARE_F64, k, 0, &t));
    PARE_TRY(doubles(g->cx, g->path, t, s->fourth));
    for (size_t j = 0; j < k; j++)
        if (s->fourth[j] < 0)
            return fail_at(g->cx, g->path, t->name, j, "is below 0");
    return PARE_OK;
}

/* Sums that fit each other, and what calib/stats.c derives from them. */
static pare_status fill_channels(const pare_stats_group *g, const char *site, pare_site_stats *s)
{
    const double tokens = (double)s->tokens, slack = 1 + 1e-6;
    const pare_tensor *t;
    PARE_TRY(member(g, site, "min", PARE_F32, s->k, 0, &t));
    PARE_TRY(floats(g->cx, g->path, t, s->min));
    PARE_TRY(member(g, site, "sum", PARE_F64, s->k, 0, &t));
    PARE_TRY(doubles(g->cx, g->path, t, s->sum));
    PARE_TRY(member(g, site, "abs_sum", PARE_F64, s->k, 0, &t));
    PARE_TRY(doubles(g->cx, g->path, t, s->abs_sum));
    for (size_t j = 0; j < s->k; j++)
        if (fabs(s->sum[j]) > slack * s->abs_sum[j])
            return fail_at(g->cx, g->path, t->name, j, "is below the sum that it belongs to");
    PARE_TRY(member(g, site, "max", PARE_F32, s->k, 0, &t));
    PARE_TRY(floats(g->cx, g->path, t, s->max));
    for (size_t j = 0; j < s->k; j++) {
        s->absmax[j] = fmaxf(fabsf(s->min[j]), fabsf(s->max[j]));
        if (s->max[j] < s->min[j] || s->abs_sum[j] > slack * tokens * (double)s->absmax[j])
            return fail_at(g->cx, g->path, t->name, j, "does not fit the least value and the sum");
        s->mean[j] = tokens > 0 ? (float)(s->sum[j] / tokens) : 0;
        s->absmean[j] = tokens > 0 ? (float)(s->abs_sum[j] / tokens) : 0;
    }
    return PARE_OK;
}

static pare_status fill_sample(const pare_stats_group *g, const char *site, pare_site_stats *s)
{
    const pare_tensor *t;
    s->samples = s->tokens < PARE_STATS_ROWS ? (size_t)s->tokens : PARE_STATS_ROWS;
    PARE_TRY(member(g, site, "sample", PARE_F32, s->samples, s->k, &t));
    return floats(g->cx, g->path, t, s->sample);
}

static pare_status fill_loudness(const pare_stats_group *g, const char *site, pare_site_stats *s)
{
    const pare_tensor *t;
    double value[2];
    PARE_TRY(member(g, site, "loudness", PARE_F64, 2, 0, &t));
    PARE_TRY(doubles(g->cx, g->path, t, value));
    if (value[1] < 0 || value[1] > value[0])
        return fail_at(g->cx, g->path, t->name, 1, "is no part of the energy of all tokens");
    s->loudness = (pare_loudness){.sum = value[0], .most = value[1]};
    return PARE_OK;
}

static pare_status fill_site(const pare_stats_group *g, const char *site, uint64_t total,
                             pare_site_stats *s)
{
    const pare_tensor *t;
    PARE_TRY(member(g, site, "tokens", PARE_U64, 1, 0, &t));
    memcpy(&s->tokens, t->data, sizeof s->tokens);
    if (s->tokens != total)
        return pare_fail(g->cx, PARE_EFORMAT, "%s: %s is %llu, not %llu", g->path, t->name,
                         (ull)s->tokens, (ull)total);
    if (s->h)
        PARE_TRY(fill_hessian(g, site, s));
    if (s->absmax)
        PARE_TRY(fill_channels(g, site, s));
    if (s->sample)
        PARE_TRY(fill_sample(g, site, s));
    return fill_loudness(g, site, s);
}

pare_status pare_stats_group_fill(const pare_stats_group *g, pare_stats *s)
{
    for (unsigned i = 0; i < PARE_SITES; i++)
        if (s->active & (1u << i))
            PARE_TRY(fill_site(g, pare_stats_site_names[i], s->total, &s->site[i]));
    return PARE_OK;
}

pare_status pare_stats_group_stream(const pare_stats_group *g, size_t window, size_t hidden,
                                    float *x)
{
    const pare_tensor *t;
    PARE_TRY(member(g, "", PARE__STATS_STREAM, PARE_F32, window, hidden, &t));
    return floats(g->cx, g->path, t, x);
}

pare_status pare_stats_group_outputs(const pare_stats_group *g, pare_output_curvature *out)
{
    const pare_tensor *t;
    const size_t rows = out->first[PARE_ROLES] / PARE_OUTPUT_BLOCK;
    PARE_TRY(member(g, "", PARE__STATS_OUTPUTS, PARE_F32, rows, PARE_OUTPUT_BLOCK, &t));
    PARE_TRY(floats(g->cx, g->path, t, out->o));
    for (size_t r = 0; r < rows; r++)
        if (out->o[r * PARE_OUTPUT_BLOCK + r % PARE_OUTPUT_BLOCK] < 0)
            return fail_at(g->cx, g->path, t->name, r * PARE_OUTPUT_BLOCK + r % PARE_OUTPUT_BLOCK,
                           "is on the diagonal and below 0");
    return PARE_OK;
}

bool pare_stats_group_experts(const pare_stats_group *g)
{
    char text[2 * PARE_STATS_GROUP];
    (void)snprintf(text, sizeof text, "%s." PARE__STATS_EXPERTS, g->name);
    return find(&g->file, text) != NULL;
}

pare_status pare_stats_group_routed(const pare_stats_group *g, size_t experts, uint64_t most,
                                    uint64_t *routed)
{
    const pare_tensor *t;
    PARE_TRY(member(g, "", PARE__STATS_EXPERTS, PARE_U64, experts, 0, &t));
    memcpy(routed, t->data, (size_t)t->bytes);
    for (size_t e = 0; e < experts; e++)
        if (routed[e] > most)
            return fail_at(g->cx, g->path, t->name, e, "is above the tokens of the calibration");
    return PARE_OK;
}
