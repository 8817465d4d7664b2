#!/bin/sh
# Every header compiles alone and twice. headers.sh ROOT COMPILER
. "$(dirname "$0")/common.sh"

headers=$(sources $modules | grep '\.h$' || true)
need "$headers"
for header in $headers; do
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
        "${2:-cc}" -std=c11 -D_XOPEN_SOURCE=700 -D_FILE_OFFSET_BITS=64 -DPARE_VERSION='"0"' -I. \
            -Wall -Wextra -Werror -fsyntax-only -x c - || say "$header does not compile alone and twice"
done
exit $failed
