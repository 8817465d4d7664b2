#include "calib/stats.h"
#include "calib/wave.h"
#include "runtime/fold.h"
#include "runtime/linalg.h"
#include "runtime/sample.h"
#include "tests/unit/folder.h"
#include "tests/unit/tiny.h"

enum { SAMPLES = 5, WINDOW = 9 };

/* Tokens [SAMPLES, WINDOW] of the tiny model in waves of two windows, so that the last is short. */
typedef struct rig {
    tiny_home home;
    pare_model model;
    pare_forward forward;
    int32_t *tokens;
    folder dir;
} rig;

static void rig_begin(rig *r, size_t threads, tiny_kind kind)
{
    tiny_begin(&r->home, threads);
    pare_arena *const a = &r->home.arena;
    r->model = tiny_model(a, kind);
    r->model.config.arch = pare_arch_find("llama");
    r->tokens = tiny_tokens(a, 1, SAMPLES * WINDOW);
    folder_make(&r->dir);
    ck_assert_int_eq(pare_forward_init(&r->home.cx, a, &r->model, WINDOW, true, &r->forward),
                     PARE_OK);
}

static void rig_end(rig *r)
{
    folder_remove(&r->dir);
    tiny_end(&r->home);
}

static void open_wave(rig *r, bool spill, size_t batch, pare_wave *wave)
{
    pare_ctx *const cx = &r->home.cx;
    pare_arena *const a = &r->home.arena;
    ck_assert_int_eq(pare_wave_open_part(cx, a, SAMPLES, 0, SAMPLES, WINDOW, r->model.config.hidden,
                                         spill ? r->dir.path : NULL, wave),
                     PARE_OK);
    wave->batch = batch;
    ck_assert_int_eq(pare_wave_embed(cx, a, wave, &r->model, r->tokens), PARE_OK);
}

/* The activations as they stand. */
static const float *contents(rig *r, const pare_wave *wave)
{
    const size_t bytes = SAMPLES * WINDOW * r->model.config.hidden * sizeof(float);
    float *const x = tiny_take(&r->home.arena, bytes, 1);
    if (wave->x)
        return memcpy(x, wave->x, bytes);
    ck_assert_int_eq(pread(wave->file.fd, x, bytes, 0), (ssize_t)bytes);
    return x;
}

/* What both blocks make of the tokens, all windows in one batch. */
static const float *expected(rig *r)
{
    pare_ctx *const cx = &r->home.cx;
    pare_arena *const a = &r->home.arena;
    pare_kv kv;
    float *const x = tiny_take(a, SAMPLES * WINDOW, r->model.config.hidden * sizeof(float));
    ck_assert_int_eq(pare_embed(cx, &r->model, r->tokens, SAMPLES * WINDOW, x), PARE_OK);
    ck_assert_int_eq(pare_kv_take(a, &r->model.config, SAMPLES, WINDOW, &kv), PARE_OK);
    const pare_batch batch = {SAMPLES, WINDOW, 0};
    ck_assert_int_eq(pare_model_forward(cx, a, &r->forward, batch, x, &kv, 1), PARE_OK);
    return x;
}

START_TEST(a_wave_carries_every_window_through_the_blocks)
{
    static rig r;
    rig_begin(&r, 2, tiny_kinds[_i / 2]);
    pare_wave wave;
    open_wave(&r, _i % 2 != 0, 2, &wave);
    ck_assert((wave.file.path != NULL) == (_i % 2 != 0));
    for (size_t b = 0; b < 2; b++)
        ck_assert_int_eq(pare_wave_run(&r.home.cx, &r.home.arena, &wave, &r.forward,
                                       &r.model.block[b], NULL, "carrying"),
                         PARE_OK);
    ck_assert_mem_eq(contents(&r, &wave), expected(&r),
                     SAMPLES * WINDOW * r.model.config.hidden * sizeof(float));
    pare_wave_close(&wave);
    pare_wave_close(&wave);
    rig_end(&r);
}
END_TEST

/* A tap that keeps what it sees. */
typedef struct kept {
    float x[PARE_SITES][SAMPLES * WINDOW * 70];
    size_t rows[PARE_SITES], k[PARE_SITES];
} kept;

static pare_status keep(void *self, size_t part, pare_site site, const float *x, size_t rows,
                        size_t k)
{
    kept *const all = self;
    ck_assert_uint_eq(part, 0);
    memcpy(all->x[site] + all->rows[site] * k, x, rows * k * sizeof *x);
    all->rows[site] += rows;
    all->k[site] = k;
    return PARE_OK;
}

