/* pare compare, and what pare eval shares with it: limits, baselines, what ^C leaves. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/data/tiny_model.h"
#include "tests/unit/program.h"

#define HEDGE PARE_SOURCE_DIR "/recipes/demo/hedge"
#define TEXT  PARE_SOURCE_DIR "/recipes/demo/evaluation.txt"
#define HOME  "pare-compare"

static void put(const char *path, const char *text)
{
    FILE *const f = fopen(path, "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void run(const char *command)
{
    ck_assert_msg(system(command) == 0, "%s", command);
}

/* Tiny models: "model" and artifacts of it in 8 and 4 bits; choices for models with a tokenizer. */
static void make_home(void)
{
    static const char items[] =
        "{\"context\": \"The cat\", \"choices\": [\" sat\", \" of\", \" ran\"], \"answer\": 0}\n"
        "{\"context\": \"A man went to the\", \"choices\": [\" door\", \" is\"], \"answer\": 0}\n"
        "{\"context\": \"It is\", \"choices\": [\" and\", \" not\", \" the\"], \"answer\": 1}\n"
        "{\"context\": \"One of\", \"choices\": [\" the\", \" them\"], \"answer\": 1}\n";
    tiny_model m = tiny_model_default();
    run("rm -rf " HOME);
    ck_assert_int_eq(mkdir(HOME, 0777), 0);
    ck_assert(tiny_model_write(&m, HOME "/model"));
    ck_assert(tiny_tokens_write(HOME "/tokens.i32", m.vocab, 300, 1));
    ck_assert(tiny_tokens_write(HOME "/few.i32", m.vocab, 3 * 16, 1));
    put(HOME "/choice.jsonl", items);
    put(HOME "/w8.yaml",
        "pare: 1\nmodel: model\noutput: w8\npasses: [rtn: {group: 32, bits: 8}]\n");
    put(HOME "/w4.yaml", "pare: 1\nmodel: model\noutput: w4\npasses: [rtn: {group: 32}]\n");
    ck_assert_int_eq(call("compress " HOME "/w8.yaml", OUT)->code, 0);
    ck_assert_int_eq(call("compress " HOME "/w4.yaml", OUT)->code, 0);
}

#define OF_TOKENS " --tokens " HOME "/tokens.i32 --window 16 "
#define OF_CHOICE " --choice " HOME "/choice.jsonl "

static const pare_json *member(const pare_json *json, const char *a, const char *b)
{
    return pare_json_get(pare_json_get(json, a), b);
}

START_TEST(a_limit_takes_the_first_windows_and_items)
{
    pare_ctx cx;
    make_home();
    pare_json *json = parse(&cx, "eval " HOME "/w4" OF_TOKENS "--limit 3 --format json");
    pare_json *few = parse(&cx, "eval " HOME "/w4 --tokens " HOME
                                "/few.i32 --window 16 --limit 9 --format json");
    ck_assert_double_eq(number_in(json, "perplexity", "nll"), number_in(few, "perplexity", "nll"));
    ck_assert_int_eq(pare_json_integer(pare_json_get(json, "tokens"), 0), 3 * 15);
    ck_assert_int_eq(pare_json_integer(pare_json_get(json, "limit"), 0), 3);
    pare_json_free(few);
    pare_json_free(json);
    json = parse(&cx, "eval " HOME "/w4" OF_TOKENS "--stride 4 --limit 3 --format json");
    ck_assert_int_eq(pare_json_integer(pare_json_get(json, "tokens"), 0), 15 + 2 * 4);
    pare_json_free(json);
    json = parse(&cx, "eval '" HEDGE "'" OF_CHOICE "--limit 3 --format json");
    const pare_json *const c = pare_json_at(pare_json_get(json, "choice"), 0);
    ck_assert_int_eq(pare_json_integer(pare_json_get(c, "n"), 0), 3);
    ck_assert(isfinite(pare_json_number(pare_json_get(c, "accuracy_stderr"), NAN)));
    pare_json_free(json);
    const char *const text = call("eval '" HEDGE "'" OF_CHOICE "--limit 3", OUT)->text;
    ck_assert_msg(strstr(text, "limited to        first 3 items of each choice file\n"), "%s",
                  text);
}
END_TEST

