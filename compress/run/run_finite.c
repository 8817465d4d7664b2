#include <stdio.h>
#include <string.h>

#include "compress/run/run_internal.h"
#include "runtime/threads.h"

/* A stretch of one tensor, and how many of its elements are NaN or infinite. */
typedef struct stretch {
    size_t tensor;
    uint64_t first, count, bad;
} stretch;

enum { STRETCH = 1 << 20 }; /* elements */

typedef struct scan {
    const pare_ctx *cx;
    const pare_tensor *tensor;
    stretch *item;
    size_t items;
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

static void scan_stretches(void *arg, size_t begin, size_t end, size_t worker)
{
    const scan *const s = arg;
    for (size_t i = begin; i < end && !(s->cx->interrupt && *s->cx->interrupt); i++) {
        stretch *const x = &s->item[i];
        const pare_tensor *const t = &s->tensor[x->tensor];
        const size_t each = pare_dtype_bits(t->dtype) / 8;
        const unsigned char *const p = (const unsigned char *)t->data + each * x->first;
        x->bad = pare_count_nonfinite(t->dtype, p, (size_t)x->count);
        if (worker == 0)
            pare_ctx_progress(s->cx, "checking weights", (double)i, (double)s->items);
    }
}

/* Values of a tensor that the model uses. */
static uint64_t elements(const pare_run *run, size_t i)
{
    const pare_tensor *const t = &run->checkpoint.tensor[i];
    return run->model.used[i] && is_float(t->dtype) ? t->bytes / (pare_dtype_bits(t->dtype) / 8)
                                                    : 0;
}

/* The stretches of all tensors, one behind the other. */
static pare_status cut(pare_run *run, scan *s)
{
    const pare_checkpoint *const ck = &run->checkpoint;
    size_t items = 0;
    for (size_t i = 0; i < ck->tensors; i++)
        items += (size_t)((elements(run, i) + STRETCH - 1) / STRETCH);
    s->item = PARE_NEW(&run->scratch, stretch, items);
    if (!s->item)
        return PARE_ENOMEM;
    for (size_t i = 0; i < ck->tensors; i++) {
        const uint64_t count = elements(run, i);
        for (uint64_t at = 0; at < count; at += STRETCH)
            s->item[s->items++] = (stretch){i, at, count - at < STRETCH ? count - at : STRETCH, 0};
    }
    return PARE_OK;
}

/* What is bad in one tensor. */
typedef struct finding {
    uint64_t bad, first;
} finding;

/* The first of a stretch that has some. Files can change while they are in use: then it may be
 * gone. */
static pare_status look_for_first(const pare_run *run, const pare_tensor *t, const stretch *x,
                                  finding *out)
{
    for (uint64_t i = x->first; i < x->first + x->count; i++) {
        uint32_t exponent;
        if ((element(t, i, &exponent) & exponent) != exponent)
            continue;
        out->first = i;
        return PARE_OK;
    }
    return pare_fail(run->cx, PARE_EFORMAT, "%s: %s: changed while it was in use",
                     run->plan->model_path, t->name);
}

/* Infinities become the largest finite number of the type (clamp) or 0; NaN becomes 0. Returns the
 * number of infinities. */
static uint64_t repair(const pare_tensor *t, unsigned char *copy, bool clamp)
{
    const size_t size = pare_dtype_bits(t->dtype) / 8;
    uint64_t infinite = 0;
    for (uint64_t j = 0; j < t->bytes / size; j++) {
        uint32_t exponent;
        const uint32_t bits = element(t, j, &exponent);
        if ((bits & exponent) != exponent)
            continue;
        const uint32_t mantissa = bits & 0x7fffffffu & ~exponent;
        uint32_t fixed = 0;
        infinite += mantissa == 0;
        if (clamp && mantissa == 0) /* one below the bits of infinity, in units of the type */
            fixed = (bits & 0x80000000u) | (exponent - (size == 4 ? 1u : 0x10000u));
        const uint16_t half = (uint16_t)(fixed >> 16);
        if (size == 4)
            memcpy(copy + 4 * j, &fixed, 4);
        else
            memcpy(copy + 2 * j, &half, 2);
    }
    return infinite;
}

/* Says what became of how many. */
static void tell_repair(pare_run *run, const pare_tensor *t, uint64_t bad, uint64_t infinite)
{
    const char *const to =
        run->plan->recipe.nan == PARE_NAN_CLAMP ? "the largest finite number" : "0";
    char nans[64] = "", infinities[96] = "";
    if (bad > infinite)
        (void)snprintf(nans, sizeof nans, "%llu NaN set to 0%s",
                       (unsigned long long)(bad - infinite), infinite ? ", " : "");
    if (infinite)
        (void)snprintf(infinities, sizeof infinities, "%llu infinite weight%s set to %s",
                       (unsigned long long)infinite, pare_plural(infinite), to);
    pare__notify(run, PARE_EVENT_NOTICE, "%s: %s%s", t->name, nans, infinities);
}

static pare_status refuse_or_repair(pare_run *run, pare_tensor *t, const finding *f)
{
    const pare_nan_policy policy = run->plan->recipe.nan;
    if (policy == PARE_NAN_ERROR)
        return pare_fail(run->cx, PARE_ENUMERIC,
                         "%s: %s: %llu weight%s NaN or infinite, the first is element %llu; write "
                         "\"nan: zero\" or \"nan: clamp\" in the recipe to repair such weights",
                         run->plan->model_path, t->name, (unsigned long long)f->bad,
                         f->bad == 1 ? " is" : "s are", (unsigned long long)f->first);
    unsigned char *const copy = pare_arena_take(run->a, (size_t)t->bytes, 1);
    if (!copy)
        return PARE_ENOMEM;
    memcpy(copy, t->data, (size_t)t->bytes);
    const uint64_t infinite = repair(t, copy, policy == PARE_NAN_CLAMP);
    t->data = copy;
    run->repair[run->repairs++] = (pare_repair){t->name, f->bad};
    tell_repair(run, t, f->bad, infinite);
    return PARE_OK;
}

/* Finds what is bad in each tensor; finding [tensors]. */
static pare_status find_bad(pare_run *run, finding *found)
{
    const pare_checkpoint *const ck = &run->checkpoint;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    scan s = {.cx = run->cx, .tensor = ck->tensor};
    PARE_TRY(cut(run, &s));
    pare_parallel(run->cx, s.items, 1, scan_stretches, &s);
    PARE_TRY(pare_ctx_interrupted(run->cx));
    for (size_t i = 0; i < s.items; i++) {
        const stretch *const x = &s.item[i];
        finding *const f = &found[x->tensor];
        if (x->bad && !f->bad)
            PARE_TRY(look_for_first(run, &ck->tensor[x->tensor], x, f));
        f->bad += x->bad;
    }
    pare_arena_rewind(&run->scratch, mark);
    return PARE_OK;
}

pare_status pare__run_finite(pare_run *run)
{
    pare_checkpoint *const ck = &run->checkpoint;
    finding *const found = PARE_NEW(run->a, finding, ck->tensors);
    if (!found)
        return PARE_ENOMEM;
    PARE_TRY(find_bad(run, found));
    size_t broken = 0;
    for (size_t i = 0; i < ck->tensors; i++)
        broken += found[i].bad != 0;
    ck->nonfinite = false;
    if (!broken)
        return PARE_OK;
    pare_tensor *const tensor = PARE_NEW(run->a, pare_tensor, ck->tensors);
    run->repair = PARE_NEW(run->a, pare_repair, broken);
    if (!tensor || !run->repair)
        return PARE_ENOMEM;
    memcpy(tensor, ck->tensor, ck->tensors * sizeof *tensor);
    for (size_t i = 0; i < ck->tensors; i++)
        if (found[i].bad != 0)
            PARE_TRY(refuse_or_repair(run, &tensor[i], &found[i]));
    ck->tensor = tensor; /* that of the plan stays as it is */
    return pare_model_load(run->cx, run->a, ck, &run->model);
}
