/* Scores of attention of two models against a closed form, differences and torch
 * (tests/interop/training.py), and students that learn them. */
#include "distill/scores.h"

#include "tests/unit/train_rig.h"

enum { LENGTH = 70, ROWS = 2 * LENGTH, HEADS = 4, MOST = 5000 };
static const pare_batch two = {2, LENGTH, 0};
static float q_of[2][MOST], k_of[2][MOST], dq_of[2][MOST], dk_of[2][MOST];

/* A model that has only attention, with its forward pass. */
typedef struct side {
    pare_model model;
    pare_block block;
    pare_forward f;
    pare_qk x;
} side;

static pare_rope rope = {.theta = 10000}, rope_local; /* theta 0: there is none */

static void side_begin(tiny_home *h, side *s, size_t heads, size_t head_dim, size_t kv_heads,
                       size_t window)
{
    *s = (side){.model = {.config = {.arch = pare_arch_find("llama"),
                                     .hidden = heads * head_dim,
                                     .blocks = 1,
                                     .heads = heads,
                                     .kv_heads = kv_heads,
                                     .head_dim = head_dim,
                                     .context = LENGTH,
                                     .rope = rope,
                                     .rope_local = rope_local}},
                .block = {.window = window, .apart = window && rope_local.theta > 0}};
    s->model.block = &s->block;
    ck_assert_int_eq(pare_forward_init(&h->cx, &h->arena, &s->model, LENGTH, false, &s->f),
                     PARE_OK);
}

static void keep(tiny_home *h, side *s, size_t length, size_t rows, const float *q, const float *k)
{
    ck_assert_int_eq(pare_qk_take(&h->arena, &s->f, 0, length, rows, &s->x), PARE_OK);
    pare_qk_keep(&s->x, q, k, rows);
}

/* Two tokens of one head of 2 channels, all queries and keys (1, 0), the second turned by one
 * radian, by half of one where long sequences turn half as fast, by a quarter where blocks with a
 * window do and this is one; the teacher's keys are 0. With c^2
 * = 1 / 2: U00 = U11 = c, U10 = c cos 1. */
START_TEST(two_tokens_have_the_closed_form)
{
    const float ones[4] = {1, 0, 1, 0}, none[4] = {0};
    float dq[4] = {7}, dk[4] = {7}; /* added to */
    const double angles[] = {1, 0.5, 0.25, 0.5}, angle = angles[_i];
    double value;
    tiny_home h;
    side s, t;
    if (_i)
        rope = (pare_rope){.theta = 10000,
                           .kind = PARE_ROPE_LONGROPE,
                           .original_context = 1,
                           .divisor = {{1}, {2}}};
    if (_i >= 2)
        rope_local = (pare_rope){.theta = 10000, .stretch = 4};
    tiny_begin(&h, 1);
    side_begin(&h, &s, 1, 2, 1, _i == 2 ? 2 : 0);
    side_begin(&h, &t, 1, 2, 1, 0);
    keep(&h, &s, 2, 2, ones, ones);
    keep(&h, &t, 2, 2, ones, none);
    ck_assert_int_eq(
        pare_scores(&h.cx, &h.arena, (pare_batch){1, 2, 0}, &s.x, &t.x, 3, dq, dk, &value),
        PARE_OK);
    const double cosine = cos(angle), sine = sin(angle);
    hashed_near("value", value, (1 + cosine * cosine / 2) / 3, 1e-6);
    /* D00 = D11 = 2 c^2 3 / 3 = 1, D10 = cos 1 */
    const double wanted_q[4] = {7 + 1, 0, 1 + cosine * cosine, -cosine * sine};
    const double wanted_k[4] = {7 + 1 + cosine * cosine, cosine * sine, 1, 0};
    for (size_t i = 0; i < 4; i++) {
        hashed_near("dq", (double)dq[i], wanted_q[i], 1e-6);
        hashed_near("dk", (double)dk[i], wanted_k[i], 1e-6);
    }
    tiny_end(&h);
}
END_TEST

static const size_t q_width[2] = {HEADS * 6, HEADS * 8}, k_width[2] = {2 * 6, 4 * 8};

static void fill(void)
{
    for (size_t m = 0; m < 2; m++) {
        for (size_t i = 0; i < ROWS * q_width[m]; i++)
            q_of[m][i] = hashed(20000 * m + i) / 2;
        for (size_t i = 0; i < ROWS * k_width[m]; i++)
            k_of[m][i] = hashed(20000 * m + 5000 + i) / 2;
    }
}

