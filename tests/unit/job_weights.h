/* tests/unit/job_weights.h - small jobs whose Hessians can count tokens by the loss. */
#ifndef PARE_TESTS_JOB_WEIGHTS_H
#define PARE_TESTS_JOB_WEIGHTS_H

#include "tests/unit/job_tiny.h"

#define DATA(rest) "calibration: {tokens: tokens.i32, " rest "}\npasses:\n"
#define HEAD       "pare: 1\nmodel: model\n"

static void recipe(const char *data, const char *passes)
{
    char text[2048];
    (void)snprintf(text, sizeof text, HEAD "%s%s", data, passes);
    job_recipe(&place, text);
}

static const char *const passes[] = {
    "  - gptq: {bits: 3, group: 32}\n",
    "  - gptq: {bits: 3, group: 32, true_sequential: true}\n",
    "  - awq: {}\n  - gptq: {bits: 4, group: 32}\n",
    "  - rotate: {}\n  - gptq: {bits: 4, group: 32}\n",
    "  - sparsegpt: {sparsity: 0.5}\n",
    "  - wanda: {sparsity: 0.5}\n  - gptq: {bits: 4, group: 32}\n",
};
enum { PASSES = sizeof passes / sizeof *passes };

#endif
