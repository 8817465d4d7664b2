/* tests/unit/translated.h - recipes of llm-compressor, and what becomes of them. */
#ifndef PARE_TESTS_TRANSLATED_H
#define PARE_TESTS_TRANSLATED_H

#include <stddef.h>

/* A recipe in the form of llm-compressor, passes that come of it, lines that are left out, and
 * lines that need no counterpart. */
typedef struct translated {
    const char *from;
    const char *holds[4];
    size_t left[9], implied[9]; /* 0 behind the last */
} translated;

extern const translated translated_recipes[];
extern const int translated_count;

#endif
