/* Weights too small for their storage: no row stops a job, none becomes zeros in silence, and a
 * linear that would be lost is refused by its name. */
#include "compress/artifact/manifest.h"
#include "tests/unit/job.h"
#include "tests/unit/program.h"
#include "tests/unit/uniform.h"

#define UP "model.layers.1.mlp.up_proj"

static job_place place;

/* Weights of F32, which hold what F16 does not. */
static void setup(void)
{
    tiny_model m = tiny_model_default();
    m.dtype = PARE_F32;
    place = job_make(&m);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

static void recipe(const char *passes)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "pare: 1\nmodel: model\n"
                   "calibration: {tokens: tokens.i32, samples: 12, window: 64}\npasses:\n  - %s\n",
                   passes);
    job_recipe(&place, text);
}

/* Exit code of the recipe under --strict; the log in place of what is printed. */
static const outcome *run(void)
{
    char line[2048];
    (void)snprintf(line, sizeof line, "compress %s --strict --restart --output %s",
                   job_path(&place, "recipe.yaml"), job_path(&place, "out"));
    return call(line, ERR);
}

/* Small scales are no damage. */
static void verify_finds_nothing(const char *passes)
{
    char line[1024];
    (void)snprintf(line, sizeof line, "verify %s", job_path(&place, "out"));
    const outcome *const o = call(line, OUT);
    ck_assert_msg(o->code == 0, "%s: exit %d: %s", passes, o->code, o->text);
}

/* A number of the linear in the manifest; -1: none. */
static double of_up(const char *key)
{
    pare_ctx cx;
    pare_arena a;
    char *text;
    size_t len;
    pare_json *json = NULL;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(
        pare_file_read(&cx, &a, job_path(&place, "out/manifest.json"), 1 << 24, &text, &len),
        PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, "manifest", text, len, len, &json), PARE_OK);
    const pare_json *const up = pare_json_get(pare_json_get(json, "tensors"), UP);
    ck_assert_ptr_nonnull(up);
    const double value = pare_json_number(pare_json_get(up, key), -1);
    pare_json_free(json);
    pare_arena_release(&a);
    return value;
}

/* One row of one linear times `factor`: groups of it that are too small, of how many weights some
 * become 0. */
