#!/bin/sh
# Compresses, evaluates and runs a small model under a checker, and fails at its first complaint; or
# measures the memory of evaluations.
#   e2e.sh valgrind|tsan|memory PARE MAKE_CHECKPOINT DEMO
# tsan takes a program built with -fsanitize=thread, the others one without sanitizers; anything else
# is skipped (77). DEMO is the folder of hedge and its text; the small model gets its tokenizer.
set -eu
kind=$1 pare=$2 make=$3 demo=$4

skip() {
    echo "e2e.$kind: skipped: $1"
    exit 77
}

has() { nm "$pare" 2> /dev/null | grep -q "$1"; }

[ -x "$pare" ] || skip "$pare is not there"
if [ "$kind" != tsan ] && has '__[at]san_init'; then skip "the program has a sanitizer in it"; fi
case $kind in
memory) ;;
valgrind)
    command -v valgrind > /dev/null || skip "valgrind is not installed"
    checked() {
        valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
            --track-fds=no "$pare" "$@"
    }
    ;;
tsan)
    has __tsan_init || skip "the program is built without it; \"./check tsan\" does"
    checked() { TSAN_OPTIONS="exitcode=99 halt_on_error=1 ${TSAN_OPTIONS:-}" "$pare" "$@"; }
    ;;
*)
    echo "e2e.sh: valgrind, tsan or memory, not $kind" >&2
    exit 2
    ;;
esac

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

# within BYTES OPTION...: an evaluation takes at most its weights, BYTES for its cache and 64 MiB.
within() {
    cache=$1
    shift
    "$pare" eval "$@" --threads 2 --format json > result.json
    peak=$(sed -n 's/.*"peak_rss_bytes": *\([0-9]*\).*/\1/p' result.json)
    weights=$(sed -n 's/.*"weight_bytes": *\([0-9]*\).*/\1/p' result.json)
    most=$((weights + cache + 64 * 1024 * 1024))
    echo "e2e.memory: pare eval $*: $peak bytes, $weights of them weights; at most $most"
    [ "$peak" -gt "$weights" ] && [ "$peak" -le "$most" ]
}

if [ "$kind" = memory ]; then
    printf 'pare: 1\nmodel: %s/hedge/\noutput: packed/\npasses: [{rtn: {bits: 4, group: 64}}]\n' \
        "$demo" > recipe.yaml
    "$pare" compress recipe.yaml > log.txt 2>&1 || { cat log.txt; exit 1; }
    within $((256 * 6144)) packed --text "$demo/evaluation.txt" --window 256
    # Wide, with many words: activations go in pieces, logits in few rows.
    "$make" wide hidden=512 intermediate=8192 blocks=1 heads=8 kv_heads=2 head_dim=64 vocab=64000 \
        context=2048 tied=1 shards=1 tokens=2048
    within $((2048 * 1024)) wide --tokens wide/tokens.i32 --window 2048
    exit
fi

"$make" model hidden=64 intermediate=96 blocks=2 heads=4 kv_heads=2 head_dim=16 vocab=4096 \
    context=64 tied=1 shards=2 tokens=512
cp "$demo/hedge/tokenizer.json" "$demo/hedge/tokenizer_config.json" model/
printf 'The cat sat on the mat, and then it did so again. ' > line.txt
cat line.txt line.txt line.txt line.txt line.txt line.txt > text.txt
cat > choice.jsonl << 'END'
{"context": "The cat sat on", "choices": [" the mat", " it", " and then did so"], "answer": 0}
{"context": "The dog sat on", "choices": [" a", " the mat again"], "answer": 1}
END
cat > recipe.yaml << 'END'
pare: 1
model: model/
output: out/
calibration: {tokens: model/tokens.i32, samples: 4, window: 32}
passes:
  - smoothquant: {}
  - gptq: {bits: 4, group: 32, skip: ["*.down_proj"]}
  - sparsegpt: {pattern: "2:4", targets: ["*.down_proj"]}
  - rtn: {bits: 8, targets: ["*.down_proj"]}
evaluate:
  - kl: {text: text.txt, window: 32}
END

# Three threads, so that helpers wait for each other too.
run() {
    echo "e2e.$kind: pare $*"
    checked "$@" --threads 3 > result.txt 2> log.txt || {
        code=$?
        cat result.txt log.txt
        echo "e2e.$kind: exit code $code"
        exit 1
    }
}

run compress recipe.yaml
run eval out --text text.txt --window 32 --stride 16 --baseline model --choice choice.jsonl
grep -q '^perplexity  *[0-9]' result.txt
grep -q '^choice  *[0-9]' result.txt
run compare model out --text text.txt --window 32 --choice choice.jsonl --speed --output page.html
grep -q '^out  *[0-9]' result.txt
grep -q '^<tr><th scope="row">out</th>' page.html
run eval out --text text.txt --window 64 --kv kivi --kv-window 32
run eval model --tokens model/tokens.i32 --window 16 --exact
run generate out --prompt 'The cat' --tokens 8 --count 2
run verify out
checked inspect out > result.txt
grep -q down_proj result.txt
