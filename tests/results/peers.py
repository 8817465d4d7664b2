"""Quantizers of others beside pare: peers.py PARE MODEL OUT.csv --calibration TEXT --test TEXT
[--name real] [--peers NAME,...] [--bits 4] [--groups 64] [--seeds 1] [--windows 8] [--minutes 15]
In a Python that has torch and the packages of some peers; others are named and left out. Each peer
quantizes MODEL on the tokens that a recipe of pare draws from TEXT for the same seed (the checksum in
its manifest proves it). What comes out is written as a plain checkpoint in F32, measured by "pare
eval" as pare's artifacts are, and added to OUT.csv (see README.md)."""
import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import quality_rows

SAMPLES, WINDOW = 24, 512
MASK = (1 << 64) - 1


def llm_compressor(model, tokens, bits, group, work, sym=True, observer=None, **options):
    import datasets
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import GPTQModifier

    extra = {"observer": observer} if observer else {}
    weights = QuantizationArgs(num_bits=bits, type="int", symmetric=sym, strategy="group",
                               group_size=group, **extra)
    recipe = GPTQModifier(config_groups={"all": QuantizationScheme(targets=["Linear"],
                                                                   weights=weights)},
                          ignore=["lm_head"], **options)
    data = datasets.Dataset.from_dict({"input_ids": tokens,
                                       "attention_mask": [[1] * len(t) for t in tokens]})
    oneshot(model=model, dataset=data, recipe=recipe, num_calibration_samples=len(tokens),
            max_seq_length=len(tokens[0]), shuffle_calibration_samples=False)
    out = {}
    for name, module in model.named_modules():
        if getattr(module, "quantization_scheme", None) is not None:
            out[name + ".weight"] = fake_quantize(
                module.weight.data.float(), module.weight_scale.data.float(),
                getattr(module, "weight_zero_point", None), module.quantization_scheme.weights,
                getattr(module, "weight_g_idx", None))
    return out


def gptqmodel(model, tokens, bits, group, work, sym=True, gptaq=False, dtype=None, **options):
    """Takes the path of the model: it loads it itself. The codes are read back from its files."""
    os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # by itself it fails on two processors
    from gptqmodel import BACKEND, GPTQModel, QuantizeConfig
    from gptqmodel.quantization.config import GPTAQConfig

    if gptaq:
        options["gptaq"] = GPTAQConfig()
    config = QuantizeConfig(bits=bits, group_size=group, sym=sym, **options)
    quantized = GPTQModel.load(model, config, device="cpu", dtype=dtype)
    quantized.quantize([{"input_ids": t, "attention_mask": [1] * len(t)} for t in tokens],
                       batch_size=1, backend=BACKEND.TORCH)
    quantized.save(work)
    return packed_gptq(work, bits)


def packed_gptq(folder, bits):
    """Weights [out, in] of the files of GPTQ: codes and zero points in words of 32 bits."""
    import glob

    import torch
    from safetensors.torch import load_file

    tensors = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        tensors.update(load_file(path))
    with open(os.path.join(folder, "quantize_config.json")) as f:
        old = json.load(f).get("checkpoint_format", "gptq") == "gptq"  # stores zero points less 1

    def fields(words, count):  # along dimension 0, LSB first, over the ends of words
        at = torch.arange(count) * bits
        wide = torch.nn.functional.pad(words.long() & 0xFFFFFFFF, (0, 0, 0, 1))
        low, high = wide[at // 32], wide[at // 32 + 1]
        return (low >> (at % 32)[:, None] | high << (32 - at % 32)[:, None]) & (1 << bits) - 1

    out = {}
    for key in [k for k in tensors if k.endswith(".qweight")]:
        name = key[:-len(".qweight")]
        scales, index = tensors[name + ".scales"].float(), tensors[name + ".g_idx"].long()
        code = fields(tensors[key], len(index))
        zero = fields(tensors[name + ".qzeros"].T.contiguous(), scales.shape[1]).T
        zero = zero + 1 & (1 << bits) - 1 if old else zero
        out[name + ".weight"] = ((code - zero[index]).float() * scales[index]).T.contiguous()
    return out


def auto_round(model, tokens, bits, group, work, sym=True, **options):
    import torch
    from auto_round import AutoRound
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=options.pop("tokenizer"))
    data = [{"input_ids": torch.tensor([t]), "attention_mask": torch.ones_like(torch.tensor([t]))}
            for t in tokens]
    rounder = AutoRound(model, tokenizer, bits=bits, group_size=group, sym=sym, dataset=data,
                        nsamples=len(tokens), seqlen=len(tokens[0]), device_map="cpu", **options)
    done, layers = rounder.quantize()
    return {name + ".weight": module.weight.data.float()
            for name, module in done.named_modules() if name in layers and hasattr(module, "scale")}


