#define HOME "pare-init"

#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/file.h"
#include "tests/data/families.h"
#include "tests/data/tiny_model.h"
#include "tests/unit/program.h"

#include "tests/unit/init_case.h"

static bool no_disk, no_memory;

int __real_statvfs64(const char *path, struct statvfs *fs);
int __wrap_statvfs64(const char *path, struct statvfs *fs);
int __wrap_statvfs64(const char *path, struct statvfs *fs)
{
    const int rc = __real_statvfs64(path, fs);
    if (no_disk)
        fs->f_bavail = 0;
    return rc;
}

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
    return no_memory && name == _SC_PHYS_PAGES ? 1 : __real_sysconf(name);
}

START_TEST(every_preset_fits_every_family_or_says_why_not)
{
    const family *const f = &families[_i];
    const pare_init init = {.recipe = HOME "/r.yaml",
                            .model_path = HOME "/model",
                            .data_path = HOME "/data.i32",
                            .tokens = true,
                            .model = "model",
                            .data = "data.i32",
                            .name = f->name};
    ck_assert(family_write(f, HOME "/model"));
    ck_assert(tiny_tokens_write(HOME "/data.i32", FAMILY_VOCAB, 40 * 256, 1));
    for (size_t i = 0; i < pare_init_preset_count(); i++) {
        const char *const preset = pare_init_preset_at(i).name;
        pare_init_result r;
        const pare_status s = pare_init_preset(&cx, &arena, &init, preset, &r);
        if (s == PARE_EUSAGE && strcmp(preset, "gguf-q4") == 0) {
            ck_assert_msg(strstr(cx.what, "the preset does not fit this model: gguf:"), "%s: %s",
                          f->name, cx.what);
            ck_assert_msg(strstr(cx.what, "; presets without an export: w4a16, w8a8, "), "%s",
                          cx.what);
            ck_assert_msg(strcmp(f->name, "llama") != 0, "%s", cx.what);
            pare_ctx_clear(&cx);
            continue;
        }
        if (s == PARE_EUSAGE && strcmp(preset, "exl3") == 0) {
            ck_assert_msg(strstr(cx.what, "exl3 has tiles of 16 x 16 weights, which do not divide"),
                          "%s: %s", f->name, cx.what);
            pare_ctx_clear(&cx);
            continue;
        }
        ck_assert_msg(s == PARE_OK, "%s %s: %s", f->name, preset, cx.what);
        check_planned(&r, f->name);
    }
}
END_TEST

START_TEST(the_group_is_the_largest_that_divides_the_inputs)
{
    static const struct {
        size_t hidden, intermediate;
        const char *group, *export;
    } row[] = {
        {128, 256, "group: 128}", "format: \"compressed-tensors\""},
        {128, 192, "group: 64}", "format: \"compressed-tensors\""},
        {64, 96, "group: 32}", "format: \"compressed-tensors\""},
        {64, 72, "group: row}", "format: \"compressed-tensors\""},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        tiny_model m = tiny_model_default();
        const pare_init init = {
            .recipe = HOME "/r.yaml", .model_path = HOME "/tiny", .model = "tiny", .name = "tiny"};
        pare_init_result r;
        m.hidden = row[i].hidden;
        m.heads = 4;
        m.kv_heads = 2;
        m.head_dim = row[i].hidden / m.heads;
        m.intermediate = row[i].intermediate;
        ck_assert_int_eq(system("rm -rf " HOME "/tiny"), 0);
        ck_assert(tiny_model_write(&m, HOME "/tiny"));
        const pare_status s = pare_init_preset(&cx, &arena, &init, "w4a16", &r);
        ck_assert_msg(s == PARE_OK, "%s", cx.what);
        check_holds(&r, row[i].group);
        check_holds(&r, row[i].export);
        check_holds(&r, "generate: {}");
        check_planned(&r, "tiny");
    }
}
END_TEST

