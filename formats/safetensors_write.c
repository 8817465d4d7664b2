/* Header of a file with given tensors at given offsets. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/safetensors.h"

enum { LENGTH_BYTES = 8 };

/* Text that is measured first (at NULL) and written in a second walk. */
typedef struct sink {
    char *at;
    size_t len;
} sink;

static void put_bytes(sink *s, const char *bytes, size_t len)
{
    if (s->at)
        memcpy(s->at + s->len, bytes, len);
    s->len += len;
}

static void put(sink *s, const char *text)
{
    put_bytes(s, text, strlen(text));
}

static void put_number(sink *s, uint64_t v)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRIu64, v);
    put(s, digits);
}

/* Names come from headers that were parsed, so they are UTF-8; JSON wants three things escaped. */
static void put_name(sink *s, const char *name)
{
    put(s, "\"");
    for (const char *p = name; *p; p++) {
        char escape[8] = {*p};
        if ((unsigned char)*p < 0x20)
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*p);
        else if (*p == '"' || *p == '\\')
            (void)snprintf(escape, sizeof escape, "\\%c", *p);
        put(s, escape);
    }
    put(s, "\"");
}

static void put_header(sink *s, const pare_tensor *tensor, const uint64_t *offset, size_t count)
{
    put(s, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < count; i++) {
        const pare_tensor *const t = &tensor[i];
        put(s, ",");
        put_name(s, t->name);
        put(s, ":{\"dtype\":\"");
        put(s, pare_dtype_name(t->dtype));
        put(s, "\",\"shape\":[");
        for (uint32_t d = 0; d < t->rank; d++) {
            put(s, d ? "," : "");
            put_number(s, t->shape[d]);
        }
        put(s, "],\"data_offsets\":[");
        put_number(s, offset[i]);
        put(s, ",");
        put_number(s, offset[i] + t->bytes);
        put(s, "]}");
    }
    put(s, "}");
}

pare_status pare_safetensors_header(pare_ctx *cx, pare_arena *a, const pare_tensor *tensor,
                                    const uint64_t *offset, size_t count, size_t align, char **text,
                                    size_t *len)
{
    if (align == 0)
        return pare_fail(cx, PARE_EINVAL, "safetensors: header alignment 0");
    sink measured = {0};
    put_header(&measured, tensor, offset, count);
    const size_t total = (LENGTH_BYTES + measured.len + align - 1) / align * align;
    char *const p = pare_arena_take(a, total + 1, 1);
    if (!p)
        return PARE_ENOMEM;
    sink written = {.at = p + LENGTH_BYTES};
    put_header(&written, tensor, offset, count);
    memset(written.at + written.len, ' ', total - LENGTH_BYTES - written.len);
    uint64_t n = total - LENGTH_BYTES;
    for (size_t i = 0; i < LENGTH_BYTES; i++, n >>= 8)
        p[i] = (char)(n & 0xff);
    *text = p;
    *len = total;
    return PARE_OK;
}
