/* A recurrent state is undone by one task per sequence and key head, which takes its value heads in
 * order, and the tokens of each from the last to the first. The states in front of the tokens are
 * made again, for a chunk of tokens after the other: sqrt(length) states stand at a time, beside
 * those that begin chunks.
 *
 * With S the state in front of a token and S' the one behind it, D the gradient of S', c = v - S^T
 * k (of the decayed S) and o = S'^T q, whose gradient do comes through the norm and the gate:
 *
 *   dq = S' do,  D += q do^T,  e = D^T k,  dk = beta D c,  dv = beta e,  dbeta = <e, c>
 *   D -= beta k e^T,  dk -= beta keep S e,  dkeep = <D, S>,  D *= keep */
#include <math.h>
#include <string.h>

#include "runtime/leaves.h"
#include "runtime/recur_internal.h"
#include "runtime/tape_internal.h"
#include "runtime/threads.h"

typedef struct undo_call {
    pare__recur_call of;
    const float *dy; /* [rows, value_heads value_width] */
    float *dmixed, *dz, *dbeta, *ddecay;
    float *dw[PARE_STATE_VECTORS]; /* of each sequence (conv), of each value head of each (norm,
                                      rate, shift); NULL: nobody asks */
    float *room;                   /* [workers][each] */
    size_t each, chunk;            /* chunk: tokens */
} undo_call;

/* One token of a value head on the way back. */
typedef struct token {
    const undo_call *u;
    pare__recur_head *h;
    size_t t, at;                              /* at: of its value head in beta and decay */
    const float *before, *behind, *out, *miss; /* S, S', o, c */
    float *d;                                  /* D */
    float dq[PARE_STATE_WIDTH_MAX], dk[PARE_STATE_WIDTH_MAX], dv[PARE_STATE_WIDTH_MAX];
    float dout[PARE_STATE_WIDTH_MAX];
    double dkeep, dbeta;
} token;

