#include "kernels/half.h"
#include "kernels/levels.h"
#include "runtime/forward_internal.h"
#include "tests/unit/tiny.h"

/* A double sum of f32 products and what rounding of any order of the same sum in f32 may differ. */
static void reference(const float *w, const float *x, size_t k, double *sum, double *bound)
{
    double magnitude = 0;
    *sum = 0;
    for (size_t j = 0; j < k; j++) {
        *sum += (double)w[j] * (double)x[j];
        magnitude += fabs((double)w[j] * (double)x[j]);
    }
    *bound = ((double)k + 2) * 0x1p-24 * magnitude * 1.01 + 1e-37;
}

static pare_linear make(pare_arena *a, tiny_kind kind, size_t n, size_t k)
{
    return kind.bits ? tiny_packed(a, kind, 3, n, k) : tiny_dense(a, kind.dtype, 3, n, k);
}

static const size_t shapes[][3] = {/* m, n, k */
                                   {1, 1, 1},    {1, 9, 33},    {3, 64, 32},  {2, 65, 64},
                                   {65, 70, 44}, {130, 16, 96}, {1, 200, 160}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void check_dot(size_t kind_index, size_t shape)
{
    tiny_home h;
    tiny_begin(&h, 3);
    const tiny_kind kind = tiny_kinds[kind_index];
    const size_t *const s = shapes[shape], m = s[0], n = s[1], k = s[2], ldx = k + 3;
    const pare_linear w = make(&h.arena, kind, n, k);
    float *const x = tiny_rows(&h.arena, 1, m * ldx), *const y = tiny_take(&h.arena, m * n, 4);
    float *const dense = tiny_take(&h.arena, n * k, 4);
    pare_linear_to_f32(&h.cx, &w, dense);
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, true, x, ldx, m, y, n), PARE_OK);
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++) {
            double sum, bound;
            reference(dense + r * k, x + t * ldx, k, &sum, &bound);
            ck_assert_msg(fabs((double)y[t * n + r] - sum) <= bound, "%zu %zu: %g %g", t, r,
                          (double)y[t * n + r], sum);
        }
    tiny_end(&h);
}

START_TEST(every_output_is_the_dot_product_of_a_row_and_a_token)
{
    for (size_t shape = 0; shape < SHAPES; shape++)
        check_dot((size_t)_i, shape);
}
END_TEST

/* The reference of the product, over weights as they are stored and inputs, both rounded. */
static void check_bf16(tiny_home *h, tiny_kind kind, const size_t *shape)
{
    pare_kernels ref;
    pare_kernels_init(&ref, 0);
    const size_t m = shape[0], n = shape[1], k = shape[2], ldx = k + 3;
    pare_linear w = make(&h->arena, kind, n, k);
    float *const x = tiny_rows(&h->arena, 1, m * ldx), *const bias = tiny_rows(&h->arena, 2, n);
    float *const y = tiny_take(&h->arena, m * n, 4), *const want = tiny_take(&h->arena, m * n, 4);
    float *const dense = tiny_take(&h->arena, n * k, 4);
    uint16_t *const a = tiny_take(&h->arena, m * ldx, 2), *const b = tiny_take(&h->arena, n * k, 2);
    pare_linear_to_f32(&h->cx, &w, dense);
    ref.cvt_f32_bf16(a, x, m * ldx);
    ref.cvt_f32_bf16(b, dense, n * k);
    ref.gemm_bf16_bf16(want, n, a, ldx, b, k, m, n, k);
    w.bias = bias;
    ck_assert_int_eq(pare_linear_apply_bf16(&h->cx, &h->arena, &w, x, ldx, m, y, n), PARE_OK);
    for (size_t i = 0; i < m * n; i++)
        ck_assert_float_eq(y[i], want[i] + bias[i % n]);
}

START_TEST(a_product_in_bf16_is_that_of_rounded_factors)
{
    for (size_t threads = 1; threads <= 3; threads += 2)
        for (size_t shape = 0; shape < SHAPES; shape++) {
            tiny_home h;
            tiny_begin(&h, threads);
            check_bf16(&h, tiny_kinds[_i], shapes[shape]);
            tiny_end(&h);
        }
}
END_TEST

