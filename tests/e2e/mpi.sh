#!/bin/sh
# Jobs of several processes: the bytes of one, whatever their number, and whoever is killed.
#   mpi.sh PARE MAKE_FAMILY 1|0 (built with MPI or not)
set -eu
pare=$(realpath "$1") make=$(realpath "$2") mpi=$3
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

fail() { echo "e2e.mpi: $*"; exit 1; }

"$make" llama model > log.txt
"$pare" generate model --tokens 60 --count 300 --seed 1 --output tokens.i32 > log.txt 2>&1 || fail "$(cat log.txt)"
head -c 5200 tokens.i32 > few.i32

# recipe NAME PASSES [MORE CALIBRATION]
recipe() {
    printf 'pare: 1\nmodel: model\noutput: out\ncalibration: {tokens: tokens.i32, samples: %s, window: 32%s}\npasses:\n%s\n' \
        "${samples:-27}" "${3:-}" "$2" > "$1.yaml"
    printf 'evaluate:\n  - perplexity: {tokens: few.i32, window: 32}\n  - kl: {tokens: few.i32, window: 24}\n' >> "$1.yaml"
}
recipe gptq '  - gptq: {bits: 4, group: 32}'

if [ "$mpi" != 1 ]; then
    code=0
    OMPI_COMM_WORLD_SIZE=2 "$pare" compress gptq.yaml > log.txt 2>&1 || code=$?
    [ $code = 4 ] && grep -q 'built without MPI' log.txt || fail "exit $code without MPI: $(cat log.txt)"
    echo "skipped: pare was built without MPI (cmake -DPARE_MPI=ON)"
    exit 77
fi
command -v mpirun > log.txt || { echo 'skipped: there is no mpirun'; exit 77; }

export OMPI_MCA_btl_vader_single_copy_mechanism=none # containers forbid it
run() {
    ranks=$1
    shift
    mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$ranks" "$@"
}

# stops NAME DONE COMMAND...: kills process 1 of a job of two once the command succeeds. One that has made DONE
# by then begins again.
stops() {
    of=$1 done=$2
    shift 2
    for turn in 1 2 3 4 5 6 7 8 9; do
        rm -rf out out.partial "$done" "$done.partial" pid.*
        run 2 sh -c 'echo $$ > "pid.$OMPI_COMM_WORLD_RANK"; exec "$@"' sh "$pare" compress "$of.yaml" --threads 1 > log.txt 2>&1 &
        job=$! code=0
        until "$@" 2> err.txt || ! kill -0 $job 2> err.txt; do sleep 0.01; done
        kill -KILL "$(cat pid.1)" 2> err.txt || true
        wait $job || code=$?
        [ -e "$done" ] || break
    done
    rm -f pid.*
    [ ! -e "$done" ] && [ $code != 0 ] || fail "$of is never stopped, or ends well without process 1: $(cat log.txt)"
}

# sums: of what was made, and what the evaluations came to
sums() {
    (cd out && sha256sum packed-*.safetensors packed.index.json config.json manifest.json)
    sed -n '/"evaluations"/,$p' out/run.json | grep -E '"(nll|ppl|kl_mean|mean|p99|top1[a-z_]*|stderr)"' || true
}

# alone NAME; together RANKS NAME
alone() {
    rm -rf out
    "$pare" compress "$1.yaml" --threads 2 > log.txt 2>&1 || fail "$1: $(cat log.txt)"
    sums > "$1.txt"
    [ "$(wc -l < "$1.txt")" -ge 8 ] || fail "$1 has no evaluations: $(cat "$1.txt")"
}
together() {
    rm -rf out
    run "$1" "$pare" compress "$2.yaml" --threads 1 > log.txt 2>&1 || fail "$2 by $1: $(cat log.txt)"
    sums > now.txt
    cmp -s "$2.txt" now.txt || { diff "$2.txt" now.txt || true; fail "$2 by $1 processes has other bytes"; }
    [ "$(grep -c '"peak_rss_bytes"' out/run.json)" = $(($1 + 1)) ] || fail "run.json does not say what $1 processes did"
    [ -z "$(find out -name '*.[0-9]*' ! -name '*-0000*')" ] || fail "another process than 0 left a file: $(ls out)"
}

