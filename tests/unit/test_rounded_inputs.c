/* Inputs that become floats of 8 or 4 bits in front of products. */
#include "kernels/half.h"
#include "kernels/levels.h"
#include "tests/unit/tiny.h"

/* The nearest of all levels, an even code on a tie. */
static float nearest_fp8(float t)
{
    unsigned best = 0;
    for (unsigned c = 0; c < 0x7f; c++) {
        const double is = fabs(fabs((double)t) - (double)pare_levels_e4m3[c]),
                     was = fabs(fabs((double)t) - (double)pare_levels_e4m3[best]);
        best = is < was || (is == was && c % 2 == 0) ? c : best;
    }
    return copysignf(pare_levels_e4m3[best], t);
}

/* Products of inputs that were rounded before, to the bit; --exact leaves them as they are. */
START_TEST(inputs_become_8_bit_floats_with_a_scale_per_token)
{
    static const size_t tokens[] = {1, 3, 66};
    tiny_home h;
    tiny_begin(&h, 3);
    const tiny_kind kind = {
        .dtype = PARE_F16, .bits = 8, .encoding = PARE_ENCODING_FP8, TINY_FLOAT};
    enum { N = 40, K = 96, LDX = K + 5 };
    pare_linear w = tiny_packed(&h.arena, kind, 3, N, K);
    for (size_t i = 0; i < 3; i++) {
        const size_t m = tokens[i];
        float *const x = tiny_rows(&h.arena, 5, m * LDX), *const q = tiny_take(&h.arena, m * K, 4);
        float *const y = tiny_take(&h.arena, m * N, 4), *const want = tiny_take(&h.arena, m * N, 4);
        for (size_t t = 0; t < m; t++) {
            float most = 0;
            for (size_t j = 0; j < K; j++) {
                x[t * LDX + j] *= j % 7 ? 1e-3F : 1; /* some below the normal numbers */
                most = fmaxf(most, fabsf(x[t * LDX + j]));
            }
            for (size_t j = 0; j < K; j++)
                q[t * K + j] = nearest_fp8(x[t * LDX + j] / (most / 448)) * (most / 448);
        }
        if (m > 1)
            memset(x + LDX, 0, K * sizeof *x), memset(q + K, 0, K * sizeof *q);
        w.activation = (pare_activation){.mode = PARE_ACTIVATION_FLOAT};
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, q, K, m, want, N), PARE_OK);
        w.activation.bits = 8;
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, LDX, m, y, N), PARE_OK);
        ck_assert_mem_eq(y, want, m * N * sizeof *y);
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, true, x, LDX, m, want, N), PARE_OK);
        ck_assert_mem_ne(y, want, m * N * sizeof *y);
    }
    static const uint32_t bad[] = {0x7F800001u, 0x7FC00000u, 0x7FFF0000u, 0xFFFFFFFFu, 0x7F800000u};
    float x[K] = {1}, y[N];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) { /* any NaN, and infinity */
        x[7] = pare_f32_from_bits(bad[i]);
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, K, 1, y, N), PARE_OK);
        for (size_t r = 0; r < N; r++)
            ck_assert(!isfinite(y[r]));
    }
    w.activation.bits = 4;
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, K, 1, y, N), PARE_ENOTSUP);
    pare_ctx_clear(&h.cx);
    tiny_end(&h);
}
END_TEST

/* What compressed-tensors 0.20.0 makes of the inputs of MXFP4 and NVFP4 (forward_quantize with the
 * schemes of these names; input_global_scale of NVFP4 2150.4). */
