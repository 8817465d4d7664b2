/* compress/run/run_internal.h - one running job and the parts it is made of. */
#ifndef PARE_COMPRESS_RUN_RUN_INTERNAL_H
#define PARE_COMPRESS_RUN_RUN_INTERNAL_H

#include "calib/stats.h"
#include "calib/token_weights.h"
#include "calib/wave.h"
#include "compress/artifact/manifest.h"
#include "compress/output/journal.h"
#include "compress/plan/job_data.h"
#include "compress/run/job_events.h"
#include "compress/run/run_front.h"
#include "compress/run/run_hash.h"
#include "compress/run/run_kept.h"
#include "compress/run/run_linear.h"
#include "compress/run/run_phases.h"
#include "compress/run/run_team.h"
#include "compress/run/run_warnings.h"
#include "formats/packed_map.h"
#include "prune/slicegpt.h"
#include "quant/kv_cache.h"

/* Files of a job. */
typedef struct pare_run_files {
    pare_file_digest *input; /* weights and configuration */
    size_t inputs;
    pare_file_digest *evaluated; /* what the recipe evaluates on, with paths as it has them */
    size_t evaluated_count;
    pare_file_digest *output; /* what the manifest lists, once it is written */
    size_t outputs;
} pare_run_files;

/* Where samples of both models begin. */
typedef struct pare_run_prompts {
    pare_tokens tokens; /* all of one length; none: id NULL */
    const char *data;   /* that they are from */
} pare_run_prompts;

struct pare_run {
    pare_ctx *cx;
    pare_arena *a;      /* lives as long as the job */
    pare_arena stage;   /* lives while blocks are compressed */
    pare_arena scratch; /* rewound after every step */
    const pare_plan *plan;
    pare_settled settled;       /* of the plan, and what was found out since */
    pare_checkpoint checkpoint; /* of the plan, with all inputs watched and weights repaired */
    pare_model model;           /* the same as a model */
    const pare_events *events;
    pare_phase phase[PARE__PHASES]; /* what it comes to, while it runs */
    double started;                 /* monotonic seconds */
    double joules;                  /* of cx->energy then */
    pare_run_files files;
    pare_run_hash hash;  /* of the inputs, and of the packed files */
    pare_repair *repair; /* of the input */
    size_t repairs;
    pare_calibration_data data;
    pare_run_prompts prompts;
    pare_forward forward, wave_forward; /* in F32; of the waves, as `precision` says */
    pare_wave wave, floats;             /* the other: of the float model, with plan.drift */
    pare_spill drift;                   /* of a site, where memory is short; else closed */
    bool midway;                        /* plan.halves: the wave is behind attention */
    bool floats_ahead;                  /* plan.halves: the other wave is half a block ahead */
    pare_token_weights weights;         /* of the calibration's tokens; weight NULL: even */
    pare_packed_writer *writer;
    pare_journal *journal;
    const pare_journal_record *record; /* that it had when it was opened */
    pare_run_units units;              /* of the walk at hand, or the last one */
    pare_run_units front;              /* in front of the training */
    pare_run_walk walk;
    pare_run_kept kept;
    pare_run_floats pruned, trained; /* what the training finds, and leaves */
    pare_model source;               /* what blocks are read from: the model, or trained */
    pare_config shape;               /* of the model if all were like the current block */
    pare_lock *lock;                 /* of the output */
    bool made;                       /* the folder of the work was not there */
    pare_teller teller;              /* makes notices */
    pare_warnings warnings;
    bool told_thin; /* that linears of some block get too little calibration */
    const char *recipe_portable;
    uint8_t training_asked[16]; /* hash of the settings of the step that trains */
    pare_linear_result *row; /* all rows, in the order of plan.linear, once the blocks are done */
    size_t rows;
    pare_training_result *training;  /* what a step that trains did, or NULL */
    pare_structure_result structure; /* what structured steps take out */
    pare_slicegpt slice;             /* the narrower basis of the stream, when there is one */
    pare_kv_tables *kv;              /* [blocks] levels of the key/value cache, or NULL */
    pare_stats head;                 /* of what the head reads, as if attention read it */
    double calibration_seconds;      /* spent in forward passes and statistics */
    pare_run_team team;              /* processes of the job */
    pare_block current;              /* the current block in floats: what is, or will be, stored */
    pare_block reference; /* the float model, carried through the folds: plan.reference */
    pare_run_part part;   /* of the current block: what every token runs */
    pare_run_experts experts;
    float *work;         /* what is stored of a linear: room for the largest; NULL where others
                            (calibration, pruners) take that room in between */
    const float *folded; /* outputs of the reference before any fold, [window, hidden] */
    float *witness;      /* with a rotation: the residual stream of some tokens in the float model
                            as it was, in front of the current block */
};

