#!/bin/sh
# What `pare plan` says of memory is what the job takes: not less, and at most a tenth more. Small
# jobs get 2 MiB beside that: libraries and threads take about so much, and it differs from machine
# to machine. Each job also runs to its end with its own figure as the limit.
#   plan_memory.sh PARE PEAK MAKE_CHECKPOINT DEMO MAKE_FAMILY PART
# PARE without sanitizers, which take memory themselves. PART is `memory`, which measures what jobs take and
# wants the machine for itself, or `limits`, whose jobs run with their own figure as the limit.
set -eu
pare=$1 peak=$2 make=$3 demo=$4 family=$5 part=$6

skip() {
    echo "e2e.plan_memory: skipped: $1"
    exit 77
}

[ -x "$pare" ] || skip "$pare is not there"
if nm "$pare" 2> /dev/null | grep -q '__[at]san_init'; then skip "the program has a sanitizer in it"; fi

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
failed=0

planned() {
    "$pare" plan recipe.yaml --format json "$@" > plan.json
    sed -n 's/.*"anonymous_bytes": *\([0-9]*\).*/\1/p' plan.json
}

# within NAME PLAN COMMAND...: runs with its own figure as the limit, and takes what it says.
within() {
    name=$1 plan=$2
    shift 2
    most=0
    for turn in 1 2 3; do # on a busy machine threads are not all at their peaks at once: the most counts
        "$peak" took "$pare" "$@" --restart --ram-limit "$plan" > log.txt 2>&1 || {
            cat log.txt
            echo "e2e.plan_memory: $name: does not run with the $plan bytes that its plan says"
            failed=1
            return
        }
        [ "$(cat took)" -le $most ] || most=$(cat took)
        [ "$plan" -gt $((most + most / 10 + 5 * 512 * 1024)) ] || break
    done
    took=$most
    echo "e2e.plan_memory: $name: planned $plan, took $took bytes"
    if [ "$plan" -lt "$took" ] || [ "$plan" -gt $((took + took / 10 + 5 * 512 * 1024)) ]; then
        echo "e2e.plan_memory: $name: expected $took to $((took + took / 10 + 5 * 512 * 1024))"
        failed=1
    fi
}

# job NAME MODEL CALIBRATION PASSES REST OPTION...: one recipe, planned and measured.
job() {
    name=$1
    printf 'pare: 1\nmodel: %s\noutput: out\n%s\npasses: %s\n%s\n' "$2" "$3" "$4" "$5" \
        > recipe.yaml
    shift 5
    within "$name" "$(planned "$@")" compress recipe.yaml "$@"
}

# training NAME MODEL DATA TRAIN OPTION...: the same of pare train.
training() {
    name=$1
    printf 'pare: 1\nmodel: %s\noutput: trained\ndata: %s\ntrain: %s\n' "$2" "$3" "$4" > recipe.yaml
    shift 4
    "$pare" train recipe.yaml --dry-run --format json "$@" > plan.json 2> log.txt || cat log.txt
    within "$name" "$(sed -n 's/.*"memory_bytes": *\([0-9]*\).*/\1/p' plan.json)" train recipe.yaml "$@"
}

# own MODEL CALIBRATION PASSES REST OPTION...: runs with its own figure as the limit, where nothing
# lies and in the place of an old output.
own() {
    printf 'pare: 1\nmodel: %s\noutput: out\n%s\npasses: %s\n%s\n' "$1" "$2" "$3" "$4" \
        > recipe.yaml
    name="$1, $3"
    shift 4
    rm -rf out
    plan=$(planned "$@" --restart)
    for place in empty taken; do
        "$pare" compress recipe.yaml --restart "$@" --ram-limit "$plan" > log.txt 2>&1 || {
            cat log.txt
            echo "e2e.plan_memory: $name: place $place: does not run with its own $plan bytes"
            failed=1
        }
    done
}

