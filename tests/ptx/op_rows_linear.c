/* Products with weights of every encoding, of few tokens and many, with rows and columns that no
 * tile divides. */
#include "tests/ptx/op_rows.h"

#include <math.h>
#include <string.h>

#include "kernels/cuda/cuda_blocks.h"
#include "kernels/exl3.h"
#include "kernels/half.h"
#include "runtime/linear_internal.h"
#include "tests/unit/tiny.h"

/* Beside tiny_kinds. */
typedef struct other_kind {
    pare_encoding encoding;
    unsigned bits;
    pare_sparsity_store sparsity;
    pare_activation activation;
} other_kind;

static const other_kind others[] = {
    {PARE_ENCODING_UNIFORM, 4, PARE_SPARSITY_2_4, {PARE_ACTIVATION_TOKEN, 8, 0}},
    {PARE_ENCODING_UNIFORM, 8, PARE_SPARSITY_2_4, {PARE_ACTIVATION_TOKEN, 8, 0}},
    {PARE_ENCODING_F16, 16, PARE_SPARSITY_2_4, {PARE_ACTIVATION_FLOAT, 0, 0}},
    {PARE_ENCODING_F16, 16, PARE_SPARSITY_BITMASK, {PARE_ACTIVATION_FLOAT, 0, 0}},
    {PARE_ENCODING_Q4_K, 4, PARE_SPARSITY_NONE, {PARE_ACTIVATION_FLOAT, 0, 0}},
    {PARE_ENCODING_Q6_K, 6, PARE_SPARSITY_NONE, {PARE_ACTIVATION_FLOAT, 0, 0}},
};

/* Codes alone. */
static const tiny_kind books[] = {{.bits = 3, .encoding = PARE_ENCODING_CODEBOOK, TINY_FLOAT},
                                  {.bits = 4, .encoding = PARE_ENCODING_CODEBOOK, TINY_FLOAT}};

static const size_t tokens[] = {1, 2, 3, 8, 16, 17, 64, 65};
static const size_t shapes[][2] = {{17, 70}, {33, 130}, {1, 31},  {7, 288},
                                   {41, 33}, {256, 40}, {5, 1278}};
enum {
    OTHERS = sizeof others / sizeof *others,
    KINDS = TINY_KINDS + OTHERS + sizeof books / sizeof *books,
    TOKENS = sizeof tokens / sizeof *tokens,
    SHAPES = sizeof shapes / sizeof *shapes
};
_Static_assert(KINDS *TOKENS == OP_LINEARS, "");

static uint8_t *random_bytes(op_run *r, size_t bytes)
{
    uint8_t *const p = op_bytes(r, bytes);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)pare_random_u64(22, r->stream, i);
    r->stream++;
    return p;
}

static pare_linear masked(op_run *r, size_t n, size_t k)
{
    const size_t bytes = (k + 7) / 8;
    uint8_t *const bits = random_bytes(r, n * bytes);
    size_t *const start = op_bytes(r, (n + 1) * sizeof *start), count = 0;
    for (size_t i = 0; i < n; i++) {
        start[i] = count;
        for (size_t j = 0; j < k; j++)
            count += (unsigned)bits[i * bytes + j / 8] >> j % 8 & 1u;
        start[i + 1] = count;
    }
    return (pare_linear){
        .panel = {.n = n, .k = k},
        .mask = {.bits = bits, .start = start, .value = op_halves(r, count), .n = n, .k = k}};
}

/* Of each four columns the places 0 or 1 and 2 or 3. */
static pare_linear two_of_four(op_run *r, unsigned bits, size_t n, size_t k, size_t group)
{
    const size_t n16 = pare_round_up(n, PARE_PAD_N), k32 = pare_round_up(k, PARE_ATOM_K);
    const size_t kept = pare_24_kept(k32);
    uint8_t *const indices = random_bytes(r, n16 * kept / 4);
    for (size_t i = 0; i < n16 * kept / 4; i++)
        indices[i] = (uint8_t)(i % 2 ? indices[i] | 0xaa : indices[i] & 0x55);
    pare_linear w = {.panel = {.n = n16, .k = k32, .group = group, .indices = indices}};
    if (bits == 16) {
        w.panel.values = op_halves(r, n16 * kept);
        w.panel.ldv = kept;
    } else {
        w.panel.codes = random_bytes(r, n16 * kept * bits / 8);
        w.panel.scales = op_halves(r, n16 * ((k32 + group - 1) / group));
    }
    return w;
}

