/* Structured steps: what they leave of the model, and what does not go with them. */
#include <stdio.h>
#include <string.h>

#include "calib/wave.h"
#include "compress/evaluate/token_time.h"
#include "compress/passes/ziplm_step.h"
#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_reap.h"
#include "compress/plan/plan_room.h"
#include "compress/plan/plan_walks.h"
#include "prune/slicegpt.h"
#include "prune/ziplm.h"

/* Only structured steps, and nothing that is kept in an index of packed files. */
static pare_status check_alone(pare_ctx *cx, const pare_plan *plan, size_t structured)
{
    const char *const name = pare__plan_pass(plan, structured)->name;
    const pare_pass_structure s =
        pare__plan_pass(plan, structured)->structure(pare__plan_step(plan, structured)->value);
    for (size_t i = 0; i < plan->recipe.steps; i++) {
        if (pare__plan_pass(plan, i)->structure)
            continue;
        if (s.share[PARE_PART_EXPERTS] > 0)
            return pare_recipe_fail(cx, pare__plan_step(plan, i)->place,
                                    "%s: pass %zu (%s) makes a smaller plain checkpoint of the "
                                    "model as it was; put %s behind it",
                                    pare__plan_pass(plan, i)->name, structured, name,
                                    pare__plan_pass(plan, i)->name);
        return pare_recipe_fail(cx, pare__plan_step(plan, i)->place,
                                "%s: pass %zu (%s) makes a smaller plain checkpoint, and only "
                                "passes of its kind can come before it",
                                pare__plan_pass(plan, i)->name, structured, name);
    }
    if (plan->recipe.kv.method != PARE_KV_FLOAT)
        return pare_recipe_fail(cx, plan->recipe.kv_place,
                                "kv_cache: %s makes a plain checkpoint, which has no place for the "
                                "form of a cache; choose it when that is packed, or with --kv",
                                name);
    return PARE_OK;
}

static pare_status check_step(pare_ctx *cx, const pare_plan *plan, size_t step,
                              const pare_pass_structure *s)
{
    const pare_step *const st = pare__plan_step(plan, step);
    const char *const name = pare__plan_pass(plan, step)->name;
    const bool reaps = s->share[PARE_PART_EXPERTS] > 0;
    const char *const why = reaps ? NULL : pare_config_no_structure(&plan->model.config);
    if (why)
        return pare__plan_refuse_family(cx, plan, st, "cannot make a smaller checkpoint of", why);
    if (!s->hessian && (st->targets.count || st->skip.count))
        return pare_recipe_fail(cx, st->place,
                                "%s: a configuration has one size for all blocks, so it works on "
                                "the whole model and takes no targets and no skip",
                                name);
    const bool data = s->moments || s->hessian || s->blocks || s->hidden > 0 || reaps;
    if (data && plan->recipe.calibration.kind == PARE_CALIBRATION_NONE)
        return pare_recipe_fail(cx, st->place,
                                "%s needs calibration data; add \"calibration:\" with text, tokens "
                                "or generate",
                                name);
    return PARE_OK;
}

/* Where widths are chosen for a speed. */
static pare_status check_search(pare_ctx *cx, const pare_plan *plan, size_t step)
{
    const pare_step *const st = pare__plan_step(plan, step);
    const double speedup = st->value[PARE_ZIPLM_SPEEDUP];
    if (plan->recipe.steps > 1 || plan->job->part != PARE_JOB_WHOLE)
        return pare_recipe_fail(cx, st->place, "%s", pare_search_alone);
    if (speedup > 0 && st->value[PARE_ZIPLM_SPEED] > 0)
        return pare_recipe_fail(cx, st->value_place[PARE_ZIPLM_SPEED],
                                "ziplm: speedup and tokens_s are both given; leave one of them "
                                "out");
    if (st->value_place[PARE_ZIPLM_RATIO].line)
        return pare_recipe_fail(cx, st->value_place[PARE_ZIPLM_RATIO],
                                "ziplm: speedup or tokens_s says what goes; leave out ratio");
    if (speedup > 0 && speedup <= 1)
        return pare_recipe_fail(cx, st->value_place[PARE_ZIPLM_SPEEDUP],
                                "ziplm: speedup %g asks for no more than the original; give more "
                                "than 1",
                                speedup);
    if (plan->recipe.nan != PARE_NAN_ERROR)
        return pare_recipe_fail(cx, st->place,
                                "ziplm: with speedup or tokens_s it measures the weights as they "
                                "are; leave out nan");
    return PARE_OK;
}

