#include "recipes/param.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recipes/recipe_internal.h"

size_t pare_param_count(const pare_param *params)
{
    size_t n = 0;
    while (params[n].name)
        n++;
    return n;
}

void pare_param_print(const pare_param *p, double value, char *text, size_t size)
{
    for (const pare_word *w = p->words; w && w->text; w++) {
        if (w->value == value) {
            (void)snprintf(text, size, "%s", w->text);
            return;
        }
    }
    if (p->type == PARE_PARAM_BOOL) {
        (void)snprintf(text, size, "%s", value != 0 ? "true" : "false");
        return;
    }
    if (p->type == PARE_PARAM_PATTERN) {
        (void)snprintf(text, size, "%u:%u", pare_pattern_keep(value), pare_pattern_of(value));
        return;
    }
    char number[PARE__NUMBER];
    pare__number_print(value, number);
    (void)snprintf(text, size, "%s", number);
}

/* Digits and exponent of value = 0.d1d2d3... * 10^point with the fewest digits that read back. The
 * decimal sign of the locale is skipped, whatever it is. */
static size_t shortest(double value, char digits[20], int *point)
{
    char text[64];
    size_t n = 1;
    for (;; n++) {
        (void)snprintf(text, sizeof text, "%.*e", (int)n - 1, value);
        if (n == 17 || strtod(text, NULL) == value)
            break;
    }
    const char *const e = strchr(text, 'e');
    digits[0] = text[0];
    if (n > 1)
        memcpy(digits + 1, e - (n - 1), n - 1);
    *point = (int)strtol(e + 1, NULL, 10) + 1;
    return n;
}

void pare__number_print(double value, char out[PARE__NUMBER])
{
    if (fabs(value) < 1e15 && value == trunc(value)) {
        (void)snprintf(out, PARE__NUMBER, "%lld", (long long)value);
        return;
    }
    if (!isfinite(value)) {
        (void)snprintf(out, PARE__NUMBER, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    char digits[20];
    int point = 0;
    const int n = (int)shortest(fabs(value), digits, &point);
    const char *const sign = value < 0 ? "-" : "";
    if (point > 0 && point < n)
        (void)snprintf(out, PARE__NUMBER, "%s%.*s.%.*s", sign, point, digits, n - point,
                       digits + point);
    else if (point <= 0 && point > -5)
        (void)snprintf(out, PARE__NUMBER, "%s0.%.*s%.*s", sign, -point, "00000", n, digits);
    else
        (void)snprintf(out, PARE__NUMBER, "%s%c%s%.*se%d", sign, digits[0], n > 1 ? "." : "", n - 1,
                       digits + 1, point - 1);
}
