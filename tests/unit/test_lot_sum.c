#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
/* The gradient of a step as the sum of those of its lots: the same bytes for any number of threads,
 * and from four processes. */
#include <string.h>
#include <sys/mman.h>

#include "solve/scales.h"
#include "tests/unit/pipes.h"
#include "tests/unit/train_rig.h"

enum {
    LOT = 22,           /* windows of 90 tokens */
    BATCH = 4 * LOT + 5 /* two lots of process 0 of four, one of the others; a small one */
};
enum { MIXED, CODES, TERNARY, ADAPTERS, SAMPLES, TOP, ALL, TIED, ONE_LOT, KINDS };

static bool is_any(void *self, size_t block, const pare_leaf *leaf)
{
    (void)self;
    return block != PARE_OUTSIDE || leaf->name;
}

static bool on_grid(void *self, size_t block, const pare_leaf *leaf, pare_grid *grid)
{
    (void)block;
    *grid = *(const pare_grid *)self;
    return leaf->linear;
}

static pare_grid grids[] = {
    [CODES] = {.bits = 3, .group = 32, .symmetric = true, .f16_scales = true},
    [TERNARY] = {.bits = 2, .encoding = PARE_ENCODING_TERNARY, .f16_scales = true, .tensor = true}};

static pare_train_opts options(int kind)
{
    pare_train_opts o = usual();
    o.batch = kind == ONE_LOT ? LOT : BATCH;
    o.schedule.steps = 2;
    o.keep = kind == CODES || kind == ALL;
    if (kind == MIXED)
        o.losses = (pare_losses){.ce = 1,
                                 .jsd = 1,
                                 .sinkhorn = 1,
                                 .hidden = 1,
                                 .relations = 1,
                                 .attention = 1,
                                 .temperature = 1,
                                 .beta = .5};
    if (kind == SAMPLES) {
        o.lambda = .6;
        o.temperature = 1;
        o.teacher_share = .5;
    }
    o.teacher_top = kind == TOP ? 8 : 0;
    return o;
}

static void fit_codes(rig *r, const pare_grid *grid)
{
    for (size_t i = 0; i < r->trainee.awares; i++) {
        pare_aware *const t = &r->trainee.aware[i];
        ck_assert_int_eq(pare_scales_fit(&r->home.cx, grid, t->master->value, NULL, t->codes.n,
                                         t->codes.k, &t->codes),
                         PARE_OK);
        if (t->step)
            memcpy(t->step->value, t->codes.scales, t->step->count * sizeof(float));
    }
}

/* The student of a kind, as process 0 has it, or as the others do, who know no value. */
static void begin(rig *r, int kind, size_t threads, bool follows)
{
    rig_begin(r, threads);
    pare_arena *const a = &r->home.arena;
    const bool codes = kind == CODES || kind == TERNARY;
    const pare_choice choice = {.wants = kind == ALL || kind == TIED ? is_any : is_matrix,
                                .grid = codes ? on_grid : NULL,
                                .self = codes ? &grids[kind] : NULL,
                                .follows = follows};
    const pare_lora_opts lora = {.rank = 3, .alpha = 6, .seed = 3};
    r->student.config.tied = kind == TIED;
    if (kind == TIED)
        r->student.head = r->student.embed;
    if (kind == ADAPTERS && !follows)
        ck_assert_int_eq(pare_trainee_adapt(a, &r->student, &choice, &lora, &r->trainee), PARE_OK);
    else
        ck_assert_int_eq(pare_trainee_take(&r->home.cx, a, &r->student, &choice, &r->trainee),
                         PARE_OK);
    r->leaf = r->trainee.leaf;
    if (codes && !follows)
        fit_codes(r, &grids[kind]);
    for (size_t i = 0; follows && i < r->trainee.leaves; i++) {
        ck_assert(!r->leaf[i].m && !r->leaf[i].m8.code);
        for (size_t j = 0; j < r->leaf[i].count; j++)
            r->leaf[i].value[j] = 7;
    }
}

static void same_leaves(const rig *a, const rig *b)
{
    ck_assert_double_eq(a->last.loss, b->last.loss);
    ck_assert_double_eq(a->last.norm, b->last.norm);
    ck_assert_uint_eq(a->trainee.leaves, b->trainee.leaves);
    for (size_t i = 0; i < a->trainee.leaves; i++)
        ck_assert_mem_eq(a->leaf[i].value, b->leaf[i].value, a->leaf[i].count * sizeof(float));
}

