/* Linears that are trained to be ternary (BitNet b1.58), as the floats that they stand for.
 *
 *   codes       U8 [n / 4, k]: bits 2 i and 2 i + 1 of row r are 1 + the code of row i n / 4 + r;
 *               w = code scale, or code / scale where the file says linear_class: bitlinear
 *   floats      with a scale: w = value scale, or value / scale
 *   master      without one:  w = clamp(rint(v s), -1, 1) / s,  s = 1 / max(mean |v|, 1e-5)
 *
 * in the type of the scale, or of the master weights, as the reference computes with. */
#include <math.h>
#include <string.h>

#include "formats/checkpoint_internal.h"

enum { CHUNK = 4096, PER_BYTE = 4 };

typedef struct ternary {
    const pare_checkpoint *ck;
    const pare_tensor *t;
    pare_dtype dtype;
    bool codes;
    double scale;  /* what a value is multiplied with */
    double master; /* s of master weights; 0: values are codes */
} ternary;

static pare_status fail(const ternary *j, const char *what)
{
    return pare_fail(j->ck->cx, PARE_EFORMAT, "%s: tensor %s: %s", j->ck->path, j->t->name, what);
}

/* Values [first, first + count) as they stand in the file. */
static pare_status fetch(const ternary *j, uint64_t first, size_t count, float *v)
{
    if (!j->codes)
        return pare_tensor_to_f32(j->ck->cx, j->t, first, count, v);
    const unsigned char *const bytes = j->t->data;
    uint64_t at = first % j->t->bytes;
    unsigned shift = 2 * (unsigned)(first / j->t->bytes);
    for (size_t i = 0; i < count; i++) {
        const unsigned code = bytes[at] >> shift & 3;
        if (code == 3)
            return fail(j, "a code is 3, which stands for nothing");
        v[i] = (float)code - 1.0F;
        if (++at == j->t->bytes) {
            at = 0;
            shift += 2;
        }
    }
    return PARE_OK;
}

static void round_values(const ternary *j, float *v, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x = v[i];
        if (j->master > 0) {
            x = rintf(x * (float)j->master);
            x = x < -1 ? -1 : x > 1 ? 1 : x;
        }
        v[i] = j->master > 0 ? x / (float)j->master : (float)((double)x * j->scale);
    }
}

/* s of master weights. */
static pare_status measure(ternary *j, uint64_t count)
{
    float v[CHUNK];
    double sum = 0;
    for (uint64_t i = 0; i < count; i += CHUNK) {
        const size_t n = count - i < CHUNK ? (size_t)(count - i) : CHUNK;
        PARE_TRY(fetch(j, i, n, v));
        for (size_t l = 0; l < n; l++)
            sum += (double)fabsf(v[l]);
    }
    const double mean = sum / (double)count;
    if (!isfinite(mean))
        return fail(j, "a weight is NaN or infinite");
    j->master = 1 / (mean > 1e-5 ? mean : 1e-5);
    return PARE_OK;
}

static pare_status read_scale(ternary *j, const pare_tensor *scale, bool divides)
{
    float s;
    if (scale->rank > 1 || (scale->rank == 1 && scale->shape[0] != 1))
        return fail(j, "its weight_scale is not one number");
    PARE_TRY(pare_tensor_to_f32(j->ck->cx, scale, 0, 1, &s));
    if (!(s > 0) || !isfinite(s) || !isfinite(1 / s))
        return fail(j, "its weight_scale is not a number above 0");
    j->scale = divides ? 1 / (double)s : (double)s;
    return PARE_OK;
}

pare_status pare__ternary_take(pare_checkpoint *ck, const pare_tensor *t, const pare_tensor *scale,
                               pare__ternary_kind kind, size_t n, size_t k, pare_tensor *out)
{
    ternary j = {.ck = ck, .t = t, .dtype = t->dtype, .codes = t->dtype == PARE_U8};
    const uint64_t count = (uint64_t)n * k;
    if (t->rank != 2 || t->shape[1] != k || t->shape[0] * (j.codes ? PER_BYTE : 1) != n)
        return pare_fail(ck->cx, PARE_EFORMAT,
                         "%s: tensor %s does not hold the [%zu, %zu] weights that config.json asks "
                         "for",
                         ck->path, t->name, n, k);
    if (!scale && (j.codes || kind != PARE__TERNARY_ONLINE))
        return fail(&j, "there is no weight_scale of it");
    j.dtype = j.codes ? scale->dtype : t->dtype;
    *out = (pare_tensor){.name = t->name, .dtype = j.dtype, .rank = 2, .shape = {n, k}};
    PARE_TRY(pare_tensor_bytes(out->dtype, out->rank, out->shape, &out->bytes));
    if (ck->listed) { /* what the weights hold may be nowhere yet */
        pare_scratch_count(&ck->scratch, out->bytes);
        return PARE_OK;
    }
    if (scale)
        PARE_TRY(read_scale(&j, scale, kind == PARE__TERNARY_DIVIDED));
    else
        PARE_TRY(measure(&j, count));
    void *room;
    float v[CHUNK];
    PARE_TRY(pare_scratch_take(&ck->scratch, out->bytes, &room));
    for (uint64_t i = 0; i < count; i += CHUNK) {
        const size_t some = count - i < CHUNK ? (size_t)(count - i) : CHUNK;
        PARE_TRY(fetch(&j, i, some, v));
        round_values(&j, v, some);
        PARE_TRY(pare_f32_to_dtype(ck->cx, out->dtype, v, some,
                                   (char *)room + i * (pare_dtype_bits(out->dtype) / 8)));
    }
    out->data = room;
    return PARE_OK;
}
