/* Losses against closed forms and against torch (tests/interop/training.py). */
#include "distill/losses.h"

#include "tests/unit/hashed.h"
#include "tests/unit/tiny.h"

enum { ROWS = 3, VOCAB = 300 };

/* z = (1, 0, -1), t = (2, 1, -2), label 2: value and gradient, worked out in double. */
typedef struct closed {
    const char *name;
    pare_losses l;
    double value, gradient[3];
} closed;

static const closed forms[] = {
    {"kl", {.kl = 1, .temperature = 1}, .054617549, {-.056158229, -.020659458, .076817686}},
    {"kl, T 2", {.kl = 1, .temperature = 2}, .190468687, {-.135233204, -.082023084, .217256288}},
    {"reverse",
     {.reverse_kl = 1, .temperature = 1},
     .099017823,
     {-.119784049, -.044066089, .163850138}},
    {"reverse, T 2",
     {.reverse_kl = 1, .temperature = 2},
     .244043889,
     {-.188738624, -.114475762, .303214387}},
    {"jsd .1",
     {.jsd = 1, .temperature = 1, .beta = .1},
     .005091962,
     {-.005260470, -.001935219, .007195688}},
    {"jsd .5",
     {.jsd = 1, .temperature = 1, .beta = .5},
     .016812851,
     {-.017894211, -.006582912, .024477123}},
    {"jsd .5, scaled",
     {.jsd = 1, .temperature = 1, .beta = .5, .scaled = true},
     4 * .016812851,
     {4 * -.017894211, 4 * -.006582912, 4 * .024477123}},
    {"skew .1",
     {.skew_kl = 1, .temperature = 1, .skew = .1},
     .047500663,
     {-.049315143, -.018142027, .067457171}},
    {"skew 0 is kl",
     {.skew_kl = 1, .temperature = 2},
     .190468687,
     {-.135233204, -.082023084, .217256288}},
    {"skew reverse .1",
     {.skew_reverse_kl = 1, .temperature = 1, .skew = .1},
     .064868230,
     {-.071627539, -.026350299, .097977839}},
    {"skew reverse 0 is reverse",
     {.skew_reverse_kl = 1, .temperature = 2},
     .244043889,
     {-.188738624, -.114475762, .303214387}},
    {"total variation",
     {.total_variation = 1, .temperature = 1},
     .076817686,
     {-.059892025, -.022033045, .081925069}},
    {"ce", {.ce = 1, .temperature = 1}, 2.407605964, {.665240956, .244728471, -.909969427}},
    {"half of two",
     {.ce = .5, .kl = .25, .temperature = 1},
     .5 * 2.407605964 + .25 * .054617549,
     {.5 * .665240956 - .25 * .056158229, .5 * .244728471 - .25 * .020659458,
      -.5 * .909969427 + .25 * .076817686}},
};
enum { FORMS = sizeof forms / sizeof *forms };

START_TEST(values_and_gradients_are_the_closed_forms)
{
    const closed *const f = &forms[_i];
    const float t[3] = {2, 1, -2};
    const int32_t label[1] = {2};
    float z[3] = {1, 0, -1};
    double value;
    tiny_home h;
    tiny_begin(&h, 1);
    ck_assert_int_eq(pare_losses_rows(&h.cx, &h.arena, &f->l, z, t, label, 1, 3, 3, &value),
                     PARE_OK);
    const double most = 1e-7 * f->l.temperature * f->l.temperature;
    hashed_near(f->name, value, f->value, most);
    for (size_t i = 0; i < 3; i++)
        hashed_near(f->name, (double)z[i] / 3, f->gradient[i], most);
    tiny_end(&h);
}
END_TEST

typedef struct published {
    const char *key;
    pare_losses l;
} published;

static const published torch[] = {
    {"loss ce 1 0 ", {.ce = 1, .temperature = 1}},
    {"loss kl 1 0 ", {.kl = 1, .temperature = 1}},
    {"loss kl 2 0 ", {.kl = 1, .temperature = 2}},
    {"loss reverse_kl 1 0 ", {.reverse_kl = 1, .temperature = 1}},
    {"loss reverse_kl 4 0 ", {.reverse_kl = 1, .temperature = 4}},
    {"loss jsd 1 0.5 ", {.jsd = 1, .temperature = 1, .beta = .5}},
    {"loss jsd 1 0.1 ", {.jsd = 1, .temperature = 1, .beta = .1}},
    {"loss jsd 2 0.9 ", {.jsd = 1, .temperature = 2, .beta = .9}},
    {"loss skew_kl 1 0.1 ", {.skew_kl = 1, .temperature = 1, .skew = .1}},
    {"loss skew_kl 2 0.3 ", {.skew_kl = 1, .temperature = 2, .skew = .3}},
    {"loss skew_reverse_kl 1 0.1 ", {.skew_reverse_kl = 1, .temperature = 1, .skew = .1}},
    {"loss skew_reverse_kl 2 0.3 ", {.skew_reverse_kl = 1, .temperature = 2, .skew = .3}},
    {"loss total_variation 1 0 ", {.total_variation = 1, .temperature = 1}},
    {"loss total_variation 4 0 ", {.total_variation = 1, .temperature = 4}},
};
enum { TORCH = sizeof torch / sizeof *torch };

