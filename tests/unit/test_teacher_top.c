/* The loss against what is kept of a teacher: closed forms, differences and torch
 * (tests/interop/training.py), and trainings that ask the teacher once. */
#include "distill/teacher_top.h"

#include "tests/unit/train_rig.h"

enum { ROWS = 3, VOCAB = 300 };
static const int32_t labels[ROWS] = {7, 107, 207};

/* Row i is kept as row rows - 1 - i. */
static double compare(size_t threads, size_t k, double temperature, const float *z, const float *t,
                      const int32_t *label, size_t rows, size_t vocab, double scale, float *dz)
{
    size_t at[ROWS];
    double value;
    pare_teacher_top top;
    tiny_home h;
    tiny_begin(&h, threads);
    for (size_t i = 0; i < rows; i++)
        at[i] = rows - 1 - i;
    ck_assert_int_eq(pare_teacher_top_take(&h.arena, rows, vocab, k, temperature, &top), PARE_OK);
    ck_assert_int_eq(pare_teacher_top_keep(&h.cx, &h.arena, &top, t, at, rows, vocab), PARE_OK);
    ck_assert_int_eq(
        pare_teacher_top_kl(&h.cx, &h.arena, &top, z, at, label, rows, vocab, scale, dz, &value),
        PARE_OK);
    tiny_end(&h);
    return value;
}

/* z = (1, 0, -1, .5), t = (2, 1, -1, -2), two are kept: worked out in double. */
START_TEST(four_tokens_have_the_closed_form)
{
    const float z[4] = {1, 0, -1, .5f}, t[4] = {2, 1, -1, -2};
    const double gradient[4] = {-.222396641, -.081815152, .055495996, .248715797};
    float dz[4];
    hashed_near("value", compare(1, 2, 1, z, t, labels, 1, 4, 3, dz), .271458056, 3e-7);
    for (size_t i = 0; i < 4; i++)
        hashed_near("gradient", (double)dz[i] / 3, gradient[i], 1e-7);
}
END_TEST

static float z_of[ROWS * VOCAB], t_of[ROWS * VOCAB], dz_of[2][ROWS * VOCAB];

static void fill(void)
{
    for (size_t i = 0; i < ROWS * VOCAB; i++) {
        z_of[i] = hashed(i);
        t_of[i] = hashed(10000 + i);
    }
}

/* With at most one token outside; more than there are is all. */
START_TEST(where_all_is_kept_it_is_kl)
{
    static const size_t kept[] = {VOCAB, VOCAB - 1, 2 * VOCAB};
    const pare_losses l = {.kl = 1, .temperature = 1.5};
    double value;
    tiny_home h;
    fill();
    memcpy(dz_of[1], z_of, sizeof z_of);
    tiny_begin(&h, 2);
    ck_assert_int_eq(
        pare_losses_rows(&h.cx, &h.arena, &l, dz_of[1], t_of, labels, ROWS, VOCAB, 8, &value),
        PARE_OK);
    tiny_end(&h);
    hashed_near("value", compare(2, kept[_i], 1.5, z_of, t_of, labels, ROWS, VOCAB, 8, dz_of[0]),
                value, 2e-6);
    for (size_t i = 0; i < ROWS * VOCAB; i++)
        hashed_near("gradient", (double)dz_of[0][i], (double)dz_of[1][i], 1e-6);
}
END_TEST

START_TEST(value_and_gradient_are_those_of_torch)
{
    double figure[3], square = 0, dot = 0;
    fill();
    const double value = compare(2, 40, 2, z_of, t_of, labels, ROWS, VOCAB, 8, dz_of[0]);
    for (size_t i = 0; i < ROWS * VOCAB; i++) {
        const double g = (double)dz_of[0][i] / 8;
        square += g * g;
        dot += g * (double)hashed(20000 + i);
    }
    hashed_line("teacher_top 2 40 ", figure);
    hashed_near("value", value, figure[0], 1e-6);
    hashed_near("norm", sqrt(square), figure[1], 1e-6);
    hashed_near("dot", dot, figure[2], 1e-6);
}
END_TEST

START_TEST(the_gradient_is_the_difference_of_values)
{
    const float step = 1.f / 128;
    fill();
    (void)compare(2, 40, 1.5, z_of, t_of, labels, ROWS, VOCAB, 1, dz_of[0]);
    for (size_t i = 3; i < ROWS * VOCAB; i += 31) {
        const float was = z_of[i];
        z_of[i] = was + step;
        const double up = compare(2, 40, 1.5, z_of, t_of, labels, ROWS, VOCAB, 1, dz_of[1]);
        z_of[i] = was - step;
        const double down = compare(2, 40, 1.5, z_of, t_of, labels, ROWS, VOCAB, 1, dz_of[1]);
        z_of[i] = was;
        hashed_near("slope", (double)dz_of[0][i], (up - down) / (2 * (double)step), 1e-4);
    }
}
END_TEST

