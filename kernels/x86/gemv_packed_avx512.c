/* One token times packed weights that are decoded in registers, two blocks of 8 rows at a time; of
 * the last one alone, it twice. A lane of a vector belongs to one row and to the columns of one
 * remainder by 8 (its lane of the sum), so nothing is transposed but codes of codebooks:
 *
 * Uniform and table: a column of 16 rows; the code is shifted to the low bits of its lane, from
 * where a permutation takes the level.
 *
 * Super-blocks: the same, with a step and a minimum for every 32 or 16 columns; of 6 bits the low
 * four and the high two are levels of their own, which are added.
 *
 * FP8 and binary: 4 columns of 4 rows; 8-bit floats become F16, which the processor widens; the 4
 * values of a row and group are a quarter of one register and are picked inside it.
 *
 * Codebooks: 8 columns of 2 rows; each quarter of a register picks the bytes of F16 values out of
 * those of its row. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/gemv_avx512.h"

#ifdef PARE_VNNI
#include <assert.h>
#include <stdbool.h>

#include "kernels/layout.h"

enum {
    LANES = 8 /* of a sum */,
    QUADS = 4,
    AHEAD = 4096 /* bytes of prefetch distance, at least, of a block */
};

/* Where two blocks of rows lie; the second one `stride` bytes or `plane_stride` values behind. */
typedef struct pair {
    const uint8_t *codes;
    size_t stride, plane, plane_stride;
} pair;

static pair pair_at(const pare_panel *w, size_t row, unsigned bits)
{
    const size_t groups = (w->k + w->group - 1) / w->group;
    const size_t bytes = w->k / PARE_ATOM_K * pare_atom_bytes(bits);
    const size_t step = row + PARE_ATOM_N < w->n ? 1 : 0;
    return (pair){w->codes + row / PARE_ATOM_N * bytes, step * bytes, row * groups,
                  step * groups * PARE_ATOM_N};
}

/* Asks for a part of what follows both blocks, as they are read: begin to end, although it is two
 * places that are read. Memory answers one stream faster than two. */
PARE_INLINE void prefetch_atoms(const pair *p, const uint8_t *atom, unsigned bits)
{
    const size_t ahead = p->stride < AHEAD ? AHEAD : p->stride;
    const char *const from = (const char *)p->codes + 2 * (ahead + (size_t)(atom - p->codes));
    for (size_t line = 0; line < 2 * pare_atom_bytes(bits); line += 64)
        _mm_prefetch(from + line, _MM_HINT_T1);
    for (size_t line = 0; line < pare_atom_bytes(bits); line += 64) {
        _mm_prefetch((const char *)atom + NEAR + line, _MM_HINT_T0);
        _mm_prefetch((const char *)atom + p->stride + NEAR + line, _MM_HINT_T0);
    }
}

/* --- a column of 16 rows ---------------------------------------------------------------------- */

/* HALVES: of a table, with groups of 16 columns. */
typedef enum column_kind { UNIFORM, TABLE, HALVES } column_kind;

/* What 16 rows know about a group. */
typedef struct row_values {
    __m512 scale[2]; /* the second one: of columns 16 .. of an atom of HALVES */
    __m512 zero;     /* of uniform weights of up to 4 bits */
    __m512i zero_8;  /* of those of 8 bits, less 128 */
} row_values;

PARE_INLINE row_values group_values(const pare_panel *w, const pair *p, size_t g, unsigned bits,
                                    column_kind kind)
{
    const size_t at = p->plane + g * PARE_ATOM_N;
    row_values v = {.scale = {load_scale_blocks(w->scales + at, p->plane_stride)}};
    if (kind == HALVES)
        v.scale[1] = load_scale_blocks(w->scales + at + PARE_ATOM_N, p->plane_stride);
    if (kind != UNIFORM)
        return v;
    const __m512i zero = w->zeros ? load_zero_blocks(w->zeros + at, p->plane_stride)
                                  : _mm512_set1_epi32(1 << (bits - 1));
    v.zero = _mm512_cvtepi32_ps(zero);
    v.zero_8 = _mm512_sub_epi32(zero, _mm512_set1_epi32(128));
    return v;
}

