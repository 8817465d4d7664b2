#include "calib/drift.h"

#include <string.h>

#include "calib/shares.h"
#include "runtime/gram_bf16.h"
#include "runtime/linalg.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum { ROWS = 64 }; /* of a task */

uint64_t pare_drift_bytes(size_t k)
{
    return (uint64_t)k * k * sizeof(float) + PARE_ALIGN;
}

uint64_t pare_drift_room_bytes(size_t k, size_t room, bool bf16)
{
    return pare_drift_bytes(k) + (uint64_t)k * room * sizeof(float) + PARE_ALIGN +
           (bf16 ? (uint64_t)2 * k * PARE_GRAM_LINE * sizeof(uint16_t) + PARE_ALIGN : 0);
}

pare_status pare_drift_take(pare_arena *a, size_t k, bool bf16, const pare_spill *file,
                            pare_drift *out)
{
    *out = (pare_drift){.d = file ? NULL : PARE_NEW(a, float, k *k), .bf16 = bf16, .file = file};
    return out->d || file ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_drift_room(pare_arena *a, size_t k, size_t room, pare_drift *d)
{
    float **const square = d->file ? &d->d : &d->total;
    *square = PARE_NEW(a, float, k *k);
    d->x = *square ? pare_arena_take_raw(a, room, k * sizeof *d->x) : NULL;
    if (d->x && d->bf16)
        d->side = pare_arena_take_raw(a, 2 * PARE_GRAM_LINE, k * sizeof *d->side);
    return d->x && (d->side || !d->bf16) ? PARE_OK : PARE_ENOMEM;
}

void pare_drift_see(pare_drift *d, const float *x, size_t rows, size_t k)
{
    memcpy(d->x, x, rows * k * sizeof *x);
    d->rows = rows;
}

typedef struct batch {
    pare_drift *d;
    const float *y, *weight;
    size_t k;
} batch;

/* x becomes w (x - y). */
static void subtract_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const batch *const b = arg;
    const size_t k = b->k;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const float w = b->weight ? b->weight[i] : 1.0F;
        for (size_t j = 0; j < k; j++)
            b->d->x[i * k + j] = w * (b->d->x[i * k + j] - b->y[i * k + j]);
    }
}

void pare_drift_add(const pare_ctx *cx, pare_drift *d, const float *y, const float *weight,
                    size_t rows, size_t k)
{
    batch b = {d, y, weight, k};
    pare_parallel(cx, rows, ROWS, subtract_rows, &b);
    if (d->bf16) {
        pare_gram_cross_bf16(cx, d->side, d->d, d->x, k, y, k, rows);
        return;
    }
    pare_gemm_tiles(cx, &(pare_gemm){.m = k,
                                     .n = k,
                                     .k = rows,
                                     .a = d->x,
                                     .lda = k,
                                     .transpose_a = true,
                                     .b = y,
                                     .ldb = k,
                                     .c = d->d,
                                     .ldc = k,
                                     .alpha = 1,
                                     .beta = 1});
}

/* A piece of the sum of a share joins the total in the file. */
static pare_status share_piece(pare_ctx *cx, pare_drift *d, uint64_t at, size_t count, float *total)
{
    float *const x = d->d + at;
    if (d->begun)
        PARE_TRY(pare_spill_get(cx, d->file, total, count, at));
    for (size_t i = 0; i < count; i++) {
        total[i] = (d->begun ? total[i] : 0) + x[i];
        x[i] = 0;
    }
    return pare_spill_put(cx, d->file, total, count, at);
}

pare_status pare_drift_share(pare_ctx *cx, pare_drift *d, size_t k, bool last)
{
    enum { PIECE = 1 << 15 };
    float total[PIECE];
    if (!d->file) {
        pare_share_floats(cx, d->d, d->total, k * k, last);
        return PARE_OK;
    }
    for (size_t at = 0; at < k * k; at += PIECE)
        PARE_TRY(share_piece(cx, d, at, pare_smaller(PIECE, k * k - at), total));
    d->begun = true;
    return PARE_OK;
}

pare_status pare_drift_row(pare_ctx *cx, const pare_drift *d, size_t k, size_t row, float *room,
                           const float **x)
{
    *x = d->file ? room : d->d + row * k;
    return d->file ? pare_spill_get(cx, d->file, room, k, (uint64_t)row * k) : PARE_OK;
}

pare_status pare_drift_put_row(pare_ctx *cx, pare_drift *d, size_t k, size_t row, const float *x)
{
    if (d->file)
        return pare_spill_put(cx, d->file, x, k, (uint64_t)row * k);
    memcpy(d->d + row * k, x, k * sizeof *x);
    return PARE_OK;
}

void pare_drift_scale(pare_drift *d, const float *s, size_t k)
{
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            d->d[i * k + j] = (float)((double)d->d[i * k + j] / ((double)s[i] * (double)s[j]));
}

void pare_drift_permute(pare_drift *d, const uint32_t *column, size_t k, float *old)
{
    memcpy(old, d->d, k * k * sizeof *old);
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            d->d[i * k + j] = old[(size_t)column[i] * k + column[j]];
}
