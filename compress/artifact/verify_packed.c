#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/artifact/verify_internal.h"
#include "kernels/exl3.h"
#include "kernels/layout.h"
#include "solve/super.h"

enum { F16_EXPONENT = 0x7c00, F16_SIGN = 0x8000 };

/* A packed linear with its planes as they lie in the files, at any alignment. */
typedef struct planes {
    pare_verify_run *v;
    pare_packed_linear p;
    const pare_linear *l; /* as the runtime has it */
    const unsigned char *plane[PARE_PLANES];
    pare_plane codes;    /* whose codes are looked at */
    size_t groups, rows; /* padded */
} planes;

static unsigned half_at(const unsigned char *p, size_t i)
{
    return p[2 * i] | (unsigned)p[2 * i + 1] << 8;
}

static float float_at(const unsigned char *p, size_t i)
{
    float x;
    memcpy(&x, p + i * sizeof x, sizeof x);
    return x;
}

/* Row of item i of a plane [row block][groups][8]. */
static size_t row_of(size_t i, size_t groups)
{
    return i / (groups * PARE_ATOM_N) * PARE_ATOM_N + i % PARE_ATOM_N;
}

/* Scales of F16: 0 or positive (Q6_K and symmetric uniform grids: or negative); 0 in padding. */
static void check_scales(const planes *c, pare_plane plane, size_t groups)
{
    const char *const name = pare_packed_plane_name(plane);
    const bool either = plane == PARE_PLANE_SCALES &&
                        pare_encodings[c->p.encoding].zero_in_middle && c->p.symmetric;
    const unsigned sign = either ? 0 : F16_SIGN;
    for (size_t i = 0; i < c->rows * groups; i++) {
        const unsigned scale = half_at(c->plane[plane], i);
        const size_t row = row_of(i, groups);
        if ((scale & sign) || (scale & F16_EXPONENT) == F16_EXPONENT) {
            pare__verify_found(c->v, "%s.%s: row %zu: 0x%04x is not %s F16", c->p.name, name, row,
                               scale, sign ? "0 or a positive" : "a finite");
            return;
        }
        if (row >= c->p.n && scale != 0) {
            pare__verify_found(c->v, "%s.%s: padding row %zu has scale 0x%04x", c->p.name, name,
                               row, scale);
            return;
        }
    }
}

/* Bytes of sub-blocks: s and o of Q4_K have 6 bits; padding rows have 0. */
static void check_sub(const planes *c)
{
    const size_t bytes = c->p.k / PARE_ATOM_K * PARE_SUPER_BYTES / PARE_ATOM_N;
    for (size_t i = 0; i < c->rows * bytes; i++) {
        const unsigned byte = c->plane[PARE_PLANE_SUB][i];
        const size_t row = row_of(i, bytes);
        if (row >= c->p.n ? byte != 0 : c->plane[PARE_PLANE_MINIMA] && byte > 63) {
            pare__verify_found(c->v, "%s.sub: row %zu: %u is %s", c->p.name, row, byte,
                               row >= c->p.n ? "in the padding" : "not below 64");
            return;
        }
    }
}

static void check_zeros(const planes *c)
{
    const unsigned middle = pare_packed_zero_code(&c->p), end = 1u << c->p.bits;
    for (size_t i = 0; i < c->rows * c->groups; i++) {
        const unsigned zero = c->plane[PARE_PLANE_ZEROS][i];
        const size_t row = row_of(i, c->groups);
        if (zero >= end) {
            pare__verify_found(c->v, "%s.zeros: row %zu: %u is not below %u", c->p.name, row, zero,
                               end);
            return;
        }
        if (row >= c->p.n && zero != middle) {
            pare__verify_found(c->v, "%s.zeros: padding row %zu has zero point %u", c->p.name, row,
                               zero);
            return;
        }
    }
}

