#include "tests/unit/translated.h"

const translated translated_recipes[] = {
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
     {"  - nvfp4: {activations: nvfp4}\n"},
     {0},
     {3}},
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    QuantizationModifier: {scheme: MXFP4, targets: Linear, ignore: [lm_head]}\n",
     {"  - mxfp4: {activations: mxfp4}\n", "# No calibration: "},
     {0},
     {3}},
    /* gptq rounds inputs to integers alone */
    {"quant_stage:\n"
     "  quant_modifiers:\n"
     "    GPTQModifier: {scheme: NVFP4, targets: Linear, ignore: [lm_head]}\n",
     {"  - gptq: {grid: nvfp4, bits: 4, act_order: true}\n"},
     {3},
     {3}},
    /* inputs as their program saves them, and some that are rounded in another way */
    {"default_stage:\n"
     "  default_modifiers:\n"
     "    QuantizationModifier:\n"
     "      config_groups:\n"
     "        group_0:\n"
     "          targets: ['re:.*q_proj']\n"
     "          weights: {num_bits: 4, type: float, group_size: 16, strategy: tensor_group}\n"
     "          input_activations: {num_bits: 4, type: float, symmetric: true, group_size: 16,\n"
     "                              strategy: tensor_group, dynamic: local, observer: "
     "static_minmax,\n"
     "                              scale_dtype: torch.float8_e4m3fn}\n"
     "        group_1:\n"
     "          targets: ['re:.*k_proj']\n"
     "          weights: {num_bits: 4, type: float, group_size: 32, strategy: group}\n"
     "          input_activations: {num_bits: 4, type: float, group_size: 32, strategy: group,\n"
     "                              dynamic: true, scale_dtype: torch.uint8}\n"
     "        group_2:\n"
     "          targets: ['re:.*v_proj']\n"
     "          weights: {num_bits: 4, type: float, group_size: 32, strategy: group}\n"
     "          input_activations: {num_bits: 4, type: float, group_size: 32, strategy: group}\n"
     "        group_3:\n"
     "          targets: ['re:.*o_proj']\n"
     "          weights: {num_bits: 8, type: float, strategy: channel}\n"
     "          input_activations: {num_bits: 4, type: float, group_size: 32, strategy: group,\n"
     "                              dynamic: true}\n"
     "      ignore: [lm_head]\n",
     {"  - nvfp4: {activations: nvfp4, targets: [\"re:.*q_proj\"]}\n",
      "  - mxfp4: {activations: mxfp4, targets: [\"re:.*k_proj\"]}\n",
      "  - mxfp4: {targets: [\"re:.*v_proj\"]}\n",
      "  - fp8: {group: row, targets: [\"re:.*o_proj\"]}\n"},
     {19, 23},
     {25}},
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

const int translated_count = sizeof translated_recipes / sizeof *translated_recipes;
