/* A file becomes a list of times with their keys; two lists are matched by key and metric. */
#include "compress/bench/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "runtime/file.h"

enum { FILE_MAX = 16 * 1024 * 1024, ROWS_MAX = 4096, KEY_MAX = 192, TEXT_MAX = 96 };

typedef struct item {
    const char *key, *metric;
    const char *tail;    /* the key with only the last part of a model's path */
    double value, share; /* share NAN: none */
    bool matched;
} item;

/* One file. Its items live in the arena, not in the document. */
typedef struct result {
    pare_ctx *cx;
    pare_arena *arena;
    const char *path;
    pare_json *doc;
    bool model;
    item *item;
    size_t items;
} result;

static pare_status malformed(const result *r, size_t row, const char *why)
{
    return pare_fail(r->cx, PARE_EFORMAT, "%s: row %zu %s", r->path, row, why);
}

/* A time is a positive number; a share one, or null. tail: what of the key is no folder. */
static pare_status add_item(result *r, size_t row, const pare_json *v, const char *key, size_t tail,
                            const char *metric, const char *share)
{
    item *const i = &r->item[r->items];
    const double value = pare_json_number(pare_json_get(v, metric), -1);
    if (!(isfinite(value) && value > 0)) {
        char why[KEY_MAX];
        (void)snprintf(why, sizeof why, "(%.96s) has no time \"%s\" above 0", key, metric);
        return malformed(r, row, why);
    }
    const double s = pare_json_number(share ? pare_json_get(v, share) : NULL, (double)NAN);
    *i = (item){.metric = metric, .value = value, .share = s > 0 ? s : (double)NAN};
    i->key = pare_arena_text(r->arena, key, strlen(key));
    i->tail = pare_arena_text(r->arena, key + tail, strlen(key + tail));
    if (!i->key || !i->tail)
        return PARE_ENOMEM;
    for (size_t j = 0; j < r->items; j++)
        if (strcmp(r->item[j].key, key) == 0 && strcmp(r->item[j].metric, metric) == 0) {
            char why[KEY_MAX + 64];
            (void)snprintf(why, sizeof why, "(%.96s) stands there twice", key);
            return malformed(r, row, why);
        }
    r->items++;
    return PARE_OK;
}

/* A text or a whole number of a row; what has neither is "-". Of a long text, such as the path of a
 * model, the end: that is where paths differ. */
static void append(char key[KEY_MAX], const pare_json *v, const char *before, const char *name)
{
    size_t len = 0;
    const size_t used = strlen(key);
    const char *text = pare_json_text(pare_json_get(v, name), &len);
    const int64_t number = pare_json_integer(pare_json_get(v, name), -1);
    for (; len > TEXT_MAX || (len && (*text & 0xc0) == 0x80); len--) /* not into a character */
        text++;
    if (text)
        (void)snprintf(key + used, KEY_MAX - used, "%s%.*s", before, (int)len, text);
    else if (number >= 0)
        (void)snprintf(key + used, KEY_MAX - used, "%s%lld", before, (long long)number);
    else
        (void)snprintf(key + used, KEY_MAX - used, "%s-", before);
}

static pare_status add_kernel(result *r, size_t row, const pare_json *v)
{
    char key[KEY_MAX] = "";
    append(key, v, "", "kernel");
    append(key, v, " g", "group");
    append(key, v, " ", "n");
    append(key, v, "x", "k");
    append(key, v, " m", "m");
    append(key, v, " t", "threads");
    return add_item(r, row, v, key, 0, "us", "share");
}

/* Slashes at the end of a path say nothing. Returns where its last part begins. */
static size_t last_part(char key[KEY_MAX])
{
    size_t len = strlen(key);
    while (len > 1 && key[len - 1] == '/')
        key[--len] = '\0';
    const char *const slash = strrchr(key, '/');
    return slash && slash[1] ? (size_t)(slash - key) + 1 : 0;
}

static pare_status add_model(result *r, size_t row, const pare_json *v)
{
    char key[KEY_MAX] = "";
    append(key, v, "", "model");
    const size_t tail = last_part(key);
    append(key, v, " ", "weights");
    append(key, v, " g", "group");
    append(key, v, " kv ", "kv_method");
    append(key, v, " batch ", "batch");
    append(key, v, " ", "prompt");
    append(key, v, "+", "output");
    append(key, v, " t", "threads");
    PARE_TRY(add_item(r, row, v, key, tail, "ttft_ms", "prefill_share"));
    return add_item(r, row, v, key, tail, "tpot_ms", "decode_share");
}

