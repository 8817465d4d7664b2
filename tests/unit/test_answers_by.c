/* Answers by a field of their documents. */
#include <string.h>

#include "compress/evaluate/figures.h"
#include "compress/evaluate/task_internal.h"
#include "tests/unit/folder.h"

typedef struct reading {
    pare_ctx cx;
    pare_arena a;
    folder f;
    pare_task_texts t;
    pare_choice_texts c;
} reading;

static pare_status read_by(reading *r, const char *task, const char *text, const char *by)
{
    folder_begin(&r->f, &r->cx, &r->a);
    folder_put_text(&r->f, "a.jsonl", text);
    const char *const path = folder_file(&r->f, "a.jsonl");
    const pare_task_asked asked = {.name = task, .file = path, .by = by};
    return *task ? pare_task_read(&r->cx, &r->a, &asked, &r->t)
                 : pare_choice_read(&r->cx, &r->a, path, 0, by, &r->c);
}

#define DOC(more)                                                                                  \
    "{\"goal\": \"A\", \"sol1\": \"b\", \"sol2\": \"c\", \"label\": 0, \"answer\": 1" more "}\n"

/* Texts, numbers, truth values; what is missing or null is a group, too. */
START_TEST(a_field_is_read_beside_each_document)
{
    static const char *const want[] = {"hard", "3",      "-0.5",   "true",      "false",
                                       "",     "(none)", "(none)", "\"(none)\""};
    static const char text[] = DOC(", \"x\": \"hard\"") DOC(", \"x\": 3") DOC(", \"x\": -0.5")
        DOC(", \"x\": true") DOC(", \"x\": false") DOC(", \"x\": \"\"") DOC("") DOC(", \"x\": null")
            DOC(", \"x\": \"(none)\"");
    reading r;
    ck_assert_msg(read_by(&r, _i ? "piqa" : "", text, "x") == PARE_OK, "%s", r.cx.what);
    ck_assert_uint_eq(_i ? r.t.docs : r.c.count, 9);
    for (size_t i = 0; i < 9; i++)
        ck_assert_str_eq(_i ? r.t.doc[i].group : r.c.item[i].by, want[i]);
    folder_end(&r.f, &r.a);
}
END_TEST

START_TEST(without_a_field_nothing_is_told_apart)
{
    reading r;
    ck_assert_int_eq(read_by(&r, _i ? "piqa" : "", DOC(", \"x\": \"hard\""), NULL), PARE_OK);
    ck_assert_ptr_null(_i ? r.t.doc[0].group : r.c.item[0].by);
    folder_end(&r.f, &r.a);
}
END_TEST

static const struct {
    const char *task, *text, *by;
    pare_status status;
    const char *says;
} bad[] = {
    {"piqa", DOC("") DOC(", \"y\": 1"), "x", PARE_EUSAGE,
     "a.jsonl: no document has \"x\"; the first has goal, sol1, sol2, label, answer"},
    {"", DOC("") DOC(", \"x\": null"), "x", PARE_EUSAGE,
     "a.jsonl: no document has \"x\"; the first has goal, sol1, sol2, label, answer"},
    {"piqa", DOC(", \"x\": 1") DOC(", \"x\": [1]"), "x", PARE_EFORMAT,
     "a.jsonl:2: \"x\" is an array; answers are told apart by a text, a number, true or false"},
    {"", DOC(", \"x\": {}"), "x", PARE_EFORMAT, "a.jsonl:1: \"x\" is an object"},
    {"wikitext", "{\"page\": \"a\", \"x\": 1}", "x", PARE_EUSAGE,
     "wikitext has no answers that are right or wrong"},
    {"truthfulqa_mc2", "{}", "x", PARE_EUSAGE, "could be told apart by \"x\""},
};

START_TEST(a_field_that_cannot_be_used_is_refused)
{
    reading r;
    ck_assert_int_eq(read_by(&r, bad[_i].task, bad[_i].text, bad[_i].by), bad[_i].status);
    ck_assert_msg(strstr(r.cx.what, bad[_i].says) != NULL, "%s", r.cx.what);
    folder_end(&r.f, &r.a);
}
END_TEST

enum { A = PARE_CHOICE_ASKED, R = PARE_CHOICE_ASKED | PARE_CHOICE_RIGHT };

/* Sorted by name or as they come; items that were not asked count nowhere. */
START_TEST(numbers_are_sorted_by_their_value)
{
    static const char *const name[] = {"b", "10", "9", "-1", "a", "1e3", "", "9"};
    static const char *const want[] = {"-1", "9", "10", "1e3", "", "a", "b"};
    static const unsigned char now[] = {R, R, R, R, R, R, R, R};
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_arena a = {.cx = &cx};
    pare_task_parts p;
    ck_assert_int_eq(pare_task_part(&a, name, 8, now, "acc", true, &p), PARE_OK);
    ck_assert_uint_eq(p.groups, 7);
    for (size_t g = 0; g < 7; g++)
        ck_assert_str_eq(p.group[g].name, want[g]);
    pare_arena_release(&a);
}
END_TEST

START_TEST(each_group_has_its_share_and_its_changes)
{
    static const char *const name[] = {"z", "b", "z", "b", "c", "z", "a", "z"};
    static const unsigned char now[] = {R, A, R, R, A, A, 0, R}, was[] = {A, R, R, A, A, R, R, 0};
    static const struct {
        const char *name;
        size_t n, gained, lost;
        double share;
    } want[2][3] = {{{"z", 4, 1, 1, .75}, {"b", 2, 1, 1, .5}, {"c", 1, 0, 0, 0}},
                    {{"b", 2, 1, 1, .5}, {"c", 1, 0, 0, 0}, {"z", 4, 1, 1, .75}}};
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_arena a = {.cx = &cx};
    pare_task_parts p;
    ck_assert_int_eq(pare_task_part(&a, name, 8, now, "acc", _i, &p), PARE_OK);
    pare_task_pair_parts(&p, 8, now, was);
    ck_assert_uint_eq(p.groups, 3);
    for (size_t g = 0; g < 3; g++) {
        const pare_task_group *const x = &p.group[g];
        ck_assert_str_eq(x->name, want[_i][g].name);
        ck_assert_str_eq(x->acc.name, "acc");
        ck_assert_uint_eq(x->n, want[_i][g].n);
        ck_assert_double_eq_tol(x->acc.value, want[_i][g].share, 1e-12);
        ck_assert_uint_eq(x->acc.paired.gained, want[_i][g].gained);
        ck_assert_uint_eq(x->acc.paired.lost, want[_i][g].lost);
    }
    pare_arena_release(&a);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("answers_by");
    TCase *const c = tcase_create("answers_by");
    tcase_add_loop_test(c, a_field_is_read_beside_each_document, 0, 2);
    tcase_add_loop_test(c, without_a_field_nothing_is_told_apart, 0, 2);
    tcase_add_loop_test(c, a_field_that_cannot_be_used_is_refused, 0, sizeof bad / sizeof *bad);
    tcase_add_test(c, numbers_are_sorted_by_their_value);
    tcase_add_loop_test(c, each_group_has_its_share_and_its_changes, 0, 2);
    suite_add_tcase(s, c);
    return unit_main(s);
}
