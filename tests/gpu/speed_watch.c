/* The watched device, and the clock. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/machine.h"
#include "tests/gpu/speed.h"

enum { PASSES = 25 };
static const double PASS = 1e-3, ENOUGH = 0.06; /* seconds: of a pass at least, of all of them */

static speed *of(pare_device *d)
{
    return (speed *)(void *)d;
}

#define THROUGH(name, parameters, ...)                                                             \
    static pare_status watch_##name parameters                                                     \
    {                                                                                              \
        pare_device *const real = of(d)->real;                                                     \
        return real->op->name(__VA_ARGS__);                                                        \
    }
THROUGH(memory, (pare_ctx * cx, pare_device *d, size_t *free, size_t *total), cx, real, free, total)
THROUGH(take, (pare_ctx * cx, pare_device *d, size_t bytes, pare_address *at), cx, real, bytes, at)
THROUGH(put, (pare_ctx * cx, pare_device *d, pare_address to, const void *from, size_t bytes), cx,
        real, to, from, bytes)
THROUGH(get, (pare_ctx * cx, pare_device *d, void *to, pare_address from, size_t bytes), cx, real,
        to, from, bytes)
THROUGH(fill, (pare_ctx * cx, pare_device *d, pare_address to, uint8_t byte, size_t bytes), cx,
        real, to, byte, bytes)
THROUGH(copy, (pare_ctx * cx, pare_device *d, pare_address to, pare_address from, size_t bytes), cx,
        real, to, from, bytes)
THROUGH(wait, (pare_ctx * cx, pare_device *d), cx, real)

static void watch_give(pare_ctx *cx, pare_device *d, pare_address at)
{
    of(d)->real->op->give(cx, of(d)->real, at);
}

static pare_status watch_kernel(pare_ctx *cx, pare_device *d, const char *name, void **kernel)
{
    speed *const s = of(d);
    PARE_TRY(s->real->op->kernel(cx, s->real, name, kernel));
    for (size_t i = 0; i < s->kernels; i++)
        if (s->known[i].kernel == *kernel)
            return PARE_OK;
    if (s->kernels == SPEED_KERNELS)
        return pare_fail(cx, PARE_EINVAL, "more than %d kernels", SPEED_KERNELS);
    s->known[s->kernels].kernel = *kernel;
    (void)snprintf(s->known[s->kernels++].name, sizeof s->known->name, "%s", name);
    return PARE_OK;
}

static pare_status watch_launch(pare_ctx *cx, pare_device *d, void *kernel, const pare_launch *l,
                                const void *arguments, size_t bytes)
{
    speed *const s = of(d);
    PARE_TRY(s->real->op->launch(cx, s->real, kernel, l, arguments, bytes));
    if (!s->noting)
        return PARE_OK;
    if (s->notes == SPEED_LAUNCHES || bytes > SPEED_ARGUMENTS)
        return pare_fail(cx, PARE_EINVAL, "more than %d launches, or arguments of %zu bytes",
                         SPEED_LAUNCHES, bytes);
    speed_note *const n = &s->note[s->notes++];
    *n = (speed_note){.kernel = kernel, .how = *l, .bytes = bytes, .name = ""};
    for (size_t i = 0; i < s->kernels; i++)
        if (s->known[i].kernel == kernel)
            n->name = s->known[i].name;
    memcpy(n->argument, arguments, bytes);
    return PARE_OK;
}

static const pare_device_table table = {.memory = watch_memory,
                                        .take = watch_take,
                                        .give = watch_give,
                                        .put = watch_put,
                                        .get = watch_get,
                                        .fill = watch_fill,
                                        .copy = watch_copy,
                                        .kernel = watch_kernel,
                                        .launch = watch_launch,
                                        .wait = watch_wait};

pare_status speed_open(speed *s)
{
    PARE_TRY(pare_device_open(&s->cx, &s->real));
    s->watched = *s->real;
    s->watched.op = &table;
    return s->small ? PARE_OK : speed_events_open(s);
}

void speed_close(speed *s)
{
    if (s->real)
        s->real->op->close(&s->cx, s->real);
}

/* Of the driver. An event of the default stream comes behind all that other streams were asked for,
 * which what follows waits for. */
