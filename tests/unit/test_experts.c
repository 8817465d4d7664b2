/* Mixtures of experts: the router, the order of sums, what taps see. */
#include "runtime/forward_internal.h"
#include "tests/unit/mixture.h"

enum { ROWS = 23, HIDDEN = 44 };

static const char *const family_names[] = {"mixtral", "qwen2_moe", "qwen3_moe"};

static float *some_rows(pare_arena *a, uint64_t stream, size_t count, size_t width)
{
    float *const x = tiny_take(a, count * width, sizeof *x);
    for (size_t i = 0; i < count * width; i++)
        x[i] = (float)pare_random_normal(17, stream, i);
    return x;
}

/* Weights of the largest of `logit`, all in double, by the definition. */
static void by_definition(const float *logit, size_t n, size_t used, bool norm, double *p)
{
    double total = 0, kept = 0;
    bool gone[16] = {false};
    double all[16];
    for (size_t i = 0; i < n; i++)
        total += all[i] = exp((double)logit[i]);
    for (size_t i = 0; i < used; i++) {
        size_t best = n;
        for (size_t j = 0; j < n; j++)
            if (!gone[j] && (best == n || logit[j] > logit[best]))
                best = j;
        gone[best] = true;
        kept += all[best] / total;
        p[best] = all[best] / total;
    }
    for (size_t j = 0; j < n; j++)
        p[j] = gone[j] ? p[j] / (norm ? kept : 1.0) : 0.0;
}

START_TEST(the_router_gives_the_largest_of_the_softmax)
{
    for (size_t round = 0; round < 200; round++) {
        const size_t n = 1 + round % 16, used = 1 + round / 16 % n;
        const bool norm = round % 3 == 0;
        float logit[16], weight[16];
        double wanted[16] = {0}, sum = 0;
        uint32_t picked[16];
        for (size_t i = 0; i < n; i++)
            logit[i] = (float)(3 * pare_random_normal(5, round, i));
        by_definition(logit, n, used, norm, wanted);
        pare__route(logit, n, &(pare_router){.used = used, .norm = norm}, picked, weight);
        for (size_t i = 0; i < used; i++) {
            ck_assert_uint_lt(picked[i], n);
            ck_assert(wanted[picked[i]] > 0);
            ck_assert(fabs((double)weight[i] - wanted[picked[i]]) < 1e-6);
            ck_assert(i == 0 || weight[i] <= weight[i - 1]);
            sum += (double)weight[i];
            wanted[picked[i]] = 0; /* not twice */
        }
        ck_assert(sum < 1 + 1e-6 && (!norm || sum > 1 - 1e-6));
    }
}
END_TEST

static void check_route(const float *logit, size_t n, size_t used, const uint32_t *wanted)
{
    float copy[8], weight[8];
    uint32_t picked[8];
    memcpy(copy, logit, n * sizeof *copy);
    pare__route(copy, n, &(pare_router){.used = used, .norm = true}, picked, weight);
    for (size_t i = 0; i < used; i++)
        ck_assert_uint_eq(picked[i], wanted[i]);
}

START_TEST(of_equal_experts_the_lower_index_wins)
{
    check_route((const float[]){1, 2, 2, 0, 2}, 5, 2, (const uint32_t[]){1, 2});
    check_route((const float[]){0, 0, 0, 0}, 4, 3, (const uint32_t[]){0, 1, 2});
    check_route((const float[]){-1, 5, -1, -1}, 4, 4, (const uint32_t[]){1, 0, 2, 3});
    /* Far below the largest all have the probability 0, and are still picked once each. */
    check_route((const float[]){-900, 0, -800, -700}, 4, 4, (const uint32_t[]){1, 0, 2, 3});
    check_route((const float[]){-INFINITY, 1, -INFINITY}, 3, 2, (const uint32_t[]){1, 0});
}
END_TEST

