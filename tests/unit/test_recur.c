/* Blocks with a recurrent state: batches of several sequences, threads, copies of a cache, and what
 * is refused. That their numbers are right is in golden.families and golden.gradients. */
#include "formats/checkpoint.h"
#include "runtime/leaves.h"
#include "runtime/speculate.h"
#include "runtime/tape.h"
#include "runtime/threads.h"
#include "tests/data/families.h"
#include "tests/unit/folder.h"

enum { LENGTH = 9, SEQUENCES = 3 };

static pare_ctx cx;
static pare_arena arena;
static folder dir;
static pare_checkpoint ck;
static pare_model model;
static pare_forward f;

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    folder_make(&dir);
    ck_assert(family_write(family_find("qwen3_5_text"), dir.path));
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &model) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_forward_init(&cx, &arena, &model, 2 * LENGTH, false, &f), PARE_OK);
}

static void end(void)
{
    pare_checkpoint_close(&ck);
    folder_remove(&dir);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

/* A cache of each block. */
static pare_kv *caches(size_t sequences)
{
    const pare_ops o = pare_ops_of(&cx, &arena, &f);
    pare_kv *const kv = PARE_NEW(&arena, pare_kv, model.config.blocks);
    ck_assert_ptr_nonnull(kv);
    for (size_t b = 0; b < model.config.blocks; b++) {
        ck_assert_int_eq(pare_block_kv_take(&o, &model, b, sequences, 2 * LENGTH, &kv[b]), PARE_OK);
        const bool recurrent = pare_block_arch(&model.config, b) != model.config.arch;
        ck_assert((kv[b].state != NULL) == recurrent && (kv[b].keys == NULL) == recurrent);
    }
    return kv;
}

/* The stream behind the tokens of sequences `first` and later; x [rows, hidden]. */
static pare_status run(pare_kv *kv, pare_batch batch, size_t first, float *x)
{
    int32_t token[SEQUENCES * LENGTH];
    for (size_t s = 0; s < batch.sequences; s++)
        for (size_t t = 0; t < batch.length; t++)
            token[s * batch.length + t] = family_token(40 * (first + s) + batch.start + t);
    ck_assert_int_eq(pare_embed_batch(&cx, &model, token, batch, x), PARE_OK);
    return pare_model_forward(&cx, &arena, &f, batch, x, kv, model.config.blocks);
}

static float *stream(void)
{
    float *const x = PARE_NEW(&arena, float, SEQUENCES *LENGTH *model.config.hidden);
    ck_assert_ptr_nonnull(x);
    return x;
}

START_TEST(sequences_and_threads_do_not_matter)
{
    const size_t each = LENGTH * model.config.hidden;
    float *const all = stream(), *const one = stream();
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
    ck_assert_int_eq(run(caches(SEQUENCES), (pare_batch){SEQUENCES, LENGTH, 0}, 0, all), PARE_OK);
    pare_pool_free(&cx, cx.pool);
    cx.pool = NULL;
    for (size_t s = 0; s < SEQUENCES; s++) {
        ck_assert_int_eq(run(caches(1), (pare_batch){1, LENGTH, 0}, s, one), PARE_OK);
        ck_assert_mem_eq(one, all + s * each, each * sizeof *one);
    }
}
END_TEST

/* Of the second of two sequences; a cache that is used again begins anew. */
START_TEST(a_copied_cache_goes_on)
{
    const size_t bytes = LENGTH * model.config.hidden * sizeof(float);
    float *const went = stream(), *const copied = stream(), *const first = stream();
    pare_kv *const from = caches(2), *const to = caches(1);
    ck_assert_int_eq(run(to, (pare_batch){1, LENGTH, 0}, 2, copied), PARE_OK); /* other tokens */
    ck_assert_int_eq(run(from, (pare_batch){2, LENGTH, 0}, 0, first), PARE_OK);
    for (size_t b = 0; b < model.config.blocks; b++)
        pare_kv_copy(&model.config, &from[b], 1, &to[b], 0);
    ck_assert_int_eq(run(from, (pare_batch){2, LENGTH, LENGTH}, 0, went), PARE_OK);
    ck_assert_int_eq(run(to, (pare_batch){1, LENGTH, LENGTH}, 1, copied), PARE_OK);
    ck_assert_mem_eq(copied, (const char *)went + bytes, bytes);
    ck_assert_int_eq(run(from, (pare_batch){2, LENGTH, 0}, 0, went), PARE_OK);
    ck_assert_mem_eq(went, first, 2 * bytes);
}
END_TEST

START_TEST(what_a_state_cannot_do_is_refused)
{
    float *const x = stream();
    pare_kv *const kv = caches(1);
    pare_speculate_counts counts;
    int32_t token[LENGTH] = {1};
    const pare_speculate_opts opts = {.length = LENGTH, .drafted = 2};
    ck_assert_int_eq(run(kv, (pare_batch){1, LENGTH, 0}, 0, x), PARE_OK);
    ck_assert_int_eq(run(kv, (pare_batch){1, 1, LENGTH - 1}, 0, x), PARE_EINVAL);
    ck_assert_str_eq(cx.what, "a batch from position 8 on, where a recurrent state stands for 9");
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_speculate_run(&cx, &arena, &f, &f, &opts, 1, token, &counts),
                     PARE_ENOTSUP);
    ck_assert_ptr_nonnull(strstr(cx.what, "cannot take drafted tokens back"));
    pare_ctx_clear(&cx);
}
END_TEST

