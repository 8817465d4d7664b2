#include <string.h>

#include "compress/evaluate/python_random.h"
#include "compress/evaluate/task.h"
#include "compress/evaluate/task_internal.h"
#include "formats/unicode.h"
#include "runtime/file.h"
#include "tests/fuzz/task_input.h"
#include "tests/unit/folder.h"
#include "tests/unit/heard.h"

typedef struct reading {
    pare_ctx cx;
    pare_arena a;
    folder f;
    pare_task_texts t;
} reading;

static void begin(reading *r)
{
    folder_begin(&r->f, &r->cx, &r->a);
}

static void end(reading *r)
{
    folder_end(&r->f, &r->a);
}

static pare_status read_as(reading *r, const char *task, const char *name, size_t shots)
{
    char path[2][512];
    (void)snprintf(path[0], sizeof path[0], "%s", folder_file(&r->f, name));
    (void)snprintf(path[1], sizeof path[1], "%s", folder_file(&r->f, "train.jsonl"));
    const pare_task_asked asked = {
        .name = task, .file = path[0], .shots = shots, .shots_file = shots ? path[1] : NULL};
    return pare_task_read(&r->cx, &r->a, &asked, &r->t);
}

#define CHOICES "\"choices\": {\"text\": [\"sat\", \"ran\"], \"label\": [\"1\", \"2\"]}"
#define SAID                                                                                       \
    "The following are multiple choice questions (with answers) about high school physics.\n\n"

/* A document of each task, in each shape, and what the model reads. */
static const struct shape {
    const char *task, *file, *text, *context, *choice[2];
    size_t choices, answer;
} shapes[] = {
    {"piqa",
     "a.jsonl",
     "{\"goal\": \"A cat\", \"sol1\": \"sat\", \"sol2\": \"ran\", \"label\": 1}",
     "Question: A cat\nAnswer:",
     {" sat", " ran"},
     2,
     1},
    {"piqa",
     "a.csv",
     "goal,sol1,sol2,label\r\n\r\n\"A\n\"\"cat\"\"\",\"s,at\",ran,0\r\n",
     "Question: A\n\"cat\"\nAnswer:",
     {" s,at", " ran"},
     2,
     0},
    {"arc_easy",
     "a.jsonl",
     "{\"question\": \"A cat\", " CHOICES ", \"answerKey\": \"2\"}",
     "Question: A cat\nAnswer:",
     {" sat", " ran"},
     2,
     1},
    {"arc_challenge",
     "a.jsonl",
     "{\"question\": {\"stem\": \"A cat\", \"choices\": [{\"text\": \"sat\", \"label\": \"A\"}, "
     "{\"text\": \"ran\", \"label\": \"B\"}]}, \"answerKey\": \"A\"}",
     "Question: A cat\nAnswer:",
     {" sat", " ran"},
     2,
     0},
    {"openbookqa",
     "a.jsonl",
     "{\"question_stem\": \"A cat\", " CHOICES ", \"answerKey\": \" 1\"}",
     "A cat",
     {" sat", " ran"},
     2,
     0},
    {"hellaswag",
     "a.jsonl",
     "{\"activity_label\": \"Cats\", \"ctx_a\": \"A  cat [title] x [step] y\", \"ctx_b\": "
     "\"\xc3\xa9"
     "TAT Mc\", \"endings\": [\" sat  [a]b\", \"[x ran [title] on [ [b\\nc]] [\"], \"label\": "
     "\"1\"}",
     "Cats: A cat. x y \xc3\x89tat mc",
     {" sat b", " [x ran. on [ [b\nc]] ["},
     2,
     1},
    {"hellaswag",
     "a.jsonl",
     "{\"activity_label\": \"Cats\", \"ctx_a\": \"A cat\", \"ctx_b\": \"\", \"endings\": [\"sat\", "
     "\"ran [b\"], \"label\": 0}",
     "Cats: A cat",
     {" sat", " ran [b"},
     2,
     0},
    {"winogrande",
     "a.jsonl",
     "{\"sentence\": \"The _ was _ it. \", \"option1\": \"cat\", \"option2\": \"dog\", "
     "\"answer\": \"2\"}",
     "The cat",
     {" was _ it."},
     2,
     1},
    {"boolq",
     "a.jsonl",
     "{\"passage\": \"Cats.\", \"question\": \"do cats\", \"answer\": true}",
     "Cats.\nQuestion: do cats?\nAnswer:",
     {" no", " yes"},
     2,
     1},
    {"boolq",
     "a.jsonl",
     "{\"passage\": \"Cats.\", \"question\": \"do cats\", \"label\": 0}",
     "Cats.\nQuestion: do cats?\nAnswer:",
     {" no", " yes"},
     2,
     0},
    {"mmlu",
     "a.jsonl",
     "{\"question\": \"\\n A cat \\u00a0\", \"subject\": \"high_school_physics\", \"choices\": "
     "[\"w\", \"x\", \"y\", \"z\"], \"answer\": 3}",
     SAID "A cat\nA. w\nB. x\nC. y\nD. z\nAnswer:",
     {" A", " B"},
     4,
     3},
    {"mmlu_high_school_physics",
     "a.csv",
     "A cat,w,x,y,z,C\n",
     SAID "A cat\nA. w\nB. x\nC. y\nD. z\nAnswer:",
     {" A", " B"},
     4,
     2},
    {"lambada_openai",
     "a.jsonl",
     "{\"text\": \"The cat  sat on \\nit\"}",
     "The cat  sat on",
     {" \nit"},
     1,
     0},
    {"gsm8k",
     "a.jsonl",
     "{\"question\": \"A cat has 4 legs?\", \"answer\": \"Yes.\\n#### 4\"}",
     "Question: A cat has 4 legs?\nAnswer:",
     {" Yes.\n#### 4"},
     1,
     0},
    {"lambada_openai", "a.csv", "text\nThe cat sat\n", "The cat", {" sat"}, 1, 0},
};