/* The router of DeepSeek V3: 8 experts in 4 groups, of which 2 stay; by hand. */
START_TEST(sigmoids_pick_by_their_corrected_sums_from_the_best_groups)
{
    static const float correction[] = {0, 0, 0.3F, 0.3F, 0, 0, 0, 0.9F};
    float logit[] = {4, -4, 0, 0.5F, 3, -5, -2, -3}, weight[3];
    uint32_t picked[3];
    const pare_router how = {.used = 3,
                             .norm = true,
                             .groups = 4,
                             .groups_used = 2,
                             .scale = 2.5,
                             .correction = correction};
    /* sums of groups: 1.00, 1.72, 0.96, 1.07: experts 2, 3, 6 and 7 are left, by 0.8, 0.92, 0.12
       and 0.95 */
    pare__route(logit, 8, &how, picked, weight);
    ck_assert(picked[0] == 7 && picked[1] == 3 && picked[2] == 2);
    const double s[] = {1 / (1 + exp(3)), 1 / (1 + exp(-0.5)), 0.5};
    for (size_t i = 0; i < 3; i++)
        ck_assert(fabs((double)weight[i] - 2.5 * s[i] / (s[0] + s[1] + s[2])) < 1e-6);
}
END_TEST

/* That of V2: the best expert speaks for its group, weights are those of all experts. */
START_TEST(groups_of_a_softmax_are_as_good_as_their_best_expert)
{
    float logit[] = {1, 2.9F, 3, -9, 2, 2.5F}, weight[2], all = 0;
    uint32_t picked[2];
    for (size_t i = 0; i < 6; i++)
        all += expf(logit[i]);
    const double wanted[] = {exp(3) / (double)all, exp(2.9F) / (double)all};
    const pare_router how = {.used = 2, .groups = 3, .groups_used = 2};
    pare__route(logit, 6, &how, picked, weight);
    ck_assert(picked[0] == 2 && picked[1] == 1);
    for (size_t i = 0; i < 2; i++)
        ck_assert(fabs((double)weight[i] - wanted[i]) < 1e-6);
    float again[] = {1, 2.9F, 3, -9, 2, 2.5F};
    pare__route(again, 6, &(pare_router){.used = 2, .groups = 3, .groups_used = 1}, picked, weight);
    ck_assert(picked[0] == 2 && picked[1] == 3);
}
END_TEST

/* Sums of a group may leave F32; a correction that is no number makes the row none. */
START_TEST(corrections_of_any_size_pick_from_what_is_left)
{
    float correction[] = {-3e38F, -3e38F, 0, 0, -1, -1}, weight[2];
    const pare_router how = {.used = 2, .groups = 3, .groups_used = 1, .correction = correction};
    uint32_t picked[2];
    pare__route((float[]){9, 9, -1, 1, 9, 9}, 6, &how, picked, weight);
    ck_assert(picked[0] == 3 && picked[1] == 2);
    ck_assert(fabs((double)weight[0] - 1 / (1 + exp(-1))) < 1e-6 && weight[1] > 0);
    correction[5] = NAN;
    pare__route((float[]){9, 9, -1, 1, 9, 9}, 6, &how, picked, weight);
    ck_assert(picked[0] == 0 && picked[1] == 1 && isnan(weight[0]) && isnan(weight[1]));
}
END_TEST

/* Logits far apart stay apart, which their softmax and their sigmoids would not. */
START_TEST(inward_routers_pick_the_largest_logits_and_weigh_one)
{
    static const float logits[] = {-3, 200, 300, 200, -7, -500};
    static const uint32_t order[] = {2, 1, 3, 0, 4, 5};
    const pare_router how = {.used = 6, .norm = true, .inward = true};
    float logit[6], weight[6];
    uint32_t picked[6];
    memcpy(logit, logits, sizeof logit);
    pare__route(logit, 6, &how, picked, weight);
    ck_assert_mem_eq(picked, order, sizeof order);
    ck_assert_mem_eq(logit, logits, sizeof logits);
    for (size_t i = 0; i < 6; i++)
        ck_assert(weight[i] == 1);
    logit[4] = NAN;
    pare__route(logit, 6, &how, picked, weight);
    for (uint32_t i = 0; i < 6; i++)
        ck_assert(picked[i] == i && isnan(weight[i]));
}
END_TEST

