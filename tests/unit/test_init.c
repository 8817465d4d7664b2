#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "compress/init/init.h"
#include "compress/need.h"
#include "formats/json.h"
#include "runtime/file.h"
#include "tests/data/families.h"
#include "tests/data/tiny_model.h"
#include "tests/unit/program.h"
#include "tests/unit/unit.h"

#define HOME  "pare-init"
#define HEDGE PARE_SOURCE_DIR "/recipes/demo/hedge"
#define TEXT  PARE_SOURCE_DIR "/recipes/demo/calibration.txt"

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

static pare_ctx cx;
static pare_arena arena;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(system("rm -rf " HOME), 0);
    ck_assert_int_eq(mkdir(HOME, 0777), 0);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void teardown(void)
{
    pare_arena_release(&arena);
}

static void write_file(const char *path, const char *text)
{
    FILE *const f = fopen(path, "w");
    ck_assert(f && fputs(text, f) >= 0);
    ck_assert_int_eq(fclose(f), 0);
}

static const pare_init hedge = {.recipe = HOME "/r.yaml",
                                .model_path = HEDGE,
                                .data_path = TEXT,
                                .model = HEDGE,
                                .data = TEXT,
                                .name = "hedge"};

/* What was written lies in a file and is planned from there. */
static void check_planned(const pare_init_result *r, const char *what)
{
    const pare_job job = {.recipe = HOME "/r.yaml", .look = true};
    pare_plan plan = {0};
    write_file(job.recipe, r->text);
    const pare_status s = pare_plan_make(&cx, &arena, &job, &plan);
    ck_assert_msg(s == PARE_OK, "%s: %s\n%s", what, cx.what, r->text);
    for (size_t i = 0; i < plan.recipe.steps; i++) {
        pare_shortage shortage;
        ck_assert_msg(!pare_plan_short(&plan, i, &shortage), "%s: too few tokens\n%s", what,
                      r->text);
    }
    pare_plan_close(&plan);
}

static void check_holds(const pare_init_result *r, const char *fragment)
{
    ck_assert_msg(strstr(r->text, fragment) != NULL, "no \"%s\" in\n%s", fragment, r->text);
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
            ck_assert_msg(strstr(cx.what, "the preset does not fit this model: gguf: "), "%s: %s",
                          f->name, cx.what);
            ck_assert_msg(strcmp(f->name, "llama") != 0, "%s", cx.what);
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
        {128, 256, "group: 128, act", "format: \"compressed-tensors\""},
        {128, 192, "group: 64, act", "format: \"compressed-tensors\""},
        {64, 96, "group: 32, act", "format: \"compressed-tensors\""},
        {64, 72, "group: 32, act", "# No export to compressed-tensors: "},
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

START_TEST(a_preset_of_the_demo_model_says_what_it_chose)
{
    pare_init_result r;
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &hedge, "w4a16", &r), PARE_OK);
    check_holds(&r, "# awq needs 1920 tokens for the 640 inputs of a linear: this is 4.27 times");
    check_holds(&r, "samples: 32, window: 256}");
    check_holds(&r, "256 and 640");
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &hedge, "gguf-q4", &r), PARE_OK);
    check_holds(&r, "Q4_K has blocks of 256, which do not divide the inputs (256 and 640)");
    check_holds(&r, "path: \"hedge-q4.gguf\"");
    check_planned(&r, "gguf-q4");
}
END_TEST

