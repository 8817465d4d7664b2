/* compress/run/run_hash.h - the files of a running job, hashed beside the work. */
#ifndef PARE_COMPRESS_RUN_RUN_HASH_H
#define PARE_COMPRESS_RUN_RUN_HASH_H

#include "formats/sha256.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

typedef struct pare_run_hash {
    pare_file *input_file; /* [run->files.inputs] views */
    /* [run->files.inputs] by pare_xxh3_files, when the job began; and of what went into the SHA-256
     */
    uint8_t (*input_xxh3)[16], (*input_hashed)[16];
    char (*input_sha256)[PARE_SHA256_HEX];
    pare_hashing *input;  /* of the model, until the manifest is written */
    pare_hashing *packed; /* of the packed files, while they are written; NULL: once they are */
    char (*packed_sha256)[PARE_SHA256_HEX];
} pare_run_hash;

/* The files of the checkpoint, run->files.input, with their XXH3. Their SHA-256 begins: it is there
 * after pare__run_inputs_hashed, which waits for it. PARE_EFORMAT when a file was another one then.
 */
PARE_CHECKED pare_status pare__run_hash_inputs(pare_run *run);
PARE_CHECKED pare_status pare__run_inputs_hashed(pare_run *run);

/* The SHA-256 of the packed files begins; then, after each unit: as far as the units up to `unit`
 * fill a file, it is hashed from now on. */
PARE_CHECKED pare_status pare__run_hash_packed(pare_run *run);
PARE_CHECKED pare_status pare__run_packed_ready(pare_run *run, size_t unit);

#endif
