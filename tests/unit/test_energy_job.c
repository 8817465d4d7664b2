/* The energy of a job, by counters in a folder. */
#include <sys/stat.h>

#include "runtime/energy.h"
#include "tests/unit/job.h"

static void put(const job_place *p, const char *name, const char *text)
{
    FILE *const f = fopen(job_path(p, name), "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* A block is done: 3 J were used since the start. */
static void on_event(void *self, const pare_event *e)
{
    if (e->kind == PARE_EVENT_BLOCK)
        put(self, "rapl/intel-rapl:0/energy_uj", "5500000\n");
}

static bool says(const job_place *p, const char *name, const char *text)
{
    static char all[1 << 20];
    FILE *const f = fopen(job_path(p, name), "r");
    ck_assert_ptr_nonnull(f);
    all[fread(all, 1, sizeof all - 1, f)] = '\0';
    (void)fclose(f);
    return strstr(all, text) != NULL;
}

START_TEST(the_report_tells_the_energy_of_the_job_where_the_machine_does)
{
    char note[160];
    const tiny_model m = tiny_model_default();
    job_place p = job_make(&m);
    const pare_events events = {on_event, &p};
    pare_energy e;
    job_recipe(&p, "pare: 1\nmodel: model\npasses: [rtn: {bits: 4}]\n");
    ck_assert(mkdir(job_path(&p, "rapl"), 0777) == 0);
    ck_assert(mkdir(job_path(&p, "rapl/intel-rapl:0"), 0777) == 0);
    put(&p, "rapl/intel-rapl:0/energy_uj", "1000000\n");
    ck_assert(pare_energy_open(&e, job_path(&p, "rapl"), note, sizeof note));
    put(&p, "rapl/intel-rapl:0/energy_uj", "2500000\n"); /* before the job */
    ck_assert_int_eq(
        job_run(&p, (job_opts){.output = "out", .events = &events, .energy = &e}, NULL), PARE_OK);
    ck_assert(says(&p, "out/run.json", "\"energy_joules\": 3.0,") ||
              says(&p, "out/run.json", "\"energy_joules\": 3,"));
    ck_assert(says(&p, "out/report.html", "of the whole machine, 3.00 J"));
    pare_energy_close(&e);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "dark"}, NULL), PARE_OK);
    ck_assert(!says(&p, "dark/run.json", "energy") && !says(&p, "dark/report.html", "energy of"));
    job_check_same(&p, "out", "dark");
    job_remove_directory(p.root);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("energy");
    TCase *const t = tcase_create("energy");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, the_report_tells_the_energy_of_the_job_where_the_machine_does);
    suite_add_tcase(s, t);
    return unit_main(s);
}
