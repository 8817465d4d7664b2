/* One task takes a value head of a sequence through all tokens of the batch: convolution, state and
 * norm. Sums run over the key, one for each channel of the value, in the order of the key. */
#include "runtime/recur.h"

#include <math.h>
#include <string.h>

#include "runtime/forward_internal.h"
#include "runtime/threads.h"

typedef struct recur_call {
    const pare_recur *r;
    const pare_recurrence_sizes *sizes;
    const pare_kernels *kernels;
    const float *mixed, *z, *beta, *decay;
    float *y;
    double eps;
    size_t channels; /* of mixed */
} recur_call;

/* One value head of a sequence. */
typedef struct head {
    const recur_call *call;
    size_t sequence, head;
    float *state; /* [key_width][value_width] */
    float q[PARE_STATE_WIDTH_MAX], k[PARE_STATE_WIDTH_MAX], v[PARE_STATE_WIDTH_MAX];
    float sum[PARE_STATE_WIDTH_MAX];
} head;

/* out [count] = silu of the convolution at token t of channels first, first + 1, ... */
static void convolve(const head *h, size_t t, size_t first, size_t count, float *out)
{
    const recur_call *const c = h->call;
    const size_t taps = c->sizes->taps, length = c->r->batch.length;
    const float *const weights = c->r->weights->conv + first * taps;
    memset(out, 0, count * sizeof *out);
    for (size_t i = 0; i < taps; i++) { /* the input at token t + 1 - taps + i */
        const bool before = t + i + 1 < taps;
        const size_t row =
            before ? h->sequence * (taps - 1) + t + i : h->sequence * length + t + i + 1 - taps;
        const float *const in = (before ? c->r->kv->past : c->mixed) + row * c->channels + first;
        for (size_t j = 0; j < count; j++)
            out[j] += weights[j * taps + i] * in[j];
    }
    for (size_t j = 0; j < count; j++)
        out[j] = (float)((double)out[j] / (1 + pare_exp(-(double)out[j])));
}

/* x = x scale / sqrt(sum x^2 + 1e-6) */
static void unit(float *x, size_t n, double scale)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    const float by = (float)(scale / sqrt(sum + 1e-6));
    for (size_t i = 0; i < n; i++)
        x[i] *= by;
}

/* ln(1 + e^x) */
static double softplus(double x)
{
    return x > 0 ? x + log1p(pare_exp(-x)) : log1p(pare_exp(x));
}

/* The state takes a token in, and y = S^T q. */
static void step(head *h, float keep, float beta, float *y)
{
    const size_t dk = h->call->sizes->key_width, dv = h->call->sizes->value_width;
    float *const sum = h->sum;
    memset(sum, 0, dv * sizeof *sum);
    for (size_t i = 0; i < dk; i++) {
        float *const s = h->state + i * dv;
        const float k = h->k[i];
        for (size_t j = 0; j < dv; j++) {
            s[j] *= keep;
            sum[j] += s[j] * k;
        }
    }
    for (size_t j = 0; j < dv; j++) {
        sum[j] = beta * (h->v[j] - sum[j]);
        y[j] = 0;
    }
    for (size_t i = 0; i < dk; i++) {
        float *const s = h->state + i * dv;
        const float k = h->k[i], q = h->q[i];
        for (size_t j = 0; j < dv; j++) {
            s[j] += k * sum[j];
            y[j] += s[j] * q;
        }
    }
}

static void run_head(head *h)
{
    const recur_call *const c = h->call;
    const pare_recurrence_sizes *const n = c->sizes;
    const pare_recurrence *const w = c->r->weights;
    const size_t dk = n->key_width, dv = n->value_width, keys = n->key_heads * dk;
    const size_t key = h->head / (n->value_heads / n->key_heads) * dk;
    const double rate = pare_exp((double)w->rate[h->head]), shift = (double)w->shift[h->head];
    for (size_t t = 0; t < c->r->batch.length; t++) {
        const size_t row = h->sequence * c->r->batch.length + t,
                     at = row * n->value_heads + h->head;
        float *const y = c->y + at * dv;
        convolve(h, t, key, dk, h->q);
        convolve(h, t, keys + key, dk, h->k);
        convolve(h, t, 2 * keys + h->head * dv, dv, h->v);
        unit(h->q, dk, 1 / sqrt((double)dk));
        unit(h->k, dk, 1);
        const double keep = pare_exp(-rate * softplus((double)c->decay[at] + shift));
        const double beta = 1 / (1 + pare_exp(-(double)c->beta[at]));
        step(h, (float)keep, (float)beta, y);
        pare_rms_norm(y, y, w->norm, dv, c->eps);
        memcpy(h->v, c->z + at * dv, dv * sizeof *y); /* not read again */
        c->kernels->silu_f32(h->v, y, dv);
        memcpy(y, h->v, dv * sizeof *y);
    }
}

static void run_heads(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const recur_call *const c = arg;
    const pare_recurrence_sizes *const n = c->sizes;
    for (size_t i = begin; i < end; i++) {
        head h = {.call = c, .sequence = i / n->value_heads, .head = i % n->value_heads};
        h.state = c->r->kv->state + i * n->key_width * n->value_width;
        run_head(&h);
    }
}

/* The last inputs of the convolution are those in front of the next batch. */
static void keep_past(const recur_call *c)
{
    const size_t kept = c->sizes->taps - 1, length = c->r->batch.length;
    const size_t row = c->channels * sizeof *c->mixed, fresh = length < kept ? length : kept;
    for (size_t s = 0; s < c->r->batch.sequences; s++) {
        float *const past = c->r->kv->past + s * kept * c->channels;
        memmove(past, past + fresh * c->channels, (kept - fresh) * row);
        memcpy(past + (kept - fresh) * c->channels,
               c->mixed + ((s + 1) * length - fresh) * c->channels, fresh * row);
    }
}

pare_status pare__recur(pare_ctx *cx, const pare_recur *r, const pare_array *x, float *y)
{
    const pare_config *const config = &r->f->model->config;
    const pare_recurrence_sizes *const n = &config->recurrence;
    const size_t heads = r->batch.sequences * n->value_heads;
    const size_t values = n->key_width * n->value_width;
    const recur_call c = {.r = r,
                          .sizes = n,
                          .kernels = &cx->kernels,
                          .mixed = x[0].at,
                          .z = x[1].at,
                          .beta = x[2].at,
                          .decay = x[3].at,
                          .y = y,
                          .eps = config->norm_eps,
                          .channels = pare_mixed_width(config)};
    if (r->batch.start > 0 && r->batch.start != r->kv->seen)
        return pare_fail(cx, PARE_EINVAL,
                         "a batch from position %zu on, where a recurrent state stands for %zu",
                         r->batch.start, r->kv->seen);
    if (r->batch.start == 0) {
        memset(r->kv->state, 0, heads * values * sizeof(float));
        memset(r->kv->past, 0, r->batch.sequences * (n->taps - 1) * c.channels * sizeof(float));
    }
    pare_parallel(cx, heads, pare__chunk(4 * values * r->batch.length), run_heads,
                  (void *)(uintptr_t)&c);
    keep_past(&c);
    r->kv->seen = r->batch.start + r->batch.length;
    return PARE_OK;
}
