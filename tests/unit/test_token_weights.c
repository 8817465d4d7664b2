#include "calib/token_weights.h"

#include <sys/stat.h>

#include "calib/stats.h"
#include "calib/wave.h"
#include "kernels/half.h"
#include "runtime/head_gradient.h"
#include "runtime/linalg.h"
#include "runtime/tape.h"
#include "tests/unit/folder.h"
#include "tests/unit/pipes.h"
#include "tests/unit/tiny.h"

enum { SAMPLES = 25, WINDOW = 90, TOTAL = SAMPLES * WINDOW, MOST = 70 };

/* Tokens of the tiny model in batches of 22 and 3 windows. */
typedef struct rig {
    tiny_home home;
    pare_model model;
    pare_forward forward;
    int32_t *tokens;
    pare_block room;
    folder dir;
} rig;

static void rig_begin(rig *r, size_t threads, pare_dtype dtype)
{
    tiny_begin(&r->home, threads);
    folder_make(&r->dir);
    pare_arena *const a = &r->home.arena;
    r->model = tiny_model(a, (tiny_kind){.dtype = dtype});
    r->model.config.arch = pare_arch_find("llama");
    r->tokens = tiny_tokens(a, 1, TOTAL);
    ck_assert_int_eq(pare_forward_init(&r->home.cx, a, &r->model, WINDOW, true, &r->forward),
                     PARE_OK);
    ck_assert_int_eq(
        pare_block_take(a, &r->model.config, pare_block_biases(r->model.block), &r->room), PARE_OK);
}

static pare_status find(rig *r, pare_token_weights *out)
{
    return pare_token_weights_find(&r->home.cx, &r->home.arena, &r->home.arena, &r->forward,
                                   r->tokens, SAMPLES, WINDOW, 3, &r->room, r->dir.path, out);
}

static void rig_end(rig *r)
{
    folder_remove(&r->dir);
    tiny_end(&r->home);
}

/* Those of a block, in `found`. */
static void load(rig *r, size_t block, pare_token_weights *found)
{
    ck_assert_int_eq(pare_token_weights_load(&r->home.cx, block, found), PARE_OK);
}

static double weight_at(const pare_linear *l, size_t i)
{
    float value;
    if (l->dtype == PARE_F32)
        return (double)((const float *)l->data)[i];
    value = pare_bf16_to_f32(((const uint16_t *)l->data)[i]);
    return (double)value;
}

/* Logits of one row in double. */
static void plain_row(const pare_model *m, const double *x, double l[TINY_VOCAB])
{
    const size_t hidden = m->config.hidden;
    double squares = 0;
    for (size_t j = 0; j < hidden; j++)
        squares += x[j] * x[j];
    const double r = 1 / sqrt(squares / (double)hidden + m->config.norm_eps);
    for (size_t v = 0; v < TINY_VOCAB; v++) {
        l[v] = 0;
        for (size_t j = 0; j < hidden; j++)
            l[v] += weight_at(&m->head, v * hidden + j) * x[j] * r * (double)m->norm[j];
    }
}

static void plain_softmax(const double l[TINY_VOCAB], double p[TINY_VOCAB])
{
    double total = 0;
    for (size_t v = 0; v < TINY_VOCAB; v++)
        total += p[v] = exp(l[v]);
    for (size_t v = 0; v < TINY_VOCAB; v++)
        p[v] /= total;
}

/* dl of a row. */
static void plain_draw(const double p[TINY_VOCAB], uint64_t seed, size_t row, double dl[TINY_VOCAB])
{
    double sum = 0;
    for (size_t v = 0; v < TINY_VOCAB; v++) {
        const uint64_t bits = pare_random_u64(seed, row, v / 64);
        dl[v] = (bits >> v % 64 & 1 ? 1 : -1) * sqrt(p[v]);
        sum += dl[v];
    }
    for (size_t v = 0; v < TINY_VOCAB; v++)
        dl[v] -= p[v] * sum;
}

/* The change of dot(c, logits) with x_j, by central differences. */
static double plain_slope(const pare_model *m, double *x, size_t j, const double c[TINY_VOCAB])
{
    double l[TINY_VOCAB], sum = 0;
    const double was = x[j];
    for (int side = 0; side < 2; side++) {
        x[j] = was + (side ? 1e-5 : -1e-5);
        plain_row(m, x, l);
        for (size_t v = 0; v < TINY_VOCAB; v++)
            sum += (side ? c[v] : -c[v]) * l[v];
    }
    x[j] = was;
    return sum / 2e-5;
}

