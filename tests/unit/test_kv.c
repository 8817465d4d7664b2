/* Coded key/value caches: what the codes stand for, which tokens a query reads as codes, and that
 * the split into batches does not matter. */
#include "runtime/kv_internal.h"
#include "tests/unit/tiny.h"

enum { HEADS = 4, KV_HEADS = 2, D = 10, LENGTH = 90, SEQUENCES = 2 };
enum { ROWS = SEQUENCES * LENGTH, KV_WIDTH = KV_HEADS * D, Q_WIDTH = HEADS * D };

static const pare_kv_format formats[] = {
    {.method = PARE_KV_INT8},
    {.method = PARE_KV_INT4, .group = 32},
    {.method = PARE_KV_INT4},
    {.method = PARE_KV_KIVI, .group = 32, .window = 1},
    {.method = PARE_KV_KIVI, .group = 32, .window = 21},
    {.method = PARE_KV_KIVI, .group = 32, .window = 128},
    {.method = PARE_KV_KVQUANT, .sink = 1},
    {.method = PARE_KV_KVQUANT, .sink = 0},
    {.method = PARE_KV_KVQUANT, .sink = 70},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static const float key_levels[PARE_KV_LEVELS] = {-1, -0.6f, -0.3f, -0.1f, 0.05f, 0.3f, 0.55f, 1};
static const float value_levels[PARE_KV_LEVELS] = {-1, -0.7f, -0.4f, -0.2f, 0, 0.2f, 0.5f, 0.95f};

static double from_half(const pare_ctx *cx, uint16_t h)
{
    float x;
    cx->kernels.cvt_f16_f32(&x, &h, 1);
    return (double)x;
}

static double round_half(const pare_ctx *cx, double x)
{
    const float f = (float)x;
    uint16_t h;
    cx->kernels.cvt_f32_f16(&h, &f, 1);
    return from_half(cx, h);
}

/* Calibrated tables whose scales differ per channel. */
static pare_kv_levels levels_of(pare_arena *a, uint64_t stream)
{
    uint16_t *const scale = tiny_take(a, KV_WIDTH, sizeof *scale);
    uint16_t *const low = tiny_take(a, KV_WIDTH, sizeof *low);
    for (size_t i = 0; i < KV_WIDTH; i++) {
        const float s = (float)(1 + pare_random_unit(31, stream, i)),
                    l = (float)(pare_random_unit(32, stream, i) - 0.5);
        a->cx->kernels.cvt_f32_f16(&scale[i], &s, 1);
        a->cx->kernels.cvt_f32_f16(&low[i], &l, 1);
    }
    return (pare_kv_levels){key_levels, value_levels, scale, low};
}

/* --- quantizers ------------------------------------------------------------------------------- */

START_TEST(an_asymmetric_group_spans_its_smallest_and_largest_value)
{
    tiny_home h;
    tiny_begin(&h, 1);
    for (size_t round = 0; round < 400; round++) {
        const unsigned bits = round % 2 ? 2 : 4;
        const size_t n = 1 + round % 33, step = 1 + round % 3;
        const double top = (1 << bits) - 1, size = round % 5 ? 1 : 1000;
        float x[33 * 3];
        uint8_t code[33 * 3];
        uint16_t scale, low;
        double min = INFINITY, max = -INFINITY;
        for (size_t i = 0; i < n; i++) {
            const double v = round_half(&h.cx, size * pare_random_normal(40, round, i));
            x[i * step] = (float)v;
            min = fmin(min, v);
            max = fmax(max, v);
        }
        pare__kv_code_group(x, step, n, bits, code, &scale, &low);
        const double s = from_half(&h.cx, scale), l = from_half(&h.cx, low);
        ck_assert_double_eq(l, min);
        ck_assert_double_eq_tol(s, (max - min) / top, (max - min) * 0x1p-11 + 0x1p-25);
        for (size_t i = 0; i < n; i++) {
            const double v = (double)x[i * step], back = l + code[i * step] * s;
            ck_assert_uint_le(code[i * step], (unsigned)top);
            /* half a step; the last code may miss the largest value by what the scale lost */
            ck_assert_double_le(fabs(v - back), s / 2 * (1 + 1e-5) + (max - min) * 0x1p-11);
        }
    }
    tiny_end(&h);
}
END_TEST

START_TEST(int8_is_symmetric_and_its_largest_value_is_127_steps)
{
    tiny_home h;
    tiny_begin(&h, 1);
    for (size_t round = 0; round < 200; round++) {
        const size_t n = 1 + round % 70;
        float x[70];
        uint8_t code[70];
        uint16_t scale;
        double most = 0;
        for (size_t i = 0; i < n; i++) {
            x[i] = (float)round_half(&h.cx, 5 * pare_random_normal(41, round, i));
            most = fmax(most, fabs((double)x[i]));
        }
        pare__kv_code_int8(x, n, code, &scale);
        const double s = from_half(&h.cx, scale);
        ck_assert_double_eq_tol(s, most / 127, most / 127 * 0x1p-11);
        for (size_t i = 0; i < n; i++) {
            ck_assert_uint_ge(code[i], 1);
            const double want = fmax(-127, fmin(127, nearbyint((double)x[i] / s)));
            ck_assert_double_eq(code[i] - 128.0, want);
        }
    }
    tiny_end(&h);
}
END_TEST

START_TEST(levels_are_picked_by_distance)
{
    tiny_home h;
    tiny_begin(&h, 1);
    for (size_t round = 0; round < 200; round++) {
        const size_t n = 1 + round % 33;
        float x[33];
        uint8_t code[33];
        uint16_t scale, low;
        double min = INFINITY, max = -INFINITY;
        for (size_t i = 0; i < n; i++) {
            x[i] = (float)round_half(&h.cx, 3 + pare_random_normal(42, round, i));
            min = fmin(min, (double)x[i]);
            max = fmax(max, (double)x[i]);
        }
        pare__kv_code_levels(x, n, value_levels, code, &scale, &low);
        const double s = from_half(&h.cx, scale), l = from_half(&h.cx, low);
        ck_assert_double_eq_tol(l, (max + min) / 2, fabs(l) * 0x1p-10 + 1e-30);
        ck_assert_double_eq_tol(s, (max - min) / 2, s * 0x1p-10 + 1e-30);
        for (size_t i = 0; i < n; i++) {
            const double at = fabs((double)value_levels[code[i]] * s + l - (double)x[i]);
            for (size_t k = 0; k < PARE_KV_LEVELS; k++)
                ck_assert_double_le(at, fabs((double)value_levels[k] * s + l - (double)x[i]) +
                                            1e-5 * s);
        }
    }
    ck_assert_uint_eq(pare__kv_nearest(value_levels, 0.1f, 1, 0), 4); /* a tie: the lower one */
    ck_assert_uint_eq(pare__kv_nearest(value_levels, -9, 1, 0), 0);
    ck_assert_uint_eq(pare__kv_nearest(value_levels, 9, 1, 0), 7);
    ck_assert_uint_eq(pare__kv_nearest(value_levels, 9, 0, 0), 4);
    tiny_end(&h);
}
END_TEST

START_TEST(equal_values_cost_nothing_and_broken_ones_are_not_hidden)
{
    float x[3] = {2.5f, 2.5f, 2.5f};
    uint8_t code[3];
    uint16_t scale, low;
    tiny_home h;
    tiny_begin(&h, 1);
    pare__kv_code_group(x, 1, 3, 2, code, &scale, &low);
    ck_assert_double_eq(from_half(&h.cx, low), 2.5);
    ck_assert_uint_eq(scale, 0);
    ck_assert_mem_eq(code, "\0\0\0", 3);
    pare__kv_code_levels(x, 3, value_levels, code, &scale, &low);
    ck_assert_double_eq(from_half(&h.cx, low), 2.5);
    ck_assert_uint_eq(scale, 0);
    x[0] = x[1] = x[2] = 0;
    pare__kv_code_int8(x, 3, code, &scale);
    ck_assert_mem_eq(code, "\200\200\200", 3);
    for (size_t i = 0; i < 3; i++) {
        x[1] = i == 0 ? (float)NAN : i == 1 ? INFINITY : -INFINITY;
        pare__kv_code_group(x, 1, 3, 4, code, &scale, &low);
        ck_assert(isnan(from_half(&h.cx, scale)));
        pare__kv_code_levels(x, 3, value_levels, code, &scale, &low);
        ck_assert(isnan(from_half(&h.cx, scale)));
        pare__kv_code_int8(x, 3, code, &scale);
        ck_assert(isnan(from_half(&h.cx, scale)));
    }
    tiny_end(&h);
}
END_TEST

START_TEST(small_values_are_not_coded_as_zeros)
{
    const float x[3] = {-3 * 0x1p-24f, 2 * 0x1p-24f, 0x1p-24f};
    uint8_t code[3];
    uint16_t scale, low;
    pare__kv_code_int8(x, 3, code, &scale);
    ck_assert_uint_eq(scale, 1);
    ck_assert_mem_eq(code, "\175\202\201", 3); /* 128 - 3, + 2, + 1 */
    pare__kv_code_group(x, 1, 3, 4, code, &scale, &low);
    ck_assert_uint_eq(scale, 1);
    ck_assert_mem_eq(code, "\0\5\4", 3);
    pare__kv_code_levels(x, 3, value_levels, code, &scale, &low);
    ck_assert_uint_eq(scale, 3); /* 2.5 steps */
}
END_TEST

START_TEST(packed_rows_hold_codes_from_the_lowest_bit_up)
{
    const uint8_t code[] = {5, 2, 7, 0, 1, 6, 3, 4, 7, 1};
    uint8_t row[6];
    pare__kv_pack(row, code, 10, 3);
    /* 5 + 2 << 3 + 7 << 6 + 0 << 9 + 1 << 12 + 6 << 15 + 3 << 18 + 4 << 21; 7 + 1 << 3 */
    const uint32_t word = 5 | 2 << 3 | 7 << 6 | 1 << 12 | 6 << 15 | 3 << 18 | 4u << 21;
    const uint8_t want[] = {(uint8_t)word, (uint8_t)(word >> 8), (uint8_t)(word >> 16), 15, 0, 0};
    ck_assert_mem_eq(row, want, sizeof want);
}
END_TEST

/* --- attention -------------------------------------------------------------------------------- */

typedef struct fixture {
    tiny_home home;
    pare_model model;
    pare_forward f;
    pare_kv_levels levels;
    float q[ROWS * Q_WIDTH], k[ROWS * KV_WIDTH], v[ROWS * KV_WIDTH], out[ROWS * Q_WIDTH];
    double key[KV_HEADS][LENGTH][D], value[KV_HEADS][LENGTH][D]; /* as codes say, one sequence */
} fixture;

static void begin(fixture *x, size_t threads)
{
    tiny_begin(&x->home, threads);
    pare_arena *const a = &x->home.arena;
    x->model = tiny_model(a, tiny_kinds[0]);
    pare_rope *const r = &x->model.config.rope; /* two tables; the second is for this length */
    r->kind = PARE_ROPE_LONGROPE;
    r->original_context = LENGTH - 1;
    r->attention = 1.5;
    for (size_t i = 0; i < D / 2; i++)
        r->divisor[0][i] = 1, r->divisor[1][i] = 1 + (float)i / 4;
    ck_assert_int_eq(pare_forward_init(&x->home.cx, a, &x->model, LENGTH, true, &x->f), PARE_OK);
    x->levels = levels_of(a, 0);
    for (size_t i = 0; i < ROWS * Q_WIDTH; i++)
        x->q[i] = (float)pare_random_normal(50, 0, i);
    for (size_t i = 0; i < ROWS * KV_WIDTH; i++) {
        x->k[i] = (float)pare_random_normal(50, 1, i);
        x->v[i] = (float)pare_random_normal(50, 2, i);
    }
    pare__kv_round(&x->home.cx.kernels, x->k, ROWS * KV_WIDTH);
    pare__kv_round(&x->home.cx.kernels, x->v, ROWS * KV_WIDTH);
}

/* Rows [at, at + count) of every sequence of src as a batch of their own. */
static float *part_of(fixture *x, const float *src, size_t width, size_t at, size_t count)
{
    float *const part = tiny_take(&x->home.arena, SEQUENCES * count, width * sizeof *part);
    for (size_t s = 0; s < SEQUENCES; s++)
        memcpy(part + s * count * width, src + (s * LENGTH + at) * width,
               count * width * sizeof *part);
    return part;
}

static void attend(fixture *x, const pare_kv_format *f, size_t piece)
{
    pare_kv kv;
    pare_arena *const a = &x->home.arena;
    ck_assert_int_eq(
        pare_kv_take_format(a, &x->model.config, f, SEQUENCES, LENGTH + piece % 3, &kv), PARE_OK);
    for (size_t at = 0; at < LENGTH; at += piece) {
        const size_t count = LENGTH - at < piece ? LENGTH - at : piece;
        const float *const q = part_of(x, x->q, Q_WIDTH, at, count);
        float *const out = part_of(x, x->q, Q_WIDTH, at, count);
        const pare__kv_batch b = {.cx = &x->home.cx,
                                  .f = &x->f,
                                  .levels = &x->levels,
                                  .batch = {SEQUENCES, count, at},
                                  .kv = &kv,
                                  .k = part_of(x, x->k, KV_WIDTH, at, count),
                                  .v = part_of(x, x->v, KV_WIDTH, at, count)};
        ck_assert_int_eq(pare__kv_store(a, &b), PARE_OK);
        ck_assert_int_eq(pare__attention(a, &b, q, out), PARE_OK);
        pare__kv_keep(&b);
        for (size_t s = 0; s < SEQUENCES; s++)
            memcpy(x->out + (s * LENGTH + at) * Q_WIDTH, out + s * count * Q_WIDTH,
                   count * Q_WIDTH * sizeof *out);
    }
}

static double code_value(const pare_ctx *cx, double x, double min, double max, unsigned bits)
{
    const double top = (1 << bits) - 1, s = round_half(cx, (max - min) / top);
    return min + s * fmin(top, nearbyint((x - min) / s));
}

static double level_value(const float *levels, double x, double s, double l)
{
    double best = INFINITY;
    for (size_t i = 0; i < PARE_KV_LEVELS; i++) {
        const double v = (double)levels[i] * s + l;
        best = fabs(v - x) < fabs(best - x) ? v : best;
    }
    return best;
}

/* Smallest and largest of `n` values `step` apart. */
static void span(const float *x, size_t step, size_t n, double *min, double *max)
{
    *min = INFINITY;
    *max = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        *min = fmin(*min, (double)x[i * step]);
        *max = fmax(*max, (double)x[i * step]);
    }
}

