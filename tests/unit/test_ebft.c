/* What is left of a pruned block, trained on its outputs. */
#include "distill/ebft.h"
#include "tests/unit/block_case.h"

enum { ALL = (1 << PARE_COMMON_ROLES) - 1 };

static const pare_ebft_opts usual = {.epochs = 15, .batch = 2, .rate = 3e-3, .stream = 5};

static bool is_pruned(const pare_linear *l, size_t i)
{
    return (i / l->k + i % l->k) % 2 == 1;
}

/* A block with every other weight 0, as on a chessboard, beside its outputs with all of them. */
static void begin_pruned(home *m, size_t threads)
{
    begin(m, threads, 4);
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++) {
        const pare_linear *const l = &m->current.linear[r];
        for (size_t i = 0; i < l->n * l->k; i++)
            l->floats[i] = is_pruned(l, i) ? 0 : l->floats[i];
    }
}

static pare_status learn(home *m, const pare_ebft_opts *opts, unsigned roles,
                         pare_ebft_found *found)
{
    return pare_ebft_train(&m->h.cx, &m->h.arena, opts, &m->data, roles, found);
}

/* Loss with what was found, on windows that no step saw, or on all where there are less than eight
 * windows. */
static double loss_with(home *m, const pare_ebft_found *found)
{
    static float y[SAMPLES * WINDOW * HIDDEN];
    pare_block b;
    double error = 0, whole = 0;
    copy_block(m, &b);
    for (size_t r = 0; found && r < PARE_COMMON_ROLES; r++)
        if (found->w[r])
            memcpy(b.linear[r].floats, found->w[r], b.linear[r].n * b.linear[r].k * sizeof(float));
    run_block(m, &b, y);
    for (size_t i = 0; i < sizeof y / sizeof *y; i++) {
        error += pow((double)y[i] - (double)m->y[i], 2);
        whole += pow((double)m->y[i], 2);
    }
    return error / whole;
}

START_TEST(what_is_left_makes_up_for_what_went_by_the_loss_that_is_told)
{
    static home m;
    pare_ebft_found found;
    begin_pruned(&m, 2);
    ck_assert_int_eq(learn(&m, &usual, ALL, &found), PARE_OK);
    ck_assert(!found.kept);
    ck_assert_double_eq_tol(found.before, loss_with(&m, NULL), 1e-5 * found.before);
    ck_assert_double_eq_tol(found.after, loss_with(&m, &found), 1e-5 * found.after);
    ck_assert_msg(found.after < 0.5 * found.before, "%g %g", found.before, found.after);
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++) {
        const pare_linear *const l = &m.current.linear[r];
        size_t moved = 0;
        for (size_t i = 0; i < l->n * l->k; i++) {
            moved += found.w[r][i] != l->floats[i];
            ck_assert(!is_pruned(l, i) || (found.w[r][i] == 0 && !signbit(found.w[r][i])));
        }
        ck_assert_uint_ge(moved, l->n * l->k / 2 - 8);
    }
    tiny_end(&m.h);
}
END_TEST

START_TEST(no_linear_but_those_asked_for_is_trained)
{
    static home m;
    pare_ebft_found found;
    const unsigned roles = 1u << PARE_ROLE_O | 1u << PARE_ROLE_DOWN;
    begin_pruned(&m, 1);
    ck_assert_int_eq(learn(&m, &usual, roles, &found), PARE_OK);
    for (size_t r = 0; r < PARE_ROLES; r++)
        ck_assert_int_eq(found.w[r] != NULL, (roles & 1u << r) != 0);
    ck_assert_double_eq_tol(found.after, loss_with(&m, &found), 1e-5 * found.after);
    ck_assert_double_lt(found.after, 0.95 * found.before);
    tiny_end(&m.h);
}
END_TEST

/* Six windows are measured and seen in each epoch, whatever the batch. */
START_TEST(an_epoch_sees_each_window_once)
{
    static home m;
    pare_ebft_found found;
    pare_ebft_opts opts = usual;
    begin_pruned(&m, 1);
    opts.epochs = 3;
    opts.batch = 4;
    ck_assert_int_eq(learn(&m, &opts, ALL, &found), PARE_OK);
    for (size_t i = 0; i < SAMPLES; i++)
        ck_assert_uint_eq(m.reads[i], 3 + 4);
    tiny_end(&m.h);
}
END_TEST

/* Eight windows, four of them twice; the last is held out. */
static size_t seen[8], order[64], reads;
static pare_status read_folded(void *self, size_t first, size_t count, float *x, float *y)
{
    const size_t stride = (size_t)WINDOW * HIDDEN;
    for (size_t i = 0; i < count; i++) {
        seen[first + i]++;
        order[reads++ % 64] = first + i;
        PARE_TRY(read_windows(self, (first + i) % 4, 1, x + i * stride, y + i * stride));
    }
    return PARE_OK;
}

