#!/bin/sh
# Artifacts with trellis codes, from the recipe to what commands make of them: exl3.sh PARE DEMO
set -eu
pare=$(realpath "$1") demo=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "exl3.sh: $*" >&2
    exit 1
}

# does ARGUMENT...: pare ends well, and out.log has what it said.
does() { "$pare" "$@" >out.log 2>&1 || fail "$*: $(cat out.log)"; }
# refuses CODE TEXT ARGUMENT...
refuses() {
    want=$1 text=$2 code=0
    shift 2
    "$pare" "$@" >out.log 2>&1 || code=$?
    [ "$code" = "$want" ] || fail "$*: exit $code, not $want: $(cat out.log)"
    grep -q -- "$text" out.log || fail "$*: no \"$text\": $(cat out.log)"
}
shows() { grep -q -- "$1" out.log || fail "no \"$1\" in: $(cat out.log)"; }

cat >job.yaml <<Y
pare: 1
model: $demo/hedge
output: out
calibration: {text: $demo/calibration.txt, samples: 8, window: 64}
passes:
  - exl3: {bits: 3, targets: "*.layers.0.self_attn.k_proj"}
  - fp8: {skip: "*.layers.0.self_attn.k_proj"}
Y
does plan job.yaml
does compress job.yaml --threads 2
does inspect out
shows '^model.layers.0.self_attn.k_proj  *exl3 3 bits, x f32  '
does verify out
does eval out --text "$demo/evaluation.txt" --window 64 --limit 2 --baseline "$demo/hedge"
does generate out --prompt "The" --tokens 4

# The same bytes by other kernels and for any number of threads; another seed is another artifact.
if PARE_CPU=avx2 "$pare" compress job.yaml --output avx2 --threads 1 >out.log 2>&1; then
    cmp out/packed-00001-of-00001.safetensors avx2/packed-00001-of-00001.safetensors ||
        fail 'avx2: other bytes'
else
    shows 'PARE_CPU' # this processor does not have it
fi
does compress job.yaml --output other --set 'passes.0.exl3.seed=1'
does diff out other
shows '^the models differ$'
shows 'layers.0.self_attn.k_proj  .* exl3 3 bits, x f32'
does diff out out
shows '^the models are the same$'

# A byte of the codes that is another makes other weights, which the checksum tells.
cp -r out changed
printf '\377' | dd of=changed/packed-00001-of-00001.safetensors bs=1 seek=5000000 conv=notrunc 2>dd.log
refuses 4 'packed-00001-of-00001.safetensors: ' verify changed

# What cannot be.
refuses 2 'embeddings: exl3 mixes rows, and embeddings are looked up row by row; take rtn, hqq or nf4' \
    plan job.yaml --set 'embeddings={exl3: {bits: 4}}'
sed -i '/^calibration/d' job.yaml
refuses 2 'exl3 needs calibration data' plan job.yaml
