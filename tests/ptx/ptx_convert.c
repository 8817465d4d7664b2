/* tests/ptx/ptx_convert.c - conversions. Float to integer takes the nearest end of the range; a NaN
 * becomes 0, or the top bit alone where F64 or 64-bit integers take part. */
#include "tests/ptx/ptx_round.h"
#include "tests/ptx/ptx_rows.h"

#define CLAMP(name, T, F, low, high, least, most, nan)                                             \
    static inline T name(F v)                                                                      \
    {                                                                                              \
        return v != v ? (T)(nan) : v <= (low) ? (T)(least) : v >= (high) ? (T)(most) : (T)v;       \
    }
CLAMP(s8_of_f32, int8_t, float, -128.f, 127.f, -128, 127, 0)
CLAMP(u8_of_f32, uint8_t, float, 0.f, 255.f, 0, 255, 0)
CLAMP(s16_of_f32, int16_t, float, -32768.f, 32767.f, -32768, 32767, 0)
CLAMP(u16_of_f32, uint16_t, float, 0.f, 65535.f, 0, 65535, 0)
CLAMP(s32_of_f32, int32_t, float, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX, 0)
CLAMP(u32_of_f32, uint32_t, float, 0.f, 0x1p32f, 0, UINT32_MAX, 0)
CLAMP(s64_of_f32, int64_t, float, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX, INT64_MIN)
CLAMP(u64_of_f32, uint64_t, float, 0.f, 0x1p64f, 0, UINT64_MAX, (uint64_t)1 << 63)
CLAMP(s32_of_f64, int32_t, double, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX, INT32_MIN)
CLAMP(u32_of_f64, uint32_t, double, 0., 0x1p32, 0, UINT32_MAX, (uint32_t)1 << 31)
CLAMP(s64_of_f64, int64_t, double, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX, INT64_MIN)
CLAMP(u64_of_f64, uint64_t, double, 0., 0x1p64, 0, UINT64_MAX, (uint64_t)1 << 63)

#define LIMIT(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v))

