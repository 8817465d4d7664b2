/* The backend of devices over the interpreter: models of every kind of weights give the bytes of
 * the CPU, and whatever fails is told and leaves nothing behind. */
#include "compress/evaluate/evaluate.h"
#include "runtime/cuda_internal.h"
#include "runtime/sample.h"
#include "tests/unit/mixture.h"

enum { SEQUENCES = 2, PREFILL = 7, LENGTH = 9, ROWS = SEQUENCES * (LENGTH - PREFILL + 1) };

static tiny_home h;
static pare_ctx own;         /* of the device: that of a test may fail */
static pare_device *d, *raw; /* with a queue in front, and without */

static void begin(void)
{
    tiny_begin(&h, 2);
    pare_ctx_init(&own);
    ck_assert_msg(pare_device_open(&own, &raw) == PARE_OK, "%s", own.what);
    ck_assert_int_eq(pare_device_queue(&own, raw, &d), PARE_OK);
}

/* The interpreter ends the program unless everything was given back. */
static void end(void)
{
    d->op->close(&own, d);
    tiny_end(&h);
}

static size_t prefill = PREFILL;

/* A prefill and tokens behind it: the logits of the last position of each, in order. */
static pare_status steps(const pare_ops *o, const pare_forward *f, const int32_t *tokens,
                         float *logits)
{
    const pare_model *const m = f->model;
    pare_kv kv[2];
    pare_array all;
    ck_assert_uint_eq(m->config.blocks, 2);
    PARE_TRY(o->op->take(o, SEQUENCES * PREFILL, m->config.hidden, &all));
    for (size_t b = 0; b < 2; b++)
        PARE_TRY(o->op->kv_take(o, &m->config, &m->kv, SEQUENCES, LENGTH, &kv[b]));
    for (size_t at = 0, n; at < LENGTH; at += n) {
        n = at ? 1 : prefill;
        const pare_batch batch = {SEQUENCES, n, at};
        const size_t last[SEQUENCES] = {n - 1, 2 * n - 1};
        const pare_array x = pare_array_rows(all, 0, SEQUENCES * n);
        PARE_TRY(pare_embed_run(o, m, tokens, batch, x));
        PARE_TRY(pare_model_run(o, f, batch, x, kv, 2));
        PARE_TRY(pare_logits_get(o, f, x, last, SEQUENCES, logits));
        logits += SEQUENCES * m->head.n;
    }
    return PARE_OK;
}

static size_t panel_bytes; /* 0: as usual */
static bool f16;
static size_t positions = LENGTH; /* of the tables of angles */

/* The same on a device, or (NULL) on the CPU. */
static pare_status run(pare_device *device, const pare_model *m, bool exact, size_t limit,
                       float *logits)
{
    pare_forward f;
    pare_cuda *c = NULL;
    const pare_mark mark = pare_arena_mark(&h.arena);
    const int32_t *const tokens = tiny_tokens(&h.arena, 99, SEQUENCES * PREFILL);
    pare_status s = pare_forward_init(&h.cx, &h.arena, m, positions, exact, &f);
    if (s == PARE_OK && device)
        s = pare_cuda_open(&h.cx, device, limit, &f, &c);
    if (c && f16)
        pare_cuda_use_f16(c);
    if (c && panel_bytes)
        c->panel_bytes = c->rounded_bytes = panel_bytes;
    if (s == PARE_OK) {
        const pare_ops o = pare_ops_of(&h.cx, &h.arena, &f);
        pare_mark start;
        ck_assert_int_eq(o.op->mark(&o, &start), PARE_OK);
        s = steps(&o, &f, tokens, logits);
        ck_assert_int_eq(o.op->rewind(&o, start), PARE_OK);
    }
    pare_cuda_close(c);
    ck_assert_ptr_null(f.backend);
    pare_arena_rewind(&h.arena, mark);
    return s;
}

static void same(const pare_model *m, bool exact)
{
    float near[ROWS * TINY_VOCAB], there[ROWS * TINY_VOCAB];
    ck_assert_msg(run(NULL, m, exact, 0, near) == PARE_OK, "%s", h.cx.what);
    ck_assert_msg(run(d, m, exact, 0, there) == PARE_OK, "%s", h.cx.what);
    ck_assert_mem_eq(near, there, sizeof near);
    ck_assert(isfinite(near[0]) && near[0] != near[1]);
}

