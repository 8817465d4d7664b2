/* The time of a job from rates that are given: what each phase is made of. */
#include <stddef.h>

#include "compress/plan/plan_time.h"
#include "compress/run/run_phases.h"
#include "runtime/count.h"
#include "tests/data/families.h"
#include "tests/unit/job_tiny.h"

/* One of everything in a second, but 0.25 tokens in a byte of text. */
static pare_plan_rates rates_of(double rate)
{
    return (pare_plan_rates){.read = rate,
                             .scan = rate,
                             .sha256 = rate,
                             .copy = rate,
                             .write = rate,
                             .sync = 1.0 / rate,
                             .gemm = rate,
                             .gemm_half = rate,
                             .gemm_bf16 = rate,
                             .gram_bf16 = rate,
                             .gemm_codes = rate,
                             .gram = rate,
                             .round = rate,
                             .store = rate,
                             .compare = rate,
                             .tokenizer = 1.0 / rate,
                             .encode = rate,
                             .tokens = 0.25};
}

typedef struct planned {
    pare_plan_estimate time;
    uint64_t input, packed, other;
} planned;

#define HEDGE PARE_SOURCE_DIR "/recipes/demo/hedge"

static const pare_variants *variants; /* of the jobs that are planned, or NULL */

/* The estimate for a model, passes and what else the recipe has, with a thread for each CPU. */
static planned plan_of_model(const char *model, const char *rest, double rate)
{
    pare_ctx cx;
    pare_arena a;
    pare_plan plan;
    char text[1024];
    (void)snprintf(text, sizeof text, "pare: 1\nmodel: %s\noutput: out\n%s\n", model, rest);
    job_recipe(&place, text);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_pool_new(&cx, 0, &cx.pool), PARE_OK);
    const pare_job job = {
        .recipe = job_path(&place, "recipe.yaml"), .plan_only = true, .variants = variants};
    ck_assert_msg(pare_plan_make(&cx, &a, &job, &plan) == PARE_OK, "%s", cx.what);
    planned out = {
        .input = plan.input_bytes, .packed = plan.settled.packed_bytes, plan.settled.other_bytes};
    const pare_plan_rates rates = rates_of(rate);
    ck_assert_int_eq(pare_plan_time_at(&cx, &plan, &plan.settled, &rates, &out.time), PARE_OK);
    pare_plan_close(&plan);
    pare_arena_release(&a);
    pare_pool_free(&cx, cx.pool);
    return out;
}

static planned plan_of(const char *rest, double rate)
{
    return plan_of_model("model", rest, rate);
}

#define RTN  "passes: [{rtn: {bits: 4, group: 32}}]\n"
#define GPTQ "passes: [{gptq: {bits: 4, group: 32}}]\n"

START_TEST(the_sum_is_that_of_its_phases_and_half_as_much_at_twice_the_speed)
{
    const char *const job = GPTQ "calibration: {tokens: tokens.i32, samples: 8, window: 32}\n"
                                 "evaluate: [{kl: {tokens: tokens.i32, window: 32}}]\n"
                                 "export: [{format: safetensors, path: floats}]";
    const planned once = plan_of(job, 1e9), twice = plan_of(job, 2e9);
    double sum = 0;
    for (size_t i = 0; i < PARE_PLAN_PHASES; i++) {
        sum += once.time.phase[i];
        ck_assert_double_eq_tol(twice.time.phase[i], once.time.phase[i] / 2, 1e-12);
        if (i != PARE_PHASE_TOKENS && i != PARE_PHASE_TRAIN &&
            i != PARE_PHASE_SCORE) /* the data is tokens already */
            ck_assert_msg(once.time.phase[i] > 0, "%s", pare_plan_phase_name(i));
    }
    ck_assert_double_eq_tol(once.time.seconds, sum, 1e-12);
    ck_assert(once.time.samples > 0 && once.time.samples < once.time.phase[PARE_PHASE_EVALUATE]);
    ck_assert_double_eq_tol(twice.time.samples, once.time.samples / 2, 1e-12);
}
END_TEST