/* What one code stands for, from the planes, by the formulas of encoding.h. */
static double code_value(const pare_linear *w, unsigned u, size_t r, size_t j)
{
    const pare_panel *const p = &w->panel;
    const size_t groups = (p->k + p->group - 1) / p->group;
    const size_t at = (r / 8 * groups + j / p->group) * 8 + r % 8;
    const double scale = p->scales ? (double)pare_f16_to_f32(p->scales[at]) : 0;
    const double sign = u & 1 ? 1 : -1, second = u & 2 ? 1 : -1;
    const uint16_t *const magnitude = p->book + (w->encoding == PARE_ENCODING_BINARY ? 4 * at : 0);
    switch (w->encoding) {
    case PARE_ENCODING_UNIFORM:
        return scale * ((double)u - (p->zeros ? p->zeros[at] : 1 << (w->bits - 1)));
    case PARE_ENCODING_TERNARY: return scale * ((double)u - 1);
    case PARE_ENCODING_NF4: return scale * (double)pare_levels_nf4[u];
    case PARE_ENCODING_FP8: return scale * (double)pare_levels_e4m3[u];
    case PARE_ENCODING_MXFP4:
    case PARE_ENCODING_NVFP4: return scale * (double)pare_levels_e2m1[u];
    case PARE_ENCODING_CODEBOOK: return (double)pare_f16_to_f32(p->book[(r << w->bits) + u]);
    case PARE_ENCODING_Q4_K:
    case PARE_ENCODING_Q6_K: break; /* test_super.c */
    case PARE_ENCODING_F16: break;  /* has no codes */
    case PARE_ENCODING_EXL3: break; /* test_exl3.c */
    case PARE_ENCODING_BINARY:
        if (p->salient[j])
            return sign * (double)pare_f16_to_f32(magnitude[2]) +
                   second * (double)pare_f16_to_f32(magnitude[3]);
        return sign * (double)pare_f16_to_f32(magnitude[u & 2 ? 1 : 0]);
    }
    return NAN;
}

/* W from its planes, outliers in the places of codes, single weights on top; exact in double. */
static double *plain_weights(pare_arena *a, const pare_linear *w)
{
    double *const out = tiny_take(a, w->n * w->k, sizeof *out);
    uint8_t *const codes = tiny_take(a, w->n * w->k, 1);
    const pare_outliers *const o = &w->outliers;
    uint8_t *const outlier = tiny_take(a, w->n * o->count, 1);
    pare_unpack_codes(codes, w->k, w->panel.codes, w->n, w->k, w->bits);
    if (o->count && !o->f16)
        pare_unpack_codes(outlier, o->count, o->panel.codes, w->n, o->count, 8);
    for (size_t r = 0; r < w->n; r++) {
        for (size_t j = 0; j < w->k; j++)
            out[r * w->k + j] = code_value(w, codes[r * w->k + j], r, j);
        for (size_t c = 0; c < o->count; c++) {
            const size_t at = r * o->count + c;
            out[r * w->k + o->column[c]] =
                o->f16 ? (double)pare_f16_to_f32(o->f16[at])
                       : (outlier[at] - 128) * (double)pare_f16_to_f32(o->panel.scales[r]);
        }
        const pare_sparse *const s = &w->sparse;
        for (size_t i = s->start ? s->start[r] : 0; s->start && i < s->start[r + 1]; i++)
            out[r * w->k + s->column[i]] += (double)pare_f16_to_f32(s->value[i]);
    }
    return out;
}

static void check_codes(size_t kind_index, size_t shape)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const size_t n = shapes[shape][1], k = shapes[shape][2];
    const pare_linear w = make(&h.arena, tiny_kinds[3 + kind_index], n, k);
    float *const values = tiny_take(&h.arena, n * k, sizeof *values);
    const double *const want = plain_weights(&h.arena, &w);
    if (shape % 2)
        pare_kernels_init(&h.cx.kernels, 0);
    pare_linear_to_f32(&h.cx, &w, values);
    for (size_t i = 0; i < n * k; i++) /* two roundings at most */
        ck_assert_msg(fabs((double)values[i] - want[i]) <= 0x1p-23 * fabs(want[i]) + 0x1p-30,
                      "row %zu column %zu: %.9g, not %.9g", i / k, i % k, (double)values[i],
                      want[i]);
    tiny_end(&h);
}