static const struct {
    const char *passes, *told;
    float factor;
    double groups, least, most;
} rows[] = {
    {"rtn: {bits: 4, group: 32}", "the weights of 2 of 224 groups are too small for scales in F16",
     1e-6F, 2, 1, 47},
    {"rtn: {bits: 8, group: row, activations: int8_token}", "1 of 112 rows", 1e-6F, 1, 0, 47},
    {"rtn: {bits: 4, group: 32, symmetric: false, clip: mse}", "2 of 224 groups", 1e-9F, 2, 48, 48},
    {"gptq: {bits: 4, group: 32, refine: 0}", "2 of 224 groups", 1e-6F, 2, 0, 47},
    {"gptq: {bits: 4, group: 32, act_order: false, clip: none, refine: 0}", "2 of 224", 1e-9F, 2,
     48, 48},
    {"sparsegpt_joint: {sparsity: 0.1, bits: 4, group: 32}", "2 of 224 groups", 1e-6F, 2, 0, 48},
    {"awq\n  - rtn: {bits: 4, group: 32}", "2 of 224 groups", 1e-9F, 2, 40, 48},
    {"smoothquant\n  - rtn: {bits: 8, group: row, activations: int8_token}", "1 of 112 rows", 1e-6F,
     1, 0, 47},
    {"outlier_suppression\n  - rtn: {bits: 8, group: row, activations: int8_token}",
     "1 of 112 rows", 1e-6F, 1, 0, 47},
    {"omniquant: {epochs: 1}\n  - rtn: {bits: 4, group: 32}", "2 of 224 groups", 1e-6F, 2, 0, 47},
    {"rotate\n  - rtn: {bits: 4, group: 32}", "2 of 224 groups", 1e-6F, 2, 0, 47},
    {"nf4: {group: 32}", "2 of 224 groups are too small for the 8-bit scales of NF4", 1e-9F, 2, 48,
     48},
    {"fp8: {}", "1 of 112 rows are too small for scales in F16", 1e-8F, 1, 0, 47},
    {"mxfp4: {}", "2 of 224 groups are too small for the powers of two of MXFP4", 1e-9F, 2, 48, 48},
    {"nvfp4: {targets: \"*.up_proj\"}",
     "3 of 336 groups are too small for the 8-bit scales of NVFP4", 1e-6F, 3, 0, 47},
    {"gptq: {grid: nvfp4, targets: \"*.up_proj\"}",
     "3 of 336 groups are too small for the 8-bit scales of NVFP4", 1e-9F, 3, 48, 48},
    {"ternary: {group: tensor}", "1 of 112 rows are too small for ternary codes", 1e-6F, 1, 48, 48},
    {"ternary: {group: row}", "1 of 112 rows are too small for ternary codes", 1e-6F, 1, 0, 47},
    {"squeezellm: {bits: 3}", "1 of 112 rows are too small for F16", 1e-9F, 1, 48, 48},
    {"billm: {}", "1 of 112 rows are too small for F16", 1e-9F, 1, 48, 48},
    {"llm_int8: {columns: 0.05, threshold: 0}", "1 of 112 rows", 1e-6F, 1, 0, 47},
    {"atom: {outliers: 8, group: 32}", "2 of 224 groups", 1e-6F, 2, 0, 47},
    {"atom: {outliers: 48, group: 32}", "2 of 224 groups", 1e-6F, 2, 0, 47},
    {"magnitude: {sparsity: 0.1, compare: row}", "1 of 112 rows are too small for F16", 1e-9F, 1,
     43, 44},
    {"wanda: {sparsity: 0.1}", "1 of 112 rows are too small for F16", 1e-9F, 1, 43, 44},
    {"ria: {sparsity: 0.1}", "1 of 112 rows are too small for F16", 1e-9F, 1, 1, 48},
    {"sparsegpt: {pattern: 2:4}", "1 of 112 rows are too small for F16", 1e-9F, 1, 24, 24},
};
enum { ROWS = sizeof rows / sizeof *rows };

START_TEST(a_near_dead_row_is_told_and_stops_nothing)
{
    job_scale(&place, 1, "mlp.up_proj", 3, JOB_ALL, rows[_i].factor);
    recipe(rows[_i].passes);
    const outcome *const o = run();
    ck_assert_msg(o->code == 3, "%s: exit %d: %s", rows[_i].passes, o->code, o->text);
    ck_assert_msg(strstr(o->text, UP ": the weights of ") && strstr(o->text, rows[_i].told), "%s",
                  o->text);
    ck_assert_double_eq(of_up("coarse_groups"), rows[_i].groups);
    const double lost = of_up("lost_weights");
    ck_assert_msg(lost >= rows[_i].least && lost <= rows[_i].most, "%s: %g lost", rows[_i].passes,
                  lost);
    verify_finds_nothing(rows[_i].passes);
}
END_TEST

static const char *const lost[] = {
    "rtn: {bits: 4, group: 32}",
    "gptq: {bits: 4, group: 32}",
    "nf4: {group: 32}",
    "fp8: {}",
    "mxfp4: {}",
    "nvfp4: {targets: \"*.up_proj\"}",
    "ternary: {group: row}",
    "squeezellm: {bits: 4}",
    "billm: {}",
    "llm_int8: {columns: 0.05, threshold: 0}",
    "atom: {outliers: 48, group: 32}",
    "magnitude: {sparsity: 0.1}",
    "sparsegpt: {sparsity: 0.1}",
};
enum { LOST = sizeof lost / sizeof *lost };

START_TEST(a_linear_that_would_be_lost_is_refused_by_name)
{
    job_scale(&place, 1, "mlp.up_proj", JOB_ALL, JOB_ALL, 1e-11F);
    recipe(lost[_i]);
    const outcome *const o = run();
    ck_assert_msg(o->code == 4, "%s: exit %d: %s", lost[_i], o->code, o->text);
    ck_assert_msg(strstr(o->text, UP ": the weights of ") && strstr(o->text, "too small for "),
                  "%s", o->text);
}
END_TEST