START_TEST(every_kind_of_weights_gives_the_bytes_of_the_cpu)
{
    const pare_model m = tiny_model(&h.arena, tiny_kinds[_i % TINY_KINDS]);
    same(&m, _i >= TINY_KINDS);
}
END_TEST

static void make_long(pare_config *c, size_t original)
{
    c->rope.kind = PARE_ROPE_LONGROPE;
    c->rope.original_context = original;
    c->rope.attention = 1.25;
    for (size_t i = 0; i < pare_rope_pairs(c); i++)
        for (size_t j = 0; j < 2; j++)
            c->rope.divisor[j][i] = 1 + 0.5F * (float)(i + j);
}

/* One table of angles, and of two the one for long sequences or for short ones. */
START_TEST(positions_of_long_contexts_give_the_bytes_of_the_cpu)
{
    float near[ROWS * TINY_VOCAB], plain[ROWS * TINY_VOCAB];
    pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    ck_assert_int_eq(run(d, &m, true, 0, plain), PARE_OK);
    make_long(&m.config, _i == 1 ? LENGTH - 1 : LENGTH);
    positions = _i == 2 ? LENGTH + 3 : LENGTH;
    same(&m, true);
    ck_assert_int_eq(run(NULL, &m, true, 0, near), PARE_OK);
    ck_assert(near[0] != plain[0]);
    positions = LENGTH;
}
END_TEST

/* Behind two tables the one of blocks with a window: none has one, both, or the other is wide. */
START_TEST(blocks_with_a_window_turn_by_a_table_of_their_own)
{
    float some[ROWS * TINY_VOCAB], plain[ROWS * TINY_VOCAB];
    pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    make_long(&m.config, _i / 4 ? LENGTH : LENGTH - 1);
    m.config.rope_local = (pare_rope){.theta = 100, .stretch = 2};
    m.config.window = 4;
    m.config.wide[0] = (uint64_t)_i % 4;
    for (size_t b = 0; b < 2; b++)
        m.block[b].apart = (m.block[b].window = pare_config_window(&m.config, b)) > 0;
    positions = LENGTH + 3;
    same(&m, true);
    ck_assert_int_eq(run(NULL, &m, true, 0, some), PARE_OK);
    m.config.rope = _i % 4 ? m.config.rope : m.config.rope_local;
    m.config.rope_local.theta = m.block[0].apart = m.block[1].apart = 0;
    ck_assert_int_eq(run(NULL, &m, true, 0, plain), PARE_OK);
    ck_assert((_i % 4 == 0 || _i % 4 == 3) == !memcmp(some, plain, sizeof some));
    positions = LENGTH;
}
END_TEST

/* Decoded 8 rows at a time, and so many that the last panel has fewer. */
START_TEST(weights_that_are_decoded_in_panels_give_the_bytes_of_the_cpu)
{
    const pare_model m = tiny_model(&h.arena, tiny_kinds[_i % TINY_KINDS]);
    panel_bytes = _i < TINY_KINDS ? 1 : (size_t)24 * 64 * sizeof(float);
    same(&m, true);
    panel_bytes = 0;
}
END_TEST

/* Rows of weights are rounded by themselves, so how many together makes no difference. */
START_TEST(weights_that_are_rounded_in_panels_give_the_same_bytes)
{
    const pare_model m = tiny_model(&h.arena, tiny_kinds[_i]);
    float whole[ROWS * TINY_VOCAB], pieces[ROWS * TINY_VOCAB];
    f16 = true;
    ck_assert_msg(run(d, &m, true, 0, whole) == PARE_OK, "%s", h.cx.what);
    panel_bytes = (size_t)24 * 64 * sizeof(float);
    ck_assert_msg(run(d, &m, true, 0, pieces) == PARE_OK, "%s", h.cx.what);
    panel_bytes = 0;
    f16 = false;
    ck_assert_mem_eq(whole, pieces, sizeof whole);
}
END_TEST

START_TEST(experts_give_the_bytes_of_the_cpu)
{
    static const char *const family[] = {"mixtral", "qwen2_moe", "qwen3_moe"};
    const pare_model m = mixture_model(&h.arena, family[_i % 3], tiny_kinds[_i < 3 ? 0 : 3]);
    same(&m, false);
}
END_TEST