static const float fp4_inputs[2][64] = {
    {-0.75F, -0.25F,  0.375F, -0.5F,  0,      1,    -0.5F, 0.125F, 0.75F, -0.25F, 0.25F,
     -0.75F, -0.125F, 0.375F, -0.5F,  0,      0,    0,     0,      0,     0,      0,
     0,      0,       0,      0,      0,      0,    0,     0,      0,     0,      0,
     0,      0,       0,      0,      0,      0,    0,     0,      0,     0,      0,
     0,      0,       0,      0,      0.25F,  1.5F, -0.5F, 0.5F,   -1.5F, -0.25F, 1,
     -1,     0.125F,  1.5F,   -0.75F, 0.375F, 1.5F, -0.5F, 0.75F,  -1.5F},
    {-0.892857194F,
     -0.223214298F,
     0.446428597F,
     -0.595238149F,
     -0.0744047686F,
     0.892857194F,
     -0.446428597F,
     0.0744047686F,
     0.595238149F,
     -0.297619075F,
     0.297619075F,
     -0.595238149F,
     -0.148809537F,
     0.446428597F,
     -0.595238149F,
     0,
     0.0334821455F,
     -0.0251116082F,
     0.00837053638F,
     0.0502232164F,
     0,
     0.0167410728F,
     -0.0502232164F,
     -0.00837053638F,
     0.0251116082F,
     -0.0334821455F,
     0.00418526819F,
     0.0334821455F,
     -0.0251116082F,
     0.0125558041F,
     0.0502232164F,
     -0.0125558041F,
     0.000697544659F,
     -0.00139508932F,
     -0.000116257448F,
     0.000930059585F,
     -0.000930059585F,
     0.000232514896F,
     0.00139508932F,
     -0.000697544659F,
     0.000465029792F,
     -0.00139508932F,
     -0.00034877233F,
     0.000697544659F,
     -0.000930059585F,
     0,
     0.000930059585F,
     -0.000930059585F,
     0.3125F,
     1.25F,
     -0.625F,
     0.625F,
     -1.25F,
     -0.208333343F,
     0.833333373F,
     -1.25F,
     0.104166672F,
     1.25F,
     -0.833333373F,
     0.416666687F,
     1.25F,
     -0.416666687F,
     0.625F,
     -1.25F},
};

START_TEST(inputs_become_4_bit_floats_as_in_compressed_tensors)
{
    enum { M = 66, N = 40, K = 64, LDX = K + 5 };
    static const float part[] = {1, 0x1p-4F, 0x1p-9F, 2.0625F};
    static const uint32_t bad[] = {0x7F800001u, 0x7FFF0000u, 0xFFFFFFFFu, 0x7F800000u};
    tiny_home h;
    tiny_begin(&h, 3);
    const tiny_kind kind = {.dtype = PARE_F16,
                            .bits = 4,
                            .group = _i ? 16 : 32,
                            .encoding = _i ? PARE_ENCODING_NVFP4 : PARE_ENCODING_MXFP4,
                            TINY_FLOAT};
    pare_linear w = tiny_packed(&h.arena, kind, 3, N, K);
    float *const x = tiny_take(&h.arena, M * LDX, 4), *const q = tiny_take(&h.arena, M * K, 4);
    float *const y = tiny_take(&h.arena, M * N, 4), *const want = tiny_take(&h.arena, M * N, 4);
    for (size_t t = 0; t < M; t++)
        for (int j = 0; j < K; j++) {
            const float is = (float)(j * 37 % 101 - 50) / 64 * part[j / 16];
            x[t * LDX + (size_t)j] = t == 1 || j == 20 ? 0 : j == 5 ? 0.875F : is;
            q[t * K + (size_t)j] = t == 1 ? 0 : fp4_inputs[_i][j];
        }
    for (size_t m = 1; m <= M; m += M - 1) {
        w.activation = (pare_activation){.mode = PARE_ACTIVATION_FLOAT};
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, q, K, m, want, N), PARE_OK);
        w.activation = (pare_activation){PARE_ACTIVATION_FLOAT, 4, 2150.4F};
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, LDX, m, y, N), PARE_OK);
        ck_assert_mem_eq(y, want, m * N * sizeof *y);
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, true, x, LDX, m, want, N), PARE_OK);
        ck_assert_mem_ne(y, want, m * N * sizeof *y);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) { /* any NaN, and infinity */
        x[7] = pare_f32_from_bits(bad[i]);
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, K, 1, y, N), PARE_OK);
        for (size_t r = 0; r < N; r++)
            ck_assert(!isfinite(y[r]));
    }
    w.activation.scale = 0;
    x[7] = 0;
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, K, 1, y, N),
                     _i ? PARE_ENOTSUP : PARE_OK);
    pare_ctx_clear(&h.cx);
    tiny_end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("rounded_inputs");
    TCase *const c = tcase_create("rounded_inputs");
    tcase_add_test(c, inputs_become_8_bit_floats_with_a_scale_per_token);
    tcase_add_loop_test(c, inputs_become_4_bit_floats_as_in_compressed_tensors, 0, 2);
    suite_add_tcase(s, c);
    return unit_main(s);
}
