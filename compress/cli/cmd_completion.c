/* Scripts that complete words in a shell, made from the tables of commands, passes and topics. */
#include <stdio.h>
#include <string.h>

#include "compress/bench/bench_model.h"
#include "compress/cli/help_pages.h"
#include "compress/init/init.h"
#include "compress/passes/pass.h"
#include "formats/export_target.h"

/* Prints each word of a list with a space in front. */
typedef void (*words)(void);

static void put_formats(void)
{
    for (size_t i = 0; pare_export_targets[i]; i++)
        (void)printf(" %s", pare_export_targets[i]->name);
}

static void put_caches(void)
{
    for (pare_kv_method m = PARE_KV_FLOAT; m < PARE_KV_METHODS; m++)
        (void)printf(" %s", pare_kv_method_name(m));
}

static void put_presets(void)
{
    for (size_t i = 0; i < pare_init_preset_count(); i++)
        (void)printf(" %s", pare_init_preset_at(i).name);
}

static void put_shapes(void)
{
    for (const pare_bench_shape *s = pare_bench_shapes; s->name; s++)
        (void)printf(" %s", s->name);
}

static void put_cpu(void)
{
    (void)printf(" cpu");
}

static void put_devices(void)
{
    (void)printf(" cpu cuda auto");
}

static void put_products(void)
{
    (void)printf(" exact f16");
}

static void put_results(void)
{
    (void)printf(" text json");
}

static void put_scripts(void)
{
    (void)printf(" make slurm");
}

static void put_tables(void)
{
    (void)printf(" text csv json html");
}

static void put_logs(void)
{
    (void)printf(" json");
}

static void put_topics(void)
{
    for (const pare_command *c = pare_commands; c->name; c++)
        (void)printf(" %s", c->name);
    for (size_t i = 0; pare_passes[i]; i++)
        (void)printf(" %s", pare_passes[i]->name);
    for (const pare_topic *t = pare_topics; t->name; t++)
        (void)printf(" %s", t->name);
}

static void put_shells(void)
{
    (void)printf(" bash zsh fish");
}

static void put_benches(void)
{
    (void)printf(" kernels model");
}

/* What an option takes, of a command or (NULL) of any; what a command takes where it has no files.
 */
static const struct {
    const char *command, *option;
    words put;
} values[] = {
    {"export", "format", put_formats},
    {"compare", "format", put_tables},
    {"batch", "emit", put_scripts},
    {NULL, "format", put_results},
    {NULL, "kv", put_caches},
    {"compress", "device", put_cpu},
    {"plan", "device", put_cpu},
    {NULL, "device", put_devices},
    {NULL, "device-products", put_products},
    {"init", "preset", put_presets},
    {"help", NULL, put_topics},
    {NULL, "log", put_logs},
    {"bench", "shape", put_shapes},
    {"completion", NULL, put_shells},
    {"bench", NULL, put_benches},
};

/* The words behind `option` of a command (NULL: those of the command itself), or NULL. */
static words values_of(const char *command, const char *option)
{
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if ((!values[i].command || strcmp(values[i].command, command) == 0) &&
            (option ? values[i].option && strcmp(values[i].option, option) == 0
                    : !values[i].option))
            return values[i].put;
    return NULL;
}

/* Calls `visit` for each option of a command: its own, then the common ones that it does not have.
 */
static void each_option(const pare_command *c,
                        void (*visit)(const pare_command *c, const pare_option *o))
{
    for (const pare_option *o = c->options; o->name; o++)
        visit(c, o);
    for (const pare_option *o = pare_common_options; o->name; o++) {
        bool own = false;
        for (const pare_option *p = c->options; p->name; p++)
            own = own || strcmp(p->name, o->name) == 0;
        if (!own)
            visit(c, o);
    }
}

static void put_commands(void)
{
    for (const pare_command *c = pare_commands; c->name; c++)
        (void)printf(" %s", c->name);
}

static void put_option(const pare_command *c, const pare_option *o)
{
    (void)c;
    (void)printf(" --%s", o->name);
}

/* Cases of "COMMAND --OPTION" for options with known words, and of others that take a path. */
static void put_value_case(const pare_command *c, const pare_option *o)
{
    const words put = values_of(c->name, o->name);
    if (!o->argument)
        return;
    (void)printf("    '%s --%s') list='", c->name, o->name);
    if (put)
        put();
    (void)printf("' ;;\n");
}