/* Beside it, what is held out is scored twice, however short the training is. */
START_TEST(training_takes_time_by_its_tokens)
{
    static const char job[] =
        "passes: [{wanda: {pattern: 2:4}}, {distill: {tokens: %d, batch: 8}}]\n"
        "calibration: {tokens: tokens.i32, samples: 8, window: 32}\n";
    double time[3], scores = 0;
    for (int i = 0; i < 3; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, job, 256 + 512 * i);
        const planned p = plan_of(text, 1e9);
        time[i] = p.time.phase[PARE_PHASE_TRAIN];
        ck_assert_double_gt(p.time.phase[PARE_PHASE_SCORE], 0);
        ck_assert(i == 0 || p.time.phase[PARE_PHASE_SCORE] == scores);
        scores = p.time.phase[PARE_PHASE_SCORE];
    }
    const double trained = time[2] - time[1]; /* of 512 tokens */
    ck_assert_double_gt(trained, 0);
    ck_assert_double_eq_tol(time[1] - time[0], trained, 1e-9 * time[2]);
    ck_assert_double_eq_tol(time[0], trained / 2, 1e-9 * time[2]);
}
END_TEST

START_TEST(a_job_without_data_reads_hashes_packs_and_writes)
{
    const planned p = plan_of(RTN, 1);
    const double *const phase = p.time.phase;
    const double cpus = (double)pare_cpu_count();
    ck_assert_double_ge(phase[PARE_PHASE_CHECK] * cpus, (double)p.input);
    ck_assert_double_eq_tol(phase[PARE_PHASE_HASH] * cpus, (double)(p.input + p.packed), 1e-6);
    ck_assert_double_gt(phase[PARE_PHASE_PASSES], 0);
    /* at one weight a second nothing but the weights counts, each once */
    const double each = phase[PARE_PHASE_STORE] / phase[PARE_PHASE_PASSES];
    ck_assert_msg(each > 0.1 && each < 10, "%g", each);
    ck_assert_double_gt(phase[PARE_PHASE_WRITE], (double)(p.packed + p.other));
    static const pare_plan_phase none[] = {PARE_PHASE_TOKENS, PARE_PHASE_WAVE, PARE_PHASE_STATS,
                                           PARE_PHASE_EVALUATE, PARE_PHASE_EXPORT};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ck_assert_double_eq(phase[none[i]], 0);
}
END_TEST

START_TEST(calibration_takes_as_long_as_it_has_tokens)
{
    const planned few =
        plan_of(GPTQ "calibration: {tokens: tokens.i32, samples: 20, window: 32}", 1);
    const planned many =
        plan_of(GPTQ "calibration: {tokens: tokens.i32, samples: 40, window: 32}", 1);
    const planned all =
        plan_of(GPTQ "calibration: {tokens: tokens.i32, samples: all, window: 32}", 1);
    static const pare_plan_phase linear[] = {PARE_PHASE_WAVE, PARE_PHASE_STATS};
    for (size_t i = 0; i < 2; i++) {
        const double one = few.time.phase[linear[i]];
        ck_assert_double_eq_tol(many.time.phase[linear[i]] / one, 2, 1e-9);
        ck_assert_double_eq_tol(all.time.phase[linear[i]] / one, 64.0 * 24 / (20 * 32), 1e-9);
    }
    static const pare_plan_phase same[] = {PARE_PHASE_PASSES, PARE_PHASE_STORE};
    for (size_t i = 0; i < 2; i++) { /* nothing gets too little */
        ck_assert_double_eq(few.time.phase[same[i]], many.time.phase[same[i]]);
        ck_assert_double_eq(few.time.phase[same[i]], all.time.phase[same[i]]);
    }
}
END_TEST

