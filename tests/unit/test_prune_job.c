/* Jobs that prune: how pruners go with other passes, what is refused, what is stored. */
#include "compress/artifact/verify.h"
#include "compress/plan/plan_internal.h"
#include "compress/run/run_internal.h"
#include "formats/checkpoint.h"
#include "runtime/linear.h"
#include "tests/unit/job_tiny.h"

#define HEAD                                                                                       \
    "pare: 1\nmodel: model\n"                                                                      \
    "calibration: {tokens: tokens.i32, samples: 12, window: 64}\npasses:\n"

/* How many of how many consecutive weights may stay; 0: half of the matrix. */
typedef struct nm {
    unsigned keep, of;
} nm;

typedef struct composition {
    const char *passes;
    nm rule;
    const char *text[2]; /* in layers.csv and in README.md */
} composition;

static const composition composed[] = {
    {"  - sparsegpt: {sparsity: 0.5}\n  - gptq: {bits: 4, group: 32}\n",
     {0, 0},
     {"int4 g32 sym,", "| like other weights | 14 |"}},
    {"  - wanda: {pattern: \"2:4\"}\n  - rtn: {bits: 4, group: 64}\n",
     {2, 4},
     {"int4 g64 sym 2:4", "| 2:4 | 14 |"}},
    {"  - smoothquant: {}\n  - sparsegpt: {pattern: \"2:4\"}\n"
     "  - rtn: {bits: 8, group: row, activations: int8_token}\n",
     {2, 4},
     {"int8 row sym 2:4", "| bytes and time |"}},
    {"  - magnitude: {pattern: \"1:4\", targets: \"*.self_attn.*\"}\n"
     "  - wanda: {sparsity: 0.5, stability: 3, targets: \"*.mlp.*\"}\n",
     {0, 0},
     {"f16 bitmask", "Chosen anew from disjoint parts of the calibration"}},
    {"  - sparsegpt: {sparsity: 0.6, order: rose, block: 32, stability: 2}\n",
     {0, 0},
     {"60%", "f16 bitmask"}},
    {"  - sparsegpt: {score: isc, order: rose, block: 32, stability: 2, targets: \"*.mlp.*\"}\n"
     "  - sparsegpt: {pattern: \"2:4\", score: isc, targets: \"*.self_attn.*\"}\n",
     {0, 0},
     {"f16 2:4", "| bytes, not time |"}},
    {"  - permute: {}\n  - ria: {pattern: \"2:4\"}\n  - gptq: {bits: 4, group: 32, "
     "true_sequential: false}\n",
     {2, 4},
     {"permute", "| 2:4 | 14 |"}},
    {"  - permute: {span: 8, targets: \"*.down_proj\"}\n  - wanda: {pattern: \"4:8\", targets: "
     "\"*.down_proj\"}\n  - sparsegpt: {pattern: \"1:4\", skip: [\"*.down_proj\", "
     "\"*.1.mlp.*\"]}\n",
     {1, 1},
     {"permute", "f16 bitmask"}},
    {"  - ria: {pattern: \"2:4\"}\n", {2, 4}, {"f16 2:4", "| bytes, not time |"}},
    {"  - magnitude: {pattern: \"1:2\", targets: \"*.mlp.*\"}\n"
     "  - wanda: {sparsity: 0.03, skip: \"*.mlp.*\"}\n",
     {1, 1},
     {"f16 2:4", "| f16 dense | 8 |"}},
    {"  - magnitude: {pattern: \"1:4\"}\n",
     {1, 4},
     {"f16 bitmask, 25.0% kept", "| f16 bitmask | 14 |"}},
    {"  - wanda: {pattern: \"2:8\"}\n"
     "  - rtn: {bits: 8, group: row, activations: int8_token}\n",
     {2, 8},
     {"int8 row sym 2:4", "| bytes and time |"}},
    {"  - sparsegpt_joint: {pattern: \"2:4\", bits: 4, group: 64}\n",
     {2, 4},
     {"int4 g64 sym 2:4", "| 2:4 | 14 |"}},
    {"  - rotate: {online: true}\n  - wanda: {sparsity: 0.5}\n  - awq: {targets: [\"*.gate_proj\", "
     "\"*.up_proj\"]}\n"
     "  - gptq: {bits: 4, group: 32, true_sequential: false}\n",
     {0, 0},
     {"wanda", "| like other weights | 14 |"}},
};
enum { COMPOSED = sizeof composed / sizeof *composed };