START_TEST(documents_become_the_prompts_of_the_harness)
{
    const struct shape *const s = &shapes[_i];
    reading r;
    begin(&r);
    folder_put_text(&r.f, s->file, s->text);
    ck_assert_msg(read_as(&r, s->task, s->file, 0) == PARE_OK, "%s", r.cx.what);
    ck_assert_uint_eq(r.t.docs, 1);
    ck_assert_uint_eq(r.t.all, 1);
    const pare_task_doc *const d = &r.t.doc[0];
    const pare_choice_text *const q = &r.t.request.item[0];
    ck_assert_str_eq(q->context, s->context);
    ck_assert_str_eq(q->choice[0], s->choice[0]);
    if (s->choice[1])
        ck_assert_str_eq(q->choice[1], s->choice[1]);
    ck_assert_uint_eq(d->choices, s->choices);
    ck_assert_uint_eq(d->answer, s->answer);
    ck_assert_uint_eq(d->length[0], pare_unicode_count(s->choice[0]) - 1);
    end(&r);
}
END_TEST

START_TEST(each_option_of_winogrande_has_a_context_of_its_own)
{
    reading r;
    begin(&r);
    folder_put_text(&r.f, "a.jsonl",
                    "{\"sentence\": \"The _ sat.\", \"option1\": \"cat\", \"option2\": \"dog\", "
                    "\"answer\": \"1\"}");
    folder_put_text(&r.f, "train.jsonl",
                    "{\"sentence\": \"It _ .\", \"option1\": \"a\", \"option2\": \"b\", "
                    "\"answer\": \"1\"}\n"
                    "{\"sentence\": \"A _ ran.\", \"option1\": \"cow\", \"option2\": \"pig\", "
                    "\"answer\": \"2\"}");
    ck_assert_int_eq(read_as(&r, "winogrande", "a.jsonl", 1), PARE_OK);
    ck_assert_uint_eq(r.t.request.count, 2);
    ck_assert_str_eq(r.t.request.item[0].context, "A pig ran.\n\nThe cat");
    ck_assert_str_eq(r.t.request.item[1].context, "A pig ran.\n\nThe dog");
    ck_assert_str_eq(r.t.request.item[1].choice[0], " sat.");
    end(&r);
}
END_TEST

