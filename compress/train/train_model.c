/* What is trained: a model as it lies in a checkpoint, some of its blocks, or random weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/train/train_internal.h"
#include "runtime/random.h"

static pare_job_path model_path(const pare_training *t)
{
    return (pare_job_path){t->job->recipe, "model", t->job->model, &t->recipe.common.model};
}

static pare_job_path recipe_path(const pare_training *t, const char *key, const pare_text *written)
{
    return (pare_job_path){t->job->recipe, key, NULL, written};
}

/* --- what is there -----------------------------------------------------------------------------
 */

/* Whose checkpoints hold several linears in one tensor. */
static bool holds_several(const pare_arch *a)
{
    return a->fused[0].name || (a->recurrent && a->recurrent->recurrence->fused[0]);
}

/* A family of checkpoints of another form than pare writes. */
static bool is_written_otherwise(const pare_arch *a)
{
    return holds_several(a) || a->transposed || a->rounds_inputs;
}

/* Why the weights of such a model cannot be trained and written; NULL: they can. */
static const char *why_not(const pare_checkpoint *ck, const pare_config *c)
{
    if (ck->packed)
        return "is compressed already; pare export --format safetensors writes it as floats";
    if (ck->unpacked)
        return "is quantized already; give the checkpoint that it was made of";
    if (!ck->config)
        return "has no config.json; give a checkpoint with one";
    if (holds_several(c->arch))
        return "is of a family whose checkpoints hold several linears in one tensor, which train "
               "does not write";
    if (c->arch->transposed)
        return "is of a family whose linears lie transposed in the file, which pare does not write";
    return c->arch->rounds_inputs
               ? "has ternary weights; pare compress with distill: {aware: true} trains those"
               : NULL;
}

static pare_status check_kind(const pare_training *t)
{
    const char *const why = why_not(&t->model, &t->source.config);
    return why ? pare_fail(t->cx, PARE_ENOTSUP, "%s: %s", t->model_path, why) : PARE_OK;
}

/* The standard deviation of random weights that config.json asks for. */
static pare_status read_deviation(pare_training *t)
{
    static const char *const keys[] = {"initializer_range", "init_std"};
    t->deviation = 0.02;
    for (size_t i = 0; i < 2; i++) {
        const pare_json *const v = pare_json_get(t->model.config, keys[i]);
        const pare_json_type type = pare_json_type_of(v);
        if (type == PARE_JSON_ABSENT || type == PARE_JSON_NULL)
            continue;
        t->deviation = pare_json_number(v, -1);
        if (!(t->deviation > 0 && t->deviation <= 1))
            return pare_fail(t->cx, PARE_EFORMAT,
                             "%s: %s is the deviation of random weights and takes a number above 0 "
                             "and at most 1, such as 0.02",
                             t->model_path, keys[i]);
    }
    return PARE_OK;
}

/* The families whose models can be trained, for a message. */
static const char *families(char text[512])
{
    size_t at = 0;
    for (const pare_arch *const *a = pare_archs; *a && at < 512; a++) {
        const pare_config c = {.arch = *a, .mixed = (*a)->recurrent != NULL};
        if (pare_config_no_training(&c) || is_written_otherwise(*a))
            continue;
        const int n = snprintf(text + at, 512 - at, "%s%s", at ? ", " : "", (*a)->model_type);
        at += n > 0 ? (size_t)n : 0;
    }
    return text;
}

static pare_status check_family(const pare_training *t)
{
    char known[512];
    const char *const none = pare_config_no_training(&t->source.config);
    return none ? pare_fail(t->cx, PARE_ENOTSUP,
                            "%s: pare does not train models of type %s: %s (it trains %s)",
                            t->model_path, t->source.config.arch->model_type, none, families(known))
                : PARE_OK;
}

