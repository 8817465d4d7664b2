/* distill/state8.h - a moment of AdamW in 8 bits, block by block.
 *
 *   scale = max |x| of a block of 256,    code = the nearest of 256 values to x / scale
 *   x is read as value(code) scale
 *
 * The values: for i = 0 .. 6 the midpoints of n equal cells of [0.1, 1] times 10^(i - 6), and 0
 * and 1. Signed (first moments) n = 2^i, with both signs; unsigned (second moments) n = 2^(i + 1).
 * Of two values that are as near the smaller is taken.
 *
 * Unlike the source, where a moment is far below its scale: a second moment above 0 takes no code
 * of 0, since m / eps would be a huge step; a first moment below scale / 100, where values are
 * further apart, takes the value towards 0, since b1 m would be rounded to m for ever.
 * Source: Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2021 (there with blocks of
 * 2048; bitsandbytes takes 256 now). */
#ifndef PARE_DISTILL_STATE8_H
#define PARE_DISTILL_STATE8_H

#include "runtime/context.h"

#define PARE_STATE8_BLOCK 256

typedef struct pare_state8_map {
    float value[256]; /* rising */
    float tree[256];  /* value i is taken up to number i of these; as tree_codes takes them */
} pare_state8_map;

typedef struct pare_state8_maps {
    pare_state8_map with_sign, without; /* of first and of second moments */
} pare_state8_maps;

/* Both maps; always the same floats. */
void pare_state8_maps_make(pare_state8_maps *out);

/* One moment of a leaf; code NULL: the moment is in floats. All 0 reads as 0. */
typedef struct pare_state8 {
    uint8_t *code; /* [count] */
    float *scale;  /* [ceil(count / 256)] */
} pare_state8;

size_t pare_state8_blocks(size_t count);

/* One block of count <= 256 entries. A code of 0 with a scale of 0 is 0. */
void pare_state8_read(const pare_state8_map *map, const uint8_t *code, float scale, size_t count,
                      float *x);
void pare_state8_write(const pare_kernels *kernels, const pare_state8_map *map, const float *x,
                       size_t count, uint8_t *code, float *scale);

#endif