START_TEST(a_baseline_has_its_figures_beside_those_of_the_model)
{
    pare_ctx cx;
    make_home();
    pare_json *json =
        parse(&cx, "eval " HOME "/w4" OF_TOKENS "--baseline " HOME "/model --speed --format json");
    pare_json *alone = parse(&cx, "eval " HOME "/model" OF_TOKENS "--format json");
    const pare_json *const base = pare_json_get(json, "baseline");
    ck_assert_double_eq(number_in(base, "perplexity", "ppl"),
                        number_in(alone, "perplexity", "ppl"));
    ck_assert_double_eq(number_in(base, "perplexity", "stderr"),
                        number_in(alone, "perplexity", "stderr"));
    ck_assert_double_eq(number_in(base, "memory", "model_bits_per_weight"), 16);
    ck_assert_double_lt(number_in(json, "memory", "bits_per_weight"),
                        number_in(json, "memory", "model_bits_per_weight"));
    ck_assert_double_gt(number_in(base, "speed", "decode_tok_s"), 0);
    ck_assert_double_eq_tol(number_in(json, "kl", "flips"),
                            1 - number_in(json, "kl", "top1_agreement"), 1e-15);
    ck_assert(pare_json_bool(pare_json_get(json, "complete"), false));
    pare_json_free(alone);
    pare_json_free(json);
}
END_TEST

START_TEST(choices_are_held_against_those_of_a_baseline_without_a_text)
{
    static const char *const key[] = {"paired", "paired_norm"};
    pare_ctx cx;
    make_home();
    pare_json *const json =
        parse(&cx, "eval '" HEDGE "' --baseline '" HEDGE "'" OF_CHOICE "--format json");
    const pare_json *const c = pare_json_at(pare_json_get(json, "choice"), 0);
    const pare_json *const b = pare_json_at(member(json, "baseline", "choice"), 0);
    ck_assert_double_eq(pare_json_number(pare_json_get(c, "accuracy"), -1),
                        pare_json_number(pare_json_get(b, "accuracy"), -2));
    for (size_t i = 0; i < 2; i++) {
        ck_assert_double_eq(number_in(c, key[i], "gained"), 0);
        ck_assert_double_eq(number_in(c, key[i], "lost"), 0);
        ck_assert_double_eq(number_in(c, key[i], "p"), 1);
    }
    ck_assert_ptr_null(pare_json_get(json, "perplexity"));
    pare_json_free(json);
    const char *const text = call("eval '" HEDGE "' --baseline '" HEDGE "'" OF_CHOICE, OUT)->text;
    ck_assert_msg(strstr(text, "\n  paired          0 gained, 0 lost, p 1.000; per byte 0"), "%s",
                  text);
}
END_TEST

/* Answers of a model that was rounded to two bits: some go either way, and the counts fit. */
START_TEST(gained_and_lost_answers_make_the_difference)
{
    static char items[1 << 15];
    pare_ctx cx;
    size_t at = 0;
    make_home();
    for (int i = 0; i < 60; i++)
        at += (size_t)snprintf(items + at, sizeof items - at,
                               "{\"context\": \"The %c%c\", \"choices\": [\" man\", \" house\", \" "
                               "was\", \" said\"], \"answer\": %d}\n",
                               'a' + i % 26, 'a' + i * 7 % 26, i % 4);
    put(HOME "/many.jsonl", items);
    put(HOME "/w2.yaml",
        "pare: 1\nmodel: " HEDGE "\noutput: w2\npasses: [rtn: {group: 32, bits: 2}]\n");
    ck_assert_int_eq(call("compress " HOME "/w2.yaml", OUT)->code, 0);
    pare_json *const json =
        parse(&cx, "compare '" HEDGE "' " HOME "/w2 --choice " HOME "/many.jsonl --format json");
    const pare_json *const a = pare_json_at(member(json, "original", "choice"), 0);
    const pare_json *const b =
        pare_json_at(pare_json_get(pare_json_at(pare_json_get(json, "models"), 0), "choice"), 0);
    const double change = pare_json_number(pare_json_get(b, "accuracy"), -1) -
                          pare_json_number(pare_json_get(a, "accuracy"), -1);
    const double gained = number_in(b, "paired", "gained"), lost = number_in(b, "paired", "lost");
    ck_assert(gained + lost > 0);
    ck_assert_double_eq_tol(change * 60, gained - lost, 1e-9);
    ck_assert_ptr_null(pare_json_get(a, "paired"));
    pare_json_free(json);
}
END_TEST