START_TEST(a_cache_in_codes_gives_the_bytes_of_the_cpu)
{
    static const pare_kv_format format[] = {{.method = PARE_KV_INT8},
                                            {.method = PARE_KV_INT4, .group = 8},
                                            {.method = PARE_KV_KIVI, .group = 8, .window = 1}};
    pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    m.kv = format[_i];
    same(&m, false);
}
END_TEST

/* Of a model beside another one, each on the device or not. */
static pare_eval_result evaluation(bool model, bool baseline)
{
    enum { TOKENS = 60 };
    const pare_model m = tiny_model(&h.arena, tiny_kinds[4]),
                     other = tiny_model(&h.arena, tiny_kinds[0]);
    const pare_eval_opts opts = {.window = 20, .stride = 11};
    const int32_t *const tokens = tiny_tokens(&h.arena, 99, TOKENS);
    pare_forward f, f0;
    pare_cuda *c = NULL, *c0 = NULL;
    pare_eval_result r;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 20, false, &f), PARE_OK);
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &other, 20, false, &f0), PARE_OK);
    ck_assert(!model || pare_cuda_open(&h.cx, d, 0, &f, &c) == PARE_OK);
    ck_assert(!baseline || pare_cuda_open(&h.cx, d, 0, &f0, &c0) == PARE_OK);
    ck_assert_msg(pare_evaluate(&h.cx, &f, &f0, &opts, tokens, TOKENS, &r) == PARE_OK, "%s",
                  h.cx.what);
    ck_assert(!c || c->scratch.used == 0);
    ck_assert(!c0 || c0->scratch.used == 0);
    pare_cuda_close(c);
    pare_cuda_close(c0);
    return r;
}

START_TEST(an_evaluation_gives_the_figures_of_the_cpu)
{
    const pare_eval_result want = evaluation(false, false), r = evaluation(_i & 1, _i & 2);
    ck_assert_uint_eq(r.scored, want.scored);
    ck_assert(r.nll == want.nll && r.ppl_stderr == want.ppl_stderr && r.kl_mean == want.kl_mean);
    ck_assert(r.kl_p99 == want.kl_p99 && r.top1 == want.top1 && r.kl_mean > 0 && r.top1 < 1);
    ck_assert(r.baseline_nll == want.baseline_nll);
}
END_TEST

/* Two choices begin with the same token. */
static pare_status ask(pare_device *device, const pare_model *m, double *score)
{
    static const int32_t context[] = {3, 4, 5}, one[] = {7, 8}, two[] = {7, 9, 1}, three[] = {2};
    static const int32_t *const choice[] = {one, two, three};
    static const size_t count[] = {2, 3, 1};
    const pare_choice_item item = {.context = context,
                                   .context_count = 3,
                                   .choice = choice,
                                   .choice_count = count,
                                   .choice_bytes = count,
                                   .choices = 3,
                                   .score = score};
    pare_choice_result r;
    pare_forward f;
    pare_cuda *c = NULL;
    pare_status s = pare_forward_init(&h.cx, &h.arena, m, LENGTH, false, &f);
    if (s == PARE_OK && device)
        s = pare_cuda_open(&h.cx, device, 0, &f, &c);
    if (s == PARE_OK)
        s = pare_evaluate_choice(&h.cx, &f, &item, 1, &r);
    pare_cuda_close(c);
    return s;
}

START_TEST(choices_have_the_scores_of_the_cpu)
{
    const pare_model m = tiny_model(&h.arena, tiny_kinds[3]);
    double near[3] = {0}, there[3] = {0};
    ck_assert_msg(ask(NULL, &m, near) == PARE_OK, "%s", h.cx.what);
    ck_assert_msg(ask(d, &m, there) == PARE_OK, "%s", h.cx.what);
    ck_assert_mem_eq(near, there, sizeof near);
    ck_assert(near[0] < 0 && near[0] != near[1]);
}
END_TEST

/* A device whose calls fail from one on. */
typedef struct flaky {
    pare_device base;
    pare_device_table op;
    pare_device *inner;
    size_t calls, good, longest; /* bytes that came back at once */
    size_t graphs, sets;         /* graphs that ran, calls of them that changed */
    char kind[1 << 14];          /* of each call, the first letter */
} flaky;

