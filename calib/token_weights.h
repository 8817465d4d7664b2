/* calib/token_weights.h - how much each token of the calibration counts in H, by the loss.
 *
 * The float model runs forward and backward over every window. What runs back is one draw whose
 * mean square is the curvature of the divergence from the float model, the Fisher information
 * (runtime/head_gradient.h). With dy what arrives behind a linear, [tokens, n]:
 *
 *     s_ti = dy_ti^2 over its mean over the tokens of the window
 *     w_t  = sqrt(sum over the linears that read a site of mean over i of s_ti), over its mean
 *
 * The full curvature of a row i is sum over t of dy_ti^2 x_t x_t^T: one weight for all rows of a
 * site stands for it. Few tokens hold most of s (one in a hundred has 15 times the mean), which
 * makes a poor sum; the square root keeps more of the others. On a model of 135M parameters it did
 * better than s itself and than s^0.25, and outputs over their means better than as they are.
 * Between this draw and a label drawn from the model no difference could be told.
 * Sources: Kim et al., GuidedQuant, ICML 2025, eq. 7-9 (rows in groups, true labels, no root);
 * Tseng et al., YAQA, 2025 (labels drawn from the model). */
#ifndef PARE_CALIB_TOKEN_WEIGHTS_H
#define PARE_CALIB_TOKEN_WEIGHTS_H

#include "calib/output_curvature.h"
#include "calib/spill.h"
#include "runtime/fold.h"
#include "runtime/forward.h"

/* Those of one block at a time; a file holds those of all. */
typedef struct pare_token_weights {
    size_t tokens;
    pare_spill file;               /* block after block: weight, outputs.o */
    float *weight;                 /* [PARE_SITES][tokens], of mean 1; NULL: all count the same */
    pare_output_curvature outputs; /* from the same gradients */
} pare_token_weights;

/* The weights of the tokens at a site [tokens], or NULL. */
static inline const float *pare_token_weights_at(const pare_token_weights *w, pare_site site)
{
    return w->weight ? w->weight + site * w->tokens : NULL;
}

/* Finds them.
 *
 *   f        of a model with dense weights, on the CPU; positions for a window
 *   tokens   [samples, window]
 *   seed     of the draw
 *   room     for a block of the model in floats; overwritten
 *   directory  for scratch files: the result, and what goes into each block while it is found
 *   out      in the arena `a`, of no block before pare_token_weights_load; close it in any case
 *
 * All processes of a job (runtime/world.h) call it at once, each runs the windows of its shares
 * (calib/shares.h), and process 0 gets the result.
 *
 * Where no gradient comes through all tokens of a site count the same; so do those of experts.
 *
 * Returns PARE_OK, PARE_ENOMEM, PARE_ENOSPC, PARE_EIO, PARE_EINTERRUPTED, or PARE_ENUMERIC when a
 * gradient is not finite.
 * Memory   whatever the number of blocks; scratch: pare_token_weights_scratch.   Work  four forward
 * passes, two of them products for the gradient, over all windows; every block is loaded twice for
 * each batch of about 2048 tokens.   Threads  inside a batch.   The same bytes for any
 * thread count. */
PARE_CHECKED pare_status pare_token_weights_find(pare_ctx *cx, pare_arena *a, pare_arena *scratch,
                                                 const pare_forward *f, const int32_t *tokens,
                                                 size_t samples, size_t window, uint64_t seed,
                                                 pare_block *room, const char *directory,
                                                 pare_token_weights *out);

/* A result out of a file that has its floats `at` bytes behind its start, as they lie in out->file.
 * Statuses as above. */
PARE_CHECKED pare_status pare_token_weights_copy(pare_ctx *cx, pare_arena *a, const pare_config *c,
                                                 size_t tokens, const char *directory, int fd,
                                                 const char *path, uint64_t at,
                                                 pare_token_weights *out);

/* Reads those of a block; nothing to do where all tokens count the same. PARE_EIO. */
PARE_CHECKED pare_status pare_token_weights_load(pare_ctx *cx, size_t block, pare_token_weights *w);
void pare_token_weights_close(pare_token_weights *w);

/* Bytes of the result in memory and in its file, of the scratch beside it (bf16: f is on
 * pare_cpu_bf16), and of all files of so many processes together. */
uint64_t pare_token_weights_file(const pare_config *c, uint64_t tokens);
uint64_t pare_token_weights_bytes(const pare_config *c, uint64_t tokens);
uint64_t pare_token_weights_disk(const pare_config *c, size_t samples, size_t window,
                                 size_t processes);
uint64_t pare_token_weights_scratch(const pare_ctx *cx, const pare_config *c, size_t samples,
                                    size_t window, bool bf16);

#endif