START_TEST(truthful_choices_come_in_both_shapes)
{
    static const char *const text[] = {
        "{\"question\": \"Is it?\", \"mc1_targets\": {\"choices\": [\"yes\", \"no\"], \"labels\": "
        "[1, 0]}, \"mc2_targets\": {\"choices\": [\"yes\", \"no\", \"so\"], \"labels\": [1, 0, "
        "1]}}",
        "{\"question\": \"Is it?\", \"mc1_targets\": {\"yes\": 1, \"no\": 0}, \"mc2_targets\": "
        "{\"yes\": 1, \"no\": 0, \"so\": 1}}"};
    reading r;
    begin(&r);
    folder_put_text(&r.f, "a.jsonl", text[_i]);
    ck_assert_int_eq(read_as(&r, "truthfulqa_mc1", "a.jsonl", 0), PARE_OK);
    const char *const context = r.t.request.item[0].context;
    static const char front[] = "Q: What is human life", back[] = "Spain.\n\nQ: Is it?\nA:";
    ck_assert_int_eq(strncmp(context, front, strlen(front)), 0);
    ck_assert_str_eq(context + strlen(context) - strlen(back), back);
    ck_assert_int_eq(read_as(&r, "truthfulqa_mc2", "a.jsonl", 0), PARE_OK);
    ck_assert_uint_eq(r.t.doc[0].right, 5);
    ck_assert_str_eq(r.t.request.item[0].choice[2], " so");
    end(&r);
}
END_TEST

#define TRAINED(n) "{\"goal\": \"" #n "\", \"sol1\": \"a\", \"sol2\": \"b\", \"label\": 0}\n"

/* random.Random(1234).sample(range(10), 5), then (range(10), 3). */
START_TEST(shots_are_those_that_python_draws)
{
    static const size_t five[] = {7, 1, 0, 9, 4}, six[] = {185, 1865, 1930, 1923, 1652, 1192};
    reading r;
    size_t pool[2000], picked[7];
    pare_python_random p;
    pare_python_seed(&p, 1234);
    ck_assert_uint_eq(pare_python_word(&p), 4150886329u);
    pare_python_seed(&p, 1234);
    pare_python_sample(&p, 10, 5, pool, picked);
    ck_assert_mem_eq(picked, five, sizeof five);
    pare_python_seed(&p, 1234);
    pare_python_sample(&p, 2000, 5, pool, picked);
    ck_assert_uint_eq(picked[0], 1979);
    pare_python_sample(&p, 2000, 6, pool, picked);
    ck_assert_mem_eq(picked, six, sizeof six);
    pare_python_sample(&p, 85, 7, pool, picked); /* the most that are replaced */
    ck_assert_uint_eq(picked[6], 3);
    pare_python_sample(&p, 86, 7, pool, picked);
    ck_assert_uint_eq(picked[6], 59);
    begin(&r);
    folder_put_text(&r.f, "a.jsonl", TRAINED(x) TRAINED(y));
    folder_put_text(&r.f, "train.jsonl",
                    TRAINED(0) TRAINED(1) TRAINED(2) TRAINED(3) TRAINED(4) TRAINED(5) TRAINED(6)
                        TRAINED(7) TRAINED(8) TRAINED(9));
    ck_assert_int_eq(read_as(&r, "piqa", "a.jsonl", 2), PARE_OK);
    ck_assert_str_eq(r.t.request.item[0].context,
                     "Question: 7\nAnswer: a\n\nQuestion: 1\nAnswer: a\n\nQuestion: x\nAnswer:");
    end(&r);
}
END_TEST

/* random.Random(1234): sample(range(4), 2) is 3 0, sample(range(4), 2 + 1) is 3 0 2 and then 0 2 3:
 * the harness draws one more for tasks without a test split, and leaves out the document itself. */
