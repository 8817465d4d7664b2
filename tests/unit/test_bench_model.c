#include <math.h>
#include <string.h>

#include "compress/bench/bench_internal.h"
#include "compress/bench/bench_model.h"
#include "runtime/linalg.h"
#include "runtime/linear.h"
#include "runtime/threads.h"
#include "tests/unit/folder.h"

#define NO_COUNTERS "/nowhere/powercap"

static const pare_bench_model_opts brief = {.prompt = 6,
                                            .output = 4,
                                            .batch = {1, 3},
                                            .batches = 2,
                                            .runs = 3,
                                            .quick = true,
                                            .powercap = NO_COUNTERS};

typedef struct fixture {
    pare_ctx cx;
    pare_arena arena;
} fixture;

static void begin(fixture *t, size_t threads)
{
    pare_ctx_init(&t->cx);
    ck_assert_int_eq(pare_pool_new(&t->cx, threads, &t->cx.pool), PARE_OK);
    ck_assert_int_eq(pare_arena_init(&t->cx, &t->arena, 0), PARE_OK);
}

static void end(fixture *t)
{
    pare_arena_release(&t->arena);
    pare_pool_free(&t->cx, t->cx.pool);
    ck_assert_uint_eq(t->cx.live_bytes, 0);
}

static pare_status make_shape(fixture *t, const char *shape, const char *weights, size_t group,
                              pare_model *m, pare_forward *f)
{
    pare_bench_spec spec = {shape, weights, group};
    PARE_TRY(pare_bench_synthetic_plan(&t->cx, &t->arena, &spec, m));
    PARE_TRY(pare_bench_synthetic_fill(&t->cx, &t->arena, &spec, m));
    return pare_forward_init(&t->cx, &t->arena, m, 32, false, f);
}

static pare_status make(fixture *t, const char *weights, size_t group, pare_model *m,
                        pare_forward *f)
{
    return make_shape(t, "tiny", weights, group, m, f);
}

static void must_make(fixture *t, const char *weights, size_t group, pare_model *m, pare_forward *f)
{
    ck_assert_msg(make(t, weights, group, m, f) == PARE_OK, "%s: %s", weights, t->cx.what);
}

/* What the blocks of "tiny" multiply with: 2 (2 128 128 + 2 128 64 + 3 128 384). */
enum {
    BLOCK_WEIGHTS = 2 * (2 * 128 * 128 + 2 * 128 * 64 + 3 * 128 * 384),
    HEAD_WEIGHTS = 512 * 128
};

/* F16 for each row and column of their matrices, as bits of a weight. */
#define EXL3_SCALES (16.0 * 2 * (2 * 256 + 2 * 192 + 3 * 512) / BLOCK_WEIGHTS)

static const struct {
    const char *weights;
    size_t group, usual; /* usual: what the name says of a model without a group asked for */
    double bits;         /* of a weight, with its share of scales */
    bool integer;
} kinds[] = {
    {"int4", 0, 128, 4 + 16 / 128.0, true},
    {"int4", 32, 32, 4 + 16 / 32.0, true},
    {"int8", 0, 128, 8 + 16 / 128.0, true},
    {"int3", 0, 128, 3 + 16 / 128.0, true},
    {"int2", 0, 128, 2 + 16 / 128.0, true},
    {"2:4-int4", 0, 128, 3 + 16 / 128.0, true},
    {"2:4-int8", 0, 128, 5 + 16 / 128.0, true},
    {"2:4-f16", 0, 0, 9, false},
    {"nf4", 0, 64, 4 + 16 / 64.0, false},
    {"mxfp4", 0, 32, 4.5, false},
    {"nvfp4", 0, 16, 5, false},
    {"exl3-2", 0, 0, 2 + EXL3_SCALES, false},
    {"exl3-3", 0, 0, 3 + EXL3_SCALES, false},
    {"exl3-8", 0, 0, 8 + EXL3_SCALES, false},
    {"f16", 0, 0, 16, false},
    {"bf16", 0, 0, 16, false},
    {"f32", 0, 0, 32, false},
    {"ternary", 64, 64, 2.25, true},
};

/* The bound by hand. int8_share: the share of the products of blocks that integers do; a half for
 * 2:4. */
