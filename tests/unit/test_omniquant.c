#include "quant/omniquant.h"

#include "tests/unit/block_case.h"

/* Rounding as the gradient sees it: the distance to the grid, in steps, is frozen at `frozen`. */
static double value_frozen(const pare_grid *g, const double *w, size_t count, size_t j, double low,
                           double high, double frozen)
{
    double lo = 0, hi = 0;
    for (size_t i = 0; i < count; i++) {
        lo = fmin(lo, w[i]);
        hi = fmax(hi, w[i]);
    }
    lo *= low;
    hi *= high;
    return fmin(fmax(w[j], lo), hi) + frozen * covering_step(g, lo, hi);
}

typedef struct group_case {
    pare_grid grid;
    float low, high;
} group_case;

static const group_case group_cases[] = {
    {{.bits = 2, .group = 32}, 0.7F, 0.8F},
    {{.bits = 3, .group = 32}, 0.9F, 0.6F},
    {{.bits = 4, .group = 32}, 1, 1},
    {{.bits = 3, .group = 32, .symmetric = true}, 0.9F, 0.95F},
    {{.bits = 2, .group = 32, .symmetric = true}, 0.95F, 0.5F},
    {{.bits = 2, .group = 32, .symmetric = true}, 0.95F, 0.3F},
    {{.bits = 3, .group = 32, .symmetric = true}, 0.6F, 0.95F}, /* hi sets a scale below 0 */
};

/* sum_j g_j value_frozen(j), the loss whose slope the code under test gives. */
static double frozen_loss(const group_case *c, const double *w, const float *g, const double *e,
                          double low, double high)
{
    double sum = 0;
    for (size_t j = 0; j < 32; j++)
        sum += (double)g[j] * value_frozen(&c->grid, w, 32, j, low, high, e[j]);
    return sum;
}

START_TEST(the_gradient_of_rounding_equals_differences_with_the_rounding_frozen)
{
    const group_case *const c = &group_cases[_i];
    tiny_home h;
    tiny_begin(&h, 1);
    float w[32], q[32], g[32], d[32], dlow, dhigh;
    double exact[32], e[32];
    for (size_t j = 0; j < 32; j++) {
        w[j] = (float)pare_random_normal(1, 0, j);
        exact[j] = (double)w[j];
        d[j] = g[j] = (float)pare_random_normal(1, 1, j);
    }
    const pare_learned_rounding clip = {
        .grid = &c->grid, .n = 1, .k = 32, .low = &c->low, .high = &c->high};
    const double low = (double)c->low, high = (double)c->high, step = 1e-6;
    pare_learned_values(&h.cx, &clip, w, q);
    pare_learned_backward(&h.cx, &clip, w, d, &dlow, &dhigh);
    double scale = value_frozen(&c->grid, exact, 32, 0, low, high, 1) -
                   value_frozen(&c->grid, exact, 32, 0, low, high, 0);
    for (size_t j = 0; j < 32; j++)
        e[j] = ((double)q[j] - value_frozen(&c->grid, exact, 32, j, low, high, 0)) / scale;
    double want = (frozen_loss(c, exact, g, e, low + step, high) -
                   frozen_loss(c, exact, g, e, low - step, high)) /
                  (2 * step);
    /* below 1 the extreme weight is clamped, above it is not */
    ck_assert_msg(fabs(want - (double)dlow) < 1e-4 || c->low == 1, "low %g %g", want, (double)dlow);
    want = (frozen_loss(c, exact, g, e, low, high + step) -
            frozen_loss(c, exact, g, e, low, high - step)) /
           (2 * step);
    ck_assert_msg(fabs(want - (double)dhigh) < 1e-4 || c->high == 1, "high %g %g", want,
                  (double)dhigh);
    for (size_t j = 0; j < 32; j++) {
        exact[j] += step;
        want = frozen_loss(c, exact, g, e, low, high);
        exact[j] -= 2 * step;
        want = (want - frozen_loss(c, exact, g, e, low, high)) / (2 * step);
        exact[j] += step;
        ck_assert_msg(fabs(want - (double)d[j]) < 1e-4, "%zu %g %g", j, want, (double)d[j]);
    }
    tiny_end(&h);
}
END_TEST

/* Loss of what would be stored: folds and clamps applied, then round to nearest. */
static double stored_loss(home *m, const pare_omniquant_found *found)
{
    pare_block b;
    const pare_config *const c = &m->model.config;
    copy_block(m, &b);
    for (unsigned s = 0; s < PARE_SITES; s++)
        if (found->scale[s])
            ck_assert_int_eq(pare_fold_scale(&m->h.cx, c, &b, (pare_site)s, found->scale[s]),
                             PARE_OK);
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++) {
        const pare_linear *const l = &m->block.linear[r];
        if (found->low[r])
            pare_learned_apply(
                &m->h.cx,
                &(pare_learned_rounding){&m->grid, l->n, l->k, found->low[r], found->high[r], NULL},
                b.linear[r].floats);
    }
    return rounded_loss(m, &b);
}

