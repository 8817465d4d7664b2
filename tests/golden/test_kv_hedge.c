/* What coded key/value caches cost the small English model, against its F32 cache. */
#include <math.h>
#include <string.h>

#include "calib/tokens.h"
#include "compress/evaluate/evaluate.h"
#include "formats/checkpoint.h"
#include "formats/tokenizer.h"
#include "quant/kv_cache.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

#define DEMO PARE_SOURCE_DIR "/recipes/demo/"

enum { WINDOW = 256, WINDOWS = 3, CALIBRATION = 4 };

typedef struct home {
    pare_ctx cx;
    pare_arena arena;
    pare_checkpoint ck;
    pare_model model;
    pare_forward f, plain;
    pare_model floats; /* the same weights with the F32 cache */
    pare_tokens calibration, tokens;
} home;

static void ok(const home *h, pare_status s)
{
    ck_assert_msg(s == PARE_OK, "%s: %s", pare_strstatus(s), h->cx.what);
}

static void read_tokens(home *h, const pare_tokenizer *t, const char *path, pare_tokens *out)
{
    ok(h, pare_tokens_encode(&h->cx, &h->arena, t, &path, 1, -1, h->model.config.vocab, out));
}

static void begin(home *h)
{
    pare_tokenizer *t = NULL;
    memset(h, 0, sizeof *h);
    pare_ctx_init(&h->cx);
    h->arena.cx = &h->cx;
    ok(h, pare_pool_new(&h->cx, 2, &h->cx.pool));
    ok(h, pare_checkpoint_open(&h->cx, &h->arena, DEMO "hedge", &h->ck));
    ok(h, pare_model_load(&h->cx, &h->arena, &h->ck, &h->model));
    h->floats = h->model;
    ok(h, pare_forward_init(&h->cx, &h->arena, &h->model, WINDOW, false, &h->f));
    ok(h, pare_forward_init(&h->cx, &h->arena, &h->floats, WINDOW, false, &h->plain));
    ok(h, pare_tokenizer_open(&h->cx, DEMO "hedge", &t));
    read_tokens(h, t, DEMO "calibration.txt", &h->calibration);
    read_tokens(h, t, DEMO "evaluation.txt", &h->tokens);
    ck_assert_uint_ge(h->calibration.count, CALIBRATION * WINDOW);
    ck_assert_uint_ge(h->tokens.count, WINDOWS * WINDOW);
    pare_tokenizer_free(t);
}

static void end(home *h)
{
    pare_checkpoint_close(&h->ck);
    pare_arena_release(&h->arena);
    pare_pool_free(&h->cx, h->cx.pool);
    ck_assert_uint_eq(h->cx.live_bytes, 0);
}

static pare_status watch(void *self, const float *q, const float *k, const float *v, size_t rows)
{
    (void)q;
    pare_kv_sample_add(self, k, v, rows);
    return PARE_OK;
}

static float *floats_of(home *h, const uint16_t *half, size_t n)
{
    float *const x = PARE_NEW(&h->arena, float, n);
    ck_assert_ptr_nonnull(x);
    h->cx.kernels.cvt_f16_f32(x, half, n);
    return x;
}

/* The tables of every block from a few windows of the calibration text. */
static void calibrate(home *h)
{
    const pare_config *const c = &h->model.config;
    const size_t tokens = CALIBRATION * WINDOW, width = c->kv_heads * c->head_dim;
    const pare_batch batch = {CALIBRATION, WINDOW, 0};
    pare_kv kv;
    float *const x = PARE_NEW(&h->arena, float, tokens * c->hidden);
    ck_assert_ptr_nonnull(x);
    ok(h, pare_kv_take(&h->arena, c, CALIBRATION, WINDOW, &kv));
    ok(h, pare_embed(&h->cx, &h->model, h->calibration.id, tokens, x));
    for (size_t i = 0; i < c->blocks; i++) {
        pare_kv_sample sample;
        pare_kv_tables t = {.key_scale = PARE_NEW(&h->arena, uint16_t, width),
                            .key_low = PARE_NEW(&h->arena, uint16_t, width)};
        ck_assert(t.key_scale && t.key_low);
        ok(h, pare_kv_sample_take(&h->arena, c, tokens, &sample));
        const pare_tap tap = {.self = &sample, .last = PARE_SITES, .see_qkv = watch};
        ok(h,
           pare_block_forward(&h->cx, &h->arena, &h->f, &h->model.block[i], batch, x, &kv, &tap));
        ok(h, pare_kv_calibrate(&h->cx, &h->arena, &sample, &t));
        h->model.block[i].kv =
            (pare_kv_levels){floats_of(h, t.key_level, PARE_KV_LEVELS),
                             floats_of(h, t.value_level, PARE_KV_LEVELS), t.key_scale, t.key_low};
    }
}

/* Of the model in the form f against itself with floats; NULL: of that alone. */
static pare_eval_result measure(home *h, const pare_kv_format *f)
{
    const pare_eval_opts opts = {.window = WINDOW};
    pare_eval_result r;
    if (f)
        h->model.kv = *f;
    ok(h, pare_evaluate(&h->cx, f ? &h->f : &h->plain, f ? &h->plain : NULL, &opts, h->tokens.id,
                        WINDOWS * WINDOW, &r));
    return r;
}

static const struct {
    pare_kv_format format;
    double ppl, kl; /* at most: relative to F32; nats */
} rows[] = {
    {{.method = PARE_KV_INT8}, 0.001, 1e-4},
    {{.method = PARE_KV_INT4, .group = 32}, 0.02, 0.02},
    {{.method = PARE_KV_KIVI, .group = 32, .window = 128}, 0.03, 0.01},
    {{.method = PARE_KV_KIVI, .group = 32, .window = 32}, 0.03, 0.02},
    {{.method = PARE_KV_KVQUANT, .sink = 1}, 0.04, 0.05},
};

START_TEST(a_coded_cache_costs_no_more_than_its_method_may)
{
    home h;
    begin(&h);
    const pare_kv_format *const f = &rows[_i].format;
    if (f->method == PARE_KV_KVQUANT)
        calibrate(&h);
    const double ppl = measure(&h, NULL).ppl;
    const pare_eval_result r = measure(&h, f);
    (void)printf("%-8s window %3zu: perplexity %.4f -> %.4f (%+.3f%%), KL %.6f, %g bytes a token\n",
                 pare_kv_method_name(f->method), f->window, ppl, r.ppl, (r.ppl / ppl - 1) * 100,
                 r.kl_mean, pare_kv_token_bytes(&h.model.config, f));
    ck_assert_double_le(fabs(r.ppl / ppl - 1), rows[_i].ppl);
    ck_assert_double_gt(r.kl_mean, 0);
    ck_assert_double_le(r.kl_mean, rows[_i].kl);
    end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("kv_hedge");
    TCase *const t = tcase_create("kv_hedge");
    tcase_set_timeout(t, 900);
    tcase_add_loop_test(t, a_coded_cache_costs_no_more_than_its_method_may, 0,
                        sizeof rows / sizeof *rows);
    suite_add_tcase(s, t);
    return unit_main(s);
}
