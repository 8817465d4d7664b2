/* compress/evaluate/choice_internal.h - one item of a multiple-choice file, by its shape. */
#ifndef PARE_COMPRESS_CHOICE_INTERNAL_H
#define PARE_COMPRESS_CHOICE_INTERNAL_H

#include "compress/evaluate/choice_items.h"
#include "formats/json.h"

enum { PARE__CHOICES_MAX = 64 };

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

/* PARE_EFORMAT with file and line in front of the message. */
pare_status pare__choice_fail(const pare__choice_reading *r, const char *fmt, ...)
    PARE_PRINTF(2, 3);

#endif
