/* OpenBLAS starts a thread for each CPU while it is loaded, and each maps 128 MiB. Where a limit
 * (ulimit -v, -d) refuses the mapping, the thread tries for ever, and the end of the program waits
 * for it; where it refuses the stack, OpenBLAS ends the program as ^C would. All that is over
 * before main begins. pare calls BLAS with one thread (runtime/linalg.h), so while libraries start
 * the process runs on one CPU, for which OpenBLAS starts no thread and maps nothing.
 *
 * Nothing else is up yet at that time, the checkers of a compiler neither: this file is compiled
 * without them, and keeps to system calls and static memory. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "compress/cli/early.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

/* Room for 8192 CPUs; a call with less room than the system's mask fails. */
static cpu_set_t all[8], one[8];
static bool narrowed;

static void narrow(void)
{
    if (sched_getaffinity(0, sizeof all, all) != 0)
        return;
    size_t cpu = 0;
    while (cpu < sizeof all * 8 && !CPU_ISSET_S(cpu, sizeof all, all))
        cpu++;
    CPU_SET_S(cpu, sizeof one, one);
    narrowed = sched_setaffinity(0, sizeof one, one) == 0;
}

/* The loader calls what is listed here before the constructors of all libraries. */
__attribute__((section(".preinit_array"),
               used)) static void (*const before_libraries)(void) = narrow;

/* The stack of main grows as it is used, and where a limit of addresses is used up by then, the
 * process dies. What commands need of it is taken now: the lowest byte that is touched counts. */
__attribute__((noinline)) static void grow_stack(void)
{
    volatile char room[PARE_EARLY_STACK / 2];
    room[0] = 0;
    (void)room[0];
}

/* A descriptor is opened in the direction in which nobody uses it, so that reading stdin or writing
 * stdout fails as it does where they are closed. */
static bool take_descriptor(int fd)
{
    if (fcntl(fd, F_GETFD) != -1)
        return true;
    return open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) == fd;
}

bool pare_early_descriptors(void)
{
    return take_descriptor(STDIN_FILENO) && take_descriptor(STDOUT_FILENO) &&
           take_descriptor(STDERR_FILENO);
}

size_t pare_early_end(void)
{
    struct rlimit stack;
    if (narrowed)
        (void)sched_setaffinity(0, sizeof all, all);
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < PARE_EARLY_STACK)
        return (size_t)stack.rlim_cur;
    grow_stack();
    return PARE_EARLY_STACK;
}
