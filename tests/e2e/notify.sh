#!/bin/sh
# --notify of compress, batch and train, for every end of a job: notify.sh PARE DEMO
set -eu
pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
head -c 8000 "$demo/evaluation.txt" > text

. "$here/job_checks.sh"

tell='echo "$PARE_STATUS $PARE_EXIT $PARE_OUTPUT: $PARE_SUMMARY" >> told; echo from the command'

# recipe NAME [LINE...]
recipe() {
    name=$1
    shift
    printf 'pare: 1\nmodel: %s/hedge\noutput: %s\npasses: [rtn: {bits: 3}]\n' "$demo" "$name" > "$name.yaml"
    for line in "$@"; do printf '%s\n' "$line" >> "$name.yaml"; done
}

# told LINE: the command ran once, and was told this.
told() {
    [ -f told ] || fail "the command did not run"
    [ "$(wc -l < told)" = 1 ] || fail "the command ran more than once: $(cat told)"
    says told "$1"
    rm told
}

untold() { [ ! -f told ] || fail "$*: the command ran: $(cat told)"; }

recipe good
run 0 good --notify "$tell" --format json
told '^finished 0 ./good: .* MiB, .* bits per weight$'
! grep -q 'from the command' out || fail "the command wrote to stdout"
says err 'from the command'

run 0 good --notify "$tell" --format json
told '^finished 0 ./good: already complete$'

# a mistake in the asking, and what is no job
run 2 good --notify "$tell" --set passes.0.rtn.bits=99
run 2 good --notify "$tell" --set passes.0.rtn.bits=2
run 0 good --notify "$tell" --dry-run --output other
run 2 good --notify ''
untold usage

# A job of a batch that finds the output of another one ends as its events say. The word that marks it
# stands in front of no other command.
code=0
"$pare" --of-batch compress good.yaml --set passes.0.rtn.bits=4 --notify "$tell" --log json:events \
    > out 2> err || code=$?
[ $code = 20 ] || fail "another job: exit code $code, not 20: $(cat err)"
[ "$(grep -c '"exit_code": *20' events)" = 2 ] || fail "another code in the events: $(cat events)"
untold "of a batch"
for command in "batch good.yaml" "help code" "--version" "plan good.yaml"; do
    code=0
    "$pare" --of-batch $command > out 2> err || code=$?
    [ $code = 2 ] || fail "--of-batch $command: exit code $code"
    says err 'unknown command "--of-batch"'
done

recipe bad 'evaluate: [kl: {text: text, window: 128}]' 'require: {kl: "<= 0.001"}'
run 6 bad --notify "$tell"
told '^verdict 6 ./bad: verdict REGRESSION$'

cp -r "$demo/hedge" broken
head -c 100000 "$demo/hedge/model.safetensors" > broken/model.safetensors
run 4 good --model broken --output lost --notify "$tell"
told '^failed 4 lost: .*model.safetensors'

# a command that fails changes nothing
recipe again
run 0 again --notify 'exit 7'
says err 'warning: the command of --notify ended with exit code 7'

# interrupted: the signal comes when the job has said that it is at work
recipe long "calibration: {text: $demo/calibration.txt, samples: all, window: 64}"
sed -i 's/rtn: {bits: 3}/gptq: {bits: 3}/' long.yaml
for turn in 1 2 3 4 5 6 7 8 9; do # one that is done by then does not count
    rm -rf long told
    "$pare" compress long.yaml --notify "$tell" --threads 1 > out 2> err &
    job=$! code=0
    until [ -d long.partial ] || ! kill -0 "$job" 2> /dev/null; do sleep 0.05; done
    kill -TERM "$job" 2> /dev/null || true
    wait "$job" || code=$?
    [ "$code" = 0 ] || break
done
[ "$code" = 130 ] || fail "exit code $code, not 130"
told '^interrupted 130 ./long: '

printf 'pare: 1\nrecipe: good.yaml\noutput: sweep\nmatrix: {bits: [2, 4]}\n' > jobs.yaml
"$pare" batch jobs.yaml --notify "$tell" > out 2> err || fail batch
told '^finished 0 .*/sweep: 2 jobs$'
"$pare" batch jobs.yaml --summary --notify "$tell" > out 2> err && fail 'summary runs no jobs'
untold summary

"$pare" train "$here/../../recipes/train/scratch.yaml" --output tiny --set train.tokens=8192 \
    --notify "$tell" > out 2> err || fail train
told '^finished 0 tiny: perplexity .* -> '
"$pare" train "$here/../../recipes/train/scratch.yaml" --output tiny2 --set train.tokens=8192 \
    --dry-run --notify "$tell" > out 2> err || fail "train --dry-run"
untold dry-run
