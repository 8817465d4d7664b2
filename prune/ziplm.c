#include "prune/ziplm.h"

#include <string.h>

#include "runtime/threads.h"
#include "solve/factor.h"

enum { COLUMNS = 64, ROWS = 8 };

static const float damp = 0.01f;

/* Inputs that are left lie in front: place p has input at[p]. */
typedef struct sweep {
    float *w, *u;
    double *g;      /* [k, k] */
    double *square; /* [k] |W_:j|^2 by place */
    double *column; /* [n] W_:j / G_jj of the input that goes */
    double *row;    /* [k] its G_j: */
    uint32_t *at;   /* [k] */
    size_t n, k, left;
} sweep;

/* G = U^T U: a row from its diagonal on. */
static void invert_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const sweep *const s = arg;
    (void)worker;
    for (size_t a = begin; a < end; a++) {
        double *const g = s->g + a * s->k;
        for (size_t b = a; b < s->k; b++)
            g[b] = 0.0;
        for (size_t r = 0; r <= a; r++) {
            const float *const u = s->u + r * s->k;
            const double f = (double)u[a];
            for (size_t b = a; b < s->k; b++)
                g[b] += f * (double)u[b];
        }
    }
}

static void mirror_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const sweep *const s = arg;
    (void)worker;
    for (size_t a = begin; a < end; a++)
        for (size_t b = 0; b < a; b++)
            s->g[a * s->k + b] = s->g[b * s->k + a];
}

/* W -= column row, and what is left of its columns. */
static void change_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    const sweep *const s = arg;
    (void)worker;
    for (size_t p = begin; p < end; p++)
        s->square[p] = 0.0;
    for (size_t i = 0; i < s->n; i++) {
        float *const w = s->w + i * s->k;
        for (size_t p = begin; p < end; p++) {
            w[p] = (float)((double)w[p] - s->column[i] * s->row[p]);
            s->square[p] += (double)w[p] * (double)w[p];
        }
    }
}

/* G -= G_:j G_j: / G_jj; the input that goes lies behind those left. */
static void change_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const sweep *const s = arg;
    (void)worker;
    for (size_t a = begin; a < end; a++) {
        double *const g = s->g + a * s->k;
        const double f = s->row[a] / s->row[s->left];
        for (size_t b = 0; b < s->left; b++)
            g[b] -= f * s->row[b];
    }
}

static void swap_floats(float *x, float *y)
{
    const float t = *x;
    *x = *y;
    *y = t;
}

static void swap_doubles(double *x, double *y)
{
    const double t = *x;
    *x = *y;
    *y = t;
}

/* Places p and q change what they have. */
static void swap_places(sweep *s, size_t p, size_t q)
{
    const uint32_t at = s->at[p];
    if (p == q)
        return;
    s->at[p] = s->at[q];
    s->at[q] = at;
    swap_doubles(&s->square[p], &s->square[q]);
    for (size_t i = 0; i < s->n; i++)
        swap_floats(&s->w[i * s->k + p], &s->w[i * s->k + q]);
    for (size_t i = 0; i <= s->left; i++)
        swap_doubles(&s->g[p * s->k + i], &s->g[q * s->k + i]);
    for (size_t i = 0; i <= s->left; i++)
        swap_doubles(&s->g[i * s->k + p], &s->g[i * s->k + q]);
}

static size_t cheapest(const sweep *s, double *cost)
{
    size_t best = 0;
    for (size_t p = 0; p < s->left; p++) {
        const double c = s->square[p] / s->g[p * s->k + p];
        if (p == 0 || c < *cost || (c == *cost && s->at[p] < s->at[best])) {
            best = p;
            *cost = c;
        }
    }
    return best;
}

/* The cheapest input goes to place `left`, which sinks by one. */
static void take_out(const pare_ctx *cx, sweep *s, double *lost)
{
    const size_t p = cheapest(s, lost);
    s->left--;
    swap_places(s, p, s->left);
    const double *const g = s->g + s->left * s->k;
    memcpy(s->row, g, (s->left + 1) * sizeof *g);
    for (size_t i = 0; i < s->n; i++)
        s->column[i] = (double)s->w[i * s->k + s->left] / g[s->left];
    pare_parallel(cx, s->left, COLUMNS, change_columns, s);
    pare_parallel(cx, s->left, ROWS, change_rows, s);
}

