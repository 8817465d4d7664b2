#!/bin/sh
# Widths of MLPs for a speed: widths.sh PARE DEMO. What the search refuses; what it chooses by the times it
# measured, and by given ones; what other passes and training make of such a model; killed and continued;
# other targets out of the same numbers; damage.
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
command -v python3 > /dev/null || { echo "skipped: python3 is not installed"; exit 77; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

model=$demo/hedge
. "$here/search_checks.sh"

weights() { sha256sum < "$1/model.safetensors"; }
kl() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["evaluations"][0]["kl"]["mean"])' "$1/run.json"; }
# less A B
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 < b + 0) }'; }

# --- what it refuses
recipe back 'ziplm: {speedup: 1.2}' 'evaluate: held_out' 'require: {kl: "<= 1"}' 'fallback:' \
    '  - {passes.0.ziplm.speedup: 1.1}'
run 2 back
says err 'does not go with fallback'
recipe nan 'ziplm: {tokens_s: 10}' 'nan: zero'
run 2 nan
says err 'nan.yaml:5:11: ziplm: with speedup or tokens_s it measures the weights as they are'

# --- the whole search, by what it measures
recipe whole 'ziplm: {speedup: 1.01}' 'evaluate: held_out'
"$pare" plan whole.yaml > out
says out 'at most [0-9]* bytes.*exact once widths are chosen'
says out 'speedup or tokens_s pare plan shows all channels'
run 0 whole --threads 2
says err 'ziplm: [0-9.]* tokens/s asked, [0-9.]* predicted ([0-9.]* times'
says whole/recipe.yaml '^# ziplm: '
says whole/README.md 'Widths for a speed: '
says whole/report.html 'Widths for a speed: '
python3 - whole/run.json << 'END' || fail "run.json: $(cat whole/run.json)"
import json, sys
run = json.load(open(sys.argv[1]))
speed, widths = run["speed"], run["mlp_channels"]
assert speed["predicted_tokens_s"] >= speed["asked_tokens_s"] > speed["original_tokens_s"] > 0
assert speed["reached_tokens_s"] > 0
assert len(widths) == 6 and max(widths) <= 640 and min(widths) < 640, widths
END
run 0 whole --threads 2
says out 'already complete'

# --- by given times: the least error that is fast enough, and less than one width for all has
fix() { python3 "$here/widths.py" fix "$1.variants/widths.json"; }
fix whole
sha256sum whole.variants/widths.json > before
run 0 whole --threads 2 --restart --set passes.0.ziplm.speedup=1.25
sha256sum -c before > out2 || fail "another target measured again: $(cat out2)"
says err '1.25 times the original'
python3 "$here/widths.py" check whole.variants/widths.json whole/recipe.yaml 1.25 || fail "widths"
"$pare" verify whole > out || fail "verify: $(cat out)"
recipe one 'ziplm: {ratio: 0.4}' 'evaluate: held_out'
run 0 one
less "$(kl whole)" "$(kl one)" || fail "KL $(kl whole) by the search, $(kl one) of one width that is as fast"
"$pare" eval whole --text text --limit 4 > out || fail "eval: $(cat out)"
"$pare" inspect whole > out
says out 'intermediate up to [0-9]*,'

# The recipe of the output is an ordinary one: the same bytes without a search.
sed 's/^output:.*/output: again/' whole/recipe.yaml > again.yaml
run 0 again
[ "$(weights again)" = "$(weights whole)" ] || fail "the recipe of the output makes other bytes"

# --- it is quantized: the same bytes for any number of threads
# behind NAME PASSES: a second recipe on whole.
behind() { sed "s/^model:.*/model: whole/; s/^output:.*/output: $1/; s/^passes:.*/passes: [$2]/" one.yaml > "$1.yaml"; }
packed() { sha256sum < "$1/packed-00001-of-00001.safetensors"; }
behind int4 '{gptq: {group: 32}}'
run 0 int4 --threads 1
less "$(kl int4)" 0.006 || fail "KL $(kl int4) of gptq from what it was given"
behind three '{gptq: {group: 32}}'
run 0 three --threads 3
[ "$(packed three)" = "$(packed int4)" ] || fail "other bytes with three threads"
"$pare" verify int4 > out || fail "verify: $(cat out)"
"$pare" eval int4 --text text --limit 4 > out || fail "eval: $(cat out)"
behind plain 'smoothquant, {sparsegpt: {sparsity: 0.3}}, {rtn: {bits: 8, group: 32}}'
run 0 plain
less "$(kl plain)" 0.02 || fail "KL $(kl plain) of 30 % and 8 bits"
behind turned 'rotate, rtn'
run 2 turned
says err 'rotate: cannot rotate a model of type llama: MLPs of its blocks differ in width'

# pare reads floats with such widths, and llama.cpp files of Llama; other engines do not.
for format in compressed-tensors gptq; do
    "$pare" export int4 --format $format --output engine.gguf > out 2> err && fail "$format has one width"
    says err "$format: MLPs of its blocks differ in width"
done
"$pare" export int4 --format safetensors --output floats > out || fail "export: $(cat out)"
[ "$(grep -A8 '"intermediate_size": \[' floats/config.json | tr -dc '0-9,')" = \
    "$(grep -A8 '"intermediate_size": \[' whole/config.json | tr -dc '0-9,')" ] || fail "floats have other widths"
