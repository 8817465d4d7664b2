/* kernels/x86/vnni_internal.h - names of the AVX-VNNI and AVX-512 kernels, and one spelling of what
 * their vectors of 256 and of 512 bits have in common. Included by files compiled for one of the
 * two, which first define PARE_VNNI_BITS, and by the function that fills the table. */
#ifndef PARE_KERNELS_X86_VNNI_INTERNAL_H
#define PARE_KERNELS_X86_VNNI_INTERNAL_H

#include "kernels/x86/avx2_internal.h"

#define X(name, ret, params, cls)                                                                  \
    ret pare_##name##_avxvnni params;                                                              \
    ret pare_##name##_avx512 params;                                                               \
    ret pare_##name##_amx params;
PARE_KERNEL_LIST(X)
#undef X

/* gemv_packed of PARE_DECODE_EXL3. */
void pare_gemv_exl3_avx512(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits);

#if !defined(PARE_VNNI_BITS)
#elif PARE_VNNI_BITS == 512 && (defined(__AVX512VNNI__) || defined(PARE_INTRINSICS))
#define PARE_VNNI(name) pare_##name##_avx512
#define V(op)           _mm512_##op
#define VS(op)          _mm512_##op##_si512
#elif PARE_VNNI_BITS == 256 && (defined(__AVXVNNI__) || defined(PARE_INTRINSICS))
#define PARE_VNNI(name) pare_##name##_avxvnni
#define V(op)           _mm256_##op
#define VS(op)          _mm256_##op##_si256
#endif

#ifdef PARE_VNNI

#if PARE_VNNI_BITS == 512
typedef __m512i vec;
typedef __m512 vecf;
enum { WIDE = 2 /* blocks of 8 rows in a vector of 32-bit lanes */ };

/* 32 bytes at p, and 32 at p + stride. */
PARE_INLINE vec load_blocks(const void *p, size_t stride)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(load_32(p)), load_32((const char *)p + stride),
                              1);
}

/* Eight F16 at p, and eight at p + stride. */
PARE_INLINE vecf load_scale_blocks(const uint16_t *p, size_t stride)
{
    return _mm512_cvtph_ps(_mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p)),
        _mm_loadu_si128((const __m128i *)(const void *)(p + stride)), 1));
}

/* Eight bytes at p, and eight at p + stride, as 32-bit numbers. */
PARE_INLINE vec load_zero_blocks(const uint8_t *p, size_t stride)
{
    return _mm512_cvtepu8_epi32(
        _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)p),
                           _mm_loadl_epi64((const __m128i *)(const void *)(p + stride))));
}

/* Rows of the first `blocks` blocks. */
PARE_INLINE void store_blocks(float *y, vecf v, size_t blocks)
{
    if (blocks >= WIDE)
        _mm512_storeu_ps(y, v);
    else
        _mm256_storeu_ps(y, _mm512_castps512_ps256(v));
}

/* d plus four products of u8 and s8. */
PARE_INLINE vec dot(vec d, vec u, vec x)
{
    return _mm512_dpbusd_epi32(d, u, x);
}
#else
typedef __m256i vec;
typedef __m256 vecf;
enum { WIDE = 1 };

PARE_INLINE vec load_blocks(const void *p, size_t stride)
{
    (void)stride;
    return load_32(p);
}

PARE_INLINE vecf load_scale_blocks(const uint16_t *p, size_t stride)
{
    (void)stride;
    return load_scales(p);
}

PARE_INLINE vec load_zero_blocks(const uint8_t *p, size_t stride)
{
    (void)stride;
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

PARE_INLINE void store_blocks(float *y, vecf v, size_t blocks)
{
    (void)blocks;
    _mm256_storeu_ps(y, v);
}

PARE_INLINE vec dot(vec d, vec u, vec x)
{
    return _mm256_dpbusd_avx_epi32(d, u, x);
}
#endif

/* Keeps a sum in one register: else compilers reorder sums, for which registers are few. */
PARE_INLINE void hold(vec *v)
{
#ifdef PARE_INTRINSICS
    (void)v;
#else
    __asm__("" : "+v"(*v));
#endif
}

/* The same 8 bytes everywhere. */
PARE_INLINE vec broadcast_word(int64_t word)
{
#if PARE_VNNI_BITS == 512
    return _mm512_set1_epi64(word);
#else
    return _mm256_set1_epi64x(word);
#endif
}

PARE_INLINE vec load_vec(const void *p)
{
    return VS(loadu)(p);
}

PARE_INLINE void store_vec(void *p, vec v)
{
    VS(storeu)(p, v);
}

/* Four activation codes in every 32-bit lane. */
PARE_INLINE vec broadcast_codes(const int8_t *x)
{
    int32_t word;
    memcpy(&word, x, sizeof word);
    return V(set1_epi32)(word);
}

/* Columns 4 i .. 4 i + 3 of an atom of each block. */
PARE_INLINE vec unpack_quad(const uint8_t *atom, size_t stride, int i, unsigned bits)
{
    const vec low = V(set1_epi8)(bits == 4 ? 15 : 3), four = V(set1_epi8)(4);
    const int word = bits == 8 ? i : bits == 4 ? i % 4 : i / 4;
    const vec w = load_blocks(atom + (size_t)(32 * word), stride);
    if (bits == 8)
        return VS(xor)(w, V(set1_epi8)((char)0x80));
    if (bits == 4)
        return VS(and)(i < 4 ? w : V(srli_epi16)(w, 4), low);
    const vec v = VS(and)(V(srli_epi16)(w, i % 4 * 2), low);
    if (bits == 2)
        return v;
    const vec high = load_blocks(atom + 64, stride);
    const vec bit = i < 2 ? V(slli_epi16)(high, 2 - i) : V(srli_epi16)(high, i - 2);
    return VS(or)(v, VS(and)(bit, four));
}
#endif

#endif
