#include "runtime/threads.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tests/unit/unit.h"

enum { ITEMS = 1000 };

/* Each item counts its visits; every worker has a counter of its own. */
typedef struct tally {
    unsigned visits[ITEMS];
    size_t chunk, count;
    size_t worker_items[PARE_THREADS_MAX];
    size_t workers;
    bool bad;
} tally;

static void visit(void *arg, size_t begin, size_t end, size_t worker)
{
    tally *const t = arg;
    if (worker >= t->workers || begin % t->chunk || end > t->count || begin >= end ||
        (end - begin != t->chunk && end != t->count)) {
        t->bad = true;
        return;
    }
    for (size_t i = begin; i < end; i++)
        t->visits[i]++;
    t->worker_items[worker] += end - begin;
}

static void start(pare_ctx *cx, size_t threads)
{
    pare_ctx_init(cx);
    ck_assert_int_eq(pare_pool_new(cx, threads, &cx->pool), PARE_OK);
}

static void stop(pare_ctx *cx)
{
    pare_pool_free(cx, cx->pool);
    ck_assert_uint_eq(cx->live_bytes, 0);
}

START_TEST(every_item_runs_once_in_chunks_of_the_asked_size)
{
    static tally t;
    static const size_t counts[] = {0, 1, 2, 7, 64, 999, ITEMS}, chunks[] = {1, 3, 64, 2000};
    pare_ctx cx;
    start(&cx, (size_t)_i);
    ck_assert_uint_eq(pare_threads(&cx), (size_t)_i);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++) {
            memset(&t, 0, sizeof t);
            t.chunk = chunks[k];
            t.count = counts[c];
            t.workers = (size_t)_i;
            pare_parallel(&cx, t.count, t.chunk, visit, &t);
            pare_parallel_apart(&cx, t.count, t.chunk, visit, &t);
            ck_assert(!t.bad);
            size_t items = 0;
            for (size_t i = 0; i < ITEMS; i++)
                ck_assert_uint_eq(t.visits[i], i < t.count ? 2 : 0);
            for (size_t w = 0; w < t.workers; w++)
                items += t.worker_items[w];
            ck_assert_uint_eq(items, 2 * t.count);
        }
    stop(&cx);
}
END_TEST

/* What one loop leaves behind must be seen by the caller and by the helpers of the next. */
static void add_neighbours(void *arg, size_t begin, size_t end, size_t worker)
{
    uint32_t *const *const row = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        row[1][i] = row[0][i] + row[0][(i + 1) % 16];
}

START_TEST(many_tiny_loops_see_the_results_of_the_loops_before)
{
    uint32_t a[16], b[16], want[16], next[16];
    pare_ctx cx;
    start(&cx, (size_t)_i);
    for (size_t i = 0; i < 16; i++)
        a[i] = want[i] = (uint32_t)i;
    for (int turn = 0; turn < 3000; turn++) {
        uint32_t *row[2] = {turn % 2 ? b : a, turn % 2 ? a : b};
        pare_parallel(&cx, 16, 1, add_neighbours, row);
        for (size_t i = 0; i < 16; i++)
            next[i] = want[i] + want[(i + 1) % 16];
        memcpy(want, next, sizeof want);
        ck_assert_mem_eq(row[1], want, sizeof want);
    }
    stop(&cx);
}
END_TEST

START_TEST(helpers_wake_up_after_a_long_rest)
{
    static tally t;
    pare_ctx cx;
    start(&cx, 4);
    for (int turn = 0; turn < 5; turn++) {
        (void)nanosleep(&(struct timespec){0, 20000000}, NULL); /* longer than any helper spins */
        memset(&t, 0, sizeof t);
        t.chunk = 1;
        t.count = ITEMS;
        t.workers = 4;
        pare_parallel(&cx, ITEMS, 1, visit, &t);
        ck_assert(!t.bad);
        for (size_t i = 0; i < ITEMS; i++)
            ck_assert_uint_eq(t.visits[i], 1);
    }
    stop(&cx);
}
END_TEST

/* The first chunk of a helper holds it up until all other chunks are done. */
typedef struct held {
    atomic_size_t done;
    atomic_bool held;
    size_t waited_for, first; /* of that helper: chunks done by others, its first chunk */
} held;