static pare_status fails(pare_ctx *cx, pare_device *device, const char *kind)
{
    flaky *const f = (flaky *)(void *)device;
    ck_assert_uint_lt(f->calls, sizeof f->kind);
    f->kind[f->calls] = *kind;
    return f->calls++ < f->good ? PARE_OK : pare_fail(cx, PARE_EDEVICE, "it fails here");
}

#define INNER(device) (((flaky *)(void *)(device))->inner)
#define FLAKY(name, parameters, ...)                                                               \
    static pare_status flaky_##name parameters                                                     \
    {                                                                                              \
        PARE_TRY(fails(cx, device, #name));                                                        \
        return INNER(device)->op->name(cx, INNER(device), __VA_ARGS__);                            \
    }
FLAKY(memory, (pare_ctx * cx, pare_device *device, size_t *free, size_t *total), free, total)
FLAKY(take, (pare_ctx * cx, pare_device *device, size_t bytes, pare_address *at), bytes, at)
FLAKY(put, (pare_ctx * cx, pare_device *device, pare_address to, const void *from, size_t bytes),
      to, from, bytes)

static pare_status flaky_get(pare_ctx *cx, pare_device *device, void *to, pare_address from,
                             size_t bytes)
{
    flaky *const f = (flaky *)(void *)device;
    f->longest = bytes > f->longest ? bytes : f->longest;
    PARE_TRY(fails(cx, device, "get"));
    return f->inner->op->get(cx, f->inner, to, from, bytes);
}

FLAKY(fill, (pare_ctx * cx, pare_device *device, pare_address to, uint8_t byte, size_t bytes), to,
      byte, bytes)
FLAKY(copy, (pare_ctx * cx, pare_device *device, pare_address to, pare_address from, size_t bytes),
      to, from, bytes)
FLAKY(kernel, (pare_ctx * cx, pare_device *device, const char *name, void **kernel), name, kernel)
FLAKY(launch,
      (pare_ctx * cx, pare_device *device, void *kernel, const pare_launch *l, const void *a,
       size_t bytes),
      kernel, l, a, bytes)

FLAKY(graph_make,
      (pare_ctx * cx, pare_device *device, const pare_call *c, size_t count, void **graph), c,
      count, graph)

static pare_status flaky_graph_set(pare_ctx *cx, pare_device *device, void *graph, size_t i,
                                   const pare_call *c)
{
    ((flaky *)(void *)device)->sets++;
    return INNER(device)->op->graph_set(cx, INNER(device), graph, i, c);
}

static pare_status flaky_graph_run(pare_ctx *cx, pare_device *device, void *graph)
{
    ((flaky *)(void *)device)->graphs++;
    return INNER(device)->op->graph_run(cx, INNER(device), graph);
}

static void flaky_graph_drop(pare_ctx *cx, pare_device *device, void *graph)
{
    INNER(device)->op->graph_drop(cx, INNER(device), graph);
}

static void flaky_close(pare_ctx *cx, pare_device *device)
{
    (void)cx;
    (void)device;
}

static void flaky_give(pare_ctx *cx, pare_device *device, pare_address at)
{
    INNER(device)->op->give(cx, INNER(device), at);
}

static void make_flaky(flaky *f)
{
    *f = (flaky){.base = *d, .inner = d, .good = sizeof f->kind};
    f->op = (pare_device_table){.memory = flaky_memory,
                                .take = flaky_take,
                                .give = flaky_give,
                                .put = flaky_put,
                                .get = flaky_get,
                                .fill = flaky_fill,
                                .copy = flaky_copy,
                                .kernel = flaky_kernel,
                                .launch = flaky_launch,
                                .graph_make = flaky_graph_make,
                                .graph_set = flaky_graph_set,
                                .graph_run = flaky_graph_run,
                                .graph_drop = flaky_graph_drop,
                                .close = flaky_close};
    f->base.op = &f->op;
}

START_TEST(a_call_that_fails_is_told_and_leaves_nothing)
{
    float logits[ROWS * TINY_VOCAB];
    const pare_model m = mixture_model(&h.arena, "qwen2_moe", tiny_kinds[TINY_KINDS - 1]);
    flaky f;
    make_flaky(&f);
    ck_assert_int_eq(run(&f.base, &m, false, 0, logits), PARE_OK);
    const size_t all = f.calls;
    ck_assert_uint_gt(all, 200);
    for (size_t i = 0; i < all; i++) {
        const size_t live = h.cx.live_bytes;
        if (i % 64 && f.kind[i] == f.kind[i - 1])
            continue; /* not the first one of its kind in a row */
        f.calls = 0;
        f.good = i;
        ck_assert_int_eq(run(&f.base, &m, false, 0, logits), PARE_EDEVICE);
        ck_assert_str_eq(h.cx.what, "it fails here");
        ck_assert_uint_eq(h.cx.live_bytes, live);
        ck_assert_uint_eq(f.base.live, 0);
        pare_ctx_clear(&h.cx);
    }
}
END_TEST

/* A token at a time: the first steps go launch by launch, later ones by a graph in which no more
 * changes than the token's position does. */
START_TEST(decoding_by_graphs_gives_the_bytes_of_the_cpu)
{
    float near[SEQUENCES * LENGTH * TINY_VOCAB], there[SEQUENCES * LENGTH * TINY_VOCAB];
    const pare_model m = tiny_model(&h.arena, tiny_kinds[3]);
    pare_device *queued;
    flaky f;
    make_flaky(&f);
    f.inner = raw;
    prefill = 1;
    ck_assert_int_eq(pare_device_queue(&own, &f.base, &queued), PARE_OK);
    ck_assert_msg(run(NULL, &m, false, 0, near) == PARE_OK, "%s", h.cx.what);
    ck_assert_msg(run(queued, &m, false, 0, there) == PARE_OK, "%s", h.cx.what);
    ck_assert_mem_eq(near, there, sizeof near);
    ck_assert_uint_ge(f.graphs, LENGTH - 2);
    ck_assert_uint_gt(f.sets, 0);
    ck_assert_uint_le(
        f.sets, f.graphs * (1 + 6 * m.config.blocks)); /* rope of q and k, kv_put, attend_ ... */
    queued->op->close(&own, queued);
    prefill = PREFILL;
}
END_TEST

static pare_status generate(pare_device *device, const pare_model *m, int32_t *tokens)
{
    const pare_generate_opts opts = {.sequences = SEQUENCES, .length = LENGTH};
    pare_forward f;
    pare_cuda *c = NULL;
    pare_status s = pare_forward_init(&h.cx, &h.arena, m, LENGTH, false, &f);
    if (s == PARE_OK && device)
        s = pare_cuda_open(&h.cx, device, 0, &f, &c);
    if (s == PARE_OK)
        s = pare_generate(&h.cx, &h.arena, &f, &opts, 2, tokens, NULL, NULL);
    pare_cuda_close(c);
    return s;
}

/* Also where a logit that is not the largest is no number, and where the largest is not finite. */
START_TEST(greedy_tokens_are_those_of_the_cpu_and_logits_stay)
{
    int32_t near[SEQUENCES * LENGTH] = {1, 2}, there[SEQUENCES * LENGTH] = {1, 2};
    const pare_model m = tiny_model(&h.arena, tiny_kinds[3]);
    flaky f;
    make_flaky(&f);
    near[LENGTH] = there[LENGTH] = 5;
    uint16_t *const head = (uint16_t *)(uintptr_t)m.head.data; /* F16 or BF16 */
    ck_assert(m.head.dtype == PARE_F16 || m.head.dtype == PARE_BF16);
    for (size_t i = 0; _i > 0 && i < 8; i++) /* of tokens 8 to 15 */
        head[(8 + i) * m.head.k + i] = _i == 1                    ? 0x7fff
                                       : m.head.dtype == PARE_F16 ? 0x7c00
                                                                  : 0x7f80;
    const pare_status s = generate(NULL, &m, near);
    ck_assert_int_eq(s, _i == 2 ? PARE_ENUMERIC : PARE_OK);
    pare_ctx_clear(&h.cx);
    ck_assert_int_eq(generate(&f.base, &m, there), s);
    ck_assert_mem_eq(near, there, sizeof near);
    if (_i == 0)
        ck_assert_uint_lt(f.longest, m.head.n * sizeof(float));
    pare_ctx_clear(&h.cx);
}
END_TEST

START_TEST(weights_that_do_not_fit_are_refused_before_any_is_copied)
{
    const pare_model m = tiny_model(&h.arena, tiny_kinds[3]);
    pare_forward f;
    pare_cuda *c;
    flaky device;
    make_flaky(&device);
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, LENGTH, false, &f), PARE_OK);
    ck_assert_int_eq(pare_cuda_open(&h.cx, &device.base, 1000, &f, &c), PARE_ENOMEM);
    ck_assert_ptr_nonnull(strstr(h.cx.what, "0 of the limit of 1000 are taken"));
    ck_assert_ptr_nonnull(strstr(h.cx.what, "(weights)"));
    ck_assert_uint_gt(device.calls, 0);
    ck_assert_ptr_null(memchr(device.kind, 't', device.calls));
    ck_assert_ptr_null(memchr(device.kind, 'p', device.calls));
    pare_ctx_clear(&h.cx);
}
END_TEST