static double bound_of(const pare_bench_model_result *r, const pare_bench_model_row *row,
                       double int8_share, double tokens, double pairs, double cache_tokens)
{
    const double batch = (double)row->batch;
    const double linear = 2.0 * BLOCK_WEIGHTS * tokens * batch;
    const double attend = 4.0 * 128 * 2 * pairs * batch, head = 2.0 * HEAD_WEIGHTS * batch;
    const bool tiles = isfinite(r->limits.int8_tiles_gop_s) && tokens * batch > 16;
    const double int8 =
        int8_share * linear / (tiles ? r->limits.int8_tiles_gop_s : r->limits.int8_gop_s);
    const double fma = (attend + head + (int8_share > 0 ? 0 : linear)) / r->limits.fma_gflop_s;
    const double bytes =
        (double)r->weight_bytes[row->model] + cache_tokens * batch * 2 * 2 * 64 * 4;
    return fmax(int8 + fma, bytes / r->limits.dram_read_gb_s) * 1e-6;
}

START_TEST(a_synthetic_model_has_the_weights_that_were_asked_for)
{
    fixture t;
    pare_model m;
    pare_forward f;
    size_t group = 1;
    begin(&t, 1);
    must_make(&t, kinds[_i].weights, kinds[_i].group, &m, &f);
    ck_assert_str_eq(pare_bench_weights_name(&m, &group), kinds[_i].weights);
    ck_assert_uint_eq(group, kinds[_i].usual);
    for (size_t i = 0; i <= m.config.blocks * PARE_COMMON_ROLES; i++) {
        const pare_linear *const w =
            i < m.config.blocks * PARE_COMMON_ROLES
                ? &m.block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES]
                : &m.head;
        float *const x = PARE_NEW(&t.arena, float, w->n * w->k);
        ck_assert_msg(pare_linear_check(&t.cx, w) == PARE_OK, "%s", t.cx.what);
        pare_linear_to_f32(&t.cx, w, x);
        double squares = 0, sum = 0;
        for (size_t j = 0; j < w->n * w->k; j++)
            squares += (double)x[j] * x[j], sum += x[j];
        const double count = (double)(w->n * w->k), size = sqrt(squares / count * (double)w->k);
        ck_assert_msg(size > 0.4 && size < 2.5, "linear %zu has weights %g times k^-1/2", i, size);
        ck_assert(fabs(sum / count) < 0.5 * sqrt(squares / count));
    }
    const pare_bench_spec spec = {"tiny", kinds[_i].weights, group};
    const bool packed = kinds[_i].integer || kinds[_i].bits < 16;
    const double head = HEAD_WEIGHTS * (packed ? 16 : kinds[_i].bits) / 8;
    const double bytes = BLOCK_WEIGHTS * kinds[_i].bits / 8 + head;
    ck_assert_double_eq((double)pare_bench_synthetic_bytes(&m, &spec), bytes);
    pare_bench_model_result r;
    pare_bench_model_opts opts = brief;
    opts.prompt = 28, opts.batch[0] = 4, opts.batches = opts.runs = 1;
    ck_assert_msg(pare_bench_model(&t.cx, (const pare_forward *const[2]){&f, NULL}, &opts, &r) ==
                      PARE_OK,
                  "%s", t.cx.what);
    ck_assert_double_eq((double)r.weight_bytes[0], bytes);
    const double share = !kinds[_i].integer ? 0 : strncmp(kinds[_i].weights, "2:4", 3) ? 1 : 0.5;
    const double bound = bound_of(&r, &r.row[0], share, 28, 28 * 29 / 2, 0);
    ck_assert_double_eq_tol(r.row[0].prefill.bound_ms, bound, 1e-9 * bound);
    ck_assert_str_ne(r.row[0].prefill.bound, "dram");
    end(&t);
}
END_TEST

