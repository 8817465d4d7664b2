/* compress/artifact/verify.h - checks everything that can be checked of a checkpoint or an
 * artifact. */
#ifndef PARE_COMPRESS_ARTIFACT_VERIFY_H
#define PARE_COMPRESS_ARTIFACT_VERIFY_H

#include "runtime/arena.h"

typedef struct pare_verify_result {
    size_t files, tensors; /* checked */
    uint64_t bytes;
    bool checked;    /* against checksums; without: structure, and that values are finite */
    bool tokenizer;  /* there is one that can be read */
    bool adapter;    /* adapters alone, which need none */
    bool statistics; /* kept ones, and no model */
    bool importance; /* an importance matrix of llama.cpp, whose entries are the tensors */
    size_t findings; /* problems; each was given to `found` */
} pare_verify_result;

/* A directory that pare wrote: every file against SHA256SUMS, both ways (an artifact without one is
 * a finding, the journal of a run that was killed at its end is none). An artifact besides: size
 * and SHA-256 of the files that the manifest lists, that list complete, XXH3-128 of every plane,
 * codes, zeros and columns in range, scales finite, padding decodes to zero, other tensors finite.
 *
 * Any other checkpoint: structure, index and headers, every float tensor finite; its SHA256SUMS if
 * it has the form of ours, the checksums of a GGUF file of ours (formats/gguf_seal.h), and one file
 * of ours against the manifest beside it. Of both the tokenizer, where there is one.
 *
 * A file of kept statistics: besides, what a job that takes it looks at: settings, shapes, values,
 * the hashes of its tokens.
 *
 * An importance matrix of llama.cpp: its structure, each count and each sum.
 *
 *   found   called for each problem with "file or tensor: what"; may be NULL
 *
 * Findings are not errors; a file too broken to parse is a finding. PARE_OK, PARE_ENOTFOUND,
 * PARE_ENOTSUP (neither a directory nor a weight file), PARE_EIO, PARE_ENOMEM, PARE_EINTERRUPTED.
 */
PARE_CHECKED pare_status pare_verify(pare_ctx *cx, const char *path,
                                     void (*found)(void *self, const char *what), void *self,
                                     pare_verify_result *out);

#endif
