#!/bin/sh
# The embeddings and the head in few bits: tables.sh PARE DEMO
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

. "$here/train_checks.sh"

does() { "$pare" "$@" >out.log 2>&1 || fail "$* $(cat out.log)"; }
refuses() { why=$1; shift; "$pare" "$@" >out.log 2>&1 && fail "$* was not refused"; grep -q "$why" out.log || fail "$(cat out.log)"; }
kl() { sed -n 's/.*KL \([0-9.]*\),.*/\1/p' out.log | head -n 1; }

cat >job.yaml <<END
pare: 1
model: $demo/hedge
output: out
calibration: {text: [$demo/calibration.txt], samples: 16, window: 256}
passes: [rtn: {bits: 8, group: 64}]
head: {gptq: {bits: 3, group: 32}}
evaluate:
  - kl: {text: $demo/evaluation.txt, window: 256, limit: 8}
END

# A head that is quantized by what it reads does better than one that is rounded.
does compress job.yaml
swept=$(kl)
does verify out
does inspect out
grep -q 'model.embed_tokens *int3 g32 sym' out.log || fail "$(cat out.log)"
does compress job.yaml --set 'head={rtn: {bits: 3, group: 32}}' --output rounded
below "$(awk "BEGIN { print $swept / 0.8 }")" "$(kl)" 'KL of the swept head beside .8 of the rounded one'

# Too little calibration is told, and its form is the plain one.
does compress job.yaml --set calibration.samples=2 --set calibration.window=32 --output thin
grep -q 'warning: calibration: too little for model.embed_tokens: it got .*, where ' out.log || fail "$(cat out.log)"
plain=$(kl)
grep -q '"thin": 1' thin/run.json || fail 'run.json has no thin head'
below "$(awk "BEGIN { print $swept / 0.85 }")" "$plain" 'KL of the swept head beside .85 of the one without its Hessian'
status=0
"$pare" compress job.yaml --set calibration.samples=2 --set calibration.window=32 --output thin --restart --strict >out.log 2>&1 || status=$?
[ "$status" = 3 ] || fail "exit $status with --strict"

# GGUF keeps the codes; other formats have floats; a matrix more or less of the same table is a budget's, too.
does compress job.yaml --set 'head={rtn: {bits: 8, group: 32}}' --output eight
does export eight --format gguf:q8_0 --output eight.gguf --strict
does inspect eight.gguf
grep -q 'model.embed_tokens.weight *Q8_0' out.log || fail "$(cat out.log)"
does export eight --format safetensors --output eight-floats
does inspect eight-floats
grep -q 'model.embed_tokens.weight *F16' out.log || fail "$(cat out.log)"
does eval eight --exact --text "$demo/evaluation.txt" --window 256 --limit 4
was=$(sed -n 's/^perplexity *\([0-9.]*\).*/\1/p' out.log)
does eval eight.gguf --exact --text "$demo/evaluation.txt" --window 256 --limit 4
[ "$was" = "$(sed -n 's/^perplexity *\([0-9.]*\).*/\1/p' out.log)" ] || fail "another perplexity than $was: $(cat out.log)"
if grep -q 'inputs in int8' out.log; then fail "--exact takes no inputs in int8: $(cat out.log)"; fi
does eval eight.gguf --text "$demo/evaluation.txt" --window 256 --limit 1
grep -q 'take their inputs in int8' out.log || fail "not told: $(cat out.log)"

# With a model that becomes smaller first, and where it cannot be.
does compress job.yaml --set 'passes=[channels: {ratio: 0.25}, rtn: {bits: 8}]' --output chain
does inspect chain
grep -q 'model.embed_tokens *int3 g32 sym' out.log || fail "$(cat out.log)"
refuses 'head: rotate rotates them' compress job.yaml --set 'passes=[rotate, rtn]' --output no
refuses 'tokens_s times the head as it is' compress job.yaml --set 'passes=[budget: {tokens_s: 10}]' --output no
refuses 'goes by what the finished blocks give, which is not kept' compress job.yaml --set calibration.keep=k.h5 --output no

# Exports of one recipe do not disturb each other; what is no quantizer of one matrix is refused.
does compress job.yaml --set 'head={rtn: {bits: 8, group: 32}}' --set 'export=[{format: "gguf:q8_0", path: both.gguf}, {format: safetensors, path: both}]' --output exports
refuses 'budget is no quantizer of one matrix' compress job.yaml --set 'head={budget: {bits: 4}}' --output no
refuses 'head: slicegpt changes their basis' compress job.yaml --set 'passes=[slicegpt: {ratio: 0.25}, rtn: {bits: 8}]' --output no