static pare_linear super_blocks(op_run *r, unsigned bits, size_t n, size_t k)
{
    const size_t n16 = pare_round_up(n, PARE_PAD_N), k32 = pare_round_up(k, PARE_ATOM_K);
    const size_t groups = (k32 + 255) / 256, atoms = n16 / PARE_ATOM_N * (k32 / PARE_ATOM_K);
    return (pare_linear){.panel = {.codes = random_bytes(r, atoms * pare_atom_bytes(bits)),
                                   .scales = op_halves(r, n16 * groups),
                                   .minima = op_halves(r, n16 * groups),
                                   .sub = random_bytes(r, atoms * 16),
                                   .n = n16,
                                   .k = k32,
                                   .group = 256}};
}

static pare_linear make_other(op_run *r, const other_kind *kind, size_t n, size_t k)
{
    pare_linear w = kind->sparsity == PARE_SPARSITY_BITMASK ? masked(r, n, k)
                    : kind->sparsity == PARE_SPARSITY_2_4   ? two_of_four(r, kind->bits, n, k, 32)
                                                            : super_blocks(r, kind->bits, n, k);
    w.name = "other";
    w.n = n;
    w.k = k;
    w.bits = kind->bits;
    w.encoding = kind->encoding;
    w.sparsity = kind->sparsity;
    w.activation = kind->activation;
    return w;
}

static pare_linear make(op_run *r, size_t kind, size_t n, size_t k)
{
    if (kind >= TINY_KINDS && kind < TINY_KINDS + OTHERS)
        return make_other(r, &others[kind - TINY_KINDS], n, k);
    const tiny_kind t = kind < TINY_KINDS ? tiny_kinds[kind] : books[kind - TINY_KINDS - OTHERS];
    return t.bits ? tiny_packed(&r->arena, t, kind, n, k)
                  : tiny_dense(&r->arena, t.dtype, kind, n, k);
}

/* Two that read the same inputs, the second of them with a bias. */
pare_status op_linears(op_run *r, size_t i)
{
    const size_t kind = i % KINDS, m = tokens[i / KINDS], *const shape = shapes[i % SHAPES];
    const size_t k = shape[1], rows[2] = {shape[0], 9};
    const bool exact = (i + i / KINDS) % 3 == 2;
    pare_linear w[2];
    pare_array x, y[2];
    PARE_TRY(op_begin(r, 1));
    for (size_t j = 0; j < 2; j++) {
        w[j] = make(r, kind, rows[j], k);
        PARE_TRY(pare_linear_check(r->o.cx, &w[j]));
        PARE_TRY(op_blank(r, m, rows[j], &y[j]));
    }
    w[1].bias = op_mild(r, rows[1]);
    PARE_TRY(op_put(r, op_floats(r, m * k), m, k, &x));
    PARE_TRY(r->o.op->linears(&r->o, (const pare_linear *const[]){&w[0], &w[1]}, 2, exact, x, y));
    PARE_TRY(op_keep(r, y[0]));
    return op_keep(r, y[1]);
}

/* --- F16 on tensor cores --------------------------------------------------------------------- */

