/* tests/fault/shim.h - runs with shim_fail.c in front of libc: its settings, and what it counted.
 */
#ifndef PARE_TESTS_SHIM_H
#define PARE_TESTS_SHIM_H

#include <sys/mman.h>

#include "tests/fault/call_kinds.h"
#include "tests/fault/fault_place.h"

typedef struct shim {
    call_counts *counts;
    char *preload, *counted;
} shim;

static inline shim shim_open(const place *p, const char *library)
{
    const int fd = open(place_path(p, "counts"), O_RDWR | O_CREAT, 0666);
    if (fd < 0 || ftruncate(fd, sizeof(call_counts)) != 0)
        tree_die("cannot make", "counts");
    void *const counts = mmap(NULL, sizeof(call_counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (counts == MAP_FAILED)
        tree_die("cannot map", "counts");
    return (shim){counts, place_env("LD_PRELOAD", library),
                  place_env(FAIL_COUNTS, place_path(p, "counts"))};
}

static inline void shim_close(shim *s)
{
    free(s->preload);
    free(s->counted);
    (void)munmap(s->counts, sizeof *s->counts);
}

/* Starts a command; in front of or in its n-th call happens what `settings` say, ended by NULL. */
static inline pid_t shim_start(const shim *s, const place *p, const char *const *args, uint64_t n,
                               const char *const (*settings)[2])
{
    char *env[PLACE_ENV] = {s->preload, s->counted}, at[24];
    size_t used = 2;
    memset(s->counts, 0, sizeof *s->counts);
    (void)snprintf(at, sizeof at, "%llu", (unsigned long long)n);
    env[used++] = place_env(FAIL_AT, at);
    env[used++] = place_env("ASAN_OPTIONS", "verify_asan_link_order=0");
    for (size_t i = 0; settings[i][0] && used + 1 < PLACE_ENV; i++)
        env[used++] = place_env(settings[i][0], settings[i][1]);
    const pid_t pid = place_start(p, args, env);
    for (size_t i = 2; i < used; i++)
        free(env[i]);
    return pid;
}

#endif
