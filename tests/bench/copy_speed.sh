#!/bin/bash
# How long RTN in 4 bits takes, beside copying what it reads and what it writes.
#   copy_speed.sh PARE MODEL [ROUNDS [PYTHON]]
# MODEL is a checkpoint directory. Each round, with the model in the page cache: copy and sync of
# the model, the job, copy and sync of its output. With PYTHON, one that has the package cyllama, also
# llama.cpp's quantizer and pare on one GGUF file in F16. Works in a folder of $TMPDIR. Exit code 1:
# something failed, or the best round took more than 3 times the copies.
set -euo pipefail
pare=$(realpath "$1") model=$(realpath "$2") rounds=${3:-3} python=${4-}
here=$(cd "$(dirname "$0")" && pwd)
threads=$(nproc)
bar=3 slow=0 # the job may take so many times the copies
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
TIMEFORMAT='%R %U %S'

# took COMMAND...: its wall time and CPU time in seconds in $wall and $cpu, by one read of the clock.
took() {
    { time "$@" > "$place/log" 2>&1; } 2> "$place/time" || {
        echo "failed: $*" >&2
        cat "$place/log" >&2
        exit 1
    }
    read -r wall cpu <<< "$(awk '{ printf "%.2f %.2f", $1, $2 + $3 }' "$place/time")"
}

copy() {
    rm -rf "$2" && cp -rL "$1" "$2" &&
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
    took copy "$model" "$place/copy"
    in=$wall
    rm -rf "$place/copy"
    took job "$model" 64
    run=$wall job_cpu=$cpu
    took copy "$place/out" "$place/copy"
    rm -rf "$place/copy"
    awk -v i="$i" -v in_="$in" -v r="$run" -v c="$job_cpu" -v o="$wall" \
        'BEGIN { printf "%5d  %8.2f s  %6.2f s (%.2f)  %8.2f s  %.2f\n", i, in_, r, c, o, r / (in_ + o) }' |
        tee -a "$place/rounds"
done
awk -v bar="$bar" 'NR == 1 || $NF < best { best = $NF }
    END { printf "best %.2f, at most %.2f is wanted\n", best, bar; exit best > bar }' "$place/rounds" || slow=1

[ -n "$python" ] || exit $slow
"$pare" export "$place/out" --format gguf:f16 --output "$place/f16.gguf" > "$place/log" 2>&1
# pare syncs what it writes before it says that a job is done; llama.cpp's quantizer does not.
echo "round  llama.cpp q4_0 (CPU)  then its sync  pare int4 g32 of the same file, with sync (CPU)"
for ((i = 1; i <= rounds; i++)); do
    cat "$place/f16.gguf" > /dev/null
    sync
    took "$python" "$here/quantize_llama.py" "$place/f16.gguf" "$place/q4.gguf" "$threads"
    his=$wall his_cpu=$cpu
    took sync "$place/q4.gguf"
    his_sync=$wall
    rm -f "$place/q4.gguf"
    cat "$place/f16.gguf" > /dev/null
    took job "$place/f16.gguf" 32
    printf '%5d  %10.2f s (%.2f)  %9.2f s  %14.2f s (%.2f)\n' "$i" "$his" "$his_cpu" "$his_sync" \
        "$wall" "$cpu"
done
exit $slow
