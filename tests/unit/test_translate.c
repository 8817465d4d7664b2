/* Recipes of llm-compressor as recipes of pare: what becomes of every key. */
#define HOME "pare-translate"

#include "formats/json.h"
#include "tests/unit/program.h"

#include "tests/unit/init_case.h"

/* A recipe in the form of llm-compressor, passes that come of it, lines that are left out, and
 * lines that need no counterpart. */
typedef struct translated {
    const char *from;
    const char *holds[4];
    size_t left[9], implied[9]; /* 0 behind the last */
} translated;

static const translated recipes[] = {
    /* a scheme by its name */
    {"DEFAULT_stage:\n"
     "  DEFAULT_modifiers:\n"
     "    GPTQModifier:\n"
     "      targets: [Linear]\n"
     "      ignore: ['re:.*lm_head', 're:vision_tower.*']\n"
     "      scheme: W4A16\n",
     {"  - gptq: {bits: 4, group: 128, clip: none, refine: 0, correct: none, act_order: true}\n"},
     {0},
     {5, 5}},
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
     {"  - smoothquant: {alpha: 0.8, skip: [\"re:.*layers.0.mlp.down_proj$\"]}\n",
      "  - gptq: {bits: 8, group: row, clip: none, refine: 0, correct: none, act_order: false, "
      "damp: 0.001, "
      "activations: "
      "int8_tensor, "
      "skip: [\"re:.*layers.0.mlp.down_proj$\"]}\n"},
     {5, 13},
     {7}},
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
      "  - gptq: {bits: 4, group: 128, clip: mse, refine: 0, correct: none, act_order: true}\n"},
     {7, 10, 17},
     {2, 12}},
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
      "[\"re:.*self_attn\\\\.(k|q|o|v)_proj$\"]}\n",
      "  - gptq: {bits: 8, group: row, clip: none, refine: 0, correct: none, act_order: true, "
      "activations: "
      "int8_token, "
      "targets: "
      "[\"re:.*mlp\\\\.(down|gate|up)_proj$\"]}\n"},
     {4, 11, 11, 11},
     {0}},
    /* learned rounding */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    AutoRoundModifier:\n"
     "      targets: [Linear]\n"
     "      ignore: [lm_head]\n"
     "      scheme: W4A16\n"
     "      iters: 50\n"
     "      batch_size: 4\n"
     "      lr: 5.0e-3\n"
     "      enable_torch_compile: false\n",
     {"  - signround: {steps: 50, batch: 4, rate: 0.005}\n", "  - rtn: {bits: 4, group: 128}\n"},
     {0},
     {5, 10}},
    /* floats of 8 bits, caches */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    QuantizationModifier:\n"
     "      scheme: FP8_DYNAMIC\n"
     "      targets: Linear\n"
     "      kv_cache_scheme: {num_bits: 8, type: int, strategy: tensor}\n",
     {"  - fp8: {group: row, activations: fp8_token}\n", "kv_cache: {method: int8}\n",
      "# No calibration: "},
     {4, 6},
     {0}},
    /* inputs in FP8, whole or in part */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    QuantizationModifier:\n"
     "      ignore: [lm_head]\n"
     "      config_groups:\n"
     "        a:\n"
     "          weights: {num_bits: 8, type: float, strategy: channel}\n"
     "          input_activations: {num_bits: 8, type: float, strategy: token, dynamic: true}\n"
     "          targets: ['re:.*mlp.*']\n"
     "        b:\n"
     "          weights: {num_bits: 8, type: float, strategy: channel}\n"
     "          input_activations: {num_bits: 8, type: float, strategy: tensor}\n"
     "          targets: ['re:.*o_proj']\n"
     "        c:\n"
     "          weights: {num_bits: 8, type: int, strategy: channel}\n"
     "          input_activations: {num_bits: 8, type: float, strategy: token, dynamic: true}\n"
     "          targets: ['re:.*q_proj']\n",
     {"  - fp8: {group: row, activations: fp8_token, targets: [\"re:.*mlp.*\"]}\n",
      "  - fp8: {group: row, activations: fp8_token, targets: [\"re:.*o_proj\"]}\n",
      "  - rtn: {bits: 8, group: row, targets: [\"re:.*q_proj\"]}\n"},
     {12, 16},
     {4}},
    /* as their program saves a recipe */
    {"default_stage:\n"
     "  default_modifiers:\n"
     "    QuantizationModifier:\n"
     "      config_groups:\n"
     "        group_0:\n"
     "          targets: [Linear]\n"
     "          weights: {num_bits: 4, type: float, symmetric: true, group_size: 32,\n"
     "                    strategy: group, dynamic: false, scale_dtype: torch.uint8,\n"
     "                    zp_dtype: null, observer: memoryless_minmax, observer_kwargs: {}}\n"
     "          input_activations: null\n"
     "      targets: [Linear]\n"
     "      ignore: [lm_head]\n"
     "      bypass_divisibility_checks: false\n",
     {"  - mxfp4: {}\n"},
     {0},
     {12, 13}},
    /* NVFP4 by its name, with inputs, by GPTQ, and as their program saves it */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    QuantizationModifier: {scheme: NVFP4A16, targets: Linear, ignore: [lm_head]}\n",
     {"  - nvfp4: {}\n"},
     {0},
     {3}},
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    QuantizationModifier: {scheme: NVFP4, targets: Linear, ignore: [lm_head]}\n",
     {"  - nvfp4: {}\n"},
     {3},
     {3}},
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    GPTQModifier: {scheme: NVFP4A16_46, targets: Linear, ignore: [lm_head]}\n",
     {"  - gptq: {grid: nvfp4, bits: 4, act_order: true}\n"},
     {0},
     {3}},
    {"default_stage:\n"
     "  default_modifiers:\n"
     "    QuantizationModifier:\n"
     "      config_groups:\n"
     "        group_0:\n"
     "          targets: [Linear]\n"
     "          weights: {num_bits: 4, type: float, symmetric: true, group_size: 16,\n"
     "                    strategy: tensor_group, dynamic: false, observer_kwargs: {},\n"
     "                    scale_dtype: torch.float8_e4m3fn, zp_dtype: torch.float8_e4m3fn}\n"
     "          input_activations: null\n"
     "        group_1:\n"
     "          targets: ['re:.*q_proj']\n"
     "          weights: {num_bits: 4, type: float, group_size: 32, strategy: tensor_group}\n"
     "      ignore: [lm_head]\n",
     {"  - nvfp4: {skip: [\"re:.*q_proj\"]}\n"},
     {13},
     {14}},
    /* scales of other floats are none in U8 */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    QuantizationModifier:\n"
     "      targets: [Linear]\n"
     "      ignore: [lm_head]\n"
     "      scheme:\n"
     "        weights:\n"
     "          num_bits: 8\n"
     "          type: float\n"
     "          strategy: channel\n"
     "          scale_dtype: torch.uint8\n",
     {"  - fp8: {group: row}\n"},
     {11},
     {5}},
    /* gptq rounds inputs to integers alone */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    GPTQModifier:\n"
     "      scheme: FP8_DYNAMIC\n"
     "      targets: Linear\n",
     {"  - gptq: {grid: fp8, bits: 8, group: row"},
     {4},
     {0}},
    /* learned rounding of what the groups take, and of no other linear */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    AutoRoundModifier:\n"
     "      ignore: [lm_head]\n"
     "      config_groups:\n"
     "        mlp:\n"
     "          weights: {num_bits: 4, type: int, strategy: group, group_size: 32}\n"
     "          targets: ['re:.*mlp.*']\n"
     "        outputs:\n"
     "          weights: {num_bits: 8, type: int, strategy: channel}\n"
     "          targets: ['re:.*o_proj']\n",
     {"  - signround: {targets: [\"re:.*mlp.*\", \"re:.*o_proj\"]}\n",
      "  - rtn: {bits: 4, group: 32, targets: [\"re:.*mlp.*\"]}\n",
      "  - rtn: {bits: 8, group: row, targets: [\"re:.*o_proj\"]}\n"},
     {0},
     {4}},
    /* nor of groups that are left out, or in floats */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    AutoRoundModifier:\n"
     "      ignore: [lm_head]\n"
     "      config_groups:\n"
     "        rest:\n"
     "          weights: {num_bits: 4, type: int, strategy: group, group_size: 32}\n"
     "          targets: [Linear]\n"
     "        inputs:\n"
     "          input_activations: {num_bits: 8, type: int, strategy: token, dynamic: true}\n"
     "          targets: ['re:.*o_proj']\n"
     "        floats:\n"
     "          weights: {num_bits: 8, type: float, strategy: channel}\n"
     "          targets: ['re:.*down_proj']\n",
     {"  - signround: {skip: [\"re:.*o_proj\", \"re:.*down_proj\"]}\n",
      "  - rtn: {bits: 4, group: 32, skip: [\"re:.*o_proj\", \"re:.*down_proj\"]}\n",
      "  - fp8: {group: row, targets: [\"re:.*down_proj\"]}\n"},
     {9},
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
     {15, 17, 19, 21},
     {0}},
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
      "[\"re:(?:model.layers.\\\\d+)\\\\.\"]}\n",
      "  - gptq: {bits: 4, group: 64, clip: none, refine: 0, correct: none, act_order: true, "
      "targets: "
      "[\"re:\\\\w+\\\\.layers\\\\.[\\\\d]\\\\.mlp\"]}\n"},
     {11, 14},
     {0}},
    /* examples of its documentation and of its tests: 2 of 4, then 4 bits, as it was in 2024 */
    {"sparsity_stage:\n"
     "  run_type: oneshot\n"
     "  sparsity_modifiers:\n"
     "    SparseGPTModifier:\n"
     "      sparsity: 0.5\n"
     "      mask_structure: \"2:4\"\n"
     "      sequential_update: false\n"
     "      targets: ['re:model.layers.\\d*$']\n"
     "quantization_stage:\n"
     "  run_type: oneshot\n"
     "  quantization_modifiers:\n"
     "    GPTQModifier:\n"
     "      ignore: [lm_head]\n"
     "      sequential_update: True\n"
     "      dampening_frac: 0.001\n"
     "      block_size: 128\n"
     "      config_groups:\n"
     "        group_0:\n"
     "          weights: {num_bits: 4, type: int, symmetric: true, strategy: channel}\n"
     "          targets: [Linear]\n",
     {"  # line 4, SparseGPTModifier\n  - sparsegpt: {pattern: \"2:4\", targets: "
      "[\"re:(?:model.layers.\\\\d*)\\\\.\"]}\n",
      "  # act_order: true, because their GPTQ orders the columns",
      "  - gptq: {bits: 4, group: row, clip: none, refine: 0, correct: none, act_order: true, "
      "damp: 0.001, block: "
      "128}\n"},
     {7},
     {2, 10, 13, 14}},
    /* one method for attention, another for MLPs; nothing is said of act_order twice */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    AWQModifier:\n"
     "      mappings:\n"
     "        - smooth_layer: \"re:.*input_layernorm$\"\n"
     "          balance_layers: [\"re:.*q_proj$\", \"re:.*k_proj$\", \"re:.*v_proj$\"]\n"
     "    QuantizationModifier:\n"
     "      ignore: [\"lm_head\"]\n"
     "      scheme: \"W4A16\"\n"
     "      targets: [\"re:.*self_attn\\\\.(k|q|o|v)_proj$\"]\n"
     "    GPTQModifier:\n"
     "      ignore: [\"lm_head\"]\n"
     "      scheme: \"W8A8\"\n"
     "      targets: [\"re:.*mlp\\\\.(down|gate|up)_proj$\"]\n"
     "      offload_hessians: true\n"
     "      actorder: null\n",
     {"  # clip: false: their AWQ scales and does not clip; duo: true is their default.\n"
      "  - awq: {clip: false, duo: true}\n",
      "  - gptq: {bits: 8, group: row, clip: none, refine: 0, correct: none, act_order: false, "
      "activations: "
      "int8_token, "
      "targets: "},
     {4},
     {8, 12, 15}},
    /* a cache in floats; false stands for no order; a scheme written out; groups by their names */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    GPTQModifier:\n"
     "      scheme:\n"
     "        weights: {num_bits: 4, strategy: channel, actorder: False, scale_dtype: null}\n"
     "        format: pack-quantized\n"
     "      targets: ['re:.*k_proj', 're:.*q_proj']\n"
     "      kv_cache_scheme:\n"
     "        {num_bits: 8, type: float, symmetric: true, strategy: tensor}\n"
     "    QuantizationModifier:\n"
     "      config_groups:\n"
     "        FP8: ['re:.*v_proj']\n"
     "        W8A16: ['re:.*o_proj']\n"
     "      dampening_frac: 0.1\n",
     {"  - gptq: {bits: 4, group: row, clip: none, refine: 0, correct: none, act_order: false, "
      "targets: "
      "[\"re:.*k_proj\", "
      "\"re:.*q_proj\"]}\n",
      "  - fp8: {group: row, activations: fp8_token, targets: [\"re:.*v_proj\"]}\n",
      "  - rtn: {bits: 8, group: 128, targets: [\"re:.*o_proj\"]}\n"},
     {6, 8, 12, 14},
     {0}},
    /* what has no effect without another key, or is no number */
    {"stage:\n"
     "  pruning_modifiers:\n"
     "    WandaPruningModifier:\n"
     "      sparsity: 0.4\n"
     "      mask_structure: \"2:4\"\n"
     "      owl_m: 5\n"
     "      block_size: 128\n"
     "  quant_modifiers:\n"
     "    GPTQModifier:\n"
     "      dampening_frac: much\n"
     "      scheme: W4A16\n"
     "      config_groups:\n"
     "        g:\n"
     "          weights: {num_bits: 4, strategy: channel, dynamic: true}\n"
     "          input_activations: {num_bits: 8, strategy: group, dynamic: true}\n"
     "          targets: [Linear]\n",
     {"  - wanda: {pattern: \"2:4\"}\n",
      "  - gptq: {bits: 4, group: row, clip: none, refine: 0, correct: none, "
      "act_order: true, activations: int8_token}\n"},
     {4, 6, 7, 10, 11, 13, 14, 15},
     {0}},
    /* keys that two passes and each of two groups read are listed once */
    {"stage:\n"
     "  a_modifiers:\n"
     "    AWQModifier:\n"
     "      ignore: [LlamaMLP]\n"
     "      dampening_frac: much\n"
     "      config_groups:\n"
     "        a:\n"
     "          weights: {num_bits: 4, strategy: channel}\n"
     "          targets: ['re:.*self_attn.*']\n"
     "        b:\n"
     "          weights: {num_bits: 8, strategy: channel}\n"
     "          targets: ['re:.*mlp.*']\n",
     {"  - awq: {clip: false, duo: true}\n"},
     {4, 5},
     {0}},
    /* two reasons stand in one line */
    {"q_modifiers:\n"
     "  GPTQModifier: {scheme: W4A16, targets: ['re:.*q_proj']}\n"
     "  QuantizationModifier:\n"
     "    scheme: FP8\n"
     "    targets: ['re:.*x_proj']\n",
     {"#   4: scheme: FP8: one scale for a matrix and a fixed one for inputs in FP8 are not there: "
      "each row and each token has a scale; targets and ignore leave no linear to work on\n"},
     {4, 5},
     {0}},
    /* one linear beside others of the same input in floats */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    AutoRoundModifier:\n"
     "      ignore: [lm_head, 're:.*k_proj']\n"
     "      scheme: W4A16\n",
     {"  - signround: {skip: [\"re:.*k_proj\"]}\n",
      "  - rtn: {bits: 4, group: 128, skip: [\"re:.*k_proj\"]}\n"},
     {0},
     {4}},
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