/* Codes of column j of an atom in the low bits of the lanes; above them lie others. */
PARE_INLINE __m512i codes_at(const __m512i word[4], unsigned j, unsigned bits)
{
    const unsigned byte = j % 4 * 8;
    if (bits == 4)
        return _mm512_srli_epi32(word[j % 16 / 4], byte + j / 16 * 4);
    const __m512i low = _mm512_srli_epi32(word[j / 16], byte + j % 16 / 4 * 2);
    if (bits == 2)
        return low;
    const __m512i high =
        _mm512_rorv_epi32(word[2], _mm512_set1_epi32((int)(byte + j / 4 + 30) % 32));
    return _mm512_ternarylogic_epi32(_mm512_set1_epi32(3), low, high, 0xca);
}

/* Weights of column j; level has 16 entries, those of fewer codes again and again. */
PARE_INLINE __m512 column(const __m512i word[8], unsigned j, __m512 level, const row_values *v,
                          unsigned bits, column_kind kind)
{
    const __m512 scale = v->scale[kind == HALVES ? j / 16 : 0];
    if (bits == 8) {
        const __m512i high = _mm512_slli_epi32(word[j / 4], 24 - j % 4 * 8);
        const __m512i code = _mm512_sub_epi32(_mm512_srai_epi32(high, 24), v->zero_8);
        return _mm512_mul_ps(_mm512_cvtepi32_ps(code), scale);
    }
    const __m512 value = _mm512_permutexvar_ps(codes_at(word, j, bits), level);
    return _mm512_mul_ps(kind == UNIFORM ? _mm512_sub_ps(value, v->zero) : value, scale);
}

/* acc[l] += the first n columns of an atom times x. */
PARE_INLINE void add_columns(__m512 acc[LANES], const float *x, size_t n, const uint8_t *atom,
                             size_t stride, __m512 level, const row_values *v, unsigned bits,
                             column_kind kind)
{
    __m512i word[8];
    for (size_t l = 0; l < bits; l++)
        word[l] = load_blocks(atom + 32 * l, stride);
#pragma GCC unroll 32
    for (unsigned j = 0; j < PARE_ATOM_K; j++) {
        if (j >= n)
            return;
        acc[j % LANES] = _mm512_fmadd_ps(_mm512_set1_ps(x[j]),
                                         column(word, j, level, v, bits, kind), acc[j % LANES]);
    }
}

PARE_INLINE void gemv_columns(float *y, const float *x, size_t k, const pare_panel *w,
                              const float level[16], unsigned bits, column_kind kind)
{
    const __m512 levels = _mm512_loadu_ps(level);
    for (size_t row = 0; row < w->n; row += 2 * PARE_ATOM_N) {
        const pair p = pair_at(w, row, bits);
        const uint8_t *atom = p.codes;
        row_values v = group_values(w, &p, 0, bits, kind);
        __m512 acc[LANES];
        for (size_t l = 0; l < LANES; l++)
            acc[l] = _mm512_setzero_ps();
        for (size_t j = 0; j < k; j += PARE_ATOM_K, atom += pare_atom_bytes(bits)) {
            prefetch_atoms(&p, atom, bits);
            if (j % w->group == 0)
                v = group_values(w, &p, j / w->group, bits, kind);
            /* Whole atoms on their own: they need not count. */
            if (k - j >= PARE_ATOM_K)
                add_columns(acc, x + j, PARE_ATOM_K, atom, p.stride, levels, &v, bits, kind);
            else
                add_columns(acc, x + j, k - j, atom, p.stride, levels, &v, bits, kind);
        }
        for (size_t l = 0; l < 4; l++)
            acc[l] = _mm512_add_ps(acc[l], acc[l + 4]);
        store_blocks(y + row,
                     _mm512_add_ps(_mm512_add_ps(acc[0], acc[2]), _mm512_add_ps(acc[1], acc[3])),
                     p.stride ? 2 : 1);
    }
}

/* What 16 rows know about 32 columns of super-blocks: steps of both halves, and what is taken away
 * where codes have 4 bits. */
typedef struct super_values {
    __m512 step[2], least;
} super_values;

