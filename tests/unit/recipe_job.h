/* tests/unit/recipe_job.h - one parse of a recipe in a test, and a recipe that uses the whole
 * grammar. */
#ifndef PARE_TESTS_RECIPE_JOB_H
#define PARE_TESTS_RECIPE_JOB_H

#include "tests/unit/recipe_case.h"
#include "tests/unit/unit.h"

/* Context, arena and recipe; ends with job_end. */
typedef struct job {
    pare_ctx cx;
    pare_arena a;
    pare_recipe r;
    pare_status s;
} job;

static inline void job_sets(job *j, const char *text, const char *const *sets, size_t count)
{
    pare_ctx_init(&j->cx);
    ck_assert_int_eq(pare_arena_init(&j->cx, &j->a, 0), PARE_OK);
    const pare_recipe_source source = {"r.yaml", text, strlen(text), sets, count};
    j->s = pare_recipe_parse(&j->cx, &j->a, &source, recipe_passes, RECIPE_PASSES, &j->r);
}

static inline void job_text(job *j, const char *text)
{
    job_sets(j, text, NULL, 0);
}

static inline void job_end(job *j)
{
    pare_arena_release(&j->a);
    ck_assert_uint_eq(j->cx.live_bytes, 0);
}

static const char full[] = "pare: 1\n"
                           "model: hedge\n"
                           "output: out\n"
                           "seed: 7\n"
                           "calibration:\n"
                           "  text: [a.txt, \"b c.txt\"]\n"
                           "  samples: all\n"
                           "  window: 256\n"
                           "passes:\n"
                           "  - rtn: {bits: 8, group: row, clip: mse, tail: error, targets: '*p'}\n"
                           "  - gptq:\n"
                           "      bits: 3\n"
                           "      group: 64\n"
                           "      symmetric: false\n"
                           "      clip: none\n"
                           "      tail: short\n"
                           "      act_order: true\n"
                           "      true_sequential: true\n"
                           "      damp: 0.05\n"
                           "      block: 64\n"
                           "      skip: [\"re:.*[.]0[.].*\", \"*head\"]\n"
                           "evaluate:\n"
                           "  - perplexity: {text: wiki.txt, window: 512}\n"
                           "  - kl: {tokens: wiki.i32}\n"
                           "limits:\n"
                           "  ram: 8GiB\n"
                           "nan: clamp\n";

#endif
