/* tests/fault/disk.h - what may be on a disk after the power failed: a log of calls is played into
 * a disk in memory that knows what was synced.
 *
 * A sync of a file makes its bytes and its size durable, and nothing else; a sync of a directory
 * the names in it, and with a renaming between two directories both names and what happened to
 * them before. What happened since is pending, and a crash keeps any part of it:
 *
 *   data    each sector of SECTOR bytes of each write, alone; the size is one that the file had
 * since its last sync. Space without data holds zeros, or bytes that somebody left there. names
 * each creation, removal, renaming (as a whole) or exchange (as a whole), alone. Of those that
 * stay, changes of the same name keep their order; all others commute. */
#ifndef PARE_TESTS_DISK_H
#define PARE_TESTS_DISK_H

#include <stdint.h>

#include "tests/fault/disk_log.h"
#include "tests/fault/tree.h"

/* DISK_STALE: what somebody left in space without data. */
enum { DISK_SECTOR = 512, DISK_FDS = 1024, DISK_STALE = 0xA5 };

typedef struct disk_data {
    bool size; /* the size becomes `offset`; else `len` bytes are written there */
    uint64_t offset, len;
    const unsigned char *bytes; /* of the log */
} disk_data;

typedef struct disk_inode {
    bool directory;
    unsigned char *bytes; /* durable */
    size_t len;
    uint64_t size; /* as the program sees it */
    disk_data *pending;
    size_t pendings;
} disk_inode;

typedef struct disk_entry {
    size_t directory; /* inode */
    char *name;
    int now, durable; /* inode, -1: none */
} disk_entry;

typedef struct disk_change {
    size_t entry[2];
    int value[2];
    size_t count;
} disk_change;

typedef struct disk {
    char root[TREE_PATH];
    disk_inode *inode; /* 0 is the root */
    size_t inodes;
    disk_entry *entry;
    size_t entries;
    disk_change *change; /* pending, oldest first */
    size_t changes;
    int fd[DISK_FDS]; /* inode, -1: closed */
    char what[256];   /* why disk_play said no */
} disk;

/* How much of the pending data a crash kept. */
typedef enum disk_kept {
    KEPT_ALL,
    KEPT_NONE,
    KEPT_SIZES,       /* and zeros in them */
    KEPT_SIZES_STALE, /* and what somebody left there */
    KEPT_DATA,        /* but no size */
    KEPT_HALF,        /* the older half of each file's changes, the last of them torn */
    KEPT_RANDOM       /* each sector by chance */
} disk_kept;

/* A disk whose directory `root` holds `t`, all of it durable. */
void disk_init(disk *d, const char *root, const tree *t);
void disk_free(disk *d);

/* One call; false, with what[], for one that this model does not have. The data must stay. */
bool disk_play(disk *d, const disk_record *r, const char *path, const char *to,
               const unsigned char *data);

/* Whether some file has pending data. */
bool disk_has_pending_data(const disk *d);

/* What is there after a crash that kept the changes of names with kept[i] and of data what `data`
 * says, by chance of `seed`. */
tree disk_after_crash(const disk *d, const bool *kept, disk_kept data, uint64_t seed);

#endif
