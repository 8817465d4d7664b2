/* Jobs with transforms: what is refused, what is stored, and that nothing depends on the way. */
#include "compress/artifact/verify.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_same.h"
#include "formats/checkpoint.h"
#include "tests/unit/job.h"

#define HEAD                                                                                       \
    "pare: 1\nmodel: model\n"                                                                      \
    "calibration: {tokens: tokens.i32, samples: 20, window: 64}\n"

static const char composed[] = HEAD "passes:\n"
                                    "  - smoothquant: {alpha: search, attended: true, "
                                    "activated: true}\n"
                                    "  - gptq: {bits: 4, group: 32, activations: int8_token}\n";

/* Shifts: norms and linears get biases. */
static const char shifted[] = HEAD "passes:\n"
                                   "  - outlier_suppression: {skip: \"*.down_proj\"}\n"
                                   "  - gptq: {bits: 4, group: 32, activations: int8_tensor}\n";

/* Three steps, values that stay dense among what changes. */
static const char many[] = HEAD "passes:\n"
                                "  - rotate: {online: true}\n"
                                "  - smoothquant: {alpha: 0.4}\n"
                                "  - awq: {skip: [\"*.o_proj\", \"*.down_proj\"]}\n"
                                "  - gptq: {bits: 3, group: 32}\n";

static job_place place;

static void setup(void)
{
    const tiny_model m = tiny_model_default();
    place = job_make(&m);
    job_recipe(&place, composed);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

static void complain(void *self, const char *what)
{
    (void)self;
    (void)fprintf(stderr, "verify: %s\n", what);
}

static void verified(const char *output)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_verify_result r;
    ck_assert_int_eq(pare_verify(&cx, job_path(&place, output), complain, NULL, &r), PARE_OK);
    ck_assert_uint_eq(r.findings, 0);
}

/* A file of an artifact as text; the caller's to free. */
static char *read_text(const char *name)
{
    FILE *const f = fopen(job_path(&place, name), "rb");
    ck_assert_ptr_nonnull(f);
    char *const text = calloc(1, 1 << 20);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_gt(fread(text, 1, (1 << 20) - 1, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    return text;
}

START_TEST(bytes_do_not_depend_on_threads_or_breaks)
{
    static const char *const recipes[] = {composed, shifted, many};
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX];
    job_recipe(&place, recipes[_i]);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    job_hash(&place, "one", first);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "five", .threads = 5}, NULL), PARE_OK);
    job_hash(&place, "five", other);
    ck_assert_str_eq(first, other);
    job_break(&place, "two");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two", .threads = 2}, NULL), PARE_OK);
    job_hash(&place, "two", other);
    ck_assert_str_eq(first, other);
    verified("two");
}
END_TEST

START_TEST(a_changed_tensor_that_was_damaged_is_made_again)
{
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX];
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    job_hash(&place, "one", first);
    job_break(&place, "out");
    const char *const file = job_path(&place, "out.partial/packed-00001-of-00001.safetensors");
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, file, &ck), PARE_OK);
    const pare_tensor *const t = pare_checkpoint_find(&ck, "model.layers.0.input_layernorm.weight");
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->dtype, PARE_F32);
    const off_t at = (off_t)((const unsigned char *)t->data - ck.file[0].data);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    const int fd = open(file, O_RDWR);
    ck_assert_int_eq(pwrite(fd, "\x01", 1, at + 4), 1);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    job_hash(&place, "out", other);
    ck_assert_str_eq(first, other);
}
END_TEST

static void refused(const char *passes, const char *fragment)
{
    char recipe[2048], what[1024];
    (void)snprintf(recipe, sizeof recipe, HEAD "passes:\n%s", passes);
    job_recipe(&place, recipe);
    const pare_status s = job_run(&place, (job_opts){.output = "out"}, what);
    ck_assert_msg(strstr(what, fragment), "\"%s\" lacks \"%s\"", what, fragment);
    ck_assert_int_eq(s, PARE_EUSAGE);
    ck_assert(!pare_path_is_directory(job_path(&place, "out.partial")));
}

