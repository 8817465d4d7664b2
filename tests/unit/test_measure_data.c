/* What pare eval and pare compare say against models and data before they measure, and of a model
 * whose figures are no numbers; what pare generate makes of a prompt. */
#include <math.h>

#include "tests/data/families.h"
#include "tests/unit/job_tiny.h"
#include "tests/unit/program.h"

#define HEDGE PARE_SOURCE_DIR "/recipes/demo/hedge"
#define TEXT  PARE_SOURCE_DIR "/recipes/demo/evaluation.txt"

static void put(const char *name, const char *bytes, size_t len)
{
    FILE *const f = fopen(job_path(&place, name), "wb");
    ck_assert(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
}

static void shell(const char *command)
{
    char line[2048];
    (void)snprintf(line, sizeof line, "cd %s && %s", place.root, command);
    ck_assert_msg(system(line) == 0, "%s", line);
}

/* The arguments with % for the folder. */
static const char *filled(const char *arguments)
{
    static char text[1536];
    size_t at = 0;
    for (const char *p = arguments; *p; p++)
        at += (size_t)snprintf(text + at, sizeof text - at, *p == '%' ? "%s" : "%.1s",
                               *p == '%' ? place.root : p);
    return text;
}

/* Refused with that code and these words, before a model was measured. */
static void refused(const char *arguments, int code, const char *fragment)
{
    char command[2048];
    (void)snprintf(command, sizeof command, "%s --no-progress", filled(arguments));
    check_fails(command, code, fragment);
    (void)snprintf(command, sizeof command, "%s --log json", filled(arguments));
    const outcome *const o = call(command, ERR);
    ck_assert_msg(strstr(o->text, "\"start\"") && !strstr(o->text, "scoring") &&
                      !strstr(o->text, "answering"),
                  "%s", o->text);
}

/* As a user meets it: the second of two candidates lost its manifest. */
START_TEST(every_model_is_judged_before_the_first_is_measured)
{
    job_recipe(&place, "pare: 1\nmodel: model\npasses: [rtn: {group: 32}]\n");
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(job_run(&place, (job_opts){.output = i ? "b" : "a"}, NULL), PARE_OK);
    shell("mv b/manifest.json manifest.json");
    refused("compare %/model %/a %/b --tokens %/tokens.i32 --window 16", 4,
            "/b/manifest.json: missing, so nothing says what the weights should be");
    ck_assert_int_eq(call(filled("compare %/model %/a %/b --tokens %/tokens.i32 --window 16 "
                                 "--unchecked"),
                          OUT)
                         ->code,
                     0);
    shell("sed 's/\"format\": 1/\"format\": 99/' manifest.json > b/manifest.json");
    refused("compare %/model %/a %/b --tokens %/tokens.i32 --window 16", 4, "/b/manifest.json: ");
    shell("cp manifest.json b && cp tokens.i32 b/tokenizer.model");
    refused("compare %/model %/a %/b --tokens %/tokens.i32 --window 16", 4,
            "tokenizer.model is not among the outputs");
    shell("rm b/tokenizer.model && cp -r model small && "
          "sed -i 's/\"vocab_size\": [0-9]*/\"vocab_size\": 300/' small/config.json");
    refused("compare %/small %/small --tokens %/tokens.i32 --window 16", 4, "small");
}
END_TEST

static const char good[] = "{\"context\": \"A cat\", \"choices\": [\" sat\", \" ran\"], "
                           "\"answer\": 0}\n";

/* Errors of choice files came when the text had been scored. */
START_TEST(choice_files_are_read_before_the_text_is_scored)
{
    static char items[1 << 12];
    const char *const command[] = {"eval '" HEDGE "' --text '" TEXT "' --choice %/c.jsonl",
                                   "compare '" HEDGE "' '" HEDGE "' --text '" TEXT
                                   "' --choice %/c.jsonl"};
    size_t at = (size_t)snprintf(items, sizeof items, "%s{\"context\": \"x", good);
    for (size_t i = 0; i < 300; i++)
        at += (size_t)snprintf(items + at, sizeof items - at, " dog");
    (void)snprintf(items + at, sizeof items - at,
                   "\", \"choices\": [\" sat\", \" ran\"], \"answer\": 0}\n");
    for (size_t i = 0; i < 2; i++) {
        put("c.jsonl", "[1]\n", 4);
        refused(command[i], 4, "c.jsonl:1: the keys of the item are of no shape");
        put("c.jsonl", items, strlen(items));
        refused(command[i], 4, "c.jsonl:2: choice 0 has 1 token behind the ");
        refused(command[i], 4,
                "and the model's context is 256 tokens; take the line out, or give a limit of 1: "
                "the item in front of it");
    }
    ck_assert_int_eq(call(filled("eval '" HEDGE "' --choice %/c.jsonl --limit 1"), OUT)->code, 0);
}
END_TEST

START_TEST(a_window_above_the_context_is_refused_as_help_says)
{
    refused("eval '" HEDGE "' --text '" TEXT "' --window 4096", 2,
            "--window 4096: the context of " HEDGE " is 256 tokens; give 256 or less");
    ck_assert_ptr_nonnull(strstr(call("help eval", OUT)->text,
                                 "tokens per window (2048, or the model's context, if that is"));
}
END_TEST

static void stop_at_block(void *self, const pare_event *e)
{
    *(volatile int *)self |= e->kind == PARE_EVENT_BLOCK;
}

/* Not a folder that somebody else made, and no finished artifact that waits there. */
START_TEST(the_directory_of_unfinished_work_is_named_as_such)
{
    static const char *const command[] = {"eval %/out.partial --tokens %/tokens.i32 --window 16",
                                          "eval %/model --baseline %/out.partial "
                                          "--tokens %/tokens.i32 --window 16",
                                          "inspect %/out.partial/",
                                          "verify %/out.partial",
                                          "export %/out.partial --format gptq --output %/x",
                                          "init %/out.partial --preset w4a16",
                                          "plan %/recipe.yaml --model %/out.partial --output %/x",
                                          "plan %/recipe.yaml --model %/out.partial --output %/out",
                                          "compress %/recipe.yaml --model %/out.partial "
                                          "--output %/x"};
    enum { COMMANDS = sizeof command / sizeof *command };
    job_recipe(&place, "pare: 1\nmodel: model\npasses: [rtn: {group: 32}]\n");
    volatile int stop = 0;
    const pare_events events = {stop_at_block, (void *)(uintptr_t)&stop};
    const job_opts job = {.output = "out", .events = &events, .interrupt = &stop};
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "done"}, NULL), PARE_OK);
    shell("mkdir out.partial");
    for (size_t i = 0; i < COMMANDS; i++) { /* not of pare */
        const outcome *const o = call(filled(command[i]), ERR);
        ck_assert_msg(o->code != 0 && !strstr(o->text, "unfinished"), "%s", o->text);
    }
    shell("printf 'PJ01' > out.partial/journal");
    for (size_t i = 0; i < COMMANDS; i++)
        refused(command[i], 4, "is the work directory of an unfinished job, and no model yet");
    shell("rm -r out.partial");
    ck_assert_int_eq(job_run(&place, job, NULL), PARE_EINTERRUPTED);
    for (size_t i = 0; i < COMMANDS; i++)
        refused(command[i], 4, "give its command (pare compress) again, which goes on and makes ");
    static const char *const absent[] = {
        "eval %/out --tokens %/tokens.i32 --window 16", "inspect %/out/", "verify %/out",
        "export %/out --format gptq --output %/x", "plan %/recipe.yaml --model %/out --output %/x"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        refused(absent[i], 4,
                "/out: is not there yet: the job that makes it is unfinished, and "
                "its work lies in ");
    shell("mv out.partial kept && mkdir -p out.variants/base.partial");
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        refused(absent[i], 4,
                "/out: is not there yet: the search that makes it is unfinished, and its work lies "
                "in ");
    shell("touch out.variants/asked.yaml"); // somebody took the output away
    refused(absent[1], 4, "/out/: no such file or directory");
    shell("rm -r out.variants && mv kept out.partial");
    shell("cp -r done done.partial");
    ck_assert_int_eq(call(filled("inspect %/done.partial"), OUT)->code, 0);
}
END_TEST

