/* formats/gguf_seal.h - checksums in the head of a GGUF file that pare wrote, so that damage is
 * found by the file alone. Other programs pass over them:
 *
 *   pare.tensors.xxh3   XXH3-128 of each tensor in the order of the file, up to the next one
 *   pare.head.xxh3      XXH3-128 of all in front of the data, this value taken as 32 zeros
 *
 * both as text of 32 hex digits. A program that changes such a file and keeps its values leaves one
 * that counts as damaged. */
#ifndef PARE_FORMATS_GGUF_SEAL_H
#define PARE_FORMATS_GGUF_SEAL_H

#include "formats/gguf_write.h"
#include "runtime/file.h"

/* Room for the checksums of `most` tensors among the values. */
void pare_gguf_put_seal(pare_gguf_writer *w);

/* All tensors are filled: reads the file once more, writes the checksums into its head and makes
 * all durable. PARE_EIO, PARE_ENOSPC, PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_gguf_seal(pare_gguf_writer *w);

/* Whether the values say that pare wrote the file. */
bool pare_gguf_is_ours(const pare_gguf *g);

/* Holds a file that pare wrote against its checksums; *sealed is false for one of another program.
 * PARE_EFORMAT, with the name of the tensor, for a difference and for a file of pare without
 * checksums; PARE_ENOMEM, PARE_EINTERRUPTED. Over the pool, with progress. */
PARE_CHECKED pare_status pare_gguf_check_seal(pare_ctx *cx, pare_arena *a, const pare_file *file,
                                              const pare_gguf *g, bool *sealed);

/* Holds the parts into which others cut a file of pare against its checksums of tensors, which the
 * head of the first part still has: each tensor has one of them; g is [files]. *sealed is false
 * where the head has none. The order of tensors is free, and the last one of a part need not be
 * padded. As above.
 */
PARE_CHECKED pare_status pare_gguf_check_parts(pare_ctx *cx, pare_arena *a, const pare_file *file,
                                               const pare_gguf *g, size_t files, bool *sealed);

#endif
