/* What a modifier that quantizes says of weights and inputs: schemes by name, or config_groups. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/init/translate_internal.h"

typedef enum inputs { INPUTS_FLOAT, INPUTS_TOKEN, INPUTS_TENSOR, INPUTS_INT4 } inputs;

/* Of weights and inputs, as far as we have it. */
typedef struct scheme {
    const char *name; /* of a scheme with a name */
    unsigned bits;    /* 0: nothing that we have */
    bool floats;      /* E4M3 or MXFP4 instead of integers */
    size_t group;     /* 0: a scale per row */
    bool asymmetric;
    inputs inputs;
    const char *lacks; /* what of it we do not have; or NULL */
    bool mse;
} scheme;

static const char fp8_inputs[] =
    "inputs in FP8 are not there: they stay floats; int8_token of rtn and gptq rounds inputs";
static const char no_block4[] =
    "4-bit floats with FP8 scales for groups of 16 are not there; mxfp4 or nf4 come nearest";
static const char no_block8[] =
    "8-bit floats with a power of two for groups of 32 are not there; fp8 comes nearest";

static const scheme named[] = {
    {.name = "W8A16", .bits = 8, .group = 128},
    {.name = "W4A16", .bits = 4, .group = 128},
    {.name = "W4A16_ASYM", .bits = 4, .group = 128, .asymmetric = true},
    {.name = "W8A8", .bits = 8, .inputs = INPUTS_TOKEN},
    {.name = "INT8", .bits = 8, .inputs = INPUTS_TOKEN},
    {.name = "W4A8", .bits = 4, .group = 128, .inputs = INPUTS_TOKEN},
    {.name = "W4AFP8", .bits = 4, .group = 128, .lacks = fp8_inputs},
    {.name = "FP8",
     .bits = 8,
     .floats = true,
     .lacks = "one scale for a matrix and inputs in FP8 are not there: each row has a scale, and "
              "inputs stay floats"},
    {.name = "FP8_DYNAMIC", .bits = 8, .floats = true, .lacks = fp8_inputs},
    {.name = "FP8_BLOCK",
     .bits = 8,
     .floats = true,
     .group = 128,
     .lacks = "a scale for blocks of 128 x 128 and inputs in FP8 are not there: groups of 128 of a "
              "row have a scale, and inputs stay floats"},
    {.name = "MXFP4A16", .bits = 4, .floats = true, .group = 32},
    {.name = "MXFP4",
     .bits = 4,
     .floats = true,
     .group = 32,
     .lacks = "inputs in MXFP4 are not there: they stay floats"},
    {.name = "MXFP8A16", .lacks = no_block8},
    {.name = "MXFP8", .lacks = no_block8},
    {.name = "NVFP4A16", .lacks = no_block4},
    {.name = "NVFP4A16_46", .lacks = no_block4},
    {.name = "NVFP4", .lacks = no_block4},
    {.name = "NVFP4_46", .lacks = no_block4},
    {.name = "UNQUANTIZED", .lacks = "it does nothing"},
};

static bool same_word(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if ((*a >= 'a' && *a <= 'z' ? *a - 32 : *a) != *b)
            return false;
    return *a == *b;
}

/* Upper and lower case are the same. */
static bool read_name(pare__translation *t, const pare_yaml *node, const char *name, scheme *out)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        if (!same_word(name, named[i].name))
            continue;
        *out = named[i];
        if (out->lacks)
            pare__leave(t, node, out->lacks);
        return out->bits != 0;
    }
    pare__leave(t, node, "no such scheme is known here; config_groups can say what it means");
    return false;
}

/* Groups of weights that share a scale. False: nothing that we have. */
static bool read_strategy(pare__translation *t, const pare_yaml *weights, scheme *out)
{
    const pare_yaml *const strategy = pare_yaml_get(weights, "strategy");
    const pare_yaml *const size = pare_yaml_get(weights, "group_size");
    double group = 0;
    const bool sized = size && !pare_yaml_is_null(size);
    if (sized && (!pare__node_number(size, &group) || group > 1 << 20 || group != trunc(group))) {
        pare__leave(t, size, "expected a whole number of weights");
        return false;
    }
    if (!sized && pare__node_is(strategy, "group")) {
        pare__leave(t, strategy, "it does not say how many weights a group has: group_size");
        return false;
    }
    if (pare__node_is(strategy, "tensor"))
        pare__leave(t, strategy, "one scale for a matrix is not there: each row has one");
    else if (pare__node_is(strategy, "block"))
        pare__leave(t, strategy, "scales of blocks are not there: each row has one");
    else if (pare__node_is(strategy, "tensor_group")) {
        pare__leave(t, strategy, no_block4);
        return false;
    } else if (!strategy || pare__node_is(strategy, "group"))
        out->group = group > 0 ? (size_t)group : 0;
    else if (!pare__node_is(strategy, "channel"))
        pare__leave(t, strategy, "no such strategy is known here: each row has a scale");
    if (out->group % 32 != 0) {
        pare__leave(t, size, "groups are multiples of 32");
        return false;
    }
    return true;
}

