/* Pages on the sections of a recipe. What a section takes comes from the tables that the parser
 * reads. */
#include <stdio.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/passes/pass.h"
#include "formats/export_target.h"

/* Name, what it takes, its default, what it is. */
static void print_setting(const pare_param *p, int width)
{
    char range[128], fallback[32];
    pare_help_range(p, range, sizeof range);
    pare_param_print(p, p->fallback, fallback, sizeof fallback);
    pare_help_words(printf("  %-*s %-24s %-10s ", width, p->name, range, fallback), width + 39,
                    p->help);
}

/* Planned as it stands by a test, from the root of the repository. */
static const char example_recipe[] =
    "pare: 1                       # the version of the grammar\n"
    "model: recipes/demo/hedge     # paths are relative to the recipe\n"
    "output: hedge-w4\n"
    "tokenizer: recipes/demo/hedge # without it the model's own\n"
    "seed: 0\n"
    "calibration:                  # text like that which the model will see\n"
    "  text: [recipes/demo/calibration.txt]\n"
    "  samples: 96                 # windows, drawn by the seed\n"
    "  window: 256                 # tokens of each\n"
    "passes:                       # in this order, block by block\n"
    "  - awq: {clip: false}        # a transform: changes the model, not what it computes\n"
    "  - gptq:                     # a quantizer: chooses the codes that are stored\n"
    "      bits: 4\n"
    "      group: 64\n"
    "      damp: 0.01\n"
    "      skip: [\"*.layers.0.mlp.down_proj\"]   # globs of whole names, in quotes\n"
    "  - rtn: {bits: 8, targets: [\"*.layers.0.mlp.down_proj\"]}\n"
    "kv_cache: {method: int8}      # keys and values of earlier tokens, too\n"
    "evaluate:                     # on text that is not in the calibration\n"
    "  - perplexity: {text: recipes/demo/evaluation.txt, window: 256}\n"
    "  - kl: {text: recipes/demo/evaluation.txt, window: 256}\n"
    "export:                       # the same weights as files of another engine\n"
    "  - {format: \"gguf:q4_0\", path: hedge-q4_0.gguf}\n"
    "limits: {ram: 8GiB}\n"
    "nan: error                    # a weight that is no number ends the job\n";

static void print_recipe(void)
{
    (void)printf("recipe: what to do with a model, as a YAML file\n\n"
                 "  %-12s %-30s %s\n",
                 "key", "for example", "what");
    for (const pare_recipe_key *k = pare_recipe_keys; k->name; k++)
        pare_help_words(printf("  %-12s %-30s ", k->name, k->example), 46, k->help);
    (void)printf(
        "\ntargets and skip of a pass choose linears by name:\n"
        "  \"*.mlp.*\"                a glob, which matches the whole name; sets: [a-c], "
        "[!a-c]\n"
        "  're:.*(?:q|k)_proj$'     a regular expression of Python (through PCRE2), which "
        "matches\n"
        "                           from the start of the name, as re.match does; $ stands "
        "for its end\n");
    (void)printf("\n\"pare init MODEL --preset w4a16\" writes a recipe for a model. \"pare plan "
                 "RECIPE\" says what a\nrecipe will do, in a moment; a mistake is named with file, "
                 "line and column. --set changes a\nrecipe from outside: --set "
                 "passes.0.gptq.bits=3.\n\nexample\n%s",
                 example_recipe);
}

