/* formats/tokenizer_wire_internal.h - fields of a protobuf message, one after the other.
 *
 *     message  field*        field  tag value       tag  varint: number << 3 | wire type
 *     value    0 varint   1 eight bytes   2 varint length and bytes   5 four bytes
 *
 * Groups (3, 4) are refused. */
#ifndef PARE_FORMATS_TOKENIZER_WIRE_INTERNAL_H
#define PARE_FORMATS_TOKENIZER_WIRE_INTERNAL_H

#include "formats/tokenizer_tables_internal.h"

typedef struct pare_wire {
    pare_ctx *cx;
    const unsigned char *file; /* places in messages count from here */
    const unsigned char *at, *end;
} pare_wire;

typedef struct pare_wire_field {
    uint32_t number, type;
    size_t place;
    uint64_t value;      /* types 0, 1, 5: as an unsigned number */
    pare_tok_slice text; /* type 2 */
} pare_wire_field;

/* The next field; *more is false at the end. PARE_EFORMAT with the place. */
PARE_CHECKED pare_status pare__wire_next(pare_wire *w, pare_wire_field *f, bool *more);
/* The fields inside a field of type 2. */
pare_wire pare__wire_inside(const pare_wire *w, const pare_wire_field *f);
/* PARE_EFORMAT unless the field is of the type; `name` is for the message. */
PARE_CHECKED pare_status pare__wire_expect(const pare_wire *w, const pare_wire_field *f,
                                           uint32_t type, const char *name);

#endif
