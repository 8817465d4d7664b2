#include "compress/evaluate/choice_items.h"
#include "tests/unit/folder.h"

/* The same two items in every shape that is read. */
static const struct shape {
    const char *name, *text, *labels; /* of FILE-labels.lst, or NULL */
    const char *context, *first, *second;
    size_t answer;
} shapes[] = {
    {"pare", "{\"context\": \"A cat\", \"choices\": [\" sat\", \" ran\"], \"answer\": 1}\n", NULL,
     "A cat", " sat", " ran", 1},
    {"PIQA", "{\"goal\": \"A cat\", \"sol1\": \"sat\", \"sol2\": \"ran\", \"label\": 1}\n", NULL,
     "Question: A cat\nAnswer:", " sat", " ran", 1},
    {"PIQA, two files", "{\"goal\": \"A cat\", \"sol1\": \"sat\", \"sol2\": \"ran\"}\n", "1\n",
     "Question: A cat\nAnswer:", " sat", " ran", 1},
    {"ARC",
     "{\"id\": \"Mercury_1\", \"question\": {\"stem\": \"A cat\", \"choices\": [{\"text\": "
     "\"sat\", "
     "\"label\": \"A\"}, {\"text\": \"ran\", \"label\": \"B\"}]}, \"answerKey\": \"B\"}\n",
     NULL, "Question: A cat\nAnswer:", " sat", " ran", 1},
    {"ARC, lists",
     "{\"id\": \"Mercury_1\", \"question\": \"A cat\", \"choices\": {\"text\": [\"sat\", \"ran\"], "
     "\"label\": [\"1\", \"2\"]}, \"answerKey\": \"2\"}\n",
     NULL, "Question: A cat\nAnswer:", " sat", " ran", 1},
    {"OpenBookQA",
     "{\"id\": \"7-980\", \"question\": {\"stem\": \"A cat\", \"choices\": [{\"text\": \"sat\", "
     "\"label\": \"A\"}, {\"text\": \"ran\", \"label\": \"B\"}]}, \"answerKey\": \"A\"}\n",
     NULL, "A cat", " sat", " ran", 0},
    {"OpenBookQA, lists",
     "{\"id\": \"7-980\", \"question_stem\": \"A cat\", \"choices\": {\"text\": [\"sat\", "
     "\"ran\"], \"label\": [\"A\", \"B\"]}, \"answerKey\": \"A\"}\n",
     NULL, "A cat", " sat", " ran", 0},
    {"HellaSwag", "{\"ctx\": \"A cat\", \"endings\": [\"sat\", \"ran\"], \"label\": \"1\"}\n", NULL,
     "A cat", " sat", " ran", 1},
};

typedef struct reading {
    pare_ctx cx;
    pare_arena a;
    folder f;
    pare_choice_texts texts;
} reading;

static void begin(reading *r)
{
    pare_ctx_init(&r->cx);
    ck_assert_int_eq(pare_arena_init(&r->cx, &r->a, 0), PARE_OK);
    folder_make(&r->f);
}

static void end(reading *r)
{
    folder_remove(&r->f);
    pare_arena_release(&r->a);
    ck_assert_uint_eq(r->cx.live_bytes, 0);
}

static pare_status read_file(reading *r, size_t limit)
{
    const char *const path = folder_file(&r->f, "valid.jsonl");
    return pare_choice_read(&r->cx, &r->a, path, limit, NULL, &r->texts);
}

static void check_item(const pare_choice_text *t, const struct shape *s, size_t line)
{
    ck_assert_str_eq(t->context, s->context);
    ck_assert_uint_eq(t->choices, 2);
    ck_assert_str_eq(t->choice[0], s->first);
    ck_assert_str_eq(t->choice[1], s->second);
    ck_assert_uint_eq(t->answer, s->answer);
    ck_assert_uint_eq(t->line, line);
}

