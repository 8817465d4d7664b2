/* Every quantizing pass on one matrix: what it hands over is what is packed, decoded and run. */
#include "compress/passes/pass.h"
#include "compress/passes/quantize.h"
#include "formats/packed.h"
#include "kernels/half.h"
#include "quant/squeezellm.h"
#include "runtime/linear.h"
#include "tests/unit/quant_case.h"

enum { N = 90, K = 300 };

static float absmax[K];

typedef struct quantizer {
    const char *pass;
    const char *param[4]; /* by name; the rest have their defaults */
    double value[4];
} quantizer;

static const quantizer quantizers[] = {
    {"rtn", {NULL}, {0}},
    {"rtn", {"clip"}, {PARE_CLIP_WEIGHTED}},
    {"gptq", {"group"}, {64}},
    {"gptq", {"grid", "group"}, {PARE_ENCODING_NF4, 64}},
    {"gptq", {"grid", "bits", "act_order"}, {PARE_ENCODING_FP8, 8, 1}},
    {"gptq", {"grid", "group"}, {PARE_ENCODING_MXFP4, 32}},
    {"gptq", {"grid", "bits", "group"}, {PARE_ENCODING_CODEBOOK, 3, 0}},
    {"hqq", {NULL}, {0}},
    {"hqq", {"bits", "group"}, {3, 0}},
    {"nf4", {NULL}, {0}},
    {"fp8", {NULL}, {0}},
    {"fp8", {"group"}, {96}},
    {"mxfp4", {NULL}, {0}},
    {"ternary", {NULL}, {0}},
    {"ternary", {"group"}, {0}},
    {"ternary", {"group"}, {64}},
    {"squeezellm", {NULL}, {0}},
    {"squeezellm", {"bits", "outliers"}, {3, 0}},
    {"billm", {NULL}, {0}},
    {"llm_int8", {"columns"}, {0.1}},
    {"llm_int8", {"columns"}, {0}},
    {"atom", {"outliers"}, {20}},
    {"atom", {"outliers", "group"}, {4096, 32}},
    {"atom", {"outliers", "rounding"}, {20, 1}},
};
enum { QUANTIZERS = sizeof quantizers / sizeof *quantizers };

/* Values of a step, and the grid that its codes are read with. */
typedef struct made {
    const pare_pass *pass;
    double value[PARE_PARAMS_MAX];
    pare_packed_linear linear;
    pare_codes codes;
    pare_linear_result result;
    pare_pass_linear self;
} made;

static void read_values(const quantizer *q, made *m)
{
    m->pass = pare_pass_find(q->pass);
    ck_assert_ptr_nonnull(m->pass);
    for (size_t i = 0; m->pass->params[i].name; i++)
        m->value[i] = m->pass->params[i].fallback;
    for (size_t p = 0; p < 4 && q->param[p]; p++) {
        size_t i = 0;
        while (m->pass->params[i].name && strcmp(m->pass->params[i].name, q->param[p]) != 0)
            i++;
        ck_assert_ptr_nonnull(m->pass->params[i].name);
        m->value[i] = q->value[p];
    }
}

static void make_from(const quantizer *q, const float *w, const float *h, bool pruned, made *m)
{
    read_values(q, m);
    m->linear.name = "made";
    ck_assert_int_eq(pare_pass_store(&cx, m->pass, m->value, N, K, &m->linear), PARE_OK);
    if (m->pass->columns)
        m->linear.outliers = m->pass->columns(m->value, absmax, K);
    m->linear.activation = m->pass->activation
                               ? m->pass->activation(m->value)
                               : (pare_activation){.mode = PARE_ACTIVATION_GROUP, .bits = 8};
    ck_assert_int_eq(pare_packed_linear_check(&cx, &m->linear), PARE_OK);
    pare_site_stats *const stats = take(1, sizeof *stats);
    *stats = (pare_site_stats){.k = K, .tokens = 3 * K};
    const unsigned asked = m->pass->asks ? m->pass->asks(m->value) : 0;
    if ((m->pass->needs | asked) & PARE_FACT_HESSIAN)
        stats->h = copy(h, K * K);
    if (m->pass->needs & PARE_FACT_CHANNELS)
        stats->absmax = absmax;
    void *state = NULL;
    if (m->pass->site)
        ck_assert_int_eq(m->pass->site(&cx, m->value, stats, &arena, &state), PARE_OK);
    m->self = (pare_pass_linear){.w = copy(w, N * K),
                                 .n = N,
                                 .k = K,
                                 .pruned = pruned,
                                 .stats = stats,
                                 .h = stats->h,
                                 .site_state = state,
                                 .columns = m->linear.outliers,
                                 .codes = &m->codes,
                                 .result = &m->result};
    ck_assert_int_eq(pare_pass_run(&cx, m->pass, m->value, &m->self, &arena), PARE_OK);
}

