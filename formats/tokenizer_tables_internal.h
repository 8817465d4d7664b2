/* formats/tokenizer_tables_internal.h - tables of a tokenizer: tokens, merges, scored pieces,
 * charsmap.
 *
 * Filled when a file is parsed, read-only after that. Texts are borrowed from the arena of the
 * tokenizer and are valid UTF-8. */
#ifndef PARE_FORMATS_TOKENIZER_TABLES_INTERNAL_H
#define PARE_FORMATS_TOKENIZER_TABLES_INTERNAL_H

#include <stdbool.h>

#include "runtime/arena.h"

/* Bytes borrowed from someone who lives longer; no NUL behind. */
typedef struct pare_tok_slice {
    const char *at;
    size_t len;
} pare_tok_slice;

/* Tokens by text and by id. Slots hold an index into `entries` plus one, 0 is free; their number is
 * a power of two, at least twice the capacity. */
typedef struct pare_tok_entry {
    pare_tok_slice text;
    int32_t id;
} pare_tok_entry;

typedef struct pare_tok_vocab {
    pare_tok_entry *entries;
    size_t count, capacity, mask;
    uint32_t *by_text, *by_id;
} pare_tok_vocab;

PARE_CHECKED pare_status pare__vocab_init(pare_arena *a, pare_tok_vocab *v, size_t capacity);

/* Adds a token; `text` is borrowed. Returns the entry that has the text or the id already, else
 * NULL. The caller keeps to the capacity. */
const pare_tok_entry *pare__vocab_add(pare_tok_vocab *v, pare_tok_slice text, int32_t id);
const pare_tok_entry *pare__vocab_by_text(const pare_tok_vocab *v, const char *at, size_t len);
const pare_tok_entry *pare__vocab_by_id(const pare_tok_vocab *v, int32_t id);

/* Merges by the pair of ids; left < 0 is a free slot. A lower rank merges first. */
typedef struct pare_tok_merge {
    int32_t left, right, rank, id;
} pare_tok_merge;

typedef struct pare_tok_merges {
    pare_tok_merge *slots;
    size_t mask;
} pare_tok_merges;

PARE_CHECKED pare_status pare__merges_init(pare_arena *a, pare_tok_merges *m, size_t capacity);
void pare__merges_put(pare_tok_merges *m, pare_tok_merge merge); /* replaces an equal pair */
const pare_tok_merge *pare__merges_find(const pare_tok_merges *m, int32_t left, int32_t right);

/* What a piece is for, in the numbers of a tokenizer.model. */
typedef enum pare_tok_type {
    PARE_TOK_NORMAL = 1,
    PARE_TOK_UNKNOWN = 2,
    PARE_TOK_CONTROL = 3,
    PARE_TOK_USER = 4, /* always found, before any other */
    PARE_TOK_UNUSED = 5,
    PARE_TOK_BYTE = 6
} pare_tok_type;

/* Pieces in the order of their bytes: those that start with the first n bytes of a text are a range
 * of the list, which narrows byte by byte. */
typedef struct pare_tok_sorted {
    const pare_tok_entry **list;
    size_t count;
    uint32_t first[257]; /* pieces that start with byte b: [first[b], first[b + 1]) */
} pare_tok_sorted;

/* The search for pieces that start at one place; begin with {0, count, 0}. */
typedef struct pare_tok_range {
    size_t low, high, depth;
} pare_tok_range;

/* Takes `byte`; false when no piece goes on like this. *whole is then the piece that ends here. */
bool pare__sorted_step(const pare_tok_sorted *s, pare_tok_range *r, unsigned char byte,
                       const pare_tok_entry **whole);
/* The longest piece that starts text [len], NULL without one. */
const pare_tok_entry *pare__sorted_longest(const pare_tok_sorted *s, const char *text, size_t len);

typedef enum pare_tok_model {
    PARE_TOK_MERGES, /* pairs of tokens by rank */
    PARE_TOK_SCORES, /* neighbours whose text is a piece, by its score */
    PARE_TOK_UNIGRAM /* the path of pieces with the largest sum of scores */
} pare_tok_model;

/* Scored pieces; score, rank and type by the index into the vocabulary. */
typedef struct pare_tok_pieces {
    double *score;
    int32_t *rank;       /* of the score, 0 for the best; equal scores share one. SCORES */
    unsigned char *type; /* pare_tok_type; NULL: all are normal */
    pare_tok_sorted normal, user;
    double least, most; /* scores of normal pieces */
    bool single;        /* sums are kept in single precision */
    uint64_t *pairs;    /* bits of pairs of characters that some piece holds side by side, and by
                           chance a few more. SCORES */
    size_t pair_mask;
} pare_tok_pieces;

/* Sorted lists of the pieces, and their least and largest score. score and type were filled. */
PARE_CHECKED pare_status pare__pieces_sort(pare_arena *a, const pare_tok_vocab *v,
                                           pare_tok_pieces *p);
/* Ranks and pairs. */
PARE_CHECKED pare_status pare__pieces_rank(pare_arena *a, const pare_tok_vocab *v,
                                           pare_tok_pieces *p);
bool pare__pieces_pair(const pare_tok_pieces *p, uint32_t left, uint32_t right);
pare_tok_type pare__pieces_type(const pare_tok_vocab *v, const pare_tok_pieces *p,
                                const pare_tok_entry *entry);

/* Rules that replace texts: a double array (units of the Darts layout, little-endian) whose values
 * are places in `texts`, where a replacement ends in NUL. */
typedef struct pare_tok_charsmap {
    const unsigned char *units;
    size_t count;
    const char *texts;
    size_t texts_len;
} pare_tok_charsmap;

/* Takes a map apart: bytes of the array as a 32-bit number, the array, the texts. `bytes` are
 * borrowed. PARE_EFORMAT with a message that starts with `where`. */
PARE_CHECKED pare_status pare__charsmap_parse(pare_ctx *cx, const char *where, const char *bytes,
                                              size_t len, pare_tok_charsmap *out);
/* The rule for the longest or shortest prefix of `in`: its length and text; 0 without one. */
size_t pare__charsmap_find(const pare_tok_charsmap *m, pare_tok_slice in, bool longest,
                           pare_tok_slice *text);

/* How a tokenizer.model treats a text before it is cut into pieces. */
typedef struct pare_tok_sentence {
    bool dummy_prefix, squeeze, escape, suffix;
} pare_tok_sentence;

#endif
