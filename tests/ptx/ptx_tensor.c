/* tests/ptx/ptx_tensor.c - mma and ldmatrix: 16 x k times k x 8.
 *
 * Lane 4 g + t holds, in a register of A or B, e = 4 / bytes elements of row (of A) or column (of
 * B) g, so lanes 4 g .. 4 g + 3 hold 4 e neighbours: register r of A those of row g + 8 (r % 2)
 * from 4 e (r / 2), register r of B those from 4 e r. Register c of C and D is row g + 8 (c / 2),
 * column 2 t + c % 2. Integers are exact in F32: 255 * 255 * 64 < 2^24. */
#include <math.h>
#include <stdio.h>

#include "kernels/half.h"
#include "tests/ptx/ptx_parse.h"

enum { ROWS = 16, COLUMNS = 8, MOST_K = 64 };
typedef enum element { U8, S8, F16, BF16 } element;

/* What an opcode says; the units of D, A, B, C and the metadata follow it in the pool. */
typedef struct shape {
    uint32_t k, kept; /* columns of A; those that it holds: k, or k / 2 of sparse ones */
    uint32_t a, b;    /* registers */
    uint32_t type_a, type_b;
    uint32_t selector;
} shape;
enum { SHAPE_WORDS = sizeof(shape) / sizeof(uint32_t), UNITS_CD = 4 };

/* The elements of a register, those of lane 0 first. */
static void unpack(float *to, const ptx_lanes *r, element type)
{
    if (type == U8 || type == S8) {
        uint8_t bytes[4 * PTX_LANES];
        memcpy(bytes, r->u32, sizeof bytes);
        for (int j = 0; j < 4 * PTX_LANES; j++)
            to[j] = (float)(type == U8 ? bytes[j] : (int8_t)bytes[j]);
        return;
    }
    uint16_t halves[2 * PTX_LANES];
    memcpy(halves, r->u32, sizeof halves);
    if (type == BF16)
        for (int j = 0; j < 2 * PTX_LANES; j++)
            to[j] = pare_bf16_to_f32(halves[j]);
    else
        for (int j = 0; j < 2 * PTX_LANES; j++) { /* without branches, as pare_f16_to_f32() */
            const uint32_t low = (halves[j] & 0x7fffu) << 13, sign = (halves[j] & 0x8000u) << 16;
            const uint32_t bits = pare_f32_bits(pare_f32_from_bits(low) * 0x1p112f);
            to[j] = pare_f32_from_bits(bits | sign | (low >= 0xf800000u ? 0x7f800000u : 0));
        }
}

static uint32_t run_of(uint32_t type)
{
    return type <= S8 ? 16 : 8;
}

static void load_a(const ptx_warp *w, const shape *s, const uint32_t *units, float a[ROWS][MOST_K])
{
    const uint32_t run = run_of(s->type_a);
    for (uint32_t r = 0; r < s->a; r++) {
        float elements[4 * PTX_LANES];
        unpack(elements, ptx_reg(w, units[r]), s->type_a);
        for (uint32_t g = 0; g < 8; g++) {
            float *const to = &a[g + 8 * (r % 2)][run * (r / 2)];
            memcpy(to, &elements[run * g], 8 * sizeof *to); /* sizes that are known are fast */
            if (run == 16)
                memcpy(to + 8, &elements[run * g + 8], 8 * sizeof *to);
        }
    }
}

static void load_b(const ptx_warp *w, const shape *s, const uint32_t *units,
                   float b[MOST_K][COLUMNS])
{
    const uint32_t run = run_of(s->type_b);
    for (uint32_t r = 0; r < s->b; r++) {
        float elements[4 * PTX_LANES];
        unpack(elements, ptx_reg(w, units[r]), s->type_b);
        for (uint32_t j = 0; j < run; j++)
            for (uint32_t g = 0; g < 8; g++)
                b[run * r + j][g] = elements[run * g + j];
    }
}

/* The nibbles of a row: where its lane and bits are. Of group g of 4 lanes, row g + 8 h: 8-bit
 * values have 32 columns in lane 2 word + h; F16 ones 16 columns in half h of a lane of the pair
 * that the selector names, or 16 columns in all in the lane that it names. */
