#include "formats/packed.h"

#include "kernels/layout.h"
#include "runtime/threads.h"

enum { F16_BYTES = 2 };

size_t pare_packed_linear_groups(const pare_packed_linear *l)
{
    return l->group ? (l->k + l->group - 1) / l->group : 1;
}

pare_packed_bytes pare_packed_linear_bytes(const pare_packed_linear *l)
{
    const uint64_t n = pare_round_up(l->n, PARE_PAD_N), k = pare_round_up(l->k, PARE_ATOM_K);
    const uint64_t scales = n * pare_packed_linear_groups(l);
    return (pare_packed_bytes){.codes =
                                   n / PARE_ATOM_N * (k / PARE_ATOM_K) * pare_atom_bytes(l->bits),
                               .scales = scales * F16_BYTES,
                               .zeros = l->symmetric ? 0 : scales};
}

typedef struct pack_task {
    const pare_ctx *cx;
    const pare_packed_linear *l;
    const pare_codes *from;
    const pare_packed_planes *to;
    size_t groups;
    uint8_t middle; /* the code that a zero point of padding stands for */
} pack_task;

/* Scales and zeros of the eight rows from `row` on; rows behind the end get scale 0. */
static void pack_grid(const pack_task *t, size_t row)
{
    for (size_t g = 0; g < t->groups; g++) {
        const size_t at = (row / PARE_ATOM_N * t->groups + g) * PARE_ATOM_N;
        float scale[PARE_ATOM_N] = {0};
        for (size_t r = 0; r < PARE_ATOM_N && row + r < t->l->n; r++)
            scale[r] = t->from->scales[(row + r) * t->groups + g];
        t->cx->kernels.cvt_f32_f16(t->to->scales + at, scale, PARE_ATOM_N);
        for (size_t r = 0; t->to->zeros && r < PARE_ATOM_N; r++)
            t->to->zeros[at + r] =
                row + r < t->l->n ? t->from->zeros[(row + r) * t->groups + g] : t->middle;
    }
}

/* Items are pads of 16 rows, so that every task packs whole padded blocks. */
static void pack_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const pack_task *const t = arg;
    const size_t k = t->l->k;
    const size_t pad_bytes = PARE_PAD_N / PARE_ATOM_N *
                             (pare_round_up(k, PARE_ATOM_K) / PARE_ATOM_K) *
                             pare_atom_bytes(t->l->bits);
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t row = i * PARE_PAD_N;
        const size_t rows = t->l->n - row < PARE_PAD_N ? t->l->n - row : PARE_PAD_N;
        pare_pack_codes(t->to->codes + i * pad_bytes, t->from->codes + row * k, k, rows, k,
                        t->l->bits, t->to->zeros ? t->from->zeros + row * t->groups : NULL,
                        t->groups, t->middle);
        for (size_t r = 0; r < PARE_PAD_N; r += PARE_ATOM_N)
            pack_grid(t, row + r);
    }
}

pare_status pare_packed_pack(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                             const pare_codes *codes, pare_packed_planes *out)
{
    const size_t groups = pare_packed_linear_groups(l);
    if (codes->n != l->n || codes->k != l->k || codes->groups != groups)
        return pare_fail(
            cx, PARE_ESHAPE,
            "%s: codes are %zu x %zu with %zu groups, the linear is %zu x %zu with %zu", l->name,
            codes->n, codes->k, codes->groups, l->n, l->k, groups);
    const pare_packed_bytes bytes = pare_packed_linear_bytes(l);
    *out = (pare_packed_planes){.bytes = bytes};
    out->codes = PARE_NEW(a, uint8_t, bytes.codes);
    out->scales = PARE_NEW(a, uint16_t, bytes.scales / F16_BYTES);
    if (!l->symmetric)
        out->zeros = PARE_NEW(a, uint8_t, bytes.zeros);
    if (!out->codes || !out->scales || (!l->symmetric && !out->zeros))
        return PARE_ENOMEM;
    pack_task task = {cx, l, codes, out, groups, (uint8_t)(1u << (l->bits - 1))};
    pare_parallel(cx, (l->n + PARE_PAD_N - 1) / PARE_PAD_N, 1, pack_rows, &task);
    return PARE_OK;
}

pare_linear pare_packed_view(const pare_packed_linear *l, const uint8_t *codes,
                             const uint16_t *scales, const uint8_t *zeros)
{
    const size_t k = pare_round_up(l->k, PARE_ATOM_K);
    return (pare_linear){.name = l->name,
                         .n = l->n,
                         .k = l->k,
                         .bits = l->bits,
                         .activation = {.bits = 8},
                         .panel = {.codes = codes,
                                   .scales = scales,
                                   .zeros = l->symmetric ? NULL : zeros,
                                   .n = pare_round_up(l->n, PARE_PAD_N),
                                   .k = k,
                                   .group = l->group ? l->group : k}};
}
