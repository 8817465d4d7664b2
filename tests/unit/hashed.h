/* tests/unit/hashed.h - the numbers of tests/interop/training.py, and its results. */
#ifndef PARE_TESTS_HASHED_H
#define PARE_TESTS_HASHED_H

#include <math.h>
#include <string.h>

#include "tests/unit/unit.h"

static inline float hashed(size_t i)
{
    uint32_t h = (uint32_t)i * 2654435761u;
    h = (h ^ h >> 16) * 2246822519u;
    return (float)((double)(h >> 20) / 512 - 4);
}

/* Three figures behind the words `key` in tests/golden/training.txt. */
static inline void hashed_line(const char *key, double figure[3])
{
    char line[256];
    bool found = false;
    FILE *const in = fopen(PARE_SOURCE_DIR "/tests/golden/training.txt", "r");
    ck_assert_ptr_nonnull(in);
    while (!found && fgets(line, sizeof line, in))
        found = strncmp(line, key, strlen(key)) == 0 &&
                sscanf(line + strlen(key), "%lf %lf %lf", &figure[0], &figure[1], &figure[2]) == 3;
    ck_assert_int_eq(fclose(in), 0);
    ck_assert_msg(found, "no line %s", key);
}

static inline void hashed_near(const char *what, double found, double wanted, double most)
{
    ck_assert_msg(fabs(found - wanted) <= most * fmax(1, fabs(wanted)), "%s: %.10g and not %.10g",
                  what, found, wanted);
}

#endif