/* Tasks, with their subjects, are those that eval finds beside the original; in every form. */
START_TEST(tasks_are_those_of_eval)
{
    pare_ctx cx;
    make_home();
    put(HOME "/w2.yaml",
        "pare: 1\nmodel: " HEDGE "\noutput: t2\npasses: [rtn: {group: 32, bits: 2}]\n");
    put(HOME "/mmlu.jsonl",
        "{\"question\": \"The cat\", \"subject\": \"cats\", \"choices\": [\"sat\", \"ran\", "
        "\"ate\", "
        "\"lay\"], \"answer\": 0}\n"
        "{\"question\": \"The dog\", \"subject\": \"dogs\", \"choices\": [\"sat\", \"ran\", "
        "\"ate\", "
        "\"lay\"], \"answer\": 1}\n"
        "{\"question\": \"A dog\", \"subject\": \"dogs\", \"choices\": [\"was\", \"is\", \"had\", "
        "\"has\"], \"answer\": 3}\n");
    ck_assert_int_eq(call("compress " HOME "/w2.yaml", OUT)->code, 0);
#define OF_TASKS " --tasks mmlu=" HOME "/mmlu.jsonl "
    pare_json *const json =
        parse(&cx, "compare '" HEDGE "' " HOME "/t2 " HOME "/t2" OF_TASKS "--format json");
    pare_json *const one =
        parse(&cx, "eval " HOME "/t2 --baseline '" HEDGE "'" OF_TASKS "--format json");
    const pare_json *const e = pare_json_at(pare_json_get(one, "tasks"), 0);
    for (size_t i = 0; i < 2; i++) {
        const pare_json *const m = pare_json_at(pare_json_get(json, "models"), i);
        const pare_json *const t = pare_json_at(pare_json_get(m, "tasks"), 0);
        const pare_json *const acc = pare_json_at(pare_json_get(t, "metrics"), 0);
        const pare_json *const was = pare_json_at(pare_json_get(e, "metrics"), 0);
        ck_assert_double_eq(pare_json_number(pare_json_get(acc, "value"), -1),
                            pare_json_number(pare_json_get(was, "value"), -2));
        ck_assert_double_eq(number_in(acc, "paired", "lost"), number_in(was, "paired", "lost"));
        ck_assert_uint_eq(pare_json_count(pare_json_get(t, "groups")), 2);
        for (size_t g = 0; g < 2; g++) {
            const pare_json *const x = pare_json_at(pare_json_get(t, "groups"), g);
            const pare_json *const y = pare_json_at(pare_json_get(e, "groups"), g);
            ck_assert_str_eq(pare_json_text(pare_json_get(x, "name"), NULL),
                             pare_json_text(pare_json_get(y, "name"), NULL));
            ck_assert_double_eq(number_in(x, "paired", "gained"), number_in(y, "paired", "gained"));
        }
    }
    pare_json_free(json);
    pare_json_free(one);
    ck_assert_ptr_nonnull(
        strstr(call("compare '" HEDGE "' " HOME "/t2" OF_TASKS "--format csv", OUT)->text,
               ",mmlu acc,mmlu acc_stderr,mmlu acc_gained,mmlu acc_lost,mmlu acc_p,"));
    const char *const text = call("compare '" HEDGE "' " HOME "/t2" OF_TASKS, OUT)->text;
    ck_assert_ptr_nonnull(strstr(text, "mmlu acc"));
    ck_assert_ptr_nonnull(strstr(text, "mmlu: 3 documents of "));
}
END_TEST

