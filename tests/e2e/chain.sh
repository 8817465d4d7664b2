#!/bin/sh
# Structured passes in front of others in one recipe, and results beside another original: chain.sh PARE DEMO
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

. "$here/train_checks.sh"
. "$here/blocks.sh"

does() { "$pare" "$@" >out.log 2>&1 || fail "$* $(cat out.log)"; }

# stages FILE: the passes of run.json, one in a line, each with its KL
stages() { sed -n '/"stages"/,/\]/s/^ *"\(passes\|kl\)": *"\{0,1\}\([^",]*\).*/\2/p' "$1"; }

cat >chain.yaml <<END
pare: 1
model: hedge
output: out
calibration: {text: [$demo/calibration.txt], samples: 16, window: 64}
passes:
  - channels: {ratio: 0.25}
  - distill: {tokens: 4096, batch: 4, rate: 2e-4, windows: 48}
  - rtn: {bits: 4, group: 32}
kv_cache: {method: int8}
END
sed 's/^output.*/output: small/; /distill/d; /rtn/d; /kv_cache/d' chain.yaml >first.yaml
sed "s,^model.*,model: small,; s,^output.*,original: hedge\noutput: second,; /channels/d" chain.yaml >second.yaml

# The plan of both jobs, before there is a smaller model.
does plan chain.yaml
grep -q 'so that this is the most that it can take' out.log || fail "$(cat out.log)"
[ "$(grep -c 'are left out' out.log)" -le 3 ] || fail "the checks of both jobs warn, too: $(cat out.log)"
does plan chain.yaml --format json
grep -q '"smaller": {' out.log || fail "$(cat out.log)"

# Such a plan says the most, and no less than it comes to: slicegpt gives a tied head weights of its own.
sed 's/^output.*/output: sliced/; /distill/d; s/channels.*/slicegpt: {ratio: 0.05}/; s/bits: 4/bits: 8/' chain.yaml >sliced.yaml
printf 'export: [{format: "gguf:q8_0", path: sliced.gguf}]\n' >>sliced.yaml
does plan sliced.yaml
grep -q '^packed  *at most .* exact once the smaller checkpoint is there' out.log || fail "$(cat out.log)"
most=$(sed -n 's/^packed  *at most \([0-9]*\) bytes.*/\1/p' out.log)
grep -q '^export .*, about [0-9]* bytes ([^)]*)$' out.log || fail "$(cat out.log)"
does plan sliced.yaml --format json
[ "$(grep -c '"packed_bytes_exact": false' out.log)" = 1 ] || fail "$(cat out.log)"
[ "$(grep -c '"bytes_exact": false' out.log)" = 1 ] || fail "$(cat out.log)"
# It does not say that files are too large which may be smaller.
{ cat sliced.yaml && printf 'require: {bytes: "<= %s"}\nfallback: [{passes.1.rtn.group: 64}]\n' $((most - most / 8)); } >bound.yaml
does plan bound.yaml
grep -q '^requires  *bytes .* may be INFEASIBLE: known once the smaller checkpoint is there$' out.log || fail "$(cat out.log)"
grep -q '^ *passes.1.rtn.group=64: at most .*, about 8.2' out.log || fail "$(cat out.log)"
does plan bound.yaml --format json
if grep -q '"feasible": false' out.log; then fail "infeasible: $(cat out.log)"; fi
printf 'pare: 1\nrecipe: bound.yaml\ninclude: [{name: one}]\noutput: bounds\n' >bounds.yaml
does batch bounds.yaml --dry-run
grep -q '^one .*; may be INFEASIBLE, known once the smaller checkpoint is there$' out.log || fail "$(cat out.log)"
does batch bounds.yaml --dry-run --format json
grep -q '"packed_bytes_exact": false' out.log || fail "$(cat out.log)"
does compress sliced.yaml
does plan sliced.yaml --restart
is=$(sed -n 's/^packed  *\([0-9]*\) bytes.* exact: .*/\1/p' out.log)
[ "$is" -le "$most" ] || fail "planned $most bytes at most, and $is came of it"
grep -q "^export .*, $(wc -c <sliced.gguf) bytes .*, exact$" out.log || fail "$(cat out.log)"

# What the smaller model cannot have is refused by the plan: 248 of 256 directions stay.
if "$pare" plan sliced.yaml --set 'passes=[slicegpt: {ratio: 0.05}, exl3: {bits: 3}]' --output no >out.log 2>&1; then
    fail 'tiles that do not divide the smaller model are planned'
fi
grep -q 'exl3: model.layers.0.self_attn.q_proj, as slicegpt leaves it: .*, or take ratio: 0.0625 in slicegpt' out.log ||
    fail "$(cat out.log)"

# One recipe does what two do, and any number of threads.
does compress chain.yaml --threads 1
grep -q '^held out  *KL 0\.[0-9]*, perplexity [0-9.]*   (behind: channels)$' out.log || fail "$(cat out.log)"
does compress first.yaml --threads 5
does compress second.yaml --threads 5
cmp out.smaller/model.safetensors small/model.safetensors || fail 'another smaller model'
cmp out/packed-00001-of-00001.safetensors second/packed-00001-of-00001.safetensors || fail 'another artifact'
does verify out
grep -q '"original/model.safetensors"' out/manifest.json || fail 'the manifest does not name the original'

