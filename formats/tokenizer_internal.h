/* formats/tokenizer_internal.h - what the tokenizer's files share.
 *
 *     bytes --clean--> UTF-8 --added tokens--> segments --normalizer--> text --added tokens-->
 *     pieces --stages (patterns)--> words --byte alphabet--> symbols --merges--> ids
 * A pare_tokenizer is read-only after parsing: threads may share it, each with its own context. */
#ifndef PARE_FORMATS_TOKENIZER_INTERNAL_H
#define PARE_FORMATS_TOKENIZER_INTERNAL_H

#include "formats/json.h"
#include "formats/tokenizer.h"
#include "formats/tokenizer_tables_internal.h"
#include "runtime/regex.h"

enum {
    PARE_TOK_STEPS_MAX = 8,       /* normalizers, and stages of the pre-tokenizer */
    PARE_TOK_PATTERN_MAX = 16384, /* bytes of one pattern */
    PARE_TOK_GROWTH = 16          /* a normalizer may make a text this many times longer */
};

typedef enum pare_tok_step_kind {
    PARE_TOK_PREPEND,
    PARE_TOK_REPLACE, /* by `code` where it is not NULL, else by `pattern` */
    PARE_TOK_COMPOSE, /* NFC, NFD, NFKC, NFKD */
    PARE_TOK_STRIP,
    PARE_TOK_CHARSMAP, /* Precompiled */
    PARE_TOK_SENTENCE  /* all of what a tokenizer.model asks for */
} pare_tok_step_kind;

typedef struct pare_tok_step {
    pare_tok_step_kind kind;
    pare_tok_slice pattern, content;
    pare_regex *code;
    bool left, right, compatible, compose; /* of STRIP; of COMPOSE: K and C of the name */
} pare_tok_step;

/* A stage of the pre-tokenizer: it cuts at matches, or changes the text. */
typedef enum pare_tok_stage_kind {
    PARE_TOK_PATTERN, /* matches of `code` */
    PARE_TOK_LITERAL, /* matches of `text` */
    PARE_TOK_CLASS,   /* characters for which `belongs` holds */
    PARE_TOK_SPACE,   /* a space in front */
    PARE_TOK_MARK,    /* spaces become `text`, which is put in front as `prepend` says */
    PARE_TOK_BYTES    /* bytes become characters of the byte alphabet */
} pare_tok_stage_kind;

/* What becomes of a match. */
typedef enum pare_tok_behavior {
    PARE_TOK_ISOLATED,
    PARE_TOK_REMOVED,
    PARE_TOK_CONTIGUOUS, /* neighbouring matches are one */
    PARE_TOK_PREVIOUS,   /* joins what is before it */
    PARE_TOK_NEXT        /* joins what is behind it */
} pare_tok_behavior;

typedef enum pare_tok_prepend {
    PARE_TOK_ALWAYS,
    PARE_TOK_FIRST, /* only where the whole text starts */
    PARE_TOK_NEVER
} pare_tok_prepend;

typedef struct pare_tok_stage {
    pare_tok_stage_kind kind;
    pare_tok_behavior behavior;
    pare_tok_prepend prepend;
    bool invert; /* matches and what lies between them change places */
    pare_regex *code;
    pare_tok_slice text;
    bool (*belongs)(uint32_t code_point);
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
    bool metaspace, mark_first; /* mark_first: the first token loses what replace[0] looks for */
    pare_tok_step replace[PARE_TOK_STEPS_MAX];
    size_t replaces;
    pare_tok_slice strip; /* one character; at NULL: none */
    size_t strip_start, strip_stop;
    pare_tok_slice
        peel; /* tokens lose it while the text is empty: the first that has it, or each */
    bool peel_each;
} pare_tok_decoder;

