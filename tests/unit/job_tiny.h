/* tests/unit/job_tiny.h - a fresh place with the tiny model of default sizes, for each test. */
#ifndef PARE_TESTS_JOB_TINY_H
#define PARE_TESTS_JOB_TINY_H

#include "tests/unit/job.h"

static job_place place;

static void setup(void)
{
    const tiny_model m = tiny_model_default();
    place = job_make(&m);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

/* The job of the recipe, which wrote "one" with one thread: one that has more of them and a break
 * behind a block, too, writes the same bytes. All that it computes is compared, so one run is
 * enough for both. */
static inline void check_survives(void)
{
    job_break_by(&place, "two", 5);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two", .threads = 5}, NULL), PARE_OK);
    job_check_same(&place, "one", "two");
}

#endif
