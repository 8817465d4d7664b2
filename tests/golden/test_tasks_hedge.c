/* Tasks on the small English model: log-likelihoods and figures as lm_eval has them
 * (tests/interop/tasks.py golden wrote both the documents and tasks.txt). */
#include <math.h>
#include <string.h>

#include "compress/evaluate/task.h"
#include "runtime/threads.h"
#include "tests/golden/demo.h"

#define TASKS PARE_SOURCE_DIR "/tests/golden/tasks"

enum { LINES = 4096 };

typedef struct rig {
    pare_ctx cx;
    pare_arena a, figures;
    pare_checkpoint ck;
    pare_model model;
    pare_forward f;
    char *line[LINES];
    size_t lines;
} rig;

static void begin(rig *r)
{
    char *text;
    size_t len;
    memset(r, 0, sizeof *r);
    pare_ctx_init(&r->cx);
    r->a.cx = &r->cx;
    ck_assert_int_eq(pare_pool_new(&r->cx, 2, &r->cx.pool), PARE_OK);
    open_model(&r->cx, &r->a, HEDGE, &r->ck, &r->model);
    ck_assert_int_eq(pare_forward_init(&r->cx, &r->a, &r->model, 256, true, &r->f), PARE_OK);
    ck_assert_int_eq(pare_file_read(&r->cx, &r->a, TASKS ".txt", 1 << 20, &text, &len), PARE_OK);
    for (char *at = text, *stop; *at; at = stop) {
        stop = at + strcspn(at, "\n");
        if (*stop)
            *stop++ = '\0';
        ck_assert_uint_lt(r->lines, LINES);
        if (at[0] != '#')
            r->line[r->lines++] = at;
    }
}

static void end(rig *r)
{
    pare_checkpoint_close(&r->ck);
    pare_arena_release(&r->a);
    pare_pool_free(&r->cx, r->cx.pool);
    ck_assert_uint_eq(r->cx.live_bytes, 0);
}

/* "doc LL LL .." against the sums of one document; a page has one for all of its windows. */
static void check_doc(const char *line, const pare_task_data *d, size_t doc)
{
    const pare_task_doc *const x = &d->texts.doc[doc];
    const bool page = x->words > 0;
    double sum[64] = {0};
    size_t n = 0;
    for (size_t i = 0; i < x->count; i++)
        for (size_t c = 0; c < d->item[x->first + i].choices; c++)
            sum[page ? 0 : n++] += d->item[x->first + i].score[c];
    ck_assert_uint_eq(page ? 1 : n, x->choices);
    char *at = strchr(line, ' ');
    for (size_t c = 0; c < x->choices; c++) {
        ck_assert_ptr_nonnull(at);
        const double want = strtod(at, &at);
        ck_assert_msg(fabs(sum[c] - want) < 2e-4 + 2e-6 * fabs(want),
                      "line %zu, choice %zu: %.5f, and the harness has %.5f", x->line, c, sum[c],
                      want);
    }
    ck_assert_str_eq(at, "");
}

static void check_figure(const char *line, const pare_task_figures *f)
{
    char name[64];
    double want;
    ck_assert_int_eq(sscanf(line, "figure %63s %lf", name, &want), 2);
    for (size_t i = 0; i < f->metrics; i++)
        if (strcmp(f->metric[i].name, name) == 0) {
            ck_assert_double_eq_tol(f->metric[i].value, want, 2e-6 + 2e-5 * want);
            return;
        }
    ck_abort_msg("%s: no figure %s", f->asked.name, name);
}

START_TEST(tasks_have_the_log_likelihoods_and_figures_of_the_harness)
{
    rig r;
    begin(&r);
    pare_task_data data = {0};
    pare_task_figures f = {0};
    size_t doc = 0, tasks = 0, figures = 0, cut = 0;
    char name[64], file[2][1024];
    for (size_t i = 0; i < r.lines; i++) {
        pare_task_asked asked = {.name = name, .file = file[0]};
        if (sscanf(r.line[i], "task %63s %zu", name, &asked.shots) == 2) {
            ck_assert_uint_eq(doc, data.texts.docs);
            (void)snprintf(file[0], sizeof file[0], TASKS "/%s_test.jsonl", name);
            (void)snprintf(file[1], sizeof file[1], TASKS "/%s_train.jsonl", name);
            asked.shots_file = asked.shots ? file[1] : NULL;
            ck_assert_msg(pare_task_load(&r.cx, &r.a, &r.ck, 256, &asked, &data) == PARE_OK, "%s",
                          r.cx.what);
            ck_assert_msg(pare_task_ask(&r.cx, &r.a, &r.f, &data, &asked, &f) == PARE_OK, "%s",
                          r.cx.what);
            ck_assert_uint_eq(f.n, data.texts.docs);
            cut += f.cut;
            doc = 0;
            tasks++;
        } else if (strncmp(r.line[i], "doc ", 4) == 0) {
            ck_assert_uint_lt(doc, data.texts.docs);
            check_doc(r.line[i], &data, doc++);
        } else {
            check_figure(r.line[i], &f);
            figures++;
        }
    }
    ck_assert_uint_eq(doc, data.texts.docs);
    ck_assert_uint_eq(tasks, 17); /* four of them with shots, too */
    ck_assert_uint_eq(figures, 26);
    ck_assert_uint_gt(cut, 0); /* contexts that are longer than the model takes */
    end(&r);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tasks_hedge");
    TCase *const t = tcase_create("tasks_hedge");
    tcase_set_timeout(t, 0);
    tcase_add_test(t, tasks_have_the_log_likelihoods_and_figures_of_the_harness);
    suite_add_tcase(s, t);
    return unit_main(s);
}