START_TEST(a_document_is_no_shot_of_its_own)
{
    reading r;
    begin(&r);
    folder_put_text(&r.f, "train.jsonl", TRAINED(0) TRAINED(1) TRAINED(2) TRAINED(3));
    folder_put_text(&r.f, "a.jsonl", TRAINED(0) TRAINED(x));
    ck_assert_int_eq(read_as(&r, "piqa", "a.jsonl", 2), PARE_OK);
    ck_assert_str_eq(r.t.request.item[0].context,
                     "Question: 3\nAnswer: a\n\nQuestion: 2\nAnswer: a\n\nQuestion: 0\nAnswer:");
    ck_assert_str_eq(r.t.request.item[1].context,
                     "Question: 0\nAnswer: a\n\nQuestion: 2\nAnswer: a\n\nQuestion: x\nAnswer:");
    ck_assert_int_eq(read_as(&r, "piqa", "a.jsonl", 4), PARE_EFORMAT);
    pare_ctx_clear(&r.cx);
    folder_put_text(&r.f, "train.jsonl", TRAINED(0) TRAINED(0) TRAINED(0) TRAINED(3) TRAINED(5));
    ck_assert_int_eq(read_as(&r, "piqa", "a.jsonl", 3), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(r.cx.what, "2 documents other than the one that is asked"));
    end(&r);
}
END_TEST

#define ASKED(q, s)                                                                                \
    "{\"question\": \"" q "\", \"subject\": \"" s                                                  \
    "\", \"choices\": [\"w\", \"x\", \"y\", \"z\"], "                                              \
    "\"answer\": 1}\n"

START_TEST(shots_of_mmlu_are_the_first_of_the_subject)
{
    reading r;
    begin(&r);
    folder_put_text(&r.f, "a.jsonl", ASKED("q", "law"));
    folder_put_text(&r.f, "train.jsonl", ASKED("n", "art") ASKED("1", "law") ASKED("2", "law"));
    ck_assert_int_eq(read_as(&r, "mmlu", "a.jsonl", 1), PARE_OK);
    ck_assert_str_eq(r.t.request.item[0].context,
                     "The following are multiple choice questions (with answers) about law.\n\n"
                     "1\nA. w\nB. x\nC. y\nD. z\nAnswer: B\n\nq\nA. w\nB. x\nC. y\nD. z\nAnswer:");
    ck_assert_int_eq(read_as(&r, "mmlu", "a.jsonl", 3), PARE_EFORMAT);
    ck_assert_ptr_nonnull(
        strstr(r.cx.what, "train.jsonl: 2 documents about law, and 3 shots are asked for"));
    end(&r);
}
END_TEST

/* Each is the next of many subjects, and then all come again: numbered as they come, in time that
 * does not grow with their square. */
START_TEST(many_subjects_are_told_apart)
{
    enum { DOCS = 300000, SUBJECTS = 100000 };
    pare_ctx cx;
    pare_arena a;
    size_t groups;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    char(*const text)[16] = pare_arena_take(&a, SUBJECTS, sizeof *text);
    const char **const name = PARE_NEW(&a, const char *, DOCS);
    size_t *const of = PARE_NEW(&a, size_t, DOCS);
    ck_assert(text && name && of);
    for (size_t i = 0; i < SUBJECTS; i++)
        (void)snprintf(text[i], sizeof *text, "s%zu", i * 7919 % SUBJECTS);
    for (size_t i = 0; i < DOCS; i++)
        name[i] = text[i % SUBJECTS];
    ck_assert_int_eq(pare__task_groups(&a, name, DOCS, false, of, &groups), PARE_OK);
    ck_assert_uint_eq(groups, SUBJECTS);
    for (size_t i = 0; i < DOCS; i++)
        ck_assert_uint_eq(of[i], i % SUBJECTS);
    pare_arena_release(&a);
}
END_TEST

START_TEST(shots_out_of_the_file_that_is_measured_are_told)
{
    reading r;
    begin(&r);
    warned[0] = '\0';
    r.cx.progress.warn = hear;
    folder_put_text(&r.f, "train.jsonl", ASKED("n", "law") ASKED("m", "law"));
    ck_assert_int_eq(read_as(&r, "mmlu", "train.jsonl", 1), PARE_OK);
    ck_assert_ptr_nonnull(
        strstr(warned, "mmlu: the shots are taken from the file that is measured"));
    warned[0] = '\0';
    folder_put_text(&r.f, "a.jsonl", ASKED("n", "law"));
    ck_assert_int_eq(read_as(&r, "mmlu", "a.jsonl", 1), PARE_OK);
    ck_assert_str_eq(warned, "");
    end(&r);
}
END_TEST