START_TEST(memory_of_the_host_that_ends_is_told_and_leaves_nothing)
{
    const pare_model m = tiny_model(&h.arena, tiny_kinds[TINY_KINDS - 1]);
    const pare_alloc plain = h.cx.alloc;
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_forward f;
        pare_cuda *c = NULL;
        ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, LENGTH, false, &f), PARE_OK);
        h.cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        s = pare_cuda_open(&h.cx, d, 0, &f, &c);
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        pare_cuda_close(c);
        ck_assert_int_eq(failing.live, 0);
        h.cx.alloc = plain;
        pare_ctx_clear(&h.cx);
    }
    ck_assert_int_gt(n, 2);
}
END_TEST

START_TEST(a_limit_is_kept_and_told_with_its_figures)
{
    float logits[ROWS * TINY_VOCAB];
    const pare_model m = tiny_model(&h.arena, tiny_kinds[3]);
    pare_forward f;
    pare_cuda *c;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, LENGTH, false, &f), PARE_OK);
    ck_assert_int_eq(pare_cuda_open(&h.cx, d, 0, &f, &c), PARE_OK);
    const size_t model = pare_cuda_model_bytes(c);
    ck_assert_uint_eq(pare_cuda_peak_bytes(c), model);
    pare_cuda_close(c);
    ck_assert_int_eq(pare_cuda_open(&h.cx, d, model - 1, &f, &c), PARE_ENOMEM);
    ck_assert_ptr_null(c);
    ck_assert_ptr_nonnull(strstr(h.cx.what, "bytes are asked for; "));
    ck_assert_ptr_nonnull(strstr(h.cx.what, "of the device are free"));
    pare_ctx_clear(&h.cx);
    ck_assert_int_eq(run(d, &m, false, model + 1000, logits), PARE_ENOMEM);
    char text[64];
    (void)snprintf(text, sizeof text, "%zu of the limit of %zu are taken", model, model + 1000);
    ck_assert_msg(strstr(h.cx.what, text), "%s", h.cx.what);
    pare_ctx_clear(&h.cx);
    ck_assert_int_eq(run(d, &m, false, model + (1 << 20), logits), PARE_OK);
}
END_TEST

