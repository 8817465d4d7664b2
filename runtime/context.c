#include "runtime/context.h"

#include "runtime/energy.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *counted_resize(void *self, void *ptr, size_t old_size, size_t new_size)
{
    pare_ctx *const cx = self;
    if (new_size == 0) {
        free(ptr);
        cx->live_bytes -= old_size;
        return NULL;
    }
    const size_t others = cx->live_bytes - old_size;
    if (cx->limit_bytes && (new_size > cx->limit_bytes || others > cx->limit_bytes - new_size))
        return NULL;
    void *const p = realloc(ptr, new_size);
    if (!p)
        return NULL;
    cx->live_bytes = others + new_size;
    if (cx->live_bytes > cx->peak_bytes)
        cx->peak_bytes = cx->live_bytes;
    return p;
}

void pare_ctx_init(pare_ctx *cx)
{
    *cx = (pare_ctx){0};
    cx->alloc = (pare_alloc){counted_resize, cx};
    cx->cpu = pare_cpu_detect();
    pare_kernels_init(&cx->kernels, cx->cpu);
}

void pare_memory_trim(void)
{
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}

pare_status pare_ctx_cpu(pare_ctx *cx, const char *level)
{
    const unsigned have = pare_cpu_detect();
    char names[128];
    size_t at = 0;
    for (size_t i = 0; i < PARE_CPU_LEVELS; i++) {
        const pare_cpu_level *const l = &pare_cpu_levels[i];
        if (l->cpu & ~have)
            continue;
        if (strcmp(level, l->name) == 0) {
            cx->cpu = l->cpu;
            pare_kernels_init(&cx->kernels, cx->cpu);
            return PARE_OK;
        }
        const int n = snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", l->name);
        at += n < 0 ? 0 : (size_t)n;
    }
    return pare_fail(cx, PARE_EINVAL, "no kernels of level \"%s\" on this processor, which has %s",
                     level, names);
}

char *pare_text_printable(char *text)
{
    for (char *p = text; *p; p++)
        *p = ((unsigned char)*p < ' ' && *p != '\n') || *p == 127 ? '?' : *p;
    return text;
}

pare_status pare_fail(pare_ctx *cx, pare_status s, const char *fmt, ...)
{
    if (cx->what[0] == '\0') {
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(cx->what, sizeof cx->what, fmt, ap);
        va_end(ap);
        (void)pare_text_printable(cx->what);
    }
    return s;
}

pare_status pare_fail_context(pare_ctx *cx, pare_status s, const char *fmt, ...)
{
    char old[sizeof cx->what];
    memcpy(old, cx->what, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(cx->what, sizeof cx->what, fmt, ap);
    va_end(ap);
    size_t at = n < 0 ? 0 : (size_t)n;
    for (const char *p = ": "; *p && at + 1 < sizeof cx->what; p++)
        cx->what[at++] = *p;
    for (const char *p = old; *p && at + 1 < sizeof cx->what; p++)
        cx->what[at++] = *p;
    if (at < sizeof cx->what)
        cx->what[at] = '\0';
    (void)pare_text_printable(cx->what);
    return s;
}

pare_status pare_fail_after(pare_ctx *cx, pare_status s, const char *fmt, ...)
{
    char advice[sizeof cx->what];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(advice, sizeof advice, fmt, ap);
    va_end(ap);
    (void)pare_fail(cx, s, "%s", pare_strstatus(s));
    const size_t at = strlen(cx->what);
    (void)snprintf(cx->what + at, sizeof cx->what - at, "; %s", pare_text_printable(advice));
    return s;
}

void pare_ctx_clear(pare_ctx *cx)
{
    cx->what[0] = '\0';
}

void pare_warn(const pare_ctx *cx, const char *fmt, ...)
{
    char text[sizeof cx->what];
    va_list ap;
    if (!cx->progress.warn)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    cx->progress.warn(cx->progress.self, pare_text_printable(text));
}

pare_status pare_ctx_interrupted(pare_ctx *cx)
{
    if (cx->interrupt && *cx->interrupt)
        return pare_fail(cx, PARE_EINTERRUPTED, "interrupted");
    return PARE_OK;
}

void pare_ctx_progress(const pare_ctx *cx, const char *what, double done, double total)
{
    pare_energy_poll(cx->energy);
    if (cx->progress.report)
        cx->progress.report(cx->progress.self, what, done, total);
}

void pare_ctx_further(const pare_ctx *cx, double done, double total)
{
    pare_energy_poll(cx->energy);
    if (cx->progress.further)
        cx->progress.further(cx->progress.self, done, total);
}

void pare_ctx_job(const pare_ctx *cx, pare_phase *phase, size_t phases, double rate)
{
    if (cx->progress.job)
        cx->progress.job(cx->progress.self, phase, phases, rate);
}

void pare_ctx_step(const pare_ctx *cx, size_t phase, const char *what)
{
    if (cx->progress.step)
        cx->progress.step(cx->progress.self, phase, what);
}