/* Everything that quantizes on a grid with a 0. */
static const char *const quantizers[] = {
    "rtn: {bits: 3, group: 32, symmetric: false, clip: mse}",
    "rtn: {bits: 2, group: row}",
    "gptq: {bits: 4, group: 32, symmetric: false, act_order: true}",
    "gptq: {bits: 2, group: row, act_order: true, clip: mse}",
    "gptq: {grid: nf4, bits: 4, group: 64}",
    "gptq: {grid: fp8, bits: 8, group: row}",
    "gptq: {grid: mxfp4, bits: 4, true_sequential: true}",
    "nf4: {group: 32}",
    "fp8: {}",
    "mxfp4: {}",
    "ternary: {}",
    "llm_int8: {columns: 0.05}",
    "atom: {outliers: 8, group: 32}",
};
enum { QUANTIZERS = sizeof quantizers / sizeof *quantizers };

static void recipe(const char *passes)
{
    char text[2048];
    (void)snprintf(text, sizeof text, HEAD "%s", passes);
    job_recipe(&place, text);
}

static void complain(void *self, const char *what)
{
    (void)self;
    (void)fprintf(stderr, "verify: %s\n", what);
}

static void check_verified(const char *output)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_verify_result r;
    ck_assert_int_eq(pare_verify(&cx, job_path(&place, output), complain, NULL, &r), PARE_OK);
    ck_assert_uint_eq(r.findings, 0);
}

/* The plan, made without running it, says what the packed files take. */
static void check_size(const char *output)
{
    pare_ctx cx;
    pare_arena a;
    pare_plan plan;
    struct stat st;
    char path[100], from[512], elsewhere[512];
    uint64_t bytes = 0;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    (void)snprintf(from, sizeof from, "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(elsewhere, sizeof elsewhere, "%s", job_path(&place, "elsewhere"));
    const pare_job job = {.recipe = from, .output = elsewhere};
    ck_assert_msg(pare_plan_make(&cx, &a, &job, &plan) == PARE_OK, "%s", cx.what);
    static const char *const name[] = {"packed-00001-of-00001.safetensors", "packed.index.json"};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", output, name[i]);
        ck_assert_int_eq(stat(job_path(&place, path), &st), 0);
        bytes += (uint64_t)st.st_size;
    }
    ck_assert(plan.ratios ? bytes <= plan.settled.packed_bytes
                          : bytes == plan.settled.packed_bytes);
    pare_plan_close(&plan);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void check_text(const char *output, const char *file, const char *present)
{
    pare_ctx cx;
    pare_arena a;
    char path[100], *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    (void)snprintf(path, sizeof path, "%s/%s", output, file);
    ck_assert_int_eq(pare_file_read(&cx, &a, job_path(&place, path), 1 << 24, &text, &len),
                     PARE_OK);
    ck_assert_msg(strstr(text, present) != NULL, "%s lacks \"%s\":\n%s", path, present, text);
    pare_arena_release(&a);
}

static void check_rule(nm rule, const float *w, size_t n, size_t k)
{
    size_t kept = 0;
    for (size_t i = 0; i < n * k; i++)
        kept += w[i] != 0;
    ck_assert_uint_gt(kept, 0);
    if (!rule.of) {
        ck_assert_uint_le(kept, (n * k + 1) / 2);
        return;
    }
    for (size_t i = 0; i < n * k; i += rule.of) { /* k is a multiple of 4 and 8 */
        size_t stay = 0;
        for (size_t c = 0; c < rule.of; c++)
            stay += w[i + c] != 0;
        ck_assert_msg(stay <= rule.keep, "%zu stay in row %zu from %zu on", stay, i / k, i % k);
    }
}

/* What stands in the finished artifact keeps no more than the rule allows. */
static void check_zeros(const char *output, nm rule)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_model model;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, job_path(&place, output), &ck), PARE_OK);
    ck_assert_msg(pare_model_load(&cx, &a, &ck, &model) == PARE_OK, "%s", cx.what);
    for (size_t i = 0; i < model.config.blocks * PARE_COMMON_ROLES; i++) {
        const pare_linear *const l =
            &model.block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES];
        float *const w = PARE_NEW(&a, float, l->n * l->k);
        ck_assert_ptr_nonnull(w);
        pare_linear_to_f32(&cx, l, w);
        check_rule(rule, w, l->n, l->k);
    }
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

