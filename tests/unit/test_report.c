#include <string.h>

#include "compress/report/report.h"
#include "compress/report/units.h"
#include "runtime/file.h"
#include "tests/unit/uniform.h"
#include "tests/unit/unit.h"

static pare_linear_result rows[] = {
    {.linear = UNIFORM("model.layers.0.self_attn.q_proj", 64, 64, 4, 32, true),
     .method = "gptq",
     .weight_error = 0.01,
     .output_error = 0.002,
     .damp = 0.01,
     .pruned = true,
     .zeros = 0.5,
     .stability = 0.75,
     .support = {.known = true, .tokens = 96, .columns = 64, .rank = 48, .effective = 12.5},
     .thin = true,
     .step = {{.step = 0,
               .pass = "awq",
               .output_error = 0.0005,
               .weight_error = 0.25,
               .note = "alpha 0.55, \"c\""},
              {.step = 1, .pass = "gptq", .output_error = 0.0015, .weight_error = 0.01}},
     .steps = 2},
    {.linear = UNIFORM("model.layers.1.mlp.<up>,\"x\"", 172, 64, 3, 0, false),
     .block = 1,
     .method = "rtn",
     .weight_error = 0.03,
     .output_error = -1,
     .fallback = true,
     .dead = 3},
};
static const pare_config config = {
    .arch = pare_archs, .blocks = 2, .hidden = 64, .kv_heads = 2, .head_dim = 16};
static const pare_kv_format cache = {.method = PARE_KV_INT8};
static const pare_report_eval evaluation = {.what = "kl",
                                            .data = "a|b<script>.txt",
                                            .window = 32,
                                            .before = {.scored = 31, .ppl = 4},
                                            .after = {.scored = 31, .ppl = 5, .has_kl = true}};
static const pare_report report = {
    .model = "in&out/",
    .output = "out/<b>bold</b>/",
    .recipe_file = "r.yaml",
    .recipe_text = "pare: 1 # </pre><b> ````\n",
    .program = "pare 0",
    .cpu = "ref",
    .blas = "BLAS",
    .host = "\"host\"",
    .started = "2026-01-01T00:00:00Z",
    .config = &config,
    .kv = &cache,
    .row = rows,
    .rows = 2,
    .evaluation = &evaluation,
    .evaluations = 1,
    .bytes_before = 1 << 20,
    .bytes_after = 1 << 18,
    .bits_per_weight = 3.5,
    .model_bits_per_weight = 5.25,
    .untied = true,
};

