/* compress/init/init_internal.h - a recipe while it is written. */
#ifndef PARE_COMPRESS_INIT_INTERNAL_H
#define PARE_COMPRESS_INIT_INTERNAL_H

#include "compress/init/init.h"
#include "compress/passes/pass.h"
#include "compress/text/text_out.h"
#include "formats/checkpoint.h"
#include "recipes/yaml.h"

/* Release with pare__draft_end in any case. */
typedef struct pare__draft {
    pare_ctx *cx;
    pare_arena *a;
    const pare_init *init;
    pare_checkpoint checkpoint;
    pare_model model;
    const char *file;      /* of a translation: the other recipe; else NULL */
    const char *suffix;    /* of the output: NAME-SUFFIX */
    pare_text_out head;    /* comment lines above the recipe */
    pare_text_out passes;  /* entries of the list, with comments */
    pare_text_out tail;    /* sections and comments behind it */
    const char *format;    /* of the export; NULL: none */
    const char *engines;   /* that run the export; NULL: it does not say which */
    const char *instead;   /* presets without the export, which this one is for; or NULL */
    const char *warning;   /* of too little data, or NULL */
    const char *no_export; /* why the export is left out, or NULL */
    bool tables;           /* embeddings and head are quantized, too */
    bool prunes;           /* which is always evaluated, on windows that are held out */
} pare__draft;

/* Opens the model. The statuses of pare_checkpoint_open and pare_model_load; PARE_ENOTSUP for what
 * is compressed already. */
PARE_CHECKED pare_status pare__draft_begin(pare_ctx *cx, pare_arena *a, const pare_init *init,
                                           pare__draft *d);
void pare__draft_end(pare__draft *d);

/* Chooses the calibration, plans, and leaves the export out where the format cannot hold it (where
 * that is what was asked for: PARE_EUSAGE). *text is the recipe, in the arena. */
PARE_CHECKED pare_status pare__draft_finish(pare__draft *d, char **text, size_t *len);

/* Says in a comment from which line of the other recipe the line below comes, behind `indent`. What
 * a plan has against that line is then told with that place. */
void pare__draft_put_origin(pare_text_out *t, const char *indent, size_t line,
                            const char *modifier);

/* Places for linears in all blocks, and the linear at one; name NULL: there is none such. */
size_t pare__draft_slots(const pare__draft *d);
const pare_linear *pare__draft_linear(const pare__draft *d, size_t slot);
/* Whether a transform with its defaults works on what is there. */
bool pare__draft_transforms(const pare__draft *d, const pare_pass *pass, size_t slot);

/* The largest of 128, 64 and 32 that divides the inputs of every linear of the blocks; 0: none. */
size_t pare__draft_group(const pare__draft *d);
/* Whether `divisor` divides them all. */
bool pare__draft_divides(const pare__draft *d, size_t divisor);
/* "576 and 1536": the widths of their inputs, of those that `divisor` does not divide; 0: all. */
void pare__draft_put_widths(pare__draft *d, size_t divisor, pare_text_out *t);

/* Linears (names inside a block) whose inputs a transform with its defaults cannot scale, because
 * nothing in front of them takes a scale; returns their number. *none: it can scale no input. */
enum { PARE__DRAFT_FIXED = 2 * PARE_ROLES /* of two kinds of blocks */ };
size_t pare__draft_fixed(const pare__draft *d, const char *pass,
                         const char *name[PARE__DRAFT_FIXED], bool *none);

#endif
