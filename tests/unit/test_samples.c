/* Steps that learn from what the student writes itself: lambda. */
#include "runtime/sample.h"
#include "tests/unit/train_rig.h"

enum { PROMPT = WINDOW / 2 };

/* All windows in the order of the first round, each written on by itself. */
static int32_t *written(rig *r, const pare_train_opts *o)
{
    size_t order[WINDOWS];
    int32_t *const token = tiny_take(&r->home.arena, WINDOWS * WINDOW, sizeof *token);
    pare_schedule_order(o->seed, 1, WINDOWS, order);
    for (size_t i = 0; i < WINDOWS; i++) {
        memcpy(token + i * WINDOW, r->data.token + order[i] * WINDOW, PROMPT * sizeof *token);
        const pare_generate_opts g = {.temperature = o->temperature,
                                      .seed = o->seed,
                                      .first = pare_random_stream("samples of a student") + i,
                                      .sequences = 1,
                                      .length = WINDOW,
                                      .other = o->teacher_share > 0 ? &r->teacher_f : NULL,
                                      .share = o->teacher_share};
        ck_assert_int_eq(pare_generate(&r->home.cx, &r->home.arena, &r->student_f, &g, PROMPT,
                                       token + i * WINDOW, NULL, NULL),
                         PARE_OK);
    }
    return token;
}

/* The mean of KL over the rows whose next token was drawn; data.token is what was drawn. */
static double drawn_loss(rig *r)
{
    float *s[BLOCKS], *u[BLOCKS];
    const float *const z = plain_forward(r, &r->student_f, s);
    const float *const t = plain_forward(r, &r->teacher_f, u);
    double sum = 0;
    for (size_t i = 0; i < WINDOWS * WINDOW; i++) {
        const float *const a = z + i * TINY_VOCAB, *const b = t + i * TINY_VOCAB;
        const double lz = plain_lse(a), lt = plain_lse(b);
        if (i % WINDOW < PROMPT - 1 || i % WINDOW == WINDOW - 1)
            continue;
        for (size_t v = 0; v < TINY_VOCAB; v++)
            sum += exp((double)b[v] - lt) * ((double)b[v] - lt - (double)a[v] + lz);
    }
    return sum / (double)(WINDOWS * (WINDOW - PROMPT));
}

/* Two lots; along the gradient the loss of the tokens as drawn changes by its square. ce has no
 * part. */
START_TEST(a_step_learns_from_what_the_student_writes)
{
    rig r;
    rig_begin(&r, 2);
    pare_train_opts o =
        one_step((pare_losses){.ce = _i == 1 ? 3 : 0, .kl = 1, .temperature = 1}, WINDOWS);
    o.lambda = 1;
    o.temperature = .9;
    o.teacher_share = _i == 2 ? .4 : 0;
    o.seed = 11;
    int32_t *const token = written(&r, &o);
    const pare_train_data text = r.data;
    float *was[LEAVES], *g[LEAVES];
    double square = 0, side[2];
    r.data.token = token;
    const double before = drawn_loss(&r);
    r.data = text;
    for (size_t i = 0; i < LEAVES; i++) {
        was[i] = floats(&r.home.arena, r.leaf[i].count);
        memcpy(was[i], r.leaf[i].value, r.leaf[i].count * sizeof(float));
    }
    ck_assert_int_eq(train(&r, &o), PARE_OK);
    hashed_near("loss", r.last.loss, before, 2e-6);
    for (size_t i = 0; i < LEAVES; i++) {
        g[i] = floats(&r.home.arena, r.leaf[i].count);
        for (size_t j = 0; j < r.leaf[i].count; j++) {
            g[i][j] = was[i][j] - r.leaf[i].value[j];
            square += (double)g[i][j] * (double)g[i][j];
        }
    }
    r.data.token = token;
    const double step = 1e-3 / sqrt(square);
    for (size_t s = 0; s < 2; s++) {
        for (size_t i = 0; i < LEAVES; i++)
            for (size_t j = 0; j < r.leaf[i].count; j++)
                r.leaf[i].value[j] =
                    (float)((double)was[i][j] + (s ? -step : step) * (double)g[i][j]);
        side[s] = drawn_loss(&r);
    }
    hashed_near("slope", (side[0] - side[1]) / (2 * step), square, 2e-3 * fmax(.05, square));
    tiny_end(&r.home);
}
END_TEST

/* The student is the teacher and stays it: steps that learn from samples have nothing to learn. */
typedef struct tally {
    size_t drawn, all;
} tally;

