"""What tests/gpu.sh measured as a table and as JSON.
report.py FOLDER COMMIT OUT: FOLDER has `rows` (step, tab, result), speed.jsonl (kernel_speed.c),
bench-KIND.json (pare bench model) and `failures`; any of them may be absent or cut off. Writes OUT.txt
and OUT.json and prints the table. Exit code 1 where a line of kernel_speed is missing."""
import datetime
import glob
import json
import os
import sys

# GB/s of the memory by the maker's data sheets; of another GPU the measured copy stands for it.
HBM = {"H100 80GB HBM3": 3350, "H200": 4800, "A100-SXM4-80GB": 2039, "A100 80GB PCIe": 1935}

# Published by others for 8192 x 8192, not measured here: H100 by inclusionAI/humming, pull request 2;
# H200 by the benchmark files of Humming (fork mgoin, May 2026), in which about 15 us of each are fixed.
PUBLISHED = {
    ("int4", "f16", 1): "H100: Marlin 27.0, Humming 27.1; H200: Marlin 23.1, Humming 22.4",
    ("int4", "f16", 16): "H200: Marlin 23.7, Humming 22.9",
    ("int4", "f16", 64): "H200: Marlin 43.2, Humming 28.1",
    ("int4", "f16", 256): "H200: Marlin 94.7, Humming 58.8",
    ("int4", "int8", 1): "H200: Marlin 25.1",
    ("int4", "int8", 16): "H200: Marlin 25.6",
    ("int4", "int8", 64): "H200: Marlin 35.2",
    ("int4", "int8", 256): "H200: Marlin 70.8",
    ("int8", "f16", 1): "H100: Marlin and Humming 39 to 41",
    ("int2", "f16", 1): "H100: Humming 22.4; H200: Humming 19.4",
    ("int2", "f16", 16): "H200: Humming 20.2",
    ("int2", "f16", 64): "H200: Humming 26.4",
    ("int2", "f16", 256): "H200: Humming 58.0",
    ("f16", "f16", 1): "H200: cuBLAS 50.1",
    ("f16", "f16", 16): "H200: cuBLAS 51.0",
    ("f16", "f16", 64): "H200: cuBLAS 45.3",
    ("f16", "f16", 256): "H200: cuBLAS 56.6",
}


def read_lines(path):
    """Objects of a file with one on each line; one that is cut off is left out."""
    lines = []
    if os.path.exists(path):
        for line in open(path, encoding="utf-8", errors="replace"):
            try:
                lines.append(json.loads(line))
            except ValueError:
                pass
    return [x for x in lines if isinstance(x, dict)]


def read_json(path):
    try:
        return json.load(open(path, encoding="utf-8"))
    except (OSError, ValueError):
        return None


def number(value, form="%.1f"):
    return "-" if value is None else form % value


def rate(row):
    """GB/s of the bytes that a row must move."""
    return row["bytes"] / row["us"] * 1e-3 if row.get("us") else None


