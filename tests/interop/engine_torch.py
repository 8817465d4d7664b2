"""Logits of exports by transformers, in F32, and by GPTQModel, in F16, on the CPU.
engine_torch.py JOBS RESULTS

A job's engine is `transformers` (with compressed-tensors or GPTQModel behind it, as the export's
config.json asks), `dequantize` (the same, weights made floats while loading, inputs floats), `decompress`
(weights made floats by compressed-tensors, inputs rounded as config.json asks), `gptqmodel` (its own
loader and its kernel in plain torch, which takes F16 only) or `exl3_torch` (the same loader, in F32)."""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TORCHDYNAMO_DISABLE"] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # others may use the cores, too

import importlib.metadata

import numpy as np
import torch
import transformers

import engine_compare


def load_transformers(path, **options):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **options)
    wrong = {k: v for k, v in info.items() if v}
    if wrong:
        raise ValueError(f"not all weights found their place: {wrong}")
    return model


def load_dequantized(path):
    return load_transformers(
        path, quantization_config=transformers.CompressedTensorsConfig(dequantize=True))


def load_decompressed(path):
    model = load_transformers(path)
    model.hf_quantizer.compressor.decompress_model(model)
    return torch.nn.Module.float(model)  # weights came in BF16, which holds them


def load_gptqmodel(path):
    from gptqmodel import BACKEND, GPTQModel

    return GPTQModel.load(path, device="cpu", backend=BACKEND.TORCH, dtype=torch.float16).model


def load_exl3(path):
    """With the numbers of the codebook in F16, as ExLlamaV3's kernels have them: this one does not
    round them (logits up to 0.002 apart)."""
    from gptqmodel import BACKEND, GPTQModel
    from gptqmodel.nn_modules import exllamav3_torch

    table = exllamav3_torch._codebook_lut
    exllamav3_torch._codebook_lut = lambda *which: table(*which).half().float()
    return GPTQModel.load(path, device="cpu", backend=BACKEND.EXL3_TORCH, dtype=torch.float32).model


LOAD = {"transformers": load_transformers, "dequantize": load_dequantized,
        "decompress": load_decompressed, "gptqmodel": load_gptqmodel, "exl3_torch": load_exl3}


def linears(model):
    """Classes of the linear layers, as proof of which kernel ran."""
    kinds = {type(m).__name__ for n, m in model.named_modules() if n.endswith("_proj")}
    return "+".join(sorted(kinds))


def make_logits(job, tokens):
    model = LOAD[job["engine"]](job["path"]).eval()
    found = []
    with torch.no_grad():
        for ids in tokens:
            x = model(input_ids=torch.tensor(ids[None].astype(np.int64)), use_cache=False)
            found.append(x.logits[0].float().numpy())
    return np.stack(found), {"layers": linears(model)}


NAMES = ["torch", "transformers", "compressed-tensors", "gptqmodel"]

if __name__ == "__main__":
    torch.set_num_threads(1)
    engine_compare.work(make_logits, {n: importlib.metadata.version(n) for n in NAMES})
