/* The operations between the linears against the C library, in double. */
#include <math.h>

#include "runtime/ops.h"
#include "tests/unit/unit.h"

enum { POINTS = 4001 };

/* From -20 to 20 in steps that are no round numbers, and 0. */
static float point(size_t i)
{
    return ((float)i - (POINTS / 2)) * 0.0100003f;
}

static double plain_activation(pare_act act, double x)
{
    switch (act) {
    case PARE_ACT_SILU: return x / (1 + exp(-x));
    case PARE_ACT_GELU: return x * 0.5 * erfc(-x / sqrt(2));
    case PARE_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case PARE_ACT_RELU: return fmax(x, 0);
    case PARE_ACT_RELU2: return fmax(x, 0) * fmax(x, 0);
    case PARE_ACT_CLAMPED: /* has a test of its own */
    case PARE_ACTS: break;
    }
    return NAN;
}

START_TEST(activations_are_those_of_the_library)
{
    const pare_act act = (pare_act)_i;
    for (size_t i = 0; i < POINTS; i++) {
        float alone = point(i), gated = point(i);
        const float up = -1.5f;
        const double wanted = plain_activation(act, (double)point(i));
        /* The library's own 1 + tanh cancels on the far left. */
        const double most = fabs(wanted) * 1.3e-7 + 1e-14;
        pare_activate(act, &alone, NULL, 1);
        pare_activate(act, &gated, &up, 1);
        ck_assert_double_le(fabs((double)alone - wanted), most);
        ck_assert_double_le(fabs((double)gated + 1.5 * wanted), 1.5 * most);
    }
    float odd = NAN;
    pare_activate(act, &odd, NULL, 1);
    ck_assert(isnan(odd));
}
END_TEST

static double clamped(double gate, double up)
{
    const double g = fmin(gate, 7), u = fmax(-7, fmin(up, 7));
    return (u + 1) * g / (1 + exp(-1.702 * g));
}

/* On both sides of every clamp. */
START_TEST(the_clamped_swiglu_is_its_formula_and_so_is_its_gradient)
{
    static const float ups[] = {-9, -7.5f, -6.5f, -1, 0.3f, 6.9f, 7.1f, 20};
    pare_kernels kernels = {0};
    const double step = 1e-5;
    for (size_t i = 0; i < POINTS; i++)
        for (size_t j = 0; j < sizeof ups / sizeof *ups; j++) {
            const double gate = (double)point(i), up = (double)ups[j];
            float x = point(i), d = 2, dgate = 1, dup = -1;
            const double wanted = clamped(gate, up);
            pare_activate(PARE_ACT_CLAMPED, &x, &ups[j], 1);
            ck_assert_double_le(fabs((double)x - wanted), fabs(wanted) * 1.3e-7 + 1e-14);
            if (fabs(gate - 7) < 2 * step)
                continue;
            pare_activate_backward(&kernels, PARE_ACT_CLAMPED, &dgate, &dup, &d, &(float){point(i)},
                                   &ups[j], 1);
            const double sg = (clamped(gate + step, up) - clamped(gate - step, up)) / step;
            const double su = (clamped(gate, up + step) - clamped(gate, up - step)) / step;
            ck_assert_double_le(fabs((double)dgate - 1 - sg), 1e-5 + 1e-5 * fabs(sg));
            ck_assert_double_le(fabs((double)dup + 1 - su), 1e-5 + 1e-5 * fabs(su));
        }
}
END_TEST

START_TEST(a_layer_norm_has_mean_0_and_variance_1_times_its_weights)
{
    enum { N = 37 };
    float x[N], w[N], y[N];
    double mean = 0, square = 0;
    for (size_t i = 0; i < N; i++) {
        x[i] = 100 + point(61 * i + 7);
        w[i] = 1 + point(i + 1900);
        mean += (double)x[i] / N;
    }
    for (size_t i = 0; i < N; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean) / N;
    pare_layer_norm(y, x, w, N, 1e-5);
    for (size_t i = 0; i < N; i++) {
        const double wanted = ((double)x[i] - mean) / sqrt(square + 1e-5) * (double)w[i];
        ck_assert_double_le(fabs((double)y[i] - wanted), 1e-5);
    }
}
END_TEST

START_TEST(a_soft_cap_is_a_scaled_tanh)
{
    for (size_t i = 0; i < POINTS; i++) {
        float x = point(i);
        const double wanted = 2.5 * tanh((double)x * 0.7 / 2.5);
        pare_soft_cap(&x, 1, 0.7, 2.5);
        ck_assert_double_le(fabs((double)x - wanted), 1.3e-7 * fabs(wanted) + 1e-12);
    }
}
END_TEST

/* Pairs lie half a head apart or side by side; what turns behind both stays as it is. */
START_TEST(pairs_turn_as_complex_numbers_and_back)
{
    enum { HALF = 3, WIDTH = 8 };
    for (int beside = 0; beside < 2; beside++) {
        float x[WIDTH], was[WIDTH], cosine[HALF], sine[HALF];
        for (size_t i = 0; i < WIDTH; i++)
            was[i] = x[i] = (float)(i + 1);
        for (size_t i = 0; i < HALF; i++) {
            cosine[i] = (float)cos(0.5 + (double)i);
            sine[i] = (float)sin(0.5 + (double)i);
        }
        pare_rope_apply(x, cosine, sine, HALF, beside);
        for (size_t i = 0; i < HALF; i++) {
            const size_t a = beside ? 2 * i : i, b = beside ? 2 * i + 1 : i + HALF;
            const double angle = 0.5 + (double)i;
            const double real = (double)was[a] * cos(angle) - (double)was[b] * sin(angle);
            const double other = (double)was[a] * sin(angle) + (double)was[b] * cos(angle);
            ck_assert_double_le(fabs((double)x[a] - real), 2e-6);
            ck_assert_double_le(fabs((double)x[b] - other), 2e-6);
        }
        ck_assert(x[6] == was[6] && x[7] == was[7]);
        pare_rope_undo(x, cosine, sine, HALF, beside);
        for (size_t i = 0; i < WIDTH; i++)
            ck_assert_double_le(fabs((double)x[i] - (double)was[i]), 2e-6);
    }
}
END_TEST

START_TEST(a_rounded_token_lies_on_255_steps)
{
    enum { N = 100 };
    float x[N];
    double largest = 0;
    for (size_t i = 0; i < N; i++) {
        x[i] = point(39 * i);
        largest = fmax(largest, fabs((double)x[i]));
    }
    pare_round_token(x, N);
    for (size_t i = 0; i < N; i++) {
        const double step = largest / 127, code = (double)x[i] / step;
        ck_assert_double_le(fabs(code - rint(code)), 1e-4);
        ck_assert_double_le(fabs((double)x[i] - (double)point(39 * i)), step / 2 * 1.0001);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ops");
    TCase *const c = tcase_create("ops");
    tcase_add_loop_test(c, activations_are_those_of_the_library, PARE_ACT_SILU, PARE_ACT_CLAMPED);
    tcase_add_test(c, the_clamped_swiglu_is_its_formula_and_so_is_its_gradient);
    tcase_add_test(c, a_layer_norm_has_mean_0_and_variance_1_times_its_weights);
    tcase_add_test(c, a_soft_cap_is_a_scaled_tanh);
    tcase_add_test(c, pairs_turn_as_complex_numbers_and_back);
    tcase_add_test(c, a_rounded_token_lies_on_255_steps);
    suite_add_tcase(s, c);
    return unit_main(s);
}
