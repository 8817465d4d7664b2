/* Items of published files as contexts with choices. The prompts are those that others publish
 * figures with (EleutherAI's evaluation harness: piqa, arc_easy, arc_challenge, openbookqa). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compress/evaluate/choice_internal.h"

pare_status pare__choice_fail(const pare__choice_reading *r, const char *fmt, ...)
{
    char reason[sizeof r->cx->what];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    return pare_fail(r->cx, PARE_EFORMAT, "%s:%zu: %s", r->path, r->line, reason);
}

static bool has(const pare_json *item, const char *key)
{
    return pare_json_get(item, key) != NULL;
}

static bool is_object(const pare_json *item, const char *key)
{
    return pare_json_type_of(pare_json_get(item, key)) == PARE_JSON_OBJECT;
}

/* A text between two others, in the arena. NULL: PARE_ENOMEM, recorded. */
static const char *wrap(const pare__choice_reading *r, const char *before, const char *text,
                        const char *behind)
{
    const size_t size = strlen(before) + strlen(text) + strlen(behind) + 1;
    char *const out = PARE_NEW(r->a, char, size);
    if (out)
        (void)snprintf(out, size, "%s%s%s", before, text, behind);
    return out;
}

const char *pare__kind_of(const pare_json *v)
{
    switch (pare_json_type_of(v)) {
    case PARE_JSON_ABSENT: return "missing";
    case PARE_JSON_NULL: return "null";
    case PARE_JSON_BOOL: return "true or false";
    case PARE_JSON_INTEGER:
    case PARE_JSON_REAL: return "a number";
    case PARE_JSON_STRING: return *pare_json_text(v, NULL) ? "a text" : "an empty text";
    case PARE_JSON_ARRAY: return "an array";
    case PARE_JSON_OBJECT: break;
    }
    return "an object";
}

/* `v` is a text that is not empty; `key` names it. */
pare_status pare__take_text(const pare__choice_reading *r, const pare_json *v, const char *key,
                            const char *before, const char *behind, const char **out)
{
    size_t len;
    const char *const text = pare_json_text(v, &len);
    if (!v)
        return pare__choice_fail(r, "\"%s\" is missing", key);
    if (!text || len == 0)
        return pare__choice_fail(r, "\"%s\" must be a text that is not empty, and is %s", key,
                                 pare__kind_of(v));
    *out = wrap(r, before, text, behind);
    return *out ? PARE_OK : PARE_ENOMEM;
}

static pare_status take_question(const pare__choice_reading *r, const pare_json *v, const char *key,
                                 pare_choice_text *out)
{
    return pare__take_text(r, v, key, "Question: ", "\nAnswer:", &out->context);
}

pare_status pare__take_room(const pare__choice_reading *r, size_t n, const char ***choice,
                            pare_choice_text *out)
{
    out->choices = n;
    out->choice = *choice = PARE_NEW(r->a, const char *, n);
    return out->choice ? PARE_OK : PARE_ENOMEM;
}

/* Choices from a list of texts, each with `before` in front, or of objects with a "text". */
pare_status pare__take_choices(const pare__choice_reading *r, const pare_json *list,
                               const char *key, const char *before, pare_choice_text *out)
{
    const char **choice;
    const size_t n = pare_json_count(list);
    if (pare_json_type_of(list) != PARE_JSON_ARRAY)
        return pare__choice_fail(r, "\"%s\" must be an array of choices, and is %s", key,
                                 pare__kind_of(list));
    if (n < 2 || n > PARE__CHOICES_MAX)
        return pare__choice_fail(r, "\"%s\" has %zu choice%s, and must have 2 to %d", key, n,
                                 pare_plural(n), PARE__CHOICES_MAX);
    PARE_TRY(pare__take_room(r, n, &choice, out));
    for (size_t i = 0; i < n; i++) {
        char name[64];
        const pare_json *const entry = pare_json_at(list, i);
        const bool object = pare_json_type_of(entry) == PARE_JSON_OBJECT;
        (void)snprintf(name, sizeof name, "%s[%zu]%s", key, i, object ? ".text" : "");
        PARE_TRY(pare__take_text(r, object ? pare_json_get(entry, "text") : entry, name, before, "",
                                 &choice[i]));
    }
    return PARE_OK;
}

