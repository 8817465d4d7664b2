# What tests of searches share: . search_checks.sh, with $pare, $demo, $here and $model
# set, in an empty folder. Makes the text that they calibrate on.

. "$here/job_checks.sh"

head -c 90000 "$demo/calibration.txt" > text

# recipe NAME PASS [LINE...]: NAME.yaml, whose output is NAME.
recipe() {
    name=$1 pass=$2
    shift 2
    {
        printf 'pare: 1\nmodel: %s\noutput: %s\n' "$model" "$name"
        printf 'calibration: {text: [text], samples: 16, window: 128}\npasses: [{%s}]\n' "$pass"
        for line in "$@"; do printf '%s\n' "$line"; done
    } > "$name.yaml"
}

# killed NAME TEXT [OPTION...]: kills the job once it says that, and counts it in $kills. One that is done
# by then begins again, without its output and what $anew names.
anew=''
killed() {
    name=$1 text=$2
    shift 2
    for turn in 1 2 3; do
        code=0
        rm -f log err # of the job before
        "$pare" compress "$name.yaml" --log json:log "$@" > out 2> err &
        job=$!
        until grep -qs -- "$text" err log || ! kill -0 $job 2> /dev/null; do sleep 0.05; done
        kill -9 $job 2> /dev/null || true
        wait $job 2> /dev/null || code=$?
        [ $code = 0 ] || break
        rm -rf "$name" $anew
    done
    rm -f log
    [ $code != 137 ] || kills=$((kills + 1))
}
