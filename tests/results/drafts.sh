#!/bin/sh
# Students of half the depth of hedge as its drafts, the cut alone and after training by different
# losses on the same tokens: drafts.sh PARE MODEL TRAIN_TEXT TEST_TEXT [TOKENS] prints rows of
# drafts.csv.
set -eu
pare=$1 model=$(realpath "$2") text=$(realpath "$3") test=$(realpath "$4") tokens=${5:-131072}
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

# row NAME DRAFT TEMPERATURE
row() {
    "$pare" eval "$model" --text "$test" --window 128 --limit 128 --draft "$2" --temperature "$3" --format json \
        >"$work/eval.json" 2>/dev/null
    printf '%s,%s,%s' "$date" "$commit" "$1,$3"
    for key in acceptance overlap tokens_per_pass; do
        value=$(sed -n '/"draft": {/,/}/p' "$work/eval.json" | sed -n "s/^ *\"$key\": *\([-0-9.e+]*\),*\$/\1/p")
        printf ',%.3f' "$value"
    done
    echo
}

# student NAME SETTING...: trains one, two rows
student() {
    name=$1
    shift
    "$pare" train "$work/student.yaml" --restart "$@" >/dev/null 2>&1
    row "$name" "$work/student" 1
    row "$name" "$work/student" 0
}

echo "date,commit,draft,temperature,acceptance,sum min,tokens per pass"
student "the cut" --set train.tokens=2048 --set train.rate=1e-8
student "kl" --set train.kl=1 --set train.ce=0
student "total_variation" --set train.total_variation=1 --set train.ce=0
student "kl with lambda" --set train.kl=1 --set train.ce=0 --set train.lambda=0.5
