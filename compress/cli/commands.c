/* The commands and their options: parsing and help read these tables and nothing else. */
#include "compress/cli/cli.h"

const pare_option pare_common_options[] = {
    {"format", "text|json", "how results are printed on stdout (text)", false},
    {"threads", "N", "worker threads (all CPUs of the process); results do not depend on it",
     false},
    {"log", "json[:FILE]",
     "events as JSON, an object a line, on stderr in place of messages; or appended to FILE",
     false},
    {"no-progress", NULL, "no bars and lines of progress; messages and warnings stay", false},
    {"help", NULL, "print this page", false},
    {NULL, NULL, NULL, false},
};

#define JOB_OPTIONS                                                                                \
    {"model", "PATH", "model to read instead of the recipe's", false},                             \
        {"output", "DIR", "artifact to write instead of the recipe's", false},                     \
        {"tokenizer", "PATH", "tokenizer to use instead of the recipe's or the model's", false},   \
        {"set", "KEY=VALUE", "change the recipe, such as passes.0.gptq.bits=3", true},             \
        {"ram-limit", "SIZE", "bound of allocated memory, such as 8GiB (the recipe's)", false},    \
    {                                                                                              \
        "device", "cpu", "where to compute; this version has the CPU only", false                  \
    }

static const pare_option plan_options[] = {
    JOB_OPTIONS,
    {"strict", NULL, "refuse exports with other codes, as compress --strict would", false},
    {"restart", NULL,
     "plan a job that begins anew and replaces the output; plan itself touches nothing", false},
    {"all", NULL, "list each linear, not one line for those that blocks have alike", false},
    {NULL, NULL, NULL, false},
};

static const pare_option compress_options[] = {
    JOB_OPTIONS,
    {"threads", "N",
     "worker threads (all CPUs of the process); results do not depend on it; compress hashes its "
     "files in one thread more, also with 1",
     false},
    {"strict", NULL,
     "exit 3 after a numeric fallback or with too little calibration; refuse exports with other "
     "codes",
     false},
    {"restart", NULL, "throw away an unfinished run, replace a finished output, as pare left them",
     false},
    {"resume", NULL, "continue an unfinished run (the default); texts of evaluate: may differ",
     false},
    {"dry-run", NULL, "print the plan and stop, as pare plan", false},
    {NULL, NULL, NULL, false},
};

#define KV_OPTIONS                                                                                 \
    {"kv", "METHOD",                                                                               \
     "key/value cache: none, int8, int4, kivi; kvquant of a model that was calibrated for it "     \
     "(the model's)",                                                                              \
     false},                                                                                       \
    {                                                                                              \
        "kv-window", "N", "newest tokens that kivi keeps in F16 (128)", false                      \
    }

#define TOKENIZER_OPTION                                                                           \
    {                                                                                              \
        "tokenizer", "PATH",                                                                       \
            "a tokenizer.json, or a folder with a tokenizer, instead of the model's", false        \
    }

#define UNCHECKED_OPTION                                                                           \
    {                                                                                              \
        "unchecked", NULL, "take weights as they are: no checksum of the artifact is looked at",   \
            false                                                                                  \
    }

static const pare_option eval_options[] = {
    {"text", "FILE", "measure perplexity on this text", false},
    {"tokens", "FILE", "the same on little-endian int32 tokens, used as they are", false},
    {"window", "N", "tokens per window (2048, or the model's context, if that is less)", false},
    {"stride", "N", "windows start every N tokens, only the last N of each are scored", false},
    {"bos", NULL, "put the BOS token in front of the text", false},
    {"baseline", "MODEL",
     "measure MODEL, too: KL divergence to its predictions, paired test of choices", false},
    {"choice", "FILE",
     "multiple choice: PIQA, ARC, OpenBookQA, HellaSwag as published, or pare's own", true},
    {"limit", "N", "only the first N windows of a text and items of a choice file", false},
    {"speed", NULL, "time prefill and decoding", false},
    {"exact", NULL, "multiply with dequantized weights in F32", false},
    TOKENIZER_OPTION,
    KV_OPTIONS,
    UNCHECKED_OPTION,
    {NULL, NULL, NULL, false},
};

