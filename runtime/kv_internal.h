/* runtime/kv_internal.h - how tokens become codes, and attention over them. */
#ifndef PARE_RUNTIME_KV_INTERNAL_H
#define PARE_RUNTIME_KV_INTERNAL_H

#include "runtime/forward_internal.h"
#include "runtime/kv.h"

/* Keys and values of a batch on their way into a coded cache. */
typedef struct pare__kv_batch {
    pare_ctx *cx;
    const pare_forward *f;
    const pare_kv_levels *levels; /* of the block; KVQUANT */
    pare_batch batch;
    pare_kv *kv;
    const float *k, *v; /* [sequences * length, kv_heads * head_dim], rounded to F16; k after RoPE,
                           with KVQUANT before it */
} pare__kv_batch;

/* True when keys are kept as they are before RoPE, which is applied when they are read. */
static inline bool pare__kv_before_rope(const pare_kv_format *f)
{
    return f->method == PARE_KV_KVQUANT;
}

/* x[i] = the F16 number nearest to x[i]. */
void pare__kv_round(const pare_kernels *kernels, float *x, size_t n);

/* Scale and low of x [n], asymmetric with 2^bits codes, both F16:
 *   low = f16(min x),  scale = f16((max x - min x) / (2^bits - 1)),
 *   code = clamp(rint((x - low) / scale), 0, 2^bits - 1);   scale 0: code 0.
 * Values `step` apart. A value that is not finite makes the scale NaN and the codes 0. */
void pare__kv_code_group(const float *x, size_t step, size_t n, unsigned bits, uint8_t *code,
                         uint16_t *scale, uint16_t *low);

/* Symmetric, 8 bits: scale = f16(max |x| / 127), code = clamp(rint(x / scale), -127, 127) + 128. */
void pare__kv_code_int8(const float *x, size_t n, uint8_t *code, uint16_t *scale);

/* Nearest of the levels to (x - low) / scale per value; a tie goes to the lower one.
 * code = number of i with (x - low) / scale > (level[i] + level[i + 1]) / 2. scale 0: as of 0. */
unsigned pare__kv_nearest(const float *levels, float x, float scale, float low);

/* KVQuant values: low = f16((max + min) / 2), scale = f16((max - min) / 2), then the nearest. */
void pare__kv_code_levels(const float *x, size_t n, const float *levels, uint8_t *code,
                          uint16_t *scale, uint16_t *low);

/* Packs n codes of `bits` bits as kernels.h describes; the rest of the row is 0. */
void pare__kv_pack(uint8_t *row, const uint8_t *code, size_t n, unsigned bits);

/* Codes what leaves the window with this batch, and keeps the sink. Before attention.
 * PARE_ENOMEM. Scratch: pare__kv_store_bytes per worker, rewound. */
PARE_CHECKED pare_status pare__kv_store(pare_arena *scratch, const pare__kv_batch *b);
size_t pare__kv_store_bytes(const pare_config *c);

/* Keeps the newest tokens of the batch in F16. After attention. */
void pare__kv_keep(const pare__kv_batch *b);

/* Causal attention over a coded cache; q and out as pare__attention. PARE_ENOMEM.
 * Scratch: pare__kv_attention_bytes per worker, rewound. */
PARE_CHECKED pare_status pare__kv_attention(pare_arena *scratch, const pare__kv_batch *b,
                                            const float *q, float *out);

size_t pare__kv_attention_bytes(const pare_config *c, pare_batch batch);

#endif
