/* runtime/product.h - products of matrices of floats or doubles, with the same bytes on every CPU.
 *
 * Both factors are packed into panels, block by block, and a kernel multiplies these. What an
 * output gains is cut into blocks of PARE_DEPTH terms; each block is one chain of fused
 * multiply-adds from 0, in order, and is then added to the output. So neither the blocks of rows
 * and columns nor threads nor the CPU change a bit. Up to 1.2 MB of stack. */
#ifndef PARE_RUNTIME_PRODUCT_H
#define PARE_RUNTIME_PRODUCT_H

#include <stdbool.h>

#include "runtime/context.h"

enum { PARE_DEPTH = 256 };

/* c += alpha op(a) op(b): op(a) [m, k], op(b) [k, n], c [m, n]; alpha a is rounded first. */
typedef struct pare_product {
    size_t m, n, k;
    const void *a;
    size_t lda;
    bool transpose_a; /* a is [k, m] */
    const void *b;
    size_t ldb;
    bool transpose_b; /* b is [n, k] */
    void *c;
    size_t ldc;
    float alpha;
    bool lower; /* m = n, and only what lies on and below the diagonal of c is touched */
    bool f64;
} pare_product;

/* Tile (i, j) of number `index` in a lower triangle, row after row. */
static inline void pare_triangle(size_t index, size_t *i, size_t *j)
{
    *i = 0;
    while (index > *i)
        index -= ++*i;
    *j = index;
}

/* Inside a task. */
void pare_product_add(const pare_kernels *kernels, const pare_product *p);

/* Threads over tiles. */
void pare_product_tiles(const pare_ctx *cx, const pare_product *p);

/* Bytes of its stack that a product touches, columns of c at most. */
size_t pare_product_bytes(size_t columns);

#endif