START_TEST(pruned_linears_are_the_same_for_any_threads_and_breaks)
{
    const composition *const c = &composed[_i];
    recipe(c->passes);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "five", .threads = 5}, NULL), PARE_OK);
    job_check_same(&place, "one", "five");
    job_break(&place, "two");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two", .threads = 2}, NULL), PARE_OK);
    job_check_same(&place, "one", "two");
    check_verified("two");
    check_size("one");
    check_zeros("two", c->rule);
    check_text("two", "layers.csv", c->text[0]);
    check_text("two", "README.md", c->text[1]);
    check_text("one", "manifest.json", "\"zeros\": 0.");
}
END_TEST

START_TEST(zeros_stay_zeros_through_every_grid_that_has_one)
{
    char passes[512];
    (void)snprintf(passes, sizeof passes, "  - magnitude: {sparsity: 0.5}\n  - %s\n",
                   quantizers[_i]);
    recipe(passes);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    check_zeros("out", (nm){0, 0});
    check_size("out");
    check_verified("out");
}
END_TEST

START_TEST(transforms_between_leave_zeros)
{
    static const char *const between[] = {"awq: {}", "smoothquant: {alpha: search}",
                                          "outlier_suppression: {skip: \"*.down_proj\"}",
                                          "omniquant: {epochs: 1}"};
    for (size_t i = 0; i < sizeof between / sizeof *between; i++) {
        char passes[512];
        (void)snprintf(passes, sizeof passes,
                       "  - magnitude: {sparsity: 0.5}\n  - %s\n  - rtn: {bits: 4, group: 32}\n",
                       between[i]);
        recipe(passes);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .restart = true}, NULL),
                         PARE_OK);
        check_zeros("out", (nm){0, 0});
    }
}
END_TEST

static void refused(const char *text, const char *fragment)
{
    char what[1024];
    job_recipe(&place, text);
    const pare_status s = job_run(&place, (job_opts){.output = "out"}, what);
    ck_assert_msg(strstr(what, fragment), "\"%s\" lacks \"%s\"", what, fragment);
    ck_assert_msg(strstr(what, "recipe.yaml:"), "\"%s\" has no place", what);
    ck_assert_int_eq(s, PARE_EUSAGE);
    ck_assert(!pare_path_is_directory(job_path(&place, "out.partial")));
}

/* As many go, and others. */
START_TEST(the_score_says_which_weights_go)
{
    for (size_t i = 0; i < 2; i++) {
        recipe(i ? "  - sparsegpt: {pattern: \"2:4\", score: isc}\n"
                 : "  - sparsegpt: {pattern: \"2:4\"}\n");
        ck_assert_int_eq(job_run(&place, (job_opts){.output = i ? "isc" : "obs"}, NULL), PARE_OK);
        check_zeros(i ? "isc" : "obs", (nm){2, 4});
    }
    ck_assert(!job_same_weights(&place, "isc", "obs"));
}
END_TEST

