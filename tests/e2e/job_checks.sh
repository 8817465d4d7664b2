# What tests of whole jobs share: . job_checks.sh, with $pare set, in a folder of their own.

script=$(basename "$0" .sh)

fail() {
    echo "$script: $*"
    [ ! -f err ] || tail -n 5 err
    exit 1
}

# run CODE NAME [OPTION...]: compress of NAME.yaml ends with this code.
run() {
    wanted=$1 name=$2 code=0
    shift 2
    "$pare" compress "$name.yaml" "$@" > out 2> err || code=$?
    [ "$code" = "$wanted" ] || fail "$name $*: exit code $code, not $wanted"
}

# says FILE TEXT
says() { grep -q -- "$2" "$1" || fail "$1 does not say \"$2\": $(cat "$1")"; }
