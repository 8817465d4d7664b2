#!/bin/sh
# Everything that a machine with an NVIDIA GPU can say: builds, tests on the device, benchmarks. One
# table, and the same as JSON, in tests/results/gpu.
#   tests/gpu.sh            all of it, in a build of its own (build/gpu), under 8 minutes
#   tests/gpu.sh DIR        with the programs of the build DIR (target gpu), where nothing can be built
#   tests/gpu.sh --dry DIR  lists what it would do with the programs of the build DIR, and fails for
#                           one that is not there
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
dry=
made=
build=$root/build/gpu
if [ "${1-}" = --dry ]; then
    dry=1
    shift
fi
if [ $# -gt 0 ]; then
    made=1
    build=$1
fi
failed=0
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

# Where a program lies in a build.
at() {
    case $1 in
    pare) echo "$build/pare" ;;
    make_checkpoint) echo "$build/tests/fault/make_checkpoint" ;;
    *) echo "$build/tests/gpu/gpu_$1" ;;
    esac
}

# row STEP RESULT: a line of the table, and a line for the JSON.
row() {
    printf '%-44s %s\n' "$1" "$2"
    printf '%s\t%s\n' "$1" "$2" >> "$home/rows"
}

# step NAME COMMAND...: runs it with its output in a file.
step() {
    name=$1
    shift
    if [ -n "$dry" ]; then
        echo "would run: $name: $*"
        return
    fi
    begin=$(date +%s)
    if "$@" > "$home/log" 2>&1; then
        row "$name" "passed in $(($(date +%s) - begin)) s"
    else
        failed=1
        row "$name" "FAILED"
        tail -n 30 "$home/log"
    fi
}

# speed NAME OPTION...: decoding and prefill of a synthetic model.
speed() {
    name=$1
    shift
    if [ -n "$dry" ]; then
        echo "would time: $name: pare bench model $*"
        return
    fi
    if ! "$(at pare)" bench model "$@" --device cuda --format json --no-progress > "$home/$name.json" \
        2> "$home/log"; then
        failed=1
        row "bench $name" "FAILED"
        tail -n 5 "$home/log"
        return
    fi
    python3 - "$home/$name.json" "$home/copy.json" << 'END' > "$home/lines"
import json, sys
copy = json.load(open(sys.argv[2]))["copy_gb_s"]
for r in json.load(open(sys.argv[1]))["rows"]:
    rate = r["weight_bytes"] / r["tpot_ms"] * 1e-6
    print("bench %s %s, batch %d\t%.3f ms per token, %.1f tok/s, weights at %.1f GB/s: %.1f%% of a copy; "
          "prefill %.1f tok/s" % (r["model"], r["weights"], r["batch"], r["tpot_ms"], r["decode_tok_s"],
                                  rate, 100 * rate / copy, r["prefill_tok_s"]))
END
    while IFS='	' read -r what result; do row "$what" "$result"; done < "$home/lines"
}

for program in pare make_checkpoint kernels model families copy_speed; do
    if [ -n "$made" ] && [ ! -x "$(at $program)" ]; then
        echo "tests/gpu.sh: $(at $program) is not built"
        exit 1
    fi
done
if [ -n "$dry" ]; then
    echo "would build: $root/build/gpu with PARE_CUDA=ON, target gpu"
else
    command -v nvidia-smi > /dev/null || { echo "skipped: there is no NVIDIA GPU here (no nvidia-smi)"; exit 77; }
    if [ -z "$made" ]; then
        cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPARE_TESTS=ON -DPARE_CUDA=ON > "$home/log" &&
            cmake --build "$build" --target gpu >> "$home/log" || { tail -n 30 "$home/log"; exit 1; }
    fi
    "$(at copy_speed)" > "$home/copy.json"
    row device "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -n 1)"
    row "copy within its memory" "$(sed 's/.*"copy_gb_s": \([0-9.]*\).*/\1 GB\/s/' "$home/copy.json")"
fi

# A process that has forked cannot use CUDA: tests run in one.
export CK_FORK=no CK_DEFAULT_TIMEOUT=600
step "products, decoding and rotations against references" "$(at kernels)"
step "models of every kind of weights" "$(at model)"
step "models of every family" "$(at families)"
step "whole commands against the CPU" sh "$root/tests/e2e/device.sh" "$(at pare)" "$(at pare)" \
    "$(at make_checkpoint)" "$root/recipes/demo"
if [ -n "$dry" ] || command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck; do
        step "compute-sanitizer $tool" compute-sanitizer --tool $tool --error-exitcode 1 "$(at model)"
    done
else
    row compute-sanitizer "not installed"
fi
for weights in int4 int8 ternary 2:4-int4 f16; do
    speed "$weights" --shape 1b --weights $weights --batch 1,8 --prompt 128 --output 33
done
[ -z "$dry" ] || exit 0

folder=$root/tests/results/gpu
name=$(date +%Y-%m-%d)-$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr ' /' '--')
mkdir -p "$folder"
tr '\t' ' ' < "$home/rows" > "$folder/$name.txt"
python3 - "$home" "$(git -C "$root" rev-parse --short HEAD)" > "$folder/$name.json" << 'END'
import datetime, glob, json, os, sys
rows = [dict(zip(("step", "result"), line.rstrip("\n").split("\t"))) for line in open(sys.argv[1] + "/rows")]
measured = {os.path.basename(path)[:-5]: json.load(open(path)) for path in sorted(glob.glob(sys.argv[1] + "/*.json"))}
print(json.dumps({"date": str(datetime.date.today()), "commit": sys.argv[2], "rows": rows, "measured": measured},
                 indent=1))
END
echo "written: $folder/$name.txt and .json"
exit $failed
