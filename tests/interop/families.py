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


def logits(directory):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    wrong = {k: v for k, v in info.items() if v}
    if wrong:
        raise SystemExit(f"{directory}: not all weights found their place: {wrong}")
    with torch.no_grad():
        return torch.nn.Module.float(model.eval())(torch.tensor([tokens()])).logits[0].float()


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
