#!/bin/sh
# What pare batch says of jobs whose outputs are not as it left them: batch_states.sh PARE DEMO
set -eu
. "$(dirname "$0")/begin.sh"
. "$here/batch_checks.sh"

head -c 3000 $demo/evaluation.txt >text
cat >base.yaml <<END
pare: 1
model: $demo/hedge
output: unused
passes: [rtn: {group: 64}]
evaluate: [kl: {text: text, window: 64, limit: 2}]
export: [{format: "gguf:q8_0", path: gguf/out.gguf}]
END
printf 'pare: 1\nrecipe: base.yaml\nmatrix: {bits: [4, 8]}\n' >jobs.yaml
run 0 jobs.yaml --output nothing --summary
says 'not more KL$'
run 0 jobs.yaml --output one

# Exports lie in their folder.
[ -f one/gguf/bits4-out.gguf ] && [ -f one/gguf/bits8-out.gguf ] || fail "exports: $(ls one one/gguf)"
sed -i '/^export/d' base.yaml
rm -r one
run 0 jobs.yaml --output one

# Weights, and run.json, that went away; the others are done.
mv one/bits4/packed-00001-of-00001.safetensors weights
run 0 jobs.yaml --output one --summary
says '^bits4  *stale'
says '^bits4: its file packed-00001-of-00001.safetensors is missing or damaged'
run 2 jobs.yaml --output one --dry-run
says '^0 of 2 jobs to do$'
says '^1 is damaged or not of pare and would be refused; --restart does not replace it'
run 1 jobs.yaml --output one
says '^bits4: .*missing or damaged; move the folder away'
says '1 of 2 jobs is not done: what is there is damaged or not of pare, and no --restart replaces it'
run 1 jobs.yaml --output one --summary
says '^bits4  *stale'
says '^bits4: .*missing or damaged; move the folder away'
mv weights one/bits4/packed-00001-of-00001.safetensors
run 0 jobs.yaml --output one --summary
says '^2 of 2 jobs done'
mv one/bits8/run.json run.json
run 0 jobs.yaml --output one --summary
says '^bits8: its file run.json is missing'
run 1 jobs.yaml --output one
says '^bits8  *stale'
mv run.json one/bits8/run.json
run 0 jobs.yaml --output one

{ cat base.yaml && echo 'require: {bytes: "<= 9MiB"}'; } >bound.yaml
printf 'pare: 1\nrecipe: bound.yaml\nmatrix: {bits: [4, 8]}\n' >bounds.yaml

# Any other file that is missing, or was emptied, as well.
for file in SHA256SUMS layers.csv recipe.yaml README.md manifest.json; do
    for what in missing damaged; do
        [ "$file $what" != "manifest.json missing" ] && [ "$file $what" != "README.md damaged" ] || continue
        cp -rp one broken
        rm broken/bits8/$file
        [ $what = missing ] || : >broken/bits8/$file
        run 2 jobs.yaml --output broken --dry-run
        says "^bits8  *stale: its file $file is $what\(, or not of pare\)*; move the folder away"
        rm -r broken
    done
done
cp -rp one broken
: >broken/bits8/run.json
rm broken/bits4/recipe.yaml
run 2 bounds.yaml --output broken --dry-run --restart
says '^bits8  *stale: its file run.json is damaged; move the folder away'
run 1 jobs.yaml --output broken
says '^bits8: its file run.json is damaged'
says '^bits4: not begun: its file recipe.yaml is missing'
run 1 jobs.yaml --output broken --summary --format json
says '"error": "its file recipe.yaml is missing; move the folder away'
rm -r broken

# A run that was stopped as it wrote another verdict is gone on with: SHA256SUMS is behind.
cp -rp one broken
echo >>broken/bits8/run.json
echo >>broken/bits8/recipe.yaml
run 0 bounds.yaml --output broken
says '^2 of 2 jobs done'
rm -r broken

