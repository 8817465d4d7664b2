/* Jobs on mixtures of experts: which rows an expert is calibrated on, and behind what, worked out
 * in double beside the job. */
#include <math.h>

#include "calib/stats.h"
#include "tests/unit/moe_job.h"

static const char *const names[] = {"mixtral", "qwen2_moe", "qwen3_moe"};
enum { NAMES = sizeof names / sizeof *names };

static const told *find_told(const listener *l, size_t block, size_t part, pare_role role)
{
    for (size_t i = 0; i < l->rows; i++)
        if (l->row[i].block == block && l->row[i].part == part && l->row[i].role == role)
            return &l->row[i];
    ck_abort_msg("nothing was told of block %zu, part %zu", block, part);
}

/* The calibration in front of the first block. */
static void begin_wave(pair *p)
{
    pare_tokens t, windows;
    ck_assert_int_eq(
        pare_tokens_read(&p->cx, &p->a, job_path(&place, "tokens.i32"), FAMILY_VOCAB, &t), PARE_OK);
    ck_assert_int_eq(
        pare_tokens_windows(&p->cx, &p->a, &t, WINDOW, SAMPLES, PARE_PICK_FIRST, 0, &windows),
        PARE_OK);
    ck_assert_int_eq(pare_forward_init(&p->cx, &p->a, &p->before, WINDOW, true, &p->forward),
                     PARE_OK);
    ck_assert_int_eq(pare_wave_open_part(&p->cx, &p->a, SAMPLES, 0, SAMPLES, WINDOW,
                                         p->before.config.hidden, NULL, &p->wave),
                     PARE_OK);
    ck_assert_int_eq(pare_wave_embed(&p->cx, &p->a, &p->wave, &p->before, windows.id), PARE_OK);
}

/* Inputs of the MLPs of a block, all rows. */
typedef struct inputs {
    float *x; /* [TOKENS, hidden] */
    size_t rows;
} inputs;

static pare_status keep_rows(void *self, size_t part, pare_site site, const float *x, size_t rows,
                             size_t k)
{
    inputs *const in = self;
    ck_assert_uint_eq(part, 1);
    if (site == PARE_SITE_MLP) {
        memcpy(in->x + in->rows * k, x, rows * k * sizeof *x);
        in->rows += rows;
    }
    return PARE_OK;
}

/* picks[t]: bit e when the router sends row t to expert e, worked out in double. */
static void route(pair *p, size_t block, const float *x, uint32_t *picks)
{
    const pare_config *const c = &p->before.config;
    const float *const w = floats_of(p, &p->before.block[block].router);
    for (size_t t = 0; t < TOKENS; t++) {
        double score[64];
        for (size_t e = 0; e < c->experts; e++) {
            score[e] = 0;
            for (size_t j = 0; j < c->hidden; j++)
                score[e] += (double)w[e * c->hidden + j] * (double)x[t * c->hidden + j];
        }
        picks[t] = 0;
        for (size_t i = 0; i < c->experts_used; i++) {
            size_t best = 0;
            for (size_t e = 1; e < c->experts; e++)
                best = score[e] > score[best] ? e : best;
            picks[t] |= 1u << best;
            score[best] = -INFINITY;
        }
    }
}

/* takes[t]: rows that an expert is calibrated on: its own, and `want` of the others, as evenly as
 * whole numbers allow. */
static void fill_up(const uint32_t *picks, size_t expert, size_t want, size_t others, bool *takes)
{
    for (size_t t = 0, j = 0; t < TOKENS; t++) {
        takes[t] = picks[t] >> expert & 1;
        if (!takes[t])
            takes[t] = (j + 1) * want / others > j * want / others, j++;
    }
}

/* h [k, k] += x x^T of the rows that an expert takes. */
static void add_gram(double *h, const float *x, size_t k, const bool *takes)
{
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < k && takes[t]; i++)
            for (size_t j = 0; j < k; j++)
                h[i * k + j] += (double)x[t * k + i] * (double)x[t * k + j];
}

/* tr(D H D^T), D = w - q, or w. */
static double error_of(const double *h, const float *w, const float *q, size_t n, size_t k)
{
    double sum = 0;
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < k; i++) {
            double row = 0;
            for (size_t j = 0; j < k; j++)
                row += h[i * k + j] * ((double)w[r * k + j] - (q ? (double)q[r * k + j] : 0));
            sum += row * ((double)w[r * k + i] - (q ? (double)q[r * k + i] : 0));
        }
    return sum;
}

