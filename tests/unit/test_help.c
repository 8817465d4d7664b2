#include <string.h>

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
    tcase_add_test(t, a_word_without_a_page_is_told_with_the_nearest);
    suite_add_tcase(s, t);
    return unit_main(s);
}
