/* runtime/kv_internal.h - how tokens become codes, and attention over them. */
#ifndef PARE_RUNTIME_KV_INTERNAL_H
#define PARE_RUNTIME_KV_INTERNAL_H

#include "runtime/forward_internal.h"
#include "runtime/kv.h"

/* A batch and its cache; keys and values on their way into a coded one. */
typedef struct pare__kv_batch {
    pare_ctx *cx;
    const pare_forward *f;
    const pare_kv_levels *levels; /* of the block; KVQUANT */
    pare_batch batch;
    pare_kv *kv;
    const float *k, *v; /* [sequences * length, kv_heads * head_dim], rounded to F16; k after RoPE,
                           with KVQUANT before it. Not read with an F32 cache */
    size_t window;      /* of the block; 0: none */
    const float *sinks; /* [heads], or NULL */
    bool apart;         /* pare_block.apart */
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

/* Takes zeroed memory of a place. */
typedef pare_status pare__kv_taker(void *place, size_t bytes, void **at);
/* Copies within a place. */
typedef pare_status pare__kv_copier(void *place, void *to, const void *from, size_t bytes);

/* pare_kv_take_format and pare_kv_copy for the memory of any place; a status of its taker or copier
 * comes back. */
PARE_CHECKED pare_status pare__kv_take_by(pare_ctx *cx, pare__kv_taker *how, void *place,
                                          const pare_config *c, const pare_kv_format *f,
                                          size_t sequences, size_t capacity, pare_kv *kv);
pare_status pare__kv_copy_by(pare__kv_copier *copy, void *place, const pare_config *c,
                             const pare_kv *from, size_t f, pare_kv *to, size_t t);

/* Where a block of positions is read from, in the order of positions. A query takes a column from
 * exactly one of them. */
typedef enum pare__kv_source {
    PARE__KV_SINK,   /* first tokens in F16 */
    PARE__KV_HELD,   /* codes; all of an F32 cache */
    PARE__KV_RECENT, /* newest tokens in F16 */
    PARE__KV_SOURCES
} pare__kv_source;

/* One KV head of one sequence, read by queries t = 0, 1, ... at positions first + t. */
typedef struct pare__kv_reader {
    const pare__kv_batch *b;
    size_t sequence, head, first;
    float *decoded; /* [PARE_KV_BLOCK][head_dim], scratch of coded caches */
    float *keys;    /* [head_dim][PARE_KV_BLOCK], likewise */
} pare__kv_reader;

/* First position that query t sees. */
static inline size_t pare__kv_low(const pare__kv_reader *r, size_t t)
{
    return pare_window_low(&r->b->f->model->config, r->b->window, r->first + t);
}

/* Columns of [c0, c1) that query t reads from a source, if it sees so far: [*begin, *end). Both
 * grow with t. */
void pare__kv_columns(const pare__kv_reader *r, pare__kv_source s, bool key, size_t t, size_t c0,
                      size_t c1, size_t *begin, size_t *end);

/* What queries t0 .. t1 - 1 read from a source of positions [c0, c1), c0 a multiple of
 * PARE_KV_BLOCK and c1 at most that far behind it; NULL when that is nothing. Keys lie transposed,
 * [head_dim][PARE_KV_BLOCK], that of position p in column p - c0; values [positions][head_dim],
 * that of p in row p - c0. Valid until the next call; columns that nobody asked for hold anything.
 */
const float *pare__kv_keys(const pare__kv_reader *r, pare__kv_source s, size_t t0, size_t t1,
                           size_t c0, size_t c1);
const float *pare__kv_values(const pare__kv_reader *r, pare__kv_source s, size_t t0, size_t t1,
                             size_t c0, size_t c1);

/* Puts the rotated key and the value of one token, [kv_heads * head_dim], into an F32 cache. */
void pare__kv_put(const pare_config *c, const pare_kv *kv, size_t sequence, size_t position,
                  const float *k, const float *v);

/* Causal attention of a batch whose keys and values are in the cache:
 *   out = softmax(scale q k^T) v,   with the sinks of the batch (block_ops.h), formed block by
 * block as attention.c says with the scale, cap and window of the family; scale is 1 /
 * sqrt(head_dim) as a rule. q, out  [sequences * length, heads * head_dim], read / written
 * PARE_ENOMEM.
 * Memory   scratch: pare__attention_bytes per worker, whatever the number of positions; rewound.
 * Threads  over sequences, KV heads, tiles of queries, and heads where that is too few.
 * Exact    a row has the same bytes in any batch and split, for any thread count, on every CPU. */
PARE_CHECKED pare_status pare__attention(pare_arena *scratch, const pare__kv_batch *b,
                                         const float *q, float *out);

size_t pare__attention_bytes(const pare_config *c, pare_batch batch);

#endif
