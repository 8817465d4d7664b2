/* What a modifier that quantizes says of weights and inputs: schemes by name, or config_groups. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/init/translate_internal.h"

typedef enum inputs {
    INPUTS_FLOAT,
    INPUTS_TOKEN,
    INPUTS_TENSOR,
    INPUTS_INT4,
    INPUTS_FP8,
    INPUTS_MXFP4,
    INPUTS_NVFP4
} inputs;

/* Of weights and inputs, as far as we have it. */
typedef struct scheme {
    const char *name; /* of a scheme with a name */
    unsigned bits;    /* 0: nothing that we have */
    bool floats;      /* E4M3, MXFP4 or NVFP4 instead of integers */
    size_t group;     /* 0: a scale per row */
    bool asymmetric;
    inputs inputs;
    const char *lacks; /* what of it we do not have; or NULL */
    bool mse;
} scheme;

static const char fp8_inputs[] = "pare rounds inputs to FP8, with a scale for each token, where "
                                 "the pass fp8 rounds the weights, "
                                 "and nowhere else: they stay floats";
static const char fp4_inputs[] = "pare rounds inputs to MXFP4 or NVFP4 where the pass of that name "
                                 "rounds the weights, and nowhere else: they stay floats";
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
     .inputs = INPUTS_FP8,
     .lacks = "one scale for a matrix and a fixed one for inputs in FP8 are not there: each row "
              "and each token has a scale"},
    {.name = "FP8_DYNAMIC", .bits = 8, .floats = true, .inputs = INPUTS_FP8},
    {.name = "FP8_BLOCK",
     .bits = 8,
     .floats = true,
     .group = 128,
     .inputs = INPUTS_FP8,
     .lacks = "a scale for blocks of 128 x 128, and for groups of 128 of inputs in FP8, are not "
              "there: groups of 128 of a row and each token have a scale"},
    {.name = "MXFP4A16", .bits = 4, .floats = true, .group = 32},
    {.name = "MXFP4", .bits = 4, .floats = true, .group = 32, .inputs = INPUTS_MXFP4},
    {.name = "MXFP8A16", .lacks = no_block8},
    {.name = "MXFP8", .lacks = no_block8},
    {.name = "NVFP4A16", .bits = 4, .floats = true, .group = 16},
    {.name = "NVFP4A16_46", .bits = 4, .floats = true, .group = 16},
    {.name = "NVFP4", .bits = 4, .floats = true, .group = 16, .inputs = INPUTS_NVFP4},
    {.name = "NVFP4_46", .bits = 4, .floats = true, .group = 16, .inputs = INPUTS_NVFP4},
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
    const bool tensor_group = pare__node_is(strategy, "tensor_group");
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
    else if (!strategy || pare__node_is(strategy, "group") || tensor_group)
        out->group = group > 0 ? (size_t)group : 0;
    else if (!pare__node_is(strategy, "channel"))
        pare__leave(t, strategy, "no such strategy is known here: each row has a scale");
    const bool fp4 = out->floats && out->bits == 4;
    const char *const wrong =
        tensor_group && !(fp4 && out->group == 16)
            ? "only 4-bit floats in groups of 16 (nvfp4) have a scale for all groups beside theirs"
        : !tensor_group && fp4 && out->group != 32
            ? "4-bit floats have groups of 32 (mxfp4), or of 16 with the strategy tensor_group "
              "(nvfp4); nf4 has others"
        : !tensor_group && out->group % 32 != 0 ? "groups are multiples of 32"
                                                : NULL;
    if (wrong)
        pare__leave(t, tensor_group ? strategy : size ? size : weights, wrong);
    return !wrong;
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

/* Keys of weights and inputs. */
static bool is_read(const char *key)
{
    static const char *const known[] = {"num_bits",   "type",     "symmetric", "strategy",
                                        "group_size", "observer", "dynamic",   "actorder"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i]) == 0)
            return true;
    return false;
}

/* Scales of MXFP4 in U8, of NVFP4 in E4M3, and mappings without entries: recipes that their program
 * saved have them. */