START_TEST(a_comparison_has_the_figures_of_eval)
{
    static const char *const path[] = {HOME "/w8", HOME "/w4"};
    char command[512];
    pare_ctx cx;
    make_home();
    pare_json *const json =
        parse(&cx, "compare " HOME "/model " HOME "/w8 " HOME "/w4" OF_TOKENS "--format json");
    const pare_json *const models = pare_json_get(json, "models");
    ck_assert_uint_eq(pare_json_count(models), 2);
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(command, sizeof command,
                       "eval %s --baseline " HOME "/model" OF_TOKENS "--format json", path[i]);
        pare_json *const one = parse(&cx, command);
        const pare_json *const m = pare_json_at(models, i);
        ck_assert_str_eq(pare_json_text(pare_json_get(m, "model"), NULL), path[i]);
        ck_assert_double_eq(number_in(m, "perplexity", "ppl"), number_in(one, "perplexity", "ppl"));
        ck_assert_double_eq(number_in(m, "kl", "mean"), number_in(one, "kl", "mean"));
        ck_assert_double_eq(number_in(m, "memory", "weight_bytes"),
                            number_in(one, "memory", "weight_bytes"));
        ck_assert_double_eq(number_in(pare_json_get(json, "original"), "perplexity", "ppl"),
                            number_in(pare_json_get(one, "baseline"), "perplexity", "ppl"));
        pare_json_free(one);
    }
    ck_assert_ptr_null(member(json, "original", "kl"));
    ck_assert(pare_json_bool(pare_json_get(json, "complete"), false));
    pare_json_free(json);
}
END_TEST

/* The original once more: equal in everything, its own memory included, though it stood beside. */
START_TEST(a_model_is_equal_to_itself)
{
    pare_ctx cx;
    make_home();
    pare_json *const json = parse(&cx, "compare '" HEDGE "' '" HEDGE "' --text '" TEXT
                                       "' --limit 2" OF_CHOICE "--format json");
    const pare_json *const a = pare_json_get(json, "original");
    const pare_json *const b = pare_json_at(pare_json_get(json, "models"), 0);
    ck_assert_double_eq(number_in(a, "perplexity", "ppl"), number_in(b, "perplexity", "ppl"));
    ck_assert_double_eq(number_in(b, "kl", "mean"), 0);
    ck_assert_double_eq(number_in(b, "kl", "flips"), 0);
    const double own = number_in(a, "memory", "peak_anonymous_bytes");
    ck_assert_double_gt(own, 1 << 20);
    ck_assert_double_eq_tol(number_in(b, "memory", "peak_anonymous_bytes"), own, own * 0.02);
    ck_assert_double_gt(number_in(json, "memory", "peak_anonymous_bytes"), own);
    pare_json_free(json);
}
END_TEST

/* Reads a file that the program wrote. */
static const char *read_file(const char *path)
{
    static char text[1 << 16];
    FILE *const f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    (void)fclose(f);
    return text;
}