PARE_INLINE super_values sub_values(const pare_panel *w, const pair *p, size_t row, size_t j,
                                    unsigned bits)
{
    const size_t atoms = w->k / PARE_ATOM_K, stride = p->plane_stride ? 16 * atoms : 0;
    const size_t at = p->plane + j / w->group * PARE_ATOM_N;
    const uint8_t *const sub = w->sub + 16 * (row / PARE_ATOM_N * atoms + j / PARE_ATOM_K);
    const __m512 scale = load_scale_blocks(w->scales + at, p->plane_stride);
    const __m512i a = load_zero_blocks(sub, stride), b = load_zero_blocks(sub + 8, stride);
    super_values v;
    if (bits == 4) {
        v.step[0] = v.step[1] = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(a));
        v.least = _mm512_mul_ps(load_scale_blocks(w->minima + at, p->plane_stride),
                                _mm512_cvtepi32_ps(b));
        return v;
    }
    const __m512i sign = _mm512_set1_epi32(128); /* two's complement of 8 bits */
    v.step[0] =
        _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_xor_si512(a, sign), sign)));
    v.step[1] =
        _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_xor_si512(b, sign), sign)));
    v.least = _mm512_setzero_ps();
    return v;
}

/* acc[l] += the first n columns of an atom times x. */
PARE_INLINE void add_super(__m512 acc[LANES], const float *x, size_t n, const uint8_t *atom,
                           size_t stride, const __m512 level[2], const super_values *v,
                           unsigned bits)
{
    __m512i word[4], high[4];
    for (size_t l = 0; l < 4; l++) {
        word[l] = load_blocks(atom + 32 * l, stride);
        high[l] =
            bits == 6 && l < 2 ? load_blocks(atom + 32 * (4 + l), stride) : _mm512_setzero_si512();
    }
#pragma GCC unroll 32
    for (unsigned j = 0; j < PARE_ATOM_K; j++) {
        if (j >= n)
            return;
        __m512 q = _mm512_permutexvar_ps(codes_at(word, j, 4), level[0]);
        if (bits == 6)
            q = _mm512_add_ps(q, _mm512_permutexvar_ps(codes_at(high, j, 2), level[1]));
        const __m512 value = _mm512_fmsub_ps(q, v->step[j / 16], v->least); /* q step is exact */
        acc[j % LANES] = _mm512_fmadd_ps(_mm512_set1_ps(x[j]), value, acc[j % LANES]);
    }
}

PARE_INLINE void gemv_super(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits)
{
    const __m512 level[2] = {_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                             _mm512_broadcast_f32x4(_mm_setr_ps(-32, -16, 0, 16))};
    for (size_t row = 0; row < w->n; row += 2 * PARE_ATOM_N) {
        const pair p = pair_at(w, row, bits);
        const uint8_t *atom = p.codes;
        __m512 acc[LANES];
        for (size_t l = 0; l < LANES; l++)
            acc[l] = _mm512_setzero_ps();
        for (size_t j = 0; j < k; j += PARE_ATOM_K, atom += pare_atom_bytes(bits)) {
            prefetch_atoms(&p, atom, bits);
            const super_values v = sub_values(w, &p, row, j, bits);
            if (k - j >= PARE_ATOM_K)
                add_super(acc, x + j, PARE_ATOM_K, atom, p.stride, level, &v, bits);
            else
                add_super(acc, x + j, k - j, atom, p.stride, level, &v, bits);
        }
        for (size_t l = 0; l < 4; l++)
            acc[l] = _mm512_add_ps(acc[l], acc[l + 4]);
        store_blocks(y + row,
                     _mm512_add_ps(_mm512_add_ps(acc[0], acc[2]), _mm512_add_ps(acc[1], acc[3])),
                     p.stride ? 2 : 1);
    }
}

/* --- 4 columns of 4 rows ---------------------------------------------------------------------- */

PARE_INLINE __m512 four_times(const float *x)
{
    return _mm512_broadcast_f32x4(_mm_loadu_ps(x));
}

/* acc += 4 columns, of which the first n count; x may end behind them. */
PARE_INLINE __m512 add_4(__m512 acc, const float *x, __m512 w, size_t n)
{
    if (n >= 4)
        return _mm512_fmadd_ps(four_times(x), w, acc);
    float some[4] = {0};
    memcpy(some, x, n * sizeof *x);
    const unsigned mask = ((1u << n) - 1) * 0x1111u;
    return _mm512_mask3_fmadd_ps(four_times(some), w, acc, (__mmask16)mask);
}

