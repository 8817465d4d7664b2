#!/bin/sh
# The sources are as clang-format 14 writes them; 77 (skipped) without that version.
# format.sh ROOT [CLANG-FORMAT]
. "$(dirname "$0")/common.sh"

files=$(sources $modules tests)
need "$files"
tool=${2:-$(command -v clang-format-14 || echo clang-format)}
if ! "$tool" --version 2>/dev/null | grep -q 'version 14\.'; then
    echo "skipped: clang-format 14 is not installed"
    exit 77
fi
"$tool" --dry-run -Werror $files || say "run clang-format -i on the files above"
exit $failed
