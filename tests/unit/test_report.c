#include <string.h>

#include "compress/report/report.h"
#include "compress/text/units.h"
#include "runtime/arch_internal.h"
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
     .support = {.known = true,
                 .tokens = 96,
                 .columns = 64,
                 .rank = 48,
                 .effective = 12.5,
                 .effective_rank = 6.25,
                 .loudest = 0.125},
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
     .dead = 3,
     .support = {.loudest = 0.5}},
};
static const pare_config config = {
    .arch = &pare__arch_llama, .blocks = 2, .hidden = 64, .kv_heads = 2, .head_dim = 16};
static const pare_kv_format cache = {.method = PARE_KV_INT8};
static const pare_report_eval evaluation[] = {
    {.kind = PARE_EVALUATE_KL,
     .data = "a|b<img>.txt",
     .window = 32,
     .before = {.scored = 31, .ppl = 4},
     .after = {.scored = 31,
               .ppl = 5,
               .has_kl = true,
               .kl_mean = 0.25,
               .top1 = 0.75,
               .kl_histogram = {[0] = 1, [19] = 20, [PARE_KL_BINS - 1] = 10}}},
    {.kind = PARE_EVALUATE_CHOICE,
     .data = "q&a.jsonl",
     .limit = 150,
     .all = 1838,
     .choice_before = {.file = "q&a.jsonl",
                       .complete = true,
                       .result = {.accuracy = 0.5, .accuracy_stderr = 0.04, .n = 150}},
     .choice_after = {.file = "q&a.jsonl",
                      .complete = true,
                      .result = {.accuracy = 0.375, .accuracy_stderr = 0.03, .n = 150},
                      .has_paired = true,
                      .paired = {.gained = 3, .lost = 12, .p = 0.035}}}};
static const pare_report_sample samples[] = {
    {.prompt = "Once <i>", .same = " upon", .before = " a time", .after = " the\xc3\x01 <hr>"},
    {.prompt = "And", .same = " so on", .before = "", .after = ""}};
static const pare_repair repairs[] = {{"a|b<i>.weight", 3}, {"c.bias", 1}};
static const char *const warnings[] = {"calibration: <too> few"};
static const pare_report report = {
    .model = "in&out/",
    .output = "out/<u>bold</u>/",
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
    .evaluation = evaluation,
    .evaluations = 2,
    .samples = {.sample = samples,
                .count = 2,
                .tokens = 48,
                .data = "a|b<img>.txt",
                .before_tok_s = 9.5,
                .after_tok_s = 120},
    .warning = warnings,
    .warnings = 1,
    .sizes = {.before = {[PARE_REPORT_EMBEDDING] = 256 << 10, [PARE_REPORT_MLP] = 768 << 10},
              .after = {[PARE_REPORT_EMBEDDING] = 256 << 10, [PARE_REPORT_MLP] = 192 << 10}},
    .bits_per_weight = 3.5,
    .model_bits_per_weight = 5.25,
    .untied = true,
};

