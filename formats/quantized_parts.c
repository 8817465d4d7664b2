/* What methods share: tensors of a linear by their names, and how what is wrong with them is told.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/quantized_internal.h"

enum { ALL_UNSET = -1 };

const char *pare__quantized_word(const pare_json *v, const char *absent)
{
    const pare_json_type is = pare_json_type_of(v);
    const char *const text = pare_json_text(v, NULL);
    if (is == PARE_JSON_ABSENT || is == PARE_JSON_NULL)
        return absent;
    return text ? text : "?";
}

const pare_tensor *pare__quantized_find(const pare__quantized *q, const char *name,
                                        const char *suffix)
{
    char full[PARE__TENSOR_NAME];
    const int len = snprintf(full, sizeof full, "%s%s", name, suffix);
    return len > 0 && (size_t)len < sizeof full ? pare_checkpoint_find(q->ck, full) : NULL;
}

pare_status pare__quantized_refuse(const pare__quantized *q, const char *where, const char *key,
                                   const char *what)
{
    return pare_fail(q->cx, PARE_ENOTSUP, "%s: quantization_config: %s%s%s: %s", q->file, where,
                     where[0] ? "." : "", key, what);
}

pare_status pare__quantized_wrong(const pare__quantized *q, const char *name, const char *suffix,
                                  const char *what)
{
    return pare_fail(q->cx, PARE_EFORMAT, "%s: tensor %s%s: %s", q->ck->path, name, suffix, what);
}

static pare_status fail_missing(const pare__quantized *q, const char *name, const char *suffix)
{
    return pare_fail(q->cx, PARE_EFORMAT,
                     "%s: tensor %s%s is missing beside the quantized weights of %s", q->ck->path,
                     name, suffix, name);
}

pare_status pare__quantized_fail_form(const pare__quantized *q, const pare_tensor *t,
                                      const char *dtype, const char *shape)
{
    char is[PARE_RANK_MAX * 24] = "";
    for (size_t i = 0, at = 0; i < t->rank; i++)
        at += (size_t)snprintf(is + at, sizeof is - at, "%s%" PRIu64, i ? ", " : "", t->shape[i]);
    return pare_fail(q->cx, PARE_EFORMAT, "%s: tensor %s is %s [%s], %s %s %s", q->ck->path,
                     t->name, pare_dtype_name(t->dtype), is,
                     q->method->asks ? q->method->asks : "quantization_config asks for", dtype,
                     shape);
}

pare_status pare__quantized_take(const pare__quantized *q, const char *name, const char *suffix,
                                 pare_dtype dtype, uint64_t rows, uint64_t columns,
                                 const pare_tensor **out)
{
    char shape[64];
    const pare_tensor *const t = *out = pare__quantized_find(q, name, suffix);
    if (!t)
        return fail_missing(q, name, suffix);
    const bool fits = rows ? t->rank == 2 && t->shape[0] == rows && t->shape[1] == columns
                           : t->rank == 1 && t->shape[0] == columns;
    if (t->dtype == dtype && fits)
        return PARE_OK;
    if (rows)
        (void)snprintf(shape, sizeof shape, "[%" PRIu64 ", %" PRIu64 "]", rows, columns);
    else
        (void)snprintf(shape, sizeof shape, "[%" PRIu64 "]", columns);
    return pare__quantized_fail_form(q, t, pare_dtype_name(dtype), shape);
}

static bool fits_scales(const pare_tensor *t, uint64_t rows, uint64_t columns)
{
    const uint64_t count = 8 * t->bytes / pare_dtype_bits(t->dtype);
    if (rows == 1 && columns == 1)
        return count == 1;
    if (t->rank == 1)
        return (rows == 1 || columns == 1) && count == rows * columns;
    return t->rank == 2 && t->shape[0] == rows && t->shape[1] == columns;
}

pare_status pare__quantized_scales(const pare__quantized *q, const char *name, const char *suffix,
                                   uint64_t rows, uint64_t columns, const pare_tensor **out)
{
    char shape[64];
    const pare_tensor *const t = *out = pare__quantized_find(q, name, suffix);
    if (!t)
        return fail_missing(q, name, suffix);
    const bool known = t->dtype == PARE_F16 || t->dtype == PARE_BF16 || t->dtype == PARE_F32;
    if (known && fits_scales(t, rows, columns))
        return PARE_OK;
    (void)snprintf(shape, sizeof shape, "[%" PRIu64 ", %" PRIu64 "]", rows, columns);
    return pare__quantized_fail_form(q, t, "F16, BF16 or F32", shape);
}

pare_status pare__quantized_flag(const pare__quantized *q, const char *where, const char *key,
                                 const pare_json *v, bool absent, bool *out)
{
    const pare_json_type is = pare_json_type_of(v);
    *out = pare_json_bool(v, absent);
    return is == PARE_JSON_BOOL || is == PARE_JSON_ABSENT || is == PARE_JSON_NULL
               ? PARE_OK
               : pare__quantized_refuse(q, where, key, "true or false is expected");
}

pare_status pare__quantized_group(const pare__quantized *q, const char *where, const pare_json *v,
                                  size_t *group)
{
    const int64_t is = pare_json_integer(v, 0);
    if (is != -1 && (is < 1 || is > PARE__SIDE_MAX))
        return pare__quantized_refuse(
            q, where, "group_size", "expected -1 (all inputs) or a number of inputs of 1 to 2^24");
    *group = is < 0 ? 0 : (size_t)is;
    return PARE_OK;
}

static bool is_unset(const pare_tensor *index, size_t k)
{
    bool unset = true;
    for (size_t j = 0; unset && j < k; j++) {
        int32_t g;
        memcpy(&g, (const char *)index->data + j * sizeof g, sizeof g);
        unset = g == ALL_UNSET;
    }
    return unset;
}

pare_status pare__quantized_index(const pare__quantized *q, const char *suffix, bool may_be_unset,
                                  pare__coded *c)
{
    const size_t group = c->group ? c->group : c->k;
    bool ascending = true;
    PARE_TRY(pare__quantized_take(q, c->name, suffix, PARE_I32, 0, c->k, &c->index));
    const char *const data = c->index->data;
    c->bytes += c->index->bytes;
    if (!data || (may_be_unset && is_unset(c->index, c->k))) {
        c->index = NULL;
        return PARE_OK;
    }
    for (size_t j = 0; j < c->k; j++) {
        int32_t g;
        memcpy(&g, data + j * sizeof g, sizeof g);
        if (g < 0 || (size_t)g >= c->groups)
            return pare_fail(q->cx, PARE_EFORMAT,
                             "%s: tensor %s: column %zu is of group %" PRId32 ", there are %zu",
                             q->ck->path, c->index->name, j, g, c->groups);
        ascending &= (size_t)g == j / group;
    }
    if (ascending)
        c->index = NULL;
    return PARE_OK;
}

pare_status pare__quantized_number(const pare__quantized *q, const char *suffix, pare__coded *c,
                                   float *out)
{
    const pare_tensor *t;
    PARE_TRY(pare__quantized_scales(q, c->name, suffix, 1, 1, &t));
    c->bytes += t->bytes;
    if (!t->data)
        return PARE_OK;
    PARE_TRY(pare_tensor_to_f32(q->cx, t, 0, 1, out));
    return isfinite(*out) && *out > 0
               ? PARE_OK
               : pare__quantized_wrong(q, c->name, suffix, "is no finite positive number");
}

pare_status pare__quantized_sizes(const pare__quantized *q, const char *suffix, size_t per,
                                  pare__coded *c)
{
    const pare_tensor *const t = c->codes;
    if (t->rank != 2 || !t->shape[0] || t->shape[0] > PARE__SIDE_MAX || !t->shape[1] ||
        t->shape[1] > PARE__SIDE_MAX / per)
        return pare__quantized_wrong(q, c->name, suffix, "is no matrix of codes");
    c->n = (size_t)t->shape[0];
    c->k = (size_t)t->shape[1] * per;
    return PARE_OK;
}

/* Whole groups are whole words. */
pare_status pare__quantized_pairs(const pare__quantized *q, const char *suffix, pare__coded *c)
{
    char what[96];
    PARE_TRY(pare__quantized_sizes(q, suffix, 2, c));
    PARE_TRY(pare__quantized_take(q, c->name, suffix, PARE_U8, c->n, c->k / 2, &c->codes));
    c->groups = c->k / c->group;
    c->code = (pare__fields){.data = c->codes->data, .line = c->k / 8, .step = 1, .bits = 4};
    if (c->k % c->group == 0)
        return PARE_OK;
    (void)snprintf(what, sizeof what, "rows of %zu weights are no whole groups of %zu", c->k,
                   c->group);
    return pare__quantized_wrong(q, c->name, suffix, what);
}

void pare__quantized_warn_cache(const pare__quantized *q)
{
    static const char *const key[] = {"kv_cache_scheme", "kv_cache_quant_algo"};
    for (size_t i = 0; !q->ck->listed && i < sizeof key / sizeof *key; i++) {
        const pare_json *const v = pare_json_get(q->config, key[i]);
        const pare_json_type is = pare_json_type_of(v);
        const bool object = is == PARE_JSON_OBJECT || is == PARE_JSON_ARRAY;
        if (is != PARE_JSON_ABSENT && is != PARE_JSON_NULL && !(object && !pare_json_count(v)))
            pare_warn(q->cx,
                      "%s: quantization_config: %s is left out: pare keeps keys and values as "
                      "--kv says, in floats without it",
                      q->file, key[i]);
    }
}
