/* formats/checksums.h - what a manifest.json of ours says of the bytes beside it: SHA-256 of files,
 * XXH3-128 of tensors; and a checkpoint held against it before it is used.
 *
 * A manifest is untrusted: what it lacks or has in another form counts as not there. */
#ifndef PARE_FORMATS_CHECKSUMS_H
#define PARE_FORMATS_CHECKSUMS_H

#include "formats/checkpoint.h"

/* The manifest of a model that pare wrote; at most so large. */
#define PARE_MANIFEST_NAME "manifest.json"
enum { PARE_MANIFEST_CAP = 1 << 30 };

/* Whether pare wrote this text, even if it is damaged since; others use the name, too. */
bool pare_manifest_is_ours(const char *text, size_t len);

/* One file of the manifest's list. */
typedef struct pare_listed_file {
    const char *name, *sha256; /* views of the manifest; the name leads out of no directory */
    uint64_t bytes;
} pare_listed_file;

size_t pare_manifest_files(const pare_json *manifest);

/* Item i of the list; false when it is malformed. */
bool pare_manifest_file_at(const pare_json *manifest, size_t i, pare_listed_file *out);

/* Whether a well-formed item has this name. */
bool pare_manifest_lists(const pare_json *manifest, const char *name);

/* XXH3-128 of a tensor, kept or a plane of a linear ("LINEAR.PLANE"), as hex. NULL: the manifest
 * has none. */
const char *pare_manifest_tensor(const pare_json *manifest, const char *name);

/* Calls `absent` with each name in the manifest that the checkpoint lacks, and with what is wrong.
 */
void pare_manifest_absent(const pare_json *manifest, const pare_checkpoint *ck,
                          void (*absent)(void *self, const char *name, const char *what),
                          void *self);

/* Holds an opened checkpoint against the checksums that it carries itself (formats/gguf_seal.h), or
 * else against the manifest.json beside it: each tensor is there, in the
 * type and shape it had, and has its XXH3; the files beside the weights have their SHA-256, and no
 * tokenizer lies there that the manifest does not list. A checkpoint is ours, too, when a
 * SHA256SUMS as we write it lists the weights and a manifest.json that is not there or has another
 * digest. *checked is false, with PARE_OK, for a checkpoint that pare did not write. Reads every
 * byte of the weights once, over the pool, with progress. PARE_EFORMAT, with file or tensor:
 * something differs, is missing or is not in the manifest; the manifest of an artifact is missing
 * or malformed. PARE_EINTERRUPTED, PARE_ENOMEM, PARE_EIO. */
PARE_CHECKED pare_status pare_checkpoint_check(const pare_checkpoint *ck, bool *checked);

/* The same without the bytes of the weights: what a manifest, the names that it lists and the small
 * files already say against a checkpoint, which may be a listed one. */
PARE_CHECKED pare_status pare_checkpoint_check_files(const pare_checkpoint *ck);

#endif
