/* Targets and names to ignore: exact names, classes of modules, and "re:" with an expression of
 * Python that must match the beginning of a name, as ours must. Names may be those of the files. */
#include <stdio.h>
#include <string.h>

#include "compress/init/translate_internal.h"
#include "recipes/pattern.h"

static bool ends_with(const char *text, size_t len, const char *end)
{
    const size_t n = strlen(end);
    return len >= n && strncmp(text + len - n, end, n) == 0;
}

/* Cuts ".weight" at the end: it names the tensor of a module. */
static size_t cut_weight(const char *text, size_t len)
{
    if (ends_with(text, len, "\\.weight"))
        return len - strlen("\\.weight");
    return ends_with(text, len, ".weight") ? len - strlen(".weight") : len;
}

/* Our expression for `their`, that stands behind "re:": the same, of a module where theirs is of
 * its tensor. */
static char *expression(pare_arena *a, const char *their)
{
    size_t len = strlen(their);
    const bool closed = ends_with(their, len, "$") && !ends_with(their, len, "\\$");
    const size_t module = cut_weight(their, closed ? len - 1 : len);
    const bool cut = module < (closed ? len - 1 : len);
    const size_t size = len + sizeof "re:$";
    char *const out = PARE_NEW(a, char, size);
    if (out)
        (void)snprintf(out, size, "re:%.*s%s", (int)(cut ? module : len), their, cut ? "$" : "");
    return out;
}

/* What lies below the modules that a pattern of ours matches; an expression may end with $. */
static char *below(pare_arena *a, const char *text)
{
    const bool is_expression = strncmp(text, "re:", 3) == 0;
    const char *const inner = text + (is_expression ? 3 : 0);
    const size_t len = strlen(inner), size = len + sizeof "re:(?:)\\.";
    const bool closed = ends_with(inner, len, "$") && !ends_with(inner, len, "\\$");
    char *const out = PARE_NEW(a, char, size);
    if (out && is_expression)
        (void)snprintf(out, size, "re:(?:%.*s)\\.", (int)(closed ? len - 1 : len), inner);
    else if (out)
        (void)snprintf(out, size, "%s.*", inner);
    return out;
}

static void add(pare__translation *t, const char *text, pare__patterns *out)
{
    const char **const all = PARE_NEW(t->draft.a, const char *, out->count + 1);
    if (!all) {
        t->status = PARE_ENOMEM;
        return;
    }
    for (size_t i = 0; i < out->count; i++)
        all[i] = out->text[i];
    all[out->count++] = text;
    out->text = all;
}

/* "Linear", "LlamaRMSNorm": a class of modules begins with a capital and has no dots. */
static bool is_class(const char *text)
{
    return text[0] >= 'A' && text[0] <= 'Z' && !strchr(text, '.');
}

static bool is_all(const char *text)
{
    return strcmp(text, "Linear") == 0 || strcmp(text, "__ALL__") == 0 ||
           strcmp(text, "__ALL_PRUNABLE__") == 0;
}

/* Adds the pattern if it selects linears of the blocks, which become true in got [slots]. */
static pare_status add_selecting(pare__translation *t, const char *text, bool *got,
                                 pare__patterns *out)
{
    const pare__draft *const d = &t->draft;
    pare_pattern *p = NULL;
    bool any = false;
    if (!text)
        return PARE_ENOMEM;
    PARE_TRY(pare_pattern_new(d->cx, d->a, text, &p));
    for (size_t slot = 0; slot < pare__draft_slots(d); slot++) {
        const char *const name = pare__draft_linear(d, slot)->name;
        bool hit = false;
        if (name)
            PARE_TRY(pare_pattern_matches(d->cx, p, name, &hit));
        got[slot] = got[slot] || hit;
        any = any || hit;
    }
    if (any)
        add(t, text, out);
    return PARE_OK;
}

/* Adds what selects want [slots]: `text`, and what lies below, for a tensor of several linears.
 * *exact: they select that and no more. */
static pare_status add_both(pare__translation *t, const char *text, const bool *want,
                            pare__patterns *out, bool *exact)
{
    const size_t slots = pare__draft_slots(&t->draft), size = slots * sizeof *want;
    bool *const got = PARE_NEW(t->draft.a, bool, slots);
    if (!got)
        return PARE_ENOMEM;
    PARE_TRY(add_selecting(t, text, got, out));
    *exact = memcmp(got, want, size) == 0;
    if (*exact)
        return PARE_OK;
    PARE_TRY(add_selecting(t, below(t->draft.a, text), got, out));
    *exact = memcmp(got, want, size) == 0;
    return PARE_OK;
}

static const char *why_other(const pare__named *is, bool skip)
{
    if (is->head)
        return skip ? "the head keeps its type without a key \"head\" (pare help tables)"
                    : "the head keeps its type: add a key \"head\" (pare help tables)";
    if (is->router)
        return "routers and gates of shared experts keep their type";
    if (is->kept)
        return "no pass takes what this tensor of the checkpoint holds, so it keeps its type";
    return skip ? "no linear in the blocks of this model has such a name, so there is nothing to "
                  "skip"
                : "no linear in the blocks of this model has such a name; other tensors keep "
                  "their type";
}