struct pare_tokenizer {
    pare_ctx *cx; /* of the parse; frees */
    pare_arena arena;
    pare_tok_model model;
    pare_tok_vocab vocab, added_vocab;
    pare_tok_pieces pieces; /* SCORES, UNIGRAM */
    pare_tok_charsmap charsmap;
    pare_tok_sentence sentence;
    pare_tok_merges merges;
    pare_tok_merges joins; /* pairs of first symbols that some merge joins; slots NULL: not known */
    pare_tok_added *added; /* in the order of added_vocab.entries */
    size_t added_count;
    pare_tok_trie raw_trie, normalized_trie;
    pare_tok_step steps[PARE_TOK_STEPS_MAX];
    size_t step_count;
    pare_tok_stage stages[PARE_TOK_STEPS_MAX];
    size_t stage_count;
    pare_regex *word_code; /* one word character; NULL unless single_word is used */
    pare_tok_decoder decoder;
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    const char *unk_text;      /* NULL: none */
    int32_t unk;               /* -1: none or not in the vocabulary */
    int32_t byte_ids[256];     /* byte alphabet's character of a byte; -1: no token */
    int32_t fallback_ids[256]; /* <0xXX> */
    char byte_text[256][2];    /* UTF-8 of the byte alphabet */
    unsigned char byte_len[256];
    int16_t text_byte[0x180]; /* code point to byte, -1 */
    int32_t bos, eos;
    pare_tok_around around;
    size_t size; /* largest id + 1 */
};

/* A file to read: a tokenizer.json or, is_model, a tokenizer.model; and tokens that other files
 * add.
 */
typedef struct pare_tok_source {
    const char *name, *text;
    size_t len;
    bool is_model;
    const pare_tok_added *more;
    size_t count;
} pare_tok_source;

PARE_CHECKED pare_status pare__tokenizer_read(pare_ctx *cx, const pare_tok_source *from,
                                              pare_tokenizer **out);
/* As pare_tokenizer_encode, but of a word the length in bytes, instead of the ids of its tokens. */
PARE_CHECKED pare_status pare__tokenizer_cut(pare_ctx *cx, const pare_tokenizer *t, pare_arena *a,
                                             const char *text, size_t len, int32_t **lengths,
                                             size_t *count);
PARE_CHECKED pare_status pare__model_read(pare_ctx *cx, pare_tokenizer *t, const void *bytes,
                                          size_t len, const pare_tok_added *more, size_t count);

/* tokenizer_text.c */

/* Bytes that grow in an arena. */
typedef struct pare_tok_text {
    pare_arena *arena;
    char *at;
    size_t len, capacity;
} pare_tok_text;
PARE_CHECKED pare_status pare__text_append(pare_tok_text *text, const char *at, size_t len);

/* Length of the sequence at `at` (left > 0): a whole character (*valid), or the longest part of one
 * that is replaced as a whole. */
size_t pare__utf8_length(const char *at, size_t left, bool *valid);
/* Reads a character of text known to be valid. Returns its length. */
size_t pare__utf8_read(const char *at, uint32_t *code_point);
bool pare__is_space(uint32_t code_point);       /* White_Space of Unicode */
bool pare__is_number(uint32_t code_point);      /* Nd, Nl, No; tokenizer_cut.c */
bool pare__is_punctuation(uint32_t code_point); /* P*, and signs of ASCII */
void pare__byte_alphabet(pare_tokenizer *t);
PARE_CHECKED pare_status pare__text_clean(pare_arena *a, pare_tok_slice in, pare_tok_slice *out);
/* The byte alphabet's text of bytes; `out` has room for two bytes each. Returns its length. */
size_t pare__text_spell(const pare_tokenizer *t, pare_tok_slice in, char *out);
/* All normalizers in order. *cut (or NULL): whether the first character went without another in its
 * place; then the text does not start where the text that was given starts. */
PARE_CHECKED pare_status pare__text_normalize(const pare_tokenizer *t, pare_arena *a,
                                              pare_tok_slice in, pare_tok_slice *out, bool *cut);
