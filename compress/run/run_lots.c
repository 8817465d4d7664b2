#include "compress/run/run_lots.h"

#include <stdbool.h>

/* `owner` of a lot that is not dealt yet: no process. */
#define NOBODY ((size_t)-1)

static bool has_group(const pare_lot *lot, size_t lots, size_t process, size_t group)
{
    for (size_t i = 0; i < lots; i++)
        if (lot[i].owner == process && lot[i].shared > 0 && lot[i].group == group)
            return true;
    return false;
}

/* Whether a lot in front of i pays for what it shares. */
static bool is_paid(const pare_lot *lot, size_t i)
{
    return lot[i].shared > 0 && has_group(lot, i, lot[i].owner, lot[i].group);
}

static double load_of(const pare_lot *lot, size_t lots, size_t process, double first)
{
    double load = process == 0 ? first : 0;
    for (size_t i = 0; i < lots; i++)
        if (lot[i].owner == process)
            load += lot[i].cost + (is_paid(lot, i) ? 0 : lot[i].shared);
    return load;
}

static size_t dearest(const pare_lot *lot, size_t lots)
{
    size_t best = lots;
    for (size_t i = 0; i < lots; i++)
        if (lot[i].owner == NOBODY &&
            (best == lots || lot[i].cost + lot[i].shared > lot[best].cost + lot[best].shared))
            best = i;
    return best;
}

void pare_lots_deal(pare_lot *lot, size_t lots, size_t size, double first)
{
    for (size_t i = 0; i < lots; i++)
        lot[i].owner = NOBODY;
    for (size_t left = lots; left > 0; left--) {
        pare_lot *const next = &lot[dearest(lot, lots)];
        size_t best = 0;
        double least = 0;
        for (size_t p = 0; p < size; p++) {
            const bool paid = next->shared > 0 && has_group(lot, lots, p, next->group);
            const double end =
                load_of(lot, lots, p, first) + next->cost + (paid ? 0 : next->shared);
            if (p == 0 || end < least) {
                best = p;
                least = end;
            }
        }
        next->owner = best;
    }
}