START_TEST(every_code_is_decoded_to_what_it_stands_for)
{
    for (size_t shape = 0; shape < SHAPES; shape++)
        check_codes((size_t)_i, shape);
}
END_TEST

/* The sum of gemm_f32. */
static float sum_of_lanes(const float *x, const float *w, size_t k)
{
    float l[8] = {0};
    for (size_t j = 0; j < k; j++)
        l[j % 8] = fmaf(x[j], w[j], l[j % 8]);
    return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

/* On every processor that this one can be, from single codes and their scales. */
START_TEST(groups_of_16_columns_have_scales_of_their_own)
{
    static const tiny_kind kind = {
        .bits = 4, .group = 16, .encoding = PARE_ENCODING_NVFP4, TINY_FLOAT};
    static const size_t columns[] = {32, 64, 96, 4096};
    enum { N = 24, ROWS = 32 /* padded */, LESS = 13 };
    const size_t k = columns[_i];
    tiny_home h;
    tiny_begin(&h, 1);
    const pare_linear w = make(&h.arena, kind, N, k);
    uint8_t *const codes = tiny_take(&h.arena, N * k, 1);
    float *const want = tiny_take(&h.arena, N * k, 4), *const x = tiny_rows(&h.arena, 1, k);
    float *const values = tiny_take(&h.arena, ROWS * k, 4), y[2][ROWS];
    pare_unpack_codes(codes, k, w.panel.codes, N, k, 4);
    for (size_t r = 0; r < N; r++)
        for (size_t j = 0; j < k; j++)
            want[r * k + j] =
                pare_levels_e2m1[codes[r * k + j]] *
                pare_f16_to_f32(w.panel.scales[(r / 8 * (k / 16) + j / 16) * 8 + r % 8]);
    for (size_t i = 0; i < PARE_CPU_LEVELS; i++) {
        pare_kernels kernels;
        if (pare_cpu_levels[i].cpu & ~h.cx.cpu)
            continue;
        pare_kernels_init(&kernels, pare_cpu_levels[i].cpu);
        kernels.dequant_table(values, k, &w.panel, 4, pare_levels_e2m1);
        ck_assert_mem_eq(values, want, N * k * sizeof *want);
        for (size_t less = 0; less < 2; less++)
            kernels.gemv_packed(y[less], x, k - less * LESS, &w.panel, PARE_DECODE_TABLE, 4,
                                pare_levels_e2m1);
        for (size_t r = 0; r < N; r++)
            for (size_t less = 0; less < 2; less++)
                ck_assert_msg(y[less][r] == sum_of_lanes(x, want + r * k, k - less * LESS),
                              "%s, row %zu", pare_cpu_levels[i].name, r);
    }
    tiny_end(&h);
}
END_TEST

/* The value that `count` inputs become when they share a scale, by the definition in kernels.h. */
static void share_scale(double *x, size_t count, double top)
{
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf((float)x[i]));
    const float scale = most / (float)top, inverse = (float)top / most;
    for (size_t i = 0; i < count; i++)
        x[i] = most > 0 ? (double)(rintf((float)x[i] * inverse) * scale) : 0;
}

/* The inputs of one token as the mode of w has them, those of outliers too. */
static void quantized_inputs(const pare_linear *w, const float *x, double *out)
{
    const pare_activation *const a = &w->activation;
    const pare_outliers *const o = &w->outliers;
    const double top = a->bits == 4 ? 7 : 127;
    const size_t group =
        a->mode == PARE_ACTIVATION_GROUP ? pare_x8_group(w->panel.group) : SIZE_MAX;
    double apart[64];
    for (size_t j = 0; j < w->k; j++)
        out[j] = (double)x[j];
    for (size_t c = 0; c < o->count; c++) {
        apart[c] = out[o->column[c]];
        out[o->column[c]] = 0;
    }
    for (size_t j = 0; j < w->k && a->mode != PARE_ACTIVATION_TENSOR; j += group) {
        share_scale(out + j, w->k - j < group ? w->k - j : group, top);
        if (group == SIZE_MAX)
            break;
    }
    for (size_t j = 0; j < w->k && a->mode == PARE_ACTIVATION_TENSOR; j++) {
        const double code = (double)rintf(x[j] * (1 / a->scale));
        out[j] = fmax(-top, fmin(top, code)) * (double)a->scale;
    }
    if (o->count && !o->f16)
        share_scale(apart, o->count, 127);
    for (size_t c = 0; c < o->count; c++)
        out[o->column[c]] = apart[c];
}