/* Tiles of 16 x 16, and 128 x 128 where engines are to read them. */
START_TEST(trellis_codes_are_for_widths_that_their_tiles_divide)
{
    static const struct {
        size_t intermediate;
        pare_status s;
        const char *what;
    } row[] = {
        {256, PARE_OK,
         "# The export is for ExLlamaV3 and GPTQModel.\nexport:\n  - {format: "
         "\"exl3\", path: \"tiny-exl3-exl3\"}"},
        {192, PARE_OK,
         "# No export to exl3: linear model.layers.0.mlp.gate_proj (exl3 3 bits, x "
         "f32, 192 x 128): ExLlamaV3 mixes 128 rows"},
        {200, PARE_EUSAGE,
         "exl3: model.layers.0.mlp.gate_proj: exl3 has tiles of 16 x 16 weights, which do not "
         "divide a matrix of 200 x 128: give it another quantizer, in a step of its own with "
         "targets, and leave this linear out here with skip; in a recipe, exl3: {bits: 3, "
         "targets: [\"*.q_proj\", \"*.k_proj\", \"*.v_proj\", \"*.o_proj\"]} takes those that "
         "fit, and another pass or none the rest; or take --preset w4a16 or w2"},
    };
    tiny_model m = tiny_model_default();
    const pare_init init = {
        .recipe = HOME "/r.yaml", .model_path = HOME "/tiny", .model = "tiny", .name = "tiny"};
    pare_init_result r;
    m.hidden = 128;
    m.heads = 2;
    m.kv_heads = 2;
    m.head_dim = 64;
    m.intermediate = row[_i].intermediate;
    ck_assert(tiny_model_write(&m, HOME "/tiny"));
    ck_assert_msg(pare_init_preset(&cx, &arena, &init, "exl3", &r) == row[_i].s, "%s", cx.what);
    if (row[_i].s != PARE_OK) {
        ck_assert_msg(strstr(cx.what, row[_i].what) != NULL, "%s", cx.what);
        return;
    }
    check_holds(&r, "  - exl3: {bits: 3}\n");
    check_holds(&r, row[_i].what);
    check_planned(&r, "tiny");
}
END_TEST

START_TEST(a_preset_of_the_demo_model_says_what_it_chose)
{
    pare_init_result r;
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &hedge, "w4a16", &r), PARE_OK);
    check_holds(&r, "# awq needs 1920 tokens for the 640 inputs of a linear: this is 4.27 times");
    check_holds(&r, "samples: 32, window: 256}");
    check_holds(&r, "256 and 640");
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &hedge, "gguf-q4", &r), PARE_OK);
    check_holds(&r, "Q4_K has blocks of 256, which do not divide all inputs (640)");
    check_holds(&r, "path: \"hedge-q4.gguf\"");
    check_planned(&r, "gguf-q4");
    ck_assert_ptr_nonnull(strstr(r.text, "\nhead: {rtn: {bits: 8, group: 32, clip: mse}}\n"));
}
END_TEST

static void count_warning(void *self, const char *text)
{
    (void)text;
    ++*(size_t *)self;
}

/* Images are left out, which is told once; no engine is named where none can run the result. */
START_TEST(a_model_without_exports_gets_none)
{
    const pare_init init = {
        .recipe = HOME "/r.yaml", .model_path = HOME "/model", .model = "model", .name = "model"};
    pare_init_result r;
    size_t warnings = 0;
    ck_assert(family_write(family_find("llama4"), HOME "/model"));
    cx.progress.warn = count_warning;
    cx.progress.self = &warnings;
    ck_assert_msg(pare_init_preset(&cx, &arena, &init, "w4a16", &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(warnings, 1);
    check_holds(&r, "\n# No export to compressed-tensors: models of type llama4_text are not");
    ck_assert_ptr_nonnull(r.no_export);
    ck_assert_msg(strstr(r.no_export, "the recipe has no export to compressed-tensors: models of "),
                  "%s", r.no_export);
    ck_assert_ptr_null(strstr(r.text, "vLLM"));
    check_planned(&r, "llama4");
    ck_assert(family_write(family_find("llama"), HOME "/model"));
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &init, "w4a16", &r), PARE_OK);
    check_holds(&r, "# The export is for vLLM and SGLang.\nexport:\n");
}
END_TEST

