#!/bin/sh
# man.sh PARE 1|5|md: a page made of the help that the program prints. 1: pare(1), the commands.
# 5: pare-recipe(5), the sections of a recipe and every pass. md: the second as docs/recipe.md.
set -eu
pare=$1
kind=$2

# names TITLE: the words that the overview lists under a title.
names() { "$pare" help | sed -n "/^$1\$/,/^\$/s/^  \([a-z][a-z0-9_-]*\).*/\1/p"; }

# A page as Markdown; for man its lines as they are: no letter is a request or an escape of roff.
page() {
    if [ "$kind" = md ]; then
        awk -v topics="$topics" -v passes="$passes" -f "$(dirname "$0")/help_md.awk"
        return
    fi
    echo '.nf'
    sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/'
    echo '.fi'
}

section() { if [ "$kind" = md ]; then printf '\n## %s\n\n' "$1"; else printf '.SH "%s"\n' "$1"; fi; }

# The page of a section of a recipe: where a command has the same name, what stands behind its page.
topic() { "$pare" help "$1" | awk '/^in a recipe$/ { page = ""; skip = 1; next }
    skip && !NF { next } { skip = 0; page = page $0 "\n" } END { printf "%s", page }'; }

if [ "$kind" = 1 ]; then
    echo ".TH PARE 1 \"\" \"$("$pare" --version)\" \"User Commands\""
    printf '.SH NAME\npare \\- offline compression of language models\n'
    printf '.SH SYNOPSIS\n.B pare\n.I COMMAND\n[\n.I OPTION\n]...\n.SH DESCRIPTION\n'
    "$pare" help | tail -n +3 | page
    for command in $(names commands); do
        section "PARE $(echo "$command" | tr a-z A-Z)"
        "$pare" "$command" --help | page
    done
    section LOG
    topic log | page
    section 'EXIT STATUS'
    topic exit | page
    printf '.SH "SEE ALSO"\n.BR pare-recipe (5)\n'
    exit
fi

topics=$(names topics | grep -vx -e log -e exit | tr '\n' ' ')
passes=$(names 'passes of a recipe' | tr '\n' ' ')
if [ "$kind" = 5 ]; then
    echo ".TH PARE-RECIPE 5 \"\" \"$("$pare" --version)\" \"File Formats\""
    printf '.SH NAME\npare-recipe \\- what pare compress does with a model, as a YAML file\n'
else
    printf '# Recipes\n\nThis page says what can stand in a recipe. `pare help WORD` prints each section of it, and `cmake/man.sh`\n'
    printf 'makes the page of them. [init.md](init.md) is about a first recipe, [methods.md](methods.md) about how passes go\n'
    printf 'together and what they do beyond their papers.\n\n'
    for word in $topics; do
        "$pare" help | sed -n "/^topics\$/,\$s/^  $word  *\(.*\)/- [$word](#$word): \1/p"
    done
    printf '\nEvery pass has a section with its parameters. [passes](#passes) lists them by kind:\n'
    echo "$passes" | sed 's/ $//; s/[a-z0-9_][a-z0-9_]*/[&](#pass-&),/g; s/,$/./' | fold -s -w 120 | sed 's/ $//'
    printf '\nThe parameters, and the passes that have them:\n\n| parameter | passes |\n|---|---|\n'
    for word in $passes; do
        "$pare" help "$word" | sed -n "/^  parameter /,/^\$/s/^  \([a-z][a-z_]*\)  *.*/\1 [$word](#pass-$word)/p"
    done | grep -v '^parameter ' | LC_ALL=C sort -s -k 1,1 |
        awk '$1 != last { printf "%s| `%s` | %s", last == "" ? "" : " |\n", $1, $2; last = $1; next }
            { printf ", %s", $2 } END { print " |" }'
fi
for word in $topics; do
    section "$word"
    topic "$word" | page
done
for word in $passes; do
    section "Pass: $word"
    "$pare" help "$word" | page
done
if [ "$kind" = 5 ]; then printf '.SH "SEE ALSO"\n.BR pare (1)\n'; fi