static pare_status add_gptq(result *r, const pare_json *v)
{
    char key[KEY_MAX] = "gptq";
    append(key, v, " g", "group");
    append(key, v, " ", "n");
    append(key, v, "x", "k");
    append(key, v, " t", "threads");
    return add_item(r, r->items, v, key, 0, "seconds", NULL);
}

static bool is_text(const pare_json *v, const char *word)
{
    size_t len = 0;
    const char *const text = pare_json_text(v, &len);
    return text && len == strlen(word) && memcmp(text, word, len) == 0;
}

/* Whether this is a result of the bench, and of what. */
static pare_status read_kind(result *r)
{
    const pare_json *const kind = pare_json_get(r->doc, "kind");
    const pare_json *const rows = pare_json_get(r->doc, "rows");
    r->model = is_text(kind, "model");
    const bool known = !kind || r->model || is_text(kind, "kernels");
    if (pare_json_type_of(rows) != PARE_JSON_ARRAY || !pare_json_get(r->doc, "limits") || !known)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: not a result of \"pare bench --format json\" (no \"limits\" and "
                         "\"rows\", or another \"kind\")",
                         r->path);
    if (pare_json_count(rows) > ROWS_MAX)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: %zu rows, at most %d are read", r->path,
                         pare_json_count(rows), ROWS_MAX);
    return PARE_OK;
}

static pare_status add_row(result *r, size_t row, const pare_json *v)
{
    if (pare_json_type_of(pare_json_get(v, r->model ? "model" : "kernel")) != PARE_JSON_STRING)
        return malformed(r, row, r->model ? "names no \"model\"" : "names no \"kernel\"");
    return r->model ? add_model(r, row, v) : add_kernel(r, row, v);
}

static pare_status read_rows(result *r)
{
    PARE_TRY(read_kind(r));
    const pare_json *const rows = pare_json_get(r->doc, "rows");
    const size_t count = pare_json_count(rows);
    r->item = PARE_NEW(r->arena, item, 2 * count + 1);
    if (!r->item)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        PARE_TRY(add_row(r, i, pare_json_at(rows, i)));
    const pare_json *const gptq = pare_json_get(r->doc, "gptq");
    return pare_json_type_of(gptq) == PARE_JSON_OBJECT ? add_gptq(r, gptq) : PARE_OK;
}

static pare_status open_result(result *r)
{
    char *text;
    size_t len;
    PARE_TRY(pare_file_read(r->cx, r->arena, r->path, FILE_MAX, &text, &len));
    PARE_TRY(pare_json_parse(r->cx, r->path, text, len, FILE_MAX, &r->doc));
    return read_rows(r);
}

/* A warning when a member of the two documents differs, or only one has it. */
static void warn(const result *a, const result *b, const char *name, const char *what,
                 pare_bench_comparison *out)
{
    char x[KEY_MAX] = "", y[KEY_MAX] = "";
    append(x, a->doc, "", name);
    append(y, b->doc, "", name);
    if (strcmp(x, y) != 0 && out->warnings < PARE_BENCH_WARNINGS)
        (void)snprintf(out->warning[out->warnings++], PARE_BENCH_WARNING_TEXT,
                       "%s differs: %.96s and %.96s", what, x, y);
}

static pare_verdict judge(const pare_bench_change *c, double tolerance)
{
    if (1 / c->ratio > 1 + tolerance)
        return PARE_VERDICT_FASTER;
    if (!(c->ratio > 1 + tolerance))
        return PARE_VERDICT_SAME;
    return c->share_ratio * (1 + tolerance) >= 1 ? PARE_VERDICT_SHARE_HELD : PARE_VERDICT_SLOWER;
}

static void add_change(pare_bench_comparison *out, const item *a, const item *b, double tolerance)
{
    pare_bench_change *const c = &out->change[out->changes++];
    const double none = (double)NAN;
    *c = (pare_bench_change){.key = a ? a->key : b->key,
                             .metric = a ? a->metric : b->metric,
                             .before = a ? a->value : none,
                             .after = b ? b->value : none,
                             .share_before = a ? a->share : none,
                             .share_after = b ? b->share : none};
    c->ratio = c->after / c->before;
    c->share_ratio = c->share_after / c->share_before;
    c->verdict = !b ? PARE_VERDICT_ONLY_BEFORE : !a ? PARE_VERDICT_ONLY_AFTER : judge(c, tolerance);
    out->missing += !a || !b;
    out->lost += !b;
    out->faster += c->verdict == PARE_VERDICT_FASTER;
    out->share_held += c->verdict == PARE_VERDICT_SHARE_HELD;
    out->slower += c->verdict == PARE_VERDICT_SLOWER || c->verdict == PARE_VERDICT_SHARE_HELD;
}