/* The first occurrence of `what`, which is not empty, at or behind `from`; in.len without one. */
size_t pare__text_find(pare_tok_slice in, size_t from, pare_tok_slice what);
/* Every occurrence of step->pattern becomes step->content. */
PARE_CHECKED pare_status pare__text_replace(pare_arena *a, const pare_tok_step *step,
                                            pare_tok_slice in, pare_tok_slice *out);

PARE_CHECKED pare_status pare__text_charsmap(const pare_tokenizer *t, pare_arena *a,
                                             pare_tok_slice in, pare_tok_slice *out);
PARE_CHECKED pare_status pare__text_sentence(const pare_tokenizer *t, pare_arena *a,
                                             pare_tok_slice in, pare_tok_slice *out);

/* tokenizer_nfc.c: the canonical or compatible form, composed or not. */
PARE_CHECKED pare_status pare__text_compose(pare_arena *a, const pare_tok_step *step,
                                            pare_tok_slice in, pare_tok_slice *out);

/* tokenizer_parse.c, _stages.c, _steps.c, _decode.c: sections of the document. Messages without the
 * file. */
PARE_CHECKED pare_status pare__parse_model(pare_ctx *cx, pare_tokenizer *t, const pare_json *doc);
/* added_tokens, and `more` [count] tokens behind them: id -1 takes the id of the vocabulary, and is
 * left out when that has none; so are repeated ones. One of added_tokens that `more` has with an
 * id is found as that says. */
PARE_CHECKED pare_status pare__parse_added(pare_ctx *cx, pare_tokenizer *t, const pare_json *doc,
                                           const pare_tok_added *more, size_t count);
PARE_CHECKED pare_status pare__parse_stages(pare_ctx *cx, pare_tokenizer *t, const pare_json *doc);
PARE_CHECKED pare_status pare__parse_normalizer(pare_ctx *cx, pare_tokenizer *t,
                                                const pare_json *v);
/* replacement and prepend_scheme of Metaspace. */
PARE_CHECKED pare_status pare__parse_mark(pare_ctx *cx, pare_arena *a, const pare_json *v,
                                          const char *where, pare_tok_slice *mark,
                                          pare_tok_prepend *prepend);
PARE_CHECKED pare_status pare__parse_decoder(pare_ctx *cx, pare_tokenizer *t, const pare_json *v);
PARE_CHECKED pare_status pare__parse_post(pare_ctx *cx, pare_tokenizer *t, const pare_json *v);

bool pare__spells_bytes(const pare_tokenizer *t); /* words are in the byte alphabet */
void pare__ids_fill(pare_tokenizer *t);           /* ids of single bytes and of unk_text */
/* Records that `id` is used; `token` is for the message. */
PARE_CHECKED pare_status pare__size_grow(pare_ctx *cx, pare_tokenizer *t, int64_t id,
                                         const char *token);

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

/* tokenizer_pattern.c: a pattern in the dialect of tokenizer.json (Oniguruma, Ruby syntax) as one
 * of PCRE2 with the same meaning. What could differ is refused by name. NUL behind *out. */
PARE_CHECKED pare_status pare__pattern_translate(pare_ctx *cx, pare_arena *a, pare_tok_slice in,
                                                 pare_tok_slice *out);

/* tokenizer_split.c */
extern const char pare__gpt2_pattern[], pare__qwen_pattern[];
/* Every match of step->code becomes step->content. */
PARE_CHECKED pare_status pare__text_replace_matches(const pare_tokenizer *t, pare_arena *a,
                                                    const pare_tok_step *step, pare_tok_slice in,
                                                    pare_tok_slice *out);
PARE_CHECKED pare_status pare__pattern_compile(pare_ctx *cx, pare_tokenizer *t, pare_tok_slice in,
                                               pare_regex **out);
/* For a text in PCRE2's own dialect. */
PARE_CHECKED pare_status pare__code_compile(pare_ctx *cx, pare_tokenizer *t, pare_tok_slice text,
                                            pare_regex **out);

#endif
