#!/bin/bash
# What the documents tell a user to type: commands.sh PARE ROOT
# Every command of pare in a fenced block is run, in the order of the document, beside a copy of
# recipes/; lines that stand below it there must come out of it, with figures that agree (agree.awk): to the last
# digit where methods are used whose bytes are the same on every machine. For a mention
# (`pare eval MODEL --kv METHOD`) the command, its options and, behind "pare help", the topic must exist.
# Builds and tests (./demo, ./check, cmake ...) are listed as left out: they take minutes and install.
set -euo pipefail
pare=$(realpath "$1") root=$(realpath "$2")
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/bin"
ln -s "$pare" "$home/bin/pare"
if [ -e "$(dirname "$pare")/pare-hdf5" ]; then ln -s "$(dirname "$pare")/pare-hdf5" "$home/bin"; fi
PATH=$home/bin:$PATH
failed=0 ran=0 known=0 begun= first=
sh "$root/tests/lint/commands.sh" "$root" list > "$home/commands"
cd "$home"

fail() {
    echo "$*"
    failed=1
}

# told FILE LINE: the lines below a command, up to the next one or the end of its block.
told() { tail -n +$(($2 + 1)) "$root/$1" | awk '/^(```|\$ )/ { exit } { print }'; }

# What the first document begins with is not run again where another one begins with it: it would leave the
# same files. Of texts that the model writes, four are written.
run() {
    local at=$1 command=$2
    if [ ! "$begun" ] && [ "${command% --restart}" = "$first" ]; then
        rm -rf recipes
        cp -r first recipes
        cp first.out out
    elif ! bash -c "$(sed '/^pare generate/s/--count [0-9]*/--count 4/' <<< "$command")" > out 2> err < /dev/null; then
        fail "$at: \"$command\" failed:" "$(tail -n 5 err)"
    elif [ ! "$first" ]; then
        first=${command% --restart}
        cp -r recipes first
        cp out first.out
    fi
    begun=yes
    ran=$((ran + 1))
    grep -q "^\$ " <(sed -n "${at#*:}p" "$root/${at%:*}") || return 0
    told "${at%:*}" "${at#*:}" | grep . > expected || return 0
    case $at in README.md:* | docs/evaluate.md:*) exact=1 ;; *) exact=0 ;; esac
    awk -v exact=$exact -f "$root/tests/e2e/agree.awk" out expected > missing
    if [ -s missing ]; then fail "$at: \"$command\" does not print:" "$(cat missing)"; fi
}

# The topic, or the command and its options, stand in the help.
mention() {
    local at=$1 word
    local -a words
    read -ra words <<< "$2"
    local topic=${words[1]}
    if [ "$topic" = help ] && [[ ${words[2]-} =~ ^[a-z] ]]; then topic=${words[2]}; fi
    if ! pare help "$topic" > page 2> err; then
        fail "$at: \"$2\": $(tail -n 1 err)"
        return
    fi
    for word in "${words[@]:2}"; do
        if [[ $word = --* ]] && ! grep -qE -- "^ +${word%%=*}( |$)" page; then
            fail "$at: \"$2\": pare $topic has no $word"
        fi
    done
    known=$((known + 1))
}

last=
while IFS=$'\t' read -r at kind command; do
    if [ "$last" != "${at%:*}" ]; then
        rm -rf recipes
        cp -r "$root/recipes" recipes
        rm -rf recipes/out recipes/demo/out
        last=${at%:*} begun=
    fi
    case $kind,$command in
    run,pare\ *) run "$at" "$command" ;;
    mention,pare\ *) mention "$at" "$command" ;;
    run,*) echo "left out: $at: $command" ;;
    esac
done < commands

# The demo's own page has the figures of the first page, rounded.
row=$(awk '/^perplexity /{ ppl = $2 } /^KL to baseline /{ printf "| %.3f | %.5f |", ppl, $4; exit }' "$root/README.md")
if ! grep -qF "$row" "$root/recipes/demo/README.md"; then fail "recipes/demo/README.md: no row with \"$row\""; fi

echo "e2e.commands: $ran commands run, $known mentions looked up"
if [ $ran = 0 ] || [ $known = 0 ]; then fail "no command was found"; fi
exit $failed