START_TEST(every_form_has_the_same_figures)
{
    static const char command[] =
        "compare " HOME "/model '" HOME "/<b>&co' " HOME "/w4" OF_TOKENS "--speed --output " HOME
        "/t.csv --output " HOME "/t.html --output " HOME "/t.json";
    static char table[1 << 16];
    char cell[64];
    pare_ctx cx;
    make_home();
    run("cp -r " HOME "/w8 '" HOME "/<b>&co'");
    const outcome *const o = call(command, OUT);
    ck_assert_msg(o->code == 0, "exit %d", o->code);
    (void)memcpy(table, o->text, sizeof table);
    const char *text = read_file(HOME "/t.json");
    pare_json *json = NULL;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_json_parse(&cx, "t.json", text, strlen(text), 1 << 20, &json), PARE_OK);
    const pare_json *const m = pare_json_at(pare_json_get(json, "models"), 1);
    const double ppl = number_in(m, "perplexity", "ppl"), flips = number_in(m, "kl", "flips");
    (void)snprintf(cell, sizeof cell, "%.4f +- ", ppl);
    ck_assert_msg(strstr(table, cell), "%s: %s", cell, table);
    text = read_file(HOME "/t.html");
    ck_assert_msg(strstr(text, cell) && strstr(text, "/&lt;b&gt;&amp;co"), "%s", text);
    ck_assert(!strstr(text, "<b>") && !strstr(text, "http") && !strstr(text, "<script"));
    text = read_file(HOME "/t.csv");
    (void)snprintf(cell, sizeof cell, ",%.10g,", ppl);
    ck_assert_msg(strstr(text, cell), "%s: %s", cell, text);
    (void)snprintf(cell, sizeof cell, ",%.10g,", flips);
    ck_assert_msg(strstr(text, cell), "%s: %s", cell, text);
    size_t commas[4] = {0}; /* of a title and three rows */
    for (size_t line = 0; *text; text++) {
        commas[line] += *text == ',';
        line += *text == '\n';
    }
    for (size_t i = 1; i < 4; i++)
        ck_assert_uint_eq(commas[i], commas[0]);
    pare_json_free(json);
    check_fails(command, 2, "t.csv\" exists already; --restart replaces it");
}
END_TEST

/* Files of all forms, of another model than before. */
START_TEST(a_restart_replaces_a_comparison_and_nothing_else)
{
    static const char *const ending[] = {"txt", "csv", "json", "html"};
    char command[512], path[64];
    make_home();
    for (size_t i = 0; i < 4; i++) {
        static const char form[] =
            "compare " HOME "/model " HOME "/w%d" OF_TOKENS "--speed --restart --output %s";
        (void)snprintf(path, sizeof path, HOME "/t.%s", ending[i]);
        (void)snprintf(command, sizeof command, form, 8, path);
        ck_assert_int_eq(call(command, OUT)->code, 0);
        (void)snprintf(command, sizeof command, form, 4, path);
        ck_assert_int_eq(call(command, OUT)->code, 0);
        ck_assert_ptr_nonnull(strstr(read_file(path), HOME "/w4"));
        put(path, "model of my own\n");
        check_fails(command, 2, "is no comparison of pare, so --restart does not replace it");
        ck_assert_str_eq(read_file(path), "model of my own\n");
    }
    put(HOME "/t.json", "{\n  \"original\": {\n  }\n}\n");
    check_fails("compare " HOME "/model " HOME "/w4" OF_TOKENS "--restart --output " HOME "/t.json",
                2, "is no comparison of pare");
}
END_TEST

/* A terminal of its own: what `command` prints on one of that many columns. */
static const char *on_terminal(const char *arguments, unsigned short columns)
{
    static char text[1 << 12];
    char command[1024];
    const struct winsize size = {.ws_row = 25, .ws_col = columns};
    size_t used = 0;
    const int self = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert(self >= 0 && grantpt(self) == 0 && unlockpt(self) == 0);
    const char *const name = ptsname(self);
    const int other = open(name, O_RDWR | O_NOCTTY); /* what is written stays until it is read */
    ck_assert(other >= 0 && ioctl(other, TIOCSWINSZ, &size) == 0);
    (void)snprintf(command, sizeof command, "'%s' %s >%s 2>/dev/null", PARE_PROGRAM, arguments,
                   name);
    run(command);
    ck_assert_int_eq(fcntl(self, F_SETFL, O_NONBLOCK), 0);
    for (char c; used < sizeof text - 1 && read(self, &c, 1) == 1;)
        if (c != '\r')
            text[used++] = c;
    text[used] = '\0';
    ck_assert(close(other) == 0 && close(self) == 0);
    return text;
}

