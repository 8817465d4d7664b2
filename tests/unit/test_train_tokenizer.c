/* pare train-tokenizer: a directory that pare reads, or none; what is refused. */
#include <signal.h>
#include <sys/stat.h>

#include "tests/unit/program.h"

#define FOLDER "pare-train-tokenizer"
#define HEDGE  PARE_SOURCE_DIR "/recipes/demo/hedge"
#define TEXT   PARE_SOURCE_DIR "/recipes/demo/calibration.txt"
#define TRAIN  "train-tokenizer " FOLDER "/t.txt --vocab 270 "
#define OUTPUT FOLDER "/out"

static void clear(void)
{
    ck_assert_int_eq(system("rm -rf " FOLDER " && mkdir " FOLDER), 0);
    ck_assert_int_eq(system("printf 'the cat the dog the bird a cat a dog a bird the thing there "
                            "this that cats dogs birds they bring them' > " FOLDER "/t.txt"),
                     0);
}

static bool there(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool nothing_is_left(void)
{
    return !there(OUTPUT) && !there(OUTPUT ".partial") && !there(OUTPUT ".lock");
}

START_TEST(a_tokenizer_is_learned_that_encodes)
{
    pare_ctx cx;
    clear();
    pare_json *json = parse(&cx, "train-tokenizer '" TEXT "' --vocab 1000 --special '<pad>' "
                                 "--output " OUTPUT "/ --format json");
    ck_assert_str_eq(pare_json_text(pare_json_get(json, "output"), NULL), OUTPUT);
    ck_assert_int_eq(pare_json_integer(pare_json_get(json, "vocab"), -1), 1000);
    ck_assert_int_eq(pare_json_integer(pare_json_get(json, "special"), -1), 2);
    ck_assert_int_ge(pare_json_integer(pare_json_get(json, "merges"), -1), 1000 - 258);
    pare_json_free(json);
    ck_assert(!there(OUTPUT ".partial") && !there(OUTPUT ".lock"));
    json = parse(&cx,
                 "tokenize '" HEDGE "' '<|endoftext|>The king said<pad>' --bos --tokenizer " OUTPUT
                 " --format json");
    const pare_json *const ids = pare_json_get(json, "ids");
    const size_t n = pare_json_count(ids);
    ck_assert_uint_lt(n, strlen("The king said") + 3);                /* tokens of several bytes */
    ck_assert_int_eq(pare_json_integer(pare_json_at(ids, 0), -1), 0); /* BOS is EOS unless named */
    ck_assert_int_eq(pare_json_integer(pare_json_at(ids, 1), -1), 0);
    ck_assert_int_eq(pare_json_integer(pare_json_at(ids, n - 1), -1), 1);
    pare_json_free(json);
}
END_TEST

/* Several files are several texts, and a byte order mark is none. */
START_TEST(files_are_texts)
{
    clear();
    ck_assert_int_eq(
        system("printf ab > " FOLDER "/1 && printf '\\357\\273\\277ab' > " FOLDER "/2"), 0);
    const outcome *o = call("train-tokenizer " FOLDER "/1 " FOLDER "/2 --vocab 259 --bos '<s>' "
                            "--output " OUTPUT,
                            OUT);
    ck_assert_int_eq(o->code, 0);
    ck_assert_msg(strstr(o->text, "259 (2 special, 256 bytes, 1 by 1 merges)"), "%s", o->text);
    ck_assert_msg(strstr(o->text, "4 bytes, 2 words, 1 distinct"), "%s", o->text);
}
END_TEST

START_TEST(what_is_there_is_replaced_when_asked_and_nothing_else)
{
    clear();
    ck_assert_int_eq(call(TRAIN "--output " OUTPUT, OUT)->code, 0);
    check_fails(TRAIN "--output " OUTPUT, 2, "exists already; --restart replaces it");
    ck_assert_int_eq(call(TRAIN "--eos '<end>' --restart --output " OUTPUT, OUT)->code, 0);
    ck_assert_int_eq(system("grep -q '<end>' " OUTPUT "/tokenizer.json && "
                            "grep -q '<end>' " OUTPUT "/tokenizer_config.json"),
                     0);
    ck_assert(!there(OUTPUT ".partial"));
    ck_assert_int_eq(system("touch " OUTPUT "/mine.txt"), 0);
    check_fails(TRAIN "--restart --output " OUTPUT, 2, "holds mine.txt");
    clear();
    ck_assert_int_eq(system("mkdir " OUTPUT " " OUTPUT ".partial && "
                            "echo half > " OUTPUT ".partial/tokenizer.json.tmp"),
                     0);
    ck_assert_int_eq(call(TRAIN "--output " OUTPUT, OUT)->code, 0); /* a killed run left that */
    ck_assert(!there(OUTPUT ".partial") && there(OUTPUT "/tokenizer.json"));
    ck_assert(!there(OUTPUT "/tokenizer.json.tmp"));
    clear();
    ck_assert_int_eq(system("mkdir " OUTPUT ".partial && touch " OUTPUT ".partial/mine.txt"), 0);
    check_fails(TRAIN "--output " OUTPUT, 2, "holds mine.txt");
    ck_assert(there(OUTPUT ".partial/mine.txt") && !there(OUTPUT));
}
END_TEST

static ino_t inode(const char *path)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    return st.st_ino;
}

