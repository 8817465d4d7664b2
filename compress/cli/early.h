/* compress/cli/early.h - what happens before the libraries of the program start, and first in main.
 */
#ifndef PARE_COMPRESS_EARLY_H
#define PARE_COMPRESS_EARLY_H

#include <stdbool.h>
#include <stddef.h>

/* Takes those of the descriptors 0 to 2 that are closed, with /dev/null: the next file that is
 * opened would get one, and what is meant for stderr would go into it. The first call of main.
 * False where that cannot be done. */
bool pare_early_descriptors(void);

/* Gives the process back the CPUs it was started with, before any thread is, and takes the stack
 * that commands need. Returns PARE_EARLY_STACK, or the limit of the stack where that is less: then
 * no command can run. */
enum { PARE_EARLY_STACK = 3 << 20 };
size_t pare_early_end(void);

#endif