# What --restart would not replace, by all of its bytes, a plan finds, too.
{ cat base.yaml && echo 'export: [{format: "gguf:q8_0", path: x.gguf}]'; } >whole.yaml
printf 'pare: 1\nrecipe: whole.yaml\nmatrix: {bits: [3, 4, 8]}\n' >whole_jobs.yaml
run 0 whole_jobs.yaml --output whole
run 0 whole_jobs.yaml --output whole --dry-run --restart
says '^3 of 3 jobs to do'
changes() { printf x | dd of="$1" bs=1 seek=900000 conv=notrunc 2>/dev/null; }
changes whole/bits3/packed-00001-of-00001.safetensors
changes whole/bits4-x.gguf
rm whole/bits8/layers.csv
run 2 whole_jobs.yaml --output whole --dry-run --restart
says '^bits3  *[^ ]*packed-00001-of-00001.safetensors: differs from its SHA-256'
says '^bits4  *.*bits4-x.gguf: has no checksums in its head, or differs from them'
says '^bits8  *stale: its file layers.csv is missing'
says '^0 of 3 jobs to do'
run 1 whole_jobs.yaml --output whole --restart
says 'error: 3 of 3 jobs are not done: what is there is damaged or not of pare, and no --restart replaces it'
rm -r whole

# What is no manifest of pare is not replaced, and what pare did not write stays. Once it is moved
# away, the job is made.
cp -rp one garbage
echo garbage >garbage/bits4/manifest.json
for option in "" --restart; do
    run 2 jobs.yaml --output garbage --dry-run $option
    says '^bits4  *stale: its file manifest.json is damaged, or not of pare; move the folder away'
    run 1 jobs.yaml --output garbage $option
    says '^bits4: not begun: its file manifest.json is damaged, or not of pare'
    [ "$(cat garbage/bits4/manifest.json)" = garbage ] || fail "a file that is not of pare is gone"
done
sed -i.was 's/^passes/seed: 7\npasses/' base.yaml # the other output is stale then
run 1 jobs.yaml --output garbage
says 'error: 2 of 2 jobs are not done: other results .*; 1 output is damaged or not of pare and must be moved away first'
mv base.yaml.was base.yaml
rm garbage/bits8/run.json
run 1 jobs.yaml --output garbage
says 'error: 2 of 2 jobs are not done: what is there is damaged or not of pare'
mv garbage/bits4 moved && mv garbage/bits8 moved_too
mkdir garbage/bits4 # somebody else's, with a manifest of its own
echo '{"name": "a page"}' >garbage/bits4/manifest.json
run 1 jobs.yaml --output garbage
says '^bits4: not begun: its file manifest.json is damaged, or not of pare'
says 'error: 1 of 2 jobs is not done: what is there is damaged or not of pare'
rm -r garbage/bits4 garbage/bits8
run 0 jobs.yaml --output garbage --summary
says '^0 of 2 jobs done, 2 missing'
run 0 jobs.yaml --output garbage --dry-run
says '^2 of 2 jobs to do'
run 0 jobs.yaml --output garbage
rm -r garbage moved moved_too

# A plan says of stale jobs what a run does with them. Their paths are longer than what is kept of an
# error.
deep=deep
for level in 1 2 3 4 5 6; do deep=$deep/$(printf 'd%.0s' $(seq 200)); done
mkdir -p $deep
cp -rp one $deep/stale
sed 's/group: 64/group: 32/' base.yaml >narrow.yaml
cat >narrow_jobs.yaml <<END
pare: 1
recipe: narrow.yaml
matrix: {bits: [4, 8]}
include:
  - {name: behind, bits: 4, after: bits4}
  - {name: new, bits: 3}
