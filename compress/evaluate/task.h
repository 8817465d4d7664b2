/* compress/evaluate/task.h - tasks as EleutherAI's evaluation harness (lm_eval 0.4) scores them,
 * from local files.
 *
 * A document becomes requests: a context, and a choice behind it. The tokens of a choice are those
 * of both texts together behind as many as the context alone has; white space at the end of a
 * context belongs to the choice. Both have the tokens around them that the tokenizer adds (BOS).
 * What is longer than the model takes loses tokens of its context, from the left.
 *
 *   acc              share of documents whose right choice has the largest sum of log-likelihoods;
 *                    the first of equals counts
 *   acc_norm         the same of sums over code points of the choice, without the space before it
 *   mc2 (acc)        mean over documents of sum exp(ll) of the right choices / of all
 *   perplexity       exp(-mean ll) of the last word; acc: every token of it is the likeliest one
 *   word_perplexity  exp(-sum ll / words) of whole pages; byte_perplexity by bytes, bits_per_byte
 *                    -sum ll / bytes / ln 2; words and bytes are those of the file
 *   exact_match      share of documents whose number the model writes, greedily: behind the first
 *                    "#### " (strict-match), or the last one that there is (flexible-extract)
 *
 * Errors of means are the sample deviation over sqrt(n); that of perplexity is perplexity times
 * this error of the mean (the harness draws it by bootstrap); figures of pages have none. */
#ifndef PARE_COMPRESS_TASK_H
#define PARE_COMPRESS_TASK_H

#include "compress/evaluate/choice_items.h"
#include "compress/evaluate/paired.h"
#include "formats/json.h"

typedef struct pare_task_row pare_task_row;

/* The task of this name, "mmlu_anatomy" too; NULL: none. */
const pare_task_row *pare_task_find(const char *name);
/* Task i of the table, or NULL: its name, the keys of its files, its figures. */
const pare_task_row *pare_task_at(size_t i);
const char *pare_task_name(const pare_task_row *t);
const char *pare_task_keys(const pare_task_row *t);
const char *pare_task_metrics(const pare_task_row *t);
/* Whether one of its figures is this share of documents: "acc" or "acc_norm". */
bool pare_task_has_share(const pare_task_row *t, const char *name);
/* "no task X; did you mean Y?" with all names, into cx. Returns PARE_EUSAGE. */
pare_status pare_task_unknown(pare_ctx *cx, const char *name);

/* What is asked of one task. */
typedef struct pare_task_asked {
    const char *name, *file;
    size_t limit; /* the first documents; 0: all */
    size_t shots; /* solved examples in front of each document; 0 to PARE_TASK_SHOTS */
    const char
        *shots_file; /* that they are taken from: mmlu the first, others by a draw; or NULL */
    const char *by;  /* a field of the documents that shares are told apart by, or NULL */
} pare_task_asked;
enum { PARE_TASK_SHOTS = 64 };

/* A document as text; its requests are the texts [first, first + count). */
typedef struct pare_task_doc {
    size_t first, count; /* requests; then, in pare_task_data, the items */
    size_t value;        /* of its choices among all (pare_task_data) */
    size_t choices, answer;
    uint64_t right;       /* bit c: choice c is right, of mc2 */
    const size_t *length; /* code points that acc_norm divides by, [choices]; [1] of winogrande */
    size_t words, bytes;  /* of a page */
    const char *group;    /* its field, or the subject of mmlu; NULL: none */
    size_t line;
} pare_task_doc;

typedef struct pare_task_texts {
    const pare_task_row *task;
    pare_choice_texts request;
    pare_task_doc *doc;
    size_t docs, all; /* that were read, and that the file has */
} pare_task_texts;

/* Checks what is asked and reads the files; texts in the arena.
 *
 * Returns PARE_OK, PARE_ENOMEM, what pare_file_read returns, or
 *   PARE_EUSAGE   no task of that name; shots for a task that takes none, without a file, or more
 *                 than the file has; `by` that no document has, or for a task without answers that
 *                 are right or wrong
 *   PARE_ENOTSUP  a .parquet file; the message has a line that converts it
 *   PARE_EFORMAT  named by file, line and key: no JSON or CSV, a missing key, a value of another
 *                 type, an answer that is none of the choices; no documents
 *
 * Safe for untrusted input: files up to 1 GiB, documents up to 1 MiB (a page: of any length). */
PARE_CHECKED pare_status pare_task_read(pare_ctx *cx, pare_arena *a, const pare_task_asked *asked,
                                        pare_task_texts *out);

/* What each token is written as: token t is text[start[t]] up to start[t + 1]. */
typedef struct pare_task_pieces {
    const char *text;
    const size_t *start; /* [count + 1] */
    size_t count;
} pare_task_pieces;