/* y[0 .. 3]: sums of the quarters of a register, whose other four lanes are in another one. */
PARE_INLINE void quad_sums(float y[4], __m512 first, __m512 second)
{
    const __m512 s = _mm512_add_ps(first, second);
    const __m512 p = _mm512_add_ps(s, _mm512_shuffle_ps(s, s, 0x4e));
    float lane[16];
    _mm512_storeu_ps(lane, _mm512_add_ps(p, _mm512_shuffle_ps(p, p, 0xb1)));
    for (size_t i = 0; i < 4; i++)
        y[i] = lane[4 * i];
}

/* F16 bits of 8-bit floats that came, with the sign flipped, in the high bytes: 2^-8 of each. */
PARE_INLINE __m512i halves_of(__m512i high)
{
    return _mm512_and_si512(_mm512_srai_epi16(high, 1), _mm512_set1_epi16((short)0xbf80));
}

PARE_INLINE __m512 widen(__m512i halves, size_t block)
{
    return _mm512_cvtph_ps(block ? _mm512_extracti64x4_epi64(halves, 1)
                                 : _mm512_castsi512_si256(halves));
}

/* The scales of rows 0, 1, 4, 5 and of rows 2, 3, 6, 7 of each block, times -256. */
PARE_INLINE void fp8_scales(__m512 scale[2][2], const pare_panel *w, const pair *p, size_t g)
{
    const __m512i rows = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 4, 4, 4, 4, 5, 5, 5, 5);
    const __m512 all =
        _mm512_mul_ps(load_scale_blocks(w->scales + p->plane + g * PARE_ATOM_N, p->plane_stride),
                      _mm512_set1_ps(-256.0f));
    for (int i = 0; i < 4; i++)
        scale[i / 2][i % 2] = _mm512_permutexvar_ps(
            _mm512_add_epi32(rows, _mm512_set1_epi32(i / 2 * 2 + i % 2 * 8)), all);
}

/* acc[l % 2][half][block] += the first n columns; *most: the largest codes, without their sign. */
PARE_INLINE void add_fp8(__m512 acc[2][2][2], const float *x, size_t n, const uint8_t *atom,
                         size_t stride, __m512 scale[2][2], __m512i *most)
{
    const __m512i zero = _mm512_setzero_si512(), sign = _mm512_set1_epi8(-128);
#pragma GCC unroll 8
    for (size_t l = 0; l < 8; l++) {
        if (4 * l >= n)
            return;
        const __m512i u = load_blocks(atom + 32 * l, stride);
        *most = _mm512_max_epu8(*most, _mm512_or_si512(u, sign));
        const __m512i h[2] = {halves_of(_mm512_unpacklo_epi8(zero, u)),
                              halves_of(_mm512_unpackhi_epi8(zero, u))};
        for (size_t i = 0; i < 4; i++) {
            const __m512 v = _mm512_mul_ps(widen(h[i / 2], i % 2), scale[i / 2][i % 2]);
            acc[l % 2][i / 2][i % 2] = add_4(acc[l % 2][i / 2][i % 2], x + 4 * l, v, n - 4 * l);
        }
    }
}

/* Rows that hold a code of NaN, which has no F16 bits. */
static void gemv_fp8_nan(float *y, const float *x, size_t k, const pare_panel *w, size_t row,
                         const pair *p)
{
    pare_panel some = *w;
    some.n = p->stride ? (size_t)2 * PARE_ATOM_N : PARE_ATOM_N;
    some.codes = p->codes;
    some.scales += p->plane;
    pare_gemv_packed_avx2(y + row, x, k, &some, PARE_DECODE_FP8, 8, NULL);
}

