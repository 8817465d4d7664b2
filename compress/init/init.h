/* compress/init/init.h - a recipe written for a model: a preset fitted to its widths and context,
 * or a recipe of llm-compressor translated. Reads configuration and headers, no weights.
 *
 * What was written has been planned (compress/plan/plan.h): it runs as it stands, and exports that
 * the format could not hold are left out, with the reason. */
#ifndef PARE_COMPRESS_INIT_H
#define PARE_COMPRESS_INIT_H

#include <stdbool.h>

#include "runtime/arena.h"

typedef struct pare_init {
    const char *recipe;       /* where the recipe will lie: its paths are relative to that */
    const char *model_path;   /* as this process opens it */
    const char *data_path;    /* the same of calibration data; NULL: the model writes its own */
    bool tokens;              /* the data are tokens (.i32), else a text */
    const char *model, *data; /* as the recipe names them */
    const char *name;         /* of the model, for outputs */
    bool printed;             /* the user chooses where it will lie */
} pare_init;

/* What a recipe of another tool says and the new one does not. */
typedef struct pare_init_left {
    size_t line, column;    /* of the other recipe; each place is listed once */
    const char *what, *why; /* why: and what to choose instead */
    bool implied;           /* nothing is lost: what it asks for is always so */
    bool unknown;           /* so is this one, but as its name is nowhere, it may be misspelt */
} pare_init_left;

/* In the arena. */
typedef struct pare_init_result {
    char *text;
    size_t len;
    pare_init_left *left; /* of a translation, by line */
    size_t lefts;
    size_t lost;         /* of them not implied */
    const char *warning; /* that the data are too few for the passes, or to evaluate on; or NULL */
    const char *no_export; /* why the recipe has no export; or NULL */
} pare_init_result;

typedef struct pare_init_preset_row {
    const char *name, *summary;
    const char *engines; /* that its export is for, beside those the summary names; or NULL */
} pare_init_preset_row;

/* Every preset, ended by a NULL name. */
size_t pare_init_preset_count(void);
pare_init_preset_row pare_init_preset_at(size_t i);

/* The recipe of a preset. PARE_EUSAGE for an unknown preset, one that this model cannot have (with
 * the reason) and data of less than one window, or none for a pruner; what opening and planning the
 * model return (pare_checkpoint_open, pare_plan_make), PARE_ENOMEM. */
PARE_CHECKED pare_status pare_init_preset(pare_ctx *cx, pare_arena *a, const pare_init *init,
                                          const char *preset, pare_init_result *out);

/* A recipe of llm-compressor, YAML text [len] of `file`, as one of ours. What has no counterpart is
 * left out and listed. PARE_EUSAGE with the place for what is not YAML or holds no modifiers, when
 * nothing is left to do, for linears that are quantized or pruned twice, and for a translation that
 * cannot be planned; the statuses above. */
PARE_CHECKED pare_status pare_init_translate(pare_ctx *cx, pare_arena *a, const pare_init *init,
                                             const char *file, const char *text, size_t len,
                                             pare_init_result *out);

#endif
