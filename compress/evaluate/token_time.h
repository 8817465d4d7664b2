/* compress/evaluate/token_time.h - times of this machine that choices are made by. Medians: they
 * differ from run to run, and with what else the machine does. */
#ifndef PARE_COMPRESS_EVALUATE_TOKEN_TIME_H
#define PARE_COMPRESS_EVALUATE_TOKEN_TIME_H

#include "runtime/model.h"

/* Picoseconds of one of `count` linears at one row, by the kernels that decode: the mean over
 * passes through all of them, one after the other as a token meets them, so that weights come from
 * where they come from in a model of this size. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_time_linears(pare_ctx *cx, pare_arena *scratch, const pare_linear *w,
                                           size_t count, uint64_t *ps);

/* Picoseconds that a token may take at this many tokens in a second, > 0: 1e12 / tokens_s rounded
 * down, and at most INT64_MAX. */
uint64_t pare_time_at(double tokens_s);

/* Picoseconds of a decoded token, as pare eval --speed measures it. PARE_ENOTSUP for a context of
 * one token; statuses of pare_evaluate_speed. Memory beside its own: pare_time_token_bytes. */
PARE_CHECKED pare_status pare_time_token(pare_ctx *cx, pare_arena *scratch, const pare_model *model,
                                         uint64_t *ps);
uint64_t pare_time_token_bytes(const pare_ctx *cx, const pare_config *c);

#endif
