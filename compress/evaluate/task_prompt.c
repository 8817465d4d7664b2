/* Documents as requests: description, shots and text in front of the choices. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/evaluate/python_random.h"
#include "compress/evaluate/task_internal.h"
#include "formats/unicode.h"

enum { SEED = 1234 }; /* of the harness, for the draw of shots */

typedef struct prompting {
    pare_ctx *cx;
    pare_arena *a;
    const pare_task_asked *asked;
    const pare_task_row *task;
    pare__task_item *item, *shot;
    size_t items, shots;  /* documents; those that shots are taken from */
    size_t *subject;      /* [items + shots] which it is; NULL: they have none */
    size_t *next, *first; /* the next shot of the subject, and the first, of each; shots: none */
    const char **about; /* of each subject, what stands in front of its documents; NULL: not yet */
    pare_python_random draw;
    size_t *pool, *rest, picked[PARE_TASK_SHOTS + 1];
} prompting;

static pare_status check(pare_ctx *cx, const pare_task_asked *asked, const pare_task_row *t)
{
    if (asked->shots > PARE_TASK_SHOTS)
        return pare_fail(cx, PARE_EUSAGE, "%s: %zu shots, at most %d are taken", asked->name,
                         asked->shots, PARE_TASK_SHOTS);
    if (asked->shots && t->shots == PARE__SHOTS_NONE)
        return pare_fail(cx, PARE_EUSAGE, "%s takes no shots: its prompt is fixed", asked->name);
    if (asked->shots && !asked->shots_file)
        return pare_fail(cx, PARE_EUSAGE,
                         "%s: shots need a file that they are taken from, other than the one that "
                         "is measured (mmlu: its dev file, others: the training file)",
                         asked->name);
    if (asked->by && (t->kind == PARE__TASK_MASS || t->kind == PARE__TASK_PAGE))
        return pare_fail(cx, PARE_EUSAGE,
                         "%s has no answers that are right or wrong, which could be told apart by "
                         "\"%s\"",
                         asked->name, asked->by);
    return PARE_OK;
}

/* A solved document, with an empty line behind it. */
static const char *solved(pare_arena *a, const char *front, const pare__task_item *d)
{
    const pare_choice_text *const t = &d->text;
    const bool parted = d->context[0];
    return pare__task_joined(a, front, parted ? d->context[t->answer] : t->context,
                             t->choice[parted ? 0 : t->answer], "\n\n", (char *)NULL);
}

static pare_status few(const prompting *p, size_t have, const char *which)
{
    return pare_fail(p->cx, PARE_EFORMAT, "%s: %zu document%s%s%s, and %zu shots are asked for",
                     p->asked->shots_file, have, pare_plural(have), *which ? " " : "", which,
                     p->asked->shots);
}

/* Whether they are one row: of JSON to the byte, else by what is asked. */
static bool is_same(const pare__task_item *a, const pare__task_item *b)
{
    const pare_choice_text *const x = &a->text, *const y = &b->text;
    if (a->row && b->row)
        return a->row_len == b->row_len && memcmp(a->row, b->row, a->row_len) == 0;
    if (x->choices != y->choices || x->answer != y->answer)
        return false;
    for (size_t i = 0; i < x->choices; i++)
        if (strcmp(x->choice[i], y->choice[i]) != 0)
            return false;
    return a->context[0] ? strcmp(a->context[0], b->context[0]) == 0 &&
                               strcmp(a->context[1], b->context[1]) == 0
                         : strcmp(x->context, y->context) == 0;
}

/* One more is drawn than is taken, for the case that the document itself is among them; where too
 * few others are, they are drawn anew from all others. */
