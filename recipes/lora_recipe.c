/* The key "lora" of a training. */
#include <string.h>

#include "recipes/recipe_internal.h"

const pare_param pare_lora_params[] = {
    {.name = "rank",
     .type = PARE_PARAM_INTEGER,
     .min = 1,
     .max = 1 << 16,
     .fallback = 16,
     .help = "r: W + s B A, with r rows of A and r columns of B; at most the smaller side of W"},
    {.name = "alpha",
     .type = PARE_PARAM_NUMBER,
     .min = 1e-3,
     .max = 1e6,
     .fallback = 32,
     .help = "s is alpha / r"},
    {.name = "rslora", .type = PARE_PARAM_BOOL, .help = "s is alpha / sqrt(r): for large ranks"},
    {.name = "merge",
     .type = PARE_PARAM_BOOL,
     .fallback = 1,
     .help = "write the model with W + s B A; false: write A and B alone, as PEFT reads them"},
    {.name = NULL}};
enum { SETTINGS = sizeof pare_lora_params / sizeof *pare_lora_params - 1 };

/* Other keys that ask for what adapters cannot give. */
static pare_status check_others(const pare__walk *w, const pare_yaml *root,
                                const pare_train_recipe *r)
{
    const pare_lora_recipe *const l = &r->lora;
    if (r->keep_zeros)
        return pare_recipe_fail(w->cx, pare_yaml_get(root, "keep_zeros")->place,
                                "\"lora\" adds B A to every weight, so that none stays 0; leave "
                                "out \"keep_zeros\" or \"lora\"");
    if (!l->merge && r->blocks)
        return pare_recipe_fail(w->cx, pare_yaml_get(root, "blocks")->place,
                                "with \"merge: false\" adapters go with the whole model, not with "
                                "some of its blocks; leave one out");
    if (!l->merge && r->store != PARE_STORE_AUTO)
        return pare_recipe_fail(w->cx, pare_yaml_get(root, "dtype")->place,
                                "with \"merge: false\" adapters are written in F32; leave out "
                                "\"dtype\"");
    if (r->store == PARE_STORE_F16 || r->store == PARE_STORE_BF16)
        return pare_recipe_fail(w->cx, pare_yaml_get(root, "dtype")->place,
                                "with \"lora\" weights that are not trained stay as they are; "
                                "take dtype auto or f32");
    return PARE_OK;
}

pare_status pare__lora(const pare__walk *w, const pare_yaml *root, pare_train_recipe *out)
{
    static const pare_yaml nothing = {.kind = PARE_YAML_MAPPING};
    const char *words[SETTINGS + 1];
    double value[SETTINGS];
    const pare_yaml *const given = pare_yaml_get(root, "lora");
    pare_lora_recipe *const l = &out->lora;
    if (!given)
        return PARE_OK;
    PARE_TRY(pare__mapping(w, given, "lora: {rank: 16}"));
    const pare_yaml *const node = given->kind == PARE_YAML_MAPPING ? given : &nothing;
    l->given = true;
    l->place = given->key->place;
    l->rank_place = pare_yaml_get(node, "rank") ? pare_yaml_get(node, "rank")->place : l->place;
    for (size_t i = 0; i < SETTINGS; i++)
        words[i] = pare_lora_params[i].name;
    words[SETTINGS] = "targets";
    PARE_TRY(pare__keys(w, node, "lora", words, SETTINGS + 1));
    for (size_t i = 0; i < SETTINGS; i++)
        PARE_TRY(pare__entry(w, node, &pare_lora_params[i], &value[i], NULL, NULL));
    l->rank = (size_t)value[0];
    l->alpha = value[1];
    l->rslora = value[2] != 0;
    l->merge = value[3] != 0;
    PARE_TRY(pare__patterns(w, node, "targets", &l->targets));
    const pare_yaml *const targets = pare_yaml_get(node, "targets");
    if (targets && l->targets.count == 0)
        return pare_recipe_fail(w->cx, targets->place,
                                "\"targets\" is an empty list, which selects nothing; leave it "
                                "out to train adapters of every linear inside the blocks");
    return check_others(w, root, out);
}
