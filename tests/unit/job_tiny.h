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

/* The job of the recipe, which wrote "one": more threads give the same weights, and a break in
 * between the same bytes. */
static inline void check_survives(void)
{
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "five", .threads = 5}, NULL), PARE_OK);
    job_check_same_weights(&place, "one", "five");
    job_break(&place, "two");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two", .threads = 2}, NULL), PARE_OK);
    job_check_same(&place, "one", "two");
}

#endif
