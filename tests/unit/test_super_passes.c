/* Steps on the grids of super-blocks: what they hand over, and what they refuse. */
#include "compress/passes/pass.h"
#include "compress/passes/quantize.h"
#include "formats/ggml_blocks.h"
#include "formats/packed.h"
#include "kernels/half.h"
#include "runtime/linear.h"
#include "solve/super.h"
#include "tests/unit/quant_case.h"

enum { N = 40, K = 512, GRIDS = 2 };

static const pare_encoding grids[GRIDS] = {PARE_ENCODING_Q4_K, PARE_ENCODING_Q6_K};

typedef struct step {
    const pare_pass *pass;
    double value[PARE_PARAMS_MAX];
    pare_packed_linear linear;
    pare_codes codes;
    pare_linear_result result;
} step;

static void set(step *s, const char *param, double value)
{
    size_t i = 0;
    while (s->pass->params[i].name && strcmp(s->pass->params[i].name, param) != 0)
        i++;
    ck_assert_ptr_nonnull(s->pass->params[i].name);
    s->value[i] = value;
}

static step step_of(const char *pass, pare_encoding grid)
{
    step s = {.pass = pare_pass_find(pass), .linear = {.name = "w"}};
    ck_assert_ptr_nonnull(s.pass);
    for (size_t i = 0; s.pass->params[i].name; i++)
        s.value[i] = s.pass->params[i].fallback;
    set(&s, "grid", grid);
    return s;
}

/* The weights that the runtime decodes from what the step hands over. */
static float *run(step *s, const float *w, float *h, bool pruned)
{
    ck_assert_msg(pare_pass_store(&cx, s->pass, s->value, N, K, &s->linear) == PARE_OK, "%s",
                  cx.what);
    s->linear.activation = s->pass->activation(s->value);
    ck_assert_int_eq(pare_packed_linear_check(&cx, &s->linear), PARE_OK);
    pare_site_stats stats = {.k = K, .tokens = 3 * K, .h = h};
    void *state = NULL;
    if (s->pass->site)
        ck_assert_int_eq(s->pass->site(&cx, s->value, &stats, &arena, &state), PARE_OK);
    pare_pass_linear self = {.w = copy(w, N * K),
                             .n = N,
                             .k = K,
                             .pruned = pruned,
                             .stats = &stats,
                             .h = h,
                             .site_state = state,
                             .codes = &s->codes,
                             .result = &s->result};
    ck_assert_int_eq(pare_pass_run(&cx, s->pass, s->value, &self, &arena), PARE_OK);
    pare_packed_planes planes;
    pare_linear view;
    ck_assert_int_eq(pare_packed_pack(&cx, &arena, &s->linear, &s->codes, &planes), PARE_OK);
    ck_assert_int_eq(pare_packed_view(&cx, &arena, &s->linear, planes.plane, &view), PARE_OK);
    ck_assert_int_eq(pare_linear_check(&cx, &view), PARE_OK);
    float *const q = take(N * K, sizeof *q);
    pare_linear_to_f32(&cx, &view, q);
    return q;
}

START_TEST(rtn_has_the_values_of_the_engine)
{
    const float *const w = weights(N, K);
    step s = step_of("rtn", grids[_i]);
    const float *const q = run(&s, w, NULL, false);
    const pare_ggml_type *const t = pare_ggml_type_named(_i ? "Q6_K" : "Q4_K");
    ck_assert_uint_eq(s.linear.group, 256);
    ck_assert_uint_eq(s.linear.bits, _i ? 6 : 4);
    for (size_t i = 0; i < N * K; i += 256) {
        pare_ggml_block b;
        float want[256];
        ck_assert(pare_ggml_quantize(t, w + i, &b));
        pare_ggml_values(t, &b, want);
        ck_assert_mem_eq(q + i, want, sizeof want);
    }
}
END_TEST

START_TEST(gptq_comes_closer_and_says_what_it_hands_over)
{
    const float *const w = weights(N, K);
    float *const h = hessian(K);
    step plain = step_of("rtn", grids[_i]), swept = step_of("gptq", grids[_i]);
    const double rounded = pare_gptq_error(&cx, w, run(&plain, w, NULL, false), h, N, K);
    const float *const q = run(&swept, w, h, false);
    ck_assert_double_lt(pare_gptq_error(&cx, w, q, h, N, K), 0.7 * rounded);
    const pare_grid g = swept.pass->grid(swept.value);
    ck_assert_mem_eq(values(&g, &swept.codes), q, N * K * sizeof *q);
}
END_TEST