static const pare_omniquant_opts usual = {.epochs = 12,
                                          .batch = 2,
                                          .clip = true,
                                          .clip_rate = 2e-2,
                                          .scale_rate = 1e-2,
                                          .scales = (1u << PARE_SITES) - 1};

static pare_status learn(home *m, const pare_omniquant_opts *opts, pare_omniquant_found *found)
{
    return pare_omniquant_learn(&m->h.cx, &m->h.arena, opts, &m->data, found);
}

START_TEST(what_is_learned_beats_plain_rounding_by_the_loss_that_is_told)
{
    static home m;
    begin(&m, 2, (unsigned[]){2, 3}[_i]);
    pare_omniquant_found found;
    ck_assert_int_eq(learn(&m, &usual, &found), PARE_OK);
    const pare_omniquant_found plain = {0};
    ck_assert(!found.kept);
    ck_assert_double_eq_tol(found.before, stored_loss(&m, &plain), 1e-5 * found.before);
    ck_assert_double_eq_tol(found.after, stored_loss(&m, &found), 1e-5 * found.after);
    ck_assert_msg(found.after < 0.8 * found.before, "%g %g", found.before, found.after);
    tiny_end(&m.h);
}
END_TEST

/* Scales of one site alone, after bad ones were folded into it: the gradient of each kind of
 * producer has the right sign. */
START_TEST(scales_of_every_site_lower_the_loss_by_themselves)
{
    static home m;
    begin(&m, 2, 3);
    pare_omniquant_opts opts = usual;
    opts.clip = false;
    const pare_site site = tiny_sites[_i];
    opts.scales = 1u << site;
    opts.batch = SAMPLES;
    opts.epochs = 60;
    float bad[INNER];
    for (size_t i = 0; i < INNER; i++)
        bad[i] = expf((float)pare_random_normal(6, 1, i));
    ck_assert_int_eq(pare_fold_scale(&m.h.cx, &m.model.config, &m.current, site, bad), PARE_OK);
    pare_omniquant_found found;
    ck_assert_int_eq(learn(&m, &opts, &found), PARE_OK);
    ck_assert(!found.kept);
    for (size_t s = 0; s < PARE_SITES; s++)
        ck_assert_int_eq(found.scale[s] != NULL, s == site);
    ck_assert_ptr_null(found.low[0]);
    ck_assert_double_eq_tol(found.after, stored_loss(&m, &found), 1e-5 * found.after);
    ck_assert_msg(found.after < 0.9 * found.before, "%g %g", found.before, found.after);
    tiny_end(&m.h);
}
END_TEST

START_TEST(any_thread_count_learns_the_same_bytes)
{
    static home first, m;
    pare_omniquant_found want, found;
    pare_omniquant_opts opts = usual;
    opts.epochs = 2;
    begin(&first, 1, 3);
    ck_assert_int_eq(learn(&first, &opts, &want), PARE_OK);
    begin(&m, 3, 3);
    ck_assert_int_eq(learn(&m, &opts, &found), PARE_OK);
    ck_assert(want.after == found.after && want.before == found.before);
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++) {
        const size_t bytes = m.block.linear[r].n * (m.block.linear[r].k / 32) * sizeof(float);
        ck_assert_mem_eq(want.low[r], found.low[r], bytes);
        ck_assert_mem_eq(want.high[r], found.high[r], bytes);
    }
    ck_assert_mem_eq(want.scale[PARE_SITE_ATTENDED], found.scale[PARE_SITE_ATTENDED],
                     32 * sizeof(float));
    tiny_end(&m.h);
    tiny_end(&first.h);
}
END_TEST

START_TEST(plain_rounding_is_kept_when_nothing_better_is_found)
{
    static home m;
    begin(&m, 1, 3);
    pare_omniquant_opts opts = usual;
    opts.epochs = 1;
    opts.clip_rate = opts.scale_rate = 3; /* leaps away */
    pare_omniquant_found found;
    ck_assert_int_eq(learn(&m, &opts, &found), PARE_OK);
    ck_assert(found.kept && found.before == found.after);
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++)
        ck_assert_ptr_null(found.low[r]);
    tiny_end(&m.h);
}
END_TEST

START_TEST(plain_rounding_is_kept_when_learning_leaves_the_range_of_floats)
{
    static home m;
    begin(&m, 1, 3);
    pare_omniquant_opts opts = usual;
    opts.epochs = 200;
    opts.clip = false;
    opts.scale_rate = 30;
    pare_omniquant_found found;
    ck_assert_int_eq(learn(&m, &opts, &found), PARE_OK);
    ck_assert(found.kept && found.before == found.after);
    ck_assert_ptr_null(found.scale[PARE_SITE_MLP]);
    tiny_end(&m.h);
}
END_TEST