START_TEST(pages_are_parted_and_detokenized_as_the_harness_does)
{
    reading r;
    begin(&r);
    folder_put_text(
        &r.f, "a.raw",
        " \n = One = \n\n The cats ' \" big \" sea @-@ level ( 5 @,@ 0 ) , it 's . \n = "
        "= Part = = \n x\n = Two = \n \n y N z\n");
    ck_assert_int_eq(read_as(&r, "wikitext", "a.raw", 0), PARE_OK);
    ck_assert_uint_eq(r.t.docs, 2);
    ck_assert_uint_eq(r.t.doc[0].line, 2);
    ck_assert_uint_eq(r.t.doc[1].line, 7);
    ck_assert_str_eq(r.t.request.item[0].choice[0],
                     " = One =\n\nThe cats'\"big\" sea-level (5,0), it's.\n== Part ==\nx");
    ck_assert_str_eq(r.t.request.item[1].choice[0], " = Two =\n\ny 1 z\n");
    ck_assert_uint_eq(r.t.doc[1].words, 8); /* an empty one in front and behind */
    ck_assert_uint_eq(r.t.doc[1].bytes, strlen(" = Two = \n \n y N z\n"));
    end(&r);
}
END_TEST

static const struct mistake {
    const char *task, *file, *text, *message;
} mistakes[] = {
    {"piqa", "a.jsonl", "", "a.jsonl: no documents; piqa has {goal, sol1, sol2, label}"},
    {"piqa", "a.jsonl", TRAINED(x) "[1]", "a.jsonl:2: a document of piqa must be an object"},
    {"piqa", "a.jsonl", "{\"goal\": 1, \"label\": 0}",
     "a.jsonl:1: \"goal\" must be a text that is"},
    {"piqa", "a.jsonl", "{\"goal\": \"\xff\", \"label\": 0}", "a.jsonl:1:"},
    {"piqa", "a.jsonl", "{\"goal\": \"g\", \"sol1\": \"a\", \"sol2\": \"b\", \"label\": 2}",
     "a.jsonl:1: \"label\" must be the index of a choice, 0 to 1"},
    {"piqa", "a.parquet", "PAR1", "pandas.read_parquet("},
    {"piqa", "a.csv", "goal,sol1\n\n\"g,\nx", "a.csv:3: the quote that opens here is never closed"},
    {"piqa", "a.csv", "goal,sol1\n\"g\"x,a\n", "a.csv:2: text behind the quote that closes a cell"},
    {"piqa", "a.csv", "goal,sol1\ng\n", "a.csv:2: 1 cell, and the first row has 2"},
    {"piqa", "a.csv", "goal,sol1\ng,\xc3\n", "a.csv:2: invalid UTF-8"},
    {"piqa", "a.csv", "goal,goal\ng,h\n", "a.csv:"},
    {"piqa", "a.csv", "goal,sol1,sol2,label\n", "a.csv: no documents"},
    {"hellaswag", "a.jsonl", "{\"ctx\": \"x\"}",
     "\"activity_label\" must be a text, and is missing"},
    {"winogrande", "a.jsonl",
     "{\"sentence\": \"x\", \"option1\": \"a\", \"option2\": \"b\", \"answer\": \"1\"}",
     "a.jsonl:1: \"sentence\" has no _"},
    {"winogrande", "a.jsonl",
     "{\"sentence\": \"x _ y\", \"option1\": \"a\", \"option2\": \"b\", \"answer\": \"0\"}",
     "a.jsonl:1: \"answer\" must be \"1\" or \"2\""},
    {"winogrande", "a.jsonl",
     "{\"sentence\": \"x _ \", \"option1\": \"a\", \"option2\": \"b\", \"answer\": \"1\"}",
     "\"sentence\" ends at its _"},
    {"boolq", "a.jsonl", "{\"passage\": \"p\", \"question\": \"q\", \"label\": 2}",
     "\"label\" must be 0 or 1, or \"answer\" true or false"},
    {"mmlu", "a.jsonl", ASKED("q", "law") "{\"question\": \"q\", \"choices\": [\"a\", \"b\"]}",
     "a.jsonl:2: \"choices\" has 2 texts, and must have 4"},
    {"openbookqa", "a.jsonl", "{\"context\": \"c\", \"choices\": [\" a\", \" b\"], \"answer\": 0}",
     "a.jsonl:1: \"question_stem\" is missing; the document has pare's own form, which --choice "
     "FILE "
     "reads"},
    {"mmlu", "a.csv", "q,a,b,c,d,A\n", "a.csv:1: \"subject\" is missing: name the subject"},
    {"mmlu_law", "a.jsonl", ASKED("q", "law") ASKED("r", "art"),
     "a.jsonl:2: \"subject\" is another one than that of the task"},
    {"mmlu_law", "a.jsonl",
     "{\"question\": \"q\", \"choices\": [\"w\", \"x\", \"y\", \"z\"], \"answer\": \"E\"}",
     "\"answer\" must be the index of a choice"},
    {"truthfulqa_mc1", "a.jsonl",
     "{\"question\": \"q\", \"mc1_targets\": {\"choices\": [\"a\", \"b\"], \"labels\": [0, 1]}}",
     "the first choice of \"mc1_targets\" must be the right one"},
    {"truthfulqa_mc2", "a.jsonl", "{\"question\": \"q\", \"mc2_targets\": {\"a\": 0, \"b\": 0}}",
     "no choice of \"mc2_targets\" is right"},
    {"truthfulqa_mc2", "a.jsonl", "{\"question\": \"q\", \"mc2_targets\": {\"a\": 3, \"b\": 0}}",
     "choice 0 of \"mc2_targets\" must be a text that is not empty, and its label 0 or 1"},
    {"lambada_openai", "a.jsonl", "{\"text\": \"word\"}", "\"text\" must have words in front"},
    {"lambada_openai", "a.jsonl", "{\"text\": \"a word \"}", "\"text\" must have words in front"},
    {"wikitext", "a.txt", "x\n\xff\n", "a.txt:2: invalid UTF-8"},
    {"pica", "a.jsonl", "{}", "no task \"pica\"; did you mean piqa?; the tasks are piqa, arc_easy"},
};