/* The index of the right choice: a number, or its digit as a text. */
pare_status pare__take_index(const pare__choice_reading *r, const pare_json *v, const char *key,
                             pare_choice_text *out)
{
    size_t len;
    const char *const text = pare_json_text(v, &len);
    int64_t index = pare_json_integer(v, -1);
    if (text && len == 1 && text[0] >= '0' && text[0] <= '9')
        index = text[0] - '0';
    if (!v)
        return pare__choice_fail(r,
                                 "\"%s\" is missing: an item without its answer cannot be "
                                 "scored",
                                 key);
    if (index < 0 || (uint64_t)index >= out->choices)
        return pare__choice_fail(r, "\"%s\" must be the index of a choice, 0 to %zu", key,
                                 out->choices - 1);
    out->answer = (size_t)index;
    return PARE_OK;
}

/* Labels are texts of a list, or stand in objects of one. NULL for what is no text. */
static const char *label_at(const pare_json *labels, size_t i)
{
    const pare_json *const entry = pare_json_at(labels, i);
    const bool object = pare_json_type_of(entry) == PARE_JSON_OBJECT;
    return pare_json_text(object ? pare_json_get(entry, "label") : entry, NULL);
}

/* "answerKey" is the label of a choice. */
static pare_status take_key(const pare__choice_reading *r, const pare_json *item,
                            const pare_json *labels, pare_choice_text *out)
{
    const pare_json *const answer = pare_json_get(item, "answerKey");
    const char *key = pare_json_text(answer, NULL);
    bool found = false;
    while (key && *key == ' ') /* a few of OpenBookQA begin with it */
        key++;
    if (!answer)
        return pare__choice_fail(r, "\"answerKey\" is missing: an item without its answer cannot "
                                    "be scored");
    if (pare_json_count(labels) != out->choices)
        return pare__choice_fail(r, "there are %zu choices and %zu of \"label\"", out->choices,
                                 pare_json_count(labels));
    for (size_t i = 0; i < out->choices; i++) {
        const char *const label = label_at(labels, i);
        for (size_t j = 0; label && j < i; j++)
            if (label_at(labels, j) && strcmp(label, label_at(labels, j)) == 0)
                return pare__choice_fail(r,
                                         "choices %zu and %zu have one \"label\", %.32s: nothing "
                                         "says which of them is the answer",
                                         j, i, label);
        if (key && label && strcmp(label, key) == 0) {
            out->answer = i;
            found = true;
        }
    }
    return found ? PARE_OK
                 : pare__choice_fail(r, "\"answerKey\" is none of the labels of the choices");
}

static bool is_own(const pare_json *item)
{
    return has(item, "context");
}

static pare_status read_own(const pare__choice_reading *r, const pare_json *item,
                            pare_choice_text *out)
{
    PARE_TRY(pare__take_text(r, pare_json_get(item, "context"), "context", "", "", &out->context));
    PARE_TRY(pare__take_choices(r, pare_json_get(item, "choices"), "choices", "", out));
    return pare__take_index(r, pare_json_get(item, "answer"), "answer", out);
}

static bool is_piqa(const pare_json *item)
{
    return has(item, "goal") && has(item, "label");
}

static bool is_piqa_beside(const pare_json *item)
{
    return has(item, "goal") && !has(item, "label");
}

pare_status pare__choice_piqa(const pare__choice_reading *r, const pare_json *item,
                              pare_choice_text *out)
{
    const char **choice;
    PARE_TRY(take_question(r, pare_json_get(item, "goal"), "goal", out));
    PARE_TRY(pare__take_room(r, 2, &choice, out));
    PARE_TRY(pare__take_text(r, pare_json_get(item, "sol1"), "sol1", " ", "", &choice[0]));
    PARE_TRY(pare__take_text(r, pare_json_get(item, "sol2"), "sol2", " ", "", &choice[1]));
    if (!r->label)
        return pare__take_index(r, pare_json_get(item, "label"), "label", out);
    out->answer = (size_t)*r->label;
    return PARE_OK;
}

/* Published in one shape; "id" is a name of an examination there, such as Mercury_7220990, and
 * numbers here, such as 7-980. */