/* In columns, or a figure a line where the terminal is too narrow for them. */
START_TEST(a_table_fits_the_terminal)
{
    static const char arguments[] = "compare " HOME "/model " HOME "/w4" OF_TOKENS;
    make_home();
    const char *text = on_terminal(arguments, 200);
    const char *const second = strchr(text, '\n') + 1, *const third = strchr(second, '\n') + 1;
    ck_assert_int_eq(third - second, second - text); /* the last column ends at one place */
    ck_assert(strncmp(third, HOME "/w4 ", strlen(HOME) + 4) == 0);
    text = on_terminal(arguments, 40);
    ck_assert_msg(strncmp(text, HOME "/model\n  on disk     ", strlen(HOME) + 20) == 0, "%s", text);
    ck_assert(strstr(text, "\n  flips       "));
    (void)setenv("COLUMNS", "40", 1); /* which says nothing of a file */
    text = call(arguments, OUT)->text;
    (void)unsetenv("COLUMNS");
    ck_assert_msg(strncmp(text, "model ", 6) == 0, "%s", text);
}
END_TEST

/* What was measured before a model that is damaged is there, and the exit code is that of it. */
START_TEST(a_damaged_model_ends_it_with_what_was_measured)
{
    static const char command[] =
        "compare " HOME "/model " HOME "/w8 " HOME "/w4 " HOME "/w8" OF_TOKENS "--format json";
    pare_ctx cx;
    pare_json *json = NULL;
    make_home();
    run("printf X | dd of=$(ls " HOME "/w4/packed-*) bs=1 seek=9000 conv=notrunc 2>/dev/null");
    check_fails("eval " HOME "/w4" OF_TOKENS, 4, "");
    const outcome *const o = call(command, OUT);
    ck_assert_int_eq(o->code, 4);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_json_parse(&cx, "json", o->text, strlen(o->text), 1 << 20, &json),
                     PARE_OK);
    ck_assert_uint_eq(pare_json_count(pare_json_get(json, "models")), 1);
    ck_assert(!pare_json_bool(pare_json_get(json, "complete"), true));
    pare_json_free(json);
    const char *const said =
        call("compare " HOME "/model " HOME "/w4" OF_TOKENS "--output " HOME "/no.csv", ERR)->text;
    ck_assert_msg(strstr(said, "pare: error: ") && strstr(said, "w4"), "%s", said);
    ck_assert_msg(strstr(said, "no.csv is not written") && access(HOME "/no.csv", F_OK) != 0, "%s",
                  said);
}
END_TEST

START_TEST(a_model_that_cannot_be_compared_is_refused_before_any_work)
{
    tiny_model m = tiny_model_default();
    make_home();
    m.vocab++;
    ck_assert(tiny_model_write(&m, HOME "/larger"));
    m.vocab--;
    m.context = 8;
    ck_assert(tiny_model_write(&m, HOME "/shorter"));
    check_fails("compare " HOME "/model " HOME "/w4 " HOME "/larger" OF_TOKENS "--no-progress", 2,
                "/larger: its vocabulary has");
    check_fails("compare " HOME "/model " HOME "/w4 " HOME "/shorter" OF_TOKENS "--no-progress", 2,
                "/shorter: its context is 8 tokens; give a smaller --window than 16");
    check_fails("compare " HOME "/model " HOME "/w4 " HOME "/nowhere" OF_TOKENS "--no-progress", 4,
                "/nowhere");
    ck_assert_str_eq(call("compare " HOME "/model " HOME "/nowhere" OF_TOKENS, OUT)->text, "");
    run("cp " HOME "/model/model.safetensors " HOME "/alone.safetensors");
    check_fails("compare " HOME "/model " HOME "/alone.safetensors" OF_TOKENS "--no-progress", 4,
                "/alone.safetensors: there is no config.json beside it");
}
END_TEST