static uint32_t nibbles_of(const ptx_warp *w, const shape *s, uint32_t unit, uint32_t row,
                           uint32_t word, uint32_t *lane)
{
    const uint32_t *const lanes = ptx_reg(w, unit)->u32, g = row % 8;
    if (s->type_a <= S8) { /* m16n8k64: 32 columns a word */
        *lane = 4 * g + row / 8 + 2 * word;
        return lanes[*lane];
    }
    *lane = 4 * g + (s->k == 32 ? 2 * s->selector + word : s->selector);
    return lanes[*lane] >> 16 * (row / 8) & 0xffff;
}

/* Puts what is kept into its columns. */
static bool expand(ptx_warp *w, const ptx_ins *in, const shape *s, uint32_t unit,
                   float a[ROWS][MOST_K])
{
    const uint32_t columns = s->type_a <= S8 ? 32 : 16; /* of a word of nibbles */
    for (uint32_t row = 0; row < ROWS; row++) {
        float full[MOST_K] = {0};
        for (uint32_t word = 0; word < s->k / columns; word++) {
            uint32_t lane;
            const uint32_t nibbles = nibbles_of(w, s, unit, row, word, &lane);
            if (ptx_undef(w, unit) >> lane & 1) {
                ptx_fail(w, in, 1u << lane, 0, "the metadata has an undefined value");
                return false;
            }
            for (uint32_t q = 0; q < columns / 4; q++) {
                const uint32_t nibble = nibbles >> 4 * q & 15, first = nibble & 3,
                               second = nibble >> 2;
                if (first >= second) {
                    ptx_fail(w, in, 1u << lane, 0,
                             "metadata %#x of row %u, columns %u to %u: its indices do not ascend",
                             nibble, row, columns * word + 4 * q, columns * word + 4 * q + 3);
                    return false;
                }
                const uint32_t at = columns * word + 4 * q, place = at / 2;
                full[at + first] = a[row][place];
                full[at + second] = a[row][place + 1];
            }
        }
        memcpy(a[row], full, sizeof full);
    }
    return true;
}

/* ---- sums: products are exact in these types, so that fused or not makes no difference ---- */
typedef float row_f32 __attribute__((vector_size(COLUMNS * sizeof(float))));
typedef double half_f64 __attribute__((vector_size(COLUMNS / 2 * sizeof(double))));

static void sums_f32(const shape *s, float a[ROWS][MOST_K], float b[MOST_K][COLUMNS], row_f32 *sum)
{
    for (int row = 0; row < ROWS; row += 4) {
        row_f32 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        for (uint32_t k = 0; k < s->k; k++) {
            row_f32 x;
            memcpy(&x, b[k], sizeof x);
            s0 += a[row][k] * x;
            s1 += a[row + 1][k] * x;
            s2 += a[row + 2][k] * x;
            s3 += a[row + 3][k] * x;
        }
        sum[row] = s0;
        sum[row + 1] = s1;
        sum[row + 2] = s2;
        sum[row + 3] = s3;
    }
}

/* The left or right half of the columns. */
static void sums_f64(const shape *s, float a[ROWS][MOST_K], float b[MOST_K][COLUMNS], int side,
                     double sum[ROWS * COLUMNS])
{
    half_f64 wide[MOST_K];
    for (uint32_t k = 0; k < s->k; k++)
        for (int c = 0; c < COLUMNS / 2; c++)
            wide[k][c] = (double)b[k][4 * side + c];
    for (int row = 0; row < ROWS; row += 4) {
        half_f64 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        for (uint32_t k = 0; k < s->k; k++) {
            s0 += (double)a[row][k] * wide[k];
            s1 += (double)a[row + 1][k] * wide[k];
            s2 += (double)a[row + 2][k] * wide[k];
            s3 += (double)a[row + 3][k] * wide[k];
        }
        double *const to = &sum[COLUMNS * row + 4 * side];
        memcpy(to, &s0, sizeof s0);
        memcpy(to + COLUMNS, &s1, sizeof s1);
        memcpy(to + 2 * COLUMNS, &s2, sizeof s2);
        memcpy(to + 3 * COLUMNS, &s3, sizeof s3);
    }
}