/* A transform that cannot scale all inputs of a family skips the others, or is left out. */
START_TEST(a_transform_is_fitted_to_the_family)
{
    static const char *const row[][4] = {
        {"phi", "w4a16", "  - awq: {clip: false, skip: [\"*.mlp.fc2\"]}\n", ""},
        {"llama", "w4a16", "  - awq: {clip: false}\n", ""},
        {"bitnet", "w8a8", "takes scales of smoothquant: it is left out", "  - smoothquant"},
        {"bitnet", "w8a8", "# w8a8: 8-bit weights and inputs. Written for", "SmoothQuant"},
        {"qwen3_5_moe", "w4a16", "# w4a16: 4-bit weights by GPTQ. Written for", "AWQ"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const pare_init init = {.recipe = HOME "/r.yaml",
                                .model_path = HOME "/model",
                                .model = "model",
                                .name = "model"};
        pare_init_result r;
        ck_assert_int_eq(system("rm -rf " HOME "/model"), 0);
        ck_assert(family_write(family_find(row[i][0]), HOME "/model"));
        ck_assert_int_eq(pare_init_preset(&cx, &arena, &init, row[i][1], &r), PARE_OK);
        check_holds(&r, row[i][2]);
        ck_assert_msg(!row[i][3][0] || !strstr(r.text, row[i][3]), "%s", r.text);
        check_planned(&r, row[i][0]);
    }
}
END_TEST

/* The recipe may be for another machine. */
START_TEST(a_machine_that_is_too_small_changes_no_recipe)
{
    pare_init_result want, r;
    pare_plan plan;
    const pare_job job = {.recipe = HOME "/r.yaml", .plan_only = true};
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &hedge, "w4a16", &want), PARE_OK);
    write_file(HOME "/r.yaml", want.text);
    for (int i = 0; i < 2; i++) {
        no_disk = i == 0;
        no_memory = i == 1;
        ck_assert_int_eq(pare_plan_make(&cx, &arena, &job, &plan), i ? PARE_ENOMEM : PARE_ENOSPC);
        pare_ctx_clear(&cx);
        pare_plan_close(&plan);
        ck_assert_msg(pare_init_preset(&cx, &arena, &hedge, "w4a16", &r) == PARE_OK, "%s", cx.what);
        ck_assert_str_eq(r.text, want.text);
    }
    no_memory = false;
}
END_TEST

START_TEST(a_short_text_gives_what_it_has)
{
    pare_init init = hedge;
    pare_init_result r;
    char *text;
    size_t len;
    ck_assert_int_eq(pare_file_read(&cx, &arena, TEXT, 1 << 20, &text, &len), PARE_OK);
    text[20000] = '\0';
    write_file(HOME "/short.txt", text);
    init.data_path = HOME "/short.txt";
    init.data = "short.txt";
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &init, "w4a16", &r), PARE_OK);
    ck_assert_ptr_null(strstr(r.text, "samples: 32"));
    check_planned(&r, "short");
    /* a pruned model is evaluated on windows that the calibration leaves */
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &init, "2:4", &r), PARE_OK);
    check_planned(&r, "short, pruned");
    check_holds(&r, "\nevaluate: held_out\n");
    ck_assert_ptr_null(r.warning);
    text[2500] = '\0';
    write_file(HOME "/short.txt", text);
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &init, "w4a16", &r), PARE_OK);
    check_holds(&r, "\nevaluate: held_out\n");
    ck_assert_msg(r.warning && strstr(r.warning, "awq needs 1920 for the 640 inputs of a linear, "),
                  "%s", r.warning);
    text[1200] = '\0'; /* one window: it is calibrated on */
    write_file(HOME "/short.txt", text);
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &init, "w4a16", &r), PARE_OK);
    ck_assert_ptr_null(strstr(r.text, "\nevaluate:"));
    ck_assert_msg(r.warning && strstr(r.warning, "needs 1920 for"), "%s", r.warning);
    text[300] = '\0';
    write_file(HOME "/short.txt", text);
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &init, "w4a16", &r), PARE_EUSAGE);
    ck_assert_msg(strstr(cx.what, "less than 1 window of 256"), "%s", cx.what);
}
END_TEST

