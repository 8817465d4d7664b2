/* A tensor that a model needs and a checkpoint lacks, in words that say what to do. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "runtime/arch.h"

enum { NAME = 256, ENTRY = 128 };

/* The first name that ends in `end`, which begins with a dot; NULL without one. */
static const char *ends_in(const pare_checkpoint *ck, const char *end)
{
    const size_t n = strlen(end);
    for (size_t i = 0; i < ck->tensors; i++) {
        const size_t len = strlen(ck->tensor[i].name);
        if (len > n && strcmp(ck->tensor[i].name + len - n, end) == 0)
            return ck->tensor[i].name;
    }
    return NULL;
}

/* The same tensor under a name with another beginning, which has no number of a block in it. */
static const char *elsewhere(const pare_checkpoint *ck, const pare_arch *arch, const char *name)
{
    char end[NAME + 1];
    const size_t prefix = arch->prefix ? strlen(arch->prefix) : 0;
    const bool has = prefix && strncmp(name, arch->prefix, prefix) == 0;
    (void)snprintf(end, sizeof end, ".%s", name + (has ? prefix : 0));
    const char *const found = ends_in(ck, end);
    const char *const number = found ? strpbrk(found, "0123456789") : NULL;
    return number && number < found + strlen(found) - strlen(end) ? NULL : found;
}

/* All experts of a block in one tensor, as transformers 5 has them in memory. */
static const char *stacked(const pare_checkpoint *ck, const pare_arch *arch, const char *name)
{
    static const char *const ends[] = {".experts.gate_up_proj", ".experts.gate_up_proj_packed"};
    const char *found = NULL;
    for (size_t i = 0; arch->experts && strstr(name, ".experts.") && !found && i < 2; i++)
        found = ends_in(ck, ends[i]);
    return found;
}

/* Whether `rest` is of an expert, and the bytes in front of its number. */
static bool is_expert(const pare_arch *arch, const char *rest, size_t *stem)
{
    *stem = arch->experts ? strcspn(arch->experts->prefix, "%") : 0;
    return *stem && strncmp(rest, arch->experts->prefix, *stem) == 0;
}

size_t pare__fused_stem(const pare_arch *arch, const char *rest)
{
    const pare_recurrence_names *const state = arch->recurrent ? arch->recurrent->recurrence : NULL;
    const char *const fused[] = {arch->fused[0].name, arch->fused[1].name,
                                 state ? state->fused[0] : NULL, state ? state->fused[1] : NULL};
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++) {
        const size_t len = fused[i] ? strlen(fused[i]) : 0;
        if (len && strncmp(rest, fused[i], len) == 0 && rest[len] == '.')
            return len;
    }
    return 0;
}

/* What stands behind the name of a linear at the start of `rest`; NULL: it is of another. */
static const char *suffix_of(const char *rest, const char *linear)
{
    const size_t len = linear ? strlen(linear) : 0;
    return len && strncmp(rest, linear, len) == 0 && rest[len] == '.' ? rest + len : NULL;
}

const char *pare__name_in_files(const pare_checkpoint *ck, const pare_arch *arch, const char *name,
                                char *text)
{
    size_t block;
    const char *const rest = ck->packed ? NULL : pare_arch_inside(arch, name, &block);
    const size_t stem = rest ? pare__fused_stem(arch, rest) : 0;
    const char *suffix = NULL;
    for (const pare_arch *a = stem ? arch : NULL; a && !suffix; a = a->recurrent) {
        for (size_t role = 0; role < PARE_ROLES && !suffix; role++)
            suffix = suffix_of(rest, a->linear[role].name);
        if (a->recurrence && !suffix)
            suffix = suffix_of(rest, a->recurrence->beta);
        if (a->recurrence && !suffix)
            suffix = suffix_of(rest, a->recurrence->decay);
    }
    (void)snprintf(text, NAME, "%.*s%s", suffix ? (int)(rest + stem - name) : NAME - 1, name,
                   suffix ? suffix : "");
    return text;
}

static bool says(const pare_checkpoint *ck, const char *key)
{
    const pare_json_type is = pare_json_type_of(pare_json_get(ck->config, key));
    return is != PARE_JSON_ABSENT && is != PARE_JSON_NULL;
}

/* Whether blocks of the family have a linear or norm of this name. */
static bool has_part(const pare_arch *arch, const char *rest)
{
    bool has = false;
    for (size_t role = 0; role < PARE_ROLES; role++)
        has |= suffix_of(rest, arch->linear[role].name) != NULL;
    for (pare_norm n = 0; n < PARE_NORMS; n++)
        has |= suffix_of(rest, arch->inner_norm[n]) != NULL;
    return has;
}

