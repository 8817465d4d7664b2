# What tests of pare train share: . train_checks.sh, with $pare, $demo set, in an empty folder. Makes the
# recipe of a tiny model, scratch.yaml.

script=$(basename "$0")

fail() {
    echo "$script: $*" >&2
    exit 1
}

# says TEXT COMMAND...: the command fails, and says the text
says() {
    text=$1 code=0
    shift
    "$@" >out.log 2>&1 || code=$?
    [ $code != 0 ] || fail "did not fail: $*"
    grep -qF -- "$text" out.log || fail "no \"$text\" in: $(cat out.log)"
}

# refuses TEXT COMMAND...: the same, with exit code 2
refuses() {
    says "$@"
    [ $code = 2 ] || fail "exit code $code, not 2: $*"
}

same() {
    for weights in "$1"/*.safetensors; do
        cmp "$weights" "$2/$(basename "$weights")" || fail "$1 and $2 have other weights"
    done
    cmp "$1/manifest.json" "$2/manifest.json" || fail "$1 and $2 have other manifests"
}

# field FILE KEY: a number of a JSON file
field() {
    sed -n "s/^ *\"$2\": *\([-0-9.e+]*\),*\$/\1/p" "$1" | head -n 1
}

below() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 == a && a < b) }' || fail "$1 is not below $2: $3"
}

# begin ARGUMENT...: a training in the background that has made a step, or goes on; its process is $!
begin() {
    : >out.log # that of an earlier command may have the line
    "$pare" train "$@" >out.log 2>&1 &
    begun='step 1 of\|continues after step'
    until grep -q "$begun" out.log; do
        kill -0 $! 2>/dev/null || grep -q "$begun" out.log || fail "no step: $(cat out.log)"
        sleep 0.01
    done
}

# Any number of threads, and any history of kills: the same bytes. survives RECIPE OUTPUT ARGUMENT...
survives() {
    of=$1 to=$2
    shift 2
    "$pare" train "$of" --output "threads-$to" --threads 5 "$@" >/dev/null 2>&1
    same "$to" "threads-$to"
    # The first run dies once it has saved a state, the others after delays that grow, so that a slow
    # machine comes to the end. One that is done when the kill comes (this script sleeps longer than
    # it asks for on a busy machine) does not count.
    tries=0
    until [ -s "killed-$to.partial/training.state" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 20 ] || fail "no training is killed behind its first state"
        rm -rf "killed-$to" "killed-$to.partial" "killed-$to.lock"
        begin "$of" --output "killed-$to" --threads 2 "$@"
        until [ -s "killed-$to.partial/training.state" ] || [ -d "killed-$to" ]; do sleep 0.01; done
        kill -KILL $! 2>/dev/null || true
        wait $! || true
    done
    runs=0
    while [ ! -d "killed-$to" ]; do
        runs=$((runs + 1))
        [ "$runs" -lt 200 ] || fail "the training does not end"
        delay=$(awk -v n="$runs" 'BEGIN { srand(n); printf "%.2f", .1 + .1 * rand() + .05 * n * 1.1 ^ n }')
        ended=true # else it may die once it has its name, and leave its lock
        timeout --foreground -s KILL "$delay" "$pare" train "$of" --output "killed-$to" --threads 2 "$@" >out.log 2>&1 ||
            ended=false
    done
    same "$to" "killed-$to"
    grep -q 'continues after step' out.log || fail "the last run began anew: $(cat out.log)"
    $ended || return 0
    [ ! -e "killed-$to.partial" ] && [ ! -e "killed-$to.lock" ] || fail "something is left beside the output"
}

cat >config.json <<'END'
{"model_type": "llama", "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 400,
 "max_position_embeddings": 128, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
 "tie_word_embeddings": true, "hidden_act": "silu", "torch_dtype": "bfloat16"}
END
cat >scratch.yaml <<END
pare: 1
config: config.json
vocabulary: 400
output: scratch
data: {text: ["$demo/calibration.txt"], window: 64}
train: {tokens: 32768, batch: 8, rate: 5e-3, save: 0}
END