/* The values that codes stand for, by their definitions. Heads are narrower than a group. */
static void plain_codes(fixture *x, const pare_kv_format *f, size_t sequence)
{
    const pare_ctx *const cx = &x->home.cx;
    for (size_t h = 0; h < KV_HEADS; h++)
        for (size_t t = 0; t < LENGTH; t++) {
            const size_t row = (sequence * LENGTH + t) * KV_WIDTH + h * D;
            double kmin, kmax, vmin, vmax;
            span(x->k + row, 1, D, &kmin, &kmax);
            span(x->v + row, 1, D, &vmin, &vmax);
            for (size_t c = 0; c < D; c++) {
                const double k = (double)x->k[row + c], v = (double)x->v[row + c];
                double *const key = &x->key[h][t][c], *const value = &x->value[h][t][c];
                if (f->method == PARE_KV_INT8) {
                    const double ks = round_half(cx, fmax(kmax, -kmin) / 127),
                                 vs = round_half(cx, fmax(vmax, -vmin) / 127);
                    *key = ks * fmin(127, fmax(-127, nearbyint(k / ks)));
                    *value = vs * fmin(127, fmax(-127, nearbyint(v / vs)));
                } else if (f->method == PARE_KV_INT4) {
                    *key = code_value(cx, k, kmin, kmax, 4);
                    *value = code_value(cx, v, vmin, vmax, 4);
                } else if (f->method == PARE_KV_KIVI) {
                    const size_t first = t / 32 * 32, left = LENGTH - first;
                    span(x->k + (sequence * LENGTH + first) * KV_WIDTH + h * D + c, KV_WIDTH,
                         left < 32 ? left : 32, &kmin, &kmax);
                    *key = code_value(cx, k, kmin, kmax, 2);
                    *value = code_value(cx, v, vmin, vmax, 2);
                } else {
                    *key = level_value(key_levels, k, from_half(cx, x->levels.key_scale[h * D + c]),
                                       from_half(cx, x->levels.key_low[h * D + c]));
                    *value = level_value(value_levels, v, round_half(cx, (vmax - vmin) / 2),
                                         round_half(cx, (vmax + vmin) / 2));
                }
            }
        }
}