recipe f32 '  - gptq: {bits: 4, group: 32}' ', precision: f32, token_weights: even'
recipe site '  - gptq: {bits: 3, group: 32, true_sequential: true}'
recipe awq '  - awq: {}
  - rtn: {bits: 4, group: 32}'
recipe smooth '  - smoothquant: {}
  - gptq: {bits: 8, group: 32}'
recipe sparse '  - sparsegpt: {pattern: "2:4"}'
recipe turned '  - rotate: {}
  - gptq: {bits: 4, group: 32}'
recipe plain '  - rtn: {bits: 4, group: 32}'
recipe auto '  - rtn: {bits: 4, group: 32}'
sed -i 's/few.i32,/few.i32, device: auto,/' auto.yaml
for name in gptq f32 site awq smooth sparse turned plain auto; do alone $name; done
for name in gptq f32 site; do
    for ranks in 2 3 4; do together $ranks $name; done
done
for name in awq smooth sparse turned plain auto; do together 3 $name; done

# Pruners, alone and in front of a quantizer.
# busy IDLE: all but so many processes have run steps on linears; process 0 measures and packs, too.
busy() {
    idle=$(grep -c '"linears": 0,' out/run.json || true)
    [ "$idle" -le "$1" ] || fail "$idle processes had no linears: $(cat out/run.json)"
}
recipe wanda '  - wanda: {sparsity: 0.5}
  - gptq: {bits: 4, group: 32}'
recipe small '  - magnitude: {sparsity: 0.5}
  - gptq: {bits: 4, group: 32}'
recipe joint '  - sparsegpt_joint: {bits: 4, group: 32, pattern: "2:4"}'
for name in wanda small joint; do
    alone $name
    for ranks in 2 3; do
        together $ranks $name
        busy 1
    done
done

# kept PASSES: the file of statistics that one process makes; the bytes of a job that makes it, and of
# one that is given it.
kept() {
    [ -x "${pare%/*}/pare-hdf5" ] || return 0
    recipe kept "$1" ', keep: kept.h5'
    sed 's/^calibration:.*/calibration: {from: kept.h5}/' kept.yaml > from.yaml
    rm -f kept.h5
    alone kept
    alone from
    mv kept.h5 alone.h5
    for ranks in 2 3; do
        rm -f kept.h5
        together $ranks kept
        cmp -s alone.h5 kept.h5 || fail "$ranks processes keep other statistics"
        if grep -q '"windows": 0,' out/run.json; then fail 'a process ran no windows for the statistics'; fi
    done
    together 3 from
    busy 1
    [ "$(grep -c '"windows": 0,' out/run.json)" = 3 ] || fail "windows were run: $(cat out/run.json)"
}
kept '  - awq: {}
  - wanda: {sparsity: 0.5}
  - gptq: {bits: 4, group: 32}'

# Steps that train, three lots of windows each: behind a pruner, with codes in place, of samples.
train='tokens: 9600, batch: 150, rate: 2e-4'
recipe taught "  - wanda: {sparsity: 0.5}
  - distill: {$train}
  - gptq: {bits: 4, group: 32}"
