#!/usr/bin/env python3
"""Losses, their gradients and steps of AdamW by torch, in F64 on the CPU.

    training.py > tests/golden/training.txt

Needs torch. The file that comes out is committed.

Numbers come from a hash of a counter, so that both sides make the same ones:

    h = i * 2654435761 mod 2^32,  h = h xor (h >> 16),  h = h * 2246822519 mod 2^32
    value(i) = (h >> 20) / 512 - 4

"loss NAME T BETA VALUE NORM DOT": a loss of logits over 3 rows of 300 logits, z = value(i), t = value(i
+ 10000), label of row r = 100 r + 7; its sum, the norm of its gradient by z, and the product of that
gradient with value(i + 20000). Losses as in distill/losses.h; kl, reverse_kl and jsd are written with
torch.nn.functional.kl_div, as MiniLLM and GKD do, and times T^2. BETA is that of jsd, the skew of skew_kl
and skew_reverse_kl.

"hidden 1 0 VALUE NORM DOT": the loss of hidden states, of s = value(i) and u = value(i + 10000), 900 of
each, likewise.

"sinkhorn 2 0 VALUE NORM DOT": distill/sinkhorn.h at T 2 of 150 rows of 60 logits, z = value(i), t = value(i +
10000), in groups of 64; rows r with r mod 5 = 0 do not count.

"teacher_top 2 40 VALUE NORM DOT": distill/teacher_top.h at T 2 with K 40, of the logits of "loss".

"projection 1 0 VALUE NORM DOT": distill/projection.h of 70 rows, s = value(i), 24 wide, u = value(i + 10000), 40
wide, W = value(i + 30000) / 8. NORM of both gradients; DOT of that of s with value(i + 20000), of that of W with
value(i + 25000).

"relations 4 0 VALUE NORM DOT": distill/relations.h of 2 sequences of 70 tokens in 4 pieces. Queries, keys
and values i = 0, 1, 2 of the student, 24, 12 and 12 wide: value(j + 5000 i) / 2; of the teacher, 16, 8 and 8
wide: value(j + 20000 + 5000 i) / 2. DOT with value(j + 40000 + 5000 i).

"attention 4 0 VALUE NORM DOT": distill/scores.h of 2 sequences of 70 tokens, 4 heads, RoPE of halves with theta
10000. The student's queries and keys value(i) / 2 and value(i + 5000) / 2, heads 6 wide, 2 key heads; the
teacher's value(i + 20000) / 2 and value(i + 25000) / 2, heads 8 wide, 4 key heads, a window of 50. DOT with
value(i + 40000) and value(i + 45000).

"adamw STEP NORM SUM DOT": two leaves of torch.optim.AdamW, 12 x 25 with decay 0.1 and 37 without, start
value(i) / 8 and value(i + 1000) / 8; gradient of step s = 1 .. 5: value(i + 10000 s) / 16 and value(i +
10000 s + 1000) / 16; clipping to 1, betas .9, .95, eps 1e-8, rates 0.01 / s. NORM before clipping; the
sum of all weights behind the step, and of their products with value(i), i counting through both."""

import math

import torch
import torch.nn.functional as F

ROWS, VOCAB = 3, 300


def values(first, count):
    h = torch.arange(first, first + count) * 2654435761 & 0xFFFFFFFF
    h = (h ^ (h >> 16)) * 2246822519 & 0xFFFFFFFF
    return (h >> 20).double() / 512 - 4


def divergence(a, b):
    """KL(a, b) of logarithms."""
    return F.kl_div(b, a, reduction="sum", log_target=True)


