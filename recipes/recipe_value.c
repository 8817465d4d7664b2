#include <stdio.h>
#include <string.h>

#include "recipes/pattern.h"
#include "recipes/recipe_internal.h"
#include "runtime/small.h"

enum {
    IS_BYTES = 2 * PARE__QUOTE + 64,
    TAKES_BYTES = PARE__LIST + 192,
    DIGITS_MAX = 15,
    EXPONENT_MAX = 22
};

pare_status pare__fail_word(const pare__walk *w, pare_place place, const char *what,
                            const char *text, const char *const *words, size_t count)
{
    const char *const near = pare_nearest_word(text, words, count);
    if (near)
        return pare_recipe_fail(w->cx, place, "%s; did you mean \"%s\"?", what, near);
    char list[PARE__LIST];
    return pare_recipe_fail(w->cx, place, "%s; known: %s", what, pare__list(list, words, count));
}

pare_status pare__keys(const pare__walk *w, const pare_yaml *mapping, const char *where,
                       const char *const *words, size_t count)
{
    return pare__keys_listed(w, mapping, where, words, count, count);
}

pare_status pare__keys_listed(const pare__walk *w, const pare_yaml *mapping, const char *where,
                              const char *const *words, size_t count, size_t listed)
{
    for (const pare_yaml *e = mapping->first; e; e = e->next) {
        size_t i = 0;
        while (i < count && strcmp(e->key->text, words[i]) != 0)
            i++;
        if (i < count)
            continue;
        char quoted[PARE__QUOTE], what[PARE__QUOTE + 128];
        (void)snprintf(what, sizeof what, "unknown key %s in %s", pare__quote(quoted, e->key->text),
                       where);
        return pare__fail_word(w, e->key->place, what, e->key->text, words, listed);
    }
    return PARE_OK;
}

/* "bits" is a list / is an empty list / is empty / is "5". An entry of a list is called so. */
static const char *describe_node(char out[IS_BYTES], const pare_yaml *node)
{
    char name[PARE__QUOTE] = "this entry", text[PARE__QUOTE + 32] = "empty";
    if (node->key)
        (void)pare__quote(name, node->key->text);
    if (node->kind != PARE_YAML_SCALAR) {
        (void)snprintf(text, sizeof text, "%s",
                       node->kind != PARE_YAML_LIST ? "a mapping"
                       : node->first                ? "a list"
                                                    : "an empty list");
    } else if (!pare_yaml_is_null(node) && node->text[0]) {
        char quoted[PARE__QUOTE];
        (void)snprintf(text, sizeof text, "%s", pare__quote(quoted, node->text));
    }
    (void)snprintf(out, IS_BYTES, "%s is %s", name, text);
    return out;
}

pare_status pare__fail_takes(const pare__walk *w, const pare_yaml *node, const char *takes)
{
    char is[IS_BYTES];
    return pare_recipe_fail(w->cx, node->place, "%s; it takes %s", describe_node(is, node), takes);
}

pare_status pare__mapping(const pare__walk *w, const pare_yaml *node, const char *name)
{
    if (node->kind == PARE_YAML_MAPPING || pare_yaml_is_null(node))
        return PARE_OK;
    char takes[128];
    (void)snprintf(takes, sizeof takes, "a mapping, as in \"%s\"", name);
    return pare__fail_takes(w, node, takes);
}

pare_status pare__text(const pare__walk *w, const pare_yaml *node, pare_text *out)
{
    if (node->kind != PARE_YAML_SCALAR || pare_yaml_is_null(node) || node->text[0] == '\0')
        return pare__fail_takes(w, node, "a text");
    *out = (pare_text){node->text, node->place};
    return PARE_OK;
}

pare_status pare__texts(const pare__walk *w, const pare_yaml *node, pare_texts *out)
{
    if (node->kind == PARE_YAML_MAPPING || pare_yaml_is_null(node))
        return pare__fail_takes(w, node, "a text or a list of texts");
    const size_t count = node->kind == PARE_YAML_LIST ? node->count : 1;
    *out = (pare_texts){PARE_NEW(w->a, pare_text, count), count};
    if (!out->item)
        return PARE_ENOMEM;
    if (node->kind == PARE_YAML_SCALAR)
        return pare__text(w, node, out->item);
    size_t i = 0;
    for (const pare_yaml *e = node->first; e; e = e->next)
        PARE_TRY(pare__text(w, e, &out->item[i++]));
    return PARE_OK;
}