static pare_status count(void *self, const pare_train_step *s)
{
    tally *const t = self;
    t->all++;
    t->drawn += s->loss < 1e-3;
    return PARE_OK;
}

static const struct {
    double lambda;
    size_t least, most;
} shares[] = {{0, 0, 0}, {.25, 10, 32}, {.75, 48, 70}, {1, 80, 80}};
enum { SHARES = sizeof shares / sizeof *shares };

START_TEST(lambda_is_the_share_of_steps_that_learn_from_samples)
{
    rig r;
    rig_begin(&r, 2);
    for (size_t i = 0; i < LEAVES; i++)
        memcpy(r.leaf[i].value,
               r.teacher.block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES].data,
               r.leaf[i].count * sizeof(float));
    pare_train_opts o = usual();
    pare_train_state state = {0};
    tally t = {0};
    o.losses.ce = 1;
    o.batch = 1;
    o.schedule = (pare_schedule){.steps = 80};
    o.lambda = shares[_i].lambda;
    o.temperature = .9;
    r.data.window = 16;
    ck_assert_int_eq(pare_train(&r.home.cx, &r.home.arena, &r.trainee, &r.data, &o, &state,
                                &(pare_train_watch){count, &t}),
                     PARE_OK);
    ck_assert_uint_eq(t.all, 80);
    ck_assert_uint_ge(t.drawn, shares[_i].least);
    ck_assert_uint_le(t.drawn, shares[_i].most);
    tiny_end(&r.home);
}
END_TEST

static pare_train_opts mixed(void)
{
    pare_train_opts o = usual();
    o.losses = (pare_losses){.ce = .2, .jsd = 1, .hidden = .1, .temperature = 1, .beta = .5};
    o.lambda = .5;
    o.temperature = .9;
    return o;
}

static pare_status stop(void *self, const pare_train_step *s)
{
    return s->step == *(const size_t *)self ? PARE_EINTERRUPTED : PARE_OK;
}

/* One thread without a stop; five, stopped behind each of some steps. */
START_TEST(neither_threads_nor_stops_change_a_byte)
{
    const pare_train_opts o = mixed();
    rig r[2];
    rig_begin(&r[0], 1);
    rig_begin(&r[1], 5);
    ck_assert_int_eq(train(&r[0], &o), PARE_OK);
    pare_train_state state = {0};
    for (size_t at = 2; at < 12; at += 3)
        ck_assert_int_eq(pare_train(&r[1].home.cx, &r[1].home.arena, &r[1].trainee, &r[1].data, &o,
                                    &state, &(pare_train_watch){stop, &at}),
                         PARE_EINTERRUPTED);
    ck_assert_int_eq(pare_train(&r[1].home.cx, &r[1].home.arena, &r[1].trainee, &r[1].data, &o,
                                &state, &(pare_train_watch){0}),
                     PARE_OK);
    for (size_t i = 0; i < LEAVES; i++)
        ck_assert_mem_eq(r[0].leaf[i].value, r[1].leaf[i].value,
                         r[0].leaf[i].count * sizeof(float));
    tiny_end(&r[0].home);
    tiny_end(&r[1].home);
}
END_TEST

START_TEST(without_a_teacher_it_is_refused)
{
    rig r;
    rig_begin(&r, 1);
    pare_train_opts o = mixed();
    o.losses = (pare_losses){.ce = 1, .temperature = 1};
    ck_assert_int_eq(train(&r, &o), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, "what a teacher says of them"));
    pare_ctx_clear(&r.home.cx);
    o = mixed();
    o.lambda = 0;
    o.teacher_share = .5;
    ck_assert_int_eq(train(&r, &o), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, "without lambda it draws nothing"));
    tiny_end(&r.home);
}
END_TEST

START_TEST(it_keeps_to_its_memory)
{
    rig r;
    rig_begin(&r, 2);
    pare_train_opts o = mixed();
    o.losses = (pare_losses){.kl = 1, .temperature = 1};
    o.lambda = 1;
    o.teacher_share = .5;
    o.batch = WINDOWS;
    o.schedule.steps = 2;
    check_memory(&r, &o, LEAVES);
    tiny_end(&r.home);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("samples");
    TCase *const t = tcase_create("samples");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, a_step_learns_from_what_the_student_writes, 0, 3);
    tcase_add_loop_test(t, lambda_is_the_share_of_steps_that_learn_from_samples, 0, SHARES);
    tcase_add_test(t, neither_threads_nor_stops_change_a_byte);
    tcase_add_test(t, without_a_teacher_it_is_refused);
    tcase_add_test(t, it_keeps_to_its_memory);
    suite_add_tcase(s, t);
    return unit_main(s);
}