START_TEST(an_evaluation_counts_whole_windows_and_each_model_that_runs)
{
    static const char *const kinds[] = {"perplexity", "kl"};
    double seconds[2];
    char text[256];
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(text, sizeof text, RTN "evaluate: [{%s: {tokens: tokens.i32, window: 32}}]",
                       kinds[i]);
        seconds[i] = plan_of(text, 1).time.phase[PARE_PHASE_EVALUATE];
    }
    ck_assert_double_gt(seconds[1], seconds[0]); /* logits are compared, too */
    static const size_t tokens[] = {60, 119, 120};
    double windows[3];
    for (size_t i = 0; i < 3; i++) {
        ck_assert(tiny_tokens_write(job_path(&place, "few.i32"), tiny_model_default().vocab,
                                    tokens[i], 3));
        windows[i] = plan_of(RTN "evaluate: [{perplexity: {tokens: few.i32, window: 60}}]", 1)
                         .time.phase[PARE_PHASE_EVALUATE];
    }
    ck_assert_double_eq(windows[1], windows[0]);       /* a partial one is dropped */
    ck_assert_double_gt(windows[2], 1.5 * windows[0]); /* samples are the same */
}
END_TEST

/* A model whose blocks have attention or a recurrent state, and a file of tokens for it. */
static void open_mixed(pare_ctx *cx, pare_arena *a, size_t tokens, pare_checkpoint *ck,
                       pare_model *m)
{
    pare_ctx_init(cx);
    ck_assert_int_eq(pare_arena_init(cx, a, 0), PARE_OK);
    ck_assert(family_write(family_find("qwen3_5_text"), job_path(&place, "mixed")));
    ck_assert(tiny_tokens_write(job_path(&place, "few.i32"), 64, tokens, 3));
    ck_assert_int_eq(pare_checkpoint_open(cx, a, job_path(&place, "mixed"), ck), PARE_OK);
    ck_assert_int_eq(pare_model_load(cx, a, ck, m), PARE_OK);
}

/* Its operations take several times as long as those of a product. */
START_TEST(an_evaluation_counts_recurrent_states)
{
    enum { TOKENS = 64, WINDOW = 32 };
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_model m;
    pare_work w;
    open_mixed(&cx, &a, TOKENS, &ck, &m);
    ck_assert_int_eq(
        pare_work_of(&cx, &m, (pare_batch){TOKENS / WINDOW, WINDOW, 0}, PARE_SITES, NULL, &w),
        PARE_OK);
    const double products = w.products[PARE_WORK_COMMON] + w.products[PARE_WORK_HEAD];
    const planned p =
        plan_of_model("mixed", RTN "evaluate: [{perplexity: {tokens: few.i32, window: 32}}]", 1);
    ck_assert_double_gt(w.scan, 0);
    ck_assert_double_ge(p.time.phase[PARE_PHASE_EVALUATE],
                        2.2 * (products + w.attend + 5 * w.scan)); /* both models, and norms */
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
}
END_TEST

/* Squares of what goes into each site of the blocks as they were loaded. */
static double squares_of(const pare_model *m)
{
    double sum = 0;
    for (size_t b = 0; b < m->config.blocks; b++) {
        double width[PARE_SITES] = {0};
        for (pare_role r = 0; r < PARE_ROLES; r++) {
            const pare_linear *const l = pare_block_linear(&m->block[b], 0, r);
            if (l->name)
                width[pare_arch_linear(pare_block_arch(&m->config, b), 0, r)->site] = (double)l->k;
        }
        for (pare_site s = 0; s < PARE_SITES; s++)
            sum += width[s] * width[s];
    }
    return sum;
}

START_TEST(statistics_are_those_of_each_block)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_model m;
    open_mixed(&cx, &a, 640, &ck, &m);
    const planned p = plan_of_model(
        "mixed",
        "passes: [{gptq: {bits: 4, group: 32, correct: none}}]\n"
        "calibration: {tokens: few.i32, samples: 20, window: 32, token_weights: even}",
        1);
    const double squares = 20 * 32 * squares_of(&m);
    ck_assert_double_eq_tol(p.time.phase[PARE_PHASE_STATS] / squares, 1, 1e-9);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
}
END_TEST