/* Every line is listed once for each key that stands in it, with the reason. */
static void check_lines(const pare_init_result *r, const size_t *line, bool implied)
{
    size_t count = 0;
    for (size_t i = 0; i < r->lefts; i++) {
        if (r->left[i].implied != implied)
            continue;
        ck_assert_msg(r->left[i].line == line[count], "line %zu is listed:\n%s", r->left[i].line,
                      r->text);
        check_holds(r, r->left[i].what);
        check_holds(r, r->left[i].why);
        count++;
    }
    ck_assert_msg(line[count] == 0, "line %zu is not listed:\n%s", line[count], r->text);
    ck_assert(implied || count == r->lost);
}

START_TEST(recipes_of_another_tool_are_translated_and_the_rest_is_listed)
{
    const translated *const t = &recipes[_i];
    pare_init_result r;
    const pare_status s =
        pare_init_translate(&cx, &arena, &hedge, "their.yaml", t->from, strlen(t->from), &r);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
    for (size_t i = 0; i < 4 && t->holds[i]; i++)
        check_holds(&r, t->holds[i]);
    check_lines(&r, t->left, false);
    check_lines(&r, t->implied, true);
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
        {"s:\n  q_modifiers:\n    QuantizationModifier: {scheme: MXFP8, targets: Linear}\n",
         "their.yaml:3: nothing is left to do: scheme: MXFP8: 8-bit floats"},
        {"q_modifiers: {GPTQModifier: }\n", "it names no scheme and no config_groups"},
        {"q_modifiers: {GPTQModifier: 4, A: [2], \"a\\x1b[2J\": }\n", "a?[2J"},
        {"q_modifiers: {SparseGPTModifier: {sparsity: [0.5]}}\n", "sparsity is one number"},
        {"q_modifiers: {SparseGPTModifier: {mask_structure: \"5:4\"}}\n", "expected N:M"},
        {"q_modifiers: {AWQModifier: }\n", "no pass behind it quantizes"},
        {"q_modifiers:\n  GPTQModifier: {scheme: W4A16, targets: Linear, ignore: ['re:(q_proj']}\n",
         "their.yaml:2:59: regular expression \"(q_proj\": missing closing parenthesis"},
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

/* A failure is told as it was found, whatever the modifiers behind it hold. */
START_TEST(the_first_broken_expression_is_told_once)
{
    static const char *const row[][2] = {
        {"q_modifiers:\n"
         "  SmoothQuantModifier: {smoothing_strength: 0.8, ignore: ['re:(']}\n"
         "  GPTQModifier: {scheme: W4A16, targets: ['re:[', 're:.*q_proj']}\n",
         "their.yaml:2:59: regular expression \"(\": missing closing parenthesis at byte 1: "
         "correct "
         "it, or take it out"},
        {"q_modifiers:\n"
         "  SmoothQuantModifier: {smoothing_strength: 0.8}\n"
         "  GPTQModifier: {scheme: W8A8, targets: [Linear], ignore: [lm_head, 're:(']}\n",
         "their.yaml:3:69: regular expression \"(\": missing closing parenthesis at byte 1: "
         "correct "
         "it, or take it out"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        pare_init_result r;
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_init_translate(&cx, &arena, &hedge, "their.yaml", row[i][0],
                                             strlen(row[i][0]), &r),
                         PARE_EUSAGE);
        ck_assert_str_eq(cx.what, row[i][1]);
    }
}
END_TEST

START_TEST(a_linear_that_two_modifiers_want_is_told_by_both)
{
    static const char *const row[][2] = {
        {"s:\n  q_modifiers:\n    GPTQModifier: {scheme: W4A16, targets: Linear}\n"
         "    QuantizationModifier: {scheme: W8A16, targets: ['re:.*q_proj']}\n",
         "their.yaml:4: QuantizationModifier takes model.layers.0.self_attn.q_proj, and "
         "GPTQModifier in line 3 quantizes it already"},
        {"s:\n  q_modifiers:\n    - AWQModifier: {scheme: W4A16_ASYM, targets: Linear}\n"
         "    - GPTQModifier:\n        scheme: W8A16\n        targets: Linear\n",
         "their.yaml:5: GPTQModifier takes model.layers.0.self_attn.q_proj, and AWQModifier in "
         "line 3 quantizes it already"},
        {"a:\n  x_modifiers:\n    SparseGPTModifier: {sparsity: 0.5}\nb:\n  x_modifiers:\n"
         "    WandaPruningModifier: {sparsity: 0.5}\n",
         "their.yaml:6: WandaPruningModifier takes model.layers.0.self_attn.q_proj, and "
         "SparseGPTModifier in line 3 prunes it already"},
        {"s:\n  q_modifiers:\n    GPTQModifier: {scheme: W4A16, targets: Linear}\n"
         "    WandaPruningModifier: {sparsity: 0.5}\n",
         "their.yaml:4: WandaPruningModifier takes model.layers.0.self_attn.q_proj, and "
         "GPTQModifier in line 3 quantizes it in front of that"},
        {"s:\n  q_modifiers:\n    GPTQModifier: {scheme: W4A16, targets: Linear}\n"
         "    SmoothQuantModifier: {smoothing_strength: 0.5}\n",
         "their.yaml:4: SmoothQuantModifier takes model.layers.0.self_attn.q_proj, and "
         "GPTQModifier in line 3 quantizes it in front of that"},
        /* what only a plan finds has the place of their recipe, too */
        {"s:\n  q_modifiers:\n    AWQModifier: {}\n"
         "    GPTQModifier: {scheme: W4A16, targets: ['re:.*mlp.*']}\n",
         "their.yaml:3: AWQModifier, translated: awq: no pass behind it quantizes "},
        /* perhaps for want of what was left out */
        {"s:\n  q_modifiers:\n    SmoothQuantModifier: {smoothing_strength: 0.5}\n"
         "    GPTQModifier: {scheme: W4A17, targets: Linear}\n",
         "their.yaml:3: SmoothQuantModifier, translated: smoothquant: no pass behind it quantizes "
         "model.layers.0.self_attn.q_proj; add one, or leave the linear out here with skip; left "
         "out is line 4: scheme: W4A17: "},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        pare_init_result r;
        pare_ctx_clear(&cx);
        const pare_status s = pare_init_translate(&cx, &arena, &hedge, "their.yaml", row[i][0],
                                                  strlen(row[i][0]), &r);
        ck_assert_msg(s == PARE_EUSAGE && strstr(cx.what, row[i][1]) == cx.what, "%zu: %d %s", i, s,
                      cx.what);
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

START_TEST(what_was_left_out_is_told_and_ends_with_3)
{
    write_file(HOME "/from.yaml", recipes[5].from);
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
    ck_assert_ptr_nonnull(pare_json_get(json, "implied"));
    pare_json_free(json);
}
END_TEST

/* It may be misspelt: nothing of it is in the recipe, nor is it always so. */
START_TEST(a_name_that_is_nowhere_is_told_in_json)
{
    write_file(HOME "/from.yaml",
               "a_stage:\n  b_modifiers:\n    QuantizationModifier:\n      targets: [Linear]\n"
               "      scheme: W4A16\n      ignore: [lm_head, lm_hed]\n");
    const outcome *const o = call("init '" HEDGE "' --from " HOME "/from.yaml --format json", OUT);
    pare_json *json = NULL;
    ck_assert_int_eq(o->code, 0);
    ck_assert_int_eq(pare_json_parse(&cx, "stdout", o->text, strlen(o->text), 1 << 16, &json),
                     PARE_OK);
    ck_assert_uint_eq(pare_json_count(pare_json_get(json, "left_out")), 0);
    const pare_json *const left = pare_json_get(json, "unknown");
    ck_assert_uint_eq(pare_json_count(left), 1);
    ck_assert_str_eq(pare_json_text(pare_json_get(pare_json_at(left, 0), "what"), NULL), "lm_hed");
    const pare_json *const always = pare_json_get(json, "implied"); /* lm_head, which is there */
    ck_assert_uint_eq(pare_json_count(always), 1);
    ck_assert_str_eq(pare_json_text(pare_json_get(pare_json_at(always, 0), "what"), NULL),
                     "lm_head");
    pare_json_free(json);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("translate");
    TCase *const t = tcase_create("translate");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, recipes_of_another_tool_are_translated_and_the_rest_is_listed, 0,
                        RECIPES);
    tcase_add_test(t, what_is_no_recipe_of_the_other_tool_is_refused_with_its_place);
    tcase_add_test(t, the_first_broken_expression_is_told_once);
    tcase_add_test(t, a_linear_that_two_modifiers_want_is_told_by_both);
    tcase_add_test(t, memory_that_runs_out_is_an_error);
    tcase_add_test(t, what_was_left_out_is_told_and_ends_with_3);
    tcase_add_test(t, a_name_that_is_nowhere_is_told_in_json);
    suite_add_tcase(s, t);
    return unit_main(s);
}