/* Writes a report into a new folder; contents of `name` in the arena. */
static char *write_and_read(pare_arena *a, const pare_report *r, const char *name)
{
    char folder[] = "/tmp/pare-report-XXXXXX";
    char *text = NULL;
    size_t len;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(pare_report_write(a->cx, r, folder), PARE_OK);
    ck_assert_int_eq(
        pare_file_read(a->cx, a, pare_path_join(a, folder, name), 1 << 20, &text, &len), PARE_OK);
    static const char *const file[] = {"README.md", "report.html", "layers.csv", "run.json"};
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(unlink(pare_path_join(a, folder, file[i])), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    return text;
}

static void check_of(const pare_report *r, const char *name, const char *present,
                     const char *absent)
{
    pare_ctx cx;
    pare_arena a;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const char *const text = write_and_read(&a, r, name);
    ck_assert_msg(strstr(text, present) != NULL, "%s lacks %s", name, present);
    ck_assert_msg(strstr(text, absent) == NULL, "%s holds %s", name, absent);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void check_contains(const char *name, const char *present, const char *absent)
{
    check_of(&report, name, present, absent);
}

START_TEST(text_from_outside_stays_text_in_html)
{
    check_contains("report.html", "<title>pare: out/&lt;u&gt;bold&lt;/u&gt;/</title>", "<u>");
    check_contains("report.html", "<h3>a|b&lt;img&gt;.txt</h3>", "<img");
    check_contains("report.html", "<h3>q&amp;a.jsonl</h3>", "q&a.");
    check_contains("report.html", "Warning: calibration: &lt;too&gt; few</p>", "<too");
    check_contains("report.html", "title=\"model.layers.1.mlp.&lt;up&gt;,&quot;x&quot;\"", "<up");
    check_contains("report.html", "Once &lt;i&gt;</span> upon<mark>", "Once <i>");
    check_contains("report.html", "# &lt;/pre&gt;", "# </pre>");
}
END_TEST

/* Which tensors, how many weights, and what was done. */
START_TEST(repaired_weights_are_told_everywhere)
{
    pare_report r = report;
    r.repair = repairs;
    r.repairs = 2;
    r.nan = PARE_NAN_CLAMP;
    check_of(&r, "README.md",
             "## Repaired weights\n\nNaN or infinite in the original; each was set to the "
             "largest finite number (NaN: 0).\n\n| tensor | weights |\n|---|---|\n"
             "| a\\|b&lt;i>.weight | 3 |\n| c.bias | 1 |\n",
             "a|b<i>");
    check_of(&r, "report.html",
             "each set to the largest finite number (NaN: 0)\n<table><tr><th>tensor</th>"
             "<th>weights</th></tr>\n<tr><td>a|b&lt;i&gt;.weight</td><td>3</td></tr>\n",
             "a|b<i>");
    check_of(&r, "run.json",
             "\"repaired\": {\n    \"nan\": \"clamp\",\n    \"tensors\": {\n      "
             "\"a|b<i>.weight\": 3,\n      \"c.bias\": 1\n",
             "\"zero\"");
    check_contains("README.md", "## Evaluation", "Repaired");
    check_contains("report.html", "</html>", "Repaired");
    check_contains("run.json", "\"warnings\"", "repaired");
}
END_TEST

START_TEST(a_limit_stands_where_the_figure_is)
{
    check_contains("README.md", "| q&amp;a.jsonl, first 150 of 1838 items | 150 |", "windows |");
    check_contains("report.html", "; on q&amp;a.jsonl, first 150 of 1838 items</i>", "windows<");
    check_contains("report.html",
                   "<p class=\"dim\">150 items of multiple choice; first 150 of 1838 items</p>",
                   "txt, first");
    check_contains("run.json", "\"limit\": 150,\n      \"available\": 1838,\n", "\"limit\": 0");
}
END_TEST

START_TEST(text_from_outside_stays_text_in_the_model_card)
{
    check_contains("README.md", "a\\|b&lt;img>.txt", "a|b");
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
                   "| bits per weight of the whole model, with the head that the rotation unties | "
                   "| 5.250 |\n",
                   "original model");
    check_contains("report.html",
                   "3.500 bits per weight in 2 linears, 5.250 in the whole model, with the head "
                   "that the rotation unties<",
                   "original model");
    check_contains("run.json", "\"head_untied\": true", "\"head_untied\": false");
}
END_TEST

START_TEST(the_model_card_lists_each_encoding_once)
{
    check_contains("README.md",
                   "| int4 g32 sym | gptq, with too little calibration | 1 | 4.500 |\n| int3 row "
                   "asym | rtn | 1 | 3.",
                   "| int4 g32 sym | gptq | 2");
}
END_TEST

START_TEST(the_card_says_what_the_calibration_lacks)
{
    pare_report r = report;
    r.calibration_windows = 3;
    r.calibration_window = 32;
    r.precision = "bf16";
    check_of(&r, "README.md",
             "\nCalibrated on 3 windows of 32 tokens.\n"
             "Products of the calibration: bf16.\n"
             "That is too little for 1 of 2 linears, which `layers.csv` lists.\n"
             "Warning: calibration: &lt;too> few.\n",
             "<too>");
}
END_TEST

START_TEST(the_table_of_layers_quotes_names_and_leaves_out_what_was_not_measured)
{
    check_contains("layers.csv", "1,\"model.layers.1.mlp.<up>,\"\"x\"\"\",rtn,172,64,3,0,0,", "-1");
    check_contains("layers.csv", "0.01,0.002,0.01,0,0,0,0,0", "nan");
    check_contains("run.json", "\"ppl\": 5", "nan");
    check_contains(
        "layers.csv",
        ",0.01,0.002,0.01,0,0,0,0,0,int4 g32 sym,,,1,0.5,0.75,96,48,12.5,6.25,0.125,1,0,0\n",
        "nan");
    check_contains("layers.csv", ",0.03,,0,0,0,1,3,0,int3 row asym,,,0,0,,,,,,0.5,0,0,0\n", "nan");
}
END_TEST

START_TEST(zeros_of_pruned_linears_are_told_with_what_they_save)
{
    check_contains("README.md", "| like other weights | 1 | 50.00% | 2304 | 2304 | nothing |\n",
                   "bitmask");
    check_contains("README.md", "the pruners keep 75.00% of the same weights", "bitmask");
    check_contains(
        "report.html",
        "<td class=\"left\">too little calibration: rank 48, 12.5 effective samples; 75.0% of the "
        "choice is stable; awq: alpha 0.55, &quot;c&quot;</td>",
        "bitmask");
    check_contains("report.html", "<td class=\"left\">rounded to nearest; 3 dead inputs</td>",
                   "inputs </td>");
    check_contains("report.html",
                   "<td>like other weights</td><td>1</td><td>50.00%</td><td>2304</td>", "bitmask");
}
END_TEST

START_TEST(what_each_step_cost_has_rows_of_its_own)
{
    check_contains("layers.csv",
                   "0,model.layers.0.self_attn.q_proj,awq,64,64,4,32,1,0,0.25,0.0005,,,,,,,,0,"
                   "\"alpha 0.55, \"\"c\"\"\",,,,,,,,,,,\n",
                   "rtn,64");
    check_contains("layers.csv", "q_proj,gptq,64,64,4,32,1,0,0.01,0.0015,,,,,,,,1,,,,,,,,,,,,\n",
                   "rtn,64");
    check_contains("report.html", "awq: alpha 0.55, &quot;c&quot;", "gptq: ");
}
END_TEST

/* Bytes that are no UTF-8 and controls cannot end up in the page: U+FFFD stands for each. */
START_TEST(what_both_models_write_is_marked_where_they_part)
{
    check_contains("report.html", "<mark> the\xef\xbf\xbd\xef\xbf\xbd &lt;hr&gt;</mark>",
                   "\xc3\x01");
    check_contains("report.html", "upon<mark> a time</mark></div>", "<mark></mark>");
    check_contains("report.html",
                   "<small>both models</small><span class=\"prompt\">And</span> so on</div>",
                   "<mark></mark>");
    check_contains("report.html", "9.5 &rarr; 120 tokens/s", "e+");
}
END_TEST

START_TEST(the_result_stands_first)
{
    static const char *const order[] = {
        "Size<b>1.00 MiB &rarr; 448 KiB</b><i>43.8% of the original",
        "Perplexity<b>4.000 &rarr; 5.000</b><i>+25.00%; KL 0.25000, "
        "flips 25.00%; on a|b",
        "Accuracy<b>50.00% &plusmn; 4.00 &rarr; 37.50% &plusmn; 3.00</b>",
        "<h2>Size by part</h2>",
        "<h2>Quality</h2>",
        "<h2>What both models write</h2>",
        "<h2>Error by block and projection</h2>",
        "<h2>Linears</h2>",
        "<h2>How it was made</h2>",
        "<script>"};
    pare_ctx cx;
    pare_arena a;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const char *at = write_and_read(&a, &report, "report.html");
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        at = strstr(at, order[i]);
        ck_assert_msg(at != NULL, "%s is not in its place", order[i]);
    }
    pare_arena_release(&a);
}
END_TEST