/* The numbers of "the" and "and" exchanged: as many tokens as before, and others. */
START_TEST(another_tokenizer_is_refused)
{
    make_home();
    run("cp -r '" HEDGE "' " HOME "/hedge");
    run("sed -i 's/the\": 260/the\": 280/; s/and\": 280/and\": 260/' " HOME
        "/hedge/tokenizer.json");
    put(HOME "/the.txt", "the the the the the the the the\n");
    const outcome *const o =
        call("compare '" HEDGE "' " HOME "/hedge --text " HOME "/the.txt --window 4", ERR);
    ck_assert_int_eq(o->code, 2);
    ck_assert_msg(strstr(o->text, "/hedge: its tokenizer is another one than that of"), "%s",
                  o->text);
    ck_assert_ptr_null(strstr(o->text, "measured")); /* before any work */
    check_fails("eval " HOME "/hedge --baseline '" HEDGE "' --text " HOME "/the.txt --window 4", 2,
                "its tokenizer is another one");
}
END_TEST

static const struct {
    const char *arguments, *fragment;
} mistakes[] = {
    {"compare x", "ORIGINAL MODEL... is missing"},
    {"compare x y", "compare: nothing to measure; give --text"},
    {"compare x y --speed --window 5", "compare: --window needs --text or --tokens"},
    {"compare x y --speed --limit 5",
     "compare: --limit needs --text, --tokens, --tasks or --choice"},
    {"compare x y --speed --keys 5", "compare: --keys needs --needle"},
    {"compare x y --speed --seed 5", "compare: --seed needs --continuations or --needle"},
    {"compare x y --speed --continuations 5", "compare: --continuations needs --text or --tokens"},
    {"compare x y --speed --format yaml", "expected text, csv, json or html"},
    {"compare x y --speed --output z.pdf", "must end in .txt, .csv, .json or .html"},
    {"compare x y --speed --output z.csv --output ./z.csv", "\"./z.csv\" is given twice"},
    {"compare x y --speed --output /nowhere/z.csv", "is not a directory that can be written to"},
    {"compare x y --speed --output /proc/z.csv", "is not a directory that can be written to"},
    {"compare x y --speed --output tokenizer.json", "only files of a model belong there"},
    {"eval x --choice y --limit 0", "whole number from 1"},
    {"eval x --speed --limit 5", "eval: --limit needs --text, --tokens, --tasks or --choice"},
};

START_TEST(a_mistake_is_told_before_any_work)
{
    check_fails(mistakes[_i].arguments, 2, mistakes[_i].fragment);
}
END_TEST

static void rest(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&t, NULL);
}

/* Whether the log of a command says that work has begun, so that it hears signals. */
static bool works(void)
{
    return access(HOME "/log", F_OK) == 0 && strstr(read_file(HOME "/log"), "\"phase\"");
}

/* Runs the program and sends it ^C `seconds` after it began to work; stdout is read as JSON. Exit
 * code 130. */
static pare_json *interrupt(pare_ctx *cx, const char *arguments, double seconds)
{
    char command[2048];
    pare_json *json = NULL;
    int status;
    (void)snprintf(command, sizeof command,
                   "exec '%s' %s --format json --log json:" HOME "/log > " HOME "/out 2> " HOME
                   "/err",
                   PARE_PROGRAM, arguments);
    (void)unlink(HOME "/log");
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    for (size_t i = 0; i < 3000 && !works(); i++)
        rest(0.02);
    rest(seconds);
    ck_assert_int_eq(kill(child, SIGINT), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 130, "%s: exit %d\n%s", arguments,
                  WEXITSTATUS(status), read_file(HOME "/err"));
    ck_assert_ptr_nonnull(strstr(read_file(HOME "/err"), "pare: error: interrupted"));
    const char *const text = read_file(HOME "/out");
    pare_ctx_init(cx);
    if (*text)
        ck_assert_int_eq(pare_json_parse(cx, "out", text, strlen(text), 1 << 20, &json), PARE_OK);
    return json;
}

