"""Checkpoints that other programs wrote, read by pare: perplexity of the same tokens by transformers
and by `pare` (dequantized weights in F32).

    foreign.py BUILD MODEL TEXT WORK [NAME ...]

BUILD is a build folder, MODEL a checkpoint in floats, TEXT what is scored, WORK a folder for what is
written. Runs in the environment `torch` of heavy.sh; fails when a perplexity is further from that of
transformers than PERCENT, or pare finds something wrong in a file."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

import engine_compare
import engine_torch

PERCENT, TOKENS, WINDOW = 0.01, 2048, 256
LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def grid(w, bits, group, symmetric):
    """Scale and zero point [rows, groups] of plain rounding, as integers around 0."""
    rows = w.reshape(len(w), -1, group)
    low, high = rows.amin(-1).clamp(max=0), rows.amax(-1).clamp(min=0)
    top = 2 ** (bits - 1)
    if symmetric:
        scale = torch.maximum(high, -low) / (top - 0.5)
        return scale.clamp(min=1e-6), torch.zeros_like(scale, dtype=torch.int8)
    scale = ((high - low) / (2 * top - 1)).clamp(min=1e-6)
    return scale, (torch.round(-low / scale) - top).clamp(-top, top - 1).to(torch.int8)


def pairs(w, kind):
    """What the package's compressor of E2M1 asks for, by the rules of its observer."""
    if kind == "nvfp4-pack-quantized":
        most = w.abs().amax().reshape(1)
        scale = w.reshape(len(w), -1, 16).abs().amax(-1) / 6 * (448 * 6 / most)
        return {"weight_scale": scale.to(torch.float8_e4m3fn).float().clamp(min=2**-9),
                "weight_global_scale": 448 * 6 / most}
    most = w.reshape(len(w), -1, 32).abs().amax(-1).clamp(min=1e-6)
    return {"weight_scale": 2 ** (torch.floor(torch.log2(most)) - 2)}


def compressed_tensors(weights, inputs=None, kind="pack-quantized", dtype=torch.bfloat16):
    """Linears by the package's own compressor, and quantization_config."""
    from compressed_tensors import compressors
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    compressor = {"pack-quantized": compressors.PackedQuantizationCompressor,
                  "int-quantized": compressors.IntQuantizationCompressor,
                  "float-quantized": compressors.FloatQuantizationCompressor,
                  "nvfp4-pack-quantized": compressors.NVFP4PackedCompressor,
                  "mxfp4-pack-quantized": compressors.MXFP4PackedCompressor}[kind]
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))

    def write(name, w):
        if weights["num_bits"] == 4 and weights["type"] == "float":
            done = compressor.compress({"weight": w, **pairs(w, kind)}, scheme)
            return {f"{name}.{k}": v for k, v in done.items()}
        if weights["type"] == "float":
            top = 448.0
            if weights["strategy"] == "block":
                rows, columns = weights["block_structure"]
                pad = torch.nn.functional.pad(w, (0, -w.shape[1] % columns, 0, -w.shape[0] % rows))
                tiles = pad.reshape(pad.shape[0] // rows, rows, -1, columns)
                scale = tiles.abs().amax((1, 3)) / top
            else:
                scale = w.abs().amax(1, keepdim=True) / top
                scale = scale.amax().reshape(1) if weights["strategy"] == "tensor" else scale
            state = {"weight": w, "weight_scale": scale.clamp(min=1e-6).to(dtype)}
        else:
            group = weights.get("group_size") or w.shape[1]
            scale, zero = grid(w, weights["num_bits"], group, weights["symmetric"])
            state = {"weight": w, "weight_scale": scale.to(dtype), "weight_zero_point": zero}
        state["weight_scale"] = state["weight_scale"].float()
        done = compressor.compress(state, scheme)
        done["weight_scale"] = done["weight_scale"].to(dtype)
        return {f"{name}.{k}": v for k, v in done.items()}

    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs,
             "output_activations": None, "format": kind}
    return write, {"quant_method": "compressed-tensors", "format": kind, "ignore": ["lm_head"],
                   "quantization_status": "compressed", "config_groups": {"group_0": group}}


