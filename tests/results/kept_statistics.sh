#!/bin/sh
# What gptq loses when linears see the inputs of the original model, and not those behind the linears in front of
# them: kept_statistics.sh PARE MODEL CALIBRATION TEXT prints rows of kept_statistics.csv. KL to the model, by the
# packed kernels, over windows of 256 tokens of TEXT.
set -eu
pare=$(realpath "$1") model=$(realpath "$2") calibration=$(realpath "$3") text=$(realpath "$4")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
commit=$(git -C "$(dirname "$0")" rev-parse --short=8 HEAD)
date=$(date +%F)
cd "$work"

# kl SEED BITS CORRECT [KEEP]
kl() {
    cat >recipe.yaml <<END
pare: 1
model: $model
output: out
seed: $1
calibration: {text: [$calibration], samples: 128, window: 256${4:+, keep: $4}}
passes: [gptq: {bits: $2, group: 64, correct: $3}]
evaluate: [kl: {text: $text, window: 256}]
END
    "$pare" compress recipe.yaml --restart 2>/dev/null | sed -n 's/.*KL \([0-9.e+-]*\),.*/\1/p'
}

# row BITS NAME CORRECT [KEEP]
row() {
    for seed in 0 1 2; do
        kl $seed "$1" "$3" ${4:+$seed-$4}
    done | awk -v head="$date,$commit,$1,$2" '
        { row = row sprintf(",%.5f", $1); sum += $1 }
        END { printf "%s%s,%.5f\n", head, row, sum / NR }'
}

echo "date,commit,bits,statistics,KL of seed 0,of seed 1,of seed 2,mean"
for bits in 4 3; do
    row $bits "gathered; correct: gptaq" gptaq
    row $bits "gathered; correct: none" none
    row $bits kept none kept.h5
done