static void gemv_fp8(float *y, const float *x, size_t k, const pare_panel *w)
{
    for (size_t row = 0; row < w->n; row += 2 * PARE_ATOM_N) {
        const pair p = pair_at(w, row, 8);
        const uint8_t *atom = p.codes;
        __m512 acc[2][2][2], scale[2][2];
        __m512i most = _mm512_setzero_si512();
        fp8_scales(scale, w, &p, 0);
        for (size_t i = 0; i < 8; i++)
            acc[i / 4][i / 2 % 2][i % 2] = _mm512_setzero_ps();
        for (size_t j = 0; j < k; j += PARE_ATOM_K, atom += pare_atom_bytes(8)) {
            prefetch_atoms(&p, atom, 8);
            if (j % w->group == 0)
                fp8_scales(scale, w, &p, j / w->group);
            if (k - j >= PARE_ATOM_K)
                add_fp8(acc, x + j, PARE_ATOM_K, atom, p.stride, scale, &most);
            else
                add_fp8(acc, x + j, k - j, atom, p.stride, scale, &most);
        }
        if (_mm512_cmpeq_epi8_mask(most, _mm512_set1_epi8(-1))) {
            gemv_fp8_nan(y, x, k, w, row, &p);
            continue;
        }
        for (size_t i = 0; i < 2 && row + i * PARE_ATOM_N < w->n; i++)
            for (size_t h = 0; h < 2; h++) {
                float *const to = y + row + i * PARE_ATOM_N + 2 * h, sum[4];
                quad_sums(sum, acc[0][h][i], acc[1][h][i]);
                memcpy(to, sum, 2 * sizeof *sum);
                memcpy(to + 4, sum + 2, 2 * sizeof *sum);
            }
    }
}

/* Values of codes 0 .. 3 of rows i and i + 4 of both blocks: of columns that are not salient, and
 * of those that are. */
PARE_INLINE void binary_levels(__m512 plain[QUADS], __m512 salient[QUADS], const pare_panel *w,
                               const pair *p, size_t g)
{
    const __m512 sign = _mm512_broadcast_f32x4(_mm_setr_ps(-1.0f, 1.0f, -1.0f, 1.0f));
    const __m512 second = _mm512_broadcast_f32x4(_mm_setr_ps(-1.0f, -1.0f, 1.0f, 1.0f));
    for (size_t i = 0; i < QUADS; i++) {
        uint16_t book[4][4];
        for (size_t q = 0; q < 4; q++)
            memcpy(book[q],
                   w->book +
                       4 * (p->plane + g * PARE_ATOM_N + q / 2 * p->plane_stride + i + q % 2 * 4),
                   sizeof book[q]);
        const __m512 m = _mm512_cvtph_ps(load_32(book));
        plain[i] = _mm512_mul_ps(sign, _mm512_shuffle_ps(m, m, 0x50));
        salient[i] = _mm512_add_ps(_mm512_mul_ps(sign, _mm512_shuffle_ps(m, m, 0xaa)),
                                   _mm512_mul_ps(second, _mm512_shuffle_ps(m, m, 0xff)));
    }
}

/* Salient ones of 32 columns, as bits. */
PARE_INLINE uint32_t salient_bits(const uint8_t *salient)
{
    return salient ? (uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(load_32(salient), 7)) : 0;
}

/* acc[f % 2][i] += the first n columns of an atom. */
PARE_INLINE void add_binary(__m512 acc[2][QUADS], const float *x, size_t n, const uint8_t *atom,
                            size_t stride, const __m512 plain[QUADS], const __m512 salient[QUADS],
                            uint32_t bits)
{
    const __m512i bytes = _mm512_set4_epi32(24, 16, 8, 0);
    for (size_t l = 0; l < 2 && 16 * l < n; l++) {
        const __m512i u = load_blocks(atom + 32 * l, stride);
        const __m512i word[QUADS] = {_mm512_srlv_epi32(_mm512_shuffle_epi32(u, 0x00), bytes),
                                     _mm512_srlv_epi32(_mm512_shuffle_epi32(u, 0x55), bytes),
                                     _mm512_srlv_epi32(_mm512_shuffle_epi32(u, 0xaa), bytes),
                                     _mm512_srlv_epi32(_mm512_shuffle_epi32(u, 0xff), bytes)};
#pragma GCC unroll 4
        for (unsigned f = 0; f < 4; f++) {
            const size_t j = 16 * l + 4 * f;
            if (j >= n)
                return;
            const __mmask16 mask = (__mmask16)((bits >> j & 15u) * 0x1111u);
            for (size_t i = 0; i < QUADS; i++) {
                const __m512i code = _mm512_srli_epi32(word[i], 2 * f);
                const __m512 v = _mm512_permutevar_ps(plain[i], code);
                acc[f % 2][i] = add_4(acc[f % 2][i], x + j,
                                      _mm512_mask_permutevar_ps(v, mask, salient[i], code), n - j);
            }
        }
    }
}

