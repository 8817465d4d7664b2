#!/bin/sh
# Every folder has a README of at most 4096 bytes, and the first page stays short. readmes.sh ROOT
. "$(dirname "$0")/common.sh"

for folder in $modules tests docs; do
    if [ ! -s "$folder/README.md" ]; then
        say "$folder has no README.md"
    elif [ "$(wc -c < "$folder/README.md")" -gt 4096 ]; then
        say "$folder/README.md has more than 4096 bytes"
    fi
done
# The first page is read to its end.
if [ ! -s README.md ]; then say "there is no README.md"
elif [ "$(wc -c < README.md)" -gt 6000 ]; then say "README.md has more than 6000 bytes"; fi
long=$(awk 'length > 160 { print "README.md:" FNR }' README.md)
if [ -n "$long" ]; then say "lines of more than 160 characters: $long"; fi
exit $failed