/* Weights that are packed for it, and those that become F16. */
static const tiny_kind halved[] = {
    {.dtype = PARE_F32},
    {.dtype = PARE_F16},
    {.dtype = PARE_BF16},
    {.bits = 2, .group = 32, .zeros = true, TINY_FLOAT},
    {.bits = 2, .group = 128, TINY_FLOAT},
    {.bits = 3, .group = 96, TINY_FLOAT},
    {.bits = 3, .group = 128, .zeros = true, TINY_FLOAT},
    {.bits = 4, .group = 64, .zeros = true, TINY_FLOAT},
    {.bits = 4, .group = 256, TINY_FLOAT},
    {.bits = 8, .group = 32, .zeros = true, TINY_FLOAT},
    {.bits = 8, .group = 128, TINY_FLOAT},
    {.bits = 4, .group = 32, .encoding = PARE_ENCODING_MXFP4, TINY_FLOAT},
    {.bits = 4, .group = 16, .encoding = PARE_ENCODING_NVFP4, TINY_FLOAT},
    {.bits = 8, .encoding = PARE_ENCODING_FP8, TINY_FLOAT},
    {.bits = 2, .group = 64, .encoding = PARE_ENCODING_TERNARY, TINY_FLOAT},
};
/* And of 2:4. */
static const struct {
    unsigned bits;
    size_t group;
} pruned[] = {{16, 32}, {4, 32}, {4, 96}, {8, 128}};
enum { PRUNED = sizeof pruned / sizeof *pruned };
static const size_t halved_tokens[] = {1, 16, 33, 130};
static const size_t halved_shapes[][2] = {{33, 70}, {17, 1184}, {70, 300}};
enum {
    HALVED = sizeof halved / sizeof *halved + PRUNED,
    HALVED_TOKENS = sizeof halved_tokens / sizeof *halved_tokens,
    HALVED_SHAPES = sizeof halved_shapes / sizeof *halved_shapes
};
_Static_assert(HALVED *HALVED_TOKENS == OP_F16, "");

/* From -4 to 4. */
static float *integers(op_run *r, size_t n)
{
    float *const x = op_mild(r, n);
    for (size_t i = 0; i < n; i++)
        x[i] = rintf(4 * x[i]);
    return x;
}

/* And in each row, 32 columns further in each, one that is far larger. */
static float *inputs(op_run *r, size_t m, size_t k)
{
    float *const x = integers(r, m * k);
    for (size_t t = 0; t < m; t++)
        x[t * k + (32 * t + 5) % k] = 1024;
    return x;
}

/* Weights whose sums with integers are exact in F32: scales are powers of two, other numbers have
 * few bits. */
static pare_linear make_exact(op_run *r, size_t kind, size_t n, size_t k)
{
    if (kind >= HALVED - PRUNED) {
        const unsigned bits = pruned[kind + PRUNED - HALVED].bits;
        const size_t group = pruned[kind + PRUNED - HALVED].group;
        pare_linear w = two_of_four(r, bits, n, k, group);
        uint16_t *const values = (uint16_t *)(uintptr_t)w.panel.values;
        uint16_t *const scales = (uint16_t *)(uintptr_t)w.panel.scales;
        for (size_t i = 0; bits == 16 && i < w.panel.n * w.panel.ldv; i++)
            values[i] &= 0xfe00;
        for (size_t i = 0; bits < 16 && i < w.panel.n * ((w.panel.k + group - 1) / group); i++)
            scales[i] = (uint16_t)(0x3c00 - (i * i % 3 << 10));
        w.name = "2:4";
        w.n = n;
        w.k = k;
        w.bits = bits;
        w.encoding = bits == 16 ? PARE_ENCODING_F16 : PARE_ENCODING_UNIFORM;
        w.sparsity = PARE_SPARSITY_2_4;
        w.activation.mode = PARE_ACTIVATION_FLOAT;
        return w;
    }
    const tiny_kind t = halved[kind];
    if (!t.bits) {
        const float *const values = integers(r, n * k);
        uint16_t *const half = op_bytes(r, n * k * sizeof *half);
        for (size_t i = 0; i < n * k; i++) {
            uint32_t bits;
            memcpy(&bits, &values[i], sizeof bits);
            half[i] = t.dtype == PARE_F16 ? pare_f32_to_f16(values[i]) : (uint16_t)(bits >> 16);
        }
        const void *const data = t.dtype == PARE_F32 ? (const void *)values : half;
        return (pare_linear){.name = "dense", .n = n, .k = k, .dtype = t.dtype, .data = data};
    }
    const pare_linear w = tiny_packed(&r->arena, t, kind, n, k);
    const size_t groups = (w.panel.k + w.panel.group - 1) / w.panel.group;
    uint8_t *const codes = (uint8_t *)(uintptr_t)w.panel.codes;
    uint16_t *const scales = (uint16_t *)(uintptr_t)w.panel.scales;
    for (size_t i = 0; i < w.panel.n * groups; i++)
        scales[i] = (uint16_t)(0x3c00 - (i * i % 3 << 10));
    for (size_t i = 0; t.encoding == PARE_ENCODING_FP8 && i < w.panel.n * w.panel.k; i++)
        codes[i] &= 0xbf; /* below 2 */
    return w;
}

