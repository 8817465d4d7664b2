# help_md.awk: a page of `pare help` as Markdown. -v topics=WORDS -v passes=WORDS: pages to link to.
# Text at the margin is prose. Indented lines are rows: a name, two spaces or more, what is said of it,
# which goes on in lines that are indented further. Rows that are not all of one shape are figures or
# code, and stay as they are. So does a file that begins with "pare: 1"; a line in front of it is its
# title. Behind "example" stand YAML and commands.

function indent(s) { match(s, /^ */); return RLENGTH }

# Where a topic or a pass has its section; "" for other words.
function anchor(word)
{
    if (index(" " topics " ", " " word " ")) return word
    return index(" " passes " ", " " word " ") ? "pass-" word : ""
}

function link(word) { return anchor(word) == "" ? "`" word "`" : "[`" word "`](#" anchor(word) ")" }

# Names with commas between, each a link where it is that of a section; other text as code.
function names(s,    n, word, i, out)
{
    if (line[1] !~ /^(passes|calibration):/ || s !~ /^[a-z0-9_]+(, [a-z0-9_]+)*$/) return "`" s "`"
    n = split(s, word, ", ")
    for (i = 1; i <= n; i++)
        out = out (i > 1 ? ", " : "") link(word[i])
    return out
}

# No letter of s is markup.
function plain(s) { gsub(/[*<>|]/, "\\\\&", s); return s }

# How long s is up to the end of its first braces.
function braces(s,    i, depth, c)
{
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        depth += (c == "{") - (c == "}")
        if (c == "}" && depth == 0) break
    }
    return i
}

