/* tests/fault/disk_log.h - the calls of a program that change a disk, one record each, as
 * shim_record.c writes them and power_loss.c reads them: a head, two texts, then the data. */
#ifndef PARE_TESTS_DISK_LOG_H
#define PARE_TESTS_DISK_LOG_H

#include <stdint.h>

typedef enum disk_call {
    DISK_OPEN,     /* path, fd, flags */
    DISK_CLOSE,    /* fd */
    DISK_WRITE,    /* fd, offset, data */
    DISK_SIZE,     /* fd, offset: the size from now on */
    DISK_GROW,     /* fd, offset: the least size from now on */
    DISK_SYNC,     /* fd of a file or a directory */
    DISK_RENAME,   /* path, to */
    DISK_EXCHANGE, /* path, to */
    DISK_LINK,     /* path, to */
    DISK_UNNAMED,  /* path of a directory, fd: a file without a name */
    DISK_NAME,     /* path, fd: the first name of such a file */
    DISK_UNLINK,   /* path */
    DISK_MKDIR,    /* path */
    DISK_RMDIR,    /* path */
    DISK_UNKNOWN,  /* path: something that cannot be played back, in words */
    DISK_CALLS
} disk_call;

typedef struct disk_record {
    uint32_t call;
    int32_t fd, flags;
    uint32_t path, to; /* bytes of the texts, NUL included; 0: none */
    uint64_t offset, len;
} disk_record;

/* Environment: where the log goes, and which directory it is about. */
#define DISK_LOG_VARIABLE  "PARE_DISK_LOG"
#define DISK_ROOT_VARIABLE "PARE_DISK_ROOT"

#endif