recipe aware "  - gptq: {bits: 4, group: 32, skip: [\"*.gate_proj\"]}
  - exl3: {bits: 2, targets: [\"*.gate_proj\"]}
  - distill: {$train, aware: true, moments: 8bit}"
recipe ternary "  - ternary: {}
  - distill: {$train, aware: true, ce: 1, hidden: 1, lambda: 0.6}" ', token_weights: even'
recipe top "  - distill: {$train, kl: 1, ce: 1, teacher_top: 8, precision: bf16, embeddings: true}
  - rtn: {bits: 4, group: 32}"
for name in taught aware ternary top; do
    alone $name
    grep -q '"steps": 2,' out/run.json || fail "$name did not train: $(cat out/run.json)"
done
for ranks in 2 3; do
    for name in taught aware ternary; do together $ranks $name; done
done
together 4 top # one of them has no lot
# a training that is stopped goes on
recipe goes_on "  - wanda: {sparsity: 0.5}
  - distill: {tokens: 57600, batch: 150, rate: 2e-4, save: 0}
  - gptq: {bits: 4, group: 32}"
alone goes_on
stops goes_on out test -s out.partial/training.state
run 3 "$pare" compress goes_on.yaml --threads 1 > log.txt 2>&1 || fail "continued: $(cat log.txt)"
grep -q 'continues after step' log.txt || fail "training begins anew: $(cat log.txt)"
sums > now.txt
cmp -s goes_on.txt now.txt || fail 'a training that went on has other bytes'

# Mixtures: windows of each process, experts to owners, other tokens where few reach them.
mv model dense
mv tokens.i32 dense.i32
mv few.i32 dense_few.i32
"$make" mixtral model > log.txt
"$pare" generate model --tokens 60 --count 300 --seed 1 --output tokens.i32 > log.txt 2>&1 || fail "$(cat log.txt)"
head -c 5200 tokens.i32 > few.i32
recipe experts '  - gptq: {bits: 4, group: 32}'
recipe thinned '  - sparsegpt: {pattern: "2:4"}
  - gptq: {bits: 4, group: 32}'
recipe each '  - gptq: {bits: 3, group: 32, true_sequential: true}'
samples=8 recipe cold '  - rtn: {bits: 8, activations: int8_tensor}' ', experts: {cold: fill, min_tokens: 60}'
samples=8 recipe noise '  - wanda: {sparsity: 0.5}' ', experts: {cold: rtn, min_tokens: 60}'
for name in experts thinned each cold noise; do alone $name; done
for ranks in 2 3; do
    for name in experts thinned each; do
        together $ranks $name
        busy 0
    done
done
grep -q 'other tokens make up' log.txt || fail "no expert was filled up: $(cat log.txt)"
for name in cold noise; do
    together 3 $name
    grep -q 'experts get' log.txt || fail "no expert was cold: $(cat log.txt)"
done
kept '  - gptq: {bits: 4, group: 32}'
together 9 experts
# a text that repeats itself, of which experts get too little: every process has to count alike what is new
recipe whole '  - gptq: {bits: 4, group: 32}' ', experts: {min_tokens: 1}'
{ head -c 1664 tokens.i32; head -c 1664 tokens.i32; head -c 1664 tokens.i32; } > again.i32
sed 's/tokens: tokens.i32/tokens: again.i32/' whole.yaml > again.yaml
alone again
grep -q 'too little for' log.txt || fail "no expert got too little: $(cat log.txt)"
for ranks in 2 3; do together $ranks again; done
# a mixture that is stopped goes on, with what is stored of its experts
stops each out grep -qa 'model.layers.0.block_sparse_moe.experts.5' out.partial/journal
run 3 "$pare" compress each.yaml --threads 1 > log.txt 2>&1 || fail "continued: $(cat log.txt)"
grep -q 'continuing: [123] of 3 blocks' log.txt || fail "what was done is done again: $(cat log.txt)"
sums > now.txt
cmp -s each.txt now.txt || fail 'a mixture that went on has other bytes'
rm -rf model
# blocks that are not alike: dense ones in front of experts, recurrent ones, MLPs of several widths
"$make" deepseek_v3 model > log.txt
kept '  - wanda: {sparsity: 0.5}
  - gptq: {bits: 4, group: 32}'
rm -rf model
# dense ones around experts
"$make" llama4 model > log.txt
kept '  - gptq: {bits: 4, group: 32}'
rm -rf model
"$make" qwen3_5 model > log.txt
alone each
together 3 each
recipe state '  - wanda: {pattern: "2:4"}
  - distill: {tokens: 9600, batch: 75, windows: 100}
  - gptq: {bits: 4, group: 32}'
alone state # two lots a step, tokens weighed through the state
together 3 state
rm -rf model
cp -r dense model
recipe narrow '  - ziplm: {ratio: 0.34, targets: "*.layers.1.*"}'
"$pare" compress narrow.yaml --output narrow > log.txt 2>&1 || fail "narrow: $(cat log.txt)"
rm -rf model
mv narrow model
grep -q '"intermediate_size": \[' model/config.json || fail "one width: $(cat model/config.json)"
alone thinned
together 3 thinned
rm -rf model
mv dense model
mv dense.i32 tokens.i32
mv dense_few.i32 few.i32
together 9 gptq # one of them has no windows
if cmp -s gptq.txt f32.txt; then fail 'gptq and f32 gave the same sums'; fi
# activations in files, each process its own
samples=480 recipe many '  - gptq: {bits: 4, group: 32}' ', token_weights: even'
alone many
rm -rf out
run 2 "$pare" compress many.yaml --threads 1 --ram-limit 9MiB > log.txt 2>&1 || fail "in files: $(cat log.txt)"
grep -q 'go to a file' log.txt || fail "activations stayed in memory: $(cat log.txt)"
sums > now.txt
cmp -s many.txt now.txt || fail 'activations in files gave other bytes'

# refused RANKS CODE WORDS COMMAND...
refused() {
    ranks=$1 code=$2 words=$3 got=0
    shift 3
    rm -rf out
    run "$ranks" "$pare" "$@" > log.txt 2>&1 || got=$?
    [ $got = "$code" ] || fail "$*: exit $got, not $code: $(cat log.txt)"
    [ "$(grep -c -e "$words" log.txt)" = 1 ] || fail "$*: not once \"$words\": $(cat log.txt)"
    [ ! -d out ] || fail "$*: wrote an output"
}
recipe learned '  - omniquant: {epochs: 2}
  - rtn: {bits: 4, group: 32}'
recipe head '  - gptq: {bits: 4, group: 32}'
echo 'head: {gptq: {bits: 4, group: 32}}' >> head.yaml
refused 2 4 'a head that is quantized by its inputs: 2 processes' compress head.yaml
refused 2 4 'omniquant: 2 processes cannot share this' compress learned.yaml
recipe signs '  - signround: {}
  - rtn: {bits: 4, group: 32}'
refused 2 4 'signround: 2 processes cannot share this' compress signs.yaml
recipe tuned '  - wanda: {pattern: "2:4"}
  - ebft: {}'
refused 2 4 'ebft: 2 processes cannot share this' compress tuned.yaml
refused 2 4 '--share: 2 processes' compress gptq.yaml --share shared
refused 2 2 'plan runs in one process' plan gptq.yaml
refused 2 2 'no-such' compress gptq.yaml --no-such
refused 2 2 'none.yaml' compress none.yaml
rm -rf out
run 2 "$pare" compress gptq.yaml --set calibration.samples=7 > log.txt 2>&1 && fail '7 windows were shared'
grep -q 'a calibration of 7 windows' log.txt || fail "$(cat log.txt)"

# A process that fails is named, and ends all.
rm -rf out out.partial
cat > one.sh << 'END'
[ "$OMPI_COMM_WORLD_RANK" != 2 ] || export PARE_CPU=none
exec "$@"
END
run 3 sh one.sh "$pare" compress gptq.yaml > log.txt 2>&1 && fail 'a rank that fails was not seen'
grep -q 'rank 2: environment variable PARE_CPU' log.txt || fail "$(cat log.txt)"

# So is one that has another recipe or model.
cat > other.sh << 'END'
case "$OMPI_COMM_WORLD_RANK $1" in
"1 recipe") shift; exec "$@" --set seed=7 ;;
"2 model") cd other ;;
"1 statistics") cd apart ;;
esac
shift
exec "$@"
END
mkdir -p other/model
cp gptq.yaml tokens.i32 few.i32 other
cp model/* other/model
sed 's/5000.0/6000.0/' model/config.json > other/model/config.json
cmp -s model/config.json other/model/config.json && fail 'the other model is the same'
for what in recipe model; do
    run 3 sh other.sh $what "$pare" compress gptq.yaml > log.txt 2>&1 && fail "another $what was not seen"
    grep -q "rank [12]: the $what here is not that of rank 0" log.txt || fail "$(cat log.txt)"
    [ ! -d out ] && [ ! -d out.partial ] || fail "another $what left an output"
done

# Statistics that a killed process leaves unfinished are made anew.
if [ -x "${pare%/*}/pare-hdf5" ]; then
    sed -i 's/samples: 27/samples: 480/' kept.yaml
    rm -rf out out.partial kept.h5
    alone kept
    mv kept.h5 alone.h5
    rm -rf out
    stops kept kept.h5 test -s kept.h5.partial
    together 3 kept
    cmp -s alone.h5 kept.h5 || fail 'statistics that were begun again are others'
    [ ! -e kept.h5.partial ] || fail 'what a stopped job left of statistics stays'
    # a process that sees another file of statistics
    mkdir -p apart
    cp -r model few.i32 from.yaml apart
    "$pare" compress kept.yaml --set calibration.samples=9 --set calibration.keep=apart/kept.h5 \
        --output apart/out > log.txt 2>&1 || fail "$(cat log.txt)"
    rm -rf out
    run 3 sh other.sh statistics "$pare" compress from.yaml > log.txt 2>&1 && fail 'other statistics were not seen'
    grep -q 'rank 1: the file of statistics here is not that of rank 0: give all machines the same file' log.txt || fail "$(cat log.txt)"
fi

# Killed and interrupted at some time, then continued by other numbers of processes; PARE_KILLS=100 does it longer.
samples=480 recipe long '  - gptq: {bits: 4, group: 32}'
began=$(date +%s%N)
alone long
took=$((($(date +%s%N) - began) / 1000000)) # milliseconds: the kills come within that
rm -rf out
whole() {
    sums > now.txt
    cmp -s long.txt now.txt || fail "turn $turn: a job that was killed and continued has other bytes"
    "$pare" verify out > log.txt 2>&1 || fail "$(cat log.txt)"
}
landed=0 turn=0 ended=0
while [ $turn -lt "${PARE_KILLS:-6}" ]; do
    turn=$((turn + 1))
    ranks=$((turn % 3 + 2)) victim=$((turn % 3)) signal=KILL code=0
    [ $((turn * 7 % 5)) -lt 4 ] || signal=TERM
    run "$ranks" sh -c 'echo $$ > "pid.$OMPI_COMM_WORLD_RANK"; exec "$@"' sh "$pare" compress long.yaml --threads 1 > log.txt 2>&1 &
    job=$!
    for try in $(seq 600); do
        [ ! -s "pid.$victim" ] || break
        sleep 0.1
    done
    sleep "$(awk -v took=$took -v share=$((turn * 37 % 100)) 'BEGIN { printf "%.2f", took * share / 1e5 }')"
    [ -f "pid.$victim" ] && kill -$signal "$(cat "pid.$victim")" 2> err.txt && landed=$((landed + 1))
    wait $job || code=$?
    for pid in pid.*; do
        [ -f "$pid" ] || continue
        for try in $(seq 31); do # ended, or not yet waited for
            state=$(sed 's/.*) \(.\).*/\1/' "/proc/$(cat "$pid")/stat" 2> err.txt) || state=Z
            if [ "$state" = Z ]; then break; fi
            [ "$try" -lt 31 ] || fail "a process lives on behind the job: turn $turn"
            sleep 1
        done
    done
    rm -f pid.*
    if [ -d out ]; then
        ended=$((ended + 1))
        whole
        rm -rf out
    elif [ $code = 0 ]; then
        fail "turn $turn: a job that was stopped by $signal ended well"
    fi
done
[ $((landed * 3)) -ge $turn ] || fail "only $landed of $turn jobs were stopped"
run 2 "$pare" compress long.yaml --threads 1 > log.txt 2>&1 || fail "continued: $(cat log.txt)"
whole
echo "$landed of $turn jobs were stopped, $((ended + 1)) came to their end"

# A block that is done when process 1 is killed is not done again.
stops long out grep -qa 'model.layers.0.mlp.down_proj' out.partial/journal
run 3 "$pare" compress long.yaml --threads 1 > log.txt 2>&1 || fail "continued: $(cat log.txt)"
grep -q 'continuing: [123] of 3 blocks' log.txt || fail "what was done is done again: $(cat log.txt)"
sums > now.txt
cmp -s long.txt now.txt || fail 'a job that went on behind its first block has other bytes'