static bool changes_nothing(const pare_yaml *mapping, const pare_yaml *e)
{
    const bool fp4 = pare__node_is(pare_yaml_get(mapping, "type"), "float") &&
                     pare__node_is(pare_yaml_get(mapping, "num_bits"), "4");
    const bool nvfp4 = pare__node_is(pare_yaml_get(mapping, "strategy"), "tensor_group");
    const bool scales = strcmp(e->key->text, "scale_dtype") == 0;
    const bool zeros = strcmp(e->key->text, "zp_dtype") == 0;
    return (e->kind == PARE_YAML_MAPPING && !e->first) ||
           (fp4 && nvfp4 && (scales || zeros) && pare__node_is(e, "torch.float8_e4m3fn")) ||
           (fp4 && !nvfp4 && scales && pare__node_is(e, "torch.uint8"));
}

static void leave_others(pare__translation *t, const pare_yaml *mapping)
{
    for (const pare_yaml *e = mapping->first; e; e = e->next)
        if (!is_read(e->key->text) && !pare_yaml_is_null(e) && !changes_nothing(mapping, e))
            pare__leave(t, e, "no counterpart");
}

static bool is_given(const pare_yaml *node)
{
    return node && !pare_yaml_is_null(node) && !pare__node_is(node, "false");
}

/* Integers or floats. False: neither. */
static bool read_type(pare__translation *t, const pare_yaml *mapping, bool *floats)
{
    const pare_yaml *const type = pare_yaml_get(mapping, "type");
    *floats = pare__node_is(type, "float");
    if (*floats || !type || pare_yaml_is_null(type) || pare__node_is(type, "int"))
        return true;
    pare__leave(t, type, "expected int or float");
    return false;
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
    if (!read_type(t, weights, &out->floats))
        return false;
    if (is_given(pare_yaml_get(weights, "dynamic")))
        pare__leave(t, pare_yaml_get(weights, "dynamic"), "scales of weights are fixed");
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
    return read_strategy(t, weights, out);
}

static void read_input_observer(pare__translation *t, const pare_yaml *node)
{
    if (is_given(node) && !pare__node_is(node, "minmax") && !pare__node_is(node, "static_minmax") &&
        !pare__node_is(node, "memoryless_minmax"))
        pare__leave(t, node, "the largest input makes the range");
}

static void read_int4(pare__translation *t, const pare_yaml *node, scheme *out)
{
    const pare_yaml *const size = pare_yaml_get(node, "group_size");
    double group = 0;
    out->inputs = INPUTS_INT4;
    if (!pare__node_is(pare_yaml_get(node, "strategy"), "group"))
        pare__leave(t, node, "inputs in 4 bits have a scale per token and group");
    else if (is_given(size) && (!pare__node_number(size, &group) || group != (double)out->group))
        pare__leave(t, size, "inputs in 4 bits have the groups of the weights");
}

static void read_int8(pare__translation *t, const pare_yaml *node, scheme *out)
{
    const pare_yaml *const strategy = pare_yaml_get(node, "strategy");
    const bool fixed = !pare__node_is(pare_yaml_get(node, "dynamic"), "true");
    const bool tensor = !is_given(strategy) || pare__node_is(strategy, "tensor");
    out->inputs = fixed && tensor ? INPUTS_TENSOR : INPUTS_TOKEN;
    if (!tensor && !pare__node_is(strategy, "token"))
        pare__leave(t, strategy, "inputs in 8 bits have a scale per token, or one that is fixed");
    else if (!fixed && tensor && is_given(strategy))
        pare__leave(t, strategy, "scales found while the model runs are per token");
}

static void read_fp8(pare__translation *t, const pare_yaml *node, bool floats8, scheme *out)
{
    if (!floats8 || !out->floats || out->bits != 8) {
        pare__leave(t, node, fp8_inputs);
        return;
    }
    out->inputs = INPUTS_FP8;
    if (!pare__node_is(pare_yaml_get(node, "dynamic"), "true") ||
        !pare__node_is(pare_yaml_get(node, "strategy"), "token"))
        pare__leave(t, node, "inputs in FP8 have a scale for each token");
}

