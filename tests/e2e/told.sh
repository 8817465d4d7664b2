#!/bin/sh
# What commands say of files and settings that are easily told wrong: told.sh PARE DEMO
set -eu
pare=$(realpath "$1") demo=$(realpath "$2")
corpus=$(realpath "$(dirname "$0")/../fuzz/corpus/imatrix")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "told.sh: $*" >&2
    exit 1
}

# does ARGUMENT...: pare ends well, and out.log has what it said.
does() { "$pare" "$@" >out.log 2>&1 || fail "$*: $(cat out.log)"; }
# refuses CODE TEXT ARGUMENT...
refuses() {
    want=$1 text=$2 code=0
    shift 2
    "$pare" "$@" >out.log 2>&1 || code=$?
    [ "$code" = "$want" ] || fail "$*: exit $code, not $want: $(cat out.log)"
    grep -q -- "$text" out.log || fail "$*: no \"$text\": $(cat out.log)"
}
shows() { grep -q -- "$1" out.log || fail "no \"$1\" in: $(cat out.log)"; }
silent() { ! grep -q -- "$1" out.log || fail "\"$1\" in: $(cat out.log)"; }

# The recipe in an output begins where the first one lay, which may move together with the output.
mkdir -p first/recipes
cp -r "$demo/hedge" first/model
printf 'pare: 1\nmodel: ../model\noutput: ../out\npasses: [rtn: {group: 32}]\n' >first/recipes/job.yaml
does compress first/recipes/job.yaml --output first/made/own --set seed=3
mv first second
does plan second/made/own/recipe.yaml
silent '^evaluation'
does plan second/made/own/recipe.yaml --set "evaluate=[kl: {text: $demo/evaluation.txt, window: 64, limit: 8}, perplexity: {text: $demo/calibration.txt}]"
shows '^evaluation  *kl on .*evaluation.txt, windows of 64 tokens, the first 8$'
shows '^  *perplexity on .*calibration.txt, windows of 256 tokens$'
does plan second/made/own/recipe.yaml
shows '^output  *second/made/own/../../recipes/../out$'
shows 'made with 1 setting beside this recipe'
does compress second/made/own/recipe.yaml --set seed=3
cmp second/out/manifest.json second/made/own/manifest.json || fail 'another output'
cmp second/out/recipe.yaml second/made/own/recipe.yaml || fail 'another recipe'
rm -r second/out second/model
refuses 2 'second/made/own/recipe.yaml:2:8: .*second/made/own/../../recipes/../model: there is no such model' plan second/made/own/recipe.yaml

# No directory is made only for ".." to leave it.
printf 'pare: 1\nmodel: %s/hedge\noutput: none/../out\npasses: [fp8]\n' "$demo" >no.yaml
for command in plan compress; do
    refuses 2 'no.yaml:3:9: ./none/../out: there is no directory ./none for ".." to leave' "$command" no.yaml
done
[ ! -e none ] || fail 'a refused job left a directory'

# What holds for a pass is said once, however many steps have it.
printf 'pare: 1\nmodel: %s/hedge\noutput: eights\npasses:\n  - fp8: {targets: "*.mlp.*"}\n' "$demo" >eights.yaml
printf '  - fp8: {activations: fp8_token, skip: "*.mlp.*"}\n' >>eights.yaml
does plan eights.yaml
[ "$(grep -c '^fp8  *products run in F32 here' out.log)" = 1 ] || fail "$(cat out.log)"

# How inputs are rounded is told of linears that are alike in all else, in artifacts and exports.
for x in float fp8_token; do
    does compress eights.yaml --output "$x" --set "passes=[fp8: {activations: $x}]"
    does export "$x" --format compressed-tensors --output "$x.ct"
done
does inspect fp8_token
shows '^model.layers.0.mlp.up_proj  *fp8_e4m3 row, x fp8 per token  '
does inspect fp8_token.ct
shows '^model.layers.0.mlp.up_proj.weight  *fp8, x fp8 per token  '
does inspect fp8_token.ct --format json
shows '"encoding": "fp8, x fp8 per token"'
does inspect float.ct
silent ', x '
does diff float.ct fp8_token.ct
shows 'layers.0.mlp.up_proj  .* fp8 -> fp8, x fp8 per token$'
shows '^the models differ$'
does diff fp8_token.ct fp8_token.ct
shows '^the models are the same$'
does diff float fp8_token.ct
shows 'fp8_e4m3 row, x f32 -> fp8, x fp8 per token$'
for n in 1 2; do # other samples, other steps of inputs
    does compress eights.yaml --output "steps$n" --set "passes=[rtn: {bits: 8, group: row, activations: int8_tensor}]" \
        --set "calibration={text: $demo/calibration.txt, samples: $n, window: 64}"
    does export "steps$n" --format compressed-tensors --output "steps$n.ct"