static pare_status draw_others(prompting *p, const pare__task_item *d)
{
    const size_t want = p->asked->shots;
    size_t n = 0, others = 0;
    if (p->shots <= want)
        return few(p, p->shots, "(one more is drawn than is taken)");
    pare_python_sample(&p->draw, p->shots, want + 1, p->pool, p->picked);
    for (size_t i = 0; i <= want; i++)
        if (!is_same(d, &p->shot[p->picked[i]]))
            p->picked[n++] = p->picked[i];
    if (n >= want)
        return PARE_OK;
    for (size_t i = 0; i < p->shots; i++)
        if (!is_same(d, &p->shot[i]))
            p->rest[others++] = i;
    if (others < want)
        return few(p, others, "other than the one that is asked");
    pare_python_sample(&p->draw, others, want, p->pool, p->picked);
    for (size_t i = 0; i < want; i++)
        p->picked[i] = p->rest[p->picked[i]];
    return PARE_OK;
}

static pare_status draw_shots(prompting *p, const pare__task_item *d, const char **front)
{
    if (p->task->shots == PARE__SHOTS_OTHERS) {
        PARE_TRY(draw_others(p, d));
    } else {
        if (p->shots < p->asked->shots)
            return few(p, p->shots, "");
        pare_python_sample(&p->draw, p->shots, p->asked->shots, p->pool, p->picked);
    }
    for (size_t i = 0; *front && i < p->asked->shots; i++)
        *front = solved(p->a, *front, &p->shot[p->picked[i]]);
    return *front ? PARE_OK : PARE_ENOMEM;
}

/* The first of the same subject. */
static pare_status first_shots(prompting *p, size_t item, const char **front)
{
    size_t have = 0;
    for (size_t i = p->first[p->subject[item]]; *front && i < p->shots && have < p->asked->shots;
         i = p->next[i], have++)
        *front = solved(p->a, *front, &p->shot[i]);
    if (!*front)
        return PARE_ENOMEM;
    if (have == p->asked->shots)
        return PARE_OK;
    const char *const about =
        pare__task_joined(p->a, "about ", p->item[item].subject, (char *)NULL);
    return about ? few(p, have, about) : PARE_ENOMEM;
}

/* Documents and shots by their subjects. */
static pare_status find_subjects(prompting *p)
{
    const size_t count = p->items + p->shots;
    size_t subjects;
    if (!p->item[0].subject)
        return PARE_OK;
    const char **const name = PARE_NEW(p->a, const char *, count);
    p->subject = PARE_NEW(p->a, size_t, count);
    if (!name || !p->subject)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        name[i] = i < p->items ? p->item[i].subject : p->shot[i - p->items].subject;
    PARE_TRY(pare__task_groups(p->a, name, count, false, p->subject, &subjects));
    p->next = PARE_NEW(p->a, size_t, p->shots + 1);
    p->first = PARE_NEW(p->a, size_t, subjects);
    p->about = PARE_NEW(p->a, const char *, subjects);
    if (!p->next || !p->first || !p->about)
        return PARE_ENOMEM;
    for (size_t g = 0; g < subjects; g++)
        p->first[g] = p->shots;
    for (size_t i = p->shots; i-- > 0;) {
        size_t *const first = &p->first[p->subject[p->items + i]];
        p->next[i] = *first;
        *first = i;
    }
    return PARE_OK;
}

static const char *describe(pare_arena *a, const char *subject)
{
    char *const spaced = pare_arena_text(a, subject, strlen(subject));
    for (char *c = spaced; c && *c; c++)
        *c = *c == '_' ? ' ' : *c;
    return spaced ? pare__task_joined(
                        a, "The following are multiple choice questions (with answers) about ",
                        spaced, ".\n\n", (char *)NULL)
                  : NULL;
}

/* What stands in front of a document. */
static pare_status front_of(prompting *p, size_t item, const char **front)
{
    const pare__task_item *const d = &p->item[item];
    *front = "";
    if (!p->subject)
        return p->asked->shots ? draw_shots(p, d, front) : PARE_OK;
    const char **const about = &p->about[p->subject[item]];
    if (!*about) {
        *front = describe(p->a, d->subject);
        if (!*front)
            return PARE_ENOMEM;
        if (p->asked->shots)
            PARE_TRY(first_shots(p, item, front));
        *about = *front;
    }
    *front = *about;
    return PARE_OK;
}

