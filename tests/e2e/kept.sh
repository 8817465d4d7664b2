#!/bin/sh
# Statistics kept in HDF5 and read again, as users do it: kept.sh PARE DEMO MAKE_FAMILY
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") make=$(realpath "$3") here=$(realpath "$(dirname "$0")")
[ -x "${pare%/*}/pare-hdf5" ] || { echo "e2e.kept: skipped: this pare has no pare-hdf5"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "kept.sh: $*" >&2
    exit 1
}

# recipe NAME CALIBRATION PASSES: NAME.yaml, whose output is NAME
recipe() {
    printf 'pare: 1\nmodel: %s\noutput: %s\ncalibration: {%s}\npasses: %s\n%s\n' \
        "$model" "$1" "$2" "$3" "${extra:-}" >"$1.yaml"
}

# run CODE NAME [OPTION...]: pare compress NAME.yaml ends with that code
run() {
    want=$1 name=$2 code=0
    shift 2
    "$pare" compress "$name.yaml" "$@" >"$name.log" 2>&1 || code=$?
    [ "$code" = "$want" ] || fail "compress $name $*: exit $code, not $want: $(cat "$name.log")"
}

# refuses CODE TEXT NAME [OPTION...]
refuses() {
    want=$1 text=$2
    shift 2
    run "$want" "$@"
    grep -q -- "$text" "$1.log" || fail "$1: no \"$text\": $(cat "$1.log")"
}

same() { cmp "$1" "$2" >&2 || fail "$1 and $2 differ"; }
packed() { same "$1/packed-00001-of-00001.safetensors" "$2/packed-00001-of-00001.safetensors"; }

. "$here/blocks.sh"
model=$work/hedge
data="text: [$demo/calibration.txt], samples: 32, window: 64"
gptq='[gptq: {bits: 4, group: 64}]'
extra='evaluate: held_out'

# The job that keeps comes to the bytes of those that read what it kept, whatever the threads.
recipe keep "$data, keep: s.h5" "$gptq"
recipe from 'from: s.h5' "$gptq"
run 0 keep --threads 2
[ ! -e s.h5.partial ] || fail "s.h5.partial is left"
run 0 from --threads 3
packed keep from
if grep -q 'warning: calibration' from.log; then fail "too little: $(cat from.log)"; fi
grep -q 'KL .*(calibration windows held out)' from.log || fail "from: $(cat from.log)"
cp s.h5 first.h5
rm -r keep s.h5
run 0 keep --threads 1
same s.h5 first.h5
packed keep from
"$pare" plan keep.yaml --output planned | grep -q 's.h5: no activations' || fail "plan keep"
run 0 keep # is complete, and stays
"$pare" compress from.yaml 2>&1 | grep -q 'already complete' || fail "from is not complete"

# What is gathered in front of the first loss is what a job without a file sees: the first block.
one='[gptq: {bits: 3, group: 64, correct: none, targets: "*.layers.0.*"}]'
recipe plain "$data" "$one"
recipe first 'from: s.h5' "$one"
run 0 plain
run 0 first
packed plain first
recipe plain "$data" '[awq: {targets: "*.layers.0.*"}, rtn: {bits: 4, group: 64, targets: "*.layers.0.*"}]'
sed "s/^calibration:.*/calibration: {from: s.h5}/; s/^output:.*/output: first/" plain.yaml >first.yaml
run 0 plain --restart --set calibration.token_weights=even
rm -r first
run 0 first
extra=''

# Many settings from one file; what needs more is refused before any work.
for passes in '[gptq: {bits: 3}]' '[gptq: {bits: 2, group: 32}]' '[wanda]' \
    '[sparsegpt, gptq: {bits: 8}]' '[wanda: {ratios: owl}]' '[llm_int8]' '[billm]' '[atom]' \
    '[smoothquant, rtn: {bits: 8, group: row, activations: int8_token}]' \
    '[squeezellm]' '[permute, ria: {pattern: "2:4"}]' \
    '[rtn: {bits: 8, group: row, activations: int8_tensor}]'; do
    recipe many 'from: s.h5' "$passes"
    rm -rf many
    run 0 many
    if grep -q 'weighing\|carrying' many.log; then fail "$passes: activations pass: $(cat many.log)"; fi
done
for passes in '[omniquant, rtn]' '[signround, rtn]' '[rotate, gptq]' '[gptq: {correct: gptaq}]' \
    '[gptq: {tune: true}]' '[gptq: {true_sequential: true}]' '[wanda: {ratios: search}]' \
    '[wanda: {stability: 2}]' '[depth: {blocks: 1}]' '[wanda, distill]' '[budget: {bits: 4}]'; do
    recipe none 'from: s.h5' "$passes"
    if "$pare" plan none.yaml >none.log 2>&1; then fail "$passes is planned"; fi
    grep -q 'does not work from statistics that are kept' none.log || fail "$passes: $(cat none.log)"
