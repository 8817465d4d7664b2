#!/bin/sh
# pare batch as users run it: batch.sh PARE DEMO
set -eu
. "$(dirname "$0")/begin.sh"
. "$here/batch_checks.sh"
. "$here/blocks.sh"

cat >base.yaml <<END
pare: 1
model: $work/hedge
output: unused
calibration: {text: [$demo/calibration.txt], samples: 4, window: 64}
passes: [gptq: {group: 64}]
evaluate: [kl: {text: $demo/evaluation.txt, window: 64, limit: 2}]
END
cat >good.yaml <<END
pare: 1
recipe: base.yaml
matrix: {method: [gptq, nf4], bits: [3, 4]}
include:
  - {name: shallow, method: [depth: {blocks: 2}]}
  - {name: shallow-rtn, method: rtn, model: {job: shallow}}
END
{
    cat good.yaml
    echo '  - {name: bad, model: nowhere, method: rtn}'
    echo '  - {name: behind, method: rtn, bits: 8, after: bad}'
} >bad.yaml
jobs="gptq-bits3 gptq-bits4 nf4 shallow shallow-rtn"

# same A B: two artifacts hold the same bytes
same() {
    for file in manifest.json config.json; do
        cmp "$1/$file" "$2/$file" >&2 || fail "$1 and $2 differ"
    done
    for file in "$1"/*.safetensors; do
        cmp "$file" "$2/${file##*/}" >&2 || fail "$1 and $2 differ"
    done
}

# whole DIR [LEAST]: every good job is done, once, with the bytes of the first batch; LEAST is 0 where a
# job may be killed between its output and the lines about it, before it removes its lock
whole() {
    for job in $jobs; do
        same one/$job "$1/$job"
        made=$(grep -c '^artifact\|^checkpoint' "$1/$job.log") || true
        [ "$made" -ge "${2:-1}" ] && [ "$made" -le 1 ] || fail "$1/$job: made $made times"
        if grep -q 'already complete' "$1/$job.log"; then fail "$1/$job: begun when it was done"; fi
    done
    grep -q '"complete": true' "$1/summary.json" || fail "$1: $(cat "$1/summary.json")"
    [ "$(wc -l <"$1/summary.csv")" = 6 ] || fail "$1: $(cat "$1/summary.csv")"
    grep -q '<circle.*class="front"' "$1/report.html" || fail "$1: no front in report.html"
    left=$(find "$1" -name '*.tmp' -o -name '*.partial' -o -name '.*.lock')
    [ "${2:-1}" = 0 ] || left=$left$(find "$1" -name '*.lock')
    [ -z "$left" ] || fail "left behind: $left"
}

# A job that fails stops no other, and those that wait for it are told.
run 1 bad.yaml --output one
grep -q '^bad  *failed' out.log && grep -q '^behind  *waits' out.log || fail "states: $(cat out.log)"
grep -q '^bad: .*nowhere' out.log || fail "no reason: $(cat out.log)"
grep -q '5 of 7 jobs done, 1 failed, 1 waits' out.log || fail "counts: $(cat out.log)"
grep -q 'weights of tokens: kept' one/gptq-bits3.log || fail "nothing kept: $(cat one/gptq-bits3.log)"
grep -q 'weights of tokens: taken' one/gptq-bits4.log || fail "not shared: $(cat one/gptq-bits4.log)"

# Each recipe makes the same alone, without what is shared.
for job in gptq-bits4 shallow-rtn; do
    "$pare" compress one/$job.yaml --output alone-$job >out.log 2>&1 || fail "alone: $(cat out.log)"
    same one/$job alone-$job
done

