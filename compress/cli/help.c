#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "compress/cli/help_pages.h"
#include "compress/init/init.h"
#include "compress/passes/pass.h"
#include "compress/passes/training.h"
#include "recipes/batch_recipe.h"
#include "recipes/pattern.h"
#include "recipes/train_recipe.h"

enum { PAGE = 100 }; /* columns */

void pare_help_words(int column, int indent, const char *text)
{
    const char *gap = "";
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (column + (int)strlen(gap) + n > PAGE) {
            gap = "";
            column = indent;
            (void)printf("\n%*s", indent, "");
        }
        column += printf("%s%.*s", gap, n, text);
        gap = " ";
        text += n + (text[n] == ' ');
    }
    (void)printf("\n");
}

void pare_help_row(int column, const char *left, const char *text)
{
    int at = printf("  %s", left);
    if (at >= column)
        at = printf("\n") - 1;
    pare_help_words(at + printf("%*s", column - at, ""), column, text);
}

static void print_option(const pare_option *o)
{
    char left[64], text[512];
    (void)snprintf(left, sizeof left, "--%s%s%s", o->name, o->argument ? " " : "",
                   o->argument ? o->argument : "");
    (void)snprintf(text, sizeof text, "%s%s", o->help, o->repeats ? " (repeatable)" : "");
    pare_help_row(25, left, text);
}

