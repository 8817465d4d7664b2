/* Evaluations of a recipe: what a job measures, tells and refuses. The model that comes with the
 * demo is used, since choices and samples need a tokenizer. */
#include "compress/artifact/inspect.h"
#include "compress/evaluate/choice_items.h"
#include "compress/output/inventory.h"
#include "formats/json.h"
#include "tests/unit/job.h"

#define HEDGE PARE_SOURCE_DIR "/recipes/demo/hedge"
#define HEAD  "pare: 1\nmodel: " HEDGE "\npasses: [{rtn: {bits: 2, group: 32}}]\nevaluate:\n"

static const char items[] =
    "{\"goal\": \"My lord\", \"sol1\": \"the king\", \"sol2\": \"a dog\"}\n"
    "{\"goal\": \"To be\", \"sol1\": \"or not to be\", \"sol2\": \"cheese\"}\n"
    "{\"goal\": \"Open\", \"sol1\": \"the door\", \"sol2\": \"seven\"}\n";

static void put(const job_place *p, const char *name, const char *text)
{
    FILE *const f = fopen(job_path(p, name), "w");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* A place without a model. */
static job_place make_place(void)
{
    job_place p;
    (void)snprintf(p.root, sizeof p.root, "evaluate.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(p.root));
    put(&p, "piqa.jsonl", items);
    put(&p, "piqa-labels.lst", "0\n0\n1\n");
    return p;
}

typedef struct finished {
    pare_ctx cx;
    pare_arena a;
    pare_compress_result result;
    char recipe[512], output[512];
} finished;

static void run(const job_place *p, const char *recipe, size_t threads, finished *f)
{
    job_recipe(p, recipe);
    (void)snprintf(f->recipe, sizeof f->recipe, "%s", job_path(p, "recipe.yaml"));
    (void)snprintf(f->output, sizeof f->output, "%s", job_path(p, "out"));
    const pare_job job = {.recipe = f->recipe, .output = f->output, .restart = true};
    pare_ctx_init(&f->cx);
    ck_assert_int_eq(pare_arena_init(&f->cx, &f->a, 0), PARE_OK);
    ck_assert_int_eq(pare_pool_new(&f->cx, threads, &f->cx.pool), PARE_OK);
    ck_assert_msg(pare_compress(&f->cx, &f->a, &job, NULL, &f->result) == PARE_OK, "%s",
                  f->cx.what);
}

static void end(finished *f)
{
    pare_arena_release(&f->a);
    pare_pool_free(&f->cx, f->cx.pool);
    ck_assert_uint_eq(f->cx.live_bytes, 0);
}

/* The model at `path` on the items, as pare eval asks it. */
static pare_choice_result ask(const job_place *p, finished *f, const char *path, size_t limit)
{
    pare_checkpoint ck;
    pare_model m;
    pare_forward forward;
    pare_tokenizer *t;
    pare_choice_texts texts;
    pare_choice_item *item;
    pare_choice_result r;
    pare_ctx *const cx = &f->cx;
    ck_assert_int_eq(pare_checkpoint_open(cx, &f->a, path, &ck), PARE_OK);
    ck_assert_int_eq(pare_model_load(cx, &f->a, &ck, &m), PARE_OK);
    ck_assert_int_eq(pare_forward_init(cx, &f->a, &m, 64, false, &forward), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_tokenizer(&ck, &t), PARE_OK);
    ck_assert_int_eq(pare_choice_read(cx, &f->a, job_path(p, "piqa.jsonl"), limit, NULL, &texts),
                     PARE_OK);
    ck_assert_int_eq(pare_choice_encode(cx, &f->a, t, &texts, 64, &item), PARE_OK);
    ck_assert_int_eq(pare_evaluate_choice(cx, &forward, item, texts.count, &r), PARE_OK);
    pare_tokenizer_free(t);
    pare_checkpoint_close(&ck);
    return r;
}

static void check_same(const pare_choice_result *a, const pare_choice_result *b)
{
    ck_assert_uint_eq(a->n, b->n);
    ck_assert(a->accuracy == b->accuracy && a->accuracy_norm == b->accuracy_norm);
}

START_TEST(choices_of_a_recipe_are_those_of_both_models)
{
    const job_place p = make_place();
    finished f;
    run(&p, HEAD "  - choice: {file: piqa.jsonl, limit: 2}\n  - choice: {file: piqa.jsonl}\n", 2,
        &f);
    const pare_report *const r = &f.result.report;
    ck_assert_uint_eq(r->evaluations, 2);
    ck_assert_uint_eq(r->samples.count, 0); /* no text to take words from */
    for (size_t i = 0; i < 2; i++) {
        const pare_report_eval *const e = &r->evaluation[i];
        const pare_choice_result before = ask(&p, &f, HEDGE, i ? 0 : 2);
        const pare_choice_result after = ask(&p, &f, f.output, i ? 0 : 2);
        const double now = after.accuracy * (double)after.n,
                     was = before.accuracy * (double)before.n;
        ck_assert_int_eq(e->kind, PARE_EVALUATE_CHOICE);
        ck_assert_uint_eq(before.n, i ? 3 : 2);
        check_same(&e->choice_before.result, &before);
        check_same(&e->choice_after.result, &after);
        ck_assert_double_eq_tol((double)e->choice_after.paired.gained -
                                    (double)e->choice_after.paired.lost,
                                now - was, 1e-9);
    }
    end(&f);
    job_remove_directory(p.root);
}
END_TEST

/* With the shots that the recipe names; the figures are those of the models by themselves. */
START_TEST(tasks_of_a_recipe_are_those_of_both_models)
{
    const job_place p = make_place();
    finished f;
    put(&p, "mmlu.csv", "q,w,x,y,z,C\nr,w,x,y,z,A\n");
    run(&p,
        HEAD "  - tasks: {piqa: piqa.jsonl, mmlu_law: mmlu.csv, limit: 2, shots: 1, "
             "shots_from: {piqa: piqa.jsonl, mmlu_law: mmlu.csv}}\n",
        2, &f);
    const pare_report *const r = &f.result.report;
    ck_assert_uint_eq(r->evaluations, 2);
    ck_assert_uint_eq(r->evaluation[0].limit, 2);
    ck_assert_uint_eq(r->evaluation[0].all, 3);
    for (size_t i = 0; i < 2; i++) {
        const pare_report_eval *const e = &r->evaluation[i];
        ck_assert_int_eq(e->kind, PARE_EVALUATE_TASK);
        char path[512];
        (void)snprintf(path, sizeof path, "%s", job_path(&p, i ? "mmlu.csv" : "piqa.jsonl"));
        const pare_task_asked asked = {.name = i ? "mmlu_law" : "piqa",
                                       .file = path,
                                       .limit = 2,
                                       .shots = 1,
                                       .shots_file = path};
        for (size_t k = 0; k < 2; k++) {
            pare_checkpoint ck;
            pare_model m;
            pare_forward forward;
            pare_task_data data;
            pare_task_figures alone;
            const pare_task_figures *const t = k ? &e->task_after : &e->task_before;
            ck_assert_int_eq(pare_checkpoint_open(&f.cx, &f.a, k ? f.output : HEDGE, &ck), PARE_OK);
            ck_assert_int_eq(pare_model_load(&f.cx, &f.a, &ck, &m), PARE_OK);
            ck_assert_int_eq(pare_forward_init(&f.cx, &f.a, &m, 256, false, &forward), PARE_OK);
            ck_assert_int_eq(pare_task_load(&f.cx, &f.a, &ck, 256, &asked, &data), PARE_OK);
            ck_assert_int_eq(pare_task_ask(&f.cx, &f.a, &forward, &data, &asked, &alone), PARE_OK);
            ck_assert_uint_eq(t->n, 2);
            ck_assert_uint_eq(t->metrics, i ? 1 : 2);
            for (size_t j = 0; j < t->metrics; j++)
                ck_assert(t->metric[j].value == alone.metric[j].value);
            pare_checkpoint_close(&ck);
        }
        ck_assert_double_eq_tol(
            (double)e->task_after.metric[0].paired.gained -
                (double)e->task_after.metric[0].paired.lost,
            2 * (e->task_after.metric[0].value - e->task_before.metric[0].value), 1e-9);
    }
    end(&f);
    job_remove_directory(p.root);
}
END_TEST

/* Words of one vocabulary: see README.md. */
START_TEST(the_result_is_told_in_one_vocabulary)
{
    const job_place p = make_place();
    finished f;
    char *text;
    size_t len;
    pare_json *json;
    put(&p, "text.txt",
        "The king is dead, long live the king. To be or not to be, that is the "
        "question. My lord, I have a dog, and a horse, and a kingdom for it. Once "
        "more unto the breach, dear friends, once more, or close the wall up.\n");
    run(&p, HEAD "  - kl: {text: text.txt, window: 16, limit: 3}\n  - choice: {file: piqa.jsonl}\n",
        1, &f);
    ck_assert_int_eq(
        pare_file_read(&f.cx, &f.a, job_path(&p, "out/run.json"), 1 << 20, &text, &len), PARE_OK);
    ck_assert_int_eq(pare_json_parse(&f.cx, "run.json", text, len, 1 << 20, &json), PARE_OK);
    const pare_json *const list = pare_json_get(json, "evaluations");
    const pare_json *const kl = pare_json_at(list, 0), *const choice = pare_json_at(list, 1);
    const pare_json *const file = pare_json_at(pare_json_get(choice, "choice"), 0);
    const pare_json *const baseline = pare_json_get(kl, "baseline");
    ck_assert_str_eq(pare_json_text(pare_json_get(kl, "kind"), &len), "kl");
    ck_assert_int_eq(pare_json_integer(pare_json_get(kl, "tokens"), 0), 45);
    ck_assert_double_gt(
        pare_json_number(pare_json_get(pare_json_get(kl, "perplexity"), "ppl"), 0),
        pare_json_number(pare_json_get(pare_json_get(baseline, "perplexity"), "ppl"), 1e9));
    ck_assert_double_gt(pare_json_number(pare_json_get(pare_json_get(kl, "kl"), "mean"), 0), 0);
    ck_assert_int_eq(pare_json_integer(pare_json_get(file, "n"), 0), 3);
    ck_assert_int_eq(pare_json_type_of(pare_json_get(pare_json_get(file, "paired"), "lost")),
                     PARE_JSON_INTEGER);
    const pare_json *const memory = pare_json_get(json, "memory");
    ck_assert_int_eq(pare_json_integer(pare_json_get(memory, "weight_bytes"), 0),
                     (int64_t)pare_report_total(f.result.report.sizes.after));
    pare_json_free(json);
    end(&f);
    job_remove_directory(p.root);
}
END_TEST

/* Three prompts of the text, continued by both; in 2 bits they part. */
START_TEST(samples_are_the_same_for_any_number_of_threads)
{
    const char *const recipe =
        HEAD "  - perplexity: {text: " PARE_SOURCE_DIR "/recipes/demo/evaluation.txt, window: 32, "
             "limit: 2}\n";
    const job_place p = make_place();
    finished one, two;
    run(&p, recipe, 1, &one);
    run(&p, recipe, 2, &two);
    const pare_report_samples *const s = &one.result.report.samples;
    size_t parted = 0;
    ck_assert_uint_eq(one.result.report.evaluation[0].after.scored, 62);
    ck_assert_uint_eq(s->count, 3);
    ck_assert(s->before_tok_s > 0 && s->after_tok_s > 0);
    for (size_t i = 0; i < s->count; i++) {
        const pare_report_sample *const a = &s->sample[i];
        const pare_report_sample *const b = &two.result.report.samples.sample[i];
        ck_assert(*a->prompt && strcmp(a->prompt, b->prompt) == 0);
        ck_assert_str_eq(a->same, b->same);
        ck_assert_str_eq(a->before, b->before);
        ck_assert_str_eq(a->after, b->after);
        parted += strcmp(a->before, a->after) != 0;
    }
    ck_assert_uint_gt(parted, 0);
    end(&one);
    end(&two);
    job_remove_directory(p.root);
}
END_TEST

/* The id of the first token that the original wrote behind a prompt. */
static int32_t first_token(finished *f, const pare_tokenizer *t, const pare_report_sample *s)
{
    char text[512];
    int32_t *id;
    size_t count;
    (void)snprintf(text, sizeof text, "%s%s", s->same, s->before);
    ck_assert_int_eq(pare_tokenizer_encode(&f->cx, t, &f->a, text, strlen(text), &id, &count),
                     PARE_OK);
    ck_assert_uint_gt(count, 0);
    return id[0];
}

/* Had the speed counted tokens that were never drawn, it would be thousands of times as large. */
START_TEST(an_early_end_token_makes_no_model_faster)
{
    const char *const recipe =
        "pare: 1\nmodel: hedge\npasses: [{rtn: {bits: 2, group: 32}}]\nevaluate:\n"
        "  - perplexity: {text: " PARE_SOURCE_DIR "/recipes/demo/evaluation.txt, window: 32, "
        "limit: 20}\n";
    const job_place p = make_place();
    finished f;
    char command[2048];
    pare_checkpoint ck;
    pare_tokenizer *t;
    int32_t id[3];
    (void)snprintf(command, sizeof command, "cp -r '" HEDGE "' %s", job_path(&p, "hedge"));
    ck_assert_int_eq(system(command), 0);
    run(&p, recipe, 1, &f);
    const pare_report_samples *const s = &f.result.report.samples;
    const double tok_s = s->before_tok_s;
    ck_assert_int_eq(pare_checkpoint_open(&f.cx, &f.a, HEDGE, &ck), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_tokenizer(&ck, &t), PARE_OK);
    for (size_t i = 0; i < 3; i++)
        id[i] = first_token(&f, t, &s->sample[i]);
    pare_tokenizer_free(t);
    pare_checkpoint_close(&ck);
    end(&f);
    (void)snprintf(command, sizeof command,
                   "sed -i 's/\"eos_token_id\": [0-9]*/\"eos_token_id\": [%d, %d, %d]/' "
                   "%s/*config.json",
                   id[0], id[1], id[2], job_path(&p, "hedge"));
    ck_assert_int_eq(system(command), 0);
    run(&p, recipe, 1, &f);
    for (size_t i = 0; i < 3; i++)
        ck_assert_msg(!*s->sample[i].same && !*s->sample[i].before, "%s|%s", s->sample[i].same,
                      s->sample[i].before);
    ck_assert_msg(s->before_tok_s < 50 * tok_s, "%g, %g without the end tokens", s->before_tok_s,
                  tok_s);
    end(&f);
    job_remove_directory(p.root);
}
END_TEST

/* Every tensor of both models is in one part. */
START_TEST(parts_add_up_to_the_weights)
{
    const job_place p = make_place();
    finished f;
    run(&p, "pare: 1\nmodel: " HEDGE "\npasses: [{rtn: {bits: 4, group: 64}}]\n", 1, &f);
    const pare_report *const r = &f.result.report;
    const pare_config *const c = r->config;
    const char *const path[] = {HEDGE, f.output};
    ck_assert_uint_eq(r->evaluations, 0);
    for (size_t i = 0; i < 2; i++) {
        const uint64_t *const part = i ? r->sizes.after : r->sizes.before;
        pare_checkpoint ck;
        uint64_t bytes = 0;
        ck_assert_int_eq(pare_checkpoint_open(&f.cx, &f.a, path[i], &ck), PARE_OK);
        for (size_t t = 0; t < ck.tensors; t++)
            bytes += ck.tensor[t].bytes;
        pare_checkpoint_close(&ck);
        ck_assert_uint_eq(pare_report_total(part), bytes);
        ck_assert_uint_eq(part[PARE_REPORT_EMBEDDING], 2 * c->vocab * c->hidden);
        ck_assert_uint_eq(part[PARE_REPORT_EXPERTS] + part[PARE_REPORT_HEAD], 0);
        /* 4 bits, and a scale of 16 for each 64 weights */
        const uint64_t mlp = c->blocks * 3 * c->hidden * c->intermediate;
        ck_assert_uint_eq(part[PARE_REPORT_MLP], i ? mlp * 17 / 32 : 2 * mlp);
    }
    end(&f);
    job_remove_directory(p.root);
}
END_TEST

static pare_inspection inspect(finished *f, const char *path)
{
    pare_inspection in;
    ck_assert_int_eq(pare_inspect(&f->cx, &f->a, path, &in), PARE_OK);
    return in;
}

/* Blocks of GGUF are unpacked to floats to be worked on; the original is what lies in its file. */
START_TEST(a_quantized_original_has_the_size_of_its_file)
{
    const job_place p = make_place();
    finished f;
    char model[512];
    run(&p,
        "pare: 1\nmodel: " HEDGE "\npasses: [{rtn: {bits: 4, group: 32}}]\n"
        "export: [{format: 'gguf:q4_0', path: hedge.gguf}]\n",
        1, &f);
    end(&f);
    (void)snprintf(model, sizeof model, "%s", job_path(&p, "hedge.gguf"));
    run(&p, "pare: 1\nmodel: hedge.gguf\npasses: [{rtn: {bits: 3, group: 32}}]\n", 1, &f);
    const pare_report *const r = &f.result.report;
    const pare_config *const c = r->config;
    const uint64_t *const was = r->sizes.before;
    ck_assert_uint_eq(pare_report_total(was), inspect(&f, model).tensor_bytes);
    /* 4 bits, and a scale of 16 for each 32 weights */
    ck_assert_uint_eq(was[PARE_REPORT_MLP], c->blocks * 3 * c->hidden * c->intermediate * 18 / 32);
    ck_assert_uint_gt(was[PARE_REPORT_EMBEDDING], 0);
    end(&f);
    job_remove_directory(p.root);
}
END_TEST

/* Of its own weights, also where they are more or fewer than those of the original. */
START_TEST(bits_of_the_whole_model_are_those_that_inspect_tells)
{
    static const char *const passes[] = {"[rotate: {}, rtn: {bits: 4, group: 64}]",
                                         "[depth: {blocks: 2}]"};
    for (size_t i = 0; i < 2; i++) {
        const job_place p = make_place();
        finished f;
        char recipe[1024];
        (void)snprintf(recipe, sizeof recipe,
                       "pare: 1\nmodel: " HEDGE "\npasses: %s\n"
                       "calibration: {text: [" PARE_SOURCE_DIR "/recipes/demo/calibration.txt], "
                       "samples: 4, window: 64}\n"
                       "evaluate: [{choice: {file: piqa.jsonl}}]\n",
                       passes[i]);
        run(&p, recipe, 1, &f);
        const double bits = inspect(&f, f.output).bits_per_weight;
        ck_assert_double_eq(f.result.report.model_bits_per_weight, bits);
        ck_assert(i ? bits == 16 : bits > 4 && bits < 9);
        end(&f);
        job_remove_directory(p.root);
    }
}
END_TEST

static pare_json *read_json(finished *f, const job_place *p, const char *name)
{
    char *text;
    size_t len;
    pare_json *json;
    ck_assert_int_eq(pare_file_read(&f->cx, &f->a, job_path(p, name), 1 << 20, &text, &len),
                     PARE_OK);
    ck_assert_int_eq(pare_json_parse(&f->cx, name, text, len, 1 << 20, &json), PARE_OK);
    return json;
}

/* run.json is a part of what is exported, so it cannot know how long that takes. */
START_TEST(exports_count_in_the_time_of_the_job)
{
    const job_place p = make_place();
    finished f;
    run(&p,
        "pare: 1\nmodel: " HEDGE "\npasses: [{rtn: {bits: 4, group: 32}}]\n"
        "export: [{format: 'gguf:q4_0', path: hedge.gguf}]\n",
        1, &f);
    pare_json *const json = read_json(&f, &p, "out/run.json");
    const double before = pare_json_number(pare_json_get(json, "seconds"), -1);
    ck_assert(before > 0 && f.result.export_seconds > 0);
    ck_assert_double_ge(f.result.report.seconds, before + f.result.export_seconds);
    pare_json_free(json);
    end(&f);
    job_remove_directory(p.root);
}
END_TEST

/* Of what was there; nothing where all of it was taken. */
START_TEST(what_a_limit_left_out_is_told)
{
    const job_place p = make_place();
    finished f;
    put(&p, "text.txt",
        "The king is dead, long live the king. To be or not to be, that is the question. My lord, "
        "I have a dog, and a horse, and a kingdom for it. Once more unto the breach.\n");
    run(&p,
        HEAD "  - perplexity: {text: text.txt, window: 8, limit: 2}\n"
             "  - choice: {file: piqa.jsonl, limit: 2}\n  - choice: {file: piqa.jsonl, limit: 3}\n",
        1, &f);
    const pare_report_eval *const e = f.result.report.evaluation;
    char text[PARE_REPORT_NOTES], expected[64];
    ck_assert(e[0].limit == 2 && e[0].all > 2);
    (void)snprintf(expected, sizeof expected, "; first 2 of %zu windows", e[0].all);
    ck_assert_str_eq(pare_report_notes(&e[0], "; ", text), expected);
    ck_assert_str_eq(pare_report_notes(&e[1], "; ", text), "; first 2 of 3 items");
    ck_assert_str_eq(pare_report_notes(&e[2], "; ", text), "");
    end(&f);
    job_remove_directory(p.root);
}
END_TEST

static void refused(const job_place *p, const char *message)
{
    char what[1024];
    ck_assert_int_eq(job_run(p, (job_opts){.output = "out"}, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, message) != NULL, "%s", what);
    ck_assert_msg(strstr(what, "give --restart to replace it") != NULL, "%s", what);
}

/* Same paths, other bytes: the figures in the output would be of what is no longer there. */
START_TEST(a_finished_job_is_of_the_bytes_it_was_evaluated_on)
{
    const job_place p = make_place();
    finished f;
    put(&p, "text.txt", "To be or not to be, that is the question of the king.\n");
    run(&p, HEAD "  - perplexity: {text: text.txt, window: 8}\n  - choice: {file: piqa.jsonl}\n", 1,
        &f);
    end(&f);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    put(&p, "text.txt", "To be or not to be, that is the question of the dogs.\n");
    refused(&p, "text.txt had other bytes when it was evaluated (pare eval measures it on those");
    put(&p, "text.txt", "To be or not to be, that is the question of the king.\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    put(&p, "copy.txt", "To be or not to be, that is the question of the king.\n");
    job_recipe(&p, HEAD "  - perplexity: {text: copy.txt, window: 8}\n"
                        "  - choice: {file: piqa.jsonl}\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    put(&p, "piqa-labels.lst", "1\n0\n1\n");
    refused(&p, "piqa-labels.lst had other bytes when it was evaluated");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out", .restart = true}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    job_remove_directory(p.root);
}
END_TEST

typedef struct stop_after {
    pare_event_kind kind;
    volatile int stop;
    size_t resumed;
} stop_after;

static void hear(void *self, const pare_event *e)
{
    stop_after *const s = self;
    s->stop |= e->kind == s->kind;
    s->resumed += e->kind == PARE_EVENT_RESUME;
}

/* The notices of a run, one behind the other. */
static void note(void *self, const pare_event *e)
{
    char *const notices = self;
    if (e->kind == PARE_EVENT_NOTICE)
        (void)strncat(notices, e->text, 2047 - strlen(notices));
}

/* As an earlier pare left it. Its missing export is made; nothing is said of the texts. */
START_TEST(a_manifest_without_hashes_of_evaluations_refuses_nothing)
{
    const job_place p = make_place();
    finished f;
    char command[2048], notices[2048];
    const pare_events events = {note, notices};
    const job_opts again = {.output = "out", .events = &events};
    put(&p, "text.txt", "To be or not to be, that is the question of the king.\n");
    run(&p,
        "pare: 1\nmodel: " HEDGE "\npasses: [{rtn: {bits: 4, group: 32}}]\n"
        "evaluate: [{perplexity: {text: text.txt, window: 8}}]\n"
        "export: [{format: 'gguf:q4_0', path: hedge.gguf}]\n",
        1, &f);
    (void)snprintf(command, sizeof command,
                   "sed -i '/evaluated_sha256/,/]/d' %s/manifest.json && touch %s", f.output,
                   job_path(&p, "hedge.gguf"));
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(pare_inventory_write(&f.cx, &f.a, f.output, NULL, 0), PARE_OK);
    pare_json *const json = read_json(&f, &p, "out/manifest.json");
    ck_assert_ptr_null(pare_json_get(json, "evaluated_sha256"));
    ck_assert_ptr_nonnull(pare_json_get(json, "inputs"));
    pare_json_free(json);
    end(&f);
    for (int i = 0; i < 2; i++) { /* with its export, and without */
        notices[0] = '\0';
        ck_assert_int_eq(job_run(&p, again, NULL), PARE_OK);
        ck_assert_msg(strstr(notices, "so the texts were not compared"), "%s", notices);
        ck_assert_msg(!strstr(notices, "making 1 of its 1 export") == (i == 0), "%s", notices);
        ck_assert_int_eq(pare_path_is_file(job_path(&p, "hedge.gguf")), 1);
        (void)unlink(job_path(&p, "hedge.gguf"));
    }
    job_remove_directory(p.root);
}
END_TEST

/* No block depends on such a text. */
START_TEST(an_unfinished_job_keeps_its_blocks_and_evaluates_what_is_there)
{
    const job_place p = make_place();
    finished f;
    const char *const recipe = HEAD "  - perplexity: {text: text.txt, window: 8}\n";
    stop_after s = {.kind = PARE_EVENT_EVALUATE};
    const pare_events events = {hear, &s};
    put(&p, "text.txt", "To be or not to be, that is the question of the king.\n");
    job_recipe(&p, recipe);
    ck_assert_int_eq(
        job_run(&p, (job_opts){.output = "out", .events = &events, .interrupt = &s.stop}, NULL),
        PARE_EINTERRUPTED);
    put(&p, "text.txt", "Open the door, and seven horses went to the breach of a wall.\n");
    s = (stop_after){.kind = PARE_EVENT_DONE};
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out", .events = &events}, NULL), PARE_OK);
    ck_assert_uint_eq(s.resumed, 1);
    ck_assert_int_eq(rename(job_path(&p, "out"), job_path(&p, "continued")), 0);
    run(&p, recipe, 1, &f);
    pare_json *const a = read_json(&f, &p, "continued/run.json");
    pare_json *const b = read_json(&f, &p, "out/run.json");
    const pare_json *const x = pare_json_at(pare_json_get(a, "evaluations"), 0);
    const pare_json *const y = pare_json_at(pare_json_get(b, "evaluations"), 0);
    ck_assert_double_eq(pare_json_number(pare_json_get(pare_json_get(x, "perplexity"), "nll"), -1),
                        pare_json_number(pare_json_get(pare_json_get(y, "perplexity"), "nll"), -2));
    pare_json_free(a);
    pare_json_free(b);
    end(&f);
    char one[PARE_SHA256_HEX], other[PARE_SHA256_HEX];
    job_hash(&p, "continued", one);
    job_hash(&p, "out", other);
    ck_assert_str_eq(one, other);
    job_remove_directory(p.root);
}
END_TEST

static const struct refusal {
    const char *labels, *recipe, *message;
    pare_status status;
} refusals[] = {
    {"0\n0\n", HEAD "  - choice: {file: piqa.jsonl}\n", "piqa-labels.lst: 2 labels for the 3 items",
     PARE_EFORMAT},
    {NULL, HEAD "  - choice: {file: nothing.jsonl}\n", "recipe.yaml:5:20: ", PARE_EUSAGE},
    {NULL, HEAD "  - perplexity: {text: piqa.jsonl, window: 64, limit: 1}\n  - choice: {file: x}\n",
     "recipe.yaml:6:20: ", PARE_EUSAGE},
};

START_TEST(mistakes_in_choices_are_told_before_the_work)
{
    const struct refusal *const c = &refusals[_i];
    const job_place p = make_place();
    char what[1024];
    if (c->labels)
        put(&p, "piqa-labels.lst", c->labels);
    job_recipe(&p, c->recipe);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, what), c->status);
    ck_assert_msg(strstr(what, c->message) != NULL, "%s", what);
    ck_assert(!pare_path_is_directory(job_path(&p, "out.partial")));
    job_remove_directory(p.root);
}
END_TEST

/* Windows that the model writes for it, none of which calibration sees, and of a text. */
START_TEST(a_recipe_can_evaluate_on_calibration_windows_that_are_held_out)
{
#define HELD(samples, from)                                                                        \
    "pare: 1\nmodel: " HEDGE "\nevaluate: held_out\npasses: [{rtn: {bits: 2, group: 32}}]\n"       \
    "calibration: {" from ", samples: " #samples ", window: 16}\n"
    static const char *const from[] = {
        HELD(3, "generate: {}"),
        HELD(3, "text: [" PARE_SOURCE_DIR "/recipes/demo/calibration.txt]")};
    static const size_t windows[] = {8, 32};
    const job_place p = make_place();
    finished f;
    for (size_t i = 0; i < 2; i++) {
        run(&p, from[i], 1, &f);
        const pare_report *const r = &f.result.report;
        ck_assert_uint_eq(r->evaluations, 1);
        ck_assert_int_eq(r->evaluation[0].kind, PARE_EVALUATE_KL);
        ck_assert_str_eq(r->evaluation[0].data, "calibration windows held out");
        ck_assert_uint_eq(r->evaluation[0].after.scored, windows[i] * 15);
        ck_assert(r->evaluation[0].after.kl_mean > 0);
        end(&f);
    }
    job_remove_directory(p.root);
}
END_TEST

/* Nothing is calibrated on the text: what it says is still what the figures are of. */
START_TEST(other_windows_held_out_are_another_job)
{
    char text[1200] = "", what[1024];
    const job_place p = make_place();
    const job_opts o = {.output = "out"};
    finished f;
    for (size_t i = 0; i < 100; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "one two ");
    put(&p, "long.txt", text);
    run(&p, HELD(1, "text: [long.txt]"), 1, &f);
    end(&f);
    ck_assert_msg(job_run(&p, o, what) == PARE_OK, "%s", what); /* already complete */
    for (size_t i = 0; i < strlen(text); i += 8)
        memcpy(text + i, "the", 3);
    put(&p, "long.txt", text);
    ck_assert_int_eq(job_run(&p, o, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, "it was evaluated on other windows held out") != NULL, "%s", what);
    job_remove_directory(p.root);
}
END_TEST

START_TEST(windows_that_cannot_be_held_out_are_told)
{
    static const struct {
        const char *recipe, *what;
    } row[] = {
        {"pare: 1\nmodel: " HEDGE "\nevaluate: held_out\npasses: [rtn]\n",
         "recipe.yaml:3:11: evaluate: held_out has no windows to measure: there is no "
         "calibration"},
        {HELD(1, "text: [short.txt]"),
         "recipe.yaml:3:11: evaluate: held_out has no windows to measure: calibration "
         "takes the only window"},
    };
    const job_place p = make_place();
    char what[1024];
    put(&p, "short.txt",
        "one two three four five six seven eight nine ten one two three four five "
        "six seven eight nine ten one two three four five six seven eight nine");
    for (size_t i = 0; i < 2; i++) {
        job_recipe(&p, row[i].recipe);
        ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, what), PARE_EUSAGE);
        ck_assert_msg(strstr(what, row[i].what) != NULL, "%s", what);
    }
    job_remove_directory(p.root);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("evaluate_job");
    TCase *const t = tcase_create("evaluate_job");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, choices_of_a_recipe_are_those_of_both_models);
    tcase_add_test(t, tasks_of_a_recipe_are_those_of_both_models);
    tcase_add_test(t, the_result_is_told_in_one_vocabulary);
    tcase_add_test(t, samples_are_the_same_for_any_number_of_threads);
    tcase_add_test(t, an_early_end_token_makes_no_model_faster);
    tcase_add_test(t, parts_add_up_to_the_weights);
    tcase_add_test(t, a_quantized_original_has_the_size_of_its_file);
    tcase_add_test(t, bits_of_the_whole_model_are_those_that_inspect_tells);
    tcase_add_test(t, exports_count_in_the_time_of_the_job);
    tcase_add_test(t, what_a_limit_left_out_is_told);
    tcase_add_test(t, a_finished_job_is_of_the_bytes_it_was_evaluated_on);
    tcase_add_test(t, a_manifest_without_hashes_of_evaluations_refuses_nothing);
    tcase_add_test(t, an_unfinished_job_keeps_its_blocks_and_evaluates_what_is_there);
    tcase_add_test(t, a_recipe_can_evaluate_on_calibration_windows_that_are_held_out);
    tcase_add_test(t, other_windows_held_out_are_another_job);
    tcase_add_test(t, windows_that_cannot_be_held_out_are_told);
    tcase_add_loop_test(t, mistakes_in_choices_are_told_before_the_work, 0,
                        sizeof refusals / sizeof *refusals);
    suite_add_tcase(s, t);
    return unit_main(s);
}
