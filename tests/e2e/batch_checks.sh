# What tests of pare batch share: . batch_checks.sh, behind begin.sh.

# run CODE ARGUMENT...: pare batch ends with that code
run() {
    want=$1 code=0
    shift
    "$pare" batch "$@" >out.log 2>err.log || code=$?
    [ "$code" = "$want" ] || fail "batch $*: exit $code, not $want: $(cat out.log err.log)"
}

# says PATTERN: the summary, or the error, has such a line; never: none has
says() { grep -q -- "$1" out.log err.log || fail "no \"$1\": $(cat out.log err.log)"; }
never() { if grep -q -- "$1" out.log err.log; then fail "\"$1\": $(cat out.log err.log)"; fi; }

# plans CODE ARGUMENT...: pare plan ends with that code
plans() {
    want=$1 code=0
    shift
    "$pare" plan "$@" >out.log 2>err.log || code=$?
    [ "$code" = "$want" ] || fail "plan $*: exit $code, not $want: $(cat out.log err.log)"
}

# waits PID...: until none of the processes runs; who was killed may write to a disk to its end first
waits() {
    for process in "$@"; do
        for try in $(seq 1200); do
            state=$(sed 's/.*) \(.\).*/\1/' "/proc/$process/stat" 2>&1) || state=Z
            [ "$state" != Z ] || break
            sleep 0.05
        done
        [ "$state" = Z ] || fail "process $process lives on"
    done
}

# stops PID...: until each of the processes stands still, or is gone
stops() {
    for process in "$@"; do
        state=
        until [ "$state" = T ] || [ "$state" = Z ]; do
            kill -STOP "$process" 2>/dev/null || true
            state=$(sed 's/.*) \(.\).*/\1/' "/proc/$process/stat" 2>&1) || state=Z
        done
    done
}

# kills PID: a batch in the background, and with it what it started, which then has let go of its outputs
kills() {
    stops "$1"
    children=$(cat "/proc/$1/task/$1/children" 2>/dev/null) || true
    kill -9 "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
    waits $children
}
