/* kernels/arm/decode_neon.h - weights out of codes, in registers.
 *
 * Codes of an atom come as words of 4 columns of 8 rows; transposed they are rows of 16 bytes,
 * which are widened or looked up. A table of up to 16 numbers is kept as planes of their bytes:
 * each byte of 16 numbers is one look-up. */
#ifndef PARE_KERNELS_ARM_DECODE_NEON_H
#define PARE_KERNELS_ARM_DECODE_NEON_H

#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__
#include <assert.h>

#include "kernels/half.h"

/* The values of one row within one group. */
typedef struct row_values {
    float scale; /* F32, TABLE, FP8 */
    uint8_t zero;
    const uint8_t (*level)[16]; /* TABLE, BINARY: four planes of F32; BOOK: two of F16 */
} row_values;

typedef struct f32x16 {
    float32x4_t v[4];
} f32x16;

PARE_INLINE void planes_of_floats(uint8_t planes[4][16], const float level[16])
{
    const uint8x16x4_t bytes = vld4q_u8((const uint8_t *)level);
    for (size_t i = 0; i < 4; i++)
        vst1q_u8(planes[i], bytes.val[i]);
}

PARE_INLINE float32x4_t of_bytes(uint8x16_t v)
{
    return vreinterpretq_f32_u8(v);
}

/* Numbers out of their bytes. */
PARE_INLINE f32x16 look_up(uint8x16_t u, const uint8_t level[4][16])
{
    const uint8x16_t a = vqtbl1q_u8(vld1q_u8(level[0]), u), b = vqtbl1q_u8(vld1q_u8(level[1]), u),
                     c = vqtbl1q_u8(vld1q_u8(level[2]), u), d = vqtbl1q_u8(vld1q_u8(level[3]), u);
    const uint16x8_t ab0 = vreinterpretq_u16_u8(vzip1q_u8(a, b)),
                     ab1 = vreinterpretq_u16_u8(vzip2q_u8(a, b)),
                     cd0 = vreinterpretq_u16_u8(vzip1q_u8(c, d)),
                     cd1 = vreinterpretq_u16_u8(vzip2q_u8(c, d));
    return (f32x16){{of_bytes(vreinterpretq_u8_u16(vzip1q_u16(ab0, cd0))),
                     of_bytes(vreinterpretq_u8_u16(vzip2q_u16(ab0, cd0))),
                     of_bytes(vreinterpretq_u8_u16(vzip1q_u16(ab1, cd1))),
                     of_bytes(vreinterpretq_u8_u16(vzip2q_u16(ab1, cd1)))}};
}

PARE_INLINE f32x16 of_two(f32x8 a, f32x8 b)
{
    return (f32x16){{a.lo, a.hi, b.lo, b.hi}};
}

PARE_INLINE f32x16 look_up_halves(uint8x16_t u, const uint8_t level[2][16])
{
    const uint8x16_t a = vqtbl1q_u8(vld1q_u8(level[0]), u), b = vqtbl1q_u8(vld1q_u8(level[1]), u);
    return of_two(of_halves(vreinterpretq_u16_u8(vzip1q_u8(a, b))),
                  of_halves(vreinterpretq_u16_u8(vzip2q_u8(a, b))));
}

PARE_INLINE f32x16 scaled(f32x16 v, float scale)
{
    for (size_t i = 0; i < 4; i++)
        v.v[i] = vmulq_n_f32(v.v[i], scale);
    return v;
}

/* (code - zero) scale. */
PARE_INLINE f32x16 uniform(uint8x16_t u, uint8_t zero, float scale)
{
    const int16x8_t a = vreinterpretq_s16_u16(vsubl_u8(vget_low_u8(u), vdup_n_u8(zero))),
                    b = vreinterpretq_s16_u16(vsubl_high_u8(u, vdupq_n_u8(zero)));
    const f32x16 v = {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(a))), vcvtq_f32_s32(vmovl_high_s16(a)),
                       vcvtq_f32_s32(vmovl_s16(vget_low_s16(b))),
                       vcvtq_f32_s32(vmovl_high_s16(b))}};
    return scaled(v, scale);
}

/* The bits of an 8-bit float, shifted by 7, are those of an F16 that is 2^-8 of it, subnormal ones
 * included; a power of two may go into the scale first. */
