/* compress/budget/budget_internal.h - one search and the parts it is made of. */
#ifndef PARE_COMPRESS_BUDGET_BUDGET_INTERNAL_H
#define PARE_COMPRESS_BUDGET_BUDGET_INTERNAL_H

#include "compress/budget/budget.h"
#include "compress/output/journal.h"
#include "compress/output/lock.h"
#include "compress/plan/job_data.h"
#include "formats/packed_map.h"

/* What a linear can get. */
typedef struct pare_budget_setting {
    const char *label;          /* the name of its folder */
    const char *pass, *setting; /* as a recipe writes them */
} pare_budget_setting;

/* What is known of a linear with one setting. */
typedef struct pare_budget_made {
    double error;     /* trace(O (W - Q) H (W - Q)^T), of O its diagonal */
    uint8_t hash[16]; /* XXH3 of the planes in their order */
} pare_budget_made;

typedef struct pare_budget {
    pare_ctx *cx;
    pare_arena *a;
    const pare_job *job;
    const pare_events *events;
    double started;
    const pare_pass_words *words;
    pare_recipe recipe;                         /* the user's */
    const double *value;                        /* of the step */
    const char *output, *store, *base, *shared; /* paths */
    const pare_budget_setting *setting;
    const pare_step *step;  /* [settings] as the recipe of a choice has them */
    size_t settings, probe; /* probe: the one whose KL is measured */
    const char *base_text;  /* recipe of the base job */
    pare_job plan_job;
    pare_plan plan; /* of the base, with windows held out */
    pare_calibration_data data;
    size_t linears, blocks;
    const pare_plan_linear *linear; /* [linears] */
    pare_packed_linear *packed;     /* [settings, linears] */
    pare_packed_layout *layout;     /* [settings] */
    pare_packed_writer **writer;    /* [settings] */
    pare_journal *journal;
    pare_journal_record *record;
    size_t records;
    pare_budget_made *made;  /* [linears, settings] */
    double *kl;              /* [linears] of the probe */
    double *loss;            /* [linears, settings] estimated KL */
    uint64_t *time;          /* [settings, linears] picoseconds in a token; with tokens_s */
    uint64_t rest_time;      /* of all else in a token */
    const pare_speed *speed; /* of widths: what the report says of it, or NULL */
    bool other;              /* it fails for what --restart replaces: that is of another job */
} pare_budget;

/* budget_job.c: what searches have in common. Once the recipe is read: the step; a plan of all
 * else; store, base and shared, and PARE_EEXISTS for an output whose store has no `first`. With a
 * plan: data. The body under the lock of the store, whose files have names of `own`, ended by NULL;
 * and the job of a recipe, which `asked.yaml` goes with. */
typedef pare_status pare__budget_body(pare_budget *b, pare_job_runner *runner,
                                      pare_compress_result *out);
PARE_CHECKED pare_status pare__budget_read(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                           const pare_pass_words **words, pare_recipe *out);
const pare_step *pare__budget_step(const pare_recipe *r); /* or NULL */
bool pare__budget_chooses_widths(const pare_step *step);
/* pare_plan_make without its warnings: a job, or the plan that is printed, has them, too. */
PARE_CHECKED pare_status pare__budget_plan(const pare_budget *b, pare_arena *a, const pare_job *job,
                                           pare_plan *plan);
PARE_CHECKED pare_status pare__budget_check_rest(pare_budget *b);
PARE_CHECKED pare_status pare__budget_paths(pare_budget *b, const char *first);
PARE_CHECKED pare_status pare__budget_data(pare_budget *b);
PARE_CHECKED pare_status pare__budget_locked(pare_budget *b, const char *const *own,
                                             pare__budget_body *body, pare_job_runner *runner,
                                             pare_compress_result *out);
PARE_CHECKED pare_status pare__budget_run(pare_budget *b, pare_job_runner *runner, const char *text,
                                          pare_compress_result *out);

/* The searches: of settings (budget.c), of widths (widths.c). What they refuse of the recipe comes
 * first, with a plan of the base where it is needed. */
