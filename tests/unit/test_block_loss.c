/* The loss of a block and its gradient where a model has blocks of two kinds: with attention, and
 * with a recurrent state; what a wave of such a model takes, and text that it makes. */
#include "calib/block_loss.h"

#include "calib/shares.h"
#include "calib/tokens.h"
#include "calib/wave.h"
#include "formats/checkpoint.h"
#include "runtime/leaves.h"
#include "runtime/threads.h"
#include "tests/data/families.h"
#include "tests/unit/folder.h"

enum { WINDOW = 9, SAMPLES = 3, ROWS = SAMPLES * WINDOW, RECURRENT = 0, KINDS = 2 };

static pare_ctx cx;
static pare_arena arena;
static folder dir;
static pare_checkpoint ck;
static pare_model model;
static pare_forward f;
static pare_config own; /* of the block */
static pare_block current;
static float *input, *wanted;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    folder_make(&dir);
    ck_assert(family_write(family_find("qwen3_5_text"), dir.path));
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &model) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_forward_init(&cx, &arena, &model, WINDOW, true, &f), PARE_OK);
    const size_t floats = ROWS * model.config.hidden;
    input = PARE_NEW(&arena, float, floats);
    wanted = PARE_NEW(&arena, float, floats);
    ck_assert(input && wanted);
    for (size_t i = 0; i < floats; i++) {
        input[i] = (float)pare_random_normal(3, 0, i);
        wanted[i] = (float)pare_random_normal(3, 1, i);
    }
}

