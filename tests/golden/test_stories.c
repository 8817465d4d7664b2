/* stories260K on the shared token files: perplexity as independent programs computed it, in float32
 * and in double (4.678012 both; the double one gave the figure of the first 20 windows too). Under
 * a sanitizer, which makes the forward slow, only those 20 run. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "compress/evaluate/evaluate.h"
#include "formats/checkpoint.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

#ifdef UNIT_SANITIZED
enum { WINDOWS = 20 };
static const double expected_ppl = 4.326420080;
#else
enum { WINDOWS = 200 };
static const double expected_ppl = 4.678012167;
#endif

typedef struct home {
    pare_ctx cx;
    pare_arena arena;
    pare_checkpoint ck;
    pare_model model;
    pare_forward f;
    int32_t *tokens;
    size_t count;
} home;

static void ok(home *h, pare_status s)
{
    ck_assert_msg(s == PARE_OK, "%s: %s", pare_strstatus(s), h->cx.what);
}

static void read_tokens(home *h, const char *path)
{
    char *bytes;
    size_t len;
    ok(h, pare_file_read(&h->cx, &h->arena, path, 1 << 20, &bytes, &len));
    h->count = len / 4;
    h->tokens = PARE_NEW(&h->arena, int32_t, h->count);
    ck_assert_ptr_nonnull(h->tokens);
    for (size_t i = 0; i < h->count; i++) {
        const unsigned char *const b = (unsigned char *)bytes + 4 * i;
        h->tokens[i] =
            (int32_t)(b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
    }
}

static void begin(home *h, size_t threads)
{
    memset(h, 0, sizeof *h);
    pare_ctx_init(&h->cx);
    h->arena.cx = &h->cx;
    ok(h, pare_pool_new(&h->cx, threads, &h->cx.pool));
    ok(h, pare_checkpoint_open(&h->cx, &h->arena, unit_shared("models/stories260k"), &h->ck));
    ok(h, pare_model_load(&h->cx, &h->arena, &h->ck, &h->model));
    ok(h, pare_forward_init(&h->cx, &h->arena, &h->model, 512, false, &h->f));
    read_tokens(h, unit_shared("reference/eval_tokens.i32"));
}

static void end(home *h)
{
    pare_checkpoint_close(&h->ck);
    pare_arena_release(&h->arena);
    pare_pool_free(&h->cx, h->cx.pool);
    ck_assert_uint_eq(h->cx.live_bytes, 0);
}

START_TEST(perplexity_equals_the_reference)
{
    home h;
    pare_eval_result r;
    begin(&h, 2);
    ck_assert_uint_eq(h.count, 200 * 256);
    const pare_eval_opts opts = {.window = 256};
    ok(&h, pare_evaluate(&h.cx, &h.f, NULL, &opts, h.tokens, WINDOWS * 256, &r));
    ck_assert_uint_eq(r.scored, WINDOWS * 255);
    ck_assert_double_eq_tol(r.ppl, expected_ppl, 1e-4 * expected_ppl);
    ck_assert_double_eq_tol(r.ppl, exp(r.nll), 1e-12);
    ck_assert(!r.has_kl);
    end(&h);
}
END_TEST

START_TEST(a_model_diverges_from_itself_by_nothing_for_any_thread_count)
{
    double nll = 0;
    for (size_t threads = 1; threads <= 3; threads++) {
        home h;
        pare_eval_result r;
        begin(&h, threads);
        const pare_eval_opts opts = {.window = 128, .stride = 32};
        ok(&h, pare_evaluate(&h.cx, &h.f, &h.f, &opts, h.tokens, 1024, &r));
        ck_assert_uint_eq(r.scored, 127 + 28 * 32);
        ck_assert(r.has_kl && r.kl_mean == 0 && r.kl_p99 == 0 && r.top1 == 1);
        ck_assert(threads == 1 || r.nll == nll);
        nll = r.nll;
        end(&h);
    }
}
END_TEST

int main(void)
{
    if (!unit_shared("models/stories260k") || !unit_shared("reference/eval_tokens.i32"))
        return 77;
    Suite *const s = suite_create("stories");
    TCase *const c = tcase_create("stories");
    tcase_set_timeout(c, 900);
    tcase_add_test(c, perplexity_equals_the_reference);
    tcase_add_test(c, a_model_diverges_from_itself_by_nothing_for_any_thread_count);
    suite_add_tcase(s, c);
    return unit_main(s);
}
