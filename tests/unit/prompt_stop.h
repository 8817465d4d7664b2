/* tests/unit/prompt_stop.h - an interrupt once as many prompts are done. */
#ifndef PARE_TESTS_UNIT_PROMPT_STOP_H
#define PARE_TESTS_UNIT_PROMPT_STOP_H

#include "runtime/context.h"
#include "tests/unit/unit.h"

typedef struct prompt_stop {
    const char *what; /* that progress tells */
    double prompts;
    volatile int interrupts;
} prompt_stop;

static inline void prompt_stop_report(void *self, const char *what, double done, double total)
{
    prompt_stop *const s = self;
    ck_assert_str_eq(what, s->what);
    ck_assert_double_le(done, total);
    if (done >= s->prompts)
        s->interrupts = 1;
}

static inline void prompt_stop_watch(pare_ctx *cx, prompt_stop *s)
{
    cx->progress = (pare_progress){.report = prompt_stop_report, .self = s};
    cx->interrupt = &s->interrupts;
}

#endif
