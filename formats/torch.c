#include "formats/torch.h"

#include <stdio.h>
#include <string.h>

#include "formats/pickle.h"
#include "formats/zip.h"
#include "runtime/small.h"

enum { ENTRY_NAME = 1200 };

typedef unsigned long long ull;

typedef struct reader {
    pare_ctx *cx;
    pare_arena *arena;
    const char *name;
    pare_zip zip;
    const char *prefix; /* "archive/", as long as prefix_len says */
    int prefix_len;
} reader;

static pare_status check_format(const reader *r, const unsigned char *bytes, uint64_t len)
{
    /* PROTO 2, LONG1 of ten bytes: the magic number 0x1950a86a20f9469cfc6c */
    static const unsigned char old[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c,
                                        0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    if (len >= sizeof old && memcmp(bytes, old, sizeof old) == 0)
        return pare_fail(r->cx, PARE_ENOTSUP,
                         "%s: the format of PyTorch before 1.6, without zip: load it there and "
                         "save it again",
                         r->name);
    return PARE_OK;
}

/* The one description and the folder of the archive that it lies in. */
static pare_status find_description(reader *r, const pare_zip_entry **out)
{
    *out = NULL;
    for (size_t i = 0; i < r->zip.entries; i++) {
        const pare_zip_entry *const e = &r->zip.entry[i];
        if (!pare_ends_with(e->name, "/data.pkl"))
            continue;
        if (*out)
            return pare_fail(r->cx, PARE_EFORMAT, "%s: two descriptions, %s and %s", r->name,
                             (*out)->name, e->name);
        *out = e;
    }
    if (!*out)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: a zip archive without NAME/data.pkl: not a PyTorch checkpoint",
                         r->name);
    r->prefix = (*out)->name;
    r->prefix_len = (int)(strlen((*out)->name) - strlen("data.pkl"));
    return PARE_OK;
}

static const pare_zip_entry *find(const reader *r, const char *folder, const char *key)
{
    char name[ENTRY_NAME];
    const int n = snprintf(name, sizeof name, "%.*s%s%s", r->prefix_len, r->prefix, folder, key);
    return n > 0 && (size_t)n < sizeof name ? pare_zip_find(&r->zip, name) : NULL;
}

static pare_status check_byte_order(const reader *r)
{
    const pare_zip_entry *const e = find(r, "", "byteorder");
    if (e && !(e->bytes == 6 && memcmp(e->data, "little", 6) == 0))
        return pare_fail(r->cx, PARE_ENOTSUP, "%s: byteorder is \"%.*s\", only little is read",
                         r->name, e->bytes < 8 ? (int)e->bytes : 8, (const char *)e->data);
    return PARE_OK;
}

static pare_status place_tensor(const reader *r, const pare_pickle_tensor *p, pare_strided *out)
{
    const pare_zip_entry *const e = find(r, "data/", p->storage);
    if (!e)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: tensor %s: its storage %s is not in the file",
                         r->name, p->name, p->storage);
    if (e->bytes != p->storage_bytes)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: tensor %s: storage %s has %llu bytes, its description says %llu",
                         r->name, p->name, p->storage, (ull)e->bytes, (ull)p->storage_bytes);
    pare_tensor *const t = &out->tensor;
    *t = (pare_tensor){.name = p->name, .dtype = p->dtype, .rank = p->rank};
    memcpy(t->shape, p->shape, sizeof t->shape);
    memcpy(out->stride, p->stride, sizeof out->stride);
    if (pare_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes) != PARE_OK || t->bytes > e->bytes)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: tensor %s has more elements than its storage of %llu bytes", r->name,
                         p->name, (ull)e->bytes);
    if (t->bytes == 0)
        t->data = e->data;
    else
        t->data = e->data + p->offset * (pare_dtype_bits(t->dtype) / 8);
    return PARE_OK;
}

static pare_status place_all(reader *r, const pare_zip_entry *description, pare_torch *out)
{
    char name[ENTRY_NAME];
    (void)snprintf(name, sizeof name, "%.1024s: data.pkl", r->name);
    pare_pickle pickle;
    PARE_TRY(
        pare_pickle_parse(r->cx, r->arena, name, description->data, description->bytes, &pickle));
    out->tensor = PARE_NEW(r->arena, pare_strided, pickle.tensors);
    if (!out->tensor)
        return PARE_ENOMEM;
    for (size_t i = 0; i < pickle.tensors; i++)
        PARE_TRY(place_tensor(r, &pickle.tensor[i], &out->tensor[i]));
    out->tensors = pickle.tensors;
    return PARE_OK;
}

pare_status pare_torch_parse(pare_ctx *cx, pare_arena *a, const char *name, const void *bytes,
                             uint64_t len, pare_torch *out)
{
    *out = (pare_torch){0};
    reader r = {.cx = cx, .arena = a, .name = name};
    const pare_zip_entry *description;
    PARE_TRY(check_format(&r, bytes, len));
    PARE_TRY(pare_zip_parse(cx, a, name, bytes, len, &r.zip));
    PARE_TRY(find_description(&r, &description));
    PARE_TRY(check_byte_order(&r));
    return place_all(&r, description, out);
}