/* With a byte order mark, CRLF and blank lines, as editors leave them. */
START_TEST(published_files_are_read_as_they_come)
{
    const struct shape *const s = &shapes[_i];
    char text[1024], labels[64];
    reading r;
    begin(&r);
    const int len = (int)strlen(s->text) - 1;
    (void)snprintf(text, sizeof text, "\xef\xbb\xbf%.*s\r\n\r\n  \n%.*s", len, s->text, len,
                   s->text);
    folder_put_text(&r.f, "valid.jsonl", text);
    if (s->labels) {
        (void)snprintf(labels, sizeof labels, "%s\r\n%s", s->labels, s->labels);
        folder_put_text(&r.f, "valid-labels.lst", labels);
    }
    ck_assert_msg(read_file(&r, 0) == PARE_OK, "%s: %s", s->name, r.cx.what);
    ck_assert_uint_eq(r.texts.count, 2);
    check_item(&r.texts.item[0], s, 1);
    check_item(&r.texts.item[1], s, 4);
    ck_assert_int_eq(read_file(&r, 1), PARE_OK);
    ck_assert_uint_eq(r.texts.count, 1);
    ck_assert_uint_eq(r.texts.all, 2);
    end(&r);
}
END_TEST

#define PIQA "{\"goal\": \"g\", \"sol1\": \"a\", \"sol2\": \"b\"}\n"

static const struct mistake {
    const char *text, *labels, *message;
} mistakes[] = {
    {"", NULL, "valid.jsonl: the file has no items"},
    {"\n \r\n", NULL, "valid.jsonl: the file has no items"},
    {"{\"a\": 1}", NULL, "valid.jsonl:1: the keys of the item are of no shape that is known"},
    {"[1]", NULL, "valid.jsonl:1: the keys of the item are of no shape that is known"},
    {"\n{\"context\": \"x\",}", NULL, "valid.jsonl:2:17: string or '}' expected"},
    {"{\"context\": \"x\", \"choices\": [\"a\"], \"answer\": 0}", NULL,
     "valid.jsonl:1: \"choices\" has 1 choice, and must have 2 to 64"},
    {"{\"context\": \"x\", \"choices\": {\"a\": 1}, \"answer\": 0}", NULL,
     "valid.jsonl:1: \"choices\" must be an array of choices, and is an object"},
    {"\n{\"context\": \"x\\u0000y\", \"choices\": [\"a\", \"b\"], \"answer\": 0}", NULL,
     "valid.jsonl:2:15: \\u0000 is not supported: no text can hold that character"},
    {"{\"context\": \"x\", \"context\": \"y\"}", NULL,
     "valid.jsonl:1:26: duplicate object key near"},
    {"[{\"context\": \"x\",\n\"answer\": 0}]", NULL, "; each line must be one item"},
    {"{\"context\": \"x\", \"choices\": [\"a\", \"\"], \"answer\": 0}", NULL,
     "valid.jsonl:1: \"choices[1]\" must be a text that is not empty, and is an empty text"},
    {"{\"context\": \"x\", \"choices\": [\"a\", \"b\"], \"answer\": 2}", NULL,
     "valid.jsonl:1: \"answer\" must be the index of a choice, 0 to 1"},
    {"{\"context\": \"x\", \"choices\": [\"a\", \"b\"]}", NULL, "\"answer\" is missing"},
    {"{\"goal\": \"g\", \"sol1\": \"a\", \"label\": 0}", NULL, ":1: \"sol2\" is missing"},
    {"{\"goal\": 3, \"sol1\": \"a\", \"sol2\": \"b\", \"label\": 0}", NULL,
     ":1: \"goal\" must be a text that is not empty, and is a number"},
    {"{\"goal\": \"g\", \"sol1\": \"a\", \"sol2\": \"b\", \"label\": -1}", NULL,
     "\"label\" must be the index of a choice, 0 to 1"},
    {PIQA, NULL, "valid-labels.lst, where the labels would stand one a line, is not there"},
    {PIQA PIQA, "0\n", "valid-labels.lst: 1 label for the 2 items of "},
    {PIQA PIQA, "0\n\n2\n", "valid-labels.lst:3: a label of PIQA is 0 or 1"},
    {PIQA "{\"goal\": \"g\", \"sol1\": \"a\", \"sol2\": \"b\", \"label\": 1}", "0\n1\n",
     "valid.jsonl:2: an item of PIQA with \"label\"; the first of the file is of PIQA without"},
    {PIQA "{\"ctx\": \"g\"}", "0\n1\n", "valid.jsonl:2: an item of HellaSwag; the first"},
    {"{\"question\": {\"stem\": \"s\", \"choices\": [{\"text\": \"a\", \"label\": \"A\"}, "
     "{\"text\": \"b\", \"label\": \"B\"}]}, \"answerKey\": \"C\"}",
     NULL, ":1: \"answerKey\" is none of the labels of the choices"},
    {"{\"question\": {\"stem\": \"s\", \"choices\": [{\"text\": \"a\", \"label\": \"A\"}, "
     "{\"label\": \"B\"}]}, \"answerKey\": \"A\"}",
     NULL, ":1: \"choices[1].text\" is missing"},
    {"{\"question\": {\"stem\": \"s\", \"choices\": [{\"text\": \"a\", \"label\": \"A\"}, "
     "{\"text\": \"b\", \"label\": \"A\"}]}, \"answerKey\": \"A\"}",
     NULL, ":1: choices 0 and 1 have one \"label\", A: nothing says which of them is the answer"},
    {"{\"question\": \"s\", \"choices\": {\"text\": [\"a\", \"b\"], \"label\": [\"A\"]}, "
     "\"answerKey\": \"A\"}",
     NULL, ":1: there are 2 choices and 1 of \"label\""},
    {"{\"question\": \"s\", \"choices\": {\"text\": [\"a\", \"b\"], \"label\": [\"A\", \"B\"]}}",
     NULL, ":1: \"answerKey\" is missing: an item without its answer cannot be scored"},
    {"{\"ctx\": \"g\", \"endings\": \"e\", \"label\": 0}", NULL,
     ":1: \"endings\" must be an array of choices, and is a text"},
};