static void plain_rope(const fixture *x, double *k, size_t position)
{
    for (size_t i = 0; i < D / 2; i++) {
        const double frequency =
            pow(x->model.config.rope.theta, -2 * (double)i / D) / (1 + (double)i / 4);
        const double c = 1.5 * cos((double)position * frequency),
                     s = 1.5 * sin((double)position * frequency);
        const double a = k[i], b = k[i + D / 2];
        k[i] = a * c - b * s;
        k[i + D / 2] = b * c + a * s;
    }
}

/* One query by definition: token j as a code when it is behind the window and no sink. */
static void plain_query(const fixture *x, const pare_kv_format *f, size_t sequence, size_t head,
                        size_t i, double *out)
{
    const size_t kh = head / (HEADS / KV_HEADS), old = i + 1 > f->window ? i + 1 - f->window : 0;
    const size_t old_keys = f->method == PARE_KV_KIVI ? old / 32 * 32 : old;
    double weight[LENGTH], total = 0, max = -INFINITY;
    const float *const q = x->q + (sequence * LENGTH + i) * Q_WIDTH + head * D;
    for (size_t j = 0; j <= i; j++) {
        const float *const row = x->k + (sequence * LENGTH + j) * KV_WIDTH + kh * D;
        double k[D];
        for (size_t c = 0; c < D; c++)
            k[c] = j >= f->sink && j < old_keys ? x->key[kh][j][c] : (double)row[c];
        if (f->method == PARE_KV_KVQUANT)
            plain_rope(x, k, j);
        weight[j] = 0;
        for (size_t c = 0; c < D; c++)
            weight[j] += (double)q[c] * k[c] / sqrt(D);
        max = fmax(max, weight[j]);
    }
    for (size_t j = 0; j <= i; j++)
        total += weight[j] = exp(weight[j] - max);
    for (size_t c = 0; c < D; c++) {
        out[c] = 0;
        for (size_t j = 0; j <= i; j++) {
            const float *const row = x->v + (sequence * LENGTH + j) * KV_WIDTH + kh * D;
            const bool coded = j >= f->sink && j < old;
            out[c] += weight[j] / total * (coded ? x->value[kh][j][c] : (double)row[c]);
        }
    }
}