done
recipe none 'from: s.h5' '[outlier_suppression, rtn: {bits: 8}]'
refuses 2 'keep statistics with token_weights: even' none
recipe none 'from: s.h5, window: 64' "$gptq"
refuses 2 'leave "window" out' none
recipe none 'from: t.h5' "$gptq"
refuses 2 't.h5: no such file; "keep: t.h5" beside the data' none
for from in other.dat empty.dat; do # neither HDF5 nor an importance matrix
    rm -f "$from"
    printf %s "${from#empty.dat}" >"$from"
    recipe none "from: $from" "$gptq"
    refuses 4 "$from: is .*, and no statistics that pare kept (an HDF5 file); nor does it begin as an importance matrix" none
done

# What is there is not written over: another calibration, a file of somebody else.
recipe other "text: [$demo/calibration.txt], samples: 31, window: 64, keep: s.h5" "$gptq"
refuses 2 'kept for another job: samples: "32" there, "31" here; give "keep" another name' other
"$pare" plan other.yaml 2>&1 | grep -q 'samples: "32" there, "31" here' || fail "plan takes s.h5"
same s.h5 first.h5
recipe other "$data, keep: own.h5" "$gptq"
echo mine >own.h5.partial
refuses 2 'own.h5.partial: is in the way' other
[ "$(cat own.h5.partial)" = mine ] || fail "own.h5.partial was written to"
rm own.h5.partial
echo mine >own.h5
refuses 4 'own.h5: is another kind of file, and no statistics that pare kept.*; give "keep" another name, or remove the file' other
"$pare" plan other.yaml 2>&1 | grep -q 'give "keep" another name' || fail "plan takes own.h5"
[ "$(cat own.h5)" = mine ] || fail "own.h5 was written to"

# Its folders are made as those of an output are: not through a file, and not left behind without one.
recipe other "$data, keep: own.h5/s.h5" "$gptq"
refuses 2 'the path leads through .*own.h5, which is no directory' other
long=$(printf "%0250d" 0) # a file may have it, and the one in the making has no room for its end
recipe other "$data, keep: folder/in/$long" "$gptq"
run 4 other
grep -q "$long.partial: cannot" other.log || fail "$(cat other.log)"
[ ! -e folder ] || fail "folders of a file that is not there are left"
rm -rf own.h5 other
recipe other "$data, keep: folder/in/s.h5" "$gptq"
run 0 other
[ -f folder/in/s.h5 ] || fail "no folder/in/s.h5"
# What is there is only read, also from a folder that nobody writes to.
if [ "$(id -u)" != 0 ]; then
    chmod 555 folder/in
    run 0 other --restart
    chmod 755 folder/in
fi
rm -rf folder other


# Statistics are no part of a model: neither of the output and its unfinished work, nor of others.
mkdir aside
cp "$model"/* aside/
for place in placed/s.h5 placed.partial/s.h5 placed placed.partial placed.replaced/s.h5 \
    x/../placed/s.h5 aside/s.h5 e/s.h5 e e.partial/s.h5; do
    recipe placed "$data, keep: $place" "$gptq"
    echo 'export: [{format: gptq, path: e}]' >>placed.yaml
    refuses 2 'keep statistics in another folder' placed --model aside
done
ln -s nothing.h5 link.h5
recipe placed "$data, keep: link.h5" "$gptq"
refuses 2 'link.h5: is a link to nothing' placed
rm -r aside link.h5
[ -z "$(ls -d placed* nothing* e e.partial 2>/dev/null | grep -v '^placed\.\(yaml\|log\)$')" ] || fail "left: $(ls)"


# Disk is counted where it is taken.
if [ -d /dev/shm ] && [ "$(stat -c %d /dev/shm)" != "$(stat -c %d .)" ]; then
    disk() { "$pare" plan "$1.yaml" --format json | sed -n 's/.*"disk_bytes": *\([0-9]*\).*/\1/p'; }
    recipe here "$data, keep: disk.h5" "$gptq"
    recipe there "$data, keep: /dev/shm/pare-e2e-kept-$$.h5" "$gptq"
    [ "$(disk here)" -gt $(($(disk there) + 1000000)) ] || fail "disk: $(disk here) here, $(disk there)"
fi

