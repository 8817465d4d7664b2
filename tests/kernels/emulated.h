/* tests/kernels/emulated.h - the instructions of AVX2, AVX-VNNI, AVX-512 and AMX in plain C: those
 * of SIMD Everywhere, and what its version 0.7.4 lacks, rounds twice or reads too much for. Sources
 * of kernels are compiled with it in place of <immintrin.h>, so that any machine can run them. */
#ifndef PARE_TESTS_EMULATED_H
#define PARE_TESTS_EMULATED_H

#define SIMDE_NO_NATIVE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t __mmask8;
typedef uint16_t __mmask16;
typedef uint32_t __mmask32;
typedef uint64_t __mmask64;

/* name(a, ...): a new value for each of `count` elements v[i] of type T of a. */
#define EMULATE(type, name, count, T, params, value)                                               \
    static inline type name params                                                                 \
    {                                                                                              \
        T v[count];                                                                                \
        memcpy(v, &a, sizeof v);                                                                   \
        for (int i = 0; i < (count); i++)                                                          \
            v[i] = (T)(value);                                                                     \
        memcpy(&a, v, sizeof v);                                                                   \
        return a;                                                                                  \
    }

static inline float emulated_float(const void *vector, int i)
{
    float f;
    memcpy(&f, (const char *)vector + 4 * i, sizeof f);
    return f;
}

static inline double emulated_double(const void *vector, int i)
{
    double d;
    memcpy(&d, (const char *)vector + 8 * i, sizeof d);
    return d;
}

static inline int32_t emulated_int(const void *vector, int i)
{
    int32_t n;
    memcpy(&n, (const char *)vector + 4 * i, sizeof n);
    return n;
}

static inline int64_t emulated_long(const void *vector, int i)
{
    int64_t n;
    memcpy(&n, (const char *)vector + 8 * i, sizeof n);
    return n;
}

#undef _mm256_fmadd_ps
#undef _mm256_maskload_ps
#undef _mm512_fmadd_ps
#undef _mm512_fmadd_pd
#undef _mm512_madd_epi16

EMULATE(__m256, _mm256_fmadd_ps, 8, float, (__m256 a, __m256 b, __m256 c),
        fmaf(v[i], emulated_float(&b, i), emulated_float(&c, i)))
EMULATE(__m512, _mm512_fmadd_ps, 16, float, (__m512 a, __m512 b, __m512 c),
        fmaf(v[i], emulated_float(&b, i), emulated_float(&c, i)))
EMULATE(__m512d, _mm512_fmadd_pd, 8, double, (__m512d a, __m512d b, __m512d c),
        fma(v[i], emulated_double(&b, i), emulated_double(&c, i)))
EMULATE(__m512d, _mm512_maskz_fmadd_pd, 8, double, (__mmask8 m, __m512d a, __m512d b, __m512d c),
        m >> i & 1 ? fma(v[i], emulated_double(&b, i), emulated_double(&c, i)) : 0)
EMULATE(__m512d, _mm512_rcp14_pd, 8, double, (__m512d a), (1 + 0x1p-15) / v[i])
EMULATE(__m512d, _mm512_rsqrt14_pd, 8, double, (__m512d a), (1 - 0x1p-15) / sqrt(v[i]))
EMULATE(__m512, _mm512_mask3_fmadd_ps, 16, float, (__m512 a, __m512 b, __m512 c, __mmask16 m),
        m >> i & 1 ? fmaf(v[i], emulated_float(&b, i), emulated_float(&c, i))
                   : emulated_float(&c, i))
EMULATE(__m512i, _mm512_srai_epi32, 16, int32_t, (__m512i a, unsigned n), v[i] >> n)
EMULATE(__m512i, _mm512_srav_epi32, 16, int32_t, (__m512i a, __m512i n),
        v[i] >> emulated_int(&n, i))
EMULATE(__m512i, _mm512_shuffle_epi32, 16, int32_t, (__m512i a, int order),
        emulated_int(&a, i / 4 * 4 + (order >> i % 4 * 2 & 3)))
EMULATE(__m512i, _mm512_permutex_epi64, 8, int64_t, (__m512i a, int order),
        emulated_long(&a, i / 4 * 4 + (order >> i % 4 * 2 & 3)))

