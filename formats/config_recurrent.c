/* Families in which some blocks have a recurrent state in place of attention: which blocks, and the
 * sizes of the state.
 *
 * Source  transformers 5, configuration_qwen3_5.py, _qwen3_5_moe.py, _qwen3_next.py. */
#include <string.h>

#include "formats/config_internal.h"
#include "runtime/recur.h"

static pare_status read_types(const pare__config_file *f, const pare_json *list, pare_config *c)
{
    if (pare_json_type_of(list) != PARE_JSON_ARRAY)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: layer_types is not a list", f->name);
    if (pare_json_count(list) != c->blocks)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: layer_types has %zu item%s for %zu block%s (%s)",
                         f->name, pare_json_count(list), pare_plural(pare_json_count(list)),
                         c->blocks, pare_plural(c->blocks), c->arch->words->blocks);
    for (size_t i = 0; i < c->blocks; i++) {
        const char *const type = pare_json_text(pare_json_at(list, i), NULL);
        if (type && strcmp(type, "linear_attention") == 0)
            pare_blocks_add(c->recurrent, i);
        else if (!type || strcmp(type, "full_attention") != 0)
            return pare_fail(f->cx, PARE_ENOTSUP,
                             "%s: layer_types: item %zu is not supported (full_attention and "
                             "linear_attention are)",
                             f->name, i);
    }
    return PARE_OK;
}

/* Every so-manyth block has attention. */
static pare_status read_interval(const pare__config_file *f, pare_config *c)
{
    size_t interval = 4;
    PARE_TRY(pare__config_size_or(f, "full_attention_interval", PARE__CONFIG_SIZE_MAX, interval,
                                  &interval));
    for (size_t i = 0; i < c->blocks; i++)
        if ((i + 1) % interval != 0)
            pare_blocks_add(c->recurrent, i);
    return PARE_OK;
}

static pare_status check_sizes(const pare__config_file *f, const pare_recurrence_sizes *r)
{
    const size_t keys = r->key_heads * r->key_width, values = r->value_heads * r->value_width;
    if (r->value_heads % r->key_heads != 0)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: linear_num_value_heads %zu is not a multiple of "
                         "linear_num_key_heads %zu",
                         f->name, r->value_heads, r->key_heads);
    if (2 * keys + values > PARE__CONFIG_SIZE_MAX)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: 2 x %zu keys and %zu values of a recurrent state are more than %d",
                         f->name, keys, values, PARE__CONFIG_SIZE_MAX);
    if (r->taps < 2)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: linear_conv_kernel_dim 1 is not supported: 2 to %d are", f->name,
                         PARE_TAPS_MAX);
    return PARE_OK;
}

pare_status pare__config_recurrent(const pare__config_file *f, pare_config *c)
{
    pare_recurrence_sizes *const r = &c->recurrence;
    const pare_json *const types = pare_json_get(f->json, "layer_types");
    const size_t most = PARE__CONFIG_SIZE_MAX;
    if (!c->arch->recurrent)
        return PARE_OK;
    c->mixed = true;
    if (c->act != PARE_ACT_SILU)
        return pare_fail(f->cx, PARE_ENOTSUP, "%s: %s: only silu is supported in models of type %s",
                         f->name, c->arch->words->act, c->arch->model_type);
    PARE_TRY(pare__config_size(f, "linear_num_key_heads", most, &r->key_heads));
    PARE_TRY(pare__config_size(f, "linear_num_value_heads", most, &r->value_heads));
    PARE_TRY(pare__config_size(f, "linear_key_head_dim", PARE_STATE_WIDTH_MAX, &r->key_width));
    PARE_TRY(pare__config_size(f, "linear_value_head_dim", PARE_STATE_WIDTH_MAX, &r->value_width));
    PARE_TRY(pare__config_size(f, "linear_conv_kernel_dim", PARE_TAPS_MAX, &r->taps));
    PARE_TRY(check_sizes(f, r));
    return pare__config_absent(types) ? read_interval(f, c) : read_types(f, types, c);
}
