"""Exports of pare in the engines they are for: logits, KL and perplexity on the same tokens.

    engines.py BUILD REPOSITORY SHARED PYTHONS WORK [NAME ...]

BUILD is a build folder, PYTHONS the folder of the environments (heavy.sh makes them), WORK a folder
for artifacts and logits; NAME: only models and artifacts of these names. Writes the rows into
tests/interop/results.csv (with NAMEs, others stay) and fails when an engine is further from pare
than the bars of engine_cases.py."""

import csv
import datetime
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import engine_cases as cases
import token_lines

HERE = Path(__file__).resolve().parent
TOKENS, LINES = 2048, 2000
COLUMNS = ["date", "model", "artifact", "export", "engine", "versions", "layers", "against", "tokens",
           "ppl_engine", "ppl_pare", "ppl_percent", "ppl_bar", "kl", "kl_bar", "logits", "logits_bar",
           "logits_rounded", "rounded_bar", "inputs", "top1_percent", "verdict"]


def run(*command, out=None):
    done = subprocess.run([str(c) for c in command], stdout=out or subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


class Model:
    def __init__(self, home, name, path, calibration, tokens, window=256):
        self.home, self.name, self.path, self.calibration = home, name, path, calibration
        self.tokens, self.window = home.work / f"{name}.i32", window
        self.tokens.write_bytes(tokens[: 4 * TOKENS])

    def artifact(self, name, passes):
        output = self.home.work / f"{self.name}.{name}"
        recipe = Path(f"{output}.yaml")
        recipe.write_text(f"pare: 1\nmodel: {self.path}\noutput: {output}\n{self.calibration}"
                          f"passes: [{passes}]\n")
        run(self.home.pare, "compress", recipe, "--restart")
        return output

    def logits(self, path, how):
        """File of logits of a model by pare, and their perplexity by `pare eval`."""
        out = Path(f"{path}.{how}.f32")
        with open(out, "wb") as f:
            run(self.home.logits, path, how, self.window, self.tokens, out=f)
        return {"name": how, "path": str(out), "ppl": self.perplexity(path, how)}

    def rounded(self, artifact):
        """Logits of the artifact's weights rounded to the type of its checkpoint."""
        path = export(self, artifact, "safetensors")[0]
        return self.logits(path, "exact")["path"]

    def perplexity(self, path, how):
        exact = ["--exact"] if how == "exact" else []
        said = run(self.home.pare, "eval", path, *exact, "--tokens", self.tokens, "--window",
                   self.window,
                   "--format", "json")
        return json.loads(said)["perplexity"]["ppl"]


class Home:
    def __init__(self, build, repository, shared, pythons, work):
        self.build, self.pythons, self.work, self.repository, self.shared = (
            Path(p).resolve() for p in (build, pythons, work, repository, shared))
        self.pare, self.logits = self.build / "pare", self.build / "tests/interop/model_logits"
        self.ids = self.build / "tests/interop/tokenizer_ids"
        self.work.mkdir(parents=True, exist_ok=True)

    def hedge(self):
        demo = self.repository / "recipes/demo"
        tokens = run(self.logits, demo / "hedge", "tokens", demo / "evaluation.txt")
        said = f"calibration: {{text: [{demo / 'calibration.txt'}], samples: 16, window: 256}}\n"
        return Model(self, "hedge", demo / "hedge", said, tokens)

    def stories(self):
        path, data = self.shared / "models/stories260k", self.shared / "reference"
        if not path.exists() or not data.exists():
            print(f"skipped: stories260k, {path} is absent")
            return None
        said = f"calibration: {{tokens: {data / 'calib_tokens.i32'}, samples: 16, window: 256}}\n"
        return Model(self, "stories260k", path, said, (data / "eval_tokens.i32").read_bytes())

    def family(self, name):
        """A small random model, with tokens by a rule: it has no tokenizer."""
        path, (changes, dropped) = self.work / f"family.{name}", cases.FAMILIES[name]
        run(self.build / "tests/fault/make_family", name, path)
        if dropped:
            drop_tensors(path / "model.safetensors", dropped)
        config = json.loads((path / "config.json").read_text()) | changes
        config = {k: v for k, v in config.items() if v is not None or k not in changes}
        (path / "config.json").write_text(json.dumps(config))
        ids = [(i * i * 7 + i * 29 + 3) % config["vocab_size"] for i in range(TOKENS)]
        return Model(self, name, path, "", b"".join(i.to_bytes(4, "little") for i in ids), 32)


def drop_tensors(path, ending):
    """Leaves out the tensors whose names end so."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    head, data = json.loads(raw[8:start]), b""
    meta = head.pop("__metadata__", None)
    for name, t in sorted(head.items(), key=lambda item: item[1]["data_offsets"]):
        if name.endswith(ending):
            del head[name]
            continue
        piece = raw[start + t["data_offsets"][0] : start + t["data_offsets"][1]]
        t["data_offsets"] = [len(data), len(data) + len(piece)]
        data += piece
    text = json.dumps(head | ({"__metadata__": meta} if meta else {})).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def token_file(model):
    """Random lines and their ids by pare, for an engine with a tokenizer of its own."""
    raw = run(model.home.ids, model.path)
    words = [int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4)]
    rows, at = [], 0
    while len(rows) < LINES:
        rows.append(words[at + 1 : at + 1 + words[at]])
        at += 1 + words[at]
    path = model.home.work / f"{model.name}.lines.json"
    path.write_text(json.dumps({"lines": token_lines.lines(LINES), "ids": rows}))
    return str(path)


def export(model, artifact, form):
    """The file or folder, and whether it holds the weights of the artifact as they are."""
    if form == "checkpoint":
        return artifact, True
    output = Path(f"{artifact}.{form.replace(':', '.')}" + (".gguf" if ":" in form else ""))
    said = run(model.home.pare, "export", artifact, "--format", form, "--output", output, "--restart",
               "--json")
    return output, json.loads(said)["relative_error"] == 0


def make_jobs(model, table, wanted):
    """Artifacts, exports and pare's logits of them; one job for each export and engine."""
    jobs = []
    for name, passes, exports in table:
        if wanted and not {name, model.name} & set(wanted):
            continue
        artifact = model.artifact(name, passes)
        exact = [model.logits(artifact, "exact")]
        inputs = "activations" in passes  # rounded: by pare's kernels, and by engines told to
        floats = [e for e in exports if cases.ENGINES[e[1]][1] == "F32" and e[0] != "checkpoint"]
        rounded = model.rounded(artifact) if floats and not inputs else None
        for form, group in itertools.groupby(exports, key=lambda e: e[0]):
            path, same = export(model, artifact, form)
            of = exact
            floats4 = [p for p in ("mxfp4", "nvfp4") if f"activations: {p}" in passes]
            same_inputs = "int8_tensor" in passes or "fp8_token" in passes or floats4
            if same_inputs and form == "compressed-tensors":
                of = [model.logits(artifact, "packed")]
            if not same:
                of = [model.logits(path, "exact") | {"name": "exact, the file"}]
            for _, engine in group:
                jobs.append({"id": len(jobs), "model": model.name, "artifact": name, "export": form,
                             "engine": engine, "path": str(path), "tokens": str(model.tokens),
                             "window": model.window, "references": of,
                             "inputs": "fp8" if "fp8_token" in passes else floats4[0] if floats4
                             else "int8" if inputs else cases.ENGINES[engine][1]})
                if (form, engine) in floats and rounded:
                    jobs[-1]["rounded"] = rounded
        print(f"{model.name} {name}: {len(exports)} exports", flush=True)
    first = next((j for j in jobs if j["engine"] == "llama.cpp"), None)
    if first and (model.path / "tokenizer.json").exists():
        first["lines"] = token_file(model)
    return jobs


def run_engine(home, environment, jobs):
    """The rows that the engine's script writes; a job that ends the process is its row's result."""
    todo, rows = list(jobs), []
    while todo:
        work, out = home.work / f"{environment}.jobs", home.work / f"{environment}.rows"
        work.write_text(json.dumps(todo))
        out.write_text("")
        with open(home.work / f"{environment}.log", "a") as log:
            code = subprocess.run([home.pythons / environment / "bin/python",
                                   HERE / f"engine_{environment}.py", work, out], stdout=log,
                                  stderr=log).returncode
        rows += [json.loads(line) for line in out.read_text().splitlines()]
        done = {r["job"] for r in rows}
        todo = [j for j in todo if j["id"] not in done]
        if todo and code == 0:
            sys.exit(f"engine_{environment}.py left out {len(todo)} jobs")
        if todo:
            rows.append({"job": todo[0]["id"], "error": f"the engine's process ended with {code}"})
            todo = todo[1:]
    return rows


def judge(job, row):
    """The row of results.csv."""
    out = {"date": datetime.date.today().isoformat(), "model": job["model"], "export": job["export"],
           "artifact": job["artifact"], "engine": job["engine"],
           "versions": " ".join(f"{k} {v}" for k, v in row.get("versions", {}).items())}
    if "error" in row:
        return out | {"verdict": "failed: " + row["error"]}
    reference = next(r for r in job["references"] if r["name"] == row["reference"])
    percent = 100 * (row["ppl_engine"] / row["ppl_pare"] - 1)
    missed = [] if abs(row["ppl_pare"] / reference["ppl"] - 1) < 1e-6 else ["pare eval"]
    missed += ["perplexity"] if abs(percent) > cases.PERPLEXITY else []
    bar = cases.KL_FP4 if job["inputs"] in ("mxfp4", "nvfp4") else cases.KL
    missed += ["KL"] if row["kl"] > bar else []
    floats = job["inputs"] == "F32"
    missed += ["logits"] if floats and row["logits"] > cases.LOGITS else []
    near = min(row["logits"], row.get("rounded", 0))  # engines round weights to F16, or do not
    missed += ["logits with weights as rounded"] if near > cases.ROUNDED else []
    return out | {
        "layers": row.get("layers", ""), "against": row["reference"], "tokens": row["tokens"],
        "ppl_engine": f"{row['ppl_engine']:.4f}", "ppl_pare": f"{row['ppl_pare']:.4f}",
        "ppl_percent": f"{percent:+.4f}", "ppl_bar": cases.PERPLEXITY, "kl": f"{row['kl']:.2e}",
        "kl_bar": bar, "logits": f"{row['logits']:.2e}",
        "logits_bar": cases.LOGITS if floats else "", "inputs": job["inputs"],
        "logits_rounded": f"{row['rounded']:.2e}" if "rounded" in row else "",
        "rounded_bar": cases.ROUNDED if "rounded" in row else "",
        "top1_percent": f"{100 * row['top1']:.2f}",
        "verdict": "missed: " + ", ".join(missed) if missed else "ok"}


def judge_lines(job, row):
    said = row["lines"]
    verdict = "ok" if said["wrong"] == 0 else f"{said['wrong']} differ"
    for line, theirs, ours in said["first"]:
        print(f"{job['model']}: {line!r}: llama.cpp {theirs}, pare {ours}")
    return {"date": datetime.date.today().isoformat(), "model": job["model"], "artifact": "tokenizer",
            "export": job["export"], "engine": job["engine"], "against": f"ids of {said['count']} lines",
            "versions": " ".join(f"{k} {v}" for k, v in row["versions"].items()), "verdict": verdict}


def write_results(table, some):
    """results.csv: these rows, and with `some` those of it that are not made anew."""
    def key(row):
        return tuple(row[c] for c in COLUMNS[1:5])

    path, rows = HERE / "results.csv", {}
    if some and path.exists():
        with open(path, newline="") as f:
            rows = {key(r): r for r in csv.DictReader(f)}
    rows |= {key(r): r for r in table}
    with open(path, "w", newline="") as f:
        out = csv.DictWriter(f, COLUMNS, lineterminator="\n", restval="")
        out.writeheader()
        out.writerows(rows.values())


def main():
    home, wanted = Home(*sys.argv[1:6]), sys.argv[6:]
    jobs = []
    models = [(home.hedge(), cases.HEDGE), (home.stories(), cases.STORIES)]
    models += [(home.family(name), cases.family(name)) for name in cases.FAMILIES]
    for model, table in models:
        for job in make_jobs(model, table, wanted) if model else []:
            jobs.append(job | {"id": len(jobs)})
    rows, some = [], bool(wanted) or not home.shared.exists()
    for environment in ("torch", "llama"):
        mine = [j for j in jobs if cases.ENGINES[j["engine"]][0] == environment]
        if not (home.pythons / environment / "ready").exists():
            print(f"skipped: {len(mine)} rows, the environment {environment} could not be built")
            some = True
            continue
        rows += run_engine(home, environment, mine) if mine else []
    table = [judge(jobs[r["job"]], r) for r in sorted(rows, key=lambda r: r["job"])]
    table += [judge_lines(jobs[r["job"]], r) for r in rows if "lines" in r]
    shown = COLUMNS[1:5] + ["against", "ppl_percent", "kl", "logits", "logits_rounded", "verdict"]
    for row in table:
        print(*(row.get(c, "") for c in shown), sep="  ")
    write_results(table, some)
    bad = [r for r in table if r["verdict"] != "ok"]
    print(f"{len(table)} rows, {len(bad)} bad")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
