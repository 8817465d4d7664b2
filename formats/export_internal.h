/* formats/export_internal.h - what the targets of export_target.h share. */
#ifndef PARE_FORMATS_EXPORT_INTERNAL_H
#define PARE_FORMATS_EXPORT_INTERNAL_H

#include "formats/export_target.h"
#include "formats/ggml_blocks.h"

/* Plain codes of a linear: value = (code - zero) scale, or level[code] scale. */
typedef struct pare__export_codes {
    size_t n, k, groups, group; /* group: columns that share a scale, the last may have fewer */
    uint8_t *code;              /* [n, k] */
    uint8_t *zero;              /* [n, groups] */
    uint16_t *scale;            /* F16, [n, groups] */
} pare__export_codes;

/* PARE_ENOMEM. */
PARE_CHECKED pare_status pare__export_unpack(pare_arena *a, const pare_packed_linear *l,
                                             const pare_linear *w, pare__export_codes *out);

/* The exponent of 2, plus 127, of a scale of MXFP4 in F16. */
uint8_t pare__export_exponent(uint16_t scale);

/* export_factor.c: the factor of NVFP4 (solve/nvfp4.h) in a file: one for linears that engines run
 * as one matrix, because these take one for all. */
float pare__export_factor(const pare_export_model *m, const pare_export_linear *l);

/* The factor of a linear by itself: all of its scales are numbers of E4M3 times it. */
float pare__export_own_factor(const pare_linear *w);

/* The code of the scale of row r, group g under such a factor. A group of zeros has any. `linear`
 * and `target` for the message. PARE_ENUMERIC when E4M3 has no such number. */
PARE_CHECKED pare_status pare__export_scale_code(pare_ctx *cx, const char *target,
                                                 const char *linear, const pare__export_codes *c,
                                                 size_t r, size_t g, float factor, uint8_t *out);

/* Bits of a field of 32-bit words, little-endian from bit 0 of word 0 on; words are `stride` apart.
 * Fields of words that were zero. */
void pare__export_put_bits(uint32_t *words, size_t stride, size_t field, unsigned bits,
                           uint32_t value);

/* A linear whose codes lie on an integer grid and are all there is to it: refuses other encodings,
 * columns and weights kept apart, rotated inputs, biases that a pass made. `target` for messages.
 * PARE_ENOTSUP. */
PARE_CHECKED pare_status pare__export_check_grid(pare_ctx *cx, const pare_packed_linear *l,
                                                 const char *target);

/* Groups that engines have kernels for and that divide the row; `engine` asks for the latter. */
PARE_CHECKED pare_status pare__export_check_group(pare_ctx *cx, const pare_packed_linear *l,
                                                  const char *target, const char *engine);

/* Refuses inputs that are quantized in another way than engines with float activations would. */
PARE_CHECKED pare_status pare__export_check_inputs(pare_ctx *cx, const pare_packed_linear *l,
                                                   const char *target);

/* Whether engines run both as one matrix: q, k and v, or gate and up. */
bool pare__export_run_as_one(const pare_export_linear *a, const pare_export_linear *b);

/* Refuses neighbours of these, and of all that experts have, that `same` tells apart. */
PARE_CHECKED pare_status pare__export_check_fused(pare_ctx *cx, const pare_export_model *m,
                                                  const char *target,
                                                  bool (*same)(const pare_export_linear *a,
                                                               const pare_export_linear *b));

/* All packed linears with the same bits, group and symmetry; those that run fused packed, or none
 * of them. PARE_ENOTSUP. */
PARE_CHECKED pare_status pare__export_check_uniform(pare_ctx *cx, const pare_export_model *m,
                                                    const char *target);

/* The linears of blocks that stay floats, as GPTQModel leaves them out: nothing, or "dynamic" with
 * an expression for each. */
void pare__export_put_left_out(pare_json_writer *w, const pare_export_model *m);

extern const pare_export_target pare__export_compressed_tensors, pare__export_gptq,
    pare__export_gptq_v2, pare__export_awq, pare__export_exl3, pare__export_safetensors;

/* Those of GGUF, by the type of the blocks (export_gguf_config.c). */
enum {
    PARE__GGUF_Q4_0,
    PARE__GGUF_Q4_1,
    PARE__GGUF_Q5_0,
    PARE__GGUF_Q5_1,
    PARE__GGUF_Q8_0,
    PARE__GGUF_Q2_K,
    PARE__GGUF_Q3_K,
    PARE__GGUF_Q4_K,
    PARE__GGUF_Q5_K,
    PARE__GGUF_Q6_K,
    PARE__GGUF_Q2_K_S,
    PARE__GGUF_Q2_K_M,
    PARE__GGUF_Q3_K_S,
    PARE__GGUF_Q3_K_M,
    PARE__GGUF_Q3_K_L,
    PARE__GGUF_Q4_K_S,
    PARE__GGUF_Q4_K_M,
    PARE__GGUF_Q5_K_S,
    PARE__GGUF_Q5_K_M,
    PARE__GGUF_TQ1_0,
    PARE__GGUF_TQ2_0,
    PARE__GGUF_MXFP4,
    PARE__GGUF_F16,
    PARE__GGUF_TARGETS
};
extern const pare_export_target pare__export_gguf[PARE__GGUF_TARGETS];

/* pare_export_target.mix */
typedef enum pare__gguf_mix {
    PARE__MIX_NONE,
    PARE__MIX_Q2_K_S,
    PARE__MIX_Q2_K_M,
    PARE__MIX_Q3_K_S,
    PARE__MIX_Q3_K_M,
    PARE__MIX_Q3_K_L,
    PARE__MIX_Q4_K_S,
    PARE__MIX_Q4_K_M,
    PARE__MIX_Q5_K_S,
    PARE__MIX_Q5_K_M
} pare__gguf_mix;

/* The type that a linear gets in files of a target where 256 divides its rows; and the embedding or
 * the output of a mix. */
const char *pare__gguf_mixed(const pare_export_target *t, const pare_export_linear *l);
const char *pare__gguf_mixed_outer(const pare_export_target *t, const pare_config *c,
                                   bool embedding);

/* Codes minus zero points that a type of blocks holds, or codes beside zero points; NULL: floats,
 * or a type that nothing is written as. */
typedef struct pare__gguf_span {
    const char *type;
    int least, most;
    bool offset;
} pare__gguf_span;
const pare__gguf_span *pare__gguf_span_of(const pare_ggml_type *t);

/* The `store` of all targets of GGUF. */
pare_export_store pare__gguf_store(const pare_export_target *t, const pare_export_linear *l);

/* export_read.c */
pare_status pare__read_compressed_tensors(pare_ctx *cx, const pare_checkpoint *ck,
                                          const pare_export_linear *x, float *w);
pare_status pare__read_gptq(pare_ctx *cx, const pare_checkpoint *ck, const pare_export_linear *x,
                            float *w);
pare_status pare__read_gptq_v2(pare_ctx *cx, const pare_checkpoint *ck, const pare_export_linear *x,
                               float *w);
pare_status pare__read_awq(pare_ctx *cx, const pare_checkpoint *ck, const pare_export_linear *x,
                           float *w);
pare_status pare__read_exl3(pare_ctx *cx, const pare_checkpoint *ck, const pare_export_linear *x,
                            float *w);
pare_status pare__read_floats(pare_ctx *cx, const pare_checkpoint *ck, const pare_export_linear *x,
                              float *w);

#endif