/* The case statement that bash and zsh share: sets `list` from "$command $before", and for a word
 * that is no value from $command and $cur. */
static void put_cases(void)
{
    (void)printf("  case \"$command $before\" in\n");
    for (const pare_command *c = pare_commands; c->name; c++)
        each_option(c, put_value_case);
    (void)printf("    *) case \"$command $cur\" in\n");
    for (const pare_command *c = pare_commands; c->name; c++) {
        const words put = values_of(c->name, NULL);
        (void)printf("      '%s -'*) list='", c->name);
        each_option(c, put_option);
        (void)printf("' ;;\n");
        if (!put)
            continue;
        (void)printf("      '%s '*) list='", c->name);
        put();
        (void)printf("' ;;\n");
    }
    (void)printf("    esac ;;\n  esac\n");
}

static void print_bash(void)
{
    (void)printf(
        "# bash completion of pare, written by \"pare completion bash\"\n"
        "_pare() {\n"
        "  local line=${COMP_LINE:0:COMP_POINT} all cur before command list= cut\n"
        "  read -ra all <<< \"$line\"\n"
        "  [[ $line == *[[:space:]] ]] && all+=('')\n"
        "  cur=${all[${#all[@]}-1]} before=${all[${#all[@]}-2]} command=${all[1]} COMPREPLY=()\n"
        "  if [[ $cur == --*=* ]]; then before=${cur%%%%=*} cur=${cur#*=}; fi\n"
        "  if (( ${#all[@]} <= 2 )); then list='");
    put_commands();
    (void)printf(" --version --help'; else\n");
    put_cases();
    (void)printf("  fi\n"
                 "  cut=${cur%%\"${cur##*[:=]}\"} # readline cuts words there\n"
                 "  COMPREPLY=($(compgen -W \"$list\" -- \"$cur\"))\n"
                 "  COMPREPLY=(\"${COMPREPLY[@]#\"$cut\"}\")\n"
                 "}\n"
                 "complete -o bashdefault -o default -F _pare pare\n");
}

static void print_zsh(void)
{
    (void)printf("#compdef pare\n"
                 "# zsh completion of pare, written by \"pare completion zsh\"\n"
                 "_pare() {\n"
                 "  local cur=$words[CURRENT] before=$words[CURRENT-1] command=$words[2]\n"
                 "  if (( CURRENT == 2 )); then compadd --");
    put_commands();
    (void)printf("; return; fi\n  local list=''\n");
    put_cases();
    (void)printf("  if [[ -n $list ]]; then compadd -- ${=list}; else _files; fi\n}\n"
                 "_pare \"$@\"\n");
}

/* In single quotes of fish. */
static void put_quoted(const char *text)
{
    for (; *text; text++)
        (void)printf(*text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void put_fish_option(const pare_command *c, const pare_option *o)
{
    const words put = values_of(c->name, o->name);
    (void)printf("complete -c pare -n '__fish_seen_subcommand_from %s' -l %s -d '", c->name,
                 o->name);
    put_quoted(o->help);
    (void)printf("'%s", put ? " -x -a '" : o->argument ? " -r" : "");
    if (put) {
        put();
        (void)printf("'");
    }
    (void)printf("\n");
}

static void print_fish(void)
{
    (void)printf("# fish completion of pare, written by \"pare completion fish\"\n");
    for (const pare_command *c = pare_commands; c->name; c++) {
        const words put = values_of(c->name, NULL);
        (void)printf("complete -c pare -n __fish_use_subcommand -f -a %s -d '", c->name);
        put_quoted(c->summary);
        (void)printf("'\n");
        each_option(c, put_fish_option);
        if (!put)
            continue;
        (void)printf("complete -c pare -n '__fish_seen_subcommand_from %s' -f -a '", c->name);
        put();
        (void)printf("'\n");
    }
}

pare_status pare_completion_run(pare_cli *cli, const pare_args *args)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shell[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; i < sizeof shell / sizeof *shell; i++)
        if (strcmp(args->operand[0], shell[i].name) == 0) {
            shell[i].print();
            return PARE_OK;
        }
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "completion: no script for \"%s\"; expected bash, zsh "
                     "or fish",
                     args->operand[0]);
}