# name, package, function, options: what the package does by itself first, then what its documents
# offer for more quality. "dtype" is that of the model it works on; float32 if there is none.
PEERS = [
    ("llm-compressor default", "llmcompressor", llm_compressor, {}),
    ("GPTQModel default", "gptqmodel", gptqmodel, {}),
    ("auto-round default", "auto_round", auto_round, {}),
    ("llm-compressor bf16", "llmcompressor", llm_compressor, {"dtype": "bfloat16"}),
    ("GPTQModel bf16", "gptqmodel", gptqmodel, {"dtype": "bfloat16"}),
    ("llm-compressor mse", "llmcompressor", llm_compressor, {"observer": "mse"}),
    ("llm-compressor asymmetric", "llmcompressor", llm_compressor, {"sym": False}),
    ("GPTQModel desc_act", "gptqmodel", gptqmodel, {"desc_act": True, "act_group_aware": False}),
    ("GPTQModel mse", "gptqmodel", gptqmodel, {"mse": 2.4}),
    ("GPTQModel GPTAQ", "gptqmodel", gptqmodel, {"gptaq": True}),
    ("GPTQModel desc_act mse", "gptqmodel", gptqmodel,
     {"desc_act": True, "act_group_aware": False, "mse": 2.4}),
    ("auto-round opt-rtn", "auto_round", auto_round, {"iters": 0}),
    ("auto-round light", "auto_round", auto_round, {"iters": 50, "lr": 5e-3}),
    ("auto-round best", "auto_round", auto_round, {"iters": 1000}),
]