/* In the groups of the weights; NVFP4 has a number beside their scales that is fixed. */
static void read_fp4(pare__translation *t, const pare_yaml *node, scheme *out)
{
    const bool nvfp4 = out->group == 16;
    if (out->floats && out->bits == 4 &&
        pare__node_is(pare_yaml_get(node, "group_size"), nvfp4 ? "16" : "32") &&
        pare__node_is(pare_yaml_get(node, "strategy"), nvfp4 ? "tensor_group" : "group") &&
        pare__node_is(pare_yaml_get(node, "dynamic"), nvfp4 ? "local" : "true"))
        out->inputs = nvfp4 ? INPUTS_NVFP4 : INPUTS_MXFP4;
    else
        pare__leave(t, node, fp4_inputs);
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
    bool floats;
    if (!read_type(t, node, &floats))
        return;
    const pare_yaml *const count = pare_yaml_get(node, "num_bits");
    const pare_yaml *const symmetric = pare_yaml_get(node, "symmetric");
    if (count && !pare__node_number(count, &bits))
        bits = 0;
    if (floats && bits == 4)
        read_fp4(t, node, out);
    else if (floats || out->floats)
        read_fp8(t, node, floats && bits == 8, out);
    if (floats || out->floats)
        return;
    if (bits != 8 && bits != 4) {
        pare__leave(t, node, "inputs have 8 or 4 bits: they stay floats");
        return;
    }
    if (pare__node_is(symmetric, "false"))
        pare__leave(t, symmetric, "zero points of inputs are not there: they are symmetric");
    read_input_observer(t, pare_yaml_get(node, "observer"));
    if (bits == 4)
        read_int4(t, node, out);
    else
        read_int8(t, node, out);
}

/* static and weight are what act_order does; group keeps another order in the file. */
static bool act_order(pare__translation *t, const pare_yaml *modifier, const pare_yaml *weights,
                      pare__item *item)
{
    const pare_yaml *node = pare_yaml_get(modifier, "actorder");
    if (!node && weights)
        node = pare_yaml_get(weights, "actorder");
    if (!node) {
        (void)snprintf(item->why, sizeof item->why,
                       "  # act_order: true, because their GPTQ orders the columns (actorder: "
                       "static) when a recipe does\n  # not say otherwise.\n");
        return true;
    }
    if (!is_given(node))
        return false;
    if (pare__node_is(node, "group") || pare__node_is(node, "true"))
        pare__leave(t, node,
                    "groups of neighbours in another order are not there: act_order keeps "
                    "groups as they lie, as static does");
    else if (!pare__node_is(node, "static") && !pare__node_is(node, "weight"))
        pare__leave(t, node, "no such order is known here: act_order is on");
    return true;
}

static void set_gptq(pare__translation *t, const pare_yaml *modifier, const pare_yaml *weights,
                     pare__item *item)
{
    pare__item_set(t, item, modifier, "act_order", act_order(t, modifier, weights, item));
    pare__item_set_number(t, item, pare_yaml_get(modifier, "dampening_frac"), "damp");
    pare__item_set_number(t, item, pare_yaml_get(modifier, "block_size"), "block");
}

/* `weights` may be NULL: of a scheme with a name. */
static void put_scheme(pare__translation *t, const pare_yaml *modifier, const pare_yaml *from,
                       const pare_yaml *weights, const scheme *s, bool gptq,
                       const pare__patterns *targets, const pare__patterns *skip)
{
    static const char *const words[] = {"",
                                        "activations: int8_token",
                                        "activations: int8_tensor",
                                        "activations: int4",
                                        "activations: fp8_token",
                                        "activations: mxfp4",
                                        "activations: nvfp4"};
    const bool nvfp4 = s->floats && s->group == 16;
    const char *const grid = !s->floats ? NULL : nvfp4 ? "nvfp4" : s->bits == 8 ? "fp8" : "mxfp4";
    pare__item item = {.pass = pare_pass_find(gptq ? "gptq" : grid ? grid : "rtn")};
    const pare_yaml *const order = weights ? pare_yaml_get(weights, "actorder") : NULL;
    if (gptq && grid)
        pare__item_add(&item, nvfp4 ? "grid: nvfp4" : s->bits == 8 ? "grid: fp8" : "grid: mxfp4");
    if (gptq || !grid)
        pare__item_set(t, &item, from, "bits", s->bits);
    if (!grid || s->bits == 8 || (gptq && !nvfp4)) /* it has one size */
        pare__item_set(t, &item, from, "group", (double)s->group);
    if (s->asymmetric && !grid)
        pare__item_set(t, &item, from, "symmetric", 0);
    const bool learned = strcmp(t->modifier, "AutoRoundModifier") == 0;
    if (s->mse && learned)
        pare__leave(t, weights, "observer: mse: signround learns the ranges");
    if (!grid && (gptq || (s->mse && !learned)))
        pare__item_add(&item, s->mse ? "clip: mse" : "clip: none");
    if (!grid && gptq) {
        pare__item_add(&item, "refine: 0");
        pare__item_add(&item, "correct: none");
    }
    if (gptq)
        set_gptq(t, modifier, weights, &item);
    else if (is_given(order))
        pare__leave(t, order, "rounding to nearest takes no order of columns");
    if (s->inputs >= INPUTS_FP8 && gptq)
        pare__leave(t, from, s->inputs == INPUTS_FP8 ? fp8_inputs : fp4_inputs);
    else if (s->inputs != INPUTS_FLOAT)
        pare__item_add(&item, words[s->inputs]);
    pare__item_put_short(t, s->group);
    pare__patterns_leave_head(t, from, targets, skip);
    pare__item_put(t, from, &item, targets, skip);
}