static void against(const char *key, double value, const float *gradient)
{
    double figure[3], square = 0, dot = 0;
    hashed_line(key, figure);
    for (size_t i = 0; i < ROWS * VOCAB; i++) {
        square += (double)gradient[i] * (double)gradient[i];
        dot += (double)gradient[i] * (double)hashed(20000 + i);
    }
    hashed_near(key, value, figure[0], 1e-6);
    hashed_near(key, sqrt(square), figure[1], 1e-6);
    hashed_near(key, dot, figure[2], 1e-5);
}

START_TEST(values_and_gradients_are_those_of_torch)
{
    const int32_t label[ROWS] = {7, 107, 207};
    static float z[ROWS * VOCAB], t[ROWS * VOCAB];
    double value;
    tiny_home h;
    tiny_begin(&h, 2);
    for (size_t i = 0; i < ROWS * VOCAB; i++) {
        z[i] = hashed(i);
        t[i] = hashed(10000 + i);
    }
    ck_assert_int_eq(
        pare_losses_rows(&h.cx, &h.arena, &torch[_i].l, z, t, label, ROWS, VOCAB, 1, &value),
        PARE_OK);
    against(torch[_i].key, value, z);
    tiny_end(&h);
}
END_TEST

START_TEST(the_difference_of_hidden_states_is_that_of_torch)
{
    static float s[ROWS * VOCAB], u[ROWS * VOCAB], ds[ROWS * VOCAB];
    tiny_home h;
    tiny_begin(&h, 2);
    for (size_t i = 0; i < ROWS * VOCAB; i++) {
        s[i] = hashed(i);
        u[i] = hashed(10000 + i);
        ds[i] = 1;
    }
    const double value = pare_losses_hidden(&h.cx, s, u, ROWS * VOCAB, 8, ds);
    for (size_t i = 0; i < ROWS * VOCAB; i++)
        ds[i] = (ds[i] - 1) / 8; /* added to what was there */
    against("hidden 1 0 ", value, ds);
    memset(u, 0, sizeof u);
    memset(ds, 0, sizeof ds);
    ck_assert_double_eq(pare_losses_hidden(&h.cx, s, u, ROWS * VOCAB, 1, ds), 0);
    ck_assert_float_eq(ds[0], 0);
    tiny_end(&h);
}
END_TEST

typedef struct slope {
    const char *name;
    pare_losses l;
} slope;

static const slope slopes[] = {
    {"ce", {.ce = 1, .temperature = 1}},
    {"kl", {.kl = 1, .temperature = 1.5}},
    {"reverse_kl", {.reverse_kl = 1, .temperature = 1.5}},
    {"jsd", {.jsd = 1, .temperature = 1.5, .beta = .3}},
    {"scaled", {.jsd = 1, .temperature = 1.5, .beta = .3, .scaled = true}},
    {"skew_kl", {.skew_kl = 1, .temperature = 1.5, .skew = .2}},
    {"skew_reverse_kl", {.skew_reverse_kl = 1, .temperature = 1.5, .skew = .2}},
    {"total_variation", {.total_variation = 1, .temperature = 1.5}},
};
enum { SLOPES = sizeof slopes / sizeof *slopes };

static double value_at(tiny_home *h, const pare_losses *l, const float *z, float *gradient)
{
    const float t[5] = {2, 1, -2, .5f, 0};
    const int32_t label[1] = {2};
    double value;
    float all[5];
    memcpy(all, z, sizeof all);
    ck_assert_int_eq(pare_losses_rows(&h->cx, &h->arena, l, all, t, label, 1, 5, 1, &value),
                     PARE_OK);
    if (gradient)
        memcpy(gradient, all, sizeof all);
    return value;
}

START_TEST(gradients_are_differences_of_the_values)
{
    const slope *const s = &slopes[_i];
    const float z[5] = {1, 0, -1, 2, -.25f};
    float gradient[5], moved[5];
    tiny_home h;
    tiny_begin(&h, 1);
    (void)value_at(&h, &s->l, z, gradient);
    for (size_t i = 0; i < 5; i++) {
        const float step = .0078125f;
        memcpy(moved, z, sizeof z);
        moved[i] = z[i] + step;
        const double up = value_at(&h, &s->l, moved, NULL);
        moved[i] = z[i] - step;
        const double down = value_at(&h, &s->l, moved, NULL);
        hashed_near(s->name, (double)gradient[i], (up - down) / (2 * (double)step), 5e-5);
    }
    tiny_end(&h);
}
END_TEST

