/* Kernels that multiply by no weights: cached keys and values are decoded, mixed and transposed,
 * rows rotated, weighted and activated, weights rounded to nearest, searched in a trellis and
 * trained. Calls are those of attention, rotations and trainings, dealt out to the threads in
 * chunks. */
#include <math.h>
#include <string.h>

#include "compress/bench/bench_internal.h"
#include "kernels/exl3.h"
#include "runtime/hadamard.h"
#include "runtime/kv.h"
#include "runtime/machine.h"
#include "runtime/threads.h"

enum {
    POSITIONS = 64, /* attention decodes so many at a time */
    CHANNELS = 128,
    CAPACITY = 512, /* of a cache from which only the layout is taken */
    CHUNKS = 8,     /* per thread */
    RUNS = 5,
    QUICK_RUNS = 3,
    SMOOTH_OPS = 26, /* per value of softmax and silu: 22 of them an exponential */
    BACK_OPS = 34,
    RANGE_OPS = 2,    /* two comparisons */
    CODE_OPS = 5,     /* division, rounding, zero point, two bounds */
    CLIP_OPS = 37,    /* code and error 12, its power 25 */
    FP8_OPS = 13,     /* the largest 2, division, rounding 9, product */
    ERROR_OPS = 5,    /* a difference, two squares and sums */
    ADAMW_OPS = 19,   /* moments 9, of the weight 8, keeping zeros 2 */
    AWARE_OPS = 9,    /* quotient, two bounds, two masks, level, move, product, sum */
    MOMENTS_OPS = 17, /* quotient, 8 steps of a search */
    SEARCH_OPS = 5,   /* of an edge: difference, square, sum, comparison, smaller one */
    GROUP = 64,       /* weights that share a scale */
    BLOCK = 256,      /* moments that do */
    PANEL_ROWS = 96,  /* a block of each factor, of which a product of matrices has many */
    PANEL_COLUMNS = 96,
    PANEL_DEPTH = 256
};

typedef enum kind {
    DECODE,
    KV_MIX,
    HADAMARD,
    MIX,
    SOFTMAX,
    SILU,
    SILU_BACK,
    TRANSPOSE,
    RANGE,
    CODES,
    FP8,
    CLIP,
    ERRORS,
    ADAMW,
    AWARE,
    MOMENTS,
    SEARCH,
    PANELS
} kind;

typedef struct subject {
    const char *name;
    kind kind;
    pare_kv_method method; /* DECODE */
    bool key;
    size_t k;  /* of rows; SEARCH: edges of a node */
    bool many; /* queries or rows, else one */
} subject;

static const subject subjects[] = {
    {.name = "kv_int8", .kind = DECODE, .method = PARE_KV_INT8},
    {.name = "kv_int4", .kind = DECODE, .method = PARE_KV_INT4},
    {.name = "kv_kivi_k", .kind = DECODE, .method = PARE_KV_KIVI, .key = true},
    {.name = "kv_kivi_v", .kind = DECODE, .method = PARE_KV_KIVI},
    {.name = "kv_kvquant_k", .kind = DECODE, .method = PARE_KV_KVQUANT, .key = true},
    {.name = "kv_kvquant_v", .kind = DECODE, .method = PARE_KV_KVQUANT},
    {.name = "kv_mix", .kind = KV_MIX},
    {.name = "kv_mix", .kind = KV_MIX, .many = true},
    {.name = "hadamard", .kind = HADAMARD, .k = 4096},
    {.name = "hadamard", .kind = HADAMARD, .k = 4096, .many = true},
    {.name = "hadamard", .kind = HADAMARD, .k = 11008},
    {.name = "hadamard", .kind = HADAMARD, .k = 11008, .many = true},
    {.name = "mix", .kind = MIX, .k = 11008},
    {.name = "mix", .kind = MIX, .k = 11008, .many = true},
    {.name = "softmax", .kind = SOFTMAX},
    {.name = "silu", .kind = SILU, .k = 8192, .many = true},
    {.name = "silu_back", .kind = SILU_BACK, .k = 8192, .many = true},
    {.name = "transpose", .kind = TRANSPOSE},
    {.name = "range", .kind = RANGE, .k = 4096, .many = true},
    {.name = "codes", .kind = CODES, .k = 4096, .many = true},
    {.name = "fp8_inputs", .kind = FP8, .k = 4096, .many = true},
    {.name = "clip", .kind = CLIP, .k = 4096, .many = true},
    {.name = "errors", .kind = ERRORS, .k = 4096, .many = true},
    {.name = "adamw", .kind = ADAMW, .k = 8192, .many = true},
    {.name = "aware", .kind = AWARE, .k = 4096, .many = true},
    {.name = "moments8", .kind = MOMENTS, .k = 4096, .many = true},
    {.name = "exl3_step", .kind = SEARCH, .k = 4},
    {.name = "exl3_step", .kind = SEARCH, .k = 16},
    {.name = "panels", .kind = PANELS},
};