/* Writes the report into a new folder; contents of `name` in the arena. */
static char *write_and_read(pare_arena *a, const char *name)
{
    char folder[] = "/tmp/pare-report-XXXXXX";
    char *text = NULL;
    size_t len;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(pare_report_write(a->cx, &report, folder), PARE_OK);
    ck_assert_int_eq(
        pare_file_read(a->cx, a, pare_path_join(a, folder, name), 1 << 20, &text, &len), PARE_OK);
    static const char *const file[] = {"README.md", "report.html", "layers.csv", "run.json"};
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(unlink(pare_path_join(a, folder, file[i])), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    return text;
}

static void check_contains(const char *name, const char *present, const char *absent)
{
    pare_ctx cx;
    pare_arena a;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const char *const text = write_and_read(&a, name);
    ck_assert_msg(strstr(text, present) != NULL, "%s lacks %s:\n%s", name, present, text);
    ck_assert_msg(strstr(text, absent) == NULL, "%s holds %s:\n%s", name, absent, text);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

START_TEST(text_from_outside_stays_text_in_html)
{
    check_contains("report.html", "&lt;b&gt;bold&lt;/b&gt;", "<b>");
    check_contains("report.html", "a|b&lt;script&gt;.txt", "<script");
    check_contains("report.html", "# &lt;/pre&gt;", "# </pre>");
}
END_TEST

START_TEST(text_from_outside_stays_text_in_the_model_card)
{
    check_contains("README.md", "a\\|b&lt;script>.txt", "a|b");
    check_contains("README.md", "\n`````yaml\n", "\n````yaml\n");
    check_contains("README.md", "rounded to nearest", "<up>");
}
END_TEST

/* 2 blocks, keys and values, 2 heads of 16: F32, or a byte each and an F16 scale per head. */
START_TEST(the_form_of_the_cache_is_told)
{
    check_contains("README.md", "key/value cache (int8) | 512 | 144 |\n", "(none)");
    check_contains("report.html", "int8, 512 &rarr; 144 bytes per token", "none,");
}
END_TEST

START_TEST(bits_of_an_untied_head_are_said_to_count)
{
    check_contains("README.md",
                   "| bits of all tensors per weight of the original model, with the head that the "
                   "rotation unties | | 5.250 |\n",
                   "whole model");
    check_contains("report.html",
                   "3.500 in 2 linears, 5.250 of all tensors per weight of the original model, "
                   "with the head that the rotation unties<",
                   "whole model");
    check_contains("run.json", "\"head_untied\": true", "\"head_untied\": false");
}
END_TEST

START_TEST(the_model_card_lists_each_encoding_once)
{
    check_contains("README.md",
                   "| int4 g32 sym | gptq | 1 | 4.500 |\n| int3 row asym | rtn | 1 | 3.",
                   "| int4 g32 sym | gptq | 2");
}
END_TEST

START_TEST(the_table_of_layers_quotes_names_and_leaves_out_what_was_not_measured)
{
    check_contains("layers.csv", "1,\"model.layers.1.mlp.<up>,\"\"x\"\"\",rtn,172,64,3,0,0,", "-1");
    check_contains("layers.csv", "0.01,0.002,0.01,0,0,0,0,0", "nan");
    check_contains("run.json", "\"ppl\": 5", "nan");
    check_contains("layers.csv",
                   ",0.01,0.002,0.01,0,0,0,0,0,int4 g32 sym,,,1,0.5,0.75,96,48,12.5,1\n", "nan");
    check_contains("layers.csv", ",0.03,,0,0,0,1,3,0,int3 row asym,,,0,0,,,,,0\n", "nan");
}
END_TEST

START_TEST(zeros_of_pruned_linears_are_told_with_what_they_save)
{
    check_contains("README.md", "| like other weights | 1 | 50.00% | 2304 | 2304 | nothing |\n",
                   "bitmask");
    check_contains("README.md", "the pruners keep 75.00% of the same weights", "bitmask");
    check_contains("report.html",
                   "<td>too little calibration: rank 48, 12.5 effective samples; 75.0% of the "
                   "choice is stable; awq: alpha 0.55, &quot;c&quot;</td>",
                   "bitmask");
    check_contains("report.html", "<td>rounded to nearest; 3 dead inputs</td>", "inputs </td>");
    check_contains("report.html",
                   "<td>like other weights</td><td>1</td><td>50.00%</td><td>2304</td>", "bitmask");
}
END_TEST

START_TEST(what_each_step_cost_has_rows_of_its_own)
{
    check_contains("layers.csv",
                   "0,model.layers.0.self_attn.q_proj,awq,64,64,4,32,1,0,0.25,0.0005,,,,,,,,0,"
                   "\"alpha 0.55, \"\"c\"\"\",,,,,,,\n",
                   "rtn,64");
    check_contains("layers.csv", "q_proj,gptq,64,64,4,32,1,0,0.01,0.0015,,,,,,,,1,,,,,,,,\n",
                   "rtn,64");
    check_contains("report.html", "awq: alpha 0.55, &quot;c&quot;", "gptq: ");
}
END_TEST

START_TEST(failed_allocations_are_reported_and_leak_nothing)
{
    pare_status s = PARE_ENOMEM;
    char folder[] = "/tmp/pare-report-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (long n = 0; s != PARE_OK; n++) {
        unit_failing f = {.left = n};
        pare_ctx cx;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        s = pare_report_write(&cx, &report, folder);
        ck_assert_int_eq(f.live, 0);
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        ck_assert_int_lt(n, 1000);
    }
    static const char *const file[] = {"README.md", "report.html", "layers.csv", "run.json"};
    ck_assert_int_eq(chdir(folder), 0);
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(unlink(file[i]), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(sizes_are_read_as_people_write_them)
{
    uint64_t bytes = 0;
    ck_assert(pare_units_parse_bytes("1.5GiB", &bytes) && bytes == 3ull << 29);
    ck_assert(pare_units_parse_bytes("500MB", &bytes) && bytes == 500000000);
    static const char *const bad[] = {"", "GiB", "-1", "0", "8Gigs", "0x10", "1e30", "8 GiB"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!pare_units_parse_bytes(bad[i], &bytes), "\"%s\" was taken", bad[i]);
    char text[PARE_UNIT_TEXT];
    ck_assert_str_eq(pare_units_bytes(640, text), "640 B");
    ck_assert_str_eq(pare_units_bytes(10485760, text), "10.0 MiB");
    ck_assert_str_eq(pare_units_seconds(245.2, text), "4 min 05 s");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("report");
    TCase *const t = tcase_create("report");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, text_from_outside_stays_text_in_html);
    tcase_add_test(t, text_from_outside_stays_text_in_the_model_card);
    tcase_add_test(t, the_table_of_layers_quotes_names_and_leaves_out_what_was_not_measured);
    tcase_add_test(t, the_form_of_the_cache_is_told);
    tcase_add_test(t, bits_of_an_untied_head_are_said_to_count);
    tcase_add_test(t, the_model_card_lists_each_encoding_once);
    tcase_add_test(t, zeros_of_pruned_linears_are_told_with_what_they_save);
    tcase_add_test(t, what_each_step_cost_has_rows_of_its_own);
    tcase_add_test(t, failed_allocations_are_reported_and_leak_nothing);
    tcase_add_test(t, sizes_are_read_as_people_write_them);
    suite_add_tcase(s, t);
    return unit_main(s);
}
