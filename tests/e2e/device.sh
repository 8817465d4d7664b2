#!/bin/sh
# Models on the device, which is the interpreter of PTX here, against the CPU: the same figures digit
# for digit, the same tokens; and what is said where there is no device.
#   device.sh PARE INTERPRETED MAKE_CHECKPOINT DEMO
set -eu
pare=$1 device=$2 make=$3 demo=$4 here=$(realpath "$(dirname "$0")")
if [ ! -x "$device" ]; then
    echo "e2e.device: skipped: pare was built without nvcc"
    exit 77
fi
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

fail() {
    cat log.txt
    echo "e2e.device: $1"
    exit 1
}

# The name of the device. Memory that runs out at a given byte is the interpreter's.
device_name=$("$device" doctor | sed -n 's/^GPU  *\(.*\), compute capability.*/\1/p')

run() { "$@" > out.txt 2> log.txt || fail "$* failed"; }

# What a command prints as JSON, without what may differ: memory, and where it ran.
figures() {
    python3 -c '
import json, sys
def strip(v):
    if isinstance(v, dict):
        return {k: strip(x) for k, x in v.items() if k not in ("memory", "run_memory", "device", "device_fallback")}
    return [strip(x) for x in v] if isinstance(v, list) else v
print(json.dumps(strip(json.load(open(sys.argv[1]))), indent=1))' "$1"
}

# same NAME COMMAND...: the command gives the same on both.
same() {
    name=$1
    shift
    run "$pare" "$@" --format json --threads 2
    figures out.txt > cpu.json
    run "$device" "$@" --format json --device cuda --threads 2
    grep -q '"device": {' out.txt || fail "$name: no device in the result"
    figures out.txt > cuda.json
    cmp -s cpu.json cuda.json || { diff cpu.json cuda.json || true; fail "$name: $* differs"; }
    echo "$name: $(sed -n 's/^ *"nll": *//p' cpu.json | head -n 1) $1"
}

# compress MODEL PASSES...: into out/.
compress() {
    model=$1
    shift
    {
        printf 'pare: 1\nmodel: %s\noutput: out\nseed: 0\n' "$model"
        printf 'calibration: {tokens: small/tokens.i32, samples: 4, window: 32}\npasses:\n'
        printf '  - %s\n' "$@"
        printf '%s\n' "${kv_cache-}"
    } > recipe.yaml
    rm -rf out
    run "$pare" compress recipe.yaml
}

head -c 1200 "$demo/evaluation.txt" > text.txt
cat > choice.jsonl << 'END'
{"context": "The cat sat on", "choices": [" the mat", " it", " and then did so"], "answer": 0}
{"context": "The dog sat on", "choices": [" a", " the mat again"], "answer": 1}
END
"$make" small hidden=256 intermediate=288 blocks=1 heads=4 kv_heads=2 head_dim=64 vocab=4096 \
    context=64 tied=1 shards=1 tokens=512
cp "$demo/hedge/tokenizer.json" "$demo/hedge/tokenizer_config.json" small/

# The model of the demo, whole commands.
. "$here/blocks.sh"
hedge=hedge
for passes in 'rtn: {bits: 4, group: 64}' 'rtn: {bits: 8, group: 64}' 'ternary: {group: 32}' \
    'exl3: {bits: 2, correct: none}' \
    'wanda: {pattern: "2:4"}|rtn: {bits: 4, group: 64}'; do
    first=${passes%%|*}
    if [ "$first" = "$passes" ]; then
        compress "$hedge" "$first"
    else
        compress "$hedge" "$first" "${passes#*|}"
    fi
    same "hedge, $passes" eval out --text text.txt --window 24 --limit 2
    same "hedge, $passes" generate out --prompt 'A hedge' --tokens 4 --temperature 0
done
same "hedge, F16" eval "$hedge" --text text.txt --window 24 --limit 2 --choice choice.jsonl
same "hedge, F16" generate "$hedge" --prompt 'A hedge' --tokens 4 --count 2
same "hedge, 2:4 int4 beside F16" eval out --text text.txt --window 24 --limit 1 --baseline "$hedge"
same "hedge, 2:4 int4 beside F16" compare "$hedge" out --text text.txt --window 24 --limit 1
[ "$(grep -c '"device": {' out.txt)" = 2 ] || fail 'compare does not say where each model ran'

