#include "compress/cli/plan_fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name without the numbers of its block and of its expert: text, number, text, number, text. */
typedef struct form {
    const char *entry_name;
    size_t begin[2], end[2]; /* of the numbers; equal: there is none */
} form;

typedef struct placed {
    const pare_fold_entry *entry;
    size_t index;
    form form;
} placed;

/* The first part of a name between dots from `from` on that is this number. */
static void find_number(const char *name, size_t number, size_t from, size_t *begin, size_t *end)
{
    char text[24];
    const int len = snprintf(text, sizeof text, "%zu", number);
    *begin = *end = from;
    for (size_t at = from; name[at];) {
        const size_t n = strcspn(name + at, ".");
        if (n == (size_t)len && memcmp(name + at, text, n) == 0) {
            *begin = at;
            *end = at + n;
            return;
        }
        at += n + (name[at + n] == '.');
    }
}

static form form_of(const pare_fold_entry *e)
{
    form f = {.entry_name = e->name};
    find_number(e->name, e->block, 0, &f.begin[0], &f.end[0]);
    f.begin[1] = f.end[1] = f.end[0];
    if (e->part && f.end[0] > f.begin[0])
        find_number(e->name, e->part - 1, f.end[0], &f.begin[1], &f.end[1]);
    return f;
}

static int compare_piece(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_forms(const form *a, const form *b)
{
    const char *const x = a->entry_name, *const y = b->entry_name;
    int order = compare_piece(x, a->begin[0], y, b->begin[0]);
    if (order == 0)
        order = compare_piece(x + a->end[0], a->begin[1] - a->end[0], y + b->end[0],
                              b->begin[1] - b->end[0]);
    return order ? order : strcmp(x + a->end[1], y + b->end[1]);
}

/* 0 for entries that may share a line. */
static int compare_kinds(const placed *a, const placed *b)
{
    int order = compare_forms(&a->form, &b->form);
    if (order == 0)
        order = strcmp(a->entry->rest, b->entry->rest);
    return order ? order
                 : (a->entry->bytes > b->entry->bytes) - (a->entry->bytes < b->entry->bytes);
}

/* Kind by kind, in each by block and part; what has no number of a block stays by itself. */
static int by_kind(const void *x, const void *y)
{
    const placed *const a = x, *const b = y;
    int order = compare_kinds(a, b);
    if (order == 0)
        order = (a->entry->block > b->entry->block) - (a->entry->block < b->entry->block);
    if (order == 0)
        order = (a->entry->part > b->entry->part) - (a->entry->part < b->entry->part);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static int by_first(const void *x, const void *y)
{
    const pare_fold_line *const a = x, *const b = y;
    return (a->first > b->first) - (a->first < b->first);
}

/* Entries of one kind in one block that begin at item[i]. */
static size_t block_end(const placed *item, size_t i, size_t end)
{
    const size_t block = item[i].entry->block;
    while (i < end && item[i].entry->block == block)
        i++;
    return i;
}

static bool same_parts(const placed *a, const placed *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (a[i].entry->part != b[i].entry->part)
            return false;
    return true;
}

/* Text that grows; what does not fit is cut. */
typedef struct text {
    char *to;
    size_t len, room;
} text;

static void put(text *t, const char *from, size_t len)
{
    const size_t left = t->room - t->len - 1, n = len < left ? len : left;
    memcpy(t->to + t->len, from, n);
    t->len += n;
    t->to[t->len] = '\0';
}

static void put_number(text *t, const char *before, size_t number)
{
    char digits[32];
    put(t, digits, (size_t)snprintf(digits, sizeof digits, "%s%zu", before, number));
}

/* The number of a block or, with `part`, of an expert. */
static size_t number_of(const placed *i, bool part)
{
    return part ? i->entry->part - 1 : i->entry->block;
}

/* "{0..3,5}", or "7" for a single number, of every `step`-th of `count` items; in order. */
static void put_numbers(text *t, const placed *item, size_t count, size_t step, bool part)
{
    const bool many = count > step;
    put(t, "{", many);
    for (size_t i = 0, last; i < count; i = last + step) {
        for (last = i; last + step < count &&
                       number_of(&item[last + step], part) == number_of(&item[last], part) + 1;)
            last += step;
        put_number(t, i ? "," : "", number_of(&item[i], part));
        if (last > i)
            put_number(t, last > i + step ? ".." : ",", number_of(&item[last], part));
    }
    put(t, "}", many);
}

/* The name of `count` items of one kind, `parts` of them in each block. */
static const char *name_of(pare_arena *a, const placed *item, size_t count, size_t parts)
{
    enum { OF_NUMBER = 24 };
    const form *const f = &item->form;
    const char *const name = f->entry_name;
    text t = {.room = strlen(name) + (count / parts + parts + 1) * OF_NUMBER};
    t.to = PARE_NEW(a, char, t.room);
    if (!t.to)
        return NULL;
    put(&t, name, f->begin[0]);
    if (f->end[0] > f->begin[0])
        put_numbers(&t, item, count, parts, false);
    put(&t, name + f->end[0], f->begin[1] - f->end[0]);
    if (f->end[1] > f->begin[1])
        put_numbers(&t, item, parts, 1, true);
    put(&t, name + f->end[1], strlen(name + f->end[1]));
    return t.to;
}

/* As many of the sorted items from item[i] on as share its line; *parts: of them in a block. */
static size_t line_end(const placed *item, size_t i, size_t items, size_t *parts)
{
    const form *const f = &item[i].form;
    size_t kind = i + 1;
    while (kind < items && compare_kinds(&item[i], &item[kind]) == 0)
        kind++;
    size_t end = block_end(item, i, kind);
    *parts = end - i;
    if (f->end[0] == f->begin[0] || (*parts > 1 && f->end[1] == f->begin[1])) {
        *parts = 1;
        return i + 1;
    }
    while (end < kind) {
        const size_t next = block_end(item, end, kind);
        if (next - end != *parts || !same_parts(&item[i], &item[end], *parts))
            break;
        end = next;
    }
    return end;
}

pare_status pare_fold(pare_arena *a, const pare_fold_entry *entry, size_t entries, bool all,
                      pare_fold_line **line, size_t *lines)
{
    placed *const sorted = PARE_NEW(a, placed, entries);
    *line = PARE_NEW(a, pare_fold_line, entries);
    *lines = 0;
    if (!sorted || !*line)
        return PARE_ENOMEM;
    for (size_t i = 0; i < entries; i++)
        sorted[i] = (placed){&entry[i], i, form_of(&entry[i])};
    if (entries > 1 && !all)
        qsort(sorted, entries, sizeof *sorted, by_kind);
    for (size_t i = 0, end, parts = 1; i < entries; i = end) {
        end = all ? i + 1 : line_end(sorted, i, entries, &parts);
        pare_fold_line *const l = &(*line)[(*lines)++];
        *l = (pare_fold_line){.name = name_of(a, &sorted[i], end - i, parts),
                              .rest = sorted[i].entry->rest,
                              .first = sorted[i].index,
                              .count = end - i};
        if (!l->name)
            return PARE_ENOMEM;
        for (size_t j = i; j < end; j++)
            l->bytes += sorted[j].entry->bytes;
    }
    if (*lines > 1)
        qsort(*line, *lines, sizeof **line, by_first);
    return PARE_OK;
}