# sparing LIMIT MODEL CALIBRATION PASSES OPTION...: a job that does not fit into LIMIT as it comes
# takes one linear in floats at a time, keeps to its plan and gives the bytes of the other.
sparing() {
    limit=$1 name="sparing, $2, $4"
    printf 'pare: 1\nmodel: %s\noutput: out\n%s\npasses: %s\n' "$2" "$3" "$4" > recipe.yaml
    shift 4
    "$pare" compress recipe.yaml --restart "$@" > log.txt 2>&1 || { cat log.txt; exit 1; }
    rm -rf whole
    mv out whole
    planned --ram-limit "$limit" "$@" > limit.txt
    if ! grep -q '"sparing": *true' plan.json; then
        echo "e2e.plan_memory: $name: expected a sparing job within $limit"
        failed=1
        return
    fi
    plan=$(cat limit.txt)
    "$peak" took "$pare" compress recipe.yaml "$@" --ram-limit "$plan" > log.txt 2>&1 || {
        cat log.txt
        echo "e2e.plan_memory: $name: does not run with the $plan bytes that its plan says"
        failed=1
        return
    }
    took=$(cat took)
    echo "e2e.plan_memory: $name: planned $plan, took $took bytes"
    if [ "$plan" -lt "$took" ] || [ "$plan" -gt $((took + took / 10 + 3 * 1024 * 1024)) ]; then
        echo "e2e.plan_memory: $name: expected $took to $((took + took / 10 + 3 * 1024 * 1024))"
        failed=1
    fi
    for file in packed-00001-of-00001.safetensors packed.index.json manifest.json; do
        cmp "whole/$file" "out/$file" || failed=1
    done
}