run "$device" compare "$hedge" out --text text.txt --window 24 --limit 1 --device cuda
[ "$(grep -c "^device of .*: $device_name: the model takes" out.txt)" = 2 ] ||
    fail 'compare does not print where each model ran'
run "$device" eval out --text text.txt --window 24 --limit 1 --baseline "$hedge" --device cuda
[ "$(grep -A 1 '^device ' out.txt | grep -c "$device_name: the model takes")" = 2 ] ||
    fail 'eval does not print where the baseline ran'

# Products of F16: near those of the CPU, the same in every run, and named.
nll() { sed -n 's/^ *"nll": *\([0-9.]*\).*/\1/p' "$1" | head -n 1; }
in_f16() {
    run "$pare" eval "$@" --text text.txt --window 24 --limit 2 --format json
    mv out.txt cpu.json
    for tensor in exact a100 h100 h100; do
        if [ -f "$tensor.json" ]; then mv "$tensor.json" again.json; fi
        run env PARE_PTX_MODEL=$tensor "$device" eval "$@" --text text.txt --window 24 --limit 2 --format json \
            --device cuda --device-products f16
        grep -q '"products": "f16"' out.txt || fail "$*: F16 is not named"
        figures out.txt > "$tensor.json"
        echo "F16 products as $tensor adds, $*: $(nll "$tensor.json"), exact $(nll cpu.json)"
        awk -v a="$(nll "$tensor.json")" -v b="$(nll cpu.json)" 'BEGIN { exit !(a != b && (a - b) ^ 2 < 1e-6) }' ||
            fail "$*: F16 products are the exact ones, or far from them"
    done
    cmp h100.json again.json || fail "$*: two runs with F16 products differ"
    rm exact.json a100.json h100.json
}
in_f16 "$hedge"
compress "$hedge" 'rtn: {bits: 4, group: 64}'
in_f16 out --exact
compress "$hedge" 'exl3: {bits: 2, correct: none}'
in_f16 out
run "$device" eval "$hedge" --text text.txt --window 24 --limit 1 --device cuda --device-products f16
grep -q '^device .*, products of floats in F16: ' out.txt || fail 'F16 is not printed'
if "$device" eval "$hedge" --speed --device-products f16 > log.txt 2>&1; then fail 'F16 products on the CPU'; fi
grep -q -e '--device-products is for --device cuda or auto' log.txt || fail 'no reason'

# Every other encoding, and inputs in every form.
small() {
    compress small "$@"
    same "$*" eval out --tokens small/tokens.i32 --window 24 --limit 2
}
small 'rtn: {bits: 2, group: 32}'
near() {
    run "$device" eval out --tokens small/tokens.i32 --window 24 --limit 2 --format json --device cuda --exact \
        --device-products f16
    mv out.txt cuda.json
    run "$pare" eval out --tokens small/tokens.i32 --window 24 --limit 2 --format json --exact
    awk -v a="$(nll cuda.json)" -v b="$(nll out.txt)" 'BEGIN { exit !(a != b && (a - b) ^ 2 < 1e-6) }' ||
        fail 'F16 products are the exact ones, or far from them'
}
near
small 'rtn: {bits: 3, group: 32}'
near
small 'rtn: {bits: 4, group: row, activations: int4}'
small 'rtn: {bits: 8, group: row, activations: int8_token}'
small 'smoothquant: {}' 'rtn: {bits: 8, group: row, activations: int8_tensor}'
small 'ternary: {group: row}'
small 'nf4: {group: 32}'
near
small 'fp8: {group: row}'
near
small 'mxfp4: {}'
near
small 'billm: {damp: 0.01}'
small 'squeezellm: {bits: 3, outliers: 0.01}'
small 'gptq: {grid: q4_k, skip: ["*.down_proj"]}'
small 'gptq: {grid: q6_k, skip: ["*.down_proj"]}'
small 'llm_int8: {threshold: 0.1, columns: 0.05}'
small 'rotate: {online: true}' 'rtn: {bits: 4, group: 32}'
small 'magnitude: {sparsity: 0.5}'
small 'wanda: {pattern: "2:4"}'
near
small 'wanda: {pattern: "2:4"}' 'rtn: {bits: 8, group: 32}'
same 'the same, exact' eval out --tokens small/tokens.i32 --window 24 --limit 2 --exact
for kv in int8 int4 'kivi --kv-window 8'; do
    # shellcheck disable=SC2086
    same "kv $kv" eval out --tokens small/tokens.i32 --window 60 --limit 1 --kv $kv
