/* compress/artifact/verify_internal.h - one verification, and the checks of single tensors. */
#ifndef PARE_COMPRESS_ARTIFACT_VERIFY_INTERNAL_H
#define PARE_COMPRESS_ARTIFACT_VERIFY_INTERNAL_H

#include "compress/artifact/verify.h"
#include "formats/checksums.h"
#include "formats/packed.h"
#include "formats/sums.h"

typedef struct pare_verify_run {
    pare_ctx *cx;
    pare_arena arena;
    void (*found)(void *self, const char *what);
    void *self;
    pare_verify_result *out;
    const char *path;
    pare_json *manifest; /* NULL: not an artifact, or its manifest cannot be read */
    bool summed;         /* every file was held against SHA256SUMS */
    pare_sums sums;
    pare_checkpoint checkpoint;
} pare_verify_run;

/* Counts a finding and hands its text on. */
PARE_PRINTF(2, 3)
void pare__verify_found(pare_verify_run *v, const char *fmt, ...);

/* Turns a failure that says something about the files into a finding (then PARE_OK); lack of
 * memory, a broken disk and an interrupt stay what they are. */
PARE_CHECKED pare_status pare__verify_absorb(pare_verify_run *v, pare_status s);

/* Item i of the manifest's list of files; false, with a finding, when it is malformed. */
bool pare__verify_listed(pare_verify_run *v, size_t i, pare_listed_file *out);

/* The recipe in the manifest has the hash that stands beside it. */
PARE_CHECKED pare_status pare__verify_recipe(pare_verify_run *v);

/* XXH3-128 of every tensor against the manifest, both ways. PARE_EINTERRUPTED, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__verify_hashes(pare_verify_run *v);

/* What a job would refuse of a file of kept statistics; nothing for other files. */
PARE_CHECKED pare_status pare__verify_statistics(pare_verify_run *v);

/* The numbers of an importance matrix; nothing for other files. */
PARE_CHECKED pare_status pare__verify_importance(pare_verify_run *v);

/* Float tensors hold no NaN or infinity. */
void pare__verify_finite(pare_verify_run *v);

/* Codes, scales, zero points, books, steps and padding of a packed linear that was loaded from the
 * run's checkpoint. Scratch from the run's arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__verify_packed(pare_verify_run *v, const pare_linear *l);

/* Places, values and padding of a pruned linear `l` that is stored as `p`. */
void pare__verify_pruned(pare_verify_run *v, const pare_packed_linear *p, const pare_linear *l);

#endif