/* 300 rows: two chunks. */
START_TEST(the_gradient_of_the_head_equals_central_differences)
{
    enum { ROWS = 300, FIRST = 1000 };
    rig r;
    rig_begin(&r, 2, _i ? PARE_BF16 : PARE_F32);
    const size_t hidden = r.model.config.hidden;
    float *const x = tiny_take(&r.home.arena, ROWS * hidden, sizeof *x);
    float *const dx = tiny_take(&r.home.arena, ROWS * hidden, sizeof *dx);
    double l[TINY_VOCAB], p[TINY_VOCAB], dl[TINY_VOCAB], at[64];
    for (size_t i = 0; i < ROWS * hidden; i++)
        x[i] = (float)pare_random_normal(41, 1, i);
    ck_assert_int_eq(
        pare_head_gradient(&r.home.cx, &r.home.arena, &r.forward, x, 41, FIRST, ROWS, dx), PARE_OK);
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < hidden; j++)
            at[j] = (double)x[i * hidden + j];
        plain_row(&r.model, at, l);
        plain_softmax(l, p);
        plain_draw(p, 41, FIRST + i, dl);
        for (size_t j = 0; j < hidden; j++)
            ck_assert_double_eq_tol((double)dx[i * hidden + j], plain_slope(&r.model, at, j, dl),
                                    1e-5);
    }
    rig_end(&r);
}
END_TEST

/* The mean of dx_j^2 over draws is the sum over labels y of p_y (d -ln p_y / dx_j)^2. */
START_TEST(draws_have_the_curvature_of_the_divergence)
{
    enum { DRAWS = 20000 };
    rig r;
    rig_begin(&r, 2, PARE_F32);
    const size_t hidden = r.model.config.hidden;
    float *const x = tiny_take(&r.home.arena, DRAWS * hidden, sizeof *x);
    float *const dx = tiny_take(&r.home.arena, DRAWS * hidden, sizeof *dx);
    double l[TINY_VOCAB], p[TINY_VOCAB], c[TINY_VOCAB], at[64];
    for (size_t j = 0; j < hidden; j++)
        at[j] = 3 * pare_random_normal(41, 1, j);
    for (size_t i = 0; i < DRAWS * hidden; i++)
        x[i] = (float)at[i % hidden];
    ck_assert_int_eq(pare_head_gradient(&r.home.cx, &r.home.arena, &r.forward, x, 7, 0, DRAWS, dx),
                     PARE_OK);
    plain_row(&r.model, at, l);
    plain_softmax(l, p);
    for (size_t j = 0; j < hidden; j++) {
        double wanted = 0, got = 0;
        for (size_t y = 0; y < TINY_VOCAB; y++) {
            for (size_t v = 0; v < TINY_VOCAB; v++)
                c[v] = p[v] - (v == y);
            wanted += p[y] * pow(plain_slope(&r.model, at, j, c), 2);
        }
        for (size_t i = 0; i < DRAWS; i++)
            got += pow((double)dx[i * hidden + j], 2) / DRAWS;
        ck_assert_double_eq_tol(got / wanted, 1, 0.05);
    }
    rig_end(&r);
}
END_TEST

/* Gradients behind the linears of a block, as they come. */
typedef struct seen {
    const pare_block *block;
    float *dy[PARE_COMMON_ROLES];
    size_t n[PARE_COMMON_ROLES];
} seen;

static void keep(void *self, const pare_linear *w, const float *dy, size_t rows, size_t n)
{
    seen *const s = self;
    const size_t role = (size_t)(w - s->block->linear);
    memcpy(s->dy[role], dy, rows * n * sizeof *dy);
    s->n[role] = n;
}

/* dy dy^T of a linear, in blocks of rows, added to o. */
static void plain_outputs(const float *dy, size_t n, double *o)
{
    for (size_t i = 0; i < n; i++)
        for (size_t l = i / PARE_OUTPUT_BLOCK * PARE_OUTPUT_BLOCK;
             l < n && l / PARE_OUTPUT_BLOCK == i / PARE_OUTPUT_BLOCK; l++)
            for (size_t t = 0; t < WINDOW; t++)
                o[i * PARE_OUTPUT_BLOCK + l % PARE_OUTPUT_BLOCK] +=
                    (double)dy[t * n + i] * (double)dy[t * n + l];
}