/* One weight, too large for what comes behind it. */
START_TEST(a_model_whose_logits_overflow_is_named)
{
    shell("cp -r model good");
    job_change(&place, "model.layers.0.mlp.down_proj.weight", 1, 1, 0, INFINITY);
    const outcome *o = call(filled("eval %/model --tokens %/tokens.i32 --window 16"), ERR);
    ck_assert_msg(strstr(o->text, "/model: the logits of scored position 0 are not finite"), "%s",
                  o->text);
    o = call(filled("compare %/good %/model --tokens %/tokens.i32 --window 16"), ERR);
    ck_assert_msg(strstr(o->text, "/model: the logits of scored position 0 are not finite"), "%s",
                  o->text);
    o = call(filled("eval %/good --baseline %/model --tokens %/tokens.i32 --window 16"), ERR);
    ck_assert_msg(strstr(o->text, "/model: the logits of scored position 0 are not finite"), "%s",
                  o->text);
}
END_TEST

/* What compress prints of it. */
START_TEST(repaired_weights_and_the_time_of_exports_stand_in_the_result)
{
    static const char bad[] = "model.layers.0.mlp.down_proj.weight";
    pare_ctx cx;
    job_change(&place, bad, 1, 1, 0, INFINITY);
    job_recipe(&place, "pare: 1\nmodel: model\nnan: zero\npasses: [rtn: {group: 32}]\n"
                       "export: [{format: safetensors, path: plain}]\n");
    const outcome *const o = call(filled("compress %/recipe.yaml --output %/out"), OUT);
    ck_assert_msg(
        strstr(o->text,
               "repaired          1 weight in 1 tensor, NaN or infinite before: set to 0\n"),
        "%s", o->text);
    ck_assert_msg(strstr(o->text, " s, of which exports 0."), "%s", o->text);
    shell("rm -r plain");
    pare_json *const json =
        parse(&cx, filled("compress %/recipe.yaml --output %/out --restart --format json"));
    const pare_json *const repaired = pare_json_get(json, "repaired");
    ck_assert_str_eq(pare_json_text(pare_json_get(repaired, "nan"), NULL), "zero");
    ck_assert_int_eq(pare_json_integer(pare_json_get(pare_json_get(repaired, "tensors"), bad), 0),
                     1);
    const double exports = pare_json_number(pare_json_get(json, "export_seconds"), 0);
    ck_assert(exports > 0 && pare_json_number(pare_json_get(json, "seconds"), 0) > exports);
    pare_json_free(json);
}
END_TEST

