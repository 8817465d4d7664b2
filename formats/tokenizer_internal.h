/* formats/tokenizer_internal.h - what the tokenizer's files share.
 *
 *     bytes --clean--> UTF-8 --added tokens--> segments --normalizer--> text --added tokens-->
 *     pieces --stages (patterns)--> words --byte alphabet--> symbols --merges--> ids
 *
 * Everything in a pare_tokenizer is read-only after parsing: threads may share one, each with a
 * context of its own. */
#ifndef PARE_FORMATS_TOKENIZER_INTERNAL_H
#define PARE_FORMATS_TOKENIZER_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "formats/json.h"
#include "formats/tokenizer.h"

enum {
    PARE_TOK_STEPS_MAX = 8,       /* normalizers, and stages of the pre-tokenizer */
    PARE_TOK_PATTERN_MAX = 16384, /* bytes of one pattern */
    PARE_TOK_GROWTH = 16          /* a normalizer may make a text this many times longer */
};

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

typedef enum pare_tok_step_kind {
    PARE_TOK_PREPEND,
    PARE_TOK_REPLACE,
    PARE_TOK_NFC
} pare_tok_step_kind;

typedef struct pare_tok_step {
    pare_tok_step_kind kind;
    pare_tok_slice pattern, content;
} pare_tok_step;

/* A stage of the pre-tokenizer: a pattern that cuts, or (NULL) a space in front. */
typedef struct pare_tok_stage {
    pcre2_code *code;
} pare_tok_stage;

typedef struct pare_tok_added {
    pare_tok_slice content, shown; /* in the file; to match and to decode: normalized if asked */
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} pare_tok_added;

/* Added tokens as a tree of bytes; node 0 is the root, `added` an index plus one or 0. */
typedef struct pare_tok_node {
    uint32_t child, sibling, added;
    unsigned char byte;
} pare_tok_node;

typedef struct pare_tok_trie {
    pare_tok_node *nodes;
    size_t count;
    bool first[256]; /* bytes that start a token */
} pare_tok_trie;

typedef struct pare_tok_decoder {
    bool given, byte_level, byte_fallback, fuse;
    pare_tok_step replace[PARE_TOK_STEPS_MAX];
    size_t replaces;
    pare_tok_slice strip; /* one character; at NULL: none */
    size_t strip_start, strip_stop;
} pare_tok_decoder;

struct pare_tokenizer {
    pare_ctx *cx; /* of the parse; frees */
    pare_arena arena;
    pare_tok_vocab vocab, added_vocab;
    pare_tok_merges merges;
    pare_tok_merges joins; /* pairs of first symbols that some merge joins; slots NULL: not known */
    pare_tok_added *added; /* in the order of added_vocab.entries */
    size_t added_count;
    pare_tok_trie raw_trie, normalized_trie;
    pare_tok_step steps[PARE_TOK_STEPS_MAX];
    size_t step_count;
    pare_tok_stage stages[PARE_TOK_STEPS_MAX];
    size_t stage_count;
    pcre2_general_context *regex; /* the allocator behind the codes */
    pcre2_code *word_code;        /* one word character; NULL unless single_word is used */
    pare_tok_decoder decoder;
    bool byte_level, byte_fallback, fuse_unk, ignore_merges, add_bos;
    const char *unk_text;      /* NULL: none */
    int32_t unk;               /* -1: none or not in the vocabulary */
    int32_t byte_ids[256];     /* byte alphabet's character of a byte; -1: no token */
    int32_t fallback_ids[256]; /* <0xXX> */
    char byte_text[256][2];    /* UTF-8 of the byte alphabet */
    unsigned char byte_len[256];
    int16_t text_byte[0x180]; /* code point to byte, -1 */
    int32_t bos, eos;
    size_t size; /* largest id + 1 */
};

/* tokenizer_text.c */

/* Length of the sequence at `at` (left > 0): a whole character (*valid), or the longest part of one
 * that is replaced as a whole. */
size_t pare__utf8_length(const char *at, size_t left, bool *valid);
/* Reads a character of text known to be valid. Returns its length. */
size_t pare__utf8_read(const char *at, uint32_t *code_point);
bool pare__is_space(uint32_t code_point); /* White_Space of Unicode */
void pare__byte_alphabet(pare_tokenizer *t);
PARE_CHECKED pare_status pare__text_clean(pare_arena *a, pare_tok_slice in, pare_tok_slice *out);
/* All normalizers in order. */
PARE_CHECKED pare_status pare__text_normalize(const pare_tokenizer *t, pare_arena *a,
                                              pare_tok_slice in, pare_tok_slice *out);
