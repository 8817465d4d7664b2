#include "runtime/fold.h"

#include "compress/passes/pass.h"
#include "runtime/linalg.h"
#include "tests/unit/tiny.h"

enum { TOKENS = 24, WIDEST = 128 };

typedef struct rig {
    tiny_home home;
    pare_model model;
    pare_forward forward;
    pare_block block[2];
    int32_t *tokens;
} rig;

static const pare_biases all_room = {(1u << PARE_COMMON_ROLES) - 1, 3};

static void rig_begin(rig *r)
{
    tiny_begin(&r->home, 2);
    pare_ctx *const cx = &r->home.cx;
    pare_arena *const a = &r->home.arena;
    r->model = tiny_model(a, tiny_kinds[0]);
    r->model.config.arch = pare_arch_find("llama");
    r->tokens = tiny_tokens(a, 1, TOKENS);
    ck_assert_int_eq(pare_forward_init(cx, a, &r->model, TOKENS, true, &r->forward), PARE_OK);
    for (size_t b = 0; b < 2; b++) {
        ck_assert_int_eq(pare_block_take(a, &r->model.config, all_room, &r->block[b]), PARE_OK);
        pare_block_load(cx, &r->model.config, &r->model.block[b], &r->block[b]);
    }
}

static void rig_end(rig *r)
{
    tiny_end(&r->home);
}

/* Logits of all positions through the float blocks, with a tap on block 0. */
static float *logits(rig *r, const pare_tap *tap)
{
    pare_ctx *const cx = &r->home.cx;
    pare_arena *const a = &r->home.arena;
    const pare_config *const c = &r->model.config;
    float *const x = tiny_take(a, TOKENS * c->hidden, sizeof *x);
    float *const out = tiny_take(a, TOKENS * c->vocab, sizeof *out);
    pare_kv kv;
    ck_assert_int_eq(pare_embed(cx, &r->model, r->tokens, TOKENS, x), PARE_OK);
    ck_assert_int_eq(pare_kv_take(a, c, 1, TOKENS, &kv), PARE_OK);
    const pare_batch batch = {1, TOKENS, 0};
    for (size_t b = 0; b < 2; b++) {
        if (b == 0 && tap)
            ck_assert_int_eq(
                pare_block_forward(cx, a, &r->forward, &r->block[b], batch, x, &kv, tap), PARE_OK);
        ck_assert_int_eq(pare_block_forward(cx, a, &r->forward, &r->block[b], batch, x, &kv, NULL),
                         PARE_OK);
    }
    ck_assert_int_eq(pare_logits(cx, a, &r->forward, x, NULL, TOKENS, out), PARE_OK);
    return out;
}

/* Largest change of a logit over the largest logit of its position. */
static double moved(const rig *r, const float *before, const float *after)
{
    const size_t vocab = r->model.config.vocab;
    double worst = 0;
    for (size_t t = 0; t < TOKENS; t++) {
        double most = 0, change = 0;
        for (size_t v = 0; v < vocab; v++) {
            most = fmax(most, fabs((double)before[t * vocab + v]));
            change = fmax(change, fabs((double)(after[t * vocab + v] - before[t * vocab + v])));
        }
        worst = fmax(worst, change / most);
    }
    return worst;
}

/* Values for the channels of a site: scales 2^-4 .. 2^4, or shifts. */
static float *values(rig *r, pare_site site, bool scales)
{
    const size_t n = pare_fold_channels(&r->model.config, site);
    float *const v = tiny_take(&r->home.arena, n, sizeof *v);
    for (size_t i = 0; i < n; i++) {
        const double z = pare_random_normal(21 + (scales ? 1 : 0), site, i);
        v[i] = (float)(scales ? exp2(fmax(-4, fmin(4, 2 * z))) : z);
    }
    return v;
}

