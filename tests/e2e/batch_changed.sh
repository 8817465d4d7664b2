#!/bin/sh
# What pare batch says of jobs whose recipe or model is another one than before:
# batch_changed.sh PARE DEMO
set -eu
. "$(dirname "$0")/begin.sh"
. "$here/batch_checks.sh"
. "$here/blocks.sh"

cat >base.yaml <<END
pare: 1
model: $work/hedge
output: unused
calibration: {text: [$demo/calibration.txt], samples: 2, window: 32}
passes: [rtn: {group: 64}]
END

# --- a model that another job wrote, and then wrote anew
cat >model.yaml <<END
pare: 1
recipe: base.yaml
include:
  - {name: shallow, method: [depth: {blocks: 1}]}
  - {name: shallow-rtn, method: rtn, model: {job: shallow}}
  - {name: shallow-two, method: [depth: {blocks: 1}, rtn: {bits: 8}], model: {job: shallow}}
END
run 0 model.yaml --output model
run 0 model.yaml --output model
says '3 of 3 jobs are done already'
sed -i 's/name: shallow, method: .depth: {blocks: 1/name: shallow, method: [depth: {blocks: 2/; /shallow-two/d' model.yaml
run 0 model.yaml --output model --summary
says '^shallow  *stale'
says '^shallow-rtn  *stale'
says '^shallow-rtn: it was made of the output of a job that is stale, shallow'
run 1 model.yaml --output model
says '^shallow-rtn  *stale'
says 'error: 2 of 2 jobs are not done: other results are there; the same command with --restart'
cp -rp model alone
"$pare" compress alone/shallow.yaml --restart >out.log 2>&1 || fail "shallow alone: $(cat out.log)"
run 0 model.yaml --output alone --summary
says '^shallow .*done'
says '^shallow-rtn  *stale'
says '^shallow-rtn: it was made of another model.safetensors than is now in shallow'
run 2 model.yaml --output alone --dry-run
says '^shallow-rtn  *stale: it was made of another'
run 1 model.yaml --output alone
says '^shallow-rtn  *stale'
says '^1 of 2 jobs done'
[ -s alone/shallow-rtn.failed ] || fail "nothing kept of why a job is not done"
"$pare" compress alone/shallow-rtn.yaml --restart >out.log 2>&1 || fail "rtn alone: $(cat out.log)"
run 0 model.yaml --output alone --summary
[ ! -e alone/shallow-rtn.failed ] || fail "a job that is done has $(cat alone/shallow-rtn.failed)"
run 0 model.yaml --output alone
says '2 of 2 jobs are done already'
run 0 model.yaml --output model --restart
says '^2 of 2 jobs done'

