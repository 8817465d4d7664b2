#include "calib/moments.h"

#include "calib/shares.h"
#include "runtime/fold.h"
#include "runtime/threads.h"

enum { COLUMNS = 64 };

uint64_t pare_moments_bytes(const pare_config *c)
{
    size_t most = 0;
    for (unsigned s = 0; s < PARE_SITES; s++) {
        const size_t k = pare_site_width(c, 0, (pare_site)s);
        most = k > most ? k : most;
    }
    return 2 * ((uint64_t)2 * most * sizeof(double) + PARE_ALIGN);
}

pare_status pare_moments_take(pare_ctx *cx, pare_arena *a, const pare_config *c, pare_site site,
                              pare_moments *out)
{
    const size_t k = pare_site_width(c, 0, site);
    *out = (pare_moments){.cx = cx,
                          .site = site,
                          .k = k,
                          .sum = PARE_NEW(a, double, 2 * k),
                          .square = PARE_NEW(a, double, 2 * k)};
    return out->sum && out->square ? PARE_OK : PARE_ENOMEM;
}

typedef struct batch {
    pare_moments *m;
    const float *x;
    size_t rows;
} batch;

static void add_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    const batch *const b = arg;
    const pare_moments *const m = b->m;
    (void)worker;
    for (size_t i = 0; i < b->rows; i++)
        for (size_t j = begin; j < end; j++) {
            const double v = (double)b->x[i * m->k + j];
            m->sum[j] += v;
            m->square[j] += v * v;
        }
}

static pare_status see(void *self, size_t part, pare_site site, const float *x, size_t rows,
                       size_t k)
{
    pare_moments *const m = self;
    batch b = {m, x, rows};
    (void)part;
    if (site != m->site)
        return PARE_OK;
    pare_parallel(m->cx, k, COLUMNS, add_columns, &b);
    m->tokens += rows;
    return PARE_OK;
}

static void share(void *self, bool last)
{
    const pare_moments *const m = self;
    pare_share_doubles(m->sum, m->sum + m->k, m->k, last);
    pare_share_doubles(m->square, m->square + m->k, m->k, last);
}

pare_tap pare_moments_tap(pare_moments *m)
{
    return (pare_tap){.see = see, .self = m, .last = m->site, .parts = 1, .share = share};
}

static double over_tokens(const pare_moments *m, double sum)
{
    return m->tokens ? sum / (double)m->tokens : 0.0;
}

double pare_moments_mean(const pare_moments *m, size_t j)
{
    return over_tokens(m, m->sum[j]);
}

double pare_moments_power(const pare_moments *m, size_t j)
{
    return over_tokens(m, m->square[j]);
}

double pare_moments_variance(const pare_moments *m, size_t j)
{
    const double mean = pare_moments_mean(m, j), v = pare_moments_power(m, j) - mean * mean;
    return v > 0.0 ? v : 0.0;
}
