/* formats/ggml_blocks.h - the element types of GGUF files and the blocks most of them are made of.
 *
 * A row of weights is cut into blocks of consecutive inputs; each has its scales and codes. A block
 * passes through three forms:
 *
 *     bytes in a file  <- join / split ->  codes and scales  - values ->  floats
 *                                          codes and scales  <- quantize -  floats
 *
 * join and split are exact inverses, so codes that come from elsewhere (a group of 32 symmetric
 * codes of 4 bits is a block of Q4_0) are stored without loss. Pure functions, no state. */
#ifndef PARE_FORMATS_GGML_BLOCKS_H
#define PARE_FORMATS_GGML_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/tensor.h"

enum { PARE_GGML_BLOCK_MAX = 256 }; /* elements of the longest block */

/* One element type of the format. `dtype` is PARE_DTYPES for blocks; a type of one element per
 * block is plain, but for F64, which is decoded. */
typedef struct pare_ggml_type {
    uint32_t id;              /* in files */
    const char *name;         /* "Q4_K" */
    uint32_t elements, bytes; /* of a block; elements is a power of two, at most 256 */
    pare_dtype dtype;
    const struct pare_ggml_codec *codec; /* NULL: plain */
} pare_ggml_type;

/* NULL when there is none. */
const pare_ggml_type *pare_ggml_type_find(uint32_t id);
const pare_ggml_type *pare_ggml_type_named(const char *name);

/* Codes and scales of one block. Values, with D = f16(d), M = f16(m), s and o of the element's
 * sub-block (32 elements in Q4_K and Q5_K, 16 in the other K types and NVFP4), q its code, all in
 * F32, left to right:
 *
 *     Q4_0  (q - 8) D         0..15      Q4_K  (D s) q - (M o)    0..15; s, o 0..63
 *     Q4_1  q D + M           0..15      Q5_K  (D s) q - (M o)    0..31; s, o 0..63
 *     Q5_0  (q - 16) D        0..31      Q6_K  (D s) (q - 32)     0..63; s -128..127
 *     Q5_1  q D + M           0..31      Q2_K  (D s) q - (M o)    0..3; s, o 0..15
 *     Q8_0  q D               -128..127  Q3_K  (D s) (q - 4)      0..7; s -32..31
 *           as two's complement          TQ1_0, TQ2_0  (q - 1) D  0..2
 *     MXFP4 E2M1(q) 2^(d - 127)  0..15
 *     NVFP4 E2M1(q) E4M3(s)      0..15; s the bits of a float without sign; times the number that
 *           lies beside the tensor (pare_gguf_factor), which blocks do not know
 *
 * Fields that a type lacks are 0 after split and ignored by join. TQ2_0 can hold code 3 (2 D). */
typedef struct pare_ggml_block {
    uint16_t d, m;      /* F16 bits; MXFP4: an exponent, 0..255 */
    int8_t scale[16];   /* s */
    uint8_t offset[16]; /* o */
    uint8_t code[PARE_GGML_BLOCK_MAX];
} pare_ggml_block;

/* Whether blocks of a type have this form: those that are written. Others are only decoded. NVFP4
 * is written from codes alone: nothing quantizes to it. */
bool pare_ggml_splits(const pare_ggml_type *t);

/* All of these need pare_ggml_splits.
 *   src, dst  [t->bytes] bytes of a block, any alignment */
void pare_ggml_split(const pare_ggml_type *t, const uint8_t *src, pare_ggml_block *b);
void pare_ggml_join(const pare_ggml_type *t, const pare_ggml_block *b, uint8_t *dst);
void pare_ggml_values(const pare_ggml_type *t, const pare_ggml_block *b, float *dst);

/* Values of `blocks` consecutive blocks of a type with codec: those of split and values, and of
 * types that are only read (ggml_decode.c).
 *   dst  [blocks * t->elements] f32; written */
void pare_ggml_decode(const pare_ggml_type *t, const uint8_t *src, uint64_t blocks, float *dst);

/* Codes and scales of t->elements floats by the plain rule of the engine that made the format, each
 * step in F32:
 *
 *   Q4_0, Q5_0    D = max / -8, max / -16 with max the element of largest magnitude (the first)
 *   Q4_1, Q5_1    D = (max - min) / 15, / 31,  M = min
 *   Q8_0, TQ      D = max |x| / 127, max |x|
 *   Q4_K, Q5_K    per sub-block s, o of least error weighted by |x| + sqrt(mean x^2) among 21 (16)
 *                 starting steps, each followed by least squares; both then on a grid of 64 steps
 *   Q2_K          likewise, by the sum of |x| |error|, among 16 steps; a grid of 16 steps
 *   Q6_K          per sub-block s of least error weighted by x^2 among 19 steps
 *   Q3_K          likewise, by moving one code after the other, at most 5 times
 *   MXFP4         d = floor(log2 max |x|) - 2 + 127, 0 at least
 *
 * and codes nearest to x on that grid (with the step before its rounding to F16, except in the
 * K types). False when a scale is beyond F16 or x is not finite; *b is then undefined. */
PARE_CHECKED bool pare_ggml_quantize(const pare_ggml_type *t, const float *x, pare_ggml_block *b);

/* quantize and join of `blocks` consecutive blocks; false as above. */
PARE_CHECKED bool pare_ggml_encode(const pare_ggml_type *t, const float *x, uint64_t blocks,
                                   uint8_t *dst);

#endif
