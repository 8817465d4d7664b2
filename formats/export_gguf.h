/* formats/export_gguf.h - an artifact as a GGUF file: which tensors it gets, of which types, and
 * what is in them.
 *
 * A packed linear becomes blocks of the type that was asked for. Where its grid is one of that
 * type, its codes and scales go over as they are:
 *
 *     Q4_0, Q8_0         integers of that many bits, one scale for whole blocks of 32
 *     Q4_1               4 bits with the zero point as minimum -zero scale, exact where F16 has it
 *     Q6_K, Q4_K         6 bits symmetric, 4 bits: one scale for whole blocks of 256
 *     Q5_0, Q5_1         5 bits likewise
 *     Q3_K, Q5_K, Q2_K   3 bits symmetric, 5 and 2 bits, as Q6_K and Q4_K
 *     TQ1_0, TQ2_0       ternary, one scale for whole blocks of 256
 *     Q4_K, Q6_K         super-blocks (solve/super.h) of that type, whatever else is asked for
 *     MXFP4, NVFP4       these codes, likewise; NVFP4 where readers multiply the product with the
 *                        factor of the matrix, which is a tensor X.scale beside X.weight
 *
 * Any other is quantized again by the plain rule of the type (ggml_blocks.h). Rows that are no
 * whole number of blocks fall back: Q4_K to Q5_0, Q5_K to Q5_1, Q6_K to Q8_0, Q2_K, Q3_K and TQ to
 * Q4_0, where 32 does not divide them to F16; codes that Q8_0 holds and these do not become Q8_0.
 * What the artifact holds in floats keeps its type (F16 when that is asked for); vectors, routers
 * and learned positions are F32. A mix of types quantizes the linears, the embedding and the head
 * that are floats, too. Experts lie in one tensor of rank 3. Linears that lie in one tensor of the
 * file go there each in its own way; where only some of them are packed, all become F16, but in a
 * mix. */
#ifndef PARE_FORMATS_EXPORT_GGUF_H
#define PARE_FORMATS_EXPORT_GGUF_H

#include <stddef.h>

#include "formats/export_target.h"
#include "formats/gguf_write.h"

typedef enum pare_gguf_way {
    PARE_GGUF_BYTES,  /* a tensor of the artifact, as it is */
    PARE_GGUF_FLOATS, /* as floats of the type */
    PARE_GGUF_CODES,  /* the codes, exact */
    PARE_GGUF_FACTOR, /* what these codes are multiplied with, of NVFP4 */
    PARE_GGUF_NEAR,   /* the codes, minimum rounded to F16 */
    PARE_GGUF_AGAIN   /* quantized again */
} pare_gguf_way;

/* What rows of a tensor come from. */
typedef struct pare_gguf_piece {
    const pare_export_linear *linear; /* its weights; or NULL and: */
    const pare_tensor *tensor;        /* or NULL and: */
    const float *values;
    uint64_t elements, bytes; /* bytes: in the file */
    pare_gguf_way way;
} pare_gguf_piece;

enum { PARE_GGUF_OTHER = -1 }; /* in place of a linear */

/* A tensor of the file. */
typedef struct pare_gguf_item {
    const char *name;
    const pare_ggml_type *type;
    uint32_t rank;
    uint64_t shape[3];            /* slowest first */
    const pare_gguf_piece *piece; /* [pieces] rows of one behind those of the other */
    size_t pieces;
    ptrdiff_t linear; /* of the model, whose weights these are; or PARE_GGUF_OTHER */
    bool apart;       /* pieces are linears of their own, from `linear` on: experts */
    bool plus_one;    /* what norms are multiplied with, of which the artifact has one less */
    size_t heads;     /* channels that turn together come to lie side by side; 0: rows stay */
    size_t order;
} pare_gguf_item;

/* Everything of a model, in the order of the file. No weight is read.
 *   tensor  [tensors] of the artifact, sorted by name
 *   plane   [tensors] parts of packed linears, caches, or of linears that are joined
 * PARE_ENOTSUP for a family, an option or a tensor that the format has no place for. */
PARE_CHECKED pare_status pare_gguf_items(pare_ctx *cx, pare_arena *a, const pare_export_target *t,
                                         const pare_export_model *m, const pare_tensor *tensor,
                                         size_t tensors, const bool *plane, pare_gguf_item **out,
                                         size_t *count);

/* Metadata: of family, sizes and positions; of the tokenizer, where the model has one.
 * PARE_ENOTSUP for what the format has no word for. */
PARE_CHECKED pare_status pare_gguf_describe(pare_ctx *cx, const pare_config *c,
                                            const pare_export_target *t, const char *program,
                                            pare_gguf_writer *w);
PARE_CHECKED pare_status pare_gguf_describe_tokenizer(pare_ctx *cx, pare_arena *scratch,
                                                      const pare_checkpoint *ck,
                                                      const pare_config *c, pare_gguf_writer *w,
                                                      bool *has);

/* False when the engine does not keep to the window of attention that the file tells it. */
bool pare_gguf_keeps_window(const pare_config *c);

/* Once the file is laid out: a set of texts has the ids that the model's tokenizer gives it when
 * the tokenizer comes from the head. PARE_ENOTSUP with the first text that has not; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_gguf_check_texts(pare_ctx *cx, const pare_checkpoint *ck,
                                               const pare_gguf_writer *w);

/* What a file that begins like `w`, which is laid out, loses of the configuration: PARE_ENOTSUP
 * naming it. */
PARE_CHECKED pare_status pare_gguf_check_words(pare_ctx *cx, pare_arena *scratch,
                                               const pare_config *c, const pare_gguf_writer *w,
                                               const pare_gguf_item *item, size_t items);

/* The same of a file that was read. */
PARE_CHECKED pare_status pare_gguf_check_config(pare_ctx *cx, const pare_config *was,
                                                const pare_config *is);

/* The bytes of a piece; PARE_ENUMERIC where its type does not reach a value, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_gguf_encode(pare_ctx *cx, pare_arena *scratch,
                                          const pare_gguf_item *t, size_t piece, void *out);

/* Its values as the artifact has them, f32 [elements], in the order of the file. */
PARE_CHECKED pare_status pare_gguf_wanted(pare_ctx *cx, pare_arena *scratch,
                                          const pare_gguf_item *t, size_t piece, float *out);

#endif