START_TEST(the_program_writes_a_recipe_that_it_can_plan)
{
    ck_assert_int_eq(mkdir(HOME "/sub", 0777), 0);
    ck_assert(family_write(&families[0], HOME "/model"));
    const outcome *o = call("init " HOME "/model --preset w8a8 --output " HOME "/sub/r.yaml", OUT);
    ck_assert_int_eq(o->code, 0);
    ck_assert_str_eq(o->text, HOME "/sub/r.yaml\n");
    o = call("plan " HOME "/sub/r.yaml", ERR); /* in a folder of its own: paths are absolute */
    ck_assert_msg(o->code == 0, "%s", o->text);
    o = call("init " HOME "/model --preset w8a8 --output " HOME "/sub/r.yaml", ERR);
    ck_assert_msg(o->code == 2 && strstr(o->text, "--restart replaces it"), "%s", o->text);
    o = call("init " HOME "/model --preset w4a16 --restart --output " HOME "/sub/r.yaml", ERR);
    ck_assert_msg(o->code == 0, "%s", o->text);
    write_file(HOME "/note.txt", "mine\n");
    o = call("init " HOME "/model --preset w4a16 --restart --output " HOME "/note.txt", ERR);
    ck_assert_msg(o->code == 2 && strstr(o->text, "is no recipe of pare"), "%s", o->text);
    write_file(HOME "/note.txt", "# Notes\n\n```\npare: 1\nmodel: x\n```\n");
    o = call("init " HOME "/model --preset w4a16 --restart --output " HOME "/note.txt", ERR);
    ck_assert_msg(o->code == 2 && strstr(o->text, "is no recipe of pare"), "%s", o->text);
    write_file(HOME "/note.txt", "pare: 1                       # the version of the grammar\n");
    o = call("init " HOME "/model --preset w4a16 --restart --output " HOME "/note.txt", ERR);
    ck_assert_msg(o->code == 0, "%s", o->text);
    o = call("init " HOME "/model --preset w4a16", OUT);
    ck_assert_msg(o->code == 0 && strstr(o->text, "model: \"" HOME "/model\"\n"), "%s", o->text);
    ck_assert_msg(strstr(o->text, ": save it in the folder in which \"pare init\" was run.\n"),
                  "%s", o->text);
    write_file("init-printed.yaml", o->text); /* saved there, it can be planned */
    o = call("plan init-printed.yaml", ERR);
    ck_assert_msg(o->code == 0, "%s", o->text);
}
END_TEST