/* A token of a choice file costs about what one of a text does. */
START_TEST(a_choice_evaluation_runs_both_models)
{
    static const char item[] =
        "{\"context\": \"the king of the\", \"choices\": [\" hedge and so on\", "
        "\" other one\"], \"answer\": 0}\n";
    const size_t bytes = strlen("the king of the hedge and so on other one");
    double chosen[2], read[2];
    char text[256];
    for (size_t i = 0; i < 2; i++) {
        const size_t items = 200 * (i + 1);
        FILE *const f = fopen(job_path(&place, "items.jsonl"), "w");
        ck_assert_ptr_nonnull(f);
        for (size_t k = 0; k < items; k++)
            ck_assert_int_ge(fputs(item, f), 0);
        ck_assert_int_eq(fclose(f), 0);
        chosen[i] = plan_of_model(HEDGE, RTN "evaluate: [{choice: {file: items.jsonl}}]", 1)
                        .time.phase[PARE_PHASE_EVALUATE];
        (void)snprintf(text, sizeof text,
                       RTN "evaluate: [{perplexity: {text: " PARE_SOURCE_DIR
                           "/recipes/demo/evaluation.txt, window: 32, limit: %zu}}]",
                       4 * (i + 1));
        read[i] = plan_of_model(HEDGE, text, 1).time.phase[PARE_PHASE_EVALUATE];
    }
    const double of_choice = (chosen[1] - chosen[0]) / (200 * 0.25 * (double)bytes);
    const double of_text = (read[1] - read[0]) / (4 * 32);
    ck_assert_msg(of_choice > 0.7 * of_text && of_choice < 1.5 * of_text, "%g and %g", of_choice,
                  of_text);
}
END_TEST

START_TEST(a_transform_and_an_export_come_on_top)
{
    const planned plain =
        plan_of(GPTQ "calibration: {tokens: tokens.i32, samples: 8, window: 32}", 1);
    const planned more = plan_of("passes: [{awq: {}}, {gptq: {bits: 4, group: 32}}]\n"
                                 "calibration: {tokens: tokens.i32, samples: 8, window: 32}\n"
                                 "export: [{format: safetensors, path: floats}]",
                                 1);
    ck_assert_double_gt(more.time.phase[PARE_PHASE_PASSES],
                        1.5 * plain.time.phase[PARE_PHASE_PASSES]);
    ck_assert_double_gt(more.time.phase[PARE_PHASE_EXPORT], (double)more.packed);
}
END_TEST

START_TEST(a_head_costs_what_a_linear_of_its_size_does)
{
    static const char calibration[] = "calibration: {tokens: tokens.i32, samples: 8, window: 32}\n";
    char text[256];
    (void)snprintf(text, sizeof text, RTN "%s", calibration);
    const planned plain = plan_of(text, 1);
    (void)snprintf(text, sizeof text, RTN "%shead: {rtn: {bits: 8, group: 32}}", calibration);
    const planned more = plan_of(text, 1);
    ck_assert_double_eq(plain.time.tables, 0);
    ck_assert_double_gt(more.time.tables, 0);
    ck_assert_double_eq_tol(more.time.phase[PARE_PHASE_PASSES],
                            plain.time.phase[PARE_PHASE_PASSES] + more.time.tables, 1e-6);
}
END_TEST

/* The search of exl3 does not depend on what is known of the inputs. */
START_TEST(the_plain_form_of_exl3_searches_as_long)
{
    const planned few = plan_of("passes:\n  - exl3: {targets: \"*.mlp.up_proj\"}\n"
                                "calibration: {tokens: tokens.i32, samples: 1, window: 2}\n",
                                1);
    const planned many = plan_of("passes:\n  - exl3: {targets: \"*.mlp.up_proj\"}\n"
                                 "calibration: {tokens: tokens.i32, samples: 32, window: 32}\n",
                                 1);
    ck_assert_double_gt(few.time.phase[PARE_PHASE_PASSES],
                        0.5 * many.time.phase[PARE_PHASE_PASSES]);
}
END_TEST