/* A token reads a quarter of the experts; three that pick on their own read 1 - (3/4)^3 of them. */
START_TEST(of_experts_those_count_that_tokens_use)
{
    enum {
        ATTENTION = 2 * 128 * 128 + 2 * 128 * 64,
        ROUTER = 8 * 128,
        EXPERTS = 8 * 3 * 256 * 128
    };
    fixture t;
    pare_model m;
    pare_forward f;
    pare_bench_model_result r;
    size_t group;
    begin(&t, 2);
    ck_assert_msg(make_shape(&t, "tiny-moe", "f16", 0, &m, &f) == PARE_OK, "%s", t.cx.what);
    ck_assert_str_eq(pare_bench_weights_name(&m, &group), "f16");
    ck_assert_msg(pare_bench_model(&t.cx, (const pare_forward *const[2]){&f, NULL}, &brief, &r) ==
                      PARE_OK,
                  "%s", t.cx.what);
    const double common = 2.0 * (2 * (ATTENTION + ROUTER) + HEAD_WEIGHTS), experts = 4.0 * EXPERTS;
    const pare_bench_spec spec = {"tiny-moe", "f16", 0};
    ck_assert_double_eq((double)r.weight_bytes[0], common + experts / 4);
    ck_assert_double_eq((double)r.stored_bytes[0], common + experts);
    ck_assert_uint_eq(pare_bench_synthetic_bytes(&m, &spec), r.stored_bytes[0]);
    for (size_t i = 0; i < r.rows; i++) {
        const double batch = (double)r.row[i].batch;
        const double bytes = common + experts * (1 - pow(0.75, batch));
        const double cache = 8 * batch * 2 * 2 * 64 * 4;
        const double token =
            2.0 * 2 * (ATTENTION + ROUTER + EXPERTS / 4.0) + 2.0 * HEAD_WEIGHTS + 4.0 * 128 * 2 * 8;
        const double bound =
            fmax((bytes + cache) / r.limits.dram_read_gb_s, batch * token / r.limits.fma_gflop_s) *
            1e-6;
        ck_assert_double_eq_tol(r.row[i].decode.bound_ms, bound, 1e-9 * bound);
        ck_assert_double_eq_tol(r.row[i].weight_share * r.limits.dram_read_gb_s *
                                    r.row[i].decode.time.ms,
                                bytes * 1e-6, 1e-9);
    }
    end(&t);
}
END_TEST

/* Signs times scales of EXL3. */
START_TEST(scales_of_rows_and_columns_are_read)
{
    static const uint16_t scale[384];
    fixture t;
    pare_model m;
    pare_forward f;
    pare__bench_cost before, after;
    begin(&t, 1);
    must_make(&t, "int4", 0, &m, &f);
    pare_linear *const w = &m.block[1].linear[PARE_ROLE_DOWN];
    ck_assert_int_eq(pare__bench_cost_of(&t.cx, &f, &before), PARE_OK);
    w->row_scales = w->column_scales = scale;
    ck_assert_int_eq(pare__bench_cost_of(&t.cx, &f, &after), PARE_OK);
    ck_assert_double_eq(after.bytes, before.bytes + 2.0 * (128 + 384));
    end(&t);
}
END_TEST

static void check_time(const pare_bench_phase *p, double tokens)
{
    ck_assert(p->time.ms > 0 && p->time.spread >= 0);
    ck_assert_double_eq_tol(p->tok_s * p->time.ms, tokens * 1e3, 1e-6 * tokens * 1e3);
    ck_assert_double_eq_tol(p->share * p->time.ms, p->bound_ms, 1e-9 * p->bound_ms);
    ck_assert(isnan(p->joules));
}

