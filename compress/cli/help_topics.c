/* Pages on the sections of a recipe. What a section takes comes from the tables that the parser
 * reads. */
#include <stdio.h>
#include <string.h>

#include "compress/cli/help_pages.h"
#include "compress/passes/pass.h"
#include "formats/export_target.h"

/* Planned as it stands by a test, from the root of the repository. */
static const char example_recipe[] =
    "pare: 1                       # the version of the grammar\n"
    "model: recipes/demo/hedge     # paths are relative to the recipe\n"
    "output: hedge-w4\n"
    "tokenizer: recipes/demo/hedge # without it the model's own\n"
    "original: recipes/demo/hedge  # what results are compared with; without it the model\n"
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
    "embeddings: {rtn: {bits: 8, group: 32}}\n"
    "head: {rtn: {bits: 8, group: 32}}   # the same, because this model ties it to them\n"
    "kv_cache: {method: int8}      # keys and values of earlier tokens, too\n"
    "evaluate:                     # on text that is not in the calibration\n"
    "  - perplexity: {text: recipes/demo/evaluation.txt, window: 256}\n"
    "  - kl: {text: recipes/demo/evaluation.txt, window: 256}\n"
    "require: {kl: \"<= 0.05\"}      # what the result must keep to\n"
    "fallback:                     # what to try where it does not\n"
    "  - {passes.1.gptq.bits: 8}\n"
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
        "\ntargets and skip of a pass choose linears by the names that \"pare plan\" prints:\n"
        "  \"*.mlp.*\"                a glob, which matches the whole name; sets: [a-c], "
        "[!a-c]\n"
        "  're:.*(?:q|k)_proj$'     a regular expression of Python (through PCRE2), which "
        "matches\n"
        "                           from the start of the name, as re.match does; $ stands "
        "for its end\n");
    (void)printf("\n\"pare init MODEL --preset w4a16\" writes a recipe for a model. \"pare plan "
                 "RECIPE\" says in a moment\nwhat a recipe will do. pare names the file, line and "
                 "column of a mistake. --set changes a recipe\nfrom outside: --set "
                 "passes.0.gptq.bits=3.\n\nexample\n%s",
                 example_recipe);
}

static void print_evaluate(void)
{
    (void)printf(
        "evaluate: what pare measures of the original and of the finished model\n"
        "\n"
        "  perplexity   how well the model predicts a text: exp of the mean loss; less is better\n"
        "  kl           perplexity, and the KL divergence in nats: how far the predictions moved "
        "from those\n"
        "               of the original. It sees damage that perplexity does not\n"
        "  choice       multiple choice: how many items each model answers right, and how many "
        "the\n"
        "               finished one gained and lost\n"
        "  tasks        piqa, arc_easy, hellaswag, mmlu and others as lm-evaluation-harness scores "
        "them\n"
        "  needle       how often each model finds a number in a long text (\"pare help needle\")\n"
        "  continuations  what both write behind pieces of a text: how long it is, how often it "
        "repeats\n"
        "               itself, and how far they agree\n"
        "\n"
        "perplexity and kl take text: FILE or tokens: FILE.i32, and:\n");
    for (size_t i = 0; pare_evaluate_params[i]; i++)
        pare_help_setting(pare_evaluate_params[i]);
    (void)printf(
        "\n"
        "choice takes file: FILE, as PIQA, ARC, OpenBookQA and HellaSwag are published, or in "
        "pare's own\n"
        "form (\"pare help choice\"), limit, device and device_products. tasks takes a file for "
        "each task\n"
        "(\"pare help tasks\"), the same, shots: N, shots_from with a file for each task, and by: "
        "FIELD.\n"
        "\n"
        "needle takes text: FILE, lengths: [512, 1024] (without it 512, 1024, 2048, 4096 as far as "
        "the\n"
        "context goes), device, device_products, and:\n");
    for (const pare_param *p = pare_needle_params; p->name; p++)
        pare_help_setting(p);
    (void)printf(
        "\n"
        "continuations takes text: FILE or tokens: FILE.i32, window, device, device_products, "
        "and:\n");
    for (const pare_param *p = pare_continue_params; p->name; p++)
        pare_help_setting(p);
    (void)printf(
        "\n"
        "Take a text that is not in the calibration. pare evaluates the finished model with the "
        "kernels\n"
        "that will run it, which round inputs, too; \"pare eval --exact\" measures the weights "
        "alone.\n"
        "\n"
        "evaluate: held_out measures kl on windows of the calibration text that pare leaves out of "
        "the\n"
        "calibration, 32 at most; with generate on 8 more windows that the model writes. A pruned "
        "model\n"
        "without evaluate: gets this evaluation.\n"
        "\n"
        "The texts belong to a finished job: when their bytes change, the same command says so and "
        "does\n"
        "nothing. Give --restart to do the job again, or take pare eval to measure the artifact as "
        "it is.\n"
        "An unfinished job keeps the blocks that are done, and takes the text as it is now.\n"
        "\n"
        "example  evaluate:\n"
        "           - kl: {text: prose.txt, window: 256}\n"
        "           - kl: {text: code.txt, device: auto}         # on a GPU where there is one\n"
        "           - choice: {file: valid.jsonl, limit: 500}    # PIQA, valid-labels.lst beside "
        "it\n"
        "           - tasks: {piqa: valid.jsonl, arc_easy: arc.jsonl, limit: 500}\n"
        "           - needle: {text: prose.txt, lengths: [1024, 4096]}\n"
        "           - continuations: {text: prose.txt, prompts: 64}\n"
        "         pare eval ARTIFACT --text FILE --baseline MODEL\n");
}