done

kv_cache='kv_cache: {method: kvquant, sink: 1}'
small 'rtn: {bits: 8, group: 64}'

# A recipe evaluates on the device; what differs in its report is the time, and where it ran.
figures_of_text() { grep '^perplexity\|^choice' out.txt | sed 's/, on a GPU//; s/, on the CPU, because no GPU could be used//'; }
recipe_says() {
    "$1" compress evaluate.yaml --restart > out.txt 2> log.txt || fail "$1 compress failed"
    figures_of_text
}
cat > evaluate.yaml << 'END'
pare: 1
model: small
output: evaluated
passes: [{rtn: {bits: 4, group: 32}}]
evaluate:
  - kl: {text: text.txt, window: 24, limit: 2, device: cpu}
  - choice: {file: choice.jsonl, device: cpu}
END
recipe_says "$pare" > cpu.txt
sed -i 's/device: cpu/device: cuda/' evaluate.yaml
recipe_says "$device" > cuda.txt
[ -s cpu.txt ] && cmp cpu.txt cuda.txt || fail 'a recipe evaluates otherwise on the device'
cat cuda.txt
[ "$(grep -c ', on a GPU)$' out.txt)" = 2 ] || fail 'a recipe does not say where it evaluated'
[ "$(grep -c "\"device\": \"$device_name\"" evaluated/run.json)" = 2 ] || fail 'nor does run.json'

sed 's/device: cuda/device: cuda, device_products: f16/; s/evaluated/in_f16/' evaluate.yaml > f16.yaml
run "$device" compress f16.yaml
[ "$(grep -c '^perplexity.*products of floats in F16)\|^choice.*products of floats in F16)' out.txt)" = 2 ] ||
    fail 'a recipe does not say that products were in F16'
[ "$(grep -c '"device_products": "f16"' in_f16/run.json)" = 2 ] || fail 'nor does run.json'

run "$device" plan evaluate.yaml --set evaluate.0.kl.device=auto --set evaluate.1.choice.device=cpu
grep -q "^device  *$device_name, for evaluations$" out.txt || fail 'the plan does not name the device'

