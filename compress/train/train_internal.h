/* compress/train/train_internal.h - one running training and the parts it is made of. */
#ifndef PARE_COMPRESS_TRAIN_INTERNAL_H
#define PARE_COMPRESS_TRAIN_INTERNAL_H

#include "calib/tokens.h"
#include "compress/artifact/adapter.h"
#include "compress/artifact/training_state.h"
#include "compress/output/journal.h"
#include "compress/output/output_swap.h"
#include "compress/plan/job_paths.h"
#include "compress/text/warnings.h"
#include "compress/train/train_job.h"
#include "formats/packed.h"
#include "recipes/train_recipe.h"

typedef struct pare_training {
    pare_ctx *cx;
    pare_arena *a;      /* lives as long as the job */
    pare_arena scratch; /* rewound after every step */
    pare_arena begin;   /* random weights, until they are copied */
    pare_arena own;     /* leaves and the student */
    const pare_job *job;
    const pare_teller *teller;
    pare_warnings *warned;
    double began, started, joules;          /* the job, the steps; of cx->energy then */
    pare_param params[PARE_PARAMS_MAX + 1]; /* of `train` */
    pare_train_recipe recipe;
    char *portable, *written; /* the recipe, without and with paths */
    size_t written_len;
    pare_output_place place;
    bool replaces, made; /* a finished output; the folder of the work was not there */
    pare_lock lock;
    pare_journal *journal;

    char *model_path, *teacher_path; /* model_path: of config.json where `fresh` */
    bool fresh, own_teacher;         /* random weights; a teacher of its own */
    pare_checkpoint model, teacher;  /* with `fresh` the first has only config and tokenizer */
    pare_model source, student, taught_by; /* as it lies there; what is trained; the teacher */
    size_t *kept;                          /* [student.config.blocks] blocks of the source */
    pare_forward student_f, teacher_f;
    pare_trainee trainee;
    pare_projection projection;   /* of the trainee, where it has one */
    bool taught;                  /* a loss compares with the teacher */
    pare_adapter_result *adapter; /* NULL: every weight is trained */
    bool *adapted; /* [blocks][parts][PARE_ROLES] linears with an adapter; NULL: none */

    pare_train_opts opts;
    uint64_t weights, leaf_bytes; /* that are trained; their values, gradients and moments */
    uint64_t inside, outside;     /* of them: the most of a block; of what lies outside */
    size_t window;
    pare_tokens windows, held_out; /* [, window] each */
    char windows_sha256[PARE_SHA256_HEX], held_out_sha256[PARE_SHA256_HEX];
    double deviation;                         /* of random weights */
    const char *tokenizer, *tokenizer_config; /* texts of a tokenizer that was trained, or NULL */
    size_t tokenizer_len, tokenizer_config_len;
    int32_t bos, eos; /* its tokens */

    pare_file_digest *input;
    size_t inputs;
    uint8_t asked[16]; /* hash of recipe and data */
    pare_training_state state;
    size_t begun; /* steps of an earlier run */
    double saved, spent;
    pare_dtype dtype; /* of what is written */
    pare_packed_layout layout;
} pare_training;

/* Whether streams of two widths are compared. */
static inline bool pare__train_projects(const pare_training *t)
{
    return t->taught &&
           pare_train_projects(&t->opts.losses, &t->source.config, &t->taught_by.config);
}

/* Tells it; what begins with "warning: " is kept for the report, once. */
void pare__train_tell(const pare_training *t, const char *fmt, ...) PARE_PRINTF(2, 3);

/* Opens what the recipe begins with, and the teacher: source, taught_by. Refuses a family whose
 * checkpoint cannot be written. */
PARE_CHECKED pare_status pare__train_open(pare_training *t);

/* Block of the source that is block i of the student. */
size_t pare__train_kept(const pare_training *t, size_t i);

/* Which linears get adapters: adapter, adapted. PARE_EUSAGE for a target that is none, for a
 * rank above a side of one, for adapters alone of a mixture's MLPs. */
PARE_CHECKED pare_status pare__train_pick(pare_training *t);
bool pare__train_adapted(const pare_training *t, size_t block, const pare_leaf *leaf);

/* The trainee with adapters. */
PARE_CHECKED pare_status pare__train_adapt(pare_training *t);

/* Hashes what the training begins with, and opens the journal of the work: what an earlier run of
 * the same training left there but for its state goes, for it is written again. asked, journal.
 * PARE_EEXISTS for the work of another training. */
PARE_CHECKED pare_status pare__train_claim_work(pare_training *t);

/* The same for a plan to be looked at, as far as the recipe tells; changes nothing. */
PARE_CHECKED pare_status pare__train_check_work(pare_training *t);

/* Random weights where the recipe asks for them; then student and trainee own what is trained. */
PARE_CHECKED pare_status pare__train_take(pare_training *t);

/* Leaf i of all that the student has, in the order of a trainee of all of them, with its name in
 * the checkpoint: false behind the last. `at` is 0 at first and moves on. */
enum { PARE_TRAIN_NAME = 512 };
bool pare__train_leaf(const pare_training *t, size_t *at, pare_leaf *leaf,
                      char name[PARE_TRAIN_NAME]);

/* Whether what the training begins with has the leaf, random weights that are not made yet
 * included. a: the family, or a kind of its blocks. */
bool pare__train_has(const pare_training *t, const pare_arch *a, const pare_leaf *leaf);

/* The windows to train on and those held out; a tokenizer first where the recipe asks for one. */
PARE_CHECKED pare_status pare__train_data(pare_training *t);

/* Weights rounded as they are stored, before they are measured. */
PARE_CHECKED pare_status pare__train_round(pare_training *t);

/* The files of the output, into the directory of the work: of a checkpoint, of adapters alone. */
PARE_CHECKED pare_status pare__train_write(pare_training *t, pare_train_done *done);
PARE_CHECKED pare_status pare__train_write_adapter(pare_training *t, pare_train_done *done);

/* One file of it; manifest.json over files `name` [names] and tensors kept [count]. */
PARE_CHECKED pare_status pare__train_file(pare_training *t, const char *name, const char *text,
                                          size_t len);
PARE_CHECKED pare_status pare__train_manifest(pare_training *t, const pare_kept_hash *kept,
                                              size_t count, const char *const *name, size_t names);

/* Whether it is worse on the windows held out than what it began with, or further from a teacher
 * that it learned from; and a warning then. */
bool pare__train_harmed(const pare_training *t);
void pare__train_tell_harm(const pare_training *t);

/* README.md, report.html and run.json. */
PARE_CHECKED pare_status pare__train_report(pare_training *t, const pare_train_done *done);

#endif
