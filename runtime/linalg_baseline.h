/* runtime/linalg_baseline.h - what OpenBLAS itself reaches, with threads of its own.
 *
 * For a process that does nothing else: it sets the number of BLAS threads to all CPUs, which the
 * rest of the library (linalg.h) relies on being one. */
#ifndef PARE_RUNTIME_LINALG_BASELINE_H
#define PARE_RUNTIME_LINALG_BASELINE_H

#include "runtime/arena.h"

/* Seconds of y = x w^T with x [m, k], w [n, k], y [m, n] by sgemm: median of 5 after a warm-up.
 * PARE_EINVAL when a size is 0 or above 65536; PARE_ENOMEM, also when a limit of the shell leaves
 * less than the threads of BLAS take. */
PARE_CHECKED pare_status pare_blas_sgemm_seconds(pare_ctx *cx, size_t m, size_t n, size_t k,
                                                 double *seconds);

/* Seconds of spotrf + spotri + spotrf + sgemm on n x n matrices: the textbook work of one GPTQ
 * layer. Once, after a warm-up. PARE_EINVAL and PARE_ENOMEM as above. */
PARE_CHECKED pare_status pare_blas_solve_seconds(pare_ctx *cx, size_t n, double *seconds);

#endif
