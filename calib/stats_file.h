/* calib/stats_file.h - statistics of the inputs of a model's linears in an HDF5 file.
 *
 *   settings    U8 [bytes]                   a JSON text: what the statistics are of
 *   tokens      I32 [samples, window]        of the calibration
 *   held_out    I32 [windows, window]        left out of it; where there are some
 *   blockIIIII  a group for what every token runs of block IIIII (from 00000):
 *     stream    F32 [window, hidden]         inputs of the block for the first window
 *     outputs   F32 [rows, 64]               curvature in the outputs (calib/output_curvature.h);
 *                                            with weights of tokens by the loss
 *     experts   U64 [experts]                tokens that the router sends to each; where the block
 *                                            has experts
 *     SITE      a group for each of attention, attended, mlp, activated that a linear reads, of k
 *               columns:
 *       tokens   U64 [1]                     seen
 *       h        F32 [k (k + 1) / 2]         rows of the lower triangle of the sum of w x x^T
 *       fourth   F64 [k]                     sums of (w x^2)^2
 *       min, max      F32 [k]          of each column: least and largest x,
 *       sum, abs_sum  F64 [k]          sum of x, and of |x|
 *       sample        F32 [rows, k]    inputs, evenly spread over all tokens
 *       loudness      F64 [2]          energy of all tokens (w |x|^2), and most of one
 *   blockIIIII_expertEEEEE  the same sites of an expert; where the block has experts
 *
 * The words are those of calib/stats.h. The file is untrusted: whatever is used of it is checked,
 * and a message names the file, the dataset and the element. */
#ifndef PARE_CALIB_STATS_FILE_H
#define PARE_CALIB_STATS_FILE_H

#include "calib/output_curvature.h"
#include "calib/stats.h"
#include "calib/tokens.h"
#include "formats/hdf5.h"
#include "formats/hdf5_write.h"
#include "formats/sha256.h"

#define PARE_STATS_FILE_FORMAT  "pare statistics"
#define PARE_STATS_FILE_VERSION 1

/* What the statistics of a file are of. */
typedef struct pare_stats_about {
    const char *program;     /* that made it: "pare 1.0" */
    const char *const *file; /* [files] of the model: "NAME xxh3 HEX", configuration last */
    size_t files;
    const char *nan;    /* what became of weights that are not finite */
    const char *family; /* these four as config.json has them, for messages and listings */
    size_t blocks, hidden, experts;
    size_t samples, window,
        held_out;   /* windows of the calibration, their tokens, windows held out */
    uint64_t fresh; /* tokens that say something new */
    const char *tokens_sha256, *held_out_sha256;         /* of the ids; "": none held out */
    const char *seed, *precision, *token_weights, *cold; /* as recipes write them */
    size_t min_tokens;
} pare_stats_about;

/* The name of what is different in two of them, which statistics depend on, and both values; NULL
 * where nothing is. Who made them, and what is held out, makes no difference. */
const char *pare_stats_about_differ(const pare_stats_about *a, const pare_stats_about *b,
                                    char values[2][128]);

/* Kinds of statistics of a file, at every site. */
enum { PARE_STATS_FILE_KINDS = PARE_STATS_HESSIAN | PARE_STATS_CHANNELS | PARE_STATS_SAMPLE };

/* Bytes of such a file, at most, with everything in it. */
uint64_t pare_stats_file_bytes(const pare_config *c, const pare_stats_about *about);

/* Sites as the file calls them. */
extern const char *const pare_stats_site_names[PARE_SITES];

/* A group: a block's or an expert's. */
enum { PARE_STATS_GROUP = 32 };
const char *pare_stats_group_name(size_t block, size_t part, char name[PARE_STATS_GROUP]);

/* Writing, in this order: the head; of each block its statistics, with what belongs to the block,
 * and of its experts, if it has some. Statuses of pare_hdf5_put, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_stats_file_begin(pare_hdf5_writer *w, const pare_stats_about *about,
                                               const pare_tokens *tokens,
                                               const pare_tokens *held_out);
typedef struct pare_stats_block {
    const float *stream;                  /* [window, hidden] */
    const pare_output_curvature *outputs; /* or NULL */
    const uint64_t *routed;               /* [experts]; NULL: the block has none */
} pare_stats_block;
PARE_CHECKED pare_status pare_stats_file_put_block(pare_hdf5_writer *w, const pare_config *c,
                                                   size_t window, size_t block,
                                                   const pare_stats_block *b);
/* Takes half of k^2 floats of scratch, given back. */
PARE_CHECKED pare_status pare_stats_file_put_part(pare_hdf5_writer *w, pare_arena *scratch,
                                                  size_t block, size_t part, const pare_stats *s);

/* Reads what a file is of, into the arena. PARE_EFORMAT "path: reason" where it is no file of
 * statistics, or of a version above PARE_STATS_FILE_VERSION; what pare_hdf5_read returns. */
PARE_CHECKED pare_status pare_stats_file_about(pare_ctx *cx, pare_arena *a, const char *path,
                                               pare_stats_about *out);

/* Whether a path leads to a file that begins as HDF5 files do. */
bool pare_stats_file_begins(const char *path);

/* Whether a path leads to an HDF5 file whose root has settings and a block. What cannot be read is
 * none: whoever takes it for a model says why. PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_stats_file_is_one(pare_ctx *cx, pare_arena *a, const char *path,
                                                bool *is);

/* The tokens of the calibration and those held out, whose hashes must be right. */
PARE_CHECKED pare_status pare_stats_file_tokens(pare_ctx *cx, pare_arena *a, const char *path,
                                                const pare_stats_about *about, size_t vocab,
                                                pare_tokens *tokens, pare_tokens *held_out);

/* A group of a file in memory that the system may write out (formats/scratch.h). */
typedef struct pare_stats_group {
    pare_ctx *cx;
    const char *path;
    char name[PARE_STATS_GROUP];
    pare_scratch scratch;
    pare_hdf5 file;
} pare_stats_group;

/* Names go to the arena. Close it in any case. */
PARE_CHECKED pare_status pare_stats_group_open(pare_ctx *cx, pare_arena *a, const char *path,
                                               size_t block, size_t part, pare_stats_group *g);
void pare_stats_group_close(pare_stats_group *g);

/* Columns of the sites that it has, 0 for the others, and the tokens that all of them saw. */
PARE_CHECKED pare_status pare_stats_group_shape(const pare_stats_group *g, size_t width[PARE_SITES],
                                                uint64_t *tokens);

/* Whether the block of this group has experts, and the file a group for each. */
bool pare_stats_group_experts(const pare_stats_group *g);

/* Fills the statistics of the active sites (pare_stats_take), as if the taps had seen the tokens:
 * s->total is how many that must be. PARE_EFORMAT. Held and drift cannot be filled. */
PARE_CHECKED pare_status pare_stats_group_fill(const pare_stats_group *g, pare_stats *s);

/* Of a block: its inputs for the first window, the curvature in its outputs, and the tokens of each
 * expert, at most `most` each. */
PARE_CHECKED pare_status pare_stats_group_stream(const pare_stats_group *g, size_t window,
                                                 size_t hidden, float *x);
PARE_CHECKED pare_status pare_stats_group_outputs(const pare_stats_group *g,
                                                  pare_output_curvature *out);
PARE_CHECKED pare_status pare_stats_group_routed(const pare_stats_group *g, size_t experts,
                                                 uint64_t most, uint64_t *routed);

#endif
