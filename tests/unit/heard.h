/* tests/unit/heard.h - takes down what pare_warn tells, a line each. */
#ifndef PARE_TESTS_HEARD_H
#define PARE_TESTS_HEARD_H

#include <stdio.h>
#include <string.h>

static char warned[2048];

/* pare_progress.warn */
static inline void hear(void *self, const char *text)
{
    const size_t len = strlen(warned);
    (void)self;
    (void)snprintf(warned + len, sizeof warned - len, "%s\n", text);
}

#endif
