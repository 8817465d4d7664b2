/* formats/hdf5_internal.h - the two halves of reading HDF5: records, and the process that writes
 * them. */
#ifndef PARE_FORMATS_HDF5_INTERNAL_H
#define PARE_FORMATS_HDF5_INTERNAL_H

#include "formats/hdf5.h"

/* Where records come from: read gives exactly `len` bytes, or fails with a message. */
typedef struct pare__hdf5_source {
    pare_status (*read)(void *self, void *bytes, size_t len);
    void *self;
    bool bare; /* tensors come without their elements */
} pare__hdf5_source;

/* Reads records to their end. PARE_EFORMAT "name: ..." for what the protocol forbids, what a
 * failure in them says, what the source says. */
PARE_CHECKED pare_status pare__hdf5_records(pare_ctx *cx, pare_arena *a, pare_scratch *scratch,
                                            const char *name, uint64_t file_bytes,
                                            const pare__hdf5_source *source, pare_hdf5 *out);

/* When the process is ended: after so long without a byte, after so long that it was waited for. */
typedef struct pare__hdf5_limits {
    int silence_ms;
    uint64_t total_ms;
} pare__hdf5_limits;

/* Runs `helper` on a file. */
PARE_CHECKED pare_status pare__hdf5_run(pare_ctx *cx, pare_arena *a, pare_scratch *scratch,
                                        const char *helper, pare__hdf5_limits limits,
                                        const char *path, uint64_t bytes, bool bare,
                                        pare_hdf5 *out);

#endif
