/* runtime/panels_real.h - matrices of one type as the panels of kernels/kernels.h; included by
 * panels.h once for each type, REAL, whose names OF(name) gives. */
#ifdef REAL /* by panels.h */

#define ROWS    PARE_PANEL_ROWS
#define STRETCH 8 /* rows side by side: each line of them and of the panels is met once */
#define COLUMNS (PARE_PANEL_BYTES / sizeof(REAL))
#define LINE    (64 / sizeof(REAL)) /* of the caches */

/* Asks for rows [from, to) of x [rows, depth], for the second-level cache. */
static inline void OF(ask_for)(const REAL *x, size_t ld, size_t from, size_t to, size_t rows,
                               size_t depth)
{
    for (size_t r = from; r < to && r < rows; r++)
        for (size_t p = 0; p < depth; p += LINE)
            __builtin_prefetch(x + r * ld + p, 0, 2);
}

/* Up to ROWS rows of alpha op(a) as a panel, zeros behind them. */
static inline void OF(pack_few_rows)(REAL *to, const REAL *a, size_t row, size_t column, REAL alpha,
                                     size_t rows, size_t depth)
{
    memset(to, 0, depth * ROWS * sizeof *to);
    for (size_t p = 0; p < depth; p++)
        for (size_t r = 0; r < rows; r++)
            to[p * ROWS + r] = alpha * a[r * row + p * column];
}

/* The first `rows` rows and `depth` columns of alpha op(a). */
static inline void OF(pack_rows)(REAL *to, const REAL *a, size_t lda, bool transposed, REAL alpha,
                                 size_t rows, size_t depth)
{
    const size_t whole = rows / ROWS * ROWS;
    for (size_t p = 0, next; transposed && p < depth; p = next) {
        next = depth - p < STRETCH ? depth : p + STRETCH;
        for (size_t i = 0; i < whole; i += ROWS)
            for (size_t q = p; q < next; q++) {
                REAL *const at = to + i * depth + q * ROWS;
                for (size_t r = 0; r < ROWS; r++)
                    at[r] = alpha * a[q * lda + i + r];
            }
    }
    for (size_t i = 0; !transposed && i < whole; i += ROWS) {
        OF(ask_for)(a, lda, i + ROWS, i + 2 * ROWS, rows, depth);
        for (size_t p = 0; p < depth; p++) {
            REAL *const at = to + i * depth + p * ROWS;
            for (size_t r = 0; r < ROWS; r++)
                at[r] = alpha * a[(i + r) * lda + p];
        }
    }
    if (whole < rows)
        OF(pack_few_rows)
    (to + whole * depth, transposed ? a + whole : a + whole * lda, transposed ? 1 : lda,
     transposed ? lda : 1, alpha, rows - whole, depth);
}

/* The first `columns` columns and `depth` rows of op(b), zeros behind the last column. */
static inline void OF(pack_columns)(const pare_kernels *kernels, REAL *to, const REAL *b,
                                    size_t ldb, bool transposed, size_t columns, size_t depth)
{
    const size_t whole = columns / COLUMNS * COLUMNS, left = columns - whole;
    for (size_t j = 0; transposed && j < whole; j += COLUMNS) {
        OF(ask_for)(b, ldb, j + COLUMNS, j + 2 * COLUMNS, columns, depth);
        OF(transpose)(kernels, to + j * depth, COLUMNS, b + j * ldb, ldb, COLUMNS, depth);
    }
    for (size_t p = 0, next; !transposed && p < depth; p = next) {
        next = depth - p < STRETCH ? depth : p + STRETCH;
        for (size_t j = 0; j < whole; j += COLUMNS)
            for (size_t q = p; q < next; q++)
                memcpy(to + j * depth + q * COLUMNS, b + q * ldb + j, COLUMNS * sizeof *to);
    }
    if (!left)
        return;
    to += whole * depth;
    memset(to, 0, depth * COLUMNS * sizeof *to);
    if (transposed)
        OF(transpose)(kernels, to, COLUMNS, b + whole * ldb, ldb, left, depth);
    for (size_t p = 0; !transposed && p < depth; p++)
        memcpy(to + p * COLUMNS, b + p * ldb + whole, left * sizeof *to);
}

#undef ROWS
#undef COLUMNS
#undef STRETCH
#undef LINE
#undef REAL
#undef OF
#endif
