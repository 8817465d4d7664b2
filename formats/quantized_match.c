/* Expressions that name linears. */
#include <string.h>

#include "formats/quantized_internal.h"

enum { BUDGET = 1 << 24 }; /* steps of all expressions on one name */

static pare_status fail_expression(const pare__quantized *q, pare_status s,
                                   const pare__expression *e)
{
    return s == PARE_EFORMAT || s == PARE_ENOTSUP
               ? pare_fail_context(q->cx, s, "%s: quantization_config: %s%.200s", q->file, e->where,
                                   e->text)
               : s;
}

pare_status pare__quantized_expression(const pare__quantized *q, const char *where,
                                       const char *text, pare__expression *out)
{
    pare_regex *regex = NULL;
    *out = (pare__expression){.text = text, .where = where};
    PARE_TRY(fail_expression(q, pare_regex_new(q->scratch, text, strlen(text), &regex), out));
    out->regex = regex;
    return PARE_OK;
}

/* Readers of files give names in UTF-8. */
pare_status pare__quantized_match(const pare__quantized *q, const pare__expression *e, size_t count,
                                  const char *name, size_t *which)
{
    pare_regex_matcher *m;
    pare_status s = pare_regex_matcher_new(q->cx, BUDGET, &m);
    *which = count;
    for (size_t i = 0; s == PARE_OK && *which == count && i < count; i++) {
        size_t end = SIZE_MAX;
        s = fail_expression(q, pare_regex_match(m, e[i].regex, name, strlen(name), 0, &end), &e[i]);
        *which = end != SIZE_MAX ? i : count;
    }
    pare_regex_matcher_free(m);
    return s;
}