static void gemv_binary(float *y, const float *x, size_t k, const pare_panel *w)
{
    for (size_t row = 0; row < w->n; row += 2 * PARE_ATOM_N) {
        const pair p = pair_at(w, row, 2);
        const uint8_t *atom = p.codes;
        __m512 acc[2][QUADS], plain[QUADS], salient[QUADS];
        binary_levels(plain, salient, w, &p, 0);
        for (size_t i = 0; i < 2 * QUADS; i++)
            acc[i / QUADS][i % QUADS] = _mm512_setzero_ps();
        for (size_t j = 0; j < k; j += PARE_ATOM_K, atom += pare_atom_bytes(2)) {
            prefetch_atoms(&p, atom, 2);
            if (j % w->group == 0)
                binary_levels(plain, salient, w, &p, j / w->group);
            const uint32_t bits = salient_bits(w->salient ? w->salient + j : NULL);
            if (k - j >= PARE_ATOM_K)
                add_binary(acc, x + j, PARE_ATOM_K, atom, p.stride, plain, salient, bits);
            else
                add_binary(acc, x + j, k - j, atom, p.stride, plain, salient, bits);
        }
        for (size_t i = 0; i < QUADS; i++) {
            float sum[4];
            quad_sums(sum, acc[0][i], acc[1][i]);
            for (size_t q = 0; q < (p.stride ? 4 : 2); q++)
                y[row + 4 * q + i] = sum[q];
        }
    }
}

/* --- 8 columns of 2 rows ---------------------------------------------------------------------- */

/* Bytes of the F16 values of four rows each, a row in a quarter; those of 3 bits twice. */
typedef struct books {
    __m512i low[2], high[2];
} books;

static books load_books(const uint16_t *book, unsigned bits)
{
    uint8_t low[PARE_ATOM_N][16], high[PARE_ATOM_N][16];
    for (size_t r = 0; r < PARE_ATOM_N; r++)
        for (size_t u = 0; u < 16; u++) {
            const uint16_t value = book[(r << bits) + u % ((size_t)1 << bits)];
            low[r][u] = (uint8_t)(value & 255u);
            high[r][u] = (uint8_t)(value >> 8);
        }
    books b;
    for (size_t q = 0; q < 2; q++) {
        b.low[q] = _mm512_loadu_si512(low[4 * q]);
        b.high[q] = _mm512_loadu_si512(high[4 * q]);
    }
    return b;
}

/* Word l of the rows 4 q .. 4 q + 3 of vectors of words of 8 rows, in each place of its quarter. */
PARE_INLINE __m512i spread_word(__m512i words, int l, int q)
{
    const __m512i rows = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_epi32(_mm512_add_epi32(rows, _mm512_set1_epi32(8 * l + 4 * q)),
                                    words);
}

/* Codes of columns 16 h .. 16 h + 15 of the rows 4 q .. 4 q + 3; of 3 bits with another above. */
PARE_INLINE __m512i row_codes(const uint8_t *atom, int h, int q, unsigned bits)
{
    if (bits == 4) {
        const __m512i place = _mm512_add_epi32(
            _mm512_setr_epi32(0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27),
            _mm512_set1_epi32(4 * q));
        const __m512i u = _mm512_permutex2var_epi32(_mm512_loadu_si512(atom), place,
                                                    _mm512_loadu_si512(atom + 64));
        return _mm512_and_si512(h ? _mm512_srli_epi32(u, 4) : u, _mm512_set1_epi8(15));
    }
    const __m512i low = _mm512_srlv_epi32(spread_word(_mm512_loadu_si512(atom), h, q),
                                          _mm512_set4_epi32(6, 4, 2, 0));
    const __m512i bit = _mm512_rorv_epi32(
        spread_word(_mm512_castsi256_si512(load_32(atom + 64)), 0, q),
        _mm512_add_epi32(_mm512_set4_epi32(1, 0, 31, 30), _mm512_set1_epi32(4 * h)));
    const __m512i both = _mm512_ternarylogic_epi32(_mm512_set1_epi8(3), low, bit, 0xca);
    return _mm512_and_si512(both, _mm512_set1_epi8(15));
}

