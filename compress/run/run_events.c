/* What a running job tells: events of compress.h, and the step that progress shows. */
#include <stdarg.h>
#include <stdio.h>

#include "compress/run/run_internal.h"
#include "runtime/machine.h"

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
    if (kind == PARE_EVENT_NOTICE)
        pare_warnings_keep(&run->warnings, run->a, text);
    if (!run->events || !run->events->event)
        return;
    const pare_event e = {.kind = kind,
                          .text = text,
                          .blocks = run->plan->out.blocks,
                          .seconds = pare_seconds() - run->started};
    run->events->event(run->events->self, &e);
}
