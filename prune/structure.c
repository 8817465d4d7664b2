#include "prune/structure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *pare_part_name(pare_part p)
{
    static const char *const names[PARE_PARTS] = {"heads", "channels", "experts"};
    return names[p];
}

pare_site pare_part_site(pare_part p)
{
    return p == PARE_PART_HEADS ? PARE_SITE_ATTENDED : PARE_SITE_ACTIVATED;
}

pare_role pare_part_role(pare_part p)
{
    return p == PARE_PART_HEADS ? PARE_ROLE_O : PARE_ROLE_DOWN;
}

size_t pare_part_units(const pare_config *c, pare_part p)
{
    return p == PARE_PART_HEADS      ? c->kv_heads
           : p == PARE_PART_CHANNELS ? c->intermediate
                                     : c->experts;
}

size_t pare_part_width(const pare_config *c, pare_part p)
{
    return pare_site_width(c, 0, pare_part_site(p)) / pare_part_units(c, p);
}

size_t pare_part_kept(size_t count, double ratio, size_t step)
{
    const double exact = (1.0 - ratio) * (double)count, near = round(exact);
    const double whole = fabs(exact - near) <= 1e-6 ? near : ceil(exact);
    const size_t up = ((size_t)whole + step - 1) / step * step;
    const size_t kept = up > step ? up : step;
    return kept < count ? kept : count;
}

typedef struct ranked {
    double score;
    size_t unit;
} ranked;

/* Highest first; of equal ones the higher unit. */
static int by_score(const void *x, const void *y)
{
    const ranked *const p = x, *const q = y;
    const int c = (p->score < q->score) - (p->score > q->score);
    return c ? c : (p->unit < q->unit) - (p->unit > q->unit);
}

pare_status pare_structure_choose(pare_ctx *cx, pare_arena *scratch, const double *score,
                                  size_t count, size_t kept, uint8_t *keep)
{
    const pare_mark mark = pare_arena_mark(scratch);
    ranked *const r = PARE_NEW(scratch, ranked, count);
    if (!r)
        return PARE_ENOMEM;
    pare_status s = PARE_OK;
    for (size_t i = 0; s == PARE_OK && i < count; i++) {
        if (!(score[i] >= 0.0) || isinf(score[i]))
            s = pare_fail(cx, PARE_ENUMERIC, "the score of unit %zu of %zu is %g", i, count,
                          score[i]);
        r[i] = (ranked){score[i], i};
    }
    if (s == PARE_OK) {
        qsort(r, count, sizeof *r, by_score);
        for (size_t i = 0; i < count; i++)
            keep[r[i].unit] = i < kept;
    }
    pare_arena_rewind(scratch, mark);
    return s;
}

/* Pieces of `size` floats, one per unit. */
static void move_pieces(float *w, size_t units, size_t size, const uint8_t *keep)
{
    size_t to = 0;
    for (size_t i = 0; i < units; i++)
        if (keep[i])
            memmove(w + to++ * size, w + i * size, size * sizeof *w);
    memset(w + to * size, 0, (units - to) * size * sizeof *w);
}

static void move_rows(const pare_config *c, pare_block *b, pare_role role, size_t units,
                      const uint8_t *keep)
{
    size_t n, k;
    pare_linear_shape(c, 0, role, &n, &k);
    move_pieces(b->linear[role].floats, units, n / units * k, keep);
    if (b->linear[role].bias)
        move_pieces(b->linear[role].bias, units, n / units, keep);
}

void pare_structure_move(const pare_config *c, pare_block *block, pare_part p, const uint8_t *keep)
{
    static const pare_role rows[PARE_PARTS][3] = {
        [PARE_PART_HEADS] = {PARE_ROLE_Q, PARE_ROLE_K, PARE_ROLE_V},
        [PARE_PART_CHANNELS] = {PARE_ROLE_GATE, PARE_ROLE_UP, PARE_ROLES},
    };
    const size_t units = pare_part_units(c, p);
    const pare_role reader = pare_part_role(p);
    size_t n, k;
    for (size_t i = 0; i < 3 && rows[p][i] != PARE_ROLES; i++)
        move_rows(c, block, rows[p][i], units, keep);
    pare_linear_shape(c, 0, reader, &n, &k);
    for (size_t i = 0; i < n; i++)
        move_pieces(block->linear[reader].floats + i * k, units, k / units, keep);
}