START_TEST(a_router_without_numbers_gives_the_first_experts_no_number)
{
    static const float broken[][4] = {{NAN, 1, 2, 3},
                                      {1, 2, 3, NAN},
                                      {0, INFINITY, 0, 0},
                                      {-INFINITY, -INFINITY, -INFINITY, -INFINITY}};
    for (size_t i = 0; i < 2 * sizeof broken / sizeof *broken; i++) {
        float logit[4], weight[2];
        uint32_t picked[2];
        memcpy(logit, broken[i / 2], sizeof logit);
        pare__route(logit, 4, &(pare_router){.used = 2, .norm = i % 2}, picked, weight);
        ck_assert(picked[0] == 0 && picked[1] == 1);
        ck_assert(isnan(weight[0]) && isnan(weight[1]));
    }
}
END_TEST

/* One row by the definition, in its order: the shared MLP, then experts ascending. */
static void row_by_hand(tiny_home *h, const pare_forward *f, const pare_block *b, const float *x,
                        const float *shared, float *out)
{
    const pare_config *const c = &f->model->config;
    float logit[MIXTURE_EXPERTS], weight[MIXTURE_EXPERTS], gate[MIXTURE_WIDTH], up[MIXTURE_WIDTH];
    float y[HIDDEN], share = 1;
    uint32_t picked[MIXTURE_EXPERTS];
    const pare_mark mark = pare_arena_mark(&h->arena);
#define APPLY(w, from, to)                                                                         \
    ck_assert_int_eq(                                                                              \
        pare_linear_apply(&h->cx, &h->arena, w, f->exact, from, (w)->k, 1, to, (w)->n), PARE_OK)
    if (b->shared_gate.name) {
        APPLY(&b->shared_gate, x, &share);
        share = (float)(1 / (1 + pare_exp(-(double)share)));
    }
    for (size_t j = 0; j < HIDDEN; j++)
        out[j] = shared[j] * share;
    APPLY(&b->router, x, logit);
    pare__route(logit, c->experts, &(pare_router){.used = c->experts_used, .norm = c->expert_norm},
                picked, weight);
    for (size_t e = 0; e < c->experts; e++)
        for (size_t i = 0; i < c->experts_used; i++) {
            if (picked[i] != e)
                continue;
            APPLY(pare_block_linear(b, e + 1, PARE_ROLE_GATE), x, gate);
            APPLY(pare_block_linear(b, e + 1, PARE_ROLE_UP), x, up);
            h->cx.kernels.silu_f32(gate, up, MIXTURE_WIDTH);
            APPLY(pare_block_linear(b, e + 1, PARE_ROLE_DOWN), gate, y);
            for (size_t j = 0; j < HIDDEN; j++)
                out[j] = fmaf(weight[i], y[j], out[j]);
        }
    pare_arena_rewind(&h->arena, mark);
}

/* out [ROWS, HIDDEN] += the experts of x. */
static pare_status experts_of(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                              const pare_block *block, const pare_tap *tap, const float *x,
                              float *out)
{
    const pare_ops o = pare_ops_of(cx, scratch, f);
    const pare_array from = {.at = (float *)(uintptr_t)x, .rows = ROWS, .width = HIDDEN};
    pare_array to = {.at = out, .rows = ROWS, .width = HIDDEN};
    return pare__experts_forward(&o, f, block, tap, from, &to);
}