EMULATE(__m512i, _mm512_madd_epi16, 16, int32_t, (__m512i a, __m512i b),
        (int16_t)v[i] * (int16_t)emulated_int(&b, i) + (v[i] >> 16) * (emulated_int(&b, i) >> 16))
EMULATE(__m512, _mm512_maskz_expand_ps, 16, float, (__mmask16 m, __m512 a),
        m >> i & 1 ? emulated_float(&a, __builtin_popcount(m &((1u << i) - 1))) : 0.0f)
EMULATE(__m512, _mm512_shuffle_f32x4, 16, float, (__m512 a, __m512 b, int quarters),
        emulated_float(i < 8 ? &a : &b, (quarters >> i / 4 * 2 & 3) * 4 + i % 4))
EMULATE(__m512, _mm512_permutevar_ps, 16, float, (__m512 a, __m512i from),
        emulated_float(&a, i / 4 * 4 + (emulated_int(&from, i) & 3)))
EMULATE(__m512, _mm512_mask_permutevar_ps, 16, float,
        (__m512 a, __mmask16 m, __m512 b, __m512i from),
        m >> i & 1 ? emulated_float(&b, i / 4 * 4 + (emulated_int(&from, i) & 3)) : v[i])

static inline __m512 _mm512_cvtepi32_ps(__m512i a)
{
    float v[16];
    for (int i = 0; i < 16; i++)
        v[i] = (float)emulated_int(&a, i);
    return simde_mm512_loadu_ps(v);
}

static inline __m128i _mm512_cvtepi32_epi8(__m512i a)
{
    uint8_t v[16];
    for (int i = 0; i < 16; i++)
        v[i] = (uint8_t)emulated_int(&a, i);
    return simde_mm_loadu_si128(v);
}

static inline __m512d _mm512_cvtps_pd(__m256 a)
{
    double v[8];
    for (int i = 0; i < 8; i++)
        v[i] = (double)emulated_float(&a, i);
    return simde_mm512_loadu_pd(v);
}

static inline __m256 _mm512_cvtpd_ps(__m512d a)
{
    float v[8];
    for (int i = 0; i < 8; i++)
        v[i] = (float)emulated_double(&a, i);
    return simde_mm256_loadu_ps(v);
}

static inline __m512i _mm512_cvtepu8_epi32(__m128i a)
{
    uint8_t byte[16];
    int32_t v[16];
    memcpy(byte, &a, sizeof byte);
    for (int i = 0; i < 16; i++)
        v[i] = byte[i];
    return simde_mm512_loadu_si512(v);
}

static inline __m512 _mm512_cvtph_ps(__m256i a)
{
    float v[16];
    const __m256 low = simde_mm256_cvtph_ps(simde_mm256_castsi256_si128(a));
    const __m256 high = simde_mm256_cvtph_ps(simde_mm256_extracti128_si256(a, 1));
    memcpy(v, &low, sizeof low);
    memcpy(v + 8, &high, sizeof high);
    return simde_mm512_loadu_ps(v);
}

static inline __m256 _mm512_extractf32x8_ps(__m512 a, int half)
{
    float v[16];
    memcpy(v, &a, sizeof v);
    return simde_mm256_loadu_ps(v + 8 * half);
}

/* Elements that are not asked for are not read. */
static inline __m256 _mm256_maskload_ps(const float *p, __m256i mask)
{
    float v[8] = {0};
    for (int i = 0; i < 8; i++)
        if (emulated_int(&mask, i) < 0)
            v[i] = p[i];
    return simde_mm256_loadu_ps(v);
}

static inline __m512 _mm512_maskz_loadu_ps(__mmask16 m, const float *p)
{
    float v[16] = {0};
    for (int i = 0; i < 16; i++)
        if (m >> i & 1)
            v[i] = p[i];
    return simde_mm512_loadu_ps(v);
}

static inline void _mm512_mask_storeu_ps(float *p, __mmask16 m, __m512 a)
{
    for (int i = 0; i < 16; i++)
        if (m >> i & 1)
            p[i] = emulated_float(&a, i);
}

static inline __m512i _mm512_maskz_loadu_epi32(__mmask16 m, const void *p)
{
    return simde_mm512_castps_si512(_mm512_maskz_loadu_ps(m, p));
}

static inline __m512i _mm512_maskz_loadu_epi64(__mmask8 m, const void *p)
{
    int64_t v[8] = {0};
    for (int i = 0; i < 8; i++)
        if (m >> i & 1)
            v[i] = emulated_long(p, i);
    return simde_mm512_loadu_si512(v);
}

