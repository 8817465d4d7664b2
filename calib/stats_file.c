#include "calib/stats_file.h"

#include <stdio.h>
#include <string.h>

#include "calib/stats_file_names.h"
#include "formats/json.h"

const char *const pare_stats_site_names[PARE_SITES] = {"attention", "q_latent", "kv_latent",
                                                       "attended",  "mlp",      "activated"};

const char *pare_stats_group_name(size_t block, size_t part, char name[PARE_STATS_GROUP])
{
    if (part == 0)
        (void)snprintf(name, PARE_STATS_GROUP, "block%05u", (unsigned)block);
    else
        (void)snprintf(name, PARE_STATS_GROUP, "block%05u_expert%05u", (unsigned)block,
                       (unsigned)part - 1);
    return name;
}

/* --- what differs ------------------------------------------------------------------------------
 */

static bool differ_text(const char *a, const char *b, char values[2][128])
{
    (void)snprintf(values[0], sizeof values[0], "%s", a);
    (void)snprintf(values[1], sizeof values[1], "%s", b);
    return strcmp(a, b) != 0;
}

static bool differ_number(size_t a, size_t b, char values[2][128])
{
    (void)snprintf(values[0], sizeof values[0], "%zu", a);
    (void)snprintf(values[1], sizeof values[1], "%zu", b);
    return a != b;
}

const char *pare_stats_about_differ(const pare_stats_about *a, const pare_stats_about *b,
                                    char values[2][128])
{
    if (differ_number(a->files, b->files, values))
        return "number of model files";
    for (size_t i = 0; i < a->files; i++)
        if (differ_text(a->file[i], b->file[i], values))
            return "model";
    if (differ_text(a->nan, b->nan, values))
        return "nan";
    if (differ_number(a->window, b->window, values))
        return "window";
    if (differ_number(a->samples, b->samples, values))
        return "samples";
    if (differ_text(a->tokens_sha256, b->tokens_sha256, values))
        return "SHA-256 of the tokens";
    if (differ_text(a->seed, b->seed, values))
        return "seed";
    if (differ_text(a->precision, b->precision, values))
        return "precision";
    if (differ_text(a->token_weights, b->token_weights, values))
        return "token_weights";
    if (a->experts && differ_number(a->min_tokens, b->min_tokens, values))
        return "min_tokens of experts";
    return a->experts && differ_text(a->cold, b->cold, values) ? "cold of experts" : NULL;
}

/* --- size --------------------------------------------------------------------------------------
 */

static uint64_t part_bytes(const pare_config *c, size_t part)
{
    enum { DATASETS = 9, HEADER = 4096 }; /* with the index of the chunks */
    uint64_t bytes = 0;
    for (unsigned s = 0; s < PARE_SITES; s++) {
        const uint64_t k = pare_site_width(c, part, (pare_site)s);
        if (k)
            bytes += k * (k + 1) / 2 * sizeof(float) +
                     k * (2 * sizeof(float) + 3 * sizeof(double)) +
                     k * PARE_STATS_ROWS * sizeof(float) + DATASETS * HEADER;
    }
    return bytes;
}

/* Chunks that gzip makes larger, their index and checksums: less than one part in 32. */
uint64_t pare_stats_file_bytes(const pare_config *c, const pare_stats_about *about)
{
    enum { HEAD = 1 << 20, GROUP = 16384 };
    const uint64_t window = about->window;
    const uint64_t block = part_bytes(c, 0) + GROUP + window * c->hidden * sizeof(float) +
                           pare_output_curvature_floats(c) * sizeof(float);
    const uint64_t experts = (c->blocks - c->dense_blocks) * c->experts;
    const uint64_t expert = experts ? part_bytes(c, 1) + GROUP : 0;
    const uint64_t ids = ((uint64_t)about->samples + about->held_out) * window * sizeof(int32_t);
    const uint64_t all = HEAD + c->blocks * block + experts * expert + ids;
    return all + all / 32;
}

/* --- writing -----------------------------------------------------------------------------------
 */

static pare_status put(pare_hdf5_writer *w, const char *group, const char *site, const char *name,
                       pare_dtype dtype, uint64_t n, uint64_t k, const void *data, bool gzip)
{
    char text[2 * PARE_STATS_GROUP + 16];
    (void)snprintf(text, sizeof text, "%s%s%s%s%s", group, *group ? "." : "", site,
                   *site ? "." : "", name);
    pare_tensor t = {
        .name = text, .dtype = dtype, .rank = k ? 2 : 1, .shape = {n, k}, .data = data};
    PARE_TRY(pare_tensor_bytes(t.dtype, t.rank, t.shape, &t.bytes));
    return pare_hdf5_put(w, &t, gzip);
}