START_TEST(orders_that_the_facts_do_not_allow_are_refused_with_their_place)
{
    refused("  - rtn\n  - smoothquant\n",
            "recipe.yaml:6:5: smoothquant: model.layers.0.self_attn.q_proj is already quantized by "
            "pass 0 (rtn)");
    refused("  - awq: {scale: false, clip: false}\n  - rtn\n",
            "recipe.yaml:5:5: awq: scale and clip are both false");
    refused("  - omniquant: {scales: false, clip: false}\n  - rtn\n",
            "recipe.yaml:5:5: omniquant: clip and scales are both false");
    refused("  - smoothquant\n", "recipe.yaml:5:5: smoothquant: no pass behind it quantizes "
                                 "model.layers.0.self_attn.q_proj");
    refused("  - smoothquant\n  - rtn: {skip: \"*.up_proj\"}\n",
            "recipe.yaml:5:5: smoothquant: no pass behind it quantizes "
            "model.layers.0.mlp.up_proj");
    refused("  - smoothquant: {skip: \"*1.self_attn.k_proj\"}\n  - rtn\n",
            "recipe.yaml:5:5: smoothquant: model.layers.1.self_attn.k_proj reads the same input as "
            "model.layers.1.self_attn.v_proj, and targets and skip leave it out");
    refused("  - smoothquant: {targets: \"*.o_proj\"}\n  - rtn\n",
            "recipe.yaml:5:5: smoothquant: targets and skip leave no input to work on; with these "
            "parameters it works on those of self_attn.q_proj, self_attn.k_proj, self_attn.v_proj, "
            "mlp.gate_proj, mlp.up_proj");
    refused("  - rtn: {targets: \"*.v_proj\"}\n"
            "  - smoothquant: {attended: true, targets: \"*.o_proj\"}\n  - rtn: {skip: "
            "\"*.v_proj\"}\n",
            "recipe.yaml:6:5: smoothquant: model.layers.0.self_attn.v_proj is already quantized");
    refused("  - smoothquant: {attended: true}\n  - gptq: {true_sequential: true}\n",
            "recipe.yaml:5:5: smoothquant: true_sequential, which correct implies, quantizes "
            "model.layers.0.self_attn.v_proj before");
    refused("  - smoothquant\n  - rtn\n  - gptq\n", "is already quantized by pass 1 (rtn)");
    refused("  - awq: {skip: [\"*.o_proj\", \"*.down_proj\"]}\n  - billm: {targets: "
            "\"*.k_proj\"}\n  - rtn: {skip: \"*.k_proj\"}\n",
            "recipe.yaml:5:5: awq: its searches round weights as the pass behind it will, and that "
            "one has no grid to say how; put another quantizer there (billm of "
            "model.layers.0.self_attn.k_proj)");
    refused("  - rtn: {skip: \"re:q_proj\"}\n",
            "recipe.yaml:5:17: skip: \"re:q_proj\" matches no linear of the model; the nearest is "
            "\"model.layers.0.self_attn.q_proj\", and an expression must match from the start of "
            "the name");
    refused("  - outlier_suppression\n  - billm\n",
            "recipe.yaml:5:5: outlier_suppression: thresholds are searched by rounding weights");
    refused("  - smoothquant: {alpha: search}\n  - billm\n",
            "recipe.yaml:5:5: smoothquant: alpha: search rounds weights");
    refused("  - gptq: {grid: nf4, bits: 3}\n",
            "3 bits per weight: codes of this grid have 4 bits");
    job_recipe(&place, "pare: 1\nmodel: model\npasses:\n  - smoothquant\n  - rtn\n");
    char what[1024];
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(what, "recipe.yaml:4:5: smoothquant needs calibration data"));
}
END_TEST

START_TEST(orders_that_are_legal_run)
{
    static const char *const passes[] = {
        "  - smoothquant\n  - gptq: {true_sequential: true}\n",
        "  - smoothquant: {alpha: 0.3}\n  - smoothquant: {alpha: 0.8}\n  - rtn\n",
        "  - smoothquant: {skip: \"*.mlp.*\"}\n  - rtn: {targets: \"*.self_attn.*\", bits: 8, "
        "activations: int8_token}\n  - gptq: {targets: \"*.mlp.*\", bits: 3}\n",
        "  - rtn: {targets: \"*.mlp.*\"}\n  - smoothquant: {targets: \"*.self_attn.*\", attended: "
        "true}\n  - gptq: {targets: \"*.self_attn.*\"}\n",
        "  - rtn: {bits: 8, group: row, activations: int8_tensor}\n",
    };
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        char recipe[2048], output[32];
        (void)snprintf(recipe, sizeof recipe, HEAD "passes:\n%s", passes[i]);
        (void)snprintf(output, sizeof output, "out%zu", i);
        job_recipe(&place, recipe);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = output}, NULL), PARE_OK);
        verified(output);
    }
}
END_TEST

