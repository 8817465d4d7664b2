#!/bin/sh
# Students of half the depth of hedge, trained on the same tokens by different losses, and the cut
# alone: students.sh PARE MODEL TRAIN_TEXT TEST_TEXT [TOKENS] prints rows of students.csv.
set -eu
pare=$1 model=$2 text=$3 test=$4 tokens=${5:-524288}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
commit=$(git -C "$(dirname "$0")" rev-parse --short=8 HEAD)
date=$(date +%F)
cat >"$work/student.yaml" <<END
pare: 1
model: $model
blocks: 3
output: $work/student
data: {text: ["$text"], window: 128}
train: {tokens: $tokens, batch: 16, rate: 1e-3, weight_decay: 0.01}
END
number() { sed -n "s/^ *\"$1\": *\([-0-9.e+]*\),*\$/\1/p" | head -n 1; }

# row LOSS SETTINGS...
row() {
    loss=$1
    shift
    "$pare" train "$work/student.yaml" --restart --format json "$@" >"$work/train.json" 2>/dev/null
    "$pare" eval "$work/student" --baseline "$model" --text "$test" --window 128 --limit 128 --format json \
        >"$work/eval.json" 2>/dev/null
    printf '%s,%s,%.2f,%.3f\n' "$date,$commit,$loss" "$(number tokens <"$work/train.json")" \
        "$(number ppl <"$work/eval.json")" "$(number mean <"$work/eval.json")"
}

echo "date,commit,loss,tokens,perplexity,KL"
row none --set train.tokens=2048 --set train.rate=1e-8
row ce
row kl --set train.kl=1 --set train.ce=0
row reverse_kl --set train.reverse_kl=1 --set train.ce=0
row jsd --set train.jsd=1 --set train.ce=0
row kl+ce --set train.kl=1 --set train.ce=1
row kl+hidden --set train.kl=1 --set train.ce=0 --set train.hidden=1
row kl+attention --set train.kl=1 --set train.ce=0 --set train.attention=1
row kl+relations --set train.kl=1 --set train.ce=0 --set train.relations=1
row kl+sinkhorn --set train.kl=1 --set train.ce=0 --set train.sinkhorn=1