static struct {
    int (*create)(void **event, unsigned flags);
    int (*record)(void *event, void *stream);
    int (*synchronize)(void *event);
    int (*elapsed)(float *ms, void *begin, void *end);
    void *begin, *end;
} events;

static bool symbol(void *library, const char *name, void *member)
{
    void *const at = dlsym(library, name);
    memcpy(member, &at, sizeof at);
    return at != NULL;
}

pare_status speed_events_open(speed *s)
{
    void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library || !symbol(library, "cuEventCreate", &events.create) ||
        !symbol(library, "cuEventRecord", &events.record) ||
        !symbol(library, "cuEventSynchronize", &events.synchronize) ||
        !symbol(library, "cuEventElapsedTime", &events.elapsed))
        return pare_fail(&s->cx, PARE_EDEVICE, "libcuda.so.1 has no events");
    const int r = events.create(&events.begin, 0);
    if (r || events.create(&events.end, 0))
        return pare_fail(&s->cx, PARE_EDEVICE, "cuEventCreate: error %d", r);
    return PARE_OK;
}

static pare_status start(speed *s, double *seconds)
{
    PARE_TRY(s->real->op->wait(&s->cx, s->real));
    *seconds = pare_seconds();
    if (!s->small && events.record(events.begin, NULL))
        return pare_fail(&s->cx, PARE_EDEVICE, "cuEventRecord fails");
    return PARE_OK;
}

static pare_status stop(speed *s, double *seconds)
{
    float ms;
    if (!s->small && (events.record(events.end, NULL) || events.synchronize(events.end) ||
                      events.elapsed(&ms, events.begin, events.end)))
        return s->real->op->wait(&s->cx, s->real) != PARE_OK
                   ? PARE_EDEVICE
                   : pare_fail(&s->cx, PARE_EDEVICE, "events fail");
    PARE_TRY(s->real->op->wait(&s->cx, s->real));
    *seconds = s->small ? pare_seconds() - *seconds : 1e-3 * (double)ms;
    return PARE_OK;
}

static double median(double *x, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && x[j] < x[j - 1]; j--) {
            const double t = x[j];
            x[j] = x[j - 1];
            x[j - 1] = t;
        }
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static pare_status pass(speed *s, speed_work *work, void *self, size_t times, double *seconds)
{
    PARE_TRY(start(s, seconds));
    for (size_t i = 0; i < times; i++)
        PARE_TRY(work(s, self));
    return stop(s, seconds);
}

pare_status speed_time_of(speed *s, speed_work *work, void *self, size_t calls, double *us)
{
    const double begin = pare_seconds();
    double seconds[PASSES];
    size_t n = 0, times;
    PARE_TRY(work(s, self)); /* warm-up */
    PARE_TRY(pass(s, work, self, 1, &seconds[0]));
    times = s->small ? 1 : 1 + (size_t)(PASS / seconds[0]);
    while (n < PASSES && (n == 0 || (!s->small && pare_seconds() - begin < ENOUGH)))
        PARE_TRY(pass(s, work, self, times, &seconds[n++]));
    *us = 1e6 * median(seconds, n) / (double)(times * calls);
    return PARE_OK;
}

static pare_status again(speed *s, void *part)
{
    for (size_t i = 0; i < s->notes; i++) {
        const speed_note *const n = &s->note[i];
        if (!part || strstr(n->name, part))
            PARE_TRY(
                s->real->op->launch(&s->cx, s->real, n->kernel, &n->how, n->argument, n->bytes));
    }
    return PARE_OK;
}

pare_status speed_time(speed *s, const char *part, size_t calls, double *us)
{
    bool any = false;
    for (size_t i = 0; i < s->notes; i++)
        any |= !part || strstr(s->note[i].name, part);
    *us = (double)NAN;
    return any ? speed_time_of(s, again, (void *)(uintptr_t)part, calls, us) : PARE_OK;
}

const char *speed_number(double value, char text[32])
{
    (void)snprintf(text, 32, isfinite(value) ? "%.3f" : "null", value);
    return text;
}

bool speed_goes_on(const speed *s)
{
    return pare_seconds() < s->stop;
}
