/* Scores of experts: against the definition, token by token in double; which go, in groups and
 * among equals. */
#include "prune/reap.h"
#include "runtime/forward_internal.h"
#include "tests/unit/mixture.h"

enum { HIDDEN = 44, ROWS = 37, EXPERTS = 6 };

/* Routers as families have them. */
static const struct {
    const char *family;
    size_t used, groups, groups_used;
    double scale;
    bool norm, corrected;
} routers[] = {{"mixtral", 2, 0, 0, 0, true, false},
               {"qwen2_moe", 3, 0, 0, 0, false, false},
               {"qwen3_moe", 2, 3, 2, 1.5, true, false},
               {"deepseek_v3", 2, 2, 1, 2.5, true, true}};

static pare_router router_of(const pare_config *c, const pare_block *b)
{
    return (pare_router){.used = c->experts_used,
                         .norm = c->expert_norm,
                         .groups = c->expert_groups,
                         .groups_used = c->expert_groups_used,
                         .scale = c->expert_scale,
                         .correction = b->correction};
}

static void apply(tiny_home *h, const pare_linear *w, const float *x, float *y)
{
    ck_assert_int_eq(pare_linear_apply(&h->cx, &h->arena, w, true, x, w->k, 1, y, w->n), PARE_OK);
}

/* What one row adds to the sums of the experts that it goes to. */
static void row_by_hand(tiny_home *h, const pare_config *c, const pare_block *b, const float *x,
                        double *sum, uint64_t *tokens)
{
    float logit[EXPERTS], weight[EXPERTS], gate[MIXTURE_WIDTH], up[MIXTURE_WIDTH], y[HIDDEN];
    uint32_t picked[EXPERTS];
    const pare_router how = router_of(c, b);
    apply(h, &b->router, x, logit);
    pare__route(logit, c->experts, &how, picked, weight);
    for (size_t i = 0; i < c->experts_used; i++) {
        const size_t part = picked[i] + 1;
        double square = 0;
        apply(h, pare_block_linear(b, part, PARE_ROLE_GATE), x, gate);
        apply(h, pare_block_linear(b, part, PARE_ROLE_UP), x, up);
        h->cx.kernels.silu_f32(gate, up, MIXTURE_WIDTH);
        apply(h, pare_block_linear(b, part, PARE_ROLE_DOWN), gate, y);
        for (size_t j = 0; j < c->hidden; j++)
            square += (double)y[j] * (double)y[j];
        sum[picked[i]] += (double)weight[i] * sqrt(square);
        tokens[picked[i]]++;
    }
}

typedef struct scores {
    tiny_home *h;
    pare_reap of[EXPERTS];
} scores;

static pare_status see(void *self, size_t expert, const pare_visit *visit, const float *y,
                       size_t rows, size_t hidden)
{
    scores *const s = self;
    ck_assert_uint_gt(rows, 0);
    return pare_reap_add(&s->h->cx, &s->h->arena, &s->of[expert], visit, y, rows, hidden);
}

START_TEST(a_score_is_the_mean_of_what_the_expert_adds)
{
    tiny_home h;
    tiny_begin(&h, _i % 2 ? 4 : 1);
    pare_model m = mixture_of(&h.arena, routers[_i / 2].family, tiny_kinds[0], EXPERTS);
    pare_config *const c = &m.config;
    pare_block *const b = &m.block[1];
    float correction[EXPERTS];
    ck_assert_uint_eq(c->hidden, HIDDEN);
    c->experts_used = routers[_i / 2].used;
    c->expert_groups = routers[_i / 2].groups;
    c->expert_groups_used = routers[_i / 2].groups_used;
    c->expert_scale = routers[_i / 2].scale;
    c->expert_norm = routers[_i / 2].norm;
    for (size_t e = 0; e < EXPERTS; e++)
        correction[e] = 0.1F * (float)e;
    b->correction = routers[_i / 2].corrected ? correction : NULL;
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 1, true, &f), PARE_OK);
    float x[ROWS * HIDDEN], out[ROWS * HIDDEN] = {0};
    double sum[EXPERTS] = {0};
    uint64_t tokens[EXPERTS] = {0};
    for (size_t i = 0; i < ROWS * HIDDEN; i++)
        x[i] = (float)pare_random_normal(5, 1, i);
    scores s = {.h = &h};
    const pare_tap tap = {.see_expert = see, .self = &s, .last = PARE_SITES};
    const pare_ops o = pare_ops_of(&h.cx, &h.arena, &f);
    for (size_t first = 0; first < ROWS; first += 20) { /* in two batches */
        const size_t rows = first + 20 < ROWS ? 20 : ROWS - first;
        const pare_array from = {.at = x + first * HIDDEN, .rows = rows, .width = HIDDEN};
        pare_array to = {.at = out + first * HIDDEN, .rows = rows, .width = HIDDEN};
        ck_assert_int_eq(pare__experts_forward(&o, &f, b, &tap, from, &to), PARE_OK);
    }
    for (size_t t = 0; t < ROWS; t++)
        row_by_hand(&h, c, b, x + t * HIDDEN, sum, tokens);
    for (size_t e = 0; e < EXPERTS; e++) {
        ck_assert_uint_eq(s.of[e].tokens, tokens[e]);
        ck_assert_double_eq(pare_reap_score(&s.of[e]), tokens[e] ? sum[e] / (double)tokens[e] : 0);
    }
    tiny_end(&h);
}
END_TEST

START_TEST(the_lowest_scores_go_in_each_group)
{
    static const double score[8] = {5, 1, 2, 1, 9, 8, 7, 6};
    static const struct {
        size_t groups, kept;
        const char *keep;
    } cases[] = {{0, 6, "10101111"}, {0, 7, "10111111"}, {0, 8, "11111111"}, {0, 1, "00001000"},
                 {2, 4, "10101100"}, {4, 4, "10101010"}, {4, 8, "11111111"}, {1, 5, "10001111"}};
    pare_ctx cx;
    pare_arena a;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t keep[8];
        ck_assert_int_eq(pare_reap_choose(&cx, &a, score, 8, cases[i].groups, cases[i].kept, keep),
                         PARE_OK);
        for (size_t e = 0; e < 8; e++)
            ck_assert_msg(keep[e] == cases[i].keep[e] - '0', "case %zu, expert %zu", i, e);
    }
    uint8_t keep[8];
    const double broken[8] = {1, 2, NAN, 3, 4, 5, 6, 7};
    ck_assert_int_eq(pare_reap_choose(&cx, &a, broken, 8, 2, 4, keep), PARE_ENUMERIC);
    ck_assert_double_eq(pare_reap_score(&(pare_reap){0}), 0);
    pare_arena_release(&a);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("reap");
    TCase *const t = tcase_create("reap");
    tcase_add_loop_test(t, a_score_is_the_mean_of_what_the_expert_adds, 0,
                        2 * (int)(sizeof routers / sizeof *routers));
    tcase_add_test(t, the_lowest_scores_go_in_each_group);
    suite_add_tcase(s, t);
    return unit_main(s);
}
