#!/bin/sh
# What pare eval asks beyond perplexity, as users ask it: numbers in long texts, continuations, answers
# that a model writes, answers by a field. answers.sh PARE DEMO
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "answers.sh: $*" >&2
    exit 1
}

# shows WORDS: the table of the last evaluation has them.
shows() { grep -qE -- "$1" out.log || fail "no \"$1\" in: $(cat out.log)"; }

# evaluate MODEL OPTION...: as text, and as JSON, whose figures are the same for 1 and 3 threads.
evaluate() {
    "$pare" eval "$@" >out.log 2>err.log || fail "$*: $(cat err.log)"
    for threads in 1 3; do
        "$pare" eval "$@" --threads $threads --format json 2>err.log | grep -v '_bytes"' >$threads.json ||
            fail "$*: $(cat err.log)"
    done
    cmp 1.json 3.json || fail "other figures with 3 threads: $*"
}

# A model with more positions than it was trained for, and the same in 3 bits.
. "$here/blocks.sh"
cp -r hedge long
sed 's/"max_position_embeddings": 256/"max_position_embeddings": 600/' hedge/config.json >long/config.json
printf 'pare: 1\nmodel: long\noutput: few\npasses: [rtn: {bits: 3, group: 64}]\n' >few.yaml
"$pare" compress few.yaml >out.log 2>&1 || fail "$(cat out.log)"

evaluate few --baseline long --needle "$demo/evaluation.txt" --lengths 256,512 --keys 1
shows '^needle  *[0-9.]+%.*10 prompts'
shows '^  tokens, depth  *0% *25% *50% *75% *100% *all$'
shows '^  512  *[0-9]+%'
[ "$(grep -c '^    baseline ' out.log)" = 2 ] || fail "$(cat out.log)"
[ "$(grep -c '"length": 512' 1.json)" = 10 ] || fail "$(cat 1.json)"

evaluate few --baseline long --text "$demo/evaluation.txt" --window 64 --limit 5 --continuations 9 --continue-tokens 40
shows '^continuations  *[0-9.]+ tokens, .*5 prompts of 32 tokens, at most 40 more, temperature 0'
shows '^  apart  *lengths by [0-9.]+ tokens'
evaluate long --baseline long --text "$demo/evaluation.txt" --window 64 --limit 3 --continuations 3 --temperature 1 --seed 5
shows '^  apart  *lengths by 0.0 tokens; 100.0% are the same, the others agree for - tokens'

cat >sums.jsonl <<'END'
{"question": "5 5 5 5 5 5 5 5 5 5 5 5 5 5", "answer": "so\n#### 5", "level": "b"}
{"question": "What is one and one?", "answer": "It is 2.\n#### 2", "level": "a"}
END
evaluate few --baseline long --tasks gsm8k=sums.jsonl --by level
shows '^gsm8k  *exact_match,strict-match [0-9.]+%.*, exact_match,flexible-extract [0-9.]+%'
[ "$(sed -n 's/^  \([ab]\)  *exact_match,strict-match.*1 document; baseline.*/\1/p' out.log | tr -d '\n')" = ab ] ||
    fail "groups: $(cat out.log)"
evaluate long --tasks gsm8k=sums.jsonl --shots 1 --shots-from gsm8k=sums.jsonl
shows '1 shot from sums.jsonl'

# A recipe asks the same, and finds the same; what it requires holds for the finished output, too.
cat >asks.yaml <<END
pare: 1
model: long
output: asked
passes: [rtn: {bits: 3, group: 64}]
evaluate:
  - needle: {text: "$demo/evaluation.txt", lengths: [256, 512], keys: 1, seed: 2}
  - continuations: {text: "$demo/evaluation.txt", window: 64, prompts: 5, continue_tokens: 40}
  - continuations: {text: "$demo/evaluation.txt", window: 64, prompts: 2, temperature: 0.9, seed: 3}
require: {needle: ">= 0.5"}
END
"$pare" plan asks.yaml >out.log 2>&1 || fail "$(cat out.log)"
shows '^requires  *needle >= 0.5'
for turn in new again; do
    code=0
    "$pare" compress asks.yaml --format json >run.json 2>err.log || code=$?
    [ $code = 6 ] || fail "$turn: exit $code: $(cat err.log)"
    grep -q '"verdict": "REGRESSION"' run.json || fail "$turn: $(cat run.json)"