/* Scales that are stored as codes: what they stand for, and the code of padding. */
static void check_coded_scales(const planes *c)
{
    const unsigned pad =
        pare_encodings[c->p.encoding].scales == PARE_SCALES_STEPS ? PARE_STEPS_ZERO : 0;
    for (size_t i = 0; i < c->rows * c->groups; i++) {
        const size_t row = row_of(i, c->groups);
        const unsigned code = c->plane[PARE_PLANE_SCALES][i], scale = c->l->panel.scales[i];
        if (row >= c->p.n ? code != pad
                          : (scale & F16_SIGN) || (scale & F16_EXPONENT) == F16_EXPONENT) {
            pare__verify_found(c->v, "%s.scales: row %zu: code %u stands for 0x%04x", c->p.name,
                               row, code, scale);
            return;
        }
    }
}

static void check_steps(const planes *c)
{
    const size_t steps = (c->rows * c->groups + PARE_PACKED_STEP - 1) / PARE_PACKED_STEP;
    for (size_t i = 0; c->plane[PARE_PLANE_SCALE_STEPS] && i < steps; i++) {
        const float step = float_at(c->plane[PARE_PLANE_SCALE_STEPS], i);
        if (!(step >= 0)) {
            pare__verify_found(c->v, "%s.scale_steps: %g is below 0", c->p.name, (double)step);
            return;
        }
    }
}

/* Books of padding rows are 0, magnitudes are not negative. */
static void check_book(const planes *c)
{
    const bool binary = pare_encodings[c->p.encoding].decoding == PARE_DECODE_BINARY;
    const size_t width = binary ? 4 : (size_t)1 << c->p.bits;
    const size_t count = c->rows * width * (binary ? c->groups : 1);
    for (size_t i = 0; i < count; i++) {
        const size_t row = binary ? row_of(i / width, c->groups) : i / width;
        const unsigned value = half_at(c->plane[PARE_PLANE_BOOK], i);
        if ((row >= c->p.n && value != 0) || (binary && (value & F16_SIGN))) {
            pare__verify_found(c->v, "%s.book: row %zu: 0x%04x is %s", c->p.name, row, value,
                               row >= c->p.n ? "in the padding" : "negative");
            return;
        }
    }
}

/* Codes that stand for nothing: the fourth of ternary, the NaN of E4M3. */
static bool is_legal(const pare_packed_linear *l, uint8_t code)
{
    const float *const level = pare_encodings[l->encoding].level;
    return code <= pare_encoding_top(l->encoding, l->bits) && !(level && isnan(level[code]));
}

/* Codes of eight rows from `first` on; `zeros` is the plane or NULL. False once one is wrong. */
static bool check_block(const planes *c, const uint8_t *codes, size_t first, size_t width)
{
    const unsigned char *const zeros = c->plane[PARE_PLANE_ZEROS];
    const size_t k = pare_round_up(c->p.k, PARE_ATOM_K);
    for (size_t r = 0; r < PARE_ATOM_N; r++) {
        const bool real = first + r < c->p.n;
        const size_t last = (first / PARE_ATOM_N * c->groups + c->groups - 1) * PARE_ATOM_N + r;
        const uint8_t pad = real && zeros ? zeros[last] : pare_packed_zero_code(&c->p);
        for (size_t j = 0; j < k; j++) {
            const uint8_t code = codes[r * width + j];
            if (real && j < c->p.k ? is_legal(&c->p, code) : code == pad)
                continue;
            if (real && j < c->p.k)
                pare__verify_found(c->v, "%s.%s: row %zu, column %zu: %u stands for no %s value",
                                   c->p.name, pare_packed_plane_name(c->codes), first + r, j,
                                   (unsigned)code, pare_encodings[c->p.encoding].name);
            else
                pare__verify_found(
                    c->v, "%s.%s: padding of rows %zu .. %zu does not decode to zero", c->p.name,
                    pare_packed_plane_name(c->codes), first, first + PARE_ATOM_N - 1);
            return false;
        }
    }
    return true;
}

/* Every symbol stands for a value; tiles behind the last column are 0. */
static void check_tiles(const planes *c)
{
    const size_t bytes = pare_exl3_tile_bytes(c->p.bits);
    const size_t across = pare_round_up(c->p.k, PARE_ATOM_K) / PARE_EXL3_TILE;
    for (size_t i = 0; c->p.k % PARE_ATOM_K && i < c->p.n / PARE_EXL3_TILE; i++)
        for (size_t j = 0; j < bytes; j++)
            if (c->plane[c->codes][(i * across + across - 1) * bytes + j] != 0) {
                pare__verify_found(c->v, "%s.codes: padding of rows %zu .. %zu is not 0", c->p.name,
                                   i * PARE_EXL3_TILE, (i + 1) * PARE_EXL3_TILE - 1);
                return;
            }
}