# What is done is not begun again; what failed is.
cat one/*.log >before.log
run 1 bad.yaml --output one
cat one/*.log >after.log
[ "$(grep -c nowhere after.log)" -gt "$(grep -c nowhere before.log)" ] || fail "bad was not tried again"
grep -v nowhere before.log >before
grep -v nowhere after.log | cmp -s - before || fail "done jobs ran again"

# The front is of KL although a job is compared with what another one wrote, which has no part in it.
grep -q '^shallow-rtn: its KL is to shallow, so it has no part in the front' out.log || fail "beside: $(cat out.log)"
grep -q 'has fewer bytes and not more KL' out.log || fail "the front: $(cat out.log)"
grep -q '"quality": "kl"' one/summary.json || fail "the front: $(cat one/summary.json)"

# Killed at random, and continued.
turn=0
while [ $turn -lt 7 ]; do
    "$pare" batch good.yaml --output killed --jobs 2 >out.log 2>&1 &
    pid=$!
    sleep "$(awk -v seed="$turn$$" 'BEGIN { srand(seed); printf "%.2f", 0.2 + 1.6 * rand() }')"
    kills $pid
    turn=$((turn + 1))
done
run 0 good.yaml --output killed --jobs 2
whole killed 0

# ^C stops the children, too; the same command continues.
for turn in 1 2 3 4 5 6 7 8 9; do # one whose jobs are done when it comes does not count
    rm -rf broken broken.log
    "$pare" batch good.yaml --output broken >out.log 2>broken.log &
    pid=$! code=0
    until grep -qs begins broken.log || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
    kill -INT $pid 2>/dev/null || true
    wait $pid || code=$?
    grep -qs '"complete": true' broken/summary.json || break
done
[ $code = 130 ] || fail "^C: exit $code: $(cat out.log broken.log)"
grep -q '"complete": false' broken/summary.json || fail "^C: $(cat broken/summary.json)"
run 0 good.yaml --output broken
whole broken

# Shards at the same time.
"$pare" batch good.yaml --output shards --shard 1/2 >first.log 2>&1 &
pid=$!
run 0 good.yaml --output shards --shard 2/2
wait $pid || fail "shard 1/2: $(cat first.log)"
whole shards

# A script of make.
run 0 good.yaml --output made --emit make --jobs 2
mv out.log Makefile
grep -q made/shallow/manifest.json Makefile || fail "no rule: $(cat Makefile)"
if command -v make >/dev/null; then
    make -j2 >out.log 2>&1 || fail "make: $(cat out.log)"
    whole made
fi
run 0 good.yaml --output made --emit slurm
sh -n out.log || fail "slurm: $(cat out.log)"
grep -q 'array=1-4' out.log || fail "slurm: $(cat out.log)"

# A recipe that is not there; a file in the way; a plan of all.
printf 'pare: 1\nrecipe: gone.yaml\nmatrix: {bits: [3]}\n' >gone_jobs.yaml
run 2 gone_jobs.yaml --output none
grep -q 'gone_jobs.yaml:2:9: .*gone.yaml: there is no such file' err.log || fail "a recipe that is not there: $(cat err.log)"
mkdir taken && echo mine >taken/nf4.yaml
run 2 good.yaml --output taken
[ "$(cat taken/nf4.yaml)" = mine ] || fail "a foreign file was replaced"
run 0 good.yaml --output planned --dry-run
grep -q '^gptq-bits3 .*3.250' out.log && grep -q '5 of 5 jobs to do, 1 of which is planned once its model is there' out.log || fail "plan: $(cat out.log)"
[ ! -e planned ] || fail "a plan wrote something"

# Another base recipe: what is done is of the old one, and stays until --restart.
sed 's/group: 64/group: 32/' base.yaml >base && mv base base.yaml
run 1 good.yaml --output shards
grep -q '^gptq-bits3  *stale' out.log && grep -q '^nf4 .*done' out.log || fail "another recipe: $(cat out.log)"
grep -q '^gptq-bits3: .*group: 64.*group: 32' out.log || fail "no difference told: $(cat out.log)"
grep -q 'with --restart makes all jobs anew' err.log || fail "no way on: $(cat err.log)"
run 1 good.yaml --output shards --summary
grep -q '^gptq-bits3  *stale' out.log && grep -q '^bytes: of all tensors; bits: per weight in the linears; model bits: ' out.log ||
    fail "a summary of it: $(cat out.log)"
same one/gptq-bits3 shards/gptq-bits3
run 0 good.yaml --output shards --restart
grep -q '^gptq-bits3 .* 3.500 .*done' out.log || fail "not begun anew: $(cat out.log)"

# Verdicts: one of three is good enough, one falls back, one is too large.
{
    cat base.yaml
    echo 'require: {kl: "<= 0.03", bytes: "<= 3500KiB"}'
    echo 'fallback: [{passes.0.rtn.bits: 4}]'
} | sed 's/^passes: .*/passes: [rtn: {group: 64}]/; /^calibration/d' >gated.yaml
printf 'pare: 1\nrecipe: gated.yaml\nmatrix: {bits: [2, 4]}\n' >gates.yaml
run 0 gates.yaml --output gates
grep -q '^bits2 .* 4.250 .*done  *ACCEPT' out.log || fail "no fallback: $(cat out.log)"
grep -q '^bits2: is its fallback passes.0.rtn.bits=4' out.log || fail "no settings: $(cat out.log)"
run 0 gates.yaml --output gates
sed -i 's/<= 0.03/<= 0.000003/' gated.yaml
printf 'pare: 1\nrecipe: gated.yaml\nmatrix: {bits: [2, 8]}\n' >gates.yaml
run 6 gates.yaml --output strict
grep -q '^bits8 .* 4.250 .*done  *REGRESSION' out.log || fail "no verdict: $(cat out.log)"
grep -q '"verdict": "REGRESSION"' strict/summary.json || fail "no verdict: $(cat strict/summary.json)"
if grep -q '"front": true' strict/summary.json; then fail "a regression is on the front: $(cat strict/summary.json)"; fi

