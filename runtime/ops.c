#include "runtime/ops.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 8 };

/* e^x = 2^k 2^r with k = rint(x / ln 2), |r| <= 1/2; 2^r by its Taylor polynomial of degree 9
 * (remainder below 1e-11). Adding 1.5 * 2^52 rounds to an integer, which then lies in the low bits.
 */
static inline double exp_clamped(double x)
{
    const double magic = 0x1.8p52;
    x = x < -700.0 ? -700.0 : x;
    x = x > 700.0 ? 700.0 : x;
    const double z = x * 1.4426950408889634;
    const double shifted = z + magic;
    const double r = z - (shifted - magic);
    double p = 1.0178086009239696e-07;
    p = p * r + 1.3215486790144305e-06;
    p = p * r + 1.5252733804059838e-05;
    p = p * r + 1.5403530393381606e-04;
    p = p * r + 1.3333558146428441e-03;
    p = p * r + 9.618129107628477e-03;
    p = p * r + 5.5504108664821576e-02;
    p = p * r + 2.402265069591007e-01;
    p = p * r + 6.931471805599453e-01;
    p = p * r + 1.0;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

static inline double lane_sum(const double *lane)
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

double pare_exp(double x)
{
    return exp_clamped(x);
}

static float inverse_rms(const float *x, size_t n, double eps)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (; i < n; i++)
        lane[i % LANES] += (double)x[i] * (double)x[i];
    return (float)(1.0 / sqrt(lane_sum(lane) / (double)n + eps));
}

void pare_rms_norm(float *y, const float *x, const float *w, size_t n, double eps)
{
    const float s = inverse_rms(x, n, eps);
    for (size_t i = 0; i < n; i++)
        y[i] = w[i] * (x[i] * s);
}

static double lane_mean(const float *x, size_t n)
{
    double lane[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % LANES] += (double)x[i];
    return lane_sum(lane) / (double)n;
}

static float inverse_deviation(const float *x, size_t n, double eps)
{
    const double mean = lane_mean(x, n);
    double lane[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % LANES] += ((double)x[i] - mean) * ((double)x[i] - mean);
    return (float)(1.0 / sqrt(lane_sum(lane) / (double)n + eps));
}

void pare_layer_norm(float *y, const float *x, const float *w, size_t n, double eps)
{
    const float m = (float)lane_mean(x, n), s = inverse_deviation(x, n, eps);
    for (size_t i = 0; i < n; i++)
        y[i] = w[i] * ((x[i] - m) * s);
}

void pare_norm_backward(pare_norm_kind kind, float *dx, float *t, const float *dy, const float *x,
                        const float *w, size_t n, double eps)
{
    const bool layer = kind == PARE_NORM_LAYER;
    const float mean = layer ? (float)lane_mean(x, n) : 0;
    const float s = layer ? inverse_deviation(x, n, eps) : inverse_rms(x, n, eps);
    double lane[LANES] = {0}, plain[LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        const float at = (x[i] - mean) * s;
        lane[i % LANES] += (double)(w[i] * dy[i]) * (double)at;
        plain[i % LANES] += (double)(w[i] * dy[i]);
        if (t)
            t[i] = at;
    }
    const float m = (float)(lane_sum(lane) / (double)n);
    const float a = layer ? (float)(lane_sum(plain) / (double)n) : 0;
    for (size_t i = 0; dx && i < n; i++)
        dx[i] += s * (w[i] * dy[i] - a - (x[i] - mean) * s * m);
}

/* Phi(x) = erfc(-x / sqrt 2) / 2, and erfc(z) = e^(-z^2) t P(t), t = 2 / (2 + z), for z >= 0. P
 * was fitted for z up to 6.5, relative error below 1e-10; behind that erfc is below 1e-19. */
static double normal_share(double x)
{
    static const double p[] = {0.2821073185039437,  0.28175745875117136, 0.25091527321419294,
                               0.14698355601349272, 0.2227257162234952,  -0.4602946476661129,
                               0.9961353167010734,  -1.7511682637189534, 1.8308567592446177,
                               -1.1519850884986265, 0.43413787682454263, -0.08984423573736824,
                               0.007672960130259333};
    double z = fabs(x) * 0.7071067811865476;
    z = z > 6.5 ? 6.5 : z;
    const double t = 2.0 / (2.0 + z);
    double sum = 0.0;
    for (size_t i = sizeof p / sizeof *p; i-- > 0;)
        sum = sum * t + p[i];
    const double half = 0.5 * exp_clamped(-z * z) * t * sum;
    return x < 0 ? half : 1.0 - half;
}

/* CLAMPED. */
static const double steepness = 1.702, limit = 7;

static double clamped_gate(double x)
{
    const double g = x > limit ? limit : x;
    return g / (1.0 + exp_clamped(-steepness * g));
}

static double clamped_up(double x)
{
    return 1.0 + (x > limit ? limit : x < -limit ? -limit : x);
}

