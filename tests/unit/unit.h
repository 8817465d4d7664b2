/* tests/unit/unit.h - what every unit test program shares: one main over one Check suite, an
 * allocator that fails on demand, and the way to the shared models. */
#ifndef PARE_TESTS_UNIT_H
#define PARE_TESTS_UNIT_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/context.h"

/* Sanitizers make whole models too slow: what runs them is cut short, or left out. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNIT_SANITIZED 1
#endif
#endif

/* In front of a loop of a reference which is most of a test's time, and touches nothing but numbers
 * of the test itself: sanitizers watch what is tested, and make such a loop three to ten times
 * slower. */
#define UNIT_PLAIN __attribute__((no_sanitize("address", "undefined")))

/* An allocator that fails the n-th request: for walking every out-of-memory path.
 *   for (unit_failing f = {.left = 0};; f.left = ++n) { run; assert f.live == 0; stop when it ran }
 */
typedef struct unit_failing {
    long left; /* requests that still succeed */
    long live; /* objects not freed */
} unit_failing;

static inline void *unit_failing_resize(void *self, void *ptr, size_t old_size, size_t new_size)
{
    unit_failing *const f = self;
    (void)old_size;
    if (new_size == 0) {
        f->live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (f->left-- <= 0)
        return NULL;
    void *const p = realloc(ptr, new_size);
    f->live += p && !ptr;
    return p;
}

/* The exit code of a test program that does not run; ./check lists it with the reason. */
static inline int unit_skip(const char *why)
{
    (void)fprintf(stderr, "skipped: %s\n", why);
    return 77;
}

/* A file of the shared folder, or NULL (with a line on stderr) when that folder is absent. */
static inline const char *unit_shared(const char *name)
{
    static char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", PARE_SHARED_DIR, name);
    if (access(path, R_OK) == 0)
        return path;
    (void)fprintf(stderr, "skipped: %s is absent\n", path);
    return NULL;
}

/* Nothing is closed to root: what may not be looked at is told apart by another user. */
static inline void unit_be_nobody(void)
{
    if (geteuid() == 0)
        ck_assert_int_eq(seteuid(65534), 0);
}

static inline void unit_be_again(void)
{
    if (geteuid() != getuid())
        ck_assert_int_eq(seteuid(getuid()), 0);
}

/* Runs a suite; exit status of the program. */
static inline int unit_main(Suite *s)
{
    SRunner *const sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    const int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