static void read_observer(pare__translation *t, const pare_yaml *node, scheme *out)
{
    out->mse = pare__node_is(node, "mse");
    if (node && !pare_yaml_is_null(node) && !out->mse && !pare__node_is(node, "minmax") &&
        !pare__node_is(node, "memoryless_minmax") && !pare__node_is(node, "static_minmax"))
        pare__leave(t, node,
                    "no such observer is known here: the largest weight of a group makes "
                    "its range; clip: mse searches it");
}

/* Keys of weights and inputs that are read here or say only how their program works. */
static bool is_read(const char *key)
{
    static const char *const known[] = {"num_bits",        "type",        "symmetric", "strategy",
                                        "group_size",      "observer",    "dynamic",   "actorder",
                                        "block_structure", "scale_dtype", "zp_dtype"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i]) == 0)
            return true;
    return false;
}

static void leave_others(pare__translation *t, const pare_yaml *mapping)
{
    for (const pare_yaml *e = mapping->first; e; e = e->next)
        if (!is_read(e->key->text))
            pare__leave(t, e, "no counterpart");
}

static bool read_weights(pare__translation *t, const pare_yaml *weights, scheme *out)
{
    double bits = 8;
    if (weights->kind != PARE_YAML_MAPPING) {
        pare__leave(t, weights, "expected num_bits, type, strategy and so on");
        return false;
    }
    leave_others(t, weights);
    const pare_yaml *const count = pare_yaml_get(weights, "num_bits");
    out->floats = pare__node_is(pare_yaml_get(weights, "type"), "float");
    out->asymmetric = pare__node_is(pare_yaml_get(weights, "symmetric"), "false");
    read_observer(t, pare_yaml_get(weights, "observer"), out);
    if (count && !pare__node_number(count, &bits))
        bits = 0;
    const bool has =
        out->floats ? bits == 8 || bits == 4 : bits == 2 || bits == 3 || bits == 4 || bits == 8;
    if (!has) {
        pare__leave(t, count, "weights have 2, 3, 4 or 8 bits, floats 4 or 8");
        return false;
    }
    out->bits = (unsigned)bits;
    if (!read_strategy(t, weights, out))
        return false;
    if (out->floats && out->bits == 4 && out->group != 32) {
        pare__leave(t, count, "4-bit floats have groups of 32 (mxfp4); nf4 has others");
        return false;
    }
    return true;
}

/* Inputs that are rounded while the model runs. */
static void read_inputs(pare__translation *t, const pare_yaml *node, scheme *out)
{
    double bits = 8;
    if (!node || pare_yaml_is_null(node))
        return;
    if (node->kind != PARE_YAML_MAPPING) {
        pare__leave(t, node, "expected num_bits, type, strategy and so on");
        return;
    }
    leave_others(t, node);
    const pare_yaml *const count = pare_yaml_get(node, "num_bits");
    const pare_yaml *const symmetric = pare_yaml_get(node, "symmetric");
    const pare_yaml *const strategy = pare_yaml_get(node, "strategy");
    if (count && !pare__node_number(count, &bits))
        bits = 0;
    if (pare__node_is(pare_yaml_get(node, "type"), "float") || out->floats) {
        pare__leave(t, node, fp8_inputs);
        return;
    }
    if (bits != 8 && bits != 4) {
        pare__leave(t, node, "inputs have 8 or 4 bits: they stay floats");
        return;
    }
    if (pare__node_is(symmetric, "false"))
        pare__leave(t, symmetric, "zero points of inputs are not there: they are symmetric");
    if (bits == 4) {
        if (!pare__node_is(strategy, "group"))
            pare__leave(t, node, "inputs in 4 bits have a scale per token and group");
        out->inputs = INPUTS_INT4;
        return;
    }
    const bool fixed = !pare__node_is(pare_yaml_get(node, "dynamic"), "true");
    out->inputs = fixed && !pare__node_is(strategy, "token") ? INPUTS_TENSOR : INPUTS_TOKEN;
    if (!fixed && pare__node_is(strategy, "tensor"))
        pare__leave(t, strategy, "scales found while the model runs are per token");
}

