#!/bin/sh
# A recipe that requires something: gate.sh PARE DEMO. One that passes, one that fails, one that
# falls back, one that cannot be, one that is too good to be true; exit codes, what the artifact
# says, and what a killed run leaves.
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
head -c 8000 "$demo/evaluation.txt" > text

. "$here/job_checks.sh"

# recipe NAME REQUIRE [LINE...]: 3 bits, which lose KL 0.03.
recipe() {
    name=$1 required=$2
    shift 2
    {
        printf 'pare: 1\nmodel: %s/hedge\noutput: %s\n' "$demo" "$name"
        printf 'passes: [rtn: {bits: 3, group: 64}]\n'
        printf 'evaluate: [kl: {text: text, window: 128}]\nrequire: {%s}\n' "$required"
        for line in "$@"; do printf '%s\n' "$line"; done
    } > "$name.yaml"
}

# --- one that passes, and one that does not
recipe good 'kl: "<= 0.5", perplexity: "<= +50%", bytes: "<= 8MiB"' \
    'export: [{format: "gguf:q4_0", path: good.gguf}]'
run 0 good
says out "verdict           ACCEPT"
says good/README.md "Verdict: ACCEPT"
says good/report.html "Verdict: ACCEPT"
says good/run.json '"verdict": "ACCEPT"'
[ -f good.gguf ] || fail "no export of a model that is accepted"

recipe bad 'kl: "<= 0.001"' 'export: [{format: "gguf:q4_0", path: bad.gguf}]'
run 6 bad
says out "verdict           REGRESSION: kl <= 0.001 is not kept: 0.0"
says bad/README.md "Verdict: REGRESSION"
says err "no export is made"
[ ! -f bad.gguf ] || fail "an export of a model that is not accepted"
"$pare" inspect bad > out
says out "verdict           REGRESSION"
"$pare" export bad --format gguf:q4_0 --output bad.gguf > out 2> err
says err "warning: the verdict of bad is REGRESSION"

# An export from before a verdict that allows none stays, and is named.
run 6 bad --format json
says err "bad.gguf: was there before the verdict REGRESSION and stays"
says out '"exports_from_before": \['
says out 'bad.gguf"'
[ -f bad.gguf ] || fail "an export was deleted"

# The same command says the same; another bound is no other job.
run 6 bad
says out "already complete"
sed -i 's/<= 0.001/<= 0.9/' bad.yaml
run 0 bad
says out "already complete"
says out "ACCEPT"

# Its files say so, too, with the requirements that it is held to, and verify finds nothing.
for file in README.md report.html recipe.yaml run.json; do
    says bad/$file '0\.9'
    ! grep -q '0\.001"' bad/$file || fail "$file has the old bound"
done
says bad/README.md "Verdict: ACCEPT"
says bad/report.html "Verdict: ACCEPT"
says bad/run.json '"verdict": "ACCEPT"'
"$pare" verify bad > out 2> err || fail "verify: $(cat out)"
cp -r bad again
sed -i 's/<= 0.9/<= 0.001/' bad.yaml
run 6 bad
says bad/README.md "Verdict: REGRESSION"
"$pare" verify bad > out 2> err || fail "verify: $(cat out)"
sed -i 's/<= 0.001/<= 0.9/' bad.yaml
run 0 bad
diff -r bad again > out || fail "there and back is not the same: $(cat out)"

# A run that is killed between two of the files leaves what the next one makes good; a file that
# somebody changed stays.
sed -i 's/<= 0.9/<= 0.8/' bad.yaml
run 0 bad
cp bad/README.md half
rm -r bad && cp -r again bad && cp half bad/README.md
run 0 bad
"$pare" verify bad > out 2> err || fail "verify after a kill: $(cat out)"
echo mine >> bad/README.md
sed -i 's/<= 0.8/<= 0.7/' bad.yaml
run 0 bad
says err "bad/README.md was changed since pare wrote it"
says bad/README.md mine
says bad/run.json '"bound": 0.7'

