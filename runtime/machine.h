/* runtime/machine.h - what the system lets this process use: CPUs, CPU time, memory nodes;
 * and what it says that was used.
 *
 * Control groups limit CPU time, not the CPUs that a process sees: with 64 CPUs in the affinity
 * mask and a quota of 1.5, 64 threads would be stopped together for most of each period. Every
 * group that holds the process counts, its own and those above. Pages of a mapped file lie on the
 * node of the thread that first asked for them. */
#ifndef PARE_RUNTIME_MACHINE_H
#define PARE_RUNTIME_MACHINE_H

#include <stddef.h>
#include <stdint.h>

typedef struct pare_machine {
    size_t cpus;    /* of the affinity mask, at least 1 */
    double quota;   /* CPUs' worth of time that control groups allow; 0: no limit */
    size_t threads; /* the smaller of the two, rounded up, at least 1 */
    size_t nodes;   /* memory nodes with a CPU of the mask, at least 1 */
} pare_machine;

/* Reads proc/self/cgroup, sys/fs/cgroup (version 2, version 1 or both) and
 * sys/devices/system/node below `root`, which is "" but for tests. What is missing or makes no
 * sense limits nothing. Never fails. */
void pare_machine_read(const char *root, pare_machine *m);

/* CPUs' worth of time in the text of cpu.max, "QUOTA PERIOD" in microseconds; 0: no limit, which is
 * also what a text without two positive numbers means. */
double pare_machine_quota(const char *text);

/* The number behind the line start `key` ("": the first line) in a system file. UINT64_MAX: no such
 * file or line, or a word such as "max". */
uint64_t pare_machine_number(const char *path, const char *key);

/* Most bytes of this program that were in memory at once, mapped files included (VmHWM of
 * /proc/self/status); 0 where the system does not say. getrusage is not asked: what it knows of the
 * program that started this one outlives exec. */
uint64_t pare_machine_peak_resident(void);

double pare_seconds(void); /* on a clock that nobody sets */

#endif
