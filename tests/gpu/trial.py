"""tests/gpu.sh without a GPU: a trial over the interpreter, and its report of rows like those of a GPU.
trial.py GPU.SH BUILD OUT"""
import copy
import json
import os
import subprocess
import sys
import tempfile

SHAPES = {(128, 256): (8192, 8192), (48, 640): (8192, 81920)}
TOKENS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
KINDS = ["int4", "int8", "int3", "int2", "ternary", "2:4 int4", "2:4 int8", "2:4 f16", "exl3_3", "f16"]
failed = 0


def check(good, what):
    global failed
    if not good:
        failed = 1
        print("gpu.trial:", what)


def as_on_a_gpu(rows, us_of):
    """Rows of the trial with the shapes of a GPU and the times of a function."""
    out, last, token = [], None, 0
    for row in copy.deepcopy(rows):
        if row["kind"] == "device":
            row.update(name="NVIDIA H100 80GB HBM3", trial=False, copy_gb_s=3000.0)
        if row["kind"] == "product":
            key = (row["weights"], row["inputs"], row["n"])
            token = token + 1 if key == last else 0
            last = key
            row["n"], row["k"] = SHAPES[(row["n"], row["k"])]
            row["m"] = TOKENS[token]
            row["us"] = us_of(row)
            row["bytes"] = 33_500_000 * row["k"] // 8192
        if not (row["kind"] == "cublas" and "note" in row):
            out.append(row)
    for n, k in SHAPES.values():
        out += [{"kind": "cublas", "n": n, "k": k, "m": m, "us": 50.0 * k / 8192} for m in TOKENS]
    return out


def report(script, rows, tail="", bench=None):
    """The report of a folder with these rows: its exit code, text and JSON."""
    with tempfile.TemporaryDirectory() as home:
        with open(home + "/speed.jsonl", "w") as f:
            f.write("".join(json.dumps(r) + "\n" for r in rows) + tail)
        with open(home + "/rows", "w") as f:
            f.write('a step, "quoted" \\ %d\tFAILED with exit code 1\n')
        with open(home + "/bench-int4.json", "w") as f:
            f.write(json.dumps(bench) if bench else '{"rows": [')
        code = subprocess.run([sys.executable, os.path.dirname(script) + "/gpu/report.py", home, "abc", home + "/out"],
                              stdout=subprocess.DEVNULL).returncode
        return code, open(home + "/out.txt").read(), json.load(open(home + "/out.json"))


def states(result):
    return [b["met"] for b in result["bars"]]


def main():
    script, build, out = sys.argv[1:]
    run = subprocess.run(["sh", script, "--trial", build, out], capture_output=True, text=True)
    check(run.returncode == 0, "it ends with %d\n%s%s" % (run.returncode, run.stdout[-3000:], run.stderr))
    text, result = open(out + ".txt").read(), json.load(open(out + ".json"))
    rows = result["kernels"]
    products = [r for r in rows if r["kind"] == "product"]
    check(len(products) == 2 * ((9 + 9 + 4) * len(KINDS) - 3 * 9), "%d products" % len(products))
    check({r["weights"] for r in products} == set(KINDS), "kinds of weights are missing")
    check(all(r["checked"] for r in products), "a product was not checked")
    check(len([r for r in rows if r["kind"] == "attention"]) == 8, "attention is missing")
    check(set(states(result)) == {None} and "NOT MET" not in text, "a trial judges bars")
    check("A TRIAL" in text and "FAILED" not in text, "the table of a trial:\n" + text[:1000])

    def fast(row):
        per = {"ternary": 15, "2:4 int4": 10}.get(row["weights"], 16)
        return (50 if row["m"] == 256 else per) * row["k"] / 8192 * (0.7 if row["k"] > 8192 else 1)

    model = {"rows": [{"model": "1b", "weights": "int4", "batch": 1, "tpot_ms": 0.25, "weight_bytes": 600_000_000,
                       "decode_tok_s": 4000.0, "prefill_tok_s": 1e5}]}
    code, text, result = report(script, as_on_a_gpu(rows, fast), bench=model)
    check(code == 0 and states(result) == [True] * 12, "good times: %s" % result["bars"])
    check("HBM by data sheet: 3350" in text and "Marlin 27.0, Humming 27.1" in text, "columns:\n" + text)
    # 33.5 MB in 16 us are 2094 GB/s of 3000
    check(any(line.split()[:8] == ["int4", "f16", "8192", "x", "8192", "1", "16.0", "-"] and "69.8%" in line
              for line in text.splitlines()), "the share of a copy:\n" + text)
    model["rows"][0]["tpot_ms"] = 0.31
    code, text, result = report(script, as_on_a_gpu(rows, lambda row: 4 * fast(row)), bench=model)
    check(states(result) == [False] * 9 + [True] * 2 + [False], "slow times: %s" % result["bars"])
    check(text.count("NOT MET") == 10, "slow times:\n" + text)
    slow = as_on_a_gpu(rows, lambda row: 12.5 if row["weights"] == "2:4 int4" else 16)
    check(states(report(script, slow)[2])[9:11] == [False, False], "2:4 int4 at 0.78 of the time")

    code, text, result = report(script, as_on_a_gpu(rows, fast)[:40], tail='{"kind": "prod')
    check(code == 1 and "it ended early" in text and 'quoted" \\ %d' in text, "a run that was cut off:\n" + text)
    check(result["steps"][0]["step"] == 'a step, "quoted" \\ %d', "quotes in JSON")
    check("bench model, int4: no result" in text, "a bench without a result:\n" + text)
    code, text, result = report(script, [])
    check(code == 1 and states(result) == [None] * 12, "a run without a row: %s" % result)
    return failed


if __name__ == "__main__":
    sys.exit(main())
