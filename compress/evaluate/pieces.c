#include "compress/evaluate/evaluate_internal.h"

#include <assert.h>

enum { ROWS_MOST = 2048, ROWS_LEAST = 64 };
static const size_t SCRATCH_BYTES = (size_t)32 << 20, LOGITS_BYTES = (size_t)16 << 20;

size_t pare__eval_rows(const pare_ctx *cx, const pare_config *c)
{
    size_t rows = ROWS_MOST;
    while (rows > ROWS_LEAST &&
           pare_block_forward_scratch(cx, c, (pare_batch){1, rows, 0}) > SCRATCH_BYTES)
        rows /= 2;
    return rows;
}

size_t pare__eval_logits(size_t vocab)
{
    const size_t rows = LOGITS_BYTES / sizeof(float) / (vocab ? vocab : 1);
    return rows < 1 ? 1 : rows < PARE__LOGITS_ROWS ? rows : PARE__LOGITS_ROWS;
}

size_t pare__eval_together(const pare_config *c, const pare_kv_format *kv, size_t length,
                           size_t most)
{
    static const size_t caches = (size_t)256 << 20;
    size_t n = most;
    while (n > 1 && pare_kv_bytes(c, kv, n, length) > caches / c->blocks)
        n--;
    return n;
}

pare_status pare__eval_block(const pare_ops *o, const pare_forward *f, size_t block,
                             pare_batch batch, size_t rows, pare_array x, pare_kv *kv)
{
    assert(batch.start == 0 && (batch.sequences == 1 || batch.sequences * batch.length <= rows));
    for (size_t at = 0; at < batch.length; at += rows) {
        const size_t left = batch.length - at;
        const pare_batch piece = {batch.sequences, left < rows ? left : rows, at};
        pare_array behind; /* x itself */
        PARE_TRY(pare_ctx_interrupted(o->cx));
        PARE_TRY(pare_block_run(o, f, &f->model->block[block], piece,
                                pare_array_rows(x, at, piece.sequences * piece.length), kv, NULL,
                                &behind));
    }
    return PARE_OK;
}

/* The last piece sees the most positions, and the first has the most rows. */
size_t pare__eval_scratch(const pare_ctx *cx, const pare_config *c, pare_batch batch, size_t rows,
                          pare_inputs inputs)
{
    const size_t length = batch.length < rows ? batch.length : rows;
    const pare_batch widest = {batch.sequences, length, batch.length - length};
    return pare_block_forward_bytes(cx, c, widest, inputs);
}
