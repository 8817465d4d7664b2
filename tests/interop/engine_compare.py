"""Logits of an engine against logits of pare, and the work loop of the engines' scripts."""

import json
import sys
import traceback

import numpy as np


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def compare(found, wanted, tokens):
    """found, wanted [windows, window, vocab], tokens [windows, window]. What an engine and pare make
    of the same tokens: KL is of the engine to pare, over all positions; the likelihood counts
    positions 1 and up of each window, as `pare eval` does."""
    if found.shape != wanted.shape:
        raise ValueError(f"logits of shape {found.shape}, not {wanted.shape}")
    if not np.isfinite(found).all():
        raise ValueError("logits are not finite")
    difference, kl, same = 0.0, [], 0
    nll = {"engine": [], "pare": []}
    for mine, theirs, ids in zip(wanted, found, tokens):
        difference = max(difference, float(np.abs(theirs.astype(np.float64) - mine).max()))
        p, q = log_softmax(mine), log_softmax(theirs)
        kl.append((np.exp(p) * (p - q)).sum(-1))
        same += int((p.argmax(-1) == q.argmax(-1)).sum())
        for name, x in ("pare", p), ("engine", q):
            nll[name].append(-np.take_along_axis(x[:-1], ids[1:, None], 1))
    ppl = {name: float(np.exp(np.mean(x))) for name, x in nll.items()}
    return {"tokens": int(tokens.size), "logits": difference, "kl": float(np.mean(kl)),
            "top1": same / tokens.size, "ppl_engine": ppl["engine"], "ppl_pare": ppl["pare"]}


def read_tokens(job):
    return np.fromfile(job["tokens"], "<i4").reshape(-1, job["window"])


def read_logits(path, tokens):
    return np.fromfile(path, "<f4").reshape(*tokens.shape, -1)


def read_lines(path):
    """Lines of text and their ids by pare."""
    with open(path) as f:
        both = json.load(f)
    return both["lines"], both["ids"]


def compare_ids(lines, found, wanted):
    """How many lines there are, how many have other ids, and the first of them."""
    wrong = [i for i in range(len(lines)) if list(found[i]) != wanted[i]]
    return {"count": len(lines), "wrong": len(wrong),
            "first": [(lines[i], list(found[i]), wanted[i]) for i in wrong[:3]]}


def work(make_logits, versions):
    """Runs the jobs of the file argv[1] and writes one line of JSON for each to argv[2]."""
    jobs = json.load(open(sys.argv[1]))
    with open(sys.argv[2], "a") as out:
        for job in jobs:
            tokens = read_tokens(job)
            try:
                found, extra = make_logits(job, tokens)
                if "rounded" in job:
                    wanted = read_logits(job["rounded"], tokens)
                    extra["rounded"] = float(np.abs(found - wanted).max())
                for reference in job["references"]:
                    row = compare(found, read_logits(reference["path"], tokens), tokens)
                    row.update(extra, job=job["id"], reference=reference["name"],
                               versions=versions)
                    out.write(json.dumps(row) + "\n")
            except Exception as e:  # whatever an engine raises is this row's result
                traceback.print_exc()
                said = str(e).strip().splitlines() or [""]
                error = f"{type(e).__name__}: {said[0]}"
                out.write(json.dumps({"job": job["id"], "error": error, "versions": versions}) + "\n")
            out.flush()
