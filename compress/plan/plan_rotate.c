/* What a recipe that rotates the model changes in the plan. */
#include <string.h>

#include "compress/plan/plan_internal.h"
#include "runtime/random.h"

/* The reason of a failure below, at a place of the recipe. */
static pare_status at_place(pare_ctx *cx, pare_place place, const char *what)
{
    char reason[sizeof cx->what];
    memcpy(reason, cx->what, sizeof reason);
    pare_ctx_clear(cx);
    return pare_recipe_fail(cx, place, "%s: %s", what, reason);
}

pare_status pare__plan_refuse_family(pare_ctx *cx, const pare_plan *plan, const pare_step *step,
                                     const char *what, const char *why)
{
    return pare_recipe_fail(cx, step->place, "%s: %s a model of type %s: %s",
                            pare_passes[step->pass]->name, what,
                            plan->model.config.arch->model_type, why);
}

pare_status pare__plan_rotate(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    for (size_t i = 0; i < plan->recipe.steps; i++) {
        const pare_step *const step = &plan->recipe.step[i];
        const pare_pass *const pass = pare_passes[step->pass];
        if (!pass->rotation)
            continue;
        if (i > 0)
            return pare_recipe_fail(cx, step->place,
                                    "%s changes the basis of all weights, so it must be the first "
                                    "pass, and the only one of its kind",
                                    pass->name);
        if (step->targets.count || step->skip.count)
            return pare_recipe_fail(cx, step->place,
                                    "%s works on the whole model and takes no targets and no skip",
                                    pass->name);
        const char *const why = pare_config_no_rotation(&plan->model.config);
        if (why)
            return pare__plan_refuse_family(cx, plan, step, "cannot rotate", why);
        const pare_pass_rotation r = pass->rotation(step->value);
        const uint64_t seed =
            pare_random_u64(plan->recipe.seed, pare_random_stream("rotate"), r.number);
        const pare_status s =
            pare_rotation_new(cx, a, &plan->model.config, seed, r.online, &plan->rotation);
        if (s == PARE_ENOTSUP)
            return at_place(cx, step->place, pass->name);
        PARE_TRY(s);
        plan->unties = plan->model.config.tied;
    }
    return PARE_OK;
}

/* Channels that the runtime mixes cannot be scaled or shifted one by one in front of it. */
static pare_status check_fold(pare_ctx *cx, const pare_plan *plan, const pare_plan_transform *t)
{
    const pare_step *const step = &plan->recipe.step[t->step];
    const pare_pass *const pass = pare_passes[step->pass];
    if (pass->transform->block && plan->rotation->online)
        return pare_recipe_fail(cx, step->place,
                                "%s works through a whole block, and what rotate: {online: true} "
                                "does while the model runs is not part of it; use online: false",
                                pass->name);
    for (size_t role = 0; role < PARE_ROLES; role++)
        if (plan->model.config.arch->linear[role].site == t->site &&
            pare_rotation_is_online(plan->rotation, (pare_role)role) &&
            pass->transform->folds(step->value))
            return pare_recipe_fail(cx, step->place,
                                    "%s: the input of %s is rotated while the model runs "
                                    "(rotate: {online: true}), and no scale, shift or order folds "
                                    "through that; leave it out with skip",
                                    pass->name, plan->model.block[t->block].linear[role].name);
    return PARE_OK;
}

pare_status pare__plan_rotate_check(pare_ctx *cx, const pare_plan *plan)
{
    const pare_rotation *const r = plan->rotation;
    if (!r)
        return PARE_OK;
    const pare_place place = plan->recipe.step[0].place;
    if (plan->linears == 0)
        return pare_recipe_fail(cx, place, "rotate: no pass behind it quantizes a linear");
    for (size_t i = 0, at = 0; i < plan->model.config.blocks * PARE_ROLES; i++) {
        const size_t block = i / PARE_ROLES, role = i % PARE_ROLES;
        if (at < plan->linears && plan->linear[at].block == block &&
            plan->linear[at].role == (pare_role)role)
            at++;
        else if (pare_rotation_is_online(r, (pare_role)role))
            return pare_recipe_fail(cx, place,
                                    "rotate: with online: true every o and down must be "
                                    "quantized, and %s is not",
                                    plan->model.block[block].linear[role].name);
    }
    for (size_t i = 0; i < plan->transforms; i++)
        PARE_TRY(check_fold(cx, plan, &plan->transform[i]));
    return PARE_OK;
}

