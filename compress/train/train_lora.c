/* Which linears get adapters, and the adapters as PEFT keeps them. */
#include <stdio.h>
#include <string.h>

#include "compress/artifact/adapter.h"
#include "compress/train/train_internal.h"
#include "formats/dense.h"
#include "formats/hash.h"
#include "recipes/pattern.h"

static size_t slot_of(const pare_config *c, size_t block, const pare_leaf *leaf)
{
    return (block * pare_block_parts(c) + leaf->part) * PARE_ROLES + leaf->index;
}

bool pare__train_adapted(const pare_training *t, size_t block, const pare_leaf *leaf)
{
    return t->adapter && block != PARE_OUTSIDE && leaf->kind == PARE_LEAF_WEIGHT &&
           t->adapted[slot_of(&t->source.config, block, leaf)];
}

/* --- choice ------------------------------------------------------------------------------------
 */

/* Linear `at` and what follows of the blocks that stay, with its name in their checkpoint; false
 * behind the last. `at` moves on behind it. */
static bool next_linear(const pare_training *t, size_t *at, size_t *block, pare_leaf *leaf,
                        char name[PARE_TRAIN_NAME])
{
    const pare_config *const c = &t->source.config;
    const size_t each = pare_block_leaves(c);
    const size_t blocks = t->recipe.blocks ? t->recipe.blocks : c->blocks;
    while (*at < blocks * each) {
        const size_t i = (*at)++;
        *block = i / each;
        const size_t kept = pare__train_kept(t, *block);
        *leaf = pare_model_block_leaf(c, kept, &t->source.block[kept], i % each);
        if (leaf->kind != PARE_LEAF_WEIGHT || !leaf->name || !leaf->linear->name)
            continue;
        (void)pare_arch_name_in(c->arch, *block, leaf->part, leaf->name, name, PARE_TRAIN_NAME);
        return true;
    }
    return false;
}

static const char *last_word(const char *name)
{
    const char *const dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Whether a linear can have an adapter, and such a one can be written. PEFT 0.21 with transformers
 * 5 takes names of MLPs of a mixture for the one tensor that holds all its experts. */
static pare_status check_linear(const pare_training *t, const pare_leaf *leaf, const char *name)
{
    const pare_lora_recipe *const l = &t->recipe.lora;
    if (l->rank > leaf->n || l->rank > leaf->k)
        return pare_recipe_fail(t->cx, l->rank_place,
                                "lora: rank %zu is above the smaller side of %s, which is [%zu, "
                                "%zu]",
                                l->rank, name, leaf->n, leaf->k);
    if (!l->merge && t->source.config.experts && leaf->index > PARE_ROLE_O)
        return pare_recipe_fail(t->cx, l->place,
                                "lora: %s belongs to a mixture of experts, and not every program "
                                "finds adapters there again; write the model with \"merge: true\", "
                                "or take targets of attention, such as [q_proj, v_proj]",
                                name);
    return PARE_OK;
}

/* Whether one of the patterns takes a linear; hits [targets] counts for each. */
static pare_status match(const pare_training *t, pare_pattern *const *pattern, const char *name,
                         size_t *hits, bool *taken)
{
    const pare_texts *const texts = &t->recipe.lora.targets;
    *taken = texts->count == 0;
    for (size_t i = 0; i < texts->count; i++) {
        bool hit;
        pare_status s = pare_pattern_matches(t->cx, pattern[i], name, &hit);
        if (s == PARE_OK && !hit)
            s = pare_pattern_matches(t->cx, pattern[i], last_word(name), &hit);
        if (s == PARE_EUSAGE)
            return pare_recipe_fail_at(t->cx, s, texts->item[i].place);
        PARE_TRY(s);
        hits[i] += hit;
        *taken |= hit;
    }
    return PARE_OK;
}

/* Marks the linears of the targets and counts. */
static pare_status mark(pare_training *t, pare_pattern *const *pattern, size_t *hits)
{
    pare_adapter_result *const r = t->adapter;
    char name[PARE_TRAIN_NAME];
    pare_leaf leaf;
    bool taken;
    for (size_t at = 0, block = 0; next_linear(t, &at, &block, &leaf, name);) {
        PARE_TRY(match(t, pattern, name, hits, &taken));
        if (!taken)
            continue;
        PARE_TRY(check_linear(t, &leaf, name));
        t->adapted[slot_of(&t->source.config, block, &leaf)] = true;
        r->linears++;
        r->base += (uint64_t)leaf.n * leaf.k;
        r->trained += (uint64_t)r->rank * ((uint64_t)leaf.n + leaf.k);
    }
    return PARE_OK;
}

/* A target that takes nothing. */
static pare_status fail_target(pare_training *t, const pare_text *text, size_t linears)
{
    const char **const names = PARE_NEW(t->a, const char *, linears);
    char name[PARE_TRAIN_NAME];
    pare_leaf leaf;
    size_t count = 0;
    for (size_t at = 0, block = 0; names && next_linear(t, &at, &block, &leaf, name);)
        if (!(names[count++] = pare_arena_text(t->a, name, strlen(name))))
            return PARE_ENOMEM;
    const char *const near = names ? pare_nearest_name(text->text, names, count) : NULL;
    return pare_recipe_fail(t->cx, text->place,
                            "lora: targets: \"%s\" matches no linear of the blocks; the nearest is "
                            "\"%s\"; write its whole name, what stands behind its last dot, or a "
                            "pattern of one of these",
                            text->text, near ? near : "");
}

/* A last word of names: all linears with it have an adapter. */
typedef struct word {
    char *text;
    bool whole;
} word;

static size_t find_word(const word *words, size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && strcmp(words[i].text, last_word(name)) != 0)
        i++;
    return i;
}

