#!/bin/sh
# Many runs at once that write to one output: one at a time does, the others are told who, and what
# lies there in the end is whole. A file that comes to the output of generate while that is written
# stays. race.sh PARE MAKE_CHECKPOINT [RUNS]
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

# look: the state of process $pid in $state: Z, too, when it is gone.
look() {
    state=Z
    { read -r _ _ state _ < "/proc/$pid/stat"; } 2> /dev/null
}

# late: stops generate between the file that it writes and the name that it gives it, where it syncs,
# and puts a file there; false when generate was too fast. Its exit code in $code.
late() {
    rm -f late.i32
    state='' caught=1 code=0
    "$pare" generate model --tokens 4 --threads 1 --output late.i32 > late.out 2> late.err &
    pid=$!
    until [ -e late.i32.tmp ] || [ "$state" = Z ]; do look; done
    kill -STOP "$pid" 2> /dev/null
    until [ "$state" = T ] || [ "$state" = Z ]; do look; done
    if [ -e late.i32.tmp ]; then printf mine > late.i32 && caught=0; fi
    kill -CONT "$pid" 2> /dev/null
    wait "$pid" || code=$?
    return $caught
}

tries=0
until late; do
    [ $code -eq 0 ] || fail "generate: exit code $code: $(cat late.err)"
    tries=$((tries + 1))
    if [ $tries -eq 20 ]; then
        echo "race: generate: too fast to be stopped"
        exit 0
    fi
done
[ "$(cat late.i32)" = mine ] || fail "generate replaced a file that came while it wrote"
[ $code -eq 2 ] || fail "generate: exit code $code: $(cat late.err)"
[ ! -e late.i32.tmp ] || fail "generate left late.i32.tmp"
echo "race: generate: a file that came while it wrote stays"
