#!/bin/sh
# pare train as users run it: train.sh PARE DEMO
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

. "$here/train_checks.sh"

# counts OUTPUT: training and inspect find the same number of weights in it
counts() {
    "$pare" inspect "$1" --format json >inspected.json || fail "inspect does not read $1"
    [ "$(field "$1/run.json" weights)" = "$(field inspected.json weights)" ] ||
        fail "$1/run.json counts $(field "$1/run.json" weights) weights, inspect $(field inspected.json weights)"
}

# From scratch: what comes out is a checkpoint, whole, and has learned.
"$pare" train scratch.yaml --format json >scratch.json 2>out.log || fail "$(cat out.log)"
"$pare" verify scratch >/dev/null || fail "verify does not accept scratch"
counts scratch
below "$(field scratch.json perplexity_after)" 300 "perplexity after"
below 390 "$(field scratch.json perplexity_before)" "perplexity before, of 400 tokens"
"$pare" eval scratch --text "$demo/evaluation.txt" --window 64 --limit 8 >eval.log ||
    fail "eval does not load scratch"
grep -q '"torch_dtype": "float32"' scratch/config.json || fail "config.json has another dtype"
for f in README.md report.html run.json recipe.yaml tokenizer.json tokenizer_config.json; do
    [ -s "scratch/$f" ] || fail "scratch/$f is missing"
done
grep -q '"calibration": null' scratch/manifest.json && grep -q training_sha256 scratch/manifest.json ||
    fail "scratch/manifest.json says that training is calibration"
grep -q '<polyline' scratch/report.html || fail "report.html has no curve"
says "is finished; give another output, or --restart" "$pare" train scratch.yaml
for finished in scratch untouched; do # a plan says so, too
    "$pare" train scratch.yaml --dry-run --output $finished >out.log 2>&1 || fail "$(cat out.log)"
    grep -q '^output  *is finished already' out.log && said=scratch || said=untouched
    [ $said = $finished ] || fail "--dry-run of $finished: $(cat out.log)"
done

# The recipe that it leaves means the same paths, wherever the command runs.
(cd / && "$pare" train "$work/scratch/recipe.yaml" --dry-run --output "$work/again") >out.log 2>&1 || fail "$(cat out.log)"
says 'scratch/../scratch: is finished' "$pare" train scratch/recipe.yaml

survives scratch.yaml scratch

# A student that learns from its own samples, too.
cat >samples.yaml <<END
pare: 1
model: scratch
blocks: 1
output: samples
data: {text: ["$demo/calibration.txt"], window: 64}
train: {jsd: 1, ce: 0, sinkhorn: 0.1, relations: 0.5, lambda: 0.5, moments: 8bit,
        tokens: 8192, batch: 8, rate: 2e-3, save: 0}
END
"$pare" train samples.yaml >out.log 2>&1 || fail "$(cat out.log)"
below "$(field samples/run.json kl_after)" "$(field samples/run.json kl_before)" "KL after samples"
counts samples
survives samples.yaml samples
says 'what a teacher says of them' "$pare" train scratch.yaml --output x --set train.lambda=0.5
"$pare" train samples.yaml --dry-run --output untouched >out.log 2>&1 || fail "$(cat out.log)"

# A student of a wider teacher, from scratch: what lies between them is kept in states, and thrown
# away at the end.
sed 's/"hidden_size": 48/"hidden_size": 32/' config.json >narrow.json
cat >narrow.yaml <<END
pare: 1
config: narrow.json
tokenizer: scratch
teacher: scratch
output: narrow
data: {text: ["$demo/calibration.txt"], window: 64}
train: {kl: 1, ce: 0, hidden: 1, attention: 0.1, tokens: 8192, batch: 8, rate: 5e-3, save: 0}
END
"$pare" train narrow.yaml >out.log 2>&1 || fail "$(cat out.log)"
"$pare" verify narrow >/dev/null || fail "verify does not accept narrow"
below "$(field narrow/run.json kl_after)" "$(field narrow/run.json kl_before)" "KL of a narrow student"
survives narrow.yaml narrow

# What the teacher said is kept, over several rounds of a short text; a run that goes on asks it again.
head -c 20000 "$demo/calibration.txt" >short.txt
cat >kept.yaml <<END
pare: 1
model: scratch
blocks: 1
output: kept
data: {text: [short.txt], window: 64, held_out: 4}
train: {kl: 1, ce: 0, teacher_top: 16, tokens: 16384, batch: 8, rate: 2e-3, save: 0}
END
"$pare" train kept.yaml >out.log 2>&1 || fail "$(cat out.log)"
below "$(field kept/run.json kl_after)" "$(field kept/run.json kl_before)" "KL with teacher_top"
survives kept.yaml kept
says 'or take teacher_top: 0' "$pare" train kept.yaml --output x --set train.jsd=1

