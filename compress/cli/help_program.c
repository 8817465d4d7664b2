/* Pages on passes as a whole, on files, and on what the program says. */
#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/init/init.h"
#include "compress/passes/pass.h"

typedef enum kind { TRANSFORM, PRUNER, QUANTIZER, STRUCTURE, KINDS } kind;

static kind kind_of(const pare_pass *p)
{
    if (p->structure)
        return STRUCTURE;
    if (pare_pass_transforms(p) || p->rotation)
        return TRANSFORM;
    return pare_pass_prunes(p) ? PRUNER : QUANTIZER;
}

void pare_help_passes(void)
{
    static const char *const title[KINDS] = {
        [TRANSFORM] = "transforms, which change weights and not what the model computes; they need "
                      "a quantizer behind them (permute a pruner by N:M)",
        [PRUNER] = "pruners, which take weights out; of a linear one at most, in front of its "
                   "quantizer",
        [QUANTIZER] = "quantizers, which choose the codes that are stored; of a linear one at most",
        [STRUCTURE] = "passes that take out whole parts, and stand alone; the result is a smaller "
                      "plain checkpoint",
    };
    (void)printf("passes: what is done with the linears of each block, in the order of the list\n");
    for (kind k = TRANSFORM; k < KINDS; k++) {
        (void)printf("\n");
        pare_help_words(0, 0, title[k]);
        for (size_t i = 0; i < pare_pass_count(); i++)
            if (kind_of(pare_passes[i]) == k)
                pare_help_words(printf("  %-21s ", pare_passes[i]->name), 24,
                                pare_passes[i]->summary);
    }
    (void)printf("\nEvery linear of the blocks is worked on; targets: and skip: of a pass choose "
                 "others, so that\nlinears can have different quantizers. \"pare help PASS\" has "
                 "the parameters of one, \"pare plan\"\nrefuses an order that cannot work.\n\n"
                 "example  passes:\n"
                 "           - smoothquant: {alpha: 0.5}\n"
                 "           - gptq: {bits: 4, group: 64, skip: [\"*.down_proj\"]}\n"
                 "           - rtn: {bits: 8, targets: [\"*.down_proj\"]}\n");
}

void pare_help_choice(void)
{
    (void)printf(
        "choice: files of multiple choice, of --choice and of evaluate: in a recipe\n\n"
        "Lines of JSON, as they are published. The keys of the first item tell the shape, and all "
        "must\nhave the same:\n\n"
        "  pare        {\"context\", \"choices\": [\"..\"], \"answer\": 0}, texts as they are:\n"
        "              begin each choice with a space where it is a word of its own\n"
        "  PIQA        {\"goal\", \"sol1\", \"sol2\", \"label\"}; without \"label\" the labels of\n"
        "              valid.jsonl stand in valid-labels.lst beside it, 0 or 1 a line\n"
        "  ARC         {\"question\": {\"stem\", \"choices\": [{\"text\", \"label\"}]}, "
        "\"answerKey\"}, or\n"
        "              \"question\" as a text and \"choices\" with the lists \"text\" and "
        "\"label\"\n"
        "  OpenBookQA  the first of ARC with an \"id\" that begins with a digit, or the second "
        "with\n"
        "              \"question_stem\" in place of \"question\"\n"
        "  HellaSwag   {\"ctx\", \"endings\": [\"..\"], \"label\"}\n\n"
        "The model reads \"Question: ..\\nAnswer:\" of PIQA and ARC, the stem of OpenBookQA, the "
        "context\nof HellaSwag; of these four a choice follows behind a space. Accuracy: the "
        "choice "
        "with the\nlargest sum of log-likelihoods is right; accuracy_norm: the largest sum per "
        "byte "
        "of the\nchoice. An item that is longer than the context of the model is refused with its "
        "line.\n\n"
        "example  pare eval MODEL --choice valid.jsonl --limit 500\n");
}