memory_ends() {
    # What the plan says is what the run needs: a little less is refused before anything runs.
    run "$device" plan evaluate.yaml --format json
    need=$(grep -A 1 '"device_memory"' out.txt | sed -n 's/^ *"bytes": \([0-9]*\),$/\1/p')
    run env PARE_PTX_MEMORY="$need" "$device" compress evaluate.yaml --restart
    if PARE_PTX_MEMORY=$((need - 1)) "$device" plan evaluate.yaml > log.txt 2>&1; then
        fail 'too little memory is planned with'
    fi
    grep -q "evaluate.yaml:6:56: device: cuda: .*: $need bytes are asked for, $((need - 1)) of .*; say device: cpu, or" \
        log.txt || fail 'the plan does not say what is missing, and what to do'
    run env PARE_PTX_MEMORY=$((need - 1)) "$device" plan evaluate.yaml --set evaluate.0.kl.device=auto \
        --set evaluate.1.choice.device=cpu
    grep -q "^device  *the CPU, for evaluations with device: auto: .*: $need bytes are asked for" out.txt ||
        fail 'the plan does not say what auto comes to'
    if grep -q '^device memory' out.txt; then fail 'the plan counts memory of a device that is not used'; fi

    # Memory runs out in the middle: `cuda` says so, and the run goes on where the entry has another device;
    # `auto` computes on the CPU.
    sed -i '6s/device: cuda/device: cpu/' evaluate.yaml
    if PARE_PTX_MEMORY=6500000 "$device" compress evaluate.yaml --restart > log.txt 2>&1; then
        fail 'the memory does not run out'
    fi
    grep -q 'choice.jsonl: .*bytes.*; say device: cpu or auto there and give the same command again' log.txt ||
        fail 'what ran out, and what to do, is not said'
    sed -i 's/device: c[a-z]*/device: auto, device_products: f16/' evaluate.yaml
    rc=0
    PARE_PTX_MEMORY=6500000 "$device" compress evaluate.yaml --strict > out.txt 2> log.txt || rc=$?
    [ "$rc" = 3 ] || fail "--strict ends with $rc where auto takes the CPU"
    grep -q 'evaluating on the CPU, without device_products: f16: .*bytes' log.txt || fail 'auto does not say what ran out'
    [ "$(grep -c '"device_fallback": ".*bytes' evaluated/run.json)" = 2 ] || fail 'nor does run.json'
    grep -q '^Warning: .* on the CPU: .*bytes' evaluated/README.md || fail 'nor does the model card'
    figures_of_text | cmp - cpu.txt || fail 'auto evaluates otherwise'
    if grep -q device evaluated/manifest.json; then fail 'the manifest depends on the device'; fi
    sed -i 's/device: auto, device_products: f16/device: cuda/' evaluate.yaml
}
if [ "$device_name" = 'interpreter of PTX' ]; then memory_ends; fi
for command in 'eval --window 24 --limit 2' 'eval --window 24 --limit 2 --baseline small' \
    'eval --window 24 --limit 2 --choice choice.jsonl' 'compare small --window 24 --limit 2'; do
    # shellcheck disable=SC2086
    run "$pare" ${command%% *} small ${command#* } --tokens small/tokens.i32 --format json
    figures out.txt > cpu.json
    # shellcheck disable=SC2086
    run "$device" ${command%% *} small ${command#* } --tokens small/tokens.i32 --format json \
        --device auto --device-limit 3000000
    grep -q 'computing on the CPU, without --device-limit: .*the limit of 3000000' log.txt ||
        fail "$command: no reason"
    grep -q '"device_fallback": ".*the limit of 3000000' out.txt || fail "$command: no reason in the result"
    figures out.txt | cmp - cpu.json || fail "$command: auto gives other figures"
done
run "$pare" generate small --prompt A --tokens 4 --temperature 0
mv out.txt cpu.txt
run "$device" generate small --prompt A --tokens 4 --temperature 0 --device auto --device-limit 3000000
grep -q 'computing on the CPU' log.txt || fail 'generate does not say why'
cmp out.txt cpu.txt || fail 'auto generates otherwise'

# Where there is no device.
if "$pare" doctor | grep -q '^GPU  *none'; then
    if "$pare" eval small --tokens small/tokens.i32 --window 24 --limit 2 --device cuda > log.txt 2>&1; then
        fail 'a device that is not there is used'
    fi
    grep -q -e '--device cuda: no NVIDIA driver: libcuda.*; give --device cpu, or --device auto' log.txt ||
        fail 'the driver is not named, or not what to do'
    run "$pare" eval small --tokens small/tokens.i32 --window 24 --limit 2 --device auto
    grep -q 'computing on the CPU: no NVIDIA driver' log.txt || fail 'auto does not say why'
    if "$pare" plan evaluate.yaml > log.txt 2>&1; then fail 'a recipe is planned without its device'; fi
    grep -q 'evaluate.yaml:6:56: device: cuda: no NVIDIA driver' log.txt || fail 'plan does not say why'
fi
if "$device" eval small --tokens small/tokens.i32 --window 24 --limit 2 --device cuda \
    --device-limit 1000000 > log.txt 2>&1; then fail 'the limit is not kept'; fi
grep -q 'bytes are asked for; [0-9]* of the limit of 1000000 are taken.*; give --device cpu, or' log.txt ||
    fail 'no figures, or no way out'
if "$device" eval small --tokens small/tokens.i32 --window 24 --device gpu > log.txt 2>&1; then
    fail 'gpu is a device'
fi
grep -q 'expected cpu, cuda or auto; did you mean cuda?' log.txt || fail 'the words are not named'
