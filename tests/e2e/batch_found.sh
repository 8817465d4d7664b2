#!/bin/sh
# What a dry run says of outputs and exports that are there is what the run does: batch_found.sh PARE DEMO
set -eu
. "$(dirname "$0")/begin.sh"

. "$here/batch_checks.sh"

cp -r "$demo/hedge" model
head -c 8000 "$demo/evaluation.txt" >text
printf 'pare: 1\nmodel: model\noutput: unused\npasses: [rtn: {group: 64, bits: 4}]\nevaluate: [kl: {text: text, window: 64, limit: 2}]\n' >base.yaml

# Figures that fall short: no export is made, and none is promised.
{ cat base.yaml && printf 'require: {kl: "<= 1e-9"}\nexport: [{format: "gguf:q8_0", path: a.gguf}]\n'; } >short.yaml
printf 'pare: 1\nrecipe: short.yaml\noutput: short\ninclude: [{name: a}]\n' >jobs.yaml
run 6 jobs.yaml
run 6 jobs.yaml --dry-run
says 'REGRESSION'
never 'makes 1 of 1 export'

# A folder in the place of the work that pare did not write.
printf 'pare: 1\nrecipe: base.yaml\noutput: work\ninclude: [{name: w}]\n' >jobs.yaml
mkdir -p work/w.partial
run 0 jobs.yaml --dry-run
echo mine >work/w.partial/notes.txt
for option in "" --restart; do
    run 1 jobs.yaml $option
    says 'notes.txt: is no file of an artifact of pare'
    run 2 jobs.yaml --dry-run $option
    says '^w  .*notes.txt: is no file of an artifact of pare'
    plans 2 work/w.yaml $option
    says '^warning  *compress would refuse: .*notes.txt: is no file of an artifact of pare'
done
plans 2 work/w.yaml --format json --set 'require={bytes: <= 9MiB}' --set 'fallback=[{passes.0.rtn.bits: 3}]'
says '^ *"[^"]*notes.txt: is no file of an artifact of pare'
[ -f work/w.partial/notes.txt ] || fail "the file of another is gone"

# The same in the place of the lock.
rm -r work/w.partial
for lock in mkdir touch; do
    $lock work/w.lock
    plans 2 work/w.yaml
    says '^warning  *compress would refuse: .*w.lock: is where the lock of the output goes'
    run 2 jobs.yaml --dry-run
    says '^w  .*w.lock: is where the lock'
    run 1 jobs.yaml
    says 'w.lock: is where the lock'
    rm -r work/w.lock
done
echo 'pare lock: pare compress (process 1 on here, since then)' >work/w.lock
plans 0 work/w.yaml # of a run that was killed, or of one that may end
rm work/w.lock

# And in the place of the work on an export, beside an output or without one.
{ cat base.yaml && printf 'export: [{format: "gguf:q8_0", path: p.gguf}]\n'; } >partial.yaml
printf 'pare: 1\nrecipe: partial.yaml\noutput: partial\ninclude: [{name: p}]\n' >jobs.yaml
mkdir -p partial/p-p.gguf.partial
run 0 jobs.yaml --dry-run
echo mine >partial/p-p.gguf.partial/notes.txt
# foreign WHAT: the plan, the dry run and the run refuse it
foreign() {
    for option in "" --restart; do
        run 2 jobs.yaml --dry-run $option
        says "^p  .*$1"
        run 1 jobs.yaml $option
        says "$1"
        plans 2 partial/p.yaml $option
        says "^warning  *compress would refuse: .*p.yaml:[0-9:]*: .*$1"
    done
}
foreign 'notes.txt: is no file of'
rm -r partial/p-p.gguf.partial
echo foo >partial/p-p.gguf.partial
foreign 'p-p.gguf.partial: is no directory'
rm partial/p-p.gguf.partial
run 0 jobs.yaml
echo foo >partial/p-p.gguf.partial
for at in beside alone; do
    plans 2 partial/p.yaml
    says '^warning  *compress would refuse: .*p-p.gguf.partial: is no directory'
    run 1 jobs.yaml
    rm -f partial/p-p.gguf
done
mv partial/p-p.gguf.partial partial/p-p.gguf
plans 2 partial/p.yaml
says '^warning  *compress would refuse: .*p-p.gguf: is no export of pare'
run 1 jobs.yaml

# An output was removed and its export stays: only --restart replaces that, in both.
{ cat base.yaml && printf 'export: [{format: "gguf:q8_0", path: b.gguf}]\n'; } >export.yaml
printf 'pare: 1\nrecipe: export.yaml\noutput: export\ninclude: [{name: b}]\n' >jobs.yaml
run 0 jobs.yaml
rm -r export/b
run 2 jobs.yaml --dry-run
says 'restart replaces it'
plans 2 export/b.yaml
says '^warning  *compress would refuse: .*restart replaces it'
plans 0 export/b.yaml --restart
run 0 jobs.yaml --dry-run --restart
run 0 jobs.yaml --restart
[ -d export/b ] || fail "--restart made no output: $(ls export)"

# The same where a fallback writes it.
{ cat export.yaml && printf 'require: {bytes: "<= 4000KiB"}\nfallback: [{passes.0.rtn.bits: 3}]\n'; } |
    sed 's/b.gguf/c.gguf/' >falls.yaml
printf 'pare: 1\nrecipe: falls.yaml\noutput: falls\ninclude: [{name: c}]\n' >jobs.yaml
run 0 jobs.yaml
rm -r falls/c
run 0 jobs.yaml --dry-run --restart
run 0 jobs.yaml --restart

# What lies there counts where a run would write something, and only there.
large() { # large REQUIRE: the recipe with that line
    { cat export.yaml && echo "${1-}"; } | sed 's/b.gguf/f.gguf/' >large.yaml
}
# infeasible OPTION...: the dry run and the run end so
infeasible() {
    large 'require: {bytes: "<= 1MiB"}'
    run 6 jobs.yaml --dry-run "$@"
    says '^f  .*INFEASIBLE'
    run 6 jobs.yaml "$@"
}
printf 'pare: 1\nrecipe: large.yaml\noutput: large\ninclude: [{name: f}]\n' >jobs.yaml
large
run 0 jobs.yaml
mv large/f f
infeasible
mkdir large/f.partial
echo mine >large/f.partial/notes.txt
infeasible
rm -r large/f.partial
mv f large
echo mine >large/f/notes.txt
infeasible --restart
large "$(printf 'require: {bytes: "<= 4000KiB"}\nfallback: [{passes.0.rtn.bits: 3}]')"
run 2 jobs.yaml --dry-run --restart
says '^f  .*notes.txt'
run 1 jobs.yaml --restart
says 'notes.txt'

# The model changed: stale, though the fallback cannot be as small as is required.
{ cat base.yaml && printf 'require: {bytes: "<= 4500KiB"}\nfallback: [{passes.0.rtn.bits: 8}]\n'; } >stale.yaml
printf 'pare: 1\nrecipe: stale.yaml\noutput: stale\ninclude: [{name: d}, {name: e, evaluate.0.kl.text: text2}]\n' >jobs.yaml
cp text text2
run 0 jobs.yaml
echo >>model/config.json
sed -i 's/4500KiB/4600KiB/' stale.yaml
rm text2
run 1 jobs.yaml --dry-run
says '^d  *stale'
never '^e  *stale' # its text is gone
echo "e2e.batch_found: passed"
