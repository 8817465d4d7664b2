/* The tasks, and what a document of each asks: prompts and choices as lm_eval's task files have
 * them (piqa, arc, openbookqa, hellaswag, winogrande, super_glue/boolq, lambada, mmlu, truthfulqa,
 * gsm8k, wikitext). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compress/evaluate/task_internal.h"
#include "formats/unicode.h"
#include "recipes/pattern.h"

const char *pare__task_joined(pare_arena *a, ...)
{
    size_t len = 0, at = 0;
    va_list ap;
    va_start(ap, a);
    for (const char *t; (t = va_arg(ap, const char *));)
        len += strlen(t);
    va_end(ap);
    char *const out = PARE_NEW(a, char, len + 1);
    va_start(ap, a);
    for (const char *t; out && (t = va_arg(ap, const char *)); at += strlen(t))
        memcpy(out + at, t, strlen(t));
    va_end(ap);
    return out;
}

/* A text that may be empty, as it stands. */
static pare_status take_plain(const pare__task_reading *r, const pare_json *doc, const char *key,
                              const char **out)
{
    const pare_json *const v = pare_json_get(doc, key);
    const char *const text = pare_json_text(v, NULL);
    if (!text)
        return pare__choice_fail(&r->at, "\"%s\" must be a text, and is %s", key, pare__kind_of(v));
    *out = pare_arena_text(r->at.a, text, strlen(text));
    return *out ? PARE_OK : PARE_ENOMEM;
}

static pare_status take_filled(const pare__task_reading *r, const pare_json *doc, const char *key,
                               const char **out)
{
    return pare__take_text(&r->at, pare_json_get(doc, key), key, "", "", out);
}

static pare_status take_stripped(const pare__task_reading *r, const pare_json *doc, const char *key,
                                 const char **out)
{
    const char *from, *to;
    PARE_TRY(take_filled(r, doc, key, &from));
    to = from + strlen(from);
    pare_unicode_strip(&from, &to);
    *out = pare_arena_text(r->at.a, from, (size_t)(to - from));
    return *out ? PARE_OK : PARE_ENOMEM;
}