static double activate(pare_act act, double x)
{
    switch (act) {
    case PARE_ACT_SILU: return x / (1.0 + exp_clamped(-x));
    case PARE_ACT_GELU: return x * normal_share(x);
    case PARE_ACT_GELU_TANH: /* (1 + tanh z) / 2 = 1 / (1 + e^-2z) */
        return x / (1.0 + exp_clamped(-2.0 * 0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case PARE_ACT_RELU: return x < 0 ? 0 : x;
    case PARE_ACT_RELU2: return x < 0 ? 0 : x * x;
    case PARE_ACT_CLAMPED: return clamped_gate(x);
    case PARE_ACTS: break;
    }
    return x;
}

void pare_activate(pare_act act, float *x, const float *up, size_t n)
{
    const bool clamped = act == PARE_ACT_CLAMPED;
    for (size_t i = 0; i < n; i++) {
        const double y = activate(act, (double)x[i]);
        const double u = !up ? 1 : clamped ? clamped_up((double)up[i]) : (double)up[i];
        x[i] = (float)(y * u);
    }
}

void pare_round_token(float *x, size_t n)
{
    float most = 1e-5f;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float scale = 127.0f / most;
    for (size_t i = 0; i < n; i++)
        x[i] = rintf(x[i] * scale) / scale;
}

void pare_soft_cap(float *x, size_t n, double scale, double cap)
{
    const double twice = 2.0 * scale / cap;
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(cap - 2.0 * cap / (exp_clamped((double)x[i] * twice) + 1.0));
}

/* The pairs (x[step i], x[step i + away]); sign -1: back. */
static inline void rotate(float *x, const float *cosine, const float *sine, size_t half,
                          size_t step, size_t away, float sign)
{
    for (size_t i = 0; i < half; i++) {
        float *const at = x + step * i;
        const float a = at[0], b = at[away], s = sign * sine[i];
        at[0] = a * cosine[i] - b * s;
        at[away] = b * cosine[i] + a * s;
    }
}

void pare_rope_apply(float *x, const float *cosine, const float *sine, size_t half, bool neighbours)
{
    if (neighbours)
        rotate(x, cosine, sine, half, 2, 1, 1);
    else
        rotate(x, cosine, sine, half, 1, half, 1);
}

void pare_rope_undo(float *x, const float *cosine, const float *sine, size_t half, bool neighbours)
{
    if (neighbours)
        rotate(x, cosine, sine, half, 2, 1, -1);
    else
        rotate(x, cosine, sine, half, 1, half, -1);
}

/* act'(x) */
static double slope(pare_act act, double x)
{
    const double root = 0.7978845608028654; /* of 2 / pi */
    double s, z;
    switch (act) {
    case PARE_ACT_SILU: s = 1.0 / (1.0 + exp_clamped(-x)); return s * (1.0 + x * (1.0 - s));
    case PARE_ACT_GELU: return normal_share(x) + x * 0.3989422804014327 * exp_clamped(-0.5 * x * x);
    case PARE_ACT_GELU_TANH: /* x s(2 z): s + 2 x z' s (1 - s) */
        z = root * (x + 0.044715 * x * x * x);
        s = 1.0 / (1.0 + exp_clamped(-2.0 * z));
        return s + 2.0 * x * root * (1.0 + 0.134145 * x * x) * s * (1.0 - s);
    case PARE_ACT_RELU: return x > 0;
    case PARE_ACT_RELU2: return x > 0 ? 2.0 * x : 0;
    case PARE_ACT_CLAMPED:
        s = 1.0 / (1.0 + exp_clamped(-steepness * x));
        return x > limit ? 0 : s * (1.0 + steepness * x * (1.0 - s));
    case PARE_ACTS: break;
    }
    return 1;
}

void pare_activate_backward(const pare_kernels *k, pare_act act, float *dgate, float *dup,
                            const float *d, const float *gate, const float *up, size_t n)
{
    if (up && act == PARE_ACT_SILU) {
        k->silu_back_f32(dgate, dup, d, gate, up, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const double g = (double)gate[i], da = (double)d[i];
        const bool clamped = act == PARE_ACT_CLAMPED,
                   held = clamped && up && fabs((double)up[i]) > limit;
        const double u = !up ? 1 : clamped ? clamped_up((double)up[i]) : (double)up[i];
        if (up && !held)
            dup[i] += (float)(da * activate(act, g));
        dgate[i] += (float)(da * slope(act, g) * u);
    }
}

static float row_max(const float *x, size_t n)
{
    float lane[LANES];
    for (size_t l = 0; l < LANES; l++)
        lane[l] = -INFINITY;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++)
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (size_t l = 1; l < LANES; l++)
        lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

/* Blocks are copied, since the kernel writes over what it reads; it is given the largest of all, so
 * that no sum has to shrink. */
double pare_logsumexp(const pare_kernels *k, const float *x, size_t n)
{
    enum { BLOCK = 64 };
    assert(n > 0);
    float max = row_max(x, n), e[BLOCK];
    double total = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t count = n - i < BLOCK ? n - i : BLOCK;
        memcpy(e, x + i, count * sizeof *e);
        (void)k->softmax_f32(e, count, 1.0F, &max, &total);
    }
    return (double)max + log(total);
}

double pare_divergence(const float *base, const float *logit, size_t n)
{
    const double max0 = (double)row_max(base, n), max = (double)row_max(logit, n);
    double total0[LANES] = {0}, total[LANES] = {0}, part[LANES] = {0}, e[LANES], e0[LANES];
    for (size_t i = 0; i < n; i += LANES) {
        const size_t lanes = n - i < LANES ? n - i : LANES;
        for (size_t l = 0; l < lanes; l++) {
            e0[l] = exp_clamped((double)base[i + l] - max0);
            e[l] = exp_clamped((double)logit[i + l] - max);
        }
        for (size_t l = 0; l < lanes; l++) {
            total0[l] += e0[l];
            total[l] += e[l];
            part[l] += e0[l] * ((double)base[i + l] - (double)logit[i + l]);
        }
    }
    const double sum0 = lane_sum(total0);
    const double kl = lane_sum(part) / sum0 - (max0 + log(sum0)) + (max + log(lane_sum(total)));
    return kl < 0 ? 0 : kl;
}

size_t pare_argmax(const float *x, size_t n)
{
    const float max = row_max(x, n);
    for (size_t i = 0; i < n; i++)
        if (x[i] == max)
            return i;
    return 0;
}

void pare_add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}
