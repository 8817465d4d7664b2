#!/bin/sh
# The same packed files and the same manifest, whatever the level of the CPU, the kernel of OpenBLAS
# and the number of threads.
#   bytes.sh PARE MAKE_FAMILY
set -eu
pare=$1 make=$2
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

"$make" llama model > log.txt
"$pare" generate model --tokens 60 --count 16 --seed 1 --output tokens.i32 > log.txt 2>&1 || { cat log.txt; exit 1; }

# sums NAME: of what one recipe makes.
sums() {
    rm -rf out
    "$pare" compress "$1.yaml" --threads "$threads" > log.txt 2>&1 || { cat log.txt; echo "e2e.bytes: $1 failed"; exit 1; }
    (cd out && sha256sum packed-*.safetensors manifest.json)
}

# same NAME HOW: as the first time.
same() {
    sums "$1" > now.txt
    cmp -s "$1.txt" now.txt || { echo "e2e.bytes: $1 has other bytes with $2"; diff "$1.txt" now.txt; exit 1; }
}

# recipe NAME PASSES [MORE CALIBRATION]
recipe() {
    printf 'pare: 1\nmodel: model\noutput: out\ncalibration: {tokens: tokens.i32, samples: 24, window: 32%s}\npasses:\n%s\n' "${3:-}" "$2" > "$1.yaml"
}
recipe gptq '  - gptq: {bits: 4, group: 32}'
recipe f32 '  - gptq: {bits: 4, group: 32}' ', precision: f32'
recipe awq '  - awq: {}
  - rtn: {bits: 4, group: 32}'
recipe smooth '  - smoothquant: {}
  - gptq: {bits: 8, group: 32}'
recipe sparse '  - sparsegpt: {pattern: "2:4"}'
recipe learned '  - omniquant: {epochs: 2}
  - rtn: {bits: 4, group: 32}'
recipe signs '  - signround: {steps: 4}
  - rtn: {bits: 4, group: 32}'
recipe tuned '  - wanda: {pattern: "2:4"}
  - ebft: {epochs: 2}'

levels=$("$pare" doctor | sed -n 's/^kernels .*(of \(.*\); PARE_CPU.*/\1/p' | tr -d ,)
[ -n "$levels" ] || { echo "e2e.bytes: doctor names no levels"; exit 1; }
for name in gptq f32 awq smooth sparse learned signs tuned; do
    threads=1
    sums "$name" > "$name.txt"
    [ "$(wc -l < "$name.txt")" -ge 2 ] || { echo "e2e.bytes: $name wrote no packed file"; exit 1; }
    for level in $levels; do
        export PARE_CPU="$level"
        same "$name" "PARE_CPU=$level"
    done
    unset PARE_CPU
    for core in Haswell Nehalem; do
        export OPENBLAS_CORETYPE="$core"
        same "$name" "OPENBLAS_CORETYPE=$core"
    done
    unset OPENBLAS_CORETYPE
    threads=3
    same "$name" "3 threads"
done
# What jobs share has a key without the level: its files are the same, too.
head -c 600 tokens.i32 > few.i32
{
    cat gptq.yaml
    echo 'evaluate: [kl: {tokens: few.i32, window: 32}]'
} > shared.yaml
for level in $levels; do
    rm -rf out
    PARE_CPU="$level" "$pare" compress shared.yaml --share "at-$level" > log.txt 2>&1 || { cat log.txt; exit 1; }
    (cd "at-$level" && sha256sum evaluation-* token_weights-*) > now.txt
    [ -f kept.txt ] || cp now.txt kept.txt
    cmp -s kept.txt now.txt || { echo "e2e.bytes: shared files are others with PARE_CPU=$level"; exit 1; }
done
# What is compared depends on what is computed.
for name in smooth f32; do
    ! cmp -s gptq.txt "$name.txt" || { echo "e2e.bytes: gptq and $name gave the same sums"; exit 1; }
done
