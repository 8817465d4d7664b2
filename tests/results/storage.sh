#!/bin/bash
# What archives take and how fast they are: storage.sh PARE OUT.csv NAME=FILE_OR_DIR...
# For each thing, pare pack and zstd (the program, all in one tar): bytes, and MB/s of packing and of
# unpacking by the least of three runs (one at level 19), files in the cache of the system; and reading
# the files from the disk (direct) as they are. Adds lines to OUT.csv.
set -euo pipefail
pare=$(realpath "$1") out=$2
place=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$place"' EXIT
commit=$(git -C "$(dirname "$0")" rev-parse --short=8 HEAD)
threads=$(nproc)
[ -e "$out" ] || echo "date,commit,what,tool,threads,bytes,stored,ratio,pack_mb_s,unpack_mb_s" > "$out"

now() { date +%s.%N; }

# least RUNS COMMAND...: seconds of the fastest run, in `seconds`.
least() {
    local runs=$1 start t
    seconds=
    while ((runs-- > 0)); do
        rm -rf "$place/back" "$place/packed"*
        [ -z "${keep-}" ] || cp "$place/kept" "$place/packed.pare.zst"
        start=$(now)
        "${@:2}" > "$place/log" 2>&1 || { cat "$place/log"; exit 1; }
        t=$(echo "$(now) - $start" | bc)
        if [ -z "$seconds" ] || [ "$(echo "$t < $seconds" | bc)" = 1 ]; then seconds=$t; fi
    done
}

row() { # WHAT TOOL BYTES STORED PACK UNPACK, the last two in seconds or empty
    awk -v date="$(date -u +%F)" -v commit="$commit" -v threads="$threads" -v w="$1" -v t="$2" \
        -v b="$3" -v s="$4" -v p="$5" -v u="$6" 'BEGIN {
        printf "%s,%s,%s,%s,%d,%d,%d,%.3f,%s,%s\n", date, commit, w, t, threads, b, s, b / s,
            p ? sprintf("%.0f", b / p / 1e6) : "", u ? sprintf("%.0f", b / u / 1e6) : "" }' >> "$out"
}

for pair in "${@:3}"; do
    what=${pair%%=*} path=${pair#*=}
    tar -cf "$place/all.tar" -C "$(dirname "$path")" "$(basename "$path")"
    bytes=$(find -L "$path" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
    cat "$place/all.tar" > /dev/null
    for level in 3 19; do
        runs=$([ $level = 19 ] && echo 1 || echo 3)
        keep= least "$runs" "$pare" pack "$path" --level $level --output "$place/packed.pare.zst"
        packing=$seconds
        mv "$place/packed.pare.zst" "$place/kept"
        stored=$(stat -c %s "$place/kept")
        keep=1 least 3 "$pare" unpack "$place/packed.pare.zst" --output "$place/back"
        row "$what" "pare pack --level $level" "$bytes" "$stored" "$packing" "$seconds"
        keep= least "$runs" zstd -q -T"$threads" -$level "$place/all.tar" -o "$place/packed.tar.zst"
        packing=$seconds
        mv "$place/packed.tar.zst" "$place/kept.tar.zst"
        stored=$(stat -c %s "$place/kept.tar.zst")
        keep= least 3 zstd -dq "$place/kept.tar.zst" -o "$place/back"
        row "$what" "zstd -$level" "$bytes" "$stored" "$packing" "$seconds"
        rm -f "$place/kept"*
    done
    keep= least 3 dd if="$place/all.tar" of=/dev/null bs=4M iflag=direct
    row "$what" "reading the disk" "$bytes" "$bytes" "" "$seconds"
done
