/* The limits a kernel is held against. Work is cut into pieces that idle threads take, so that a
 * core which is busy with something else lowers the figure by its share only. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/bench/bench_internal.h"
#include "kernels/peaks.h"
#include "runtime/machine.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum {
    PIECE = 128 * 1024, /* bytes one thread reads at a time */
    STEP = 256,         /* bytes that pare_peaks.read_bytes takes at once */
    PIECES = 8,         /* per thread, of arithmetic */
    STEPS = 100 * 1000, /* of one piece, about 0.2 ms */
    QUICK_STEPS = 1000,
    TILES_APART = 10, /* a step of tiles takes as long as so many others */
};

double pare__bench_median(double *times, size_t count)
{
    qsort(times, count, sizeof *times, pare_by_double);
    return times[count / 2];
}

typedef struct fill_call {
    uint32_t *words, keep, set;
    uint64_t first;
} fill_call;

static void fill_words(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const fill_call *const c = arg;
    for (size_t i = begin; i < end; i++) {
        uint64_t z = (c->first + i) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        c->words[i] = ((uint32_t)(z >> 24) & c->keep) | c->set;
    }
}

void pare__bench_fill(const pare_ctx *cx, uint64_t stream, uint32_t *words, size_t count,
                      uint32_t keep, uint32_t set)
{
    fill_call c = {words, keep, set, stream << 36};
    pare_parallel(cx, count, 65536, fill_words, &c);
}

typedef struct peak_call {
    pare_peaks peaks;
    const uint8_t *data;
    size_t bytes;
    const pare__bench_piece *piece;
    size_t steps;
    volatile uint64_t sink; /* keeps the results alive; a lost update does not matter */
} peak_call;

static void read_pieces(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    peak_call *const c = arg;
    const size_t from = begin * PIECE, to = end * PIECE < c->bytes ? end * PIECE : c->bytes;
    const uint64_t sum = c->peaks.read_bytes(c->data + from, to - from);
    if (sum == 1)
        c->sink = sum;
}

static void read_list(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    peak_call *const c = arg;
    for (size_t i = begin; i < end; i++)
        if (c->peaks.read_bytes(c->piece[i].data, c->piece[i].bytes) == 1)
            c->sink = 1;
}

static void fma_pieces(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    peak_call *const c = arg;
    for (size_t i = begin; i < end; i++)
        if (c->peaks.fma_f32(c->steps) == 0.0f)
            c->sink = 1;
}

static void int8_pieces(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    peak_call *const c = arg;
    for (size_t i = begin; i < end; i++)
        if (c->peaks.dot_int8(c->steps) == 1)
            c->sink = 1;
}

static void bf16_pieces(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    peak_call *const c = arg;
    for (size_t i = begin; i < end; i++)
        if (c->peaks.tiles_bf16(c->steps / TILES_APART) == 0.0f)
            c->sink = 1;
}

static void int8_tiles_pieces(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    peak_call *const c = arg;
    for (size_t i = begin; i < end; i++)
        if (c->peaks.tiles_int8(c->steps / TILES_APART) == 0.0f)
            c->sink = 1;
}

static double pass(const pare_ctx *cx, size_t pieces, pare_task *task, peak_call *c)
{
    const double start = pare_seconds();
    pare_parallel(cx, pieces, 1, task, c);
    return pare_seconds() - start;
}

static peak_call make_call(const pare_ctx *cx, const void *data, bool quick)
{
    peak_call c = {.data = data, .steps = quick ? QUICK_STEPS : STEPS};
    pare_peaks_init(&c.peaks, cx->cpu);
    return c;
}

/* One pass over a limit with the threads of cx: `bytes` (rounded down to 256) at `data` read once;
 * F32 multiply-adds; int8 products. In GB/s and Gop/s. */
static double read_memory(const pare_ctx *cx, const void *data, size_t bytes)
{
    peak_call c = make_call(cx, data, false);
    c.bytes = bytes / STEP * STEP;
    const double seconds = pass(cx, (c.bytes + PIECE - 1) / PIECE, read_pieces, &c);
    return (double)c.bytes * 1e-9 / seconds;
}