static void teardown(void)
{
    pare_checkpoint_close(&ck);
    folder_remove(&dir);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static pare_status read_windows(void *self, size_t first, size_t count, float *x, float *y)
{
    (void)self;
    const size_t stride = WINDOW * model.config.hidden;
    memcpy(x, input + first * stride, count * stride * sizeof *x);
    memcpy(y, wanted + first * stride, count * stride * sizeof *y);
    return PARE_OK;
}

static pare_block_data take_block(size_t block)
{
    const pare_block *const from = &model.block[block];
    pare_block_config(&model.config, block, &own);
    ck_assert_int_eq((own.arch->recurrence != NULL), block == RECURRENT);
    ck_assert_int_eq(pare_block_take(&arena, &own, pare_block_biases(from), &current), PARE_OK);
    pare_block_load(&cx, &own, from, &current);
    return (pare_block_data){.config = &own,
                             .forward = &f,
                             .current = &current,
                             .samples = SAMPLES,
                             .window = WINDOW,
                             .read = read_windows};
}

/* Its weights are those of the block, not rounded. */
static void take_loss(pare_arena *a, const pare_block_data *data, pare_block_loss *l)
{
    *l = (pare_block_loss){
        .cx = &cx, .data = data, .what = "a test", .batch = SAMPLES, .room = {.cx = &cx}};
    ck_assert_int_eq(pare_block_loss_take(l, a, &current), PARE_OK);
    for (size_t r = 0; r < PARE_ROLES; r++) {
        const pare_linear *const w = &current.linear[r];
        if (w->n)
            memcpy(l->rounded.linear[r].floats, w->floats, w->n * w->k * sizeof(float));
    }
}

static double measure(pare_block_loss *l)
{
    double loss;
    ck_assert_int_eq(pare_block_loss_measure(l, 0, SAMPLES, &loss), PARE_OK);
    return loss;
}

/* The loss and l->slope, on all windows. */
static double find_slopes(pare_block_loss *l)
{
    static const size_t all[SAMPLES] = {0, 1, 2};
    const double loss = measure(l);
    ck_assert_int_eq(pare_block_loss_slopes(l, all, SAMPLES), PARE_OK);
    return loss;
}

/* Of each matrix, along its gradient. Steps are short because a state brings its keys to length 1.
 */
START_TEST(gradients_of_both_kinds_of_blocks_are_differences)
{
    const pare_block_data data = take_block((size_t)_i);
    const double step = 1.0 / 4096;
    pare_block_loss l;
    size_t matrices = 0;
    take_loss(&arena, &data, &l);
    (void)find_slopes(&l);
    for (size_t r = 0; r < PARE_ROLES; r++) {
        const size_t count = current.linear[r].n * current.linear[r].k;
        const float *const slope = l.slope.linear[r].floats;
        float *const w = l.rounded.linear[r].floats;
        double squares = 0, side[2];
        for (size_t i = 0; i < count; i++)
            squares += (double)slope[i] * (double)slope[i];
        const double length = sqrt(squares);
        if (!count)
            continue;
        for (size_t s = 0; s < 2; s++) {
            for (size_t i = 0; i < count; i++)
                w[i] = (float)((double)current.linear[r].floats[i] +
                               (s ? -step : step) * (double)slope[i] / length);
            side[s] = measure(&l);
        }
        memcpy(w, current.linear[r].floats, count * sizeof *w);
        const double by = (side[0] - side[1]) / (2 * step);
        ck_assert_double_gt(length, 1e-3);
        ck_assert_msg(fabs(by - length) <= 5e-3 * length, "%s: %g, by differences %g",
                      current.linear[r].name, length, by);
        matrices++;
    }
    ck_assert_uint_eq(matrices, _i == RECURRENT ? 6 : 7);
    pare_block_loss_release(&l);
}
END_TEST

START_TEST(memory_stays_within_the_bound_of_the_model)
{
    ck_assert_int_eq(pare_pool_new(&cx, 5, &cx.pool), PARE_OK);
    const pare_block_data data = take_block((size_t)_i);
    const size_t bound = pare_block_loss_bytes(&cx, &model.config, SAMPLES, WINDOW),
                 before = cx.live_bytes;
    pare_arena a = {.cx = &cx};
    pare_block_loss l;
    cx.peak_bytes = before;
    take_loss(&a, &data, &l);
    const size_t taken = cx.live_bytes;
    (void)find_slopes(&l);
    ck_assert_uint_eq(cx.peak_bytes, taken); /* at once */
    ck_assert_uint_le(cx.peak_bytes - before, bound);
    pare_block_loss_release(&l);
    pare_arena_release(&a);
    pare_pool_free(&cx, cx.pool);
    cx.pool = NULL;
}
END_TEST

static void twice(void *self, pare_site site, float *x, size_t rows, size_t k)
{
    (void)self;
    for (size_t i = 0; site == PARE_SITE_ATTENTION && i < rows * k; i++)
        x[i] *= 2;
}

static void run(const pare_tap *tap, float *y)
{
    pare_kv kv;
    const pare_batch batch = {SAMPLES, WINDOW, 0};
    ck_assert_int_eq(pare_kv_take(&arena, &own, SAMPLES, WINDOW, &kv), PARE_OK);
    memcpy(y, input, ROWS * own.hidden * sizeof *y);
    ck_assert_int_eq(pare_block_forward(&cx, &arena, &f, &current, batch, y, &kv, tap), PARE_OK);
}

/* Beta and decay read what nobody rounds: twice the input counts for the two linears alone. */
START_TEST(what_a_tap_changes_goes_to_linears_that_may_be_rounded)
{
    (void)take_block(RECURRENT);
    const pare_tap tap = {.change = twice, .last = PARE_SITES};
    const size_t floats = ROWS * own.hidden;
    float *const changed = PARE_NEW(&arena, float, floats), *const want =
                                                                PARE_NEW(&arena, float, floats);
    ck_assert(changed && want);
    run(&tap, changed);
    for (size_t r = PARE_ROLE_Q; r <= PARE_ROLE_K; r++)
        for (size_t i = 0; i < current.linear[r].n * current.linear[r].k; i++)
            current.linear[r].floats[i] *= 2;
    run(NULL, want);
    ck_assert_mem_eq(changed, want, floats * sizeof *want);
}
END_TEST

/* A state is as large for a short window as for a long one. */
START_TEST(a_wave_counts_states)
{
    enum { BATCH = 16, MANY = PARE_SHARES * BATCH, SHORT = 1 };
    static const int32_t tokens[MANY * SHORT]; /* of one kind */
    pare_arena scratch;
    pare_wave wave;
    ck_assert_int_eq(
        pare_wave_open_part(&cx, &arena, MANY, 0, MANY, SHORT, model.config.hidden, NULL, &wave),
        PARE_OK);
    wave.batch = BATCH;
    ck_assert_int_eq(pare_wave_embed(&cx, &arena, &wave, &model, tokens), PARE_OK);
    const size_t bytes = pare_wave_scratch(&cx, &model.config, BATCH, SHORT, (pare_wave_kind){0});
    ck_assert_int_eq(pare_arena_init(&cx, &scratch, bytes + 4096), PARE_OK); /* red zones */
    const size_t live = cx.live_bytes;
    cx.peak_bytes = live;
    ck_assert_int_eq(pare_wave_run(&cx, &scratch, &wave, &f, &model.block[RECURRENT], NULL, ""),
                     PARE_OK);
    ck_assert_uint_eq(cx.peak_bytes, live);
    pare_arena_release(&scratch);
    pare_wave_close(&wave);
}
END_TEST

START_TEST(text_that_a_model_makes_counts_states)
{
    const size_t samples = 16, window = 2;
    const size_t bytes = pare_tokens_generate_bytes(&cx, &model.config, window),
                 before = cx.live_bytes;
    pare_arena scratch = {.cx = &cx};
    pare_tokens t;
    cx.peak_bytes = before;
    ck_assert_int_eq(pare_tokens_generate(&cx, &scratch, &scratch, &f, 1, 1, samples, window, &t),
                     PARE_OK);
    ck_assert_uint_le(cx.peak_bytes - before, bytes);
    pare_arena_release(&scratch);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("block_loss");
    TCase *const t = tcase_create("kinds of blocks");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, gradients_of_both_kinds_of_blocks_are_differences, 0, KINDS);
    tcase_add_loop_test(t, memory_stays_within_the_bound_of_the_model, 0, KINDS);
    tcase_add_test(t, what_a_tap_changes_goes_to_linears_that_may_be_rounded);
    tcase_add_test(t, a_wave_counts_states);
    tcase_add_test(t, text_that_a_model_makes_counts_states);
    suite_add_tcase(s, t);
    return unit_main(s);
}
