/* runtime/energy.h - the energy that the processors use, by the counters that Linux shows. */
#ifndef PARE_RUNTIME_ENERGY_H
#define PARE_RUNTIME_ENERGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARE_POWERCAP "/sys/class/powercap"

/* Counters of whole packages, `directory`/intel-rapl:N/energy_uj: of all that the machine does, not
 * of this process. They wrap at max_energy_range_uj, within minutes under load, so that they are to
 * be read now and then. */
enum { PARE_ENERGY_MAX = 16 };
typedef struct pare_energy {
    int fd[PARE_ENERGY_MAX];
    uint64_t last[PARE_ENERGY_MAX], range[PARE_ENERGY_MAX]; /* microjoules; range 0: not known */
    size_t count;                                           /* packages */
    double joules;  /* since pare_energy_open; NAN: not known any more */
    double read_at; /* pare_seconds of the last read */
} pare_energy;

/* False, with the reason in `note`, when there is no counter that can be read. */
bool pare_energy_open(pare_energy *e, const char *directory, char *note, size_t size);

/* Reads the counters and returns e->joules. NAN, then and from then on, when one cannot be read,
 * falls without a known range, or may have wrapped more than once: as many seconds have passed as
 * 1 kW needs for its range. */
double pare_energy_read(pare_energy *e);

/* The same when the last read is more than 5 s ago. NULL: nothing to do. */
void pare_energy_poll(pare_energy *e);

/* Reads, and returns what was used since e->joules was `since`; 0: not known, or e is NULL. */
double pare_energy_since(pare_energy *e, double since);

void pare_energy_close(pare_energy *e);

#endif
