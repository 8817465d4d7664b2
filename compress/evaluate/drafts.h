/* compress/evaluate/drafts.h - what a draft model is worth to a model: how many of its tokens are
 * accepted (runtime/speculate.h), and how much faster text comes out.
 *
 * Protocol: of at most PARE_DRAFT_PROMPTS windows, spread evenly over those of the text, the first
 * tokens are a prompt, half of the window and at most PARE_DRAFT_TOKENS. It is continued by as many
 * tokens as fit the window, at most PARE_DRAFT_TOKENS: by the model alone, then with the draft. */
#ifndef PARE_COMPRESS_DRAFTS_H
#define PARE_COMPRESS_DRAFTS_H

#include "compress/evaluate/evaluate.h"
#include "formats/json.h"
#include "runtime/speculate.h"

enum { PARE_DRAFT_PROMPTS = 16, PARE_DRAFT_TOKENS = 64 };

typedef struct pare_draft_opts {
    size_t window, stride; /* of the text, as pare_eval_opts has them */
    size_t drafted;        /* 1 .. PARE_DRAFTED_MAX */
    double temperature;    /* 0: greedy */
    uint64_t seed;         /* prompt i draws from stream i */
} pare_draft_opts;

/* Of the prompts done. Times leave out those of prompts. */
typedef struct pare_draft_result {
    const char *draft;          /* path, as given */
    pare_draft_opts opts;       /* as asked */
    size_t prompts;             /* done */
    size_t prompt, continued;   /* tokens of each */
    pare_speculate_counts both; /* with the draft */
    size_t alone_steps;         /* of the model alone that were timed */
    double alone_seconds;       /* of those */
    bool complete;              /* no interrupt came before the last prompt */
} pare_draft_result;

/* Measures; out->draft stays as it is. At temperature 0 the tokens with the draft are compared with
 * those of pare_generate; that others come out is PARE_ENUMERIC. PARE_EINVAL (a text shorter than
 * a window, and what pare_speculate_run refuses), PARE_ENOMEM, PARE_EINTERRUPTED: then *out is of
 * the prompts done. Reports progress in prompts. */
PARE_CHECKED pare_status pare_evaluate_draft(pare_ctx *cx, const pare_forward *f,
                                             const pare_forward *draft, const pare_draft_opts *opts,
                                             const int32_t *tokens, size_t count,
                                             pare_draft_result *out);

/* What follows from a result; NaN where nothing was measured. Shares of the drafted tokens up to
 * the first that was not accepted: how many were (`acceptance`), and mean sum min(p, q), which
 * acceptance approaches (`overlap`). Costs in steps of the model alone: `draft_cost` of a step of
 * the draft, `pass_cost` of a pass of the model over drafted + 1 tokens. */
typedef struct pare_draft_figures {
    double acceptance, overlap, tokens_per_pass;
    double tpot_ms, alone_tpot_ms, speedup; /* per token; alone / with the draft */
    double draft_cost, pass_cost;
} pare_draft_figures;
pare_draft_figures pare_draft_figures_of(const pare_draft_result *r);

/* The member "draft" of the object that is open. */
void pare_draft_put(pare_json_writer *w, const pare_draft_result *r);

#endif