/* Sums of integers do not depend on the order of their terms, so bits are those of the CPU. */
pare_status op_f16(op_run *r, size_t i)
{
    const size_t *const shape = halved_shapes[i % HALVED_SHAPES];
    const size_t m = halved_tokens[i / HALVED], n = shape[0], k = shape[1];
    pare_array x, y;
    PARE_TRY(op_begin(r, 1));
    const pare_linear w = make_exact(r, i % HALVED, n, k);
    const pare_linear *const only = &w;
    PARE_TRY(pare_linear_check(r->o.cx, only));
    if (r->d)
        r->cuda->f16 = true;
    PARE_TRY(op_put(r, inputs(r, m, k), m, k, &x));
    PARE_TRY(op_blank(r, m, n, &y));
    PARE_TRY(r->o.op->linears(&r->o, &only, 1, true, x, &y));
    return op_keep(r, y);
}

/* --- trellis codes ---------------------------------------------------------------------------- */

/* Products, those of decoded weights, those of the codes alone, and on tensor cores. */
enum { TURNED, EXACT, PLAIN, HALVES };

/* Spans of 16 to 128 rows and columns; 16 columns where sums are to be exact. */
static const size_t trellis_shapes[][2] = {{16, 16},   {48, 224}, {128, 288}, {80, 1296},
                                           {272, 384}, {32, 64},  {160, 528}};
static const size_t exact_shapes[][2] = {{16, 528}, {48, 1040}, {272, 592}};
static const size_t trellis_tokens[][4] = {{1, 3, 8, 9}, {1, 9, 33, 65}};
enum {
    TRELLIS_SHAPES = sizeof trellis_shapes / sizeof *trellis_shapes,
    EXACT_SHAPES = sizeof exact_shapes / sizeof *exact_shapes,
    TRELLIS_TOKENS = sizeof *trellis_tokens / sizeof **trellis_tokens
};
_Static_assert(8 * TRELLIS_TOKENS * (HALVES + 1) == OP_EXL3, "");

/* Signs times scales, or signs. */
static uint16_t *signs(op_run *r, size_t n, bool alone)
{
    uint16_t *const x = op_halves(r, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (uint16_t)((alone ? 0x3c00 : x[i]) | (x[i] & 1) << 15);
    return x;
}

/* In spans of 16 values all but one are 0 once they are turned: values of codes are multiples of
 * 2^-20, and sums of a few are exact. */
static float *few_inputs(op_run *r, size_t m, const pare_linear *w)
{
    float *const x = op_bytes(r, m * w->k * sizeof *x);
    for (size_t i = 0; i < m * w->k; i++) {
        const size_t t = i / w->k, j = i % w->k, one = (j / 16 * 7 + t * 5) % 16;
        x[i] = __builtin_parity((unsigned)(j & one)) ? -0.25f : 0.25f;
        x[i] *= pare_f16_to_f32(w->column_scales[j]);
    }
    return x;
}

static pare_linear make_trellis(op_run *r, unsigned bits, int how, size_t n, size_t k)
{
    const size_t k32 = pare_round_up(k, PARE_ATOM_K), tiles = n / PARE_EXL3_TILE * (k32 / 16);
    uint8_t *const codes = random_bytes(r, tiles * pare_exl3_tile_bytes(bits));
    pare_linear w = {.name = "trellis",
                     .n = n,
                     .k = k,
                     .bits = bits,
                     .encoding = PARE_ENCODING_EXL3,
                     .activation = {PARE_ACTIVATION_FLOAT, 0, 0},
                     .panel = {.codes = codes, .n = n, .k = k32, .group = k32}};
    if (how != PLAIN) {
        w.row_scales = signs(r, n, false);
        w.column_scales = signs(r, k, how == HALVES);
    }
    return w;
}

/* The opposite signs. */
static uint16_t *opposite(op_run *r, const uint16_t *x, size_t n)
{
    uint16_t *const y = op_halves(r, n);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] ^ 0x8000;
    return y;
}

