/* A model, and the one that it is held against, take turns run by run, with passes over the limits
 * of the machine in between, so that a change of its load meets all of them. */
#include "compress/bench/bench_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "compress/bench/bench_internal.h"
#include "runtime/block_ops.h"
#include "runtime/count.h"
#include "runtime/machine.h"
#include "runtime/ops.h"
#include "runtime/random.h"
#include "runtime/threads.h"

enum {
    SEED = 1,
    WARM_TOKENS = 512, /* a warm-up has so many at most, sequences together */
    WARM_STEPS = 2,
    STEP_UNITS = 16, /* a step of decoding takes about as long as so many tokens of a prompt */
    ARITHMETIC_PASSES = 5, /* before every prefill */
    READ_PASSES = 3,       /* before and behind every decoding */
};

/* A model with what its runs of one batch need. */
typedef struct side {
    const pare_forward *f;
    pare_arena arena, work;
    pare_ops state, run; /* the backend over each */
    pare_mark start;
    pare_kv *kv; /* [blocks] */
    pare_array x;
    float *logits;
    int32_t *prompt, *next; /* [batch][prompt], [batch] */
    size_t *last;           /* [batch] rows of x */
    double *step;           /* [steps] seconds, of one run */
    double prefill[PARE_BENCH_RUNS_MAX], decode[PARE_BENCH_RUNS_MAX]; /* seconds */
    double prefill_joules, decode_joules;                             /* of all runs */
} side;

typedef struct bench {
    pare_ctx *cx;
    const pare_bench_model_opts *opts;
    side side[2];
    size_t sides, batch;
    pare__bench_piece *piece; /* the weights of side 0 */
    size_t pieces;
    pare__bench_meter meter;
    pare_energy energy;
    double cpu, wall;   /* seconds while a model ran */
    double done, total; /* of progress, in tokens of a prompt */
} bench;

static size_t steps_of(const pare_bench_model_opts *o)
{
    return o->output - 1;
}

static pare_status take_state(bench *b, side *s)
{
    const pare_config *const c = &s->f->model->config;
    const size_t prompt = b->opts->prompt, steps = steps_of(b->opts), batch = b->batch;
    const pare_batch widest = {batch, prompt, steps};
    s->kv = PARE_NEW(&s->arena, pare_kv, c->blocks);
    s->logits = pare_arena_take(&s->arena, batch, s->f->model->head.n * sizeof(float));
    s->prompt = pare_arena_take(&s->arena, batch, prompt * sizeof *s->prompt);
    s->next = PARE_NEW(&s->arena, int32_t, batch);
    s->last = PARE_NEW(&s->arena, size_t, batch);
    s->step = PARE_NEW(&s->arena, double, steps);
    if (!s->kv || !s->logits || !s->prompt || !s->next || !s->last || !s->step)
        return PARE_ENOMEM;
    PARE_TRY(s->state.op->take(&s->state, batch * prompt, c->hidden, &s->x));
    for (size_t i = 0; i < c->blocks; i++)
        PARE_TRY(pare_block_kv_take(&s->state, s->f->model, i, batch, prompt + steps, &s->kv[i]));
    for (size_t i = 0; i < batch * prompt; i++)
        s->prompt[i] = (int32_t)(pare_random_u64(SEED, 0, i) % s->f->model->embed.n);
    return pare_arena_init(b->cx, &s->work, pare_block_forward_scratch(b->cx, c, widest));
}

/* Runs `length` tokens of each sequence at `start`; s->next becomes the greedy continuations. */
static pare_status step(bench *b, side *s, const int32_t *tokens, size_t start, size_t length)
{
    const pare_model *const m = s->f->model;
    for (size_t i = 0; i < b->batch; i++)
        s->last[i] = (i + 1) * length - 1;
    const pare_batch batch = {b->batch, length, start};
    const pare_array x = pare_array_rows(s->x, 0, b->batch * length);
    PARE_TRY(pare_embed_run(&s->run, m, tokens, batch, x));
    PARE_TRY(pare_model_run(&s->run, s->f, batch, x, s->kv, m->config.blocks));
    PARE_TRY(pare_greedy_get(&s->run, s->f, x, s->last, b->batch, s->logits, s->next));
    for (size_t i = 0; i < b->batch; i++)
        if (s->next[i] < 0)
            return pare_fail(b->cx, PARE_ENUMERIC,
                             "bench: the logits of this model are not finite");
    return PARE_OK;
}

