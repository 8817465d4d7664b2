/* An artifact as one GGUF file: place, writing, what became of it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compress/export_file_run.h"
#include "compress/output.h"
#include "compress/version.h"
#include "formats/gguf.h"
#include "runtime/file.h"

static const char program[] = "pare " PARE_VERSION;

/* Whether a file is one that an export wrote. */
static bool is_ours(pare__export *e, const char *path)
{
    const pare_mark m = pare_arena_mark(&e->scratch);
    pare_file f = {0};
    pare_gguf g;
    const char *text = NULL;
    size_t len = 0;
    pare_status s = pare_file_map(e->cx, &e->scratch, path, &f);
    if (s == PARE_OK)
        s = pare_gguf_parse(e->cx, &e->scratch, path, f.data, f.bytes, &g);
    const bool ours = s == PARE_OK &&
                      pare_gguf_text(pare_gguf_find(&g, "general.quantized_by"), &text, &len) &&
                      len >= 5 && memcmp(text, "pare ", 5) == 0;
    pare_ctx_clear(e->cx);
    pare_file_unmap(&f);
    pare_arena_rewind(&e->scratch, m);
    return ours;
}

/* An unfinished one: empty, or with the first word of the format. */
static bool is_unfinished(pare__export *e, const char *path)
{
    const pare_mark m = pare_arena_mark(&e->scratch);
    pare_file f = {0};
    const pare_status s = pare_file_map(e->cx, &e->scratch, path, &f);
    const bool is =
        s == PARE_OK && (f.bytes == 0 || (f.bytes >= 4 && memcmp(f.data, "GGUF", 4) == 0));
    pare_ctx_clear(e->cx);
    pare_file_unmap(&f);
    pare_arena_rewind(&e->scratch, m);
    return is;
}

pare_status pare__export_gguf_place(pare__export *e)
{
    const char *const to = e->job->output;
    const size_t len = strlen(to);
    struct stat st;
    if (len == 0 || to[len - 1] == '/')
        return pare_fail(e->cx, PARE_EUSAGE, "\"%s\": the output of %s is a file", to,
                         e->job->target->name);
    e->output = pare_arena_text(e->a, to, len);
    e->partial = PARE_NEW(e->a, char, len + sizeof ".partial");
    if (!e->output || !e->partial)
        return PARE_ENOMEM;
    memcpy(e->partial, to, len);
    memcpy(e->partial + len, ".partial", sizeof ".partial");
    if (lstat(e->output, &st) == 0) {
        if (!S_ISREG(st.st_mode))
            return pare_fail(e->cx, PARE_EEXISTS, "%s: is no plain file; give another --output",
                             to);
        if (!e->job->restart)
            return pare_fail(e->cx, PARE_EEXISTS, "%s: exists; --restart replaces it", to);
        if (!is_ours(e, e->output))
            return pare_fail(e->cx, PARE_EEXISTS,
                             "%s: is no export of pare, so --restart does not replace it; give "
                             "another --output",
                             to);
    }
    if (lstat(e->partial, &st) == 0 && (!S_ISREG(st.st_mode) || !is_unfinished(e, e->partial)))
        return pare_fail(e->cx, PARE_EEXISTS,
                         "%s: is where the work would go, and is no unfinished export; move it "
                         "away or give another --output",
                         e->partial);
    return PARE_OK;
}

/* The row of a linear, NULL for other tensors. */
static pare_export_row *row_of(const pare__gguf_run *r, const pare_gguf_item *t)
{
    const pare_export_model *const m = &r->e->shape;
    for (size_t i = 0; i < m->linears; i++) {
        const size_t len = strlen(m->linear[i].name);
        if (t->linear ? t->linear == &m->linear[i]
                      : t->tensor && strncmp(t->tensor->name, m->linear[i].name, len) == 0 &&
                            strcmp(t->tensor->name + len, ".weight") == 0)
            return &r->e->out->row[i];
    }
    return NULL;
}

static pare_status refuse_strict(const pare__gguf_run *r, const pare_gguf_item *t)
{
    char text[PARE_PACKED_TEXT];
    (void)pare_packed_linear_text(&t->linear->packed, text);
    return pare_fail(r->e->cx, PARE_ENOTSUP,
                     t->fallback ? "%s: linear %s (%s): rows of %zu are no whole blocks, it would "
                                   "become %s, which --strict refuses"
                                 : "%s: linear %s (%s): rows of %zu have no codes of this format "
                                   "and would be quantized again to %s, which --strict refuses",
                     r->e->job->target->name, t->linear->name, text, t->linear->packed.k,
                     t->type->name);
}