# A state of other settings is refused, and a damaged one is worth nothing.
begin scratch.yaml --output other --set train.tokens=100000000
kill -TERM $!
wait $! || [ $? -eq 130 ] || [ $? -eq 143 ] || fail "no exit code 130: $(cat out.log)"
grep -q 'the same command continues here' out.log || fail "nothing said of continuing"
[ -s other.partial/training.state ] || fail "no state was saved"
says 'its recipe says "rate: 0.005"' "$pare" train scratch.yaml --output other --dry-run \
    --set train.tokens=100000000 --set train.rate=0.001
says 'give its command (pare train) again, which goes on and makes other' "$pare" inspect other.partial
says 'its recipe says "rate: 0.005"' "$pare" train scratch.yaml --output other \
    --set train.tokens=100000000 --set train.rate=0.001
printf 'x' | dd of=other.partial/training.state bs=1 seek=4000 conv=notrunc 2>/dev/null
begin scratch.yaml --output other --set train.tokens=100000000
kill -KILL $!
wait $! && fail "the training ended before it was killed"
grep -q 'is damaged: training begins anew' out.log || fail "a damaged state: $(cat out.log)"
"$pare" train scratch.yaml --output other --restart >/dev/null 2>&1
same scratch other

# An interrupted run loses no step, whatever "save" says; one whose model or teacher was touched ends
# with an error, and loses none either.
for turn in first second; do
    begin scratch.yaml --output late --set train.tokens=100000000 --set train.save=10
    kill -TERM $!
    wait $! && fail "the training ended before it was interrupted"
done
grep -q 'continues after step' out.log || fail "an interrupted run begins anew: $(cat out.log)"
for of in kept narrow; do
    for turn in 1 2 3 4 5; do # one that is over when its file is touched does not count
        rm -rf touched-$of
        begin $of.yaml --output touched-$of --set train.tokens=65536
        touch scratch/model.safetensors
        wait $! || break
    done
    [ ! -d touched-$of ] || fail "a touched file is not noticed: $of"
    grep -q 'changed while it was in use' out.log || fail "$of: $(cat out.log)"
    "$pare" train $of.yaml --output touched-$of --set train.tokens=65536 >out.log 2>&1 || fail "$(cat out.log)"
    grep -q 'continues after step' out.log || fail "$of begins anew: $(cat out.log)"
done

# A student of some blocks, taught by the whole: closer to it than one that has no teacher.
cat >student.yaml <<END
pare: 1
model: "$demo/hedge"
blocks: 3
output: student
data: {text: ["$demo/calibration.txt"], window: 128, held_out: 8}
train: {kl: 1, ce: 0, tokens: 16384, batch: 8, rate: 5e-4}
END
"$pare" train student.yaml >out.log 2>&1
below "$(field student/run.json kl_after)" "$(field student/run.json kl_before)" "KL after training"
"$pare" train student.yaml --output worse --set train.kl=0 --set train.ce=1 --set blocks=6 --set train.rate=0.02 \
    --set train.tokens=4096 >out.log 2>&1 || fail "$(cat out.log)"
grep -q 'warning: training made it worse' out.log || fail "nothing said of a worse model: $(cat out.log)"
grep -q 'step 1 of .*(after ' out.log || fail "no time in: $(cat out.log)"
grep -q '^  *"training made it worse' worse/run.json || fail "run.json has no warning: $(cat worse/run.json)"
grep -q '^Warning: training made it worse' worse/README.md || fail "README.md has no warning"
grep -q '"warnings": \[\]' student/run.json || fail "run.json of a good training warns"
code=0
"$pare" train student.yaml --output strict --set train.kl=0 --set train.ce=1 --set blocks=6 --set train.rate=0.02 \
    --set train.tokens=1024 --set data.held_out=1 --strict >out.log 2>&1 || code=$?
[ $code = 3 ] || fail "--strict after a training that did harm: exit code $code: $(cat out.log)"
grep -q 'warning: training: what it trained is judged on 1 window held out' out.log || fail "$(cat out.log)"

# A student that the text takes away from its teacher is told of, though its perplexity is better.
code=0
"$pare" train student.yaml --output astray --set model=student --set teacher="\"$demo/hedge\"" --set train.kl=0.001 \
    --set train.ce=1 --set train.rate=3e-4 --set train.tokens=4096 --strict >out.log 2>&1 || code=$?
[ $code = 3 ] || fail "--strict away from the teacher: exit code $code: $(cat out.log)"
below "$(field astray/run.json perplexity_after)" "$(field astray/run.json perplexity_before)" "perplexity"
grep -q '^Warning: training took it away from its teacher: KL 0' astray/README.md || fail "$(cat out.log)"
grep -q '^output: ' student/recipe.yaml || fail "$(cat student/recipe.yaml)"
grep -q '^output: ' astray/recipe.yaml && fail "another output: $(cat astray/recipe.yaml)"
grep -q '"file": "teacher/model.safetensors"' astray/manifest.json || fail 'the manifest does not name the teacher'
"$pare" diff student astray >out.log 2>&1 || fail "$(cat out.log)"
grep -q '^the models that they were made of differ$' out.log || fail "$(cat out.log)"
grep -q 'the teachers differ' out.log && fail "both have one teacher: $(cat out.log)"
grep -q '^windows held out: perplexity  *1[0-9.]*  *1[0-9.]*$' out.log || fail "$(cat out.log)"
"$pare" train student.yaml --output x --set data.held_out=1 --dry-run --format json >dry.json 2>out.log || fail "$(cat out.log)"
grep -q '"training: what it trained is judged on 1 window' dry.json || fail "a plan without its warning: $(cat dry.json)"
says 'take a smaller batch, a smaller window, fewer blocks, "moments: 8bit", or more' \
    "$pare" train student.yaml --output x --ram-limit 40MiB
