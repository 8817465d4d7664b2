#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/passes/pass.h"
#include "recipes/recipe.h"
#include "tests/data/families.h"
#include "tests/data/tiny_model.h"
#include "tests/unit/program.h"
#include "tests/unit/unit.h"

#define TINY "pare-help-tiny"

START_TEST(every_topic_has_a_page_and_stands_in_the_overview)
{
    static const char *const page[][2] = {
        {"recipe", "pare init MODEL --preset"},
        {"calibration", "windows to draw from the text"},
        {"experts", "min_tokens"},
        {"evaluate", "KL divergence in nats"},
        {"kv_cache", "kivi"},
        {"export", "in a recipe"}, /* behind the page of the command */
        {"limits", "the limit is three quarters of"},
        {"nan", "clamp"},
        {"passes", "Quantizers choose the codes"},
        {"choice", "valid-labels.lst"},
        {"needle", "The hidden number is"},
        {"preset", "two of four weights"},
        {"log", "left_seconds"},
        {"exit", "130"},
    };
    for (size_t i = 0; i < sizeof page / sizeof *page; i++) {
        char command[64], line[64];
        (void)snprintf(command, sizeof command, "help %s", page[i][0]);
        const outcome *o = call(command, OUT);
        ck_assert_msg(o->code == 0 && strstr(o->text, page[i][1]), "%s: %s", command, o->text);
        (void)snprintf(line, sizeof line, "\n  %-21s ", page[i][0]);
        o = call("help", OUT);
        ck_assert_msg(strstr(strstr(o->text, "\ntopics\n"), line) != NULL, "%s: %s", page[i][0],
                      o->text);
    }
}
END_TEST

/* Keys of the sections of a recipe, and parameters of passes, each with all places that take it. */
START_TEST(every_setting_has_a_page)
{
    static const char *const page[][3] = {
        {"precision", "\ncalibration:\n", "bf16 rounds"},
        {"window", "\ncalibration:\n", "\nevaluate:\n"},
        {"window", "tokens of a window", "\nkv_cache: {method: kivi}\n"},
        {"device", "\nevaluate:\n", "cpu, cuda, auto"},
        {"cold", "\ncalibration: {experts: {..}}\n", "fill, rtn"},
        {"save", "\ndistill\n", "minutes"},
        {"moments", "\ndistill\n", "\ntrain: (pare train)\n"},
        {"window", "\ncalibration:\n", "\ndata: (pare train)\n"},
        {"rank", "\nlora: (pare train)\n", "1 .. "},
        {"text", "calibration: {text:", "samples"},
        {"tokens", "\ndistill\n", "calibration: {tokens:"},
        {"file", "valid-labels.lst", ""},
        {"matrix", "batch: the file of", "what is varied"},
        {"include", "batch: the file of", ""},
        {"after", "batch: the file of", "after: NAME"},
        {"stale", "batch: the file of", "is damaged or not of pare"},
        {"shard", "an option", "batch --shard K/N"},
        {"top-k", "an option", "generate --top-k K"},
        {"verdict", "REGRESSION", ""},
        {"INFEASIBLE", "REGRESSION", ""},
        {"fallback", "settings to take in turn", ""},
        {"lora", "the recipe of \"pare train\"", "rslora"},
        {"dtype", "the recipe of \"pare train\"", "auto, f32, f16, bf16"},
    };
    char command[64];
    for (size_t i = 0; i < sizeof page / sizeof *page; i++) {
        (void)snprintf(command, sizeof command, "help %s", page[i][0]);
        const outcome *const o = call(command, OUT);
        ck_assert_msg(o->code == 0 && strstr(o->text, page[i][1]) && strstr(o->text, page[i][2]),
                      "%s: %s", page[i][0], o->text);
    }
    for (size_t i = 0; pare_calibration_params[i]; i++) {
        (void)snprintf(command, sizeof command, "help %s", pare_calibration_params[i]->name);
        ck_assert_int_eq(call(command, OUT)->code, 0);
    }
    for (size_t i = 0; pare_evaluate_params[i]; i++) {
        (void)snprintf(command, sizeof command, "help %s", pare_evaluate_params[i]->name);
        ck_assert_int_eq(call(command, OUT)->code, 0);
    }
}
END_TEST

