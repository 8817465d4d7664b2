/* A backend that has memory of its own: the same bytes as on the CPU, and no access behind its
 * back. golden.families runs every family on it. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "compress/evaluate/evaluate.h"
#include "runtime/sample.h"
#include "tests/unit/far.h"
#include "tests/unit/mixture.h"

enum { ROWS = 12, SEEN = 1 << 16 };

static pare_forward forward_of(tiny_home *h, const pare_model *m, const far_place *far)
{
    pare_forward f;
    ck_assert_int_eq(pare_forward_init(&h->cx, &h->arena, m, TINY_CONTEXT, false, &f), PARE_OK);
    f.backend = far ? &far->backend : NULL;
    return f;
}

static pare_model model_of(pare_arena *a, int which)
{
    return which ? mixture_model(a, "qwen2_moe", tiny_kinds[3]) : tiny_model(a, tiny_kinds[0]);
}

/* All that a tap was shown, one after the other. */
typedef struct seen {
    float value[SEEN];
    size_t count;
} seen;

static void keep(seen *s, const float *x, size_t count)
{
    ck_assert_uint_le(s->count + count, SEEN);
    memcpy(s->value + s->count, x, count * sizeof *x);
    s->count += count;
}

static pare_status see(void *self, size_t part, pare_site site, const float *x, size_t rows,
                       size_t k)
{
    (void)part, (void)site;
    keep(self, x, rows * k);
    return PARE_OK;
}

static pare_status see_qkv(void *self, const float *q, const float *k, const float *v, size_t rows)
{
    (void)q;
    keep(self, k, rows * 20);
    keep(self, v, rows * 20);
    return PARE_OK;
}

static void change(void *self, pare_site site, float *x, size_t rows, size_t k)
{
    (void)self, (void)site;
    for (size_t i = 0; i < rows * k; i += 3)
        x[i] *= 1.5F;
}

/* A block of a model with a tap; x [ROWS, hidden] in and out. */
static void run_block(int which, far_place *far, pare_site last, bool changes, seen *s, float *x)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_model m = model_of(&h.arena, which);
    const pare_forward f = forward_of(&h, &m, far);
    const pare_tap tap = {
        .see = see, .self = s, .last = last, .see_qkv = see_qkv, .change = changes ? change : NULL};
    const pare_batch batch = {1, ROWS, 0};
    pare_kv kv;
    s->count = 0;
    for (size_t i = 0; i < ROWS * m.config.hidden; i++)
        x[i] = (float)pare_random_normal(3, 1, i);
    ck_assert_int_eq(pare_kv_take(&h.arena, &m.config, 1, ROWS, &kv), PARE_OK);
    ck_assert_int_eq(pare_block_forward(&h.cx, &h.arena, &f, &m.block[0], batch, x, &kv, &tap),
                     PARE_OK);
    tiny_end(&h);
}

START_TEST(a_tap_sees_and_changes_what_it_does_on_the_cpu)
{
    static seen near, there;
    float x[ROWS * 44], y[ROWS * 44], plain[ROWS * 44];
    const int which = _i % 2;
    const bool whole = _i < 4, changes = _i / 2 % 2;
    const pare_site last = whole ? PARE_SITES : PARE_SITE_MLP;
    far_place far;
    far_begin(&far);
    run_block(which, NULL, last, changes, &near, x);
    run_block(which, &far, last, changes, &there, y);
    far_end(&far);
    ck_assert_uint_gt(near.count, 0);
    ck_assert_uint_eq(near.count, there.count);
    ck_assert_mem_eq(near.value, there.value, near.count * sizeof *near.value);
    ck_assert_mem_eq(x, y, sizeof x);
    ck_assert_uint_eq(far.puts > 1, changes);
    run_block(which, NULL, last, false, &near, plain);
    ck_assert_int_eq(memcmp(plain, x, sizeof x) != 0, whole && changes);
}
END_TEST

static pare_eval_result evaluation(far_place *far, far_place *baseline)
{
    enum { TOKENS = 200 };
    tiny_home h;
    tiny_begin(&h, 2);
    pare_eval_result r = {0};
    const pare_model m = model_of(&h.arena, 1), other = tiny_model(&h.arena, tiny_kinds[0]);
    const pare_forward f = forward_of(&h, &m, far), f0 = forward_of(&h, &other, baseline);
    const pare_eval_opts opts = {.window = 40, .stride = 11};
    ck_assert_int_eq(
        pare_evaluate(&h.cx, &f, &f0, &opts, tiny_tokens(&h.arena, 99, TOKENS), TOKENS, &r),
        PARE_OK);
    tiny_end(&h);
    return r;
}

START_TEST(an_evaluation_gives_the_figures_of_the_cpu)
{
    far_place far, baseline;
    far_begin(&far);
    far_begin(&baseline);
    const pare_eval_result want = evaluation(NULL, NULL), r = evaluation(&far, &baseline);
    far_end(&far);
    far_end(&baseline);
    ck_assert_uint_eq(r.scored, want.scored);
    ck_assert(r.nll == want.nll && r.ppl_stderr == want.ppl_stderr && r.kl_mean == want.kl_mean);
    ck_assert(r.kl_p99 == want.kl_p99 && r.top1 == want.top1);
    ck_assert(r.baseline_nll == want.baseline_nll);
    ck_assert_mem_eq(r.kl_histogram, want.kl_histogram, sizeof r.kl_histogram);
}
END_TEST

