/* Pages on passes as a whole, on files, and on what the program says. */
#include <stdio.h>
#include <string.h>

#include "compress/batch/batch.h"
#include "compress/cli/help_pages.h"
#include "compress/evaluate/task.h"
#include "compress/init/init.h"
#include "compress/passes/pass.h"

typedef enum kind { TRANSFORM, PRUNER, TRAINING, QUANTIZER, STRUCTURE, KINDS } kind;

static kind kind_of(const pare_pass *p)
{
    if (p->structure)
        return STRUCTURE;
    if (p->training || (p->transform && p->transform->restores))
        return TRAINING;
    if (pare_pass_transforms(p) || p->rotation)
        return TRANSFORM;
    return pare_pass_prunes(p) ? PRUNER : QUANTIZER;
}

void pare_help_passes(void)
{
    static const char *const title[KINDS] = {
        [TRANSFORM] = "Transforms change the weights, but not what the model computes (except by "
                      "clipping and learned rounding, which pare measures). They need a quantizer "
                      "after them; permute needs a pruner by N:M:",
        [PRUNER] = "Pruners set weights to zero. A linear has one at most, before its "
                   "quantizer:",
        [TRAINING] = "Training wins back a part of what pruners or quantizers lost. It comes after "
                     "them:",
        [QUANTIZER] = "Quantizers choose the codes that are stored. A linear has one at most:",
        [STRUCTURE] = "Structured passes remove whole parts and come first. The result is a "
                      "smaller plain checkpoint, which later passes work on:",
    };
    (void)printf(
        "passes: what pare does with the linears of each block, in the order of the list\n");
    for (kind k = TRANSFORM; k < KINDS; k++) {
        (void)printf("\n");
        pare_help_words(0, 0, title[k]);
        for (size_t i = 0; i < pare_pass_count(); i++)
            if (kind_of(pare_passes[i]) == k)
                pare_help_row(24, pare_passes[i]->name, pare_passes[i]->summary);
    }
    (void)printf(
        "\nA pass works on every linear of the blocks, or on those that its targets: and "
        "skip: choose, so\ndifferent linears can have different quantizers. \"pare help "
        "PASS\" has the parameters of a pass,\n\"pare help PARAMETER\" the passes that have "
        "one. \"pare plan\" refuses an order that cannot work, and\nsays why.\n\n"
        "example  passes:\n"
        "           - smoothquant: {alpha: 0.5}\n"
        "           - gptq: {bits: 4, group: 64, skip: [\"*.down_proj\"]}\n"
        "           - rtn: {bits: 8, targets: [\"*.down_proj\"]}\n");
}

void pare_help_require(void)
{
    (void)printf("require: what the finished model must keep to\n\n");
    for (const pare_requirement_word *w = pare_requirement_words; w->name; w++) {
        char text[192];
        (void)snprintf(text, sizeof text, "%s: %s", w->takes, w->help);
        pare_help_words(printf("  %-11s ", w->name), 14, text);
    }
    (void)printf(
        "\nThe verdict is one of these:\n"
        "  ACCEPT      every requirement is kept\n"
        "  REGRESSION  one is not\n"
        "  ANOMALOUS   a figure cannot be (not finite, KL below 0), or is better than that of the\n"
        "              original beyond its error: perplexity lower by more than twice the "
        "standard\n"
        "              error of the difference, or items of choice gained with p below 0.05. A\n"
        "              model can be better after training on such text; else look at the data.\n"
        "              Or a part of the original's share is required (\">= 90%%\") and that is 0\n"
        "  INFEASIBLE  the files are larger than bytes allows. pare knows that before it begins,\n"
        "              and writes nothing; a finished output keeps its old verdict\n"
        "\n"
        "With any but ACCEPT the exit code is 6. The artifact is there all the same: its "
        "README.md,\n"
        "report.html and run.json have the verdict, and inspect and export say it. Another bound "
        "is\n"
        "no other job: the same command holds the finished output against it, from the figures in\n"
        "its run.json, and writes the new verdict into these files.\n"
        "\n"
        "fallback: settings to take in turn after REGRESSION or INFEASIBLE, each a mapping of "
        "paths\n"
        "as --set takes them, but none of model, output, tokenizer, evaluate, require and "
        "fallback.\n"
        "All are planned first: one that cannot work is refused, and one whose files are larger\n"
        "than bytes allows is left out. Only the last attempt becomes the output: the first that\n"
        "does not fall short, or the last there is. The same command continues where a killed one\n"
        "stopped. A finished output stays, whatever bounds and fallbacks become: only --restart\n"
        "tries them anew.\n"
        "\n"
        "example  evaluate: [kl: {text: prose.txt}]\n"
        "         require: {kl: \"<= 0.02\", perplexity: \"<= +1%%\", bytes: \"<= 4GiB\"}\n"
        "         fallback:\n"
        "           - {passes.0.gptq.bits: 4}\n"
        "           - {passes.0.gptq.bits: 4, passes.0.gptq.group: 32}\n");
}

