/* What the checkpoint calls the linears of the blocks, where that is not what pare calls them: a
 * tensor of several linears ("qkv_proj" of "qkv_proj.q"), and the language_model. in the names of a
 * model of texts and images. */
#include <stdio.h>
#include <string.h>

#include "compress/init/translate_internal.h"

char *pare__name_in_text(pare_arena *a, const char *text)
{
    static const char *const word[] = {"language_model.", "language_model\\."};
    char *const out = pare_arena_text(a, text, strlen(text));
    for (size_t i = 0; out && i < sizeof word / sizeof *word; i++)
        for (char *at = strstr(out, word[i]); at; at = strstr(at, word[i]))
            memmove(at, at + strlen(word[i]), strlen(at + strlen(word[i])) + 1);
    return out;
}

/* *hit: the pattern matches the name, or one that the files may have for it. */
static pare_status matches(const pare__draft *d, const pare_pattern *p, const char *name, bool *hit)
{
    static const char *const front[][2] = {{"", "language_model."},
                                           {"model.", "model.language_model."}};
    char whole[256];
    PARE_TRY(pare_pattern_matches(d->cx, p, name, hit));
    for (size_t i = 0; d->checkpoint.is_part && !*hit && i < 2; i++) {
        const size_t len = strlen(front[i][0]);
        if (strncmp(name, front[i][0], len) == 0 &&
            snprintf(whole, sizeof whole, "%s%s", front[i][1], name + len) < (int)sizeof whole)
            PARE_TRY(pare_pattern_matches(d->cx, p, whole, hit));
    }
    return PARE_OK;
}

static bool lies_in(const char *name, const char *module)
{
    const size_t len = strlen(module);
    return strncmp(name, module, len) == 0 && name[len] == '.';
}

/* Its name with `end` behind it, or NULL: no memory. */
static char *join(pare_arena *a, const char *name, const char *end)
{
    const size_t size = strlen(name) + strlen(end) + 1;
    char *const out = PARE_NEW(a, char, size);
    if (out)
        (void)snprintf(out, size, "%s%s", name, end);
    return out;
}

/* Whether pare has matrices in the module, under names of their own. */
static bool has_matrix(const pare_checkpoint *ck, const char *module)
{
    for (size_t i = 0; i < ck->tensors; i++)
        if (ck->tensor[i].rank == 2 && lies_in(ck->tensor[i].name, module))
            return true;
    return false;
}

/* Notes a tensor of the files, unless pare has it under its name. Vectors are no linears. */
static pare_status note(pare__translation *t, const pare_tensor *tensor)
{
    const pare__draft *const d = &t->draft;
    const char *const prefix = d->model.config.arch->prefix;
    if (tensor->rank < 2)
        return PARE_OK;
    const char *name = tensor->name;
    if (d->checkpoint.is_part)
        name = pare__name_in_text(d->a, name);
    if (!name)
        return PARE_ENOMEM;
    if (pare_checkpoint_find(&d->checkpoint, name))
        return PARE_OK;
    if (prefix && strncmp(name, prefix, strlen(prefix)) != 0)
        name = join(d->a, prefix, name);
    if (!name)
        return PARE_ENOMEM;
    const char *const dot = strrchr(name, '.');
    if (!dot || pare_checkpoint_find(&d->checkpoint, name))
        return PARE_OK;
    const char *const module = pare_arena_text(d->a, name, (size_t)(dot - name));
    const char *const weight = module ? join(d->a, module, ".weight") : NULL;
    if (!weight)
        return PARE_ENOMEM;
    pare__stored_name *const out = &t->stored[t->storeds];
    *out =
        (pare__stored_name){.whole = strcmp(dot, ".weight") == 0 ? module : name, .module = module};
    for (size_t slot = 0; slot < pare__draft_slots(d) && !out->part; slot++) {
        const char *const linear = pare__draft_linear(d, slot)->name;
        out->part = linear && lies_in(linear, module) ? linear : NULL;
    }
    out->kept = !out->part && has_matrix(&d->checkpoint, module);
    /* scales and zeros of a linear lie under its name */
    t->storeds += !pare_checkpoint_find(&d->checkpoint, weight);
    return PARE_OK;
}