END
run 2 narrow_jobs.yaml --output $deep/stale --dry-run
says '^bits4  *stale: it was made of another recipe'
says '^behind  *waits: bits4 is not done'
says '^1 of 4 jobs to do'
says '^2 are stale and would be refused'
says 'error: 2 jobs would be refused, as the list says; the first is bits4: stale'
run 1 narrow_jobs.yaml --output $deep/stale
for turn in 1 2; do
    says '^bits4  *stale'
    says '^behind  *waits'
    says '^1 of 4 jobs done'
    run 1 narrow_jobs.yaml --output $deep/stale --summary
done
run 0 narrow_jobs.yaml --output $deep/stale --dry-run --restart
says '^4 of 4 jobs to do'
cp -rp one bounds
run 0 bounds.yaml --output bounds --dry-run
says '^bits4  *is there, of the same work; a run looks at it; its verdict is ACCEPT$'
says '^2 of 2 jobs to do: [0-9.]* MiB at most in one job$'
echo 'ended by signal 9; the same command continues it' >bounds/bits4.failed
run 0 bounds.yaml --output bounds --dry-run
says '^bits4  *is there, of the same work; a run looks at it; its verdict is ACCEPT$'
run 0 bounds.yaml --output bounds
says '^2 of 2 jobs done'

# The same work as it is asked for now: a plan says what a run makes of it.
{ cat base.yaml && printf 'require: {bytes: "<= 4500KiB"}\nfallback: [{passes.0.rtn.bits: 4}]\n'; } >tight.yaml
printf 'pare: 1\nrecipe: tight.yaml\nmatrix: {bits: [8]}\n' >tight_jobs.yaml
cp -rp one tight
run 2 tight_jobs.yaml --output tight --dry-run
says '^bits8  *stale: .*belongs to another job: its recipe says "bits: 8" where this one says "bits: 4"'
run 1 tight_jobs.yaml --output tight
says '^bits8  *stale'
sed 's/^require.*/require: {kl: "<= 1e-9"}/; /^fallback/d' tight.yaml >worse.yaml
sed 's/tight/worse/' tight_jobs.yaml >worse_jobs.yaml
cp -rp one worse
run 6 worse_jobs.yaml --output worse --dry-run
says '^bits8  *is there.*; its verdict is REGRESSION$'
run 6 worse_jobs.yaml --output worse
cp one/bits8/run.json worse/bits8 # as a run leaves it that was stopped in front of it
run 0 worse_jobs.yaml --output worse --summary
says '^bits8: a run that held other bounds against it was stopped'
run 6 worse_jobs.yaml --output worse
says '^bits8 .*REGRESSION'
{ cat base.yaml && echo 'export: [{format: "gguf:q8_0", path: a.gguf}, {format: "gguf:f16", path: b.gguf}]'; } >exports.yaml
printf 'pare: 1\nrecipe: exports.yaml\nmatrix: {bits: [8]}\n' >exports_jobs.yaml
cp -rp one exports
run 0 exports_jobs.yaml --output exports --dry-run
says '^bits8  *is there.*; a run looks at it, and makes 2 of 2 exports, '
says '^1 of 1 job to do: [0-9.]* MiB of exports'
echo mine >exports/bits8-b.gguf
for output in exports exports_new; do
    run 2 exports_jobs.yaml --output $output --dry-run
    says '^bits8 .*bits8-b.gguf: \(is no export of pare\|exists;\)'
    run 1 exports_jobs.yaml --output $output
    says '^bits8: .*bits8-b.gguf: \(is no export of pare\|exists;\)'
    mkdir -p exports_new && cp exports/bits8-b.gguf exports_new
    [ "$(cat $output/bits8-b.gguf)" = mine ] || fail "$output/bits8-b.gguf is not mine"