# Nothing to keep is said; a fallback has statistics of its own for another calibration.
recipe idle "$data, keep: idle.h5" '[rtn: {bits: 8}]'
"$pare" plan idle.yaml | grep -q 'note  *"keep" does nothing' || fail "plan idle"
"$pare" plan idle.yaml --format json | grep -q '"\\"keep\\" does nothing' || fail "plan idle --json"
run 0 idle
grep -q '"keep" does nothing: no step of this recipe is calibrated' idle.log || fail "$(cat idle.log)"
[ ! -e idle.h5 ] || fail "idle.h5 is there"
extra='evaluate: held_out
require: {kl: "<= 1e-9"}
fallback: [{calibration.samples: 16}]'
recipe back "$data, keep: back.h5" "$gptq"
refuses 2 'back.yaml:8:.*give it a calibration.keep of its own' back
[ ! -e back.h5 ] || fail "back.h5 is there"
extra=$(echo "$extra" | sed 's/16}/16, calibration.keep: back16.h5}/')
recipe back "$data, keep: back.h5" "$gptq"
"$pare" plan back.yaml >back.log 2>&1 || fail "plan back: $(cat back.log)"
run 6 back
[ -e back.h5 ] && [ -e back16.h5 ] || fail "back: $(ls): $(cat back.log)"

extra='evaluate: held_out'
# ends NAME FILE BYTES DONE: kills the job once FILE has so many bytes. A kill that comes when DONE is there
# was too late, and the job begins again.
ends() {
    for turn in 1 2 3 4 5 6 7 8 9; do
        rm -rf "$1" "$1.partial" "$4" "$4.partial"
        "$pare" compress "$1.yaml" --threads 1 >"$1.log" 2>&1 &
        job=$!
        while [ "$(stat -c %s "$2" 2>/dev/null || echo 0)" -lt "$3" ] && [ ! -e "$4" ]; do
            kill -0 $job 2>/dev/null || [ -e "$4" ] || fail "$1 ended: $(cat "$1.log")"
            sleep 0.02
        done
        kill -9 $job 2>/dev/null || true
        wait $job 2>/dev/null || true
        [ -e "$4" ] || return 0
    done
    fail "every kill came too late: $(ls)"
}

# Ended in the middle: what is left is made anew, and comes to the same.
recipe killed "$data, keep: killed.h5" "$gptq"
ends killed killed.h5.partial 100000 killed.h5
[ -e killed.h5.partial ] || fail "not ended in the middle: $(ls)"
run 0 killed
same killed.h5 first.h5
packed killed from
[ ! -e killed.h5.partial ] || fail "killed.h5.partial is left"

# Ended between two blocks: the job goes on with the same file, and with no other one.
recipe resumed 'from: killed.h5' "$gptq"
ends resumed resumed.partial/journal 6000 resumed
[ -d resumed.partial ] || fail "not ended between two blocks: $(cat resumed.log)"
recipe other "text: [$demo/calibration.txt], samples: 32, window: 64, token_weights: even, keep: o.h5" "$gptq"
run 0 other
recipe later "$data, keep: later.h5" "$gptq"
refuses 2 'the unfinished run is not this job' later --output resumed
[ ! -e later.h5 ] || fail "statistics were kept for a job that does not run"
refuses 2 'statistics xxh3' resumed --set calibration.from=o.h5
run 0 resumed
grep -q 'continuing: . of 3 blocks are done' resumed.log || fail "resumed: $(cat resumed.log)"
packed resumed from