/* The plan of the recipe; `check` looks at it. */
/* set: what --set says, or NULL. */
static pare_status plan_of(uint64_t ram_limit, const char *set,
                           void (*check)(const pare_plan *plan))
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_arena a;
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    char recipe[512], output[512];
    (void)snprintf(recipe, sizeof recipe, "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(output, sizeof output, "%s", job_path(&place, "plan"));
    const pare_job job = {.recipe = recipe,
                          .output = output,
                          .ram_limit = ram_limit,
                          .sets = &set,
                          .set_count = set != NULL};
    pare_plan plan;
    const pare_status s = pare_plan_make(&cx, &a, &job, &plan);
    if (s == PARE_OK && check)
        check(&plan);
    pare_plan_close(&plan);
    pare_arena_release(&a);
    return s;
}

static void check_sizes(const pare_plan *plan)
{
    struct stat st;
    ck_assert_int_eq(stat(job_path(&place, "out/packed-00001-of-00001.safetensors"), &st), 0);
    uint64_t bytes = (uint64_t)st.st_size;
    ck_assert_int_eq(stat(job_path(&place, "out/packed.index.json"), &st), 0);
    ck_assert_uint_eq(bytes + (uint64_t)st.st_size, plan->settled.packed_bytes);
}

START_TEST(what_nobody_quantizes_is_stored_changed_and_the_plan_knows_its_size)
{
    /* o alone is quantized: the folds change v, which stays dense */
    job_recipe(&place, HEAD "passes:\n  - smoothquant: {attended: true, targets: \"*.o_proj\"}\n"
                            "  - rtn: {bits: 8, targets: \"*.o_proj\"}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    verified("out");
    ck_assert_int_eq(plan_of(0, NULL, check_sizes), PARE_OK);
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint before, after;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, job_path(&place, "model"), &before), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, job_path(&place, "out"), &after), PARE_OK);
    static const char *const same[] = {"q_proj", "k_proj"};
    char name[128];
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "model.layers.1.self_attn.%s.weight",
                       i < 2 ? same[i] : "v_proj");
        const pare_tensor *const x = pare_checkpoint_find(&before, name);
        const pare_tensor *const y = pare_checkpoint_find(&after, name);
        ck_assert(x && y && x->dtype == y->dtype && x->bytes == y->bytes);
        ck_assert_int_eq(memcmp(x->data, y->data, (size_t)x->bytes) == 0, i < 2);
    }
    pare_checkpoint_close(&before);
    pare_checkpoint_close(&after);
    pare_arena_release(&a);
}
END_TEST

static uint64_t counted;

static void count_ram(const pare_plan *plan)
{
    counted = plan->settled.memory.spilled_bytes;
}

START_TEST(the_plan_counts_the_reference_and_what_statistics_take)
{
    tiny_model m = tiny_model_default();
    m.hidden = 320;
    m.intermediate = 1100;
    job_remove_directory(job_path(&place, "model"));
    ck_assert(tiny_model_write(&m, job_path(&place, "model")));
    static const char *const passes[] = {"", "  - smoothquant: {alpha: 0.5}\n",
                                         "  - smoothquant: {alpha: search}\n"};
    uint64_t bytes[3];
    for (size_t i = 0; i < 3; i++) {
        char recipe[512];
        (void)snprintf(recipe, sizeof recipe,
                       "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 20, "
                       "window: 64, token_weights: even}\npasses:\n%s  - gptq: {correct: none}\n",
                       passes[i]);
        job_recipe(&place, recipe);
        ck_assert_int_eq(plan_of(0, NULL, count_ram), PARE_OK);
        bytes[i] = counted;
    }
    /* q 72 rows, k and v 24, o, gate, up, down once more in floats; then samples of two inputs */
    const uint64_t weights = (72 + 24 + 24 + 72) * 320 + 3 * 1100 * 320;
    ck_assert_uint_ge(bytes[1] - bytes[0], weights * 4);
    ck_assert_uint_lt(bytes[1] - bytes[0], weights * 5);
    ck_assert_uint_ge(bytes[2] - bytes[1], 2 * PARE_STATS_ROWS * 320 * 4);
}
END_TEST

START_TEST(a_composed_job_keeps_to_the_least_memory_that_its_plan_takes)
{
    tiny_model m = tiny_model_default();
    m.hidden = 320;
    m.intermediate = 1100;
    job_remove_directory(job_path(&place, "model"));
    ck_assert(tiny_model_write(&m, job_path(&place, "model")));
    job_recipe(&place, composed);
    static const char set[] = "passes.0.smoothquant.alpha=0.5";
    uint64_t low = 1, high = (uint64_t)1 << 32;
    while (high - low > 1024) {
        const uint64_t mid = low + (high - low) / 2;
        if (plan_of(mid, set, NULL) == PARE_OK)
            high = mid;
        else
            low = mid;
    }
    const job_opts tight = {.output = "out",
                            .ram_limit = high + 1024, /* the job holds longer paths */
                            .sets = {set},
                            .set_count = 1};
    char what[1024];
    ck_assert_msg(job_run(&place, tight, what) == PARE_OK, "%s", what);
}
END_TEST

