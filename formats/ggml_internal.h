/* formats/ggml_internal.h - what a type with blocks can do. */
#ifndef PARE_FORMATS_GGML_INTERNAL_H
#define PARE_FORMATS_GGML_INTERNAL_H

#include "formats/ggml_blocks.h"

/* Either the first three, and quantize but for NVFP4, or decode alone for a type that is only read.
 */
typedef struct pare_ggml_codec {
    void (*split)(const uint8_t *src, pare_ggml_block *b);
    void (*join)(const pare_ggml_block *b, uint8_t *dst);
    void (*values)(const pare_ggml_block *b, float *dst);
    bool (*quantize)(const float *x, pare_ggml_block *b);
    /* point: numbers of the points of the grid, ascending */
    void (*decode)(const uint8_t *src, const uint16_t *point, float *dst);
    const uint64_t *grid; /* [grid_words] or NULL */
    uint32_t grid_words;
} pare_ggml_codec;

enum { PARE__GGML_POINTS = 2048 }; /* of the largest grid */

extern const pare_ggml_codec pare__ggml_f64, pare__ggml_iq2_xxs, pare__ggml_iq2_xs,
    pare__ggml_iq3_xxs, pare__ggml_iq1_s, pare__ggml_iq4_nl, pare__ggml_iq3_s, pare__ggml_iq2_s,
    pare__ggml_iq4_xs, pare__ggml_iq1_m;

/* The numbers whose bits are set, ascending: at most PARE__GGML_POINTS. */
void pare__ggml_points(const uint64_t *grid, size_t words, uint16_t *point);

bool pare__ggml_quantize_q4_0(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q4_1(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q5_0(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q5_1(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q8_0(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q2_k(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q3_k(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q4_k(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q5_k(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_q6_k(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_ternary(const float *x, pare_ggml_block *b);
bool pare__ggml_quantize_mxfp4(const float *x, pare_ggml_block *b);

/* Sub-blocks of n elements as multiples of a step less an offset. Trial steps are range / (most +
 * from + trial / 10) with trial = 0 .. trials; steps and offsets come onto grids of `steps` steps.
 */
typedef struct pare__ggml_search {
    size_t n;
    int most, steps, trials;
    float from;
    bool magnitudes; /* the error is that of |x| |diff|, else of (|x| + sqrt(mean x^2)) diff^2 */
} pare__ggml_search;
bool pare__ggml_quantize_offset(const float *x, const pare__ggml_search *how, pare_ggml_block *b);

bool pare__ggml_finite(const float *x, size_t n);
float pare__ggml_extreme(const float *x, size_t n); /* the first element of largest magnitude */
float pare__ggml_clamp(float code, float least, float most);

/* Codes q = -most..most - 1 of 16 elements at 1 / id, with the sums of v x q and v q q, v = x^2. */
void pare__ggml_sum_codes(const float *x, float id, float most, float q[16], float *sum_xq,
                          float *sum_qq);

/* False when h, the rounded form of a finite scale, is no number. */
bool pare__ggml_store_f16(float x, uint16_t *h);

#endif
