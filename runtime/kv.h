/* runtime/kv.h - the key/value cache of one block: floats, or codes that attention decodes.
 *
 * The query at position i reads token j in coded form if sink <= j < pare_kv_coded(i + 1), else in
 * F16. The codes of a token do not depend on i, so prefill and decode see the same numbers. In the
 * coded forms every key and value is rounded to F16 before anything else. */
#ifndef PARE_RUNTIME_KV_H
#define PARE_RUNTIME_KV_H

#include "runtime/model.h"

/* Keys or values of a coded cache, planes in the order [sequences][kv_heads]. */
typedef struct pare_kv_side {
    uint8_t *codes;          /* [planes][capacity] rows of pare_kv_row_bytes */
    uint16_t *scales, *lows; /* F16 [planes][capacity / tokens][entries]; lows NULL: 0 */
    uint16_t *sink;          /* F16 [planes][sink][head_dim] */
    uint16_t *recent;        /* F16 [planes][slots][head_dim], token t in slot t % slots */
    unsigned bits;
    size_t group;   /* channels that share a scale: 1 or a multiple of 8 */
    size_t tokens;  /* tokens that share a row of scales; 0: the block's calibrated ones */
    size_t entries; /* scales in a row */
} pare_kv_side;

enum { PARE_KV_BLOCK = 64 /* positions that attention takes at once */ };

/* The cache of one block. Of a block with a recurrent state it is that state and the last inputs of
 * its convolution, of one with attention its keys and values; by a configuration of both kinds of
 * blocks it has room for either. FLOAT: keys after RoPE, block by block transposed, so that
 * attention reads along: [sequences][kv_heads][blocks][head_dim][PARE_KV_BLOCK], capacity rounded
 * up; values [sequences][kv_heads][capacity][head_dim]; `key` and `value` are empty. Else keys and
 * values are NULL. */
typedef struct pare_kv {
    float *keys, *values;
    size_t sequences, capacity;
    pare_kv_format format;
    pare_kv_side key, value;
    size_t slots;
    float *state; /* [sequences][value_heads][key_width][value_width], or NULL */
    float *past;  /* [sequences][taps - 1][channels], the newest last */
    size_t seen;  /* positions that the state stands for */
} pare_kv;

/* Keys that a plane of an F32 cache has room for. */
static inline size_t pare_kv_key_room(size_t capacity)
{
    return (capacity + PARE_KV_BLOCK - 1) / PARE_KV_BLOCK * PARE_KV_BLOCK;
}

/* The word for a method in recipes and on the command line: "none" for FLOAT. */
const char *pare_kv_method_name(pare_kv_method method);

/* Bits of a code; 32 for FLOAT. */
unsigned pare_kv_bits(const pare_kv_format *f);

/* The usual settings of a method. */
pare_kv_format pare_kv_default(pare_kv_method method);

/* Bytes that one more token costs in the caches of all blocks, once it is coded: codes, scales and
 * lows of every head of keys and values. */
double pare_kv_token_bytes(const pare_config *c, const pare_kv_format *f);

/* Bytes of the tokens that the caches of all blocks keep in F16, for one sequence. */
uint64_t pare_kv_float_bytes(const pare_config *c, const pare_kv_format *f);

/* Of the first `length` tokens, how many are coded (those below `sink` stay in F16 all the same).
 */
size_t pare_kv_coded(const pare_kv_format *f, bool key, size_t length);

/* Bytes of the recurrent states of all blocks, for one sequence. */
uint64_t pare_kv_state_bytes(const pare_config *c);

/* Zeroed F32 cache of one block in the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_kv_take(pare_arena *a, const pare_config *c, size_t sequences,
                                      size_t capacity, pare_kv *kv);

/* The same in any format. Batches of a coded cache continue where the last one ended, or start
 * anew at 0. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_kv_take_format(pare_arena *a, const pare_config *c,
                                             const pare_kv_format *f, size_t sequences,
                                             size_t capacity, pare_kv *kv);

/* Copies sequence `f` of one cache to sequence `t` of another of the same format and capacity, so
 * that batches which continue it may branch. */
void pare_kv_copy(const pare_config *c, const pare_kv *from, size_t f, pare_kv *to, size_t t);

/* Bytes that pare_kv_take_format takes, upper bound; SIZE_MAX when it overflows. */
size_t pare_kv_bytes(const pare_config *c, const pare_kv_format *f, size_t sequences,
                     size_t capacity);

#endif