/* A transform that cannot scale all inputs of a family skips the others, or is left out. */
START_TEST(a_transform_is_fitted_to_the_family)
{
    static const char *const row[][4] = {
        {"phi", "w4a16", "  - awq: {clip: false, skip: [\"*.mlp.fc2\"]}\n", ""},
        {"llama", "w4a16", "  - awq: {clip: false}\n", ""},
        {"bitnet", "w8a8", "takes scales of smoothquant: it is left out", "  - smoothquant"},
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
    const pare_job job = {.recipe = HOME "/r.yaml", .look = true};
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
    text[300] = '\0';
    write_file(HOME "/short.txt", text);
    ck_assert_int_eq(pare_init_preset(&cx, &arena, &init, "w4a16", &r), PARE_EUSAGE);
    ck_assert_msg(strstr(cx.what, "less than 1 window of 256"), "%s", cx.what);
}
END_TEST

/* A recipe in the form of llm-compressor, passes that come of it, and lines that are left out. */
typedef struct translated {
    const char *from;
    const char *holds[4];
    size_t left[6]; /* lines, 0 behind the last */
} translated;

static const translated recipes[] = {
    /* a scheme by its name */
    {"DEFAULT_stage:\n"
     "  DEFAULT_modifiers:\n"
     "    GPTQModifier:\n"
     "      targets: [Linear]\n"
     "      ignore: ['re:.*lm_head', 're:vision_tower.*']\n"
     "      scheme: W4A16\n",
     {"  - gptq: {bits: 4, group: 128, act_order: true}\n"},
     {0}},
    /* weights and inputs in 8 bits, fixed scales */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    SmoothQuantModifier:\n"
     "      smoothing_strength: 0.8\n"
     "      mappings: [[['re:.*q_proj'], 're:.*input_layernorm']]\n"
     "    GPTQModifier:\n"
     "      ignore: [lm_head, 're:.*layers.0.mlp.down_proj$']\n"
     "      actorder: null\n"
     "      dampening_frac: 0.001\n"
     "      config_groups:\n"
     "        group_0:\n"
     "          weights: {num_bits: 8, type: int, symmetric: true, strategy: channel}\n"
     "          input_activations: {num_bits: 8, symmetric: false, strategy: tensor, type: int}\n"
     "          targets: [Linear]\n",
     {"  - smoothquant: {alpha: 0.8, skip: [\"re:.*layers.0.mlp.down_proj\"]}\n",
      "  - gptq: {bits: 8, group: row, act_order: false, damp: 0.001, activations: int8_tensor, "
      "skip: [\"re:.*layers.0.mlp.down_proj\"]}\n"},
     {5, 13}},
    /* pruned, trained, quantized */
    {"sparsity_stage:\n"
     "  run_type: oneshot\n"
     "  sparsity_modifiers:\n"
     "    SparseGPTModifier:\n"
     "      sparsity: 0.75\n"
     "      mask_structure: \"3:4\"\n"
     "      block_size: 100\n"
     "      targets: [Linear]\n"
     "finetuning_stage:\n"
     "  run_type: train\n"
     "  finetuning_modifiers:\n"
     "    ConstantPruningModifier: {targets: ['re:.*q_proj.weight'], start: 0}\n"
     "quantization_stage:\n"
     "  quantization_modifiers:\n"
     "    GPTQModifier:\n"
     "      config_groups:\n"
     "        group_0:\n"
     "          weights: {num_bits: 4, type: int, strategy: group, group_size: 128, observer: "
     "mse}\n"
     "          targets: [Linear]\n",
     {"  - sparsegpt: {pattern: \"1:4\"}\n",
      "  - gptq: {bits: 4, group: 128, clip: mse, act_order: true}\n"},
     {7, 10}},
    /* attention and MLP in different ways */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    AWQModifier:\n"
     "      duo_scaling: both\n"
     "    QuantizationModifier:\n"
     "      scheme: W4A16_ASYM\n"
     "      targets:\n"
     "        - \"re:.*self_attn\\\\.(k|q|o|v)_proj$\"\n"
     "    GPTQModifier:\n"
     "      scheme: W8A8\n"
     "      targets: [\"re:.*mlp\\\\.(down|gate|up)_proj$\", 're:\\d+', lm_head, LlamaMLP]\n",
     {"  - awq: {clip: false, duo: true}\n",
      "  - rtn: {bits: 4, group: 128, symmetric: false, targets: "
      "[\"re:(.*self_attn\\\\.(k|q|o|v)_proj)\"]}\n",
      "  - gptq: {bits: 8, group: row, act_order: true, activations: int8_token, targets: "
      "[\"re:(.*mlp\\\\.(down|gate|up)_proj)\"]}\n"},
     {4, 11, 11, 11}},
    /* floats of 8 bits, caches */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    QuantizationModifier:\n"
     "      scheme: FP8_DYNAMIC\n"
     "      targets: Linear\n"
     "      kv_cache_scheme: {num_bits: 8, type: int, strategy: tensor}\n",
     {"  - fp8: {group: row}\n", "kv_cache: {method: int8}\n", "# No calibration: "},
     {4}},
    /* a list of modifiers, groups of which one takes the rest, shares by OWL */
    {"stage:\n"
     "  pruning_modifiers:\n"
     "    WandaPruningModifier:\n"
     "      sparsity: 0.5\n"
     "      mask_structure: \"0:0\"\n"
     "      sparsity_profile: owl\n"
     "      owl_lmbda: 0.05\n"
     "  quant_modifiers:\n"
     "    - QuantizationModifier:\n"
     "        config_groups:\n"
     "          attention:\n"
     "            weights: {num_bits: 8, type: int, strategy: channel}\n"
     "            targets: ['re:.*self_attn.*']\n"
     "          rest:\n"
     "            weights: {num_bits: 4, type: int, strategy: group, group_size: 48, "
     "symmetric: false}\n"
     "            targets: [Linear]\n"
     "          others:\n"
     "            weights: {num_bits: 4, type: int, strategy: group, group_size: 32}\n"
     "            output_activations: {num_bits: 8}\n"
     "            targets: [Linear]\n"
     "    - SpinQuantModifier:\n",
     {"  - wanda: {sparsity: 0.5, ratios: owl, spread: 0.05}\n",
      "  - rtn: {bits: 8, group: row, targets: [\"re:.*self_attn.*\"]}\n",
      "  - rtn: {bits: 4, group: 32, skip: [\"re:.*self_attn.*\"]}\n"},
     {15, 19, 21}},
    /* whole blocks, classes of characters, numbers that are not whole or too long */
    {"stage:\n"
     "  pruning_modifiers:\n"
     "    SparseGPTModifier:\n"
     "      sparsity: 0.5\n"
     "      dampening_frac: 0.012345678901234567\n"
     "      targets: ['re:model.layers.\\d+$']\n"
     "  quant_modifiers:\n"
     "    GPTQModifier:\n"
     "      config_groups:\n"
     "        one:\n"
     "          weights: {num_bits: 4, strategy: group, group_size: 64.5}\n"
     "          targets: ['re:.*q_proj']\n"
     "        two:\n"
     "          weights: {num_bits: 4, strategy: group}\n"
     "          targets: ['re:.*k_proj']\n"
     "        three:\n"
     "          weights: {num_bits: 4, strategy: group, group_size: 64}\n"
     "          targets: ['re:\\w+\\.layers\\.[\\d]\\.mlp']\n",
     {"  - sparsegpt: {sparsity: 0.5, damp: 0.0123456789012346, targets: "
      "[\"re:(model.layers.[0-9]+)\\\\..*\"]}\n",
      "  - gptq: {bits: 4, group: 64, act_order: true, targets: "
      "[\"re:[A-Za-z0-9_]+\\\\.layers\\\\.[0-9]\\\\.mlp.*\"]}\n"},
     {11, 14}},
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