START_TEST(a_limit_is_that_of_all_models_on_a_device)
{
    const pare_model m = tiny_model(&h.arena, tiny_kinds[3]);
    pare_forward f[2];
    pare_cuda *c[2];
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, LENGTH, false, &f[i]), PARE_OK);
    ck_assert_int_eq(pare_cuda_open(&h.cx, d, 0, &f[0], &c[0]), PARE_OK);
    const size_t model = pare_cuda_model_bytes(c[0]);
    ck_assert_int_eq(pare_cuda_open(&h.cx, d, 2 * model - 1, &f[1], &c[1]), PARE_ENOMEM);
    pare_ctx_clear(&h.cx);
    ck_assert_int_eq(pare_cuda_open(&h.cx, d, 2 * model, &f[1], &c[1]), PARE_OK);
    ck_assert_uint_eq(pare_cuda_model_bytes(c[1]), model);
    for (size_t i = 0; i < 2; i++)
        ck_assert_uint_eq(pare_cuda_peak_bytes(c[i]), 2 * model);
    pare_cuda_close(c[0]);
    ck_assert_uint_eq(d->live, model);
    pare_cuda_close(c[1]);
    ck_assert_uint_eq(d->live, 0);
}
END_TEST

/* A device that has memory on paper only. */
static pare_status paper_memory(pare_ctx *cx, pare_device *device, size_t *free, size_t *total)
{
    (void)cx;
    (void)device;
    *free = *total = 0;
    return PARE_OK;
}

