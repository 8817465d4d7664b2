/* tests/data/zip_file.h - writes zip archives of stored entries into memory, as PyTorch does: data
 * aligned to 64 bytes by padding in front, sizes behind them. */
#ifndef PARE_TESTS_ZIP_FILE_H
#define PARE_TESTS_ZIP_FILE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that grow; free(bytes) at the end. Memory is not a subject of tests: it is there. */
typedef struct grown {
    unsigned char *bytes;
    size_t len, room;
} grown;

static inline void grown_put(grown *g, const void *bytes, size_t len)
{
    if (g->len + len > g->room) {
        g->room = 2 * (g->len + len);
        g->bytes = realloc(g->bytes, g->room);
        if (!g->bytes)
            abort();
    }
    if (len)
        memcpy(g->bytes + g->len, bytes, len);
    g->len += len;
}

/* `size` bytes of a number, low byte first. */
static inline void grown_put_number(grown *g, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)(i < 8 ? value >> 8 * i : 0);
        grown_put(g, &byte, 1);
    }
}

typedef struct zip_file {
    grown file, directory;
    size_t entries;
} zip_file;

static inline void zip_put_sizes(grown *g, uint64_t size)
{
    grown_put_number(g, 0, 4); /* checksum: not looked at */
    grown_put_number(g, size, 4);
    grown_put_number(g, size, 4);
}

static inline void zip_add(zip_file *z, const char *name, const void *data, size_t len)
{
    const size_t name_len = strlen(name), begin = z->file.len;
    const size_t pad = 64 - (begin + 30 + name_len) % 64;
    grown_put_number(&z->file, 0x04034b50, 4);
    grown_put_number(&z->file, 20, 2);
    grown_put_number(&z->file, 8, 2); /* sizes follow the data */
    grown_put_number(&z->file, 0, 6); /* stored; no time */
    grown_put_number(&z->file, 0, 12);
    grown_put_number(&z->file, name_len, 2);
    grown_put_number(&z->file, pad, 2);
    grown_put(&z->file, name, name_len);
    grown_put_number(&z->file, 0, pad);
    grown_put(&z->file, data, len);
    grown_put_number(&z->file, 0x08074b50, 4);
    zip_put_sizes(&z->file, len);
    grown_put_number(&z->directory, 0x02014b50, 4);
    grown_put_number(&z->directory, 20, 2);
    grown_put_number(&z->directory, 20, 2);
    grown_put_number(&z->directory, 8, 2);
    grown_put_number(&z->directory, 0, 6);
    zip_put_sizes(&z->directory, len);
    grown_put_number(&z->directory, name_len, 2);
    grown_put_number(&z->directory, 0, 12);
    grown_put_number(&z->directory, begin, 4);
    grown_put(&z->directory, name, name_len);
    z->entries++;
}

/* The whole archive; the caller frees its bytes. */
static inline grown zip_end(zip_file *z)
{
    const size_t begin = z->file.len;
    grown_put(&z->file, z->directory.bytes, z->directory.len);
    grown_put_number(&z->file, 0x06054b50, 4);
    grown_put_number(&z->file, 0, 4);
    grown_put_number(&z->file, z->entries, 2);
    grown_put_number(&z->file, z->entries, 2);
    grown_put_number(&z->file, z->directory.len, 4);
    grown_put_number(&z->file, begin, 4);
    grown_put_number(&z->file, 0, 2);
    free(z->directory.bytes);
    z->directory = (grown){0};
    return z->file;
}

#endif