START_TEST(statistics_are_sums_over_all_tokens_and_leave_the_wave_alone)
{
    static rig r;
    static kept all;
    rig_begin(&r, 3, tiny_kinds[0]);
    pare_ctx *const cx = &r.home.cx;
    pare_arena *const a = &r.home.arena;
    const pare_block *const block = &r.model.block[0];
    const unsigned kinds[PARE_SITES] = {[PARE_SITE_ATTENDED] = PARE_STATS_HESSIAN | PARE_STATS_HELD,
                                        [PARE_SITE_ACTIVATED] = PARE_STATS_HESSIAN};
    const size_t held_from = 2 * WINDOW + 5; /* inside a batch */
    pare_wave wave;
    pare_stats h;
    open_wave(&r, _i != 0, 2, &wave);
    const float *const before = contents(&r, &wave);
    ck_assert_int_eq(pare_stats_take(cx, a, &r.model.config, 0, kinds, SAMPLES * WINDOW, &h),
                     PARE_OK);
    h.held_from = held_from;
    const pare_tap tap = pare_stats_tap(&h);
    ck_assert_int_eq(pare_wave_run(cx, a, &wave, &r.forward, block, &tap, "gathering"), PARE_OK);
    memset(&all, 0, sizeof all);
    const pare_tap see = {.see = keep, .self = &all, .last = PARE_SITE_ACTIVATED};
    ck_assert_int_eq(pare_wave_run(cx, a, &wave, &r.forward, block, &see, "gathering"), PARE_OK);
    ck_assert_mem_eq(contents(&r, &wave), before,
                     SAMPLES * WINDOW * r.model.config.hidden * sizeof(float));
    ck_assert(!h.site[PARE_SITE_ATTENTION].h && !h.site[PARE_SITE_MLP].h);
    for (size_t s = 0; s < PARE_SITES; s++) {
        const size_t k = all.k[s];
        if (!pare_site_width(&r.model.config, 0, (pare_site)s))
            continue;
        ck_assert_uint_eq(all.rows[s], SAMPLES * WINDOW);
        ck_assert_uint_eq(k, pare_site_width(&r.model.config, 0, (pare_site)s));
        for (size_t i = 0; h.site[s].h && i < k; i++)
            for (size_t j = 0; j <= i; j++) {
                double sum = 0, terms = 0, held = 0;
                for (size_t t = 0; t < SAMPLES * WINDOW; t++) {
                    const double x = (double)all.x[s][t * k + i] * (double)all.x[s][t * k + j];
                    sum += x;
                    held += t < held_from ? 0 : x;
                    terms += fabs(x);
                }
                if (h.site[s].held)
                    ck_assert_double_le(fabs((double)h.site[s].held[i * k + j] - held),
                                        (SAMPLES * WINDOW + 2) * 0x1p-24 * terms);
                ck_assert_double_le(fabs((double)h.site[s].h[i * k + j] - sum),
                                    (SAMPLES * WINDOW + 2) * 0x1p-24 * terms);
            }
    }
    ck_assert_uint_eq(pare_stats_bytes(&r.model.config, 0, kinds),
                      10 * PARE_ALIGN + (40 * (2 * 40 + 258) + 70 * (70 + 257)) * 4 +
                          2 * (40 + 70) * 8);
    ck_assert(h.site[PARE_SITE_ATTENDED].held && !h.site[PARE_SITE_ACTIVATED].held);
    pare_wave_close(&wave);
    rig_end(&r);
}
END_TEST

static void run_half(rig *r, pare_wave *wave, size_t block, kept *all, pare_half half,
                     pare_site last)
{
    const pare_tap tap = {.see = keep, .self = all, .half = half, .last = last};
    ck_assert_int_eq(pare_wave_run(&r->home.cx, &r->home.arena, wave, &r->forward,
                                   &r->model.block[block], &tap, "halves"),
                     PARE_OK);
}

