/* Single values of config.json; null counts as absent where nothing else is said. */
#include <math.h>

#include "formats/config_internal.h"

pare_status pare__config_size(const pare__config_file *f, const char *key, size_t max, size_t *out)
{
    const pare_json *const v = pare_json_get(f->json, key);
    if (pare__config_absent(v))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is missing", f->name, key);
    const int64_t n = pare_json_integer(v, -1);
    max = max > INT64_MAX ? INT64_MAX : max; /* integers of JSON end there */
    if (n < 1 || (uint64_t)n > max)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not a whole number from 1 to %zu", f->name,
                         key, max);
    *out = (size_t)n;
    return PARE_OK;
}

pare_status pare__config_size_or(const pare__config_file *f, const char *key, size_t max,
                                 size_t fallback, size_t *out)
{
    *out = fallback;
    return pare__config_absent(pare_json_get(f->json, key)) ? PARE_OK
                                                            : pare__config_size(f, key, max, out);
}

pare_status pare__config_positive(const pare__config_file *f, const pare_json *object,
                                  const char *key, double *out)
{
    const pare_json *const v = pare_json_get(object, key);
    if (pare__config_absent(v))
        return PARE_OK;
    const double x = pare_json_number(v, -1);
    if (!(x > 0) || !isfinite(x))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not a number above 0", f->name, key);
    *out = x;
    return PARE_OK;
}

pare_status pare__config_flag(const pare__config_file *f, const char *key, bool fallback, bool *out)
{
    const pare_json *const v = pare_json_get(f->json, key);
    const pare_json_type type = pare_json_type_of(v);
    /* null is false to transformers, so that it is no word for a default of true */
    if (type != PARE_JSON_ABSENT && type != PARE_JSON_BOOL && (type != PARE_JSON_NULL || fallback))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not true or false", f->name, key);
    *out = pare_json_bool(v, fallback);
    return PARE_OK;
}
