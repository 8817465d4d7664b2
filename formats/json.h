/* formats/json.h - the one JSON reader and writer (over jansson).
 *
 * Reading refuses duplicate keys, text behind the value, NUL bytes, nesting above 64 and texts
 * above the given cap; messages carry "name:line:column: reason". What nobody reads stops nothing:
 * a whole number beyond 64 bits, a real beyond a double and Python's NaN, Infinity and -Infinity
 * are REAL, so that who reads them sees a wrong value, and copies have them digit by digit. A
 * document is a jansson value wrapped so that no other folder includes jansson. Writing is
 * deterministic: keys in the order of the calls, two spaces of indentation, reals with the fewest
 * digits that read back and always with a point or an exponent ("1.0"), whole reals below 2^53
 * without exponent. */
#ifndef PARE_FORMATS_JSON_H
#define PARE_FORMATS_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"

/* A parsed value; borrowed from its document. NULL stands for "absent". */
typedef struct json_t pare_json;

/* Parses text [len]. `name` is the file name for messages. Free the result with pare_json_free.
 * PARE_EFORMAT, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_json_parse(pare_ctx *cx, const char *name, const char *text,
                                         size_t len, size_t cap, pare_json **doc);
/* The same of one line of a file, number `line` of it in messages. */
PARE_CHECKED pare_status pare_json_parse_line(pare_ctx *cx, const char *name, size_t line,
                                              const char *text, size_t len, pare_json **doc);
void pare_json_free(pare_json *doc);

typedef enum pare_json_type {
    PARE_JSON_ABSENT,
    PARE_JSON_NULL,
    PARE_JSON_BOOL,
    PARE_JSON_INTEGER,
    PARE_JSON_REAL,
    PARE_JSON_STRING,
    PARE_JSON_ARRAY,
    PARE_JSON_OBJECT
} pare_json_type;

pare_json_type pare_json_type_of(const pare_json *v);            /* NULL gives ABSENT */
size_t pare_json_count(const pare_json *v);                      /* of an array or object, else 0 */
const pare_json *pare_json_at(const pare_json *array, size_t i); /* NULL out of range */
const pare_json *pare_json_get(const pare_json *object, const char *key); /* NULL when absent */
/* The i-th member of an object in file order; false past the end. Values may be NULL pointers out.
 */
typedef struct pare_json_iter {
    void *at;
} pare_json_iter;
bool pare_json_next(const pare_json *object, pare_json_iter *it, const char **key,
                    const pare_json **value);

/* The digits or the word of such a number as it stood in the file; NULL for other values. */
const char *pare_json_literal(const pare_json *v);

/* Plain values: `fallback` when absent or of another type. A string holds no NUL; *len without it.
 */
const char *pare_json_text(const pare_json *v, size_t *len); /* NULL when not a string */
int64_t pare_json_integer(const pare_json *v, int64_t fallback);
double pare_json_number(const pare_json *v, double fallback); /* integers too */
bool pare_json_bool(const pare_json *v, bool fallback);

/* Writer: appends to one growing text. Errors (memory, a number that is not finite) are sticky and
 * come out of pare_json_writer_finish. Members of an object need a key, elements of an array NULL.
 */
typedef struct pare_json_writer pare_json_writer;
PARE_CHECKED pare_status pare_json_writer_new(pare_ctx *cx, pare_json_writer **w);
void pare_json_writer_free(pare_json_writer *w);
void pare_json_open_object(pare_json_writer *w, const char *key);
void pare_json_open_array(pare_json_writer *w, const char *key);
void pare_json_close(pare_json_writer *w);
void pare_json_put_text(pare_json_writer *w, const char *key, const char *text);
void pare_json_put_integer(pare_json_writer *w, const char *key, int64_t value);
void pare_json_put_number(pare_json_writer *w, const char *key, double value);
/* null when it is not finite. */
void pare_json_put_finite(pare_json_writer *w, const char *key, double value);
void pare_json_put_bool(pare_json_writer *w, const char *key, bool value);
void pare_json_put_null(pare_json_writer *w, const char *key);
void pare_json_put_copy(pare_json_writer *w, const char *key, const pare_json *v); /* deep */
/* The text with a newline at its end; owned by the writer. */
PARE_CHECKED pare_status pare_json_writer_finish(pare_json_writer *w, const char **text,
                                                 size_t *len);

#endif
