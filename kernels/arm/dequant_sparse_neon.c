/* Weights of which only some are stored, put into their columns. 2:4: a group of 4 columns looks at
 * its two places; each column takes the place whose index it is. Bitmask: a column takes the value
 * with the number of the bits below its own. */
#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__
#include <assert.h>

#include "kernels/half.h"

enum { INDICES = 64 /* bytes of an atom's */, HALF = 32 /* columns of half an atom */ };

static const uint8_t first_places[16] = {0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6};
static const uint8_t place_columns[16] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};

/* Indices of the 16 places of half an atom, by rows. */
PARE_INLINE void rows_of_indices(uint8x16_t row[8], const uint8_t *indices, size_t half)
{
    int8x16_t v[4][2];
    unpack_16(v, indices, half, 2);
    rows_of(row, v);
}

/* Signed codes of the 16 places of half an atom, by rows. */
PARE_INLINE void rows_of_codes(uint8x16_t row[8], const uint8_t *atom, size_t half, unsigned bits)
{
    int8x16_t v[4][2];
    unpack_16(v, atom, half, bits);
    rows_of(row, v);
    for (size_t r = 0; bits == 4 && r < PARE_ATOM_N; r++)
        row[r] = vsubq_u8(row[r], vdupq_n_u8(8));
}

/* Which of 16 columns take the first (0) or second place of their groups; the 8 places of those are
 * from `at` on. Bytes of ones. */
PARE_INLINE uint8x16_t takes(uint8x16_t index, size_t at, size_t place)
{
    const uint8x16_t pick = vaddq_u8(vld1q_u8(first_places), vdupq_n_u8((uint8_t)(at + place)));
    return vceqq_u8(vqtbl1q_u8(index, pick), vld1q_u8(place_columns));
}

/* 16 columns of codes out of 8 places from `at` on. */
PARE_INLINE int8x16_t columns_of(uint8x16_t code, uint8x16_t index, size_t at)
{
    const uint8x16_t first = vaddq_u8(vld1q_u8(first_places), vdupq_n_u8((uint8_t)at));
    const uint8x16_t second = vaddq_u8(first, vdupq_n_u8(1));
    return vreinterpretq_s8_u8(vorrq_u8(vandq_u8(takes(index, at, 0), vqtbl1q_u8(code, first)),
                                        vandq_u8(takes(index, at, 1), vqtbl1q_u8(code, second))));
}

/* 32 columns of codes out of 16 places. */
PARE_INLINE void store_codes(float *dst, uint8x16_t code, uint8x16_t index, float scale)
{
    for (size_t i = 0; i < 2; i++, dst += 16) {
        const int8x16_t c = columns_of(code, index, 8 * i);
        const int16x8_t a = vmovl_s8(vget_low_s8(c)), b = vmovl_high_s8(c);
        vst1q_f32(dst, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(a))), scale));
        vst1q_f32(dst + 4, vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(a)), scale));
        vst1q_f32(dst + 8, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(b))), scale));
        vst1q_f32(dst + 12, vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(b)), scale));
    }
}

/* 32 columns of values of 16 bits out of 16 places: their low and their high bytes are codes. */
PARE_INLINE void store_values(float *dst, const uint16_t *value, uint8x16_t index)
{
    const uint8x16x2_t bytes = vld2q_u8((const uint8_t *)value);
    for (size_t i = 0; i < 2; i++, dst += 16) {
        const int8x16_t low = columns_of(bytes.val[0], index, 8 * i),
                        high = columns_of(bytes.val[1], index, 8 * i);
        store_8(dst, of_halves(vreinterpretq_u16_s8(vzip1q_s8(low, high))));
        store_8(dst + 8, of_halves(vreinterpretq_u16_s8(vzip2q_s8(low, high))));
    }
}

PARE_INLINE void decode(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    const size_t atoms = pare_24_kept(w->k) / PARE_ATOM_K;
    const size_t groups = (w->k + w->group - 1) / w->group;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N)
        for (size_t k = 0; k < w->k; k += HALF) {
            const size_t at = row / PARE_ATOM_N * atoms + k / 64, half = k % 64 / HALF;
            uint8x16_t index[8], code[8];
            rows_of_indices(index, w->indices + at * INDICES, half);
            float scale[8] = {0};
            if (bits < 16) {
                rows_of_codes(code, w->codes + at * pare_atom_bytes(bits), half, bits);
                store_8(scale, load_scales(w->scales + row * groups + k / w->group * PARE_ATOM_N));
            }
            for (size_t r = 0; r < PARE_ATOM_N; r++) {
                float *const to = dst + (row + r) * ldd + k;
                if (bits == 16)
                    store_values(to, w->values + (row + r) * w->ldv + k / 2, index[r]);
                else
                    store_codes(to, code[r], index[r], scale[r]);
            }
        }
}

void pare_dequant_24_neon(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    switch (bits) {
    case 4: decode(dst, ldd, w, 4); break;
    case 8: decode(dst, ldd, w, 8); break;
    default: assert(bits == 16); decode(dst, ldd, w, 16);
    }
}

/* Eight columns; returns how many values they took. At least 8 values can be read. */
PARE_INLINE size_t spread(float *dst, uint8_t bits, const uint16_t *value)
{
    static const uint8_t own[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x8_t all = vdup_n_u8(bits), bit = vld1_u8(own);
    const uint8x8_t below = vcnt_u8(vand_u8(all, vsub_u8(bit, vdup_n_u8(1))));
    const uint8x8_t has = vtst_u8(all, bit), first = vadd_u8(below, below);
    /* two bytes of each; 255 looks up 0 */
    const uint8x8_t low = vorn_u8(first, has), high = vorn_u8(vadd_u8(first, vdup_n_u8(1)), has);
    const uint8x16_t pick = vcombine_u8(vzip1_u8(low, high), vzip2_u8(low, high));
    const uint8x16_t v = vqtbl1q_u8(vreinterpretq_u8_u16(vld1q_u16(value)), pick);
    store_8(dst, of_halves(vreinterpretq_u16_u8(v)));
    return (size_t)vget_lane_u8(below, 7) + (bits >> 7);
}

void pare_dequant_mask_neon(float *dst, size_t ldd, const pare_mask *w)
{
    const uint16_t *const end = w->value + w->start[w->n];
    for (size_t r = 0; r < w->n; r++) {
        const uint8_t *const bits = w->bits + r * ((w->k + 7) / 8);
        const uint16_t *value = w->value + w->start[r];
        float *const to = dst + r * ldd;
        size_t j = 0;
        for (; j + 8 <= w->k && end - value >= 8; j += 8)
            value += spread(to + j, bits[j / 8], value);
        for (; j < w->k; j++)
            to[j] = bits[j / 8] >> j % 8 & 1 ? pare_f16_to_f32(*value++) : 0.0F;
    }
}

#endif
