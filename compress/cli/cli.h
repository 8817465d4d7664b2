/* compress/cli/cli.h - what the commands of the program share: their table, parsed arguments, the
 * terminal, and models opened the way a user names them. Part of the program, not of the archive.
 */
#ifndef PARE_COMPRESS_CLI_H
#define PARE_COMPRESS_CLI_H

#include "calib/tokens.h"
#include "compress/cli/job_end.h"
#include "compress/cli/screen.h"
#include "compress/evaluate/evaluate.h"
#include "formats/checkpoint.h"
#include "formats/json.h"
#include "formats/tokenizer.h"
#include "recipes/param.h"
#include "runtime/forward.h"
#include "runtime/world.h"

enum {
    PARE_EXIT_DONE = 0,
    PARE_EXIT_FAILED = 1,
    PARE_EXIT_USAGE = 2,
    PARE_EXIT_FALLBACK = 3,
    PARE_EXIT_INPUT = 4,
    PARE_EXIT_RESOURCES = 5,
    PARE_EXIT_VERDICT = 6,
    PARE_EXIT_INTERRUPTED = 130
};

typedef struct pare_cli {
    pare_ctx cx;
    pare_world world; /* the processes of a job */
    pare_arena arena; /* lives as long as the command */
    pare_screen screen;
    pare_job_end end;
    bool json;                  /* --format json */
    size_t threads;             /* --threads; 0: as many as CPUs */
    bool refused;               /* the result does not keep to what is required: exit 6 */
    bool fallback;              /* --strict, and a numeric fallback was used: exit 3 */
    bool of_batch, other;       /* a job of a batch; what is there is of another job */
    const char *program;        /* argv[0] */
    struct pare_device *device; /* where models run; NULL: the CPU */
    bool device_or_cpu;         /* --device auto */
    uint64_t device_limit;      /* bytes; 0: none */
    bool device_f16;            /* --device-products f16 */
    char device_fallback[sizeof((pare_ctx *)NULL)->what]; /* why `auto` took the CPU; empty */
} pare_cli;

typedef struct pare_option {
    const char *name;     /* without the dashes; NULL ends a table */
    const char *argument; /* "N", "FILE", or NULL for a switch */
    const char *help;
    bool repeats; /* may be given more than once */
} pare_option;

enum { PARE_ARGS_MAX = 64 };

/* Said of a job whose model has no tokenizer. */
#define PARE_CLI_UNTOKENIZED                                                                       \
    "the model has no tokenizer (tokenizer.json), so the artifact has none: it can be evaluated "  \
    "on tokens (--tokens), not on text"

/* A parsed command line; texts are borrowed from argv. */
typedef struct pare_args {
    const char *operand[PARE_ARGS_MAX];
    size_t operands;
    struct {
        const pare_option *option;
        const char *value; /* "" for a switch */
    } given[PARE_ARGS_MAX];
    size_t givens;
} pare_args;

typedef struct pare_command {
    const char *name, *operands; /* "compress", "RECIPE" */
    size_t operands_min, operands_max;
    const char *summary; /* one line */
    const char *details; /* more lines for the help of the command, or NULL */
    const char *example;
    const pare_option *options;
    pare_status (*run)(pare_cli *cli, const pare_args *args);
} pare_command;

/* The table of commands, ended by a NULL name, and the options that every command takes. */
extern const pare_command pare_commands[];
extern const pare_option pare_common_options[];

/* Splits argv [argc] (behind the command word) by the tables. PARE_EUSAGE names the word, and the
 * nearest option where one is near. */
PARE_CHECKED pare_status pare_args_parse(pare_ctx *cx, const pare_command *command, int argc,
                                         char **argv, pare_args *out);

/* Values of options. `name` must stand in the command's table. A number that is absent leaves *out
 * as it is; one that is not a plain decimal in [min, max] is PARE_EUSAGE. */