static pare_status put_doc(prompting *p, size_t item, pare_task_texts *out)
{
    const pare__task_item *const d = &p->item[item];
    pare_task_doc *const doc = &out->doc[item];
    const pare_choice_text *const t = &d->text;
    const bool parted = d->context[0];
    const char *front;
    PARE_TRY(front_of(p, item, &front));
    *doc = (pare_task_doc){.first = out->request.count,
                           .count = parted ? 2 : 1,
                           .choices = parted ? 2 : t->choices,
                           .answer = t->answer,
                           .right = d->right,
                           .words = d->words,
                           .bytes = d->bytes,
                           .group = t->by ? t->by : d->subject,
                           .line = t->line};
    size_t *const length = PARE_NEW(p->a, size_t, t->choices);
    doc->length = length;
    if (!length)
        return PARE_ENOMEM;
    for (size_t c = 0; c < t->choices; c++)
        length[c] = pare_unicode_count(t->choice[c]) - (t->choice[c][0] == ' ');
    for (size_t i = 0; i < doc->count; i++) {
        const char *const context = parted ? d->context[i] : t->context;
        pare_choice_text *const r = &out->request.item[out->request.count++];
        *r = *t;
        r->answer = 0;
        r->context = *front ? pare__task_joined(p->a, front, context, (char *)NULL) : context;
        if (!r->context)
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

/* "anatomy" of "mmlu_anatomy", or NULL. */
static const char *subject_of(const pare_task_row *t, const char *name)
{
    const size_t len = strlen(t->name);
    return t->shots == PARE__SHOTS_FIRST && name[len] ? name + len + 1 : NULL;
}

static bool is_one_file(const char *x, const char *y)
{
    struct stat a, b;
    return stat(x, &a) == 0 && stat(y, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static pare_status put_all(prompting *p, pare_task_texts *out)
{
    out->docs = p->items;
    out->doc = PARE_NEW(p->a, pare_task_doc, p->items);
    out->request = (pare_choice_texts){.path = p->asked->file, .all = out->all};
    out->request.item = PARE_NEW(p->a, pare_choice_text, 2 * p->items);
    p->pool = PARE_NEW(p->a, size_t, p->shots + 1);
    p->rest = PARE_NEW(p->a, size_t, p->shots + 1);
    if (!out->doc || !out->request.item || !p->pool || !p->rest)
        return PARE_ENOMEM;
    PARE_TRY(find_subjects(p));
    pare_python_seed(&p->draw, SEED);
    for (size_t i = 0; i < p->items; i++)
        PARE_TRY(put_doc(p, i, out));
    return PARE_OK;
}

pare_status pare_task_read(pare_ctx *cx, pare_arena *a, const pare_task_asked *asked,
                           pare_task_texts *out)
{
    prompting p = {.cx = cx, .a = a, .asked = asked, .task = pare_task_find(asked->name)};
    size_t all;
    *out = (pare_task_texts){.task = p.task};
    if (!p.task)
        return pare_task_unknown(cx, asked->name);
    PARE_TRY(check(cx, asked, p.task));
    const char *const subject = subject_of(p.task, asked->name);
    if (asked->shots && p.task->shots != PARE__SHOTS_OTHERS &&
        is_one_file(asked->file, asked->shots_file))
        pare_warn(cx,
                  "%s: the shots are taken from the file that is measured, so a document can stand "
                  "in front of itself, solved",
                  asked->name);
    PARE_TRY(pare__task_file(cx, a, p.task, subject, asked->file, asked->limit, asked->by, &p.item,
                             &p.items, &out->all));
    if (asked->shots)
        PARE_TRY(pare__task_file(cx, a, p.task, subject, asked->shots_file, 0, NULL, &p.shot,
                                 &p.shots, &all));
    return put_all(&p, out);
}

pare_status pare_task_watch(pare_arena *a, pare_watch *w, const pare_task_asked *asked)
{
    PARE_TRY(pare_choice_watch(a, w, asked->file));
    return asked->shots_file ? pare_choice_watch(a, w, asked->shots_file) : PARE_OK;
}