# Links in place of "pare help WORD", code in place of what stands in quotes or, with its key, in braces.
function prose(s,    out, text, word)
{
    while (match(s, /"[^"]*"|pare help [a-z_]+|([a-z_]+: )?\{/)) {
        out = out plain(substr(s, 1, RSTART - 1))
        s = substr(s, RSTART)
        text = substr(s, 1, RLENGTH)
        if (text ~ /\{$/) text = substr(s, 1, braces(s))
        s = substr(s, length(text) + 1)
        if (text ~ /^"/) gsub(/"/, "", text)
        word = substr(text, 11)
        if (text !~ /^pare help [a-z_]+$/) out = out "`" text "`"
        else if (anchor(word) != "") out = out link(word)
        else out = out "`pare help` " word
    }
    return out plain(s)
}

# Prints s in lines of 120 columns; none begins with what would be a point of a list.
function wrap(s, first, other,    n, word, i, text)
{
    n = split(s, word, " ")
    text = first word[1]
    for (i = 2; i <= n; i++)
        if (length(text " " word[i]) > 120 && word[i] !~ /^([-+*#]|[0-9]+[.)])/) {
            print text
            text = other word[i]
        } else
            text = text " " word[i]
    print text
}

# The row that begins at line i: its kind, name[r], cell[r] between name and text, text[r]. Returns
# the line behind it. The columns of a parameter are those of pare_help_setting().
function read_row(i, r,    s)
{
    s = line[i]
    cell[r] = text[r] = ""
    if (s ~ /^  - /) {
        kind = "points"
        text[r] = substr(s, 5)
    } else if (indent(line[i + 1]) == 19 && substr(s, 19) ~ /^ [^ ]/) {
        kind = "parameters"
        name[r] = substr(s, 3, 16)
        cell[r] = substr(s, 20)
        if (!sub(/  +/, " | ", cell[r])) kind = "list"
        if (kind == "list") { text[r] = cell[r]; cell[r] = "" }
    } else {
        s = substr(s, 3)
        kind = "list"
        match(s, /  +|$/)
        name[r] = substr(s, 1, RSTART - 1)
        text[r] = substr(s, RSTART + RLENGTH)
        if (keys && match(text[r], /  +/)) {
            kind = "keys"
            cell[r] = "`" substr(text[r], 1, RSTART - 1) "`"
            text[r] = substr(text[r], RSTART + RLENGTH)
        } else if (text[r] ~ /   /) kind = "code"
    }
    sub(/ +$/, "", name[r])
    for (s = indent(line[i++]); line[i] != "" && indent(line[i]) > s; i++)
        text[r] = text[r] (text[r] == "" ? "" : " ") substr(line[i], indent(line[i]) + 1)
    if (text[r] == "") kind = "code"
    return i
}

# Lines from..to, all of them indented.
function put_rows(from, to,    i, r, rows, shape)
{
    keys = line[from] ~ /^  key /
    for (i = line[from] ~ /^  (key|parameter) / ? from + 1 : from; i <= to;) {
        i = read_row(i, ++rows)
        if (shape == "") shape = kind
        if (shape != kind) shape = "code"
    }
    if (shape == "code") {
        print "```"
        for (i = from; i <= to; i++)
            print substr(line[i], 3)
        print "```\n"
        return
    }
    if (shape == "keys") print "| key | for example | what |\n|---|---|---|"
    if (shape == "parameters") print "| parameter | default | values | what |\n|---|---|---|---|"
    for (r = 1; r <= rows; r++)
        if (shape == "points") wrap(prose(text[r]), "- ", "  ")
        else if (shape == "list") wrap(prose(text[r]), "- " names(name[r]) ": ", "  ")
        else print "| `" name[r] "` | " cell[r] " | " prose(text[r]) " |"
    print ""
}

function put_example(i,    s, yaml, commands)
{
    for (; i <= lines; i++) {
        s = line[i]
        sub(/^example$|^example  |^         /, "", s)
        while (sub(/ *\\$/, "", s)) { # a command that goes on in the next line
            i++
            s = s " " substr(line[i], indent(line[i]) + 1)
        }
        if (s ~ /^pare [a-z]/) commands = commands (commands == "" ? "Example: " : ", ") "`" s "`"
        else if (s != "") yaml = yaml s "\n"
    }
    if (yaml != "") printf "```yaml\n%s```\n%s", yaml, commands == "" ? "" : "\n"
    if (commands != "") print commands
}

# Lines from..to of prose. The first of a page begins with the word of its section.
function put_prose(from, to,    i, s, head)
{
    s = line[from]
    for (i = from + 1; i <= to; i++)
        s = s " " substr(line[i], indent(line[i]) + 1)
    if (from == 1 && sub(/^(pass +)?[a-z0-9_]+: /, "", s)) s = toupper(substr(s, 1, 1)) substr(s, 2) "."
    if (sub(/^source +/, "Source: ", s)) s = s "."
    if (match(s, /  +/)) {
        head = "**`" substr(s, 1, RSTART - 1) "`**: "
        wrap(prose(substr(s, RSTART + RLENGTH)), head, "")
    } else
        wrap(prose(s), "", "")
    print ""
}

# The file that begins at line i, or behind a title there. Returns its last line.
function put_file(i)
{
    if (line[i] != "pare: 1") {
        print toupper(substr(line[i], 1, 1)) substr(line[i], 2) ":\n"
        i++
    }
    print "```yaml"
    for (; line[i] != ""; i++)
        print line[i]
    print "```\n"
    return i - 1
}

{ line[++lines] = $0 }

END {
    for (i = 1; i <= lines && line[i] !~ /^example/; i = to + 1) {
        if (line[i] == "pare: 1" || (line[i] != "" && line[i + 1] == "pare: 1")) {
            to = put_file(i)
            continue
        }
        rows = indent(line[i]) > 0
        for (to = i; line[to + 1] != "" && line[to + 1] !~ /^(source|example)/; to++)
            if ((indent(line[to + 1]) > 0) != rows && (rows || line[i] !~ /^(pass|source)  /)) break
        if (line[i] == "") to = i
        else if (rows) put_rows(i, to)
        else put_prose(i, to)
    }
    put_example(i)
}