if [ "$part" = memory ]; then
    "$make" wide hidden=512 intermediate=1408 blocks=1 heads=8 kv_heads=2 head_dim=64 vocab=2048 \
        context=256 tied=1 shards=1 tokens=4608 > log.txt 2>&1 || { cat log.txt; exit 1; }
    # Three tokens for each input of down: nothing gets a plain form, which takes less than is planned.
    tokens='calibration: {tokens: wide/tokens.i32, samples: 17, window: 256}'
    few='calibration: {tokens: wide/tokens.i32, samples: 8, window: 256}'
    text="calibration: {text: [$demo/calibration.txt], samples: 8, window: 256}"
    gptq='[{gptq: {bits: 4, group: 64}}]'
    kl='evaluate: [{kl: {tokens: wide/tokens.i32, window: 256}}]'

    head -c 20000 "$demo/evaluation.txt" > evaluation.txt
    job "hedge, rtn, KL" "$demo/hedge" '' '[{rtn: {bits: 4, group: 64}}]' \
        "evaluate: [{kl: {text: evaluation.txt, window: 256}}]" --threads 2
    job "hedge, gptq of one block" "$demo/hedge" "$text" \
        '[{gptq: {bits: 4, group: 64, targets: "*.layers.0.*"}}]' '' --threads 4
    job "wide, rtn" wide '' '[{rtn: {bits: 4, group: 64}}]' '' --threads 1
    job "wide, gptq, KL" wide "$tokens" "$gptq" "$kl" --threads 2
    job "wide, gptq with a correction" wide "$tokens" '[{gptq: {bits: 4, group: 64, correct: gptaq}}]' '' --threads 2
    job "wide, 2:4 and gptq" wide "$tokens" '[{sparsegpt: {pattern: "2:4"}}, {gptq: {bits: 4, group: 64}}]' \
        '' --threads 2
    job "wide, awq, gptq and an export" wide "$tokens" '[{awq: {}}, {gptq: {bits: 4, group: 128}}]' \
        'export: [{format: safetensors, path: floats}]' --threads 1

    # On more threads than processors their stacks are much of what a small job takes.
    "$make" few hidden=64 intermediate=96 blocks=1 heads=2 kv_heads=1 head_dim=32 vocab=64 \
        context=64 tied=1 shards=1 tokens=20000 > log.txt 2>&1 || { cat log.txt; exit 1; }
    "$family" mistral mistral
    job "small, 2:4 on 8 threads" mistral 'calibration: {tokens: few/tokens.i32, samples: 8, window: 64}' \
        '[{wanda: {pattern: "2:4"}}, {rtn: {group: 32}}]' '' --threads 8

    # What waits for the way back is what blocks hold there; a student has the blocks that it keeps.
    training "wide, training" wide '{tokens: wide/tokens.i32, window: 128, held_out: 4}' \
        '{tokens: 4096, batch: 8}' --threads 2
    training "hedge, training of 2 blocks" "$demo/hedge" "{text: [$demo/calibration.txt], window: 128}" \
        '{kl: 1, ce: 0, tokens: 4096, batch: 8}' --threads 4 --set blocks=2

    even='calibration: {tokens: wide/tokens.i32, samples: 8, window: 256, token_weights: even}'
    job "wide, exl3 with a correction" wide "$even" '[{exl3: {targets: "*.o_proj"}}]' '' --threads 2
    exact='calibration: {tokens: wide/tokens.i32, samples: 8, window: 256, token_weights: even, precision: f32}'
    sparing 38MiB wide "$few" "$gptq" --threads 2
    sparing 31MiB wide "$exact" '[{gptq: {bits: 4, group: 64, correct: qronos}}]' --threads 2
    sparing 28MiB wide "$even" '[{gptq: {bits: 4, group: 64, correct: none, true_sequential: true}}]' \
        --threads 1

    # KL over one window of 16384 tokens: logits of all of them are 256 MiB for each model, caches of all
    # blocks 4 MiB more for each block.
    "$make" long hidden=64 intermediate=96 blocks=2 heads=2 kv_heads=1 head_dim=32 vocab=4096 \
        context=16384 tied=1 shards=1 tokens=16384 > log.txt 2>&1 || { cat log.txt; exit 1; }
    job "16384 positions, KL" long '' '[{rtn: {bits: 4, group: 32}}]' \
        'evaluate: [{kl: {tokens: long/tokens.i32, window: 16384}}]' --threads 2
    if [ "$took" -gt 41943040 ]; then
        echo "e2e.plan_memory: 16384 positions take $took bytes; they need hidden states, the cache of a block, some logits"
        failed=1
    fi

    # Six times as many blocks take no more but for the names and results of their linears: statistics,
    # weights of tokens and floats are those of one block, and files hold the rest.
    for blocks in 2 12; do
        "$make" deep$blocks hidden=256 intermediate=704 blocks=$blocks heads=4 kv_heads=2 head_dim=64 \
            vocab=1024 context=256 tied=1 shards=1 tokens=4096 > log.txt 2>&1 || { cat log.txt; exit 1; }
        job "gptq of $blocks blocks" deep$blocks \
            "calibration: {tokens: deep$blocks/tokens.i32, samples: 8, window: 256}" \
            '[{gptq: {bits: 4, group: 64}}]' '' --threads 2
        eval "plan$blocks=$plan took$blocks=$took"
    done
    if [ "$plan12" -gt $((plan2 + plan2 / 10)) ] || [ "$took12" -gt $((took2 + took2 / 10)) ]; then
        echo "e2e.plan_memory: 12 blocks take more than 2: planned $plan12 and $plan2, took $took12 and $took2"
        failed=1
    fi

    # A head that was tied gets weights of its own, a piece at a time: more than such small blocks take.
    "$make" tied hidden=128 intermediate=256 blocks=2 heads=4 kv_heads=2 head_dim=32 vocab=12288 \
        context=256 tied=1 shards=1 tokens=4096 > log.txt 2>&1 || { cat log.txt; exit 1; }
    job "tied, rotate and rtn" tied '' '[{rotate: {}}, {rtn: {bits: 4, group: 64}}]' '' --threads 2
    exit $failed
fi

# Passes of every kind on a small model, then on a larger one.
"$make" small hidden=128 intermediate=256 blocks=2 heads=4 kv_heads=2 head_dim=32 vocab=512 \
    context=256 tied=1 shards=1 tokens=4096 > log.txt 2>&1 || { cat log.txt; exit 1; }
few='calibration: {tokens: small/tokens.i32, samples: 4, window: 128}'
rtn='{rtn: {bits: 8, group: row, activations: int8_token}}'
for passes in "[{smoothquant: {}}, $rtn]" "[{omniquant: {epochs: 1}}, {rtn: {bits: 3, group: 64}}]" \
    "[{signround: {steps: 2}}, {rtn: {bits: 3, group: 64}}]" \
    '[{wanda: {pattern: "2:4"}}, {ebft: {epochs: 2}}]' \
    '[{rotate: {online: true}}, {gptq: {bits: 4, group: 64}}]' '[{squeezellm: {}}]' \
    '[{billm: {}}]' '[{atom: {group: 64, outliers: 16}}]' \
    '[{wanda: {sparsity: 0.6, ratios: owl, spread: 0.08, outlier: 5}}]' \
    '[{sparsegpt: {sparsity: 0.7, ratios: search, spread: 0.15}}]' \
    '[{sparsegpt_joint: {pattern: "2:4", bits: 4, group: 64}}]' \
    '[{permute: {}}, {ria: {pattern: "2:4"}}]' '[{slicegpt: {ratio: 0.2}}]'; do
    own small "$few" "$passes" '' --threads 2
