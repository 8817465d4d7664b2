#!/bin/sh
# Adapters in pare train as users run it: train_lora.sh PARE DEMO MAKE_FAMILY
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
make=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

. "$here/train_checks.sh"

# tensors OUTPUT: names and hashes of what is stored, from its manifest
tensors() {
    awk '/^  "kept": / { on = 1; next }
        /^  }/ { on = 0 }
        on && /": {$/ { name = $1 }
        on && /"xxh3"/ { print name, $2 }' "$1/manifest.json" | tr -d '":' | sort
}

# differ OUTPUT OUTPUT: the tensors that are not the same
differ() {
    tensors "$1" >one.tensors
    tensors "$2" >two.tensors
    [ "$(cut -d ' ' -f 1 one.tensors)" = "$(cut -d ' ' -f 1 two.tensors)" ] ||
        fail "$1 and $2 have other tensors"
    comm -13 one.tensors two.tensors | cut -d ' ' -f 1
}

"$pare" train scratch.yaml --output base --set dtype=bf16 >out.log 2>&1 || fail "$(cat out.log)"
cat >lora.yaml <<END
pare: 1
model: base
output: lora
lora: {rank: 4, targets: [q_proj, "model.layers.1.*"]}
data: {text: ["$demo/evaluation.txt"], window: 64}
train: {tokens: 16384, batch: 8, rate: 1e-2, save: 0}
END

# It lowers the loss, within the memory that the plan says, and changes the targets alone.
"$pare" train lora.yaml --dry-run --output untouched --format json >plan.json 2>out.log || fail "$(cat out.log)"
[ ! -e untouched ] || fail "--dry-run leaves untouched"
memory=$(field plan.json memory_bytes)
"$pare" train lora.yaml --ram-limit "$memory" >told 2>out.log || fail "within $memory bytes: $(cat out.log)"
grep -q '^memory  *at most .* allocated; at most .* in memory at once, mapped files included$' told || fail "memory: $(cat told)"
below "$(field lora/run.json perplexity_after)" "$(field lora/run.json perplexity_before)" "perplexity"
"$pare" verify lora >/dev/null || fail "verify does not accept lora"
"$pare" eval lora --text "$demo/evaluation.txt" --window 64 --limit 8 >eval.log || fail "eval does not load lora"
differ base lora >changed
cat >targets <<END
model.layers.0.self_attn.q_proj.weight
model.layers.1.mlp.down_proj.weight
model.layers.1.mlp.gate_proj.weight
model.layers.1.mlp.up_proj.weight
model.layers.1.self_attn.k_proj.weight
model.layers.1.self_attn.o_proj.weight
model.layers.1.self_attn.q_proj.weight
model.layers.1.self_attn.v_proj.weight
END
cmp changed targets || fail "changed tensors: $(cat changed)"
# of [48, 48] q and o, [24, 48] k and v, [96, 48] gate, up and down
[ "$(field lora/run.json trained_weights)" = $((4 * (3 * 96 + 2 * 72 + 3 * 144))) ] ||
    fail "trained weights: $(field lora/run.json trained_weights)"
grep -q "^trained weights   $((4 * (3 * 96 + 2 * 72 + 3 * 144))) of rank 4" told || fail "$(cat told)"
grep -q '"rank": 4' lora/manifest.json || fail "the manifest says nothing of adapters"
grep -q 'adapters (LoRA) of rank 4' lora/README.md lora/report.html || fail "README.md says nothing of adapters"
survives lora.yaml lora

# Adapters next to nothing change no byte; as F32 the others are those of the base, too.
"$pare" train lora.yaml --output still --set train.rate=1e-8 --set lora.alpha=0.001 --set train.tokens=1024 >out.log 2>&1 || fail "$(cat out.log)"
[ -z "$(differ base still)" ] || fail "changed tensors: $(differ base still)"
"$pare" train lora.yaml --output wide --set dtype=f32 >out.log 2>&1 || fail "$(cat out.log)"
grep -q '"torch_dtype": "float32"' wide/config.json || fail "config.json of wide has another dtype"
"$pare" train lora.yaml --output wide-still --set dtype=f32 --set train.rate=1e-8 --set lora.alpha=0.001 \
    --set train.tokens=1024 >out.log 2>&1 || fail "$(cat out.log)"
[ "$(differ wide-still wide)" = "$(cat targets)" ] || fail "changed tensors: $(differ wide-still wide)"
"$pare" eval wide-still --baseline base --text "$demo/evaluation.txt" --window 64 --limit 4 --format json >eval.json \
    2>out.log || fail "$(cat out.log)"
below "$(field eval.json mean)" 1e-9 "KL of F32 and BF16"