def integers(bits, group, symmetric=True):
    return {"num_bits": bits, "type": "int", "symmetric": symmetric, "dynamic": False,
            "strategy": "group" if group else "channel", "group_size": group}


def floats(strategy, **more):
    return {"num_bits": 8, "type": "float", "symmetric": True, "dynamic": False,
            "strategy": strategy} | more


def floats4(strategy, group):
    return floats(strategy, group_size=group) | {"num_bits": 4}


def words(fields, bits):
    """Fields [lines, count] as streams of 32-bit words [lines, count bits / 32]."""
    stream = (fields[..., None].numpy().astype(np.uint32) >> np.arange(bits, dtype=np.uint32)) & 1
    stream = stream.reshape(len(fields), -1, 32) << np.arange(32, dtype=np.uint32)
    return torch.from_numpy(stream.sum(-1, dtype=np.uint32).view(np.int32))


def gptq(bits, group, symmetric=True, version="gptq", act_order=False):
    """Linears as GPTQModel reads them; with act_order groups of inputs that do not lie together."""
    top = 2 ** (bits - 1)

    def write(name, w):
        k = w.shape[1]
        index = torch.arange(k) // group
        if act_order:
            index = index[torch.randperm(k, generator=torch.Generator().manual_seed(k))]
        order = torch.argsort(index, stable=True)
        scale, zero = grid(w[:, order], bits, group, symmetric)
        scale, zero = scale.half(), zero.int() + top
        if version == "gptq":
            zero = zero.clamp(min=1)
        code = torch.round(w / scale.float()[:, index]) + zero[:, index]
        code = code.clamp(0, 2 * top - 1).int()
        return {f"{name}.qweight": words(code, bits).T, f"{name}.scales": scale.T,
                f"{name}.qzeros": words(zero.T - int(version == "gptq"), bits),
                f"{name}.g_idx": index.int()}

    return write, {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric,
                   "desc_act": act_order, "checkpoint_format": version, "lm_head": False}