double pare__bench_read_pieces(const pare_ctx *cx, const pare__bench_piece *piece, size_t count)
{
    peak_call c = make_call(cx, NULL, false);
    double bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += (double)piece[i].bytes;
    if (count == 0)
        return 0;
    c.piece = piece;
    return bytes * 1e-9 / pass(cx, count, read_list, &c);
}

/* Operations of `per_step` on all threads, 1e9 per second. */
static double arithmetic(const pare_ctx *cx, bool quick, pare_task *task, double per_step)
{
    peak_call c = make_call(cx, NULL, quick);
    const size_t pieces = PIECES * pare_threads(cx);
    const double seconds = pass(cx, pieces, task, &c);
    return (double)(pieces * c.steps) * per_step * 1e-9 / seconds;
}

static double run_fma(const pare_ctx *cx, bool quick)
{
    return arithmetic(cx, quick, fma_pieces, PARE_PEAK_FMA_FLOP);
}

static double run_int8(const pare_ctx *cx, bool quick)
{
    return arithmetic(cx, quick, int8_pieces, PARE_PEAK_INT8_OP);
}

/* `per_step`: operations of a step of tiles. */
static double run_tiles(const pare_ctx *cx, bool quick, pare_task *task, double per_step)
{
    return cx->cpu & PARE_CPU_AMX ? arithmetic(cx, quick, task, per_step / TILES_APART)
                                  : (double)NAN;
}

void pare__bench_add(pare__bench_samples *s, double value)
{
    if (s->count < PARE__SAMPLES_MAX)
        s->value[s->count++] = value;
}

pare_bench_limits pare__bench_sample(const pare_ctx *cx, const void *data, size_t bytes, bool quick,
                                     pare__bench_meter *out)
{
    if (data) {
        const pare_bench_limits read = {.dram_read_gb_s = read_memory(cx, data, bytes)};
        pare__bench_add(&out->read, read.dram_read_gb_s);
        return read;
    }
    const pare_bench_limits l = {
        .fma_gflop_s = run_fma(cx, quick),
        .int8_gop_s = run_int8(cx, quick),
        .bf16_gflop_s = run_tiles(cx, quick, bf16_pieces, PARE_PEAK_BF16_FLOP),
        .int8_tiles_gop_s = run_tiles(cx, quick, int8_tiles_pieces, PARE_PEAK_TILES_INT8_OP)};
    pare__bench_add(&out->fma, l.fma_gflop_s);
    pare__bench_add(&out->int8, l.int8_gop_s);
    pare__bench_add(&out->bf16, l.bf16_gflop_s);
    pare__bench_add(&out->int8_tiles, l.int8_tiles_gop_s);
    return l;
}

double pare__bench_limit(const pare_bench_limits *l, const char *bound)
{
    if (strcmp(bound, "dram") == 0)
        return l->dram_read_gb_s;
    if (strcmp(bound, "bf16") == 0)
        return l->bf16_gflop_s;
    if (strcmp(bound, "int8 tiles") == 0)
        return l->int8_tiles_gop_s;
    return strcmp(bound, "int8") == 0 ? l->int8_gop_s : l->fma_gflop_s;
}

double pare__bench_share(double work, const double *seconds, const double *limit, size_t runs)
{
    double share[PARE__RUNS_MAX];
    for (size_t i = 0; i < runs; i++)
        share[i] = work / seconds[i] / (0.5 * (limit[i] + limit[i + 1]));
    return pare__bench_median(share, runs);
}

pare_bench_limits pare__bench_limits_of(pare__bench_meter *m)
{
    return (pare_bench_limits){pare__bench_median(m->read.value, m->read.count),
                               pare__bench_median(m->fma.value, m->fma.count),
                               pare__bench_median(m->int8.value, m->int8.count),
                               pare__bench_median(m->bf16.value, m->bf16.count),
                               pare__bench_median(m->int8_tiles.value, m->int8_tiles.count)};
}