static bool is_open_book(const pare_json *item)
{
    size_t len;
    const char *const id = pare_json_text(pare_json_get(item, "id"), &len);
    return is_object(item, "question") && id && id[0] >= '0' && id[0] <= '9';
}

static bool is_arc(const pare_json *item)
{
    return is_object(item, "question") && !is_open_book(item);
}

static pare_status read_arc(const pare__choice_reading *r, const pare_json *item,
                            pare_choice_text *out)
{
    const pare_json *const question = pare_json_get(item, "question");
    const pare_json *const choices = pare_json_get(question, "choices");
    PARE_TRY(take_question(r, pare_json_get(question, "stem"), "stem", out));
    PARE_TRY(pare__take_choices(r, choices, "choices", " ", out));
    return take_key(r, item, choices, out);
}

static pare_status read_open_book(const pare__choice_reading *r, const pare_json *item,
                                  pare_choice_text *out)
{
    const pare_json *const question = pare_json_get(item, "question");
    const pare_json *const choices = pare_json_get(question, "choices");
    PARE_TRY(pare__take_text(r, pare_json_get(question, "stem"), "stem", "", "", &out->context));
    PARE_TRY(pare__take_choices(r, choices, "choices", " ", out));
    return take_key(r, item, choices, out);
}

static pare_status read_lists(const pare__choice_reading *r, const pare_json *item,
                              pare_choice_text *out)
{
    const pare_json *const choices = pare_json_get(item, "choices");
    PARE_TRY(pare__take_choices(r, pare_json_get(choices, "text"), "choices.text", " ", out));
    return take_key(r, item, pare_json_get(choices, "label"), out);
}

static bool is_arc_lists(const pare_json *item)
{
    return has(item, "question") && is_object(item, "choices");
}

static pare_status read_arc_lists(const pare__choice_reading *r, const pare_json *item,
                                  pare_choice_text *out)
{
    PARE_TRY(take_question(r, pare_json_get(item, "question"), "question", out));
    return read_lists(r, item, out);
}

static bool is_open_book_lists(const pare_json *item)
{
    return has(item, "question_stem");
}

static pare_status read_open_book_lists(const pare__choice_reading *r, const pare_json *item,
                                        pare_choice_text *out)
{
    PARE_TRY(pare__take_text(r, pare_json_get(item, "question_stem"), "question_stem", "", "",
                             &out->context));
    return read_lists(r, item, out);
}

pare_status pare__choice_arc(const pare__choice_reading *r, const pare_json *item,
                             pare_choice_text *out)
{
    return is_object(item, "question") ? read_arc(r, item, out) : read_arc_lists(r, item, out);
}

pare_status pare__choice_open_book(const pare__choice_reading *r, const pare_json *item,
                                   pare_choice_text *out)
{
    return is_object(item, "question") ? read_open_book(r, item, out)
                                       : read_open_book_lists(r, item, out);
}

static bool is_hellaswag(const pare_json *item)
{
    return has(item, "ctx");
}

static pare_status read_hellaswag(const pare__choice_reading *r, const pare_json *item,
                                  pare_choice_text *out)
{
    PARE_TRY(pare__take_text(r, pare_json_get(item, "ctx"), "ctx", "", "", &out->context));
    PARE_TRY(pare__take_choices(r, pare_json_get(item, "endings"), "endings", " ", out));
    return pare__take_index(r, pare_json_get(item, "label"), "label", out);
}

const pare__choice_shape *pare__choice_shape_of(const pare_json *item)
{
    static const pare__choice_shape shape[] = {
        {"pare's own shape", false, is_own, read_own},
        {"PIQA with \"label\"", false, is_piqa, pare__choice_piqa},
        {"PIQA without \"label\"", true, is_piqa_beside, pare__choice_piqa},
        {"OpenBookQA", false, is_open_book, read_open_book},
        {"ARC", false, is_arc, read_arc},
        {"ARC with lists of choices", false, is_arc_lists, read_arc_lists},
        {"OpenBookQA with lists of choices", false, is_open_book_lists, read_open_book_lists},
        {"HellaSwag", false, is_hellaswag, read_hellaswag}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        if (shape[i].is(item))
            return &shape[i];
    return NULL;
}
