/* Times the kernels of a GPU one by one, beside cuBLAS and a copy within its memory.
 *   kernel_speed [--small] [--seconds N]
 * A line of JSON for each row, as soon as it is known; after N seconds no row begins, and the last
 * line says so. --small: small shapes, each checked and run twice, for a trial without a GPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/machine.h"
#include "runtime/threads.h"
#include "tests/gpu/speed.h"

typedef struct copying {
    pare_address from, to;
    size_t bytes;
} copying;

static pare_status copy_once(speed *s, void *self)
{
    const copying *const c = self;
    return s->real->op->copy(&s->cx, s->real, c->to, c->from, c->bytes);
}

/* Bytes read and bytes written. */
pare_status speed_copy(speed *s)
{
    pare_device *const d = s->real;
    copying c = {.bytes = s->small ? 1 << 20 : (size_t)512 << 20};
    char text[32];
    double us = 0;
    pare_status status = d->op->take(&s->cx, d, c.bytes, &c.from);
    if (status == PARE_OK)
        status = d->op->take(&s->cx, d, c.bytes, &c.to);
    if (status == PARE_OK)
        status = d->op->fill(&s->cx, d, c.from, 0x5a, c.bytes);
    if (status == PARE_OK)
        status = speed_time_of(s, copy_once, &c, 1, &us);
    d->op->give(&s->cx, d, c.from);
    d->op->give(&s->cx, d, c.to);
    PARE_TRY(status);
    (void)printf("{\"kind\": \"device\", \"name\": \"%s\", \"major\": %u, \"minor\": %u, "
                 "\"processors\": %u, \"trial\": %s, \"copy_gb_s\": %s}\n",
                 d->name, d->major, d->minor, d->processors, s->small ? "true" : "false",
                 speed_number(2e-3 * (double)c.bytes / us, text));
    return PARE_OK;
}

static pare_status run(speed *s)
{
    PARE_TRY(pare_pool_new(&s->cx, pare_cpu_count(), &s->cx.pool));
    PARE_TRY(speed_open(s));
    PARE_TRY(speed_copy(s));
    PARE_TRY(speed_others(s));
    PARE_TRY(speed_attention(s));
    PARE_TRY(speed_cublas(s));
    return speed_products(s);
}

int main(int argc, char **argv)
{
    static speed s;
    double seconds = 1e9;
    pare_ctx_init(&s.cx);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--small") == 0)
            s.small = true;
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds = strtod(argv[++i], NULL);
        else {
            (void)fprintf(stderr, "usage: %s [--small] [--seconds N]\n", argv[0]);
            return 2;
        }
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    s.stop = pare_seconds() + seconds;
    const pare_status status = run(&s);
    if (status != PARE_OK)
        (void)fprintf(stderr, "kernel_speed: %s\n", s.cx.what);
    else
        (void)printf("{\"kind\": \"end\", \"whole\": %s}\n", speed_goes_on(&s) ? "true" : "false");
    speed_close(&s);
    pare_pool_free(&s.cx, s.cx.pool);
    return status == PARE_OK ? 0 : 1;
}