START_TEST(a_file_that_is_no_text_is_refused_or_told)
{
    static const char broken[] = "A cat sat on the mat, \xff\xfe and \xc3 it ran. And it was so.";
    const char *const eval = "eval '" HEDGE "' --window 8 --text %/t.txt";
    put("t.txt", "A cat sat\0on the mat, and it was a dog.", 40);
    refused(eval, 4, "t.txt: byte 9 is NUL, so this is no text");
    put("t.txt", broken, sizeof broken - 1);
    const outcome *const o = call(filled(eval), ERR);
    ck_assert_int_eq(o->code, 0);
    ck_assert_msg(
        strstr(o->text, "pare: warning: ") &&
            strstr(o->text, "t.txt: 3 parts are not valid UTF-8, and pare reads them as U+FFFD"),
        "%s", o->text);
    job_recipe(&place, "pare: 1\nmodel: " HEDGE "\npasses: [gptq: {group: 32}]\n"
                       "calibration: {text: [t.txt], samples: 2, window: 8}\n");
    const outcome *const c = call(filled("compress %/recipe.yaml --output %/out"), ERR);
    ck_assert_msg(c->code == 0 && strstr(c->text, "t.txt: 3 parts are not valid UTF-8"), "%s",
                  c->text);
    put("t.txt", "A cat sat\0on the mat, and it was a dog.", 40);
    const outcome *const n = call(filled("compress %/recipe.yaml --output %/other"), ERR);
    ck_assert_msg(n->code == 4 && strstr(n->text, "t.txt: byte 9 is NUL"), "%s", n->text);
}
END_TEST

static double nll_of(const char *arguments)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_json *const json = parse(&cx, arguments);
    const double nll = pare_json_number(pare_json_get(pare_json_get(json, "perplexity"), "nll"), 0);
    pare_json_free(json);
    return nll;
}

/* The mark is no part of the text: the same figure as without it. */
START_TEST(a_byte_order_mark_is_no_text)
{
    static const char marked[] = "\xef\xbb\xbf"
                                 "A cat sat on the mat, and it ran. It was a dog.";
    const char *const eval = "eval '" HEDGE "' --window 8 --text %/t.txt --format json";
    put("t.txt", marked + 3, sizeof marked - 4);
    const double without = nll_of(filled(eval));
    put("t.txt", marked, sizeof marked - 1);
    const double with = nll_of(filled(eval));
    ck_assert_msg(without > 0 && with == without, "%.17g is not %.17g", with, without);
}
END_TEST

