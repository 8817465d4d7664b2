#include "compress/plan/recipe_home.h"

#include <string.h>

#include "tests/unit/folder.h"

static pare_ctx cx;
static pare_arena arena;
static folder dir;

static void begin(void)
{
    folder_begin(&dir, &cx, &arena);
}

static void end(void)
{
    folder_end(&dir, &arena);
}

static const struct {
    const char *from, *to, *way;
} ways[] = {
    {"/a/out", "/a", ".."},
    {"/a/out", "/a/", ".."},
    {"/a/b/out", "/a/c", "../../c"},
    {"/a/out", "/a/outer", "../outer"},
    {"/a/outer", "/a/out", "../out"},
    {"/a", "/a/b/c", "b/c"},
    {"/a", "/a", "."},
    {"/", "/a", "a"},
    {"/a", "/", ".."},
    {"/a/x/../out", "/a/./y", "../y"},
};

START_TEST(the_way_leads_from_folder_to_folder)
{
    ck_assert_str_eq(pare_recipe_way(&arena, ways[_i].from, ways[_i].to), ways[_i].way);
}
END_TEST

static const char run_json[] = "{\"recipe_directory\": \"../there\", \"sets\": [\"seed=2\"]}";

static pare_job go(const char *name)
{
    pare_job job = {.recipe = pare_arena_text(&arena, folder_file(&dir, name),
                                              strlen(folder_file(&dir, name)))};
    ck_assert_int_eq(pare_recipe_go_home(&cx, &arena, &job), PARE_OK);
    return job;
}

START_TEST(a_recipe_of_an_output_goes_where_it_lay)
{
    folder_put_text(&dir, "recipe.yaml", "pare: 1\n");
    folder_put_text(&dir, "run.json", run_json);
    ck_assert_ptr_null(go("recipe.yaml").text); /* of no output: there is no manifest */
    folder_put_text(&dir, "manifest.json", "{}");
    const pare_job job = go("recipe.yaml");
    ck_assert_str_eq(job.text, "pare: 1\n");
    ck_assert_str_eq(pare_job_file(&job), folder_file(&dir, "recipe.yaml"));
    ck_assert_ptr_nonnull(strstr(job.recipe, "/../there/recipe.yaml"));
    folder_put_text(&dir, "other.yaml", "pare: 1\n");
    const pare_job other = go("other.yaml");
    ck_assert_ptr_null(other.text);
    ck_assert_str_eq(other.recipe, folder_file(&dir, "other.yaml"));
}
END_TEST

static const char *const useless[] = {"",
                                      "{",
                                      "[]",
                                      "{}",
                                      "{\"recipe_directory\": 1}",
                                      "{\"recipe_directory\": \"\"}",
                                      "{\"recipe_directory\": \"/etc\"}"};

START_TEST(a_run_that_says_nothing_changes_nothing)
{
    folder_put_text(&dir, "recipe.yaml", "pare: 1\n");
    folder_put_text(&dir, "manifest.json", "{}");
    folder_put_text(&dir, "run.json", useless[_i]);
    const pare_job job = go("recipe.yaml");
    ck_assert(!job.text && !job.file);
    ck_assert_str_eq(cx.what, "");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("recipe_home");
    TCase *const t = tcase_create("recipe_home");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, the_way_leads_from_folder_to_folder, 0, sizeof ways / sizeof *ways);
    tcase_add_test(t, a_recipe_of_an_output_goes_where_it_lay);
    tcase_add_loop_test(t, a_run_that_says_nothing_changes_nothing, 0,
                        sizeof useless / sizeof *useless);
    suite_add_tcase(s, t);
    return unit_main(s);
}
