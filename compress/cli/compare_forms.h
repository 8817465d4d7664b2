/* compress/cli/compare_forms.h - what pare compare measured, and the forms it is printed in. */
#ifndef PARE_COMPRESS_COMPARE_FORMS_H
#define PARE_COMPRESS_COMPARE_FORMS_H

#include "compress/cli/measure.h"
#include "compress/text/text_out.h"

typedef struct pare_comparison {
    const pare_measure *asked;
    const char *needle;                            /* the text of --needle, or NULL */
    bool continuations;                            /* asked for */
    const pare_figures *model;                     /* [models] the original first */
    const pare_ran_on *on;                         /* [models] where they ran */
    bool device;                                   /* one was to be used */
    size_t models;                                 /* measured; of the last one perhaps a part */
    size_t given;                                  /* on the command line */
    bool checked;                                  /* all checksums were */
    bool complete;                                 /* no interrupt and no failure */
    uint64_t peak_rss_bytes, peak_anonymous_bytes; /* of the whole run */
} pare_comparison;

/* The figures of a model as people read them, or the titles of the columns. */
enum { PARE_CELL = 64, PARE_CELLS = 14 + (2 + PARE_TASK_METRICS) * PARE_ARGS_MAX };
typedef struct pare_row {
    char cell[PARE_CELLS][PARE_CELL];
    size_t cells;
} pare_row;

void pare_compare_titles(const pare_comparison *c, pare_row *row);
/* As many as there are titles. The first is the end of a long path. */
void pare_compare_cells(const pare_comparison *c, const pare_figures *f, pare_row *row);

/* Calls `put` for each line that says how the figures came about. */
void pare_compare_notes(const pare_comparison *c, pare_text_out *t,
                        void (*put)(pare_text_out *t, const char *line));

/* A table of aligned columns. Where it is wider than `width` (0: any is fine) names stand above
 * their figures; where these alone are wider, a block of lines for each model. */
void pare_compare_text(pare_text_out *t, const pare_comparison *c, size_t width);
/* One line for each model, numbers in full, under the names that they have in JSON. */
void pare_compare_csv(pare_text_out *t, const pare_comparison *c);
/* One page that needs nothing else. */
void pare_compare_html(pare_text_out *t, const pare_comparison *c);
/* {"original": {...}, "models": [{...}], ...}. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_compare_json(pare_text_out *t, const pare_comparison *c);

#endif