START_TEST(a_mistake_says_what_to_do)
{
    static const char *const row[][2] = {
        {"init '" HEDGE "'", "give one of --preset NAME and --from FILE"},
        {"init '" HEDGE "' --preset w4a16 --from x", "give one of --preset NAME and --from FILE"},
        {"init '" HEDGE "' --preset w4a61", "did you mean w4a16?"},
        {"init '" HEDGE "' --preset 2:4", "give --text FILE or --tokens FILE"},
        {"init '" HEDGE "' --preset w8a8 --text a --tokens b", "give one of --text FILE and"},
        {"init '" HEDGE "' --from no-such-recipe", "there is no such file"},
        {"init '" HEDGE "' --preset w8a8 --output '" HEDGE "/r.yaml'", "would lie in the model"},
        {"completion tcsh", "expected bash, zsh or fish"},
        {"completion bash --format json", "completion prints text alone"},
        {"help exit --format json", "help prints text alone; leave --format json out"},
        {"--version --format json", "--version takes nothing behind it, and \"--format\" is there"},
        {"doctor --threads 500", "expected a whole number from 1 to 256"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const outcome *const o = call(row[i][0], ERR);
        ck_assert_msg(o->code == 2 && strstr(o->text, row[i][1]), "pare %s: %d %s", row[i][0],
                      o->code, o->text);
    }
    const outcome *const o = call("init no-such-model --preset w8a8", ERR);
    ck_assert_msg(o->code == 4 && strstr(o->text, "there is no such model"), "%d %s", o->code,
                  o->text); /* as of every command that takes a model */
}
END_TEST

/* An entry of "ignore" of another tool by a name of the files: what is translated, what is said of
 * it, or the refusal. */
static const struct {
    const char *family, *ignore, *skip, *why, *refusal;
} named[] = {
    {"qwen3_next", "re:.*linear_attn.in_proj_qkvz$",
     "skip: [\"re:(?:.*linear_attn.in_proj_qkvz)\\\\.\"]", NULL, NULL},
    {"qwen3_next", "re:.*(out_proj|in_proj_qkvz)$",
     "skip: [\"re:.*(out_proj|in_proj_qkvz)$\", \"re:(?:.*(out_proj|in_proj_qkvz))\\\\.\"]", NULL,
     NULL},
    {"qwen3_next", "re:(.*in_proj_qkvz$)", NULL, NULL,
     ".linear_attn.in_proj_qkvz by a name of the checkpoint, and pare gives the linears in it "
     "names "
     "of their own, such as model.layers."},
    {"qwen3_next", "re:.*linear_attn.in_proj_ba$", NULL,
     "no pass takes what this tensor of the checkpoint holds, so it keeps its type", NULL},
    {"qwen3_next", "model.layers.0.linear_attn.in_proj_ba", NULL,
     "no pass takes what this tensor of the checkpoint holds, so it keeps its type", NULL},
    {"qwen3_next", "re:.*in_proj_(ba|qkvz)$", "skip: [\"re:(?:.*in_proj_(ba|qkvz))\\\\.\"]", NULL,
     NULL},
    {"qwen3_next", "re:.*mlp.gate$", NULL, "routers and gates of shared experts keep their type",
     NULL},
    {"qwen3_next", "re:.*shared_expert_gate$", NULL,
     "routers and gates of shared experts keep their type", NULL},
    {"qwen3_next", "re:.*conv1d$", NULL, "nothing to skip", NULL},
    {"phi3", "re:.*qkv_proj$", "skip: [\"re:(?:.*qkv_proj)\\\\.\"]", NULL, NULL},
    {"phi3", "model.layers.0.self_attn.qkv_proj", "skip: [\"model.layers.0.self_attn.qkv_proj.*\"]",
     NULL, NULL},
    {"gpt_neox", "re:.*query_key_value$", "skip: [\"re:(?:.*query_key_value)\\\\.\"]", NULL, NULL},
    {"gpt_neox", "embed_out", NULL, "the head keeps its type without a key", NULL},
    {"gpt_neox", "lm_head", NULL,
     "scheme: W8A16: embed_out, the head of this model, is among its targets, which passes do not "
     "quantize: it keeps its type; put it into ignore by this name",
     NULL},
    {"gpt_oss", "re:.*mlp.experts$", "skip: [\"re:(?:.*mlp.experts)\\\\.\"]", NULL, NULL},
    {"gpt_oss", "re:.*mlp.experts.gate_up_proj$", NULL, NULL,
     "their.yaml:2:59: ignore: \"re:.*mlp.experts.gate_up_proj$\" matches model.layers."},
    {"llama4", "re:model.language_model.layers.0.self_attn.q_proj$",
     "skip: [\"re:model.layers.0.self_attn.q_proj$\"]", NULL, NULL},
    {"gemma3", "model.language_model.layers.1.mlp.down_proj",
     "skip: [\"model.layers.1.mlp.down_proj\"]", NULL, NULL},
    {"gemma3", "re:.*vision_tower.*", NULL, "nothing to skip", NULL},
    {"qwen3_5_moe", "re:model\\.language_model\\.layers\\.0\\.linear_attn\\..*",
     "skip: [\"re:model\\\\.layers\\\\.0\\\\.linear_attn\\\\..*\"]", NULL, NULL},
    {"llama", "re:.*input_layernorm$", NULL, "Needs no key here", NULL},
    {"llama", "re:.*self_attn$", NULL, "Needs no key here", NULL},
    {"llama", "re:.*down_prj", NULL,
     "# Names nothing in this model; by line of the other recipe:\n#   2: re:.*down_prj: no tensor "
     "of "
     "this model has such a name, so there is nothing to skip; correct it if it is misspelt\n",
     NULL},
};

START_TEST(what_another_tool_ignores_by_names_of_the_files_is_skipped_or_refused)
{
    const pare_init init = {.recipe = HOME "/r.yaml",
                            .model_path = HOME "/model",
                            .data_path = HOME "/data.i32",
                            .tokens = true,
                            .model = "model",
                            .data = "data.i32",
                            .name = "model"};
    char text[256];
    pare_init_result r;
    ck_assert(family_write(family_find(named[_i].family), HOME "/model"));
    ck_assert(tiny_tokens_write(HOME "/data.i32", FAMILY_VOCAB, 40 * 256, 1));
    (void)snprintf(
        text, sizeof text,
        "q_modifiers:\n  GPTQModifier: {scheme: W8A16, targets: Linear, ignore: ['%s']}\n",
        named[_i].ignore);
    const pare_status s =
        pare_init_translate(&cx, &arena, &init, "their.yaml", text, strlen(text), &r);
    if (named[_i].refusal) {
        ck_assert_msg(s == PARE_EUSAGE && strstr(cx.what, named[_i].refusal), "%d %s", s, cx.what);
        return;
    }
    ck_assert_msg(s == PARE_OK, "%s: %s", named[_i].ignore, cx.what);
    ck_assert_msg(!strstr(r.text, "skip: [") == !named[_i].skip, "%s", r.text);
    check_holds(&r, named[_i].skip ? named[_i].skip : named[_i].why);
    check_planned(&r, named[_i].family);
}
END_TEST

START_TEST(a_rotation_is_advised_where_the_model_can_be_rotated)
{
    static const char *const row[][2] = {
        {"llama", "comes nearest; put \"- rotate: {}\" in front"},
        {"gemma2", "which cannot rotate this model: it has norms"}};
    static const char text[] = "q_modifiers:\n  SpinQuantModifier: {}\n"
                               "  QuantizationModifier: {scheme: W8A16, targets: Linear}\n";
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const pare_init init = {.recipe = HOME "/r.yaml",
                                .model_path = HOME "/model",
                                .model = "model",
                                .name = "model"};
        pare_init_result r;
        ck_assert(family_write(family_find(row[i][0]), HOME "/model"));
        ck_assert_msg(pare_init_translate(&cx, &arena, &init, "their.yaml", text, sizeof text - 1,
                                          &r) == PARE_OK,
                      "%s", cx.what);
        check_holds(&r, row[i][1]);
    }
}
END_TEST