START_TEST(a_query_reads_codes_exactly_where_the_definition_says)
{
    static fixture x;
    const pare_kv_format *const f = &formats[_i];
    begin(&x, 2);
    attend(&x, f, LENGTH);
    for (size_t s = 0; s < SEQUENCES; s++) {
        plain_codes(&x, f, s);
        for (size_t i = 0; i < LENGTH; i++)
            for (size_t h = 0; h < HEADS; h++) {
                double want[D];
                plain_query(&x, f, s, h, i, want);
                for (size_t c = 0; c < D; c++) {
                    const double is = (double)x.out[(s * LENGTH + i) * Q_WIDTH + h * D + c];
                    ck_assert_msg(fabs(is - want[c]) < 1e-5, "token %zu head %zu: %g %g", i, h, is,
                                  want[c]);
                }
            }
    }
    tiny_end(&x.home);
}
END_TEST

START_TEST(any_split_into_batches_gives_the_same_bytes)
{
    static fixture x;
    static float first[ROWS * Q_WIDTH];
    static const size_t piece[] = {LENGTH, 1, 7, 64, 45}, threads[] = {1, 2, 1, 2, 3};
    for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
        begin(&x, threads[i]);
        attend(&x, &formats[_i], piece[i]);
        if (i == 0)
            memcpy(first, x.out, sizeof first);
        ck_assert_mem_eq(first, x.out, sizeof first);
        tiny_end(&x.home);
    }
}
END_TEST

