#include "prune/slicegpt.h"

#include <math.h>
#include <string.h>

#include "runtime/linalg.h"

uint64_t pare_slicegpt_bytes(size_t hidden)
{
    const uint64_t square = (uint64_t)hidden * hidden;
    /* three sums in floats, one and two workspaces in double, the basis */
    return square * (3 * sizeof(float) + 3 * sizeof(double) + sizeof(float)) + 64 * hidden + 4096;
}

size_t pare_slicegpt_multiple(const pare_config *c)
{
    size_t step = PARE_SLICEGPT_STEP;
    while (c->hidden % c->heads == 0 && step % c->heads != 0)
        step += PARE_SLICEGPT_STEP;
    return step;
}

pare_status pare_slicegpt_basis(pare_ctx *cx, pare_arena *a, pare_arena *scratch, double *h,
                                size_t hidden, size_t kept, pare_slicegpt *out)
{
    *out = (pare_slicegpt){.hidden = hidden, .kept = kept};
    out->basis = PARE_NEW(a, float, kept *hidden);
    if (!out->basis)
        return PARE_ENOMEM;
    const pare_mark mark = pare_arena_mark(scratch);
    double *const value = PARE_NEW(scratch, double, hidden);
    pare_status s = value ? pare_eigen_f64(cx, scratch, h, hidden, value) : PARE_ENOMEM;
    double all = 0.0, held = 0.0;
    for (size_t i = 0; s == PARE_OK && i < hidden; i++) {
        const double share = value[i] > 0 ? value[i] : 0;
        const size_t rank = hidden - 1 - i; /* ascending */
        all += share;
        if (rank >= kept)
            continue;
        held += share;
        for (size_t j = 0; j < hidden; j++)
            out->basis[rank * hidden + j] = (float)h[i * hidden + j];
    }
    out->captured = all > 0 ? held / all : 1.0;
    pare_arena_rewind(scratch, mark);
    return s;
}

void pare_slicegpt_fold(const float *norm, size_t k, float *w, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < k; j++)
            w[i * k + j] *= norm[j];
}

void pare_slicegpt_readers(const pare_ctx *cx, const pare_slicegpt *s, const float *w, size_t rows,
                           float *out)
{
    const pare_gemm g = {.m = rows,
                         .n = s->kept,
                         .k = s->hidden,
                         .a = w,
                         .lda = s->hidden,
                         .b = s->basis,
                         .ldb = s->hidden,
                         .transpose_b = true,
                         .c = out,
                         .ldc = s->kept,
                         .alpha = 1.0F};
    pare_gemm_tiles(cx, &g);
}

pare_status pare_slicegpt_fold_block(pare_ctx *cx, const pare_config *c, pare_block *block)
{
    for (pare_role r = PARE_ROLE_Q; r < PARE_COMMON_ROLES; r++) {
        const int norm = pare_site_norm(c, c->arch->linear[r].site);
        size_t n, k;
        if (norm < 0)
            continue;
        if (block->norm_bias[norm])
            return pare_fail(cx, PARE_ENOTSUP, "a norm with a bias cannot be folded");
        pare_linear_shape(c, 0, r, &n, &k);
        pare_slicegpt_fold(block->norm[norm], k, block->linear[r].floats, n);
    }
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < c->hidden; j++)
            block->norm[i][j] = 1.0F;
    return PARE_OK;
}

/* A matrix [n, hidden] that reads the stream: [n, kept] in front of each row. */
static void turn_reader(const pare_ctx *cx, const pare_slicegpt *s, float *w, size_t n, float *part)
{
    pare_slicegpt_readers(cx, s, w, n, part);
    memset(w, 0, n * s->hidden * sizeof *w);
    for (size_t i = 0; i < n; i++)
        memcpy(w + i * s->hidden, part + i * s->kept, s->kept * sizeof *w);
}

/* A matrix [hidden, k] that adds to the stream: the first `kept` rows. */
static void turn_writer(const pare_ctx *cx, const pare_slicegpt *s, float *w, size_t k, float *part)
{
    const pare_gemm g = {.m = s->kept,
                         .n = k,
                         .k = s->hidden,
                         .a = s->basis,
                         .lda = s->hidden,
                         .b = w,
                         .ldb = k,
                         .c = part,
                         .ldc = k,
                         .alpha = 1.0F};
    pare_gemm_tiles(cx, &g);
    memset(w, 0, s->hidden * k * sizeof *w);
    memcpy(w, part, s->kept * k * sizeof *w);
}

pare_status pare_slicegpt_block(pare_ctx *cx, pare_arena *scratch, const pare_config *c,
                                const pare_slicegpt *s, pare_block *block)
{
    PARE_TRY(pare_slicegpt_fold_block(cx, c, block));
    for (pare_role r = PARE_ROLE_Q; r < PARE_COMMON_ROLES; r++) {
        const bool reads = pare_site_norm(c, c->arch->linear[r].site) >= 0;
        const pare_mark mark = pare_arena_mark(scratch);
        size_t n, k;
        pare_linear_shape(c, 0, r, &n, &k);
        float *const part = PARE_NEW(scratch, float, s->kept *(reads ? n : k));
        if (!part)
            return PARE_ENOMEM;
        if (reads)
            turn_reader(cx, s, block->linear[r].floats, n, part);
        else
            turn_writer(cx, s, block->linear[r].floats, k, part);
        if (!reads && block->linear[r].bias)
            turn_writer(cx, s, block->linear[r].bias, 1, part);
        pare_arena_rewind(scratch, mark);
    }
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < c->hidden; j++)
            block->norm[i][j] =
                j < s->kept ? (float)sqrt((double)s->hidden / (double)s->kept) : 0.0F;
    return PARE_OK;
}
