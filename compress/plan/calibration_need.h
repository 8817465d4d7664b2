/* compress/plan/calibration_need.h - how much calibration a pass needs, and whether it got it.
 *
 * A pass that trusts a Hessian of too few inputs does worse than its plain form, which looks at the
 * weights alone. What is needed was measured; see calibration_need.c. */
#ifndef PARE_COMPRESS_PLAN_CALIBRATION_NEED_H
#define PARE_COMPRESS_PLAN_CALIBRATION_NEED_H

#include "compress/plan/plan.h"

/* Of the inputs of one linear. */
typedef struct pare_need {
    uint64_t tokens; /* new ones (pare_tokens_fresh), at least; 0: the pass looks at no inputs */
    size_t rank;     /* of H, at least; 0: the pass has no H */
    size_t samples;  /* effective ones, at least (calib/support.h) */
} pare_need;

/* Whether a step fixes the scale of inputs by those that calibration shows. */
bool pare_need_fixes(const pare_step *step);

/* Whether a step trusts a Hessian that it has: what it does then goes wrong by too few inputs. */
bool pare_need_trusts(const pare_step *step);

/* What a step of the recipe needs of k inputs.
 *   columns  with some input that is not 0; k as long as that is not known
 *   vocab    of the model: no more different tokens can come */
pare_need pare_need_of(const pare_step *step, size_t k, size_t columns, size_t vocab);

/* New tokens below which the score of an expert says little (reap, the first step): what
 * structured steps need, or min_tokens of the calibration, where that is more. */
uint64_t pare_need_of_reap(const pare_plan *plan);

/* Of `tokens` (below 2^53) that a site has seen, those that say something new: as large a part of
 * them as of the whole calibration, and all as long as that was not read. */
uint64_t pare_need_fresh(const pare_plan *plan, const pare_settled *settled, uint64_t tokens);

/* The same of effective samples, for a token that repeats is one sample. */
double pare_need_effective(const pare_plan *plan, const pare_settled *settled,
                           const pare_support *support);

/* Tokens that an expert is to see: as many as the passes that need most need for its widest linear,
 * or for its others where the calibration has fewer new ones (experts: {min_tokens: auto}); and
 * what the recipe says, at most all that there are. */
uint64_t pare_need_of_experts(const pare_plan *plan, const pare_settled *settled);
uint64_t pare_plan_min_tokens(const pare_plan *plan, const pare_settled *settled);

/* Whether the inputs of a site are enough for a step. What no H was gathered of is judged by the
 * tokens of the calibration. True for statistics that stand in for inputs (pare_stats_identity). */
bool pare_need_is_met(const pare_plan *plan, const pare_settled *settled, const pare_step *step,
                      const pare_site_stats *stats);

/* Whether no step on linears of an expert that read a site will get enough from so many tokens, and
 * none looks at more than Hessians: then nobody looks at the statistics of the site. Also true
 * where no such linear is in the plan. */
bool pare_need_is_hopeless(const pare_plan *plan, const pare_settled *settled, size_t block,
                           size_t part, pare_site site, uint64_t tokens);

/* What becomes of linears that a step gets too little for: "stay as they are"; of one: "stays as it
 * is". */
const char *pare_need_outcome(const pare_step *step, bool one);

/* The first step on a linear that `support` is not enough for, and what it needs: of those that
 * prune and quantize, then of transforms; l->step when it is enough for each of them, and H was
 * lost to a step on another linear of the site. */
size_t pare_need_first(const pare_plan *plan, const pare_settled *settled,
                       const pare_plan_linear *l, const pare_support *support, pare_need *need);

/* What a plan knows of a step that will not get enough. */
typedef struct pare_shortage {
    pare_need need;  /* of the linear that needs most */
    size_t k;        /* its inputs */
    size_t linears;  /* that the step works on and get too little; 0: it takes parts out instead */
    uint64_t tokens; /* of the calibration */
    uint64_t fresh;  /* of these, new ones */
} pare_shortage;

/* True when the calibration of a plan has fewer new tokens than a step needs for some linear.
 * Tokens of experts are counted as if all came to each; where experts go, as if the router sent
 * each its share. False as long as the tokens are not known (samples: all). */
bool pare_plan_short(const pare_plan *plan, const pare_settled *settled, size_t step,
                     pare_shortage *out);

enum { PARE_SHORTAGE_TEXT = 512 };

/* Windows held out, fewer of which say little of a training. */
enum { PARE_HELD_FEW = 8 };

/* That a training is judged on too few windows held out: "distill: what it trained is judged on 1
 * window held out, ...; give ADVICE". NULL where they are enough, or not known yet (0). And the
 * same of the step of a plan that trains. */
const char *pare_few_held_text(const char *what, size_t windows, const char *advice,
                               char text[PARE_SHORTAGE_TEXT]);
const char *pare_plan_few_held(const pare_plan *plan, const pare_settled *settled,
                               char text[PARE_SHORTAGE_TEXT]);

/* "gptq needs 4608 tokens of calibration for 1536 inputs, and there are 4096: 30 linears get its
 * plain form; give samples: 9 or more (windows of 512)", or, where the data have no more windows,
 * "give more text: at least 4608 tokens" */
const char *pare_shortage_text(const pare_plan *plan, const pare_settled *settled, size_t step,
                               const pare_shortage *s, char text[PARE_SHORTAGE_TEXT]);

#endif
