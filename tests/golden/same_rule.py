"""The figures of same_rule in test_reference.c, by an implementation of its own.

    python3 same_rule.py MODEL REFERENCE [PART]

MODEL is the directory of stories260k, REFERENCE that of eval_tokens.i32 and calib_tokens.i32.
Prints a line for each row whose name contains PART. Needs numpy. Minutes for the rows of GPTQ.

RTN and GPTQ in their original form (damping of 1 %, 128 windows, no order), with two differences:
scales are rounded to F16, and a symmetric scale is the smallest that holds both ends of the range,
of either sign.
"""
import json
import struct
import sys
from pathlib import Path

import numpy as np

F = np.float32
BLOCKS, HEADS, KV_HEADS, HEAD_DIM, EPSILON = 5, 8, 4, 8, 1e-5
WINDOW, BATCH, SAMPLES, DAMP = 256, 16, 128, 0.01
# the module of each linear, and which of the inputs of a block it reads
LINEARS = {
    "q_proj": ("self_attn", "attention"),
    "k_proj": ("self_attn", "attention"),
    "v_proj": ("self_attn", "attention"),
    "o_proj": ("self_attn", "attended"),
    "gate_proj": ("mlp", "mlp"),
    "up_proj": ("mlp", "mlp"),
    "down_proj": ("mlp", "gated"),
}
SEQUENCE = [["q_proj", "k_proj", "v_proj"], ["o_proj"], ["gate_proj", "up_proj"], ["down_proj"]]
# name in the table: method, bits, group (None: a row), symmetric, true-sequential
ROWS = {
    "RTN,4,row,sym": ("rtn", 4, None, True, False),
    "RTN,4,32,sym": ("rtn", 4, 32, True, False),
    "RTN,3,32,sym": ("rtn", 3, 32, True, False),
    "GPTQ,4,row,sym": ("gptq", 4, None, True, False),
    "GPTQ,3,row,asym": ("gptq", 3, None, False, False),
    "GPTQ,3,row,asym,true-sequential": ("gptq", 3, None, False, True),
}


def read_tensors(path):
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", name
        begin, end = (8 + length + at for at in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], F).reshape(entry["shape"]).copy()
    return tensors


