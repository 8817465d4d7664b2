/* compress/storage/input_folder.h - the files of a folder, mapped; and in what stretches they are
 * packed. */
#ifndef PARE_COMPRESS_STORAGE_INPUT_FOLDER_H
#define PARE_COMPRESS_STORAGE_INPUT_FOLDER_H

#include <stdbool.h>

#include "runtime/file.h"

typedef struct pare_folder {
    const char *path;
    const char **name; /* ascend by their bytes */
    pare_file *file;
    size_t files, mapped;
    uint64_t bytes; /* of all */
} pare_folder;

/* Maps every file of a folder, or the one that `path` is. Links are followed: what they name is
 * what counts. PARE_EFORMAT for a folder in it, for another thing that is no regular file, and a
 * name that no archive holds; PARE_ENOTFOUND, PARE_EIO, PARE_ENOMEM. Close in any case. */
PARE_CHECKED pare_status pare_folder_open(pare_ctx *cx, pare_arena *a, const char *path,
                                          pare_folder *out);
void pare_folder_close(pare_folder *f);

/* The file of a name, NULL when there is none. */
const pare_file *pare_folder_find(const pare_folder *f, const char *name);

/* A part of a file whose elements are floats of `width` bytes, or 1 for anything else. */
typedef struct pare_file_part {
    uint64_t at, bytes;
    unsigned width;
    const char *tensor; /* its name; NULL between tensors */
} pare_file_part;

/* Parts that tile the file: tensors of .safetensors and .gguf files that can be read, whatever is
 * between them; else one part. Nothing for an empty file. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_parts(pare_ctx *cx, pare_arena *a, const pare_file *file,
                                    pare_file_part **out, size_t *count);

#endif
