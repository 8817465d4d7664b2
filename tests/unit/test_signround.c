#include "quant/signround.h"

#include "calib/wave.h"
#include "compress/passes/learned_block.h"
#include "kernels/half.h"
#include "tests/unit/block_case.h"

enum { GROUP = 32 };

/* A group that is rounded with offsets. */
typedef struct offset_case {
    pare_grid grid;
    float low, high;
} offset_case;

static const offset_case offset_cases[] = {
    {{.bits = 2, .group = GROUP}, 1, 1},
    {{.bits = 3, .group = GROUP}, 0.9F, 0.6F},
    {{.bits = 4, .group = GROUP, .f16_scales = true}, 0.8F, 1},
    {{.bits = 3, .group = GROUP, .symmetric = true}, 1, 0.95F},
    {{.bits = 2, .group = GROUP, .symmetric = true, .f16_scales = true}, 0.95F, 0.3F},
    /* a scale below 0 that hi sets, one above 0 that hi sets; before: lo sets both */
    {{.bits = 3, .group = GROUP, .symmetric = true}, 0.6F, 0.95F},
    {{.bits = 2, .group = GROUP, .symmetric = true}, 0.95F, 0.5F},
};

/* Weights, one of them 0, and offsets of up to half a step. */
static void make_group(float w[GROUP], float v[GROUP])
{
    for (size_t j = 0; j < GROUP; j++) {
        w[j] = j == 7 ? 0 : (float)pare_random_normal(1, 0, j);
        v[j] = (float)pare_random_unit(2, 0, j) - 0.5F;
    }
}

/* The step as it is stored: F16 where the grid says so. */
static double step_of(const pare_grid *g, double floor, double ceil)
{
    const double d = covering_step(g, floor, ceil);
    return g->f16_scales ? copysign((double)pare_f16_scale((float)fabs(d)), d) : d;
}

/* Weights are rounded to round(w / d + v) d, but for those that are 0, set the range or would leave
 * it; and what is left for rounding to nearest gets the same values. */
START_TEST(offsets_choose_the_way_to_round)
{
    const offset_case *const c = &offset_cases[_i];
    tiny_home h;
    tiny_begin(&h, 1);
    float w[GROUP], v[GROUP], q[GROUP];
    double lo = 0, hi = 0;
    size_t other = 0;
    make_group(w, v);
    for (size_t j = 0; j < GROUP; j++) {
        lo = fmin(lo, (double)w[j]);
        hi = fmax(hi, (double)w[j]);
    }
    const double floor_at = (double)c->low * lo, ceil_at = (double)c->high * hi,
                 d = step_of(&c->grid, floor_at, ceil_at);
    const pare_learned_rounding r = {&c->grid, 1, GROUP, &c->low, &c->high, v};
    pare_learned_values(&h.cx, &r, w, q);
    for (size_t j = 0; j < GROUP; j++) {
        const double x = (double)w[j];
        const bool fixed = x == lo || x == hi || x == 0;
        const double at = fmin(fmax(x + (fixed ? 0 : (double)v[j] * d), floor_at), ceil_at) / d;
        const double shift = c->grid.symmetric ? 0 : rint(-floor_at / d); /* the zero point */
        const double want = (fmin(fmax(rint(at) + shift, c->grid.symmetric ? -HUGE_VAL : 0),
                                  c->grid.symmetric ? HUGE_VAL : (1u << c->grid.bits) - 1) -
                             shift) *
                            d;
        ck_assert_msg(fabs(want - (double)q[j]) < 1e-5, "%zu: %g %g", j, want, (double)q[j]);
        other += rint(at) != rint(fmin(fmax(x, floor_at), ceil_at) / d);
    }
    ck_assert_uint_ge(other, 3); /* not what rounding to nearest gives */
    pare_codes codes;
    ck_assert_int_eq(pare_codes_take(&h.arena, &c->grid, 1, GROUP, &codes), PARE_OK);
    pare_learned_apply(&h.cx, &r, w);
    ck_assert_int_eq(pare_rtn_quantize(&h.cx, &c->grid, w, NULL, 1, GROUP, &codes), PARE_OK);
    pare_codes_values(&c->grid, &codes, w);
    ck_assert_mem_eq(w, q, sizeof q);
    tiny_end(&h);
}
END_TEST

/* q as the gradient sees it: w + d v inside the range, the bound outside, and the distance to the
 * grid, in steps, frozen at e. The sum over g q. */
