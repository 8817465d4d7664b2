/* calib/kept_weights.h - weights of tokens in a file, for other jobs of the same model and data.
 *
 *   8 B "PAREKW01" | 16 B XXH3-128 of the key | 16 B XXH3-128 of the floats | floats
 *
 * The floats are those of the result of pare_token_weights_find, block after block, little-endian.
 * The key is a text that names all that they depend on. The file is untrusted: what it holds counts
 * only when its length and both sums fit. */
#ifndef PARE_CALIB_KEPT_WEIGHTS_H
#define PARE_CALIB_KEPT_WEIGHTS_H

#include "calib/token_weights.h"

/* Copies what `path` keeps of the key to a file of the job.
 *
 *   tokens     of all windows
 *   directory  for that file, as of pare_token_weights_find
 *   why        NULL: *out is as pare_token_weights_find leaves it, and to be closed; else why there
 *              is nothing to take, and *out is all 0
 *
 * PARE_ENOMEM, PARE_ENOSPC, PARE_EIO: of the file of the job. */
PARE_CHECKED pare_status pare_kept_weights_take(pare_ctx *cx, pare_arena *a, pare_arena *scratch,
                                                const pare_config *c, size_t tokens,
                                                const char *directory, const char *path,
                                                const char *key, const char **why,
                                                pare_token_weights *out);

/* Writes a result to `path`, in one step, in place of what is there. Nothing is done while another
 * job writes the same. PARE_ENOMEM, PARE_ENOSPC, PARE_EIO: `path` is as it was. */
PARE_CHECKED pare_status pare_kept_weights_put(pare_ctx *cx, pare_arena *scratch,
                                               const pare_config *c, const pare_token_weights *w,
                                               const char *path, const char *key);

#endif