_Static_assert(sizeof subjects / sizeof *subjects == PARE__BENCH_LOOPS, "count of subjects");

static const float levels[] = {-1.0f, -0.6f, -0.35f, -0.1f, 0.1f, 0.35f, 0.6f, 1.0f};

/* One subject in memory. An item is what a thread takes: a tile, a product, a row. */
typedef struct loop {
    pare_ctx *cx;
    const subject *sub;
    pare_arena *arena;
    bool quick;
    pare_bench_row row;  /* what is known before the measurement */
    size_t items, calls; /* calls: items per call */
    double bytes, ops;   /* of an item */
    pare_task *task;
    pare_kv_tile tile;    /* the first one */
    size_t codes, scales; /* DECODE: bytes and scales of a tile */
    const pare_hadamard *h;
    uint8_t *data; /* what items rotate over, or NULL */
    size_t data_bytes;
    float *scratch;
    size_t floats; /* scratch of a worker */
} loop;

static size_t rotate_bytes(const loop *l)
{
    return (size_t)(l->quick ? 1 : 304) << 20;
}

/* Items of operands that stay in cache: about 1e9 operations. */
static size_t items_cached(const loop *l)
{
    return 1 + (size_t)((l->quick ? 1e5 : 1e9) / l->ops);
}

/* Random words in memory, PARE_ENOMEM. */
static pare_status take(const loop *l, size_t bytes, uint32_t keep, uint32_t set, void *out)
{
    uint32_t *const words = pare_arena_take(l->arena, bytes / 4 + 1, sizeof *words);
    if (!words)
        return PARE_ENOMEM;
    pare__bench_fill(l->cx, 0, words, bytes / 4 + 1, keep, set);
    memcpy(out, &words, sizeof words);
    return PARE_OK;
}

static pare_status take_halves(const loop *l, size_t count, const uint16_t **out)
{
    return take(l, count * sizeof **out, 0x03ff03ffu, 0x20002000u, out);
}

/* Floats between 0.5 and 1. */
static pare_status take_floats(const loop *l, size_t count, void *out)
{
    return take(l, count * sizeof(float), 0x007fffffu, 0x3f000000u, out);
}

static pare_status take_scratch(loop *l, size_t floats)
{
    l->floats = floats;
    return take_floats(l, floats * pare_threads(l->cx), &l->scratch);
}

/* A product, or the like, of operands in a cache. */
static pare_status prepare_cached(loop *l, size_t n, size_t k, size_t m, double ops,
                                  pare_task *task, size_t floats)
{
    l->row.n = n, l->row.k = k, l->row.m = m;
    l->row.bound = "fma";
    l->row.cached = true;
    l->ops = ops;
    l->items = items_cached(l);
    l->task = task;
    return take_scratch(l, floats);
}

static void decode_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    for (size_t i = begin; i < end; i++) {
        pare_kv_tile tile = l->tile;
        tile.codes += i * l->codes;
        tile.scales += i * l->scales;
        if (tile.lows)
            tile.lows += i * l->scales;
        l->cx->kernels.kv_decode(l->scratch + worker * l->floats, CHANNELS, &tile, l->row.n,
                                 CHANNELS);
    }
}