static bool is_float(const pare_linear *w)
{
    return w->activation.mode == PARE_ACTIVATION_FLOAT;
}

/* Group sums are exact: what is left is a rounding or two per group, outlier and single weight. */
static void check_inputs(size_t kind_index, size_t shape)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const size_t *const s = shapes[shape], m = s[0], n = s[1], k = s[2];
    const pare_linear w = make(&h.arena, tiny_kinds[3 + kind_index], n, k);
    pare_linear codes = w;
    codes.sparse = (pare_sparse){0};
    float *const x = tiny_rows(&h.arena, 1, m * k), *const y = tiny_take(&h.arena, m * n, 4);
    const double *const all = plain_weights(&h.arena, &w);
    const double *const without = plain_weights(&h.arena, &codes);
    double input[160];
    x[0] = 7; /* clamped by a fixed scale */
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, k, m, y, n), PARE_OK);
    for (size_t t = 0; t < m && !is_float(&w); t++) {
        quantized_inputs(&w, x + t * k, input);
        for (size_t r = 0; r < n; r++) {
            double sum = 0, terms = 0;
            for (size_t j = 0; j < k; j++) {
                const double a = without[r * k + j] * input[j];
                const double b = (all[r * k + j] - without[r * k + j]) * (double)x[t * k + j];
                sum += a + b;
                terms += fabs(a) + fabs(b);
            }
            ck_assert_msg(fabs((double)y[t * n + r] - sum) <= 64 * 0x1p-24 * terms + 1e-30,
                          "%zu %zu: %.9g, not %.9g", t, r, (double)y[t * n + r], sum);
        }
    }
    tiny_end(&h);
}

START_TEST(activations_are_quantized_as_the_mode_says)
{
    for (size_t shape = 0; shape < SHAPES; shape++)
        check_inputs((size_t)_i, shape);
}
END_TEST

/* |x - code scale| <= scale / 2 for every activation, so |error| <= sum |w| scale / 2. */
static void check_steps(size_t kind_index, size_t shape)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const tiny_kind kind = tiny_kinds[3 + kind_index];
    const size_t *const s = shapes[shape], m = s[0], n = s[1], k = s[2];
    const pare_linear w = make(&h.arena, kind, n, k);
    float *const x = tiny_rows(&h.arena, 1, m * k), *const y = tiny_take(&h.arena, m * n, 4);
    float *const dense = tiny_take(&h.arena, n * k, 4);
    const double steps = w.activation.bits == 4 ? 7 : 127;
    pare_linear_to_f32(&h.cx, &w, dense);
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, k, m, y, n), PARE_OK);
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++) {
            double sum, bound, weights = 0, largest = 0;
            reference(dense + r * k, x + t * k, k, &sum, &bound);
            for (size_t j = 0; j < k; j++) {
                weights += fabs((double)dense[r * k + j]);
                largest = fmax(largest, fabs((double)x[t * k + j]));
            }
            if (w.activation.mode == PARE_ACTIVATION_TENSOR)
                largest = steps * (double)w.activation.scale;
            bound += is_float(&w) ? 0 : weights * largest / steps * 0.5001;
            ck_assert_msg(fabs((double)y[t * n + r] - sum) <= bound, "%zu %zu: %g %g", t, r,
                          (double)y[t * n + r], sum);
        }
    tiny_end(&h);
}

START_TEST(quantized_activations_stay_within_half_a_step)
{
    for (size_t shape = 0; shape < SHAPES; shape++)
        check_steps((size_t)_i, shape);
}
END_TEST

