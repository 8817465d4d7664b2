"""GGUF files written with the package gguf, read as models.

    gguf_models.py PARE MODELS

For each type of block: a model of MODELS is written as GGUF, and the values that the package makes
of those blocks as safetensors in their original order. pare must find the same in both: tokens of a
text, likelihood to the last bit, codes of a compression. Families written: llama.
"""
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "model.embed_tokens": "token_embd", "model.norm": "output_norm",
    "lm_head": "output",
}
TEXT = "Once upon a time, there was a café. The 23 dogs didn't know  why!\n\nThey ran away. " * 12
RECIPE = """pare: 1
model: {model}
output: {output}
passes:
  - rtn: {{bits: 4, group: 32}}
"""


def read_model(path):
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    kinds = {"F32": np.float32, "F16": np.float16}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            data = np.frombuffer(raw[8 + size + begin:8 + size + end], kinds[entry["dtype"]])
            yield name, data.reshape(entry["shape"])


def write_model(path, tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        raw = value.astype(np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def gguf_name(name):
    base, kind = name.rsplit(".", 1)
    if base.startswith("model.layers."):
        _, _, block, rest = base.split(".", 3)
        return f"blk.{block}.{NAMES[rest]}.{kind}"
    return f"{NAMES[base]}.{kind}"


def interleave(w, heads):
    """Row h d + p d/2 + i becomes h d + 2 i + p."""
    return w.reshape(heads, 2, -1, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def take_apart(w, heads):
    return w.reshape(heads, -1, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


# Of types that the package only reads: where scales of 16 bits lie in a block, and what a step of
# one is worth: of about so many an element is made.
SCALES = {"Q2_K": (80, 20), "Q3_K": (108, 60), "Q4_K": (0, 256), "Q5_K": (0, 512), "Q6_K": (208, 1024),
          "IQ4_NL": (0, 70), "IQ4_XS": (0, 1200), "IQ2_XXS": (0, 80), "IQ2_XS": (0, 80),
          "IQ2_S": (0, 80), "IQ3_XXS": (0, 120), "IQ3_S": (0, 120), "IQ1_S": (0, 8)}
OFFSETS = {"Q2_K": 2, "Q4_K": 8, "Q5_K": 16}  # a second scale behind it, so many times the first


def random_blocks(w, kind, rng):
    """Any bits, with scales that fit the matrix."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (w.shape[0], w.shape[1] // elements, size), dtype=np.uint8)
    spread = float(w.std())
    if kind == Type.MXFP4:
        raw[..., 0] = 127 + round(np.log2(spread / 2.5))
    elif kind == Type.NVFP4:
        raw[..., :4] = max(1, 7 + round(np.log2(spread / 2.5))) << 3
    elif kind == Type.IQ1_M:  # a nibble at the top of each of four words
        bits = int(np.array([spread / 8], np.float16).view(np.uint16)[0])
        for i in range(4):
            raw[..., 49 + 2 * i] = raw[..., 49 + 2 * i] & 15 | (bits >> 4 * i & 15) << 4
    else:
        at, of = SCALES[kind.name]
        scales = [spread / of] + [spread / of * n for n in [OFFSETS.get(kind.name)] if n]
        raw[..., at:at + 2 * len(scales)] = np.array(scales, np.float16).view(np.uint8)
    return raw.reshape(w.shape[0], -1)


def pack(w, kind, rng):
    if kind == Type.F64:
        return w.astype(np.float64)
    if kind.name in SCALES or kind in (Type.MXFP4, Type.NVFP4, Type.IQ1_M):
        return random_blocks(w, kind, rng)
    return gguf.quants.quantize(w.astype(np.float32), kind)


def unpack(packed, kind):
    return packed.astype(np.float32) if kind == Type.F64 else gguf.quants.dequantize(packed, kind)


def add_config(out, config):
    heads = config["num_attention_heads"]
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(heads)
    out.add_head_count_kv(config.get("num_key_value_heads", heads))
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_rope_freq_base(config.get("rope_theta", 10000.0))
    out.add_rope_dimension_count(config.get("head_dim") or config["hidden_size"] // heads)
    out.add_vocab_size(config["vocab_size"])


def kind_of(text, model, added, sentences):
    if sentences and text == model["unk_token"]:
        return 2
    if text in added:
        return 3 if added[text]["special"] else 4
    return 6 if sentences and len(text) == 6 and text.startswith("<0x") else 1


def add_tokenizer(out, directory):
    text = json.loads((directory / "tokenizer.json").read_text())
    settings = json.loads((directory / "tokenizer_config.json").read_text())
    model, added = text["model"], {t["content"]: t for t in text["added_tokens"]}
    ids = {**model["vocab"], **{c: t["id"] for c, t in added.items()}}
    vocab = sorted(ids, key=ids.get)
    merges = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    sentences = model.get("byte_fallback", False)
    out.add_tokenizer_model("llama" if sentences else "gpt2")
    out.add_tokenizer_pre("default" if sentences else "gpt-2")
    out.add_token_list(vocab)
    out.add_token_types([kind_of(t, model, added, sentences) for t in vocab])
    if sentences:  # pieces that merges make, in the order of the merges; characters below them
        score = {}
        for rank, pair in enumerate(merges):
            score.setdefault("".join(pair), -float(rank))
        out.add_token_scores([score.get(t, -1e4 - i) for i, t in enumerate(vocab)])
    else:
        out.add_token_merges([" ".join(m) for m in merges])
    for key, add in (("bos_token", out.add_bos_token_id), ("eos_token", out.add_eos_token_id),
                     ("unk_token", out.add_unk_token_id)):
        token = settings.get(key)
        if token:
            add(ids[token if isinstance(token, str) else token["content"]])
    out.add_add_bos_token(bool(settings.get("add_bos_token")))


def write_both(directory, wanted, target, reference, part=0):
    """The model as GGUF, in parts of `part` tensors if that is more than 0, and what its blocks
    stand for as safetensors."""
    config = json.loads((directory / "config.json").read_text())
    rng = np.random.default_rng(7)
    out = gguf.GGUFWriter(target, "llama", split_max_tensors=part, small_first_shard=part % 2 == 1)
    add_config(out, config)
    add_tokenizer(out, directory)
    values, used = {}, set()
    for name, data in read_model(directory / "model.safetensors"):
        heads = config["num_attention_heads"]
        if "k_proj" in name:
            heads = config.get("num_key_value_heads", heads)
        turned = "q_proj" in name or "k_proj" in name
        data = interleave(data, heads) if turned else data
        fits = data.ndim == 2 and data.shape[1] % gguf.GGML_QUANT_SIZES[wanted][0] == 0
        kind = wanted if fits else Type.F32
        used.add(kind.name)
        packed = pack(data, kind, rng) if kind != Type.F32 else data.astype(np.float32)
        out.add_tensor(gguf_name(name), packed, raw_dtype=kind)
        back = unpack(packed, kind)
        values[name] = take_apart(back, heads) if turned else back
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    reference.mkdir()
    write_model(reference / "model.safetensors", values)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(directory / name, reference)
    return used


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stderr}"
    return done


def evaluate(pare, model, text):
    done = run(pare, "eval", model, "--text", text, "--window", 64, "--exact", "--format", "json")
    found = json.loads(done.stdout)
    found = {"tokens": found["tokens"], "nll": found["perplexity"]["nll"]}
    return found, done.stderr


def check_type(pare, directory, wanted, folder):
    target, reference, text = folder / "model.gguf", folder / "reference", folder / "text"
    used = write_both(directory, wanted, target, reference)
    text.write_text(TEXT)
    ours, said = evaluate(pare, target, text)
    other, _ = evaluate(pare, reference, text)
    assert ours == other, f"{directory.name} {wanted.name}: {ours} but {other}"
    blocks = {name for name in used if gguf.GGML_QUANT_SIZES[Type[name]][0] > 1}
    assert ("is quantized" in said) == bool(blocks), said
    listed = {row["encoding"] for row in json.loads(run(pare, "inspect", target, "--format", "json").stdout)["tensors"]}
    assert listed == used, f"{listed} but {used}"
    run(pare, "verify", target)
    print(f"{directory.name} as {wanted.name}: {ours['nll']:.6f} nats, as the package has it")
    return target, reference


def check_parts(pare, directory, wanted, folder):
    """The same from any part; a part that is missing, or of another model, is refused."""
    for part in (4, 5):
        home = folder / f"in{part}"
        home.mkdir()
        write_both(directory, wanted, home / "model.gguf", home / "reference", part)
        parts = sorted(home.glob("model-*.gguf"))
        assert len(parts) > 2, parts
        (folder / "text").write_text(TEXT)
        other, _ = evaluate(pare, home / "reference", folder / "text")
        for path in (parts[0], parts[-1], home):
            assert evaluate(pare, path, folder / "text")[0] == other, path
        run(pare, "verify", parts[1])
        kept = parts[1].read_bytes()
        for bytes_of, said in ((None, "missing"), (parts[0].read_bytes(), "its name says part 2")):
            parts[1].unlink()
            if bytes_of:
                parts[1].write_bytes(bytes_of)
            done = subprocess.run([pare, "inspect", parts[0]], capture_output=True, text=True)
            assert done.returncode != 0 and said in done.stderr, done.stderr
            parts[1].write_bytes(kept)
        print(f"{directory.name} as {wanted.name} in {len(parts)} parts: as the package has it")


def check_compress(pare, target, reference, folder):
    packed = []
    for kind, model in (("a", target), ("b", reference)):
        recipe = folder / f"{kind}.yaml"
        recipe.write_text(RECIPE.format(model=model, output=folder / kind))
        run(pare, "compress", recipe)
        packed.append((folder / kind / "packed-00001-of-00001.safetensors").read_bytes())
        run(pare, "verify", folder / kind)
    assert packed[0] == packed[1], "codes of the two differ"
    text = folder / "text"
    assert evaluate(pare, folder / "a", text)[0] == evaluate(pare, folder / "b", text)[0]


def main():
    pare, models = Path(sys.argv[1]), Path(sys.argv[2])
    types = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K",
             "Q5_K", "Q6_K", "TQ1_0", "TQ2_0", "IQ4_NL", "IQ4_XS", "IQ2_XXS", "IQ2_XS", "IQ2_S",
             "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "MXFP4", "NVFP4", "F64"]
    for name, kind in [("hedge", t) for t in types] + [("stories260k", "F32"), ("stories260k", "Q8_0")]:
        with tempfile.TemporaryDirectory() as folder:
            made = check_type(pare, models / name, Type[kind], Path(folder))
            if kind in ("F32", "Q4_0"):
                check_compress(pare, *made, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        check_parts(pare, models / "hedge", Type.Q4_0, Path(folder))
    print(f"{len(types) + 3} passed, 0 failed")


if __name__ == "__main__":
    main()
