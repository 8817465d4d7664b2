/* Files of documents: a JSON object on each line, CSV, or (wikitext) the text itself. */
#include <stdio.h>
#include <string.h>

#include "compress/evaluate/task_internal.h"
#include "formats/unicode.h"
#include "runtime/file.h"

typedef struct reading {
    pare__task_reading r;
    const pare_task_row *task;
    size_t limit; /* SIZE_MAX: all */
    pare__task_item *item;
    size_t count, all;
    int *label; /* of each document, where labels stand beside the file */
    pare__by by;
} reading;

static bool ends_in(const char *path, const char *suffix)
{
    const size_t len = strlen(path), tail = strlen(suffix);
    return len >= tail && strcmp(path + len - tail, suffix) == 0;
}

/* A document of pare's own form, which is of no task. */
static bool is_own(const pare_json *doc)
{
    return pare_json_type_of(pare_json_get(doc, "context")) == PARE_JSON_STRING &&
           pare_json_type_of(pare_json_get(doc, "choices")) == PARE_JSON_ARRAY &&
           pare_json_type_of(pare_json_get(doc, "answer")) == PARE_JSON_INTEGER;
}

static pare_status read_doc(reading *r, const pare_json *doc)
{
    pare__task_item *const out = &r->item[r->count];
    if (pare_json_type_of(doc) != PARE_JSON_OBJECT)
        return pare__choice_fail(&r->r.at, "a document of %s must be an object {%s}, and is %s",
                                 r->task->name, r->task->keys, pare__kind_of(doc));
    r->r.at.label = r->label ? &r->label[r->count] : NULL;
    out->text.line = r->r.at.line;
    const pare_status s = r->task->choice ? r->task->choice(&r->r.at, doc, &out->text)
                                          : r->task->read(&r->r, doc, out);
    if (s == PARE_EFORMAT && is_own(doc))
        return pare_fail_after(r->r.at.cx, s,
                               "the document has pare's own form, which --choice FILE reads (in a "
                               "recipe choice: FILE), and not that of %s",
                               r->task->name);
    PARE_TRY(s);
    PARE_TRY(pare__take_by(&r->r.at, doc, &r->by, &out->text.by));
    r->count++;
    return PARE_OK;
}

/* The authors of PIQA publish documents and labels in two files. */
static bool has_labels_beside(const reading *r, const pare_json *doc)
{
    return r->task->choice == pare__choice_piqa && !pare_json_get(doc, "label");
}

static pare_status read_lines(reading *r, const char *text, size_t len)
{
    pare__lines l = pare__lines_of(text, len);
    const char *line;
    size_t size;
    r->all = pare__lines_count(text, len);
    r->item = PARE_NEW(r->r.at.a, pare__task_item, r->limit < r->all ? r->limit : r->all);
    if (!r->item)
        return PARE_ENOMEM;
    while (r->count < r->limit && pare__lines_next(&l, &line, &size)) {
        pare_json *doc = NULL;
        r->r.at.line = l.number;
        if (size > PARE__ITEM_BYTES && r->task->kind != PARE__TASK_PAGE)
            return pare__choice_fail(&r->r.at, "the document has %zu bytes, at most %d are read",
                                     size, PARE__ITEM_BYTES);
        PARE_TRY(pare__lines_parse(r->r.at.cx, r->r.at.path, l.number, line, size, &doc));
        pare_status s = PARE_OK;
        if (!r->count && has_labels_beside(r, doc))
            s = pare__choice_labels_of(&r->r.at, r->all, &r->label);
        r->item[r->count].row = line;
        r->item[r->count].row_len = size;
        if (s == PARE_OK)
            s = read_doc(r, doc);
        pare_json_free(doc);
        PARE_TRY(s);
    }
    return PARE_OK;
}

/* The columns of a file whose first row is no list of them: mmlu as its authors publish it. */
static const char *const mmlu_columns[] = {"question", "A", "B", "C", "D", "answer"};

static bool is_headless(const reading *r, char *const *cell, size_t count)
{
    const char *const last = count ? cell[count - 1] : "";
    return r->task->shots == PARE__SHOTS_FIRST && count == 6 && last[0] >= 'A' && last[0] <= 'D' &&
           !last[1];
}

static pare_status count_rows(pare_ctx *cx, const reading *r, const char *text, size_t len,
                              size_t *rows)
{
    pare_arena a = {.cx = cx};
    char *const copy = pare_arena_text(&a, text, len), *cell[PARE__CSV_CELLS];
    pare__csv csv;
    size_t count = 0;
    pare_status s = copy ? pare__csv_open(cx, r->r.at.path, copy, len, &csv) : PARE_ENOMEM;
    for (*rows = 0; s == PARE_OK; *rows += count > 0) {
        s = pare__csv_row(cx, &csv, cell, &count);
        if (!count)
            break;
    }
    pare_arena_release(&a);
    return s;
}

static pare_status read_row(reading *r, const pare__csv *csv, const char *const *column,
                            size_t columns, char *const *cell, size_t count)
{
    pare_json *doc;
    r->r.at.line = csv->line;
    PARE_TRY(pare__csv_object(r->r.at.cx, csv, column, columns, cell, count, &doc));
    const pare_status s = read_doc(r, doc);
    pare_json_free(doc);
    return s;
}