START_TEST(a_model_is_measured_beside_its_bounds_and_another)
{
    fixture t;
    pare_model m[2];
    pare_forward f[2];
    pare_bench_model_result r;
    begin(&t, 2);
    must_make(&t, "int4", 0, &m[0], &f[0]);
    must_make(&t, "f16", 0, &m[1], &f[1]);
    ck_assert_msg(pare_bench_model(&t.cx, (const pare_forward *const[2]){&f[0], &f[1]}, &brief,
                                   &r) == PARE_OK,
                  "%s", t.cx.what);
    ck_assert_uint_eq(r.rows, 4);
    ck_assert(r.threads == 2 && r.prompt == 6 && r.output == 4 && r.runs == 3);
    ck_assert(r.cpu_share > 0 && r.cpu_share < 1.5);
    ck_assert_double_eq((double)r.weight_bytes[0],
                        BLOCK_WEIGHTS * (4 + 16 / 128.0) / 8 + HEAD_WEIGHTS * 2);
    ck_assert_uint_eq(r.weight_bytes[1], 2 * (BLOCK_WEIGHTS + HEAD_WEIGHTS));
    ck_assert_double_eq(r.kv_token_bytes[0], 2 * 2 * 64 * 4);
    for (size_t i = 0; i < r.rows; i++) {
        const pare_bench_model_row *const row = &r.row[i];
        const double batch = i < 2 ? 1 : 3;
        ck_assert(row->model == i % 2 && row->batch == (size_t)batch);
        check_time(&row->prefill, 6 * batch);
        check_time(&row->decode, batch);
        const double prefill = bound_of(&r, row, i % 2 == 0 ? 1 : 0, 6, 21, 0);
        const double decode =
            bound_of(&r, row, i % 2 == 0 ? 1 : 0, 1, 8, 8); /* 7, 8 and 9 tokens */
        ck_assert_double_eq_tol(row->prefill.bound_ms, prefill, 1e-9 * prefill);
        ck_assert_double_eq_tol(row->decode.bound_ms, decode, 1e-9 * decode);
        ck_assert_str_ne(row->prefill.bound, i % 2 ? "int8" : "");
        ck_assert_double_eq_tol(row->weight_share * r.limits.dram_read_gb_s * row->decode.time.ms,
                                (double)r.weight_bytes[i % 2] * 1e-6, 1e-9);
        ck_assert(isnan(row->prefill.ratio) == (i % 2 == 1));
        if (i % 2 == 0)
            ck_assert_double_eq_tol(row->decode.ratio * row->decode.time.ms, row[1].decode.time.ms,
                                    1e-9);
    }
    ck_assert(!r.energy && strstr(r.energy_note, NO_COUNTERS));
    end(&t);
}
END_TEST

START_TEST(weights_are_the_same_for_any_number_of_threads)
{
    fixture t[2];
    pare_model m[2];
    pare_forward f;
    for (size_t i = 0; i < 2; i++) {
        begin(&t[i], 1 + 2 * i);
        must_make(&t[i], "ternary", 0, &m[i], &f);
    }
    const pare_linear *const a = &m[0].block[1].linear[PARE_ROLE_UP];
    const pare_linear *const b = &m[1].block[1].linear[PARE_ROLE_UP];
    ck_assert_mem_eq(a->panel.codes, b->panel.codes, a->n * a->k / 4);
    ck_assert_mem_eq(m[0].embed.data, m[1].embed.data, 2 * HEAD_WEIGHTS);
    for (size_t i = 0; i < a->n * a->k / 4; i++)
        ck_assert_uint_eq(a->panel.codes[i] & a->panel.codes[i] >> 1 & 0x55, 0); /* no code 3 */
    ck_assert(memcmp(a->panel.codes, m[0].block[0].linear[PARE_ROLE_UP].panel.codes, 512) != 0);
    end(&t[0]);
    end(&t[1]);
}
END_TEST

START_TEST(a_coded_cache_is_read_in_fewer_bytes)
{
    fixture t;
    pare_model m;
    pare_forward f;
    pare_bench_model_result r;
    begin(&t, 1);
    must_make(&t, "int8", 0, &m, &f);
    m.kv = pare_kv_default(PARE_KV_INT8);
    ck_assert_int_eq(pare_bench_model(&t.cx, (const pare_forward *const[2]){&f, NULL}, &brief, &r),
                     PARE_OK);
    ck_assert_uint_eq(r.rows, 2);
    ck_assert(isnan(r.row[0].prefill.ratio) && isnan(r.row[1].decode.ratio));
    ck_assert_double_eq(r.kv_token_bytes[0], 2 * 2 * 2 * (32 + 2));
    end(&t);
}
END_TEST

static void check_refused(const char *shape, const char *weights, size_t group, const char *text)
{
    fixture t;
    pare_model m;
    begin(&t, 1);
    pare_bench_spec spec = {shape, weights, group};
    ck_assert_int_eq(pare_bench_synthetic_plan(&t.cx, &t.arena, &spec, &m), PARE_EUSAGE);
    ck_assert_msg(strstr(t.cx.what, text), "\"%s\" is not in: %s", text, t.cx.what);
    end(&t);
}

