"""GGUF exports with scaled positions: what llama.cpp makes of them beyond the original context.

gguf_rope.py PARE MODEL_LOGITS MODEL TEXT: MODEL_LOGITS is the program of that name, MODEL a checkpoint
with a context of 256. Positions of it are scaled in several ways, each is exported as F16, and
llama.cpp (in the wheel of xllamacpp) says how likely the tokens behind three beginnings of the text
are. It keeps keys and values in F16, and rounds inputs of the products to F16: without scaling that
moves a logarithm by 0.002. A wrong factor of attention moves one by 0.4."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    import xllamacpp
except ImportError:
    print("skipped: the package xllamacpp (llama.cpp) could not be installed")
    sys.exit(77)

WINDOW, STARTS, MOST, BAR = 200, (40, 100, 199), 20, 0.01
ORIGINAL = {"rope_theta": 10000.0, "original_max_position_embeddings": 64}
CASES = {
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0} | ORIGINAL,
    "yarn, attention": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5} | ORIGINAL,
    "yarn, mscale": {"rope_type": "yarn", "factor": 4.0, "mscale": 2.0, "mscale_all_dim": 0.5} | ORIGINAL,
    "longrope": {"rope_type": "longrope", "attention_factor": 1.2,
                 "short_factor": [1 + i / 20 for i in range(16)],
                 "long_factor": [1 + 0.4 * i for i in range(16)]} | ORIGINAL,
}
RECIPE = """pare: 1
model: model
output: artifact
passes: [rtn: {bits: 8, group: 32}]
export: [{format: "gguf:f16", path: m.gguf}]
"""


def run(*words):
    done = subprocess.run(words, capture_output=True)
    assert done.returncode == 0, (words, done.stderr.decode()[-500:])
    return done.stdout


def make_file(pare, model, scaling, home):
    shutil.copytree(model, home / "model")
    config = json.loads((home / "model/config.json").read_text())
    config = {k: v for k, v in config.items() if k not in ("rope_theta", "rope_scaling")}
    config["rope_parameters"] = scaling
    (home / "model/config.json").write_text(json.dumps(config))
    (home / "recipe").write_text(RECIPE)
    run(pare, "compress", home / "recipe")
    return home / "m.gguf"


def open_server(file):
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx = str(file), 256
    params.cpuparams.n_threads, params.warmup, params.verbosity = 2, False, -1
    return xllamacpp.Server(params)


def likely(server, ids):
    asked = {"prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": MOST, "n_probs": MOST}
    found = server.handle_completions(asked)["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    return {t["id"]: t["logprob"] for t in found}


def check(name, pare, program, model, text, home):
    file = make_file(pare, model, CASES[name], home)
    ids = struct.unpack(f"<{WINDOW}i", run(program, file, "tokens", text)[: 4 * WINDOW])
    (home / "ids").write_bytes(struct.pack(f"<{WINDOW}i", *ids))
    logits = np.frombuffer(run(program, file, "exact", str(WINDOW), home / "ids"), np.float32)
    logits = logits.reshape(WINDOW, -1).astype(np.float64)
    server, worst = open_server(file), 0
    for start in STARTS:
        row = logits[start - 1] - logits[start - 1].max()
        ours = row - np.log(np.exp(row).sum())
        theirs = likely(server, list(ids[:start]))
        assert len(theirs) == MOST
        worst = max(worst, *(abs(ours[i] - p) for i, p in theirs.items()))
    print(f"{name}: logarithms of probabilities within {worst:.2g} of llama.cpp's", flush=True)
    assert worst < BAR, name


def main():
    pare, program, model, text = sys.argv[1:]
    for name in CASES:
        with tempfile.TemporaryDirectory() as home:
            check(name, pare, program, model, text, Path(home))
    sys.stdout.flush()
    os._exit(0)  # threads of the servers


if __name__ == "__main__":
    main()
