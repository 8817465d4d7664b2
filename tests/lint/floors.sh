#!/bin/sh
# The folders of compress/ are floors: what a file includes, and what it calls, lies in its own folder or
# in one behind it in the list. compress.[ch], the main job, stands on run/. A header *_internal.h is private to its
# folder, that of run/ also to the main job. floors.sh ROOT ARCHIVE
. "$(dirname "$0")/common.sh"

# From the top.
floors='cli batch train job budget run init plan report passes storage artifact export output bench evaluate text'

files=$(sources compress)
need "$files"
symbols=$(nm -A "$2")
need "$symbols"
found=$(
    {
        for file in $files; do
            echo "file $file"
            sed -n "s,^[ 	]*#[ 	]*include[ 	]*\"compress/\([^\"]*\)\".*,include $file compress/\1,p" "$file"
        done
        echo "$symbols" | sed 's/^/symbol /'
    } | awk -v floors="$floors" '
function floor_of(path)
{
    sub(/^compress\//, "", path)
    return sub(/\/.*/, "", path) ? path : "job"
}

function base(path)
{
    sub(/.*\//, "", path)
    sub(/\.[ch]$/, "", path)
    return path
}

function check(from, to, how)
{
    if (rank[floor_of(to)] < rank[floor_of(from)])
        print from " " how " " to ", which stands above it"
}

BEGIN {
    count = split(floors, name, " ")
    for (i = 1; i <= count; i++)
        rank[name[i]] = i
}

$1 == "file" {
    if (!(floor_of($2) in rank))
        print $2 " lies in a folder that is on no floor"
    if ($2 ~ /\.c$/)
        path[base($2)] = $2
}

$1 == "include" {
    check($2, $3, "includes")
    from = floor_of($2)
    to = floor_of($3)
    if ($3 ~ /_internal\.h$/ && from != to && !(from == "job" && to == "run"))
        print $2 " includes " $3 ", which is private to its folder"
}

$1 == "symbol" {
    parts = split($2, part, ":")
    object = part[parts - 1]
    sub(/\.c\.o$|\.o$/, "", object)
    if ($(NF - 1) == "U")
        uses[object " " $NF] = 1
    else if ($(NF - 1) ~ /^[TDRB]$/)
        home[$NF] = object
}

END {
    for (use in uses) {
        split(use, pair, " ")
        from = pair[1]
        to = home[pair[2]]
        if (from in path && to in path)
            check(path[from], path[to], "calls " pair[2] " of")
    }
}' | LC_ALL=C sort
)
if [ -n "$found" ]; then say "$found"; fi
exit $failed
