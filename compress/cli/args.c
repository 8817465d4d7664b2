#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compress/cli/cli.h"
#include "compress/text/units.h"
#include "recipes/pattern.h"

static const pare_option *find_in(const pare_option *table, const char *name, size_t len)
{
    for (; table->name; table++)
        if (strlen(table->name) == len && memcmp(table->name, name, len) == 0)
            return table;
    return NULL;
}

static const pare_option *find(const pare_command *c, const char *name, size_t len)
{
    const pare_option *const own = find_in(c->options, name, len);
    return own ? own : find_in(pare_common_options, name, len);
}

static pare_status unknown(pare_ctx *cx, const pare_command *c, const char *word, size_t len)
{
    const char *known[PARE_ARGS_MAX];
    char name[PARE_ARGS_MAX] = "";
    size_t count = 0;
    for (const pare_option *o = c->options; o->name; o++)
        known[count++] = o->name;
    for (const pare_option *o = pare_common_options; o->name; o++)
        known[count++] = o->name;
    if (len < sizeof name)
        memcpy(name, word, len);
    const char *const near = pare_nearest_word(name, known, count);
    if (near)
        return pare_fail(cx, PARE_EUSAGE, "%s: unknown option --%.*s; did you mean --%s?", c->name,
                         (int)len, word, near);
    return pare_fail(cx, PARE_EUSAGE, "%s: unknown option --%.*s; \"pare help %s\" lists all",
                     c->name, (int)len, word, c->name);
}

/* Whether the argument of an option names something on disk. */
static bool is_place(const char *argument)
{
    static const char *const place[] = {"PATH", "FILE", "DIR", "MODEL"};
    for (size_t i = 0; i < sizeof place / sizeof *place; i++)
        if (strcmp(argument, place[i]) == 0)
            return true;
    return false;
}

/* Takes "--name", "--name=value" or "--name value"; *used is the number of words. */
static pare_status take_option(pare_ctx *cx, const pare_command *c, int argc, char **argv,
                               pare_args *out, int *used)
{
    const char *const word = argv[0] + 2;
    const size_t len = strcspn(word, "=");
    const pare_option *const o = find(c, word, len);
    if (!o)
        return unknown(cx, c, word, len);
    const char *value = word[len] == '=' ? word + len + 1 : NULL;
    *used = 1;
    if (!o->argument && value)
        return pare_fail(cx, PARE_EUSAGE, "%s: --%s takes no value", c->name, o->name);
    if (o->argument && !value) {
        if (argc < 2)
            return pare_fail(cx, PARE_EUSAGE, "%s: --%s needs %s", c->name, o->name, o->argument);
        value = argv[1];
        *used = 2;
    }
    if (o->argument && *value == '\0' && is_place(o->argument))
        return pare_fail(cx, PARE_EUSAGE, "%s: --%s is empty; it needs %s", c->name, o->name,
                         o->argument);
    if (!o->repeats && pare_args_given(out, o->name))
        return pare_fail(cx, PARE_EUSAGE, "%s: --%s is given twice", c->name, o->name);
    if (out->givens == PARE_ARGS_MAX)
        return pare_fail(cx, PARE_EUSAGE, "%s: more than %d options", c->name, PARE_ARGS_MAX);
    out->given[out->givens].option = o;
    out->given[out->givens++].value = value ? value : "";
    return PARE_OK;
}

static pare_status check_operands(pare_ctx *cx, const pare_command *c, const pare_args *args)
{
    if (args->operands < c->operands_min)
        return pare_fail(cx, PARE_EUSAGE, "%s: %s is missing; usage: pare %s %s", c->name,
                         c->operands, c->name, c->operands);
    for (size_t i = 0; i < args->operands; i++)
        if (args->operand[i][0] == '\0')
            return pare_fail(cx, PARE_EUSAGE, "%s: word %zu is empty; usage: pare %s %s", c->name,
                             i + 1, c->name, c->operands);
    if (args->operands > c->operands_max)
        return pare_fail(cx, PARE_EUSAGE, "%s: \"%s\" is one word too many; usage: pare %s %s",
                         c->name, args->operand[c->operands_max], c->name, c->operands);
    return PARE_OK;
}