done
does diff steps1.ct steps2.ct
shows 'layers.0.mlp.up_proj  .* int8, x int8 per tensor$'
shows '^the models differ$'

for x in mxfp4:32 nvfp4:16; do
    groups="${x%:*} g${x#*:}, x ${x%:*} per ${x#*:}"
    does compress eights.yaml --output "${x%:*}" --set "passes=[${x%:*}: {activations: ${x%:*}}]" \
        --set "calibration={text: $demo/calibration.txt, samples: 1, window: 64}"
    does inspect "${x%:*}"
    shows "^model.layers.0.mlp.up_proj  *$groups  "
    does export "${x%:*}" --format compressed-tensors --output "${x%:*}.ct"
    does inspect "${x%:*}.ct"
    shows "^model.layers.0.mlp.up_proj.weight  *${x%:*}, x ${x%:*} per ${x#*:}  "
    does eval "${x%:*}.ct" --text "$demo/evaluation.txt" --window 64 --limit 1
    shows "linears in MXFP4 or NVFP4 take their inputs in the same"
done

# Where linears become floats, their inputs do, too.
does compress eights.yaml --output head --set 'head={fp8: {activations: fp8_token}}'
does export head --format compressed-tensors --output head.ct
shows '^note  *1 linear becomes floats here, and engines do not round its inputs as the artifact does$'
does export fp8_token --format safetensors --output floats
shows '^note  *42 linears become floats here, and engines do not round their inputs as the artifact does$'
does export fp8_token --format compressed-tensors --output again.ct
silent '^note'

# What cannot be opened is not counted as checked.
mkdir bare
refuses 4 'bare: no config.json and no .gguf file is there' verify bare
shows '^bare: nothing else could be checked$'
silent ' 0 files'
cp -r second/made/own hollow
echo '{' >hollow/packed.index.json
refuses 4 'packed.index.json: ' verify hollow
shows ' files, .*: damaged; no weights could be opened, so no tensor was checked$'

# Importance matrices of llama.cpp.
does inspect "$corpus/q_older"
shows '^importance matrix of llama.cpp, the older kind of file: sums of squares of the inputs of 1 linear$'
shows '^data  *text$'
shows '^blk.0.attn_q.weight  *4  *1  *1024$'
does inspect "$corpus/matrices"
shows '^importance matrix of llama.cpp, GGUF'
does verify "$corpus/q_gguf"
shows '1 file, 1 tensor, .*: all good'
shows 'note  an importance matrix'
refuses 4 'blk.0.attn_q.weight: element 2 is negative or not finite' verify "$corpus/nan"
refuses 4 'count of 0 tokens' verify "$corpus/count_0"
cut=$(($(wc -c <"$corpus/q_and_k_older") - 20))
head -c "$cut" "$corpus/q_and_k_older" >cut.dat
refuses 4 'entry 2 of 2 goes past the end of the file' verify cut.dat
silent 'count of 0 tokens'
shows ': 1 finding$'
refuses 4 '/dev/null: is neither a regular file nor a directory' verify /dev/null
mkfifo pipe
code=0
timeout 20 "$pare" inspect pipe >out.log 2>&1 || code=$?
[ "$code" = 4 ] || fail "inspect of a pipe: exit $code: $(cat out.log)"
shows 'pipe: is not a regular file'

# A model whose config.json is broken is listed, and is bad input all the same; one of an unknown family is not.
cp -r "$demo/hedge" broken
sed 's/"hidden_size"/"hidden_sise"/' "$demo/hedge/config.json" >broken/config.json
for format in text json; do
    refuses 4 'model.layers.0.mlp.down_proj.weight' inspect broken --format "$format"
    shows 'error: .*config.json: hidden_size is missing'
done
sed 's/"llama"/"lama"/' "$demo/hedge/config.json" >broken/config.json
does inspect broken

# What runs no jobs tells of none.
printf 'pare: 1\nrecipe: {model: %s, passes: [rtn]}\noutput: jobs\nmatrix: {bits: [4]}\n' "$demo/hedge" >jobs.yaml
refuses 2 '--notify tells of the end of jobs, and --emit runs none' batch jobs.yaml --emit make --notify true
refuses 2 '--notify tells of the end of jobs, and --summary runs none' batch jobs.yaml --summary --notify true

