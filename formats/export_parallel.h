/* formats/export_parallel.h - whether every rank of tensor parallelism gets whole pieces.
 *
 * Engines read one checkpoint and give each of N ranks a slice of it: rows 1 / N of q, k, v, gate,
 * up and the head, columns 1 / N of o and down. Heads are not cut: N divides those of q; it divides
 * those of k and v, or is a multiple of them, and each rank then gets a copy of one. Routers, norms
 * and what is one number for all are copied. Experts are cut like the MLP that they are.
 *
 * A slice of whole grains (pare_export_grain) is what the target would write for that slice of the
 * weights alone: slicing and packing give the same in either order (tests/unit/test_slices.c). */
#ifndef PARE_FORMATS_EXPORT_PARALLEL_H
#define PARE_FORMATS_EXPORT_PARALLEL_H

#include "formats/export_target.h"

enum { PARE_RANKS_MAX = 1024, PARE_VOCAB_PAD = 64 }; /* engines pad vocabularies to it */

/* Rows or columns of a linear that each of `ranks` gets; 0: they do not divide it. Those of the
 * head count the vocabulary as it is. */
typedef struct pare_rank_share {
    bool columns; /* inputs are cut, else outputs */
    size_t whole, each;
} pare_rank_share;
pare_rank_share pare_export_share(const pare_config *c, const pare_export_linear *l, size_t ranks);

/* Refuses a model of which `ranks`, 1 .. PARE_RANKS_MAX, do not get whole heads and whole grains of
 * every linear in the form of the target, with the first that fails, the groups that would do and
 * the most ranks below that do. A head or embedding in floats only has to divide once it is padded
 * to PARE_VOCAB_PAD, and not in a GGUF file. Reads no weights. PARE_ENOTSUP. */
PARE_CHECKED pare_status pare_export_check_ranks(pare_ctx *cx, const pare_export_target *t,
                                                 const pare_export_model *m, size_t ranks);

#endif
