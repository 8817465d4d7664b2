#include "compress/evaluate/choice_items.h"

#include <stdio.h>
#include <string.h>

#include "compress/evaluate/choice_internal.h"
#include "runtime/file.h"

static const char LABELS[] = "-labels.lst";

/* valid-labels.lst for valid.jsonl: what stands behind the last dot of the name is replaced. */
char *pare_choice_labels(pare_arena *a, const char *path)
{
    const char *const slash = strrchr(path, '/'), *const dot = strrchr(slash ? slash : path, '.');
    const size_t stem =
        dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path);
    char *const out = PARE_NEW(a, char, stem + sizeof LABELS);
    if (out) {
        memcpy(out, path, stem);
        memcpy(out + stem, LABELS, sizeof LABELS);
    }
    return out;
}

pare_status pare_choice_watch(pare_arena *a, pare_watch *w, const char *path)
{
    const char *const labels = pare_choice_labels(a, path);
    if (!labels)
        return PARE_ENOMEM;
    PARE_TRY(pare_watch_path(a, w, path));
    return pare_watch_path(a, w, labels);
}

pare_status pare__choice_labels_of(const pare__choice_reading *r, size_t items, int **label)
{
    char *text;
    size_t len, size, count = 0;
    const char *line, *const path = pare_choice_labels(r->a, r->path);
    if (!path)
        return PARE_ENOMEM;
    if (!pare_path_is_file(path))
        return pare__choice_fail(r,
                                 "no \"label\", and %s, where the labels would stand one a "
                                 "line, is not there",
                                 path);
    PARE_TRY(pare_file_read(r->cx, r->a, path, pare__items_bytes, &text, &len));
    if (pare__lines_count(text, len) != items)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: %zu label%s for the %zu item%s of %s", path,
                         pare__lines_count(text, len), pare_plural(pare__lines_count(text, len)),
                         items, pare_plural(items), r->path);
    *label = PARE_NEW(r->a, int, items);
    if (!*label)
        return PARE_ENOMEM;
    pare__lines l = pare__lines_of(text, len);
    while (pare__lines_next(&l, &line, &size)) {
        if (size != 1 || (*line != '0' && *line != '1'))
            return pare_fail(r->cx, PARE_EFORMAT, "%s:%zu: a label of PIQA is 0 or 1", path,
                             l.number);
        (*label)[count++] = *line - '0';
    }
    return PARE_OK;
}

/* The file as it is read. */
typedef struct file {
    const char *text;
    size_t len;
    const pare__choice_shape *shape; /* that of the first item */
    int *label;                      /* of each item, where they stand beside */
} file;

/* The first item tells what the file is. */
static pare_status set_shape(const pare__choice_reading *r, const pare_json *json, file *f)
{
    f->shape = pare__choice_shape_of(json);
    if (!f->shape)
        return pare__choice_fail(r,
                                 "the keys of the item are of no shape that is known: pare's own "
                                 "has \"context\", PIQA \"goal\", ARC \"question\", OpenBookQA "
                                 "\"question_stem\" or \"question\", HellaSwag \"ctx\"");
    return f->shape->beside
               ? pare__choice_labels_of(r, pare__lines_count(f->text, f->len), &f->label)
               : PARE_OK;
}

static pare_status read_item(pare__choice_reading *r, const pare_json *json, file *f, size_t number,
                             pare_choice_text *out)
{
    if (number == 0)
        PARE_TRY(set_shape(r, json, f));
    const pare__choice_shape *const shape = pare__choice_shape_of(json);
    if (shape != f->shape)
        return pare__choice_fail(r,
                                 "an item of %s; the first of the file is of %s, and all must "
                                 "have the same keys",
                                 shape ? shape->name : "no known shape", f->shape->name);
    r->label = f->label ? &f->label[number] : NULL;
    out->line = r->line;
    return shape->read(r, json, out);
}

static pare_status read_items(pare__choice_reading *r, file *f, size_t limit, const char *field,
                              pare_choice_texts *out)
{
    pare__by by = {.field = field};
    pare__lines l = pare__lines_of(f->text, f->len);
    const char *line;
    size_t size;
    while (out->count < limit && pare__lines_next(&l, &line, &size)) {
        pare_json *json = NULL;
        r->line = l.number;
        if (size > PARE__ITEM_BYTES)
            return pare__choice_fail(r, "the item has %zu bytes, at most %d are read", size,
                                     PARE__ITEM_BYTES);
        PARE_TRY(pare__lines_parse(r->cx, r->path, r->line, line, size, &json));
        pare_status s = read_item(r, json, f, out->count, &out->item[out->count]);
        if (s == PARE_OK)
            s = pare__take_by(r, json, &by, &out->item[out->count].by);
        pare_json_free(json);
        PARE_TRY(s);
        out->count++;
    }
    return out->count ? pare__check_by(r, &by)
                      : pare_fail(r->cx, PARE_EFORMAT, "%s: the file has no items", r->path);
}

pare_status pare_choice_read(pare_ctx *cx, pare_arena *a, const char *path, size_t limit,
                             const char *by, pare_choice_texts *out)
{
    file f = {0};
    char *text;
    PARE_TRY(pare_file_read(cx, a, path, pare__items_bytes, &text, &f.len));
    f.text = text;
    const size_t count = pare__lines_count(text, f.len);
    const size_t items = limit && limit < count ? limit : count;
    *out = (pare_choice_texts){
        .path = path, .item = PARE_NEW(a, pare_choice_text, items), .all = count};
    if (!out->item)
        return PARE_ENOMEM;
    pare__choice_reading r = {.cx = cx, .a = a, .path = path};
    return read_items(&r, &f, items, by, out);
}

