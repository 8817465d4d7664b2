/* tests/unit/loaded.h - models that a job or an export left, loaded to be compared. */
#ifndef PARE_TESTS_UNIT_LOADED_H
#define PARE_TESTS_UNIT_LOADED_H

#include "tests/unit/job.h"

static pare_ctx cx;
static pare_arena arena;

typedef struct loaded {
    pare_checkpoint ck;
    pare_model model;
} loaded;

static inline void load(const job_place *p, const char *name, loaded *out)
{
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, job_path(p, name), &out->ck) == PARE_OK, "%s",
                  cx.what);
    ck_assert_msg(pare_model_load(&cx, &arena, &out->ck, &out->model) == PARE_OK, "%s", cx.what);
}

/* The same, as pare eval opens it. */
static inline void load_to_run(const job_place *p, const char *name, loaded *out)
{
    ck_assert_msg(pare_checkpoint_open_to_run(&cx, &arena, job_path(p, name), &out->ck) == PARE_OK,
                  "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &arena, &out->ck, &out->model) == PARE_OK, "%s", cx.what);
}

static inline void check_vector(const float *is, const float *was, size_t n, const char *what)
{
    ck_assert_msg((is == NULL) == (was == NULL), "%s", what);
    ck_assert_msg(!is || memcmp(is, was, n * sizeof *is) == 0, "%s", what);
}

#endif