static void hold_up_a_helper(void *arg, size_t begin, size_t end, size_t worker)
{
    held *const h = arg;
    const struct timespec nap = {0, 1000000};
    if (worker > 0 && !atomic_exchange(&h->held, true)) {
        for (int i = 0; i < 5000 && atomic_load(&h->done) + 1 < ITEMS; i++)
            (void)nanosleep(&nap, NULL);
        h->waited_for = atomic_load(&h->done);
        h->first = begin;
    } else if (worker == 0 && begin < 2) {
        (void)nanosleep(&nap, NULL); /* so long that the pool wakes up helpers */
    }
    for (int i = 0; i < 5000 && worker == 0 && begin == 2 && !atomic_load(&h->held); i++)
        (void)nanosleep(&nap, NULL);
    atomic_fetch_add(&h->done, end - begin);
}

START_TEST(a_helper_that_is_held_up_loses_its_share_to_others)
{
    pare_ctx cx;
    start(&cx, 3);
    held h = {.waited_for = 0};
    pare_parallel_apart(&cx, ITEMS, 1, hold_up_a_helper, &h);
    ck_assert_uint_eq(h.done, ITEMS);
    ck_assert(atomic_load(&h.held));
    ck_assert_uint_eq(h.waited_for, ITEMS - 1);
    ck_assert(h.first == 334 || h.first == 667); /* where the second and the third share begin */
    stop(&cx);
}
END_TEST

START_TEST(two_pools_do_not_disturb_each_other)
{
    static tally t[2];
    pare_ctx cx[2];
    for (size_t i = 0; i < 2; i++)
        start(&cx[i], 3);
    for (int turn = 0; turn < 200; turn++)
        for (size_t i = 0; i < 2; i++) {
            t[i].chunk = 5;
            t[i].count = 100;
            t[i].workers = 3;
            pare_parallel(&cx[i], 100, 5, visit, &t[i]);
        }
    for (size_t i = 0; i < 200; i++)
        ck_assert_uint_eq(t[i / 100].visits[i % 100], 200);
    stop(&cx[0]);
    stop(&cx[1]);
}
END_TEST

START_TEST(a_pool_that_never_runs_is_freed)
{
    pare_ctx cx;
    start(&cx, (size_t)_i);
    stop(&cx);
    pare_pool_free(&cx, NULL);
}
END_TEST

START_TEST(a_context_without_a_pool_has_one_worker)
{
    static tally t = {.chunk = 7, .count = 100, .workers = 1};
    pare_ctx cx;
    pare_ctx_init(&cx);
    ck_assert_uint_eq(pare_threads(&cx), 1);
    pare_parallel(&cx, 100, 7, visit, &t);
    ck_assert(!t.bad);
    ck_assert_uint_eq(t.worker_items[0], 100);
}
END_TEST

START_TEST(zero_asks_for_the_cpus_of_the_process)
{
    pare_ctx cx;
    start(&cx, 0);
    ck_assert_uint_ge(pare_cpu_count(), 1);
    ck_assert(pare_threads(&cx) == pare_cpu_count() || pare_cpu_count() > PARE_THREADS_MAX);
    stop(&cx);
}
END_TEST

START_TEST(too_many_threads_and_no_memory_are_refused)
{
    pare_ctx cx;
    unit_failing failing = {.left = 0};
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_pool_new(&cx, PARE_THREADS_MAX + 1, &cx.pool), PARE_EINVAL);
    ck_assert_ptr_null(cx.pool);
    ck_assert_str_eq(cx.what, "257 threads asked for, at most 256 are supported");
    pare_ctx_clear(&cx);
    cx.alloc = (pare_alloc){unit_failing_resize, &failing};
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_ENOMEM);
    ck_assert_ptr_null(cx.pool);
    ck_assert_str_eq(cx.what, "out of memory: pool of 3 threads");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("threads");
    TCase *const c = tcase_create("threads");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, every_item_runs_once_in_chunks_of_the_asked_size, 1, 9);
    tcase_add_loop_test(c, many_tiny_loops_see_the_results_of_the_loops_before, 1, 9);
    tcase_add_test(c, helpers_wake_up_after_a_long_rest);
    tcase_add_test(c, a_helper_that_is_held_up_loses_its_share_to_others);
    tcase_add_test(c, two_pools_do_not_disturb_each_other);
    tcase_add_loop_test(c, a_pool_that_never_runs_is_freed, 1, 9);
    tcase_add_test(c, a_context_without_a_pool_has_one_worker);
    tcase_add_test(c, zero_asks_for_the_cpus_of_the_process);
    tcase_add_test(c, too_many_threads_and_no_memory_are_refused);
    suite_add_tcase(s, c);
    return unit_main(s);
}
