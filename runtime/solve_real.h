/* runtime/solve_real.h - solves and factors of one type; included once for each type. Includers
 * define, and this file takes back: REAL, the type; OF(name), the name for it; add_panels, its
 * kernel; SQUARE_ROOT. */
#ifdef REAL /* by an includer */

#define ROWS    PARE_PANEL_ROWS
#define COLUMNS (PARE_PANEL_BYTES / sizeof(REAL))

/* A triangle as solves read it: minus what lies beside the squares of STEP rows on its diagonal, as
 * panels; these squares; and one by its diagonal. Backwards L is read as its transpose, upper. */
typedef struct OF(triangle) {
    REAL beside[MOST * MOST / 2];
    REAL square[STEPS][STEP * STEP], inverse[MOST];
    const REAL *step[STEPS];
    size_t n;
    bool backward;
} OF(triangle);

static void OF(read_triangle)(OF(triangle) * t, const REAL *l, size_t ld, size_t n, bool backward)
{
    REAL *to = t->beside;
    t->n = n;
    t->backward = backward;
    for (size_t i = 0; i < n; i += STEP) {
        const size_t high = n - i < STEP ? n - i : STEP, next = i + high;
        const size_t depth = backward ? n - next : i;
        t->step[i / STEP] = to;
        OF(pack_rows)(to, backward ? l + next * ld + i : l + i * ld, ld, backward, -1, high, depth);
        to += (high + ROWS - 1) / ROWS * ROWS * depth;
        for (size_t r = 0; r < high; r++) {
            for (size_t c = 0; c < r; c++)
                t->square[i / STEP][backward ? c * STEP + r : r * STEP + c] =
                    l[(i + r) * ld + i + c];
            t->inverse[i + r] = 1 / l[(i + r) * (ld + 1)];
        }
    }
}

/* Rows [i, next) of x, of which what lies before them is solved, or backwards behind them. */
static void OF(solve_step)(const OF(triangle) * t, REAL *x, size_t i, size_t next)
{
    const REAL *const square = t->square[i / STEP];
    for (size_t s = i; s < next; s++) {
        const size_t row = t->backward ? next - 1 - (s - i) : s;
        const size_t from = t->backward ? row + 1 : i, to = t->backward ? next : row;
        REAL *const y = x + row * COLUMNS;
        for (size_t q = from; q < to; q++) {
            const REAL f = square[(row - i) * STEP + q - i];
            for (size_t c = 0; c < COLUMNS; c++)
                y[c] -= f * x[q * COLUMNS + c];
        }
        for (size_t c = 0; c < COLUMNS; c++)
            y[c] *= t->inverse[row];
    }
}

/* A panel of COLUMNS right sides, x [n, COLUMNS]. */
static void OF(solve_panel)(const pare_kernels *kernels, const OF(triangle) * t, REAL *x)
{
    const size_t steps = (t->n + STEP - 1) / STEP;
    for (size_t s = 0; s < steps; s++) {
        const size_t step = t->backward ? steps - 1 - s : s, i = step * STEP;
        const size_t next = t->n - i < STEP ? t->n : i + STEP;
        kernels->add_panels(x + i * COLUMNS, COLUMNS, t->step[step],
                            t->backward ? x + next * COLUMNS : x, next - i, COLUMNS,
                            t->backward ? t->n - next : i);
        OF(solve_step)(t, x, i, next);
    }
}

/* Columns [j, j + wide) of L^-1, the part on and below the diagonal. */
static void OF(invert_columns)(const pare_kernels *kernels, const OF(triangle) * t, REAL *x,
                               size_t ld, size_t j, size_t wide)
{
    _Alignas(64) REAL panel[MOST * COLUMNS];
    memset(panel, 0, sizeof panel);
    for (size_t c = 0; c < wide; c++)
        panel[(j + c) * COLUMNS + c] = 1;
    OF(solve_panel)(kernels, t, panel);
    for (size_t i = j; i < t->n; i++)
        memcpy(x + i * ld + j, panel + i * COLUMNS, (i - j < wide ? i - j + 1 : wide) * sizeof *x);
}

