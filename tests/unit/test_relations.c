/* Relations between tokens against a closed form, differences and torch
 * (tests/interop/training.py). */
#include "distill/relations.h"

#include "tests/unit/hashed.h"
#include "tests/unit/tiny.h"

enum { MOST = 5000 };
static float room[4][PARE_RELATIONS][MOST]; /* student, teacher, two gradients */

static pare_qkv qkv_of(size_t which, size_t q, size_t k)
{
    return (pare_qkv){{room[which][0], room[which][1], room[which][2]}, {q, k, k}};
}

static double relate(size_t threads, pare_batch batch, size_t pieces, const pare_qkv *s,
                     const pare_qkv *t, double scale, const pare_qkv *d)
{
    double value;
    tiny_home h;
    tiny_begin(&h, threads);
    ck_assert_int_eq(pare_relations(&h.cx, &h.arena, batch, pieces, s, t, scale, d, &value),
                     PARE_OK);
    tiny_end(&h);
    return value;
}

/* Two tokens of one channel: the first relates to itself alone. Of the second, the student (1, 2)
 * gives sigmoid(2) to the first and the teacher (1, 1) a half; keys and values are the same in
 * both. */
START_TEST(two_tokens_have_the_closed_form)
{
    const pare_qkv s = qkv_of(0, 1, 1), t = qkv_of(1, 1, 1), d = qkv_of(2, 1, 1);
    const double r = 1 / (1 + exp(-2.)); /* to the second: scores 2 and 4 */
    for (size_t i = 0; i < PARE_RELATIONS; i++) {
        room[0][i][0] = room[1][i][0] = 1;
        room[0][i][1] = i == 0 ? 2 : .5f;
        room[1][i][1] = i == 0 ? 1 : .5f;
    }
    const double value = relate(1, (pare_batch){1, 2, 0}, 1, &s, &t, 6, &d);
    hashed_near("value", value, .5 * log(.25 / (r * (1 - r))) / 6, 1e-7);
    /* D = (1/2 - r, r - 1/2) of the second row, six rows in the mean */
    hashed_near("first", (double)room[2][0][0], (.5 - r) * 2, 1e-6);
    hashed_near("second", (double)room[2][0][1], (.5 - r) * 1 + 2 * (r - .5) * 2, 1e-6);
    for (size_t i = 1; i < PARE_RELATIONS; i++)
        ck_assert(room[2][i][0] == 0 && room[2][i][1] == 0);
}
END_TEST

/* Two sequences of 70 tokens, more than a tile; other widths in student and teacher. */
enum { LENGTH = 70, PIECES = 4, ROWS = 2 * LENGTH };

static void fill(const pare_qkv *x, size_t from)
{
    for (size_t i = 0; i < PARE_RELATIONS; i++)
        for (size_t j = 0; j < ROWS * x->width[i]; j++)
            x->at[i][j] = hashed(from + 5000 * i + j) / 2;
}

START_TEST(value_and_gradient_are_those_of_torch)
{
    const pare_qkv s = qkv_of(0, 24, 12), t = qkv_of(1, 16, 8), d = qkv_of(2, 24, 12);
    double figure[3], square = 0, dot = 0;
    fill(&s, 0);
    fill(&t, 20000);
    const double value = relate(2, (pare_batch){2, LENGTH, 0}, PIECES, &s, &t, 100, &d);
    for (size_t i = 0; i < PARE_RELATIONS; i++)
        for (size_t j = 0; j < ROWS * d.width[i]; j++) {
            const double g = (double)d.at[i][j] / 100;
            square += g * g;
            dot += g * (double)hashed(40000 + 5000 * i + j);
        }
    hashed_line("relations 4 0 ", figure);
    hashed_near("value", value, figure[0], 1e-6);
    hashed_near("norm", sqrt(square), figure[1], 1e-6);
    hashed_near("dot", dot, figure[2], 1e-6);
}
END_TEST

START_TEST(the_gradient_is_the_difference_of_values)
{
    const pare_qkv s = qkv_of(0, 24, 12), t = qkv_of(1, 16, 8), d = qkv_of(2, 24, 12),
                   other = qkv_of(3, 24, 12);
    const pare_batch batch = {2, LENGTH, 0};
    const float step = 1.f / 64;
    fill(&s, 0);
    fill(&t, 20000);
    (void)relate(2, batch, PIECES, &s, &t, 1e3, &d);
    for (size_t i = 0; i < PARE_RELATIONS; i++)
        for (size_t j = 5; j < ROWS * s.width[i]; j += 397) {
            const float was = s.at[i][j];
            s.at[i][j] = was + step;
            const double up = relate(2, batch, PIECES, &s, &t, 1, &other);
            s.at[i][j] = was - step;
            const double down = relate(2, batch, PIECES, &s, &t, 1, &other);
            s.at[i][j] = was;
            hashed_near("slope", (double)d.at[i][j], 1e3 * (up - down) / (2 * (double)step), 2e-3);
        }
}
END_TEST

START_TEST(bytes_are_the_same_for_any_number_of_threads)
{
    const pare_qkv s = qkv_of(0, 24, 12), t = qkv_of(1, 16, 8), one = qkv_of(2, 24, 12),
                   many = qkv_of(3, 24, 12);
    fill(&s, 0);
    fill(&t, 20000);
    const double a = relate(1, (pare_batch){2, LENGTH, 0}, PIECES, &s, &t, 1, &one);
    ck_assert_double_eq(a, relate(5, (pare_batch){2, LENGTH, 0}, PIECES, &s, &t, 1, &many));
    for (size_t i = 0; i < PARE_RELATIONS; i++)
        ck_assert_mem_eq(one.at[i], many.at[i], ROWS * one.width[i] * sizeof(float));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("relations");
    TCase *const t = tcase_create("relations");
    tcase_add_test(t, two_tokens_have_the_closed_form);
    tcase_add_test(t, value_and_gradient_are_those_of_torch);
    tcase_add_test(t, the_gradient_is_the_difference_of_values);
    tcase_add_test(t, bytes_are_the_same_for_any_number_of_threads);
    suite_add_tcase(s, t);
    return unit_main(s);
}
