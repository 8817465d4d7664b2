#!/bin/sh
# Each row of the table of settings in README.md is a run of the real model in tests/results/quality.csv:
# of the method that the row names first, with its bits: bits per weight, MB, perplexity, KL and CPU
# seconds, rounded as they are printed. figures.sh ROOT
. "$(dirname "$0")/common.sh"

csv=tests/results/quality.csv
rows=$(sed -n '/^| setting | bits per weight | MB |/,/^$/p' README.md | tail -n +3)
need "$rows"
runs=$(cat "$csv")
need "$runs"
found=$(echo "$rows" | awk -v csv="$csv" '
# How `value` is printed with the digits of `text`; README leaves out the 0 in front of a point.
function like(text, value,    point)
{
    point = index(text, ".")
    value = sprintf("%." (point ? length(text) - point : 0) "f", value)
    if (text ~ /^\./)
        sub(/^0/, "", value)
    return text == value
}

# Whether a row is about a method: `rtn` about rtn and rtn-mse, "4 bits" about 4 only.
function about(row, method, bits)
{
    if (!match(row, /`[a-z0-9_]+`/))
        return 0
    row_method = substr(row, RSTART + 1, RLENGTH - 2)
    if (method != row_method && index(method, row_method "-") != 1)
        return 0
    return !match(row, /[0-9] bits/) || substr(row, RSTART, 1) == bits
}

BEGIN {
    FS = ","
    while ((getline < csv) > 0)
        if ($4 == "real")
            run[++runs] = $0
    FS = " *\\| *"
}

{
    for (i = 1; i <= runs; i++) {
        split(run[i], of, ",")
        if (about($2, of[5], of[6]) && like($3, of[13]) && like($4, of[12] / 1e6) && like($5, of[14]) && like($6, of[15]) && like($7, of[11]))
            next
    }
    print "no run has the figures of: " $0
}')
if [ -n "$found" ]; then say "$found"; fi
exit $failed
