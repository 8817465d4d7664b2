/* Attention over every kind of cache, batch after batch into the same one. */
#include "tests/ptx/op_rows.h"

enum { BATCHES = 4 };

typedef struct attend_case {
    size_t head_dim, heads, kv_heads;
    size_t length[BATCHES]; /* 0: no more */
    pare_kv_format kv;
    size_t window, sequences; /* 0: one */
    size_t first_window;      /* of the first batch, where it is another one */
    double cap, scale;
    size_t rotary;
} attend_case;

#define FLOAT      .kv = {.method = PARE_KV_FLOAT}
#define INT8       .kv = {.method = PARE_KV_INT8}
#define INT4(each) .kv = {.method = PARE_KV_INT4, .group = (each)}
#define KIVI(g, w) .kv = {.method = PARE_KV_KIVI, .group = (g), .window = (w)}
#define KVQUANT(s) .kv = {.method = PARE_KV_KVQUANT, .sink = (s)}

// clang-format off
static const attend_case cases[] = {
    {2, 1, 1, {1}, FLOAT},
    {64, 2, 1, {63, 1, 1, 64}, FLOAT},
    {80, 3, 1, {70, 1}, .window = 5},
    {96, 4, 4, {66, 1}, .window = 64, .cap = 30},
    {128, 8, 2, {3, 1, 2}, .scale = 0.07, .sequences = 2},
    {256, 4, 1, {17, 50}, FLOAT},
    {10, 20, 1, {5, 1, 130}, FLOAT},
    {64, 4, 2, {1, 1, 1}, .rotary = 16, .sequences = 3},
    {33, 2, 2, {129}, .window = 65, .cap = 5},
    {64, 4, 2, {65, 1, 3}, INT8},
    {80, 2, 1, {3, 70}, INT8, .window = 7, .sequences = 2},
    {10, 17, 1, {9, 1}, INT8, .cap = 20},
    {64, 4, 2, {65, 1, 3}, INT4(32)},
    {80, 2, 1, {9, 70}, INT4(0), .sequences = 2},
    {10, 4, 4, {70, 1}, INT4(8), .window = 66},
    {128, 2, 1, {5, 1}, INT4(128)},
    {64, 4, 2, {65, 1, 40, 1}, KIVI(32, 32)},
    {64, 2, 1, {31, 1, 1, 100}, KIVI(64, 1)},
    {80, 2, 2, {70, 1, 1}, KIVI(32, 40), .sequences = 2},
    {64, 4, 2, {65, 1, 3}, KVQUANT(0)},
    {80, 2, 1, {2, 1, 70}, KVQUANT(3), .sequences = 2},
    {10, 4, 2, {70, 1}, KVQUANT(66), .window = 68},
    {256, 2, 1, {5, 1}, KVQUANT(1)},
    {8, 2, 1, {2120, 2}, .first_window = 64},
};
// clang-format on

_Static_assert(sizeof cases / sizeof *cases == OP_ATTENDS, "");

/* Levels, scales and lows as calibration gives them. */
static pare_status make_levels(op_run *r, pare_kv_levels *l)
{
    static const float level[PARE_KV_LEVELS] = {-1, -0.6F, -0.33F, -0.1F, 0.12F, 0.3F, 0.61F, 1};
    const pare_config *const c = &r->model.config;
    const size_t bytes = c->kv_heads * c->head_dim * sizeof(uint16_t);
    *l = (pare_kv_levels){level, level, op_halves(r, bytes / 2), op_halves(r, bytes / 2)};
    PARE_TRY(op_weights(r, level, sizeof level));
    PARE_TRY(op_weights(r, l->key_scale, bytes));
    return op_weights(r, l->key_low, bytes);
}

static pare_status attend_batch(op_run *r, const pare_attend *a)
{
    const pare_config *const c = &r->model.config;
    const size_t rows = a->batch.sequences * a->batch.length, wide = c->heads * c->head_dim;
    const size_t narrow = c->kv_heads * c->head_dim;
    pare_array q, k, v, y;
    PARE_TRY(op_put(r, op_mild(r, rows * wide), rows, wide, &q));
    PARE_TRY(op_put(r, op_mild(r, rows * narrow), rows, narrow, &k));
    PARE_TRY(op_put(r, op_mild(r, rows * narrow), rows, narrow, &v));
    PARE_TRY(op_blank(r, rows, wide, &y));
    PARE_TRY(r->o.op->attend(&r->o, a, q, k, v, y));
    return op_keep(r, y);
}

pare_status op_attend(op_run *r, size_t i)
{
    const attend_case *const c = &cases[i];
    const size_t sequences = c->sequences ? c->sequences : 1;
    size_t capacity = 0;
    pare_kv kv;
    pare_kv_levels levels = {.key = NULL};
    for (size_t b = 0; b < BATCHES; b++)
        capacity += c->length[b];
    r->model.config = (pare_config){.arch = pare_archs[0],
                                    .heads = c->heads,
                                    .kv_heads = c->kv_heads,
                                    .head_dim = c->head_dim,
                                    .attention_cap = c->cap,
                                    .attention_scale = c->scale,
                                    .rope = {.theta = 10000, .rotary = c->rotary}};
    PARE_TRY(op_begin(r, capacity));
    if (c->kv.method == PARE_KV_KVQUANT)
        PARE_TRY(make_levels(r, &levels));
    PARE_TRY(r->o.op->kv_take(&r->o, &r->model.config, &c->kv, sequences, capacity, &kv));
    for (size_t b = 0, start = 0; b < BATCHES && c->length[b]; start += c->length[b++]) {
        const pare_attend a = {.f = &r->f,
                               .levels = &levels,
                               .window = b || !c->first_window ? c->window : c->first_window,
                               .batch = {sequences, c->length[b], start},
                               .kv = &kv};
        PARE_TRY(attend_batch(r, &a));
    }
    return PARE_OK;
}
