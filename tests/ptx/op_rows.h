/* tests/ptx/op_rows.h - every block operation (runtime/block_ops.h) on random inputs, on the CPU
 * and on a device: the bits must be equal, where a NaN is as good as another.
 *
 * A row is one function that runs on both. Its arrays lie in memory of their exact size, so that a
 * read or write past them is a fault; what an operation writes to holds other bytes on each side,
 * so that what it leaves out differs. */
#ifndef PARE_TESTS_OP_ROWS_H
#define PARE_TESTS_OP_ROWS_H

#include "runtime/cuda_internal.h"

enum { OP_TAKEN = 128 };

/* One run of a case, on the CPU or on a device. */
typedef struct op_run {
    pare_ops o;
    pare_arena arena;
    pare_model model;
    pare_forward f;
    pare_device *d;  /* NULL: the CPU */
    pare_cuda *cuda; /* of d */
    pare_address taken[OP_TAKEN];
    size_t count;
    uint64_t stream; /* of the next input */
    uint32_t *out;
    size_t words;
} op_run;

typedef struct op_row {
    const char *name;
    size_t cases;
    pare_status (*run)(op_run *r, size_t i);
} op_row;

/* The rows; one whose name is NULL ends them. */
extern const op_row op_rows[];
const op_row *op_row_of(const char *name);

/* Runs case i on the CPU (d NULL) or on a device; r->out is malloc'd. */
PARE_CHECKED pare_status op_row_run(pare_ctx *cx, pare_device *d, const op_row *row, size_t i,
                                    op_run *r);

/* PARE_OK if the outputs of two runs of case i are equal; PARE_EINVAL with the first value that
 * differs. */
PARE_CHECKED pare_status op_row_compare(pare_ctx *cx, const op_row *row, size_t i,
                                        const op_run *near, const op_run *there);

/* Both of it, on both sides. */
PARE_CHECKED pare_status op_row_check(pare_ctx *cx, pare_device *d, const op_row *row, size_t i);

/* What rows are made of. The first call opens the side with the config and weights of r->model and
 * tables for so many positions. */
PARE_CHECKED pare_status op_begin(op_run *r, size_t positions);
void *op_bytes(op_run *r, size_t bytes);  /* of the host, zero */
float *op_floats(op_run *r, size_t n);    /* mixed: normal, tiny, huge, zero, repeated */
float *op_mild(op_run *r, size_t n);      /* between -1 and 1 */
uint16_t *op_halves(op_run *r, size_t n); /* F16 in 2^-6 .. 1 */
PARE_CHECKED pare_status op_weights(op_run *r, const void *p, size_t bytes); /* as the model's */
PARE_CHECKED pare_status op_put(op_run *r, const float *x, size_t rows, size_t width,
                                pare_array *y);
PARE_CHECKED pare_status op_blank(op_run *r, size_t rows, size_t width, pare_array *y);
PARE_CHECKED pare_status op_keep(op_run *r, pare_array y); /* it is compared */
void op_keep_bytes(op_run *r, const void *p, size_t bytes);

/* Rows of other files, and how many cases they have. */
enum { OP_ATTENDS = 24, OP_LINEARS = 28 * 8, OP_F16 = 19 * 4, OP_TILES = 16 * 5, OP_EXL3 = 32 * 4 };
pare_status op_attend(op_run *r, size_t i);
pare_status op_linears(op_run *r, size_t i);
pare_status op_f16(op_run *r, size_t i);
pare_status op_tiles(op_run *r, size_t i);
pare_status op_exl3(op_run *r, size_t i);

#endif