# A job that is refused leaves no folder.
echo garbage >garbage.h5
printf 'pare: 1\nmodel: %s\noutput: refused\npasses: [wanda: {pattern: "2:4"}]\n' "$demo/hedge" >refused.yaml
printf 'calibration: {text: %s, samples: 2, window: 64, keep: garbage.h5}\n' "$demo/calibration.txt" >>refused.yaml
refuses 4 'garbage.h5: is another kind of file' compress refused.yaml
[ ! -e refused.partial ] || fail 'a job that was refused left refused.partial'

# Equal tensors of two recipes.
printf 'pare: 1\nmodel: %s\noutput: a\npasses: [rtn: {group: 32}]\nseed: 1\n' "$demo/hedge" >a.yaml
does compress a.yaml
does compress a.yaml --output b --set seed=2
does diff a b
shows '^the tensors are the same, the recipes differ$'
silent '^the models differ'

# Embeddings in few bits stand in the table of encodings.
does compress a.yaml --output table --set 'embeddings={rtn: {bits: 8, group: 32}}'
grep -q '^| int8 g32 sym | rtn, model.embed\\_tokens | 1 | 8.5' table/README.md || fail "$(cat table/README.md)"

# One matrix that is embeddings and head is one of an export.
does export table --format compressed-tensors --output engine
shows '^int8 g32 sym  *rounded to floats  *1 '
silent '^float '
! grep -q '"name": "lm_head"' engine/pare-export.json || fail "the head stands beside the embeddings"

# Fewer channels of a checkpoint that another program quantized are floats, and say so.
does export a --format compressed-tensors --output theirs
grep -q quantization_config theirs/config.json || fail 'the export does not say how it is quantized'
printf 'pare: 1\nmodel: theirs\noutput: fewer\npasses: [channels: {score: magnitude}]\n' >fewer.yaml
printf 'evaluate: [perplexity: {text: %s, window: 64, limit: 1}]\n' "$demo/evaluation.txt" >>fewer.yaml
does plan fewer.yaml
shows '^temporary disk  *[1-9].* in /.*: the weights, decoded$'
for command in plan compress; do
    TMPDIR=/proc refuses 5 '^pare: error: /proc: the weights, decoded, take [0-9]* bytes .* and 0 are free' "$command" fewer.yaml
done
does plan a.yaml --output more
silent '^temporary disk'
does compress fewer.yaml
! grep -q quantization_config fewer/config.json || fail 'floats are told as quantized'

# A page of figures that no axis holds.
printf 'pare: 1\nrecipe: {model: %s, passes: [rtn], evaluate: [perplexity: {text: %s, window: 64, limit: 1}]}\noutput: jobs\nmatrix: {bits: [4, 8]}\n' \
    "$demo/hedge" "$demo/evaluation.txt" >jobs.yaml
does batch jobs.yaml
sed -i 's/"ppl": [0-9.e+]*/"ppl": 1e300/' jobs/bits4/run.json
sum=$(sha256sum <jobs/bits4/run.json | cut -d ' ' -f 1) # else the summary would not believe it
sed -i "s/^[0-9a-f]*\(  run.json\)$/$sum\1/" jobs/bits4/SHA256SUMS
timeout 60 "$pare" batch jobs.yaml --summary >out.log 2>&1 || fail "summary: $(cat out.log)"
shows '1e+300\|1000000'

if [ -x "${pare%/*}/pare-hdf5" ]; then
    # Statistics that are there: nothing is weighed, and more of them must be given, not samples.
    cat >kept.yaml <<END
pare: 1
model: $demo/hedge
output: kept
calibration: {text: [$demo/calibration.txt], samples: 4, window: 64, keep: k.h5}
passes: [gptq: {bits: 4, group: 32}]
END
    does plan kept.yaml
    shows '^token weights '
    does compress kept.yaml
    does plan kept.yaml --output again
    shows '^statistics  *from ./k.h5'
    silent '^token weights '
    sed 's/^calibration.*/calibration: {from: k.h5}/' kept.yaml >from.yaml
    does plan from.yaml --output again
    shows '; give statistics of 30 or more samples (windows of 64)$'
    # They are no model.
    no='k.h5 holds statistics of a calibration and no model'
    refuses 4 "$no" eval k.h5 --text "$demo/evaluation.txt"
    refuses 4 "$no" generate k.h5
    refuses 4 "$no" compare k.h5 "$demo/hedge" --speed
    refuses 4 "$no" compare "$demo/hedge" k.h5 --speed
fi
echo "told.sh: good"