void pare_help_choice(void)
{
    (void)printf("choice: files of multiple choice, for --choice and for evaluate: in a recipe\n"
                 "\n"
                 "A file has a JSON object on each line, as these sets are published. The keys of "
                 "the first item\n"
                 "tell which set it is, and all items must have the same keys:\n"
                 "\n"
                 "  pare        {\"context\", \"choices\": [\"..\"], \"answer\": 0}; pare takes "
                 "the texts as they are:\n"
                 "              begin each choice with a space where it is a word of its own\n"
                 "  PIQA        {\"goal\", \"sol1\", \"sol2\", \"label\"}; without \"label\" pare "
                 "reads the labels of\n"
                 "              valid.jsonl from valid-labels.lst beside it, 0 or 1 on a line\n"
                 "  ARC         {\"question\": {\"stem\", \"choices\": [{\"text\", \"label\"}]}, "
                 "\"answerKey\"}, or\n"
                 "              \"question\" as a text and \"choices\" with the lists \"text\" and "
                 "\"label\"\n"
                 "  OpenBookQA  the first form of ARC with an \"id\" that begins with a digit, or "
                 "the second with\n"
                 "              \"question_stem\" in place of \"question\"\n"
                 "  HellaSwag   {\"ctx\", \"endings\": [\"..\"], \"label\"}\n"
                 "\n"
                 "The model reads \"Question: ..\\nAnswer:\" of PIQA and ARC, the stem of "
                 "OpenBookQA, the context of\n"
                 "HellaSwag, then a space and the choice. accuracy takes the choice with the "
                 "largest sum of\n"
                 "log-likelihoods, accuracy_norm the one with the largest sum per byte. pare "
                 "refuses an item that\n"
                 "is longer than the context of the model, and names its line.\n"
                 "\n"
                 "example  pare eval MODEL --choice valid.jsonl --limit 500\n");
}

void pare_help_tasks(void)
{
    (void)printf("tasks: scored as EleutherAI's lm-evaluation-harness scores them, for --tasks and "
                 "evaluate:\n\n");
    for (size_t i = 0; pare_task_at(i); i++) {
        const pare_task_row *const t = pare_task_at(i);
        pare_help_row(15, pare_task_name(t), pare_task_metrics(t));
        pare_help_row(15, "", pare_task_keys(t));
    }
    (void)printf(
        "\nThe second line of each has the keys of its file: JSON objects, one on a line, or CSV "
        "with a row\nof names (lists need JSON). Files as their authors publish them are read, "
        "too: "
        "two files of PIQA,\nnested questions of ARC and OpenBookQA, CSV of MMLU without names, "
        "choices of TruthfulQA with 0\nor 1, the text of WikiText. A file without \"subject\" is "
        "mmlu_anatomy=FILE. Parquet has to be\nconverted; the error says how. --limit takes the "
        "first documents.\n\n"
        "--shots N puts N solved documents in front, from the file that --shots-from names: the "
        "first of\nthe subject for mmlu, else those that the harness draws (seed 1234). "
        "truthfulqa, lambada and\nwikitext take none. A document that is too long for the model "
        "loses the beginning of its context;\nthe result says how many did.\n\n"
        "The model writes its answers to gsm8k, greedily and at most 256 tokens: strict-match "
        "looks for the\nnumber behind the first \"#### \", flexible-extract for the last number. "
        "The "
        "harness gives 5 shots.\n\n"
        "--by FIELD splits the first share of each task by a field of its documents, such as their "
        "grade.\n\n"
        "acc_norm divides a sum of log-likelihoods by the characters of the choice. With "
        "--baseline, gained\nand lost are documents that only one of both models answers right, "
        "and p is McNemar's exact test.\n\n"
        "example  pare eval MODEL --tasks piqa=valid.jsonl,mmlu=mmlu.jsonl --limit 500\n"
        "         pare eval MODEL --tasks mmlu_anatomy=anatomy_test.csv --shots 5 \\\n"
        "           --shots-from mmlu_anatomy=anatomy_dev.csv\n");
}

void pare_help_needle(void)
{
    (void)printf(
        "needle: whether a model finds a number that stands somewhere in a long text\n"
        "\n"
        "  A number is hidden in this text. Find it and keep it in mind.\n"
        "  <sentences of FILE> The hidden number is 48213. <sentences of FILE>\n"
        "  What is the hidden number? The hidden number is <answer>\n"
        "\n"
        "--needle FILE takes the sentences of a text, as many as fit a prompt of the tokens that "
        "--lengths\n"
        "names, answer included. The number stands behind 0, 25, 50, 75 and 100 %% of them. --keys "
        "N numbers\n"
        "are asked at each length and depth. A number, and the sentence that its prompts begin "
        "with, are\n"
        "drawn by --seed; they are the same at all lengths and depths. An answer is right when "
        "each of its\n"
        "tokens is the likeliest one: when greedy decoding writes it.\n"
        "\n"
        "With --baseline both models are asked the same; gained and lost are prompts that only one "
        "of them\n"
        "answers right, and p is McNemar's exact test. Memory: hidden states of one prompt, and "
        "keys and\n"
        "values of one block for it, twice.\n"
        "\n"
        "After passkey retrieval (Mohtashami and Jaggi, Landmark Attention, 2023) and niah_single "
        "of RULER\n"
        "(Hsieh et al., 2024). Different from them: the words of the prompt; your text in place "
        "of a few\n"
        "sentences that repeat, or of essays; depths that are the same for all; and the answer "
        "must come\n"
        "first, while they look for the number in a longer output. So hold models against each "
        "other, not\n"
        "against figures of papers.\n"
        "\n"
        "example  pare eval ARTIFACT --baseline MODEL --needle prose.txt --lengths "
        "1024,4096,8192\n");
}