static void print_evaluate(void)
{
    (void)printf(
        "evaluate: what is measured of the original and of the finished model\n\n"
        "  perplexity   how well the model predicts a text: exp of the mean loss; less is better\n"
        "  kl           perplexity, and how far the predictions moved from those of the original:\n"
        "               the KL divergence in nats. It sees damage that perplexity does not\n"
        "  choice       multiple choice: how many items each model answers right, and how many "
        "the\n"
        "               finished one gained and lost\n\n"
        "The first two take text: FILE or tokens: FILE.i32, and:\n");
    print_setting(pare_calibration_params[1], 12);
    print_setting(pare_limit_param, 12);
    (void)printf(
        "\nThe third takes file: FILE, as PIQA, ARC, OpenBookQA and HellaSwag are published, or "
        "in\n"
        "pare's own shape (\"pare help choice\"). limit: N keeps the first N windows, or items.\n"
        "\nWhat a finished job was evaluated on belongs to it: with other bytes there, the same "
        "command\nsays so and does nothing; --restart does the job anew, and pare eval measures "
        "the artifact as\nit is. In an unfinished job blocks that are done stay, and the text "
        "that is there counts.\n"
        "\nTake a text that is not in the calibration. The finished model runs with the kernels "
        "that\nwill run it, which round inputs, too; \"pare eval --exact\" leaves that out and "
        "measures the\nweights alone.\n\n"
        "evaluate: held_out measures kl on windows of the calibration text that the calibration "
        "leaves\nout, 32 at most, or on 8 more that the model writes (generate). A pruned model is "
        "always\nevaluated: without evaluate: so.\n\n"
        "example  evaluate:\n"
        "           - kl: {text: prose.txt, window: 256}\n"
        "           - kl: {text: code.txt, window: 256}\n"
        "           - choice: {file: valid.jsonl, limit: 500}    # PIQA, valid-labels.lst beside "
        "it\n"
        "         pare eval ARTIFACT --text FILE --baseline MODEL\n");
}

static void print_limits(void)
{
    (void)printf(
        "limits: how much memory a job may take\n\n"
        "  limits: {ram: 8GiB}       in the recipe; B, KB, MB, GB, KiB, MiB, GiB\n"
        "  --ram-limit 8GiB          of plan and compress, instead of the recipe's\n"
        "  ulimit -v, ulimit -d      limits of the shell\n"
        "  memory of the container   where the job runs in one\n\n"
        "The smallest counts. Where nothing is asked for, three quarters of the machine's memory. "
        "It\nbounds what pare allocates; mapped files come on top, and the system drops them when "
        "it "
        "needs\nthe room. A job that does not fit is refused with exit code 5 before it reads a "
        "weight, and\n\"pare plan\" says what it takes.\n\n"
        "The refusal names the first setting with which the job fits: gptq with correct: none, "
        "tokens\nthat count the same (token_weights: even), a shorter window, fewer --threads. The "
        "number of\nblocks does not matter: one is in memory at a time. Activations of all windows "
        "go to a file\nwhere they do not fit. \"pare doctor\" shows the limits of this machine.\n\n"
        "example  pare plan RECIPE --ram-limit 4GiB\n");
}

static void print_export(void)
{
    (void)printf("export: the finished weights as files of another engine\n\n");
    for (size_t i = 0; pare_export_targets[i]; i++)
        pare_help_words(printf("  %-20s ", pare_export_targets[i]->name), 23,
                        pare_export_targets[i]->summary);
    (void)printf(
        "\ncompressed-tensors, gptq and awq hold the codes as they are, or the export is refused "
        "with the\nname of the linear and the reason. GGUF quantizes again what is not on its "
        "grid; --strict\nrefuses that. Groups of 32, 64 or 128 that divide the inputs of every "
        "linear fit all of them.\nvLLM runs q, k and v as one matrix, and gate and up: quantize "
        "all of them alike, or none.\n\"pare plan\" checks exports of a recipe and says their size "
        "to "
        "the byte.\n\nWhat becomes of a linear, in the words of plan and export (and of JSON):\n"
        "  with the same weights  every weight is what pare computes with (lossless)\n"
        "  rounded to floats      weights in the floats of the model, no codes (rounded)\n"
        "  quantized again        other codes, on the grid of the format (requantized)\n"
        "  in floats as before    no pass quantized it; the output head is one (float)\n\n"
        "example  export:\n"
        "           - {format: compressed-tensors, path: out-vllm}\n"
        "         pare export ARTIFACT --format compressed-tensors --output out-vllm\n");
}