/* Key/value heads that stay: as the ratio says, and then up to a number of query heads that divides
 * hidden_size where it did before, because transformers refuses a config.json that says otherwise.
 */
static size_t heads_left(const pare_config *c, double ratio)
{
    const size_t each = c->heads / c->kv_heads;
    size_t left = pare_part_kept(c->kv_heads, ratio, 1);
    while (c->hidden % c->heads == 0 && c->hidden % (each * left) != 0)
        left++;
    return left;
}

static pare_status fail_twice(pare_ctx *cx, const pare_plan *plan, size_t step, pare_part p)
{
    return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                            "%s: %s are already taken out by a pass in front of it; one pass "
                            "takes them all",
                            pare__plan_pass(plan, step)->name, pare_part_name(p));
}

static pare_status cut_heads(pare_ctx *cx, pare_plan *plan, size_t step,
                             const pare_pass_structure *s, bool *some)
{
    const pare_config *const c = &plan->model.config;
    if (plan->out.kv_heads != c->kv_heads)
        return fail_twice(cx, plan, step, PARE_PART_HEADS);
    if (c->kv_heads == 1)
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s: the model has one key/value head, which cannot go; write "
                                "heads: false",
                                pare__plan_pass(plan, step)->name);
    plan->out.kv_heads = heads_left(c, s->share[PARE_PART_HEADS]);
    plan->out.heads = c->heads / c->kv_heads * plan->out.kv_heads;
    if (plan->out.kv_heads == c->kv_heads)
        return PARE_OK;
    *some = true;
    plan->attention_bias |= s->bias;
    return PARE_OK;
}

/* MLPs of all blocks get smaller, or those whose down a step selects. */
static pare_status cut_channels(pare_ctx *cx, pare_arena *a, pare_plan *plan, size_t step,
                                const pare_pass_structure *s, bool *some)
{
    const size_t count = plan->model.config.intermediate, blocks = plan->model.config.blocks;
    const size_t left = pare_part_kept(count, s->share[PARE_PART_CHANNELS], PARE_CHANNELS_STEP);
    bool *const selected = PARE_NEW(a, bool, pare_plan_slots(plan)), any = false;
    if (!selected)
        return PARE_ENOMEM;
    PARE_TRY(pare__plan_select(cx, a, plan, step, selected));
    for (size_t i = 0; i < blocks; i++) {
        if (!selected[pare_plan_slot(plan, i, 0, PARE_ROLE_DOWN)])
            continue;
        any = true;
        if (plan->out.mlp[i] != count)
            return fail_twice(cx, plan, step, PARE_PART_CHANNELS);
        if (left == count)
            continue;
        *some = true;
        plan->mlp_step[i] = step;
        plan->out.mlp[i] = s->search ? (uint32_t)count : (uint32_t)left;
    }
    if (!any)
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s: works on MLPs whose down the targets match, and they match "
                                "none; \"*.mlp.*\" matches all",
                                pare__plan_pass(plan, step)->name);
    plan->mlp_bias |= s->bias && left < count;
    return PARE_OK;
}