# Another bound is no other job: what is done keeps its figures, and the new bound counts.
sed -i 's/<= 0.000003/<= 9/; s/<= 3500KiB/<= 9MiB/' gated.yaml
run 0 gates.yaml --output strict
grep -q '^bits8 .* 4.250 .*done  *ACCEPT' out.log || fail "another bound: $(cat out.log)"
sed -i 's/<= 9"/<= 0.000003"/' gated.yaml
run 6 gates.yaml --output strict
grep -q '^bits8 .* 4.250 .*done  *REGRESSION' out.log || fail "another bound: $(cat out.log)"
sed -i 's/<= 9MiB/<= 3500KiB/' gated.yaml
if command -v make >/dev/null; then
    run 0 gates.yaml --output scripted --emit make --strict
    mv out.log Makefile
    make >out.log 2>&1 && fail "make knows no verdict: $(cat out.log)"
    grep -q '^bits8 .*done  *REGRESSION' out.log || fail "make: $(cat out.log)"
fi
run 2 gates.yaml --output scripted --emit slurm --restart
sed -i '/^fallback/d' gated.yaml
run 6 gates.yaml --output large --dry-run
grep -q '^bits8 .*INFEASIBLE, so nothing is written' out.log || fail "plan: $(cat out.log)"
run 6 gates.yaml --output large
grep -q '^bits8: INFEASIBLE' out.log || fail "not infeasible: $(cat out.log)"
grep -q '^bits8  *infeasible  *INFEASIBLE' out.log || fail "state: $(cat out.log)"
run 6 gates.yaml --output large --summary
grep -q '^bits8: INFEASIBLE' out.log || fail "forgotten: $(cat out.log)"
[ -d strict/bits8 ] || fail "no output of before"
run 6 gates.yaml --output strict --restart
grep -q '^bits8 .*infeasible' out.log || fail "an output of before counts: $(cat out.log)"

# Speeds are of the output that is there.
sed -i '/^require/d' gated.yaml
run 0 gates.yaml --output fast --speed --threads 1
[ -s fast/bits2.speed.json ] || fail "no speed: $(cat out.log err.log)"
run 0 gates.yaml --output fast --restart
if grep -q 'tokens/s' out.log; then fail "speeds of before: $(cat out.log)"; fi

# Files of a recipe are relative to it, those of shots too; a part of the jobs is a part.
sed "s|^evaluate: .*|evaluate: [tasks: {boolq: doc.jsonl, shots: 1, shots_from: {boolq: shot.jsonl}}]|" \
    gated.yaml >tasks.yaml
printf '{"passage": "It rains.", "question": "is it wet", "label": %s}\n' 1 >doc.jsonl
printf '{"passage": "It is %s.", "question": "is it wet", "label": 0}\n' dry warm >shot.jsonl
printf 'pare: 1\nrecipe: tasks.yaml\nmatrix: {bits: [4]}\n' >asks.yaml
run 0 asks.yaml --output asked
for shard in 0/2 3/2 1/-1 +1/2 1; do
    run 2 gates.yaml --output gates --shard $shard --dry-run
done
