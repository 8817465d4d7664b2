#include <stdio.h>
#include <string.h>

#include "compress/artifact/sparsity_text.h"
#include "compress/cli/plan_fold.h"
#include "compress/cli/plan_print.h"

const char *pare__plan_correct(const pare_plan *p, size_t step, char *text, size_t size)
{
    const pare_step *const s = &p->recipe.step[step];
    const pare_param *const params = pare_passes[s->pass]->params;
    for (size_t i = 0; params[i].name; i++)
        if (strcmp(params[i].name, "correct") == 0) {
            pare_param_print(&params[i], s->value[i], text, size);
            return text;
        }
    return NULL;
}

const char *pare__plan_pass(const pare_plan *p, size_t step)
{
    return pare_passes[p->recipe.step[step].pass]->name;
}

enum { PASSES = 64 };

/* "gptq", "wanda + gptq", "wanda". */
static const char *pass_names(const pare_plan *p, const pare_plan_linear *l, char text[PASSES])
{
    const bool two = l->pruned && l->prune_step != l->step;
    (void)snprintf(text, PASSES, "%s%s%s", two ? pare__plan_pass(p, l->prune_step) : "",
                   two ? " + " : "", pare__plan_pass(p, l->step));
    return text;
}

/* "2:4", "50%", and nothing for a linear that is not pruned. */
static const char *zeros_of(const pare_plan_linear *l, char text[PARE_SPARSITY_TEXT])
{
    text[0] = '\0';
    return l->pruned ? pare_sparsity_text(&l->sparsity, text) : text;
}

typedef struct widths {
    size_t pass, encoding, zeros; /* zeros 0: nothing is pruned */
} widths;

static size_t wider(size_t width, const char *text)
{
    const size_t len = strlen(text);
    return len > width ? len : width;
}

static widths measure_table(const pare_plan *p)
{
    char encoding[PARE_PACKED_TEXT], passes[PASSES], zeros[PARE_SPARSITY_TEXT];
    widths w = {11, 8, p->pruned ? 6 : 0};
    for (size_t i = 0; i < p->linears; i++) {
        const pare_plan_linear *const l = &p->linear[i];
        w.pass = wider(w.pass, pass_names(p, l, passes));
        w.encoding = wider(w.encoding, pare_packed_linear_text(&l->packed, encoding));
        w.zeros = wider(w.zeros, zeros_of(l, zeros));
    }
    for (size_t i = 0; i < p->tables.count; i++)
        w.encoding = wider(w.encoding, pare_packed_linear_text(&p->tables.of[i].packed, encoding));
    return w;
}

/* A line of the table behind the name. */
static const char *columns(pare_arena *a, const widths *w, const char *shape, const char *passes,
                           const char *zeros, const char *encoding)
{
    char text[512];
    const int len = snprintf(text, sizeof text, "%13s  %-*s  %*s%*s%-*s", shape, (int)w->pass,
                             passes, (int)w->zeros, w->zeros ? zeros : "", w->zeros ? 2 : 0, "",
                             (int)w->encoding, encoding);
    return pare_arena_text(a, text, len < (int)sizeof text ? (size_t)len : sizeof text - 1);
}

/* Folds the entries and prints them: name, how many, the rest, and bytes where there are any. */
static pare_status print_folded(pare_arena *a, const pare_fold_entry *entry, size_t entries,
                                bool all, const char *title, const char *titles, bool bytes)
{
    pare_fold_line *line;
    size_t lines, width = strlen(title);
    PARE_TRY(pare_fold(a, entry, entries, all, &line, &lines));
    for (size_t i = 0; i < lines; i++)
        width = wider(width, line[i].name);
    (void)printf("%-*s  %5s  %s%s\n", (int)width, title, "count", titles,
                 bytes ? "        bytes" : "");
    for (size_t i = 0; i < lines; i++) {
        (void)printf("%-*s  %5zu  %s", (int)width, line[i].name, line[i].count, line[i].rest);
        if (bytes)
            (void)printf(" %12llu", (unsigned long long)line[i].bytes);
        (void)printf("\n");
    }
    return PARE_OK;
}

