/* formats/hdf5_protocol.h - what goes through the pipes between pare and the program pare-hdf5.
 * Numbers are little-endian.
 *
 *   greeting  "pareHDF5"
 *   tensor    'T' | type u8 | rank u8 | flags u8 | length of name u32 | size u64 per dimension
 *             | name
 *   data      'D' | 0 u8 | 0 u16 | bytes u32 | a part of the tensor's elements, in order of rows;
 *             after every tensor until all came, unless pare-hdf5 was called with PARE_HDF5_BARE
 *   failure   'E' | kind u8 | 0 u16 | length of text u32 | text       the last record
 *   end       'Z' | 0 u8 | 0 u16 | tensors u32                        the last record
 *
 * Reading, pare-hdf5 writes them, with flags 0. It parses untrusted files and may be under their
 * control: pare trusts nothing that comes. It is called with a file, and with
 *   bare          tensors come without their data
 *   only NAME     tensors of one member of the root alone
 *   write BYTES   it makes the file, of at most so many bytes, out of records that pare writes into
 *                 its standard input. The file is open as descriptor PARE_HDF5_FILE; its name is
 *                 not looked at again. Tensors there have up to two dimensions and names whose dots
 *                 part groups; flag 1 asks for shuffle and gzip. Data come in steps along the first
 *                 dimension, PARE_HDF5_STEP bytes or one index each: a chunk of the dataset. When
 *                 the file is closed, pare-hdf5 writes an end or a failure, and nothing else. */
#ifndef PARE_FORMATS_HDF5_PROTOCOL_H
#define PARE_FORMATS_HDF5_PROTOCOL_H

#include <stdint.h>

#define PARE_HDF5_GREETING "pareHDF5"
#define PARE_HDF5_BARE     "bare"
#define PARE_HDF5_ONLY     "only"
#define PARE_HDF5_WRITE    "write"

enum { PARE_HDF5_GREETING_BYTES = 8, PARE_HDF5_HEAD = 8, PARE_HDF5_RANK_MAX = 8 };
enum { PARE_HDF5_STEP = 1 << 20, PARE_HDF5_STEP_MAX = 4 << 20, PARE_HDF5_GZIP = 1 };
enum { PARE_HDF5_FILE = 3 };
enum { PARE_HDF5_NAME_MAX = 1024, PARE_HDF5_TEXT_MAX = 2048, PARE_HDF5_TENSORS_MAX = 1 << 18 };

/* X(name, bytes): types of elements, in the words of safetensors; a type's number is its place. */
#define PARE_HDF5_TYPES(X)                                                                         \
    X(F16, 2)                                                                                      \
    X(BF16, 2)                                                                                     \
    X(F32, 4)                                                                                      \
    X(F64, 8)                                                                                      \
    X(I8, 1)                                                                                       \
    X(I16, 2)                                                                                      \
    X(I32, 4)                                                                                      \
    X(I64, 8)                                                                                      \
    X(U8, 1)                                                                                       \
    X(U16, 2)                                                                                      \
    X(U32, 4)                                                                                      \
    X(U64, 8)                                                                                      \
    X(BOOL, 1)

typedef enum pare_hdf5_type {
#define X(name, bytes) PARE_HDF5_##name,
    PARE_HDF5_TYPES(X)
#undef X
        PARE_HDF5_TYPE_COUNT
} pare_hdf5_type;

/* Kinds of failure. */
enum { PARE_HDF5_BAD_FILE = 1, PARE_HDF5_REFUSED = 2, PARE_HDF5_NO_MEMORY = 3 };

/* Indices along the first dimension in a step, of `row` bytes each, at most PARE_HDF5_STEP_MAX. */
static inline uint64_t pare_hdf5_step(uint64_t size, uint64_t row)
{
    const uint64_t most = row < PARE_HDF5_STEP ? PARE_HDF5_STEP / row : 1;
    return size < most ? size : most;
}

#endif
