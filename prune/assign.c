/* The assignment of largest gain by shortest augmenting paths (Jonker and Volgenant, Computing 38,
 * 1987): rows join one after the other, and each brings the others to the cheapest places that
 * remain. Prices keep every reduced cost >= 0. */
#include <math.h>

#include "prune/permute.h"

enum { NOBODY = UINT32_MAX };

typedef struct search {
    const double *gain;
    size_t n;
    double *row_price, *price; /* of rows and columns */
    double *distance;          /* of columns from the new row */
    uint32_t *owner;           /* row that has a column */
    uint32_t *from;            /* column before it on the shortest path; NOBODY: the new row */
    uint8_t *done;             /* columns whose distance is final */
} search;

static bool take(pare_arena *scratch, size_t n, search *s)
{
    s->row_price = PARE_NEW(scratch, double, n);
    s->price = PARE_NEW(scratch, double, n);
    s->distance = PARE_NEW(scratch, double, n);
    s->owner = PARE_NEW(scratch, uint32_t, n);
    s->from = PARE_NEW(scratch, uint32_t, n);
    s->done = PARE_NEW(scratch, uint8_t, n);
    return s->row_price && s->price && s->distance && s->owner && s->from && s->done;
}

/* Looks from a row that lies `base` away, reached over column `via`; the nearest column open. */
static size_t relax(search *s, size_t row, double base, uint32_t via)
{
    size_t nearest = s->n;
    for (size_t j = 0; j < s->n; j++) {
        if (s->done[j])
            continue;
        const double way = base - s->gain[row * s->n + j] - s->row_price[row] - s->price[j];
        if (way < s->distance[j]) {
            s->distance[j] = way;
            s->from[j] = via;
        }
        if (nearest == s->n || s->distance[j] < s->distance[nearest])
            nearest = j;
    }
    return nearest;
}

/* Gives the new row a column, moving others along the shortest path. */
static void add_row(search *s, size_t row)
{
    for (size_t j = 0; j < s->n; j++) {
        s->distance[j] = INFINITY;
        s->from[j] = NOBODY;
        s->done[j] = 0;
    }
    size_t j = relax(s, row, 0, NOBODY);
    while (s->owner[j] != NOBODY) {
        s->done[j] = 1;
        j = relax(s, s->owner[j], s->distance[j], (uint32_t)j);
    }
    const double length = s->distance[j];
    s->row_price[row] += length;
    for (size_t i = 0; i < s->n; i++) {
        if (!s->done[i])
            continue;
        s->row_price[s->owner[i]] += length - s->distance[i];
        s->price[i] -= length - s->distance[i];
    }
    while (s->from[j] != NOBODY) {
        s->owner[j] = s->owner[s->from[j]];
        j = s->from[j];
    }
    s->owner[j] = (uint32_t)row;
}

pare_status pare_permute_assign(pare_arena *scratch, const double *gain, size_t n, uint32_t *column)
{
    const pare_mark mark = pare_arena_mark(scratch);
    search s = {.gain = gain, .n = n};
    const bool room = take(scratch, n, &s);
    for (size_t j = 0; room && j < n; j++)
        s.owner[j] = NOBODY;
    for (size_t i = 0; room && i < n; i++)
        add_row(&s, i);
    for (size_t j = 0; room && j < n; j++)
        column[s.owner[j]] = (uint32_t)j;
    pare_arena_rewind(scratch, mark);
    return room ? PARE_OK : PARE_ENOMEM;
}