def awq(group, symmetric):
    """Linears as AutoAWQ reads them."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def mixed(fields):
        return words(fields.reshape(len(fields), -1, 8)[:, :, order].reshape(len(fields), -1), 4)

    def write(name, w):
        scale, zero = grid(w, 4, group, symmetric)
        scale, zero = scale.half(), zero.int() + 8
        index = torch.arange(w.shape[1]) // group
        code = (torch.round(w / scale.float()[:, index]) + zero[:, index]).clamp(0, 15).int()
        return {f"{name}.qweight": mixed(code.T.contiguous()), f"{name}.scales": scale.T,
                f"{name}.qzeros": mixed(zero.T.contiguous())}

    return write, {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True,
                   "version": "gemm", "modules_to_not_convert": None}


def fp8_blocks(size):
    """Linears as DeepSeek-V3 has them: a scale of F32 for a block."""

    def write(name, w):
        n, k = w.shape
        pad = torch.nn.functional.pad(w, (0, -k % size, 0, -n % size))
        tiles = pad.reshape(pad.shape[0] // size, size, -1, size)
        scale = (tiles.abs().amax((1, 3)) / 448).clamp(min=1e-6)
        every = scale.repeat_interleave(size, 0).repeat_interleave(size, 1)[:n, :k]
        return {f"{name}.weight": (w / every).to(torch.float8_e4m3fn),
                f"{name}.weight_scale_inv": scale}

    return write, {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                   "weight_block_size": [size, size]}


# name -> what writes it, and how transformers is told to load it
CASES = {
    "ct-int4-g32": (lambda: compressed_tensors(integers(4, 32)), "dequantize"),
    "ct-int4-g64-f32": (lambda: compressed_tensors(integers(4, 64), dtype=torch.float32),
                        "dequantize"),
    "ct-int4-zero": (lambda: compressed_tensors(integers(4, 64, False)), "dequantize"),
    "ct-int2-g32": (lambda: compressed_tensors(integers(2, 32)), "dequantize"),
    "ct-int8-row": (lambda: compressed_tensors(integers(8, None), kind="int-quantized"),
                    "dequantize"),
    "ct-fp8-row": (lambda: compressed_tensors(floats("channel"), kind="float-quantized"),
                   "dequantize"),
    "ct-fp8-whole": (lambda: compressed_tensors(floats("tensor"), kind="float-quantized",
                                                dtype=torch.float32), "dequantize"),
    "ct-fp8-block": (lambda: compressed_tensors(floats("block", block_structure=[64, 64]),
                                                kind="float-quantized"), "dequantize"),
    "ct-int3-zero": (lambda: compressed_tensors(integers(3, 64, False), dtype=torch.float32),
                     "dequantize"),
    "ct-int6-row": (lambda: compressed_tensors(integers(6, None), dtype=torch.float32),
                    "dequantize"),
    "ct-nvfp4": (lambda: compressed_tensors(floats4("tensor_group", 16),
                                            kind="nvfp4-pack-quantized"), "dequantize"),
    "ct-mxfp4": (lambda: compressed_tensors(floats4("group", 32), kind="mxfp4-pack-quantized"),
                 "dequantize"),
    "gptq-4": (lambda: gptq(4, 64), "transformers"),
    "gptq-4-act-order": (lambda: gptq(4, 32, act_order=True), "transformers"),
    "gptq-4-zero": (lambda: gptq(4, 64, False), "transformers"),
    "gptq-v2-3-zero": (lambda: gptq(3, 32, False, "gptq_v2"), "transformers"),
    "gptq-v2-2-zero": (lambda: gptq(2, 32, False, "gptq_v2"), "transformers"),
    "gptq-8-act-order": (lambda: gptq(8, 64, act_order=True), "transformers"),
    "fp8-blocks": (lambda: fp8_blocks(128), "fp8"),
    "awq-g64": (lambda: awq(64, False), "transformers"),
    "awq-g32-middle": (lambda: awq(32, True), "transformers"),
}


def load_fp8(path):
    """Weights made floats while loading: products of FP8 need a GPU. The others stay in the type of
    the file, whatever `dtype` says."""
    import transformers

    return engine_torch.load_transformers(
        path, quantization_config=transformers.FineGrainedFP8Config(dequantize=True)).float()


engine_torch.LOAD["fp8"] = load_fp8


def write_checkpoint(model, path, how):
    """The model with its linears as `how` writes them."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(model, path, ignore=shutil.ignore_patterns("*.safetensors*"))
    config = json.loads((model / "config.json").read_text())
    write, config["quantization_config"] = how
    (path / "config.json").write_text(json.dumps(config))
    out = {}
    for file in sorted(model.glob("*.safetensors")):
        for name, t in safetensors.torch.load_file(file).items():
            if name.endswith(".weight") and name.split(".")[-2] in LINEARS:
                out |= write(name[: -len(".weight")], t.float())
            else:
                out[name] = t
    safetensors.torch.save_file({k: v.contiguous() for k, v in out.items()},
                                path / "model.safetensors", {"format": "pt"})


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


def main():
    build, model, text, work = (Path(p).resolve() for p in sys.argv[1:5])
    logits, pare, wrong = build / "tests/interop/model_logits", build / "pare", 0
    work.mkdir(parents=True, exist_ok=True)
    ids = work / "foreign.i32"
    ids.write_bytes(run(logits, model, "tokens", text)[: 4 * TOKENS])
    job = {"tokens": str(ids), "window": WINDOW}
    tokens = engine_compare.read_tokens(job)
    for name, (how, engine) in CASES.items():
        if sys.argv[5:] and name not in sys.argv[5:]:
            continue
        path = work / f"foreign.{name}"
        write_checkpoint(model, path, how())
        run(pare, "verify", path)
        mine = np.frombuffer(run(logits, path, "exact", WINDOW, ids), "<f4")
        theirs, _ = engine_torch.make_logits(job | {"path": str(path), "engine": engine}, tokens)
        row = engine_compare.compare(theirs, mine.reshape(theirs.shape), tokens)
        percent = 100 * (row["ppl_pare"] / row["ppl_engine"] - 1)
        bad = abs(percent) > PERCENT
        wrong += bad
        print(f"{name:16}  perplexity {row['ppl_pare']:.4f}  {percent:+.5f} %  KL {row['kl']:.1e}  "
              f"largest difference of a logit {row['logits']:.1e}  {'BAD' if bad else 'ok'}",
              flush=True)
        shutil.rmtree(path)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
