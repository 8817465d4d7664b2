#!/bin/bash
# What every command prints as JSON, and every file of JSON that a job leaves, against docs/schema:
# schemas.sh PARE ROOT MAKE_FAMILY
set -euo pipefail
pare=$(realpath "$1") root=$(realpath "$2") make=$(realpath "$3")
if ! python3 -c 'import jsonschema' 2> /dev/null; then
    echo "skipped: python3-jsonschema is not installed"
    exit 77
fi
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cp -r "$root/recipes/demo" "$home/demo"
cd "$home"
rm -rf demo/out
head -c 6000 demo/evaluation.txt > text
cat > choice.jsonl << 'END'
{"context": "The cat sat on", "choices": [" the mat", " it", " and then did so"], "answer": 0}
{"context": "The dog sat on", "choices": [" a", " the mat again"], "answer": 1}
END
cat > mmlu.jsonl << 'END'
{"question": "The cat", "subject": "cats", "choices": ["sat", "ran", "ate", "lay"], "answer": 0}
{"question": "The dog", "subject": "dogs", "choices": ["sat", "ran", "ate", "lay"], "answer": 1}
END
LC_ALL=C tr -cd '\n -~' < text > page
echo '{"passage": "'$(head -c 3000 text | tr -cd 'a-z ')'", "question": "is it", "label": 1}' > boolq.jsonl
cat > recipe.yaml << 'END'
pare: 1
model: demo/hedge/
output: out/
calibration: {text: [demo/calibration.txt], samples: 4, window: 64}
passes:
  - wanda: {sparsity: 0.3, targets: ["*.up_proj"]}
  - rtn: {bits: 4, group: 64}
evaluate:
  - perplexity: {text: text, window: 64, limit: 4}
  - kl: {text: text, window: 64}
  - choice: {file: choice.jsonl}
  - tasks: {mmlu: mmlu.jsonl, shots: 1, shots_from: {mmlu: mmlu.jsonl}, by: answer}
  - needle: {text: demo/evaluation.txt, lengths: 128, keys: 1}
  - continuations: {text: text, window: 64, prompts: 2, continue_tokens: 4}
require: {perplexity: "<= +900%", kl: "<= 9", tasks.mmlu: ">= 0", needle: ">= 0", bytes: "<= 1GiB"}
fallback: [{passes.1.rtn.bits: 8}]
export: [{format: "gguf:q4_0", path: out.gguf, tensor_parallel: 2}]
END

