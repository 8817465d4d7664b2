/* tests/ptx/read_ahead.c - reads all kernels in front of main(), for tests of many cases. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/ptx/device_ptx.h"

__attribute__((constructor)) static void read_ahead(void)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    if (pare_device_ptx_read_ahead(&cx, PARE_PTX_FILES) != PARE_OK) {
        (void)fprintf(stderr, "%s\n", cx.what);
        exit(1);
    }
}
