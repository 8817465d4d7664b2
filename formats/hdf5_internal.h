/* formats/hdf5_internal.h - HDF5 by another process: how it is run, and the records that it writes
 * or reads. */
#ifndef PARE_FORMATS_HDF5_INTERNAL_H
#define PARE_FORMATS_HDF5_INTERNAL_H

#include <limits.h>
#include <sys/types.h>

#include "formats/hdf5.h"
#include "formats/hdf5_write.h"

enum { PARE__HDF5_ASK = 3 }; /* words of what is asked of the process, hdf5_protocol.h */

/* Where the program is: beside this one, or where it is installed. PARE_ENOTSUP. */
PARE_CHECKED pare_status pare__hdf5_find(pare_ctx *cx, const char *path, char helper[PATH_MAX]);

/* Starts it, with `in` and `file` (below 0: nothing) and `out`. An error number, or 0. */
int pare__hdf5_spawn(const char *helper, const char *const ask[PARE__HDF5_ASK], int in, int out,
                     int file, pid_t *pid);

/* Its status once it ended: by itself within a moment or, also at once, by force. */
int pare__hdf5_end(pid_t pid, bool at_once);

/* As pare_hdf5_create with that program; *w has its context, path and file. */
PARE_CHECKED pare_status pare__hdf5_begin(pare_hdf5_writer *w, const char *helper, uint64_t most);

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

/* Runs `helper` on a file; only: on one member of its root, or NULL. */
PARE_CHECKED pare_status pare__hdf5_run(pare_ctx *cx, pare_arena *a, pare_scratch *scratch,
                                        const char *helper, pare__hdf5_limits limits,
                                        const char *path, uint64_t bytes, bool bare,
                                        const char *only, pare_hdf5 *out);

#endif