static pare_status paper_take(pare_ctx *cx, pare_device *device, size_t bytes, pare_address *at)
{
    (void)cx;
    (void)bytes;
    *at = 256 + device->live;
    return PARE_OK;
}

START_TEST(a_scratch_takes_no_more_than_there_is)
{
    static const pare_device_table table = {.memory = paper_memory, .take = paper_take};
    const size_t large = (size_t)8 << 30;
    pare_device paper = {.op = &table, .name = "paper"};
    pare_cuda c = {.cx = &h.cx, .d = &paper};
    void *at;
    ck_assert_int_eq(pare__cuda_scratch_take(&c, large, &at), PARE_OK);
    ck_assert_uint_eq(paper.live, large);
    c.limit = large + 3 * 256;
    for (int i = 0; i < 3; i++)
        ck_assert_msg(pare__cuda_scratch_take(&c, 256, &at) == PARE_OK, "%s", h.cx.what);
    ck_assert_uint_eq(paper.live, c.limit);
    ck_assert_int_eq(pare__cuda_scratch_take(&c, 200, &at), PARE_ENOMEM);
    ck_assert_msg(strstr(h.cx.what, "paper: 256 bytes are asked for"), "%s", h.cx.what);
    pare_ctx_clear(&h.cx);
}
END_TEST

/* Behind a large array. */
START_TEST(a_scratch_grows_in_steps_that_end)
{
    static const pare_device_table table = {.take = paper_take};
    const size_t large = (size_t)8 << 30, step = (size_t)256 << 20;
    pare_device paper = {.op = &table, .name = "paper"};
    pare_cuda c = {.cx = &h.cx, .d = &paper};
    void *at;
    ck_assert_int_eq(pare__cuda_scratch_take(&c, large, &at), PARE_OK);
    for (size_t taken = 0; taken < 301 * step; taken += step / 2)
        ck_assert_msg(pare__cuda_scratch_take(&c, step / 2, &at) == PARE_OK, "%s", h.cx.what);
    ck_assert_uint_eq(paper.live, large + 301 * step);
}
END_TEST

START_TEST(what_is_taken_is_used_again_and_counted)
{
    float logits[ROWS * TINY_VOCAB];
    const pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    const int32_t *const tokens = tiny_tokens(&h.arena, 99, SEQUENCES * PREFILL);
    pare_forward f;
    pare_cuda *c;
    pare_mark mark;
    size_t peak = 0;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, LENGTH, false, &f), PARE_OK);
    ck_assert_int_eq(pare_cuda_open(&h.cx, d, 0, &f, &c), PARE_OK);
    const pare_ops o = pare_ops_of(&h.cx, &h.arena, &f);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(o.op->mark(&o, &mark), PARE_OK);
        ck_assert_int_eq(steps(&o, &f, tokens, logits), PARE_OK);
        ck_assert_int_eq(o.op->rewind(&o, mark), PARE_OK);
        ck_assert_uint_eq(c->scratch.used, 0);
        peak = peak ? peak : pare_cuda_peak_bytes(c);
    }
    ck_assert_uint_eq(pare_cuda_peak_bytes(c), peak);
    pare_address at;
    const size_t live = d->live;
    ck_assert_int_eq(pare__cuda_take(c, 1000, &at), PARE_OK);
    ck_assert_uint_eq(d->live, live + 1000);
    pare__cuda_give(c, at, 1000);
    ck_assert_uint_eq(d->live, live);
    pare_cuda_close(c);
}
END_TEST

