/* tests/unit/init_case.h - a recipe that init writes for the demo model, and a folder for it. */
#ifndef PARE_TESTS_INIT_CASE_H
#define PARE_TESTS_INIT_CASE_H

#include <string.h>
#include <sys/stat.h>

#include "compress/init/init.h"
#include "compress/plan/calibration_need.h"
#include "tests/unit/unit.h"

#ifndef HOME
#error "define HOME, the folder of the test"
#endif
#define HEDGE PARE_SOURCE_DIR "/recipes/demo/hedge"
#define TEXT  PARE_SOURCE_DIR "/recipes/demo/calibration.txt"

static pare_ctx cx;
static pare_arena arena;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(system("rm -rf " HOME), 0);
    ck_assert_int_eq(mkdir(HOME, 0777), 0);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void teardown(void)
{
    pare_arena_release(&arena);
}

static void write_file(const char *path, const char *text)
{
    FILE *const f = fopen(path, "w");
    ck_assert(f && fputs(text, f) >= 0);
    ck_assert_int_eq(fclose(f), 0);
}

static const pare_init hedge = {.recipe = HOME "/r.yaml",
                                .model_path = HEDGE,
                                .data_path = TEXT,
                                .model = HEDGE,
                                .data = TEXT,
                                .name = "hedge"};

/* What was written lies in a file and is planned from there. */
static void check_planned(const pare_init_result *r, const char *what)
{
    const pare_job job = {.recipe = HOME "/r.yaml", .plan_only = true};
    pare_plan plan = {0};
    write_file(job.recipe, r->text);
    const pare_status s = pare_plan_make(&cx, &arena, &job, &plan);
    ck_assert_msg(s == PARE_OK, "%s: %s\n%s", what, cx.what, r->text);
    for (size_t i = 0; i < plan.recipe.steps; i++) {
        pare_shortage shortage;
        ck_assert_msg(!pare_plan_short(&plan, &plan.settled, i, &shortage),
                      "%s: too few tokens\n%s", what, r->text);
    }
    pare_plan_close(&plan);
}

static void check_holds(const pare_init_result *r, const char *fragment)
{
    ck_assert_msg(strstr(r->text, fragment) != NULL, "no \"%s\" in\n%s", fragment, r->text);
}

#endif
