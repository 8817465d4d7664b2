/* Attention of one tile of queries of one head: S = Q K^T over the positions its last query may
 * see, softmax of each row over its own positions, O = P V with V stored transposed. Masked
 * entries of P are exactly 0, so a row has the same sum in a tile of any size. */
#include <math.h>

#include "runtime/forward_internal.h"
#include "runtime/ops.h"
#include "runtime/threads.h"

enum { TILE_QUERIES = 64 };

typedef struct attention_call {
    const pare_kernels *kernels;
    const pare_config *config;
    const pare_kv *kv;
    pare_batch batch;
    size_t tile, tiles; /* queries of a tile, tiles of a sequence */
    const float *q;
    float *out;
    float *scores; /* [workers][tile * (start + length)] */
    float scale;
} attention_call;

size_t pare__attention_tile(pare_batch batch)
{
    return batch.length < TILE_QUERIES ? batch.length : TILE_QUERIES;
}

static void attend(const attention_call *a, size_t sequence, size_t head, size_t t0, float *scores)
{
    const pare_config *const c = a->config;
    const size_t d = c->head_dim, width = c->heads * d, capacity = a->kv->capacity;
    const size_t left = a->batch.length - t0, rows = left < a->tile ? left : a->tile;
    const size_t visible = a->batch.start + t0 + rows;
    const size_t plane = sequence * c->kv_heads + head / (c->heads / c->kv_heads);
    const size_t at = (sequence * a->batch.length + t0) * width + head * d;
    a->kernels->gemm_f32_f32(scores, visible, a->q + at, width, a->kv->keys + plane * capacity * d,
                             d, rows, visible, d);
    for (size_t i = 0; i < rows; i++)
        pare_softmax(scores + i * visible, visible - rows + i + 1, visible, a->scale);
    a->kernels->gemm_f32_f32(a->out + at, width, scores, visible,
                             a->kv->values + plane * d * capacity, capacity, rows, d, visible);
}

static void run_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const attention_call *const a = arg;
    float *const scores = a->scores + worker * a->tile * (a->batch.start + a->batch.length);
    for (size_t i = begin; i < end; i++) {
        const size_t tile = i % a->tiles, plane = i / a->tiles;
        attend(a, plane / a->config->heads, plane % a->config->heads, tile * a->tile, scores);
    }
}

pare_status pare__attention(pare_ctx *cx, pare_arena *scratch, const pare_config *c,
                            pare_batch batch, const pare_kv *kv, const float *q, float *out)
{
    attention_call a = {.kernels = &cx->kernels, .config = c, .kv = kv, .batch = batch, .q = q};
    const size_t positions = batch.start + batch.length;
    const pare_mark mark = pare_arena_mark(scratch);
    a.out = out;
    a.tile = pare__attention_tile(batch);
    a.tiles = (batch.length + a.tile - 1) / a.tile;
    a.scale = (float)(1.0 / sqrt((double)c->head_dim));
    a.scores = pare_arena_take(scratch, pare_threads(cx), a.tile * positions * sizeof(float));
    if (!a.scores)
        return PARE_ENOMEM;
    pare_parallel(cx, batch.sequences * c->heads * a.tiles,
                  pare__chunk(a.tile * positions * c->head_dim), run_tiles, &a);
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