/* A window for itself: squared gradients over their means, averaged over outputs, added to w; and
 * their products, added to o as `like` has them. */
static void plain_window(rig *r, size_t window, double *w, const pare_output_curvature *like,
                         double *o)
{
    pare_ctx *const cx = &r->home.cx;
    pare_arena *const a = &r->home.arena;
    const size_t blocks = r->model.config.blocks, hidden = r->model.config.hidden;
    const pare_batch one = {.sequences = 1, .length = WINDOW};
    float *x[8], *dy = tiny_take(a, WINDOW * hidden, sizeof *dy);
    pare_tape tape[8];
    pare_array in[8], behind[8];
    seen s;
    for (size_t b = 0; b <= blocks; b++)
        x[b] = tiny_take(a, WINDOW * hidden, sizeof *x[b]);
    for (size_t role = 0; role < PARE_COMMON_ROLES; role++)
        s.dy[role] = tiny_take(a, WINDOW * MOST, sizeof *s.dy[role]);
    ck_assert_int_eq(pare_embed_batch(cx, &r->model, r->tokens + window * WINDOW, one, x[0]),
                     PARE_OK);
    for (size_t b = 0; b < blocks; b++) {
        pare_tape_begin(cx, a, NULL, &tape[b]);
        ck_assert_int_eq(pare_tape_input(&tape[b], x[b], WINDOW, hidden, true, &in[b]), PARE_OK);
        ck_assert_int_eq(pare_tape_block(&tape[b], &r->forward, &r->model.block[b], one, in[b],
                                         NULL, &behind[b]),
                         PARE_OK);
        memcpy(x[b + 1], behind[b].at, WINDOW * hidden * sizeof(float));
    }
    ck_assert_int_eq(
        pare_head_gradient(cx, a, &r->forward, x[blocks], 3, window * WINDOW, WINDOW, dy), PARE_OK);
    for (size_t b = blocks; b-- > 0;) {
        const pare_gradients g = {.see = keep, .self = &s};
        s.block = &r->model.block[b];
        ck_assert_int_eq(pare_tape_back(&tape[b], behind[b], dy, &g), PARE_OK);
        memcpy(dy, pare_tape_gradient(in[b]), WINDOW * hidden * sizeof *dy);
        for (size_t role = 0; role < PARE_COMMON_ROLES; role++) {
            const size_t site = r->model.config.arch->linear[role].site, n = s.n[role];
            plain_outputs(s.dy[role], n,
                          o + b * like->first[PARE_COMMON_ROLES] + like->first[role]);
            double *const out = w + (b * PARE_SITES + site) * TOTAL + window * WINDOW;
            for (size_t i = 0; i < n; i++) {
                double mean = 0;
                for (size_t t = 0; t < WINDOW; t++)
                    mean += pow((double)s.dy[role][t * n + i], 2) / WINDOW;
                for (size_t t = 0; mean > 0 && t < WINDOW; t++)
                    out[t] += pow((double)s.dy[role][t * n + i], 2) / mean / (double)n;
            }
        }
    }
}

/* O of a linear of n outputs, settled, beside the plain sums. */
static void check_outputs(const float *got, const double *o, size_t n)
{
    double mean = 0, apart = 0;
    for (size_t i = 0; i < n; i++)
        mean += o[i * PARE_OUTPUT_BLOCK + i % PARE_OUTPUT_BLOCK] / (double)n;
    ck_assert_double_gt(mean, 0);
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < PARE_OUTPUT_BLOCK; l++) {
            const bool own = l == i % PARE_OUTPUT_BLOCK;
            const double wanted = o[i * PARE_OUTPUT_BLOCK + l] / mean + (own ? 0.01 : 0);
            ck_assert_double_eq_tol((double)got[i * PARE_OUTPUT_BLOCK + l], wanted, 2e-3);
            apart = fmax(apart, own ? 0 : fabs(wanted));
        }
    ck_assert_double_gt(apart, 0.05); /* they say something */
}