static double frozen_loss(const offset_case *c, const float *w, const double *v, const float *g,
                          const double *e, double low, double high)
{
    double lo = 0, hi = 0, sum = 0;
    for (size_t j = 0; j < GROUP; j++) {
        lo = fmin(lo, (double)w[j]);
        hi = fmax(hi, (double)w[j]);
    }
    pare_grid exact = c->grid;
    exact.f16_scales = false;
    const double d = step_of(&exact, low * lo, high * hi);
    for (size_t j = 0; j < GROUP; j++) {
        const double x = (double)w[j];
        const bool fixed = x == lo || x == hi || x == 0;
        const double u = x + (fixed ? 0 : v[j] * d);
        sum += (double)g[j] * (fmin(fmax(u, low * lo), high * hi) + e[j] * d);
    }
    return sum;
}

START_TEST(gradients_equal_differences_with_the_rounding_frozen)
{
    offset_case c = offset_cases[_i];
    c.grid.f16_scales = false;
    tiny_home h;
    tiny_begin(&h, 1);
    const double step = 1e-6, low = (double)c.low, high = (double)c.high;
    float w[GROUP], v[GROUP], q[GROUP], g[GROUP], d[GROUP], dlow, dhigh;
    double exact[GROUP], e[GROUP], one[GROUP] = {0};
    make_group(w, v);
    for (size_t j = 0; j < GROUP; j++) {
        exact[j] = (double)v[j];
        g[j] = d[j] = (float)pare_random_normal(1, 1, j);
    }
    const pare_learned_rounding r = {&c.grid, 1, GROUP, &c.low, &c.high, v};
    pare_learned_values(&h.cx, &r, w, q);
    pare_learned_backward(&h.cx, &r, w, d, &dlow, &dhigh);
    for (size_t j = 0; j < GROUP; j++) { /* the distance that rounding went */
        float pick[GROUP] = {0};
        pick[j] = 1;
        const double at = frozen_loss(&c, w, exact, pick, one, low, high);
        one[j] = 1;
        const double scale = frozen_loss(&c, w, exact, pick, one, low, high) - at;
        one[j] = 0;
        e[j] = ((double)q[j] - at) / scale;
        ck_assert_double_le(fabs(e[j]), 0.5 + 1e-5);
    }
    double want = (frozen_loss(&c, w, exact, g, e, low + step, high) -
                   frozen_loss(&c, w, exact, g, e, low - step, high)) /
                  (2 * step);
    /* at 1 the extreme weight stops to be clamped */
    ck_assert_msg(fabs(want - (double)dlow) < 1e-4 || c.low == 1, "low %g %g", want, (double)dlow);
    want = (frozen_loss(&c, w, exact, g, e, low, high + step) -
            frozen_loss(&c, w, exact, g, e, low, high - step)) /
           (2 * step);
    ck_assert_msg(fabs(want - (double)dhigh) < 1e-4 || c.high == 1, "high %g %g", want,
                  (double)dhigh);
    for (size_t j = 0; j < GROUP; j++) {
        exact[j] += step;
        want = frozen_loss(&c, w, exact, g, e, low, high);
        exact[j] -= 2 * step;
        want = (want - frozen_loss(&c, w, exact, g, e, low, high)) / (2 * step);
        exact[j] += step;
        ck_assert_msg(fabs(want - (double)d[j]) < 1e-4, "%zu %g %g", j, want, (double)d[j]);
    }
    tiny_end(&h);
}
END_TEST

static const pare_signround_opts usual = {.steps = 40, .batch = 3, .clip = true, .stream = 5};

static pare_status learn(home *m, const pare_signround_opts *opts, pare_signround_found *found)
{
    return pare_signround_learn(&m->h.cx, &m->h.arena, opts, &m->data, found);
}

/* Loss of what would be stored: what is left for rounding to nearest, rounded to nearest. */
static double stored_loss(home *m, const pare_signround_found *found)
{
    pare_block b;
    copy_block(m, &b);
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++) {
        const pare_linear *const l = &m->block.linear[r];
        const pare_learned_rounding rounding = {&m->grid,      l->n,           l->k,
                                                found->low[r], found->high[r], found->offset[r]};
        pare_learned_apply(&m->h.cx, &rounding, b.linear[r].floats);
    }
    return rounded_loss(m, &b);
}

START_TEST(what_is_learned_beats_plain_rounding_by_the_loss_that_is_told)
{
    static home m;
    begin(&m, 2, (unsigned[]){2, 3, 4}[_i]);
    pare_signround_found found;
    const pare_signround_found plain = {0};
    ck_assert_int_eq(learn(&m, &usual, &found), PARE_OK);
    ck_assert(!found.kept);
    ck_assert_double_eq_tol(found.before, stored_loss(&m, &plain), 1e-5 * found.before);
    ck_assert_double_eq_tol(found.after, stored_loss(&m, &found), 1e-5 * found.after);
    ck_assert_msg(found.after < 0.6 * found.before, "%g %g", found.before, found.after);
    tiny_end(&m.h);
}
END_TEST