static void print_limits(void)
{
    (void)printf(
        "limits: how much memory a job may take\n"
        "\n"
        "  limits: {ram: 8GiB}       in the recipe; B, KB, MB, GB, KiB, MiB, GiB\n"
        "  --ram-limit 8GiB          of plan and compress, instead of the recipe's\n"
        "  ulimit -v, ulimit -d      limits of the shell\n"
        "  memory of the container   where the job runs in one\n"
        "\n"
        "The smallest of them counts. Without the first two the limit is three quarters of the "
        "machine's\n"
        "memory. It bounds what pare allocates. Mapped files come on top; the system drops them "
        "when it\n"
        "needs the room. pare refuses a job that does not fit with exit code 5 before it reads a "
        "weight.\n"
        "\"pare plan\" says how much memory a job takes.\n"
        "\n"
        "The refusal names the first setting with which the job fits: correct: none, then\n"
        "token_weights: even, a shorter window, fewer --threads. The number of blocks does not "
        "matter,\n"
        "because one is in memory at a time. Activations that do not fit in memory go to a file.\n"
        "Where that is not enough, linears stay as they are stored, one in floats at a time, and "
        "what\n"
        "inputs have drifted goes to a file: slower, the same bytes. pare plan says so.\n"
        "\"pare doctor\" shows the limits of this machine.\n"
        "\n"
        "example  pare plan RECIPE --ram-limit 4GiB\n");
}

