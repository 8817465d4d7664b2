#include "quant/squeezellm.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "quant/kmeans.h"
#include "quant/rtn.h"
#include "runtime/threads.h"

enum { ROWS_PER_CHUNK = 4, DIGIT = 11, DIGITS = 1 << DIGIT };

typedef struct books_job {
    const float *w, *weight;
    const uint8_t *skip;
    float *book;
    size_t k, centers;
    pare_kmeans *solver; /* per worker */
} books_job;

static void make_books(void *arg, size_t begin, size_t end, size_t worker)
{
    const books_job *const job = arg;
    pare_kmeans *const s = &job->solver[worker];
    for (size_t i = begin; i < end; i++) {
        size_t count = 0;
        for (size_t j = 0; j < job->k; j++) {
            const size_t at = i * job->k + j;
            if (!job->skip || !job->skip[at])
                s->point[count++] =
                    (pare_kmeans_point){job->w[at], (uint32_t)j, (double)job->weight[j]};
        }
        float *const book = job->book + i * job->centers;
        pare_kmeans_solve(s, count, job->centers, book);
        for (size_t c = 0; c < job->centers; c++)
            book[c] = pare_f16_to_f32(pare_f32_to_f16(book[c]));
    }
}

/* s_j with its share of the mean; the products with squared weights stay far inside F32. */
static float *make_weights(pare_arena *scratch, const float *sensitivity, size_t k)
{
    float *const weight = PARE_NEW(scratch, float, k);
    double mean = 0;
    for (size_t j = 0; weight && sensitivity && j < k; j++)
        mean += (double)sensitivity[j] / (double)k;
    for (size_t j = 0; weight && j < k; j++)
        weight[j] = mean > 0 ? (float)((double)sensitivity[j] / mean) + 0.01F : 1;
    return weight;
}

static pare_status check_weights(pare_ctx *cx, const float *w, size_t n, size_t k)
{
    for (size_t i = 0; i < n * k; i++) {
        if (!(fabsf(w[i]) <= FLT_MAX))
            return pare_grid_fail(cx, PARE_GRID_NOT_FINITE, i / k, 0, w[i]);
        if (fabsf(w[i]) > 65504)
            return pare_grid_fail(cx, PARE_GRID_OVERFLOW, i / k, 0, w[i]);
    }
    return PARE_OK;
}

