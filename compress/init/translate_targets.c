/* Targets and names to ignore: exact names, classes of modules, and "re:" with an expression of
 * Python that must match the beginning of a name. Ours must match the whole. */
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

/* Their classes as ours write them, in a set or outside; other characters as they are. */
static char *with_sets(pare_arena *a, const char *text)
{
    static const char letters[] = "dws";
    static const char *const sets[] = {"0-9", "A-Za-z0-9_", " \t"};
    const size_t size = strlen(text) * sizeof "[A-Za-z0-9_]" + 1;
    char *const out = PARE_NEW(a, char, size);
    size_t n = 0;
    for (bool set = false; out && *text; text++) {
        const char *const letter = text[0] == '\\' && text[1] ? strchr(letters, text[1]) : NULL;
        const bool escape = text[0] == '\\' && text[1];
        if (letter)
            n += (size_t)snprintf(out + n, size - n, set ? "%s" : "[%s]", sets[letter - letters]);
        else
            n += (size_t)snprintf(out + n, size - n, "%.*s", escape ? 2 : 1, text);
        set = escape ? set : text[0] == '[' || (set && text[0] != ']');
        text += escape;
    }
    return out;
}

/* Our expression for `their`, that stands behind "re:". */
static char *expression(pare_arena *a, const char *their)
{
    const char *const text = with_sets(a, their);
    if (!text)
        return NULL;
    size_t len = strlen(text);
    const bool closed = ends_with(text, len, "$") && !ends_with(text, len, "\\$");
    len = cut_weight(text, closed ? len - 1 : len);
    const bool open = !closed && !ends_with(text, len, ".*");
    const bool group = memchr(text, '|', len) != NULL;
    const size_t size = len + sizeof "re:().*";
    char *const out = PARE_NEW(a, char, size);
    if (out)
        (void)snprintf(out, size, "re:%s%.*s%s%s", group ? "(" : "", (int)len, text,
                       group ? ")" : "", open ? ".*" : "");
    return out;
}

/* What lies below the modules that an expression of ours matches. */
static char *below(pare_arena *a, const char *text)
{
    const char *const inner = text + strlen("re:");
    const size_t size = strlen(inner) + sizeof "re:()\\..*";
    char *const out = PARE_NEW(a, char, size);
    if (out)
        (void)snprintf(out, size, "re:(%s)\\..*", inner);
    return out;
}

/* True when a pattern selects a linear of some block. */
static bool selects(const pare__draft *d, const pare_pattern *p)
{
    const pare_config *const c = &d->model.config;
    for (size_t b = 0; b < c->blocks; b++)
        for (size_t part = 0; part < pare_block_parts(c); part++)
            for (size_t role = 0; role < PARE_ROLES; role++) {
                const char *const name =
                    pare_block_linear(&d->model.block[b], part, (pare_role)role)->name;
                if (name && pare_pattern_matches(p, name))
                    return true;
            }
    return false;
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

static void read_one(pare__translation *t, const pare_yaml *node, bool skip, pare__patterns *out)
{
    pare_ctx *const cx = t->draft.cx;
    pare_arena *const a = t->draft.a;
    if (node->kind != PARE_YAML_SCALAR || node->text[0] == '\0') {
        pare__leave(t, node, "expected the name of a module or re: and an expression");
        return;
    }
    if (is_all(node->text)) {
        out->all = true;
        return;
    }
    if (is_class(node->text)) {
        pare__leave(t, node,
                    "pare selects by the names of modules, not by classes; write a name "
                    "such as \"*.down_proj\"");
        return;
    }
    const bool is_expression = strncmp(node->text, "re:", 3) == 0;
    if (!is_expression && strpbrk(node->text, "*?[")) {
        pare__leave(t, node, "no name of a module has such characters");
        return;
    }
    char *text = is_expression
                     ? expression(a, node->text + 3)
                     : pare_arena_text(a, node->text, cut_weight(node->text, strlen(node->text)));
    pare_pattern *p = NULL;
    pare_status s = text ? pare_pattern_new(cx, a, text, &p) : PARE_ENOMEM;
    if (s == PARE_OK && is_expression && !skip && !selects(&t->draft, p)) {
        /* targets may be whole blocks: all linears in them */
        text = below(a, text);
        s = text ? pare_pattern_new(cx, a, text, &p) : PARE_ENOMEM;
    }
    if (s == PARE_EUSAGE) {
        pare__leave(t, node, cx->what);
        pare_ctx_clear(cx);
    } else if (s != PARE_OK) {
        t->status = s;
    } else if (selects(&t->draft, p)) {
        add(t, text, out);
    } else if (!skip) {
        pare__leave(t, node,
                    "no linear in the blocks of this model has such a name; other tensors "
                    "keep their type");
    }
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
}
