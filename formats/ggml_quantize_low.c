/* Plain quantizers of the K types of 2 and 3 bits, on sub-blocks of 16. All steps in F32 and in one
 * order, as in ggml_quantize.c. */
#include <math.h>

#include "formats/ggml_internal.h"
#include "kernels/half.h"

bool pare__ggml_quantize_q2_k(const float *x, pare_ggml_block *b)
{
    static const pare__ggml_search how = {16, 3, 15, 15, -0.5f, true};
    return pare__ggml_quantize_offset(x, &how, b);
}

/* Gives element j the code that is nearest at the step which the others want, if that lowers the
 * error: it falls as sum_xq^2 / sum_qq grows. */
static bool move_code(float x, float *q, float *sum_xq, float *sum_qq)
{
    const float v = x * x, xq = *sum_xq - v * x * *q, qq = *sum_qq - v * *q * *q;
    if (!(xq > 0))
        return false;
    const float other = pare__ggml_clamp(rintf(x * qq / xq), -4, 3);
    const float new_xq = xq + v * x * other, new_qq = qq + v * other * other;
    if (other == *q || !(new_qq > 0) || !(new_xq * new_xq * *sum_qq > *sum_xq * *sum_xq * new_qq))
        return false;
    *q = other;
    *sum_xq = new_xq;
    *sum_qq = new_qq;
    return true;
}

/* The step of 16 elements with least error weighted by x^2; negative where the extreme one is
 * positive. */
static float fit_step(const float *x, uint8_t *code)
{
    const float most = pare__ggml_extreme(x, 16);
    float q[16], sum_xq, sum_qq;
    if (fabsf(most) < 1e-15f)
        return 0;
    pare__ggml_sum_codes(x, -4 / most, 4, q, &sum_xq, &sum_qq);
    for (int sweep = 0, moved = 1; sweep < 5 && moved; sweep++) {
        moved = 0;
        for (size_t j = 0; j < 16; j++)
            moved |= move_code(x[j], &q[j], &sum_xq, &sum_qq);
    }
    for (size_t j = 0; j < 16; j++)
        code[j] = (uint8_t)(int)(q[j] + 4);
    return sum_qq > 0 ? sum_xq / sum_qq : 0;
}

bool pare__ggml_quantize_q3_k(const float *x, pare_ggml_block *b)
{
    float step[16];
    if (!pare__ggml_finite(x, 256))
        return false;
    for (size_t s = 0; s < 16; s++)
        step[s] = fit_step(x + 16 * s, b->code + 16 * s);
    if (!pare__ggml_finite(step, 16)) /* squares overflow long before the elements do */
        return false;
    const float most = pare__ggml_extreme(step, 16), id = -32 / most;
    if (most == 0) {
        for (size_t s = 0; s < 16; s++)
            b->scale[s] = -32;
        return true;
    }
    if (!pare__ggml_store_f16(1 / id, &b->d))
        return false;
    const float d = pare_f16_to_f32(b->d);
    for (size_t s = 0; s < 16; s++) {
        b->scale[s] = (int8_t)pare__ggml_clamp(rintf(id * step[s]), -32, 31);
        const float now = d * (float)b->scale[s];
        for (size_t j = 16 * s; now != 0 && j < 16 * s + 16; j++)
            b->code[j] = (uint8_t)(int)(pare__ggml_clamp(rintf(x[j] / now), -4, 3) + 4);
    }
    return true;
}
