/* tests/fuzz/imatrix_input.h - everything that is done with the bytes of an importance matrix. */
#ifndef PARE_TESTS_IMATRIX_INPUT_H
#define PARE_TESTS_IMATRIX_INPUT_H

#include "calib/imatrix.h"

enum { IMATRIX_COLUMNS = 4 };

/* Lists it, finds q and gate of the first block of a llama, and fills statistics of four columns:
 * the first failure. h [4, 4]. */
static inline pare_status imatrix_read_all(pare_ctx *cx, pare_arena *a, const void *bytes,
                                           size_t len, float h[IMATRIX_COLUMNS * IMATRIX_COLUMNS])
{
    static char name[] = "file";
    const pare_file file = {.data = bytes, .bytes = len, .path = name};
    const pare_imatrix_entry *e;
    pare_imatrix m;
    pare_site_stats s = {.k = IMATRIX_COLUMNS, .h = h};
    PARE_TRY(pare_imatrix_read(cx, a, &file, &m));
    PARE_TRY(pare_imatrix_find(&m, "llama", "model.layers.0.self_attn.q_proj", s.k, &e));
    PARE_TRY(pare_imatrix_fill(&m, e, &s));
    return pare_imatrix_find(&m, "llama", "model.layers.0.rotary", s.k, &e);
}

#endif
