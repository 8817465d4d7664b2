/* formats/npz.h - NumPy arrays: one in a .npy file, several in an .npz archive of such files.
 *
 *   "\x93NUMPY" | version: 2 bytes | N: u16, from version 2 on u32 | N bytes of text | data
 *
 * The text is a Python dictionary with exactly three keys, read as a strict subset of the language:
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *
 * descr is a little-endian or one-byte number; arrays of objects, which hold pickles, and of
 * structures are refused. BF16 has no name of its own in NumPy: 'bfloat16' is accepted, and two
 * bytes without a meaning ('<V2', what ml_dtypes writes) where the caller knows them to be BF16. */
#ifndef PARE_FORMATS_NPZ_H
#define PARE_FORMATS_NPZ_H

#include "formats/strided.h"
#include "runtime/arena.h"

typedef struct pare_npz {
    pare_strided *tensor; /* sorted by name; data points into the bytes given */
    size_t tensors;
} pare_npz;

/* Parses one array in memory; out->tensor.name stays NULL.
 *   name  of the array for messages
 *   bf16  two bytes without a meaning are BF16
 * PARE_EFORMAT "name: reason", PARE_ENOTSUP for types that are not read. Never reads data. */
PARE_CHECKED pare_status pare_npy_parse(pare_ctx *cx, const char *name, const void *bytes,
                                        uint64_t len, bool bf16, pare_strided *out);

/* Parses a whole archive in memory; every entry is an array NAME.npy. Names are copied into the
 * arena, data are views. As above, as zip.h, and PARE_ENOMEM. */
PARE_CHECKED pare_status pare_npz_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                        const void *bytes, uint64_t len, bool bf16, pare_npz *out);

#endif