START_TEST(folds_leave_the_logits_of_the_float_model_alone)
{
    static rig r;
    rig_begin(&r);
    pare_ctx *const cx = &r.home.cx;
    const float *const before = logits(&r, NULL);
    for (size_t b = 0; b < 2; b++)
        for (size_t i = 0; i < TINY_SITES; i++) {
            const pare_site site = tiny_sites[i];
            if (_i != 0 && site != PARE_SITE_ACTIVATED)
                ck_assert_int_eq(pare_fold_shift(cx, &r.model.config, &r.block[b], site,
                                                 values(&r, site, false)),
                                 PARE_OK);
            ck_assert_int_eq(
                pare_fold_scale(cx, &r.model.config, &r.block[b], site, values(&r, site, true)),
                PARE_OK);
        }
    const float *const after = logits(&r, NULL);
    ck_assert_double_le(moved(&r, before, after), 1e-5);
    ck_assert_mem_ne(before, after, TOKENS * r.model.config.vocab * sizeof(float));
    rig_end(&r);
}
END_TEST

typedef struct seen {
    float x[PARE_SITES][TOKENS * WIDEST];
    size_t k[PARE_SITES];
} seen;

static pare_status keep(void *self, size_t part, pare_site site, const float *x, size_t rows,
                        size_t k)
{
    seen *const s = self;
    ck_assert_uint_eq(part, 0);
    ck_assert_uint_le(rows * k, TOKENS * WIDEST);
    memcpy(s->x[site], x, rows * k * sizeof *x);
    s->k[site] = k;
    return PARE_OK;
}

static void see_all(rig *r, seen *s)
{
    const pare_tap tap = {.see = keep, .self = s, .last = PARE_SITE_ACTIVATED};
    (void)logits(r, &tap);
}

START_TEST(a_fold_changes_the_input_of_its_site_as_asked)
{
    static rig r;
    rig_begin(&r);
    const pare_config *const c = &r.model.config;
    const pare_site site = tiny_sites[_i];
    static seen before, after;
    see_all(&r, &before);
    const float *const s = values(&r, site, true), *const z = values(&r, site, false);
    const bool shifts = site != PARE_SITE_ACTIVATED;
    if (shifts)
        ck_assert_int_eq(pare_fold_shift(&r.home.cx, c, &r.block[0], site, z), PARE_OK);
    ck_assert_int_eq(pare_fold_scale(&r.home.cx, c, &r.block[0], site, s), PARE_OK);
    see_all(&r, &after);
    const size_t k = before.k[site], share = c->heads / c->kv_heads, d = c->head_dim;
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t j = 0; j < k; j++) {
            /* column j of the attention output is channel j % d of value head (j / d) / share */
            const size_t channel = site == PARE_SITE_ATTENDED ? j / d / share * d + j % d : j;
            const double x = (double)before.x[site][t * k + j] - (shifts ? (double)z[channel] : 0);
            ck_assert_double_le(fabs((double)after.x[site][t * k + j] - x / (double)s[channel]),
                                1e-5 * (1 + fabs(x) + fabs((double)z[channel])) /
                                    (double)s[channel]);
        }
    rig_end(&r);
}
END_TEST

