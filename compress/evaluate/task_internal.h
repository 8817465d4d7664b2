/* compress/evaluate/task_internal.h - the table of tasks, and documents before they are prompts. */
#ifndef PARE_COMPRESS_TASK_INTERNAL_H
#define PARE_COMPRESS_TASK_INTERNAL_H

#include "compress/evaluate/choice_internal.h"
#include "compress/evaluate/task.h"

typedef enum pare__task_kind {
    PARE__TASK_ACC,
    PARE__TASK_NORM, /* acc and acc_norm */
    PARE__TASK_MASS, /* mc2 */
    PARE__TASK_WORD, /* perplexity and acc of the last word */
    PARE__TASK_PAGE,
    PARE__TASK_ANSWER /* that the model writes */
} pare__task_kind;

/* Where shots come from, for a file whose split the harness takes none from: */
typedef enum pare__task_shots {
    PARE__SHOTS_NONE,
    PARE__SHOTS_DRAWN,  /* a sample of the other file */
    PARE__SHOTS_OTHERS, /* a sample of one more, without what is the document itself: the harness
                           does so where a task has no test split */
    PARE__SHOTS_FIRST
} pare__task_shots;

/* One document: one context with choices, or (winogrande) a context for each choice of one text. */
typedef struct pare__task_item {
    pare_choice_text text;
    const char *context[2]; /* winogrande: text.choice[0] stands behind each; else NULL */
    uint64_t right;         /* of mc2 */
    const char *subject;    /* of mmlu */
    size_t words, bytes;    /* of a page, as it stands in the file */
    const char *row;        /* the line of JSON that it is, [row_len], or NULL */
    size_t row_len;
} pare__task_item;

typedef struct pare__task_reading {
    pare__choice_reading at; /* the file, and the line of the document */
    const char *subject;     /* "anatomy" of mmlu_anatomy, or NULL */
} pare__task_reading;

struct pare_task_row {
    const char *name, *keys, *metrics;
    pare__task_kind kind;
    pare__task_shots shots;
    /* One of both: the latter gives what is the same in pare's other reader of choices. */
    pare_status (*read)(const pare__task_reading *r, const pare_json *doc, pare__task_item *out);
    pare__choice_reader *choice;
};

/* Tokens of an answer that a model writes, at most. */
enum { PARE__TASK_WRITTEN = 256 };

/* What a token is written as, [*len], the first of an answer or a later one: texts of an answer
 * join to what its tokens decode to. "" for a token that the tokenizer does not have. */
const char *pare__task_piece(const pare_task_data *d, int32_t token, bool first, size_t *len);

/* What a model writes behind the items of data, which have no choices, as verdicts of the items:
 * PARE_CHOICE_RIGHT by the strict rule, RIGHT_NORM by the flexible one. PARE_ENUMERIC, PARE_ENOMEM,
 * PARE_EINTERRUPTED: then items that were done have verdicts; PARE_ENOTSUP: an answer beyond 64
 * KiB. Memory: caches of all blocks for at most 16 documents, and 256 MiB where they are more than
 * one. */
PARE_CHECKED pare_status pare__task_write(pare_ctx *cx, const pare_forward *f,
                                          const pare_task_data *data);

/* Cuts what a model wrote in front of what ends an answer: "Question:", "</s>", "<|im_end|>" or
 * end_text, unless NULL. Whether there was such. */
bool pare__task_cut(char *text, const char *end_text);

/* The verdict on one text that was written and cut; `answer` is that of the
 * document. The arena is scratch. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__task_answer(pare_arena *a, const char *written, const char *answer,
                                           unsigned char *verdict);

/* A page as it stands in the file, as a document. */
PARE_CHECKED pare_status pare__task_page(const pare__task_reading *r, const char *page,
                                         pare__task_item *out);

/* All documents of a file, at most the first `limit` (0: all). */
PARE_CHECKED pare_status pare__task_file(pare_ctx *cx, pare_arena *a, const pare_task_row *t,
                                         const char *subject, const char *path, size_t limit,
                                         const char *by, pare__task_item **item, size_t *count,
                                         size_t *all);

/* CSV by RFC 4180, lines ending in LF or CRLF; blank lines are skipped. */
enum { PARE__CSV_CELLS = 64 };
typedef struct pare__csv {
    const char *path;
    char *at, *end;
    size_t line, next; /* of the row that came last, and of what is behind it, from 1 */
} pare__csv;
/* `text` [len], with a NUL behind, is written over by the rows. PARE_EFORMAT: no text. */
PARE_CHECKED pare_status pare__csv_open(pare_ctx *cx, const char *path, char *text, size_t len,
                                        pare__csv *out);
/* The next row; *count 0: there is none. PARE_EFORMAT. */
PARE_CHECKED pare_status pare__csv_row(pare_ctx *cx, pare__csv *c, char *cell[PARE__CSV_CELLS],
                                       size_t *count);
/* A row as an object of texts; free it with pare_json_free. PARE_EFORMAT: another number of cells
 * than columns, two columns of one name. */
PARE_CHECKED pare_status pare__csv_object(pare_ctx *cx, const pare__csv *c,
                                          const char *const *column, size_t columns,
                                          char *const *cell, size_t count, pare_json **out);

/* Texts, ended by NULL, one behind the other in the arena. NULL: PARE_ENOMEM, recorded. */
const char *pare__task_joined(pare_arena *a, ...);

/* Numbers names [count] in the order in which they first come, or in that of their bytes: of
 * [count], below *groups. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__task_groups(pare_arena *a, const char *const *name, size_t count,
                                           bool in_order, size_t *of, size_t *groups);

/* Members value, stderr, paired of the object that is open. */
void pare__task_put_metric(pare_json_writer *w, const pare_task_metric *m, bool has_paired);

/* The share of documents whose verdict has a bit, of n. */
pare_task_metric pare__task_share(const char *name, unsigned bit, size_t right, size_t n);

/* str.replace: every `from` becomes `to`, which is not longer; in place, from left to right. */
void pare__task_replace(char *text, const char *from, const char *to);

/* A page as the harness gives it to a model, in the arena (NULL: PARE_ENOMEM, recorded), and its
 * words: what white space parts, empty ones at both ends included. */
const char *pare__task_detokenize(pare_arena *a, const char *page);
size_t pare__task_words(const char *page);

#endif