pare_rotated pare__plan_rotated(const pare_plan *plan, const char *tensor)
{
    const bool rotated = plan->rotation || plan->out.hidden < plan->model.config.hidden;
    return rotated ? pare__plan_global(plan, tensor) : PARE_ROTATED_NOT;
}

pare_rotated pare__plan_global(const pare_plan *plan, const char *tensor)
{
    const pare_arch *const arch = plan->model.config.arch;
    const struct {
        const char *name;
        pare_rotated which;
    } global[] = {{arch->embed, PARE_ROTATED_EMBED},
                  {arch->head, PARE_ROTATED_HEAD},
                  {arch->norm, PARE_ROTATED_NORM}};
    for (size_t i = 0; i < sizeof global / sizeof *global; i++) {
        const size_t len = strlen(global[i].name);
        if (strncmp(tensor, global[i].name, len) == 0 && strcmp(tensor + len, ".weight") == 0)
            return global[i].which;
    }
    return PARE_ROTATED_NOT;
}

pare_status pare__plan_head(pare_arena *a, const pare_plan *plan, pare_tensor *out)
{
    const pare_linear *const embed = &plan->model.embed;
    const char *const head = plan->model.config.arch->head;
    const size_t len = strlen(head);
    char *const name = pare_arena_take(a, len + sizeof ".weight", 1);
    if (!name)
        return PARE_ENOMEM;
    memcpy(name, head, len);
    memcpy(name + len, ".weight", sizeof ".weight");
    *out = (pare_tensor){
        .name = name, .dtype = embed->dtype, .rank = 2, .shape = {embed->n, plan->out.hidden}};
    return pare_tensor_bytes(out->dtype, out->rank, out->shape, &out->bytes);
}

uint64_t pare__plan_rotate_put_bytes(const pare_plan *plan, const pare_packed_layout *layout)
{
    const size_t width = plan->out.hidden;
    uint64_t most = 0;
    for (size_t i = 0; i < layout->entries; i++) {
        const pare_tensor *const t = &layout->entry[i].tensor;
        const pare_rotated which = pare__plan_rotated(plan, t->name);
        if (which != PARE_ROTATED_EMBED && which != PARE_ROTATED_HEAD)
            continue;
        const pare_linear *const w =
            which == PARE_ROTATED_HEAD ? &plan->model.head : &plan->model.embed;
        const uint64_t floats = w->k + (plan->rotation ? 0 : width);
        const uint64_t bytes =
            pare__rotate_rows_at_once(w->n, w->k, PARE__ROTATE_FLOATS) *
            (floats * sizeof(float) + (uint64_t)width * pare_dtype_bits(t->dtype) / 8);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t pare__plan_rotate_check_bytes(const pare_ctx *cx, const pare_config *c)
{
    enum { TOKENS = PARE__ROTATE_CHECK_TOKENS };
    const pare_batch batch = {.sequences = 1, .length = TOKENS};
    const size_t rows = pare__rotate_rows_at_once(c->vocab, c->hidden, PARE__ROTATE_CHECK_FLOATS);
    const size_t stream = 4 * TOKENS * c->hidden;
    const size_t block = 2 * TOKENS * c->kv_heads * c->head_dim;
    const size_t head = rows * (c->hidden + 2 * TOKENS);
    return (stream + block + head) * sizeof(float) + 16 * PARE_ALIGN +
           pare_block_forward_scratch(cx, c, batch);
}
