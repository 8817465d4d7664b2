/* STORE/widths.json: what widths cost, in error and in time, so that a job that goes on, and one
 * with another target, choose by the same numbers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/budget/widths_internal.h"
#include "compress/text/text_out.h"
#include "compress/text/version.h"
#include "runtime/file.h"
#include "runtime/threads.h"

enum { FILE_BYTES = 4 << 20 };

static const double minute_ps = 60e12;

/* What the numbers depend on, but for the processor itself. */
static void put_about(const pare_widths *w, pare_text_out *t)
{
    const pare_ctx *const cx = w->b->cx;
    pare__text_put(
        t,
        "{\"program\": \"pare " PARE_VERSION "\", \"kernels\": \"%s\", "
        "\"threads\": %zu,\n \"model\": \"%s\",\n \"tokens\": \"%s\", \"window\": %zu,\n",
        pare_cpu_name(cx->cpu), pare_threads(cx), w->model, w->b->data.sha256, w->b->plan.window);
}

pare_status pare__widths_write(const pare_widths *w)
{
    pare_text_out t = {.cx = w->b->cx};
    put_about(w, &t);
    pare__text_put(&t, " \"token_ps\": %llu, \"widths\": [", (unsigned long long)w->token_ps);
    for (size_t i = 0; i < w->count; i++)
        pare__text_put(&t, "%s\n  {\"channels\": %zu, \"ps\": %llu}", i ? "," : "", w->width[i],
                       (unsigned long long)w->ps[i]);
    pare__text_put(&t, "],\n \"blocks\": [");
    for (size_t b = 0; b < w->blocks; b++) {
        pare__text_put(&t, "%s\n  {\"weight\": %.17g, \"errors\": [", b ? "," : "", w->weight[b]);
        for (size_t i = 0; i < w->count; i++)
            pare__text_put(&t, "%s%.17g", i ? ", " : "", w->error[b * w->count + i]);
        pare__text_put(&t, "]}");
    }
    pare__text_put(&t, "]}\n");
    return pare__text_save(&t, w->b->store, PARE_WIDTHS_FILE);
}

static bool is_text(const pare_json *object, const char *key, const char *want)
{
    const char *const text = pare_json_text(pare_json_get(object, key), NULL);
    return text && strcmp(text, want) == 0;
}

static bool is_size(const pare_json *object, const char *key, size_t want)
{
    return pare_json_integer(pare_json_get(object, key), -1) == (int64_t)want;
}

static bool read_ps(const pare_json *object, const char *key, uint64_t *out)
{
    const int64_t v = pare_json_integer(pare_json_get(object, key), 0);
    *out = (uint64_t)v;
    return v > 0 && (double)v < minute_ps;
}

static bool read_cost(const pare_json *v, double *out)
{
    *out = pare_json_number(v, -1);
    return *out >= 0 && isfinite(*out);
}

static bool read_block(pare_widths *w, const pare_json *block, size_t b)
{
    const pare_json *const errors = pare_json_get(block, "errors");
    bool all = read_cost(pare_json_get(block, "weight"), &w->weight[b]) &&
               pare_json_count(errors) == w->count;
    for (size_t i = 0; all && i < w->count; i++)
        all = read_cost(pare_json_at(errors, i), &w->error[b * w->count + i]);
    return all;
}

static bool understand(pare_widths *w, const pare_json *doc)
{
    const pare_ctx *const cx = w->b->cx;
    const pare_json *const widths = pare_json_get(doc, "widths");
    const pare_json *const blocks = pare_json_get(doc, "blocks");
    bool all = is_text(doc, "program", "pare " PARE_VERSION) &&
               is_text(doc, "kernels", pare_cpu_name(cx->cpu)) &&
               is_size(doc, "threads", pare_threads(cx)) && is_text(doc, "model", w->model) &&
               is_text(doc, "tokens", w->b->data.sha256) &&
               is_size(doc, "window", w->b->plan.window) &&
               read_ps(doc, "token_ps", &w->token_ps) && pare_json_count(widths) == w->count &&
               pare_json_count(blocks) == w->blocks;
    for (size_t i = 0; all && i < w->count; i++) {
        const pare_json *const v = pare_json_at(widths, i);
        all = is_size(v, "channels", w->width[i]) && read_ps(v, "ps", &w->ps[i]);
    }
    for (size_t b = 0; all && b < w->blocks; b++)
        all = read_block(w, pare_json_at(blocks, b), b);
    return all;
}

static pare_status hash_model(pare_widths *w)
{
    const pare_checkpoint *const ck = &w->b->plan.checkpoint;
    uint8_t(*const each)[16] = pare_arena_take(w->b->a, ck->files, sizeof *each), all[16];
    if (!each)
        return PARE_ENOMEM;
    PARE_TRY(pare_xxh3_files(w->b->cx, "hashing the model", ck->file, ck->files, each));
    pare_xxh3(each, ck->files * sizeof *each, all);
    pare_xxh3_text(all, w->model);
    return PARE_OK;
}

pare_status pare__widths_read(pare_widths *w, bool *known)
{
    pare_budget *const b = w->b;
    char *text;
    size_t len;
    pare_json *doc = NULL;
    *known = false;
    PARE_TRY(hash_model(w));
    char *const path = pare_path_join(b->a, b->store, PARE_WIDTHS_FILE);
    if (!path)
        return PARE_ENOMEM;
    if (!pare_path_is_file(path))
        return PARE_OK;
    if (pare_file_read(b->cx, b->a, path, FILE_BYTES, &text, &len) == PARE_OK &&
        pare_json_parse(b->cx, path, text, len, FILE_BYTES, &doc) == PARE_OK)
        *known = understand(w, doc);
    pare_json_free(doc);
    pare_ctx_clear(b->cx);
    if (!*known)
        pare__budget_tell(b,
                          "%s: of another model, calibration or machine; widths are measured "
                          "anew",
                          path);
    return PARE_OK;
}
