#!/bin/sh
# man.sh PARE 1|5|md: a page made of the help that the program prints. 1: pare(1), the commands.
# 5: pare-recipe(5), the sections of a recipe and every pass. md: the second as docs/recipe.md.
set -eu
pare=$1
kind=$2

# names TITLE: the words that the overview lists under a title.
names() { "$pare" help | sed -n "/^$1\$/,/^\$/s/^  \([a-z][a-z0-9_]*\).*/\1/p"; }

# Lines as they are: no letter of theirs is a request or an escape of roff.
verbatim() {
    if [ "$kind" = md ]; then
        sed 's/^./    &/'
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
    "$pare" help | tail -n +3 | verbatim
    for command in $(names commands); do
        section "PARE $(echo "$command" | tr a-z A-Z)"
        "$pare" "$command" --help | verbatim
    done
    section LOG
    topic log | verbatim
    section 'EXIT STATUS'
    topic exit | verbatim
    printf '.SH "SEE ALSO"\n.BR pare-recipe (5)\n'
    exit
fi

if [ "$kind" = 5 ]; then
    echo ".TH PARE-RECIPE 5 \"\" \"$("$pare" --version)\" \"File Formats\""
    printf '.SH NAME\npare-recipe \\- what pare compress does with a model, as a YAML file\n'
else
    printf '# Recipes\n\nThe pages of `pare help` on recipes and passes; `cmake/man.sh` makes this file.'
    printf ' [init.md](init.md) is about a first recipe,\n'
    printf '[methods.md](methods.md) about what the methods do beyond their papers.\n'
fi
for word in $(names topics); do
    case $word in
    log | exit) ;;
    *)
        section "$word"
        topic "$word" | verbatim
        ;;
    esac
done
for word in $(names 'passes of a recipe'); do
    section "Pass: $word"
    "$pare" help "$word" | verbatim
done
if [ "$kind" = 5 ]; then printf '.SH "SEE ALSO"\n.BR pare (1)\n'; fi