/* Tensors of block i come from a block that is known only later, so all have the same types. */
static pare_status check_dtypes(pare_ctx *cx, const pare_plan *plan, size_t step)
{
    const pare_block *const block = plan->model.block;
    for (size_t i = PARE_ROLES; i < plan->model.config.blocks * PARE_ROLES; i++) {
        const pare_linear *const l = &block[i / PARE_ROLES].linear[i % PARE_ROLES];
        if (l->dtype != block[0].linear[i % PARE_ROLES].dtype)
            return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                    "%s: %s is stored as %s and that of block 0 as %s; blocks take "
                                    "each other's place, so all must have the same types",
                                    pare__plan_pass(plan, step)->name, l->name,
                                    pare_dtype_name(l->dtype),
                                    pare_dtype_name(block[0].linear[i % PARE_ROLES].dtype));
    }
    return PARE_OK;
}

static pare_status cut_blocks(pare_ctx *cx, pare_plan *plan, size_t step, size_t blocks)
{
    const size_t count = plan->model.config.blocks;
    const char *const name = pare__plan_pass(plan, step)->name;
    if (step > 0)
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s looks at the model as it was, so it must be the first pass, "
                                "and the only one of its kind",
                                name);
    if (blocks >= count)
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s: %zu block%s of %zu would leave none; take out %zu at most",
                                name, blocks, pare_plural(blocks), count, count - 1);
    plan->out.blocks = count - blocks;
    plan->calibrated = true;
    return check_dtypes(cx, plan, step);
}

static pare_status cut_hidden(pare_ctx *cx, pare_plan *plan, size_t step, double share)
{
    const size_t hidden = plan->model.config.hidden;
    const char *const name = pare__plan_pass(plan, step)->name;
    if (plan->recipe.steps > 1)
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s changes the basis of the whole model, so no other pass that "
                                "makes it smaller can stand beside it; give what it wrote to a "
                                "second recipe",
                                name);
    const size_t multiple = pare_slicegpt_multiple(&plan->model.config);
    plan->out.hidden = pare_part_kept(hidden, share, multiple);
    if (plan->out.hidden == hidden)
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s: nothing would go: of %zu directions as many stay as round up "
                                "to a multiple of %zu; raise the ratio",
                                name, hidden, multiple);
    plan->calibrated = true;
    plan->unties = plan->model.config.tied;
    return PARE_OK;
}

static pare_status cut_step(pare_ctx *cx, pare_arena *a, pare_plan *plan, size_t step)
{
    const pare_pass_structure s =
        pare__plan_pass(plan, step)->structure(pare__plan_step(plan, step)->value);
    bool some = s.blocks || s.hidden > 0;
    PARE_TRY(check_step(cx, plan, step, &s));
    if (s.share[PARE_PART_EXPERTS] > 0)
        return pare__plan_reap(cx, plan, step, s.share[PARE_PART_EXPERTS]);
    if (s.search)
        PARE_TRY(check_search(cx, plan, step));
    if (s.blocks)
        PARE_TRY(cut_blocks(cx, plan, step, s.blocks));
    if (s.hidden > 0)
        PARE_TRY(cut_hidden(cx, plan, step, s.hidden));
    if (s.share[PARE_PART_HEADS] > 0)
        PARE_TRY(cut_heads(cx, plan, step, &s, &some));
    if (s.share[PARE_PART_CHANNELS] > 0)
        PARE_TRY(cut_channels(cx, a, plan, step, &s, &some));
    if (!some && s.share[PARE_PART_HEADS] <= 0 && s.share[PARE_PART_CHANNELS] <= 0)
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s: nothing would go: heads and ffn are both false",
                                pare__plan_pass(plan, step)->name);
    if (!some)
        return pare_recipe_fail(cx, pare__plan_step(plan, step)->place,
                                "%s: nothing would go: of %zu key/value heads, and of %zu channels "
                                "in steps of %d, all that stay are rounded up; raise the ratio",
                                pare__plan_pass(plan, step)->name, plan->model.config.kv_heads,
                                plan->model.config.intermediate, PARE_CHANNELS_STEP);
    plan->calibrated |= s.moments || s.hessian;
    plan->watched |= s.moments || s.hessian;
    return PARE_OK;
}