class Report:
    def __init__(self, home):
        path = os.path.join(home, "rows")
        rows = open(path, encoding="utf-8").read().splitlines() if os.path.exists(path) else []
        self.steps = [line.split("\t", 1) for line in rows if "\t" in line]
        self.speed = read_lines(os.path.join(home, "speed.jsonl"))
        self.bench = {os.path.basename(p)[6:-5]: read_json(p)
                      for p in sorted(glob.glob(os.path.join(home, "bench-*.json")))}
        path = os.path.join(home, "failures")
        self.failures = open(path, errors="replace").read() if os.path.exists(path) else ""
        self.device = next((x for x in self.speed if x.get("kind") == "device"), {})
        self.copy = self.device.get("copy_gb_s")
        name = self.device.get("name", "")
        self.hbm = next((v for k, v in HBM.items() if k in name), None)
        self.cublas = {(x["n"], x["k"], x["m"]): x["us"] for x in self.kind("cublas") if "us" in x}
        self.bars = self.find_bars()

    def kind(self, kind):
        return [x for x in self.speed if x.get("kind") == kind]

    def product(self, weights, inputs, k, m):
        for x in self.kind("product"):
            if (x["weights"], x["inputs"], x["n"], x["k"], x["m"]) == (weights, inputs, 8192, k, m):
                return x
        return None

    def share(self, row, of=None):
        of = of or self.copy
        return 100 * rate(row) / of if row and rate(row) and of else None

    def decode_share(self, row, of):
        if not of or not row.get("tpot_ms"):
            return None
        return 100 * row["weight_bytes"] / row["tpot_ms"] * 1e-6 / of

    # Bars: text, what was measured (None: nothing), whether it is met.
    def find_bars(self):
        bars = []

        def bar(text, value, form, met):
            value = None if self.device.get("trial") else value
            bars.append({"bar": text, "measured": None if value is None else form % value,
                         "met": None if value is None else bool(met(value))})

        of = self.hbm or self.copy
        memory = "HBM by data sheet" if self.hbm else "a measured copy"
        for inputs in ("f16", "int8"):
            for k, least in ((8192, 60), (81920, 80)):
                shares = [self.share(self.product("int4", inputs, k, m), of) for m in (1, 2, 4, 8, 16)]
                bar("int4 g128, %s inputs, 8192 x %d, least share of %s for M <= 16: %d %%"
                    % (inputs, k, memory, least), None if None in shares else min(shares), "%.1f %%",
                    lambda v, least=least: v >= least)
                row, other = self.product("int4", inputs, k, 256), self.cublas.get((8192, k, 256))
                times = other / row["us"] if row and row.get("us") and other else None
                bar("int4 g128, %s inputs, 8192 x %d, M = 256: 0.9 x the speed of cuBLAS F16"
                    % (inputs, k), times, "%.2f x", lambda v: v >= 0.9)
        row = self.product("ternary", "int8", 8192, 1)
        bar("ternary, 8192 x 8192, M = 1: at most 16 us on H100", row and row.get("us"), "%.1f us",
            lambda v: v <= 16)
        for inputs in ("f16", "int8"):
            pairs = [(self.product("2:4 int4", inputs, 8192, m), self.product("int4", inputs, 8192, m))
                     for m in (1, 2, 4, 8, 16, 32)]
            whole = all(a and b and a.get("us") and b.get("us") for a, b in pairs)
            bar("2:4 int4 against int4, %s inputs, 8192 x 8192, M <= 32: at most 0.75 of the time" % inputs,
                max(a["us"] / b["us"] for a, b in pairs) if whole else None, "%.2f", lambda v: v <= 0.75)
        rows = [r for r in (self.bench.get("int4") or {}).get("rows", []) if r["batch"] == 1]
        bar("decoding a 1b shape in int4 at batch 1: 60 %% of %s, end to end" % memory,
            self.decode_share(rows[0], of) if rows else None, "%.1f %%", lambda v: v >= 60)
        return bars

    def lines(self):
        for step, result in self.steps:
            yield "%-52s %s" % (step, result)
        if self.device:
            yield ""
            yield "%s, compute capability %d.%d, %d processors" % (
                self.device["name"], self.device["major"], self.device["minor"], self.device["processors"])
            yield "copy within its memory: %s GB/s read and written%s" % (
                number(self.copy), "; HBM by data sheet: %d GB/s" % self.hbm if self.hbm else "")
            if self.device["trial"]:
                yield "A TRIAL: times of an interpreter on a CPU, which say nothing of a GPU."
        yield from self.product_lines()
        yield from self.other_lines()
        yield from self.bench_lines()
        yield ""
        for b in self.bars:
            state = "not measured" if b["met"] is None else "met" if b["met"] else "NOT MET"
            yield "bar: %s: %s%s" % (b["bar"], state, "" if b["met"] is None else " (%s)" % b["measured"])

    def product_lines(self):
        if self.kind("product"):
            yield ""
            yield ("y = W x, N x K, M tokens; us: the product alone, inputs: their quantization; share: of a "
                   "copy, of the bytes that must move")
            yield "%-9s %-6s %12s %4s %9s %7s %7s %8s %9s  %s" % (
                "weights", "inputs", "N x K", "M", "us", "inputs", "share", "checked", "cuBLAS us",
                "published, not measured here")
        for x in self.kind("product"):
            shape = (x["n"], x["k"], x["m"])
            published = PUBLISHED.get((x["weights"], x["inputs"], x["m"]), "") if shape[:2] == (8192, 8192) else ""
            yield ("%-9s %-6s %12s %4d %9s %7s %7s %8s %9s  %s" % (
                x["weights"], x["inputs"], "%d x %d" % shape[:2], x["m"], number(x["us"]),
                number(x["inputs_us"]), number(self.share(x), "%.1f%%"), "yes" if x["checked"] else "no",
                number(self.cublas.get(shape)), published)).rstrip()
        for x in self.kind("cublas"):
            if "note" in x:
                yield "cuBLAS: " + x["note"]

    def other_lines(self):
        if self.kind("attention"):
            yield ""
        for x in self.kind("attention"):
            yield "attention of a token, %d heads of %d over %d, cache %s, %d positions: %s us, %s of a copy" % (
                x["heads"], x["head_dim"], x["kv_heads"], x["cache"], x["positions"], number(x["us"]),
                number(self.share(x), "%.1f%%"))
        for x in self.kind("other"):
            yield "%s, %d x %d: %s us" % (x["name"], x["rows"], x["width"], number(x["us"]))
        if self.speed and not any(x.get("kind") == "end" and x["whole"] for x in self.speed):
            yield "times of kernels are not whole: it ended early"

    def bench_lines(self):
        if self.bench:
            yield ""
        for name, result in self.bench.items():
            for r in (result or {}).get("rows", []):
                yield ("bench model, %s, %s, batch %d: %s ms per token (%s tok/s), weights at %s of a copy%s; "
                       "prefill %s tok/s" % (
                           r["model"], r["weights"], r["batch"], number(r["tpot_ms"], "%.3f"),
                           number(r["decode_tok_s"]), number(self.decode_share(r, self.copy), "%.1f%%"),
                           ", %s of HBM" % number(self.decode_share(r, self.hbm), "%.1f%%") if self.hbm else "",
                           number(r["prefill_tok_s"])))
            if not result:
                yield "bench model, %s: no result" % name


def main():
    home, commit, out = sys.argv[1:]
    report = Report(home)
    lines = list(report.lines())
    today = str(datetime.date.today())
    with open(out + ".txt", "w", encoding="utf-8") as f:
        f.write("%s, commit %s\n%s\n" % (today, commit, "\n".join(lines)))
        if report.failures:
            f.write("\n" + report.failures)
    with open(out + ".json", "w", encoding="utf-8") as f:
        json.dump({"date": today, "commit": commit, "steps": [dict(zip(("step", "result"), s)) for s in report.steps],
                   "bars": report.bars, "kernels": report.speed, "bench": report.bench,
                   "failures": report.failures}, f, indent=1)
        f.write("\n")
    print("\n".join(lines[len(report.steps):]))
    print("written: %s.txt and %s.json" % (out, out))
    return 0 if any(x.get("kind") == "end" for x in report.speed) else 1


if __name__ == "__main__":
    sys.exit(main())
