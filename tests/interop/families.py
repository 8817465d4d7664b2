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


def tokens():
    return [(i * i * 7 + i * 29 + 3) % 128 for i in range(LENGTH)]


class Margins:
    """The least distance between the last expert that a router picks and the next, over the larger
    probability: near a tie the choice would follow from last bits."""

    def __init__(self):
        self.least = 1.0

    def watch(self, model):
        for module in model.modules():
            if type(module).__name__.endswith("TopKRouter"):
                module.register_forward_hook(self.look)

    def look(self, module, inputs, outputs):
        p = torch.softmax(outputs[0].double(), dim=-1).sort(dim=-1, descending=True).values
        last, following = p[:, module.top_k - 1], p[:, module.top_k]
        self.least = min(self.least, ((last - following) / last).min().item())


def logits(directory):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    wrong = {k: v for k, v in info.items() if v}
    if wrong:
        raise SystemExit(f"{directory}: not all weights found their place: {wrong}")
    margins = Margins()
    margins.watch(model)
    with torch.no_grad():
        found = torch.nn.Module.float(model.eval())(torch.tensor([tokens()])).logits[0].float()
    if margins.least < 5e-4:
        raise SystemExit(f"{directory}: a router is {margins.least:.2g} away from a tie")
    return found


def main():
    make, wanted = sys.argv[1], sys.argv[2:]
    names = subprocess.run([make], check=True, capture_output=True, text=True).stdout.split()
    print(f"# transformers {transformers.__version__}, torch {torch.__version__}")
    for name in names:
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([make, name, folder], check=True)
            found = logits(folder)
        print(f"{name} {LENGTH} {STEP} {found.shape[1]}")
        for row in found[:, ::STEP].tolist():
            print(" ".join(f"{x:.7g}" for x in row))
        print(" ".join(f"{x:.7g}" for x in found[-1].tolist()))


if __name__ == "__main__":
    main()