START_TEST(weights_and_curvature_equal_those_of_each_window_by_itself)
{
    rig r;
    rig_begin(&r, 2, PARE_F32);
    pare_token_weights found;
    ck_assert_int_eq(find(&r, &found), PARE_OK);
    ck_assert_uint_eq(found.tokens, TOTAL);
    const size_t sites = r.model.config.blocks * PARE_SITES;
    double *const w = tiny_take(&r.home.arena, sites * TOTAL, sizeof *w);
    const size_t linears = r.model.config.blocks * PARE_COMMON_ROLES;
    const size_t of_block = found.outputs.first[PARE_COMMON_ROLES];
    double *const o = tiny_take(&r.home.arena, r.model.config.blocks * of_block, sizeof *o);
    for (size_t window = 0; window < SAMPLES; window++) {
        const pare_mark mark = pare_arena_mark(&r.home.arena);
        plain_window(&r, window, w, &found.outputs, o);
        pare_arena_rewind(&r.home.arena, mark);
    }
    for (size_t l = 0; l < linears; l++) {
        const pare_role role = l % PARE_COMMON_ROLES;
        size_t n, k;
        pare_linear_shape(&r.model.config, 0, role, &n, &k);
        load(&r, l / PARE_COMMON_ROLES, &found);
        check_outputs(pare_output_curvature_at(&found.outputs, role),
                      o + l / PARE_COMMON_ROLES * of_block + found.outputs.first[role], n);
    }
    for (size_t s = 0; s < sites; s++) {
        if (!pare_site_width(&r.model.config, 0, (pare_site)(s % PARE_SITES)))
            continue;
        load(&r, s / PARE_SITES, &found);
        const float *const got = pare_token_weights_at(&found, s % PARE_SITES);
        double mean = 0, least = 9, most = 0;
        for (size_t t = 0; t < TOTAL; t++)
            mean += sqrt(w[s * TOTAL + t]) / TOTAL;
        for (size_t t = 0; t < TOTAL; t++) {
            const double wanted = sqrt(w[s * TOTAL + t]) / mean;
            ck_assert_double_eq_tol((double)got[t], wanted, 1e-3 * (wanted + 0.01));
            least = fmin(least, wanted);
            most = fmax(most, wanted);
        }
        ck_assert(least < 0.5 && most > 1.5); /* they say something */
    }
    pare_token_weights_close(&found);
    rig_end(&r);
}
END_TEST

START_TEST(any_thread_count_gives_the_same_bytes)
{
    rig r[2];
    pare_token_weights found[2];
    for (size_t i = 0; i < 2; i++) {
        rig_begin(&r[i], i ? 4 : 1, PARE_BF16);
        ck_assert_int_eq(find(&r[i], &found[i]), PARE_OK);
    }
    for (size_t b = 0; b < r[0].model.config.blocks; b++) {
        load(&r[0], b, &found[0]);
        load(&r[1], b, &found[1]);
        ck_assert_mem_eq(found[0].weight, found[1].weight, PARE_SITES * TOTAL * sizeof(float));
        ck_assert_mem_eq(found[0].outputs.o, found[1].outputs.o,
                         found[0].outputs.first[PARE_COMMON_ROLES] * sizeof(float));
    }
    for (size_t i = 0; i < 2; i++) {
        pare_token_weights_close(&found[i]);
        rig_end(&r[i]);
    }
}
END_TEST

/* Process 0 holds the result against its own of all windows. */
static int find_together(pare_ctx *cx)
{
    rig r;
    pare_token_weights found = {0}, alone = {0};
    rig_begin(&r, 1, PARE_BF16);
    r.home.cx.world = cx->world;
    int wrong = find(&r, &found) != PARE_OK;
    r.home.cx.world = NULL;
    if (!wrong && pare_world_rank(cx) == 0) {
        wrong = find(&r, &alone) != PARE_OK;
        for (size_t b = 0; b < r.model.config.blocks && !wrong; b++) {
            load(&r, b, &found);
            load(&r, b, &alone);
            wrong = memcmp(found.weight, alone.weight, PARE_SITES * TOTAL * sizeof(float)) != 0 ||
                    memcmp(found.outputs.o, alone.outputs.o,
                           found.outputs.first[PARE_COMMON_ROLES] * sizeof(float)) != 0;
        }
    }
    pare_token_weights_close(&found);
    pare_token_weights_close(&alone);
    rig_end(&r);
    return wrong;
}

START_TEST(any_number_of_processes_gives_the_same_bytes)
{
    ck_assert_int_eq(pipes_run(find_together), 0);
}
END_TEST

START_TEST(gradients_that_are_not_finite_are_refused)
{
    rig r;
    rig_begin(&r, 1, PARE_F32);
    float *const norm = (float *)(uintptr_t)r.model.norm;
    norm[3] = NAN;
    pare_token_weights found;
    ck_assert_int_eq(find(&r, &found), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, "not finite"));
    pare_ctx_clear(&r.home.cx);
    pare_token_weights_close(&found);
    r.model.head.bits = 4;
    ck_assert_int_eq(find(&r, &found), PARE_ENOTSUP);
    pare_token_weights_close(&found);
    rig_end(&r);
}
END_TEST

