#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/pass.h"
#include "recipes/pattern.h"

static void print_option(const pare_option *o)
{
    char left[64];
    (void)snprintf(left, sizeof left, "--%s%s%s", o->name, o->argument ? " " : "",
                   o->argument ? o->argument : "");
    (void)printf("  %-22s %s%s\n", left, o->help, o->repeats ? " (repeatable)" : "");
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
    for (const pare_command *c = pare_commands; c->name; c++)
        (void)printf("  %-10s %-10s %s\n", c->name, c->operands, c->summary);
    (void)printf("\npasses of a recipe\n");
    for (size_t i = 0; i < pare_pass_count(); i++)
        (void)printf("  %-21s %s\n", pare_passes[i]->name, pare_passes[i]->summary);
    (void)printf("  %-21s %s\n", "kv_cache",
                 "a section of its own: the key/value cache in few bits");
    (void)printf("  %-21s %s\n", "calibration", "the inputs a job sees; how many passes need");
    (void)printf("  %-21s %s\n", "experts", "a part of calibration: mixtures of experts");
    (void)printf(
        "\n\"pare help TOPIC\" explains a command or a pass; \"pare help error\" lists the "
        "exit codes.\n");
}

/* "2, 3, 4, 8", "a multiple of 32, or row", "0 .. 1", "true, false". */
static void print_range(const pare_param *p, char *text, size_t size)
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
    return pass->folds && (pass->folds(value) & PARE_FOLDS_ORDER);
}

static void print_pass(const pare_pass *pass)
{
    char fallback[32];
    (void)printf("%s: %s\nsource  %s\n\nparameters\n  %-16s %-38s default\n", pass->name,
                 pass->summary, pass->source, "name", "values");
    for (const pare_param *p = pass->params; p->name; p++) {
        char range[128];
        print_range(p, range, sizeof range);
        pare_param_print(p, p->fallback, fallback, sizeof fallback);
        (void)printf("  %-16s %-38s %-12s %s%s%s%s\n", p->name, range, fallback, p->help,
                     p->unit ? " [" : "", p->unit ? p->unit : "", p->unit ? "]" : "");
    }
    if (!pass->rotation && !pass->structure)
        (void)printf(
            "  %-16s %-38s %-12s %s\n  %-16s %-38s %-12s %s\n", "targets", "list of patterns",
            "all",
            "linears of the blocks to work on: globs, or re: and an expression, of whole names",
            "skip", "list of patterns", "none", "linears to leave as they are");
    if (has_param(pass, "symmetric"))
        (void)printf("\nsymmetric grid: codes -2^(b-1) .. 2^(b-1)-1 around a fixed zero, and the "
                     "smallest scale that\ncovers the group, so the largest weight falls on a code "
                     "and not between two.\n");
    if (pass->sparsity)
        (void)printf("\nzeros stay zeros through every later pass; \"pare plan\" says how they are "
                     "stored and\nwhat that saves. Pruning is always evaluated: by evaluate: of "
                     "the recipe, else on\ncalibration windows that are held out.\n");
    if (pass->structure)
        (void)printf("\nthe output is a smaller plain checkpoint (model.safetensors, config.json), "
                     "which other\nprograms load as well; to quantize or prune it further, give it "
                     "a second recipe.\n");
    if (pass->caution)
        (void)printf("\nnote: %s.\n", pass->caution);
    (void)printf("\nexample  passes:\n           - %s: {", pass->name);
    if (has_param(pass, "bits") && has_param(pass, "group")) {
        (void)printf("bits: 4, group: 64%s", pass->sparsity ? ", pattern: 2:4" : "");
    } else if (pass->sparsity) {
        (void)printf("pattern: 2:4");
    } else if (pass->params->name) {
        pare_param_print(pass->params, pass->params->fallback, fallback, sizeof fallback);
        (void)printf("%s: %s", pass->params->name, fallback);
    }
    (void)printf("}\n%s", orders_channels(pass) ? "           - ria: {pattern: 2:4}\n"
                          : pare_pass_transforms(pass) || pass->rotation
                              ? "           - gptq: {bits: 4, group: 64}\n"
                              : "");
}

