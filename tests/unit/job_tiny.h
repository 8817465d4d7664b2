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

#endif
