/* tests/unit/position_bins.h - figures by position, added up by hand. */
#ifndef PARE_TESTS_POSITION_BINS_H
#define PARE_TESTS_POSITION_BINS_H

#include <check.h>
#include <math.h>

#include "compress/evaluate/evaluate.h"

/* Positions in the order of the windows: nll, kl [n] as they were scored. */
static inline void check_bins(const pare_eval_result *r, const double *nll_of, const double *kl_of,
                              size_t n_all, size_t window, size_t stride)
{
    size_t scored[PARE_EVAL_BINS] = {0}, windows[PARE_EVAL_BINS] = {0};
    double nll[PARE_EVAL_BINS] = {0}, kl[PARE_EVAL_BINS] = {0}, means[PARE_EVAL_BINS][512];
    for (size_t start = 0, n = 0; n < n_all; start += stride ? stride : window) {
        double sum[PARE_EVAL_BINS] = {0};
        size_t here[PARE_EVAL_BINS] = {0};
        for (size_t p = start && stride ? window - stride : 1; p < window; p++, n++) {
            const size_t b = (size_t)floor(log2((double)p));
            scored[b]++;
            here[b]++;
            sum[b] += nll_of[n];
            nll[b] += nll_of[n];
            kl[b] += kl_of[n];
        }
        for (size_t b = 0; b < PARE_EVAL_BINS; b++)
            if (here[b])
                means[b][windows[b]++ % 512] = sum[b] / (double)here[b];
    }
    ck_assert_uint_eq(r->bins, (size_t)floor(log2((double)(window - 1))) + 1);
    for (size_t b = 0; b < r->bins; b++) {
        const pare_eval_bin *const x = &r->bin[b];
        double mean = 0, squares = 0;
        ck_assert_uint_eq(x->scored, scored[b]);
        if (!scored[b])
            continue;
        ck_assert_double_eq_tol(x->nll, nll[b] / (double)scored[b], 2e-6);
        ck_assert_double_eq_tol(x->kl, kl[b] / (double)scored[b], 1e-9);
        ck_assert(x->baseline_nll > 0);
        for (size_t w = 0; w < windows[b]; w++)
            mean += means[b][w] / (double)windows[b];
        for (size_t w = 0; w < windows[b]; w++)
            squares += (means[b][w] - mean) * (means[b][w] - mean);
        if (windows[b] > 1)
            ck_assert_double_eq_tol(
                x->nll_stderr, sqrt(squares / (double)(windows[b] - 1) / (double)windows[b]), 4e-6);
        else
            ck_assert(isnan(x->nll_stderr));
    }
}

#endif