# How far two calibrations are apart; a file is none from itself.
"$pare" diff s.h5 s.h5 | grep -q '^median  *0  *0$' || fail "s.h5 differs from itself"
"$pare" diff s.h5 o.h5 >diff.log || fail "diff"
grep -q '^block 0 attention  *0\.[0-9]*  *0  *2048  *2048$' diff.log || fail "diff: $(cat diff.log)"
if "$pare" diff s.h5 hedge >diff.log 2>&1; then fail "a file of statistics against a model"; fi
escape=$(printf '\033')
mkdir odd
cp "$model"/* odd/
mv odd/model.safetensors "odd/model-$escape[31m.safetensors"
recipe odd1 "$data, keep: odd.h5" '[gptq: {bits: 4, group: 64, targets: "*.layers.0.*"}]'
run 0 odd1 --model "odd/model-$escape[31m.safetensors"
"$pare" inspect odd.h5 >inspect.log
"$pare" diff odd.h5 s.h5 >>inspect.log
if grep -q "$escape" inspect.log; then fail "a terminal gets escapes: $(cat -v inspect.log)"; fi
[ "$(grep -c 'model-?\[31m' inspect.log)" = 2 ] || fail "odd.h5: $(cat -v inspect.log)"
"$pare" inspect s.h5 | grep -q '^calibration  *32 windows of 64 tokens' || fail inspect
"$pare" verify s.h5 >verify.log 2>&1 || fail "verify: $(cat verify.log)"

# Two at once: one makes the file, the other waits.
recipe twin1 "$data, keep: twin.h5" "$gptq"
recipe twin2 "$data, keep: twin.h5" "$gptq"
"$pare" compress twin1.yaml --threads 1 >twin1.log 2>&1 &
job=$!
run 0 twin2 --threads 1
wait $job || fail "twin1: $(cat twin1.log)"
[ "$(cat twin1.log twin2.log | grep -c 'model are kept in')" = 1 ] || fail "made twice, or never"
same twin.h5 first.h5
packed twin1 from
packed twin2 from

# A batch whose jobs share it.
cat >batch.yaml <<END
pare: 1
recipe: base.yaml
matrix: {method: [gptq, nf4, wanda], model: [$model]}
END
sed 's/killed.h5/batch.h5/' killed.yaml >base.yaml
"$pare" batch batch.yaml --output batch >batch.log 2>&1 || fail "batch: $(cat batch.log)"
[ "$(cat batch/*.log | grep -c 'model are kept in')" = 1 ] || fail "batch: $(cat batch/*.log)"
same batch.h5 first.h5

# Another model of the same shape, and a file that was damaged.
mkdir changed
cp "$model"/* changed/
size=$(stat -c %s changed/model.safetensors)
printf '\001' | dd of=changed/model.safetensors bs=1 seek=$((size - 8)) conv=notrunc 2>/dev/null
recipe wrong 'from: s.h5' "$gptq"
refuses 4 's.h5: statistics of another model: model: "model.safetensors xxh3' wrong --model changed
"$pare" plan wrong.yaml --model changed >out.log 2>&1 || fail "the configuration is that of s.h5: $(cat out.log)"
echo >>changed/config.json
code=0
"$pare" plan wrong.yaml --model changed >out.log 2>&1 || code=$?
[ $code = 4 ] && grep -q 'another model: model: "config.json xxh3' out.log || fail "plan takes another configuration: $(cat out.log)"
cp s.h5 damaged.h5
size=$(stat -c %s damaged.h5)
printf '\377\377\377\377' | dd of=damaged.h5 bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
recipe wrong 'from: damaged.h5' "$gptq"
refuses 4 'damaged.h5: block0000.*: its data cannot be read' wrong

# Families: experts, with dense blocks between, biases, blocks with both halves side by side.
extra=''
for family in mixtral qwen3_moe llama4_text gpt2 gpt_neox; do
    rm -rf model tokens.i32 f.h5 fkeep ffrom fplain
    "$make" $family model
    "$pare" generate model --tokens 60 --count 6 --seed 1 --output tokens.i32 >/dev/null 2>&1
    model=model
    recipe fkeep 'tokens: tokens.i32, samples: 8, window: 32, keep: f.h5' '[gptq: {bits: 4, group: 32}]'
    recipe ffrom 'from: f.h5' '[gptq: {bits: 4, group: 32}]'
    run 0 fkeep
    run 0 ffrom
    packed fkeep ffrom
    "$pare" inspect f.h5 >inspect.log 2>&1 || fail "inspect f.h5: $(cat inspect.log)"
    case $family in # below three tokens for each of 64 inputs they saw others besides
    mixtral | qwen3_moe) grep -q '^experts  *below [0-9]* tokens: fill$' inspect.log || fail "$(cat inspect.log)" ;;
    gpt2) ! grep -q '^experts' inspect.log || fail "$(cat inspect.log)" ;;
    esac
    "$pare" verify f.h5 >verify.log 2>&1 || fail "verify f.h5: $(cat verify.log)"
    if [ $family = llama4 ]; then # experts in block 1 alone
        [ "$(grep -ao 'block0000._expert' f.h5 | sort -u)" = block00001_expert ] || fail 'dense blocks have experts'
    fi
    refuses 4 's.h5: statistics of another model' ffrom --set calibration.from=s.h5 --output none
    if [ $family = mixtral ]; then # a plan knows neither windows nor repeats, on which min_tokens: auto depends
        head -c 896 tokens.i32 >part.i32
        cat part.i32 part.i32 part.i32 >again.i32
        rm -f f.h5
        recipe fagain 'tokens: again.i32, samples: all, window: 32, keep: f.h5' '[gptq: {bits: 4, group: 32}]'
        run 0 fagain
        "$pare" plan fagain.yaml --output other >plan.log 2>&1 || fail "plan of kept statistics: $(cat plan.log)"
    fi
done
echo "e2e.kept: passed"