START_TEST(experts_add_in_ascending_order_what_one_row_alone_gives)
{
    const size_t kind = (size_t)_i / 2;
    tiny_home h;
    tiny_begin(&h, 3);
    for (size_t i = 0; i < 3; i++) {
        pare_model m = mixture_model(&h.arena, family_names[i], tiny_kinds[kind]);
        m.config.experts_used = i == 2 ? MIXTURE_EXPERTS : MIXTURE_USED + i;
        pare_forward f;
        float wanted[HIDDEN];
        ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 1, _i % 2, &f), PARE_OK);
        const float *const x = some_rows(&h.arena, 1, ROWS, HIDDEN);
        const float *const shared = some_rows(&h.arena, 2, ROWS, HIDDEN);
        float *const out = tiny_take(&h.arena, ROWS * HIDDEN, sizeof *out);
        memcpy(out, shared, ROWS * HIDDEN * sizeof *out);
        ck_assert_int_eq(experts_of(&h.cx, &h.arena, &f, &m.block[1], NULL, x, out), PARE_OK);
        for (size_t t = 0; t < ROWS; t++) {
            row_by_hand(&h, &f, &m.block[1], x + t * HIDDEN, shared + t * HIDDEN, wanted);
            ck_assert_mem_eq(out + t * HIDDEN, wanted, sizeof wanted);
        }
    }
    tiny_end(&h);
}
END_TEST

/* The model on `threads` threads, its tokens in pieces; x [sequences * length, hidden]. */
static void run_pieces(const char *family, tiny_kind kind, size_t threads, size_t sequences,
                       size_t length, size_t piece, float *out)
{
    tiny_home h;
    tiny_begin(&h, threads);
    const pare_model m = mixture_model(&h.arena, family, kind);
    const int32_t *const token = tiny_tokens(&h.arena, 3, sequences * length);
    pare_kv *const kv = tiny_take(&h.arena, m.config.blocks, sizeof *kv);
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, length, false, &f), PARE_OK);
    for (size_t b = 0; b < m.config.blocks; b++)
        ck_assert_int_eq(pare_kv_take(&h.arena, &m.config, sequences, length, &kv[b]), PARE_OK);
    float *const x = tiny_take(&h.arena, sequences * length * HIDDEN, sizeof *x);
    int32_t *const part = tiny_take(&h.arena, sequences * length, sizeof *part);
    for (size_t at = 0; at < length; at += piece) {
        const pare_batch batch = {sequences, length - at < piece ? length - at : piece, at};
        for (size_t i = 0; i < sequences * batch.length; i++)
            part[i] = token[i / batch.length * length + at + i % batch.length];
        ck_assert_int_eq(pare_embed_batch(&h.cx, &m, part, batch, x), PARE_OK);
        ck_assert_int_eq(pare_model_forward(&h.cx, &h.arena, &f, batch, x, kv, m.config.blocks),
                         PARE_OK);
        for (size_t s = 0; s < sequences; s++)
            memcpy(out + (s * length + at) * HIDDEN, x + s * batch.length * HIDDEN,
                   batch.length * HIDDEN * sizeof *x);
    }
    tiny_end(&h);
}

START_TEST(a_row_has_the_same_bytes_whatever_the_batch_the_split_and_the_threads)
{
    enum { LENGTH = 19 };
    static float whole[3 * LENGTH * HIDDEN], other[3 * LENGTH * HIDDEN];
    static const size_t ways[][2] = {{1, LENGTH}, {5, LENGTH}, {2, 1}, {3, 7}};
    for (size_t i = 0; i < 3; i++) {
        run_pieces(family_names[i], tiny_kinds[_i], 2, 3, LENGTH, LENGTH, whole);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            run_pieces(family_names[i], tiny_kinds[_i], ways[w][0], 3, LENGTH, ways[w][1], other);
            ck_assert_mem_eq(whole, other, sizeof whole);
        }
        run_pieces(family_names[i], tiny_kinds[_i], 2, 1, LENGTH, LENGTH, other);
        ck_assert_mem_eq(whole, other, LENGTH * HIDDEN * sizeof *whole);
    }
}
END_TEST

/* What a tap saw, part by part. */
typedef struct witness {
    size_t calls, rows[1 + MIXTURE_EXPERTS][PARE_SITES], k[1 + MIXTURE_EXPERTS][PARE_SITES];
    size_t order[64]; /* part * PARE_SITES + site of every call */
    float x[1 + MIXTURE_EXPERTS][PARE_SITES][ROWS * 70];
    pare_status answer;
} witness;

