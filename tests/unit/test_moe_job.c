/* Jobs on mixtures of experts: what stands in for rows that are too few, that no expert depends on
 * who shares a pass with it, every method, breaks, refusals, reports. */
#include "compress/artifact/verify.h"
#include "tests/unit/job_plan.h"
#include "tests/unit/moe_job.h"

static void complain(void *self, const char *what)
{
    (void)self;
    (void)fprintf(stderr, "verify: %s\n", what);
}

static void check_verified(const char *output)
{
    pare_ctx cx;
    pare_verify_result r;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_verify(&cx, job_path(&place, output), complain, NULL, &r), PARE_OK);
    ck_assert_uint_eq(r.findings, 0);
}

static void check_size(const char *output)
{
    struct stat st;
    char path[100];
    uint64_t bytes = 0;
    static const char *const file[] = {"packed-00001-of-00001.safetensors", "packed.index.json"};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", output, file[i]);
        ck_assert_int_eq(stat(job_path(&place, path), &st), 0);
        bytes += (uint64_t)st.st_size;
    }
    const job_plan p = job_plan_of(&place, 0);
    ck_assert(p.ratios ? bytes <= p.packed_bytes : bytes == p.packed_bytes);
}

START_TEST(results_do_not_depend_on_who_shares_a_pass)
{
    static const char *const recipes[] = {
        HEAD(
            ", token_weights: even, experts: {min_tokens: 370}") "  - gptq: {bits: 3, group: 32}\n",
        HEAD(", token_weights: even, experts: {min_tokens: 370, cold: rtn}") "  - gptq: {bits: 4, "
                                                                             "group: 32, "
                                                                             "true_sequential: "
                                                                             "true, act_order: "
                                                                             "true}\n",
        /* some see too few tokens: nothing is gathered of them, and more of them share a pass */
        HEAD(", token_weights: even, experts: {min_tokens: 1}") "  - gptq: {bits: 3, group: 32}\n",
    };
    job_recipe(&place, recipes[_i]);
    const job_plan all = job_plan_of(&place, 0);
    ck_assert_uint_eq(all.memory.chunk, 8);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "all"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "five", .threads = 5}, NULL), PARE_OK);
    job_check_same(&place, "all", "five");
    check_size("all");
    /* Less and less, until one at a time is too much. */
    size_t seen = 8, runs = 0;
    bool spilled = false, spared = false;
    for (uint64_t limit = all.memory.anonymous_bytes; seen > 1; limit -= 8192) {
        const job_plan less = job_plan_of(&place, limit);
        ck_assert_uint_le(less.memory.anonymous_bytes, limit);
        const bool gave_back = (less.memory.spill && !spilled) || (less.memory.sparing && !spared);
        ck_assert(less.memory.chunk <= seen || gave_back);
        spilled = less.memory.spill, spared = less.memory.sparing;
        const bool looks =
            less.memory.chunk < seen && (less.memory.chunk == 5 || less.memory.chunk <= 3);
        seen = less.memory.chunk;
        if (!looks || !seen)
            continue;
        const job_opts opts = {.output = "less", .ram_limit = limit, .restart = true};
        ck_assert_int_eq(job_run(&place, opts, NULL), PARE_OK);
        job_check_same(&place, "all", "less");
        runs++;
    }
    ck_assert_uint_ge(runs, 2);
}
END_TEST

/* Whether two artifacts have the same weights in all experts; or in none of them. */
static bool same_experts(const char *first, const char *second)
{
    pair one, two;
    open_pair(&one, first);
    open_pair(&two, second);
    size_t same = 0, count = 0;
    const pare_config *const c = &one.before.config;
    for (size_t i = 0; i < c->blocks * c->experts * PARE_COMMON_ROLES; i++) {
        const size_t part = i / PARE_COMMON_ROLES % c->experts + 1,
                     b = i / PARE_COMMON_ROLES / c->experts;
        const pare_role role = (pare_role)(i % PARE_COMMON_ROLES);
        const pare_linear *const l = pare_block_linear(&one.after.block[b], part, role);
        if (!l->name)
            continue;
        const float *const x = floats_of(&one, l);
        const float *const y = floats_of(&two, pare_block_linear(&two.after.block[b], part, role));
        same += memcmp(x, y, l->n * l->k * sizeof *x) == 0;
        count++;
    }
    close_pair(&one);
    close_pair(&two);
    ck_assert_msg(same == 0 || same == count, "%zu of %zu are the same", same, count);
    return same == count;
}