def loss_of(name, z, t, label, temperature, beta):
    if name == "ce":
        return F.cross_entropy(z, label, reduction="sum")
    q, p = F.log_softmax(z / temperature, -1), F.log_softmax(t / temperature, -1)
    if name == "kl":
        return temperature**2 * divergence(p, q)
    if name == "reverse_kl":
        return temperature**2 * divergence(q, p)
    if name == "total_variation":
        return temperature * (p.exp() - q.exp()).abs().sum() / 2
    if name == "skew_kl":
        return temperature**2 * divergence(p, torch.log(beta * p.exp() + (1 - beta) * q.exp()))
    if name == "skew_reverse_kl":
        return temperature**2 * divergence(q, torch.log((1 - beta) * p.exp() + beta * q.exp()))
    m = torch.logsumexp(torch.stack([p + math.log(beta), q + math.log(1 - beta)]), 0)
    return temperature**2 * (beta * divergence(p, m) + (1 - beta) * divergence(q, m))


def line(name, temperature, beta, loss, z):
    (dz,) = torch.autograd.grad(loss, z)
    dot = (dz.flatten() * values(20000, dz.numel())).sum()
    print(f"{name} {temperature:g} {beta:g} {loss.item():.10e} {dz.norm().item():.10e} {dot.item():.10e}")


def losses():
    z = values(0, ROWS * VOCAB).view(ROWS, VOCAB).requires_grad_()
    t = values(10000, ROWS * VOCAB).view(ROWS, VOCAB)
    label = torch.arange(ROWS) * 100 + 7
    for name, temperature, beta in (
        ("ce", 1, 0),
        ("kl", 1, 0),
        ("kl", 2, 0),
        ("reverse_kl", 1, 0),
        ("reverse_kl", 4, 0),
        ("jsd", 1, 0.5),
        ("jsd", 1, 0.1),
        ("jsd", 2, 0.9),
        ("skew_kl", 1, 0.1),
        ("skew_kl", 2, 0.3),
        ("skew_reverse_kl", 1, 0.1),
        ("skew_reverse_kl", 2, 0.3),
        ("total_variation", 1, 0),
        ("total_variation", 4, 0),
    ):
        line("loss " + name, temperature, beta, loss_of(name, z, t, label, temperature, beta), z)
    s, u = values(0, ROWS * VOCAB).requires_grad_(), values(10000, ROWS * VOCAB)
    line("hidden", 1, 0, ((s - u) ** 2).sum() / (u**2).sum(), s)


def sinkhorn():
    rows, vocab, temperature, group = 150, 60, 2, 64
    z = values(0, rows * vocab).view(rows, vocab).requires_grad_()
    t = values(10000, rows * vocab).view(rows, vocab)
    loss = 0
    for first in range(0, rows, group):
        at = [i for i in range(first, min(first + group, rows)) if i % 5]
        cost = torch.cdist(F.softmax(z[at] / temperature, 1), F.softmax(t[at] / temperature, 1), p=1)
        plan = torch.exp(-cost / 0.1)
        for _ in range(20):
            plan = plan / plan.sum(1, keepdim=True)
            plan = plan / plan.sum(0, keepdim=True)
        loss = loss + temperature * (plan * cost).sum()
    line("sinkhorn", temperature, 0, loss, z)


def teacher_top():
    temperature, k = 2, 40
    z = values(0, ROWS * VOCAB).view(ROWS, VOCAB).requires_grad_()
    p = F.softmax(values(10000, ROWS * VOCAB).view(ROWS, VOCAB) / temperature, 1)
    first = p.topk(k + 1, 1).values
    assert (first[:, k - 1] > first[:, k]).all(), "which tokens are the largest is not clear"
    q, index = F.log_softmax(z / temperature, 1), p.topk(k, 1).indices
    inside = torch.zeros_like(p).scatter(1, index, 1.0).bool()
    a = torch.cat([p.gather(1, index), p.masked_fill(inside, 0).sum(1, keepdim=True)], 1).log()
    b = torch.cat([q.gather(1, index), q.masked_fill(inside, -math.inf).logsumexp(1, keepdim=True)], 1)
    line("teacher_top", temperature, k, temperature**2 * divergence(a, b), z)


