/* Hidden states of two widths against a closed form, differences and torch
 * (tests/interop/training.py), and students of a wider teacher. */
#include "distill/projection.h"

#include "tests/unit/train_rig.h"

enum { ROWS = 70, NARROW = 24, WIDE = 40, TEACHER = 60 };

static double compare(size_t threads, const pare_projection *p, const float *s, const float *u,
                      size_t rows, double scale, float *ds)
{
    double value;
    tiny_home h;
    tiny_begin(&h, threads);
    ck_assert_int_eq(pare_projection_hidden(&h.cx, &h.arena, p, s, u, rows, scale, ds, &value),
                     PARE_OK);
    tiny_end(&h);
    return value;
}

/* s = 2, W = (1, 2), u = (1, 3): y - u = (1, 1), sum u^2 = 10. What was in the gradients stays. */
START_TEST(one_row_has_the_closed_form)
{
    const float s[1] = {2}, u[2] = {1, 3}, none[2] = {0};
    float w[2] = {1, 2}, dw[2] = {7, 7}, ds[1] = {7};
    const pare_projection p = {{.value = w, .gradient = dw, .count = 2}, 1, 2};
    ck_assert_double_eq_tol(compare(1, &p, s, u, 1, 10, ds), .2, 1e-12);
    hashed_near("ds", (double)ds[0] - 7, 6, 1e-6);
    hashed_near("dW", (double)dw[0] - 7, 4, 1e-6);
    hashed_near("dW", (double)dw[1] - 7, 4, 1e-6);
    ck_assert_double_eq(compare(1, &p, s, none, 1, 1, ds), 0);
    hashed_near("dW", (double)dw[1] - 7, 4, 1e-6);
}
END_TEST

static float s_of[ROWS * NARROW], u_of[ROWS * WIDE], w_of[NARROW * WIDE], ds_of[2][ROWS * NARROW],
    dw_of[2][NARROW * WIDE];

static pare_projection fill(size_t which)
{
    for (size_t i = 0; i < ROWS * NARROW; i++)
        s_of[i] = hashed(i);
    for (size_t i = 0; i < ROWS * WIDE; i++)
        u_of[i] = hashed(10000 + i);
    for (size_t i = 0; i < NARROW * WIDE; i++)
        w_of[i] = hashed(30000 + i) / 8;
    memset(ds_of[which], 0, sizeof ds_of[which]);
    memset(dw_of[which], 0, sizeof dw_of[which]);
    return (pare_projection){
        {.value = w_of, .gradient = dw_of[which], .count = NARROW * WIDE}, NARROW, WIDE};
}

START_TEST(value_and_gradients_are_those_of_torch)
{
    const pare_projection p = fill(0);
    double figure[3], square = 0, dot = 0;
    const double value = compare(2, &p, s_of, u_of, ROWS, 8, ds_of[0]);
    for (size_t i = 0; i < ROWS * NARROW; i++) {
        square += pow((double)ds_of[0][i] / 8, 2);
        dot += (double)ds_of[0][i] / 8 * (double)hashed(20000 + i);
    }
    for (size_t i = 0; i < NARROW * WIDE; i++) {
        square += pow((double)dw_of[0][i] / 8, 2);
        dot += (double)dw_of[0][i] / 8 * (double)hashed(25000 + i);
    }
    hashed_line("projection 1 0 ", figure);
    hashed_near("value", value, figure[0], 1e-6);
    hashed_near("norm", sqrt(square), figure[1], 1e-6);
    hashed_near("dot", dot, figure[2], 1e-5);
}
END_TEST

START_TEST(bytes_are_the_same_for_any_number_of_threads)
{
    const pare_projection one = fill(0), many = fill(1);
    const double value = compare(1, &one, s_of, u_of, ROWS, 1, ds_of[0]);
    ck_assert_double_eq(compare(5, &many, s_of, u_of, ROWS, 1, ds_of[1]), value);
    ck_assert_mem_eq(ds_of[0], ds_of[1], sizeof ds_of[0]);
    ck_assert_mem_eq(dw_of[0], dw_of[1], sizeof dw_of[0]);
}
END_TEST

/* From the seed alone, of variance 1 / width; decays; no gradient and no moments yet. */
START_TEST(it_begins_with_normal_numbers)
{
    pare_projection p[3];
    tiny_home h;
    double square = 0;
    tiny_begin(&h, 1);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(pare_projection_take(&h.arena, NARROW, WIDE, i < 2 ? 5 : 6, &p[i]),
                         PARE_OK);
    ck_assert_uint_eq(p[0].w.count, NARROW * WIDE);
    ck_assert(p[0].w.decays && !p[0].w.keeps_zeros && !p[0].w.read);
    ck_assert_mem_eq(p[0].w.value, p[1].w.value, sizeof w_of);
    ck_assert_mem_ne(p[0].w.value, p[2].w.value, sizeof w_of);
    for (size_t i = 0; i < NARROW * WIDE; i++) {
        square += pow((double)p[0].w.value[i], 2);
        ck_assert(p[0].w.gradient[i] == 0 && p[0].w.m[i] == 0 && p[0].w.v[i] == 0);
    }
    ck_assert_double_eq_tol(square / WIDE, 1, .2);
    tiny_end(&h);
}
END_TEST

/* The rig with a wider teacher and a projection. */
static void rig_begin_wide(rig *r, size_t threads, pare_projection *p)
{
    rig_begin(r, threads);
    pare_arena *const a = &r->home.arena;
    r->teacher = tiny_model_of(a, (tiny_kind){.dtype = PARE_F32}, TEACHER);
    r->teacher.config.arch = r->student.config.arch;
    ck_assert_int_eq(pare_projection_take(a, r->student.config.hidden, TEACHER, 5, p), PARE_OK);
    r->trainee.projection = p;
}

