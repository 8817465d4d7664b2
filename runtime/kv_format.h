/* runtime/kv_format.h - in which form a model keeps the keys and values of earlier tokens. */
#ifndef PARE_RUNTIME_KV_FORMAT_H
#define PARE_RUNTIME_KV_FORMAT_H

#include <stddef.h>
#include <stdint.h>

typedef enum pare_kv_method {
    PARE_KV_FLOAT, /* F32, exact */
    PARE_KV_INT8,  /* symmetric, a scale per token and head */
    PARE_KV_INT4,  /* asymmetric, a scale per token and `group` channels of a head */
    PARE_KV_KIVI,  /* 2 bits; K per channel and `group` tokens, V per token and `group` channels */
    PARE_KV_KVQUANT, /* 3 bits; K before RoPE per channel, V per token, calibrated levels */
    PARE_KV_METHODS
} pare_kv_method;
enum { PARE_KV_LEVELS = 8, PARE_KV_GROUP_MAX = 128 };

/* All zero: FLOAT. What a method does not use is 0. */
typedef struct pare_kv_format {
    pare_kv_method method;
    size_t group;  /* int4: 32, or 0 for the head; kivi: 32, 64, 128 */
    size_t window; /* kivi: newest tokens that stay in F16, the one being computed included */
    size_t sink;   /* kvquant: first tokens that stay in F16 */
} pare_kv_format;

/* What KVQuant calibrated for one block: a value is level[code] scale + low, levels ascending in
 * -1 .. 1. Scales and lows of values are found per token. */
typedef struct pare_kv_levels {
    const float *key, *value;            /* [PARE_KV_LEVELS]; NULL: not calibrated */
    const uint16_t *key_scale, *key_low; /* F16 [kv_heads * head_dim] */
} pare_kv_levels;

#endif