done
rm exports/bits8-b.gguf
run 0 exports_jobs.yaml --output exports
run 0 exports_jobs.yaml --output exports --dry-run
says '^bits8  *is there, of the same work; a run looks at it$'
rm exports/bits8-a.gguf
run 0 exports_jobs.yaml --output exports --dry-run
says '^bits8  *is there.*, and makes 1 of 2 exports, '
cp -r $demo/hedge another
sed 's|^model: .*|model: another|' base.yaml >other.yaml
{ cat jobs.yaml && echo 'include: [{name: behind, bits: 3, after: bits4}]'; } | sed 's/base/other/' >other_jobs.yaml
cp -rp one other
run 0 other_jobs.yaml --output other --dry-run
says '^bits4  *is there, of the same work; a run looks at it$'
sed -i 's/"rms_norm_eps"/ "rms_norm_eps"/' another/config.json
run 2 other_jobs.yaml --output other --dry-run
says '^bits4  *stale: .*it was made of another config.json'
says '^behind  *waits: bits4 is not done'
run 1 other_jobs.yaml --output other
says '^bits4  *stale'
rm -r tight worse exports exports_new other another
{ cat base.yaml && echo 'limits: {ram: 1GiB}'; } >limit.yaml
printf 'pare: 1\nrecipe: limit.yaml\nmatrix: {bits: [4, 8]}\n' >limits.yaml
run 0 limits.yaml --output one --summary
says '^bits4: its recipe asks for the same work .* limits or devices'
rm -r deep

# --restart that is stopped: what it did not come to is not done, and the same command without it
# goes on; what it did is not done twice.
cp -rp one two
sed 's/evaluate: .*/&/; s/group: 64/group: 32/' base.yaml >again && mv again base.yaml
run 0 jobs.yaml --output two --restart
[ ! -e two/.restart ] || fail "a restart that is done"
for turn in 1 2 3 4 5 6 7 8 9; do # a kill may come too late
    old=$(stat -c %Y.%y two/bits8/manifest.json)
    : >two.log # that of the last one has the line
    "$pare" batch jobs.yaml --output two --restart >out.log 2>two.log &
    pid=$!
    while ! grep -qs 'bits4: done' two.log && kill -0 $pid 2>/dev/null; do sleep 0.02; done
    kills $pid
    [ "$old" != "$(stat -c %Y.%y two/bits8/manifest.json)" ] || break
done
[ -e two/.restart ] || fail "every kill came too late: $(cat two.log)"
stamp=$(stat -c %Y.%y two/bits4/manifest.json)
run 0 jobs.yaml --output two --summary
says '^bits8  *\(stale\|unfinished\)'
says '^1 of 2 jobs done'
run 0 jobs.yaml --output two
says '^2 of 2 jobs done'
[ "$stamp" = "$(stat -c %Y.%y two/bits4/manifest.json)" ] || fail "bits4 was made twice"
[ "$old" != "$(stat -c %Y.%y two/bits8/manifest.json)" ] || fail "bits8 was not made anew"
[ ! -e two/.restart ] || fail "a restart that is done"

# No clock has to be right: outputs of a machine whose clock is ahead are made anew, and once.
touch -d '+1 day' two/bits4/manifest.json two/bits8/manifest.json
stamp=$(stat -c %Y.%y two/bits4/manifest.json)
run 0 jobs.yaml --output two --restart
[ "$stamp" != "$(stat -c %Y.%y two/bits4/manifest.json)" ] || fail "--restart left what is of tomorrow"

# A failure stays in summaries to come, with those that wait for it.
cat >fails.yaml <<END
pare: 1
recipe: base.yaml
include:
  - {name: bad, bits: 4, model: nowhere}
  - {name: behind, bits: 4, after: bad}
  - {name: good, bits: 8}
END
run 1 fails.yaml --output failed
says '2 of 3 jobs are not done; the same command tries them again'
[ "$(wc -l <failed/bad.failed)" = 1 ] || fail "bad.failed is no line"
for turn in 1 2; do
    says '^bad  *failed'
    says '^bad: .*nowhere'
    says '^behind  *waits'
    says '^1 of 3 jobs done, 1 failed, 1 waits'
    run 1 fails.yaml --output failed --summary
    says '2 of 3 jobs are not done; the command without --summary tries them again'
