"""Rows of the table of quality: quality_rows.py has|add|table OUT.csv [COLUMN=VALUE ...]
has: exit code 0 when there is a row with these values (a seed also when it says that none counts).
add: one row; the result of "pare eval --baseline --format json" comes on standard input.
table: Markdown with the mean over the seeds and, behind +-, the largest less the least."""
import csv
import datetime
import io
import json
import os
import subprocess
import sys

COLUMNS = ["date", "commit", "cpu", "model", "method", "bits", "group", "calibration", "seed",
           "seconds", "cpu_seconds", "bytes", "bits_per_weight", "perplexity", "kl", "top1",
           "float_perplexity"]
SAME = ["model", "method", "bits", "group", "calibration"]
FIGURES = {"perplexity": 3, "kl": 4, "top1": 4, "cpu_seconds": 1}


def read(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="") as f:
        rows = csv.DictReader(f)
        if rows.fieldnames not in (None, COLUMNS):
            sys.exit(f"{path}: its first line is not that of a table of quality; "
                     "take another file")
        return [row for row in rows if row["float_perplexity"]]  # a killed run may cut a line


def has(path, wanted):
    """A job without calibration has "-" for its text and its seed: it stands for all of them."""
    free = ("calibration", "seed")
    return any(all(row[c] == v or c in free and row["seed"] == "-" for c, v in wanted.items())
               for row in read(path))


def cpu():
    with open("/proc/cpuinfo") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return names[0] if names else os.uname().machine


def commit():
    here = os.path.dirname(os.path.abspath(__file__))
    found = subprocess.run(["git", "-C", here, "describe", "--always", "--dirty", "--exclude", "*"],
                           capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def add(path, known, result):
    row = {"date": datetime.date.today().isoformat(), "commit": commit(), "cpu": cpu(),
           "bytes": result["memory"]["weight_bytes"],
           "bits_per_weight": f"{result['memory']['bits_per_weight']:.4f}",
           "perplexity": f"{result['perplexity']['ppl']:.4f}", "kl": f"{result['kl']['mean']:.6f}",
           "top1": f"{result['kl']['top1_agreement']:.6f}",
           "float_perplexity": f"{result['baseline']['perplexity']['ppl']:.4f}", **known}
    text = io.StringIO()
    out = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    read(path)  # refuses a file that is no table
    with open(path, "a+b") as f:
        size = f.seek(0, os.SEEK_END)
        if size == 0:
            out.writeheader()
        else:
            f.seek(-1, os.SEEK_END)
            if f.read() != b"\n":  # a line that a kill has cut
                text.write("\n")
        out.writerow(row)
        f.write(text.getvalue().encode())


def spread(rows, name):
    values = [float(row[name]) for row in rows]
    mean = f"{sum(values) / len(values):.{FIGURES[name]}f}"
    if len(values) == 1:
        return mean
    return f"{mean} +- {max(values) - min(values):.{FIGURES[name]}f}"


def table(path):
    groups = {}
    for row in read(path):
        groups.setdefault(tuple(row[c] for c in SAME), []).append(row)
    print("| model | method | bits | group | calibration | seeds | bits per weight | perplexity "
          "(float) | KL | top-1 | CPU, s |\n|" + "---|" * 11)
    for key, rows in groups.items():
        print("| " + " | ".join([
            *key, str(len(rows)), rows[0]["bits_per_weight"],
            f"{spread(rows, 'perplexity')} ({float(rows[0]['float_perplexity']):.3f})",
            *(spread(rows, name) for name in ("kl", "top1", "cpu_seconds"))]) + " |")


def main():
    what, path, *rest = sys.argv[1:]
    known = dict(word.split("=", 1) for word in rest)
    if unknown := set(known) - set(COLUMNS):
        sys.exit(f"no such column: {', '.join(sorted(unknown))}; columns are {', '.join(COLUMNS)}")
    if what == "has":
        sys.exit(0 if has(path, known) else 1)
    elif what == "add":
        add(path, known, json.load(sys.stdin))
    elif what == "table":
        table(path)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
