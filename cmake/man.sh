#!/bin/sh
# man.sh PARE: the page for man(1), made of the help that the program prints: the overview, each
# command, the exit codes.
set -eu
pare=$1

# Lines as they are: no letter of theirs is a request or an escape of roff.
verbatim() {
    echo '.nf'
    sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/'
    echo '.fi'
}

echo ".TH PARE 1 \"\" \"$("$pare" --version)\" \"User Commands\""
printf '.SH NAME\npare \\- offline compression of language models\n'
printf '.SH SYNOPSIS\n.B pare\n.I COMMAND\n[\n.I OPTION\n]...\n.SH DESCRIPTION\n'
"$pare" help | tail -n +3 | verbatim
"$pare" help | sed -n '/^commands$/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p' | while read -r command; do
    printf '.SH "PARE %s"\n' "$(echo "$command" | tr a-z A-Z)"
    "$pare" "$command" --help | verbatim
done
printf '.SH "EXIT STATUS"\n'
"$pare" help exit | verbatim