static void print_kv_cache(void)
{
    static const char *const source[PARE_KV_METHODS] = {
        [PARE_KV_FLOAT] = "F32, exact (the default)",
        [PARE_KV_INT8] = "symmetric, one scale per token and head",
        [PARE_KV_INT4] = "asymmetric, one scale and low per token and group of channels",
        [PARE_KV_KIVI] = "2 bits, K per channel, V per token (Liu et al., KIVI, 2024)",
        [PARE_KV_KVQUANT] =
            "3 bits, K before RoPE, calibrated levels (Hooper et al., KVQuant, 2024)"};
    (void)printf("kv_cache: how the finished model keeps keys and values of earlier tokens\n\n");
    for (pare_kv_method m = PARE_KV_FLOAT; m < PARE_KV_METHODS; m++) {
        (void)printf("  %-8s %s\n", pare_kv_method_name(m), source[m]);
        for (const pare_param *p = pare_kv_params(m); p->name; p++) {
            char range[128], fallback[32];
            print_range(p, range, sizeof range);
            pare_param_print(p, p->fallback, fallback, sizeof fallback);
            (void)printf("    %-8s %-32s %-5s %s\n", p->name, range, fallback, p->help);
        }
    }
    (void)printf(
        "\nexample  kv_cache: {method: kivi, window: 128}\n         pare eval MODEL --text "
        "FILE --kv kivi\n");
}

static void print_experts(void)
{
    (void)printf(
        "experts: how a mixture of experts (mixtral, qwen2_moe, qwen3_moe) is calibrated\n\n"
        "What every token runs comes first (attention, a shared expert), then the experts one by "
        "one,\neach on the tokens that the router sends there; the router itself never changes. "
        "As many of\nthem share a pass over the calibration as the memory limit allows, which "
        "changes no result.\n\ncalibration: {..., experts: {...}}\n");
    for (const pare_param *p = pare_experts_params; p->name; p++) {
        char range[128], fallback[32];
        print_range(p, range, sizeof range);
        pare_param_print(p, p->fallback, fallback, sizeof fallback);
        (void)printf("  %-10s %-20s %-10s %s\n", p->name, range, fallback, p->help);
    }
    (void)printf(
        "\nlayers.csv, run.json and the notices of the job name experts that fewer tokens reach; "
        "--strict\nends with 3 then. In targets and skip \"*.experts.*\" means all of them. "
        "Quantizers and pruners\nwork on them; transforms (awq, smoothquant, ...) work on "
        "attention only; rotate, omniquant and\nwhat takes parts out are refused.\n"
        "\nexample  pare compress recipes/moe-gptq.yaml --model MODEL\n");
}

static void print_calibration(void)
{
    (void)printf(
        "calibration: the inputs that a job sees, and how many of them passes need\n\n"
        "  calibration: {text: [FILE, ...], samples: N, window: TOKENS}\n"
        "  calibration: {tokens: FILE.i32, samples: all, window: TOKENS}\n"
        "  calibration: {generate: {temperature: 1.0}, samples: N, window: TOKENS}\n\n"
        "For each linear layers.csv and manifest.json say what the Hessian of its inputs rests "
        "on:\n"
        "  rank               directions that the inputs have at all; tokens that repeat add none\n"
        "  effective_samples  tokens that the size of a column rests on: (sum x^2)^2 / sum x^4, "
        "the\n"
        "                     median over the columns\n\n"
        "Below what a pass needs it does worse than its plain form (measured on the demo model):\n"
        "  gptq, sparsegpt, sparsegpt_joint, atom, billm, awq, outlier_suppression\n"
        "                     3 tokens per input, a quarter of the rank, a 32nd of an effective\n"
        "                     sample per input, 12 at least\n"
        "  wanda, ria, squeezellm, permute\n"
        "                     128 tokens, 12 effective samples\n"
        "  smoothquant, activations: int8_tensor\n"
        "                     32 tokens\n"
        "  omniquant, flap, depth\n"
        "                     128 tokens\n"
        "  slicegpt           3 tokens per channel of the stream\n\n"
        "Tokens are new ones: those that do not stand somewhere before with the same 7 in front "
        "of\n"
        "them. A text that repeats itself counts once.\n\n"
        "A linear with less is rounded or pruned as if no input were known (gptq as rtn, wanda as\n"
        "magnitude); a transform leaves it as it is; scales of int8_tensor are taken from what "
        "there\nis. The job warns, layers.csv says thin, and --strict ends with 3. pare plan warns "
        "before\nany work, as far as the number of tokens tells.\n");
}

