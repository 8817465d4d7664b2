/* calib/drift.h - how the inputs of a linear have moved from those in the float model.
 *
 *     D = sum over tokens of w (x - y) y^T
 *
 * y: inputs behind the compressed blocks, x: the same tokens behind those of the float model, w
 * their weights (calib/token_weights.h) or 1. Beside H = sum w y y^T it says what a linear can make
 * up for: |Q y - W x|^2 is least at Q = W + W D H^-1 (quant/correct.h). */
#ifndef PARE_CALIB_DRIFT_H
#define PARE_CALIB_DRIFT_H

#include "calib/spill.h"

typedef struct pare_drift {
    float *d;     /* [k, k]; NULL: not asked for, or in the file */
    float *x;     /* [room, k] inputs in the float model of the tokens that come next; or NULL */
    size_t rows;  /* of x */
    float *total; /* [k, k] over shares of windows (calib/shares.h), beside x; NULL: in the file */
    const pare_spill *file; /* NULL, or where the total is kept, and D once all tokens came: d is
                               there only as long as they come */
    bool begun;             /* something is in it */
    pare_status status;     /* of pare_drift_share, for who cannot return it */
    bool bf16;              /* of inputs rounded to BF16 (runtime/gram_bf16.h), with .. */
    uint16_t *side;         /* .. room for that */
    bool shared;            /* steps behind the current one need d as it is */
} pare_drift;

/* Bytes of D of k columns, and of what is beside it while tokens come: its total, and inputs of up
 * to `room` of them. */
uint64_t pare_drift_bytes(size_t k);
uint64_t pare_drift_room_bytes(size_t k, size_t room, bool bf16);

/* D of nothing; with a file of k^2 floats it takes no memory. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_drift_take(pare_arena *a, size_t k, bool bf16, const pare_spill *file,
                                         pare_drift *out);

/* Room for the total, or with a file for d, and batches of up to `room` tokens, while they come.
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_drift_room(pare_arena *a, size_t k, size_t room, pare_drift *d);

/* The next tokens as the float model has them: x [rows, k], rows <= room. */
void pare_drift_see(pare_drift *d, const float *x, size_t rows, size_t k);

/* The same tokens as the compressed one has them, y [rows, k], with their weights [rows] or NULL.
 * Threads over tiles, one product over the tokens for each; same bytes for any number of them. */
void pare_drift_add(const pare_ctx *cx, pare_drift *d, const float *y, const float *weight,
                    size_t rows, size_t k);

/* Behind a share of the windows (calib/shares.h) d joins the total and is 0 again; behind the last
 * one D is where it stays. PARE_EIO, PARE_ENOSPC. */
PARE_CHECKED pare_status pare_drift_share(pare_ctx *cx, pare_drift *d, size_t k, bool last);

/* Row `row` of D once all tokens came: in memory, or read into `room` [k]; and written. PARE_EIO,
 * PARE_ENOSPC. */
PARE_CHECKED pare_status pare_drift_row(pare_ctx *cx, const pare_drift *d, size_t k, size_t row,
                                        float *room, const float **x);
PARE_CHECKED pare_status pare_drift_put_row(pare_ctx *cx, pare_drift *d, size_t k, size_t row,
                                            const float *x);

/* Both inputs divided by s [k], above 0; or with column j what column[j] was: `old` [k, k] is
 * overwritten. */
void pare_drift_scale(pare_drift *d, const float *s, size_t k);
void pare_drift_permute(pare_drift *d, const uint32_t *column, size_t k, float *old);

#endif
