/* formats/tokenizer_train.h - a byte-level BPE tokenizer learned from text.
 *
 * The result is that of the package tokenizers: BpeTrainer with the 256 bytes as initial alphabet,
 * over ByteLevel(add_prefix_space=False) with the pattern of GPT-2. Ids: the special tokens in
 * their order, the bytes by the code point of their character (GPT-2's alphabet), then one token a
 * merge. A merge joins the pair of neighbours that is counted most often in the words of the text;
 * of equal counts that with the smaller ids, left before right. */
#ifndef PARE_FORMATS_TOKENIZER_TRAIN_H
#define PARE_FORMATS_TOKENIZER_TRAIN_H

#include "formats/tokenizer.h"

enum {
    PARE_TOK_TRAIN_VOCAB_MOST = 1 << 20,   /* tokens that may be asked for */
    PARE_TOK_TRAIN_SPECIALS_MOST = 1 << 10 /* special tokens, and bytes of one */
};

/* A text; one that is a file of its own: no word reaches over its end. Borrowed. */
typedef struct pare_tok_train_text {
    const char *at;
    size_t len;
} pare_tok_train_text;

typedef struct pare_tok_train_opts {
    size_t vocab;               /* tokens, special ones and the 256 bytes included */
    uint64_t min_count;         /* pairs that are counted fewer times are not merged; 0 is 1 */
    const char *const *special; /* [specials] UTF-8, each once, matched as written in a text */
    size_t specials;
    const char *bos, *eos; /* special tokens that tokenizer_config.json names so; NULL: none */
} pare_tok_train_opts;

typedef struct pare_tok_trained {
    const char *json; /* tokenizer.json [json_len], NUL behind; so is the next */
    size_t json_len;
    const char *config; /* tokenizer_config.json [config_len] */
    size_t config_len;
    pare_tokenizer *tokenizer; /* reads what the two say; owned: pare_tokenizer_free */
    size_t vocab;              /* tokens: opts->vocab */
    size_t merges;
    uint64_t bytes, words; /* of the texts; words: with repetitions */
    size_t distinct;       /* words, each once */
    size_t invalid;        /* parts of the texts that were no UTF-8: read as U+FFFD */
} pare_tok_trained;

/* Learns a tokenizer of opts->vocab tokens from the texts [count].
 *
 * Returns PARE_OK, or
 *   PARE_EUSAGE       a vocabulary smaller than the 256 bytes and the special tokens, or above
 *                     PARE_TOK_TRAIN_VOCAB_MOST; a special token that is empty, repeated, no UTF-8
 *                     or too long; bos or eos that is none of them; no text; a text that gives
 *                     fewer tokens than asked (the message says how many)
 *   PARE_ENOTSUP      distinct words of 4 GiB or more together
 *   PARE_EINTERRUPTED a signal asked to stop (looked for between words and merges)
 *   PARE_ENOMEM
 *
 * Memory   *out in `a`. While it works, about 40 bytes for each byte of the distinct words, and
 *          the texts once more where they are no UTF-8.
 * Work     O(bytes), then for each merge the length of the distinct words that hold its pair.
 * Exact    same bytes for any number of threads.
 * Source   Sennrich et al., ACL 2016, with the order of ties and of merges that make a special
 *          token as in huggingface/tokenizers, models/bpe/trainer.rs; counts of 64 bits. */
PARE_CHECKED pare_status pare_tokenizer_train(pare_ctx *cx, pare_arena *a,
                                              const pare_tok_train_text *texts, size_t count,
                                              const pare_tok_train_opts *opts,
                                              pare_tok_trained *out);

#endif
