#include <string.h>

#include "compress/compress_internal.h"
#include "runtime/threads.h"

/* What a scan found in one tensor. */
typedef struct finding {
    uint64_t bad, first;
} finding;

typedef struct scan {
    const pare_tensor *tensor;
    finding *finding;
} scan;

static bool is_float(pare_dtype t)
{
    return t == PARE_F32 || t == PARE_F16 || t == PARE_BF16;
}

/* Bits of element i, at the top of 32, and the exponent mask of its type there. */
static uint32_t element(const pare_tensor *t, uint64_t i, uint32_t *exponent)
{
    const unsigned char *const p = t->data;
    if (t->dtype == PARE_F32) {
        uint32_t bits;
        memcpy(&bits, p + 4 * i, sizeof bits);
        *exponent = 0x7f800000u;
        return bits;
    }
    uint16_t half;
    memcpy(&half, p + 2 * i, sizeof half);
    *exponent = t->dtype == PARE_F16 ? 0x7c000000u : 0x7f800000u;
    return (uint32_t)half << 16;
}

static void scan_tensors(void *arg, size_t begin, size_t end, size_t worker)
{
    const scan *const s = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const pare_tensor *const t = &s->tensor[i];
        if (!is_float(t->dtype))
            continue;
        const uint64_t count = t->bytes / (pare_dtype_bits(t->dtype) / 8);
        for (uint64_t j = 0; j < count; j++) {
            uint32_t exponent;
            const uint32_t bits = element(t, j, &exponent);
            if ((bits & exponent) == exponent && s->finding[i].bad++ == 0)
                s->finding[i].first = j;
        }
    }
}

/* Infinities become the largest finite number of the type (clamp) or 0; NaN becomes 0. */
static void repair(const pare_tensor *t, unsigned char *copy, bool clamp)
{
    const size_t size = pare_dtype_bits(t->dtype) / 8;
    for (uint64_t j = 0; j < t->bytes / size; j++) {
        uint32_t exponent;
        const uint32_t bits = element(t, j, &exponent);
        if ((bits & exponent) != exponent)
            continue;
        const uint32_t mantissa = bits & 0x7fffffffu & ~exponent;
        uint32_t fixed = 0;
        if (clamp && mantissa == 0) /* one below the bits of infinity, in units of the type */
            fixed = (bits & 0x80000000u) | (exponent - (size == 4 ? 1u : 0x10000u));
        const uint16_t half = (uint16_t)(fixed >> 16);
        if (size == 4)
            memcpy(copy + 4 * j, &fixed, 4);
        else
            memcpy(copy + 2 * j, &half, 2);
    }
}

static pare_status settle(pare_run *run, pare_tensor *t, const finding *f)
{
    const pare_nan_policy policy = run->plan.recipe.nan;
    if (policy == PARE_NAN_ERROR)
        return pare_fail(run->cx, PARE_ENUMERIC,
                         "%s: %s: %llu weights are NaN or infinite, the first is element %llu; "
                         "write \"nan: zero\" or \"nan: clamp\" in the recipe to repair them",
                         run->plan.model_path, t->name, (unsigned long long)f->bad,
                         (unsigned long long)f->first);
    unsigned char *const copy = pare_arena_take(run->a, (size_t)t->bytes, 1);
    if (!copy)
        return PARE_ENOMEM;
    memcpy(copy, t->data, (size_t)t->bytes);
    repair(t, copy, policy == PARE_NAN_CLAMP);
    t->data = copy;
    run->repair[run->repairs++] = (pare_repair){t->name, f->bad};
    pare__notify(run, PARE_EVENT_NOTICE, "%s: %llu weights were NaN or infinite and were set to %s",
                 t->name, (unsigned long long)f->bad,
                 policy == PARE_NAN_CLAMP ? "the largest finite number (NaN: 0)" : "0");
    return PARE_OK;
}

pare_status pare__run_finite(pare_run *run)
{
    pare_checkpoint *const ck = &run->plan.checkpoint;
    scan s = {ck->tensor, PARE_NEW(run->a, finding, ck->tensors)};
    if (!s.finding)
        return PARE_ENOMEM;
    enum { CHUNK = 8 };
    for (size_t i = 0; i < ck->tensors; i += CHUNK * 8) {
        pare_ctx_progress(run->cx, "looking for NaN", (double)i, (double)ck->tensors);
        const size_t left = ck->tensors - i, count = left < CHUNK * 8 ? left : CHUNK * 8;
        scan part = {s.tensor + i, s.finding + i};
        pare_parallel(run->cx, count, 1, scan_tensors, &part);
        PARE_TRY(pare_ctx_interrupted(run->cx));
    }
    size_t broken = 0;
    for (size_t i = 0; i < ck->tensors; i++)
        broken += s.finding[i].bad != 0;
    run->repair = PARE_NEW(run->a, pare_repair, broken + 1);
    if (!run->repair)
        return PARE_ENOMEM;
    for (size_t i = 0; i < ck->tensors; i++)
        if (s.finding[i].bad != 0)
            PARE_TRY(settle(run, &ck->tensor[i], &s.finding[i]));
    ck->nonfinite = false;
    return broken ? pare_model_load(run->cx, run->a, ck, &run->plan.model) : PARE_OK;
}