START_TEST(orders_that_the_facts_do_not_allow_are_refused)
{
    static const struct {
        const char *passes, *fragment;
    } order[] = {
        {"  - magnitude: {}\n  - magnitude: {targets: \"*.up_proj\"}\n",
         "6:5: magnitude: model.layers.0.mlp.up_proj is already pruned by pass 0 (magnitude)"},
        {"  - rtn: {}\n  - magnitude: {}\n",
         "6:5: magnitude: model.layers.0.self_attn.q_proj is already quantized by pass 0 (rtn), "
         "and what prunes must stand in front"},
        {"  - magnitude: {targets: \"*.q_proj\"}\n  - gptq: {grid: codebook, bits: 4, group: "
         "row}\n",
         "6:5: gptq: model.layers.0.self_attn.q_proj is pruned by pass 0 (magnitude), and the "
         "levels of this storage have no 0"},
        {"  - magnitude: {}\n  - squeezellm: {bits: 3}\n", "have no 0 to keep"},
        {"  - magnitude: {}\n  - billm: {}\n", "have no 0 to keep"},
        {"  - smoothquant: {}\n  - magnitude: {}\n", "no pass behind it quantizes"},
        {"  - sparsegpt: {pattern: \"2:4\", order: rose}\n",
         "5:5: sparsegpt: order: rose moves columns, and pattern 2:4 needs them where they lie"},
        {"  - permute: {}\n  - ria: {}\n",
         "5:5: permute: no pass behind it prunes model.layers.0.self_attn.o_proj by a pattern N:M"},
        {"  - permute: {}\n  - rtn: {}\n", "by a pattern N:M"},
        {"  - wanda: {targets: \"*.gate_proj\"}\n  - permute: {}\n  - ria: {pattern: \"2:4\", "
         "skip: "
         "\"*.gate_proj\"}\n",
         "permute: model.layers.0.mlp.gate_proj is already pruned by pass 0 (wanda), and what "
         "orders channels must stand in front"},
        {"  - rtn: {targets: \"*.up_proj\"}\n  - permute: {targets: \"*.down_proj\"}\n"
         "  - ria: {pattern: \"2:4\", targets: \"*.down_proj\"}\n",
         "permute: model.layers.0.mlp.up_proj is already quantized by pass 0 (rtn)"},
        {"  - permute: {targets: \"*.q_proj\"}\n  - ria: {pattern: \"2:4\"}\n",
         "leave no input to work on"},
    };
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, HEAD "%s", order[i].passes);
        refused(text, order[i].fragment);
    }
}
END_TEST

START_TEST(pruning_without_anything_to_evaluate_is_refused)
{
    static const char body[] = "passes:\n  - magnitude: {}\n";
    static const struct {
        const char *calibration, *why;
    } lacking[] = {
        {"", "there is no calibration"},
        {"calibration: {generate: {temperature: 1.0}, samples: 4, window: 16}\n",
         "the model's own samples"},
        {"calibration: {tokens: tokens.i32, samples: all, window: 64}\n", "samples: all"},
        {"calibration: {tokens: tokens.i32, samples: 24, window: 64}\n", "takes every window"},
        {"calibration: {tokens: one.i32, samples: 1, window: 64}\n", "takes the only window"},
        {"calibration: {tokens: none.i32, samples: 24, window: 64}\n", "have no whole window"},
    };
    ck_assert(tiny_tokens_write(job_path(&place, "one.i32"), 32, 64, 3));
    ck_assert(tiny_tokens_write(job_path(&place, "none.i32"), 32, 63, 3));
    char text[1024];
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        (void)snprintf(text, sizeof text, "pare: 1\nmodel: model\n%s%s", lacking[i].calibration,
                       body);
        refused(text, lacking[i].why);
    }
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\n%sevaluate:\n"
                   "  - perplexity: {tokens: tokens.i32, window: 32}\n",
                   body);
    job_recipe(&place, text);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "given"}, NULL), PARE_OK);
    check_text("given", "run.json", "\"data\": \"tokens.i32\"");
}
END_TEST