START_TEST(unknown_words_and_groups_are_a_mistake_of_the_user)
{
    check_refused("1bb", "int4", 0, "unknown shape \"1bb\"; did you mean 1b?");
    check_refused("enormous", "int4", 0, "there are tiny, 1b, 3b, 7b, 8b");
    check_refused("1b", "int5", 0, "did you mean int4?");
    check_refused("1b", "exquisite", 0, "there are int4, int8, int3, int2, ternary, 2:4-int4,");
    check_refused("1b", "f16", 64, "f16 weights take no group");
    check_refused("1b", "mxfp4", 64, "mxfp4 weights take no group");
    check_refused("1b", "nvfp4", 32, "nvfp4 weights take no group");
    check_refused("1b", "int4", 96, "groups of 96 weights: expected a multiple of 32 that divides");
    check_refused("1b", "int4", 16, "groups of 16 weights");
    check_refused("1b", "int4", 4096, "groups of 4096 weights");
}
END_TEST

START_TEST(linears_that_differ_are_called_mixed)
{
    fixture t;
    pare_model m;
    pare_forward f;
    size_t group = 1;
    begin(&t, 1);
    must_make(&t, "int4", PARE_BENCH_ROW, &m, &f);
    ck_assert_str_eq(pare_bench_weights_name(&m, &group), "int4");
    ck_assert_uint_eq(group, PARE_BENCH_ROW);
    m.block[1].linear[PARE_ROLE_DOWN] = m.head;
    ck_assert_str_eq(pare_bench_weights_name(&m, &group), "mixed");
    ck_assert_uint_eq(group, 0);
    end(&t);
}
END_TEST

START_TEST(what_does_not_fit_the_memory_is_refused_before_it_is_taken)
{
    fixture t;
    pare_model m;
    begin(&t, 1);
    pare_bench_spec spec = {"8b", "int4", 0};
    ck_assert_int_eq(pare_bench_synthetic_plan(&t.cx, &t.arena, &spec, &m), PARE_OK);
    const uint64_t weights = pare_bench_synthetic_bytes(&m, &spec);
    const uint64_t rest = pare_bench_model_bytes(&t.cx, &m.config, &m.kv, &brief);
    ck_assert(weights > 5500000000u && weights < 6000000000u); /* 7.0e9 4.125 / 8 + 2 1.05e9 */
    ck_assert(rest > 3 * 9 * 2 * 32 * 1024 * 4 && rest < 64 << 20);
    t.cx.limit_bytes = t.cx.live_bytes + 1000000;
    const size_t live = t.cx.live_bytes;
    ck_assert_int_eq(pare_bench_memory(&t.cx, 1000000, "this"), PARE_OK);
    ck_assert_int_eq(pare_bench_memory(&t.cx, 1000001, "shape 8b"), PARE_ENOMEM);
    ck_assert_ptr_nonnull(strstr(t.cx.what, "shape 8b needs 977 KiB of memory, 977 KiB are left by "
                                            "the limit that was asked for"));
    t.cx.limit_bytes = 0;
    pare_ctx_clear(&t.cx);
    ck_assert_int_eq(pare_bench_memory(&t.cx, (uint64_t)1 << 60, "all"), PARE_ENOMEM);
    pare_ctx_clear(&t.cx);
    ck_assert_uint_eq(t.cx.live_bytes, live);
    pare_bench_model_opts vast = brief;
    vast.batch[0] = 64, vast.prompt = SIZE_MAX / 4;
    ck_assert(pare_bench_model_bytes(&t.cx, &m.config, &m.kv, &vast) == UINT64_MAX);
    end(&t);
}
END_TEST

