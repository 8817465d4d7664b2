#include "runtime/hadamard.h"

#include <math.h>
#include <string.h>

#include "runtime/random.h"
#include "runtime/threads.h"

/* cos(pi j / (2m)), j <= m, by its series (that of the sine above pi / 4): below 1e-16 off, and
 * without the library, whose last bit depends on the CPU. */
static double cosine(size_t j, size_t m)
{
    const bool sine = 2 * j > m;
    const double x = (double)(sine ? m - j : j) * 1.5707963267948966 / (double)m;
    double term = sine ? x : 1.0, sum = 0.0;
    for (int i = sine ? 2 : 1; i < 24; i += 2) {
        sum += term;
        term *= -x * x / (i * (i + 1));
    }
    return sum;
}

/* C; the angles are multiples of a quarter circle over m, so m + 1 cosines are enough. */
static void fill_mix(float *mix, size_t m)
{
    double quarter[PARE_HADAMARD_ODD_MAX + 1];
    const double first = sqrt(1.0 / (double)m), other = sqrt(2.0 / (double)m);
    for (size_t j = 0; j <= m; j++)
        quarter[j] = cosine(j, m);
    for (size_t b = 0; b < m; b++)
        for (size_t d = 0, j = b; d < m; d++, j = (j + 2 * b) % (4 * m)) {
            const size_t half = j > 2 * m ? 4 * m - j : j;
            const double c = half > m ? -quarter[2 * m - half] : quarter[half];
            mix[b * m + d] = (float)((b ? other : first) * c);
        }
}

bool pare_hadamard_fits(size_t k)
{
    return k > 0 && k / (k & (~k + 1)) <= PARE_HADAMARD_ODD_MAX;
}

pare_status pare_hadamard_make(pare_ctx *cx, size_t k, pare_hadamard *h)
{
    const size_t power = k & (~k + 1);
    if (!pare_hadamard_fits(k))
        return pare_fail(cx, PARE_ENOTSUP,
                         "no Hadamard rotation of %zu values: %zu = %zu x %zu, and its odd factor "
                         "may be at most %d",
                         k, k, power, k ? k / power : 0, PARE_HADAMARD_ODD_MAX);
    h->k = k;
    h->power = power;
    h->odd = k / power;
    h->norm = (float)(1.0 / sqrt((double)power));
    h->sign = NULL;
    fill_mix(h->mix, h->odd);
    return PARE_OK;
}

void pare_hadamard_signs(uint64_t seed, uint64_t stream, size_t k, float *sign)
{
    for (size_t i = 0; i < k; i++)
        sign[i] = pare_random_u64(seed, stream, i) & 1 ? -1.0f : 1.0f;
}

typedef struct rotation {
    const pare_kernels *kernels;
    const pare_hadamard *h;
    const float *mix, *before, *after; /* C or its transpose; signs or NULL */
    float *x;
    size_t ldx;
} rotation;

static void flip(float *x, const float *sign, size_t k)
{
    for (size_t i = 0; sign && i < k; i++)
        x[i] *= sign[i];
}

static void rotate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const rotation *const r = arg;
    const pare_hadamard *const h = r->h;
    for (size_t t = begin; t < end; t++) {
        float *const x = r->x + t * r->ldx;
        flip(x, r->before, h->k);
        for (size_t b = 0; b < h->odd; b++)
            r->kernels->hadamard_f32(x + b * h->power, h->power, h->norm);
        if (h->odd > 1)
            r->kernels->mix_f32(x, h->power, r->mix, h->odd);
        flip(x, r->after, h->k);
    }
}

/* Rows of about 16,384 values per chunk: a loop over fewer is not worth waking a helper. */
static void run(const pare_ctx *cx, rotation *r, size_t rows)
{
    const size_t chunk = 1 + 16384 / r->h->k;
    if (rows <= chunk)
        rotate_rows(r, 0, rows, 0);
    else
        pare_parallel(cx, rows, chunk, rotate_rows, r);
}

void pare_hadamard_apply(const pare_ctx *cx, const pare_hadamard *h, float *x, size_t ldx,
                         size_t rows)
{
    rotation r = {&cx->kernels, h, h->mix, h->sign, NULL, x, ldx};
    run(cx, &r, rows);
}

/* H is symmetric and acts on other indices than C, so the order of the two does not matter. */
void pare_hadamard_invert(const pare_ctx *cx, const pare_hadamard *h, float *x, size_t ldx,
                          size_t rows)
{
    float transposed[PARE_HADAMARD_ODD_MAX * PARE_HADAMARD_ODD_MAX];
    for (size_t b = 0; b < h->odd; b++)
        for (size_t d = 0; d < h->odd; d++)
            transposed[d * h->odd + b] = h->mix[b * h->odd + d];
    rotation r = {&cx->kernels, h, transposed, NULL, h->sign, x, ldx};
    run(cx, &r, rows);
}