static pare_status take_rows(pare__gguf_run *r)
{
    pare__export *const e = r->e;
    char text[PARE_PACKED_TEXT];
    e->out->row = PARE_NEW(e->a, pare_export_row, e->shape.linears);
    if (!e->out->row)
        return PARE_ENOMEM;
    for (size_t i = 0; i < e->shape.linears; i++)
        e->out->row[i] =
            (pare_export_row){.name = e->shape.linear[i].name, .fate = PARE_EXPORT_FLOAT};
    for (size_t i = 0; i < r->items; i++) {
        const pare_gguf_item *const t = &r->item[i];
        pare_export_row *const row = row_of(r, t);
        r->row[i] = row;
        if (!row)
            continue;
        row->type = t->type->name;
        row->fallback = t->fallback;
        if (!t->linear)
            continue;
        row->fate = t->way == PARE_GGUF_CODES    ? PARE_EXPORT_LOSSLESS
                    : t->way == PARE_GGUF_FLOATS ? PARE_EXPORT_ROUNDED
                                                 : PARE_EXPORT_REQUANTIZED;
        (void)pare_packed_linear_text(&t->linear->packed, text);
        row->was = pare_arena_text(e->a, text, strlen(text));
        if (!row->was)
            return PARE_ENOMEM;
        if (e->job->strict && (t->fallback || row->fate == PARE_EXPORT_REQUANTIZED))
            return refuse_strict(r, t);
    }
    return PARE_OK;
}

static pare_status write_all(pare__gguf_run *r)
{
    pare__export *const e = r->e;
    PARE_TRY(pare_gguf_create(&r->w, e->partial));
    for (size_t i = 0; i < r->items; i++) {
        PARE_TRY(pare_ctx_interrupted(e->cx));
        pare_ctx_progress(e->cx, "writing", (double)i, (double)r->items);
        const pare_mark m = pare_arena_mark(&e->scratch);
        const uint64_t bytes = r->w.slot[i].bytes;
        void *const data = pare_arena_take_raw(&e->scratch, 1, (size_t)bytes);
        pare_status s =
            data ? pare_gguf_encode(e->cx, &e->scratch, &r->item[i], bytes, data) : PARE_ENOMEM;
        if (s == PARE_OK)
            s = pare_gguf_fill(&r->w, i, data);
        pare_arena_rewind(&e->scratch, m);
        PARE_TRY(s);
    }
    return pare_gguf_sync(&r->w);
}

static pare_status describe(pare__gguf_run *r)
{
    pare__export *const e = r->e;
    const char *const block = e->job->target->block;
    PARE_TRY(pare_gguf_items(e->cx, e->a, &e->ck, &e->shape, e->plane, block, &r->item, &r->items));
    r->row = PARE_NEW(e->a, pare_export_row *, r->items);
    if (!r->row)
        return PARE_ENOMEM;
    PARE_TRY(take_rows(r));
    PARE_TRY(pare_gguf_begin(e->cx, e->a, r->items, &r->w));
    PARE_TRY(pare_gguf_describe(e->cx, &e->model.config, block, program, &r->w));
    PARE_TRY(pare_gguf_describe_tokenizer(e->cx, e->a, &e->ck, &e->model.config, &r->w));
    for (size_t i = 0; i < r->items; i++)
        (void)pare_gguf_add(&r->w, r->item[i].name, r->item[i].type, r->item[i].rank,
                            r->item[i].shape);
    return PARE_OK;
}

static pare_status sum_up(pare__gguf_run *r)
{
    pare__export *const e = r->e;
    size_t fallbacks = 0;
    char text[256];
    e->out->rows = e->shape.linears;
    for (size_t i = 0; i < e->out->rows; i++) {
        e->out->count[e->out->row[i].fate]++;
        fallbacks += e->out->row[i].fallback;
    }
    e->out->bytes = r->w.bytes;
    int len = snprintf(text, sizeof text,
                       "embeddings and what the artifact keeps in floats are "
                       "floats here, too");
    if (fallbacks)
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "; rows of %zu linears are no whole blocks of the type, they have others",
                        fallbacks);
    if (e->model.kv.method != PARE_KV_FLOAT)
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "; engines choose their own key/value cache");
    e->out->notice = pare_arena_text(e->a, text, (size_t)len);
    return e->out->notice ? PARE_OK : PARE_ENOMEM;
}

pare_status pare__export_gguf(pare__export *e)
{
    pare__gguf_run r = {.e = e, .w = {.fd = -1}};
    pare_status s = describe(&r);
    if (s == PARE_OK)
        s = write_all(&r);
    pare_gguf_close(&r.w);
    if (s == PARE_OK)
        s = pare__export_gguf_check(&r);
    if (s == PARE_OK)
        s = sum_up(&r);
    const bool replace = e->job->restart && pare_path_is_file(e->output);
    if (s == PARE_OK)
        s = pare_output_publish(e->cx, e->partial, e->output, replace);
    if (r.w.path && (s != PARE_OK || replace))
        (void)unlink(e->partial);
    return s;
}