/* One without bytes begins where another does. */
START_TEST(of_planes_at_one_place_the_longest_counts)
{
    static const float plane[4] = {1, 2, 3, 4};
    const pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    const size_t bytes[] = {0, sizeof plane, 8};
    pare_forward f;
    pare_cuda *c;
    float back[4] = {0};
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, LENGTH, false, &f), PARE_OK);
    ck_assert_int_eq(pare_cuda_open(&h.cx, d, 0, &f, &c), PARE_OK);
    c->model = 0; /* as while it is opened */
    const void *there = NULL;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        there = plane;
        ck_assert_int_eq(pare__cuda_upload(c, &there, bytes[i]), PARE_OK);
    }
    ck_assert_int_eq(d->op->get(&own, d, back, (pare_address)(uintptr_t)there, sizeof back),
                     PARE_OK);
    ck_assert_mem_eq(back, plane, sizeof plane);
    pare_cuda_close(c);
}
END_TEST

START_TEST(weights_that_are_not_the_models_are_refused)
{
    const pare_model m = tiny_model(&h.arena, tiny_kinds[3]),
                     other = tiny_model(&h.arena, tiny_kinds[_i]);
    const pare_linear *const w = &other.block[0].linear[PARE_ROLE_O];
    pare_forward f;
    pare_cuda *c;
    pare_array x, y;
    pare_mark mark;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, LENGTH, false, &f), PARE_OK);
    ck_assert_int_eq(pare_cuda_open(&h.cx, d, 0, &f, &c), PARE_OK);
    const pare_ops o = pare_ops_of(&h.cx, &h.arena, &f);
    ck_assert_int_eq(o.op->mark(&o, &mark), PARE_OK);
    ck_assert_int_eq(o.op->take(&o, 3, w->k, &x), PARE_OK);
    ck_assert_int_eq(o.op->take(&o, 3, w->n, &y), PARE_OK);
    ck_assert_int_eq(o.op->zero(&o, x), PARE_OK);
    ck_assert_int_eq(o.op->linears(&o, &w, 1, false, x, &y), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(h.cx.what, "memory of the host that is not the model's"));
    ck_assert_int_eq(o.op->rewind(&o, mark), PARE_OK);
    pare_cuda_close(c);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("model");
    TCase *const brief = tcase_create("short"), *const t = tcase_create("model");
    tcase_add_checked_fixture(brief, begin, end);
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(brief, experts_give_the_bytes_of_the_cpu, 0, 6);
    tcase_add_loop_test(brief, a_cache_in_codes_gives_the_bytes_of_the_cpu, 0, 3);
    tcase_add_loop_test(brief, an_evaluation_gives_the_figures_of_the_cpu, 1, 4);
    tcase_add_loop_test(t, every_kind_of_weights_gives_the_bytes_of_the_cpu, 0, 2 * TINY_KINDS);
    tcase_add_loop_test(t, weights_that_are_rounded_in_panels_give_the_same_bytes, 0, TINY_KINDS);
    tcase_add_loop_test(t, positions_of_long_contexts_give_the_bytes_of_the_cpu, 0, 3);
    tcase_add_loop_test(t, blocks_with_a_window_turn_by_a_table_of_their_own, 0, 8);
    tcase_add_loop_test(t, weights_that_are_decoded_in_panels_give_the_bytes_of_the_cpu, 0,
                        2 * TINY_KINDS);
    tcase_add_test(t, a_call_that_fails_is_told_and_leaves_nothing);
    tcase_add_test(brief, decoding_by_graphs_gives_the_bytes_of_the_cpu);
    tcase_add_test(t, choices_have_the_scores_of_the_cpu);
    tcase_add_loop_test(t, greedy_tokens_are_those_of_the_cpu_and_logits_stay, 0, 3);
    tcase_add_test(t, weights_that_do_not_fit_are_refused_before_any_is_copied);
    tcase_add_test(t, memory_of_the_host_that_ends_is_told_and_leaves_nothing);
    tcase_add_test(t, a_limit_is_kept_and_told_with_its_figures);
    tcase_add_test(t, a_limit_is_that_of_all_models_on_a_device);
    tcase_add_test(t, a_scratch_takes_no_more_than_there_is);
    tcase_add_test(t, a_scratch_grows_in_steps_that_end);
    tcase_add_test(t, what_is_taken_is_used_again_and_counted);
    tcase_add_test(t, of_planes_at_one_place_the_longest_counts);
    tcase_add_loop_test(t, weights_that_are_not_the_models_are_refused, 3, 5);
    suite_add_tcase(s, brief);
    suite_add_tcase(s, t);
    return unit_main(s);
}