/* Eight sums side by side, which come together in one order. */
static float dot(const float *a, const float *b, size_t n)
{
    enum { LANES = 8 };
    float sum[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            sum[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        sum[i % LANES] += a[i] * b[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* From dy: do, the gradient of the gate, what the norm gets. */
static void undo_output(token *x)
{
    const pare__recur_call *const c = &x->u->of;
    const float *const w = c->r->weights->norm;
    const size_t dv = c->sizes->value_width, at = x->at * dv;
    float normed[PARE_STATE_WIDTH_MAX], d[PARE_STATE_WIDTH_MAX] = {0};
    float scaled[PARE_STATE_WIDTH_MAX];
    pare_rms_norm(normed, x->out, w, dv, c->eps);
    pare_activate_backward(c->kernels, PARE_ACT_SILU, x->u->dz + at, d, x->u->dy + at, c->z + at,
                           normed, dv);
    memset(x->dout, 0, dv * sizeof *x->dout);
    pare_norm_backward(PARE_NORM_RMS, x->dout, scaled, d, x->out, w, dv, c->eps);
    float *const dw = x->u->dw[PARE_STATE_NORM];
    const size_t head = x->h->sequence * c->sizes->value_heads + x->h->head;
    for (size_t j = 0; dw && j < dv; j++)
        dw[head * dv + j] += d[j] * scaled[j];
}

/* From do and D: the gradients of q, k, v, beta and keep, and D of the token before. */
static void undo_step(token *x)
{
    const pare__recur_head *const h = x->h;
    const size_t dk = h->call->sizes->key_width, dv = h->call->sizes->value_width;
    float *const e = x->dv;
    memset(e, 0, dv * sizeof *e);
    for (size_t i = 0; i < dk; i++) {
        float *const d = x->d + i * dv;
        x->dq[i] = dot(x->behind + i * dv, x->dout, dv);
        for (size_t j = 0; j < dv; j++) {
            d[j] += h->q[i] * x->dout[j];
            e[j] += d[j] * h->k[i];
        }
        x->dk[i] = h->beta * dot(d, x->miss, dv);
    }
    x->dbeta = (double)dot(e, x->miss, dv);
    for (size_t j = 0; j < dv; j++)
        e[j] *= h->beta;
    x->dkeep = 0;
    for (size_t i = 0; i < dk; i++) {
        float *const d = x->d + i * dv;
        x->dk[i] -= h->keep * dot(x->before + i * dv, e, dv);
        for (size_t j = 0; j < dv; j++)
            d[j] -= h->k[i] * e[j];
        x->dkeep += (double)dot(d, x->before + i * dv, dv);
        for (size_t j = 0; j < dv; j++)
            d[j] *= h->keep;
    }
}

/* keep = exp(-exp(rate) ln(1 + exp(decay + shift))), beta = sigmoid(b) */
static void undo_gates(const token *x)
{
    const pare__recur_call *const c = &x->u->of;
    const pare__recur_head *const h = x->h;
    const size_t head = h->sequence * c->sizes->value_heads + h->head;
    float *const drate = x->u->dw[PARE_STATE_RATE], *const dshift = x->u->dw[PARE_STATE_SHIFT];
    const double keep = (double)h->keep, beta = (double)h->beta, d = x->dkeep * keep;
    const double rate = pare_exp((double)c->r->weights->rate[h->head]);
    const double in = (double)c->decay[x->at] + (double)c->r->weights->shift[h->head];
    const double ddecay = -d * rate / (1 + pare_exp(-in));
    x->u->ddecay[x->at] += (float)ddecay;
    x->u->dbeta[x->at] += (float)(x->dbeta * beta * (1 - beta));
    if (drate)
        drate[head] -= (float)(d * rate * pare__softplus(in));
    if (dshift)
        dshift[head] += (float)ddecay;
}

/* dx becomes the gradient in front of x = raw scale / sqrt(sum raw^2 + 1e-6). */
static void undo_unit(const float *raw, size_t n, double scale, float *dx)
{
    double squares = 1e-6, along = 0;
    for (size_t i = 0; i < n; i++) {
        squares += (double)raw[i] * (double)raw[i];
        along += (double)raw[i] * (double)dx[i];
    }
    const double by = scale / sqrt(squares), back = along / squares;
    for (size_t i = 0; i < n; i++)
        dx[i] = (float)(by * ((double)dx[i] - back * (double)raw[i]));
}

/* From the gradient dx of one of q (which 0), k and v: that of mixed, and of the convolution. */
static void undo_convolution(const token *x, size_t which, float *dx)
{
    const pare__recur_call *const c = &x->u->of;
    const size_t taps = c->sizes->taps, length = c->r->batch.length;
    const size_t n = which < 2 ? c->sizes->key_width : c->sizes->value_width;
    float raw[PARE_STATE_WIDTH_MAX], active[PARE_STATE_WIDTH_MAX];
    double slope[PARE_STATE_WIDTH_MAX];
    size_t first[3];
    pare__recur_channels(x->h, first);
    pare__recur_convolve(c, x->h->sequence, x->t, first[which], n, raw);
    for (size_t j = 0; j < n; j++) {
        const double z = (double)raw[j], s = 1 / (1 + pare_exp(-z));
        active[j] = (float)(z * s);
        slope[j] = s * (1 + z * (1 - s));
    }
    if (which < 2)
        undo_unit(active, n, which ? 1 : 1 / sqrt((double)n), dx);
    for (size_t j = 0; j < n; j++)
        dx[j] *= (float)slope[j];
    const float *const w = c->r->weights->conv + first[which] * taps;
    float *const dw = x->u->dw[PARE_STATE_CONV];
    for (size_t i = x->t + 1 < taps ? taps - 1 - x->t : 0; i < taps; i++) {
        const size_t row = x->h->sequence * length + x->t + i + 1 - taps;
        const size_t at = row * c->channels + first[which];
        float *const sum =
            dw ? dw + (x->h->sequence * c->channels + first[which]) * taps + i : NULL;
        for (size_t j = 0; j < n; j++) {
            x->u->dmixed[at + j] += w[j * taps + i] * dx[j];
            if (sum)
                sum[j * taps] += c->mixed[at + j] * dx[j];
        }
    }
}

static void undo_token(token *x)
{
    undo_output(x);
    undo_step(x);
    undo_gates(x);
    undo_convolution(x, 0, x->dq);
    undo_convolution(x, 1, x->dk);
    undo_convolution(x, 2, x->dv);
}

/* What a value head needs at a time, in floats. */
static size_t room_of(const pare_recurrence_sizes *n, size_t length, size_t chunk)
{
    const size_t chunks = (length + chunk - 1) / chunk;
    return (chunks + chunk + 2) * n->key_width * n->value_width + 2 * chunk * n->value_width;
}

static void undo_head(const undo_call *u, pare__recur_head *h, float *room)
{
    const pare_recurrence_sizes *const n = u->of.sizes;
    const size_t dv = n->value_width, size = n->key_width * dv, length = u->of.r->batch.length;
    const size_t chunks = (length + u->chunk - 1) / u->chunk;
    float *const begins = room, *const state = begins + chunks * size;
    float *const d = state + (u->chunk + 1) * size, *const out = d + size;
    float *const miss = out + u->chunk * dv;
    memset(d, 0, size * sizeof *d);
    memset(state, 0, size * sizeof *state);
    for (size_t t = 0; t < length; t++) {
        if (t % u->chunk == 0)
            memcpy(begins + t / u->chunk * size, state, size * sizeof *state);
        pare__recur_read(h, t);
        pare__recur_step(h, state, state, out);
    }
    for (size_t chunk = chunks; chunk-- > 0;) {
        const size_t first = chunk * u->chunk;
        const size_t count = length - first < u->chunk ? length - first : u->chunk;
        memcpy(state, begins + chunk * size, size * sizeof *state);
        for (size_t i = 0; i < count; i++) {
            pare__recur_read(h, first + i);
            pare__recur_step(h, state + i * size, state + (i + 1) * size, out + i * dv);
            memcpy(miss + i * dv, h->miss, dv * sizeof *miss);
        }
        for (size_t i = count; i-- > 0;) {
            token x = {.u = u, .h = h, .t = first + i, .d = d};
            x.at = (h->sequence * length + x.t) * n->value_heads + h->head;
            x.before = state + i * size;
            x.behind = x.before + size;
            x.out = out + i * dv;
            x.miss = miss + i * dv;
            pare__recur_read(h, x.t);
            undo_token(&x);
        }
    }
}

static void undo_heads(void *arg, size_t begin, size_t end, size_t worker)
{
    const undo_call *const u = arg;
    const pare_recurrence_sizes *const n = u->of.sizes;
    const size_t group = n->value_heads / n->key_heads;
    for (size_t i = begin; i < end; i++)
        for (size_t g = 0; g < group; g++) {
            pare__recur_head h = {.call = &u->of, .sequence = i / n->key_heads};
            h.head = i % n->key_heads * group + g;
            undo_head(u, &h, u->room + worker * u->each);
        }
}

/* Room for the gradients of the vectors that somebody asks for, each [rows, width]. */
static pare_status take_vectors(pare_tape *t, undo_call *u, float *const *leaf, size_t rows[],
                                size_t width[])
{
    const pare_recurrence_sizes *const n = u->of.sizes;
    const size_t sequences = u->of.r->batch.sequences, heads = n->value_heads;
    const size_t shape[PARE_STATE_VECTORS][2] = {
        [PARE_STATE_CONV] = {sequences, u->of.channels * n->taps},
        [PARE_STATE_NORM] = {sequences * heads, n->value_width},
        [PARE_STATE_RATE] = {sequences, heads},
        [PARE_STATE_SHIFT] = {sequences, heads}};
    for (size_t i = 0; i < PARE_STATE_VECTORS; i++) {
        pare_array y;
        rows[i] = shape[i][0], width[i] = shape[i][1];
        if (!leaf[i] && !t->dry)
            continue;
        PARE_TRY(t->inner.op->take(&t->inner, rows[i], width[i], &y));
        u->dw[i] = y.at;
        if (!t->dry)
            memset(y.at, 0, rows[i] * width[i] * sizeof *y.at);
    }
    return PARE_OK;
}

pare_status pare__tape_recur(pare_tape *t, const pare_step *s)
{
    const pare_ops *const o = &t->inner;
    const pare_recurrence *const w = s->recur.weights;
    const pare_array in[PARE_RECUR_INPUTS] = {s->x, s->other, s->third, s->outs[0]};
    float *const leaf[PARE_STATE_VECTORS] = {[PARE_STATE_CONV] = pare__tape_leaf(t, w->conv),
                                             [PARE_STATE_NORM] = pare__tape_leaf(t, w->norm),
                                             [PARE_STATE_RATE] = pare__tape_leaf(t, w->rate),
                                             [PARE_STATE_SHIFT] = pare__tape_leaf(t, w->shift)};
    undo_call u = {.of = pare__recur_begin(o->cx, &s->recur, in)};
    float **const d[] = {&u.dmixed, &u.dz, &u.dbeta, &u.ddecay};
    const size_t length = s->recur.batch.length;
    size_t rows[PARE_STATE_VECTORS], width[PARE_STATE_VECTORS];
    float *dy;
    pare_mark mark;
    pare_array room;
    PARE_TRY(pare__tape_d(t, s->y, &dy));
    u.dy = dy;
    for (size_t i = 0; i < PARE_RECUR_INPUTS; i++)
        PARE_TRY(pare__tape_d(t, in[i], d[i]));
    for (u.chunk = 1; u.chunk * u.chunk < length; u.chunk++)
        ;
    u.each = room_of(u.of.sizes, length, u.chunk);
    PARE_TRY(o->op->mark(o, &mark));
    PARE_TRY(o->op->take(o, pare_threads(o->cx), u.each, &room));
    u.room = room.at;
    PARE_TRY(take_vectors(t, &u, leaf, rows, width));
    if (!t->dry) {
        pare_parallel(o->cx, s->recur.batch.sequences * u.of.sizes->key_heads, 1, undo_heads, &u);
        for (size_t i = 0; i < PARE_STATE_VECTORS; i++)
            pare__sum_columns(t, u.dw[i], NULL, rows[i], width[i], leaf[i]);
    }
    PARE_TRY(o->op->rewind(o, mark));
    return pare__tape_release(t, s->y);
}