says 'take a smaller window, fewer blocks, or more memory' \
    "$pare" train student.yaml --output x --ram-limit 40MiB --set train.batch=1 --set train.moments=8bit
grep -q '"num_hidden_layers": 3' student/config.json || fail "config.json has other blocks"
"$pare" verify student >/dev/null || fail "verify does not accept student"
"$pare" train student.yaml --output alone --set train.kl=0 --set train.ce=1 \
    --set 'teacher='"$demo/hedge" >out.log 2>&1 && fail "a teacher without a loss is taken"
grep -q 'no loss compares with it' out.log || fail "$(cat out.log)"
# An own teacher of another depth, and hidden states beside it.
"$pare" train student.yaml --output again --model student --set blocks=2 \
    --set "teacher=$demo/hedge" --set train.hidden=1 --set train.tokens=2048 >out.log 2>&1 ||
    fail "an own teacher: $(cat out.log)"

# Zeros of a pruned model stay where the recipe says so, and nowhere else.
cat >pruned.yaml <<END
pare: 1
model: "$demo/hedge"
output: pruned
passes: [magnitude: {sparsity: 0.5}]
evaluate: [perplexity: {text: "$demo/evaluation.txt", window: 128, limit: 2}]
export: [{format: safetensors, path: plain}]
END
"$pare" compress pruned.yaml >out.log 2>&1 || fail "compress: $(cat out.log)"
zeros() { od -An -v -t x2 -w2 "$1/model.safetensors" | grep -c '^ *[08]000'; }
for keep in true false; do
    "$pare" train student.yaml --model plain --output "keep-$keep" --set blocks=6 \
        --set "keep_zeros=$keep" --set train.ce=1 --set train.tokens=2048 >out.log 2>&1 || fail "$(cat out.log)"
done
below 1000000 "$(zeros plain)" "zeros of a pruned model"
[ "$(zeros keep-true)" -ge "$(zeros plain)" ] || fail "zeros were trained away"
below "$(zeros keep-false)" 100000 "zeros without keep_zeros"

# A plan takes time, memory and disk, and leaves nothing behind.
"$pare" train scratch.yaml --dry-run --output untouched --format json >plan.json 2>out.log || fail "$(cat out.log)"
below 0 "$(field plan.json step_seconds)" "seconds of a step"
below 1000000 "$(field plan.json memory_bytes)" "memory of a plan"
[ -z "$(ls -d untouched* 2>/dev/null)" ] || fail "--dry-run leaves $(ls -d untouched*)"

# Bad input, in words.
says '"config" and "model" exclude each other' "$pare" train scratch.yaml --set model=hedge
says 'leave one out' "$pare" train scratch.yaml --model "$demo/hedge" --output x
says '--tokenizer gives a tokenizer' "$pare" train scratch.yaml --tokenizer "$demo/hedge" --output x
says 'hedge: the teacher has a vocabulary of 4096 tokens and the model one of 400' \
    "$pare" train narrow.yaml --output x --set "teacher=$demo/hedge"
says '"blocks" needs "model"' "$pare" train scratch.yaml --set blocks=1
says 'is one of "pare compress"' "$pare" train pruned.yaml
says 'is one of "pare train"' "$pare" plan scratch.yaml
says 'takes a whole number from 257' "$pare" train scratch.yaml --set vocabulary=100
says 'name one with "teacher: PATH"' "$pare" train scratch.yaml --output x --set train.kl=1
says 'above the context of the model' "$pare" train scratch.yaml --output x --set data.window=999
says 'give more, a smaller window' "$pare" train scratch.yaml --output x --set data.held_out=60000
says 'all losses have weight 0' "$pare" train scratch.yaml --output x --set train.ce=0
says 'unknown key "aware" in train' "$pare" train scratch.yaml --set train.aware=true
says 'there is no such file' "$pare" train scratch.yaml --output x --set data.text=none.txt
says 'of the recipe allows 1.00 MiB' "$pare" train scratch.yaml --output x --set limits.ram=1MiB
says '"blocks" is 9, and the model has 6' "$pare" train student.yaml --output x --set blocks=9
printf 'pare: 1\nmodel: x\noutput: y\n' >nodata.yaml
says '"data" is missing' "$pare" train nodata.yaml
cat >itself.yaml <<END
pare: 1
model: "$demo/hedge"
output: x
data: {text: ["$demo/calibration.txt"]}
train: {kl: 1, ce: 0}
END
says 'would learn only from itself' "$pare" train itself.yaml
says 'would learn only from itself' "$pare" train itself.yaml --set blocks=6
[ ! -e x ] && [ ! -e x.partial ] || fail "a refused job left files"
echo "train.sh: good"