/* A task in the tokens of a model. */
typedef struct pare_task_data {
    pare_task_texts texts;
    pare_choice_item *item; /* [items] */
    size_t items, values;   /* values: choices of all items */
    size_t longest;         /* positions that the longest item takes */
    size_t cut;             /* documents whose context lost tokens */
    /* Of tasks whose answers the model writes, else none: the first token of an answer, which
     * decoders may strip, and the next ones. */
    pare_task_pieces first, next;
    const char *end_text; /* of the tokenizer's EOS, or NULL */
} pare_task_data;

/* Tokens of the texts that data->texts has, which were read from `path`, for a model that takes
 * `most`. Statuses of pare_task_load. */
PARE_CHECKED pare_status pare_task_encode(pare_ctx *cx, pare_arena *a, const pare_tokenizer *t,
                                          size_t most, const char *path, pare_task_data *data);

/* pare_task_read in the tokens of a model that takes `most`. Returns what pare_task_read and
 * pare_checkpoint_tokenizer return, or PARE_EFORMAT: a choice that is longer than the model takes,
 * a context without tokens; a page, for a tokenizer without BOS and EOS. */
PARE_CHECKED pare_status pare_task_load(pare_ctx *cx, pare_arena *a, const pare_checkpoint *ck,
                                        size_t most, const pare_task_asked *asked,
                                        pare_task_data *out);

/* Adds the files to what must stay as it is. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_task_watch(pare_arena *a, pare_watch *w,
                                         const pare_task_asked *asked);

typedef struct pare_task_metric {
    const char *name;    /* "acc" */
    double value, error; /* error NaN: none */
    bool share;          /* of documents: between 0 and 1 */
    unsigned right;      /* the bit of verdicts that it counts, or 0 */
    pare_paired paired;  /* with right, against the baseline */
} pare_task_metric;

enum { PARE_TASK_METRICS = 3 };

/* The first share of the documents of one subject, or of one value of a field. */
typedef struct pare_task_group {
    const char *name;
    size_t n;
    pare_task_metric acc;
} pare_task_group;

typedef struct pare_task_figures {
    pare_task_asked asked;
    size_t n; /* documents */
    size_t docs, all, cut;
    bool complete; /* no interrupt came before the last one */
    pare_task_metric metric[PARE_TASK_METRICS];
    size_t metrics;
    /* By a field, sorted by name; subjects in the order of the file, one alone is left out. */
    pare_task_group *group;
    size_t groups;
    unsigned char *verdict; /* [docs] as pare_choice_item has them */
    const size_t *part;     /* [docs] in which group each is that was asked; NULL: no groups */
    bool has_paired;
} pare_task_figures;

/* Scores a model; figures in the arena. Statuses of pare_evaluate_choice; on PARE_EINTERRUPTED the
 * figures are of the n documents whose items were all asked, if n is not 0. */
PARE_CHECKED pare_status pare_task_ask(pare_ctx *cx, pare_arena *a, const pare_forward *f,
                                       const pare_task_data *data, const pare_task_asked *asked,
                                       pare_task_figures *out);

/* Whether a model writes its answers to this task. Then pare_task_ask takes
 * pare_task_write_bytes, upper bound, for so many prompts of at most `longest` tokens; else what
 * pare_evaluate_choice takes. */
bool pare_task_writes(const pare_task_row *t);
uint64_t pare_task_write_bytes(const pare_ctx *cx, const pare_eval_side *side, size_t items,
                               size_t longest);

/* Answers by what their documents have in common. */
typedef struct pare_task_parts {
    pare_task_group *group;
    size_t groups;
    const size_t *part; /* [docs] in which group each is that was asked */
} pare_task_parts;

/* Shares, called `metric`, of the documents that were asked, by their names [docs]: in the order in
 * which they come, or in that of the names. In the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_task_part(pare_arena *a, const char *const *name, size_t docs,
                                        const unsigned char *verdict, const char *metric,
                                        bool in_order, pare_task_parts *out);
/* Holds them against verdicts of the baseline. */
void pare_task_pair_parts(const pare_task_parts *p, size_t docs, const unsigned char *now,
                          const unsigned char *baseline);
/* Member "groups" of the object that is open, where there are any. */
void pare_task_put_groups(pare_json_writer *w, const pare_task_group *group, size_t groups,
                          bool has_paired);

/* Holds answers against those of the baseline to the same documents. */
void pare_task_pair(const pare_task_figures *baseline, pare_task_figures *out);

/* Member "tasks" of the object that is open:
 *   [{task, file, n, complete?, shots?, shots_file?, truncated?, by?,
 *     metrics [{name, value, stderr?, paired? {gained, lost, p}}],
 *     groups? [{name, n, acc, acc_stderr, paired?}]}] */
void pare_task_put(pare_json_writer *w, const pare_task_figures *t, size_t tasks);

#endif
