/* formats/tokenizer_encode_internal.h - the state of one encode call and its steps. */
#ifndef PARE_FORMATS_TOKENIZER_ENCODE_INTERNAL_H
#define PARE_FORMATS_TOKENIZER_ENCODE_INTERNAL_H

#include "formats/tokenizer_internal.h"

/* Cuts a text at added tokens. A piece with id -1 is text. */
typedef struct pare_tok_piece {
    size_t begin, end;
    int32_t id;
} pare_tok_piece;

typedef struct pare_tok_cutter {
    const pare_tok_trie *trie;
    pare_tok_slice text;
    size_t scan, done;
    pare_tok_piece held; /* a token that follows the text just given */
} pare_tok_cutter;

typedef struct pare_tok_symbol {
    int32_t id, prev, next; /* id -1: merged away */
} pare_tok_symbol;

typedef struct pare_tok_candidate {
    uint64_t key; /* rank, then position: the smallest merges first */
    int32_t id;
} pare_tok_candidate;

/* A symbol of SCORES: part of the word, empty when merged away. */
typedef struct pare_tok_part {
    pare_tok_slice text;
    int32_t prev, next;
    bool frozen;
} pare_tok_part;

/* A place of the word in UNIGRAM: the best sum up to it and the piece that ends here (NULL: an
 * unknown character); from SIZE_MAX: none yet. */
typedef struct pare_tok_place {
    size_t from;
    double sum;
    const pare_tok_entry *piece;
} pare_tok_place;

/* State of one encode call. */
typedef struct pare_tok_encoder {
    pare_ctx *cx;
    const pare_tokenizer *t;
    pare_arena keep;    /* buffers that grow */
    pare_arena scratch; /* texts of one segment */
    int32_t *ids;
    size_t count, ids_capacity;
    pare_tok_symbol *symbols;
    size_t symbol_count, symbol_capacity;
    pare_tok_candidate *heap;
    size_t heap_count, heap_capacity;
    pare_tok_part *parts;
    size_t part_count, part_capacity;
    pare_tok_place *places;
    size_t place_capacity;
    pare_tok_slice unknown; /* characters without a piece that are not given out yet */
    const char *start;      /* where the normalized text starts; NULL behind its first segment */
    char *word;
    size_t word_capacity;
    pare_regex_matcher *matcher;
    bool cuts; /* words give their lengths in bytes instead of ids */
} pare_tok_encoder;

/* Room for `need` objects of `size` bytes in a buffer of e->keep; keeps the first `used`. */
PARE_CHECKED pare_status pare__reserve(pare_tok_encoder *e, void **buffer, size_t *capacity,
                                       size_t used, size_t need, size_t size);
PARE_CHECKED pare_status pare__encode_id(pare_tok_encoder *e, int32_t id);
/* A piece of the word; id -1: characters without one, which wait for the rest of their run. */
PARE_CHECKED pare_status pare__encode_piece(pare_tok_encoder *e, pare_tok_slice text, int32_t id);
PARE_CHECKED pare_status pare__encode_unknown(pare_tok_encoder *e);
PARE_CHECKED pare_status pare__encode_scores(pare_tok_encoder *e, pare_tok_slice word);
PARE_CHECKED pare_status pare__encode_unigram(pare_tok_encoder *e, pare_tok_slice word);

/* Candidates by rank and place; the smallest comes out first. */
PARE_CHECKED pare_status pare__heap_push(pare_tok_encoder *e, uint32_t rank, int32_t at,
                                         int32_t id);
pare_tok_candidate pare__heap_pop(pare_tok_encoder *e);

PARE_CHECKED pare_status pare__encode_word(pare_tok_encoder *e, pare_tok_slice word);
PARE_CHECKED pare_status pare__split_words(pare_tok_encoder *e, size_t stage, pare_tok_slice text);
/* The first match at or behind `from`; begin SIZE_MAX when there is none. */
PARE_CHECKED pare_status pare__pattern_find(pare_tok_encoder *e, const pare_regex *code,
                                            pare_tok_slice text, size_t from, size_t *begin,
                                            size_t *end);
PARE_CHECKED pare_status pare__split_begin(pare_tok_encoder *e, size_t len);
void pare__split_end(pare_tok_encoder *e);
/* True when the character at `at` of the text belongs to a word. */
PARE_CHECKED pare_status pare__is_word(pare_tok_encoder *e, pare_tok_slice text, size_t at,
                                       bool *word);
/* The next piece; *more is false at the end. */
PARE_CHECKED pare_status pare__cutter_next(pare_tok_encoder *e, pare_tok_cutter *c,
                                           pare_tok_piece *piece, bool *more);

#endif