/* What is not a number must not come out as one, and only where it went in. */
START_TEST(a_value_that_is_not_finite_reaches_all_outputs_of_its_token)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    tiny_home h;
    tiny_begin(&h, 2);
    const size_t m = 3, n = 21, k = 44;
    const pare_linear w = make(&h.arena, tiny_kinds[_i / 2], n, k);
    float *const x = tiny_rows(&h.arena, 1, m * k), *const y = tiny_take(&h.arena, m * n, 4);
    for (size_t j = 0; j < k; j++)
        for (size_t b = 0; b < 3; b++) {
            const float kept = x[k + j];
            x[k + j] = bad[b];
            ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, _i % 2, x, k, m, y, n),
                             PARE_OK);
            for (size_t i = 0; i < m * n; i++)
                ck_assert_int_eq(isfinite(y[i]) != 0, i / n != 1);
            x[k + j] = kept;
        }
    tiny_end(&h);
}
END_TEST

/* Three linears of one input: what is made of it for one may serve another that asks for the same,
 * and only then. */
START_TEST(linears_of_one_input_share_it_only_when_they_ask_for_the_same)
{
    enum { VARIANTS = 12, M = 5, N = 21, K = 100 };
    static const tiny_kind fp8 = {
        .dtype = PARE_F16, .bits = 8, .encoding = PARE_ENCODING_FP8, TINY_FLOAT};
    static const tiny_kind fp4[] = {
        {.dtype = PARE_F16, .bits = 4, .group = 32, .encoding = PARE_ENCODING_MXFP4, TINY_FLOAT},
        {.dtype = PARE_F16, .bits = 4, .group = 16, .encoding = PARE_ENCODING_NVFP4, TINY_FLOAT}};
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_linear base = make(&h.arena, tiny_kinds[_i ? 19 : 18], N, K);
    float *const x = tiny_rows(&h.arena, 1, M * K);
    float y[3][M * N], alone[M * N];
    uint32_t *const other = tiny_take(&h.arena, base.outliers.count, sizeof *other);
    for (size_t c = 0; c < base.outliers.count; c++)
        other[c] = base.outliers.column[c] + (c == 2);
    pare_linear w[VARIANTS];
    for (size_t i = 0; i < VARIANTS; i++)
        w[i] = i < 7 ? base : make(&h.arena, i < 9 ? fp8 : fp4[i > 9], N, K);
    w[8].activation.bits = 8;
    for (size_t i = 9; i < VARIANTS; i++) /* the last differ in the scale alone */
        w[i].activation = (pare_activation){PARE_ACTIVATION_FLOAT, 4, i == 11 ? 900 : 2000};
    w[1].outliers.column = other;
    w[2].activation.bits = base.activation.bits == 4 ? 8 : 4;
    w[3].activation = (pare_activation){PARE_ACTIVATION_TENSOR, 8, 0.03F};
    w[4].activation = (pare_activation){PARE_ACTIVATION_TENSOR, 8, 0.02F};
    w[5].activation.mode =
        _i ? PARE_ACTIVATION_TOKEN : PARE_ACTIVATION_GROUP; /* the other of the two */
    w[6].outliers.count--;
    w[6].outliers.f16 = base.outliers.f16 ? tiny_halves(&h.arena, 77, N * K, 0.1) : NULL;
    for (size_t i = 0; i < VARIANTS * VARIANTS; i++) {
        const size_t pick[3] = {i / VARIANTS, i % VARIANTS, 0};
        pare__product p[3];
        for (size_t j = 0; j < 3; j++)
            p[j] = (pare__product){&w[pick[j]], y[j], N};
        ck_assert_int_eq(pare__linear_apply_all(&h.cx, &h.arena, p, 3, false, x, K, M), PARE_OK);
        for (size_t j = 0; j < 3; j++) {
            ck_assert_int_eq(
                pare_linear_apply(&h.cx, &h.arena, &w[pick[j]], false, x, K, M, alone, N), PARE_OK);
            ck_assert_mem_eq(y[j], alone, sizeof alone);
        }
    }
    tiny_end(&h);
}
END_TEST

