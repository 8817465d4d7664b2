#!/bin/bash
# How long RTN in 4 bits takes, beside copying what it reads and what it writes.
#   copy_speed.sh PARE MODEL [ROUNDS [PYTHON]]
# MODEL is a checkpoint directory. Each round, with the model in the page cache: copy and sync of
# the model, the job, copy and sync of its output. With PYTHON, one that has the package cyllama, also
# llama.cpp's quantizer and pare on one GGUF file in F16. Works in a folder of $TMPDIR.
set -euo pipefail
pare=$(realpath "$1") model=$(realpath "$2") rounds=${3:-3} python=${4-}
here=$(cd "$(dirname "$0")" && pwd)
threads=$(nproc)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
TIMEFORMAT='%R %U %S'

# took COMMAND...: its wall time and CPU time in seconds, by one read of the clock.
took() {
    { time "$@" > "$place/log" 2>&1 || { cat "$place/log" >&2; exit 1; }; } 2>&1 |
        awk '{ printf "%.2f %.2f", $1, $2 + $3 }'
}

copy() {
    rm -rf "$2"
    cp -rL "$1" "$2"
    find "$2" -type f -exec sync {} +
}

job() {
    printf 'pare: 1\nmodel: %s\noutput: %s\npasses:\n  - rtn: {bits: 4, group: %s}\n' \
        "$1" "$place/out" "$2" > "$place/recipe.yaml"
    rm -rf "$place/out"
    "$pare" compress "$place/recipe.yaml" --threads "$threads"
}

echo "round  copy model  job (CPU)      copy output  job / copies"
for ((i = 1; i <= rounds; i++)); do
    find -L "$model" -type f -exec cat {} + > /dev/null
    sync
    read -r in _ <<< "$(took copy "$model" "$place/copy")"
    rm -rf "$place/copy"
    read -r run cpu <<< "$(took job "$model" 64)"
    read -r out _ <<< "$(took copy "$place/out" "$place/copy")"
    rm -rf "$place/copy"
    awk -v i="$i" -v in_="$in" -v r="$run" -v c="$cpu" -v o="$out" \
        'BEGIN { printf "%5d  %8.2f s  %6.2f s (%.2f)  %8.2f s  %.2f\n", i, in_, r, c, o, r / (in_ + o) }'
done

[ -n "$python" ] || exit 0
"$pare" export "$place/out" --format gguf:f16 --output "$place/f16.gguf" > "$place/log" 2>&1
echo "round  llama.cpp q4_0 (CPU)  pare int4 g32 of the same file, with sync (CPU)"
for ((i = 1; i <= rounds; i++)); do
    cat "$place/f16.gguf" > /dev/null
    sync
    read -r his hiscpu <<< "$(took "$python" "$here/quantize_llama.py" "$place/f16.gguf" "$place/q4.gguf" "$threads")"
    rm -f "$place/q4.gguf"
    read -r run cpu <<< "$(took job "$place/f16.gguf" 32)"
    printf '%5d  %10.2f s (%.2f)  %10.2f s (%.2f)\n' "$i" "$his" "$hiscpu" "$run" "$cpu"
done