static pare_status look(void *self, size_t part, pare_site site, const float *x, size_t rows,
                        size_t k)
{
    witness *const w = self;
    ck_assert_uint_le(rows, ROWS);
    ck_assert_uint_gt(rows, 0);
    w->order[w->calls++] = part * PARE_SITES + site;
    w->rows[part][site] = rows;
    w->k[part][site] = k;
    memcpy(w->x[part][site], x, rows * k * sizeof *x);
    return w->answer;
}

/* A block, its input, and a place for its keys and values. */
typedef struct stage {
    tiny_home h;
    pare_model m;
    pare_forward f;
    pare_kv kv;
    float *x, *y;
} stage;

static void stage_begin(stage *s, const char *family)
{
    tiny_begin(&s->h, 2);
    s->m = mixture_model(&s->h.arena, family, tiny_kinds[0]);
    ck_assert_int_eq(pare_forward_init(&s->h.cx, &s->h.arena, &s->m, ROWS, true, &s->f), PARE_OK);
    ck_assert_int_eq(pare_kv_take(&s->h.arena, &s->m.config, 1, ROWS, &s->kv), PARE_OK);
    s->x = some_rows(&s->h.arena, 8, ROWS, HIDDEN);
    s->y = some_rows(&s->h.arena, 8, ROWS, HIDDEN);
}

/* Runs the first block on y, which begins as x. */
static pare_status run_block(stage *s, const pare_tap *tap)
{
    memcpy(s->y, s->x, ROWS * HIDDEN * sizeof *s->y);
    return pare_block_forward(&s->h.cx, &s->h.arena, &s->f, s->m.block, (pare_batch){1, ROWS, 0},
                              s->y, &s->kv, tap);
}

/* Every call of `w` is one of `whole`, with the same rows. */
static void same_calls(const witness *w, const witness *whole, unsigned parts, pare_site last)
{
    size_t at = 0;
    for (size_t i = 0; i < whole->calls; i++) {
        const size_t part = whole->order[i] / PARE_SITES, site = whole->order[i] % PARE_SITES;
        if (!(parts >> part & 1) || site > (size_t)last)
            continue;
        ck_assert_uint_lt(at, w->calls);
        ck_assert_uint_eq(w->order[at++], whole->order[i]);
        ck_assert_uint_eq(w->rows[part][site], whole->rows[part][site]);
        ck_assert_mem_eq(w->x[part][site], whole->x[part][site],
                         w->rows[part][site] * w->k[part][site] * sizeof(float));
    }
    ck_assert_uint_eq(at, w->calls);
}

static bool has_site(const pare_config *c, pare_site site)
{
    return pare_site_width(c, 0, site) || pare_site_width(c, 1, site);
}

START_TEST(a_tap_sees_the_parts_that_it_asks_for_and_stops_behind_the_last)
{
    static witness whole, w;
    stage s;
    stage_begin(&s, family_names[_i]);
    const pare_config *const c = &s.m.config;
    pare_tap tap = {.see = look, .self = &whole, .last = PARE_SITES};
    whole.calls = 0;
    ck_assert_int_eq(run_block(&s, &tap), PARE_OK);
    float *const with = s.y;
    s.y = some_rows(&s.h.arena, 8, ROWS, HIDDEN);
    ck_assert_int_eq(run_block(&s, NULL), PARE_OK);
    ck_assert_mem_eq(with, s.y, ROWS * HIDDEN * sizeof *with);
    size_t routed = 0;
    for (size_t part = 1; part < pare_block_parts(c); part++) {
        routed += whole.rows[part][PARE_SITE_MLP];
        ck_assert_uint_eq(whole.rows[part][PARE_SITE_ACTIVATED], whole.rows[part][PARE_SITE_MLP]);
    }
    ck_assert_uint_eq(routed, ROWS * MIXTURE_USED);
    ck_assert_uint_eq(whole.rows[0][PARE_SITE_MLP], _i == 1 ? ROWS : 0);
    for (size_t last = 0; last < PARE_SITES; last++)
        for (size_t first = 0; first < pare_block_parts(c) && has_site(c, (pare_site)last); first++)
            for (size_t parts = 0; parts < 4; parts++) {
                w.calls = 0;
                tap = (pare_tap){.see = look,
                                 .self = &w,
                                 .last = (pare_site)last,
                                 .first_part = first,
                                 .parts = parts};
                ck_assert_int_eq(run_block(&s, &tap), PARE_OK);
                ck_assert_mem_eq(s.y, s.x, ROWS * HIDDEN * sizeof *s.x);
                same_calls(&w, &whole, parts ? ((1U << parts) - 1) << first : ~0U, (pare_site)last);
            }
    w.answer = PARE_ENUMERIC;
    tap = (pare_tap){.see = look, .self = &w, .last = PARE_SITE_MLP, .first_part = 2, .parts = 9};
    w.calls = 0;
    ck_assert_int_eq(run_block(&s, &tap), PARE_ENUMERIC);
    ck_assert_uint_eq(w.calls, 1);
    w.answer = PARE_OK;
    tiny_end(&s.h);
}
END_TEST