/* The model of the recipe, or the config.json, as a checkpoint without tensors. */
static pare_status open_config(pare_training *t)
{
    pare_checkpoint *const ck = &t->model;
    const pare_job_path config = recipe_path(t, "config", &t->recipe.config);
    char *text;
    size_t len;
    enum { CONFIG_CAP = 16 << 20 };
    PARE_TRY(pare_job_path_pick(t->cx, t->a, &config, &t->model_path));
    if (!pare_path_is_file(t->model_path))
        return pare_job_path_fail(t->cx, PARE_EUSAGE, &config, "%s: %s", t->model_path,
                                  pare_path_no_file(t->model_path));
    *ck = (pare_checkpoint){
        .cx = t->cx, .path = t->model_path, .directory = pare_path_directory(t->a, t->model_path)};
    if (!ck->directory)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_read(t->cx, t->a, t->model_path, CONFIG_CAP, &text, &len));
    PARE_TRY(pare_json_parse(t->cx, t->model_path, text, len, CONFIG_CAP, &ck->config));
    PARE_TRY(pare_config_take_text(t->cx, t->model_path, &ck->config, &ck->is_part));
    PARE_TRY(pare_config_parse(t->cx, t->model_path, ck->config, &t->source.config));
    PARE_TRY(check_family(t));
    if (t->source.config.experts)
        return pare_fail(t->cx, PARE_ENOTSUP,
                         "%s: pare does not make random weights for a mixture of experts; give a "
                         "model",
                         t->model_path);
    if (t->recipe.vocabulary > t->source.config.vocab)
        return pare_recipe_fail(t->cx, t->recipe.vocabulary_place,
                                "\"vocabulary\" is %zu, above \"vocab_size\" of %s, which is %zu; "
                                "one of them must change",
                                t->recipe.vocabulary, t->model_path, t->source.config.vocab);
    if (!t->recipe.vocabulary)
        pare_config_warn(t->cx, t->model_path, ck->config, &t->source.config);
    return read_deviation(t);
}

static pare_status open_model(pare_training *t)
{
    const pare_job_path model = model_path(t);
    PARE_TRY(pare_job_path_pick(t->cx, t->a, &model, &t->model_path));
    PARE_TRY(pare_job_check_model(t->cx, t->a, &model, t->model_path));
    PARE_TRY(pare_checkpoint_open(t->cx, t->a, t->model_path, &t->model));
    PARE_TRY(pare_model_load(t->cx, t->a, &t->model, &t->source));
    return check_family(t);
}

/* The teacher: that of the recipe, else the model. */
static pare_status open_teacher(pare_training *t)
{
    const pare_text *const written = &t->recipe.teacher;
    const pare_losses *const l = &t->opts.losses;
    t->taught = pare_losses_taught(l);
    if (!t->taught && written->text)
        return pare_recipe_fail(t->cx, written->place,
                                "a teacher is given, and no loss compares with it; give weight to "
                                "one that does in \"train\", such as kl");
    if (t->taught && t->fresh && !written->text)
        return pare_recipe_fail(t->cx, t->recipe.train_place,
                                "a loss in \"train\" compares with a teacher; name one with "
                                "\"teacher: PATH\"");
    const bool whole = !t->recipe.blocks || t->recipe.blocks == t->source.config.blocks;
    if (t->taught && !written->text && whole && l->ce == 0)
        return pare_recipe_fail(t->cx, t->recipe.train_place,
                                "the model would learn only from itself, which knows no more; name "
                                "another \"teacher: PATH\", take fewer \"blocks\", or give weight "
                                "to ce");
    if (!t->taught || !written->text) {
        t->taught_by = t->source;
        return PARE_OK;
    }
    const pare_job_path path = recipe_path(t, "teacher", written);
    PARE_TRY(pare_job_path_pick(t->cx, t->a, &path, &t->teacher_path));
    PARE_TRY(pare_job_check_model(t->cx, t->a, &path, t->teacher_path));
    t->own_teacher = true;
    PARE_TRY(pare_checkpoint_open_to_run(t->cx, t->a, t->teacher_path, &t->teacher));
    PARE_TRY(pare_model_load(t->cx, t->a, &t->teacher, &t->taught_by));
    if (t->taught_by.config.vocab != t->source.config.vocab)
        return pare_recipe_fail(t->cx, written->place,
                                "the teacher has a vocabulary of %zu tokens and the model one of "
                                "%zu; both see the same ones; take a teacher of the same tokenizer",
                                t->taught_by.config.vocab, t->source.config.vocab);
    return PARE_OK;
}