# What each part cost: training wins back, the cache takes.
stages out/run.json >found
[ "$(sed -n 'p;n' found | tr '\n' ';')" = \
    'none: the original;channels;the same with kv_cache;distill;rtn with kv_cache;' ] || fail "$(cat found)"
cut=$(sed -n 4p found) taught=$(sed -n 8p found) last=$(sed -n 10p found)
below 0.001 "$cut" 'KL behind channels'
below "$taught" "$cut" 'KL behind distill'
below "$taught" "$last" 'KL behind rtn'
grep -q '| channels | ' out/README.md || fail 'README.md does not say what each part cost'

# Twice: nothing is done again. Other settings behind: the smaller model stays.
does compress chain.yaml
grep -q 'out.smaller is already complete' out.log || fail "$(cat out.log)"
mv out was
short='--set passes.1.distill.tokens=512' # another training, too, leaves the smaller model
does compress chain.yaml $short --set passes.2.rtn.bits=8
grep -q 'out.smaller is already complete' out.log || fail "$(cat out.log)"
inode=$(ls -i out.smaller/model.safetensors)
does compress chain.yaml $short --set passes.2.rtn.bits=3 --restart
[ "$inode" = "$(ls -i out.smaller/model.safetensors)" ] || fail '--restart cut the model again'
rm -r out
mv was out
says 'names that end in .smaller are for folders beside outputs' "$pare" compress first.yaml --output x.smaller

# Killed anywhere: the same bytes.
runs=0
while [ ! -d killed ]; do
    runs=$((runs + 1))
    [ "$runs" -lt 200 ] || fail 'the job does not end'
    delay=$(awk -v n="$runs" 'BEGIN { srand(n); printf "%.2f", .1 + .1 * rand() + .05 * n * 1.1 ^ n }')
    timeout --foreground -s KILL "$delay" "$pare" compress chain.yaml --output killed --set passes.1.distill.save=0 \
        >out.log 2>&1 || :
done
does compress chain.yaml --output killed --set passes.1.distill.save=0
cmp out/packed-00001-of-00001.safetensors killed/packed-00001-of-00001.safetensors || fail 'other bytes after kills'
# Stopped behind the last step: the training stays.
: >out.log # that of the last job may have the line
"$pare" compress chain.yaml --output stopped --threads 1 >out.log 2>&1 &
until grep -q 'step 16 of 16' out.log; do
    kill -0 $! 2>/dev/null || grep -q 'step 16 of 16' out.log || fail "no step 16: $(cat out.log)"
    sleep 0.01
done
kill -INT $! 2>/dev/null || :
wait $! || :
if [ ! -d stopped ]; then
    does compress chain.yaml --output stopped
    ! grep -q 'step 1 of 16' out.log || fail 'the training began anew'
fi
cmp out/packed-00001-of-00001.safetensors stopped/packed-00001-of-00001.safetensors || fail 'other bytes after a stop'
[ ! -e killed.partial ] && [ ! -e killed.smaller.partial ] || fail 'something is left beside the output'

# The cache alone, without training.
does compress chain.yaml --output cache --set 'passes=[{rtn: {bits: 4, group: 32}}]' --set evaluate=held_out
stages cache/run.json >found
[ "$(sed -n 'p;n' found | tr '\n' ';')" = \
    'none: the original;kv_cache alone (weights in floats);rtn with kv_cache;' ] || fail "$(cat found)"
below "$(sed -n 4p found)" "$(sed -n 6p found)" 'KL of the cache alone'

# What cannot be.
says 'the model would learn only from itself' "$pare" compress chain.yaml --output x \
    --set 'passes=[{distill: {}}, {rtn: {}}]'
cat >gate.yaml <<END
pare: 1
model: hedge
output: gate
calibration: {text: [$demo/calibration.txt], samples: 16, window: 64}
passes:
  - channels: {ratio: 0.25}
  - rtn: {bits: 4, group: 32}
evaluate: held_out
require: {kl: "<= 0.5"}
fallback:
  - {passes.0.channels.ratio: 0.1}
END
says 'gate.yaml:11:31: a fallback changes what comes behind the smaller model' "$pare" compress gate.yaml
# A fallback that no smaller model makes possible is told before the first job.
says 'fallback 1 of 1: a job on the smallest model needs ' \
    "$pare" compress gate.yaml --output roomless --set 'fallback=[{limits.ram: 1MiB}]'
[ ! -e roomless.smaller ] || fail 'the first of two jobs ran for nothing'
does compress gate.yaml --set 'fallback=[{passes.1.rtn.bits: 8}]'
says './none: there is no such model' "$pare" compress second.yaml --output x --set original=none
mkdir fresh
does train scratch.yaml --set train.tokens=512 --output fresh/model
says 'has a vocabulary of 400 tokens and the model one of' "$pare" compress second.yaml --output x \
    --set original=fresh/model
sed 's/"max_position_embeddings": *[0-9]*/"max_position_embeddings": 32/' "hedge/config.json" >config.json
mkdir short
cp "hedge/"* short
mv config.json short
says 'windows have 64 tokens, and "original" a context of 32' "$pare" compress second.yaml --output x \
    --set original=short
[ ! -e x ] && [ ! -e x.partial ] || fail 'a refused job left files'
