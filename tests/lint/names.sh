#!/bin/sh
# File names are unique in the whole tree: a name in a message or an include means one file.
# names.sh ROOT
. "$(dirname "$0")/common.sh"

files=$(sources $modules tests)
need "$files"
twice=$(echo "$files" | sed 's|.*/||' | LC_ALL=C sort | uniq -d)
for name in $twice; do
    say "$name stands in more than one place:" $(echo "$files" | grep "/$name\$")
done
exit $failed