def philox(seed, index, stream):
    """64 uniform bits: runtime/random.h."""
    x = [index & 0xFFFFFFFF, index >> 32, stream & 0xFFFFFFFF, stream >> 32]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [p1 >> 32 ^ x[1] ^ k0, p1 & 0xFFFFFFFF, p0 >> 32 ^ x[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return x[1] << 32 | x[0]


def windows(model, text, seed):
    """The windows that a recipe draws: consecutive ones, picked by selection sampling."""
    from tokenizers import Tokenizer

    with open(text, encoding="utf-8") as f:
        ids = Tokenizer.from_file(os.path.join(model, "tokenizer.json")).encode(
            f.read(), add_special_tokens=False).ids
    stream = 0xCBF29CE484222325
    for c in b"calibration windows":
        stream = (stream ^ c) * 0x100000001B3 & MASK
    have, picked = len(ids) // WINDOW, []
    for i in range(have):
        if (philox(seed, i, stream) >> 11) * 2.0**-53 * (have - i) < SAMPLES - len(picked):
            picked.append(ids[i * WINDOW:(i + 1) * WINDOW])
    return picked


def prove(pare, model, text, seed, tokens, work):
    """The tokens are those that pare takes: the manifest of a quick job has their checksum."""
    out = os.path.join(work, f"prove-{seed}")
    with open(os.path.join(work, f"prove-{seed}.yaml"), "w") as f:
        json.dump({"pare": 1, "model": model, "output": out, "seed": seed,
                   "calibration": {"text": [text], "samples": SAMPLES, "window": WINDOW},
                   "passes": [{"wanda": {"targets": ["*.layers.0.self_attn.q_proj"]}}],
                   "evaluate": []}, f)
    subprocess.run([pare, "compress", f.name, "--no-progress"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(out, "manifest.json")) as f:
        said = json.load(f)["calibration"]["tokens_sha256"]
    words = b"".join(i.to_bytes(4, "little") for t in tokens for i in t)
    if hashlib.sha256(words).hexdigest() != said:
        sys.exit(f"seed {seed}: these are not the tokens of pare's recipe")


def check_grid(name, weight, bits, group):
    """Weights are on a grid if a row has no more values than its groups have codes. Groups may hold any
    columns (sorted by their activations), so it is the row that counts."""
    most = (1 << bits) * -(-weight.shape[1] // group)
    for row in weight[:16]:
        if len(row.unique()) > most:
            sys.exit(f"{name}: {len(row.unique())} values in a row, which {bits} bits cannot hold")


def one(a):
    """A peer, in a process of its own: writes the checkpoint a.one and prints its seconds."""
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM

    _, _, function, options = next(p for p in PEERS if p[0] == a.peers)
    with open(a.tokens) as f:
        tokens = json.load(f)
    original = load_file(os.path.join(a.model, "model.safetensors"))
    options = dict(options)
    dtype = getattr(torch, options.pop("dtype", "float32"))
    model = a.model
    if function is gptqmodel:  # it loads the model itself
        options["dtype"] = dtype
    else:
        model = AutoModelForCausalLM.from_pretrained(a.model, dtype=dtype)
    if function is auto_round:
        options = {**options, "tokenizer": os.path.join(a.model, "tokenizer.json")}
    begin, cpu = time.monotonic(), time.process_time()
    changed = function(model, tokens, int(a.bits), int(a.groups), a.one + ".work", **options)
    seconds, cpu = time.monotonic() - begin, time.process_time() - cpu
    if not changed:
        sys.exit("it quantized no linear")
    for name, weight in changed.items():
        if weight.shape != original[name].shape or not torch.isfinite(weight).all():
            sys.exit(f"{name}: wrong shape, or values that are not finite")
        check_grid(name, weight, int(a.bits), int(a.groups))
        original[name] = weight.float().contiguous()
    os.makedirs(a.one)
    save_file({k: v.float() for k, v in original.items()},
              os.path.join(a.one, "model.safetensors"), {"format": "pt"})
    linear = sum(w.numel() for w in changed.values())
    # the codes, and for each group a scale in 16 bits (asymmetric: a zero point, too)
    groups = sum(w.shape[0] * -(-w.shape[1] // int(a.groups)) for w in changed.values())
    side = 16 if options.get("sym", True) else 16 + int(a.bits)
    per_weight = int(a.bits) + side * groups / linear
    rest = 2 * (sum(v.numel() for v in original.values()) - linear)
    with open(os.path.join(a.one, "said.json"), "w") as f:
        json.dump({"seconds": f"{seconds:.1f}", "cpu_seconds": f"{cpu:.1f}",
                   "bytes": round(linear * per_weight / 8) + rest, "linears": len(changed),
                   "bits_per_weight": f"{per_weight:.4f}"}, f)


def run(a, peer, bits, group, seed, tokens, work):
    known = {"model": a.name, "method": peer, "bits": bits, "group": group,
             "calibration": os.path.basename(a.calibration), "seed": seed}
    if quality_rows.has(a.csv, {k: str(v) for k, v in known.items()}):
        return
    what, out = f"{peer}, {bits} bits, groups of {group}, seed {seed}", os.path.join(work, "peer")
    print(f"{what} ...", flush=True)
    for folder in (out, out + ".work"):
        shutil.rmtree(folder, ignore_errors=True)
    log = os.path.join(work, what.replace(" ", "-") + ".log")
    with open(os.path.join(work, "tokens.json"), "w") as f:
        json.dump(tokens, f)
    with open(log, "w") as f:
        child = subprocess.Popen([sys.executable, os.path.abspath(__file__), a.pare, a.model, a.csv,
                                  "--peers", peer, "--bits", str(bits), "--groups", str(group),
                                  "--one", out, "--tokens", os.path.join(work, "tokens.json")],
                                 stdout=f, stderr=subprocess.STDOUT, cwd=work)  # some leave logs
        try:
            code = child.wait(60 * a.minutes)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            print(f"skipped: {what}: not done after {a.minutes} minutes ({log})")
            return
    if code:
        with open(log) as f:
            print(f"skipped: {what}: {(f.read().strip().splitlines() or ['?'])[-1]} ({log})")
        return
    with open(os.path.join(out, "said.json")) as f:
        said = json.load(f)
    os.remove(os.path.join(out, "said.json"))
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(os.path.join(a.model, name), out)
    found = subprocess.run([a.pare, "eval", out, "--baseline", a.model, "--text", a.test,
                            "--window", str(WINDOW), "--limit", str(a.windows), "--exact",
                            "--format", "json", "--no-progress"], check=True, stdout=subprocess.PIPE)
    print(f"  {said.pop('linears')} linears in {said['seconds']} s")
    quality_rows.add(a.csv, {**known, **said}, json.loads(found.stdout))


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    for name in ("pare", "model", "csv"):
        p.add_argument(name)
    for name, value in (("calibration", None), ("test", None), ("name", "real"), ("bits", "4"),
                        ("peers", ",".join(peer[0] for peer in PEERS)), ("groups", "64"),
                        ("work", None), ("one", None), ("tokens", None)):
        p.add_argument("--" + name, default=value)
    for name, value in (("seeds", 1), ("windows", 8), ("minutes", 15)):
        p.add_argument("--" + name, default=value, type=int)
    a = p.parse_args()
    if a.one:
        return one(a)
    if not a.calibration or not a.test:
        sys.exit("--calibration and --test: which texts?")
    work = os.path.abspath(a.work or tempfile.mkdtemp())
    os.makedirs(work, exist_ok=True)
    a.model, a.calibration = os.path.abspath(a.model), os.path.abspath(a.calibration)
    tokens = [windows(a.model, a.calibration, seed) for seed in range(a.seeds)]
    for seed in range(a.seeds):
        prove(a.pare, a.model, a.calibration, seed, tokens[seed], work)
    for name in a.peers.split(","):
        peer = next((p for p in PEERS if p[0] == name), None)
        if peer is None:
            print(f"skipped: {name}: no such peer; peers are {', '.join(p[0] for p in PEERS)}")
        elif importlib.util.find_spec(peer[1]) is None:
            print(f"skipped: {name}: this Python has no package {peer[1]}")
        else:
            for bits in a.bits.split(","):
                for group in a.groups.split(","):
                    for seed in range(a.seeds):
                        run(a, name, int(bits), int(group), seed, tokens[seed], work)


if __name__ == "__main__":
    main()