START_TEST(the_cost_of_each_step_is_told)
{
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    char *const csv = read_text("out/layers.csv"), *const manifest = read_text("out/manifest.json");
    size_t smooth = 0, gptq = 0, alphas = 0;
    for (const char *p = csv; (p = strstr(p, ",smoothquant,")); p++)
        smooth++;
    for (const char *p = csv; (p = strstr(p, ",gptq,")); p++)
        gptq++;
    for (const char *p = manifest; (p = strstr(p, "\"alpha ")); p++)
        alphas++;
    ck_assert_uint_eq(smooth, 14); /* one of each of the seven linears of two blocks */
    ck_assert_uint_eq(gptq, 28);   /* the linear, and its step */
    ck_assert_uint_eq(alphas, 14);
    free(csv);
    free(manifest);
}
END_TEST

/* Makes channel `j` of the attention norm of block 0 64 times as loud and its readers as much
 * smaller: in floats the same model. F16 powers of two, so exactly. */
static void make_outlier(int j)
{
    static const char *const reader[] = {"self_attn.q_proj", "self_attn.k_proj",
                                         "self_attn.v_proj"};
    job_scale(&place, 0, "input_layernorm", JOB_ALL, j, 64);
    for (size_t i = 0; i < 3; i++)
        job_scale(&place, 0, reader[i], JOB_ALL, j, 1 / 64.0F);
}

/* Mean KL that run.json tells of the finished job. */
static double kl_of(const char *passes, const char *output)
{
    char recipe[2048], name[64];
    (void)snprintf(recipe, sizeof recipe,
                   HEAD "passes:\n%sevaluate:\n  - kl: {tokens: tokens.i32, window: 64}\n", passes);
    job_recipe(&place, recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = output, .threads = 2}, NULL), PARE_OK);
    (void)snprintf(name, sizeof name, "%s/run.json", output);
    char *const text = read_text(name);
    const char *const at = strstr(text, "\"mean\":"); /* of "kl" */
    ck_assert_ptr_nonnull(at);
    const double kl = strtod(at + strlen("\"mean\":"), NULL);
    free(text);
    return kl;
}

START_TEST(outlier_channels_break_w8a8_and_smoothing_recovers)
{
    static const char plain[] = "  - rtn: {bits: 8, group: row, activations: int8_token}\n";
    static const char smooth[] = "  - smoothquant: {alpha: 0.5}\n"
                                 "  - rtn: {bits: 8, group: row, activations: int8_token}\n";
    const double quiet = kl_of(plain, "quiet");
    make_outlier(3);
    make_outlier(17);
    make_outlier(40);
    const double loud = kl_of(plain, "loud"), smoothed = kl_of(smooth, "smoothed");
    ck_assert_msg(loud > 10 * quiet, "%g %g %g", quiet, loud, smoothed);
    ck_assert_msg(smoothed < 2 * quiet, "%g %g %g", quiet, loud, smoothed);
}
END_TEST

/* Alphas that the search chose for the inputs of both blocks, added. */
static double alphas_of(const char *activations)
{
    char recipe[512];
    (void)snprintf(recipe, sizeof recipe,
                   HEAD "passes:\n  - smoothquant: {alpha: search}\n"
                        "  - rtn: {bits: 4, group: row, activations: %s}\n",
                   activations);
    job_recipe(&place, recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = activations}, NULL), PARE_OK);
    (void)snprintf(recipe, sizeof recipe, "%s/layers.csv", activations);
    char *const csv = read_text(recipe);
    double sum = 0;
    size_t count = 0;
    for (const char *p = csv; (p = strstr(p, "alpha ")); count++) {
        p += strlen("alpha ");
        sum += strtod(p, NULL);
    }
    ck_assert_uint_eq(count, 2 * 5); /* q, k, v, gate, up */
    free(csv);
    return sum;
}

START_TEST(the_search_of_alpha_knows_how_the_next_pass_rounds_inputs)
{
    make_outlier(3);
    const double fine = alphas_of("int8"), coarse = alphas_of("int4");
    ck_assert_msg(coarse > fine + 0.5, "%g %g", fine, coarse);
}
END_TEST

