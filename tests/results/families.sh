#!/bin/sh
# What weighing tokens by the loss is worth in each family: the default gptq, with it and with
# token_weights: even, on the small random models of tests/data/families.h, calibrated and tested on
# what each of them generates.  families.sh PARE MAKE_FAMILY > families.csv
set -eu
pare=$(realpath "$1") make=$(realpath "$2")
commit=$(git -C "$(dirname "$(realpath "$0")")" rev-parse --short HEAD)
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
day=$(date +%F)

echo date,commit,family,bits,group,seed,token_weights,kl
for family in llama qwen3 gemma2 phi gpt2 opt gpt_neox mixtral qwen2_moe qwen3_5_text qwen3_5_moe; do
    rm -rf model calibration.i32 test.i32
    "$make" $family model
    "$pare" generate model --tokens 60 --count 24 --seed 1 --output calibration.i32 > log.txt 2>&1
    "$pare" generate model --tokens 60 --count 48 --seed 77 --output test.i32 > log.txt 2>&1
    for bits in 4 3; do
        for seed in 0 1 2; do
            for weights in even loss; do
                cat > recipe.yaml <<EOF
pare: 1
model: model
output: out
seed: $seed
calibration: {tokens: calibration.i32, samples: 32, window: 32, token_weights: $weights, precision: f32}
passes:
  - gptq: {bits: $bits, group: 32}
EOF
                "$pare" compress recipe.yaml --restart > log.txt 2>&1 || { cat log.txt >&2; exit 1; }
                "$pare" eval out --tokens test.i32 --window 32 --baseline model --exact \
                    --format json > eval.json 2> log.txt
                kl=$(sed -n '/"kl/,$p' eval.json | sed -n 's/.*"mean": *\([-0-9.e+]*\).*/\1/p' | head -n 1)
                echo "$day,$commit,$family,$bits,32,$seed,$weights,$(printf %.6g "$kl")"
            done
        done
    done
done
