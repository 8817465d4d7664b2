#!/bin/sh
# What pare train says and does when something is wrong: train_faults.sh PARE DEMO
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

. "$here/train_checks.sh"

# trains ARGUMENT...: it does, with what it says in out.log
trains() { "$pare" train "$@" >out.log 2>&1 || fail "$* $(cat out.log)"; }

# poke FILE TENSOR OCTAL: four bytes at the beginning of a tensor of a safetensors file
poke() {
    head=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    at=$(dd if="$1" bs=1 skip=8 count="$head" 2>/dev/null | sed "s/.*\"$2\":{[^}]*\"data_offsets\":\[\([0-9]*\),.*/\1/")
    # shellcheck disable=SC2059
    printf "$3" | dd of="$1" bs=1 seek=$((8 + head + at)) conv=notrunc 2>/dev/null
}

head -c 8000 "$demo/evaluation.txt" >few.txt

# A config.json: its tokens are those of the tokenizer that is trained, whatever it was written for; what no
# model can have is refused.
sed 's/"vocab_size"/"bos_token_id": 1, "eos_token_id": [2, 90000], "pad_token_id": 3, &/' config.json >tokens.json
trains scratch.yaml --output tokens --set config=tokens.json --set train.tokens=1024
[ "$(grep -c '_token_id' tokens/config.json)" = 2 ] || fail "$(cat tokens/config.json)"
grep -q '"bos_token_id": 0,' tokens/config.json || fail "$(cat tokens/config.json)"
grep -q '"eos_token_id": 0\b' tokens/config.json || fail "$(cat tokens/config.json)"
sed 's/vocabulary: 400/tokenizer: tokens/' scratch.yaml >given.yaml
trains given.yaml --output given --set config=tokens.json --set train.tokens=1024
grep -q 'warning: .*eos_token_id' out.log || fail "nothing said of a token beyond the vocabulary: $(cat out.log)"
for range in -1 0 1.5 1e9 '"x"'; do
    sed "s/\"vocab_size\"/\"initializer_range\": $range, &/" config.json >range.json
    says 'initializer_range is the deviation of random weights' "$pare" train scratch.yaml --output x --set config=range.json
done
sed 's/"vocab_size": 400/"vocab_size": 300/' config.json >small.json
says 'scratch.yaml:3:13: "vocabulary" is 400, above "vocab_size" of ./small.json, which is 300' \
    "$pare" train scratch.yaml --output x --set config=small.json
# Of a model of texts and images it is the text part that counts.
echo '{"model_type": "llama4", "text_config": {}}' >llama4.json
says 'llama4.json: pare does not train models of type llama4_text: it has attention in chunks (it trains llama, ' \
    "$pare" train scratch.yaml --output x --set config=llama4.json
[ ! -e x ] && [ ! -e x.partial ] || fail "a refused job left files"
cat >gemma3.json <<END
{"model_type": "gemma3", "text_config": {"vocab_size": 400, "hidden_size": 32, "intermediate_size": 64, "head_dim": 8,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}}
END
trains scratch.yaml --output gemma3 --set config=gemma3.json --set train.tokens=1024
grep -q '"model_type": "gemma3_text"' gemma3/config.json || fail "$(cat gemma3/config.json)"

# A weight that F16 cannot hold: the training is not lost, and ends in another type, to the same bytes as one
# that had it from the start. The token of the weight is in no text.
sed -i 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' config.json
trains scratch.yaml --set train.tokens=1024
mkdir model
cp scratch/config.json scratch/model.safetensors scratch/tokenizer.json scratch/tokenizer_config.json model
poke model/model.safetensors model.embed_tokens.weight '\000\120\303\107' # 100000
cat >large.yaml <<END
pare: 1
model: model
output: large
dtype: f16
data: {text: ["$demo/calibration.txt"], window: 64}
train: {tokens: 4096, batch: 8, rate: 1e-3, weight_decay: 0}
END
says 'model.embed_tokens.weight: its largest weight is 1e+05, which F16 cannot hold' "$pare" train large.yaml
grep -q 'the same command with "dtype: f32" (or bf16) ends it' out.log || fail "$(cat out.log)"
: >large.partial/model-00001-of-00002.safetensors # as a run that wrote more would leave it
trains large.yaml --set dtype=bf16 --set train.save=3
grep -q 'continues after step 8 of 8' out.log || fail "another dtype begins anew: $(cat out.log)"
trains large.yaml --set dtype=bf16 --output whole --set train.save=3
same large whole
"$pare" verify large >/dev/null || fail "verify does not accept large"
code=0
"$pare" train large.yaml --set dtype=bf16 --set train.save=3 >out.log 2>&1 || code=$?
[ $code = 2 ] || fail "a finished job exits with $code"
[ ! -e large/model-00001-of-00002.safetensors ] || fail "what an earlier run wrote stays"
trains scratch.yaml --output half --set dtype=f16 --set train.tokens=1024
cat >adapters.yaml <<END
pare: 1
model: half
output: adapted
lora: {rank: 1, alpha: 1e6, targets: [v_proj]}
data: {text: ["$demo/calibration.txt"], window: 64}
train: {tokens: 512, batch: 8, rate: 1}
END
says 'which F16 cannot hold; the training is saved, and the same command with "dtype: f32" ends it' \
    "$pare" train adapters.yaml
