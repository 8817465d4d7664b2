/* quant/kv_cache.h - the levels of KVQuant: what 3-bit codes of keys and values stand for.
 *
 * Keys before RoPE (channels keep their size there), per channel, with scales fixed at calibration;
 * values per token and head, scaled when they come. One set of levels per block for keys, one for
 * values:
 *
 *   key    level[code] scale[c] + low[c],  low = mean, scale = 3 deviations of channel c
 *   value  level[code] scale + low,        low, scale: middle and half the range of the head
 *
 * Levels minimize sum weight (x - level)^2 over a sample, x scaled as above, weight = scale^2: the
 * squared error of the numbers themselves.
 *
 * Source  Hooper et al., KVQuant (2024), 3.1 per-channel keys, 3.2 before RoPE, 3.3 non-uniform
 *         levels, 3.5 the first tokens in F16. Left out: the sparse 1 % of outliers (3.4); so keys
 *         are scaled by their deviation and not by their range, which a single outlier would set,
 *         and levels may lie outside -1 .. 1. Weights do not come from gradients. A value has a
 *         scale per head and not per token. */
#ifndef PARE_QUANT_KV_CACHE_H
#define PARE_QUANT_KV_CACHE_H

#include "runtime/kv.h"

enum { PARE_KV_SAMPLE_ROWS = 2048 };

/* Keys (before RoPE) and values of tokens spread evenly over all that come by. */
typedef struct pare_kv_sample {
    size_t width, head_dim; /* width: kv_heads * head_dim */
    size_t rows;            /* kept */
    uint64_t seen, total;   /* tokens; total: that will come */
    float *k, *v;           /* [PARE_KV_SAMPLE_ROWS, width] */
} pare_kv_sample;

/* What calibration gives for a block, as stored: F16. */
typedef struct pare_kv_tables {
    uint16_t key_level[PARE_KV_LEVELS], value_level[PARE_KV_LEVELS]; /* ascending */
    uint16_t *key_scale, *key_low;                                   /* [width], the caller's */
} pare_kv_tables;

/* Memory of the sample in the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_kv_sample_take(pare_arena *a, const pare_config *c, uint64_t tokens,
                                             pare_kv_sample *out);

/* Adds k and v [rows, width] in the order in which tokens come. */
void pare_kv_sample_add(pare_kv_sample *s, const float *k, const float *v, size_t rows);

/* Finds scales and levels. PARE_ENUMERIC when a number of the sample is not finite or beyond F16,
 * PARE_ENOMEM. Exact: same bytes on every CPU. */
PARE_CHECKED pare_status pare_kv_calibrate(pare_ctx *cx, pare_arena *scratch,
                                           const pare_kv_sample *s, pare_kv_tables *out);

/* Bytes that sample and calibration take together, upper bound. */
uint64_t pare_kv_calibrate_bytes(const pare_config *c);

#endif