static void OF(solve_columns)(const pare_kernels *kernels, const OF(triangle) * t,
                              pare_solve_kind kind, REAL *x, size_t ld, size_t wide)
{
    _Alignas(64) REAL panel[MOST * COLUMNS];
    const bool left = kind == PARE_SOLVE_LEFT;
    OF(pack_columns)(kernels, panel, x, ld, !left, wide, t->n);
    if (kind == PARE_SOLVE_RIGHT_NEGATED)
        for (size_t i = 0; i < t->n * COLUMNS; i++)
            panel[i] = -panel[i];
    OF(solve_panel)(kernels, t, panel);
    if (left)
        for (size_t i = 0; i < t->n; i++)
            memcpy(x + i * ld, panel + i * COLUMNS, wide * sizeof *x);
    else
        OF(transpose)(kernels, x, ld, panel, COLUMNS, t->n, wide);
}

static void OF(solve)(const pare_kernels *kernels, const pare_triangle_solve *s)
{
    OF(triangle) t;
    REAL *const x = s->x;
    OF(read_triangle)(&t, s->l, s->ldl, s->n, s->kind == PARE_SOLVE_RIGHT_NEGATED);
    for (size_t j = 0; j < s->count; j += COLUMNS) {
        const size_t wide = s->count - j < COLUMNS ? s->count - j : COLUMNS;
        if (s->kind == PARE_SOLVE_INVERSE)
            OF(invert_columns)(kernels, &t, x, s->ld, j, wide);
        else
            OF(solve_columns)
        (kernels, &t, s->kind, s->kind == PARE_SOLVE_LEFT ? x + j : x + j * s->ld, s->ld, wide);
    }
}

/* As pare_factor_tile, n at most CORNER. */
static size_t OF(factor_corner)(REAL *a, size_t lda, size_t n)
{
    REAL column[CORNER];
    for (size_t j = 0; j < n; j++) {
        const REAL pivot = a[j * (lda + 1)];
        if (!(pivot > 0) || !isfinite(pivot))
            return j + 1;
        const REAL root = SQUARE_ROOT(pivot);
        a[j * (lda + 1)] = root;
        for (size_t i = j + 1; i < n; i++) {
            column[i] = a[i * lda + j] /= root;
            for (size_t c = j + 1; c <= i; c++)
                a[i * lda + c] -= column[i] * column[c];
        }
    }
    return 0;
}

static size_t OF(factor_tile)(const pare_kernels *kernels, REAL *a, size_t lda, size_t n)
{
    for (size_t i = 0; i < n; i += CORNER) {
        const size_t high = n - i < CORNER ? n - i : CORNER, next = i + high;
        REAL *const corner = a + i * (lda + 1), *const below = a + next * lda + i;
        const size_t bad = OF(factor_corner)(corner, lda, high);
        if (bad)
            return i + bad;
        OF(solve)
        (kernels, &(pare_triangle_solve){PARE_SOLVE_RIGHT_TRANSPOSED, high, n - next, corner, lda,
                                         below, lda, sizeof *a == 8});
        pare_product_add(kernels, &(pare_product){.m = n - next,
                                                  .n = n - next,
                                                  .k = high,
                                                  .a = below,
                                                  .lda = lda,
                                                  .b = below,
                                                  .ldb = lda,
                                                  .transpose_b = true,
                                                  .c = a + next * (lda + 1),
                                                  .ldc = lda,
                                                  .alpha = -1,
                                                  .lower = true,
                                                  .f64 = sizeof *a == 8});
    }
    return 0;
}

#undef ROWS
#undef COLUMNS
#undef REAL
#undef OF
#undef add_panels
#undef SQUARE_ROOT
#endif