START_TEST(mistakes_are_named_by_file_line_and_key)
{
    const struct mistake *const m = &mistakes[_i];
    reading r;
    begin(&r);
    folder_put_text(&r.f, m->file, m->text);
    ck_assert_int_ne(read_as(&r, m->task, m->file, 0), PARE_OK);
    ck_assert_msg(strstr(r.cx.what, m->message) != NULL, "%s", r.cx.what);
    end(&r);
}
END_TEST

/* The input of tests/fuzz/fuzz_task.c, as files. */
static pare_status read_input(pare_ctx *cx, const void *bytes, size_t len)
{
    reading r = {.cx = *cx};
    task_input in;
    char name[16];
    folder_make(&r.f);
    ck_assert_int_eq(pare_arena_init(cx, &r.a, 0), PARE_OK);
    ck_assert(task_input_read(bytes, len, &in));
    (void)snprintf(name, sizeof name, "a.%s", in.ending);
    folder_put(&r.f, name, in.text, in.len);
    char *const path = pare_path_join(&r.a, r.f.path, name);
    const pare_task_asked asked = {
        .name = in.task, .file = path, .shots = in.shots, .shots_file = path};
    const pare_status s = pare_task_read(cx, &r.a, &asked, &r.t);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(r.f.path), 0);
    pare_arena_release(&r.a);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    enum { KNOWN = sizeof mistakes / sizeof *mistakes };
    const char *message[KNOWN + 3] = {"document about law, and 2 shots",
                                      "documents other than the one", "takes no shots"};
    for (size_t i = 0; i < KNOWN; i++)
        message[3 + i] = mistakes[i].message;
    corpus_reaches("task", read_input, message, KNOWN + 3);
}
END_TEST

START_TEST(shots_need_a_task_that_takes_them_and_a_file)
{
    reading r;
    begin(&r);
    folder_put_text(&r.f, "a.jsonl", TRAINED(x));
    folder_put_text(&r.f, "train.jsonl", TRAINED(x));
    ck_assert_int_eq(read_as(&r, "lambada_openai", "a.jsonl", 1), PARE_EUSAGE);
    ck_assert_str_eq(r.cx.what, "lambada_openai takes no shots: its prompt is fixed");
    pare_ctx_clear(&r.cx);
    ck_assert_int_eq(read_as(&r, "piqa", "a.jsonl", 65), PARE_EUSAGE);
    pare_ctx_clear(&r.cx);
    const pare_task_asked asked = {.name = "piqa", .file = "x", .shots = 1};
    ck_assert_int_eq(pare_task_read(&r.cx, &r.a, &asked, &r.t), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(r.cx.what, "piqa: shots need a file"));
    pare_ctx_clear(&r.cx);
    ck_assert_int_eq(read_as(&r, "piqa", "a.jsonl", 2), PARE_EFORMAT);
    ck_assert_ptr_nonnull(
        strstr(r.cx.what, "1 document (one more is drawn than is taken), and 2 shots"));
    end(&r);
}
END_TEST

