/* runtime/small.h - functions of one line that many files need. */
#ifndef PARE_RUNTIME_SMALL_H
#define PARE_RUNTIME_SMALL_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline size_t pare_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t pare_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* For qsort and bsearch: doubles, ascending; none is NaN. */
static inline int pare_by_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The same for pointers to texts. */
static inline int pare_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Whether a text is longer than an ending, and has it. */
static inline bool pare_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* Of ASCII, whatever the locale. */
static inline bool pare_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

#endif
