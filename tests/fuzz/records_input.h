/* tests/fuzz/records_input.h - records of the HDF5 reader from memory instead of a pipe. */
#ifndef PARE_TESTS_RECORDS_INPUT_H
#define PARE_TESTS_RECORDS_INPUT_H

#include <string.h>

#include "formats/hdf5_internal.h"

/* Files behind the records are as large as this: tensors may need 1100 times as much. */
enum { RECORDS_FILE_BYTES = 100 };

typedef struct records_memory {
    pare_ctx *cx;
    const unsigned char *at;
    size_t left;
} records_memory;

static inline pare_status records_read(void *self, void *bytes, size_t len)
{
    records_memory *const m = self;
    if (len > m->left)
        return pare_fail(m->cx, PARE_EFORMAT, "the pipe ends");
    memcpy(bytes, m->at, len);
    m->at += len;
    m->left -= len;
    return PARE_OK;
}

static inline pare_status records_run(pare_ctx *cx, pare_arena *a, pare_scratch *scratch,
                                      const void *bytes, size_t len, pare_hdf5 *out)
{
    records_memory m = {cx, bytes, len};
    const pare__hdf5_source source = {records_read, &m, false};
    return pare__hdf5_records(cx, a, scratch, "file", RECORDS_FILE_BYTES, &source, out);
}

#endif
