/* compress/artifact/diff_internal.h - the parts of a comparison. */
#ifndef PARE_COMPRESS_ARTIFACT_DIFF_INTERNAL_H
#define PARE_COMPRESS_ARTIFACT_DIFF_INTERNAL_H

#include "compress/artifact/diff.h"
#include "formats/checkpoint.h"
#include "formats/json.h"

typedef struct pare_diff_side {
    pare_checkpoint checkpoint;
    pare_json *manifest, *run; /* NULL where there is none that can be read */
} pare_diff_side;

/* Values of a row that both have, in one shape: its kind and figures. Scratch is rewound. */
PARE_CHECKED pare_status pare__diff_values(pare_ctx *cx, pare_arena *scratch,
                                           const pare_diff_side side[2], pare_diff_row *row);

/* Lines of recipes, sources and figures of run.json. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__diff_recipes(pare_arena *a, const pare_diff_side side[2],
                                            pare_diff *out);
void pare__diff_sources(const pare_diff_side side[2], pare_diff *out);
PARE_CHECKED pare_status pare__diff_figures(pare_arena *a, const pare_diff_side side[2],
                                            pare_diff *out);

#endif