/* The bars of a part and of bins are as long as their share. */
START_TEST(bars_show_parts_and_bins)
{
    check_contains("report.html",
                   "<i style=\"width:75.000%;background:#e69f00\" title=\"MLP: 768 KiB\">",
                   "experts");
    check_contains("report.html",
                   "<i style=\"width:18.750%;background:#e69f00\" title=\"MLP: 192 KiB\">",
                   "head</td>");
    check_contains("report.html",
                   "<i style=\"height:100.00%\" title=\"0.25 to 0.5: 20 of 31 positions", "nan");
    check_contains("report.html",
                   "<i style=\"height:50.00%\" title=\"8 and more: 10 of 31 positions", "inf");
    check_contains("report.html",
                   "<i style=\"height:5.00%\" title=\"0 to 9.5e-07: 1 of 31 positions", "inf");
}
END_TEST

/* The least error has the dark end of the ramp, the largest the light one, each a text to read. */
START_TEST(the_map_goes_from_dark_to_light)
{
    pare_report r = report;
    pare_linear_result row[2] = {report.row[0], report.row[1]};
    row[1].output_error = 0.03;
    r.row = row;
    check_of(&r, "report.html",
             "<td style=\"background:rgb(0,34,78);color:#fff\" "
             "title=\"model.layers.0.self_attn.q_proj: 0.002\">2.0e-3</td>",
             "hsl");
    check_of(&r, "report.html", "background:rgb(254,232,56);color:#000\" title=\"model.layers.1",
             "of the weights)");
    check_of(&r, "report.html",
             "<span>least: 0.002</span><span>0.0077</span><span>largest: 0.03</span>", "w: of the");
}
END_TEST

