/* Protobuf, read by hand. */
#include "formats/tokenizer_wire_internal.h"

static size_t place(const pare_wire *w)
{
    return (size_t)(w->at - w->file);
}

static pare_status read_varint(pare_wire *w, uint64_t *out)
{
    const size_t start = place(w);
    *out = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (w->at == w->end)
            return pare_fail(w->cx, PARE_EFORMAT, "byte %zu: a number without an end", start);
        const unsigned char byte = *w->at++;
        if (shift == 63 && byte > 1)
            break;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return PARE_OK;
    }
    return pare_fail(w->cx, PARE_EFORMAT, "byte %zu: a number of more than 64 bits", start);
}

static pare_status take(pare_wire *w, const pare_wire_field *f, uint64_t bytes)
{
    const size_t left = (size_t)(w->end - w->at);
    if (bytes > left)
        return pare_fail(w->cx, PARE_EFORMAT,
                         "byte %zu: field %u takes %llu bytes, but %zu are left", f->place,
                         (unsigned)f->number, (unsigned long long)bytes, left);
    w->at += bytes;
    return PARE_OK;
}

pare_status pare__wire_next(pare_wire *w, pare_wire_field *f, bool *more)
{
    *more = w->at != w->end;
    if (!*more)
        return PARE_OK;
    uint64_t tag;
    *f = (pare_wire_field){.place = place(w)};
    PARE_TRY(read_varint(w, &tag));
    if (tag >> 3 == 0 || tag >> 32)
        return pare_fail(w->cx, PARE_EFORMAT, "byte %zu: no field has the number %llu", f->place,
                         (unsigned long long)(tag >> 3));
    f->number = (uint32_t)(tag >> 3);
    f->type = (uint32_t)(tag & 7);
    if (f->type == 0)
        return read_varint(w, &f->value);
    if (f->type != 1 && f->type != 2 && f->type != 5)
        return pare_fail(w->cx, PARE_EFORMAT,
                         "byte %zu: field %u has wire type %u (0, 1, 2, 5 are "
                         "read)",
                         f->place, (unsigned)f->number, (unsigned)f->type);
    uint64_t bytes = f->type == 1 ? 8 : 4;
    if (f->type == 2)
        PARE_TRY(read_varint(w, &bytes));
    const unsigned char *const p = w->at;
    PARE_TRY(take(w, f, bytes));
    if (f->type == 2)
        f->text = (pare_tok_slice){(const char *)p, (size_t)bytes};
    else
        for (unsigned i = 0; i < bytes; i++)
            f->value |= (uint64_t)p[i] << (8 * i);
    return PARE_OK;
}

pare_wire pare__wire_inside(const pare_wire *w, const pare_wire_field *f)
{
    const unsigned char *const p = (const unsigned char *)f->text.at;
    return (pare_wire){w->cx, w->file, p, p + f->text.len};
}

pare_status pare__wire_expect(const pare_wire *w, const pare_wire_field *f, uint32_t type,
                              const char *name)
{
    if (f->type == type)
        return PARE_OK;
    return pare_fail(w->cx, PARE_EFORMAT, "byte %zu: %s has wire type %u, not %u", f->place, name,
                     (unsigned)f->type, (unsigned)type);
}