/* Towards 0, to `bits` bits below 2^top. */
static double cut(double v, int top, int bits)
{
    return ldexp(trunc(ldexp(v, bits - top)), top - bits);
}

/* n terms and c: all cut to 2^-bits of the largest, added, the sum cut to F32. */
static float fused(const double *terms, uint32_t n, float c, int bits)
{
    int top = INT32_MIN;
    double sum = 0;
    for (uint32_t k = 0; k <= n; k++) {
        const double v = k < n ? terms[k] : (double)c;
        if (!isfinite(v))
            return NAN; /* the caller adds these as IEEE does */
        if (v != 0 && ilogb(v) > top)
            top = ilogb(v);
    }
    if (top == INT32_MIN)
        return 0;
    for (uint32_t k = 0; k <= n; k++)
        sum += cut(k < n ? terms[k] : (double)c, top, bits);
    return sum == 0 ? 0 : (float)cut(sum, ilogb(sum) < -126 ? -126 : ilogb(sum), 23);
}

/* One element by the model of a chip. */
static float modelled(const shape *s, const float *a, float b[MOST_K][COLUMNS], int column, float c,
                      ptx_model model, double exact)
{
    const uint32_t step = model == PTX_A100 ? 8 : 16;
    const int bits = model == PTX_A100 ? 24 : 25;
    for (uint32_t k = 0; k < s->k; k += step) {
        double terms[16];
        const uint32_t n = s->k - k < step ? s->k - k : step;
        for (uint32_t j = 0; j < n; j++)
            terms[j] = (double)a[k + j] * (double)b[k + j][column];
        c = fused(terms, n, c, bits);
        if (isnan(c) || isinf(c))
            return (float)exact;
    }
    return c;
}

static bool all_known(ptx_warp *w, const ptx_ins *in, const uint32_t *units, uint32_t n,
                      const char *what)
{
    for (uint32_t r = 0; r < n; r++)
        if (!ptx_known(w, in, units[r], what))
            return false;
    return true;
}

static bool all_lanes(ptx_warp *w, const ptx_ins *in)
{
    if (!ptx_gather(w, in, w->live))
        return false;
    if (w->act != ~0u)
        ptx_fail(w, in, ~w->act, 0, "an instruction of the whole warp lacks lanes");
    return w->act == ~0u;
}

/* Register r, lane i of C and D is element 64 (r / 2) + 2 i + r % 2, row after row. */
static void finish_f(ptx_warp *w, const shape *s, const uint32_t *d, const uint32_t *c,
                     float a[ROWS][MOST_K], float b[MOST_K][COLUMNS])
{
    const ptx_model model = w->block->grid->launch->options.model;
    double sum[ROWS * COLUMNS];
    float old[ROWS * COLUMNS];
    sums_f64(s, a, b, 0, sum);
    sums_f64(s, a, b, 1, sum);
    for (int r = 0; r < UNITS_CD; r++)
        for (int i = 0; i < PTX_LANES; i++)
            old[64 * (r / 2) + 2 * i + r % 2] = ptx_reg(w, c[r])->f32[i];
    for (int k = 0; k < ROWS * COLUMNS; k++)
        sum[k] += (double)old[k];
    for (int k = 0; model != PTX_EXACT && k < ROWS * COLUMNS; k++)
        sum[k] = (double)modelled(s, a[k / COLUMNS], b, k % COLUMNS, old[k], model, sum[k]);
    for (int k = 0; k < ROWS * COLUMNS; k++) {
        const float v = (float)sum[k];
        old[k] = v == v ? v : pare_f32_from_bits(0x7fffffffu);
    }
    for (int r = 0; r < UNITS_CD; r++)
        for (int i = 0; i < PTX_LANES; i++)
            ptx_reg(w, d[r])->f32[i] = old[64 * (r / 2) + 2 * i + r % 2];
}