/* Of the two models of training.py. */
static double compare(size_t threads, double scale, size_t which)
{
    double value;
    tiny_home h;
    side s, t;
    tiny_begin(&h, threads);
    side_begin(&h, &s, HEADS, 6, 2, 0);
    side_begin(&h, &t, HEADS, 8, 4, 50);
    keep(&h, &s, LENGTH, ROWS, q_of[0], k_of[0]);
    keep(&h, &t, LENGTH, ROWS, q_of[1], k_of[1]);
    memset(dq_of[which], 0, sizeof dq_of[which]);
    memset(dk_of[which], 0, sizeof dk_of[which]);
    ck_assert_int_eq(
        pare_scores(&h.cx, &h.arena, two, &s.x, &t.x, scale, dq_of[which], dk_of[which], &value),
        PARE_OK);
    tiny_end(&h);
    return value;
}

START_TEST(value_and_gradient_are_those_of_torch)
{
    double figure[3], square = 0, dot = 0;
    fill();
    const double value = compare(2, 100, 0);
    for (size_t i = 0; i < ROWS * q_width[0]; i++) {
        square += pow((double)dq_of[0][i] / 100, 2);
        dot += (double)dq_of[0][i] / 100 * (double)hashed(40000 + i);
    }
    for (size_t i = 0; i < ROWS * k_width[0]; i++) {
        square += pow((double)dk_of[0][i] / 100, 2);
        dot += (double)dk_of[0][i] / 100 * (double)hashed(45000 + i);
    }
    hashed_line("attention 4 0 ", figure);
    hashed_near("value", value, figure[0], 1e-6);
    hashed_near("norm", sqrt(square), figure[1], 1e-6);
    hashed_near("dot", dot, figure[2], 1e-6);
}
END_TEST

START_TEST(the_gradient_is_the_difference_of_values)
{
    const float step = 1.f / 16; /* it is quadratic in each */
    fill();
    (void)compare(2, 1e3, 0);
    for (size_t m = 0; m < 2; m++) {
        float *const of = m ? k_of[0] : q_of[0];
        for (size_t i = 5; i < ROWS * (m ? k_width : q_width)[0]; i += 397) {
            const float was = of[i];
            of[i] = was + step;
            const double up = compare(2, 1, 1);
            of[i] = was - step;
            const double down = compare(2, 1, 1);
            of[i] = was;
            hashed_near("slope", (double)(m ? dk_of : dq_of)[0][i],
                        1e3 * (up - down) / (2 * (double)step), 1e-3);
        }
    }
}
END_TEST

START_TEST(bytes_are_the_same_for_any_number_of_threads)
{
    fill();
    ck_assert_double_eq(compare(1, 1, 0), compare(5, 1, 1));
    ck_assert_mem_eq(dq_of[0], dq_of[1], sizeof dq_of[0]);
    ck_assert_mem_eq(dk_of[0], dk_of[1], sizeof dk_of[0]);
}
END_TEST

/* --- training ----------------------------------------------------------------------------------
 */

static pare_status see_qkv(void *self, const float *q, const float *k, const float *v, size_t rows)
{
    (void)v;
    pare_qk_keep(self, q, k, rows);
    return PARE_OK;
}

/* Queries and keys of each block. */
static void plain_qk(rig *r, const pare_forward *f, pare_qk *out)
{
    pare_arena *const a = &r->home.arena;
    const pare_config *const c = &f->model->config;
    const size_t rows = r->data.windows * WINDOW;
    const pare_batch batch = {r->data.windows, WINDOW, 0};
    float *const x = floats(a, rows * c->hidden);
    pare_kv kv;
    ck_assert_int_eq(pare_embed_batch(&r->home.cx, f->model, r->data.token, batch, x), PARE_OK);
    for (size_t b = 0; b < c->blocks; b++) {
        const pare_tap tap = {.self = &out[b], .last = PARE_SITES, .see_qkv = see_qkv};
        ck_assert_int_eq(pare_qk_take(a, f, b, WINDOW, rows, &out[b]), PARE_OK);
        ck_assert_int_eq(pare_kv_take(a, c, r->data.windows, WINDOW, &kv), PARE_OK);
        ck_assert_int_eq(
            pare_block_forward(&r->home.cx, a, f, &f->model->block[b], batch, x, &kv, &tap),
            PARE_OK);
    }
}

/* Mean over the student's blocks; it may have one of the teacher's two. */
static double plain_loss(rig *r)
{
    pare_qk s[BLOCKS], t[BLOCKS];
    const size_t rows = r->data.windows * WINDOW, blocks = r->student.config.blocks;
    double sum = 0;
    plain_qk(r, &r->student_f, s);
    plain_qk(r, &r->teacher_f, t);
    for (size_t b = 0; b < blocks; b++) {
        double value;
        float *const d = floats(&r->home.arena, rows * pare_qk_floats(&r->student.config));
        ck_assert_int_eq(pare_scores(&r->home.cx, &r->home.arena,
                                     (pare_batch){r->data.windows, WINDOW, 0}, &s[b],
                                     &t[(b + 1) * BLOCKS / blocks - 1], 1, d, d, &value),
                         PARE_OK);
        sum += value / (double)blocks;
    }
    return sum;
}

