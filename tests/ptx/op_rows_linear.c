/* Products with weights of every encoding, of few tokens and many, with rows and columns that no
 * tile divides. */
#include "tests/ptx/op_rows.h"

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

static const size_t tokens[] = {1, 2, 3, 8, 16, 17, 64, 65};
static const size_t shapes[][2] = {{17, 70}, {33, 130}, {1, 31}, {7, 288}, {41, 33}};
enum {
    KINDS = TINY_KINDS + sizeof others / sizeof *others,
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
static pare_linear two_of_four(op_run *r, unsigned bits, size_t n, size_t k)
{
    const size_t n16 = pare_round_up(n, PARE_PAD_N), k32 = pare_round_up(k, PARE_ATOM_K);
    const size_t kept = pare_24_kept(k32);
    uint8_t *const indices = random_bytes(r, n16 * kept / 4);
    for (size_t i = 0; i < n16 * kept / 4; i++)
        indices[i] = (uint8_t)(i % 2 ? indices[i] | 0xaa : indices[i] & 0x55);
    pare_linear w = {.panel = {.n = n16, .k = k32, .group = 32, .indices = indices}};
    if (bits == 16) {
        w.panel.values = op_halves(r, n16 * kept);
        w.panel.ldv = kept;
    } else {
        w.panel.codes = random_bytes(r, n16 * kept * bits / 8);
        w.panel.scales = op_halves(r, n16 * ((k32 + 31) / 32));
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
                    : kind->sparsity == PARE_SPARSITY_2_4   ? two_of_four(r, kind->bits, n, k)
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
    if (kind >= TINY_KINDS)
        return make_other(r, &others[kind - TINY_KINDS], n, k);
    const tiny_kind t = tiny_kinds[kind];
    return t.bits ? tiny_packed(&r->arena, t, kind, n, k)
                  : tiny_dense(&r->arena, t.dtype, kind, n, k);
}

/* Two that read the same inputs, the second of them with a bias. */
pare_status op_linears(op_run *r, size_t i)
{
    const size_t kind = i % KINDS, m = tokens[i / KINDS], *const shape = shapes[i % SHAPES];
    const size_t k = shape[1], rows[2] = {shape[0], 9};
    const bool exact = i % 3 == 2;
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