/* static and weight are what act_order does; group keeps another order in the file. */
static bool act_order(pare__translation *t, const pare_yaml *modifier, const pare_yaml *weights)
{
    const pare_yaml *node = pare_yaml_get(modifier, "actorder");
    if (!node && weights)
        node = pare_yaml_get(weights, "actorder");
    if (!node)
        return true; /* what they do when nothing is said */
    if (pare_yaml_is_null(node) || pare__node_is(node, "false"))
        return false;
    if (pare__node_is(node, "group"))
        pare__leave(t, node,
                    "groups of neighbours in another order are not there: act_order keeps "
                    "groups as they lie, as static does");
    else if (!pare__node_is(node, "static") && !pare__node_is(node, "weight"))
        pare__leave(t, node, "no such order is known here: act_order is on");
    return true;
}

/* A last group that is shorter runs here; engines refuse it. */
static void put_short_groups(pare__translation *t, size_t group)
{
    pare_text_out *const out = &t->draft.passes;
    const size_t fits = pare__draft_group(&t->draft);
    if (group == 0 || pare__draft_divides(&t->draft, group))
        return;
    pare__text_put(out, "  # %zu does not divide all inputs, ", group);
    pare__draft_put_widths(&t->draft, out);
    pare__text_put(out, ": the last group of a row is shorter");
    if (fits)
        pare__text_put(out, "; %zu divides them", fits);
    pare__text_put(out, ".\n");
}

/* `weights` may be NULL: of a scheme with a name. */
static void put_scheme(pare__translation *t, const pare_yaml *modifier, const pare_yaml *from,
                       const pare_yaml *weights, const scheme *s, bool gptq,
                       const pare__patterns *targets, const pare__patterns *skip)
{
    static const char *const words[] = {"int8", "int8_token", "int8_tensor", "int4"};
    const char *const grid = !s->floats ? NULL : s->bits == 8 ? "fp8" : "mxfp4";
    pare__item item = {.pass = pare_pass_find(gptq ? "gptq" : grid ? grid : "rtn")};
    const pare_yaml *const damp = pare_yaml_get(modifier, "dampening_frac");
    const pare_yaml *const block = pare_yaml_get(modifier, "block_size");
    double value;
    if (gptq && grid)
        item.len = (size_t)snprintf(item.text, sizeof item.text, "grid: %s, ", grid);
    if (gptq || !grid)
        pare__item_set(t, &item, from, "bits", s->bits);
    if (!grid || s->bits == 8 || gptq)
        pare__item_set(t, &item, from, "group", (double)s->group);
    if (s->asymmetric && !grid)
        pare__item_set(t, &item, from, "symmetric", 0);
    if (s->mse && !grid)
        item.len +=
            (size_t)snprintf(item.text + item.len, sizeof item.text - item.len, "clip: mse, ");
    if (gptq)
        pare__item_set(t, &item, modifier, "act_order", act_order(t, modifier, weights));
    if (gptq && damp && pare__node_number(damp, &value))
        pare__item_set(t, &item, damp, "damp", value);
    if (gptq && block && pare__node_number(block, &value))
        pare__item_set(t, &item, block, "block", value);
    if (s->inputs != INPUTS_FLOAT && !grid)
        item.len += (size_t)snprintf(item.text + item.len, sizeof item.text - item.len,
                                     "activations: %s, ", words[s->inputs]);
    put_short_groups(t, s->group);
    pare__item_put(t, from, &item, targets, skip);
}

/* A group whose targets are classes leaves to the others what they name. */
static void skip_others(pare__translation *t, const pare_yaml *groups, const pare_yaml *group,
                        pare__patterns *skip)
{
    const size_t lefts = t->lefts; /* they are listed where they belong */
    for (const pare_yaml *e = groups->first; e; e = e->next) {
        pare__patterns other;
        if (e == group || e->kind != PARE_YAML_MAPPING)
            continue;
        pare__patterns_read(t, pare_yaml_get(e, "targets"), true, &other);
        if (!other.all)
            pare__patterns_join(t, skip, &other);
    }
    t->lefts = lefts;
}