/* Who watches the base of a search waits for all that is made of a linear. */
START_TEST(the_base_of_a_search_takes_as_long_as_its_variants)
{
    static const char targets[] = "passes: [{%s: {bits: 4, targets: \"*.mlp.up_proj\"}}]\n"
                                  "calibration: {tokens: tokens.i32, samples: 32, window: 32}\n";
    char search[256], base[256];
    (void)snprintf(search, sizeof search, targets, "budget");
    (void)snprintf(base, sizeof base, targets, "gptq");
    pare_step step = {0};
    while (pare_passes[step.pass] != pare_pass_find("budget"))
        step.pass++;
    const pare_variants made = {.step = &step};
    const planned whole = plan_of(search, 1);
    variants = &made;
    const planned watched = plan_of(base, 1);
    variants = NULL;
    ck_assert_double_eq(watched.time.phase[PARE_PHASE_PASSES], whole.time.phase[PARE_PHASE_PASSES]);
}
END_TEST

/* How many there are of a text is known once it is read: here a quarter of its bytes is taken. */
START_TEST(passes_that_learn_on_blocks_count_all_samples)
{
    static const char *const pass[] = {"signround: {steps: 9}", "omniquant: {epochs: 3}"},
                             *const samples[] = {"32", "all"};
    FILE *const f = fopen(job_path(&place, "text.txt"), "w");
    ck_assert(f && fprintf(f, "%4096s", "") == 4096 && fclose(f) == 0);
    for (size_t i = 0; i < 2; i++) {
        double passes[2];
        for (size_t j = 0; j < 2; j++) {
            char text[256];
            (void)snprintf(text, sizeof text,
                           "passes: [%s, rtn: {group: 32}]\n"
                           "calibration: {text: text.txt, samples: %s, window: 32}\n",
                           pass[i], samples[j]);
            passes[j] = plan_of_model(HEDGE, text, 1).time.phase[PARE_PHASE_PASSES];
        }
        ck_assert_double_eq(passes[0], passes[1]);
    }
}
END_TEST

/* With 128 tokens all linears get it, with 256 down alone, whose inputs are the most. */
START_TEST(the_plain_form_of_a_linear_is_rounding_alone)
{
    double passes[3];
    for (int i = 0; i < 3; i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       GPTQ "calibration: {tokens: tokens.i32, samples: %d, window: 32}",
                       (int[]){4, 8, 17}[i]);
        passes[i] = plan_of(text, 1).time.phase[PARE_PHASE_PASSES];
    }
    const double rounding = plan_of("passes: [{rtn: {bits: 4, group: 32, clip: weighted}}]\n"
                                    "calibration: {tokens: tokens.i32, samples: 4, window: 32}",
                                    1)
                                .time.phase[PARE_PHASE_PASSES];
    ck_assert_double_gt(passes[1], 2 * passes[0]);
    ck_assert_double_gt(passes[2], 1.5 * passes[1]);
    ck_assert_double_eq_tol(passes[0], rounding, 1e-6 * rounding);
}
END_TEST

/* A rate of 0 would make what it measures take no time. */
START_TEST(typical_rates_are_all_there)
{
    const double *const rate = (const double *)&pare__typical_rates;
    for (size_t i = 0; i < offsetof(pare_plan_rates, disk) / sizeof *rate; i++)
        ck_assert_msg(rate[i] > 0, "rate %zu", i);
}
END_TEST

START_TEST(rates_of_this_machine_are_all_there)
{
    pare_ctx cx;
    pare_arena a;
    pare_plan plan;
    pare_plan_rates r;
    job_recipe(&place, "pare: 1\nmodel: model\noutput: out\n" RTN);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const pare_job job = {.recipe = job_path(&place, "recipe.yaml"), .plan_only = true};
    ck_assert_msg(pare_plan_make(&cx, &a, &job, &plan) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_plan_rates_measure(&cx, &plan, &r) == PARE_OK, "%s", cx.what);
    const double rate[] = {r.read, r.scan, r.sha256, r.copy,       r.write, r.sync,
                           r.gemm, r.gram, r.round,  r.gemm_codes, r.store, r.compare};
    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++)
        ck_assert_msg(rate[i] > 0, "rate %zu", i);
    ck_assert(r.tokenizer == 0 && r.encode == 0 && r.tokens == 0); /* no text to read */
    pare_plan_close(&plan);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
    DIR *const d = opendir(place.root); /* what was written for the probe is gone */
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e; (e = readdir(d));)
        ck_assert_ptr_null(strstr(e->d_name, ".pare-plan"));
    (void)closedir(d);
}
END_TEST