/* What the expert's down sees of every row, from its weights as they came. */
static float *activated(pair *p, const pare_block *b, size_t part, const float *x)
{
    const pare_config *const c = &p->before.config;
    const size_t width = c->expert_width, hidden = c->hidden;
    const float *const gate = floats_of(p, pare_block_linear(b, part, PARE_ROLE_GATE));
    const float *const up = floats_of(p, pare_block_linear(b, part, PARE_ROLE_UP));
    float *const out = PARE_NEW(&p->a, float, TOKENS *width);
    ck_assert_ptr_nonnull(out);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < width; i++) {
            double g = 0, u = 0;
            for (size_t j = 0; j < hidden; j++) {
                g += (double)gate[i * hidden + j] * (double)x[t * hidden + j];
                u += (double)up[i * hidden + j] * (double)x[t * hidden + j];
            }
            out[t * width + i] = (float)(g / (1 + exp(-g)) * u);
        }
    return out;
}

/* What the public statistics say of an expert is the direct sum over its rows. */
static void check_statistics(pair *p, const pare_block *block, size_t part, pare_site site,
                             const double *h, size_t k, uint64_t tokens, pare_fill *fill)
{
    unsigned kinds[PARE_SITES] = {0};
    kinds[site] = PARE_STATS_HESSIAN;
    pare_stats stats;
    ck_assert_int_eq(pare_stats_take(&p->cx, &p->a, &p->before.config, part, kinds, TOKENS, &stats),
                     PARE_OK);
    pare_stats_parts parts = {&stats, part, 1};
    pare_tap tap = pare_stats_tap_parts(&parts);
    fill[part].seen = 0;
    tap.fill = fill;
    ck_assert_int_eq(pare_wave_run(&p->cx, &p->a, &p->wave, &p->forward, block, &tap, "gathering"),
                     PARE_OK);
    const pare_site_stats *const s = &stats.site[site];
    ck_assert_uint_eq(s->k, k);
    ck_assert_uint_eq(s->tokens, tokens);
    double most = 0;
    for (size_t i = 0; i < k; i++)
        most = fmax(most, h[i * k + i]);
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j <= i; j++)
            ck_assert_double_le(fabs((double)s->h[i * k + j] - h[i * k + j]), 2e-5 * most);
}

/* One linear of an expert: the error that was told, from the rows that it should have seen; GPTQ
 * must be better than rounding there. Of too few rows for GPTQ nothing is told: it is rounded. */
static void check_linear(pair *p, const pair *rounded, const told *r, const double *h)
{
    const pare_linear *const l = pare_block_linear(&p->before.block[r->block], r->part, r->role);
    const pare_linear *const q = pare_block_linear(&p->after.block[r->block], r->part, r->role);
    const pare_linear *const n =
        pare_block_linear(&rounded->after.block[r->block], r->part, r->role);
    const pare_mark mark = pare_arena_mark(&p->a);
    const float *const w = floats_of(p, l);
    const double whole = error_of(h, w, NULL, l->n, l->k);
    const double error = error_of(h, w, floats_of(p, q), l->n, l->k) / whole;
    const double plain = error_of(h, w, floats_of(p, n), l->n, l->k) / whole;
    ck_assert(!r->thin || (r->error < 0 && error == plain));
    ck_assert_msg(r->thin || fabs(error - r->error) <= 1e-3 * error,
                  "block %zu part %zu role %d: told %g, direct %g", r->block, r->part, (int)r->role,
                  r->error, error);
    ck_assert_msg(r->thin || error < plain, "block %zu part %zu role %d: %g, rounded %g", r->block,
                  r->part, (int)r->role, error, plain);
    pare_arena_rewind(&p->a, mark);
}

