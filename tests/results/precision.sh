#!/bin/bash
# What products in BF16 cost in quality and save in time: a line for each method, precision and seed.
#   precision.sh PARE NAME MODEL WINDOW SAMPLES CALIBRATION TEST OUT.csv SEED 'METHOD=PASS'...
#   precision.sh means OUT.csv      means over the seeds, and the KL's standard deviation
# Lines that are there are not made again. CPU seconds are those of one thread.
set -euo pipefail
if [ $# = 2 ] && [ "$1" = means ]; then
    exec python3 - "$2" << 'END'
import csv, statistics, sys
runs = {}
for r in csv.DictReader(open(sys.argv[1])):
    runs.setdefault((r["model"], r["method"], r["samples"]), {}).setdefault(r["precision"], []).append(r)
def kl(rows):
    values = [float(r["kl"]) for r in rows]
    digits = 4 if values[0] > .01 else 6
    spread = f"{statistics.stdev(values):.{digits}f}" if len(values) > 1 else "-"
    return f"{statistics.mean(values):.{digits}f} +- {spread}".replace("0.", ".")
def cpu(rows):
    return f"{statistics.mean(float(r['cpu_seconds']) for r in rows):.3g}"
print('date,commit,model,method,seeds,"KL, f32","KL, bf16","CPU seconds, f32","CPU seconds, bf16"')
for (model, method, _), of in runs.items():
    if len(of) < 2:
        continue
    f, b = of["f32"], of["bf16"]
    print(f"{f[0]['date']},{f[0]['commit']},{model},{method},{len(b)},{kl(f)},{kl(b)},{cpu(f)},{cpu(b)}")
END
fi
if [ $# -lt 10 ]; then
    sed -n '3s/^# *//p' "$0" >&2
    exit 2
fi
pare=$(realpath "$1") name=$2 model=$(realpath "$3") window=$4 samples=$5
commit=$(git -C "$(dirname "$(realpath "$0")")" rev-parse --short HEAD)
calibration=$(realpath "$6") test=$(realpath "$7") csv=$8 seed=$9
shift 9
work=$(mktemp -d "${TMPDIR:-/tmp}/precision.XXXXXX")
trap 'rm -rf "$work"' EXIT
[ -f "$csv" ] || echo date,commit,model,method,samples,window,precision,seed,cpu_seconds,perplexity,kl > "$csv"

# compress METHOD PASSES PRECISION
compress() {
    local key="$name,$1,$samples,$window,$3,$seed" user system
    if grep -qF ",$key," "$csv"; then return; fi
    cat > "$work/recipe.yaml" << END
pare: 1
seed: $seed
calibration: {text: ["$calibration"], samples: $samples, window: $window, precision: $3}
passes: [{$2}]
evaluate: []
END
    TIMEFORMAT='%U %S'
    { time "$pare" compress "$work/recipe.yaml" --model "$model" --output "$work/$1-$3" --threads 1 \
        --no-progress > "$work/messages" 2>&1; } 2> "$work/time"
    read -r user system < "$work/time"
    python3 -c 'import sys; print(f"{sys.argv[1]},{float(sys.argv[2]) + float(sys.argv[3]):.1f}")' \
        "$key" "$user" "$system" > "$work/$1-$3.line"
    outs+=("$work/$1-$3")
}

outs=()
for entry in "$@"; do
    for precision in f32 bf16; do
        compress "${entry%%=*}" "${entry#*=}" $precision
    done
done
if [ ${#outs[@]} = 0 ]; then exit; fi
"$pare" compare "$model" "${outs[@]}" --text "$test" --window "$window" --limit 8 --format csv \
    --no-progress > "$work/table.csv"
python3 - "$work/table.csv" "$(date +%F),$commit" >> "$csv" << 'END'
import csv, sys
for row in list(csv.DictReader(open(sys.argv[1])))[1:]:
    line = open(row["model"] + ".line").read().strip()
    print(f"{sys.argv[2]},{line},{float(row['ppl']):.4f},{float(row['kl_mean']):.6f}")
END