/* A tensor of block `block`: name behind the block's prefix, shape, and dtype. */
static pare_status change(pare_arena *a, pare_plan *plan, pare_plan_changed c, const char *base,
                          const char *suffix)
{
    char prefix[512];
    (void)snprintf(prefix, sizeof prefix, plan->model.config.arch->block_prefix, c.block);
    const size_t size = strlen(prefix) + strlen(base) + strlen(suffix) + 1;
    char *const name = PARE_NEW(a, char, size);
    if (!name)
        return PARE_ENOMEM;
    (void)snprintf(name, size, "%s%s%s", prefix, base, suffix);
    c.tensor.name = name;
    plan->changed[plan->changes++] = c;
    return PARE_OK;
}

static pare_status change_linear(pare_arena *a, pare_plan *plan, size_t block, size_t role)
{
    const pare_linear_desc *const d = &plan->model.config.arch->linear[role];
    const pare_dtype dtype = plan->model.block[block].linear[role].dtype;
    const bool attention = d->site == PARE_SITE_ATTENTION || d->site == PARE_SITE_ATTENDED;
    size_t n, k;
    if (!d->name)
        return PARE_OK;
    pare_block_shape(&plan->out, block, 0, (pare_role)role, &n, &k);
    PARE_TRY(change(a, plan,
                    (pare_plan_changed){.kind = PARE_CHANGED_WEIGHT,
                                        .block = block,
                                        .index = role,
                                        .tensor = {.dtype = dtype, .rank = 2, .shape = {n, k}}},
                    d->name, ".weight"));
    if (!(attention ? plan->attention_bias : plan->mlp_bias))
        return PARE_OK;
    plan->biases.linear |= 1u << role;
    return change(a, plan,
                  (pare_plan_changed){.kind = PARE_CHANGED_BIAS,
                                      .block = block,
                                      .index = role,
                                      .tensor = {.dtype = dtype, .rank = 1, .shape = {n}}},
                  d->name, ".bias");
}

/* Norms keep the type that they have in the checkpoint. */
static pare_dtype norm_dtype(const pare_plan *plan, size_t block, const char *norm)
{
    char prefix[512], name[1024];
    (void)snprintf(prefix, sizeof prefix, plan->model.config.arch->block_prefix, block);
    (void)snprintf(name, sizeof name, "%s%s.weight", prefix, norm);
    const pare_tensor *const t = pare_checkpoint_find(&plan->checkpoint, name);
    return t ? t->dtype : PARE_F32;
}

static pare_status change_block(pare_arena *a, pare_plan *plan, size_t block)
{
    const pare_arch *const arch = plan->model.config.arch;
    const char *const norms[2] = {arch->attention_norm, arch->mlp_norm};
    for (size_t i = 0; i < 2; i++)
        PARE_TRY(change(a, plan,
                        (pare_plan_changed){.kind = PARE_CHANGED_NORM,
                                            .block = block,
                                            .index = i,
                                            .tensor = {.dtype = norm_dtype(plan, block, norms[i]),
                                                       .rank = 1,
                                                       .shape = {plan->out.hidden}}},
                        norms[i], ".weight"));
    for (size_t role = 0; role < PARE_ROLES; role++)
        PARE_TRY(change_linear(a, plan, block, role));
    return PARE_OK;
}

