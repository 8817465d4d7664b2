/* Decoding is one load, one variable shift and one fused multiply-add per eight channels; mixing
 * keeps a tile of 2 tokens by 32 channels in registers. */
#include <stdbool.h>

#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

enum { MIX_TOKENS = 2, MIX_LINES = 4, AHEAD = 4096 /* bytes of prefetch distance */ };

/* Eight codes of `bits` bits as numbers in 32-bit lanes. Those of 3 bits are three bytes, which a
 * load of four reads in one go where a byte follows (`more`). */
PARE_INLINE __m256i codes_8(const uint8_t *p, unsigned bits, bool more)
{
    if (bits == 8)
        return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    uint32_t word;
    if (bits == 4 || (bits == 3 && more)) {
        memcpy(&word, p, sizeof word);
    } else {
        uint16_t low;
        memcpy(&low, p, sizeof low);
        word = bits == 3 ? low | (uint32_t)p[2] << 16 : low;
    }
    const int b = (int)bits;
    const __m256i shift = _mm256_setr_epi32(0, b, 2 * b, 3 * b, 4 * b, 5 * b, 6 * b, 7 * b);
    return _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32((int32_t)word), shift),
                            _mm256_set1_epi32((1 << bits) - 1));
}

PARE_INLINE __m256 levels_8(__m256i code, unsigned bits, bool table, __m256 levels)
{
    if (bits == 8)
        return _mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(128)));
    return table ? _mm256_permutevar8x32_ps(levels, code) : _mm256_cvtepi32_ps(code);
}

/* Scales of eight channels, of which n exist. */
PARE_INLINE __m256 scales_8(const uint16_t *scale, size_t n)
{
    if (n >= 8)
        return load_scales(scale);
    uint16_t tail[8] = {0};
    memcpy(tail, scale, n * sizeof *scale);
    return load_scales(tail);
}

PARE_INLINE void put(float *dst, size_t n, __m256 v)
{
    if (n >= 8)
        _mm256_storeu_ps(dst, v);
    else
        _mm256_maskstore_ps(dst, mask_first(n), v);
}

/* One token; `more`: bytes follow its codes. */
PARE_INLINE void decode_row(float *dst, const uint8_t *row, const uint16_t *scales,
                            const uint16_t *lows, size_t group, size_t d, bool more, unsigned bits,
                            bool table, __m256 levels)
{
    __m256 scale = _mm256_setzero_ps(), low = scale;
    for (size_t c = 0, begin = 0, g = 0; c < d; c += 8, row += bits) {
        const size_t left = d - c;
        if (group == 1) {
            scale = scales_8(scales + c, left);
            low = lows ? scales_8(lows + c, left) : low;
        } else if (c == begin) {
            scale = _mm256_set1_ps(_cvtsh_ss(scales[g]));
            low = lows ? _mm256_set1_ps(_cvtsh_ss(lows[g])) : low;
            begin += group;
            g++;
        }
        const __m256i code = codes_8(row, bits, more || left > 8);
        put(dst + c, left, _mm256_fmadd_ps(levels_8(code, bits, table, levels), scale, low));
    }
}

PARE_INLINE void decode(float *dst, size_t ldd, const pare_kv_tile *src, size_t n, size_t d,
                        unsigned bits)
{
    const size_t row_bytes = pare_kv_row_bytes(d, bits);
    const bool named = src->levels && bits < 4;
    float table[8] = {0};
    if (named)
        memcpy(table, src->levels, sizeof *table << bits);
    const __m256 levels = _mm256_loadu_ps(table);
    for (size_t t = 0; t < n; t++)
        decode_row(dst + t * ldd, src->codes + t * row_bytes, src->scales + t * src->ld,
                   src->lows ? src->lows + t * src->ld : NULL, src->group, d, t + 1 < n, bits,
                   named, levels);
}

void pare_kv_decode_avx2(float *dst, size_t ldd, const pare_kv_tile *src, size_t n, size_t d)
{
    switch (src->bits) {
    case 2: decode(dst, ldd, src, n, d, 2); break;
    case 3: decode(dst, ldd, src, n, d, 3); break;
    case 4: decode(dst, ldd, src, n, d, 4); break;
    default: decode(dst, ldd, src, n, d, 8); break;
    }
}

/* `tokens` x `lines` x 8 outputs; `mask` for the last line. Asks for `fetch` bytes of what lies
 * behind each row of v. */
PARE_INLINE void mix(float *y, size_t ldy, const float *p, size_t ldp, const float *v, size_t ldv,
                     size_t n, size_t tokens, size_t lines, __m256i mask, size_t fetch)
{
    __m256 acc[MIX_TOKENS][MIX_LINES];
    for (size_t t = 0; t < tokens; t++)
        for (size_t l = 0; l < lines; l++)
            acc[t][l] = l + 1 < lines ? _mm256_loadu_ps(y + t * ldy + 8 * l)
                                      : _mm256_maskload_ps(y + t * ldy + 8 * l, mask);
    for (size_t j = 0; j < n; j++, v += ldv) {
        for (size_t i = 0; i < fetch; i += 64)
            _mm_prefetch((const char *)v + AHEAD + i, _MM_HINT_T0);
        for (size_t l = 0; l < lines; l++) {
            const __m256 w =
                l + 1 < lines ? _mm256_loadu_ps(v + 8 * l) : _mm256_maskload_ps(v + 8 * l, mask);
            for (size_t t = 0; t < tokens; t++)
                acc[t][l] = _mm256_fmadd_ps(_mm256_set1_ps(p[t * ldp + j]), w, acc[t][l]);
        }
    }
    for (size_t t = 0; t < tokens; t++)
        for (size_t l = 0; l < lines; l++) {
            if (l + 1 < lines)
                _mm256_storeu_ps(y + t * ldy + 8 * l, acc[t][l]);
            else
                _mm256_maskstore_ps(y + t * ldy + 8 * l, mask, acc[t][l]);
        }
}

void pare_kv_mix_avx2(float *y, size_t ldy, const float *p, size_t ldp, const float *v, size_t ldv,
                      size_t m, size_t n, size_t d)
{
    for (size_t c = 0; c < d; c += 8 * MIX_LINES) {
        const size_t left = d - c < 8 * MIX_LINES ? d - c : 8 * MIX_LINES;
        const size_t lines = (left + 7) / 8;
        const __m256i mask = mask_first(left - (lines - 1) * 8);
        size_t t = 0;
        for (; lines == MIX_LINES && t + MIX_TOKENS <= m; t += MIX_TOKENS)
            mix(y + t * ldy + c, ldy, p + t * ldp, ldp, v + c, ldv, n, MIX_TOKENS, MIX_LINES, mask,
                c + t ? 0 : d * sizeof *v);
        for (; lines == MIX_LINES && t < m; t++)
            mix(y + t * ldy + c, ldy, p + t * ldp, ldp, v + c, ldv, n, 1, MIX_LINES, mask,
                c + t ? 0 : d * sizeof *v);
        for (; t < m; t++)
            for (size_t l = 0; l < lines; l++)
                mix(y + t * ldy + c + 8 * l, ldy, p + t * ldp, ldp, v + c + 8 * l, ldv, n, 1, 1,
                    l + 1 < lines ? mask_first(8) : mask, 0);
    }
}

#endif
