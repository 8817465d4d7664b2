/* Documents by their subjects or by a field, in time that does not grow with how many there are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/evaluate/task_internal.h"

typedef struct named {
    const char *name;
    size_t at;
    bool is_number;
    double value; /* then */
} named;

static int by_name(const void *x, const void *y)
{
    const named *const a = x, *const b = y;
    const int number = (a->is_number < b->is_number) - (a->is_number > b->is_number);
    const int value = (a->value > b->value) - (a->value < b->value);
    const int order = number ? number : value ? value : strcmp(a->name, b->name);
    return order ? order : (a->at > b->at) - (a->at < b->at);
}

/* Numbers come first, by their value. */
static named name_of(const char *text, size_t at)
{
    char *end;
    const double value = strtod(text, &end);
    const bool is_number = *text && !*end && isfinite(value);
    return (named){text, at, is_number, is_number ? value : 0};
}

pare_status pare__task_groups(pare_arena *a, const char *const *name, size_t count, bool in_order,
                              size_t *of, size_t *groups)
{
    const pare_mark mark = pare_arena_mark(a);
    named *const sorted = PARE_NEW(a, named, count);
    *groups = 0;
    if (!sorted)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        sorted[i] = name_of(name[i], i);
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 0, first = 0; i < count; i++) {
        const bool same = i && strcmp(sorted[i].name, sorted[first].name) == 0;
        first = same ? first : i;
        *groups += in_order && !same;
        of[sorted[i].at] = in_order ? *groups - 1 : sorted[first].at; /* the first of the name */
    }
    for (size_t i = 0; !in_order && i < count; i++) /* those before it have their numbers */
        of[i] = of[i] == i ? (*groups)++ : of[of[i]];
    pare_arena_rewind(a, mark);
    return PARE_OK;
}

static void list_keys(const pare_json *doc, char *out, size_t size)
{
    pare_json_iter it = {0};
    const pare_json *v;
    const char *key;
    size_t used = 0;
    while (used < size && pare_json_next(doc, &it, &key, &v))
        used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", key);
}

static const char missing[] = "(none)";

static const char *text_of(const pare_json *v, char *room, size_t size)
{
    switch (pare_json_type_of(v)) {
    case PARE_JSON_BOOL: return pare_json_bool(v, false) ? "true" : "false";
    case PARE_JSON_STRING: {
        const char *const text = pare_json_text(v, NULL);
        return strcmp(text, missing) == 0 ? "\"(none)\"" : text; /* which is another group */
    }
    case PARE_JSON_INTEGER:
        (void)snprintf(room, size, "%lld", (long long)pare_json_integer(v, 0));
        return room;
    case PARE_JSON_REAL: (void)snprintf(room, size, "%.15g", pare_json_number(v, 0)); return room;
    default: return missing;
    }
}

pare_status pare__take_by(const pare__choice_reading *r, const pare_json *doc, pare__by *by,
                          const char **out)
{
    enum { NUMBER = 32 };
    char number[NUMBER];
    const pare_json *const v = by->field ? pare_json_get(doc, by->field) : NULL;
    const pare_json_type type = pare_json_type_of(v);
    *out = NULL;
    if (!by->field)
        return PARE_OK;
    if (!by->keys[0])
        list_keys(doc, by->keys, sizeof by->keys);
    if (type == PARE_JSON_ARRAY || type == PARE_JSON_OBJECT)
        return pare__choice_fail(
            r,
            "\"%s\" is %s; answers are told apart by a text, a number, true or "
            "false",
            by->field, pare__kind_of(v));
    by->seen |= type != PARE_JSON_ABSENT && type != PARE_JSON_NULL;
    const char *const text = text_of(v, number, sizeof number);
    *out = pare_arena_text(r->a, text, strlen(text));
    return *out ? PARE_OK : PARE_ENOMEM;
}

pare_status pare__check_by(const pare__choice_reading *r, const pare__by *by)
{
    return !by->field || by->seen
               ? PARE_OK
               : pare_fail(r->cx, PARE_EUSAGE, "%s: no document has \"%s\"; the first has %s",
                           r->path, by->field, by->keys);
}

