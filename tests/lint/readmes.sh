#!/bin/sh
# Every folder has a README of one screen. readmes.sh ROOT
. "$(dirname "$0")/common.sh"

for folder in $modules tests docs; do
    if [ ! -s "$folder/README.md" ]; then
        say "$folder has no README.md"
    elif [ "$(wc -l < "$folder/README.md")" -gt 100 ]; then
        say "$folder/README.md has more than 100 lines"
    fi
done
if [ ! -s README.md ]; then say "there is no README.md"; fi
exit $failed