static void make(const quantizer *q, const float *w, const float *h, made *m)
{
    make_from(q, w, h, false, m);
}

static float *decoded(const made *m)
{
    pare_packed_planes planes;
    pare_linear view;
    ck_assert_int_eq(pare_packed_pack(&cx, &arena, &m->linear, &m->codes, &planes), PARE_OK);
    ck_assert_int_eq(pare_packed_view(&cx, &arena, &m->linear, planes.plane, &view), PARE_OK);
    ck_assert_int_eq(pare_linear_check(&cx, &view), PARE_OK);
    float *const q = take(N * K, sizeof *q);
    pare_linear_to_f32(&cx, &view, q);
    return q;
}

static float *stated(const made *m)
{
    const pare_grid g = {
        .bits = m->linear.bits, .group = m->linear.group, .encoding = m->linear.encoding};
    return values(&g, &m->codes);
}

static void setup(void)
{
    quant_setup();
    for (size_t j = 0; j < K; j++)
        absmax[j] = 0.3F * (float)(j * 29 % 41);
}

START_TEST(what_a_pass_hands_over_is_what_is_decoded)
{
    const float *const w = weights(N, K), *const h = hessian(K);
    made m = {0};
    make(&quantizers[_i], w, h, &m);
    const float *const q = decoded(&m), *const v = stated(&m);
    for (size_t i = 0; i < N * K; i++)
        if (q[i] != v[i])
            ck_abort_msg("%s: weight %zu: %g decoded, %g stated", m.pass->name, i, (double)q[i],
                         (double)v[i]);
    double whole = 0;
    for (size_t i = 0; i < N * K; i++)
        whole += (double)w[i] * (double)w[i];
    ck_assert_double_lt(square_error(w, q, N * K), 0.35 * whole);
}
END_TEST

static double output_error(const quantizer *q, const float *w, const float *h)
{
    made m = {0};
    make(q, w, h, &m);
    return pare_gptq_error(&cx, w, stated(&m), h, N, K);
}