START_TEST(white_inputs_round_to_nearest)
{
    static const struct {
        const char *method, *plain;
    } pairs[] = {
        {"  - gptq: {bits: 3, group: 32, clip: none}\n", "  - rtn: {bits: 3, group: 32}\n"},
        {"  - gptq: {bits: 4, group: 64, act_order: true, true_sequential: true, clip: mse}\n",
         "  - rtn: {bits: 4, group: 64, clip: mse}\n"},
        {"  - wanda: {pattern: \"2:4\"}\n", "  - magnitude: {pattern: \"2:4\"}\n"},
    };
    char text[1024];
    static const char evaluate[] = "evaluate:\n  - perplexity: {tokens: tokens.i32, window: 64}\n";
    (void)snprintf(text, sizeof text, HEAD(", experts: {min_tokens: 100000, cold: rtn}") "%s%s",
                   pairs[_i].method, evaluate);
    job_recipe(&place, text);
    listener *const l = calloc(1, sizeof *l);
    ck_assert_ptr_nonnull(l);
    const pare_events events = {listen, l};
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "white", .events = &events}, NULL),
                     PARE_OK);
    for (size_t i = 0; i < l->rows; i++) {
        ck_assert_int_eq(l->row[i].cold, PARE_COLD_RTN);
        ck_assert_double_lt(l->row[i].error, 0); /* not measured */
    }
    free(l);
    (void)snprintf(text, sizeof text, "pare: 1\nmodel: model\npasses:\n%s%s", pairs[_i].plain,
                   evaluate);
    job_recipe(&place, text);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "plain"}, NULL), PARE_OK);
    ck_assert(same_experts("white", "plain"));
    /* no expert whose own tokens are too few for gptq (compress/plan/calibration_need.h) */
    (void)snprintf(text, sizeof text, HEAD(", experts: {min_tokens: 192}") "%s%s", pairs[_i].method,
                   evaluate);
    job_recipe(&place, text);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "warm"}, NULL), PARE_OK);
    ck_assert(!same_experts("warm", "plain"));
}
END_TEST

/* gptq needs three tokens for each input. */
START_TEST(nothing_is_gathered_of_experts_that_get_too_little)
{
    job_recipe(&place, HEAD(", experts: {min_tokens: 1}") "  - gptq: {bits: 4, group: 32}\n");
    listener *const l = calloc(1, sizeof *l);
    ck_assert_ptr_nonnull(l);
    const pare_events events = {listen, l};
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .events = &events}, NULL),
                     PARE_OK);
    size_t few = 0;
    for (size_t i = 0; i < l->rows; i++) {
        const told *const r = &l->row[i];
        const bool starved = r->tokens < 3 * (r->role == PARE_ROLE_DOWN ? 32 : 64);
        ck_assert_msg(r->known == !starved && (r->thin || !starved), "block %zu, part %zu: %lld",
                      r->block, r->part, (long long)r->tokens);
        few += starved;
    }
    ck_assert(few > 0 && few < l->rows);
    free(l);
}
END_TEST

typedef struct stopper {
    volatile int stop;
    pare_event_kind at;
    size_t blocks, resumed;
} stopper;

static void stop_at(void *self, const pare_event *e)
{
    stopper *const s = self;
    s->blocks += e->kind == PARE_EVENT_BLOCK;
    s->resumed += e->kind == PARE_EVENT_RESUME;
    s->stop |= e->kind == s->at;
}