PARE_CHECKED pare_status pare__budget_check(pare_budget *b);
PARE_CHECKED pare_status pare__widths_check(pare_budget *b);
PARE_CHECKED pare_status pare__budget_search(pare_budget *b, pare_job_runner *runner,
                                             pare_compress_result *out);
PARE_CHECKED pare_status pare__widths_search(pare_budget *b, pare_job_runner *runner,
                                             pare_compress_result *out);

/* Tells the user. */
void pare__budget_tell(const pare_budget *b, const char *fmt, ...) PARE_PRINTF(2, 3);

/* The linears of a block: linear[*begin .. *end - 1]. */
void pare__budget_range(const pare_budget *b, size_t block, size_t *begin, size_t *end);

/* budget_settings.c: setting, step, probe, by the step's parameters; packed, once there is a plan.
 */
PARE_CHECKED pare_status pare__budget_settings(pare_budget *b);
PARE_CHECKED pare_status pare__budget_pack(pare_budget *b);
/* Fills *out when the setting prunes. */
PARE_CHECKED pare_status pare__budget_sparsity(const pare_budget *b, size_t setting, size_t linear,
                                               pare_sparsity *out);
static inline const pare_packed_linear *pare__budget_packed(const pare_budget *b, size_t setting,
                                                            size_t linear)
{
    return &b->packed[setting * b->linears + linear];
}
static inline uint64_t pare__budget_bytes(const pare_budget *b, size_t setting, size_t linear)
{
    return pare_packed_linear_bytes(pare__budget_packed(b, setting, linear)).total;
}

/* budget_store.c: pare_variants of the base job; and the finished store, every plane compared with
 * its hash. PARE_EEXISTS for one that is damaged or of other settings. */
PARE_CHECKED pare_status pare__budget_store_begin(void *self, size_t found);
pare_status pare__budget_store_linear(void *self, size_t index, const pare_pass_linear *linear,
                                      pare_arena *scratch);
pare_status pare__budget_store_block(void *self, size_t block);
size_t pare__budget_store_bytes(const pare_budget *b);
void pare__budget_store_close(pare_budget *b);

/* budget_measure.c: kl, as far as the journal has them not. */
PARE_CHECKED pare_status pare__budget_measure(pare_budget *b);
/* Mean KL of the model with setting choice[i] for linear i, out of the store, on windows held out.
 */
PARE_CHECKED pare_status pare__budget_judge(pare_budget *b, const size_t *choice, double *kl);

/* The model with that choice, out of the store. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__budget_model(pare_budget *b, pare_arena *a, const size_t *choice,
                                            pare_model *out);

/* budget_speed.c: time and rest_time, of an earlier search or measured out of the store. */
PARE_CHECKED pare_status pare__budget_times(pare_budget *b);
/* Tokens in a second by them; what they leave for the linears of a token, in picoseconds. */
double pare__budget_rate(const pare_budget *b, const size_t *choice);
uint64_t pare__budget_time_left(const pare_budget *b);
/* Refuses what is asked for, when even `fastest` is slower. */
pare_status pare__budget_fail_speed(const pare_budget *b, pare_place place, const size_t *fastest);
/* Measures the finished artifact, and tells. */
PARE_CHECKED pare_status pare__budget_verify(pare_budget *b, const char *path, double predicted);

/* budget_recipe.c: the base recipe, and that of a choice; `head` is a comment or empty. */
PARE_CHECKED pare_status pare__budget_base_recipe(pare_budget *b, bool held_out, const char **text);
PARE_CHECKED pare_status pare__budget_recipe(pare_budget *b, const size_t *choice, const char *head,
                                             const char **text);
/* The canonical text of `r` with other passes, and `head` in front. */
PARE_CHECKED pare_status pare__budget_with_passes(pare_budget *b, const pare_recipe *r,
                                                  const char *head, const char *passes,
                                                  const char **text);
/* Writes STORE/sensitivity.csv, for people. */
PARE_CHECKED pare_status pare__budget_table(pare_budget *b);

#endif
