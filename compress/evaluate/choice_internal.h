/* compress/evaluate/choice_internal.h - lines of files of items, and one item by its shape. */
#ifndef PARE_COMPRESS_CHOICE_INTERNAL_H
#define PARE_COMPRESS_CHOICE_INTERNAL_H

#include "compress/evaluate/choice_items.h"
#include "formats/json.h"

enum {
    PARE__CHOICES_MAX = 64,
    PARE__ITEM_BYTES = 1 << 20 /* of a line */
};
extern const size_t pare__items_bytes; /* of a file: 1 GiB */

/* Lines of a text that are not blank, without blanks around them and a byte order mark. */
typedef struct pare__lines {
    const char *at, *end;
    size_t number; /* of the line that came last, from 1 */
} pare__lines;
pare__lines pare__lines_of(const char *text, size_t len);
bool pare__lines_next(pare__lines *l, const char **line, size_t *len);
size_t pare__lines_count(const char *text, size_t len);
/* pare_json_parse_line of a file of items. */
PARE_CHECKED pare_status pare__lines_parse(pare_ctx *cx, const char *path, size_t number,
                                           const char *line, size_t len, pare_json **out);

typedef struct pare__choice_reading {
    pare_ctx *cx;
    pare_arena *a;
    const char *path;
    size_t line;      /* of the item that is read, from 1 */
    const int *label; /* of that item, where labels stand in a file beside; else NULL */
} pare__choice_reading;

typedef struct pare__choice_shape {
    const char *name; /* as messages name it */
    bool beside;      /* labels stand in a file beside it */
    bool (*is)(const pare_json *item);
    pare_status (*read)(const pare__choice_reading *r, const pare_json *item,
                        pare_choice_text *out);
} pare__choice_shape;

/* The shape that the keys of an item tell, or NULL. */
const pare__choice_shape *pare__choice_shape_of(const pare_json *item);

/* Readers of one item in the shapes that tasks know by their names (pare_choice_text). */
typedef pare_status pare__choice_reader(const pare__choice_reading *r, const pare_json *item,
                                        pare_choice_text *out);
pare__choice_reader pare__choice_piqa, pare__choice_arc, pare__choice_open_book;

/* Parts of them. take_text wants a text that is not empty and puts it between two others;
 * take_choices wants 2 to PARE__CHOICES_MAX texts, each with `before` in front; take_index a
 * number, or its digit as a text. */
PARE_CHECKED pare_status pare__take_text(const pare__choice_reading *r, const pare_json *v,
                                         const char *key, const char *before, const char *behind,
                                         const char **out);
PARE_CHECKED pare_status pare__take_choices(const pare__choice_reading *r, const pare_json *list,
                                            const char *key, const char *before,
                                            pare_choice_text *out);
PARE_CHECKED pare_status pare__take_index(const pare__choice_reading *r, const pare_json *v,
                                          const char *key, pare_choice_text *out);
PARE_CHECKED pare_status pare__take_room(const pare__choice_reading *r, size_t n,
                                         const char ***choice, pare_choice_text *out);

/* The field that answers are told apart by. */
typedef struct pare__by {
    const char *field; /* NULL: none is asked for */
    bool seen;         /* a document had it */
    char keys[192];    /* of the first document, for messages */
} pare__by;

/* The field of a document as a text in the arena, "(none)" where it is missing or null; NULL
 * without a field to look for. PARE_EFORMAT: an array or object; PARE_ENOMEM. */
PARE_CHECKED pare_status pare__take_by(const pare__choice_reading *r, const pare_json *doc,
                                       pare__by *by, const char **out);

/* PARE_EUSAGE when no document had the field. */
PARE_CHECKED pare_status pare__check_by(const pare__choice_reading *r, const pare__by *by);

/* What stands where something else belongs, in words of JSON. */
const char *pare__kind_of(const pare_json *v);

/* The labels of `items` items of PIQA, from the file beside r->path (pare_choice_labels). */
PARE_CHECKED pare_status pare__choice_labels_of(const pare__choice_reading *r, size_t items,
                                                int **label);

/* PARE_EFORMAT with file and line in front of the message. */
pare_status pare__choice_fail(const pare__choice_reading *r, const char *fmt, ...)
    PARE_PRINTF(2, 3);

#endif