START_TEST(statistics_follow_the_folds)
{
    static rig r;
    rig_begin(&r);
    const pare_config *const c = &r.model.config;
    const pare_site site = tiny_sites[_i];
    const size_t k = pare_site_width(c, 0, site);
    const unsigned every = PARE_STATS_HESSIAN | PARE_STATS_CHANNELS | PARE_STATS_SAMPLE;
    unsigned kinds[PARE_SITES] = {0};
    kinds[site] = every;
    pare_stats carried, direct;
    ck_assert_int_eq(pare_stats_take(&r.home.cx, &r.home.arena, c, 0, kinds, TOKENS, &carried),
                     PARE_OK);
    ck_assert_int_eq(pare_stats_take(&r.home.cx, &r.home.arena, c, 0, kinds, TOKENS, &direct),
                     PARE_OK);
    const pare_tap first = pare_stats_tap(&carried), second = pare_stats_tap(&direct);
    (void)logits(&r, &first);
    ck_assert_uint_eq(carried.site[site].tokens, TOKENS);
    ck_assert_uint_eq(carried.site[site].samples, TOKENS);
    float *const s_k = tiny_take(&r.home.arena, k, sizeof *s_k);
    float *const z_k = tiny_take(&r.home.arena, k, sizeof *z_k);
    const float *const s = values(&r, site, true), *const z = values(&r, site, false);
    pare_fold_spread(c, site, s, s_k);
    pare_fold_spread(c, site, z, z_k);
    if (site != PARE_SITE_ACTIVATED) {
        ck_assert_int_eq(pare_fold_shift(&r.home.cx, c, &r.block[0], site, z), PARE_OK);
        pare_stats_shift(&carried.site[site], z_k);
    }
    ck_assert_int_eq(pare_fold_scale(&r.home.cx, c, &r.block[0], site, s), PARE_OK);
    pare_stats_scale(&carried.site[site], s_k);
    (void)logits(&r, &second);
    const pare_site_stats *const x = &carried.site[site], *const y = &direct.site[site];
    for (size_t j = 0; j < k; j++) {
        const double size = 1e-4 * (double)(y->absmax[j] + (1 + fabsf(z_k[j])) / s_k[j]);
        ck_assert_double_le(fabs((double)(x->absmax[j] - y->absmax[j])), size);
        ck_assert_double_le(fabs((double)(x->absmean[j] - y->absmean[j])), size);
        ck_assert_double_le(fabs((double)(x->mean[j] - y->mean[j])), size);
        ck_assert_double_le(fabs((double)(x->min[j] - y->min[j])), size);
        ck_assert_double_le(fabs((double)(x->max[j] - y->max[j])), size);
        for (size_t t = 0; t < TOKENS; t++)
            ck_assert_double_le(fabs((double)(x->sample[t * k + j] - y->sample[t * k + j])), size);
        for (size_t i = 0; i <= j; i++) {
            const double other = (double)(y->absmax[i] + (1 + fabsf(z_k[i])) / s_k[i]);
            ck_assert_double_le(fabs((double)(x->h[j * k + i] - y->h[j * k + i])),
                                TOKENS * size * other);
        }
    }
    rig_end(&r);
}
END_TEST

/* Channels turned around inside each part that may be turned, by an odd step. */
static uint32_t *turned(rig *r, pare_site site)
{
    const pare_config *const c = &r->model.config;
    const size_t n = pare_fold_channels(c, site);
    const size_t part = site == PARE_SITE_ATTENDED ? c->head_dim : n;
    uint32_t *const from = tiny_take(&r->home.arena, n, sizeof *from);
    for (size_t i = 0; i < n; i++)
        from[i] = (uint32_t)(i / part * part + (part - 1 - i % part + 3 * (i / part + 1)) % part);
    return from;
}

START_TEST(orders_of_channels_leave_the_logits_of_the_float_model_alone)
{
    static rig r;
    rig_begin(&r);
    const pare_config *const c = &r.model.config;
    const float *const before = logits(&r, NULL);
    const pare_block *const block = &r.block[0];
    const float up = block->linear[PARE_ROLE_UP].floats[0],
                gate = block->linear[PARE_ROLE_GATE].floats[0];
    for (size_t role = 0; role < PARE_COMMON_ROLES; role++)
        for (size_t i = 0; i < c->kv_heads * c->head_dim; i++) /* biases that differ */
            block->linear[role].bias[i] += (float)pare_random_normal(9, role, i);
    const float *const biased = logits(&r, NULL);
    ck_assert_double_gt(moved(&r, before, biased), 1e-3);
    for (size_t b = 0; b < 2; b++)
        for (pare_site site = PARE_SITE_ATTENDED; site < PARE_SITES; site++)
            if (site == PARE_SITE_ATTENDED || site == PARE_SITE_ACTIVATED)
                ck_assert_int_eq(pare_fold_permute(&r.home.cx, &r.home.arena, c, &r.block[b], site,
                                                   turned(&r, site)),
                                 PARE_OK);
    ck_assert_double_le(moved(&r, biased, logits(&r, NULL)), 1e-5);
    ck_assert_float_ne(block->linear[PARE_ROLE_UP].floats[0], up);
    ck_assert_float_ne(block->linear[PARE_ROLE_GATE].floats[0], gate);
    rig_end(&r);
}
END_TEST