/* An option of a command that takes the place of a common one. */
static bool is_own(const pare_command *c, const char *name)
{
    for (const pare_option *o = c->options; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return true;
    return false;
}

void pare_help_command(const pare_command *c)
{
    (void)printf("%s\n\nusage    pare %s%s%s [OPTION]...\nexample  %s\n", c->summary, c->name,
                 *c->operands ? " " : "", c->operands, c->example);
    if (c->details)
        (void)printf("\n%s\n", c->details);
    (void)printf("\noptions\n");
    for (const pare_option *o = c->options; o->name; o++)
        print_option(o);
    for (const pare_option *o = pare_common_options; o->name; o++)
        if (!is_own(c, o->name))
            print_option(o);
}

static void print_overview(void)
{
    (void)printf("pare " PARE_VERSION ": offline compression of language models\n\n"
                 "example  pare compress recipes/demo/w4-gptq.yaml\n"
                 "         pare eval recipes/demo/out/hedge-w4 --text recipes/demo/evaluation.txt\n"
                 "\ncommands\n");
    for (const pare_command *c = pare_commands; c->name; c++) {
        char left[48];
        (void)snprintf(left, sizeof left, "%-10s %s", c->name, c->operands);
        pare_help_row(24, left, c->summary);
    }
    (void)printf("\npasses of a recipe\n");
    for (size_t i = 0; i < pare_pass_count(); i++)
        pare_help_row(24, pare_passes[i]->name, pare_passes[i]->summary);
    (void)printf("\ntopics\n");
    for (const pare_topic *t = pare_topics; t->name; t++)
        pare_help_row(24, t->name, t->summary);
    (void)printf(
        "\n\"pare help WORD\" explains a command, a pass, a topic or a setting of a recipe.\n");
}

/* What a parameter takes: "2, 3, 4, 8", "32 .. 4096 in steps of 32, row", "true, false". */
static void range(const pare_param *p, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    if (p->type == PARE_PARAM_BOOL) {
        (void)snprintf(text, size, "true, false");
        return;
    }
    if (p->type == PARE_PARAM_PATTERN) {
        const int n = snprintf(text, size, "N:M");
        used = n > 0 ? (size_t)n : 0;
    } else if (p->type != PARE_PARAM_CHOICE) {
        const int n = snprintf(text, size, "%.10g .. %.10g", p->min, p->max);
        used = n > 0 ? (size_t)n : 0;
        if (p->multiple && used < size) {
            const int more = snprintf(text + used, size - used, " in steps of %u", p->multiple);
            used += more > 0 ? (size_t)more : 0;
        }
    }
    for (const pare_word *w = p->words; w && w->text && used < size; w++) {
        const int n = snprintf(text + used, size - used, "%s%s", used ? ", " : "", w->text);
        used += n > 0 ? (size_t)n : 0;
    }
}

static bool has_param(const pare_pass *pass, const char *name)
{
    for (const pare_param *p = pass->params; p->name; p++)
        if (strcmp(p->name, name) == 0)
            return true;
    return false;
}

/* A transform for which only a pruner by N:M has a use. */
static bool orders_channels(const pare_pass *pass)
{
    double value[PARE_PARAMS_MAX];
    for (size_t i = 0; pass->params[i].name; i++)
        value[i] = pass->params[i].fallback;
    return pass->transform && (pass->transform->folds(value) & PARE_FOLDS_ORDER);
}

void pare_help_setting(const pare_param *p)
{
    char values[128], fallback[32], text[1024];
    range(p, values, sizeof values);
    pare_param_print(p, p->fallback, fallback, sizeof fallback);
    (void)printf("  %-16s %-13s %s\n", p->name, fallback, values);
    (void)snprintf(text, sizeof text, "%s%s%s%s%s", p->help, p->by ? "; only with " : "",
                   p->by ? p->by : "", p->by ? ": " : "", p->by ? p->when : "");
    pare_help_words(printf("%19s", ""), 19, text);
}

static void print_params(const pare_pass *pass)
{
    if (pass->params->name)
        (void)printf("\n  %-16s %-13s %s\n", "parameter", "default", "values");
    for (const pare_param *p = pass->params; p->name; p++)
        pare_help_setting(p);
    if (!pass->rotation && !pass->structure && !pass->training)
        (void)printf("\n  %-16s linears to work on, and linears to leave as they are: lists of "
                     "patterns\n%19s(\"pare help recipe\"); without them every linear of the "
                     "blocks\n",
                     "targets, skip", "");
}

/* What holds for every pass of its kind. */
static void print_notes(const pare_pass *pass)
{
    char text[512];
    if (has_param(pass, "symmetric"))
        (void)printf(
            "\nA symmetric grid has the codes -2^(b-1) .. 2^(b-1)-1 around zero. Its scale "
            "may be negative: then\nthe extra code lies above zero. Without clip the scale "
            "is the smallest that covers the group.\n");
    if (pass->sparsity)
        (void)printf("\nZeros stay zeros through every later pass. \"pare plan\" says how they are "
                     "stored and how many\nbytes that saves. pare always evaluates a pruned model: "
                     "by evaluate: of the recipe, else on\ncalibration windows that it holds "
                     "out.\n");
    if (pass->structure)
        (void)printf("\nThe output is a smaller plain checkpoint (model.safetensors, config.json). "
                     "Other programs load\nit as well if all its blocks have the same shape (only "
                     "ziplm can make them differ). Where\npasses of other kinds come behind it in "
                     "the recipe, that checkpoint is OUTPUT.smaller, and they\nwork on it; "
                     "results are compared with the model of the recipe, which is also the teacher "
                     "of\ndistill.\n");
    if (pass->notes)
        (void)printf("\n%s", pass->notes);
    if (pass->caution) {
        (void)snprintf(text, sizeof text, "Note: %s.", pass->caution);
        (void)printf("\n");
        pare_help_words(0, 0, text);
    }
}

/* What wins back what a pruner in front of it lost. */
static bool comes_after(const pare_pass *pass)
{
    return pass->training || (pass->transform && pass->transform->restores);
}

/* What learns from outputs of a block how to round: rtn behind it keeps to that. */
static bool learns_rounding(const pare_pass *pass)
{
    return pass->transform && pass->transform->block && !pass->transform->restores;
}

static void print_pass(const pare_pass *pass)
{
    char fallback[32];
    pare_help_words(printf("pass     %s: ", pass->name), 9, pass->summary);
    pare_help_words(printf("source   "), 9, pass->source);
    print_params(pass);
    print_notes(pass);
    (void)printf("\nexample  passes:\n%s           - %s: {",
                 comes_after(pass) ? "           - sparsegpt: {pattern: 2:4}\n" : "", pass->name);
    if (has_param(pass, "bits") && has_param(pass, "group")) {
        (void)printf("bits: 4, group: 64%s", pass->sparsity ? ", pattern: 2:4" : "");
    } else if (pass->sparsity) {
        (void)printf("pattern: 2:4");
    } else if (pass->params->name) {
        pare_param_print(pass->params, pass->params->fallback, fallback, sizeof fallback);
        (void)printf("%s: %s", pass->params->name, fallback);
    }
    (void)printf("}\n%s", orders_channels(pass)   ? "           - ria: {pattern: 2:4}\n"
                          : learns_rounding(pass) ? "           - rtn: {bits: 4, group: 64}\n"
                          : (pare_pass_transforms(pass) || pass->rotation) && !comes_after(pass)
                              ? "           - gptq: {bits: 4, group: 64}\n"
                              : "");
}

/* What is to be explained, and whether something was. */
typedef struct explained {
    const char *name;
    bool found;
} explained;

/* If p is it: what it is in `place`, a pass or a part of a recipe. */
static void explain(explained *e, const char *place, const pare_param *p)
{
    if (strcmp(p->name, e->name) != 0)
        return;
    if (!e->found)
        (void)printf("%s: a setting in a recipe\n", e->name);
    (void)printf("\n%s\n", place);
    pare_help_setting(p);
    e->found = true;
}

/* A setting, in each place of a recipe that takes it; false when none does. */
static bool print_setting(const char *name)
{
    explained e = {.name = name};
    char place[64];
    pare_param train[PARE_PARAMS_MAX + 1];
    for (size_t i = 0; i < pare_pass_count(); i++)
        for (const pare_param *p = pare_passes[i]->params; p->name; p++)
            explain(&e, pare_passes[i]->name, p);
    for (size_t i = 0; pare_calibration_params[i]; i++)
        explain(&e, "calibration:", pare_calibration_params[i]);
    for (const pare_param *p = pare_experts_params; p->name; p++)
        explain(&e, "calibration: {experts: {..}}", p);
    for (size_t i = 0; pare_evaluate_params[i]; i++)
        explain(&e, "evaluate:", pare_evaluate_params[i]);
    for (const pare_param *p = pare_needle_params; p->name; p++)
        explain(&e, "evaluate: [needle: {..}]", p);
    for (const pare_param *p = pare_continue_params; p->name; p++)
        explain(&e, "evaluate: [continuations: {..}]", p);
    for (pare_kv_method m = PARE_KV_FLOAT; m < PARE_KV_METHODS; m++)
        for (const pare_param *p = pare_kv_params(m); p->name; p++) {
            (void)snprintf(place, sizeof place, "kv_cache: {method: %s}", pare_kv_method_name(m));
            explain(&e, place, p);
        }
    pare_training_params(train);
    for (const pare_param *p = train; p->name; p++)
        explain(&e, "train: (pare train)", p);
    for (size_t i = 0; pare_train_data_params[i]; i++)
        explain(&e, "data: (pare train)", pare_train_data_params[i]);
    for (const pare_param *p = pare_lora_params; p->name; p++)
        explain(&e, "lora: (pare train)", p);
    return e.found;
}

/* The topic or setting that explains a word which is none; NULL: none does. */
static const char *topic_of(const char *key)
{
    static const char *const topic[][2] = {{"text", "calibration"},
                                           {"tokens", "calibration"},
                                           {"generate", "calibration"},
                                           {"path", "calibration"},
                                           {"perplexity", "evaluate"},
                                           {"kl", "evaluate"},
                                           {"held_out", "evaluate"},
                                           {"lengths", "needle"},
                                           {"continuations", "evaluate"},
                                           {"file", "choice"},
                                           {"shots", "tasks"},
                                           {"fallback", "require"},
                                           {"shots_from", "tasks"},
                                           {"method", "kv_cache"},
                                           {"format", "export"},
                                           {"ram", "limits"},
                                           {"bf16", "precision"},
                                           {"amx", "precision"},
                                           {"cuda", "device"},
                                           {"gpu", "device"},
                                           {"after", "jobs"},
                                           {"verdict", "require"},
                                           {"accept", "require"},
                                           {"regression", "require"},
                                           {"anomalous", "require"},
                                           {"infeasible", "require"},
                                           {"stale", "jobs"},
                                           {"waits", "jobs"},
                                           {"embeddings", "tables"},
                                           {"head", "tables"},
                                           {"keep", "calibration"},
                                           {"from", "calibration"},
                                           {"hdf5", "calibration"},
                                           {"statistics", "calibration"},
                                           {"tensor_parallel", "export"},
                                           {"gsm8k", "tasks"}};
    for (size_t i = 0; i < sizeof topic / sizeof *topic; i++)
        if (strcasecmp(topic[i][0], key) == 0)
            return topic[i][1];
    return NULL;
}

static bool is_key(const pare_recipe_key *keys, const char *word)
{
    for (const pare_recipe_key *k = keys; k->name; k++)
        if (strcmp(k->name, word) == 0)
            return true;
    return false;
}

/* An option, of each command that has it; false when none does. */
static bool print_options(const char *name)
{
    char left[96];
    bool found = false;
    for (const pare_command *c = pare_commands; c->name; c++)
        for (const pare_option *o = c->options; o->name; o++) {
            if (strcmp(o->name, name) != 0)
                continue;
            if (!found)
                (void)printf("--%s: an option\n\n", name);
            (void)snprintf(left, sizeof left, "%s --%s%s%s", c->name, o->name,
                           o->argument ? " " : "", o->argument ? o->argument : "");
            pare_help_row(25, left, o->help);
            found = true;
        }
    return found;
}

/* Whether the page on recipes explains it: a key, or what every pass takes. */
static bool is_of_recipe(const char *word)
{
    return is_key(pare_recipe_keys, word) || strcmp(word, "targets") == 0 ||
           strcmp(word, "skip") == 0;
}

/* For the names of all commands, passes and topics. */
static const char **take_words(pare_cli *cli)
{
    size_t count = pare_pass_count();
    for (const pare_command *c = pare_commands; c->name; c++)
        count++;
    for (const pare_topic *t = pare_topics; t->name; t++)
        count++;
    return PARE_NEW(&cli->arena, const char *, count);
}

pare_status pare_help(pare_cli *cli, const char *topic)
{
    size_t count = 0;
    if (!topic) {
        print_overview();
        return PARE_OK;
    }
    const char **const known = take_words(cli);
    if (!known)
        return PARE_ENOMEM;
    if (strcmp(topic, "error") == 0) /* the name of older versions */
        topic = "exit";
    bool found = false; /* a command and a section of recipes may have one name: both pages */
    for (const pare_command *c = pare_commands; c->name; known[count++] = c->name, c++)
        if (strcmp(c->name, topic) == 0) {
            pare_help_command(c);
            found = true;
        }
    for (size_t i = 0; i < pare_pass_count(); known[count++] = pare_passes[i]->name, i++)
        if (strcmp(pare_passes[i]->name, topic) == 0) {
            print_pass(pare_passes[i]);
            found = true;
        }
    for (const pare_topic *t = pare_topics; t->name; known[count++] = t->name, t++)
        if (strcmp(t->name, topic) == 0) {
            (void)printf("%s", found ? "\nin a recipe\n\n" : "");
            t->print();
            found = true;
        }
    for (size_t i = 0; !found && i < pare_init_preset_count(); i++) /* exl3: the pass */
        if (strcmp(pare_init_preset_at(i).name, topic) == 0) {
            pare_help_presets();
            found = true;
        }
    const char *const other = found ? NULL : topic_of(topic);
    if (!found && !other && is_of_recipe(topic))
        return pare_help(cli, "recipe");
    if (!found && !other && is_key(pare_batch_keys, topic))
        return pare_help(cli, "jobs");
    if (!found && !other && is_key(pare_train_keys, topic))
        return pare_help(cli, "training");
    found = found || print_setting(topic) || (!other && print_options(topic));
    if (other) {
        (void)printf("%s", found ? "\n" : "");
        return pare_help(cli, other);
    }
    if (found)
        return PARE_OK;
    const char *const near = pare_nearest_word(topic, known, count);
    return pare_fail(&cli->cx, PARE_EUSAGE, "no help on \"%s\"%s%s%s", topic,
                     near ? "; did you mean " : "; \"pare help\" lists the topics",
                     near ? near : "", near ? "?" : "");
}

pare_status pare_help_run(pare_cli *cli, const pare_args *args)
{
    if (args->operands < 2)
        return pare_help(cli, args->operands ? args->operand[0] : NULL);
    if (strcmp(args->operand[0], "exit") == 0 || strcmp(args->operand[0], "error") == 0)
        return pare_help_exit_code(cli, args->operand[1]);
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "help: \"%s\" is one word too many; usage: pare help "
                     "[TOPIC]",
                     args->operand[1]);
}
