/* The vector of one token holds two words of 4 places of 8 rows, one of each half of an atom, so
 * that memory is read as one stream of codes and one of indices. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/gemm_x8_24_vnni.h"

#ifdef PARE_VNNI

enum { AHEAD = 4096 /* bytes of prefetch distance */ };

/* Sums of 8 rows: in the low half those of the first halves of atoms. */
typedef struct sums {
    __m512i d; /* of weights times activation codes + 128 */
    __m512i w; /* of weights */
} sums;

/* 4-bit weights times 16: those of word l of the first half of an atom, and of the second. */
PARE_INLINE __m512i weights_4(const uint8_t *codes, size_t l)
{
    const __m512i up = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_setzero_si256(), 1);
    const __m512i v = _mm512_broadcast_i64x4(load_32(codes + 32 * l));
    const __m512i high = _mm512_and_si512(_mm512_sllv_epi16(v, up), _mm512_set1_epi8((char)0xf0));
    return _mm512_xor_si512(high, _mm512_set1_epi8((char)0x80));
}

PARE_INLINE __m512i columns(__m512i x, size_t p)
{
    switch (p) {
    case 0: return _mm512_permutex_epi64(x, 0x00);
    case 1: return _mm512_permutex_epi64(x, 0x55);
    case 2: return _mm512_permutex_epi64(x, 0xaa);
    default: return _mm512_permutex_epi64(x, 0xff);
    }
}

/* Adds an atom; only: which of its two halves counts, as bits. */
PARE_INLINE sums add_atom(sums s, const uint8_t *codes, const uint8_t *indices, const int8_t *x,
                          unsigned only, unsigned bits)
{
    const __m512i keep = _mm512_set1_epi8(0x33), second = _mm512_set1_epi32(0x44440000);
    const __mmask8 halves = (__mmask8)((only & 1 ? 0x0f : 0) | (only & 2 ? 0xf0 : 0));
    const __m512i e = load_vec(indices);
    __m512i q = only == 3 ? load_vec(x) : _mm512_maskz_loadu_epi64(halves, x), pick[4];
    if (bits == 8)
        q = _mm512_xor_si512(q, _mm512_set1_epi8((char)0x80));
    pick[0] = _mm512_or_si512(_mm512_and_si512(e, keep), second);
    pick[1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(e, 2), keep), second);
    pick[2] = _mm512_srli_epi16(pick[0], 4);
    pick[3] = _mm512_srli_epi16(pick[1], 4);
    for (size_t p = 0; p < 4; p++) {
        __m512i w = bits == 4 ? weights_4(codes, p) : load_blocks(codes + 32 * p, 128);
        if (only != 3)
            w = _mm512_maskz_mov_epi64(halves, w);
        s.d = dot(s.d, _mm512_shuffle_epi8(columns(q, p), pick[p]), w);
        s.w = dot(s.w, _mm512_set1_epi8(1), w);
    }
    return s;
}

/* Sums of columns [k, end) of the row block whose codes and indices begin there. */
PARE_INLINE __m256i group_dot(const uint8_t *codes, const uint8_t *indices, const int8_t *x,
                              size_t k, size_t end, unsigned bits)
{
    const size_t size = pare_atom_bytes(bits);
    sums s = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    while (k < end) {
        const uint8_t *const atom = codes + k / 64 * size, *const e = indices + k / 64 * INDICES;
        const size_t next = end - k / 64 * 64 < 64 ? end : k / 64 * 64 + 64;
        for (size_t line = 0; line < size; line += 64)
            prefetch_stream(atom + line, AHEAD);
        prefetch_stream(e, AHEAD / 2);
        if (next - k == 64)
            s = add_atom(s, atom, e, x + k, 3, bits);
        else if (k % 64 == 0)
            s = add_atom(s, atom, e, x + k, 1, bits);
        else
            s = add_atom(s, atom, e, x + k - HALF, 2, bits);
        k = next;
    }
    __m512i d = _mm512_sub_epi32(s.d, _mm512_slli_epi32(s.w, 7));
    if (bits == 4)
        d = _mm512_srai_epi32(d, 4);
    return _mm256_add_epi32(_mm512_castsi512_si256(d), _mm512_extracti64x4_epi64(d, 1));
}

PARE_INLINE void one_token(float *y, const pare_x8 *x, const pare_panel *w, unsigned bits)
{
    const size_t atoms = pare_24_kept(w->k) / PARE_ATOM_K;
    const size_t groups = (w->k + w->group - 1) / w->group;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        const uint8_t *const codes = w->codes + row / 8 * atoms * pare_atom_bytes(bits);
        const uint8_t *const indices = w->indices + row / 8 * atoms * INDICES;
        __m256 acc = _mm256_setzero_ps();
        for (size_t b = 0, k = 0; k < x->k; b++) {
            const size_t end = x->k - k < x->group ? x->k : k + x->group;
            const __m256i d = group_dot(codes, indices, x->codes, k, end, bits);
            const __m256 s = load_scales(w->scales + row * groups + k / w->group * 8);
            acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(d),
                                  _mm256_mul_ps(s, _mm256_set1_ps(x->scales[b])), acc);
            k = end;
        }
        _mm256_storeu_ps(y + row, acc);
    }
}

void pare_gemm_x8_s4_avx512(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    static tile_fn *const fn[NT] = TILE_TABLE(4);
    if (x->m == 1)
        one_token(y, x, w, 4);
    else
        gemm_24(y, ldy, x, w, 4, fn, few_s4);
}

void pare_gemm_x8_s8_avx512(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w)
{
    static tile_fn *const fn[NT] = TILE_TABLE(8);
    if (x->m == 1)
        one_token(y, x, w, 8);
    else
        gemm_24(y, ldy, x, w, 8, fn, few_s8);
}

#endif