/* What an entry of config_groups takes: {weights: .., targets: ..} or SCHEME: [targets]. */
static void read_targets(pare__translation *t, const pare_yaml *entry, bool skip,
                         pare__patterns *out)
{
    const bool mapping = entry->kind == PARE_YAML_MAPPING;
    const size_t lefts = t->lefts; /* they are listed where the entry is translated */
    pare__patterns_read(t, mapping ? pare_yaml_get(entry, "targets") : entry, skip, out);
    t->lefts = lefts;
}

/* A group whose targets are classes leaves to the others what they name. */
static void skip_others(pare__translation *t, const pare_yaml *groups, const pare_yaml *group,
                        pare__patterns *skip)
{
    for (const pare_yaml *e = groups->first; e; e = e->next) {
        pare__patterns other;
        if (e == group)
            continue;
        read_targets(t, e, true, &other);
        if (!other.all)
            pare__patterns_join(t, skip, &other);
    }
}

/* Whether an entry of config_groups becomes a pass that rounds to integers. */
static bool gives_integers(pare__translation *t, const pare_yaml *entry)
{
    const size_t lefts = t->lefts;
    const pare_yaml *const weights =
        entry->kind == PARE_YAML_MAPPING ? pare_yaml_get(entry, "weights") : NULL;
    scheme s = {0};
    const bool read =
        weights ? !pare_yaml_is_null(weights) && read_weights(t, weights, &s)
                : entry->kind != PARE_YAML_MAPPING && read_name(t, entry, entry->key->text, &s);
    t->lefts = lefts;
    return read && !s.floats;
}

void pare__quantizer_targets(pare__translation *t, const pare_yaml *modifier, pare__patterns *out,
                             pare__patterns *skip)
{
    const pare_yaml *groups = pare_yaml_get(modifier, "config_groups");
    if (!is_given(groups))
        groups = pare_yaml_get(modifier, "scheme");
    if (!groups || groups->kind != PARE_YAML_MAPPING || pare_yaml_get(groups, "weights")) {
        read_targets(t, modifier, false, out);
        out->all = out->all || !pare_yaml_get(modifier, "targets");
        return;
    }
    *out = (pare__patterns){0};
    for (const pare_yaml *e = groups->first; e; e = e->next) {
        const bool taken = gives_integers(t, e);
        pare__patterns entry;
        read_targets(t, e, !taken, &entry);
        if (taken || !entry.all)
            pare__patterns_join(t, taken ? out : skip, &entry);
        out->all |= taken && entry.all;
    }
}

/* A group of config_groups (`groups`), or a scheme of the modifier (NULL), whose targets are those
 * of the modifier. */
