/* Logits of a small random model of every family against the reference implementation. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "formats/checkpoint.h"
#include "runtime/cuda.h"
#include "tests/data/families.h"
#include "tests/unit/far.h"
#include "tests/unit/folder.h"

enum { LENGTH = 40, LINE = 8192 };

typedef struct golden {
    size_t step, vocab;
    float *some; /* [LENGTH][vocab / step], columns 0, step .. */
    float *last; /* [vocab] */
} golden;

static pare_ctx cx;
static pare_arena arena;
static folder dir;

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    folder_make(&dir);
}

static void end(void)
{
    folder_remove(&dir);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void read_row(FILE *in, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(fscanf(in, "%f", &to[i]), 1);
}

/* The values of a family in the committed file. */
static golden read_golden(const char *name)
{
    char line[LINE], found[64];
    size_t length;
    golden g = {0};
    FILE *const in = fopen(PARE_SOURCE_DIR "/tests/golden/families.txt", "r");
    ck_assert_ptr_nonnull(in);
    while (fgets(line, sizeof line, in)) {
        if (sscanf(line, "%63s %zu %zu %zu", found, &length, &g.step, &g.vocab) != 4 ||
            strcmp(found, name) != 0)
            continue;
        ck_assert_uint_eq(length, LENGTH);
        g.some = PARE_NEW(&arena, float, LENGTH *(g.vocab / g.step));
        g.last = PARE_NEW(&arena, float, g.vocab);
        ck_assert(g.some && g.last);
        read_row(in, g.some, LENGTH * (g.vocab / g.step));
        read_row(in, g.last, g.vocab);
        ck_assert_int_eq(fclose(in), 0);
        return g;
    }
    ck_abort_msg("no golden values of %s", name);
}

/* Runs the tokens in pieces of `piece` on the backend of f; logits [LENGTH, vocab]. */
static void run_on(const pare_forward *f, size_t piece, float *logits)
{
    const pare_model *const m = f->model;
    const pare_config *const c = &m->config;
    const pare_ops o = pare_ops_of(&cx, &arena, f);
    pare_mark mark;
    ck_assert_int_eq(o.op->mark(&o, &mark), PARE_OK);
    pare_kv *const kv = PARE_NEW(&arena, pare_kv, c->blocks);
    float *const x = PARE_NEW(&arena, float, LENGTH * c->hidden);
    ck_assert(kv && x);
    for (size_t b = 0; b < c->blocks; b++)
        ck_assert_int_eq(o.op->kv_take(&o, c, &m->kv, 1, LENGTH, &kv[b]), PARE_OK);
    for (size_t at = 0; at < LENGTH; at += piece) {
        const pare_batch batch = {1, LENGTH - at < piece ? LENGTH - at : piece, at};
        int32_t token[LENGTH];
        for (size_t i = 0; i < batch.length; i++)
            token[i] = family_token(at + i);
        ck_assert_msg(pare_embed_batch(&cx, m, token, batch, x) == PARE_OK, "%s", cx.what);
        ck_assert_msg(pare_model_forward(&cx, &arena, f, batch, x, kv, c->blocks) == PARE_OK, "%s",
                      cx.what);
        ck_assert_int_eq(pare_logits(&cx, &arena, f, x, NULL, batch.length, logits + at * c->vocab),
                         PARE_OK);
    }
    ck_assert_int_eq(o.op->rewind(&o, mark), PARE_OK);
}

/* Positions of the tables: more than the caches have room for change nothing, but with DYNAMIC. */
static size_t positions_of(const pare_model *m, size_t piece)
{
    return m->config.rope.kind == PARE_ROPE_DYNAMIC || piece == LENGTH ? LENGTH : LENGTH + 8;
}

/* NULL: the CPU. */
static void run(const pare_model *m, const pare_backend *backend, size_t piece, float *logits)
{
    pare_forward f;
    const pare_mark mark = pare_arena_mark(&arena);
    ck_assert_int_eq(pare_forward_init(&cx, &arena, m, positions_of(m, piece), false, &f), PARE_OK);
    f.backend = backend;
    run_on(&f, piece, logits);
    pare_arena_rewind(&arena, mark);
}

/* On the device of this program. */
static void run_device(pare_device *d, const pare_model *m, size_t piece, float *logits)
{
    pare_forward f;
    pare_cuda *c;
    const pare_mark mark = pare_arena_mark(&arena);
    ck_assert_int_eq(pare_forward_init(&cx, &arena, m, positions_of(m, piece), false, &f), PARE_OK);
    ck_assert_msg(pare_cuda_open(&cx, d, 0, &f, &c) == PARE_OK, "%s", cx.what);
    run_on(&f, piece, logits);
    pare_cuda_close(c);
    pare_arena_rewind(&arena, mark);
}

/* Whether a device has no kernels for the model, and says so. */
static bool is_refused(pare_device *d, const pare_model *m)
{
    pare_forward f = {.model = m};
    pare_cuda *c;
    const pare_arch *const a = m->config.arch;
    const char *const why = m->config.mixed                        ? "a recurrent state"
                            : a->sinks                             ? "attention sinks"
                            : a->latent_eps > 0                    ? "latent attention"
                            : a->experts && a->experts->correction ? "sigmoids and a correction"
                            : m->config.chunked                    ? "attention in chunks"
                            : m->config.turns_neighbours           ? "neighbouring channels"
                                                                   : NULL;
    if (!why)
        return false;
    ck_assert_int_eq(pare_cuda_open(&cx, d, 0, &f, &c), PARE_ENOTSUP);
    ck_assert_msg(strstr(cx.what, why), "%s", cx.what);
    pare_ctx_clear(&cx);
    return true;
}

static double farther(double most, float is, float wanted)
{
    const double d = fabs((double)is - (double)wanted);
    return d > most || isnan(d) ? d : most;
}

START_TEST(logits_are_those_of_the_reference_whatever_the_split_and_the_backend)
{
    const family *const f = _i < FAMILIES ? &families[_i] : &scaled_families[_i - FAMILIES];
    pare_checkpoint ck;
    pare_model m;
    ck_assert(family_write(f, dir.path));
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &m) == PARE_OK, "%s", cx.what);
    const golden g = read_golden(f->name);
    ck_assert_uint_eq(g.vocab, m.config.vocab);
    float *const whole = PARE_NEW(&arena, float, LENGTH *g.vocab);
    float *const pieces = PARE_NEW(&arena, float, LENGTH *g.vocab);
    ck_assert(whole && pieces);
    run(&m, NULL, LENGTH, whole);
    double most = 0, largest = 0;
    for (size_t t = 0; t < LENGTH; t++)
        for (size_t j = 0; j < g.vocab; j += g.step)
            most = farther(most, whole[t * g.vocab + j], g.some[(t * g.vocab + j) / g.step]);
    for (size_t j = 0; j < g.vocab; j++) {
        most = farther(most, whole[(LENGTH - 1) * g.vocab + j], g.last[j]);
        largest = farther(largest, g.last[j], 0);
    }
    (void)printf("%-10s largest difference %.2g of logits up to %.3g\n", f->name, most, largest);
    (void)fflush(stdout);
    ck_assert_msg(most <= 1e-4, "%s: logits differ by %g", f->name, most);
    pare_device *d;
    if (pare_device_open(&cx, &d) != PARE_OK && _i == 0)
        (void)fprintf(stderr, "golden.families: skipped: on a GPU: %s\n", cx.what);
    pare_ctx_clear(&cx);
    static const pare_kv_format cache[] = {
        {.method = PARE_KV_FLOAT},
        {.method = PARE_KV_INT8},
        {.method = PARE_KV_INT4, .group = 8},
        {.method = PARE_KV_KIVI, .group = 8, .window = 8},
    };
    for (size_t i = 0; i < sizeof cache / sizeof *cache; i++) {
        m.kv = cache[i];
        run(&m, NULL, LENGTH, whole);
        for (size_t piece = 1; piece < 8; piece += 6) {
            run(&m, NULL, piece, pieces);
            ck_assert_mem_eq(whole, pieces, LENGTH * g.vocab * sizeof *whole);
        }
        far_place far;
        far_begin(&far);
        run(&m, &far.backend, 7, pieces);
        ck_assert_mem_eq(whole, pieces, LENGTH * g.vocab * sizeof *whole);
        far_end(&far);
        if (!d || is_refused(d, &m))
            continue;
        run_device(d, &m, LENGTH - i, pieces);
        ck_assert_mem_eq(whole, pieces, LENGTH * g.vocab * sizeof *whole);
    }
    if (d)
        d->op->close(&cx, d);
    pare_checkpoint_close(&ck);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("families");
    TCase *const t = tcase_create("families");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, logits_are_those_of_the_reference_whatever_the_split_and_the_backend, 0,
                        (int)FAMILIES + (int)SCALED_FAMILIES);
    suite_add_tcase(s, t);
    return unit_main(s);
}
