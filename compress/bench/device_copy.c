/* The rate at which a device moves bytes within its memory: nothing that has to move them is
 * faster. */
#include "compress/bench/bench_model.h"
#include "runtime/machine.h"

enum { RUNS = 10 };
/* Bytes that are copied. */
static const size_t MOST = (size_t)512 << 20, QUICK = (size_t)16 << 20, LEAST = (size_t)1 << 20;

static pare_status measure(pare_ctx *cx, pare_device *d, pare_address from, pare_address to,
                           size_t bytes, double *gb_s)
{
    PARE_TRY(d->op->fill(cx, d, from, 0x5a, bytes));
    for (size_t i = 0; i < RUNS; i++) {
        PARE_TRY(d->op->wait(cx, d));
        const double begin = pare_seconds();
        PARE_TRY(d->op->copy(cx, d, to, from, bytes));
        PARE_TRY(d->op->wait(cx, d));
        const double rate = 2e-9 * (double)bytes / (pare_seconds() - begin);
        *gb_s = rate > *gb_s ? rate : *gb_s;
    }
    return PARE_OK;
}

pare_status pare_bench_device_copy(pare_ctx *cx, pare_device *d, size_t limit, bool quick,
                                   double *gb_s)
{
    size_t free = 0, total = 0;
    pare_address from = 0, to = 0;
    *gb_s = 0;
    PARE_TRY(d->op->memory(cx, d, &free, &total));
    const size_t part = (limit && limit < free ? limit : free) / 4;
    const size_t most = quick ? QUICK : MOST;
    const size_t bytes = part < LEAST ? LEAST : part < most ? part : most;
    pare_status s = d->op->take(cx, d, bytes, &from);
    if (s == PARE_OK)
        s = d->op->take(cx, d, bytes, &to);
    if (s == PARE_OK)
        s = measure(cx, d, from, to, bytes, gb_s);
    d->op->give(cx, d, to);
    d->op->give(cx, d, from);
    return s;
}