static const struct {
    size_t blocks;
    bool keep;
} kinds[] = {{BLOCKS, false}, {BLOCKS, true}, {1, false}};

/* Along the gradient of all leaves the loss changes by its square. */
START_TEST(gradients_of_a_step_are_differences_of_the_loss)
{
    rig r;
    rig_begin(&r, 2);
    r.data.windows = 3;
    r.student.config.blocks = kinds[_i].blocks;
    pare_train_opts o = one_step((pare_losses){.attention = 1, .temperature = 1}, 3);
    o.keep = kinds[_i].keep;
    float *was[LEAVES], *g[LEAVES];
    const double before = plain_loss(&r);
    double square = 0, moved[2];
    for (size_t i = 0; i < LEAVES; i++) {
        was[i] = floats(&r.home.arena, r.leaf[i].count);
        g[i] = floats(&r.home.arena, r.leaf[i].count);
        memcpy(was[i], r.leaf[i].value, r.leaf[i].count * sizeof(float));
    }
    ck_assert_int_eq(train(&r, &o), PARE_OK);
    hashed_near("loss", r.last.loss, before, 2e-6);
    for (size_t i = 0; i < LEAVES; i++)
        for (size_t j = 0; j < r.leaf[i].count; j++) {
            g[i][j] = was[i][j] - r.leaf[i].value[j];
            square += (double)g[i][j] * (double)g[i][j];
        }
    hashed_near("norm", r.last.norm, sqrt(square), 1e-4);
    ck_assert_double_gt(square, 1e-6);
    const double step = 1e-2 / sqrt(square);
    for (size_t s = 0; s < 2; s++) {
        for (size_t i = 0; i < LEAVES; i++)
            for (size_t j = 0; j < r.leaf[i].count; j++)
                r.leaf[i].value[j] =
                    (float)((double)was[i][j] + (s ? -step : step) * (double)g[i][j]);
        moved[s] = plain_loss(&r);
    }
    hashed_near("slope", (moved[0] - moved[1]) / (2 * step), square, .005 * square);
    tiny_end(&r.home);
}
END_TEST

/* Where the last block has the loss relations, too, their gradients add up. */
START_TEST(it_adds_to_relations)
{
    static float g[3][LEAVES][4000];
    static const pare_losses of[3] = {{.relations = 1, .temperature = 1},
                                      {.attention = 2, .temperature = 1},
                                      {.relations = 1, .attention = 2, .temperature = 1}};
    for (size_t k = 0; k < 3; k++) {
        rig r;
        rig_begin(&r, 2);
        r.data.windows = 3;
        const pare_train_opts o = one_step(of[k], 3);
        for (size_t i = 0; i < LEAVES; i++)
            memcpy(g[k][i], r.leaf[i].value, r.leaf[i].count * sizeof(float));
        ck_assert_int_eq(train(&r, &o), PARE_OK);
        for (size_t i = 0; i < LEAVES; i++)
            for (size_t j = 0; j < r.leaf[i].count; j++)
                g[k][i][j] -= r.leaf[i].value[j];
        tiny_end(&r.home);
    }
    for (size_t i = 0; i < LEAVES; i++)
        for (size_t j = 0; j < 4000; j++)
            hashed_near("sum", (double)g[2][i][j], (double)g[0][i][j] + (double)g[1][i][j], 2e-6);
}
END_TEST

START_TEST(a_teacher_of_another_shape_is_refused)
{
    static const char *const says[] = {"compares head with head",
                                       "needs a block of the teacher for each"};
    rig r;
    pare_train_opts o = usual();
    rig_begin(&r, 1);
    o.losses = (pare_losses){.attention = 1, .temperature = 1};
    if (_i)
        r.teacher.config.blocks = 1;
    else
        r.teacher.config.heads = 2;
    ck_assert_int_eq(train(&r, &o), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, says[_i]));
    tiny_end(&r.home);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("scores");
    TCase *const t = tcase_create("scores");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, two_tokens_have_the_closed_form, 0, 4);
    tcase_add_test(t, value_and_gradient_are_those_of_torch);
    tcase_add_test(t, the_gradient_is_the_difference_of_values);
    tcase_add_test(t, bytes_are_the_same_for_any_number_of_threads);
    tcase_add_loop_test(t, gradients_of_a_step_are_differences_of_the_loss, 0, 3);
    tcase_add_test(t, it_adds_to_relations);
    tcase_add_loop_test(t, a_teacher_of_another_shape_is_refused, 0, 2);
    suite_add_tcase(s, t);
    return unit_main(s);
}