START_TEST(rounded_inputs_are_part_of_the_loss)
{
    static home m;
    begin(&m, 1, 3);
    pare_omniquant_opts opts = usual;
    opts.epochs = 1;
    pare_omniquant_found floats, found;
    ck_assert_int_eq(learn(&m, &opts, &floats), PARE_OK);
    m.data.activation[PARE_SITE_MLP] = (pare_activation){PARE_ACTIVATION_TOKEN, 4, 0};
    ck_assert_int_eq(learn(&m, &opts, &found), PARE_OK);
    ck_assert_double_gt(found.before, 1.02 * floats.before);
    tiny_end(&m.h);
}
END_TEST

/* A loud channel spoils the codes of its own group of 32 inputs, and of no other. */
START_TEST(inputs_share_a_scale_as_the_weights_behind_them)
{
    static home m;
    begin(&m, 1, 8);
    m.current.norm[1][3] *= 30;
    run_block(&m, &m.current, m.y);
    pare_omniquant_opts opts = usual;
    opts.epochs = 1;
    pare_omniquant_found token, group;
    m.data.activation[PARE_SITE_MLP] = (pare_activation){PARE_ACTIVATION_TOKEN, 4, 0};
    ck_assert_int_eq(learn(&m, &opts, &token), PARE_OK);
    m.data.activation[PARE_SITE_MLP].mode = PARE_ACTIVATION_GROUP;
    ck_assert_int_eq(learn(&m, &opts, &group), PARE_OK);
    ck_assert_double_lt(group.before, 0.75 * token.before);
    tiny_end(&m.h);
}
END_TEST

/* What was spoiled in *m ends with this status and message. */
static void ends_with(home *m, pare_status status, const char *message)
{
    pare_omniquant_found found;
    ck_assert_int_eq(learn(m, &usual, &found), status);
    ck_assert_msg(strstr(m->h.cx.what, message) != NULL, "%s", m->h.cx.what);
    tiny_end(&m->h);
}

START_TEST(grids_that_are_not_uniform_are_refused)
{
    static home m;
    begin(&m, 1, 4);
    m.grid.encoding = PARE_ENCODING_NF4;
    ends_with(&m, PARE_ENOTSUP, "uniform grids only");
}
END_TEST

START_TEST(values_that_are_not_finite_end_the_descent)
{
    static home m;
    begin(&m, 1, 4);
    m.y[17] = NAN;
    ends_with(&m, PARE_ENUMERIC, "not finite");
}
END_TEST

START_TEST(an_interrupt_and_a_failed_read_stop_at_the_next_batch)
{
    static home m;
    begin(&m, 1, 4);
    pare_omniquant_found found;
    m.reads_left = 5;
    ck_assert_int_eq(learn(&m, &usual, &found), PARE_EIO);
    pare_ctx_clear(&m.h.cx);
    m.reads_left = -1;
    const volatile int interrupts = 1;
    m.h.cx.interrupt = &interrupts;
    ck_assert_int_eq(learn(&m, &usual, &found), PARE_EINTERRUPTED);
    ck_assert_int_eq(m.reads_left, -1);
    tiny_end(&m.h);
}
END_TEST

static pare_omniquant_opts one_step(void)
{
    pare_omniquant_opts opts = usual;
    opts.epochs = 1;
    opts.batch = SAMPLES;
    return opts;
}

static pare_status learn_once(home *m, pare_arena *a)
{
    const pare_omniquant_opts opts = one_step();
    pare_omniquant_found found;
    return pare_omniquant_learn(&m->h.cx, a, &opts, &m->data, &found);
}

START_TEST(memory_stays_within_its_bound_and_may_end_anywhere)
{
    static home m;
    begin(&m, 2, 3);
    const pare_omniquant_opts opts = one_step();
    check_memory(&m, learn_once, pare_omniquant_bytes(&m.h.cx, &m.model.config, &opts, WINDOW));
    tiny_end(&m.h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("omniquant");
    TCase *const t = tcase_create("omniquant");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, the_gradient_of_rounding_equals_differences_with_the_rounding_frozen, 0,
                        (int)(sizeof group_cases / sizeof *group_cases));
    tcase_add_loop_test(t, what_is_learned_beats_plain_rounding_by_the_loss_that_is_told, 0, 2);
    tcase_add_loop_test(t, scales_of_every_site_lower_the_loss_by_themselves, 0, TINY_SITES);
    tcase_add_test(t, any_thread_count_learns_the_same_bytes);
    tcase_add_test(t, plain_rounding_is_kept_when_nothing_better_is_found);
    tcase_add_test(t, plain_rounding_is_kept_when_learning_leaves_the_range_of_floats);
    tcase_add_test(t, rounded_inputs_are_part_of_the_loss);
    tcase_add_test(t, inputs_share_a_scale_as_the_weights_behind_them);
    tcase_add_test(t, grids_that_are_not_uniform_are_refused);
    tcase_add_test(t, values_that_are_not_finite_end_the_descent);
    tcase_add_test(t, an_interrupt_and_a_failed_read_stop_at_the_next_batch);
    tcase_add_test(t, memory_stays_within_its_bound_and_may_end_anywhere);
    suite_add_tcase(s, t);
    return unit_main(s);
}
