/* compress/artifact/sparsity_text.h - what people are told about zeros. */
#ifndef PARE_COMPRESS_ARTIFACT_SPARSITY_TEXT_H
#define PARE_COMPRESS_ARTIFACT_SPARSITY_TEXT_H

#include "formats/packed.h"
#include "solve/sparsity.h"

/* "2:4", "50% of each row", "50%". Returns text. */
enum { PARE_SPARSITY_TEXT = 32 };
const char *pare_sparsity_text(const pare_sparsity *s, char text[PARE_SPARSITY_TEXT]);

/* Where the zeros of a pruned linear are: "2:4", "bitmask", "dense" (of floats), "like other
 * weights" (of codes). */
const char *pare_sparsity_store_text(pare_sparsity_store store, bool floats);

/* Bytes of a linear if its zeros were stored like other weights. */
uint64_t pare_sparsity_dense_bytes(const pare_packed_linear *l);

/* What leaving zeros out saves for a linear that was pruned: "bytes and time", "bytes, not time",
 * "nothing". */
const char *pare_sparsity_saves(const pare_packed_linear *l);

/* Pruned linears that are stored in one way. */
typedef struct pare_sparsity_total {
    size_t linears;
    uint64_t bytes, dense_bytes;
    const char *saves; /* as above */
} pare_sparsity_total;
void pare_sparsity_add(pare_sparsity_total *t, const pare_packed_linear *l);

#endif
