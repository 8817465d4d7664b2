#!/bin/bash
# What archives take and how fast they are: storage.sh PARE OUT.csv NAME=DIR...
# pare pack beside the program zstd (levels 3 and 19, all files in one tar) and beside reading the files
# from the disk (direct) as they are. MB/s are of the fastest of three runs (one at level 19), files in
# the cache of the system; CPU seconds are of the same run. Adds lines to OUT.csv.
set -euo pipefail
pare=$(realpath "$1") out=$2
place=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$place"' EXIT
commit=$(git -C "$(dirname "$0")" rev-parse --short=8 HEAD)
threads=$(nproc)
[ -e "$out" ] || echo "date,commit,what,tool,threads,bytes,stored,ratio,pack_mb_s,unpack_mb_s,pack_cpu_s,unpack_cpu_s" > "$out"
TIMEFORMAT='%R %U %S'

# least RUNS COMMAND...: seconds and CPU seconds of the fastest run.
least() {
    local runs=$1 real user system
    seconds=
    while ((runs-- > 0)); do
        rm -rf "$place/back" "$place/packed"*
        { time "${@:2}" > "$place/log" 2>&1 || { cat "$place/log"; exit 1; }; } 2> "$place/time"
        read -r real user system < "$place/time"
        if [ -z "$seconds" ] || [ "$(echo "$real < $seconds" | bc)" = 1 ]; then
            seconds=$real cpu=$(echo "$user + $system" | bc)
        fi
    done
}

row() { # WHAT TOOL BYTES STORED, seconds of packing and unpacking or empty, CPU seconds likewise
    awk -v date="$(date -u +%F)" -v commit="$commit" -v threads="$threads" -v w="$1" -v t="$2" \
        -v b="$3" -v s="$4" -v p="$5" -v u="$6" -v pc="$7" -v uc="$8" 'BEGIN {
        printf "%s,%s,%s,%s,%d,%d,%d,%.3f,%s,%s,%s,%s\n", date, commit, w, t, threads, b, s, b / s,
            p ? sprintf("%.3g", b / p / 1e6) : "", u ? sprintf("%.3g", b / u / 1e6) : "",
            p ? sprintf("%.2f", pc) : "", u ? sprintf("%.2f", uc) : "" }' >> "$out"
}

# measure WHAT TOOL RUNS STORED PACK... -- UNPACK...
measure() {
    local what=$1 tool=$2 runs=$3 stored=$4 packing packing_cpu
    shift 4
    local pack=()
    while [ "$1" != -- ]; do pack+=("$1") && shift; done
    shift
    least "$runs" "${pack[@]}"
    packing=$seconds packing_cpu=$cpu
    mv "$place/packed"* "$stored"
    least 3 "$@"
    row "$what" "$tool" "$bytes" "$(stat -c %s "$stored")" "$packing" "$seconds" "$packing_cpu" "$cpu"
    rm -f "$stored"
}

for level in 3 19; do
    for pair in "${@:3}"; do
        what=${pair%%=*} path=${pair#*=} runs=$((level == 3 ? 3 : 1))
        tar -cf "$place/all.tar" -C "$(dirname "$path")" "$(basename "$path")"
        bytes=$(find -L "$path" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
        cat "$place/all.tar" > /dev/null
        if [ $level = 3 ]; then
            measure "$what" "pare pack" 3 "$place/kept.pare.zst" \
                "$pare" pack "$path" --output "$place/packed.pare.zst" -- \
                "$pare" unpack "$place/kept.pare.zst" --output "$place/back"
            least 3 dd if="$place/all.tar" of=/dev/null bs=4M iflag=direct
            row "$what" "reading the disk" "$bytes" "$bytes" "" "$seconds" "" "$cpu"
        fi
        measure "$what" "zstd -$level" $runs "$place/kept.tar.zst" \
            zstd -q -T"$threads" -$level "$place/all.tar" -o "$place/packed.tar.zst" -- \
            zstd -dq "$place/kept.tar.zst" -o "$place/back"
    done
done
