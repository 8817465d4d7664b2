/* recipes/pattern.h - patterns over module names, and the nearest known word. */
#ifndef PARE_RECIPES_PATTERN_H
#define PARE_RECIPES_PATTERN_H

#include <stdbool.h>

#include "runtime/arena.h"

/* A glob ("*" any run, "?" one character, "[a-c]" "[!a-c]" a set; all may match dots) that must
 * match the whole name, in time proportional to the product of both lengths; or "re:" + a regular
 * expression as Python's re.match takes it, which must match the beginning of the name (PCRE2;
 * runtime/regex.h bounds the time). */
typedef struct pare_pattern pare_pattern;

/* PARE_EUSAGE with the reason for a bad pattern (without place: the caller adds it); PARE_ENOMEM.
 */
PARE_CHECKED pare_status pare_pattern_new(pare_ctx *cx, pare_arena *a, const char *text,
                                          pare_pattern **out);
/* PARE_EUSAGE for an expression that takes too many steps on this name (without place);
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_pattern_matches(pare_ctx *cx, const pare_pattern *p, const char *name,
                                              bool *hit);

/* The word of `words` [count] nearest to `text`: smallest optimal-string-alignment distance, at
 * most 2 and below the length of the text; NULL when there is none; the first of equals. */
const char *pare_nearest_word(const char *text, const char *const *words, size_t count);

/* The name of `names` [count] that a pattern comes nearest to: fewest characters inserted, deleted,
 * replaced so that it would match a part of the name; the first of equals. NULL when there are
 * none. In an expression only ".*", ".", sets and "\\." are understood; other operators count as
 * characters. */
const char *pare_nearest_name(const char *pattern, const char *const *names, size_t count);

#endif