done
own small "$few" '[{signround: {steps: 2}}, {rtn: {bits: 3, group: 64}}, {distill: {tokens: 512, aware: true}}]' '' --threads 2
signs='[{signround: {steps: 2, batch: 4}}, {rtn: {bits: 3, group: 64}}]'
job 'small, signround' small "$few" "$signs" '' --threads 2
"$family" qwen3_5_text recurrent
"$pare" generate recurrent --tokens 129 --count 8 --seed 1 --output recurrent.i32 > log.txt
states='calibration: {tokens: recurrent.i32, samples: 8, window: 128}'
job 'recurrent, signround' recurrent "$states" "$signs" '' --threads 2
job 'recurrent, omniquant' recurrent "$states" '[{omniquant: {epochs: 2, batch: 4}}, {rtn: {bits: 3, group: 64}}]' '' --threads 2
own small '' '[{nf4: {group: 64}}]' '' --threads 16

# Training of a mixture: every expert is a leaf, and in front of it those of a block are floats.
"$family" qwen2_moe mixture
"$pare" generate mixture --tokens 60 --count 30 --seed 1 --output mixture.i32 > log.txt
for passes in '[{wanda: {pattern: "2:4"}}, {distill: {tokens: 1024}}, {gptq: {bits: 4, group: 32}}]' \
    '[{rtn: {bits: 2, group: 32}}, {distill: {tokens: 1024, aware: true, embeddings: true, moments: 8bit}}]' \
    '[{exl3: {bits: 2}}, {distill: {tokens: 1024, aware: true}}]' \
    '[{reap: {ratio: 0.3}}]'; do
    own mixture 'calibration: {tokens: mixture.i32, samples: 24, window: 32}' "$passes" '' --threads 2
done

few="calibration: {text: [$demo/calibration.txt], samples: 8, window: 256}"
first='targets: "*.layers.0.*"'
own "$demo/hedge" 'calibration: {generate: {}, samples: 2, window: 64}' \
    "[{gptq: {bits: 4, group: 64, $first}}]" '' --threads 2
own "$demo/hedge" "$few" "[{squeezellm: {bits: 4, outliers: 0.0045, $first}}]" '' --threads 2
own "$demo/hedge" "$few" "[{wanda: {sparsity: 0.5, $first}}]" '' --threads 1
own "$demo/hedge" "$few" '[{awq: {}}, {rtn: {bits: 4, group: 32}}]' \
    'export: [{format: "gguf:q4_0", path: out.gguf}]' --threads 2
# Products with EXL3 turn their inputs, which the evaluation has room for.
own "$demo/hedge" "calibration: {text: [$demo/calibration.txt], samples: 2, window: 16}" \
    '[{exl3: {bits: 2, targets: "*.layers.0.mlp.down_proj"}}]' \
    "evaluate: [{perplexity: {text: $demo/evaluation.txt, window: 256, limit: 16}}]" --threads 2

# What products and eigenvectors leave in the process is in the plan of a smaller checkpoint, too.
few="calibration: {text: [$demo/calibration.txt], samples: 8, window: 64}"
for passes in '[{slicegpt: {ratio: 0.25}}]' '[{ziplm: {ratio: 0.25}}]' '[{flap: {ratio: 0.25}}]'; do
    own "$demo/hedge" "$few" "$passes" '' --threads 2
    took=$(sed -n 's/.*"peak_anonymous_bytes": *\([0-9]*\).*/\1/p' out/run.json | head -n 1)
    if [ "$took" -gt "$plan" ]; then
        echo "e2e.plan_memory: $name: planned $plan, took $took bytes"
        failed=1
    fi
done

