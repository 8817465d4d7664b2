"""Artifacts exported as GGUF, read with the package gguf.

    gguf_exports.py PARE MODELS

For each artifact and type of block the package must find the types that pare says, and decode every
matrix to the values of `pare export --format safetensors` (in F32, so exact) where pare says
"lossless", else to values as far away as pare says. Evaluation of both must give the same likelihood. What the
tokenizer has in its file stands in the metadata.
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np

from gguf_models import gguf_name, interleave, read_model, write_model

RECIPE = """pare: 1
model: {model}
output: {output}
passes:
  - {step}
"""
STEPS = {
    "int4": "rtn: {bits: 4, group: 32}",
    "asym": "rtn: {bits: 4, group: 64, symmetric: false}",
    "int8": "rtn: {bits: 8, group: row}",
    "ternary": "ternary: {group: 256}",
    "mxfp4": "mxfp4: {}",
    "nvfp4": "nvfp4: {}",
}
LOSSLESS = {"int4": ["Q4_0", "Q8_0", "Q4_1"], "asym": ["Q8_0"], "int8": ["Q8_0"],
            "ternary": ["TQ1_0", "TQ2_0", "Q4_0", "Q8_0", "Q6_K"], "mxfp4": ["MXFP4"],
            "nvfp4": ["Q4_0", "F16"]}
OTHER = {"int4": ["Q6_K", "F16", "MXFP4"], "mxfp4": [], "nvfp4": [], "asym": ["Q4_1", "Q4_0"],
         "int8": ["Q4_K", "Q4_0", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q5_K"], "ternary": []}
# Of six blocks: no eighth at the front, one block at the end.
MIXES = {"Q4_K_M": ("Q4_K", {2: "Q6_K", 5: "Q6_K"}), "Q5_K_M": ("Q5_K", {2: "Q6_K", 5: "Q6_K"}),
         "Q3_K_M": ("Q3_K", {0: "Q5_K", 1: "Q5_K", 2: "Q4_K", 3: "Q4_K", 4: "Q4_K", 5: "Q4_K"}),
         "Q3_K_S": ("Q3_K", {}), "Q2_K_M": ("Q2_K", {i: "Q3_K" for i in range(6)})}
TEXT = "Once upon a time, there was a cafe. The 23 dogs didn't know  why!\n\nThey ran away. " * 12


def run(pare, *args):
    result = subprocess.run([pare, *args], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"pare {' '.join(map(str, args))}: {result.stderr}")
    return result.stdout


def decode(tensor):
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type)


def factor(file, name):
    """What a matrix of NVFP4 is multiplied with."""
    beside = file.get(name.removesuffix(".weight") + ".scale")
    return beside.data[0] if beside is not None else np.float32(1)


def check_matrices(file, wanted, config, rows):
    """Every matrix as often as pare says it is stored, and as exactly."""
    said = {row["name"] + ".weight": row for row in rows}
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for name, w in wanted.items():
        if w.ndim == 1:
            value = decode(file[gguf_name(name)])
            assert np.array_equal(value, w), name
            continue
        for part, count in heads.items():
            if part in name:
                w = interleave(w, count)
        tensor, row = file[gguf_name(name)], said.get(name)
        value = (decode(tensor) * factor(file, tensor.name)).astype(np.float64)
        if row is None or row["fate"] == "float":
            assert np.array_equal(value, w), name
            continue
        assert tensor.tensor_type.name == row["type"], (name, row)
        error = np.linalg.norm(value - w) / np.linalg.norm(w)
        if row["fate"] == "lossless":
            assert error == 0, (name, row, error)
        else:
            assert abs(error - row["relative_error"]) <= 1e-5 * error, (name, row, error)


def check_tokenizer(reader, model):
    file = json.loads((model / "tokenizer.json").read_text())
    field = reader.fields["tokenizer.ggml.tokens"]
    tokens = [bytes(field.parts[i]).decode() for i in field.data]
    for text, i in file["model"]["vocab"].items():
        assert tokens[i] == text
    types = reader.fields["tokenizer.ggml.token_type"]
    kinds = [int(types.parts[i][0]) for i in types.data]
    for token in file["added_tokens"]:
        assert tokens[token["id"]] == token["content"]
        assert kinds[token["id"]] in (2, 3, 4)
    if "tokenizer.ggml.merges" in reader.fields:
        field = reader.fields["tokenizer.ggml.merges"]
        merges = [bytes(field.parts[i]).decode() for i in field.data]
        assert merges == [m if isinstance(m, str) else " ".join(m) for m in file["model"]["merges"]]


def likelihood(pare, model, text):
    out = json.loads(run(pare, "eval", model, "--exact", "--text", text, "--format", "json"))
    return out["perplexity"]["nll"]


def make_artifact(pare, home, source, kind):
    """A model in F32, so that the values of its artifact are floats of it, and the artifact."""
    model, artifact = home / f"{kind}-model", home / kind
    model.mkdir()
    for file in source.glob("*.json"):
        shutil.copy(file, model)
    write_model(model / "model.safetensors", dict(read_model(source / "model.safetensors")))
    (home / "recipe").write_text(RECIPE.format(model=model, output=artifact, step=STEPS[kind]))
    run(pare, "compress", home / "recipe")
    run(pare, "export", artifact, "--format", "safetensors", "--output", home / f"{kind}-floats")
    return artifact, dict(read_model(home / f"{kind}-floats" / "model.safetensors"))


def check_kind(pare, home, source, kind):
    artifact, wanted = make_artifact(pare, home, source, kind)
    config = json.loads((source / "config.json").read_text())
    before = likelihood(pare, artifact, home / "text")
    for block in LOSSLESS[kind] + OTHER[kind]:
        out = home / f"{kind}.{block}.gguf"
        said = json.loads(run(pare, "export", artifact, "--format", f"gguf:{block.lower()}",
                              "--output", out, "--json"))
        reader = gguf.GGUFReader(out)
        check_tokenizer(reader, source)
        check_matrices({t.name: t for t in reader.tensors}, wanted, config, said["linears"])
        exact = said["relative_error"] == 0
        assert exact == (block in LOSSLESS[kind]), (kind, block, said["relative_error"])
        after = likelihood(pare, out, home / "text")
        assert not exact or after == before, (kind, block, before, after)
        print(kind, block, said["fates"], "nll", before, after)


def check_mixes(pare, home, source, kind):
    """Types of v by block, of q, and of the tied embedding; values as far away as pare says."""
    artifact, wanted = home / kind, dict(read_model(home / f"{kind}-floats" / "model.safetensors"))
    config = json.loads((source / "config.json").read_text())
    embedding = wanted.pop("model.embed_tokens.weight")
    for mix, (most, values) in MIXES.items():
        out = home / f"{kind}.{mix}.gguf"
        said = json.loads(run(pare, "export", artifact, "--format", f"gguf:{mix.lower()}",
                              "--output", out, "--json"))
        file = {t.name: t for t in gguf.GGUFReader(out).tensors}
        rows = {row["name"]: row for row in said["linears"]}
        assert rows["lm_head"]["fate"] == "quantized" and rows["lm_head"]["type"] == "Q6_K", rows
        check_matrices(file, wanted, config, said["linears"])
        error = np.linalg.norm(decode(file["token_embd.weight"]) - embedding) / np.linalg.norm(embedding)
        assert abs(error - rows["lm_head"]["relative_error"]) <= 1e-5 * error, error
        assert file["token_embd.weight"].tensor_type.name == "Q6_K"
        for i in range(config["num_hidden_layers"]):
            assert file[f"blk.{i}.attn_v.weight"].tensor_type.name == values.get(i, most), (mix, i)
            assert file[f"blk.{i}.attn_q.weight"].tensor_type.name == most, (mix, i)
        print(kind, mix, said["fates"], "nll", likelihood(pare, out, home / "text"))


def main():
    pare, models = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as home:
        home = Path(home)
        (home / "text").write_text(TEXT)
        for kind in STEPS:
            check_kind(pare, home, models / "hedge", kind)
        check_mixes(pare, home, models / "hedge", "int8")


if __name__ == "__main__":
    main()