static const pare_option compare_options[] = {
    {"text", "FILE", "measure perplexity and KL divergence on this text", false},
    {"tokens", "FILE", "the same on little-endian int32 tokens, used as they are", false},
    {"window", "N", "tokens per window (2048, or the original's context, if that is less)", false},
    {"stride", "N", "windows start every N tokens, only the last N of each are scored", false},
    {"bos", NULL, "put the BOS token in front of the text", false},
    {"choice", "FILE", "multiple choice, as for pare eval", true},
    {"limit", "N", "only the first N windows of a text and items of a choice file", false},
    {"speed", NULL, "time prefill and decoding", false},
    {"exact", NULL, "multiply with dequantized weights in F32", false},
    TOKENIZER_OPTION,
    {"format", "text|csv|json|html", "how the table is printed on stdout (text)", false},
    {"output", "FILE", "write the table to FILE, too: .txt, .csv, .json or .html", true},
    {"restart", NULL, "replace FILE", false},
    UNCHECKED_OPTION,
    {NULL, NULL, NULL, false},
};

static const pare_option generate_options[] = {
    {"prompt", "TEXT", "text to continue (the BOS or end-of-text token)", false},
    {"tokens", "N", "tokens to draw for each sequence (128, cut to the model's context)", false},
    {"temperature", "T", "0 takes the most likely token; 1 samples the model itself (1)", false},
    {"seed", "S", "of the random numbers (0)", false},
    {"count", "N", "sequences to draw (1)", false},
    {"output", "FILE", "write to FILE.txt (text) or FILE.i32 (tokens) instead of stdout", false},
    {"restart", NULL, "replace FILE if it is one of text or tokens; never a link or a model's",
     false},
    TOKENIZER_OPTION,
    KV_OPTIONS,
    UNCHECKED_OPTION,
    {NULL, NULL, NULL, false},
};

static const pare_option export_options[] = {
    {"format", "NAME", "compressed-tensors, gptq, gptq_v2, awq, safetensors or gguf:TYPE", false},
    {"output", "PATH", "directory to write; for GGUF the file", false},
    {"restart", NULL, "replace a finished export as pare left it", false},
    {"strict", NULL, "refuse linears that would be quantized again, or have another GGUF type",
     false},
    {"json", NULL, "print the result as JSON", false},
    UNCHECKED_OPTION,
    {NULL, NULL, NULL, false},
};

static const pare_option bench_options[] = {
    {"gptq", NULL, "kernels: measure GPTQ of a 4096 x 4096 matrix, too", false},
    {"no-baseline", NULL, "kernels: do not run OpenBLAS in a child process for comparison", false},
    {"quick", NULL, "small sizes, few runs: shows that all works, measures nothing", false},
    {"shape", "NAME", "model: weights made in memory: tiny, 1b, 3b, 7b, 8b, tiny-moe or 30b-a3b",
     false},
    {"weights", "KIND", "of a shape: int4, int8, int3, int2, ternary, 2:4-int4, f16, ... (int4)",
     false},
    {"group", "N|row", "weights of a shape that share a scale (128 for integers)", false},
    {"against", "KIND|MODEL", "run in turns: other weights of the --shape, or a model beside MODEL",
     false},
    {"prompt", "N", "tokens of a prompt (512, half of a context too short for that)", false},
    {"output", "N", "tokens to generate, the first by the prefill (64)", false},
    {"batch", "LIST", "sequences that run together (1,8)", false},
    {"runs", "N", "runs, of which the median counts (3)", false},
    KV_OPTIONS,
    UNCHECKED_OPTION,
    {"ram-limit", "SIZE", "refuse a model that needs more memory, such as 8GiB", false},
    {"compare", "A.json",
     "two results: --compare A.json B.json; exit 1 when B is slower or lacks rows", false},
    {"tolerance", "PERCENT", "how much slower still counts as the same (5)", false},
    {NULL, NULL, NULL, false},
};
static const pare_option init_options[] = {
    {"preset", "NAME", "what to make: w4a16, w8a8, gguf-q4, 2:4 or w2", false},
    {"from", "FILE", "translate this recipe of llm-compressor instead", false},
    {"text", "FILE", "calibrate on this text (without it the model writes its own; not for 2:4)",
     false},
    {"tokens", "FILE", "the same on little-endian int32 tokens", false},
    {"output", "FILE", "write the recipe to FILE instead of stdout", false},
    {"restart", NULL, "replace FILE if it is a recipe", false},
    {NULL, NULL, NULL, false},
};