/* Tiles one after the other, as the positions of a head are; the layout is the cache's own. */
static pare_status prepare_decode(loop *l)
{
    const pare_kv_format f = pare_kv_default(l->sub->method);
    const pare_config c = {.blocks = 1, .kv_heads = 1, .head_dim = CHANNELS};
    pare_kv kv;
    PARE_TRY(pare_kv_take_format(l->arena, &c, &f, 1, CAPACITY, &kv));
    const pare_kv_side side = l->sub->key ? kv.key : kv.value;
    const bool calibrated = side.tokens == 0, lows = side.lows || calibrated;
    const size_t n = side.tokens > 1 && side.tokens < POSITIONS ? side.tokens : POSITIONS;
    l->row.n = n, l->row.k = CHANNELS, l->row.m = 1;
    l->row.group = side.group * side.tokens;
    l->row.bound = "dram";
    l->tile.bits = side.bits;
    l->tile.group = side.group;
    l->tile.ld = side.tokens == 1 ? side.entries : 0;
    l->tile.levels = f.method == PARE_KV_KVQUANT ? levels : NULL;
    l->codes = n * pare_kv_row_bytes(CHANNELS, side.bits);
    l->scales = calibrated ? 0 : n / side.tokens * side.entries;
    const size_t bytes = l->codes + l->scales * sizeof(uint16_t) * (lows ? 2 : 1);
    l->bytes = (double)bytes;
    l->ops = 2.0 * (double)(n * CHANNELS);
    l->items = rotate_bytes(l) / bytes + 1;
    l->data_bytes = l->items * l->codes;
    l->task = decode_tiles;
    const size_t scales = calibrated ? CHANNELS : l->items * l->scales;
    PARE_TRY(take(l, l->data_bytes, UINT32_MAX, 0, &l->data));
    PARE_TRY(take_halves(l, scales, &l->tile.scales));
    if (lows)
        PARE_TRY(take_halves(l, scales, &l->tile.lows));
    l->tile.codes = l->data;
    return take_scratch(l, POSITIONS * CHANNELS);
}

static void mix_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    const size_t m = l->row.m;
    float *const v = l->scratch + worker * l->floats, *const p = v + POSITIONS * CHANNELS;
    for (size_t i = begin; i < end; i++)
        l->cx->kernels.kv_mix(p + m * POSITIONS, CHANNELS, p, POSITIONS, v, CHANNELS, m, POSITIONS,
                              CHANNELS);
}

static pare_status prepare_kv_mix(loop *l)
{
    const size_t m = l->sub->many ? POSITIONS : 1, v = POSITIONS * CHANNELS;
    l->bytes = (double)(sizeof(float) * (v + m * POSITIONS + 2 * m * CHANNELS));
    return prepare_cached(l, POSITIONS, CHANNELS, m, 2.0 * (double)(m * v), mix_tiles,
                          v + m * (POSITIONS + CHANNELS));
}

static void multiply_panels(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    float *const a = l->scratch + worker * l->floats, *const b = a + PANEL_ROWS * PANEL_DEPTH;
    for (size_t i = begin; i < end; i++)
        l->cx->kernels.gemm_panels_f32(b + PANEL_COLUMNS * PANEL_DEPTH, PANEL_COLUMNS, a, b,
                                       PANEL_ROWS, PANEL_COLUMNS, PANEL_DEPTH);
}

static pare_status prepare_panels(loop *l)
{
    const size_t values = (PANEL_ROWS + PANEL_COLUMNS) * PANEL_DEPTH + PANEL_ROWS * PANEL_COLUMNS;
    l->bytes = (double)(values * sizeof(float));
    return prepare_cached(l, PANEL_COLUMNS, PANEL_DEPTH, PANEL_ROWS,
                          2.0 * PANEL_ROWS * PANEL_COLUMNS * PANEL_DEPTH, multiply_panels, values);
}

/* Values of the states, costs before and after, edges. */
static void search_steps(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    float *const value = l->scratch + worker * l->floats, *const before = value + PARE_EXL3_STATES;
    float *const after = before + l->row.n;
    const unsigned bits = (unsigned)log2((double)l->row.k);
    for (size_t i = begin; i < end; i++)
        l->cx->kernels.exl3_step(after, (uint8_t *)(after + l->row.n), before, value, 0.7f, bits);
}

static pare_status prepare_search(loop *l)
{
    const size_t states = PARE_EXL3_STATES, nodes = states / l->sub->k;
    l->bytes = (double)(states * sizeof(float) + nodes * (2 * sizeof(float) + 1));
    return prepare_cached(l, nodes, l->sub->k, 1, SEARCH_OPS * (double)states, search_steps,
                          states + 3 * nodes);
}

