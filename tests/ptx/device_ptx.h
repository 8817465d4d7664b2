/* tests/ptx/device_ptx.h - the interpreter as a device of runtime/device.h.
 *
 * Launches run at once, so a fault is the PARE_EDEVICE of the launch, with the kernel's file and
 * line. `give` checks what it is given, `close` that everything was given back: a mistake there
 * ends the program with a line, for it is one of the code above. */
#ifndef PARE_TESTS_DEVICE_PTX_H
#define PARE_TESTS_DEVICE_PTX_H

#include "runtime/device.h"
#include "tests/ptx/ptx.h"

typedef struct pare_device_ptx_options {
    ptx_options run;    /* of every launch */
    size_t memory;      /* bytes that the device has; 0: 64 GiB */
    const char *counts; /* a file that gets a line per launch, or NULL; run.count must be set */
} pare_device_ptx_options;

/* Opens a device with the kernels of these files of PTX, whose names are one text, parted by ':'.
 * PARE_EINVAL if a file cannot be read or its text is not understood. */
PARE_CHECKED pare_status pare_device_ptx_open(pare_ctx *cx, const char *files,
                                              const pare_device_ptx_options *options,
                                              pare_device **d);

/* Reads the files for the first device that is opened with them. Each case of a test runs in a
 * fork: what main() has read, none of them reads again. `files` must stay. */
PARE_CHECKED pare_status pare_device_ptx_read_ahead(pare_ctx *cx, const char *files);

/* What the environment says: PARE_PTX_CHECKS=full (light), PARE_PTX_SEED=n (warps and blocks in the
 * random order of that seed), PARE_PTX_ORDER=ascending or descending, PARE_PTX_MODEL=a100 or h100
 * (exact), PARE_PTX_EARLY=1, PARE_PTX_THREADS=n (all that the process may use),
 * PARE_PTX_MEMORY=bytes, PARE_PTX_COUNTS=file. PARE_EINVAL for other words. */
PARE_CHECKED pare_status pare_device_ptx_environment(pare_ctx *cx,
                                                     pare_device_ptx_options *options);

/* The kernels of this text take the places of those of the same names. */
PARE_CHECKED pare_status pare_device_ptx_replace(pare_ctx *cx, pare_device *d, const char *text,
                                                 size_t bytes);

/* The machine below, for tests that launch kernels themselves. */
ptx_machine *pare_device_ptx_machine(pare_device *d);

#endif