static const pare_option tokenize_options[] = {
    {"text", "FILE", "the text of this file instead of TEXT", false},
    {"bos", NULL, "put the BOS token in front", false},
    TOKENIZER_OPTION,
    {"output", "FILE", "write little-endian int32 to FILE.i32 instead of ids to stdout", false},
    {"restart", NULL, "replace FILE if it is one of tokens; never a link or a model's", false},
    {NULL, NULL, NULL, false},
};

static const pare_option no_options[] = {{NULL, NULL, NULL, false}};

const pare_command pare_commands[] = {
    {"compress", "RECIPE", 1, 1, "run a recipe: a model in, a packed artifact out",
     "An interrupted run continues where it was when the same command is given again; a finished "
     "one\nsays so. One run at a time writes to an output: OUTPUT.lock says which.\n"
     "--restart replaces only what pare wrote: a directory in which something was added, changed "
     "or\n"
     "lost is refused (exit code 2), and nothing in it is touched.",
     "pare compress w4.yaml --model llama/ --output llama-w4/ --ram-limit 8GiB", compress_options,
     pare_compress_run},
    {"plan", "RECIPE", 1, 1, "what compress would do: tensors, bytes, memory, disk, time",
     "Reads headers and shapes, and of the weights only samples, to see how fast they can be "
     "read.\n"
     "The bytes of the packed files are exact. Texts that may be too short and items of multiple\n"
     "choice are tokenized, so that plan refuses what compress would.",
     "pare plan w4.yaml --set passes.0.gptq.bits=3", plan_options, pare_plan_run},
    {"eval", "MODEL", 1, 1, "perplexity, KL divergence, multiple choice, speed, memory",
     "Packed models run with their low-bit kernels unless --exact is given.\n"
     "--baseline shows the other model's own figures beneath the model's; p is of McNemar's exact\n"
     "test: how likely so uneven a change of the answers is when both models are equally good.\n"
     "After ^C what was done is printed, and says that it was cut short.\n"
     "\"pare help choice\" has the shapes of the files that --choice reads.",
     "pare eval llama-w4/ --text wiki.test.raw --baseline llama/", eval_options, pare_eval_run},
    {"compare", "ORIGINAL MODEL...", 2, PARE_ARGS_MAX,
     "a table: an original and what was made of it, by size, quality and speed",
     "Each MODEL is measured beside the original, one after the other; they need one vocabulary\n"
     "and one tokenizer. KL divergence and flips (another first choice) are against the original,\n"
     "and p is of McNemar's exact test: how likely so uneven a change of the answers is when the\n"
     "models are equally good. Memory is that of the weights and the most that was in use beside\n"
     "them. When a model fails or ^C is pressed, the table has what was done until then, and no "
     "FILE\n"
     "is written.",
     "pare compare llama/ llama-w4/ llama-w3/ --text wiki.test.raw --choice piqa.jsonl",
     compare_options, pare_compare_run},
    {"generate", "MODEL", 1, 1, "continue a prompt, or write samples of a model",
     "A prompt gets the tokens around it that the template of the tokenizer names (BOS in front).\n"
     "On stdout a sequence stops at an end token: one of generation_config.json, else of\n"
     "config.json; ids without a token print nothing. In a file every sequence has the full\n"
     "length, prompt included, so that it can serve as calibration or evaluation data.",
     "pare generate llama-w4/ --prompt \"Once upon a time\" --tokens 64", generate_options,
     pare_generate_run},
    {"export", "ARTIFACT", 1, 1, "write an artifact as files of another engine",
     "compressed-tensors  4 and 8 bits, 2 and 3 in 4, 8-bit inputs, FP8: vLLM, SGLang, "
     "transformers\n"
     "gptq, gptq_v2       2, 3, 4, 8 bits as AutoGPTQ and GPTQModel: vLLM, SGLang, transformers\n"
     "awq                 4 bits as AutoAWQ (GEMM), 2 and 3 bits in 4: vLLM, SGLang, transformers\n"
     "safetensors         floats, rounded to the type of the embeddings: anything\n"
     "gguf:TYPE           one file of blocks q4_0, q4_1, q8_0, q4_k, q6_k, tq1_0, tq2_0 or of "
     "f16,\n"
     "                    for llama.cpp; other grids than those of TYPE are quantized again, but\n"
     "                    linears on the grids q4_k and q6_k keep their blocks, and 8 bits in "
     "groups\n"
     "                    of 32 where 256 does not divide a row\n"
     "                    Experts of a block are one tensor there: F16 unless all are quantized\n"
     "The codes are those of the artifact. Every file is read back by the rules of its engine and\n"
     "each weight compared before the output gets its name. What a format cannot hold is refused.\n"
     "A recipe does the same with export: [{format: gguf:q4_k, path: model.gguf}]; pare plan says "
     "to\n"
     "the byte what it comes to, and what the format cannot hold is refused before a weight is "
     "read.",
     "pare export llama-w4/ --format compressed-tensors --output llama-w4-vllm/", export_options,
     pare_export_command},
    {"tokenize", "MODEL [TEXT]", 1, 2, "the ids of the tokens of a text",
     "Reads the tokenizer of MODEL and no weight. Special tokens that stand in the text are "
     "found;\n"
     "none is added unless --bos is given. FILE.i32 serves where tokens are asked for.",
     "pare tokenize llama/ \"Once upon a time\"", tokenize_options, pare_tokenize_run},
    {"inspect", "PATH", 1, 1, "tensors, shapes, encodings and bits per weight of a model",
     "PATH, like every MODEL, is a directory or a file: .safetensors; .gguf; .bin, .pt, .pth of\n"
     "PyTorch; .npz of NumPy; .h5, .hdf5. A file's config.json and tokenizer.json lie beside it.",
     "pare inspect llama-w4/", no_options, pare_inspect_run},
    {"verify", "PATH", 1, 1, "every checksum, every tensor finite, every code in range",
     "Each finding is printed; one or more end with exit code 4.", "pare verify llama-w4/",
     no_options, pare_verify_run},
    {"bench", "[kernels|model [MODEL]]", 0, 2,
     "speed of kernels or of a model beside the limits of this machine",
     "kernels  products by every kind of weights; decoding (kv_METHOD, _k keys, _v values),\n"
     "         mixing and transposition of cached keys and values; rotations (hadamard, mix);\n"
     "         softmax and silu of rows; what rounding to nearest does (range, codes, errors).\n"
     "         Each as a share of a limit measured in between: of memory (operands rotate over\n"
     "         more than 256 MB), of F32 or of 8-bit arithmetic. \"cached\" rows have their\n"
     "         operands in a core's cache.\n"
     "model    prefill and decoding of MODEL, or of a synthetic one of a --shape, beside the\n"
     "         shortest time that reading its weights and cache, or its operations, could take\n"
     "         on this machine (bound). TTFT: to the first token; TPOT: per step of decoding.\n"
     "--compare  holds two results of --format json against each other; exit code 1 when a time\n"
     "         grew by more than the tolerance (\"share held\": the machine was slower, too) or\n"
     "         when the second lacks a time of the first.",
     "pare bench model --shape 1b --weights int4 --against f16", bench_options, pare_bench_run},
    {"doctor", "", 0, 0, "CPU level, BLAS, limits, free disk, libraries", NULL, "pare doctor",
     no_options, pare_doctor_run},
    {"init", "MODEL", 1, 1, "write a recipe for a model, with reasons",
     "Reads configuration and headers of MODEL, chooses what fits it, and says why in comments.\n"
     "\"pare help preset\" has the presets.\n"
     "--from translates a YAML recipe of llm-compressor. What has no counterpart is listed with "
     "its\n"
     "line and the reason, in the recipe and on stderr, and the exit code is 3; 0 when all was\n"
     "translated. A recipe has been planned before it is written.\n"
     "Paths in a recipe are relative to the folder it lies in. What is printed on stdout fits the\n"
     "folder in which init runs: save it there. --output FILE in another folder gets whole paths.",
     "pare init llama/ --preset w4a16 --text prose.txt --output llama-w4.yaml", init_options,
     pare_init_run},
    {"completion", "bash|zsh|fish", 1, 1, "a script that completes words of pare in a shell",
     "Installed by cmake --install. For one session of bash: eval \"$(pare completion bash)\"",
     "pare completion bash > pare.bash", no_options, pare_completion_run},
    {"help", "[TOPIC]", 0, 2, "a page on a command, a pass (such as gptq), or a topic",
     "\"pare help\" lists the topics; \"pare help exit 4\" explains one exit code.",
     "pare help recipe", no_options, pare_help_run},
    {NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL},
};