/* Every tensor of every block is stored anew. */
static pare_status change_all(pare_arena *a, pare_plan *plan)
{
    const size_t most = plan->out.blocks * (2 + 2 * PARE_ROLES);
    uint64_t bytes = 0, weights = 0;
    plan->changed = PARE_NEW(a, pare_plan_changed, most);
    if (!plan->changed)
        return PARE_ENOMEM;
    for (size_t b = 0; b < plan->out.blocks; b++)
        PARE_TRY(change_block(a, plan, b));
    for (size_t i = 0; i < plan->changes; i++) {
        const pare_tensor *const t = &plan->changed[i].tensor;
        if (plan->changed[i].kind != PARE_CHANGED_WEIGHT)
            continue;
        weights += t->shape[0] * t->shape[1];
        bytes += t->shape[0] * t->shape[1] * pare_dtype_bits(t->dtype) / 8;
    }
    plan->settled.bits_per_weight = 8.0 * (double)bytes / (double)weights;
    return PARE_OK;
}

/* Biases of the model stay. */
static void find_biases(pare_plan *plan)
{
    const pare_block *const first = &plan->model.block[0];
    plan->attention_bias |= first->linear[PARE_ROLE_Q].bias != NULL;
    plan->mlp_bias |= first->linear[PARE_ROLE_GATE].bias != NULL;
}

/* Whether the blocks have one width or several, and what does not go with the latter. */
static pare_status even_out(pare_ctx *cx, pare_plan *plan)
{
    pare_config *const c = &plan->out;
    const size_t blocks = plan->model.config.blocks, last = plan->recipe.steps - 1;
    c->intermediate = 0;
    for (size_t i = 0; i < blocks; i++) {
        c->uneven |= c->mlp[i] != c->mlp[0];
        c->intermediate = c->mlp[i] > c->intermediate ? c->mlp[i] : c->intermediate;
    }
    if (c->uneven && c->blocks < blocks)
        return pare_recipe_fail(cx, pare__plan_step(plan, last)->place,
                                "%s: blocks of different width do not go with depth, which takes "
                                "blocks out",
                                pare__plan_pass(plan, last)->name);
    return PARE_OK;
}

pare_status pare__plan_structure(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    size_t first = 0;
    plan->out = plan->model.config;
    while (first < plan->recipe.steps && !pare__plan_pass(plan, first)->structure)
        first++;
    if (first == plan->recipe.steps)
        return PARE_OK;
    plan->structured = true;
    PARE_TRY(check_alone(cx, plan, first));
    if (pare__plan_pass(plan, first)
            ->structure(pare__plan_step(plan, first)->value)
            .share[PARE_PART_EXPERTS] > 0)
        return cut_step(cx, a, plan, first);
    plan->mlp_step = PARE_NEW(a, size_t, plan->out.blocks);
    if (!plan->mlp_step)
        return PARE_ENOMEM;
    for (size_t i = 0; i < plan->out.blocks; i++) {
        plan->mlp_step[i] = SIZE_MAX;
        plan->out.mlp[i] = (uint32_t)plan->out.intermediate;
    }
    for (size_t i = 0; i < plan->recipe.steps; i++)
        PARE_TRY(cut_step(cx, a, plan, i));
    PARE_TRY(even_out(cx, plan));
    find_biases(plan);
    return change_all(a, plan);
}

void pare__plan_cut_global(const pare_plan *plan, pare_tensor *t)
{
    if (plan->out.hidden < plan->model.config.hidden &&
        pare__plan_global(plan, t->name) != PARE_ROTATED_NOT)
        t->shape[t->rank - 1] = plan->out.hidden;
}

bool pare__plan_in_block(const pare_plan *plan, const char *tensor)
{
    const char *const prefix = plan->model.config.arch->block_prefix;
    return strncmp(tensor, prefix, strcspn(prefix, "%")) == 0;
}

static const unsigned down_kinds[PARE_SITES] = {[PARE_SITE_ACTIVATED] = PARE_STATS_HESSIAN};

static bool by_hessian(const pare_plan *plan)
{
    bool is = false;
    for (size_t i = 0; i < plan->recipe.steps; i++)
        is |= pare__plan_pass(plan, i)->structure(pare__plan_step(plan, i)->value).hessian;
    return is;
}