/* Each text of winogrande is two requests. */
START_TEST(a_document_that_is_cut_counts_once)
{
    reading r;
    pare_checkpoint ck;
    pare_task_data data;
    begin(&r);
    folder_put_text(&r.f, "a.jsonl",
                    "{\"sentence\": \"Long live the king, said the lord, and _ was heard.\", "
                    "\"option1\": \"he\", \"option2\": \"she\", \"answer\": \"2\"}\n");
    const pare_task_asked asked = {.name = "winogrande", .file = folder_file(&r.f, "a.jsonl")};
    ck_assert_int_eq(pare_checkpoint_open(&r.cx, &r.a, PARE_SOURCE_DIR "/recipes/demo/hedge", &ck),
                     PARE_OK);
    ck_assert_int_eq(pare_task_load(&r.cx, &r.a, &ck, 256, &asked, &data), PARE_OK);
    ck_assert_uint_eq(data.cut, 0);
    ck_assert_int_eq(pare_task_load(&r.cx, &r.a, &ck, 12, &asked, &data), PARE_OK);
    ck_assert_uint_eq(data.items, 2);
    ck_assert_uint_eq(data.cut, 1);
    pare_checkpoint_close(&ck);
    end(&r);
}
END_TEST

static pare_status read_task(pare_ctx *cx, pare_arena *a, const void *asked)
{
    pare_task_texts texts;
    return pare_task_read(cx, a, asked, &texts);
}

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    reading r;
    begin(&r);
    folder_put_text(&r.f, "a.csv", "goal,sol1,sol2,label\nA,b,c,0\nB,\"c\"\"\",d,1\n");
    folder_put_text(&r.f, "train.jsonl", TRAINED(0) TRAINED(1));
    folder_put_text(&r.f, "law.jsonl", ASKED("q", "law") ASKED("r", "law"));
    pare_task_asked asked = {.name = "piqa", .shots = 1};
    asked.file = pare_path_join(&r.a, r.f.path, "a.csv");
    asked.shots_file = pare_path_join(&r.a, r.f.path, "train.jsonl");
    folder_refuse_memory(&r.cx, read_task, &asked);
    asked.name = "mmlu";
    asked.file = pare_path_join(&r.a, r.f.path, "law.jsonl");
    asked.shots_file = asked.file;
    folder_refuse_memory(&r.cx, read_task, &asked);
    end(&r);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tasks");
    TCase *const t = tcase_create("tasks");
    tcase_add_loop_test(t, documents_become_the_prompts_of_the_harness, 0,
                        sizeof shapes / sizeof *shapes);
    tcase_add_test(t, each_option_of_winogrande_has_a_context_of_its_own);
    tcase_add_loop_test(t, truthful_choices_come_in_both_shapes, 0, 2);
    tcase_add_test(t, shots_are_those_that_python_draws);
    tcase_add_test(t, a_document_is_no_shot_of_its_own);
    tcase_add_test(t, many_subjects_are_told_apart);
    tcase_add_test(t, shots_out_of_the_file_that_is_measured_are_told);
    tcase_add_test(t, shots_of_mmlu_are_the_first_of_the_subject);
    tcase_add_test(t, pages_are_parted_and_detokenized_as_the_harness_does);
    tcase_add_loop_test(t, mistakes_are_named_by_file_line_and_key, 0,
                        sizeof mistakes / sizeof *mistakes);
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, shots_need_a_task_that_takes_them_and_a_file);
    tcase_add_test(t, a_document_that_is_cut_counts_once);
    tcase_add_test(t, every_refused_allocation_is_reported_and_nothing_leaks);
    suite_add_tcase(s, t);
    return unit_main(s);
}