trains adapters.yaml --set dtype=f32
grep -q 'continues after step 1 of 1' out.log || fail "another dtype begins anew: $(cat out.log)"

cp -r model infinite
poke infinite/model.safetensors model.embed_tokens.weight '\000\000\200\177'
says './infinite: model.embed_tokens.weight: weight 0 is inf' "$pare" train large.yaml --output x --set model=infinite
grep -q '"nan: zero" is for pare compress alone' out.log || fail "$(cat out.log)"
rm -r x.partial

# Another text held out, or another tokenizer of the same tokens, is another training.
"$pare" tokenize model --text "$demo/calibration.txt" --output all.i32 >/dev/null 2>&1 || fail "tokenize"
head -c 25600 all.i32 >some.i32
cp some.i32 other.i32
# the first window is held out
head -c 8 all.i32 | tail -c 4 | dd of=other.i32 conv=notrunc 2>/dev/null
cat >other.yaml <<END
pare: 1
model: model
output: other
data: {tokens: some.i32, window: 64, held_out: 4}
train: {tokens: 100000000, batch: 8, rate: 1e-3, save: 0}
END
begin other.yaml
kill -TERM $!
wait $! && fail "the training ended before it was interrupted"
says 'training.state.tmp: cannot write: ' sh -c 'ulimit -f 64; exec "$@"' sh "$pare" train other.yaml
grep -q '; the state of step [1-9][0-9]* of 195313 is saved: once the disk has room, the same command ' out.log ||
    fail "nothing said of the state: $(cat out.log)"
says 'tokens held out was' "$pare" train other.yaml --set data.tokens=other.i32
echo '{}' >model/special_tokens_map.json
says "special_tokens_map.json" "$pare" train other.yaml
rm model/special_tokens_map.json
sed -i 's/"<|endoftext|>"/"<|end|>"/g' model/tokenizer_config.json
says "it has other bytes in the model's tokenizer_config.json" "$pare" train other.yaml

# Work of the other command stays, in a run and in a plan, until that command goes on with it.
cat >squeezed.yaml <<END
pare: 1
model: "$demo/hedge"
output: squeezed
calibration: {text: ["$demo/calibration.txt"], samples: 16, window: 128}
passes: [gptq: {bits: 4, group: 64}]
END
"$pare" compress squeezed.yaml --output mixed >out.log 2>&1 &
until ls mixed.partial/packed-* >/dev/null 2>&1; do
    kill -0 $! 2>/dev/null || fail "no work of compress: $(cat out.log)"
    sleep 0.01