static pare_status check_codes(const planes *c)
{
    if (pare_encoding_turns(c->p.encoding)) {
        check_tiles(c);
        return PARE_OK;
    }
    const size_t k = pare_round_up(c->p.k, PARE_ATOM_K);
    const pare_mark mark = pare_arena_mark(&c->v->arena);
    uint8_t *const codes = PARE_NEW(&c->v->arena, uint8_t, PARE_ATOM_N * k);
    if (!codes)
        return PARE_ENOMEM;
    const bool all = pare_encodings[c->p.encoding].level != NULL;
    const size_t block_bytes = k / PARE_ATOM_K * pare_atom_bytes(c->p.bits);
    const size_t from = all || c->p.k < k ? 0 : c->p.n / PARE_ATOM_N * PARE_ATOM_N;
    for (size_t row = from; row < c->rows; row += PARE_ATOM_N) {
        pare_unpack_codes(codes, k, c->plane[c->codes] + row / PARE_ATOM_N * block_bytes,
                          PARE_ATOM_N, k, c->p.bits);
        if (!check_block(c, codes, row, k))
            break;
    }
    pare_arena_rewind(&c->v->arena, mark);
    return PARE_OK;
}

/* Padding of the int8 columns that are kept apart is the code of 0. */
static pare_status check_outliers(const planes *c)
{
    planes apart = *c;
    apart.p = (pare_packed_linear){
        .name = c->p.name, .n = c->p.n, .k = c->p.outliers, .bits = 8, .symmetric = true};
    apart.plane[PARE_PLANE_ZEROS] = NULL;
    apart.codes = PARE_PLANE_OUTLIER_CODES;
    check_scales(c, PARE_PLANE_OUTLIER_SCALES, 1);
    return check_codes(&apart);
}

static pare_status check_all(const planes *c)
{
    if (pare_encoding_codes_scales(c->p.encoding))
        check_coded_scales(c);
    else if (c->plane[PARE_PLANE_SCALES])
        check_scales(c, PARE_PLANE_SCALES, c->groups);
    if (c->plane[PARE_PLANE_MINIMA])
        check_scales(c, PARE_PLANE_MINIMA, c->groups);
    if (c->plane[PARE_PLANE_SUB])
        check_sub(c);
    if (c->plane[PARE_PLANE_ZEROS])
        check_zeros(c);
    if (c->plane[PARE_PLANE_BOOK])
        check_book(c);
    check_steps(c);
    if (c->p.sparsity || pare_encoding_is_float(c->p.encoding)) {
        pare__verify_pruned(c->v, &c->p, c->l);
        return PARE_OK;
    }
    PARE_TRY(check_codes(c));
    return c->plane[PARE_PLANE_OUTLIER_CODES] ? check_outliers(c) : PARE_OK;
}

/* What the loader found is found here as well. */
pare_status pare__verify_packed(pare_verify_run *v, const pare_linear *l)
{
    planes c = {.v = v, .l = l, .rows = pare_round_up(l->n, PARE_PAD_N)};
    const pare_json *const linears = pare_json_get(v->checkpoint.index, "linears");
    PARE_TRY(pare_packed_linear_read(v->cx, l->name, pare_json_get(linears, l->name), &c.p));
    c.groups = pare_packed_linear_groups(&c.p);
    const pare_mark mark = pare_arena_mark(&v->arena);
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        const char *const plane = pare_packed_plane_name(p);
        const size_t len = strlen(l->name) + strlen(plane) + 2;
        char *const name = PARE_NEW(&v->arena, char, len);
        pare_tensor t;
        if (!name)
            return PARE_ENOMEM;
        (void)snprintf(name, len, "%s.%s", l->name, plane);
        const pare_tensor *const found = pare_packed_plane_shape(&c.p, p, &t)
                                             ? pare_checkpoint_find(&v->checkpoint, name)
                                             : NULL;
        c.plane[p] = found ? found->data : NULL;
    }
    pare_arena_rewind(&v->arena, mark);
    return check_all(&c);
}
