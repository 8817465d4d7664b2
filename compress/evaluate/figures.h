/* compress/evaluate/figures.h - what was measured of one model, in the words that the JSON of every
 * command has for it. */
#ifndef PARE_COMPRESS_FIGURES_H
#define PARE_COMPRESS_FIGURES_H

#include "compress/evaluate/continuations.h"
#include "compress/evaluate/evaluate.h"
#include "compress/evaluate/needle.h"
#include "compress/evaluate/paired.h"
#include "compress/evaluate/task.h"
#include "formats/json.h"

/* One multiple-choice file. */
typedef struct pare_choice_figures {
    const char *file;
    pare_choice_result result;
    bool complete;          /* no interrupt came before the last item */
    unsigned char *verdict; /* [items], as pare_choice_item has them */
    size_t items;
    bool has_paired; /* held against the baseline's answers */
    pare_paired paired, paired_norm;
    const char *by;        /* the field of the items that accuracy is told apart by, or NULL */
    pare_task_parts parts; /* by its values, sorted */
} pare_choice_figures;

/* Bytes; 0 where they were not taken of this model alone. */
typedef struct pare_memory_figures {
    uint64_t weight_bytes; /* of all tensors, as they are stored */
    uint64_t mapped_bytes; /* the same in memory: some blocks of GGUF become floats */
    double bits_per_weight, model_bits_per_weight; /* of the compressed linears; of all tensors */
    uint64_t peak_rss_bytes, peak_anonymous_bytes;
} pare_memory_figures;

typedef struct pare_figures {
    const char *model;     /* as given */
    uint64_t disk_bytes;   /* of its weight files */
    size_t window, stride; /* window 0: no text was scored; stride 0: windows do not overlap */
    bool text_complete;    /* no interrupt came before the last window */
    bool by_position;      /* its bins are wanted */
    pare_eval_result text;
    pare_choice_figures *choice;
    size_t choices;
    pare_task_figures *task;
    size_t tasks;
    const pare_needle_figures *needle;          /* NULL: none */
    const pare_continue_figures *continuations; /* NULL: none */
    bool has_speed;
    pare_speed_result speed;
    pare_memory_figures memory;
} pare_figures;

/* Asks items of a model, with verdicts [items] from the arena; file stays as it is. Statuses of
 * pare_evaluate_choice; on PARE_EINTERRUPTED result holds what was asked. */
PARE_CHECKED pare_status pare_choice_ask(pare_ctx *cx, pare_arena *a, const pare_forward *f,
                                         pare_choice_item *item, size_t items,
                                         pare_choice_figures *out);

/* Accuracy by the field `by` of the texts that were asked; out->by is set by the caller, NULL:
 * nothing. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_choice_part(pare_arena *a, const pare_choice_texts *texts,
                                          pare_choice_figures *out);

/* Holds answers against those of the baseline to the same items. */
void pare_choice_pair(const pare_choice_figures *baseline, pare_choice_figures *out);

/* Whether all that was asked for is there, and nothing of it was cut short. */
bool pare_figures_complete(const pare_figures *f, bool text, size_t choices, size_t tasks,
                           bool speed);

/* The baseline's own part of a result. */
pare_eval_result pare_figures_baseline(const pare_eval_result *r);

/* Members of the object that is open: what was not measured is absent, what is not finite null, and
 * what an interrupt cut short has "complete": false.
 *
 *   text    tokens, perplexity {nll, ppl, stderr}, kl {mean, p99, top1_agreement, flips}
 *   bins    by_position [{from, to, tokens, nll, ppl, stderr, baseline_nll, kl}]
 *   choice  choice [{file, n, accuracy, accuracy_stderr, accuracy_norm, accuracy_norm_stderr,
 *           paired {gained, lost, p}, paired_norm}]
 *   memory  memory {weight_bytes, bits_per_weight, model_bits_per_weight, mapped_bytes,
 *           peak_rss_bytes, peak_anonymous_bytes}
 *   all     model, disk_bytes, window, stride, those, tasks, needle, continuations,
 *           speed, memory */
void pare_figures_put_text(pare_json_writer *w, const pare_eval_result *r, bool complete);
void pare_figures_put_choice(pare_json_writer *w, const pare_choice_figures *c, size_t choices);
void pare_figures_put_memory(pare_json_writer *w, const pare_memory_figures *m);
void pare_figures_put(pare_json_writer *w, const pare_figures *f);

/* peak_rss_bytes, peak_anonymous_bytes of a run; 0: the system does not say, and it is absent. */
void pare_figures_put_peaks(pare_json_writer *w, uint64_t resident, uint64_t anonymous);

#endif