static void print_export(void)
{
    (void)printf("export: the finished weights as files of another engine\n\n");
    for (size_t i = 0; pare_export_targets[i]; i++)
        pare_help_row(23, pare_export_targets[i]->name, pare_export_targets[i]->summary);
    (void)printf(
        "\n"
        "compressed-tensors, gptq, awq and exl3 hold the codes as they are; where they cannot,\n"
        "pare refuses the export and names the linear and the reason. GGUF quantizes linears\n"
        "again that are not on its grid; --strict refuses that. Groups of 32, 64 or 128 that\n"
        "divide the inputs of every linear fit all formats of integers. exl3 is for the pass\n"
        "exl3, where 128 divides rows and columns. vLLM runs q, k and v as one matrix, and gate\n"
        "and up: quantize all of them alike, or none. \"pare plan\" checks the exports of a\n"
        "recipe and says their size to the byte.\n"
        "\n"
        "tensor_parallel: N (here --tensor-parallel N) writes the same files: engines slice them "
        "when\n"
        "they load them. It refuses what N ranks would not get whole: heads, groups, blocks and "
        "words,\n"
        "and names the linear and the group that would do.\n"
        "\n"
        "What becomes of a linear, in the words of plan and export (and of JSON):\n"
        "  with the same weights  every weight is what pare computes with (lossless)\n"
        "  rounded to floats      weights in the floats of the model, no codes (rounded)\n"
        "  quantized again        other codes, on the grid of the format (requantized)\n"
        "  in floats as before    no pass quantized it; the output head is one (float). gguf:f16\n"
        "                         rounds them where they are F32 or BF16\n"
        "  of floats quantized here  the same in a mix of types, by its plain rule (quantized)\n"
        "\n"
        "example  export:\n"
        "           - {format: compressed-tensors, path: out-vllm, tensor_parallel: 2}\n"
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
    (void)printf("\nA healthy checkpoint has none, so first check that the download is whole "
                 "(\"pare verify MODEL\").\nThe result, README.md, report.html and manifest.json "
                 "say what pare repaired.\n\n"
                 "example  nan: zero\n");
}

static void print_kv_cache(void)
{
    static const char *const source[PARE_KV_METHODS] = {
        [PARE_KV_FLOAT] = "F32, exact (the default)",
        [PARE_KV_INT8] = "8 bits, symmetric, a scale per token and head",
        [PARE_KV_INT4] =
            "4 bits, asymmetric, a scale and a minimum per token and group of channels",
        [PARE_KV_KIVI] = "2 bits, K per channel, V per token (Liu et al., KIVI, 2024)",
        [PARE_KV_KVQUANT] =
            "3 bits, K before RoPE, calibrated levels (Hooper et al., KVQuant, 2024)"};
    (void)printf("kv_cache: how the finished model keeps keys and values of earlier tokens\n\n");
    for (pare_kv_method m = PARE_KV_FLOAT; m < PARE_KV_METHODS; m++) {
        (void)printf("%smethod: %-8s %s\n", m ? "\n" : "", pare_kv_method_name(m), source[m]);
        for (const pare_param *p = pare_kv_params(m); p->name; p++)
            pare_help_setting(p);
    }
    (void)printf(
        "\n--kv METHOD of eval, generate and bench tries a method on any model. kvquant needs a "
        "model from a\nrecipe with kv_cache: {method: kvquant}, because its levels are "
        "calibrated.\n"
        "\nexample  kv_cache: {method: kivi, window: 128}\n         pare eval MODEL --text "
        "FILE --kv kivi\n");
}

static void print_tables(void)
{
    (void)printf(
        "tables: the embeddings and the output head in few bits\n"
        "\n"
        "  embeddings: {rtn: {bits: 8, group: 32}}\n"
        "  head: {gptq: {grid: q6_k}}\n"
        "\n"
        "Each takes one quantizer with its parameters, without targets. Without the keys both stay "
        "as they\n"
        "are in the checkpoint, in 16 bits: in small models that is a large part of all bytes. "
        "Where the\n"
        "model ties both, they are one matrix: give one of the keys, or both alike.\n"
        "\n"
        "Embeddings take quantizers that look at weights alone: rtn, hqq, nf4, fp8, mxfp4, nvfp4, "
        "ternary.\n"
        "A head (and a tied matrix) has inputs, so gptq works, too, without correct and tune: its "
        "Hessian\n"
        "is of what the finished blocks give, every token counted alike. Blocks are calibrated "
        "with "
        "the\n"
        "embeddings as they were. pare quantizes these matrices whole, in floats in memory, and "
        "does not\n"
        "do so with rotate and slicegpt, nor by gptq from kept statistics. GPTQ and AWQ files\n"
        "hold a head on the grid of the other linears alone.\n"
        "\n"
        "Both go beside passes, of which a recipe has one at least.\n"
        "\n"
        "GGUF files of one type keep the codes where a type of blocks has them (q8_0, q4_0, q4_k, "
        "q6_k),\n"
        "and get q8_0 else; a mix (gguf:q4_k_m) gives them its own types. Other engines look "
        "embeddings\n"
        "up in floats, so exports have floats there; a head goes out in codes where the format has "
        "a place.\n"
        "\n"
        "example  passes: [gptq: {bits: 4, group: 64}]\n"
        "         head: {gptq: {bits: 4, group: 32}}\n");
}

static void print_experts(void)
{
    (void)printf(
        "experts: how pare calibrates a mixture of experts (mixtral, qwen2_moe, qwen3_moe, "
        "gpt_oss,\n"
        "deepseek_v2, deepseek_v3, llama4_text, qwen3_5_moe_text, qwen3_next, glm4_moe)\n"
        "\n"
        "In each block pare first compresses what every token runs (attention, a shared expert), "
        "then the\n"
        "experts, each on the tokens that the router sends to it. The router stays as it is, but "
        "for rows\n"
        "of experts that reap removes. The memory\n"
        "limit decides how many experts share one reading of the calibration; the result is the "
        "same.\n"
        "\n"
        "calibration: {..., experts: {...}}\n");
    for (const pare_param *p = pare_experts_params; p->name; p++)
        pare_help_setting(p);
    (void)printf(
        "\n"
        "The notices of the job, layers.csv and run.json name the experts that fewer tokens reach, "
        "and\n"
        "--strict ends with exit code 3 where cold is rtn, and where reap warns.\n"
        "\"*.experts.*\" in targets and skip means all experts. Quantizers and pruners work on "
        "experts;\n"
        "transforms (awq, smoothquant, ...) work on attention only. reap removes experts, and "
        "warns of\n"
        "those that fewer than 128 new tokens reach (or min_tokens, where that is more). pare "
        "refuses\n"
        "rotate, omniquant, signround, ebft and passes that remove parts (but reap) for these "
        "models.\n"
        "\n"
        "example  pare compress recipes/moe-gptq.yaml --model MODEL\n");
}

static void print_kept(void)
{
    (void)printf(
        "\n"
        "keep: FILE.h5 gathers statistics of the original model into an HDF5 file before the first "
        "block,\n"
        "and the job takes them from there. A file that is there already is used if it is of the "
        "same\n"
        "model, tokens and settings. from: FILE.h5 takes such a file in place of all other "
        "settings: no\n"
        "pass of the calibration. So many jobs, as those of a batch, gather once.\n"
        "\n"
        "Linears do not see then what those in front of them lost; tokens count by the loss and "
        "products\n"
        "are in BF16 unless the recipe says otherwise; correct: auto is none. What needs more "
        "than\n"
        "statistics is refused: omniquant, signround, ebft, rotate, distill, budget, passes that "
        "take\n"
        "parts out, kvquant;\n"
        "correct; tune and true_sequential of gptq; ratios: search; stability. The file holds the "
        "tokens of\n"
        "the calibration: keep it as you keep the text. docs/statistics.md has its layout.\n"
        "\n"
        "from: IMATRIX takes an importance matrix of llama.cpp (imatrix.gguf, imatrix.dat). It has "
        "the\n"
        "sizes of input columns alone: rtn with clip: weighted, squeezellm, wanda and ria work "
        "with "
        "it.\n");
}

static void print_calibration(void)
{
    (void)printf("calibration: the inputs that passes look at, and how many of them they need\n"
                 "\n"
                 "  calibration: {text: [FILE, ...], samples: N, window: TOKENS}\n"
                 "  calibration: {tokens: FILE.i32, samples: all, window: TOKENS}\n"
                 "  calibration: {generate: {temperature: 1.0}, samples: N, window: TOKENS}\n"
                 "  calibration: {text: [FILE, ...], ..., keep: STATISTICS.h5}\n"
                 "  calibration: {from: STATISTICS.h5}\n"
                 "  calibration: {from: IMATRIX}\n"
                 "\n"
                 "Take text like that which the model will see, as plain UTF-8. pare reads JSON as "
                 "it stands, with\n"
                 "its brackets. tokens are little-endian int32. With generate the model writes the "
                 "text itself:\n"
                 "that needs no data and takes time.\n"
                 "\n");
    for (size_t i = 0; pare_calibration_params[i]; i++)
        pare_help_setting(pare_calibration_params[i]);
    print_kept();
    (void)printf(
        "\n"
        "layers.csv and manifest.json say for each linear what its Hessian rests on:\n"
        "  rank               directions that the inputs have at all; repeated tokens add none\n"
        "  effective_samples  tokens that the size of a column rests on: (sum x^2)^2 / sum x^4, "
        "the\n"
        "                     median over the columns\n"
        "layers.csv has two more figures, for the reader:\n"
        "  effective_rank     how evenly the energy is spread over directions: tr(H)^2 / tr(H H)\n"
        "  loudest_token      the loudest token's share of the energy: near 1 it outweighs all "
        "others\n"
        "\n"
        "Each pass needs a minimum, below which it does worse than its plain form (measured on the "
        "demo\n"
        "model):\n"
        "  gptq, sparsegpt, sparsegpt_joint, atom, billm, awq, outlier_suppression\n"
        "                     3 tokens per input, a rank of a quarter of the inputs, an effective "
        "sample\n"
        "                     per 32 inputs, and 12 at least\n"
        "  wanda, ria, squeezellm, permute\n"
        "                     128 tokens, 12 effective samples\n"
        "  rtn                128 tokens, 12 effective samples, with clip: weighted\n"
        "  smoothquant, activations: int8_tensor or nvfp4\n"
        "                     32 tokens\n"
        "  omniquant, signround, ebft, flap, depth\n"
        "                     128 tokens\n"
        "  reap               128 tokens for each expert (min_tokens of \"pare help experts\", if "
        "more)\n"
        "  slicegpt           3 tokens per channel of the residual stream\n"
        "  ziplm              3 tokens per channel of the MLP\n"
        "\n"
        "Only new tokens count: a token is new when it and the 7 before it stand nowhere before in "
        "the\n"
        "calibration (half a window, where that is less than 8). So a text that repeats itself "
        "counts\n"
        "once, or up to twice in windows below 16. Effective samples shrink in the same "
        "proportion.\n"
        "\n"
        "Where a linear has less, the job warns, layers.csv marks the linear as thin, and --strict "
        "ends\n"
        "with exit code 3. Then:\n"
        "  - quantizers and pruners work as if no input were known: gptq as rtn, wanda as "
        "magnitude\n"
        "  - transforms leave the linear as it is\n"
        "  - int8_tensor and nvfp4 take the scale of inputs from those that there are\n"
        "  - flap, depth, reap and slicegpt remove parts by chance\n"
        "pare plan warns before any work, as far as it can tell from the number of tokens.\n");
}

static void print_notify(void)
{
    (void)printf(
        "notify: a command of yours at the end of compress, batch or train\n\n"
        "--notify CMD runs CMD once by /bin/sh when the job has ended, however it ended; not for a "
        "mistake\n"
        "in how the job was asked for (exit 2), and not with --dry-run. It knows\n\n"
        "  PARE_STATUS   finished, fallback (exit 3), verdict (exit 6), interrupted or failed\n"
        "  PARE_EXIT     the exit code of pare\n"
        "  PARE_OUTPUT   the output, empty when the job failed before it was known\n"
        "  PARE_SECONDS  how long it took\n"
        "  PARE_SUMMARY  one line: what came out, or why it failed\n\n"
        "What CMD prints goes to stderr (with --log json nowhere). pare waits for it, for 60 s at "
        "most;\n"
        "a CMD that fails is a warning, and the exit code of pare stays as it was.\n\n"
        "example  pare compress w4.yaml --notify 'echo \"$PARE_STATUS: $PARE_SUMMARY\" | mail "
        "me'\n");
}

const pare_topic pare_topics[] = {
    {"recipe", "all keys of a recipe, and a whole one with comments", print_recipe},
    {"passes", "the passes by kind, and the order in which they can stand", pare_help_passes},
    {"calibration", "the inputs that passes look at, and how many they need", print_calibration},
    {"tables", "the embeddings and the output head in few bits", print_tables},
    {"experts", "how pare calibrates mixtures of experts", print_experts},
    {"evaluate", "what pare measures of the finished model", print_evaluate},
    {"choice", "the form of files of multiple choice", pare_help_choice},
    {"tasks", "tasks as lm-evaluation-harness scores them", pare_help_tasks},
    {"needle", "whether a model finds a number in a long text", pare_help_needle},
    {"kv_cache", "the key/value cache in few bits", print_kv_cache},
    {"export", "files for other engines", print_export},
    {"require", "what the result must keep to, and what to try where it does not",
     pare_help_require},
    {"jobs", "the file of pare batch", pare_help_batch},
    {"training", "the recipe of pare train", pare_help_training},
    {"limits", "how much memory a job may take", print_limits},
    {"nan", "weights that are not finite", print_nan},
    {"preset", "the recipes that pare init writes", pare_help_presets},
    {"log", "what a command says while it runs, for people and for programs", pare_help_log},
    {"notify", "a command of yours at the end of a job", print_notify},
    {"exit", "what each exit code says", pare_help_exit},
    {NULL, NULL, NULL},
};
