"""Checkpoints that the quantizers of others made of MODEL, read by pare: perplexity of the same tokens
by transformers and by `pare eval --exact`. By hand, in an environment that has the quantizer:

    quantizers.py PARE MODEL CALIBRATION TEXT WORK NAME ...

NAME: llmc-gptq, llmc-actorder, llmc-w8a8, llmc-fp8 (llm-compressor), auto_round, auto_gptq, auto_awq
(auto-round, by its formats), or one of GPTQMODEL (GPTQModel; transformers loads its files by its
linears and computes in F32). Fails when a perplexity is further from that of transformers than
PERCENT."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PERCENT, WINDOW, WINDOWS, LENGTH, SAMPLES = 0.01, 256, 8, 128, 16
TEXTS = 32  # of LENGTH tokens, for GPTQModel
GROUPS = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 64}
GPTQMODEL = {  # options of QuantizeConfig
    "gptqmodel-gptq": {},
    "gptqmodel-actorder": {"desc_act": True, "act_group_aware": False},
    "gptqmodel-v2": {"format": "gptq_v2"},
    "gptqmodel-v2-zero": {"format": "gptq_v2", "sym": False},
}


def tokens(tokenizer, path):
    text = Path(path).read_text(encoding="utf8", errors="replace")
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def by_llm_compressor(model, tokenizer, samples, name, out):
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import GPTQModifier, QuantizationModifier

    common = {"targets": "Linear", "ignore": ["lm_head"]}
    order = {"actorder": "group"} if name == "llmc-actorder" else {}
    scheme = {"targets": ["Linear"], "weights": {**GROUPS, **order}}
    if name == "llmc-w8a8":
        recipe = GPTQModifier(scheme="W8A8", **common)
    elif name == "llmc-fp8":
        recipe = QuantizationModifier(scheme="FP8_DYNAMIC", **common)
    else:
        recipe = GPTQModifier(config_groups={"linears": scheme}, ignore=["lm_head"], **order)
    rows = {"input_ids": samples, "attention_mask": [[1] * LENGTH] * len(samples)}
    oneshot(model=model, tokenizer=tokenizer, dataset=Dataset.from_dict(rows), recipe=recipe,
            max_seq_length=LENGTH, num_calibration_samples=len(samples), output_dir=str(out))
    return out


def by_auto_round(model, tokenizer, samples, name, out):
    from auto_round import AutoRound

    rows = [{"input_ids": torch.tensor([s]), "attention_mask": torch.ones(1, LENGTH, dtype=torch.long)}
            for s in samples]
    job = AutoRound(model, tokenizer, bits=4, group_size=64, sym=name == "auto_round", iters=4,
                    nsamples=len(rows), seqlen=LENGTH, dataset=rows, batch_size=4)
    job.quantize_and_save(str(out), format=name)
    return next(p.parent for p in out.rglob("config.json"))


def by_gptqmodel(source, samples, name, out):
    os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # by itself it fails on two processors
    from gptqmodel import BACKEND, GPTQModel, QuantizeConfig

    config = QuantizeConfig(bits=4, group_size=128, pack_impl="original",  # compiles nothing
                            **GPTQMODEL[name])
    job = GPTQModel.load(source, config, device="cpu", dtype=torch.float32)
    job.quantize([{"input_ids": s, "attention_mask": [1] * LENGTH} for s in samples], batch_size=1,
                 backend=BACKEND.TORCH)
    job.save(str(out))


def perplexity(model, ids):
    nll = 0.0
    with torch.no_grad():
        for start in range(0, WINDOW * WINDOWS, WINDOW):
            row = torch.tensor([ids[start:start + WINDOW]])
            logits = model(row).logits[0, :-1].double()
            nll += torch.nn.functional.cross_entropy(logits, row[0, 1:], reduction="sum").item()
    return math.exp(nll / (WINDOWS * (WINDOW - 1)))


def main():
    pare, source, calibration, text, work, *names = sys.argv[1:]
    tokenizer = AutoTokenizer.from_pretrained(source)
    ids = tokens(tokenizer, calibration)
    samples = [ids[i * LENGTH:(i + 1) * LENGTH] for i in range(TEXTS)]
    ids, worst = tokens(tokenizer, text), 0.0
    for name in names:
        out = Path(work) / name
        if not out.exists():
            if name in GPTQMODEL:
                by_gptqmodel(source, samples, name, out)
            else:
                model = AutoModelForCausalLM.from_pretrained(source, torch_dtype=torch.float32)
                make = by_llm_compressor if name.startswith("llmc-") else by_auto_round
                make(model, tokenizer, samples[:SAMPLES], name, out)
        out = next(p.parent for p in sorted(out.rglob("config.json")))
        theirs = perplexity(AutoModelForCausalLM.from_pretrained(out, torch_dtype=torch.float32).eval(), ids)
        run = subprocess.run([pare, "eval", str(out), "--text", text, "--window", str(WINDOW), "--limit",
                              str(WINDOWS), "--exact", "--format", "json"], capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"{name}: {run.stderr}")
        ours = json.loads(run.stdout)["perplexity"]["ppl"]
        percent = 100 * (ours / theirs - 1)
        worst = max(worst, abs(percent))
        print(f"{name}: transformers {theirs:.6f}, pare {ours:.6f}, {percent:+.5f} %", flush=True)
    return worst > PERCENT


if __name__ == "__main__":
    sys.exit(main())
