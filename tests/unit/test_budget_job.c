/* What a search for a budget tells while it runs. */
#include "tests/unit/job_tiny.h"

typedef struct told {
    bool query, down; /* the linears */
} told;

static void hear(void *self, const char *what, double done, double total)
{
    told *const t = self;
    (void)done;
    (void)total;
    t->query |= strncmp(what, "int3-g", 6) == 0 && strstr(what, " of q_proj");
    t->down |= strncmp(what, "int8-g", 6) == 0 && strstr(what, " of down_proj");
}

START_TEST(progress_names_the_setting_that_is_tried)
{
    told t = {false, false};
    job_recipe(&place, "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 8, "
                       "window: 64}\npasses:\n  - budget: {bits: 5, tokens: 32}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one", .report = hear, .self = &t}, NULL),
                     PARE_OK);
    ck_assert(t.query && t.down);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("budget_job");
    TCase *const t = tcase_create("budget_job");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, progress_names_the_setting_that_is_tried);
    suite_add_tcase(s, t);
    return unit_main(s);
}