bool pare__u64(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    if (text[0] == '\0' || (text[0] == '0' && text[1]))
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

typedef struct decimal {
    uint64_t digits; /* value = digits * 10^exponent */
    int count, zeros, exponent;
    bool too_long;
} decimal;

/* Zeros count only once another digit follows: 1000 is 1 * 10^3. */
static void add_digit(decimal *d, char c)
{
    if (c == '0') {
        d->zeros += d->digits != 0;
        return;
    }
    const int more = d->zeros + 1;
    if (more > DIGITS_MAX - d->count) {
        d->too_long = true;
        return;
    }
    for (int i = 0; i < more; i++)
        d->digits *= 10;
    d->digits += (uint64_t)(c - '0');
    d->count += more;
    d->zeros = 0;
}

/* Reads "e-12"; false if it is malformed. */
static bool read_exponent(const char *s, int *exponent)
{
    const bool negative = *s == '-';
    if (*s == '-' || *s == '+')
        s++;
    if (!pare_is_digit(*s))
        return false;
    int e = 0;
    for (; pare_is_digit(*s); s++)
        e = e < 1000 ? e * 10 + (*s - '0') : e;
    *exponent += negative ? -e : e;
    return *s == '\0';
}

/* Reads digits, a fraction and an exponent; false if it is malformed. */
static bool read_decimal(const char *s, decimal *d)
{
    if (!pare_is_digit(*s) || (*s == '0' && pare_is_digit(s[1])))
        return false;
    for (; pare_is_digit(*s); s++)
        add_digit(d, *s);
    if (*s == '.') {
        if (!pare_is_digit(*++s))
            return false;
        for (; pare_is_digit(*s); s++) {
            add_digit(d, *s);
            d->exponent--;
        }
    }
    if (*s == 'e' || *s == 'E')
        return read_exponent(s + 1, &d->exponent);
    return *s == '\0';
}

pare__decimal pare__number(const char *text, bool whole, double *out)
{
    static const double power[EXPONENT_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    decimal d = {0};
    if (!read_decimal(text + (text[0] == '-'), &d))
        return PARE__DECIMAL_NOT;
    d.exponent += d.zeros;
    if (whole && strpbrk(text, ".eE") && (!strpbrk(text, "eE") || d.exponent < 0))
        return PARE__DECIMAL_NOT;
    *out = 0;
    if (d.digits == 0 && !d.too_long)
        return PARE__DECIMAL;
    if (d.too_long || d.exponent > EXPONENT_MAX || d.exponent < -EXPONENT_MAX)
        return PARE__DECIMAL_LONG;
    const double v = (double)d.digits;
    const double value = d.exponent < 0 ? v / power[-d.exponent] : v * power[d.exponent];
    *out = text[0] == '-' ? -value : value;
    return PARE__DECIMAL;
}

/* What a parameter takes, for messages. */
static const char *describe_param(char out[TAKES_BYTES], const pare_param *p)
{
    const char *words[PARE_PARAMS_MAX];
    char list[PARE__LIST], low[PARE__NUMBER], high[PARE__NUMBER], multiple[64] = "";
    (void)pare__list(list, words, pare__param_words(p, words));
    pare__number_print(p->min, low);
    pare__number_print(p->max, high);
    if (p->multiple > 1)
        (void)snprintf(multiple, sizeof multiple, ", a multiple of %u", p->multiple);
    switch (p->type) {
    case PARE_PARAM_INTEGER:
        (void)snprintf(out, TAKES_BYTES, "a whole number from %s to %s%s%s%s", low, high, multiple,
                       list[0] ? ", or " : "", list);
        break;
    case PARE_PARAM_NUMBER:
        (void)snprintf(out, TAKES_BYTES, "a number from %s to %s%s%s", low, high,
                       list[0] ? ", or " : "", list);
        break;
    case PARE_PARAM_BOOL: (void)snprintf(out, TAKES_BYTES, "true or false"); break;
    case PARE_PARAM_CHOICE: (void)snprintf(out, TAKES_BYTES, "one of %s", list); break;
    case PARE_PARAM_PATTERN:
        (void)snprintf(out, TAKES_BYTES, "N:M with 1 <= N < M <= %s, so that N of M stay%s%s", high,
                       list[0] ? ", or " : "", list);
        break;
    }
    return out;
}

/* N:M, both in plain digits. */
static bool read_pattern(const pare_param *p, const char *text, double *out)
{
    char keep[8] = "";
    const char *const colon = strchr(text, ':');
    if (!colon || colon == text || (size_t)(colon - text) >= sizeof keep ||
        text[strspn(text, "0123456789:")])
        return false;
    memcpy(keep, text, (size_t)(colon - text));
    double n, m;
    if (!pare_is_digit(text[0]) || !pare_is_digit(colon[1]) ||
        pare__number(keep, true, &n) != PARE__DECIMAL ||
        pare__number(colon + 1, true, &m) != PARE__DECIMAL || n < 1 || n >= m || m > p->max)
        return false;
    *out = PARE_PATTERN(n, m);
    return true;
}

static pare_status fail_value(const pare__walk *w, const pare_yaml *node, const pare_param *p,
                              const char *more)
{
    char takes[TAKES_BYTES], is[IS_BYTES];
    (void)describe_param(takes, p);
    char hint[PARE__HINT];
    if (node->kind == PARE_YAML_SCALAR && pare__hint(p, node->text, hint))
        return pare_recipe_fail(w->cx, node->place, "%s; it takes %s; did you mean %s?",
                                describe_node(is, node), takes, hint);
    return pare_recipe_fail(w->cx, node->place, "%s; it takes %s%s", describe_node(is, node), takes,
                            more);
}

pare__decimal pare__param_read(const pare_param *p, const char *text, double *out)
{
    for (const pare_word *word = p->words; word && word->text; word++) {
        if (strcmp(text, word->text) == 0) {
            *out = word->value;
            return PARE__DECIMAL_WORD;
        }
    }
    if (p->type == PARE_PARAM_CHOICE)
        return PARE__DECIMAL_NOT;
    if (p->type == PARE_PARAM_BOOL) {
        *out = strcmp(text, "true") == 0;
        return *out != 0 || strcmp(text, "false") == 0 ? PARE__DECIMAL : PARE__DECIMAL_NOT;
    }
    if (p->type == PARE_PARAM_PATTERN)
        return read_pattern(p, text, out) ? PARE__DECIMAL_WORD : PARE__DECIMAL_NOT;
    const pare__decimal kind = pare__number(text, p->type == PARE_PARAM_INTEGER, out);
    if (kind != PARE__DECIMAL)
        return kind;
    if (*out < p->min || *out > p->max ||
        (p->type == PARE_PARAM_INTEGER && p->multiple > 1 && (uint64_t)*out % p->multiple != 0))
        return PARE__DECIMAL_NOT;
    return PARE__DECIMAL;
}

pare_status pare__value(const pare__walk *w, const pare_yaml *node, const pare_param *p,
                        double *out)
{
    if (node->kind != PARE_YAML_SCALAR)
        return fail_value(w, node, p, "");
    double v = 0;
    switch (pare__param_read(p, node->text, &v)) {
    case PARE__DECIMAL_NOT: return fail_value(w, node, p, "");
    case PARE__DECIMAL_LONG: return fail_value(w, node, p, ", with at most 15 digits");
    case PARE__DECIMAL:
        if (!node->plain)
            return fail_value(w, node, p, ", without quotes");
        break;
    case PARE__DECIMAL_WORD: break;
    }
    *out = v;
    return PARE_OK;
}

bool pare__param_idle(const pare_param *params, const double *value, size_t i, char by[PARE__WORD])
{
    if (!params[i].by)
        return false;
    size_t j = 0;
    while (strcmp(params[j].name, params[i].by) != 0)
        j++;
    pare_param_print(&params[j], value[j], by, PARE__WORD);
    return !strstr(params[i].when, by);
}

pare_status pare__entry(const pare__walk *w, const pare_yaml *mapping, const pare_param *p,
                        double *out, bool *given, pare_place *place)
{
    const pare_yaml *const node = pare_yaml_get(mapping, p->name);
    *out = p->fallback;
    if (given)
        *given = node != NULL;
    if (place)
        *place = node ? node->place : (pare_place){w->out->file, 0, 0};
    return node ? pare__value(w, node, p, out) : PARE_OK;
}