# Figures that somebody changed get no digest, though the verdict on them stays.
rm -r bad && cp -r again bad
sed -i 's/"seconds": [0-9.e-]*/"seconds": 0.5/' bad/run.json
sed -i 's/<= 0.7/<= 0.9/; $ a # a comment' bad.yaml
run 0 bad
says err "bad/run.json was changed since pare wrote it"
says bad/recipe.yaml "a comment"
"$pare" verify bad > out 2> err && fail "verify: $(cat out)"
says out "run.json: differs"
sed -i '$ d' bad.yaml

# Killed at each file: the same command, and the one before, make it whole.
if strace -o trace true 2> out; then
    for at in 1 2 3 4 5; do
        for bound in 0.6 0.9; do
            rm -r bad && cp -r again bad
            sed -i 's/<= 0.[0-9]*"/<= 0.6"/' bad.yaml
            code=0
            strace -f -o trace -e trace=/^rename -e inject=/^rename:signal=KILL:when=$at \
                "$pare" compress bad.yaml > out 2> err || code=$?
            [ "$code" = 137 ] || fail "no kill at file $at: $code"
            sed -i "s/<= 0.6/<= $bound/" bad.yaml
            run 0 bad
            for file in README.md report.html recipe.yaml run.json; do
                says bad/$file "$(echo $bound | sed 's/\./\\./')"
            done
            "$pare" verify bad > out 2> err || fail "killed at file $at: $(cat out)"
            ! ls bad | grep tmp || fail "killed at file $at: half a file"
        done
    done
fi

# A file that is not there stays away; a signature is of one verdict.
rm -r bad && cp -r again bad && rm bad/report.html
openssl genpkey -algorithm ed25519 -out key.pem 2> out
"$pare" sign again --key key.pem > out
mv again/SHA256SUMS.sig bad
run 0 bad
[ -e bad/SHA256SUMS.sig ] || fail "a signature of this verdict is gone"
sed -i 's/<= 0.9/<= 0.5/' bad.yaml
run 0 bad
says err "signature was of the old verdict and is removed: sign it again"
[ ! -e bad/SHA256SUMS.sig ] || fail "the signature of another verdict stays"
says bad/README.md '0\.5'
[ ! -e bad/report.html ] || fail "a report of nothing"
(cd bad && sha256sum -c SHA256SUMS > ../out 2>&1) || true
[ "$(grep -c FAILED out)" = 1 ] || fail "digests: $(cat out)"
says out "report.html: FAILED open"
rm -r bad && cp -r again bad && sed -i 's/<= 0.5/<= 0.9/' bad.yaml

mv bad/run.json kept
run 4 bad
says err "run.json: .*the verdict needs it; move the output away, and the same command makes it anew"
mv kept bad/run.json

# --- fallbacks, in turn
recipe back 'kl: "<= 0.002"' 'fallback:' '  - {passes.0.rtn.bits: 4}' '  - {passes.0.rtn.bits: 8}' \
    '  - {passes.0.rtn.bits: 8, passes.0.rtn.group: 32}'
run 0 back
says err "REGRESSION: kl <= 0.002 is not kept: .*; fallback 1 of 3: passes.0.rtn.bits=4"
says err "fallback 2 of 3: passes.0.rtn.bits=8"
says out "fallback          2 of 3: passes.0.rtn.bits=8"
says back/manifest.json 'bits: 8'
says back/run.json '"passes.0.rtn.bits=8"'
says back/README.md 'fallback: passes.0.rtn.bits=8'
says back/report.html 'fallback: passes.0.rtn.bits=8'
cp back/packed-00001-of-00001.safetensors whole
run 0 back
says out "already complete"
says out "fallback          2 of 3"
run 0 back --restart
cmp back/packed-00001-of-00001.safetensors whole || fail "other bytes the second time"

# Killed at any moment, the same command goes on to the same bytes, and does nothing twice.
for after in 0.05 0.1 0.15 0.2 0.3 0.4; do
    rm -rf back back.partial
    "$pare" compress back.yaml > /dev/null 2>&1 &
    sleep $after
    kill -9 $! 2> /dev/null || true
    wait $! 2> /dev/null || true
    run 0 back
    cmp back/packed-00001-of-00001.safetensors whole || fail "other bytes after a kill"
done

