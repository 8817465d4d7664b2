/* tests/ptx/ptx_rows.h - how operations on registers are written: one row each.
 *
 *   X2(add_s32, u32, u32, u32, a + b)
 *
 * is the opcode add.s32 with a destination and sources a, b of these types; the expression is its
 * meaning for one lane. PTX_DEFINE makes the functions of a list, PTX_TABLE the entries of the
 * table of operations. Undefined bits of sources spread to the destination. */
#ifndef PARE_TESTS_PTX_ROWS_H
#define PARE_TESTS_PTX_ROWS_H

#include <math.h>

#include "kernels/half.h"
#include "tests/ptx/ptx_internal.h"

/* Types: what C computes with, how a lane is read and kept, the letter of its size. */
typedef uint8_t ptx_u8;
typedef int8_t ptx_s8;
typedef uint16_t ptx_u16;
typedef int16_t ptx_s16;
typedef uint32_t ptx_u32;
typedef int32_t ptx_s32;
typedef uint64_t ptx_u64;
typedef int64_t ptx_s64;
typedef float ptx_f32, ptx_f16, ptx_bf16;
typedef double ptx_f64;

#define PTX_GET_u8(r)   (uint8_t)(r)->u32[i]
#define PTX_GET_s8(r)   (int8_t)(r)->u32[i]
#define PTX_GET_u16(r)  (uint16_t)(r)->u32[i]
#define PTX_GET_s16(r)  (int16_t)(r)->u32[i]
#define PTX_GET_u32(r)  (r)->u32[i]
#define PTX_GET_s32(r)  (r)->s32[i]
#define PTX_GET_u64(r)  (r)->u64[i]
#define PTX_GET_s64(r)  (r)->s64[i]
#define PTX_GET_f32(r)  (r)->f32[i]
#define PTX_GET_f64(r)  (r)->f64[i]
#define PTX_GET_f16(r)  pare_f16_to_f32((uint16_t)(r)->u32[i])
#define PTX_GET_bf16(r) pare_bf16_to_f32((uint16_t)(r)->u32[i])

/* A NaN that F32 and F16 arithmetic makes has these bits, whatever went in. */
static inline uint32_t ptx_bits_f32(float v)
{
    return v == v ? pare_f32_bits(v) : 0x7fffffffu;
}

static inline uint32_t ptx_bits_f16(float v)
{
    return v == v ? pare_f32_to_f16(v) : 0x7fffu;
}

static inline uint32_t ptx_bits_bf16(float v)
{
    return v == v ? pare_f32_to_bf16(v) : 0x7fffu;
}

#define PTX_KEEP_32(r, v)   (r)->u32[i] = m ? (v) : (r)->u32[i]
#define PTX_KEEP_u8(r, v)   PTX_KEEP_32(r, (uint8_t)(v))
#define PTX_KEEP_s8(r, v)   PTX_KEEP_32(r, (uint32_t)(int8_t)(v))
#define PTX_KEEP_u16(r, v)  PTX_KEEP_32(r, (uint16_t)(v))
#define PTX_KEEP_s16(r, v)  PTX_KEEP_32(r, (uint32_t)(int16_t)(v))
#define PTX_KEEP_u32(r, v)  PTX_KEEP_32(r, (uint32_t)(v))
#define PTX_KEEP_s32(r, v)  PTX_KEEP_32(r, (uint32_t)(v))
#define PTX_KEEP_u64(r, v)  (r)->u64[i] = m ? (uint64_t)(v) : (r)->u64[i]
#define PTX_KEEP_s64(r, v)  PTX_KEEP_u64(r, v)
#define PTX_KEEP_f32(r, v)  PTX_KEEP_32(r, ptx_bits_f32(v))
#define PTX_KEEP_f64(r, v)  (r)->f64[i] = m ? (v) : (r)->f64[i]
#define PTX_KEEP_f16(r, v)  PTX_KEEP_32(r, ptx_bits_f16(v))
#define PTX_KEEP_bf16(r, v) PTX_KEEP_32(r, ptx_bits_bf16(v))

#define PTX_SIZE_u8   "1"
#define PTX_SIZE_s8   "1"
#define PTX_SIZE_u16  "2"
#define PTX_SIZE_s16  "2"
#define PTX_SIZE_f16  "2"
#define PTX_SIZE_bf16 "2"
#define PTX_SIZE_u32  "4"
#define PTX_SIZE_s32  "4"
#define PTX_SIZE_f32  "4"
#define PTX_SIZE_u64  "8"
#define PTX_SIZE_s64  "8"
#define PTX_SIZE_f64  "8"

#define PTX_DEFINE1(name, D, A, value)                                                             \
    static void do_##name(ptx_warp *w, const ptx_ins *in)                                          \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const ptx_lanes *const ra = ptx_reg(w, in->a);                                             \
        PTX_EACH(w, const ptx_##A a = PTX_GET_##A(ra); PTX_KEEP_##D(rd, value);)                   \
        ptx_spread(w, in->d, ptx_undef(w, in->a));                                                 \
    }
#define PTX_DEFINE2(name, D, A, B, value)                                                          \
    static void do_##name(ptx_warp *w, const ptx_ins *in)                                          \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b);              \
        PTX_EACH(w, const ptx_##A a = PTX_GET_##A(ra); const ptx_##B b = PTX_GET_##B(rb);          \
                 PTX_KEEP_##D(rd, value);)                                                         \
        ptx_spread(w, in->d, ptx_undef(w, in->a) | ptx_undef(w, in->b));                           \
    }
#define PTX_DEFINE3(name, D, A, B, C, value)                                                       \
    static void do_##name(ptx_warp *w, const ptx_ins *in)                                          \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b),              \
                               *const rc = ptx_reg(w, in->c);                                      \
        PTX_EACH(w, const ptx_##A a = PTX_GET_##A(ra); const ptx_##B b = PTX_GET_##B(rb);          \
                 const ptx_##C c = PTX_GET_##C(rc); PTX_KEEP_##D(rd, value);)                      \
        ptx_spread(w, in->d, ptx_undef(w, in->a) | ptx_undef(w, in->b) | ptx_undef(w, in->c));     \
    }

#define PTX_TABLE1(name, D, A, value) {#name, do_##name, PTX_SIZE_##D PTX_SIZE_##A, KIND},
#define PTX_TABLE2(name, D, A, B, value)                                                           \
    {#name, do_##name, PTX_SIZE_##D PTX_SIZE_##A PTX_SIZE_##B, KIND},
#define PTX_TABLE3(name, D, A, B, C, value)                                                        \
    {#name, do_##name, PTX_SIZE_##D PTX_SIZE_##A PTX_SIZE_##B PTX_SIZE_##C, KIND},

#endif