START_TEST(a_wave_halts_between_the_halves_of_a_block)
{
    static rig r;
    static kept once, apart;
    rig_begin(&r, 2, tiny_kinds[0]);
    pare_wave wave;
    open_wave(&r, _i != 0, 2, &wave);
    for (size_t b = 0; b < 2; b++) {
        memset(&once, 0, sizeof once);
        memset(&apart, 0, sizeof apart);
        run_half(&r, &wave, b, &once, PARE_HALF_BOTH, PARE_SITE_ACTIVATED);
        run_half(&r, &wave, b, &apart, PARE_HALF_ATTENTION, PARE_SITES);
        const float *const middle = contents(&r, &wave);
        run_half(&r, &wave, b, &apart, PARE_HALF_MLP, PARE_SITE_ACTIVATED);
        ck_assert_mem_eq(contents(&r, &wave), middle,
                         SAMPLES * WINDOW * r.model.config.hidden * sizeof(float));
        ck_assert_mem_eq(&apart, &once, sizeof once);
        memset(&apart, 0, sizeof apart);
        run_half(&r, &wave, b, &apart, PARE_HALF_MLP, PARE_SITES);
        ck_assert_uint_eq(apart.rows[PARE_SITE_ATTENDED], 0);
        ck_assert_mem_eq(apart.x[PARE_SITE_MLP], once.x[PARE_SITE_MLP],
                         sizeof once.x[PARE_SITE_MLP]);
    }
    ck_assert_mem_eq(contents(&r, &wave), expected(&r),
                     SAMPLES * WINDOW * r.model.config.hidden * sizeof(float));
    pare_wave_close(&wave);
    rig_end(&r);
}
END_TEST

START_TEST(a_batch_fits_the_scratch_that_was_counted)
{
    static rig r;
    rig_begin(&r, 4, tiny_kinds[_i]);
    pare_ctx *const cx = &r.home.cx;
    pare_wave wave;
    open_wave(&r, true, pare_wave_batch(WINDOW), &wave);
    pare_arena scratch;
    const size_t bytes = pare_wave_scratch(cx, &r.model.config, pare_wave_batch(WINDOW), WINDOW,
                                           (pare_wave_kind){.spilled = true});
    ck_assert_int_eq(pare_arena_init(cx, &scratch, bytes + 4096), PARE_OK); /* red zones */
    const size_t live = cx->live_bytes;
    cx->peak_bytes = live;
    ck_assert_int_eq(pare_wave_run(cx, &scratch, &wave, &r.forward, &r.model.block[0], NULL, ""),
                     PARE_OK);
    ck_assert_uint_eq(cx->peak_bytes, live);
    pare_arena_release(&scratch);
    pare_wave_close(&wave);
    rig_end(&r);
}
END_TEST

START_TEST(a_file_that_cannot_be_made_is_named)
{
    static rig r;
    rig_begin(&r, 1, tiny_kinds[0]);
    pare_wave wave;
    char path[512], what[1024];
    (void)snprintf(path, sizeof path, "%s/none", r.dir.path);
    ck_assert_int_eq(pare_wave_open_part(&r.home.cx, &r.home.arena, SAMPLES, 0, SAMPLES, WINDOW, 44,
                                         path, &wave),
                     PARE_ENOTFOUND);
    (void)snprintf(what, sizeof what, "%s/activations: cannot create: ", path);
    ck_assert_int_eq(strncmp(r.home.cx.what, what, strlen(what)), 0);
    pare_wave_close(&wave);
    pare_ctx_clear(&r.home.cx);
    ck_assert_int_eq(pare_wave_open_part(&r.home.cx, &r.home.arena, SIZE_MAX / 2, 0, SIZE_MAX / 2,
                                         WINDOW, 44, NULL, &wave),
                     PARE_ENOMEM);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, "windows of 9 tokens"));
    rig_end(&r);
}
END_TEST

