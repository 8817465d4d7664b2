/* The section kv_cache: the form in which the finished model keeps keys and values. */
#include <assert.h>
#include <string.h>

#include "recipes/recipe_internal.h"

static const pare_word methods[] = {{"none", PARE_KV_FLOAT},      {"int8", PARE_KV_INT8},
                                    {"int4", PARE_KV_INT4},       {"kivi", PARE_KV_KIVI},
                                    {"kvquant", PARE_KV_KVQUANT}, {NULL, 0}};
static const pare_word head[] = {{"head", 0}, {NULL, 0}};

static const pare_param method_param = {
    .name = "method", .type = PARE_PARAM_CHOICE, .fallback = PARE_KV_FLOAT, .words = methods};

#define GROUP(takes, text)                                                                         \
    {                                                                                              \
        .name = "group", .type = PARE_PARAM_INTEGER, .min = 8, .max = PARE_KV_GROUP_MAX,           \
        .fallback = 32, .multiple = 8, .words = (takes), .help = (text)                            \
    }

static const pare_param of_int4[] = {
    GROUP(head, "channels of a head that share a scale and a minimum; divides a head"),
    {.name = NULL}};
static const pare_param of_kivi[] = {GROUP(NULL,
                                           "tokens of a key channel, channels of a value, "
                                           "that share a scale and a minimum; divides a head"),
                                     {.name = "window",
                                      .type = PARE_PARAM_INTEGER,
                                      .min = 1,
                                      .max = 1 << 20,
                                      .fallback = 128,
                                      .help = "newest tokens that stay in F16"},
                                     {.name = NULL}};
static const pare_param of_kvquant[] = {{.name = "sink",
                                         .type = PARE_PARAM_INTEGER,
                                         .min = 0,
                                         .max = 64,
                                         .fallback = 1,
                                         .help = "first tokens that stay in F16"},
                                        {.name = NULL}};
static const pare_param of_others[] = {{.name = NULL}};

const pare_param *pare_kv_params(pare_kv_method method)
{
    switch (method) {
    case PARE_KV_INT4: return of_int4;
    case PARE_KV_KIVI: return of_kivi;
    case PARE_KV_KVQUANT: return of_kvquant;
    default: return of_others;
    }
}

size_t *pare_kv_field(pare_kv_format *f, const char *name)
{
    return strcmp(name, "group") == 0    ? &f->group
           : strcmp(name, "window") == 0 ? &f->window
                                         : &f->sink;
}

/* Keys that belong to another method. */
static pare_status check_keys(const pare__walk *w, const pare_yaml *node, pare_kv_method method)
{
    const pare_param *const own = pare_kv_params(method);
    for (const pare_yaml *e = node->first; e; e = e->next) {
        bool known = strcmp(e->key->text, "method") == 0;
        for (const pare_param *p = own; p->name; p++)
            known = known || strcmp(e->key->text, p->name) == 0;
        if (!known)
            return pare_recipe_fail(w->cx, e->key->place,
                                    "\"%s\" is no setting of the method %s of kv_cache",
                                    e->key->text, pare_kv_method_name(method));
    }
    return PARE_OK;
}

pare_status pare__kv_cache(const pare__walk *w, const pare_yaml *node)
{
    static const char example[] = "kv_cache: {method: int8}";
    static const char *const all[] = {"method", "group", "window", "sink"};
    pare_kv_format *const f = &w->out->kv;
    double value = 0;
    PARE_TRY(pare__mapping(w, node, example));
    w->out->kv_place = w->out->kv_group_place = node->key->place;
    PARE_TRY(pare__keys(w, node, "kv_cache", all, sizeof all / sizeof *all));
    const pare_yaml *const method = pare_yaml_get(node, "method");
    if (!method)
        return pare_recipe_fail(w->cx, node->key->place,
                                "kv_cache names no method; it takes one, as in \"%s\"", example);
    PARE_TRY(pare__value(w, method, &method_param, &value));
    PARE_TRY(check_keys(w, node, (pare_kv_method)value));
    *f = (pare_kv_format){.method = (pare_kv_method)value};
    for (const pare_param *p = pare_kv_params(f->method); p->name; p++) {
        pare_place place;
        PARE_TRY(pare__entry(w, node, p, &value, NULL, &place));
        if (strcmp(p->name, "group") == 0 && place.line)
            w->out->kv_group_place = place;
        *pare_kv_field(f, p->name) = (size_t)value;
    }
    return PARE_OK;
}