/* Weights, reference, inputs and every statistic of them take the order. */
START_TEST(a_pass_orders_weights_reference_and_statistics_at_once)
{
    static rig r;
    rig_begin(&r);
    pare_ctx *const cx = &r.home.cx;
    const pare_config *const c = &r.model.config;
    const pare_site site = _i ? PARE_SITE_ACTIVATED : PARE_SITE_ATTENDED;
    const size_t k = pare_site_width(c, 0, site), share = c->heads / c->kv_heads, d = c->head_dim;
    const unsigned every = PARE_STATS_HESSIAN | PARE_STATS_CHANNELS | PARE_STATS_SAMPLE;
    unsigned kinds[PARE_SITES] = {0};
    kinds[site] = every;
    pare_stats was, is, direct;
    ck_assert_int_eq(pare_stats_take(cx, &r.home.arena, c, 0, kinds, TOKENS, &was), PARE_OK);
    ck_assert_int_eq(pare_stats_take(cx, &r.home.arena, c, 0, kinds, TOKENS, &is), PARE_OK);
    ck_assert_int_eq(pare_stats_take(cx, &r.home.arena, c, 0, kinds, TOKENS, &direct), PARE_OK);
    const pare_tap taps[] = {pare_stats_tap(&was), pare_stats_tap(&is), pare_stats_tap(&direct)};
    (void)logits(&r, &taps[0]);
    (void)logits(&r, &taps[1]);
    pare_block_load(&r.home.cx, c, &r.block[0], &r.block[1]);
    pare_pass_site s = {.config = c,
                        .site = site,
                        .current = &r.block[0],
                        .reference = &r.block[1],
                        .stats = &is.site[site],
                        .scratch = &r.home.arena};
    const uint32_t *const from = turned(&r, site);
    const size_t reader = _i ? PARE_ROLE_DOWN : PARE_ROLE_O;
    float *const w = tiny_take(&r.home.arena, c->hidden * k, sizeof *w);
    memcpy(w, r.block[0].linear[reader].floats, c->hidden * k * sizeof *w);
    ck_assert_int_eq(pare_pass_order(cx, &s, from), PARE_OK);
    (void)logits(&r, &taps[2]);
    const pare_site_stats *const x = &was.site[site], *const y = &is.site[site],
                                 *const z = &direct.site[site];
    for (size_t j = 0; j < k; j++) {
        const size_t p = _i ? from[j] : j / d * d + from[j / d / share * d + j % d] % d;
        for (size_t i = 0; i < c->hidden; i++) {
            ck_assert_float_eq(r.block[0].linear[reader].floats[i * k + j], w[i * k + p]);
            ck_assert_float_eq(r.block[1].linear[reader].floats[i * k + j], w[i * k + p]);
        }
        ck_assert_float_eq(y->absmax[j], x->absmax[p]);
        ck_assert_float_eq(y->absmean[j], x->absmean[p]);
        ck_assert_float_eq(y->mean[j], x->mean[p]);
        ck_assert_float_eq(y->min[j], x->min[p]);
        ck_assert_float_eq(y->max[j], x->max[p]);
        ck_assert_double_eq(y->sum[j], x->sum[p]);
        ck_assert_double_eq(y->abs_sum[j], x->abs_sum[p]);
        const double size = 1e-4 * (double)z->absmax[j];
        for (size_t t = 0; t < TOKENS; t++)
            ck_assert_double_le(fabs((double)(y->sample[t * k + j] - z->sample[t * k + j])), size);
        for (size_t i = 0; i <= j; i++)
            ck_assert_double_le(fabs((double)(y->h[j * k + i] - z->h[j * k + i])),
                                TOKENS * size * (double)z->absmax[i]);
    }
    rig_end(&r);
}
END_TEST