START_TEST(a_run_stops_when_interrupted_and_refuses_what_does_not_fit)
{
    fixture t;
    pare_model m;
    pare_forward f;
    pare_bench_model_result r;
    begin(&t, 1);
    must_make(&t, "f32", 0, &m, &f);
    pare_bench_model_opts opts = brief;
    opts.prompt = 30;
    const pare_forward *const one[2] = {&f, NULL};
    ck_assert_int_eq(pare_bench_model(&t.cx, one, &opts, &r), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(t.cx.what, "do not fit the 32 positions"));
    opts.prompt = 29;
    pare_ctx_clear(&t.cx);
    ck_assert_int_eq(pare_bench_model(&t.cx, one, &opts, &r), PARE_OK);
    const volatile int interrupts = 1;
    t.cx.interrupt = &interrupts;
    ck_assert_int_eq(pare_bench_model(&t.cx, one, &brief, &r), PARE_EINTERRUPTED);
    pare_bench_spec spec = {"tiny", "f32", 0};
    ck_assert_int_eq(pare_bench_synthetic_fill(&t.cx, &t.arena, &spec, &m), PARE_EINTERRUPTED);
    t.cx.interrupt = NULL;
    pare_ctx_clear(&t.cx);
    ((float *)(uintptr_t)m.norm)[3] = INFINITY;
    ck_assert_int_eq(pare_bench_model(&t.cx, one, &brief, &r), PARE_ENUMERIC);
    end(&t);
}
END_TEST

static void put_counter(folder *d, const char *package, const char *file, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", d->path, package);
    (void)mkdir(path, 0777);
    (void)snprintf(path, sizeof path, "%s/%s", package, file);
    folder_put_text(d, path, text);
}

static void remove_counter(folder *d, const char *package)
{
    char path[128];
    static const char *const file[] = {"energy_uj", "max_energy_range_uj", "name"};
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        (void)snprintf(path, sizeof path, "%s/%s/%s", d->path, package, file[i]);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof path, "%s/%s", d->path, package);
    (void)rmdir(path);
}

/* A counter of which a turn was missed says nothing; work that goes on reads it now and then. */
START_TEST(energy_is_read_as_work_goes_on_or_not_known)
{
    folder d;
    pare_energy e;
    pare_ctx cx;
    char note[160];
    folder_make(&d);
    pare_ctx_init(&cx);
    ck_assert(pare_energy_since(NULL, 0) == 0);
    put_counter(&d, "intel-rapl:0", "energy_uj", "1000000\n");
    put_counter(&d, "intel-rapl:0", "max_energy_range_uj", "100000000000\n"); /* of 100 s */
    ck_assert(pare_energy_open(&e, d.path, note, sizeof note));
    cx.energy = &e;
    put_counter(&d, "intel-rapl:0", "energy_uj", "3000000\n");
    pare_ctx_progress(&cx, "work", 0, 1);
    ck_assert_double_eq(e.joules, 0); /* it was read a moment ago */
    e.read_at -= 6;
    pare_ctx_progress(&cx, "work", 1, 1);
    ck_assert_double_eq_tol(e.joules, 2, 1e-9);
    put_counter(&d, "intel-rapl:0", "energy_uj", "500000\n");
    ck_assert_double_eq_tol(pare_energy_since(&e, 0.5), 1.5 + 99997.5, 1e-6);
    e.read_at -= 101;
    ck_assert(isnan(pare_energy_read(&e)) && isnan(pare_energy_read(&e)));
    ck_assert(pare_energy_since(&e, 0) == 0);
    pare_energy_close(&e);
    remove_counter(&d, "intel-rapl:0");
    folder_remove(&d);
}
END_TEST

