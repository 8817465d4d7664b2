/* A device on paper: addresses count up, and nothing lies behind them. */
#include <string.h>

#include "runtime/device.h"

static pare_status memory(pare_ctx *cx, pare_device *d, size_t *free, size_t *total)
{
    (void)cx;
    (void)d;
    *free = *total = SIZE_MAX;
    return PARE_OK;
}

static pare_status take(pare_ctx *cx, pare_device *d, size_t bytes, pare_address *at)
{
    (void)cx;
    (void)bytes;
    *at = (pare_address)256 + d->live;
    return PARE_OK;
}

static void give(pare_ctx *cx, pare_device *d, pare_address at)
{
    (void)cx;
    (void)d;
    (void)at;
}

static pare_status put(pare_ctx *cx, pare_device *d, pare_address to, const void *from,
                       size_t bytes)
{
    (void)cx;
    (void)d;
    (void)to;
    (void)from;
    (void)bytes;
    return PARE_OK;
}

static pare_status get(pare_ctx *cx, pare_device *d, void *to, pare_address from, size_t bytes)
{
    (void)cx;
    (void)d;
    (void)from;
    memset(to, 0, bytes);
    return PARE_OK;
}

static pare_status fill(pare_ctx *cx, pare_device *d, pare_address to, uint8_t byte, size_t bytes)
{
    (void)byte;
    return put(cx, d, to, NULL, bytes);
}

static pare_status copy(pare_ctx *cx, pare_device *d, pare_address to, pare_address from,
                        size_t bytes)
{
    (void)from;
    return put(cx, d, to, NULL, bytes);
}

static pare_status kernel(pare_ctx *cx, pare_device *d, const char *name, void **kernel)
{
    (void)cx;
    (void)name;
    *kernel = d;
    return PARE_OK;
}

static pare_status launch(pare_ctx *cx, pare_device *d, void *which, const pare_launch *l,
                          const void *arguments, size_t bytes)
{
    (void)which;
    (void)l;
    return put(cx, d, 0, arguments, bytes);
}

static pare_status wait(pare_ctx *cx, pare_device *d)
{
    (void)cx;
    (void)d;
    return PARE_OK;
}

static void close_nothing(pare_ctx *cx, pare_device *d)
{
    (void)cx;
    (void)d;
}

static const pare_device_table table = {.memory = memory,
                                        .take = take,
                                        .give = give,
                                        .put = put,
                                        .get = get,
                                        .fill = fill,
                                        .copy = copy,
                                        .kernel = kernel,
                                        .launch = launch,
                                        .wait = wait,
                                        .close = close_nothing};

pare_device pare_device_on_paper(const pare_device *like)
{
    pare_device d = *like;
    d.op = &table;
    d.live = d.peak = 0;
    return d;
}
