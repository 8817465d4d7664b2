# What the lints share. Each lint is called with the root of a tree, prints what it finds and exits
# 1; one that finds no input fails, since it would pass for nothing.
set -eu
root=$(cd "$1" && pwd)
cd "$root"
modules='kernels runtime solve formats recipes calib quant prune distill compress'
failed=0

# say MESSAGE: records a finding.
say() {
    echo "$*"
    failed=1
}

# sources FOLDER...: the C files below existing folders.
sources() {
    for folder in "$@"; do
        if [ -d "$folder" ]; then find "$folder" -name '*.[ch]' -type f; fi
    done | LC_ALL=C sort
}

# need LIST: fails when the list is empty.
need() {
    if [ -z "$1" ]; then
        echo "no input found below $root, the check would pass for nothing"
        exit 1
    fi
}

# code FILE: the file without comments, texts and characters; line numbers stay.
code() {
    awk '
    {
        line = $0; out = ""
        while (line != "") {
            if (comment) {
                at = index(line, "*/")
                if (at == 0) { line = ""; break }
                line = substr(line, at + 2); comment = 0
            } else if (match(line, /^[^"\047\/]+/)) {
                out = out substr(line, 1, RLENGTH); line = substr(line, RLENGTH + 1)
            } else if (substr(line, 1, 2) == "/*") {
                comment = 1; line = substr(line, 3)
            } else if (substr(line, 1, 2) == "//") {
                line = ""
            } else if (match(line, /^"([^"\\]|\\.)*"/) || match(line, /^\047([^\047\\]|\\.)*\047/)) {
                out = out "0"; line = substr(line, RLENGTH + 1)
            } else {
                out = out substr(line, 1, 1); line = substr(line, 2)
            }
        }
        print out
    }' "$1"
}
