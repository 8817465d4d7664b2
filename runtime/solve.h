/* runtime/solve.h - triangular solves and the Cholesky factor of one tile, with the same bytes on
 * every CPU: sums as those of product.h, from the tile's own factor on. */
#ifndef PARE_RUNTIME_SOLVE_H
#define PARE_RUNTIME_SOLVE_H

#include <stdbool.h>

#include "kernels/kernels.h"

enum { PARE_SOLVE_MOST = 240 /* rows of a tile: whole panels of both factors */ };

typedef enum pare_solve_kind {
    PARE_SOLVE_LEFT,             /* X = L^-1 A,   A [n, count] */
    PARE_SOLVE_RIGHT_TRANSPOSED, /* X = A L^-T,   A [count, n] */
    PARE_SOLVE_RIGHT_NEGATED,    /* X = -A L^-1,  A [count, n] */
    PARE_SOLVE_INVERSE           /* X = L^-1, lower triangle, count = n; may lie where l lies */
} pare_solve_kind;

/* L is the lower triangle of l [n, n], n at most PARE_SOLVE_MOST; nothing above it is read. */
typedef struct pare_triangle_solve {
    pare_solve_kind kind;
    size_t n, count;
    const void *l;
    size_t ldl;
    void *x; /* A in, X out */
    size_t ld;
    bool f64;
} pare_triangle_solve;

/* Inside a task. Up to 250 KB of stack. */
void pare_solve(const pare_kernels *kernels, const pare_triangle_solve *s);

/* L with L L^T = A in place of the lower triangle of A [n, n], n at most PARE_SOLVE_MOST. 0, or the
 * 1-based index of the first pivot that is not positive or not finite. Inside a task. */
size_t pare_factor_tile(const pare_kernels *kernels, void *a, size_t lda, size_t n, bool f64);

#endif