static void translate_group(pare__translation *t, const pare_yaml *modifier,
                            const pare_yaml *groups, const pare_yaml *group, bool gptq)
{
    static const char *const known[] = {"weights", "input_activations", "output_activations",
                                        "targets", "format"};
    scheme s = {0};
    pare__patterns targets, skip;
    if (group->kind != PARE_YAML_MAPPING) {
        pare__leave(t, group, "expected weights and targets");
        return;
    }
    for (const pare_yaml *e = group->first; e; e = e->next) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found = found || strcmp(e->key->text, known[i]) == 0;
        if (!found)
            pare__leave(t, e, "no counterpart");
    }
    const pare_yaml *const weights = pare_yaml_get(group, "weights");
    const pare_yaml *const outputs = pare_yaml_get(group, "output_activations");
    if (outputs && !pare_yaml_is_null(outputs))
        pare__leave(t, outputs, "outputs of linears are not rounded");
    if (!weights || pare_yaml_is_null(weights)) {
        pare__leave(t, group, "without weights there is nothing to store in fewer bits");
        return;
    }
    if (!read_weights(t, weights, &s))
        return;
    read_inputs(t, pare_yaml_get(group, "input_activations"), &s);
    pare__patterns_read(t, pare_yaml_get(group, "targets"), false, &targets);
    pare__patterns_read(t, pare_yaml_get(modifier, "ignore"), true, &skip);
    if (targets.all)
        skip_others(t, groups, group, &skip);
    put_scheme(t, modifier, group, weights, &s, gptq, &targets, &skip);
}

/* scheme: W4A16, or {W4A16: [targets], ...}. */
static void translate_named(pare__translation *t, const pare_yaml *modifier, const pare_yaml *node,
                            bool gptq)
{
    pare__patterns targets, skip;
    scheme s;
    const bool several = node->kind == PARE_YAML_MAPPING;
    for (const pare_yaml *e = several ? node->first : node; e; e = several ? e->next : NULL) {
        if (!several && e->kind != PARE_YAML_SCALAR) {
            pare__leave(t, e, "expected the name of a scheme");
            return;
        }
        if (!read_name(t, e, several ? e->key->text : e->text, &s))
            continue;
        const pare_yaml *const list = several ? e : pare_yaml_get(modifier, "targets");
        pare__patterns_read(t, list, false, &targets);
        pare__patterns_read(t, pare_yaml_get(modifier, "ignore"), true, &skip);
        targets.all = targets.all || !list;
        put_scheme(t, modifier, e, NULL, &s, gptq, &targets, &skip);
    }
}

static void translate_cache(pare__translation *t, const pare_yaml *node)
{
    double bits = 8;
    if (pare_yaml_is_null(node))
        return;
    const bool mapping = node->kind == PARE_YAML_MAPPING;
    const pare_yaml *const count = mapping ? pare_yaml_get(node, "num_bits") : NULL;
    if (count && !pare__node_number(count, &bits))
        bits = 0;
    if (!mapping || pare__node_is(pare_yaml_get(node, "type"), "float") ||
        (bits != 8 && bits != 4)) {
        pare__leave(t, node,
                    "caches are in integers of 8 or 4 bits here; write kv_cache: {method: "
                    "int8}");
        return;
    }
    if (!t->cached)
        pare__text_put(&t->draft.tail, "kv_cache: {method: int%d}\n", (int)bits);
    t->cached = true;
}

void pare__translate_quantizer(pare__translation *t, const pare_yaml *modifier, bool gptq)
{
    const pare_yaml *const groups = pare_yaml_get(modifier, "config_groups");
    const pare_yaml *const name = pare_yaml_get(modifier, "scheme");
    const pare_yaml *const cache = pare_yaml_get(modifier, "kv_cache_scheme");
    if (groups && groups->kind == PARE_YAML_MAPPING)
        for (const pare_yaml *e = groups->first; e; e = e->next)
            translate_group(t, modifier, groups, e, gptq);
    else if (groups && !pare_yaml_is_null(groups))
        pare__leave(t, groups, "expected groups with weights and targets");
    else if (name && !pare_yaml_is_null(name))
        translate_named(t, modifier, name, gptq);
    else if (!cache)
        pare__leave(t, modifier, "it names no scheme and no config_groups");
    if (cache)
        translate_cache(t, cache);
}