# --- an unfinished job whose recipe changed
head -c 60000 $demo/evaluation.txt >long
printf 'pare: 1\nrecipe: base.yaml\nmatrix: {bits: [4]}\n' >jobs.yaml
{ cat base.yaml && echo 'evaluate: [kl: {text: long, window: 64}]'; } >slow.yaml
sed 's/base/slow/' jobs.yaml >slow_jobs.yaml
for turn in 1 2 3 4 5 6 7 8 9; do # a kill may come too late
    rm -rf slow
    "$pare" batch slow_jobs.yaml --output slow >out.log 2>err.log &
    pid=$!
    until [ -s slow/bits4.partial/journal ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
    kills $pid
    [ ! -s slow/bits4.partial/journal ] || break
done
[ -s slow/bits4.partial/journal ] || fail "every kill came too late: $(cat out.log err.log)"
run 0 slow_jobs.yaml --output slow --summary
says '^bits4  *unfinished'
sed -i 's/group: 64/group: 32/' slow.yaml
run 0 slow_jobs.yaml --output slow --summary
says '^bits4  *stale'
says '^bits4: .*the unfinished run is not this job: its recipe says "group: 64" where this one says "group: 32"'
run 2 slow_jobs.yaml --output slow --dry-run
says '^bits4  *stale: '
says '^0 of 1 job to do'
for turn in 1 2; do
    run 1 slow_jobs.yaml --output slow
    says '^bits4  *stale'
    says 'error: 1 of 1 job is not done: other results are there; the same command with --restart'
done
run 1 slow_jobs.yaml --output slow --summary
says '^bits4  *stale'
plans 2 slow/bits4.yaml
says '^warning  *compress would refuse: .*the unfinished run is not this job: its recipe says "group: 64"'
says '^time '
plans 2 slow/bits4.yaml --format json
says '^ *"[^"]*the unfinished run is not this job'
[ "$(tail -n 1 out.log)" = "}" ] || fail "no whole object"
plans 0 slow/bits4.yaml --restart
never 'the unfinished run'
sed -i 's/group: 32/group: 64/' slow.yaml
run 0 slow_jobs.yaml --output slow --summary
says '^bits4  *unfinished'
run 0 slow_jobs.yaml --output slow --dry-run
says '^1 of 1 job to do'
run 2 slow_jobs.yaml --output slow --dry-run --emit make
says 'batch: --dry-run and --emit exclude each other; leave one out'
run 2 slow_jobs.yaml --output slow --summary --dry-run
says 'batch: --dry-run and --summary exclude each other; leave one out'
sed -i 's/group: 64/group: 32/; s/text: long, window: 64/text: long, window: 64, limit: 2/' slow.yaml
run 0 slow_jobs.yaml --output slow --restart
says '^1 of 1 jobs* done'

# --- unfinished jobs whose parameters say auto, which their plans settle in two ways
cat >auto.yaml <<END
pare: 1
recipe:
  model: $work/hedge
  calibration: {text: [$demo/calibration.txt], samples: 40, window: 128}
  passes: [gptq: {bits: 3, group: 64}]
  evaluate: [kl: {text: long, window: 64}]
include:
  - {name: rounds}
  - {name: trains, method: [gptq, distill: {aware: true, tokens: 2000}]}
END
both() { [ -s auto/rounds.partial/journal ] && [ -s auto/trains.partial/journal ]; }
for turn in 1 2 3 4 5 6 7 8 9; do # both stand still at their work, or the batch begins again
    rm -rf auto
    "$pare" batch auto.yaml --output auto --jobs 2 >out.log 2>err.log &
    pid=$!
    until both || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
    stops $pid
    stops $(cat /proc/$pid/task/$pid/children 2>/dev/null)
    ! both || break
    kills $pid
done
both || fail "one job was over before both were at work: $(cat out.log err.log)"
run 0 auto.yaml --output auto --dry-run
says '^2 of 2 jobs to do'
kills $pid
run 0 auto.yaml --output auto --summary
says '^0 of 2 jobs done, 2 unfinished'
run 0 auto.yaml --output auto --dry-run
says '^rounds .*; unfinished: the same command continues it$'
says '^trains .*; unfinished: the same command continues it$'
"$pare" plan auto/rounds.yaml >out.log 2>err.log || fail "plan: $(cat err.log)"
never 'the unfinished run'
sed -i 's/gptq: {bits: 3, group: 64}/gptq: {bits: 3, group: 64, correct: none}/' auto.yaml
run 2 auto.yaml --output auto --dry-run
says '^rounds  *stale: .*its recipe says "correct: gptaq" where this one says "correct: none"'
says '^1 of 2 jobs to do'

# --- what a search left, without an output
sed 's/^passes.*/passes: [budget: {bits: 4}]/' base.yaml >search.yaml
printf 'pare: 1\nrecipe: search.yaml\ninclude: [{name: found}]\n' >searches.yaml
run 0 searches.yaml --output search --emit make
run 0 searches.yaml --output search --summary
says '^found  *missing'
mkdir -p search/found.variants/base
run 0 searches.yaml --output search --summary
says '^found  *unfinished'
printf 'found.variants: is of another job\nstale\n' >search/found.failed
run 1 searches.yaml --output search --summary
says '^found  *stale'
says '^found: found.variants: is of another job'
rm -r search/found.variants
run 0 searches.yaml --output search --summary
says '^found  *missing'

# --- what an older pare said of a job that it refused
sed 's/64}/32}/' base.yaml >older.yaml
sed 's/base/older/' jobs.yaml >older_jobs.yaml
run 0 jobs.yaml --output older
run 1 older_jobs.yaml --output older
printf '%s\n' "$(head -n 1 older/bits4.failed)" >older/bits4.failed
run 1 older_jobs.yaml --output older --summary
says '^bits4  *stale'
says 'error: 1 of 1 job is not done: other results are there'

# --- a limit is divided by the jobs that there are, in a plan as in a run
cat >limits.yaml <<END
pare: 1
recipe: base.yaml
include: [{name: a, bits: 4}, {name: b, bits: 8}]
END
run 0 limits.yaml --output limits --dry-run --format json
most=$(sed -n 's/^ *"memory_bytes": \([0-9]*\),*/\1/p' out.log | tail -n 1)
run 0 limits.yaml --output limits --dry-run --jobs 9 --ram-limit $((most * 5 / 2))
run 0 limits.yaml --output limits --jobs 9 --ram-limit $((most * 5 / 2))
says '^2 of 2 jobs done'

# --- the memory of a job is what it takes alone, with its share of the threads
sed 's/base/slow/' limits.yaml >alone.yaml
run 0 alone.yaml --output alone_each --emit make
for jobs in 1 2; do
    run 0 alone.yaml --output alone_each --dry-run --threads 2 --jobs $jobs --format json
    most=$(sed -n 's/^ *"memory_bytes": \([0-9]*\),*/\1/p' out.log | head -n 1)
    "$pare" plan alone_each/a.yaml --threads $((2 / jobs)) --format json >out.log || fail "no plan of a"
    says "^ *\"anonymous_bytes\": $most,"
done

# --- a plan of jobs that can never work, and its totals
run 0 jobs.yaml --output totals
sed 's/64}/32}/' base.yaml >narrow.yaml
cat >totals.yaml <<END
pare: 1
recipe: narrow.yaml
matrix: {bits: [4]}
include:
  - {name: read, method: rtn, model: {job: bits4}}
  - {name: cut, bits: 8, method: [depth: {blocks: 1}, rtn: {}]}
  - {name: read-cut, method: rtn, model: {job: cut}}
END
run 1 totals.yaml --output totals --dry-run
says '^bits4  *stale: it was made of another recipe'
says '^read  *its model is what bits4 writes, which is compressed already'
says '^read-cut  *its model is what cut writes, which is compressed already'
says '^2 would fail'
says '^1 is stale and would be refused'
says 'error: 2 jobs would fail and 1 would be refused, as the list says; the first is bits4: stale'