PARE_PRINTF(3, 4)
void pare__notify(pare_run *run, pare_event_kind kind, const char *fmt, ...);

/* How much each token counts: found, or taken from the folder that jobs share, and kept there. */
PARE_CHECKED pare_status pare__run_token_weights(pare_run *run);

/* From here on every file that the job reads is watched; a model that pare wrote is held against
 * its checksums. As pare_checkpoint_check. */
PARE_CHECKED pare_status pare__run_watch_inputs(pare_run *run);

/* Name and SHA-256 of the files that the recipe evaluates on, labels beside them included. */
PARE_CHECKED pare_status pare__run_hash_evaluations(pare_run *run);

/* Before a unit counts as done: PARE_EFORMAT when an input was replaced, written to or touched.
 * Before the output gets its name: the same, and the bytes of the weights are still those that were
 * hashed; when they are not, the units of the journal are dropped. */
PARE_CHECKED pare_status pare__run_inputs_watched(pare_run *run);
PARE_CHECKED pare_status pare__run_inputs_same(pare_run *run);

/* The identity of the work, and of the arithmetic that does it; and as JSON, for the journal: what
 * must be equal for an unfinished run to be continued. */
PARE_CHECKED pare_status pare__run_identify(pare_run *run);
/* pare_blas_name() where what the run writes depends on it, else NULL. */
const char *pare__run_blas(const pare_run *run);
PARE_CHECKED pare_status pare__run_fingerprint(pare_run *run, pare_json_writer *w,
                                               const char **text);

/* What the recipe exports and is not there, once the artifact is in place. */
PARE_CHECKED pare_status pare__run_exports(pare_run *run, pare_compress_result *out);

/* Instead of the job, for a plan that is `finished`: the exports that are missing. PARE_EEXISTS
 * when recipe, calibration or input are not those in the manifest of the output, with the
 * difference, or when files that it lists are not there. */
PARE_CHECKED pare_status pare__run_again(pare_run *run, pare_compress_result *out);

/* To read the data of the recipe with the model at hand. */
static inline pare_data_reader pare__run_reader(pare_run *run)
{
    return (pare_data_reader){run->cx,          run->a,      &run->scratch, run->plan,
                              &run->checkpoint, &run->model, run->teller};
}

PARE_CHECKED pare_status pare__run_weigh(pare_run *run); /* fills run->weights */

/* Looks for NaN and infinities in every float tensor of the checkpoint. By the recipe's nan policy
 * that is an error, or the tensor is replaced by a repaired copy: run->checkpoint, run->model. */
PARE_CHECKED pare_status pare__run_finite(pare_run *run);

/* The block's weights as floats, in the basis of the recipe: run->current, and run->shape. */
PARE_CHECKED pare_status pare__run_load(pare_run *run, size_t block);

/* What the rules of steps that share out their ratios come to, how many columns the linears keep
 * apart, and the layout of the files that follows. Moves the wave through the float model: it must
 * be filled anew. For a plan with ratios. */
PARE_CHECKED pare_status pare__run_ratios(pare_run *run);

/* How many columns the linears of a part of a block keep apart, by statistics of the float model:
 * columns[index in plan.linear], where the quantizer lets calibration decide. The same of all
 * experts of the block that was loaded, which takes passes of the wave of its own: PARE_ENOMEM, and
 * what the wave returns. Then what it came to is told. */
void pare__run_count_columns(const pare_run *run, size_t block, size_t part,
                             const pare_stats *stats, size_t *columns);
PARE_CHECKED pare_status pare__run_expert_columns(pare_run *run, size_t block, size_t *columns);
void pare__run_tell_columns(pare_run *run);

/* One block: weights in, planes and journal record out; or, when an earlier run has done it, its
 * planes read back and compared. Then the wave moves on. */
PARE_CHECKED pare_status pare__run_block(pare_run *run, size_t block);

/* Experts: memory; those of the block in `from`, which begins; every expert of the current block,
 * once part 0 is compressed. Nothing to do where the family has none. Whether a linear runs as it
 * is stored: of experts, or all (settled.memory.sparing); then it is stored (or found stored), and
 * what runs next sees that. */