done

# What cannot be, and what was not begun, is not done, either.
sed -i '/^include/a\  - {name: large, bits: 4, require.bytes: "<= 1KiB"}' fails.yaml
run 1 fails.yaml --output failed --summary
says '3 of 4 jobs are not done'
run 1 fails.yaml --output failed
says '^large  *infeasible'
says '3 of 4 jobs are not done'

# What a plan says of several that would fail.
run 2 fails.yaml --output planned --dry-run
says '^1 of 4 jobs to do'
says '^behind  *waits: bad is not done'
says '^large .*INFEASIBLE'
says 'error: bad: .*nowhere'
sed -i '/^include/a\  - {name: worse, bits: 4, model: nowhere.gguf}' fails.yaml
run 2 fails.yaml --output planned --dry-run
says '2 jobs would fail, as the list says; the first is worse: '
sed -i '/name: worse/d' fails.yaml

# What is too large gives way to a fallback, whose size a plan knows.
{ cat base.yaml && printf 'require: {bytes: "<= 4500KiB"}\nfallback: [{passes.0.rtn.bits: 4}]\n'; } >falls.yaml
printf 'pare: 1\nrecipe: falls.yaml\nmatrix: {bits: [8]}\n' >falls_jobs.yaml
run 0 falls_jobs.yaml --output falls --dry-run
says '^bits8  *4.25 MiB  *4.500 .*; of a fallback: the recipe itself is INFEASIBLE'
says '^1 of 1 job to do: 4.25 MiB'
run 0 falls_jobs.yaml --output falls --dry-run --format json
disk=$(sed -n 's/^ *"disk_bytes": \([0-9]*\),*/\1/p' out.log | head -n 1)
run 0 falls_jobs.yaml --output falls --emit make
"$pare" plan falls/bits8.yaml --set passes.0.rtn.bits=4 --format json >out.log || fail "no plan of a fallback"
says "^ *\"disk_bytes\": $disk,"

# A job that writes nothing leaves nothing that others could share.
cat >shared.yaml <<END
pare: 1
recipe:
  model: $demo/hedge
  calibration: {text: [$demo/calibration.txt], samples: 2, window: 32}
  passes: [gptq: {group: 64}]
include:
  - {name: large, bits: 8, require.bytes: "<= 1KiB"}
  - {name: first, bits: 4}
  - {name: second, bits: 3}
END
run 6 shared.yaml --output shared --dry-run --format json
[ "$(grep -c '"shared_seconds": [0-9.e-]*[1-9]' out.log)" = 1 ] || fail "shared: $(cat out.log)"
sed -i '/name: second/d' shared.yaml
run 6 shared.yaml --output shared --dry-run --format json
[ "$(grep -c '"shared_seconds": [0-9.e-]*[1-9]' out.log)" = 0 ] || fail "shared: $(cat out.log)"
says '^ *"infeasible": 1,'

# A job that somebody ends, not the batch, is told how it goes on.
sed 's|^evaluate.*|evaluate: [kl: {text: long, window: 64}]|' base.yaml >slow.yaml
head -c 60000 $demo/evaluation.txt >long
printf 'pare: 1\nrecipe: slow.yaml\nmatrix: {bits: [4]}\n' >slow_jobs.yaml
for turn in 1 2 3 4 5 6 7 8 9; do # one that is done when it is ended does not count
    rm -rf slow
    "$pare" batch slow_jobs.yaml --output slow >out.log 2>err.log &
    pid=$! child='' code=0
    until [ -n "$child" ] || ! kill -0 $pid 2>/dev/null; do
        sleep 0.01
        child=$(cat /proc/$pid/task/$pid/children 2>/dev/null) || true
    done
    kill $child 2>/dev/null || true
    wait $pid || code=$?
    [ -d slow/bits4 ] || break