static pare_status take_solvers(pare_arena *scratch, size_t workers, size_t k, pare_kmeans **out)
{
    *out = PARE_NEW(scratch, pare_kmeans, workers);
    for (size_t i = 0; *out && i < workers; i++)
        PARE_TRY(pare_kmeans_take(scratch, k, &(*out)[i]));
    return *out ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_squeezellm_books(pare_ctx *cx, pare_arena *scratch, unsigned bits,
                                  const float *sensitivity, const uint8_t *skip, const float *w,
                                  size_t n, size_t k, float *book)
{
    PARE_TRY(check_weights(cx, w, n, k));
    const pare_mark mark = pare_arena_mark(scratch);
    books_job job = {.w = w, .skip = skip, .book = book, .k = k, .centers = (size_t)1 << bits};
    job.weight = make_weights(scratch, sensitivity, k);
    const pare_status s =
        job.weight ? take_solvers(scratch, pare_threads(cx), k, &job.solver) : PARE_ENOMEM;
    if (s == PARE_OK)
        pare_parallel(cx, n, ROWS_PER_CHUNK, make_books, &job);
    pare_arena_rewind(scratch, mark);
    return s;
}

size_t pare_squeezellm_count(double fraction, size_t n, size_t k)
{
    return (size_t)ceil(fraction * (double)n * (double)k);
}

/* The `count`-th largest bit pattern of scores >= 0, found digit by digit from the top: among equal
 * floats the order of their bits is that of their values. *above: how many are larger. */
static uint32_t pattern_of(const float *score, size_t total, size_t count, size_t *above)
{
    static const unsigned shift[3] = {21, 10, 0}, width[3] = {DIGIT, DIGIT, 10};
    uint32_t prefix = 0;
    *above = 0;
    for (unsigned d = 0; d < 3; d++) {
        size_t histogram[DIGITS] = {0};
        for (size_t i = 0; i < total; i++) {
            const uint32_t u = pare_f32_bits(score[i]);
            if (d == 0 || u >> (shift[d] + width[d]) == prefix)
                histogram[u >> shift[d] & ((1u << width[d]) - 1)]++;
        }
        uint32_t digit = (1u << width[d]) - 1;
        while (digit > 0 && *above + histogram[digit] < count)
            *above += histogram[digit--];
        prefix = prefix << width[d] | digit;
    }
    return prefix;
}

/* Marks the `count` largest scores, equal ones in order. */
static void mark_largest(const float *score, size_t total, size_t count, uint8_t *skip)
{
    if (count == 0)
        return;
    size_t above;
    const uint32_t pattern = pattern_of(score, total, count, &above);
    size_t equal = count - above;
    for (size_t i = 0; i < total; i++) {
        const uint32_t u = pare_f32_bits(score[i]);
        if (u > pattern || (u == pattern && equal > 0 && !skip[i])) {
            equal -= u == pattern;
            skip[i] = 1;
        }
    }
}

/* Marks what is kept apart; `out` has codes of all weights on books without the first part. */
static pare_status choose(pare_ctx *cx, pare_arena *scratch, const pare_squeezellm_opts *opts,
                          const float *sensitivity, const float *w, uint8_t *skip, float *book,
                          pare_codes *out)
{
    const size_t n = out->n, k = out->k, sensitive = out->sparse / 9;
    float *const score = PARE_NEW(scratch, float, n *k);
    float *const weight = score ? make_weights(scratch, sensitivity, k) : NULL;
    if (!weight)
        return PARE_ENOMEM;
    for (size_t i = 0; i < n * k; i++)
        score[i] = fabsf(w[i]);
    mark_largest(score, n * k, out->sparse - sensitive, skip);
    if (sensitive == 0)
        return PARE_OK;
    PARE_TRY(pare_squeezellm_books(cx, scratch, opts->bits, sensitivity, skip, w, n, k, book));
    const pare_grid grid = {.bits = opts->bits, .encoding = PARE_ENCODING_CODEBOOK, .book = book};
    for (size_t i = 0; i < n * k; i++) {
        const uint8_t code = pare_grid_encode(&grid, i / k, w[i], 1, 0);
        const float e = w[i] - pare_grid_decode(&grid, i / k, code, 1, 0);
        score[i] = skip[i] ? 0 : weight[i % k] * e * e;
    }
    mark_largest(score, n * k, sensitive, skip);
    return PARE_OK;
}

/* What the codes leave over, row by row. */
static pare_status keep_apart(pare_ctx *cx, const float *w, const uint8_t *skip, size_t centers,
                              pare_codes *out)
{
    size_t used = 0;
    for (size_t i = 0; i < out->n; i++) {
        out->sparse_start[i] = (uint32_t)used;
        for (size_t j = 0; j < out->k; j++) {
            const size_t at = i * out->k + j;
            if (!skip[at])
                continue;
            const float rest = w[at] - out->book[i * centers + out->codes[at]];
            const float kept = pare_f16_to_f32(pare_f32_to_f16(rest));
            if (!(fabsf(kept) <= FLT_MAX))
                return pare_fail(cx, PARE_ENUMERIC,
                                 "row %zu, column %zu: of the weight %g its code leaves %g over, "
                                 "which F16 cannot hold: repair the checkpoint, or leave this "
                                 "linear out",
                                 i, j, (double)w[at], (double)rest);
            out->sparse_column[used] = (uint32_t)j;
            out->sparse_value[used++] = kept;
        }
    }
    out->sparse_start[out->n] = (uint32_t)used;
    return PARE_OK;
}

static pare_status take_sparse(pare_arena *arena, pare_codes *out)
{
    if (out->sparse == 0)
        return PARE_OK;
    out->sparse_start = PARE_NEW(arena, uint32_t, out->n + 1);
    out->sparse_column = out->sparse_start ? PARE_NEW(arena, uint32_t, out->sparse) : NULL;
    out->sparse_value = out->sparse_column ? PARE_NEW(arena, float, out->sparse) : NULL;
    return out->sparse_value ? PARE_OK : PARE_ENOMEM;
}

static pare_status quantize(pare_ctx *cx, pare_arena *scratch, const pare_squeezellm_opts *opts,
                            const float *sensitivity, const float *w, pare_codes *out)
{
    const size_t n = out->n, k = out->k;
    pare_grid grid = {.bits = opts->bits, .encoding = PARE_ENCODING_CODEBOOK};
    float *const book = PARE_NEW(scratch, float, n << opts->bits);
    uint8_t *const skip = book ? PARE_NEW(scratch, uint8_t, n * k) : NULL;
    if (!skip)
        return PARE_ENOMEM;
    grid.book = book;
    PARE_TRY(check_weights(cx, w, n, k));
    if (out->sparse) {
        const pare_mark mark = pare_arena_mark(scratch);
        const pare_status s = choose(cx, scratch, opts, sensitivity, w, skip, book, out);
        pare_arena_rewind(scratch, mark);
        PARE_TRY(s);
    }
    PARE_TRY(pare_squeezellm_books(cx, scratch, opts->bits, sensitivity, skip, w, n, k, book));
    PARE_TRY(pare_rtn_quantize(cx, &grid, w, NULL, n, k, out));
    return out->sparse ? keep_apart(cx, w, skip, (size_t)1 << opts->bits, out) : PARE_OK;
}

pare_status pare_squeezellm_quantize(pare_ctx *cx, pare_arena *arena,
                                     const pare_squeezellm_opts *opts, const float *sensitivity,
                                     const float *w, size_t n, size_t k, pare_codes *out)
{
    if (opts->bits != 3 && opts->bits != 4)
        return pare_fail(cx, PARE_EINVAL, "%u bits per weight: codebooks have 3 or 4", opts->bits);
    const bool share = opts->fraction >= 0 && opts->fraction <= 0.5;
    const size_t sparse = share ? pare_squeezellm_count(opts->fraction, n, k) : 0;
    if (!share || sparse > UINT32_MAX)
        return pare_fail(cx, PARE_EINVAL, "a share of %g cannot be kept apart: 0 to 0.5",
                         opts->fraction);
    const pare_grid grid = {.bits = opts->bits, .encoding = PARE_ENCODING_CODEBOOK};
    PARE_TRY(pare_codes_take(arena, &grid, n, k, out));
    out->sparse = sparse;
    PARE_TRY(take_sparse(arena, out));
    const pare_mark mark = pare_arena_mark(arena);
    const pare_status s = quantize(cx, arena, opts, sensitivity, w, out);
    pare_arena_rewind(arena, mark);
    return s;
}
