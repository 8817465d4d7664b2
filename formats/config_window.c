/* Which blocks of a model have a window, as config.json says it. */
#include <string.h>

#include "formats/config_internal.h"

/* Which blocks have the window, where the file says it block by block. */
static pare_status read_layer_types(const pare__config_file *f, const char *width,
                                    const pare_json *list, pare_config *c)
{
    const char *const local = c->chunked ? "chunked_attention" : "sliding_attention";
    if (pare_json_type_of(list) != PARE_JSON_ARRAY)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: layer_types is not a list", f->name);
    if (pare_json_count(list) != c->blocks)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: layer_types has %zu item%s for %zu block%s (%s); it needs one for "
                         "each block, so leave out those of blocks that were cut",
                         f->name, pare_json_count(list), pare_plural(pare_json_count(list)),
                         c->blocks, pare_plural(c->blocks), c->arch->words->blocks);
    for (size_t i = 0; i < c->blocks; i++) {
        const char *const type = pare_json_text(pare_json_at(list, i), NULL);
        const bool all = type && strcmp(type, "full_attention") == 0;
        if (all && c->arch->window == PARE_WINDOW_ALWAYS && c->window)
            return pare_fail(f->cx, PARE_EFORMAT,
                             "%s: layer_types: item %zu is full_attention, and in models of type "
                             "%s %s is of all blocks: make it null, or leave out layer_types",
                             f->name, i, c->arch->model_type, width);
        if (all)
            pare_blocks_add(c->wide, i);
        else if (!type || strcmp(type, local) != 0)
            return pare_fail(f->cx, PARE_ENOTSUP,
                             "%s: layer_types: item %zu is not supported (full_attention and %s "
                             "are)",
                             f->name, i, local);
        else if (c->window == 0)
            return pare_fail(f->cx, PARE_EFORMAT,
                             "%s: layer_types: item %zu is %s, and there is no %s", f->name, i,
                             local, width);
    }
    return PARE_OK;
}

/* A family without windows: layer_types may say so. A list of another length is told of. */
static pare_status check_full(const pare__config_file *f, const pare_json *list,
                              const pare_config *c)
{
    for (size_t i = 0; i < c->blocks && pare_json_count(list) == c->blocks; i++) {
        const char *const type = pare_json_text(pare_json_at(list, i), NULL);
        if (!type || strcmp(type, "full_attention") != 0)
            return pare_fail(f->cx, PARE_ENOTSUP,
                             "%s: layer_types: item %zu is not supported in models of type %s "
                             "(full_attention is)",
                             f->name, i, c->arch->model_type);
    }
    return PARE_OK;
}

/* Blocks in a period, of which the last has no window. Where some have one it must have a width. */
static pare_status read_period(const pare__config_file *f, const pare_config *c, size_t *period)
{
    static const char key[] = "sliding_window_pattern";
    PARE_TRY(pare__config_size_or(f, key, PARE__CONFIG_SIZE_MAX, *period, period));
    if (c->window == 0 && *period > 1)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: %s %zu leaves windows to blocks, and there is no sliding_window",
                         f->name, key, *period);
    return PARE_OK;
}

pare_status pare__config_window(const pare__config_file *f, pare_config *c)
{
    const pare_window_rule rule = c->arch->window;
    const pare_json *const types = pare_json_get(f->json, "layer_types");
    c->chunked = rule == PARE_WINDOW_CHUNKS;
    const char *const key = c->chunked ? "attention_chunk_size" : "sliding_window";
    const pare_json *const width = pare_json_get(f->json, key);
    const bool given = !pare__config_absent(width);
    bool on = rule != PARE_WINDOW_SWITCHED;
    size_t from = rule == PARE_WINDOW_SWITCHED ? c->blocks : 0, period = 6;
    if (rule == PARE_WINDOW_NONE)
        return c->arch->recurrent ? PARE_OK : check_full(f, types, c);
    if (rule == PARE_WINDOW_SWITCHED)
        PARE_TRY(pare__config_flag(f, "use_sliding_window", false, &on));
    if (given && on)
        PARE_TRY(pare__config_size(f, key, SIZE_MAX, &c->window));
    else if (pare_json_type_of(width) == PARE_JSON_ABSENT && on)
        c->window = c->arch->window_width;
    if (!pare__config_absent(types))
        return read_layer_types(f, key, types, c);
    if (c->chunked)
        memcpy(c->wide, c->unturned, sizeof c->wide);
    if (rule == PARE_WINDOW_SWITCHED && c->window)
        PARE_TRY(pare__config_size_or(f, "max_window_layers", PARE__CONFIG_SIZE_MAX, 28, &from));
    if (rule == PARE_WINDOW_FOURTH && c->window == 0)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: sliding_window is null, and three of four blocks of a model of type "
                         "%s have one unless layer_types says otherwise",
                         f->name, c->arch->model_type);
    if (rule == PARE_WINDOW_EVEN || rule == PARE_WINDOW_FOURTH)
        period = rule == PARE_WINDOW_EVEN ? 2 : 4;
    if (rule == PARE_WINDOW_PERIOD)
        PARE_TRY(read_period(f, c, &period));
    const bool some = rule >= PARE_WINDOW_EVEN && !c->chunked;
    for (size_t i = 0; i < c->blocks; i++)
        if (i < from || (some && (i + 1) % period == 0))
            pare_blocks_add(c->wide, i);
    return PARE_OK;
}