static bool measures(const item *i, const item *j, bool whole)
{
    return strcmp(i->metric, j->metric) == 0 &&
           strcmp(whole ? i->key : i->tail, whole ? j->key : j->tail) == 0;
}

/* How many of r nobody has found have this metric and, folders apart, this key; *last is one. */
static size_t alike(result *r, const item *i, item **last)
{
    size_t count = 0;
    for (size_t j = 0; j < r->items; j++)
        if (!r->item[j].matched && measures(i, &r->item[j], false)) {
            *last = &r->item[j];
            count++;
        }
    return count;
}

/* The partners of a's items, or NULL: those of the same key, then the only ones of the same name
 * in other folders. */
static void find_partners(result *a, result *b, item **partner, pare_bench_comparison *out)
{
    for (size_t i = 0; i < a->items; i++)
        for (size_t j = 0; j < b->items && !partner[i]; j++)
            if (measures(&a->item[i], &b->item[j], true)) {
                partner[i] = &b->item[j];
                a->item[i].matched = b->item[j].matched = true;
            }
    bool named = false;
    for (size_t i = 0; i < a->items; i++) {
        item *own = NULL, *other = NULL;
        if (partner[i] || alike(a, &a->item[i], &own) != 1 || alike(b, own, &other) != 1)
            continue;
        partner[i] = other;
        own->matched = other->matched = true;
        if (!named && out->warnings < PARE_BENCH_WARNINGS)
            (void)snprintf(out->warning[out->warnings++], PARE_BENCH_WARNING_TEXT,
                           "models of one name in different folders are compared: \"%.96s\" and "
                           "\"%.96s\"",
                           own->key, other->key);
        named = true;
    }
}

static pare_status match(result *a, result *b, double tolerance, pare_bench_comparison *out)
{
    item **const partner = PARE_NEW(a->arena, item *, a->items);
    out->change = PARE_NEW(a->arena, pare_bench_change, a->items + b->items);
    if (!partner || !out->change)
        return PARE_ENOMEM;
    find_partners(a, b, partner, out);
    for (size_t i = 0; i < a->items; i++)
        add_change(out, &a->item[i], partner[i], tolerance);
    for (size_t j = 0; j < b->items; j++)
        if (!b->item[j].matched)
            add_change(out, NULL, &b->item[j], tolerance);
    if (out->missing == out->changes)
        return pare_fail(a->cx, PARE_EUSAGE,
                         "%s and %s have no row in common; rows are matched by kernel or model, "
                         "sizes and threads",
                         a->path, b->path);
    return PARE_OK;
}

static pare_status compare(result *a, result *b, double tolerance, pare_bench_comparison *out)
{
    PARE_TRY(open_result(a));
    PARE_TRY(open_result(b));
    if (a->model != b->model)
        return pare_fail(a->cx, PARE_EUSAGE, "%s is of %s, %s of %s: there is nothing to compare",
                         a->path, a->model ? "a model" : "kernels", b->path,
                         b->model ? "a model" : "kernels");
    out->kind = a->model ? "model" : "kernels";
    warn(a, b, "cpu", "processor", out);
    warn(a, b, "cpu_level", "level of the kernels", out);
    warn(a, b, "threads", "number of threads", out);
    warn(a, b, "program", "program", out);
    return match(a, b, tolerance, out);
}

pare_status pare_bench_compare(pare_ctx *cx, pare_arena *a, const char *before, const char *after,
                               double tolerance, pare_bench_comparison *out)
{
    result x = {.cx = cx, .arena = a, .path = before}, y = {.cx = cx, .arena = a, .path = after};
    memset(out, 0, sizeof *out);
    const pare_status s = compare(&x, &y, tolerance, out);
    if (x.doc)
        pare_json_free(x.doc);
    if (y.doc)
        pare_json_free(y.doc);
    return s;
}

const char *pare_verdict_text(pare_verdict v)
{
    static const char *const text[] = {"same",
                                       "faster",
                                       "slower",
                                       "slower, share held",
                                       "only in the first",
                                       "only in the second"};
    return text[v];
}
