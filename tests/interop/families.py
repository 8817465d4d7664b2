#!/usr/bin/env python3
"""Logits of the small checkpoints of tests/data/families.h by transformers, in F32 on the CPU.

    families.py MAKE_FAMILY [FAMILY ...] > tests/golden/families.txt

MAKE_FAMILY is the program of that name from a build. Needs torch and transformers. The file that
comes out is committed, so that the test golden.families needs neither."""

import os
import subprocess
import sys
import tempfile

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # as written, not compiled

import torch
import transformers

LENGTH = 40
STEP = 16  # columns 0, 16, 32 ... of every position, and all of the last
SCALED_STEP = 32  # of those with scaled positions


def token(i):
    return (i * i * 7 + i * 29 + 3) % 128


class Margins:
    """The least distance between the last expert that a router picks and the next, over the larger
    probability: near a tie the choice would follow from last bits."""

    def __init__(self):
        self.least = 1.0

    def watch(self, model):
        for module in model.modules():
            if type(module).__name__.lower().endswith(("topkrouter", "llama4router")):
                module.register_forward_hook(self.look)

    def compare(self, p, count):
        if count == p.shape[1]:
            return  # all are taken
        p = p.sort(dim=-1, descending=True).values
        last, following = p[:, count - 1], p[:, count]
        self.least = min(self.least, ((last - following) / last).min().item())

    def look(self, module, inputs, outputs):
        correction = getattr(module, "e_score_correction_bias", None)
        logits = outputs[1] if type(module).__name__ == "Llama4Router" else outputs[0]
        p = torch.softmax(logits.double(), dim=-1)
        if correction is not None:
            p = torch.sigmoid(logits.double()) + correction
        if getattr(module, "num_group", None):
            groups = p.view(len(p), module.num_group, -1)
            best = groups.sort(dim=-1, descending=True).values
            score = best[..., 0] if correction is None else best[..., :2].sum(dim=-1)
            self.compare(score, module.topk_group)
            kept = score >= score.sort(dim=-1, descending=True).values[:, [module.topk_group - 1]]
            p = (groups * kept.unsqueeze(-1)).flatten(1)
        self.compare(p, module.top_k)

    def check(self, directory):
        if self.least < 5e-4:
            raise SystemExit(f"{directory}: a router is {self.least:.2g} away from a tie")


def sees(name):
    """Whether a tensor belongs to what turns images into tokens, which no text passes."""
    parts = "vision_tower.", "vision_model.", "multi_modal_projector.", "visual.", "mtp."
    return name.removeprefix("model.").startswith(parts)


def load(directory, dtype):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=dtype, attn_implementation="eager", output_loading_info=True
    )
    wrong = {k: v for k, v in info.items() if v and not all(map(sees, v))}
    if wrong:
        raise SystemExit(f"{directory}: not all weights found their place: {wrong}")
    return torch.nn.Module.to(model.eval(), dtype)


def logits(directory):
    model = load(directory, torch.float32)
    margins = Margins()
    margins.watch(model)
    with torch.no_grad():
        found = model(torch.tensor([[token(i) for i in range(LENGTH)]])).logits[0].float()
    margins.check(directory)
    return found


def names(make, *which):
    return subprocess.run([make, *which], check=True, capture_output=True, text=True).stdout.split()


def checkpoints(make, wanted):
    """(name, directory) of every family of `wanted`, or of all; the directory lives until the next."""
    for name in names(make) + names(make, "scaled"):
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([make, name, folder], check=True)
            yield name, folder


def main():
    print(f"# transformers {transformers.__version__}, torch {torch.__version__}")
    for name, folder in checkpoints(sys.argv[1], sys.argv[2:]):
        found = logits(folder)
        step = SCALED_STEP if name in names(sys.argv[1], "scaled") else STEP
        print(f"{name} {LENGTH} {step} {found.shape[1]}")
        for row in found[:, ::step].tolist():
            print(" ".join(f"{x:.7g}" for x in row))
        print(" ".join(f"{x:.7g}" for x in found[-1].tolist()))


if __name__ == "__main__":
    main()
