#!/bin/sh
# docs/recipe.md is what the program makes of its help. pages.sh ROOT PARE
. "$(dirname "$0")/common.sh"

need "$(cat docs/recipe.md 2> /dev/null)"
made=$(mktemp)
trap 'rm -f "$made"' EXIT
sh cmake/man.sh "$2" md > "$made"
if ! diff docs/recipe.md "$made"; then
    say "docs/recipe.md is not what the program says; sh cmake/man.sh build/release/pare md > docs/recipe.md renews it"
fi
exit $failed
