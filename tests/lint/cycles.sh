#!/bin/sh
# No file calls, even through others, back into a file that calls it. Files of one topic, which share the
# first word of their names (verify.c, verify_packed.c), may. cycles.sh ROOT ARCHIVE
. "$(dirname "$0")/common.sh"

symbols=$(nm -A "$2")
need "$symbols"
found=$(echo "$symbols" | awk '
function topic(file)
{
    sub(/[_.].*/, "", file)
    return file
}

# Whether calls of `from` reach `to`.
function reaches(from, to,    seen, stack, top, count, next_, i)
{
    delete seen
    stack[top = 1] = from
    seen[from] = 1
    while (top) {
        count = split(calls[stack[top--]], next_, " ")
        for (i = 1; i <= count; i++) {
            if (next_[i] == to)
                return 1
            if (!(next_[i] in seen)) {
                seen[next_[i]] = 1
                stack[++top] = next_[i]
            }
        }
    }
    return 0
}

{
    count = split($0, part, ":")
    file = part[count - 1]
    sub(/\.o$/, "", file)
    words = split(part[count], word, " ")
    if (word[words - 1] == "U")
        uses[file " " word[words]] = 1
    else if (word[words - 1] ~ /^[TDRB]$/)
        home[word[words]] = file
}

END {
    for (use in uses) {
        split(use, pair, " ")
        to = home[pair[2]]
        if (to != "" && to != pair[1] && !((pair[1], to) in edge)) {
            edge[pair[1], to] = pair[2]
            calls[pair[1]] = calls[pair[1]] " " to
        }
    }
    for (e in edge) {
        split(e, pair, SUBSEP)
        if (topic(pair[1]) != topic(pair[2]) && reaches(pair[2], pair[1]))
            print pair[1] " calls " pair[2] " (" edge[e] "), which calls back"
    }
}' | LC_ALL=C sort)
if [ -n "$found" ]; then say "$found"; fi
exit $failed