PARE_CHECKED pare_status pare__run_experts_take(pare_run *run);
void pare__run_experts_begin(pare_run *run, const pare_block *from);
PARE_CHECKED pare_status pare__run_experts(pare_run *run, size_t block, pare_unit_result *unit);
bool pare__run_views(const pare_run *run, const pare_plan_linear *l);
PARE_CHECKED pare_status pare__run_stored(pare_run *run, const pare_plan_linear *l);

/* How much calibration a linear saw: part, tokens, cold. */
void pare__run_coverage(const pare_run *run, const pare_plan_linear *l, pare_linear_result *r);

/* What structured steps decide on the whole model, in a pass over it in floats: blocks and experts
 * that stay, the basis of a narrower stream. Moves the wave, and puts it back for the blocks. */
PARE_CHECKED pare_status pare__run_structure_begin(pare_run *run);

/* The structured steps, if any, on the current block: what stays moves to the front. */
PARE_CHECKED pare_status pare__run_structure(pare_run *run, size_t block);

/* Before the first transform of a block: the outputs that folds must keep, in `scratch`. Nothing to
 * do for a block without transforms. */
PARE_CHECKED pare_status pare__run_transforms_begin(pare_run *run, size_t block);

/* One transforming step on `sites` (bit per site) of a block, what it cost, and the
 * check that the float model is still the same: PARE_ENUMERIC when its outputs moved. */
PARE_CHECKED pare_status pare__run_transform(pare_run *run, size_t block, size_t step,
                                             unsigned sites, pare_stats *stats);

/* Repeats the choice of a step that wants it, on the linears of `sites`: run->stability. Before the
 * step runs. PARE_ENOMEM, and what the pass returns. */
PARE_CHECKED pare_status pare__run_stability(pare_run *run, size_t block, size_t step,
                                             unsigned sites);

/* One pass of the wave through the current block; its time is kept apart. */
PARE_CHECKED pare_status pare__run_wave(pare_run *run, const pare_tap *tap, const char *what);

/* The same, for the active statistics of part 0, with the float model beside where the plan has
 * drift; and on to the MLP (plan.halves), or to the next block. */
PARE_CHECKED pare_status pare__run_gather(pare_run *run, size_t block, pare_stats *stats);
PARE_CHECKED pare_status pare__run_carry_midway(pare_run *run, size_t block);
PARE_CHECKED pare_status pare__run_carry(pare_run *run, size_t block);

/* Tensors of a block that folds changed: stored, their hashes in the unit; or read back and
 * compared (PARE_EFORMAT), and with `take` part of the block again. */
PARE_CHECKED pare_status pare__run_store_changed(pare_run *run, size_t block);
PARE_CHECKED pare_status pare__run_restore_changed(pare_run *run, size_t block, bool take);
/* Everything outside the blocks, as one unit. Copied again when an earlier run has done it: nothing
 * else would find that the bytes in the file are not those in the journal. */
PARE_CHECKED pare_status pare__run_kept(pare_run *run);

/* Finds the levels that the key/value cache of a block needs, if it needs some: of the compressed
 * block, before the wave moves on. */
PARE_CHECKED pare_status pare__run_kv(pare_run *run, size_t block);
bool pare__run_watches_kv(const pare_run *run);

/* Writes an entry that holds such levels; *done false for any other. */
PARE_CHECKED pare_status pare__run_kv_put(pare_run *run, const pare_packed_entry *e,
                                          uint8_t hash[16], bool *done);

/* Forgets `units` of an earlier run from `unit` on, of which something is damaged (the recorded
 * failure says what), and all behind them, in the journal, too: they are done again. */
PARE_CHECKED pare_status pare__run_forget(pare_run *run, pare_run_units *units, size_t unit);

/* Looks at what an earlier run stored of its blocks, before anything goes on from there: from the
 * first that is not what the journal says, they are forgotten. */
PARE_CHECKED pare_status pare__run_check_found(pare_run *run);

/* Writes bytes [first, first + len) of an entry; what was written of the unit is durable, and then
 * it is in the journal. */
PARE_CHECKED pare_status pare__run_put_part(pare_run *run, const pare_packed_entry *e,
                                            uint64_t first, uint64_t len, const void *bytes);
PARE_CHECKED pare_status pare__run_commit(pare_run *run, const pare_unit_result *unit);

/* config.json, copies of tokenizer files, recipe, manifest. */
PARE_CHECKED pare_status pare__run_describe(pare_run *run);

/* OUTPUT.partial becomes OUTPUT; PARE_EEXISTS when another run put its output there first. */
PARE_CHECKED pare_status pare__run_publish(pare_run *run);

#endif
