/* formats/hdf5_sandbox.h - what the program pare-hdf5 gives up before it looks at a file, or
 * writes one. */
#ifndef PARE_FORMATS_HDF5_SANDBOX_H
#define PARE_FORMATS_HDF5_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

/* Limits of memory, processor time (it grows with the size of the file), written files and open
 * files; no new rights, no core dumps, an end with the parent. From then on one more file may be
 * opened, for reading, and where the kernel can filter system calls, nothing done but reading it,
 * writing to what is open, and managing memory. False when a limit cannot be set. */
bool pare_hdf5_sandbox_enter(uint64_t file_bytes);

/* After the file was opened: no further one. */
bool pare_hdf5_sandbox_close(void);

/* Instead of both, when a new file is open: the same limits, but that it may be written to and grow
 * to `most` bytes, which also say how much processor time there is. */
bool pare_hdf5_sandbox_write(uint64_t most);

#endif