static pare_status check_finite(bench *b, const side *s)
{
    for (size_t i = 0; i < b->batch * s->f->model->head.n; i++)
        if (!isfinite(s->logits[i]))
            return pare_fail(b->cx, PARE_ENUMERIC,
                             "bench: the logits of this model are not finite");
    return PARE_OK;
}

static void report(bench *b, double tokens)
{
    b->done += tokens;
    pare_ctx_progress(b->cx, "timing the model", b->done, b->total);
}

static pare_status warm_up(bench *b, side *s)
{
    const size_t most = WARM_TOKENS / b->batch ? WARM_TOKENS / b->batch : 1;
    const size_t prompt = b->opts->prompt < most ? b->opts->prompt : most;
    PARE_TRY(step(b, s, s->prompt, 0, prompt));
    PARE_TRY(check_finite(b, s));
    for (size_t i = 0; i < WARM_STEPS && i < steps_of(b->opts); i++)
        PARE_TRY(step(b, s, s->next, prompt + i, 1));
    PARE_TRY(check_finite(b, s));
    report(b, (double)(prompt * b->batch));
    return PARE_OK;
}

static void read_weights(bench *b)
{
    for (size_t i = 0; i < READ_PASSES; i++)
        pare__bench_add(&b->meter.read, pare__bench_read_pieces(b->cx, b->piece, b->pieces));
}

