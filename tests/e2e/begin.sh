# What tests of the program on the demo model begin with: . "$(dirname "$0")/begin.sh", with PARE DEMO. Sets $pare,
# $demo and $here, the folder of the tests; the test goes on in an empty folder, which goes away at its end.

pare=$(realpath "$1") demo=$(realpath "$2") here=$(realpath "$(dirname "$0")")
script=$(basename "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "$script: $*" >&2
    exit 1
}