/* Small weights that F16 scales reach lose nothing, and nothing is said of them. */
START_TEST(a_small_linear_is_stored_as_well_as_any)
{
    recipe("rtn: {bits: 4, group: 32}");
    const outcome *o = run();
    ck_assert_msg(o->code == 0, "exit %d: %s", o->code, o->text);
    const double error = of_up("weight_error");
    job_scale(&place, 1, "mlp.up_proj", JOB_ALL, JOB_ALL, 1e-3F);
    o = run();
    ck_assert_msg(o->code == 0 && !strstr(o->text, "too small"), "exit %d: %s", o->code, o->text);
    ck_assert_double_eq(of_up("coarse_groups"), -1);
    ck_assert_double_le(fabs(of_up("weight_error") / error - 1), 0.03);
}
END_TEST

START_TEST(a_weight_that_f16_holds_as_zero_is_told_in_a_row_of_others)
{
    job_change(&place, UP ".weight", 5, 7, 0, 1e-9F);
    job_change(&place, UP ".weight", 5, 8, 0, 1e-9F);
    recipe("magnitude: {pattern: \"2:4\", skip: \"*.down_proj\"}\n  - rtn: {targets: "
           "\"*.down_proj\", bits: 4, group: 32}");
    const outcome *o = run();
    ck_assert_msg(o->code == 0, "exit %d: %s", o->code, o->text); /* pruned: a pass decided so */
    job_change(&place, UP ".weight", 5, JOB_ALL, 0, 1e-9F);
    job_change(&place, UP ".weight", 5, 7, 0, 1);
    o = run();
    ck_assert_msg(o->code == 3 && strstr(o->text, UP ": 23 weights are too small for F16"),
                  "exit %d: %s", o->code, o->text);
    ck_assert_double_eq(of_up("lost_weights"), 23);
    ck_assert_double_eq(of_up("coarse_groups"), 0);
}
END_TEST

START_TEST(what_was_too_small_outlives_the_journal)
{
    pare_ctx cx;
    pare_arena a;
    unsigned char *bytes;
    size_t len;
    pare_linear_result want[] = {
        {.linear = UNIFORM("b.0.q", 40, 100, 4, 32, false), .method = "gptq"},
        {.linear = UNIFORM("b.0.k", 40, 100, 4, 32, false), .method = "gptq"}};
    want[1].coarse = 3;
    want[1].lost = 41;
    const pare_unit_result in = {.row = want, .rows = 2};
    pare_unit_result u;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_result_encode(&cx, &a, &in, &bytes, &len), PARE_OK);
    ck_assert_msg(pare_result_decode(&cx, &a, bytes, len, &u) == PARE_OK, "%s", cx.what);
    ck_assert(u.row[0].coarse == 0 && u.row[0].lost == 0);
    ck_assert(u.row[1].coarse == 3 && u.row[1].lost == 41);
    const size_t section = 4 + 2 * (8 + 8); /* which may be absent */
    for (size_t n = 0; n < len; n++) {
        const pare_status expected = n == len - section ? PARE_OK : PARE_EFORMAT;
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_result_decode(&cx, &a, bytes, n, &u), expected);
    }
    pare_arena_release(&a);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("coarse_job");
    TCase *const t = tcase_create("coarse_job");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, a_near_dead_row_is_told_and_stops_nothing, 0, ROWS);
    tcase_add_loop_test(t, a_linear_that_would_be_lost_is_refused_by_name, 0, LOST);
    tcase_add_test(t, a_small_linear_is_stored_as_well_as_any);
    tcase_add_test(t, a_weight_that_f16_holds_as_zero_is_told_in_a_row_of_others);
    tcase_add_test(t, what_was_too_small_outlives_the_journal);
    suite_add_tcase(s, t);
    return unit_main(s);
}
