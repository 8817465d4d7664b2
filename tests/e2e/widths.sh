#!/bin/sh
# Widths of MLPs for a speed: widths.sh PARE DEMO. What the search refuses; what it chooses by the times it
# measured, and by given ones; killed and continued; other targets out of the same numbers; damage.
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
command -v python3 > /dev/null || { echo "skipped: python3 is not installed"; exit 77; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

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

# --- it goes no further
sed 's/^model:.*/model: whole/; s/^output:.*/output: packed/; s/^passes:.*/passes: [rtn]/' one.yaml > packed.yaml
run 4 packed
says err 'MLPs of its blocks differ in width'

# --- too much, too little
run 2 whole --threads 2 --restart --set passes.0.ziplm.speedup=50
says err 'too many for MLPs to give; at the least widths it decodes about'
run 2 whole --threads 2 --restart --set 'passes=[{ziplm: {tokens_s: 1}}]'
says err 'nothing has to go, the original decodes about'
run 2 whole --threads 2 --restart --set 'passes=[{ziplm: {tokens_s: 1e-9}}]'
says err 'ziplm: 1e-09 tokens/s: nothing has to go, the original decodes about'
[ -f whole/model.safetensors ] || fail "a refusal took the output"

# --- killed in each part, and continued
kills=0
recipe cut 'ziplm: {speedup: 1.25}' 'evaluate: held_out'
killed cut 'measuring the widths' --threads 2
killed cut 'timing the widths' --threads 2
[ -f cut.variants/widths.json ] || { mkdir -p cut.variants && cp whole.variants/widths.json cut.variants; }
fix cut
rm -rf cut.partial # of the widths that were measured, where the kill came late
cp cut.variants/widths.json before.json
killed cut 'block 2 of 6' --threads 2
killed cut 'block 5 of 6' --threads 2
[ $kills -ge 3 ] || fail "$kills of 4 parts were killed"
run 0 cut --threads 2
cmp -s cut.variants/widths.json before.json || fail "a job that goes on measures again"
[ "$(weights cut)" = "$(weights whole)" ] || fail "a killed search comes to other bytes"

# --- damage
for wrong in '{' '{}' "$(sed 's/"threads": 2/"threads": 3/' before.json)" \
    "$(sed 's/"weight": [0-9.e-]*/"weight": -1/' before.json)" "$(sed 's/"ps": [0-9]*/"ps": 0/' before.json)"; do
    printf '%s\n' "$wrong" > whole.variants/widths.json
    run 0 whole --threads 2 --restart --set passes.0.ziplm.speedup=1.01
    says err 'widths are measured anew'
done
mkdir other.variants && touch other.variants/mine
recipe other 'ziplm: {speedup: 1.2}'
run 2 other
says err 'is no folder of a search'