START_TEST(what_was_pruned_stays_zero_on_the_signed_grid)
{
    float *const w = weights(N, K), *const h = hessian(K);
    for (size_t i = 0; i < N * K; i++)
        w[i] = pare_random_u64(6, 1, i) % 3 ? w[i] : 0;
    static const char *const pass[] = {"rtn", "gptq"};
    for (size_t p = 0; p < 2; p++) {
        step s = step_of(pass[p], PARE_ENCODING_Q6_K);
        const float *const q = run(&s, w, h, true);
        for (size_t i = 0; i < N * K; i++)
            ck_assert(w[i] != 0 || q[i] == 0);
    }
}
END_TEST

START_TEST(what_cannot_be_stored_is_named)
{
    const struct {
        const char *param;
        double value;
        const char *what;
    } bad[] = {
        {"bits", 8, "leave out bits, group and symmetric"},
        {"group", 32, "leave out bits, group and symmetric"},
        {"symmetric", 0, "leave out bits, group and symmetric"},
        {"activations", 1, "activations: goes with the uniform grid only"},
    };
    static const char *const pass[] = {"rtn", "gptq"};
    for (size_t p = 0; p < 2; p++) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            step s = step_of(pass[p], grids[_i]);
            set(&s, bad[i].param, bad[i].value);
            ck_assert_int_eq(pare_pass_store(&cx, s.pass, s.value, N, K, &s.linear), PARE_EINVAL);
            ck_assert_msg(strstr(cx.what, bad[i].what), "%s", cx.what);
            pare_ctx_clear(&cx);
        }
        step s = step_of(pass[p], grids[_i]);
        ck_assert_int_eq(pare_pass_store(&cx, s.pass, s.value, N, 640, &s.linear), PARE_ESHAPE);
        ck_assert_ptr_nonnull(strstr(cx.what, "do not divide the 640 inputs of a row"));
        ck_assert_ptr_null(strstr(cx.what, "targets"));
        ck_assert_ptr_nonnull(strstr(cx.what, "take bits: 8, group: 32 (Q8_0"));
        pare_ctx_clear(&cx);
    }
}
END_TEST

START_TEST(hqq_has_finer_zero_points_on_super_blocks)
{
    const float *const w = weights(N, K);
    double error[2];
    for (size_t e = 0; e < 2; e++) {
        step s = step_of("hqq", e ? PARE_ENCODING_Q4_K : PARE_ENCODING_UNIFORM);
        set(&s, "group", 32);
        const float *const q = run(&s, w, NULL, false);
        const pare_grid g = s.pass->grid(s.value);
        ck_assert_mem_eq(values(&g, &s.codes), q, N * K * sizeof *q);
        error[e] = 0;
        for (size_t i = 0; i < N * K; i++)
            error[e] += fabs((double)w[i] - (double)q[i]);
    }
    ck_assert_double_lt(error[1], 0.99 * error[0]);
    step s = step_of("hqq", PARE_ENCODING_Q4_K);
    ck_assert_int_eq(pare_pass_store(&cx, s.pass, s.value, N, 640, &s.linear), PARE_ESHAPE);
    ck_assert_ptr_nonnull(strstr(cx.what, "do not divide the 640 inputs of a row"));
    pare_ctx_clear(&cx);
}
END_TEST

START_TEST(weights_that_rtn_cannot_store_are_named)
{
    float *const w = weights(N, K);
    w[3 * K + 300] = NAN;
    w[7 * K] = 1e12F;
    step s = step_of("rtn", grids[_i]);
    ck_assert_int_eq(pare_pass_store(&cx, s.pass, s.value, N, K, &s.linear), PARE_OK);
    pare_pass_linear self = {.w = w, .n = N, .k = K, .codes = &s.codes, .result = &s.result};
    ck_assert_int_eq(pare_pass_run(&cx, s.pass, s.value, &self, &arena), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 3, group 1: weight nan is not finite"));
    pare_ctx_clear(&cx);
    w[3 * K + 300] = 0;
    ck_assert_int_eq(pare_pass_run(&cx, s.pass, s.value, &self, &arena), PARE_ENUMERIC);
    ck_assert_msg(strstr(cx.what, "row 7, group 0: scale"), "%s", cx.what);
    ck_assert_ptr_nonnull(strstr(cx.what, "is above what the scales of this format hold"));
    pare_ctx_clear(&cx);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("super passes");
    TCase *const t = tcase_create("super passes");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_add_loop_test(t, rtn_has_the_values_of_the_engine, 0, GRIDS);
    tcase_add_loop_test(t, gptq_comes_closer_and_says_what_it_hands_over, 0, GRIDS);
    tcase_add_test(t, what_was_pruned_stays_zero_on_the_signed_grid);
    tcase_add_loop_test(t, what_cannot_be_stored_is_named, 0, GRIDS);
    tcase_add_test(t, hqq_has_finer_zero_points_on_super_blocks);
    tcase_add_loop_test(t, weights_that_rtn_cannot_store_are_named, 0, GRIDS);
    tcase_set_timeout(t, 120);
    suite_add_tcase(s, t);
    return unit_main(s);
}
