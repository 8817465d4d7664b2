/* What a running job tells: events of compress.h, and the step that progress shows. */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "compress/run/run_internal.h"

double pare__seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* That an evaluation or an export begins is a step of the job, too. */
void pare__notify(pare_run *run, pare_event_kind kind, const char *fmt, ...)
{
    char text[512], step[sizeof text + 16];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (kind == PARE_EVENT_EVALUATE || kind == PARE_EVENT_EXPORT) {
        const bool evaluates = kind == PARE_EVENT_EVALUATE;
        (void)snprintf(step, sizeof step, "%s %s", evaluates ? "evaluating" : "exporting", text);
        pare_ctx_step(run->cx, evaluates ? PARE__PHASE_EVALUATE : PARE__PHASE_EXPORT, step);
    }
    if (!run->events || !run->events->event)
        return;
    const pare_event e = {.kind = kind,
                          .text = text,
                          .blocks = run->plan->out.blocks,
                          .seconds = pare__seconds() - run->started};
    run->events->event(run->events->self, &e);
}
