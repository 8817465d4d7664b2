/* What a counted run says of a model, against what runs: memory and arithmetic, of a small model of
 * every family. */
#include "runtime/count.h"
#include "runtime/forward_internal.h"
#include "runtime/linear.h"
#include "runtime/tape.h"
#include "runtime/threads.h"
#include "tests/data/families.h"
#include "tests/unit/loaded.h"

static const pare_batch batches[] = {{1, 1, 0}, {1, 20, 5}, {4, 20, 0}};
enum { BATCHES = sizeof batches / sizeof *batches, KINDS = 2 };

/* The model of a family in floats, or with packed linears. */
static void begin(const family *f, bool packed, job_place *p, loaded *l)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    (void)snprintf(p->root, sizeof p->root, "job.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(p->root));
    ck_assert(family_write(f, job_path(p, "model")));
    if (packed) {
        job_recipe(p, "pare: 1\nmodel: model\npasses: [rtn: {bits: 4, group: 32}]\n");
        ck_assert_int_eq(job_run(p, (job_opts){.output = "out"}, NULL), PARE_OK);
    }
    load(p, packed ? "out" : "model", l);
}

static void end(const job_place *p, loaded *l)
{
    pare_checkpoint_close(&l->ck);
    job_remove_directory(p->root);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

/* Runs the blocks behind a first piece that fills the cache; with memory for one block and no
 * more where `tight`. */
static void run(const pare_model *m, const pare_backend *backend, pare_batch batch, bool tight)
{
    const pare_config *const c = &m->config;
    const size_t rows = batch.sequences * batch.length, all = batch.start + batch.length;
    pare_forward f;
    pare_kv kv;
    pare_arena scratch;
    float *const x = PARE_NEW(&arena, float, rows * c->hidden);
    float *const logits = PARE_NEW(&arena, float, rows * c->vocab);
    ck_assert(x && logits);
    ck_assert_int_eq(pare_forward_init(&cx, &arena, m, all, false, &f), PARE_OK);
    for (size_t i = 0; i < c->blocks; i++) {
        for (size_t j = 0; j < rows * c->hidden; j++)
            x[j] = (float)((double)((j * 37 + i) % 101) / 50 - 1);
        ck_assert_int_eq(pare_kv_take(&arena, c, batch.sequences, all, &kv), PARE_OK);
        if (batch.start)
            ck_assert_int_eq(pare_block_forward(&cx, &arena, &f, &m->block[i],
                                                (pare_batch){batch.sequences, batch.start, 0}, x,
                                                &kv, NULL),
                             PARE_OK);
        f.backend = backend;
        ck_assert_int_eq(
            pare_arena_init(&cx, &scratch,
                            tight ? pare_block_forward_bytes(&cx, c, batch, pare_model_inputs(m))
                                  : 0),
            PARE_OK);
        cx.limit_bytes = tight ? cx.live_bytes : 0;
        ck_assert_msg(pare_block_forward(&cx, &scratch, &f, &m->block[i], batch, x, &kv, NULL) ==
                          PARE_OK,
                      "%zu x %zu: %s", batch.sequences, batch.length, cx.what);
        cx.limit_bytes = 0;
        f.backend = NULL;
        pare_arena_release(&scratch);
    }
    f.backend = backend;
    ck_assert_int_eq(pare_logits(&cx, &arena, &f, x, NULL, rows, logits), PARE_OK);
}

START_TEST(a_block_runs_in_the_memory_that_is_counted)
{
    job_place p;
    loaded l;
    begin(&families[_i / KINDS], _i % KINDS, &p, &l);
    for (size_t b = 0; b < BATCHES; b++)
        run(&l.model, NULL, batches[b], true);
    end(&p, &l);
}
END_TEST

/* Products of one token and of several, and rows that fill many tiles of the threads or few. */
START_TEST(a_product_in_bf16_runs_in_the_memory_that_is_counted)
{
    enum { M = 65, N = 8 * 256, K = 4096 };
    static const size_t shapes[][3] = {{1, N, K}, {M, N, 64}, {M, N / 8, 64}, {M, 70, 33}};
    const size_t *const shape = shapes[_i], m = shape[0], n = shape[1], k = shape[2];
    pare_arena scratch;
    pare_count count;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    const pare_config c = {.arch = pare_arch_find("llama"), .hidden = k};
    const pare_linear w = {
        .dtype = PARE_BF16, .n = n, .k = k, .data = PARE_NEW(&arena, uint16_t, n * k)};
    const pare_linear *const one = &w;
    const pare_array x = {.at = PARE_NEW(&arena, float, m *k), .rows = m, .width = k};
    const pare_array y = {.at = PARE_NEW(&arena, float, m *n), .rows = m, .width = n};
    ck_assert(w.data && x.at && y.at);
    for (size_t threads = 1; threads <= 2; threads++) {
        ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
        const pare_status s =
            pare_count_begin(&cx, &c, (pare_batch){1, m, 0}, PARE_INPUTS_BF16, &count);
        ck_assert_int_eq(s, PARE_OK);
        const pare_ops o = pare_ops_of(&count.cx, &count.arena, &count.forward);
        ck_assert_int_eq(o.op->linears(&o, &one, 1, false, x, &y), PARE_OK);
        const size_t counted[] = {pare_count_end(&count, s), pare_tape_bf16_bytes(&cx, m, n, k)};
        for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
            ck_assert_int_eq(pare_arena_init(&cx, &scratch, counted[i]), PARE_OK);
            cx.limit_bytes = cx.live_bytes;
            ck_assert_msg(pare_linear_apply_bf16(&cx, &scratch, &w, x.at, k, m, y.at, n) == PARE_OK,
                          "count %zu, threads %zu: %s", i, threads, cx.what);
            cx.limit_bytes = 0;
            pare_arena_release(&scratch);
        }
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
    }
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

/* Three linears of one input, each of which takes it in floats of 4 bits of its own. */
START_TEST(inputs_that_are_rounded_apart_are_in_the_memory_that_is_counted)
{
    enum { M = 65, N = 16, K = 4096, GROUP = 32, LINEARS = 3 };
    pare_arena scratch;
    pare_count count;
    pare_linear w[LINEARS];
    const pare_linear *each[LINEARS];
    pare__product product[LINEARS];
    pare_array y[LINEARS];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    const pare_config c = {.arch = pare_arch_find("llama"), .hidden = K};
    const pare_array x = {.at = PARE_NEW(&arena, float, (size_t)M *K), .rows = M, .width = K};
    const pare_panel panel = {.codes = PARE_NEW(&arena, uint8_t, (size_t)N * K / 2),
                              .scales = PARE_NEW(&arena, uint16_t, (size_t)N * K / GROUP),
                              .n = N,
                              .k = K,
                              .group = GROUP};
    ck_assert(x.at && panel.codes && panel.scales);
    for (size_t i = 0; i < LINEARS; i++) {
        w[i] = (pare_linear){.name = "w",
                             .n = N,
                             .k = K,
                             .bits = 4,
                             .encoding = PARE_ENCODING_MXFP4,
                             .panel = panel,
                             .activation = {PARE_ACTIVATION_FLOAT, 4, (float)i}};
        each[i] = &w[i];
        y[i] = (pare_array){.at = PARE_NEW(&arena, float, (size_t)M *N), .rows = M, .width = N};
        product[i] = (pare__product){&w[i], y[i].at, N};
        ck_assert_ptr_nonnull(y[i].at);
    }
    const pare_status s = pare_count_begin(&cx, &c, (pare_batch){1, M, 0}, PARE_INPUTS_ANY, &count);
    ck_assert_int_eq(s, PARE_OK);
    const pare_ops o = pare_ops_of(&count.cx, &count.arena, &count.forward);
    ck_assert_int_eq(o.op->linears(&o, each, LINEARS, false, x, y), PARE_OK);
    ck_assert_int_eq(pare_arena_init(&cx, &scratch, pare_count_end(&count, s)), PARE_OK);
    cx.limit_bytes = cx.live_bytes;
    ck_assert_msg(pare__linear_apply_all(&cx, &scratch, product, LINEARS, false, x.at, K, M) ==
                      PARE_OK,
                  "%s", cx.what);
    cx.limit_bytes = 0;
    pare_arena_release(&scratch);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

/* What the CPU was asked for. */
static pare_work seen;

static pare_status linears(const pare_ops *o, const pare_linear *const *w, size_t count, bool exact,
                           pare_array x, const pare_array *y)
{
    for (size_t i = 0; i < count; i++)
        seen.products[0] += 2.0 * (double)(x.rows * w[i]->n * w[i]->k);
    return pare_cpu.op->linears(o, w, count, exact, x, y);
}

static pare_status attend(const pare_ops *o, const pare_attend *a, pare_array q, pare_array k,
                          pare_array v, pare_array y)
{
    for (size_t i = 0; i < q.rows; i++)
        for (size_t at = a->batch.start + i % a->batch.length, j = 0; j <= at; j++)
            seen.pairs +=
                a->window == 0 || (a->f->model->config.chunked ? at / a->window == j / a->window
                                                               : at - j < a->window);
    return pare_cpu.op->attend(o, a, q, k, v, y);
}

static pare_status recur(const pare_ops *o, const pare_recur *r, const pare_array *x, pare_array y)
{
    seen.scan += 7.0 * (double)(y.rows * y.width * r->f->model->config.recurrence.key_width);
    return pare_cpu.op->recur(o, r, x, y);
}

START_TEST(the_arithmetic_is_that_of_the_run)
{
    job_place p;
    loaded l;
    pare_block_table table = *pare_cpu.op;
    pare_backend spy = pare_cpu;
    table.linears = linears;
    table.attend = attend;
    table.recur = recur;
    spy.op = &table;
    begin(&families[_i / KINDS], _i % KINDS, &p, &l);
    const pare_model described = {.config = l.model.config};
    for (size_t b = 0; b < BATCHES; b++) {
        pare_work w[2];
        seen = (pare_work){.pairs = 0};
        run(&l.model, &spy, batches[b], false);
        ck_assert_int_eq(pare_work_of(&cx, &l.model, batches[b], PARE_SITES, NULL, &w[0]), PARE_OK);
        ck_assert_int_eq(pare_work_of(&cx, &described, batches[b], PARE_SITES, NULL, &w[1]),
                         PARE_OK);
        for (size_t i = 0; i < 2; i++) {
            const double *const part = w[i].products;
            ck_assert_double_eq(part[PARE_WORK_COMMON] + part[PARE_WORK_EXPERTS] +
                                    part[PARE_WORK_HEAD],
                                seen.products[0]);
            ck_assert_double_eq(w[i].pairs, seen.pairs);
            ck_assert_double_eq(w[i].scan, seen.scan);
            ck_assert((part[PARE_WORK_EXPERTS] > 0) == (l.model.config.experts > 0));
        }
    }
    end(&p, &l);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("count");
    TCase *const t = tcase_create("families");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_block_runs_in_the_memory_that_is_counted, 0, (int)FAMILIES * KINDS);
    tcase_add_loop_test(t, a_product_in_bf16_runs_in_the_memory_that_is_counted, 0, 4);
    tcase_add_test(t, inputs_that_are_rounded_apart_are_in_the_memory_that_is_counted);
    tcase_add_loop_test(t, the_arithmetic_is_that_of_the_run, 0, (int)FAMILIES * KINDS);
    suite_add_tcase(s, t);
    return unit_main(s);
}