START_TEST(what_is_no_order_of_channels_is_refused_and_nothing_changes)
{
    static rig r;
    rig_begin(&r);
    pare_ctx *const cx = &r.home.cx;
    pare_arena *const a = &r.home.arena;
    const pare_config *const c = &r.model.config;
    const float *const before = logits(&r, NULL);
    for (pare_site site = PARE_SITE_ATTENTION; site < PARE_SITES; site++) {
        if (!pare_site_width(c, 0, site))
            continue;
        uint32_t *const from = turned(&r, site);
        const bool norm = pare_site_norm(c, site) >= 0;
        const uint32_t first = from[0];
        from[0] = norm ? first : from[1];
        ck_assert_int_eq(pare_fold_permute(cx, a, c, &r.block[0], site, from),
                         norm ? PARE_ENOTSUP : PARE_EINVAL);
        ck_assert_ptr_nonnull(strstr(cx->what, norm ? "every block reads them" : "channel 1 of"));
        pare_ctx_clear(cx);
        from[0] = 1U << 30;
        ck_assert_int_eq(pare_fold_permute(cx, a, c, &r.block[0], site, from),
                         norm ? PARE_ENOTSUP : PARE_EINVAL);
        pare_ctx_clear(cx);
        from[0] = first;
        if (site != PARE_SITE_ATTENDED)
            continue;
        const uint32_t other = from[c->head_dim];
        from[c->head_dim] = from[0];
        from[0] = other;
        ck_assert_int_eq(pare_fold_permute(cx, a, c, &r.block[0], site, from), PARE_EINVAL);
        ck_assert_ptr_nonnull(strstr(cx->what, "of another head"));
        pare_ctx_clear(cx);
    }
    ck_assert_mem_eq(before, logits(&r, NULL), TOKENS * c->vocab * sizeof(float));
    rig_end(&r);
}
END_TEST

START_TEST(a_pass_folds_into_weights_reference_and_statistics_at_once)
{
    static rig r;
    rig_begin(&r);
    const pare_config *const c = &r.model.config;
    const pare_site site = PARE_SITE_ATTENDED;
    const size_t k = pare_site_width(c, 0, site);
    const unsigned kinds[PARE_SITES] = {[PARE_SITE_ATTENDED] = PARE_STATS_CHANNELS};
    pare_stats stats;
    ck_assert_int_eq(pare_stats_take(&r.home.cx, &r.home.arena, c, 0, kinds, TOKENS, &stats),
                     PARE_OK);
    const pare_tap tap = pare_stats_tap(&stats);
    (void)logits(&r, &tap);
    pare_pass_site s = {.config = c,
                        .site = site,
                        .current = &r.block[0],
                        .reference = &r.block[1],
                        .stats = &stats.site[site],
                        .scratch = &r.home.arena};
    pare_block_load(&r.home.cx, c, &r.block[0], &r.block[1]);
    const float most = stats.site[site].absmax[k - 1];
    float *const scale = values(&r, site, true);
    const float w = r.block[0].linear[PARE_ROLE_O].floats[k - 1];
    const float last = scale[pare_fold_channels(c, site) - 1];
    ck_assert_int_eq(pare_pass_scale(&r.home.cx, &s, scale), PARE_OK);
    ck_assert_float_eq(stats.site[site].absmax[k - 1], most / last);
    ck_assert_float_eq(r.block[0].linear[PARE_ROLE_O].floats[k - 1], w * last);
    ck_assert_float_eq(r.block[1].linear[PARE_ROLE_O].floats[k - 1], w * last);
    scale[2] = NAN;
    ck_assert_int_eq(pare_pass_scale(&r.home.cx, &s, scale), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(r.home.cx.what, "channel 2"));
    ck_assert_float_eq(r.block[0].linear[PARE_ROLE_O].floats[k - 1], w * last);
    rig_end(&r);
}
END_TEST