/* What the command line replaces goes by the same rules as the keys of the recipe. */
static pare_status check_given(const pare_training *t)
{
    if (t->job->model && t->recipe.config.text)
        return pare_recipe_fail(t->cx, t->recipe.config.place,
                                "--model gives the weights to begin with, and \"config\" asks for "
                                "random ones; leave one out");
    if (t->job->tokenizer && t->recipe.vocabulary)
        return pare_recipe_fail(t->cx, t->recipe.vocabulary_place,
                                "--tokenizer gives a tokenizer, and \"vocabulary\" trains one; "
                                "leave one out");
    return PARE_OK;
}

pare_status pare__train_open(pare_training *t)
{
    PARE_TRY(check_given(t));
    t->fresh = t->recipe.config.text;
    PARE_TRY(t->fresh ? open_config(t) : open_model(t));
    PARE_TRY(check_kind(t));
    if (t->recipe.blocks) {
        const char *const why = pare_config_no_structure(&t->source.config);
        if (t->recipe.blocks > t->source.config.blocks)
            return pare_recipe_fail(t->cx, t->recipe.blocks_place,
                                    "\"blocks\" is %zu, and the model has %zu", t->recipe.blocks,
                                    t->source.config.blocks);
        if (why)
            return pare_recipe_fail(t->cx, t->recipe.blocks_place,
                                    "\"blocks\" cannot take blocks out of this model: %s", why);
    }
    return open_teacher(t);
}

/* --- the student -------------------------------------------------------------------------------
 */

/* Block i of N that stay of M: round(i (M - 1) / (N - 1)), as DistilBERT takes them. */
static size_t block_kept(size_t i, size_t of, size_t all)
{
    return of < 2 ? 0 : (2 * i * (all - 1) + of - 1) / (2 * (of - 1));
}

size_t pare__train_kept(const pare_training *t, size_t i)
{
    const size_t of = t->recipe.blocks, all = t->source.config.blocks;
    return of && of < all ? block_kept(i, of, all) : i;
}

/* The student views the blocks of the source that stay. */
static pare_status view_blocks(pare_training *t)
{
    const pare_config *const c = &t->source.config;
    const size_t blocks = t->recipe.blocks ? t->recipe.blocks : c->blocks;
    t->student = t->source;
    t->student.config.blocks = blocks;
    t->student.block = PARE_NEW(&t->own, pare_block, blocks);
    t->kept = PARE_NEW(t->a, size_t, blocks);
    if (!t->student.block || !t->kept)
        return PARE_ENOMEM;
    for (size_t i = 0; i < blocks; i++) {
        t->kept[i] = pare__train_kept(t, i);
        PARE_TRY(pare_block_copy(&t->own, c, &t->source.block[t->kept[i]], &t->student.block[i]));
    }
    return PARE_OK;
}

static bool is_there(const pare_leaf *leaf)
{
    return leaf->name && (leaf->linear ? leaf->linear->name != NULL : *leaf->vector != NULL);
}

bool pare__train_leaf(const pare_training *t, size_t *at, pare_leaf *leaf,
                      char name[PARE_TRAIN_NAME])
{
    const pare_model *const m = &t->student;
    const pare_config *const c = &m->config;
    const size_t each = pare_block_leaves(c), inside = c->blocks * each;
    while (*at < inside + PARE_MODEL_LEAVES) {
        const size_t i = (*at)++, block = i / each;
        *leaf = i < inside ? pare_model_block_leaf(c, block, &m->block[block], i % each)
                           : pare_model_leaf(m, i - inside);
        if (!is_there(leaf))
            continue;
        size_t len = 0;
        if (i < inside)
            len = pare_arch_name_in(c->arch, block, leaf->part, leaf->name, name,
                                    PARE_TRAIN_NAME - 16);
        else
            len = (size_t)snprintf(name, PARE_TRAIN_NAME - 16, "%s", leaf->name);
        (void)snprintf(name + len, 16, "%s", pare_leaf_suffix(leaf));
        return true;
    }
    return false;
}

/* --- random weights ----------------------------------------------------------------------------
 */

