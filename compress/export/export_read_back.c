#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/export/export_run.h"

/* Largest error of rounding to a float type: relative, and what is lost below its normal range. */
static float rounding(pare_dtype t, float value)
{
    if (t == PARE_F32)
        return 0;
    return t == PARE_F16 ? fabsf(value) * 0x1p-11f + 0x1p-25f : fabsf(value) * 0x1p-8f;
}

static pare_status fail_value(pare__export *e, pare_status s, const pare_packed_linear *l,
                              size_t at, float value, const char *what)
{
    return pare_fail(e->cx, s, "%s: linear %s: weight [%zu, %zu] is %.9g, %s", e->target->name,
                     l->name, at / l->k, at % l->k, (double)value, what);
}

pare_status pare__export_check_lost(const pare__export *e, const char *name, const char *type,
                                    double difference, double square)
{
    const double most = strcmp(type, "Q2_K") == 0 ? 0.3 : 0.1;
    if (!(difference > most * square) || strncmp(type, "TQ", 2) == 0)
        return PARE_OK;
    return pare_fail(e->cx, PARE_ENUMERIC,
                     "%s: tensor %s: its values are too small for %s, the relative error would be "
                     "%.2f; take another format, or leave this linear out of the recipe",
                     e->target->name, name, type, sqrt(difference / square));
}

static pare_status compare(pare__export *e, size_t i, const float *is, const float *wanted)
{
    const pare_packed_linear *const l = &e->source.shape.linear[i].packed;
    const pare_export_fate fate = e->out->row[i].fate;
    double square = 0, difference = 0;
    for (size_t j = 0; j < l->n * l->k; j++) {
        const float d = is[j] - wanted[j];
        if (!isfinite(wanted[j]))
            return fail_value(e, PARE_EFORMAT, l, j, wanted[j], "the artifact is damaged");
        if (fate != PARE_EXPORT_LOSSLESS && !isfinite(is[j]) && isfinite(wanted[j]))
            return fail_value(e, PARE_ENUMERIC, l, j, wanted[j],
                              "which the floats of the model do not reach");
        if (fate != PARE_EXPORT_REQUANTIZED &&
            !(fabsf(d) <=
              (fate == PARE_EXPORT_ROUNDED ? rounding(e->source.shape.floats, wanted[j]) : 0)))
            return pare_fail(e->cx, PARE_ENUMERIC,
                             "%s: linear %s: weight [%zu, %zu] reads back as %.9g instead of %.9g; "
                             "this is a mistake of pare, nothing was kept",
                             e->target->name, l->name, j / l->k, j % l->k, (double)is[j],
                             (double)wanted[j]);
        square += (double)wanted[j] * (double)wanted[j];
        difference += (double)d * (double)d;
    }
    PARE_TRY(pare__export_check_lost(e, l->name, pare_dtype_name(e->source.shape.floats),
                                     difference, square));
    e->square += square;
    e->difference += difference;
    e->out->row[i].error = square > 0 ? sqrt(difference / square) : 0;
    if (fate == PARE_EXPORT_ROUNDED && difference == 0) /* all of them are numbers of that type */
        e->out->row[i].fate = PARE_EXPORT_LOSSLESS;
    return PARE_OK;
}

/* `is` and `wanted` have room for a column. */
static pare_status check_bias(pare__export *e, const pare_checkpoint *written,
                              const pare_export_linear *l, float *is, float *wanted)
{
    char name[1024];
    (void)snprintf(name, sizeof name, "%s.bias", l->name);
    const pare_tensor *const t = pare_checkpoint_find(written, name);
    if (t && t->rank == 1 && t->shape[0] == l->packed.n) {
        PARE_TRY(pare_tensor_to_f32(e->cx, t, 0, l->packed.n, is));
        pare_export_bias(&e->source.shape, l, wanted);
        if (memcmp(is, wanted, l->packed.n * sizeof *is) == 0)
            return PARE_OK;
    }
    return pare_fail(e->cx, PARE_ENUMERIC,
                     "%s: tensor %s does not read back as it was; nothing was kept",
                     e->target->name, name);
}

static pare_status check_linear(pare__export *e, const pare_checkpoint *written, size_t i)
{
    const pare_export_linear *const x = &e->source.shape.linear[i];
    const pare_packed_linear *const l = &x->packed;
    float *const is = pare_arena_take_raw(&e->scratch, l->n * l->k, sizeof *is);
    float *const wanted = pare_arena_take_raw(&e->scratch, l->n * l->k, sizeof *wanted);
    if (!is || !wanted)
        return PARE_ENOMEM;
    PARE_TRY(pare__export_writer(e, x)->read(e->cx, written, x, is));
    PARE_TRY(pare_export_floats(e->cx, &e->scratch, &e->source.shape, x, wanted));
    PARE_TRY(compare(e, i, is, wanted));
    return pare__export_joins_bias(x) ? check_bias(e, written, x, is, wanted) : PARE_OK;
}

static pare_status check_rest(pare__export *e, const pare_checkpoint *written)
{
    for (size_t i = 0; i < e->ck.tensors; i++) {
        const pare_tensor *const was = &e->ck.tensor[i];
        const pare_tensor *const is = pare_checkpoint_find(written, was->name);
        if (e->plane[i])
            continue;
        if (!is || is->dtype != was->dtype || is->bytes != was->bytes ||
            memcmp(is->data, was->data, (size_t)was->bytes) != 0)
            return pare_fail(e->cx, PARE_ENUMERIC,
                             "%s: tensor %s does not read back as it was; nothing was kept",
                             e->target->name, was->name);
    }
    return PARE_OK;
}

pare_status pare__export_read_back(pare__export *e)
{
    pare_checkpoint written;
    pare_status s = pare_checkpoint_open_plain(e->cx, e->a, e->place.at.partial, &written);
    const size_t linears = e->source.shape.linears + e->source.shape.tables;
    for (size_t i = 0; s == PARE_OK && i < linears; i++) {
        pare_ctx_progress(e->cx, "reading the export back", (double)i, (double)linears);
        const pare_mark m = pare_arena_mark(&e->scratch);
        if (pare__export_writes(&e->source.shape.linear[i]))
            s = check_linear(e, &written, i);
        pare_arena_rewind(&e->scratch, m);
        if (s == PARE_OK)
            s = pare_ctx_interrupted(e->cx);
    }
    if (s == PARE_OK)
        s = check_rest(e, &written);
    pare_checkpoint_close(&written);
    e->out->error = e->square > 0 ? sqrt(e->difference / e->square) : 0;
    return s;
}