/* 255 * 127 * 70016 does not fit in 32 bits. */
START_TEST(sums_of_long_rows_do_not_overflow)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const size_t k = 70016, n = 16;
    uint8_t *const codes = tiny_take(&h.arena, n * k, 1), zeros[16];
    uint16_t scales[16];
    float *const x = tiny_take(&h.arena, k, sizeof *x), y[16];
    memset(codes, 0x80, n * k); /* the code 0 */
    memset(zeros, 255, sizeof zeros);
    for (size_t r = 0; r < n; r++)
        scales[r] = pare_f32_to_f16(1);
    for (size_t j = 0; j < k; j++)
        x[j] = 1;
    pare_linear w = {.name = "long", .n = n, .k = k, .bits = 8};
    w.panel =
        (pare_panel){.codes = codes, .scales = scales, .zeros = zeros, .n = n, .k = k, .group = k};
    for (int mode = PARE_ACTIVATION_GROUP; mode <= PARE_ACTIVATION_TENSOR; mode++) {
        w.activation = (pare_activation){(pare_activation_mode)mode, 8, 1.0F / 127};
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, k, 1, y, n), PARE_OK);
        for (size_t r = 0; r < n; r++)
            ck_assert(fabs((double)y[r] / (-255.0 * (double)k) - 1) < 1e-4);
    }
    tiny_end(&h);
}
END_TEST

START_TEST(what_no_kernel_computes_is_refused_with_the_reason)
{
    static const struct {
        pare_linear w;
        const char *reason;
    } cases[] = {
        {{.bits = 4, .encoding = PARE_ENCODING_NF4, .activation = {.bits = 8}},
         "a: no integer product of nf4 weights; their activations stay float"},
        {{.bits = 8, .activation = {.bits = 3}}, "a: activations of 3 bits; expected 4 or 8"},
        {{.bits = 8, .activation = {PARE_ACTIVATION_TENSOR, 8, 0}},
         "a: input scale 0; expected a positive number"},
        {{.bits = 8, .activation = {PARE_ACTIVATION_TENSOR, 8, NAN}}, "a: input scale"},
        {{.bits = 5, .activation = {.bits = 8}}, "a: uniform weights of 5 bits"},
        {{.bits = 3, .encoding = PARE_ENCODING_BINARY, .activation = {PARE_ACTIVATION_FLOAT, 0, 0}},
         "a: binary weights of 3 bits"},
        {{.rotated = true}, "a: inputs of 130 values cannot be rotated"},
    };
    tiny_home h;
    tiny_begin(&h, 1);
    pare_linear w = cases[_i].w;
    w.name = "a";
    w.n = 8;
    w.k = 130; /* 2 * 65 */
    ck_assert_int_eq(pare_linear_check(&h.cx, &w), PARE_ENOTSUP);
    ck_assert_ptr_nonnull(strstr(h.cx.what, cases[_i].reason));
    pare_ctx_clear(&h.cx);
    float x[130] = {0}, y[8];
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, _i % 2, x, 130, 1, y, 8), PARE_ENOTSUP);
    tiny_end(&h);
}
END_TEST

START_TEST(bytes_depend_neither_on_threads_nor_on_the_number_of_tokens)
{
    const tiny_kind kind = tiny_kinds[_i / 2];
    const bool exact = _i % 2;
    const size_t m = 70, n = 150, k = 100;
    float first[70 * 150];
    for (size_t threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
        tiny_home h;
        tiny_begin(&h, threads);
        const pare_linear w = make(&h.arena, kind, n, k);
        float *const x = tiny_rows(&h.arena, 1, m * k), *const y = tiny_take(&h.arena, m * n, 4);
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, exact, x, k, m, y, n), PARE_OK);
        if (threads == 1)
            memcpy(first, y, sizeof first);
        ck_assert_mem_eq(first, y, sizeof first);
        float one[150];
        for (size_t t = 0; t < m; t += 23) {
            ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, exact, x + t * k, k, 1, one, n),
                             PARE_OK);
            ck_assert_mem_eq(first + t * n, one, sizeof one);
        }
        tiny_end(&h);
    }
}
END_TEST

