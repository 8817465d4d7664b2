#!/bin/sh
# A search for a budget: budget.sh PARE DEMO. What it refuses; the whole search, killed and continued; other
# budgets out of the same variants; damage.
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"

. "$here/blocks.sh"
model=hedge
. "$here/search_checks.sh"

packed() { cat "$1"/packed-*.safetensors "$1/packed.index.json" | sha256sum; }
bits() { sed -n 's/^bits per weight *\([0-9.]*\) in.*/\1/p' out; }

# refused CODE NAME [OPTION...]: a job of a batch; 20: what is there is of another job, --restart replaces it
refused() {
    wanted=$1 name=$2 code=0
    shift 2
    "$pare" --of-batch compress "$name.yaml" "$@" > out 2> err || code=$?
    [ "$code" = "$wanted" ] || fail "$name $* of a batch: exit code $code, not $wanted"
}

# --- what it refuses, before anything is quantized
recipe few 'budget: {bits: 1.5}'
run 2 few
says err 'few.yaml:5:11: budget: 1.5 bits per weight are too few for these linears: the least is 2.2'
[ ! -d few.variants/base ] || fail "quantized for a budget that nothing fits"
recipe two 'budget: {bits: 3}}, {rtn: {bits: 4}'
run 2 two
says err 'budget: stands alone in passes'
recipe back 'budget: {bits: 3}' 'evaluate: held_out' 'require: {kl: "<= 1"}' 'fallback:' \
    '  - {passes.0.budget.bits: 4}'
run 2 back
says err 'does not go with fallback'
recipe speed 'budget: {tokens_per_s: 30}'
run 2 speed
says err 'tokens_per_s'
recipe small 'budget: {bytes: 1000}'
run 2 small
says err 'budget: 1000 bytes are too few for these linears: the least is'
for job in few two back small; do # a plan refuses the same
    code=0
    "$pare" plan $job.yaml > out 2> err || code=$?
    [ $code = 2 ] || fail "plan of $job: exit code $code"
    says err "$job.yaml:[0-9]*:[0-9]*: budget: "
done

# --- the whole search
recipe whole 'budget: {bits: 3.2, tokens: 128}' 'evaluate: held_out'
"$pare" plan whole.yaml > out 2> err
says out 'shows the base of the search'
says out '^packed  *about [0-9]* bytes .*, exact once settings are chosen: '
says out '^allocated memory .* for the base of the search, which takes more$'
[ "$(grep -c 'are left out' err)" = 1 ] || fail "warned more than once: $(cat err)"
run 0 whole --threads 2 --format json
seconds() { sed -n 's/^ *"seconds": *\([0-9.]*\).*/\1/p' "$1" | head -n 1; }
awk -v all="$(seconds out)" -v last="$(seconds whole/run.json)" 'BEGIN { exit !(all > 1.2 * last) }' ||
    fail "the search is not in the time: $(seconds out) s, its last job $(seconds whole/run.json) s"
says err 'budget: 3.[12][0-9]* bits per weight; on windows held out the variants have KL 0'
awk -F': *' '$1 ~ /"bits_per_weight"/ { b = $2 + 0 } END { exit !(b > 3.15 && b <= 3.2001) }' out ||
    fail "$(grep '"bits_per_weight"' out) for 3.2 bits"
says whole/recipe.yaml '^# budget: '
says whole/recipe.yaml '  - gptq: # [0-9]* of 21 linears'
"$pare" verify whole > out || fail "verify: $(cat out)"
awk -F, 'NR > 1 && $5 != "" && !($5 > 0) { bad++ } $5 != "" { n++ } END { exit bad || n != 22 }' \
    whole.variants/sensitivity.csv || fail "sensitivity.csv has no KL of 21 linears"
# its variants have less KL than a mix of the same bytes
sed -n 's/.* have KL \([0-9.]*\), .* bits: KL \([0-9.]*\).*/\1 \2/p' err |
    awk '{ n++; good += $1 < 0.75 * $2 } END { exit n != 1 || good != 1 }' ||
    fail "no less KL than a mix of the same bytes: $(grep budget: err)"
cp err told