static float *row_at(const loop *l, size_t item, size_t worker)
{
    return l->data ? (float *)(void *)l->data + item * l->h->k : l->scratch + worker * l->floats;
}

static void rotate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    for (size_t i = begin; i < end; i++) {
        float *const x = row_at(l, i, worker);
        for (size_t b = 0; b < l->h->odd; b++)
            l->cx->kernels.hadamard_f32(x + b * l->h->power, l->h->power, l->h->norm);
    }
}

static void mix_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    for (size_t i = begin; i < end; i++)
        l->cx->kernels.mix_f32(row_at(l, i, worker), l->h->power, l->h->mix, l->h->odd);
}

/* Both are orthogonal: values do not grow, however often a row is rotated. */
static pare_status prepare_rows(loop *l)
{
    const bool mix = l->sub->kind == MIX;
    const size_t k = l->sub->k, m = !l->sub->many ? 1 : l->quick ? 8 : 512;
    pare_hadamard *const h = PARE_NEW(l->arena, pare_hadamard, 1);
    if (!h)
        return PARE_ENOMEM;
    PARE_TRY(pare_hadamard_make(l->cx, k, h));
    l->h = h;
    l->row.n = h->power, l->row.k = k, l->row.m = m;
    l->row.bound = mix || m == 1 ? "fma" : "dram";
    l->row.cached = m == 1;
    l->bytes = (double)(k * sizeof(float)); /* read; the limit is one of reading */
    l->ops = (double)k * (mix ? 2.0 * (double)h->odd : log2((double)h->power) + 1.0);
    l->task = mix ? mix_rows : rotate_rows;
    l->calls = m;
    if (m == 1) {
        l->items = items_cached(l);
        return take_scratch(l, k);
    }
    l->items = (rotate_bytes(l) / (m * k * sizeof(float)) + 1) * m;
    l->data_bytes = l->items * k * sizeof(float);
    return take_floats(l, l->items * k, &l->data);
}

static void weigh_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    for (size_t i = begin; i < end; i++) {
        float most = -INFINITY;
        double total = 0;
        (void)l->cx->kernels.softmax_f32(l->scratch + worker * l->floats, l->row.n, 0.1f, &most,
                                         &total);
    }
}

static pare_status prepare_softmax(loop *l)
{
    l->bytes = (double)(POSITIONS * sizeof(float));
    return prepare_cached(l, POSITIONS, POSITIONS, 1, SMOOTH_OPS * POSITIONS, weigh_rows,
                          POSITIONS);
}

static void activate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const loop *const l = arg;
    for (size_t i = begin; i < end; i++) {
        float *const y = (float *)(void *)l->data + 2 * i * l->row.k;
        l->cx->kernels.silu_f32(y, y + l->row.k, l->row.k);
    }
}

static void undo_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const loop *const l = arg;
    const size_t k = l->row.k;
    for (size_t i = begin; i < end; i++) {
        float *const x = (float *)(void *)l->data + 5 * i * k;
        l->cx->kernels.silu_back_f32(x, x + k, x + 2 * k, x + 3 * k, x + 4 * k, k);
    }
}

static void range_groups(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const loop *const l = arg;
    float lo, hi;
    for (size_t i = begin * l->row.k; i < end * l->row.k; i += GROUP)
        (void)l->cx->kernels.range_f32((const float *)(void *)l->data + i, GROUP, &lo, &hi);
}

static void round_groups(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    uint8_t *const codes = (uint8_t *)(void *)(l->scratch + worker * l->floats);
    for (size_t i = begin * l->row.k; i < end * l->row.k; i += GROUP)
        l->cx->kernels.round_codes(codes + i % l->row.k, (const float *)(void *)l->data + i, GROUP,
                                   0.25f, 8, 4);
}

static void round_inputs(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    const size_t k = l->row.k;
    for (size_t i = begin; i < end; i++)
        l->cx->kernels.round_fp8(l->scratch + worker * l->floats,
                                 (const float *)(void *)l->data + i * k, k);
}

static void clip_groups(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const loop *const l = arg;
    for (size_t i = begin * l->row.k; i < end * l->row.k; i += GROUP)
        (void)l->cx->kernels.clip_cost((const float *)(void *)l->data + i, NULL, GROUP, 0.25f, 8, 4,
                                       4, INFINITY);
}