def projection():
    rows, width, wide = 70, 24, 40
    s = values(0, rows * width).view(rows, width).requires_grad_()
    u = values(10000, rows * wide).view(rows, wide)
    w = (values(30000, wide * width) / 8).view(wide, width).requires_grad_()
    loss = ((F.linear(s, w) - u) ** 2).sum() / (u**2).sum()
    d = [x.flatten() for x in torch.autograd.grad(loss, (s, w))]
    dot = sum((x * values(20000 + 5000 * i, x.numel())).sum() for i, x in enumerate(d))
    print(f"projection 1 0 {loss.item():.10e} {torch.cat(d).norm().item():.10e} {dot.item():.10e}")


def relations():
    pieces, sequences, length = 4, 2, 70
    widths = (24, 12, 12), (16, 8, 8)
    s, t = (
        [values(first + 5000 * i, sequences * length * w).div(2).view(sequences, length, w) for i, w in enumerate(of)]
        for first, of in zip((0, 20000), widths)
    )
    loss = 0
    for a, b in zip(s, t):
        a.requires_grad_()
        rows = []
        for x in (a, b):
            x = x.view(sequences, length, pieces, -1).transpose(1, 2)
            score = x @ x.transpose(2, 3) / math.sqrt(x.shape[-1])
            seen = torch.ones(length, length).tril().bool()
            rows.append(F.log_softmax(score.masked_fill(~seen, -1e9), -1))
        loss = loss + divergence(rows[1], rows[0]) / (3 * pieces * sequences * length)
    d = torch.autograd.grad(loss, s)
    norm = torch.cat([x.flatten() for x in d]).norm()
    dot = sum((x.flatten() * values(40000 + 5000 * i, x.numel())).sum() for i, x in enumerate(d))
    print(f"relations {pieces} 0 {loss.item():.10e} {norm.item():.10e} {dot.item():.10e}")


def rope(x):
    """x [sequences, length, heads, width], turned in halves."""
    half = x.shape[-1] // 2
    angle = torch.outer(torch.arange(x.shape[1]).double(), 10000.0 ** (-torch.arange(half).double() / half))
    cosine, sine = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


def attention():
    sequences, length, heads, window = 2, 70, 4, 50
    leaves, scores = [], []
    for first, width, key_heads in ((0, 6, 2), (20000, 8, 4)):
        q = values(first, sequences * length * heads * width).div(2).requires_grad_()
        k = values(first + 5000, sequences * length * key_heads * width).div(2).requires_grad_()
        leaves += [q, k]
        turned = [rope(x.view(sequences, length, -1, width)).transpose(1, 2) for x in (q, k)]
        keys = turned[1].repeat_interleave(heads // key_heads, 1)
        scores.append(turned[0] @ keys.transpose(2, 3) / math.sqrt(width))
    seen = torch.ones(length, length).tril().triu(1 - window).bool()
    loss = ((scores[0] - scores[1])[..., seen] ** 2).mean()
    d = torch.autograd.grad(loss, leaves[:2])
    dot = sum((x * values(40000 + 5000 * i, x.numel())).sum() for i, x in enumerate(d))
    print(f"attention 4 0 {loss.item():.10e} {torch.cat(d).norm().item():.10e} {dot.item():.10e}")


def adamw():
    first = torch.nn.Parameter((values(0, 300) / 8).view(12, 25))
    second = torch.nn.Parameter(values(1000, 37) / 8)
    optimizer = torch.optim.AdamW(
        [{"params": [first], "weight_decay": 0.1}, {"params": [second], "weight_decay": 0.0}],
        betas=(0.9, 0.95),
        eps=1e-8,
    )
    for step in range(1, 6):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / step
        first.grad = (values(10000 * step, 300) / 16).view(12, 25)
        second.grad = values(10000 * step + 1000, 37) / 16
        norm = torch.nn.utils.clip_grad_norm_([first, second], 1.0)
        optimizer.step()
        both = torch.cat([first.detach().flatten(), second.detach()])
        dot = (both * values(0, both.numel())).sum()
        print(f"adamw {step} {norm.item():.10e} {both.sum().item():.10e} {dot.item():.10e}")


losses()
sinkhorn()
teacher_top()
projection()
relations()
attention()
adamw()
