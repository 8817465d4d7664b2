/* formats/packed_kv.h - the key/value cache in an artifact: how its codes are made, and tables. */
#ifndef PARE_FORMATS_PACKED_KV_H
#define PARE_FORMATS_PACKED_KV_H

#include "formats/json.h"
#include "runtime/arena.h"
#include "runtime/model.h"
#include "runtime/tensor.h"

/* The member "kv_cache" of an open object, absent for FLOAT; and the reverse, which refuses members
 * and numbers that the method does not have. PARE_EFORMAT. */
void pare_packed_kv_put(pare_json_writer *w, const pare_kv_format *f);
PARE_CHECKED pare_status pare_packed_kv_read(pare_ctx *cx, const pare_json *index,
                                             pare_kv_format *out);

/* What KVQuant calibrated for a block, as tensors; names lie in the arena. PARE_ENOMEM. */
typedef enum pare_kv_table {
    PARE_KV_KEY_LEVELS,   /* F16 [PARE_KV_LEVELS] */
    PARE_KV_KEY_SCALES,   /* F16 [kv_heads * head_dim] */
    PARE_KV_KEY_LOWS,     /* likewise */
    PARE_KV_VALUE_LEVELS, /* F16 [PARE_KV_LEVELS] */
    PARE_KV_TABLES
} pare_kv_table;
PARE_CHECKED pare_status pare_packed_kv_tensor(pare_arena *a, const pare_config *c, size_t block,
                                               pare_kv_table t, pare_tensor *out);

#endif
