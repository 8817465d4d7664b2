"""What the heavy interop test exports: models, passes, formats, and the engines that load them."""

# engine -> its script and environment, what it multiplies weights by
ENGINES = {
    "transformers": ("torch", "F32"),
    "dequantize": ("torch", "F32"),
    "decompress": ("torch", "F32"),
    "gptqmodel": ("torch", "F16"),  # its last place in a logit of 16 is 0.016
    "exl3_torch": ("torch", "F32"),
    "llama.cpp": ("llama", "int8"),  # blocks of 32 or 256; F16 where the weights are F16
}

CT, CT_FLOATS = ("compressed-tensors", "transformers"), ("compressed-tensors", "dequantize")
CT_INPUTS = ("compressed-tensors", "decompress")
FLOATS, PLAIN = [("safetensors", "transformers")], [("checkpoint", "transformers")]
GPTQ = [("gptq", "gptqmodel"), ("gptq", "transformers")]
GPTQ_2 = [("gptq_v2", "gptqmodel"), ("gptq_v2", "transformers")]
AWQ = [("awq", "gptqmodel"), ("awq", "transformers")]
EXL3 = [("exl3", "exl3_torch")]


def gguf(*types):
    return [("gguf:" + t, "llama.cpp") for t in types]


MIXES = ["q2_k_s", "q2_k_m", "q3_k_s", "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m"]

# (name, passes, exports); what quantizes the inputs as well has its inputs' type behind it
HEDGE = [
    ("int4-g128", "gptq: {bits: 4, group: 128}",
     [CT, CT_FLOATS] + GPTQ + GPTQ_2 + AWQ + FLOATS
     + gguf("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "f16",
            *MIXES)),
    ("int4-g32", "rtn: {bits: 4, group: 32}", [CT] + GPTQ[:1] + AWQ[:1] + gguf("q4_0", "q4_1", "q8_0")),
    ("int4-g32-zero", "rtn: {bits: 4, group: 32, symmetric: false}",
     [CT_FLOATS] + GPTQ_2 + AWQ + gguf("q4_1", "q8_0")),
    ("int4-act-order", "gptq: {bits: 4, group: 64, act_order: true}", [CT, GPTQ[0]] + gguf("q4_0")),
    ("int8-row", "rtn: {bits: 8, group: row}", [CT] + GPTQ[:1] + gguf("q8_0")),
    ("int8-g128", "rtn: {bits: 8, group: 128}", [CT] + GPTQ[:1] + gguf("q8_0")),
    ("int3-g64", "gptq: {bits: 3, group: 64}", [CT] + GPTQ[:1] + GPTQ_2[:1] + AWQ[:1] + gguf("q4_0")),
    ("int2-g32", "gptq: {bits: 2, group: 32}", [CT] + GPTQ[:1] + AWQ[:1]),
    ("fp8-row", "fp8: {group: row}", [CT]),
    ("fp8-token", "fp8: {activations: fp8_token}", [CT]),
    ("w8a8", "smoothquant: {}, rtn: {bits: 8, group: row, activations: int8_token}",
     [CT] + gguf("q8_0")),
    ("w8a8-fixed", "rtn: {bits: 8, group: row, activations: int8_tensor}", [CT]),
    ("ternary-g64", "ternary: {group: 64}", [CT] + gguf("q4_0")),
    ("ternary-g256", "ternary: {group: 256}", gguf("tq1_0", "tq2_0")),
    ("mixed-4-8", "gptq: {bits: 4, group: 64, targets: ['*.mlp.*']}, "
     "rtn: {bits: 8, group: row, targets: ['*.self_attn.*']}", [CT] + gguf("q4_0", "q8_0")),
    ("part", "rtn: {bits: 4, group: 64, skip: ['*.layers.0.mlp.down_proj', '*.layers.3.*']}",
     [CT] + GPTQ[:1] + AWQ[:1] + gguf("q4_0")),
    ("q4_k", "gptq: {grid: q4_k, skip: ['*.down_proj']}, "
     "gptq: {bits: 8, group: 32, targets: ['*.down_proj']}", gguf("q4_k")),
    ("q6_k", "gptq: {grid: q6_k, skip: ['*.down_proj']}, "
     "gptq: {bits: 8, group: 32, targets: ['*.down_proj']}", gguf("q6_k")),
    ("awq-int4", "awq: {}, rtn: {bits: 4, group: 64}", [CT, AWQ[0]] + gguf("q4_0")),
    ("rotated-int4", "rotate: {}, gptq: {bits: 4, group: 64}", [CT] + gguf("q4_0")),
    ("2of4-int4", "wanda: {pattern: '2:4'}, rtn: {bits: 4, group: 128}",
     [CT] + GPTQ[:1] + AWQ[:1] + gguf("q4_0")),
    ("2of4", "wanda: {pattern: '2:4'}", FLOATS + gguf("f16")),
    ("mxfp4", "mxfp4: {}", [CT_FLOATS] + gguf("mxfp4")),
    ("nvfp4", "nvfp4: {}", [CT_FLOATS] + gguf("q8_0", "q4_k_m")),
    ("mxfp4-inputs", "mxfp4: {activations: mxfp4}", [CT_INPUTS]),
    ("nvfp4-inputs", "nvfp4: {activations: nvfp4}", [CT_INPUTS]),
    ("nf4", "nf4: {}", FLOATS + gguf("f16", "q8_0")),
    ("exl3", "exl3: {bits: 3}", EXL3 + FLOATS),
    ("flap", "flap: {ratio: 0.3}", PLAIN),
    ("channels", "channels: {ratio: 0.2}", PLAIN),
    ("slicegpt", "slicegpt: {ratio: 0.25}", PLAIN),
    ("depth", "depth: {blocks: 1}", PLAIN),
]

