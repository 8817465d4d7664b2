/* formats/hdf5_helper.h - the two halves of the program pare-hdf5. */
#ifndef PARE_FORMATS_HDF5_HELPER_H
#define PARE_FORMATS_HDF5_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* To standard output; false when nobody reads it. */
bool pare__helper_put(const void *bytes, size_t len);

/* The lowest `bytes` of a number, little-endian. */
void pare__helper_le(unsigned char *out, uint64_t value, size_t bytes);

/* Writes a failure (hdf5_protocol.h), once; false, for callers to return. */
__attribute__((format(printf, 2, 3))) bool pare__helper_fail(int kind, const char *fmt, ...);

/* Makes the file that is open as PARE_HDF5_FILE, of at most `most` bytes (digits), out of the
 * records in standard input. False once a failure was written. */
bool pare__helper_write(const char *most);

#endif