/* From every integer type to D. */
#define FROM_INTEGERS(X1, D)                                                                       \
    X1(cvt_##D##_u8, D, u8, a)                                                                     \
    X1(cvt_##D##_s8, D, s8, a)                                                                     \
    X1(cvt_##D##_u16, D, u16, a)                                                                   \
    X1(cvt_##D##_s16, D, s16, a)                                                                   \
    X1(cvt_##D##_u32, D, u32, a)                                                                   \
    X1(cvt_##D##_s32, D, s32, a)                                                                   \
    X1(cvt_##D##_u64, D, u64, a)                                                                   \
    X1(cvt_##D##_s64, D, s64, a)
#define TO_FLOAT(X1, D, C)                                                                         \
    X1(cvt_rn_##D##_u8, D, u8, (C)a)                                                               \
    X1(cvt_rn_##D##_s8, D, s8, (C)a)                                                               \
    X1(cvt_rn_##D##_u16, D, u16, (C)a)                                                             \
    X1(cvt_rn_##D##_s16, D, s16, (C)a)                                                             \
    X1(cvt_rn_##D##_u32, D, u32, (C)a)                                                             \
    X1(cvt_rn_##D##_s32, D, s32, (C)a)                                                             \
    X1(cvt_rn_##D##_u64, D, u64, (C)a)                                                             \
    X1(cvt_rn_##D##_s64, D, s64, (C)a)
#define ROUNDED(X1, mode, turn32, turn64)                                                          \
    X1(cvt_##mode##_s8_f32, s8, f32, s8_of_f32(turn32(a)))                                         \
    X1(cvt_##mode##_u8_f32, u8, f32, u8_of_f32(turn32(a)))                                         \
    X1(cvt_##mode##_s16_f32, s16, f32, s16_of_f32(turn32(a)))                                      \
    X1(cvt_##mode##_u16_f32, u16, f32, u16_of_f32(turn32(a)))                                      \
    X1(cvt_##mode##_s32_f32, s32, f32, s32_of_f32(turn32(a)))                                      \
    X1(cvt_##mode##_u32_f32, u32, f32, u32_of_f32(turn32(a)))                                      \
    X1(cvt_##mode##_s64_f32, s64, f32, s64_of_f32(turn32(a)))                                      \
    X1(cvt_##mode##_u64_f32, u64, f32, u64_of_f32(turn32(a)))                                      \
    X1(cvt_##mode##_s32_f16, s32, f16, s32_of_f32(turn32(a)))                                      \
    X1(cvt_##mode##_u32_f16, u32, f16, u32_of_f32(turn32(a)))                                      \
    X1(cvt_##mode##_s16_f16, s16, f16, s16_of_f32(turn32(a)))                                      \
    X1(cvt_##mode##_u16_f16, u16, f16, u16_of_f32(turn32(a)))                                      \
    X1(cvt_##mode##_s32_f64, s32, f64, s32_of_f64(turn64(a)))                                      \
    X1(cvt_##mode##_u32_f64, u32, f64, u32_of_f64(turn64(a)))                                      \
    X1(cvt_##mode##_s64_f64, s64, f64, s64_of_f64(turn64(a)))                                      \
    X1(cvt_##mode##_u64_f64, u64, f64, u64_of_f64(turn64(a)))                                      \
    X1(cvt_##mode##_f32_f32, f32, f32, turn32(a))                                                  \
    X1(cvt_##mode##_f16_f16, f16, f16, turn32(a))                                                  \
    X1(cvt_##mode##_f64_f64, f64, f64, turn64(a))

#define PACK_F16(a, b)  (ptx_bits_f16(a) << 16 | ptx_bits_f16(b))
#define PACK_BF16(a, b) (ptx_bits_bf16(a) << 16 | ptx_bits_bf16(b))
#define PACK_S8(a, b, c)                                                                           \
    ((uint32_t)(c) << 16 | (uint32_t)(LIMIT(a, -128, 127) & 255) << 8 |                            \
     (uint32_t)(LIMIT(b, -128, 127) & 255))
#define PACK_U8(a, b, c)                                                                           \
    ((uint32_t)(c) << 16 | (uint32_t)LIMIT(a, 0, 255) << 8 | (uint32_t)LIMIT(b, 0, 255))

#define ROWS(X1, X2, X3)                                                                           \
    FROM_INTEGERS(X1, u8)                                                                          \
    FROM_INTEGERS(X1, s8)                                                                          \
    FROM_INTEGERS(X1, u16)                                                                         \
    FROM_INTEGERS(X1, s16)                                                                         \
    FROM_INTEGERS(X1, u32)                                                                         \
    FROM_INTEGERS(X1, s32)                                                                         \
    FROM_INTEGERS(X1, u64)                                                                         \
    FROM_INTEGERS(X1, s64)                                                                         \
    TO_FLOAT(X1, f32, float)                                                                       \
    TO_FLOAT(X1, f64, double)                                                                      \
    ROUNDED(X1, rni, rintf, rint)                                                                  \
    ROUNDED(X1, rzi, truncf, trunc)                                                                \
    ROUNDED(X1, rmi, floorf, floor)                                                                \
    ROUNDED(X1, rpi, ceilf, ceil)                                                                  \
    X1(cvt_rn_f16_u32, u16, u32, ptx_f64_to_f16((double)a))                                        \
    X1(cvt_rn_f16_s32, u16, s32, ptx_f64_to_f16((double)a))                                        \
    X1(cvt_rn_f16_u16, f16, u16, (float)a)                                                         \
    X1(cvt_rn_f16_s16, f16, s16, (float)a)                                                         \
    X1(cvt_rn_f16_s8, f16, s8, (float)a)                                                           \
    X1(cvt_rn_f16_u8, f16, u8, (float)a)                                                           \
    X1(cvt_sat_s8_s32, s8, s32, LIMIT(a, -128, 127))                                               \
    X1(cvt_sat_u8_s32, u8, s32, LIMIT(a, 0, 255))                                                  \
    X1(cvt_sat_u8_u32, u8, u32, a < 255 ? a : 255)                                                 \
    X1(cvt_sat_s16_s32, s16, s32, LIMIT(a, -32768, 32767))                                         \
    X1(cvt_sat_s32_s64, s32, s64, LIMIT(a, INT32_MIN, INT32_MAX))                                  \
    X1(cvt_sat_f32_f32, f32, f32, a > 0 ? (a < 1 ? a : 1) : 0)                                     \
    X1(cvt_f64_f32, f64, f32, (double)a)                                                           \
    X1(cvt_rn_f32_f64, f32, f64, (float)a)                                                         \
    X1(cvt_f32_f16, f32, f16, a)                                                                   \
    X1(cvt_f64_f16, f64, f16, (double)a)                                                           \
    X1(cvt_f32_bf16, f32, bf16, a)                                                                 \
    X1(cvt_rn_f16_f32, f16, f32, a)                                                                \
    X1(cvt_rn_bf16_f32, bf16, f32, a)                                                              \
    X1(cvt_rz_f16_f32, u16, f32, ptx_f32_to_f16_rz(a))                                             \
    X1(cvt_rn_f16_f64, u16, f64, ptx_f64_to_f16(a))                                                \
    X2(cvt_rn_f16x2_f32, u32, f32, f32, PACK_F16(a, b))                                            \
    X2(cvt_rn_bf16x2_f32, u32, f32, f32, PACK_BF16(a, b))                                          \
    X3(cvt_pack_sat_s8_s32_b32, u32, s32, s32, u32, PACK_S8(a, b, c))                              \
    X3(cvt_pack_sat_u8_s32_b32, u32, s32, s32, u32, PACK_U8(a, b, c))

ROWS(PTX_DEFINE1, PTX_DEFINE2, PTX_DEFINE3)

#define KIND PTX_CONVERT
static const ptx_row rows[] = {ROWS(PTX_TABLE1, PTX_TABLE2, PTX_TABLE3)};
const ptx_rows ptx_rows_convert = {rows, sizeof rows / sizeof *rows};
