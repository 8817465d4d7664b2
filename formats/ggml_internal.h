/* formats/ggml_internal.h - what a type with blocks can do. */
#ifndef PARE_FORMATS_GGML_INTERNAL_H
#define PARE_FORMATS_GGML_INTERNAL_H

#include "formats/ggml_blocks.h"

typedef struct pare_ggml_codec {
    void (*split)(const uint8_t *src, pare_ggml_block *b);
    void (*join)(const pare_ggml_block *b, uint8_t *dst);
    void (*values)(const pare_ggml_block *b, float *dst);
    bool (*quantize)(const float *x, pare_ggml_block *b);
} pare_ggml_codec;

bool pare__ggml_quantize_q4_0(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q4_1(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q5_0(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q5_1(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q8_0(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q4_k(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q5_k(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q6_k(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_ternary(const float *x, pare_ggml_block *b);

#endif