pare_task_metric pare__task_share(const char *name, unsigned bit, size_t right, size_t n)
{
    const double value = (double)right / (double)n;
    return (pare_task_metric){.name = name,
                              .value = value,
                              .error = n > 1 ? sqrt(value * (1 - value) / (double)(n - 1)) : NAN,
                              .share = true,
                              .right = bit};
}

/* The share of each group that has documents, and which group each of them is in. */
static void fill(const unsigned char *verdict, size_t docs, const char *metric, size_t *part,
                 size_t *right, size_t groups, pare_task_parts *out)
{
    pare_task_group *const all = out->group;
    for (size_t i = 0; i < docs; i++) {
        if (!(verdict[i] & PARE_CHOICE_ASKED))
            continue;
        all[part[i]].n++;
        right[part[i]] += (verdict[i] & PARE_CHOICE_RIGHT) != 0;
    }
    for (size_t g = 0; g < groups; g++) {
        const size_t hits = right[g];
        right[g] = out->groups; /* from here on: which it is among those that stay */
        if (!all[g].n)
            continue;
        all[out->groups] = all[g];
        all[out->groups].acc = pare__task_share(metric, PARE_CHOICE_RIGHT, hits, all[g].n);
        out->groups++;
    }
    for (size_t i = 0; i < docs; i++)
        part[i] = right[part[i]];
}

pare_status pare_task_part(pare_arena *a, const char *const *name, size_t docs,
                           const unsigned char *verdict, const char *metric, bool in_order,
                           pare_task_parts *out)
{
    size_t groups;
    size_t *const part = PARE_NEW(a, size_t, docs);
    *out = (pare_task_parts){.part = part};
    if (!part)
        return PARE_ENOMEM;
    PARE_TRY(pare__task_groups(a, name, docs, in_order, part, &groups));
    size_t *const right = PARE_NEW(a, size_t, groups);
    out->group = PARE_NEW(a, pare_task_group, groups);
    if (!right || !out->group)
        return PARE_ENOMEM;
    for (size_t i = 0; i < docs; i++)
        out->group[part[i]].name = name[i];
    fill(verdict, docs, metric, part, right, groups, out);
    return PARE_OK;
}

void pare_task_pair_parts(const pare_task_parts *p, size_t docs, const unsigned char *now,
                          const unsigned char *baseline)
{
    for (size_t i = 0; p->groups && i < docs; i++) {
        const unsigned is = now[i], was = baseline[i];
        if (!(is & was & PARE_CHOICE_ASKED))
            continue;
        pare_paired *const r = &p->group[p->part[i]].acc.paired;
        r->gained += (is & PARE_CHOICE_RIGHT) > (was & PARE_CHOICE_RIGHT);
        r->lost += (is & PARE_CHOICE_RIGHT) < (was & PARE_CHOICE_RIGHT);
    }
    for (size_t g = 0; g < p->groups; g++) {
        pare_paired *const r = &p->group[g].acc.paired;
        r->p = pare_mcnemar(r->gained, r->lost);
    }
}

void pare__task_put_metric(pare_json_writer *w, const pare_task_metric *m, bool has_paired)
{
    pare_json_put_finite(w, "value", m->value);
    if (isfinite(m->error))
        pare_json_put_finite(w, "stderr", m->error);
    if (!has_paired || !m->right)
        return;
    pare_json_open_object(w, "paired");
    pare_json_put_integer(w, "gained", (int64_t)m->paired.gained);
    pare_json_put_integer(w, "lost", (int64_t)m->paired.lost);
    pare_json_put_finite(w, "p", m->paired.p);
    pare_json_close(w);
}

void pare_task_put_groups(pare_json_writer *w, const pare_task_group *group, size_t groups,
                          bool has_paired)
{
    if (!groups)
        return;
    pare_json_open_array(w, "groups");
    for (size_t i = 0; i < groups; i++) {
        pare_json_open_object(w, NULL);
        pare_json_put_text(w, "name", group[i].name);
        pare_json_put_integer(w, "n", (int64_t)group[i].n);
        pare__task_put_metric(w, &group[i].acc, has_paired);
        pare_json_close(w);
    }
    pare_json_close(w);
}
