/* compress/pass.h - what a pass is. Passes adapt algorithms to the pipeline; algorithms know no
 * passes. A pass is a static descriptor: the table in passes/passes.c lists them all. */
#ifndef PARE_COMPRESS_PASS_H
#define PARE_COMPRESS_PASS_H

#include "compress/result.h"
#include "recipes/recipe.h"
#include "runtime/arena.h"

/* Facts that hold of a linear between passes. */
enum {
    PARE_FACT_WEIGHTS = 1u << 0, /* float weights are in memory */
    PARE_FACT_HESSIAN = 1u << 1, /* the Hessian of the linear's input is in memory */
    PARE_FACT_CODES = 1u << 2    /* codes and scales replace the weights */
};

/* A linear as a pass finds it. */
typedef struct pare_pass_linear {
    float *w; /* [n, k] f32; a pass may change or destroy it */
    size_t n, k;
    void *site_state;           /* what `site` left for this step and site, or NULL */
    pare_codes *codes;          /* a quantizer fills it; planes taken from `scratch` */
    pare_linear_result *result; /* a pass records what it did */
} pare_pass_linear;

/* Upper bounds, from shapes alone. */
typedef struct pare_pass_cost {
    size_t site_bytes;   /* state kept for a site */
    size_t linear_bytes; /* scratch while one linear runs */
    double flops;        /* of one linear, its site's share included */
} pare_pass_cost;

typedef struct pare_pass {
    const char *name;             /* the word used in recipes */
    const char *summary, *source; /* one line; paper and equation */
    unsigned needs, gives, drops; /* PARE_FACT_* */
    const pare_param *params;     /* ends with a NULL name */
    /* The storage of a linear that this step quantizes. NULL for a pass that gives no codes.
     * PARE_EINVAL when the shape does not suit the parameters (tail: error). */
    pare_status (*store)(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out);
    pare_pass_cost (*cost)(const double *value, size_t n, size_t k, size_t threads);
    /* Runs the sites of a block one after the other, each on the outputs of the compressed ones
     * before it. NULL: never. */
    bool (*sequential)(const double *value);
    /* Called once per step and site with the Hessian (lower triangle, [k, k]; read only), before
     * the linears of the site; the state lives in `scratch` until the site is done. NULL: no state.
     */
    pare_status (*site)(pare_ctx *cx, const double *value, const float *h, size_t k,
                        pare_arena *scratch, void **state);
    pare_status (*run)(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch);
} pare_pass;

/* Every pass, ended by NULL. */
extern const pare_pass *const pare_passes[];
size_t pare_pass_count(void);
const pare_pass *pare_pass_find(const char *name); /* NULL when unknown */

/* The table as the recipe parser wants it, [pare_pass_count()], in the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_pass_words_take(pare_arena *a, const pare_pass_words **out);

#endif