START_TEST(a_fixed_scale_of_inputs_is_the_range_of_calibration)
{
    job_recipe(&place, HEAD "passes:\n  - rtn: {bits: 8, group: row, activations: int8_tensor}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_model m;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, job_path(&place, "out"), &ck), PARE_OK);
    ck_assert_int_eq(pare_model_load(&cx, &a, &ck, &m), PARE_OK);
    const pare_linear *const l = m.block[0].linear;
    ck_assert_int_eq(l[PARE_ROLE_Q].activation.mode, PARE_ACTIVATION_TENSOR);
    const float q = l[PARE_ROLE_Q].activation.scale, o = l[PARE_ROLE_O].activation.scale;
    /* q, k, v read one input; it is a normed one, so its largest value is a few, and its root mean
     * square is that of the norm's weights, about one */
    ck_assert(q == l[PARE_ROLE_K].activation.scale && q == l[PARE_ROLE_V].activation.scale);
    ck_assert(q * 127 > 1 && q * 127 < 10);
    ck_assert(o > 0 && o != q);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
}
END_TEST

/* Two channels that are far from 0, hardly move, and cancel each other in what reads them: rounding
 * `far` away from 0 drowns the rest, and shifting them to the middle of their ranges changes it. */
START_TEST(a_fold_that_would_change_the_float_model_is_refused)
{
    static const char *const reader[] = {"q_proj", "k_proj", "v_proj"};
    const float far = _i == 0 ? 1 : 8192;
    char name[128], what[1024];
    for (int j = 5; j < 7; j++) {
        job_change(&place, "model.embed_tokens.weight", JOB_ALL, j, 0, 3);
        job_change(&place, "model.layers.0.input_layernorm.weight", JOB_ALL, j, 0, far);
        for (size_t i = 0; i < 3; i++) {
            (void)snprintf(name, sizeof name, "model.layers.0.self_attn.%s.weight", reader[i]);
            job_change(&place, name, JOB_ALL, j, 0, j == 5 ? 0.25F : -0.25F);
        }
    }
    job_recipe(&place, shifted);
    const pare_status s = job_run(&place, (job_opts){.output = "out"}, what);
    ck_assert_int_eq(s, _i == 0 ? PARE_OK : PARE_ENUMERIC);
    if (_i == 0)
        return;
    ck_assert_msg(strstr(what, "outlier_suppression: block 0: the outputs of the float model moved "
                               "by "),
                  "%s", what);
    ck_assert(!pare_path_is_directory(job_path(&place, "out")));
}
END_TEST

/* What folds and rotations are judged by. */
START_TEST(a_value_that_is_no_number_is_not_the_same)
{
    const double by[3] = {1e-9, (double)NAN, 1e-8};
    double moved = 0;
    for (size_t i = 0; i < 3; i++)
        moved = pare__farther(moved, by[i]);
    ck_assert(isnan(moved));
    ck_assert(!pare__same(moved, 1));
    ck_assert(!pare__same((double)INFINITY, (double)INFINITY));
    ck_assert(pare__same(0, 0));
    ck_assert(pare__same(pare__farther(1e-6, 1e-5), 1));
    ck_assert(!pare__same(pare__farther(1e-6, 2e-5), 1));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("transform");
    TCase *const tc = tcase_create("jobs");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, bytes_do_not_depend_on_threads_or_breaks, 0, 3);
    tcase_add_test(tc, a_value_that_is_no_number_is_not_the_same);
    tcase_add_test(tc, a_changed_tensor_that_was_damaged_is_made_again);
    tcase_add_test(tc, orders_that_the_facts_do_not_allow_are_refused_with_their_place);
    tcase_add_test(tc, orders_that_are_legal_run);
    tcase_add_test(tc, what_nobody_quantizes_is_stored_changed_and_the_plan_knows_its_size);
    tcase_add_test(tc, the_plan_counts_the_reference_and_what_statistics_take);
    tcase_add_test(tc, a_composed_job_keeps_to_the_least_memory_that_its_plan_takes);
    tcase_add_loop_test(tc, a_fold_that_would_change_the_float_model_is_refused, 0, 2);
    tcase_add_test(tc, the_cost_of_each_step_is_told);
    tcase_add_test(tc, outlier_channels_break_w8a8_and_smoothing_recovers);
    tcase_add_test(tc, the_search_of_alpha_knows_how_the_next_pass_rounds_inputs);
    tcase_add_test(tc, a_fixed_scale_of_inputs_is_the_range_of_calibration);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
