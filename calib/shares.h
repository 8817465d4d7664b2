/* calib/shares.h - sums over tokens in eight shares of the windows.
 *
 * Share i of n windows is [i n / 8, (i + 1) n / 8), rounded down; some are empty below 8 windows. A
 * sum over tokens is taken within a share in the order of batches, and sums of shares are added in
 * their order:
 *
 *     total = ((p0 + p1) + p2) + .. + p7
 *
 * So the bytes do not depend on who sums which share. One process needs one partial sum and the
 * total. Sums that are gathered over several runs of the wave begin the first share of the next run
 * with what is there. */
#ifndef PARE_CALIB_SHARES_H
#define PARE_CALIB_SHARES_H

#include <stdbool.h>

#include "runtime/context.h"

enum { PARE_SHARES = 8 };

/* The first window of a share (PARE_SHARES: behind the last), and the end of the share that a
 * window is in. */
size_t pare_share_begin(size_t windows, size_t share);
size_t pare_share_end(size_t windows, size_t window);

/* Windows of the largest share. */
size_t pare_share_largest(size_t windows);

/* The shares [begin, end) of one of `size` processes: eight of them have some at most. */
void pare_share_range(size_t size, size_t rank, size_t *begin, size_t *end);

/* Shares, and windows, that a process has at most. */
size_t pare_share_most(size_t size);
size_t pare_share_windows(size_t windows, size_t size);

/* Behind a share: its sum x [count] joins the total [count] and is 0 again; behind the `last` one
 * the total goes to x and is 0. */
void pare_share_doubles(double *x, double *total, size_t count, bool last);
void pare_share_floats(const pare_ctx *cx, float *x, float *total, size_t count, bool last);

/* The same of h [k, k], lower triangle: the total is kept above the diagonal, so that it takes no
 * memory but `diagonal` [k]. Threads over tiles. */
void pare_share_triangle(const pare_ctx *cx, float *h, float *diagonal, size_t k, bool last);

#endif
