/* Llama 4: what comes with attention in chunks, and blocks without experts among those with them.
 *
 * Source  transformers 5, configuration_ and modeling_llama4.py. */
#include <math.h>

#include "formats/config_internal.h"

/* Whether q and k are normed. transformers norms them behind their turn; pare does so in front of
 * it, which is the same as long as the turn keeps lengths. */
static pare_status read_norms(const pare__config_file *f, pare_config *c)
{
    PARE_TRY(pare__config_flag(f, "use_qk_norm", true, &c->unit_norms));
    if (c->unit_norms && c->rope.attention > 0 && c->rope.attention != 1)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: use_qk_norm with positions of a type that scales attention by %g is "
                         "not supported",
                         f->name, c->rope.attention);
    return PARE_OK;
}

/* True, false, or a number, of which 0 is false. */
static pare_status read_switch(const pare__config_file *f, const char *key, bool *out)
{
    const pare_json *const v = pare_json_get(f->json, key);
    const int64_t number = pare_json_integer(v, -1);
    *out = number != 0;
    return number >= 0 ? PARE_OK : pare__config_flag(f, key, true, out);
}

static pare_status read_temperature(const pare__config_file *f, pare_config *c)
{
    static const char key[] = "attn_scale";
    const pare_json *const v = pare_json_get(f->json, key);
    const double scale = pare__config_absent(v) ? 0.1 : pare_json_number(v, -1);
    bool on;
    PARE_TRY(read_switch(f, "attn_temperature_tuning", &on));
    PARE_TRY(
        pare__config_size_or(f, "floor_scale", PARE__CONFIG_SIZE_MAX, 8192, &c->temperature_step));
    if (!(scale >= 0) || !isfinite(scale))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not a number of at least 0", f->name, key);
    c->temperature = on ? scale : 0;
    if (!isfinite(pare_config_temperature(c, true, PARE__CONFIG_SIZE_MAX)))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s %g scales queries by more than fits F32",
                         f->name, key, scale);
    return PARE_OK;
}

pare_status pare__config_chunks(const pare__config_file *f, pare_config *c)
{
    if (c->arch->window != PARE_WINDOW_CHUNKS)
        return PARE_OK;
    PARE_TRY(read_norms(f, c));
    return read_temperature(f, c);
}

pare_status pare__config_blocks(const pare__config_file *f, const char *key, const pare_config *c,
                                bool *named)
{
    const pare_json *const list = pare_json_get(f->json, key);
    if (pare__config_absent(list))
        return PARE_OK;
    if (pare_json_type_of(list) != PARE_JSON_ARRAY)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not a list", f->name, key);
    for (size_t i = 0; i < pare_json_count(list); i++) {
        const int64_t block = pare_json_integer(pare_json_at(list, i), INT64_MIN);
        if (block == INT64_MIN)
            return pare_fail(f->cx, PARE_EFORMAT, "%s: %s: item %zu is not a whole number", f->name,
                             key, i);
        if (block < 0 || (uint64_t)block >= c->blocks)
            return pare_fail(f->cx, PARE_EFORMAT,
                             "%s: %s: item %zu is %lld, not a block from 0 to %zu", f->name, key, i,
                             (long long)block, c->blocks - 1);
        named[block] = true;
    }
    return PARE_OK;
}

void pare__config_dense(pare_config *c, size_t shared)
{
    const size_t dense = c->intermediate;
    for (size_t i = 0; i < c->blocks; i++)
        c->mlp[i] = (uint32_t)(pare_blocks_have(c->dense, i) ? dense : shared);
    c->uneven = c->dense_blocks > 0 && shared != dense;
    c->intermediate = c->dense_blocks > 0 && dense > shared ? dense : shared;
}

pare_status pare__config_interleaved(const pare__config_file *f, pare_config *c)
{
    const pare_json *const list = pare_json_get(f->json, "moe_layers");
    bool experts[PARE_BLOCKS_MAX] = {false};
    size_t step = 1;
    PARE_TRY(
        pare__config_size_or(f, "interleave_moe_layer_step", PARE__CONFIG_SIZE_MAX, step, &step));
    PARE_TRY(pare__config_blocks(f, "moe_layers", c, experts));
    for (size_t i = 0; i < c->blocks; i++) {
        if (pare__config_absent(list) && (i + 1) % step == 0)
            experts[i] = true;
        if (!experts[i]) {
            pare_blocks_add(c->dense, i);
            c->dense_blocks++;
        }
    }
    if (c->dense_blocks == c->blocks)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: no block has experts (moe_layers, interleave_moe_layer_step); at "
                         "least one needs them",
                         f->name);
    pare__config_dense(c, c->expert_width); /* the shared expert is one more of the same width */
    return PARE_OK;
}
