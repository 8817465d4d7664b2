#!/usr/bin/env python3
"""Adapters of pare train in PEFT: heavy, run by hand with a python that has torch, transformers and peft.

    train_peft.py PARE MODEL TEXT

Trains adapters of some and of all linears of MODEL, with both scales, once to be merged into F32 weights and
once alone; PEFT loads the latter beside MODEL. Prints a line for each; exits with 1 where a logit is more than
BAR off that of the merged checkpoint, or the adapters change less than ten times that. Exits with 77 where a
package is missing, and says which."""

import json
import os
import subprocess
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"

try:
    import peft
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

transformers.utils.logging.set_verbosity_error()
BAR = 1e-4
CASES = (("[q_proj, v_proj]", "false"), ('["*.layers.0.mlp.*", k_proj]', "false"), (None, "true"))


def train(pare, recipe, output, *sets):
    command = [pare, "train", recipe, "--output", output, "--no-progress"]
    for s in sets:
        command += ["--set", s]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def load(path):
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


def compare(pare, model, text, folder, targets, rslora):
    recipe, alone, merged = (os.path.join(folder, n) for n in ("recipe.yaml", "alone", "merged"))
    some = "" if targets is None else f", targets: {targets}"
    with open(recipe, "w") as f:
        f.write(f"pare: 1\nmodel: {model}\noutput: unused\n"
                f"lora: {{rank: 8, alpha: 16, rslora: {rslora}{some}}}\n"
                f"data: {{text: [{json.dumps(text)}], window: 128, held_out: 4}}\n"
                "train: {tokens: 8192, batch: 8, rate: 2e-3, save: 1000}\n")
    train(pare, recipe, alone, "lora.merge=false")
    train(pare, recipe, merged, "dtype=f32")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    with open(text, "rb") as f:
        ids = tokenizer(f.read(20000).decode(errors="replace"), return_tensors="pt").input_ids
    ids = ids[:, :512].view(4, 128)
    base = load(model)
    with torch.no_grad():
        plain = base(ids).logits
        adapted = peft.PeftModel.from_pretrained(base, alone).eval()
        found = adapted(ids).logits
        wanted = load(merged)(ids).logits
    count = sum("lora_A" in name for name, _ in adapted.named_parameters())
    with open(os.path.join(alone, "manifest.json")) as f:
        linears = json.load(f)["adapter"]["linears"]
    off, moved = (found - wanted).abs().max().item(), (found - plain).abs().max().item()
    print(f"{targets or 'all'}, rslora {rslora}: {count} adapters of {linears}; logits are at most {off:.1e} off "
          f"the merged ones, {moved:.1e} off those of the model")
    return count != linears or not off <= BAR or moved < 10 * BAR


if __name__ == "__main__":
    program, checkpoint, source = (os.path.realpath(a) for a in sys.argv[1:4])
    print(f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch.__version__}")
    bad = False
    for case in CASES:
        with tempfile.TemporaryDirectory() as place:
            bad |= compare(program, checkpoint, source, place, *case)
    sys.exit(bad)
