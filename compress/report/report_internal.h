/* compress/report/report_internal.h - the files of a report. */
#ifndef PARE_COMPRESS_REPORT_INTERNAL_H
#define PARE_COMPRESS_REPORT_INTERNAL_H

#include "compress/artifact/sparsity_text.h"
#include "compress/report/report.h"
#include "compress/report/report_page.h"

void pare__report_card(pare_text_out *t, const pare_report *r);
void pare__report_html(pare_text_out *t, const pare_report *r);

/* The recipe in README.md, in a fence longer than any run of backticks in it. */
void pare__report_recipe_card(pare_text_out *t, const char *recipe);

/* Sections of report.html: its script; how the model was and is on the data, with the distribution
 * of KL; what both write; bytes by part; the heat map; every linear. Each writes nothing where
 * there is nothing to tell. */
void pare__report_script(pare_text_out *t);
void pare__report_quality(pare_text_out *t, const pare_report *r);
void pare__report_samples(pare_text_out *t, const pare_report *r);
void pare__report_sizes(pare_text_out *t, const pare_report *r);
void pare__report_map(pare_text_out *t, const pare_report *r);
void pare__report_linears(pare_text_out *t, const pare_report *r);

void pare__report_csv(pare_text_out *t, const pare_report *r);
void pare__report_run(pare_json_writer *w, const pare_report *r);

/* What the user of pass `pass` (index of pare_passes) should expect; NULL when there is nothing to
 * say or no row comes from it. */
const char *pare__report_caution(const pare_report *r, size_t pass);

/* Rows that were pruned and store zeros in one way; their share of zeros in *zeros. */
pare_sparsity_total pare__report_sparse(const pare_report *r, pare_sparsity_store store,
                                        bool floats, double *zeros);

#define PARE_REPORT_UNKNOWN                                                                        \
    "Nothing was evaluated, since the recipe does not ask for it. What the model lost is not "     \
    "known."
#define PARE_REPORT_PAIRED                                                                         \
    "Gained: right now and wrong before; lost: the other way round. p: how likely a difference "   \
    "at least this large would be if both models were equally good (McNemar, exact)."
#define PARE_REPORT_STABILITY                                                                      \
    "Chosen anew from disjoint parts of the calibration, the pruners keep %.2f%% of the same "     \
    "weights (intersection over union, a mean over pairs of parts)."

/* True when a row was pruned. */
bool pare__report_pruned(const pare_report *r);

/* A structured job: rows of sizes for a table of three columns, what went, and the file. The first
 * needs r->structure, the others do nothing without it, but for the file. */
void pare__report_structure_sizes(pare_text_out *t, const pare_report *r);
void pare__report_structure_card(pare_text_out *t, const pare_report *r);
void pare__report_structure_html(pare_text_out *t, const pare_report *r);
void pare__report_structure_csv(pare_text_out *t, const pare_report *r);
void pare__report_structure_run(pare_json_writer *w, const pare_report *r);

/* What is required, and whether it is kept; nothing but the marks without. They are where another
 * verdict goes. */
#define PARE__VERDICT_BEGIN "<!-- verdict -->\n"
#define PARE__VERDICT_END   "<!-- end of verdict -->\n"
void pare__report_verdict_card(pare_text_out *t, const pare_report *r);
void pare__report_verdict_html(pare_text_out *t, const pare_report *r);

/* A task: in a row of cards and in a section of report.html, and all of them in the model card. */
void pare__report_task_badge(pare_text_out *t, const pare_report_eval *e);
void pare__report_task_html(pare_text_out *t, const pare_report_eval *e);
void pare__report_tasks_card(pare_text_out *t, const pare_report *r);

/* A needle or continuations, in the same places. */
void pare__report_answers_badge(pare_text_out *t, const pare_report_eval *e);
void pare__report_answers_html(pare_text_out *t, const pare_report_eval *e);
void pare__report_answers_card(pare_text_out *t, const pare_report *r);

/* What a pass that trains did; nothing without one. */
void pare__report_training_put(pare_json_writer *w, const pare_report *r);
void pare__report_training_card(pare_text_out *t, const pare_report *r);
void pare__report_training_html(pare_text_out *t, const pare_report *r);

/* Coverage of experts; the first three do nothing where none was counted. The last one writes the
 * columns expert, tokens, cold of a row. */
void pare__report_experts_card(pare_text_out *t, const pare_report *r);
void pare__report_experts_html(pare_text_out *t, const pare_report *r);
void pare__report_experts_run(pare_json_writer *w, const pare_report *r);
void pare__report_experts_csv(pare_text_out *t, const pare_linear_result *l);

/* What to say behind the bits per weight of the original model; may be empty. */
const char *pare__report_untied(const pare_report *r);

/* True when keys and values are kept otherwise than as floats. */
bool pare__report_has_cache(const pare_report *r);

/* Name of a linear behind the number of its block: "self_attn.q_proj"; the whole name without one.
 */
const char *pare__report_projection(const char *name);

/* Error of a row that is shown: of the outputs where it was measured, else of the weights. */
double pare__report_error(const pare_linear_result *row);

#endif