START_TEST(what_a_text_was_not_meant_to_have_is_told)
{
    static const struct {
        const char *text, *note;
    } texts[] = {
        {"A cat sat on the mat.\r\nIt ran away\r\nand was a dog.\n", "end in CR LF"},
        {"A cat sat on the mat.\r\nIt ran away\nand was\n a dog.\n", NULL},
        {" {\"text\": \"A cat sat on the mat.\"}\n{\"text\": \"It ran.\"}", "this is JSON"},
        {"[\n {\r\n \"text\": \"A cat sat on the mat.\"}]", "this is JSON"},
        {"{A cat sat} on the mat. \"It ran\", and it was a dog.", NULL},
        {"[A cat sat] on the mat. \"It ran\", and it was a dog.", NULL},
        {"{                                                  ", NULL},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put("t.txt", texts[i].text, strlen(texts[i].text));
        const outcome *const o =
            call(filled("eval '" HEDGE "' --window 8 --text %/t.txt --no-progress"), ERR);
        ck_assert_msg(o->code == 0, "%zu: %s", i, o->text);
        if (texts[i].note)
            ck_assert_msg(strstr(o->text, "t.txt: ") && strstr(o->text, texts[i].note), "%zu: %s",
                          i, o->text);
        else
            ck_assert_msg(!strstr(o->text, "warning"), "%zu: %s", i, o->text);
    }
}
END_TEST

/* Bits per weight are those of the file; bytes in memory those of what the kernels read. */
START_TEST(bits_of_a_gguf_file_are_those_of_the_file)
{
    static const struct {
        const char *pass, *target;
        double bits, bits_in_memory;
        const char *told;
    } c[] = {{"rtn: {bits: 4, group: 32}", "q4_0", 4.5, 4.5, "take their inputs in int8"},
             {"rtn: {bits: 8, group: 32}", "q8_0", 8.5, 8.5, "take their inputs in int8"},
             {"rtn: {bits: 4, group: 32}", "q4_1", 5, 5.5, "pare takes its values\n"},
             {"rtn: {grid: q4_k}", "q4_k", 4.5, 4.625, "pare takes its values\n"},
             {"rtn: {grid: q6_k}", "q6_k", 6.5625, 6.5625, "pare takes its values\n"}};
    const double weights = 2.0 * (2 * 256 * 256 + 2 * 64 * 256 + 3 * 256 * 512);
    const char *const eval = "eval %/x.gguf --tokens %/tokens.i32 --window 16";
    tiny_model m = tiny_model_default();
    m.hidden = 256;
    m.intermediate = 512;
    m.heads = 8;
    m.head_dim = 32;
    char text[512];
    pare_ctx cx;
    teardown();
    place = job_make(&m);
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\npasses: [%s]\n"
                   "export: [{format: \"gguf:%s\", path: x.gguf}]\n",
                   c[_i].pass, c[_i].target);
    job_recipe(&place, text);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    const outcome *const o = call(filled(eval), OUT);
    const bool more = c[_i].bits_in_memory > c[_i].bits;
    ck_assert_msg(o->code == 0 && (strstr(o->text, " in memory\n") != NULL) == more, "%s", o->text);
    ck_assert_ptr_nonnull(strstr(call(filled(eval), ERR)->text, c[_i].told));
    (void)snprintf(text, sizeof text, "%s --format json", eval);
    pare_json *json = parse(&cx, filled(text));
    ck_assert_double_eq(number_in(json, "memory", "bits_per_weight"), c[_i].bits);
    const double stored = number_in(json, "memory", "weight_bytes");
    const double mapped = number_in(json, "memory", "mapped_bytes");
    ck_assert_double_eq(mapped - stored, weights * (c[_i].bits_in_memory - c[_i].bits) / 8);
    pare_json_free(json);
    json = parse(&cx, filled("inspect %/x.gguf --format json"));
    ck_assert_double_eq(pare_json_number(pare_json_get(json, "mapped_bytes"), 0), mapped);
    ck_assert_double_eq(pare_json_number(pare_json_get(json, "tensor_bytes"), 0), stored);
    pare_json_free(json);
    job_recipe(&place, "pare: 1\nmodel: x.gguf\noutput: o\npasses: [rtn: {group: 32}]\n");
    const outcome *const plan = call(filled("plan %/recipe.yaml"), OUT);
    ck_assert_msg(strstr(plan->text, "\nwarning           the model is already quantized ("), "%s",
                  plan->text);
    json = parse(&cx, filled("plan %/recipe.yaml --format json"));
    const char *const told = pare_json_text(pare_json_at(pare_json_get(json, "warnings"), 0), NULL);
    ck_assert_msg(told && strstr(told, "): its errors stay in it"), "%s", told);
    pare_json_free(json);
}
END_TEST

