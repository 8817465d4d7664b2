/* The levels of KVQuant: found block by block from what the compressed block makes of the wave,
 * kept in memory until the tensors outside the blocks are written. */
#include <string.h>

#include "compress/run/run_internal.h"
#include "formats/packed_kv.h"
#include "runtime/machine.h"

static pare_status watch(void *self, const float *q, const float *k, const float *v, size_t rows)
{
    (void)q;
    pare_kv_sample_add(self, k, v, rows);
    return PARE_OK;
}

/* Memory for the tables of all blocks, once. */
static pare_status take_tables(pare_run *run)
{
    const pare_config *const c = &run->model.config;
    const size_t width = c->kv_heads * c->head_dim;
    if (run->kv)
        return PARE_OK;
    run->kv = PARE_NEW(run->a, pare_kv_tables, c->blocks);
    uint16_t *const scales = pare_arena_take(run->a, c->blocks * 2, width * sizeof *scales);
    if (!run->kv || !scales)
        return PARE_ENOMEM;
    for (size_t i = 0; i < c->blocks; i++) {
        run->kv[i].key_scale = scales + 2 * i * width;
        run->kv[i].key_low = scales + (2 * i + 1) * width;
    }
    return PARE_OK;
}

static pare_status calibrate(pare_run *run, size_t block)
{
    pare_ctx *const cx = run->cx;
    const uint64_t tokens = (uint64_t)run->wave.samples * run->wave.window;
    pare_kv_sample sample;
    PARE_TRY(pare_kv_sample_take(&run->scratch, &run->model.config, tokens, &sample));
    const pare_tap tap = {.self = &sample, .last = PARE_SITE_ATTENTION, .see_qkv = watch};
    PARE_TRY(pare_wave_run(cx, &run->scratch, &run->wave, &run->wave_forward, &run->current, &tap,
                           "watching keys and values"));
    const pare_status s = pare_kv_calibrate(cx, &run->scratch, &sample, &run->kv[block]);
    return s == PARE_OK ? s : pare_fail_context(cx, s, "kv_cache of block %zu", block);
}

bool pare__run_watches_kv(const pare_run *run)
{
    return run->plan->recipe.kv.method == PARE_KV_KVQUANT;
}

pare_status pare__run_kv(pare_run *run, size_t block)
{
    if (!pare__run_watches_kv(run))
        return PARE_OK;
    PARE_TRY(take_tables(run));
    const double start = pare_seconds();
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s = calibrate(run, block);
    pare_arena_rewind(&run->scratch, mark);
    run->calibration_seconds += pare_seconds() - start;
    return s;
}

pare_status pare__run_kv_put(pare_run *run, const pare_packed_entry *e, uint8_t hash[16],
                             bool *done)
{
    const pare_config *const c = &run->model.config;
    *done = false;
    for (size_t i = 0; run->kv && i < c->blocks; i++) {
        const pare_kv_tables *const t = &run->kv[i];
        const void *const bytes[PARE_KV_TABLES] = {[PARE_KV_KEY_LEVELS] = t->key_level,
                                                   [PARE_KV_KEY_SCALES] = t->key_scale,
                                                   [PARE_KV_KEY_LOWS] = t->key_low,
                                                   [PARE_KV_VALUE_LEVELS] = t->value_level};
        for (pare_kv_table k = PARE_KV_KEY_LEVELS; k < PARE_KV_TABLES; k++) {
            const pare_mark mark = pare_arena_mark(&run->scratch);
            pare_tensor tensor;
            PARE_TRY(pare_packed_kv_tensor(&run->scratch, c, i, k, &tensor));
            const bool same = strcmp(tensor.name, e->tensor.name) == 0;
            pare_arena_rewind(&run->scratch, mark);
            if (!same)
                continue;
            *done = true;
            pare_xxh3(bytes[k], (size_t)e->tensor.bytes, hash);
            return pare_packed_put(run->cx, run->writer, e, bytes[k]);
        }
    }
    return PARE_OK;
}
