/* One task takes a value head of a sequence through all tokens of the batch: convolution, state and
 * norm. Sums run over the key, one for each channel of the value, in the order of the key. */
#include "runtime/recur.h"

#include <math.h>
#include <string.h>

#include "runtime/recur_internal.h"
#include "runtime/threads.h"

typedef struct run_call {
    pare__recur_call of;
    float *y;
} run_call;

void pare__recur_convolve(const pare__recur_call *c, size_t sequence, size_t t, size_t first,
                          size_t count, float *out)
{
    const size_t taps = c->sizes->taps, length = c->r->batch.length;
    const float *const weights = c->r->weights->conv + first * taps;
    memset(out, 0, count * sizeof *out);
    for (size_t i = 0; i < taps; i++) { /* the input at token t + 1 - taps + i */
        const bool before = t + i + 1 < taps;
        const size_t row =
            before ? sequence * (taps - 1) + t + i : sequence * length + t + i + 1 - taps;
        if (before && !c->past)
            continue;
        const float *const in = (before ? c->past : c->mixed) + row * c->channels + first;
        for (size_t j = 0; j < count; j++)
            out[j] += weights[j * taps + i] * in[j];
    }
}

static void silu(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] / (1 + pare_exp(-(double)x[i])));
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

double pare__softplus(double x)
{
    return x > 0 ? x + log1p(pare_exp(-x)) : log1p(pare_exp(x));
}

void pare__recur_channels(const pare__recur_head *h, size_t first[3])
{
    const pare_recurrence_sizes *const n = h->call->sizes;
    const size_t keys = n->key_heads * n->key_width;
    first[0] = h->head / (n->value_heads / n->key_heads) * n->key_width;
    first[1] = keys + first[0];
    first[2] = 2 * keys + h->head * n->value_width;
}

void pare__recur_read(pare__recur_head *h, size_t t)
{
    const pare__recur_call *const c = h->call;
    const pare_recurrence_sizes *const n = c->sizes;
    const pare_recurrence *const w = c->r->weights;
    const size_t at = (h->sequence * c->r->batch.length + t) * n->value_heads + h->head;
    const double rate = pare_exp((double)w->rate[h->head]), shift = (double)w->shift[h->head];
    float *const x[] = {h->q, h->k, h->v};
    size_t first[3];
    pare__recur_channels(h, first);
    for (size_t i = 0; i < 3; i++) {
        const size_t width = i < 2 ? n->key_width : n->value_width;
        pare__recur_convolve(c, h->sequence, t, first[i], width, x[i]);
        silu(x[i], width);
    }
    unit(h->q, n->key_width, 1 / sqrt((double)n->key_width));
    unit(h->k, n->key_width, 1);
    h->keep = (float)pare_exp(-rate * pare__softplus((double)c->decay[at] + shift));
    h->beta = (float)(1 / (1 + pare_exp(-(double)c->beta[at])));
}

void pare__recur_step(pare__recur_head *h, const float *from, float *to, float *y)
{
    const size_t dk = h->call->sizes->key_width, dv = h->call->sizes->value_width;
    float *const miss = h->miss;
    memset(miss, 0, dv * sizeof *miss);
    for (size_t i = 0; i < dk; i++) {
        float *const s = to + i * dv;
        const float k = h->k[i];
        for (size_t j = 0; j < dv; j++) {
            s[j] = from[i * dv + j] * h->keep;
            miss[j] += s[j] * k;
        }
    }
    for (size_t j = 0; j < dv; j++) {
        miss[j] = h->v[j] - miss[j];
        h->change[j] = h->beta * miss[j];
        y[j] = 0;
    }
    for (size_t i = 0; i < dk; i++) {
        float *const s = to + i * dv;
        const float k = h->k[i], q = h->q[i];
        for (size_t j = 0; j < dv; j++) {
            s[j] += k * h->change[j];
            y[j] += s[j] * q;
        }
    }
}

static void run_head(const run_call *run, pare__recur_head *h, float *state)
{
    const pare__recur_call *const c = &run->of;
    const size_t dv = c->sizes->value_width;
    for (size_t t = 0; t < c->r->batch.length; t++) {
        const size_t row = h->sequence * c->r->batch.length + t;
        const size_t at = (row * c->sizes->value_heads + h->head) * dv;
        float *const y = run->y + at;
        pare__recur_read(h, t);
        pare__recur_step(h, state, state, y);
        pare_rms_norm(y, y, c->r->weights->norm, dv, c->eps);
        memcpy(h->v, c->z + at, dv * sizeof *y); /* not read again */
        c->kernels->silu_f32(h->v, y, dv);
        memcpy(y, h->v, dv * sizeof *y);
    }
}

static void run_heads(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const run_call *const run = arg;
    const pare_recurrence_sizes *const n = run->of.sizes;
    for (size_t i = begin; i < end; i++) {
        pare__recur_head h = {
            .call = &run->of, .sequence = i / n->value_heads, .head = i % n->value_heads};
        run_head(run, &h, run->of.r->kv->state + i * n->key_width * n->value_width);
    }
}

/* The last inputs of the convolution are those in front of the next batch. */
static void keep_past(const pare__recur_call *c)
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

pare__recur_call pare__recur_begin(const pare_ctx *cx, const pare_recur *r, const pare_array *x)
{
    const pare_config *const config = &r->f->model->config;
    return (pare__recur_call){.r = r,
                              .sizes = &config->recurrence,
                              .kernels = &cx->kernels,
                              .mixed = x[0].at,
                              .z = x[1].at,
                              .beta = x[2].at,
                              .decay = x[3].at,
                              .eps = config->norm_eps,
                              .channels = pare_mixed_width(config)};
}

pare_status pare__recur(pare_ctx *cx, const pare_recur *r, const pare_array *x, float *y)
{
    const pare_recurrence_sizes *const n = &r->f->model->config.recurrence;
    const size_t heads = r->batch.sequences * n->value_heads;
    const size_t values = n->key_width * n->value_width;
    run_call run = {.of = pare__recur_begin(cx, r, x), .y = y};
    run.of.past = r->kv->past;
    if (r->batch.start > 0 && r->batch.start != r->kv->seen)
        return pare_fail(cx, PARE_EINVAL,
                         "a batch from position %zu on, where a recurrent state stands for %zu",
                         r->batch.start, r->kv->seen);
    if (r->batch.start == 0) {
        memset(r->kv->state, 0, heads * values * sizeof(float));
        memset(r->kv->past, 0,
               r->batch.sequences * (n->taps - 1) * run.of.channels * sizeof(float));
    }
    pare_parallel(cx, heads, pare__chunk(4 * values * r->batch.length), run_heads, &run);
    keep_past(&run.of);
    r->kv->seen = r->batch.start + r->batch.length;
    return PARE_OK;
}
