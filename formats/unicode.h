/* formats/unicode.h - characters of UTF-8 texts as Python's str has them, which prompts of others
 * are made with. */
#ifndef PARE_FORMATS_UNICODE_H
#define PARE_FORMATS_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arena.h"

/* Reads the code point at `at`, which is valid UTF-8 and not at its end; returns its bytes. */
size_t pare_unicode_read(const char *at, uint32_t *code_point);

/* Code points of a valid text. */
size_t pare_unicode_count(const char *text);

/* The first byte that begins no valid sequence, or len. */
size_t pare_unicode_valid(const char *text, size_t len);

/* str.isspace of one character, which is also what \s matches. */
bool pare_unicode_is_space(uint32_t code_point);

/* [*from, *to) without the white space around it: str.strip. */
void pare_unicode_strip(const char **from, const char **to);

/* str.capitalize: the first character in title case, the others in lower case; by the mappings of
 * one character to one (Python writes the few others, such as the German sharp s, as several). In
 * the arena; NULL: PARE_ENOMEM, recorded. */
char *pare_unicode_capitalize(pare_arena *a, const char *text);

#endif
