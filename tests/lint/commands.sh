#!/bin/sh
# The commands in the documents: commands.sh ROOT [list]
# A fenced one, behind "$ " or on a line of a block that is marked "sh", is for running; one between
# backticks is mentioned. The lint fails on a fenced command that is marked neither way: nobody would
# try it. "list" prints FILE:LINE, "run" or "mention", and the command, separated by tabs, for
# tests/e2e/commands.sh.
. "$(dirname "$0")/common.sh"

# without the texts of models and the like
documents=$(find . -name '*.md' ! -path './build/*' ! -path './.git/*' ! -path '*/hedge/*' | LC_ALL=C sort)
need "$documents"

commands=$(for document in $documents; do
    awk -v file="${document#./}" '
    function is_command(s) {
        return s ~ /^(\$ |pare [a-z]|\.\/[a-z]+( |$)|cmake |ctest |nice |tests\/[a-z\/_]+\.sh( |$))/
    }
    function put(kind, s) {
        sub(/^\$ /, "", s)
        sub(/[ \t]+#.*$/, "", s)
        printf "%s:%d\t%s\t%s\n", file, NR, kind, s
    }
    /^```/ { fenced = !fenced; marked = $0 == "```sh"; next }
    fenced && (marked || /^\$ /) { if ($0 != "" && $0 !~ /^#/) put("run", $0); next }
    fenced { if (is_command($0)) put("unmarked", $0); next }
    {
        rest = $0
        while (match(rest, /`[^`]+`/)) {
            span = substr(rest, RSTART + 1, RLENGTH - 2)
            rest = substr(rest, RSTART + RLENGTH)
            if (is_command(span)) put("mention", span)
        }
    }' "$document"
done)
need "$commands"

if [ "${2-}" = list ]; then
    echo "$commands"
    exit
fi
unmarked=$(echo "$commands" | grep "$(printf '\tunmarked\t')" || true)
if [ -n "$unmarked" ]; then
    say "commands in a block that is neither \`\`\`sh nor has them behind \"\$ \":
$unmarked"
fi
exit $failed
