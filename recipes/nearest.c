/* What a word or a pattern that nothing knows was meant to be. */
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "recipes/pattern.h"

enum { WORD_MAX = 64, NAME_MAX_BYTES = 512 };

static char lower(char c)
{
    if (c < 'A' || c > 'Z')
        return c;
    return (char)(c - 'A' + 'a');
}

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

/* Optimal string alignment: insertions, deletions, replacements and swaps of neighbours, no part
 * edited twice. Rows i - 2, i - 1 and i of the table are kept. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            const char x = lower(a[i - 1]), y = lower(b[j - 1]);
            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y)
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *const spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[m];
}

/* The word of the list that other programs have another word for; NULL: none. */
static const char *other_name(const char *text, const char *const *words, size_t count)
{
    static const char *const name[][2] = {{"gpu", "cuda"}, {"nvidia", "cuda"}};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        for (size_t j = 0; j < count && strcasecmp(text, name[i][0]) == 0; j++)
            if (strcmp(words[j], name[i][1]) == 0)
                return words[j];
    return NULL;
}

const char *pare_nearest_word(const char *text, const char *const *words, size_t count)
{
    const char *const other = other_name(text, words, count);
    if (other)
        return other;
    const char *nearest = NULL;
    const size_t n = strlen(text);
    size_t best = least(3, n);
    for (size_t i = 0; i < count && n <= WORD_MAX + 2; i++) {
        const size_t m = strlen(words[i]);
        const size_t d = m <= WORD_MAX ? distance(text, n, words[i], m) : SIZE_MAX;
        if (d < best) {
            best = d;
            nearest = words[i];
        }
    }
    return nearest;
}

typedef enum piece { PIECE_RUN, PIECE_ANY, PIECE_CHARACTER } piece;

/* The next piece of a glob or an expression; *s moves behind it. */
static piece next_piece(const char **s, bool expression, char *character)
{
    const char *const p = (*s)++;
    *character = *p;
    if (*p == '[') {
        const char *const end = p[1] ? strchr(p + 2, ']') : NULL;
        *s = end ? end + 1 : *s;
        *character = p[1];
        return end == p + 2 ? PIECE_CHARACTER : PIECE_ANY; /* [.] is a dot */
    }
    if (!expression)
        return *p == '*' ? PIECE_RUN : *p == '?' ? PIECE_ANY : PIECE_CHARACTER;
    if (*p == '\\' && p[1]) {
        *character = *(*s)++;
        return PIECE_CHARACTER;
    }
    if (*p == '.' && (p[1] == '*' || p[1] == '+')) {
        (*s)++;
        return PIECE_RUN;
    }
    return *p == '.' ? PIECE_ANY : PIECE_CHARACTER;
}

/* Edits until a pattern matches some part of a name: what is missing at its ends counts nothing, so
 * that "q_proj" is near to "model.layers.0.self_attn.q_proj". row[j]: until what was read of the
 * pattern matches a part that ends at character j. */
static size_t edits(const char *pattern, bool expression, const char *name, size_t m)
{
    size_t row[NAME_MAX_BYTES + 1];
    for (size_t j = 0; j <= m; j++)
        row[j] = 0;
    while (*pattern) {
        char c;
        const piece kind = next_piece(&pattern, expression, &c);
        size_t before = row[0];
        row[0] += kind != PIECE_RUN;
        for (size_t j = 1; j <= m; j++) {
            const size_t above = row[j];
            if (kind == PIECE_RUN)
                row[j] = least(above, row[j - 1]);
            else
                row[j] = least(before + (kind == PIECE_CHARACTER && c != name[j - 1]),
                               least(above, row[j - 1]) + 1);
            before = above;
        }
    }
    size_t best = row[0];
    for (size_t j = 1; j <= m; j++)
        best = least(best, row[j]);
    return best;
}

const char *pare_nearest_name(const char *pattern, const char *const *names, size_t count)
{
    const bool expression = strncmp(pattern, "re:", 3) == 0;
    const char *nearest = count ? names[0] : NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        const size_t m = strlen(names[i]);
        const size_t d = m <= NAME_MAX_BYTES
                             ? edits(pattern + (expression ? 3 : 0), expression, names[i], m)
                             : SIZE_MAX;
        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}