START_TEST(what_cannot_be_folded_is_refused_and_nothing_changes)
{
    static rig r;
    rig_begin(&r);
    pare_ctx *const cx = &r.home.cx;
    const pare_config *const c = &r.model.config;
    const pare_site site = PARE_SITE_ATTENDED;
    float *const s = values(&r, site, true);
    const float *const before = logits(&r, NULL);
    const float bad[] = {0, -1, NAN, INFINITY, 1e-40F};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pare_ctx_clear(cx);
        s[3] = bad[i];
        ck_assert_int_eq(pare_fold_scale(cx, c, &r.block[0], site, s), PARE_EINVAL);
        ck_assert_ptr_nonnull(strstr(cx->what, "channel 3 of"));
    }
    s[3] = INFINITY;
    ck_assert_int_eq(pare_fold_shift(cx, c, &r.block[0], site, s), PARE_EINVAL);
    pare_ctx_clear(cx);
    ck_assert_int_eq(pare_fold_shift(cx, c, &r.block[0], PARE_SITE_ACTIVATED,
                                     values(&r, PARE_SITE_ACTIVATED, false)),
                     PARE_ENOTSUP);
    pare_block bare = r.block[0];
    bare.linear[PARE_ROLE_O].bias = NULL;
    pare_ctx_clear(cx);
    ck_assert_int_eq(pare_fold_shift(cx, c, &bare, site, values(&r, site, false)), PARE_EINVAL);
    ck_assert_mem_eq(before, logits(&r, NULL), TOKENS * c->vocab * sizeof(float));
    rig_end(&r);
}
END_TEST

START_TEST(a_long_run_of_tokens_is_sampled_evenly)
{
    static rig r;
    rig_begin(&r);
    const size_t k = pare_site_width(&r.model.config, 0, PARE_SITE_MLP), total = 1000, batch = 77;
    const unsigned kinds[PARE_SITES] = {[PARE_SITE_MLP] = PARE_STATS_SAMPLE};
    pare_stats s;
    ck_assert_int_eq(
        pare_stats_take(&r.home.cx, &r.home.arena, &r.model.config, 0, kinds, total, &s), PARE_OK);
    float *const x = tiny_take(&r.home.arena, total * k, sizeof *x);
    for (size_t i = 0; i < total * k; i++)
        x[i] = (float)(i / k);
    const pare_tap tap = pare_stats_tap(&s);
    for (size_t t = 0; t < total; t += batch)
        ck_assert_int_eq(tap.see(tap.self, 0, PARE_SITE_MLP, x + t * k,
                                 total - t < batch ? total - t : batch, k),
                         PARE_OK);
    const pare_site_stats *const m = &s.site[PARE_SITE_MLP];
    ck_assert_uint_eq(m->samples, PARE_STATS_ROWS);
    ck_assert_float_eq(m->sample[(PARE_STATS_ROWS - 1) * k], (float)(total - 1));
    for (size_t i = 1; i < m->samples; i++) {
        const float gap = m->sample[i * k] - m->sample[(i - 1) * k];
        ck_assert(gap >= 3 && gap <= 4);
    }
    rig_end(&r);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("fold");
    TCase *const t = tcase_create("fold");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, folds_leave_the_logits_of_the_float_model_alone, 0, 2);
    tcase_add_loop_test(t, a_fold_changes_the_input_of_its_site_as_asked, 0, TINY_SITES);
    tcase_add_loop_test(t, statistics_follow_the_folds, 0, TINY_SITES);
    tcase_add_test(t, orders_of_channels_leave_the_logits_of_the_float_model_alone);
    tcase_add_loop_test(t, a_pass_orders_weights_reference_and_statistics_at_once, 0, 2);
    tcase_add_test(t, what_is_no_order_of_channels_is_refused_and_nothing_changes);
    tcase_add_test(t, a_pass_folds_into_weights_reference_and_statistics_at_once);
    tcase_add_test(t, what_cannot_be_folded_is_refused_and_nothing_changes);
    tcase_add_test(t, a_long_run_of_tokens_is_sampled_evenly);
    suite_add_tcase(s, t);
    return unit_main(s);
}
