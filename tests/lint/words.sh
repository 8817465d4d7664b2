#!/bin/sh
# No path of the machine a file was written on. words.sh ROOT
. "$(dirname "$0")/common.sh"

# split, so that this file does not find itself
paths='/wo''rk/|/ro''ot/|/ho''me/|/tmp/[A-Za-z]*_jo''bs|/Us''ers/'
files=$(find . \( -path ./build -o -path ./.git -o -path ./tests/fuzz/corpus -o -path ./recipes/demo/out \) \
    -prune -o -type f ! -name '*.safetensors' ! -name 'tokenizer.json' -print | LC_ALL=C sort)
need "$files"
found=$(echo "$files" | tr '\n' '\0' | xargs -0 grep -nIE "$paths" || true)
if [ -n "$found" ]; then say "a path of one machine:
$found"; fi
exit $failed
