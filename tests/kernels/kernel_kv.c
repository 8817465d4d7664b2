/* Bodies of the kernels of coded key/value caches. */
#include <string.h>

#include "tests/kernels/kernel_test.h"

/* The tile lies in the case's panel and x8 members: codes, scales, zero points as lows, levels. */
static pare_kv_tile tile_of(const kt_case *c)
{
    return (pare_kv_tile){.codes = c->panel.codes,
                          .scales = c->panel.scales,
                          .lows = c->panel.book,
                          .levels = c->x,
                          .ld = c->ldx,
                          .group = c->group,
                          .bits = c->bits};
}

static void run_kv_decode(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    const pare_kv_tile tile = tile_of(c);
    k->kv_decode((float *)(void *)out, c->ldy, &tile, c->n, c->k);
}

/* Scales per token and group, one for the head, or per channel and the same for all tokens. */
static void check_kv_decode(kt *t, unsigned bits, size_t n, size_t d)
{
    const size_t kind = kt_below(t, 4);
    const size_t group = kind == 0 ? 1 : kind == 1 ? (d + 7) / 8 * 8 : 8 * (1 + kt_below(t, 5));
    const size_t entries = (d + group - 1) / group;
    kt_case c = {.n = n,
                 .k = d,
                 .group = group,
                 .bits = bits,
                 .ldx = kind == 0 ? 0 : entries + kt_below(t, 3),
                 .ldy = d + kt_below(t, 9)};
    const size_t scales = (n - 1) * c.ldx + entries, bytes = n * pare_kv_row_bytes(d, bits);
    c.panel.codes = kt_input(t, bytes, 1);
    c.panel.scales = kt_halves(t, scales, false);
    c.panel.book = kt_below(t, 3) || t->bench ? kt_halves(t, scales, false) : NULL;
    c.x = bits < 4 && kt_below(t, 2) ? kt_floats(t, (size_t)1 << bits) : NULL;
    c.out_bytes = ((n - 1) * c.ldy + d) * sizeof(float);
    c.work_bytes = bytes + scales * 4 + c.out_bytes;
    kt_check(t, &c, run_kv_decode);
}

void kt_kv_decode(kt *t)
{
    static const unsigned widths[] = {2, 3, 4, 8};
    for (size_t i = 0; i < 800; i++) {
        if (t->bench && i == 4)
            return;
        check_kv_decode(t, widths[i % 4], t->bench ? 64 : 1 + kt_below(t, 9),
                        t->bench ? 128 : 1 + i / 4 % 140);
    }
}

/* The kernel adds to y, so the output begins as the values in w. */
static void run_kv_mix(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    memcpy(out, c->panel.codes, c->out_bytes);
    k->kv_mix((float *)(void *)out, c->ldy, c->x, c->ldx, c->w, c->ldw, c->m, c->n, c->k);
}

void kt_kv_mix(kt *t)
{
    for (size_t i = 0; i < 500; i++) {
        kt_case c = {.m = t->bench ? 64 : 1 + kt_below(t, 6),
                     .n = t->bench ? 64 : kt_below(t, 20),
                     .k = t->bench ? 128 : 1 + i % 140};
        c.ldx = c.n + kt_below(t, 3);
        c.ldw = c.k + kt_below(t, 9);
        c.ldy = c.k + kt_below(t, 9);
        c.x = kt_floats(t, c.n ? (c.m - 1) * c.ldx + c.n : 0);
        c.w = kt_floats(t, c.n ? (c.n - 1) * c.ldw + c.k : 0);
        c.out_bytes = ((c.m - 1) * c.ldy + c.k) * sizeof(float);
        c.panel.codes = (const uint8_t *)kt_floats(t, c.out_bytes / sizeof(float));
        c.work_bytes = c.out_bytes + c.n * c.k * sizeof(float);
        kt_check(t, &c, run_kv_mix);
        if (t->bench)
            return;
    }
}
