# awk -f agree.awk PRINTED EXPECTED: prints each line of EXPECTED that no line of PRINTED agrees with.
# Two lines agree when their words are the same, spaces apart, and their figures are near each other;
# with -v exact=1 they are equal, but for resident memory.
# How near was chosen from six kernels of OpenBLAS, which round differently: perplexities of the demo
# artifact differ by 0.03 %, KL by 0.5 % (its 99th percentile by 2 %), flips by 5 %. Resident memory, the
# last figure of its line, depends on the number of threads.

function shape(line)
{
    gsub(/[0-9][0-9.]*/, "N", line)
    gsub(/ +/, " ", line)
    sub(/ $/, "", line)
    return line
}

# The figures of a line in value[], how near each must be in near[]; their number is returned.
function figures(line, value, near,    count, text)
{
    count = 0
    while (match(line, /[0-9][0-9.]*/)) {
        text = substr(line, RSTART, RLENGTH)
        sub(/\.$/, "", text)
        line = substr(line, RSTART + RLENGTH)
        value[++count] = text + 0
        near[count] = exact ? 0 : (text + 0 < 1 ? 0.03 : 0.0005) * text
        if (line ~ /^%/ && !exact)
            near[count] = 0.05 * text
        if (line ~ /^ MiB[^0-9]*$/)
            near[count] = 0.5 * text
        # what rounding to the digits that are printed hides
        if (!exact || near[count] > 0)
            near[count] += index(text, ".") ? 10 ^ -(length(text) - index(text, ".")) : 0
    }
    return count
}

function agree(printed, expected,    count, i, a, b, near, other)
{
    count = figures(expected, a, near)
    figures(printed, b, other)
    for (i = 1; i <= count; i++)
        if (b[i] - a[i] > near[i] || a[i] - b[i] > near[i])
            return 0
    return 1
}

FILENAME == ARGV[1] {
    line[++lines] = $0
    next
}

{
    found = ""
    for (i = 1; i <= lines; i++)
        if (shape(line[i]) == shape($0)) {
            found = line[i]
            if (agree(line[i], $0))
                next
        }
    print "  " $0
    if (found != "")
        print "  (it prints " found ")"
}