START_TEST(a_value_that_is_not_finite_reaches_the_output)
{
    static fixture x;
    /* keys in F16 are taken at their word: a weight may be 0 */
    const bool coded = pare_kv_coded(&formats[_i], true, LENGTH) > 3 && formats[_i].sink <= 3;
    for (size_t key = 0; key < (coded ? 2 : 1); key++) {
        begin(&x, 1);
        (key ? x.k : x.v)[3 * KV_WIDTH + 1] = key ? INFINITY : (float)NAN;
        attend(&x, &formats[_i], 1);
        ck_assert(isfinite(x.out[2 * Q_WIDTH]) && !isfinite(x.out[(LENGTH - 1) * Q_WIDTH + 1]));
        tiny_end(&x.home);
    }
}
END_TEST

/* --- the whole model -------------------------------------------------------------------------- */

static float *run_model(tiny_home *h, const pare_kv_format *f, size_t length, size_t piece)
{
    pare_model m = tiny_model(&h->arena, tiny_kinds[3]);
    const size_t hidden = m.config.hidden;
    pare_forward forward;
    pare_kv kv[2];
    m.kv = *f;
    for (size_t b = 0; b < 2; b++) {
        m.block[b].kv = levels_of(&h->arena, b);
        ck_assert_int_eq(pare_kv_take_format(&h->arena, &m.config, f, 1, length, &kv[b]), PARE_OK);
    }
    ck_assert_int_eq(pare_forward_init(&h->cx, &h->arena, &m, length, false, &forward), PARE_OK);
    float *const x = tiny_take(&h->arena, length, hidden * sizeof *x);
    ck_assert_int_eq(pare_embed(&h->cx, &m, tiny_tokens(&h->arena, 5, length), length, x), PARE_OK);
    for (size_t at = 0; at < length; at += piece) {
        const pare_batch batch = {1, length - at < piece ? length - at : piece, at};
        pare_arena scratch;
        const size_t bytes = pare_block_forward_scratch(&h->cx, &m.config, batch);
        ck_assert_int_eq(pare_arena_init(&h->cx, &scratch, bytes), PARE_OK);
        const size_t live = h->cx.live_bytes;
        ck_assert_int_eq(
            pare_model_forward(&h->cx, &scratch, &forward, batch, x + at * hidden, kv, 2), PARE_OK);
        ck_assert_uint_eq(h->cx.live_bytes, live); /* the bound held: no further block was taken */
        pare_arena_release(&scratch);
    }
    return x;
}

