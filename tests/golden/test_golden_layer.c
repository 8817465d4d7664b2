/* One linear of stories260K (model.layers.2.mlp.down_proj) against the original programs: codes
 * entry for entry, and the reconstruction error trace(dW H dW^T) they reached. Scales stay F32
 * here, as in the originals; with F16 scales, which is what ships, the error may move by 0.5%. Not
 * compared: gptq4_row_sym, whose scale 2 max|w| / (2^b - 1) puts the largest weight on a rounding
 * tie and is not our rule; gptq4_g32_asym_act, whose groups are runs of sorted columns. */
#include <math.h>
#include <string.h>

#include "quant/gptq.h"
#include "quant/rtn.h"
#include "runtime/linalg.h"
#include "tests/unit/unit.h"

enum { N = 64, K = 172, GROUPS_MAX = 6 };

typedef struct golden_case {
    const char *name;
    pare_grid grid;
    bool act_order;
    double error; /* recon_tr_dHd of golden.json */
} golden_case;

static const golden_case golden[] = {
    {"gptq4_row_asym", {.bits = 4}, false, 63.11482587538266},
    {"gptq3_row_asym", {.bits = 3}, false, 292.4901547307665},
    {"gptq4_g32_asym", {.bits = 4, .group = 32}, false, 35.24884120273928},
    {"gptq4_row_asym_mse", {.bits = 4, .clip = PARE_CLIP_MSE}, false, 56.67477946455811},
    {"gptq4_row_asym_act", {.bits = 4}, true, 60.05560563590386},
};

static const double rtn_error = 81.75932905418838;

static pare_ctx cx;
static pare_arena arena;
static float w[N * K], h[K * K];

static void read_floats(const char *name, const char *plane, float *x, size_t count)
{
    char file[256];
    (void)snprintf(file, sizeof file, "reference/golden/%s%s.f4", name, plane);
    const char *const path = unit_shared(file);
    ck_assert_ptr_nonnull(path);
    FILE *const f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fread(x, sizeof *x, count, f), count);
    ck_assert_int_eq(fgetc(f), EOF);
    (void)fclose(f);
}

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    read_floats("W", "", w, N * K);
    read_floats("H", "", h, K * K);
}

static void teardown(void)
{
    pare_arena_release(&arena);
}

static pare_codes quantize(const golden_case *c, bool f16_scales, pare_factor *factor, float *q)
{
    pare_grid grid = c->grid;
    grid.f16_scales = f16_scales;
    const pare_factor_opts how = {.damp = 0.01F, .act_order = c->act_order};
    const pare_gptq_opts opts = {.block = 128};
    float *const lower = PARE_NEW(&arena, float, K *K), *const x = PARE_NEW(&arena, float, N *K);
    ck_assert(lower && x);
    memcpy(lower, h, sizeof h);
    memcpy(x, w, sizeof w);
    pare_codes out;
    ck_assert_int_eq(pare_codes_take(&arena, &grid, N, K, &out), PARE_OK);
    ck_assert_int_eq(pare_factorize(&cx, &arena, &how, lower, K, factor), PARE_OK);
    ck_assert_int_eq(pare_gptq_quantize(&cx, &arena, &opts, &grid, factor, x, &out, NULL), PARE_OK);
    for (size_t i = 0; i < N * K; i++) {
        const size_t g = i / K * out.groups + (grid.group ? i % K / grid.group : 0);
        q[i] = pare_grid_value(out.codes[i], out.scales[g], out.zeros[g]);
    }
    return out;
}

START_TEST(gptq_equals_the_original_code_for_code)
{
    const golden_case *const c = &golden[_i];
    static float q[N * K], want[N * K], scale[N * GROUPS_MAX], zero[N * GROUPS_MAX];
    pare_factor factor;
    const pare_codes out = quantize(c, false, &factor, q);
    read_floats(c->name, "_Q", want, N * K);
    read_floats(c->name, "_scale", scale, N * out.groups);
    read_floats(c->name, "_zero", zero, N * out.groups);
    size_t different = 0;
    for (size_t i = 0; i < N * K; i++) {
        const size_t g = i / K * out.groups + (c->grid.group ? i % K / c->grid.group : 0);
        different += (float)out.codes[i] != rintf(want[i] / scale[g]) + zero[g];
    }
    ck_assert_uint_eq(different, 0);
    for (size_t g = 0; g < N * out.groups; g++) {
        ck_assert_float_eq_tol(out.scales[g], scale[g], 1e-5F * scale[g]);
        ck_assert_float_eq((float)out.zeros[g], zero[g]);
    }
    const double error = pare_gptq_error(&cx, w, q, h, N, K);
    ck_assert_double_le(fabs(error - c->error), 1e-5 * c->error);
}
END_TEST

START_TEST(f16_scales_stay_within_half_a_percent)
{
    const golden_case *const c = &golden[_i];
    static float q[N * K];
    pare_factor factor;
    (void)quantize(c, true, &factor, q);
    const double error = pare_gptq_error(&cx, w, q, h, N, K);
    ck_assert_double_le(fabs(error - c->error), 5e-3 * c->error);
}
END_TEST

START_TEST(factor_equals_the_cholesky_factor_of_the_inverse)
{
    static float q[N * K], u[K * K];
    pare_factor factor;
    (void)quantize(&golden[0], false, &factor, q);
    read_floats("Hinv_chol_upper", "", u, K * K);
    float worst = 0;
    for (size_t i = 0; i < K * K; i++)
        worst = fmaxf(worst, fabsf(factor.u[i] - u[i]));
    ck_assert_float_le(worst, 1e-5F * u[0]);
}
END_TEST

START_TEST(rtn_equals_the_reference)
{
    static float q[N * K], want[N * K];
    const pare_grid grid = {.bits = 4};
    pare_codes out;
    ck_assert_int_eq(pare_codes_take(&arena, &grid, N, K, &out), PARE_OK);
    ck_assert_int_eq(pare_rtn_quantize(&cx, &grid, w, NULL, N, K, &out), PARE_OK);
    read_floats("rtn4_row_asym", "_Q", want, N * K);
    float worst = 0;
    for (size_t i = 0; i < N * K; i++) {
        q[i] = pare_grid_value(out.codes[i], out.scales[i / K], out.zeros[i / K]);
        worst = fmaxf(worst, fabsf(q[i] - want[i]));
    }
    ck_assert_float_le(worst, 1e-6F);
    const double error = pare_gptq_error(&cx, w, q, h, N, K);
    ck_assert_double_le(fabs(error - rtn_error), 1e-5 * rtn_error);
}
END_TEST

int main(void)
{
    if (!unit_shared("reference/golden/W.f4"))
        return 77;
    Suite *const s = suite_create("golden layer");
    TCase *const t = tcase_create("golden layer");
    const int cases = (int)(sizeof golden / sizeof *golden);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, gptq_equals_the_original_code_for_code, 0, cases);
    tcase_add_loop_test(t, f16_scales_stay_within_half_a_percent, 0, cases);
    tcase_add_test(t, factor_equals_the_cholesky_factor_of_the_inverse);
    tcase_add_test(t, rtn_equals_the_reference);
    suite_add_tcase(s, t);
    return unit_main(s);
}
