#!/bin/bash
# Searches with libFuzzer, and keeps count in LOG.csv.
#   run.sh 600s [PARSER...]       so many seconds each
#   run.sh 10000000 [PARSER...]   until the log has so many executions of each
# Without names: every parser that has a corpus. What was found before is in build/fuzz/grown and is
# gone on with; what breaks a promise is left in build/fuzz/found, and the status is 1. It may be
# ended at any time: at most one slice of a minute is lost, and the next call logs the ones before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

SLICE=60
LOG=tests/fuzz/LOG.csv
BUILD=build/fuzz
export ASAN_OPTIONS=malloc_context_size=1:quarantine_size_mb=4

amount=${1-}
if ! [[ $amount =~ ^[1-9][0-9]*s?$ ]]; then
    echo "usage: run.sh SECONDSs|EXECUTIONS [PARSER...]" >&2
    exit 2
fi
shift
if [ $# = 0 ]; then set -- $(ls tests/fuzz/corpus); fi
for parser in "$@"; do
    if ! [ -d "tests/fuzz/corpus/$parser" ]; then
        echo "run.sh: $parser has no corpus in tests/fuzz; there are: $(ls tests/fuzz/corpus | xargs)" >&2
        exit 2
    fi
done

# Slices of a parser that are not in the log yet: one line for each commit.
pending() { echo "$BUILD/slices/$1.csv"; }
fold() {
    if ! [ -s "$(pending "$1")" ]; then return; fi
    awk -F, -v OFS=, -v parser="$1" '
        function line() { print date, commit, parser, seed, runs, total += runs, seconds, edges, features, crashes }
        FNR == NR { if ($3 == parser) total = $6; next }
        $2 != commit { if (commit) line(); commit = $2; seed = $3; runs = seconds = crashes = 0 }
        { date = $1; runs += $4; seconds += $5; edges = $6; features = $7; crashes += $8 }
        END { line() }' "$LOG" "$(pending "$1")" > "$BUILD/slices/new"
    cat "$BUILD/slices/new" >> "$LOG"
    rm "$(pending "$1")"
}
# Executions in the log and in slices that will be.
executed() {
    touch "$(pending "$1")"
    awk -F, -v parser="$1" 'FNR == NR { if ($3 == parser) n += $5; next } { n += $4 } END { print n + 0 }' \
        "$LOG" "$(pending "$1")"
}

# slice PARSER SECONDS: 1 when something was found.
slice() {
    local parser=$1 program=$BUILD/tests/fuzz/fuzz_$1 grown=$BUILD/grown/$1 found=$BUILD/found/$1
    local out=$BUILD/slices/$1.out seed=$(($(date +%s) % 2147483647)) start=$SECONDS status=0 file
    local words=tests/fuzz/dict/$parser.dict
    local -a limits=()
    if [ -f "$words" ]; then read -ra limits <<< "$(sed -n 's/^# limits: //p' "$words") -dict=$words"; fi
    limits=(-timeout=1 -rss_limit_mb=1024 "${limits[@]}")
    mkdir -p "$grown" "$found"
    "$program" "${limits[@]}" -max_total_time="$2" -seed="$seed" -print_final_stats=1 -artifact_prefix="$found/" \
        "$grown" "tests/fuzz/corpus/$parser" > "$out" 2>&1 < /dev/null || status=$?
    # A busy machine can stop any input for a second: what is quick when tried again was not slow.
    for file in "$found"/timeout-*; do
        if [ -f "$file" ] && "$program" "${limits[@]}" "$file" > /dev/null 2>&1 < /dev/null; then
            rm "$file"
            status=0
        fi
    done
    # A machine that stands still between two inputs: late, and no input to blame.
    if [ $status = 70 ] && ! ls "$found"/timeout-* > /dev/null 2>&1; then status=0; fi
    awk -v date="$(date -u +%FT%RZ)" -v commit="$commit" -v seed="$seed" -v seconds=$((SECONDS - start)) \
        -v crashes=$((status != 0)) -v OFS=, '
        /^stat::number_of_executed_units:/ { runs = $2 }
        / cov: / { for (i = 1; i < NF; i++) { if ($i == "cov:") edges = $(i + 1); if ($i == "ft:") features = $(i + 1) } }
        END { if (runs) print date, commit, seed, runs, seconds, edges, features, crashes; exit !runs }' \
        "$out" >> "$(pending "$parser")" || { tail -n 20 "$out" >&2; return 1; }
    if [ $status != 0 ]; then
        echo "$parser: ended with $status; what it ran is in $found, what it said in $out" >&2
        return 1
    fi
}

if ! [ -f $BUILD/build.ninja ]; then cmake --preset fuzz; fi
cmake --build --preset fuzz --target "${@/#/fuzz_}"
commit=$(git rev-parse --short=7 HEAD)
if ! git diff --quiet HEAD -- . ":!$LOG"; then commit+=+; fi
mkdir -p $BUILD/slices
for parser in $(ls tests/fuzz/corpus); do fold "$parser"; done

failed=0 parser=
trap 'exit 130' INT TERM
trap 'if [ "$parser" ]; then fold "$parser"; fi' EXIT
for parser in "$@"; do
    spent=0 good=1
    while [ $good = 1 ]; do
        if [ "${amount%s}" != "$amount" ]; then
            length=$((${amount%s} - spent < SLICE ? ${amount%s} - spent : SLICE))
            if [ $length -le 0 ]; then break; fi
        else
            length=$SLICE
            if [ "$(executed "$parser")" -ge "$amount" ]; then break; fi
        fi
        slice "$parser" $length || good=0 failed=1
        spent=$((spent + length))
    done
    fold "$parser"
    tail -n 1 $LOG
done
exit $failed
