#!/bin/sh
# pare eval --draft as users run it: draft.sh PARE DEMO
set -eu
. "$(dirname "$0")/begin.sh"

# figure KEY: of the draft
figure() { sed -n '/"draft": {/,/}/p' eval.json | sed -n "s/^ *\"$1\": *\([-0-9.e+]*\),*\$/\1/p"; }

# holds KEY TEST: awk finds the figure v to be so
holds() {
    v=$(figure "$1")
    awk -v v="$v" "BEGIN { exit !(v + 0 == v && ($2)) }" || fail "$1 is \"$v\", not $2: $(cat eval.json)"
}

# evaluate DRAFT OPTION...: on 4 windows of the demo text
evaluate() {
    draft=$1
    shift
    "$pare" eval "$demo/hedge" --text "$demo/evaluation.txt" --window 96 --limit 4 --draft "$draft" "$@" \
        --format json >eval.json 2>out.log || fail "$draft $*: $(cat out.log)"
    holds prompts "v == 4"
    holds tokens "v == 192"
    holds tpot_ms "v > 0"
    holds alone_tpot_ms "v > 0"
    holds draft_cost "v > 0"
    holds pass_cost "v > 0"
}

# refused CODE TEXT OPTION...: exit code and words
refused() {
    want=$1 words=$2 code=0
    shift 2
    "$pare" eval "$@" >out.log 2>&1 || code=$?
    [ $code = "$want" ] || fail "exit $code, not $want: $* $(cat out.log)"
    grep -qF -- "$words" out.log || fail "no \"$words\" in: $(cat out.log)"
}

cat >student.yaml <<END
pare: 1
model: "$demo/hedge"
blocks: 3
output: student
data: {text: ["$demo/calibration.txt"], window: 128, held_out: 8}
train: {kl: 1, ce: 0, tokens: 16384, batch: 8, rate: 5e-4}
END
"$pare" train student.yaml >out.log 2>&1 || fail "$(cat out.log)"
cat >two.yaml <<END
pare: 1
model: "$demo/hedge"
output: two
passes: [rtn: {bits: 2, group: 32}]
END
"$pare" compress two.yaml >out.log 2>&1 || fail "$(cat out.log)"

# Itself: every token is accepted, whatever the temperature.
for temperature in 0 1; do
    evaluate "$demo/hedge" --temperature $temperature --draft-tokens 3
    holds acceptance "v == 1"
    holds overlap "v > 1 - 1e-9 && v < 1 + 1e-9"
    holds passes "v == 48"
    holds tokens_per_pass "v == 4"
done

# Drafts that err. At temperature 0 eval itself fails when a token is not the one without the draft.
for draft in student two; do
    for options in "--temperature 0" "--temperature 0 --exact" "--temperature 0 --draft-tokens 1" "--temperature 1"; do
        # shellcheck disable=SC2086
        evaluate $draft $options
        holds acceptance "v > 0.1 && v < 1"
        holds passes "v >= 192 / 5 && v < 192"
    done
    # as likely as p and q say: 5 standard deviations of 200 tokens
    share=$(figure acceptance)
    holds overlap "v > $share - 0.17 && v < $share + 0.17"
done

# The same tokens, and so the same counts, for any number of threads; others by the seed.
counts() { echo "$(figure passes) $(figure acceptance) $(figure overlap)"; }
evaluate student --threads 1
one=$(counts)
evaluate student --threads 3
[ "$one" = "$(counts)" ] || fail "3 threads give other tokens: $one, $(counts)"
evaluate student --seed 7
[ "$one" != "$(counts)" ] || fail "the seed has no part in it"

"$pare" eval "$demo/hedge" --text "$demo/evaluation.txt" --limit 1 --draft student --temperature 0 >out.log 2>&1 ||
    fail "$(cat out.log)"
grep -q '^draft  *student$' out.log || fail "$(cat out.log)"
grep -q 'all 64 are those of greedy decoding' out.log || fail "$(cat out.log)"
grep -q 'both models and mapped files' out.log || fail "$(cat out.log)"

text="$demo/evaluation.txt"
refused 2 "--draft needs --text or --tokens" "$demo/hedge" --speed --draft student
refused 2 "--draft-tokens needs --draft" "$demo/hedge" --speed --draft-tokens 2
refused 2 "--temperature needs --draft" "$demo/hedge" --speed --temperature 0
refused 2 "whole number from 1 to 64" "$demo/hedge" --text "$text" --draft student --draft-tokens 65
refused 2 "leave --device out" "$demo/hedge" --text "$text" --draft student --device auto
refused 2 "give --kv none" "$demo/hedge" --text "$text" --draft student --kv int8
refused 4 "nothing" "$demo/hedge" --text "$text" --draft nothing
cat >config.json <<END
{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
 "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 300,
 "max_position_embeddings": 256, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
 "tie_word_embeddings": true, "hidden_act": "silu", "torch_dtype": "float32"}
END
cat >other.yaml <<END
pare: 1
config: config.json
vocabulary: 300
output: other
data: {text: ["$demo/calibration.txt"], window: 32}
train: {tokens: 1024, batch: 4}
END
"$pare" train other.yaml >out.log 2>&1 || fail "$(cat out.log)"
refused 2 "other: its vocabulary has 300 tokens" "$demo/hedge" --text "$text" --draft other
echo "draft.sh: good"