/* All exit codes, or the one in `code`. */
static pare_status print_errors(pare_cli *cli, const char *code)
{
    bool found = false;
    static const struct {
        int code;
        const char *text;
    } row[] = {
        {PARE_EXIT_DONE, "done"},
        {PARE_EXIT_FAILED, "failed"},
        {PARE_EXIT_USAGE, "wrong usage or recipe, or an output that exists already"},
        {PARE_EXIT_FALLBACK,
         "done, with a numeric fallback, too little calibration for a pass or an expert that few "
         "tokens reach, under --strict"},
        {PARE_EXIT_INPUT, "bad, missing or unsupported input file"},
        {PARE_EXIT_RESOURCES, "not enough memory or disk"},
        {PARE_EXIT_INTERRUPTED, "interrupted; the same command continues the work"},
    };
    if (!code)
        (void)printf("exit codes\n");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "%d", row[i].code);
        if (code && strcmp(code, text) != 0)
            continue;
        found = true;
        (void)printf("  %3d  %s\n", row[i].code, row[i].text);
    }
    return found ? PARE_OK
                 : pare_fail(&cli->cx, PARE_EUSAGE,
                             "no exit code \"%s\"; \"pare help error\" lists them", code);
}

pare_status pare_help(pare_cli *cli, const char *topic)
{
    const char *known[PARE_ARGS_MAX];
    size_t count = 0;
    if (!topic) {
        print_overview();
        return PARE_OK;
    }
    for (const pare_command *c = pare_commands; c->name; known[count++] = c->name, c++)
        if (strcmp(c->name, topic) == 0) {
            pare_help_command(c);
            return PARE_OK;
        }
    for (size_t i = 0; i < pare_pass_count(); known[count++] = pare_passes[i]->name, i++)
        if (strcmp(pare_passes[i]->name, topic) == 0) {
            print_pass(pare_passes[i]);
            return PARE_OK;
        }
    known[count++] = "error";
    known[count++] = "kv_cache";
    known[count++] = "experts";
    known[count++] = "calibration";
    if (strcmp(topic, "kv_cache") == 0) {
        print_kv_cache();
        return PARE_OK;
    }
    if (strcmp(topic, "experts") == 0) {
        print_experts();
        return PARE_OK;
    }
    if (strcmp(topic, "calibration") == 0) {
        print_calibration();
        return PARE_OK;
    }
    if (strcmp(topic, "error") == 0)
        return print_errors(cli, NULL);
    const char *const near = pare_nearest_word(topic, known, count);
    return pare_fail(&cli->cx, PARE_EUSAGE, "no help on \"%s\"%s%s%s", topic,
                     near ? "; did you mean " : "; \"pare help\" lists the topics",
                     near ? near : "", near ? "?" : "");
}

pare_status pare_help_run(pare_cli *cli, const pare_args *args)
{
    if (args->operands < 2)
        return pare_help(cli, args->operands ? args->operand[0] : NULL);
    if (strcmp(args->operand[0], "error") == 0)
        return print_errors(cli, args->operand[1]);
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "help: \"%s\" is one word too many; usage: pare help "
                     "[TOPIC]",
                     args->operand[1]);
}
