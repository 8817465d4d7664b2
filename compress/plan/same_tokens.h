/* compress/plan/same_tokens.h - whether two models mean the same tokens by the same ids: what one
 * says about tokens is no use to the other where they do not. */
#ifndef PARE_COMPRESS_PLAN_SAME_TOKENS_H
#define PARE_COMPRESS_PLAN_SAME_TOKENS_H

#include "formats/checkpoint.h"

/* Where two lists of tokens differ first. */
typedef struct pare_tokens_apart {
    bool differ;
    size_t at;
} pare_tokens_apart;

/* Tokens that two tokenizers give a text. Scratch is rewound. The statuses of
 * pare_tokenizer_encode. */
PARE_CHECKED pare_status pare_text_apart(pare_ctx *cx, pare_arena *scratch,
                                         const pare_tokenizer *one, const pare_tokenizer *other,
                                         const char *text, size_t len, pare_tokens_apart *out);

/* The same of the text that the first of PARE_APART_TOKENS ids [count] stand for in the first
 * model; nothing differs where one of the models has no tokenizer that can be read. PARE_ENOMEM. */
enum { PARE_APART_TOKENS = 1 << 16 };
PARE_CHECKED pare_status pare_ids_apart(pare_ctx *cx, pare_arena *scratch,
                                        const pare_checkpoint *one, const pare_checkpoint *other,
                                        const int32_t *id, size_t count, pare_tokens_apart *out);

#endif