START_TEST(the_page_on_recipes_has_every_key_and_an_example_that_can_be_planned)
{
    const char *const page = call("help recipe", OUT)->text;
    const char *const example = strstr(page, "\nexample\n");
    ck_assert_ptr_nonnull(example);
    for (const pare_recipe_key *k = pare_recipe_keys; k->name; k++) {
        char row[32], key[32];
        (void)snprintf(row, sizeof row, "\n  %-12s ", k->name);
        (void)snprintf(key, sizeof key, "\n%s:", k->name);
        ck_assert_msg(strstr(page, row) && strstr(page, row) < example, "no row of %s", k->name);
        ck_assert_msg(strstr(example, key) != NULL, "no %s in the example", k->name);
    }
    FILE *const f = fopen("help.yaml", "w");
    ck_assert(f && fputs(example + strlen("\nexample\n"), f) >= 0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(system("rm -f recipes && ln -s '" PARE_SOURCE_DIR "/recipes' recipes"), 0);
    const outcome *const o = call("plan help.yaml", ERR);
    ck_assert_msg(o->code == 0, "%s", o->text);
}
END_TEST

/* "2" and what it means, from a row of the table of exit codes in docs/log.md. */
static bool next_exit(FILE *f, char code[8], char text[512])
{
    char line[1024];
    while (fgets(line, sizeof line, f)) {
        size_t n = 0;
        if (sscanf(line, "| %7[0-9] | %511[^|\n]", code, text) != 2)
            continue;
        for (const char *c = text; *c; c++)
            if (*c != '`')
                text[n++] = *c;
        while (n && text[n - 1] == ' ')
            n--;
        text[n] = '\0';
        return true;
    }
    return false;
}

/* Words with single spaces between them, without the first. */
static void flatten(const char *from, char to[1024])
{
    size_t n = 0;
    from += strspn(from, " \n");
    from += strcspn(from, " ");
    for (; *from && n < 1000; from += strspn(from, " \n")) {
        const size_t len = strcspn(from, " \n");
        n += (size_t)snprintf(to + n, 1024 - n, "%s%.*s", n ? " " : "", (int)len, from);
        from += len;
    }
}

/* Rows of "pare help exit": a code of three places, and its text. */
static size_t count_exits(void)
{
    size_t count = 0;
    for (const char *at = call("help exit", OUT)->text; at; at = strchr(at + 1, '\n')) {
        int end = 0;
        (void)sscanf(at, "%*1[\n]  %*d %n", &end);
        count += end == (int)sizeof "\n  130  " - 1;
    }
    return count;
}

START_TEST(exit_codes_are_explained_as_in_the_documents)
{
    char code[8], text[512], said[1024], command[32];
    size_t rows = 0;
    FILE *const f = fopen(PARE_SOURCE_DIR "/docs/log.md", "r");
    ck_assert_ptr_nonnull(f);
    while (next_exit(f, code, text)) {
        const char *const word = rows % 2 ? "error" : "exit"; /* error: of older versions */
        (void)snprintf(command, sizeof command, "help %s %s", word, code);
        flatten(call(command, OUT)->text, said);
        ck_assert_str_eq(said, text);
        rows++;
    }
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_uint_eq(rows, count_exits());
    ck_assert_str_eq(call("help error", OUT)->text, call("help exit", OUT)->text);
}
END_TEST

START_TEST(every_pass_stands_under_its_kind)
{
    const char *const page = call("help passes", OUT)->text;
    for (size_t i = 0; i < pare_pass_count(); i++) {
        char row[64];
        (void)snprintf(row, sizeof row, "\n  %-21s ", pare_passes[i]->name);
        const char *const first = strstr(page, row);
        ck_assert_msg(first && !strstr(first + 1, row), "%s", row);
    }
    const char *const quantizers = strstr(page, "\nQuantizers choose ");
    ck_assert(quantizers && strstr(page, "\n  wanda ") < quantizers);
    ck_assert(strstr(page, "\n  awq ") < strstr(page, "\nPruners set "));
    ck_assert(strstr(page, "\n  gptq ") > quantizers);
    ck_assert(strstr(page, "\n  flap ") > strstr(page, "\nStructured passes "));
}
END_TEST

START_TEST(options_say_what_they_do_in_their_command)
{
    static const char *const row[][2] = {
        {"help plan", "  --restart              plan a job that begins anew"},
        {"help plan",
         "write in OUTPUT.lock, OUTPUT.partial or the .partial of an export; an export"},
        {"help plan", "  --strict               refuse exports with other codes"},
        {"help compress", "  --strict               exit 3 after a numeric fallback"},
        {"help compress", "compress hashes its files in one thread more"},
        {"help compress", "took the CPU; refuse exports with other codes"},
        {"help evaluate", "  limit            all           1 .. 16777216, all"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char said[1 << 13];
        const char *page = call(row[i][0], OUT)->text;
        size_t n = 0;
        for (; *page && n < sizeof said - 1; page++) /* a line that goes on is one line */
            if (*page == '\n' && strncmp(page + 1, "                         ", 25) == 0) {
                said[n++] = ' ';
                page += 25;
            } else {
                said[n++] = *page;
            }
        said[n] = '\0';
        ck_assert_msg(strstr(said, row[i][1]) != NULL, "no \"%s\" in\n%s", row[i][1], said);
    }
}
END_TEST

static void check_width(const char *command)
{
    const char *line = call(command, OUT)->text;
    ck_assert_msg(*line, "pare %s says nothing", command);
    for (size_t n; *line; line += n + (line[n] == '\n')) {
        n = strcspn(line, "\n");
        ck_assert_msg(n <= 100, "pare %s has a line of %zu columns:\n%.*s", command, n, (int)n,
                      line);
    }
}

/* Of every word that the overview lists. */
START_TEST(strict_says_what_counts)
{
    static const char *const what[] = {"fallback", "too small", "too little",    "rtn)",
                                       "worse",    "auto",      "refuse exports"};
    const outcome *const o = call("help compress", OUT);
    const char *const at = strstr(o->text, "--strict");
    ck_assert_ptr_nonnull(at);
    const char *const end = strstr(at, "--restart");
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        const char *const found = strstr(at, what[i]);
        ck_assert_msg(found && found < end, "--strict lacks \"%s\": %s", what[i], o->text);
    }
}
END_TEST

START_TEST(no_page_is_wider_than_100_columns)
{
    static char overview[1 << 13];
    char word[32], command[64];
    size_t pages = 0;
    check_width("help");
    const outcome *const o = call("help", OUT);
    ck_assert_uint_lt(strlen(o->text), sizeof overview);
    memcpy(overview, o->text, strlen(o->text) + 1);
    for (const char *line = overview; line; line = strchr(line + 1, '\n')) {
        if (strncmp(line, "\n  ", 3) != 0 || sscanf(line + 3, "%31[a-z0-9_-]", word) != 1)
            continue;
        (void)snprintf(command, sizeof command, "help %s", word);
        check_width(command);
        pages++;
    }
    ck_assert_uint_gt(pages, pare_pass_count());
}
END_TEST

START_TEST(a_parameter_is_shown_of_each_pass_that_has_it)
{
    const char *const page = call("help tie_width", OUT)->text;
    ck_assert(strstr(page, "\nwanda\n  tie_width        0.05          0 .. 1\n"));
    ck_assert(strstr(page, "\nria\n  tie_width ") && !strstr(page, "gptq"));
    check_width("help tie_width");
    ck_assert(strstr(call("help refine", OUT)->text, "0: none; only with grid: uniform\n"));
}
END_TEST

START_TEST(what_stands_in_a_recipe_is_on_the_page_on_recipes)
{
    static const char *const command[] = {"help targets", "help skip", "help seed", "help output"};
    for (size_t i = 0; i < sizeof command / sizeof *command; i++)
        ck_assert_msg(strncmp(call(command[i], OUT)->text, "recipe: ", 8) == 0, "%s", command[i]);
}
END_TEST

START_TEST(words_of_a_setting_lead_to_it)
{
    static const char *const command[][2] = {{"help amx", "precision: a setting in a recipe"},
                                             {"help bf16", "precision: a setting in a recipe"},
                                             {"help cuda", "device: a setting in a recipe"},
                                             {"help gpu", "device: a setting in a recipe"}};
    for (size_t i = 0; i < sizeof command / sizeof *command; i++)
        ck_assert_msg(strstr(call(command[i][0], OUT)->text, command[i][1]), "%s", command[i][0]);
    ck_assert(strstr(call("help training", OUT)->text, "<|endoftext|>, is read as that token"));
}
END_TEST

START_TEST(a_word_without_a_page_is_told_with_the_nearest)
{
    const outcome *const o = call("help calibrate", ERR);
    ck_assert_msg(o->code == 2 && strstr(o->text, "no help on \"calibrate\""), "%s", o->text);
    ck_assert(strstr(call("help evalute", ERR)->text, "did you mean evaluate?"));
}
END_TEST

/* What stands behind "example" on the page of a pass, in a recipe that has model and data: a llama,
 * or for what takes experts out a mixture. */
START_TEST(the_example_on_the_page_of_each_pass_can_be_planned)
{
    tiny_model m = tiny_model_default();
    m.head_dim = 16; /* whole groups of all grids */
    ck_assert_int_eq(system("rm -rf " TINY), 0);
    ck_assert_int_eq(mkdir(TINY, 0777), 0);
    ck_assert(tiny_model_write(&m, TINY "/model"));
    ck_assert(family_write(family_find("qwen3_moe"), TINY "/mixture"));
    ck_assert(tiny_tokens_write(TINY "/tokens.i32", m.vocab, 300, 1));
    for (size_t i = 0; pare_passes[i]; i++) {
        const char *const name = pare_passes[i]->name;
        char command[512], recipe[1024];
        (void)snprintf(command, sizeof command, "help %s", name);
        const char *const example = strstr(call(command, OUT)->text, "\nexample  ");
        ck_assert_msg(example != NULL, "%s has no example", name);
        (void)snprintf(recipe, sizeof recipe,
                       "pare: 1\nmodel: %s\noutput: example\n"
                       "calibration: {tokens: tokens.i32, samples: 2, window: 16}\n%s",
                       strcmp(name, "reap") == 0 ? "mixture" : "model",
                       example + strlen("\nexample  "));
        FILE *const f = fopen(TINY "/example.yaml", "w");
        ck_assert(f && fputs(recipe, f) >= 0);
        ck_assert_int_eq(fclose(f), 0);
        /* 20 % of the few directions of this model rounds to none */
        const bool narrows = strcmp(name, "slicegpt") == 0;
        const outcome *const o =
            narrows ? call("plan " TINY "/example.yaml --set passes.0.slicegpt.ratio=0.5", ERR)
                    : call("plan " TINY "/example.yaml", ERR);
        ck_assert_msg(o->code == 0, "%s: exit %d: %s\n%s", name, o->code, o->text, recipe);
    }
    ck_assert_int_eq(system("rm -rf " TINY), 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("help");
    TCase *const t = tcase_create("help");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_example_on_the_page_of_each_pass_can_be_planned);
    tcase_add_test(t, every_topic_has_a_page_and_stands_in_the_overview);
    tcase_add_test(t, every_setting_has_a_page);
    tcase_add_test(t, the_page_on_recipes_has_every_key_and_an_example_that_can_be_planned);
    tcase_add_test(t, no_page_is_wider_than_100_columns);
    tcase_add_test(t, strict_says_what_counts);
    tcase_add_test(t, a_parameter_is_shown_of_each_pass_that_has_it);
    tcase_add_test(t, what_stands_in_a_recipe_is_on_the_page_on_recipes);
    tcase_add_test(t, exit_codes_are_explained_as_in_the_documents);
    tcase_add_test(t, every_pass_stands_under_its_kind);
    tcase_add_test(t, options_say_what_they_do_in_their_command);
    tcase_add_test(t, words_of_a_setting_lead_to_it);
    tcase_add_test(t, a_word_without_a_page_is_told_with_the_nearest);
    suite_add_tcase(s, t);
    return unit_main(s);
}