/* Every way to work on one linear after the other. */
static const char *const methods[] = {
    "  - rtn: {bits: 8, group: 32}\n",
    "  - gptq: {bits: 4, group: 32}\n",
    "  - gptq: {bits: 4, group: row, grid: codebook}\n",
    "  - magnitude: {sparsity: 0.5}\n",
    "  - wanda: {pattern: \"2:4\"}\n  - rtn: {bits: 4, group: 64}\n",
    "  - ria: {pattern: \"2:4\"}\n",
    "  - sparsegpt: {sparsity: 0.6, order: rose, block: 32, score: isc}\n  - gptq: {bits: 4, "
    "group: "
    "32}\n",
    "  - sparsegpt_joint: {pattern: \"2:4\", bits: 4, group: 64}\n",
    "  - wanda: {sparsity: 0.5, stability: 3, skip: \"*.experts.*\"}\n",
    "  - nf4: {group: 32}\n",
    "  - mxfp4: {}\n",
    "  - mxfp4: {activations: mxfp4}\n",
    "  - nvfp4: {}\n",
    "  - nvfp4: {activations: nvfp4}\n",
    "  - gptq: {grid: nvfp4}\n",
    "  - exl3: {bits: 2, targets: \"*.layers.1.mlp.experts.*\"}\n",
    "  - fp8: {}\n",
    "  - ternary: {}\n",
    "  - billm: {}\n",
    "  - squeezellm: {bits: 4}\n",
    "  - llm_int8: {columns: 0.05}\n",
    "  - atom: {outliers: 8, group: 32}\n",
    "  - rtn: {bits: 8, group: row, activations: int8_tensor}\n",
    "  - awq: {}\n  - gptq: {bits: 4, group: 32}\n",
    "  - smoothquant: {alpha: 0.5, attended: true, activated: false}\n  - rtn: {bits: 8, group: "
    "32}\n",
    "  - outlier_suppression: {}\n  - rtn: {bits: 8, group: 32}\n",
    "  - permute: {}\n  - wanda: {pattern: \"2:4\"}\n",
    "  - gptq: {bits: 4, group: 32, targets: \"*.experts.*\"}\n",
    "  - gptq: {bits: 4, group: 32, skip: [\"*.experts.*\", \"*.mlp.gate\"]}\n",
    "  - gptq: {bits: 4, group: 32, targets: [\"*.experts.3.*\", "
    "\"*.1.mlp.experts.7.down_proj\"]}\n",
};
enum { METHODS = sizeof methods / sizeof *methods };

START_TEST(every_method_gives_the_same_for_any_threads_and_breaks)
{
    char text[1024], what[1024];
    (void)snprintf(text, sizeof text, HEAD(", experts: {min_tokens: 370}") "%s", methods[_i]);
    job_recipe(&place, text);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    check_size("one");
    check_verified("one");
    stopper s = {.at = PARE_EVENT_BLOCK};
    const pare_events events = {stop_at, &s};
    const job_opts broken = {
        .output = "two", .threads = 3, .events = &events, .interrupt = &s.stop};
    ck_assert_int_eq(job_run(&place, broken, what), PARE_EINTERRUPTED);
    ck_assert_uint_eq(s.blocks, 1);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two", .events = &events}, NULL),
                     PARE_OK);
    ck_assert_uint_eq(s.resumed, 1);
    job_check_same(&place, "one", "two");
}
END_TEST