/* What "pare plan recipe.yaml" with these options prints, in a shell that ran `before`. */
static char *printed_after(const char *before, const char *options)
{
    static char text[1 << 16];
    char command[1024];
    (void)snprintf(command, sizeof command, "%s '%s' plan '%s' --threads 1 %s", before,
                   PARE_PROGRAM, job_path(&place, "recipe.yaml"), options);
    FILE *const f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    ck_assert_int_eq(pclose(f), 0);
    return text;
}

static char *printed(const char *options)
{
    return printed_after("", options);
}

START_TEST(a_busy_machine_makes_the_range_wider)
{
    pare_plan_estimate e = {.seconds = 100};
    pare_plan_time_range(&e, 0, 2, 2);
    ck_assert(e.least == 65 && e.most == 160 && e.load == 0);
    pare_plan_time_range(&e, 1, 64, 64); /* one of 65 tasks */
    ck_assert(e.load == 0 && e.least > 63 && e.most == 160);
    pare_plan_time_range(&e, 6, 2, 2); /* eight tasks on two CPUs: a quarter of the time without */
    ck_assert(e.load == 6 && e.cpus == 2 && e.least == 65.0 / 4 && e.most == 160);
    pare_plan_time_range(&e, 6, 64, 2); /* there is room for all */
    ck_assert(e.load == 0 && e.least == 65);
}
END_TEST

START_TEST(a_model_narrower_than_a_group_of_the_probe_has_a_plan)
{
    tiny_model m = tiny_model_default();
    m.hidden = 16;
    m.heads = m.kv_heads = 2;
    m.head_dim = 8;
    ck_assert(tiny_model_write(&m, job_path(&place, "narrow")));
    job_recipe(&place, "pare: 1\nmodel: narrow\noutput: out\npasses: [{rtn: {group: row}}]\n");
    ck_assert_ptr_nonnull(strstr(printed(""), "\ntime              about "));
}
END_TEST

/* As on a full disk, or one that is mounted read-only. */
START_TEST(a_plan_needs_no_disk_to_write_on)
{
    static const char refuse[] = "trap '' XFSZ; ulimit -f 0;";
    job_recipe(&place, "pare: 1\nmodel: model\noutput: out\n" RTN);
    char *text = printed_after(refuse, "");
    ck_assert_msg(strstr(text, "\nwarning           the disk was not measured, ") != NULL, "%s",
                  text);
    ck_assert_ptr_nonnull(strstr(text, "\ntime              about "));
    text = printed_after(refuse, "--format json");
    ck_assert_msg(strstr(text, "the disk was not measured, ") != NULL, "%s", text);
    ck_assert_ptr_null(strstr(printed(""), "not measured"));
}
END_TEST

START_TEST(the_plan_folds_equal_blocks_and_names_time_and_memory)
{
    static const char *const line[] = {"\nmodel.layers.{0,1}.mlp.down_proj  ",
                                       "\nallocated memory  ",
                                       "\nmapped files      ",
                                       "of allocated memory, of ",
                                       "\ntime              about ",
                                       "writing "};
    job_recipe(&place, "pare: 1\nmodel: model\noutput: out\n" RTN);
    char *text = printed("");
    for (size_t i = 0; i < sizeof line / sizeof *line; i++)
        ck_assert_msg(strstr(text, line[i]) != NULL, "no \"%s\" in\n%s", line[i], text);
    text = printed("--all");
    ck_assert_ptr_null(strstr(text, "{0,1}"));
    ck_assert_ptr_nonnull(strstr(text, "\nmodel.layers.1.mlp.down_proj  "));
    pare_ctx cx;
    pare_json *json;
    pare_ctx_init(&cx);
    text = printed("--format json");
    ck_assert_int_eq(pare_json_parse(&cx, "plan", text, strlen(text), 1 << 16, &json), PARE_OK);
    const pare_json *const phases = pare_json_get(json, "phases");
    double sum = 0;
    ck_assert_uint_eq(pare_json_count(phases), PARE_PLAN_PHASES);
    for (size_t i = 0; i < PARE_PLAN_PHASES; i++)
        sum += pare_json_number(pare_json_get(pare_json_at(phases, i), "seconds"), -1);
    ck_assert_double_eq_tol(pare_json_number(pare_json_get(json, "seconds"), -1), sum, 1e-9);
    const pare_json *const memory = pare_json_get(json, "memory");
    ck_assert_int_gt(pare_json_integer(pare_json_get(memory, "anonymous_bytes"), 0), 1 << 19);
    ck_assert_int_gt(pare_json_integer(pare_json_get(memory, "mapped_bytes"), 0), 1 << 12);
    ck_assert_uint_eq(pare_json_count(pare_json_get(json, "linears")), 14);
    pare_json_free(json);
}
END_TEST