enum { ROWS = SEQUENCES * LENGTH, VECTORS = PARE_STATE_VECTORS };

/* The values of the vectors of a block with a state, and room for their gradients. */
static void take_vectors(const pare_block *b, pare_leaf_gradient *leaf, size_t *count)
{
    pare_config own;
    size_t found = 0;
    pare_block_config(&model.config, 0, &own);
    for (size_t i = 0; i < pare_block_leaves(&own); i++) {
        const pare_leaf l = pare_block_leaf(&own, b, i);
        if (l.kind != PARE_LEAF_STATE_VECTOR || !l.name)
            continue;
        count[found] = l.n;
        leaf[found++] = (pare_leaf_gradient){*l.vector, PARE_NEW(&arena, float, l.n)};
    }
    ck_assert_uint_eq(found, VECTORS);
}

/* The gradient of sum(dy y), dy [ROWS, hidden], behind block b of inputs x: to dx, and added to
 * what leaves get. */
static void gradient(size_t b, const float *x, const float *dy, const pare_leaf_gradient *leaf,
                     float *dx)
{
    pare_tape t;
    pare_array in, out;
    pare_tape_begin(&cx, &arena, NULL, &t);
    ck_assert_int_eq(pare_tape_input(&t, x, ROWS, model.config.hidden, true, &in), PARE_OK);
    ck_assert_int_eq(pare_tape_block(&t, &f, &model.block[b], (pare_batch){SEQUENCES, LENGTH, 0},
                                     in, NULL, &out),
                     PARE_OK);
    ck_assert_int_eq(
        pare_tape_back(&t, out, dy, &(pare_gradients){.leaf = leaf, .leaves = leaf ? VECTORS : 0}),
        PARE_OK);
    memcpy(dx, pare_tape_gradient(in), ROWS * model.config.hidden * sizeof *dx);
    pare_tape_end(&t);
}

static double loss(size_t b, const float *x, const float *dy)
{
    const size_t floats = ROWS * model.config.hidden;
    const pare_mark mark = pare_arena_mark(&arena);
    float *const y = stream();
    double sum = 0;
    memcpy(y, x, floats * sizeof *y);
    ck_assert_int_eq(pare_block_forward(&cx, &arena, &f, &model.block[b],
                                        (pare_batch){SEQUENCES, LENGTH, 0}, y,
                                        &caches(SEQUENCES)[b], NULL),
                     PARE_OK);
    for (size_t i = 0; i < floats; i++)
        sum += (double)dy[i] * (double)y[i];
    pare_arena_rewind(&arena, mark);
    return sum;
}

