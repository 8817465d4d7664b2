/* formats/tokenizer_learn_internal.h - merges learned from counted words. */
#ifndef PARE_FORMATS_TOKENIZER_LEARN_INTERNAL_H
#define PARE_FORMATS_TOKENIZER_LEARN_INTERNAL_H

#include <stdint.h>

#include "formats/tokenizer_tables_internal.h"

/* Bytes, and how often they are a word of the texts. */
typedef struct pare_tok_counted {
    pare_tok_slice text;
    int64_t count;
} pare_tok_counted;

/* Ids of the two tokens that a merge joins. */
typedef struct pare_tok_join {
    int32_t left, right;
} pare_tok_join;

/* Learns merges from words [count] until `tokens` is full, or no pair is counted min_count times.
 *
 *   byte_ids   the token of each byte
 *   tokens     entry i has id i; the specials and the bytes are in it, and new tokens join them
 *   joins      [*join_count], a lower index merges first; in `a`, as the texts of new tokens are
 *
 * Pairs are counted at every place, so "aaa" has (a, a) twice. A merge that makes the text of a
 * token that is there, as a special one can be, makes no new token: its id is that of the old one.
 *
 * PARE_EINVAL for counts below 1 or with a sum over all places that 63 bits do not hold,
 * PARE_ENOTSUP for 4 GiB of words or more, PARE_EINTERRUPTED, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__learn_merges(pare_ctx *cx, pare_arena *a,
                                            const pare_tok_counted *words, size_t count,
                                            int64_t min_count, const int32_t byte_ids[256],
                                            pare_tok_vocab *tokens, pare_tok_join **joins,
                                            size_t *join_count);

#endif
