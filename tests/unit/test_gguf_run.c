/* GGUF files that are run: linears in blocks that a kernel multiplies stay codes and scales. */
#include "compress/export/export.h"
#include "formats/gguf_internal.h"
#include "kernels/half.h"
#include "runtime/linear.h"
#include "runtime/random.h"
#include "tests/unit/loaded.h"
#include "tests/unit/logits.h"

enum { ROWS = 42, K = 512, BYTES_MAX = 2 * K, TOKENS = 3, Q6_K_SCALE = 208 };

static const char *const types[] = {"Q4_0", "Q8_0", "Q4_1", "Q5_0", "Q4_K", "Q6_K", "NVFP4"};
enum { TYPES = sizeof types / sizeof *types };

/* 0, -0, 1, -1/2, 2^-24, -2^-24, the largest, its negative */
static const uint16_t scales[] = {0, 0x8000, 0x3c00, 0xb800, 1, 0x8001, 0x7bff, 0xfbff};

/* 0, 1, 1/2, 2, 2^-9, the last below the normal numbers, the largest, 9/8 */
static const uint8_t small_scales[] = {0, 0x38, 0x30, 0x40, 1, 7, 0x7e, 0x39};
#define FACTOR 0x1p-9F

static pare_checkpoint ck;
static uint8_t blocks[ROWS * BYTES_MAX];

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    ck = (pare_checkpoint){.cx = &cx};
    pare_scratch_init(&cx, &ck.scratch);
}

