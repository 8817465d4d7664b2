#include "compress/cli/measure_tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/cli/measure_steps.h"

/* The bytes of NAME in "NAME=..." where it names a task, else 0. */
static size_t name_length(const char *text)
{
    char name[64];
    const size_t len = strcspn(text, "=,");
    if (text[len] != '=' || len == 0 || len >= sizeof name)
        return 0;
    memcpy(name, text, len);
    name[len] = '\0';
    return pare_task_find(name) ? len : 0;
}

/* Where the entry at `text` ends: in front of ",NAME=" or at the end. */
static const char *end_of(const char *text)
{
    const char *at = text;
    while (*at && !(*at == ',' && name_length(at + 1)))
        at++;
    return at;
}

static pare_status refuse(pare_cli *cli, const char *option, const char *text)
{
    char name[64];
    const size_t len = strcspn(text, "=");
    if (text[len] != '=' || len == 0)
        return pare_fail(&cli->cx, PARE_EUSAGE,
                         "--%s %s: it needs a task and its file, as in --%s piqa=valid.jsonl",
                         option, text, option);
    (void)snprintf(name, sizeof name, "%.*s", (int)(len < 63 ? len : 63), text);
    return pare_task_unknown(&cli->cx, name);
}

/* The parts of one entry, copied. */
static pare_status take_entry(pare_cli *cli, const char *option, const char *text,
                              const char **name, const char **file, const char **end)
{
    const size_t len = name_length(text);
    if (!len)
        return refuse(cli, option, text);
    *end = end_of(text);
    *name = pare_arena_text(&cli->arena, text, len);
    *file = pare_arena_text(&cli->arena, text + len + 1, (size_t)(*end - text) - len - 1);
    if (!*name || !*file)
        return PARE_ENOMEM;
    if (!**file)
        return pare_fail(&cli->cx, PARE_EUSAGE, "--%s %s: the file of %s is missing", option, text,
                         *name);
    *end += **end == ',';
    return PARE_OK;
}

static pare_task_asked *find(pare_measure *m, const char *name)
{
    for (size_t i = 0; i < m->tasks; i++)
        if (strcmp(m->task[i].name, name) == 0)
            return &m->task[i];
    return NULL;
}

static pare_status add_tasks(pare_cli *cli, const char *text, pare_measure *m)
{
    while (*text) {
        pare_task_asked asked = {.limit = m->limit, .by = m->by};
        PARE_TRY(take_entry(cli, "tasks", text, &asked.name, &asked.file, &text));
        if (find(m, asked.name))
            return pare_fail(&cli->cx, PARE_EUSAGE, "--tasks has %s twice", asked.name);
        if (m->tasks == PARE_ARGS_MAX)
            return pare_fail(&cli->cx, PARE_EUSAGE, "more than %d tasks", PARE_ARGS_MAX);
        m->task[m->tasks++] = asked;
    }
    return PARE_OK;
}

static pare_status add_shots(pare_cli *cli, const char *text, pare_measure *m)
{
    while (*text) {
        const char *name, *file;
        PARE_TRY(take_entry(cli, "shots-from", text, &name, &file, &text));
        pare_task_asked *const asked = find(m, name);
        if (!asked)
            return pare_fail(&cli->cx, PARE_EUSAGE,
                             "--shots-from has %s, which is not among --tasks", name);
        asked->shots_file = file;
    }
    return PARE_OK;
}

pare_status pare_measure_task_options(pare_cli *cli, const pare_args *args, pare_measure *m)
{
    const char *text[PARE_ARGS_MAX];
    uint64_t shots = 0;
    const size_t lists = pare_args_texts(args, "tasks", text);
    for (size_t i = 0; i < lists; i++)
        PARE_TRY(add_tasks(cli, text[i], m));
    if (!m->tasks && (pare_args_given(args, "shots") || pare_args_given(args, "shots-from")))
        return pare_fail(&cli->cx, PARE_EUSAGE, "--shots and --shots-from need --tasks");
    PARE_TRY(pare_args_count(&cli->cx, args, "shots", 0, PARE_TASK_SHOTS, &shots));
    if (!shots && pare_args_given(args, "shots-from"))
        return pare_fail(&cli->cx, PARE_EUSAGE, "--shots-from needs --shots N");
    for (size_t i = 0; i < m->tasks; i++)
        m->task[i].shots = (size_t)shots;
    const size_t sources = pare_args_texts(args, "shots-from", text);
    for (size_t i = 0; i < sources; i++)
        PARE_TRY(add_shots(cli, text[i], m));
    return PARE_OK;
}