# Some blocks, taught by the whole.
"$pare" train lora.yaml --output half --set blocks=1 --set 'lora.targets=[v_proj]' --set train.kl=1 \
    --set train.ce=0 --set train.tokens=4096 >out.log 2>&1 || fail "$(cat out.log)"
below "$(field half/run.json kl_after)" "$(field half/run.json kl_before)" "KL of a half"

# Adapters alone, in the files of PEFT.
"$pare" train lora.yaml --output alone --set lora.merge=false >out.log 2>&1 || fail "$(cat out.log)"
ls alone | tr '\n' ' ' >files
[ "$(cat files)" = "README.md SHA256SUMS adapter_config.json adapter_model.safetensors manifest.json recipe.yaml report.html run.json " ] ||
    fail "files: $(cat files)"
[ "$(field alone/run.json perplexity_before)" = "$(field lora/run.json perplexity_before)" ] || fail "another beginning"
"$pare" verify alone >out.log || fail "verify does not accept alone"
grep -q 'tokenizer' out.log && fail "adapters need no tokenizer: $(cat out.log)"
[ "$(tensors alone | wc -l)" = 16 ] || fail "tensors: $(tensors alone)"
tensors alone | grep -q '^base_model.model.model.layers.1.mlp.up_proj.lora_B.weight ' || fail "$(tensors alone)"
for line in '"peft_type": "LORA"' '"task_type": "CAUSAL_LM"' '"base_model_name_or_path": "./base"' '"r": 4' \
    '"lora_alpha": 32' '"lora_dropout": 0' '"use_rslora": false' '"bias": "none"' '"fan_in_fan_out": false' \
    '"inference_mode": true' '"q_proj"' '"model.layers.1.mlp.up_proj"'; do
    grep -qF "$line" alone/adapter_config.json || fail "no $line in $(cat alone/adapter_config.json)"
done
survives lora.yaml alone --set lora.merge=false
says 'this directory holds an adapter (LoRA)' "$pare" eval alone --text "$demo/evaluation.txt"
cp -r alone damaged
printf 'x' | dd of=damaged/adapter_model.safetensors bs=1 seek=4000 conv=notrunc 2>/dev/null
says 'SHA-256' "$pare" verify damaged
says "is finished; give another output, or --restart" "$pare" train lora.yaml --output alone --set lora.merge=false
"$pare" train lora.yaml --output alone --set lora.merge=false --restart >out.log 2>&1 || fail "$(cat out.log)"

# A mixture of experts: all linears merged, those of attention alone.
"$make" qwen2_moe mixture
"$pare" generate mixture --tokens 60 --count 6 --output mixture.i32 >/dev/null 2>&1
cat >mixture.yaml <<END
pare: 1
model: mixture
output: mixed
lora: {rank: 2}
data: {tokens: mixture.i32, window: 32, held_out: 2}
train: {tokens: 640, batch: 4, rate: 1e-2}
END
"$pare" train mixture.yaml >out.log 2>&1 || fail "$(cat out.log)"
"$pare" verify mixed >/dev/null || fail "verify does not accept mixed"
# of each of 3 blocks: 4 of attention, 3 of the shared expert, 3 of each of 8 others
[ "$(field mixed/run.json linears)" = 93 ] || fail "linears: $(field mixed/run.json linears)"
says 'shared_expert.gate_proj belongs to a mixture of experts' \
    "$pare" train mixture.yaml --output x --set lora.merge=false
"$pare" train mixture.yaml --output attention --set lora.merge=false --set 'lora.targets=[q_proj, v_proj]' \
    >out.log 2>&1 || fail "$(cat out.log)"
"$pare" verify attention >/dev/null || fail "verify does not accept attention"

# Bad input, in words.
says 'takes a whole number from 1' "$pare" train lora.yaml --output x --set lora.rank=0
says 'rank 49 is above the smaller side of' "$pare" train lora.yaml --output x --set lora.rank=49
says '"qproj" matches no linear of the blocks; the nearest is "model.layers.0.self_attn.q_proj"' \
    "$pare" train lora.yaml --output x --set 'lora.targets=[qproj]'
says '"lora" and "config" exclude each other' "$pare" train scratch.yaml --output x --set lora.rank=4
says 'leave out "keep_zeros" or "lora"' "$pare" train lora.yaml --output x --set keep_zeros=true
says 'leave out "moments: 8bit"' "$pare" train lora.yaml --output x --set train.moments=8bit
says '8 for each of' "$pare" train lora.yaml --output x --ram-limit 1MiB
[ ! -e x ] && [ ! -e x.partial ] || fail "a refused job left files"
echo "train_lora.sh: good"
