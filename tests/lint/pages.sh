#!/bin/sh
# docs/recipe.md is what the program makes of its help; files and commands in it are whole.
# pages.sh ROOT PARE
. "$(dirname "$0")/common.sh"

need "$(cat docs/recipe.md 2> /dev/null)"
made=$(mktemp)
trap 'rm -f "$made"' EXIT
sh cmake/man.sh "$2" md > "$made"
if ! diff docs/recipe.md "$made"; then
    say "docs/recipe.md is not what the program says; sh cmake/man.sh build/release/pare md > docs/recipe.md renews it"
fi
lost=$(awk '/^```/ { code = !code } !code && /pare: 1( |$)/' "$made")
[ -z "$lost" ] || say "docs/recipe.md has a file as prose: $lost"
cut=$(grep -E '\\`|^  --' "$made" || true)
[ -z "$cut" ] || say "docs/recipe.md cuts a command: $cut"
exit $failed