static void finish_i(ptx_warp *w, const shape *s, const uint32_t *d, const uint32_t *c,
                     float a[ROWS][MOST_K], float b[MOST_K][COLUMNS])
{
    row_f32 sum[ROWS];
    float flat[ROWS * COLUMNS];
    sums_f32(s, a, b, sum);
    memcpy(flat, sum, sizeof flat);
    for (int r = 0; r < UNITS_CD; r++) {
        const ptx_lanes *const rc = ptx_reg(w, c[r]);
        ptx_lanes *const rd = ptx_reg(w, d[r]);
        for (int i = 0; i < PTX_LANES; i++)
            rd->u32[i] = rc->u32[i] + (uint32_t)(int32_t)flat[64 * (r / 2) + 2 * i + r % 2];
    }
}

/* pool at d: the shape, then units. */
static void mma(ptx_warp *w, const ptx_ins *in)
{
    const uint32_t *const more = w->block->grid->kernel->module->pool + in->d;
    shape s;
    memcpy(&s, more, sizeof s);
    const uint32_t *const d = more + SHAPE_WORDS, *const a = d + UNITS_CD, *const b = a + s.a,
                          *const c = b + s.b, *const meta = c + UNITS_CD;
    if (!all_lanes(w, in) || !all_known(w, in, a, s.a, "operand A of mma") ||
        !all_known(w, in, b, s.b, "operand B of mma") ||
        !all_known(w, in, c, UNITS_CD, "operand C of mma"))
        return;
    float left[ROWS][MOST_K], right[MOST_K][COLUMNS];
    load_a(w, &s, a, left);
    load_b(w, &s, b, right);
    if (s.kept < s.k && !expand(w, in, &s, *meta, left))
        return;
    if (s.type_a <= S8)
        finish_i(w, &s, d, c, left, right);
    else
        finish_f(w, &s, d, c, left, right);
    for (uint32_t r = 0; r < UNITS_CD; r++)
        ptx_spread(w, d[r], 0);
}

/* ---- lowering ---- */
static bool words_after(ptx_parser *p, bool *sparse, char *size, char *types)
{
    static const char *const starts[] = {"mma.sync.aligned.", "mma.sp.sync.aligned.",
                                         "mma.sp::ordered_metadata.sync.aligned."};
    for (size_t k = 0; k < 3; k++) {
        const size_t n = strlen(starts[k]);
        if (strncmp(p->opcode, starts[k], n) != 0)
            continue;
        *sparse = k > 0;
        return sscanf(p->opcode + n, "%15[^.].row.col.%31s", size, types) == 2;
    }
    return false;
}

static bool shape_of(ptx_parser *p, shape *s)
{
    char size[16], types[32], type_a[8], type_b[8];
    bool sparse = false;
    if (!words_after(p, &sparse, size, types))
        return false;
    *s = (shape){.a = 4};
    if (strcmp(types, "f32.f16.f16.f32") == 0)
        s->type_a = s->type_b = F16;
    else if (strcmp(types, "f32.bf16.bf16.f32") == 0)
        s->type_a = s->type_b = BF16;
    else if (sscanf(types, "s32.%2[us8].%2[us8].s32", type_a, type_b) == 2 && strlen(types) == 13 &&
             type_a[1] == '8' && type_b[1] == '8') {
        s->type_a = *type_a == 'u' ? U8 : S8;
        s->type_b = *type_b == 'u' ? U8 : S8;
    } else {
        return false;
    }
    char end;
    if (sscanf(size, "m16n8k%u%c", &s->k, &end) != 1)
        return false;
    const uint32_t full = s->type_a <= S8 ? 32 : 16; /* what four registers of A hold */
    const bool halved = !sparse || s->type_a > S8;   /* metadata of 8 bits: k = 64 alone */
    s->kept = sparse ? s->k / 2 : s->k;
    s->a = s->kept == full ? 4 : 2;
    s->b = s->k / (full / 2);
    return s->kept == full || (halved && s->kept == full / 2);
}