size_t pare__plan_structure_widest(const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    size_t n, k;
    pare_linear_shape(c, 0, PARE_ROLE_DOWN, &n, &k);
    if (plan->structured && by_hessian(plan))
        return k;
    return plan->out.hidden < c->hidden ? c->hidden : 0;
}

uint64_t pare__plan_structure_outside(const pare_plan *plan)
{
    enum { HIGH = 512, DEEP = 256 }; /* rows and columns that OpenBLAS packs of a matrix at most */
    const uint64_t counts = (uint64_t)256 << 10, n = plan->model.config.hidden,
                   deep = n < DEEP ? n : DEEP, high = n < HIGH ? n : HIGH;
    if (!plan->structured)
        return 0;
    return counts + (plan->out.hidden < n ? deep * (high + n) * sizeof(double) : 0);
}

uint64_t pare__plan_structure_bytes(const pare_ctx *cx, const pare_plan *plan)
{
    const pare_config *const c = &plan->model.config;
    const uint64_t batch = (uint64_t)plan->batch * plan->window * c->hidden * 4;
    uint64_t most = 0;
    if (!plan->structured)
        return 0;
    if (pare_plan_reaps(plan))
        return pare__plan_reap_bytes(cx, plan);
    const uint64_t begin = plan->calibrated && !plan->watched
                               ? pare_wave_scratch(cx, c, plan->batch, plan->window,
                                                   (pare_wave_kind){plan->bf16, false, true}) +
                                     batch
                               : 0;
    size_t n = 0, k = 0;
    pare_linear_shape(c, 0, PARE_ROLE_DOWN, &n, &k);
    const uint64_t ziplm = by_hessian(plan)
                               ? pare_stats_bytes(c, 0, down_kinds) + pare_ziplm_bytes(n, k) +
                                     (uint64_t)k * (sizeof(double) + 1)
                               : 0;
    const uint64_t slice = plan->out.hidden < c->hidden ? pare_slicegpt_bytes(c->hidden) : 0;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        pare_linear_shape(c, 0, (pare_role)role, &n, &k);
        most = (uint64_t)n * k > most ? (uint64_t)n * k : most;
    }
    /* a cut matrix and its bytes; moments, sums of columns, scores and their order */
    return 2 * most * sizeof(float) + 4 * pare_moments_bytes(c) + begin + batch + slice + ziplm;
}

bool pare_plan_searches(const pare_plan *plan)
{
    return plan->structured &&
           pare__plan_pass(plan, 0)->structure(pare__plan_step(plan, 0)->value).search;
}

bool pare_plan_is_base(const pare_plan *plan)
{
    return plan->recipe.steps && pare_passes[plan->recipe.step[0].pass] == pare_pass_find("budget");
}

const char *pare_plan_known_once(const pare_plan *plan)
{
    return plan->job->stand_in        ? "the smaller checkpoint is there"
           : pare_plan_searches(plan) ? "widths are chosen"
           : pare_plan_is_base(plan)  ? "settings are chosen"
           : plan->ratios             ? "the calibration has run"
                                      : NULL;
}

uint64_t pare__plan_widths_bytes(const pare_ctx *cx, const pare_plan *plan)
{
    return pare_plan_searches(plan) ? pare_time_token_bytes(cx, &plan->model.config) : 0;
}

double pare__plan_ziplm_flops(const pare_plan *plan)
{
    double flops = 0;
    size_t n, k;
    if (!plan->structured || !by_hessian(plan))
        return 0;
    pare_linear_shape(&plan->model.config, 0, PARE_ROLE_DOWN, &n, &k);
    for (size_t i = 0; i < plan->model.config.blocks; i++)
        flops += pare_plan_searches(plan)
                     ? 2 * pare_ziplm_flops(n, k, 1) /* down to the least width; to the chosen */
                     : pare_ziplm_flops(n, k, pare_config_mlp(&plan->out, i));
    return flops;
}
