#!/bin/sh
# Many runs at once that write to one output: one at a time does, the others are told who, and what
# lies there in the end is whole. race.sh PARE MAKE_CHECKPOINT [RUNS]
set -u
pare=$1 make=$2 runs=${3:-20}
work=$(mktemp -d "${TMPDIR:-/tmp}/pare-race-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() {
    echo "race: $*" >&2
    exit 1
}

"$make" model blocks=1 hidden=64 intermediate=128 vocab=96 context=64 heads=4 kv_heads=2 head_dim=16 \
    > /dev/null || fail "no model"
printf 'pare: 1\nmodel: model\npasses: [rtn: {bits: 4, group: 32}]\n' > r.yaml

# race OUTPUT ARGUMENTS: all exit 0, or 2 and say who writes to OUTPUT.
race() {
    output=$1
    shift
    i=0
    while [ $i -lt "$runs" ]; do
        (
            "$pare" "$@" --threads 1 > "out.$i" 2> "err.$i"
            echo $? > "code.$i"
        ) &
        i=$((i + 1))
    done
    wait
    i=0 done=0 told=0
    while [ $i -lt "$runs" ]; do
        case $(cat "code.$i") in
        0) done=$((done + 1)) ;;
        2)
            # the second: on a busy machine the holder has not written its name yet
            grep -Eq -e "$output: in use by pare $1 \(process [0-9]* on .*, since 2.*Z\); wait for it" \
                -e "$output: in use by another process \($output.lock\); wait for it" "err.$i" ||
                fail "$*: $(cat "err.$i")"
            told=$((told + 1))
            ;;
        *) fail "$*: exit code $(cat "code.$i"): $(cat "err.$i")" ;;
        esac
        i=$((i + 1))
    done
    [ $done -ge 1 ] || fail "$*: nobody came to the end"
    for stray in "$output.lock" "$output.partial" "$output.replaced" "$output/journal"; do
        [ ! -e "$stray" ] || fail "$*: $stray is left"
    done
    echo "race: $*: $done done, $told told who writes"
}

race out compress r.yaml --output out
"$pare" verify out > /dev/null || fail "a torn artifact"
race out compress r.yaml --output out --restart
"$pare" verify out > /dev/null || fail "a torn artifact after --restart"
race x export out --format safetensors --output x --restart
(cd x && sha256sum --quiet --check SHA256SUMS) || fail "a torn export"
race x.gguf export out --format gguf:q4_0 --output x.gguf --restart
"$pare" inspect x.gguf > /dev/null || fail "a torn GGUF file"