void pare_help_presets(void)
{
    (void)printf("preset: recipes that \"pare init MODEL --preset NAME\" writes for a model\n\n");
    for (size_t i = 0; i < pare_init_preset_count(); i++)
        pare_help_words(printf("  %-8s ", pare_init_preset_at(i).name), 11,
                        pare_init_preset_at(i).summary);
    (void)printf("\nA preset chooses groups that divide the widths of the model, as much "
                 "calibration as the passes\nneed, and an export that can hold the result, and "
                 "says why in comments. 2:4 needs --text or\n--tokens, because what pruning loses "
                 "is measured on data that it has not seen.\n\n"
                 "example  pare init llama/ --preset w4a16 --text prose.txt --output "
                 "llama-w4.yaml\n");
}

void pare_help_log(void)
{
    static const char *const row[][2] = {
        {"start", "the options are read: command, version"},
        {"plan, resume", "compress knows what it will do; finds blocks of an earlier run"},
        {"phase", "a step or a piece of work begins: job_share, left_seconds"},
        {"progress", "a piece of work takes longer than two seconds; and every 30 seconds: share, "
                     "job_share, left_seconds"},
        {"block", "compress has stored a block: block (from 0), blocks, linears with their errors"},
        {"notice, warning", "as people see them"},
        {"interrupted", "SIGINT, SIGTERM, SIGHUP or SIGXCPU came: signal"},
        {"refused", "no work was begun: exit_code"},
        {"error", "something failed: exit_code"},
        {"done", "always the last: exit_code"},
    };
    (void)printf(
        "log: what is told on stderr while a command runs; stdout has results only\n\n"
        "On a terminal a command that takes longer than two seconds has a bar. Elsewhere a line "
        "with the\ntime in UTC says so when a step begins, and at least every 30 seconds. "
        "--no-progress leaves both\nout, and the lines of blocks that are done; messages and "
        "warnings stay.\n\n"
        "  --log json         events take the place of the text, one JSON object a line\n"
        "  --log json:FILE    appends them to FILE, which is new, empty or a log of pare; people "
        "read\n"
        "                     stderr as before\n\n"
        "Every event has event, time, seconds (since the start) and text, and beside them:\n");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        pare_help_words(printf("  %-16s ", row[i][0]), 19, row[i][1]);
    (void)printf("\nA log that does not end in done is of a command that was killed.\n\n"
                 "example  pare compress w4.yaml --log json:w4.log\n");
}

/* The words of docs/log.md, which a test compares. */
static const struct {
    int code;
    const char *text;
} exits[] = {
    {PARE_EXIT_DONE, "done"},
    {PARE_EXIT_FAILED, "failed; bench --compare: slower, or a row is missing"},
    {PARE_EXIT_USAGE,
     "wrong usage or recipe, a recipe whose model is not there, or an output that belongs to "
     "another job (--restart replaces it), holds something that pare did not write, or is in use"},
    {PARE_EXIT_FALLBACK,
     "done, with a numeric fallback, weights too small for their storage, too little calibration "
     "for a pass, or an expert that few "
     "tokens reach, under --strict; init --from: something was left out"},
    {PARE_EXIT_INPUT, "bad, damaged, missing or unsupported input file, or one that changed during "
                      "the run; a format that cannot hold the model (export; in a recipe it "
                      "is 2); verify found something"},
    {PARE_EXIT_RESOURCES, "not enough memory or disk, limits of the shell included"},
    {PARE_EXIT_INTERRUPTED,
     "interrupted, resumable; the first ^C stops at a safe place, as SIGTERM, a terminal that is "
     "closed (SIGHUP) and ulimit -t do; the second ^C at once"},
};

static void print_exit(size_t i)
{
    pare_help_words(printf("  %3d  ", exits[i].code), 7, exits[i].text);
}

void pare_help_exit(void)
{
    (void)printf("exit: what the exit code of a command says\n\n");
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++)
        print_exit(i);
    (void)printf("\nexample  pare help exit 4\n");
}

pare_status pare_help_exit_code(pare_cli *cli, const char *code)
{
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "%d", exits[i].code);
        if (strcmp(code, text) != 0)
            continue;
        print_exit(i);
        return PARE_OK;
    }
    return pare_fail(&cli->cx, PARE_EUSAGE, "no exit code \"%s\"; \"pare help exit\" lists them",
                     code);
}
