/* formats/torch.h - a PyTorch checkpoint (.bin, .pt, .pth): a zip archive with a pickle that
 * describes tensors and an entry of bytes per storage.
 *
 *   NAME/data.pkl      the description, read as data (pickle.h)
 *   NAME/data/KEY      a storage; tensors may share one
 *   NAME/byteorder     "little", in newer files
 *   NAME/version, ...  not looked at
 *
 * The format of PyTorch before 1.6, without zip, is refused by name. */
#ifndef PARE_FORMATS_TORCH_H
#define PARE_FORMATS_TORCH_H

#include "formats/strided.h"
#include "runtime/arena.h"

typedef struct pare_torch {
    pare_strided *tensor; /* sorted by name; data points into the bytes given */
    size_t tensors;
} pare_torch;

/* Parses a whole file in memory. Names are copied into the arena, data are views: never read here.
 *   name  the file for messages
 * PARE_EFORMAT "name: reason", PARE_ENOTSUP for what zip.h and pickle.h do not take and for the old
 * format, PARE_ENOMEM. A tensor that repeats elements (stride 0) is refused: a small file must not
 * become a large model. */
PARE_CHECKED pare_status pare_torch_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                          const void *bytes, uint64_t len, pare_torch *out);

#endif
