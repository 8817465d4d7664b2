/* Checkpoints of EXL3 that another program wrote: what tiles, scales and codebooks stand for. */
#include <math.h>

#include "kernels/half.h"
#include "tests/fuzz/quantized_input.h"
#include "tests/unit/folder.h"

static pare_ctx cx;
static pare_arena arena;

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void end(void)
{
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

enum { N = 128, K = 256, SPAN = 128, WORD_LIST = 7, SIGN_LIST = 8, LIST = 5 };

/* 16-bit words of tiles, and scales, that repeat over a tensor: no number of them divides a tile or
 * a span, whose transforms would be mostly zeros. */
static const unsigned words[WORD_LIST] = {0x1234, 0x9abc, 0xdef1, 0x0f1e, 0x2d3f, 0x7777, 0xc0de};
static const float scales[LIST] = {0.5F, -0.25F, 3, 1, -2};
static const unsigned signs[SIGN_LIST] = {0x8001, 0x00ff, 0x1248, 0xffff, 0, 7, 0xaaaa, 0x0f0f};

typedef enum codebook { INST3, MCG, MUL1 } codebook;

static const struct {
    codebook book;
    unsigned bits;
    bool old; /* signs in bits */
    const char *tag;
} cases[] = {
    {MUL1, 1, false, ".mul1 I32 1 = 0x83DCD12D\n"},
    {MUL1, 2, false, ".mul1 I32 1 = 0x83DCD12D\n"},
    {MUL1, 3, false, ".mul1 I32 1 = 0x83DCD12D\n"},
    {MUL1, 4, false, ".mul1 I32 1 = 0x83DCD12D\n"},
    {MUL1, 5, false, ".mul1 I32 1 = 0x83DCD12D\n"},
    {MUL1, 6, false, ".mul1 I32 1 = 0x83DCD12D\n"},
    {MUL1, 7, false, ".mul1 I32 1 = 0x83DCD12D\n"},
    {MUL1, 8, false, ".mul1 I32 1 = 0x83DCD12D\n"},
    {MUL1, 3, true, ".mul1 I32 1 = 0x83DCD12D\n"},
    {MUL1, 4, false, ".mul1 I32 = 0x83DCD12D\n"},
    {MCG, 3, false, ".mcg I32 1 = 0xCBAC1FED\n"},
    {MCG, 4, true, ".mcg I32 1 = 0xCBAC1FED\n"},
    {INST3, 2, false, NULL},
    {INST3, 6, true, NULL},
};
enum { CASES = sizeof cases / sizeof *cases };

/* By ties to even, of numbers within 2^-14 .. 65504 or 0. */
static double half(double x)
{
    int e;
    if (x == 0)
        return 0;
    (void)frexp(x, &e);
    return ldexp(nearbyint(ldexp(x, 11 - e)), e - 11);
}

static double half_of(uint32_t bits)
{
    const double size = ldexp(1024 + (bits & 1023), (int)(bits >> 10 & 31) - 25);
    return bits >> 15 & 1 ? -size : size;
}

static double value_of(codebook book, uint32_t state)
{
    if (book == MUL1) {
        const uint32_t r = state * 2212286765U;
        const uint32_t sum = (r & 255) + (r >> 8 & 255) + (r >> 16 & 255) + (r >> 24);
        return half(half_of(0x1EEE) * half_of(0x6400 + sum) + half_of(0xC931));
    }
    uint32_t r = book == MCG ? state * 3417055213U : state * 89226354U + 64248484U;
    r = (r & 0x8FFF8FFF) ^ 0x3B603B60;
    return half(half_of(r & 0xFFFF) + half_of(r >> 16));
}

/* Bit b of the circle of a tile that begins with word `first`: 32-bit words from their top. */
static unsigned bit_of(size_t first, size_t b)
{
    const size_t word = b / 32 * 2 + 1 - b % 32 / 16;
    return words[(first + word) % WORD_LIST] >> (15 - b % 16) & 1;
}

/* v [N, K]: the weights between the Hadamard matrices. */
static void fill_values(codebook book, unsigned bits, double *v)
{
    for (size_t kt = 0; kt < K / 16; kt++)
        for (size_t nt = 0; nt < N / 16; nt++)
            for (size_t p = 0; p < 256; p++) {
                const size_t t = p / 8, j = p % 8;
                const size_t in = t % 4 * 2 + (j & 1) + 8 * (j >> 1 & 1),
                             out = t / 4 + 8 * (j >> 2);
                uint32_t state = 0;
                for (size_t b = 0; b < 16; b++)
                    state =
                        state << 1 | bit_of((kt * (N / 16) + nt) * 16 * bits,
                                            ((p + 1) * bits + 256 * bits - 16 + b) % (256 * bits));
                v[(nt * 16 + out) * K + kt * 16 + in] = value_of(book, state);
            }
}

static double hadamard(size_t i, size_t j)
{
    return __builtin_parityll(i & j) ? -sqrt(1.0 / SPAN) : sqrt(1.0 / SPAN);
}

/* v H, for rows of spans along k; then H v. */
static void turn(const double *v, double *turned)
{
    double *const right = PARE_NEW(&arena, double, N *K);
    ck_assert_ptr_nonnull(right);
    for (size_t r = 0; r < N; r++)
        for (size_t j = 0; j < K; j++)
            for (size_t i = 0; i < SPAN; i++)
                right[r * K + j] += v[r * K + j / SPAN * SPAN + i] * hadamard(i, j % SPAN);
    for (size_t r = 0; r < N; r++)
        for (size_t i = 0; i < SPAN; i++)
            for (size_t j = 0; j < K; j++)
                turned[r * K + j] += hadamard(r % SPAN, i) * right[(r / SPAN * SPAN + i) * K + j];
}

static double scale_of(bool old, size_t i)
{
    return old ? (signs[i / 16 % SIGN_LIST] >> i % 16 & 1 ? -1 : 1) : (double)scales[i % LIST];
}

#define LAYER  "model.layers.0.mlp.down_proj"
#define WORDS  " = 0x1234 0x9abc 0xdef1 0x0f1e 0x2d3f 0x7777 0xc0de\n"
#define SCALES " = 0.5 -0.25 3 1 -2\n"
#define SIGNS  " = 0x8001 0x00ff 0x1248 0xffff 0 7 0xaaaa 0x0f0f\n"

/* config.json, NUL, tensors of the linear `name`; returns the length. */
static size_t write_input(char *text, size_t size, const char *family, const char *name, size_t i)
{
    size_t at = 1 + (size_t)snprintf(text, size,
                                     "{\"model_type\": \"%s\", \"vocab_size\": 100, "
                                     "\"quantization_config\": {\"quant_method\": \"exl3\"}}",
                                     family);
    at += (size_t)snprintf(text + at, size - at, "%s.trellis I16 %d %d %u" WORDS, name, K / 16,
                           N / 16, 16 * cases[i].bits);
    if (cases[i].old)
        at += (size_t)snprintf(text + at, size - at, "%s.su I16 %d" SIGNS "%s.sv I16 %d" SIGNS,
                               name, K / 16, name, N / 16);
    else
        at += (size_t)snprintf(text + at, size - at, "%s.suh F16 %d" SCALES "%s.svh F16 %d" SCALES,
                               name, K, name, N);
    if (cases[i].tag)
        at += (size_t)snprintf(text + at, size - at, "%s%s", name, cases[i].tag);
    return at;
}

static void check_weights(const float *is, size_t n, size_t i)
{
    double *const v = PARE_NEW(&arena, double, N *K), *const w = PARE_NEW(&arena, double, N *K);
    ck_assert(v && w);
    fill_values(cases[i].book, cases[i].bits, v);
    turn(v, w);
    for (size_t r = 0; r < n; r++)
        for (size_t j = 0; j < K; j++) {
            const double wanted =
                w[r * K + j] * scale_of(cases[i].old, r) * scale_of(cases[i].old, j);
            ck_assert_msg(fabs((double)is[r * K + j] - wanted) < 1e-4, "%zu, %zu: %g, %g", r, j,
                          (double)is[r * K + j], wanted);
        }
}

START_TEST(weights_are_what_the_tiles_stand_for)
{
    char text[2048];
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 1);
    pare_checkpoint floats, runs;
    const size_t len = write_input(text, sizeof text, "llama", LAYER, (size_t)_i);
    ck_assert_int_eq(quantized_parse(&cx, &arena, text, len, in), PARE_OK);
    ck_assert_msg(quantized_open(&cx, &arena, in, false, false, &floats) == PARE_OK, "%s", cx.what);
    ck_assert_msg(quantized_open(&cx, &arena, in, false, true, &runs) == PARE_OK, "%s", cx.what);
    const pare_tensor *const t = pare_checkpoint_find(&floats, LAYER ".weight");
    ck_assert(t && t->shape[0] == N && t->shape[1] == K && floats.unpacked == 1);
    ck_assert(floats.tensors == 1);
    check_weights(t->data, N, (size_t)_i);
    const pare_linear *const l = runs.stored[0].packed;
    ck_assert_int_eq(l != NULL, cases[_i].book == MUL1);
    ck_assert(!l || (l->encoding == PARE_ENCODING_EXL3 && l->bits == cases[_i].bits));
    quantized_same(&cx, &arena, &runs, &floats);
    pare_scratch_close(&floats.scratch);
    pare_scratch_close(&runs.scratch);
    pare_json_free(in->config);
}
END_TEST

