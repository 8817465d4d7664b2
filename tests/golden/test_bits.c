/* Logits are the same bytes for any number of threads and on every level of kernels, on matrices
 * as wide as those of a model with a billion weights, so that all that is ever cut is cut. */
#include <math.h>
#include <string.h>

#include "compress/bench/bench_model.h"
#include "runtime/block_ops.h"
#include "runtime/linalg.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

enum {
    BLOCKS = 2,
    VOCAB = 1024,
    PROMPT = 66, /* two tiles of tokens, two blocks of keys */
    STEPS = 3,
    BRIEF = 2, /* prompt and, behind it, one step of the references, which are slow */
    LENGTH = PROMPT + STEPS,
    REPEATS = 4,
    EXPERTS = 12, /* some get few rows, some many */
    EXPERTS_USED = 3,
};

static const size_t threads[REPEATS] = {1, 2, 3, 5};

static const struct {
    const char *shape, *weights;
    pare_kv_format kv;
    const pare_backend *backend;
} cases[] = {
    {"1b", "int4", {.method = PARE_KV_FLOAT}, NULL},
    {"1b", "ternary", {.method = PARE_KV_FLOAT}, NULL},
    {"1b", "2:4-int4", {.method = PARE_KV_FLOAT}, NULL},
    {"1b", "f16", {.method = PARE_KV_FLOAT}, NULL},
    {"1b", "nf4", {.method = PARE_KV_FLOAT}, NULL},
    {"1b", "int4", {.method = PARE_KV_INT8}, NULL},
    {"1b", "int4", {.method = PARE_KV_INT4, .group = 32}, NULL},
    {"1b", "int4", {.method = PARE_KV_KIVI, .group = 32, .window = 8}, NULL},
    {"1b", "int4", {.method = PARE_KV_KVQUANT, .sink = 1}, NULL},
    {"30b-a3b", "int4", {.method = PARE_KV_FLOAT}, NULL},
    {"1b", "f16", {.method = PARE_KV_FLOAT}, &pare_cpu_bf16},
    {"30b-a3b", "int4", {.method = PARE_KV_FLOAT}, &pare_cpu_bf16},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct subject {
    pare_ctx cx;
    pare_arena arena; /* the model */
    pare_model model;
    int32_t token[LENGTH];
    float *logits; /* [LENGTH, VOCAB] of the first run */
    bool ran;
    const char *level;
    size_t threads;
    const pare_backend *backend;
} subject;

static void must(subject *s, pare_status status)
{
    ck_assert_msg(status == PARE_OK, "%s", s->cx.what);
}

/* Levels of about the size of keys and values of rows of length 1. */
static void take_levels(subject *s)
{
    static const float levels[PARE_KV_LEVELS] = {-1, -0.6F, -0.3F, -0.1F, 0.05F, 0.3F, 0.55F, 1};
    const size_t width = s->model.config.kv_heads * s->model.config.head_dim;
    uint16_t *const scale = PARE_NEW(&s->arena, uint16_t, width);
    uint16_t *const low = PARE_NEW(&s->arena, uint16_t, width);
    ck_assert(scale && low);
    for (size_t c = 0; c < width; c++) {
        scale[c] = (uint16_t)(0x4000 + c % 512); /* F16 from 2 to 3 */
        low[c] = (uint16_t)(0x2c00 + c % 256);   /* about 1/16 */
    }
    for (size_t b = 0; b < BLOCKS; b++)
        s->model.block[b].kv = (pare_kv_levels){levels, levels, scale, low};
}

static void make(subject *s, size_t number)
{
    memset(s, 0, sizeof *s);
    s->backend = cases[number].backend;
    pare_ctx_init(&s->cx);
    must(s, pare_arena_init(&s->cx, &s->arena, 0));
    pare_bench_spec spec = {cases[number].shape, cases[number].weights, 0};
    must(s, pare_bench_synthetic_plan(&s->cx, &s->arena, &spec, &s->model));
    pare_config *const c = &s->model.config;
    c->blocks = BLOCKS;
    if (c->experts)
        c->experts = EXPERTS, c->experts_used = EXPERTS_USED;
    c->vocab = VOCAB;
#ifdef UNIT_SANITIZED
    c->hidden = 512, c->heads = 8, c->kv_heads = 2;
    *(c->experts ? &c->expert_width : &c->intermediate) = 768;
#endif
    must(s, pare_bench_synthetic_fill(&s->cx, &s->arena, &spec, &s->model));
    s->model.kv = cases[number].kv;
    if (s->model.kv.method == PARE_KV_KVQUANT)
        take_levels(s);
    s->logits = PARE_NEW(&s->arena, float, (size_t)LENGTH *VOCAB);
    ck_assert_ptr_nonnull(s->logits);
    for (size_t i = 0; i < LENGTH; i++)
        s->token[i] = (int32_t)(pare_random_u64(3, 0, i) % VOCAB);
}

/* All that one run needs beside the model. */
typedef struct pass {
    pare_arena arena, work;
    pare_forward f;
    pare_kv kv[BLOCKS];
    float *x, *logits;
} pass;

/* Tokens at positions start to start + length - 1; their logits go to their places. */
static void forward(subject *s, pass *p, size_t start, size_t length)
{
    must(s, pare_embed(&s->cx, &s->model, s->token + start, length, p->x));
    must(s, pare_model_forward(&s->cx, &p->work, &p->f, (pare_batch){1, length, start}, p->x, p->kv,
                               BLOCKS));
    must(s, pare_logits(&s->cx, &p->work, &p->f, p->x, NULL, length, p->logits + start * VOCAB));
}

static void compare(const subject *s, const float *logits, size_t length)
{
    for (size_t i = 0; i < length; i++)
        ck_assert_msg(memcmp(logits + i * VOCAB, s->logits + i * VOCAB, VOCAB * sizeof(float)) == 0,
                      "level %s, threads %zu: logits of position %zu differ", s->level, s->threads,
                      i);
}

/* A prompt and steps behind it, compared with the run before all others. */
static void run(subject *s, size_t prompt, size_t steps)
{
    pass p = {.arena = {.cx = &s->cx}, .work = {.cx = &s->cx}};
    const pare_config *const c = &s->model.config;
    const size_t length = prompt + steps;
    must(s, pare_pool_new(&s->cx, s->threads, &s->cx.pool));
    must(s, pare_forward_init(&s->cx, &p.arena, &s->model, length, false, &p.f));
    p.f.backend = s->backend;
    for (size_t b = 0; b < BLOCKS; b++)
        must(s, pare_kv_take_format(&p.arena, c, &s->model.kv, 1, length, &p.kv[b]));
    p.x = PARE_NEW(&p.arena, float, length * c->hidden);
    p.logits = PARE_NEW(&p.arena, float, length *VOCAB);
    ck_assert(p.x && p.logits);
    const pare_batch widest = {1, prompt, steps};
    const pare_inputs inputs = s->backend ? PARE_INPUTS_BF16 : PARE_INPUTS_ANY;
    must(s, pare_arena_init(&s->cx, &p.work, pare_block_forward_bytes(&s->cx, c, widest, inputs)));
    forward(s, &p, 0, prompt);
    for (size_t i = 0; i < steps; i++)
        forward(s, &p, prompt + i, 1);
    if (s->ran)
        compare(s, p.logits, length);
    else
        memcpy(s->logits, p.logits, length * VOCAB * sizeof(float));
    for (size_t i = 0; i < length * VOCAB; i++)
        ck_assert_msg(isfinite(p.logits[i]), "logit %zu is not finite", i);
    s->ran = true;
    pare_arena_release(&p.work);
    pare_arena_release(&p.arena);
    pare_pool_free(&s->cx, s->cx.pool);
    s->cx.pool = NULL;
}

/* The best level comes first: what the others are held against has all positions. */
START_TEST(logits_are_the_same_bytes_for_any_threads_and_on_every_level)
{
    static subject s;
    make(&s, (size_t)_i);
    const unsigned best = s.cx.cpu;
    for (size_t i = PARE_CPU_LEVELS; i-- > 0;) {
        s.level = pare_cpu_levels[i].name;
        if (pare_cpu_levels[i].cpu & ~best)
            continue;
        must(&s, pare_ctx_cpu(&s.cx, s.level));
        const bool slow = pare_cpu_levels[i].cpu == 0;
        for (size_t t = 0; t < REPEATS; t += slow ? REPEATS - 1 : 1) {
            s.threads = threads[t];
            run(&s, slow ? BRIEF : PROMPT, slow ? 1 : STEPS);
        }
    }
    pare_arena_release(&s.arena);
    ck_assert_uint_eq(s.cx.live_bytes, 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("bits");
    TCase *const c = tcase_create("bits");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, logits_are_the_same_bytes_for_any_threads_and_on_every_level, 0, CASES);
    suite_add_tcase(s, c);
    return unit_main(s);
}
