/* runtime/product_real.h - products of one type; included once for each type. Includers define, and
 * this file takes back: REAL, the type; OF(name), the name for it; add_panels, its kernel. */
#ifdef REAL /* by an includer */

#define ROWS    PARE_PANEL_ROWS
#define COLUMNS (PARE_PANEL_BYTES / sizeof(REAL))

/* What of a square of c on the diagonal lies on and below it. */
static void OF(add_corner)(const pare_kernels *kernels, REAL *c, size_t ldc, const REAL *a,
                           const REAL *b, size_t rows, size_t columns, size_t depth)
{
    REAL room[CORNER * CORNER];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            room[i * CORNER + j] = j <= i ? c[i * ldc + j] : 0;
    kernels->add_panels(room, CORNER, a, b, rows, columns, depth);
    for (size_t i = 0; i < rows; i++)
        memcpy(c + i * ldc, room + i * CORNER, (i < columns ? i + 1 : columns) * sizeof *c);
}

/* Rows from `row` on and columns from `column` on of c, from their panels; both are multiples of
 * CORNER. */
static void OF(add_lower)(const pare_kernels *kernels, REAL *c, size_t ldc, const REAL *a,
                          const REAL *b, size_t row, size_t column, size_t rows, size_t columns,
                          size_t depth)
{
    for (size_t i = column > row ? column - row : 0; i < rows; i += CORNER) {
        const size_t high = rows - i < CORNER ? rows - i : CORNER, front = row + i - column;
        const size_t left = front < columns ? front : columns, right = columns - left;
        REAL *const at = c + (row + i) * ldc + column;
        kernels->add_panels(at, ldc, a + i * depth, b, high, left, depth);
        if (right)
            OF(add_corner)
        (kernels, at + left, ldc, a + i * depth, b + left * depth, high,
         right < high ? right : high, depth);
    }
}

static void OF(add_panels_of)(const pare_kernels *kernels, const pare_product *x, const REAL *a,
                              const REAL *b, size_t row, size_t column, size_t rows, size_t columns,
                              size_t depth)
{
    enum { NEAR = NEAR_BYTES / sizeof(REAL) / DEPTH };
    REAL *const c = x->c;
    for (size_t i = 0; i < rows; i += NEAR) {
        const size_t high = rows - i < NEAR ? rows - i : NEAR;
        if (x->lower && row + i < column + columns)
            OF(add_lower)
        (kernels, c, x->ldc, a + i * depth, b, row + i, column, high, columns, depth);
        else kernels->add_panels(c + (row + i) * x->ldc + column, x->ldc, a + i * depth, b, high,
                                 columns, depth);
    }
}

static void OF(add_tile)(const pare_kernels *kernels, const pare_product *x, tile t)
{
    enum { HIGH = HIGH_BYTES / sizeof(REAL) / DEPTH, WIDE = WIDE_BYTES / sizeof(REAL) / DEPTH };
    _Alignas(64) REAL a[(HIGH + ROWS) * DEPTH], b[WIDE * DEPTH];
    const REAL *const left = x->a, *const right = x->b;
    const size_t end =
        x->lower && t.row + t.rows < t.column + t.columns ? t.row + t.rows : t.column + t.columns;
    for (size_t p = 0; end > t.column && p < x->k; p += DEPTH) {
        const size_t depth = x->k - p < DEPTH ? x->k - p : DEPTH;
        OF(pack_rows)
        (a, left + (x->transpose_a ? p * x->lda + t.row : t.row * x->lda + p), x->lda,
         x->transpose_a, (REAL)x->alpha, t.rows, depth);
        for (size_t j = t.column; j < end; j += WIDE) {
            const size_t columns = end - j < WIDE ? end - j : WIDE;
            OF(pack_columns)
            (kernels, b, right + (x->transpose_b ? j * x->ldb + p : p * x->ldb + j), x->ldb,
             x->transpose_b, columns, depth);
            OF(add_panels_of)(kernels, x, a, b, t.row, j, t.rows, columns, depth);
        }
    }
}

#undef ROWS
#undef COLUMNS
#undef REAL
#undef OF
#undef add_panels
#endif