done
# figures NAME FILE: the first object NAME of a file of JSON, without indentation and paths.
figures() { sed -n "/^ *\"$1\": {/,/^ *\"cells\": \[\|^ *}/p" "$2" | sed 's/^ *//; /"file"/d; s/,$//' | head -n 14; }
"$pare" eval asked --baseline long --needle "$demo/evaluation.txt" --lengths 256,512 --keys 1 --seed 2 --format json >eval.json 2>err.log
figures needle eval.json >a
figures needle asked/run.json >b
grep -q '^"n": 10$' a || fail "needle: $(cat a)"
cmp a b || fail "a recipe finds other numbers: $(diff a b)"
"$pare" eval asked --baseline long --text "$demo/evaluation.txt" --window 64 --continuations 5 --continue-tokens 40 \
    --format json >eval.json 2>err.log
figures continuations eval.json >a
figures continuations asked/run.json >b
grep -q '^"first_difference"' a || fail "continuations: $(cat a)"
[ "$(head -n 11 a)" = "$(head -n 11 b)" ] || fail "a recipe continues otherwise: $(diff a b)"
grep -q '<h3>needle</h3>' asked/report.html || fail "report.html has no needle"
grep -q '<td>4-grams repeated</td>' asked/report.html || fail "report.html has no continuations"
grep -q '^| numbers found in |' asked/README.md || fail "README.md has no needle"
grep -q '| the same as before | - | [0-9.]*% |' asked/README.md || fail "README.md does not compare continuations"
for wrong in 'evaluate.0.needle.lengths=[601]' 'evaluate.1.continuations.continue_tokens=569'; do
    code=0
    "$pare" plan asks.yaml --set "$wrong" >out.log 2>&1 || code=$?
    [ $code = 2 ] || fail "$wrong: exit $code"
    shows 'give (continue_tokens: )?(600|568) or less'
done

# A comparison has the figures that eval finds of each model beside the original.
"$pare" compare long asked few --needle "$demo/evaluation.txt" --lengths 256,512 --keys 1 --seed 2 --text "$demo/evaluation.txt" \
    --window 64 --limit 9 --continuations 5 --continue-tokens 40 --output both.csv --output both.json >out.log 2>err.log ||
    fail "$(cat err.log)"
shows '^model .* needle  tokens written  repeated  *same  *memory$'
shows '^needle: numbers found in 10 prompts of .*, 256 to 512 tokens$'
shows '^tokens written: behind 5 prompts of 32 tokens, at most 40, temperature 0'
# member NAME FILE MODEL: what an object NAME of a model has, without indentation.
member() { sed -n "/\"model\": \"$3\"/,/\"memory\"/p" "$2" | sed -n "/\"$1\": {/,/\"memory\"\|\"speed\"/p" | sed 's/^ *//'; }
"$pare" eval asked --baseline long --needle "$demo/evaluation.txt" --lengths 256,512 --keys 1 --seed 2 --text "$demo/evaluation.txt" \
    --window 64 --limit 9 --continuations 5 --continue-tokens 40 --format json >eval.json 2>err.log || fail "$(cat err.log)"
for figure in needle continuations; do
    member $figure eval.json asked >a
    member $figure both.json asked >b
    [ "$(wc -l <a)" -gt 10 ] || fail "$figure: $(cat eval.json)"
    cmp a b || fail "compare finds another $figure: $(diff a b)"
done
[ "$(member needle both.json few | grep -c '"length"')" = 10 ] || fail "cells of the last model: $(cat both.json)"
[ "$(sed -n 's/^asked,.*,\(10,[^,]*,[^,]*,[0-9]*,[0-9]*\),[^,]*,5,.*/\1/p' both.csv | wc -l)" = 1 ] || fail "$(cat both.csv)"
code=0
"$pare" compare long hedge --needle "$demo/evaluation.txt" --lengths 512 >out.log 2>&1 || code=$?
[ $code = 2 ] || fail "a model of a smaller context: exit $code"
shows 'the context of .*hedge is 256 tokens'

# An interrupt leaves what was done.
for turn in 1 2 3 4 5 6 7 8 9; do # one that is done when it comes does not count
    code=0
    : >log
    "$pare" eval long --needle "$demo/evaluation.txt" --lengths 512 --keys 200 --log json:log >out.log 2>err.log &
    until grep -q '"event": "progress".*hidden.*"share": 0\.0*[1-9]' log || ! kill -0 $! 2>/dev/null; do
        sleep 0.1 # until the first prompts are done
    done
    kill -INT $! 2>/dev/null || true
    wait $! || code=$?
    [ $code = 0 ] || break
done
[ $code = 130 ] || fail "exit $code: $(cat err.log)"
shows '^needle .*, interrupted\)$'
echo "answers.sh: good"