/* The notice about experts that few tokens reach comes before the first of them is stored. */
START_TEST(a_break_between_experts_costs_the_block_and_no_bytes)
{
    char what[1024];
    job_recipe(&place, HEAD(", experts: {min_tokens: 370}") "  - gptq: {bits: 4, group: 32}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    stopper s = {.at = PARE_EVENT_NOTICE};
    const pare_events events = {stop_at, &s};
    const job_opts broken = {.output = "two", .events = &events, .interrupt = &s.stop};
    ck_assert_int_eq(job_run(&place, broken, what), PARE_EINTERRUPTED);
    ck_assert_uint_eq(s.blocks, 0);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
    job_check_same(&place, "one", "two");
}
END_TEST

/* One job that starts over, with memory that ends at request f->left. */
static pare_status run_short(unit_failing *f)
{
    pare_ctx cx;
    pare_arena a;
    char recipe[512], output[512];
    pare_compress_result result;
    (void)snprintf(recipe, sizeof recipe, "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(output, sizeof output, "%s", job_path(&place, "out"));
    const pare_job job = {.recipe = recipe, .output = output, .restart = true};
    pare_ctx_init(&cx);
    cx.alloc = (pare_alloc){unit_failing_resize, f};
    pare_status s = pare_arena_init(&cx, &a, 0);
    if (s == PARE_OK)
        s = pare_compress(&cx, &a, &job, NULL, &result);
    ck_assert_msg(s == PARE_OK || s == PARE_ENOMEM, "status %d: %s", (int)s, cx.what);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
    ck_assert_int_eq(f->live, 0);
    return s;
}

START_TEST(memory_that_ends_anywhere_is_given_back)
{
    size_t failures = 0;
    pare_status s = PARE_ENOMEM;
    job_recipe(&place, HEAD("") "  - wanda: {sparsity: 0.5}\n  - gptq: {bits: 4, group: 32, "
                                "true_sequential: true}\n");
    for (long n = 0; s != PARE_OK; n += 1 + n / 8) {
        unit_failing f = {.left = n};
        s = run_short(&f);
        failures += s == PARE_ENOMEM;
    }
    ck_assert_uint_gt(failures, 30);
    check_verified("out");
}
END_TEST

static void find_notice(void *self, const pare_event *e)
{
    char *const text = self;
    if (e->kind == PARE_EVENT_NOTICE && strstr(e->text, "block 2 of "))
        (void)snprintf(text, 512, "%s", e->text);
}

static void find_first(void *self, const pare_event *e)
{
    char *const text = self;
    if (e->kind == PARE_EVENT_NOTICE && strstr(e->text, "warning: block 1 of "))
        (void)snprintf(text, 512, "%s", e->text);
}

START_TEST(experts_that_nobody_takes_are_not_missed)
{
    char notice[512] = "";
    const pare_events events = {find_notice, notice};
    job_recipe(&place, HEAD(", experts: {min_tokens: 100000, cold: rtn}") "  - gptq: {targets: "
                                                                          "\"*.experts.3.*\"}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .events = &events}, NULL),
                     PARE_OK);
    ck_assert_msg(
        strstr(notice, "1 of 8 experts gets fewer than 768 tokens of the calibration (3: "), "%s",
        notice);
    ck_assert_ptr_nonnull(strstr(notice, "their inputs count as white noise"));
}
END_TEST

/* A run that goes on tells of blocks that are done, so that its report has all warnings. */
START_TEST(experts_that_few_tokens_reached_are_told_of_again_on_resume)
{
    char what[1024], notice[512] = "";
    stopper s = {.at = PARE_EVENT_BLOCK};
    const pare_events events = {stop_at, &s}, again = {find_first, notice};
    job_recipe(&place, HEAD(", experts: {min_tokens: 100000, cold: rtn}") "  - gptq: {bits: 4}\n");
    ck_assert_int_eq(
        job_run(&place, (job_opts){.output = "out", .events = &events, .interrupt = &s.stop}, what),
        PARE_EINTERRUPTED);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .events = &again}, NULL), PARE_OK);
    ck_assert_msg(strstr(notice, "white noise"), "%s", notice);
}
END_TEST