START_TEST(mistakes_are_named_by_file_line_and_key)
{
    const struct mistake *const m = &mistakes[_i];
    reading r;
    begin(&r);
    folder_put_text(&r.f, "valid.jsonl", m->text);
    if (m->labels)
        folder_put_text(&r.f, "valid-labels.lst", m->labels);
    ck_assert_int_eq(read_file(&r, 0), PARE_EFORMAT);
    ck_assert_msg(strstr(r.cx.what, m->message) != NULL, "%s: %s", m->text, r.cx.what);
    ck_assert_msg(strstr(m->message, "one item") || !strstr(r.cx.what, "one item"), "%s",
                  r.cx.what);
    end(&r);
}
END_TEST

START_TEST(labels_that_come_while_a_file_is_in_use_are_noticed)
{
    reading r;
    pare_watch w = {0};
    begin(&r);
    folder_put_text(&r.f, "valid.jsonl", PIQA);
    char *const path = pare_path_join(&r.a, r.f.path, "valid.jsonl");
    ck_assert_int_eq(pare_choice_watch(&r.a, &w, path), PARE_OK);
    ck_assert_int_eq(pare_watch_check(&r.cx, &w), PARE_OK);
    folder_put_text(&r.f, "valid-labels.lst", "0\n");
    ck_assert_int_eq(pare_watch_check(&r.cx, &w), PARE_EFORMAT);
    ck_assert_msg(strstr(r.cx.what, "valid-labels.lst") != NULL, "%s", r.cx.what);
    end(&r);
}
END_TEST

static pare_status read_choices(pare_ctx *cx, pare_arena *a, const void *path)
{
    pare_choice_texts texts;
    return pare_choice_read(cx, a, path, 0, NULL, &texts);
}

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    reading r;
    begin(&r);
    folder_put_text(&r.f, "valid.jsonl", PIQA PIQA);
    folder_put_text(&r.f, "valid-labels.lst", "0\n1\n");
    folder_refuse_memory(&r.cx, read_choices, pare_path_join(&r.a, r.f.path, "valid.jsonl"));
    end(&r);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("choice_items");
    TCase *const t = tcase_create("choice_items");
    tcase_add_loop_test(t, published_files_are_read_as_they_come, 0,
                        sizeof shapes / sizeof *shapes);
    tcase_add_loop_test(t, mistakes_are_named_by_file_line_and_key, 0,
                        sizeof mistakes / sizeof *mistakes);
    tcase_add_test(t, labels_that_come_while_a_file_is_in_use_are_noticed);
    tcase_add_test(t, every_refused_allocation_is_reported_and_nothing_leaks);
    suite_add_tcase(s, t);
    return unit_main(s);
}
