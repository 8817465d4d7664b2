/* formats/hdf5.h - HDF5 files, through a process of its own.
 *
 * libhdf5 crashes on many malformed files, so pare does not link it. The program pare-hdf5 opens
 * the file under limits (hdf5_sandbox.h) and writes its tensors into a pipe (hdf5_protocol.h); what
 * comes out of the pipe is trusted as little as a file. Read are arrays of little-endian integers,
 * F16, BF16, F32 and F64, plain or with gzip, shuffle and fletcher32, that lie in the file itself;
 * refused are external storage, virtual datasets, links that are not hard ones, objects with two
 * names, other filters. A dataset w in group a/b is the tensor a.b.w. */
#ifndef PARE_FORMATS_HDF5_H
#define PARE_FORMATS_HDF5_H

#include "formats/scratch.h"
#include "runtime/tensor.h"

/* How a file begins. */
#define PARE_HDF5_SIGNATURE "\x89HDF\r\n\x1a\n"
enum { PARE_HDF5_SIGNATURE_BYTES = 8 };

typedef struct pare_hdf5 {
    pare_tensor *tensor; /* sorted by name; data in the scratch */
    size_t tensors;
} pare_hdf5;

/* Reads all tensors of a file into the scratch; `bare`: only what they are, data are NULL.
 *   path   of the file, also for messages
 *   bytes  its size: no file gives more than 1100 times as much
 * PARE_EFORMAT "path: reason", also when the process crashes, is silent for a minute or needs more
 * than 1 GiB; PARE_ENOTSUP for what is refused, and when there is no pare-hdf5 beside the program
 * or in ../libexec/pare; PARE_ENOMEM; PARE_EINTERRUPTED; what the scratch says. */
PARE_CHECKED pare_status pare_hdf5_read(pare_ctx *cx, pare_arena *a, pare_scratch *scratch,
                                        const char *path, uint64_t bytes, bool bare,
                                        pare_hdf5 *out);

/* The same of one member of the root alone, a group or a dataset; PARE_EFORMAT when there is none
 * of that name. */
PARE_CHECKED pare_status pare_hdf5_read_only(pare_ctx *cx, pare_arena *a, pare_scratch *scratch,
                                             const char *path, uint64_t bytes, const char *only,
                                             pare_hdf5 *out);

#endif