START_TEST(prefill_and_decode_of_a_model_give_the_same_bytes)
{
    enum { N = 80, SIZE = N * 44 };
    static float first[SIZE];
    static const size_t threads[] = {1, 2, 3, 1}, piece[] = {N, 1, N, 11};
    for (size_t i = 0; i < 4; i++) {
        tiny_home h;
        tiny_begin(&h, threads[i]);
        const float *const x = run_model(&h, &formats[_i], N, piece[i]);
        if (i == 0)
            memcpy(first, x, sizeof first);
        ck_assert_mem_eq(first, x, sizeof first);
        tiny_end(&h);
    }
}
END_TEST

/* --- memory ----------------------------------------------------------------------------------- */

START_TEST(bytes_per_token_follow_from_the_heads_of_keys_and_values)
{
    const pare_config c = {.blocks = 6, .heads = 8, .kv_heads = 4, .head_dim = 32};
    const double planes = 6 * 4;
    const struct {
        pare_kv_method method;
        double bytes;
    } want[] = {
        {PARE_KV_FLOAT, planes * 2 * 32 * 4},
        {PARE_KV_INT8, planes * 2 * (32 + 2)},
        {PARE_KV_INT4, planes * 2 * (16 + 4)},
        /* K: a scale and a low per channel for 32 tokens; V: for 32 channels of a token */
        {PARE_KV_KIVI, planes * (8 + 32 * 4 / 32. + 8 + 4)},
        {PARE_KV_KVQUANT, planes * (12 + 12 + 4)},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const pare_kv_format f = pare_kv_default(want[i].method);
        ck_assert_double_eq_tol(pare_kv_token_bytes(&c, &f), want[i].bytes, 1e-9);
    }
    const pare_kv_format kivi = pare_kv_default(PARE_KV_KIVI);
    ck_assert_uint_eq(pare_kv_float_bytes(&c, &kivi), 6 * 4 * 32 * 2 * 2 * (128 + 32));
}
END_TEST

