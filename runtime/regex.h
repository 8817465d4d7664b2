/* runtime/regex.h - regular expressions, through PCRE2, which no other file includes.
 *
 * An expression is tried at one place of a text, with a small limit of steps; a try that needs more
 * is repeated with a larger one at the expense of a budget. So the time is bounded whatever the
 * expression is, and the outcome depends on no clock. */
#ifndef PARE_RUNTIME_REGEX_H
#define PARE_RUNTIME_REGEX_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"

/* A compiled expression, in the arena. Read only: threads may share it. */
typedef struct pare_regex pare_regex;

/* An expression of `len` bytes in the dialect of PCRE2, over UTF-8; \d, \s, \w know Unicode, only
 * "\n" ends a line.
 * PARE_EFORMAT with the reason and its place in the expression; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_regex_new(pare_arena *a, const char *text, size_t len,
                                        pare_regex **out);

/* Whether it may match an empty text; true also where that cannot be told. */
bool pare_regex_matches_empty(const pare_regex *e);

/* What one thread needs to match: memory, at most 64 MiB, and the steps that are left. */
typedef struct pare_regex_matcher pare_regex_matcher;

/* `budget`: steps that long tries may take in all. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_regex_matcher_new(pare_ctx *cx, uint64_t budget,
                                                pare_regex_matcher **out);
void pare_regex_matcher_free(pare_regex_matcher *m); /* NULL is ignored */

/* Matches at text[at] and nowhere else: *end is where the match ends, SIZE_MAX without one. The
 * text, of `len` bytes, is UTF-8: the caller's duty.
 * PARE_ENOTSUP: too many steps, or too much memory, on this text; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_regex_match(pare_regex_matcher *m, const pare_regex *e,
                                          const char *text, size_t len, size_t at, size_t *end);

#endif
