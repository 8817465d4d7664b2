#!/bin/sh
# A model that learns a text of another kind, all of it and by adapters, on the same tokens:
# adapters.sh PARE MODEL TRAIN_TEXT OTHER_TEXT [TOKENS] prints rows of adapters.csv. Perplexity on 64 windows of
# TRAIN_TEXT that are held out, and on OTHER_TEXT, which is of the kind that the model knows. Memory and disk
# are those of the plan, with one thread.
set -eu
pare=$(realpath "$1") model=$(realpath "$2") text=$(realpath "$3") other=$(realpath "$4") tokens=${5:-65536}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
commit=$(git -C "$(dirname "$0")" rev-parse --short=8 HEAD)
date=$(date +%F)
cd "$work"
cat >recipe.yaml <<END
pare: 1
model: $model
output: adapted
data: {text: ["$text"], window: 128, held_out: 64}
train: {tokens: $tokens, batch: 16, rate: 3e-3}
END
number() { sed -n "s/^ *\"$2\": *\([-0-9.e+]*\),*\$/\1/p" "$1" | head -n 1; }

# row NAME SETTING...
row() {
    name=$1
    shift
    "$pare" train recipe.yaml --dry-run --threads 1 --format json "$@" >plan.json 2>/dev/null
    "$pare" train recipe.yaml --restart --format json "$@" >train.json 2>/dev/null
    "$pare" eval adapted --text "$other" --window 128 --limit 128 --format json >eval.json 2>/dev/null
    trained=$(number train.json trained_weights)
    printf '%s,%s,%s,%s,%.0f,%.1f,%.2f,%.2f\n' "$date" "$commit" "$name" \
        "${trained:-$(number train.json weights)}" \
        "$(awk -v b="$(number plan.json memory_bytes)" 'BEGIN { print b / 1048576 }')" \
        "$(awk -v b="$(number plan.json disk_bytes)" 'BEGIN { print b / 1048576 }')" \
        "$(number train.json perplexity_after)" "$(number eval.json ppl)"
}

echo "date,commit,what,trained weights,memory MiB,disk MiB,perplexity of the text,of the other"
row none --set train.tokens=2048 --set train.rate=1e-8
row "all weights" --set train.rate=1e-3
for rank in 4 16 64; do
    row "rank $rank" --set "lora.rank=$rank" --set "lora.alpha=$((2 * rank))"
done
row "rank 16 of q and v" --set lora.rank=16 --set "lora.targets=[q_proj, v_proj]"