# Two jobs: the second has the memory of the first for itself, but for what BLAS keeps; both run with
# the larger of the figures.
head -c 3000 "$demo/evaluation.txt" > evaluation.txt
chain() { # PASSES [LIMIT]: also planned with that limit
    passes=$1
    printf 'pare: 1\nmodel: %s\noutput: out\n%s\npasses: %s\n%s\n' "$demo/hedge" "$few" "$passes" \
        'evaluate: [{kl: {text: evaluation.txt, window: 128}}]' > recipe.yaml
    rm -rf out out.smaller
    plan=$(planned --threads 2 ${2:+--ram-limit "$2"} | sort -n | tail -n 1) code=0
    "$pare" compress recipe.yaml --threads 2 --ram-limit "${2:-$plan}" > log.txt 2>&1 || code=$?
    [ $code = 0 ] || {
        cat log.txt
        echo "e2e.plan_memory: $passes: exit $code with ${2:-$plan} bytes"
        failed=1
        return
    }
    for took in $(sed -n 's/.*"peak_anonymous_bytes": *\([0-9]*\).*/\1/p' out.smaller/run.json out/run.json); do
        [ "$took" -le "$plan" ] || {
            echo "e2e.plan_memory: $passes: planned $plan, took $took bytes"
            failed=1
        }
    done
}
for passes in '[{depth: {blocks: 1}}, {rtn: {bits: 4}}]' '[{slicegpt: {}}, {rtn: {bits: 4}}]' \
    '[{slicegpt: {ratio: 0.05}}, {nf4: {}}]' '[{flap: {}}, {gptq: {bits: 4}}]'; do
    chain "$passes"
done

# A plan on the whole model is only the most: it does not refuse what compress begins.
rm -rf out out.smaller
plan=$(planned --threads 2 | sort -n | tail -n 1)
"$pare" plan recipe.yaml --threads 2 --ram-limit $((plan - 1)) > log.txt 2>&1 &&
    grep -q 'which is less: whether the job runs shows once the smaller checkpoint is there' log.txt || {
    cat log.txt
    echo "e2e.plan_memory: a chain of two jobs is refused for what its first model needs"
    failed=1
}

# What the whole model cannot keep while it trains, the smaller one can.
trained='[{channels: {ratio: 0.5}}, {distill: {tokens: 512, batch: 2, windows: 24}}, {rtn: {bits: 4}}]'
chain "$trained"
most=$((plan - 1))
chain "$trained" $most
[ "$plan" = $most ] || {
    echo "e2e.plan_memory: $trained: a smaller model may come up to the limit of $most, planned $plan"
    failed=1
}

# Figures that round to the same are told in bytes, by plan and compress.
printf 'pare: 1\nmodel: small\noutput: out\npasses: [rtn: {bits: 4, group: 64}]\n' > recipe.yaml
rm -rf out out.smaller
plan=$(planned --threads 2)
for command in plan compress; do
    code=0
    "$pare" $command recipe.yaml --threads 2 --ram-limit $((plan - 4096)) > log.txt 2>&1 || code=$?
    [ $code = 5 ] && grep -q "needs [0-9]* bytes of memory and the limit of --ram-limit leaves $((plan - 4096));" log.txt || {
        cat log.txt
        echo "e2e.plan_memory: $command: expected a refusal in bytes, exit $code"
        failed=1
    }
done

# A fallback that takes more than the recipe, and what the attempt before it leaves.
printf 'pare: 1\nmodel: %s\noutput: out\n%s\npasses: [gptq: {bits: 2, targets: "*.layers.0.*"}]\n%s\n%s\n%s\n' "$demo/hedge" "$few" \
    'evaluate: [kl: {text: evaluation.txt, window: 64, limit: 2}]' 'require: {kl: "<= 1e-9"}' \
    'fallback: [{calibration.window: 250}]' > recipe.yaml
head -c 3000 "$demo/evaluation.txt" > evaluation.txt
rm -rf out
plan=$(planned --threads 2) code=0
"$pare" compress recipe.yaml --threads 2 --ram-limit "$plan" > log.txt 2>&1 || code=$?
if [ $code != 6 ] || ! grep -q 'fallback 1 of 1' log.txt; then
    cat log.txt
    echo "e2e.plan_memory: a fallback does not run with the $plan bytes that its plan says: exit $code"
    failed=1
fi
exit $failed