START_TEST(a_batch_has_about_2048_tokens)
{
    static const size_t cases[][2] = {{1, 2048}, {64, 32}, {1000, 2}, {2048, 1}, {1 << 20, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_uint_eq(pare_wave_batch(cases[i][0]), cases[i][1]);
    ck_assert_uint_eq(pare_wave_bytes(3, 5, 7), 420);
    ck_assert_uint_eq(pare_wave_bytes(SIZE_MAX, 5, 7), UINT64_MAX);
}
END_TEST

START_TEST(token_files_are_little_endian_numbers_below_the_vocabulary)
{
    static rig r;
    rig_begin(&r, 1, tiny_kinds[0]);
    pare_ctx *const cx = &r.home.cx;
    pare_tokens t;
    folder_put(&r.dir, "good.i32", "\x01\0\0\0\x34\0\0\0\0\0\0\0", 12);
    ck_assert_int_eq(pare_tokens_read(cx, &r.home.arena, r.dir.file, 53, &t), PARE_OK);
    ck_assert_uint_eq(t.count, 3);
    ck_assert(t.id[0] == 1 && t.id[1] == 52 && t.id[2] == 0);
    static const struct {
        const char *bytes, *what;
        size_t len;
    } bad[] = {
        {"\x01\0\0\0\x35\0\0\0", "token 1 is 53, outside the model's vocabulary of 53", 8},
        {"\xff\xff\xff\xff", "token 0 is -1, outside", 4},
        {"\x01\0\0\0\x01", "5 bytes are not a list of little-endian int32 tokens", 5},
        {"", "0 bytes are not a list", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        folder_put(&r.dir, "bad.i32", bad[i].bytes, bad[i].len);
        ck_assert_int_eq(pare_tokens_read(cx, &r.home.arena, r.dir.file, 53, &t), PARE_EFORMAT);
        ck_assert_ptr_nonnull(strstr(cx->what, bad[i].what));
        ck_assert_int_eq(strncmp(cx->what, r.dir.file, strlen(r.dir.file)), 0);
        pare_ctx_clear(cx);
    }
    rig_end(&r);
}
END_TEST

/* Ids 1 to 16 as trainers write them: integers of 64 and 16 bits, an array of numpy. */
START_TEST(token_files_of_other_integers_are_told)
{
    static rig r;
    rig_begin(&r, 1, tiny_kinds[0]);
    pare_ctx *const cx = &r.home.cx;
    pare_tokens t;
    char file[2][128] = {{0}};
    for (size_t i = 0; i < 16; i++) {
        file[0][8 * i] = (char)(i + 1);
        file[1][2 * i] = (char)(i + 1);
    }
    const struct {
        const char *bytes, *what;
        size_t len;
    } bad[] = {
        {file[0],
         "int64, since every second word of 32 bits is 0. pare reads little-endian int32; "
         "in Python, numpy.fromfile(FILE, \"<i8\").astype(\"<i4\").tofile(NEW)",
         128},
        {file[1], "uint16, since its halves are tokens and most of its words are not. ", 32},
        {"\x93NUMPY\x01\0v", "an array of numpy (.npy). pare", 9},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        folder_put(&r.dir, "bad.i32", bad[i].bytes, bad[i].len);
        ck_assert_int_eq(pare_tokens_read(cx, &r.home.arena, r.dir.file, 53, &t), PARE_EFORMAT);
        ck_assert_msg(strstr(cx->what, bad[i].what) != NULL, "%s", cx->what);
        pare_ctx_clear(cx);
    }
    file[0][124] = 1; /* one word that is not 0 makes them ids of 32 bits */
    folder_put(&r.dir, "good.i32", file[0], 128);
    ck_assert_int_eq(pare_tokens_read(cx, &r.home.arena, r.dir.file, 53, &t), PARE_OK);
    ck_assert_uint_eq(t.count, 32);
    memset(file[0] + 8, 0, 120); /* one id, and 31 of padding */
    folder_put(&r.dir, "good.i32", file[0], 128);
    ck_assert_int_eq(pare_tokens_read(cx, &r.home.arena, r.dir.file, 53, &t), PARE_OK);
    memset(file[0] + 40, -1, 4); /* all halves are below such a vocabulary: one id is wrong */
    folder_put(&r.dir, "bad.i32", file[0], 128);
    ck_assert_int_eq(pare_tokens_read(cx, &r.home.arena, r.dir.file, 100000, &t), PARE_EFORMAT);
    ck_assert_msg(strstr(cx->what, "token 10 is -1") != NULL, "%s", cx->what);
    pare_ctx_clear(cx);
    rig_end(&r);
}
END_TEST

/* A long file is not held beside what it becomes. */
START_TEST(reading_tokens_takes_the_memory_of_the_tokens)
{
    static const char zeros[1 << 20];
    static rig r;
    rig_begin(&r, 1, tiny_kinds[0]);
    pare_tokens t;
    folder_put(&r.dir, "long.i32", zeros, sizeof zeros);
    const size_t live = r.home.cx.peak_bytes = r.home.cx.live_bytes;
    ck_assert_int_eq(pare_tokens_read(&r.home.cx, &r.home.arena, r.dir.file, 53, &t), PARE_OK);
    ck_assert_uint_eq(t.count, sizeof zeros / 4);
    ck_assert_uint_lt(r.home.cx.peak_bytes - live, sizeof zeros + (1 << 17));
    rig_end(&r);
}
END_TEST

START_TEST(windows_are_consecutive_pieces_in_order)
{
    tiny_home h;
    tiny_begin(&h, 1);
    int32_t id[23];
    for (int32_t i = 0; i < 23; i++)
        id[i] = i;
    const pare_tokens stream = {.id = id, .count = 23};
    pare_tokens out;
    ck_assert_int_eq(pare_tokens_windows(&h.cx, &h.arena, &stream, 4, 3, PARE_PICK_FIRST, 1, &out),
                     PARE_OK);
    ck_assert_uint_eq(out.count, 12);
    ck_assert_mem_eq(out.id, id, 12 * sizeof *id);
    bool moved = false;
    for (uint64_t seed = 0; seed < 20; seed++) {
        ck_assert_int_eq(
            pare_tokens_windows(&h.cx, &h.arena, &stream, 4, 3, PARE_PICK_DRAW, seed, &out),
            PARE_OK);
        for (size_t w = 0; w < 3; w++) {
            ck_assert(out.id[w * 4] % 4 == 0 && out.id[w * 4] < 20);
            ck_assert(w == 0 || out.id[w * 4] > out.id[w * 4 - 4]);
            ck_assert_mem_eq(out.id + w * 4, id + out.id[w * 4], 4 * sizeof *id);
        }
        moved |= memcmp(out.id, id, 12 * sizeof *id) != 0;
    }
    ck_assert(moved);
    ck_assert_int_eq(pare_tokens_windows(&h.cx, &h.arena, &stream, 4, 0, PARE_PICK_DRAW, 1, &out),
                     PARE_OK);
    ck_assert_uint_eq(out.count, 20);
    ck_assert_mem_eq(out.id, id, 20 * sizeof *id);
    ck_assert_int_eq(pare_tokens_windows(&h.cx, &h.arena, &stream, 4, 6, PARE_PICK_DRAW, 1, &out),
                     PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(h.cx.what, "asked for 6 windows of 4 tokens, the calibration data "
                                            "has 23 tokens (5 windows)"));
    tiny_end(&h);
}
END_TEST

static uint64_t fresh(rig *r, const pare_tokens *t, size_t window)
{
    uint64_t n = 0;
    const size_t live = r->home.cx.live_bytes;
    ck_assert_int_eq(pare_tokens_fresh(&r->home.arena, t, window, &n), PARE_OK);
    ck_assert_uint_ge(r->home.cx.live_bytes, live);
    return n;
}

START_TEST(tokens_that_repeat_themselves_are_not_new)
{
    enum { COUNT = 1 << 18 };
    static rig r;
    rig_begin(&r, 1, tiny_kinds[0]);
    pare_tokens t = {.id = tiny_take(&r.home.arena, COUNT, sizeof *t.id), .count = 512};
    for (size_t i = 0; i < COUNT; i++)
        t.id[i] = (int32_t)i;
    ck_assert_uint_eq(fresh(&r, &t, 64), 512);
    for (size_t i = 0; i < 512; i++)
        t.id[i] = 5;
    ck_assert_uint_eq(fresh(&r, &t, 1), 1);
    ck_assert_uint_eq(fresh(&r, &t, 2), 1);
    ck_assert_uint_eq(fresh(&r, &t, 64), 1);
    for (size_t i = 0; i < 512; i++)
        t.id[i] = (int32_t)(i % 64);
    ck_assert_uint_eq(fresh(&r, &t, 512), 512 * 64 / 505);
    ck_assert_uint_eq(fresh(&r, &t, 16), 512 * 36 / 288); /* no turn of 64 begins in mid-window */
    t.id[300] = 1000; /* those behind it have something else in front */
    ck_assert_uint_eq(fresh(&r, &t, 512), 512 * (64 + PARE_TOKENS_CONTEXT) / 505);
    /* many are an estimate, whichever come first */
    enum { LONG = 4096, TURNS = 1 << 16, ALL = COUNT / 64 * 49 };
    t.count = COUNT;
    for (size_t i = 0; i < COUNT; i++)
        t.id[i] = (int32_t)(i < TURNS ? i % LONG : i);
    const uint64_t many = fresh(&r, &t, LONG);
    ck_assert_uint_le(many > ALL ? many - ALL : ALL - many, ALL / 33);
    for (size_t i = 0; i < COUNT; i++)
        t.id[i] = (int32_t)(i < COUNT - TURNS ? i + TURNS : i % LONG);
    ck_assert_uint_eq(fresh(&r, &t, LONG), many);
    rig_end(&r);
}
END_TEST

/* However many sequences run at once: sample i is what one sequence of number i gives. */
START_TEST(samples_of_the_model_depend_on_their_number_only)
{
    static rig r;
    rig_begin(&r, 2, tiny_kinds[0]);
    pare_ctx *const cx = &r.home.cx;
    pare_arena *const a = &r.home.arena;
    enum { MANY = 20 }; /* more than one batch */
    pare_tokens out;
    ck_assert_int_eq(pare_tokens_generate(cx, a, a, &r.forward, 0.9, 4, MANY, WINDOW, &out),
                     PARE_OK);
    ck_assert_uint_eq(out.count, MANY * WINDOW);
    for (size_t i = 0; i < MANY; i += 19) {
        int32_t one[WINDOW] = {1};
        const pare_generate_opts opts = {
            .temperature = 0.9, .seed = 4, .first = i, .sequences = 1, .length = WINDOW};
        ck_assert_int_eq(pare_generate(cx, a, &r.forward, &opts, 1, one, NULL, NULL), PARE_OK);
        ck_assert_mem_eq(one, out.id + i * WINDOW, sizeof one);
    }
    rig_end(&r);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    static rig r;
    rig_begin(&r, 2, tiny_kinds[3]);
    pare_ctx *const cx = &r.home.cx;
    const pare_alloc plain = cx->alloc;
    const unsigned all = PARE_STATS_HESSIAN | PARE_STATS_CHANNELS | PARE_STATS_SAMPLE;
    const unsigned kinds[PARE_SITES] = {all, all, all, all};
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_arena a = {.cx = cx};
        pare_wave wave;
        pare_stats h;
        pare_ctx_clear(cx);
        cx->alloc = (pare_alloc){unit_failing_resize, &failing};
        s = pare_wave_open_part(cx, &a, SAMPLES, 0, SAMPLES, WINDOW, 44, r.dir.path, &wave);
        if (s == PARE_OK)
            s = pare_stats_take(cx, &a, &r.model.config, 0, kinds, SAMPLES * WINDOW, &h);
        if (s == PARE_OK)
            s = pare_wave_embed(cx, &a, &wave, &r.model, r.tokens);
        if (s == PARE_OK) {
            const pare_tap tap = pare_stats_tap(&h);
            s = pare_wave_run(cx, &a, &wave, &r.forward, &r.model.block[0], &tap, "");
        }
        ck_assert(s == PARE_OK || (s == PARE_ENOMEM && cx->what[0]));
        pare_wave_close(&wave);
        pare_arena_release(&a);
        ck_assert_int_eq(failing.live, 0);
    }
    ck_assert_int_gt(n, 3);
    cx->alloc = plain;
    rig_end(&r);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("calib");
    TCase *const c = tcase_create("calib");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, a_wave_carries_every_window_through_the_blocks, 0, 2 * TINY_KINDS);
    tcase_add_loop_test(c, statistics_are_sums_over_all_tokens_and_leave_the_wave_alone, 0, 2);
    tcase_add_loop_test(c, a_wave_halts_between_the_halves_of_a_block, 0, 2);
    tcase_add_loop_test(c, a_batch_fits_the_scratch_that_was_counted, 0, TINY_KINDS);
    tcase_add_test(c, a_file_that_cannot_be_made_is_named);
    tcase_add_test(c, a_batch_has_about_2048_tokens);
    tcase_add_test(c, token_files_are_little_endian_numbers_below_the_vocabulary);
    tcase_add_test(c, token_files_of_other_integers_are_told);
    tcase_add_test(c, reading_tokens_takes_the_memory_of_the_tokens);
    tcase_add_test(c, tokens_that_repeat_themselves_are_not_new);
    tcase_add_test(c, windows_are_consecutive_pieces_in_order);
    tcase_add_test(c, samples_of_the_model_depend_on_their_number_only);
    tcase_add_test(c, every_refused_allocation_is_reported_and_nothing_leaks);
    suite_add_tcase(s, c);
    return unit_main(s);
}