START_TEST(windows_that_calibration_does_not_see_are_evaluated)
{
    recipe("  - magnitude: {}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    check_text("out", "run.json", "\"data\": \"calibration windows held out\"");
    check_text("out", "run.json", "\"tokens\": 756"); /* 12 of the 24 windows, 63 scored of each */
}
END_TEST

/* The figure of the first linear, in the column that layers.csv names so. */
static double stability_of(const char *output)
{
    pare_ctx cx;
    pare_arena a;
    char path[100], *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    (void)snprintf(path, sizeof path, "%s/layers.csv", output);
    ck_assert_int_eq(pare_file_read(&cx, &a, job_path(&place, path), 1 << 24, &text, &len),
                     PARE_OK);
    const char *const head = strchr(text, '\n'), *const name = strstr(text, ",stability,");
    ck_assert(name && name < head);
    const char *at = strchr(head + 1, '\n');
    for (const char *p = name; p < head; p++) /* from the end: an encoding may have commas */
        while (*p == ',' && *--at != ',')
            continue;
    const double stability = strtod(at + 1, NULL);
    pare_arena_release(&a);
    return stability;
}

/* Windows that are all alike choose alike; others do not, and magnitude is no matter of windows. */
START_TEST(the_choice_is_as_stable_as_the_calibration)
{
    recipe("  - wanda: {sparsity: 0.5, stability: 4}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "random"}, NULL), PARE_OK);
    const double random = stability_of("random");
    ck_assert_msg(random > 0.5 && random < 1, "%g", random);
    recipe("  - wanda: {sparsity: 0.5}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "plain"}, NULL), PARE_OK);
    ck_assert_double_eq(stability_of("plain"), 0);
    job_check_same_weights(&place, "random", "plain");
    FILE *const f = fopen(job_path(&place, "tokens.i32"), "wb");
    ck_assert_ptr_nonnull(f);
    for (int32_t i = 0; i < 24 * 64; i++) {
        const int32_t id = i % 64;
        ck_assert_uint_eq(fwrite(&id, sizeof id, 1, f), 1);
    }
    ck_assert_int_eq(fclose(f), 0);
    recipe("  - sparsegpt: {pattern: \"2:4\", stability: 3}\n"
           "  - rtn: {bits: 4, group: 32}\nevaluate:\n"
           "  - perplexity: {tokens: tokens.i32, window: 64}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "alike"}, NULL), PARE_OK);
    ck_assert_double_eq(stability_of("alike"), 1);
    char what[1024];
    recipe("  - wanda: {stability: 13}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "many"}, what), PARE_EUSAGE);
    ck_assert_ptr_nonnull(
        strstr(what, "stability wants 13 parts of the calibration, which has 12"));
    recipe("  - wanda: {stability: 1}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, what), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(what, "recipe.yaml:5:5: wanda: stability compares parts"));
}
END_TEST

/* Windows [first, end) of a stream that tells them apart: each has five tokens of its own. */
static void write_windows(size_t first, size_t end)
{
    FILE *const f = fopen(job_path(&place, "tokens.i32"), "wb");
    ck_assert_ptr_nonnull(f);
    for (size_t i = first * 64; i < end * 64; i++) {
        const int32_t id = (int32_t)(i / 64 * 5 + pare_random_u64(8, 8, i) % 5);
        ck_assert_uint_eq(fwrite(&id, sizeof id, 1, f), 1);
    }
    ck_assert_int_eq(fclose(f), 0);
}

/* Calibrates on all windows of the file; what stays of q of the first block, one byte a weight. */
static size_t choose_q(size_t samples, const char *more, const char *output, uint8_t *stays)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: %zu, window: "
                   "64}\nevaluate:\n  - perplexity: {tokens: tokens.i32, window: 64}\npasses:\n"
                   "  - wanda: {sparsity: 0.5, targets: \"*.0.self_attn.q_proj\"%s}\n",
                   samples, more);
    job_recipe(&place, text);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = output}, NULL), PARE_OK);
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_model model;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, job_path(&place, output), &ck), PARE_OK);
    ck_assert_msg(pare_model_load(&cx, &a, &ck, &model) == PARE_OK, "%s", cx.what);
    const pare_linear *const q = &model.block[0].linear[PARE_ROLE_Q];
    const size_t count = q->n * q->k;
    float *const w = PARE_NEW(&a, float, count);
    ck_assert_ptr_nonnull(w);
    pare_linear_to_f32(&cx, q, w);
    for (size_t i = 0; stays && i < count; i++)
        stays[i] = w[i] != 0;
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    return count;
}