static void end(void)
{
    pare_checkpoint_close(&ck);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void put_scale(uint8_t *to, uint16_t scale)
{
    to[0] = (uint8_t)scale;
    to[1] = (uint8_t)(scale >> 8);
}

/* Random bytes in blocks, in which scales and minima take turns. */
static pare_gguf_tensor matrix(const char *type, size_t of_scales)
{
    const pare_ggml_type *const t = pare_ggml_type_named(type);
    const size_t count = ROWS * K / t->elements;
    for (size_t i = 0; i < count; i++) {
        uint8_t *const b = blocks + i * t->bytes;
        for (size_t j = 0; j < t->bytes; j++)
            b[j] = (uint8_t)pare_random_u64(5, i, j);
        for (size_t s = 0; s < 4; s++)
            if (strcmp(type, "NVFP4") == 0)
                b[s] = small_scales[(i + s) % of_scales];
        if (strcmp(type, "NVFP4") != 0)
            put_scale(b + (strcmp(type, "Q6_K") == 0 ? Q6_K_SCALE : 0), scales[i % of_scales]);
        if (strcmp(type, "Q4_1") == 0 || strcmp(type, "Q4_K") == 0)
            put_scale(b + 2, scales[i / of_scales % of_scales]);
    }
    return (pare_gguf_tensor){.name = "w",
                              .type = t,
                              .rank = 2,
                              .shape = {ROWS, K},
                              .elements = (uint64_t)ROWS * K,
                              .data = blocks,
                              .bytes = count * t->bytes,
                              .factor = strcmp(type, "NVFP4") == 0 ? FACTOR : 1};
}

static void decode_row(const pare_gguf_tensor *t, size_t row, float w[K])
{
    const size_t count = K / t->type->elements;
    pare_ggml_decode(t->type, t->data + row * count * t->type->bytes, count, w);
    for (size_t j = 0; j < K; j++)
        w[j] *= t->factor;
}

static const pare_linear *packed(const pare_gguf_tensor *t, uint64_t heads, pare_tensor *out)
{
    const pare_linear *w = NULL;
    *out = (pare_tensor){.rank = 2};
    ck_assert_msg(pare__gguf_pack(&ck, &arena, t, heads, out, &w) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_linear_check(&cx, w), PARE_OK);
    ck_assert_uint_eq(out->bytes, pare__gguf_packed_bytes(t));
    return w;
}

/* The bits of every value, whatever the scale, and rows of q and k at their places. */
START_TEST(packed_weights_are_the_values_of_the_blocks)
{
    static float is[ROWS * K], was[K];
    pare_tensor out;
    const uint64_t heads = _i % 2 ? 3 : 0, head = ROWS / 3;
    const pare_gguf_tensor t = matrix(types[_i / 2], 8);
    const pare_linear *const w = packed(&t, heads, &out);
    pare_linear_to_f32(&cx, w, is);
    for (uint64_t r = 0; r < ROWS; r++) {
        const uint64_t i = r % head, pair = i % 2 ? head / 2 + i / 2 : i / 2;
        float *const row = is + (heads ? r - i + pair : r) * K;
        decode_row(&t, r, was);
        for (size_t j = 0; w->encoding == PARE_ENCODING_NVFP4 && j < K; j++)
            if (row[j] == 0 && was[j] == 0) /* the engine has no -0 of one code */
                row[j] = was[j];
        ck_assert_mem_eq(row, was, sizeof was);
    }
    const size_t groups = K / w->panel.group;
    for (size_t r = ROWS; r < w->panel.n; r++) /* padding */
        for (size_t b = 0; b < groups; b++)
            ck_assert_uint_eq(w->panel.scales[(r / 8 * groups + b) * 8 + r % 8], 0);
}
END_TEST

/* Inputs that int8 holds exactly, scales that are powers of two: the product is a whole sum. */
START_TEST(the_product_takes_scales_of_both_signs)
{
    static float x[TOKENS * K], y[TOKENS * ROWS], w[K];
    pare_tensor out;
    const pare_gguf_tensor t = matrix(types[_i / 2], 4);
    const pare_linear *const l = packed(&t, 0, &out);
    const bool floats = l->activation.mode == PARE_ACTIVATION_FLOAT;
    const int top = floats ? 3 : 127; /* so that every sum is exact */
    ck_assert_int_eq(floats, _i / 2 > 1);
    for (int i = 0; i < TOKENS * K; i++)
        x[i] = (float)(i % 32 == 7 ? -top : i * 29 % (2 * top + 1) - top);
    ck_assert_int_eq(pare_linear_apply(&cx, &arena, l, _i % 2, x, K, TOKENS, y, ROWS), PARE_OK);
    for (size_t r = 0; r < ROWS; r++) {
        decode_row(&t, r, w);
        for (size_t token = 0; token < TOKENS; token++) {
            double sum = 0;
            for (size_t j = 0; j < K; j++)
                sum += (double)w[j] * (double)x[token * K + j];
            ck_assert_msg((double)y[token * ROWS + r] == sum, "row %zu: %g, not %g", r,
                          (double)y[token * ROWS + r], sum);
        }
    }
}
END_TEST

/* A model whose rows are whole blocks, and what a recipe and an export make of it. */
static job_place make(const char *passes, const char *target)
{
    char recipe[512], format[32];
    tiny_model m = tiny_model_default();
    m.hidden = 256;
    m.intermediate = 512;
    m.heads = 8;
    m.head_dim = 32;
    const job_place p = job_make(&m);
    (void)snprintf(format, sizeof format, "gguf:%s", target);
    (void)snprintf(recipe, sizeof recipe,
                   "pare: 1\nmodel: model\npasses: [%s]\n"
                   "export: [{format: \"%s\", path: x.gguf}]\n",
                   passes, format);
    job_recipe(&p, recipe);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    return p;
}

static void check_same(const pare_linear *is, const pare_linear *was)
{
    const pare_panel *const a = &is->panel, *const b = &was->panel;
    const size_t count = b->n * b->k / b->group;
    ck_assert_str_eq(is->name, was->name);
    ck_assert(is->encoding == was->encoding && is->bits == was->bits);
    ck_assert(a->n == b->n && a->k == b->k && a->group == b->group);
    ck_assert(is->activation.mode == was->activation.mode);
    ck_assert_uint_eq(is->activation.bits, was->activation.bits);
    ck_assert_mem_eq(a->codes, b->codes, b->n * b->k * was->bits / 8);
    ck_assert_mem_eq(a->scales, b->scales, count * sizeof *a->scales);
    ck_assert(!a->minima == !b->minima && !a->sub == !b->sub && !a->zeros);
    if (b->minima)
        ck_assert_mem_eq(a->minima, b->minima, count * sizeof *a->minima);
    if (b->sub)
        ck_assert_mem_eq(a->sub, b->sub, b->n * b->k / 16);
}

/* Codes come back as the artifact has them, and so do logits; `floats` are the weights decoded. */
START_TEST(a_file_runs_as_the_artifact_that_it_was_made_of)
{
    static const char *const passes[] = {"rtn: {bits: 4, group: 32}", "rtn: {bits: 8, group: 32}",
                                         "rtn: {grid: q4_k}", "rtn: {grid: q6_k}", "nvfp4: {}"};
    static const char *const target[] = {"q4_0", "q8_0", "q4_k", "q6_k", "q4_0"};
    const job_place p = make(passes[_i], target[_i]);
    loaded is, was, floats;
    load(&p, "out", &was);
    load_to_run(&p, "x.gguf", &is);
    load(&p, "x.gguf", &floats);
    const pare_config *const c = &was.model.config;
    for (size_t b = 0; b < c->blocks; b++)
        for (pare_role r = 0; r < PARE_COMMON_ROLES; r++) {
            const pare_linear *const l = pare_block_linear(&is.model.block[b], 0, r);
            check_same(l, pare_block_linear(&was.model.block[b], 0, r));
            ck_assert_uint_eq(pare_block_linear(&floats.model.block[b], 0, r)->bits, 0);
        }
    const size_t bytes = c->vocab * sizeof(float);
    ck_assert_mem_eq(logits(&is.model, false), logits(&was.model, false), bytes);
    ck_assert_mem_eq(logits(&is.model, true), logits(&floats.model, true), bytes);
    ck_assert_int_eq(memcmp(logits(&is.model, true), logits(&is.model, false), bytes) != 0, _i < 2);
    pare_checkpoint_close(&is.ck);
    pare_checkpoint_close(&was.ck);
    pare_checkpoint_close(&floats.ck);
    job_remove_directory(p.root);
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    const job_place p = make("rtn: {bits: 4, group: 32}", "q4_0");
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx own;
        pare_arena a;
        pare_checkpoint run = {0};
        pare_model m;
        pare_ctx_init(&own);
        own.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_status s = pare_arena_init(&own, &a, 0);
        if (s == PARE_OK)
            s = pare_checkpoint_open_to_run(&own, &a, job_path(&p, "x.gguf"), &run);
        if (s == PARE_OK)
            s = pare_model_load(&own, &a, &run, &m);
        if (run.cx)
            pare_checkpoint_close(&run);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK)
            break;
        ck_assert_int_eq(s, PARE_ENOMEM);
    }
    job_remove_directory(p.root);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("gguf_run");
    TCase *const t = tcase_create("gguf_run");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, packed_weights_are_the_values_of_the_blocks, 0, 2 * TYPES);
    tcase_add_loop_test(t, the_product_takes_scales_of_both_signs, 0, 2 * TYPES);
    tcase_add_loop_test(t, a_file_runs_as_the_artifact_that_it_was_made_of, 0, 5);
    tcase_add_test(t, every_failed_allocation_is_reported);
    suite_add_tcase(s, t);
    return unit_main(s);
}
