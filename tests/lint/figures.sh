#!/bin/sh
# Each row of the table of settings in README.md is a run of the real model in tests/results/quality.csv:
# bits per weight, MB, perplexity, KL and CPU seconds, rounded as they are printed. figures.sh ROOT
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
        if (like($3, of[13]) && like($4, of[12] / 1e6) && like($5, of[14]) && like($6, of[15]) && like($7, of[11]))
            next
    }
    print "no run has the figures of: " $0
}')
if [ -n "$found" ]; then say "$found"; fi
exit $failed