/* The last words of all linears, [*count]. Those of matrices that have no adapters here are not
 * whole. */
static pare_status list_words(pare_training *t, word *words, size_t *count)
{
    const pare_arch *const arch = t->source.config.arch;
    const pare_experts *const experts = arch->experts;
    const char *const others[] = {arch->head, arch->embed, experts ? experts->router : NULL,
                                  experts ? experts->shared_gate : NULL};
    char name[PARE_TRAIN_NAME];
    pare_leaf leaf;
    for (size_t at = 0, block = 0; next_linear(t, &at, &block, &leaf, name);) {
        const size_t i = find_word(words, *count, name);
        if (i == *count)
            words[(*count)++] =
                (word){pare_arena_text(t->a, last_word(name), strlen(last_word(name))), true};
        if (!words[i].text)
            return PARE_ENOMEM;
        words[i].whole &= pare__train_adapted(t, block, &leaf);
    }
    for (size_t j = 0; j < sizeof others / sizeof *others; j++) {
        const size_t i = others[j] ? find_word(words, *count, others[j]) : *count;
        if (i < *count)
            words[i].whole = false;
    }
    return PARE_OK;
}

/* The words by which PEFT finds the same linears. */
static pare_status name_targets(pare_training *t, size_t linears)
{
    word *const words = PARE_NEW(&t->scratch, word, linears);
    const char **const target = PARE_NEW(t->a, const char *, linears);
    char name[PARE_TRAIN_NAME];
    pare_leaf leaf;
    size_t count = 0;
    PARE_TRY(words && target ? list_words(t, words, &count) : PARE_ENOMEM);
    for (size_t i = 0; i < count; i++)
        if (words[i].whole)
            target[t->adapter->targets++] = words[i].text;
    for (size_t at = 0, block = 0; next_linear(t, &at, &block, &leaf, name);) {
        if (words[find_word(words, count, name)].whole || !pare__train_adapted(t, block, &leaf))
            continue;
        if (!(target[t->adapter->targets++] = pare_arena_text(t->a, name, strlen(name))))
            return PARE_ENOMEM;
    }
    t->adapter->target = target;
    return PARE_OK;
}

pare_status pare__train_pick(pare_training *t)
{
    const pare_lora_recipe *const l = &t->recipe.lora;
    const pare_config *const c = &t->source.config;
    const size_t linears = c->blocks * pare_block_parts(c) * PARE_ROLES;
    if (!l->given)
        return PARE_OK;
    if (t->opts.moments8)
        return pare_recipe_fail(t->cx, l->place,
                                "adapters keep their moments in floats: they are few; leave out "
                                "\"moments: 8bit\" or \"lora\"");
    t->adapter = PARE_NEW(t->a, pare_adapter_result, 1);
    t->adapted = PARE_NEW(t->a, bool, linears);
    pare_pattern **const pattern = PARE_NEW(t->a, pare_pattern *, l->targets.count);
    size_t *const hits = PARE_NEW(t->a, size_t, l->targets.count);
    if (!t->adapter || !t->adapted || !pattern || !hits)
        return PARE_ENOMEM;
    *t->adapter = (pare_adapter_result){
        .rank = l->rank, .alpha = l->alpha, .rslora = l->rslora, .merged = l->merge};
    for (size_t i = 0; i < l->targets.count; i++)
        PARE_TRY(pare_pattern_new(t->cx, t->a, l->targets.item[i].text, &pattern[i]));
    PARE_TRY(mark(t, pattern, hits));
    for (size_t i = 0; i < l->targets.count; i++)
        if (!hits[i])
            return fail_target(t, &l->targets.item[i], linears);
    const pare_mark start = pare_arena_mark(&t->scratch);
    const pare_status s = name_targets(t, linears);
    pare_arena_rewind(&t->scratch, start);
    return s;
}