START_TEST(gptq_is_better_than_rounding_on_the_same_grid)
{
    const float *const w = weights(N, K), *const h = hessian(K);
    const quantizer pairs[][2] = {
        {{"gptq", {"grid", "group"}, {PARE_ENCODING_NF4, 64}}, {"nf4", {NULL}, {0}}},
        {{"gptq", {"grid", "bits", "group"}, {PARE_ENCODING_FP8, 8, 0}}, {"fp8", {NULL}, {0}}},
        {{"gptq", {"grid", "group"}, {PARE_ENCODING_MXFP4, 32}}, {"mxfp4", {NULL}, {0}}},
        {{"gptq", {"grid", "group"}, {PARE_ENCODING_CODEBOOK, 0}},
         {"squeezellm", {"outliers"}, {0}}},
        {{"atom", {"outliers"}, {20}}, {"atom", {"outliers", "rounding"}, {20, 1}}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        ck_assert_double_lt(output_error(&pairs[i][0], w, h),
                            0.9 * output_error(&pairs[i][1], w, h));
}
END_TEST

START_TEST(what_was_pruned_stays_zero_where_errors_are_compensated)
{
    const quantizer sweeps[] = {{"gptq", {"group"}, {32}},
                                {"atom", {"outliers", "group"}, {20, 32}},
                                {"atom", {"outliers", "rounding"}, {20, 1}}};
    float *const w = weights(N, K);
    for (size_t i = 0; i < (size_t)N * K; i++)
        w[i] = pare_random_u64(6, 1, i) % 3 ? w[i] : 0;
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        made m = {0};
        make_from(&sweeps[i], w, hessian(K), true, &m);
        const float *const q = decoded(&m);
        for (size_t j = 0; j < (size_t)N * K; j++)
            ck_assert(w[j] != 0 || q[j] == 0);
    }
}
END_TEST

START_TEST(gptq_refuses_parameters_that_a_grid_does_not_have)
{
    const struct {
        quantizer q;
        const char *what;
    } bad[] = {
        {{"gptq", {"grid", "bits"}, {PARE_ENCODING_NF4, 3}}, "3 bits"},
        {{"gptq", {"grid"}, {PARE_ENCODING_FP8}}, "4 bits"},
        {{"gptq", {"grid"}, {PARE_ENCODING_MXFP4}}, "groups of 32: leave group out"},
        {{"gptq", {"grid"}, {PARE_ENCODING_NVFP4}}, "groups of 16: leave group out"},
        {{"gptq", {"grid", "group"}, {PARE_ENCODING_NVFP4, 16}},
         "rows of a multiple of 16 weights"},
        {{"nvfp4", {NULL}, {0}}, "this one has 300: take mxfp4"},
        {{"gptq", {"grid"}, {PARE_ENCODING_CODEBOOK}}, "group: row"},
        {{"gptq", {"grid", "symmetric"}, {PARE_ENCODING_NF4, 0}}, "symmetric"},
        {{"gptq", {"grid", "group", "tail"}, {PARE_ENCODING_NF4, 64, 1}}, "does not divide"},
        {{"rtn", {"group", "tail"}, {128, 1}}, "take group row, or tail: short"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made m = {0};
        read_values(&bad[i].q, &m);
        ck_assert_int_ne(pare_pass_store(&cx, m.pass, m.value, N, K, &m.linear), PARE_OK);
        ck_assert_ptr_nonnull(strstr(cx.what, bad[i].what));
        pare_ctx_clear(&cx);
    }
}
END_TEST

/* Inputs of 5, with these columns louder. */
START_TEST(llm_int8_keeps_the_columns_that_reach_the_threshold)
{
    static const size_t loud[] = {2, 17, 18, 250, 299};
    static const struct {
        double threshold, share;
        size_t kept; /* the loudest of them, the last ones */
    } of[] = {{6, 0.05, 4}, {5.5, 0.05, 5}, {6, 0.01, 3}, {6, 0, 0}, {60, 0.05, 1}, {61, 0.05, 0}};
    static const float size[] = {5.5F, 6, 7, 8, 60};
    const float *const w = weights(N, K), *const h = hessian(K);
    for (size_t j = 0; j < K; j++)
        absmax[j] = 5;
    for (size_t i = 0; i < 5; i++)
        absmax[loud[i]] = size[i];
    for (size_t c = 0; c < sizeof of / sizeof *of; c++) {
        const quantizer q = {"llm_int8", {"threshold", "columns"}, {of[c].threshold, of[c].share}};
        made m = {0};
        make(&q, w, h, &m);
        const float *const v = decoded(&m);
        ck_assert_uint_eq(m.linear.outliers, of[c].kept);
        ck_assert_uint_eq(m.codes.outliers, of[c].kept);
        for (size_t o = 0; o < of[c].kept; o++) {
            const size_t j = loud[5 - of[c].kept + o];
            ck_assert_uint_eq(m.codes.outlier_column[o], j);
            for (size_t i = 0; i < N; i++)
                ck_assert_float_eq(v[i * K + j], pare_f16_to_f32(pare_f32_to_f16(w[i * K + j])));
        }
    }
    made plain = {0}, none = {0};
    make(&(quantizer){"rtn", {"bits", "group"}, {8, 0}}, w, h, &plain);
    make(&(quantizer){"llm_int8", {"threshold"}, {61}}, w, h, &none);
    ck_assert_str_eq(none.self.note, "0 columns in F16");
    ck_assert_mem_eq(decoded(&plain), decoded(&none), N * K * sizeof(float));
    ck_assert_uint_eq(pare_packed_linear_bytes(&plain.linear).total,
                      pare_packed_linear_bytes(&none.linear).total);
}
END_TEST

START_TEST(billm_without_a_factor_is_refused)
{
    float *const h = hessian(K);
    for (size_t i = 0; i < K; i++)
        h[i * (K + 1)] = -h[i * (K + 1)];
    made m = {0};
    read_values(&(quantizer){"billm", {NULL}, {0}}, &m);
    pare_site_stats stats = {.k = K, .h = h};
    void *state = NULL;
    ck_assert_int_eq(m.pass->site(&cx, m.value, &stats, &arena, &state), PARE_OK);
    m.self = (pare_pass_linear){.w = weights(N, K),
                                .n = N,
                                .k = K,
                                .stats = &stats,
                                .site_state = state,
                                .codes = &m.codes,
                                .result = &m.result};
    ck_assert_int_eq(pare_pass_run(&cx, m.pass, m.value, &m.self, &arena), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(cx.what, "no factor"));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("quantizers");
    TCase *const t = tcase_create("quantizers");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, quant_teardown);
    tcase_add_loop_test(t, what_a_pass_hands_over_is_what_is_decoded, 0, QUANTIZERS);
    tcase_add_test(t, gptq_is_better_than_rounding_on_the_same_grid);
    tcase_add_test(t, what_was_pruned_stays_zero_where_errors_are_compensated);
    tcase_add_test(t, gptq_refuses_parameters_that_a_grid_does_not_have);
    tcase_add_test(t, llm_int8_keeps_the_columns_that_reach_the_threshold);
    tcase_add_test(t, billm_without_a_factor_is_refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
