#include "compress/text/units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *pare_units_bytes(uint64_t bytes, char text[PARE_UNIT_TEXT])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t u = 0;
    for (; value >= 999.5 && u < sizeof unit / sizeof *unit - 1; u++)
        value /= 1024;
    const int digits = u == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    (void)snprintf(text, PARE_UNIT_TEXT, "%.*f %s", digits, value, unit[u]);
    return text;
}

const char *pare_units_seconds(double seconds, char text[PARE_UNIT_TEXT])
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        (void)snprintf(text, PARE_UNIT_TEXT, "?");
    } else if (seconds < 59.95) {
        (void)snprintf(text, PARE_UNIT_TEXT, "%.*f s", seconds < 9.995 ? 2 : 1, seconds);
    } else {
        const unsigned long s = (unsigned long)(seconds + 0.5);
        if (s < 3600)
            (void)snprintf(text, PARE_UNIT_TEXT, "%lu min %02lu s", s / 60, s % 60);
        else
            (void)snprintf(text, PARE_UNIT_TEXT, "%lu h %02lu min", s / 3600, s / 60 % 60);
    }
    return text;
}

const char *pare_units_rate(double rate, char text[PARE_UNIT_TEXT])
{
    (void)snprintf(text, PARE_UNIT_TEXT, rate >= 1000 && rate < 1e15 ? "%.0f" : "%.4g", rate);
    return text;
}

const char *pare_units_joules(double joules, char text[PARE_UNIT_TEXT])
{
    if (!isfinite(joules) || joules <= 0)
        (void)snprintf(text, PARE_UNIT_TEXT, "?");
    else if (joules < 999.5)
        (void)snprintf(text, PARE_UNIT_TEXT, "%.*f J", joules < 9.995 ? 2 : 0, joules);
    else
        (void)snprintf(text, PARE_UNIT_TEXT, "%.2f %s", joules / (joules < 999995 ? 1e3 : 1e6),
                       joules < 999995 ? "kJ" : "MJ");
    return text;
}

/* Factor of a unit, 0 when it is none. */
static double unit_factor(const char *unit)
{
    static const struct {
        const char *name;
        double factor;
    } known[] = {{"", 1},         {"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
                 {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},     {"kB", 1e3},
                 {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(unit, known[i].name) == 0)
            return known[i].factor;
    return 0;
}

bool pare_units_parse_bytes(const char *text, uint64_t *bytes)
{
    if (!isdigit((unsigned char)text[0]) ||
        (text[0] == '0' && tolower((unsigned char)text[1]) == 'x'))
        return false;
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    const double factor = unit_factor(end);
    if (errno != 0 || factor == 0 || !(value * factor >= 1 && value * factor < 0x1p63))
        return false;
    *bytes = (uint64_t)(value * factor);
    return true;
}