void ptx_lower_mma(ptx_parser *p)
{
    shape s;
    if (!shape_of(p, &s)) {
        ptx_error(p, "opcode '%s' is not known", p->opcode);
        return;
    }
    const bool sparse = s.kept < s.k;
    if (!ptx_need_operands(p, sparse ? 6 : 4, sparse ? 6 : 4))
        return;
    if (sparse) {
        const ptx_atom *const selector = ptx_plain(p, 5);
        const uint32_t most = s.type_a <= S8 ? 0 : s.k == 32 ? 1 : 3;
        if (selector->kind != PTX_A_NUMBER || selector->value > most)
            ptx_error(p, "'%s': the selector goes up to %u", p->opcode, most);
        s.selector = (uint32_t)selector->value;
    }
    uint32_t words[SHAPE_WORDS];
    memcpy(words, &s, sizeof s);
    const uint32_t at = ptx_pooled(p, words[0]);
    for (size_t k = 1; k < SHAPE_WORDS; k++)
        (void)ptx_pooled(p, words[k]);
    (void)ptx_vector(p, 0, UNITS_CD, '4', true);
    (void)ptx_vector(p, 1, s.a, '4', false);
    (void)ptx_vector(p, 2, s.b, '4', false);
    (void)ptx_vector(p, 3, UNITS_CD, '4', false);
    if (sparse)
        (void)ptx_pooled(p, ptx_use(p, ptx_plain(p, 4), '4'));
    ptx_emit(p, mma, PTX_TENSOR)->d = at;
}

/* Lanes 8 q .. 8 q + 7 name the 16-byte rows of matrix q; lanes 4 g .. 4 g + 3 of register q get
 * row g, or with x2 column g. c: matrices. */
static void ldmatrix(ptx_warp *w, const ptx_ins *in)
{
    if (!all_lanes(w, in))
        return;
    const uint32_t *const units = w->block->grid->kernel->module->pool + in->d;
    ptx_access t;
    ptx_access_begin(&t, PTX_SHARED, 16, false);
    w->act = in->c == 4 ? ~0u : (1u << 8 * in->c) - 1;
    const bool found = ptx_reach(w, in, &t) && ptx_note(w, in, &t);
    const uint32_t undef = found && w->block->shared_defined ? ptx_undefined(w, &t, 0, 16) : 0;
    w->act = ~0u;
    for (uint32_t q = 0; found && q < in->c; q++) {
        ptx_lanes *const r = ptx_reg(w, units[q]);
        uint16_t rows[8][8];
        uint32_t bits = 0;
        for (uint32_t g = 0; g < 8; g++) {
            memcpy(rows[g], t.host[8 * q + g], 16);
            if (undef >> (8 * q + g) & 1) /* some of the row: all that get any of it */
                bits |= in->x2 ? 0x11111111u << g / 2 : 15u << 4 * g;
        }
        for (uint32_t i = 0; i < PTX_LANES; i++) {
            const uint32_t g = i / 4, j = 2 * (i % 4);
            r->u32[i] = in->x2 ? rows[j][g] | (uint32_t)rows[j + 1][g] << 16
                               : rows[g][j] | (uint32_t)rows[g][j + 1] << 16;
        }
        ptx_spread(w, units[q], bits);
    }
}

void ptx_lower_ldmatrix(ptx_parser *p)
{
    const uint32_t n = ptx_has(p, "x4") ? 4 : ptx_has(p, "x2") ? 2 : 1;
    const bool trans = ptx_has(p, "trans");
    char expected[80];
    const char *const space = ptx_has(p, "shared::cta") ? "shared::cta" : "shared";
    (void)snprintf(expected, sizeof expected, "ldmatrix.sync.aligned.m8n8.x%u%s.%s.b16", n,
                   trans ? ".trans" : "", space);
    if (strcmp(p->opcode, expected) != 0) {
        ptx_error(p, "opcode '%s' is not known", p->opcode);
        return;
    }
    if (!ptx_need_operands(p, 2, 2))
        return;
    uint32_t x = PTX_SHARED;
    const uint32_t d = ptx_vector(p, 0, n, '4', true), a = ptx_address(p, 1, PTX_SHARED, &x);
    const int64_t offset = p->operands[1].offset;
    ptx_ins *const in = ptx_emit(p, ldmatrix, PTX_ACCESS_SHARED);
    in->d = d;
    in->a = a;
    in->b = (uint32_t)(int32_t)offset;
    in->c = n;
    in->x = x;
    in->x2 = trans;
}