/* Notes what the files call a tensor, and that with the prefix of the family. */
static pare_status note_known(pare__translation *t, const pare_tensor *tensor)
{
    pare_arena *const a = t->draft.a;
    const char *const prefix = t->draft.model.config.arch->prefix;
    const char *const name = pare_arena_text(a, tensor->name, strlen(tensor->name));
    if (!name)
        return PARE_ENOMEM;
    t->known[t->knowns++] = name;
    if (!prefix || strncmp(name, prefix, strlen(prefix)) == 0)
        return PARE_OK;
    t->known[t->knowns] = join(a, prefix, name);
    return t->known[t->knowns++] ? PARE_OK : PARE_ENOMEM;
}

pare_status pare__names_read(pare__translation *t)
{
    pare_checkpoint files = {0};
    pare_status s =
        pare_checkpoint_open_plain(t->draft.cx, t->draft.a, t->draft.init->model_path, &files);
    if (s == PARE_OK) {
        t->stored = PARE_NEW(t->draft.a, pare__stored_name, files.tensors);
        t->known = PARE_NEW(t->draft.a, const char *, 2 * files.tensors);
        s = t->stored && t->known ? PARE_OK : PARE_ENOMEM;
    }
    for (size_t i = 0; i < files.tensors && s == PARE_OK; i++) {
        s = note(t, &files.tensor[i]);
        s = s == PARE_OK ? note_known(t, &files.tensor[i]) : s;
    }
    pare_checkpoint_close(&files);
    return s;
}

static pare_status match_stored(const pare__translation *t, const pare_pattern *p, pare__named *out)
{
    const pare__draft *const d = &t->draft;
    for (size_t i = 0; i < t->storeds; i++) {
        const pare__stored_name *const stored = &t->stored[i];
        bool whole, module = false;
        PARE_TRY(matches(d, p, stored->whole, &whole));
        if (stored->part)
            PARE_TRY(matches(d, p, stored->module, &module));
        out->kept |= whole && stored->kept;
        if ((whole || module) && !stored->kept && !out->stored)
            out->stored = stored;
        if (whole && !module && stored->part && !out->lost)
            out->lost = stored;
        for (size_t slot = 0; slot < pare__draft_slots(d) && module; slot++) {
            const char *const name = pare__draft_linear(d, slot)->name;
            out->linear[slot] = out->linear[slot] || (name && lies_in(name, stored->module));
        }
    }
    return PARE_OK;
}

static pare_status match_routers(const pare__draft *d, const pare_pattern *p, bool *hit)
{
    *hit = false;
    for (size_t b = 0; b < d->model.config.blocks; b++) {
        const pare_block *const block = &d->model.block[b];
        const char *const name[] = {block->router.name, block->shared_gate.name};
        for (size_t i = 0; i < sizeof name / sizeof *name && !*hit; i++)
            if (name[i])
                PARE_TRY(matches(d, p, name[i], hit));
    }
    return PARE_OK;
}

pare_status pare__names_match(const pare__translation *t, const pare_pattern *p, pare__named *out)
{
    const pare__draft *const d = &t->draft;
    *out = (pare__named){.linear = PARE_NEW(d->a, bool, pare__draft_slots(d))};
    if (!out->linear)
        return PARE_ENOMEM;
    for (size_t slot = 0; slot < pare__draft_slots(d); slot++) {
        const char *const name = pare__draft_linear(d, slot)->name;
        if (name)
            PARE_TRY(matches(d, p, name, &out->linear[slot]));
    }
    PARE_TRY(match_stored(t, p, out));
    PARE_TRY(match_routers(d, p, &out->router));
    return matches(d, p, d->model.config.arch->head, &out->head);
}

pare_status pare__names_known(const pare__translation *t, const pare_pattern *p, bool *known)
{
    char name[512];
    *known = false;
    for (size_t i = 0; i < t->knowns && !*known; i++) {
        PARE_TRY(matches(&t->draft, p, t->known[i], known));
        (void)snprintf(name, sizeof name, "%s", t->known[i]);
        for (char *dot = strrchr(name, '.'); dot && !*known; dot = strrchr(name, '.')) {
            *dot = '\0';
            PARE_TRY(matches(&t->draft, p, name, known));
        }
    }
    return PARE_OK;
}