/* Of equal ones the first are kept; the largest of a row are, in whatever order. */
START_TEST(the_largest_are_kept)
{
    enum { K = 5 };
    static float t[2 * VOCAB];
    const size_t at[2] = {1, SIZE_MAX};
    pare_teacher_top top;
    tiny_home h;
    tiny_begin(&h, 1);
    for (size_t i = 0; i < VOCAB; i++)
        t[i] = (float)(i % 100 / 33); /* 99, 199, 299 have 3; from 66 on others have 2 */
    ck_assert_int_eq(pare_teacher_top_take(&h.arena, 2, VOCAB, K, 1, &top), PARE_OK);
    ck_assert_int_eq(pare_teacher_top_keep(&h.cx, &h.arena, &top, t, at, 2, VOCAB), PARE_OK);
    double sum = (double)top.rest[1];
    unsigned found = 0;
    for (size_t i = 0; i < K; i++) {
        const int32_t wanted[K] = {99, 199, 299, 66, 67};
        for (size_t j = 0; j < K; j++)
            found |= top.id[K + i] == wanted[j] ? 1U << j : 0;
        sum += (double)top.p[K + i];
    }
    ck_assert_uint_eq(found, 31);
    hashed_near("sum", sum, 1, 1e-5);
    ck_assert(top.p[0] == 0 && top.rest[0] == 0); /* row 0: nothing */
    tiny_end(&h);
}
END_TEST

/* Threads change no byte; a row without label has no part. */
START_TEST(rows_stand_alone)
{
    const int32_t some[ROWS] = {7, PARE_NO_LABEL, 207};
    fill();
    const double value = compare(1, 40, 2, z_of, t_of, some, ROWS, VOCAB, 1, dz_of[0]);
    ck_assert_double_eq(compare(5, 40, 2, z_of, t_of, some, ROWS, VOCAB, 1, dz_of[1]), value);
    ck_assert_mem_eq(dz_of[0], dz_of[1], sizeof dz_of[0]);
    double sum = 0;
    for (size_t i = 0; i < ROWS; i++) {
        sum +=
            compare(1, 40, 2, z_of + i * VOCAB, t_of + i * VOCAB, some + i, 1, VOCAB, 1, dz_of[1]);
        ck_assert_mem_eq(dz_of[1], dz_of[0] + i * VOCAB, VOCAB * sizeof(float));
    }
    ck_assert_double_eq(sum, value);
    ck_assert_float_eq(dz_of[0][VOCAB + 5], 0);
    z_of[3] = NAN;
    ck_assert(!isfinite(compare(1, 40, 2, z_of, t_of, labels, ROWS, VOCAB, 1, dz_of[1])));
}
END_TEST

/* A student that gives no chance to anything but what is kept. */
START_TEST(what_the_student_never_says_stays_finite)
{
    const float z[4] = {1, 0, -4000, -4000}, t[4] = {2, 1, -1, -2};
    float dz[4];
    double sum = 0;
    ck_assert(isfinite(compare(1, 2, 1, z, t, labels, 1, 4, 1, dz)));
    for (size_t i = 0; i < 4; i++)
        sum += isfinite(dz[i]) ? 0 : 1;
    ck_assert_double_eq(sum, 0);
}
END_TEST

/* --- training ----------------------------------------------------------------------------------
 */

static pare_train_opts kept(size_t k)
{
    pare_train_opts o = usual();
    o.losses = (pare_losses){.kl = 1, .ce = .5, .temperature = 2};
    o.teacher_top = k;
    o.schedule.steps = 20; /* 80 of 30 windows */
    return o;
}

/* Behind the step that reads the last windows for the first time, the teacher has nothing more to
 * say. */
static pare_status silence(void *self, const pare_train_step *s)
{
    rig *const r = self;
    PARE_TRY(see(self, s));
    for (size_t i = 0; s->step == 8 && i < TINY_VOCAB * r->teacher.config.hidden; i++)
        ((float *)(uintptr_t)r->teacher.embed.data)[i] = NAN;
    return PARE_OK;
}