START_TEST(of_eight_windows_one_is_held_out)
{
    static home m;
    pare_ebft_found found;
    pare_ebft_opts opts = usual;
    begin_pruned(&m, 1);
    m.data.samples = 8;
    m.data.read = read_folded;
    memset(seen, 0, sizeof seen);
    opts.epochs = 2;
    opts.batch = 1;
    reads = 0;
    ck_assert_int_eq(learn(&m, &opts, ALL, &found), PARE_OK);
    ck_assert_uint_eq(reads, 17); /* 7, 0 .. 6 in some order, 7, in another order, 7 */
    ck_assert_mem_ne(order + 1, order + 9, 7 * sizeof *order);
    for (size_t i = 0; i < 8; i++)
        ck_assert_uint_eq(seen[i], i < 7 ? 2 : 3); /* epochs, or before and behind each */
    tiny_end(&m.h);
}
END_TEST

START_TEST(any_thread_count_trains_the_same_bytes)
{
    static home first, m;
    pare_ebft_found want, found;
    pare_ebft_opts opts = usual;
    opts.epochs = 4;
    begin_pruned(&first, 1);
    ck_assert_int_eq(learn(&first, &opts, ALL, &want), PARE_OK);
    begin_pruned(&m, 3);
    ck_assert_int_eq(learn(&m, &opts, ALL, &found), PARE_OK);
    ck_assert(want.after == found.after && want.before == found.before && !found.kept);
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++)
        ck_assert_mem_eq(want.w[r], found.w[r],
                         m.block.linear[r].n * m.block.linear[r].k * sizeof(float));
    opts.seed = 1; /* another order */
    ck_assert_int_eq(learn(&m, &opts, ALL, &found), PARE_OK);
    ck_assert(want.after != found.after);
    tiny_end(&m.h);
    tiny_end(&first.h);
}
END_TEST

START_TEST(what_was_found_is_kept_when_nothing_better_is)
{
    static home m;
    pare_ebft_found found;
    pare_ebft_opts opts = usual;
    begin_pruned(&m, 1);
    opts.rate = 30; /* far too large */
    ck_assert_int_eq(learn(&m, &opts, ALL, &found), PARE_OK);
    ck_assert(found.kept && found.before == found.after);
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++)
        ck_assert_mem_eq(found.w[r], m.current.linear[r].floats,
                         m.block.linear[r].n * m.block.linear[r].k * sizeof(float));
    tiny_end(&m.h);
}
END_TEST

/* What was spoiled in *m ends with this status and message. */
static void ends_with(home *m, pare_status status, const char *message)
{
    pare_ebft_found found;
    ck_assert_int_eq(learn(m, &usual, ALL, &found), status);
    ck_assert_msg(strstr(m->h.cx.what, message) != NULL, "%s", m->h.cx.what);
    tiny_end(&m->h);
}

START_TEST(what_cannot_be_trained_is_told)
{
    static home m;
    begin_pruned(&m, 1);
    m.y[17] = NAN;
    ends_with(&m, PARE_ENUMERIC, "not finite");
    begin_pruned(&m, 1);
    m.reads_left = 7;
    ends_with(&m, PARE_EIO, "no more windows");
    begin_pruned(&m, 1);
    const volatile int interrupts = 1;
    m.h.cx.interrupt = &interrupts;
    ends_with(&m, PARE_EINTERRUPTED, "");
}
END_TEST

static const pare_ebft_opts once = {.epochs = 1, .batch = SAMPLES, .rate = 1e-3};

static pare_status learn_once(home *m, pare_arena *a)
{
    pare_ebft_found found;
    return pare_ebft_train(&m->h.cx, a, &once, &m->data, ALL, &found);
}

START_TEST(memory_stays_within_its_bound_and_may_end_anywhere)
{
    static home m;
    begin_pruned(&m, 2);
    check_memory(&m, learn_once,
                 pare_ebft_bytes(&m.h.cx, &m.model.config, once.batch, SAMPLES, WINDOW));
    tiny_end(&m.h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ebft");
    TCase *const t = tcase_create("ebft");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_is_left_makes_up_for_what_went_by_the_loss_that_is_told);
    tcase_add_test(t, no_linear_but_those_asked_for_is_trained);
    tcase_add_test(t, an_epoch_sees_each_window_once);
    tcase_add_test(t, of_eight_windows_one_is_held_out);
    tcase_add_test(t, any_thread_count_trains_the_same_bytes);
    tcase_add_test(t, what_was_found_is_kept_when_nothing_better_is);
    tcase_add_test(t, what_cannot_be_trained_is_told);
    tcase_add_test(t, memory_stays_within_its_bound_and_may_end_anywhere);
    suite_add_tcase(s, t);
    return unit_main(s);
}
