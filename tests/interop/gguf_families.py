"""GGUF exports of small models of every family, read with the package gguf.

    gguf_families.py PARE MAKE_FAMILY

The package's own table of names says where each tensor of the model belongs. It must be there, in
the order of the file, and hold what the export to safetensors holds: rows of q and k turned into
pairs, q, k and v one behind the other, norms with the one that they leave out, experts in one tensor.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np

from gguf_exports import decode, run
from gguf_models import interleave, read_model, write_model

RECIPE = """pare: 1
model: model
output: artifact
passes: [rtn: {bits: 4, group: 32, symmetric: false}]
export: [{format: "gguf:q8_0", path: m.gguf}, {format: safetensors, path: floats}]
"""
ARCH = {
    "llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2", "gemma": "gemma",
    "gemma2": "gemma2", "gemma3_text": "gemma3", "gpt2": "gpt2", "gpt_neox": "gptneox", "phi": "phi2", "phi3": "phi3",
    "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe",
    "smollm3": "smollm3", "olmo2": "olmo2", "olmo3": "olmo2", "glm4": "glm4", "granite": "granite",
}
WIDTHS = "deci"  # Llama with an MLP width for each block
# What of config.json the format has no word for.
CHANGES = {"qwen2": {"use_sliding_window": False}, "gemma2": {"query_pre_attn_scalar": 24},
           "gemma3_text": {"query_pre_attn_scalar": 24}}


def words(config, *names):
    return next(config[n] for n in names if config.get(n) is not None)


def expected(name, value, config, arch):
    """The tensor as the file has it."""
    heads = words(config, "num_attention_heads", "n_head")
    groups = config.get("num_key_value_heads", heads)
    if arch in ("llama", WIDTHS, "smollm3", "granite") and (".q_proj." in name or ".k_proj." in name):
        count = heads if ".q_proj." in name else groups
        turned = interleave(value.reshape(len(value), -1), count)
        return turned.reshape(value.shape)
    if arch in ("gemma", "gemma2", "gemma3") and "norm" in name:
        return (value.astype(np.float32) + np.float32(1)).astype(np.float32)
    if arch == "gpt2" and ".h." in name and name.endswith(".weight") and value.ndim == 2:
        return value.T
    if "query_key_value" in name:
        return np.concatenate(list(value.reshape(heads, 3, -1, *value.shape[1:]).swapaxes(0, 1)
                                   .reshape(3, -1, *value.shape[1:])))
    if "shared_expert_gate" in name:
        return value[0]
    return value


def cut(model, widths):
    """The first channels of the MLP of each block."""
    def part(name, value):
        if ".mlp." not in name or name.endswith("down_proj.bias"):
            return value
        width = widths[int(name.split(".")[2])]
        return value[:, :width] if "down_proj" in name else value[:width]
    write_model(model, {name: part(name, value) for name, value in read_model(model)})


def check_family(pare, make, name, home):
    run(make, "llama" if name == WIDTHS else name, home / "model")
    config = json.loads((home / "model/config.json").read_text()) | CHANGES.get(name, {})
    if name == WIDTHS:
        config["intermediate_size"] = [96, 64, 32]
        cut(home / "model/model.safetensors", config["intermediate_size"])
    (home / "model/config.json").write_text(json.dumps(config))
    (home / "recipe").write_text(RECIPE)
    run(pare, "compress", home / "recipe")
    blocks, arch = words(config, "num_hidden_layers", "n_layer"), ARCH.get(name, name)
    reader = gguf.GGUFReader(home / "m.gguf")
    file = {t.name: t for t in reader.tensors}
    kind = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    table = gguf.get_tensor_name_map(kind, blocks)
    seen, experts = set(), {}
    for tensor, value in read_model(home / "floats/model.safetensors"):
        base, ending = tensor.rsplit(".", 1)
        part = [p for p in base.split(".") if p.isdigit()][1:]
        if part:  # of an expert: the table knows the name without its number
            base = base.replace(f".experts.{part[0]}.", ".experts.")
        place = table.get_name(base)
        assert place, f"{name}: the table has no place for {tensor}"
        place = f"{place}.{ending}"
        value = expected(tensor, value, config, arch)
        if part:
            experts.setdefault(place, {})[int(part[0])] = value
            continue
        check_tensor(name, file[place], value)
        seen.add(place)
    for place, of in experts.items():
        check_tensor(name, file[place], np.stack([of[i] for i in range(len(of))]))
        seen.add(place)
    if name == WIDTHS:
        assert reader.fields["deci.feed_forward_length"].contents() == config["intermediate_size"]
    rest = set(file) - seen
    assert rest <= {"output.weight"}, f"{name}: {rest}"
    for tensor in rest:
        assert np.array_equal(decode(file[tensor]), decode(file["token_embd.weight"]))
    print(f"{name}: {len(file)} tensors as the package names them")


def check_tensor(family, tensor, value):
    is_ = decode(tensor).astype(np.float64)
    assert is_.shape == value.shape, (family, tensor.name, is_.shape, value.shape)
    wrong = np.abs(is_ - value) - (np.abs(is_) * 2.0**-11 + 2.0**-25)
    assert wrong.max() <= 0, (family, tensor.name, wrong.max())


def main():
    pare, make = sys.argv[1:]
    known = subprocess.run([make], check=True, capture_output=True, text=True).stdout.split()
    for name in [*ARCH, WIDTHS]:
        if name not in known and name != WIDTHS:
            continue
        with tempfile.TemporaryDirectory() as home:
            check_family(pare, make, name, Path(home))


if __name__ == "__main__":
    main()