static pare_status load(pare_cli *cli, const pare_loaded *l, const pare_task_asked *asked,
                        pare_task_data *data)
{
    return pare_task_load(&cli->cx, &cli->arena, &l->checkpoint, l->model.config.context, asked,
                          data);
}

pare_status pare_measure_check_tasks(pare_cli *cli, const pare_measure *m, const pare_loaded *l)
{
    for (size_t i = 0; i < m->tasks; i++) {
        const pare_mark mark = pare_arena_mark(&cli->arena);
        pare_task_data data;
        PARE_TRY(load(cli, l, &m->task[i], &data));
        pare_arena_rewind(&cli->arena, mark);
    }
    return PARE_OK;
}

pare_status pare_measure_task(pare_cli *cli, const pare_measure *m, pare_loaded *l, pare_figures *f)
{
    const pare_task_asked *const asked = &m->task[f->tasks];
    pare_task_figures *const t = &f->task[f->tasks];
    pare_task_data data;
    PARE_TRY(load(cli, l, asked, &data));
    pare_measure_step(cli, m, l->checkpoint.path, "task ", asked->name);
    pare_status s;
    do
        s = pare_task_ask(&cli->cx, &cli->arena, &l->forward, &data, asked, t);
    while (pare_loaded_leave_device(cli, s, l, NULL));
    f->tasks += t->n > 0;
    return s == PARE_OK || s == PARE_EINTERRUPTED
               ? s
               : pare_fail_context(&cli->cx, s, "%s on %s", l->checkpoint.path, asked->file);
}

static void print_value(const pare_task_metric *m)
{
    (void)printf("%s ", m->name);
    if (m->share) {
        pare_measure_print_share(m->value, m->error);
        return;
    }
    (void)printf("%.4f", m->value);
    if (isfinite(m->error))
        (void)printf(" +- %.4f", m->error);
}

static void print_values(const char *title, const pare_task_figures *t)
{
    (void)printf("%-17s ", title);
    for (size_t i = 0; i < t->metrics; i++) {
        (void)printf("%s", i ? ", " : "");
        print_value(&t->metric[i]);
    }
}

void pare_measure_print_groups(const pare_task_group *group, size_t groups,
                               const pare_task_group *base, size_t bases)
{
    for (size_t g = 0; g < groups; g++) {
        const pare_task_group *const x = &group[g];
        char label[64]; /* values are of the file */
        (void)snprintf(label, sizeof label, "%s", x->name[0] ? x->name : "(empty)");
        (void)printf("  %-15s ", pare_text_printable(label));
        print_value(&x->acc);
        (void)printf(", %zu document%s", x->n, pare_plural(x->n));
        size_t at = 0;
        while (at < bases && strcmp(base[at].name, x->name) != 0)
            at++;
        if (at < bases) {
            (void)printf("; baseline ");
            pare_measure_print_share(base[at].acc.value, base[at].acc.error);
            (void)printf("; %zu gained, %zu lost, p %.3f", x->acc.paired.gained, x->acc.paired.lost,
                         x->acc.paired.p);
        }
        (void)printf("\n");
    }
}

static void print_paired(const pare_task_figures *t)
{
    const char *before = "  paired          ";
    for (size_t i = 0; i < t->metrics; i++) {
        const pare_task_metric *const m = &t->metric[i];
        if (!m->right)
            continue;
        (void)printf("%s%s %zu gained, %zu lost, p %.3f", before, m->name, m->paired.gained,
                     m->paired.lost, m->paired.p);
        before = "; ";
    }
    (void)printf("%s", before[0] == ';' ? "\n" : "");
}

void pare_measure_print_task(const pare_task_figures *t, const pare_task_figures *baseline)
{
    print_values(t->asked.name, t);
    (void)printf("   (%s, %zu document%s", t->asked.file, t->n, pare_plural(t->n));
    if (t->asked.shots)
        (void)printf(", %zu shot%s from %s", t->asked.shots, pare_plural(t->asked.shots),
                     t->asked.shots_file);
    if (t->cut)
        (void)printf(", %zu too long for the model and cut on the left", t->cut);
    (void)printf("%s)\n", t->complete ? "" : ", interrupted");
    if (baseline) {
        print_values("  baseline", baseline);
        (void)printf("%s\n", baseline->complete ? "" : "   (interrupted)");
    }
    if (t->has_paired)
        print_paired(t);
    pare_measure_print_groups(t->group, t->groups, baseline ? baseline->group : NULL,
                              baseline ? baseline->groups : 0);
}