/* The square of a gradient behind `up` is below all floats there, and counts all the same. */
START_TEST(gradients_may_be_as_small_as_floats_are)
{
    rig r;
    rig_begin(&r, 1, PARE_F32);
    const pare_linear *const down = &r.model.block[0].linear[PARE_ROLE_DOWN];
    ck_assert_int_eq(down->dtype, PARE_F32);
    float *const w = (float *)(uintptr_t)down->data;
    for (size_t i = 0; i < down->n; i++)
        w[i * down->k + 5] *= 1e-25F;
    pare_token_weights found;
    ck_assert_int_eq(find(&r, &found), PARE_OK);
    pare_token_weights_close(&found);
    rig_end(&r);
}
END_TEST

START_TEST(memory_that_ends_anywhere_is_reported_and_the_bound_holds)
{
    rig r;
    rig_begin(&r, 2, PARE_F32);
    pare_ctx *const cx = &r.home.cx;
    pare_arena own, kept = r.home.arena;
    pare_token_weights found;
    const size_t before = cx->live_bytes;
    cx->peak_bytes = before;
    ck_assert_int_eq(pare_arena_init(cx, &own, 0), PARE_OK);
    r.home.arena = own;
    ck_assert_int_eq(find(&r, &found), PARE_OK);
    ck_assert_uint_le(cx->peak_bytes - before,
                      pare_token_weights_bytes(&r.model.config, TOTAL) +
                          pare_token_weights_scratch(cx, &r.model.config, SAMPLES, WINDOW, false));
    pare_token_weights_close(&found);
    pare_arena_release(&r.home.arena);
    const pare_alloc alloc = cx->alloc;
    for (long left = 0;; left += 3) {
        unit_failing failing = {.left = left};
        cx->alloc = (pare_alloc){unit_failing_resize, &failing};
        r.home.arena = (pare_arena){.cx = cx};
        const pare_status s = find(&r, &found);
        pare_token_weights_close(&found);
        pare_arena_release(&r.home.arena);
        ck_assert_int_eq(failing.live, 0);
        pare_ctx_clear(cx);
        if (s == PARE_OK)
            break;
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_int_lt(left, 400);
    }
    cx->alloc = alloc;
    r.home.arena = kept;
    rig_end(&r);
}
END_TEST

/* The most memory that finding the weights takes, and how much of their files is written. */
static uint64_t peak_of(rig *r, size_t blocks)
{
    pare_ctx *const cx = &r->home.cx;
    const size_t had = r->model.config.blocks;
    const pare_block *const block = r->model.block;
    const pare_mark mark = pare_arena_mark(&r->home.arena);
    pare_block *const deep = tiny_take(&r->home.arena, blocks, sizeof *deep);
    for (size_t b = 0; b < blocks; b++)
        deep[b] = block[b % had];
    pare_token_weights found;
    r->model.block = deep;
    r->model.config.blocks = blocks;
    const uint64_t before = cx->live_bytes;
    cx->peak_bytes = cx->live_bytes;
    ck_assert_int_eq(find(r, &found), PARE_OK);
    const uint64_t took = cx->peak_bytes - before;
    struct stat st;
    ck_assert_int_eq(fstat(found.file.fd, &st), 0);
    ck_assert_uint_lt((uint64_t)st.st_size,
                      pare_token_weights_disk(&r->model.config, SAMPLES, WINDOW, 1));
    ck_assert_uint_gt(pare_token_weights_disk(&r->model.config, SAMPLES, WINDOW, 1),
                      blocks * pare_token_weights_bytes(&r->model.config, TOTAL) / 2);
    /* the second process holds sums of four shares */
    ck_assert_uint_eq(pare_token_weights_disk(&r->model.config, SAMPLES, WINDOW, 2),
                      2 * pare_token_weights_disk(&r->model.config, SAMPLES, WINDOW, 1) +
                          3 * blocks * pare_output_curvature_floats(&r->model.config) *
                              sizeof(float));
    load(r, blocks - 1, &found);
    pare_token_weights_close(&found);
    r->model.block = (pare_block *)(uintptr_t)block;
    r->model.config.blocks = had;
    pare_arena_rewind(&r->home.arena, mark);
    return took;
}