pare_status pare_args_parse(pare_ctx *cx, const pare_command *c, int argc, char **argv,
                            pare_args *out)
{
    *out = (pare_args){0};
    bool options = true;
    for (int i = 0, used = 1; i < argc; i += used) {
        used = 1;
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && strncmp(argv[i], "--", 2) == 0) {
            PARE_TRY(take_option(cx, c, argc - i, argv + i, out, &used));
        } else if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
            return pare_fail(cx, PARE_EUSAGE, "%s: unknown option %s; options have two dashes",
                             c->name, argv[i]);
        } else if (out->operands == PARE_ARGS_MAX) {
            return pare_fail(cx, PARE_EUSAGE, "%s: more than %d words", c->name, PARE_ARGS_MAX);
        } else {
            out->operand[out->operands++] = argv[i];
        }
    }
    return check_operands(cx, c, out);
}

const char *pare_args_text(const pare_args *args, const char *name)
{
    for (size_t i = args->givens; i-- > 0;)
        if (strcmp(args->given[i].option->name, name) == 0)
            return args->given[i].value;
    return NULL;
}

bool pare_args_given(const pare_args *args, const char *name)
{
    return pare_args_text(args, name) != NULL;
}

size_t pare_args_texts(const pare_args *args, const char *name, const char *out[PARE_ARGS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < args->givens; i++)
        if (strcmp(args->given[i].option->name, name) == 0)
            out[count++] = args->given[i].value;
    return count;
}

pare_status pare_args_count(pare_ctx *cx, const pare_args *args, const char *name, uint64_t min,
                            uint64_t max, uint64_t *out)
{
    const char *const text = pare_args_text(args, name);
    if (!text)
        return PARE_OK;
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < min || value > max)
        return pare_fail(cx, PARE_EUSAGE, "--%s \"%s\": expected a whole number from %llu to %llu",
                         name, text, (unsigned long long)min, (unsigned long long)max);
    *out = value;
    return PARE_OK;
}

pare_status pare_args_counts(pare_ctx *cx, const pare_args *args, const char *name,
                             const char *example, pare_counts range, size_t *out, size_t *count)
{
    const char *const text = pare_args_text(args, name), *at = text;
    for (size_t n = 0; text && n < range.most;) {
        char *end = NULL;
        errno = 0;
        const unsigned long long v = strtoull(at, &end, 10);
        if (*at < '0' || *at > '9' || errno != 0 || v < range.min || v > range.max ||
            (*end != ',' && *end != '\0'))
            break;
        for (size_t i = 0; i < n; i++)
            if (out[i] == v)
                return pare_fail(cx, PARE_EUSAGE, "--%s \"%.64s\": %llu stands there twice", name,
                                 text, v);
        out[n++] = (size_t)v;
        *count = n;
        if (*end == '\0')
            return PARE_OK;
        at = end + 1;
    }
    return text
               ? pare_fail(cx, PARE_EUSAGE,
                           "--%s \"%.64s\": expected up to %zu whole numbers from %zu to %zu, such "
                           "as %s",
                           name, text, range.most, range.min, range.max, example)
               : PARE_OK;
}

pare_status pare_args_number(pare_ctx *cx, const pare_args *args, const char *name, double min,
                             double max, double *out)
{
    const char *const text = pare_args_text(args, name);
    if (!text)
        return PARE_OK;
    char *end = NULL;
    errno = 0;
    const double value = strtod(text, &end);
    const bool decimal = *text != '\0' && strspn(text, "0123456789.eE+-") == strlen(text);
    if (!decimal || *end != '\0' || errno != 0 || !(value >= min && value <= max))
        return pare_fail(cx, PARE_EUSAGE, "--%s \"%s\": expected a number from %g to %g", name,
                         text, min, max);
    *out = value;
    return PARE_OK;
}

pare_status pare_args_bytes(pare_ctx *cx, const pare_args *args, const char *name, uint64_t *out)
{
    const char *const text = pare_args_text(args, name);
    if (text && !pare_units_parse_bytes(text, out))
        return pare_fail(cx, PARE_EUSAGE, "--%s \"%s\": expected a size such as 8GiB or 500MB",
                         name, text);
    return PARE_OK;
}
