"""Looks at widths.json of a search for a speed.

  widths.py fix FILE           times that rise with the width, so that a test does not depend on the machine: half
                               of a token is MLPs
  widths.py check FILE RECIPE SPEEDUP
                               the widths of RECIPE are fast enough by the times, nearly the best of all that are
                               (every sum of times is tried), and cost less than any one width for all
"""
import json
import sys


def fix(path):
    with open(path) as f:
        d = json.load(f)
    for w in d["widths"]:
        w["ps"] = 1000000 * w["channels"]
    d["token_ps"] = 2 * len(d["blocks"]) * d["widths"][0]["ps"]
    with open(path, "w") as f:
        json.dump(d, f)


def chosen(path, blocks, full):
    """Channels of each block, as the steps of the recipe say."""
    width, ratio = [full] * blocks, 0.0
    for line in open(path):
        word = line.split()
        if word[:1] == ["ratio:"]:
            ratio = float(word[1])
        if "down_proj" in line:
            width[int(line.split(".")[2])] = round(full * (1 - ratio))
    return width


def check(path, recipe, speedup):
    with open(path) as f:
        d = json.load(f)
    channels = [w["channels"] for w in d["widths"]]
    ps = dict(zip(channels, (w["ps"] for w in d["widths"])))
    loss = [dict(zip(channels, (b["weight"] * e for e in b["errors"]))) for b in d["blocks"]]
    blocks = len(loss)
    left = d["token_ps"] / speedup - (d["token_ps"] - blocks * ps[channels[0]])
    width = chosen(recipe, blocks, channels[0])
    time, cost = sum(ps[w] for w in width), sum(l[w] for l, w in zip(loss, width))
    assert time <= left, "the widths %s take %d ps of %d" % (width, time, left)
    best = {0: 0.0}
    for l in loss:
        after = {}
        for t, c in best.items():
            for w in channels:
                if t + ps[w] <= left:
                    after[t + ps[w]] = min(after.get(t + ps[w], 1e300), c + l[w])
        best = after
    least = min(best.values())
    assert cost <= 1.1 * least, "the widths %s cost %g, the best %g" % (width, cost, least)
    one = [sum(l[w] for l in loss) for w in channels if blocks * ps[w] <= left]
    assert one and cost < one[0], "the widths %s cost %g, one width %s" % (width, cost, one[:1])
    assert len(set(width)) > 1, "one width for all: %s" % width


if sys.argv[1] == "fix":
    fix(sys.argv[2])
else:
    check(sys.argv[2], sys.argv[3], float(sys.argv[4]))
