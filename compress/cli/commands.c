/* The commands and their options: parsing and help read these tables and nothing else. */
#include "compress/cli/cli.h"

const pare_option pare_common_options[] = {
    {"format", "text|json", "how results are printed on stdout (text)", false},
    {"threads", "N", "worker threads (all CPUs of the process); results do not depend on it",
     false},
    {"log", "json[:FILE]",
     "print events as JSON, an object a line, on stderr in place of messages; or append them to "
     "FILE",
     false},
    {"no-progress", NULL, "print no bars and lines of progress; messages and warnings stay", false},
    {"help", NULL, "print this page", false},
    {NULL, NULL, NULL, false},
};

#define RECIPE_OPTIONS                                                                             \
    {"model", "PATH", "model to read instead of the recipe's", false},                             \
        {"output", "DIR", "directory to write instead of the recipe's", false},                    \
        {"tokenizer", "PATH", "tokenizer to use instead of the recipe's or the model's", false},   \
        {"set", "KEY=VALUE", "change the recipe, such as passes.0.gptq.bits=3", true},             \
    {                                                                                              \
        "ram-limit", "SIZE", "allocate at most SIZE, such as 8GiB (the recipe's limit)", false     \
    }

#define NOTIFY_OPTION                                                                              \
    {                                                                                              \
        "notify", "CMD", "run CMD by the shell when the job has ended (pare help notify)", false   \
    }

#define JOB_OPTIONS                                                                                \
    RECIPE_OPTIONS,                                                                                \
    {                                                                                              \
        "device", "cpu", "where to compress, only cpu; entries of evaluate: take a device", false  \
    }

static const pare_option plan_options[] = {
    JOB_OPTIONS,
    {"strict", NULL, "refuse exports with other codes, as compress --strict would", false},
    {"restart", NULL,
     "plan a job that begins anew and replaces the output; plan itself touches nothing", false},
    {"all", NULL, "list each linear, not one line for the same one of all blocks", false},
    {NULL, NULL, NULL, false},
};

static const pare_option compress_options[] = {
    JOB_OPTIONS,
    {"threads", "N",
     "worker threads (all CPUs of the process); results do not depend on it; compress hashes its "
     "files in one thread more, also with 1",
     false},
    {"strict", NULL,
     "exit 3 after a numeric fallback, with weights too small for their storage, with too little "
     "calibration, with experts that few tokens "
     "reach (cold: rtn), after a training that made the model worse, or where device: auto took "
     "the CPU; refuse exports with other codes",
     false},
    {"restart", NULL,
     "delete an unfinished run, or replace a finished output that is as pare left it", false},
    {"resume", NULL, "continue an unfinished run (the default); texts of evaluate: may differ",
     false},
    {"share", "DIR",
     "keep in DIR what other jobs of this model need, too (weights of tokens, what the original "
     "gives for a text), or take it from there; the result is the same",
     false},
    {"dry-run", NULL, "print the plan and stop, as pare plan", false},
    NOTIFY_OPTION,
    {NULL, NULL, NULL, false},
};

static const pare_option batch_options[] = {
    {"output", "DIR", "the folder of the batch instead of the file's", false},
    {"jobs", "N", "run N jobs at once; they share out threads and --ram-limit (1)", false},
    {"shard", "K/N", "only part K of N, each of which may run on another machine", false},
    {"emit", "make|slurm", "write the recipes, and print a script that runs them", false},
    {"dry-run", NULL, "print what every job would take, and stop", false},
    {"summary", NULL, "write the summary of what is there, and run nothing", false},
    {"speed", NULL, "time decoding of every result, one after the other, at the end", false},
    {"ram-limit", "SIZE", "allocate at most SIZE in all jobs together (the recipes' limits)",
     false},
    {"restart", NULL, "begin every job anew", false},
    {"strict", NULL, "as of compress, for every job", false},
    NOTIFY_OPTION,
    {NULL, NULL, NULL, false},
};