static void print_nan(void)
{
    (void)printf("nan: %s\n\n", pare_nan_param->help);
    for (const pare_word *w = pare_nan_param->words; w->text; w++)
        (void)printf("  %-8s %s\n", w->text,
                     w->value == PARE_NAN_ERROR ? "ends the job and names the tensor (the default)"
                     : w->value == PARE_NAN_CLAMP ? "an infinity becomes the largest number of its "
                                                    "type, NaN becomes 0"
                                                  : "both become 0");
    (void)printf("\nA healthy checkpoint has none: first look whether the download is whole "
                 "(\"pare verify MODEL\").\nThe result, README.md, report.html "
                 "and manifest.json say what was repaired.\n\n"
                 "example  nan: zero\n");
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
        for (const pare_param *p = pare_kv_params(m); p->name; p++)
            print_setting(p, 10);
    }
    (void)printf(
        "\n--kv METHOD of eval, generate and bench tries one on any model, but for kvquant: its "
        "levels are\ncalibrated, so the model must come from a recipe with kv_cache: {method: "
        "kvquant}.\n"
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
    for (const pare_param *p = pare_experts_params; p->name; p++)
        print_setting(p, 10);
    (void)printf(
        "\nlayers.csv, run.json and the notices of the job name experts that fewer tokens reach; "
        "--strict\nends with 3 then. In targets and skip \"*.experts.*\" means all of them. "
        "Quantizers and pruners\nwork on them; transforms (awq, smoothquant, ...) work on "
        "attention only; rotate, omniquant and\nwhat takes parts out are refused.\n"
        "\nexample  pare compress recipes/moe-gptq.yaml --model MODEL\n");
}

static void print_calibration(void)
{
    (void)printf("calibration: the inputs that a job sees, and how many of them passes need\n\n"
                 "  calibration: {text: [FILE, ...], samples: N, window: TOKENS}\n"
                 "  calibration: {tokens: FILE.i32, samples: all, window: TOKENS}\n"
                 "  calibration: {generate: {temperature: 1.0}, samples: N, window: TOKENS}\n\n"
                 "Take text like that which the model will see: plain UTF-8, not JSON, which would "
                 "be read as\n"
                 "it stands. tokens are little-endian int32. With generate the model writes the "
                 "text itself,\n"
                 "which needs no data and takes time.\n\n");
    for (size_t i = 0; pare_calibration_params[i]; i++)
        print_setting(pare_calibration_params[i], 12);
    (void)printf(
        "\nFor each linear layers.csv and manifest.json say what the Hessian of its inputs rests "
        "on:\n"
        "  rank               directions that the inputs have at all; tokens that repeat add none\n"
        "  effective_samples  tokens that the size of a column rests on: (sum x^2)^2 / sum x^4, "
        "the\n"
        "                     median over the columns\n"
        "layers.csv alone, for the reader:\n"
        "  effective_rank     how evenly the energy is spread over directions: tr(H)^2 / tr(H H)\n"
        "  loudest_token      share of the energy of the inputs in the loudest token, near 1 "
        "where\n"
        "                     it outweighs all others\n\n"
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
        "them (half a window where that is less than 8). A text that repeats itself counts once, "
        "up\nto twice in windows below 16. Effective samples count in the same proportion.\n\n"
        "A linear with less is rounded or pruned as if no input were known (gptq as rtn, wanda as\n"
        "magnitude); a transform leaves it as it is; scales of int8_tensor are taken from what "
        "there\nis; what flap, depth and slicegpt take out is left to chance. The job warns, "
        "layers.csv says\n"
        "thin, and --strict ends with 3. pare plan warns before any work, as far as the number of\n"
        "tokens tells.\n");
}

const pare_topic pare_topics[] = {
    {"recipe", "all keys of a recipe, and a whole one with comments", print_recipe},
    {"calibration", "the inputs a job sees; how many passes need", print_calibration},
    {"experts", "a part of calibration: mixtures of experts", print_experts},
    {"evaluate", "what is measured of the finished model", print_evaluate},
    {"kv_cache", "the key/value cache in few bits", print_kv_cache},
    {"export", "files of other engines", print_export},
    {"limits", "how much memory a job may take", print_limits},
    {"nan", "weights that are no numbers", print_nan},
    {"passes", "what passes there are, and in which order they can stand", pare_help_passes},
    {"choice", "files of multiple choice", pare_help_choice},
    {"preset", "recipes that pare init writes", pare_help_presets},
    {"log", "what is told while a command runs, for people and for programs", pare_help_log},
    {"exit", "exit codes", pare_help_exit},
    {NULL, NULL, NULL},
};