#define DEMO PARE_SOURCE_DIR "/recipes/demo"
static void count_evaluations(void *self, size_t phase, const char *what)
{
    size_t *const steps = self;
    const bool samples = strstr(what, "samples of both models") != NULL;
    steps[0] += phase == PARE__PHASE_EVALUATE;
    steps[1] += phase == PARE__PHASE_SAMPLES;
    ck_assert_int_eq(samples, phase == PARE__PHASE_SAMPLES);
}

/* They take no time to speak of, and what is left would be thought to be another evaluation. */
START_TEST(samples_are_no_evaluation_in_what_is_left)
{
    job_place p = {.root = "samples.XXXXXX"};
    size_t steps[2] = {0};
    ck_assert_ptr_nonnull(mkdtemp(p.root));
    job_recipe(&p,
               "pare: 1\nmodel: " DEMO "/hedge\npasses: [rtn: {bits: 4, group: 32}]\n"
               "evaluate: [perplexity: {text: " DEMO "/evaluation.txt, window: 32, limit: 2}]\n");
    ck_assert_int_eq(
        job_run(&p, (job_opts){.output = "out", .step = count_evaluations, .self = steps}, NULL),
        PARE_OK);
    ck_assert(steps[0] == 1 && steps[1] == 1);
    job_remove_directory(p.root);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("plan_time");
    TCase *const t = tcase_create("plan_time");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, the_sum_is_that_of_its_phases_and_half_as_much_at_twice_the_speed);
    tcase_add_test(t, samples_are_no_evaluation_in_what_is_left);
    tcase_add_test(t, training_takes_time_by_its_tokens);
    tcase_add_test(t, a_job_without_data_reads_hashes_packs_and_writes);
    tcase_add_test(t, calibration_takes_as_long_as_it_has_tokens);
    tcase_add_test(t, an_evaluation_counts_whole_windows_and_each_model_that_runs);
    tcase_add_test(t, an_evaluation_counts_recurrent_states);
    tcase_add_test(t, statistics_are_those_of_each_block);
    tcase_add_test(t, a_choice_evaluation_runs_both_models);
    tcase_add_test(t, a_head_costs_what_a_linear_of_its_size_does);
    tcase_add_test(t, the_plain_form_of_exl3_searches_as_long);
    tcase_add_test(t, the_base_of_a_search_takes_as_long_as_its_variants);
    tcase_add_test(t, a_transform_and_an_export_come_on_top);
    tcase_add_test(t, passes_that_learn_on_blocks_count_all_samples);
    tcase_add_test(t, the_plain_form_of_a_linear_is_rounding_alone);
    tcase_add_test(t, typical_rates_are_all_there);
    tcase_add_test(t, rates_of_this_machine_are_all_there);
    tcase_add_test(t, a_busy_machine_makes_the_range_wider);
    tcase_add_test(t, a_model_narrower_than_a_group_of_the_probe_has_a_plan);
    tcase_add_test(t, a_plan_needs_no_disk_to_write_on);
    tcase_add_test(t, the_plan_folds_equal_blocks_and_names_time_and_memory);
    suite_add_tcase(s, t);
    return unit_main(s);
}