"$pare" eval floats --text text --limit 4 > out || fail "eval: $(cat out)"
"$pare" export int4 --format gguf:f16 --output floats.gguf > out || fail "export: $(cat out)"
"$pare" eval floats.gguf --baseline floats --text text --limit 4 --format json > eval.json || fail "eval"
python3 -c 'import json; assert json.load(open("eval.json"))["kl"]["mean"] < 1e-5' || fail "a GGUF file: $(cat eval.json)"

# --- and in one recipe: what each part cost; trained, then in 4 bits, as two recipes do
awk '/^[a-z]/ { steps = /^passes/ } steps && /^ /' whole/recipe.yaml > steps
chain() {
    sed -n '/^pare/,/^calibration/p' one.yaml | sed "s/^output.*/output: $1/"
    printf 'evaluate: held_out\npasses:\n'
    cat steps
    shift
    printf '  - %s\n' "$@"
}
chain parts 'distill: {tokens: 4096, batch: 4, rate: 2e-4, windows: 32}' 'gptq: {group: 32}' > parts.yaml
run 0 parts --threads 3
[ "$(weights parts.smaller)" = "$(weights whole)" ] || fail "the chain makes another smaller model"
python3 - parts/run.json << 'END' || fail "run.json: $(cat parts/run.json)"
import json, sys
s = json.load(open(sys.argv[1]))["stages"]
assert len(s) == 4 and s[1]["passes"].count("ziplm") >= 2 and s[2]["passes"] == "distill", s
# Widths follow measured times, so training need not help: it changes the model, no more is said.
assert s[0]["kl"] == 0 < min(s[1]["kl"], s[2]["kl"]) and s[1]["kl"] != s[2]["kl"], s
END

# --- trained as a whole, with the original as its teacher
cat > student.yaml << END
pare: 1
model: whole
teacher: $demo/hedge
output: student
data: {text: [text], window: 64, held_out: 16}
train: {kl: 1, ce: 0, hidden: 1, tokens: 4096, batch: 4, rate: 3e-4, save: 0}
END
"$pare" train student.yaml --threads 1 > out 2>&1 || fail "train: $(cat out)"
"$pare" train student.yaml --threads 3 --output again3 > out 2>&1 || fail "train: $(cat out)"
[ "$(weights student)" = "$(weights again3)" ] || fail "training with three threads gives other bytes"
"$pare" verify student > out || fail "verify: $(cat out)"
cmp -s student/config.json whole/config.json || fail "a student of other shapes"

# --- too much, too little
run 2 whole --threads 2 --restart --set passes.0.ziplm.speedup=50
says err 'too many for MLPs to give; at the least widths it decodes about'
run 2 whole --threads 2 --restart --set 'passes=[{ziplm: {tokens_s: 1}}]'
says err 'nothing has to go, the original decodes about'
run 2 whole --threads 2 --restart --set 'passes=[{ziplm: {tokens_s: 1e-9}}]'
says err 'ziplm: 1e-09 tokens/s: nothing has to go, the original decodes about'
[ -f whole/model.safetensors ] || fail "a refusal took the output"

# --- killed in each part, and continued
kills=0 anew=cut.variants
recipe cut 'ziplm: {speedup: 1.25}' 'evaluate: held_out'
killed cut 'measuring the widths' --threads 2
killed cut 'timing the widths' --threads 2
[ -f cut.variants/widths.json ] || { mkdir -p cut.variants && cp whole.variants/widths.json cut.variants; }
fix cut
rm -rf cut.partial # of the widths that were measured, where the kill came late
cp cut.variants/widths.json before.json
anew=''
killed cut 'block 2 of 6' --threads 2
killed cut 'block 5 of 6' --threads 2
[ $kills -ge 3 ] || fail "$kills of 4 parts were killed"
run 0 cut --threads 2
cmp -s cut.variants/widths.json before.json || fail "a job that goes on measures again"
[ "$(weights cut)" = "$(weights whole)" ] || fail "a killed search comes to other bytes"

# So is a recipe on the model.
behind broken '{gptq: {group: 32}}'
killed broken 'block 3 of 6'
run 0 broken --threads 2
[ "$(packed broken)" = "$(packed int4)" ] || fail "a killed recipe on such a model comes to other bytes"

# --- damage
for wrong in '{}' "$(sed 's/"threads": 2/"threads": 3/' before.json)" \
    "$(sed 's/"weight": [0-9.e-]*/"weight": -1/' before.json)" "$(sed 's/"ps": [0-9]*/"ps": 0/' before.json)"; do
    printf '%s\n' "$wrong" > whole.variants/widths.json
    run 2 whole --threads 2 --restart --set passes.0.ziplm.speedup=50
    says err 'widths are measured anew'
    says err 'too many for MLPs to give'
done
echo '{' > whole.variants/widths.json
run 0 whole --threads 2 --restart --set passes.0.ziplm.speedup=1.01
says err 'widths are measured anew'
mkdir other.variants && touch other.variants/mine
recipe other 'ziplm: {speedup: 1.2}'
run 2 other
says err 'is no folder of a search'