def windows(path, count=None):
    tokens = np.fromfile(path, np.int32)
    return tokens[: len(tokens) // WINDOW * WINDOW].reshape(-1, WINDOW)[:count]


def angles():
    inverse = 1.0 / 10000.0 ** (np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angle = np.outer(np.arange(WINDOW), inverse)
    angle = np.concatenate([angle, angle], 1)
    return np.cos(angle).astype(F)[:, None, :], np.sin(angle).astype(F)[:, None, :]


COS, SIN = angles()
MASK = np.triu(np.full((WINDOW, WINDOW), -np.inf, F), 1)


def norm(x, w):
    return (x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + EPSILON)).astype(F) * w


def turn(x):
    half = HEAD_DIM // 2
    return x * COS + np.concatenate([-x[..., half:], x[..., :half]], -1) * SIN


def run_block(x, w, grams=None):
    """One block; adds x^T x of the inputs of its linears to grams."""
    count = x.shape[0]
    attention = norm(x, w["input_layernorm"])
    q = turn((attention @ w["q_proj"].T).reshape(count, WINDOW, HEADS, HEAD_DIM))
    k = turn((attention @ w["k_proj"].T).reshape(count, WINDOW, KV_HEADS, HEAD_DIM))
    v = (attention @ w["v_proj"].T).reshape(count, WINDOW, KV_HEADS, HEAD_DIM)
    k, v = (np.repeat(t, HEADS // KV_HEADS, 2) for t in (k, v))
    scores = np.einsum("bihd,bjhd->bhij", q, k) / F(np.sqrt(HEAD_DIM)) + MASK
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    scores /= scores.sum(-1, keepdims=True)
    attended = np.einsum("bhij,bjhd->bihd", scores, v).reshape(count, WINDOW, HEADS * HEAD_DIM)
    x = x + attended @ w["o_proj"].T
    mlp = norm(x, w["post_attention_layernorm"])
    gate = mlp @ w["gate_proj"].T
    gated = gate / (1 + np.exp(-gate)) * (mlp @ w["up_proj"].T)
    if grams is not None:
        inputs = {"attention": attention, "attended": attended, "mlp": mlp, "gated": gated}
        for name, value in inputs.items():
            value = value.reshape(-1, value.shape[-1]).astype(np.float64)
            grams[name] = grams.get(name, 0) + value.T @ value
    return x + gated @ w["down_proj"].T


def fit(w, bits, symmetric):
    """Scales, rounded to F16, and zero points of the rows of w."""
    low, high = np.minimum(0, w.min(1)), np.maximum(0, w.max(1))
    top, half = F(2**bits - 1), F(2 ** (bits - 1))
    above, below = (np.maximum(a / (half - 1), b / half) for a, b in ((high, -low), (-low, high)))
    scale = np.where(high > -low, -below, above) if symmetric else (high - low) / top
    scale = scale.astype(F).astype(np.float16).astype(F)
    if symmetric:
        return scale, np.full_like(scale, half)
    return scale, np.clip(np.rint(-low / np.where(scale > 0, scale, 1)), 0, top)


def rounded(w, scale, zero, bits):
    inverse = F(1) / np.where(scale == 0, 1, scale)
    code = np.clip(np.rint(w * inverse[:, None]) + zero[:, None], 0, 2**bits - 1)
    return ((code - zero[:, None]) * scale[:, None]).astype(F)


def rtn(w, bits, group, symmetric):
    out = np.empty_like(w)
    for j in range(0, w.shape[1], group):
        part = w[:, j : j + group]
        out[:, j : j + group] = rounded(part, *fit(part, bits, symmetric), bits)
    return out


def gptq(w, gram, bits, group, symmetric):
    w, gram = w.astype(np.float64), gram.copy()
    out = np.zeros(w.shape, F)
    dead = np.diag(gram) == 0
    gram[dead, dead] = 1
    w[:, dead] = 0
    gram += np.eye(len(gram)) * DAMP * np.diag(gram).mean()
    upper = np.linalg.cholesky(np.linalg.inv(gram)).T
    for j in range(w.shape[1]):
        if j % group == 0:
            grid = fit(w[:, j : j + group].astype(F), bits, symmetric)
        out[:, j] = rounded(w[:, j : j + 1].astype(F), *grid, bits)[:, 0]
        error = (w[:, j] - out[:, j]) / upper[j, j]
        w[:, j + 1 :] -= np.outer(error, upper[j, j + 1 :])
    return out


def block_weights(tensors, i):
    prefix = f"model.layers.{i}."
    w = {n: tensors[f"{prefix}{module}.{n}.weight"].copy() for n, (module, _) in LINEARS.items()}
    for n in ("input_layernorm", "post_attention_layernorm"):
        w[n] = tensors[f"{prefix}{n}.weight"]
    return w


def compress(tensors, calibration, method, bits, group, symmetric, sequential):
    """The blocks with rounded weights; each is calibrated on what those before it give."""
    blocks = []
    x = tensors["model.embed_tokens.weight"][calibration]
    for i in range(BLOCKS):
        w = block_weights(tensors, i)
        for names in SEQUENCE if sequential else [list(LINEARS)]:
            grams = {}
            for b in range(0, len(x) if method == "gptq" else 0, BATCH):
                run_block(x[b : b + BATCH], w, grams)
            for n in names:
                width = group or w[n].shape[1]
                if method == "rtn":
                    w[n] = rtn(w[n], bits, width, symmetric)
                else:
                    w[n] = gptq(w[n], grams[LINEARS[n][1]], bits, width, symmetric)
        if method == "gptq":
            x = np.concatenate([run_block(x[b : b + BATCH], w) for b in range(0, len(x), BATCH)])
        blocks.append(w)
    return blocks


def perplexity(tensors, tokens, blocks):
    embedding = tensors["model.embed_tokens.weight"]
    total, count = 0.0, 0
    for b in range(0, len(tokens), BATCH):
        part = tokens[b : b + BATCH]
        x = embedding[part]
        for w in blocks:
            x = run_block(x, w)
        logits = (norm(x, tensors["model.norm.weight"]) @ embedding.T).astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        picked = np.take_along_axis(logits[:, :-1], part[:, 1:, None], -1)
        total -= picked.sum()
        count += picked.size
    return np.exp(total / count)


def main():
    model, reference = Path(sys.argv[1]), Path(sys.argv[2])
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    tensors = read_tensors(model / "model.safetensors")
    calibration = windows(reference / "calib_tokens.i32", SAMPLES)
    tokens = windows(reference / "eval_tokens.i32")
    for name, row in ROWS.items():
        if part in name:
            blocks = compress(tensors, calibration, *row)
            print(f"{name}: {perplexity(tensors, tokens, blocks):.6f}", flush=True)


if __name__ == "__main__":
    main()
