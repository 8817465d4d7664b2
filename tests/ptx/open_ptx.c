/* tests/ptx/open_ptx.c - what a program of the tests brings so that the device that it opens is the
 * interpreter (runtime/device_open.c). */
#include "tests/ptx/device_ptx.h"

pare_status pare_device_open(pare_ctx *cx, pare_device **d)
{
    pare_device_ptx_options options;
    *d = NULL;
    PARE_TRY(pare_device_ptx_environment(cx, &options));
    return pare_device_ptx_open(cx, PARE_PTX_FILES, &options, d);
}