done
kill -KILL $!
wait $! && fail "compress ended before it was killed"
cksum mixed.partial/* >before
for plan in '' --dry-run; do
    refuses 'mixed.partial: holds an unfinished run of pare compress, and this is pare train. The command of' \
        "$pare" train scratch.yaml --output mixed $plan
    cksum mixed.partial/* | cmp before - || fail "train${plan:+ }$plan changed the work of compress"
done
trains scratch.yaml --output mixed --dry-run --restart
"$pare" compress squeezed.yaml --output mixed >out.log 2>&1 || fail "compress does not go on: $(cat out.log)"
for command in compress plan; do
    refuses 'other.partial: holds an unfinished run of pare train, and this is pare compress. The command of' \
        "$pare" $command squeezed.yaml --output other
done
[ -s other.partial/training.state ] || fail "compress removed the state of a training"

# A plan refuses what the run does: what lies in the place of the work, an output that changed.
cp -r scratch changed
echo >>changed/README.md
mkdir notes.partial
echo mine >notes.partial/notes.txt
echo mine >file.partial
for plan in '' --dry-run; do
    refuses 'notes.partial/notes.txt: is no file of an artifact of pare' "$pare" train scratch.yaml --output notes $plan
    refuses 'file.partial: is no directory' "$pare" train scratch.yaml --output file $plan
    refuses 'changed/README.md: ' "$pare" train scratch.yaml --output changed --restart $plan
    grep -q 'pare replaces and removes only what it wrote and nobody changed' out.log || fail "$(cat out.log)"
done

# A run that was to replace an output goes on when that is gone.
cp -r scratch replaced
begin scratch.yaml --output replaced --restart --set train.tokens=100000000
kill -TERM $!
wait $! && fail "the training ended before it was interrupted"
rm -r replaced
begin scratch.yaml --output replaced --set train.tokens=100000000
kill -TERM $!
wait $! && fail "the training ended before it was interrupted"
grep -q 'continues after step' out.log || fail "begins anew: $(cat out.log)"

# A training whose output cannot have its name, when all else is done, loses no step either.
for turn in 1 2 3 4 5 6 7 8 9; do # one that has its name already does not count
    rm -rf taken
    begin scratch.yaml --output taken --set train.tokens=65536
    mkdir taken 2>/dev/null && break
    wait $! || fail "$(cat out.log)"
done
wait $! && fail "a training writes where something was put meanwhile"
waits='the finished artifact waits in taken.partial: taken: something was put there meanwhile'
grep -q "$waits; once that is moved away, the same command ends the run" out.log || fail "$(cat out.log)"
cp -r taken.partial left # what a kill leaves as soon as the output has its name
"$pare" verify left >out.log 2>&1 || fail "verify calls left damaged: $(cat out.log)"
says 'is finished' "$pare" train scratch.yaml --output left --set train.tokens=65536
[ ! -e left/training.state ] && [ ! -e left/journal ] || fail "left keeps its state"
rmdir taken
cp -r scratch taken # another finished one costs no training either
for plan in '' --dry-run; do
    refuses 'nothing lay at taken when the unfinished run began, and now a finished output does: move that away' \
        "$pare" train scratch.yaml --output taken --set train.tokens=65536 $plan
done
rm -r taken
trains scratch.yaml --output taken --set train.tokens=65536
grep -q 'continues after step 128 of 128' out.log || fail "begins anew: $(cat out.log)"
[ ! -e taken/training.state ] && [ ! -e taken/journal ] || fail "an output keeps its state"
"$pare" verify taken >/dev/null || fail "verify does not accept taken"

# A teacher or a draft whose vocabulary has the same size and other tokens.
trains scratch.yaml --output foreign --set train.tokens=1024 --set data.text=few.txt --set data.held_out=4
cat >taught.yaml <<END
pare: 1
model: scratch
teacher: scratch
output: taught
data: {text: ["$demo/calibration.txt"], window: 64}
train: {kl: 1, tokens: 1024, batch: 8}
END
trains taught.yaml
sed 's/teacher: scratch/teacher: foreign/' taught.yaml >untaught.yaml
says 'untaught.yaml:3:10: ./foreign: its tokenizer is another one' "$pare" train untaught.yaml --output x
says 'its tokenizer is another one' "$pare" train taught.yaml --output x --set teacher=foreign \
    --set data='{tokens: some.i32, window: 64}'
mkdir mute
cp taught/config.json taught/model.safetensors mute
trains taught.yaml --output mute-taught --set teacher=mute
grep -q 'mute has no tokenizer that pare reads' out.log || fail "$(cat out.log)"
says 'its tokenizer is another one' "$pare" eval scratch --text few.txt --window 64 --draft foreign
says 'its tokenizer is another one' "$pare" eval scratch --tokens some.i32 --window 64 --draft foreign
says 'its tokenizer is another one' "$pare" eval scratch --tokens some.i32 --window 64 --baseline foreign
"$pare" eval scratch --tokens some.i32 --window 64 --limit 2 --draft taught >out.log 2>&1 || fail "$(cat out.log)"
# Figures of too few tokens, and of a draft that overflows.
for window in 2 4; do
    "$pare" eval scratch --text few.txt --window $window --limit 2 --draft taught >out.log 2>&1 || fail "$(cat out.log)"
    grep -q 'nan' out.log && fail "$(cat out.log)"
    grep -q 'too few tokens for what is -' out.log || fail "$(cat out.log)"
done
"$pare" eval scratch --text few.txt --window 64 --limit 2 --draft taught >out.log 2>&1 || fail "$(cat out.log)"
grep -q 'too few' out.log && fail "$(cat out.log)"
mkdir overflows
cp taught/config.json taught/tokenizer.json taught/tokenizer_config.json taught/model.safetensors overflows
poke overflows/model.safetensors model.layers.0.mlp.down_proj.weight '\000\000\200\177' # infinite
says '--draft overflows: the logits of the draft behind token' "$pare" eval scratch --text few.txt --window 64 --draft overflows
# One of another vocabulary, whatever the loss compares; of other heads.
says 'the teacher has a vocabulary of 4096 tokens and the model one of 400' "$pare" train taught.yaml --output x \
    --set "teacher=$demo/hedge" --set train.kl=0 --set train.hidden=1
sed 's/"num_attention_heads": 4/"num_attention_heads": 6/' config.json >heads.json
trains scratch.yaml --output heads --set config=heads.json --set train.tokens=1024
says 'taught.yaml:6:8: the teacher has 6 heads of attention and the student 4' \
    "$pare" train taught.yaml --output x --set teacher=heads --set train.attention=1
[ ! -e x ] && [ ! -e x.partial ] || fail "a refused job left files"

# A plan knows that the teacher is asked only once of each window.
cat >top.yaml <<END
pare: 1
model: "$demo/hedge"
blocks: 1
output: top
data: {text: ["$demo/calibration.txt"], window: 128}
train: {kl: 1, ce: 0, tokens: 100000000, batch: 8}
END
for turn in 1 2 3 4 5; do # each plan measures the machine, which other work slows: the least seconds count
    for k in 0 64; do
        "$pare" train top.yaml --dry-run --format json --set train.teacher_top=$k >top.json 2>out.log || fail "$(cat out.log)"
        field top.json step_seconds >>top-$k
    done
done
below "$(sort -g top-64 | head -n 1)" "$(sort -g top-0 | awk 'NR == 1 { print 0.85 * $1 }')" "seconds of a step with teacher_top"

"$pare" train top.yaml --dry-run --set train.lambda=0.5 --set train.teacher_share=0.5 >out.log 2>&1 ||
    fail "no plan with teacher_share: $(cat out.log)"

# A byte order mark is no part of a text, nor of a tokenizer.
printf '\357\273\277' | cat - few.txt >marked.txt
for of in few marked; do
    trains scratch.yaml --output tokens-$of --set train.tokens=512 --set data.text=$of.txt --set data.held_out=1
    grep -q '(1 window held out)' out.log || fail "$(cat out.log)"
    grep -q ' 1 step$' out.log || fail "$(cat out.log)"
done
same tokens-few tokens-marked
cmp tokens-few/tokenizer.json tokens-marked/tokenizer.json || fail "a byte order mark is learned"

# A special token that stands in a text is that token.
printf '<|endoftext|>%.0s' 1 2 3 4 5 >ends.txt
says 'the data have 5 tokens' "$pare" train given.yaml --output x --set data.text=ends.txt

printf '<|endoftext|>' >end.txt
says 'the data have 1 token: 0 windows of 64, and 1 is held out' \
    "$pare" train given.yaml --output x --set data.text=end.txt --set data.held_out=1

# Data of no text have their place.
: >empty.txt
cat >empty.yaml <<END
pare: 1
model: "$demo/hedge"
output: x
calibration: {text: empty.txt, window: 64}
passes: [gptq: {bits: 4, group: 64}]
END
says 'empty.yaml:4:1: the calibration data has 0 tokens' "$pare" compress empty.yaml
says '--set calibration.samples=3: the calibration data has 0 tokens' "$pare" compress empty.yaml \
    --set calibration.samples=3

# A directory where a file is wanted; numbers with an exponent.
says './model: is a directory, and a file is wanted' "$pare" train scratch.yaml --output x --set data.text=model
says './model: is a directory, and a file is wanted' "$pare" train scratch.yaml --output x --set config=model
"$pare" train scratch.yaml --output x --set train.tokens=1.28e4 --dry-run >out.log 2>&1 || fail "$(cat out.log)"
grep -q '25 steps, 12800 tokens' out.log || fail "$(cat out.log)"
says '"tokens" is "1e13"; it takes a whole number from 1 to 1000000000000' "$pare" train scratch.yaml --output x --set train.tokens=1e13

# Of texts with weights the error of "windows" names the one that is too short.
cat >weighted.yaml <<END
pare: 1
model: "$demo/hedge"
output: weighted
calibration:
  text: [{path: "$demo/calibration.txt", weight: 3}, {path: few.txt, weight: 1}]
  samples: 16
  window: 128
passes: [magnitude: {sparsity: 0.5}, distill: {tokens: 1024, windows: 256}]
END
says '256 are 240 more than it calibrates on; 60 of them are of few.txt by its weight, which has' \
    "$pare" compress weighted.yaml

echo "train_faults.sh: good"
