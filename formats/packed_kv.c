/* The key/value cache in an artifact: a member of the index, and the tables of KVQuant as tensors
 * beside the attention of each block. */
#include <stdio.h>
#include <string.h>

#include "formats/packed.h"
#include "formats/packed_kv.h"
#include "runtime/kv.h"

enum { GROUP_STEP = 8, WINDOW_CAP = 1 << 20, SINK_CAP = 64 };

void pare_packed_kv_put(pare_json_writer *w, const pare_kv_format *f)
{
    if (f->method == PARE_KV_FLOAT)
        return;
    pare_json_open_object(w, "kv_cache");
    pare_json_put_text(w, "method", pare_kv_method_name(f->method));
    if (f->group)
        pare_json_put_integer(w, "group", (int64_t)f->group);
    if (f->window)
        pare_json_put_integer(w, "window", (int64_t)f->window);
    if (f->sink)
        pare_json_put_integer(w, "sink", (int64_t)f->sink);
    pare_json_close(w);
}

static bool find_method(const char *name, pare_kv_method *out)
{
    for (pare_kv_method m = PARE_KV_INT8; name && m < PARE_KV_METHODS; m++)
        if (strcmp(name, pare_kv_method_name(m)) == 0) {
            *out = m;
            return true;
        }
    return false;
}

/* Whether a method has such numbers. */
static bool is_possible(const pare_kv_format *f)
{
    const bool kivi = f->method == PARE_KV_KIVI;
    if (f->group % GROUP_STEP || f->group > PARE_KV_GROUP_MAX || (kivi && f->group == 0))
        return false;
    if ((f->group && !kivi && f->method != PARE_KV_INT4) || (f->window != 0) != kivi)
        return false;
    return f->sink == 0 || f->method == PARE_KV_KVQUANT;
}

pare_status pare_packed_kv_read(pare_ctx *cx, const pare_json *index, pare_kv_format *out)
{
    const pare_json *const v = pare_json_get(index, "kv_cache");
    *out = (pare_kv_format){.method = PARE_KV_FLOAT};
    if (!v)
        return PARE_OK;
    if (!find_method(pare_json_text(pare_json_get(v, "method"), NULL), &out->method))
        return pare_fail(cx, PARE_EFORMAT, "kv_cache: unknown method");
    const char *key;
    const pare_json *value;
    for (pare_json_iter it = {0}; pare_json_next(v, &it, &key, &value);) {
        const int64_t number = pare_json_integer(value, -1);
        if (strcmp(key, "method") == 0)
            continue;
        size_t *const field = strcmp(key, "group") == 0    ? &out->group
                              : strcmp(key, "window") == 0 ? &out->window
                              : strcmp(key, "sink") == 0   ? &out->sink
                                                           : NULL;
        const int64_t cap = field == &out->sink ? SINK_CAP : WINDOW_CAP;
        if (!field || number < 1 || number > cap)
            return pare_fail(cx, PARE_EFORMAT, "kv_cache: %s \"%.32s\"",
                             field ? "out of range:" : "unknown member", key);
        *field = (size_t)number;
    }
    if (!is_possible(out))
        return pare_fail(cx, PARE_EFORMAT,
                         "kv_cache: method %s does not go with group %zu, window %zu, sink %zu",
                         pare_kv_method_name(out->method), out->group, out->window, out->sink);
    return PARE_OK;
}

pare_status pare_packed_kv_tensor(pare_arena *a, const pare_config *c, size_t block,
                                  pare_kv_table t, pare_tensor *out)
{
    static const char *const suffix[PARE_KV_TABLES] = {
        [PARE_KV_KEY_LEVELS] = "k_cache.levels",
        [PARE_KV_KEY_SCALES] = "k_cache.scales",
        [PARE_KV_KEY_LOWS] = "k_cache.lows",
        [PARE_KV_VALUE_LEVELS] = "v_cache.levels",
    };
    const bool levels = t == PARE_KV_KEY_LEVELS || t == PARE_KV_VALUE_LEVELS;
    const char *const k = c->arch->linear[PARE_ROLE_K].name, *const dot = strrchr(k, '.');
    char name[256];
    int n = snprintf(name, sizeof name, c->arch->block_prefix, block);
    n += snprintf(name + n, sizeof name - (size_t)n, "%.*s%s", dot ? (int)(dot - k + 1) : 0, k,
                  suffix[t]);
    *out = (pare_tensor){.name = pare_arena_text(a, name, (size_t)n),
                         .dtype = PARE_F16,
                         .rank = 1,
                         .shape = {levels ? PARE_KV_LEVELS : c->kv_heads * c->head_dim}};
    out->bytes = out->shape[0] * 2;
    return out->name ? PARE_OK : PARE_ENOMEM;
}
