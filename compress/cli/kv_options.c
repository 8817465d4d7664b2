/* The key/value cache on the command line: --kv, --kv-window, and what the commands say of it. */
#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/text/units.h"
#include "recipes/pattern.h"

static pare_status find_method(pare_cli *cli, const char *name, pare_kv_method *out)
{
    const char *words[PARE_KV_METHODS];
    for (pare_kv_method m = PARE_KV_FLOAT; m < PARE_KV_METHODS; m++) {
        words[m] = pare_kv_method_name(m);
        if (strcmp(name, words[m]) == 0) {
            *out = m;
            return PARE_OK;
        }
    }
    const char *const near = pare_nearest_word(name, words, PARE_KV_METHODS);
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "--kv \"%.64s\": it takes none, int8, int4, kivi or kvquant%s%s%s", name,
                     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static bool is_calibrated(const pare_model *m)
{
    return m->config.blocks && m->block[0].kv.key;
}

pare_status pare_loaded_kv(pare_cli *cli, const pare_args *args, pare_loaded *l)
{
    pare_kv_format *const f = &l->model.kv;
    const char *const name = pare_args_text(args, "kv");
    if (name) {
        pare_kv_method method = PARE_KV_FLOAT;
        PARE_TRY(find_method(cli, name, &method));
        if (method == PARE_KV_KVQUANT && !is_calibrated(&l->model))
            return pare_fail(&cli->cx, PARE_EUSAGE,
                             "--kv kvquant: its levels are found at calibration and this model has "
                             "none; compress it with kv_cache: {method: kvquant}, or take int8, "
                             "int4 or kivi, which need none");
        if (method != f->method)
            *f = pare_kv_default(method);
    }
    uint64_t window = f->window;
    PARE_TRY(pare_args_count(&cli->cx, args, "kv-window", 1, l->model.config.context, &window));
    if (pare_args_given(args, "kv-window") && f->method != PARE_KV_KIVI)
        return pare_fail(&cli->cx, PARE_EUSAGE, "--kv-window is for kivi, the cache here is %s",
                         pare_kv_method_name(f->method));
    f->window = (size_t)window;
    return PARE_OK;
}

void pare_kv_text(const pare_config *c, const pare_kv_format *f, char text[PARE_KV_TEXT])
{
    char bytes[PARE_UNIT_TEXT];
    const char *const name = f->method == PARE_KV_FLOAT ? "floats" : pare_kv_method_name(f->method);
    const size_t blocks = pare_config_attentions(c), states = c->blocks - blocks;
    int n = snprintf(text, PARE_KV_TEXT, "%s, %.6g bytes per token in %zu block%s of %zu KV head%s",
                     name, pare_kv_token_bytes(c, f), blocks, pare_plural(blocks), c->kv_heads,
                     pare_plural(c->kv_heads));
    if (f->window)
        n += snprintf(text + n, PARE_KV_TEXT - (size_t)n,
                      "; newest %zu token%s in F16 (%s at most)", f->window, pare_plural(f->window),
                      pare_units_bytes(pare_kv_float_bytes(c, f), bytes));
    if (states)
        n += snprintf(text + n, PARE_KV_TEXT - (size_t)n, "; %s of recurrent state in %zu block%s",
                      pare_units_bytes(pare_kv_state_bytes(c), bytes), states, pare_plural(states));
    if (f->sink)
        (void)snprintf(text + n, PARE_KV_TEXT - (size_t)n, "; first %zu token%s in F16", f->sink,
                       pare_plural(f->sink));
}

void pare_json_put_kv(pare_json_writer *w, const pare_config *c, const pare_kv_format *f)
{
    pare_json_open_object(w, "kv_cache");
    pare_json_put_text(w, "method", pare_kv_method_name(f->method));
    pare_json_put_integer(w, "bits", (int64_t)pare_kv_bits(f));
    if (f->group)
        pare_json_put_integer(w, "group", (int64_t)f->group);
    if (f->window)
        pare_json_put_integer(w, "window", (int64_t)f->window);
    if (f->sink)
        pare_json_put_integer(w, "sink", (int64_t)f->sink);
    pare_json_put_number(w, "bytes_per_token", pare_kv_token_bytes(c, f));
    pare_json_put_integer(w, "f16_bytes", (int64_t)pare_kv_float_bytes(c, f));
    pare_json_close(w);
}