/* Never one file of the old tokenizer beside one of the new: both come with their directory. */
START_TEST(both_files_are_replaced_in_one_step)
{
    clear();
    ck_assert_int_eq(call(TRAIN "--output " OUTPUT, OUT)->code, 0);
    ck_assert_int_eq(system("touch " OUTPUT "/tokenizer.json.tmp"), 0);
    const ino_t was = inode(OUTPUT);
    ck_assert_int_eq(call(TRAIN "--eos x --restart --output " OUTPUT, OUT)->code, 0);
    ck_assert_uint_ne(inode(OUTPUT), was);
    ck_assert(!there(OUTPUT ".partial"));
    clear();
}
END_TEST

START_TEST(what_gives_no_tokenizer_is_refused_and_leaves_nothing)
{
    static const struct {
        const char *arguments;
        int code;
        const char *says;
    } rows[] = {
        {"train-tokenizer", 2, "FILE... is missing"},
        {"train-tokenizer " FOLDER "/t.txt --output " OUTPUT, 2, "--vocab is missing"},
        {TRAIN, 2, "--output is missing"},
        {TRAIN "--output " FOLDER "/.", 2, "must end in a name"},
        {TRAIN "--output " FOLDER "/export/x", 2, "lies inside"},
        {TRAIN "--output " FOLDER "/t.txt", 2, "is no directory"},
        {TRAIN "--output " OUTPUT " --special ''", 2, "is empty"},
        {TRAIN "--output " OUTPUT " --min-count 0", 2, "min-count"},
        {TRAIN "--output " OUTPUT " --min-count 9", 2, "fewer than 9 times"},
        {"train-tokenizer " FOLDER "/t.txt --vocab 256 --output " OUTPUT, 2, "ask for 257 or more"},
        {"train-tokenizer " FOLDER "/t.txt --vocab 2000000 --output " OUTPUT, 2, "vocab"},
        {"train-tokenizer " FOLDER "/t.txt --vocab 3000 --output " OUTPUT, 2, "3000 are asked for"},
        {"train-tokenizer /nowhere/t.txt --vocab 300 --output " OUTPUT, 4, "/nowhere/t.txt"},
        {"train-tokenizer '" HEDGE "/model.safetensors' --vocab 300 --output " OUTPUT, 4, "is NUL"},
        {"train-tokenizer /dev/null --vocab 300 --output " OUTPUT, 4, "/dev/null"},
    };
    clear();
    ck_assert_int_eq(system("mkdir " FOLDER
                            "/export && echo '{\"program\": \"pare 0.1.0\"}' > " FOLDER
                            "/export/pare-export.json"),
                     0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_fails(rows[i].arguments, rows[i].code, rows[i].says);
        ck_assert_msg(nothing_is_left(), "%s", rows[i].arguments);
    }
    ck_assert_int_eq(system(": > " FOLDER "/empty"), 0);
    check_fails("train-tokenizer " FOLDER "/empty --vocab 300 --output " OUTPUT, 2,
                "there is no text");
    ck_assert(nothing_is_left());
}
END_TEST

/* A file that may not grow stands for a full disk. */
START_TEST(a_full_disk_leaves_what_was_there)
{
    clear();
    ck_assert_int_eq(system("ulimit -f 4; '" PARE_PROGRAM "' " TRAIN "--output " OUTPUT
                            " 2> " FOLDER "/err; test $? = 5"),
                     0);
    ck_assert_int_eq(system("grep -q '^pare: error: .*tokenizer.json' " FOLDER "/err"), 0);
    ck_assert(nothing_is_left());
    ck_assert_int_eq(call(TRAIN "--output " OUTPUT, OUT)->code, 0);
    ck_assert_int_eq(system("cp -r " OUTPUT " " FOLDER "/old"), 0);
    ck_assert_int_eq(system("ulimit -f 4; '" PARE_PROGRAM "' " TRAIN
                            "--eos x --restart --output " OUTPUT " 2> /dev/null; test $? = 5"),
                     0);
    ck_assert_int_eq(system("diff -r " OUTPUT " " FOLDER "/old"), 0);
    ck_assert(!there(OUTPUT ".partial") && !there(OUTPUT ".lock"));
}
END_TEST

/* 40 MB of text take seconds. */
START_TEST(an_interrupted_run_leaves_nothing)
{
    clear();
    ck_assert_int_eq(system("for i in 1 2 3 4 5 6 7 8 9 10; do cat '" TEXT "'; done > " FOLDER
                            "/1; "
                            "size=$(stat -c %s " FOLDER "/1); n=0; : > " FOLDER "/big; "
                            "while [ $n -lt 40000000 ]; do cat " FOLDER "/1; n=$((n + size)); done "
                            "> " FOLDER "/big"),
                     0);
    ck_assert_int_eq(system("timeout --foreground --preserve-status -s INT 0.5 '" PARE_PROGRAM
                            "' train-tokenizer " FOLDER "/big --vocab 2000 --output " OUTPUT
                            " > /dev/null 2>&1; test $? = 130"),
                     0);
    ck_assert(nothing_is_left());
    clear();
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("train_tokenizer");
    TCase *const t = tcase_create("train_tokenizer");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_tokenizer_is_learned_that_encodes);
    tcase_add_test(t, files_are_texts);
    tcase_add_test(t, what_is_there_is_replaced_when_asked_and_nothing_else);
    tcase_add_test(t, both_files_are_replaced_in_one_step);
    tcase_add_test(t, what_gives_no_tokenizer_is_refused_and_leaves_nothing);
    tcase_add_test(t, a_full_disk_leaves_what_was_there);
    tcase_add_test(t, an_interrupted_run_leaves_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
