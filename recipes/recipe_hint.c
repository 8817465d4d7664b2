/* What a wrong value was meant to be: words that are misspelt, and numbers as other programs and
 * other people write them. A hint is given only for a value that the parameter takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "recipes/pattern.h"
#include "recipes/recipe_internal.h"
#include "runtime/small.h"

enum { NUMBER_MAX = 24 };

size_t pare__param_words(const pare_param *p, const char *words[PARE_PARAMS_MAX])
{
    size_t n = 0;
    for (const pare_word *w = p->words; w && w->text && n < PARE_PARAMS_MAX; w++)
        words[n++] = w->text;
    return n;
}

/* True, and the hint, if the parameter takes `text`, which is not what was written. */
static bool take(const pare_param *p, const char *written, const char *text, char out[PARE__HINT])
{
    double value;
    const pare__decimal kind = pare__param_read(p, text, &value);
    if (strcmp(written, text) == 0 || kind == PARE__DECIMAL_NOT || kind == PARE__DECIMAL_LONG)
        return false;
    const bool quoted = p->type == PARE_PARAM_PATTERN; /* 2:4 would be a time to some readers */
    (void)snprintf(out, PARE__HINT, quoted ? "\"%s\"" : "%s", text);
    return true;
}

static bool take_number(const pare_param *p, const char *written, double value,
                        char out[PARE__HINT])
{
    char text[PARE__NUMBER];
    pare__number_print(value, text);
    return take(p, written, text, out);
}

/* The one run of digits in a text, a sign of decimals within: "0,5", "4bit", "w4", "128g", ".5".
 * Its value, and what stands behind it; false when there is none, several, or a minus in front. */
static bool only_number(const char *text, double *value, const char **behind)
{
    static const char signs[] = "0123456789.,";
    char number[NUMBER_MAX + 2] = "0";
    const size_t before = strcspn(text, signs), len = strspn(text + before, signs);
    *behind = text + before + len;
    if (!pare_is_digit(text[before + strspn(text + before, ".,")]) || len > NUMBER_MAX ||
        (*behind)[strcspn(*behind, signs)] || (before && text[before - 1] == '-'))
        return false;
    memcpy(number + 1, text + before, len);
    for (char *c = number; *c; c++)
        *c = *c == ',' ? '.' : *c;
    char *start = number, *const end = number + 1 + len;
    while (start[0] == '0' && pare_is_digit(start[1]))
        start++;
    if (end[-1] == '.')
        end[-1] = '\0';
    return pare__number(start, false, value) == PARE__DECIMAL;
}

/* "50%" and 50 for a share of 0.5, "0,5", "4bit", "128g", "2k". */
static bool meant_number(const pare_param *p, const char *text, char out[PARE__HINT])
{
    double value;
    const char *behind;
    if (!only_number(text, &value, &behind))
        return false;
    if (strcmp(behind, "%") == 0 || strcmp(behind, " %") == 0)
        return take_number(p, text, value / 100, out);
    if (strcasecmp(behind, "k") == 0)
        return take_number(p, text, value * 1024, out);
    if (take_number(p, text, value, out))
        return true;
    return p->max < 1 && value > 1 && take_number(p, text, value / 100, out);
}

/* Two numbers with something else than a colon between them, or in the other order. */
static bool meant_pattern(const pare_param *p, const char *text, char out[PARE__HINT])
{
    static const char *const between[] = {":", "/", "-", "_", "x", "of", " of ", " ", ".", ","};
    char *end;
    const unsigned long first = strtoul(text, &end, 10);
    if (!pare_is_digit(text[0]) || first > (unsigned long)p->max)
        return false;
    for (size_t i = 0; i < sizeof between / sizeof *between; i++) {
        const char *const second = end + strlen(between[i]);
        if (strncmp(end, between[i], strlen(between[i])) != 0 || !pare_is_digit(second[0]))
            continue;
        char *last, pattern[NUMBER_MAX];
        const unsigned long other = strtoul(second, &last, 10);
        if (*last || other > (unsigned long)p->max)
            return false;
        (void)snprintf(pattern, sizeof pattern, "%lu:%lu", first < other ? first : other,
                       first < other ? other : first);
        return take(p, text, pattern, out);
    }
    return false;
}

static const char *meant_word(const pare_param *p, const char *text)
{
    static const char *const switches[2] = {"true", "false"};
    static const char *const others[2][4] = {{"yes", "on", "y", "1"}, {"no", "off", "n", "0"}};
    if (p->type != PARE_PARAM_BOOL) {
        const char *words[PARE_PARAMS_MAX];
        const size_t n = pare__param_words(p, words);
        return p->type == PARE_PARAM_CHOICE || !pare_is_digit(text[0])
                   ? pare_nearest_word(text, words, n)
                   : NULL;
    }
    for (size_t i = 0; i < 8; i++)
        if (strcasecmp(text, others[i / 4][i % 4]) == 0)
            return switches[i / 4];
    return pare_nearest_word(text, switches, 2);
}

bool pare__hint(const pare_param *p, const char *text, char out[PARE__HINT])
{
    if (p->type == PARE_PARAM_PATTERN && meant_pattern(p, text, out))
        return true;
    if (p->type != PARE_PARAM_PATTERN && p->type != PARE_PARAM_BOOL && meant_number(p, text, out))
        return true;
    const char *const word = meant_word(p, text);
    if (!word || strcmp(word, text) == 0)
        return false;
    (void)snprintf(out, PARE__HINT, "\"%s\"", word);
    return true;
}
