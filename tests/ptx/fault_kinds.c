#include "tests/ptx/fault_kinds.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- parts of a line ------------------------------------------------------------------------- */

/* Behind blanks and a guard. */
static const char *opcode_of(const char *line)
{
    line += strspn(line, " \t");
    if (*line == '@')
        line += strcspn(line, " \t");
    return line + strspn(line, " \t");
}

static bool is(const char *line, const char *start)
{
    return strncmp(opcode_of(line), start, strlen(start)) == 0;
}

/* `line` with other words in place of those from `from` to `to`. */
static bool put(const char *line, const char *from, const char *to, const char *words, char *out)
{
    const int n = snprintf(out, FAULT_LINE, "%.*s%s%s", (int)(from - line), line, words, to);
    return n > 0 && n < FAULT_LINE;
}

static bool removed(const char *line, const char *start, char *out)
{
    out[0] = 0;
    return is(line, start);
}

/* Operand `number` behind the opcode: [*from, *to). What braces or brackets hold is one. */
static bool operand(const char *line, int number, const char **from, const char **to)
{
    const char *p = opcode_of(line);
    p += strcspn(p, " \t;");
    for (;; p++) {
        int depth = 0;
        p += strspn(p, " \t");
        *from = p;
        for (; *p && *p != ';' && (depth || *p != ','); p++)
            depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        *to = p;
        if (number-- == 0)
            return *to > *from;
        if (*p != ',')
            return false;
    }
}

/* The integer that an operand is, plus `more`. */
static bool added(const char *line, int number, long long more, char *out)
{
    const char *from, *to;
    char *end, words[32];
    if (!operand(line, number, &from, &to))
        return false;
    const long long value = strtoll(from, &end, 10);
    (void)snprintf(words, sizeof words, "%lld", value + more);
    return end == to && put(line, from, to, words, out);
}

/* The operand becomes other words. */
static bool replaced(const char *line, int number, const char *words, char *out)
{
    const char *from, *to;
    return operand(line, number, &from, &to) && put(line, from, to, words, out);
}

/* Registers in the braces of an operand change places, two by two. */
static bool swapped(const char *line, int number, char *out)
{
    const char *from, *to;
    char name[4][16], words[80];
    if (!operand(line, number, &from, &to))
        return false;
    const int n =
        sscanf(from, "{%15[^,}], %15[^,}], %15[^,}], %15[^,}]", name[0], name[1], name[2], name[3]);
    if (n != 2 && n != 4)
        return false;
    if (n == 2)
        (void)snprintf(words, sizeof words, "{%s, %s}", name[1], name[0]);
    else
        (void)snprintf(words, sizeof words, "{%s, %s, %s, %s}", name[1], name[0], name[3], name[2]);
    return put(line, from, to, words, out);
}

/* The address of an operand moves by the size of what is accessed. */
static bool moved(const char *line, int number, char *out)
{
    const char *from, *to;
    const char *const opcode = opcode_of(line);
    const size_t length = strcspn(opcode, " \t");
    const bool rows = strncmp(opcode, "ldmatrix", 8) == 0;
    char words[128];
    size_t bits = length;
    if (!operand(line, number, &from, &to) || *from != '[')
        return false;
    while (bits > 0 && isdigit((unsigned char)opcode[bits - 1]))
        bits--;
    const int bytes = rows ? 16
                           : (int)strtol(opcode + bits, NULL, 10) / 8 *
                                 (strstr(opcode, ".v4.")   ? 4
                                  : strstr(opcode, ".v2.") ? 2
                                                           : 1);
    const char *const plus = memchr(from, '+', (size_t)(to - from));
    const char *const end = plus ? plus : to - 1;
    (void)snprintf(words, sizeof words, "%.*s+%d]", (int)(end - from), from,
                   (plus ? (int)strtol(plus + 1, NULL, 10) : 0) + bytes);
    return bytes > 0 && put(line, from, to, words, out);
}

/* --- waits and barriers ---------------------------------------------------------------------- */

static bool no_barrier(const char *line, char *out)
{
    return removed(line, "bar.sync", out);
}

static bool no_warp_barrier(const char *line, char *out)
{
    return removed(line, "bar.warp.sync", out);
}

static bool late_wait(const char *line, char *out)
{
    return is(line, "cp.async.wait_group") && added(line, 0, 1, out);
}

static bool no_commit(const char *line, char *out)
{
    return removed(line, "cp.async.commit_group", out);
}

/* Half of the bytes, or none of four. */
static bool short_copy(const char *line, char *out)
{
    const char *from, *to;
    if (is(line, "cp.async.cg") && operand(line, 3, &from, &to))
        return put(line, from, to, "8", out);
    if (!is(line, "cp.async.c") || !operand(line, 2, &from, &to))
        return false;
    if (*from == '4')
        return removed(line, "cp.async.c", out);
    return *from == '8' ? put(line, from, to, "4", out) : put(line, to, to, ", 8", out);
}

/* --- tensor cores and lanes ------------------------------------------------------------------ */

static bool swapped_rows(const char *line, char *out)
{
    return is(line, "mma.") && swapped(line, 1, out);
}