/* Mean over blocks of the loss `hidden`. */
static double plain_loss(rig *r, const pare_projection *p)
{
    float *s[BLOCKS], *u[BLOCKS];
    const size_t width = p->width, rows = r->data.windows * WINDOW;
    double sum = 0;
    (void)plain_forward(r, &r->student_f, s);
    (void)plain_forward(r, &r->teacher_f, u);
    for (size_t b = 0; b < BLOCKS; b++) {
        double off = 0, all = 0;
        for (size_t i = 0; i < rows * TEACHER; i++) {
            double y = 0;
            for (size_t j = 0; j < width; j++)
                y += (double)s[b][i / TEACHER * width + j] *
                     (double)p->w.value[i % TEACHER * width + j];
            off += pow(y - (double)u[b][i], 2);
            all += pow((double)u[b][i], 2);
        }
        sum += off / all / BLOCKS;
    }
    return sum;
}

/* Along the gradient of the projection, and along that of the leaves, the loss changes by its
 * square. */
START_TEST(gradients_of_a_step_are_differences_of_the_loss)
{
    rig r;
    pare_projection p;
    rig_begin_wide(&r, 2, &p);
    pare_trained *of[LEAVES + 1] = {&p.w};
    float *was[LEAVES + 1], *g[LEAVES + 1];
    r.data.windows = 3;
    const pare_train_opts o = one_step((pare_losses){.hidden = 1, .temperature = 1}, 3);
    const double before = plain_loss(&r, &p);
    for (size_t i = 0; i <= LEAVES; i++) {
        of[i] = i ? &r.leaf[i - 1] : &p.w;
        was[i] = floats(&r.home.arena, of[i]->count);
        g[i] = floats(&r.home.arena, of[i]->count);
        memcpy(was[i], of[i]->value, of[i]->count * sizeof(float));
    }
    ck_assert_int_eq(train(&r, &o), PARE_OK);
    hashed_near("loss", r.last.loss, before, 2e-6);
    double square[2] = {0};
    for (size_t i = 0; i <= LEAVES; i++)
        for (size_t j = 0; j < of[i]->count; j++) {
            g[i][j] = was[i][j] - of[i]->value[j];
            square[i > 0] += (double)g[i][j] * (double)g[i][j];
        }
    hashed_near("norm", r.last.norm, sqrt(square[0] + square[1]), 1e-4);
    for (size_t part = 0; part < 2; part++) {
        const double step = 3e-3 / sqrt(square[part]);
        double side[2];
        for (size_t s = 0; s < 2; s++) {
            for (size_t i = 0; i <= LEAVES; i++)
                for (size_t j = 0; j < of[i]->count; j++)
                    of[i]->value[j] =
                        (float)((double)was[i][j] +
                                ((i > 0) == part ? 1 : 0) * (s ? -step : step) * (double)g[i][j]);
            side[s] = plain_loss(&r, &p);
        }
        hashed_near("slope", (side[0] - side[1]) / (2 * step), square[part],
                    .01 * square[part] + 1e-5);
    }
    tiny_end(&r.home);
}
END_TEST

static pare_status stop(void *self, const pare_train_step *s)
{
    return s->step == *(const size_t *)self ? PARE_EINTERRUPTED : PARE_OK;
}

/* The same bytes for any number of threads, and stopped behind each of some steps. */
START_TEST(a_student_of_a_wider_teacher_learns)
{
    rig r[2];
    pare_projection p[2];
    pare_train_opts o = usual();
    pare_train_state state = {0};
    o.losses = (pare_losses){.kl = 1, .hidden = 1, .temperature = 1};
    rig_begin_wide(&r[0], 1, &p[0]);
    rig_begin_wide(&r[1], 5, &p[1]);
    ck_assert_int_eq(train(&r[0], &o), PARE_OK);
    ck_assert_double_lt(r[0].last.loss, .9 * r[0].first_loss);
    for (size_t at = 2; at <= 14; at += 4)
        ck_assert_int_eq(pare_train(&r[1].home.cx, &r[1].home.arena, &r[1].trainee, &r[1].data, &o,
                                    &state, &(pare_train_watch){stop, &at}),
                         at < 12 ? PARE_EINTERRUPTED : PARE_OK);
    ck_assert_mem_eq(p[0].w.value, p[1].w.value, p[0].w.count * sizeof(float));
    for (size_t i = 0; i < LEAVES; i++)
        ck_assert_mem_eq(r[0].leaf[i].value, r[1].leaf[i].value,
                         r[0].leaf[i].count * sizeof(float));
    tiny_end(&r[0].home);
    tiny_end(&r[1].home);
}
END_TEST

START_TEST(it_keeps_to_its_memory)
{
    rig r;
    pare_projection p;
    pare_train_opts o = usual();
    rig_begin_wide(&r, 2, &p);
    o.losses = (pare_losses){.hidden = 1, .temperature = 1};
    o.batch = WINDOWS;
    o.schedule.steps = 2;
    o.keep = _i;
    check_memory(&r, &o, LEAVES);
    tiny_end(&r.home);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("projection");
    TCase *const t = tcase_create("projection");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, one_row_has_the_closed_form);
    tcase_add_test(t, value_and_gradients_are_those_of_torch);
    tcase_add_test(t, bytes_are_the_same_for_any_number_of_threads);
    tcase_add_test(t, it_begins_with_normal_numbers);
    tcase_add_test(t, gradients_of_a_step_are_differences_of_the_loss);
    tcase_add_test(t, a_student_of_a_wider_teacher_learns);
    tcase_add_loop_test(t, it_keeps_to_its_memory, 0, 2);
    suite_add_tcase(s, t);
    return unit_main(s);
}