const char *pare__config_entry(const pare_checkpoint *ck, const pare_arch *arch, const char *name,
                               char *text)
{
    size_t block;
    const char *key = NULL;
    bool unless = false;
    const pare_arch *const whole = pare_arch_find(arch->model_type);
    const char *const rest =
        ck->packed || ck->arranged ? NULL : pare_arch_inside(arch, name, &block);
    for (size_t role = 0; rest && role < PARE_ROLES; role++) {
        const pare_linear_desc *const d = &arch->linear[role];
        const char *const suffix = suffix_of(rest, d->name);
        if (suffix && strcmp(suffix, ".bias") == 0 &&
            (d->bias == PARE_BIAS_ASKED || d->bias == PARE_BIAS_UNLESS)) {
            key = pare__config_bias_key(d);
            unless = d->bias == PARE_BIAS_UNLESS;
        }
    }
    if (rest && !key && whole && whole->plain &&
        has_part(whole, rest) != has_part(whole->plain, rest))
        key = whole->latent_eps > 0 ? "q_lora_rank" : "use_qk_norm";
    const pare_json *const v = key ? pare_json_get(ck->config, key) : NULL;
    const pare_json_type is = pare_json_type_of(v);
    (void)snprintf(text, ENTRY, "%s%s%s", key ? ": " : "", key ? key : "",
                   !key                       ? ""
                   : unless && !says(ck, key) ? " is not false"
                   : is == PARE_JSON_ABSENT   ? " is not there"
                   : is == PARE_JSON_NULL     ? " is null"
                   : is != PARE_JSON_BOOL     ? " is a number"
                   : pare_json_bool(v, false) ? " is true"
                                              : " is false");
    return text;
}

/* Of a family that has blocks with and without experts: a tensor of the other kind of block than
 * config.json says. */
static pare_status fail_kind(const pare_checkpoint *ck, const pare_arch *arch, const char *base,
                             const char *suffix)
{
    char name[NAME];
    size_t block, stem;
    const char *const rest = arch->dense ? pare_arch_inside(arch, base, &block) : NULL;
    if (!rest)
        return PARE_OK;
    const char *const shared = arch->linear[PARE_ROLE_GATE].name;
    const char *const dense = arch->dense->linear[PARE_ROLE_GATE].name;
    const char *const router = arch->experts->router;
    const bool mixed = is_expert(arch, rest, &stem) || strcmp(rest, router) == 0 ||
                       (shared && strcmp(rest, shared) == 0);
    if (!mixed && strcmp(rest, dense) != 0)
        return PARE_OK;
    (void)snprintf(name, sizeof name, "%.*s%s.weight", (int)(rest - base), base,
                   mixed ? dense : router);
    if (!pare_checkpoint_find(ck, name))
        return PARE_OK;
    return pare_fail(ck->cx, PARE_EFORMAT,
                     "%s: tensor %s%s is missing: block %zu has %sexperts by config.json (%s), but "
                     "the file has %s, of a block %s experts",
                     ck->path, base, suffix, block, mixed ? "" : "no ",
                     arch->experts->inward ? "moe_layers, interleave_moe_layer_step"
                                           : "first_k_dense_replace",
                     name, mixed ? "without" : "with");
}

/* Of a family that has blocks with attention and with a recurrent state: likewise. */
static pare_status fail_state(const pare_checkpoint *ck, const pare_arch *arch, const char *base,
                              const char *suffix)
{
    char name[NAME], text[2][NAME];
    size_t block;
    const char *const rest = arch->recurrent ? pare_arch_inside(arch, base, &block) : NULL;
    if (!rest)
        return PARE_OK;
    const char *const query = arch->linear[PARE_ROLE_Q].name;
    const bool state = strcmp(rest, arch->recurrent->linear[PARE_ROLE_Q].name) == 0;
    if (!state && strcmp(rest, query) != 0)
        return PARE_OK;
    (void)snprintf(name, sizeof name, "%.*s%s.weight", (int)(rest - base), base,
                   state ? query : arch->recurrent->recurrence->conv);
    if (!pare_checkpoint_find(ck, name))
        return PARE_OK;
    (void)snprintf(text[0], NAME, "%s%s", base, suffix);
    return pare_fail(
        ck->cx, PARE_EFORMAT,
        "%s: tensor %s is missing: block %zu has %s by config.json (%s), but the file has %s, of a "
        "block with %s",
        ck->path, pare__name_in_files(ck, arch, text[0], text[1]), block,
        state ? "a recurrent state" : "attention",
        says(ck, "layer_types")               ? "layer_types"
        : says(ck, "full_attention_interval") ? "full_attention_interval"
                                              : "the default of full_attention_interval",
        name, state ? "attention" : "a recurrent state");
}