/* Biases of the model are no bits of its linears. */
START_TEST(bits_per_weight_are_those_that_compress_told)
{
    pare_ctx cx;
    ck_assert(family_write(family_find("qwen2"), job_path(&place, "biased")));
    ck_assert(tiny_tokens_write(job_path(&place, "few.i32"), FAMILY_VOCAB, 64, 3));
    job_recipe(&place, "pare: 1\nmodel: biased\noutput: o\npasses: [rtn: {bits: 4, group: 32}]\n");
    pare_json *json = parse(&cx, filled("compress %/recipe.yaml --format json"));
    const double told = number_in(json, "memory", "bits_per_weight");
    pare_json_free(json);
    json = parse(&cx, filled("eval %/o --tokens %/few.i32 --window 16 --format json"));
    ck_assert_double_eq(number_in(json, "memory", "bits_per_weight"), told);
    ck_assert_double_eq_tol(told, 4.5, 0.01);
    pare_json_free(json);
}
END_TEST

static size_t generated(const char *prompt, char text[256])
{
    char command[2048];
    pare_ctx cx;
    pare_ctx_init(&cx);
    (void)snprintf(command, sizeof command,
                   "%s --prompt '%s' --tokens 4 --temperature 0 --format json",
                   filled("generate %/chat"), prompt);
    pare_json *const json = parse(&cx, command);
    (void)snprintf(text, 256, "%s",
                   pare_json_text(pare_json_at(pare_json_get(json, "texts"), 0), NULL));
    const int64_t length = pare_json_integer(pare_json_get(json, "length"), 0);
    pare_json_free(json);
    return (size_t)length;
}

/* As chat templates begin: the tokenizer would put another BOS in front. */
START_TEST(a_prompt_that_begins_with_bos_gets_no_second_one)
{
    static const char bos[] = "<|endoftext|>";
    char plain[256], with[256];
    shell("mkdir chat && cp " HEDGE "/* chat && sed 's/\"post_processor\": null/"
          "\"post_processor\": {\"type\": \"TemplateProcessing\", "
          "\"single\": [{\"SpecialToken\": {\"id\": \"<|endoftext|>\", \"type_id\": 0}}, "
          "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], "
          "\"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
          "{\"Sequence\": {\"id\": \"B\", \"type_id\": 0}}], "
          "\"special_tokens\": {\"<|endoftext|>\": {\"id\": \"<|endoftext|>\", \"ids\": [4095], "
          "\"tokens\": [\"<|endoftext|>\"]}}}/' " HEDGE "/tokenizer.json > chat/tokenizer.json");
    const size_t length = generated("A cat sat", plain);
    ck_assert_uint_eq(generated("<|endoftext|>A cat sat", with), length);
    ck_assert_int_eq(strncmp(with, bos, sizeof bos - 1), 0);
    ck_assert_str_eq(with + sizeof bos - 1, plain);
    ck_assert_uint_eq(generated("<|endoftext|><|endoftext|>A cat sat", with), length + 1);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("measure_data");
    TCase *const t = tcase_create("measure_data");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, every_model_is_judged_before_the_first_is_measured);
    tcase_add_test(t, choice_files_are_read_before_the_text_is_scored);
    tcase_add_test(t, a_window_above_the_context_is_refused_as_help_says);
    tcase_add_test(t, the_directory_of_unfinished_work_is_named_as_such);
    tcase_add_test(t, a_model_whose_logits_overflow_is_named);
    tcase_add_test(t, repaired_weights_and_the_time_of_exports_stand_in_the_result);
    tcase_add_test(t, a_file_that_is_no_text_is_refused_or_told);
    tcase_add_test(t, a_byte_order_mark_is_no_text);
    tcase_add_test(t, what_a_text_was_not_meant_to_have_is_told);
    tcase_add_loop_test(t, bits_of_a_gguf_file_are_those_of_the_file, 0, 5);
    tcase_add_test(t, bits_per_weight_are_those_that_compress_told);
    tcase_add_test(t, a_prompt_that_begins_with_bos_gets_no_second_one);
    suite_add_tcase(s, t);
    return unit_main(s);
}