/* The texts of a list, as choices behind a space. */
static pare_status set_choices(const pare__task_reading *r, const char *const *text, size_t n,
                               pare_choice_text *out)
{
    const char **choice;
    PARE_TRY(pare__take_room(&r->at, n, &choice, out));
    for (size_t i = 0; i < n; i++) {
        choice[i] = pare__task_joined(r->at.a, " ", text[i], (char *)NULL);
        if (!choice[i])
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

/* Deletes "[", what follows on the line, and the next "]". */
static void drop_brackets(char *text)
{
    char *out = text;
    for (const char *at = text; *at;) {
        const size_t before = strcspn(at, "["), inside = strcspn(at + before, "]\n");
        const bool closed = at[before] && at[before + inside] == ']';
        const size_t stays = closed ? before : before + inside; /* no "]" comes on the line */
        memmove(out, at, stays);
        out += stays;
        at += closed ? before + inside + 1 : stays;
    }
    *out = '\0';
}

/* What lm_eval does to texts of HellaSwag, the marks of WikiHow among them. */
static const char *clean(pare_arena *a, const char *text)
{
    const char *from = text, *to = text + strlen(text);
    pare_unicode_strip(&from, &to);
    char *const out = pare_arena_text(a, from, (size_t)(to - from));
    if (out) {
        pare__task_replace(out, " [title]", ". ");
        drop_brackets(out);
        pare__task_replace(out, "  ", " ");
    }
    return out;
}

static pare_status read_hellaswag(const pare__task_reading *r, const pare_json *doc,
                                  pare__task_item *out)
{
    pare_arena *const a = r->at.a;
    pare_choice_text *const t = &out->text;
    const char *label, *front, *back;
    PARE_TRY(take_plain(r, doc, "activity_label", &label));
    PARE_TRY(take_plain(r, doc, "ctx_a", &front));
    PARE_TRY(take_plain(r, doc, "ctx_b", &back));
    const char *const large = pare_unicode_capitalize(a, back);
    const char *const whole =
        large ? pare__task_joined(a, label, ": ", front, " ", large, (char *)NULL) : NULL;
    t->context = whole ? clean(a, whole) : NULL;
    if (!t->context)
        return PARE_ENOMEM;
    PARE_TRY(pare__take_choices(&r->at, pare_json_get(doc, "endings"), "endings", "", t));
    const char *text[PARE__CHOICES_MAX];
    for (size_t i = 0; i < t->choices; i++) {
        text[i] = clean(a, t->choice[i]);
        if (!text[i])
            return PARE_ENOMEM;
    }
    PARE_TRY(set_choices(r, text, t->choices, t));
    return pare__take_index(&r->at, pare_json_get(doc, "label"), "label", t);
}

static pare_status read_winogrande(const pare__task_reading *r, const pare_json *doc,
                                   pare__task_item *out)
{
    pare_arena *const a = r->at.a;
    const char *sentence, *option[2], *answer;
    PARE_TRY(take_filled(r, doc, "sentence", &sentence));
    PARE_TRY(take_filled(r, doc, "option1", &option[0]));
    PARE_TRY(take_filled(r, doc, "option2", &option[1]));
    PARE_TRY(take_filled(r, doc, "answer", &answer));
    const char *const blank = strchr(sentence, '_');
    if (!blank)
        return pare__choice_fail(&r->at, "\"sentence\" has no _ for the options");
    if (strcmp(answer, "1") != 0 && strcmp(answer, "2") != 0)
        return pare__choice_fail(&r->at, "\"answer\" must be \"1\" or \"2\"");
    const char *const front = pare_arena_text(a, sentence, (size_t)(blank - sentence));
    const char *rest = blank + 1, *end = rest + strlen(rest);
    pare_unicode_strip(&rest, &end);
    if (rest == end)
        return pare__choice_fail(&r->at, "\"sentence\" ends at its _: there is nothing to score");
    const char *const text = pare_arena_text(a, rest, (size_t)(end - rest));
    for (size_t i = 0; front && i < 2; i++)
        out->context[i] = pare__task_joined(a, front, option[i], (char *)NULL);
    if (!text || !out->context[0] || !out->context[1])
        return PARE_ENOMEM;
    PARE_TRY(set_choices(r, &text, 1, &out->text));
    out->text.answer = answer[0] == '2';
    return PARE_OK;
}

/* 0 and 1, false and true, and both as texts. */
static bool take_truth(const pare_json *v, size_t *out)
{
    static const char *const word[][2] = {{"0", "1"}, {"false", "true"}, {"False", "True"}};
    const char *const text = pare_json_text(v, NULL);
    const int64_t number = pare_json_integer(v, -1);
    if (pare_json_type_of(v) == PARE_JSON_BOOL || number == 0 || number == 1) {
        *out = number == 1 || pare_json_bool(v, false);
        return true;
    }
    for (size_t i = 0; text && i < 6; i++)
        if (strcmp(text, word[i / 2][i % 2]) == 0) {
            *out = i % 2;
            return true;
        }
    return false;
}

static pare_status read_boolq(const pare__task_reading *r, const pare_json *doc,
                              pare__task_item *out)
{
    static const char *const word[] = {"no", "yes"};
    const char *passage, *question;
    const pare_json *const label = pare_json_get(doc, "label");
    PARE_TRY(take_filled(r, doc, "passage", &passage));
    PARE_TRY(take_filled(r, doc, "question", &question));
    if (!take_truth(label ? label : pare_json_get(doc, "answer"), &out->text.answer))
        return pare__choice_fail(
            &r->at, "\"label\" must be 0 or 1, or \"answer\" true or false, which says if yes is "
                    "right");
    out->text.context =
        pare__task_joined(r->at.a, passage, "\nQuestion: ", question, "?\nAnswer:", (char *)NULL);
    return out->text.context ? set_choices(r, word, 2, &out->text) : PARE_ENOMEM;
}

static pare_status read_lambada(const pare__task_reading *r, const pare_json *doc,
                                pare__task_item *out)
{
    const char *text;
    PARE_TRY(take_filled(r, doc, "text", &text));
    const char *const last = strrchr(text, ' ');
    if (!last || last == text || !last[1])
        return pare__choice_fail(&r->at, "\"text\" must have words in front of a space, and a last "
                                         "word behind it");
    out->text.context = pare_arena_text(r->at.a, text, (size_t)(last - text));
    const char *const word = last + 1;
    return out->text.context ? set_choices(r, &word, 1, &out->text) : PARE_ENOMEM;
}

enum { LETTERS = 4 };
static const char *const letter[LETTERS] = {"A", "B", "C", "D"};

/* Of a list, or (CSV) of four columns. */
static pare_status take_options(const pare__task_reading *r, const pare_json *doc,
                                const char *option[LETTERS])
{
    const pare_json *const list = pare_json_get(doc, "choices");
    pare_choice_text t;
    for (size_t i = 0; !list && i < LETTERS; i++)
        PARE_TRY(take_filled(r, doc, letter[i], &option[i]));
    if (!list)
        return PARE_OK;
    PARE_TRY(pare__take_choices(&r->at, list, "choices", "", &t));
    if (t.choices != LETTERS)
        return pare__choice_fail(&r->at, "\"choices\" has %zu texts, and must have 4", t.choices);
    memcpy(option, t.choice, LETTERS * sizeof *option);
    return PARE_OK;
}

/* Blanks are as good as "_", in which words of a subject are joined. */
static bool is_subject(const char *is, const char *asked)
{
    while (*is && (*is == *asked || (*is == ' ' && *asked == '_'))) {
        is++;
        asked++;
    }
    return *is == *asked;
}

static pare_status read_mmlu(const pare__task_reading *r, const pare_json *doc,
                             pare__task_item *out)
{
    const char *question, *o[LETTERS];
    const pare_json *const answer = pare_json_get(doc, "answer");
    const char *const key = pare_json_text(answer, NULL);
    PARE_TRY(take_stripped(r, doc, "question", &question));
    PARE_TRY(take_options(r, doc, o));
    out->text.context = pare__task_joined(r->at.a, question, "\nA. ", o[0], "\nB. ", o[1], "\nC. ",
                                          o[2], "\nD. ", o[3], "\nAnswer:", (char *)NULL);
    if (!out->text.context)
        return PARE_ENOMEM;
    PARE_TRY(set_choices(r, letter, LETTERS, &out->text));
    out->subject = r->subject;
    if (!r->subject && !pare_json_get(doc, "subject"))
        return pare__choice_fail(&r->at, "\"subject\" is missing: name the subject of the file in "
                                         "the task, as in mmlu_anatomy=FILE");
    if (pare_json_get(doc, "subject"))
        PARE_TRY(take_filled(r, doc, "subject", &out->subject));
    if (r->subject && !is_subject(out->subject, r->subject))
        return pare__choice_fail(&r->at, "\"subject\" is another one than that of the task: mmlu "
                                         "takes a file of several");
    out->subject = r->subject ? r->subject : out->subject;
    for (size_t i = 0; key && i < LETTERS; i++)
        if (strcmp(key, letter[i]) == 0) {
            out->text.answer = i;
            return PARE_OK;
        }
    return pare__take_index(&r->at, answer, "answer", &out->text);
}

#define TRUTHFUL                                                                                   \
    "Q: What is human life expectancy in the United States?\n"                                     \
    "A: Human life expectancy in the United States is 78 years.\n\n"                               \
    "Q: Who was president of the United States in 1955?\n"                                         \
    "A: Dwight D. Eisenhower was president of the United States in 1955.\n\n"                      \
    "Q: Which party did he belong to?\n"                                                           \
    "A: He belonged to the Republican Party.\n\n"                                                  \
    "Q: What is the square root of banana?\n"                                                      \
    "A: I have no comment.\n\n"                                                                    \
    "Q: How does a telescope work?\n"                                                              \
    "A: Telescopes use lenses or mirrors to focus light and make objects appear closer.\n\n"       \
    "Q: Where were the 1992 Olympics held?\n"                                                      \
    "A: The 1992 Olympics were held in Barcelona, Spain."

/* {"choices": [..], "labels": [..]}, or {choice: 0 or 1, ..} in the order of the file. */
static pare_status read_truthful(const pare__task_reading *r, const pare_json *doc, const char *key,
                                 pare__task_item *out)
{
    const pare_json *const v = pare_json_get(doc, key), *const list = pare_json_get(v, "choices");
    const pare_json *const labels = pare_json_get(v, "labels"), *label;
    const char *question, *text[PARE__CHOICES_MAX];
    pare_json_iter it = {0};
    size_t n = 0, is_right = 0;
    PARE_TRY(take_filled(r, doc, "question", &question));
    out->text.context =
        pare__task_joined(r->at.a, TRUTHFUL "\n\nQ: ", question, "\nA:", (char *)NULL);
    if (!out->text.context)
        return PARE_ENOMEM;
    const size_t count = pare_json_count(list ? list : v);
    if (pare_json_type_of(v) != PARE_JSON_OBJECT || count < 2 || count > PARE__CHOICES_MAX)
        return pare__choice_fail(&r->at,
                                 "\"%s\" must be an object with 2 to %d choices: \"choices\" and "
                                 "\"labels\", or each choice with 0 or 1",
                                 key, PARE__CHOICES_MAX);
    if (list && pare_json_count(labels) != count)
        return pare__choice_fail(&r->at, "\"%s\" has %zu choices and %zu labels", key, count,
                                 pare_json_count(labels));
    for (; n < count; n++) {
        text[n] = list ? pare_json_text(pare_json_at(list, n), NULL) : NULL;
        label = pare_json_at(labels, n);
        if (!list && !pare_json_next(v, &it, &text[n], &label))
            break;
        if (!text[n] || !*text[n] || !take_truth(label, &is_right))
            return pare__choice_fail(&r->at,
                                     "choice %zu of \"%s\" must be a text that is not "
                                     "empty, and its label 0 or 1",
                                     n, key);
        out->right |= (uint64_t)is_right << n;
    }
    return set_choices(r, text, n, &out->text);
}

static pare_status read_mc1(const pare__task_reading *r, const pare_json *doc, pare__task_item *out)
{
    PARE_TRY(read_truthful(r, doc, "mc1_targets", out));
    out->text.answer = 0;
    return out->right & 1 ? PARE_OK
                          : pare__choice_fail(&r->at, "the first choice of \"mc1_targets\" must be "
                                                      "the right one");
}

static pare_status read_mc2(const pare__task_reading *r, const pare_json *doc, pare__task_item *out)
{
    PARE_TRY(read_truthful(r, doc, "mc2_targets", out));
    return out->right ? PARE_OK
                      : pare__choice_fail(&r->at, "no choice of \"mc2_targets\" is right");
}

pare_status pare__task_page(const pare__task_reading *r, const char *page, pare__task_item *out)
{
    const char **choice;
    PARE_TRY(pare__take_room(&r->at, 1, &choice, &out->text));
    out->text.context = "";
    out->words = pare__task_words(page);
    out->bytes = strlen(page);
    choice[0] = pare__task_detokenize(r->at.a, page);
    return choice[0] ? PARE_OK : PARE_ENOMEM;
}

static pare_status read_page(const pare__task_reading *r, const pare_json *doc,
                             pare__task_item *out)
{
    const char *page;
    PARE_TRY(take_filled(r, doc, "page", &page));
    return pare__task_page(r, page, out);
}

/* The solution, which shots have, is what is held against. */
static pare_status read_gsm8k(const pare__task_reading *r, const pare_json *doc,
                              pare__task_item *out)
{
    const char *question, *answer;
    PARE_TRY(take_filled(r, doc, "question", &question));
    PARE_TRY(take_filled(r, doc, "answer", &answer));
    out->text.context =
        pare__task_joined(r->at.a, "Question: ", question, "\nAnswer:", (char *)NULL);
    return out->text.context ? set_choices(r, &answer, 1, &out->text) : PARE_ENOMEM;
}

static const char labelled[] = "question, choices {text, label}, answerKey";

static const pare_task_row tasks[] = {
    {"piqa", "goal, sol1, sol2, label", "acc, acc_norm", PARE__TASK_NORM, PARE__SHOTS_OTHERS, NULL,
     pare__choice_piqa},
    {"arc_easy", labelled, "acc, acc_norm", PARE__TASK_NORM, PARE__SHOTS_DRAWN, NULL,
     pare__choice_arc},
    {"arc_challenge", labelled, "acc, acc_norm", PARE__TASK_NORM, PARE__SHOTS_DRAWN, NULL,
     pare__choice_arc},
    {"openbookqa", "question_stem, choices {text, label}, answerKey", "acc, acc_norm",
     PARE__TASK_NORM, PARE__SHOTS_DRAWN, NULL, pare__choice_open_book},
    {"hellaswag", "activity_label, ctx_a, ctx_b, endings, label", "acc, acc_norm", PARE__TASK_NORM,
     PARE__SHOTS_OTHERS, read_hellaswag, NULL},
    {"winogrande", "sentence, option1, option2, answer", "acc", PARE__TASK_ACC, PARE__SHOTS_OTHERS,
     read_winogrande, NULL},
    {"boolq", "passage, question, label (or answer)", "acc", PARE__TASK_ACC, PARE__SHOTS_OTHERS,
     read_boolq, NULL},
    {"mmlu", "question, choices (or A, B, C, D), answer, subject", "acc", PARE__TASK_ACC,
     PARE__SHOTS_FIRST, read_mmlu, NULL},
    {"truthfulqa_mc1", "question, mc1_targets {choices, labels}", "acc", PARE__TASK_ACC,
     PARE__SHOTS_NONE, read_mc1, NULL},
    {"truthfulqa_mc2", "question, mc2_targets {choices, labels}", "acc", PARE__TASK_MASS,
     PARE__SHOTS_NONE, read_mc2, NULL},
    {"lambada_openai", "text", "perplexity, acc", PARE__TASK_WORD, PARE__SHOTS_NONE, read_lambada,
     NULL},
    {"gsm8k", "question, answer", "exact_match,strict-match, exact_match,flexible-extract",
     PARE__TASK_ANSWER, PARE__SHOTS_DRAWN, read_gsm8k, NULL},
    {"wikitext", "page (or the text itself)", "word_perplexity, byte_perplexity, bits_per_byte",
     PARE__TASK_PAGE, PARE__SHOTS_NONE, read_page, NULL},
};
enum { TASKS = sizeof tasks / sizeof *tasks };

const pare_task_row *pare_task_at(size_t i)
{
    return i < TASKS ? &tasks[i] : NULL;
}

const pare_task_row *pare_task_find(const char *name)
{
    for (size_t i = 0; i < TASKS; i++) {
        const size_t len = strlen(tasks[i].name);
        const bool parted = tasks[i].shots == PARE__SHOTS_FIRST && name[0] &&
                            strncmp(name, tasks[i].name, len) == 0 && name[len] == '_' &&
                            name[len + 1];
        if (parted || strcmp(name, tasks[i].name) == 0)
            return &tasks[i];
    }
    return NULL;
}

const char *pare_task_name(const pare_task_row *t)
{
    return t->name;
}

const char *pare_task_keys(const pare_task_row *t)
{
    return t->keys;
}

const char *pare_task_metrics(const pare_task_row *t)
{
    return t->metrics;
}

bool pare_task_has_share(const pare_task_row *t, const char *name)
{
    if (strcmp(name, "acc_norm") == 0)
        return t->kind == PARE__TASK_NORM;
    return strcmp(name, "acc") == 0 && strstr(t->metrics, name) != NULL;
}

bool pare_task_writes(const pare_task_row *t)
{
    return t->kind == PARE__TASK_ANSWER;
}

pare_status pare_task_unknown(pare_ctx *cx, const char *name)
{
    const char *word[TASKS];
    char list[256];
    size_t used = 0;
    for (size_t i = 0; i < TASKS; i++) {
        word[i] = tasks[i].name;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", word[i]);
    }
    const char *const near = pare_nearest_word(name, word, TASKS);
    return pare_fail(cx, PARE_EUSAGE, "no task \"%.64s\"%s%s%s; the tasks are %s, and mmlu_SUBJECT",
                     name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "", list);
}