static void translate_group(pare__translation *t, const pare_yaml *modifier,
                            const pare_yaml *groups, const pare_yaml *group, bool gptq)
{
    static const char *const known[] = {"weights", "input_activations", "output_activations",
                                        "targets"};
    const pare_yaml *const list = pare_yaml_get(groups ? group : modifier, "targets");
    scheme s = {0};
    pare__patterns targets, skip;
    for (const pare_yaml *e = group->first; e; e = e->next) {
        bool found = pare_yaml_is_null(e);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found = found || strcmp(e->key->text, known[i]) == 0;
        if (!found)
            pare__leave(t, e,
                        strcmp(e->key->text, "format") == 0
                            ? "pare stores codes in its own way; \"pare export\" writes "
                              "compressed-tensors"
                            : "no counterpart");
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
    pare__patterns_read(t, list, false, &targets);
    pare__patterns_read(t, pare_yaml_get(modifier, "ignore"), true, &skip);
    targets.all = targets.all || (!groups && !list);
    if (targets.all && groups)
        skip_others(t, groups, group, &skip);
    put_scheme(t, modifier, group, weights, &s, gptq, &targets, &skip);
}

/* A scheme by its name: scheme: W4A16, or W4A16: [targets] (`list`). */
static void translate_name(pare__translation *t, const pare_yaml *modifier, const pare_yaml *node,
                           const char *name, const pare_yaml *list, const pare_yaml *groups,
                           bool gptq)
{
    pare__patterns targets, skip;
    scheme s;
    if (!read_name(t, node, name, &s))
        return;
    pare__patterns_read(t, list, false, &targets);
    pare__patterns_read(t, pare_yaml_get(modifier, "ignore"), true, &skip);
    targets.all = targets.all || !list;
    if (targets.all && groups)
        skip_others(t, groups, node, &skip);
    put_scheme(t, modifier, node, NULL, &s, gptq, &targets, &skip);
}

/* Groups of a mapping: {NAME: {weights: .., targets: ..}} or {SCHEME: [targets]}. */
static void translate_groups(pare__translation *t, const pare_yaml *modifier,
                             const pare_yaml *groups, bool gptq)
{
    for (const pare_yaml *e = groups->first; e; e = e->next)
        if (e->kind == PARE_YAML_MAPPING)
            translate_group(t, modifier, groups, e, gptq);
        else
            translate_name(t, modifier, e, e->key->text, e, groups, gptq);
}

static void translate_scheme(pare__translation *t, const pare_yaml *modifier, const pare_yaml *node,
                             bool gptq)
{
    const pare_yaml *const list = pare_yaml_get(modifier, "targets");
    const bool word = node->kind == PARE_YAML_SCALAR;
    const bool whole = node->kind == PARE_YAML_MAPPING && pare_yaml_get(node, "weights");
    if (word)
        translate_name(t, modifier, node, node->text, list, NULL, gptq);
    else if (whole)
        translate_group(t, modifier, NULL, node, gptq);
    else if (node->kind == PARE_YAML_MAPPING)
        translate_groups(t, modifier, node, gptq);
    else
        pare__leave(t, node, "expected the name of a scheme, or weights and so on");
    if (list && !word && !whole)
        pare__leave(t, list, "each scheme has targets of its own");
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
    if (t->cached) {
        pare__leave(t, node, "a model has one form of cache: the first is taken");
        return;
    }
    leave_others(t, node);
    const pare_yaml *const strategy = pare_yaml_get(node, "strategy");
    const pare_yaml *const symmetric = pare_yaml_get(node, "symmetric");
    if (is_given(strategy))
        pare__leave(t, strategy,
                    bits == 8 ? "int8 has a scale for each token and head, found as the model runs"
                              : "int4 has a scale for each token and group of channels, found as "
                                "the model runs");
    if (pare__node_is(symmetric, bits == 8 ? "false" : "true"))
        pare__leave(t, symmetric,
                    bits == 8 ? "int8 is symmetric" : "int4 has a lowest value beside the scale");
    pare__draft_put_origin(&t->draft.tail, "", node->key->place.line, t->modifier);
    pare__text_put(&t->draft.tail, "kv_cache: {method: int%d}\n", (int)bits);
    t->cached = true;
}

/* Keys that another one leaves without effect. */
static void leave_idle(pare__translation *t, const pare_yaml *modifier, const char *key,
                       const char *why)
{
    const pare_yaml *const node = pare_yaml_get(modifier, key);
    if (is_given(node))
        pare__leave(t, node, why);
}

void pare__translate_quantizer(pare__translation *t, const pare_yaml *modifier, bool gptq)
{
    const pare_yaml *const groups = pare_yaml_get(modifier, "config_groups");
    const pare_yaml *const name = pare_yaml_get(modifier, "scheme");
    const pare_yaml *const cache = pare_yaml_get(modifier, "kv_cache_scheme");
    pare__patterns all;
    if (is_given(groups)) {
        leave_idle(t, modifier, "scheme", "config_groups says what is done");
        read_targets(t, modifier, false, &all);
        if (!all.all) /* as recipes have it that their program saved */
            leave_idle(t, modifier, "targets", "each group has targets of its own");
        if (groups->kind == PARE_YAML_MAPPING)
            translate_groups(t, modifier, groups, gptq);
        else
            pare__leave(t, groups, "expected groups with weights and targets");
    } else if (is_given(name)) {
        translate_scheme(t, modifier, name, gptq);
    } else if (!cache) {
        pare__leave(t, modifier, "it names no scheme and no config_groups");
    }
    if (cache)
        translate_cache(t, cache);
}