/* Who turns texts into tokens. */
typedef struct encoding {
    pare_ctx *cx;
    pare_arena *a;
    pare_arena work; /* rewound after each text */
    const pare_tokenizer *t;
    const char *path;
    size_t most, number; /* tokens that the model takes; of the item, from 0 */
} encoding;

/* Tokens of a text behind the first `head`, when those are `before`; else *count is 0. */
static pare_status encode_text(encoding *e, const char *text, const int32_t *before, size_t head,
                               const int32_t **ids, size_t *count)
{
    const pare_mark mark = pare_arena_mark(&e->work);
    int32_t *tokens;
    size_t all;
    PARE_TRY(pare_tokenizer_encode(e->cx, e->t, &e->work, text, strlen(text), &tokens, &all));
    const bool same = all >= head && (!head || memcmp(tokens, before, head * sizeof *tokens) == 0);
    *count = same ? all - head : 0;
    int32_t *const kept = PARE_NEW(e->a, int32_t, *count);
    if (!kept)
        return PARE_ENOMEM;
    if (*count)
        memcpy(kept, tokens + head, *count * sizeof *kept);
    *ids = kept;
    pare_arena_rewind(&e->work, mark);
    return PARE_OK;
}

/* With what to choose instead. */
static pare_status refuse_long(const encoding *e, const pare_choice_text *text, size_t c,
                               size_t context, size_t choice)
{
    char limit[96] = "";
    if (e->number)
        (void)snprintf(limit, sizeof limit, ", or give a limit of %zu: the item%s in front of it",
                       e->number, pare_plural(e->number));
    return pare_fail(e->cx, PARE_EFORMAT,
                     "%s:%zu: choice %zu has %zu token%s behind the %zu of its context, %zu in "
                     "all, and the model's context is %zu tokens; take the line out%s",
                     e->path, text->line, c, choice, pare_plural(choice), context, context + choice,
                     e->most, limit);
}

static pare_status encode_choice(encoding *e, const pare_choice_text *text, size_t c,
                                 const pare_choice_item *item, const int32_t **ids, size_t *count)
{
    const size_t head = item->context_count, context = strlen(text->context);
    const size_t len = strlen(text->choice[c]);
    const pare_mark mark = pare_arena_mark(&e->work);
    char *const whole = PARE_NEW(&e->work, char, context + len + 1);
    if (!whole)
        return PARE_ENOMEM;
    memcpy(whole, text->context, context);
    memcpy(whole + context, text->choice[c], len);
    PARE_TRY(encode_text(e, whole, item->context, head, ids, count));
    pare_arena_rewind(&e->work, mark);
    if (*count == 0)
        PARE_TRY(encode_text(e, text->choice[c], NULL, 0, ids, count));
    if (*count == 0)
        return pare_fail(e->cx, PARE_EFORMAT, "%s:%zu: choice %zu has no tokens", e->path,
                         text->line, c);
    if (head > e->most || *count > e->most - head)
        return refuse_long(e, text, c, head, *count);
    return PARE_OK;
}

static pare_status encode_item(encoding *e, const pare_choice_text *text, pare_choice_item *item)
{
    const int32_t **const choice = PARE_NEW(e->a, const int32_t *, text->choices);
    size_t *const count = PARE_NEW(e->a, size_t, text->choices);
    size_t *const bytes = PARE_NEW(e->a, size_t, text->choices);
    if (!choice || !count || !bytes)
        return PARE_ENOMEM;
    PARE_TRY(encode_text(e, text->context, NULL, 0, &item->context, &item->context_count));
    if (item->context_count == 0)
        return pare_fail(e->cx, PARE_EFORMAT, "%s:%zu: the context has no tokens", e->path,
                         text->line);
    for (size_t c = 0; c < text->choices; c++) {
        PARE_TRY(encode_choice(e, text, c, item, &choice[c], &count[c]));
        bytes[c] = strlen(text->choice[c]);
    }
    item->choice = choice;
    item->choice_count = count;
    item->choice_bytes = bytes;
    item->choices = text->choices;
    item->answer = text->answer;
    item->line = text->line;
    return PARE_OK;
}

pare_status pare_choice_encode(pare_ctx *cx, pare_arena *a, const pare_tokenizer *t,
                               const pare_choice_texts *texts, size_t most, pare_choice_item **item)
{
    encoding e = {cx, a, {.cx = cx}, t, texts->path, most, 0};
    pare_status s = PARE_OK;
    *item = PARE_NEW(a, pare_choice_item, texts->count);
    if (!*item)
        return PARE_ENOMEM;
    for (; s == PARE_OK && e.number < texts->count; e.number++)
        s = encode_item(&e, &texts->item[e.number], &(*item)[e.number]);
    pare_arena_release(&e.work);
    return s;
}

pare_status pare_choice_load(pare_ctx *cx, pare_arena *a, const pare_checkpoint *ck, size_t most,
                             const char *path, size_t limit, const char *by,
                             pare_choice_texts *texts, pare_choice_item **item)
{
    pare_tokenizer *t;
    PARE_TRY(pare_choice_read(cx, a, path, limit, by, texts));
    PARE_TRY(pare_checkpoint_tokenizer(ck, &t));
    const pare_status s = pare_choice_encode(cx, a, t, texts, most, item);
    pare_tokenizer_free(t);
    pare_memory_trim();
    return s;
}