START_TEST(bytes_are_the_same_for_any_number_of_threads)
{
    static const size_t threads[] = {1, 2, 5};
    rig r[3];
    const pare_train_opts o = options(CODES);
    for (size_t i = 0; i < 3; i++) {
        begin(&r[i], CODES, threads[i], false);
        ck_assert_int_eq(train(&r[i], &o), PARE_OK);
        same_leaves(&r[0], &r[i]);
    }
    for (size_t i = 0; i < 3; i++)
        tiny_end(&r[i].home);
}
END_TEST

START_TEST(it_keeps_to_its_memory)
{
    rig r;
    const pare_train_opts o = options(_i);
    begin(&r, _i, 2, false);
    check_memory(&r, &o, r.trainee.leaves);
    tiny_end(&r.home);
}
END_TEST

/* --- four processes ----------------------------------------------------------------------------
 */

static rig alone; /* what one process came to */
static int kind;

static void begin_as(rig *r, pare_ctx *cx)
{
    begin(r, kind, 2, pare_world_rank(cx) > 0);
    r->home.cx.world = cx->world;
}

static int train_together(pare_ctx *cx)
{
    rig r;
    const pare_train_opts o = options(kind);
    begin_as(&r, cx);
    ck_assert_int_eq(train(&r, &o), PARE_OK);
    ck_assert(!cx->world->ended);
    ck_assert_uint_eq(r.last.step, pare_world_rank(cx) == 0 ? o.schedule.steps : 0);
    if (pare_world_rank(cx) == 0)
        same_leaves(&r, &alone);
    tiny_end(&r.home);
    return 0;
}

START_TEST(four_processes_give_the_bytes_of_one)
{
    kind = _i;
    const pare_train_opts o = options(kind);
    begin(&alone, kind, 1, false);
    ck_assert_int_eq(train(&alone, &o), PARE_OK);
    ck_assert_int_eq(pipes_run(train_together), 0);
    tiny_end(&alone.home);
}
END_TEST

/* Behind step 1 process 2 is interrupted. All learn of it, and process 0 has the weights of that
 * step. */
static int *stop; /* in memory that all share */

static pare_status see_first(void *self, const pare_train_step *s)
{
    *stop = s->step == 1;
    return see(self, s);
}

static int stop_one(pare_ctx *cx)
{
    rig r;
    pare_train_state state = {0};
    const pare_train_opts o = options(kind);
    begin_as(&r, cx);
    r.home.cx.interrupt = pare_world_rank(cx) == 2 ? stop : NULL;
    ck_assert_int_eq(pare_train(&r.home.cx, &r.home.arena, &r.trainee, &r.data, &o, &state,
                                &(pare_train_watch){see_first, &r}),
                     PARE_EINTERRUPTED);
    ck_assert(cx->world->ended);
    if (pare_world_rank(cx) == 0) {
        ck_assert_uint_eq(state.steps, 1);
        r.home.cx.world = NULL; /* the rest alone */
        pare_ctx_clear(&r.home.cx);
        ck_assert_int_eq(pare_train(&r.home.cx, &r.home.arena, &r.trainee, &r.data, &o, &state,
                                    &(pare_train_watch){see, &r}),
                         PARE_OK);
        same_leaves(&r, &alone);
    }
    tiny_end(&r.home);
    return 0;
}

START_TEST(what_stops_one_process_stops_all)
{
    kind = CODES;
    const pare_train_opts o = options(kind);
    begin(&alone, kind, 1, false);
    ck_assert_int_eq(train(&alone, &o), PARE_OK);
    stop = mmap(NULL, sizeof *stop, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(stop, MAP_FAILED);
    ck_assert_int_eq(pipes_run(stop_one), 0);
    tiny_end(&alone.home);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("lot_sum");
    TCase *const t = tcase_create("lot_sum");
    tcase_add_test(t, bytes_are_the_same_for_any_number_of_threads);
    tcase_add_loop_test(t, it_keeps_to_its_memory, ALL, TIED + 1);
    tcase_add_loop_test(t, four_processes_give_the_bytes_of_one, 0, KINDS);
    tcase_add_test(t, what_stops_one_process_stops_all);
    suite_add_tcase(s, t);
    return unit_main(s);
}