void pare_help_presets(void)
{
    (void)printf("preset: recipes that \"pare init MODEL --preset NAME\" writes for a model\n\n");
    for (size_t i = 0; i < pare_init_preset_count(); i++) {
        const pare_init_preset_row row = pare_init_preset_at(i);
        char text[128];
        (void)snprintf(text, sizeof text, "%s%s%s%s", row.summary, row.engines ? ", for " : "",
                       row.engines ? row.engines : "", row.engines ? ", too" : "");
        pare_help_row(11, row.name, text);
    }
    (void)printf("\nA preset chooses groups that divide the widths of the model, as much "
                 "calibration as the passes\nneed, and an export that can hold the result. It "
                 "says why in comments. Where no group that\nengines take divides the widths, it "
                 "takes group: row (w2: 32; exl3 has none, and is refused where\n16 does not "
                 "divide rows and columns). Where no format holds the result (exl3: where 128 does "
                 "not\ndivide them), the recipe has no export, and pare says so on stderr. 2:4 "
                 "needs --text or --tokens,\nbecause pare evaluates a pruned model on text that it "
                 "was not calibrated on.\n\n"
                 "example  pare init llama/ --preset w4a16 --text prose.txt --output "
                 "llama-w4.yaml\n");
}

void pare_help_log(void)
{
    static const char *const row[][2] = {
        {"start", "pare has read the options: command, version"},
        {"plan, resume", "compress knows what it will do; compress finds blocks of an earlier run"},
        {"phase", "a step or a piece of work begins: job_share, left_seconds"},
        {"progress", "a piece of work takes longer than two seconds, then every 30 seconds: share, "
                     "job_share, left_seconds"},
        {"block", "compress has stored a block: block (from 0), blocks, linears with their errors"},
        {"notice, warning", "as people see them"},
        {"interrupted", "SIGINT, SIGTERM, SIGHUP or SIGXCPU came: signal"},
        {"refused", "pare did not begin the work: exit_code"},
        {"error", "something failed: exit_code"},
        {"done", "always the last: exit_code"},
    };
    (void)printf(
        "log: what a command says on stderr while it runs; stdout has results only\n\n"
        "On a terminal a command that takes longer than two seconds shows a bar. Elsewhere such a "
        "command\n"
        "writes a line with the time in UTC when a step begins, when a block is done, and at least "
        "every\n"
        "30 seconds. --no-progress turns all of them off; messages and warnings stay.\n"
        "\n"
        "  --log json         events take the place of the text, one JSON object a line\n"
        "  --log json:FILE    appends them to FILE, which is new, empty or a log of pare; stderr "
        "stays\n"
        "                     as it is\n\n"
        "Every event has event, time, seconds (since the start) and text, and beside them:\n");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        pare_help_row(19, row[i][0], row[i][1]);
    (void)printf("\nA log that does not end with done belongs to a command that was killed.\n\n"
                 "example  pare compress w4.yaml --log json:w4.log\n");
}

/* The words of docs/log.md, which a test compares. */
static const struct {
    int code;
    const char *text;
} exits[] = {
    {PARE_EXIT_DONE, "done"},
    {PARE_EXIT_FAILED,
     "failed, or the GPU did or is not there; bench --compare: slower, or a row is missing"},
    {PARE_EXIT_USAGE,
     "wrong usage or recipe, a recipe whose model or text is not there, or an output that belongs "
     "to "
     "another job (--restart replaces it), holds something that pare did not write, is in use, "
     "or cannot be written ($TMPDIR, too)"},
    {PARE_EXIT_FALLBACK,
     "done, with a numeric fallback, weights too small for their storage, too little calibration "
     "for a pass, an expert that few tokens reach with cold: rtn, a training that made the model "
     "worse, or an "
     "evaluation that device: auto left to the CPU, under --strict; init --from: something was "
     "left out"},
    {PARE_EXIT_INPUT, "bad, damaged, missing or unsupported input file, or one that changed during "
                      "the run; a format that cannot hold the model (export; in a recipe it "
                      "is 2); verify found something; training diverged"},
    {PARE_EXIT_RESOURCES, "not enough memory or disk, limits of the shell included"},
    {PARE_EXIT_VERDICT,
     "done, and the result does not keep to what its recipe requires, or nothing "
     "was done because it cannot, or plan says that it cannot: the verdict is not ACCEPT (pare "
     "help "
     "require)"},
    {PARE_BATCH_OTHER, "of a job of a batch (pare --of-batch compress) in place of 2, where the "
                       "output belongs to another job, and --restart replaces it"},
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