/* Of the first expert of a block, in a family whose files hold all of them in one tensor. */
static pare_status fail_stack(const pare_checkpoint *ck, const pare_arch *arch, const char *base,
                              const char *suffix)
{
    size_t block, stem;
    const char *const rest = pare_arch_inside(arch, base, &block);
    if (!rest || !is_expert(arch, rest, &stem) || !arch->experts->stacking ||
        strncmp(rest + stem, "0.", 2) != 0)
        return PARE_OK;
    const bool down = strcmp(rest + stem + 2, arch->experts->linear[PARE_ROLE_DOWN].name) == 0;
    return pare_fail(ck->cx, PARE_EFORMAT,
                     "%s: tensor %.*s%s%s is missing, which holds all experts of block %zu; nor is "
                     "there one for each of them, %s%s and so on",
                     ck->path, (int)(rest + stem - base), base, down ? "down_proj" : "gate_up_proj",
                     strcmp(suffix, ".bias") == 0 ? "_bias" : "", block, base, suffix);
}

pare_status pare__checkpoint_fail_missing(const pare_checkpoint *ck, const pare_arch *arch,
                                          const char *base, const char *suffix)
{
    char name[NAME];
    const char *const slash = strrchr(ck->path, '/'), *is;
    (void)snprintf(name, sizeof name, "%s%s", base, suffix);
    if (ck->packed || ck->arranged)
        return pare_fail(ck->cx, PARE_EFORMAT, "%s: tensor %s is missing", ck->path, name);
    if (fnmatch("*-[0-9]*-of-[0-9]*", slash ? slash + 1 : ck->path, 0) == 0)
        return pare_fail(ck->cx, PARE_EFORMAT,
                         "%s: tensor %s is missing: by its name this is one of several files of a "
                         "model; give their directory",
                         ck->path, name);
    PARE_TRY(fail_kind(ck, arch, base, suffix));
    PARE_TRY(fail_state(ck, arch, base, suffix));
    PARE_TRY(fail_stack(ck, arch, base, suffix));
    if ((is = stacked(ck, arch, name)) != NULL)
        return pare_fail(ck->cx, PARE_ENOTSUP,
                         "%s: tensor %s is missing: %s holds all experts of a block in one "
                         "tensor, which pare does not read; save the model with "
                         "save_original_format=True (transformers 5)",
                         ck->path, name, is);
    if ((is = elsewhere(ck, arch, name)) != NULL)
        return pare_fail(ck->cx, PARE_EFORMAT,
                         "%s: tensor %s is missing; %s is there: names begin in another way than "
                         "those of a model of type %s, as in a model with more parts or saved "
                         "inside a wrapper; save the language model by itself",
                         ck->path, name, is, arch->model_type);
    char whole[NAME], text[ENTRY];
    const char *const entry = pare__config_entry(ck, arch, name, text);
    const pare_status s = pare_fail(ck->cx, PARE_EFORMAT, "%s: tensor %s is missing%s%s", ck->path,
                                    pare__name_in_files(ck, arch, name, whole),
                                    entry[0] ? ", which config.json asks for" : "", entry);
    return pare__config_fail_usual(ck, s);
}

/* Who writes such a tensor. */
static const char *why_shape(const pare_tensor *t)
{
    bool empty = false;
    for (size_t i = 0; i < t->rank; i++)
        empty |= t->shape[i] == 0;
    return empty ? ": it is empty, as DeepSpeed ZeRO-3 and FSDP save what other processes hold; "
                   "gather the weights when you save the model (zero_to_fp32.py does so later)"
                 : "";
}

pare_status pare__checkpoint_fail_shape(const pare_checkpoint *ck, const pare_tensor *t,
                                        size_t rank, const uint64_t *shape)
{
    char text[2][NAME] = {"", ""};
    const uint64_t *const sizes[2] = {t->shape, shape};
    const size_t ranks[2] = {t->rank, rank};
    for (size_t j = 0; j < 2; j++)
        for (size_t i = 0, at = 0; i < ranks[j] && at < NAME; i++)
            at += (size_t)snprintf(text[j] + at, NAME - at, "%s%llu", i ? ", " : "",
                                   (unsigned long long)sizes[j][i]);
    const pare_status s = pare_fail(
        ck->cx, PARE_EFORMAT, "%s: tensor %s has shape [%s], config.json asks for [%s]%s",
        ck->file[ck->tensor_file[t - ck->tensor]].path, t->name, text[0], text[1], why_shape(t));
    return pare__config_fail_usual(ck, s);
}