/* rest NULL: no memory. */
static pare_fold_entry line_of(pare_arena *a, const widths *w, const pare_packed_linear *l,
                               const char *passes, const char *zeros, size_t block)
{
    char shape[48], encoding[PARE_PACKED_TEXT];
    (void)snprintf(shape, sizeof shape, "%zu x %zu", l->n, l->k);
    return (pare_fold_entry){
        .name = l->name,
        .rest = columns(a, w, shape, passes, zeros, pare_packed_linear_text(l, encoding)),
        .block = block,
        .bytes = pare_packed_linear_bytes(l).total};
}

static pare_status print_linears(pare_arena *a, const pare_plan *p, bool all)
{
    const widths w = measure_table(p);
    const size_t entries = p->linears + p->tables.count;
    pare_fold_entry *const entry = PARE_NEW(a, pare_fold_entry, entries);
    const char *const titles = columns(a, &w, "shape", "pass", "pruned", "encoding");
    char passes[PASSES], zeros[PARE_SPARSITY_TEXT];
    if (!entry || !titles)
        return PARE_ENOMEM;
    for (size_t i = 0; i < p->linears; i++) {
        const pare_plan_linear *const l = &p->linear[i];
        entry[i] =
            line_of(a, &w, &l->packed, pass_names(p, l, passes), zeros_of(l, zeros), l->block);
        entry[i].part = l->part;
    }
    for (size_t i = 0; i < p->tables.count; i++) {
        const pare_plan_table *const t = &p->tables.of[i];
        const char *const pass = pare_passes[t->step->pass]->name;
        entry[p->linears + i] = line_of(a, &w, &t->packed, pass, "", p->out.blocks);
    }
    for (size_t i = 0; i < entries; i++)
        if (!entry[i].rest)
            return PARE_ENOMEM;
    return print_folded(a, entry, entries, all, "linear", titles, true);
}

/* What a structured plan stores of each block. */
static pare_status print_tensors(pare_arena *a, const pare_plan *p, bool all)
{
    pare_fold_entry *const entry = PARE_NEW(a, pare_fold_entry, p->changes);
    if (!entry)
        return PARE_ENOMEM;
    for (size_t i = 0; i < p->changes; i++) {
        const pare_tensor *const t = &p->changed[i].tensor;
        char shape[48], text[80];
        (void)snprintf(shape, sizeof shape, t->rank == 1 ? "%llu" : "%llu x %llu",
                       (unsigned long long)t->shape[0], (unsigned long long)t->shape[1]);
        const int len = snprintf(text, sizeof text, "%13s  %s", shape, pare_dtype_name(t->dtype));
        entry[i] = (pare_fold_entry){.name = t->name,
                                     .rest = pare_arena_text(a, text, (size_t)len),
                                     .block = p->changed[i].block,
                                     .bytes = t->bytes};
        if (!entry[i].rest)
            return PARE_ENOMEM;
    }
    return print_folded(a, entry, p->changes, all, "tensor", "        shape  dtype", false);
}

/* The sizes of a model that gets smaller. */
static void print_sizes(const pare_plan *p)
{
    const pare_config *const b = &p->model.config, *const a = &p->out;
    const struct {
        const char *what;
        size_t before, after;
    } size[] = {{"blocks", b->blocks, a->blocks},
                {"hidden size", b->hidden, a->hidden},
                {"query heads", b->heads, a->heads},
                {"key/value heads", b->kv_heads, a->kv_heads},
                {a->uneven ? "all MLP channels" : "MLP channels",
                 a->uneven ? pare_config_channels(b) : b->intermediate,
                 a->uneven ? pare_config_channels(a) : a->intermediate},
                {"experts", b->experts, a->experts}};
    (void)printf("\n");
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (size[i].before)
            (void)printf("%-17s %zu of %zu stay (%.1f%% less)\n", size[i].what, size[i].after,
                         size[i].before,
                         100.0 * (1.0 - (double)size[i].after / (double)size[i].before));
}

pare_status pare__plan_print_list(pare_arena *a, const pare_plan *p, bool all)
{
    if (!p->structured)
        return print_linears(a, p, all);
    if (p->changes)
        PARE_TRY(print_tensors(a, p, all));
    print_sizes(p);
    return PARE_OK;
}