/* Inputs to their own columns, zeros in the others. */
static void put_back(sweep *s, uint8_t *keep)
{
    float *const row = (float *)(void *)s->row; /* there are twice as many bytes */
    for (size_t i = 0; i < s->n; i++) {
        float *const w = s->w + i * s->k;
        memset(row, 0, s->k * sizeof *row);
        for (size_t p = 0; p < s->left; p++)
            row[s->at[p]] = w[p];
        memcpy(w, row, s->k * sizeof *row);
    }
    for (size_t p = 0; keep && p < s->k; p++)
        keep[s->at[p]] = p < s->left;
}

/* G, and weights of inputs that nobody saw, which are 0. */
static pare_status begin(pare_ctx *cx, pare_arena *scratch, float *h, sweep *s)
{
    const pare_factor_opts opts = {.damp = damp};
    const pare_mark mark = pare_arena_mark(scratch);
    pare_factor f;
    PARE_TRY(pare_factorize(cx, scratch, &opts, h, s->k, &f));
    if (f.damping.failed)
        return pare_fail(cx, PARE_ENUMERIC,
                         "the statistics of %zu inputs have no factor; calibrate on more text",
                         s->k);
    s->u = f.u;
    pare_parallel(cx, s->k, ROWS, invert_rows, s);
    pare_parallel(cx, s->k, ROWS, mirror_rows, s);
    for (size_t j = 0; j < s->k; j++)
        s->square[j] = 0.0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t j = 0; j < s->k; j++) {
            float *const w = &s->w[i * s->k + j];
            *w = f.dead[j] ? 0.0f : *w;
            s->square[j] += (double)*w * (double)*w;
        }
    for (size_t j = 0; j < s->k; j++)
        s->at[j] = (uint32_t)j;
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

static pare_status run(pare_ctx *cx, pare_arena *scratch, sweep *s, float *h, size_t kept,
                       uint8_t *keep, double *lost)
{
    s->g = pare_arena_take_raw(scratch, s->k * s->k, sizeof *s->g);
    s->square = PARE_NEW(scratch, double, s->k);
    s->column = PARE_NEW(scratch, double, s->n);
    s->row = PARE_NEW(scratch, double, s->k);
    s->at = PARE_NEW(scratch, uint32_t, s->k);
    if (!s->g || !s->square || !s->column || !s->row || !s->at)
        return PARE_ENOMEM;
    PARE_TRY(begin(cx, scratch, h, s));
    lost[0] = 0.0;
    for (size_t i = 1; s->left > kept; i++) {
        PARE_TRY(pare_ctx_interrupted(cx));
        take_out(cx, s, &lost[i]);
        lost[i] += lost[i - 1];
    }
    put_back(s, keep);
    return PARE_OK;
}

pare_status pare_ziplm_prune(pare_ctx *cx, pare_arena *scratch, float *w, float *h, size_t n,
                             size_t k, size_t kept, uint8_t *keep, double *lost)
{
    const pare_mark mark = pare_arena_mark(scratch);
    sweep s = {.w = w, .n = n, .k = k, .left = k};
    const pare_status status = run(cx, scratch, &s, h, kept, keep, lost);
    pare_arena_rewind(scratch, mark);
    return status;
}

uint64_t pare_ziplm_bytes(size_t n, size_t k)
{
    const uint64_t square = (uint64_t)k * k;
    return square * (sizeof(double) + sizeof(float)) + pare_factor_bytes(k) +
           (3 * (uint64_t)k + n) * sizeof(double) + 4096;
}

double pare_ziplm_flops(size_t n, size_t k, size_t kept)
{
    const double all = (double)k, left = (double)kept, rows = (double)n;
    return all * all * all / 3 + rows * (all * all - left * left) +
           2 * (all * all * all - left * left * left) / 3;
}