/* Of the rows that the router sends elsewhere, as many as are asked for, evenly spread and in order
 * with the expert's own, also from one batch to the next. */
START_TEST(other_rows_fill_up_those_of_an_expert)
{
    static witness whole, w;
    pare_fill fill[1 + MIXTURE_EXPERTS] = {{0}};
    stage s;
    stage_begin(&s, "qwen2_moe");
    pare_tap tap = {.see = look, .self = &whole, .last = PARE_SITE_ACTIVATED};
    whole.calls = w.calls = 0;
    ck_assert_int_eq(run_block(&s, &tap), PARE_OK);
    const size_t own = whole.rows[3][PARE_SITE_MLP], others = ROWS - own;
    const float *const all = whole.x[0][PARE_SITE_MLP]; /* what all parts read */
    ck_assert(own > 0 && others > 3);
    tap.self = &w;
    tap.fill = fill;
    const size_t wants[] = {1, others / 2, others};
    for (size_t i = 0; i < 3; i++) {
        size_t shown = 0, mine = 0, other = 0;
        fill[3] = (pare_fill){.want = wants[i], .of = 2 * others};
        for (size_t batch = 0; batch < 2; batch++) {
            w.calls = 0;
            ck_assert_int_eq(run_block(&s, &tap), PARE_OK);
            const size_t rows = w.rows[3][PARE_SITE_MLP];
            ck_assert_uint_eq(w.rows[3][PARE_SITE_ACTIVATED], rows);
            size_t at = 0;
            mine = 0;
            for (size_t t = 0; t < ROWS; t++) {
                const bool is_own = mine < own && memcmp(all + t * HIDDEN,
                                                         whole.x[3][PARE_SITE_MLP] + mine * HIDDEN,
                                                         HIDDEN * sizeof *all) == 0;
                const bool takes = is_own || (other + 1) * wants[i] / (2 * others) >
                                                 other * wants[i] / (2 * others);
                mine += is_own;
                other += !is_own;
                if (takes)
                    ck_assert_mem_eq(w.x[3][PARE_SITE_MLP] + at++ * HIDDEN, all + t * HIDDEN,
                                     HIDDEN * sizeof *all);
            }
            ck_assert_uint_eq(at, rows);
            shown += rows;
        }
        ck_assert_uint_eq(shown, 2 * own + wants[i]);
        ck_assert_uint_eq(fill[3].seen, 2 * others);
    }
    for (size_t part = 0; part <= MIXTURE_EXPERTS; part++)
        if (part != 3)
            ck_assert_uint_eq(w.rows[part][PARE_SITE_MLP], whole.rows[part][PARE_SITE_MLP]);
    tiny_end(&s.h);
}
END_TEST

