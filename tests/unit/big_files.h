/* tests/unit/big_files.h - files of sizes around the stretch by which files are hashed. */
#ifndef PARE_TESTS_UNIT_BIG_FILES_H
#define PARE_TESTS_UNIT_BIG_FILES_H

#include "formats/hash.h"
#include "tests/unit/folder.h"

enum { BIG_FILES = 5, BIG_LARGEST = 2 * PARE_STRETCH + 5 };
static const size_t big_files_bytes[BIG_FILES] = {0, 3, PARE_STRETCH, PARE_STRETCH + 1,
                                                  BIG_LARGEST};

static inline void big_files_open(pare_ctx *cx, pare_arena *a, folder *dir, pare_file *file)
{
    unsigned char *const bytes = malloc(BIG_LARGEST);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < BIG_LARGEST; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < BIG_FILES; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "f%zu", i);
        folder_put(dir, name, bytes, big_files_bytes[i]);
        ck_assert_int_eq(pare_file_map(cx, a, dir->file, &file[i]), PARE_OK);
    }
    free(bytes);
}

#endif