bool pare_args_given(const pare_args *args, const char *name);
const char *pare_args_text(const pare_args *args, const char *name); /* last one, or NULL */
/* Values of a repeated option, in order; returns their number. */
size_t pare_args_texts(const pare_args *args, const char *name, const char *out[PARE_ARGS_MAX]);
PARE_CHECKED pare_status pare_args_count(pare_ctx *cx, const pare_args *args, const char *name,
                                         uint64_t min, uint64_t max, uint64_t *out);
/* The same of a list of different ones, such as 1,8: at most `most`. */
typedef struct pare_counts {
    size_t min, max, most;
} pare_counts;
PARE_CHECKED pare_status pare_args_counts(pare_ctx *cx, const pare_args *args, const char *name,
                                          const char *example, pare_counts range, size_t *out,
                                          size_t *count);
PARE_CHECKED pare_status pare_args_number(pare_ctx *cx, const pare_args *args, const char *name,
                                          double min, double max, double *out);
PARE_CHECKED pare_status pare_args_bytes(pare_ctx *cx, const pare_args *args, const char *name,
                                         uint64_t *out);

/* Prints the overview, the page of a command, of a pass, or the exit codes. PARE_EUSAGE for an
 * unknown topic. */
PARE_CHECKED pare_status pare_help(pare_cli *cli, const char *topic);
void pare_help_command(const pare_command *command);
pare_status pare_help_run(pare_cli *cli, const pare_args *args);

/* Starts the thread pool that --threads asks for. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_cli_threads(pare_cli *cli);

/* A model opened for running: everything checked and bound. */
typedef struct pare_loaded {
    pare_checkpoint checkpoint;
    bool checked; /* held against its checksums; false too when pare did not write it */
    pare_model model;
    pare_forward forward;
    pare_tokenizer *tokenizer; /* NULL where it was not asked for */
    struct pare_cuda *cuda;    /* on the device; NULL: on the CPU */
} pare_loaded;

/* PARE_EFORMAT for a file of kept statistics, which is no model. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_loaded_no_statistics(pare_cli *cli, const char *path);

/* Opens `path`; forward tables for the model's whole context. With `text`, its tokenizer first, the
 * one that --tokenizer names or its own. Checksums are looked at unless --unchecked is among the
 * arguments, which is told. Close in any case. */
PARE_CHECKED pare_status pare_loaded_open(pare_cli *cli, const pare_args *args, const char *path,
                                          bool exact, bool text, pare_loaded *out);

/* --unchecked, and a warning for the model at `path` if it is given. */
bool pare_cli_unchecked(pare_cli *cli, const pare_args *args, const char *path);

/* Adds a data file to what must stay as it is; before it is read. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_loaded_watch(pare_cli *cli, pare_loaded *l, const char *path);

/* PARE_EFORMAT when a file of the model, or one added to it, changed since it was opened. */
PARE_CHECKED pare_status pare_loaded_unchanged(pare_cli *cli, const pare_loaded *l);
void pare_loaded_close(pare_loaded *l);
void pare_loaded_text_done(pare_loaded *l); /* the tokenizer goes */

/* --kv and --kv-window: the form of the caches instead of the model's own. PARE_EUSAGE. */
PARE_CHECKED pare_status pare_loaded_kv(pare_cli *cli, const pare_args *args, pare_loaded *l);

/* Opens the device that --device asks for. PARE_EUSAGE, also for options of a device without one.
 * Where it cannot be used: with `cuda` PARE_EDEVICE, saying what else to give; with `auto` the
 * reason is told and the CPU computes. Close in any case. */
PARE_CHECKED pare_status pare_cli_device(pare_cli *cli, const pare_args *args);
void pare_cli_device_close(pare_cli *cli);

/* Brings a model with all its settings to the device, if there is one. Statuses of pare_cuda_open;
 * with `auto` the reason is told and the CPU computes. */
PARE_CHECKED pare_status pare_loaded_device(pare_cli *cli, pare_loaded *l);

