/* compress/evaluate/choice_items.h - multiple-choice files: one JSON object per line, in the shapes
 * in which PIQA, ARC, OpenBookQA and HellaSwag are published, or in pare's own.
 *
 * The keys of the first item tell the shape, and every item must have the same:
 *
 *   pare        {"context", "choices": [text, ...], "answer": index from 0}, taken as they are
 *   PIQA        {"goal", "sol1", "sol2", "label": 0 or 1}; without "label" the labels stand, one a
 *               line, in a file beside it: valid-labels.lst for valid.jsonl
 *   ARC         {"question": {"stem", "choices": [{"text", "label"}, ...]}, "answerKey": a label}
 *               or {"question", "choices": {"text": [], "label": []}, "answerKey"}
 *   OpenBookQA  as the first of ARC with an "id" that begins with a digit, or as the second with
 *               "question_stem" instead of "question"
 *   HellaSwag   {"ctx", "endings": [text, ...], "label": index from 0, as a number or a text}
 *
 * The context is "Question: GOAL\nAnswer:" for PIQA and ARC, the stem for OpenBookQA and the text
 * of "ctx" for HellaSwag; a choice continues it behind a space. A byte order mark, CR in front of a
 * line's end and blank lines are skipped. */
#ifndef PARE_COMPRESS_CHOICE_ITEMS_H
#define PARE_COMPRESS_CHOICE_ITEMS_H

#include "compress/evaluate/evaluate.h"
#include "formats/checkpoint.h"
#include "runtime/watch.h"

/* One item as text; a choice has its leading space. */
typedef struct pare_choice_text {
    const char *context;
    const char *const *choice; /* [choices] */
    size_t choices, answer;
    size_t line;    /* of the file, from 1 */
    const char *by; /* its field that answers are told apart by; NULL where that is not asked for */
} pare_choice_text;

typedef struct pare_choice_texts {
    const char *path;
    pare_choice_text *item;
    size_t count, all; /* items that were read, and that the file has */
} pare_choice_texts;

/* Reads a file, at most the first `limit` items (0: all); texts in the arena. `by`: a field of the
 * items (text, number, true or false) by which answers are told apart, or NULL; items without it
 * have "(none)".
 *
 * Returns PARE_OK, PARE_ENOMEM, what pare_file_read returns, or
 *   PARE_EFORMAT  named by file, line and key: no JSON, keys of no known shape, another shape than
 *                 the first item's, an empty or missing text, fewer than 2 choices or more than 64,
 *                 an answer that is none of them, two choices with one label; labels that are not
 * there, of another number than the items, or not 0 or 1; no items; an array or object as `by`
 *   PARE_EUSAGE   no item has the field; the message has those that there are
 *
 * Safe for untrusted input: files up to 1 GiB, lines up to 1 MiB. */
PARE_CHECKED pare_status pare_choice_read(pare_ctx *cx, pare_arena *a, const char *path,
                                          size_t limit, const char *by, pare_choice_texts *out);

/* Tokens of the texts, in the arena. A choice has the tokens behind the context's in those of both
 * together; where a token spans the border, those of the choice alone.
 *
 * Returns PARE_OK, PARE_ENOMEM, what pare_tokenizer_encode returns, or
 *   PARE_EFORMAT  named by file and line: a context or choice without tokens, or more than `most`
 *                 of both together, which is what the model takes */
PARE_CHECKED pare_status pare_choice_encode(pare_ctx *cx, pare_arena *a, const pare_tokenizer *t,
                                            const pare_choice_texts *texts, size_t most,
                                            pare_choice_item **item);

/* Reads a file and gives its items in the tokens of a model, each of which takes `most` at most.
 * Returns what pare_choice_read, pare_checkpoint_tokenizer and pare_choice_encode return. */
PARE_CHECKED pare_status pare_choice_load(pare_ctx *cx, pare_arena *a, const pare_checkpoint *ck,
                                          size_t most, const char *path, size_t limit,
                                          const char *by, pare_choice_texts *texts,
                                          pare_choice_item **item);

/* Where labels stand that are not in the file at `path`. NULL: PARE_ENOMEM. */
char *pare_choice_labels(pare_arena *a, const char *path);

/* Notes the file, and the labels beside it, whether they are there or not. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_choice_watch(pare_arena *a, pare_watch *w, const char *path);

#endif
