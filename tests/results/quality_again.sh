#!/bin/bash
# The table of quality on the demo model: its columns, figures that can be true, nothing run twice, a
# line that was cut run again: quality_again.sh PARE DEMO
set -euo pipefail
pare=$(realpath "$1") demo=$(realpath "$2")
quality=$(dirname "$(realpath "$0")")/quality
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

fail() {
    echo "$*"
    tail -n 5 out.csv said
    exit 1
}
run() {
    "$quality" "$pare" out.csv --models "demo=$demo/hedge" --calibration "$demo/calibration.txt" \
        --test "$demo/evaluation.txt" --bits 4 --groups 64 --seeds 2 --windows 2 "$@" > said
}
figure() { awk -F, -v method="$1" -v column="$2" '$5 == method { print $column; exit }' out.csv; }
between() { awk "BEGIN { exit !($1 < $2 && $2 < $3) }" || fail "$2 is not between $1 and $3"; }

run --methods rtn,gptq
columns=date,commit,cpu,model,method,bits,group,calibration,seed,seconds,cpu_seconds,bytes
columns=$columns,bits_per_weight,perplexity,kl,top1,float_perplexity
[ "$(head -n 1 out.csv)" = "$columns" ] || fail "columns"
[ "$(cut -d, -f4-9 out.csv | tail -n +2 | xargs)" = "demo,rtn,4,64,-,- \
demo,gptq,4,64,calibration.txt,0 demo,gptq,4,64,calibration.txt,1" ] || fail "lines"
[ "$(figure rtn 13)" = 4.2500 ] || fail "bits per weight"
[ "$(figure gptq 15)" != "$(awk -F, '$9 == 1 { print $15 }' out.csv)" ] || fail "one KL for two seeds"
between 0.0001 "$(figure gptq 15)" "$(figure rtn 15)"
between 0.8 "$(figure rtn 16)" 1
between "$(figure rtn 17) * 0.9" "$(figure rtn 14)" "$(figure rtn 17) * 1.1"

cp out.csv before.csv
run --methods rtn,gptq
cmp out.csv before.csv || fail "a second call changed the table"
[ ! -s said ] || fail "a second call ran something"

# as a kill leaves it: the last line ends in the middle
head -c -30 before.csv > out.csv
run --methods rtn,gptq
[ "$(cat said)" = "demo gptq, 4 bits, groups of 64, seed 1 ..." ] || fail "a cut line"
[ "$(tail -n 1 out.csv | cut -d, -f 12-)" = "$(tail -n 1 before.csv | cut -d, -f 12-)" ] ||
    fail "the cut line has other figures now"
"$quality" table out.csv > table
grep -qE '^\| demo \| gptq \| 4 \| 64 \| calibration.txt \| 2 \| 4.2500 \| [0-9.]+ \+- 0\.[0-9]+ ' table ||
    fail "$(cat table)"

if run --methods rtn,no-such; then fail "a method that is not there"; fi
grep -q '^left out: no-such: no such method' said || fail "a method that is not there, in silence"
if run --models gone=nowhere; then fail "a model that is not there"; fi
grep -q '^left out: gone: there is no model' said || fail "a model that is not there, in silence"