/* The same for pare_evaluate of `count` tokens, beside a baseline unless it is NULL: refused before
 * anything is copied where memory for all of it is missing. */
PARE_CHECKED pare_status pare_loaded_evaluate_on_device(pare_cli *cli, pare_loaded *l,
                                                        pare_loaded *baseline,
                                                        const pare_eval_opts *opts, size_t count);

/* Whether work that failed is to be done again on the CPU: under `auto`, when they were on a device
 * that could not do it. The model, and another one unless NULL, are off the device then, and the
 * reason is told. With `cuda` the message says what else to give. */
bool pare_loaded_leave_device(pare_cli *cli, pare_status s, pare_loaded *l, pare_loaded *other);

/* Where a model ran; the name is good as long as the command runs. */
typedef struct pare_ran_on {
    const char *device;   /* NULL: the CPU */
    const char *fallback; /* why `auto` took the CPU; NULL: it did not */
    uint64_t model_bytes, peak_bytes;
    bool f16; /* products of floats in F16 */
} pare_ran_on;
pare_ran_on pare_loaded_ran_on(const pare_cli *cli, const pare_loaded *l);

/* It as a line, and as a JSON member "device" of a GPU, "device_fallback" where `auto` took the
 * CPU. Returns text. */
enum { PARE_DEVICE_TEXT = 1100 };
const char *pare_ran_on_text(const pare_ran_on *r, char text[PARE_DEVICE_TEXT]);
void pare_json_put_ran_on(pare_json_writer *w, const pare_ran_on *r);

enum { PARE_KV_TEXT = 256 }; /* what is said of a cache: a line, a JSON member "kv_cache" */
void pare_kv_text(const pare_config *c, const pare_kv_format *f, char text[PARE_KV_TEXT]);
void pare_json_put_kv(pare_json_writer *w, const pare_config *c, const pare_kv_format *f);

/* A text file through the model's tokenizer, which was opened with it; with `bos`, its BOS token in
 * front. */
PARE_CHECKED pare_status pare_loaded_text(pare_cli *cli, const pare_loaded *l, const char *path,
                                          bool bos, pare_tokens *out);

/* Says a line on stderr: a pare_teller of a pare_cli. */
void pare_cli_tell(void *self, const char *text);

/* Finishes the text of `w`, prints it on stdout and frees the writer. */
PARE_CHECKED pare_status pare_cli_print(pare_json_writer *w);

/* The commands. */
pare_status pare_compress_run(pare_cli *cli, const pare_args *args);
pare_status pare_plan_run(pare_cli *cli, const pare_args *args);
pare_status pare_batch_command(pare_cli *cli, const pare_args *args);
pare_status pare_train_run(pare_cli *cli, const pare_args *args);
pare_status pare_compare_run(pare_cli *cli, const pare_args *args);
pare_status pare_eval_run(pare_cli *cli, const pare_args *args);
pare_status pare_generate_run(pare_cli *cli, const pare_args *args);
pare_status pare_export_command(pare_cli *cli, const pare_args *args);
pare_status pare_inspect_run(pare_cli *cli, const pare_args *args);
pare_status pare_tokenize_run(pare_cli *cli, const pare_args *args);
pare_status pare_train_tokenizer_run(pare_cli *cli, const pare_args *args);
pare_status pare_diff_run(pare_cli *cli, const pare_args *args);
pare_status pare_pack_run(pare_cli *cli, const pare_args *args);
pare_status pare_unpack_run(pare_cli *cli, const pare_args *args);
pare_status pare_sign_run(pare_cli *cli, const pare_args *args);
pare_status pare_verify_run(pare_cli *cli, const pare_args *args);
pare_status pare_bench_run(pare_cli *cli, const pare_args *args);
pare_status pare_doctor_run(pare_cli *cli, const pare_args *args);
pare_status pare_init_run(pare_cli *cli, const pare_args *args);
pare_status pare_completion_run(pare_cli *cli, const pare_args *args);

#endif
