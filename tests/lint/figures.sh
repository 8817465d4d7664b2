#!/bin/sh
# Figures in documents are those of a table of runs. figures.sh ROOT
# README.md: each row of the table of settings is a run of the real model in tests/results/quality.csv, of
# the method that the row names first, with its bits: bits per weight, MB, perplexity, KL and CPU
# seconds, rounded as they are printed.
# docs/results.md, docs/settings.md, docs/statistics.md, docs/storage.md, docs/training.md: a comment above each table names its CSV file, which has the rows
# of the table behind the date and the commit of each; what stands in the table beyond them is prose.
# A decimal number in their prose, and in docs/methods.md, stands in one of these files.
. "$(dirname "$0")/common.sh"

csv=tests/results/quality.csv
rows=$(sed -n '/^| setting | bits per weight | MB |/,/^$/p' README.md | tail -n +3)
need "$rows"
runs=$(cat "$csv")
need "$runs"
# How `value` is printed with the digits of `text`; documents may leave out the 0 in front of a point.
like='function like(text, value,    point)
{
    point = index(text, ".")
    value = sprintf("%." (point ? length(text) - point : 0) "f", value)
    if (text ~ /^\./)
        sub(/^0/, "", value)
    return text == value
}'
found=$(echo "$rows" | awk -v csv="$csv" "$like"'
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

found=$(for page in docs/results.md docs/settings.md docs/methods.md docs/training.md docs/storage.md docs/statistics.md; do
    [ ! -e "$page" ] || awk -v page="$page" -v all="$(echo tests/results/*.csv)" "$like"'
function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

# The rows of a file: what stands behind date and commit.
function read(file,    line)
{
    delete row
    rows = 0
    while ((getline line < file) > 0) {
        if (line !~ /^20[0-9][0-9]-[0-9][0-9]-[0-9][0-9],[0-9a-f]+(-dirty)?,/)
            continue
        gsub(/"/, "", line)
        sub(/^[^,]*,[^,]*,/, "", line)
        row[++rows] = line ","
    }
    close(file)
    if (!rows)
        print page ":" FNR ": " file " has no rows with date and commit"
}

function check_row(    i, n, cell, text)
{
    if (!source && $0 !~ /[0-9]*\.[0-9]/)
        return
    gsub(/"/, "")
    n = split($0, cell, "|")
    for (i = 2; i < n; i++)
        text = text trim(cell[i]) ","
    for (i = 1; i <= rows; i++)
        if (index(text, row[i]) == 1)
            return
    print page ":" FNR ": " (source ? "no row of " source " has" : "no file is named above") ": " $0
}

BEGIN {
    n = split(all, file, " ")
    for (i = 1; i <= n; i++) {
        while ((getline line < file[i]) > 0) {
            m = split(line, word, /[^-0-9.]+/)
            for (k = 1; k <= m; k++)
                if (word[k] ~ /^-?[0-9]*\.?[0-9]+$/)
                    value[word[k] + 0]
        }
        close(file[i])
    }
}

function known(text,    v)
{
    for (v in value)
        if (like(text, v))
            return 1
    return 0
}

/^```/ { fenced = !fenced }
fenced { next }
/^<!-- tests\/results\/.*\.csv -->$/ { source = $2; read(source); next }
/^\|/ && !table { table = 1; next }
/^\|[-|: ]*$/ { next }
/^\|/ { check_row(); next }
{ if (table) source = ""; table = 0 }
{
    gsub(/`[^`]*`/, "")
    gsub(/\([^()]*\.md\)/, "")
    while (match($0, /[0-9]*\.[0-9]+/)) {
        text = substr($0, RSTART, RLENGTH)
        $0 = substr($0, RSTART + RLENGTH)
        if (!known(text))
            print page ":" FNR ": no file of tests/results has " text
    }
}' "$page"
done)
if [ -n "$found" ]; then say "$found"; fi
exit $failed