/* Two that read the same inputs, the second of them with a bias. */
pare_status op_exl3(op_run *r, size_t i)
{
    const int how = (int)(i / 8 / TRELLIS_TOKENS);
    const size_t *const shape =
        how == HALVES ? exact_shapes[i % EXACT_SHAPES] : trellis_shapes[i % TRELLIS_SHAPES];
    const size_t m = trellis_tokens[how == HALVES][i / 8 % TRELLIS_TOKENS];
    const size_t k = shape[1], rows[2] = {shape[0], 16};
    pare_linear w[2];
    pare_array x, y[2];
    PARE_TRY(op_begin(r, 1));
    for (size_t j = 0; j < 2; j++) {
        w[j] = make_trellis(r, 1 + (i + j) % 8, how, rows[j], k);
        PARE_TRY(pare_linear_check(r->o.cx, &w[j]));
        PARE_TRY(op_blank(r, m, rows[j], &y[j]));
    }
    w[1].bias = op_mild(r, rows[1]);
    if (how == HALVES)
        w[1].column_scales = opposite(r, w[0].column_scales, k);
    if (r->d) {
        r->cuda->f16 = how == HALVES;
        r->cuda->panel_bytes = r->cuda->rounded_bytes = 1; /* as few rows at a time as may be */
    }
    PARE_TRY(op_put(r, how == HALVES ? few_inputs(r, m, w) : op_floats(r, m * k), m, k, &x));
    PARE_TRY(
        r->o.op->linears(&r->o, (const pare_linear *const[]){&w[0], &w[1]}, 2, how == EXACT, x, y));
    PARE_TRY(op_keep(r, y[0]));
    return op_keep(r, y[1]);
}

/* --- integers in every shape of a block ------------------------------------------------------ */

static const struct {
    unsigned bits;
    bool sparse;
    size_t group; /* 0: of a row */
    pare_encoding encoding;
} tiled[] = {{2, false, 32, PARE_ENCODING_UNIFORM},  {2, false, 0, PARE_ENCODING_UNIFORM},
             {3, false, 64, PARE_ENCODING_UNIFORM},  {3, false, 128, PARE_ENCODING_UNIFORM},
             {4, false, 96, PARE_ENCODING_UNIFORM},  {4, false, 256, PARE_ENCODING_UNIFORM},
             {4, false, 128, PARE_ENCODING_UNIFORM}, {8, false, 32, PARE_ENCODING_UNIFORM},
             {8, false, 128, PARE_ENCODING_UNIFORM}, {8, false, 0, PARE_ENCODING_UNIFORM},
             {2, false, 32, PARE_ENCODING_TERNARY},  {2, false, 128, PARE_ENCODING_TERNARY},
             {4, true, 32, PARE_ENCODING_UNIFORM},   {4, true, 128, PARE_ENCODING_UNIFORM},
             {8, true, 64, PARE_ENCODING_UNIFORM},   {8, true, 256, PARE_ENCODING_UNIFORM}};
enum { TILED = sizeof tiled / sizeof *tiled };

/* More columns than a block takes at a time; the last ones for the kernels of many tokens. */
static const size_t sizes[][3] = {
    {5, 27, 4170}, {12, 27, 2120}, {30, 27, 1090}, {40, 70, 740}, {130, 139, 740}};
