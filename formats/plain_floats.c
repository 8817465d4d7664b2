/* Tensors of floats that the runtime does not compute with, F64 and 8 bits, as F32: rounded half to
 * even, and exact.
 *
 *   E4M3       bias 7, no infinities, 0x7f and 0xff are NaN       E5M2       the upper half of F16
 *   E4M3FNUZ   bias 8, 0x80 is the only NaN, no negative 0        E5M2FNUZ   likewise, bias 16 */
#include <math.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "kernels/half.h"
#include "kernels/levels.h"

enum { CODES = 256, SIGN = 0x80, STEP = 4096 };

static bool is_read(pare_dtype t)
{
    return t == PARE_F64 || t == PARE_F8_E4M3 || t == PARE_F8_E5M2 || t == PARE_F8_E4M3FNUZ ||
           t == PARE_F8_E5M2FNUZ;
}

/* A code with `bits` bits of fraction. */
static float fnuz(unsigned code, int bits, int bias)
{
    const int exponent = (int)(code & (SIGN - 1)) >> bits, one = 1 << bits;
    const int fraction = (int)code & (one - 1);
    if (code == SIGN)
        return NAN;
    const float value = exponent ? ldexpf((float)(one + fraction), exponent - bias - bits)
                                 : ldexpf((float)fraction, 1 - bias - bits);
    return code & SIGN ? -value : value;
}

static float value_of(pare_dtype t, unsigned code)
{
    switch (t) {
    case PARE_F8_E4M3: return pare_levels_e4m3[code];
    case PARE_F8_E5M2: return pare_f16_to_f32((uint16_t)(code << 8));
    case PARE_F8_E4M3FNUZ: return fnuz(code, 3, 8);
    default: return fnuz(code, 2, 16);
    }
}

static pare_status convert(pare_checkpoint *ck, const pare_tensor *t, uint64_t count, float *to)
{
    const unsigned char *const from = t->data;
    float table[CODES];
    for (unsigned c = 0; c < CODES && t->dtype != PARE_F64; c++)
        table[c] = value_of(t->dtype, c);
    for (uint64_t i = 0; i < count; i++) {
        double wide;
        if (i % STEP == 0)
            PARE_TRY(pare_ctx_interrupted(ck->cx));
        if (t->dtype != PARE_F64) {
            to[i] = table[from[i]];
            continue;
        }
        memcpy(&wide, from + i * sizeof wide, sizeof wide);
        to[i] = (float)wide;
    }
    return PARE_OK;
}

/* What a listing shows: the types of the files. */
static pare_status keep_types(pare_checkpoint *ck, pare_arena *a, pare_stored **out)
{
    *out = PARE_NEW(a, pare_stored, ck->tensors);
    if (!*out)
        return PARE_ENOMEM;
    for (size_t i = 0; i < ck->tensors; i++) {
        const pare_tensor *const t = &ck->tensor[i];
        (*out)[i] = ck->stored ? ck->stored[i]
                               : (pare_stored){.type = pare_dtype_name(t->dtype),
                                               .bytes = t->bytes,
                                               .run_bytes = t->bytes};
    }
    return PARE_OK;
}

/* The list of a reader is not changed, its views are those of others. */
static pare_status convert_all(pare_checkpoint *ck, pare_arena *a)
{
    pare_tensor *const tensor = PARE_NEW(a, pare_tensor, ck->tensors);
    pare_stored *stored;
    void *room;
    PARE_TRY(keep_types(ck, a, &stored));
    if (!tensor)
        return PARE_ENOMEM;
    for (size_t i = 0; i < ck->tensors; i++) {
        pare_tensor *const t = &tensor[i];
        *t = ck->tensor[i];
        if (!is_read(t->dtype))
            continue;
        t->dtype = PARE_F32;
        t->data = NULL;
        if (pare_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes) != PARE_OK)
            return pare_fail(ck->cx, PARE_EFORMAT, "%s: tensor %s: its values overflow", ck->path,
                             t->name);
        stored[i].run_bytes = t->bytes;
        if (ck->listed) {
            pare_scratch_count(&ck->scratch, t->bytes);
            continue;
        }
        PARE_TRY(pare_scratch_take(&ck->scratch, t->bytes, &room));
        PARE_TRY(convert(ck, &ck->tensor[i], t->bytes / sizeof(float), room));
        t->data = room;
    }
    ck->tensor = tensor;
    ck->stored = stored;
    return PARE_OK;
}

/* Codes of 8 bits mostly have scales; what has none is told. */
static void warn_of_no_scales(const pare_checkpoint *ck)
{
    size_t count = 0, first = 0;
    for (size_t i = ck->tensors; i-- > 0;) {
        const pare_tensor *const t = &ck->tensor[i];
        if (!is_read(t->dtype) || t->dtype == PARE_F64 || t->rank < 2)
            continue;
        count++;
        first = i;
    }
    if (count && !ck->listed && !ck->packed)
        pare_warn(ck->cx,
                  "%s: %zu tensor%s of floats of 8 bits (%s%s) %s no scales, and pare takes the "
                  "values as they are; where a program divided them by scales, those are missing",
                  ck->path, count, count == 1 ? "" : "s", ck->tensor[first].name,
                  count > 1 ? ", ..." : "", count == 1 ? "has" : "have");
}

pare_status pare__plain_floats(pare_checkpoint *ck, pare_arena *a)
{
    bool any = false;
    for (size_t i = 0; i < ck->tensors; i++)
        any |= is_read(ck->tensor[i].dtype);
    warn_of_no_scales(ck);
    return any && !ck->packed ? convert_all(ck, a) : PARE_OK;
}
