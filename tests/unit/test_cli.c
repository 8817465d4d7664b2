#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/data/families.h"
#include "tests/data/tiny_model.h"
#include "tests/unit/program.h"

#define HEDGE PARE_SOURCE_DIR "/recipes/demo/hedge"

#define TINY "pare-cli-tiny"

/* A tiny model and its artifact, made by the program, and token files. */
static void make_tiny(void)
{
    tiny_model m = tiny_model_default();
    FILE *f;
    ck_assert_int_eq(system("rm -rf " TINY), 0);
    ck_assert_int_eq(mkdir(TINY, 0777), 0);
    ck_assert(tiny_model_write(&m, TINY "/model"));
    m.vocab++;
    m.context = 16;
    ck_assert(tiny_model_write(&m, TINY "/larger"));
    m.vocab--;
    ck_assert(tiny_model_write(&m, TINY "/shorter"));
    ck_assert(tiny_tokens_write(TINY "/tokens.i32", m.vocab, 300, 1));
    ck_assert(tiny_tokens_write(TINY "/few.i32", m.vocab, 9, 1));
    f = fopen(TINY "/r.yaml", "w");
    ck_assert(f &&
              fputs("pare: 1\nmodel: model\noutput: out\npasses: [rtn: {group: 32}]\n", f) >= 0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(call("compress " TINY "/r.yaml --restart", OUT)->code, 0);
}

START_TEST(exact_holds_for_the_baseline_too)
{
    pare_ctx cx;
    make_tiny();
    pare_json *json = parse(&cx, "eval " TINY "/out --baseline " TINY "/out --exact --tokens " TINY
                                 "/tokens.i32 --format json");
    ck_assert_double_eq(number_in(json, "kl", "mean"), 0);
    ck_assert_double_eq(number_in(json, "kl", "top1_agreement"), 1);
    ck_assert(pare_json_bool(pare_json_get(json, "checked"), false));
    pare_json_free(json);
    json = parse(&cx, "eval " TINY "/out --baseline " TINY "/model --exact --tokens " TINY
                      "/tokens.i32 --format json");
    ck_assert_double_gt(number_in(json, "kl", "mean"), 0);
    ck_assert(!pare_json_bool(pare_json_get(json, "checked"), true)); /* of a model of others */
    pare_json_free(json);
}
END_TEST

/* The tiny model: 2 blocks, and its head sizes make the bytes of a token. */
START_TEST(an_artifact_keeps_its_cache_as_the_recipe_says_until_told_otherwise)
{
    static const char eval[] = "eval " TINY "/kv --tokens " TINY "/tokens.i32 --format json";
    char command[512];
    pare_ctx cx;
    make_tiny();
    const tiny_model m = tiny_model_default();
    FILE *const f = fopen(TINY "/kv.yaml", "w");
    ck_assert(f && fputs("pare: 1\nmodel: model\noutput: kv\npasses: [rtn: {group: 32}]\n"
                         "kv_cache: {method: int8}\n",
                         f) >= 0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(call("compress " TINY "/kv.yaml --restart", OUT)->code, 0);
    ck_assert_int_eq(call("verify " TINY "/kv", OUT)->code, 0);
    ck_assert_ptr_nonnull(strstr(call("inspect " TINY "/kv", OUT)->text, "int8, "));
    ck_assert_ptr_nonnull(strstr(call("plan " TINY "/kv.yaml", OUT)->text, "int8, "));
    const double plane = (double)(m.blocks * m.kv_heads) * 2;
    const double bytes[] = {plane * (double)((m.head_dim + 7) / 8 * 8 + 2),
                            plane * (double)m.head_dim * 4};
    static const char *const method[] = {"int8", "none"};
    double ppl[2];
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(command, sizeof command, "%s%s", eval, i ? " --kv none" : "");
        pare_json *const json = parse(&cx, command);
        const pare_json *const kv = pare_json_get(json, "kv_cache");
        ck_assert_str_eq(pare_json_text(pare_json_get(kv, "method"), NULL), method[i]);
        ck_assert_double_eq(number_in(json, "kv_cache", "bytes_per_token"), bytes[i]);
        ppl[i] = number_in(json, "perplexity", "ppl");
        pare_json_free(json);
    }
    ck_assert_double_ne(ppl[0], ppl[1]);
    ck_assert_double_eq_tol(ppl[0], ppl[1], ppl[1] * 0.01);
    pare_json *const json =
        parse(&cx, "generate " TINY "/kv --kv kivi --kv-window 4 --tokens 9 --output " TINY
                   "/out.i32 --restart --format json");
    ck_assert_double_eq(number_in(json, "kv_cache", "window"), 4);
    pare_json_free(json);
}
END_TEST

static void write_recipe(const char *name, const char *passes)
{
    char path[256];
    (void)snprintf(path, sizeof path, TINY "/%s.yaml", name);
    FILE *const f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_gt(fprintf(f,
                             "pare: 1\nmodel: model\noutput: %s\n"
                             "calibration: {tokens: tokens.i32, samples: 2, window: 16}\n"
                             "passes:\n%s",
                             name, passes),
                     0);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(a_run_tells_how_stable_its_choice_of_weights_is)
{
    static const char command[] = "compress " TINY "/stable.yaml --restart";
    pare_ctx cx;
    make_tiny();
    write_recipe("stable", "  - wanda: {pattern: \"2:4\", stability: 2}\n");
    const char *const text = call(command, OUT)->text;
    ck_assert_msg(strstr(text, "\nstability         ") != NULL, "%s", text);
    pare_json *const json = parse(&cx, "compress " TINY "/stable.yaml --restart --format json");
    const double stability = pare_json_number(pare_json_get(json, "stability"), -1);
    ck_assert(stability > 0 && stability <= 1);
    pare_json_free(json);
}
END_TEST

START_TEST(data_that_do_not_fit_the_models_are_a_mistake_of_the_user)
{
    make_tiny();
    check_fails("eval " TINY "/model --tokens " TINY "/few.i32 --window 32", 2,
                "few.i32 has 9 tokens, fewer than one window of 32; give a smaller --window");
    check_fails("eval " TINY "/model --tokens " TINY "/tokens.i32 --baseline " TINY "/larger", 2,
                "its vocabulary has");
    check_fails("eval " TINY "/model --tokens " TINY "/tokens.i32 --baseline " TINY
                "/shorter --window 32",
                2, "its context is 16 tokens");
    tiny_model one = tiny_model_default();
    one.context = 1;
    ck_assert(tiny_model_write(&one, TINY "/one"));
    check_fails("bench model " TINY "/one --quick", 2, "do not fit the context of 1 token;");
    check_fails("eval " TINY "/model --text " TINY "/r.yaml", 4, "tokenizer.json");
    ck_assert_ptr_nonnull(strstr(call("compress " TINY "/r.yaml", OUT)->text, "already complete"));
    check_fails("compress " TINY "/r.yaml --set seed=3", 2, "--restart");
    ck_assert_int_eq(call("plan " TINY "/r.yaml", OUT)->code, 0);
    ck_assert_ptr_nonnull(strstr(call("plan " TINY "/r.yaml", OUT)->text, "ask for --restart"));
}
END_TEST

static const struct {
    const char *arguments;
    int code;
    const char *fragment;
} mistakes[] = {
    {"", 2, "no command given"},
    {"evl x", 2, "did you mean eval?"},
    {"frobnicate", 2, "unknown command \"frobnicate\""},
    {"eval", 2, "MODEL is missing"},
    {"eval x y --speed", 2, "\"y\" is one word too many"},
    {"tokenize x ''", 2, "tokenize: word 2 is empty; usage: pare tokenize MODEL [TEXT]"},
    {"init '" HEDGE "' --preset w4a16 --output /nowhere/x.yaml", 2, "/nowhere is not a directory"},
    {"eval x --windw 3", 2, "did you mean --window?"},
    {"eval x --window", 2, "--window needs N"},
    {"eval x --window 3 --window 4", 2, "--window is given twice"},
    {"eval x --exact=yes", 2, "--exact takes no value"},
    {"eval x -t y", 2, "options have two dashes"},
    {"eval x", 2, "nothing to measure"},
    {"eval x --text a --tokens b", 2, "exclude each other"},
    {"eval x --speed --by-position", 2, "--by-position needs --text or --tokens"},
    {"eval x --tasks piqa", 2, "it needs a task and its file, as in --tasks piqa=valid.jsonl"},
    {"eval x --tasks pica=a", 2, "no task \"pica\"; did you mean piqa?"},
    {"eval x --tasks piqa=", 2, "the file of piqa is missing"},
    {"eval x --tasks piqa=a,piqa=b", 2, "--tasks has piqa twice"},
    {"eval x --speed --shots 2", 2, "--shots and --shots-from need --tasks"},
    {"eval x --tasks piqa=a --shots-from piqa=b", 2, "--shots-from needs --shots N"},
    {"eval x --tasks piqa=a --shots 2 --shots-from boolq=b", 2, "which is not among --tasks"},
    {"eval x --tasks piqa=a --shots 65", 2, "from 0 to 64"},
    {"eval '" HEDGE "' --tasks piqa=a --shots 1", 2, "piqa: shots need a file"},
    {"eval '" HEDGE "' --tasks piqa=/nowhere/a,b.jsonl,mmlu_x=c.csv", 4, "/nowhere/a,b.jsonl"},
    {"eval x --tokens a --bos", 2, "--bos needs --text"},
    {"eval x --speed --window 5", 2, "--window needs --text or --tokens"},
    {"eval x --speed --format yaml", 2, "expected text or json"},
    {"eval x --speed --draft y", 2, "--draft needs --text or --tokens"},
    {"eval x --text a --draft-tokens 3", 2, "--draft-tokens needs --draft"},
    {"eval x --text a --draft y --draft-tokens 0", 2, "whole number from 1 to 64"},
    {"eval x --text a --draft y --temperature -1", 2, "a number from 0"},
    {"eval x --text a --draft y --device auto", 2, "--draft is measured on the CPU"},
    {"eval x --speed --threads 0", 2, "whole number from 1"},
    {"eval x --speed --threads 2x", 2, "whole number from 1"},
    {"eval x --speed --threads -1", 2, "whole number from 1"},
    {"eval x --speed --threads ''", 2, "whole number from 1"},
    {"eval /nowhere/at/all --speed", 4, "/nowhere/at/all"},
    {"eval '" HEDGE "' --text /nowhere/text", 4, "/nowhere/text"},
    {"eval '" HEDGE "' --text '" HEDGE "/README.md' --window 257", 2,
     "is 256 tokens; give 256 or less"},
    {"eval '" HEDGE "' --text '" HEDGE "/README.md' --window 64 --stride 64", 2, "from 1 to 63"},
    {"generate '" HEDGE "' --output x.bin", 2, "must end in .txt or .i32"},
    {"generate '" HEDGE "' --tokens 1 --output \"$(printf 'n%.0s' $(seq 240)).txt\"", 2,
     "239 for its name"},
    {"generate '" HEDGE "' --temperature nan", 2, "a number from 0"},
    {"generate '" HEDGE "' --top-k 0", 2, "whole number from 1"},
    {"generate '" HEDGE "' --top-p 1.5", 2, "a number from"},
    {"generate '" HEDGE "' --min-p 0.5 --temperature 0", 2,
     "--min-p chooses among tokens, and --temperature 0"},
    {"generate '" HEDGE "' --temperature 0x1", 2, "a number from 0"},
    {"generate '" HEDGE "' --tokens 256", 2, "of which the prompt takes 1; give 255 or less"},
    {"compress /nowhere.yaml", 2, "no such recipe"},
    {"plan /nowhere.yaml", 2, "no such recipe"},
    {"compress x.yaml --device cuda", 2, "CPU only"},
    {"eval '" HEDGE "' --speed --device-products f16", 2, "is for --device cuda or auto"},
    {"eval '" HEDGE "' --speed --device cuda --device-products f61", 2, "did you mean f16?"},
    {"eval '" HEDGE "' --speed --device gpu", 2, "expected cpu, cuda or auto"},
    {"bench model --shape tiny --batch 1,2,1", 2, "1 stands there twice"},
    {"bench model --shape tiny --against int4", 2, "these are the weights already"},
    {"compress x.yaml --device tpu", 2, "leave --device out"},
    {"plan '" PARE_SOURCE_DIR "/recipes/demo/w4-gptq.yaml' --ram-limit 8Gigs", 2, "such as 8GiB"},
    {"plan '" PARE_SOURCE_DIR "/recipes/demo/w4-gptq.yaml' --set passes.0.gptq.bts=3", 2,
     "did you mean"},
    {"plan '" PARE_SOURCE_DIR "/recipes/demo/w4-gptq.yaml' --restart --model /nowhere/model", 2,
     "--model: /nowhere/model: there is no such model"},
    {"inspect '" PARE_SOURCE_DIR "/README.md'", 4, "README.md"},
    {"verify /nowhere", 4, "/nowhere"},
    {"verify \"$(printf '/no\\033[1Awhere')\"", 4, "/no?[1Awhere: "},
    {"bench pixels", 2, "unknown subject"},
    {"eval '" HEDGE "' --speed --kv kiwi", 2,
     "--kv \"kiwi\": it takes none, int8, int4, kivi or kvquant; did you mean kivi?"},
    {"eval '" HEDGE "' --speed --kv fp8", 2, "takes none, int8, int4, kivi or kvquant"},
    {"eval '" HEDGE "' --speed --kv kvquant", 2, "levels are found at calibration"},
    {"eval '" HEDGE "' --speed --kv int8 --kv-window 8", 2, "--kv-window is for kivi"},
    {"generate '" HEDGE "' --kv kivi --kv-window 0", 2, "from 1 to 256"},
    {"eval '' --speed", 2, "word 1 is empty; usage: pare eval MODEL"},
    {"compress x.yaml --output ''", 2, "--output is empty; it needs DIR"},
    {"compress '" PARE_SOURCE_DIR "'", 2, "is a directory, expected a recipe"},
    {"compress '" PARE_SOURCE_DIR "/recipes/demo/w4-gptq.yaml' --log json:/nowhere/log", 2,
     "--log json:/nowhere/log: cannot open"},
    {"eval '" HEDGE "' --text '" HEDGE "/generation_config.json'", 2,
     "fewer than one window of 256; give a smaller --window"},
    {"generate '" HEDGE "' --output /nowhere/x.txt", 2, "/nowhere/ is not a directory"},
    {"generate '" HEDGE "' --seed 9223372036854775808", 2, "to 9223372036854775807"},
    {"help eval plan", 2, "\"plan\" is one word too many"},
    {"help error 7", 2, "no exit code \"7\""},
    {"help gtpq", 2, "did you mean gptq?"},
    {"export x", 2, "export: --format is missing: compressed-tensors, gptq"},
    {"export x --format tensorrt --output y", 2, "expected one of compressed-tensors"},
    {"export x --format awq", 2, "export: --output is missing"},
    {"export no-such-model --format awq --output y", 4, "no-such-model"},
    {"pack x --output y", 2, "the name of an archive ends in .pare.zst"},
    {"pack x --level 20", 2, "expected a whole number from 1 to 19"},
    {"unpack x --list --check", 2, "give one of --list, --check and --output"},
    {"unpack /nowhere.pare.zst", 4, "/nowhere.pare.zst"},
    {"sign x", 2, "sign: --key is missing"},
    {"diff x", 2, "A B is missing"},
    {"inspect '" HEDGE "' --threads 0", 2,
     "--threads \"0\": expected a whole number from 1 to 256"},
    {"help --threads many", 2, "--threads \"many\""},
    {"eval x --draft y", 2, "--draft needs --text or --tokens"},
    {"eval '" HEDGE "' --choice '" HEDGE "/config.json'", 4, "each line must be one item"},
    {"eval '" HEDGE "' --tasks 'piqa=" HEDGE "/config.json'", 4, "each line must be one item"},
    {"sign '" HEDGE "' --key x", 4,
     "pare signs this file of an artifact, or of an export that is a folder"},
    {"init '" HEDGE "' --preset w4a16 --text '" HEDGE "/model.safetensors'", 4,
     "is NUL, so this is no text"},
    {"init '" HEDGE "' --preset w4a16 --tokens '" HEDGE "/model.safetensors'", 4,
     "outside the model's vocabulary"},
};

START_TEST(a_mistake_has_its_exit_code_and_says_what_to_do)
{
    check_fails(mistakes[_i].arguments, mistakes[_i].code, mistakes[_i].fragment);
}
END_TEST

START_TEST(a_result_that_goes_nowhere_is_told_without_a_disk)
{
    static char text[1024];
    FILE *const f = popen("'" PARE_PROGRAM "' help 2>&1 >/dev/full", "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    ck_assert_int_eq(WEXITSTATUS(pclose(f)), 5);
    ck_assert_str_eq(text, "pare: error: /dev/stdout: cannot write: No space left on device\n");
}
END_TEST

START_TEST(every_command_and_pass_has_a_page)
{
    static const char *const page[][2] = {
        {"help", "commands"},
        {"--help", "commands"},
        {"-h", "commands"},
        {"help compress", "--strict"},
        {"compress --help", "--set"},
        {"plan -h", "--ram-limit"},
        {"eval x --help", "--stride"},
        {"help generate", "--temperature"},
        {"help w4a16", "pare init MODEL --preset"}, /* a preset leads to its page */
        {"help verify", "pare verify"},
        {"help bench", "--gptq"},
        {"help doctor", "pare doctor"},
        {"help help", "TOPIC"},
        {"help rtn", "symmetric"},
        {"help gptq", "act_order"},
        {"help wanda", "  sparsity         auto  "}, /* unless a recipe says it */
        {"help experts", "fill, rtn"},
        {"help calibration", "3 tokens per input, a rank of a quarter"},
        {"help error", "130"},
        {"help error 4", "    4  bad"},
        {"generate '" HEDGE "' --prompt '' --tokens 3", "\n"},
        {"help tokenize", "pare tokenize MODEL [TEXT]"},
        {"--version", "pare "},
    };
    for (size_t i = 0; i < sizeof page / sizeof *page; i++) {
        const outcome *const o = call(page[i][0], OUT);
        ck_assert_msg(o->code == 0 && strstr(o->text, page[i][1]), "pare %s: exit %d:\n%s",
                      page[i][0], o->code, o->text);
    }
}
END_TEST

START_TEST(a_page_names_every_parameter_with_its_default)
{
    static const char *const row[] = {"bits", "group", "tail", "damp", "0.01", "128", "targets"};
    const outcome *const o = call("help gptq", OUT);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        ck_assert_msg(strstr(o->text, row[i]) != NULL, "%s is not in\n%s", row[i], o->text);
}
END_TEST

START_TEST(json_of_eval_holds_what_was_asked_for_and_no_more)
{
    pare_ctx cx;
    pare_json *json = parse(&cx, "eval '" HEDGE "' --text '" HEDGE
                                 "/README.md' --window 32 --baseline '" HEDGE "' --format json");
    const pare_json *const kl = pare_json_get(json, "kl");
    ck_assert_int_eq(pare_json_integer(pare_json_get(json, "window"), 0), 32);
    ck_assert_int_eq(pare_json_integer(pare_json_get(json, "tokens"), 0) % 31, 0);
    ck_assert(pare_json_number(pare_json_get(pare_json_get(json, "perplexity"), "ppl"), 0) > 1);
    ck_assert_double_eq(pare_json_number(pare_json_get(kl, "mean"), -1), 0);
    ck_assert_double_eq(pare_json_number(pare_json_get(kl, "top1_agreement"), 0), 1);
    ck_assert_ptr_null(pare_json_get(json, "speed"));
    ck_assert_ptr_null(pare_json_get(json, "choice"));
    const pare_json *const memory = pare_json_get(json, "memory");
    ck_assert_double_eq(pare_json_number(pare_json_get(memory, "bits_per_weight"), 0), 16);
    const pare_json *const run = pare_json_get(json, "run_memory"); /* of both models */
    ck_assert(pare_json_integer(pare_json_get(run, "peak_rss_bytes"), 0) > 1 << 20);
    ck_assert(pare_json_integer(pare_json_get(run, "peak_anonymous_bytes"), 0) > 1 << 20);
    ck_assert_ptr_null(pare_json_get(memory, "peak_rss_bytes"));
    ck_assert_ptr_null(pare_json_get(memory, "peak_anonymous_bytes"));
    pare_json_free(json);
    json = parse(&cx, "eval '" HEDGE "' --text '" HEDGE "/README.md' --window 32 --format json");
    ck_assert(number_in(json, "memory", "peak_rss_bytes") > 1 << 20);
    ck_assert_ptr_null(pare_json_get(json, "run_memory"));
    pare_json_free(json);
}
END_TEST

START_TEST(a_name_in_a_file_does_not_steer_the_terminal)
{
    const outcome *const o =
        call("inspect '" PARE_SOURCE_DIR "/tests/fuzz/corpus/safetensors/ok_escaped_name'", OUT);
    ck_assert_int_eq(o->code, 0);
    ck_assert_ptr_nonnull(strstr(o->text, "\na\"\\?\xc3\xa9 "));
}
END_TEST

START_TEST(every_result_can_be_had_as_json)
{
    static const char *const arguments[] = {
        "doctor --format json",
        "inspect '" HEDGE "' --format=json",
        "verify '" HEDGE "' --format json",
        "generate '" HEDGE "' --tokens 8 --count 2 --format json",
        "tokenize '" HEDGE "' 'The king' --format json",
        "plan '" PARE_SOURCE_DIR "/recipes/demo/w4-gptq.yaml' --restart --format json",
        "compress '" PARE_SOURCE_DIR "/recipes/demo/w4-gptq.yaml' --restart --dry-run "
        "--format json",
    };
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        pare_ctx cx;
        pare_json *const json = parse(&cx, arguments[i]);
        ck_assert_int_eq(pare_json_type_of(json), PARE_JSON_OBJECT);
        pare_json_free(json);
    }
}
END_TEST

START_TEST(samples_depend_on_the_seed_and_not_on_the_threads)
{
    static char first[sizeof((outcome *)0)->text];
    const char *const same = "generate '" HEDGE "' --tokens 24 --seed 7 --threads";
    char one[1024], three[1024];
    (void)snprintf(one, sizeof one, "%s 1", same);
    (void)snprintf(three, sizeof three, "%s 3", same);
    memcpy(first, call(one, OUT)->text, sizeof first);
    ck_assert_uint_gt(strlen(first), 8);
    ck_assert_str_eq(first, call(three, OUT)->text);
    ck_assert_str_ne(first, call("generate '" HEDGE "' --tokens 24 --seed 8", OUT)->text);
}
END_TEST

START_TEST(every_level_of_kernels_gives_the_same_logits)
{
    char first[1 << 10] = "";
    make_tiny();
    const unsigned have = pare_cpu_detect();
    for (size_t i = 0; i < PARE_CPU_LEVELS; i++) {
        const char *const name = pare_cpu_levels[i].name;
        (void)setenv("PARE_CPU", name, 1);
        if (pare_cpu_levels[i].cpu & ~have) {
            check_fails("eval " TINY "/out --tokens " TINY "/tokens.i32", 2, "which has ref");
            continue;
        }
        pare_ctx cx;
        pare_json *const json =
            parse(&cx, "eval " TINY "/out --tokens " TINY "/tokens.i32 --format json");
        char now[sizeof first];
        (void)snprintf(now, sizeof now, "%.17g", number_in(json, "perplexity", "ppl"));
        ck_assert_double_gt(number_in(json, "perplexity", "ppl"), 1);
        pare_json_free(json);
        if (first[0] == '\0')
            memcpy(first, now, sizeof first);
        ck_assert_str_eq(first, now);
        const outcome *const o = call("doctor", OUT);
        char in_use[64];
        (void)snprintf(in_use, sizeof in_use, "\nkernels            %s (of ref", name);
        ck_assert_msg(o->code == 0 && strstr(o->text, in_use), "%s", o->text);
    }
    (void)setenv("PARE_CPU", "sse9", 1);
    check_fails("doctor", 2, "PARE_CPU: no kernels of level \"sse9\"");
    (void)setenv("PARE_CPU", "", 1); /* as if it were not set */
    static char text[sizeof((outcome *)0)->text];
    memcpy(text, call("doctor", OUT)->text, sizeof text);
    (void)unsetenv("PARE_CPU");
    ck_assert_ptr_nonnull(strstr(text, "kernels"));
    char best[64];
    (void)snprintf(best, sizeof best, "\nkernels            %s (of ref", pare_cpu_name(have));
    ck_assert_msg(strstr(text, best) && strstr(call("doctor", OUT)->text, best), "%s", text);
    pare_ctx cx;
    pare_json *const json = parse(&cx, "doctor --format json");
    size_t levels = 0;
    for (size_t i = 0; i < PARE_CPU_LEVELS; i++)
        levels += (pare_cpu_levels[i].cpu & ~have) == 0;
    ck_assert_uint_eq(pare_json_count(pare_json_get(json, "cpu_levels")), levels);
    pare_json_free(json);
}
END_TEST

static void put(const char *path, const char *bytes, size_t len)
{
    FILE *const f = fopen(path, "wb");
    ck_assert(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
}

START_TEST(all_samples_are_in_the_result_and_no_file_is_lost)
{
    enum { COUNT = 3 };
    static const char same[] = "generate '" HEDGE "' --tokens 6 --count 3";
    static char all[sizeof((outcome *)0)->text];
    char command[512];
    pare_ctx cx;
    memcpy(all, call(same, OUT)->text, sizeof all);
    (void)snprintf(command, sizeof command, "%s --format json", same);
    pare_json *json = parse(&cx, command);
    const pare_json *const texts = pare_json_get(json, "texts");
    ck_assert_uint_eq(pare_json_count(texts), COUNT);
    size_t at = 0, len;
    for (size_t i = 0; i < COUNT; i++) {
        const char *const text = pare_json_text(pare_json_at(texts, i), &len);
        ck_assert_ptr_nonnull(text);
        ck_assert_msg(strncmp(all + at, text, len) == 0 && all[at + len] == '\n', "%s", text);
        at += len + 1;
    }
    ck_assert(all[at] == '\0');
    pare_json_free(json);
    make_tiny();
    (void)snprintf(command, sizeof command, "%s --output " TINY "/tokens.i32", same);
    check_fails(command, 2, "tokens.i32\" exists already; --restart replaces it");
    struct stat st;
    ck_assert(stat(TINY "/tokens.i32", &st) == 0 && st.st_size == 300 * 4);
    static const struct {
        const char *file, *says;
    } kept[] = {{"link.i32", "is no regular file"},    {"folder.txt", "is no regular file"},
                {"odd.i32", "is no file of tokens"},   {"binary.txt", "is no file of text"},
                {"merges.txt", "only files of a mod"}, {"busy.txt", "busy.txt.tmp is in the way"},
                {"diary.i32", "is no file of tokens"}, {"out/new.txt", "only files of a mod"}};
    ck_assert(symlink("tokens.i32", TINY "/link.i32") == 0 && mkdir(TINY "/folder.txt", 0777) == 0);
    put(TINY "/odd.i32", "\1\0\0\0\1", 5);
    put(TINY "/diary.i32", "diary!!!", 8);
    put(TINY "/binary.txt", "\0", 1);
    put(TINY "/merges.txt", "#version: 0.2", 13);
    put(TINY "/busy.txt.tmp", "mine", 4);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        (void)snprintf(command, sizeof command, "%s --output " TINY "/%s --restart", same,
                       kept[i].file);
        check_fails(command, 2, kept[i].says);
        (void)snprintf(command, sizeof command, TINY "/%s.lock", kept[i].file);
        ck_assert(access(command, F_OK) != 0);
    }
    check_fails("compress " TINY "/r.yaml --log json:" TINY "/tokens.i32", 2, "is no log of pare");
    ck_assert(stat(TINY "/tokens.i32", &st) == 0 && st.st_size == 300 * 4);
    (void)snprintf(command, sizeof command, "%s --output " TINY "/tokens.i32 --restart", same);
    ck_assert_int_eq(call(command, OUT)->code, 0);
    ck_assert(stat(TINY "/tokens.i32", &st) == 0 && st.st_size == COUNT * (6 + 1) * 4);
}
END_TEST

START_TEST(a_file_that_comes_during_the_sampling_stays)
{
    static const char *const names[] = {"late.i32", "late.i32.tmp", "late.txt"};
    make_tiny();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char command[1024], text[8] = "";
        (void)snprintf(command, sizeof command,
                       "cd " TINY "; '%s' generate '" HEDGE "' --tokens 90 --count 5 --output %.8s "
                       "2> late.err & pid=$!; until [ -e %.8s.lock ]; do sleep 0.01; done; sleep "
                       "0.1; kill -STOP $pid; printf mine > %s; kill -CONT $pid; wait $pid",
                       PARE_PROGRAM, names[i], names[i], names[i]);
        ck_assert_msg(system(command) == 2 << 8, "%s", names[i]); /* exit code 2 */
        (void)snprintf(command, sizeof command, TINY "/%s", names[i]);
        FILE *const f = fopen(command, "r");
        ck_assert(f && fgets(text, sizeof text, f) && fclose(f) == 0 && unlink(command) == 0);
        ck_assert_str_eq(text, "mine");
    }
}
END_TEST

START_TEST(choices_are_counted_and_named_by_their_lines)
{
    static const char item[] =
        "{\"context\": \"The cat\", \"choices\": [\" sat\", \" ran\"], \"answer\": 0}\n";
    static char longer[4096];
    make_tiny();
    FILE *f = fopen(TINY "/one.jsonl", "w");
    ck_assert(f && fputs(item, f) >= 0 && fclose(f) == 0);
    const outcome *o = call("eval '" HEDGE "' --choice " TINY "/one.jsonl", OUT);
    ck_assert_msg(o->code == 0 && strstr(o->text, "one.jsonl, 1 item)\n"), "%s", o->text);
    f = fopen(TINY "/choice.yaml", "w");
    ck_assert(f &&
              fputs("pare: 1\nmodel: " HEDGE "\noutput: choice\npasses: [rtn: {group: 32}]\n"
                    "evaluate: [choice: {file: one.jsonl}]\n",
                    f) >= 0 &&
              fclose(f) == 0);
    o = call("compress " TINY "/choice.yaml", OUT); /* one item has no standard error */
    ck_assert_msg(o->code == 0 && strstr(o->text, "(one.jsonl, 1 item)\n"), "%s", o->text);
    ck_assert_msg(!strstr(o->text, "nan"), "%s", o->text);
    f = fopen(TINY "/long.jsonl", "w");
    memset(longer, 'x', sizeof longer - 1);
    ck_assert(f &&
              fprintf(f,
                      "%s\n\n{\"context\": \"%s\", \"choices\": [\"a\", \"b\"], "
                      "\"answer\": 1}\n",
                      item, longer) > 0 &&
              fclose(f) == 0);
    check_fails("eval '" HEDGE "' --choice " TINY "/long.jsonl", 4, "long.jsonl:4: choice 0 has ");
}
END_TEST

START_TEST(a_start_token_that_nobody_wrote_is_not_shown)
{
    const char *const model = PARE_SHARED_DIR "/models/stories260k";
    char arguments[2048];
    if (access(model, R_OK) != 0)
        return;
    (void)snprintf(arguments, sizeof arguments, "generate '%s' --prompt Once --tokens 4", model);
    const outcome *const o = call(arguments, OUT);
    ck_assert_int_eq(o->code, 0);
    ck_assert_msg(strncmp(o->text, "Once", 4) == 0, "%s", o->text);
}
END_TEST

START_TEST(a_reader_that_leaves_is_not_scolded)
{
    char text[256];
    FILE *const f =
        popen("{ (sleep 0.3; '" PARE_PROGRAM "' inspect '" HEDGE "') | true; } 2>&1", "r");
    ck_assert_ptr_nonnull(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    (void)pclose(f);
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(a_long_path_leaves_room_for_the_reason)
{
    char arguments[3000];
    (void)snprintf(arguments, sizeof arguments, "inspect /%02000d", 7);
    check_fails(arguments, 4, "cannot open: File name too long");
}
END_TEST

/* Blocks of mixtral have experts and no other MLP; the plan cannot know which values F16 has. */
START_TEST(a_mixture_is_told_as_it_is)
{
    (void)mkdir(TINY, 0777);
    ck_assert(family_write(family_find("mixtral"), TINY "/moe"));
    FILE *const f = fopen(TINY "/moe.yaml", "w");
    ck_assert(f && fputs("pare: 1\nmodel: moe\noutput: moe-out\npasses: [rtn: {group: 32, targets: "
                         "'*.experts.[01].*'}]\nexport: [{format: 'gguf:q4_0', path: moe.gguf}]\n",
                         f) >= 0);
    ck_assert_int_eq(fclose(f), 0);
    const char *text = call("inspect " TINY "/moe", OUT)->text;
    ck_assert_msg(strstr(text, "hidden ") && !strstr(text, "intermediate"), "%s", text);
    text = call("inspect " TINY "/moe --format json", OUT)->text;
    ck_assert_msg(strstr(text, "\"hidden\"") && !strstr(text, "\"intermediate\""), "%s", text);
    text = call("plan " TINY "/moe.yaml", OUT)->text;
    ck_assert_msg(strstr(text, " rounded to floats or with the same weights, "), "%s", text);
    ck_assert_msg(strstr(text, " become F16: others in the same tensor are not quantized"), "%s",
                  text);
    ck_assert_ptr_null(strstr(text, "fall back"));
    check_fails("plan --strict " TINY "/moe.yaml", 2,
                "experts of its block that are not quantized");
    ck_assert_int_eq(call("compress " TINY "/moe.yaml --restart", OUT)->code, 0);
    ck_assert_int_eq(system("grep -q 'hidden.*heads' " TINY "/moe-out/README.md"), 0);
    ck_assert_int_ne(system("grep -q 'intermediate' " TINY "/moe-out/README.md"), 0);
}
END_TEST

START_TEST(many_threads_bring_no_words_of_the_library)
{
    make_tiny();
    const char *const said = call("compress " TINY "/r.yaml --restart --threads 200", ERR)->text;
    ck_assert(strstr(said, " linears in 2 blocks") && !strstr(said, "OpenBLAS"));
}
END_TEST

/* A model without one is whole; one that cannot be read is damaged. */
START_TEST(a_missing_tokenizer_is_told)
{
    static const char none[] = "there is no tokenizer", job[] = "the model has no tokenizer";
    make_tiny();
    const outcome *o = call("verify " TINY "/model", OUT);
    ck_assert_int_eq(o->code, 0);
    ck_assert(strstr(o->text, none) && strstr(o->text, "there are no checksums"));
    ck_assert_ptr_null(strstr(call("verify '" HEDGE "'", OUT)->text, none));
    ck_assert_ptr_nonnull(strstr(call("plan " TINY "/r.yaml --restart", OUT)->text, job));
    ck_assert_ptr_nonnull(strstr(call("compress " TINY "/r.yaml --restart", OUT)->text, job));
    FILE *const f = fopen(TINY "/model/tokenizer.json", "w");
    ck_assert(f && fputs("{\"model\": ", f) >= 0 && fclose(f) == 0);
    ck_assert_int_eq(call("verify " TINY "/model", OUT)->code, 4);
    ck_assert_ptr_nonnull(strstr(call("verify " TINY "/model", OUT)->text, "tokenizer.json"));
    ck_assert_int_eq(remove(TINY "/model/tokenizer.json"), 0);
}
END_TEST

START_TEST(a_result_that_cannot_be_written_is_a_failure)
{
    if (access("/dev/full", W_OK) != 0)
        return;
    make_tiny();
    ck_assert_int_eq(call("doctor >/dev/full", OUT)->code, 5);
    /* More than stdout holds back: it is written, and fails, before the end. */
    ck_assert_int_eq(call("plan " TINY "/r.yaml --format json >/dev/full", OUT)->code, 5);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("cli");
    TCase *const t = tcase_create("cli");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, a_mistake_has_its_exit_code_and_says_what_to_do, 0,
                        (int)(sizeof mistakes / sizeof *mistakes));
    tcase_add_test(t, exact_holds_for_the_baseline_too);
    tcase_add_test(t, an_artifact_keeps_its_cache_as_the_recipe_says_until_told_otherwise);
    tcase_add_test(t, data_that_do_not_fit_the_models_are_a_mistake_of_the_user);
    tcase_add_test(t, a_result_that_goes_nowhere_is_told_without_a_disk);
    tcase_add_test(t, every_command_and_pass_has_a_page);
    tcase_add_test(t, a_run_tells_how_stable_its_choice_of_weights_is);
    tcase_add_test(t, a_page_names_every_parameter_with_its_default);
    tcase_add_test(t, json_of_eval_holds_what_was_asked_for_and_no_more);
    tcase_add_test(t, a_name_in_a_file_does_not_steer_the_terminal);
    tcase_add_test(t, every_result_can_be_had_as_json);
    tcase_add_test(t, samples_depend_on_the_seed_and_not_on_the_threads);
    tcase_add_test(t, every_level_of_kernels_gives_the_same_logits);
    tcase_add_test(t, all_samples_are_in_the_result_and_no_file_is_lost);
    tcase_add_test(t, a_file_that_comes_during_the_sampling_stays);
    tcase_add_test(t, choices_are_counted_and_named_by_their_lines);
    tcase_add_test(t, a_start_token_that_nobody_wrote_is_not_shown);
    tcase_add_test(t, a_reader_that_leaves_is_not_scolded);
    tcase_add_test(t, a_long_path_leaves_room_for_the_reason);
    tcase_add_test(t, a_mixture_is_told_as_it_is);
    tcase_add_test(t, many_threads_bring_no_words_of_the_library);
    tcase_add_test(t, a_missing_tokenizer_is_told);
    tcase_add_test(t, a_result_that_cannot_be_written_is_a_failure);
    suite_add_tcase(s, t);
    return unit_main(s);
}