static inline __m256i _mm256_dpbusd_avx_epi32(__m256i d, __m256i u, __m256i x)
{
    return simde_mm256_dpbusd_epi32(d, u, x);
}

#define _mm512_kunpackw(high, low) ((__mmask32)(high) << 16 | (low))
#define _mm512_kunpackd(high, low) ((__mmask64)(high) << 32 | (low))

/* How this processor rounds and whether denormals count as 0, which fmaf follows, too. */
#undef _mm_getcsr
#undef _mm_setcsr
#define _mm_getcsr() __builtin_ia32_stmxcsr()
#define _mm_setcsr   __builtin_ia32_ldmxcsr

/* Tiles of up to 16 rows of 64 bytes; as after power-on, nothing is in them before they are
 * configured. What lies outside the configured rows and bytes is 0. */
static uint8_t emulated_tile[8][16][64];
static size_t emulated_rows[8], emulated_bytes[8];

static inline void _tile_release(void)
{
    memset(emulated_tile, 0xff, sizeof emulated_tile);
    memset(emulated_rows, 0, sizeof emulated_rows);
}

static inline void _tile_loadconfig(const void *config)
{
    const uint8_t *const c = config;
    uint8_t nothing[14] = {0};
    if (c[0] != 1 || c[1] != 0 || memcmp(c + 2, nothing, sizeof nothing) != 0)
        abort();
    for (size_t i = 0; i < 8; i++) {
        emulated_bytes[i] = c[16 + 2 * i] + 256u * c[17 + 2 * i];
        emulated_rows[i] = c[48 + i];
        if (emulated_bytes[i] > 64 || emulated_bytes[i] % 4 != 0 || emulated_rows[i] > 16)
            abort();
    }
    memset(emulated_tile, 0, sizeof emulated_tile);
}

static inline void _tile_zero(int tile)
{
    memset(emulated_tile[tile], 0, sizeof emulated_tile[tile]);
}

static inline void _tile_loadd(int tile, const void *from, size_t stride)
{
    if (emulated_rows[tile] == 0)
        abort();
    for (size_t i = 0; i < emulated_rows[tile]; i++)
        memcpy(emulated_tile[tile][i], (const char *)from + i * stride, emulated_bytes[tile]);
}

static inline void _tile_stored(int tile, void *to, size_t stride)
{
    for (size_t i = 0; i < emulated_rows[tile]; i++)
        memcpy((char *)to + i * stride, emulated_tile[tile][i], emulated_bytes[tile]);
}

/* sum[m][n] += a[m] b[.][n], signed bytes, four columns of a meeting a word of b. */
__attribute__((noinline)) static void _tile_dpbssd(int sum, int a, int b)
{
    if (emulated_bytes[a] != 4 * emulated_rows[b])
        abort();
    for (size_t m = 0; m < 16; m++)
        for (size_t n = 0; n < 16; n++) {
            int32_t y = emulated_int(emulated_tile[sum][m], (int)n);
            for (size_t i = 0; i < emulated_bytes[a]; i++)
                y +=
                    (int8_t)emulated_tile[a][m][i] * (int8_t)emulated_tile[b][i / 4][4 * n + i % 4];
            memcpy(emulated_tile[sum][m] + 4 * n, &y, sizeof y);
        }
}

static inline float emulated_bf16(const uint8_t *row, int i)
{
    const uint8_t bytes[4] = {0, 0, row[2 * i], row[2 * i + 1]};
    return emulated_float(bytes, 0);
}

/* sum[m][n] += a[m] b[.][n], pairs of columns of a meeting rows of b. */
__attribute__((noinline)) static void _tile_dpbf16ps(int sum, int a, int b)
{
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float chain[2] = {0}, y = emulated_float(emulated_tile[sum][m], n);
            for (int i = 0; i < 32; i++)
                chain[i % 2] =
                    fmaf(emulated_bf16(emulated_tile[a][m], i),
                         emulated_bf16(emulated_tile[b][i / 2], 2 * n + i % 2), chain[i % 2]);
            y += chain[0] + chain[1];
            memcpy(emulated_tile[sum][m] + 4 * n, &y, sizeof y);
        }
    __builtin_ia32_ldmxcsr(before);
}

#endif