START_TEST(an_expert_without_rows_is_not_shown_and_a_broken_row_stays_alone)
{
    static witness w;
    stage s;
    stage_begin(&s, "mixtral");
    float *const router = tiny_take(&s.h.arena, MIXTURE_EXPERTS * HIDDEN, sizeof *router);
    const float *const x = some_rows(&s.h.arena, 31, ROWS, HIDDEN);
    float *const out = tiny_take(&s.h.arena, ROWS * HIDDEN, sizeof *out);
    float *const with = tiny_take(&s.h.arena, ROWS * HIDDEN, sizeof *with);
    s.m.block[0].router.data = router; /* all logits 0: experts 0 and 1 by their indices */
    const pare_tap tap = {.see = look, .self = &w, .last = PARE_SITES};
    w = (witness){0};
    ck_assert_int_eq(experts_of(&s.h.cx, &s.h.arena, &s.f, s.m.block, &tap, x, out), PARE_OK);
    ck_assert_uint_eq(w.calls, 4);
    ck_assert(w.rows[1][PARE_SITE_MLP] == ROWS && w.rows[2][PARE_SITE_MLP] == ROWS);
    float *const broken = some_rows(&s.h.arena, 31, ROWS, HIDDEN);
    broken[7 * HIDDEN + 3] = NAN;
    ck_assert_int_eq(experts_of(&s.h.cx, &s.h.arena, &s.f, s.m.block, NULL, broken, with), PARE_OK);
    for (size_t t = 0; t < ROWS; t++) {
        if (t != 7)
            ck_assert_mem_eq(out + t * HIDDEN, with + t * HIDDEN, HIDDEN * sizeof *out);
        for (size_t j = 0; j < HIDDEN && t == 7; j++)
            ck_assert(isnan(with[t * HIDDEN + j]));
    }
    tiny_end(&s.h);
}
END_TEST

START_TEST(planned_scratch_is_enough_for_a_mixture)
{
    static witness w;
    tiny_home h;
    tiny_begin(&h, 3);
    pare_model m = mixture_model(&h.arena, family_names[_i % 3], tiny_kinds[_i / 3]);
    m.config.experts_used = _i % 2 ? MIXTURE_EXPERTS : MIXTURE_USED;
    const pare_batch batch = {1, ROWS, 0};
    pare_fill fill[1 + MIXTURE_EXPERTS];
    pare_forward f;
    pare_kv kv;
    pare_arena scratch;
    for (size_t i = 0; i <= MIXTURE_EXPERTS; i++)
        fill[i] = (pare_fill){.want = 1, .of = 1}; /* every row */
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, ROWS, _i % 2, &f), PARE_OK);
    ck_assert_int_eq(pare_kv_take(&h.arena, &m.config, 1, ROWS, &kv), PARE_OK);
    float *const x = some_rows(&h.arena, 4, ROWS, HIDDEN);
    const size_t bytes = pare_block_forward_scratch(&h.cx, &m.config, batch);
    ck_assert_int_eq(pare_arena_init(&h.cx, &scratch, bytes), PARE_OK);
    h.cx.limit_bytes = h.cx.live_bytes; /* nothing beyond the plan */
    const pare_tap tap = {.see = look, .self = &w, .last = PARE_SITE_ACTIVATED, .fill = fill};
    w.calls = 0;
    ck_assert_int_eq(pare_block_forward(&h.cx, &scratch, &f, m.block, batch, x, &kv, &tap),
                     PARE_OK);
    ck_assert_int_eq(pare_block_forward(&h.cx, &scratch, &f, m.block, batch, x, &kv, NULL),
                     PARE_OK);
    pare_arena_release(&scratch);
    tiny_end(&h);
}
END_TEST

START_TEST(every_refused_allocation_of_a_mixture_is_reported)
{
    stage s;
    stage_begin(&s, "qwen2_moe");
    const pare_alloc plain_alloc = s.h.cx.alloc;
    pare_status is = PARE_ENOMEM;
    long n = 0;
    for (; is != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_arena scratch = {.cx = &s.h.cx};
        pare_ctx_clear(&s.h.cx);
        s.h.cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        is = experts_of(&s.h.cx, &scratch, &s.f, s.m.block, NULL, s.x, s.y);
        ck_assert(is == PARE_OK || (is == PARE_ENOMEM && s.h.cx.what[0]));
        pare_arena_release(&scratch);
        ck_assert_int_eq(failing.live, 0);
    }
    ck_assert_int_gt(n, 1);
    s.h.cx.alloc = plain_alloc;
    tiny_end(&s.h);
}
END_TEST