START_TEST(memory_does_not_grow_with_the_number_of_blocks)
{
    rig r;
    rig_begin(&r, 2, PARE_F32);
    (void)peak_of(&r, 2); /* blocks of the arena */
    const uint64_t two = peak_of(&r, 2), nine = peak_of(&r, 9);
    ck_assert_uint_eq(two, nine);
    rig_end(&r);
}
END_TEST

/* A disk that is full is told before any work, by the name of what does not fit. */
START_TEST(files_that_cannot_be_made_are_told)
{
    rig r;
    rig_begin(&r, 1, PARE_F32);
    pare_token_weights found;
    (void)snprintf(r.dir.path + strlen(r.dir.path), 8, "/none");
    ck_assert_int_eq(find(&r, &found), PARE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, "/none/" PARE_SPILL_WEIGHTS));
    pare_token_weights_close(&found);
    *strrchr(r.dir.path, '/') = '\0';
    rig_end(&r);
}
END_TEST

/* H = sum over tokens of w x x^T, and what it rests on. */
START_TEST(hessians_follow_the_weights)
{
    rig r;
    rig_begin(&r, 2, PARE_F32);
    pare_ctx *const cx = &r.home.cx;
    pare_arena *const a = &r.home.arena;
    const unsigned kinds[PARE_SITES] = {[PARE_SITE_MLP] = PARE_STATS_HESSIAN};
    const size_t k = r.model.config.hidden;
    float *const x = tiny_take(a, TOTAL * k, sizeof *x), *const w = tiny_take(a, TOTAL, sizeof *w);
    double *const h = tiny_take(a, k * k, sizeof *h), *const fourth = tiny_take(a, k, sizeof *h);
    for (size_t t = 0; t < TOTAL; t++) {
        w[t] = t % 5 ? (float)pare_random_unit(42, 1, t) * 3 : 0;
        for (size_t j = 0; j < k; j++)
            x[t * k + j] = (float)pare_random_normal(42, 2, t * k + j);
        for (size_t i = 0; i < k; i++) {
            const double square = (double)w[t] * pow((double)x[t * k + i], 2);
            fourth[i] += square * square;
            for (size_t j = 0; j <= i; j++)
                h[i * k + j] += (double)w[t] * (double)x[t * k + i] * (double)x[t * k + j];
        }
    }
    pare_stats stats;
    ck_assert_int_eq(pare_stats_take(cx, a, &r.model.config, 0, kinds, TOTAL, &stats), PARE_OK);
    stats.site[PARE_SITE_MLP].weight = w;
    const pare_tap tap = pare_stats_tap(&stats);
    for (size_t first = 0, rows; first < TOTAL; first += rows) {
        rows = TOTAL - first < 700 ? TOTAL - first : 700;
        ck_assert_int_eq(tap.see(tap.self, 0, PARE_SITE_MLP, x + first * k, rows, k), PARE_OK);
    }
    const pare_site_stats *const got = &stats.site[PARE_SITE_MLP];
    for (size_t i = 0; i < k; i++) {
        ck_assert_double_eq_tol(got->fourth[i], fourth[i], 1e-4 * fourth[i]);
        for (size_t j = 0; j <= i; j++)
            ck_assert_double_eq_tol((double)got->h[i * k + j], h[i * k + j], 1e-4 * h[i * k + i]);
    }
    rig_end(&r);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("token_weights");
    TCase *const t = tcase_create("token_weights");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, the_gradient_of_the_head_equals_central_differences, 0, 2);
    tcase_add_test(t, draws_have_the_curvature_of_the_divergence);
    tcase_add_test(t, weights_and_curvature_equal_those_of_each_window_by_itself);
    tcase_add_test(t, any_thread_count_gives_the_same_bytes);
    tcase_add_test(t, any_number_of_processes_gives_the_same_bytes);
    tcase_add_test(t, gradients_that_are_not_finite_are_refused);
    tcase_add_test(t, gradients_may_be_as_small_as_floats_are);
    tcase_add_test(t, memory_that_ends_anywhere_is_reported_and_the_bound_holds);
    tcase_add_test(t, memory_does_not_grow_with_the_number_of_blocks);
    tcase_add_test(t, files_that_cannot_be_made_are_told);
    tcase_add_test(t, hessians_follow_the_weights);
    suite_add_tcase(s, t);
    return unit_main(s);
}