/* Normal numbers; matrices that write into the stream of a model of L blocks are smaller by
 * sqrt(2 L), as in GPT-2. */
static void fill_matrix(const pare_training *t, const pare_leaf *leaf, const char *name, float *w)
{
    const size_t blocks = t->source.config.blocks, count = leaf->n * leaf->k;
    const bool writes = leaf->kind == PARE_LEAF_WEIGHT && leaf->part == 0 &&
                        (leaf->index == PARE_ROLE_O || leaf->index == PARE_ROLE_DOWN);
    const double deviation = t->deviation / (writes ? sqrt(2.0 * (double)blocks) : 1);
    const uint64_t stream = pare_random_stream(name);
    for (size_t i = 0; i < count; i++)
        w[i] = (float)(deviation * pare_random_normal(t->recipe.common.seed, stream, i));
}

/* a: the family, or a kind of its blocks. */
static bool has_vector(const pare_training *t, const pare_arch *a, const pare_leaf *leaf)
{
    if (leaf->kind == PARE_LEAF_NORM_BIAS)
        return a->norm_kind == PARE_NORM_LAYER;
    if (leaf->kind != PARE_LEAF_BIAS)
        return true;
    return leaf->n == t->source.config.vocab && leaf->k == 1 && a->head_bias && leaf->index == 0 &&
                   strcmp(leaf->name, a->head) == 0
               ? true
               : pare_linear_has_bias(t->model.config,
                                      pare_arch_linear(a, leaf->part, (pare_role)leaf->index));
}

bool pare__train_has(const pare_training *t, const pare_arch *a, const pare_leaf *leaf)
{
    return t->fresh ? leaf->name && (leaf->linear || has_vector(t, a, leaf)) : is_there(leaf);
}

/* As transformers 5 begins: decays of ln(u), u between 0.01 and 16; shifts and norms of 1. */
static void fill_state(const pare_training *t, const pare_leaf *leaf, const char *name, float *x)
{
    const uint64_t stream = pare_random_stream(name);
    if (leaf->index == PARE_STATE_CONV)
        fill_matrix(t, leaf, name, x);
    for (size_t i = 0; leaf->index == PARE_STATE_RATE && i < leaf->n; i++)
        x[i] = (float)log(0.01 + 15.99 * pare_random_unit(t->recipe.common.seed, stream, i));
    for (size_t i = 0; i < leaf->n; i++)
        if (leaf->index == PARE_STATE_SHIFT || leaf->index == PARE_STATE_NORM)
            x[i] = 1;
}

static pare_status make_leaf(pare_training *t, const pare_arch *a, const pare_leaf *leaf,
                             const char *name)
{
    if (!leaf->linear && !has_vector(t, a, leaf))
        return PARE_OK;
    float *const value = PARE_NEW(&t->begin, float, leaf->n * leaf->k);
    char *const linear = pare_arena_text(t->a, name, strlen(name));
    if (!value || !linear)
        return PARE_ENOMEM;
    if (leaf->linear) {
        fill_matrix(t, leaf, name, value);
        float *const bias = leaf->linear->bias;
        *leaf->linear = (pare_linear){.name = linear,
                                      .n = leaf->n,
                                      .k = leaf->k,
                                      .dtype = PARE_F32,
                                      .floats = value,
                                      .bias = bias};
        return PARE_OK;
    }
    const bool norm = leaf->kind == PARE_LEAF_NORM || leaf->kind == PARE_LEAF_INNER_NORM;
    const pare_config *const c = &t->source.config;
    for (size_t i = 0; norm && i < leaf->n; i++)
        value[i] = pare_norm_factor(c, leaf->name == c->arch->norm);
    if (leaf->kind == PARE_LEAF_STATE_VECTOR)
        fill_state(t, leaf, name, value);
    *leaf->vector = value;
    return PARE_OK;
}