static void sum_errors(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const loop *const l = arg;
    for (size_t i = begin; i < end; i++) {
        const float *const w = (const float *)(void *)l->data + 2 * i * l->row.k;
        (void)l->cx->kernels.error_sums(w, w + l->row.k, w, l->row.k);
    }
}

static void step_weights(void *arg, size_t begin, size_t end, size_t worker)
{
    static const pare_adamw_move by = {
        .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 1, .shrink = 1, .rate = 1e-4, .root = 1};
    (void)worker;
    const loop *const l = arg;
    const size_t k = l->row.k;
    for (size_t i = begin; i < end; i++) {
        float *const x = (float *)(void *)l->data + 4 * i * k;
        l->cx->kernels.adamw_step(x, x + k, x + 2 * k, x + 3 * k, k, &by);
    }
}

/* Scales, gradients of steps, zero points and codes of a row in the scratch. */
static void undo_codes(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    const size_t k = l->row.k, groups = k / GROUP;
    float *const scale = l->scratch + worker * l->floats;
    const uint8_t *const zero = (const uint8_t *)(scale + 2 * groups);
    for (size_t i = begin; i < end; i++) {
        float *const w = (float *)(void *)l->data + 2 * i * k;
        const pare_aware_groups of = {
            .w = w, .codes = zero + groups, .scale = scale, .zero = zero, .bits = 4, .over = 1};
        l->cx->kernels.aware_back(scale + groups, w + k, &of, groups, GROUP);
    }
}

/* Codes, and in front of them the tree, in the scratch. */
static void code_moments(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    float *const tree = l->scratch + worker * l->floats;
    uint8_t *const codes = (uint8_t *)(tree + 256);
    for (size_t i = begin * l->row.k; i < end * l->row.k; i += BLOCK)
        l->cx->kernels.tree_codes(codes + i % l->row.k, (const float *)(void *)l->data + i, BLOCK,
                                  1, tree);
}

/* Rows of k values out of memory, with `ops` operations each; a row lies beside its partner. */
/* An item has `arrays` rows of k values. */
static pare_status prepare_stream(loop *l, pare_task *task, size_t arrays, size_t ops)
{
    const size_t k = l->sub->k, m = l->quick ? 8 : 512, floats = arrays * k;
    l->row.n = l->row.k = k, l->row.m = m;
    l->row.bound = "dram";
    l->bytes = (double)(floats * sizeof(float));
    l->ops = (double)(ops * k);
    l->calls = m;
    l->items = (rotate_bytes(l) / (m * floats * sizeof(float)) + 1) * m;
    l->data_bytes = l->items * floats * sizeof(float);
    l->task = task;
    return take_floats(l, l->items * floats, &l->data);
}

/* A group after the other, as rounding to nearest takes them; codes stay in the cache. */
static pare_status prepare_groups(loop *l, pare_task *task, size_t ops)
{
    l->row.group = GROUP;
    PARE_TRY(prepare_stream(l, task, 1, ops));
    return take_scratch(l, l->sub->k / sizeof(float));
}

/* Of a token after the other; what they become stays in the cache for the product. */
static pare_status prepare_inputs(loop *l)
{
    PARE_TRY(prepare_stream(l, round_inputs, 1, FP8_OPS));
    return take_scratch(l, l->sub->k);
}

static pare_status prepare_moments(loop *l)
{
    l->row.group = BLOCK;
    PARE_TRY(prepare_stream(l, code_moments, 1, MOMENTS_OPS));
    return take_scratch(l, 256 + l->sub->k / sizeof(float));
}

static pare_status prepare_aware(loop *l)
{
    const size_t groups = l->sub->k / GROUP;
    l->row.group = GROUP;
    PARE_TRY(prepare_stream(l, undo_codes, 2, AWARE_OPS));
    return take_scratch(l, 2 * groups + (groups + l->sub->k) / sizeof(float));
}

static void turn_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const loop *const l = arg;
    for (size_t i = begin; i < end; i++)
        l->cx->kernels.transpose_f32(l->scratch + worker * l->floats, POSITIONS,
                                     (const float *)(void *)l->data + i * POSITIONS * CHANNELS,
                                     CHANNELS, POSITIONS, CHANNELS);
}