static const pare_option train_options[] = {
    RECIPE_OPTIONS,
    {"strict", NULL, "exit 3 after a training that made the model worse", false},
    {"restart", NULL,
     "delete an unfinished run, or replace a finished output that is as pare left it", false},
    {"dry-run", NULL,
     "say what it will take: memory, disk, and the time, from a few windows of one step; write "
     "nothing",
     false},
    NOTIFY_OPTION,
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

#define DEVICE_OPTIONS                                                                             \
    {"device", "cpu|cuda|auto",                                                                    \
     "where to compute: cuda is the first NVIDIA GPU; auto takes it, or the CPU where it cannot "  \
     "be used (cpu)",                                                                              \
     false},                                                                                       \
        {"device-products", "exact|f16",                                                           \
         "how the GPU multiplies floats: exact gives the CPU's bits; f16 rounds inputs to F16 "    \
         "and "                                                                                    \
         "takes the tensor cores (exact)",                                                         \
         false},                                                                                   \
    {                                                                                              \
        "device-limit", "SIZE", "take at most SIZE of the GPU's memory (all that is free)", false  \
    }

#define TOKENIZER_OPTION                                                                           \
    {                                                                                              \
        "tokenizer", "PATH",                                                                       \
            "a tokenizer.json, or a folder with a tokenizer, instead of the model's", false        \
    }

#define UNCHECKED_OPTION                                                                           \
    {                                                                                              \
        "unchecked", NULL, "do not check the checksums of the artifact", false                     \
    }

static const pare_option eval_options[] = {
    {"text", "FILE", "measure perplexity on this text", false},
    {"tokens", "FILE", "the same on little-endian int32 tokens, used as they are", false},
    {"window", "N", "tokens per window (2048, or the model's context, if that is less)", false},
    {"stride", "N", "start a window every N tokens and score only the last N of each", false},
    {"bos", NULL, "put the BOS token in front of the text", false},
    {"by-position", NULL,
     "perplexity and KL of positions 1, 2 to 3, 4 to 7, .. of the windows, too", false},
    {"baseline", "MODEL",
     "measure MODEL, too: KL divergence from its predictions, paired test of choices", false},
    {"choice", "FILE",
     "multiple choice: PIQA, ARC, OpenBookQA, HellaSwag as published, or pare's own", true},
    {"tasks", "NAME=FILE",
     "tasks as lm-evaluation-harness scores them: piqa=FILE,arc_easy=FILE (pare help tasks)", true},
    {"shots", "N", "put N solved examples in front of each document of the tasks (0)", false},
    {"shots-from", "NAME=FILE", "the file that they are taken from", true},
    {"by", "FIELD", "accuracy by this field of the documents of tasks and choice, too", false},
    {"limit", "N",
     "only the first N windows of a text, items of a choice file, documents of a task", false},
    {"needle", "FILE",
     "hide a number in long pieces of this text: how often it is found (pare help needle)", false},
    {"lengths", "LIST", "tokens of those prompts (512,1024,2048,4096 within the context)", false},
    {"keys", "N", "numbers to hide at each length and depth (5)", false},
    {"continuations", "N",
     "continue N prompts from the text: lengths, repetition, difference from --baseline", false},
    {"continue-tokens", "N", "tokens that they have at most (128)", false},
    {"speed", NULL, "time prefill and decoding", false},
    {"draft", "MODEL",
     "let MODEL draft tokens for continuations of the text: how many are accepted, how much faster "
     "they come",
     false},
    {"draft-tokens", "N", "tokens that it drafts for a pass of the other (4)", false},
    {"temperature", "T", "0 is greedy, 1 the model itself (1 for --draft, 0 for --continuations)",
     false},
    {"seed", "S", "of random numbers of --draft, --continuations, --needle (0)", false},
    {"exact", NULL, "keep inputs in floats: multiply with dequantized weights", false},
    TOKENIZER_OPTION,
    KV_OPTIONS,
    DEVICE_OPTIONS,
    UNCHECKED_OPTION,
    {NULL, NULL, NULL, false},
};

static const pare_option compare_options[] = {
    {"text", "FILE", "measure perplexity and KL divergence on this text", false},
    {"tokens", "FILE", "the same on little-endian int32 tokens, used as they are", false},
    {"window", "N", "tokens per window (2048, or the original's context, if that is less)", false},
    {"stride", "N", "start a window every N tokens and score only the last N of each", false},
    {"bos", NULL, "put the BOS token in front of the text", false},
    {"choice", "FILE", "multiple choice, as for pare eval", true},
    {"tasks", "NAME=FILE", "tasks, as for pare eval (pare help tasks)", true},
    {"shots", "N", "put N solved examples in front of each document of the tasks (0)", false},
    {"shots-from", "NAME=FILE", "the file that they are taken from", true},
    {"limit", "N",
     "only the first N windows of a text, items of a choice file, documents of a task", false},
    {"needle", "FILE",
     "hide a number in long pieces of this text: how often it is found (pare help needle)", false},
    {"lengths", "LIST", "tokens of those prompts (512,1024,2048,4096 within the context)", false},
    {"keys", "N", "numbers to hide at each length and depth (5)", false},
    {"continuations", "N",
     "continue N prompts from the text: lengths, repetition, difference from the original", false},
    {"continue-tokens", "N", "tokens that they have at most (128)", false},
    {"temperature", "T", "of the continuations; 0 is greedy, 1 the model itself (0)", false},
    {"seed", "S", "of the continuations, and of the numbers to hide (0)", false},
    {"speed", NULL, "time prefill and decoding", false},
    {"exact", NULL, "keep inputs in floats: multiply with dequantized weights", false},
    TOKENIZER_OPTION,
    {"format", "text|csv|json|html", "how the table is printed on stdout (text)", false},
    {"output", "FILE", "write the table to FILE, too: .txt, .csv, .json or .html", true},
    {"restart", NULL, "replace FILE", false},
    DEVICE_OPTIONS,
    UNCHECKED_OPTION,
    {NULL, NULL, NULL, false},
};

static const pare_option generate_options[] = {
    {"prompt", "TEXT", "text to continue (the BOS or end-of-text token)", false},
    {"tokens", "N", "tokens to draw for each sequence (128, cut to the model's context)", false},
    {"temperature", "T", "0 takes the most likely token; 1 samples the model itself (1)", false},
    {"repetition-penalty", "R", "divide logits of tokens that stand already by R (1)", false},
    {"top-k", "K", "draw among the K most likely tokens (all)", false},
    {"top-p", "P", "among the most likely ones that make up P of the probability (1)", false},
    {"min-p", "P", "among those with at least P times the largest probability (0)", false},
    {"seed", "S", "of the random numbers (0)", false},
    {"count", "N", "sequences to draw (1)", false},
    {"output", "FILE", "write to FILE.txt (text) or FILE.i32 (tokens) instead of stdout", false},
    {"restart", NULL, "replace FILE if it is one of text or tokens; never a link or a model's",
     false},
    TOKENIZER_OPTION,
    KV_OPTIONS,
    DEVICE_OPTIONS,
    UNCHECKED_OPTION,
    {NULL, NULL, NULL, false},
};

static const pare_option export_options[] = {
    {"format", "NAME", "compressed-tensors, gptq, gptq_v2, awq, exl3, safetensors or gguf:TYPE",
     false},
    {"output", "PATH", "directory to write; for GGUF the file", false},
    {"tensor-parallel", "N", "refuse it unless N ranks of an engine get whole pieces", false},
    {"restart", NULL, "replace a finished export that is as pare left it", false},
    {"strict", NULL, "refuse linears that would be quantized again, or get another GGUF type",
     false},
    {"json", NULL, "print the result as JSON", false},
    UNCHECKED_OPTION,
    {NULL, NULL, NULL, false},
};

static const pare_option bench_options[] = {
    {"gptq", NULL, "kernels: measure GPTQ of a 4096 x 4096 matrix, too", false},
    {"no-baseline", NULL, "kernels: do not run OpenBLAS in a child process for comparison", false},
    {"quick", NULL, "small sizes, few runs: shows that bench works, and measures nothing", false},
    {"shape", "NAME", "model: weights made in memory: tiny, 1b, 3b, 7b, 8b, tiny-moe or 30b-a3b",
     false},
    {"weights", "KIND",
     "of a shape: int4, int8, int3, int2, ternary, 2:4-int4, exl3-3, f16, ... (int4)", false},
    {"group", "N|row", "weights of a shape that share a scale (128 for integers)", false},
    {"against", "KIND|MODEL", "run in turns: other weights of the --shape, or a model beside MODEL",
     false},
    {"prompt", "N", "tokens of a prompt (512, half of a context too short for that)", false},
    {"output", "N", "tokens to generate, the first by the prefill (64)", false},
    {"batch", "LIST", "sequences that run together (1,8)", false},
    {"runs", "N", "runs, of which the median counts (3)", false},
    KV_OPTIONS,
    DEVICE_OPTIONS,
    UNCHECKED_OPTION,
    {"ram-limit", "SIZE", "refuse a model that needs more memory, such as 8GiB", false},
    {"compare", "A.json",
     "two results: --compare A.json B.json; exit 1 when B is slower or lacks rows", false},
    {"tolerance", "PERCENT", "how much slower still counts as the same (5)", false},
    {NULL, NULL, NULL, false},
};
static const pare_option init_options[] = {
    {"preset", "NAME", "what to make: w4a16, w8a8, gguf-q4, 2:4, w2 or exl3", false},
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

static const pare_option train_tokenizer_options[] = {
    {"vocab", "N", "tokens, with the special ones and the 256 bytes", false},
    {"output", "DIR", "directory to write: tokenizer.json and tokenizer_config.json", false},
    {"min-count", "N", "merge only pairs that the text has N times or more (2)", false},
    {"eos", "TEXT", "the token that ends a text (<|endoftext|>)", false},
    {"bos", "TEXT", "the token in front of a text (that of --eos)", false},
    {"special", "TEXT", "one more special token", true},
    {"restart", NULL, "replace the tokenizer in DIR, if DIR holds nothing else", false},
    {NULL, NULL, NULL, false},
};

static const pare_option pack_options[] = {
    {"output", "FILE", "the archive (beside ARTIFACT, named after it)", false},
    {"base", "DIR",
     "store a difference: what files of the same names in DIR have already is not stored; "
     "unpacking needs them, too",
     false},
    {"level", "N", "of zstd, 1 to 19, for what is no plane of floats (3)", false},
    {"restart", NULL, "replace an archive that lies there", false},
    {NULL, NULL, NULL, false},
};

static const pare_option unpack_options[] = {
    {"output", "DIR", "the folder to make (named after FILE, beside it)", false},
    {"base", "DIR", "the folder that FILE is a difference from", false},
    {"list", NULL, "print what is in FILE; read the index alone", false},
    {"check", NULL, "decode and check everything, write nothing", false},
    {NULL, NULL, NULL, false},
};

static const pare_option sign_options[] = {
    {"key", "FILE", "the private key: Ed25519, as PEM without a password", false},
    {NULL, NULL, NULL, false},
};

static const pare_option verify_options[] = {
    {"key", "FILE", "the public key of who must have signed PATH (pare sign)", false},
    {NULL, NULL, NULL, false},
};

static const pare_option no_options[] = {{NULL, NULL, NULL, false}};

const pare_command pare_commands[] = {
    {"compress", "RECIPE", 1, 1, "run a recipe: read a model, write a packed artifact",
     "When the same command is given again, pare continues an interrupted run where it was, and "
     "says\n"
     "of a finished one that it is done. One run at a time writes to an output: OUTPUT.lock names "
     "it.\n"
     "--restart replaces only what pare wrote: pare refuses a directory in which somebody added, "
     "changed\n"
     "or deleted a file (exit code 2), and touches nothing in it.",
     "pare compress w4.yaml --model llama/ --output llama-w4/ --ram-limit 8GiB", compress_options,
     pare_compress_run},
    {"plan", "RECIPE", 1, 1, "say what compress would do: tensors, bytes, memory, disk, time",
     "plan reads headers and shapes, and samples of the weights to see how fast it can read them. "
     "The\n"
     "bytes of the packed files are exact. plan tokenizes a text that may be too short, and items "
     "of\n"
     "multiple choice, so it refuses what compress would. plan ends with 6 where the files would "
     "be\n"
     "INFEASIBLE. It ends with 2 where compress would refuse one of these: something that pare did "
     "not\n"
     "write in OUTPUT.lock, OUTPUT.partial or the .partial of an export; an export that exists "
     "while the\n"
     "output does not; unfinished work of another recipe, unless RECIPE has fallbacks or a search. "
     "It\n"
     "does not look into a finished output: compress may refuse one of another recipe or, with "
     "--restart,\n"
     "one that somebody changed.",
     "pare plan w4.yaml --set passes.0.gptq.bits=3", plan_options, pare_plan_run},
    {"batch", "JOBS", 1, 1, "run one recipe with many settings, and compare what comes of them",
     "JOBS is a YAML file; \"pare help jobs\" has its keys. OUTPUT gets NAME.yaml, NAME.log and "
     "NAME/ "
     "for\n"
     "each job, summary.csv, summary.json and report.html. Every job is a process of its own: one "
     "that\n"
     "fails stops no other. The same command goes on after any break and makes nothing twice. Jobs "
     "of one\n"
     "model and calibration share what only these say, in OUTPUT/shared, which may be deleted.",
     "pare batch sweep.yaml --jobs 2", batch_options, pare_batch_command},
    {"train", "RECIPE", 1, 1, "train a model on text, alone or with a teacher",
     "It begins with a checkpoint, with some blocks of one, or with random weights, and writes a "
     "plain\n"
     "checkpoint. \"pare help training\" has the keys of its recipe. When the same command is "
     "given\n"
     "again, pare continues an interrupted run with the state that it saved last.",
     "pare train student.yaml --set train.tokens=2000000", train_options, pare_train_run},
    {"eval", "MODEL", 1, 1, "measure perplexity, KL divergence, multiple choice, speed, memory",
     "Packed models run with their low-bit kernels unless --exact is given. With --baseline pare "
     "prints\n"
     "the figures of the other model below those of MODEL. p is of McNemar's exact test: how "
     "likely such\n"
     "an uneven change of the answers is when both models are equally good. After ^C pare prints "
     "what\n"
     "was done until then, and says so. \"pare help choice\" has the forms of files for --choice.",
     "pare eval llama-w4/ --text wiki.test.raw --baseline llama/", eval_options, pare_eval_run},
    {"compare", "ORIGINAL MODEL...", 2, PARE_ARGS_MAX,
     "a table of an original and its compressed models: size, quality, speed",
     "pare measures each MODEL beside the original, one after the other. They need one vocabulary "
     "and\n"
     "one tokenizer. KL divergence and flips (another first choice) are against the original. p is "
     "of\n"
     "McNemar's exact test: how likely such an uneven change of the answers is when both models "
     "are\n"
     "equally good. Memory is that of the weights, and the most that was in use beside them. When "
     "a\n"
     "model fails or after ^C the table has what was done until then, and pare writes no FILE.",
     "pare compare llama/ llama-w4/ llama-w3/ --text wiki.test.raw --choice piqa.jsonl",
     compare_options, pare_compare_run},
    {"generate", "MODEL", 1, 1, "continue a prompt, or write samples of a model",
     "pare puts the tokens around a prompt that the template of the tokenizer names (BOS in "
     "front). On\n"
     "stdout a sequence stops at an end token: one of generation_config.json, else of config.json. "
     "Ids\n"
     "without a token print nothing. In a file every sequence has the full length with its prompt, "
     "so\n"
     "the file can serve as calibration or evaluation data. Where positions go by the length of a "
     "text\n"
     "(longrope), prompt and --tokens together count from the first token on.",
     "pare generate llama-w4/ --prompt \"Once upon a time\" --tokens 64", generate_options,
     pare_generate_run},
    {"export", "ARTIFACT", 1, 1, "write an artifact as files for another engine",
     "compressed-tensors  4 and 8 bits, 2 and 3 in 4, 8-bit inputs, FP8, MXFP4, NVFP4: vLLM,\n"
     "                    SGLang, transformers\n"
     "gptq, gptq_v2       2, 3, 4, 8 bits as AutoGPTQ and GPTQModel: vLLM, SGLang, transformers\n"
     "awq                 4 bits as AutoAWQ (GEMM), 2 and 3 bits in 4: vLLM, SGLang, transformers\n"
     "exl3                trellis codes of the pass exl3: ExLlamaV3, GPTQModel\n"
     "safetensors         floats, rounded to the type of the embeddings: anything\n"
     "gguf:TYPE           one file of blocks q4_0, q4_1, q5_0, q5_1, q8_0, q2_k to q6_k, tq1_0, "
     "tq2_0,\n"
     "                    mxfp4 or of f16, for llama.cpp; or of a mix of types by its rules, "
     "q2_k_s,\n"
     "                    q2_k_m, q3_k_s, q3_k_m, q3_k_l, q4_k_s, q4_k_m, q5_k_s, q5_k_m, which\n"
     "                    quantizes embeddings, head and linears in floats, too\n"
     "                    Other grids than those of TYPE are quantized again, but\n"
     "                    linears on the grids q4_k, q6_k, mxfp4 and nvfp4 (where llama.cpp has\n"
     "                    its factors) keep their blocks, and 8 bits in groups of 32 where 256 "
     "does\n"
     "                    not divide a row\n"
     "                    Experts of a block are one tensor there: F16 unless all are quantized,\n"
     "                    or TYPE is a mix\n"
     "The codes are those of the artifact. pare reads every file back by the rules of its engine "
     "and\n"
     "compares each weight before the output gets its name. It refuses what a format cannot hold.\n"
     "A checkpoint in floats that pare wrote is exported as gguf:f16 alone.\n"
     "--tensor-parallel N writes the same files, which engines slice when they load them, and "
     "refuses\n"
     "the export when a slice would hold parts of groups, blocks or words.\n"
     "A recipe exports with export: [{format: gguf:q4_k, path: model.gguf}]. Then pare plan says "
     "the\n"
     "size to the byte, and pare refuses what the format cannot hold before it reads a weight.",
     "pare export llama-w4/ --format compressed-tensors --output llama-w4-vllm/", export_options,
     pare_export_command},
    {"tokenize", "MODEL [TEXT]", 1, 2, "print the ids of the tokens of a text",
     "tokenize reads the tokenizer of MODEL and no weight; MODEL may be a folder with a tokenizer\n"
     "alone. It finds special tokens that stand in the text, and adds none unless --bos is given.\n"
     "FILE.i32 serves where pare asks for tokens.",
     "pare tokenize llama/ \"Once upon a time\"", tokenize_options, pare_tokenize_run},
    {"train-tokenizer", "FILE...", 1, PARE_ARGS_MAX, "learn a tokenizer from texts",
     "A byte-level BPE tokenizer, the one that the package tokenizers learns with BpeTrainer over\n"
     "ByteLevel(add_prefix_space=False). Ids: the special tokens, EOS first, then the bytes, then "
     "one\n"
     "token for each merge. transformers and --tokenizer of the other commands read DIR. FILE is "
     "text\n"
     "in UTF-8; special tokens that stand in it are read as text, and no token reaches over its "
     "end.",
     "pare train-tokenizer prose.txt code.txt --vocab 32000 --output tokenizer/",
     train_tokenizer_options, pare_train_tokenizer_run},
    {"inspect", "PATH", 1, 1, "list tensors, shapes, encodings and bits per weight of a model",
     "PATH, like every MODEL, is a directory or a file: .safetensors; .gguf, of parts any one; "
     ".bin,\n"
     ".pt, .pth of PyTorch; .npz of NumPy; .h5, .hdf5. pare reads config.json and tokenizer.json\n"
     "beside a file. Of a file of kept statistics it tells of which model, tokens and settings "
     "they\n"
     "are; of an importance matrix of llama.cpp which inputs it has, of how many tokens.",
     "pare inspect llama-w4/", no_options, pare_inspect_run},
    {"verify", "PATH", 1, 1, "check every checksum, that tensors are finite and codes in range",
     "verify prints each finding. With one or more it ends with exit code 4. A folder that nobody\n"
     "signed, or somebody else, is one with --key. Of an importance matrix of llama.cpp it looks "
     "at\n"
     "each number. It counts tensors as the files hold them: a packed linear is several, as codes\n"
     "and scales; for pare diff it is one.",
     "pare verify llama-w4/", verify_options, pare_verify_run},
    {"sign", "ARTIFACT", 1, 1, "sign the files of an artifact, for verify --key",
     "The signature, SHA256SUMS.sig in ARTIFACT, is of SHA256SUMS and so of every file: who "
     "changes\n"
     "a file and all hashes cannot change it. pare holds the files against SHA256SUMS first. Keys\n"
     "are made by openssl genpkey -algorithm ed25519 -out private.pem; the public one by\n"
     "openssl pkey -in private.pem -pubout -out public.pem.",
     "pare sign llama-w4/ --key private.pem", sign_options, pare_sign_run},
    {"diff", "A B", 2, 2, "hold two models against each other: recipe, tensors, codes, quality",
     "codes: share of the codes that differ, as they do where a scale has the other sign. weights: "
     "share\nof the weights that have another value.\n"
     "difference: sum (a - b)^2 / sum a^2. error (a), error (b): of the weights, from the "
     "original,\n"
     "as each manifest has it. A packed linear is compared with the floats of the same name, too; "
     "a\n"
     "rotated one is not. Of two files of kept statistics (pare help calibration): how far the "
     "inputs\n"
     "of each linear in B are from those in A. The exit code is 0 whether they differ or not;\n"
     "--format json says it (same).",
     "pare diff llama-w4/ llama-w4-new/", no_options, pare_diff_run},
    {"pack", "ARTIFACT", 1, 1, "store the files of a model in one compressed file, without loss",
     "ARTIFACT is any folder of files, or a file. The archive is frames of zstd with an index of\n"
     "checksums. Tensors of F16, BF16 and F32 are stored as planes of bytes where that is "
     "smaller.\n"
     "pare decodes every frame again and compares it before the archive gets its name. A\n"
     "file that differs from its SHA-256 in SHA256SUMS is refused, and so is a folder that lacks "
     "one\n"
     "that is listed there; one that is not listed is packed, with a notice. The bytes of an "
     "archive\n"
     "depend on files, --level and the version of zstd, not on threads.",
     "pare pack llama-w4/ --output llama-w4.pare.zst", pack_options, pare_pack_run},
    {"unpack", "FILE", 1, 1, "write the files of an archive of pare pack",
     "Every frame is held against its XXH3, every file against its SHA-256, before DIR gets its\n"
     "name. DIR must not be there. zstd -d reads FILE, too, but planes stay planes then.",
     "pare unpack llama-w4.pare.zst --output llama-w4/", unpack_options, pare_unpack_run},
    {"bench", "[kernels|model [MODEL]]", 0, 2,
     "time kernels or a model beside the limits of this machine",
     "kernels  products by every kind of weights; decoding (kv_METHOD, _k keys, _v values),\n"
     "         mixing and transposition of cached keys and values; rotations (hadamard, mix);\n"
     "         softmax and silu of rows; what rounding to nearest does (range, codes, errors),\n"
     "         and that of inputs to FP8 (fp8_inputs); the search of EXL3 (exl3_step);\n"
     "         a step of training (adamw, aware: codes in place, moments8: in 8 bits).\n"
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
    {"doctor", "", 0, 0, "print CPU level, BLAS, limits, free disk, libraries, GPU", NULL,
     "pare doctor", no_options, pare_doctor_run},
    {"init", "MODEL", 1, 1, "write a recipe for a model, with reasons",
     "init reads the configuration and the headers of MODEL, chooses what fits it, and says why "
     "in\n"
     "comments. \"pare help preset\" has the presets. init plans a recipe before it writes it.\n"
     "--from translates a YAML recipe of llm-compressor. It lists what has no counterpart with its "
     "line\n"
     "and the reason, in the recipe and on stderr, and then ends with exit code 3.\n"
     "Paths in a recipe are relative to the folder of the recipe. What is printed on stdout fits "
     "the\n"
     "folder in which init runs: save it there. --output FILE in another folder gets absolute "
     "paths.",
     "pare init llama/ --preset w4a16 --text prose.txt --output llama-w4.yaml", init_options,
     pare_init_run},
    {"completion", "bash|zsh|fish", 1, 1,
     "print a script with which a shell completes words of pare",
     "Installed by cmake --install. For one session of bash: eval \"$(pare completion bash)\"",
     "pare completion bash > pare.bash", no_options, pare_completion_run},
    {"help", "[TOPIC]", 0, 2, "print a page on a command, a pass (such as gptq) or a topic",
     "\"pare help\" lists the topics; \"pare help exit 4\" explains one exit code.",
     "pare help recipe", no_options, pare_help_run},
    {NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL},
};