/* Parts are windows 0 .. 2, 3 .. 5 and 6 .. 9: what they choose is what jobs choose that see only
 * them, so that no two share a window and none is left out. */
START_TEST(stability_compares_parts_that_share_no_window)
{
    enum { PARTS = 3, WINDOWS = 10, MOST = 8192 };
    static const size_t edge[PARTS + 1] = {0, 3, 6, WINDOWS};
    static const char *const name[PARTS] = {"first", "second", "third"};
    static uint8_t stays[PARTS][MOST];
    size_t count = 0;
    double sum = 0;
    for (size_t i = 0; i < PARTS; i++) {
        write_windows(edge[i], edge[i + 1]);
        count = choose_q(edge[i + 1] - edge[i], "", name[i], stays[i]);
        ck_assert_uint_le(count, MOST);
    }
    for (size_t i = 0; i < PARTS; i++) {
        size_t both = 0, either = 0;
        for (size_t j = 0; j < count; j++) {
            both += stays[i][j] & stays[(i + 1) % PARTS][j];
            either += stays[i][j] | stays[(i + 1) % PARTS][j];
        }
        sum += (double)both / (double)either;
    }
    write_windows(0, WINDOWS);
    (void)choose_q(WINDOWS, ", stability: 3", "all", NULL);
    ck_assert_double_lt(sum, 0.98 * PARTS);
    ck_assert_double_eq_tol(stability_of("all"), sum / PARTS, 1e-6);
}
END_TEST

/* Every way of storing floats that the rule allows takes as many bytes or more, but for padding. */
START_TEST(zeros_are_left_out_in_the_shortest_way)
{
    static const struct {
        pare_sparsity rule;
        pare_sparsity_store store;
    } cases[] = {
        {{.keep = 2, .of = 4}, PARE_SPARSITY_2_4},
        {{.keep = 1, .of = 2}, PARE_SPARSITY_2_4},
        {{.keep = 1, .of = 4}, PARE_SPARSITY_BITMASK},
        {{.keep = 2, .of = 8}, PARE_SPARSITY_BITMASK},
        {{.keep = 4, .of = 8}, PARE_SPARSITY_BITMASK},
        {{.keep = 1, .of = 3}, PARE_SPARSITY_BITMASK},
        {{.ratio = 0.5}, PARE_SPARSITY_BITMASK},
        {{.ratio = 0.063}, PARE_SPARSITY_BITMASK},
        {{.ratio = 0.0625}, PARE_SPARSITY_NONE},
        {{.ratio = 0.01}, PARE_SPARSITY_NONE},
        {{.keep = 63, .of = 64}, PARE_SPARSITY_NONE},
    };
    enum { N = 96, K = 192 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pare_plan_linear l = {.packed = {.n = N,
                                         .k = K,
                                         .bits = 16,
                                         .symmetric = true,
                                         .encoding = PARE_ENCODING_F16},
                              .sparsity = cases[i].rule};
        pare__plan_store(&l);
        ck_assert_msg(l.packed.sparsity == cases[i].store, "case %zu: %d", i, l.packed.sparsity);
        const uint64_t kept = pare_sparsity_kept(&cases[i].rule, N, K);
        const uint64_t bytes = pare_packed_linear_bytes(&l.packed).total;
        ck_assert_uint_le(bytes, 2 * N * K);
        ck_assert_uint_le(bytes, N * K / 8 + 2 * kept);
        ck_assert_uint_eq(l.packed.kept, l.packed.sparsity == PARE_SPARSITY_BITMASK ? kept : 0);
    }
}
END_TEST