documents=()
# put SCHEMA ARGUMENT...: runs pare and keeps what it prints.
put() {
    local file=$home/${#documents[@]}.json
    if ! "$pare" "${@:2}" > "$file" 2> "$home/err"; then
        echo "pare ${*:2} failed: $(tail -n 3 "$home/err")"
        exit 1
    fi
    documents+=("$1=$file")
}

# cut SCHEMA ARGUMENT...: the same of a run that is interrupted once a part of it is measured. Where the
# first event comes before that, the next one comes half a minute later.
cut() {
    local file=$home/${#documents[@]}.json log=$home/cut.${#documents[@]} code=0 turn
    "$pare" "${@:2}" --log "json:$log" > "$file" 2> "$home/err" &
    for ((turn = 0; turn < 1200; turn++)); do
        if grep -qs '"event": "progress".*"share": [0-9.e-]*[1-9]' "$log"; then break; fi
        sleep 0.1
    done
    kill -INT $!
    wait $! || code=$?
    if [ $code != 130 ] || ! grep -q '^    *"complete": false' "$file" ||
        ! grep -q '"event": "interrupted"' "$log"; then
        echo "pare ${*:2} was not interrupted half-way: exit $code, $(tail -n 3 "$home/err")"
        exit 1
    fi
    documents+=("$1=$file" "log=$log")
}

put plan plan recipe.yaml --format json
put plan plan recipe.yaml --set calibration.keep=s.h5 --format json
cat > chain.yaml << 'END'
pare: 1
model: demo/hedge/
output: chained
calibration: {text: [demo/calibration.txt], samples: 4, window: 64}
passes: [{channels: {ratio: 0.2}}, {distill: {tokens: 256, batch: 2, embeddings: true}}, {rtn: {bits: 4, group: 32}}]
kv_cache: {method: int8}
END
put plan plan chain.yaml --format json
put compress compress chain.yaml --format json
documents+=("run=$home/chained/run.json")
put compress compress recipe.yaml --format json --log json:log
documents+=("log=$home/log")
put compress compress recipe.yaml --format json
documents+=("run=$home/out/run.json")
cat > jobs.yaml << 'END'
pare: 1
recipe: {model: demo/hedge, passes: [rtn], evaluate: [kl: {text: text, window: 64, limit: 2}]}
output: jobs
matrix: {bits: [4, 8]}
include: [{name: behind, bits: 2, after: bits8}, {name: grouped, group: 64, after: bits4}]
END
put batch_dry_run batch jobs.yaml --dry-run --format json
put batch batch jobs.yaml --shard 1/2 --format json
put batch_dry_run batch jobs.yaml --dry-run --format json
put batch batch jobs.yaml --speed --format json
sed '2s/}$/, require: {bytes: "<= 9MiB"}}/' jobs.yaml > bounds.yaml
put batch_dry_run batch bounds.yaml --dry-run --format json
if ! grep -q '"there": 4' "$home/$((${#documents[@]} - 1)).json"; then
    echo "batch --dry-run of other bounds: $(cat "$home/$((${#documents[@]} - 1)).json")"
    exit 1
fi
documents+=("batch=$home/jobs/summary.json")
put eval eval out --text text --window 64 --choice choice.jsonl --baseline demo/hedge --speed \
    --by-position --tasks mmlu=mmlu.jsonl,wikitext=page,boolq=boolq.jsonl --format json
put eval eval out --tasks mmlu=mmlu.jsonl --shots 1 --shots-from mmlu=mmlu.jsonl --format json
put eval eval out --baseline demo/hedge --needle demo/evaluation.txt --lengths 128,200 --keys 2 --format json
put eval eval out --baseline demo/hedge --text text --window 64 --continuations 3 --continue-tokens 8 \
    --temperature 0.8 --seed 2 --format json
put eval eval out --baseline demo/hedge --tasks mmlu=mmlu.jsonl --by answer --format json
put eval eval out --baseline demo/hedge --choice choice.jsonl --by answer --format json
put eval eval out --speed --kv kivi --format json
put eval eval demo/hedge --text text --window 64 --limit 2 --draft out --temperature 0 --format json
put compare compare demo/hedge out --text text --window 64 --choice choice.jsonl --limit 1 --speed --format json
put compare compare demo/hedge out --needle demo/evaluation.txt --lengths 128 --keys 1 --text text --window 64 --limit 2 --continuations 2 --continue-tokens 4 --format json
put compare compare demo/hedge out --tasks mmlu=mmlu.jsonl --format json
put generate generate out --tokens 4 --format json
put generate generate out --tokens 4 --output sample.txt --format json
put tokenize tokenize out 'The cat' --format json
put tokenize tokenize out --text text --output text.i32 --format json
put train-tokenizer train-tokenizer demo/calibration.txt --vocab 300 --output tokenizer --format json
put tokenize tokenize tokenizer 'The cat' --format json
put train_dry_run train "$root/recipes/train/scratch.yaml" --dry-run --output "$home/tiny" --format json
put train train "$root/recipes/train/scratch.yaml" --output "$home/tiny" --set train.tokens=8192 --format json
documents+=("train=$home/tiny/run.json")
printf 'pare: 1\nmodel: tiny\nlora: {rank: 2, merge: false}\ndata: {text: text, window: 64, held_out: 1}\ntrain: {tokens: 512}\n' > lora.yaml
put train_dry_run train lora.yaml --dry-run --output adapters --format json
put train train lora.yaml --output adapters --format json
put inspect inspect out --format json
put inspect inspect demo/hedge --format json
"$make" llama4 mixture > log.txt
put inspect inspect mixture --format json
"$pare" generate mixture --tokens 40 --count 2 --seed 1 --output mixture.i32 > log.txt 2> err
printf 'pare: 1\nmodel: mixture\noutput: planned\npasses: [gptq]\n' > mixture.yaml
printf 'calibration: {tokens: mixture.i32, samples: 2, window: 16, token_weights: even}\n' >> mixture.yaml
put plan plan mixture.yaml --format json
grep -q '"experts": {' "${documents[-1]#plan=}" || { echo "no experts in the plan of a mixture"; exit 1; }
sed 's/planned/reaped/; s/gptq/reap: {ratio: 0.25}/' mixture.yaml > reap.yaml
echo 'evaluate: [kl: {tokens: mixture.i32, window: 16}]' >> reap.yaml
put compress compress reap.yaml --format json
documents+=("run=$home/reaped/run.json")
rc=0
"$pare" compress reap.yaml --strict --output strict > log.txt 2> err || rc=$?
[ $rc = 3 ] || { echo "reap of 32 tokens with --strict ended with $rc"; exit 1; }
grep -q '"experts_gone": \[' reaped/run.json || { echo "run.json does not say which experts went"; exit 1; }
# The last of two jobs says why the first counts as a fallback.
sed 's/reaped/reap_rtn/; s/^passes.*/passes: [reap: {ratio: 0.25}, rtn: {}]/' reap.yaml > reap_rtn.yaml
rc=0
"$pare" compress reap_rtn.yaml --strict > log.txt 2> err || rc=$?
[ $rc = 3 ] || { echo "reap and rtn with --strict ended with $rc: $(tail -n 3 err)"; exit 1; }
if ! grep -q '"of the smaller checkpoint: ' reap_rtn/run.json; then
    echo "reap_rtn/run.json does not say what the first job warned of"
    exit 1
fi
put export export out --format gguf:q8_0 --output more.gguf --tensor-parallel 2 --json
put verify verify out --format json
openssl genpkey -algorithm ed25519 -out private.pem 2> err
openssl pkey -in private.pem -pubout -out public.pem
put sign sign out --key private.pem --format json
put verify verify out --key public.pem --format json
put pack pack out --format json
put pack pack demo/hedge --base out --output delta.pare.zst --format json
put unpack unpack out.pare.zst --list --format json
put unpack unpack out.pare.zst --check --format json
put unpack unpack delta.pare.zst --base out --output hedge-again --format json
put diff diff demo/hedge out --format json
put diff diff out out --format json
put compress compress recipe.yaml --set calibration.keep=s.h5 --set export.0.path=kept.gguf --output kept \
    --format json
put diff_statistics diff s.h5 s.h5 --format json
put inspect_statistics inspect s.h5 --format json
put inspect_importance inspect "$root/tests/fuzz/corpus/imatrix/q_older" --format json
put doctor doctor --format json
put init init demo/hedge --preset w4a16 --format json
put init init demo/hedge --preset w4a16 --output made.yaml --format json
# minutes of work
cut eval eval out --text demo/evaluation.txt --stride 2 --baseline demo/hedge --format json
cut compare compare demo/hedge out --text demo/evaluation.txt --stride 2 --format json
put bench_kernels bench kernels --quick --format json
put bench_model bench model out --prompt 8 --output 3 --runs 1 --batch 1 --format json
model=${documents[-1]#*=}
# a refusal, an error
"$pare" eval out --no-such --log json:log 2> err && exit 1
"$pare" eval nothing --speed --log json:log 2> err && exit 1
put bench_compare bench --compare "$model" "$model" --format json

for command in $("$pare" help | sed -n '/^commands$/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'); do
    case $command in completion | help) continue ;; esac # these print no JSON
    if ! ls "$root/docs/schema/$command"*.json > "$home/ls" 2>&1; then
        echo "docs/schema has nothing of pare $command"
        exit 1
    fi
done

table=$(sed -n '/^## Columns of layers.csv/,$p' "$root/docs/json.md" | sed -n 's/^| \(`[^|]*\)|.*/\1/p')
for column in $(head -n 1 out/layers.csv | tr ',' ' '); do
    if ! grep -q "\`$column\`" <<< "$table"; then
        echo "docs/json.md does not say what $column of layers.csv is"
        exit 1
    fi
done

PYTHONDONTWRITEBYTECODE=1 python3 "$root/tests/e2e/schemas.py" "$root/docs/schema" "${documents[@]}"