START_TEST(recipes_of_another_tool_are_translated_and_the_rest_is_listed)
{
    const translated *const t = &recipes[_i];
    pare_init_result r;
    const pare_status s =
        pare_init_translate(&cx, &arena, &hedge, "their.yaml", t->from, strlen(t->from), &r);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
    for (size_t i = 0; i < 4 && t->holds[i]; i++)
        check_holds(&r, t->holds[i]);
    for (size_t i = 0; i <= r.lefts; i++)
        ck_assert_msg((i < r.lefts ? r.left[i].line : 0) == t->left[i], "left out at %zu:\n%s", i,
                      r.text);
    for (size_t i = 0; i < r.lefts; i++) {
        check_holds(&r, r.left[i].what);
        check_holds(&r, r.left[i].why);
    }
    check_planned(&r, "translated");
}
END_TEST

START_TEST(what_is_no_recipe_of_the_other_tool_is_refused_with_its_place)
{
    static const char *const row[][2] = {
        {"", "their.yaml:1:1: holds no stages"},
        {"- a\n", "their.yaml:1:1: holds no stages"},
        {"a: [1\n", "their.yaml:2:1: not valid YAML"},
        {"a: &x 1\n", "anchors are not supported"},
        {"stage: {args: 3}\n", "their.yaml:1: nothing is left to do: args: 3: no counterpart"},
        {"stage: {}\n", "their.yaml: holds no modifiers"},
        {"q_modifiers: {QuantizationModifier: {kv_cache_scheme: {num_bits: 8}}}\n",
         "their.yaml: holds a kv_cache_scheme alone"},
        {"s:\n  q_modifiers:\n    QuantizationModifier: {scheme: NVFP4, targets: Linear}\n",
         "their.yaml:3: nothing is left to do: scheme: NVFP4: 4-bit floats"},
        {"q_modifiers: {GPTQModifier: }\n", "it names no scheme and no config_groups"},
        {"q_modifiers: {GPTQModifier: 4, A: [2], \"a\\x1b[2J\": }\n", "a?[2J"},
        {"q_modifiers: {SparseGPTModifier: {sparsity: [0.5]}}\n", "sparsity is one number"},
        {"q_modifiers: {SparseGPTModifier: {mask_structure: \"5:4\"}}\n", "expected N:M"},
        {"q_modifiers: {AWQModifier: }\n", "no pass behind it quantizes"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        pare_init_result r;
        pare_ctx_clear(&cx);
        const pare_status s = pare_init_translate(&cx, &arena, &hedge, "their.yaml", row[i][0],
                                                  strlen(row[i][0]), &r);
        bool listed = false; /* the first is in the message, all are in the list */
        for (size_t j = 0; j < r.lefts; j++)
            listed =
                listed || strstr(r.left[j].what, row[i][1]) || strstr(r.left[j].why, row[i][1]);
        ck_assert_msg(s == PARE_EUSAGE && (listed || strstr(cx.what, row[i][1])), "%s: %s",
                      row[i][0], cx.what);
    }
}
END_TEST

/* Every allocation fails in turn. */
START_TEST(memory_that_runs_out_is_an_error)
{
    const translated *const t = &recipes[1];
    unit_failing f = {0};
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK; n += n < 40 ? 1 : 7) {
        pare_ctx own;
        pare_arena a;
        pare_init_result r;
        f = (unit_failing){.left = n};
        pare_ctx_init(&own);
        own.alloc = (pare_alloc){unit_failing_resize, &f};
        s = pare_arena_init(&own, &a, 0);
        if (s == PARE_OK)
            s = pare_init_translate(&own, &a, &hedge, "their.yaml", t->from, strlen(t->from), &r);
        ck_assert_msg(s == PARE_OK || s == PARE_ENOMEM, "%d: %s", s, own.what);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
    }
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
}
END_TEST