/* Every occurrence of step->pattern becomes step->content. */
PARE_CHECKED pare_status pare__text_replace(pare_arena *a, const pare_tok_step *step,
                                            pare_tok_slice in, pare_tok_slice *out);

/* tokenizer_nfc.c */
PARE_CHECKED pare_status pare__text_nfc(pare_arena *a, pare_tok_slice in, pare_tok_slice *out);

/* tokenizer_parse.c, tokenizer_stages.c: sections of the document. Messages without the file. */
PARE_CHECKED pare_status pare__parse_model(pare_ctx *cx, pare_tokenizer *t, const pare_json *doc);
PARE_CHECKED pare_status pare__parse_added(pare_ctx *cx, pare_tokenizer *t, const pare_json *doc);
PARE_CHECKED pare_status pare__parse_stages(pare_ctx *cx, pare_tokenizer *t, const pare_json *doc);
PARE_CHECKED pare_status pare__parse_decoder(pare_ctx *cx, pare_tokenizer *t, const pare_json *v);
PARE_CHECKED pare_status pare__parse_post(pare_ctx *cx, pare_tokenizer *t, const pare_json *v);

/* Members of an object with their type checked; `where` is the object's place for messages. */
typedef enum pare_tok_need { PARE_TOK_OPTIONAL, PARE_TOK_REQUIRED } pare_tok_need;
PARE_CHECKED pare_status pare__member_bool(pare_ctx *cx, const pare_json *object, const char *where,
                                           const char *key, pare_tok_need need, bool *out);
/* *out is taken from the arena; NULL when absent or null. */
PARE_CHECKED pare_status pare__member_text(pare_ctx *cx, pare_arena *a, const pare_json *object,
                                           const char *where, const char *key, pare_tok_need need,
                                           pare_tok_slice *out);
const char *pare__type_of(const pare_json *object); /* "" when it has none */
PARE_CHECKED pare_status pare__parse_replace(pare_ctx *cx, pare_tokenizer *t, const pare_json *v,
                                             const char *where, pare_tok_step *step);

/* tokenizer_added.c */
PARE_CHECKED pare_status pare__tries_build(pare_ctx *cx, pare_tokenizer *t);

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

/* tokenizer_pattern.c: a pattern in the dialect of tokenizer.json (Oniguruma, Ruby syntax) as one
 * of PCRE2 with the same meaning. What could differ is refused by name. NUL behind *out. */
PARE_CHECKED pare_status pare__pattern_translate(pare_ctx *cx, pare_arena *a, pare_tok_slice in,
                                                 pare_tok_slice *out);

/* tokenizer_split.c */
extern const char pare__gpt2_pattern[];
PARE_CHECKED pare_status pare__pattern_compile(pare_ctx *cx, pare_tokenizer *t, pare_tok_slice in,
                                               pcre2_code **out);
/* The same for a text in PCRE2's own dialect. */
PARE_CHECKED pare_status pare__code_compile(pare_ctx *cx, pare_tokenizer *t, pare_tok_slice text,
                                            pcre2_code **out);
PARE_CHECKED pare_status pare__regex_init(pare_ctx *cx, pcre2_general_context **out);

typedef struct pare_tok_symbol {
    int32_t id, prev, next; /* id -1: merged away */
} pare_tok_symbol;

typedef struct pare_tok_candidate {
    uint64_t key; /* rank, then position: the smallest merges first */
    int32_t id;
} pare_tok_candidate;

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
    char *word, *prefixed;
    size_t word_capacity, prefixed_capacity;
    pcre2_general_context *regex;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    uint64_t budget; /* steps that long matches may still take */
} pare_tok_encoder;

/* Room for `need` objects of `size` bytes in a buffer of e->keep; keeps the first `used`. */
PARE_CHECKED pare_status pare__reserve(pare_tok_encoder *e, void **buffer, size_t *capacity,
                                       size_t used, size_t need, size_t size);
PARE_CHECKED pare_status pare__encode_id(pare_tok_encoder *e, int32_t id);
PARE_CHECKED pare_status pare__encode_word(pare_tok_encoder *e, pare_tok_slice word);
PARE_CHECKED pare_status pare__split_words(pare_tok_encoder *e, size_t stage, pare_tok_slice text);
PARE_CHECKED pare_status pare__split_begin(pare_tok_encoder *e, size_t len);
void pare__split_end(pare_tok_encoder *e);
/* True when the character at `at` of the text belongs to a word. */
PARE_CHECKED pare_status pare__is_word(pare_tok_encoder *e, pare_tok_slice text, size_t at,
                                       bool *word);
/* The next piece; *more is false at the end. */
PARE_CHECKED pare_status pare__cutter_next(pare_tok_encoder *e, pare_tok_cutter *c,
                                           pare_tok_piece *piece, bool *more);

#endif
