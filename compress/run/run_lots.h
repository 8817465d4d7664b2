/* compress/run/run_lots.h - work that is dealt to processes before it begins. */
#ifndef PARE_COMPRESS_RUN_RUN_LOTS_H
#define PARE_COMPRESS_RUN_RUN_LOTS_H

#include <stddef.h>

typedef struct pare_lot {
    double cost;   /* by itself */
    double shared; /* once for all lots of its group in one process; 0: nothing */
    size_t group;
    size_t owner; /* dealt: the process */
} pare_lot;

/* Deals lots to `size` processes: the dearest that is left goes to the process that is then done
 * first, counting what it has, and shared work where it does not have the group yet; of equal ones
 * the first lot, the lowest process. `first` is what process 0 has to do in any case. Its longest
 * list is at most twice as long as the best one where nothing is shared. Work lots^2 (lots +
 * size). */
void pare_lots_deal(pare_lot *lot, size_t lots, size_t size, double first);

#endif