enum { SIZES = sizeof sizes / sizeof *sizes };
_Static_assert(TILED *SIZES == OP_TILES, "");

static pare_linear make_tiled(op_run *r, size_t i, size_t n, size_t k)
{
    const pare_activation token = {PARE_ACTIVATION_TOKEN, 8, 0};
    if (!tiled[i].sparse)
        return tiny_packed(&r->arena,
                           (tiny_kind){.bits = tiled[i].bits,
                                       .group = tiled[i].group,
                                       .zeros = !tiled[i].encoding,
                                       .encoding = tiled[i].encoding,
                                       .activation = token},
                           i, n, k);
    pare_linear w = two_of_four(r, tiled[i].bits, n, k, tiled[i].group);
    w.name = "2:4";
    w.n = n;
    w.k = k;
    w.bits = tiled[i].bits;
    w.sparsity = PARE_SPARSITY_2_4;
    w.activation = token;
    return w;
}

/* On the device by the kernels that are for more rows. */
static pare_status multiply_tiles(pare_cuda *c, const pare_linear *host, pare_array x, pare_array y)
{
    const size_t m = x.rows, k = host->panel.k, group = pare__x8_group_of(host);
    const size_t groups = (k + group - 1) / group;
    void *codes, *scales, *sums;
    pare__cuda_linear there;
    PARE_TRY(pare__cuda_linear_of(c, host, &there));
    PARE_TRY(pare__cuda_scratch_take(c, m * k, &codes));
    PARE_TRY(pare__cuda_scratch_take(c, m * groups * sizeof(float), &scales));
    PARE_TRY(pare__cuda_scratch_take(c, m * groups * sizeof(int32_t), &sums));
    PARE__CUDA_RUN(c, quant_x8, .x = x.at, .codes = codes, .scales = scales, .sums = sums,
                   .ldx = x.width, .m = m, .k = host->k, .group = group, .span = k, .top = 127);
#define PRODUCT(name)                                                                              \
    PARE__CUDA_RUN(c, gemm_x8_many_##name, .x = {codes, scales, sums, m, k, group},                \
                   .w = there.w.panel, .y = y.at, .ldy = y.width, .n = host->n)
    if (host->sparsity && host->bits == 4)
        PRODUCT(s4);
    else if (host->sparsity)
        PRODUCT(s8);
    else if (host->encoding == PARE_ENCODING_TERNARY)
        PRODUCT(t2);
    else if (host->bits == 2)
        PRODUCT(q2);
    else if (host->bits == 3)
        PRODUCT(q3);
    else if (host->bits == 4)
        PRODUCT(q4);
    else
        PRODUCT(q8);
#undef PRODUCT
    return PARE_OK;
}

pare_status op_tiles(op_run *r, size_t i)
{
    const size_t *const size = sizes[i / TILED], m = size[0], n = size[1], k = size[2];
    const bool many = i / TILED == SIZES - 1;
    const size_t count = m <= PARE_CUDA_X8_FEW ? 3 : 1; /* few tokens: in one kernel */
    pare_array x, y[3];
    pare_linear w[3];
    const pare_linear *const all[] = {&w[0], &w[1], &w[2]};
    PARE_TRY(op_begin(r, 1));
    for (size_t j = 0; j < count; j++) {
        w[j] = make_tiled(r, i % TILED, n + 9 * j, k);
        PARE_TRY(pare_linear_check(r->o.cx, &w[j]));
        PARE_TRY(op_blank(r, m, n + 9 * j, &y[j]));
    }
    PARE_TRY(op_put(r, op_floats(r, m * k), m, k, &x));
    PARE_TRY(r->d && many ? multiply_tiles(r->cuda, all[0], x, y[0])
                          : r->o.op->linears(&r->o, all, count, false, x, y));
    for (size_t j = 0; j < count; j++)
        PARE_TRY(op_keep(r, y[j]));
    return PARE_OK;
}