START_TEST(an_option_is_completed_by_the_words_that_its_command_takes)
{
    static const char *const line[] = {
        "'compare --format') list=' text csv json html' ;;\n",
        "'eval --format') list=' text json' ;;\n",
    };
    const outcome *const o = call("completion bash", OUT);
    for (size_t i = 0; i < sizeof line / sizeof *line; i++)
        ck_assert_msg(o->code == 0 && strstr(o->text, line[i]), "no %s", line[i]);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("init");
    TCase *const t = tcase_create("init");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, every_preset_fits_every_family_or_says_why_not, 0, FAMILIES);
    tcase_add_test(t, the_group_is_the_largest_that_divides_the_inputs);
    tcase_add_loop_test(t, trellis_codes_are_for_widths_that_their_tiles_divide, 0, 3);
    tcase_add_test(t, a_preset_of_the_demo_model_says_what_it_chose);
    tcase_add_test(t, a_model_without_exports_gets_none);
    tcase_add_test(t, a_transform_is_fitted_to_the_family);
    tcase_add_test(t, a_machine_that_is_too_small_changes_no_recipe);
    tcase_add_test(t, a_short_text_gives_what_it_has);
    tcase_add_loop_test(t, what_another_tool_ignores_by_names_of_the_files_is_skipped_or_refused, 0,
                        sizeof named / sizeof *named);
    tcase_add_test(t, a_rotation_is_advised_where_the_model_can_be_rotated);
    tcase_add_test(t, an_option_is_completed_by_the_words_that_its_command_takes);
    tcase_add_test(t, the_program_writes_a_recipe_that_it_can_plan);
    tcase_add_test(t, a_mistake_says_what_to_do);
    suite_add_tcase(s, t);
    return unit_main(s);
}