static pare_status prepare_transpose(loop *l)
{
    const size_t values = POSITIONS * CHANNELS;
    l->row.n = POSITIONS, l->row.k = CHANNELS, l->row.m = 1;
    l->row.bound = "dram";
    l->bytes = (double)(values * sizeof(float));
    l->ops = (double)values;
    l->items = rotate_bytes(l) / (values * sizeof(float)) + 1;
    l->data_bytes = l->items * values * sizeof(float);
    l->task = turn_tiles;
    PARE_TRY(take_floats(l, l->items * values, &l->data));
    return take_scratch(l, values);
}

static pare_status prepare(loop *l)
{
    switch (l->sub->kind) {
    case DECODE: return prepare_decode(l);
    case KV_MIX: return prepare_kv_mix(l);
    case SOFTMAX: return prepare_softmax(l);
    case SILU: /* values shrink from pass to pass, by less than a half each time */
        return prepare_stream(l, activate_rows, 2, SMOOTH_OPS);
    case SILU_BACK: return prepare_stream(l, undo_rows, 5, BACK_OPS);
    case RANGE: return prepare_groups(l, range_groups, RANGE_OPS);
    case CODES: return prepare_groups(l, round_groups, CODE_OPS);
    case FP8: return prepare_inputs(l);
    case CLIP:
        PARE_TRY(prepare_groups(l, clip_groups, CLIP_OPS));
        l->row.bound = "fma";
        return PARE_OK;
    case ERRORS: return prepare_stream(l, sum_errors, 2, ERROR_OPS);
    case ADAMW: return prepare_stream(l, step_weights, 4, ADAMW_OPS);
    case AWARE: return prepare_aware(l);
    case MOMENTS: return prepare_moments(l);
    case TRANSPOSE: return prepare_transpose(l);
    case SEARCH: return prepare_search(l);
    case PANELS: return prepare_panels(l);
    default: return prepare_rows(l);
    }
}

static pare_status add_row(const loop *l, pare__bench_meter *limits, pare_bench_result *out)
{
    const size_t runs = l->quick ? QUICK_RUNS : RUNS, threads = pare_threads(l->cx);
    const bool dram = strcmp(l->row.bound, "dram") == 0;
    double times[PARE__RUNS_MAX + 1], limit[PARE__RUNS_MAX + 2];
    for (size_t run = 0; run <= runs + 1; run++) { /* the first one warms up */
        PARE_TRY(pare_ctx_interrupted(l->cx));
        const pare_bench_limits pass =
            pare__bench_sample(l->cx, dram ? l->data : NULL, l->data_bytes, l->quick, limits);
        limit[run] = pare__bench_limit(&pass, l->row.bound);
        if (run > runs)
            break;
        loop call = *l;
        const double start = pare_seconds();
        pare_parallel(l->cx, l->items, l->items / (CHUNKS * threads) + 1, l->task, &call);
        times[run] = (pare_seconds() - start) / (double)l->items;
    }
    pare_bench_row row = l->row;
    row.share = pare__bench_share((dram ? l->bytes : l->ops) * 1e-9, times + 1, limit + 1, runs);
    const double seconds = pare__bench_median(times + 1, runs); /* sorts */
    row.kernel = l->sub->name;
    row.threads = threads;
    row.us = seconds * (double)l->calls * 1e6;
    row.gb_s = l->bytes * 1e-9 / seconds;
    row.gop_s = l->ops * 1e-9 / seconds;
    row.sgemm_ratio = row.dense_ratio = (double)NAN;
    out->row[out->rows++] = row;
    return PARE_OK;
}

pare_status pare__bench_loop(pare_ctx *cx, size_t index, bool quick, pare__bench_meter limits[2],
                             pare_bench_result *out)
{
    struct pare_pool *const pool = cx->pool;
    pare_arena a;
    loop l = {.cx = cx, .sub = &subjects[index], .arena = &a, .quick = quick, .calls = 1};
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s != PARE_OK)
        return s;
    s = prepare(&l);
    if (s == PARE_OK)
        s = add_row(&l, &limits[0], out);
    if (s == PARE_OK && pare_threads(cx) > 1) {
        cx->pool = NULL;
        s = add_row(&l, &limits[1], out);
        cx->pool = pool;
    }
    pare_arena_release(&a);
    return s;
}