/* A token that the teacher, the student, or both give no chance at all. */
START_TEST(tokens_without_a_chance_have_finite_gradients)
{
    const float none = -4000, t[3][3] = {{2, 1, none}, {2, 1, 0}, {2, 1, none}},
                from[3][3] = {{1, 0, -1}, {1, 0, none}, {1, .5f, none}};
    static const pare_losses l = {
        .skew_kl = 1, .skew_reverse_kl = 1, .total_variation = 1, .temperature = 1, .skew = .1};
    const int32_t label[1] = {0};
    float z[3];
    double value, sum = 0;
    tiny_home h;
    tiny_begin(&h, 1);
    memcpy(z, from[_i], sizeof z);
    ck_assert_int_eq(pare_losses_rows(&h.cx, &h.arena, &l, z, t[_i], label, 1, 3, 1, &value),
                     PARE_OK);
    ck_assert(isfinite(value) && value > 0);
    for (size_t i = 0; i < 3; i++)
        sum += (double)z[i];
    ck_assert_double_lt(fabs(sum), 1e-6);
    tiny_end(&h);
}
END_TEST

/* A row without label has no part; neither the rows nor the threads beside it change another. */
START_TEST(rows_stand_alone)
{
    enum { MANY = 37 };
    static const pare_losses l = {
        .ce = .3, .kl = 1, .reverse_kl = .5, .jsd = .2, .temperature = 2, .beta = .4};
    static float z[2][MANY * VOCAB], t[MANY * VOCAB];
    int32_t label[MANY];
    double value[2], sum = 0;
    for (size_t threads = 1; threads <= 3; threads += 2) {
        float *const to = z[threads / 2];
        tiny_home h;
        tiny_begin(&h, threads);
        for (size_t i = 0; i < MANY * VOCAB; i++) {
            to[i] = hashed(i);
            t[i] = hashed(10000 + i);
        }
        for (size_t i = 0; i < MANY; i++)
            label[i] = i % 5 ? (int32_t)i : PARE_NO_LABEL;
        ck_assert_int_eq(pare_losses_rows(&h.cx, &h.arena, &l, to, t, label, MANY, VOCAB, .125,
                                          &value[threads / 2]),
                         PARE_OK);
        tiny_end(&h);
    }
    ck_assert_mem_eq(z[0], z[1], sizeof z[0]);
    ck_assert_double_eq(value[0], value[1]);
    for (size_t i = 0; i < MANY; i++) {
        float one[VOCAB];
        double alone;
        tiny_home h;
        tiny_begin(&h, 1);
        for (size_t j = 0; j < VOCAB; j++)
            one[j] = hashed(i * VOCAB + j);
        ck_assert_int_eq(pare_losses_rows(&h.cx, &h.arena, &l, one, t + i * VOCAB, label + i, 1,
                                          VOCAB, .125, &alone),
                         PARE_OK);
        ck_assert_mem_eq(one, z[0] + i * VOCAB, sizeof one);
        for (size_t j = 0; i % 5 == 0 && j < VOCAB; j++)
            ck_assert_float_eq(one[j], 0);
        sum += alone;
        tiny_end(&h);
    }
    ck_assert_double_eq(sum, value[0]);
}
END_TEST

START_TEST(what_is_not_finite_shows)
{
    static const pare_losses l = {.kl = 1, .temperature = 1};
    const int32_t label[1] = {0};
    const float bad = _i ? INFINITY : NAN, t[4] = {1, 2, 3, 4};
    float z[4] = {1, 2, bad, 3};
    double value;
    tiny_home h;
    tiny_begin(&h, 1);
    ck_assert_int_eq(pare_losses_rows(&h.cx, &h.arena, &l, z, t, label, 1, 4, 1, &value), PARE_OK);
    ck_assert(!isfinite(value));
    tiny_end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("losses");
    TCase *const t = tcase_create("losses");
    tcase_add_loop_test(t, values_and_gradients_are_the_closed_forms, 0, FORMS);
    tcase_add_loop_test(t, values_and_gradients_are_those_of_torch, 0, TORCH);
    tcase_add_loop_test(t, gradients_are_differences_of_the_values, 0, SLOPES);
    tcase_add_loop_test(t, tokens_without_a_chance_have_finite_gradients, 0, 3);
    tcase_add_test(t, the_difference_of_hidden_states_is_that_of_torch);
    tcase_add_test(t, rows_stand_alone);
    tcase_add_loop_test(t, what_is_not_finite_shows, 0, 2);
    suite_add_tcase(s, t);
    return unit_main(s);
}