static void check_expert(pair *p, const pair *rounded, const listener *l, size_t block, size_t part,
                         const pare_block *now, const float *x, const uint32_t *picks,
                         uint64_t least)
{
    const pare_config *const c = &p->before.config;
    const size_t width = c->expert_width, hidden = c->hidden;
    const told *const gate = find_told(l, block, part, PARE_ROLE_GATE);
    const told *const up = find_told(l, block, part, PARE_ROLE_UP);
    const told *const down = find_told(l, block, part, PARE_ROLE_DOWN);
    uint64_t tokens = 0;
    for (size_t t = 0; t < TOKENS; t++)
        tokens += picks[t] >> (part - 1) & 1;
    ck_assert_int_eq(gate->tokens, (int64_t)tokens);
    ck_assert_int_eq(down->tokens, (int64_t)tokens);
    const uint64_t want = tokens < least ? least - tokens : 0;
    ck_assert_int_eq(up->cold, want ? PARE_COLD_FILL : PARE_COLD_NOT);
    const pare_mark mark = pare_arena_mark(&p->a);
    double *const h = PARE_NEW(&p->a, double, hidden *hidden);
    double *const d = PARE_NEW(&p->a, double, width *width);
    pare_fill *const fill = PARE_NEW(&p->a, pare_fill, pare_block_parts(c));
    bool takes[TOKENS];
    ck_assert(h && d && fill);
    fill[part] = (pare_fill){.want = want, .of = TOKENS - tokens};
    fill_up(picks, part - 1, want, TOKENS - tokens, takes);
    add_gram(h, x, hidden, takes);
    add_gram(d, activated(p, now, part, x), width, takes);
    check_statistics(p, now, part, PARE_SITE_MLP, h, hidden, tokens + want, fill);
    check_statistics(p, now, part, PARE_SITE_ACTIVATED, d, width, tokens + want, fill);
    check_linear(p, rounded, gate, h);
    check_linear(p, rounded, up, h);
    check_linear(p, rounded, down, d);
    pare_arena_rewind(&p->a, mark);
}

/* Blocks in front of it as they are stored, part 0 as it is stored, experts as they came: that is
 * what an expert is calibrated behind. */
static void check_blocks(const listener *l, uint64_t least)
{
    pair p, rounded;
    open_pair(&p, "out");
    open_pair(&rounded, "rounded");
    begin_wave(&p);
    const pare_config *const c = &p.before.config;
    inputs in = {PARE_NEW(&p.a, float, TOKENS * c->hidden), 0};
    uint32_t *const picks = PARE_NEW(&p.a, uint32_t, TOKENS);
    pare_fill *const fill = PARE_NEW(&p.a, pare_fill, pare_block_parts(c));
    ck_assert(in.x && picks && fill);
    fill[1] = (pare_fill){.want = 1, .of = 1}; /* every row */
    for (size_t b = 0; b < c->blocks; b++) {
        pare_block now = p.after.block[b];
        now.expert = p.before.block[b].expert;
        const pare_tap tap = {.see = keep_rows,
                              .self = &in,
                              .last = PARE_SITE_MLP,
                              .first_part = 1,
                              .parts = 1,
                              .fill = fill};
        in.rows = 0;
        ck_assert_int_eq(pare_wave_run(&p.cx, &p.a, &p.wave, &p.forward, &now, &tap, "looking"),
                         PARE_OK);
        ck_assert_uint_eq(in.rows, TOKENS);
        route(&p, b, in.x, picks);
        for (size_t part = 1; part <= c->experts; part++)
            check_expert(&p, &rounded, l, b, part, &now, in.x, picks, least);
        ck_assert_int_eq(
            pare_wave_run(&p.cx, &p.a, &p.wave, &p.forward, &p.after.block[b], NULL, "carrying"),
            PARE_OK);
    }
    pare_wave_close(&p.wave);
    close_pair(&rounded);
    close_pair(&p);
}

START_TEST(an_expert_is_calibrated_on_the_rows_that_reach_it)
{
    static const uint64_t least[] = {300, 370, 225};
    char text[512];
    teardown();
    setup_family(names[_i]);
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 12, window: "
                   "64, precision: f32, token_weights: even, experts: {min_tokens: %llu}}\n"
                   "passes:\n  - gptq: "
                   "{bits: 2, group: 32, "
                   "clip: none, refine: 0, correct: none}\n",
                   (unsigned long long)least[_i]);
    job_recipe(&place, text);
    listener *const l = calloc(1, sizeof *l);
    ck_assert_ptr_nonnull(l);
    const pare_events events = {listen, l};
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .events = &events}, NULL),
                     PARE_OK);
    job_recipe(&place, "pare: 1\nmodel: model\npasses:\n  - rtn: {bits: 2, group: 32}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "rounded"}, NULL), PARE_OK);
    size_t cold = 0, thin = 0;
    for (size_t i = 0; i < l->rows; i++) {
        cold += l->row[i].cold != PARE_COLD_NOT;
        thin += l->row[i].thin;
    }
    ck_assert_msg(thin < l->rows / 4, "%zu of %zu are thin", thin, l->rows);
    ck_assert_msg(cold > 0 && cold < l->rows, "%zu of %zu are cold", cold, l->rows);
    ck_assert_uint_gt(l->notices, 0);
    check_blocks(l, least[_i]);
    free(l);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("moe_rows");
    TCase *const t = tcase_create("moe_rows");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, an_expert_is_calibrated_on_the_rows_that_reach_it, 0, NAMES);
    suite_add_tcase(s, t);
    return unit_main(s);
}