START_TEST(what_was_left_out_is_told_and_ends_with_3)
{
    write_file(HOME "/from.yaml", recipes[4].from);
    const outcome *o = call("init '" HEDGE "' --from " HOME "/from.yaml", ERR);
    ck_assert_msg(o->code == 3 &&
                      strstr(o->text, "left out: " HOME "/from.yaml:4: scheme: FP8_DYN"),
                  "%d: %s", o->code, o->text);
    write_file(HOME "/from.yaml", recipes[0].from);
    o = call("init '" HEDGE "' --from " HOME "/from.yaml", OUT);
    ck_assert_msg(o->code == 0 && strstr(o->text, "- gptq: {bits: 4"), "%d: %s", o->code, o->text);
    o = call("init '" HEDGE "' --from " HOME "/from.yaml --format json", OUT);
    pare_json *json = NULL;
    ck_assert_int_eq(pare_json_parse(&cx, "stdout", o->text, strlen(o->text), 1 << 16, &json),
                     PARE_OK);
    ck_assert_ptr_nonnull(pare_json_get(json, "left_out"));
    pare_json_free(json);
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
        {"init no-such-model --preset w8a8", "there is no such model"},
        {"completion tcsh", "expected bash, zsh or fish"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const outcome *const o = call(row[i][0], ERR);
        ck_assert_msg(o->code == 2 && strstr(o->text, row[i][1]), "pare %s: %d %s", row[i][0],
                      o->code, o->text);
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
    tcase_add_test(t, a_preset_of_the_demo_model_says_what_it_chose);
    tcase_add_test(t, a_transform_is_fitted_to_the_family);
    tcase_add_test(t, a_machine_that_is_too_small_changes_no_recipe);
    tcase_add_test(t, a_short_text_gives_what_it_has);
    tcase_add_loop_test(t, recipes_of_another_tool_are_translated_and_the_rest_is_listed, 0,
                        RECIPES);
    tcase_add_test(t, what_is_no_recipe_of_the_other_tool_is_refused_with_its_place);
    tcase_add_test(t, memory_that_runs_out_is_an_error);
    tcase_add_test(t, an_option_is_completed_by_the_words_that_its_command_takes);
    tcase_add_test(t, the_program_writes_a_recipe_that_it_can_plan);
    tcase_add_test(t, what_was_left_out_is_told_and_ends_with_3);
    tcase_add_test(t, a_mistake_says_what_to_do);
    suite_add_tcase(s, t);
    return unit_main(s);
}