START_TEST(rows_behind_the_last_and_columns_between_rows_are_not_written)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const tiny_kind kind = tiny_kinds[_i / 2];
    const size_t m = 5, n = 13, k = 40, ldy = 29;
    const pare_linear w = make(&h.arena, kind, n, k);
    float *const x = tiny_rows(&h.arena, 1, m * k), *const y = tiny_take(&h.arena, m * ldy, 4);
    for (size_t i = 0; i < m * ldy; i++)
        y[i] = 77;
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, _i % 2, x, k, m, y, ldy), PARE_OK);
    for (size_t i = 0; i < m * ldy; i++)
        ck_assert(i % ldy < n ? y[i] != 77 : y[i] == 77);
    tiny_end(&h);
}
END_TEST

START_TEST(a_bias_is_added_to_each_output)
{
    tiny_home h;
    tiny_begin(&h, 2);
    pare_linear w = make(&h.arena, tiny_kinds[_i], 70, 44);
    float *const x = tiny_rows(&h.arena, 1, 66 * 44), *const y = tiny_take(&h.arena, 66 * 70, 4);
    float *const z = tiny_take(&h.arena, 66 * 70, 4), *const bias = tiny_rows(&h.arena, 5, 70);
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, 44, 66, y, 70), PARE_OK);
    w.bias = bias;
    ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena, &w, false, x, 44, 66, z, 70), PARE_OK);
    for (size_t i = 0; i < 66 * 70; i++)
        ck_assert(z[i] == y[i] + bias[i % 70]);
    tiny_end(&h);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_linear w = make(&h.arena, tiny_kinds[_i / 2], 70, 44);
    float *const x = tiny_rows(&h.arena, 1, 66 * 44), *const y = tiny_take(&h.arena, 66 * 70, 4);
    const pare_alloc plain = h.cx.alloc;
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        unit_failing f = {.left = n};
        pare_arena scratch = {.cx = &h.cx};
        pare_ctx_clear(&h.cx);
        h.cx.alloc = (pare_alloc){unit_failing_resize, &f};
        s = pare_linear_apply(&h.cx, &scratch, &w, _i % 2, x, 44, 66, y, 70);
        ck_assert(s == PARE_OK || (s == PARE_ENOMEM && h.cx.what[0]));
        pare_arena_release(&scratch);
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert(n > 1 || w.bits == 0);
    h.cx.alloc = plain;
    tiny_end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("linear");
    TCase *const c = tcase_create("linear");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, every_output_is_the_dot_product_of_a_row_and_a_token, 0, TINY_KINDS);
    tcase_add_loop_test(c, a_product_in_bf16_is_that_of_rounded_factors, 0, TINY_KINDS);
    tcase_add_loop_test(c, quantized_activations_stay_within_half_a_step, 0, TINY_KINDS - 3);
    tcase_add_loop_test(c, bytes_depend_neither_on_threads_nor_on_the_number_of_tokens, 0,
                        TINY_KINDS * 2);
    tcase_add_loop_test(c, rows_behind_the_last_and_columns_between_rows_are_not_written, 0,
                        TINY_KINDS * 2);
    tcase_add_loop_test(c, a_bias_is_added_to_each_output, 0, TINY_KINDS);
    tcase_add_loop_test(c, every_refused_allocation_is_reported_and_nothing_leaks, 0,
                        TINY_KINDS * 2);
    tcase_add_loop_test(c, every_code_is_decoded_to_what_it_stands_for, 0, TINY_KINDS - 3);
    tcase_add_loop_test(c, groups_of_16_columns_have_scales_of_their_own, 0, 4);
    tcase_add_loop_test(c, activations_are_quantized_as_the_mode_says, 0, TINY_KINDS - 3);
    tcase_add_loop_test(c, a_value_that_is_not_finite_reaches_all_outputs_of_its_token, 0,
                        TINY_KINDS * 2);
    tcase_add_loop_test(c, linears_of_one_input_share_it_only_when_they_ask_for_the_same, 0, 2);
    tcase_add_test(c, sums_of_long_rows_do_not_overflow);
    tcase_add_loop_test(c, what_no_kernel_computes_is_refused_with_the_reason, 0, 7);
    suite_add_tcase(s, c);
    return unit_main(s);
}