static bool swapped_columns(const char *line, char *out)
{
    return is(line, "mma.") && swapped(line, 2, out);
}

/* Other columns of a pair. */
static bool other_pairs(const char *line, char *out)
{
    const char *from, *to;
    char words[64];
    if (!is(line, "mma.sp") || !operand(line, 4, &from, &to))
        return false;
    const char *const start = opcode_of(line);
    const int n = (int)(to - from);
    (void)snprintf(words, sizeof words, "xor.b32 %.*s, %.*s, 4; ", n, from, n, from);
    return put(line, start, start, words, out);
}

static bool other_selector(const char *line, char *out)
{
    const char *from, *to;
    if (!is(line, "mma.sp") || !operand(line, 5, &from, &to))
        return false;
    return put(line, from, to, strtol(from, NULL, 0) ? "0" : "1", out);
}

/* Products of integers have one selector. */
static bool two_selectors(const char *line)
{
    return strncmp(strchr(line, '{') - 16, "f32.f16.f16.f32", 15) == 0;
}

static bool short_mask(const char *line, char *out)
{
    return (is(line, "shfl.") && replaced(line, 4, "0x7fffffff", out)) ||
           (is(line, "vote.") && replaced(line, 2, "0x7fffffff", out));
}

/* A lane meets itself, or takes what another one has than the one that is meant. */
static bool other_lane(const char *line, char *out)
{
    return is(line, "shfl.") && replaced(line, 2, is(line, "shfl.sync.idx") ? "5" : "0", out);
}

/* --- addresses, bounds, codes ---------------------------------------------------------------- */

static bool moved_load(const char *line, char *out)
{
    return (is(line, "ld.shared") && moved(line, 1, out)) ||
           (is(line, "ldmatrix") && moved(line, 1, out));
}

static bool moved_store(const char *line, char *out)
{
    return is(line, "st.shared") && moved(line, 0, out);
}

static bool moved_output(const char *line, char *out)
{
    return is(line, "st.global") && moved(line, 0, out);
}

/* A size among the arguments is one less than it is. */
static bool other_size(const char *line, char *out)
{
    const char *from, *to;
    char words[96];
    if (!is(line, "ld.param.u64") || !operand(line, 0, &from, &to))
        return false;
    const char *const end = line + strlen(line);
    const int n = (int)(to - from);
    (void)snprintf(words, sizeof words, " add.s64 %.*s, %.*s, -1;", n, from, n, from);
    return put(line, end, end, words, out);
}

/* Pointers become addresses of global memory, or are compared with NULL. */
static bool no_pointer(const char *line)
{
    const char *const end = strstr(line, "\n}\n");
    const char *from, *to, *a, *b, *zero, *behind;
    if (!operand(line, 0, &from, &to))
        return false;
    for (const char *at = strchr(line, '\n') + 1; at < end; at = strchr(at, '\n') + 1) {
        const bool null = is(at, "setp.ne.s64") || is(at, "setp.eq.s64");
        if ((null || is(at, "cvta.to.global")) && operand(at, 1, &a, &b) && b - a == to - from &&
            strncmp(a, from, (size_t)(to - from)) == 0 &&
            (!null || (operand(at, 2, &zero, &behind) && *zero == '0')))
            return false;
    }
    return true;
}

/* nvcc divides numbers of 64 bits that have 32 in another way, with the same result. */
static bool no_division(const char *line)
{
    static const char high[] = "-4294967296;";
    const char *start = line;
    for (int i = 0; i < 5; i++)
        for (start--; start[-1] != '\n'; start--)
            ;
    const char *const found = strstr(start, high);
    return !found || found > line;
}

static bool inverted(const char *line, char *out)
{
    const char *const at = line + strspn(line, " \t");
    if (*at != '@')
        return false;
    return at[1] == '!' ? put(line, at, at + 2, "@", out) : put(line, at, at + 1, "@!", out);
}

static bool other_shift(const char *line, char *out)
{
    return (is(line, "shr.u32") || is(line, "shr.s32") || is(line, "shl.b32")) &&
           added(line, 2, 1, out);
}

const fault_kind fault_kinds[] = {{"no barrier", no_barrier, NULL, false},
                                  {"no barrier of a warp", no_warp_barrier, NULL, false},
                                  {"one group more at a wait", late_wait, NULL, false},
                                  {"no commit", no_commit, NULL, false},
                                  {"short copy", short_copy, NULL, false},
                                  {"rows of an mma", swapped_rows, NULL, false},
                                  {"columns of an mma", swapped_columns, NULL, false},
                                  {"metadata", other_pairs, NULL, false},
                                  {"selector", other_selector, two_selectors, false},
                                  {"mask of lanes", short_mask, NULL, false},
                                  {"other lane", other_lane, NULL, false},
                                  {"load", moved_load, NULL, false},
                                  {"store", moved_store, NULL, false},
                                  {"output", moved_output, NULL, false},
                                  {"size", other_size, no_pointer, true},
                                  {"predicate", inverted, no_division, true},
                                  {"shift", other_shift, NULL, true},
                                  {NULL, NULL, NULL, false}};