START_TEST(a_cache_takes_what_its_bound_says_and_no_float_copy)
{
    const pare_config c = {.blocks = 1, .heads = 8, .kv_heads = 4, .head_dim = 64};
    for (size_t capacity = 1; capacity <= 4096; capacity *= 4) {
        const pare_kv_format *const f = &formats[_i];
        tiny_home h;
        pare_kv kv;
        tiny_begin(&h, 1);
        const size_t before = h.cx.live_bytes, bound = pare_kv_bytes(&c, f, 3, capacity);
        ck_assert_int_eq(pare_arena_init(&h.cx, &h.arena, bound), PARE_OK);
        const size_t live = h.cx.live_bytes;
        ck_assert_int_eq(pare_kv_take_format(&h.arena, &c, f, 3, capacity, &kv), PARE_OK);
        ck_assert_uint_eq(h.cx.live_bytes, live);
        ck_assert_ptr_null(kv.keys);
        const double tokens = 3.0 * (double)capacity;
        const double most =
            tokens * pare_kv_token_bytes(&c, f) + 3.0 * (double)pare_kv_float_bytes(&c, f) + 16384;
        ck_assert_double_le((double)(live - before), most);
        tiny_end(&h);
    }
    tiny_home h;
    pare_kv kv;
    tiny_begin(&h, 1);
    ck_assert_int_eq(pare_kv_take_format(&h.arena, &c, &formats[_i], SIZE_MAX / 2, 4096, &kv),
                     PARE_ENOMEM);
    ck_assert_uint_eq(pare_kv_bytes(&c, &formats[_i], SIZE_MAX / 2, 4096), SIZE_MAX);
    tiny_end(&h);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    bool passed = false;
    for (long n = 0; !passed; n++) {
        tiny_home h;
        tiny_begin(&h, 1);
        pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
        m.block[0].kv = levels_of(&h.arena, 0);
        pare_forward f;
        pare_kv kv;
        float x[5 * 44] = {0};
        ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 5, false, &f), PARE_OK);
        const pare_alloc plain = h.cx.alloc;
        unit_failing failing = {.left = n};
        h.cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        pare_arena caches = {.cx = &h.cx}, scratch = {.cx = &h.cx};
        pare_status s = pare_kv_take_format(&caches, &m.config, &formats[_i], 1, 5, &kv);
        if (s == PARE_OK)
            s = pare_block_forward(&h.cx, &scratch, &f, m.block, (pare_batch){1, 5, 0}, x, &kv,
                                   NULL);
        pare_arena_release(&scratch);
        pare_arena_release(&caches);
        ck_assert_int_eq(failing.live, 0);
        h.cx.alloc = plain;
        passed = s == PARE_OK;
        if (!passed)
            ck_assert_int_eq(s, PARE_ENOMEM);
        tiny_end(&h);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("kv");
    TCase *const c = tcase_create("kv");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, an_asymmetric_group_spans_its_smallest_and_largest_value);
    tcase_add_test(c, int8_is_symmetric_and_its_largest_value_is_127_steps);
    tcase_add_test(c, levels_are_picked_by_distance);
    tcase_add_test(c, equal_values_cost_nothing_and_broken_ones_are_not_hidden);
    tcase_add_test(c, small_values_are_not_coded_as_zeros);
    tcase_add_test(c, packed_rows_hold_codes_from_the_lowest_bit_up);
    tcase_add_loop_test(c, a_query_reads_codes_exactly_where_the_definition_says, 0, FORMATS);
    tcase_add_loop_test(c, any_split_into_batches_gives_the_same_bytes, 0, FORMATS);
    tcase_add_loop_test(c, a_value_that_is_not_finite_reaches_the_output, 0, FORMATS);
    tcase_add_loop_test(c, prefill_and_decode_of_a_model_give_the_same_bytes, 0, FORMATS);
    tcase_add_test(c, bytes_per_token_follow_from_the_heads_of_keys_and_values);
    tcase_add_loop_test(c, a_cache_takes_what_its_bound_says_and_no_float_copy, 0, FORMATS);
    tcase_add_loop_test(c, every_refused_allocation_is_reported_and_nothing_leaks, 0, FORMATS);
    suite_add_tcase(s, c);
    return unit_main(s);
}
