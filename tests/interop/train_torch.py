#!/usr/bin/env python3
"""Training beside torch on the same CPU: heavy, run by hand with the python of `./check interop`.

    train_torch.py curve PARE MODEL TEXT TOKENS
    train_torch.py speed PARE MODEL TEXT THREADS...

curve: a model of the config.json of MODEL, with random weights of transformers, trained on TOKENS tokens of
TEXT by pare and by torch, in F32: the same windows in the same order, AdamW, cosine decay, clipping. Prints a
line for each step that pare records; exits with 1 where a loss, or that of the windows held out, is more than
BAR off.

speed: steps of 4 windows of 512 tokens of MODEL, of each program in turn: both in F32, and
with products in BF16 (torch: autocast, weights in F32). Prints lines for ../results/training_speed.csv."""

import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

MASK = (1 << 64) - 1
RATE, LAST, WARMUP, CLIP, DECAY, HELD_OUT = 1e-3, .1, .05, 1.0, .1, 16
BAR = .02  # of a loss


def unit(seed, stream, index):
    """Uniform in [0, 1): 53 bits of Philox4x32-10 of (index, stream) under the key seed."""
    x = [index & 0xFFFFFFFF, index >> 32, stream & 0xFFFFFFFF, stream >> 32]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [(b >> 32) ^ x[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ x[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return ((x[1] << 32 | x[0]) >> 11) * 2.0**-53


def order(seed, turn, windows):
    """The order in which pare takes windows: a shuffle by Fisher and Yates."""
    stream = 0xCBF29CE484222325
    for c in b"order of training data":
        stream = (stream ^ c) * 0x100000001B3 & MASK
    out = list(range(windows))
    for i in range(windows - 1, 0, -1):
        j = int(unit(seed, (stream + turn) & MASK, i) * (i + 1))
        out[i], out[j] = out[j], out[i]
    return out


def rate_of(step, steps):
    warm = int(WARMUP * steps)
    if step < warm:
        return RATE * (step + 1) / warm
    r = (step - warm) / (steps - warm)
    return RATE * (LAST + (1 - LAST) * (1 + math.cos(math.pi * r)) / 2)


def loss_of(model, windows):
    logits = model(input_ids=windows, use_cache=False).logits[:, :-1].float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def optimizer_of(model):
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(.9, .95), eps=1e-8, lr=RATE)


def step_of(model, optimizer, windows, rate, autocast=False):
    for g in optimizer.param_groups:
        g["lr"] = rate
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = loss_of(model, windows)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return loss.item()


def read_windows(pare, model, text, window, folder):
    """All whole windows of the text, and its tokens as a file."""
    path = os.path.join(folder, "text.i32")
    subprocess.run([pare, "tokenize", model, "--text", text, "--output", path], check=True,
                   stdout=subprocess.DEVNULL)
    with open(path, "rb") as f:
        ids = f.read()
    ids = torch.tensor(struct.unpack(f"<{len(ids) // 4}i", ids), dtype=torch.long)
    return ids[:len(ids) // window * window].view(-1, window), path


def run_pare(pare, folder, model, tokens, window, held_out, train, threads):
    recipe = os.path.join(folder, "recipe.yaml")
    settings = ", ".join(f"{k}: {v}" for k, v in train.items())
    with open(recipe, "w") as f:
        f.write(f"pare: 1\nmodel: {model}\noutput: {folder}/trained\ndtype: f32\n"
                f"data: {{tokens: {tokens}, window: {window}, held_out: {held_out}}}\n"
                f"train: {{{settings}}}\n")
    subprocess.run([pare, "train", recipe, "--restart", "--threads", str(threads), "--no-progress"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(folder, "trained", "run.json")) as f:
        return json.load(f)["training"]


def curve(pare, model, text, tokens, folder):
    config = transformers.AutoConfig.from_pretrained(model)
    window, batch = config.max_position_embeddings, 16
    data, path = read_windows(pare, model, text, window, folder)
    torch.manual_seed(1)
    torch.set_num_threads(os.cpu_count())
    m = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    m.save_pretrained(os.path.join(folder, "fresh"))
    held = [i * len(data) // HELD_OUT for i in range(HELD_OUT)]
    train = data[[i for i in range(len(data)) if i not in set(held)]]
    began = time.time()
    found = run_pare(pare, folder, os.path.join(folder, "fresh"), path, window, HELD_OUT,
                     {"tokens": tokens, "batch": batch, "rate": RATE, "weight_decay": DECAY},
                     os.cpu_count())
    taken = time.time() - began
    optimizer, steps = optimizer_of(m), -(-tokens // (batch * window))
    losses, turn, picked = [], 0, []
    for s in range(steps):
        while len(picked) < batch:
            turn += 1
            picked += order(0, turn, len(train))
        losses.append(step_of(m, optimizer, train[picked[:batch]], rate_of(s, steps)))
        picked = picked[batch:]
    with torch.no_grad():
        after = sum(loss_of(m, data[i:i + 1]).item() for i in held) / HELD_OUT
    rows = [(str(p["step"]), p["loss"], losses[p["step"] - 1]) for p in found["curve"]]
    rows.append(("held out", math.log(found["perplexity_after"]), after))
    worst = max(abs(a / b - 1) for _, a, b in rows)
    print("step,loss_pare,loss_torch,percent")
    for step, a, b in rows:
        print(f"{step},{a:.4f},{b:.4f},{100 * (a / b - 1):+.3f}")
    print(f"{steps} steps of {batch * window} tokens, pare {taken:.0f} s; "
          f"the largest difference is {100 * worst:.3f} %")
    return worst > BAR


def time_torch(model, data, threads, autocast):
    """Seconds of a step, without the first."""
    torch.set_num_threads(threads)
    m = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    optimizer, taken = optimizer_of(m), []
    for i in range(4):
        began = time.time()
        step_of(m, optimizer, data[4 * i:4 * i + 4], 1e-5, autocast)
        taken.append(time.time() - began)
    return sum(taken[1:]) / len(taken[1:])


def time_pare(pare, folder, model, tokens, threads, precision):
    """The same of pare: what four more steps than one take."""
    taken = [run_pare(pare, folder, model, tokens, 512, 1,
                      {"tokens": steps * 2048, "batch": 4, "rate": 1e-5, "save": 1000,
                       "precision": precision}, threads)["seconds"] for steps in (1, 5)]
    return (taken[1] - taken[0]) / 4


def limits_of(pare, threads):
    """The peak of F32 arithmetic in GFLOP/s."""
    text = subprocess.run([pare, "bench", "kernels", "--quick", "--no-baseline", "--no-progress",
                           "--format", "json", "--threads", str(threads)], check=True,
                          capture_output=True).stdout
    return json.loads(text)["limits"]["fma_gflop_s"]


def speed(pare, model, text, threads, folder):
    data, path = read_windows(pare, model, text, 512, folder)
    config = transformers.AutoConfig.from_pretrained(model)
    weights = sum(p.numel() for p in transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.bfloat16).parameters())
    print("program,products,threads,tokens_per_s,percent_of_fma_peak")
    for n in threads:
        peak = limits_of(pare, n)
        for program, products, run in (
                ("pare", "F32", lambda: time_pare(pare, folder, model, path, n, "f32")),
                ("pare", "BF16", lambda: time_pare(pare, folder, model, path, n, "bf16")),
                (f"torch {torch.__version__.split('+')[0]}", "F32",
                 lambda: time_torch(model, data, n, False)),
                (f"torch {torch.__version__.split('+')[0]}", "BF16",
                 lambda: time_torch(model, data, n, True))):
            tokens = 2048 / run()
            work = 6 * weights * tokens / 1e9
            print(f"{program},{products},{n},{tokens:.1f},{100 * work / peak:.1f}", flush=True)
    return False


if __name__ == "__main__":
    kind, program, checkpoint, source = sys.argv[1:5]
    with tempfile.TemporaryDirectory() as place:
        numbers = [int(a) for a in sys.argv[5:]]
        sys.exit(curve(program, checkpoint, source, numbers[0], place) if kind == "curve" else
                 speed(program, checkpoint, source, numbers, place))