# A plan says what each comes to.
recipe sizes 'bytes: "<= 3500KiB"' 'fallback: [{passes.0.rtn.bits: 8}, {passes.0.rtn.bits: 2}]'
"$pare" plan sizes.yaml > out
says out "passes.0.rtn.bits=8: .*, 8.250 bits per weight   INFEASIBLE"
says out "passes.0.rtn.bits=2: .*, 2.250 bits per weight$"
"$pare" plan sizes.yaml --format json > out
planned=$(sed -n '/"fallback_plans"/,$s/^ *"packed_bytes": \([0-9]*\),/\1/p' out | tail -n 1)
"$pare" compress sizes.yaml > out 2> err
written=$(cat sizes/*.safetensors sizes/*.index.json 2> err | wc -c)
[ "$planned" = "$written" ] || fail "planned $planned bytes of the fallback, wrote $written"

# One that has no plan is refused before work, by a plan, too, with the same exit code.
for set in calibration.samples=10000:2 limits.ram=1MiB:5; do
    {
        printf 'pare: 1\nmodel: %s/hedge\noutput: broken\npasses: [gptq: {bits: 3, group: 64}]\n' "$demo"
        printf 'calibration: {text: [%s/calibration.txt], samples: 2, window: 16}\n' "$demo"
        printf 'evaluate: [kl: {text: text, window: 128, limit: 2}]\nrequire: {kl: "<= 0.000001"}\n'
        key=${set%%=*} value=${set#*=}
        printf 'fallback: [{passes.0.gptq.bits: 4}, {%s: %s}]\n' "$key" "${value%:*}"
    } > broken.yaml
    run "${set##*:}" broken
    says err "broken.yaml:8:[0-9]*: fallback 2 of 2: "
    [ ! -e broken ] && [ ! -e broken.partial ] || fail "$set: work before a fallback that cannot be"
    code=0
    "$pare" plan broken.yaml > out 2>&1 || code=$?
    [ $code = "${set##*:}" ] || fail "plan of $set: exit $code: $(cat out)"
    says out "fallback 2 of 2: "
done

# Those that are too large are left out: the last that can be stays.
recipe fits 'kl: "<= 0.000001", bytes: "<= 4500KiB"' \
    'fallback: [{passes.0.rtn.bits: 8}, {passes.0.rtn.bits: 4}, {passes.0.rtn.bits: 8, passes.0.rtn.group: 32}]'
run 6 fits
says err "fallback 1 of 3 is left out: INFEASIBLE: its files take 6"
says err "fallback 2 of 3: passes.0.rtn.bits=4"
says err "fallback 3 of 3 is left out"
says out "fallback          2 of 3: passes.0.rtn.bits=4"
says fits/README.md "Verdict: REGRESSION"
says fits/manifest.json 'bits: 4'

# No fallback is good enough: the last one stays, with its verdict.
recipe none 'kl: "<= 0.000001"' 'fallback: [{passes.0.rtn.bits: 4}]'
run 6 none
says none/README.md "Verdict: REGRESSION"
says none/manifest.json 'bits: 4'

# An output of another job is not replaced, whatever the fallbacks.
recipe none 'bytes: "<= 5MiB", kl: "<= 1"' 'passes: [hqq: {bits: 8}]' \
    'fallback: [{passes.0.hqq.bits: 4, passes.0.hqq.group: 128}]'
sed -i '/^passes: .rtn/d' none.yaml
run 2 none
says err "belongs to another job"
says none/README.md "Verdict: REGRESSION"

# A fallback cannot lead to another output, which would be replaced.
recipe away 'kl: "<= 0.000001"' 'fallback: [{output: good, passes.0.rtn.bits: 4}]'
run 2 away
says err '"output" stays as it is'

# Figures that went away keep to nothing.
recipe lost 'kl: "<= 0.5"'
run 0 lost
sed -i 's/"evaluations"/"evaluation"/' lost/run.json
run 6 lost
says out "ANOMALOUS: there is no figure of kl"

# --- too large whatever the weights are
recipe huge 'bytes: "<= 1MiB"'
run 6 huge
says out "verdict           INFEASIBLE: bytes <= 1MiB is not kept"
[ ! -e huge ] && [ ! -e huge.partial ] || fail "something was written"
# planned CODE COMMAND...: a plan ends with the exit code of the job
planned() {
    wanted=$1 code=0
    shift
    "$pare" "$@" > out 2> err || code=$?
    [ "$code" = "$wanted" ] || fail "$*: exit code $code, not $wanted"
}
planned 6 plan huge.yaml
says out "INFEASIBLE"
planned 6 compress huge.yaml --dry-run
planned 6 plan huge.yaml --format json
says out '"feasible": false'
[ "$(tail -n 1 out)" = "}" ] || fail "no whole object"
planned 6 plan huge.yaml --set 'fallback=[{passes.0.rtn.bits: 4}, {passes.0.rtn.bits: 2}]'
planned 0 plan huge.yaml --set 'fallback=[{passes.0.rtn.bits: 4}, {passes.0.rtn.bits: 2}]' --set 'require={bytes: <= 3500KiB}'
planned 0 plan huge.yaml --set 'require={bytes: <= 9MiB}'

# What lies in the way counts where something would be written, and only there.
recipe way 'bytes: "<= 9MiB"' 'export: [{format: "gguf:q8_0", path: way.gguf}]'
run 0 way
rm -r way
planned 2 plan way.yaml
says out "compress would refuse: .*way.gguf: exists"
for set in seed=0 'fallback=[{passes.0.rtn.bits: 8}]'; do
    planned 6 plan way.yaml --set 'require={bytes: <= 1MiB}' --set "$set"
    if grep "would refuse" out err; then fail "a plan of nothing names what lies there"; fi
    planned 6 compress way.yaml --set 'require={bytes: <= 1MiB}' --set "$set"
done
for command in plan compress; do
    planned 2 $command way.yaml --set passes.0.rtn.bits=8 --set 'require={bytes: <= 4000KiB}' \
        --set 'fallback=[{passes.0.rtn.bits: 3}]'
    says err "way.gguf: exists"
done

# The time is of the fallback that runs, if it is certain that the recipe itself does not.
recipe slow 'bytes: "<= 4500KiB"' 'fallback: [{passes.0.gptq.bits: 8, seed: 1}, {passes.0.gptq.bits: 3, calibration.samples: 2}]' \
    "calibration: {text: $demo/calibration.txt, samples: 96, window: 128}"
sed -i 's/rtn: {bits: 3/gptq: {bits: 8/' slow.yaml
# calibrating OPTION...: milliseconds of that phase in a plan
calibrating() {
    planned 0 plan slow.yaml --format json "$@"
    sed -n '/"phases"/,/]/p' out | grep -A 1 '"calibration"' | awk '/"seconds"/ { print int(1000 * ($2 + 0)) }'
}
falls=$(calibrating) whole=$(calibrating --set passes.0.gptq.bits=4)
[ "$falls" -lt $((whole / 4)) ] || fail "the time of what does not run: $falls of $whole ms"
planned 0 plan slow.yaml
says out "^  *fallback 2 takes this time: it runs in place of the recipe$"
[ "$(awk '/^time/ { on = 1 } on && length > 100' out)" = "" ] || fail "a wide line: $(cat out)"
planned 0 plan slow.yaml --set passes.0.gptq.bits=4
if grep -q "in place of the recipe" out; then fail "$(cat out)"; fi
# firsts OPTION...: which of the fallbacks run in place of the recipe, by the JSON of a plan
firsts() {
    planned 0 plan slow.yaml --format json "$@"
    sed -n 's/^ *"first": \([a-z]*\),*$/\1/p' out | tr '\n' ' '
}
[ "$(firsts)" = "false true " ] || fail "first of an INFEASIBLE recipe: $(firsts)"
[ "$(firsts --set passes.0.gptq.bits=4)" = "false false " ] || fail "first of a recipe that runs"

# --- too good to be true: trained on the text that it is evaluated on
head -c 2500 text > few
recipe odd 'kl: "<= 9"' 'calibration: {text: few, samples: 4, window: 128, precision: f32}' \
    'passes:' '  - magnitude: {sparsity: 0.1}' \
    '  - distill: {kl: 0, ce: 1, tokens: 4096, batch: 2, rate: 2e-3}'
sed -i '/^passes: .rtn/d; s/kl: {text: text/kl: {text: few/' odd.yaml
run 6 odd
says out "verdict           ANOMALOUS: perplexity .* is lower than the .* of the original"
says odd/report.html "Verdict: ANOMALOUS"
says odd/run.json '"anomaly": "perplexity'