static pare_status read_csv(reading *r, char *text, size_t len)
{
    pare_ctx *const cx = r->r.at.cx;
    pare__csv csv;
    char *cell[PARE__CSV_CELLS], *first[PARE__CSV_CELLS];
    const char *column[PARE__CSV_CELLS];
    size_t columns, count;
    PARE_TRY(count_rows(cx, r, text, len, &r->all));
    PARE_TRY(pare__csv_open(cx, r->r.at.path, text, len, &csv));
    r->item = PARE_NEW(r->r.at.a, pare__task_item, r->all);
    if (!r->item)
        return PARE_ENOMEM;
    PARE_TRY(pare__csv_row(cx, &csv, first, &columns));
    const bool headless = is_headless(r, first, columns);
    for (size_t i = 0; i < columns; i++)
        column[i] = headless ? mmlu_columns[i] : first[i];
    r->all -= !headless && r->all;
    if (headless)
        PARE_TRY(read_row(r, &csv, column, columns, first, columns));
    while (r->count < r->limit) {
        PARE_TRY(pare__csv_row(cx, &csv, cell, &count));
        if (!count)
            break;
        PARE_TRY(read_row(r, &csv, column, columns, cell, count));
    }
    return PARE_OK;
}

/* Whether a line of WikiText begins a page: " = Title = ". work [len + 1] is scratch. */
static bool begins_page(char *work, const char *line, size_t len)
{
    memcpy(work, line, len);
    work[len] = '\0';
    pare__task_replace(work, "= = =", "===");
    pare__task_replace(work, "= =", "==");
    const char *from = work, *to = work + strlen(work);
    pare_unicode_strip(&from, &to);
    return to - from >= 2 && from[0] == '=' && from[1] == ' ' && to[-2] == ' ' && to[-1] == '=';
}

static pare_status add_page(reading *r, const char *from, const char *to, size_t *room)
{
    pare_arena *const a = r->r.at.a;
    const char *first = from, *last = to;
    pare_unicode_strip(&first, &last);
    if (first == last)
        return PARE_OK;
    r->all++;
    if (r->count == r->limit)
        return PARE_OK;
    if (r->count == *room) {
        *room = *room ? 2 * *room : 64;
        pare__task_item *const more = PARE_NEW(a, pare__task_item, *room);
        if (!more)
            return PARE_ENOMEM;
        if (r->count)
            memcpy(more, r->item, r->count * sizeof *more);
        r->item = more;
    }
    const char *const page = pare_arena_text(a, from, (size_t)(to - from));
    if (!page)
        return PARE_ENOMEM;
    r->item[r->count].text.line = r->r.at.line;
    PARE_TRY(pare__task_page(&r->r, page, &r->item[r->count]));
    r->count++;
    return PARE_OK;
}

static pare_status check_text(reading *r, const char *text, size_t len)
{
    const size_t nul = strlen(text), valid = pare_unicode_valid(text, len);
    const size_t bad = nul < valid ? nul : valid;
    r->r.at.line = 1;
    for (size_t i = 0; i < bad; i++)
        r->r.at.line += text[i] == '\n';
    return bad == len ? PARE_OK
                      : pare__choice_fail(&r->r.at, nul < valid ? "a NUL byte, which no text has"
                                                                : "invalid UTF-8");
}

/* A page has the line of its title, and all behind it up to the newline in front of the next. */
static pare_status read_pages(reading *r, const char *text, size_t len)
{
    const char *from = text;
    size_t room = 0;
    PARE_TRY(check_text(r, text, len));
    char *const work = PARE_NEW(r->r.at.a, char, len + 1);
    if (!work)
        return PARE_ENOMEM;
    r->r.at.line = 1;
    size_t line = 1;
    for (const char *at = text; at < text + len; line++) {
        const size_t size = strcspn(at, "\n");
        if (at > from && begins_page(work, at, size)) {
            PARE_TRY(add_page(r, from, at - 1, &room));
            from = at;
            r->r.at.line = line;
        }
        at += size + (at[size] == '\n');
    }
    return add_page(r, from, text + len, &room);
}

static pare_status refuse_parquet(pare_ctx *cx, const char *path)
{
    return pare_fail(cx, PARE_ENOTSUP,
                     "%s: Parquet is not read; this converts it: python3 -c \"import pandas; "
                     "pandas.read_parquet('IN.parquet').to_json('OUT.jsonl', orient='records', "
                     "lines=True, force_ascii=False)\"",
                     path);
}

pare_status pare__task_file(pare_ctx *cx, pare_arena *a, const pare_task_row *t,
                            const char *subject, const char *path, size_t limit, const char *by,
                            pare__task_item **item, size_t *count, size_t *all)
{
    reading r = {.r = {.at = {.cx = cx, .a = a, .path = path}, .subject = subject},
                 .task = t,
                 .by = {.field = by},
                 .limit = limit ? limit : SIZE_MAX};
    char *text;
    size_t len;
    if (ends_in(path, ".parquet"))
        return refuse_parquet(cx, path);
    PARE_TRY(pare_file_read(cx, a, path, pare__items_bytes, &text, &len));
    if (ends_in(path, ".csv"))
        PARE_TRY(read_csv(&r, text, len));
    else if (t->kind == PARE__TASK_PAGE && !ends_in(path, ".jsonl") && !ends_in(path, ".json"))
        PARE_TRY(read_pages(&r, text, len));
    else
        PARE_TRY(read_lines(&r, text, len));
    *item = r.item;
    *count = r.count;
    *all = r.all;
    return r.count ? pare__check_by(&r.r.at, &r.by)
                   : pare_fail(cx, PARE_EFORMAT, "%s: no documents; %s has {%s} on each line", path,
                               t->name, t->keys);
}