/* Moves n values along their gradient, by a small step of its length to both sides. */
static void compare(size_t b, float *at, const float *slope, size_t n, const float *x,
                    const float *dy)
{
    const pare_mark mark = pare_arena_mark(&arena);
    float *const was = PARE_NEW(&arena, float, n);
    double squares = 0, side[2];
    ck_assert_ptr_nonnull(was);
    memcpy(was, at, n * sizeof *was);
    for (size_t i = 0; i < n; i++)
        squares += (double)slope[i] * (double)slope[i];
    const double length = sqrt(squares), step = 1.0 / 512;
    ck_assert_double_gt(length, 1e-3);
    for (size_t s = 0; s < 2; s++) {
        for (size_t i = 0; i < n; i++)
            at[i] = (float)((double)was[i] + (s ? -step : step) * (double)slope[i] / length);
        side[s] = loss(b, x, dy);
    }
    memcpy(at, was, n * sizeof *was);
    pare_arena_rewind(&arena, mark);
    const double by = (side[0] - side[1]) / (2 * step);
    ck_assert_msg(fabs(by - length) <= 5e-3 * length, "block %zu: %g, by differences %g", b, length,
                  by);
}

/* A block with a state, one with attention and a gate for each channel. */
START_TEST(gradients_are_differences_for_any_number_of_threads)
{
    const size_t b = (size_t)_i, floats = ROWS * model.config.hidden;
    float *const x = stream(), *const dy = stream(), *const dx = stream(), *const again = stream();
    pare_leaf_gradient leaf[VECTORS], threads[VECTORS];
    size_t count[VECTORS];
    for (size_t i = 0; i < floats; i++) {
        x[i] = (float)pare_random_normal(3, 0, i);
        dy[i] = (float)pare_random_normal(3, 1, i);
    }
    if (b == 0) {
        take_vectors(&model.block[b], leaf, count);
        take_vectors(&model.block[b], threads, count);
    }
    gradient(b, x, dy, b ? NULL : leaf, dx);
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
    gradient(b, x, dy, b ? NULL : threads, again);
    pare_pool_free(&cx, cx.pool);
    cx.pool = NULL;
    ck_assert_mem_eq(dx, again, floats * sizeof *dx);
    compare(b, x, dx, floats, x, dy);
    for (size_t v = 0; b == 0 && v < VECTORS; v++) {
        ck_assert_mem_eq(leaf[v].gradient, threads[v].gradient, count[v] * sizeof(float));
        compare(b, (float *)(uintptr_t)leaf[v].value, leaf[v].gradient, count[v], x, dy);
    }
}
END_TEST

START_TEST(a_gradient_needs_the_first_token)
{
    const pare_recur later = {.batch = {1, LENGTH, 1}};
    const pare_array none[PARE_RECUR_INPUTS] = {{0}};
    pare_tape t;
    pare_tape_begin(&cx, &arena, NULL, &t);
    const pare_ops o = pare_tape_ops(&t);
    ck_assert_int_eq(o.op->recur(&o, &later, none, none[0]), PARE_ENOTSUP);
    ck_assert_str_eq(cx.what, "a gradient needs a recurrent state that begins with the batch");
    pare_ctx_clear(&cx);
    pare_tape_end(&t);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("recur");
    TCase *const t = tcase_create("recurrent");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, sequences_and_threads_do_not_matter);
    tcase_add_test(t, a_copied_cache_goes_on);
    tcase_add_test(t, what_a_state_cannot_do_is_refused);
    tcase_add_loop_test(t, gradients_are_differences_for_any_number_of_threads, 0, 2);
    tcase_add_test(t, a_gradient_needs_the_first_token);
    suite_add_tcase(s, t);
    return unit_main(s);
}
