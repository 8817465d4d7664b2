#include "runtime/tensor.h"

#include <string.h>

#include "kernels/half.h"

typedef struct dtype_info {
    const char *name;
    unsigned bits;
} dtype_info;

static const dtype_info dtypes[] = {
#define X(name, bits) [PARE_##name] = {#name, (bits)},
    PARE_DTYPE_MAP(X)
#undef X
};

const char *pare_dtype_name(pare_dtype t)
{
    return (unsigned)t < PARE_DTYPES ? dtypes[t].name : "unknown";
}

pare_dtype pare_dtype_parse(const char *name)
{
    unsigned t = 0;
    while (t < PARE_DTYPES && strcmp(dtypes[t].name, name) != 0)
        t++;
    return (pare_dtype)t;
}

unsigned pare_dtype_bits(pare_dtype t)
{
    return (unsigned)t < PARE_DTYPES ? dtypes[t].bits : 0;
}

/* A zero dimension makes the product zero, but the others must not overflow before it either: the
 * result does not depend on the order of the dimensions. */
pare_status pare_tensor_bytes(pare_dtype t, uint32_t rank, const uint64_t *shape, uint64_t *bytes)
{
    *bytes = 0;
    if ((unsigned)t >= PARE_DTYPES || rank > PARE_RANK_MAX)
        return PARE_EFORMAT;
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] != 0 && __builtin_mul_overflow(count, shape[i], &count))
            return PARE_EFORMAT;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] == 0)
            count = 0;
    }
    uint64_t bits;
    if (__builtin_mul_overflow(count, (uint64_t)dtypes[t].bits, &bits) || bits % 8 != 0)
        return PARE_EFORMAT;
    *bytes = bits / 8;
    return PARE_OK;
}

enum { BOUNCE = 512 }; /* elements copied at a time from unaligned data */

static void convert(const pare_kernels *k, pare_dtype t, const void *src, size_t count, float *dst)
{
    if (t == PARE_F32)
        memcpy(dst, src, count * sizeof *dst);
    else if (t == PARE_F16)
        k->cvt_f16_f32(dst, src, count);
    else
        k->cvt_bf16_f32(dst, src, count);
}

pare_status pare_tensor_to_f32(pare_ctx *cx, const pare_tensor *t, uint64_t first, uint64_t count,
                               float *dst)
{
    if (t->dtype != PARE_F32 && t->dtype != PARE_F16 && t->dtype != PARE_BF16)
        return pare_fail(cx, PARE_ENOTSUP, "tensor %s has dtype %s, expected F32, F16 or BF16",
                         t->name, pare_dtype_name(t->dtype));
    const size_t size = dtypes[t->dtype].bits / 8;
    const uint64_t total = t->bytes / size;
    if (first > total || count > total - first)
        return pare_fail(
            cx, PARE_ESHAPE, "tensor %s: elements %llu to %llu asked for, but there are %llu",
            t->name, (unsigned long long)first,
            (unsigned long long)first + (unsigned long long)count, (unsigned long long)total);
    if (count == 0)
        return PARE_OK;
    const unsigned char *src = (const unsigned char *)t->data + first * size;
    if (size != sizeof(uint16_t) || (uintptr_t)src % size == 0) {
        convert(&cx->kernels, t->dtype, src, (size_t)count, dst);
        return PARE_OK;
    }
    uint16_t bounce[BOUNCE];
    for (uint64_t i = 0; i < count; i += BOUNCE) {
        const size_t n = count - i < BOUNCE ? (size_t)(count - i) : BOUNCE;
        memcpy(bounce, src + i * size, n * size);
        convert(&cx->kernels, t->dtype, bounce, n, dst + i);
    }
    return PARE_OK;
}

pare_status pare_f32_to_dtype(pare_ctx *cx, pare_dtype t, const float *src, size_t count, void *dst)
{
    if (t == PARE_F32) {
        memcpy(dst, src, count * sizeof *src);
    } else if (t == PARE_F16) {
        cx->kernels.cvt_f32_f16(dst, src, count);
    } else if (t == PARE_BF16) {
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)dst)[i] = pare_f32_to_bf16(src[i]);
    } else {
        return pare_fail(cx, PARE_ENOTSUP, "floats cannot become %s", pare_dtype_name(t));
    }
    return PARE_OK;
}

/* Counted in 16 bits, as wide as what is counted: twice as many at once. */
static uint64_t count_bad_16(const unsigned char *p, size_t count, uint16_t exponent)
{
    enum { MOST = 1 << 15 };
    uint64_t bad = 0;
    for (size_t i = 0; i < count; i += MOST) {
        const size_t end = count - i < MOST ? count : i + MOST;
        uint16_t here = 0;
        for (size_t j = i; j < end; j++) {
            uint16_t half;
            memcpy(&half, p + 2 * j, sizeof half);
            here = (uint16_t)(here + ((half & exponent) == exponent));
        }
        bad += here;
    }
    return bad;
}

static uint64_t count_bad_32(const unsigned char *p, size_t count)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, p + 4 * i, sizeof bits);
        bad += (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad;
}

uint64_t pare_count_nonfinite(pare_dtype type, const unsigned char *p, size_t count)
{
    return type == PARE_F32 ? count_bad_32(p, count)
                            : count_bad_16(p, count, type == PARE_F16 ? 0x7c00u : 0x7f80u);
}
