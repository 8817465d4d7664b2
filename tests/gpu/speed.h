/* tests/gpu/speed.h - times kernels of a device on random data: what the parts of kernel_speed
 * share.
 *
 * Operations of the backend run once on a device that is watched, which notes their launches, and
 * are checked against the CPU. The noted launches are then timed in turns over copies of their
 * weights that no cache holds. One line of JSON for each row goes to stdout as soon as it is
 * known. */
#ifndef PARE_TESTS_SPEED_H
#define PARE_TESTS_SPEED_H

#include "runtime/cuda_internal.h"

enum { SPEED_LAUNCHES = 4096, SPEED_ARGUMENTS = 1024, SPEED_KERNELS = 256 };

/* A launch that was noted. */
typedef struct speed_note {
    void *kernel;
    const char *name;
    pare_launch how;
    size_t bytes;
    uint8_t argument[SPEED_ARGUMENTS];
} speed_note;

typedef struct speed {
    pare_device watched; /* first */
    pare_device *real;
    pare_ctx cx;
    bool small;  /* sizes and clock for a trial without a GPU */
    double stop; /* of pare_seconds: no row begins later */
    struct {
        void *kernel;
        char name[64];
    } known[SPEED_KERNELS];
    size_t kernels, notes;
    bool noting;
    speed_note note[SPEED_LAUNCHES];
} speed;

/* The device of this program, watched; the way back. */
PARE_CHECKED pare_status speed_open(speed *s);
void speed_close(speed *s);

/* Events of the driver, for a device that is one of it. */
PARE_CHECKED pare_status speed_events_open(speed *s);

/* Microseconds of a call: `all`, or those launches alone whose names contain `part`. The notes are
 * those of `calls` calls. Median of passes over all of them. NAN where there is no such launch. */
PARE_CHECKED pare_status speed_time(speed *s, const char *part, size_t calls, double *us);

/* The same of anything that puts work on the device. */
typedef pare_status speed_work(speed *s, void *self);
PARE_CHECKED pare_status speed_time_of(speed *s, speed_work *work, void *self, size_t calls,
                                       double *us);

/* "12.34", or "null" for a number that is not finite. Returns text. */
const char *speed_number(double value, char text[32]);

/* Whether a row may still begin. */
bool speed_goes_on(const speed *s);

/* The rows. */
PARE_CHECKED pare_status speed_copy(speed *s);
PARE_CHECKED pare_status speed_products(speed *s);
PARE_CHECKED pare_status speed_attention(speed *s);
PARE_CHECKED pare_status speed_others(speed *s); /* norm, quant_x8 */

/* F16 products of cuBLAS. Prints why where there is none. */
PARE_CHECKED pare_status speed_cublas(speed *s);

#endif