# The recipe of the artifact is an ordinary one: the same bytes without a search.
sed 's/^output:.*/output: again/' whole/recipe.yaml > again.yaml
run 0 again
[ "$(packed again)" = "$(packed whole)" ] || fail "the recipe of the artifact makes other bytes"
run 0 whole
says out 'already complete'

refused 0 whole

# An output of no search; what is not of pare where the base goes.
recipe again 'budget: {bits: 3.2, tokens: 128}'
refused 20 again
says err 'is there, without the variants of a search; --restart replaces it'
recipe foreign 'budget: {bits: 3.2, tokens: 128}'
mkdir -p foreign.variants/base.partial
echo mine > foreign.variants/base.partial/mine
refused 2 foreign
says err 'base.partial'
! grep -q -e --restart err || fail "--restart mends nothing here: $(cat err)"
[ "$(cat foreign.variants/base.partial/mine)" = mine ] || fail "a file of somebody else"

# --- killed in each part, and continued: the same bytes
recipe cut 'budget: {bits: 3.2, tokens: 128}' 'evaluate: held_out'
kills=0 anew=cut.variants
for part in 'block 2 of 3' 'block 3 of 3' 'measuring' 'budget:'; do
    killed cut "$part" --threads 1
done
[ $kills -ge 3 ] || fail "$kills of 4 parts were killed"
run 0 cut --threads 1
[ "$(packed cut)" = "$(packed whole)" ] || fail "a killed search comes to other bytes"
grep -v '^output:' cut/recipe.yaml > cut.txt
grep -v '^output:' whole/recipe.yaml | cmp -s - cut.txt || fail "a killed search chooses otherwise"

# --- another budget: nothing is quantized or measured again
sha256sum whole.variants/journal whole.variants/*/packed-* > before
run 0 whole --restart --set passes.0.budget.bits=2.6
sha256sum -c before > out2 || fail "another budget changed the variants: $(cat out2)"
awk -v b="$(bits)" 'BEGIN { exit !(b > 2.55 && b <= 2.6001) }' || fail "$(bits) bits for 2.6"
run 2 whole --restart --set passes.0.budget.bytes=3700000
says err 'bits and bytes are both given'
run 0 whole --restart --set 'passes=[{budget: {bytes: 3700000, tokens: 128}}]'
bytes=$(cat whole/packed-* whole/packed.index.json | wc -c)
[ "$bytes" -le 3700000 ] && [ "$bytes" -gt 3650000 ] || fail "$bytes bytes for 3700000"
run 2 whole --set passes.0.budget.bits=2.6
says err 'belongs to another job: what the search chose for it'

# q, k, v have one setting, gate and up have one.
run 0 whole --restart --set passes.0.budget.fused=true
awk '/^  - gptq/ { setting++ }
/layers/ {
    split($2, part, ".")
    unit = part[3] " " part[4]
    if ($2 ~ /[qkv]_proj/) unit = unit " qkv"
    else if ($2 ~ /gate|up/) unit = unit " gu"
    else next
    if (unit in of && of[unit] != setting) bad++
    of[unit] = setting
    n++
}
END { exit bad || n != 15 }' whole/recipe.yaml || fail "fused linears have several settings"

# --- tokens per second: times as they would be, so that the choice is known
speed() { printf 'passes=[{budget: {tokens_s: %s, tokens: 128}}]' "$1"; }
run 2 whole --restart --set passes.0.budget.tokens_s=300
says err 'tokens_s stands in place of bits or bytes'
run 2 whole --restart --threads 2 --set "$(speed 1000000)"
says err '1000000 tokens/s are too many for this machine as it is now: with the fastest settings (int'
awk -F'[: ,}]+' '/"int2-g64"/ { n++ } END { exit n != 4 }' whole.variants/times.json ||
    fail "not the times of 4 shapes: $(cat whole.variants/times.json)"
# 10 us for each linear, 20 with 8 bits, 790 for the rest
sed -i 's/"token_ps": [0-9]*/"token_ps": 1000000000/
    s/"\(int[0-9]-g[0-9]*\)": [0-9]*/"\1": 10000000/g
    s/"int8-g128": [0-9]*/"int8-g128": 20000000/' whole.variants/times.json