STORIES = [
    ("int4-row", "rtn: {bits: 4, group: row}", [CT] + FLOATS + gguf("q4_0", "q8_0", "f16")),
    ("int4-g32", "gptq: {bits: 4, group: 32, targets: ['*.self_attn.*']}",
     [CT] + GPTQ[:1] + AWQ[:1] + gguf("q4_0", "q4_1")),
    ("int8-row", "rtn: {bits: 8, group: row}", [CT] + gguf("q8_0")),
    ("fp8-row", "fp8: {group: row}", [CT]),
    ("w8a8", "rtn: {bits: 8, group: row, activations: int8_token}", [CT]),
]

# Small random models of the program make_family: what is changed in config.json so that llama.cpp
# computes the same (None: left out; it keeps to a window in gemma2 and 3, has no bias behind the
# output of attention in qwen3, no other activation than this one in bitnet), tensors to leave out.
FAMILIES = {
    "llama": ({}, None),
    "mistral": ({"sliding_window": None}, None),
    "qwen2": ({"use_sliding_window": False}, None),
    "qwen3": ({"use_sliding_window": False, "layer_types": None, "sliding_window": None,
               "attention_bias": False}, "_proj.bias"),
    "gemma": ({}, None),
    "gemma2": ({"query_pre_attn_scalar": 24}, None),
    "gemma3_text": ({"query_pre_attn_scalar": 24}, None),
    "smollm3": ({}, None),
    "olmo2": ({}, None),
    "olmo3": ({}, None),
    "glm4": ({}, None),
    "granite": ({}, None),
    "gpt2": ({}, None),
    "opt": ({}, None),
    "gpt_neox": ({}, None),
    "gpt_neox_serial": ({}, None),
    "phi": ({}, None),
    "phi3": ({"sliding_window": None}, None),
    "bitnet": ({"hidden_act": "silu"}, None),
    "mixtral": ({"sliding_window": None}, None),
    "qwen2_moe": ({}, None),
    "qwen3_moe": ({}, None),
    "qwen3_5_text": ({}, None),
    "deepseek_v2": ({}, None),
    "deepseek_v2_lite": ({}, None),
    "deepseek_v3": ({}, None),
    "glm4_moe": ({}, None),
    "glm4_moe_air": ({}, None),
}
ONLY_FLOATS = ["qwen3_5_text", "deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "glm4_moe",
               "glm4_moe_air"]  # other formats are refused
NO_GGUF = ["opt", "gpt_neox_serial"] + ONLY_FLOATS  # no such architecture; without biases
NVFP4 = ["llama", "qwen2", "qwen3", "gemma", "glm4", "gpt2", "phi3"]  # not all read all factors
IN_FLOATS = ["mixtral", "qwen3_moe"]  # inputs rounded to int8 let random routers choose otherwise


def family(name):
    """GGUF by the passes whose codes the type holds, and weights for transformers."""
    # no linears there; inputs are rounded; experts are one tensor in transformers
    first = {"gpt2": FLOATS, "bitnet": [], "mixtral": FLOATS, "qwen2_moe": FLOATS,
             "qwen3_moe": FLOATS}.get(name, FLOATS if name in ONLY_FLOATS else [CT])
    more = {"gpt_neox": [GPTQ[1]], "qwen2": [GPTQ[1], AWQ[1]], "phi3": [GPTQ[1], AWQ[1]]}.get(name, [])
    types = [[], []] if name in NO_GGUF else [gguf("q8_0", "f16"), gguf("q4_0")]
    if name in IN_FLOATS:
        types = [gguf("f16"), []]
    rows = [("int8-g32", "rtn: {bits: 8, group: 32}", first + types[0]),
            ("int4-g32", "rtn: {bits: 4, group: 32}", first + more + types[1])]
    return rows + ([("nvfp4", "nvfp4: {}", gguf("q8_0"))] if name in NVFP4 else [])


# percent, nats, largest difference with inputs in F32, the same to weights rounded to F16
PERPLEXITY, KL, LOGITS, ROUNDED = 0.5, 1e-3, 1e-2, 2e-4
KL_FP4 = 2e-3  # inputs of 4 bits: a last place becomes another code