/* Ranges alone move where clip says so, and offsets move in steps of the rate. */
START_TEST(steps_have_the_size_of_the_rate)
{
    static home m;
    begin(&m, 1, 3);
    const pare_signround_opts opts = {.steps = 4, .batch = SAMPLES, .rate = 0.01};
    pare_signround_found found;
    ck_assert_int_eq(learn(&m, &opts, &found), PARE_OK);
    ck_assert(!found.kept);
    size_t moved = 0;
    const pare_linear *const l = &m.block.linear[PARE_ROLE_UP];
    for (size_t i = 0; i < l->n * l->k; i++) {
        /* .01, .0075, .005, .0025, each with a sign: multiples of .0025, odd ones are none */
        const double steps = (double)found.offset[PARE_ROLE_UP][i] / 0.0025;
        ck_assert_double_le(fabs(steps - rint(steps)), 1e-3);
        ck_assert_double_le(fabs(steps), 10 + 1e-3);
        moved += steps != 0;
    }
    ck_assert_uint_ge(moved, l->n * l->k / 2);
    for (size_t i = 0; i < l->n * l->k / 32; i++)
        ck_assert(found.low[PARE_ROLE_UP][i] == 1 && found.high[PARE_ROLE_UP][i] == 1);
    tiny_end(&m.h);
}
END_TEST

START_TEST(steps_draw_their_windows_anew)
{
    static home m;
    begin(&m, 1, 3);
    const pare_signround_opts opts = {.steps = 30, .batch = 1};
    pare_signround_found found;
    size_t steps = 0;
    ck_assert_int_eq(learn(&m, &opts, &found), PARE_OK);
    for (size_t i = 0; i < SAMPLES; i++) {
        ck_assert_uint_gt(m.reads[i], 2); /* both measurements, and a step */
        steps += m.reads[i] - 2;
    }
    ck_assert_uint_eq(steps, opts.steps);
    tiny_end(&m.h);
}
END_TEST

START_TEST(any_thread_count_learns_the_same_bytes)
{
    static home first, m;
    pare_signround_found want, found;
    pare_signround_opts opts = usual;
    opts.steps = 12;
    begin(&first, 1, 3);
    ck_assert_int_eq(learn(&first, &opts, &want), PARE_OK);
    begin(&m, 3, 3);
    ck_assert_int_eq(learn(&m, &opts, &found), PARE_OK);
    ck_assert(want.after == found.after && want.before == found.before);
    ck_assert(!found.kept);
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++) {
        const size_t weights = m.block.linear[r].n * m.block.linear[r].k;
        ck_assert_mem_eq(want.offset[r], found.offset[r], weights * sizeof(float));
        ck_assert_mem_eq(want.low[r], found.low[r], weights / 32 * sizeof(float));
        ck_assert_mem_eq(want.high[r], found.high[r], weights / 32 * sizeof(float));
    }
    opts.seed = 1; /* other windows */
    ck_assert_int_eq(learn(&m, &opts, &found), PARE_OK);
    ck_assert(want.after != found.after);
    tiny_end(&m.h);
    tiny_end(&first.h);
}
END_TEST

START_TEST(plain_rounding_is_kept_when_nothing_better_is_found)
{
    static home m;
    begin(&m, 1, 4);
    m.data.current = &m.current;
    memcpy(m.y, m.x, sizeof m.y); /* an output that nothing explains */
    for (size_t i = 0; i < sizeof m.y / sizeof *m.y; i++)
        m.y[i] = 1e6F * (float)pare_random_normal(9, 9, i);
    pare_signround_opts opts = usual;
    opts.steps = 1;
    opts.rate = 1e-30;
    pare_signround_found found;
    ck_assert_int_eq(learn(&m, &opts, &found), PARE_OK);
    ck_assert(found.kept && found.before == found.after);
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++)
        ck_assert(!found.offset[r] && !found.low[r] && !found.high[r]);
    tiny_end(&m.h);
}
END_TEST

/* What was spoiled in *m ends with this status and message. */
static void ends_with(home *m, pare_status status, const char *message)
{
    pare_signround_found found;
    ck_assert_int_eq(learn(m, &usual, &found), status);
    ck_assert_msg(strstr(m->h.cx.what, message) != NULL, "%s", m->h.cx.what);
    tiny_end(&m->h);
}

