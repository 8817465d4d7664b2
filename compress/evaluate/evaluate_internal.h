/* compress/evaluate/evaluate_internal.h - sizes and passes that perplexity and choices share. */
#ifndef PARE_COMPRESS_EVALUATE_INTERNAL_H
#define PARE_COMPRESS_EVALUATE_INTERNAL_H

#include "runtime/block_ops.h"

/* Rows of activations that go through a block at a time: as many as keep its scratch small, at most
 * 2048, at least 64. With that many the time of unpacking weights no longer shows. */
size_t pare__eval_rows(const pare_ctx *cx, const pare_config *c);

/* Rows of logits that exist at a time: at most 64, and fewer of a large vocabulary. */
enum { PARE__LOGITS_ROWS = 64 };
size_t pare__eval_logits(size_t vocab);

/* pare_block_run, in place, over a batch with start 0 in pieces of at most `rows` rows: of several
 * sequences, whole (sequences * length is at most rows); of one, at any positions. */
PARE_CHECKED pare_status pare__eval_block(const pare_ops *o, const pare_forward *f, size_t block,
                                          pare_batch batch, size_t rows, pare_array x, pare_kv *kv);

/* Sequences of `length` tokens that are written at once: as many as keep the caches of all blocks
 * within 256 MiB, 1 to `most`. */
size_t pare__eval_together(const pare_config *c, const pare_kv_format *kv, size_t length,
                           size_t most);

/* Bytes of scratch that pare__eval_block takes. */
size_t pare__eval_scratch(const pare_ctx *cx, const pare_config *c, pare_batch batch, size_t rows,
                          pare_inputs inputs);

#endif