/* What is not among the linears of the blocks. Targets may be whole blocks: all linears in them. */
static pare_status take_other(pare__translation *t, const pare_yaml *node, const char *text,
                              const pare_pattern *p, const pare__named *is, bool skip,
                              pare__patterns *out)
{
    const size_t before = out->count;
    bool known = true;
    if (skip && !is->head && !is->router && !is->kept)
        PARE_TRY(pare__names_known(t, p, &known));
    if (!known) {
        pare__doubt(t, node,
                    "no tensor of this model has such a name, so there is nothing to skip; correct "
                    "it if it is misspelt");
        return PARE_OK;
    }
    if (!skip && !is->head && strncmp(text, "re:", 3) == 0)
        PARE_TRY(add_selecting(t, below(t->draft.a, text), is->linear, out));
    if (out->count == before)
        (skip ? pare__imply : pare__leave)(t, node, why_other(is, skip));
    return PARE_OK;
}

/* Refuses a name of the files that does not tell linears of ours. */
static pare_status refuse(const pare__translation *t, const pare_yaml *node, bool skip,
                          const pare__named *is)
{
    const pare__stored_name *const s = is->lost ? is->lost : is->stored;
    return pare_recipe_fail(
        t->draft.cx, node->place,
        "%s: \"%s\" matches %s by a name of the checkpoint, and pare gives the linears in it names "
        "of their own%s%s: write names that \"pare inspect\" lists",
        skip ? "ignore" : "targets", node->text, s ? s->whole : "linears",
        s && s->part ? ", such as " : "", s && s->part ? s->part : "");
}

/* `node` as our patterns, whose selection it is. PARE_EUSAGE: not understood. */
static pare_status take_pattern(pare__translation *t, const pare_yaml *node, bool skip,
                                pare__patterns *out)
{
    pare__draft *const d = &t->draft;
    const bool is_expression = strncmp(node->text, "re:", 3) == 0;
    const size_t len = strlen(node->text);
    char *text = is_expression ? expression(d->a, node->text + 3)
                               : pare_arena_text(d->a, node->text, cut_weight(node->text, len));
    pare_pattern *p = NULL;
    pare__named is;
    bool any = false, exact = true;
    if (!text)
        return PARE_ENOMEM;
    PARE_TRY(pare_pattern_new(d->cx, d->a, text, &p));
    PARE_TRY(pare__names_match(t, p, &is));
    for (size_t slot = 0; slot < pare__draft_slots(d); slot++)
        any = any || is.linear[slot];
    if (d->checkpoint.is_part)
        text = pare__name_in_text(d->a, text);
    if (!text)
        return PARE_ENOMEM;
    if (any)
        PARE_TRY(add_both(t, text, is.linear, out, &exact));
    if (!exact || is.lost || (!any && !is.head && is.stored)) {
        t->status = refuse(t, node, skip, &is);
        return PARE_OK;
    }
    out->head |= is.head && (any || skip);
    return any ? PARE_OK : take_other(t, node, text, p, &is, skip, out);
}

static void read_one(pare__translation *t, const pare_yaml *node, bool skip, pare__patterns *out)
{
    pare_ctx *const cx = t->draft.cx;
    if (t->status != PARE_OK) /* a second failure would add to the message, or take it away */
        return;
    if (node->kind != PARE_YAML_SCALAR || node->text[0] == '\0') {
        pare__leave(t, node, "expected the name of a module or re: and an expression");
        return;
    }
    if (is_all(node->text)) {
        out->all = out->head = true;
        return;
    }
    if (is_class(node->text)) {
        pare__leave(t, node,
                    "pare selects by the names of modules, not by classes; write a name "
                    "such as \"*.down_proj\"");
        return;
    }
    if (strncmp(node->text, "re:", 3) != 0 && strpbrk(node->text, "*?[")) {
        pare__leave(t, node, "no name of a module has such characters");
        return;
    }
    const pare_status s = take_pattern(t, node, skip, out);
    if (s == PARE_EUSAGE && skip) { /* without it the recipe would take what is to stay */
        char why[sizeof cx->what];
        (void)snprintf(why, sizeof why, "%s", cx->what);
        pare_ctx_clear(cx);
        t->status = pare_recipe_fail(cx, node->place, "%s: correct it, or take it out", why);
    } else if (s == PARE_EUSAGE) {
        pare__leave(t, node, cx->what);
        pare_ctx_clear(cx);
    } else if (s != PARE_OK) {
        t->status = s;
    }
}

void pare__patterns_leave_head(pare__translation *t, const pare_yaml *node,
                               const pare__patterns *targets, const pare__patterns *skip)
{
    char why[256];
    if (!(targets->all || targets->head) || skip->head)
        return;
    (void)snprintf(why, sizeof why,
                   "%.64s, the head of this model, is among its targets, which passes do not "
                   "quantize: it keeps its type; put it into ignore by this name, or add a key "
                   "\"head\" (pare help tables)",
                   t->draft.model.config.arch->head);
    pare__leave(t, node, why);
}

void pare__patterns_read(pare__translation *t, const pare_yaml *list, bool skip,
                         pare__patterns *out)
{
    *out = (pare__patterns){0};
    if (!list || pare_yaml_is_null(list))
        return;
    if (list->kind != PARE_YAML_LIST) {
        read_one(t, list, skip, out);
        return;
    }
    for (const pare_yaml *e = list->first; e; e = e->next)
        read_one(t, e, skip, out);
}

void pare__patterns_join(pare__translation *t, pare__patterns *to, const pare__patterns *from)
{
    for (size_t i = 0; i < from->count; i++)
        add(t, from->text[i], to);
    to->head |= from->head;
}