/* Where files have inputs in rows. */
START_TEST(weights_lie_as_the_family_has_them)
{
    char text[2048];
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 1);
    float *const w = PARE_NEW(&arena, float, N *K);
    pare_checkpoint ck;
    const size_t len = write_input(text, sizeof text, "gpt2", "h.0.mlp.c_proj", 2);
    ck_assert_int_eq(quantized_parse(&cx, &arena, text, len, in), PARE_OK);
    ck_assert_msg(quantized_open(&cx, &arena, in, false, true, &ck) == PARE_OK, "%s", cx.what);
    const pare_tensor *const t = &ck.tensor[0];
    ck_assert(t->shape[0] == K && t->shape[1] == N && !ck.stored[0].packed);
    for (size_t i = 0; i < N * K; i++)
        w[i % N * K + i / N] = ((const float *)t->data)[i];
    check_weights(w, N, 2);
    pare_scratch_close(&ck.scratch);
    pare_json_free(in->config);
}
END_TEST

/* ExLlamaV3 pads the head; other linears keep the sizes of their tiles. */
START_TEST(a_head_has_the_rows_of_the_vocabulary)
{
    char text[2048], said[64];
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 1);
    pare_checkpoint ck;
    size_t len = write_input(text, sizeof text, "llama", "lm_head", 2);
    len += (size_t)snprintf(text + len, sizeof text - len, "model.norm.weight F16 %d\n", K);
    ck_assert_int_eq(quantized_parse(&cx, &arena, text, len, in), PARE_OK);
    for (int runs = 0; runs < 2; runs++) {
        ck_assert_int_eq(quantized_open(&cx, &arena, in, false, runs, &ck), PARE_OK);
        const pare_tensor *const t = pare_checkpoint_find(&ck, "lm_head.weight");
        ck_assert(t && t->shape[0] == 100 && t->shape[1] == K && !ck.stored[t - ck.tensor].packed);
        check_weights(t->data, 100, 2);
        pare_scratch_close(&ck.scratch);
    }
    (void)snprintf(said, sizeof said, "%s", ck.quantized);
    ck_assert_str_eq(said, "exl3: 1 x exl3 3 bits");
    pare_json_free(in->config);
}
END_TEST

static pare_status read_case(pare_ctx *c, pare_arena *a, const void *self)
{
    char text[2048];
    const size_t i = *(const size_t *)self, len = write_input(text, sizeof text, "llama", LAYER, i);
    quantized_input *const in = PARE_NEW(a, quantized_input, 1);
    pare_checkpoint ck = {0};
    pare_status s = in ? quantized_parse(c, a, text, len, in) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = quantized_open(c, a, in, false, true, &ck);
    pare_scratch_close(&ck.scratch);
    if (in)
        pare_json_free(in->config);
    return s;
}

START_TEST(every_failed_allocation_is_reported)
{
    const size_t at = _i ? 10 : 2;
    folder_refuse_memory(&cx, read_case, &at);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("quantized_exl3");
    TCase *const t = tcase_create("quantized_exl3");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, weights_are_what_the_tiles_stand_for, 0, CASES);
    tcase_add_test(t, weights_lie_as_the_family_has_them);
    tcase_add_test(t, a_head_has_the_rows_of_the_vocabulary);
    tcase_add_loop_test(t, every_failed_allocation_is_reported, 0, 2);
    suite_add_tcase(s, t);
    return unit_main(s);
}
