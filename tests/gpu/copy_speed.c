/* The rate at which a GPU copies within its memory, bytes read and bytes written: what kernels that
 * only move bytes are held against. Prints it as JSON. */
#include <stdio.h>

#include "runtime/device.h"
#include "runtime/machine.h"

enum { RUNS = 20 };
static const size_t BYTES = (size_t)512 << 20; /* far more than any cache */

static pare_status measure(pare_ctx *cx, pare_device *d, pare_address from, pare_address to)
{
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        const double begin = pare_seconds();
        PARE_TRY(d->op->copy(cx, d, to, from, BYTES));
        PARE_TRY(d->op->wait(cx, d));
        const double rate = 2e-9 * (double)BYTES / (pare_seconds() - begin);
        best = rate > best ? rate : best;
    }
    (void)printf("{\"device\": \"%s\", \"major\": %u, \"minor\": %u, \"processors\": %u, "
                 "\"copy_gb_s\": %.1f}\n",
                 d->name, d->major, d->minor, d->processors, best);
    return PARE_OK;
}

int main(void)
{
    pare_ctx cx;
    pare_device *d;
    pare_address from = 0, to = 0;
    pare_ctx_init(&cx);
    pare_status s = pare_device_open(&cx, &d);
    if (s == PARE_OK)
        s = d->op->take(&cx, d, BYTES, &from);
    if (s == PARE_OK)
        s = d->op->take(&cx, d, BYTES, &to);
    if (s == PARE_OK)
        s = d->op->fill(&cx, d, from, 1, BYTES);
    if (s == PARE_OK)
        s = measure(&cx, d, from, to);
    if (s != PARE_OK)
        (void)fprintf(stderr, "copy_speed: %s\n", cx.what);
    if (d) {
        d->op->give(&cx, d, from);
        d->op->give(&cx, d, to);
        d->op->close(&cx, d);
    }
    return s == PARE_OK ? 0 : 1;
}