done
[ $code != 0 ] || fail "a job that was ended is done: $(cat out.log err.log)"
says '^bits4: .*; the same command continues it'
run 0 slow_jobs.yaml --output slow

# Who stops a service sends SIGTERM to every process of it: a job saves its training, though its batch
# passes the signal on.
cat >trained.yaml <<END
pare: 1
recipe:
  model: $demo/hedge
  calibration: {text: [$demo/calibration.txt], samples: 64, window: 64}
  passes: [wanda: {sparsity: 0.5}, distill: {tokens: 1000000}]
include: [{name: trained}]
END
"$pare" batch trained.yaml --output ended >out.log 2>err.log &
pid=$! code=0
until grep -qs ': step ' ended/trained.log || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
stops $pid
kill -TERM $pid $(cat /proc/$pid/task/$pid/children)
kill -CONT $pid
wait $pid || code=$?
[ $code = 130 ] || fail "exit $code of a batch that was stopped: $(cat out.log err.log)"
[ -s ended/trained.partial/training.state ] && [ ! -e ended/trained.lock ] ||
    fail "a job was not stopped in order: $(cat ended/trained.log)"

# make writes the summary whatever fails.
if command -v make >/dev/null; then
    run 0 fails.yaml --output made --emit make
    mv out.log Makefile
    if make -j2 >out.log 2>err.log; then fail "make knows no failure: $(cat out.log)"; fi
    says '^bad  *failed'
    says '^bad: .*nowhere'
    says '^good .*done'
    [ -s made/summary.csv ] || fail "no summary"
    cp -rp bounds remade
    run 0 narrow_jobs.yaml --output remade --emit make
    mv out.log Makefile
    if make >out.log 2>err.log; then fail "make knows no stale job: $(cat out.log)"; fi
    says '^bits4  *stale'
    says '^behind  *waits'
fi

# Figures of tasks, and warnings.
printf '{"passage": "It rains.", "question": "is it wet", "label": %s}\n' 1 0 1 >doc.jsonl
cat >tasks.yaml <<END
pare: 1
recipe:
  model: $demo/hedge
  calibration: {text: [$demo/calibration.txt], samples: 2, window: 16}
  passes: [gptq: {group: 64}]
  evaluate:
    - tasks: {boolq: doc.jsonl}
    - needle: {text: "$demo/evaluation.txt", lengths: [256], keys: 1}
    - continuations: {text: "$demo/evaluation.txt", window: 64, prompts: 2, continue_tokens: 8}
matrix: {bits: [4]}
END
run 0 tasks.yaml --output tasks
says 'boolq.acc'
says '^bits4: [0-9]* warning'
grep -q '"boolq.acc": [01]' tasks/summary.json || fail "$(cat tasks/summary.json)"
grep -q ',boolq.acc,' tasks/summary.csv || fail "$(cat tasks/summary.csv)"
grep -q '<th>boolq.acc</th>' tasks/report.html || fail "no task in report.html"
for figure in needle continuations.repeated_4grams continuations.same; do
    grep -q "\"$figure\": [01]" tasks/summary.json || fail "$figure: $(cat tasks/summary.json)"
    head -n 1 tasks/summary.csv | grep -q ",$figure\(,\|$\)" || fail "$figure: $(cat tasks/summary.csv)"
    grep -q "<th>$figure</th>" tasks/report.html || fail "no $figure in report.html"
done

# Outputs that cannot be, and files that are none.
cp -r $demo/hedge model
sed "s|^model: .*|model: model|" base.yaml >local.yaml
printf 'pare: 1\nrecipe: local.yaml\nmatrix: {bits: [4]}\n' >local_jobs.yaml
run 2 local_jobs.yaml --output model/sweep
says 'model/sweep: lies inside .*/model, where only files of that model belong'
[ ! -e model/sweep ] || fail "something was written"
run 2 jobs.yaml --output one/bits4/more
says 'lies inside'
run 2 one
says 'one: is a directory, and a file is wanted'
