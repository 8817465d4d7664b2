#include <string.h>

#include "compress/pass.h"
#include "recipes/recipe.h"
#include "tests/unit/program.h"
#include "tests/unit/unit.h"

START_TEST(every_topic_has_a_page_and_stands_in_the_overview)
{
    static const char *const page[][2] = {
        {"recipe", "pare init MODEL --preset"},
        {"calibration", "windows to draw from the text"},
        {"experts", "min_tokens"},
        {"evaluate", "KL divergence in nats"},
        {"kv_cache", "kivi"},
        {"export", "in a recipe"}, /* behind the page of the command */
        {"limits", "three quarters of the machine's memory"},
        {"nan", "clamp"},
        {"error", "130"},
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
        if (strncmp(line, "\n  ", 3) != 0 || sscanf(line + 3, "%31[a-z0-9_]", word) != 1)
            continue;
        (void)snprintf(command, sizeof command, "help %s", word);
        check_width(command);
        pages++;
    }
    ck_assert_uint_gt(pages, pare_pass_count());
}
END_TEST

START_TEST(a_word_without_a_page_is_told_with_the_nearest)
{
    const outcome *const o = call("help calibrate", ERR);
    ck_assert_msg(o->code == 2 && strstr(o->text, "no help on \"calibrate\""), "%s", o->text);
    ck_assert(strstr(call("help evalute", ERR)->text, "did you mean evaluate?"));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("help");
    TCase *const t = tcase_create("help");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_topic_has_a_page_and_stands_in_the_overview);
    tcase_add_test(t, the_page_on_recipes_has_every_key_and_an_example_that_can_be_planned);
    tcase_add_test(t, no_page_is_wider_than_100_columns);
    tcase_add_test(t, a_word_without_a_page_is_told_with_the_nearest);
    suite_add_tcase(s, t);
    return unit_main(s);
}