START_TEST(the_teacher_runs_once_over_each_window)
{
    rig r[3];
    for (size_t i = 0; i < 3; i++) {
        pare_train_opts o = kept(10);
        pare_train_state state = {0};
        rig_begin(&r[i], i == 1 ? 5 : 1);
        o.keep = i == 1;
        ck_assert_int_eq(pare_train(&r[i].home.cx, &r[i].home.arena, &r[i].trainee, &r[i].data, &o,
                                    &state, &(pare_train_watch){i ? silence : see, &r[i]}),
                         PARE_OK);
    }
    for (size_t k = 1; k < 3; k++)
        for (size_t i = 0; i < LEAVES; i++)
            ck_assert_mem_eq(r[0].leaf[i].value, r[k].leaf[i].value,
                             r[0].leaf[i].count * sizeof(float));
    ck_assert_double_lt(r[0].last.loss, .93 * r[0].first_loss);
    for (size_t k = 0; k < 3; k++)
        tiny_end(&r[k].home);
}
END_TEST

/* Windows that come twice in a lot, too. */
START_TEST(where_all_is_kept_it_trains_as_without)
{
    rig r[2];
    for (size_t i = 0; i < 2; i++) {
        const pare_train_opts o = kept(i ? TINY_VOCAB : 0);
        rig_begin(&r[i], 3);
        r[i].data.windows = _i ? 3 : WINDOWS;
        ck_assert_int_eq(train(&r[i], &o), PARE_OK);
    }
    hashed_near("loss", r[1].first_loss, r[0].first_loss, 1e-6);
    hashed_near("loss at the end", r[1].last.loss, r[0].last.loss, 1e-4);
    hashed_near("norm", r[1].last.norm, r[0].last.norm, 1e-3);
    tiny_end(&r[0].home);
    tiny_end(&r[1].home);
}
END_TEST

static pare_status stop(void *self, const pare_train_step *s)
{
    return s->step == *(const size_t *)self ? PARE_EINTERRUPTED : PARE_OK;
}

START_TEST(stops_change_no_byte)
{
    const pare_train_opts o = kept(10);
    rig r[2];
    pare_train_state state = {0};
    rig_begin(&r[0], 1);
    rig_begin(&r[1], 2);
    ck_assert_int_eq(train(&r[0], &o), PARE_OK);
    for (size_t at = 3; at <= 23; at += 10)
        ck_assert_int_eq(pare_train(&r[1].home.cx, &r[1].home.arena, &r[1].trainee, &r[1].data, &o,
                                    &state, &(pare_train_watch){stop, &at}),
                         at < 20 ? PARE_EINTERRUPTED : PARE_OK);
    for (size_t i = 0; i < LEAVES; i++)
        ck_assert_mem_eq(r[0].leaf[i].value, r[1].leaf[i].value,
                         r[0].leaf[i].count * sizeof(float));
    tiny_end(&r[0].home);
    tiny_end(&r[1].home);
}
END_TEST

START_TEST(other_losses_are_refused)
{
    rig r;
    pare_train_opts o = kept(10);
    rig_begin(&r, 1);
    if (_i == 0)
        o.losses.kl = 0;
    if (_i == 1)
        o.losses.jsd = 1;
    if (_i == 2)
        o.losses.hidden = 1;
    if (_i == 3)
        o.lambda = .5;
    ck_assert_int_eq(train(&r, &o), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, "or take teacher_top: 0"));
    tiny_end(&r.home);
}
END_TEST

START_TEST(it_keeps_to_its_memory)
{
    rig r;
    pare_train_opts o = kept(_i ? 500 : 10);
    rig_begin(&r, 2);
    o.batch = WINDOWS;
    o.schedule.steps = 2;
    check_memory(&r, &o, LEAVES);
    tiny_end(&r.home);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("teacher_top");
    TCase *const t = tcase_create("teacher_top");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, four_tokens_have_the_closed_form);
    tcase_add_loop_test(t, where_all_is_kept_it_is_kl, 0, 3);
    tcase_add_test(t, value_and_gradient_are_those_of_torch);
    tcase_add_test(t, the_gradient_is_the_difference_of_values);
    tcase_add_test(t, the_largest_are_kept);
    tcase_add_test(t, rows_stand_alone);
    tcase_add_test(t, what_the_student_never_says_stays_finite);
    tcase_add_test(t, the_teacher_runs_once_over_each_window);
    tcase_add_loop_test(t, where_all_is_kept_it_trains_as_without, 0, 2);
    tcase_add_test(t, stops_change_no_byte);
    tcase_add_loop_test(t, other_losses_are_refused, 0, 4);
    tcase_add_loop_test(t, it_keeps_to_its_memory, 0, 2);
    suite_add_tcase(s, t);
    return unit_main(s);
}