START_TEST(parts_have_the_shapes_and_names_of_the_table)
{
    char name[64];
    size_t n, k;
    tiny_home h;
    tiny_begin(&h, 1);
    const pare_config c = mixture_model(&h.arena, "mixtral", tiny_kinds[0]).config;
    ck_assert_uint_eq(pare_block_parts(&c), 1 + MIXTURE_EXPERTS);
    pare_linear_shape(&c, 2, PARE_ROLE_DOWN, &n, &k);
    ck_assert(n == HIDDEN && k == MIXTURE_WIDTH);
    pare_linear_shape(&c, 2, PARE_ROLE_O, &n, &k);
    ck_assert(n == 0 && k == 0);
    pare_linear_shape(&c, 0, PARE_ROLE_UP, &n, &k);
    ck_assert(n == 0 && k == 0);
    ck_assert_uint_eq(pare_site_width(&c, 1, PARE_SITE_MLP), HIDDEN);
    ck_assert_uint_eq(pare_site_width(&c, 1, PARE_SITE_ACTIVATED), MIXTURE_WIDTH);
    ck_assert_uint_eq(pare_site_width(&c, 1, PARE_SITE_ATTENTION), 0);
    ck_assert_uint_eq(pare_site_width(&c, 0, PARE_SITE_MLP), 0);
    static const char key[] = "self_attn.k_proj";
    ck_assert_uint_eq(pare_arch_name_in(c.arch, 3, 18, "w3", name, sizeof name), 45);
    ck_assert_str_eq(name, "model.layers.3.block_sparse_moe.experts.17.w3");
    ck_assert_uint_eq(pare_arch_name_in(c.arch, 3, 0, key, name, sizeof name), 31);
    ck_assert_str_eq(name, "model.layers.3.self_attn.k_proj");
    ck_assert_uint_eq(pare_arch_name_in(c.arch, 3, 0, key, name, 31), 0);
    ck_assert_ptr_nonnull(strstr(pare_config_no_rotation(&c), "mixture of experts"));
    ck_assert_ptr_nonnull(strstr(pare_config_no_structure(&c), "mixture of experts"));
    tiny_end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("experts");
    TCase *const t = tcase_create("experts");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, the_router_gives_the_largest_of_the_softmax);
    tcase_add_test(t, of_equal_experts_the_lower_index_wins);
    tcase_add_test(t, sigmoids_pick_by_their_corrected_sums_from_the_best_groups);
    tcase_add_test(t, groups_of_a_softmax_are_as_good_as_their_best_expert);
    tcase_add_test(t, corrections_of_any_size_pick_from_what_is_left);
    tcase_add_test(t, inward_routers_pick_the_largest_logits_and_weigh_one);
    tcase_add_test(t, a_router_without_numbers_gives_the_first_experts_no_number);
    tcase_add_loop_test(t, experts_add_in_ascending_order_what_one_row_alone_gives, 0,
                        2 * TINY_KINDS);
    tcase_add_loop_test(t, a_row_has_the_same_bytes_whatever_the_batch_the_split_and_the_threads, 0,
                        TINY_KINDS);
    tcase_add_loop_test(t, a_tap_sees_the_parts_that_it_asks_for_and_stops_behind_the_last, 0, 3);
    tcase_add_test(t, other_rows_fill_up_those_of_an_expert);
    tcase_add_test(t, an_expert_without_rows_is_not_shown_and_a_broken_row_stays_alone);
    tcase_add_loop_test(t, planned_scratch_is_enough_for_a_mixture, 0, 3 * TINY_KINDS);
    tcase_add_test(t, every_refused_allocation_of_a_mixture_is_reported);
    tcase_add_test(t, parts_have_the_shapes_and_names_of_the_table);
    suite_add_tcase(s, t);
    return unit_main(s);
}