static pare_status make_block(pare_training *t, size_t block)
{
    pare_config own;
    const pare_config *const c = &own;
    pare_block *const b = &t->source.block[block];
    char name[PARE_TRAIN_NAME];
    pare_block_config(&t->source.config, block, &own);
    b->window = pare_config_window(c, block);
    b->apart = pare_config_turns_apart(c, block);
    for (size_t i = 0; i < pare_block_leaves(c); i++) {
        const pare_leaf leaf = pare_block_leaf(c, b, i);
        if (!leaf.name)
            continue;
        (void)pare_arch_name_in(c->arch, block, leaf.part, leaf.name, name, sizeof name);
        PARE_TRY(make_leaf(t, c->arch, &leaf, name));
    }
    return PARE_OK;
}

static pare_status make_weights(pare_training *t)
{
    pare_model *const m = &t->source;
    PARE_TRY(pare_arena_init(t->cx, &t->begin, 0));
    m->block = PARE_NEW(&t->begin, pare_block, m->config.blocks);
    if (!m->block)
        return PARE_ENOMEM;
    for (size_t b = 0; b < m->config.blocks; b++)
        PARE_TRY(make_block(t, b));
    for (size_t i = 0; i < PARE_MODEL_LEAVES; i++) {
        const pare_leaf leaf = pare_model_leaf(m, i);
        if (leaf.name)
            PARE_TRY(make_leaf(t, m->config.arch, &leaf, leaf.name));
    }
    if (m->config.tied)
        m->head = m->embed;
    return PARE_OK;
}

/* --- what is trained ---------------------------------------------------------------------------
 */

static bool is_any(void *self, size_t block, const pare_leaf *leaf)
{
    (void)self;
    (void)block;
    (void)leaf;
    return true;
}

/* Zeros stay in linears of blocks, and only where the recipe says so. Refuses weights that are not
 * finite: no window may show those of a token that no text has. */
static pare_status settle_leaves(pare_training *t)
{
    char name[PARE_TRAIN_NAME];
    pare_leaf leaf;
    size_t at = 0;
    const size_t inside = t->student.config.blocks * pare_block_leaves(&t->student.config);
    for (size_t i = 0; pare__train_leaf(t, &at, &leaf, name); i++) {
        pare_trained *const l = &t->trainee.leaf[i];
        size_t finite = 0;
        l->keeps_zeros = t->recipe.keep_zeros && at <= inside && leaf.kind == PARE_LEAF_WEIGHT;
        while (finite < l->count && isfinite(l->value[finite]))
            finite++;
        if (finite < l->count)
            return pare_fail(t->cx, PARE_EFORMAT,
                             "%s: %s: weight %zu is %g, and pare trains finite weights; fetch the "
                             "model again, or set such weights to 0 in its files (\"pare verify\" "
                             "names the tensors; \"nan: zero\" is for pare compress alone)",
                             t->model_path, name, finite, (double)l->value[finite]);
    }
    return PARE_OK;
}

static pare_status take_projection(pare_training *t)
{
    if (!pare__train_projects(t))
        return PARE_OK;
    t->trainee.projection = &t->projection;
    t->state.projection = &t->projection.w;
    return pare_projection_take(&t->own, t->source.config.hidden, t->taught_by.config.hidden,
                                t->opts.seed, &t->projection);
}

/* Every leaf is trained. */
static pare_status take_all(pare_training *t)
{
    const pare_choice all = {.wants = is_any, .moments8 = t->opts.moments8};
    PARE_TRY(pare_trainee_take(t->cx, &t->own, &t->student, &all, &t->trainee));
    return settle_leaves(t);
}

pare_status pare__train_take(pare_training *t)
{
    if (t->fresh)
        PARE_TRY(make_weights(t));
    PARE_TRY(view_blocks(t));
    PARE_TRY(t->adapter ? pare__train_adapt(t) : take_all(t));
    pare_arena_release(&t->begin);
    t->trainee.student = &t->student_f;
    t->trainee.teacher = t->taught ? &t->teacher_f : NULL;
    t->state.leaf = t->trainee.leaf;
    t->state.leaves = t->trainee.leaves;
    PARE_TRY(take_projection(t));
    PARE_TRY(pare_forward_init(t->cx, &t->own, &t->student, t->window, false, &t->student_f));
    return t->taught
               ? pare_forward_init(t->cx, &t->own, &t->taught_by, t->window, false, &t->teacher_f)
               : PARE_OK;
}