/* Nothing can be written, as on a full disk. The models are not there either, and not missed. */
START_TEST(a_disk_without_room_is_told_before_any_work)
{
    static char text[1024];
    FILE *const f = popen("(ulimit -f 0; '" PARE_PROGRAM "' compare x y --speed --output z.csv) "
                          "2>&1 >/dev/null",
                          "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    ck_assert_int_eq(WEXITSTATUS(pclose(f)), 5);
    ck_assert_msg(strstr(text, "compare: --output \"z.csv\": ") && strstr(text, "cannot write"),
                  "%s", text);
}
END_TEST

/* Longer and longer, until a part of the text was scored: it would take minutes. */
START_TEST(an_interrupted_eval_prints_what_was_scored)
{
    make_home();
    for (double seconds = 0.25; seconds < 60; seconds *= 2) {
        pare_ctx cx;
        pare_json *const json =
            interrupt(&cx, "eval '" HEDGE "' --text '" TEXT "' --window 256 --stride 2", seconds);
        const pare_json *const p = pare_json_get(json, "perplexity");
        if (!p) {
            pare_json_free(json);
            continue;
        }
        ck_assert(!pare_json_bool(pare_json_get(p, "complete"), true));
        ck_assert(!pare_json_bool(pare_json_get(json, "complete"), true));
        ck_assert(pare_json_integer(pare_json_get(json, "tokens"), 0) >= 255);
        ck_assert(pare_json_number(pare_json_get(p, "ppl"), 0) > 1);
        pare_json_free(json);
        return;
    }
    ck_abort_msg("no interrupt came within the text");
}
END_TEST

/* Until one comes when the original was done, and not yet all of the others. */
START_TEST(an_interrupted_comparison_prints_the_models_that_are_done)
{
    enum { OTHERS = 12 };
    char arguments[2048] = "compare '" HEDGE "'";
    make_home();
    ck_assert(tiny_tokens_write(HOME "/hedge.i32", 4000, 300, 1));
    for (size_t i = 0; i < OTHERS; i++)
        (void)snprintf(arguments + strlen(arguments), sizeof arguments - strlen(arguments),
                       " '" HEDGE "'");
    (void)snprintf(arguments + strlen(arguments), sizeof arguments - strlen(arguments),
                   " --tokens " HOME "/hedge.i32 --speed");
    for (double seconds = 0.25; seconds < 100; seconds *= 1.5) {
        pare_ctx cx;
        pare_json *const json = interrupt(&cx, arguments, seconds);
        const pare_json *const original = pare_json_get(json, "original");
        if (!pare_json_get(original, "speed")) {
            pare_json_free(json);
            continue;
        }
        ck_assert_double_gt(number_in(original, "perplexity", "ppl"), 1);
        ck_assert_uint_le(pare_json_count(pare_json_get(json, "models")), OTHERS);
        ck_assert(!pare_json_bool(pare_json_get(json, "complete"), true));
        pare_json_free(json);
        return;
    }
    ck_abort_msg("no interrupt came behind the original");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("compare");
    TCase *const t = tcase_create("compare");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, a_limit_takes_the_first_windows_and_items);
    tcase_add_test(t, a_baseline_has_its_figures_beside_those_of_the_model);
    tcase_add_test(t, choices_are_held_against_those_of_a_baseline_without_a_text);
    tcase_add_test(t, gained_and_lost_answers_make_the_difference);
    tcase_add_test(t, tasks_are_those_of_eval);
    tcase_add_test(t, a_comparison_has_the_figures_of_eval);
    tcase_add_test(t, a_model_is_equal_to_itself);
    tcase_add_test(t, every_form_has_the_same_figures);
    tcase_add_test(t, a_restart_replaces_a_comparison_and_nothing_else);
    tcase_add_test(t, a_table_fits_the_terminal);
    tcase_add_test(t, a_damaged_model_ends_it_with_what_was_measured);
    tcase_add_test(t, a_model_that_cannot_be_compared_is_refused_before_any_work);
    tcase_add_test(t, another_tokenizer_is_refused);
    tcase_add_loop_test(t, a_mistake_is_told_before_any_work, 0,
                        (int)(sizeof mistakes / sizeof *mistakes));
    tcase_add_test(t, a_disk_without_room_is_told_before_any_work);
    tcase_add_test(t, an_interrupted_eval_prints_what_was_scored);
    tcase_add_test(t, an_interrupted_comparison_prints_the_models_that_are_done);
    suite_add_tcase(s, t);
    return unit_main(s);
}