/* A byte of an expert that changed behind the back of the journal. */
START_TEST(a_damaged_expert_is_made_again_on_resume)
{
    char what[1024], path[512];
    job_recipe(&place, HEAD("") "  - gptq: {bits: 4, group: 32, targets: \"*.experts.*\"}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    stopper s = {.at = PARE_EVENT_BLOCK};
    const pare_events events = {stop_at, &s};
    const job_opts broken = {.output = "out", .events = &events, .interrupt = &s.stop};
    ck_assert_int_eq(job_run(&place, broken, what), PARE_EINTERRUPTED);
    (void)snprintf(path, sizeof path, "%s",
                   job_path(&place, "out.partial/packed-00001-of-00001.safetensors"));
    const int fd = open(path, O_RDWR);
    unsigned char header[8], byte;
    ck_assert_int_eq(pread(fd, header, 8, 0), 8);
    off_t at = 0;
    for (size_t b = 0; b < 8; b++)
        at |= (off_t)header[b] << 8 * b;
    at += 8;
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    job_check_same(&place, "one", "out");
}
END_TEST

START_TEST(what_cannot_be_done_to_experts_is_refused)
{
    static const struct {
        const char *text, *fragment;
    } cases[] = {
        {HEAD("") "  - rtn: {targets: [\"*.experts.*\", \"*.mlp.gate\"]}\n",
         "targets: \"*.mlp.gate\" names model.layers.0.mlp.gate: what picks experts stays"},
        {HEAD("") "  - rtn: {targets: \"*.shared_expert_gate\"}\n",
         "names model.layers.0.mlp.shared_expert_gate: the gate of a shared expert stays as it is"},
        {HEAD("") "  - awq: {targets: \"*.gate_proj\"}\n  - rtn: {}\n",
         "awq: model.layers.0.mlp.shared_expert.gate_proj: the input of MLPs is that of the "
         "router"},
        {HEAD("") "  - smoothquant: {activated: true, targets: \"*.down_proj\"}\n  - rtn: {}\n",
         "behind an activation each expert has its own"},
        {HEAD("") "  - rotate: {}\n  - rtn: {}\n", "its MLP is a mixture of experts"},
        {HEAD("") "  - omniquant: {}\n  - rtn: {}\n", "its MLP is a mixture of experts"},
        {HEAD("") "  - gptq: {correct: gptaq}\n", "correct: pare does not run the float model"},
        {HEAD("") "  - gptq: {tune: true}\n", "tune: experts see too few tokens"},
        {HEAD("") "  - channels: {ratio: 0.5}\n", "its MLP is a mixture of experts"},
        {HEAD("") "  - depth: {blocks: 1}\n", "its MLP is a mixture of experts"},
        {HEAD("") "  - wanda: {ratios: owl}\n", "wanda: ratios: owl compares all linears"},
        {HEAD("") "  - sparsegpt: {stability: 2}\n", "belongs to an expert, which sees too few"},
        {HEAD(", experts: {cold: rtn}") "  - rtn: {activations: int8_tensor}\n",
         "3:60: experts: cold is \"rtn\", and the fixed scale of the inputs of"},
        {HEAD(", experts: {cold: rtn}") "  - nvfp4: {activations: nvfp4}\n",
         "3:60: experts: cold is \"rtn\", and the fixed scale of the inputs of"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[1024];
        job_recipe(&place, cases[i].text);
        const pare_status s = job_run(&place, (job_opts){.output = "out"}, what);
        ck_assert_msg(strstr(what, cases[i].fragment), "\"%s\" lacks \"%s\"", what,
                      cases[i].fragment);
        ck_assert_msg(strstr(what, "recipe.yaml:"), "\"%s\" has no place", what);
        ck_assert_int_eq(s, PARE_EUSAGE);
        ck_assert(!pare_path_is_directory(job_path(&place, "out.partial")));
    }
    teardown();
    setup_family("llama");
    char what[1024];
    job_recipe(&place, HEAD(", experts: {min_tokens: 5}") "  - gptq: {}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "experts: a model of type llama has none"), "%s", what);
}
END_TEST

static void find_idle(void *self, const pare_event *e)
{
    *(bool *)self |=
        e->text && strstr(e->text, "warning: \"experts\" of the calibration does nothing");
}

START_TEST(settings_of_experts_that_nobody_reads_are_told)
{
    static const struct {
        const char *recipe;
        bool idle;
    } row[] = {
        {HEAD(", experts: {min_tokens: 5}") "  - rtn: {group: 32}\n", true},
        {HEAD(", experts: {min_tokens: 5}") "  - gptq: {group: 32, targets: \"*.q_proj\"}\n", true},
        {HEAD("") "  - rtn: {group: 32}\n", false},
        {HEAD(", experts: {min_tokens: 5}") "  - gptq: {group: 32, targets: \"*.experts.0.*\"}\n",
         false}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        bool heard = false;
        const pare_events events = {find_idle, &heard};
        job_recipe(&place, row[i].recipe);
        ck_assert_int_eq(
            job_run(&place, (job_opts){.output = "out", .restart = true, .events = &events}, NULL),
            PARE_OK);
        ck_assert_msg(heard == row[i].idle, "%zu", i);
    }
}
END_TEST

static void check_text(const char *file, const char *present)
{
    pare_ctx cx;
    pare_arena a;
    char path[100], *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    (void)snprintf(path, sizeof path, "out/%s", file);
    ck_assert_int_eq(pare_file_read(&cx, &a, job_path(&place, path), 1 << 24, &text, &len),
                     PARE_OK);
    ck_assert_msg(strstr(text, present) != NULL, "%s lacks \"%s\"", path, present);
    pare_arena_release(&a);
}

START_TEST(the_report_says_how_many_tokens_reach_experts)
{
    job_recipe(&place, HEAD(", experts: {min_tokens: 370}") "  - gptq: {bits: 4, group: 32}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    check_text("layers.csv", ",stability,tokens_seen,rank,effective_samples,"
                             "effective_rank,loudest_token,thin,coarse,lost,expert,tokens,cold\n");
    check_text("layers.csv", ",fill\n");
    check_text("layers.csv", "0,model.layers.0.mlp.experts.7.down_proj,gptq,64,32,4,0,1,");
    check_text("run.json", "\"cold_policy\": \"fill\"");
    check_text("run.json", "\"in_block\": 8");
    check_text("run.json", "\"least_tokens\": ");
    check_text("README.md",
               "Each token runs 4 of the 8 experts of a block. Tokens of the calibration");
    check_text("README.md", "Fewer than 370 tokens reach ");
    check_text("README.md", " experts; other tokens make up for those that are missing.");
    check_text("manifest.json", "\"cold\": \"fill\"");
    check_text("manifest.json", "\"expert\": 7");
    check_text("report.html", "4 of 8 run for a token; least ");
    check_text("report.html", "tokens: fill");
}
END_TEST

/* Linears of experts that get too little, and those of cold ones. */
static void count_thin(const char *experts, size_t *thin, size_t *cold)
{
    char text[512];
    (void)snprintf(text, sizeof text, HEAD(", token_weights: even%s") "%s", experts,
                   "  - gptq: {bits: 3, group: 32}\n");
    job_recipe(&place, text);
    listener *const l = calloc(1, sizeof *l);
    ck_assert_ptr_nonnull(l);
    const pare_events events = {listen, l};
    const job_opts opts = {.output = "out", .restart = true, .events = &events};
    ck_assert_int_eq(job_run(&place, opts, NULL), PARE_OK);
    *thin = *cold = 0;
    for (size_t i = 0; i < l->rows; i++) {
        *thin += l->row[i].thin;
        *cold += l->row[i].cold == PARE_COLD_FILL;
    }
    free(l);
}

/* 768 tokens for inputs of 64 (192 needed) and 32. */
START_TEST(experts_get_what_gptq_needs_unless_told_otherwise)
{
    size_t thin, cold;
    count_thin("", &thin, &cold);
    ck_assert_msg(thin == 0 && cold > 0, "%zu thin, %zu cold", thin, cold);
    check_text("run.json", "\"min_tokens\": 192");
    count_thin(", experts: {min_tokens: 1}", &thin, &cold);
    ck_assert_msg(thin > 0 && cold == 0, "%zu thin, %zu cold", thin, cold);
}
END_TEST

/* What is told of calibration that is too little. */
typedef struct advice {
    bool told, fills;
} advice;

static void hear(void *self, const pare_event *e)
{
    advice *const a = self;
    const bool is = e->kind == PARE_EVENT_NOTICE && strstr(e->text, ": too little for ") != NULL;
    a->told |= is;
    a->fills |= is && strstr(e->text, "or experts: {min_tokens: auto}") != NULL;
}

/* Under cold: rtn no other tokens come to them, whatever min_tokens is. */
START_TEST(more_tokens_of_others_are_advised_where_they_are_filled_up)
{
    static const char *const cold[] = {"fill", "rtn"};
    for (size_t i = 0; i < 2; i++) {
        char text[512];
        advice a = {false, false};
        const pare_events events = {hear, &a};
        (void)snprintf(text, sizeof text, HEAD(", experts: {min_tokens: 1, cold: %s}") "%s",
                       cold[i], "  - gptq: {bits: 3, group: 32}\n");
        job_recipe(&place, text);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = cold[i], .events = &events}, NULL),
                         PARE_OK);
        ck_assert_msg(a.told && a.fills == (i == 0), "cold: %s", cold[i]);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("moe_job");
    TCase *const t = tcase_create("moe_job");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, results_do_not_depend_on_who_shares_a_pass, 0, 3);
    tcase_add_test(t, nothing_is_gathered_of_experts_that_get_too_little);
    tcase_add_loop_test(t, white_inputs_round_to_nearest, 0, 3);
    tcase_add_loop_test(t, every_method_gives_the_same_for_any_threads_and_breaks, 0, METHODS);
    tcase_add_test(t, a_break_between_experts_costs_the_block_and_no_bytes);
    tcase_add_test(t, memory_that_ends_anywhere_is_given_back);
    tcase_add_test(t, experts_that_nobody_takes_are_not_missed);
    tcase_add_test(t, experts_that_few_tokens_reached_are_told_of_again_on_resume);
    tcase_add_test(t, a_damaged_expert_is_made_again_on_resume);
    tcase_add_test(t, what_cannot_be_done_to_experts_is_refused);
    tcase_add_test(t, settings_of_experts_that_nobody_reads_are_told);
    tcase_add_test(t, the_report_says_how_many_tokens_reach_experts);
    tcase_add_test(t, experts_get_what_gptq_needs_unless_told_otherwise);
    tcase_add_test(t, more_tokens_of_others_are_advised_where_they_are_filled_up);
    suite_add_tcase(s, t);
    return unit_main(s);
}
