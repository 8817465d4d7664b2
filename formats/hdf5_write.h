/* formats/hdf5_write.h - making an HDF5 file, by the program pare-hdf5 (formats/hdf5.h).
 *
 * Datasets are written one behind the other, in chunks of about 1 MiB with a checksum each
 * (fletcher32), and where asked with shuffle and gzip. A dot in a name parts groups: a.b.w is the
 * dataset w in group a/b. The same calls give the same bytes. */
#ifndef PARE_FORMATS_HDF5_WRITE_H
#define PARE_FORMATS_HDF5_WRITE_H

#include "runtime/tensor.h"

typedef struct pare_hdf5_writer {
    pare_ctx *cx;
    const char *path;
    int file;     /* of the caller */
    int to, from; /* the pipe to the process, and from it */
    int pid;      /* 0: none runs */
    uint32_t tensors;
} pare_hdf5_writer;

/* Begins a file; what is in it is lost.
 *   path   of the file, for messages
 *   file   descriptor of the regular file, open for reading and writing; stays the caller's
 *   most   bytes that the file will have at most
 * PARE_ENOTSUP where there is no pare-hdf5, PARE_EIO, PARE_ENOMEM. Ends with pare_hdf5_finish, or
 * with pare_hdf5_abandon. */
PARE_CHECKED pare_status pare_hdf5_create(pare_ctx *cx, const char *path, int file, uint64_t most,
                                          pare_hdf5_writer *w);

/* Writes one dataset: name, dtype (F32, F64, I32, U64, U8), shape of 1 or 2 dimensions, data. An
 * index of the first dimension has at most 4 MiB.
 * PARE_EIO "path: reason" when the process fails, PARE_EINVAL, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_hdf5_put(pare_hdf5_writer *w, const pare_tensor *t, bool gzip);

/* Closes the file: it is whole then, but not yet durable. PARE_EIO. The process is gone in any
 * case. */
PARE_CHECKED pare_status pare_hdf5_finish(pare_hdf5_writer *w);

/* Ends the process; the file is useless. All zero, or behind pare_hdf5_finish: nothing to do. */
void pare_hdf5_abandon(pare_hdf5_writer *w);

#endif