/* A pass that gives a pruned weight a value, as the pipeline sees it. */
START_TEST(a_zero_that_came_back_is_named)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_step step[2] = {{.pass = 0}, {.pass = 1}};
    const pare_plan plan = {.recipe = {.step = step, .steps = 2}};
    pare_run run = {.cx = &cx, .plan = &plan};
    uint8_t bits[3];
    run.part.zero[PARE_ROLE_UP] = bits;
    const pare_plan_linear l = {.packed = {.name = "up", .n = 2, .k = 8},
                                .role = PARE_ROLE_UP,
                                .step = 1,
                                .pruned = true,
                                .quantized = true,
                                .sparsity = {.keep = 2, .of = 4}};
    float w[16] = {1, 0, 0, 2, 0, 3, 4, 0, 0, 0, 0, 0, 0, -1, 0, 0};
    ck_assert_int_eq(pare__run_check_zeros(&run, &l, w, 1), PARE_OK); /* nothing is frozen yet */
    ck_assert_int_eq(pare__run_freeze(&run, &l, w), PARE_OK);
    ck_assert_int_eq(pare__run_check_zeros(&run, &l, w, 1), PARE_OK);
    w[3] = 0; /* rounded to 0: allowed */
    w[7] = -0.0F;
    ck_assert_int_eq(pare__run_check_zeros(&run, &l, w, 1), PARE_OK);
    w[12] = 0.5F;
    ck_assert_int_eq(pare__run_check_zeros(&run, &l, w, 1), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "up: weight [1, 4] was pruned by"));
    pare_ctx_clear(&cx);
    const float full[16] = {1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0};
    ck_assert_int_eq(pare__run_freeze(&run, &l, full), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "row 0 keeps more than 2 of 4 weights from column 0"));
    pare_ctx_clear(&cx);
    pare_plan_linear half = l;
    half.sparsity = (pare_sparsity){.ratio = 0.8};
    ck_assert_int_eq(pare__run_freeze(&run, &half, full), PARE_OK);
    half.sparsity.ratio = 0.81;
    ck_assert_int_eq(pare__run_freeze(&run, &half, full), PARE_OK);
    half.sparsity.ratio = 0.9;
    ck_assert_int_eq(pare__run_freeze(&run, &half, full), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "4 weights are not 0 and the plan keeps 2"));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("prune_job");
    TCase *const t = tcase_create("prune_job");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, pruned_linears_are_the_same_for_any_threads_and_breaks, 0, COMPOSED);
    tcase_add_loop_test(t, zeros_stay_zeros_through_every_grid_that_has_one, 0, QUANTIZERS);
    tcase_add_test(t, transforms_between_leave_zeros);
    tcase_add_test(t, the_score_says_which_weights_go);
    tcase_add_test(t, orders_that_the_facts_do_not_allow_are_refused);
    tcase_add_test(t, pruning_without_anything_to_evaluate_is_refused);
    tcase_add_test(t, windows_that_calibration_does_not_see_are_evaluated);
    tcase_add_test(t, the_choice_is_as_stable_as_the_calibration);
    tcase_add_test(t, zeros_are_left_out_in_the_shortest_way);
    tcase_add_test(t, a_zero_that_came_back_is_named);
    suite_add_tcase(s, t);
    TCase *const parts = tcase_create("parts");
    tcase_add_checked_fixture(parts, setup, teardown);
    tcase_set_timeout(parts, 240);
    tcase_add_test(parts, stability_compares_parts_that_share_no_window);
    suite_add_tcase(s, parts);
    return unit_main(s);
}