/* Errors of weights are marked beside errors of outputs, and do not share their scale. */
START_TEST(the_map_has_a_scale_for_each_kind_of_error)
{
    pare_report r = report;
    pare_linear_result row[3] = {report.row[0], report.row[1], report.row[1]};
    row[2].linear.name = "model.layers.2.self_attn.q_proj";
    row[2].block = 2;
    row[2].weight_error = 0.3;
    r.row = row;
    r.rows = 3;
    check_of(&r, "report.html", "background:rgb(0,34,78);color:#fff\" title=\"model.layers.1",
             "largest: 0.002");
    check_of(&r, "report.html", ": 0.3 (of the weights)\">3.0e-1 w</td>", "<svg");
    check_of(&r, "report.html",
             "w: of the weights</p>\n<div class=\"ramp\" style=", "of the weights)\">2.0e-3");
}
END_TEST

START_TEST(choices_have_errors_and_a_paired_test)
{
    check_contains("report.html", "<td>after</td><td>37.50% &plusmn; 3.00</td>", "nan");
    check_contains("report.html", "<tr><td>lost</td><td>12</td>", "nan");
    check_contains("README.md", "| 150 | 50.00% +- 4.00 | 37.50% +- 3.00 |", "nan");
    check_contains("README.md", " | 3 | 12 | 0.035 |\n", "nan");
    check_contains("run.json", "\"kind\": \"choice\",", "\"what\"");
    check_contains("run.json", "\"paired\": {\n            \"gained\": 3,", "bytes_before");
}
END_TEST

START_TEST(nothing_evaluated_is_said_plainly)
{
    pare_report r = report;
    r.evaluations = 0;
    r.samples.count = 0;
    check_of(&r, "report.html", "Quality<b>not measured</b><i>Nothing was evaluated", "Perplexity");
    check_of(
        &r, "report.html",
        "<code>pare eval out/&lt;u&gt;bold&lt;/u&gt;/ --text FILE --baseline in&amp;out/</code>",
        "What both models write");
    check_of(&r, "README.md", "Nothing was evaluated, since the recipe does not ask for it.",
             "perplexity before");
    check_of(&r, "run.json", "\"evaluations\": []", "ppl");
}
END_TEST

/* No address, no file beside it; the policy in its head forbids what a change might bring in. */
START_TEST(the_page_needs_no_network)
{
    check_contains("report.html", "content=\"default-src 'none'; style-src 'unsafe-inline'; ",
                   "://");
    check_contains("report.html", "</html>", "src=\"");
    check_contains("report.html", "</html>", "@import");
    check_contains("report.html", "</html>", "url(");
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
    ck_assert_str_eq(pare_units_rate(175123.4, text), "175123");
    ck_assert_str_eq(pare_units_rate(999.96, text), "1000");
    ck_assert_str_eq(pare_units_rate(0.45678, text), "0.4568");
    ck_assert_str_eq(pare_units_rate(1e-9, text), "1e-09");
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
    tcase_add_test(t, the_card_says_what_the_calibration_lacks);
    tcase_add_test(t, the_table_of_layers_quotes_names_and_leaves_out_what_was_not_measured);
    tcase_add_test(t, the_form_of_the_cache_is_told);
    tcase_add_test(t, bits_of_an_untied_head_are_said_to_count);
    tcase_add_test(t, the_model_card_lists_each_encoding_once);
    tcase_add_test(t, zeros_of_pruned_linears_are_told_with_what_they_save);
    tcase_add_test(t, what_each_step_cost_has_rows_of_its_own);
    tcase_add_test(t, what_both_models_write_is_marked_where_they_part);
    tcase_add_test(t, repaired_weights_are_told_everywhere);
    tcase_add_test(t, a_limit_stands_where_the_figure_is);
    tcase_add_test(t, the_result_stands_first);
    tcase_add_test(t, bars_show_parts_and_bins);
    tcase_add_test(t, the_map_goes_from_dark_to_light);
    tcase_add_test(t, the_map_has_a_scale_for_each_kind_of_error);
    tcase_add_test(t, choices_have_errors_and_a_paired_test);
    tcase_add_test(t, nothing_evaluated_is_said_plainly);
    tcase_add_test(t, the_page_needs_no_network);
    tcase_add_test(t, failed_allocations_are_reported_and_leak_nothing);
    tcase_add_test(t, sizes_are_read_as_people_write_them);
    suite_add_tcase(s, t);
    return unit_main(s);
}