START_TEST(what_cannot_be_learned_is_told)
{
    static home m;
    begin(&m, 1, 4);
    m.grid.encoding = PARE_ENCODING_NF4;
    ends_with(&m, PARE_ENOTSUP, "signround learns to round to uniform grids only");
    begin(&m, 1, 4);
    m.y[17] = NAN;
    ends_with(&m, PARE_ENUMERIC, "not finite");
    begin(&m, 1, 4);
    m.reads_left = 7;
    ends_with(&m, PARE_EIO, "no more windows");
    begin(&m, 1, 4);
    const volatile int interrupts = 1;
    m.h.cx.interrupt = &interrupts;
    ends_with(&m, PARE_EINTERRUPTED, "");
}
END_TEST

static pare_signround_opts one_step(void)
{
    pare_signround_opts opts = usual;
    opts.steps = 1;
    opts.batch = SAMPLES;
    return opts;
}

static pare_status learn_once(home *m, pare_arena *a)
{
    const pare_signround_opts opts = one_step();
    pare_signround_found found;
    return pare_signround_learn(&m->h.cx, a, &opts, &m->data, &found);
}

START_TEST(memory_stays_within_its_bound_and_may_end_anywhere)
{
    static home m;
    begin(&m, 2, 3);
    const pare_signround_opts opts = one_step();
    check_memory(&m, learn_once, pare_signround_bytes(&m.h.cx, &m.model.config, &opts, WINDOW));
    tiny_end(&m.h);
}
END_TEST

/* Wanted outputs are those of the float model, where its inputs of the block are at hand; else what
 * the float block makes of the inputs behind the compressed ones. Kept ones are the same. */
START_TEST(what_is_wanted_comes_from_the_float_model)
{
    static home m;
    static float other[SAMPLES * WINDOW * HIDDEN], x[SAMPLES * WINDOW * HIDDEN],
        y[SAMPLES * WINDOW * HIDDEN], want[SAMPLES * WINDOW * HIDDEN];
    begin(&m, 1, 4);
    memcpy(want, m.y, sizeof want);
    memcpy(other, m.x, sizeof other);
    pare_wave wave = {
        .samples = SAMPLES, .window = WINDOW, .hidden = HIDDEN, .end = SAMPLES, .x = m.x};
    pare_wave floats = wave;
    floats.x = other;
    pare_pass_block block = {.config = &m.model.config,
                             .current = &m.current,
                             .reference = &m.current,
                             .forward = &m.f,
                             .wave = &wave};
    for (size_t i = 0; i < sizeof m.x / sizeof *m.x; i++)
        m.x[i] = 0.5F * other[i];
    for (int beside = 0; beside < 2; beside++) {
        pare_learned_block from;
        pare_block_data data;
        block.floats = beside ? &floats : NULL;
        run_block(&m, &m.current, y); /* of m.x */
        ck_assert_mem_ne(y, want, sizeof y);
        const float *const wanted = beside ? want : y;
        static float got[SAMPLES * WINDOW * HIDDEN];
        ck_assert_int_eq(pare_learned_block_begin(&m.h.cx, &m.h.arena, &block, &from, &data),
                         PARE_OK);
        for (int again = 0; again < 2; again++) {
            ck_assert_int_eq(data.read(data.self, 0, SAMPLES, x, got), PARE_OK);
            ck_assert_mem_eq(x, m.x, sizeof x);
            ck_assert_mem_eq(got, wanted, sizeof got);
        }
    }
    tiny_end(&m.h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("signround");
    TCase *const t = tcase_create("signround");
    tcase_set_timeout(t, 120);
    const int cases = (int)(sizeof offset_cases / sizeof *offset_cases);
    tcase_add_loop_test(t, offsets_choose_the_way_to_round, 0, cases);
    tcase_add_loop_test(t, gradients_equal_differences_with_the_rounding_frozen, 0, cases);
    tcase_add_loop_test(t, what_is_learned_beats_plain_rounding_by_the_loss_that_is_told, 0, 3);
    tcase_add_test(t, steps_have_the_size_of_the_rate);
    tcase_add_test(t, steps_draw_their_windows_anew);
    tcase_add_test(t, any_thread_count_learns_the_same_bytes);
    tcase_add_test(t, plain_rounding_is_kept_when_nothing_better_is_found);
    tcase_add_test(t, what_is_wanted_comes_from_the_float_model);
    tcase_add_test(t, what_cannot_be_learned_is_told);
    tcase_add_test(t, memory_stays_within_its_bound_and_may_end_anywhere);
    suite_add_tcase(s, t);
    return unit_main(s);
}