START_TEST(a_generation_draws_the_tokens_of_the_cpu)
{
    enum { N = 70, LENGTH = 24, PROMPT = 4 };
    static int32_t tokens[2][N * LENGTH];
    const pare_generate_opts opts = {
        .temperature = 1.0, .seed = 3, .first = 10, .sequences = N, .length = LENGTH};
    far_place far;
    far_begin(&far);
    for (int i = 0; i < 2; i++) {
        tiny_home h;
        tiny_begin(&h, 2);
        pare_model m = model_of(&h.arena, _i % 2);
        m.kv = pare_kv_default(_i < 2 ? PARE_KV_FLOAT : PARE_KV_INT8);
        const pare_forward f = forward_of(&h, &m, i ? &far : NULL);
        for (size_t s = 0; s < N; s++)
            memcpy(tokens[i] + s * LENGTH, tiny_tokens(&h.arena, s, PROMPT),
                   PROMPT * sizeof **tokens);
        ck_assert_int_eq(pare_generate(&h.cx, &h.arena, &f, &opts, PROMPT, tokens[i], NULL, NULL),
                         PARE_OK);
        tiny_end(&h);
    }
    far_end(&far);
    ck_assert_mem_eq(tokens[0], tokens[1], sizeof tokens[0]);
}
END_TEST

START_TEST(an_embedding_comes_back)
{
    tiny_home h;
    tiny_begin(&h, 1);
    const pare_model m = model_of(&h.arena, 0);
    const size_t hidden = m.config.hidden;
    far_place far;
    far_begin(&far);
    const pare_forward f = forward_of(&h, &m, &far);
    const pare_ops o = pare_ops_of(&h.cx, &h.arena, &f);
    const int32_t *const tokens = tiny_tokens(&h.arena, 5, ROWS);
    float *const want = tiny_take(&h.arena, ROWS, hidden * sizeof *want);
    float *const x = tiny_take(&h.arena, ROWS, hidden * sizeof *x);
    pare_mark mark;
    pare_array y;
    ck_assert_int_eq(pare_embed(&h.cx, &m, tokens, ROWS, want), PARE_OK);
    ck_assert_int_eq(o.op->mark(&o, &mark), PARE_OK);
    ck_assert_int_eq(o.op->take(&o, ROWS, hidden, &y), PARE_OK);
    ck_assert_int_eq(o.op->embed(&o, &m, tokens, (pare_batch){1, ROWS, 0}, y), PARE_OK);
    ck_assert_int_eq(o.op->get(&o, y, x), PARE_OK);
    ck_assert_int_eq(o.op->rewind(&o, mark), PARE_OK);
    ck_assert_mem_eq(x, want, ROWS * hidden * sizeof *x);
    far_end(&far);
    tiny_end(&h);
}
END_TEST

/* What a process of its own dies of: a read, a write, a block that hands its arrays to a tap as if
 * they were the host's. */
static int end_of(int fault)
{
    int status;
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child > 0) {
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        return status;
    }
    static seen s;
    tiny_home h;
    far_place far;
    pare_array x, y;
    pare_kv kv;
    (void)signal(SIGSEGV, SIG_DFL);
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    tiny_begin(&h, 1);
    const pare_model m = model_of(&h.arena, 0);
    far_begin(&far);
    far.backend.place = fault != 2 ? &far : NULL;
    const pare_forward f = forward_of(&h, &m, &far);
    const pare_ops o = pare_ops_of(&h.cx, &h.arena, &f);
    const pare_tap tap = {.see = see, .self = &s, .last = PARE_SITES};
    pare_status done = o.op->take(&o, ROWS, m.config.hidden, &x);
    if (done == PARE_OK)
        done = o.op->zero(&o, x);
    if (done == PARE_OK && fault == 0)
        s.value[0] = ((volatile float *)x.at)[0];
    if (done == PARE_OK && fault == 1)
        ((volatile float *)x.at)[0] = 1;
    if (done == PARE_OK)
        done = pare_kv_take(&h.arena, &m.config, 1, ROWS, &kv);
    if (done == PARE_OK)
        done = pare_block_run(&o, &f, &m.block[0], (pare_batch){1, ROWS, 0}, x, &kv, &tap, &y);
    _exit(done == PARE_OK ? 0 : 1);
}

START_TEST(an_access_behind_its_back_is_fatal)
{
    const int status = end_of(_i);
    if (_i == 3) { /* no fault */
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return;
    }
    ck_assert_msg(WIFSIGNALED(status), "fault %d: status %d", _i, status);
    ck_assert_int_eq(WTERMSIG(status), SIGSEGV);
}
END_TEST

START_TEST(memory_of_the_host_is_no_array_of_it)
{
    tiny_home h;
    tiny_begin(&h, 1);
    far_place far;
    float x[4] = {0};
    far_begin(&far);
    const pare_ops o = {far.backend.op, far.backend, &h.cx, &h.arena};
    ck_assert_int_eq(o.op->zero(&o, (pare_array){.at = x, .rows = 1, .width = 4}), PARE_EINVAL);
    tiny_end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("far");
    TCase *const t = tcase_create("far");
    tcase_add_loop_test(t, a_tap_sees_and_changes_what_it_does_on_the_cpu, 0, 8);
    tcase_add_test(t, an_evaluation_gives_the_figures_of_the_cpu);
    tcase_add_loop_test(t, a_generation_draws_the_tokens_of_the_cpu, 0, 4);
    tcase_add_test(t, an_embedding_comes_back);
    tcase_add_loop_test(t, an_access_behind_its_back_is_fatal, 0, 4);
    tcase_add_test(t, memory_of_the_host_is_no_array_of_it);
    suite_add_tcase(s, t);
    return unit_main(s);
}
