/* kernels/gemm_panels.h - gemm_panels_* for vectors of any processor, included once for each type.
 * A lane is a column of c, so the sum of an output stays in its lane. Includers define, and this
 * file takes back:
 *   REAL, reals, LANES     the type, a vector of it and how many it holds
 *   PANELS(name)           the name for this type
 *   PRODUCT                the name of the kernel
 *   TOGETHER               panels of a, and of b, of a register tile at most: 1 or 2
 *   reals_load, reals_store, reals_all, reals_add, reals_fma(a, b, c) = a b + c */
#ifdef REAL /* by an includer */
#include <string.h>

#define ROWS    PARE_PANEL_ROWS
#define COLUMNS (PARE_PANEL_BYTES / sizeof(REAL))
#define ACROSS  (COLUMNS / LANES)

/* c += a b for `down` panels of a and `across` panels of b, both constants. Lines of c are asked
 * for one at a time: all at once they would take the places that loads of a wait for. */
PARE_INLINE void PANELS(tile)(REAL *c, size_t ldc, const REAL *a, const REAL *b, size_t k,
                              size_t down, size_t across)
{
    enum { APART = 4 /* steps from line to line */ };
    reals s[TOGETHER * ROWS][TOGETHER * ACROSS];
#pragma GCC unroll 12
    for (size_t i = 0; i < down * ROWS; i++)
#pragma GCC unroll 4
        for (size_t v = 0; v < across * ACROSS; v++)
            s[i][v] = reals_all(0);
    for (size_t p = 0, line = 0; p < k; p++) {
        reals now[TOGETHER * ACROSS];
        if (p % APART == 0 && line < down * ROWS * across) {
            __builtin_prefetch(c + line / across * ldc + line % across * COLUMNS, 1);
            line++;
        }
#pragma GCC unroll 4
        for (size_t v = 0; v < across * ACROSS; v++)
            now[v] = reals_load(b + v / ACROSS * k * COLUMNS + p * COLUMNS + v % ACROSS * LANES);
#pragma GCC unroll 12
        for (size_t i = 0; i < down * ROWS; i++) {
            const reals one = reals_all(a[i / ROWS * k * ROWS + p * ROWS + i % ROWS]);
#pragma GCC unroll 4
            for (size_t v = 0; v < across * ACROSS; v++)
                s[i][v] = reals_fma(one, now[v], s[i][v]);
        }
    }
#pragma GCC unroll 12
    for (size_t i = 0; i < down * ROWS; i++)
#pragma GCC unroll 4
        for (size_t v = 0; v < across * ACROSS; v++) {
            REAL *const at = c + i * ldc + v * LANES;
            reals_store(at, reals_add(reals_load(at), s[i][v]));
        }
}

PARE_INLINE void PANELS(any_tile)(REAL *c, size_t ldc, const REAL *a, const REAL *b, size_t k,
                                  size_t down, size_t across)
{
#if TOGETHER == 2
    if (down == 2 && across == 2)
        PANELS(tile)(c, ldc, a, b, k, 2, 2);
    else if (down == 2)
        PANELS(tile)(c, ldc, a, b, k, 2, 1);
    else if (across == 2)
        PANELS(tile)(c, ldc, a, b, k, 1, 2);
    else
#endif
        PANELS(tile)(c, ldc, a, b, k, 1, 1);
    (void)down;
    (void)across;
}

/* At the edge of c: what lies behind it is not touched. */
static void PANELS(edge_tile)(REAL *c, size_t ldc, const REAL *a, const REAL *b, size_t k, size_t m,
                              size_t n)
{
    enum { LD = TOGETHER * COLUMNS };
    REAL room[TOGETHER * ROWS * LD];
    memset(room, 0, sizeof room);
    for (size_t i = 0; i < m; i++)
        memcpy(room + i * LD, c + i * ldc, n * sizeof *c);
    PANELS(any_tile)(room, LD, a, b, k, (m + ROWS - 1) / ROWS, (n + COLUMNS - 1) / COLUMNS);
    for (size_t i = 0; i < m; i++)
        memcpy(c + i * ldc, room + i * LD, n * sizeof *c);
}

void PRODUCT(REAL *c, size_t ldc, const REAL *a, const REAL *b, size_t m, size_t n, size_t k)
{
    const size_t high = TOGETHER * ROWS, wide = TOGETHER * COLUMNS;
    for (size_t j = 0; j < n; j += wide)
        for (size_t i = 0; i < m; i += high) {
            const size_t rows = m - i < high ? m - i : high, columns = n - j < wide ? n - j : wide;
            REAL *const at = c + i * ldc + j;
            if (rows % ROWS == 0 && columns % COLUMNS == 0)
                PANELS(any_tile)(at, ldc, a + i * k, b + j * k, k, rows / ROWS, columns / COLUMNS);
            else
                PANELS(edge_tile)(at, ldc, a + i * k, b + j * k, k, rows, columns);
        }
}

#undef ROWS
#undef COLUMNS
#undef ACROSS
#undef REAL
#undef reals
#undef LANES
#undef PANELS
#undef PRODUCT
#undef TOGETHER
#undef reals_load
#undef reals_store
#undef reals_all
#undef reals_add
#undef reals_fma
#endif
