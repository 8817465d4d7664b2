/* Mistakes in the options of pare eval that ask for more than perplexity. */
#include "tests/unit/program.h"

#define HEDGE PARE_SOURCE_DIR "/recipes/demo/hedge"

static const struct {
    const char *arguments;
    int code;
    const char *fragment;
} mistakes[] = {
    {"eval x --speed --by level", 2, "--by needs --tasks or --choice"},
    {"eval x --speed --lengths 512", 2, "--lengths needs --needle"},
    {"eval x --speed --seed 1", 2, "--seed needs --draft"},
    {"eval x --speed --temperature 1", 2, "--temperature needs --draft or --continuations"},
    {"eval x --speed --continuations 3", 2, "--continuations needs --text or --tokens"},
    {"eval x --continuations 3", 2, "--continuations needs --text or --tokens"},
    {"eval x --text a --continuations 3 --seed 1073741825", 2, "from 0 to 1073741824"},
    {"eval x --needle a --lengths 16777217", 2, "from 128 to 16777216"},
    {"export x --format gguf:Q4_K_M --output y", 2, "did you mean \"gguf:q4_k_m\"?"},
    {"eval x --text a --continue-tokens 3", 2, "--continue-tokens needs --continuations"},
    {"eval x --text a --draft y --continue-tokens 3", 2,
     "by at most 64 tokens: give a smaller --window for fewer, or --continuations N"},
    {"eval '" HEDGE "' --text '" HEDGE "/README.md' --window 64 --continuations 2 "
     "--continue-tokens 225",
     2, "a prompt takes 32; give 224 or less"},
    {"eval x --needle a --lengths 512,100", 2, "up to 16 whole numbers from 128 to"},
    {"eval x --needle a --lengths 512,512", 2, "512 stands there twice"},
    {"eval x --needle a --keys 0", 2, "whole number from 1 to 1000"},
    {"eval '" HEDGE "' --needle /nowhere/text", 4, "/nowhere/text"},
    {"eval '" HEDGE "' --needle '" HEDGE "/README.md' --lengths 257", 2, "give 256 or less"},
};

START_TEST(a_mistake_is_told_with_what_to_do)
{
    check_fails(mistakes[_i].arguments, mistakes[_i].code, mistakes[_i].fragment);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("eval_options");
    TCase *const c = tcase_create("eval_options");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, a_mistake_is_told_with_what_to_do, 0,
                        (int)(sizeof mistakes / sizeof *mistakes));
    suite_add_tcase(s, c);
    return unit_main(s);
}
