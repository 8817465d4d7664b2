/* calib/wave.h - the activation wave: the inputs of the current block for every calibration window,
 * carried through the already compressed blocks.
 *
 * Activations are f32 [samples, window, hidden], in memory or, when that is too much, in a file
 * that is deleted at once after it is opened. Windows go through a block in batches whose size does
 * not depend on where they are kept, so the results do not either. A batch ends where a share of
 * the windows does (calib/shares.h), and taps that have `share` are told. */
#ifndef PARE_CALIB_WAVE_H
#define PARE_CALIB_WAVE_H

#include "calib/spill.h"
#include "calib/tokens.h"

typedef struct pare_wave {
    size_t samples, window, hidden, batch; /* batch: windows per forward call, at most */
    size_t first, end;                     /* of them here; all where one process has them */
    bool stored;                           /* blocks have linears that are not floats */
    float *x;                              /* in memory; NULL when spilled */
    pare_spill file;                       /* the rest of the time */
} pare_wave;

/* Windows per batch: as many as make about 2048 tokens, at least one. */
size_t pare_wave_batch(size_t window);

/* Bytes of all activations; saturates at UINT64_MAX. */
uint64_t pare_wave_bytes(size_t samples, size_t window, size_t hidden);

/* Makes room for windows first .. end - 1, begins and ends of shares (calib/shares.h), of
 * `samples`. spill_directory NULL: in the arena. Otherwise a file there (calib/spill.h).
 * PARE_ENOMEM, PARE_ENOSPC, PARE_EIO. Close it in any case. */
PARE_CHECKED pare_status pare_wave_open_part(pare_ctx *cx, pare_arena *a, size_t samples,
                                             size_t first, size_t end, size_t window, size_t hidden,
                                             const char *spill_directory, pare_wave *wave);
void pare_wave_close(pare_wave *wave);

/* Fills the wave with the embeddings of tokens [samples, window]. */
PARE_CHECKED pare_status pare_wave_embed(pare_ctx *cx, pare_arena *scratch, pare_wave *wave,
                                         const pare_model *model, const int32_t *tokens);

/* Changes activations in place: `change` sees rows [rows, hidden] of consecutive windows, batch by
 * batch. PARE_EIO, PARE_ENOMEM, or what it returned. */
PARE_CHECKED pare_status pare_wave_change(pare_ctx *cx, pare_arena *scratch, pare_wave *wave,
                                          pare_status (*change)(void *self, float *x, size_t rows),
                                          void *self);

/* Runs every window through a block, or the half of it that the tap names.
 *   tap   NULL, or sees the inputs of the linears, in batch order; where it stops the block the
 *         wave stays as it is, else outputs replace inputs
 *   what  name of the step, for progress
 * PARE_ENOMEM, PARE_EIO, PARE_EINTERRUPTED, or what the tap returned. Scratch is rewound.
 * Threads inside a batch; same bytes for any number of them. */
PARE_CHECKED pare_status pare_wave_run(pare_ctx *cx, pare_arena *scratch, pare_wave *wave,
                                       const pare_forward *f, const pare_block *block,
                                       const pare_tap *tap, const char *what);

/* A wave on its way through a block. */
typedef struct pare_wave_side {
    pare_wave *wave;
    const pare_block *block;
    const pare_tap *tap;
} pare_wave_side;

/* As pare_wave_run with two waves of the same windows: each batch first through side[0], then
 * through side[1]. */
PARE_CHECKED pare_status pare_wave_run_both(pare_ctx *cx, pare_arena *scratch,
                                            const pare_forward *f, const pare_wave_side side[2],
                                            const char *what);

/* Copies the activations of one window, which is here, to x [window, hidden]. PARE_EIO. */
PARE_CHECKED pare_status pare_wave_window(pare_ctx *cx, const pare_wave *wave, size_t window,
                                          float *x);

/* How a wave runs: on pare_cpu_bf16; through linears that are not all floats; its activations in a
 * file. */
typedef struct pare_wave_kind {
    bool bf16, stored, spilled;
} pare_wave_kind;

/* Upper bound of the scratch that pare_wave_run takes for a block, whose experts may be packed, in
 * batches of up to `windows`; activations in a file pass through memory batch by batch. */
size_t pare_wave_scratch(const pare_ctx *cx, const pare_config *c, size_t windows, size_t window,
                         pare_wave_kind kind);

#endif