static void write_about(pare_json_writer *w, const pare_stats_about *about)
{
    char fresh[24];
    (void)snprintf(fresh, sizeof fresh, "%llu", (unsigned long long)about->fresh);
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "format", PARE_STATS_FILE_FORMAT);
    pare_json_put_integer(w, "version", PARE_STATS_FILE_VERSION);
    pare_json_put_text(w, "program", about->program);
    pare_json_open_array(w, "model");
    for (size_t i = 0; i < about->files; i++)
        pare_json_put_text(w, NULL, about->file[i]);
    pare_json_close(w);
    pare_json_put_text(w, "nan", about->nan);
    pare_json_put_text(w, "family", about->family);
    pare_json_put_integer(w, "blocks", (int64_t)about->blocks);
    pare_json_put_integer(w, "hidden", (int64_t)about->hidden);
    pare_json_put_integer(w, "experts", (int64_t)about->experts);
    pare_json_put_integer(w, "samples", (int64_t)about->samples);
    pare_json_put_integer(w, "window", (int64_t)about->window);
    pare_json_put_text(w, "tokens_sha256", about->tokens_sha256);
    pare_json_put_integer(w, "held_out", (int64_t)about->held_out);
    pare_json_put_text(w, "held_out_sha256", about->held_out_sha256);
    pare_json_put_text(w, "fresh", fresh);
    pare_json_put_text(w, "seed", about->seed);
    pare_json_put_text(w, "precision", about->precision);
    pare_json_put_text(w, "token_weights", about->token_weights);
    pare_json_put_integer(w, "min_tokens", (int64_t)about->min_tokens);
    pare_json_put_text(w, "cold", about->cold);
    pare_json_close(w);
}

static pare_status put_about(pare_hdf5_writer *w, const pare_stats_about *about)
{
    pare_json_writer *json = NULL;
    const char *text;
    size_t len;
    PARE_TRY(pare_json_writer_new(w->cx, &json));
    write_about(json, about);
    pare_status s = pare_json_writer_finish(json, &text, &len);
    if (s == PARE_OK)
        s = put(w, "", "", PARE__STATS_SETTINGS, PARE_U8, len, 0, text, false);
    pare_json_writer_free(json);
    return s;
}

pare_status pare_stats_file_begin(pare_hdf5_writer *w, const pare_stats_about *about,
                                  const pare_tokens *tokens, const pare_tokens *held_out)
{
    PARE_TRY(put_about(w, about));
    PARE_TRY(put(w, "", "", PARE__STATS_TOKENS, PARE_I32, about->samples, about->window, tokens->id,
                 true));
    return about->held_out ? put(w, "", "", PARE__STATS_HELD_OUT, PARE_I32, about->held_out,
                                 about->window, held_out->id, true)
                           : PARE_OK;
}

pare_status pare_stats_file_put_block(pare_hdf5_writer *w, const pare_config *c, size_t window,
                                      size_t block, const pare_stats_block *b)
{
    char group[PARE_STATS_GROUP];
    (void)pare_stats_group_name(block, 0, group);
    PARE_TRY(put(w, group, "", PARE__STATS_STREAM, PARE_F32, window, c->hidden, b->stream, true));
    if (b->outputs)
        PARE_TRY(put(w, group, "", PARE__STATS_OUTPUTS, PARE_F32,
                     b->outputs->first[PARE_ROLES] / PARE_OUTPUT_BLOCK, PARE_OUTPUT_BLOCK,
                     b->outputs->o, true));
    return b->routed
               ? put(w, group, "", PARE__STATS_EXPERTS, PARE_U64, c->experts, 0, b->routed, false)
               : PARE_OK;
}

static void pack(const float *h, size_t k, float *packed)
{
    for (size_t i = 0; i < k; i++) {
        memcpy(packed, h + i * k, (i + 1) * sizeof *h);
        packed += i + 1;
    }
}

static pare_status put_site(pare_hdf5_writer *w, pare_arena *scratch, const char *group,
                            const char *site, const pare_site_stats *s)
{
    const size_t k = s->k, cells = k * (k + 1) / 2;
    const double loudness[2] = {s->loudness.sum, s->loudness.most};
    const pare_mark mark = pare_arena_mark(scratch);
    float *const packed = PARE_NEW(scratch, float, cells);
    if (!packed)
        return PARE_ENOMEM;
    pack(s->h, k, packed);
    pare_status st = put(w, group, site, "h", PARE_F32, cells, 0, packed, true);
    pare_arena_rewind(scratch, mark);
    PARE_TRY(st);
    PARE_TRY(put(w, group, site, "tokens", PARE_U64, 1, 0, &s->tokens, false));
    PARE_TRY(put(w, group, site, "fourth", PARE_F64, k, 0, s->fourth, true));
    PARE_TRY(put(w, group, site, "min", PARE_F32, k, 0, s->min, true));
    PARE_TRY(put(w, group, site, "max", PARE_F32, k, 0, s->max, true));
    PARE_TRY(put(w, group, site, "sum", PARE_F64, k, 0, s->sum, true));
    PARE_TRY(put(w, group, site, "abs_sum", PARE_F64, k, 0, s->abs_sum, true));
    PARE_TRY(put(w, group, site, "sample", PARE_F32, s->samples, k, s->sample, true));
    return put(w, group, site, "loudness", PARE_F64, 2, 0, loudness, false);
}

pare_status pare_stats_file_put_part(pare_hdf5_writer *w, pare_arena *scratch, size_t block,
                                     size_t part, const pare_stats *s)
{
    char group[PARE_STATS_GROUP];
    (void)pare_stats_group_name(block, part, group);
    for (unsigned i = 0; i < PARE_SITES; i++)
        if (s->site[i].k)
            PARE_TRY(put_site(w, scratch, group, pare_stats_site_names[i], &s->site[i]));
    return PARE_OK;
}