/* acc[i] += the first n columns of rows 2 i and 2 i + 1. */
PARE_INLINE void add_book(__m512 acc[4], const float *x, size_t n, const uint8_t *atom,
                          const books *b, unsigned bits)
{
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++)
#pragma GCC unroll 2
        for (int q = 0; q < 2; q++) {
            const size_t j = 16 * (size_t)h, i = 2 * (size_t)q;
            if (j >= n)
                return;
            const __m512i code = row_codes(atom, h, q, bits);
            const __m512i low = _mm512_shuffle_epi8(b->low[q], code);
            const __m512i high = _mm512_shuffle_epi8(b->high[q], code);
            const __m512i one = _mm512_unpacklo_epi8(low, high);
            acc[i] = add_8(acc[i], x + j, widen(one, 0), n - j);
            acc[i + 1] = add_8(acc[i + 1], x + j, widen(one, 1), n - j);
            if (n <= j + 8)
                continue;
            const __m512i two = _mm512_unpackhi_epi8(low, high);
            acc[i] = add_8(acc[i], x + j + 8, widen(two, 0), n - j - 8);
            acc[i + 1] = add_8(acc[i + 1], x + j + 8, widen(two, 1), n - j - 8);
        }
}

PARE_INLINE void gemv_book(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits)
{
    const size_t size = pare_atom_bytes(bits);
    const uint8_t *atom = w->codes;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        const books b = load_books(w->book + (row << bits), bits);
        const uint8_t *const end = atom + w->k / PARE_ATOM_K * size;
        __m512 acc[4];
        for (size_t i = 0; i < 4; i++)
            acc[i] = _mm512_setzero_ps();
        for (size_t j = 0; j < k; j += PARE_ATOM_K, atom += size) {
            for (size_t line = 0; line < size; line += 64)
                prefetch_stream(atom + line, AHEAD);
            if (k - j >= PARE_ATOM_K)
                add_book(acc, x + j, PARE_ATOM_K, atom, &b, bits);
            else
                add_book(acc, x + j, k - j, atom, &b, bits);
        }
        atom = end;
        for (size_t i = 0; i < 4; i++) {
            y[row + 2 * i] = lane_sum(_mm512_castps512_ps256(acc[i]));
            y[row + 2 * i + 1] = lane_sum(_mm512_extractf32x8_ps(acc[i], 1));
        }
    }
}

/* --- all -------------------------------------------------------------------------------------- */

static void gemv_uniform(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits)
{
    float level[16];
    for (unsigned u = 0; u < 16; u++)
        level[u] = (float)(u % (1u << bits));
    switch (bits) {
    case 2: gemv_columns(y, x, k, w, level, 2, UNIFORM); return;
    case 3: gemv_columns(y, x, k, w, level, 3, UNIFORM); return;
    case 4: gemv_columns(y, x, k, w, level, 4, UNIFORM); return;
    default: assert(bits == 8); gemv_columns(y, x, k, w, level, 8, UNIFORM);
    }
}

static void gemv_table(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits,
                       const float *level)
{
    if (bits == 4) {
        if (pare_panel_has_halves(w))
            gemv_columns(y, x, k, w, level, 4, HALVES);
        else
            gemv_columns(y, x, k, w, level, 4, TABLE);
        return;
    }
    assert(bits == 2);
    float again[16];
    for (size_t u = 0; u < 16; u++)
        again[u] = level[u % 4];
    gemv_columns(y, x, k, w, again, 2, TABLE);
}

void pare_gemv_packed_avx512(float *y, const float *x, size_t k, const pare_panel *w,
                             pare_decoding how, unsigned bits, const float *level)
{
    switch (how) {
    case PARE_DECODE_F32: gemv_uniform(y, x, k, w, bits); return;
    case PARE_DECODE_TABLE: gemv_table(y, x, k, w, bits, level); return;
    case PARE_DECODE_FP8: gemv_fp8(y, x, k, w); return;
    case PARE_DECODE_BOOK:
        if (bits == 3)
            gemv_book(y, x, k, w, 3);
        else
            gemv_book(y, x, k, w, 4);
        return;
    case PARE_DECODE_BINARY: gemv_binary(y, x, k, w); return;
    case PARE_DECODE_SUPER:
        if (bits == 4)
            gemv_super(y, x, k, w, 4);
        else
            gemv_super(y, x, k, w, 6);
        return;
    case PARE_DECODE_EXL3: pare_gemv_exl3_avx512(y, x, k, w, bits); return;
    }
}

#endif