PARE_INLINE f32x8 fp8(uint16x8_t code, float scale)
{
    const uint16x8_t rest = vandq_u16(code, vdupq_n_u16(0x7f));
    const uint16x8_t sign = vshlq_n_u16(veorq_u16(code, rest), 8);
    const f32x8 v = of_halves(vorrq_u16(vshlq_n_u16(rest, 7), sign));
    const uint16x8_t odd = vceqq_u16(rest, vdupq_n_u16(0x7f));
    const uint16x8_t high = vorrq_u16(sign, vdupq_n_u16(0x7fc0)), zero = vdupq_n_u16(0);
    const uint32x4_t lo_odd = vreinterpretq_u32_u16(vzip1q_u16(odd, odd)),
                     hi_odd = vreinterpretq_u32_u16(vzip2q_u16(odd, odd));
    const float32x4_t lo_nan = vreinterpretq_f32_u16(vzip1q_u16(zero, high)),
                      hi_nan = vreinterpretq_f32_u16(vzip2q_u16(zero, high));
    return (f32x8){vbslq_f32(lo_odd, lo_nan, vmulq_n_f32(v.lo, 256.0f * scale)),
                   vbslq_f32(hi_odd, hi_nan, vmulq_n_f32(v.hi, 256.0f * scale))};
}

/* Values of 16 columns of one row. */
PARE_INLINE f32x16 values_16(uint8x16_t u, const row_values *row, pare_decoding kd)
{
    switch (kd) {
    case PARE_DECODE_F32: return uniform(u, row->zero, row->scale);
    case PARE_DECODE_TABLE: return scaled(look_up(u, row->level), row->scale);
    case PARE_DECODE_FP8:
        return of_two(fp8(vmovl_u8(vget_low_u8(u)), row->scale), fp8(vmovl_high_u8(u), row->scale));
    case PARE_DECODE_BOOK: return look_up_halves(u, row->level);
    default: return look_up(u, row->level);
    }
}

/* Codes 0 .. 3 of columns that are not salient, then of those that are. */
PARE_INLINE void binary_levels(uint8_t planes[4][16], const uint16_t *magnitude)
{
    float m[4], level[16] = {0};
    for (size_t i = 0; i < 4; i++)
        m[i] = pare_f16_to_f32(magnitude[i]);
    for (size_t u = 0; u < 4; u++) {
        const float sign = u & 1 ? 1.0f : -1.0f, second = u & 2 ? 1.0f : -1.0f;
        level[u] = sign * m[u >> 1];
        level[u + 4] = sign * m[2] + second * m[3];
    }
    planes_of_floats(planes, level);
}

PARE_INLINE void book_levels(uint8_t own[8][4][16], const uint16_t *book, unsigned bits)
{
    const size_t size = (size_t)1 << bits;
    for (size_t r = 0; r < PARE_ATOM_N; r++) {
        uint16_t level[16] = {0};
        memcpy(level, book + r * size, size * sizeof *book);
        const uint8x16x2_t bytes = vld2q_u8((const uint8_t *)level);
        vst1q_u8(own[r][0], bytes.val[0]);
        vst1q_u8(own[r][1], bytes.val[1]);
    }
}

/* What eight rows know about the group at g of the planes; `own` has the tables of each, `shared`
 * that of all. */
PARE_INLINE void group_values(row_values row[8], uint8_t own[8][4][16], uint8_t shared[4][16],
                              const pare_panel *w, size_t g, unsigned bits, pare_decoding kd)
{
    float s[8] = {0};
    if (kd == PARE_DECODE_F32 || kd == PARE_DECODE_TABLE || kd == PARE_DECODE_FP8)
        store_8(s, load_scales(w->scales + g));
    for (size_t r = 0; r < PARE_ATOM_N; r++) {
        row[r].scale = s[r];
        row[r].zero =
            kd == PARE_DECODE_F32 && w->zeros ? w->zeros[g + r] : (uint8_t)(1u << (bits - 1));
        row[r].level = (const uint8_t(*)[16])(kd == PARE_DECODE_TABLE ? shared : own[r]);
        if (kd == PARE_DECODE_BINARY)
            binary_levels(own[r], w->book + 4 * (g + r));
    }
}

/* Codes of half an atom by rows, as tables want them; salient: of its columns, or NULL. */
PARE_INLINE void code_rows(uint8x16_t u[8], const uint8_t *atom, size_t half, unsigned bits,
                           const uint8_t *salient)
{
    int8x16_t v[4][2];
    uint8x16_t more = vdupq_n_u8(bits == 8 ? 128 : 0);
    unpack_16(v, atom, half, bits);
    rows_of(u, v);
    if (salient)
        more = vshlq_n_u8(vandq_u8(vld1q_u8(salient), vdupq_n_u8(1)), 2);
    for (size_t r = 0; r < PARE_ATOM_N; r++)
        u[r] = veorq_u8(u[r], more);
}
#endif

#endif