START_TEST(energy_is_that_of_all_packages_and_counters_wrap)
{
    folder d;
    pare_energy e;
    char note[160] = "";
    folder_make(&d);
    ck_assert(!pare_energy_open(&e, d.path, note, sizeof note));
    ck_assert_ptr_nonnull(strstr(note, "has no intel-rapl counter"));
    put_counter(&d, "intel-rapl:0", "energy_uj", "99999999900\n");
    put_counter(&d, "intel-rapl:0", "max_energy_range_uj", "100000000000\n");
    put_counter(&d, "intel-rapl:1", "energy_uj", "5000000\n");
    put_counter(&d, "intel-rapl:0:0", "energy_uj", "7\n"); /* part of package 0 */
    put_counter(&d, "intel-rapl-mmio:0", "energy_uj", "7\n");
    put_counter(&d, "intel-rapl:0", "name", "package-0\n");
    put_counter(&d, "intel-rapl:2", "name", "psys\n"); /* all there is, packages included */
    put_counter(&d, "intel-rapl:2", "energy_uj", "7\n");
    ck_assert_msg(pare_energy_open(&e, d.path, note, sizeof note), "%s", note);
    ck_assert_uint_eq(e.count, 2);
    ck_assert_double_eq(pare_energy_read(&e), 0);
    put_counter(&d, "intel-rapl:0", "energy_uj", "150\n"); /* 250 later */
    put_counter(&d, "intel-rapl:1", "energy_uj", "7000000\n");
    put_counter(&d, "intel-rapl:0:0", "energy_uj", "9000000\n");
    ck_assert_double_eq_tol(pare_energy_read(&e), 2.00025, 1e-12);
    put_counter(&d, "intel-rapl:1", "energy_uj", "7500000\n");
    ck_assert_double_eq_tol(pare_energy_read(&e), 2.50025, 1e-12);
    put_counter(&d, "intel-rapl:1", "energy_uj", "broken\n");
    ck_assert(isnan(pare_energy_read(&e)));
    pare_energy_close(&e);
    ck_assert(!pare_energy_open(&e, d.path, note, sizeof note));
    ck_assert_ptr_nonnull(strstr(note, "cannot be read"));
    put_counter(&d, "intel-rapl:1", "energy_uj", "1\n");
    fixture t;
    pare_model m;
    pare_forward f;
    pare_bench_model_result r;
    pare_bench_model_opts opts = brief;
    opts.powercap = d.path;
    begin(&t, 1);
    must_make(&t, "int4", 0, &m, &f);
    ck_assert_int_eq(pare_bench_model(&t.cx, (const pare_forward *const[2]){&f, NULL}, &opts, &r),
                     PARE_OK);
    ck_assert(r.energy && r.row[1].prefill.joules == 0 && r.row[1].decode.joules == 0);
    end(&t);
    static const char *const all[] = {"intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0",
                                      "intel-rapl:2", "intel-rapl-mmio:0"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        remove_counter(&d, all[i]);
    folder_remove(&d);
}
END_TEST

START_TEST(no_failed_allocation_leaks_or_crashes)
{
    pare_bench_model_opts opts = brief;
    opts.runs = opts.batches = 1;
    unit_failing fail;
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK; n += n < 30 ? 1 : 3) {
        fixture t;
        pare_model m;
        pare_forward f;
        pare_bench_model_result r;
        pare_ctx_init(&t.cx);
        fail = (unit_failing){.left = n};
        t.cx.alloc = (pare_alloc){unit_failing_resize, &fail};
        s = pare_arena_init(&t.cx, &t.arena, 0);
        if (s == PARE_OK)
            s = make(&t, "2:4-int4", 0, &m, &f);
        if (s == PARE_OK)
            s = pare_bench_model(&t.cx, (const pare_forward *const[2]){&f, &f}, &opts, &r);
        ck_assert_msg(s == PARE_OK || s == PARE_ENOMEM, "%s", t.cx.what);
        pare_arena_release(&t.arena);
        ck_assert_int_eq(fail.live, 0);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("bench_model");
    TCase *const t = tcase_create("bench_model");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, a_synthetic_model_has_the_weights_that_were_asked_for, 0,
                        sizeof kinds / sizeof *kinds);
    tcase_add_test(t, a_model_is_measured_beside_its_bounds_and_another);
    tcase_add_test(t, of_experts_those_count_that_tokens_use);
    tcase_add_test(t, scales_of_rows_and_columns_are_read);
    tcase_add_test(t, weights_are_the_same_for_any_number_of_threads);
    tcase_add_test(t, a_coded_cache_is_read_in_fewer_bytes);
    tcase_add_test(t, unknown_words_and_groups_are_a_mistake_of_the_user);
    tcase_add_test(t, linears_that_differ_are_called_mixed);
    tcase_add_test(t, what_does_not_fit_the_memory_is_refused_before_it_is_taken);
    tcase_add_test(t, a_run_stops_when_interrupted_and_refuses_what_does_not_fit);
    tcase_add_test(t, energy_is_read_as_work_goes_on_or_not_known);
    tcase_add_test(t, energy_is_that_of_all_packages_and_counters_wrap);
    tcase_add_test(t, no_failed_allocation_leaks_or_crashes);
    suite_add_tcase(s, t);
    return unit_main(s);
}