static bool wants(void *self, size_t block, const pare_leaf *leaf)
{
    return pare__train_adapted(self, block, leaf);
}

pare_status pare__train_adapt(pare_training *t)
{
    const pare_choice choice = {.wants = wants, .self = t};
    const pare_lora_opts opts = {.rank = t->adapter->rank,
                                 .alpha = t->adapter->alpha,
                                 .root = t->adapter->rslora,
                                 .seed = t->recipe.common.seed};
    PARE_TRY(pare_trainee_adapt(&t->own, &t->student, &choice, &opts, &t->trainee));
    return pare_trainee_round(t->cx, &t->trainee);
}

/* --- files -------------------------------------------------------------------------------------
 */

/* Tensor i, A and B of one linear after the other. */
static pare_status lay_out(pare_training *t, pare_tensor *tensor, size_t *unit)
{
    char name[PARE_TRAIN_NAME], whole[PARE_TRAIN_NAME + 64];
    pare_leaf leaf;
    size_t i = 0;
    for (size_t at = 0, block = 0; next_linear(t, &at, &block, &leaf, name);) {
        if (!pare__train_adapted(t, block, &leaf))
            continue;
        for (size_t b = 0; b < 2; b++, i++) {
            const size_t n = b ? leaf.n : t->adapter->rank, k = b ? t->adapter->rank : leaf.k;
            const int len = snprintf(whole, sizeof whole, "base_model.model.%s.lora_%c.weight",
                                     name, b ? 'B' : 'A');
            tensor[i] = (pare_tensor){.name = pare_arena_text(t->a, whole, (size_t)len),
                                      .dtype = PARE_F32,
                                      .rank = 2,
                                      .shape = {n, k},
                                      .bytes = (uint64_t)n * k * sizeof(float)};
            unit[i] = t->student.config.blocks;
            if (!tensor[i].name)
                return PARE_ENOMEM;
        }
    }
    PARE_TRY(pare_packed_layout_dense(t->cx, t->a, tensor, unit, i, UINT64_MAX, &t->layout));
    static char file[] = PARE_ADAPTER_MODEL;
    t->layout.shard_name[0] = file;
    return PARE_OK;
}

static pare_status write_factors(pare_training *t, pare_packed_writer *w, const pare_tensor *tensor,
                                 pare_kept_hash *kept)
{
    for (size_t i = 0; i < t->trainee.leaves; i++) {
        const pare_packed_entry *const e = pare_packed_find(&t->layout, tensor[i].name);
        if (!e)
            return pare_fail(t->cx, PARE_EINVAL, "%s: the layout has no such tensor",
                             tensor[i].name);
        PARE_TRY(pare_packed_put(t->cx, w, e, t->trainee.leaf[i].value));
        pare_xxh3(t->trainee.leaf[i].value, (size_t)e->tensor.bytes, kept[i].hash);
        kept[i].name = e->tensor.name;
    }
    return pare_packed_sync(t->cx, w);
}

pare_status pare__train_write_adapter(pare_training *t, pare_train_done *done)
{
    static const char *const name[] = {PARE_ADAPTER_MODEL, PARE_ADAPTER_CONFIG};
    const size_t tensors = t->trainee.leaves;
    pare_tensor *const tensor = PARE_NEW(t->a, pare_tensor, tensors);
    size_t *const unit = PARE_NEW(t->a, size_t, tensors);
    pare_kept_hash *const kept = PARE_NEW(t->a, pare_kept_hash, tensors);
    pare_packed_writer *w = NULL;
    char *text;
    size_t len;
    PARE_TRY(tensor && unit && kept ? lay_out(t, tensor, unit) : PARE_ENOMEM);
    pare_status s = pare_packed_create(t->cx, t->place.partial, &t->layout, &w);
    if (s == PARE_OK)
        s = write_factors(t, w, tensor, kept);
    pare_packed_close(t->cx, w);
    PARE_TRY(s);
    done->bytes = t->layout.file_bytes[0];
    PARE_TRY(pare_adapter_config(t->cx, t->a, t->adapter, t->model_path, &text, &len));
    PARE_TRY(pare__train_file(t, PARE_ADAPTER_CONFIG, text, len));
    PARE_TRY(pare__train_file(t, "recipe.yaml", t->written, t->written_len));
    return pare__train_manifest(t, kept, tensors, name, 2);
}
