/* Moments of AdamW in 8 bits. */
#include <math.h>
#include <string.h>

#include "distill/adamw.h"
#include "tests/unit/hashed.h"
#include "tests/unit/tiny.h"

/* Values as bitsandbytes has them. */
START_TEST(maps_are_those_of_the_paper)
{
    pare_state8_maps maps;
    pare_state8_maps_make(&maps);
    const float *const s = maps.with_sign.value, *const u = maps.without.value;
    ck_assert_float_eq(s[0], -0.99296875f);
    ck_assert_float_eq(s[126], -5.5e-7f);
    ck_assert_float_eq(s[127], 0);
    ck_assert_float_eq(s[128], 5.5e-7f);
    ck_assert_float_eq(s[129], 3.25e-6f);
    ck_assert_float_eq(s[254], 0.99296875f);
    ck_assert_float_eq(s[255], 1);
    ck_assert_float_eq(u[0], 0);
    ck_assert_float_eq(u[1], 3.25e-7f);
    ck_assert_float_eq(u[2], 7.75e-7f);
    ck_assert_float_eq(u[254], (float)(1 - 0.45 / 128));
    ck_assert_float_eq(u[255], 1);
    for (size_t i = 0; i < 255; i++)
        ck_assert(s[i] < s[i + 1] && u[i] < u[i + 1]);
}
END_TEST

/* Against all 256 values, and at both ends. */
START_TEST(codes_are_those_of_the_nearest_value)
{
    enum { COUNT = 256 };
    pare_kernels kernels;
    pare_state8_maps maps;
    pare_kernels_init(&kernels, pare_cpu_detect());
    pare_state8_maps_make(&maps);
    for (int with_sign = 0; with_sign < 2; with_sign++) {
        const pare_state8_map *const map = with_sign ? &maps.with_sign : &maps.without;
        float x[COUNT], back[COUNT], scale, most = 0;
        uint8_t code[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            x[i] = hashed(i) * powf(10, -(float)(i % 9));
            x[i] = with_sign ? x[i] : fabsf(x[i]);
            most = fmaxf(most, fabsf(x[i]));
        }
        x[3] = 0;
        pare_state8_write(&kernels, map, x, COUNT, code, &scale);
        pare_state8_read(map, code, scale, COUNT, back);
        ck_assert_float_eq(scale, most);
        ck_assert_float_eq(back[3], 0);
        for (size_t i = 0; i < COUNT; i++) {
            const double is = (double)x[i] / (double)most, took = (double)map->value[code[i]];
            double least = INFINITY;
            for (size_t v = 0; v < 256; v++)
                least = fmin(least, fabs((double)map->value[v] - is));
            if (with_sign && fabs(is) < 9.7e-3) /* towards 0 */
                ck_assert(fabs(took) <= fabs(is) * (1 + 1e-6) && took * is >= 0);
            else if (!with_sign && is > 0)
                ck_assert(took > 0 && fabs(took - is) <= fmax(least + 1e-7, 3.25e-7));
            else
                ck_assert_double_le(fabs(took - is), least + 1e-7);
        }
        memset(x, 0, sizeof x);
        pare_state8_write(&kernels, map, x, COUNT, code, &scale);
        pare_state8_read(map, code, scale, COUNT, back);
        for (size_t i = 0; i < COUNT; i++)
            ck_assert(back[i] == 0);
    }
}
END_TEST

/* A leaf of three blocks and a part of one: near the steps in floats, the same for any number of
 * threads. */
START_TEST(steps_are_near_those_in_floats)
{
    enum { COUNT = 3 * PARE_STATE8_BLOCK + 77, STEPS = 20, RUNS = 3 };
    static const size_t threads[RUNS] = {1, 1, 5};
    static float value[RUNS][COUNT], gradient[RUNS][COUNT], m[COUNT], v[COUNT], scale[RUNS][8];
    static uint8_t code[RUNS][2 * COUNT];
    const pare_adamw o = {.beta1 = .9, .beta2 = .95, .eps = 1e-8, .decay = .1};
    for (size_t r = 0; r < RUNS; r++) {
        tiny_home h;
        tiny_begin(&h, threads[r]);
        pare_trained leaf = {.value = value[r], .gradient = gradient[r], .count = COUNT};
        if (r == 0) {
            leaf.m = m;
            leaf.v = v;
        } else {
            leaf.m8 = (pare_state8){code[r], scale[r]};
            leaf.v8 = (pare_state8){code[r] + COUNT, scale[r] + 4};
        }
        for (size_t i = 0; i < COUNT; i++)
            value[r][i] = hashed(i);
        for (size_t t = 1; t <= STEPS; t++) {
            for (size_t i = 0; i < COUNT; i++)
                gradient[r][i] = hashed(7 * i + 5) + hashed(i + t * COUNT) / 4;
            pare_adamw_step(&h.cx, &o, &leaf, 1, t, 1e-2, 1);
        }
        tiny_end(&h);
    }
    double moved = 0, apart = 0;
    for (size_t i = 0; i < COUNT; i++) {
        moved += fabs((double)value[0][i] - (double)hashed(i));
        apart += fabs((double)value[0][i] - (double)value[1][i]);
    }
    ck_assert_msg(apart > 0 && apart < 0.03 * moved, "apart %g of %g", apart, moved);
    ck_assert_mem_eq(value[1], value[2], sizeof value[1]);
    ck_assert_mem_eq(code[1], code[2], sizeof code[1]);
}
END_TEST

/* One weight has small gradients that stop, beside one whose gradients go on: it comes to rest. */
START_TEST(a_weight_without_gradients_comes_to_rest)
{
    enum { COUNT = PARE_STATE8_BLOCK, STEPS = 400, GOES = 40 };
    static const float small[] = {3e-3F, 3e-4F, 3e-5F, 3e-6F, 3e-8F};
    const pare_adamw o = {.beta1 = .9, .beta2 = .95, .eps = 1e-8};
    float value[COUNT] = {0}, gradient[COUNT] = {0}, scale[2] = {0}, before = 0;
    uint8_t code[2][COUNT] = {0};
    pare_trained leaf = {.value = value, .gradient = gradient, .count = COUNT};
    leaf.m8 = (pare_state8){code[0], scale};
    leaf.v8 = (pare_state8){code[1], scale + 1};
    tiny_home h;
    tiny_begin(&h, 1);
    for (size_t t = 1; t <= STEPS; t++) {
        gradient[0] = 1e-2F;
        gradient[1] = t <= GOES ? small[_i] : 0;
        pare_adamw_step(&h.cx, &o, &leaf, 1, t, 1e-3, 1);
        ck_assert_msg(fabsf(value[1] - before) < 2e-3F, "step %zu moves by %g", t,
                      (double)(value[1] - before));
        ck_assert(t < STEPS - 100 || value[1] == before);
        before = value[1];
    }
    tiny_end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("state8");
    TCase *const t = tcase_create("state8");
    tcase_add_test(t, maps_are_those_of_the_paper);
    tcase_add_test(t, codes_are_those_of_the_nearest_value);
    tcase_add_test(t, steps_are_near_those_in_floats);
    tcase_add_loop_test(t, a_weight_without_gradients_comes_to_rest, 0, 5);
    suite_add_tcase(s, t);
    return unit_main(s);
}