cp whole.variants/times.json kept
run 0 whole --restart --threads 2 --set "$(speed 1000)"
says err 'int4-g32 everywhere, .*; 1000 tokens/s asked, 1000.00 predicted'
says err 'budget: 1000 tokens/s asked, 1000.00 predicted, [0-9.]* measured'
grep -q 'gptq: # 21 of 21 linears' whole/recipe.yaml && grep -q 'group: 32' whole/recipe.yaml ||
    fail "not the best that is as fast: $(cat whole/recipe.yaml)"
run 0 whole --restart --threads 2 --set "$(speed 900)"
says err '900 tokens/s asked, 900.90 predicted'
says whole/recipe.yaml 'gptq: # 11 of 21 linears'
cmp -s whole.variants/times.json kept || fail "times that were known are measured again"
run 2 whole --restart --threads 2 --set "$(speed 1001)"
says err '1001 tokens/s are too many .* decodes about 1000.0; without these linears a token takes 0.79 ms'
run 2 whole --restart --threads 1 --set "$(speed 1000000)"
says err 'times.json: of other kernels or threads; times are measured anew'
printf '{"shapes": [' > whole.variants/times.json
run 2 whole --restart --threads 1 --set "$(speed 1000000)"
says err 'times are measured anew'
run 0 whole --restart --set passes.0.budget.fused=true

# --- trellis codes
some='targets: ["*.0.self_attn.k_proj", "*.1.self_attn.v_proj", "*.2.self_attn.k_proj"]'
recipe words "budget: {bits: 3.4, grids: trellis, tokens: 128, $some}" 'export: [{format: gptq, path: words-gptq}]'
run 2 words # before the search, not behind it
says err 'words.yaml:[0-9]*:[0-9]*: gptq: linear .* (exl3 4 bits, x f32): it has trellis codes'
[ ! -d words.variants/base ] || fail "searched for codes that the export does not hold"
recipe trellis "budget: {bits: 3.4, grids: trellis, tokens: 128, $some}" \
    'export: [{format: exl3, path: trellis-exl3}]'
run 0 trellis --threads 2
says err 'budget: 3.[0-9]* bits per weight; on windows held out the variants have KL 0'
says trellis/recipe.yaml '  - exl3: # [0-9]* of 3 linears'
for made in trellis trellis-exl3; do
    "$pare" verify $made > out || fail "verify: $(cat out)"
done
awk -F, 'NR > 1 { n[$2]++; e[$1, $2] = $4; if ($5 != "") probe += $2 == "exl3-3" ; name[$1] }
    END { for (l in name) bad += !(e[l, "exl3-2"] > 2 * e[l, "exl3-3"] && e[l, "exl3-5"] > 2 * e[l, "exl3-6"])
        exit bad || probe != 3 || n["exl3-2"] != 3 || n["exl3-6"] != 3 || NR != 16 }' \
    trellis.variants/sensitivity.csv || fail "not the errors of trellis codes: $(cat trellis.variants/sensitivity.csv)"
recipe low "budget: {bits: 2, grids: trellis, tokens: 128, $some}"
run 2 low
says err 'budget: 2 bits per weight are too few for these linears: the least is 2.[0-9]*'
recipe timed "budget: {tokens_s: 1, grids: trellis, tokens: 128, $some}"
run 0 timed --threads 2
says err 'budget: 1 tokens/s asked, [0-9.]* predicted, [0-9.]* measured'

# --- damage, and other data
printf 'x' | dd of="$(ls whole.variants/int4-g128/packed-*)" bs=1 seek=200000 conv=notrunc 2> dd
run 2 whole
says err 'was damaged since it was written'
refused 20 whole
run 0 whole --restart --set passes.0.budget.fused=true
says err 'the variants are made anew: .*was damaged'
sed -i 's/samples: 16/samples: 15/' whole.yaml
run 2 whole
says err 'whole.variants/base: is of another job: .*15.*; the variants of the search are those of another job, and'
refused 20 whole
refused 0 whole --restart --set passes.0.budget.fused=true
echo "budget: $kills kills; $(sed -n 's/^budget: //p' told)"