static double cpu_seconds(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* Starts a clock, and stops it: *seconds. */
static void start(bench *b, double *seconds)
{
    b->cpu -= cpu_seconds();
    *seconds = -pare_seconds();
}

static void stop(bench *b, double *seconds)
{
    *seconds += pare_seconds();
    b->wall += *seconds;
    b->cpu += cpu_seconds();
}

/* One prefill and the decoding behind it. */
static pare_status run(bench *b, side *s, size_t at)
{
    const size_t steps = steps_of(b->opts), prompt = b->opts->prompt;
    for (size_t i = 0; i < ARITHMETIC_PASSES; i++)
        pare__bench_sample(b->cx, NULL, 0, b->opts->quick, &b->meter);
    const double joules = pare_energy_read(&b->energy);
    start(b, &s->prefill[at]);
    PARE_TRY(step(b, s, s->prompt, 0, prompt));
    stop(b, &s->prefill[at]);
    s->prefill_joules += pare_energy_read(&b->energy) - joules;
    report(b, (double)(prompt * b->batch));
    read_weights(b);
    const double before = pare_energy_read(&b->energy);
    for (size_t i = 0; i < steps; i++) {
        start(b, &s->step[i]);
        PARE_TRY(step(b, s, s->next, prompt + i, 1));
        stop(b, &s->step[i]);
        report(b, STEP_UNITS);
    }
    s->decode[at] = pare__bench_median(s->step, steps);
    s->decode_joules += pare_energy_read(&b->energy) - before;
    read_weights(b);
    return check_finite(b, s);
}

static pare_status prepare(bench *b, side *s)
{
    s->prefill_joules = s->decode_joules = 0;
    s->state = pare_ops_of(b->cx, &s->arena, s->f);
    s->run = pare_ops_of(b->cx, &s->work, s->f);
    PARE_TRY(s->state.op->mark(&s->state, &s->start));
    PARE_TRY(take_state(b, s));
    return warm_up(b, s);
}

static pare_status run_batch(bench *b)
{
    for (size_t i = 0; i < b->sides; i++)
        PARE_TRY(prepare(b, &b->side[i]));
    for (size_t r = 0; r < b->opts->runs; r++)
        for (size_t i = 0; i < b->sides; i++)
            PARE_TRY(run(b, &b->side[(i + r) % b->sides], r));
    return PARE_OK;
}

static pare_bench_time time_of(double *seconds, size_t runs)
{
    const double median = pare__bench_median(seconds, runs); /* sorts */
    const double spread = (seconds[runs - 1] - seconds[0]) / median;
    return (pare_bench_time){median * 1e3, runs > 1 ? spread : (double)NAN};
}

static pare_bench_phase phase_of(const bench *b, double *seconds, size_t tokens, double joules)
{
    const double all = (double)(tokens * b->batch);
    pare_bench_phase p = {.time = time_of(seconds, b->opts->runs), .ratio = (double)NAN};
    p.tok_s = all * 1e3 / p.time.ms;
    p.joules = b->energy.count ? joules / (all * (double)b->opts->runs) : (double)NAN;
    return p;
}

static void add_rows(bench *b, pare_bench_model_result *out)
{
    const size_t first = out->rows;
    for (size_t i = 0; i < b->sides; i++) {
        side *const s = &b->side[i];
        pare_bench_model_row *const row = &out->row[out->rows++];
        *row = (pare_bench_model_row){.model = i, .batch = b->batch};
        row->prefill = phase_of(b, s->prefill, b->opts->prompt, s->prefill_joules);
        row->decode = phase_of(b, s->decode, 1, s->decode_joules / (double)steps_of(b->opts));
    }
    if (b->sides < 2)
        return;
    pare_bench_model_row *const row = &out->row[first];
    row->prefill.ratio = row[1].prefill.time.ms / row->prefill.time.ms;
    row->decode.ratio = row[1].decode.time.ms / row->decode.time.ms;
}

/* What a phase does: tokens that go through the blocks, pairs of a token and one that it attends
 * to in a block, rows of logits, bytes of the cache that are read. */
typedef struct work {
    double tokens, pairs, logits, cache;
} work;

static void set_bound(const pare__bench_cost *c, const work *w, const pare_bench_limits *l,
                      pare_bench_phase *p)
{
    const bool tiles = isfinite(l->int8_tiles_gop_s) && w->tokens > PARE__TILES_FROM;
    const double int8 = w->tokens * c->int8 / (tiles ? l->int8_tiles_gop_s : l->int8_gop_s);
    const double fma =
        (w->tokens * c->fma + w->pairs * c->attend_fma + w->logits * c->head_fma) / l->fma_gflop_s;
    const double dram = (pare__bench_bytes(c, w->tokens) + w->cache) / l->dram_read_gb_s;
    p->bound_ms = fmax(dram, int8 + fma) * 1e-6;
    p->bound = dram > int8 + fma ? "dram" : int8 <= fma ? "fma" : tiles ? "int8 tiles" : "int8";
    p->share = p->bound_ms / p->time.ms;
}

/* The limits are those of the CPU; a device is held against a copy within its memory. */
static void set_device_bound(const pare__bench_cost *c, const work *w, double copy_gb_s,
                             pare_bench_phase *p)
{
    p->bound_ms = (pare__bench_bytes(c, w->tokens) + w->cache) * 1e-6 / copy_gb_s;
    p->bound = "copy";
    p->share = p->bound_ms / p->time.ms;
}

static pare_status set_row(const bench *b, pare_bench_model_result *out, pare_bench_model_row *row)
{
    const pare_forward *const f = b->side[row->model].f;
    const pare_batch prompt = {row->batch, b->opts->prompt, 0};
    const pare_batch rest = {row->batch, steps_of(b->opts), prompt.length};
    const double batch = (double)row->batch, steps = (double)rest.length;
    pare_work whole, decoded; /* pairs of a block's sliding window only */
    pare__bench_cost cost;
    PARE_TRY(pare__bench_cost_of(b->cx, f, &cost));
    PARE_TRY(pare_work_of(b->cx, f->model, prompt, PARE_SITES, NULL, &whole));
    PARE_TRY(pare_work_of(b->cx, f->model, rest, PARE_SITES, NULL, &decoded));
    const double pairs = decoded.pairs / steps;
    const double cache = pairs * out->kv_token_bytes[row->model] / (double)f->model->config.blocks;
    const work prefill = {batch * (double)prompt.length, whole.pairs, batch, 0};
    const work decode = {batch, pairs, batch, cache};
    const bool there = f->backend && f->backend->place;
    const double rate = there ? b->opts->copy_gb_s : out->limits.dram_read_gb_s;
    row->weight_share = pare__bench_bytes(&cost, batch) * 1e-6 / row->decode.time.ms / rate;
    if (there) {
        set_device_bound(&cost, &prefill, rate, &row->prefill);
        set_device_bound(&cost, &decode, rate, &row->decode);
        return PARE_OK;
    }
    set_bound(&cost, &prefill, &out->limits, &row->prefill);
    set_bound(&cost, &decode, &out->limits, &row->decode);
    return PARE_OK;
}

static pare_status measure(bench *b, pare_arena *a, pare_bench_model_result *out)
{
    const pare_bench_model_opts *const o = b->opts;
    const pare_model *const m = b->side[0].f->model;
    PARE_TRY(pare__bench_model_pieces(b->cx, m, NULL, &b->pieces));
    b->piece = PARE_NEW(a, pare__bench_piece, b->pieces);
    if (!b->piece)
        return PARE_ENOMEM;
    PARE_TRY(pare__bench_model_pieces(b->cx, m, b->piece, &b->pieces));
    for (size_t i = 0; i < o->batches; i++) {
        b->batch = o->batch[i];
        pare_status s = run_batch(b);
        if (s == PARE_OK)
            add_rows(b, out);
        for (size_t j = b->sides; j-- > 0;) {
            side *const one = &b->side[j];
            const pare_status back =
                one->state.op ? one->state.op->rewind(&one->state, one->start) : PARE_OK;
            s = s == PARE_OK ? back : s;
            pare_arena_release(&one->work);
            pare_arena_release(&one->arena);
            one->state.op = NULL;
        }
        PARE_TRY(s);
    }
    out->limits = pare__bench_limits_of(&b->meter);
    out->cpu_share = b->cpu / (b->wall * (double)out->threads);
    for (size_t i = 0; i < out->rows; i++)
        PARE_TRY(set_row(b, out, &out->row[i]));
    pare_ctx_progress(b->cx, "timing the model", b->total, b->total);
    return PARE_OK;
}

static pare_status check(pare_ctx *cx, const bench *b)
{
    const pare_bench_model_opts *const o = b->opts;
    for (size_t i = 0; i < b->sides; i++) {
        const size_t positions = b->side[i].f->positions;
        if (steps_of(o) >= positions || o->prompt > positions - steps_of(o))
            return pare_fail(
                cx, PARE_EUSAGE,
                "bench: a prompt of %zu and an output of %zu tokens do not fit the %zu "
                "positions of the model",
                o->prompt, o->output, positions);
    }
    return PARE_OK;
}

static double units(const bench *b)
{
    const pare_bench_model_opts *const o = b->opts;
    double total = 0;
    for (size_t i = 0; i < o->batches; i++)
        total +=
            (double)(b->sides * (o->runs * (o->batch[i] * o->prompt + steps_of(o) * STEP_UNITS) +
                                 WARM_TOKENS));
    return total;
}

pare_status pare_bench_model(pare_ctx *cx, const pare_forward *const f[2],
                             const pare_bench_model_opts *opts, pare_bench_model_result *out)
{
    bench b = {.cx = cx, .opts = opts, .sides = f[1] ? 2 : 1};
    pare_arena a = {.cx = cx};
    *out = (pare_bench_model_result){.prompt = opts->prompt,
                                     .output = opts->output,
                                     .runs = opts->runs,
                                     .threads = pare_threads(cx)};
    for (size_t i = 0; i < b.sides; i++) {
        b.side[i] = (side){.f = f[i], .arena = {.cx = cx}, .work = {.cx = cx}};
        pare__bench_cost cost;
        PARE_TRY(pare__bench_cost_of(cx, f[i], &cost));
        out->weight_bytes[i] = (uint64_t)llrint(pare__bench_bytes(&cost, 1));
        out->stored_bytes[i] = (uint64_t)llrint(cost.bytes + cost.expert_bytes);
        out->kv_token_bytes[i] = pare_kv_token_bytes(&f[i]->model->config, &f[i]->model->kv);
    }
    PARE_TRY(check(cx, &b));
    b.total = units(&b);
    out->energy =
        pare_energy_open(&b.energy, opts->powercap, out->energy_note, sizeof out->energy_note);
    pare_ctx_progress(cx, "timing the model", 0, b.total);
    const pare_status s = measure(&b, &a, out);
    pare_energy_close(&b.energy);
    pare_arena_release(&a);
    return s;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    uint64_t c;
    return __builtin_add_overflow(a, b, &c) ? UINT64_MAX : c;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t c;
    return __builtin_mul_overflow(a, b, &c) ? UINT64_MAX : c;
}

uint64_t pare_bench_model_bytes(const pare_ctx *cx, const pare_config *c, const pare_kv_format *kv,
                                const pare_bench_model_opts *opts)
{
    const size_t prompt = opts->prompt, steps = steps_of(opts);
    uint64_t most = 0;
    for (size_t i = 0; i < opts->batches; i++) {
        const size_t batch = opts->batch[i];
        const uint64_t rows = times(batch, prompt);
        uint64_t bytes = times(c->blocks, pare_kv_bytes(c, kv, batch, prompt + steps));
        bytes = sum(bytes, times(rows, c->hidden * sizeof(float) + sizeof(int32_t)));
        bytes = sum(bytes, times(batch, c->vocab * sizeof(float)));
        bytes = sum(bytes, pare_block_forward_scratch(cx, c, (pare_batch){batch, prompt, steps}));
        most = bytes > most ? bytes : most;
    }
    return sum(most, times(prompt + steps, c->head_dim * sizeof(float)));
}
